/// Every algorithm of the ops beside conv2d by the cross-check (conv2d has test_conv2d.c): on the
/// edges of `talc check`, and on problems beside the blocks and tiles of the CPU's algorithms. All
/// kinds of data, guard bands, misaligned operands, every number of threads.
#include "ops/elementwise_table.h"
#include "tests/support/hooks.h"

#include <string.h>

/* Larger than what one thread or one tile takes, and a little off. */
static const char *const more[] = {
    "max_pool2d:n1c2h3w5003k3x3s1x1p1x1",
    "avg_pool2d:n1c2h3w5003k3x3s1x1p1x1",
    "max_pool2d:n1c2h3w5003k2x2_ceil",
    "avg_pool2d:n1c2h3w5003k2x2_ceil",
    "max_pool2d:n1c2h3w5003k1x2000s1x7p0x1000",
    "avg_pool2d:n1c2h3w5003k1x2000s1x7p0x1000",
    "max_pool2d:n1c2h3w5003k2x3s1x1p1x1d2x900",
    "adaptive_avg_pool2d:n1c2h3w5003o2x11",
    "avg_pool2d:n3c5h67w61k3x3s2x1p1x1",
    "matmul:m301n403k277",
    "matmul:m70n1001k300",
    "matmul:m1001n70k300",
    "matmul:b700m3n2k5",
    "matmul:m1n3500k700",
    "matmul:b7m130n131k129_oneb",
    "matmul:m211n503k300_tb_bias_residual_relu",
    "batch_norm2d:n700c3h5w11_train",
    "batch_norm2d:n1c2h150w151_train",
    "batch_norm2d:n3c2h130w127_train_f64",
    "batch_norm2d:n40001c1h1w1_train",
    "group_norm:n301c192l1g1",
    "group_norm:n3c8l9001g2_f64",
    "sum:300007",
    "sum:2097152",
    "sum:40x5000@1",
    "argmax:40x5000@1",
    "mean:2100x65@1",
    "max:33x40x130@0,2",
    "sum:33x40x130@0,2_reversed",
    "argmax:300x3x130@1_reversed",
    "argmax:4x7x60x61@0,2,3",
    "softmax:3000x10@1",
    "softmax:10x3000@0",
    "softmax:2x40000@1",
    "softmax:40000x2@0",
    "cross_entropy:257x33",
    "pad:40x150x151p1x2x3x4_reflect",
    "upsample2d:n3c5h67w61o130x99_bilinear",
    "gather:300x3x130@2i300x3x400",
    "index_select:300x131@0i700",
    "gather:3000x10@1i3000x1_dx",
    "gather:5x40x3@1i5x700x3_dx",
    "index_select:900x70@0i300_dx",
    "cumsum:37x33000@0",
    "cumsum:9000x70@1_f64",
    "cumsum:37x33000@0_dx",
    "add:32767,32767",
    "add:32769,32769",
    "sub:3x40000,3x40000_reversed",
    "mul:40000x3,40000x3_reversed",
    "add:150x7x90,150x7x90",
    "tanh:32769",
    "tanh:40000x3_reversed",
    "where:3x40000,3x40000,3x40000_reversed",
    "where:150x7x90,150x7x90,150x7x90",
    NULL,
};

static void expect_passed(void *context, const talc_check_outcome *outcome)
{
    ++*(int *)context;
    cr_expect(outcome->passed, "%s %s: %s", outcome->problem, outcome->algorithm, outcome->reason);
}

#define KIND(name) ((uint64_t)1 << TALC_CHECK_##name)

/* A problem of a list; NULL after the last. */
typedef const char *problem_function(int64_t index, char text[TALC_CHECK_TEXT]);

static const char *edge(int64_t index, char text[TALC_CHECK_TEXT])
{
    return talc_check_set_problem("edges", index, 0, text);
}

static const char *another(int64_t index, char text[TALC_CHECK_TEXT])
{
    (void)text;
    return more[index];
}

/* The ops of each test, with spaces around them. */
#define NAME(constant, name, ...) #name " "
enum {
    POOLING,
    PRODUCTS,
    BATCH_NORM,
    GROUP_NORM,
    REDUCTIONS,
    SOFTMAX,
    LOSSES,
    RESAMPLING,
    PICKING,
    CUMSUM,
    ONE_OPERAND,
    TWO_OPERANDS,
    ELSEWHERE,
    GROUPS
};
static const char *const ops_of[GROUPS] = {
    [POOLING] = " max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d ",
    [PRODUCTS] = " matmul ",
    [BATCH_NORM] = " batch_norm2d ",
    [GROUP_NORM] = " group_norm ",
    [REDUCTIONS] = " sum mean max argmax ",
    [SOFTMAX] = " softmax log_softmax ",
    [LOSSES] = " cross_entropy nll_loss ",
    [RESAMPLING] = " pad upsample2d ",
    [PICKING] = " gather index_select where ",
    [CUMSUM] = " cumsum ",
    [ONE_OPERAND] = " " TALC_UNARY_TABLE(NAME),
    [TWO_OPERANDS] = " " TALC_BINARY_TABLE(NAME),
    /* Left to tests of their own, and to `talc check`. */
    [ELSEWHERE] = " min argmin var logsumexp cumprod sgd adam rmsprop ",
};

static bool is_of(const char *op, int group)
{
    for (int i = 0; group == GROUPS && i < GROUPS; i++)
        if (strstr(ops_of[i], op) != NULL)
            return false;
    return group == GROUPS || strstr(ops_of[group], op) != NULL;
}

/* Those problems whose op is one of the group; GROUPS: of none. */
static void expect_algorithms_pass(problem_function *problem, int group, uint64_t kinds)
{
    char text[TALC_CHECK_TEXT];
    int outcomes = 0;
    owned_check *check = talc_check_new(&(talc_check_options){ .device = tested_device(),
                                                               .kinds = kinds,
                                                               .observe = expect_passed,
                                                               .context = &outcomes });
    for (int64_t i = 0; problem(i, text) != NULL; i++) {
        char op[64];
        const char *of = problem(i, text), *colon = strchr(of, ':');
        snprintf(op, sizeof op, " %.*s ", colon == NULL ? 0 : (int)(colon - of), of);
        if (colon != NULL && is_of(op, group))
            cr_assert(talc_check_problem(check, of), "%s", talc_error_message());
    }
    cr_assert(group == GROUPS || outcomes > 0);
    cr_assert(outcomes == 0 || talc_check_passed(check));
}

#define ALGORITHMS_PASS(test, group)                                                               \
    Test(algorithms, test)                                                                         \
    {                                                                                              \
        expect_algorithms_pass(edge, group, 0);                                                    \
        expect_algorithms_pass(another, group,                                                     \
                               KIND(EXACT) | KIND(RANDOM) | KIND(GUARDS) | KIND(THREADS));         \
    }

ALGORITHMS_PASS(of_pooling, POOLING)
ALGORITHMS_PASS(of_products, PRODUCTS)
ALGORITHMS_PASS(of_batch_norm2d, BATCH_NORM)
ALGORITHMS_PASS(of_group_norm, GROUP_NORM)
ALGORITHMS_PASS(of_reductions, REDUCTIONS)
ALGORITHMS_PASS(of_softmax, SOFTMAX)
ALGORITHMS_PASS(of_losses, LOSSES)
ALGORITHMS_PASS(of_resampling, RESAMPLING)
ALGORITHMS_PASS(of_picking, PICKING)
ALGORITHMS_PASS(of_cumsum, CUMSUM)
ALGORITHMS_PASS(of_one_operand, ONE_OPERAND)
ALGORITHMS_PASS(of_two_operands, TWO_OPERANDS)
ALGORITHMS_PASS(of_ops_that_have_no_group, GROUPS)
