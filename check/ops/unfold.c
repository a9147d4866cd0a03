/// The family of unfold and fold, "unfold:n2c3h9w7k3x2s2x1p1x0d1x2", of the image's extents both.
///
///     unfold   y[n, (c, kh, kw), (oh, ow)] = x'[n, c, i, j]
///     fold     y[n, c, i, j] = sum of x[n, (c, kh, kw), (oh, ow)] over all that read there
///     i = oh * stride_h - pad_h + kh * dilation_h, j likewise
///
/// What is unfolded has no rounding; K folded elements are a sum of K terms, in whatever order.
#include "ops/unfold.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "tensor/memory.h"

#include <math.h>

typedef struct unfold_problem {
    talc_unfold_problem p;
} unfold_problem;

CHECK_PROBLEM(unfold_problem, talc_unfold_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

enum { MAX_EXTENT = 1 << 30 };

/* Patches along one axis; 0 where none fits. Extents are small enough for sums. */
static int64_t windows(int64_t extent, int64_t pad, int64_t K, int64_t dilation, int64_t stride)
{
    int64_t count = 0;
    const int64_t last = extent + 2 * pad - (K - 1) * dilation - 1;
    if (last >= 0)
        count = 1 + last / stride;
    return count;
}

static bool within(int64_t a, int64_t b, int64_t low)
{
    return a >= low && b >= low && a <= MAX_EXTENT && b <= MAX_EXTENT;
}

static const char *complete(check_problem *problem, const char **key)
{
    talc_unfold_problem *p = &writable(problem)->p;
    int64_t count;
    *key = "";
    if (!within(p->C, p->H, 1) || !within(p->W, p->W, 1) || !within(p->N, p->N, 0))
        return "sizes from 1, n from 0, to 2^30";
    *key = "k";
    if (!within(p->KH, p->KW, 1))
        return "a kernel of at least 1x1";
    *key = "s";
    if (!within(p->stride_h, p->stride_w, 1))
        return "a stride of at least 1x1";
    *key = "d";
    if (!within(p->dilation_h, p->dilation_w, 1))
        return "a dilation of at least 1x1";
    *key = "p";
    if (!within(p->pad_top, p->pad_left, 0))
        return "a padding of at least 0x0";
    *key = "k";
    p->OH = windows(p->H, p->pad_top, p->KH, p->dilation_h, p->stride_h);
    p->OW = windows(p->W, p->pad_left, p->KW, p->dilation_w, p->stride_w);
    if (p->OH < 1 || p->OW < 1)
        return "a kernel that fits the padded image";
    *key = "";
    if (!talc_check_elements(TALC_F64, 4, (int64_t[]){ p->N, p->C, p->H, p->W }, &count) ||
        !talc_check_elements(TALC_F64, 6, (int64_t[]){ p->N, p->C, p->KH, p->KW, p->OH, p->OW },
                             &count))
        return "an image and a matrix below 2^63 bytes";
    return NULL;
}

#define FIELD(name) offsetof(unfold_problem, p.name)

static const check_key keys[] = {
    CHECK_IMAGE_KEYS(FIELD(N), FIELD(C), FIELD(H), FIELD(W)),
    { "k", CHECK_PAIR, .offset = FIELD(KH) },
    { "s", CHECK_PAIR, .offset = FIELD(stride_h), .flags = CHECK_OPTIONAL },
    { "p", CHECK_PAIR, .offset = FIELD(pad_top), .flags = CHECK_OPTIONAL },
    { "d", CHECK_PAIR, .offset = FIELD(dilation_h), .flags = CHECK_OPTIONAL },
    CHECK_FLOAT_KEYS(FIELD(dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    talc_unfold_problem *p = &writable(problem)->p;
    p->fold = op == 1;
    p->stride_h = p->stride_w = 1;
    p->dilation_h = p->dilation_w = 1;
}

static int op_of(const check_problem *problem)
{
    return read_only(problem)->p.fold;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    begin(problem, (int)talc_check_draw(state, 0, 1));
    talc_unfold_problem *p = &writable(problem)->p;
    p->dtype = talc_check_draw_float(state);
    p->N = talc_check_draw(state, 1, 3);
    p->C = talc_check_draw(state, 1, 5);
    p->H = CHECK_PICK(state, 1, 2, 3, 7, 8, 15, 17);
    p->W = CHECK_PICK(state, 1, 2, 5, 8, 16, 31, 40);
    p->KH = talc_check_draw(state, 1, 4);
    p->KW = talc_check_draw(state, 1, 5);
    p->stride_h = talc_check_draw(state, 1, 4);
    p->stride_w = talc_check_draw(state, 1, 3);
    p->dilation_h = talc_check_draw(state, 1, 2);
    p->dilation_w = talc_check_draw(state, 1, 3);
    p->pad_top = talc_check_draw(state, 0, 4);
    p->pad_left = talc_check_draw(state, 0, 4);
    return windows(p->H, p->pad_top, p->KH, p->dilation_h, p->stride_h) > 0 &&
           windows(p->W, p->pad_left, p->KW, p->dilation_w, p->stride_w) > 0;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { X, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_unfold_problem *p = &read_only(problem)->p;
    const talc_dims image = TALC_DIMS(p->N, p->C, p->H, p->W),
                    matrix = TALC_DIMS(p->N, p->C * p->KH * p->KW, p->OH * p->OW);
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, p->fold ? matrix : image);
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, p->dtype, p->fold ? image : matrix);
}

static double terms_of(const talc_unfold_problem *p)
{
    return p->fold ? (double)p->KH * (double)p->KW : 1;
}

static double exact_largest(const talc_unfold_problem *p)
{
    return fmin(64, floor(talc_check_format(p->dtype).integers / (terms_of(p) + 1)));
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    return kind == TALC_CHECK_EXACT ? exact_largest(&read_only(problem)->p) >= 1
                                    : kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    check_operand list[CHECK_OPERANDS] = { 0 };
    operands(problem, list);
    const bool exact = kind == TALC_CHECK_EXACT;
    talc_check_fill(values->of[X], list[X].count, list[X].dtype, kind,
                    exact ? exact_largest(&read_only(problem)->p) : 1, 1, seed);
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Which element of the image, in n, c, i, j, an element of the matrix shows; false: padding. */
static bool seen(const talc_unfold_problem *p, int64_t kh, int64_t kw, int64_t oh, int64_t ow,
                 int64_t *i, int64_t *j)
{
    *i = oh * p->stride_h - p->pad_top + kh * p->dilation_h;
    *j = ow * p->stride_w - p->pad_left + kw * p->dilation_w;
    return *i >= 0 && *i < p->H && *j >= 0 && *j < p->W;
}

static check_expected unfolded(const talc_unfold_problem *p, const double *x, int64_t index)
{
    int64_t at[6], i, j;
    talc_check_coordinates(6, (int64_t[]){ p->N, p->C, p->KH, p->KW, p->OH, p->OW }, index, at);
    if (!seen(p, at[2], at[3], at[4], at[5], &i, &j))
        return (check_expected){ .border = true };
    return (check_expected){ .value = x[((at[0] * p->C + at[1]) * p->H + i) * p->W + j] };
}

/* Every tap and the one output, if any, that it could be read by. */
static check_expected folded(const talc_unfold_problem *p, const double *x, int64_t index)
{
    int64_t at[4];
    long double sum = 0, sizes = 0;
    double count = 0;
    talc_check_coordinates(4, (int64_t[]){ p->N, p->C, p->H, p->W }, index, at);
    for (int64_t kh = 0; kh < p->KH; kh++)
        for (int64_t kw = 0; kw < p->KW; kw++) {
            const int64_t oh = (at[2] + p->pad_top - kh * p->dilation_h) / p->stride_h;
            const int64_t ow = (at[3] + p->pad_left - kw * p->dilation_w) / p->stride_w;
            int64_t i, j;
            if (oh < 0 || oh >= p->OH || ow < 0 || ow >= p->OW ||
                !seen(p, kh, kw, oh, ow, &i, &j) || i != at[2] || j != at[3])
                continue;
            const int64_t row = ((at[0] * p->C + at[1]) * p->KH + kh) * p->KW + kw;
            const double term = x[(row * p->OH + oh) * p->OW + ow];
            sum += term;
            sizes += fabs(term);
            count++;
        }
    return (check_expected){ .value = sum,
                             .K = count > 1 ? count : 0,
                             .S = count > 1 && isfinite(sum) ? (double)sizes : 0,
                             .border = count == 0 };
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const talc_unfold_problem *p = &read_only(problem)->p;
    return p->fold ? folded(p, values->of[X], index) : unfolded(p, values->of[X], index);
}

static double terms(const check_problem *problem)
{
    return 4 * terms_of(&read_only(problem)->p);
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    writable(problem)->p = *(const talc_unfold_problem *)ran->problem;
    return true;
}

/* Padding moves nowhere. */
static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!talc_check_linear(direction, ran, expected))
        return false;
    for (int64_t i = 0; i < ran->output.count; i++)
        expected->spread[i] = expected->element[i].border ? 0 : expected->spread[i];
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "{unfold|fold}:{n2c3h9w7k3x2s2x1p1x0d1x2|n1c2h8w17k3x3p1x1_f64|n2c2h5w6k2x2s2x2}",
    NULL,
};

static const char *const edges[] = {
    /* One element, a kernel as large as the image, strides past the kernel, padding past it, windows
     * in the padding alone, wide rows, many planes, no images. */
    "{unfold|fold}:{n1c1h1w1k1x1|n2c3h5w7k5x7|n1c2h9w11k2x3s4x5|n2c1h4w3k2x2p5x6|n1c2h3w3k2x2s7x7p6x6}{|_f64}",
    "{unfold|fold}:{n1c1h3w1025k3x3p1x1|n2c1h40w33k3x5s1x2p1x2d3x1|n33c70h3w2k2x2|n1c3h17w19k4x4s3x2p3x4d2x3}{|_f64}",
    "{unfold|fold}:{n1c2h1w300k1x7s1x3p0x3d1x2|n1c2h300w1k7x1s3x1p3x0d2x1|n0c2h5w5k3x3}",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "unfold:n2c3h9w7k3x2s2x1p1x0d1x2\n"
             "    fold likewise, of the image's extents\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

static const char *const op_names[] = { "unfold", "fold", NULL };

const check_direction talc_check_unfold = {
    .family = &family,
    .ops = op_names,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .factors = 1U << X,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_unfold,
    .arguments = { offsetof(talc_unfold_arguments, x), offsetof(talc_unfold_arguments, y) },
};
