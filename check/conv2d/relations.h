/// The pairs of convolutions that properties compare, and how the operands of one follow from those
/// of the other. Private to check/.
///
/// Each function makes `whole` a problem on which its property says something and sets the other
/// one; false, and the trial decided, where there is none.
#ifndef TALC_CHECK_CONV2D_RELATIONS_H
#define TALC_CHECK_CONV2D_RELATIONS_H

#include "check/conv2d/trial.h"

/// Whether a derived problem is consistent; when not, the property says nothing.
bool talc_check_settled(check_trial *trial, talc_conv2d_problem *problem);

/// Two to four groups, and one of them alone.
void talc_check_relate_groups(talc_conv2d_problem *whole, talc_conv2d_problem *part);

/// Copies group g of an array [N, groups * C, plane] out of it, or back into it; `size` is C *
/// plane.
void talc_check_copy_group(double *group, double *all, bool back, int64_t N, int64_t groups,
                           int64_t g, int64_t size);

/// A dilated kernel, and a dense one with zeros between its taps.
bool talc_check_relate_dilation(check_trial *trial, talc_conv2d_problem *whole,
                                talc_conv2d_problem *dense);

/// Where an element of w is in the dense kernel.
int64_t talc_check_dense_tap(const talc_conv2d_problem *whole, const talc_conv2d_problem *dense,
                             int64_t index);

/// A convolution with a stride, and one with stride 1.
bool talc_check_relate_stride(check_trial *trial, talc_conv2d_problem *whole,
                              talc_conv2d_problem *dense);

/// Where an element of y is in the result with stride 1.
int64_t talc_check_dense_output(const talc_conv2d_problem *whole, const talc_conv2d_problem *dense,
                                int64_t index);

/// A padded image, and a larger one without padding.
bool talc_check_relate_padding(check_trial *trial, talc_conv2d_problem *whole,
                               talc_conv2d_problem *larger);

/// What an element of the larger image holds, as an index into x; -1: zero.
int64_t talc_check_padded_source(const talc_conv2d_problem *whole,
                                 const talc_conv2d_problem *larger, int64_t index);

/// x with the padding written out; NULL once the trial is decided.
double *talc_check_padded(check_trial *trial, const talc_conv2d_problem *whole,
                          const talc_conv2d_problem *larger, const double *x);

#endif
