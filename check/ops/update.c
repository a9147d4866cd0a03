/// The family of optimizer steps: "adam:1000_decay_decoupled", of so many elements: sgd, adam,
/// rmsprop. decay: of weights; momentum; nesterov; first: the first step of sgd; centered. Rates
/// are those of `complete`.
///
/// The states are those of a run: an element has taken one step more than the element before it, 0
/// to 499, by the same gradient each time, but of random data by those of the elements before, with
/// one or the other extreme of what roundings may give. In such a run v and a a of a centered
/// rmsprop meet. The algorithm takes each element's next step.
///
/// The oracle computes with intervals: of each number that has to be rounded it keeps the least and
/// the largest that the rounding may give, so that a result has to lie between what the formulas of
/// ops/update.h make of them, whatever cancels on the way. There are no exact data.
#include "ops/update.h"

#include "check/engine/data.h"
#include "check/engine/family.h"
#include "ops/backend.h"

#include <math.h>

typedef struct update_problem {
    talc_update_problem p;
    bool momentum, decay;
} update_problem;

CHECK_PROBLEM(update_problem, talc_update_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    update_problem *self = writable(problem);
    talc_update_problem *p = &self->p;
    int64_t count;
    (void)key;
    if (!talc_check_elements(TALC_F64, 1, p->numel, &count))
        return "fewer than 2^63 bytes";
    const bool adam = p->rule == TALC_UPDATE_ADAM;
    p->count = 1;
    p->lr = 0.0123;
    p->momentum = adam || self->momentum ? 0.9 : 0;
    p->beta2 = adam ? 0.999 : p->rule == TALC_UPDATE_RMSPROP ? 0.9 : 0;
    p->dampening = self->momentum && p->rule == TALC_UPDATE_SGD && !p->nesterov ? 0.25 : 0;
    p->decay = self->decay ? 0.07 : 0;
    p->eps = p->rule == TALC_UPDATE_SGD ? 0 : 1e-8;
    p->correction1 = adam ? 1 - pow(p->momentum, 100) : 1;
    p->correction2 = adam ? 1 - pow(p->beta2, 100) : 1;
    return NULL;
}

#define FIELD(name) offsetof(update_problem, name)

enum { SGD = 1, ADAM = 2, RMSPROP = 4 };

static const check_key keys[] = {
    { "", CHECK_NUMBER, .offset = FIELD(p.numel) },
    { "_momentum", CHECK_FLAG, .offset = FIELD(momentum), .ops = SGD | RMSPROP },
    { "_nesterov", CHECK_FLAG, .offset = FIELD(p.nesterov), .ops = SGD },
    { "_first", CHECK_FLAG, .offset = FIELD(p.first), .ops = SGD },
    { "_centered", CHECK_FLAG, .offset = FIELD(p.centered), .ops = RMSPROP },
    { "_decay", CHECK_FLAG, .offset = FIELD(decay) },
    { "_decoupled", CHECK_FLAG, .offset = FIELD(p.decoupled), .ops = ADAM },
    CHECK_FLOAT_KEYS(FIELD(p.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    writable(problem)->p.rule = (talc_update_rule)op;
}

static int op_of(const check_problem *problem)
{
    return (int)read_only(problem)->p.rule;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    update_problem *self = writable(problem);
    const int64_t bits = talc_check_draw(state, 0, 31);
    const bool sgd =
        (self->p.rule = (talc_update_rule)talc_check_draw(state, 0, 2)) == TALC_UPDATE_SGD;
    self->p.dtype = talc_check_draw_float(state);
    self->p.numel[0] = CHECK_PICK(state, 1, 7, 64, 1000, 1025, 2050);
    self->momentum = self->p.rule != TALC_UPDATE_ADAM && bits % 2 != 0;
    self->p.nesterov = sgd && self->momentum && bits & 2;
    self->p.first = sgd && bits & 4;
    self->p.centered = self->p.rule == TALC_UPDATE_RMSPROP && bits & 8;
    self->decay = bits & 16;
    self->p.decoupled = self->p.rule == TALC_UPDATE_ADAM && self->decay && bits & 2;
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { P, G, STATE, OPERANDS = STATE + TALC_UPDATE_STATES };

static bool has_state(const update_problem *self, int state)
{
    switch (self->p.rule) {
    case TALC_UPDATE_SGD:
        return state == 0 && self->momentum;
    case TALC_UPDATE_ADAM:
        return state < 2;
    default:
        return state == 0 || (state == 1 ? self->p.centered : self->momentum);
    }
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    static const char *const names[] = { "p", "g", "state", "second state", "third state" };
    const update_problem *self = read_only(problem);
    for (int i = 0; i < OPERANDS; i++)
        if (i < STATE || has_state(self, i - STATE))
            list[i] = talc_check_operand(names[i], i == G ? CHECK_READ : CHECK_UPDATED,
                                         self->p.dtype, TALC_DIMS(self->p.numel[0]));
}

// ---- Oracle -------------------------------------------------------------------------------------

/* From least to most; NaN in both. */
typedef struct interval {
    long double min, max;
} interval;

static interval exactly(double x)
{
    return (interval){ x, x };
}

/* With all that rounding to the type may make of it. */
static interval rounded(check_format f, long double min, long double max)
{
    if (isfinite(min))
        min -= f.unit * fabsl(min) + (min == 0 ? 0 : f.smallest);
    if (isfinite(max))
        max += f.unit * fabsl(max) + (max == 0 ? 0 : f.smallest);
    return (interval){ min, max };
}

static interval sum(check_format f, interval a, interval b)
{
    return rounded(f, a.min + b.min, a.max + b.max);
}

static interval difference(check_format f, interval a, interval b)
{
    return rounded(f, a.min - b.max, a.max - b.min);
}

static interval product(check_format f, interval a, interval b)
{
    const long double of[] = { a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max };
    interval all = { of[0], of[0] };
    for (int i = 1; i < 4; i++)
        all = isnan(of[i]) ? (interval){ NAN, NAN }
                           : (interval){ of[i] < all.min ? of[i] : all.min,
                                         of[i] > all.max ? of[i] : all.max };
    return rounded(f, all.min, all.max);
}

/* b is positive. */
static interval quotient(check_format f, interval a, interval b)
{
    return rounded(f, a.min / (a.min < 0 ? b.min : b.max), a.max / (a.max < 0 ? b.max : b.min));
}

/* What is below 0 counts as 0. */
static interval root(check_format f, interval a)
{
    return rounded(f, sqrtl(a.min < 0 ? 0 : a.min), sqrtl(a.max < 0 ? 0 : a.max));
}

/* A number of the problem as the type holds it. */
static interval given(check_format f, double x)
{
    return rounded(f, x, x);
}

/* into[P] and the states: what they are after a step. */
static void step(const update_problem *self, const interval from[OPERANDS], interval into[OPERANDS])
{
    const talc_update_problem *o = &self->p;
    const check_format f = talc_check_format(o->dtype);
    const interval p = from[P], beta = given(f, o->momentum), beta2 = given(f, o->beta2);
    const interval rest = given(f, 1 - o->momentum), rest2 = given(f, 1 - o->beta2);
    interval g = from[G], lr = given(f, o->lr / o->correction1), kept = p;
    if (self->decay && !o->decoupled)
        g = sum(f, g, product(f, given(f, o->decay), p));
    if (o->rule == TALC_UPDATE_SGD) {
        if (self->momentum) {
            const interval b = o->first ? g
                                        : sum(f, product(f, beta, from[STATE]),
                                              product(f, given(f, 1 - o->dampening), g));
            into[STATE] = b;
            g = o->nesterov ? sum(f, g, product(f, beta, b)) : b;
        }
    } else {
        /* v is adam's second state, and rmsprop's first. */
        const int v_at = o->rule == TALC_UPDATE_ADAM ? STATE + 1 : STATE,
                  mean_at = 2 * STATE + 1 - v_at;
        interval v = sum(f, product(f, beta2, from[v_at]), product(f, product(f, rest2, g), g)),
                 d = v;
        if (!(v.min >= 0)) /* a sum of squares; NaN stays */
            v.min = isnan(v.min) ? v.min : 0;
        into[v_at] = d = v;
        if (o->rule == TALC_UPDATE_ADAM || o->centered)
            into[mean_at] = sum(f, from[mean_at],
                                product(f, o->rule == TALC_UPDATE_ADAM ? rest : rest2,
                                        difference(f, g, from[mean_at])));
        if (o->centered)
            d = difference(f, v, product(f, into[mean_at], into[mean_at]));
        d = root(f, d);
        if (o->rule == TALC_UPDATE_ADAM) {
            d = quotient(f, d, given(f, sqrt(o->correction2)));
            g = into[mean_at];
            kept = o->decoupled ? product(f, p, given(f, 1 - o->lr * o->decay)) : p;
        }
        g = quotient(f, g, sum(f, d, given(f, o->eps)));
        if (o->rule == TALC_UPDATE_RMSPROP && self->momentum)
            into[STATE + 2] = g = sum(f, g, product(f, beta, from[STATE + 2]));
    }
    into[P] = difference(f, kept, product(f, lr, g));
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const update_problem *self = read_only(problem);
    interval from[OPERANDS] = { { 0 } }, into[OPERANDS] = { { 0 } };
    for (int i = 0; i < OPERANDS; i++)
        if (values->of[i] != NULL)
            from[i] = exactly(values->of[i][index]);
    step(self, from, into);
    const interval expected = into[operand];
    if (isnan(expected.min) || isnan(expected.max))
        return (check_expected){ .value = NAN };
    if (isinf(expected.min) || isinf(expected.max))
        return (check_expected){ .value = isinf(expected.min) ? expected.min : expected.max };
    return (check_expected){ .value = (expected.min + expected.max) / 2,
                             .extra = (double)(expected.max - expected.min) / 2 };
}

// ---- Data ---------------------------------------------------------------------------------------

enum { RUN = 500 };

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const update_problem *self = read_only(problem);
    const talc_dtype dtype = self->p.dtype;
    const int64_t count = self->p.numel[0];
    double *p = values->of[P], *g = values->of[G];
    talc_check_fill(p, count, dtype, TALC_CHECK_RANDOM, 1, 1, seed);
    talc_check_fill(g, count, dtype, kind, 4, 4, seed + 1);
    interval at[OPERANDS] = { { 0 } };
    for (int64_t e = 0; e < count; e++) {
        if (e % RUN == 0)
            for (int i = STATE; i < OPERANDS; i++)
                at[i] = exactly(0);
        else if (kind != TALC_CHECK_RANDOM && isfinite(g[e]) && isfinite(g[e - 1]))
            g[e] = g[e - 1];
        for (int i = STATE; i < OPERANDS; i++)
            if (values->of[i] != NULL)
                values->of[i][e] = (double)at[i].min;
        at[P] = exactly(p[e]);
        at[G] = exactly(isfinite(g[e]) ? g[e] : 1);
        step(self, at, at);
        for (int i = STATE; i < OPERANDS; i++)
            at[i] = exactly(talc_check_rounded(
                dtype, (double)(talc_check_draw(&seed, 0, 1) == 0 ? at[i].min : at[i].max)));
    }
}

#define POINTER(name) offsetof(talc_update_arguments, tensors[0].name)

static const char *const op_names[] = { "sgd", "adam", "rmsprop", NULL };

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "rmsprop:1100_{centered|centered_f64|momentum_decay}", "adam:600{|_decay_decoupled_f64}",
    "sgd:300_momentum{_nesterov|_first_decay}",
    NULL,
};

static const char *const edges[] = {
    "rmsprop:{1|4099}{|_centered}{|_momentum}{|_decay}{|_f64}",
    "adam:{1|4099}{|_decay}{|_decoupled}{|_f64}",
    "sgd:{1|4099}{|_momentum|_momentum_nesterov|_momentum_first}{|_decay}{|_f64}",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "adam:1000_decay_decoupled\n"
             "    a step of so many elements, in a long run\n"
             "rmsprop:1000_centered_momentum\n"
             "sgd:1000_momentum_nesterov_first\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

const check_direction talc_check_update = {
    .family = &family,
    .ops = op_names,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = fill,
    .expected = expected_of,
    .cost = 40, /* roundings and a root */
    .list = TALC_OP_update,
    .arguments = { POINTER(parameter), POINTER(gradient), POINTER(states[0]), POINTER(states[1]),
                   POINTER(states[2]) },
};
