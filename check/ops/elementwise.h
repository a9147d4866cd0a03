/// What elementwise ops give, by their definitions. Private to check/.
#ifndef TALC_CHECK_OPS_ELEMENTWISE_H
#define TALC_CHECK_OPS_ELEMENTWISE_H

#include "check/engine/family.h"
#include "ops/elementwise.h"

/// f(x) with the function's numbers, in long double.
long double talc_check_unary_value(talc_unary_function function, const double numbers[2],
                                   long double x);

/// A value that may be so many units of the last place off, and by `more`. What passes the type's
/// largest number is infinite, but for roundings. One rounding is half a unit, and what the oracle
/// rounds.
#define CHECK_ONE_ROUNDING (0.5 + 0x1p-8)
check_expected talc_check_in_units(talc_dtype dtype, long double value, double units, double more);

/// What an op of two operands gives of such elements.
check_expected talc_check_binary_expected(talc_binary_function function, talc_dtype dtype, double a,
                                          double b);

#endif
