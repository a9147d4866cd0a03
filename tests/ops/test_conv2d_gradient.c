/* Both gradients of conv2d by every algorithm of the tested device, by name: exactly, in small
 * integers, against loops over the formula and by the adjoint identity <dy, conv(x, w)> = <dx, x> =
 * <dw, w>; what is not finite; on random data within the bound of long sums, with the same bits for
 * every number of threads. */
#include "check/conv2d/conv2d.h"
#include "check/engine/data.h"
#include "ops/backend.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Operands as doubles, gradients and the sums of the magnitudes of their products. */
typedef struct gradients {
    talc_conv2d_problem problem;
    int64_t count[3]; /* of x, w and dy */
    double *x, *w, *dy;
    double *dx, *dw, *dx_size, *dw_size;
    double product; /* <dy, conv(x, w)> */
    bool uneven;    /* not random data: a few products may be all of a sum */
} gradients;

static double *numbers(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    cr_assert_not_null(values);
    return values;
}

/* The problem without what a gradient takes no notice of. */
static gradients gradients_new(const talc_conv2d_problem *p)
{
    gradients g = { .problem = *p };
    g.problem.bias = g.problem.residual = false;
    g.problem.activation = TALC_ACTIVATION_NONE;
    g.count[0] = p->N * p->C * p->H * p->W;
    g.count[1] = p->OC * (p->C / p->groups) * p->KH * p->KW;
    g.count[2] = p->N * p->OC * p->OH * p->OW;
    g.x = numbers(g.count[0]), g.dx = numbers(g.count[0]), g.dx_size = numbers(g.count[0]);
    g.w = numbers(g.count[1]), g.dw = numbers(g.count[1]), g.dw_size = numbers(g.count[1]);
    g.dy = numbers(g.count[2]);
    return g;
}

static void gradients_free(gradients *g)
{
    double *const all[] = { g->x, g->w, g->dy, g->dx, g->dw, g->dx_size, g->dw_size };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void fill_integers(double *values, int64_t count, int64_t max, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)talc_check_draw(&seed, -max, max);
}

static void fill_random(double *values, int64_t count, talc_dtype dtype, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = talc_check_rounded(dtype, (double)talc_check_draw(&seed, 1, 1 << 30) * 0x1p-30);
}

/* The element of the image; -1 in the padding. */
static int64_t x_index(const talc_conv2d_problem *p, int64_t n, int64_t c, int64_t ih, int64_t iw)
{
    const int64_t row = talc_check_source(p->padding_mode, ih, p->H);
    const int64_t column = talc_check_source(p->padding_mode, iw, p->W);
    return row < 0 || column < 0 ? -1 : ((n * p->C + c) * p->H + row) * p->W + column;
}

/* Every product of the convolution, added to where each gradient has it. */
static void add_products(gradients *g, int64_t y, int64_t x, int64_t w)
{
    g->dx[x] += g->dy[y] * g->w[w];
    g->dw[w] += g->dy[y] * g->x[x];
    g->dx_size[x] += fabs(g->dy[y] * g->w[w]);
    g->dw_size[w] += fabs(g->dy[y] * g->x[x]);
    g->product += g->dy[y] * g->x[x] * g->w[w];
}

static void add_window(gradients *g, int64_t n, int64_t oc, int64_t oh, int64_t ow)
{
    const talc_conv2d_problem *p = &g->problem;
    const int64_t IC = p->C / p->groups, first = oc / (p->OC / p->groups) * IC;
    const int64_t y = ((n * p->OC + oc) * p->OH + oh) * p->OW + ow;
    for (int64_t t = 0; t < IC * p->KH * p->KW; t++) {
        const int64_t ic = t / p->KW / p->KH, kh = t / p->KW % p->KH, kw = t % p->KW;
        const int64_t x =
            x_index(p, n, first + ic, oh * p->stride_h - p->pad_top + kh * p->dilation_h,
                    ow * p->stride_w - p->pad_left + kw * p->dilation_w);
        if (x >= 0)
            add_products(g, y, x, oc * IC * p->KH * p->KW + t);
    }
}

static void work_out(gradients *g)
{
    const talc_conv2d_problem *p = &g->problem;
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t oc = 0; oc < p->OC; oc++)
            for (int64_t oh = 0; oh < p->OH; oh++)
                for (int64_t ow = 0; ow < p->OW; ow++)
                    add_window(g, n, oc, oh, ow);
}

// ---- Running ------------------------------------------------------------------------------------

static talc_tensor *tensor_of(talc_device *device, talc_dtype dtype, talc_dims dims,
                              const double *values)
{
    return talc_to(talc_from_host(cpu_device(), TALC_F64, dims, values), device, dtype);
}

/* What forces it alone; until the next call. */
static const char *title_of(const talc_algorithm *algorithm)
{
    static char text[TALC_ALGORITHM_TEXT];
    return talc_algorithm_text(algorithm, text);
}

/* The gradient by this algorithm, on the host in f64; NULL where it refuses. */
static const talc_tensor *by_algorithm(const gradients *g, talc_direction direction,
                                       const char *algorithm)
{
    talc_conv2d_problem p = g->problem;
    talc_device *device = tested_device();
    p.direction = direction;
    const talc_tensor *operand =
        direction == TALC_GRAD_INPUT
            ? tensor_of(device, p.dtype, TALC_DIMS(p.OC, p.C / p.groups, p.KH, p.KW), g->w)
            : tensor_of(device, p.dtype, TALC_DIMS(p.N, p.C, p.H, p.W), g->x);
    const talc_tensor *dy = tensor_of(device, p.dtype, TALC_DIMS(p.N, p.OC, p.OH, p.OW), g->dy);
    assert_no_failure();
    const talc_tensor *result =
        talc_conv2d_gradient(&p, operand, dy, &(talc_conv2d_options){ .algorithm = algorithm });
    if (result == NULL && talc_error_status() == TALC_UNSUPPORTED) {
        talc_error_clear();
        return NULL;
    }
    if (result != NULL)
        result = talc_contiguous(
            talc_to(talc_to(result, cpu_device(), p.dtype), cpu_device(), TALC_F64));
    cr_assert(result != NULL, "%s: %s", algorithm, talc_error_message());
    return result;
}

/* Products of an element at most. */
static double terms_of(const gradients *g, talc_direction direction)
{
    const talc_conv2d_problem *p = &g->problem;
    return direction == TALC_GRAD_INPUT
               ? (double)(p->OC / p->groups * p->KH * p->KW) * (p->padding_mode == 0 ? 1 : 9)
               : (double)p->N * (double)p->OH * (double)p->OW;
}

/* Holds an algorithm's result against what is due: exactly, or within the bound of random data. */
static void compare(const gradients *g, talc_direction direction, const char *algorithm,
                    const talc_tensor *result, bool exact)
{
    const bool input = direction == TALC_GRAD_INPUT;
    const double *got = result->data, *expected = input ? g->dx : g->dw,
                 *beside = input ? g->x : g->w;
    const double *size = input ? g->dx_size : g->dw_size;
    const double terms = terms_of(g, direction);
    const double bound =
        unit_roundoff(g->problem.dtype) * (g->uneven ? terms + 2 : 4 * sqrt(terms + 4));
    char text[TALC_CONV2D_TEXT];
    double product = 0;
    talc_conv2d_problem_text(&g->problem, text);
    cr_assert(talc_numel(result) == g->count[input ? 0 : 1], "%s %s", text, algorithm);
    for (int64_t i = 0; i < talc_numel(result); i++) {
        cr_assert(fabs(got[i] - expected[i]) <= (exact ? 0 : bound * size[i]),
                  "%s %s, gradient by the %s: element %lld is %.12g, not %.12g", text, algorithm,
                  input ? "input" : "weights", (long long)i, got[i], expected[i]);
        product += got[i] * beside[i];
    }
    if (exact)
        cr_assert(product == g->product, "%s %s: <dy, conv(x, w)> is %.17g, its adjoint %.17g",
                  text, algorithm, g->product, product);
}

/* By every algorithm that takes the problem, in both directions. How many did, of the direction
 * with the fewest. */
static int check_algorithms(const gradients *g, bool exact)
{
    int ran[2] = { 0, 0 };
    const talc_algorithm *algorithm = tested_device()->backend->algorithms[TALC_OP_conv2d];
    for (; algorithm->name != NULL; algorithm++)
        for (int d = 0; d < 2; d++) {
            const talc_direction direction = d == 0 ? TALC_GRAD_INPUT : TALC_GRAD_WEIGHT;
            owned_scope *scope = talc_scope_enter();
            const talc_tensor *result = by_algorithm(g, direction, title_of(algorithm));
            if (result != NULL)
                compare(g, direction, title_of(algorithm), result, exact);
            ran[d] += result != NULL;
        }
    return ran[0] < ran[1] ? ran[0] : ran[1];
}

/* There has to be an algorithm for each gradient. */
static void expect_algorithms(const gradients *g, bool exact)
{
    char text[TALC_CONV2D_TEXT];
    cr_assert(check_algorithms(g, exact) > 0, "%s: no algorithm has both its gradients",
              talc_conv2d_problem_text(&g->problem, text));
}

static gradients integers_of(const talc_conv2d_problem *p, uint64_t seed)
{
    gradients g = gradients_new(p);
    fill_integers(g.x, g.count[0], 3, seed);
    fill_integers(g.w, g.count[1], 2, seed + 1);
    fill_integers(g.dy, g.count[2], 3, seed + 2);
    work_out(&g);
    return g;
}

/* What the forward pass and a backward pass give, by whatever runs by default. */
static void expect_passes(const gradients *g)
{
    const talc_conv2d_problem *p = &g->problem;
    const talc_conv2d_options options = conv2d_options(p, NULL, NULL);
    owned_scope *scope = talc_scope_enter();
    talc_tensor *x = tensor_of(tested_device(), p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), g->x);
    talc_tensor *w = tensor_of(tested_device(), p->dtype,
                               TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW), g->w);
    talc_require_grad(x, true);
    talc_require_grad(w, true);
    const talc_tensor *y = talc_conv2d(x, w, NULL, &options);
    cr_assert(y != NULL && talc_backward_from(
                               y, tensor_of(tested_device(), p->dtype, talc_dims_of(y), g->dy)),
              "%s", talc_error_message());
    owned_double *values = host_doubles(talc_detach(y));
    double product = 0;
    for (int64_t i = 0; i < g->count[2]; i++)
        product += values[i] * g->dy[i];
    cr_assert(product == g->product, "<dy, conv(x, w)> is %.17g instead of %.17g", product,
              g->product);
    assert_values(talc_grad(x), g->dx, 0, "dx");
    assert_values(talc_grad(w), g->dw, 0, "dw");
}

static void check_exactly(const talc_conv2d_problem *p, uint64_t seed)
{
    gradients g = integers_of(p, seed);
    expect_passes(&g);
    expect_algorithms(&g, true);
    gradients_free(&g);
}

// ---- Integers -----------------------------------------------------------------------------------

Test(conv2d_gradient, every_algorithm_is_the_adjoint_on_random_problems, .timeout = 240)
{
    enum { PROBLEMS = 160 };
    static const double MAX = 4e6; /* products */
    int ran = 0;
    for (uint64_t seed = 1; ran < PROBLEMS; seed++) {
        const talc_conv2d_problem p = conv2d_random_problem(seed);
        if (p.N == 0 || talc_conv2d_flops(&p) > 2 * MAX)
            continue;
        check_exactly(&p, seed);
        ran++;
    }
}

/* Tails, gaps between windows, steps that are never taken, and every kernel of the algorithms. */
static const char *const cases[] = {
    "n2c3h9w7o4k3x3",
    "n1c1h1w1o1k1x1",
    "n2c6h13w11o9k3x4s2x3p2x1d2x1g3",
    "n1c3h12w9o5k5x3p2x1x3x4_f64",
    "n2c4h9w8o6k3x3p2x2_reflect",
    "n2c4h9w8o6k3x5s2x1p4x3x1x2d2x1_replicate",
    "n1c4h6w7o6k3x3s1x2p6x7_circular_f64",
    /* Rows and columns that no output reads: their gradient is zero. */
    "n2c2h8w9o3k2x2s3x4",
    /* Steps that are never taken. */
    "n1c2h4w5o2k3x2s4611686018427387904x4611686018427387905p2x3",
    "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806",
    "n1c2h4w5o2k1x1s3x5p2x3d9223372036854775807x9223372036854775806",
    /* im2col: several images, several blocks of columns and rows. */
    "n40c8h4w5o12k3x3p1x1",
    "n9c40h6w6o14k3x3p1x1g2",
    "n2c2h50w70o3k5x5p2x2",
    "n1c70h9w9o4k2x2",
    "n19c1h12w12o6k5x5p2x2_f64",
    /* pointwise */
    "n3c4h5w6o5k1x1",
    "n2c6h11w13o4k1x1g2_f64",
    "n1c30h50w70o140k1x1",
    "n1c2100h7w7o70k1x1",
    "n40c70h5w5o90k1x1",
    /* depthwise */
    "n2c5h7w7o5k3x3p1x1g5",
    "n2c3h20w37o6k3x3p1x1g3",
    "n3c4h14w31o4k3x3s2x2p1x1g4",
    "n1c2h17w35o4k4x3s3x4p3x2x1x0d2x3g2_f64",
    "n1c2h5w3o2k3x3s5x7p9x9g2",
    "n6c1h40w50o2k5x5p2x2",
    "n2c6h11w13o4k1x1g2",
    "n70c5h3w3o6k1x1",
    "n2c3h40w50o5k1x1_f64",
    "n1c2h300w300o3k1x1",
    "n1c3h12w9o5k5x3p2x1x3x4",
    "n2c4h9w8o6k3x3p4x5",
    "n1c1h40w45o2k31x31p15x15",
    "n2c2h25w50o4k7x9p3x4g2",
    "n2c2h30w19o2k5x3s4x1p2x1d3x1g2",
    "n1c2h30w67o4k3x4s1x3p1x2d2x2g2",
    "n1c2h23w66o2k3x5s2x4p0x3d4x6g2_f64",
    "n1c2h23w37o2k5x5s2x2p2x2g2",
    "n1c2h19w21o6k2x3s3x4p0x2g2", /* phases without a tap */
    "n2c1h9w2300o1k3x5s1x2p1x2",
    "n2c4h6w7o6k3x3s1x2p6x7_circular_f64",
    "n1c3h4w3000o2k2x7s1x2p0x3",
    "n1c2h11w12o3k2x2s3x5",
    "n1c2h21w23o3k3x3s4x6d6x4",
    "n3c8h33w65o9k5x7p4x6_f64",
    "n1c3h70w130o130k3x3p1x1",
    "n2c140h9w9o3k3x3",
    "n300c30h4w5o40k3x3p1x1",
    "n64c80h11w11o40k3x3s2x2p1x1",
    "n1c2h4w5o2k3x2s9223372036854775807x9223372036854775806p2x3",
    "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806g2",
    /* Depthwise. */
    "n1c2h11w40o2k5x5p2x2g2",
    "n1c2h17w35o2k4x3s3x4p3x2x1x0d2x3g2",
    "n1c2h3w3o2k3x3s5x7p9x9g2",
    "n2c2h67w130o2k3x3p1x1g2",
    "n1c2h33w255o4k3x3p2x0x0x2g2",
    "n2c3h70w131o3k3x1g3",
    "n1c2h40w257o2k3x7g2_f64",
    "n2c2h35w97o2k3x7p1x3g2",
    "n1c2h70w128o2k5x5g2",
    "n1c1h6w2100o2k3x3p1x1",
    "n1c3h40w90o3k7x7p3x3g3",
    "n2c2h24w30o2k11x11p5x5g2",
    "n6c2h56w56o2k3x3p1x1g2",
    /* Weight gradients in registers: channels, rows and columns that do not fill their tiles. */
    "n20c16h16w16o20k3x3p1x1",
    "n9c33h20w21o20k3x3s2x2p1x1",
    "n40c6h14w14o16k5x5",
    "n20c1h28w28o6k5x5p2x2",
    "n20c20h9w7o33k3x3p1x1",
    "n37c20h4w5o33k3x3p1x1",
    "n205c6h8w8o20k5x5",
    "n3c3h40w37o16k7x7s2x2p3x3",
    "n40c16h30w29o20k1x1s2x2",
    "n20c9h40w32o16k3x3s3x3p1x1",
    "n20c9h48w32o16k3x3s7x1p1x1d2x1",
    "n3c16h30w30o33k3x3p2x2d2x2",
    "n8c6h30w41o16k5x5p2x2d1x2",
    "n5c20h17w20o16k3x3p0x1x2x0_f64",
    "n6c12h24w28o8k5x5s2x1p2x2g2_f64",
    "n30c6h20w20o12k3x3p1x1g3",
};

enum { CASES = sizeof cases / sizeof *cases };

Test(conv2d_gradient, every_algorithm_is_exact_in_integers, .timeout = 240)
{
    for (int i = 0; i < CASES; i++) {
        const talc_conv2d_problem p = conv2d_parse(cases[i]);
        check_exactly(&p, 1000 + (uint64_t)i);
    }
}

/* Matrices in parts, of images, channels and columns, in smaller blocks and fewer of them. Every
 * device has an algorithm that needs no workspace. */
Test(conv2d_gradient, every_algorithm_is_exact_in_little_workspace, .timeout = 240)
{
    static const char *const parted[] = {
        "n5c6h20w30o7k3x3p1x1",  "n2c4h60w70o6k3x5s2x1p1x2g2", "n1c3h50w45o4k5x3p0x2d2x3_f64",
        "n3c40h30w31o9k1x1",     "n2c2h50w130o2k3x3p1x1g2",    "n20c16h16w16o20k3x3p1x1",
        "n8c6h30w41o16k5x5p2x2", "n9c33h20w21o20k3x3s2x2p1x1"
    };
    enum { PARTED = sizeof parted / sizeof *parted };
    static const size_t limits[] = { 0, 1000, 25000, 250000 };
    static const double MAX = 1e6; /* products */
    const size_t before = talc_workspace_limit(tested_device());
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        cr_assert(talc_workspace_set_limit(tested_device(), limits[i]));
        for (int k = 0; k < PARTED + CASES; k++) {
            const talc_conv2d_problem p = conv2d_parse(k < PARTED ? parted[k] : cases[k - PARTED]);
            if (k < PARTED || talc_conv2d_flops(&p) <= 2 * MAX)
                check_exactly(&p, (uint64_t)k);
        }
    }
    cr_assert(talc_workspace_set_limit(tested_device(), before));
}

// ---- What is not finite -------------------------------------------------------------------------

/* The sums of a direction over what there is: y and dw multiply the zeros of the padding, dx has no
 * outputs but its own. `first` and `second` are what the direction reads. */
static double *sums_of(const talc_conv2d_problem *p, const double *first, const double *second)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    double *sums = calloc((size_t)(p->N * p->C * p->H * p->W + p->OC * IC * p->KH * p->KW +
                                   p->N * p->OC * p->OH * p->OW),
                          8);
    cr_assert_not_null(sums);
    for (int64_t y = 0; y < p->N * p->OC * p->OH * p->OW; y++)
        for (int64_t t = 0; t < IC * p->KH * p->KW; t++) {
            const int64_t ow = y % p->OW, oh = y / p->OW % p->OH, oc = y / p->OW / p->OH % p->OC;
            const int64_t n = y / p->OW / p->OH / p->OC, kw = t % p->KW, kh = t / p->KW % p->KH;
            const int64_t x = x_index(p, n, oc / OC * IC + t / p->KW / p->KH,
                                      oh * p->stride_h - p->pad_top + kh * p->dilation_h,
                                      ow * p->stride_w - p->pad_left + kw * p->dilation_w);
            const int64_t w = oc * IC * p->KH * p->KW + t;
            if (p->direction == TALC_FORWARD)
                sums[y] += (x < 0 ? 0 : first[x]) * second[w];
            else if (p->direction == TALC_GRAD_WEIGHT)
                sums[w] += (x < 0 ? 0 : first[x]) * second[y];
            else if (x >= 0)
                sums[x] += second[w] * first[y];
        }
    return sums;
}

/* Numbers that differ in neither NaN nor size. */
static bool same(double got, double expected)
{
    return isnan(expected) ? isnan(got) : got == expected;
}

static void expect_nonfinite_gradients(const talc_conv2d_problem *p, const double *const values[2],
                                       talc_tensor *const read[2])
{
    char text[TALC_CONV2D_TEXT];
    const unsigned classes = TALC_STRICT | TALC_TF32;
    talc_conv2d_options options = conv2d_options(p, NULL, NULL);
    options.precision = classes;
    talc_conv2d_explanation e;
    cr_assert(talc_conv2d_explain(tested_device(), p, &options, &e));
    owned_double *expected = sums_of(p, values[0], values[1]);
    for (int i = 0; i < e.decision.count; i++) {
        options.algorithm = e.decision.candidates[i].title;
        if (e.decision.candidates[i].refused)
            continue;
        const talc_tensor *y =
            p->direction == TALC_FORWARD
                ? talc_conv2d(read[0], read[1], NULL, &options)
                : talc_conv2d_gradient(p, read[p->direction == TALC_GRAD_INPUT],
                                       read[p->direction != TALC_GRAD_INPUT], &options);
        cr_assert(y != NULL, "%s", talc_error_message());
        owned_double *got = host_doubles(y);
        for (int64_t j = 0; j < talc_numel(y); j++)
            cr_assert(same(got[j], expected[j]), "%s by %s: element %d is %g instead of %g",
                      talc_conv2d_problem_text(p, text), options.algorithm, (int)j, got[j],
                      expected[j]);
    }
}

/* In every place that differs of either operand: at its ends, where the padding is, and in the
 * middle. Other numbers are integers. */
static void expect_nonfinite(talc_conv2d_problem p, talc_direction direction)
{
    static const double odd[] = { INFINITY, NAN, -INFINITY };
    p.direction = direction;
    const talc_dims dims[] = { TALC_DIMS(p.N, p.C, p.H, p.W),
                               TALC_DIMS(p.OC, p.C / p.groups, p.KH, p.KW),
                               TALC_DIMS(p.N, p.OC, p.OH, p.OW) };
    const int reads[2] = { direction == TALC_GRAD_INPUT ? 2 : 0,
                           direction == TALC_GRAD_WEIGHT ? 2 : 1 };
    int64_t count[2] = { 1, 1 };
    double *values[2];
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < 4; d++)
            count[i] *= dims[reads[i]].dim[d];
        values[i] = calloc((size_t)count[i], sizeof(double));
        talc_check_fill(values[i], count[i], p.dtype, TALC_CHECK_EXACT, 3, 1, (uint64_t)i);
    }
    for (int operand = 0; operand < 2; operand++)
        for (int i = 0; i < 9; i++) {
            owned_scope *scope = talc_scope_enter();
            const int64_t at = i / 3 == 0   ? 0
                               : i / 3 == 1 ? count[operand] - 1
                                            : count[operand] / 2;
            const double was = values[operand][at];
            values[operand][at] = odd[i % 3];
            talc_tensor *read[2];
            for (int k = 0; k < 2; k++)
                read[k] = tensor_of(tested_device(), p.dtype, dims[reads[k]], values[k]);
            expect_nonfinite_gradients(&p, (const double *const *)values, read);
            values[operand][at] = was;
        }
    free(values[0]);
    free(values[1]);
}

Test(conv2d_gradient, what_is_not_finite_goes_where_the_sums_say)
{
    static const char *const problems[] = {
        "n1c8h16w16o8k3x3p1x1",
        "n2c6h13w11o9k3x4s2x3p2x1d2x1g3",
        "n2c4h7w7o4k3x3p1x1g4",
        "n1c3h9w8o4k3x3s2x1p1x1_f64",
        "n1c2h8w9o3k3x3s2x2",
        "n1c2h5w3o2k3x3s5x7p9x9g2",
        "n3c9h5w5o20k4x4p3x3",
        "n2c4h6w6o5k1x1s2x2",
        "n2c5h6w6o5k1x1",
        "n1c40h9w9o40k3x3p1x1d2x2",
        /* Lanes behind a row of dy, over columns that a tap does not read. */
        "n2c2h5w40o2k3x3g2",
        "n2c2h9w19o4k3x5s1x2p1x0g2",
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int direction = TALC_FORWARD; direction <= TALC_GRAD_WEIGHT; direction++)
            expect_nonfinite(conv2d_parse(problems[i]), (talc_direction)direction);
}

/* One infinite weight: in dx where a window has it over the pixel, and there alone. */
Test(conv2d_gradient, an_infinite_weight_makes_no_nan)
{
    talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 8, 16, 16));
    talc_tensor *w = talc_ones(tested_device(), TALC_F32, TALC_DIMS(8, 8, 3, 3));
    cr_assert(talc_fill(
        talc_slice(talc_slice(talc_select(talc_select(w, 0, 2), 0, 3), 0, 0, 1, 1), 1, 0, 1, 1),
        INFINITY));
    talc_require_grad(x, true);
    const talc_conv2d_options options = { .padding = { 1, 1 } };
    cr_assert(talc_backward_from(talc_conv2d(x, w, NULL, &options),
                                 talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 8, 16, 16))));
    owned_double *dx = host_doubles(talc_grad(x));
    int infinite = 0;
    for (int i = 0; i < 8 * 256; i++) {
        cr_assert(!isnan(dx[i]), "element %d", i);
        infinite += isinf(dx[i]) != 0;
    }
    cr_assert(infinite == 15 * 15, "%d", infinite);
}

// ---- Long sums ----------------------------------------------------------------------------------

/* Positive numbers, whose sums grow as long as they are. */
Test(conv2d_gradient, every_algorithm_holds_long_sums_within_their_bound, .timeout = 240)
{
    static const char *const long_sums[] = {
        "n3c2h210w300o2k3x3",         "n4c2h200w260o3k1x1",     "n4c2h150w300o2k3x3p1x1g2",
        "n8c3h61w60o3k3x3s2x2p1x1g3", "n3c2h100w101o3k5x7_f64", "n2c40h20w20o64k5x5p2x2",
        "n64c1h28w28o6k5x5p2x2",      "n24c5h32w32o4k3x3p1x1",  "n64c6h30w30o5k1x1"
    };
    for (size_t i = 0; i < sizeof long_sums / sizeof *long_sums; i++) {
        const talc_conv2d_problem p = conv2d_parse(long_sums[i]);
        gradients g = gradients_new(&p);
        fill_random(g.x, g.count[0], p.dtype, 3 * i + 1);
        fill_random(g.w, g.count[1], p.dtype, 3 * i + 2);
        fill_random(g.dy, g.count[2], p.dtype, 3 * i + 3);
        work_out(&g);
        expect_algorithms(&g, false);
        gradients_free(&g);
    }
}

/* As behind a ReLU: half are 0, an image in three has a channel that is 0 everywhere, and sizes are
 * spread widely, by the image too. */
static void fill_sparsely(double *values, int64_t images, int64_t channels, int64_t plane,
                          int images_apart, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < images * channels * plane; i++) {
        const int64_t n = i / plane / channels, channel = i / plane;
        const bool dead = talc_check_bits(seed, (uint64_t)(channel % channels)) % 4 == 0 ||
                          talc_check_bits(seed + 1, (uint64_t)channel) % 3 == 0;
        const double v = (double)talc_check_draw(&state, -(1 << 20), 1 << 20) * 0x1p-20;
        values[i] = dead || v < 0
                        ? 0
                        : talc_check_rounded(TALC_F32, ldexp(v * v * v, -images_apart * (int)n));
    }
}

Test(conv2d_gradient, few_results_of_sparse_data_are_computed_again, .timeout = 240)
{
    static const char *const texts[] = { "n8c32h20w20o64k3x3p1x1", "n16c64h7w7o64k3x3p1x1",
                                         "n2c3h60w60o32k5x5s2x2p2x2", "n12c64h14w14o40k1x1" };
    talc_device *device = tested_device();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem p = conv2d_parse(texts[i]);
        gradients g = gradients_new(&p);
        g.uneven = true;
        fill_sparsely(g.x, p.N, p.C, p.H * p.W, 0, 10 * i);
        fill_random(g.w, g.count[1], p.dtype, 3 * i);
        fill_sparsely(g.dy, p.N, p.OC, p.OH * p.OW, 1, 10 * i + 5);
        work_out(&g);
        const talc_algorithm *algorithm = device->backend->algorithms[TALC_OP_conv2d];
        for (; algorithm->name != NULL; algorithm++)
            for (int d = 0; d < 2; d++) {
                owned_scope *scope = talc_scope_enter();
                const talc_direction direction = d == 0 ? TALC_GRAD_INPUT : TALC_GRAD_WEIGHT;
                (void)talc_device_recomputed(device);
                const talc_tensor *result = by_algorithm(&g, direction, title_of(algorithm));
                const int64_t again = (int64_t)talc_device_recomputed(device);
                if (result != NULL)
                    compare(&g, direction, title_of(algorithm), result, false);
                cr_assert(result == NULL || again <= talc_numel(result) / 100,
                          "%s %s, gradient by the %s: %lld of %lld computed again", texts[i],
                          algorithm->name, d == 0 ? "input" : "weights", (long long)again,
                          (long long)talc_numel(result));
            }
        gradients_free(&g);
    }
}

// ---- Wide padding -------------------------------------------------------------------------------

/* Padding is one pass, however wide it is: no more allocations than for a narrow one. */
Test(conv2d_gradient, wide_padding_takes_no_line_by_itself)
{
    static const struct {
        talc_padding_mode mode;
        int64_t W, left, right;
    } wide[] = { { TALC_PADDING_REPLICATE, 3, 200000, 100001 },
                 { TALC_PADDING_REFLECT, 3001, 3000, 2999 },
                 { TALC_PADDING_CIRCULAR, 3000, 2999, 3000 } };
    enum { ALLOCATIONS = 60 };
    for (int i = 0; i < 3; i++)
        for (int leaf = 0; leaf < 2; leaf++) {
            owned_scope *scope = talc_scope_enter();
            const int64_t W = wide[i].W, OW = W + wide[i].left + wide[i].right;
            const talc_conv2d_options options = { .padding = { 0, wide[i].left },
                                                  .padding_end = { 0, wide[i].right },
                                                  .padding_mode = wide[i].mode };
            talc_tensor *x = talc_arange(tested_device(), TALC_F64, 0, (double)W, 1);
            x = talc_reshape(x, TALC_DIMS(1, 1, 1, W));
            talc_tensor *w = talc_full(tested_device(), TALC_F64, TALC_DIMS(1, 1, 1, 1), 2);
            talc_require_grad(leaf == 0 ? x : w, true);
            const talc_tensor *y = talc_conv2d(x, w, NULL, &options),
                              *dy = talc_ones(tested_device(), TALC_F64, TALC_DIMS(1, 1, 1, OW));
            allow_allocations(ALLOCATIONS);
            cr_assert(talc_backward_from(y, dy), "%s", talc_error_message());
            allow_all_allocations();
            double *expected = calloc((size_t)W, sizeof *expected), sum = 0;
            for (int64_t o = 0; o < OW; o++) {
                const int64_t from = talc_check_source(wide[i].mode, o - wide[i].left, W);
                expected[from] += 2;
                sum += (double)from;
            }
            assert_values(talc_grad(leaf == 0 ? x : w), leaf == 0 ? expected : &sum, 0,
                          talc_padding_mode_name(wide[i].mode));
            free(expected);
        }
}

// ---- The same bits ------------------------------------------------------------------------------

static void expect_passed(void *context, const talc_check_outcome *outcome)
{
    ++*(int *)context;
    cr_expect(outcome->passed, "%s %s: %s", outcome->problem, outcome->algorithm, outcome->reason);
}

/* On every run and for every number of threads, by every algorithm. */
Test(conv2d_gradient, every_algorithm_repeats_itself, .timeout = 240)
{
    static const char *const texts[] = {
        "n3c5h40w50o6k3x3p1x1",      "n3c8h30w31o9k1x1",        "n2c3h70w131o3k3x3p1x1g3",
        "n4c2h56w56o2k5x5p2x2g2",    "n20c16h16w16o20k3x3p1x1", "n7c3h9w7o4k3x3p1x1",
        "n64c1h28w28o6k5x5p2x2",     "n40c8h4w5o12k3x3p1x1g2",  "n2c70h30w40o9k3x3",
        "n9c30h17w19o24k1x1g2",      "n1c30h80w70o140k1x1_f64", "n6c3h20w37o6k3x3p1x1g3",
        "n2c70h30w40o9k3x3s2x1_f64", "n20c6h7w7o270k3x3p1x1g3",
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    int outcomes = 0;
    owned_check *check = talc_check_new(&(talc_check_options){
        .device = tested_device(),
        .kinds = (uint64_t)1 << TALC_CHECK_THREADS | (uint64_t)1 << TALC_CHECK_RERUN,
        .observe = expect_passed,
        .context = &outcomes });
    for (int i = 0; i < 2 * TEXTS; i++) {
        char text[TALC_CHECK_TEXT];
        snprintf(text, sizeof text, "%s%s", texts[i / 2], i % 2 == 0 ? "_dx" : "_dw");
        cr_assert(talc_check_problem(check, text), "%s", talc_error_message());
    }
    cr_assert(talc_check_passed(check) && outcomes >= 4 * TEXTS);
}
