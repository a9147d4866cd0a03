/// The family of optimizer steps: "adam:1000_decay_decoupled", of so many elements: sgd, adam,
/// rmsprop. decay: of weights; momentum; nesterov; first: the first step of sgd; centered. Rates
/// are those of `complete`.
///
/// The states are those of a run: an element has taken one step more than the element before it, 0
/// to 499, by the same gradient each time, but of random data by those of the elements before, with
/// one or the other extreme of what roundings may give. In such a run v and a a of a centered
/// rmsprop meet. The row takes each element's next step.
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
    update_problem *own = writable(problem);
    talc_update_problem *p = &own->p;
    int64_t count;
    (void)key;
    if (!talc_check_elements(TALC_F64, 1, p->numel, &count))
        return "fewer than 2^63 bytes";
    const bool adam = p->rule == TALC_UPDATE_ADAM;
    p->count = 1;
    p->lr = 0.0123;
    p->momentum = adam || own->momentum ? 0.9 : 0;
    p->beta2 = adam ? 0.999 : p->rule == TALC_UPDATE_RMSPROP ? 0.9 : 0;
    p->dampening = own->momentum && p->rule == TALC_UPDATE_SGD && !p->nesterov ? 0.25 : 0;
    p->decay = own->decay ? 0.07 : 0;
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
    update_problem *own = writable(problem);
    const int64_t bits = talc_check_draw(state, 0, 31);
    const bool sgd =
        (own->p.rule = (talc_update_rule)talc_check_draw(state, 0, 2)) == TALC_UPDATE_SGD;
    own->p.dtype = talc_check_draw_float(state);
    own->p.numel[0] = CHECK_PICK(state, 1, 7, 64, 1000, 1025, 2050);
    own->momentum = own->p.rule != TALC_UPDATE_ADAM && bits % 2 != 0;
    own->p.nesterov = sgd && own->momentum && bits & 2;
    own->p.first = sgd && bits & 4;
    own->p.centered = own->p.rule == TALC_UPDATE_RMSPROP && bits & 8;
    own->decay = bits & 16;
    own->p.decoupled = own->p.rule == TALC_UPDATE_ADAM && own->decay && bits & 2;
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { P, G, STATE, OPERANDS = STATE + TALC_UPDATE_STATES };

static bool has_state(const update_problem *own, int state)
{
    switch (own->p.rule) {
    case TALC_UPDATE_SGD:
        return state == 0 && own->momentum;
    case TALC_UPDATE_ADAM:
        return state < 2;
    default:
        return state == 0 || (state == 1 ? own->p.centered : own->momentum);
    }
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    static const char *const names[] = { "p", "g", "state", "second state", "third state" };
    const update_problem *own = read_only(problem);
    for (int i = 0; i < OPERANDS; i++)
        if (i < STATE || has_state(own, i - STATE))
            list[i] = talc_check_operand(names[i], i == G ? CHECK_READ : CHECK_UPDATED,
                                         own->p.dtype, TALC_DIMS(own->p.numel[0]));
}

// ---- Oracle -------------------------------------------------------------------------------------

/* From least to most; NaN in both. */
typedef struct interval {
    long double least, most;
} interval;

static interval exactly(double x)
{
    return (interval){ x, x };
}

/* With all that rounding to the type may make of it. */
static interval rounded(check_format f, long double least, long double most)
{
    if (isfinite(least))
        least -= f.unit * fabsl(least) + (least == 0 ? 0 : f.smallest);
    if (isfinite(most))
        most += f.unit * fabsl(most) + (most == 0 ? 0 : f.smallest);
    return (interval){ least, most };
}

static interval sum(check_format f, interval a, interval b)
{
    return rounded(f, a.least + b.least, a.most + b.most);
}

static interval difference(check_format f, interval a, interval b)
{
    return rounded(f, a.least - b.most, a.most - b.least);
}

static interval product(check_format f, interval a, interval b)
{
    const long double of[] = { a.least * b.least, a.least * b.most, a.most * b.least,
                               a.most * b.most };
    interval all = { of[0], of[0] };
    for (int i = 1; i < 4; i++)
        all = isnan(of[i]) ? (interval){ NAN, NAN }
                           : (interval){ of[i] < all.least ? of[i] : all.least,
                                         of[i] > all.most ? of[i] : all.most };
    return rounded(f, all.least, all.most);
}

/* b is positive. */
static interval quotient(check_format f, interval a, interval b)
{
    return rounded(f, a.least / (a.least < 0 ? b.least : b.most),
                   a.most / (a.most < 0 ? b.most : b.least));
}

/* What is below 0 counts as 0. */
static interval root(check_format f, interval a)
{
    return rounded(f, sqrtl(a.least < 0 ? 0 : a.least), sqrtl(a.most < 0 ? 0 : a.most));
}

/* A number of the problem as the type holds it. */
static interval given(check_format f, double x)
{
    return rounded(f, x, x);
}

/* into[P] and the states: what they are after a step. */
static void step(const update_problem *own, const interval from[OPERANDS], interval into[OPERANDS])
{
    const talc_update_problem *o = &own->p;
    const check_format f = talc_check_format(o->dtype);
    const interval p = from[P], beta = given(f, o->momentum), beta2 = given(f, o->beta2);
    const interval rest = given(f, 1 - o->momentum), rest2 = given(f, 1 - o->beta2);
    interval g = from[G], lr = given(f, o->lr / o->correction1), kept = p;
    if (own->decay && !o->decoupled)
        g = sum(f, g, product(f, given(f, o->decay), p));
    if (o->rule == TALC_UPDATE_SGD) {
        if (own->momentum) {
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
        if (!(v.least >= 0)) /* a sum of squares; NaN stays */
            v.least = isnan(v.least) ? v.least : 0;
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
        if (o->rule == TALC_UPDATE_RMSPROP && own->momentum)
            into[STATE + 2] = g = sum(f, g, product(f, beta, from[STATE + 2]));
    }
    into[P] = difference(f, kept, product(f, lr, g));
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const update_problem *own = read_only(problem);
    interval from[OPERANDS] = { { 0 } }, into[OPERANDS] = { { 0 } };
    for (int i = 0; i < OPERANDS; i++)
        if (values->of[i] != NULL)
            from[i] = exactly(values->of[i][index]);
    step(own, from, into);
    const interval expected = into[operand];
    if (isnan(expected.least) || isnan(expected.most))
        return (check_expected){ .value = NAN };
    if (isinf(expected.least) || isinf(expected.most))
        return (check_expected){ .value = isinf(expected.least) ? expected.least : expected.most };
    return (check_expected){ .value = (expected.least + expected.most) / 2,
                             .extra = (double)(expected.most - expected.least) / 2 };
}

// ---- Data ---------------------------------------------------------------------------------------

enum { RUN = 500 };

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const update_problem *own = read_only(problem);
    const talc_dtype dtype = own->p.dtype;
    const int64_t count = own->p.numel[0];
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
                values->of[i][e] = (double)at[i].least;
        at[P] = exactly(p[e]);
        at[G] = exactly(isfinite(g[e]) ? g[e] : 1);
        step(own, at, at);
        for (int i = STATE; i < OPERANDS; i++)
            at[i] = exactly(talc_check_rounded(
                dtype, (double)(talc_check_draw(&seed, 0, 1) == 0 ? at[i].least : at[i].most)));
    }
}

#define POINTER(name) offsetof(talc_update_arguments, tensors[0].name)

static const char *const op_names[] = { "sgd", "adam", "rmsprop", NULL };

static const check_family family = {
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

const check_direction talc_check_update = {
    .family = &family,
    .ops = op_names,
    .stream = 22,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = fill,
    .expected = expected_of,
    .cost = 40, /* roundings and a root */
    .list = TALC_OP_update,
    .arguments = { POINTER(parameter), POINTER(gradient), POINTER(states[0]), POINTER(states[1]),
                   POINTER(states[2]) },
};
