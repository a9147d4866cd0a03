/// How far a result of batch norm, or of group norm, may move.
#include "check/engine/expected.h"
#include "ops/batch_norm2d.h"
#include "ops/group_norm.h"

#include <math.h>

/* How far what one channel is normalised by may be off. */
typedef struct channel {
    long double mean, rstd;
    double off_mean;
    double off_scale; /* of sqrt(var + eps), over itself; at least 1: it may be anything */
} channel;

/* By its running statistics. sqrt(var + eps) is off by at most off(var) / (2 sqrt(var + eps -
 * off)). */
static void running_channel(const check_ran *ran, int64_t c, channel *of)
{
    const double off = check_off(&ran->inputs[4], c);
    const double power = (double)(1 / (of->rstd * of->rstd)), left = power - off;
    of->off_mean = check_off(&ran->inputs[3], c);
    of->off_scale = off == 0 ? 0 : left <= 0 ? 1 : off / (2 * sqrt(left) * sqrt(power));
}

/* By the batch. A deviation x - mean is off by no more than off(x) and the mean of all off;
 * sqrt(var + eps) is a norm, so it is off by no more than the norm of what the deviations are
 * off. */
static void batch_channel(const talc_batch_norm2d_problem *p, const check_array *x, int64_t c,
                          channel *of)
{
    const int64_t plane = p->H * p->W, M = p->N * plane;
    for (int64_t i = 0; i < M; i++)
        of->off_mean += check_off(x, (i / plane * p->C + c) * plane + i % plane) / (double)M;
    double off = 0;
    for (int64_t i = 0; i < M; i++) {
        const double moved =
            check_off(x, (i / plane * p->C + c) * plane + i % plane) + of->off_mean;
        off += moved * moved / (double)M;
    }
    of->off_scale = off == 0 ? 0 : sqrt(off) * (double)of->rstd;
}

/* The quotient of two numbers that are off, then a product of two, then sums. */
static double normalised_spread(const check_ran *ran, int64_t i, int64_t c, const channel *by)
{
    const check_array *x = &ran->inputs[0], *weight = &ran->inputs[1], *bias = &ran->inputs[2],
                      *residual = &ran->inputs[5];
    const double w = weight->of == NULL ? 1 : weight->of[c];
    const double z = (double)fabsl((x->of[i] - by->mean) * by->rstd);
    const double deviation = (check_off(x, i) + by->off_mean) * (double)by->rstd;
    const double z_off = by->off_scale == 0 ? deviation
                         : by->off_scale >= 1
                             ? INFINITY
                             : (deviation + z * by->off_scale) / (1 - by->off_scale);
    const double w_off = weight->of == NULL ? 0 : check_off(weight, c);
    return (w == 0 ? 0 : fabs(w) * z_off) + (w_off == 0 ? 0 : w_off * (z + z_off)) +
           (bias->of == NULL ? 0 : check_off(bias, c)) +
           (residual->of == NULL ? 0 : check_off(residual, i));
}

void talc_check_batch_norm2d_spread(const check_ran *ran, const check_problem *problem,
                                    const check_values *values, double *spread)
{
    const talc_batch_norm2d_problem *p = ran->problem;
    const int64_t plane = p->H * p->W;
    for (int64_t c = 0; c < p->C; c++) {
        channel by = { 0 };
        long double var;
        talc_check_batch_norm2d_moments(problem, values, c, &by.mean, &var);
        by.rstd = 1 / sqrtl(var + p->eps);
        if (p->training)
            batch_channel(p, &ran->inputs[0], c, &by);
        else
            running_channel(ran, c, &by);
        for (int64_t i = 0; i < p->N * plane; i++) {
            const int64_t at = (i / plane * p->C + c) * plane + i % plane;
            spread[at] = normalised_spread(ran, at, c, &by);
        }
    }
}

/* Groups are the channels of one image in training. */
void talc_check_group_norm_spread(const check_ran *ran, double *spread)
{
    const talc_group_norm_problem *p = ran->problem;
    const check_array *x = &ran->inputs[0];
    check_array inputs[6] = { *x, ran->inputs[1], ran->inputs[2] };
    const check_ran as_batch_norm = { .inputs = inputs };
    const int64_t M = p->C / p->groups * p->plane;
    const talc_batch_norm2d_problem rows = { .N = 1, .C = p->N * p->groups, .H = M, .W = 1 };
    for (int64_t r = 0; r < rows.C; r++) {
        channel by = { 0 };
        long double var = 0;
        for (int64_t i = r * M; i < (r + 1) * M; i++)
            by.mean += x->of[i] / (long double)M;
        for (int64_t i = r * M; i < (r + 1) * M; i++)
            var += (x->of[i] - by.mean) * (x->of[i] - by.mean) / (long double)M;
        by.rstd = 1 / sqrtl(var + p->eps);
        batch_channel(&rows, x, r, &by);
        for (int64_t i = r * M; i < (r + 1) * M; i++)
            spread[i] = normalised_spread(&as_batch_norm, i, i / p->plane % p->C, &by);
    }
}
