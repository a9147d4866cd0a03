/// The family of batch normalisation, forward; batch_norm2d_gradient.c has the other direction.
///
/// Words: train; plain: without weight and bias; untracked: training without running statistics, in
/// which no batch is counted; residual; momentum0, momentum1: instead of 0.1; eps0: instead of
/// 2^-17, which is near the op's default and lets 1 - 2^-17 + eps be 1 exactly.
///
/// Errors, with u of the data's type, A = mean |x| of a channel and s = |weight| rstd. The formula
/// subtracts first, so an evaluation has a handful of roundings of s |x - mu|, of |bias| and of
/// |residual|: K = 6, that is 8 u of their sum on any data. In training mu itself is off. f32 data
/// keep their statistics in f64 or as well: mu may be 8 u |mu| off, whatever M is, and f64
/// roundings come on top; f64 data may have (M + 8) u A, which is K = M + 6. A deviation from a
/// mean that is d off makes the variance d^2 larger, and rstd so by no more than the part d^2 /
/// (var + eps) of itself. Where that is large, as for constant data with eps = 0, or the variance
/// underflows, the result means nothing and any will do.
///
/// `blocks` of the CPU uses up to 0.35 of this, for f32 and f64 alike; of the 8 u |mu| a
/// five-hundredth, as it puts what rounding the mean loses into the shift.
#include "check/ops/batch_norm2d.h"

#include "check/engine/activation.h"
#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "ops/backend.h"

#include <math.h>

static const char *const op_names[] = { "batch_norm2d", NULL };
static const double EPS = 0x1p-17, MOMENTUM = 0.1;

// ---- Problem and text ---------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    int64_t count, M;
    if (!talc_check_elements(p->dtype, 4, (int64_t[]){ p->N, p->C, p->H, p->W }, &count) ||
        !talc_check_elements(p->dtype, 3, (int64_t[]){ p->N, p->H, p->W }, &M))
        return "an input below 2^63 bytes";
    if (p->training && M == 1)
        return "more than one value a channel in training";
    if (self->untracked && !p->training)
        return "running statistics outside training";
    const bool backwards = p->direction == TALC_GRAD_INPUT;
    if (self->given && !(backwards && p->training))
        return "given statistics in the gradient of training alone";
    if (backwards && (p->eps != EPS || p->momentum != MOMENTUM || self->untracked))
        return "no words of a gradient but train, given, plain, residual, an activation, f32 and "
               "f64";
    if (backwards && p->residual && p->activation == TALC_ACTIVATION_NONE)
        return "an activation, without which the gradient of the residual is dy";
    if (backwards && !talc_activation_gradient_from_result(p->activation))
        return "an activation whose gradient follows from its result";
    return NULL;
}

#define FIELD(name) offsetof(check_norm_problem, name)

static const check_key keys[] = {
    CHECK_IMAGE_KEYS(FIELD(p.N), FIELD(p.C), FIELD(p.H), FIELD(p.W)),
    { "_train", CHECK_FLAG, .offset = FIELD(p.training) },
    { "_plain", CHECK_FLAG, .offset = FIELD(plain) },
    { "_untracked", CHECK_FLAG, .offset = FIELD(untracked) },
    { "_given", CHECK_FLAG, .offset = FIELD(given) },
    { "_residual", CHECK_FLAG, .offset = FIELD(p.residual) },
    { "_eps0", CHECK_REAL, .offset = FIELD(p.eps), 0 },
    { "_momentum0", CHECK_REAL, .offset = FIELD(p.momentum), 0 },
    { "_momentum1", CHECK_REAL, .offset = FIELD(p.momentum), 1 },
    CHECK_ACTIVATION_KEYS(FIELD(p.activation)),
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(p.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    (void)op;
    writable(problem)->p.eps = EPS;
    writable(problem)->p.momentum = MOMENTUM;
}

/* Makes a forward problem one of the gradient, whose text has no more words than train, given,
 * plain, residual, an activation and the type. */
static void turn(uint64_t *state, check_norm_problem *self)
{
    self->p.direction = TALC_GRAD_INPUT;
    self->p.eps = EPS;
    self->p.momentum = MOMENTUM;
    if (!talc_activation_gradient_from_result(self->p.activation))
        self->p.activation = TALC_ACTIVATION_NONE;
    self->p.residual &= self->p.activation != TALC_ACTIVATION_NONE;
    self->untracked = false;
    self->given = self->p.training && talc_check_draw(state, 0, 3) != 0;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    check_norm_problem *self = writable(problem);
    talc_batch_norm2d_problem *p = &self->p;
    p->dtype = talc_check_draw_float(state);
    p->N = talc_check_draw(state, 1, 4);
    p->C = talc_check_draw(state, 1, 6);
    p->H = CHECK_PICK(state, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17);
    p->W = CHECK_PICK(state, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17);
    p->training = talc_check_draw(state, 0, 1) != 0;
    self->plain = talc_check_draw(state, 0, 3) == 0;
    self->untracked = p->training && talc_check_draw(state, 0, 3) == 0;
    p->eps = talc_check_draw(state, 0, 3) == 0 ? 0 : EPS;
    p->momentum = (double[]){ MOMENTUM, MOMENTUM, 0, 1 }[talc_check_draw(state, 0, 3)];
    p->activation = talc_check_draw_activation(state);
    p->residual = talc_check_draw(state, 0, 2) == 0;
    if (complete(problem, &(const char *){ "" }) != NULL)
        return false;
    if (direction == TALC_GRAD_INPUT)
        turn(state, self);
    return true;
}

// ---- In models ----------------------------------------------------------------------------------

static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    check_problem problem;
    if (!talc_check_problem_of_run(direction, ran, &problem) ||
        !talc_check_elements_of_run(direction, ran, expected->element))
        return false;
    const check_values values = talc_check_values_of_run(ran);
    talc_check_batch_norm2d_spread(ran, &problem, &values, expected->spread);
    expected->activation = ((const talc_batch_norm2d_problem *)ran->problem)->activation;
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "batch_norm2d:n3c5h7w9_relu", "batch_norm2d:n4c6h9w7_train",
    "batch_norm2d:n2c3h33w35_train_f64", "batch_norm2d:n4c6h8w8_train_residual_relu",
    "batch_norm2d:n3c5h7w9_dx", "batch_norm2d:n4c6h9w7_train_dx",
    "batch_norm2d:n4c6h9w7_train_given_dx", "batch_norm2d:n4c6h8w8_train_given_relu_residual_dx",
    "batch_norm2d:n2c3h33w35_train_plain_dx_f64", "batch_norm2d:n4c6h8w8_train_relu_residual_dx",
    "batch_norm2d:n3c5h7w9_tanh_dx",
    NULL,
};

static const char *const edges[] = {
    /* Running statistics and those of the batch, one value a channel, many. */
    "batch_norm2d:n0c3h4w5", "batch_norm2d:n1c{1|5}h1w1",
    "batch_norm2d:n2c3h5w7{|_relu|_sigmoid|_tanh|_relu6|_hardswish|_silu|_gelu_f64|_leaky_relu|_f64|_train|_train_relu|_train_f64}",
    "batch_norm2d:n1c33h3w5_{relu|train}", "batch_norm2d:n3c17h1w65{|_train_tanh}",
    "batch_norm2d:n1c2h100w101", "batch_norm2d:n2c1h1w1_train", "batch_norm2d:n1c5h1w2_train",
    "batch_norm2d:n65c2h1w1_train", "batch_norm2d:n2c2h100w101_train",
    "batch_norm2d:n1c2h300w301_train_relu", "batch_norm2d:n3c2h100w100_train",
    "batch_norm2d:n2c2h100w100_train_f64", "batch_norm2d:n400c3h7w7_train",
    "batch_norm2d:n200c3h7w7_train_tanh_f64", "batch_norm2d:n340c22h7w7_train",
    "batch_norm2d:n90c5h15w15_train", "batch_norm2d:n2000c6h3w3_train_relu",
    "batch_norm2d:n340c12h7w7_train_f64", "batch_norm2d:n9000c2h1w2_train",
    "batch_norm2d:n70c3h17w17_train", "batch_norm2d:n6c2h71w71_train_f64",
    "batch_norm2d:n20c3h33w35_train_relu", "batch_norm2d:n1c2h400w40{0|1}_train",
    "batch_norm2d:n2c3h5w7_residual{|_relu|_f64|_train|_train_tanh|_train_plain_untracked_f64}",
    "batch_norm2d:n3c2h100w{100|101}_residual_train_relu",
    "batch_norm2d:n1c33h3w5_residual_sigmoid", "batch_norm2d:n1c2h300w301_residual_train_f64",
    "batch_norm2d:n90c5h15w15_residual{_relu|_train}",

    /* Without its extras, at the ends of momentum and eps. */
    "batch_norm2d:n2c3h5w7_{plain|train_plain|train_untracked_relu|train_plain_untracked}",
    "batch_norm2d:n2c3h5w7_{train_momentum0|train_momentum1|eps0|train_eps0_f64}",

    /* Channels around the widths of vectors and tiles. */
    "batch_norm2d:n2c65h3w5{|_train}", "batch_norm2d:n1c130h3w5_{relu|train_relu}",
    "batch_norm2d:n2c300h2w3{|_train}",

    /* Input gradients: one value a channel, many, channels of about as many as a part of them. */
    "batch_norm2d:n0c3h4w5_dx", "batch_norm2d:n1c{1|5}h1w1_dx",
    "batch_norm2d:n2c3h5w7{|_train|_train_given}{|_plain}_dx{|_f64}",
    "batch_norm2d:n1c33h3w5{|_train|_train_given}_dx",
    "batch_norm2d:n3c17h1w65{|_train|_train_given}_dx",
    "batch_norm2d:n2c300h2w3{|_train|_train_given}_dx", "batch_norm2d:n2c1h1w1_train{|_given}_dx",
    "batch_norm2d:n1c5h1w2_train{|_given}_dx", "batch_norm2d:n65c2h1w1_train{|_given}_dx",
    "batch_norm2d:n1c2h128w{128|129}_train{|_given}_dx",
    "batch_norm2d:n2c2h100w101{|_train|_train_given}_dx",
    "batch_norm2d:n1c2h300w301_train{|_given}_dx",
    "batch_norm2d:n3c2h100w100_train{|_given}_dx{|_f64}",
    "batch_norm2d:n400c3h7w7_train{|_given}_dx", "batch_norm2d:n340c22h7w7_train{|_given}_dx",
    "batch_norm2d:n90c5h15w15_train{|_given}_dx", "batch_norm2d:n2000c6h3w3_train{|_given}_dx",
    "batch_norm2d:n9000c2h1w2_train{|_given}_dx",
    "batch_norm2d:n2c3h5w7{|_train|_train_given}_{relu|sigmoid|tanh|relu6|hardsigmoid}{|_residual}_dx",
    "batch_norm2d:n3c2h100w{100|101}_train{|_given}_relu{|_residual}_dx",
    "batch_norm2d:n1c5h1w2_train{|_given}_relu_residual_dx",
    "batch_norm2d:n1c2h300w301_train{|_given}_tanh_residual_dx{|_f64}",
    "batch_norm2d:n90c5h15w15_train{|_given}_sigmoid{|_residual}_dx_f64",
    NULL,
};
// clang-format on

const check_family talc_check_norm_family = {
    .texts = "batch_norm2d:n8c16h7w7_train_relu\n"
             "    untracked: no running statistics; _train_given_dx: mean and rstd are given\n"
             "    instead of the forward pass's\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

// ---- Operands -----------------------------------------------------------------------------------

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR, RESIDUAL, COUNT, Y, MEAN, RSTD };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    const talc_dims image = TALC_DIMS(p->N, p->C, p->H, p->W), channels = TALC_DIMS(p->C);
    const check_role running = p->training ? CHECK_UPDATED : CHECK_READ;
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, image);
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, p->dtype, image);
    if (!self->plain) {
        list[WEIGHT] = talc_check_operand("weight", CHECK_READ, p->dtype, channels);
        list[BIAS] = talc_check_operand("bias", CHECK_READ, p->dtype, channels);
    }
    if (!self->untracked) {
        list[RUNNING_MEAN] = talc_check_operand("running_mean", running, p->dtype, channels);
        list[RUNNING_VAR] = talc_check_operand("running_var", running, p->dtype, channels);
    }
    if (p->residual)
        list[RESIDUAL] = talc_check_operand("residual", CHECK_READ, p->dtype, image);
    if (p->training && !self->untracked)
        list[COUNT] =
            talc_check_operand("num_batches_tracked", CHECK_UPDATED, TALC_I64, TALC_SCALAR);
    if (p->training) {
        list[MEAN] = talc_check_operand("mean", CHECK_WRITTEN, TALC_F64, channels);
        list[RSTD] = talc_check_operand("rstd", CHECK_WRITTEN, TALC_F64, channels);
    }
}

// ---- Data ---------------------------------------------------------------------------------------

/* Exact where the statistics are given: then the variance and eps add up to 1. */
static bool takes(const check_problem *problem, talc_check_kind kind)
{
    return kind == TALC_CHECK_EXACT ? !read_only(problem)->p.training : kind <= TALC_CHECK_INFINITY;
}

/* x and what is given a channel: shifts small beside the scales, so that a ReLU leaves enough of
 * every channel. WIDE: mean 1e4 and standard deviation 1, so that a variance from mean squares, or
 * a subtraction of the mean as the last step, loses all digits; and slight channels. */
static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_batch_norm2d, problem, list);
    const bool exact = kind == TALC_CHECK_EXACT, far = kind == TALC_CHECK_WIDE;
    const talc_check_kind of_channels = exact ? TALC_CHECK_EXACT : TALC_CHECK_RANDOM;
    double *x = values->of[X];

    talc_check_fill(x, list[X].count, p->dtype, far ? TALC_CHECK_RANDOM : kind, 32,
                    far ? sqrt(3) : 1, seed);
    for (int64_t i = 0; far && i < list[X].count; i++)
        x[i] = talc_check_is_slight(kind, i / (p->H * p->W) % p->C)
                   ? x[i] * CHECK_SLIGHT_SPREAD
                   : talc_check_rounded(p->dtype, 1e4 + x[i]);
    for (int i = WEIGHT; i <= RUNNING_VAR; i++)
        if (list[i].role != CHECK_ABSENT)
            talc_check_fill(values->of[i], p->C, p->dtype, of_channels, 8, 0.125,
                            talc_check_bits(seed, (uint64_t)i));
    if (p->residual)
        talc_check_fill(values->of[RESIDUAL], list[X].count, p->dtype,
                        exact ? TALC_CHECK_EXACT : TALC_CHECK_RANDOM, 32, 1,
                        talc_check_bits(seed, RESIDUAL));
    if (list[COUNT].role != CHECK_ABSENT)
        values->of[COUNT][0] = (double)(talc_check_bits(seed, COUNT) % 1000);
    for (int64_t c = 0; !exact && !self->plain && c < p->C; c++) {
        double *weight = &values->of[WEIGHT][c];
        *weight = talc_check_rounded(p->dtype, *weight < 0 ? *weight * 4 - 0.5 : *weight * 4 + 0.5);
    }
    for (int64_t i = 0; !self->plain && i < list[X].count; i++) {
        const int64_t c = i / (p->H * p->W) % p->C;
        if (p->residual && talc_check_is_slight(kind, c))
            values->of[RESIDUAL][i] *= CHECK_SLIGHT_WEIGHT;
    }
    for (int64_t c = 0; !self->plain && c < p->C; c++)
        for (int i = WEIGHT; i <= BIAS && talc_check_is_slight(kind, c); i++)
            values->of[i][c] *= CHECK_SLIGHT_WEIGHT;
    for (int64_t c = 0; !self->untracked && c < p->C; c++) {
        double *mean = &values->of[RUNNING_MEAN][c], *var = &values->of[RUNNING_VAR][c];
        const double spread = talc_check_is_slight(kind, c) ? CHECK_SLIGHT_SPREAD : 1;
        *mean = far && spread == 1 ? talc_check_rounded(p->dtype, 1e4 + *mean) : *mean * spread;
        *var = exact ? 1 - p->eps : talc_check_rounded(p->dtype, 1 + *var * 4) * spread * spread;
    }
}

// ---- Oracle -------------------------------------------------------------------------------------

/* A channel: its mean and biased variance, or the running ones. */
typedef struct statistics {
    double M;
    long double mean, var;
    double sizes; /* A */
} statistics;

static int64_t groups(const check_problem *problem)
{
    return read_only(problem)->p.training ? read_only(problem)->p.C : 0;
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    const check_norm_problem *self = read_only(problem);
    return operand == Y ? index / self->p.H / self->p.W % self->p.C : operand == COUNT ? 0 : index;
}

static check_common learn(const check_problem *problem, const check_values *values, int64_t c)
{
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    const int64_t plane = p->H * p->W;
    const double *x = values->of[X], M = (double)(p->N * plane);
    long double sum = 0, sizes = 0, squares = 0;
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t i = 0; i < plane; i++) {
            const double value = x[(n * p->C + c) * plane + i];
            sum += value;
            sizes += fabs(value);
        }
    const long double mean = sum / M;
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t i = 0; i < plane; i++) {
            const long double deviation = x[(n * p->C + c) * plane + i] - mean;
            squares += deviation * deviation;
        }
    return (check_common){ .of = { [CHECK_NORM_MEAN] = mean,
                                   [CHECK_NORM_VAR] = squares / M,
                                   [CHECK_NORM_SIZES] = sizes / M } };
}

static statistics statistics_of(const check_problem *problem, const check_values *values, int64_t c)
{
    const check_norm_problem *self = read_only(problem);
    if (!self->p.training)
        return (statistics){ .mean = values->of[RUNNING_MEAN][c],
                             .var = values->of[RUNNING_VAR][c] };
    const check_common of = values->common != NULL ? values->common[c] : learn(problem, values, c);
    return (statistics){ .M = (double)(self->p.N * self->p.H * self->p.W),
                         .mean = of.of[CHECK_NORM_MEAN],
                         .var = of.of[CHECK_NORM_VAR],
                         .sizes = (double)of.of[CHECK_NORM_SIZES] };
}

/* How exact an algorithm has to be for a channel. */
typedef struct allowance {
    double K;        /* as in check_expected */
    double mean;     /* the size that the mean's error follows */
    double f64;      /* what sums over f32 data in f64 lose, relatively */
    double variance; /* d^2 */
    double rstd;     /* the part of rstd that d makes it smaller */
    double min;      /* what underflow may take from the mean */
    bool any;        /* of rstd, and of what is multiplied by it, nothing can be said */
} allowance;

static allowance allow(const talc_batch_norm2d_problem *p, const statistics *of)
{
    const bool narrow = talc_check_is_narrow(p->dtype);
    const check_format format = talc_check_format(p->dtype);
    const double u = format.unit;
    const double var = (double)of->var + p->eps;
    allowance may = { .K = narrow ? 6 : of->M + 6,
                      .mean = narrow ? (double)fabsl(of->mean) : of->sizes,
                      .f64 = narrow ? (of->M + 8) * 0x1p-53 : 0,
                      .min = 8 * u * format.normal };
    const double d = (may.K + 2) * u * may.mean + may.f64 * of->sizes + may.min;
    may.variance = d * d;
    may.rstd = may.variance / var;
    may.any = var < format.normal || may.rstd > 0.25;
    return may;
}

static check_expected y_expected(const check_norm_problem *self, const check_values *values,
                                 const statistics *of, int64_t c, int64_t index)
{
    const talc_batch_norm2d_problem *p = &self->p;
    const long double weight = values->of[WEIGHT] == NULL ? 1 : values->of[WEIGHT][c];
    const long double bias = values->of[BIAS] == NULL ? 0 : values->of[BIAS][c];
    const long double residual = values->of[RESIDUAL] == NULL ? 0 : values->of[RESIDUAL][index];
    const long double scale = weight / sqrtl(of->var + p->eps),
                      deviation = values->of[X][index] - of->mean;
    const double s = (double)fabsl(scale), size = (double)fabsl(deviation);
    check_expected expected = { .value = deviation * scale + bias + residual,
                                .K = 6,
                                .S = s * size + (double)(fabsl(bias) + fabsl(residual)),
                                .foreign = s * (fabs(values->of[X][index]) +
                                                (double)fabsl(of->mean) - size) };
    if (p->training) {
        const allowance may = allow(p, of);
        expected.K = may.K;
        expected.S += s * may.mean;
        expected.extra = s * (size * may.rstd + may.f64 * (size + of->sizes) + may.min);
        expected.any = may.any;
    }
    talc_check_activate(&expected, p->activation, p->dtype);
    return expected;
}

/* One of the statistics that training gives out; `before` is what a running one held. */
static check_expected statistic_expected(const check_norm_problem *self, const statistics *of,
                                         int operand, double before)
{
    const talc_batch_norm2d_problem *p = &self->p;
    const allowance may = allow(p, of);
    const long double m = p->momentum, kept = (1 - m) * before;
    const long double unbiased = of->var * of->M / (of->M - 1);
    check_expected expected = { .K = may.K };
    if (operand == MEAN) {
        expected.value = of->mean;
        expected.S = may.mean;
        expected.extra = may.f64 * of->sizes;
    } else if (operand == RSTD) {
        expected.value = 1 / sqrtl(of->var + p->eps);
        expected.S = (double)expected.value;
        expected.extra = (double)expected.value * (may.rstd + may.f64);
        expected.any = may.any;
    } else if (m == 0) {
        expected.value = before;
    } else if (operand == RUNNING_MEAN) {
        expected.value = kept + m * of->mean;
        expected.S = (double)(fabsl(kept) + m * may.mean);
        expected.extra = (double)m * may.f64 * of->sizes;
    } else {
        expected.value = kept + m * unbiased;
        expected.S = (double)expected.value;
        expected.extra = (double)(m * (2 * may.variance + may.f64 * unbiased));
    }
    /* The mean of an infinity is infinite, or not a number where it is joined from parts. */
    expected.any |= isinf(expected.value) && operand != RSTD;
    return expected;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const check_norm_problem *self = read_only(problem);
    if (operand == COUNT)
        return (check_expected){ .value = values->of[COUNT][0] + 1 };
    const int64_t c = group_of(problem, operand, index);
    const statistics of = statistics_of(problem, values, c);
    if (operand == Y)
        return y_expected(self, values, &of, c, index);
    const bool running = operand == RUNNING_MEAN || operand == RUNNING_VAR;
    return statistic_expected(self, &of, operand, running ? values->of[operand][c] : 0);
}

/* In training an element is part of two sums as well. */
static double terms(const check_problem *problem)
{
    return read_only(problem)->p.training ? 6 : 4;
}

// ---- In a model ---------------------------------------------------------------------------------

/* One of weight and bias may be missing. */
static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    check_norm_problem *self = writable(problem);
    self->p = *(const talc_batch_norm2d_problem *)ran->problem;
    self->p.dtype = ran->inputs[X].dtype;
    self->p.activation = TALC_ACTIVATION_NONE;
    self->untracked = ran->inputs[RUNNING_MEAN].of == NULL;
    return complete(problem, &(const char *){ "" }) == NULL;
}

void talc_check_batch_norm2d_moments(const check_problem *problem, const check_values *values,
                                     int64_t c, long double *mean, long double *var)
{
    const statistics of = statistics_of(problem, values, c);
    *mean = of.mean;
    *var = of.var;
}

#define POINTER(name) offsetof(talc_batch_norm2d_arguments, name)

const check_direction talc_check_batch_norm2d = {
    .family = &talc_check_norm_family,
    .ops = op_names,
    .gradient = &talc_check_batch_norm2d_gradient,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_batch_norm2d,
    .arguments = { POINTER(x), POINTER(weight), POINTER(bias), POINTER(running_mean),
                   POINTER(running_var), POINTER(residual), POINTER(num_batches_tracked),
                   POINTER(y), POINTER(mean), POINTER(rstd) },
};
