#include "tests/support/oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Where padded coordinate `at` of an axis lies in the image, -1 for a zero. Walks into the image instead of computing
 * the place, so that it is obviously right. */
static int64_t source(int64_t at, int64_t before, int64_t size, talc_padding_mode mode)
{
    int64_t i = at - before;
    while (i < 0 || i >= size) {
        if (size == 0 || mode == TALC_PADDING_ZEROS)
            return -1;
        if (mode == TALC_PADDING_REPLICATE)
            i += i < 0 ? 1 : -1;
        else if (mode == TALC_PADDING_CIRCULAR)
            i += i < 0 ? size : -size;
        else
            i = i < 0 ? -i : 2 * (size - 1) - i;
    }
    return i;
}

int64_t oracle_extent(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t before, int64_t after)
{
    int64_t count = 0;
    for (int64_t first = 0; first + dilation * (kernel - 1) < before + size + after;
         first += stride)
        count++;
    return count;
}

/* One image with its padding around it: [C, H + top + bottom, W + left + right]. */
static void pad_image(const talc_conv2d_problem *p, const double *x, double *padded)
{
    const int64_t rows = p->H + p->pad_top + p->pad_bottom,
                  columns = p->W + p->pad_left + p->pad_right;
    for (int64_t c = 0; c < p->C; c++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t column = 0; column < columns; column++) {
                const int64_t h = source(row, p->pad_top, p->H, p->padding_mode);
                const int64_t w = source(column, p->pad_left, p->W, p->padding_mode);
                *padded++ = h < 0 || w < 0 ? 0 : x[(c * p->H + h) * p->W + w];
            }
}

static long double activate(talc_activation activation, long double v)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return v < 0 ? 0 : v;
    case TALC_ACTIVATION_SIGMOID:
        return 1 / (1 + expl(-v));
    case TALC_ACTIVATION_TANH:
        return tanhl(v);
    default:
        return v;
    }
}

/* The outputs of channel oc of one padded image. */
static void convolve_channel(const talc_conv2d_problem *p, const oracle_conv2d *oracle,
                             const double *padded, const double *w, int64_t oc, const double *bias,
                             const double *residual, int64_t first)
{
    const int64_t rows = p->H + p->pad_top + p->pad_bottom,
                  columns = p->W + p->pad_left + p->pad_right;
    const int64_t channels = p->C / p->groups, per_group = p->OC / p->groups;
    int64_t group = 0;
    while ((group + 1) * per_group <= oc)
        group++;
    for (int64_t oh = 0; oh < oracle->OH; oh++)
        for (int64_t ow = 0; ow < oracle->OW; ow++) {
            const int64_t i = first + oh * oracle->OW + ow;
            long double sum = 0, size = 0;
            const double *tap = w + oc * channels * p->KH * p->KW;
            for (int64_t c = group * channels; c < (group + 1) * channels; c++)
                for (int64_t kh = 0; kh < p->KH; kh++)
                    for (int64_t kw = 0; kw < p->KW; kw++, tap++) {
                        const int64_t row = oh * p->stride_h + kh * p->dilation_h;
                        const int64_t column = ow * p->stride_w + kw * p->dilation_w;
                        const long double term =
                            (long double)padded[(c * rows + row) * columns + column] * *tap;
                        sum += term;
                        size += fabsl(term);
                    }
            if (bias != NULL) {
                sum += bias[oc];
                size += fabs(bias[oc]);
            }
            if (residual != NULL) {
                sum += residual[i];
                size += fabs(residual[i]);
            }
            oracle->y[i] = activate(p->activation, sum);
            oracle->S[i] = (double)size;
        }
}

oracle_conv2d oracle_new(const talc_conv2d_problem *p, const double *x, const double *w,
                         const double *bias, const double *residual)
{
    oracle_conv2d oracle = {
        .N = p->N,
        .OC = p->OC,
        .OH = oracle_extent(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom),
        .OW = oracle_extent(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, p->pad_right),
        .K = p->C / p->groups * p->KH * p->KW,
    };
    const int64_t image =
        p->C * (p->H + p->pad_top + p->pad_bottom) * (p->W + p->pad_left + p->pad_right);
    oracle.count = oracle.N * oracle.OC * oracle.OH * oracle.OW;
    oracle.y = calloc((size_t)oracle.count + 1, sizeof *oracle.y);
    oracle.S = calloc((size_t)oracle.count + 1, sizeof *oracle.S);
    double *padded = calloc((size_t)image + 1, sizeof *padded);
    if (oracle.y == NULL || oracle.S == NULL || padded == NULL)
        abort();
    for (int64_t n = 0; n < p->N; n++) {
        pad_image(p, x + n * p->C * p->H * p->W, padded);
        for (int64_t oc = 0; oc < p->OC; oc++)
            convolve_channel(p, &oracle, padded, w, oc, bias, residual,
                             (n * p->OC + oc) * oracle.OH * oracle.OW);
    }
    free(padded);
    return oracle;
}

void oracle_free(oracle_conv2d *oracle)
{
    free(oracle->y);
    free(oracle->S);
    *oracle = (oracle_conv2d){ .count = 0 };
}

// ---- Bounds -------------------------------------------------------------------------------------------------

static double tolerance(const oracle_conv2d *oracle, const talc_conv2d_problem *p,
                        oracle_bound bound, int64_t i)
{
    const double u = p->dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
    const double tiny =
        p->dtype == TALC_F32 ? 0x1p-149 : 0x1p-1074; /* what an underflowing product may lose */
    const double K = (double)oracle->K, S = oracle->S[i], y = fabs((double)oracle->y[i]);
    const bool curved =
        p->activation == TALC_ACTIVATION_SIGMOID || p->activation == TALC_ACTIVATION_TANH;
    double slack = bound == ORACLE_RANDOM         ? 4 * u * sqrt(K + 4) * S
                   : bound == ORACLE_ANY          ? (K + 2) * u * S
                   : bound == ORACLE_ONE_ROUNDING ? u * y + (K + 4) * 0x1p-53 * S
                                                  : 0;
    if (slack > 0)
        slack += (K + 2) * tiny;
    /* The slopes of relu, sigmoid and tanh are at most 1: they do not enlarge an error. An ulp is at most 2 u |y|. */
    return slack + (curved ? 8 * u * y : 0);
}

/* The share of its bound that an element uses. Not-a-number and infinities have to be met as they are. */
static double share(long double due, double got, double bound)
{
    if (isnan(due) || isnan(got))
        return isnan(due) && isnan(got) ? 0 : INFINITY;
    if (isinf(due) || isinf(got))
        return due == got ? 0 : INFINITY;
    const double off = (double)fabsl(due - got);
    return off == 0 ? 0 : bound > 0 ? off / bound : INFINITY;
}

oracle_report oracle_compare(const oracle_conv2d *oracle, const talc_conv2d_problem *p,
                             const double *y, oracle_bound bound)
{
    oracle_report report = { .worst = 0 };
    int64_t worst = -1;
    for (int64_t i = 0; i < oracle->count; i++) {
        const double used = share(oracle->y[i], y[i], tolerance(oracle, p, bound, i));
        if (used > report.worst) {
            report.worst = used;
            worst = i;
        }
        if (oracle->S[i] > 0) {
            report.fed++;
            report.nonzero += y[i] != 0;
        }
    }
    if (worst >= 0) {
        report.w = worst % oracle->OW;
        report.h = worst / oracle->OW % oracle->OH;
        report.c = worst / oracle->OW / oracle->OH % oracle->OC;
        report.n = worst / oracle->OW / oracle->OH / oracle->OC;
        report.got = y[worst];
        report.due = (double)oracle->y[worst];
    }
    return report;
}

bool oracle_trusted(const oracle_report *report, const talc_conv2d_problem *p)
{
    const double least = p->activation == TALC_ACTIVATION_RELU ? 0.15 : 0.30;
    return report->fed < 8 || (double)report->nonzero >= least * (double)report->fed;
}
