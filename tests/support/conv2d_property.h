/// What the property tests of conv2d share. Their data are small integers, so both sides of an equation are exact and
/// are compared without tolerance.
#ifndef TALC_TESTS_CONV2D_PROPERTY_H
#define TALC_TESTS_CONV2D_PROPERTY_H

#include "tests/support/conv2d_data.h"

/// Checks a property of one problem under one algorithm.
typedef void conv2d_property(const talc_conv2d_problem *problem, const char *algorithm,
                             uint64_t seed);

/// Checks it on random problems and every algorithm that takes them, without what would hide a sum: bias, residual
/// and activation. `change` makes a problem fit the property; NULL takes all.
void for_all_problems(conv2d_property *property, void (*change)(talc_conv2d_problem *));

/// Fails the test at the first element that differs.
void expect_equal(const double *got, const double *due, int64_t count,
                  const talc_conv2d_problem *problem, const char *algorithm);

/// Zeros, for the caller to free.
double *new_values(int64_t count);

/// The result for `data` with other x and w, which stay the caller's; the values are for the caller to free.
double *values_with(const conv2d_data *data, double *x, double *w, const char *algorithm);

#endif
