/* One run of an algorithm: what it finds in its buffers, and what of the buffers' edges is seen
 * afterwards. */
#include "check/engine/case.h"
#include "check/check.h"
#include "check/engine/parallel.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/plans.h"
#include "tests/support/problem_data.h"

#include <string.h>

// ---- Loops --------------------------------------------------------------------------------------

enum { MAX = 1 << 20 };
static unsigned char seen[MAX];
static int64_t ends[CHECK_CHUNKS][2];

static void mark(void *context, int index, int64_t first, int64_t end)
{
    (void)context;
    ends[index][0] = first;
    ends[index][1] = end;
    for (int64_t i = first; i < end; i++)
        seen[i]++;
}

/* Every element once, in chunks that do not depend on the threads. */
Test(check_run, a_loop_in_chunks_takes_every_element_once)
{
    static const int64_t counts[] = { 0, 1, 2, 63, 64, 65, 1000, MAX };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int threads = 1; threads <= 5; threads += 2) {
            cr_assert(talc_set_threads(threads));
            memset(seen, 0, sizeof seen);
            memset(ends, 0, sizeof ends);
            talc_check_parallel(counts[c], 1e6, mark, NULL);
            for (int64_t i = 0; i < MAX; i++)
                cr_assert(seen[i] == (i < counts[c]), "element %lld of %lld came %d times",
                          (long long)i, (long long)counts[c], seen[i]);
            const int64_t chunks = counts[c] < CHECK_CHUNKS ? counts[c] : CHECK_CHUNKS;
            for (int64_t p = 0; p < chunks; p++) {
                cr_assert(ends[p][0] == (p == 0 ? 0 : ends[p - 1][1]));
                cr_assert(ends[p][1] - ends[p][0] - counts[c] / chunks <= 1);
            }
        }
}

// ---- An algorithm of the test's own -------------------------------------------------------------

static size_t workspace_asked;        /* bytes of workspace that it asks for */
static int64_t past_workspace;        /* where it writes, from the workspace's end on; 0: nowhere */
static int64_t before_workspace;      /* likewise from its begin down */
static int64_t past_y, change_x = -1; /* likewise of y; which byte of x it changes */
static unsigned char fill;            /* what each byte of the workspace must be */
static bool as_expected;

PLAN(plan_workspace, NULL, plan->workspace = workspace_asked < limit ? workspace_asked : limit)

enum { ELEMENTS = 5 * 33 };

/* Writes 0.5 to every element of y, and where it is told to. */
static talc_status write_halves(talc_device *device, const void *problem, const talc_plan *plan,
                                const void *given)
{
    const talc_softmax_arguments *arguments = given;
    const size_t count = plan->workspace;
    unsigned char *of = arguments->base.workspace;
    float *y = arguments->y;
    (void)device, (void)problem;
    as_expected = true;
    for (size_t i = 0; i < count; i++)
        as_expected = as_expected && of[i] == fill;
    for (int64_t i = 0; i < ELEMENTS; i++)
        y[i] = 0.5f;
    memset(of, 7, count);
    if (past_workspace > 0)
        of[(int64_t)count + past_workspace - 1] ^= 1;
    if (before_workspace > 0)
        of[-before_workspace] ^= 1;
    if (past_y > 0)
        ((unsigned char *)(y + ELEMENTS))[past_y - 1] ^= 1;
    if (change_x >= 0)
        ((unsigned char *)arguments->x)[change_x] ^= 1;
    return TALC_OK;
}

static const talc_algorithm mine = { .name = "mine",
                                     .arithmetic = { "f32", TALC_STRICT, false },
                                     .plan = plan_workspace,
                                     .run = write_halves };

static check_run_report run_with(talc_device *device, check_buffers *reused, bool finite)
{
    owned_problem_data self = read_problem("softmax:5x33@1");
    check_values results;
    check_run_report report;
    const check_run_options options = { .workspace_limit = SIZE_MAX, .finite = finite };
    cr_assert(talc_check_values_new(self.direction, &self.problem, &results));
    self.direction->fill(&self.problem, TALC_CHECK_RANDOM, 1, &self.values);
    fill = finite ? 0x3F : 0xFF;
    cr_assert(talc_check_run(self.direction, &mine, device, &self.problem, &self.values, &options,
                             reused, &results, &report),
              "%s", talc_error_message());
    cr_assert(report.status == TALC_OK && report.unwritten == 0);
    for (int64_t i = 0; i < ELEMENTS; i++)
        cr_assert_eq(results.of[1][i], 0.5);
    talc_check_values_free(&results);
    return report;
}

/* Small workspaces travel whole, of large ones the guard bands alone. The order makes the room grow
 * and be larger than needed. */
static const size_t workspaces[] = { 0,       1,      100,         65535,          65536, 65537,
                                     1 << 17, 200001, 3 << 20 | 5, (1 << 18) + 64, 12 };
enum { WORKSPACES = sizeof workspaces / sizeof *workspaces };

Test(check_run, a_workspace_holds_the_fill_everywhere)
{
    check_buffers reused = { .image = NULL };
    for (int i = 0; i < WORKSPACES; i++)
        for (int finite = 0; finite < 2; finite++) {
            workspace_asked = workspaces[i];
            const check_run_report report = run_with(cpu_device(), &reused, finite != 0);
            cr_assert(as_expected, "of %zu bytes some are not filled", workspace_asked);
            cr_assert(report.written == NULL && report.changed == NULL);
        }
    talc_check_buffers_free(&reused);
}

Test(check_run, a_byte_outside_is_seen)
{
    static const int64_t offsets[] = { 1, 2, 63, 64, 65, 1000, 4095, 4096 };
    check_buffers reused = { .image = NULL };
    for (int i = 0; i < WORKSPACES; i++)
        for (size_t p = 0; p < sizeof offsets / sizeof *offsets; p++) {
            workspace_asked = workspaces[i];
            past_workspace = offsets[p];
            const char *written = run_with(cpu_device(), &reused, false).written;
            cr_assert(written != NULL && strcmp(written, "the workspace") == 0);
            past_workspace = 0;
            before_workspace = offsets[p];
            written = run_with(cpu_device(), &reused, false).written;
            cr_assert(written != NULL && strcmp(written, "the workspace") == 0);
            before_workspace = 0;
            past_y = offsets[p];
            written = run_with(cpu_device(), &reused, true).written;
            cr_assert(written != NULL && strcmp(written, "y") == 0);
            past_y = 0;
        }
    talc_check_buffers_free(&reused);
}

Test(check_run, a_changed_input_is_seen)
{
    static const int64_t offsets[] = { 0, 1, 330, 5 * 33 * 4 - 1 };
    check_buffers reused = { .image = NULL };
    for (int i = 0; i < WORKSPACES; i++)
        for (size_t p = 0; p < sizeof offsets / sizeof *offsets; p++) {
            workspace_asked = workspaces[i];
            change_x = offsets[p];
            const check_run_report report = run_with(cpu_device(), &reused, false);
            cr_assert(report.changed != NULL && strcmp(report.changed, "x") == 0);
            cr_assert(report.written == NULL);
        }
    talc_check_buffers_free(&reused);
}

// ---- Trust --------------------------------------------------------------------------------------

static void expect_trust(void *context, const talc_check_outcome *outcome)
{
    cr_expect(outcome->passed, "%s: %s", outcome->problem, outcome->reason);
    const bool single = *(const bool *)context;
    if (outcome->kind == TALC_CHECK_RANDOM && single)
        cr_expect(outcome->expected > 0, "%s is %g", outcome->problem, outcome->expected);
}

/* With few outputs a ReLU may leave next to none, as it does with one of these seeds; the only one
 * is never zero. */
Test(check_run, a_relu_leaves_enough_of_a_small_problem)
{
    static const char *const problems[] = {
        "batch_norm2d:n1c5h2w1_momentum0_relu",
        "batch_norm2d:n1c8h1w1_plain_relu",
        "matmul:m3n3k1_relu",
        "matmul:m8n1k1_relu_f64",
        "n1c1h1w1o1k1x1_relu",
        "matmul:m1n1k3_relu",
        "batch_norm2d:n1c1h1w1_relu",
    };
    enum { PROBLEMS = sizeof problems / sizeof *problems, SINGLE = 4 };
    for (int i = 0; i < PROBLEMS; i++) {
        bool single = i >= SINGLE;
        for (uint64_t seed = 9100; seed < 9140; seed++) {
            owned_check *check = talc_check_new(
                &(talc_check_options){ .device = cpu_device(),
                                       .kinds = 1u << TALC_CHECK_RANDOM | 1u << TALC_CHECK_TRUST,
                                       .seed = seed,
                                       .observe = expect_trust,
                                       .context = &single });
            cr_assert(talc_check_problem(check, problems[i]), "%s", talc_error_message());
        }
    }
}

// ---- What a report says -------------------------------------------------------------------------

/* The reference algorithm, and what is made wrong in its result. */
static int fault;

PLAN(faulty_plan,
     p->direction != TALC_FORWARD || p->dtype != TALC_F32 ? "only forward, in f32" : NULL,
     const talc_conv2d_problem *p = problem)

static bool is_corrupted(const talc_conv2d_problem *p, int64_t n, int64_t oc, int64_t oh,
                         int64_t ow)
{
    const bool faults[] = { ow == p->OW - 1,
                            oh == 0 && ow > 0,
                            oc == 2,
                            n > 0,
                            p->groups > 1 && n == 0,
                            p->stride_h > 1 && oh == p->OH - 1,
                            ow == 0 || ow == p->OW - 1 };
    return faults[fault];
}

static talc_status faulty_run(talc_device *device, const void *problem, const talc_plan *planned,
                              const void *arguments)
{
    (void)device, (void)planned;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    const int64_t IC = p->C / p->groups, K = IC * p->KH * p->KW;
    for (int64_t at = 0; at < p->N * p->OC * p->OH * p->OW; at++) {
        const int64_t ow = at % p->OW, oh = at / p->OW % p->OH, plane = at / p->OW / p->OH;
        const int64_t oc = plane % p->OC, n = plane / p->OC;
        const int64_t c = n * p->C + oc / (p->OC / p->groups) * IC;
        double sum = p->bias ? ((const float *)a->bias)[oc] : 0;
        for (int64_t k = 0; k < K; k++) {
            const int64_t kw = k % p->KW, kh = k / p->KW % p->KH, ic = k / p->KW / p->KH;
            const int64_t ih = oh * p->stride_h - p->pad_top + kh * p->dilation_h;
            const int64_t iw = ow * p->stride_w - p->pad_left + kw * p->dilation_w;
            if (ih >= 0 && ih < p->H && iw >= 0 && iw < p->W)
                sum += (double)((const float *)a->x)[((c + ic) * p->H + ih) * p->W + iw] *
                       ((const float *)a->w)[oc * K + k];
        }
        ((float *)a->y)[at] = (float)sum + (is_corrupted(p, n, oc, oh, ow) ? 1000 : 0);
    }
    return TALC_OK;
}

/* The problems come largest first; what is said of the smallest that fails, where, what those that
 * fail have in common, and how each is repeated. */
Test(check_run, a_report_says_where_an_algorithm_fails)
{
    static const talc_algorithm algorithm = {
        "mine", NULL, { "f64 sums", TALC_STRICT, true }, faulty_plan, faulty_run
    };
    static const char *const problems[] = { "n2c4h9w9o4k3x3s2x2p1x1g2", "n2c2h6w7o4k3x3s2x2p1x1",
                                            "n2c2h5w6o4k3x3g2", "n2c2h5w6o4k3x3" };
    static const struct {
        const char *summary, *where, *smallest;
    } expected[] = {
        { "4 of 4 problems fail\n", "24 of 96 are wrong, all at ow = 3\n",
          "n2c2h5w6o4k3x3s1x1p0x0d1x1g2" },
        { "4 of 4 problems fail\n", "24 of 96 are wrong, all at oh = 0, ow > 0\n", "g2" },
        { "4 of 4 problems fail\n", "24 of 96 are wrong, all at oc = 2\n", "g2" },
        { "4 of 4 problems fail\n", "48 of 96 are wrong, all at n = 1\n", "g2" },
        { "2 of 4 problems fail; all have groups > 1, as has none that passes\n",
          "48 of 96 are wrong, all at n = 0\n", "n2c2h5w6o4k3x3s1x1p0x0d1x1g2" },
        { "2 of 4 problems fail; all have a stride > 1 and padding, as has none that passes\n",
          "32 of 96 are wrong, all at oh = 2\n", "n2c2h6w7o4k3x3s2x2p1x1d1x1g1" },
        { "4 of 4 problems fail\n", "48 of 96 are wrong, all at ow = 0 or 3\n", "g2" },
    };
    setenv("COLUMNS", "200", 1); /* so that no line is broken */
    for (fault = 0; fault < (int)(sizeof expected / sizeof *expected); fault++)
        for (int commanded = 0; commanded < 2; commanded++) {
            owned_check *check = talc_check_new(
                &(talc_check_options){ .device = talc_device_get("cpu"),
                                       .kinds = UINT64_C(1) << TALC_CHECK_EXACT,
                                       .command = commanded ? "./mine --again" : NULL });
            for (int i = 0; i < 4; i++)
                talc_check_algorithm(check, problems[i], &algorithm);
            char first[400];
            FILE *file = tmpfile();
            talc_check_print(file, check);
            const char *text = file_written(file);
            const char *at = strstr(text, "\nconv2d by mine on cpu: ");
            cr_assert(at != NULL, "%s", text);
            at += strlen("\nconv2d by mine on cpu: ");
            cr_assert(strncmp(at, expected[fault].summary, strlen(expected[fault].summary)) == 0,
                      "fault %d: %s", fault, text);
            snprintf(first, sizeof first, "%s", strchr(at, '\n') + 1);
            cr_assert(strstr(first, expected[fault].where) != NULL, "fault %d: %s", fault, text);
            cr_assert(strstr(first, expected[fault].smallest) != NULL, "fault %d: %s", fault, text);
            cr_assert(strstr(first, commanded ? "    ./mine --again 'n2c2h"
                                              : "    talc_check_algorithm(check, \"n2c2h") != NULL,
                      "fault %d: %s", fault, text);
        }
}
