/// Relations that convolutions must satisfy among themselves, whatever an oracle says. Private to
/// check/.
///
/// All hold without any tolerance on small integers. Each property derives from the problem a few
/// small ones on which it says something (a batch of three, a dilation of 2x3), poses them to the
/// same algorithm and compares; it is left out where the algorithm refuses one of them. Bias,
/// residual and activation are taken off, and a large problem is made smaller. Those of gradients
/// are in check/conv2d/properties_gradient.c.
#ifndef TALC_CHECK_CONV2D_PROPERTIES_H
#define TALC_CHECK_CONV2D_PROPERTIES_H

#include "check/engine/case.h"

typedef enum check_property_result {
    CHECK_HOLDS,
    CHECK_BROKEN,
    CHECK_LEFT_OUT
} check_property_result;

/// Whether a property holds for a conv2d algorithm on a problem; kinds from TALC_CHECK_BATCH on.
/// What failed goes into `reason`. Without memory it is left out, with the failure.
check_property_result talc_check_property(talc_check_kind kind, const talc_algorithm *algorithm,
                                          talc_device *device, const check_problem *problem,
                                          uint64_t seed, char reason[256]);

#endif
