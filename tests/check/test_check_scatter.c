/* The oracles of the families beside conv2d, over random problems, against each op's formula written the other way round: where
 * the oracle gathers what an output is made from, this scatters what an input goes into. */
#include "tests/support/posed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What outputs must be: [operand][element], as far as the scattering fills them. */
typedef struct scattered {
    long double *value;
    double *size;   /* S */
    int64_t *index; /* of the largest so far; -1: nothing yet */
} scattered;

enum { MOST = 1 << 16, PROBLEMS = 120 };

static scattered scattered_new(void)
{
    scattered self = { calloc(MOST, sizeof(long double)), calloc(MOST, sizeof(double)),
                       calloc(MOST, sizeof(int64_t)) };
    for (int i = 0; i < MOST; i++)
        self.index[i] = -1;
    return self;
}

static void scattered_free(scattered *self)
{
    free(self->value);
    free(self->size);
    free(self->index);
}

/* Number after the first `letter` in the fields behind the colon; `second` after the x. */
static int64_t field(const char *text, char letter, bool second, int64_t absent)
{
    const char *at = strchr(text, ':');
    for (at++; *at != '\0' && *at != '_' && *at != letter; at++)
        ;
    if (*at != letter)
        return absent;
    const long long first = strtoll(at + 1, (char **)&at, 10);
    return second ? strtoll(at + 1, NULL, 10) : first;
}

/* The padding behind the last element: p1x2x3x4 has that of the beginning first, p1x2 is the same at both ends. */
static int64_t padding_end(const char *text, bool second)
{
    const char *at = strstr(strchr(text, ':'), "p");
    long long sides[4] = { 0 };
    if (at == NULL ||
        sscanf(at, "p%lldx%lldx%lldx%lld", &sides[0], &sides[1], &sides[2], &sides[3]) < 4)
        return field(text, 'p', second, 0);
    return sides[second ? 3 : 2];
}

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* Whether element i is in window o, and of which size the window is within the padding. */
typedef struct window_axis {
    bool adaptive;
    int64_t extent, out, kernel, stride, pad, pad_end, dilation;
} window_axis;

static bool in_window(const window_axis *axis, int64_t i, int64_t o)
{
    if (axis->adaptive)
        return (i + 1) * axis->out > o * axis->extent && i * axis->out < (o + 1) * axis->extent;
    const int64_t t = i + axis->pad - o * axis->stride;
    return t >= 0 && t < axis->kernel * axis->dilation && t % axis->dilation == 0;
}

static int64_t window_size(const window_axis *axis, int64_t o, bool exclude)
{
    int64_t inside = 0;
    for (int64_t i = 0; i < axis->extent; i++)
        inside += in_window(axis, i, o);
    const int64_t rest = axis->extent + axis->pad + axis->pad_end - o * axis->stride;
    return exclude || axis->adaptive ? inside : axis->kernel < rest ? axis->kernel : rest;
}

static void keep_larger(scattered *into, int64_t at, double value, int64_t index, bool last_nan)
{
    const double most = (double)into->value[at];
    const bool first = into->index[at] < 0;
    if (first || value > most || (isnan(value) && (last_nan || !isnan(most)))) {
        into->value[at] = value;
        into->index[at] = index;
    }
}

static void scatter_pool(const char *text, const posed *self, scattered *into)
{
    const bool adaptive = has(text, "adaptive"), max = has(text, "max");
    const int64_t *x = self->list[0].dims, *y = self->list[1].dims;
    const window_axis h = { adaptive,
                            x[2],
                            y[2],
                            field(text, 'k', false, 0),
                            field(text, 's', false, 0),
                            field(text, 'p', false, 0),
                            padding_end(text, false),
                            field(text, 'd', false, 1) };
    const window_axis w = { adaptive,
                            x[3],
                            y[3],
                            field(text, 'k', true, 0),
                            field(text, 's', true, 0),
                            field(text, 'p', true, 0),
                            padding_end(text, true),
                            field(text, 'd', true, 1) };
    const char *word = strstr(text, "_divisor");
    const double fixed = word == NULL ? 0 : strtod(word + 8, NULL);
    for (int64_t i = 0; max && i < self->list[1].count; i++)
        into->value[i] = -INFINITY;
    for (int64_t i = 0; i < self->list[0].count; i++) {
        const int64_t iw = i % x[3], ih = i / x[3] % x[2], plane = i / x[3] / x[2];
        for (int64_t o = 0; o < y[2] * y[3]; o++) {
            const int64_t oh = o / y[3], ow = o % y[3], at = plane * y[2] * y[3] + o;
            if (!in_window(&h, ih, oh) || !in_window(&w, iw, ow))
                continue;
            const double value = self->values.of[0][i];
            if (max) {
                keep_larger(into, at, value, ih * x[3] + iw, true);
                continue;
            }
            const bool exclude = has(text, "_exclude");
            const double D =
                fixed > 0 ? fixed
                          : (double)(window_size(&h, oh, exclude) * window_size(&w, ow, exclude));
            into->value[at] += value / (long double)D;
            into->size[at] += fabs(value) / D;
        }
    }
}

static void activate(const char *text, int64_t count, scattered *into)
{
    for (int64_t i = 0; i < count; i++) {
        const long double x = into->value[i];
        if (has(text, "_relu") && x < 0)
            into->value[i] = 0;
        else if (has(text, "_sigmoid"))
            into->value[i] = x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
        else if (has(text, "_tanh"))
            into->value[i] = x < 0 ? expm1l(2 * x) / (expm1l(2 * x) + 2)
                                   : -expm1l(-2 * x) / (expm1l(-2 * x) + 2);
    }
}

/* One rank-1 product after the other. */
static void scatter_matmul(const char *text, const posed *self, scattered *into)
{
    const int64_t B = field(text, 'b', false, 1), M = field(text, 'm', false, 0);
    const int64_t N = field(text, 'n', false, 0), K = field(text, 'k', false, 0);
    const int64_t gap = has(text, "_gaps") ? 3 : 0;
    const bool ta = has(text, "_ta") && !(has(text, "_tanh") && strstr(text, "_ta")[3] == 'n');
    const bool tb = has(text, "_tb");
    const int bias = 2, residual = 3, y = 4;
    for (int64_t k = 0; k < K; k++)
        for (int64_t i = 0; i < self->list[y].count; i++) {
            const int64_t n = i % N, m = i / N % M, b = i / N / M;
            const int64_t a_rows = ta ? K : M, a_row = (ta ? M : K) + gap;
            const int64_t b_rows = tb ? N : K, b_row = (tb ? K : N) + gap;
            const int64_t a_at = (has(text, "_onea") || B == 1 ? 0 : b) * a_rows * a_row +
                                 (ta ? k * a_row + m : m * a_row + k);
            const int64_t b_at = (has(text, "_oneb") || B == 1 ? 0 : b) * b_rows * b_row +
                                 (tb ? n * b_row + k : k * b_row + n);
            const long double term =
                (long double)self->values.of[0][a_at] * self->values.of[1][b_at];
            into->value[i] += term;
            into->size[i] += (double)fabsl(term);
        }
    for (int64_t i = 0; i < self->list[y].count; i++)
        for (int operand = bias; operand <= residual; operand++)
            if (self->values.of[operand] != NULL) {
                const double value = self->values.of[operand][operand == bias ? i % N : i];
                into->value[i] += value;
                into->size[i] += fabs(value);
            }
    activate(text, self->list[y].count, into);
}

/* Dimensions of x into dims; which are reduced, or the softmax's, into axes. Returns the rank. */
static int read_shape(const char *text, int64_t dims[8], bool axes[8])
{
    const char *at = strchr(text, ':') + 1;
    int rank = 0;
    for (; *at >= '0' && *at <= '9'; at += *at == 'x')
        dims[rank++] = strtoll(at, (char **)&at, 10);
    for (int i = 0; i < 8; i++)
        axes[i] = *at != '@';
    for (; *at == '@' || *at == ',';)
        axes[strtoll(at + 1, (char **)&at, 10)] = true;
    return rank;
}

/* Each stored element into its output; `along` counts an index of the axes, `rest` of the other dimensions. */
static void place_of(int rank, const int64_t dims[8], const bool axes[8], bool reversed,
                     int64_t stored, int64_t *along, int64_t *rest)
{
    int64_t index[8];
    for (int j = rank - 1; j >= 0; j--) {
        const int i = reversed ? rank - 1 - j : j;
        index[i] = stored % dims[i];
        stored /= dims[i];
    }
    *along = *rest = 0;
    for (int i = 0; i < rank; i++)
        *(axes[i] ? along : rest) = *(axes[i] ? along : rest) * dims[i] + index[i];
}

static void scatter_reduce(const char *text, const posed *self, scattered *into)
{
    int64_t dims[8], along, rest;
    bool axes[8];
    const int rank = read_shape(text, dims, axes);
    const bool mean = has(text, "mean"), sum = has(text, "sum") || mean;
    const double K = (double)self->list[0].count / (double)self->list[1].count;
    /* Backwards through memory; the earlier of equal ones is kept by its place. */
    for (int64_t i = self->list[0].count - 1; i >= 0; i--) {
        const double value = self->values.of[0][i];
        place_of(rank, dims, axes, has(text, "_reversed"), i, &along, &rest);
        into->size[rest] +=
            sum && talc_dtype_is_float(self->list[0].dtype) ? fabs(value) / (mean ? K : 1) : 0;
        if (sum)
            into->value[rest] += mean ? value / (long double)K : value;
        else if (same(value, (double)into->value[rest]) && into->index[rest] > along)
            into->index[rest] = along;
        else
            keep_larger(into, rest, value, along, false);
        if (!sum && isnan(value) && along < into->index[rest])
            into->index[rest] = along;
    }
}

/* Without the maximum, which changes nothing for small logits. */
static void scatter_softmax(const char *text, const posed *self, scattered *into)
{
    int64_t dims[8], along, rest;
    bool axes[8];
    const int rank = read_shape(text, dims, axes);
    long double *sums = calloc(MOST, sizeof *sums);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < self->list[0].count; i++) {
            const long double x = self->values.of[0][i];
            place_of(rank, dims, axes, has(text, "_reversed"), i, &along, &rest);
            if (pass == 0) {
                sums[rest] += isinf(x) ? NAN : expl(x);
                continue;
            }
            int64_t at, none;
            const bool all[8] = { true, true, true, true, true, true, true, true };
            place_of(rank, dims, all, has(text, "_reversed"), i, &at, &none);
            into->value[at] = has(text, "log") ? x - logl(sums[rest]) : expl(x) / sums[rest];
        }
    free(sums);
}

/* The variance from mean squares, in digits to spare. */
static void scatter_norm(const char *text, const posed *self, scattered *into)
{
    const int64_t C = self->list[0].dims[1], plane = self->list[0].dims[2] * self->list[0].dims[3];
    const int64_t count = self->list[0].count;
    const long double eps = has(text, "_eps0") ? 0 : 0x1p-17L;
    const bool train = has(text, "_train"), plain = has(text, "_plain");
    const int running = 3;
    long double sum[8] = { 0 }, squares[8] = { 0 };
    for (int64_t i = 0; i < count; i++) {
        sum[i / plane % C] += self->values.of[0][i];
        squares[i / plane % C] += (long double)self->values.of[0][i] * self->values.of[0][i];
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i / plane % C;
        const long double M = (long double)count / C;
        const long double mean = train ? sum[c] / M : self->values.of[running][c];
        const long double var =
            train ? squares[c] / M - mean * mean : self->values.of[running + 1][c];
        into->value[i] = (self->values.of[0][i] - mean) * (plain ? 1 : self->values.of[1][c]) /
                             sqrtl(var + eps) +
                         (plain ? 0 : self->values.of[2][c]);
    }
    activate(text, count, into);
}

static void compare(const char *text, const posed *self, const scattered *with, bool sizes)
{
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        if (!talc_check_is_output(&self->list[i]))
            continue;
        const char *name = self->list[i].name;
        const bool index = strcmp(name, "indices") == 0 || has(text, "argmax");
        if (strcmp(name, "y") != 0 && !index)
            continue;
        for (int64_t e = 0; e < self->list[i].count; e++) {
            const check_due due = due_at(self, i, e);
            const long double value = index ? with->index[e] : with->value[e];
            if (due.any || same((double)due.value, (double)value))
                continue;
            cr_assert(fabsl(due.value - value) <= 1e-14L * (due.S + fabsl(value)) +
                                                      1e-6L * due.extra +
                                                      (has(text, "norm")  ? 1e-12L
                                                       : has(text, "log") ? 1e-15L
                                                                          : 0),
                      "%s: %s %d is %.17Lg, not %.17Lg", text, name, (int)e, due.value, value);
            cr_assert(!sizes || !isfinite(value) || fabs(due.S - with->size[e]) <= 1e-13 * due.S,
                      "%s: S %g, not %g", text, due.S, with->size[e]);
        }
    }
}

static void assert_agrees(const check_family *family, bool sizes,
                          void (*scatter)(const char *, const posed *, scattered *))
{
    static const talc_check_kind kinds[] = { TALC_CHECK_RANDOM, TALC_CHECK_EXACT, TALC_CHECK_TINY,
                                             TALC_CHECK_NAN, TALC_CHECK_INFINITY };
    for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
        check_problem problem;
        char text[TALC_CHECK_TEXT];
        talc_check_random(family, seed, &problem);
        posed self = pose(talc_check_write(family, &problem, text));
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (!family->takes(&problem, kinds[i]))
                continue;
            family->fill(&problem, kinds[i], seed, &self.values);
            scattered due = scattered_new();
            scatter(text, &self, &due);
            compare(text, &self, &due, sizes);
            scattered_free(&due);
        }
        talc_check_values_free(&self.values);
    }
    assert_all_freed();
}

Test(check_scatter, pooling_scatters)
{
    assert_agrees(&talc_check_pool2d, true, scatter_pool);
}

Test(check_scatter, products_scatter)
{
    assert_agrees(&talc_check_matmul, true, scatter_matmul);
}

Test(check_scatter, norms_scatter)
{
    assert_agrees(&talc_check_batch_norm2d, false, scatter_norm);
}

Test(check_scatter, reductions_scatter)
{
    assert_agrees(&talc_check_reduce, true, scatter_reduce);
}

Test(check_scatter, softmax_scatters)
{
    assert_agrees(&talc_check_softmax, false, scatter_softmax);
}
