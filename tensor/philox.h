/// Random numbers as a function of a counter: Philox4x32-10, and what its words become. Private to
/// talc.
///
/// Element i of call j of a generator with seed s depends on (s, j, i) alone, not on how many
/// threads, on a CPU or a GPU, compute it. A block of four 32-bit words comes from key = s and
/// counter = (b, j), 64 bits each:
///
///     f32 uniform   element i: block i / 4, word i % 4
///     f64 uniform   element i: block i / 2, words 2 (i % 2) and the next, 53 bits of them
///     f32 normal    element i: block i / 4, words 2 (i / 2 % 2) and the next give a pair of
///                   numbers (Box-Muller)
///     f64 normal    element i: block i / 2, its two 53-bit numbers give a pair
///     integers      element i: block i / 2, words 2 (i % 2) and the next, as 64 bits
///
/// Everything here is made of integer operations and + - * / sqrt on doubles, which IEEE 754 rounds
/// one way only, so every device gives the same bits, provided the compiler contracts no product
/// and sum into one rounding (-ffp-contract=off, nvcc --fmad=false).
///
/// Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
#ifndef TALC_TENSOR_PHILOX_H
#define TALC_TENSOR_PHILOX_H

#include "tensor/api.h"

#include <math.h>
#include <string.h>

typedef struct talc_philox_block {
    uint32_t word[4];
} talc_philox_block;

/// The block number `index` of call `call`.
TALC_HOST_DEVICE static inline talc_philox_block talc_philox(uint64_t seed, uint64_t call,
                                                             uint64_t index)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)call, c3 = (uint32_t)(call >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9u; /* the golden ratio and sqrt(3) - 1, in units of 2^-32 */
        key1 += 0xBB67AE85u;
    }
    talc_philox_block block = { { c0, c1, c2, c3 } };
    return block;
}

/// Two words of a block as one number; pair is 0 or 1.
TALC_HOST_DEVICE static inline uint64_t talc_philox_pair(talc_philox_block block, int pair)
{
    return (uint64_t)block.word[2 * pair + 1] << 32 | block.word[2 * pair];
}

// ---- Uniform ------------------------------------------------------------------------------------

/// Uniform over the multiples of 2^-24 in [0, 1); exact in f32.
TALC_HOST_DEVICE static inline double talc_uniform24(uint32_t word)
{
    return (double)(int32_t)(word >> 8) * 0x1p-24;
}

/// Uniform over the multiples of 2^-53 in [0, 1).
TALC_HOST_DEVICE static inline double talc_uniform53(uint64_t words)
{
    return (double)(int64_t)(words >> 11) * 0x1p-53;
}

// ---- Integers -----------------------------------------------------------------------------------

/// floor(words * range / 2^64): 0 .. range-1. Each value's probability is within 2^-64 of 1 /
/// range, and no draw is rejected, so that the counter alone decides. Source: Lemire, Fast random
/// integer generation in an interval, ACM TOMACS 29 (2019), without its rejection step.
TALC_HOST_DEVICE static inline uint64_t talc_integer_below(uint64_t words, uint64_t range)
{
    const uint64_t a0 = (uint32_t)words, a1 = words >> 32, b0 = (uint32_t)range, b1 = range >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32); /* fits: (2^32-1)^2 + 2^32-1 < 2^64 */
    const uint64_t carried = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (carried >> 32);
}

// ---- Normal -------------------------------------------------------------------------------------

/// log(x) for a positive normal x, within 2 ulp. x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m =
/// 2 artanh(s), s = (m-1)/(m+1), by its Taylor series.
TALC_HOST_DEVICE static inline double talc_random_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* Adding the distance from sqrt(1/2) to 1 makes the exponent field count from sqrt(1/2). */
    const uint64_t shifted = bits + (UINT64_C(0x3FF0000000000000) - UINT64_C(0x3FE6A09E667F3BCD));
    const int64_t exponent = (int64_t)(shifted >> 52) - 1023;
    bits -= (uint64_t)exponent << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1);
    const double z = s * s; /* at most 0.0295: the first term left out is below 2^-60 */
    double series = 1.0 / 21;
    series = series * z + 1.0 / 19;
    series = series * z + 1.0 / 17;
    series = series * z + 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    /* log 2 in two parts, the first with zeros at its end, so that its product with the exponent is
     * exact. */
    const double high = 0x1.62e42fefap-1, low = 0x1.cf79abc9e3b3ap-40;
    const double e = (double)exponent;
    return e * high + (2 * s + (2 * s * z * series + e * low));
}

/// cos and sin of 2 pi u for u in [0, 1), within 2 ulp.
/// u = quarter/4 + r with |r| <= 1/8, exactly; then Taylor series of at most pi/4.
TALC_HOST_DEVICE static inline void talc_random_cos_sin(double u, double *cosine, double *sine)
{
    const int quarter = (int)(4 * u + 0.5);
    const double x = (u - 0.25 * quarter) * 0x1.921fb54442d18p+2; /* 2 pi */
    const double z = x * x;
    double s = 1.0 / 355687428096000; /* 1 / 17!, then 1 / 15! and so on */
    s = s * z - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = x + x * z * s;
    double c = -1.0 / 6402373705728000; /* 1 / 18!, 1 / 16!, ... */
    c = c * z + 1.0 / 20922789888000;
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = 1 - z * (0.5 - z * c);
    /* A quarter turn maps (cos, sin) to (-sin, cos). */
    const bool swapped = quarter % 2 == 1;
    *cosine = swapped ? s : c;
    *sine = swapped ? c : s;
    if (quarter == 1 || quarter == 2)
        *cosine = -*cosine;
    if (quarter == 2 || quarter == 3)
        *sine = -*sine;
}

/// Two independent normal numbers from u in (0, 1] and v in [0, 1). Source: Box, Muller: A note on
/// the generation of random normal deviates, 1958.
TALC_HOST_DEVICE static inline void talc_normal_pair(double u, double v, double *first,
                                                     double *second)
{
    const double radius = sqrt(-2 * talc_random_log(u));
    double cosine, sine;
    talc_random_cos_sin(v, &cosine, &sine);
    *first = radius * cosine;
    *second = radius * sine;
}

/// The same from 32-bit words: |z| is at most sqrt(2 * 32 log 2) = 6.66.
TALC_HOST_DEVICE static inline void talc_normal_pair32(uint32_t u, uint32_t v, double *first,
                                                       double *second)
{
    talc_normal_pair(((double)u + 1) * 0x1p-32, (double)v * 0x1p-32, first, second);
}

/// The same from 53 bits each: |z| is at most sqrt(2 * 53 log 2) = 8.57.
TALC_HOST_DEVICE static inline void talc_normal_pair53(uint64_t u, uint64_t v, double *first,
                                                       double *second)
{
    talc_normal_pair(talc_uniform53(u) + 0x1p-53, talc_uniform53(v), first, second);
}

#endif
