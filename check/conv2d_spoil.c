/* NaN and infinities in other places than the one element of x: a row may treat each operand, and each sign, in its own way. */
#include "check/conv2d.h"

#include "check/data.h"

#include <math.h>

/* Some of x is 0, over which a row may not leave out a weight that is not finite. */
static void put_zeros(const check_operand *operand, uint64_t seed, double *values)
{
    for (int64_t i = 0; i < operand->count; i++)
        if (talc_check_bits(seed, (uint64_t)i) % 4 == 0)
            values[i] = 0;
}

bool talc_check_conv2d_spoil(const check_problem *problem, talc_check_kind kind, int round,
                             uint64_t seed, const check_values *values)
{
    check_operand operands[CHECK_OPERANDS];
    const int count = talc_check_conv2d.operands(problem, operands);
    const bool is_nan = kind == TALC_CHECK_NAN;
    const int number = is_nan ? round + 1 : round; /* x has had its NaN, but no negative infinity */
    if ((!is_nan && kind != TALC_CHECK_INFINITY) || number >= count ||
        operands[number].role != CHECK_READ || operands[number].count == 0)
        return false;
    double *spoilt = values->of[number];
    int64_t at = (int64_t)(talc_check_bits(seed, 6) % (uint64_t)operands[number].count);
    for (int64_t i = 0; number == 0 && i < operands[0].count; i++)
        if (isinf(spoilt[i]))
            at = i; /* where a window reads it */
    /* The others are those of data without anything odd: one place at a time tells what it spoils. */
    for (int64_t i = 0; i < operands[0].count; i++)
        if (!isfinite(values->of[0][i]))
            values->of[0][i] = 1;
    if (number == 1)
        put_zeros(&operands[0], talc_check_bits(seed, 7), values->of[0]);
    spoilt[at] = is_nan ? (double)NAN : number % 2 == 0 ? -(double)INFINITY : (double)INFINITY;
    return true;
}
