/// The parts of conv2d's family that are files of their own. Private to check/.
#ifndef TALC_CHECK_CONV2D_H
#define TALC_CHECK_CONV2D_H

#include "check/family.h"

/// A small convolution that depends on the seed alone. About a third are depthwise and a third 1x1 without stride or
/// padding, so that the rows for those have their share; every extent takes edge values often.
void talc_check_conv2d_random(uint64_t seed, check_problem *problem);

/// check_family.spoil of conv2d: NaN in w, bias and residual in turn, negative and positive infinity in turn from x on.
bool talc_check_conv2d_spoil(const check_problem *problem, talc_check_kind kind, int round,
                             uint64_t seed, const check_values *values);

#endif
