/// The input gradient of cross entropy: "cross_entropy:8x10_smooth_weighted_dx". dx is
/// stored like x.
///
///     dx_j = dl (A p_j - (1 - e) w_t [j = t] - e w_j / C),
///     p = softmax(x),    A = (1 - e) w_t + e mean w,
///     dl = dy, or dy / sum of w_t over the samples that count, for the mean
///
/// Errors, with u of the data's type, d_j = |x_j - max|, and D the mean of d under p: as in the
/// forward direction each exponential may be (4 + d_j) u of itself off, so that their sum is (4 +
/// D) u, and no term of a sum goes through more than 2 sqrt(C) additions. Each of the three terms
/// has a handful of roundings more, K = 6, and p_j 4 for f32 data, whose factors are worked out in
/// f64, or 12. A sum of class weights is 2 (sqrt(n) + 1) u of itself off. There are no exact data.
#include "check/ops/cross_entropy.h"

#include "check/engine/data.h"
#include "check/engine/exponentials.h"
#include "ops/backend.h"

#include <math.h>

static const char *const op_names[] = { "cross_entropy.grad_input", NULL };

enum { X, LABELS, WEIGHTS, DY, DX };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_entropy_problem *self = read_only(problem);
    const check_layout y = talc_check_entropy_y(self);
    talc_check_entropy_operands(problem, list);
    list[DY] = talc_check_stored(&y, "dy", CHECK_READ);
    list[DX] = talc_check_stored(&self->x, "dx", CHECK_WRITTEN);
}

// ---- Data ---------------------------------------------------------------------------------------

static int64_t losses(const check_entropy_problem *self)
{
    return self->p.reduction == TALC_REDUCTION_NONE ? self->labels.count : 1;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const check_entropy_problem *self = read_only(problem);
    const bool odd = kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    talc_check_entropy_fill(problem, kind, seed, values);
    talc_check_fill(values->of[DY], losses(self), self->x.dtype, odd ? TALC_CHECK_RANDOM : kind, 8,
                    1, talc_check_bits(seed, 3));
}

/* After a NaN in x: in dy, a label that is no class, and a NaN in the weights; after an infinity in
 * x: in dy, and a negative one in x. */
static bool inject(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                   const check_values *values)
{
    const check_entropy_problem *self = read_only(problem);
    const bool is_nan = kind == TALC_CHECK_NAN;
    const int rounds = is_nan ? 2 + self->p.weighted : kind == TALC_CHECK_INFINITY ? 2 : 0;
    const uint64_t bits = talc_check_bits(seed, 9);
    if (round >= rounds || self->x.count == 0)
        return false;
    for (int64_t i = 0; i < self->x.count; i++)
        if (!isfinite(values->of[X][i]))
            values->of[X][i] = 1;
    if (round == 0)
        values->of[DY][bits % (uint64_t)losses(self)] = is_nan ? (double)NAN : (double)INFINITY;
    else if (!is_nan)
        values->of[X][bits % (uint64_t)self->x.count] = -(double)INFINITY;
    else if (round == 1)
        values->of[LABELS][bits % (uint64_t)self->labels.count] =
            bits >> 32 & 1 ? (double)self->p.C : -1;
    else
        values->of[WEIGHTS][bits % (uint64_t)self->p.C] = NAN;
    return true;
}

// ---- What elements have in common ---------------------------------------------------------------

/* A group a sample, and a last one for all. */
static int64_t groups(const check_problem *problem)
{
    return read_only(problem)->labels.count + 1;
}

/* The class of an element, and the number of its sample. */
static int64_t element_of(const check_entropy_problem *self, int64_t index, int64_t *sample)
{
    int64_t where[TALC_MAX_RANK];
    *sample = 0;
    for (int d = 0; d < self->x.rank; d++) {
        where[d] = index / self->x.strides[d] % self->x.dims[d];
        if (d != talc_check_class_dim(self->x.rank))
            *sample = *sample * self->x.dims[d] + where[d];
    }
    return where[talc_check_class_dim(self->x.rank)];
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    int64_t sample;
    (void)operand;
    (void)element_of(read_only(problem), index, &sample);
    return sample;
}

static bool is_class(const check_entropy_problem *self, int64_t label)
{
    return label >= 0 && label < self->p.C;
}

static double weight_of(const check_entropy_problem *self, const check_values *values, int64_t j)
{
    return self->p.weighted ? values->of[WEIGHTS][j] : 1;
}

enum { LEARNT_MAX, LEARNT_SUM, LEARNT_D };   /* of a sample */
enum { LEARNT_DIVISOR, LEARNT_MEAN_WEIGHT }; /* of all */

static check_common learn_all(const check_entropy_problem *self, const check_values *values)
{
    check_common all = { .of = { 0 } };
    for (int64_t i = 0; i < self->labels.count; i++) {
        const int64_t label = (int64_t)values->of[LABELS][i];
        if (label != self->p.ignore_index)
            all.of[LEARNT_DIVISOR] += is_class(self, label) ? weight_of(self, values, label) : NAN;
    }
    if (self->p.reduction != TALC_REDUCTION_MEAN)
        all.of[LEARNT_DIVISOR] = 1;
    for (int64_t j = 0; j < self->p.C; j++)
        all.of[LEARNT_MEAN_WEIGHT] += (long double)weight_of(self, values, j) / self->p.C;
    return all;
}

static check_common learn(const check_problem *problem, const check_values *values, int64_t group)
{
    const check_entropy_problem *self = read_only(problem);
    if (group == self->labels.count)
        return learn_all(self, values);
    const double *x = values->of[X] + talc_check_part_offset(&self->outer, group);
    const check_exponentials row =
        talc_check_exponentials(self->p.dtype, x, self->p.x_stride, self->p.C);
    long double moved = 0;
    for (int64_t j = 0; j < self->p.C; j++) {
        const long double difference = x[j * self->p.x_stride] - row.max;
        const long double e = talc_check_exponential(self->p.dtype, difference);
        moved += e == 0 ? 0 : e * fabsl(difference);
    }
    return (check_common){
        .of = { [LEARNT_MAX] = row.max, [LEARNT_SUM] = row.sum, [LEARNT_D] = moved / row.sum }
    };
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Of class j of a sample whose label t is a class. */
static check_expected class_expected(const check_entropy_problem *self, const check_values *values,
                                     const check_common *sample, const check_common *all, int64_t j,
                                     int64_t t, double x, double dy)
{
    const talc_cross_entropy_problem *p = &self->p;
    const double u = talc_check_format(p->dtype).unit, root = 2 * sqrt((double)p->C);
    const long double e = p->label_smoothing, w = weight_of(self, values, t);
    const long double dl = dy / all->of[LEARNT_DIVISOR];
    const long double A = (1 - e) * w + (e > 0 ? e * all->of[LEARNT_MEAN_WEIGHT] : 0);
    const long double difference = x - sample->of[LEARNT_MAX];
    const long double of_softmax =
        dl * A * talc_check_exponential(p->dtype, difference) / sample->of[LEARNT_SUM];
    const long double of_label = j == t ? dl * (1 - e) * w : 0;
    const long double even = e > 0 ? dl * e * weight_of(self, values, j) / p->C : 0;
    check_expected expected = { .value = of_softmax - of_label - even, .K = 6 };
    if (!isfinite(expected.value))
        return expected;
    expected.S = (double)(fabsl(of_softmax) + fabsl(of_label) + fabsl(even));
    const double off = (talc_check_is_narrow(p->dtype) ? 4 : 12) + (double)sample->of[LEARNT_D] +
                       root * (p->weighted && e > 0 ? 2 : 1);
    if (of_softmax != 0)
        expected.extra = (double)fabsl(of_softmax) * (off + (double)fabsl(difference)) * u;
    if (p->weighted && p->reduction == TALC_REDUCTION_MEAN)
        expected.extra += 2 * (sqrt((double)self->labels.count) + 1) * u * expected.S;
    if (p->C == 1) { /* the terms cancel, whatever they are */
        expected.value = 0;
        expected.extra += 8 * (u * expected.S + talc_check_format(p->dtype).smallest);
        expected.S = 0;
    }
    return expected;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const check_entropy_problem *self = read_only(problem);
    int64_t i;
    const int64_t j = element_of(self, index, &i), label = (int64_t)values->of[LABELS][i];
    if (label == self->p.ignore_index)
        return (check_expected){ .value = 0 };
    if (!is_class(self, label))
        return (check_expected){ .value = NAN };
    const check_common *known = values->common;
    const check_common sample = known != NULL ? known[i] : learn(problem, values, i),
                       all = known != NULL ? known[self->labels.count] : learn_all(self, values);
    const double dy = values->of[DY][self->p.reduction == TALC_REDUCTION_NONE ? i : 0];
    return class_expected(self, values, &sample, &all, j, label, values->of[X][index], dy);
}

// ---- The direction ------------------------------------------------------------------------------

#define POINTER(name) offsetof(talc_cross_entropy_arguments, name)

const check_direction talc_check_cross_entropy_gradient = {
    .family = &talc_check_entropy_family,
    .of = TALC_GRAD_INPUT,
    .ops = op_names,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = fill,
    .inject = inject,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .cost = 60, /* three exponentials, two of them in what its sample has in common */
    .list = TALC_OP_cross_entropy,
    .arguments = { POINTER(x), POINTER(labels), POINTER(class_weights), POINTER(dy), POINTER(dx) },
    .is_empty = talc_check_entropy_is_empty,
};
