/* What a mutant reads, sums and makes of the sum. */
#include "tests/support/activation.h"
#include "tests/support/mutant_work.h"

#include <math.h>

// ---- Elements -----------------------------------------------------------------------------------

double mutant_load(const mutant_work *k, const void *array, int64_t i)
{
    return k->p.dtype == TALC_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

void mutant_store(const mutant_work *k, void *array, int64_t i, double value)
{
    if (k->p.dtype == TALC_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

size_t mutant_element_size(const talc_conv2d_problem *p)
{
    return p->dtype == TALC_F32 ? sizeof(float) : sizeof(double);
}

/* Rounded to so many bits of fraction, the leading one included. */
static double to_bits(double value, int bits)
{
    int exponent;
    if (!isfinite(value))
        return value;
    const double fraction = frexp(value, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

static double flushed(const mutant_work *k, double value)
{
    return mutant_is(MUTANT_FLUSHED) &&
                   fabs(value) < (k->p.dtype == TALC_F32 ? 0x1p-126 : 0x1p-1022)
               ? 0
               : value;
}

static double rounded(const mutant_work *k, double value)
{
    if (mutant_is(MUTANT_HALF_SUM))
        return to_bits(value, 11);
    return k->p.dtype == TALC_F32 || mutant_is(MUTANT_F64_NARROW) ? (double)(float)value : value;
}

// ---- Reading ------------------------------------------------------------------------------------

/* What stands at coordinate i of an axis; -1 for zero. */
static int64_t source(talc_padding_mode mode, int64_t i, int64_t extent)
{
    if (i >= 0 && i < extent)
        return i;
    switch (mode) {
    case TALC_PADDING_REFLECT:
        if (mutant_is(MUTANT_REFLECT_EDGE))
            return i < 0 ? -i - 1 : 2 * extent - 1 - i;
        return i < 0 ? -i : 2 * (extent - 1) - i;
    case TALC_PADDING_REPLICATE:
        return i < 0 ? 0 : extent - 1;
    case TALC_PADDING_CIRCULAR:
        if (mutant_is(MUTANT_CIRCULAR))
            return i < 0 ? (i + extent + extent - 1) % extent : i - extent;
        return i < 0 ? i + extent : i - extent;
    default:
        return -1;
    }
}

static double limited(const mutant_work *k, double x)
{
    if (mutant_is(MUTANT_NAN_ZERO) && isnan(x))
        return 0;
    if ((mutant_is(MUTANT_INFINITY) && isinf(x)) ||
        (mutant_is(MUTANT_INFINITY_BELOW) && x == -(double)INFINITY))
        return copysign(k->p.dtype == TALC_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023, x);
    if (mutant_is(MUTANT_CLAMPED) && fabs(x) > 65504)
        return copysign(65504, x);
    return mutant_is(MUTANT_TF32) ? to_bits(x, 11) : flushed(k, x);
}

static double read_x(const mutant_work *k, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const talc_conv2d_problem *p = &k->p;
    const char *x = k->a.x;
    if (h < 0 || h >= p->H || w < 0 || w >= p->W)
        return 0;
    if (mutant_is(MUTANT_SQUARE_IMAGE) && p->H == p->W)
        mutant_swap(&h, &w);
    if (mutant_is(MUTANT_ALIGNED_DOWN))
        x -= (size_t)((uintptr_t)x % 16);
    int64_t i = (n * p->C + c) * p->H * p->W;
    i += mutant_is(MUTANT_IMAGE_AXES) ? w * p->H + h : h * p->W + w;
    return limited(k, mutant_load(k, x, mutant_is(MUTANT_INDEX_16) ? i & 0xffff : i));
}

/* The column that an output of this row is computed for. */
static int64_t column(int64_t ow)
{
    return mutant_is(MUTANT_COLUMN_8) ? ow & 0xff : ow;
}

/* Term t of the sum of an output, which the tile holds. */
void mutant_gather(const mutant_work *k, const mutant_position *at, int64_t t, int64_t columns,
                   int64_t pitch)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t kw = t % p->KW, kh = t / p->KW % p->KH, ic = t / p->KW / p->KH;
    const int64_t g = mutant_is(MUTANT_GROUP_OFFSET) ? 0 : at->g;
    const int64_t n = mutant_is(MUTANT_BATCH_IGNORED) ? 0 : at->n;
    const int64_t h =
        source(p->padding_mode, at->oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);
    for (int64_t j = 0; j < columns; j++) {
        const int64_t ow = column(at->ow + j);
        const int64_t w =
            source(p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);
        if (mutant_is(MUTANT_STALE_TILE) && (h < 0 || w < 0))
            continue;
        mutant_store(k, k->a.base.workspace, t * pitch + j, read_x(k, n, g * k->IC + ic, h, w));
    }
    for (int64_t j = columns; j < k->width && pitch == k->width; j++)
        mutant_store(k, k->a.base.workspace, t * pitch + j, 0);
}

static double read_w(const mutant_work *k, const mutant_position *at, int64_t t)
{
    const talc_conv2d_problem *p = &k->p;
    int64_t kw = t % p->KW, kh = t / p->KW % p->KH, ic = t / p->KW / p->KH, oc = at->oc;
    if (mutant_is(MUTANT_KERNEL_ROTATED))
        kh = p->KH - 1 - kh;
    if (mutant_is(MUTANT_KERNEL_ROTATED) || mutant_is(MUTANT_KERNEL_MIRRORED))
        kw = p->KW - 1 - kw;
    if (mutant_is(MUTANT_SQUARE_KERNEL) && p->KH == p->KW)
        mutant_swap(&kh, &kw);
    if (mutant_is(MUTANT_WEIGHT_GROUP))
        oc = (oc + k->OCg) % p->OC;
    int64_t i = mutant_is(MUTANT_KERNEL_CHANNELS) ? ic * p->OC + oc : oc * k->IC + ic;
    i = mutant_is(MUTANT_KERNEL_AXES) ? (i * p->KW + kw) * p->KH + kh
                                      : (i * p->KH + kh) * p->KW + kw;
    const char *array = k->a.w;
    if (mutant_is(MUTANT_ALIGNED_ALIKE))
        array += (intptr_t)((uintptr_t)k->a.x % 16) - (intptr_t)((uintptr_t)array % 16);
    const double w = mutant_load(k, array, i);
    if (mutant_is(MUTANT_NAN_WEIGHT) && isnan(w))
        return 0;
    if (mutant_is(MUTANT_INFINITY_WEIGHT) && isinf(w))
        return copysign(k->p.dtype == TALC_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023, w);
    return mutant_is(MUTANT_TF32) ? to_bits(w, 11) : flushed(k, w);
}

// ---- Summing ------------------------------------------------------------------------------------

/* Whether a mutant loses this term. */
static bool lost(const mutant_work *k, const mutant_position *at, int64_t t)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t index = ((at->n * p->OC + at->oc) * p->OH + at->oh) * p->OW + at->ow;
    const bool last = t == k->terms - 1;
    switch (mutant_current) {
    case MUTANT_TAP:
        return t % (p->KH * p->KW) == p->KH * p->KW - 1 && p->KH * p->KW > 1;
    case MUTANT_LAST_CHANNEL:
        return t / (p->KH * p->KW) == k->IC - 1 && k->IC > 1;
    case MUTANT_TERM_BLOCKS:
        return k->terms > 16 && t >= k->terms / 16 * 16;
    case MUTANT_SPARSE:
        return last && index % 97 == 96;
    case MUTANT_WIDE_ROW:
        return last && p->OW > 32;
    case MUTANT_THIRD_IMAGE:
        return last && at->n > 1;
    case MUTANT_F64_ONLY:
        return last && p->dtype == TALC_F64;
    case MUTANT_MANY_CHANNELS:
        return last && k->OCg > 8;
    default:
        return false;
    }
}

static double plus(const mutant_work *k, double sum, double x, double w)
{
    if ((mutant_is(MUTANT_ZERO_WEIGHTS) && w == 0) || (mutant_is(MUTANT_ZERO_IMAGE) && x == 0))
        return sum;
    if (mutant_is(MUTANT_BFLOAT))
        return rounded(k, sum + to_bits(x * w, 8));
    if (mutant_is(MUTANT_F64_NARROW))
        return rounded(k, sum + rounded(k, rounded(k, x) * rounded(k, w)));
    if (mutant_is(MUTANT_CANCELLING))
        return rounded(k, rounded(k, sum + rounded(k, x + k->largest) * w) - k->largest * w);
    return flushed(k, rounded(k, sum + x * w));
}

/* The neighbour that a kernel with a column of zeros behind its last would read. */
static double zero_tap(const mutant_work *k, const mutant_position *at)
{
    const talc_conv2d_problem *p = &k->p;
    return 0 * read_x(k, at->n, at->g * k->IC, at->oh * p->stride_h - p->pad_top,
                      at->ow * p->stride_w - p->pad_left + p->KW * p->dilation_w);
}

/* Whether the padding of zeros is under term t. */
static bool over_padding(const mutant_work *k, const mutant_position *at, int64_t t)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t kh = t / p->KW % p->KH, kw = t % p->KW;
    const int64_t h = at->oh * p->stride_h - p->pad_top + kh * p->dilation_h,
                  w = at->ow * p->stride_w - p->pad_left + kw * p->dilation_w;
    return p->padding_mode == TALC_PADDING_ZEROS && (h < 0 || h >= p->H || w < 0 || w >= p->W);
}

/* The step in which the elements of x are held that the output in column `j` of the tile sums. */
static double step_of(const mutant_work *k, int64_t j)
{
    double largest = 0;
    for (int64_t t = 0; t < k->terms && mutant_is(MUTANT_SCALED) && k->p.dtype == TALC_F32; t++)
        largest = fmax(largest, fabs(mutant_load(k, k->a.base.workspace, t * k->width + j)));
    return largest > 0 && isfinite(largest) ? ldexp(1, ilogb(largest) - 39) : 0;
}

/* The sum of the output in column `j` of the tile; `slot` of the workspace holds it meanwhile. */
static double sum_of(const mutant_work *k, const mutant_position *at, int64_t j, int64_t slot)
{
    void *workspace = k->a.base.workspace;
    const bool stale =
        mutant_is(MUTANT_STALE_FINITE) && k->first == 0 && !isnan(mutant_load(k, workspace, slot));
    if (!mutant_is(MUTANT_STALE_SUM) && !stale)
        mutant_store(k, workspace, slot, 0);
    double sum = mutant_load(k, workspace, slot);
    const double step = step_of(k, j);
    for (int64_t i = 0; i < k->terms; i++) {
        const int64_t t = k->backwards ? k->terms - 1 - i : i;
        const double its = mutant_load(k, workspace, t * k->width + j), w = read_w(k, at, t),
                     x = step > 0 ? rint(its / step) * step : its;
        if (mutant_is(MUTANT_RESTART) && i == 64)
            sum = 0;
        if (mutant_is(MUTANT_TAP_TWICE) && i == 0)
            sum = plus(k, sum, x, w);
        if (mutant_is(MUTANT_PADDING_SKIPPED) && over_padding(k, at, t))
            continue;
        if (!lost(k, at, t))
            sum = plus(k, sum, x, w);
    }
    if (mutant_is(MUTANT_ZERO_TAP))
        sum += zero_tap(k, at);
    const int64_t x_count = k->p.N * k->p.C * k->p.H * k->p.W;
    if (mutant_is(MUTANT_READS_PAST) && at->n == k->p.N - 1 && at->oh == k->p.OH - 1)
        sum += 0 * mutant_load(k, k->a.x, x_count);
    if (mutant_is(MUTANT_READS_BEFORE) && at->n == 0 && at->oh == 0)
        sum += 0 * mutant_load(k, (const char *)k->a.x - mutant_element_size(&k->p), 0);
    mutant_store(k, workspace, slot, sum);
    return mutant_load(k, workspace, slot);
}

// ---- Bias, residual, activation -----------------------------------------------------------------

static double ended(const mutant_work *k, double v)
{
    switch (k->p.activation) {
    case TALC_ACTIVATION_RELU:
        if (mutant_is(MUTANT_RELU_NAN))
            return v > 0 ? v : 0;
        if (mutant_is(MUTANT_RELU_SIX) && v > 6)
            return 6;
        return v < 0 ? 0 : v;
    case TALC_ACTIVATION_SIGMOID:
        return mutant_is(MUTANT_SIGMOID) ? 0.5 + 0.5 * v / (1 + fabs(v)) : 1 / (1 + exp(-v));
    case TALC_ACTIVATION_TANH:
        if (mutant_is(MUTANT_TANH) && fabs(v) < 2)
            return v * (945 + 105 * v * v + v * v * v * v) /
                   (945 + 420 * v * v + 15 * v * v * v * v);
        return tanh(v);
    default:
        return activated(k->p.activation, v);
    }
}

static double added(mutant nan_ignored, double value)
{
    const bool ignored = (mutant_is(nan_ignored) && isnan(value)) ||
                         (mutant_is(MUTANT_INFINITY_ADDED) && isinf(value));
    return ignored ? 0 : value;
}

static double bias_of(const mutant_work *k, const mutant_position *at)
{
    const int64_t OC = k->p.OC;
    const int64_t i = mutant_is(MUTANT_BIAS_ROW)      ? at->oh % OC
                      : mutant_is(MUTANT_BIAS_COLUMN) ? at->ow % OC
                      : mutant_is(MUTANT_BIAS_GROUP)  ? at->oc % k->OCg
                      : mutant_is(MUTANT_BIAS_TILE)   ? at->oc % k->OCg % MUTANT_CHANNELS
                                                      : at->oc;
    return added(MUTANT_NAN_BIAS, mutant_load(k, k->a.bias, i)) *
           (mutant_is(MUTANT_BIAS_TWICE) ? 2 : 1);
}

static double finished(const mutant_work *k, const mutant_position *at, double sum)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t n = mutant_is(MUTANT_RESIDUAL_IMAGE) ? 0 : at->n;
    const double bias = p->bias ? bias_of(k, at) : 0;
    const double residual =
        p->residual ? added(MUTANT_NAN_RESIDUAL,
                            mutant_load(k, k->a.residual,
                                        ((n * p->OC + at->oc) * p->OH + at->oh) * p->OW + at->ow))
                    : 0;
    if (p->bias && !mutant_is(MUTANT_BIAS_LATE))
        sum = rounded(k, sum + bias);
    if (p->residual && !mutant_is(MUTANT_RESIDUAL_LATE))
        sum = rounded(k, sum + residual);
    sum = rounded(k, ended(k, sum));
    if (p->bias && mutant_is(MUTANT_BIAS_LATE))
        sum = rounded(k, sum + bias);
    if (p->residual && mutant_is(MUTANT_RESIDUAL_LATE))
        sum = rounded(k, sum + residual);
    const int64_t last = (p->OH - 1) * p->stride_h - p->pad_top + (p->KH - 1) * p->dilation_h;
    if (mutant_is(MUTANT_PAD_BOTTOM) && at->oh == p->OH - 1 && last >= p->H)
        return 0;
    if (mutant_is(MUTANT_ALL_ZEROS))
        return 0;
    return mutant_is(MUTANT_ROUNDED) ? ldexp(rint(ldexp(sum, 12)), -12) : sum;
}

double mutant_output(const mutant_work *k, const mutant_position *at, int64_t j, int64_t slot)
{
    return finished(k, at, sum_of(k, at, j, slot));
}
