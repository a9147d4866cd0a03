/// The sets of problems. Private to check/.
#ifndef TALC_CHECK_SETS_H
#define TALC_CHECK_SETS_H

#include "check/check.h"

/// Texts, NULL at the end; talc_check_set_problem hands them out in full.
extern const char *const talc_check_quick[], *const talc_check_edges[], *const talc_check_models[];

#endif
