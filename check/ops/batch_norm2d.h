/// Problems of batch normalisation, of either direction. Private to check/.
#ifndef TALC_CHECK_OPS_BATCH_NORM2D_H
#define TALC_CHECK_OPS_BATCH_NORM2D_H

#include "ops/batch_norm2d.h"
#include "check/engine/family.h"

typedef struct check_norm_problem {
    talc_batch_norm2d_problem p;
    bool plain, untracked;
    bool given; /* mean and rstd of the gradient in training, instead of the forward pass's */
} check_norm_problem;

CHECK_PROBLEM(check_norm_problem, talc_batch_norm2d_arguments)

/// Of both directions.
extern const check_family talc_check_norm_family;
extern const check_direction talc_check_batch_norm2d_gradient;

// ---- Statistics ---------------------------------------------------------------------------------

/// Where check_common has what talc_check_batch_norm2d.learn gives: mean and variance of a channel,
/// and the mean of |x|. Of the gradients, what follows: sums of g and g x^, and of their sizes.
enum {
    CHECK_NORM_MEAN,
    CHECK_NORM_VAR,
    CHECK_NORM_SIZES,
    CHECK_NORM_G,
    CHECK_NORM_PRODUCT,
    CHECK_NORM_A,
    CHECK_NORM_B
};

/// What the gradient normalises M values by. Worked out from them in f64, the mean may be off by
/// `mean_off`, and rstd by the part `rstd_off` of itself, which is 0 where both are given. Where
/// that is large, nothing can be said of what is normalised.
typedef struct check_normaliser {
    double M;
    long double mean, rstd;
    double mean_off, rstd_off;
    bool any;
} check_normaliser;

/// By the statistics of x.
check_normaliser talc_check_normaliser_of(talc_dtype dtype, double M, double eps,
                                          const check_common *of);

/// How far a normalised x^ may be off.
double talc_check_normalised_off(const check_normaliser *by, long double x);

/// One value of dx, `scale` (g - (sum g + x^ sum g x^) / M): the terms and their roundings, and
/// what mean and rstd are off.
check_expected talc_check_norm_dx(talc_dtype dtype, const check_normaliser *by,
                                  const check_common *all, long double scale, long double g,
                                  double x);

/// x, made of a random number, of data whose mean and spread differ from channel to channel: a mean
/// that is rounded, or a coefficient that underflows, shows.
double talc_check_far(talc_dtype dtype, int64_t c, double random);

/// Whether WIDE data of channel c have weight rstd too small for f32, though y and dx are not: of x
/// this spread, of weight, bias and residual, and of dy, these multiples of what others have.
#define CHECK_SLIGHT_SPREAD 0x1p60
#define CHECK_SLIGHT_WEIGHT 0x1p-80
#define CHECK_SLIGHT_DY     0x1p66
bool talc_check_is_slight(talc_check_kind kind, int64_t c);

#endif
