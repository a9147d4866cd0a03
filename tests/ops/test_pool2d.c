#include "tests/support/hooks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The oracle: padded image, then windows, in f64 ---------------------------------------------------------

typedef struct pooled {
    int64_t OH, OW;
    double *values;
    int64_t *indices;
} pooled;

static int64_t extent_out(int64_t in, int64_t k, int64_t s, int64_t before, int64_t after,
                          int64_t d, bool ceil_mode)
{
    int64_t out = 0;
    for (int64_t start = -before;; start += s) {
        bool fits = start + d * (k - 1) + 1 <= in + after;
        /* With ceil_mode the first window that does not fit is the last one, if it starts early enough. */
        bool extra = ceil_mode && start < in && start - s + d * (k - 1) + 1 < in + after;
        if (!fits && !extra)
            return out;
        out++;
        if (!fits)
            return out;
    }
}

static pooled oracle(bool max, const double *x, const int64_t dims[4], const talc_pool2d_options *o)
{
    int64_t k[2], s[2], d[2], out[2], before[2], after[2];
    for (int i = 0; i < 2; i++) {
        k[i] = o->kernel[i];
        s[i] = o->stride[i] == 0 ? k[i] : o->stride[i];
        d[i] = o->dilation[i] == 0 ? 1 : o->dilation[i];
        const int64_t end = o->padding_end[i] == 0 ? o->padding[i] : o->padding_end[i];
        before[i] = o->padding_same ? d[i] * (k[i] - 1) / 2 : o->padding[i];
        after[i] = o->padding_same ? d[i] * (k[i] - 1) - before[i] : end == TALC_ZERO ? 0 : end;
        out[i] = extent_out(dims[2 + i], k[i], s[i], before[i], after[i], d[i], o->ceil_mode);
    }
    const int64_t planes = dims[0] * dims[1], H = dims[2], W = dims[3];
    pooled result = { out[0], out[1],
                      malloc((size_t)(planes * out[0] * out[1] + 1) * sizeof(double)),
                      malloc((size_t)(planes * out[0] * out[1] + 1) * sizeof(int64_t)) };
    int64_t at = 0;
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t oh = 0; oh < out[0]; oh++)
            for (int64_t ow = 0; ow < out[1]; ow++, at++) {
                double sum = 0, most = -INFINITY;
                int64_t inside = 0, padded = 0, index = -1;
                for (int64_t kh = 0; kh < k[0]; kh++)
                    for (int64_t kw = 0; kw < k[1]; kw++) {
                        int64_t ih = oh * s[0] - before[0] + kh * d[0];
                        int64_t iw = ow * s[1] - before[1] + kw * d[1];
                        padded += ih < H + after[0] && iw < W + after[1];
                        if (ih < 0 || iw < 0 || ih >= H || iw >= W)
                            continue;
                        double v = x[(plane * H + ih) * W + iw];
                        inside++;
                        sum += v;
                        if (index < 0 || isnan(v) || (!isnan(most) && v > most)) {
                            most = v;
                            index = ih * W + iw;
                        }
                    }
                double divisor = o->divisor_override > 0 ? (double)o->divisor_override
                                 : o->exclude_padding    ? (double)inside
                                                         : (double)padded;
                result.values[at] = max ? most : inside == 0 ? 0 : sum / divisor;
                result.indices[at] = index;
            }
    return result;
}

static void free_pooled(pooled p)
{
    free(p.values);
    free(p.indices);
}

// ---- Data ---------------------------------------------------------------------------------------------------

static uint64_t state = 1;

static int64_t draw(int64_t below)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

/* Multiples of 1/8, so that both types hold them. */
static talc_tensor *draw_tensor(talc_dtype dtype, talc_dims dims, bool special, double **values)
{
    int64_t numel = 1;
    for (int i = 0; i < dims.rank; i++)
        numel *= dims.dim[i];
    double *v = malloc((size_t)(numel + 1) * sizeof *v);
    for (int64_t i = 0; i < numel; i++) {
        v[i] = (double)(draw(257) - 128) / 8;
        if (special && draw(8) == 0)
            v[i] = draw(2) == 0 ? NAN : -INFINITY;
    }
    *values = v;
    return talc_cast(talc_from_host(cpu_device(), TALC_F64, dims, v), dtype);
}

static void assert_values(talc_tensor *y, const double *due, double tolerance, const char *what)
{
    assert_no_failure();
    const double *data = talc_data(talc_cast(y, TALC_F64), TALC_F64);
    for (int64_t i = 0; i < talc_numel(y); i++) {
        bool same = data[i] == due[i] || (isnan(data[i]) && isnan(due[i])) ||
                    fabs(data[i] - due[i]) <= tolerance * (1 + fabs(due[i]));
        cr_assert(same, "%s: element %d is %.17g instead of %.17g", what, (int)i, data[i], due[i]);
    }
}

// ---- Values -------------------------------------------------------------------------------------------------

static talc_pool2d_options draw_options(bool max, const int64_t dims[4])
{
    talc_pool2d_options o = { .ceil_mode = draw(2) == 0 };
    for (int i = 0; i < 2; i++) {
        int64_t largest = dims[2 + i] < 6 ? dims[2 + i] : 6;
        o.kernel[i] = 1 + draw(largest);
        o.stride[i] = draw(5);
        o.dilation[i] = max ? draw(4) : 0;
        const int64_t most = (o.kernel[i] - 1) * (o.dilation[i] == 0 ? 1 : o.dilation[i]);
        o.padding[i] = draw(most + 1);
        if (draw(2) == 0)
            o.padding_end[i] = draw(4) == 0 ? TALC_ZERO : draw(most + 1);
    }
    if (draw(8) == 0) {
        o.padding_same = true;
        for (int i = 0; i < 2; i++) {
            o.stride[i] = 1;
            o.padding[i] = o.padding_end[i] = 0;
        }
    }
    if (!max) {
        o.exclude_padding = draw(2) == 0;
        o.divisor_override = draw(3) == 0 ? 1 + draw(9) : 0;
    }
    return o;
}

static void check_drawn_case(int number, const char *algorithm)
{
    const bool max = draw(2) == 0;
    const talc_dtype dtype = draw(2) == 0 ? TALC_F32 : TALC_F64;
    const int64_t dims[4] = { 1 + draw(2), 1 + draw(3), 1 + draw(13), 1 + draw(13) };
    talc_pool2d_options o = draw_options(max, dims);
    o.algorithm = algorithm;
    char what[200];
    snprintf(what, sizeof what,
             "case %d %s %s %s h%d w%d k%dx%d s%dx%d p%dx%d,%dx%d d%dx%d same%d ceil%d", number,
             algorithm, max ? "max" : "avg", talc_dtype_name(dtype), (int)dims[2], (int)dims[3],
             (int)o.kernel[0], (int)o.kernel[1], (int)o.stride[0], (int)o.stride[1],
             (int)o.padding[0], (int)o.padding[1], (int)o.padding_end[0], (int)o.padding_end[1],
             (int)o.dilation[0], (int)o.dilation[1], o.padding_same, o.ceil_mode);

    talc_scope *scope = talc_scope_enter();
    double *values;
    talc_tensor *x =
        draw_tensor(dtype, TALC_DIMS(dims[0], dims[1], dims[2], dims[3]), draw(3) == 0, &values);
    pooled due = oracle(max, values, dims, &o);
    talc_tensor *y = max ? talc_max_pool2d(x, &o) : talc_avg_pool2d(x, &o);
    if (due.OH == 0 || due.OW == 0) {
        cr_assert(y == NULL && talc_error_status() == TALC_BAD_SHAPE, "%s: no window fits", what);
        talc_error_clear();
    } else {
        assert_no_failure();
        cr_assert(y->dims[2] == due.OH && y->dims[3] == due.OW, "%s: %dx%d instead of %dx%d", what,
                  (int)y->dims[2], (int)y->dims[3], (int)due.OH, (int)due.OW);
        assert_values(y, due.values, max ? 0 : dtype == TALC_F32 ? 4e-6 : 1e-14, what);
        assert_values(x, values, 0, what);
        talc_tensor *indices;
        o.algorithm = NULL;
        if (max) {
            assert_values(talc_max_pool2d_indices(x, &o, &indices), due.values, 0, what);
            const int64_t *at = talc_data(indices, TALC_I64);
            for (int64_t i = 0; i < talc_numel(y); i++)
                cr_assert(at[i] == due.indices[i], "%s: index %d is %d instead of %d", what, (int)i,
                          (int)at[i], (int)due.indices[i]);
        }
    }
    free_pooled(due);
    free(values);
    talc_scope_leave(scope);
}

Test(pool2d, both_algorithms_agree_with_the_oracle_on_drawn_options)
{
    for (int i = 0; i < 1500; i++)
        check_drawn_case(i, i % 2 == 0 ? "rows" : "reference");
    assert_all_freed();
}

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
    const double seventh[] = { -0.6666666666666666,
                               2.3333333333333335,
                               1.6666666666666667,
                               0.0,
                               1.1666666666666667,
                               0.5,
                               1.3333333333333333,
                               0.6666666666666666,
                               0.0,
                               2.0,
                               1.3333333333333333,
                               0.6666666666666666,
                               0.8333333333333334,
                               2.0,
                               1.3333333333333333,
                               0.3333333333333333,
                               1.5,
                               0.8333333333333334,
                               1.0,
                               0.3333333333333333,
                               -0.3333333333333333 };
    const char *const names[] = { "rows", "reference" };
    for (int i = 0; i < 2; i++) {
        talc_algorithm_force("adaptive_avg_pool2d", names[i]);
        assert_values(talc_adaptive_avg_pool2d(sample(), 3, 4), third, 1e-15, names[i]);
        assert_values(talc_adaptive_avg_pool2d(sample(), 7, 3), seventh, 1e-15, names[i]);
    }
    assert_all_freed();
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
    assert_all_freed();
}

Test(pool2d, rows_wider_than_a_tile_agree_with_the_oracle)
{
    const int64_t dims[4] = { 1, 2, 3, 5003 };
    double *values;
    talc_tensor *x = draw_tensor(TALC_F32, TALC_DIMS(1, 2, 3, 5003), false, &values);
    const talc_pool2d_options cases[] = {
        { .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }, .algorithm = "rows" },
        { .kernel = { 2, 2 }, .stride = { 2, 2 }, .ceil_mode = true, .algorithm = "rows" },
        { .kernel = { 1, 2000 }, .stride = { 1, 7 }, .padding = { 0, 1000 }, .algorithm = "rows" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int max = 0; max < 2; max++) {
            pooled due = oracle(max == 1, values, dims, &cases[i]);
            assert_values(max == 1 ? talc_max_pool2d(x, &cases[i]) : talc_avg_pool2d(x, &cases[i]),
                          due.values, max == 1 ? 0 : 1e-4, "wide");
            free_pooled(due);
        }
    talc_pool2d_options dilated = { .kernel = { 2, 3 },
                                    .stride = { 1, 1 },
                                    .padding = { 1, 1 },
                                    .dilation = { 2, 900 },
                                    .algorithm = "rows" };
    pooled due = oracle(true, values, dims, &dilated);
    assert_values(talc_max_pool2d(x, &dilated), due.values, 0, "wide and dilated");
    free_pooled(due);

    talc_algorithm_force("adaptive_avg_pool2d", "reference");
    talc_tensor *expected = talc_cast(talc_adaptive_avg_pool2d(x, 2, 11), TALC_F64);
    talc_algorithm_force("adaptive_avg_pool2d", "rows");
    assert_values(talc_adaptive_avg_pool2d(x, 2, 11), talc_data(expected, TALC_F64), 1e-4,
                  "wide and adaptive");
    talc_algorithm_force("adaptive_avg_pool2d", NULL);

    /* One window as wide as the image is for the reference. */
    talc_algorithm_force("adaptive_avg_pool2d", "rows");
    cr_assert_null(talc_adaptive_avg_pool2d(x, 1, 1));
    assert_failure(TALC_UNSUPPORTED,
                   "adaptive_avg_pool2d on cpu: rows: a window spans more than 2048 columns");
    talc_algorithm_force("adaptive_avg_pool2d", NULL);
    double mean = 0;
    for (int i = 0; i < 3 * 5003; i++)
        mean += values[i] / (3 * 5003);
    cr_assert_float_eq(
        talc_item(talc_select(talc_flatten(talc_adaptive_avg_pool2d(x, 1, 1), 0, -1), 0, 0)), mean,
        1e-6);
    free(values);
    assert_all_freed();
}

Test(pool2d, a_nan_touches_only_windows_that_hold_it)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 6, 6));
    talc_fill(talc_select(talc_select(x, 2, 2), 2, 3), NAN);
    const char *const names[] = { "rows", "reference" };
    for (int i = 0; i < 2; i++)
        for (int max = 0; max < 2; max++) {
            const talc_pool2d_options o = { .kernel = { 3, 3 },
                                            .stride = { 1, 1 },
                                            .algorithm = names[i] };
            const float *y =
                talc_data(max == 1 ? talc_max_pool2d(x, &o) : talc_avg_pool2d(x, &o), TALC_F32);
            for (int at = 0; at < 16; at++) {
                bool holds = at / 4 <= 2 && at % 4 >= 1;
                cr_assert(holds ? isnan(y[at]) : y[at] == 1, "%s max=%d: output %d is %g", names[i],
                          max, at, (double)y[at]);
            }
        }
    assert_all_freed();
}

/* Of equal maxima the first counts, of several NaN the last, as in PyTorch. */
Test(pool2d, indices_of_ties_nan_and_empty_windows)
{
    const float x[] = { 1, 3, 3, 1, NAN, 0, 0, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    talc_tensor *t = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(3, 2, 2), x);
    talc_tensor *indices;
    talc_tensor *y =
        talc_max_pool2d_indices(t, &(talc_pool2d_options){ .kernel = { 2, 2 } }, &indices);
    cr_assert(y->rank == 3 && indices->rank == 3 && indices->dtype == TALC_I64);
    assert_values(y, (const double[]){ 3, NAN, -INFINITY }, 0, "values");
    assert_values(indices, (const double[]){ 1, 3, 0 }, 0, "indices");

    /* Both taps of the only window lie outside. */
    const talc_pool2d_options outside = { .kernel = { 2, 1 },
                                          .padding = { 1, 0 },
                                          .dilation = { 3, 1 } };
    y = talc_max_pool2d_indices(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 2, 1)), &outside,
                                &indices);
    assert_values(y, (const double[]){ -INFINITY }, 0, "no tap");
    assert_values(indices, (const double[]){ -1 }, 0, "no tap");
    cr_assert(talc_item(talc_max_pool2d(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 2, 1)),
                                        &outside)) == -INFINITY);
    assert_all_freed();
}

Test(pool2d, views_are_read_through_their_strides)
{
    double *values;
    talc_tensor *x = draw_tensor(TALC_F32, TALC_DIMS(2, 9, 7, 3), false, &values);
    talc_tensor *view = talc_permute(x, TALC_DIMS(0, 3, 1, 2));
    const talc_pool2d_options o = { .kernel = { 2, 3 }, .padding = { 1, 1 } };
    talc_tensor *due = talc_cast(talc_avg_pool2d(talc_clone(view), &o), TALC_F64);
    assert_values(talc_avg_pool2d(view, &o), talc_data(due, TALC_F64), 0, "permuted");
    free(values);
    assert_all_freed();
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
    assert_all_freed();
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
    assert_all_freed();
}

Test(pool2d, results_do_not_depend_on_the_number_of_threads)
{
    double *values;
    talc_tensor *x = draw_tensor(TALC_F32, TALC_DIMS(3, 5, 67, 61), false, &values);
    const talc_pool2d_options o = { .kernel = { 3, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 } };
    float *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        talc_set_threads(threads);
        talc_tensor *y = talc_avg_pool2d(talc_div_scalar(x, 3), &o);
        size_t bytes = talc_nbytes(y);
        if (first == NULL)
            first = memcpy(malloc(bytes), talc_data(y, TALC_F32), bytes);
        cr_assert(memcmp(first, talc_data(y, TALC_F32), bytes) == 0, "%d threads", threads);
    }
    free(first);
    free(values);
    assert_all_freed();
}
