/// The last step of the gradient of batch and group norm, shared by the backends. Compiles as C and
/// as CUDA C++.
///
///     dx = g * by_g + ((x * power - mean) * by_x + shift),    by_g = weight rstd
///
/// is weight rstd (g - (sum g + x^ sum g x^) / M), x^ = (x - mu) rstd, as a few multiplications and
/// additions in the data's type. The power of two is 1 where rstd is not far from 1, and rounds
/// nothing. Without it by_x would be about rstd^2, which underflows or overflows where by_g does not.
#ifndef TALC_OPS_NORM_GRADIENT_H
#define TALC_OPS_NORM_GRADIENT_H

#include "../tensor/api.h"

#include <math.h>
#include <string.h>

typedef struct talc_norm_gradient {
    double power, mean, by_x, shift;
} talc_norm_gradient;

/// Of sums over M values: of g, and of g (x - mu). `scale` is by_g, less a weight that is part of g.
static inline TALC_HOST_DEVICE talc_norm_gradient talc_norm_gradient_of(double mu, double rstd,
                                                                        double scale, double g,
                                                                        double product, double M)
{
    const double NEAR = 1024, MOST = 0x1p100, capped = fmin(rstd, 0x1p126);
    const uint64_t ONE = (uint64_t)0x3FF << 52, EXPONENT = (uint64_t)0x7FF << 52;
    uint64_t bits = ONE;
    if (!(rstd >= 1 / NEAR && rstd <= NEAR) && capped * fabs(mu) < MOST && capped >= 0x1p-1022)
        memcpy(&bits, &capped, sizeof bits);
    const uint64_t power_bits = bits & EXPONENT, inverse_bits = 2 * ONE - power_bits;
    double power, inverse;
    memcpy(&power, &power_bits, sizeof power);
    memcpy(&inverse, &inverse_bits, sizeof inverse);
    const talc_norm_gradient of = { power, mu * power,
                                    -(scale * (rstd * inverse)) * (rstd * (product / M)),
                                    -scale * (g / M) };
    return of;
}

/// The same with the mean as the data's type holds it; the shift takes what it loses, but no infinity of
/// by_x, which could have either sign.
static inline TALC_HOST_DEVICE talc_norm_gradient talc_norm_gradient_rounded(talc_norm_gradient of,
                                                                             double mean)
{
    of.shift += mean == of.mean || !isfinite(of.by_x) ? 0 : (mean - of.mean) * of.by_x;
    of.mean = mean;
    return of;
}

#endif
