/// Sums of products and of windows: conv2d, linear, matmul, pooling.
#include "check/model_due.h"

#include "check/trial.h"
#include "ops/conv2d.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "tensor/extent.h"
#include "tensor/memory.h"

#include <math.h>

/* One element in the making. */
typedef struct sums {
    long double value;
    double S, spread;
} sums;

static inline void add_product(sums *to, const check_array *a, int64_t i, const check_array *b,
                               int64_t j)
{
    const double x = a->of[i], w = b->of[j];
    to->value += (long double)x * w;
    to->S += fabs(x * w);
    if (a->off != NULL)
        to->spread += a->off[i] * fabs(w);
    if (b->off != NULL)
        to->spread += b->off[j] * (fabs(x) + check_off(a, i));
}

/* A bias or residual; one that was left out has no elements. */
static void add_term(sums *to, const check_array *terms, int64_t i)
{
    if (terms->of == NULL)
        return;
    to->value += terms->of[i];
    to->S += fabs(terms->of[i]);
    to->spread += check_off(terms, i);
}

static void keep(check_model_due *due, int64_t i, const sums *sum)
{
    due->value[i] = sum->value;
    due->S[i] = sum->S;
    due->spread[i] = sum->spread;
}

// ---- conv2d -------------------------------------------------------------------------------------------------

/* For each output index and tap of one direction the input index. */
static int64_t *taps_new(talc_padding_mode mode, int64_t outputs, int64_t kernel, int64_t stride,
                         int64_t pad, int64_t dilation, int64_t extent)
{
    int64_t *taps =
        talc_memory_new((size_t)(outputs * kernel) * sizeof *taps + 1, "check_model: conv2d");
    for (int64_t o = 0; taps != NULL && o < outputs; o++)
        for (int64_t k = 0; k < kernel; k++)
            taps[o * kernel + k] = talc_check_source(mode, o * stride - pad + k * dilation, extent);
    return taps;
}

/* The sum over one window; rows and columns are its KH and KW input indices. */
static void add_window(sums *sum, const talc_conv2d_problem *p, const check_ran *ran, int64_t n,
                       int64_t oc, const int64_t *rows, const int64_t *columns)
{
    const int64_t C_group = p->C / p->groups, group = oc / (p->OC / p->groups);
    for (int64_t ic = 0; ic < C_group; ic++)
        for (int64_t kh = 0; kh < p->KH; kh++) {
            if (rows[kh] < 0)
                continue;
            const int64_t x_row = ((n * p->C + group * C_group + ic) * p->H + rows[kh]) * p->W;
            const int64_t w_row = ((oc * C_group + ic) * p->KH + kh) * p->KW;
            for (int64_t kw = 0; kw < p->KW; kw++)
                if (columns[kw] >= 0)
                    add_product(sum, &ran->inputs[0], x_row + columns[kw], &ran->inputs[1],
                                w_row + kw);
        }
}

bool talc_check_due_conv2d(const check_ran *ran, check_model_due *due)
{
    const talc_conv2d_problem *p = ran->problem;
    int64_t *rows =
        taps_new(p->padding_mode, p->OH, p->KH, p->stride_h, p->pad_top, p->dilation_h, p->H);
    int64_t *columns =
        taps_new(p->padding_mode, p->OW, p->KW, p->stride_w, p->pad_left, p->dilation_w, p->W);
    for (int64_t i = 0; rows != NULL && columns != NULL && i < ran->output.count; i++) {
        const int64_t ow = i % p->OW, oh = i / p->OW % p->OH;
        const int64_t oc = i / (p->OW * p->OH) % p->OC, n = i / (p->OW * p->OH * p->OC);
        sums sum = { 0 };
        add_window(&sum, p, ran, n, oc, rows + oh * p->KH, columns + ow * p->KW);
        add_term(&sum, &ran->inputs[2], oc);
        add_term(&sum, &ran->inputs[3], i);
        keep(due, i, &sum);
    }
    due->K = (double)(p->C / p->groups) * (double)p->KH * (double)p->KW;
    due->activation = p->activation;
    const bool complete = rows != NULL && columns != NULL;
    talc_memory_free(rows);
    talc_memory_free(columns);
    return complete;
}

// ---- Products -----------------------------------------------------------------------------------------------

bool talc_check_due_linear(const check_ran *ran, check_model_due *due)
{
    const check_array *x = &ran->inputs[0], *weight = &ran->inputs[1];
    const int64_t outputs = weight->dims.dim[0], K = weight->dims.dim[1];
    for (int64_t i = 0; i < ran->output.count; i++) {
        const int64_t o = i % outputs, row = i / outputs;
        sums sum = { 0 };
        for (int64_t k = 0; k < K; k++)
            add_product(&sum, x, row * K + k, weight, o * K + k);
        add_term(&sum, &ran->inputs[2], o);
        add_term(&sum, &ran->inputs[3], i);
        keep(due, i, &sum);
    }
    due->K = (double)K;
    due->activation = ((const talc_matmul_problem *)ran->problem)->activation;
    return true;
}

/* Which matrix of an operand belongs to matrix `batch` of the result, whose leading dimensions are `dims`. */
static int64_t matrix_index(const check_array *operand, talc_dims dims, int64_t batch)
{
    const int own = operand->dims.rank < 2 ? 0 : operand->dims.rank - 2;
    int64_t index = 0, step = 1;
    for (int i = dims.rank - 1; i >= 0; i--) {
        const int64_t at = batch % dims.dim[i];
        const int mine = i - (dims.rank - own);
        batch /= dims.dim[i];
        if (mine < 0)
            continue;
        index += operand->dims.dim[mine] == 1 ? 0 : at * step;
        step *= operand->dims.dim[mine];
    }
    return index;
}

bool talc_check_due_matmul(const check_ran *ran, check_model_due *due)
{
    const check_array *a = &ran->inputs[0], *b = &ran->inputs[1];
    const int ra = a->dims.rank, rb = b->dims.rank;
    const int64_t M = ra < 2 ? 1 : a->dims.dim[ra - 2], K = a->dims.dim[ra - 1];
    const int64_t N = rb < 2 ? 1 : b->dims.dim[rb - 1];
    talc_dims batch =
        ran->output.dims; /* less the dimensions of the matrices, of which a vector has one fewer */
    batch.rank -= (ra > 1) + (rb > 1);
    for (int64_t i = 0; i < ran->output.count; i++) {
        const int64_t n = i % N, m = i / N % M, matrix = i / (M * N);
        const int64_t a_row = (matrix_index(a, batch, matrix) * M + m) * K;
        const int64_t b_start = matrix_index(b, batch, matrix) * K * N;
        sums sum = { 0 };
        for (int64_t k = 0; k < K; k++)
            add_product(&sum, a, a_row + k, b, b_start + k * N + n);
        keep(due, i, &sum);
    }
    due->K = (double)K;
    return true;
}

// ---- Pooling ------------------------------------------------------------------------------------------------

/* The taps of one output in one direction: first, first + step, ... before end, all inside the image. */
typedef struct taps {
    int64_t first, end, step;
    int64_t padded; /* how many there are with those in the padding */
} taps;

static taps window_taps(int64_t o, int64_t kernel, int64_t stride, int64_t pad_begin,
                        int64_t pad_end, int64_t dilation, int64_t extent)
{
    taps t = { .first = o * stride - pad_begin, .step = dilation };
    t.end = talc_smaller(t.first + (kernel - 1) * dilation + 1, extent);
    t.padded = talc_smaller(t.first + kernel, extent + pad_end) - t.first;
    while (t.first < 0)
        t.first += dilation;
    return t;
}

static taps adaptive_taps(int64_t o, int64_t outputs, int64_t extent)
{
    return (taps){ o * extent / outputs, ((o + 1) * extent + outputs - 1) / outputs, 1, 0 };
}

static void pool_max(const check_array *x, int64_t plane, int64_t W, taps rows, taps columns,
                     sums *best)
{
    best->value = -INFINITY;
    for (int64_t h = rows.first; h < rows.end; h += rows.step)
        for (int64_t w = columns.first; w < columns.end; w += columns.step) {
            const int64_t at = plane + h * W + w;
            if (isnan(x->of[at]) || (double)best->value < x->of[at])
                best->value = isnan(best->value) ? best->value : (long double)x->of[at];
            best->spread = fmax(best->spread, check_off(x, at));
        }
}

static int64_t pool_sum(const check_array *x, int64_t plane, int64_t W, taps rows, taps columns,
                        sums *sum)
{
    int64_t count = 0;
    for (int64_t h = rows.first; h < rows.end; h += rows.step)
        for (int64_t w = columns.first; w < columns.end; w += columns.step, count++)
            add_term(sum, x, plane + h * W + w);
    return count;
}

bool talc_check_due_pool2d(const check_ran *ran, check_model_due *due)
{
    const talc_pool2d_problem *p = ran->problem;
    const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
    const double u = talc_check_unit(ran->output.dtype);
    for (int64_t i = 0; i < ran->output.count; i++) {
        const int64_t ow = i % p->OW, oh = i / p->OW % p->OH;
        const int64_t plane = i / (p->OW * p->OH) * p->H * p->W;
        const taps rows = adaptive
                              ? adaptive_taps(oh, p->OH, p->H)
                              : window_taps(oh, p->KH, p->stride_h, p->pad_top, p->pad_bottom,
                                            p->kind == TALC_POOL2D_MAX ? p->dilation_h : 1, p->H);
        const taps columns =
            adaptive ? adaptive_taps(ow, p->OW, p->W)
                     : window_taps(ow, p->KW, p->stride_w, p->pad_left, p->pad_right,
                                   p->kind == TALC_POOL2D_MAX ? p->dilation_w : 1, p->W);
        sums sum = { 0 };
        if (p->kind == TALC_POOL2D_MAX) {
            pool_max(&ran->inputs[0], plane, p->W, rows, columns, &sum);
        } else {
            const int64_t inside = pool_sum(&ran->inputs[0], plane, p->W, rows, columns, &sum);
            const double divisor = p->divisor != 0 ? (double)p->divisor
                                   : adaptive || p->exclude_padding
                                       ? (double)inside
                                       : (double)rows.padded * (double)columns.padded;
            due->K = fmax(due->K, (double)inside);
            if (inside > 0)
                sum = (sums){ sum.value / divisor, sum.S / divisor, sum.spread / divisor };
            due->extra[i] = u * (double)fabsl(sum.value);
        }
        keep(due, i, &sum);
    }
    return true;
}
