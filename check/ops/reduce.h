/// The parts of reductions' family that are files of their own. Private to check/.
#ifndef TALC_CHECK_OPS_REDUCE_H
#define TALC_CHECK_OPS_REDUCE_H

#include "check/engine/expected.h"

/// check_direction.expected_of_run.
bool talc_check_reduce_of_run(const check_direction *direction, const check_ran *ran,
                              check_model_expected *expected);

#endif
