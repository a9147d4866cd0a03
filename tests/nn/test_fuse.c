/// Which modules are fused with which, and what is said of it.
#include "tests/support/files.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/observed_ops.h"
#include "tests/support/op_cases.h"

#include <math.h>

// ---- What is fused with what --------------------------------------------------------------------

static talc_module *conv(talc_activation activation)
{
    return CONV2D(.in_channels = 4, .out_channels = 6, .kernel = { 3, 3 },
                  .activation = activation);
}

static talc_module *norm(void)
{
    return BATCH_NORM2D(.channels = 6);
}

static talc_module *linear(void)
{
    return LINEAR(6, 5);
}

static void assert_runs(talc_module *chain, const char *expected)
{
    cr_assert_not_null(chain, "%s", talc_error_message());
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    talc_forward(chain, x); /* which folds */
    talc_tensor *y = observed(chain, x);
    cr_assert_not_null(y, "%s", talc_error_message());
    cr_assert_str_eq(counted.ops, expected);
    assert_near(y, unfused(chain, x), 5e-6, expected);
    talc_module_free(chain);
}

static talc_module *evaluated(talc_module *chain)
{
    talc_module_eval(chain);
    return chain;
}

static talc_module *by_the_batch(void)
{
    return BATCH_NORM2D(.channels = 6, .no_tracking = true);
}

/* Inference: what is recorded is not folded. */
TestSuite(fuse, .init = talc_no_grad_enter);

Test(fuse, neighbours_that_fit_are_fused)
{
    assert_runs(
        evaluated(TALC_SEQUENTIAL(conv(0), norm(), talc_nn_relu(), linear(), talc_nn_tanh())),
        "conv2d linear ");
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_sigmoid(), norm(), talc_nn_relu())),
                "conv2d batch_norm2d ");
    /* The second activation runs by itself; one that a layer has already leaves no room for
     * another, nor for a norm. */
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_relu(), talc_nn_tanh())),
                "conv2d tanh ");
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(TALC_ACTIVATION_TANH), talc_nn_relu())),
                "conv2d relu ");
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(TALC_ACTIVATION_TANH), norm(), talc_nn_relu())),
                "conv2d batch_norm2d ");
    /* Two norms, and one that normalises by the batch. */
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), norm(), norm())), "conv2d batch_norm2d ");
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), by_the_batch(), talc_nn_relu())),
                "conv2d batch_norm2d ");
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_identity(), norm())),
                "conv2d batch_norm2d ");
    assert_runs(evaluated(TALC_SEQUENTIAL(talc_nn_tanh(), conv(0))), "tanh conv2d ");
    assert_runs(evaluated(talc_nn_sequential()), "");
    /* A Sequential is its children: what follows joins its last layer. */
    assert_runs(evaluated(TALC_SEQUENTIAL(
                    TALC_SEQUENTIAL(talc_nn_sequential(), TALC_SEQUENTIAL(conv(0))),
                    TALC_SEQUENTIAL(norm(), talc_nn_relu()), linear(), talc_nn_sequential())),
                "conv2d linear ");
}

static talc_module *leaky_relu(void)
{
    return talc_nn_leaky_relu(0.01);
}

Test(fuse, every_activation_joins_and_where_a_gradient_is_recorded_those_that_follow_from_y)
{
    talc_module *(*const layers[])(void) = {
        talc_nn_relu,      talc_nn_sigmoid, talc_nn_tanh, talc_nn_relu6, talc_nn_hardsigmoid,
        talc_nn_hardswish, talc_nn_silu,    talc_nn_gelu, leaky_relu,
    };
    cr_assert(sizeof layers / sizeof *layers == TALC_ACTIVATION_COUNT - 1);
    for (int a = TALC_ACTIVATION_RELU; a < TALC_ACTIVATION_COUNT; a++) {
        assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), norm(), layers[a - 1]())), "conv2d ");
        talc_no_grad_leave();
        char expected[64];
        snprintf(expected, sizeof expected, "conv2d %s",
                 a < TALC_ACTIVATION_HARDSWISH ? "" : talc_activation_name((talc_activation)a));
        if (a >= TALC_ACTIVATION_HARDSWISH)
            strcat(expected, " ");
        assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), layers[a - 1]())), expected);
        assert_runs(evaluated(conv((talc_activation)a)), expected);
        talc_no_grad_enter();
    }
    /* A number of its own keeps one apart. */
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_leaky_relu(0.1))), "conv2d leaky_relu ");
}

Test(fuse, in_train_mode_nothing_is_folded)
{
    owned_module *chain = TALC_SEQUENTIAL(conv(0), norm(), talc_nn_relu());
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    observed(chain, x);
    cr_assert_str_eq(counted.ops, "conv2d batch_norm2d ");
    /* A frozen norm behind a convolution that learns. */
    talc_module_eval(talc_module_child(chain, "1"));
    observed(chain, x);
    cr_assert_str_eq(counted.ops, "conv2d batch_norm2d ");
    talc_module_eval(chain);
    talc_module_train(talc_module_child(chain, "1"));
    observed(chain, x);
    cr_assert_str_eq(counted.ops, "conv2d batch_norm2d ");
}

/* A block's second half: in train mode the norm takes the residual and the activation, in both
 * directions. */
Test(fuse, in_train_mode_a_norm_ends_its_chain)
{
    talc_no_grad_leave();
    owned_module *chain = TALC_SEQUENTIAL(conv(0), norm());
    talc_module *const modules[] = { talc_module_child(chain, "0"), talc_module_child(chain, "1") };
    talc_tensor *gradients[2][3];
    const talc_tensor *y[2];
    for (int fused = 0; fused < 2; fused++) {
        talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1),
                    *residual = op_numbers(cpu_device(), TALC_DIMS(2, 6, 3, 6), 2);
        talc_tensor *const inputs[] = { x, residual, talc_module_find(chain, "1.weight") };
        talc_require_grad(x, true);
        talc_require_grad(residual, true);
        talc_fusion_enable(fused);
        counted.ops[0] = '\0';
        talc_observe(&counted.base);
        y[fused] =
            talc_forward_chain(modules, 2, x, &(talc_chain_end){ residual, TALC_ACTIVATION_RELU });
        talc_observe(NULL);
        cr_assert_str_eq(counted.ops,
                         fused ? "conv2d batch_norm2d " : "conv2d batch_norm2d add relu ");
        cr_assert(
            talc_backward_from(y[fused], op_numbers(cpu_device(), talc_dims_of(residual), 3)));
        for (int i = 0; i < 3; i++)
            gradients[fused][i] = talc_clone(talc_grad(inputs[i]));
        talc_grad_clear(inputs[2]);
    }
    talc_fusion_enable(true);
    assert_near(y[1], y[0], 1e-6, "y");
    for (int i = 0; i < 3; i++)
        assert_near(gradients[1][i], gradients[0][i], 1e-6, "a gradient");
    cr_assert(talc_item_i64(talc_module_find(chain, "1.num_batches_tracked")) == 2);
    talc_no_grad_enter();
}

/* The end of a chain joins the last layer of the Sequential that it ends with. */
Test(fuse, the_end_of_a_chain_reaches_into_a_sequential)
{
    owned_module *inner = evaluated(TALC_SEQUENTIAL(conv(0), TALC_SEQUENTIAL(norm())));
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    const talc_chain_end end = { .residual = op_numbers(cpu_device(), TALC_DIMS(2, 6, 3, 6), 2),
                                 .activation = TALC_ACTIVATION_RELU };
    talc_tensor *expected = talc_relu(talc_add(unfused(inner, x), end.residual));
    talc_forward(inner, x); /* which folds */
    counted.ops[0] = '\0';
    talc_observe(&counted.base);
    talc_tensor *y = talc_forward_chain(&inner, 1, x, &end);
    talc_observe(NULL);
    cr_assert_str_eq(counted.ops, "conv2d ");
    assert_near(y, expected, 5e-6, "y");
    talc_fusion_enable(false);
    assert_near(talc_forward_chain(&inner, 1, x, &end), expected, 5e-6, "unfused");
    talc_fusion_enable(true);
}

/* Among layers, as all of a Sequential and alone; in train mode it stands between. */
Test(fuse, a_dropout_in_evaluation_is_left_out)
{
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_dropout(0.5), norm(),
                                          TALC_SEQUENTIAL(talc_nn_drop_path(0.5)), talc_nn_relu())),
                "conv2d ");
    assert_runs(evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_dropout(0.5), norm())), "conv2d ");
    owned_module *chain = evaluated(TALC_SEQUENTIAL(conv(0), talc_nn_dropout(0), norm()));
    talc_module *dropout = talc_module_child(chain, "1");
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    cr_assert(talc_forward_chain(&dropout, 1, x, NULL) == x);
    assert_same_bits("with an end", talc_add(x, x),
                     talc_forward_chain(&dropout, 1, x, &(talc_chain_end){ .residual = x }));
    talc_module_train(dropout);
    observed(chain, x);
    cr_assert_not_null(strstr(counted.ops, "batch_norm2d "), "%s", counted.ops);
}

Test(fuse, what_is_recorded_is_not_folded)
{
    owned_module *chain = evaluated(TALC_SEQUENTIAL(conv(0), norm(), talc_nn_relu()));
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    talc_no_grad_leave();
    const talc_tensor *y = observed(chain, x);
    cr_assert_str_eq(counted.ops, "conv2d batch_norm2d ");
    cr_assert(talc_wants_grad(y));
    /* Frozen, with an input that asks for a gradient, and with one that does not. */
    talc_module_require_grad(chain, false);
    talc_require_grad(x, true);
    cr_assert(talc_wants_grad(observed(chain, x)));
    cr_assert_str_eq(counted.ops, "conv2d batch_norm2d ");
    talc_require_grad(x, false);
    talc_forward(chain, x);
    cr_assert(!talc_wants_grad(observed(chain, x)));
    cr_assert_str_eq(counted.ops, "conv2d ");
}

/* Each takes its own norm and activation. */
Test(fuse, a_depthwise_and_a_pointwise_convolution_are_two_ops)
{
    talc_module *depthwise = CONV2D(.in_channels = 4, .out_channels = 4, .kernel = { 3, 3 },
                                    .padding = { 1, 1 }, .groups = 4);
    talc_module *pointwise = CONV2D(.in_channels = 4, .out_channels = 6, .kernel = { 1, 1 });
    assert_runs(evaluated(TALC_SEQUENTIAL(depthwise, BATCH_NORM2D(.channels = 4), talc_nn_relu(),
                                          pointwise, norm(), talc_nn_tanh())),
                "conv2d conv2d ");
}

Test(fuse, forced_algorithms_are_obeyed)
{
    owned_module *chain = evaluated(TALC_SEQUENTIAL(conv(0), norm(), talc_nn_relu()));
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    talc_algorithm_force("relu", "reference");
    observed(chain, x);
    cr_assert_str_eq(counted.ops, "batch_norm2d batch_norm2d conv2d relu ");
    talc_algorithm_force("relu", NULL);
    observed(chain, x);
    cr_assert_str_eq(counted.ops, "conv2d ");
    for (int i = 0; i < 2; i++) {
        talc_algorithm_force("batch_norm2d", i == 0 ? "reference" : NULL);
        observed(chain, x);
        cr_assert_str_eq(counted.ops, "batch_norm2d batch_norm2d conv2d ");
        observed(chain, x);
        cr_assert_str_eq(counted.ops, "conv2d ");
    }
    talc_algorithm_force("conv2d", "no_such");
    cr_assert_null(talc_forward(chain, x));
    assert_failure(TALC_NOT_FOUND, "0: conv2d on cpu: there is no algorithm 'no_such'");
    talc_algorithm_force("conv2d", NULL);
}

// ---- Mistakes -----------------------------------------------------------------------------------

Test(fuse, mistakes_have_the_messages_of_the_layers)
{
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1);
    owned_module *chain = evaluated(TALC_SEQUENTIAL(conv(0), norm(), talc_nn_relu()));
    talc_module *const modules[] = { talc_module_child(chain, "0"), NULL };
    for (int fused = 0; fused < 2; fused++) {
        talc_fusion_enable(fused);
        cr_assert_null(talc_forward(chain, op_numbers(cpu_device(), TALC_DIMS(2, 3, 5, 8), 1)));
        assert_failure(TALC_BAD_SHAPE,
                       "0: conv2d: x [2,3,5,8] has 3 channels, w [6,4,3,3] with groups=1 needs 4");
        cr_assert_null(talc_forward(chain, talc_cast(x, TALC_F64)));
        assert_failure(TALC_BAD_DTYPE, "0: conv2d: x is f64, w is f32");
    }
    cr_assert_null(talc_forward_chain(NULL, 1, x, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "forward_chain: modules is NULL");
    cr_assert_null(talc_forward_chain(modules, 2, x, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "forward_chain: a module is NULL");
    cr_assert_null(talc_forward_chain(modules, 1, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "forward_chain: x is NULL");
    cr_assert_null(talc_forward_chain(modules, 1, x,
                                      &(talc_chain_end){ .activation = TALC_ACTIVATION_COUNT }));
    assert_failure(TALC_BAD_ARGUMENT, "forward_chain: activation 10 is outside 0..9");
    cr_assert(talc_forward_chain(NULL, 0, x, NULL) == x);
    cr_assert_null(talc_forward_chain(
        NULL, 0, x,
        &(talc_chain_end){ .residual = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1)) }));
    assert_failure(TALC_BAD_SHAPE,
                   "forward_chain: residual [1] must be [2,4,5,8], as what it is added to");
    talc_tensor *both =
        talc_forward_chain(NULL, 0, x, &(talc_chain_end){ x, TALC_ACTIVATION_RELU });
    assert_same_bits("x + x", talc_relu(talc_add(x, x)), both);
    talc_module_free(chain);
    chain = evaluated(TALC_SEQUENTIAL(conv(0), BATCH_NORM2D(.channels = 5)));
    cr_assert_null(talc_forward(chain, x));
    assert_failure(TALC_BAD_SHAPE, "1: batch_norm2d: weight [5] must be [6], one value for each "
                                   "channel of x [2,6,3,6]");
}

// ---- What is said of it -------------------------------------------------------------------------

static bool explain(FILE *file, talc_module *module, talc_tensor *x)
{
    talc_module_explanation explanation;
    const bool explained = talc_module_explain(module, x, &explanation);
    talc_module_explanation_print(file, &explanation);
    talc_module_explanation_free(&explanation);
    return explained;
}

static char *text_of(bool (*print)(FILE *, talc_module *, talc_tensor *), talc_module *module)
{
    FILE *file = tmpfile();
    cr_assert(print(file, module, op_numbers(cpu_device(), TALC_DIMS(2, 4, 5, 8), 1)), "%s",
              talc_error_message());
    return file_written(file);
}

Test(fuse, summary_and_explain_say_what_is_fused)
{
    /* So that no name is shortened; it is read once, when this process first asks. */
    setenv("COLUMNS", "200", 1);
    owned_module *chain =
        TALC_SEQUENTIAL(conv(0), norm(), talc_nn_relu(), talc_nn_flatten(), talc_nn_sigmoid());
    cr_assert_str_eq(text_of(talc_module_summary, chain),
                     "layer    type         options        output shape  parameters     MACs\n"
                     "(model)  Sequential                  [2,108]                0        0\n"
                     "0        Conv2d       3x3 s1x1 p0x0  [2,6,3,6]            222  7.776 k\n"
                     "1        BatchNorm2d  (in 0)         [2,6,3,6]             12        0\n"
                     "2        ReLU         (in 0)         [2,6,3,6]              0        0\n"
                     "3        Flatten                     [2,108]                0        0\n"
                     "4        Sigmoid                     [2,108]                0        0\n"
                     "total                                                     234  7.776 k\n");
    cr_assert_str_eq(
        text_of(explain, chain),
        "layers  what they do                          op       window         output     "
        "algorithm\n"
        "0+1+2   Conv2d + BatchNorm2d (folded) + relu  conv2d   3x3 s1x1 p0x0  [2,6,3,6]  "
        "implicit_gemm\n"
        "4       Sigmoid                               sigmoid                 [2,108]    "
        "reference\n");
    cr_assert(chain->training && talc_module_child(chain, "1")->training);
    talc_fusion_enable(false);
    cr_assert_null(strstr(text_of(talc_module_summary, chain), "(in "));
    talc_fusion_enable(true);
}
