/// A convolution in terms of others: groups are slices, a batch is its images, padding is an image padded before.
#include "tests/support/conv2d_property.h"
#include "tests/support/hooks.h"

#include <stdlib.h>
#include <string.h>

/* Copies channels first .. first+count-1 of [N, channels, area] between host arrays. */
static void copy_channels(double *to, int64_t to_channels, int64_t to_first, const double *from,
                          int64_t from_channels, int64_t from_first, int64_t count, int64_t N,
                          int64_t area)
{
    for (int64_t n = 0; n < N; n++)
        memcpy(to + (n * to_channels + to_first) * area,
               from + (n * from_channels + from_first) * area, (size_t)(count * area) * sizeof *to);
}

/* Groups are convolutions of slices, side by side. */
static void splits_into_groups(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), part = data;
    const int64_t C = p->C / p->groups, OC = p->OC / p->groups, area = p->OH * p->OW;
    part.problem.C = C;
    part.problem.OC = OC;
    part.problem.groups = 1;
    part.x = new_values(p->N * C * p->H * p->W);
    double *due = new_values(data.y_count);
    for (int64_t g = 0; g < p->groups; g++) {
        copy_channels(part.x, C, 0, data.x, p->C, g * C, C, p->N, p->H * p->W);
        part.w = data.w + g * OC * C * p->KH * p->KW;
        double *slice = conv2d_values(tested_device(), &part, algorithm);
        copy_channels(due, p->OC, g * OC, slice, OC, 0, OC, p->N, area);
        free(slice);
    }
    double *y = conv2d_values(tested_device(), &data, algorithm);
    expect_equal(y, due, data.y_count, p, algorithm);
    free(part.x);
    free(due);
    free(y);
    conv2d_data_free(&data);
}

static void three_groups(talc_conv2d_problem *p)
{
    p->C = 3 * (p->C / p->groups);
    p->OC = 3 * (p->OC / p->groups);
    p->groups = 3;
}

Test(conv2d_identities, groups_are_slices_side_by_side)
{
    for_all_problems(splits_into_groups, three_groups);
}

/* A batch is its images, one by one. */
static void splits_into_images(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), one = data;
    one.problem.N = 1;
    double *y = conv2d_values(tested_device(), &data, algorithm);
    for (int64_t n = 0; n < p->N; n++) {
        one.x = data.x + n * p->C * p->H * p->W;
        double *image = conv2d_values(tested_device(), &one, algorithm);
        const int64_t count = p->OC * p->OH * p->OW;
        expect_equal(y + n * count, image, count, p, algorithm);
        free(image);
    }
    free(y);
    conv2d_data_free(&data);
}

Test(conv2d_identities, a_batch_is_its_images)
{
    for_all_problems(splits_into_images, NULL);
}

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

Test(conv2d_identities, channels_add_up)
{
    for_all_problems(splits_into_channels, NULL);
}

/* A dilated kernel is a dense one with zeros between its taps. */
static void dilates(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), dense = data;
    talc_conv2d_problem *q = &dense.problem;
    q->KH = p->dilation_h * (p->KH - 1) + 1;
    q->KW = p->dilation_w * (p->KW - 1) + 1;
    q->dilation_h = q->dilation_w = 1;
    const int64_t planes = p->OC * p->C / p->groups;
    dense.w = new_values(planes * q->KH * q->KW);
    for (int64_t i = 0; i < data.w_count; i++) {
        const int64_t plane = i / (p->KH * p->KW), kh = i / p->KW % p->KH, kw = i % p->KW;
        dense.w[(plane * q->KH + kh * p->dilation_h) * q->KW + kw * p->dilation_w] = data.w[i];
    }
    double *y = conv2d_values(tested_device(), &data, algorithm),
           *due = conv2d_values(tested_device(), &dense, algorithm);
    expect_equal(y, due, data.y_count, p, algorithm);
    free(dense.w);
    free(y);
    free(due);
    conv2d_data_free(&data);
}

static void dilated(talc_conv2d_problem *p)
{
    p->dilation_h = 2;
    p->dilation_w = 3;
    p->H += 2 * p->KH;
    p->W += 3 * p->KW;
}

Test(conv2d_identities, dilation_is_a_kernel_with_zeros)
{
    for_all_problems(dilates, dilated);
}

/* A stride leaves out outputs of stride 1. */
static void strides(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), all = data;
    talc_conv2d_problem *q = &all.problem;
    q->stride_h = q->stride_w = 1;
    cr_assert(talc_conv2d_problem_check(q));
    double *y = conv2d_values(tested_device(), &data, algorithm),
           *dense = conv2d_values(tested_device(), &all, algorithm);
    double *due = new_values(data.y_count);
    for (int64_t i = 0; i < data.y_count; i++) {
        const int64_t plane = i / (p->OH * p->OW), oh = i / p->OW % p->OH, ow = i % p->OW;
        due[i] = dense[(plane * q->OH + oh * p->stride_h) * q->OW + ow * p->stride_w];
    }
    expect_equal(y, due, data.y_count, p, algorithm);
    free(y);
    free(dense);
    free(due);
    conv2d_data_free(&data);
}

static void strided(talc_conv2d_problem *p)
{
    p->stride_h = 2;
    p->stride_w = 3;
}

Test(conv2d_identities, a_stride_leaves_outputs_out)
{
    for_all_problems(strides, strided);
}

/* Where padded coordinate i of an axis comes from, -1 for a zero. */
static int64_t padded_from(int64_t i, int64_t size, talc_padding_mode mode)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == TALC_PADDING_REPLICATE)
        return i < 0 ? 0 : size - 1;
    if (mode == TALC_PADDING_CIRCULAR)
        return (i + size) % size;
    if (mode == TALC_PADDING_REFLECT)
        return i < 0 ? -i : 2 * size - 2 - i;
    return -1;
}

/* Padding is an image that was padded before. */
static void pads(const talc_conv2d_problem *p, const char *algorithm, uint64_t seed)
{
    conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed), padded = data;
    talc_conv2d_problem *q = &padded.problem;
    q->H = p->H + p->pad_top + p->pad_bottom;
    q->W = p->W + p->pad_left + p->pad_right;
    q->pad_top = q->pad_bottom = q->pad_left = q->pad_right = 0;
    q->padding_mode = TALC_PADDING_ZEROS;
    const int64_t count = p->N * p->C * q->H * q->W;
    padded.x = new_values(count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t plane = i / (q->H * q->W);
        const int64_t h = padded_from(i / q->W % q->H - p->pad_top, p->H, p->padding_mode);
        const int64_t w = padded_from(i % q->W - p->pad_left, p->W, p->padding_mode);
        padded.x[i] = h < 0 || w < 0 ? 0 : data.x[(plane * p->H + h) * p->W + w];
    }
    double *y = conv2d_values(tested_device(), &data, algorithm),
           *due = conv2d_values(tested_device(), &padded, algorithm);
    expect_equal(y, due, data.y_count, p, algorithm);
    free(padded.x);
    free(y);
    free(due);
    conv2d_data_free(&data);
}

static void padded_unevenly(talc_conv2d_problem *p)
{
    p->pad_top += 1;
    p->pad_right += 2;
    p->padding_mode =
        p->padding_mode == TALC_PADDING_ZEROS ? TALC_PADDING_ZEROS : TALC_PADDING_REPLICATE;
}

Test(conv2d_identities, padding_is_an_image_padded_before)
{
    for_all_problems(pads, NULL);
    for_all_problems(pads, padded_unevenly);
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

Test(conv2d_identities, the_epilogue_may_come_afterwards)
{
    for_all_problems(finishes, NULL);
}

/* `same` gives outputs of the image's extents, with the larger half of an odd total at the end. */
Test(conv2d_identities, same_padding_is_explicit_padding)
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
