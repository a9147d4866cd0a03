/* The properties of convolutions (check/conv2d/properties.h): every algorithm of the CPU has them,
 * most algorithms take part in most of them, and each of them alone rejects algorithms that are
 * wrong. */
#include "tests/support/faults.h"
#include "tests/support/conv2d_gradient_mutants.h"
#include "tests/support/hooks.h"
#include "tests/support/mutants.h"

#include "check/engine/family.h"
#include "check/conv2d/properties.h"

#include <string.h>

#define PROPERTIES (~(uint64_t)0 << TALC_CHECK_BATCH & (((uint64_t)1 << TALC_CHECK_KIND_COUNT) - 1))

static const char *const algorithms[] = {
    "depthwise(columns)", "depthwise(planes)", "pointwise", "implicit_gemm", "im2col", "reference"
};
enum { COLUMNS, ROWS = sizeof algorithms / sizeof *algorithms };

/* Problems on which the property was checked: of convolutions, and of gradients. */
static int taken[ROWS][TALC_CHECK_KIND_COUNT], taken_by_gradients[ROWS][TALC_CHECK_KIND_COUNT];

static void count_taken(void *context, const talc_check_outcome *outcome)
{
    (void)context;
    cr_expect(outcome->passed, "%s on %s: %s", outcome->algorithm, outcome->problem,
              outcome->reason);
    const bool gradient = strcmp(outcome->op, "conv2d") != 0;
    for (int algorithm = 0; algorithm < ROWS; algorithm++)
        (gradient ? taken_by_gradients : taken)[algorithm][outcome->kind] +=
            strcmp(algorithms[algorithm], outcome->algorithm) == 0;
}

static talc_check *properties_new(void (*observe)(void *, const talc_check_outcome *))
{
    talc_check *check = talc_check_new(&(talc_check_options){
        .device = cpu_device(), .kinds = PROPERTIES, .seed = 3, .observe = observe });
    cr_assert(check != NULL, "%s", talc_error_message());
    return check;
}

static void expect_all(const talc_algorithm *algorithm, int number, const char *text)
{
    check_problem problem;
    char reason[256];
    cr_assert(talc_check_parse(text, &problem) != NULL, "%s", talc_error_message());
    talc_plan plan;
    if (talc_check_plan(&talc_check_conv2d, algorithm, cpu_device(), &problem, (size_t)32 << 20,
                        &plan) != NULL)
        return;
    for (int kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT; kind++) {
        const check_property_result result = talc_check_property((talc_check_kind)kind, algorithm,
                                                                 cpu_device(), &problem, 3, reason);
        cr_expect(result != CHECK_BROKEN, "%s on %s: %s", algorithm->name, text, reason);
        taken[number][kind] += result == CHECK_HOLDS;
    }
}

Test(check_properties, every_algorithm_has_them)
{
    static const char *const problems[] = {
        "n2c4h9w11o6k3x3p1x1",
        "n1c64h56w56o64k3x3p1x1_bias_relu", /* made smaller */
        "n9c5h3w3o5k3x3p1x1g5",
        "n1c1h9w9o2k3x3p2x2",
        "n2c512h7w7o512k1x1",
        "n1c2h30w30o2k3x3p12x12d12x12",
        "n1c2h5w5o3k3x3s5x7p9x9",
        "n1c3h9w9o4k3x3p8x8_reflect",
        "n1c3h9w9o4k3x3p9x9_circular",
        "n1c3h1w1o4k3x3p9x9_replicate",
        "n2c6h11w9o6k3x3s2x2p1x1d1x2g6_f64",
        "n1c1h40w30o1k11x29p100x0",
        "n1c7h224w224o9k7x7s2x2p3x3",
        "n1c4h1w1000o4k1x9s1x70000",
    };
    enum { PROBLEMS = sizeof problems / sizeof *problems, REFERENCE = ROWS - 1 };
    for (int i = 0; i < PROBLEMS; i++)
        for (int algorithm = 0;
             talc_check_algorithm_at(&talc_check_conv2d, cpu_device(), algorithm) != NULL;
             algorithm++)
            expect_all(talc_check_algorithm_at(&talc_check_conv2d, cpu_device(), algorithm),
                       algorithm, problems[i]);
    for (int kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT; kind++)
        cr_expect(taken[REFERENCE][kind] == PROBLEMS, "%s says something about %d of %d problems",
                  talc_check_kind_name((talc_check_kind)kind), taken[REFERENCE][kind], PROBLEMS);
}

/* Problems that an algorithm has run, in the direction or directions. */
static int problems_of(const talc_check *check, const char *algorithm, bool gradients)
{
    int64_t problems = 0;
    for (int i = 0; i < talc_check_summary_count(check); i++) {
        const talc_check_summary *summary = talc_check_summary_at(check, i);
        if ((strcmp(summary->op, "conv2d") != 0) == gradients &&
            strcmp(summary->algorithm, algorithm) == 0)
            problems += summary->problems;
    }
    return (int)problems;
}

static talc_check *check_random(int count)
{
    talc_check *check = properties_new(count_taken);
    for (int seed = 0; seed < count; seed++) {
        check_problem problem;
        char text[TALC_CHECK_TEXT];
        talc_check_random(&talc_check_conv2d, (uint64_t)seed, &problem);
        talc_check_write(&talc_check_conv2d, &problem, text);
        cr_assert(talc_check_problem(check, text), "%s: %s", text, talc_error_message());
    }
    return check;
}

/* A property's relative may have another stride or width, which columns refuse. */
static bool may_refuse(int algorithm, int kind)
{
    return algorithm == COLUMNS &&
           (kind == TALC_CHECK_STRIDE || kind == TALC_CHECK_PADDING || kind == TALC_CHECK_ADJOINT);
}

/* Whether an algorithm refuses all relatives: a 1x1 kernel without padding has no padded one that
 * `pointwise` would do, and columns do neither a dilated kernel nor one of 1x1. */
static bool refuses_all(int algorithm, int kind)
{
    return strcmp(algorithms[algorithm], "pointwise") == 0
               ? kind == TALC_CHECK_PADDING
               : algorithm == COLUMNS &&
                     (kind == TALC_CHECK_DILATION || kind == TALC_CHECK_POINTWISE);
}

Test(check_properties, most_random_problems_take_part)
{
    enum { PROBLEMS = 400 };
    owned_check *check = check_random(PROBLEMS);
    for (int algorithm = 0; algorithm < ROWS; algorithm++) {
        const int problems = problems_of(check, algorithms[algorithm], false);
        cr_expect(problems >= PROBLEMS / (algorithm == COLUMNS ? 100 : 10), "%s: only %d problems",
                  algorithms[algorithm], problems);
        for (int kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT; kind++) {
            const bool none = refuses_all(algorithm, kind);
            if (may_refuse(algorithm, kind))
                continue;
            cr_expect(none ? taken[algorithm][kind] == 0 : taken[algorithm][kind] == problems,
                      "%s: %s says something about %d of %d problems", algorithms[algorithm],
                      talc_check_kind_name((talc_check_kind)kind), taken[algorithm][kind],
                      problems);
        }
    }
}

/* Those that say something about gradients, about each of them. */
Test(check_properties, most_random_gradients_take_part)
{
    enum { PROBLEMS = 400 };
    owned_check *check = check_random(PROBLEMS);
    for (int algorithm = 0; algorithm < ROWS; algorithm++) {
        const int problems = problems_of(check, algorithms[algorithm], true);
        cr_expect(problems >= PROBLEMS / (algorithm == COLUMNS ? 100 : 10), "%s: %d gradients",
                  algorithms[algorithm], problems);
        for (int kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT; kind++) {
            const bool none = kind == TALC_CHECK_POINTWISE || kind == TALC_CHECK_SHIFT ||
                              refuses_all(algorithm, kind);
            if (may_refuse(algorithm, kind))
                continue;
            const int said = taken_by_gradients[algorithm][kind];
            cr_expect(none ? said == 0 : said == problems,
                      "%s: %s says something about %d of %d gradients", algorithms[algorithm],
                      talc_check_kind_name((talc_check_kind)kind), said, problems);
        }
    }
}

/* Each property, checked alone on one problem, and mutants that it has to see there. */
static const struct {
    talc_check_kind kind;
    const char *problem;
    mutant mutants[6]; /* MUTANT_NONE ends them */
} seen[] = {
    { TALC_CHECK_BATCH,
      "n1c3h5w9o4k3x3",
      { MUTANT_BATCH_IGNORED, MUTANT_THIRD_IMAGE, MUTANT_LAST_IMAGE, MUTANT_SPARSE } },
    { TALC_CHECK_GROUPS,
      "n1c3h5w9o5k3x3",
      { MUTANT_GROUP_OFFSET, MUTANT_WEIGHT_GROUP, MUTANT_GROUP_ORDER, MUTANT_KERNEL_CHANNELS } },
    { TALC_CHECK_DILATION,
      "n1c3h5w9o5k3x2",
      { MUTANT_DILATION_H, MUTANT_DILATION_W, MUTANT_DILATIONS, MUTANT_TERM_BLOCKS } },
    { TALC_CHECK_STRIDE,
      "n1c3h5w11o5k3x2",
      { MUTANT_STRIDES, MUTANT_STRIDE_IGNORED, MUTANT_TRANSPOSED } },
    { TALC_CHECK_STRIDE, "n1c1h3w3o2k3x3", { MUTANT_STRIDES, MUTANT_STRIDE_IGNORED } },
    { TALC_CHECK_POINTWISE,
      "n2c3h5w11o5k3x2",
      { MUTANT_ALL_ZEROS, MUTANT_LAST_CHANNEL, MUTANT_CONSTANT, MUTANT_BATCH_IGNORED } },
    { TALC_CHECK_PADDING,
      "n1c3h5w7o5k3x2",
      { MUTANT_PAD_TOP, MUTANT_PAD_LEFT, MUTANT_PAD_AXES, MUTANT_PAD_ENDS,
        MUTANT_ZEROS_REPLICATE } },
    { TALC_CHECK_PADDING,
      "n1c3h7w7o5k3x2p2x1_reflect",
      { MUTANT_REFLECT_EDGE, MUTANT_REFLECT_REPLICATES } },
    { TALC_CHECK_PADDING, "n1c3h7w7o5k3x2p2x1_circular", { MUTANT_CIRCULAR } },
    { TALC_CHECK_ADJOINT,
      "n2c3h5w9o5k3x2p1x0",
      { MUTANT_TAP, MUTANT_LAST_CHANNEL, MUTANT_TAP_TWICE, MUTANT_PAD_BOTTOM } },
    { TALC_CHECK_LINEARITY, "n2c3h5w9o5k3x2p1x0", { MUTANT_RELU_ALWAYS } },
    { TALC_CHECK_SHIFT,
      "n1c1h5w300o2k3x2p1x0",
      { MUTANT_COLUMN_8, MUTANT_SPARSE, MUTANT_IMAGE_AXES } },
    { TALC_CHECK_SHIFT, "n1c2h2w2o2k2x2", { MUTANT_IMAGE_AXES } },
    { TALC_CHECK_SHIFT, "n1c2h2w2o2k2x2p3x3", { MUTANT_IMAGE_AXES } },
};

Test(check_properties, each_alone_rejects_algorithms_that_are_wrong)
{
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        check_problem problem;
        cr_assert(talc_check_parse(seen[i].problem, &problem) != NULL, "%s", talc_error_message());
        char reason[256];
        cr_expect(talc_check_property(seen[i].kind, mutant_algorithm(MUTANT_NONE), cpu_device(),
                                      &problem, 5, reason) == CHECK_HOLDS,
                  "%s", reason);
        for (int j = 0; j < 6 && seen[i].mutants[j] != MUTANT_NONE; j++) {
            const check_property_result result =
                talc_check_property(seen[i].kind, mutant_algorithm(seen[i].mutants[j]),
                                    cpu_device(), &problem, 5, reason);
            cr_expect(result == CHECK_BROKEN && strlen(reason) > 20, "%s does not see '%s' on %s",
                      talc_check_kind_name(seen[i].kind), mutant_name(seen[i].mutants[j]),
                      seen[i].problem);
        }
    }
}

Test(check_properties, a_difference_is_told_with_both_numbers)
{
    check_problem problem;
    char reason[256];
    cr_assert(talc_check_parse("n1c3h4w4o2k3x3", &problem) != NULL);
    cr_assert(talc_check_property(TALC_CHECK_BATCH, mutant_algorithm(MUTANT_LAST_IMAGE),
                                  cpu_device(), &problem, 5, reason) == CHECK_BROKEN);
    cr_assert(strncmp(reason, "n3c3h4w4o2k3x3", 14) == 0 &&
                  strstr(reason, "y[2, 0, 0, 0] is nan, the batch in two parts gives ") != NULL,
              "%s", reason);
    cr_assert(talc_check_property(TALC_CHECK_ADJOINT, mutant_algorithm(MUTANT_TAP), cpu_device(),
                                  &problem, 5, reason) == CHECK_BROKEN);
    cr_assert(strncmp(reason, "n1c3h4w4o2k3x3", 14) == 0 &&
                  strstr(reason, ": <conv(x, w), g> is ") != NULL,
              "%s", reason);
    cr_assert(talc_check_property(TALC_CHECK_SHIFT, mutant_algorithm(MUTANT_WRITES_PAST),
                                  cpu_device(), &problem, 5, reason) == CHECK_BROKEN);
    cr_assert(strstr(reason, "wrote outside y") != NULL, "%s", reason);
}

/* Kinds of data are no properties, and of nothing there is nothing to say. */
Test(check_properties, left_out)
{
    check_problem problem;
    char reason[256];
    cr_assert(talc_check_parse("n0c3h4w4o2k3x3", &problem) != NULL);
    const talc_algorithm *algorithm = mutant_algorithm(MUTANT_NONE);
    for (int kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT; kind++)
        cr_assert(talc_check_property((talc_check_kind)kind, algorithm, cpu_device(), &problem, 1,
                                      reason) == CHECK_LEFT_OUT);
    cr_assert(talc_check_parse("n1c3h4w4o2k3x3", &problem) != NULL);
    cr_assert(talc_check_property(TALC_CHECK_EXACT, algorithm, cpu_device(), &problem, 1, reason) ==
              CHECK_LEFT_OUT);
    cr_assert(talc_check_property(TALC_CHECK_KIND_COUNT, algorithm, cpu_device(), &problem, 1,
                                  reason) == CHECK_LEFT_OUT);
}

/* Without memory a property says nothing, and never that it is broken. */
static void run_properties(fault_run *run)
{
    static const char *const problems[] = { "n1c2h4w5o2k3x2p1x1", "n1c2h4w5o2k3x2p1x1_circular",
                                            "n1c2h4w5o2k3x2p1x1_dx", "n1c2h4w5o2k3x2p1x1_dw" };
    for (int i = 0; i < 4; i++)
        for (int kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT && !talc_failed(); kind++) {
            check_problem problem;
            char reason[256];
            if (talc_check_parse(problems[i], &problem) == NULL)
                return;
            const talc_algorithm *algorithm =
                i < 2 ? mutant_algorithm(MUTANT_NONE)
                      : conv2d_gradient_mutant_algorithm(GRADIENT_RIGHT);
            const bool none = i >= 2 && (kind == TALC_CHECK_POINTWISE || kind == TALC_CHECK_SHIFT);
            const check_property_result result = talc_check_property(
                (talc_check_kind)kind, algorithm, run->device, &problem, 1, reason);
            cr_expect(result == (talc_failed() || none ? CHECK_LEFT_OUT : CHECK_HOLDS), "%s: %s",
                      talc_check_kind_name((talc_check_kind)kind), reason);
            fault_keep_bytes(run, &result, sizeof result);
        }
}

Test(check_properties, any_allocation_may_fail)
{
    const fault_scenario scenario = { "properties", NULL, run_properties, NULL, NULL };
    cr_assert(assert_survives_allocation_failures(&scenario, cpu_device()) > 500);
}
