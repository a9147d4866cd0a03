/// Every allocation may fail: modules, files and printing.
#include "tests/support/data_files.h"
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "examples/networks/layers.h"
#include "tests/support/layers.h"
#include "tests/support/networks.h"
#include "nn/entries.h"
#include "nn/fold.h"
#include "tensor/memory.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool keep_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    fault_keep(context, tensor);
    return true;
}

/* LeNet's layers in small, with normalisation: [N,2,10,9] to [N,3]. */
static talc_module *small_net(uint64_t seed)
{
    talc_manual_seed(seed);
    return TALC_SEQUENTIAL(CONV2D(.in_channels = 2, .out_channels = 4, .kernel = { 3, 2 }),
                           BATCH_NORM2D(.channels = 4), talc_nn_relu(),
                           MAX_POOL2D(.kernel = { 2, 2 }), talc_nn_flatten(), LINEAR(64, 3));
}

#define SURVIVES(test, at_least, ...)                                                              \
    TEST_SURVIVES(allocation_failure_nn, test, at_least, __VA_ARGS__)

// ---- Building and moving ------------------------------------------------------------------------

static void run_build(fault_run *run)
{
    talc_manual_seed(3);
    owned_module *net = lenet_new();
    if (net != NULL)
        talc_module_visit(net, keep_parameter, run);
}

SURVIVES(building_lenet, 60, "build LeNet", NULL, run_build, NULL, NULL)

/* What the networks of examples/ are made of: a block behind a Sequential in a Sequential. */
static void run_block(fault_run *run)
{
    talc_manual_seed(3);
    talc_module *block = block_new((block_options){ TALC_ACTIVATION_RELU, false });
    block_add(block, "conv", conv(4, 6, 3, 1, 1));
    block_add(block, "bn", norm(6));
    block_shortcut(block, "shortcut", conv(4, 6, 1, 1, 1));
    owned_module *net = TALC_SEQUENTIAL(conv_norm(3, 4, 3, 1, 1, talc_nn_relu()), block);
    if (net != NULL) {
        talc_no_grad_enter();
        talc_module_eval(net);
        fault_keep(run, talc_forward(net, op_numbers(run->device, TALC_DIMS(1, 3, 4, 4), 1)));
        talc_no_grad_leave();
    }
}

Test(allocation_failure_nn, building_and_running_a_block)
{
    const fault_scenario scenario = { "block", NULL, run_block, NULL, NULL };
    cr_assert(assert_survives_allocation_failures(&scenario, cpu_device()) > 80);
}

typedef struct devices_seen {
    talc_device *first;
    bool mixed;
} devices_seen;

static bool see_device(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    devices_seen *seen = context;
    seen->first = seen->first == NULL ? tensor->device : seen->first;
    seen->mixed = seen->mixed || seen->first != tensor->device;
    return true;
}

static void run_move(fault_run *run)
{
    owned_module *net = small_net(4);
    if (!talc_failed()) {
        talc_module_to(net, run->device);
        talc_module_to(net, other_fake_device());
        talc_module_cast(net, TALC_F64);
        talc_module_visit(net, keep_parameter, run);
    }
}

SURVIVES(moving_a_module, 60, "move", NULL, run_move, NULL, NULL)

/* A move stopped anywhere leaves all tensors where they were. */
Test(allocation_failure_nn, a_module_moves_whole_or_not_at_all)
{
    owned_module *net = small_net(4);
    for (size_t limit = 256; net != NULL; limit += 256) {
        fake_device_limit_memory(fake_device(), limit);
        bool moved = talc_module_to(net, fake_device());
        talc_error_clear();
        devices_seen seen = { 0 };
        talc_module_visit(net, see_device, &seen);
        cr_assert(!seen.mixed && seen.first == (moved ? fake_device() : cpu_device()),
                  "a move stopped at %zu bytes", limit);
        if (moved)
            break;
    }
}

// ---- Forward passes -----------------------------------------------------------------------------

typedef struct net_and_input {
    talc_module *net;
    talc_tensor *x;
} net_and_input;

static void *begin_net(talc_device *device, talc_module *net, talc_dims dims)
{
    net_and_input *fixture = malloc(sizeof *fixture);
    *fixture = (net_and_input){ net, op_numbers(device, dims, 5) };
    talc_module_eval(net);
    talc_module_to(net, device);
    return fixture;
}

static void run_forward(fault_run *run)
{
    const net_and_input *fixture = run->fixture;
    fault_keep(run, talc_forward(fixture->net, fixture->x));
    /* Kept for the next pass, which makes them again. */
    talc_module_forget_folds(fixture->net);
}

static void keep_net(fault_run *run)
{
    const net_and_input *fixture = run->fixture;
    talc_module_visit(fixture->net, keep_parameter, run);
    fault_keep(run, fixture->x);
}

static void end_net(void *fixture)
{
    talc_module_free(((net_and_input *)fixture)->net);
    free(fixture);
}

static void *begin_small_net(talc_device *device)
{
    return begin_net(device, small_net(6), TALC_DIMS(2, 2, 10, 9));
}

static void *begin_lenet(talc_device *device)
{
    talc_manual_seed(7);
    return begin_net(device, lenet_new(), TALC_DIMS(1, 1, 28, 28));
}

/* The module that talc grew out of, its kernel and channels in small. */
typedef struct model_new {
    talc_module base;
    talc_module *conv2d;
} model_new;

static bool model_new_init(talc_module *module, const void *options)
{
    model_new *self = (model_new *)module;
    self->conv2d = talc_module_add(module, "conv2d", talc_nn_conv2d(options));
    return self->conv2d != NULL;
}

static talc_tensor *model_new_forward(talc_module *module, talc_tensor *x)
{
    return talc_forward(((model_new *)module)->conv2d, x);
}

static const talc_module_class model_new_class = { .name = "ModelNew",
                                                   .size = sizeof(model_new),
                                                   .init = model_new_init,
                                                   .forward = model_new_forward };

static void *begin_model_new(talc_device *device)
{
    talc_manual_seed(8);
    const talc_conv2d_layer layer = {
        .in_channels = 4, .out_channels = 8, .kernel = { 5, 7 }, .no_bias = true
    };
    return begin_net(device, talc_module_new(&model_new_class, &layer), TALC_DIMS(2, 4, 16, 12));
}

SURVIVES(a_small_net, 9, "small net", begin_small_net, run_forward, keep_net, end_net)
SURVIVES(lenet, 9, "LeNet", begin_lenet, run_forward, keep_net, end_net)
SURVIVES(model_new, 9, "ModelNew", begin_model_new, run_forward, keep_net, end_net)

static void run_summary(fault_run *run)
{
    const net_and_input *fixture = run->fixture;
    owned_char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    talc_module_explanation explanation = { 0 };
    bool ok = talc_module_summary(file, fixture->net, fixture->x) &&
              talc_module_explain(fixture->net, fixture->x, &explanation) &&
              talc_print(file, fixture->x);
    talc_module_explanation_print(file, &explanation);
    talc_module_explanation_free(&explanation);
    talc_module_forget_folds(fixture->net);
    fclose(file);
    if (ok)
        fault_keep_bytes(run, text, size);
}

SURVIVES(summary_and_printing, 40, "summary", begin_small_net, run_summary, keep_net, end_net)

/* Parameters and buffers, which f64 copies stand in for, are what they were whatever happens. */
static void *begin_norm(talc_device *device)
{
    talc_module *norm = BATCH_NORM2D(.channels = 1);
    net_and_input *fixture = begin_net(device, norm, TALC_DIMS(3, 1, 1, 1));
    talc_module_train(norm);
    talc_require_grad(talc_module_find(norm, "bias"), false);
    fixture->x = talc_cast(fixture->x, TALC_F64);
    return fixture;
}

static void run_gradient(fault_run *run)
{
    const net_and_input *fixture = run->fixture;
    const talc_gradient_options options = { .directions = 1 };
    talc_gradient_report report;
    const bool passed = talc_check_module_gradient(fixture->net, fixture->x, &options, &report);
    cr_assert(passed != talc_failed(), "%d slopes, worst %g", report.count, report.worst);
    if (passed)
        fault_keep_bytes(run, &report.worst, sizeof report.worst);
}

SURVIVES(checking_a_gradient, 60, "check_gradient", begin_norm, run_gradient, keep_net, end_net)

// ---- Files --------------------------------------------------------------------------------------

/* The target of every save holds an old file, which a failure must leave. */
static const char old_content[] = "the old file";

static void run_save(fault_run *run, bool (*save)(fault_run *run, const char *path))
{
    const char *path = file_path("saved");
    file_write(path, old_content, sizeof old_content);
    bool saved = save(run, path);
    size_t size = 0;
    owned_char *bytes = file_bytes(path, &size);
    if (saved)
        fault_keep_bytes(run, bytes, size);
    else
        cr_assert(size == sizeof old_content && memcmp(bytes, old_content, size) == 0,
                  "a failed save broke the old file");
    cr_assert(file_count() == 1, "a temporary file is left");
}

static bool save_npy(fault_run *run, const char *path)
{
    return talc_npy_save(path, talc_transpose(((net_and_input *)run->fixture)->x, 1, 2));
}

static bool save_module(fault_run *run, const char *path)
{
    return talc_module_save(((net_and_input *)run->fixture)->net, path);
}

static void run_save_npy(fault_run *run)
{
    run_save(run, save_npy);
}

static void run_save_module(fault_run *run)
{
    run_save(run, save_module);
}

SURVIVES(saving_npy, 5, "npy save", begin_small_net, run_save_npy, keep_net, end_net)
SURVIVES(saving_a_module, 11, "module save", begin_small_net, run_save_module, keep_net, end_net)

static void run_load_npy(fault_run *run)
{
    talc_tensor *x = talc_npy_load(run->device, file_path("x.npy"));
    fault_keep(run, x);
}

static void run_load_safetensors(fault_run *run)
{
    owned_safetensors *file = talc_safetensors_open(file_path("net"));
    for (int64_t i = 0; i < talc_safetensors_count(file) && !talc_failed(); i++) {
        fault_keep_bytes(run, talc_safetensors_name(file, i),
                         strlen(talc_safetensors_name(file, i)));
        fault_keep(run, talc_safetensors_read(file, i, run->device));
    }
}

/* After a failure: asks with the hook off, so that reading works, and puts the failure back. */
static void unchanged(talc_module *net, const fault_run *before, fault_run *after)
{
    bool (*hook)(size_t) = talc_allocation_hook;
    talc_status status = talc_error_status();
    char message[256];
    snprintf(message, sizeof message, "%s", talc_error_message());
    talc_allocation_hook = NULL;
    talc_error_clear();
    talc_module_visit(net, keep_parameter, after);
    /* A failure while `before` was read leaves that short. */
    cr_assert((before->size == 0 || memcmp(before->results, after->results, before->size) == 0),
              "a failed load changed a parameter");
    talc_allocation_hook = hook;
    talc_fail(status, "%s", message);
}

static const talc_model_info described = { .network = "small",
                                           .channels = 3,
                                           .mean = { 0.5 },
                                           .classes = 2,
                                           .class_names = (const char *const[]){ "a", "b" } };

static void keep_names(fault_run *run, const talc_names_list *names)
{
    for (int64_t i = 0; i < names->count; i++)
        fault_keep_bytes(run, names->list[i], strlen(names->list[i]));
}

/* Described, saved, and read again with a report. */
static void run_described(fault_run *run)
{
    owned_module *net = small_net(11), *again = net == NULL ? NULL : small_net(6);
    talc_load_report report = { 0 };
    if (again != NULL && talc_module_describe(net, &described) &&
        talc_module_save(net, file_path("other")) &&
        talc_module_load_with(again, file_path("other"), NULL, &report))
        fault_keep_bytes(run, talc_module_info(again)->network, 5);
    talc_model_info *info = talc_failed() ? NULL : talc_model_info_read(file_path("other"));
    if (info != NULL)
        fault_keep_bytes(run, info->class_names[1], 1);
    if (!talc_failed())
        keep_names(run, &report.loaded);
    talc_model_info_free(info);
    talc_load_report_free(&report);
}

/* Into a net with other parameters: it takes all of them or none. */
static void load_module(fault_run *run, bool strict)
{
    owned_module *net = small_net(6);
    if (net != NULL && talc_module_to(net, run->device)) {
        fault_run before = { 0 }, after = { 0 };
        talc_module_visit(net, keep_parameter, &before);
        if (!talc_failed() && talc_module_load(net, file_path("net"), strict))
            talc_module_visit(net, keep_parameter, run);
        else
            unchanged(net, &before, &after);
        free(before.results);
        free(after.results);
    }
}

static void run_load_module(fault_run *run)
{
    load_module(run, true);
}

static void run_load_module_partly(fault_run *run)
{
    load_module(run, false);
}

static void run_load_image(fault_run *run)
{
    fault_keep(run, talc_image_load(file_path("x.png"), NULL));
}

static void run_differences(fault_run *run)
{
    FILE *null = fopen("/dev/null", "w");
    owned_module *relu = talc_nn_relu();
    const int64_t count = talc_module_differences(null, relu, file_path("net"));
    cr_assert((count == 9) != talc_failed() && (count == 9 || count == -1));
    fault_keep_bytes(run, &count, talc_failed() ? 0 : sizeof count);
    fclose(null);
}

static void *begin_files(talc_device *device)
{
    (void)device;
    static const uint8_t row[] = { 1, 2, 3 };
    write_png(file_path("x.png"), &(written_png){ .type = PNG_COLOR_TYPE_GRAY,
                                                  .depth = 8,
                                                  .height = 2,
                                                  .width = 3,
                                                  .rows = { row, row } });
    owned_module *net = small_net(11);
    talc_module_describe(net, &described);
    cr_assert(talc_module_save(net, file_path("net")), "%s", talc_error_message());
    cr_assert(talc_npy_save(file_path("x.npy"), op_numbers(cpu_device(), TALC_DIMS(4, 3), 2)));
    return NULL;
}

SURVIVES(loading_npy, 5, "npy load", begin_files, run_load_npy, NULL, NULL)
SURVIVES(loading_tensors, 11, "safetensors load", begin_files, run_load_safetensors, NULL, NULL)
SURVIVES(loading_a_module, 61, "module load", begin_files, run_load_module, NULL, NULL)
SURVIVES(loading_a_module_partly, 50, "partial load", begin_files, run_load_module_partly, NULL,
         NULL)
SURVIVES(loading_an_image, 5, "image load", begin_files, run_load_image, NULL, NULL)
SURVIVES(differences, 5, "differences", begin_files, run_differences, NULL, NULL)
SURVIVES(describing, 61, "describing", begin_files, run_described, NULL, NULL)
