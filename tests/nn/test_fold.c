/// The batch norm in the convolution before it: within the bound of nn/fuse.h of the exact result,
/// and never out of date.
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/guard.h"
#include "tests/support/activation.h"
#include "tests/support/hooks.h"
#include "tests/support/observed_ops.h"
#include "tests/support/op_cases.h"
#include "tests/support/threads_agree.h"

#include "nn/entries.h"

#include <math.h>

/* Numbers around `middle`, written as a program writes them. */
static void scatter(talc_module *module, const char *path, double middle, unsigned seed)
{
    talc_tensor *tensor = talc_module_find(module, path);
    if (tensor == NULL)
        return;
    talc_tensor *numbers = talc_cast(
        talc_add_scalar(talc_mul_scalar(op_numbers(cpu_device(), talc_dims_of(tensor), seed), 0.7),
                        middle),
        tensor->dtype);
    cr_assert(talc_copy(tensor, talc_to(numbers, tensor->device, tensor->dtype)), "%s",
              talc_error_message());
}

static void scatter_norm(talc_module *module, unsigned seed)
{
    scatter(module, "1.weight", 0.4, seed);
    scatter(module, "1.bias", 0.2, seed + 1);
    scatter(module, "1.running_mean", -0.5, seed + 2);
    scatter(module, "1.running_var", 0.9, seed + 3);
}

// ---- The exact result ---------------------------------------------------------------------------

typedef struct chain_case {
    talc_conv2d_layer conv;
    talc_batch_norm2d_layer norm;
    talc_module *(*last)(void); /* NULL: none */
    talc_activation activation;
} chain_case;

static const chain_case chain_cases[] = {
    { { .in_channels = 3, .out_channels = 5, .kernel = { 3, 2 } },
      { .channels = 5 },
      talc_nn_relu,
      TALC_ACTIVATION_RELU },
    { { .in_channels = 3, .out_channels = 5, .kernel = { 3, 2 }, .no_bias = true },
      { .channels = 5, .eps = 0.3 },
      NULL,
      TALC_ACTIVATION_NONE },
    { { .in_channels = 4,
        .out_channels = 6,
        .kernel = { 3, 3 },
        .padding = { 1, 2 },
        .groups = 2,
        .stride = { 2, 1 } },
      { .channels = 6, .eps = (double)TALC_ZERO },
      talc_nn_sigmoid,
      TALC_ACTIVATION_SIGMOID },
    { { .in_channels = 2, .out_channels = 4, .kernel = { 1, 1 } },
      { .channels = 4, .no_affine = true, .eps = 1e-2 },
      talc_nn_tanh,
      TALC_ACTIVATION_TANH },
    { { .in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .groups = 2, .padding = { 1, 1 } },
      { .channels = 2, .activation = TALC_ACTIVATION_TANH },
      NULL,
      TALC_ACTIVATION_TANH },
};
enum { CHAIN_CASES = sizeof chain_cases / sizeof *chain_cases };

static talc_module *chain_new(const chain_case *of, talc_dtype dtype)
{
    talc_conv2d_layer conv = of->conv;
    talc_batch_norm2d_layer norm = of->norm;
    conv.dtype = norm.dtype = dtype;
    talc_manual_seed(3);
    talc_module *chain = TALC_SEQUENTIAL(talc_nn_conv2d(&conv), talc_nn_batch_norm2d(&norm));
    if (of->last != NULL)
        talc_nn_sequential_append(chain, of->last());
    scatter_norm(chain, 20);
    talc_module_eval(chain);
    assert_no_failure();
    return chain;
}

typedef struct exact {
    double value, S;
} exact;

/* Formula of the convolution, then of the norm, for one output; operands as f64. */
static exact exact_of(const chain_case *of, double *const p[6], const double *x, talc_dims xd,
                      talc_dims yd, int64_t i)
{
    const talc_conv2d_layer *c = &of->conv;
    const int64_t groups = c->groups == 0 ? 1 : c->groups, Cg = xd.dim[1] / groups;
    const int64_t ow = i % yd.dim[3], oh = i / yd.dim[3] % yd.dim[2];
    const int64_t oc = i / yd.dim[3] / yd.dim[2] % yd.dim[1];
    const int64_t n = i / yd.dim[3] / yd.dim[2] / yd.dim[1];
    const int64_t sh = c->stride[0] == 0 ? 1 : c->stride[0],
                  sw = c->stride[1] == 0 ? 1 : c->stride[1];
    double sum = p[1] == NULL ? 0 : p[1][oc], S = fabs(sum);
    for (int64_t ic = 0; ic < Cg; ic++)
        for (int64_t kh = 0; kh < c->kernel[0]; kh++)
            for (int64_t kw = 0; kw < c->kernel[1]; kw++) {
                const int64_t h = oh * sh - c->padding[0] + kh, w = ow * sw - c->padding[1] + kw;
                if (h < 0 || h >= xd.dim[2] || w < 0 || w >= xd.dim[3])
                    continue;
                const int64_t in = oc / (yd.dim[1] / groups) * Cg + ic;
                const double product =
                    x[((n * xd.dim[1] + in) * xd.dim[2] + h) * xd.dim[3] + w] *
                    p[0][((oc * Cg + ic) * c->kernel[0] + kh) * c->kernel[1] + kw];
                sum += product;
                S += fabs(product);
            }
    const double eps = of->norm.eps == 0 ? 1e-5 : of->norm.eps < 0 ? 0 : of->norm.eps;
    const double gamma = p[2] == NULL ? 1 : p[2][oc], beta = p[3] == NULL ? 0 : p[3][oc];
    const double s = gamma / sqrt(p[5][oc] + eps);
    return (exact){ (sum - p[4][oc]) * s + beta, (S + fabs(p[4][oc])) * fabs(s) + fabs(beta) };
}

/* Every element against the exact one: (K + 8) u S before the activation, whose slope is at most 1,
 * and two roundings of it. */
static void assert_exact(const chain_case *of, talc_module *chain, talc_tensor *x, talc_tensor *y,
                         const talc_tensor *residual)
{
    static const char *const paths[6] = { "0.weight", "0.bias",         "1.weight",
                                          "1.bias",   "1.running_mean", "1.running_var" };
    double *p[6] = { NULL }, *numbers = host_doubles(x), *got = host_doubles(y);
    owned_double *added = residual == NULL ? NULL : host_doubles(residual);
    for (int j = 0; j < 6; j++)
        p[j] = talc_module_find(chain, paths[j]) == NULL
                   ? NULL
                   : host_doubles(talc_module_find(chain, paths[j]));
    const double u = y->dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
    const talc_tensor *w = talc_module_find(chain, "0.weight");
    const double K = (double)(w->dims[1] * w->dims[2] * w->dims[3]);
    double worst = 0;
    for (int64_t i = 0; i < talc_numel(y); i++) {
        exact expected = exact_of(of, p, numbers, talc_dims_of(x), talc_dims_of(y), i);
        expected.value += added == NULL ? 0 : added[i];
        expected.S += added == NULL ? 0 : fabs(added[i]);
        const double value = activated(of->activation, expected.value);
        const double bound = (K + 8) * u * expected.S + (of->activation == 0 ? 0 : 4 * u) +
                             (u < 1e-10 ? (K + 4) * u * expected.S : 0); /* the oracle's own */
        cr_assert(fabs(got[i] - value) <= bound,
                  "case %d element %d: %.9g instead of %.9g, %g of %g", (int)(of - chain_cases),
                  (int)i, got[i], value, fabs(got[i] - value), bound);
        worst = fmax(worst, fabs(got[i] - value) / bound);
    }
    cr_assert(worst > 1e-4, "nothing was compared");
    for (int j = 0; j < 6; j++)
        free(p[j]);
    free(numbers);
    free(got);
}

static talc_tensor *input_of(const chain_case *of, talc_device *device, talc_dtype dtype)
{
    return talc_cast(op_numbers(device, TALC_DIMS(2, of->conv.in_channels, 7, 6), 5), dtype);
}

/* Inference: what is recorded is not folded. */
TestSuite(fold, .init = talc_no_grad_enter);

Test(fold, a_chain_is_one_op_within_its_bound)
{
    for (int i = 0; i < CHAIN_CASES * 2; i++) {
        const chain_case *of = &chain_cases[i / 2];
        const talc_dtype dtype = i % 2 == 0 ? TALC_F32 : TALC_F64;
        owned_module *chain = chain_new(of, dtype);
        talc_tensor *x = input_of(of, cpu_device(), dtype);
        talc_tensor *y = observed(chain, x);
        cr_assert_str_eq(counted.ops, "batch_norm2d batch_norm2d conv2d ");
        assert_exact(of, chain, x, y, NULL);
        assert_same_bits("the second pass", y, observed(chain, x));
        cr_assert_str_eq(counted.ops, "conv2d ");
        talc_tensor *apart = unfused(chain, x);
        cr_assert(strstr(counted.ops, "conv2d batch_norm2d ") == counted.ops);
        assert_exact(of, chain, x, apart, NULL);
    }
}

Test(fold, a_residual_comes_before_the_activation)
{
    for (int i = 0; i < CHAIN_CASES; i++) {
        const chain_case *of = &chain_cases[i];
        if (of->last != NULL && of->activation == TALC_ACTIVATION_NONE)
            continue;
        chain_case layers = *of;
        layers.last = NULL;
        layers.norm.activation = TALC_ACTIVATION_NONE;
        owned_module *chain = chain_new(&layers, TALC_F32);
        talc_module *const modules[] = { talc_module_child(chain, "0"),
                                         talc_module_child(chain, "1") };
        talc_tensor *x = input_of(of, cpu_device(), TALC_F32);
        const talc_dims dims = talc_dims_of(talc_forward(chain, x));
        const talc_chain_end end = { op_numbers(cpu_device(), dims, 9), of->activation };
        counted.ops[0] = '\0';
        talc_observe(&counted.base);
        talc_tensor *y = talc_forward_chain(modules, 2, x, &end);
        talc_observe(NULL);
        cr_assert_str_eq(counted.ops, "conv2d ");
        assert_exact(of, chain, x, y, end.residual);
        talc_fusion_enable(false);
        assert_exact(of, chain, x, talc_forward_chain(modules, 2, x, &end), end.residual);
        talc_fusion_enable(true);
    }
}

// ---- Never out of date --------------------------------------------------------------------------

static void assert_up_to_date(const char *what, talc_module *chain, talc_tensor *x)
{
    assert_near(talc_forward(chain, x), unfused(chain, x), 1e-5, what);
}

static void train_a_step(talc_module *chain, talc_tensor *x)
{
    talc_module_train(chain);
    cr_assert_not_null(talc_forward(chain, talc_mul_scalar(x, 3)));
    talc_module_eval(chain);
}

Test(fold, folded_parameters_follow_every_change)
{
    static const char *const paths[] = { "0.weight", "0.bias",         "1.weight",
                                         "1.bias",   "1.running_mean", "1.running_var" };
    const chain_case *of = &chain_cases[0];
    owned_module *chain = chain_new(of, TALC_F32), *other = chain_new(of, TALC_F32);
    talc_tensor *x = input_of(of, cpu_device(), TALC_F32);
    for (unsigned i = 0; i < 6; i++) {
        assert_up_to_date("as made", chain, x);
        scatter(chain, paths[i], i == 5 ? 1.2 : 0.6, 70 + i);
        assert_up_to_date(paths[i], chain, x);
        ((float *)talc_data(talc_module_find(chain, paths[i]), TALC_F32))[1] += 0.5F;
        assert_up_to_date("through a pointer", chain, x);
    }
    train_a_step(chain, x);
    assert_up_to_date("a training step", chain, x);
    /* A file's tensors take the place of the old ones, which the pool may hand out again. */
    scatter_norm(other, 50);
    const char *path = file_path("other.safetensors");
    cr_assert(talc_module_save(other, path));
    for (int i = 0; i < 3; i++) {
        scatter_norm(chain, 90);
        assert_up_to_date("before the load", chain, x);
        cr_assert(talc_module_load(chain, path, true));
        assert_same_bits("loaded", talc_forward(other, x), talc_forward(chain, x));
    }
}

Test(fold, folded_parameters_move_and_go_with_their_module)
{
    const chain_case *of = &chain_cases[0];
    owned_module *chain = chain_new(of, TALC_F32);
    const int64_t count = talc_module_count(chain);
    talc_device *const stops[] = { fake_device(), other_fake_device(), cpu_device(),
                                   fake_device() };
    for (int i = 0; i < 4; i++) {
        cr_assert(talc_module_to(chain, stops[i]));
        const size_t live = talc_device_memory(stops[i]).live;
        owned_scope *scope = talc_scope_enter();
        assert_up_to_date("moved", chain, input_of(of, stops[i], TALC_F32));
        talc_scope_leave(scope);
        cr_assert(talc_device_memory(stops[i]).live > live);
        cr_assert(talc_module_count(chain) == count && talc_module_tensor_count(chain) == 7);
        cr_assert(talc_module_train(chain) && talc_device_memory(stops[i]).live == live);
        talc_module_eval(chain);
        scope = talc_scope_enter();
        cr_assert_not_null(talc_forward(chain, input_of(of, stops[i], TALC_F32)));
    }
    cr_assert(talc_module_to(chain, cpu_device()) && talc_device_memory(fake_device()).live == 0);
}

Test(fold, threads_may_fold_at_once)
{
    const chain_case *of = &chain_cases[0];
    for (int round = 0; round < 20; round++) {
        owned_module *chain = chain_new(of, TALC_F32);
        assert_threads_agree(chain, input_of(of, cpu_device(), TALC_F32));
    }
}
