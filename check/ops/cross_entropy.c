/// The family of cross_entropy: "cross_entropy:8x10_sum", logits of 8 samples and 10 classes.
/// `reversed`: the logits are stored with their dimensions in the reverse order. `smooth`: label
/// smoothing of 0.1. `ignore`: class 0 is ignored, instead of -100. `weighted`: by class weights
/// from 0 to 2. About every seventh label is the ignored one. cross_entropy_gradient.c has the
/// other direction.
///
/// The bound is what ops/cross_entropy.h declares: no term of a sum goes through more than 2
/// sqrt(C) additions, so it holds on any data, but for the differences that smoothing adds up, on
/// whose roundings random data are held to less: `correlated` is the rest of `extra`. There are no
/// exact data.
#include "check/ops/cross_entropy.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/exponentials.h"
#include "ops/backend.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

#define SMOOTHING 0.1

enum { UNCLASSED = -100 };

static const char *const op_names[] = { "cross_entropy", NULL };

// ---- Problem ------------------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    check_entropy_problem *self = writable(problem);
    talc_cross_entropy_problem *p = &self->p;
    const int at = talc_check_class_dim(self->x.rank);
    if (!talc_check_lay_out_classes(&self->x, &self->outer, &self->labels))
        return "an input below 2^63 bytes";
    p->dtype = self->x.dtype;
    p->C = self->x.dims[at];
    p->x_stride = self->x.strides[at];
    p->samples = self->labels.count;
    p->outer_rank = self->outer.rank;
    memcpy(p->outer_dims, self->outer.dims, sizeof p->outer_dims);
    memcpy(p->x_strides, self->outer.strides, sizeof p->x_strides);
    if (self->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->x_strides }, 1);
    return NULL;
}

// ---- Text ---------------------------------------------------------------------------------------

#define FIELD(name) offsetof(check_entropy_problem, name)

static const check_key keys[] = {
    { "", CHECK_LOGITS, .offset = FIELD(x) },
    { "_reversed", CHECK_FLAG, .offset = FIELD(x.reversed) },
    { "_sum", CHECK_CHOICE, .offset = FIELD(p.reduction), TALC_REDUCTION_SUM },
    { "_none", CHECK_CHOICE, .offset = FIELD(p.reduction), TALC_REDUCTION_NONE },
    { "_smooth", CHECK_REAL, .offset = FIELD(p.label_smoothing), SMOOTHING },
    { "_ignore", CHECK_WHOLE, .offset = FIELD(p.ignore_index), 0 },
    { "_weighted", CHECK_FLAG, .offset = FIELD(p.weighted) },
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
    check_entropy_problem *self = writable(problem);
    self->p.direction = direction;
    self->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &self->x);
    if (self->x.rank == 0) {
        self->x.rank = 1;
        self->x.dims[0] = talc_check_draw(state, 1, 40);
    }
    self->x.reversed = talc_check_draw(state, 0, 2) == 0;
    self->p.reduction = (talc_reduction)talc_check_draw(state, 0, 2);
    self->p.label_smoothing = talc_check_draw(state, 0, 2) == 0 ? SMOOTHING : 0;
    self->p.ignore_index = talc_check_draw(state, 0, 2) == 0 ? 0 : UNCLASSED;
    self->p.weighted = talc_check_draw(state, 0, 2) == 0;
    return true;
}

// ---- In models ----------------------------------------------------------------------------------

static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!talc_check_elements_of_run(direction, ran, expected->element))
        return false;
    const talc_cross_entropy_problem *p = ran->problem;
    const check_array *x = &ran->inputs[0], *labels = &ran->inputs[1];
    const check_array *weights = p->weighted ? &ran->inputs[2] : NULL;
    const double e = p->label_smoothing;
    double count = 0, heaviest = 1; /* of the classes */
    int64_t plane = 1;
    for (int64_t j = 0; weights != NULL && j < p->C; j++) {
        heaviest = fmax(heaviest, fabs(weights->of[j]));
        if (check_off(weights, j) > 0) /* weights are given, not worked out */
            heaviest = INFINITY;
    }
    for (int d = 2; d < x->dims.rank; d++)
        plane *= x->dims.dim[d];
    for (int64_t i = 0; i < labels->count; i++) {
        double *to = &expected->spread[p->reduction == TALC_REDUCTION_NONE ? i : 0], sum;
        const int64_t label = (int64_t)labels->of[i];
        if (check_off(labels, i) > 0) /* another label may have any other loss */
            *to = INFINITY;
        if (label == p->ignore_index || label < 0 || label >= p->C)
            continue;
        const int64_t first = i / plane * p->C * plane + i % plane;
        const double off = talc_check_largest_off(x, first, p->C, plane, &sum);
        const double moved =
            off + (1 - e) * check_off(x, first + label * plane) + e * sum / (double)p->C;
        *to += moved == 0 ? 0 : heaviest * moved;
        count += weights == NULL ? 1 : weights->of[label];
    }
    if (p->reduction == TALC_REDUCTION_MEAN)
        expected->spread[0] = count == 0 ? 0 : expected->spread[0] / count;
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "cross_entropy:33x10", "cross_entropy:2x9x33_none_smooth",
    "cross_entropy:300x17_sum_ignore_f64", "cross_entropy:33x10_weighted_dx",
    "cross_entropy:2x9x33_none_smooth_dx", "cross_entropy:300x17_sum_smooth_ignore_weighted_dx_f64",
    NULL,
};

static const char *const edges[] = {
    /* One class, one sample, many of either; classes for a thread, a warp or a block. */
    "cross_entropy:{1x1|5|7x31|4099x10|2x5x40x41}", "cross_entropy:{1x9|100003x3}_sum",
    "cross_entropy:{9x33|2x30011|3x1023x7|0x4}_none", "cross_entropy:{3x2047|3x2049}_smooth",
    "cross_entropy:3x1025x7_none_smooth", "cross_entropy:2x3x4x5x6_ignore",
    "cross_entropy:65x100_f64", "cross_entropy:3x50000_sum_f64",
    "cross_entropy:2x21x9x7_smooth_ignore_f64", "cross_entropy:65x33_reversed",
    "cross_entropy:5x16x9_reversed_none",
    "cross_entropy:{7x31|4099x10_sum|3x2049_smooth|2x5x40x41_smooth|9x33_none_smooth_ignore}_weighted",
    "cross_entropy:3x2049_smooth_weighted_f64",

    /* Input gradients: one class, one sample, many of either; classes for a thread, a warp or a
     * block; labels to add up in parts. */
    "cross_entropy:{1x1|5|7x31|4099x10|2x5x40x41}_dx", "cross_entropy:{1x9|20011x3}_sum_dx",
    "cross_entropy:{9x33|2x30011|3x1023x7|0x4}_none_dx", "cross_entropy:{3x2047|3x2049}_smooth_dx",
    "cross_entropy:3x1025x7_none_smooth_dx", "cross_entropy:2x3x4x5x6_ignore_dx",
    "cross_entropy:65x100_dx_f64", "cross_entropy:3x20000_sum_dx_f64",
    "cross_entropy:2x21x9x7_smooth_ignore_dx_f64", "cross_entropy:65x33_reversed_dx",
    "cross_entropy:5x16x9_reversed_none_dx", "cross_entropy:20011x5_weighted_dx",
    "cross_entropy:{7x31|4099x10_sum|3x2049_smooth|2x5x40x41_smooth|9x33_none_smooth_ignore}_weighted_dx",
    "cross_entropy:3x2049_smooth_weighted_dx_f64",
    NULL,
};
// clang-format on

const check_family talc_check_entropy_family = {
    .texts = "cross_entropy:64x10_sum_smooth_ignore_weighted\n"
             "    none, sum: reductions; without it the mean\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

// ---- Operands -----------------------------------------------------------------------------------

enum { X, LABELS, WEIGHTS, Y };

check_layout talc_check_entropy_y(const check_entropy_problem *self)
{
    check_layout y = self->labels;
    if (self->p.reduction != TALC_REDUCTION_NONE)
        y.rank = 0;
    y.dtype = self->x.dtype;
    return y;
}

void talc_check_entropy_operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_entropy_problem *self = read_only(problem);
    list[X] = talc_check_stored(&self->x, "x", CHECK_READ);
    list[LABELS] = talc_check_stored(&self->labels, "labels", CHECK_READ);
    if (self->p.weighted)
        list[WEIGHTS] =
            talc_check_operand("class_weights", CHECK_READ, self->x.dtype, TALC_DIMS(self->p.C));
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_layout y = talc_check_entropy_y(read_only(problem));
    talc_check_entropy_operands(problem, list);
    list[Y] = talc_check_stored(&y, "y", CHECK_WRITTEN);
}

void talc_check_entropy_fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                             const check_values *values)
{
    const check_entropy_problem *self = read_only(problem);
    const double scale = 8;
    talc_check_fill(values->of[X], self->x.count, self->x.dtype, kind, 8, scale, seed);
    if (self->p.weighted)
        talc_check_fill_class_weights(values->of[WEIGHTS], self->p.C, seed + 2);
    talc_check_fill_labels(values->of[LABELS], self->labels.count, self->p.C, self->p.ignore_index,
                           seed + 1);
}

// ---- Oracle -------------------------------------------------------------------------------------

static double weight_of(const check_entropy_problem *self, const double *weights, int64_t j)
{
    return self->p.weighted ? weights[j] : 1;
}

/* One sample's loss; `extra` is how far it may be off. */
static check_expected loss_of(const check_entropy_problem *self, const double *x,
                              const double *weights, int64_t t)
{
    const talc_cross_entropy_problem *p = &self->p;
    const double u = talc_check_format(p->dtype).unit, e = p->label_smoothing;
    const double root = 2 * sqrt((double)p->C), w = weight_of(self, weights, t);
    const check_exponentials row = talc_check_exponentials(p->dtype, x, p->x_stride, p->C);
    const long double log_sum = logl(row.sum), from_max = x[t * p->x_stride] - row.max;
    long double differences = row.differences, all = (long double)p->C;
    if (e > 0 && p->weighted) {
        differences = all = 0;
        for (int64_t j = 0; j < p->C; j++) {
            differences += weights[j] * (x[j * p->x_stride] - row.max);
            all += weights[j];
        }
    }
    const double spread = e > 0 ? e * (double)all / (double)p->C : 0; /* weight of all classes */
    const double near = (1 - e) * w;
    check_expected expected = { .value = w * (log_sum - from_max) };
    if (e > 0)
        expected.value =
            (1 - e) * expected.value + e * (log_sum * (all / p->C) - differences / p->C);
    if (!isfinite(expected.value))
        return expected;
    const double smoothed = e > 0 ? e * (double)fabsl(differences) / (double)p->C : 0;
    const double size = near * (double)fabsl(from_max);
    expected.extra =
        ((4 + root) * (near + spread) + size + smoothed + (double)fabsl(expected.value)) * u;
    if (p->weighted)
        expected.extra += (2 * (size + smoothed + near * (double)fabsl(log_sum)) +
                           (2 + root) * spread * (double)fabsl(log_sum)) *
                          u;
    expected.correlated = talc_check_is_narrow(p->dtype) ? 0 : root * smoothed * u;
    return expected;
}

static check_expected sample_expected(const check_entropy_problem *self, const check_values *values,
                                      int64_t i)
{
    const int64_t label = (int64_t)values->of[LABELS][i];
    if (label == self->p.ignore_index)
        return (check_expected){ .value = 0 };
    if (label < 0 || label >= self->p.C)
        return (check_expected){ .value = NAN };
    return loss_of(self, values->of[X] + talc_check_part_offset(&self->outer, i),
                   values->of[WEIGHTS], label);
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const check_entropy_problem *self = read_only(problem);
    if (self->p.reduction == TALC_REDUCTION_NONE)
        return sample_expected(self, values, index);
    const double u = talc_check_format(self->p.dtype).unit;
    check_expected whole = { 0 };
    double sizes = 0, count = 0;
    for (int64_t i = 0; i < self->labels.count; i++) {
        const check_expected one = sample_expected(self, values, i);
        whole.value += one.value;
        whole.extra += one.extra;
        whole.correlated += one.correlated;
        sizes += (double)fabsl(one.value);
        const int64_t label = (int64_t)values->of[LABELS][i];
        if (label != self->p.ignore_index)
            count +=
                label < 0 || label >= self->p.C ? NAN : weight_of(self, values->of[WEIGHTS], label);
    }
    whole.extra += (self->p.weighted ? 4 : 2) * (sqrt((double)self->labels.count) + 1) * u * sizes;
    if (self->p.reduction == TALC_REDUCTION_MEAN) {
        /* 0 / 0 of the labels, and a quotient of its own that smoothing adds. */
        whole.value = self->p.label_smoothing > 0 && count == 0 ? NAN : whole.value / count;
        whole.extra /= count;
        whole.correlated /= count;
    }
    if (!isfinite(whole.value))
        whole.extra = whole.correlated = 0;
    return whole;
}

static double terms(const check_problem *problem)
{
    const check_entropy_problem *self = read_only(problem);
    const double one = 20 * (double)self->p.C;
    return self->p.reduction == TALC_REDUCTION_NONE ? one : one * (double)self->labels.count;
}

// ---- In a model ---------------------------------------------------------------------------------

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    const talc_cross_entropy_problem *observed = ran->problem;
    check_entropy_problem *self = writable(problem);
    self->p.reduction = observed->reduction;
    self->p.label_smoothing = observed->label_smoothing;
    self->p.ignore_index = observed->ignore_index;
    self->p.weighted = observed->weighted;
    self->x = talc_check_layout_of(&ran->inputs[X]);
    return complete(problem, &(const char *){ "" }) == NULL;
}

bool talc_check_entropy_is_empty(const check_problem *problem)
{
    return read_only(problem)->x.count == 0;
}

#define POINTER(name) offsetof(talc_cross_entropy_arguments, name)

const check_direction talc_check_cross_entropy = {
    .family = &talc_check_entropy_family,
    .ops = op_names,
    .gradient = &talc_check_cross_entropy_gradient,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = talc_check_entropy_fill,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_cross_entropy,
    .arguments = { POINTER(x), POINTER(labels), POINTER(class_weights), POINTER(y) },
    .is_empty = talc_check_entropy_is_empty,
};
