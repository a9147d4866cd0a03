/* How the CUDA algorithms of conv2d and of batch norm plan, on GPUs that need not be there: a plan
 * looks at the problem, the limit and what the GPU is alone. */
#include "tests/support/hooks.h"

#include "backends/cuda/conv2d/direct_small.h"
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/cuda.h"
#include "check/engine/data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static talc_cuda_state state;
static talc_device gpu = { .name = "cuda:0", .state = &state };

static talc_conv2d_problem problem_of(const char *text)
{
    talc_conv2d_problem problem;
    cr_assert(talc_conv2d_problem_parse(text, &problem), "%s: %s", text, talc_error_message());
    return problem;
}

/* The plan of the least estimate of a name, or of name(form), in the limit where one fits; all 0
 * where none takes the problem. */
static talc_plan plan_by(const char *name, const talc_conv2d_problem *p, size_t limit)
{
    talc_plan min = { .workspace = 0 };
    int algorithms = 0;
    for (const talc_algorithm *algorithm = talc_cuda_conv2d; algorithm->name != NULL; algorithm++) {
        if (!talc_algorithm_is_asked_for(algorithm->name, algorithm->form, name))
            continue;
        talc_plan plan = { .workspace = 0 };
        const bool takes = algorithm->plan(&gpu, p, limit, &plan) == NULL;
        const bool fits = algorithm->form == NULL || plan.workspace <= limit;
        algorithms++;
        if (takes && fits && (min.seconds == 0 || plan.seconds < min.seconds))
            min = plan;
    }
    cr_assert(algorithms > 0, "there is no '%s'", name);
    return min;
}

/* The algorithm of a title. */
static const talc_algorithm *row_of(const char *title)
{
    const talc_algorithm *algorithm = talc_cuda_conv2d;
    char text[TALC_ALGORITHM_TEXT];
    while (algorithm->name != NULL && strcmp(talc_algorithm_text(algorithm, text), title) != 0)
        algorithm++;
    cr_assert(algorithm->name != NULL, "there is no '%s'", title);
    return algorithm;
}

/* The bytes that im2col plans with. */
static size_t planned(const talc_conv2d_problem *p, size_t limit)
{
    talc_plan plan = { .workspace = 0 };
    cr_assert_null(row_of("im2col(cublas)")->plan(&gpu, p, limit, &plan));
    return plan.workspace;
}

/* 2,048 columns of one channel, the least that is asked for where not even four fit. */
static size_t min_of(const talc_conv2d_problem *p)
{
    return (size_t)(2048 * p->KH * p->KW) * talc_dtype_size(p->dtype);
}

Test(conv2d_plans, im2col_uses_what_it_asked_for)
{
    static const struct {
        const char *text;
        size_t limit;
    } cases[] = {
        { "n1c3h72w72o5633k9x9", (size_t)2 << 20 },
        { "n1c53h64w64o5633k3x3p1x1", (size_t)2 << 20 },
        { "n1c17h64w64o4481k5x9p2x4", (size_t)4 << 20 },
        { "n1c3190h64w64o5804k9x9p4x4", (size_t)512 << 20 },
        { "n1c3809h64w64o2049k3x3p1x1", (size_t)512 << 20 },
        { "n1c3h4w4o5k3x3", 0 },
        { "n4c6h30w31o8k3x3g2_f64", 20000 },
    };
    state.multiprocessors = 132;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        const size_t bytes = planned(&p, cases[i].limit);
        cr_assert(bytes <= cases[i].limit || bytes <= min_of(&p), "%s: %zu of %zu bytes",
                  cases[i].text, bytes, cases[i].limit);
    }
}

static uint64_t seed = 1;

/* Of 1 to `max`, as often small as large. */
static int64_t some(int64_t max)
{
    return talc_check_draw(&seed, 1, talc_check_draw(&seed, 1, max));
}

Test(conv2d_plans, im2col_uses_what_it_asked_for_on_any_problem)
{
    enum { TRIALS = 300000 };
    static const int sizes[] = { 132, 108, 78, 7, 1 };
    int cut = 0, whole = 0, rows = 0;
    for (int i = 0; i < TRIALS; i++) {
        char text[128];
        const int64_t groups = some(4), side = some(400), kernel = some(side < 12 ? side : 12);
        snprintf(text, sizeof text, "n%dc%dh%dw%do%dk%dx%dg%d%s", (int)some(64),
                 (int)(groups * some(600)), (int)side, (int)(kernel + some(400)),
                 (int)(groups * some(6000)), (int)kernel, (int)kernel, (int)groups,
                 some(4) == 1 ? "_f64" : "");
        const talc_conv2d_problem p = problem_of(text);
        state.multiprocessors = sizes[i % 5];
        state.capability = i % 16 == 0 ? 90 : 80;
        const size_t limit = (size_t)some((int64_t)1 << (10 + i % 22));
        const size_t bytes = planned(&p, limit);
        cr_assert(bytes <= limit || bytes <= min_of(&p), "%s: %zu of %zu bytes", text, bytes,
                  limit);
        const size_t all =
            (size_t)(p.C / p.groups * p.KH * p.KW * p.OH * p.OW) * talc_dtype_size(p.dtype);
        whole += bytes >= all;
        cut += bytes < all;
        rows += bytes < all &&
                bytes / talc_dtype_size(p.dtype) < (size_t)(p.C / p.groups * p.KH * p.KW * 2048);
    }
    cr_assert(whole > TRIALS / 20 && cut > TRIALS / 4 && rows > TRIALS / 4, "%d %d %d", whole, cut,
              rows);
}

/* Tensor cores take whole planes where the limit holds their halves too, on Hopper, and say why
 * they take no others; they are faster than cuBLAS there. */
Test(conv2d_plans, im2col_packs_for_tensor_cores)
{
    static const char whole[] = "the workspace does not hold a whole image's matrix",
                      weights[] = "it has no weight gradient",
                      gaps[] = "there are gaps between the results of products";
    static const struct {
        const char *text;
        size_t limit;
        const char *expected;
    } cases[] = {
        { "n32c256h16w16o512k3x3p1x1", (size_t)512 << 20, NULL },
        { "n32c256h16w16o512k3x3p1x1_dx", (size_t)512 << 20, NULL },
        { "n8c256h56w56o256k3x3p1x1_dw", (size_t)512 << 20, weights },
        { "n32c256h16w16o512k3x3p1x1", (size_t)1 << 20, whole },
        { "n32c256h15w15o512k3x3p1x1_dx", (size_t)512 << 20, gaps },
        { "n32c256h16w16o512k3x3p1x1g2", (size_t)512 << 20, "groups is not 1" },
        { "n32c256h16w16o512k3x3p1x1_f64", (size_t)512 << 20, "the data is not f32" },
        { "n1c1h8w8o4k3x3p1x1", (size_t)512 << 20, "sums of fewer than 16 products" },
    };
    const talc_algorithm *algorithm = row_of("im2col(tensor cores)");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        const char *expected = cases[i].expected;
        talc_plan plan = { .workspace = 0 };
        state = (talc_cuda_state){ .multiprocessors = 132, .capability = 90 };
        const char *reason = algorithm->plan(&gpu, &p, cases[i].limit, &plan);
        cr_expect(expected == NULL ? reason == NULL
                                   : reason != NULL && strcmp(reason, expected) == 0,
                  "%s: %s", cases[i].text, reason);
        if (expected != NULL)
            continue;
        cr_expect(plan.seconds < plan_by("im2col(cublas)", &p, cases[i].limit).seconds, "%s: %g s",
                  cases[i].text, plan.seconds);
        cr_expect(plan.workspace <= cases[i].limit, "%s: %zu bytes", cases[i].text, plan.workspace);
        state.capability = 80;
        cr_expect_str_eq(algorithm->plan(&gpu, &p, cases[i].limit, &plan),
                         "the GPU is not of compute capability 9.0");
    }
}

/* Small images are for direct, large products for im2col. */
Test(conv2d_plans, direct_and_im2col_by_their_estimates)
{
    static const struct {
        const char *text;
        size_t limit;
        bool direct;
    } cases[] = {
        { "n64c16h32w32o16k3x3p1x1", (size_t)512 << 20, true },
        { "n64c64h8w8o64k3x3p1x1_f64", (size_t)512 << 20, false },
        { "n8c64h512w256o128k5x7", (size_t)512 << 20, false },
        { "n16c256h56w56o256k3x3p1x1", (size_t)512 << 20, false },
        { "n64c64h56w56o128k5x5s2x2p2x2", (size_t)512 << 20, false },
        { "n8c64h512w256o128k5x7_f64", (size_t)512 << 20, false },
    };
    state = (talc_cuda_state){ .multiprocessors = 132, .block_shared = 163 << 10 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        const double direct = plan_by("direct", &p, cases[i].limit).seconds,
                     im2col = plan_by("im2col", &p, cases[i].limit).seconds;
        cr_expect(direct > 0 && im2col > 0 && (direct < im2col) == cases[i].direct,
                  "%s: direct %g s, im2col %g s", cases[i].text, direct, im2col);
    }
}

/* By wgmma on Hopper alone, by mma.sync also on the GPUs before and after, in the shared memory
 * that each of them lends. */
Test(conv2d_plans, tensor_cores_by_the_gpus_capability)
{
    static const struct {
        int capability, block_shared;
        const char *wgmma, *mma;
    } gpus[] = {
        { 75, 64 << 10, "the GPU is not of compute capability 9.0",
          "the GPU is older than compute capability 8.0" },
        { 80, 163 << 10, "the GPU is not of compute capability 9.0", NULL },
        { 86, 99 << 10, "the GPU is not of compute capability 9.0", NULL },
        { 89, 99 << 10, "the GPU is not of compute capability 9.0", NULL },
        { 90, 227 << 10, NULL, NULL },
        { 100, 227 << 10, "the GPU is not of compute capability 9.0", NULL },
    };
    static const char *const names[] = { "implicit_gemm(wgmma)", "implicit_gemm(mma)" };
    static const char *const problems[] = { "n16c64h56w56o64k3x3p1x1",
                                            "n16c64h56w56o64k3x3p1x1_dw" };
    for (size_t i = 0; i < 2 * sizeof gpus / sizeof *gpus; i++) {
        const talc_conv2d_problem p = problem_of(problems[i % 2]);
        double seconds[4] = { 0 };
        state = (talc_cuda_state){ .multiprocessors = 132,
                                   .capability = gpus[i / 2].capability,
                                   .block_shared = gpus[i / 2].block_shared };
        for (int j = 0; j < 4; j++) {
            const char *expected = j % 2 == 0 ? gpus[i / 2].wgmma : gpus[i / 2].mma, *reason;
            const talc_algorithm *algorithm = talc_cuda_conv2d;
            talc_plan plan = { .workspace = 0 };
            while (!talc_algorithm_is_asked_for(algorithm->name, algorithm->form, names[j % 2]) ||
                   algorithm->arithmetic.precision != (j < 2 ? TALC_STRICT : TALC_TF32))
                algorithm++;
            reason = algorithm->plan(&gpu, &p, (size_t)512 << 20, &plan);
            cr_assert(expected == NULL ? reason == NULL
                                       : reason != NULL && strcmp(reason, expected) == 0,
                      "%d: %s: %s", gpus[i / 2].capability, names[j % 2], reason);
            seconds[j] = plan.seconds;
        }
        if (gpus[i / 2].wgmma == NULL)
            cr_assert(seconds[0] < seconds[1] && seconds[2] < seconds[3], "%g %g %g %g", seconds[0],
                      seconds[1], seconds[2], seconds[3]);
        if (gpus[i / 2].mma == NULL)
            cr_assert(seconds[3] < seconds[1] && seconds[1] < plan_by("direct", &p, 0).seconds,
                      "%d: %g %g", gpus[i / 2].capability, seconds[1], seconds[3]);
    }
}

/* Bulk-copied rows say which condition a problem does not meet. */
Test(conv2d_plans, bulk_copied_rows_say_why_not)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { "n64c64h28w28o64k3x3p1x1", NULL },
        { "n64c64h28w28o64k3x3s2x2p1x1", "the stride is not 1" },
        { "n64c64h28w28o64k3x3s2x2p1x1_dx", "the stride is not 1" },
        { "n64c24h28w28o64k3x3p1x1", "the input channels of a group are no multiple of 16" },
        { "n64c64h28w28o64k3x3p1x1_reflect", "the padding is not zeros" },
        { "n64c512h28w28o512k3x3p1x1", "sums of more than 128 channels" },
        { "n8c64h512w512o64k3x3p1x1", "the input under a tile does not fit shared memory" },
        { "n8c512h512w512o64k3x3p1x1", "the input under a tile does not fit shared memory" },
        { "n64c64h28w28o64k3x3p1x1_f64", "the data is not f32" },
    };
    const talc_algorithm *algorithm = row_of("implicit_gemm(bulk-copied rows)");
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        const char *expected = cases[i].expected;
        talc_plan plan = { .workspace = 0 };
        const char *reason = algorithm->plan(&gpu, &p, (size_t)512 << 20, &plan);
        cr_expect(expected == NULL ? reason == NULL
                                   : reason != NULL && strcmp(reason, expected) == 0,
                  "%s: %s", cases[i].text, reason);
    }
}

/* A round of images has fewer than 2^31 elements, however little room its phases take. */
Test(conv2d_plans, rounds_of_an_input_gradient_fit_32_bits)
{
    const talc_conv2d_problem p = problem_of("n16000c64h56w56o64k1x1s8x8_dx");
    talc_plan plan = { .workspace = 0 };
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    cr_expect_eq(talc_cuda_conv2d_pointwise_mma_gradient_plan(&gpu, &p, (size_t)512 << 20, &plan),
                 NULL);
}

/* Of a channel that is too long for the algorithm without a workspace. */
Test(conv2d_plans, batch_norms_of_long_channels_take_little_workspace)
{
    talc_batch_norm2d_problem p = { .direction = TALC_FORWARD,
                                    .dtype = TALC_F32,
                                    .N = 3,
                                    .C = 2,
                                    .H = 40000,
                                    .W = 50000,
                                    .training = true };
    for (int i = 0; i < 2; i++, p.direction = TALC_GRAD_INPUT) {
        talc_plan parts = { .workspace = 0 }, channels = { .workspace = 0 };
        cr_assert_null(talc_cuda_batch_norm2d[0].plan(&gpu, &p, 0, &parts));
        cr_expect(parts.workspace <= (size_t)256 << 10, "%zu bytes", parts.workspace);
        cr_expect_not_null(talc_cuda_batch_norm2d[1].plan(&gpu, &p, 0, &channels));
    }
}

/* At a stride gather_gemm computes dx phase by phase: faster than implicit_gemm where one phase has
 * taps, as of 1x1 kernels, slower where four have. */
Test(conv2d_plans, phases_of_an_input_gradient_are_estimated_as_measured)
{
    static const struct {
        const char *text;
        bool gathers;
    } cases[] = {
        { "n32c192h28w28o384k2x2s2x2_dx", false },
        { "n32c128h28w28o256k1x1s2x2_dx", true },
        { "n32c512h28w28o1024k1x1s2x2_dx", true },
    };
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        talc_plan gather = { .workspace = 0 }, implicit = { .workspace = 0 };
        cr_assert_null(row_of("gather_gemm")->plan(&gpu, &p, (size_t)1 << 30, &gather));
        cr_assert_null(row_of("implicit_gemm(wgmma)")->plan(&gpu, &p, (size_t)1 << 30, &implicit));
        cr_expect((gather.seconds < implicit.seconds) == cases[i].gathers, "%s: %g, %g",
                  cases[i].text, gather.seconds, implicit.seconds);
    }
}

/* Where TF32 is admitted cuBLAS streams a large matrix faster than `split on load`. */
Test(conv2d_plans, products_of_few_rows_with_tf32)
{
    static const struct {
        int64_t M, K, N;
        bool transposed;
    } cases[] = {
        { 32, 25088, 4096, true },  { 32, 4096, 25088, false }, { 64, 16384, 24576, false },
        { 128, 4096, 11008, true }, { 8, 25088, 4096, true },
    };
    state = (talc_cuda_state){ .multiprocessors = 132, .capability = 90 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t K = cases[i].K, N = cases[i].N;
        const talc_matmul_problem p = { .dtype = TALC_F32,
                                        .M = cases[i].M,
                                        .N = N,
                                        .K = K,
                                        .transpose_b = cases[i].transposed,
                                        .lda = K,
                                        .ldb = cases[i].transposed ? K : N,
                                        .batch = 1 };
        double seconds[2] = { 0 };
        for (const talc_algorithm *of = talc_cuda_matmul; of->name != NULL; of++) {
            const bool tf32 = of->arithmetic.precision == TALC_TF32;
            talc_plan plan = { .workspace = 0 };
            if (!tf32 && (of->form == NULL || strcmp(of->form, "split on load") != 0))
                continue;
            cr_assert_null(of->plan(&gpu, &p, (size_t)1 << 30, &plan));
            seconds[tf32] = plan.seconds;
        }
        cr_expect(seconds[1] < seconds[0], "case %d: %g, cublas %g", (int)i, seconds[0],
                  seconds[1]);
    }
}

/* A block of GPUs of compute capability 8.6 and 8.9 has less shared memory than one of 8.0. */
Test(conv2d_plans, direct_fits_the_gpus_shared_memory)
{
    static const char *const small[] = {
        "n64c16h32w32o16k3x3p1x1",    "n64c16h32w32o16k3x3p1x1_dx", "n64c32h16w16o64k3x3s2x2p1x1",
        "n16c64h14w14o64k5x5p2x2_dx", "n64c64h8w8o64k3x3p1x1",      "n64c6h14w14o16k5x5_dx"
    };
    static const char phases[] = "n64c8h448w448o8k3x3s8x8p1x1_dx";
    int used = 0;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        const talc_conv2d_problem p = problem_of(small[i]);
        for (int shared = 163; shared >= 64; shared -= 3) {
            state = (talc_cuda_state){ .multiprocessors = 84,
                                       .capability = 86,
                                       .block_shared = shared << 10 };
            const talc_plan plan = plan_by("direct(small)", &p, (size_t)512 << 20);
            const talc_small_tiles *tiles = talc_plan_data(&plan);
            if (plan.seconds == 0)
                continue;
            cr_expect(tiles->shared > 0 && tiles->shared <= (size_t)state.block_shared,
                      "%s: %zu of %d bytes", small[i], tiles->shared, state.block_shared);
            used++;
        }
    }
    cr_expect(used > 0);
    const talc_conv2d_problem p = problem_of(phases);
    bool takes[2];
    for (int i = 0; i < 2; i++) {
        state = (talc_cuda_state){ .multiprocessors = 84,
                                   .capability = 86,
                                   .block_shared = (i == 0 ? 163 : 99) << 10 };
        takes[i] = plan_by("direct(phases)", &p, 0).seconds > 0;
    }
    cr_expect(takes[0] && !takes[1], "%s: its phases take 130 KiB", phases);
}

/* Before it counts products, tap by tap. */
Test(conv2d_plans, weight_gradients_on_tensor_cores_refuse_long_kernels_at_once)
{
    const talc_conv2d_problem p = problem_of("n1c1h1000000000000w1o1k999999999990x1_dw");
    talc_plan plan = { .workspace = 0 };
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 80, .block_shared = 163 << 10 };
    cr_expect_str_eq(
        talc_cuda_conv2d_implicit_gemm_mma_gradient_plan(&gpu, &p, (size_t)512 << 20, &plan),
        "an extent is too large");
}

Test(conv2d_plans, split_says_what_is_too_large)
{
    static const char *const cases[][2] = {
        { "n1c2h5w6o4k3x3p1x1", NULL },
        { "n1c1h2048w1024o1k3x3s64x64",
          "an extent or a plane of x is above 2^20, or N * groups or OC / groups above 65,535" },
        { "n8c64h512w256o128k5x7", "more than 2^25 multiplications" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i][0]);
        talc_plan plan;
        const char *reason = talc_cuda_conv2d_split_plan(&gpu, &p, 0, &plan),
                   *expected = cases[i][1];
        cr_assert(expected == NULL ? reason == NULL
                                   : reason != NULL && strcmp(reason, expected) == 0,
                  "%s: %s", cases[i][0], reason);
    }
}

/* What each form is for, of the choice among all forms of a name. */
Test(conv2d_plans, forms_by_their_problems)
{
    static const struct {
        const char *text, *name, *form;
    } cases[] = {
        { "n32c64h56w56o64k3x3p1x1g64", "depthwise", "register tiles" },
        { "n32c64h56w56o64k3x3p1x1g64_dx", "depthwise", "register tiles" },
        { "n32c64h64w64o64k3x3p1x1g64", "depthwise", "columns" },
        { "n32c64h112w112o64k3x3s2x2p1x1g64", "depthwise", "columns" },
        { "n16c64h512w512o64k3x3p1x1g64_dx", "depthwise", "columns" },
        { "n16c64h512w512o64k3x3g64", "depthwise", "warp tiles" },
        { "n32c128h128w256o128k3x7g128", "depthwise", "warp tiles" },
        { "n32c128h128w256o128k3x7g128_dw", "depthwise", "columns" },
        { "n64c8h512w512o8k3x1g8_dw", "depthwise", "columns" },
        { "n64c8h512w512o8k2x1g8_dw", "depthwise", "polyphase" },
        { "n16c64h128w128o64k3x3p1x1g64_dw", "depthwise", "columns" },
        { "n1c64h32w32o64k3x3p1x1g64", "depthwise", "columns" },
        { "n32c64h56w56o64k3x3p1x1g64_dw", "depthwise", "columns" },
        { "n32c64h56w56o64k9x9p4x4g64", "depthwise", "polyphase" },
        { "n32c64h56w56o64k9x9p4x4g64_dw", "depthwise", "polyphase" },
        { "n32c64h56w56o64k3x3s2x2p1x1g64_dx", "depthwise", "columns" },
        { "n64c3h64w64o64k4x4s2x2p1x1", "direct", "few channels" },
        { "n16c64h128w128o64k5x5p2x2", "direct", "small" },
        { "n4c64h512w512o64k4x4", "direct", "textbook" },
        { "n4c64h512w512o64k4x4_dx", "direct", "textbook" },
        { "n16c64h257w766o32k3x5s2x3p1x2d2x1g4_dx", "direct", "phases" },
        { "n64c16h32w32o16k3x3p1x1", "direct", "small" },
        { "n64c16h32w32o16k3x3p1x1_dx", "direct", "small" },
        { "n64c16h32w32o16k3x3p1x1_dw", "direct", "registers" },
        { "n1c1h3w3o1k3x3s9x9p4x4_dx", "direct", "one by one" },
        { "n32c16h112w112o96k1x1", "pointwise", "mma" },
        { "n8c64h56w56o64k1x1_dx", "pointwise", "cublas" },
        { "n8c256h56w56o256k1x1_f64", "pointwise", "cublas" },
        { "n8c256h1w1o256k1x1g2", "pointwise", "cublas" },
        { "n8c256h56w56o256k1x1_dx_f64", "pointwise", "cublas" },
        { "n1c672h14w14o112k1x1", "pointwise", "small tiles" },
        { "n32c672h1w1o28k1x1", "pointwise", "dot" },
        { "n200c16h1w1o16k1x1", "pointwise", "tiles" },
        { "n200c512h1w1o64k1x1", "pointwise", "small tiles" },
        { "n8c64h112w112o64k31x31p15x15_dw", "implicit_gemm", "bands of taps" },
        { "n8c64h112w112o64k9x9p4x4_dw", "implicit_gemm", "wgmma" },
        { "n32c256h16w16o512k3x3p1x1", "im2col", "tensor cores" },
        { "n32c256h16w16o512k3x3p1x1g2", "im2col", "cublas" },
    };
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        double min = INFINITY;
        const char *form = "none";
        for (const talc_algorithm *a = talc_cuda_conv2d; a->name != NULL; a++) {
            talc_plan plan = { .workspace = 0 };
            if (strcmp(a->name, cases[i].name) == 0 && a->arithmetic.precision == TALC_STRICT &&
                a->plan(&gpu, &p, (size_t)512 << 20, &plan) == NULL && plan.seconds < min) {
                min = plan.seconds;
                form = a->form;
            }
        }
        cr_expect_str_eq(form, cases[i].form, "%s: %s", cases[i].text, form);
    }
}

/* A block that has a multiprocessor for itself waits in each of its passes, of which a gradient has
 * as many as there are outputs to an input. On an H200 this one takes 32 us, and split 12. */
Test(conv2d_plans, polyphase_waits_in_each_pass)
{
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    const talc_conv2d_problem p = problem_of("n32c1h28w28o6k5x5p2x2_dx");
    const double polyphase = plan_by("depthwise(polyphase)", &p, 0).seconds;
    cr_expect(polyphase > 25e-6 && polyphase < 40e-6, "%g", polyphase);
    cr_expect(plan_by("split", &p, 0).seconds < polyphase);
}

/* Weights that are packed for images of one size serve others only where their order is the same.
 */
Test(conv2d_plans, packed_weights_of_other_images)
{
    static const char *const pairs[][2] = {
        { "n16c64h94w94o64k28x28p14x14", "n16c64h28w28o64k28x28p14x14" },
        { "n16c16h60w60o64k12x12p6x6", "n16c16h90w90o64k12x12p6x6" },
    };
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        talc_plan plans[2] = { { .workspace = 0 } };
        for (int j = 0; j < 2; j++) {
            const talc_conv2d_problem p = problem_of(pairs[i][j]);
            cr_assert_null(
                row_of("implicit_gemm(wgmma)")->plan(&gpu, &p, (size_t)1 << 30, &plans[j]));
        }
        cr_expect_neq(plans[0].cached_form, plans[1].cached_form, "%s, %s", pairs[i][0],
                      pairs[i][1]);
    }
}

/* row_taps has the taps of a kernel as short. */
Test(conv2d_plans, dx_at_a_stride_refuses_kernels_of_too_many_taps)
{
    static const char *const few = "n4c16h192w192o64k181x181s16x16_dx",
                             *const many = "n4c16h192w192o64k182x182s16x16_dx";
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    const talc_conv2d_problem takes = problem_of(few), refuses = problem_of(many);
    cr_assert_gt(plan_by("implicit_gemm", &takes, (size_t)1 << 30).seconds, 0);
    cr_assert_eq(plan_by("implicit_gemm", &refuses, (size_t)1 << 30).seconds, 0);
}

/* Layers of networks whose fastest strict algorithm, measured on an H200, leads the next by 1.2
 * times or more. Estimates have to tell so much apart. */
Test(conv2d_plans, what_is_fastest_by_far_is_chosen)
{
    static const struct {
        const char *text, *title;
    } cases[] = {
        { "n32c960h7w7o240k1x1g3_bias_relu", "gather_gemm" },
        { "n32c832h7w7o160k1x1_bias_relu", "gather_gemm" },
        { "n32c3h256w256o64k3x3p1x1_bias_relu", "direct(few channels)" },
        { "n1c3h224w224o32k3x3s2x2p1x1_bias_relu6", "direct(small)" },
        { "n1c3h224w224o64k7x7s2x2p3x3_bias_relu", "direct(few channels)" },
        { "n32c16h112w112o96k1x1_bias_relu", "pointwise(mma)" },
        { "n1c160h14w14o160k1x1_bias_relu", "pointwise(small tiles)" },
        { "n1c1920h1w1o80k1x1_bias_relu", "pointwise(dot)" },
        { "n1c2048h7w7o512k1x1_bias_relu", "pointwise(cublas)" },
        { "n1c32h16w16o64k3x3s2x2p1x1_bias_relu", "split" },
        { "n32c512h4w4o100k4x4", "pointwise(dot)" },
        { "n32c512h4w4o100k4x4_dx", "pointwise(cublas)" },
        { "n32c256h8w8o512k4x4s2x2p1x1", "implicit_gemm(wgmma)" },
        { "n32c256h8w8o512k4x4s2x2p1x1_dx", "implicit_gemm(wgmma)" },
        { "n1c1024h14w14o2048k1x1s2x2", "im2col(cublas)" },
        { "n1c64h32w32o128k4x4s2x2p1x1_dx", "im2col(cublas)" },
        { "n16c64h257w766o32k3x5s2x3p1x2d2x1g4_dx", "direct(phases)" },
        { "n32c32h120w120o16k1x1_dw", "direct(registers)" },
        { "n32c512h4w4o100k4x4_dw", "pointwise(cublas)" },
        { "n32c256h28w28o32k1x1_dw", "pointwise(cublas)" },
        { "n32c64h56w56o64k1x1_dw", "implicit_gemm(wgmma)" },
        { "n32c1024h32w32o512k3x3p1x1_dw", "implicit_gemm(wgmma)" },
    };
    state =
        (talc_cuda_state){ .multiprocessors = 132, .capability = 90, .block_shared = 227 << 10 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = problem_of(cases[i].text);
        char chosen[TALC_ALGORITHM_TEXT] = "none";
        double min = INFINITY;
        for (const talc_algorithm *a = talc_cuda_conv2d; a->name != NULL; a++) {
            talc_plan plan = { .workspace = 0 };
            if (a->arithmetic.precision == TALC_STRICT &&
                a->plan(&gpu, &p, (size_t)512 << 20, &plan) == NULL && plan.seconds < min) {
                min = plan.seconds;
                (void)talc_algorithm_text(a, chosen);
            }
        }
        cr_expect_str_eq(chosen, cases[i].title, "%s: %s", cases[i].text, chosen);
    }
}
