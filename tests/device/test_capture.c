/// Captured forward passes: the same bits as eager ones, memory of their own, and what cannot be
/// captured.
#include "tests/support/networks.h"
#include "tests/support/captured.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct model_case {
    const char *name;
    talc_module *(*make)(void);
    talc_dims dims;
} model_case;

static const model_case lenet_case = { "LeNet", lenet_new, { 4, { 1, 1, 28, 28 } } };
static const model_case models[] = {
    { "LeNet", lenet_new, { 4, { 1, 1, 28, 28 } } },
    { "LeNet, a batch", lenet_new, { 4, { 5, 1, 28, 28 } } },
    { "ResNet-20", resnet20_a, { 4, { 1, 3, 16, 16 } } },
    { "DenseNet-121, a batch", densenet121_new, { 4, { 2, 3, 32, 32 } } },
};

static talc_module *model_on_device(const model_case *model)
{
    talc_manual_seed(5);
    talc_module *module = model->make();
    talc_module_to(module, tested_device());
    talc_module_eval(module);
    assert_no_failure();
    return module;
}

static talc_tensor *image(const model_case *model, unsigned seed)
{
    return talc_to(op_numbers(cpu_device(), model->dims, seed), tested_device(), TALC_F32);
}

/* A graph has no gradients, so that eager passes are compared without them. */
TestSuite(capture, .init = talc_no_grad_enter);

Test(capture, replays_give_the_bits_of_eager_passes)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const model_case *model = &models[i];
        owned_scope *scope = talc_scope_enter();
        owned_module *module = model_on_device(model);
        owned_graph *graph = captured(module, image(model, 1));
        const talc_tensor *fixed = NULL;
        for (unsigned seed = 2; seed < 6; seed++) {
            talc_tensor *x = image(model, seed);
            talc_tensor *y = talc_graph_replay(graph, x);
            assert_same_bits(model->name, y, talc_forward(module, x));
            cr_assert(fixed == NULL || y == fixed, "%s: another output", model->name);
            fixed = y;
        }
        /* In the fixed input itself, and through a view with gaps. */
        talc_tensor *x = image(model, 9);
        cr_assert(talc_copy(talc_graph_input(graph), x));
        assert_same_bits(model->name, talc_graph_replay(graph, talc_graph_input(graph)),
                         talc_forward(module, x));
        talc_tensor *turned = talc_transpose(image(model, 10), 2, 3);
        assert_same_bits(model->name, talc_graph_replay(graph, turned),
                         talc_forward(module, turned));
    }
}

/* Blocks that other tensors get between replays are not the graph's, or it would write into
 * them. */
Test(capture, a_graph_shares_no_memory_with_anything_else)
{
    owned_module *module = model_on_device(&lenet_case);
    talc_tensor *x = image(&lenet_case, 1);
    talc_tensor *expected = talc_forward(module, x);
    owned_graph *graph = captured(module, x);
    enum { COUNT = 24 };
    static const int64_t between[] = { 4704, 1176, 1600, 400, 120, 84 }; /* LeNet's layers */
    talc_tensor *others[COUNT];
    for (int i = 0; i < COUNT; i++)
        others[i] = talc_full(tested_device(), TALC_F32, TALC_DIMS(between[i % 6]), i);
    talc_forward(module, x);
    talc_tensor *y = talc_graph_replay(graph, x);
    talc_forward(module, image(&lenet_case, 2));
    assert_same_bits("after others' work", y, expected);
    for (int i = 0; i < COUNT; i++)
        assert_same_bits("another tensor", others[i],
                         talc_full(tested_device(), TALC_F32, TALC_DIMS(between[i % 6]), i));
}

Test(capture, a_thousand_replays_take_no_memory)
{
    owned_module *module = model_on_device(&lenet_case);
    talc_tensor *x = image(&lenet_case, 1);
    owned_graph *graph = captured(module, x);
    talc_graph_replay(graph, x);
    const talc_memory before = talc_device_memory(tested_device());
    for (int i = 0; i < 1000; i++)
        talc_graph_replay(graph, x);
    talc_device_synchronize(tested_device());
    const talc_memory after = talc_device_memory(tested_device());
    assert_no_failure();
    cr_assert(after.live == before.live && after.reserved == before.reserved &&
              after.peak == before.peak);
    assert_same_bits("the thousandth", talc_graph_replay(graph, x), talc_forward(module, x));
}

Test(capture, graphs_live_side_by_side_and_are_freed_in_any_order)
{
    for (int order = 0; order < 2; order++) {
        owned_scope *scope = talc_scope_enter();
        owned_module *module = model_on_device(&lenet_case), *other = model_on_device(&models[2]);
        talc_tensor *x = image(&lenet_case, 1), *other_x = image(&models[2], 2);
        talc_graph *a = captured(module, x), *b = captured(other, other_x);
        talc_graph *c = captured(module, x);
        talc_tensor *y = talc_graph_replay(a, x), *other_y = talc_graph_replay(b, other_x);
        cr_assert(talc_graph_replay(c, image(&lenet_case, 3)) != y);
        assert_same_bits("the first", y, talc_forward(module, x));
        assert_same_bits("the second", other_y, talc_forward(other, other_x));
        talc_graph_free(order == 0 ? a : c);
        talc_graph *left = order == 0 ? c : a;
        assert_same_bits("the one that is left", talc_graph_replay(left, x),
                         talc_forward(module, x));
        talc_graph_free(order == 0 ? b : left);
        talc_graph_free(order == 0 ? left : b);
    }
    talc_graph_free(NULL);
}

// ---- What a program gets wrong ------------------------------------------------------------------

Test(capture, x_is_like_the_example)
{
    owned_module *module = model_on_device(&lenet_case);
    talc_tensor *x = image(&lenet_case, 1);
    owned_graph *graph = captured(module, x);
    cr_assert_null(talc_graph_replay(graph, image(&models[1], 1)));
    assert_failure(TALC_BAD_SHAPE, "graph_replay: x [5,1,28,28] must be [1,1,28,28]");
    cr_assert_null(talc_graph_replay(graph, talc_cast(x, TALC_F64)));
    assert_failure(TALC_BAD_DTYPE, "graph_replay: the example is f32, x is f64");
    if (tested_device() != cpu_device()) {
        const char *name = talc_device_name(tested_device());
        cr_assert_null(talc_graph_replay(graph, op_numbers(cpu_device(), lenet_case.dims, 1)));
        assert_failure_with(TALC_BAD_DEVICE, "graph_replay: the example is on %s, x on cpu", name);
    }
    cr_assert_null(talc_graph_replay(graph, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "graph_replay: x is NULL");
    cr_assert_null(talc_graph_replay(NULL, x));
    assert_failure(TALC_NULL_ARGUMENT, "graph_replay: graph is NULL");
    cr_assert_null(talc_capture(NULL, x));
    assert_failure(TALC_NULL_ARGUMENT, "capture: module is NULL");
    cr_assert_null(talc_capture(module, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "capture: example is NULL");
    cr_assert_null(talc_graph_input(NULL));
    assert_same_bits("after all that", talc_graph_replay(graph, x), talc_forward(module, x));
}

Test(capture, training_mode_is_refused)
{
    owned_module *module = model_on_device(&models[2]);
    talc_tensor *x = image(&models[2], 1);
    talc_module_train(talc_module_child(module, "layer2.0.bn1"));
    cr_assert_null(talc_capture(module, x));
    assert_failure(TALC_BAD_ARGUMENT, "capture: BatchNorm2d layer2.0.bn1 is in training mode; "
                                      "call talc_module_eval on the model first");
    talc_module_train(module);
    cr_assert_null(talc_capture(module, x));
    assert_failure(TALC_BAD_ARGUMENT, "capture: Sequential is in training mode; call "
                                      "talc_module_eval on the model first");
}

Test(capture, weights_written_in_place_are_seen_and_replaced_ones_refused)
{
    owned_module *module = model_on_device(&models[2]);
    talc_tensor *x = image(&models[2], 1);
    owned_graph *graph = captured(module, x);
    talc_tensor *before = talc_clone(talc_graph_replay(graph, x));
    static const char *const written[] = { "conv1.weight", "layer1.0.bn1.running_mean",
                                           "linear.bias" };
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        talc_fill(talc_module_find(module, written[i]), 0.125);
        talc_tensor *y = talc_graph_replay(graph, x);
        assert_same_bits(written[i], y, talc_forward(module, x));
        cr_assert(talc_item(talc_sum(talc_sub(y, before), TALC_SCALAR, false)) != 0,
                  "%s: the output is as before", written[i]);
        before = talc_clone(y);
        assert_same_bits("again", talc_graph_replay(graph, x), before);
    }
    const char *path = file_path("capture.safetensors");
    cr_assert(talc_module_save(module, path) && talc_module_load(module, path, true), "%s",
              talc_error_message());
    cr_assert_null(talc_graph_replay(graph, x));
    assert_failure(TALC_BAD_ARGUMENT, "graph_replay: conv1.weight was moved or loaded since the "
                                      "capture, so it has other storage now; capture again");
    talc_graph_free(graph);
    graph = captured(module, x);
    assert_same_bits("captured again", talc_graph_replay(graph, x), before);
}

// ---- Passes with habits of their own ------------------------------------------------------------

static talc_tensor *extra;
static int passes;

/* What may run in passes that are not recorded only: the last pass fails. */
static talc_tensor *fails_last(talc_tensor *x)
{
    if (++passes == 3)
        talc_device_synchronize(x->device);
    return talc_relu(x);
}

Test(capture, a_failure_in_the_recorded_pass_ends_it)
{
    owned_module *module = module_of(fails_last);
    talc_tensor *x = talc_rand(tested_device(), TALC_F32, TALC_DIMS(2, 3));
    owned_graph *graph = talc_capture(module, x);
    talc_error_clear();
    cr_assert((graph == NULL) == (tested_device() != cpu_device()));
    talc_graph_free(graph);
    passes = 3;
    assert_same_bits("usable", talc_relu(talc_neg(x)), talc_relu(talc_neg(x)));
    graph = captured(module, x);
    assert_same_bits("captured then", talc_graph_replay(graph, x), talc_relu(x));
}

static talc_tensor *adds_extra(talc_tensor *x)
{
    return talc_add(x, extra);
}

static talc_tensor *returns_x(talc_tensor *x)
{
    return x;
}

Test(capture, tensors_that_a_pass_reads_are_held)
{
    owned_module *module = module_of(adds_extra);
    talc_device *device = tested_device();
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(300), 2);
    extra = talc_full(device, TALC_F32, TALC_DIMS(300), 3);
    owned_graph *graph = captured(module, x);
    if (device != cpu_device()) { /* where forward runs again, it needs its own operands */
        talc_release(extra);
        extra = NULL;
        talc_full(device, TALC_F32, TALC_DIMS(300), 77);
    }
    assert_same_bits("the sum", talc_graph_replay(graph, x),
                     talc_full(device, TALC_F32, TALC_DIMS(300), 5));
    talc_graph_free(graph);
    talc_module_free(module);

    module = module_of(returns_x);
    graph = captured(module, x);
    talc_tensor *other = talc_full(device, TALC_F32, TALC_DIMS(300), 9);
    assert_same_bits("the input as output", talc_graph_replay(graph, other), other);
}

static talc_tensor *returns_extra(talc_tensor *x)
{
    talc_copy(extra, x);
    return extra;
}

/* Its elements stay until the next replay, whatever is written meanwhile. */
Test(capture, the_output_is_the_graphs_own)
{
    static forward_function *const functions[] = { returns_x, returns_extra };
    talc_device *device = tested_device();
    const talc_dims dims = TALC_DIMS(300);
    extra = talc_zeros(device, TALC_F32, dims);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        owned_module *module = module_of(functions[i]);
        owned_graph *graph = captured(module, extra);
        talc_tensor *y = talc_graph_replay(graph, talc_full(device, TALC_F32, dims, 2));
        const uint64_t version = talc_version(y);
        talc_fill(talc_graph_input(graph), 9);
        talc_fill(extra, 9);
        assert_same_bits("until the next replay", y, talc_full(device, TALC_F32, dims, 2));
        talc_graph_replay(graph, talc_full(device, TALC_F32, dims, 3));
        assert_same_bits("from then on", y, talc_full(device, TALC_F32, dims, 3));
        cr_assert(talc_version(y) > version);
    }
}

// ---- Threads and memory -------------------------------------------------------------------------

static atomic_bool stop;

/* Takes memory, works, and gives memory back, for as long as the other thread captures. */
static void *work_meanwhile(void *context)
{
    talc_device *device = context;
    long rounds = 0;
    while (!atomic_load(&stop) || rounds < 3) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *a = talc_full(device, TALC_F32, TALC_DIMS(100 + 37 * (rounds % 50)), 2);
        talc_tensor *b = talc_mul(a, a);
        if (talc_item(talc_mean(b, TALC_SCALAR, false)) != 4 || talc_failed())
            return "another thread's work came out wrong";
        rounds++;
    }
    return NULL;
}

Test(capture, other_threads_work_meanwhile)
{
    owned_module *module = model_on_device(&lenet_case);
    talc_tensor *x = image(&lenet_case, 1);
    talc_tensor *expected = talc_forward(module, x);
    pthread_t thread;
    cr_assert(pthread_create(&thread, NULL, work_meanwhile, tested_device()) == 0);
    for (int i = 0; i < 20; i++) {
        owned_graph *graph = captured(module, x);
        assert_same_bits("captured meanwhile", talc_graph_replay(graph, x), expected);
    }
    atomic_store(&stop, true);
    void *message;
    pthread_join(thread, &message);
    cr_assert(message == NULL, "%s", (const char *)message);
}

/* Late streams, so that a replay on the wrong one, or out of order, shows. */
Test(capture, replays_go_to_the_callers_stream)
{
    enum { LATE = 50 };
    talc_device *device = tested_device();
    if (device == cpu_device()) /* no streams */
        return;
    owned_module *module = model_on_device(&lenet_case);
    talc_tensor *x = image(&lenet_case, 1), *other = image(&lenet_case, 2);
    talc_tensor *expected = talc_clone(talc_forward(module, x));
    talc_tensor *other_expected = talc_clone(talc_forward(module, other));
    talc_graph *graph = captured(module, x);
    void *handle = gpu_stream_new(device);
    gpu_stall(device, talc_stream_current(device), LATE);
    talc_tensor *y = talc_graph_replay(graph, x);
    talc_stream *stream = talc_stream_enter(device, handle);
    gpu_stall(device, handle, LATE);
    assert_same_bits("on the caller's stream", talc_graph_replay(graph, other), other_expected);
    talc_graph *made_here = captured(module, x);
    assert_same_bits("captured there", talc_graph_replay(made_here, other), other_expected);
    gpu_stall(device, handle, LATE);
    talc_graph_replay(made_here, other);
    talc_graph_replay(graph, other);
    talc_stream_leave(stream);
    assert_same_bits("back on the device's own", talc_graph_replay(graph, x), expected);
    assert_same_bits("of the other stream", talc_graph_replay(made_here, x), expected);
    cr_assert(y != NULL);
    talc_graph_free(graph);
    talc_graph_free(made_here);
    gpu_stream_free(device, handle);
}

typedef struct net_and_image {
    talc_module *module;
    talc_tensor *x;
} net_and_image;

static void *begin_capture(talc_device *device)
{
    net_and_image *fixture = calloc(1, sizeof *fixture);
    talc_manual_seed(5);
    fixture->module = lenet_new();
    talc_module_to(fixture->module, device);
    talc_module_eval(fixture->module);
    fixture->x = talc_to(op_numbers(cpu_device(), lenet_case.dims, 1), device, TALC_F32);
    return fixture;
}

static void run_capture(fault_run *run)
{
    net_and_image *fixture = run->fixture;
    owned_graph *graph = talc_capture(fixture->module, fixture->x);
    talc_tensor *y = graph == NULL ? NULL : talc_graph_replay(graph, fixture->x);
    if (y != NULL)
        fault_keep(run, y);
}

static void end_capture(void *of)
{
    net_and_image *fixture = of;
    talc_module_free(fixture->module);
    free(fixture);
}

TEST_SURVIVES(capture, every_allocation_may_fail, 60, "capture", begin_capture, run_capture, NULL,
              end_capture)
