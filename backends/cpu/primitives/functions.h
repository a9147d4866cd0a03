/// exp, expm1, log, log1p, tanh, erf and erfc of f32 as expressions that compilers turn into vector
/// code. Private to backends/cpu.
///
/// To be included in place of <tgmath.h>: these names then mean the functions below where the
/// argument is a float, and the C library's elsewhere. There are neither branches nor tables, and
/// compilers that may fuse products with sums fuse the same ones in vector code and beside it, to
/// which a test holds them: so a value has the same bits alone, among the last elements of a row
/// and in a vector of any width, a NaN's sign and payload aside. Subnormal numbers are numbers like
/// others. expm1(-0) is 0, and log1p takes numbers from 0 to 1.
///
/// Errors at most, over all floats, in units of the last place: exp 0.91, expm1 1.75, log 0.91,
/// log1p 1.86, tanh 2.5, erf 1.4, erfc 8.
///
/// The polynomials are minimax fits, by Remez's algorithm. Source of the reduction in two steps:
/// Cody and Waite, "Software manual for the elementary functions", 1980.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_FUNCTIONS_H
#define TALC_BACKENDS_CPU_PRIMITIVES_FUNCTIONS_H

#include "backends/cpu/primitives/target.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* Always inline: a call in a loop would not be vector code. */

TALC_ALWAYS_INLINE float talc_cpu_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TALC_ALWAYS_INLINE uint32_t talc_cpu_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x within the limits; NaN stays NaN. */
TALC_ALWAYS_INLINE float talc_cpu_clamped(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* e^(x - less) = 2^n (1 + rest), |rest| < 0.42, of |x| up to 104 and a small `less`. Adding 1.5 *
 * 2^23 rounds to an integer, which stands in the last bits then; `power` is n where a float has its
 * exponent. n times the first part of log(2) is exact, and so is what it leaves of x. */
typedef struct talc_cpu_exponential {
    int32_t power;
    float rest;
} talc_cpu_exponential;

TALC_ALWAYS_INLINE int32_t talc_cpu_power(int32_t n)
{
    return n * (1 << 23);
}

/* 2^power x, both normal. */
TALC_ALWAYS_INLINE float talc_cpu_scaled(float x, int32_t power)
{
    return talc_cpu_float_of_bits(talc_cpu_bits_of_float(x) + (uint32_t)power);
}

TALC_ALWAYS_INLINE talc_cpu_exponential talc_cpu_exponential_of(float x, float less)
{
    const float log2_e = 0x1.715476p+0f, to_integer = 0x1.8p23f;
    const float biased = (x - less) * log2_e + to_integer, n = biased - to_integer;
    const float first = x - n * 0x1.63p-1f, second = n * 0x1.bd0106p-13f - less;
    const float r = first + second, rr = r * r;
    const float p = 0x1.fffffcp-2f + 0x1.555490p-3f * r +
                    (0x1.5558f4p-5f + 0x1.123a38p-7f * r + 0x1.6a23b0p-10f * rr) * rr;
    const int32_t power = (int32_t)(talc_cpu_bits_of_float(biased) << 23);
    return (talc_cpu_exponential){ power, first + (second + p * rr) };
}

/* e's number times `factor`, which is at most 1. 2^n in two factors, as neither it nor the result
 * need be normal: half of 2^n, but not less than 2^-100, and what is missing. */
TALC_ALWAYS_INLINE float talc_cpu_exponential_value(talc_cpu_exponential e, float factor)
{
    const int32_t min = talc_cpu_power(-99), power = e.power > min ? e.power : min;
    const float half = talc_cpu_scaled(0.5f, power);
    return (half + half * e.rest) * factor * talc_cpu_scaled(2, e.power - power);
}

/* 0 from -104 down and infinite from 89 up. */
TALC_ALWAYS_INLINE float talc_cpu_exp(float x)
{
    return talc_cpu_exponential_value(talc_cpu_exponential_of(talc_cpu_clamped(x, -104, 89), 0), 1);
}

/* e^(-a / 2) of a from 0 on, by one factor 2^n, which is normal; 0 from 160 on, where not even a
 * times the square is anything. */
TALC_ALWAYS_INLINE float talc_cpu_root_exponential(float a)
{
    const talc_cpu_exponential e = talc_cpu_exponential_of(-0.5f * a, 0);
    const float power = talc_cpu_scaled(1, e.power);
    return a > 160 ? 0 : power + power * e.rest;
}

/* -1 from -40 down. With half of 2^n, which is finite; where n is 0, this is `rest`, its sign
 * included. */
TALC_ALWAYS_INLINE float talc_cpu_expm1(float x)
{
    const talc_cpu_exponential e = talc_cpu_exponential_of(talc_cpu_clamped(x, -40, 89), 0);
    const float half = talc_cpu_scaled(0.5f, e.power);
    return 2 * (half * e.rest - (0.5f - half));
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), with x's sign. */
TALC_ALWAYS_INLINE float talc_cpu_tanh(float x)
{
    const uint32_t sign = talc_cpu_bits_of_float(x) & 0x80000000;
    const float e = talc_cpu_expm1(-2 * fabsf(x));
    return talc_cpu_float_of_bits(talc_cpu_bits_of_float(fabsf(e / (2 + e))) | sign);
}

/* erfc(a) e^(a a), of polynomials whose coefficients are positive, so that roundings do not
 * grow. */
TALC_ALWAYS_INLINE float talc_cpu_erfc_quotient(float a)
{
    const float p =
        1 + a * (0x1.334b28p+0f + a * (0x1.62335cp-1f + a * (0x1.ae9f8ep-3f + a * 0x1.d84bfap-6f)));
    const float q =
        1 + a * (0x1.2a145p+1f +
                 a * (0x1.28e576p+1f +
                      a * (0x1.404646p+0f + a * (0x1.7dad0ep-2f + a * 0x1.a28d18p-5f))));
    return p / q;
}

/* 0 from 10.1 up. The square of a = |x| is exact but for the last rounding: that of a's first
 * twelve bits, and the difference of both squares. */
TALC_ALWAYS_INLINE float talc_cpu_erfc(float x)
{
    const float a = fabsf(x) > 10.1f ? 10.1f : fabsf(x);
    const float first = talc_cpu_float_of_bits(talc_cpu_bits_of_float(a) & 0xfffff000);
    const talc_cpu_exponential e =
        talc_cpu_exponential_of(-first * first, (a - first) * (a + first));
    const float tail = talc_cpu_exponential_value(e, talc_cpu_erfc_quotient(a));
    return x < 0 ? 2 - tail : tail;
}

/* Twice the slope of gelu, by one exponential: e^(-x x / 2) of both terms. */
TALC_ALWAYS_INLINE float talc_cpu_gelu_twice_slope(float x)
{
    const float a = fabsf(x) > 14.3f ? 10.1f : fabsf(x) * 0x1.6a09e6p-1f;
    const float e = talc_cpu_exp(x * x * -0.5f), tail = e * talc_cpu_erfc_quotient(a);
    return (x < 0 ? tail : 2 - tail) + x * e * 0x1.988454p-1f;
}

/* Below 1 by a polynomial in x^2, whose product with x is added to x, so that its roundings are
 * small; from there on, where erfc is at most 0.16, by that. */
TALC_ALWAYS_INLINE float talc_cpu_erf(float x)
{
    const uint32_t sign = talc_cpu_bits_of_float(x) & 0x80000000;
    const float xx = x * x, x_4 = xx * xx;
    const float p = (-0x1.812746p-2f + 0x1.ce2f08p-4f * xx) +
                    (-0x1.b829c8p-6f + 0x1.562a60p-8f * xx +
                     (-0x1.bccf66p-11f + 0x1.d88750p-14f * xx + -0x1.445f48p-17f * x_4) * x_4) *
                        x_4;
    const float near = x + x * (0x1.06eba8p-3f + xx * p);
    const float far = 1 - talc_cpu_erfc(fabsf(x));
    return fabsf(x) < 1 ? near : talc_cpu_float_of_bits(talc_cpu_bits_of_float(far) | sign);
}

/* x = 2^k m, m from the root of 1/2 to the root of 2, and a polynomial in f = m - 1. A subnormal x
 * is made normal first. */
TALC_ALWAYS_INLINE float talc_cpu_log(float x)
{
    const bool subnormal = x < 0x1p-126f;
    const uint32_t root_half = 0x3f3504f3,
                   bits = talc_cpu_bits_of_float(subnormal ? x * 0x1p24f : x);
    const int32_t k = (int32_t)(bits - root_half) >> 23;
    const float n = (float)(subnormal ? k - 24 : k);
    const float f = talc_cpu_float_of_bits(bits - ((uint32_t)k << 23)) - 1, ff = f * f;
    const float p =
        0x1.555554p-2f + -0x1.000226p-2f * f + (0x1.99a008p-3f + -0x1.547246p-3f * f) * ff +
        (0x1.22da20p-3f + -0x1.0d8540p-3f * f + (0x1.055b5ap-3f + -0x1.38b564p-4f * f) * ff) *
            (ff * ff);
    const float y = n * 0x1.63p-1f + (f + (p * f * ff - 0.5f * ff - n * 0x1.bd0106p-13f));
    return x > 0 ? x < INFINITY ? y : x : x == 0 ? -INFINITY : NAN;
}

/* Of x from 0 to 1, as e^-|x| is, or NaN. */
TALC_ALWAYS_INLINE float talc_cpu_log1p(float x)
{
    const float xx = x * x, x_4 = xx * xx;
    const float p = -0x1.ffffbep-2f + 0x1.554c80p-2f * x +
                    (-0x1.ff0f8ap-3f + 0x1.92f69ep-3f * x) * xx +
                    (-0x1.397576p-3f + 0x1.b25396p-4f * x +
                     (-0x1.d29d22p-5f + 0x1.453f5ap-6f * x) * xx + -0x1.a933d6p-9f * x_4) *
                        x_4;
    return x + p * xx;
}

#undef exp
#undef expm1
#undef log
#undef log1p
#undef tanh
#undef erf
#undef erfc
#define TALC_CPU_FUNCTION(name, x) _Generic((x), float : talc_cpu_##name, default : (name))(x)
#define exp(x)                     TALC_CPU_FUNCTION(exp, x)
#define expm1(x)                   TALC_CPU_FUNCTION(expm1, x)
#define log(x)                     TALC_CPU_FUNCTION(log, x)
#define log1p(x)                   TALC_CPU_FUNCTION(log1p, x)
#define tanh(x)                    TALC_CPU_FUNCTION(tanh, x)
#define erf(x)                     TALC_CPU_FUNCTION(erf, x)
#define erfc(x)                    TALC_CPU_FUNCTION(erfc, x)

#endif
