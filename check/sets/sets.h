/// The sets of problems. Private to check/.
#ifndef TALC_CHECK_SETS_SETS_H
#define TALC_CHECK_SETS_SETS_H

#include "check/check.h"

/// The set models, as check_family.quick; and conv2d's problems of the other two.
extern const char *const talc_check_models[], *const talc_check_conv2d_quick[],
                                                  *const talc_check_conv2d_edges[];

#endif
