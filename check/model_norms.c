/// Results that depend on a whole channel, row or tensor: batch norm, softmax, reductions.
#include "check/model_due.h"
#include "ops/batch_norm2d.h"
#include "ops/observed.h"
#include "tensor/memory.h"

#include <math.h>

// ---- Batch norm ---------------------------------------------------------------------------------------------

/* What one channel is normalised by, and how far that may be off. */
typedef struct channel {
    long double mean, rstd;
    double largest_mean; /* of the sizes that a mean is summed from */
    double off_mean;     /* of the mean */
    double off_scale;    /* of sqrt(var + eps), over itself; at least 1: it may be anything */
} channel;

/* By its running statistics. sqrt(var + eps) is off by at most off(var) / (2 sqrt(var + eps - off)). */
static channel running_channel(const talc_batch_norm2d_problem *p, const check_ran *ran, int64_t c)
{
    const check_array *mean = &ran->inputs[3], *var = &ran->inputs[4];
    const long double power = (long double)var->of[c] + p->eps;
    channel of = { .mean = mean->of[c], .rstd = 1 / sqrtl(power) };
    of.largest_mean = fabs(mean->of[c]);
    of.off_mean = check_off(mean, c);
    const double off = check_off(var, c), left = (double)power - off;
    of.off_scale = off == 0 ? 0 : left <= 0 ? 1 : off / (2 * sqrt(left) * sqrt((double)power));
    return of;
}

/* By the batch. A deviation x - mean is off by no more than off(x) and the mean of all off; sqrt(var + eps) is a norm, so
 * it is off by no more than the norm of what the deviations are off. */
static channel batch_channel(const talc_batch_norm2d_problem *p, const check_array *x, int64_t c)
{
    const int64_t plane = p->H * p->W, M = p->N * plane;
    channel of = { 0 };
    for (int64_t i = 0; i < M; i++) {
        const int64_t at = (i / plane * p->C + c) * plane + i % plane;
        of.mean += (long double)x->of[at] / M;
        of.largest_mean += fabs(x->of[at]) / (double)M;
        of.off_mean += check_off(x, at) / (double)M;
    }
    long double var = 0;
    double off = 0;
    for (int64_t i = 0; i < M; i++) {
        const int64_t at = (i / plane * p->C + c) * plane + i % plane;
        const long double deviation = x->of[at] - of.mean;
        const double moved = check_off(x, at) + of.off_mean;
        var += deviation * deviation / M;
        off += moved * moved / (double)M;
    }
    of.rstd = 1 / sqrtl(var + p->eps);
    of.off_scale = off == 0 ? 0 : sqrt(off) * (double)of.rstd;
    return of;
}

static void normalised(const check_ran *ran, int64_t i, int64_t c, const channel *by,
                       check_model_due *due)
{
    const check_array *x = &ran->inputs[0], *weight = &ran->inputs[1], *bias = &ran->inputs[2];
    const double w = weight->of == NULL ? 1 : weight->of[c], b = bias->of == NULL ? 0 : bias->of[c];
    const long double z = (x->of[i] - by->mean) * by->rstd;
    const double scale = fabs(w) * (double)by->rstd;
    due->value[i] = z * w + b;
    due->S[i] = (fabs(x->of[i]) + by->largest_mean) * scale + fabs(b);
    /* The quotient of two numbers that are off, then a product of two, then a sum. */
    const double deviation = (check_off(x, i) + by->off_mean) * (double)by->rstd;
    const double z_off = by->off_scale == 0 ? deviation
                         : by->off_scale >= 1
                             ? INFINITY
                             : (deviation + (double)fabsl(z) * by->off_scale) / (1 - by->off_scale);
    const double w_off = weight->of == NULL ? 0 : check_off(weight, c);
    due->spread[i] = (w == 0 ? 0 : fabs(w) * z_off) +
                     (w_off == 0 ? 0 : w_off * ((double)fabsl(z) + z_off)) +
                     (bias->of == NULL ? 0 : check_off(bias, c));
}

bool talc_check_due_batch_norm2d(const check_ran *ran, check_model_due *due)
{
    const talc_batch_norm2d_problem *p = ran->problem;
    const int64_t plane = p->H * p->W;
    for (int64_t c = 0; c < p->C; c++) {
        const channel by =
            p->training ? batch_channel(p, &ran->inputs[0], c) : running_channel(p, ran, c);
        for (int64_t n = 0; n < p->N; n++)
            for (int64_t i = 0; i < plane; i++)
                normalised(ran, (n * p->C + c) * plane + i, c, &by, due);
    }
    /* eps, the root, the quotient, the difference, the product and the sum, in whichever order. Statistics of f32 batches are
     * summed in f64, or in f32 in pairs; of f64 in any order. The roundings of a sum in order are alike where its terms are. */
    const double M = (double)p->N * (double)plane;
    due->K = !p->training ? 6 : p->dtype == TALC_F64 ? M + 6 : 16 + 2 * log2(M);
    for (int64_t i = 0; p->training && p->dtype == TALC_F32 && i < ran->output.count; i++)
        due->extra[i] = (M + 8) * 0x1p-53 * due->S[i];
    due->activation = p->activation;
    return true;
}

// ---- Softmax ------------------------------------------------------------------------------------------------

/* One softmax of n elements, `stride` apart from `first` on. */
static void soften(const check_array *x, bool log, int64_t first, int64_t n, int64_t stride,
                   check_model_due *due)
{
    const double u = talc_check_unit(x->dtype);
    double largest = -INFINITY, off = 0;
    for (int64_t j = 0; j < n; j++) {
        largest = fmax(largest, x->of[first + j * stride]);
        off = fmax(off, check_off(x, first + j * stride));
    }
    long double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += expl((long double)x->of[first + j * stride] - largest);
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = first + j * stride;
        const long double power = (long double)x->of[i] - largest;
        const double roundings = (8 + (double)fabsl(power) + (double)n) * u;
        const long double y = log ? power - logl(sum) : expl(power) / sum;
        due->value[i] = y;
        due->extra[i] = log ? roundings + u * (double)fabsl(y)
                            : roundings * (double)y + (u > 0x1p-30 ? 0x1p-149 : 0x1p-1074);
        due->spread[i] = off == 0 ? 0 : log ? check_off(x, i) + off : (double)y * expm1(2 * off);
    }
}

bool talc_check_due_softmax(const check_ran *ran, check_model_due *due)
{
    const talc_softmax_observed *of = ran->problem;
    const check_array *x = &ran->inputs[0];
    int64_t stride = 1, n = x->dims.rank == 0 ? 1 : x->dims.dim[of->dim];
    for (int i = of->dim + 1; i < x->dims.rank; i++)
        stride *= x->dims.dim[i];
    for (int64_t i = 0; i < x->count / n; i++)
        soften(x, of->log, i / stride * stride * n + i % stride, n, stride, due);
    return true;
}

// ---- Reductions ---------------------------------------------------------------------------------------------

/* The output that element i of x goes into. */
static int64_t reduced_index(const talc_reduce_observed *of, talc_dims dims, int64_t i)
{
    int64_t index = 0, step = 1;
    for (int d = dims.rank - 1; d >= 0; d--) {
        if (!of->reduced[d]) {
            index += i % dims.dim[d] * step;
            step *= dims.dim[d];
        }
        i /= dims.dim[d];
    }
    return index;
}

static void reduce_sum(const check_array *x, const talc_reduce_observed *of, check_model_due *due)
{
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t o = reduced_index(of, x->dims, i);
        due->value[o] += x->of[i];
        due->S[o] += fabs(x->of[i]);
        due->spread[o] += check_off(x, i);
    }
}

/* The elements of one output come in the order in which argmax counts them. For each output: extra is how many there were, S
 * how far the largest may be off. */
static void reduce_max(const check_array *x, const talc_reduce_observed *of, long double *index,
                       check_model_due *due)
{
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t o = reduced_index(of, x->dims, i);
        const bool first = due->extra[o] == 0;
        if (first || (!isnan(due->value[o]) && !((double)due->value[o] >= x->of[i]))) {
            due->value[o] = x->of[i];
            due->S[o] = check_off(x, i);
            index[o] = due->extra[o];
        }
        due->spread[o] = fmax(due->spread[o], check_off(x, i));
        due->extra[o]++;
    }
}

/* Where another element may be the largest in the reference, the index there may be any. */
static void loosen_argmax(const check_array *x, const talc_reduce_observed *of,
                          const long double *index, check_model_due *due)
{
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t o = reduced_index(of, x->dims, i);
        const double off = check_off(x, i);
        if (due->extra[o]++ != (double)index[o] && off + due->S[o] > 0 &&
            x->of[i] + off >= (double)due->value[o] - due->S[o])
            due->spread[o] = INFINITY;
    }
}

static bool reduce_largest(const check_array *x, const talc_reduce_observed *of, int64_t outputs,
                           check_model_due *due)
{
    long double *index =
        talc_memory_new((size_t)outputs * sizeof *index + 1, "check_model: argmax");
    if (index == NULL)
        return false;
    reduce_max(x, of, index, due);
    const bool wants_index = of->function == TALC_ARGMAX;
    for (int64_t o = 0; o < outputs; o++) {
        due->extra[o] = 0;
        due->spread[o] = wants_index ? 0 : due->spread[o];
    }
    if (wants_index)
        loosen_argmax(x, of, index, due);
    for (int64_t o = 0; o < outputs; o++) {
        due->value[o] = wants_index ? index[o] : due->value[o];
        due->S[o] = due->extra[o] = 0;
    }
    talc_memory_free(index);
    return true;
}

bool talc_check_due_reduce(const check_ran *ran, check_model_due *due)
{
    const talc_reduce_observed *of = ran->problem;
    const check_array *x = &ran->inputs[0];
    const int64_t outputs = ran->output.count;
    if (of->function == TALC_MAX || of->function == TALC_ARGMAX)
        return reduce_largest(x, of, outputs, due);
    reduce_sum(x, of, due);
    due->K = outputs == 0 ? 0 : (double)(x->count / outputs);
    for (int64_t o = 0; of->function == TALC_MEAN && o < outputs; o++) {
        due->value[o] /= due->K;
        due->S[o] /= due->K;
        due->spread[o] /= due->K;
        due->extra[o] = talc_check_unit(x->dtype) * (double)fabsl(due->value[o]);
    }
    return true;
}
