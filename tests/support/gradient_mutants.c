/* Algorithms with one mistake each in what makes a gradient right: the indices that max pooling
 * gives it, and the input gradients of pooling, norms and losses. */
#include "tests/support/op_mutants.h"

#include "ops/batch_norm2d.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/group_norm.h"
#include "ops/nll_loss.h"
#include "ops/pool2d.h"
#include "ops/pool2d_window.h"
#include "ops/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

DEFINE_REFERENCE(pool2d)
DEFINE_REFERENCE(batch_norm2d)
DEFINE_REFERENCE(group_norm)
DEFINE_REFERENCE(cross_entropy)
DEFINE_REFERENCE(nll_loss)
DEFINE_REFERENCE(resample)
DEFINE_REFERENCE(gather)
DEFINE_REFERENCE(binary)

MUTANT_OTHER(binary, not_limited, other.function = TALC_RELU_GRADIENT)
MUTANT_OTHER(binary, limits_wider, other.numbers[1] = 6)

// ---- Pooling ------------------------------------------------------------------------------------

/* Of equal maxima the last. */
static void take_last_maxima(const talc_pool2d_problem *p, const void *x, const void *y,
                             int64_t *indices)
{
    for (int64_t o = 0; p->indices && o < p->N * p->C * p->OH * p->OW; o++) {
        const int64_t plane = o / p->OW / p->OH;
        const talc_pool2d_window h = talc_pool2d_window_of(talc_pool2d_axis_h(p),
                                                           o / p->OW % p->OH),
                                 w = talc_pool2d_window_of(talc_pool2d_axis_w(p), o % p->OW);
        for (int64_t ih = h.first; ih < h.end; ih += h.step)
            for (int64_t iw = w.first; iw < w.end; iw += w.step)
                if (load(p->dtype, x, (plane * p->H + ih) * p->W + iw) == load(p->dtype, y, o))
                    indices[o] = ih * p->W + iw;
    }
}

/* A maximum gives an element what the last window has for it, and not what all have. */
static void keep_last_window(const talc_pool2d_problem *p, const talc_pool2d_arguments *a)
{
    const int64_t outputs = p->OH * p->OW;
    for (int64_t o = 0; o < p->N * p->C * outputs; o++)
        if (p->kind == TALC_POOL2D_MAX && a->indices[o] >= 0)
            store(p->dtype, a->dx, o / outputs * p->H * p->W + a->indices[o],
                  load(p->dtype, a->dy, o));
}

/* The same of an average, whose shares are equal. */
static void keep_last_share(const talc_pool2d_problem *p, const talc_pool2d_arguments *a)
{
    for (int64_t o = 0; o < p->N * p->C * p->OH * p->OW; o++) {
        const int64_t plane = o / p->OW / p->OH;
        const talc_pool2d_window h = talc_pool2d_window_of(talc_pool2d_axis_h(p),
                                                           o / p->OW % p->OH),
                                 w = talc_pool2d_window_of(talc_pool2d_axis_w(p), o % p->OW);
        for (int64_t ih = h.first; ih < h.end; ih++)
            for (int64_t iw = w.first; iw < w.end; iw++)
                store(p->dtype, a->dx, (plane * p->H + ih) * p->W + iw,
                      load(p->dtype, a->dy, o) / (double)(h.padded * w.padded));
    }
}

/* The gradient of some outputs is taken as 0: of the last row, or of all planes but the first. */
static talc_status pool_without(talc_device *device, const talc_pool2d_problem *p,
                                const talc_pool2d_arguments *a, bool last_row)
{
    const int64_t outputs = p->OH * p->OW, count = p->N * p->C * outputs;
    void *dy = malloc((size_t)count * size_of(p->dtype));
    for (int64_t i = 0; i < count; i++) {
        const bool left_out = last_row ? i / p->OW % p->OH == p->OH - 1 : i >= outputs;
        store(p->dtype, dy, i, left_out ? 0 : load(p->dtype, a->dy, i));
    }
    talc_pool2d_arguments others = *a;
    others.dy = dy;
    const talc_status status = pool2d_by_reference(device, p, &others);
    free(dy);
    return status;
}

MUTANT_CORRUPTED(pool2d, last_of_equals, take_last_maxima(p, a->x, a->y, a->indices))
MUTANT_CORRUPTED(pool2d, overlap_of_maxima, keep_last_window(p, a))
MUTANT_CORRUPTED(pool2d, overlap_of_averages, keep_last_share(p, a))
MUTANT_INSTEAD(pool2d, last_row_left_out, pool_without(device, p, a, true))
MUTANT_INSTEAD(pool2d, first_plane_alone, pool_without(device, p, a, false))
MUTANT_OTHER(pool2d, padding_counted, other.exclude_padding = false)
MUTANT_OTHER(pool2d, padding_left_out, other.exclude_padding = true)
MUTANT_OTHER(pool2d, divisor_ignored, other.divisor = 0)
MUTANT_OTHER(pool2d, equal_padding, other.pad_bottom = p->pad_top; other.pad_right = p->pad_left)

// ---- Norms --------------------------------------------------------------------------------------

/* Adds `mean` times dbias / M and `product` times x^ dweight / M to what is in the parentheses of
 * dx. */
static void add_terms(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a,
                      double mean, double product)
{
    const int64_t plane = p->H * p->W;
    const double M = (double)(p->N * plane);
    for (int64_t i = 0; p->training && i < p->N * p->C * plane; i++) {
        const int64_t c = i / plane % p->C;
        const double rstd = a->rstd[c];
        const double x = (load(p->dtype, a->x, i) - a->mean[c]) * rstd;
        const double scale = rstd * (a->weight == NULL ? 1 : load(p->dtype, a->weight, c));
        const double added = mean * load(p->dtype, a->dbias, c) / M +
                             product * x * load(p->dtype, a->dweight, c) / M;
        store(p->dtype, a->dx, i, load(p->dtype, a->dx, i) + scale * added);
    }
}

static void scale_dweight(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a)
{
    for (int64_t c = 0; c < p->C; c++)
        store(p->dtype, a->dweight, c, load(p->dtype, a->dweight, c) / a->rstd[c]);
}

/* dweight as rstd (sum dy x - mean sum dy), the sums in the data's type. */
static void cancel(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a)
{
    const int64_t plane = p->H * p->W;
    for (int64_t c = 0; c < p->C; c++) {
        float sum = 0, products = 0;
        for (int64_t n = 0; n < p->N; n++)
            for (int64_t i = (n * p->C + c) * plane; i < (n * p->C + c + 1) * plane; i++) {
                sum += (float)load(p->dtype, a->dy, i);
                products += (float)load(p->dtype, a->dy, i) * (float)load(p->dtype, a->x, i);
            }
        store(p->dtype, a->dweight, c, a->rstd[c] * ((double)products - a->mean[c] * (double)sum));
    }
}

static void narrow_dbias(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a)
{
    const int64_t plane = p->H * p->W;
    for (int64_t c = 0; c < p->C; c++) {
        float sum = 0;
        for (int64_t n = 0; n < p->N; n++)
            for (int64_t i = (n * p->C + c) * plane; i < (n * p->C + c + 1) * plane; i++)
                sum += (float)load(p->dtype, a->dy, i);
        store(p->dtype, a->dbias, c, (double)sum);
    }
}

/* As algorithms do that keep the mean in f32 between forward pass and gradient. */
static double *rounded(const double *mean, int64_t count)
{
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)(float)mean[i];
    return values;
}

static talc_status by_narrow_mean(talc_device *device, const talc_batch_norm2d_problem *p,
                                  const talc_batch_norm2d_arguments *a)
{
    if (p->direction == TALC_FORWARD)
        return batch_norm2d_by_reference(device, p, a);
    talc_batch_norm2d_arguments others = *a;
    others.mean = rounded(a->mean, p->C);
    const talc_status status = batch_norm2d_by_reference(device, p, &others);
    free(others.mean);
    return status;
}

static talc_status by_narrow_group_mean(talc_device *device, const talc_group_norm_problem *p,
                                        const talc_group_norm_arguments *a)
{
    if (p->direction == TALC_FORWARD)
        return group_norm_by_reference(device, p, a);
    talc_group_norm_arguments others = *a;
    others.mean = rounded(a->mean, p->N * p->groups);
    const talc_status status = group_norm_by_reference(device, p, &others);
    free(others.mean);
    return status;
}

/* dx as g by_g + ((x - mean) by_x + shift), by_x or by_g as f32 holds it. */
static void underflow(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a,
                      bool of_x)
{
    const int64_t plane = p->H * p->W;
    const double M = (double)(p->N * plane);
    for (int64_t i = 0; p->direction == TALC_GRAD_INPUT && i < p->N * p->C * plane; i++) {
        const int64_t c = i / plane % p->C;
        const double by_g = a->rstd[c] * (a->weight == NULL ? 1 : load(p->dtype, a->weight, c));
        const double by_x = -by_g * a->rstd[c] * load(p->dtype, a->dweight, c) / M;
        const double shift = -by_g * load(p->dtype, a->dbias, c) / M;
        store(p->dtype, a->dx, i,
              load(p->dtype, a->dy, i) * (of_x ? by_g : (double)(float)by_g) +
                  ((load(p->dtype, a->x, i) - a->mean[c]) * (of_x ? (double)(float)by_x : by_x) +
                   shift));
    }
}

/* The residual's gradient is that behind the activation. */
static void pass_dy(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a)
{
    for (int64_t i = 0; a->dresidual != NULL && i < p->N * p->C * p->H * p->W; i++)
        store(p->dtype, a->dresidual, i, load(p->dtype, a->dy, i));
}

#define VALUES ((double)(p->N * p->H * p->W))

MUTANT_OTHER(batch_norm2d, statistics_constant,
             other.training = p->training && p->direction == TALC_FORWARD)
MUTANT_OTHER(batch_norm2d, always_training, other.training = true)
MUTANT_CORRUPTED(batch_norm2d, mean_term_missing, add_terms(p, a, 1, 0))
MUTANT_CORRUPTED(batch_norm2d, variance_term_missing, add_terms(p, a, 0, 1))
MUTANT_CORRUPTED(batch_norm2d, unbiased, add_terms(p, a, -1 / (VALUES - 1), -1 / (VALUES - 1)))
MUTANT_CORRUPTED(batch_norm2d, not_normalised, scale_dweight(p, a))
MUTANT_CORRUPTED(batch_norm2d, cancelling, cancel(p, a))
MUTANT_CORRUPTED(batch_norm2d, narrow_sum, narrow_dbias(p, a))
MUTANT_OTHER(batch_norm2d, activation_ignored, other.activation = TALC_ACTIVATION_NONE)
MUTANT_OTHER(batch_norm2d, always_relu,
             other.activation = a->y == NULL ? TALC_ACTIVATION_NONE : TALC_ACTIVATION_RELU)
MUTANT_CORRUPTED(batch_norm2d, residual_given_dy, pass_dy(p, a))
MUTANT_ALGORITHM(batch_norm2d, narrow_mean, by_narrow_mean)
MUTANT_ALGORITHM(group_norm, narrow_group_mean, by_narrow_group_mean)
MUTANT_CORRUPTED(batch_norm2d, underflowing, underflow(p, a, true))
MUTANT_CORRUPTED(batch_norm2d, scale_underflowing, underflow(p, a, false))

// ---- Cross entropy ------------------------------------------------------------------------------

/* Of dx's elements, which lie without gaps. */
static void scale_dx(const talc_cross_entropy_problem *p, const talc_cross_entropy_arguments *a,
                     double by)
{
    for (int64_t i = 0; i < p->samples * p->C; i++)
        store(p->dtype, a->dx, i, load(p->dtype, a->dx, i) * by);
}

static double counted(const talc_cross_entropy_problem *p, const talc_cross_entropy_arguments *a,
                      bool weighted)
{
    double sum = 0;
    for (int64_t i = 0; i < p->samples; i++)
        if (a->labels[i] != p->ignore_index && a->labels[i] >= 0 && a->labels[i] < p->C)
            sum += weighted ? load(p->dtype, a->class_weights, a->labels[i]) : 1;
    return sum;
}

/* The softmax alone, nothing taken off at the label: what all classes but one get. */
static void forget_label(const talc_cross_entropy_problem *p, const talc_cross_entropy_arguments *a)
{
    for (int64_t i = 0; i < p->samples; i++) {
        double others = 0;
        if (a->labels[i] < 0 || a->labels[i] >= p->C || a->labels[i] == p->ignore_index)
            continue;
        for (int64_t j = 0; j < p->C; j++)
            others += j == a->labels[i] ? 0 : load(p->dtype, a->dx, i * p->C + j);
        store(p->dtype, a->dx, i * p->C + a->labels[i],
              load(p->dtype, a->dy, p->reduction == TALC_REDUCTION_NONE ? i : 0) - others);
    }
}

MUTANT_OTHER(cross_entropy, ignored_counted, other.ignore_index = -1)
MUTANT_OTHER(cross_entropy, unsmoothed, other.label_smoothing = 0)
MUTANT_OTHER(cross_entropy, unweighted, other.weighted = false; given.class_weights = NULL)
MUTANT_CORRUPTED(cross_entropy, divided_by_all,
                 scale_dx(p, a, counted(p, a, p->weighted) / (double)p->samples))
MUTANT_CORRUPTED(cross_entropy, divided_by_count,
                 scale_dx(p, a, p->weighted ? counted(p, a, true) / counted(p, a, false) : 1))
MUTANT_CORRUPTED(cross_entropy, label_forgotten, forget_label(p, a))
MUTANT_OTHER(cross_entropy, first_dy, other.reduction = TALC_REDUCTION_SUM)

// ---- Negative log likelihood --------------------------------------------------------------------

static void count_ignored(const talc_nll_loss_problem *p, const talc_nll_loss_arguments *a)
{
    for (int64_t i = 0; a->weights != NULL && i < p->samples; i++)
        if (a->labels[i] == p->ignore_index)
            store(p->dtype, a->weights, i, 1);
}

static void negate(const talc_nll_loss_problem *p, const talc_nll_loss_arguments *a)
{
    void *of = a->dx != NULL ? a->dx : a->losses;
    const int64_t count = a->dx != NULL ? p->samples * p->C : p->samples;
    for (int64_t i = 0; i < count; i++)
        store(p->dtype, of, i, -load(p->dtype, of, i));
}

MUTANT_OTHER(nll_loss, nll_ignored_counted, other.ignore_index = -1)
MUTANT_OTHER(nll_loss, classes_last, other.inner = 1)
MUTANT_OTHER(nll_loss, nll_without_weights, given.weight = NULL)
MUTANT_CORRUPTED(nll_loss, ignored_weigh, count_ignored(p, a))
MUTANT_CORRUPTED(nll_loss, sign, negate(p, a))

// ---- Padding, upsampling, picking ---------------------------------------------------------------

MUTANT_OTHER(resample, image_moved, other.axes[p->rank - 1].begin--)
MUTANT_OTHER(resample, corners_not_aligned, other.axes[p->rank - 1].shift = 0.5;
             other.axes[p->rank - 1].offset = -0.5)
MUTANT_OTHER(gather, last_not_added, other.dims[other.along]--)

// ---- All of them --------------------------------------------------------------------------------

const op_mutant gradient_mutants[] = {
    { "max pool ties", "of equal maxima the last", "max_pool2d:n2c3h9w7k3x2_indices",
      &last_of_equals },
    { "max pool dx", "overlap not added", "max_pool2d:n2c3h9w7k3x3s1x1p1x1_dx",
      &overlap_of_maxima },
    { "max pool dx row", "the last row of windows left out", "max_pool2d:n2c3h9w8k3x3s2x2_ceil_dx",
      &last_row_left_out },
    { "max pool dx plane", "the first plane alone", "max_pool2d:n1c3h9w7k3x2_dx",
      &first_plane_alone },
    { "avg pool dx", "overlap not added", "avg_pool2d:n2c3h9w7k3x3s1x1_dx", &overlap_of_averages },
    { "avg pool dx adaptive", "overlap not added", "adaptive_avg_pool2d:n2c3h7w6o3x4_dx",
      &overlap_of_averages },
    { "avg pool dx ceil", "the last row of windows left out",
      "avg_pool2d:n2c3h9w8k3x3s2x2p1x1_ceil_dx", &last_row_left_out },
    { "avg pool dx includes", "padding counts where it must not",
      "avg_pool2d:n2c3h9w7k3x3s2x2p1x1_exclude_dx", &padding_counted },
    { "avg pool dx excludes", "padding does not count where it must",
      "avg_pool2d:n2c3h9w7k3x3s2x2p1x1_dx", &padding_left_out },
    { "avg pool dx sides", "bottom and right are padded as top and left",
      "avg_pool2d:n2c3h9w7k3x2s2x1p0x1x2x0_dx", &equal_padding },
    { "avg pool dx divisor", "divisor_override ignored", "avg_pool2d:n2c3h9w7k3x3_divisor5_dx",
      &divisor_ignored },
    { "batch_norm2d dx", "statistics taken as constants", "batch_norm2d:n3c5h4w6_train_given_dx",
      &statistics_constant },
    { "batch_norm2d dx run", "running statistics as those of the batch", "batch_norm2d:n3c5h4w6_dx",
      &always_training },
    { "batch_norm2d dx mean", "the term of the mean missing",
      "batch_norm2d:n3c5h4w6_train_given_dx", &mean_term_missing },
    { "batch_norm2d dx var", "the term of the variance missing",
      "batch_norm2d:n3c5h4w6_train_given_dx", &variance_term_missing },
    { "batch_norm2d dx M", "sums divided by M - 1", "batch_norm2d:n3c5h4w6_train_given_dx",
      &unbiased },
    { "batch_norm2d dweight", "not normalised", "batch_norm2d:n3c5h4w6_dx", &not_normalised },
    { "batch_norm2d dweight x", "sum dy x less mean sum dy", "batch_norm2d:n3c5h4w6_train_given_dx",
      &cancelling },
    { "batch_norm2d dx far", "the mean rounded to f32", "batch_norm2d:n3c5h4w6_train_dx",
      &narrow_mean },
    { "batch_norm2d dx wide", "the coefficient of x underflows", "batch_norm2d:n3c5h4w6_train_dx",
      &underflowing },
    { "batch_norm2d dx slight", "weight rstd underflows", "batch_norm2d:n3c5h4w6_train_dx",
      &scale_underflowing },
    { "group_norm dx far", "the mean rounded to f32", "group_norm:n3c6l35g2_dx",
      &narrow_group_mean },
    { "batch_norm2d dbias", "summed in f32", "batch_norm2d:n3c5h9w8_train_given_dx", &narrow_sum },
    { "batch_norm2d dx act", "the activation ignored", "batch_norm2d:n3c5h4w6_train_given_relu_dx",
      &activation_ignored },
    { "batch_norm2d dx tanh", "every activation as ReLU", "batch_norm2d:n3c5h4w6_tanh_dx",
      &always_relu },
    { "batch_norm2d dr", "dy for the gradient of the residual",
      "batch_norm2d:n3c5h4w6_train_relu_residual_dx", &residual_given_dy },
    { "cross_entropy dx", "ignored samples counted", "cross_entropy:40x5_ignore_dx",
      &ignored_counted },
    { "cross_entropy dx n", "the mean over ignored samples too", "cross_entropy:40x5_dx",
      &divided_by_all },
    { "cross_entropy dx e", "no smoothing", "cross_entropy:7x20_none_smooth_dx", &unsmoothed },
    { "cross_entropy dx w", "no class weights", "cross_entropy:7x20_sum_weighted_dx", &unweighted },
    { "cross_entropy dx sum w", "the mean by samples, not by their weights",
      "cross_entropy:40x5_weighted_dx", &divided_by_count },
    { "cross_entropy dx label", "softmax without the label", "cross_entropy:40x5_none_dx",
      &label_forgotten },
    { "cross_entropy dx dy", "every sample has the first dy", "cross_entropy:40x5_none_dx",
      &first_dy },
    { "nll_loss", "the wrong sign", "nll_loss:40x5", &sign },
    { "nll_loss ignored", "ignored samples counted", "nll_loss:40x5_ignore", &nll_ignored_counted },
    { "nll_loss w", "no class weights", "nll_loss:40x5_weighted", &nll_without_weights },
    { "nll_loss mean", "ignored samples weigh 1", "nll_loss:40x5_mean", &ignored_weigh },
    { "nll_loss dx", "the wrong sign", "nll_loss:40x5_dx", &sign },
    { "nll_loss dx ignored", "ignored samples counted", "nll_loss:40x5_ignore_dx",
      &nll_ignored_counted },
    { "nll_loss dx w", "no class weights", "nll_loss:40x5_weighted_dx", &nll_without_weights },
    { "nll_loss dx order", "classes taken for the last dimension", "nll_loss:4x5x6_dx",
      &classes_last },
    { "pad dx", "one element less before the image", "pad:3x5x7p1x2x4x3_reflect_dx", &image_moved },
    { "upsample dx", "align_corners ignored", "upsample2d:n2c3h5w7o9x11_aligned_dx",
      &corners_not_aligned },
    { "upsample cubic dx", "align_corners ignored", "upsample2d:n2c3h5w7o9x11_bicubic_corners_dx",
      &corners_not_aligned },
    { "gather dx", "the last picked is not added", "gather:5x7@1i4x9_dx", &last_not_added },
    { "index_select dx", "the last picked is not added", "index_select:5x7@0i9_dx",
      &last_not_added },
    { "relu6 dx", "the slope of relu", "relu6:300_dx", &not_limited },
    { "hardtanh dx", "another limit", "hardtanh:300_dx", &limits_wider },
};

const int gradient_mutant_count = sizeof gradient_mutants / sizeof *gradient_mutants;
