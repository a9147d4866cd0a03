/// A convolution that several batch norms follow by turns, as heads that share one: every result is
/// that of its own norm, in graphs too.
#include "tests/support/fake_device.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/observed_ops.h"
#include "tests/support/op_cases.h"
#include "tests/support/threads_agree.h"

#include "tensor/storage.h"

#include <math.h>

enum { NORMS = 3, CHANNELS = 4 };

typedef struct heads {
    talc_module base;
    talc_module *conv, *norms[NORMS];
    talc_tensor *v; /* NULL, or what the convolution's weight is worked out of at each pass */
} heads;

static bool heads_init(talc_module *module, const void *options)
{
    static const char *const names[NORMS] = { "a", "b", "c" };
    heads *self = (heads *)module;
    self->conv = talc_module_add(
        module, "conv", CONV2D(.in_channels = 3, .out_channels = CHANNELS, .kernel = { 3, 2 }));
    for (int i = 0; i < NORMS; i++)
        self->norms[i] = talc_module_add(module, names[i], BATCH_NORM2D(.channels = CHANNELS));
    if (*(const bool *)options)
        self->v =
            talc_module_parameter(module, "v", talc_clone(talc_module_find(self->conv, "weight")));
    return !talc_failed();
}

static talc_tensor *head(talc_module *module, int i, talc_tensor *x)
{
    const heads *self = (heads *)module;
    return talc_forward_chain(TALC_CHAIN(self->conv, self->norms[i]), x,
                              &(talc_chain_end){ .activation = TALC_ACTIVATION_RELU });
}

static talc_tensor *heads_forward(talc_module *module, talc_tensor *x)
{
    const heads *self = (heads *)module;
    if (self->v != NULL)
        talc_copy(talc_module_find(self->conv, "weight"),
                  talc_mul(self->v, talc_mean(x, TALC_SCALAR, false)));
    talc_tensor *y = head(module, 0, x);
    for (int i = 1; i < NORMS; i++)
        y = talc_add(y, head(module, i, x));
    return y;
}

static const talc_module_class heads_class = {
    .name = "Heads", .size = sizeof(heads), .init = heads_init, .forward = heads_forward
};

/* Numbers around `middle`, on the tensor's device. */
static void scatter(talc_module *module, const char *path, double middle, unsigned seed)
{
    talc_tensor *tensor = talc_module_find(module, path);
    talc_tensor *numbers =
        talc_mul_scalar(op_numbers(tensor->device, talc_dims_of(tensor), seed), 0.7);
    cr_assert(talc_copy(tensor, talc_add_scalar(numbers, middle)), "%s", talc_error_message());
}

static void scatter_norm(talc_module *norm, unsigned seed)
{
    scatter(norm, "weight", 0.4, seed);
    scatter(norm, "bias", 0.2, seed + 1);
    scatter(norm, "running_mean", -0.5, seed + 2);
    scatter(norm, "running_var", 0.9, seed + 3);
}

static talc_module *heads_new(talc_device *device, bool writes)
{
    talc_manual_seed(3);
    talc_module *module = talc_module_new(&heads_class, &writes);
    cr_assert(talc_module_to(module, device) && talc_module_eval(module), "%s",
              talc_error_message());
    for (unsigned i = 0; i < NORMS; i++)
        scatter_norm(((heads *)module)->norms[i], 20 + 10 * i);
    assert_no_failure();
    return module;
}

static talc_tensor *image(talc_device *device, unsigned seed)
{
    return op_numbers(device, TALC_DIMS(2, 3, 6, 5), seed);
}

static talc_tensor *wide(const talc_tensor *tensor)
{
    return talc_to(talc_cast(tensor, TALC_F64), cpu_device(), TALC_F64);
}

/* Convolution, norm and relu one after the other, in f64. */
static talc_tensor *exact_head(talc_module *module, int i, const talc_tensor *x)
{
    talc_module *conv = ((heads *)module)->conv, *norm = ((heads *)module)->norms[i];
    talc_tensor *y = talc_conv2d(wide(x), wide(talc_module_find(conv, "weight")),
                                 wide(talc_module_find(conv, "bias")), NULL);
    return talc_relu(talc_batch_norm2d(y, wide(talc_module_find(norm, "weight")),
                                       wide(talc_module_find(norm, "bias")),
                                       wide(talc_module_find(norm, "running_mean")),
                                       wide(talc_module_find(norm, "running_var")), NULL));
}

static void assert_heads(const char *what, talc_module *module, talc_tensor *x)
{
    for (int i = NORMS - 1; i >= 0; i--)
        assert_near(head(module, i, x), exact_head(module, i, x), 1e-5, what);
}

static talc_tensor *exact_sum(talc_module *module, const talc_tensor *x)
{
    talc_tensor *y = exact_head(module, 0, x);
    for (int i = 1; i < NORMS; i++)
        y = talc_add(y, exact_head(module, i, x));
    return y;
}

// ---- What is kept -------------------------------------------------------------------------------

/* Inference: what is recorded is not folded. */
TestSuite(fold_shared, .init = talc_no_grad_enter);

Test(fold_shared, each_norm_that_follows_has_its_fold)
{
    owned_module *module = heads_new(cpu_device(), false);
    talc_tensor *x = image(cpu_device(), 5);
    assert_near(observed(module, x), exact_sum(module, x), 1e-5, "folding");
    cr_assert_str_eq(counted.ops, "batch_norm2d batch_norm2d conv2d "
                                  "batch_norm2d batch_norm2d conv2d add "
                                  "batch_norm2d batch_norm2d conv2d add ");
    assert_near(observed(module, x), exact_sum(module, x), 1e-5, "folded");
    cr_assert_str_eq(counted.ops, "conv2d conv2d add conv2d add ");

    talc_scope *scope = talc_scope_enter();
    const size_t live = talc_device_memory(cpu_device()).live;
    scatter(((heads *)module)->norms[1], "running_mean", 0.3, 70);
    assert_near(observed(module, x), exact_sum(module, x), 1e-5, "a norm written");
    cr_assert_str_eq(counted.ops, "conv2d batch_norm2d batch_norm2d conv2d add conv2d add ");
    assert_heads("each alone", module, x);
    scatter(((heads *)module)->conv, "weight", 0.1, 71);
    assert_near(observed(module, x), exact_sum(module, x), 1e-5, "the convolution written");
    assert_near(observed(module, x), exact_sum(module, x), 1e-5, "folded again");
    cr_assert_str_eq(counted.ops, "conv2d conv2d add conv2d add ");
    talc_scope_leave(scope);
    cr_assert(talc_device_memory(cpu_device()).live == live, "folds that are over are kept");
}

/* Norms that come and go leave nothing: their place in memory is handed out again, and is no fold's
 * any more. */
Test(fold_shared, folds_of_norms_that_are_gone_go_too)
{
    owned_module *module = heads_new(cpu_device(), false);
    talc_module *conv = ((heads *)module)->conv;
    talc_tensor *x = image(cpu_device(), 5);
    size_t live = 0;
    for (unsigned i = 0; i < 20; i++) {
        talc_scope *scope = talc_scope_enter();
        talc_module *norm = BATCH_NORM2D(.channels = CHANNELS);
        talc_module_eval(norm);
        scatter_norm(norm, 100 + i);
        heads as = { .conv = conv, .norms = { norm } };
        assert_near(head(&as.base, 0, x), exact_head(&as.base, 0, x), 1e-5, "a passing norm");
        talc_module_free(norm);
        talc_scope_leave(scope);
        const size_t now = talc_device_memory(cpu_device()).live;
        cr_assert(i < 2 || now == live, "%zu bytes after %zu", now, live);
        live = now;
    }
}

Test(fold_shared, threads_may_fold_at_once)
{
    for (int round = 0; round < 20; round++) {
        owned_module *module = heads_new(cpu_device(), false);
        assert_threads_agree(module, image(cpu_device(), 5));
    }
}

// ---- In graphs ----------------------------------------------------------------------------------

/* What a recording makes has no elements until it is replayed, and other elements at each replay:
 * no eager pass may use it. */
static void captured_heads(bool writes)
{
    owned_module *module = heads_new(fake_device(), writes);
    talc_tensor *x = image(fake_device(), 5);
    talc_graph *graph = talc_capture(module, x);
    cr_assert_not_null(graph, "%s", talc_error_message());
    assert_heads("after the capture", module, x);
    for (unsigned i = 0; i < 4; i++) {
        talc_tensor *next = image(fake_device(), 6 + i);
        talc_tensor *y = talc_graph_replay(graph, next);
        cr_assert_not_null(y, "%s", talc_error_message());
        assert_near(y, exact_sum(module, next), 1e-5, "a replay");
        assert_heads("between replays", module, next);
        if (i == 1)
            scatter(((heads *)module)->norms[1], "running_mean", 0.3, 70);
        if (i == 2)
            scatter(module, writes ? "v" : "conv.weight", 0.1, 71);
    }
    talc_graph_free(graph);
    assert_heads("without the graph", module, x);
    const talc_tensor *y = talc_forward(module, x); /* which may write the weight */
    assert_near(y, exact_sum(module, x), 1e-5, "an eager pass");
}

Test(fold_shared, a_graph_records_no_fold_that_others_use)
{
    captured_heads(false);
}

Test(fold_shared, a_pass_that_writes_the_weight_folds_at_each_replay)
{
    captured_heads(true);
}
