/* The cross-check against algorithms that are wrong: it has to reject every one of them, and
 * nothing that is right. */
#include "tests/support/conv2d_gradient_mutants.h"
#include "tests/support/hooks.h"
#include "tests/support/plans.h"
#include "tests/support/mutants.h"

#include "check/check.h"

#include <stdio.h>
#include <string.h>

/* Small, each with something that others have not. */
static const char *const problems[] = {
    "n2c4h9w11o6k3x3p1x1",
    "n2c3h8w7o5k3x2s2x1p1x2d1x2_bias_relu",
    "n3c6h10w13o12k3x3s1x2p2x1x1x0g3_bias_residual",
    "n1c4h7w20o8k2x5p0x3x1x2g4",
    "n2c5h6w6o7k1x1_bias",
    "n1c2h12w12o3k3x3p2x2_reflect",
    "n1c2h7w9o3k3x4p2x3_replicate",
    "n2c2h6w8o3k3x3p2x1x1x3_circular_bias",
    "n2c3h11w9o4k3x2s2x3p2x1d3x2_residual_relu",
    "n2c3h6w7o4k2x3_bias_residual_sigmoid",
    "n1c3h6w7o4k2x3_bias_residual_tanh",
    "n1c8h5w40o11k3x3p1x1",
    "n1c3h9w9o6k5x5p2x2g3_f64",
    "n2c9h4w5o18k3x3p1x1_f64_bias_relu",
    "n1c1h2w300o2k1x3p0x1",
    "n1c8h96w96o1k1x1s3x3",
    "n1c1h1w1o1k1x1_bias",
    "n4c6h5w9o6k3x3p1x1g6",
    "n1c1h17w17o1k4x4s4x4",
    "n1c70h4w4o4k1x1_bias_relu",
};

enum { PROBLEMS = sizeof problems / sizeof *problems };

static uint64_t failed_kinds; /* of the algorithm at work */

static void observe(void *context, const talc_check_outcome *outcome)
{
    (void)context;
    if (!outcome->passed)
        failed_kinds |= (uint64_t)1 << outcome->kind;
}

static talc_check *check_new(void)
{
    talc_check *check =
        talc_check_new(&(talc_check_options){ .device = cpu_device(), .observe = observe });
    cr_assert(check != NULL, "%s", talc_error_message());
    failed_kinds = 0;
    return check;
}

static const char *first_reason(const talc_check *check)
{
    return talc_check_failure_count(check) > 0 ? talc_check_failure_at(check, 0)->reason : "";
}

static void expect_right(const talc_algorithm *algorithm, const char *problem)
{
    owned_check *check = check_new();
    cr_assert(talc_check_algorithm(check, problem, algorithm), "%s", talc_error_message());
    const talc_check_summary *summary = talc_check_summary_at(check, 0);
    cr_expect(summary->refused == 1 || talc_check_passed(check), "%s on %s: %s", algorithm->name,
              problem, first_reason(check));
}

Test(check_mutants, the_algorithm_beneath_the_mutants_is_right)
{
    for (int i = 0; i < PROBLEMS; i++)
        expect_right(mutant_algorithm(MUTANT_NONE), problems[i]);
}

/* Runs a mutant on problem after problem until one rejects it; which, or -1. */
static int rejected_by(const talc_algorithm *algorithm, const char *const *list, int count)
{
    for (int i = 0; i < count; i++) {
        talc_check *check = check_new();
        cr_assert(talc_check_algorithm(check, list[i], algorithm), "%s: %s", algorithm->name,
                  talc_error_message());
        const bool passed = talc_check_passed(check);
        talc_check_free(check);
        if (!passed)
            return i;
    }
    return -1;
}

static bool report(const char *name, const char *description, const char *problem)
{
    char kinds[400];
    mutant_kind_names(failed_kinds, kinds, sizeof kinds);
    if (problem == NULL)
        snprintf(kinds, sizeof kinds, "SURVIVES: %s", description);
    fprintf(stderr, "%-20s %-46s %s\n", name, problem == NULL ? "" : problem, kinds);
    return problem != NULL;
}

Test(check_mutants, every_mutant_is_rejected)
{
    int survivors = 0;
    fprintf(stderr, "%-20s %-46s %s\n", "mutant", "first problem that rejects it", "by");
    for (mutant which = MUTANT_NONE + 1; which < MUTANT_COUNT; which++) {
        const int by = rejected_by(mutant_algorithm(which), problems, PROBLEMS);
        survivors +=
            !report(mutant_name(which), mutant_description(which), by < 0 ? NULL : problems[by]);
    }
    cr_assert(MUTANT_COUNT - 1 >= 45);
    cr_assert(survivors == 0, "%d mutants survive", survivors);
}

static void assert_rejected(const op_mutant *mutants, int count)
{
    for (int i = 0; i < count; i++) {
        const op_mutant *m = &mutants[i];
        owned_check *check = check_new();
        cr_assert(talc_check_problem(check, m->problem), "%s", talc_error_message());
        cr_expect(talc_check_passed(check), "the right algorithms fail %s: %s", m->problem,
                  first_reason(check));
        const int by = rejected_by(m->algorithm, &m->problem, 1);
        report(m->name, m->description, by < 0 ? NULL : m->problem);
        cr_expect(by == 0, "%s: '%s' survives", m->name, m->description);
    }
}

Test(check_mutants, mutants_of_other_ops_are_rejected)
{
    assert_rejected(op_mutants, op_mutant_count);
}

Test(check_mutants, mutants_of_gradients_are_rejected)
{
    assert_rejected(gradient_mutants, gradient_mutant_count);
}

/* "max_pool2d" and "_dx" of "max_pool2d:n2c3h9w8k2x2_dx" are those of the other text too. */
static bool of_one_direction(const char *a, const char *b)
{
    const size_t length = strcspn(a, ":");
    return strncmp(a, b, length + 1) == 0 &&
           (strstr(a, "_dx") == NULL) == (strstr(b, "_dx") == NULL);
}

/* Some problem of the op and the direction sees the mistake; not each has what it takes. */
Test(check_mutants, the_quick_set_rejects_every_mutant_of_a_gradient)
{
    enum { MAX = 230 };
    static char texts[MAX][TALC_CHECK_TEXT];
    for (int i = 0; i < gradient_mutant_count; i++) {
        const op_mutant *m = &gradient_mutants[i];
        const char *list[MAX];
        int count = 0;
        for (int64_t j = 0;
             count < MAX && talc_check_set_problem("quick", j, 0, texts[count]) != NULL; j++)
            if (of_one_direction(m->problem, texts[count])) {
                list[count] = texts[count];
                count++;
            }
        cr_expect(rejected_by(m->algorithm, list, count) >= 0, "%s: '%s' survives %d problems",
                  m->name, m->description, count);
    }
}

// ---- The set `quick` ----------------------------------------------------------------------------

/* The convolutions of the set, or their gradients, that cost little, of which the mutants are slow;
 * at most `max` of them. */
static int quick_problems(bool gradients, char texts[][TALC_CHECK_TEXT], int max)
{
    static const double FLOPS = 1e6;
    int count = 0;
    for (int64_t i = 0; count < max && talc_check_set_problem("quick", i, 0, texts[count]) != NULL;
         i++) {
        talc_conv2d_problem p;
        if (strchr(texts[count], ':') != NULL)
            continue;
        cr_assert(talc_conv2d_problem_parse(texts[count], &p), "%s", talc_error_message());
        count += (p.direction != TALC_FORWARD) == gradients && talc_conv2d_flops(&p) <= FLOPS;
    }
    return count;
}

/* Of those mutants, of which number 0 is right. */
static void assert_quick_rejects(bool gradients, const talc_algorithm *(*mutant_of)(int which),
                                 int mutants)
{
    enum { MAX = 230 };
    static char texts[MAX][TALC_CHECK_TEXT];
    const char *list[MAX];
    const int count = quick_problems(gradients, texts, MAX);
    cr_assert(count > (gradients ? 30 : 40) && count < MAX, "%d problems", count);
    for (int i = 0; i < count; i++) {
        list[i] = texts[i];
        expect_right(mutant_of(0), list[i]);
    }
    for (int which = 1; which < mutants; which++)
        cr_expect(rejected_by(mutant_of(which), list, count) >= 0, "%s, number %d, survives",
                  mutant_of(which)->name, which);
}

static const talc_algorithm *mutant_number(int which)
{
    return mutant_algorithm((mutant)which);
}

Test(check_mutants, the_quick_set_rejects_every_mutant)
{
    assert_quick_rejects(false, mutant_number, MUTANT_COUNT);
}

static const talc_algorithm *gradient_mutant_number(int which)
{
    return conv2d_gradient_mutant_algorithm((gradient_mistake)which);
}

Test(check_mutants, the_quick_set_rejects_every_mutant_of_a_convolutions_gradient)
{
    assert_quick_rejects(true, gradient_mutant_number, GRADIENT_MISTAKES);
}

/* Every kind of check, asked for alone, sees what it is for. */
Test(check_mutants, each_kind_alone_rejects_a_mutant)
{
    static const struct {
        talc_check_kind kind;
        mutant which;
    } seen[] = {
        { TALC_CHECK_EXACT, MUTANT_SPARSE },
        { TALC_CHECK_RANDOM, MUTANT_TF32 },
        { TALC_CHECK_CONSTANT, MUTANT_BFLOAT },
        { TALC_CHECK_WIDE, MUTANT_CANCELLING },
        { TALC_CHECK_HUGE, MUTANT_CLAMPED },
        { TALC_CHECK_HUGE, MUTANT_SCALED },
        { TALC_CHECK_TINY, MUTANT_FLUSHED },
        { TALC_CHECK_NAN, MUTANT_NAN_ZERO },
        { TALC_CHECK_INFINITY, MUTANT_ZERO_WEIGHTS },
        { TALC_CHECK_NAN, MUTANT_ZERO_IMAGE },
        { TALC_CHECK_NAN, MUTANT_NAN_WEIGHT },
        { TALC_CHECK_INFINITY, MUTANT_INFINITY_BELOW },
        { TALC_CHECK_INFINITY, MUTANT_INFINITY_WEIGHT },
        { TALC_CHECK_INFINITY, MUTANT_PADDING_SKIPPED },
        { TALC_CHECK_GUARDS, MUTANT_WRITES_PAST },
        { TALC_CHECK_GUARDS, MUTANT_WRITES_WORKSPACE },
        { TALC_CHECK_INPUTS, MUTANT_WRITES_X },
        { TALC_CHECK_INPUTS, MUTANT_WRITES_W },
        { TALC_CHECK_GUARDS, MUTANT_PAST_MISALIGNED },
        { TALC_CHECK_INPUTS, MUTANT_X_MISALIGNED },
        { TALC_CHECK_STATUS, MUTANT_RAISES_MISALIGNED },
        { TALC_CHECK_TRUST, MUTANT_ALL_ZEROS },
        { TALC_CHECK_MISALIGNED, MUTANT_ALIGNED_DOWN },
        { TALC_CHECK_MISALIGNED, MUTANT_ALIGNED_ALIKE },
        { TALC_CHECK_WORKSPACE, MUTANT_NARROW_TILE },
        { TALC_CHECK_RERUN, MUTANT_ACCUMULATES_FINITE },
        { TALC_CHECK_RERUN, MUTANT_STALE_FINITE },
        { TALC_CHECK_RERUN, MUTANT_RUN },
        { TALC_CHECK_THREADS, MUTANT_THREADS },
        { TALC_CHECK_FENV, MUTANT_LEAVES_FLUSHING },
        { TALC_CHECK_STATUS, MUTANT_FAILS },
        { TALC_CHECK_STATUS, MUTANT_RAISES },
    };
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        for (int wrong = 0; wrong <= 1; wrong++) {
            owned_check *check = talc_check_new(&(talc_check_options){
                .device = cpu_device(), .kinds = (uint64_t)1 << seen[i].kind });
            cr_assert(talc_check_algorithm(check, "n2c4h9w20o8k2x3p1x1g4",
                                           mutant_algorithm(wrong ? seen[i].which : MUTANT_NONE)));
            cr_expect(talc_check_passed(check) == !wrong, "%s alone: '%s' %s",
                      talc_check_kind_name(seen[i].kind),
                      mutant_name(wrong ? seen[i].which : MUTANT_NONE),
                      wrong ? "survives" : first_reason(check));
        }
}

/* What could not be checked must not pass by what was found before and after. */
Test(check_mutants, a_check_that_could_not_be_made_does_not_pass)
{
    const talc_algorithm *algorithm = mutant_algorithm(MUTANT_NONE);
    for (int i = 0; i < 3; i++) {
        owned_check *check = check_new();
        cr_assert(talc_check_algorithm(check, problems[0], algorithm) && talc_check_passed(check));
        cr_assert(!(i == 0   ? talc_check_problem(check, "no problem")
                    : i == 1 ? talc_check_algorithm(check, problems[0], NULL)
                             : talc_check_algorithm(check, NULL, algorithm)));
        talc_error_clear();
        cr_assert(!talc_check_passed(check), "%d", i);
        cr_assert(talc_check_algorithm(check, problems[0], algorithm) && !talc_check_passed(check),
                  "%d", i);
    }
}

static talc_status runs_nothing(talc_device *device, const void *problem, const talc_plan *plan,
                                const void *arguments)
{
    (void)device, (void)problem, (void)plan, (void)arguments;
    return TALC_OK;
}

PLAN(plan_too_much, NULL, plan->workspace = (size_t)1 << 50)

/* What a check needs is known before anything is allocated. */
Test(check_mutants, a_workspace_beyond_memory)
{
    const talc_algorithm algorithm = { .name = "greedy",
                                       .plan = plan_too_much,
                                       .run = runs_nothing };
    owned_check *check = check_new();
    cr_assert(!talc_check_algorithm(check, problems[0], &algorithm));
    cr_assert(talc_error_status() == TALC_NO_MEMORY &&
                  strstr(talc_error_message(), "operands, workspace and the oracle") != NULL,
              "%s", talc_error_message());
    talc_error_clear();
}

PLAN(plan_half, limit < 2000 ? "the limit is less than twice what it takes" : NULL,
     plan->workspace = 1000)

/* It is never run without a plan. */
Test(check_mutants, an_algorithm_takes_the_workspace_it_asked_for)
{
    talc_algorithm algorithm = *mutant_algorithm(MUTANT_NONE);
    algorithm.plan = plan_half;
    owned_check *check = check_new();
    cr_assert(talc_check_algorithm(check, problems[0], &algorithm) && !talc_check_passed(check));
    cr_assert(strstr(first_reason(check), "refuses with a workspace limit of 1000 bytes") != NULL,
              "%s", first_reason(check));
}

Test(check_mutants, elements_that_were_not_written_are_counted)
{
    static const struct {
        mutant which;
        const char *count;
    } cases[] = { { MUTANT_UNWRITTEN, "; 1 element was not written" },
                  { MUTANT_LAST_ROW, "; 132 elements were not written" }, /* 2 x 6 x 11 */
                  { MUTANT_ALL_ZEROS, NULL } };
    for (int i = 0; i < 3; i++) {
        owned_check *check = check_new();
        cr_assert(talc_check_algorithm(check, problems[0], mutant_algorithm(cases[i].which)));
        const char *reason = first_reason(check);
        cr_assert(reason[0] != '\0' &&
                      (cases[i].count == NULL ? strstr(reason, "not written") == NULL
                                              : strstr(reason, cases[i].count) != NULL),
                  "%s", reason);
        cr_assert_null(strstr(reason, "-nan"), "%s", reason);
    }
}

/* An algorithm of the program's own may be anything. */
Test(check_mutants, algorithms_that_lack_something_are_refused)
{
    static const struct {
        talc_algorithm algorithm;
        const char *message;
    } cases[] = {
        { { .plan = talc_plan_any, .run = runs_nothing }, "has no name" },
        { { .name = "", .plan = talc_plan_any, .run = runs_nothing }, "has no name" },
        { { .name = "a", .plan = talc_plan_any }, "no 'run'" },
        { { .name = "a", .run = runs_nothing }, "no function 'plan'" },
        { { .name = "a_name_of_sixty_four_characters_a_name_of_sixty_four_characters_",
            .plan = talc_plan_any,
            .run = runs_nothing },
          "64 characters, at most 63" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_check *check = check_new();
        cr_assert(!talc_check_algorithm(check, problems[0], &cases[i].algorithm));
        cr_assert(talc_error_status() == TALC_BAD_ARGUMENT &&
                      strstr(talc_error_message(), cases[i].message) != NULL,
                  "%d: %s", (int)i, talc_error_message());
        talc_error_clear();
        cr_assert_eq(talc_check_summary_count(check), 0);
    }
    const talc_algorithm longest = { .name = "a_name_of_thirty_one_characters",
                                     .plan = talc_plan_any,
                                     .run = runs_nothing };
    owned_check *check = check_new();
    cr_assert(talc_check_algorithm(check, problems[0], &longest), "%s", talc_error_message());
    cr_assert_eq(talc_check_summary_count(check), 1);
}

/* What is accurate in norm alone passes as that, and not as strict. */
Test(check_mutants, an_algorithm_that_is_accurate_in_norm)
{
    static const char *const list[] = { "n2c4h9w11o6k3x3p1x1", "n1c3h12w10o4k3x3s2x1p2x1d1x2_bias",
                                        "n1c6h10w13o6k5x5p2x2g3" };
    for (int i = 0; i < 3; i++) {
        expect_right(fourier_algorithm(TALC_NORMWISE), list[i]);
        const int by = rejected_by(fourier_algorithm(TALC_STRICT), list + i, 1);
        report("fourier, strict", "declared strict", by < 0 ? NULL : list[i]);
        cr_expect((failed_kinds >> TALC_CHECK_HUGE & 1) != 0, "a huge value does not show it");
        cr_expect(by == 0, "declared strict it passes %s", list[i]);
    }
}

/* Its error grows with K, whatever the data; so does its limit. */
Test(check_mutants, a_long_sum_that_is_accurate_in_norm)
{
    static const char text[] = "n1c2900h3w3o2k3x3p1x1";
    expect_right(fourier_algorithm(TALC_NORMWISE), text);
    expect_right(mutant_declared(MUTANT_CANCELLING, TALC_NORMWISE), text);
}

/* What is wrong for a strict algorithm is right for one that promises no more. */
Test(check_mutants, the_verdict_follows_from_what_an_algorithm_declares)
{
    for (int i = 0; i < PROBLEMS; i++) {
        talc_conv2d_problem p;
        cr_assert(talc_conv2d_problem_parse(problems[i], &p), "%s", talc_error_message());
        if (p.dtype != TALC_F32)
            continue;
        expect_right(mutant_declared(MUTANT_TF32, TALC_TF32), problems[i]);
        expect_right(mutant_declared(MUTANT_NONE, TALC_TF32), problems[i]);
        expect_right(mutant_declared(MUTANT_NONE, TALC_NORMWISE), problems[i]);
        expect_right(mutant_declared(MUTANT_CANCELLING, TALC_NORMWISE), problems[i]);
    }
    static const mutant wrong[] = { MUTANT_BFLOAT, MUTANT_HALF_SUM, MUTANT_TAP, MUTANT_PAD_LEFT };
    static const talc_precision classes[] = { TALC_NORMWISE, TALC_TF32 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int j = 0; j < 2; j++)
            cr_expect(rejected_by(mutant_declared(wrong[i], classes[j]), problems, PROBLEMS) >= 0,
                      "'%s' passes as %s", mutant_name(wrong[i]), talc_precision_name(classes[j]));
}

// ---- Gradients of convolutions ------------------------------------------------------------------

/* Checks an algorithm; the kinds that failed. */
static uint64_t kinds_failed(const talc_algorithm *algorithm, const char *problem, uint64_t kinds,
                             char reason[256])
{
    owned_check *check =
        talc_check_new(&(talc_check_options){ .device = cpu_device(), .kinds = kinds, .seed = 1 });
    cr_assert(talc_check_algorithm(check, problem, algorithm), "%s: %s", problem,
              talc_error_message());
    cr_assert_eq(talc_check_summary_at(check, 0)->refused, 0, "%s is refused", problem);
    uint64_t failed = 0;
    for (int i = 0; i < talc_check_failure_count(check); i++)
        failed |= (uint64_t)1 << talc_check_failure_at(check, i)->kind;
    reason[0] = '\0';
    if (failed != 0)
        snprintf(reason, 256, "%s", talc_check_failure_at(check, 0)->reason);
    return failed;
}

Test(check_mutants, every_mutant_of_a_convolutions_gradient_is_rejected_by_its_kind)
{
    for (int i = 0; i < conv2d_gradient_mutant_count; i++) {
        const conv2d_gradient_mutant *m = &conv2d_gradient_mutants[i];
        char reason[256], names[400];
        const uint64_t right =
            kinds_failed(conv2d_gradient_mutant_algorithm(GRADIENT_RIGHT), m->problem, 0, reason);
        cr_expect(right == 0, "the right algorithm fails %s: %s", m->problem, reason);
        const uint64_t all =
            kinds_failed(conv2d_gradient_mutant_algorithm(m->mistake), m->problem, 0, reason);
        mutant_kind_names(all, names, sizeof names);
        fprintf(stderr, "%-18s %-30s %s\n", m->name, m->problem, names);
        const uint64_t alone = kinds_failed(conv2d_gradient_mutant_algorithm(m->mistake),
                                            m->problem, (uint64_t)1 << m->kind, reason);
        cr_expect(alone != 0 && (all >> m->kind & 1) != 0, "'%s' (%s) passes '%s' on %s", m->name,
                  m->description, talc_check_kind_name(m->kind), m->problem);
    }
}

/* A difference is told with the gradient's own name and both numbers. */
Test(check_mutants, a_difference_names_the_gradient)
{
    static const struct {
        gradient_mistake mistake;
        talc_check_kind kind;
        const char *problem, *reason;
    } cases[] = {
        { GRADIENT_LAST_ROWS, TALC_CHECK_EXACT, "n1c2h8w9o3k3x3s2x2_dx",
          "dx[0,0,7,0] (border) is nan, expected 0; 18 of 144 are wrong, all at h = 7; 18 elements "
          "were "
          "not written" },
        { GRADIENT_LAST_IMAGE, TALC_CHECK_BATCH, "n1c1h3w3o1k1x1_dw",
          "n3c1h3w3o1k1x1s1x1p0x0d1x1g1_dw: dw[0, 0, 0, 0] is " },
        { GRADIENT_EXCHANGED, TALC_CHECK_ADJOINT, "n1c2h3w3o3k1x1_dx",
          "n1c2h3w3o3k1x1s1x1p0x0d1x1g1_dx: <conv(x, w), dy> is " },
        { GRADIENT_BORDER_TAP, TALC_CHECK_ADJOINT, "n1c2h3w3o3k1x1_dw", ", <w, dw> is " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reason[256];
        cr_assert(kinds_failed(conv2d_gradient_mutant_algorithm(cases[i].mistake), cases[i].problem,
                               (uint64_t)1 << cases[i].kind, reason) != 0);
        cr_expect(strstr(reason, cases[i].reason) != NULL, "%s", reason);
    }
}
