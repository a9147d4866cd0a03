/// How far results of models may move, by the families.
///
/// Of sums, and of the largest of some numbers, the family says this too, asked about sizes: with
/// `off` in place of the first factor, and |x| + off beside the off of the other factor.
#include "check/engine/expected.h"

#include "tensor/memory.h"

#include <math.h>
#include <string.h>

// ---- Asking -------------------------------------------------------------------------------------

check_values talc_check_values_of_run(const check_ran *ran)
{
    check_values values = { .of = { NULL } };
    for (int i = 0; i < ran->count; i++)
        values.of[i] = ran->inputs[i].of;
    return values;
}

bool talc_check_problem_of_run(const check_direction *direction, const check_ran *ran,
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

bool talc_check_elements_of_run(const check_direction *direction, const check_ran *ran,
                                check_expected *expected)
{
    check_problem problem;
    if (!talc_check_problem_of_run(direction, ran, &problem))
        return false;
    const int y = result_of(direction, &problem);
    check_values values = talc_check_values_of_run(ran);
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

bool talc_check_moves(const check_array *array)
{
    for (int64_t i = 0; i < array->count; i++)
        if (check_off(array, i) > 0)
            return true;
    return false;
}

static double part_of(const check_array *array, int64_t i, check_replacement which)
{
    const double size = isfinite(array->of[i]) ? fabs(array->of[i]) : 0, off = check_off(array, i);
    return which == CHECK_OFF    ? off
           : which == CHECK_SIZE ? size
           : which == CHECK_BOTH ? size + off
                                 : 0;
}

/* Of the largest of no numbers, which is -infinite, 0. */
static long double size_of(long double value)
{
    return value == -INFINITY ? 0 : fabsl(value);
}

/* The lowest operand of those; -1: there is none of them. */
static int lowest(const check_ran *ran, unsigned operands)
{
    for (int k = 0; k < ran->count; k++)
        if ((operands >> k & 1) != 0 && ran->inputs[k].of != NULL)
            return k;
    return -1;
}

bool talc_check_add_spread(const check_direction *direction, const check_ran *ran,
                           check_replacement first, check_replacement second,
                           check_replacement rest, check_model_expected *expected)
{
    check_array inputs[CHECK_OPERANDS] = { { 0 } };
    check_ran sizes = *ran;
    sizes.inputs = inputs;
    check_expected *more =
        talc_memory_new((size_t)ran->output.count * sizeof *more + 1, "check_model");
    bool done = more != NULL;
    for (int k = 0; done && k < ran->count; k++) {
        inputs[k] = ran->inputs[k];
        inputs[k].dtype = TALC_F64;
        if (ran->inputs[k].of == NULL || (direction->picks >> k & 1) != 0)
            continue;
        const check_replacement which = (direction->factors >> k & 1) == 0     ? rest
                                        : k == lowest(ran, direction->factors) ? first
                                                                               : second;
        inputs[k].of = talc_memory_new((size_t)inputs[k].count * sizeof(double) + 1, "check_model");
        done = inputs[k].of != NULL;
        for (int64_t i = 0; done && i < inputs[k].count; i++)
            inputs[k].of[i] = part_of(&ran->inputs[k], i, which);
    }
    done = done && talc_check_elements_of_run(direction, &sizes, more);
    for (int64_t i = 0; done && i < ran->output.count; i++)
        expected->spread[i] +=
            fmax((double)size_of(more[i].value), direction->weighs ? more[i].S : 0);
    for (int k = 0; k < ran->count; k++)
        if (inputs[k].of != ran->inputs[k].of)
            talc_memory_free(inputs[k].of);
    talc_memory_free(more);
    return done;
}

bool talc_check_linear_spread(const check_direction *direction, const check_ran *ran,
                              check_model_expected *expected)
{
    bool any = false;
    for (int k = 0; k < ran->count; k++)
        any = any || talc_check_moves(&ran->inputs[k]);
    if (any && !talc_check_add_spread(direction, ran, CHECK_OFF, CHECK_SIZE, CHECK_OFF, expected))
        return false;
    const int first = lowest(ran, direction->factors);
    const int second = first < 0 ? -1 : lowest(ran, direction->factors & ~(1U << first));
    return second < 0 || !talc_check_moves(&ran->inputs[second]) ||
           talc_check_add_spread(direction, ran, CHECK_BOTH, CHECK_OFF, CHECK_NOTHING, expected);
}

bool talc_check_linear(const check_direction *direction, const check_ran *ran,
                       check_model_expected *expected)
{
    return talc_check_elements_of_run(direction, ran, expected->element) &&
           talc_check_linear_spread(direction, ran, expected);
}

bool talc_check_picked(const check_direction *direction, const check_ran *ran,
                       check_model_expected *expected)
{
    if (!talc_check_linear(direction, ran, expected))
        return false;
    const check_array *by = &ran->inputs[lowest(ran, direction->picks)];
    for (int64_t i = 0; i < ran->output.count; i++)
        if (check_off(by, direction->picking_at == NULL ? i : direction->picking_at(ran, i)) > 0)
            expected->spread[i] = INFINITY;
    return true;
}

double talc_check_largest_off(const check_array *x, int64_t first, int64_t n, int64_t step,
                              double *sum)
{
    double largest = 0;
    *sum = 0;
    for (int64_t j = 0; j < n; j++) {
        largest = fmax(largest, check_off(x, first + j * step));
        *sum += check_off(x, first + j * step);
    }
    return largest;
}
