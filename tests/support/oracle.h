/// Results that a caller gets of an op, against the oracle of the cross-check, which
/// tests/check/test_check_oracles.c holds to numbers by hand.
#ifndef TALC_TESTS_ORACLE_H
#define TALC_TESTS_ORACLE_H

#include "talc.h"

/// Every element of `y` is within the oracle's bound on random data of what the problem's operands
/// give: `operands`, in the family's order, views of any kind whose elements are as many. `wide`
/// asks for the bound of algorithms that accumulate in f64. Fails the test, in whose message `what`
/// stands.
void assert_expected(const char *what, const char *problem, const talc_tensor *const operands[],
                     const talc_tensor *y, bool wide);

/// "2x3x4", in `text`.
const char *extents_text(talc_dims dims, char text[TALC_DIMS_TEXT]);

#endif
