/* Every algorithm of the CPU's conv2d table on problems of its own, by the cross-check; which
 * problems it refuses, and why. */
#include "tests/support/hooks.h"
#include "tests/support/plans.h"

#include "check/check.h"
#include "ops/backend.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *problem;
    /* Letters of the algorithms that do not refuse: depthwise by columns (c) and by planes (d),
     * pointwise, implicit_gemm (g), im2col, reference; of large results depthwise alone. Behind a
     * '/' those of f64, where they differ. */
    const char *algorithms;
} cases[] = {
    { "n2c3h9w7o4k3x3", "gir" },
    { "n1c1h1w1o1k1x1", "dpgir" },
    { "n3c4h5w6o5k1x1_bias_relu", "pgir" },
    { "n2c6h11w13o4k1x1g2_bias_residual_tanh", "pgir" },
    { "n1c300h5w80o270k1x1", "pgir" },
    { "n1c3h50w70o5k1x1_bias", "pgir" },
    /* Columns of channels, and of pixels in place or not, in more than one round of terms; two
     * panels of two vectors; many blocks of rows. */
    { "n2c2100h7w7o70k1x1_bias_relu", "pgir" },
    { "n1c2100h5w13o9k1x1_residual", "pgir" },
    { "n1c2100h4w16o7k1x1", "pgir" },
    { "n2c40h8w8o5k1x1_bias", "pgir" },
    { "n1c40h8w8o25k1x1", "pgir" },
    { "n1c40h14w14o600k1x1_bias_residual_relu6", "pgir" },
    { "n2c6h8w8o4k1x1s2x2", "pgir" },
    { "n5c6h17w40o33k1x1s4x3_bias_residual_relu", "pgir" },
    { "n3c5h9w12o7k1x1s3x2_dx", "pgir" },
    { "n4c40h30w29o20k1x1s2x1g2_dw", "pgr" },
    { "n2c4h8w7o6k1x1p1x2", "gir" },
    { "n2c6h13w11o9k3x4s2x3p2x1d2x1g3_bias", "gir" },
    { "n1c3h12w9o5k5x3p2x1x3x4_residual", "gir" },
    { "n2c4h9w8o6k3x3p2x2_reflect", "gir" },
    { "n2c4h9w8o6k3x5s2x1p4x3x1x2d2x1_replicate_bias", "gir" },
    { "n2c4h6w7o6k3x3s1x2p6x7_circular", "gir" },
    { "n40c8h4w5o12k3x3p1x1_bias_sigmoid", "gir" },
    { "n7c40h6w6o140k3x3p1x1g2", "gir" },
    { "n1c64h40w50o16k3x3p1x1", "gir" },
    /* Patches that tasks share, over more than one round of channels; gathered ones, shared or not,
     * of the last images too. */
    { "n1c520h5w5o40k3x3p1x1", "gir" },
    { "n7c40h13w13o140k3x3s2x2p1x1g2", "gir" },
    { "n170c7h7w7o80k3x3p1x1_bias", "gir" },
    { "n33c6h14w14o88k3x3p1x1", "gir" },
    { "n1c3h4w3000o2k2x7s1x2p0x3", "gir" },
    /* Rows of whole vectors, which tiles write: of more than one block of rows, of dx too. */
    { "n2c5h19w64o20k3x3p1x1_bias_relu", "gir" },
    { "n2c4h9w96o10k7x7s1x2p3x3g2_residual_tanh", "gir" },
    { "n1c20h25w112o17k5x3p2x1_dx", "gir" },
    /* Taps further apart than a block has outputs, along one axis or both. */
    { "n1c3h70w90o5k3x4p9x0x9x0d30x25", "gir" },
    { "n3c4h75w9o9k3x3s2x1p3x3d30x3_reflect", "gir" },
    { "n40c5h4w5o9k3x2p40x50d40x50", "gir" },
    { "n2c5h7w7o5k3x3p1x1g5_bias_relu", "dgir" },
    { "n2c3h20w37o6k3x3p1x1g3_residual", "cdgir" },
    { "n3c4h14w31o4k3x3s2x2p1x1g4", "dgir/cdgir" },
    { "n1c2h11w40o2k5x5p2x2g2_bias", "dgir" },
    { "n1c2h17w35o2k4x3s3x4p3x2x1x0d2x3g2", "dgir" },
    { "n1c1h6w2100o2k3x3p1x1", "cdgir" },
    { "n1c2h9w9o2k3x3p1x1g2_reflect", "gir" },
    { "n2c8h4w4o8k1x1g8_bias", "dpgir" },
    { "n1c2h3w3o2k3x3s5x7p9x9g2", "dgir" },
    /* Columns: one, overlapping ones, at every border; rows of padding on either side, more of them
     * than taps. */
    { "n1c3h9w18o3k3x3p1x1g3", "cdgir" },
    { "n1c3h9w17o3k3x3p1x1g3", "dgir/cdgir" },
    { "n2c3h20w34o6k3x3s2x2p1x1g3_bias_relu6", "cdgir" },
    { "n1c3h11w67o3k3x3s2x2p3x1g3", "cdgir" },
    { "n1c3h12w68o3k3x3s2x2p0x0x1x1g3_residual", "cdgir" },
    { "n1c2h7w99o2k3x3s2x2g2", "cdgir" },
    { "n1c3h20w40o3k3x3p1x1g3_dx", "cdgir" },
    { "n2c3h20w40o3k3x3p4x0g3_dx", "dgir" },
    { "n1c3h20w40o3k3x3p0x2g3_dx", "cdgir" },
    { "n2c3h19w70o3k3x3s2x2p1x1g3_dx", "cdgir" },
    { "n1c3h22w66o3k3x3s2x2p0x0x1x1g3_dx", "cdgir" },
    { "n1c2h9w34o2k3x3s2x2p4x1g2_dx", "cdgir" },
    { "n1c2h9w67o2k3x3s2x2p1x1g2_dx", "dgir" },
    { "n2c3h20w40o6k3x3p1x1g3_dw", "cdgr" },
    { "n3c2h300w19o2k3x3p2x0g2_dw", "cdgr" },
    { "n2c3h21w70o3k3x3s2x2p1x1g3_dw", "cdgr" },
    { "n1c3h22w67o3k3x3s2x2p0x0x1x0g3_dw", "cdgr" },
    /* Planes: lanes that have none, blocks of rows of unequal length, blocks of columns, rings as
     * long as a window or as the image, results side by side; several filters a channel. */
    { "n3c7h19w5o7k5x5p2x2g7_relu6", "dgir" },
    { "n2c5h37w7o10k3x3s2x2p1x1g5_bias", "dgir" },
    { "n1c17h9w14o17k3x5s1x2p1x2g17_dx", "dgir" },
    { "n2c3h33w9o9k5x3s2x1p2x1g3_dx", "dgir" },
    { "n5c3h33w9o9k5x3s2x1p2x1g3_dw", "dgr" },
    { "n1c40h8w300o40k7x7p3x3d2x1g40_dw", "dgr" },
    /* Long kernels and rows, dilation, strides. */
    { "n1c1h40w45o2k31x31p15x15", "dgir" },
    { "n1c2h25w50o4k7x9p3x4g2_bias", "dgir" },
    { "n1c2h30w19o2k5x3s4x1p2x1d3x1g2", "dgir" },
    { "n1c2h30w67o2k3x4s1x3p1x2d2x2g2", "dgir" },
    { "n1c2h23w66o2k3x5s2x4p0x3d4x6g2", "dgir" },
    { "n1c1h9w2300o1k3x5s1x2p1x2", "dgir" },
    /* Steps that are never taken. */
    { "n1c2h4w5o2k3x2s9223372036854775807x9223372036854775806p2x3", "ir" },
    { "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806g2", "dgir" },
    { "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806_replicate", "gir" },
    /* Results of more than 8 MiB, which depthwise writes past the caches: by lines or by stretches
     * of algorithms. */
    { "n2c80h130w140o80k3x3p1x1g80_bias", "cd" },
    { "n2c80h130w144o80k3x3p1x1g80", "cd" },
    { "n2c80h130w144o80k3x3p1x1g80_relu", "cd" },
    { "n2c80h130w140o80k3x3p1x1g80", "cd" },
    { "n2c80h66w112o80k3x3p1x1g80_f64", "cd" },
    { "n1c1h1010w2080o1k3x3p1x1", "cd" },
    { "n1c1h3w1047553o1k3x3p1x1_bias", "c" },
};

enum { CASES = sizeof cases / sizeof *cases };

#define KIND(name) ((uint64_t)1 << TALC_CHECK_##name)

/* The letters of the algorithms that ran, in their order. */
static void record_algorithm(void *context, const talc_check_outcome *outcome)
{
    char *algorithms = context;
    cr_expect(outcome->passed, "%s %s: %s", outcome->problem, outcome->algorithm, outcome->reason);
    const char *algorithm = outcome->algorithm;
    const char letter[] = { strcmp(algorithm, "implicit_gemm") == 0        ? 'g'
                            : strcmp(algorithm, "depthwise(columns)") == 0 ? 'c'
                                                                           : *algorithm,
                            '\0' };
    if (strstr(algorithms, letter) == NULL)
        strcat(algorithms, letter);
}

/* What talc_check tells of an algorithm's values: all but the relations between convolutions. */
#define OF_VALUES (KIND(BATCH) - 1)

/* The letters of the algorithms that ran and passed; `algorithm` NULL: of all. */
static void check_algorithms(const char *text, uint64_t kinds, const char *algorithm, char ran[8])
{
    owned_check *check = talc_check_new(&(talc_check_options){ .device = cpu_device(),
                                                               .algorithm = algorithm,
                                                               .kinds = kinds,
                                                               .observe = record_algorithm,
                                                               .context = ran });
    cr_assert(talc_check_problem(check, text), "%s: %s", text, talc_error_message());
}

/* Every algorithm that does not refuse: its values, for every number of threads and in any
 * workspace, and how far a NaN reaches; of f64 and of large results, which are about depthwise,
 * less. */
Test(conv2d_algorithms, every_algorithm_passes_the_cross_check)
{
    const uint64_t few = KIND(EXACT) | KIND(THREADS) | KIND(GUARDS);
    for (int i = 0; i < CASES; i++) {
        const char *text = cases[i].problem;
        char ran[8] = "", again[8] = "", wide[TALC_CHECK_TEXT], expected[8];
        const char *slash = strchr(cases[i].algorithms, '/');
        snprintf(wide, sizeof wide, "%s_f64", text);
        snprintf(expected, sizeof expected, "%.*s", (int)strcspn(cases[i].algorithms, "/"),
                 cases[i].algorithms);
        if (strchr(cases[i].algorithms, 'r') != NULL) {
            check_algorithms(text, OF_VALUES, NULL, ran);
            check_algorithms(wide, few | KIND(RANDOM), NULL, again);
            cr_expect(strcmp(again, slash == NULL ? expected : slash + 1) == 0,
                      "%s: the algorithms %s ran", wide, again);
        } else {
            check_algorithms(text, few, "depthwise", ran);
        }
        cr_expect(strcmp(ran, expected) == 0, "%s: the algorithms %s ran", text, ran);
    }
}

Test(conv2d_algorithms, algorithms_say_why_they_refuse)
{
    static const struct {
        const char *problem, *algorithm, *reason;
    } refusals[] = {
        { "n1c4h5w5o4k3x3", "depthwise(columns)", "groups is not the number of input channels" },
        { "n1c4h5w5o4k3x3p1x1g4_reflect", "depthwise(columns)", "the padding is not zeros" },
        { "n1c4h5w5o4k3x1g4", "depthwise(columns)", "the kernel is not 3x3" },
        { "n1c4h5w5o4k5x3g4", "depthwise(columns)", "the kernel is not 3x3" },
        { "n1c4h5w5o4k3x3s1x2g4", "depthwise(columns)",
          "the stride is not 1 or 2 along both axes" },
        { "n1c4h5w5o4k3x3s2x1g4", "depthwise(columns)",
          "the stride is not 1 or 2 along both axes" },
        { "n1c4h5w5o4k3x3d1x2g4", "depthwise(columns)", "the dilation is not 1" },
        { "n1c4h5w5o4k3x3d2x1g4", "depthwise(columns)", "the dilation is not 1" },
        { "n1c4h5w5o8k3x3g4_dx", "depthwise(columns)", "an input channel has several filters" },
        { "n1c4h5w41o4k3x3s2p1g4_dx", "depthwise(columns)", "a row of dx is not two of dy" },
        { "n1c4h5w40o4k3x3p1x2g4", "depthwise(columns)",
          "more than one column of padding is on a side" },
        { "n1c4h5w40o4k3x3p1x1x1x2g4_dw", "depthwise(columns)",
          "more than one column of padding is on a side" },
        { "n1c4h5w17o4k3x3p1g4", "depthwise(columns)", "the rows are short" },
        { "n1c4h5w33o4k3x3s2p1g4_dw", "depthwise(columns)", "the rows are short" },
        { "n1c1h1w200000o1k1x31p0x15", "depthwise(planes)",
          "rows are long, and most lanes would have none" },
        { "n1c4h5w5o4k3x3", "depthwise(planes)", "groups is not the number of input channels" },
        { "n1c4h5w5o4k3x3p1x1g4_reflect", "depthwise(planes)", "the padding is not zeros" },
        { "n1c1h5w5o1k1x1s70000x1", "depthwise(planes)",
          "the dilated kernel or the stride is longer than 65536" },
        { "n1c4h5w5o4k3x1", "pointwise", "the kernel is not 1x1" },
        { "n64c256h56w56o512k1x1s2x2_dw", "pointwise",
          "the pixels that the stride meets take too much memory" },
        { "n1c4h5w5o4k1x1p0x0x0x1", "pointwise", "there is padding" },
        { "n1c2h5w5o4k1x1s65537x1", "implicit_gemm",
          "the dilated kernel or the stride is longer than 65536" },
        { "n1c2h3w70000o4k1x2p1x1d1x65536", "implicit_gemm",
          "the dilated kernel or the stride is longer than 65536" },
        { "n35184372088832c1h1w1o1k1x1", "implicit_gemm",
          "the operands take more than 2^47 bytes" },
        { "n1c2h2000w2000o4k2x2d1900x1900", "implicit_gemm",
          "the dilated kernel spans more than 2^20 elements" },
        { "n1c2h100w100o4k1x1s9x9_dx", "implicit_gemm",
          "the strides make more than 64 convolutions of the input gradient" },
        { "n1c4h5w5o4k3x3_dw", "im2col", "it has no gradient by the weights" },
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        talc_conv2d_problem problem;
        talc_conv2d_explanation explanation;
        cr_assert(talc_conv2d_problem_parse(refusals[i].problem, &problem), "%s",
                  talc_error_message());
        cr_assert(talc_conv2d_explain(cpu_device(), &problem, NULL, &explanation));
        int found = 0;
        while (found < explanation.decision.count &&
               strcmp(explanation.decision.candidates[found].title, refusals[i].algorithm) != 0)
            found++;
        cr_assert(found < explanation.decision.count, "%s", refusals[i].algorithm);
        cr_assert(strcmp(explanation.decision.candidates[found].reason, refusals[i].reason) == 0,
                  "%s: %s", refusals[i].problem, explanation.decision.candidates[found].reason);
    }
}

/* Strides of 16 and more, long kernels, taps far apart, by workspaces that hold a part of a kernel:
 * the algorithm that runs is not `reference`, and right. */
Test(conv2d_algorithms, every_gradient_has_an_algorithm, .timeout = 60)
{
    static const char *const texts[] = {
        "n2c4h13w14o20k5x7s2x1p3x4d2x3g2_dw",
        "n2c4h13w14o20k5x7s2x1p3x4d2x3g2_dx",
        "n2c3h9w7o4k3x3p1x1_f64_dw",
        "n2c3h35w50o5k16x16s16x16p1x1_dx",
        "n2c3h35w50o5k16x16s16x16p1x1_dw",
        "n3c1h3w1200o2k1x600p0x3_dw",
        "n1c2h4w4o2k2x2s1000000000x1000000007_dw",
        "n1c2h2w3o3k2x3s70000x70000p70000x140000d70000x70000_dw",
        "n2c2h2w3o3k1x1s2305843009213693952x1p2305843009213693951x0_dw",
    };
    static const size_t limits[] = { (size_t)32 << 20, 8192, 4096, 2048, 1024 };
    talc_device *cpu = cpu_device();
    const size_t before = talc_workspace_limit(cpu);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof limits / sizeof *limits; j++) {
            talc_conv2d_problem problem;
            talc_conv2d_explanation explanation;
            char ran[8] = "";
            cr_assert(talc_workspace_set_limit(cpu, limits[j]));
            cr_assert(talc_conv2d_problem_parse(texts[i], &problem), "%s", talc_error_message());
            cr_assert(talc_conv2d_explain(cpu, &problem, NULL, &explanation));
            const char *algorithm =
                explanation.decision.candidates[explanation.decision.chosen].title;
            cr_expect(strcmp(algorithm, "reference") != 0, "%s in %zu bytes: %s", texts[i],
                      limits[j], algorithm);
            check_algorithms(texts[i], KIND(EXACT) | KIND(RANDOM) | KIND(INFINITY) | KIND(GUARDS),
                             algorithm, ran);
        }
    cr_assert(talc_workspace_set_limit(cpu, before));
}

/* What lies between the taps of a dilated kernel is not copied, or this algorithm would take many
 * times as long as others. */
Test(conv2d_algorithms, implicit_gemm_copies_what_windows_read)
{
    static const char *const problems[] = { "n1c1h1200w1200o1k3x3d500x500",
                                            "n1c1h60001w40o1k2x1d60000x1",
                                            "n1c1h40w60001o1k1x2d1x60000" };
    cr_assert(talc_set_threads(1));
    for (int i = 0; i < 3; i++)
        for (int direction = TALC_FORWARD; direction <= TALC_GRAD_WEIGHT; direction++) {
            talc_conv2d_problem problem;
            talc_conv2d_explanation e;
            cr_assert(talc_conv2d_problem_parse(problems[i], &problem));
            problem.direction = direction;
            const talc_conv2d_options options = { .algorithm = "implicit_gemm" };
            cr_assert(talc_conv2d_explain(cpu_device(), &problem, &options, &e));
            cr_assert(e.decision.chosen == 3);
            const size_t bytes = e.decision.candidates[3].workspace;
            cr_assert(bytes < 128 << 10, "%s, direction %d: %zu bytes", problems[i], direction,
                      bytes);
        }
}

/* A block of outputs takes as long in a long row of the image as in a short one: of 31,250 blocks
 * here, 0.1 s in all. */
Test(conv2d_algorithms, implicit_gemm_of_a_long_row, .timeout = 30)
{
    const int64_t W = 32000000;
    const talc_conv2d_options options = { .stride = { 1, 2 }, .algorithm = "implicit_gemm" };
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, (double)W, 1);
    const talc_tensor *w = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 1, 1));
    const talc_tensor *y = talc_conv2d(talc_view(x, TALC_DIMS(1, 1, 1, W)), w, NULL, &options);
    const float *elements = talc_data_read(y, TALC_F32);
    cr_assert(elements != NULL && talc_numel(y) == W / 2, "%s", talc_error_message());
    int64_t wrong = 0;
    for (int64_t i = 0; i < W / 2; i++)
        wrong += elements[i] != (float)(2 * i);
    cr_assert(wrong == 0);
}

/* Gradients have the algorithms of the forward direction. */
Test(conv2d_algorithms, gradients_by_the_same_algorithms)
{
    static const char *const problems[] = { "n2c3h9w7o4k3x3_reflect", "n2c4h8w7o6k1x1",
                                            "n1c5h7w7o5k3x3p1x1g5" };
    static const char *const chosen[][2] = { { "implicit_gemm", "implicit_gemm" },
                                             { "pointwise", "pointwise" },
                                             { "depthwise(planes)", "depthwise(planes)" } };
    for (int i = 0; i < 3; i++)
        for (int direction = TALC_GRAD_INPUT; direction <= TALC_GRAD_WEIGHT; direction++) {
            talc_conv2d_problem problem;
            talc_conv2d_explanation e;
            cr_assert(talc_conv2d_problem_parse(problems[i], &problem));
            problem.direction = direction;
            cr_assert(talc_conv2d_explain(cpu_device(), &problem, NULL, &e));
            cr_assert(e.decision.count == 6 && e.decision.chosen >= 0);
            const char *name = e.decision.candidates[e.decision.chosen].title;
            cr_assert(strcmp(name, chosen[i][direction - TALC_GRAD_INPUT]) == 0, "%s: %s",
                      problems[i], name);
            cr_assert(!e.decision.candidates[5].refused, "reference takes everything");
        }
}

// ---- Estimates ----------------------------------------------------------------------------------

static double estimates[2]; /* of the algorithms that follow, in seconds */
static const char *refusals_now[2];

PLAN(plan_1, refusals_now[0], plan->seconds = estimates[0])
PLAN(plan_2, refusals_now[1], plan->seconds = estimates[1])

static talc_status write_number(const void *arguments, float number)
{
    *(float *)((const talc_conv2d_arguments *)arguments)->y = number;
    return TALC_OK;
}

static talc_status write_1(talc_device *device, const void *problem, const talc_plan *plan,
                           const void *arguments)
{
    (void)device, (void)problem, (void)plan;
    return write_number(arguments, 1);
}

static talc_status write_2(talc_device *device, const void *problem, const talc_plan *plan,
                           const void *arguments)
{
    (void)device, (void)problem, (void)plan;
    return write_number(arguments, 2);
}

static talc_status write_3(talc_device *device, const void *problem, const talc_plan *plan,
                           const void *arguments)
{
    (void)device, (void)problem, (void)plan;
    return write_number(arguments, 3);
}

/* The number of the algorithm that runs on a problem of some width, which explain has to say too. A
 * plan follows from the problem, and is remembered with it: another plan needs another problem. */
static int algorithm_run(talc_device *device, int64_t width, const char *forced)
{
    const talc_conv2d_options options = { .algorithm = forced };
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(1, 1, 1, width));
    const int algorithm = (int)talc_item(talc_conv2d(x, x, NULL, &options));
    cr_assert(!talc_failed(), "%s", talc_error_message());
    talc_conv2d_problem problem;
    talc_conv2d_explanation e;
    cr_assert(talc_conv2d_problem_of(x, x, NULL, &options, &problem));
    cr_assert(talc_conv2d_explain(device, &problem, &options, &e));
    cr_assert(e.decision.chosen == algorithm - 1, "algorithm %d ran, explain says %d", algorithm,
              e.decision.chosen + 1);
    for (int i = 0; i < 2; i++)
        cr_assert(e.decision.candidates[i].refused ||
                  e.decision.candidates[i].seconds == estimates[i]);
    return algorithm;
}

Test(conv2d_algorithms, the_least_estimate_runs)
{
    const talc_algorithm algorithms[] = {
        { "first", NULL, { "none", TALC_STRICT, false }, plan_1, write_1 },
        { "second", NULL, { "none", TALC_STRICT, false }, plan_2, write_2 },
        { "reference", NULL, { "none", TALC_STRICT, false }, talc_plan_any, write_3 },
        { .name = NULL },
    };
    talc_device device = *cpu_device();
    struct talc_backend backend = *device.backend;
    backend.algorithms[TALC_OP_conv2d] = algorithms;
    device.backend = &backend;
    static const struct {
        double estimates[2];
        const char *refusals[2];
        const char *forced;
        int runs;
    } choices[] = {
        { { 0, 0 }, { NULL, NULL }, NULL, 1 }, /* without estimates the first that can */
        { { 0, 0 }, { "refuses", NULL }, NULL, 2 },
        { { 2, 1 }, { NULL, NULL }, NULL, 2 },
        { { 1, 2 }, { NULL, NULL }, NULL, 1 },
        { { 1, 1 }, { NULL, NULL }, NULL, 1 },
        { { 2, 1 }, { NULL, "refuses" }, NULL, 1 },
        { { 2, 1 }, { NULL, NULL }, "first", 1 }, /* what is asked for runs */
        { { 2, 1 }, { "refuses", "refuses" }, NULL, 3 },
        { { 1, 2 }, { NULL, NULL }, "reference", 3 },
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        memcpy(estimates, choices[i].estimates, sizeof estimates);
        memcpy(refusals_now, choices[i].refusals, sizeof refusals_now);
        const int algorithm = algorithm_run(&device, (int64_t)i + 1, choices[i].forced);
        cr_expect(algorithm == choices[i].runs, "case %zu: algorithm %d ran, not %d", i, algorithm,
                  choices[i].runs);
    }

    const talc_algorithm refusing[] = { algorithms[0], algorithms[1], algorithms[3] };
    backend.algorithms[TALC_OP_conv2d] = refusing;
    refusals_now[0] = refusals_now[1] = "takes none";
    talc_scope *scope = talc_scope_enter(); /* which ends before the device does */
    const talc_tensor *x = talc_ones(&device, TALC_F32, TALC_DIMS(1, 1, 1, 1));
    cr_assert(talc_conv2d(x, x, NULL, NULL) == NULL);
    cr_assert_str_eq(talc_error_message(), "conv2d on cpu: first: takes none; second: takes none");
    talc_error_clear();
    talc_scope_leave(scope);
}
