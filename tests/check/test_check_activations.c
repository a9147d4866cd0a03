/// talc_check_model against saved activations, its errors, and what allocation failures leave behind.
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tests/support/networks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static talc_module *net_new(void)
{
    talc_manual_seed(5);
    talc_module *net = lenet_new();
    assert_no_failure();
    return net;
}

static talc_tensor *images(void)
{
    return op_numbers(cpu_device(), TALC_DIMS(2, 1, 28, 28), 3);
}

static talc_check_model_report *against(talc_module *model, talc_tensor *x, const char *path)
{
    talc_check_model_report *report = NULL;
    talc_check_model(model, x, &(talc_check_model_options){ .activations = path }, &report);
    assert_no_failure();
    return report;
}

static void assert_refused(talc_module *model, talc_tensor *x, talc_check_model_options options,
                           talc_status status, const char *message)
{
    talc_check_model_report *report = (talc_check_model_report *)(uintptr_t)&options;
    cr_assert(!talc_check_model(model, x, &options, &report));
    cr_assert(report == NULL);
    assert_failure(status, message);
    cr_assert(model == NULL || model->training);
}

/* The file at `from` again, but for what is done to the tensor `name`: spoiled by 1e-3 at one element when `to_name` is NULL,
 * else under that name. */
static void rewrite(const char *from, const char *to, const char *name, const char *to_name)
{
    talc_safetensors *file = talc_safetensors_open(from);
    talc_named_tensor list[32];
    const int64_t count = talc_safetensors_count(file);
    for (int64_t i = 0; i < count; i++) {
        list[i].name = talc_safetensors_name(file, i);
        list[i].tensor = talc_safetensors_read(file, i, cpu_device());
        if (strcmp(list[i].name, name) != 0)
            continue;
        if (to_name != NULL)
            list[i].name = to_name;
        else
            ((float *)list[i].tensor->data)[7] += 1e-3F;
    }
    cr_assert(talc_safetensors_save(to, list, count, NULL), "%s", talc_error_message());
    talc_safetensors_close(file);
}

// ---- Round trips --------------------------------------------------------------------------------------------

Test(check_activations, what_a_model_saves_is_what_it_gives)
{
    static const char *const names[] = { "conv1",   "conv2",  "fc1",  "fc2",   "fc3",
                                         "flatten", "output", "pool", "pool:2" };
    talc_module *net = net_new();
    const char *path = file_path("activations.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path), "%s", talc_error_message());
    cr_assert(net->training);

    talc_safetensors *file = talc_safetensors_open(path);
    cr_assert(talc_safetensors_count(file) == 9);
    for (int i = 0; i < 9; i++)
        cr_assert(talc_safetensors_find(file, names[i]) >= 0, "no %s", names[i]);
    cr_assert(talc_safetensors_dims(file, talc_safetensors_find(file, "pool:2")).dim[1] == 16);
    talc_safetensors_close(file);

    talc_check_model_report *report = against(net, images(), path);
    cr_assert(talc_check_model_passed(report));
    int compared = 0;
    for (int i = 0; i < talc_check_model_count(report); i++) {
        const talc_check_model_layer *layer = talc_check_model_at(report, i);
        cr_assert(!(layer->difference > 0) && !(layer->step > 0) && layer->passed);
        compared += layer->difference == 0;
    }
    /* 11 ops, of which four relu belong to no module of their own, and two views. */
    cr_assert(compared == 9 && talc_check_model_count(report) == 13, "%d of %d", compared,
              talc_check_model_count(report));
    talc_check_model_free(report);
    talc_module_free(net);
}

Test(check_activations, the_first_layer_that_differs_is_found)
{
    static const struct {
        const char *name, *path, *op;
    } cases[] = {
        { "conv1", "conv1", "conv2d" },     { "pool", "pool", "max_pool2d" },
        { "pool:2", "pool", "max_pool2d" }, { "flatten", "flatten", "output" },
        { "fc2", "fc2", "linear" },         { "output", "", "output" },
    };
    talc_module *net = net_new();
    const char *path = file_path("right.safetensors"), *spoiled = file_path("wrong.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rewrite(path, spoiled, cases[i].name, NULL);
        talc_check_model_report *report = against(net, images(), spoiled);
        cr_assert(!talc_check_model_passed(report), "%s", cases[i].name);
        const int wrong = talc_check_model_first_wrong(report);
        const talc_check_model_layer *first = talc_check_model_at(report, wrong);
        cr_assert(first != NULL && strcmp(first->path, cases[i].path) == 0 &&
                      strcmp(first->op, cases[i].op) == 0,
                  "%s: layer %d is the first wrong", cases[i].name, wrong);
        cr_assert(first->step > 1 && !(first->own > 1) && first->where.dim[0] == 0);
        cr_assert(fabs(first->due - first->got - 1e-3) < 1e-6, "%s: %g instead of %g",
                  cases[i].name, first->got, first->due);
        for (int j = 0; j < talc_check_model_count(report); j++) {
            const talc_check_model_layer *layer = talc_check_model_at(report, j);
            cr_assert(!(layer->own > 1));
            /* A view shows the element again that was found wrong, and explains it. */
            cr_assert(j == wrong || !(layer->step > 1), "%s: layer %d", cases[i].name, j);
            if (j > wrong && layer->step >= 0)
                cr_assert(layer->accumulated == first->step);
        }
        talc_check_model_free(report);
    }
    talc_module_free(net);
}

/* What lies between two saved outputs is bounded, not measured. */
Test(check_activations, some_of_the_layers_will_do)
{
    talc_module *net = net_new();
    talc_tensor *y, *x = images();
    talc_module_eval(net);
    talc_algorithm_force("conv2d", "reference");
    y = talc_forward(net, x);
    talc_algorithm_force("conv2d", NULL);
    const char *path = file_path("few.safetensors");
    cr_assert(talc_safetensors_save(
        path, (talc_named_tensor[]){ { "fc3.output", talc_cast(y, TALC_F64) } }, 1, NULL));
    talc_check_model_report *report = against(net, x, path);
    cr_assert(talc_check_model_passed(report) && talc_check_model_count(report) == 11);
    const talc_check_model_layer *last = talc_check_model_at(report, 10);
    cr_assert(last->difference > 0 && last->step >= 0 && last->step <= 1);
    cr_assert(isnan(talc_check_model_at(report, 9)->step));
    talc_check_model_free(report);

    cr_assert(talc_safetensors_save(
        path, (talc_named_tensor[]){ { ".output", talc_add_scalar(y, 0.1) } }, 1, NULL));
    report = against(net, x, path);
    cr_assert(talc_check_model_first_wrong(report) == 10, "%d",
              talc_check_model_first_wrong(report));
    talc_check_model_free(report);
    talc_module_free(net);
}

/* A child that is called "output" keeps its name. */
Test(check_activations, a_child_named_output)
{
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "output", talc_nn_tanh());
    talc_module_add(net, "last", talc_nn_sigmoid());
    const char *path = file_path("output.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path), "%s", talc_error_message());
    talc_safetensors *file = talc_safetensors_open(path);
    cr_assert(talc_safetensors_find(file, "output") >= 0 &&
              talc_safetensors_find(file, ".output") >= 0 && talc_safetensors_count(file) == 3);
    talc_safetensors_close(file);
    talc_check_model_report *report = against(net, images(), path);
    cr_assert(talc_check_model_passed(report) && talc_check_model_count(report) == 3);
    talc_check_model_free(report);
    talc_module_free(net);
}

// ---- Errors -------------------------------------------------------------------------------------------------

Test(check_activations, files_that_do_not_fit)
{
    talc_module *net = net_new();
    const char *path = file_path("a.safetensors"), *other = file_path("b.safetensors");
    char message[1024];
    cr_assert(talc_check_model_save_activations(net, images(), path));

    rewrite(path, other, "fc2", "fc9");
    snprintf(message, sizeof message,
             "check_model: '%s' has 'fc9', which no layer of the model gave", other);
    assert_refused(net, images(), (talc_check_model_options){ .activations = other },
                   TALC_NOT_FOUND, message);
    rewrite(path, other, "pool:2", "pool:3");
    snprintf(message, sizeof message,
             "check_model: '%s' has 'pool:3', which no layer of the model gave", other);
    assert_refused(net, images(), (talc_check_model_options){ .activations = other },
                   TALC_NOT_FOUND, message);

    snprintf(message, sizeof message,
             "check_model: '%s': 'conv1' is [2,6,28,28] in the file, [1,6,28,28] in the model",
             path);
    assert_refused(net, talc_slice(images(), 0, 0, 1, 1),
                   (talc_check_model_options){ .activations = path }, TALC_BAD_SHAPE, message);

    cr_assert(talc_safetensors_save(other, NULL, 0, NULL), "%s", talc_error_message());
    snprintf(message, sizeof message, "check_model: '%s' holds no tensor", other);
    assert_refused(net, images(), (talc_check_model_options){ .activations = other },
                   TALC_NOT_FOUND, message);
    const char *missing = file_path("missing.safetensors");
    snprintf(message, sizeof message, "%s: No such file or directory", missing);
    talc_check_model_report *report;
    cr_assert(!talc_check_model(net, images(),
                                &(talc_check_model_options){ .activations = missing }, &report));
    cr_assert(talc_error_status() == TALC_IO_ERROR &&
              strstr(talc_error_message(), missing) != NULL);
    talc_error_clear();
    talc_module_free(net);
}

Test(check_activations, bad_calls)
{
    talc_module *net = net_new();
    talc_tensor *x = images();
    talc_check_model_report *report;
    typedef talc_check_model_options options;
    assert_refused(NULL, x, (options){ 0 }, TALC_NULL_ARGUMENT, "check_model: model is NULL");
    assert_refused(net, NULL, (options){ 0 }, TALC_NULL_ARGUMENT, "check_model: x is NULL");
    cr_assert(!talc_check_model(net, x, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check_model: report is NULL");
    assert_refused(net, x, (options){ .activations = "a", .reference = cpu_device() },
                   TALC_BAD_ARGUMENT,
                   "check_model: activations stand in for the reference run, and a reference "
                   "device is asked for");
    assert_refused(net, x, (options){ .activations = "a", .reference_algorithm = "a=b" },
                   TALC_BAD_ARGUMENT,
                   "check_model: activations stand in for the reference run, and a reference "
                   "algorithm is asked for");
    assert_refused(net, x, (options){ .algorithm = "conv2d=fast" }, TALC_NOT_FOUND,
                   "conv2d on cpu: there is no algorithm 'fast'");
    assert_refused(net, x, (options){ .reference_algorithm = "matmul=reference" }, TALC_NOT_FOUND,
                   "check_model: matmul=reference is forced, and no op matmul ran");
    static const char *const bad[] = { "conv2d", "=im2col", "conv2d=", "conv2d=,relu=reference" };
    for (int i = 0; i < 4; i++) {
        char message[200];
        snprintf(message, sizeof message, "check_model: '%s' is no algorithm, expected OP=NAME",
                 i == 3 ? "conv2d=" : bad[i]);
        assert_refused(net, x, (options){ .algorithm = bad[i] }, TALC_BAD_ARGUMENT, message);
    }
    cr_assert(talc_algorithm_forced("conv2d") == NULL);
    cr_assert(!talc_check_model_save_activations(NULL, x, "a"));
    assert_failure(TALC_NULL_ARGUMENT, "check_model_save_activations: model is NULL");
    cr_assert(!talc_check_model_save_activations(net, NULL, "a"));
    assert_failure(TALC_NULL_ARGUMENT, "check_model_save_activations: x is NULL");
    cr_assert(!talc_check_model_save_activations(net, x, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check_model_save_activations: path is NULL");
    talc_fail(TALC_IO_ERROR, "an earlier failure");
    cr_assert(!talc_check_model(net, x, NULL, &report));
    assert_failure(TALC_IO_ERROR, "an earlier failure");
    talc_module_free(net);
}

/* A model that does something else each time. */
static int variant;
static talc_tensor *fickle_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    variant++;
    if (variant == 2)
        return talc_tanh(x);
    if (variant == 4)
        return talc_relu(talc_relu(x));
    return variant == 5 ? talc_relu(talc_relu(x)) : talc_relu(x);
}

Test(check_activations, runs_that_differ)
{
    static const talc_module_class fickle = { "Fickle", sizeof(talc_module),
                                              NULL,     fickle_forward,
                                              NULL,     NULL };
    talc_module *model = talc_module_new(&fickle, NULL);
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 3), 1);
    typedef talc_check_model_options options;
    assert_refused(model, x, (options){ 0 }, TALC_BAD_SHAPE,
                   "check_model: op 0 is tanh [2,3] in '', the reference ran relu [2,3] in ''");
    assert_refused(model, x, (options){ 0 }, TALC_BAD_SHAPE,
                   "check_model: op 1 is relu [2,3] in '', the reference ran 1 ops only");
    assert_refused(model, x, (options){ 0 }, TALC_BAD_SHAPE,
                   "check_model: the model ran 1 ops, the reference 2");
    talc_module_free(model);
}

// ---- Allocation failures ------------------------------------------------------------------------------------

typedef struct fixture {
    talc_module *net;
    talc_tensor *x;
    char path[512];
} fixture;

static void *begin(talc_device *device)
{
    fixture *f = calloc(1, sizeof *f);
    f->net = TALC_SEQUENTIAL(
        talc_nn_conv2d(&(talc_conv2d_layer){
            .in_channels = 2, .out_channels = 3, .kernel = { 3, 2 }, .padding = { 1 } }),
        talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 3 }), talc_nn_relu(),
        talc_nn_flatten(), talc_nn_sigmoid());
    f->x = op_numbers(device, TALC_DIMS(1, 2, 5, 4), 2);
    talc_module_to(f->net, device);
    snprintf(f->path, sizeof f->path, "%s", file_path("faults.safetensors"));
    talc_check_model_save_activations(f->net, f->x, f->path);
    return f;
}

static void end(void *pointer)
{
    talc_module_free(((fixture *)pointer)->net);
    free(pointer);
}

static bool keep_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    fault_keep(context, tensor);
    fault_keep_bytes(context, &tensor->device, sizeof tensor->device);
    return true;
}

static void keep_model(fault_run *run)
{
    const fixture *f = run->fixture;
    fault_keep(run, f->x);
    talc_module_visit(f->net, keep_parameter, run);
    fault_keep_bytes(run, &f->net->training, sizeof f->net->training);
    const char *forced = talc_algorithm_forced("conv2d");
    fault_keep_bytes(run, forced == NULL ? "-" : forced, 1);
}

static void keep_report(fault_run *run, talc_check_model_report *report)
{
    for (int i = 0; i < talc_check_model_count(report); i++)
        fault_keep_bytes(run, talc_check_model_at(report, i), sizeof(talc_check_model_layer));
    talc_check_model_free(report);
}

static void run_two(fault_run *run)
{
    const fixture *f = run->fixture;
    talc_check_model_report *report;
    talc_check_model(f->net, f->x,
                     &(talc_check_model_options){ .device = other_fake_device(),
                                                  .reference_algorithm = "conv2d=reference" },
                     &report);
    keep_report(run, report);
}

static void run_saved(fault_run *run)
{
    const fixture *f = run->fixture;
    talc_check_model_report *report;
    talc_check_model(f->net, f->x, &(talc_check_model_options){ .activations = f->path }, &report);
    keep_report(run, report);
}

static void run_save(fault_run *run)
{
    const fixture *f = run->fixture;
    const char *path = file_path("again.safetensors");
    if (talc_check_model_save_activations(f->net, f->x, path)) {
        size_t count;
        char *bytes = file_bytes(path, &count);
        fault_keep_bytes(run, bytes, count);
        free(bytes);
    }
}

Test(check_activations, allocation_failures_between_two_devices)
{
    const fault_scenario scenario = { "check_model", begin, run_two, keep_model, end };
    assert_survives_everywhere(&scenario, 100);
}

Test(check_activations, allocation_failures_against_a_file)
{
    const fault_scenario scenario = { "check_model with activations", begin, run_saved, keep_model,
                                      end };
    assert_survives_everywhere(&scenario, 80);
}

Test(check_activations, allocation_failures_while_saving)
{
    const fault_scenario scenario = { "save_activations", begin, run_save, keep_model, end };
    assert_survives_everywhere(&scenario, 40);
}
