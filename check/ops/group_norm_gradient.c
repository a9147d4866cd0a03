/// The gradients of group norm: "group_norm:n8c16l49g4_dx". Words: plain: without
/// weight.
///
///     dbias = sum dy,    dweight = sum dy x^,    x^ = (x - mean) rstd,    g = dy weight
///     dx = rstd (g - (sum g + x^ sum g x^) / M)
///
/// The algorithm runs its forward pass first, and the gradient reads the mean and rstd of that:
/// what is expected follows from x alone. Errors are those of batch_norm2d_gradient.c in training,
/// a row being a channel there; the sums of dweight and dbias are over all samples.
#include "check/ops/group_norm.h"

#include "check/ops/batch_norm2d.h"
#include "check/engine/data.h"
#include "ops/backend.h"

#include <math.h>

static const char *const op_names[] = { "group_norm.grad_input", NULL };

enum { X, WEIGHT, DY, DX, DWEIGHT, DBIAS, MEAN, RSTD };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const group_problem *self = read_group(problem);
    const talc_group_norm_problem *p = &self->p;
    const talc_dims image = TALC_DIMS(p->N, p->C, p->plane), channels = TALC_DIMS(p->C),
                    rows = TALC_DIMS(p->plane == 0 || p->C == 0 ? 0 : p->N * p->groups);
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, image);
    if (!self->plain)
        list[WEIGHT] = talc_check_operand("weight", CHECK_READ, p->dtype, channels);
    list[DY] = talc_check_operand("dy", CHECK_READ, p->dtype, image);
    list[DX] = talc_check_operand("dx", CHECK_WRITTEN, p->dtype, image);
    list[DWEIGHT] = talc_check_operand("dweight", CHECK_WRITTEN, p->dtype, channels);
    list[DBIAS] = talc_check_operand("dbias", CHECK_WRITTEN, p->dtype, channels);
    list[MEAN] = talc_check_operand("mean", CHECK_WRITTEN, TALC_F64, rows);
    list[RSTD] = talc_check_operand("rstd", CHECK_WRITTEN, TALC_F64, rows);
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const group_problem *self = read_group(problem);
    const talc_group_norm_problem *p = &self->p;
    const int64_t count = p->N * p->C * p->plane;
    const bool far = kind == TALC_CHECK_WIDE,
               odd = kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    double *x = values->of[X];
    talc_check_fill(x, count, p->dtype, far ? TALC_CHECK_RANDOM : kind, 1, 1, seed);
    for (int64_t i = 0; far && i < count; i++)
        x[i] = talc_check_far(p->dtype, i / row_values(p), x[i]);
    talc_check_fill(values->of[DY], count, p->dtype, odd ? TALC_CHECK_RANDOM : kind, 1,
                    far ? CHECK_SLIGHT_DY : 1, talc_check_bits(seed, 1));
    if (!self->plain)
        talc_check_fill(values->of[WEIGHT], p->C, p->dtype, TALC_CHECK_RANDOM, 8,
                        far ? CHECK_SLIGHT_WEIGHT : 1, talc_check_bits(seed, 2));
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Groups of elements that have something in common: the rows. A channel's sums are of many. */
static int64_t groups(const check_problem *problem)
{
    return read_group(problem)->p.N * read_group(problem)->p.groups;
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    return operand == DX                            ? index / row_values(p)
           : operand == DWEIGHT || operand == DBIAS ? index / (p->C / p->groups)
                                                    : index;
}

static double weight_of(const talc_group_norm_problem *p, const check_values *values, int64_t index)
{
    return values->of[WEIGHT] == NULL ? 1 : values->of[WEIGHT][index / p->plane % p->C];
}

static check_common learn(const check_problem *problem, const check_values *values, int64_t row)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    const int64_t M = row_values(p);
    const check_problem rows = talc_check_group_rows(problem);
    check_common all = talc_check_batch_norm2d.learn(&rows, values, row);
    const check_normaliser by = talc_check_normaliser_of(p->dtype, (double)M, p->eps, &all);
    for (int64_t i = row * M; i < (row + 1) * M; i++) {
        const long double g = (long double)values->of[DY][i] * weight_of(p, values, i),
                          x = (values->of[X][i] - by.mean) * by.rstd;
        all.of[CHECK_NORM_G] += g;
        all.of[CHECK_NORM_PRODUCT] += g * x;
        all.of[CHECK_NORM_A] += fabsl(g);
        all.of[CHECK_NORM_B] += fabsl(g * x);
    }
    return all;
}

/* The row's; of a sample of the elements not all are known. */
static check_common common_of(const check_problem *problem, const check_values *values, int64_t row)
{
    const bool known = values->common != NULL && values->common[row].of[CHECK_NORM_SIZES] != 0;
    return known ? values->common[row] : learn(problem, values, row);
}

static check_expected dx_expected(const check_problem *problem, const check_values *values,
                                  int64_t index)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    const double M = (double)row_values(p);
    const check_common all = common_of(problem, values, group_of(problem, DX, index));
    const check_normaliser by = talc_check_normaliser_of(p->dtype, M, p->eps, &all);
    const long double g = (long double)values->of[DY][index] * weight_of(p, values, index),
                      x = (values->of[X][index] - by.mean) * by.rstd;
    check_expected expected =
        talc_check_norm_dx(p->dtype, &by, &all, by.rstd, g, values->of[X][index]);
    expected.extra +=
        (double)(by.rstd * (all.of[CHECK_NORM_A] + fabsl(x) * all.of[CHECK_NORM_B]) / M) * (M + 8) *
        0x1p-53;
    if (!isfinite(expected.value))
        expected.S = expected.extra = 0;
    return expected;
}

/* dweight or dbias of a channel. */
static check_expected sum_expected(const check_problem *problem, const check_values *values,
                                   bool bias, int64_t c)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    const double terms = (double)p->N * (double)p->plane, M = (double)row_values(p);
    const bool narrow = talc_check_is_narrow(p->dtype);
    long double sizes = 0, off = 0;
    check_expected expected = { .K = narrow ? 6 : terms + 6 };
    for (int64_t n = 0; n < p->N; n++) {
        const int64_t row = n * p->groups + c / (p->C / p->groups);
        const check_common all = common_of(problem, values, row);
        const check_normaliser by = talc_check_normaliser_of(p->dtype, M, p->eps, &all);
        for (int64_t i = (n * p->C + c) * p->plane; i < (n * p->C + c + 1) * p->plane; i++) {
            const long double dy = values->of[DY][i], x = (values->of[X][i] - by.mean) * by.rstd;
            expected.value += bias ? dy : dy * x;
            sizes += fabsl(bias ? dy : dy * x);
            off += bias ? 0 : fabsl(dy) * talc_check_normalised_off(&by, x);
        }
        expected.any |= by.any && !bias;
    }
    if (isfinite(expected.value)) {
        expected.S = (double)(narrow ? fabsl(expected.value) : sizes);
        expected.extra = (double)(off + (narrow ? (terms + 8) * 0x1p-53L * sizes : 0));
    }
    return expected;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    enum { FORWARD_MEAN = 8, FORWARD_RSTD };
    if (operand == DX)
        return dx_expected(problem, values, index);
    if (operand == DWEIGHT || operand == DBIAS)
        return sum_expected(problem, values, operand == DBIAS, index);
    const check_problem rows = talc_check_group_rows(problem);
    return talc_check_batch_norm2d.expected(&rows, values,
                                            operand == MEAN ? FORWARD_MEAN : FORWARD_RSTD, index);
}

// ---- The direction ------------------------------------------------------------------------------

/* The forward pass, whose result dx then takes the place of. */
static bool first(const check_problem *problem, check_problem *forward, void *arguments)
{
    *forward = *problem;
    write_group(forward)->p.direction = TALC_FORWARD;
    talc_group_norm_arguments *a = arguments;
    if (a != NULL) {
        a->y = a->dx;
        a->dx = a->dweight = a->dbias = NULL;
    }
    return true;
}

#define POINTER(name) offsetof(talc_group_norm_arguments, name)

const check_direction talc_check_group_norm_gradient = {
    .family = &talc_check_group_family,
    .of = TALC_GRAD_INPUT,
    .ops = op_names,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = fill,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .cost = 8, /* each element of x is part of two sums of its row and of two of its channel */
    .first = first,
    .list = TALC_OP_group_norm,
    .arguments = { POINTER(x), POINTER(weight), POINTER(dy), POINTER(dx), POINTER(dweight),
                   POINTER(dbias), POINTER(mean), POINTER(rstd) },
};
