/* Every op on more than 2^31 elements, on a device that has the memory. Operands are small
 * integers, so that results are exact wherever they are sampled: at both ends, around 2^30, 2^31
 * and 2^32, and at some places between. What results come from is read back element by element, and
 * worked out in float64 on the host. */
#include "tests/support/hooks.h"

#include <math.h>

enum { SAMPLES = 48, SIDE = 8200, PLANE = SIDE * SIDE, IMAGES = 4, CHANNELS = 8, ROW = 1024 };

static const int64_t COUNT = (int64_t)IMAGES * CHANNELS * PLANE; /* 2^31 + 4,196,352 */

/* Where results are looked at: sample i of `count`. */
static int64_t sample(int64_t count, int i)
{
    static const int64_t edges[] = { (INT64_C(1) << 30),     (INT64_C(1) << 31) - 1,
                                     (INT64_C(1) << 31),     (INT64_C(1) << 31) + 1,
                                     (INT64_C(1) << 32) - 1, (INT64_C(1) << 32) };
    enum { EDGES = sizeof edges / sizeof *edges };
    if (i < EDGES && edges[i] < count)
        return edges[i];
    if (i < EDGES + 2)
        return i % 2 == 0 ? 0 : count - 1;
    const uint64_t mixed = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
    return (int64_t)((mixed ^ mixed >> 29) % (uint64_t)count);
}

static double element(const talc_tensor *tensor, int64_t i)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *flat = talc_view(tensor, TALC_DIMS(talc_numel(tensor)));
    const double value = talc_item(talc_select(flat, 0, i));
    talc_scope_leave(scope);
    assert_no_failure();
    return value;
}

static void put(talc_tensor *tensor, int64_t i, double value)
{
    talc_tensor *flat = talc_view(tensor, TALC_DIMS(talc_numel(tensor)));
    cr_assert(talc_fill(talc_slice(flat, 0, i, i + 1, 1), value));
}

/* 0 to 8. */
static talc_tensor *integers(talc_dims dims, uint64_t seed)
{
    talc_manual_seed(seed);
    talc_tensor *bytes = talc_randint(tested_device(), TALC_U8, dims, 0, 9);
    talc_tensor *x = talc_cast(bytes, TALC_F32);
    talc_release(bytes);
    cr_assert(x != NULL, "%s", talc_error_message());
    return x;
}

/* A result's memory comes from the pool, where an earlier right one may lie: NaN takes its
 * place. */
static void poison(int64_t count)
{
    talc_release(talc_full(tested_device(), TALC_F32, TALC_DIMS(count), (double)NAN));
    assert_no_failure();
}

#define assert_is(y, i, expected)                                                                  \
    do {                                                                                           \
        const double got_ = element(y, i), expected_ = (expected);                                 \
        cr_assert(got_ == expected_, "element %lld is %g, expected %g", (long long)(i), got_,      \
                  expected_);                                                                      \
    } while (0)

// ---- Convolution --------------------------------------------------------------------------------

static double conv2d_expected(const talc_conv2d_problem *p, const talc_tensor *x,
                              const talc_tensor *w, int64_t index)
{
    const int64_t ow = index % p->OW, oh = index / p->OW % p->OH,
                  oc = index / p->OW / p->OH % p->OC;
    const int64_t n = index / p->OW / p->OH / p->OC, C = p->C / p->groups;
    const int64_t first = n * p->C + oc / (p->OC / p->groups) * C;
    double sum = 0;
    for (int64_t c = 0; c < C; c++)
        for (int64_t kh = 0; kh < p->KH; kh++)
            for (int64_t kw = 0; kw < p->KW; kw++) {
                const int64_t h = oh - p->pad_top + kh, v = ow - p->pad_left + kw;
                if (h >= 0 && h < p->H && v >= 0 && v < p->W)
                    sum += element(x, ((first + c) * p->H + h) * p->W + v) *
                           element(w, ((oc * C + c) * p->KH + kh) * p->KW + kw);
            }
    return sum;
}

/* Every algorithm that takes the problem: samples of its result, and all of it against the first
 * algorithm's. */
static void expect_convolution(const char *text)
{
    talc_device *device = tested_device();
    talc_conv2d_problem p;
    talc_conv2d_explanation explanation;
    talc_scope *scope = talc_scope_enter();
    cr_assert(talc_conv2d_problem_parse(text, &p), "%s", talc_error_message());
    cr_assert(talc_conv2d_explain(device, &p, NULL, &explanation));
    const talc_tensor *x = integers(TALC_DIMS(p.N, p.C, p.H, p.W), 1);
    const talc_tensor *w = talc_sub(integers(TALC_DIMS(p.OC, p.C / p.groups, p.KH, p.KW), 2),
                                    talc_full(device, TALC_F32, TALC_DIMS(1), 4));
    const int64_t count = p.N * p.OC * p.OH * p.OW;
    double expected[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        expected[i] = conv2d_expected(&p, x, w, sample(count, i));
    talc_tensor *first = NULL;
    for (int algorithm = 0; algorithm < explanation.decision.count; algorithm++) {
        if (explanation.decision.candidates[algorithm].refused)
            continue;
        talc_scope *run = talc_scope_enter();
        poison(count);
        talc_tensor *y =
            talc_conv2d(x, w, NULL,
                        &(talc_conv2d_options){
                            .padding = { p.pad_top, p.pad_left },
                            .groups = p.groups,
                            .algorithm = explanation.decision.candidates[algorithm].title });
        cr_assert(y != NULL, "%s by %s: %s", text, explanation.decision.candidates[algorithm].title,
                  talc_error_message());
        for (int i = 0; i < SAMPLES; i++)
            cr_assert(element(y, sample(count, i)) == expected[i],
                      "%s by %s: element %lld is %g, expected %g", text,
                      explanation.decision.candidates[algorithm].title, (long long)sample(count, i),
                      element(y, sample(count, i)), expected[i]);
        if (first != NULL) {
            const talc_tensor *off = talc_sub(y, first);
            const double max =
                talc_item(talc_max(talc_mul(off, off), TALC_DIMS(0, 1, 2, 3), false));
            cr_assert(max == 0, "%s by %s: off the first row by %g", text,
                      explanation.decision.candidates[algorithm].title, sqrt(max));
        }
        first = first == NULL ? talc_retain(y) : first;
        talc_scope_leave(run);
        cr_log_info("%s by %s", text, explanation.decision.candidates[algorithm].title);
    }
    cr_assert(first != NULL, "%s: no algorithm takes it", text);
    talc_release(first);
    talc_scope_leave(scope);
    talc_memory_trim(device);
}

/* Input, output and im2col matrix have more than 2^31 elements each; of the last ones a single
 * plane has. */
Test(large_device, convolutions)
{
    static const char *const texts[] = {
        "n4c8h8200w8200o8k3x3p1x1",   "n4c8h8200w8200o8k1x1",   "n4c8h8200w8200o8k3x3p1x1g8",
        "n1c1h46400w46400o1k3x3p1x1", "n1c1h3w720000000o1k2x3",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_convolution(texts[i]);
}

// ---- Elements -----------------------------------------------------------------------------------

Test(large_device, elementwise)
{
    const talc_tensor *x = integers(TALC_DIMS(COUNT), 1), *b = integers(TALC_DIMS(COUNT), 2);
    const talc_tensor *few = integers(TALC_DIMS(CHANNELS, 1), 3);
    poison(COUNT);
    const talc_tensor *y = talc_neg(x);
    for (int i = 0; i < SAMPLES; i++)
        assert_is(y, sample(COUNT, i), -element(x, sample(COUNT, i)));
    talc_release((talc_tensor *)y);
    poison(COUNT);
    y = talc_mul(x, b);
    for (int i = 0; i < SAMPLES; i++)
        assert_is(y, sample(COUNT, i), element(x, sample(COUNT, i)) * element(b, sample(COUNT, i)));
    talc_release((talc_tensor *)y);
    poison(COUNT);
    y = talc_sub(talc_view(x, TALC_DIMS(IMAGES, CHANNELS, PLANE)), few);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(COUNT, i);
        assert_is(y, at, element(x, at) - element(few, at / PLANE % CHANNELS));
    }
}

static double relu_expected(double x, double b)
{
    (void)b;
    return x > 0 ? x : 0;
}

static double sigmoid_expected(double x, double b)
{
    (void)b;
    return 1 / (1 + exp(-x));
}

static double sum_expected(double x, double b)
{
    return x + b;
}

static double quotient_expected(double x, double b)
{
    return x / b;
}

/* 0 to 8 and `by`, for the caller to release; of what leads there nothing is kept. */
static talc_tensor *shifted(double by, talc_dtype dtype, uint64_t seed)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_cast(integers(TALC_DIMS(COUNT), seed), dtype);
    talc_tensor *y = talc_retain(talc_add_scalar(x, by));
    talc_scope_leave(scope);
    talc_memory_trim(tested_device());
    return y;
}

/* More of the elementwise ops, of f32 and of f64, on -4 to 4 and 1 to 9. */
Test(large_device, elementwise_values)
{
    const struct {
        talc_tensor *(*of_one)(const talc_tensor *);
        talc_tensor *(*of_two)(const talc_tensor *, const talc_tensor *);
        double (*expected)(double, double);
    } ops[] = { { talc_relu, NULL, relu_expected },
                { talc_sigmoid, NULL, sigmoid_expected },
                { NULL, talc_add, sum_expected },
                { NULL, talc_div, quotient_expected } };
    for (int f64 = 0; f64 < 2; f64++) {
        const talc_dtype dtype = f64 ? TALC_F64 : TALC_F32;
        talc_tensor *x = shifted(-4, dtype, 1), *b = shifted(1, dtype, 2);
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
            poison(f64 ? 2 * COUNT : COUNT);
            talc_tensor *y = ops[k].of_one != NULL ? ops[k].of_one(x) : ops[k].of_two(x, b);
            for (int i = 0; i < SAMPLES; i++) {
                const int64_t at = sample(COUNT, i);
                const double expected = ops[k].expected(element(x, at), element(b, at));
                cr_assert(fabs(element(y, at) - expected) <=
                              8 * (f64 ? 0x1p-53 : 0x1p-24) * fabs(expected),
                          "op %d: element %lld is %g, expected %g", (int)k, (long long)at,
                          element(y, at), expected);
            }
            talc_release(y);
        }
        talc_release(x);
        talc_release(b);
    }
}

/* All are in [0, 1), and they are not those of a part over and over. */
Test(large_device, random_numbers)
{
    talc_manual_seed(3);
    poison(COUNT);
    const talc_tensor *x = talc_rand(tested_device(), TALC_F32, TALC_DIMS(COUNT));
    cr_assert(element(talc_max(x, TALC_DIMS(0), false), 0) < 1);
    cr_assert(element(talc_max(talc_neg(x), TALC_DIMS(0), false), 0) <= 0);
    cr_assert(fabs(element(talc_mean(x, TALC_DIMS(0), false), 0) - 0.5) < 1e-3);
    int same = 0;
    for (int i = 0; i < SAMPLES; i++)
        same += element(x, i) == element(x, COUNT / 2 + i);
    cr_assert(same <= 1, "%d of %d numbers stand in two places", same, SAMPLES);
}

Test(large_device, copies)
{
    const talc_tensor *x = integers(TALC_DIMS(COUNT), 1);
    const int64_t rows = COUNT / SIDE;
    poison(COUNT);
    talc_tensor *y = talc_contiguous(talc_transpose(talc_view(x, TALC_DIMS(rows, SIDE)), 0, 1));
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(COUNT, i);
        assert_is(y, at, element(x, at % rows * SIDE + at / rows));
    }
    talc_release(y);
    y = talc_cast(x, TALC_F64);
    for (int i = 0; i < SAMPLES; i++)
        assert_is(y, sample(COUNT, i), element(x, sample(COUNT, i)));
    talc_release(y);
    poison(2 * COUNT);
    y = talc_concat((const talc_tensor *const[]){ x, talc_neg(x) }, 2, 0);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(2 * COUNT, i);
        assert_is(y, at, at < COUNT ? element(x, at) : -element(x, at - COUNT));
    }
    cr_assert(talc_fill(talc_slice(y, 0, 1, TALC_END, 2), 77));
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(COUNT, i);
        assert_is(y, at, at % 2 == 1 ? 77 : element(x, at));
    }
}

// ---- Windows, rows and channels -----------------------------------------------------------------

/* Largest and mean of 3x3, with x as planes of side by side. */
static void check_threes(const talc_tensor *x, int64_t side)
{
    const talc_pool2d_options three = { .kernel = { 3, 3 },
                                        .stride = { 1, 1 },
                                        .padding = { 1, 1 } };
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *planes = talc_view(x, TALC_DIMS(COUNT / side / side, 1, side, side));
    poison(COUNT);
    const talc_tensor *max = talc_max_pool2d(planes, &three);
    poison(COUNT);
    const talc_tensor *mean = talc_avg_pool2d(planes, &three);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(COUNT, i), h = at / side % side, w = at % side;
        double largest = -1, sum = 0;
        for (int64_t k = 0; k < 9; k++)
            if (h + k / 3 - 1 >= 0 && h + k / 3 - 1 < side && w + k % 3 - 1 >= 0 &&
                w + k % 3 - 1 < side) {
                const double value = element(x, at + (k / 3 - 1) * side + k % 3 - 1);
                largest = fmax(largest, value);
                sum += value;
            }
        assert_is(max, at, largest);
        cr_assert(fabs(element(mean, at) - sum / 9) <= 2 * 0x1p-24 * sum / 9);
    }
}

/* Means of 16x16 planes to 7x7: windows begin at floor(16 o / 7) and end at ceil(16 (o + 1) /
 * 7). */
static void check_adaptive(const talc_tensor *x)
{
    const int64_t planes = COUNT / 256, count = planes * 49;
    owned_scope *scope = talc_scope_enter();
    poison(count);
    const talc_tensor *y =
        talc_adaptive_avg_pool2d(talc_view(x, TALC_DIMS(planes, 1, 16, 16)), 7, 7);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(count, i), oh = at / 7 % 7, ow = at % 7;
        const int64_t top = oh * 16 / 7, bottom = ((oh + 1) * 16 + 6) / 7;
        const int64_t left = ow * 16 / 7, right = ((ow + 1) * 16 + 6) / 7;
        double sum = 0;
        for (int64_t h = top; h < bottom; h++)
            for (int64_t w = left; w < right; w++)
                sum += element(x, at / 49 * 256 + h * 16 + w);
        const double expected = sum / (double)((bottom - top) * (right - left));
        cr_assert(fabs(element(y, at) - expected) <= 4 * 0x1p-24 * expected,
                  "element %lld is %g, expected %g", (long long)at, element(y, at), expected);
    }
}

Test(large_device, pooling)
{
    const talc_tensor *x = integers(TALC_DIMS(IMAGES, CHANNELS, SIDE, SIDE), 1);
    const talc_pool2d_options two = { .kernel = { 2, 2 } };
    talc_tensor *indices;
    poison(COUNT);
    const talc_tensor *max = talc_max_pool2d_indices(x, &two, &indices);
    const talc_tensor *mean = talc_avg_pool2d(x, &two);
    const int64_t half = SIDE / 2, count = COUNT / 4;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(count, i), plane = at / half / half;
        const int64_t first = at / half % half * 2 * SIDE + at % half * 2;
        double largest = -1, sum = 0, where = -1;
        for (int64_t k = 0; k < 4; k++) {
            const int64_t in_plane = first + k / 2 * SIDE + k % 2;
            const double value = element(x, plane * PLANE + in_plane);
            where = value > largest ? (double)in_plane : where;
            largest = fmax(largest, value);
            sum += value;
        }
        assert_is(max, at, largest);
        assert_is(indices, at, where);
        assert_is(mean, at, sum / 4);
    }
    check_threes(x, SIDE);
    check_threes(x, 4);
    check_threes(x, 5);
    check_adaptive(x);
    const talc_tensor *whole = talc_adaptive_avg_pool2d(
        talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 1, SIDE, SIDE)), 1, 1);
    cr_assert(fabs(element(whole, 0) - 1) < 1e-5);
}

Test(large_device, softmax_and_normalisation)
{
    const int64_t rows = COUNT / ROW;
    const talc_tensor *x = integers(TALC_DIMS(COUNT), 1);
    poison(COUNT);
    talc_tensor *y = talc_softmax(talc_view(x, TALC_DIMS(rows, ROW)), 1);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(rows * ROW, i);
        double sum = 0;
        for (int64_t j = 0; j < ROW; j++)
            sum += exp(element(x, at / ROW * ROW + j) - 8);
        const double expected = exp(element(x, at) - 8) / sum;
        cr_assert(fabs(element(y, at) - expected) <= (4 + 8 + 2 * sqrt(ROW)) * 0x1p-24 * expected);
    }
    talc_release(y);
    poison(COUNT);
    y = talc_log_softmax(talc_view(x, TALC_DIMS(rows, ROW)), 1);
    const talc_tensor *labels = talc_randint(tested_device(), TALC_I64, TALC_DIMS(rows), 0, ROW);
    const talc_tensor *loss =
        talc_cross_entropy_with(talc_view(x, TALC_DIMS(rows, ROW)), labels,
                                &(talc_cross_entropy_options){ .reduction = TALC_REDUCTION_NONE });
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t row = sample(rows, i), label = (int64_t)element(labels, row);
        double sum = 0;
        for (int64_t j = 0; j < ROW; j++)
            sum += exp(element(x, row * ROW + j) - 8);
        const double expected = element(x, row * ROW + label) - 8 - log(sum);
        cr_assert(fabs(element(y, row * ROW + label) - expected) < 1e-5);
        cr_assert(fabs(element(loss, row) + expected) < 1e-5, "row %lld: %g, expected %g",
                  (long long)row, element(loss, row), -expected);
    }
    talc_release(y);

    talc_device *device = tested_device();
    const talc_tensor *image = talc_view(x, TALC_DIMS(IMAGES, CHANNELS, SIDE, SIDE));
    talc_tensor *mean = talc_full(device, TALC_F32, TALC_DIMS(CHANNELS), 3);
    talc_tensor *var = talc_full(device, TALC_F32, TALC_DIMS(CHANNELS), 4);
    poison(COUNT);
    y = talc_batch_norm2d(image, NULL, NULL, mean, var,
                          &(talc_batch_norm2d_options){ .eps = TALC_ZERO });
    for (int i = 0; i < SAMPLES; i++)
        assert_is(y, sample(COUNT, i), (element(x, sample(COUNT, i)) - 3) / 2);
    talc_release(y);
    poison(COUNT);
    y = talc_batch_norm2d(image, NULL, NULL, mean, var,
                          &(talc_batch_norm2d_options){ .training = true, .momentum = 1 });
    /* 0 to 8 with equal chance: mean 4, variance 20 / 3, of 2.7e8 numbers. */
    for (int64_t c = 0; c < CHANNELS; c++)
        cr_assert(fabs(element(mean, c) - 4) < 1e-3 && fabs(element(var, c) - 20.0 / 3) < 4e-3,
                  "%g, %g", element(mean, c), element(var, c));
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(COUNT, i), c = at / PLANE % CHANNELS;
        const double expected = (element(x, at) - element(mean, c)) / sqrt(element(var, c) + 1e-5);
        cr_assert(fabs(element(y, at) - expected) < 1e-5, "%g, expected %g", element(y, at),
                  expected);
    }
}

// ---- Reductions and products --------------------------------------------------------------------

Test(large_device, reductions)
{
    talc_tensor *x = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(COUNT));
    const int64_t far = (INT64_C(1) << 31) + 123457, last = COUNT - 1;
    put(x, 5, 1);
    put(x, far, 3);
    put(x, last, 2);
    cr_assert(element(talc_sum(x, TALC_DIMS(0), false), 0) == 6);
    cr_assert(element(talc_max(x, TALC_DIMS(0), false), 0) == 3);
    const talc_tensor *where = talc_argmax(x, TALC_DIMS(0), false);
    cr_assert(talc_item_i64(where) == far, "%lld", (long long)talc_item_i64(where));

    /* Few long rows, many short ones, and columns. */
    const int64_t rows = COUNT / SIDE;
    const talc_tensor *lines = talc_view(x, TALC_DIMS(rows, SIDE));
    const talc_tensor *sums = talc_sum(lines, TALC_DIMS(1), false);
    const talc_tensor *columns = talc_sum(lines, TALC_DIMS(0), false);
    const talc_tensor *argmax = talc_argmax(lines, TALC_DIMS(1), false);
    cr_assert(element(sums, 0) == 1 && element(sums, far / SIDE) == 3 &&
              element(sums, rows - 1) == 2 && element(sums, 1) == 0);
    cr_assert(element(columns, 5) == 1 && element(columns, far % SIDE) == 3 &&
              element(columns, SIDE - 1) == 2);
    cr_assert(element(argmax, far / SIDE) == (double)(far % SIDE));
    const talc_tensor *largest = talc_max(lines, TALC_DIMS(1), false);
    const talc_tensor *means = talc_mean(lines, TALC_DIMS(0), false);
    cr_assert(element(largest, far / SIDE) == 3 && element(largest, rows - 1) == 2);
    cr_assert(fabs(element(means, far % SIDE) * (double)rows - 3) < 1e-6);
    const talc_tensor *halves =
        talc_argmax(talc_view(x, TALC_DIMS(2, COUNT / 2)), TALC_DIMS(1), false);
    cr_assert(element(halves, 0) == 5 && element(halves, 1) == (double)(far - COUNT / 2));
}

/* 65,537 x 40,000 results, and the same with a bias. */
Test(large_device, products)
{
    const int64_t M = 65537, N = 40000, K = 24;
    const talc_tensor *a = integers(TALC_DIMS(M, K), 1), *b = integers(TALC_DIMS(N, K), 2);
    const talc_tensor *bias = integers(TALC_DIMS(N), 3);
    poison(M * N);
    const talc_tensor *y = talc_matmul(a, talc_contiguous(talc_transpose(b, 0, 1)));
    poison(M * N);
    const talc_tensor *biased = talc_linear(a, b, bias, NULL);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(M * N, i), m = at / N, n = at % N;
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += element(a, m * K + k) * element(b, n * K + k);
        assert_is(y, at, sum);
        assert_is(biased, at, sum + element(bias, n));
    }
}

/* Eight million products of a column and a row, 16 x 16 each. */
Test(large_device, batched_products)
{
    const int64_t batch = COUNT / 256;
    const talc_tensor *a = integers(TALC_DIMS(batch, 16, 1), 1);
    const talc_tensor *b = integers(TALC_DIMS(batch, 1, 16), 2);
    poison(COUNT);
    const talc_tensor *y = talc_matmul(a, b);
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t at = sample(COUNT, i);
        assert_is(y, at, element(a, at / 16) * element(b, at / 256 * 16 + at % 16));
    }
}
