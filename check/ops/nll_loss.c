/// The family of nll_loss, forward, "nll_loss:8x10_weighted", and its input gradient, with the
/// word dx.
///
///     l[i] = -w[t] x[i, t],    dx[i, j] = -w[t] dl[i] [j = t],    t = labels[i];
///     0 where t is ignored
///
/// Words: reversed, ignore, weighted as of cross_entropy; mean: the weight of each sample is given
/// too, as a mean needs it. The algorithm gives a loss a sample, whatever becomes of them, and dx
/// without gaps.
///
/// One product, so one rounding: K = 0 and S = |w x|.
#include "ops/nll_loss.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct nll_problem {
    talc_nll_loss_problem p;
    check_layout x, labels;
    check_part outer; /* x's dimensions but that of the classes */
    bool weighted, mean;
} nll_problem;

CHECK_PROBLEM(nll_problem, talc_nll_loss_arguments)

enum { UNCLASSED = -100 };

// ---- Problem and text ---------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    nll_problem *self = writable(problem);
    talc_nll_loss_problem *p = &self->p;
    const int at = talc_check_class_dim(self->x.rank);
    if (p->direction == TALC_GRAD_INPUT && (self->x.reversed || self->mean)) {
        *key = "_";
        return "a gradient that is not reversed or mean";
    }
    if (!talc_check_lay_out_classes(&self->x, &self->outer, &self->labels))
        return "an input below 2^63 bytes";
    p->dtype = self->x.dtype;
    p->C = self->x.dims[at];
    p->x_stride = self->x.strides[at];
    p->samples = self->labels.count;
    p->inner = 1;
    for (int i = at + 1; i < self->x.rank && self->x.count > 0; i++)
        p->inner *= self->x.dims[i];
    p->outer_rank = self->outer.rank;
    memcpy(p->outer_dims, self->outer.dims, sizeof p->outer_dims);
    memcpy(p->x_strides, self->outer.strides, sizeof p->x_strides);
    if (self->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->x_strides }, 1);
    return NULL;
}

#define FIELD(name) offsetof(nll_problem, name)

static const check_key keys[] = {
    { "", CHECK_LOGITS, .offset = FIELD(x) },
    { "_reversed", CHECK_FLAG, .offset = FIELD(x.reversed) },
    { "_ignore", CHECK_WHOLE, .offset = FIELD(p.ignore_index), 0 },
    { "_weighted", CHECK_FLAG, .offset = FIELD(weighted) },
    { "_mean", CHECK_FLAG, .offset = FIELD(mean) },
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(x.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    (void)op;
    writable(problem)->p.ignore_index = UNCLASSED;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    nll_problem *self = writable(problem);
    self->p.direction = direction;
    self->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &self->x);
    if (self->x.rank == 0) {
        self->x.rank = 1;
        self->x.dims[0] = talc_check_draw(state, 1, 40);
    }
    self->x.reversed = direction == TALC_FORWARD && talc_check_draw(state, 0, 2) == 0;
    self->mean = direction == TALC_FORWARD && talc_check_draw(state, 0, 1) == 0;
    self->p.ignore_index = talc_check_draw(state, 0, 2) == 0 ? 0 : UNCLASSED;
    self->weighted = talc_check_draw(state, 0, 1) == 0;
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { X, LABELS, WEIGHT, DY, LOSSES, WEIGHTS, DX };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const nll_problem *self = read_only(problem);
    const bool forward = self->p.direction == TALC_FORWARD;
    check_layout samples = self->labels;
    samples.dtype = self->x.dtype;
    list[LABELS] = talc_check_stored(&self->labels, "labels", CHECK_READ);
    if (self->weighted)
        list[WEIGHT] =
            talc_check_operand("weight", CHECK_READ, self->x.dtype, TALC_DIMS(self->p.C));
    if (!forward) {
        list[DY] = talc_check_stored(&samples, "dy", CHECK_READ);
        list[DX] = talc_check_stored(&self->x, "dx", CHECK_WRITTEN);
        return;
    }
    list[X] = talc_check_stored(&self->x, "x", CHECK_READ);
    list[LOSSES] = talc_check_stored(&samples, "losses", CHECK_WRITTEN);
    if (self->mean)
        list[WEIGHTS] = talc_check_stored(&samples, "weights", CHECK_WRITTEN);
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    (void)problem;
    return kind <= TALC_CHECK_INFINITY;
}

/* The operand that has more than labels and weights. */
static double *factors(const nll_problem *self, const check_values *values, int64_t *count)
{
    const bool forward = self->p.direction == TALC_FORWARD;
    *count = forward ? self->x.count : self->labels.count;
    return values->of[forward ? X : DY];
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const nll_problem *self = read_only(problem);
    int64_t count;
    double *of = factors(self, values, &count);
    talc_check_fill(of, count, self->x.dtype, kind, 8, 8, seed);
    talc_check_fill_labels(values->of[LABELS], self->labels.count, self->p.C, self->p.ignore_index,
                           seed + 1);
    if (!self->weighted)
        return;
    talc_check_fill_class_weights(values->of[WEIGHT], self->p.C, seed + 2);
    for (int64_t j = 0; kind == TALC_CHECK_EXACT && j < self->p.C; j++)
        values->of[WEIGHT][j] = 1 + floor(2 * values->of[WEIGHT][j]);
}

/* Where the factor of a sample stands. */
static int64_t factor_at(const nll_problem *self, int64_t i, int64_t label)
{
    return self->p.direction == TALC_FORWARD
               ? talc_check_part_offset(&self->outer, i) + label * self->p.x_stride
               : i;
}

/* Where a label reads it: a NaN in x or dy and in a weight, either infinity in x or dy. */
static bool inject(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                   const check_values *values)
{
    const nll_problem *self = read_only(problem);
    const bool is_nan = kind == TALC_CHECK_NAN;
    const int rounds = is_nan ? 1 + self->weighted : kind == TALC_CHECK_INFINITY ? 2 : 0;
    int64_t count, i = 0;
    double *of = factors(self, values, &count);
    (void)seed;
    while (i < self->labels.count && (int64_t)values->of[LABELS][i] == self->p.ignore_index)
        i++;
    if (round >= rounds || i == self->labels.count)
        return false;
    for (int64_t k = 0; k < count; k++)
        of[k] = isfinite(of[k]) ? of[k] : 1;
    const int64_t label = (int64_t)values->of[LABELS][i];
    if (is_nan && round == 1)
        values->of[WEIGHT][label] = NAN;
    else
        of[factor_at(self, i, label)] = is_nan       ? (double)NAN
                                        : round == 0 ? (double)INFINITY
                                                     : -(double)INFINITY;
    return true;
}

// ---- Oracle -------------------------------------------------------------------------------------

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const nll_problem *self = read_only(problem);
    const bool gradient = operand == DX;
    const int64_t row = index / self->p.inner;
    const int64_t i = gradient ? row / self->p.C * self->p.inner + index % self->p.inner : index;
    const int64_t label = (int64_t)values->of[LABELS][i];
    if (label == self->p.ignore_index || label < 0 || label >= self->p.C ||
        (gradient && label != row % self->p.C))
        return (check_expected){ .value = 0 };
    int64_t count;
    const double w = self->weighted ? values->of[WEIGHT][label] : 1;
    if (operand == WEIGHTS)
        return (check_expected){ .value = w };
    const double factor = factors(self, values, &count)[factor_at(self, i, label)];
    check_expected expected = { .value = -(long double)w * factor };
    expected.S = isfinite(expected.value) ? (double)fabsl(expected.value) : 0;
    return expected;
}

static bool is_empty(const check_problem *problem)
{
    return read_only(problem)->x.count == 0;
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    nll_problem *self = writable(problem);
    self->p.ignore_index = ((const talc_nll_loss_problem *)ran->problem)->ignore_index;
    self->weighted = ran->inputs[WEIGHT].of != NULL;
    self->x = talc_check_layout_of(&ran->inputs[X]);
    return complete(problem, &(const char *){ "" }) == NULL;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "nll_loss:33x10_weighted_mean", "nll_loss:2x9x33_ignore_f64", "nll_loss:33x10_weighted_dx",
    "nll_loss:2x9x33_ignore_dx_f64",
    NULL,
};

static const char *const edges[] = {
    /* One class, one sample, many of either; dimensions behind the classes. */
    "nll_loss:{1x1|5|7x31|4099x10|2x5x40x41|0x4|2x3x4x5x6|3x50000}{|_dx}",
    "nll_loss:{7x31|4099x10|2x5x40x41}_weighted_{mean|dx|mean_f64|dx_f64}",
    "nll_loss:{65x33|5x16x9}_reversed_mean", "nll_loss:9x33_ignore_weighted_{mean|dx}",
    "nll_loss:70001x3_{mean|dx}",
    NULL,
};
// clang-format on

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .texts = "nll_loss:64x10_ignore_weighted_mean\n"
             "    mean: each sample's weight is given too\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

#define POINTER(name) offsetof(talc_nll_loss_arguments, name)
#define DIRECTION(direction, names, other)                                                         \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .gradient = other,                       \
        .problem_of_run = problem_of_run, .expected_of_run = talc_check_picked,                    \
        .factors = 1U << X | 1U << WEIGHT, .picks = 1U << LABELS, .operands = operands,            \
        .takes = takes, .fill = fill, .inject = inject, .expected = expected_of, .cost = 1,        \
        .list = TALC_OP_nll_loss,                                                                  \
        .arguments = { POINTER(x),      POINTER(labels),  POINTER(weight), POINTER(dy),            \
                       POINTER(losses), POINTER(weights), POINTER(dx) },                           \
        .is_empty = is_empty,                                                                      \
    }

static const char *const forward_ops[] = { "nll_loss", NULL };
static const char *const gradient_ops[] = { "nll_loss.grad_input", NULL };

static const check_direction gradient = DIRECTION(TALC_GRAD_INPUT, gradient_ops, NULL);
const check_direction talc_check_nll_loss = DIRECTION(TALC_FORWARD, forward_ops, &gradient);
