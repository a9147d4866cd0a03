/// What elementwise ops of one operand give, by their definitions. Private to check/.
#ifndef TALC_CHECK_OPS_ELEMENTWISE_H
#define TALC_CHECK_OPS_ELEMENTWISE_H

#include "ops/elementwise.h"

/// f(x) with the function's numbers, in long double.
long double talc_check_unary_value(talc_unary_function function, const double numbers[2],
                                   long double x);

#endif
