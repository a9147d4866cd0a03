/// The sets of problems. Private to check/.
#ifndef TALC_CHECK_SETS_SETS_H
#define TALC_CHECK_SETS_SETS_H

#include "check/check.h"

/// Texts, NULL at the end; talc_check_set_problem gives them in full. A text may have choices in
/// braces and stands for a problem with each, or with each combination:
/// "n{1|2}c3h5w4o2k3x3{|_bias}" for four.
extern const char *const talc_check_quick[], *const talc_check_edges[], *const talc_check_models[];

/// The rest of the set `edges`.
extern const char *const talc_check_edges_gradients[];

#endif
