/// The family of separable_conv2d.
///
/// The oracle of m is that of conv2d (check/conv2d.c) on the depthwise part; the second sum is added here, in long double, of
/// m that is not rounded.
///
/// The bound, with u the unit roundoff. A strict row's m[c] is off by
///
///     e1[c] = (KH KW + 2) u S1[c],     S1[c] = |b1[c]| + sum |w1 x|,     on random data 4 u sqrt(KH KW + 4) S1[c] where that is less,
///
/// as any convolution's result, and by (KH KW + 2) smallest subnormals; no activation makes that more, as none has a slope above
/// 1, and sigmoid and tanh add their own rounding as conv2d's do. The second sum carries it to
///
///     |y - due| <= sum over c of |w2| e1[c] + (C + 2) u S2,     S2 = |b2| + |r| + sum over c of |w2| (|m[c]| + e1[c])
///
/// whose last term is the bound of a sum of C products (check/bound.h), a TF32 row's 2^-9 S2 with it: S below is S2, `extra` the
/// first term on random data, and `alike` what it is more on other data. A row with m in f64 is allowed all of that too.
/// Where every product of a window is a whole number and S1 is small, m is exact in any order; where all are, so is y.
#include "check/conv2d.h"

#include "check/activation.h"
#include "check/model_due.h"
#include "ops/backend.h"
#include "ops/separable_conv2d.h"
#include "tensor/memory.h"

#include <stddef.h>

_Static_assert(sizeof(talc_separable_conv2d_problem) <= CHECK_PROBLEM_BYTES, "it has to fit");
_Static_assert(TALC_SEPARABLE_CONV2D_TEXT + 20 <= TALC_CHECK_TEXT, "and its text, with the op");

/* In the order in which the op tells of them; the first three stand where conv2d's family has its own. */
enum { X = CHECK_X, W1 = CHECK_W, B1 = CHECK_BIAS, W2, B2, RESIDUAL, Y };

static const talc_separable_conv2d_problem *separable(const check_problem *problem)
{
    return (const talc_separable_conv2d_problem *)(const void *)problem;
}

// ---- Problem ------------------------------------------------------------------------------------------------

static bool parse(check_reader *reader, int op, check_problem *problem)
{
    (void)op;
    return talc_separable_conv2d_problem_parse(reader->at, (void *)problem);
}

static void print(const check_problem *problem, char text[TALC_CHECK_TEXT])
{
    char own[TALC_SEPARABLE_CONV2D_TEXT];
    talc_check_append(text, "%s", talc_separable_conv2d_problem_text(separable(problem), own));
}

static talc_conv2d_problem pointwise_of(const talc_conv2d_problem *first, int64_t OC)
{
    return (talc_conv2d_problem){ .dtype = first->dtype,
                                  .N = first->N,
                                  .C = first->C,
                                  .H = first->OH,
                                  .W = first->OW,
                                  .OC = OC,
                                  .KH = 1,
                                  .KW = 1,
                                  .OH = first->OH,
                                  .OW = first->OW,
                                  .stride_h = 1,
                                  .stride_w = 1,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .groups = 1 };
}

/* A random convolution made depthwise, and one behind it. */
static bool random_problem(uint64_t *state, check_problem *problem)
{
    enum { MOST = 2000000 };
    talc_separable_conv2d_problem *p = (void *)problem;
    talc_conv2d_problem *first = &p->depthwise;
    if (!talc_check_conv2d_random(state, problem) || first->direction != TALC_FORWARD ||
        first->KH * first->KW == 1)
        return false;
    first->groups = first->OC = first->C;
    first->residual = false;
    p->pointwise = pointwise_of(first, talc_check_draw(state, 0, 2) != 0
                                           ? talc_check_draw(state, 1, 9)
                                           : CHECK_PICK(state, 8, 15, 16, 17, 32, 33, 64, 65, 130));
    p->pointwise.bias = talc_check_draw(state, 0, 1) == 0;
    p->pointwise.residual = talc_check_draw(state, 0, 3) == 0;
    p->pointwise.activation = talc_check_draw_activation(state);
    return (double)(first->N * first->OH * first->OW * p->pointwise.OC) *
               (double)(first->C * (1 + first->KH * first->KW)) <
           MOST;
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_conv2d_problem *p = &separable(problem)->depthwise,
                              *q = &separable(problem)->pointwise;
    const talc_dims y = TALC_DIMS(q->N, q->OC, q->OH, q->OW);
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W));
    list[W1] = talc_check_operand("w1", CHECK_READ, p->dtype, TALC_DIMS(p->C, 1, p->KH, p->KW));
    list[W2] = talc_check_operand("w2", CHECK_READ, p->dtype, TALC_DIMS(q->OC, q->C, 1, 1));
    if (p->bias)
        list[B1] = talc_check_operand("b1", CHECK_READ, p->dtype, TALC_DIMS(p->C));
    if (q->bias)
        list[B2] = talc_check_operand("b2", CHECK_READ, p->dtype, TALC_DIMS(q->OC));
    if (q->residual)
        list[RESIDUAL] = talc_check_operand("residual", CHECK_READ, p->dtype, y);
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, p->dtype, y);
}

// ---- Data ---------------------------------------------------------------------------------------------------

/* The largest |m| of exact data: integers up to talc_check_exact_largest. TF32 holds those up to 2^11. */
static double exact_between(const talc_conv2d_problem *p)
{
    const double K = (double)(p->KH * p->KW),
                 largest = talc_check_exact_largest(p->dtype, K + 2, 8);
    return K * largest * largest + largest;
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_conv2d_problem *p = &separable(problem)->depthwise,
                              *q = &separable(problem)->pointwise;
    const double between = exact_between(p);
    return kind != TALC_CHECK_EXACT ||
           (!talc_check_conv2d_curved(p) && !talc_check_conv2d_curved(q) && between <= 0x1p11 &&
            ((double)q->C * between + 2) < talc_check_format(p->dtype).integers);
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const talc_conv2d_problem *p = &separable(problem)->depthwise,
                              *q = &separable(problem)->pointwise;
    const double C = (double)q->C, K = C * (double)(p->KH * p->KW);
    const double room = (talc_check_format(p->dtype).integers - 1) / (C * exact_between(p) + 2);
    const double largest = fmax(1, fmin(8, floor(room)));
    const bool constant = kind == TALC_CHECK_CONSTANT;
    const talc_check_kind other = kind == TALC_CHECK_EXACT || constant ? kind : TALC_CHECK_RANDOM;
    const double scale = !constant ? 3 / sqrt(C) : talc_check_conv2d_curved(q) ? 2.1 / K : 2.1;
    check_operand list[CHECK_OPERANDS] = { { 0 } };
    operands(problem, list);
    talc_check_conv2d_fill(
        problem, kind, seed,
        &(check_values){ .of = { values->of[X], values->of[W1], values->of[B1] } });
    for (int i = W2; i <= RESIDUAL; i++)
        if (list[i].role == CHECK_READ)
            talc_check_fill(values->of[i], list[i].count, p->dtype, other, largest,
                            i == W2    ? scale
                            : constant ? 0.3
                                       : 1,
                            talc_check_bits(seed, (uint64_t)i + 8));
}

/* A NaN in each operand in turn but x, which has had it; infinities of either sign, from x on. */
static bool spoil(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                  const check_values *values)
{
    const bool is_nan = kind == TALC_CHECK_NAN;
    check_operand list[CHECK_OPERANDS] = { { 0 } };
    operands(problem, list);
    int which = X, left = is_nan ? round + 1 : round;
    for (; which < Y; which++)
        if (list[which].role == CHECK_READ && left-- == 0)
            break;
    if ((!is_nan && kind != TALC_CHECK_INFINITY) || which == Y || list[which].count == 0)
        return false;
    double *x = values->of[X];
    int64_t at = (int64_t)(talc_check_bits(seed, 6) % (uint64_t)list[which].count);
    if (which == W1)
        at = talc_check_towards_an_end(at, separable(problem)->depthwise.KH,
                                       separable(problem)->depthwise.KW, talc_check_bits(seed, 8));
    for (int64_t i = 0; i < list[X].count; i++)
        if (!isfinite(x[i])) {
            at = which == X ? i : at; /* where a window reads it */
            x[i] = 1;
        }
    values->of[which][at] = is_nan           ? (double)NAN
                            : round % 2 == 0 ? -(double)INFINITY
                                             : (double)INFINITY;
    return true;
}

// ---- Oracle -------------------------------------------------------------------------------------------------

/* What m[n, c, oh, ow] is, and how far a strict row's may be off on random data and on any: 0 where it is exact. */
typedef struct between {
    check_due due;
    double probable, certain;
} between;

static bool is_whole(double value)
{
    return value == floor(value);
}

/* Whether all that the window of m[n, c, oh, ow] reads are whole numbers. */
static bool reads_whole(const talc_conv2d_problem *p, const check_values *values, int64_t n,
                        int64_t c, int64_t pixel)
{
    const double *x = values->of[X] + (n * p->C + c) * p->H * p->W;
    const double *w = values->of[W1] + c * p->KH * p->KW;
    bool whole = !p->bias || is_whole(values->of[B1][c]);
    for (int64_t i = 0; i < p->KH * p->KW && whole; i++) {
        const int64_t at_h = pixel / p->OW * p->stride_h - p->pad_top + i / p->KW * p->dilation_h,
                      at_w = pixel % p->OW * p->stride_w - p->pad_left + i % p->KW * p->dilation_w;
        const int64_t h = talc_check_source(p->padding_mode, at_h, p->H),
                      v = talc_check_source(p->padding_mode, at_w, p->W);
        whole = is_whole(w[i]) && (h < 0 || v < 0 || is_whole(x[h * p->W + v]));
    }
    return whole;
}

static between between_of(const check_problem *problem, const check_values *values, int64_t n,
                          int64_t c, int64_t pixel)
{
    const talc_conv2d_problem *p = &separable(problem)->depthwise;
    const check_format format = talc_check_format(p->dtype);
    const int64_t taps = p->KH * p->KW;
    between m = { .due = talc_check_conv2d.due(problem, values, CHECK_Y,
                                               (n * p->C + c) * p->OH * p->OW + pixel) };
    if (!isfinite(m.due.value))
        return m;
    const double K = (double)taps, S = m.due.S, most = (K + 2) * format.unit * S;
    const double own = m.due.extra + (K + 2) * format.smallest;
    if (m.due.extra == 0 &&
        (S == 0 || (S < format.integers && reads_whole(p, values, n, c, pixel))))
        return m;
    m.certain = most + own;
    m.probable = fmin(most, 4 * format.unit * sqrt(K + 4) * S) + own;
    return m;
}

static check_due due_of(const check_problem *problem, const check_values *values, int operand,
                        int64_t index)
{
    (void)operand;
    const talc_conv2d_problem *q = &separable(problem)->pointwise;
    const int64_t plane = q->OH * q->OW, pixel = index % plane;
    const int64_t oc = index / plane % q->OC, n = index / plane / q->OC;
    const double *w2 = values->of[W2] + oc * q->C;
    check_due due = { .K = (double)q->C };
    for (int64_t c = 0; c < q->C; c++) {
        const between m = between_of(problem, values, n, c, pixel);
        const double w = fabs(w2[c]);
        due.value += w2[c] * m.due.value;
        due.S += w * ((double)fabsl(m.due.value) + m.certain);
        due.extra += m.probable > 0 ? w * m.probable : 0;
        due.alike += m.certain > m.probable ? w * (m.certain - m.probable) : 0;
        due.border = due.border || m.due.border;
    }
    const double added[] = { q->bias ? values->of[B2][oc] : 0,
                             q->residual ? values->of[RESIDUAL][index] : 0 };
    due.value += (long double)added[0] + added[1];
    due.S += fabs(added[0]) + fabs(added[1]);
    if (!isfinite(due.value))
        due.alike = 0;
    talc_check_activate(&due, q->activation, q->dtype);
    return due;
}

/* Windows are worked out for every element anew. */
static double terms(const check_problem *problem)
{
    const talc_conv2d_problem *p = &separable(problem)->depthwise;
    return (double)p->C * (double)(p->KH * p->KW + 1);
}

static bool pose(const check_ran *ran, check_problem *problem)
{
    talc_separable_conv2d_problem *p = (void *)problem;
    *p = *(const talc_separable_conv2d_problem *)ran->problem;
    p->depthwise.dtype = p->pointwise.dtype = ran->inputs[X].dtype;
    p->pointwise.activation = TALC_ACTIVATION_NONE;
    return true;
}

#define POINTER(name) offsetof(talc_separable_conv2d_arguments, name)

static const char *const ops[] = { "separable_conv2d", NULL };

const check_family talc_check_separable_conv2d = {
    .ops = ops,
    .stream = 14,
    .parse = parse,
    .print = print,
    .random = random_problem,
    .pose = pose,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .spoil = spoil,
    .due = due_of,
    .terms = terms,
    .list = offsetof(struct talc_backend, separable_conv2d),
    .arguments = { POINTER(x), POINTER(w1), POINTER(b1), POINTER(w2), POINTER(b2),
                   POINTER(residual), POINTER(y) },
};
