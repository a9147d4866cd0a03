#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include "tensor/philox.h"

#include <math.h>
#include <string.h>

/* The generator of the values below, which a Python program without talc computed. */
static const talc_generator KNOWN = { UINT64_C(0x123456789abcdef0), (UINT64_C(7) << 32) + 3 };

enum { KNOWN_COUNT = 6 };
static const int64_t known_index[KNOWN_COUNT] = { 0, 1, 2, 3, 4, 1001 };

Test(random, philox_gives_the_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], word[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t *c = cases[i].counter, *k = cases[i].key;
        talc_philox_block block = talc_philox(
            (uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2], (uint64_t)c[1] << 32 | c[0]);
        for (int lane = 0; lane < 4; lane++)
            cr_assert(block.word[lane] == cases[i].word[lane], "case %zu, word %d", i, lane);
    }
}

Test(random, elements_have_the_defined_values)
{
    static const double uniform32[] = { 0x1.574f66p-1, 0x1.1b9c64p-1, 0x1.476574p-1,
                                        0x1.79204p-6,  0x1.136188p-3, 0x1.660a18p-2 };
    static const double uniform64[] = { 0x1.1b9c65eb574f6p-1, 0x1.79207ee8ecaep-6,
                                        0x1.0a81a53844d86p-1, 0x1.58a58c0f8f924p-3,
                                        0x1.ce6778b6a6bp-9,   0x1.6d21294da0ea2p-1 };
    static const double normal32[] = { -0.8432450610658854, -0.2971840061408912, 0.9358046746764801,
                                       0.13629363381740128, -1.986601504698255,  0.455616755895 };
    static const double normal64[] = {
        1.0755939833507846, 0.15665300402057208, 0.5612802926962455,
        0.995397891072817,  -1.5385915608131533, -0.4866739765035139
    };
    static const int64_t thousand[] = { 548, 18, 515, 163, -2, 708 };
    static const int64_t wide[] = {
        994788598423729111,   -8798764854191932695, 378533936733368628,
        -6119070822021574783, -9158294433155555778, 3931805918877259464
    };
    talc_device *cpu = cpu_device();
    const talc_dims dims = TALC_DIMS(1002);
    talc_generator_set(KNOWN);
    const float *u32 = talc_data(talc_rand(cpu, TALC_F32, dims), TALC_F32);
    talc_generator_set(KNOWN);
    const double *u64 = talc_data(talc_rand(cpu, TALC_F64, dims), TALC_F64);
    talc_generator_set(KNOWN);
    const float *n32 = talc_data(talc_randn(cpu, TALC_F32, dims), TALC_F32);
    talc_generator_set(KNOWN);
    const double *n64 = talc_data(talc_randn(cpu, TALC_F64, dims), TALC_F64);
    talc_generator_set(KNOWN);
    const int64_t *i64 = talc_data(talc_randint(cpu, TALC_I64, dims, -5, 995), TALC_I64);
    talc_generator_set(KNOWN);
    const int32_t *i32 = talc_data(talc_randint(cpu, TALC_I32, dims, -5, 995), TALC_I32);
    talc_generator_set(KNOWN);
    const uint8_t *u8 = talc_data(talc_randint(cpu, TALC_U8, dims, 0, 256), TALC_U8);
    talc_generator_set(KNOWN);
    const int64_t *all =
        talc_data(talc_randint(cpu, TALC_I64, dims, INT64_MIN, INT64_MAX), TALC_I64);
    assert_no_failure();
    for (int k = 0; k < KNOWN_COUNT; k++) {
        const int64_t i = known_index[k];
        cr_assert(u32[i] == uniform32[k], "f32 uniform %d", (int)i);
        cr_assert(u64[i] == uniform64[k], "f64 uniform %d", (int)i);
        cr_assert(n32[i] == (float)normal32[k], "f32 normal %d: %.9g", (int)i, n32[i]);
        cr_assert(fabs(n64[i] - normal64[k]) <= fabs(normal64[k]) * 0x1p-50, "f64 normal %d: %.17g",
                  (int)i, n64[i]);
        cr_assert(i64[i] == thousand[k], "i64 %d", (int)i);
        cr_assert(i32[i] == thousand[k], "i32 %d", (int)i);
        cr_assert(u8[i] == (int)(uniform64[k] * 256), "u8 %d", (int)i);
        cr_assert(all[i] == wide[k], "i64 over its whole range %d", (int)i);
    }
}

/* A Python program that follows the comments of tensor/philox.h step by step, in doubles, gave the
 * hash. */
Test(random, normal_numbers_have_the_bits_that_the_definition_gives)
{
    enum { COUNT = 2000 };
    talc_generator_set(KNOWN);
    talc_tensor *x = talc_randn(cpu_device(), TALC_F64, TALC_DIMS(COUNT));
    const unsigned char *bytes = talc_data(x, TALC_F64);
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a over the little-endian elements */
    for (size_t i = 0; i < COUNT * sizeof(double); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    cr_assert(hash == UINT64_C(0x1b2bb326c96885ed), "%llx", (unsigned long long)hash);
}

Test(random, integer_products_keep_the_high_word)
{
    for (int i = 0; i < 1000; i++) {
        const uint64_t a = talc_philox_pair(talc_philox(1, 2, (uint64_t)i), 0);
        const uint64_t b =
            i < 8 ? UINT64_MAX - (uint64_t)i : talc_philox_pair(talc_philox(1, 2, (uint64_t)i), 1);
        __extension__ typedef unsigned __int128 wide;
        cr_assert(talc_integer_below(a, b) == (uint64_t)((wide)a * b >> 64), "%d", i);
    }
    cr_assert(talc_integer_below(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
    cr_assert(talc_integer_below(0, 5) == 0);
}

/* cos and sin of a whole turn's part u by the identity whose argument is small where the result
 * is. */
static long double exact_cos(long double u, long double turn)
{
    return u < 0.5 ? sinl(turn * (0.25L - u)) : sinl(turn * (u - 0.75L));
}

static long double exact_sin(long double u, long double turn)
{
    return u < 0.25 ? sinl(turn * u) : u < 0.75 ? sinl(turn * (0.5L - u)) : sinl(turn * (u - 1));
}

Test(random, logarithm_and_circle_are_within_two_ulp_of_libm)
{
    const long double two_pi = 8 * atanl(1);
    double worst_log = 0, worst_cos = 0, worst_sin = 0;
    for (uint64_t i = 0; i < 300000; i++) {
        const talc_philox_block block = talc_philox(5, 5, i);
        const double u = talc_uniform53(talc_philox_pair(block, 0));
        /* Uniform numbers, small ones and those close to 1. */
        double x = u + 0x1p-53;
        x = i % 3 == 1 ? ldexp(x, -(int)(i % 50)) : i % 3 == 2 ? 1 - ldexp(u, -(int)(i % 50)) : x;
        double cosine, sine;
        talc_random_cos_sin(u, &cosine, &sine);
        worst_log = fmax(worst_log, ulps(TALC_F64, talc_random_log(x), logl(x)));
        worst_cos = fmax(worst_cos, ulps(TALC_F64, cosine, exact_cos(u, two_pi)));
        worst_sin = fmax(worst_sin, ulps(TALC_F64, sine, exact_sin(u, two_pi)));
    }
    cr_assert(worst_log < 2 && worst_cos < 2 && worst_sin < 2, "worst: log %g, cos %g, sin %g ulp",
              worst_log, worst_cos, worst_sin);
    /* Whole eighths of a turn, where the quadrant changes. */
    for (int eighth = 0; eighth < 8; eighth++) {
        double cosine, sine;
        talc_random_cos_sin(eighth / 8.0, &cosine, &sine);
        cr_assert(fabs(cosine - (double)cosl(two_pi * eighth / 8)) < 3e-16, "cos at %d/8: %.17g",
                  eighth, cosine);
        cr_assert(fabs(sine - (double)sinl(two_pi * eighth / 8)) < 3e-16, "sin at %d/8: %.17g",
                  eighth, sine);
    }
    cr_assert(talc_random_log(1) == 0);
}

static const talc_dtype floats[] = { TALC_F32, TALC_F64 };

/* Elements as doubles, on the host. */
static const double *values(talc_tensor *tensor)
{
    return talc_data(talc_cast(tensor, TALC_F64), TALC_F64);
}

static double correlation(const double *a, const double *b, int64_t n)
{
    double sum_a = 0, sum_b = 0, ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        sum_a += a[i];
        sum_b += b[i];
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = a[i] - sum_a / (double)n, y = b[i] - sum_b / (double)n;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / sqrt(aa * bb);
}

/* Chi-square over equally likely classes, in standard deviations from its mean. */
static double uneven(const double *quantile, int64_t n, int classes)
{
    int64_t count[256] = { 0 };
    for (int64_t i = 0; i < n; i++)
        count[(int)(quantile[i] * classes)]++;
    const double expected_count = (double)n / classes;
    double chi = 0;
    for (int i = 0; i < classes; i++)
        chi += ((double)count[i] - expected_count) * ((double)count[i] - expected_count) /
               expected_count;
    return (chi - (classes - 1)) / sqrt(2.0 * (classes - 1));
}

enum { SAMPLES = 400000 };

static void check_moments(const char *what, const double *x, double mean, double variance,
                          double fourth)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < SAMPLES; i++) {
        sum += x[i] - mean;
        squares += (x[i] - mean) * (x[i] - mean);
    }
    const double mean_error = sum / SAMPLES / sqrt(variance / SAMPLES);
    const double variance_error =
        (squares / SAMPLES - variance) / sqrt((fourth - variance * variance) / SAMPLES);
    cr_assert(fabs(mean_error) < 4, "%s: the mean is off by %g standard errors", what, mean_error);
    cr_assert(fabs(variance_error) < 4, "%s: the variance is off by %g standard errors", what,
              variance_error);
    for (int lag = 1; lag <= 5; lag++) {
        const double r = correlation(x, x + lag, SAMPLES - lag) * sqrt(SAMPLES);
        cr_assert(fabs(r) < 4, "%s: neighbours at %d correlate by %g standard errors", what, lag,
                  r);
    }
}

Test(random, uniform_numbers_are_uniform_and_independent)
{
    for (int d = 0; d < 2; d++) {
        talc_manual_seed(11);
        const double *x = values(talc_rand(cpu_device(), floats[d], TALC_DIMS(SAMPLES)));
        const double *next = values(talc_rand(cpu_device(), floats[d], TALC_DIMS(SAMPLES)));
        talc_manual_seed(12);
        const double *other = values(talc_rand(cpu_device(), floats[d], TALC_DIMS(SAMPLES)));
        assert_no_failure();
        for (int i = 0; i < SAMPLES; i++)
            cr_assert(x[i] >= 0 && x[i] < 1);
        check_moments("uniform", x, 0.5, 1.0 / 12, 1.0 / 80);
        cr_assert(fabs(uneven(x, SAMPLES, 256)) < 4, "uneven by %g", uneven(x, SAMPLES, 256));
        cr_assert(fabs(correlation(x, next, SAMPLES)) * sqrt(SAMPLES) < 4, "calls correlate");
        cr_assert(fabs(correlation(x, other, SAMPLES)) * sqrt(SAMPLES) < 4, "seeds correlate");
        assert_all_freed();
    }
}

Test(random, normal_numbers_are_normal_also_in_their_tails)
{
    for (int d = 0; d < 2; d++) {
        talc_manual_seed(21);
        double *x = talc_data(
            talc_cast(talc_normal(cpu_device(), floats[d], TALC_DIMS(SAMPLES), 2, 3), TALC_F64),
            TALC_F64);
        assert_no_failure();
        check_moments("normal", x, 2, 9, 3 * 81);
        int beyond_3 = 0, beyond_4 = 0;
        double largest = 0;
        for (int i = 0; i < SAMPLES; i++) {
            const double z = (x[i] - 2) / 3;
            beyond_3 += fabs(z) > 3;
            beyond_4 += fabs(z) > 4;
            largest = fmax(largest, fabs(z));
            x[i] = 0.5 * erfc(-z / sqrt(2));
        }
        cr_assert(fabs(uneven(x, SAMPLES, 256)) < 4, "uneven by %g", uneven(x, SAMPLES, 256));
        /* Expected: 1079.9 of 400000, give or take 33, and 25.3, give or take 5. */
        cr_assert(abs(beyond_3 - 1080) < 132, "%d beyond 3 standard deviations", beyond_3);
        cr_assert(abs(beyond_4 - 25) < 20, "%d beyond 4 standard deviations", beyond_4);
        cr_assert(largest > 4.2 && largest < 6.7, "largest %g", largest);
        assert_all_freed();
    }
}

Test(random, the_ends_of_the_generators_range_stay_finite)
{
    double first, second;
    talc_normal_pair32(0, 0, &first, &second);
    cr_assert(first > 6.6 && first < 6.67 && second == 0, "%g", first);
    talc_normal_pair32(UINT32_MAX, UINT32_MAX, &first, &second);
    cr_assert(first == 0 && second == 0);
    talc_normal_pair53(0, 0, &first, &second);
    cr_assert(first > 8.5 && first < 8.58 && second == 0, "%g", first);
    talc_normal_pair53(UINT64_MAX, UINT64_MAX, &first, &second);
    cr_assert(first == 0 && second == 0);
}

Test(random, integers_are_uniform_in_their_range)
{
    static const talc_dtype dtypes[] = { TALC_I64, TALC_I32, TALC_U8 };
    for (int d = 0; d < 3; d++) {
        talc_manual_seed(31);
        double *x = talc_data(
            talc_cast(talc_randint(cpu_device(), dtypes[d], TALC_DIMS(SAMPLES), 3, 10), TALC_F64),
            TALC_F64);
        assert_no_failure();
        check_moments("integers", x, 6, 4, 28);
        for (int i = 0; i < SAMPLES; i++) {
            cr_assert(x[i] >= 3 && x[i] <= 9);
            x[i] = (x[i] - 3) / 7 + 1e-9;
        }
        cr_assert(fabs(uneven(x, SAMPLES, 7)) < 4, "uneven by %g", uneven(x, SAMPLES, 7));
        const double *one = values(talc_randint(cpu_device(), dtypes[d], TALC_DIMS(9), 7, 8));
        for (int i = 0; i < 9; i++)
            cr_assert(one[i] == 7);
        assert_all_freed();
    }
}

Test(random, a_uniform_f32_stays_inside_its_bounds_after_rounding)
{
    /* Each interval has few numbers, or ends that f32 does not hold. */
    static const struct {
        double low, high;
    } cases[] = { { 1, 1 + 0x1p-23 },  { 1, 1 + 0x1p-22 }, { 0.7, 0.7000001 },
                  { -0.3, -0.1 },      { -1, 0 },          { 16777215, 16777217 },
                  { 1, 1.0000000001 }, { 1, 1 + 0x1p-52 }, { -1e-45, 1e-44 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const double *x = values(
            talc_uniform(cpu_device(), TALC_F32, TALC_DIMS(20000), cases[c].low, cases[c].high));
        assert_no_failure();
        for (int i = 0; i < 20000; i++)
            cr_assert(x[i] >= cases[c].low && x[i] < cases[c].high, "case %zu: %.17g", c, x[i]);
        const double *wide = values(
            talc_uniform(cpu_device(), TALC_F64, TALC_DIMS(2000), cases[c].low, cases[c].high));
        for (int i = 0; i < 2000; i++)
            cr_assert(wide[i] >= cases[c].low && wide[i] < cases[c].high, "f64, case %zu: %.17g", c,
                      wide[i]);
    }
}

Test(random, bits_do_not_depend_on_threads_or_on_how_much_is_drawn)
{
    enum { LARGE = 200003 };
    static const talc_dtype dtypes[] = { TALC_F32, TALC_F64, TALC_F32, TALC_F64,
                                         TALC_I64, TALC_I32, TALC_U8 };
    for (int kind = 0; kind < 7; kind++) {
        talc_tensor *drawn[4];
        for (int run = 0; run < 4; run++) {
            const talc_dims dims = TALC_DIMS(run == 3 ? 777 : LARGE);
            talc_set_threads(run == 3 ? 2 : run + 1);
            talc_manual_seed(41);
            drawn[run] = kind < 2   ? talc_rand(cpu_device(), dtypes[kind], dims)
                         : kind < 4 ? talc_randn(cpu_device(), dtypes[kind], dims)
                                    : talc_randint(cpu_device(), dtypes[kind], dims, 0, 200);
        }
        assert_no_failure();
        const void *one = talc_data(drawn[0], dtypes[kind]);
        cr_assert(memcmp(one, talc_data(drawn[1], dtypes[kind]), talc_nbytes(drawn[1])) == 0,
                  "kind %d, 2 threads", kind);
        cr_assert(memcmp(one, talc_data(drawn[2], dtypes[kind]), talc_nbytes(drawn[2])) == 0,
                  "kind %d, 3 threads", kind);
        cr_assert(memcmp(one, talc_data(drawn[3], dtypes[kind]), talc_nbytes(drawn[3])) == 0,
                  "kind %d, a part", kind);
        assert_all_freed();
    }
}

Test(random, a_generator_counts_calls_and_can_be_put_back)
{
    cr_assert(talc_generator_get().seed == 0 && talc_generator_get().call == 0);
    talc_manual_seed(51);
    talc_rand(cpu_device(), TALC_F32, TALC_DIMS(3));
    talc_randn(cpu_device(), TALC_F32, TALC_DIMS(0, 5));
    const talc_generator saved = talc_generator_get();
    cr_assert(saved.seed == 51 && saved.call == 2);
    const float first = (float)talc_item(talc_rand(cpu_device(), TALC_F32, TALC_SCALAR));
    cr_assert(first != (float)talc_item(talc_rand(cpu_device(), TALC_F32, TALC_SCALAR)));
    talc_generator_set(saved);
    cr_assert(first == (float)talc_item(talc_rand(cpu_device(), TALC_F32, TALC_SCALAR)));
    /* A call that fails does not count, and nothing changes while a failure stands. */
    cr_assert_null(talc_rand(cpu_device(), TALC_F32, TALC_DIMS(-1)));
    cr_assert(!talc_manual_seed(9) && talc_generator_get().seed == 51);
    talc_error_clear();
    cr_assert(talc_generator_get().call == 3);
}

Test(random, fill_overwrites_views_in_row_major_order)
{
    talc_tensor *base = talc_full(cpu_device(), TALC_F32, TALC_DIMS(5, 7), 100);
    talc_tensor *view = talc_transpose(talc_slice(base, 1, 1, TALC_END, 2), 0, 1); /* [3,5] */
    talc_manual_seed(61);
    cr_assert(talc_fill_uniform(view, -2, -1));
    talc_manual_seed(61);
    const double *expected = values(talc_uniform(cpu_device(), TALC_F32, TALC_DIMS(3, 5), -2, -1));
    const double *got = values(talc_contiguous(view)), *all = values(base);
    cr_assert(memcmp(expected, got, 15 * sizeof *expected) == 0);
    for (int i = 0; i < 35; i++)
        cr_assert((all[i] == 100) == (i % 7 % 2 == 0), "element %d", i);
    const uint64_t version = talc_version(base);
    cr_assert(talc_fill_normal(base, 4, 0));
    cr_assert(talc_version(base) == version + 1);
    for (int i = 0; i < 35; i++)
        cr_assert(((float *)talc_data(base, TALC_F32))[i] == 4);
}

Test(random, nothing_is_written_behind_the_last_element)
{
    static const talc_dtype dtypes[] = { TALC_F32, TALC_F64, TALC_F32, TALC_F64 };
    for (int kind = 0; kind < 4; kind++)
        for (int64_t n = 0; n < 10; n++) {
            talc_tensor *x = talc_full(cpu_device(), dtypes[kind], TALC_DIMS(20), 100);
            talc_tensor *part = talc_slice(x, 0, 3, 3 + n, 1);
            cr_assert(kind < 2 ? talc_fill_uniform(part, 0, 1) : talc_fill_normal(part, 0, 1));
            const double *all = values(x);
            for (int i = 0; i < 20; i++)
                cr_assert((all[i] == 100) == (i < 3 || i >= 3 + n), "kind %d, %d of %d", kind, i,
                          (int)n);
        }
}
