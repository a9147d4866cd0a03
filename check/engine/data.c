#include "check/engine/data.h"

#include "check/engine/parallel.h"

#include <math.h>

uint64_t talc_check_bits(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t talc_check_draw(uint64_t *state, int64_t low, int64_t high)
{
    *state += 1;
    return low + (int64_t)(talc_check_bits(*state, 1) % (uint64_t)(high - low + 1));
}

int64_t talc_check_pick(uint64_t *state, const int64_t *list, int64_t count)
{
    return list[talc_check_draw(state, 0, count - 1)];
}

talc_dtype talc_check_draw_float(uint64_t *state)
{
    return talc_check_draw(state, 0, 3) == 0 ? TALC_F64 : TALC_F32;
}

talc_activation talc_check_draw_activation(uint64_t *state)
{
    if (talc_check_draw(state, 0, 2) != 0)
        return TALC_ACTIVATION_NONE;
    return (talc_activation)talc_check_draw(state, TALC_ACTIVATION_RELU, TALC_ACTIVATION_COUNT - 1);
}

check_format talc_check_format(talc_dtype dtype)
{
    switch (dtype) {
    case TALC_F32:
        return (check_format){ 0x1p-24, 0x1p-149, 0x1p-126, 0x1p24 };
    case TALC_F64:
        return (check_format){ 0x1p-53, 0x1p-1074, 0x1p-1022, 0x1p53 };
    case TALC_I64:
    case TALC_I32:
    case TALC_U8:
        return (check_format){ 0, 0, 0, 0 };
    default:
        return (check_format){ NAN, NAN, NAN, NAN };
    }
}

bool talc_check_is_narrow(talc_dtype dtype)
{
    return talc_check_format(dtype).unit > talc_check_format(TALC_F64).unit;
}

double talc_check_rounded(talc_dtype dtype, double value)
{
    if (dtype == TALC_F32)
        return (double)(float)value;
    const bool held = dtype == TALC_F64 || talc_check_format(dtype).unit == 0;
    return held ? value : (double)NAN;
}

double talc_check_cast(talc_dtype from, talc_dtype to, double value)
{
    static const double low[TALC_DTYPE_COUNT] = { [TALC_I64] = -0x1p63, [TALC_I32] = -0x1p31 };
    static const double high[TALC_DTYPE_COUNT] = {
        [TALC_I64] = 0x1p63, [TALC_I32] = 0x1p31 - 1, [TALC_U8] = 255
    };
    if (talc_dtype_is_float(to) || from == to)
        return talc_check_rounded(to, value);
    return isnan(value) ? 0 : fmin(fmax(trunc(value), low[to]), high[to]);
}

double talc_check_shown(double value)
{
    return isnan(value) ? (double)NAN : value;
}

double talc_check_exact_largest(talc_dtype dtype, double K, double max)
{
    const double largest_exact = talc_check_format(dtype).integers;
    double largest = floor(sqrt((largest_exact - 1) / (K < 1 ? 1 : K)));
    return largest < 1 ? 1 : largest > max ? max : largest;
}

/* Uniform in [-1, 1). */
static double uniform(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-52 - 1;
}

/* How much smaller the tiny values of a block are; in every other block they are denormal, which no
 * algorithm may take for zero. */
static double tininess(talc_dtype dtype, int64_t block)
{
    return block % 2 == 0 ? 0x1p-30 : talc_check_format(dtype).normal / 16;
}

static double element(talc_dtype dtype, talc_check_kind kind, double largest, double scale,
                      uint64_t bits, int64_t i)
{
    enum { BINADES = 20, BLOCK = 64 };
    switch (kind) {
    case TALC_CHECK_EXACT:
        return (double)((int64_t)(bits % (uint64_t)(2 * (int64_t)largest + 1)) - (int64_t)largest);
    case TALC_CHECK_CONSTANT:
        return scale / 3;
    case TALC_CHECK_WIDE: /* a fraction of 1 to 2 in the upper bits, sign and exponent in the lower
                           */
        return ldexp((bits & 1) != 0 ? -scale : scale, -1 - (int)(bits / 2 % BINADES)) *
               (1 + (double)(bits >> 12) * 0x1p-52);
    case TALC_CHECK_TINY:
        return uniform(bits) * (i % BLOCK < BLOCK / 2 ? scale * tininess(dtype, i / BLOCK) : scale);
    default:
        return uniform(bits) * scale;
    }
}

typedef struct filling {
    double *values;
    talc_dtype dtype;
    talc_check_kind kind;
    double largest, scale;
    uint64_t seed;
} filling;

static void fill_chunk(void *context, int index, int64_t first, int64_t end)
{
    const filling f = *(const filling *)context;
    (void)index;
    for (int64_t i = first; i < end; i++)
        f.values[i] = talc_check_rounded(f.dtype, element(f.dtype, f.kind, f.largest, f.scale,
                                                          talc_check_bits(f.seed, (uint64_t)i), i));
}

void talc_check_fill(double *values, int64_t count, talc_dtype dtype, talc_check_kind kind,
                     double largest, double scale, uint64_t seed)
{
    const double cost = 5;
    filling all = { values, dtype, kind, largest, scale, seed };
    talc_check_parallel(count, cost, fill_chunk, &all);
    const double odd = kind == TALC_CHECK_HUGE       ? 0x1p30 * scale
                       : kind == TALC_CHECK_NAN      ? NAN
                       : kind == TALC_CHECK_INFINITY ? INFINITY
                                                     : 0;
    if (odd != 0 && count > 0)
        values[talc_check_bits(seed, UINT64_MAX) % (uint64_t)count] = odd;
}

void talc_check_make_small(double *values, int64_t count, talc_dtype dtype, int factors)
{
    const double normal = talc_check_format(dtype).normal;
    const double scale = ldexp(1, factors * (ilogb(normal) * 4 / 9));
    for (int64_t i = 0; i < count; i++)
        if (fabs(values[i]) >= normal)
            values[i] = talc_check_rounded(dtype, values[i] * scale);
}

const double talc_check_apart_large = 0x1p64, talc_check_apart_small = 0x1p-118,
             talc_check_apart_second = 0x1p40, talc_check_apart_added = 0x1p-78;

check_tiny talc_check_draw_tiny(talc_dtype dtype, uint64_t seed)
{
    const uint64_t drawn = talc_check_bits(seed, 9) % 3;
    return drawn == 0                                              ? CHECK_TINY_FILLED
           : drawn == 1 && talc_check_format(dtype).normal < 1e-30 ? CHECK_TINY_APART
                                                                   : CHECK_TINY_SMALL;
}

void talc_check_leave_zero(double *values, int64_t count, talc_dtype dtype)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = talc_check_rounded(dtype, values[i] / 2 + copysign(0.5, values[i]));
}

void talc_check_scale(double *values, int64_t count, talc_dtype dtype, double scale)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = talc_check_rounded(dtype, values[i] * scale);
}

void talc_check_put_zeros(double *values, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        if (talc_check_bits(seed, (uint64_t)i) % 4 == 0 && fabs(values[i]) < 0x1p20)
            values[i] = 0;
}

void talc_check_fill_integers(double *values, int64_t count, talc_dtype dtype, talc_check_kind kind,
                              uint64_t seed)
{
    uint64_t state = talc_check_bits(seed, 8);
    const bool wide = kind == TALC_CHECK_HUGE;
    for (int64_t i = 0; i < count; i++)
        if (dtype == TALC_U8)
            values[i] = (double)talc_check_draw(&state, 0, wide ? UINT8_MAX : 4);
        else if (dtype == TALC_I32)
            values[i] =
                (double)talc_check_draw(&state, wide ? INT32_MIN : -4, wide ? INT32_MAX : 4);
        else
            values[i] = wide ? (double)talc_check_draw(&state, -(1 << 23), (1 << 23) - 1) * 0x1p40
                             : (double)talc_check_draw(&state, -4, 4);
}

void talc_check_add_nans(double *values, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count / 16; i++)
        values[talc_check_bits(seed, (uint64_t)(count + i)) % (uint64_t)count] = NAN;
}

void talc_check_fill_labels(double *labels, int64_t count, int64_t classes, int64_t ignored,
                            uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = talc_check_bits(seed, (uint64_t)i);
        labels[i] = bits % 7 == 3 ? (double)ignored : (double)((bits >> 8) % (uint64_t)classes);
    }
}

void talc_check_fill_class_weights(double *weights, int64_t classes, uint64_t seed)
{
    for (int64_t j = 0; j < classes; j++)
        weights[j] = (double)(talc_check_bits(seed, (uint64_t)j) % 257) / 128;
}
