/// The parts of conv2d's family that are files of their own. Private to check/.
#ifndef TALC_CHECK_CONV2D_H
#define TALC_CHECK_CONV2D_H

#include "ops/conv2d.h"
#include "check/family.h"

CHECK_PROBLEM(talc_conv2d_problem, talc_conv2d_arguments)

/// Its operands.
enum { CHECK_X, CHECK_W, CHECK_BIAS, CHECK_RESIDUAL, CHECK_Y };

/// Products in an output's sum.
double talc_check_terms(const talc_conv2d_problem *problem);

/// The index in x of coordinate i, which may lie in the padding; -1: a zero of the padding.
int64_t talc_check_source(talc_padding_mode mode, int64_t i, int64_t extent);

/// Whether results are rounded anew by an activation.
static inline bool talc_check_conv2d_curved(const talc_conv2d_problem *p)
{
    return p->activation == TALC_ACTIVATION_SIGMOID || p->activation == TALC_ACTIVATION_TANH;
}

/// check_family.random: about a third are depthwise and a third 1x1 without stride or padding, so that the rows for those have
/// their share; every extent takes edge values often.
bool talc_check_conv2d_random(uint64_t *state, check_problem *problem);

/// check_family.takes, fill and spoil: NaN in w, bias and residual in turn, negative and positive infinity in turn from x on, as
/// a row may treat each operand, and each sign, in its own way.
bool talc_check_conv2d_takes(const check_problem *problem, talc_check_kind kind);
void talc_check_conv2d_fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                            const check_values *values);
bool talc_check_conv2d_spoil(const check_problem *problem, talc_check_kind kind, int round,
                             uint64_t seed, const check_values *values);

#endif
