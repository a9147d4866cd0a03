#include "tests/support/op_mutants.h"

#include "ops/batch_norm2d.h"
#include "ops/compare.h"
#include "ops/cross_entropy.h"
#include "ops/cumprod.h"
#include "ops/cumsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/unfold.h"
#include "ops/softmax.h"
#include "ops/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

DEFINE_REFERENCE(pool2d)
DEFINE_REFERENCE(matmul)
DEFINE_REFERENCE(reduce)
DEFINE_REFERENCE(softmax)
DEFINE_REFERENCE(cross_entropy)
DEFINE_REFERENCE(batch_norm2d)
DEFINE_REFERENCE(resample)
DEFINE_REFERENCE(gather)
DEFINE_REFERENCE(unary)
DEFINE_REFERENCE(update)
DEFINE_REFERENCE(binary)
DEFINE_REFERENCE(where)
DEFINE_REFERENCE(cumsum)
DEFINE_REFERENCE(cumprod)
DEFINE_REFERENCE(unfold)

// ---- Pooling ------------------------------------------------------------------------------------

static talc_status pool_ignores_nan(talc_device *device, const talc_pool2d_problem *p,
                                    const talc_pool2d_arguments *a)
{
    const int64_t count = p->N * p->C * p->H * p->W;
    void *x = malloc((size_t)count * size_of(p->dtype));
    for (int64_t i = 0; i < count; i++) {
        const double value = load(p->dtype, a->x, i);
        store(p->dtype, x, i, isnan(value) ? -(double)INFINITY : value);
    }
    talc_pool2d_arguments cleaned = *a;
    cleaned.x = x;
    const talc_status status = pool2d_by_reference(device, p, &cleaned);
    free(x);
    return status;
}

/* Makes the largest value of windows over the upper padding one that has seen zeros there. */
static void see_zeros(const talc_pool2d_problem *p, void *y)
{
    for (int64_t i = 0; i < p->N * p->C * p->OH * p->OW; i++)
        if (p->pad_top > 0 && i / p->OW % p->OH == 0 && load(p->dtype, y, i) < 0)
            store(p->dtype, y, i, 0);
}

static void transpose_indices(const talc_pool2d_problem *p, int64_t *indices)
{
    for (int64_t i = 0; p->indices && i < p->N * p->C * p->OH * p->OW; i++)
        indices[i] = indices[i] % p->W * p->H + indices[i] / p->W;
}

MUTANT_ALGORITHM(pool2d, nan_ignored, pool_ignores_nan)
MUTANT_CORRUPTED(pool2d, zero_padding, see_zeros(p, a->y))
MUTANT_CORRUPTED(pool2d, indices_transposed, transpose_indices(p, a->indices))
MUTANT_OTHER(pool2d, padding_counted, other.exclude_padding = false)
MUTANT_OTHER(pool2d, padding_left_out, other.exclude_padding = true)
MUTANT_OTHER(pool2d, divisor_ignored, other.divisor = 0)
MUTANT_OTHER(pool2d, equal_padding, other.pad_bottom = p->pad_top; other.pad_right = p->pad_left)

// ---- Elementwise ops and optimizer steps --------------------------------------------------------

/* What is small enough to come from a subnormal exponential is cut. */
static void cut_tails(const talc_unary_problem *p, void *y)
{
    for (int64_t i = 0; i < p->dims[0]; i++)
        if (fabs(load(p->dtype, y, i)) < (p->dtype == TALC_F32 ? 0x1p-120 : 0x1p-1012))
            store(p->dtype, y, i, 0);
}

MUTANT_OTHER(unary, by_tanh, other.function = TALC_GELU_TANH)
MUTANT_CORRUPTED(unary, tails_cut, cut_tails(p, a->y))
MUTANT_OTHER(update, not_centered, other.centered = false)
MUTANT_OTHER(update, not_corrected, other.correction2 = 1)
MUTANT_OTHER(update, coupled, other.decoupled = false)

// ---- Two operands, choices, running sums --------------------------------------------------------

/* In f32, where the elements are wider. */
static void round_to_f32(const talc_binary_problem *p, void *y)
{
    for (int64_t i = 0; i < p->dims[0] && p->dtype == TALC_F64; i++)
        store(p->dtype, y, i, (double)(float)load(p->dtype, y, i));
}

/* A quotient by the reciprocal has a rounding more. */
static void divide_by_reciprocal(const talc_binary_problem *p, const talc_binary_arguments *a)
{
    for (int64_t i = 0; i < p->dims[0]; i++)
        ((float *)a->y)[i] = ((const float *)a->a)[i] * (1 / ((const float *)a->b)[i]);
}

/* The larger of a NaN and a number is the number. */
static void forget_nan(const talc_binary_problem *p, const talc_binary_arguments *a)
{
    for (int64_t i = 0; i < p->dims[0]; i++)
        if (isnan(load(p->dtype, a->a, i)))
            store(p->dtype, a->y, i, load(p->dtype, a->b, i));
}

static talc_status where_1_alone(talc_device *device, const talc_where_problem *p,
                                 const talc_where_arguments *a)
{
    uint8_t ones[1024];
    for (int64_t i = 0; i < p->dims[0]; i++)
        ones[i] = a->condition[i] == 1;
    talc_where_arguments other = *a;
    other.condition = ones;
    return where_by_reference(device, p, &other);
}

MUTANT_CORRUPTED(binary, sum_in_f32, round_to_f32(p, a->y))
MUTANT_CORRUPTED(binary, by_reciprocal, divide_by_reciprocal(p, a))
MUTANT_CORRUPTED(binary, number_for_nan, forget_nan(p, a))
MUTANT_OTHER(binary, not_stretched, other.b_strides[p->rank - 1] = 1)
MUTANT_OTHER(binary, equals_too, other.function = TALC_LESS_EQUAL)
MUTANT_OTHER(binary, other_number, other.scalar += 1e-6)
MUTANT_ALGORITHM(where, only_1, where_1_alone)
MUTANT_OTHER(where, a_of_first_row, other.a_strides[0] = 0)
MUTANT_OTHER(cumsum, from_the_end, other.direction = TALC_GRAD_INPUT)
MUTANT_OTHER(cumsum, from_the_start, other.direction = TALC_FORWARD)
MUTANT_OTHER(cumsum, last_kept, other.extent--)
MUTANT_OTHER(unfold, taps_spread, other.dilation_w++)
MUTANT_OTHER(unfold, windows_moved, other.pad_left++)

/* Of rows without gaps, along the last dimension. */

static void multiply_in_f32(const talc_cumprod_problem *p, const talc_cumprod_arguments *a)
{
    float product = 1;
    for (int64_t i = 0; i < p->outer * p->extent; i++) {
        product = (i % p->extent == 0 ? 1 : product) * (float)load(p->dtype, a->x, i);
        store(p->dtype, a->y, i, (double)product);
    }
}

/* The sum of dy y from there on, divided by x: NaN at a zero. */
static void divide_by_x(const talc_cumprod_problem *p, const talc_cumprod_arguments *a)
{
    for (int64_t first = 0; first < p->outer * p->extent; first += p->extent)
        for (int64_t j = 0; j < p->extent; j++) {
            double product = 1, sum = 0;
            for (int64_t i = 0; i < p->extent; i++) {
                product *= load(p->dtype, a->x, first + i);
                sum += i < j ? 0 : load(p->dtype, a->dy, first + i) * product;
            }
            store(p->dtype, a->dx, first + j, sum / load(p->dtype, a->x, first + j));
        }
}

/* Of later products dx knows the next alone. */
static void forget_later(const talc_cumprod_problem *p, const talc_cumprod_arguments *a)
{
    double product = 1;
    for (int64_t i = 0; i < p->outer * p->extent; i++) {
        product = i % p->extent == 0 ? 1 : product;
        const bool last = i % p->extent == p->extent - 1;
        const double s = load(p->dtype, a->dy, i) +
                         (last ? 0 : load(p->dtype, a->x, i + 1) * load(p->dtype, a->dy, i + 1));
        store(p->dtype, a->dx, i, product * s);
        product *= load(p->dtype, a->x, i);
    }
}

MUTANT_CORRUPTED(cumprod, product_in_f32, multiply_in_f32(p, a))
MUTANT_OTHER(cumprod, first_repeated, other.x_stride = 0)
MUTANT_CORRUPTED(cumprod, divided, divide_by_x(p, a))
MUTANT_CORRUPTED(cumprod, later_forgotten, forget_later(p, a))

// ---- Matrix products ----------------------------------------------------------------------------

MUTANT_OTHER(matmul, b_as_stored, other.ldb = p->transpose_b ? p->N : p->ldb;
             other.transpose_b = false)
MUTANT_OTHER(matmul, first_b, memset(other.b_strides, 0, sizeof other.b_strides))
MUTANT_OTHER(matmul, last_term, other.K--)
MUTANT_OTHER(matmul, no_residual, other.residual = false)

// ---- Reductions ---------------------------------------------------------------------------------

/* Walks the reduced elements from the last to the first. */
static talc_status reduce_backwards(talc_device *device, const talc_reduce_problem *p,
                                    const talc_reduce_arguments *a)
{
    talc_reduce_problem other = *p;
    talc_reduce_arguments from_end = *a;
    for (int i = 0; i < p->reduced_rank; i++) {
        from_end.x =
            (const char *)from_end.x +
            (size_t)((p->reduced_dims[i] - 1) * p->reduced_strides[i]) * talc_dtype_size(p->dtype);
        other.reduced_strides[i] = -p->reduced_strides[i];
    }
    const talc_status status = reduce_by_reference(device, &other, &from_end);
    for (int64_t i = 0; p->function == TALC_ARGMAX && i < p->outputs; i++)
        ((int64_t *)a->y)[i] = p->K - 1 - ((int64_t *)a->y)[i];
    return status;
}

static void begin_with_0(const talc_reduce_problem *p, void *y)
{
    for (int64_t i = 0; p->function == TALC_MAX && i < p->outputs; i++)
        if (load(p->dtype, y, i) < 0)
            store(p->dtype, y, i, 0);
}

static void cut_to_i32(const talc_reduce_problem *p, int64_t *y)
{
    for (int64_t i = 0; p->y_dtype == TALC_I64 && i < p->outputs; i++) {
        int32_t low;
        memcpy(&low, y + i, sizeof low);
        y[i] = low;
    }
}

/* The gradient of a convolution's bias is the sum of dy over images, rows and columns. */
static void leave_out_last(talc_reduce_problem *p)
{
    if (p->reduced_rank < 2)
        return;
    p->K -= p->K / p->reduced_dims[0];
    p->reduced_dims[0]--;
}

MUTANT_ALGORITHM(reduce, last_of_equals, reduce_backwards)
MUTANT_OTHER(reduce, not_divided, if (p->function == TALC_MEAN) other.function = TALC_SUM)
MUTANT_CORRUPTED(reduce, from_zero, begin_with_0(p, a->y))
MUTANT_CORRUPTED(reduce, sum_in_i32, cut_to_i32(p, a->y))
MUTANT_OTHER(reduce, image_short, leave_out_last(&other))

// ---- Softmax ------------------------------------------------------------------------------------

/* Offsets of softmax `outer` in x and y. */
static void offsets(const talc_softmax_problem *p, int64_t outer, int64_t *x, int64_t *y)
{
    *x = *y = 0;
    for (int i = p->outer_rank - 1; i >= 0; i--) {
        *x += outer % p->outer_dims[i] * p->x_strides[i];
        *y += outer % p->outer_dims[i] * p->y_strides[i];
        outer /= p->outer_dims[i];
    }
}

/* exp(x) / sum of exp(x), in the data's type. */
static talc_status softmax_of_raw(talc_device *device, const talc_softmax_problem *p,
                                  const talc_softmax_arguments *a)
{
    (void)device;
    const bool single = p->dtype == TALC_F32;
    for (int64_t outer = 0; outer < p->outer; outer++) {
        int64_t x, y;
        double sum = 0;
        offsets(p, outer, &x, &y);
        for (int64_t i = 0; i < p->extent; i++) {
            const double e = exp(load(p->dtype, a->x, x + i * p->x_stride));
            store(p->dtype, a->y, y + i * p->y_stride, e);
            sum += single ? (double)(float)e : e;
        }
        for (int64_t i = 0; i < p->extent; i++) {
            const double share = load(p->dtype, a->y, y + i * p->y_stride) / sum;
            store(p->dtype, a->y, y + i * p->y_stride, p->log ? log(share) : share);
        }
    }
    return TALC_OK;
}

/* log(softmax(x)), which loses the small shares. */
static talc_status softmax_then_log(talc_device *device, const talc_softmax_problem *p,
                                    const talc_softmax_arguments *a)
{
    talc_softmax_problem other = *p;
    other.log = false;
    const talc_status status = softmax_by_reference(device, &other, a);
    for (int64_t i = 0; p->log && i < p->outer * p->extent; i++)
        store(p->dtype, a->y, i, log(load(p->dtype, a->y, i)));
    return status;
}

MUTANT_ALGORITHM(softmax, without_max, softmax_of_raw)
MUTANT_ALGORITHM(softmax, log_of_softmax, softmax_then_log)

// ---- Cross entropy ------------------------------------------------------------------------------

static talc_status entropy_of_all(talc_device *device, const talc_cross_entropy_problem *p,
                                  const talc_cross_entropy_arguments *a)
{
    talc_cross_entropy_problem other = *p;
    if (p->reduction == TALC_REDUCTION_MEAN)
        other.reduction = TALC_REDUCTION_SUM;
    const talc_status status = cross_entropy_by_reference(device, &other, a);
    if (p->reduction == TALC_REDUCTION_MEAN)
        store(p->dtype, a->y, 0, load(p->dtype, a->y, 0) / (double)p->samples);
    return status;
}

MUTANT_ALGORITHM(cross_entropy, divided_by_all, entropy_of_all)
MUTANT_OTHER(cross_entropy, unsmoothed, other.label_smoothing = 0)

// ---- Batch normalisation ------------------------------------------------------------------------

/* The running variance moves towards the biased one. */
static talc_status norm_biased(talc_device *device, const talc_batch_norm2d_problem *p,
                               const talc_batch_norm2d_arguments *a)
{
    const double M = (double)(p->N * p->H * p->W);
    const bool moves = p->training && a->running_var != NULL;
    double *before = malloc((size_t)p->C * sizeof *before);
    for (int64_t c = 0; moves && c < p->C; c++)
        before[c] = (1 - p->momentum) * load(p->dtype, a->running_var, c);
    const talc_status status = batch_norm2d_by_reference(device, p, a);
    for (int64_t c = 0; moves && c < p->C; c++) {
        const double added = load(p->dtype, a->running_var, c) - before[c];
        store(p->dtype, a->running_var, c, before[c] + added * (M - 1) / M);
    }
    free(before);
    return status;
}

/* Normalises with E[x^2] - E[x]^2 in the data's type. */
static talc_status norm_by_squares(talc_device *device, const talc_batch_norm2d_problem *p,
                                   const talc_batch_norm2d_arguments *a)
{
    const int64_t plane = p->H * p->W;
    const double M = (double)(p->N * plane);
    double mean[64], var[64]; /* of floats or doubles */
    const talc_status status = batch_norm2d_by_reference(device, p, a);
    if (!p->training || p->C > 64)
        return status;
    for (int64_t c = 0; c < p->C; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < p->N * plane; i++) {
            const double x = load(p->dtype, a->x, (i / plane * p->C + c) * plane + i % plane);
            sum += x;
            squares += x * x;
        }
        const float narrow = (float)(squares / M) - (float)(sum / M) * (float)(sum / M);
        store(p->dtype, mean, c, sum / M);
        store(p->dtype, var, c,
              p->dtype == TALC_F32 ? (double)narrow : squares / M - sum / M * (sum / M));
    }
    talc_batch_norm2d_problem given = *p;
    talc_batch_norm2d_arguments of_given = *a;
    given.training = false;
    of_given.running_mean = mean;
    of_given.running_var = var;
    return batch_norm2d_by_reference(device, &given, &of_given);
}

/* With no residual, or no activation, which is applied to the sum without it where it is added
 * last. */
static talc_status norm_with(talc_device *device, const talc_batch_norm2d_problem *p,
                             const talc_batch_norm2d_arguments *a, bool adds_last)
{
    talc_batch_norm2d_arguments without = *a;
    without.residual = NULL;
    const talc_status status = batch_norm2d_by_reference(device, p, &without);
    for (int64_t i = 0; adds_last && a->residual != NULL && i < p->N * p->C * p->H * p->W; i++)
        store(p->dtype, a->y, i, load(p->dtype, a->y, i) + load(p->dtype, a->residual, i));
    return status;
}

static void count(const talc_batch_norm2d_arguments *a, int64_t more)
{
    if (a->num_batches_tracked != NULL)
        *a->num_batches_tracked += more;
}

/* By weight rstd as f32 holds it, outside training. */
static void underflow(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a)
{
    const int64_t plane = p->H * p->W;
    for (int64_t i = 0; i < p->N * p->C * plane; i++) {
        const int64_t c = i / plane % p->C;
        const float scale = (float)(load(p->dtype, a->weight, c) /
                                    sqrt(load(p->dtype, a->running_var, c) + p->eps));
        const double deviation = load(p->dtype, a->x, i) - load(p->dtype, a->running_mean, c);
        store(p->dtype, a->y, i, deviation * (double)scale + load(p->dtype, a->bias, c));
    }
}

MUTANT_INSTEAD(batch_norm2d, no_residual_added, norm_with(device, p, a, false))
MUTANT_INSTEAD(batch_norm2d, residual_last, norm_with(device, p, a, true))
MUTANT_CORRUPTED(batch_norm2d, uncounted, count(a, -1))
MUTANT_CORRUPTED(batch_norm2d, counted_twice, count(a, 1))
MUTANT_CORRUPTED(batch_norm2d, scale_underflowing, underflow(p, a))
MUTANT_OTHER(batch_norm2d, eps_forgotten, other.eps = 0)
MUTANT_OTHER(batch_norm2d, momentum_of_old, other.momentum = 1 - p->momentum)
MUTANT_ALGORITHM(batch_norm2d, biased_variance, norm_biased)
MUTANT_ALGORITHM(batch_norm2d, mean_of_squares, norm_by_squares)

// ---- Padding, upsampling, picking ---------------------------------------------------------------

static talc_resample_axis *last_axis(talc_resample_problem *p)
{
    return &p->axes[p->rank - 1];
}

MUTANT_OTHER(resample, value_forgotten, given.value = NULL)
MUTANT_OTHER(resample, edge_repeated,
             for (int i = 0; i < p->rank; i++) if (p->axes[i].mode == TALC_PADDING_REFLECT)
                 other.axes[i]
                     .mode = TALC_PADDING_REPLICATE)
MUTANT_OTHER(resample, image_moved, last_axis(&other)->begin--)
MUTANT_OTHER(resample, corners_not_aligned, last_axis(&other)->shift = 0.5;
             last_axis(&other)->offset = -0.5)
MUTANT_OTHER(resample, nearest_alone, last_axis(&other)->kind = TALC_RESAMPLE_NEAREST)
MUTANT_OTHER(resample, scale_off, last_axis(&other)->scale *= 1.001)
MUTANT_OTHER(resample, tie_down, last_axis(&other)->up = true; last_axis(&other)->offset -= 1)
MUTANT_OTHER(resample, coefficient_of_keys, last_axis(&other)->coefficient = -0.5)
MUTANT_OTHER(resample, outside_counted, last_axis(&other)->inside = false)
MUTANT_OTHER(gather, index_of_first, other.index_strides[0] = 0)

// ---- All of them --------------------------------------------------------------------------------

const op_mutant op_mutants[] = {
    { "max pool NaN", "max pooling ignores NaN", "max_pool2d:n2c3h9w7k3x2", &nan_ignored },
    { "max pool padding", "max pooling sees zeros in the padding",
      "max_pool2d:n2c3h9w7k2x2s2x2p1x1", &zero_padding },
    { "max pool indices", "indices count column by column", "max_pool2d:n2c3h9w7k3x2_indices",
      &indices_transposed },
    { "avg pool includes", "padding counts where it must not",
      "avg_pool2d:n2c3h9w7k3x3s2x2p1x1_exclude", &padding_counted },
    { "avg pool excludes", "padding does not count where it must",
      "avg_pool2d:n2c3h9w7k3x3s2x2p1x1", &padding_left_out },
    { "avg pool sides", "bottom and right are padded as top and left",
      "avg_pool2d:n2c3h9w7k3x2s2x1p0x1x2x0", &equal_padding },
    { "avg pool divisor", "divisor_override ignored", "avg_pool2d:n2c3h9w7k3x3_divisor5",
      &divisor_ignored },
    { "matmul transpose", "transposed b read as it is stored", "matmul:b2m5n6k7_ta_tb_bias",
      &b_as_stored },
    { "matmul batch", "every product takes the first b", "matmul:b3m5n6k7_f64", &first_b },
    { "matmul term", "the last term dropped", "matmul:b1m5n6k70_relu", &last_term },
    { "matmul residual", "residual forgotten", "matmul:b2m5n6k7_residual", &no_residual },
    { "argmax", "names the last of equal values", "argmax:5x40@1", &last_of_equals },
    { "mean", "not divided", "mean:5x6x7@0,2", &not_divided },
    { "max", "begins with 0", "max:40x3@1", &from_zero },
    { "sum", "integers summed in 32 bits", "sum:4x50@1_i32", &sum_in_i32 },
    { "bias gradient", "the last image left out", "sum:3x4x5x6@0,2,3", &image_short },
    { "softmax", "without subtracting the largest", "softmax:7x20@1", &without_max },
    { "log_softmax", "the logarithm of softmax", "log_softmax:7x20@0", &log_of_softmax },
    { "cross_entropy", "the mean over ignored samples too", "cross_entropy:40x5", &divided_by_all },
    { "cross_entropy e", "no smoothing", "cross_entropy:7x20_none_smooth", &unsmoothed },
    { "batch_norm2d eps", "eps forgotten", "batch_norm2d:n3c5h4w6", &eps_forgotten },
    { "batch_norm2d slight", "weight rstd underflows", "batch_norm2d:n3c5h4w6",
      &scale_underflowing },
    { "batch_norm2d rate", "momentum weights the old value", "batch_norm2d:n3c5h4w6_train",
      &momentum_of_old },
    { "batch_norm2d bias", "running_var from the biased variance", "batch_norm2d:n3c5h4w6_train",
      &biased_variance },
    { "batch_norm2d var", "variance from the mean of squares", "batch_norm2d:n3c5h4w6_train",
      &mean_of_squares },
    { "batch_norm2d residual", "no residual", "batch_norm2d:n3c5h4w6_train_residual",
      &no_residual_added },
    { "batch_norm2d order", "the residual behind the activation",
      "batch_norm2d:n3c5h4w6_train_residual_relu", &residual_last },
    { "batch_norm2d count", "the batch not counted", "batch_norm2d:n3c5h4w6_train", &uncounted },
    { "batch_norm2d count 2", "the batch counted twice", "batch_norm2d:n3c5h4w6_train_relu",
      &counted_twice },
    { "pad value", "0 for another value", "pad:5x7p1x2x0x3_value", &value_forgotten },
    { "pad reflect", "the edge for the mirror image", "pad:3x5x7p1x2x4x3_reflect", &edge_repeated },
    { "pad before", "one element less before the image", "pad:5x7p1x2", &image_moved },
    { "upsample corners", "align_corners ignored", "upsample2d:n2c3h5w7o9x11_aligned",
      &corners_not_aligned },
    { "upsample nearest", "nearest for bilinear", "upsample2d:n2c3h5w7o9x11_bilinear",
      &nearest_alone },
    { "upsample tie", "of two as near the first", "upsample2d:n2c3h5w8o9x5_exact", &tie_down },
    { "upsample cubic", "another coefficient", "upsample2d:n2c3h5w7o9x11_bicubic",
      &coefficient_of_keys },
    { "upsample outside", "the border for what is outside",
      "upsample2d:n2c3h5w7o9x11_bicubic_exclude", &outside_counted },
    { "upsample scale", "the scale off by 0.1 %", "upsample2d:n2c3h5w7o9x11_bilinear", &scale_off },
    { "gather", "the first row's index for all", "gather:5x7@1i4x9", &index_of_first },
    { "index_select", "one index for all", "index_select:5x7@0i9", &index_of_first },
    { "gelu", "gelu's approximation by tanh", "gelu:300", &by_tanh },
    { "silu", "0 for what is hardly normal", "silu:3000_f64", &tails_cut },
    { "add", "summed in f32", "add:300_f64", &sum_in_f32 },
    { "add stretch", "a stretched column read as a row", "add:7x5,7x1", &not_stretched },
    { "add number", "another number", "add:300_scalar", &other_number },
    { "div", "by the reciprocal", "div:300", &by_reciprocal },
    { "maximum NaN", "the number beside a NaN", "maximum:300", &number_for_nan },
    { "less", "equal elements too", "less:300", &equals_too },
    { "where 255", "only a condition of 1 holds", "where:300", &only_1 },
    { "where rows", "the first row of a for all", "where:7x5,7x5,5", &a_of_first_row },
    { "cumsum", "from the last element on", "cumsum:5x7@1", &from_the_end },
    { "cumsum end", "the last element left out", "cumsum:5x7@0", &last_kept },
    { "cumsum dx", "from the first element on", "cumsum:5x7@1_dx", &from_the_start },
    { "unfold", "taps further apart", "unfold:n2c3h9w17k3x2p1x0", &taps_spread },
    { "fold", "windows a column off", "fold:n2c3h9w17k3x2p1x0", &windows_moved },
    { "cumprod", "multiplied in f32", "cumprod:5x700@1", &product_in_f32 },
    { "cumprod step", "the first element again and again", "cumprod:5x7@1", &first_repeated },
    { "cumprod dx", "divided by x, which may be 0", "cumprod:33x9@1_dx", &divided },
    { "cumprod dx end", "a term of the next element alone", "cumprod:5x7@1_dx", &later_forgotten },
    { "rmsprop", "not centered", "rmsprop:300_centered", &not_centered },
    { "adam", "v not corrected", "adam:300", &not_corrected },
    { "adam decay", "the decay in the gradient", "adam:300_decay_decoupled", &coupled },
};

const int op_mutant_count = sizeof op_mutants / sizeof *op_mutants;
