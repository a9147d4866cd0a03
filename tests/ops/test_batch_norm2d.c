/// Batch normalisation as a caller has it: statistics, options, views. The values of its algorithms
/// are held by test_algorithms.c.
#include "tests/support/activation.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const algorithms[] = { "blocks", "reference" };

static uint64_t state = 7;

/* Roughly normal: the sum of twelve uniform numbers has variance 1. */
static double draw(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        sum += (double)(state >> 33) / 2147483648.0;
    }
    return sum;
}

/* Values that f32 holds exactly. */
static double *draw_values(int64_t count, double mean, double deviation)
{
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)(float)(mean + deviation * draw());
    return values;
}

static talc_tensor *tensor_of(talc_dtype dtype, talc_dims dims, const double *values)
{
    return talc_cast(talc_from_host(cpu_device(), TALC_F64, dims, values), dtype);
}

// ---- Values of PyTorch --------------------------------------------------------------------------

static talc_tensor *vector(double a, double b, double c)
{
    return talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(3), (const double[]){ a, b, c });
}

Test(batch_norm2d, values_are_those_of_pytorch)
{
    const double evaluated[] = {
        -0.4999975000187499, 4.4999775001687485,  9.499952500356247,   1.4999925000562495,
        -10.313680214819579, -17.384730349081817, -6.0710501342622365, -13.142100268524473,
        -1.99998000059998,   2.9999200023999197,  7.999820005399819,   -1.9999400020065394e-05,
        7.4999625002812484,  -0.4999975000187499, 4.4999775001687485,  9.499952500356247,
        -3.2426300805573423, -10.313680214819579, -17.384730349081817, -6.0710501342622365,
        5.99986000419986,    -1.99998000059998,   2.9999200023999197,  7.999820005399819,
    };
    // clang-format off
    const double trained[] = {
        -1.3018449802178726, 0.0,                 1.3018449802178729,   -0.7811069881307235,
        1.0718391546100783,  -1.8017270297930663, 2.795978865251965,    -0.07758731915117956,
        -1.6509224901089365, -1.0,                -0.34907750989106373, -1.3905534940653619,
        0.7811069881307238,  -1.3018449802178726, 0.0,                  1.3018449802178729,
        3.945405339013223,   1.0718391546100783,  -1.8017270297930663,  2.795978865251965,
        -0.6094465059346383, -1.6509224901089365, -1.0,                 -0.34907750989106373,
    };
    // clang-format on
    double values[24];
    for (int i = 0; i < 24; i++)
        values[i] = i * 5 % 13;
    for (int i = 0; i < 2; i++) {
        talc_tensor *x = tensor_of(TALC_F64, TALC_DIMS(2, 3, 2, 2), values);
        talc_tensor *mean = vector(0.5, -1, 2), *var = vector(1, 2, 0.25);
        talc_tensor *weight = vector(1, -2, 0.5), *bias = vector(0, 1, -1);
        const talc_batch_norm2d_options evaluation = { .algorithm = algorithms[i] };
        assert_values(talc_batch_norm2d(x, weight, bias, mean, var, &evaluation), evaluated, 1e-14,
                      algorithms[i]);
        const talc_batch_norm2d_options training = {
            .training = true, .momentum = 0.3, .eps = 1e-3, .algorithm = algorithms[i]
        };
        uint64_t version = talc_version(mean);
        assert_values(talc_batch_norm2d(x, weight, bias, mean, var, &training), trained, 1e-14,
                      algorithms[i]);
        cr_assert(talc_version(mean) == version + 1 && talc_version(var) == version + 1);
        assert_values(mean, (const double[]){ 1.85, 1.4375, 3.2 }, 1e-15, "running_mean");
        assert_values(var,
                      (const double[]){ 5.757142857142857, 5.551785714285714, 5.232142857142857 },
                      1e-15, "running_var");
        assert_values(x, values, 0, "x");
    }
}

// ---- Edges --------------------------------------------------------------------------------------

/* The bound is 8 u (1 + |mu| / sigma); the statistics themselves are f64, so the real error is that
 * of the last step. */
Test(batch_norm2d, a_mean_far_from_zero_does_not_spoil_the_variance)
{
    enum { N = 9, C = 2, HW = 61 * 67, M = N * HW };
    owned_double *x = draw_values(N * C * HW, 1e4, 1);
    talc_tensor *tx = tensor_of(TALC_F32, TALC_DIMS(N, C, 61, 67), x);
    for (int c = 0; c < C; c++) {
        long double mean = 0, var = 0;
        for (int i = 0; i < M; i++)
            mean += (long double)x[(i / HW * C + c) * HW + i % HW] / M;
        for (int i = 0; i < M; i++) {
            const long double d = x[(i / HW * C + c) * HW + i % HW] - mean;
            var += d * d / M;
        }
        for (int a = 0; a < 2; a++) {
            const talc_batch_norm2d_options o = { .training = true, .algorithm = algorithms[a] };
            const float *y = talc_data(talc_batch_norm2d(tx, NULL, NULL, NULL, NULL, &o), TALC_F32);
            assert_no_failure();
            double worst = 0;
            for (int i = 0; i < M; i++) {
                const int at = (i / HW * C + c) * HW + i % HW;
                const double expected = (double)((x[at] - mean) / sqrtl(var + 1e-5L));
                worst = fmax(worst, fabs((double)y[at] - expected));
            }
            cr_assert(worst <= 16 * 0x1p-24, "%s: %g", algorithms[a], worst);
        }
    }
}

/* The statistics are those of x alone: the same values, with the residual, where there is one,
 * added between. */
Test(batch_norm2d, activations_come_last_behind_a_residual)
{
    enum { N = 5, C = 3, HW = 64, COUNT = N * C * HW };
    owned_double *x = draw_values(COUNT, 2, 1), *r = draw_values(COUNT, 0, 2);
    const talc_dims dims = TALC_DIMS(N, C, 8, 8);
    for (int i = 0; i < 2 * 2 * 2 * TALC_ACTIVATION_COUNT; i++) {
        const bool training = i % 2 == 1, added = i / 4 % 2 == 1;
        talc_tensor *mean = vector(1, 2, 3), *var = vector(4, 5, 6);
        talc_batch_norm2d_options o = { .training = training, .algorithm = algorithms[i / 2 % 2] };
        const talc_tensor *plain =
            talc_batch_norm2d(tensor_of(TALC_F64, dims, x), NULL, NULL, mean, var, &o);
        mean = vector(1, 2, 3), var = vector(4, 5, 6);
        o.activation = (talc_activation)(i / 8);
        if (added) /* strides that are not those of x */
            o.residual = talc_transpose(
                talc_contiguous(talc_transpose(tensor_of(TALC_F64, dims, r), 1, 3)), 1, 3);
        const talc_tensor *fused =
            talc_batch_norm2d(tensor_of(TALC_F64, dims, x), NULL, NULL, mean, var, &o);
        assert_no_failure();
        const double *before = talc_data_read(plain, TALC_F64),
                     *after = talc_data_read(fused, TALC_F64);
        for (int at = 0; at < COUNT; at++) {
            const double sum = before[at] + (added ? r[at] : 0);
            cr_assert_float_eq(after[at], activated(o.activation, sum), 2e-14,
                               "%s, activation %d, training %d", o.algorithm, i / 8, training);
        }
    }
}

Test(batch_norm2d, training_counts_its_batches)
{
    owned_double *x = draw_values(2 * 3 * 4, 5, 1);
    talc_tensor *tx = tensor_of(TALC_F64, TALC_DIMS(2, 3, 2, 2), x);
    for (int i = 0; i < 2; i++) {
        talc_tensor *count = talc_full(cpu_device(), TALC_I64, TALC_SCALAR, 41);
        talc_tensor *mean = vector(1, 2, 3), *var = vector(4, 5, 6);
        talc_batch_norm2d_options o = { .num_batches_tracked = count, .algorithm = algorithms[i] };
        const uint64_t version = talc_version(count);
        cr_assert_not_null(talc_batch_norm2d(tx, NULL, NULL, mean, var, &o));
        cr_assert(talc_item_i64(count) == 41 && talc_version(count) == version);
        o.training = true;
        o.momentum = (double)TALC_ZERO;
        cr_assert_not_null(talc_batch_norm2d(tx, NULL, NULL, mean, var, &o));
        cr_assert_not_null(talc_batch_norm2d(tx, NULL, NULL, NULL, NULL, &o));
        cr_assert(talc_item_i64(count) == 43 && talc_version(count) == version + 2);
        const talc_tensor *none = talc_slice(tx, 0, 0, 0, 1);
        cr_assert_not_null(talc_batch_norm2d(none, NULL, NULL, mean, var, &o));
        cr_assert(talc_item_i64(count) == 43 && talc_version(count) == version + 2);
        o.activation = TALC_ACTIVATION_COUNT;
        cr_assert_null(talc_batch_norm2d(tx, NULL, NULL, mean, var, &o));
        talc_error_clear();
        cr_assert(talc_item_i64(count) == 43 && talc_version(count) == version + 2);
    }
}

Test(batch_norm2d, momentum_zero_leaves_the_running_statistics)
{
    owned_double *x = draw_values(2 * 3 * 4, 5, 1);
    talc_tensor *tx = tensor_of(TALC_F64, TALC_DIMS(2, 3, 2, 2), x);
    talc_tensor *mean = vector(1, 2, 3), *var = vector(4, 5, 6);
    const talc_batch_norm2d_options o = { .training = true, .momentum = (double)TALC_ZERO };
    cr_assert_not_null(talc_batch_norm2d(tx, NULL, NULL, mean, var, &o));
    assert_values(mean, (const double[]){ 1, 2, 3 }, 0, "mean");
    assert_values(var, (const double[]){ 4, 5, 6 }, 0, "var");
    const talc_batch_norm2d_options one = { .training = true, .momentum = 1 };
    cr_assert_not_null(talc_batch_norm2d(tx, NULL, NULL, mean, var, &one));
    double expected = 0;
    for (int i = 0; i < 4; i++)
        expected += (x[i] + x[12 + i]) / 8;
    cr_assert_float_eq(talc_item(talc_select(mean, 0, 0)), expected, 1e-14);
}

/* In evaluation mode channels are read where they are, forward; var 4 and eps 0 make every number
 * exact. */
Test(batch_norm2d, channels_of_a_larger_tensor_get_their_gradient)
{
    double values[2 * 5 * 4], dx[2 * 5 * 4] = { 0 }, dweight[3] = { 0 };
    for (int i = 0; i < 40; i++)
        values[i] = i * 5 % 13;
    talc_tensor *all = tensor_of(TALC_F64, TALC_DIMS(2, 5, 2, 2), values);
    talc_tensor *weight = vector(1, -2, 0.5), *mean = vector(1, 2, 3), *var = vector(4, 4, 4);
    talc_require_grad(all, true);
    talc_require_grad(weight, true);
    talc_tensor *y = talc_batch_norm2d(talc_slice(all, 1, 1, 4, 1), weight, NULL, mean, var,
                                       &(talc_batch_norm2d_options){ .eps = (double)TALC_ZERO });
    cr_assert(talc_backward_from(y, tensor_of(TALC_F64, TALC_DIMS(2, 3, 2, 2), values)), "%s",
              talc_error_message());
    for (int i = 0; i < 24; i++) {
        const int c = i / 4 % 3, at = i + 4 + i / 12 * 8;
        dx[at] = values[i] * (const double[]){ 1, -2, 0.5 }[c] / 2;
        dweight[c] += values[i] * (values[at] - (c + 1)) / 2;
    }
    assert_values(talc_grad(all), dx, 0, "dx");
    assert_values(talc_grad(weight), dweight, 0, "dweight");
}

Test(batch_norm2d, an_empty_input_changes_nothing)
{
    talc_tensor *mean = vector(1, 2, 3), *var = vector(4, 5, 6);
    const talc_dims shapes[] = { TALC_DIMS(0, 3, 4, 4), TALC_DIMS(2, 3, 0, 4) };
    for (int i = 0; i < 2; i++) {
        talc_tensor *y =
            talc_batch_norm2d(talc_zeros(cpu_device(), TALC_F64, shapes[i]), NULL, NULL, mean, var,
                              &(talc_batch_norm2d_options){ .training = true });
        assert_no_failure();
        cr_assert(talc_numel(y) == 0);
        assert_values(mean, (const double[]){ 1, 2, 3 }, 0, "mean");
    }
}

/* From 8 MiB on, dx goes past the caches, a cache line at a time. */
Test(batch_norm2d, large_gradients_are_those_of_the_reference)
{
    const talc_dims dims = TALC_DIMS(4, 2, 499, 601);
    for (int bent = 0; bent < 2; bent++) {
        talc_tensor *dx[2];
        for (int algorithm = 0; algorithm < 2; algorithm++) {
            talc_tensor *x = random_operand(TALC_F32, dims, 1);
            talc_require_grad(x, true);
            talc_algorithm_force("batch_norm2d", algorithms[algorithm]);
            talc_algorithm_force("batch_norm2d.grad_input", algorithms[algorithm]);
            const talc_activation activation = bent ? TALC_ACTIVATION_TANH : TALC_ACTIVATION_NONE;
            const talc_tensor *y = talc_batch_norm2d(
                x, NULL, NULL, NULL, NULL,
                &(talc_batch_norm2d_options){ .training = true, .activation = activation });
            cr_assert(talc_backward_from(y, random_operand(TALC_F32, dims, 2)), "%s",
                      talc_error_message());
            dx[algorithm] = talc_grad(x);
        }
        talc_algorithm_force("batch_norm2d", NULL);
        talc_algorithm_force("batch_norm2d.grad_input", NULL);
        assert_near(dx[0], dx[1], 2e-6, bent ? "tanh" : "plain");
    }
}
