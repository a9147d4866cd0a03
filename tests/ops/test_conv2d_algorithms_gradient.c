/* Both gradients of conv2d by every algorithm of the tested device, by name: exactly, in small
 * integers, against loops over the formula and by the adjoint identity <dy, conv(x, w)> = <dx, x> =
 * <dw, w>; on random data within the bound of long sums. */
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include "check/engine/data.h"
#include "ops/backend.h"

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
    for (int64_t kh = 0; kh < p->KH; kh++) {
        const int64_t h = talc_window_source(
            p->padding_mode, oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);
        for (int64_t kw = 0; kw < p->KW && h >= 0; kw++) {
            const int64_t w = talc_window_source(
                p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);
            for (int64_t ic = 0; ic < IC && w >= 0; ic++)
                add_products(g, y, ((n * p->C + first + ic) * p->H + h) * p->W + w,
                             ((oc * IC + ic) * p->KH + kh) * p->KW + kw);
        }
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

static const talc_tensor *tensor_of(talc_device *device, talc_dtype dtype, talc_dims dims,
                                    const double *values)
{
    const talc_tensor *host = talc_from_host(cpu_device(), TALC_F64, dims, values);
    return talc_to(talc_to(host, cpu_device(), dtype), device, dtype);
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
            talc_scope *scope = talc_scope_enter();
            const talc_tensor *result = by_algorithm(g, direction, title_of(algorithm));
            if (result != NULL)
                compare(g, direction, title_of(algorithm), result, exact);
            ran[d] += result != NULL;
            talc_scope_leave(scope);
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

static void check_exactly(const talc_conv2d_problem *p, uint64_t seed)
{
    gradients g = integers_of(p, seed);
    expect_algorithms(&g, true);
    gradients_free(&g);
}

// ---- Tests --------------------------------------------------------------------------------------

Test(conv2d_algorithms_gradient, every_algorithm_is_the_adjoint_on_random_problems, .timeout = 240)
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
static const char *const edges[] = {
    "n1c1h1w1o1k1x1",
    "n2c3h9w7o4k3x3",
    "n3c4h5w6o5k1x1",
    "n2c6h11w13o4k1x1g2",
    "n70c5h3w3o6k1x1",
    "n2c3h40w50o5k1x1_f64",
    "n1c2h300w300o3k1x1",
    "n2c6h13w11o9k3x4s2x3p2x1d2x1g3",
    "n1c3h12w9o5k5x3p2x1x3x4",
    "n2c4h9w8o6k3x3p4x5",
    "n2c4h9w8o6k3x3p2x2_reflect",
    "n2c4h9w8o6k3x5s2x1p4x3x1x2d2x1_replicate",
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
    "n2c5h7w7o5k3x3p1x1g5",
    "n2c3h20w37o6k3x3p1x1g3",
    "n3c4h14w31o4k3x3s2x2p1x1g4",
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

Test(conv2d_algorithms_gradient, every_algorithm_is_exact_at_edges, .timeout = 240)
{
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        const talc_conv2d_problem p = conv2d_parse(edges[i]);
        check_exactly(&p, 1000 + i);
    }
}

/* Matrices in parts: of images, channels and columns. */
Test(conv2d_algorithms_gradient, every_algorithm_is_exact_in_little_workspace, .timeout = 240)
{
    static const size_t limits[] = { 200000, 30000, 0 };
    talc_device *device = tested_device();
    const size_t before = talc_workspace_limit(device);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        cr_assert(talc_workspace_set_limit(device, limits[i]));
        static const char *const parted[] = {
            "n5c6h20w30o7k3x3p1x1",  "n2c4h60w70o6k3x5s2x1p1x2g2", "n1c3h50w45o4k5x3p0x2d2x3_f64",
            "n3c40h30w31o9k1x1",     "n2c2h50w130o2k3x3p1x1g2",    "n20c16h16w16o20k3x3p1x1",
            "n8c6h30w41o16k5x5p2x2", "n9c33h20w21o20k3x3s2x2p1x1"
        };
        for (size_t k = 0; k < sizeof parted / sizeof *parted; k++) {
            const talc_conv2d_problem p = conv2d_parse(parted[k]);
            gradients g = integers_of(&p, k);
            /* Every device has an algorithm that needs no workspace. */
            expect_algorithms(&g, true);
            gradients_free(&g);
        }
    }
    cr_assert(talc_workspace_set_limit(device, before));
}

/* Positive numbers, whose sums grow as long as they are. */
Test(conv2d_algorithms_gradient, every_algorithm_holds_long_sums_within_their_bound, .timeout = 240)
{
    static const char *const long_sums[] = {
        "n3c2h210w300o2k3x3",         "n4c2h200w260o3k1x1",     "n4c2h150w300o2k3x3p1x1g2",
        "n8c3h61w60o3k3x3s2x2p1x1g3", "n3c2h100w101o3k5x7_f64", "n2c40h20w20o64k5x5p2x2"
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

Test(conv2d_algorithms_gradient, few_results_of_sparse_data_are_computed_again, .timeout = 240)
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
                talc_scope *scope = talc_scope_enter();
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
                talc_scope_leave(scope);
            }
        gradients_free(&g);
    }
}

/* An algorithm gives the same bits on every run. */
Test(conv2d_algorithms_gradient, every_algorithm_repeats_itself, .timeout = 240)
{
    static const char *const texts[] = { "n3c5h40w50o6k3x3p1x1", "n3c8h30w31o9k1x1",
                                         "n2c3h70w131o3k3x3p1x1g3", "n4c2h56w56o2k5x5p2x2g2",
                                         "n20c16h16w16o20k3x3p1x1" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem p = conv2d_parse(texts[i]);
        gradients g = gradients_new(&p);
        fill_random(g.x, g.count[0], p.dtype, 1);
        fill_random(g.w, g.count[1], p.dtype, 2);
        fill_random(g.dy, g.count[2], p.dtype, 3);
        const talc_algorithm *algorithm = tested_device()->backend->algorithms[TALC_OP_conv2d];
        for (; algorithm->name != NULL; algorithm++)
            for (int d = 0; d < 2; d++) {
                talc_scope *scope = talc_scope_enter();
                const talc_direction direction = d == 0 ? TALC_GRAD_INPUT : TALC_GRAD_WEIGHT;
                const talc_tensor *once = by_algorithm(&g, direction, title_of(algorithm));
                const talc_tensor *again = by_algorithm(&g, direction, title_of(algorithm));
                cr_assert(once == NULL ? again == NULL : same_bits(once, again), "%s %s", texts[i],
                          title_of(algorithm));
                talc_scope_leave(scope);
            }
        gradients_free(&g);
    }
}
