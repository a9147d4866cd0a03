/// The mistakes of the five programs that talc grew out of, each as a test of every algorithm that
/// takes the problem, with the founding problems' layers reduced, and the founding problems
/// themselves explained.
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <stdio.h>
#include <string.h>

/* Every algorithm that takes the problem gives the oracle's integers, between guard bands of
 * NaN. */
static void expect_exact(const char *text)
{
    const talc_conv2d_problem problem = conv2d_parse(text);
    owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_EXACT, 62);
    conv2d_expect_exact(cpu_device(), &data, 0);
}

Test(conv2d_seeds, the_problems_that_showed_the_mistakes)
{
    static const char *const texts[] = {
        /* 2 and 4: every group read group 0's weights. */
        "n2c8h9w11o16k5x7g2", "n2c8h9w11o16k5x7g4", "n2c8h9w11o8k5x7g8", "n2c8h9w11o16k5x7g8",
        "n2c6h8w12o9k5x9g3_bias",
        /* 1: a bias that was not there was read; 2: there was none at all. */
        "n2c4h9w11o6k5x7", "n2c4h9w11o6k5x7_bias",
        /* 4: one stride served both axes. */
        "n2c3h19w17o4k5x9s1x2", "n2c3h19w17o4k5x9s2x1", "n2c3h19w17o4k5x7s3x2p2x1",
        "n2c3h9w17o4k5x9p3x1", "n1c2h21w29o3k5x7d1x3", "n1c2h21w29o3k5x7d4x2",
        /* 3 and 5: the product of a whole batch came out as [O, N * P] and was read as [N, O,
         * P]. */
        "n3c4h9w11o2k5x7_bias", "n7c2h5w7o3k5x7", "n4c2h6w9o3k5x9g1",
        /* 5: without a bounds test every padding read outside the image. */
        "n1c1h5w7o1k5x7p2x3", "n2c2h3w4o3k5x9p4x8", "n2c2h5w7o3k5x7p0x1x4x6",
        "n1c3h9w9o2k5x7s2x3p2x3d2x2", "n1c2h4w4o2k1x1p2x3",
        /* 2: f32 alone. */
        "n2c4h9w11o6k5x7_f64_bias"
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_exact(texts[i]);
}

/* 1 and 4: only the kernel sizes 5x7 and 5x9 worked. */
Test(conv2d_seeds, every_kernel_size_works)
{
    for (int kh = 1; kh <= 9; kh += 2)
        for (int kw = 1; kw <= 9; kw++) {
            char text[64];
            snprintf(text, sizeof text, "n1c2h9w11o3k%dx%d", kh, kw);
            expect_exact(text);
        }
}

/* 2: both types on every algorithm. */
Test(conv2d_seeds, float64_is_float64)
{
    const double pixel = 1 + 0x1p-40, weight = 1 - 0x1p-45;
    const talc_conv2d_problem problem = conv2d_parse("n1c1h1w1o1k1x1_f64");
    const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
    const talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(1, 1, 1, 1), &pixel);
    const talc_tensor *w = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(1, 1, 1, 1), &weight);
    for (int i = 0; i < e.decision.count; i++)
        if (!e.decision.candidates[i].refused) {
            const talc_conv2d_options options = { .algorithm = e.decision.candidates[i].title };
            cr_assert(talc_item(talc_conv2d(x, w, NULL, &options)) == pixel * weight, "%s",
                      e.decision.candidates[i].title);
        }
}

/* 5: the im2col matrix of problem A has 2,275,840,000 elements, 9.1 GB, and an int32 index
 * overflowed. It is known before anything runs, no algorithm asks for more workspace than the
 * limit, and im2col works in pieces. */
Test(conv2d_seeds, the_founding_problems_fit_a_small_workspace)
{
    static const char *const texts[] = { "n8c64h512w256o128k5x7", "n8c32h512w512o64k5x9",
                                         "n64c64h512w256o128k5x7", "n1c64h40000w40000o64k3x3p1x1" };
    talc_device *cpu = cpu_device();
    const size_t before = talc_workspace_limit(cpu);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t limit = (size_t)1 << 15; limit <= (size_t)1 << 30; limit <<= 5) {
            cr_assert(talc_workspace_set_limit(cpu, limit));
            const talc_conv2d_problem problem = conv2d_parse(texts[i]);
            const talc_conv2d_explanation e = conv2d_explanation(cpu, &problem);
            cr_assert(e.decision.workspace_limit == limit);
            bool im2col = false;
            for (int j = 0; j < e.decision.count; j++) {
                const talc_candidate *algorithm = &e.decision.candidates[j];
                cr_expect(algorithm->refused || algorithm->workspace <= limit,
                          "%s %s: %zu bytes of workspace, the limit is %zu", texts[i],
                          algorithm->name, algorithm->workspace, limit);
                im2col |= strcmp(algorithm->name, "im2col") == 0 && !algorithm->refused;
            }
            cr_expect(im2col, "%s: im2col refuses under %zu bytes", texts[i], limit);
        }
    cr_assert(talc_workspace_set_limit(cpu, before));
    const talc_conv2d_problem a = conv2d_parse(texts[0]);
    cr_assert(a.C * a.KH * a.KW * a.OH * a.OW * a.N == INT64_C(2275840000));
}

/* 1 and 5: coordinates that an int32 does not hold, and those that an int64 just holds. Padding,
 * stride and dilation are one number, so the pixel meets the second tap in the first output and the
 * first tap in the second. */
Test(conv2d_seeds, coordinates_may_be_large)
{
    static const int64_t far[] = { 40000, 1000003, INT64_C(1) << 31, (INT64_C(1) << 32) + 1,
                                   INT64_C(1) << 61 };
    const float taps[] = { 3, 5 }, pixel[] = { 7 };
    talc_device *cpu = cpu_device();
    const talc_tensor *x = talc_from_host(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 1), pixel);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        for (int across = 0; across < 2; across++) {
            const talc_tensor *w = talc_from_host(
                cpu, TALC_F32, across ? TALC_DIMS(1, 1, 1, 2) : TALC_DIMS(1, 1, 2, 1), taps);
            talc_conv2d_options options = { .groups = 1 };
            options.padding[across] = options.stride[across] = options.dilation[across] = far[i];
            talc_conv2d_problem problem;
            cr_assert(talc_conv2d_problem_of(x, w, NULL, &options, &problem), "%s",
                      talc_error_message());
            const talc_conv2d_explanation e = conv2d_explanation(cpu, &problem);
            for (int j = 0; j < e.decision.count; j++) {
                if (e.decision.candidates[j].refused)
                    continue;
                options.algorithm = e.decision.candidates[j].title;
                const talc_tensor *y = talc_conv2d(x, w, NULL, &options);
                cr_assert(y != NULL, "%s: %s", options.algorithm, talc_error_message());
                const float *values = talc_data(y, TALC_F32);
                cr_expect(talc_numel(y) == 2 && values[0] == 35 && values[1] == 21,
                          "%s with padding %lld: %g, %g", options.algorithm, (long long)far[i],
                          (double)values[0], (double)values[1]);
            }
        }
}

/* 5 again: what is worked out in pieces is what is worked out at once, and no more memory is used
 * than announced. */
Test(conv2d_seeds, small_workspaces_give_the_same_result)
{
    static const size_t limits[] = {
        (size_t)256 << 20, (size_t)64 << 10, (size_t)8 << 10, 4096, 100, 1, 0
    };
    static const char *const texts[] = { "n3c6h21w19o10k5x7_bias", "n2c6h17w15o9k5x9s2x1p2x4g3" };
    talc_device *cpu = cpu_device();
    const size_t before = talc_workspace_limit(cpu);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof limits / sizeof *limits; j++) {
            cr_assert(talc_workspace_set_limit(cpu, limits[j]));
            expect_exact(texts[i]);
            const talc_conv2d_problem problem = conv2d_parse(texts[i]);
            const talc_conv2d_explanation e = conv2d_explanation(cpu, &problem);
            for (int algorithm = 0; algorithm < e.decision.count && limits[j] >= 4096; algorithm++)
                cr_expect(strcmp(e.decision.candidates[algorithm].title, "im2col") != 0 ||
                              !e.decision.candidates[algorithm].refused,
                          "%s: im2col refuses under %zu bytes: %s", texts[i], limits[j],
                          e.decision.candidates[algorithm].reason);
        }
    cr_assert(talc_workspace_set_limit(cpu, before));
}

/* An algorithm that cannot work in pieces small enough refuses, and says what it needs; no other
 * takes more than the limit. */
Test(conv2d_seeds, no_algorithm_needs_more_than_the_limit)
{
    static const char *const texts[] = { "n2c6h41w39o6k5x7p2x3g6_bias", "n3c6h21w19o10k5x7_bias",
                                         "n2c6h17w15o8k1x1", "n1c3h40w41o6k3x3s2x2p3x3d4x4g3_f64" };
    talc_device *cpu = cpu_device();
    const size_t before = talc_workspace_limit(cpu);
    int refusals = 0;
    for (size_t limit = 64; limit < (size_t)4 << 20; limit += limit / 4)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            cr_assert(talc_workspace_set_limit(cpu, limit));
            const talc_conv2d_problem problem = conv2d_parse(texts[i]);
            const talc_conv2d_explanation e = conv2d_explanation(cpu, &problem);
            for (int j = 0; j < e.decision.count; j++) {
                const talc_candidate *algorithm = &e.decision.candidates[j];
                cr_expect(algorithm->refused || algorithm->workspace <= limit,
                          "%s %s: %zu bytes, the limit is %zu", texts[i], algorithm->name,
                          algorithm->workspace, limit);
                refusals += strstr(algorithm->reason, " of workspace, the limit is ") != NULL;
            }
        }
    cr_expect(refusals > 0, "no algorithm ever refuses for its workspace");
    cr_assert(talc_workspace_set_limit(cpu, before));
}

/* The peak of live memory during a call is its operands, its result and the workspace that explain
 * announced. */
Test(conv2d_seeds, no_more_memory_is_used_than_announced)
{
    talc_device *cpu = cpu_device();
    const size_t before = talc_workspace_limit(cpu);
    cr_assert(talc_workspace_set_limit(cpu, (size_t)1 << 20));
    const talc_conv2d_problem problem = conv2d_parse("n4c16h40w36o8k5x7");
    const talc_conv2d_explanation e = conv2d_explanation(cpu, &problem);
    const talc_tensor *x = talc_ones(cpu, TALC_F32, TALC_DIMS(4, 16, 40, 36));
    const talc_tensor *w = talc_ones(cpu, TALC_F32, TALC_DIMS(8, 16, 5, 7));
    for (int i = 0; i < e.decision.count; i++) {
        if (e.decision.candidates[i].refused)
            continue;
        const talc_conv2d_options options = { .algorithm = e.decision.candidates[i].title };
        const size_t live = talc_device_memory(cpu).live;
        talc_memory_reset_peak(cpu);
        talc_tensor *y = talc_conv2d(x, w, NULL, &options);
        assert_no_failure();
        const talc_memory after = talc_device_memory(cpu);
        /* The pool rounds sizes up, by at most an eighth and a few hundred bytes each. */
        const size_t announced = e.decision.candidates[i].workspace + talc_nbytes(y);
        cr_expect(after.peak - live <= announced + announced / 8 + 8192,
                  "%s: %zu bytes at its peak, %zu announced", e.decision.candidates[i].title,
                  after.peak - live, announced);
        cr_expect(after.live - live <= talc_nbytes(y) + talc_nbytes(y) / 8 + 4096,
                  "%s keeps memory", e.decision.candidates[i].title);
        talc_release(y);
    }
    cr_assert(talc_workspace_set_limit(cpu, before));
}
