/// Pooling as a caller has it: options, shapes. The values of its algorithms are held by
/// test_algorithms.c.
#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <string.h>

// ---- Values -------------------------------------------------------------------------------------

/* 5 by 7, made as ((7 i) mod 11) - 4; the expected values below come from PyTorch. */
static talc_tensor *sample(void)
{
    double x[35];
    for (int i = 0; i < 35; i++)
        x[i] = i * 7 % 11 - 4;
    return talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(1, 1, 5, 7), x);
}

Test(pool2d, values_are_those_of_pytorch)
{
    talc_pool2d_options o = {
        .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .ceil_mode = true
    };
    assert_values(talc_max_pool2d(sample(), &o),
                  (const double[]){ 3, 6, 6, 5, 6, 5, 6, 4, 5, 4, 6, 3 }, 0, "max");

    o = (talc_pool2d_options){ .kernel = { 3, 2 },
                               .stride = { 2, 3 },
                               .padding = { 1, 0 },
                               .dilation = { 1, 2 },
                               .ceil_mode = true };
    talc_tensor *indices;
    assert_values(talc_max_pool2d_indices(sample(), &o, &indices),
                  (const double[]){ 4, 6, 5, 6, 5, 4, 5, 4, 3 }, 0, "dilated max");
    assert_values(indices, (const double[]){ 9, 3, 6, 14, 17, 20, 28, 31, 34 }, 0, "indices");

    o = (talc_pool2d_options){
        .kernel = { 3, 2 }, .stride = { 2, 3 }, .padding = { 1, 1 }, .ceil_mode = true
    };
    assert_values(talc_avg_pool2d(sample(), &o),
                  (const double[]){ -0.5, 1.5, 0.8333333333333334, 1.1666666666666667, 1.5, 0.5,
                                    0.8333333333333334, 0.5, -0.16666666666666666 },
                  1e-15, "avg");
    o.exclude_padding = true;
    assert_values(
        talc_avg_pool2d(sample(), &o),
        (const double[]){ -1.5, 2.25, 1.25, 2.3333333333333335, 1.5, 0.5, 2.5, 0.75, -0.25 }, 1e-15,
        "avg without padding");
    o.divisor_override = 4;
    assert_values(talc_avg_pool2d(sample(), &o),
                  (const double[]){ -0.75, 2.25, 1.25, 1.75, 2.25, 0.75, 1.25, 0.75, -0.25 }, 1e-15,
                  "avg by 4");

    const double third[] = {
        -0.75, 1.5, 0.8333333333333334, 1.25, 0.3333333333333333, 0.4444444444444444, 1.0, 0.5,
        0.5,   0.0, 1.1666666666666667, -0.25
    };
    // clang-format off
    const double seventh[] = {
        -0.6666666666666666, 2.3333333333333335, 1.6666666666666667, 0.0,
        1.1666666666666667,  0.5,                1.3333333333333333, 0.6666666666666666,
        0.0,                 2.0,                1.3333333333333333, 0.6666666666666666,
        0.8333333333333334,  2.0,                1.3333333333333333, 0.3333333333333333,
        1.5,                 0.8333333333333334, 1.0,                0.3333333333333333,
        -0.3333333333333333,
    };
    // clang-format on
    const double max_third[] = { 3, 6, 6, 5, 6, 5, 6, 4, 5, 4, 6, 3 };
    const double max_seventh[] = { 3, 6, 5, 4, 6, 5, 6, 5, 4, 6, 5, 4, 6, 6, 6, 5, 6, 6, 5, 4, 3 };
    const char *const names[] = { "rows", "reference" };
    for (int i = 0; i < 2; i++) {
        talc_algorithm_force("adaptive_max_pool2d", names[i]);
        assert_values(talc_adaptive_max_pool2d(sample(), 3, 4), max_third, 0, names[i]);
        assert_values(talc_adaptive_max_pool2d(sample(), 7, 3), max_seventh, 0, names[i]);
        talc_algorithm_force("adaptive_avg_pool2d", names[i]);
        assert_values(talc_adaptive_avg_pool2d(sample(), 3, 4), third, 1e-15, names[i]);
        assert_values(talc_adaptive_avg_pool2d(sample(), 7, 3), seventh, 1e-15, names[i]);
    }
}

/* The sample under padding that PyTorch's own pooling does not take: there F.pad is first. */
Test(pool2d, padding_of_each_side_is_that_of_a_padded_image_in_pytorch)
{
    talc_pool2d_options o = {
        .kernel = { 3, 2 }, .stride = { 2, 3 }, .padding = { 2, 1 }, .padding_end = { 1, TALC_ZERO }
    };
    talc_tensor *indices;
    assert_values(talc_max_pool2d_indices(sample(), &o, &indices),
                  (const double[]){ -4, 6, 5, 6, 6, 5, 6, 5, 4 }, 0, "max");
    assert_values(indices, (const double[]){ 0, 3, 6, 14, 3, 6, 14, 17, 20 }, 0, "indices");
    assert_values(talc_avg_pool2d(sample(), &o),
                  (const double[]){ -4.0 / 6, 5.0 / 6, 3.0 / 6, 3.0 / 6, 12.0 / 6, 6.0 / 6,
                                    11.0 / 6, 6.0 / 6, 0.0 / 6 },
                  1e-15, "avg");
    o.exclude_padding = true;
    assert_values(talc_avg_pool2d(sample(), &o),
                  (const double[]){ -4.0 / 1, 5.0 / 2, 3.0 / 2, 3.0 / 3, 12.0 / 6, 6.0 / 6,
                                    11.0 / 3, 6.0 / 6, 0.0 / 6 },
                  1e-15, "avg without padding");
}

Test(pool2d, a_window_wider_than_a_tile_is_for_the_reference)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 3 * 5003, 1);
    x = talc_view(x, TALC_DIMS(1, 1, 3, 5003));
    talc_algorithm_force("adaptive_avg_pool2d", "rows");
    cr_assert_null(talc_adaptive_avg_pool2d(x, 1, 1));
    assert_failure(TALC_UNSUPPORTED,
                   "adaptive_avg_pool2d on cpu: rows: a window spans more than 2048 columns");
    talc_algorithm_force("adaptive_avg_pool2d", NULL);
    cr_assert(talc_item(talc_adaptive_avg_pool2d(x, 1, 1)) == (3 * 5003 - 1) / 2.0);
}

/* Of equal maxima the first counts, of several NaN the last, as in PyTorch. */
Test(pool2d, indices_of_ties_and_nan)
{
    const float x[] = { 1, 3, 3, 1, NAN, 0, 0, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    talc_tensor *t = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(3, 2, 2), x);
    talc_tensor *indices;
    talc_tensor *y =
        talc_max_pool2d_indices(t, &(talc_pool2d_options){ .kernel = { 2, 2 } }, &indices);
    cr_assert(y->rank == 3 && indices->rank == 3 && indices->dtype == TALC_I64);
    assert_values(y, (const double[]){ 3, NAN, -INFINITY }, 0, "values");
    assert_values(indices, (const double[]){ 1, 3, 0 }, 0, "indices");
}

/* One window, so that the stride is never followed. */
Test(pool2d, a_stride_may_be_of_any_length)
{
    talc_tensor *x = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2, 2, 5, 6));
    for (int i = 0; i < 4; i++) {
        const int64_t strides[] = { 100, INT64_MAX - i / 2 };
        const float *y[2];
        for (int s = 0; s < 2; s++) {
            const talc_pool2d_options options = { .kernel = { 5, 4 },
                                                  .padding = { 2, 2 },
                                                  .stride = { strides[s], strides[s] } };
            talc_tensor *result =
                i % 2 == 0 ? talc_max_pool2d(x, &options) : talc_avg_pool2d(x, &options);
            cr_assert(result != NULL && talc_numel(result) == 4, "%s", talc_error_message());
            y[s] = talc_data(result, TALC_F32);
        }
        cr_assert(memcmp(y[0], y[1], 4 * sizeof *y[0]) == 0);
    }
}

Test(pool2d, empty_batches_and_outputs_give_empty_results)
{
    const talc_pool2d_options o = { .kernel = { 2, 2 } };
    talc_tensor *x = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(0, 3, 4, 4));
    talc_tensor *indices;
    talc_tensor *y = talc_max_pool2d_indices(x, &o, &indices);
    assert_no_failure();
    cr_assert(y->dims[0] == 0 && y->dims[2] == 2 && indices->dims[3] == 2);
    x = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(1, 3, 4, 4));
    y = talc_adaptive_avg_pool2d(x, 0, 5);
    assert_no_failure();
    cr_assert(y->dims[2] == 0 && y->dims[3] == 5);
}
