/// Running convolutions by one algorithm, for the properties of check/conv2d/properties.h. Private
/// to check/.
///
/// A trial owns every array that is made for it. Once it is decided (a difference, a refusal, a
/// failure) the functions below do nothing and give NULL, so that a property need not look at each
/// result.
#ifndef TALC_CHECK_CONV2D_TRIAL_H
#define TALC_CHECK_CONV2D_TRIAL_H

#include "check/conv2d/conv2d.h"
#include "check/conv2d/properties.h"

#include <math.h>

enum { CHECK_TRIAL_ARRAYS = 32 };

typedef struct check_trial {
    talc_check_kind kind;
    const talc_algorithm *algorithm;
    talc_device *device;
    uint64_t seed; ///< moves with each filled array
    check_property_result result;
    bool decided;
    char *reason; ///< 256 characters
    int count;
    double *arrays[CHECK_TRIAL_ARRAYS];
    check_buffers buffers;
} check_trial;

void talc_check_trial_free(check_trial *trial);

/// Zeros; NULL once the trial is decided.
double *talc_check_trial_numbers(check_trial *trial, int64_t count);

/// Small integers such that sums of `K` products of two of them are exact, one factor being up to
/// `times` as large.
double *talc_check_trial_integers(check_trial *trial, int64_t count, talc_dtype dtype, double K,
                                  double times);

/// Whether the algorithm takes a problem.
bool talc_check_trial_takes(const check_trial *trial, const talc_conv2d_problem *problem);

/// The algorithm's result for a problem without bias, residual and activation; NULL when the
/// algorithm refuses it or fails. The operands are those that the problem's direction reads: x and
/// w, dy and w, or x and dy.
double *talc_check_trial_convolve(check_trial *trial, const talc_conv2d_problem *problem,
                                  const double *first, const double *second);

/// What stands in `expected` where nothing is expected.
#define CHECK_NOT_EXPECTED ((double)INFINITY)

/// Decides that the property is broken when an element of a result differs from `expected`. `what`
/// says where `expected` comes from.
void talc_check_trial_compare(check_trial *trial, const talc_conv2d_problem *problem,
                              const double *result, const double *expected, const char *what);

/// An element as it counts in an identity: rounded to an integer for an algorithm that is only
/// accurate in norm.
double talc_check_trial_integer(const check_trial *trial, double value);

/// An inner product of a result and integers, and how it is told.
typedef struct check_inner {
    const double *result, *with;
    int64_t count;
    const char *text;
} check_inner;

/// Decides that the property is broken when two inner products differ, or an element of a result is
/// no finite integer.
void talc_check_trial_compare_inner(check_trial *trial, const talc_conv2d_problem *problem,
                                    const check_inner *left, const check_inner *right);

/// Decides that the property is left out for this algorithm.
void talc_check_trial_leave(check_trial *trial);

// ---- Problems -----------------------------------------------------------------------------------

/// Elements of the operands of a problem, and of its result.
int64_t talc_check_x_count(const talc_conv2d_problem *problem);
int64_t talc_check_w_count(const talc_conv2d_problem *problem);
int64_t talc_check_y_count(const talc_conv2d_problem *problem);
int64_t talc_check_result_count(const talc_conv2d_problem *problem);

/// Works out OH and OW; false when the kernel does not fit, padding is negative, or farther than
/// its mode reaches.
bool talc_check_settle(talc_conv2d_problem *problem);

/// Takes off bias, residual and activation, and makes a large problem small in batch, channels,
/// groups and image, so that the property's problems cost little. False when nothing is left to
/// make smaller, or the problem is empty.
bool talc_check_shrink(talc_conv2d_problem *problem);

#endif
