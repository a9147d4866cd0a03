/// A call of every elementwise op of one operand, from its table: for the tests that ask the same
/// of all of them.
#ifndef TALC_TESTS_UNARY_CASES_H
#define TALC_TESTS_UNARY_CASES_H

#include "talc.h"

/// The numbers that the ops take here, exact in f32.
#define UNARY_NUMBERS_NONE
#define UNARY_NUMBERS_ONE(p)    , 0.375
#define UNARY_NUMBERS_TWO(p, q) , -0.75, 1.25

#define UNARY_CALL(constant, name, numbers, ...)                                                   \
    static talc_tensor *unary_##name(const talc_tensor *x)                                         \
    {                                                                                              \
        return talc_##name(x UNARY_NUMBERS_##numbers);                                             \
    }
TALC_UNARY_TABLE(UNARY_CALL)
#undef UNARY_CALL

static const struct unary_case {
    const char *name;
    talc_tensor *(*call)(const talc_tensor *x);
    bool positive; ///< defined for positive numbers
} unary_cases[TALC_UNARY_COUNT] = {
#define UNARY_CASE(constant, name, ...) { #name, unary_##name, TALC_UNARY_IS_POSITIVE(constant) },
    TALC_UNARY_TABLE(UNARY_CASE)
#undef UNARY_CASE
};

#endif
