/// What reductions must be in models.
#include "check/ops/reduce.h"

#include "ops/observed.h"
#include "tensor/memory.h"

#include <math.h>

/* A smallest element moves no further than the elements do, nor does the logarithm of a sum of
 * exponentials. */
static bool as_max_expected(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    talc_reduce_observed max = *(const talc_reduce_observed *)ran->problem;
    max.function = TALC_MAX;
    check_ran as_max = *ran;
    as_max.problem = &max;
    return talc_check_elements_of_run(direction, ran, expected->element) &&
           talc_check_linear_spread(direction, &as_max, expected);
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
static bool argmax_expected(const check_direction *direction, const check_ran *ran,
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
    bool done = seen != NULL && theirs != NULL && rivals.of != NULL &&
                talc_check_elements_of_run(direction, ran, expected->element);
    for (int64_t i = 0; done && i < x->count; i++) {
        const int64_t o = reduced_index(ran->problem, x->dims, i);
        const bool named = seen[o]++ == (int64_t)expected->element[o].value;
        rivals.of[i] = x->of[i] + (named == min ? check_off(x, i) : -check_off(x, i));
    }
    done = done && talc_check_elements_of_run(direction, &other, theirs);
    for (int64_t o = 0; done && o < ran->output.count; o++)
        expected->spread[o] = theirs[o].value == expected->element[o].value ? 0 : INFINITY;
    talc_memory_free(seen);
    talc_memory_free(theirs);
    talc_memory_free(rivals.of);
    return done;
}

/* Elements that move by d change the squares around their mean by sum 2 (x - mean) d, and sum d^2
 * at most. */
static bool var_expected(const check_direction *direction, const check_ran *ran,
                         check_model_expected *expected)
{
    const check_array *x = &ran->inputs[0];
    const talc_reduce_observed *of = ran->problem;
    const double K = (double)(ran->output.count == 0 ? 0 : x->count / ran->output.count);
    double *mean = talc_memory_new((size_t)ran->output.count * sizeof *mean + 1, "check_model");
    const bool done = mean != NULL && talc_check_elements_of_run(direction, ran, expected->element);
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

bool talc_check_reduce_of_run(const check_direction *direction, const check_ran *ran,
                              check_model_expected *expected)
{
    switch (((const talc_reduce_observed *)ran->problem)->function) {
    case TALC_MIN:
    case TALC_LOGSUMEXP:
        return as_max_expected(direction, ran, expected);
    case TALC_ARGMAX:
    case TALC_ARGMIN:
        return argmax_expected(direction, ran, expected);
    case TALC_VAR:
        return var_expected(direction, ran, expected);
    default:
        return talc_check_linear(direction, ran, expected);
    }
}
