/// The family of group norm, forward: "group_norm:n8c16l49g4_relu". l: values of a plane; layer
/// norm of 64x192 is n64c192l1g1. plain: without weight and bias; eps0: instead of 2^-17.
///
/// Rows are the channels of one image in training to batch_norm2d.c, whose data, statistics and
/// bounds these are: K, S and what comes on top of a row without weight and bias, times |weight|,
/// and |bias| added to S.
#include "check/ops/group_norm.h"

#include "check/engine/activation.h"
#include "check/ops/batch_norm2d.h"
#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "ops/backend.h"

#include <math.h>

static const char *const op_names[] = { "group_norm", NULL };
static const double EPS = 0x1p-17;

/* The places of batch_norm2d.c's operands. */
enum { X, WEIGHT, BIAS, Y = 7, MEAN, RSTD };

// ---- Problem and text ---------------------------------------------------------------------------

check_problem talc_check_group_rows(const check_problem *problem)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    check_problem rows = { 0 };
    *writable(&rows) = (check_norm_problem){ .p = { .dtype = p->dtype,
                                                    .N = 1,
                                                    .C = p->N * p->groups,
                                                    .H = row_values(p),
                                                    .W = 1,
                                                    .training = true,
                                                    .eps = p->eps },
                                             .plain = true,
                                             .untracked = true };
    return rows;
}

static const char *complete(check_problem *problem, const char **key)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    (void)key;
    int64_t count;
    const bool backwards = p->direction == TALC_GRAD_INPUT;
    return backwards && (p->eps != EPS || p->activation != TALC_ACTIVATION_NONE)
               ? "no words of a gradient but plain, f32 and f64"
           : p->groups < 1 || p->C % p->groups != 0 ? "groups that divide the channels"
           : !talc_check_elements(p->dtype, 3, (int64_t[]){ p->N, p->C, p->plane }, &count)
               ? "an input below 2^63 bytes"
               : NULL;
}

#define FIELD(name) offsetof(group_problem, name)

static const check_key keys[] = {
    { "n", CHECK_NUMBER, .offset = FIELD(p.N) },
    { "c", CHECK_NUMBER, .offset = FIELD(p.C) },
    { "l", CHECK_NUMBER, .offset = FIELD(p.plane) },
    { "g", CHECK_NUMBER, .offset = FIELD(p.groups) },
    { "_plain", CHECK_FLAG, .offset = FIELD(plain) },
    { "_eps0", CHECK_REAL, .offset = FIELD(p.eps), 0 },
    CHECK_ACTIVATION_KEYS(FIELD(p.activation)),
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(p.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    (void)op;
    write_group(problem)->p.eps = EPS;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    group_problem *self = write_group(problem);
    talc_group_norm_problem *p = &self->p;
    p->dtype = talc_check_draw_float(state);
    p->N = talc_check_draw(state, 1, 5);
    p->groups = talc_check_draw(state, 1, 4);
    p->C = p->groups * CHECK_PICK(state, 1, 1, 2, 3, 8, 33, 129);
    p->plane = CHECK_PICK(state, 1, 1, 2, 3, 4, 9, 16, 49, 260);
    self->plain = talc_check_draw(state, 0, 3) == 0;
    p->eps = talc_check_draw(state, 0, 3) == 0 ? 0 : EPS;
    p->activation = talc_check_draw_activation(state);
    if (direction == TALC_GRAD_INPUT) { /* the words are plain and the type */
        p->direction = direction;
        p->eps = EPS;
        p->activation = TALC_ACTIVATION_NONE;
    }
    return true;
}

// ---- In models ----------------------------------------------------------------------------------

static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!talc_check_elements_of_run(direction, ran, expected->element))
        return false;
    talc_check_group_norm_spread(ran, expected->spread);
    expected->activation = ((const talc_group_norm_problem *)ran->problem)->activation;
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "group_norm:n3c6l35g2", "group_norm:n9c192l1g1_relu", "group_norm:n2c4l300g4_plain_f64",
    "group_norm:n3c6l35g2_dx", "group_norm:n9c192l1g1_dx", "group_norm:n2c4l300g4_plain_dx_f64",
    NULL,
};

static const char *const edges[] = {
    /* One value a row, many, parts of rows. */
    "group_norm:n0c4l5g2", "group_norm:n2c4l0g2", "group_norm:n{1|300}c{1|3}l1g1",
    "group_norm:n3c6l7g{1|3|6}{|_f64|_relu|_relu6|_sigmoid|_silu|_tanh|_plain}",
    "group_norm:n{3|70}c{8|33|192|257|768|1027}l1g1{|_f64}",
    "group_norm:n2c{4095|8192|9001|16384|16388|16385|40000|70001}l1g1",
    "group_norm:n2c4l{16|49|3136|9000|20011}g2{|_f64}", "group_norm:n1c2l70000g1_tanh",
    "group_norm:n5c6l9g3_eps0", "group_norm:n1c131l127g1",

    /* Input gradients: one value a row, many, parts of rows. */
    "group_norm:n0c4l5g2_dx", "group_norm:n2c4l0g2_dx", "group_norm:n{1|300}c{1|3}l1g1_dx",
    "group_norm:n3c6l7g{1|3|6}{|_plain}_dx{|_f64}",
    "group_norm:n{3|70}c{8|33|257|768}l1g1_dx{|_f64}",
    "group_norm:n2c{4095|9001|16385|70001}l1g1_dx",
    "group_norm:n2c4l{16|49|3136|20011}g2_dx{|_f64}", "group_norm:n1c2l70000g1_dx",
    "group_norm:n1c131l127g1_dx",
    NULL,
};
// clang-format on

const check_family talc_check_group_family = {
    .texts = "group_norm:n8c16l49g4_relu\n"
             "    l: values of a plane; layer_norm of 64x192 is n64c192l1g1\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

// ---- Operands and data --------------------------------------------------------------------------

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const group_problem *self = read_group(problem);
    const talc_group_norm_problem *p = &self->p;
    const talc_dims image = TALC_DIMS(p->N, p->C, p->plane), channels = TALC_DIMS(p->C),
                    rows = TALC_DIMS(p->plane == 0 || p->C == 0 ? 0 : p->N * p->groups);
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, image);
    if (!self->plain) {
        list[WEIGHT] = talc_check_operand("weight", CHECK_READ, p->dtype, channels);
        list[BIAS] = talc_check_operand("bias", CHECK_READ, p->dtype, channels);
    }
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, p->dtype, image);
    list[MEAN] = talc_check_operand("mean", CHECK_WRITTEN, TALC_F64, rows);
    list[RSTD] = talc_check_operand("rstd", CHECK_WRITTEN, TALC_F64, rows);
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const group_problem *self = read_group(problem);
    const check_problem rows = talc_check_group_rows(problem);
    talc_check_batch_norm2d.fill(&rows, kind, seed, values);
    for (int i = WEIGHT; i <= BIAS && !self->plain; i++)
        talc_check_fill(values->of[i], self->p.C, self->p.dtype, TALC_CHECK_RANDOM, 8,
                        kind == TALC_CHECK_WIDE ? CHECK_SLIGHT_WEIGHT : 1,
                        talc_check_bits(seed, (uint64_t)i));
}

// ---- Oracle -------------------------------------------------------------------------------------

static int64_t groups(const check_problem *problem)
{
    return read_group(problem)->p.N * read_group(problem)->p.groups;
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    return operand == Y ? index / row_values(&read_group(problem)->p) : index;
}

static check_common learn(const check_problem *problem, const check_values *values, int64_t group)
{
    const check_problem rows = talc_check_group_rows(problem);
    return talc_check_batch_norm2d.learn(&rows, values, group);
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const talc_group_norm_problem *p = &read_group(problem)->p;
    const check_problem rows = talc_check_group_rows(problem);
    check_values plain = { .common = values->common };
    plain.of[X] = values->of[X];
    check_expected expected = talc_check_batch_norm2d.expected(&rows, &plain, operand, index);
    if (operand != Y)
        return expected;
    if (values->of[WEIGHT] != NULL || values->of[BIAS] != NULL) {
        const int64_t c = index / p->plane % p->C;
        const double weight = values->of[WEIGHT] == NULL ? 1 : values->of[WEIGHT][c],
                     bias = values->of[BIAS] == NULL ? 0 : values->of[BIAS][c];
        expected.value = expected.value * weight + bias;
        expected.S = expected.S * fabs(weight) + fabs(bias);
        expected.extra *= fabs(weight);
        expected.foreign *= fabs(weight);
    }
    talc_check_activate(&expected, p->activation, p->dtype);
    return expected;
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    group_problem *self = write_group(problem);
    self->p = *(const talc_group_norm_problem *)ran->problem;
    self->p.activation = TALC_ACTIVATION_NONE;
    self->plain = ran->inputs[WEIGHT].of == NULL && ran->inputs[BIAS].of == NULL;
    return complete(problem, &(const char *){ "" }) == NULL;
}

#define POINTER(name) offsetof(talc_group_norm_arguments, name)

const check_direction talc_check_group_norm = {
    .family = &talc_check_group_family,
    .ops = op_names,
    .gradient = &talc_check_group_norm_gradient,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = fill,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .cost = 6,
    .list = TALC_OP_group_norm,
    .arguments = { [X] = POINTER(x),
                   [WEIGHT] = POINTER(weight),
                   [BIAS] = POINTER(bias),
                   [Y] = POINTER(y),
                   [MEAN] = POINTER(mean),
                   [RSTD] = POINTER(rstd) },
};
