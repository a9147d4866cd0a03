/// Error bounds. Private to check/.
///
/// With u = 2^-24 (f32) or 2^-53 (f64), K the terms of a sum and S the sum of their sizes, an
/// algorithm of class STRICT may be off
///     4 u sqrt(K + 4) S, at most (K + 2) u S,     on random data,
///     (K + 2) u S                                 on any data,
/// NORMWISE by the same with the largest S of the image in place of S, TF32 by 2^-9 S more: its
/// operands may be cut to 11 bits instead of rounded, and a denormal one may be lost beside one of
/// up to 4. An algorithm that accumulates f32 data in f64 has one rounding, u |y|, and the float64
/// sum's own (K + 4) 2^-53 S. Each may lose what underflows: (K + 2) times the smallest subnormal.
/// Exact data leave no room, but to NORMWISE algorithms, whose results must round to the right
/// integer; where their bound is more than a half, that is what they get.
///
/// What a family gives as `extra` comes on top, and what it gives as `correlated` but on random
/// data, and of f32 sums in f64.
#ifndef TALC_CHECK_ENGINE_BOUND_H
#define TALC_CHECK_ENGINE_BOUND_H

#include "check/engine/family.h"

/// How far an algorithm may be off; S_norm is the largest S among the outputs of the same problem.
double talc_check_bound(const talc_arithmetic *arithmetic, talc_dtype dtype, talc_check_kind kind,
                        const check_expected *expected, double S_norm);

/// The share of `bound` that a result uses. NaN and infinity have to be met as they are; INFINITY
/// when any difference is one too many.
double talc_check_share(long double expected, double got, double bound);

#endif
