/// Results depend on the operands alone, to the bit: not on the number of threads, on what ran
/// before or runs beside. What is not finite stays where it belongs; zeros and the smallest numbers
/// are numbers like others.
#include "check/engine/family.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The first element whose bits differ, -1 when none does. */
static int64_t first_difference(const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            return i;
    return -1;
}

/* The library's own choice is the algorithm that explain names. */
Test(conv2d_determinism, what_is_explained_is_what_runs)
{
    for (int i = 0; conv2d_case(i) != NULL; i++) {
        const talc_conv2d_problem problem = conv2d_parse(conv2d_case(i));
        const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
        owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_RANDOM, (uint64_t)i);
        double *chosen = conv2d_values(cpu_device(), &data, NULL);
        double *named =
            conv2d_values(cpu_device(), &data, e.decision.candidates[e.decision.chosen].title);
        cr_expect(first_difference(chosen, named, data.y_count) < 0, "%s", conv2d_case(i));
        free(chosen);
        free(named);
    }
}

// ---- Several threads at once --------------------------------------------------------------------

typedef struct shared_call {
    const conv2d_operands *operands;
    const talc_conv2d_problem *problem;
    const char *algorithm;
    const double *expected;
    int64_t count;
    bool right;
} shared_call;

static void *call_many_times(void *argument)
{
    shared_call *call = argument;
    call->right = true;
    for (int i = 0; i < 15; i++) {
        owned_scope *scope = talc_scope_enter();
        const talc_tensor *y = conv2d_run(call->operands, call->problem, call->algorithm);
        owned_double *values = y == NULL ? NULL : host_doubles(y);
        call->right &= values != NULL && first_difference(values, call->expected, call->count) < 0;
    }
    return NULL;
}

Test(conv2d_determinism, threads_may_share_operands)
{
    enum { THREADS = 4 };
    const talc_conv2d_problem problem = conv2d_parse("n2c8h13w17o12k3x3p1x1g2_bias_relu");
    const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
    owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_RANDOM, 3);
    owned_conv2d_operands operands = conv2d_operands_new(cpu_device(), &data, 0);
    for (int i = 0; i < e.decision.count; i++) {
        if (e.decision.candidates[i].refused)
            continue;
        owned_double *expected = conv2d_values(cpu_device(), &data, e.decision.candidates[i].title);
        pthread_t threads[THREADS];
        shared_call calls[THREADS];
        for (int t = 0; t < THREADS; t++) {
            calls[t] = (shared_call){ &operands, &problem,     e.decision.candidates[i].title,
                                      expected,  data.y_count, false };
            cr_assert(pthread_create(&threads[t], NULL, call_many_times, &calls[t]) == 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            cr_expect(calls[t].right, "%s: thread %d had another result",
                      e.decision.candidates[i].title, t);
        }
    }
    cr_assert(conv2d_operands_intact(&operands));
}

// ---- The smallest numbers -----------------------------------------------------------------------

/* Multiples of the smallest number, whose sums are exact: nothing is flushed to zero. */
Test(conv2d_determinism, denormal_numbers_are_kept)
{
    static const char *const texts[] = { "n2c4h9w11o6k3x3p1x1",      "n2c4h9w11o6k3x3p1x1g2",
                                         "n2c5h9w35o5k3x3p1x1g5",    "n2c6h7w19o9k1x1",
                                         "n2c3h9w11o4k5x7p2x3_relu", "n2c3h9w11o4k3x3_f64",
                                         "n2c20h17w19o20k3x3p1x1" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem problem = conv2d_parse(texts[i]);
        owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_EXACT, i);
        for (int64_t j = 0; j < data.x_count; j++)
            data.x[j] *= problem.dtype == TALC_F32 ? 0x1p-149 : 0x1p-1074;
        conv2d_expect_exact(cpu_device(), &data, 0);
    }
}

Test(conv2d_determinism, negative_zeros_are_zeros)
{
    static const char *const texts[] = { "n2c4h9w11o6k3x3p1x1_bias", "n2c6h7w19o9k1x1_relu",
                                         "n2c5h9w35o5k3x3p1x1g5",
                                         "n1c2h5w5o2k3x3p1x1_residual_tanh" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem problem = conv2d_parse(texts[i]);
        const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
        owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_EXACT, i);
        for (int64_t j = 0; j < data.x_count; j++)
            data.x[j] = -0.0;
        for (int64_t j = 0; problem.bias && j < problem.OC; j++)
            data.bias[j] = -0.0;
        for (int64_t j = 0; problem.residual && j < data.y_count; j++)
            data.residual[j] = -0.0;
        for (int j = 0; j < e.decision.count; j++) {
            if (e.decision.candidates[j].refused)
                continue;
            owned_double *y = conv2d_values(cpu_device(), &data, e.decision.candidates[j].title);
            for (int64_t k = 0; k < data.y_count; k++)
                cr_assert(y[k] == 0, "%s %s: element %d is %g", texts[i],
                          e.decision.candidates[j].title, (int)k, y[k]);
        }
    }
}

/* Of dw the workspace decides how sums are divided, and the threads do not. */
Test(conv2d_determinism, threads_do_not_reach_sums_in_a_small_workspace)
{
    static const int threads[] = { 2, 3, 5, 16, 33 };
    const talc_conv2d_problem p = conv2d_parse("n5c127h19w35o125k2x2p1x1_dw");
    const int before = talc_threads();
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_randn(cpu_device(), TALC_F32, TALC_DIMS(p.N, p.C, p.H, p.W));
    const talc_tensor *dy = talc_randn(cpu_device(), TALC_F32, TALC_DIMS(p.N, p.OC, p.OH, p.OW));
    const talc_conv2d_options options = { .algorithm = "implicit_gemm" };
    const size_t limit = talc_workspace_limit(cpu_device());
    talc_workspace_set_limit(cpu_device(), 1 << 20);
    talc_set_threads(1);
    const talc_tensor *expected = talc_conv2d_gradient(&p, x, dy, &options);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        talc_set_threads(threads[i]);
        const talc_tensor *dw = talc_conv2d_gradient(&p, x, dy, &options);
        cr_assert(expected != NULL && dw != NULL, "%s", talc_error_message());
        cr_expect(memcmp(talc_data_read(dw, TALC_F32), talc_data_read(expected, TALC_F32),
                         talc_nbytes(dw)) == 0,
                  "%d threads", threads[i]);
    }
    talc_set_threads(before);
    talc_workspace_set_limit(cpu_device(), limit);
}

/* What an infinite weight makes NaN of zeros around dy is recomputed, whatever the blocks. */
Test(conv2d_determinism, threads_do_not_reach_gradients_of_infinite_weights)
{
    static const int threads[] = { 2, 3, 5, 16, 33 };
    const talc_conv2d_problem p = conv2d_parse("n1c5h25w41o16k3x3p8x8d8x8_dx");
    const int before = talc_threads();
    owned_scope *scope = talc_scope_enter();
    talc_tensor *w =
        talc_randn(cpu_device(), TALC_F32, TALC_DIMS(p.OC, p.C / p.groups, p.KH, p.KW));
    const talc_tensor *dy = talc_randn(cpu_device(), TALC_F32, TALC_DIMS(p.N, p.OC, p.OH, p.OW));
    float *weights = talc_data(w, TALC_F32);
    for (int64_t ic = 0; ic < p.C; ic++)
        weights[ic * p.KH * p.KW + ic] = INFINITY;
    const talc_conv2d_options options = { .algorithm = "implicit_gemm" };
    talc_set_threads(1);
    const talc_tensor *expected = talc_conv2d_gradient(&p, w, dy, &options);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        talc_set_threads(threads[i]);
        const talc_tensor *dx = talc_conv2d_gradient(&p, w, dy, &options);
        cr_assert(expected != NULL && dx != NULL, "%s", talc_error_message());
        cr_expect(memcmp(talc_data_read(dx, TALC_F32), talc_data_read(expected, TALC_F32),
                         talc_nbytes(dx)) == 0,
                  "%d threads", threads[i]);
    }
    talc_set_threads(before);
}

/* A sum of two NaN is either, as the compiler orders it in a tile, and threads decide what tiles
 * there are. Of every ten elements of x one is NaN, one -NaN and one infinite. */
static void expect_bits_of_nan(uint64_t seed)
{
    static const double odd[] = { NAN, -NAN, INFINITY };
    static const int threads[] = { 2, 3, 5, 16 };
    const int before = talc_threads();
    const talc_conv2d_problem problem = conv2d_random_problem(seed);
    const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
    owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_RANDOM, seed);
    for (int64_t j = 0; j < data.x_count; j++)
        data.x[j] = j * 7919 % 10 < 3 ? odd[j * 7919 % 10] : data.x[j];
    for (int64_t j = 0; j < data.w_count; j++)
        data.w[j] = j * 104729 % 11 < 2 ? odd[j * 104729 % 11] : data.w[j];
    for (int j = 0; j < e.decision.count; j++) {
        if (e.decision.candidates[j].refused)
            continue;
        talc_set_threads(1);
        owned_double *expected = conv2d_values(cpu_device(), &data, e.decision.candidates[j].title);
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            talc_set_threads(threads[i]);
            owned_double *y = conv2d_values(cpu_device(), &data, e.decision.candidates[j].title);
            cr_expect(first_difference(y, expected, data.y_count) < 0, "%s, seed %d, %d threads",
                      e.decision.candidates[j].title, (int)seed, threads[i]);
        }
    }
    talc_set_threads(before);
}

Test(conv2d_determinism, threads_do_not_reach_bits_of_nan)
{
    static const uint64_t seeds[] = { 68, 135, 282, 355, 384 };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        expect_bits_of_nan(seeds[i]);
}

Test(conv2d_determinism, threads_do_not_reach_bits_of_nan_of_portable_kernels)
{
    setenv("TALC_CPU", "portable", 1);
    for (uint64_t seed = 0; seed < 32; seed++)
        expect_bits_of_nan(seed);
}

/* Some sums are -0 that would be 0 with the zeros that taps around the image read. */
Test(conv2d_determinism, a_small_workspace_has_the_same_zeros)
{
    const talc_conv2d_problem p = conv2d_parse("n1c512h28w28o64k3x3p8x8d8x8");
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_randn(cpu_device(), TALC_F32, TALC_DIMS(p.N, p.C, p.H, p.W));
    const talc_tensor *w = talc_randn(cpu_device(), TALC_F32, TALC_DIMS(p.OC, p.C, p.KH, p.KW));
    const talc_tensor *small = talc_mul_scalar(w, 1e-30);
    const talc_tensor *tiny = talc_mul_scalar(x, 1e-20);
    const talc_conv2d_options options = { .algorithm = "implicit_gemm",
                                          .padding = { p.pad_top, p.pad_left },
                                          .dilation = { p.dilation_h, p.dilation_w } };
    const talc_tensor *expected = talc_conv2d(tiny, small, NULL, &options);
    const size_t limit = talc_workspace_limit(cpu_device());
    talc_workspace_set_limit(cpu_device(), 2000);
    const talc_tensor *y = talc_conv2d(tiny, small, NULL, &options);
    talc_workspace_set_limit(cpu_device(), limit);
    cr_assert(expected != NULL && y != NULL, "%s", talc_error_message());
    cr_expect(memcmp(talc_data_read(y, TALC_F32), talc_data_read(expected, TALC_F32),
                     talc_nbytes(y)) == 0);
}
