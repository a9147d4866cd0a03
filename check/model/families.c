/// Ops that have a family: what the family says is due, and how far that may move.
///
/// Of sums, and of the largest of some numbers, the family says the second too, asked about sizes:
/// with `off` in place of the first operand, and |x| + off beside the off of the other factor.
#include "check/engine/expected.h"

#include "check/engine/activation.h"
#include "check/engine/layout.h"
#include "ops/batch_norm2d.h"
#include "ops/cross_entropy.h"
#include "ops/group_norm.h"
#include "ops/matmul.h"
#include "ops/observed.h"
#include "tensor/memory.h"

#include <math.h>
#include <string.h>

typedef struct op_of_family {
    const char *op;
    const check_direction *direction;
    bool (*expected)(const struct op_of_family *op, const check_ran *ran,
                     check_model_expected *expected);
    int factors; ///< operands that the result is linear in together
} op_of_family;

// ---- Asking -------------------------------------------------------------------------------------

/* The inputs in their places, which are those of the family's operands. */
static check_values values_of(const check_ran *ran)
{
    check_values values = { .of = { NULL } };
    for (int i = 0; i < ran->count; i++)
        values.of[i] = ran->inputs[i].of;
    return values;
}

static bool problem_of_run(const check_direction *direction, const check_ran *ran,
                           check_problem *problem)
{
    memset(problem, 0, sizeof *problem);
    if (!direction->problem_of_run(ran, problem))
        talc_fail(TALC_BAD_SHAPE, "check_model: %s is too large to check", ran->op);
    return !talc_failed();
}

/* The first operand that is written. */
static int result_of(const check_direction *direction, const check_problem *problem)
{
    check_operand list[CHECK_OPERANDS];
    int y = 0;
    talc_check_operands(direction, problem, list);
    while (list[y].role != CHECK_WRITTEN)
        y++;
    return y;
}

/* What is due of each element of the output. */
static bool ask(const op_of_family *op, const check_ran *ran, check_expected *expected)
{
    const check_direction *direction = op->direction;
    check_problem problem;
    if (!problem_of_run(direction, ran, &problem))
        return false;
    const int y = result_of(direction, &problem);
    check_values values = values_of(ran);
    const int64_t groups = direction->groups == NULL ? 0 : direction->groups(&problem);
    check_common *common = talc_memory_new((size_t)groups * sizeof *common + 1, "check_model");
    if (common == NULL)
        return false;
    for (int64_t g = 0; g < groups; g++)
        common[g] = direction->learn(&problem, &values, g);
    values.common = groups > 0 ? common : NULL;
    for (int64_t i = 0; i < ran->output.count; i++)
        expected[i] = direction->expected(&problem, &values, y, i);
    talc_memory_free(common);
    return true;
}

// ---- Sums, and the largest ----------------------------------------------------------------------

static bool moves(const check_array *array)
{
    for (int64_t i = 0; i < array->count; i++)
        if (check_off(array, i) > 0)
            return true;
    return false;
}

/* What an operand is replaced by: how far it is off, its sizes, both together, or nothing. One that
 * picks stays as it is. */
typedef enum part { OFF, SIZE, BOTH, NOTHING } part;

static double part_of(const check_array *array, int64_t i, part which)
{
    const double size = isfinite(array->of[i]) ? fabs(array->of[i]) : 0, off = check_off(array, i);
    return which == OFF ? off : which == SIZE ? size : which == BOTH ? size + off : 0;
}

/* The operand that says which elements of the others count; -1: there is none. */
static int picking_of(const op_of_family *op)
{
    const check_direction *of = op->direction;
    return of == &talc_check_where                                  ? 0
           : of == &talc_check_gather || of == &talc_check_nll_loss ? 1
                                                                    : -1;
}

/* Of the largest of no numbers, which is -infinite, 0. */
static long double size_of(long double value)
{
    return value == -INFINITY ? 0 : fabsl(value);
}

/* Adds what the op gives of parts of its operands, all at least 0 and exact. */
static bool add_spread(const op_of_family *op, const check_ran *ran, part first, part second,
                       part rest, check_model_expected *expected)
{
    enum { INPUTS = 4 };
    check_array inputs[INPUTS] = { { 0 } };
    check_ran sizes = *ran;
    sizes.inputs = inputs;
    check_expected *more =
        talc_memory_new((size_t)ran->output.count * sizeof *more + 1, "check_model");
    bool done = more != NULL;
    for (int k = 0; done && k < ran->count; k++) {
        inputs[k] = ran->inputs[k];
        inputs[k].dtype = TALC_F64;
        if (ran->inputs[k].of == NULL || k == picking_of(op))
            continue;
        const part which = k == 0 ? first : k < op->factors ? second : rest;
        inputs[k].of = talc_memory_new((size_t)inputs[k].count * sizeof(double) + 1, "check_model");
        done = inputs[k].of != NULL;
        for (int64_t i = 0; done && i < inputs[k].count; i++)
            inputs[k].of[i] = part_of(&ran->inputs[k], i, which);
    }
    done = done && ask(op, &sizes, more);
    for (int64_t i = 0; done && i < ran->output.count; i++)
        expected->spread[i] += (double)fmaxl(size_of(more[i].value), 0);
    for (int k = 0; k < ran->count; k++)
        if (inputs[k].of != ran->inputs[k].of)
            talc_memory_free(inputs[k].of);
    talc_memory_free(more);
    return done;
}

static bool linear_spread(const op_of_family *op, const check_ran *ran,
                          check_model_expected *expected)
{
    bool any = false;
    for (int k = 0; k < ran->count; k++)
        any = any || moves(&ran->inputs[k]);
    if (any && !add_spread(op, ran, OFF, SIZE, OFF, expected))
        return false;
    const check_array *factor = &ran->inputs[op->factors - 1];
    return op->factors < 2 || !moves(factor) || add_spread(op, ran, BOTH, OFF, NOTHING, expected);
}

static bool linear_expected(const op_of_family *op, const check_ran *ran,
                            check_model_expected *expected)
{
    return ask(op, ran, expected->element) && linear_spread(op, ran, expected);
}

/* Elements move a product the most where they all grow. */
static bool cumprod_expected(const op_of_family *op, const check_ran *ran,
                             check_model_expected *expected)
{
    if (!ask(op, ran, expected->element))
        return false;
    if (!moves(&ran->inputs[0]))
        return true;
    if (!add_spread(op, ran, BOTH, NOTHING, NOTHING, expected))
        return false;
    for (int64_t i = 0; i < ran->output.count; i++) {
        const double size = (double)fabsl(expected->element[i].value);
        expected->spread[i] = isfinite(size) ? fmax(expected->spread[i] - size, 0) : 0;
    }
    return true;
}

/* A smallest element moves no further than the elements do, nor does the logarithm of a sum of
 * exponentials. */
static bool as_max_expected(const op_of_family *op, const check_ran *ran,
                            check_model_expected *expected)
{
    talc_reduce_observed max = *(const talc_reduce_observed *)ran->problem;
    max.function = TALC_MAX;
    check_ran as_max = *ran;
    as_max.problem = &max;
    return ask(op, ran, expected->element) && linear_spread(op, &as_max, expected);
}

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

/* Where another element may be the largest in the reference, the index there may be any: with all
 * others as large as they may be and the largest as small, it is another. The smallest the other
 * way round. The elements of one output come in the order in which argmax counts them. */
static bool argmax_expected(const op_of_family *op, const check_ran *ran,
                            check_model_expected *expected)
{
    const check_array *x = &ran->inputs[0];
    const bool min = ((const talc_reduce_observed *)ran->problem)->function == TALC_ARGMIN;
    check_array rivals = *x;
    check_ran other = *ran;
    other.inputs = &rivals;
    const size_t outputs = (size_t)ran->output.count + 1;
    int64_t *seen = talc_memory_new(outputs * sizeof *seen, "check_model");
    check_expected *theirs = talc_memory_new(outputs * sizeof *theirs, "check_model");
    rivals.of = talc_memory_new((size_t)x->count * sizeof(double) + 1, "check_model");
    bool done =
        seen != NULL && theirs != NULL && rivals.of != NULL && ask(op, ran, expected->element);
    for (int64_t i = 0; done && i < x->count; i++) {
        const int64_t o = reduced_index(ran->problem, x->dims, i);
        const bool named = seen[o]++ == (int64_t)expected->element[o].value;
        rivals.of[i] = x->of[i] + (named == min ? check_off(x, i) : -check_off(x, i));
    }
    done = done && ask(op, &other, theirs);
    for (int64_t o = 0; done && o < ran->output.count; o++)
        expected->spread[o] = theirs[o].value == expected->element[o].value ? 0 : INFINITY;
    talc_memory_free(seen);
    talc_memory_free(theirs);
    talc_memory_free(rivals.of);
    return done;
}

/* Elements that move by d change the squares around their mean by sum 2 (x - mean) d, and sum d^2
 * at most. */
static bool var_expected(const op_of_family *op, const check_ran *ran,
                         check_model_expected *expected)
{
    const check_array *x = &ran->inputs[0];
    const talc_reduce_observed *of = ran->problem;
    const double K = (double)(ran->output.count == 0 ? 0 : x->count / ran->output.count);
    double *mean = talc_memory_new((size_t)ran->output.count * sizeof *mean + 1, "check_model");
    const bool done = mean != NULL && ask(op, ran, expected->element);
    for (int64_t i = 0; done && i < x->count; i++)
        mean[reduced_index(of, x->dims, i)] += x->of[i] / K;
    for (int64_t i = 0; done && i < x->count; i++) {
        const int64_t o = reduced_index(of, x->dims, i);
        const double off = check_off(x, i), left = fmax(K - of->correction, 0);
        expected->spread[o] += (2 * fabs(x->of[i] - mean[o]) + off) * off / left;
    }
    talc_memory_free(mean);
    return done;
}

// ---- Elements that another operand picks --------------------------------------------------------

/* The element of the picking operand that output i reads. */
static int64_t picking_at(const op_of_family *op, const check_ran *ran, int64_t i)
{
    const check_array *by = &ran->inputs[picking_of(op)];
    const talc_dims *dims = &ran->output.dims;
    if (op->direction == &talc_check_where)
        return talc_check_stretched(by->dims.rank, by->dims.dim, *dims, i);
    if (strcmp(ran->op, "index_select") != 0)
        return i;
    const int dim = ((const talc_gather_observed *)ran->problem)->dim;
    for (int d = dims->rank - 1; d > dim; d--)
        i /= dims->dim[d];
    return i % by->count;
}

/* Where another element may be picked, any may. */
static bool picked_expected(const op_of_family *op, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!linear_expected(op, ran, expected))
        return false;
    for (int64_t i = 0; i < ran->output.count; i++)
        if (check_off(&ran->inputs[picking_of(op)], picking_at(op, ran, i)) > 0)
            expected->spread[i] = INFINITY;
    return true;
}

// ---- Products of matrices -----------------------------------------------------------------------

/* Matrix `batch` of the result, whose leading dimensions are `dims`, is made with this one of the
 * operand. */
static check_array matrix_of(const check_array *operand, talc_dims dims, int64_t batch,
                             int64_t rows, int64_t columns)
{
    const int leading = operand->dims.rank < 2 ? 0 : operand->dims.rank - 2;
    const int64_t count = rows * columns,
                  at = talc_check_stretched(leading, operand->dims.dim, dims, batch) * count;
    return (check_array){ operand->dtype, TALC_DIMS(rows, columns), count, operand->of + at,
                          operand->off == NULL ? NULL : operand->off + at };
}

/* One product at a time, as the family knows no batch of which an operand repeats a part. */
static bool matmul_expected(const op_of_family *op, const check_ran *ran,
                            check_model_expected *expected)
{
    const check_array *a = &ran->inputs[0], *b = &ran->inputs[1];
    const int ra = a->dims.rank, rb = b->dims.rank;
    const int64_t M = ra < 2 ? 1 : a->dims.dim[ra - 2], K = a->dims.dim[ra - 1];
    const int64_t N = rb < 2 ? 1 : b->dims.dim[rb - 1];
    talc_dims batch =
        ran->output.dims; /* less the dimensions of the matrices, of which a vector has one fewer */
    batch.rank -= (ra > 1) + (rb > 1);
    bool done = true;
    for (int64_t i = 0; done && i < ran->output.count; i += M * N) {
        check_array inputs[] = { matrix_of(a, batch, i / (M * N), M, K),
                                 matrix_of(b, batch, i / (M * N), K, N) };
        const check_ran one = { .op = ran->op,
                                .problem = ran->problem,
                                .count = 2,
                                .inputs = inputs,
                                .output = { .dtype = ran->output.dtype, .count = M * N } };
        check_model_expected expected_of_one = { expected->element + i, expected->spread + i,
                                                 expected->activation };
        done = linear_expected(op, &one, &expected_of_one);
    }
    return done;
}

// ---- Softmax and cross entropy ------------------------------------------------------------------

/* The largest off of n elements, `step` apart from `first` on; their sum into *sum. */
static double largest_off(const check_array *x, int64_t first, int64_t n, int64_t step, double *sum)
{
    double largest = 0;
    *sum = 0;
    for (int64_t j = 0; j < n; j++) {
        largest = fmax(largest, check_off(x, first + j * step));
        *sum += check_off(x, first + j * step);
    }
    return largest;
}

static bool softmax_expected(const op_of_family *op, const check_ran *ran,
                             check_model_expected *expected)
{
    if (!ask(op, ran, expected->element))
        return false;
    const talc_softmax_observed *of = ran->problem;
    const check_array *x = &ran->inputs[0];
    int64_t step = 1, n = x->dims.rank == 0 ? 1 : x->dims.dim[of->dim];
    for (int i = of->dim + 1; i < x->dims.rank; i++)
        step *= x->dims.dim[i];
    for (int64_t row = 0; row < x->count / n; row++) {
        double sum;
        const int64_t first = row / step * step * n + row % step;
        const double off = largest_off(x, first, n, step, &sum);
        for (int64_t i = first; i < first + n * step; i += step)
            expected->spread[i] = off == 0  ? 0
                                  : of->log ? check_off(x, i) + off
                                            : (double)expected->element[i].value * expm1(2 * off);
    }
    return true;
}

static bool cross_entropy_expected(const op_of_family *op, const check_ran *ran,
                                   check_model_expected *expected)
{
    if (!ask(op, ran, expected->element))
        return false;
    const talc_cross_entropy_problem *p = ran->problem;
    const check_array *x = &ran->inputs[0], *labels = &ran->inputs[1];
    const check_array *weights = p->weighted ? &ran->inputs[2] : NULL;
    const double e = p->label_smoothing;
    double count = 0, heaviest = 1; /* of the classes */
    int64_t plane = 1;
    for (int64_t j = 0; weights != NULL && j < p->C; j++) {
        heaviest = fmax(heaviest, fabs(weights->of[j]));
        if (check_off(weights, j) > 0) /* weights are given, not worked out */
            heaviest = INFINITY;
    }
    for (int d = 2; d < x->dims.rank; d++)
        plane *= x->dims.dim[d];
    for (int64_t i = 0; i < labels->count; i++) {
        double *to = &expected->spread[p->reduction == TALC_REDUCTION_NONE ? i : 0], sum;
        const int64_t label = (int64_t)labels->of[i];
        if (check_off(labels, i) > 0) /* another label may have any other loss */
            *to = INFINITY;
        if (label == p->ignore_index || label < 0 || label >= p->C)
            continue;
        const int64_t first = i / plane * p->C * plane + i % plane;
        const double off = largest_off(x, first, p->C, plane, &sum);
        const double moved =
            off + (1 - e) * check_off(x, first + label * plane) + e * sum / (double)p->C;
        *to += moved == 0 ? 0 : heaviest * moved;
        count += weights == NULL ? 1 : weights->of[label];
    }
    if (p->reduction == TALC_REDUCTION_MEAN)
        expected->spread[0] = count == 0 ? 0 : expected->spread[0] / count;
    return true;
}

// ---- All ops ------------------------------------------------------------------------------------

static bool batch_norm_expected(const op_of_family *op, const check_ran *ran,
                                check_model_expected *expected)
{
    check_problem problem;
    if (!problem_of_run(op->direction, ran, &problem) || !ask(op, ran, expected->element))
        return false;
    const check_values values = values_of(ran);
    talc_check_batch_norm2d_spread(ran, &problem, &values, expected->spread);
    expected->activation = ((const talc_batch_norm2d_problem *)ran->problem)->activation;
    return true;
}

static bool group_norm_expected(const op_of_family *op, const check_ran *ran,
                                check_model_expected *expected)
{
    if (!ask(op, ran, expected->element))
        return false;
    talc_check_group_norm_spread(ran, expected->spread);
    expected->activation = ((const talc_group_norm_problem *)ran->problem)->activation;
    return true;
}

static bool conv2d_expected(const op_of_family *op, const check_ran *ran,
                            check_model_expected *expected)
{
    expected->activation = ((const talc_conv2d_problem *)ran->problem)->activation;
    return linear_expected(op, ran, expected);
}

/* The value of the padding moves nowhere. */
static bool resample_expected(const op_of_family *op, const check_ran *ran,
                              check_model_expected *expected)
{
    if (!linear_expected(op, ran, expected))
        return false;
    for (int64_t i = 0; i < ran->output.count; i++)
        expected->spread[i] = expected->element[i].border ? 0 : expected->spread[i];
    return true;
}

static bool product_expected(const op_of_family *op, const check_ran *ran,
                             check_model_expected *expected)
{
    expected->activation = ((const talc_matmul_problem *)ran->problem)->activation;
    return linear_expected(op, ran, expected);
}

static const op_of_family ops[] = {
    { "conv2d", &talc_check_conv2d, conv2d_expected, 2 },
    { "linear", &talc_check_matmul, product_expected, 2 },
    { "matmul", &talc_check_matmul, matmul_expected, 2 },
    { "max_pool2d", &talc_check_pool2d, linear_expected, 1 },
    { "avg_pool2d", &talc_check_pool2d, linear_expected, 1 },
    { "adaptive_avg_pool2d", &talc_check_pool2d, linear_expected, 1 },
    { "adaptive_max_pool2d", &talc_check_pool2d, linear_expected, 1 },
    { "batch_norm2d", &talc_check_batch_norm2d, batch_norm_expected, 0 },
    { "group_norm", &talc_check_group_norm, group_norm_expected, 0 },
    { "pad", &talc_check_resample, resample_expected, 1 },
    { "upsample2d", &talc_check_resample, resample_expected, 1 },
    { "sum", &talc_check_reduce, linear_expected, 1 },
    { "mean", &talc_check_reduce, linear_expected, 1 },
    { "max", &talc_check_reduce, linear_expected, 1 },
    { "argmax", &talc_check_reduce, argmax_expected, 0 },
    { "min", &talc_check_reduce, as_max_expected, 1 },
    { "argmin", &talc_check_reduce, argmax_expected, 0 },
    { "var", &talc_check_reduce, var_expected, 0 },
    { "logsumexp", &talc_check_reduce, as_max_expected, 1 },
    { "cumsum", &talc_check_cumsum, linear_expected, 1 },
    { "cumprod", &talc_check_cumprod, cumprod_expected, 1 },
    { "softmax", &talc_check_softmax, softmax_expected, 0 },
    { "log_softmax", &talc_check_softmax, softmax_expected, 0 },
    { "cross_entropy", &talc_check_cross_entropy, cross_entropy_expected, 0 },
    { "gather", &talc_check_gather, picked_expected, 1 },
    { "index_select", &talc_check_gather, picked_expected, 1 },
    { "where", &talc_check_where, picked_expected, 1 },
    { "nll_loss", &talc_check_nll_loss, picked_expected, 3 },
};

bool talc_check_expected_of_family(const check_ran *ran, check_model_expected *expected,
                                   bool *known)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].op, ran->op) == 0) {
            *known = true;
            return ops[i].expected(&ops[i], ran, expected);
        }
    return true;
}
