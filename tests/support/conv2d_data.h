/// Operands for a convolution problem, and running it: what every conv2d test begins with.
#ifndef TALC_TESTS_CONV2D_DATA_H
#define TALC_TESTS_CONV2D_DATA_H

#include "check/engine/family.h"
#include "talc.h"
#include "tests/support/guard.h"
#include "tests/support/owned.h"

#include <math.h>

/// A problem and host operands of doubles that hold values of its type.
typedef struct conv2d_data {
    talc_conv2d_problem problem;
    int64_t x_count, w_count, y_count;
    double *x, *w;
    double *bias, *residual; ///< NULL unless the problem has them
} conv2d_data;

/// The forward convolutions among the edges of the cross-check (check/sets/edges.c); NULL after the
/// last.
const char *conv2d_case(int index);

/// The problem as the library parses it; fails the test when it does not.
talc_conv2d_problem conv2d_parse(const char *text);

/// The cross-check's random problem of that seed, as a forward one.
talc_conv2d_problem conv2d_random_problem(uint64_t seed);

/// Operands for a problem, filled as the cross-check fills them. The same arguments give the same
/// numbers. Freed by conv2d_data_free, or with the block that declares it as owned.
conv2d_data conv2d_data_new(const talc_conv2d_problem *problem, talc_check_kind kind,
                            uint64_t seed);

/// Operands that are zero.
conv2d_data conv2d_data_zeros(const talc_conv2d_problem *problem);
void conv2d_data_free(conv2d_data *data);
#define owned_conv2d_data OWNED(conv2d_data_free) conv2d_data

/// Element `index` of the output, by the cross-check's oracle, which
/// tests/check/test_check_conv2d.c holds against independent numbers.
check_expected conv2d_expected(const conv2d_data *data, int64_t index);

/// How many windows of `kernel` taps fit into `size` plus its padding, counted.
int64_t conv2d_extent(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t before, int64_t after);

/// Options that pose the problem again. `residual` may be NULL, `algorithm` too.
talc_conv2d_options conv2d_options(const talc_conv2d_problem *problem, const talc_tensor *residual,
                                   const char *algorithm);

/// The operands on a device, each between guard bands and `shift` elements off alignment.
typedef struct conv2d_operands {
    guarded x, w, bias, residual; ///< bias and residual without a tensor when the problem has none
} conv2d_operands;

conv2d_operands conv2d_operands_new(talc_device *device, const conv2d_data *data, int shift);
bool conv2d_operands_intact(const conv2d_operands *operands);
void conv2d_operands_free(conv2d_operands *operands);
#define owned_conv2d_operands OWNED(conv2d_operands_free) conv2d_operands

/// Runs the problem with an algorithm, NULL for the library's choice; NULL on failure.
talc_tensor *conv2d_run(const conv2d_operands *operands, const talc_conv2d_problem *problem,
                        const char *algorithm);

/// Both steps at once, for tests that look at the values alone: the result's elements, for the
/// caller to free. An algorithm that refuses the problem leaves it to the library's choice. Fails
/// the test when the library fails.
double *conv2d_values(talc_device *device, const conv2d_data *data, const char *algorithm);

/// Runs every algorithm that takes the problem on data whose results are exact. Fails the test,
/// which goes on, where an element is another than the oracle's, an operand has changed, or too few
/// outputs are not zero for a pass to mean anything: of those whose window holds something 30 %,
/// after a ReLU 15 %, unless they are fewer than 8.
void conv2d_expect_exact(talc_device *device, const conv2d_data *data, int shift);

/// What the device would do with the problem; fails the test when it cannot say.
talc_conv2d_explanation conv2d_explanation(talc_device *device, const talc_conv2d_problem *problem);

/// How many values are such.
static inline int64_t count_of(const double *values, int64_t count, bool (*is)(double value))
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += is(values[i]);
    return found;
}

static inline bool is_nan(double value)
{
    return isnan(value);
}

static inline bool is_infinite(double value)
{
    return isinf(value);
}

static inline bool is_huge(double value)
{
    return fabs(value) >= 0x1p29;
}

/// A tensor of random values in [-1, 1), in the innermost scope.
talc_tensor *random_tensor(talc_device *device, talc_dtype dtype, talc_dims dims, uint64_t seed);

#endif
