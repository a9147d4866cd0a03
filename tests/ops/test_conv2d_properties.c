/// What is true of every convolution, whatever the oracle says, beside the properties that the cross-check has
/// (check/properties.h): symmetries, kernels whose result is known, sums in parts.
#include "tests/support/conv2d_property.h"
#include "tests/support/hooks.h"

#include <stdlib.h>
#include <string.h>

// ---- Symmetries ---------------------------------------------------------------------------------------------

/* rows x columns planes, each transposed. */
static double *transposed(const double *values, int64_t planes, int64_t rows, int64_t columns)
{
    double *result = new_values(planes * rows * columns);
    for (int64_t i = 0; i < planes * rows * columns; i++)
        result[i / (rows * columns) * rows * columns + i % columns * rows + i / columns % rows] =
            values[i];
    return result;
}

static void swap(int64_t *a, int64_t *b)
{
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Exchanging height and width everywhere exchanges them in the result. */
static void transposes(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), turned = data;
    talc_conv2d_problem *q = &turned.problem;
    swap(&q->H, &q->W);
    swap(&q->KH, &q->KW);
    swap(&q->OH, &q->OW);
    swap(&q->stride_h, &q->stride_w);
    swap(&q->dilation_h, &q->dilation_w);
    swap(&q->pad_top, &q->pad_left);
    swap(&q->pad_bottom, &q->pad_right);
    turned.x = transposed(data.x, p->N * p->C, p->H, p->W);
    turned.w = transposed(data.w, p->OC * p->C / p->groups, p->KH, p->KW);
    double *y = conv2d_values(tested_device(), &data, algorithm),
           *other = conv2d_values(tested_device(), &turned, algorithm);
    double *due = transposed(y, p->N * p->OC, p->OH, p->OW);
    expect_equal(other, due, data.y_count, p, algorithm);
    double *const made[] = { turned.x, turned.w, y, other, due };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    conv2d_data_free(&data);
}

Test(conv2d_properties, height_and_width_are_alike)
{
    for_all_problems(transposes, NULL);
}

/* rows x columns planes, each turned by 180 degrees. */
static double *turned_about(const double *values, int64_t planes, int64_t area)
{
    double *result = new_values(planes * area);
    for (int64_t i = 0; i < planes * area; i++)
        result[i / area * area + area - 1 - i % area] = values[i];
    return result;
}

/* Where windows leave nothing over at the end, turning image and kernel turns the result. */
static void turns(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), turned = data;
    swap(&turned.problem.pad_top, &turned.problem.pad_bottom);
    swap(&turned.problem.pad_left, &turned.problem.pad_right);
    turned.x = turned_about(data.x, p->N * p->C, p->H * p->W);
    turned.w = turned_about(data.w, p->OC * p->C / p->groups, p->KH * p->KW);
    double *y = conv2d_values(tested_device(), &data, algorithm),
           *other = conv2d_values(tested_device(), &turned, algorithm);
    double *due = turned_about(y, p->N * p->OC, p->OH * p->OW);
    expect_equal(other, due, data.y_count, p, algorithm);
    double *const made[] = { turned.x, turned.w, y, other, due };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    conv2d_data_free(&data);
}

/* Takes away at the end what no window reaches: padding first, and the stride where that is not enough. */
static void fit_exactly(talc_conv2d_problem *p)
{
    const int64_t over_h =
        (p->H + p->pad_top + p->pad_bottom - p->dilation_h * (p->KH - 1) - 1) % p->stride_h;
    const int64_t over_w =
        (p->W + p->pad_left + p->pad_right - p->dilation_w * (p->KW - 1) - 1) % p->stride_w;
    if (over_h <= p->pad_bottom)
        p->pad_bottom -= over_h;
    else
        p->stride_h = 1;
    if (over_w <= p->pad_right)
        p->pad_right -= over_w;
    else
        p->stride_w = 1;
}

Test(conv2d_properties, turning_the_operands_turns_the_result)
{
    for_all_problems(turns, fit_exactly);
}

// ---- Known kernels ------------------------------------------------------------------------------------------

/* Output channel oc, whose kernel is 1 at one tap of one channel, is that channel moved so that the tap is at its
 * place: with `same` padding, stride 1, and the tap in the middle, the image itself. */
Test(conv2d_properties, a_delta_kernel_reproduces_the_image)
{
    enum { C = 3, H = 5, W = 6, KH = 3, KW = 5 };
    talc_device *device = cpu_device();
    const talc_tensor *x = random_tensor(device, TALC_F32, TALC_DIMS(2, C, H, W), 9);
    float taps[C * C * KH * KW] = { 0 };
    for (int c = 0; c < C; c++)
        taps[((c * C + c) * KH + KH / 2) * KW + KW / 2] = 1;
    const talc_tensor *w = talc_from_host(device, TALC_F32, TALC_DIMS(C, C, KH, KW), taps);
    for (talc_padding_mode mode = TALC_PADDING_ZEROS; mode < TALC_PADDING_MODE_COUNT; mode++) {
        const talc_conv2d_options options = { .padding_same = true, .padding_mode = mode };
        const talc_tensor *y = talc_conv2d(x, w, NULL, &options);
        assert_no_failure();
        cr_assert(talc_same_dims(x, y));
        cr_assert(memcmp(talc_data(x, TALC_F32), talc_data(y, TALC_F32), talc_nbytes(x)) == 0, "%s",
                  talc_padding_mode_name(mode));
    }
    assert_all_freed();
}

/* The kernel is not flipped: a delta image shows it turned by 180 degrees. */
Test(conv2d_properties, a_delta_image_shows_the_kernel)
{
    const float pixel[] = { 0, 0, 0, 0, 1, 0, 0, 0, 0 }, taps[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    const talc_tensor *x = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 3, 3), pixel);
    const talc_tensor *w = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 3, 3), taps);
    const talc_tensor *y = talc_conv2d(x, w, NULL, &(talc_conv2d_options){ .padding = { 1, 1 } });
    assert_no_failure();
    for (int i = 0; i < 9; i++)
        cr_assert(((float *)talc_data(y, TALC_F32))[i] == taps[8 - i], "element %d", i);
    assert_all_freed();
}

/* Ones over ones count the taps that fall into the image. */
static void counts(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed);
    for (int64_t i = 0; i < data.x_count; i++)
        data.x[i] = 1;
    for (int64_t i = 0; i < data.w_count; i++)
        data.w[i] = 1;
    double *y = conv2d_values(tested_device(), &data, algorithm), *due = new_values(data.y_count);
    for (int64_t i = 0; i < data.y_count; i++) {
        int64_t rows = 0, columns = 0;
        for (int64_t kh = 0; kh < p->KH; kh++) {
            const int64_t h = i / p->OW % p->OH * p->stride_h + kh * p->dilation_h - p->pad_top;
            rows += h >= 0 && h < p->H;
        }
        for (int64_t kw = 0; kw < p->KW; kw++) {
            const int64_t w = i % p->OW * p->stride_w + kw * p->dilation_w - p->pad_left;
            columns += w >= 0 && w < p->W;
        }
        due[i] = (double)(rows * columns * (p->C / p->groups));
    }
    expect_equal(y, due, data.y_count, p, algorithm);
    free(y);
    free(due);
    conv2d_data_free(&data);
}

static void zeros_outside(talc_conv2d_problem *p)
{
    p->padding_mode = TALC_PADDING_ZEROS;
}

Test(conv2d_properties, ones_count_the_window)
{
    for_all_problems(counts, zeros_outside);
}

// ---- Sums and paddings ---------------------------------------------------------------------------------------

/* The sum over channels is the sum over the even ones and, as residual, over the odd ones. */
static void splits_into_channels(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), half = data;
    double *w_even = new_values(data.w_count), *w_odd = new_values(data.w_count);
    for (int64_t i = 0; i < data.w_count; i++)
        (i / (p->KH * p->KW) % 2 == 0 ? w_even : w_odd)[i] = data.w[i];
    double *odd = values_with(&data, data.x, w_odd, algorithm);
    half.w = w_even;
    half.residual = odd;
    half.problem.residual = true;
    double *sum = conv2d_values(tested_device(), &half, algorithm),
           *y = conv2d_values(tested_device(), &data, algorithm);
    expect_equal(sum, y, data.y_count, p, algorithm);
    double *const made[] = { w_even, w_odd, odd, sum, y };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    conv2d_data_free(&data);
}

Test(conv2d_properties, channels_add_up)
{
    for_all_problems(splits_into_channels, NULL);
}

/* Bias, residual and activation are what they are when applied afterwards. */
static void finishes(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    talc_conv2d_problem whole = *p;
    whole.bias = whole.residual = true;
    whole.activation = TALC_ACTIVATION_RELU;
    conv2d_data data = conv2d_data_new(&whole, TALC_CHECK_EXACT, seed), bare = data;
    bare.problem = *p;
    bare.bias = bare.residual = NULL;
    double *y = conv2d_values(tested_device(), &data, algorithm),
           *due = conv2d_values(tested_device(), &bare, algorithm);
    for (int64_t i = 0; i < data.y_count; i++) {
        due[i] += data.bias[i / (p->OH * p->OW) % p->OC] + data.residual[i];
        due[i] = due[i] > 0 ? due[i] : 0;
    }
    expect_equal(y, due, data.y_count, p, algorithm);
    free(y);
    free(due);
    conv2d_data_free(&data);
}

Test(conv2d_properties, the_epilogue_may_come_afterwards)
{
    for_all_problems(finishes, NULL);
}

/* `same` gives outputs of the image's extents, with the larger half of an odd total at the end. */
Test(conv2d_properties, same_padding_is_explicit_padding)
{
    for (int64_t k = 1; k <= 6; k++)
        for (int64_t dilation = 1; dilation <= 3; dilation++) {
            const int64_t total = dilation * (k - 1), wide = dilation * 2;
            const talc_tensor *x =
                random_tensor(cpu_device(), TALC_F32, TALC_DIMS(1, 2, 7, 9), (uint64_t)k);
            const talc_tensor *w =
                random_tensor(cpu_device(), TALC_F32, TALC_DIMS(3, 2, k, 3), (uint64_t)dilation);
            const talc_conv2d_options same = { .padding_same = true,
                                               .dilation = { dilation, dilation } };
            const talc_conv2d_options explicit = {
                .padding = { total / 2, wide / 2 },
                .padding_end = { total == 0 ? TALC_ZERO : total - total / 2, wide - wide / 2 },
                .dilation = { dilation, dilation },
            };
            const talc_tensor *y = talc_conv2d(x, w, NULL, &same),
                              *due = talc_conv2d(x, w, NULL, &explicit);
            assert_no_failure();
            cr_assert(y->dims[2] == 7 && y->dims[3] == 9, "kernel %d, dilation %d", (int)k,
                      (int)dilation);
            cr_assert(talc_same_dims(y, due));
            cr_assert(memcmp(talc_data(y, TALC_F32), talc_data(due, TALC_F32), talc_nbytes(y)) ==
                      0);
        }
    assert_all_freed();
}
