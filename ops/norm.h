/// The last step of norms and of their gradients, shared by the backends. Compiles as C and as CUDA
/// C++.
///
///     y  = (x - mean) * scale + shift,                scale = weight rstd
///     dx = g * by_g + ((x - mean) * by_x + shift),    by_g = weight rstd, by_x = rstd slope
///
/// The second is weight rstd (g - (sum g + x^ sum g x^) / M), x^ = (x - mu) rstd. Both are a few
/// multiplications and additions in the data's type, of the mean as that type holds it; what it
/// loses is part of the shift. Where f32 would not have all digits of a coefficient, or no x -
/// mean, though results may be ordinary numbers, the step is `wide`: in f64, of f64 data too, and
/// with ((x - mean) * rstd) * slope, as rstd^2 may be out of range even there.
#ifndef TALC_OPS_NORM_H
#define TALC_OPS_NORM_H

#include "../tensor/api.h"

#include <math.h>
#include <stdbool.h>

typedef struct talc_norm_gradient {
    double mean, by_g, rstd, slope, shift;
    bool wide;
} talc_norm_gradient;

/// Whether f32 has all digits of a coefficient.
static inline TALC_HOST_DEVICE bool talc_norm_has_digits(double coefficient)
{
    const double size = fabs(coefficient);
    return size == 0 || (size >= 0x1p-126 && size < 0x1p127);
}

/// Whether x less the mean is finite in f32 for any x.
static inline TALC_HOST_DEVICE bool talc_norm_has_deviations(double mean)
{
    return fabs(mean) < 0x1p100;
}

/// Whether a weight of each value may be multiplied by g first, in f32: the product is in range
/// where its own by rstd is, but for the last 2^10 of it.
static inline TALC_HOST_DEVICE bool talc_norm_takes_weights(double rstd)
{
    return rstd >= 0x1p-10 && rstd <= 0x1p10;
}

/// Of sums over M values: of g, and of g (x - mu). `mean` is mu in the data's type; by_g is without
/// a weight that is part of g. The shift takes no infinity of by_x, which could have either sign.
static inline TALC_HOST_DEVICE talc_norm_gradient talc_norm_gradient_of(double mu, double mean,
                                                                        double rstd, double by_g,
                                                                        double g, double product,
                                                                        double M)
{
    const double slope = -by_g * (rstd * (product / M)), by_x = rstd * slope;
    const double lost = mean == mu || !isfinite(by_x) ? 0 : (mean - mu) * by_x;
    const talc_norm_gradient of = { mean,
                                    by_g,
                                    rstd,
                                    slope,
                                    lost - by_g * (g / M),
                                    !(talc_norm_has_digits(by_g) && talc_norm_has_digits(by_x) &&
                                      talc_norm_has_deviations(mean)) };
    return of;
}

#endif
