/// exp, expm1, log, log1p, tanh and erfc of f32 as expressions that compilers turn into vector code. Private to backends/cpu.
///
/// To be included in place of <tgmath.h>: these names then mean the functions below where the argument is a float, and the C
/// library's elsewhere. There are neither branches, tables nor fused products, so that a value has the same bits alone, among the last
/// elements of a row and in a vector of any width, a NaN's sign and payload aside. Subnormal numbers are numbers like others. expm1(-0) is
/// 0, and log1p takes numbers from 0 to 1.
///
/// Errors at most, over all floats, in units of the last place: exp 0.91, expm1 1.75, log 0.91, log1p 1.86, tanh 2.5, erfc 0.84.
///
/// The polynomials are minimax fits, by Remez's algorithm. Source of the reduction in two steps: Cody and Waite, "Software manual for
/// the elementary functions", 1980.
#ifndef TALC_BACKENDS_CPU_FUNCTIONS_H
#define TALC_BACKENDS_CPU_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* A call in a loop would not be vector code. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE float talc_cpu_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

ALWAYS_INLINE uint32_t talc_cpu_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ALWAYS_INLINE double talc_cpu_double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

ALWAYS_INLINE uint64_t talc_cpu_bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 2^n of a normal result. */
ALWAYS_INLINE float talc_cpu_power_of_2(int32_t n)
{
    return talc_cpu_float_of_bits((uint32_t)(n + 127) << 23);
}

/* x within the limits; NaN stays NaN. */
ALWAYS_INLINE float talc_cpu_clamped(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* e^x = 2^n (1 + rest), |rest| < 0.42, of |x| up to 104. Adding 1.5 * 2^23 rounds to an integer, which stands in the last bits then. n
 * times the first part of log(2) is exact, and so is what it leaves of x. */
typedef struct talc_cpu_exponential {
    int32_t n;
    float rest;
} talc_cpu_exponential;

ALWAYS_INLINE talc_cpu_exponential talc_cpu_exponential_of(float x)
{
    const float log2_e = 0x1.715476p+0f, to_integer = 0x1.8p23f;
    const float biased = x * log2_e + to_integer, n = biased - to_integer;
    const float first = x - n * 0x1.63p-1f, second = n * 0x1.bd0106p-13f;
    const float r = first + second, rr = r * r;
    const float p = 0x1.fffffcp-2f + 0x1.555490p-3f * r +
                    (0x1.5558f4p-5f + 0x1.123a38p-7f * r + 0x1.6a23b0p-10f * rr) * rr;
    const int32_t bits = (int32_t)(talc_cpu_bits_of_float(biased) - 0x4b400000);
    return (talc_cpu_exponential){ bits, first + (second + p * rr) };
}

/* 0 from -104 down and infinite from 89 up. 2^n in two factors, which are normal where the result is not. */
ALWAYS_INLINE float talc_cpu_exp(float x)
{
    const talc_cpu_exponential e = talc_cpu_exponential_of(talc_cpu_clamped(x, -104, 89));
    const int32_t half = e.n >> 1;
    return (1 + e.rest) * talc_cpu_power_of_2(half) * talc_cpu_power_of_2(e.n - half);
}

/* -1 from -40 down. With half of 2^n, which is finite; where n is 0, this is `rest`, its sign included. */
ALWAYS_INLINE float talc_cpu_expm1(float x)
{
    const talc_cpu_exponential e = talc_cpu_exponential_of(talc_cpu_clamped(x, -40, 89));
    const float half = talc_cpu_power_of_2(e.n - 1);
    return 2 * (half * e.rest - (0.5f - half));
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), with x's sign. */
ALWAYS_INLINE float talc_cpu_tanh(float x)
{
    const uint32_t sign = talc_cpu_bits_of_float(x) & 0x80000000;
    const float e = talc_cpu_expm1(-2 * fabsf(x));
    return talc_cpu_float_of_bits(talc_cpu_bits_of_float(fabsf(e / (2 + e))) | sign);
}

/* e^(-a a) times a polynomial in t = 1 / (1 + 0.35 a), a = |x|; 0 from 10.1 up. In f64, because the roundings of f32 would be six units of
 * the last place. e^(-a a) is 2^(n + f), n as in talc_cpu_exponential_of. */
ALWAYS_INLINE float talc_cpu_erfc(float x)
{
    const double log2_e = 0x1.71547652b82fep+0, to_integer = 0x1.8p52;
    const double a = (double)(fabsf(x) > 10.1f ? 10.1f : fabsf(x)), t = 1 / (1 + 0.35 * a);
    const double t_2 = t * t, t_4 = t_2 * t_2;
    const double p = -0x1.96b03848ff873p-15 + 0x1.96ab0c397f686p-3 * t +
                     (0x1.7e1320aaf5056p-3 + 0x1.fa18f2ce08be1p-3 * t) * t_2 +
                     (-0x1.e7e03689a7f34p-5 + 0x1.4a06826fdbcc9p-1 * t +
                      (-0x1.6a4dc5d7fa984p-1 + 0x1.a1c6a628eefefp-1 * t) * t_2) *
                         t_4 +
                     (-0x1.8fa754df79719p-2 + 0x1.0916ea3ef4839p-4 * t) * (t_4 * t_4);
    const double y = -a * a * log2_e, biased = y + to_integer, f = y - (biased - to_integer),
                 ff = f * f;
    const double power = talc_cpu_double_of_bits((talc_cpu_bits_of_double(biased) + 1023) << 52);
    const double e = 1 + f * (0x1.62e4302eeaf01p-1 + 0x1.ebfbdec2aaf88p-3 * f +
                              (0x1.c6af6e9204111p-5 + 0x1.3b2b9fb574c9ap-7 * f +
                               (0x1.5f07b4d995b01p-10 + 0x1.4308ff616309fp-13 * f) * ff) *
                                  ff);
    const double tail = p * (e * power);
    return (float)(x < 0 ? 2 - tail : tail);
}

/* x = 2^k m, m from the root of 1/2 to the root of 2, and a polynomial in f = m - 1. A subnormal x is made normal first. */
ALWAYS_INLINE float talc_cpu_log(float x)
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
ALWAYS_INLINE float talc_cpu_log1p(float x)
{
    const float xx = x * x, x_4 = xx * xx;
    const float p = -0x1.ffffbep-2f + 0x1.554c80p-2f * x +
                    (-0x1.ff0f8ap-3f + 0x1.92f69ep-3f * x) * xx +
                    (-0x1.397576p-3f + 0x1.b25396p-4f * x +
                     (-0x1.d29d22p-5f + 0x1.453f5ap-6f * x) * xx + -0x1.a933d6p-9f * x_4) *
                        x_4;
    return x + p * xx;
}

#undef ALWAYS_INLINE
#undef exp
#undef expm1
#undef log
#undef log1p
#undef tanh
#undef erfc
#define TALC_CPU_FUNCTION(name, x) _Generic((x), float : talc_cpu_##name, default : (name))(x)
#define exp(x)                     TALC_CPU_FUNCTION(exp, x)
#define expm1(x)                   TALC_CPU_FUNCTION(expm1, x)
#define log(x)                     TALC_CPU_FUNCTION(log, x)
#define log1p(x)                   TALC_CPU_FUNCTION(log1p, x)
#define tanh(x)                    TALC_CPU_FUNCTION(tanh, x)
#define erfc(x)                    TALC_CPU_FUNCTION(erfc, x)

#endif
