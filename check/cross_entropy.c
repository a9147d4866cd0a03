/// The family of cross_entropy: "cross_entropy:8x10_sum", logits of 8 samples and 10 classes. `reversed`: the logits are stored with their
/// dimensions in the reverse order. `smooth`: label smoothing of 0.1. `ignore`: class 0 is ignored, instead of -100. About every
/// seventh label is the ignored one.
///
/// The bound is what ops/cross_entropy.h declares: no term of a sum goes through more than 2 sqrt(C) additions, so it holds on any data,
/// but for the differences that smoothing adds up, on whose roundings random data are held to less: `alike` is the rest of
/// `extra`. There are no exact data.
#include "ops/cross_entropy.h"

#include "check/data.h"
#include "check/family.h"
#include "check/model_due.h"
#include "check/layout.h"
#include "ops/backend.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct entropy_problem {
    talc_cross_entropy_problem p;
    check_layout x, labels;
} entropy_problem;

_Static_assert(sizeof(entropy_problem) <= CHECK_PROBLEM_BYTES, "a problem has to fit");

static const double SMOOTHING = 0.1;

enum { UNCLASSED = -100 };

static const char *const op_names[] = { "cross_entropy", NULL };

static const entropy_problem *read_only(const check_problem *problem)
{
    return (const entropy_problem *)(const void *)problem;
}

// ---- Problem ------------------------------------------------------------------------------------------------

static int class_dim(const entropy_problem *own)
{
    return own->x.rank == 1 ? 0 : 1;
}

/* Sets the typed problem from the layout; false when it is too large. */
static bool complete(entropy_problem *own)
{
    talc_cross_entropy_problem *p = &own->p;
    const int at = class_dim(own);
    own->labels = (check_layout){ .dtype = TALC_I64 };
    for (int i = 0; i < own->x.rank; i++)
        if (i != at)
            own->labels.dims[own->labels.rank++] = own->x.dims[i];
    if (!talc_check_lay_out(&own->x) || !talc_check_lay_out(&own->labels))
        return false;
    p->dtype = own->x.dtype;
    p->C = own->x.dims[at];
    p->x_stride = own->x.strides[at];
    p->samples = own->labels.count;
    p->outer_rank = 0;
    for (int i = 0; i < own->x.rank; i++) {
        if (i == at)
            continue;
        p->outer_dims[p->outer_rank] = own->x.dims[i];
        p->x_strides[p->outer_rank++] = own->x.strides[i];
    }
    if (own->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->x_strides }, 1);
    return true;
}

// ---- Text ---------------------------------------------------------------------------------------------------

static bool parse(const char *op, const char *text, check_problem *problem)
{
    enum { F32, F64, REVERSED, SUM, NONE, SMOOTH, IGNORE };
    static const char *const words[] = { "f32",  "f64",    "reversed", "sum",
                                         "none", "smooth", "ignore",   NULL };
    memset(problem, 0, sizeof *problem);
    entropy_problem *own = (entropy_problem *)(void *)problem;
    own->p.ignore_index = UNCLASSED;
    check_reader r = talc_check_reader(op, text);
    if (!talc_check_read_dims(&r, &own->x))
        return false;
    if (own->x.rank == 0 || own->x.dims[class_dim(own)] == 0)
        return talc_check_unexpected(&r, "dimensions with at least one class");
    unsigned seen = 0;
    for (int word = 0; word >= 0;) {
        if (!talc_check_read_word(&r, words, &seen, &word))
            return false;
        if (word == F32 || word == F64) {
            seen |= 1u << F32 | 1u << F64;
            own->x.dtype = word == F64 ? TALC_F64 : TALC_F32;
        }
        if (word == SUM || word == NONE) {
            seen |= 1u << SUM | 1u << NONE;
            own->p.reduction = word == SUM ? TALC_REDUCTION_SUM : TALC_REDUCTION_NONE;
        }
        own->x.reversed |= word == REVERSED;
        own->p.label_smoothing = word == SMOOTH ? SMOOTHING : own->p.label_smoothing;
        own->p.ignore_index = word == IGNORE ? 0 : own->p.ignore_index;
    }
    return complete(own) || talc_check_unexpected_at(&r, text, "an input below 2^63 bytes");
}

static const char *op_of(const check_problem *problem)
{
    (void)problem;
    return op_names[0];
}

static const char *print(const check_problem *problem, char text[TALC_CHECK_TEXT])
{
    const entropy_problem *own = read_only(problem);
    text[0] = '\0';
    talc_check_append(text, "%s:", op_names[0]);
    talc_check_append_dims(text, &own->x);
    talc_check_append(text, "%s%s%s%s%s", own->x.reversed ? "_reversed" : "",
                      own->p.reduction == TALC_REDUCTION_SUM    ? "_sum"
                      : own->p.reduction == TALC_REDUCTION_NONE ? "_none"
                                                                : "",
                      own->p.label_smoothing > 0 ? "_smooth" : "",
                      own->p.ignore_index == 0 ? "_ignore" : "",
                      own->x.dtype == TALC_F64 ? "_f64" : "");
    return text;
}

static void random_problem(uint64_t seed, check_problem *problem)
{
    uint64_t state = talc_check_bits(seed, 7);
    memset(problem, 0, sizeof *problem);
    entropy_problem *own = (entropy_problem *)(void *)problem;
    own->x.dtype = talc_check_draw(&state, 0, 3) == 0 ? TALC_F64 : TALC_F32;
    talc_check_random_dims(&state, &own->x);
    if (own->x.rank == 0) {
        own->x.rank = 1;
        own->x.dims[0] = talc_check_draw(&state, 1, 40);
    }
    own->x.reversed = talc_check_draw(&state, 0, 2) == 0;
    own->p.reduction = (talc_reduction)talc_check_draw(&state, 0, 2);
    own->p.label_smoothing = talc_check_draw(&state, 0, 2) == 0 ? SMOOTHING : 0;
    own->p.ignore_index = talc_check_draw(&state, 0, 2) == 0 ? 0 : UNCLASSED;
    complete(own);
}

// ---- Operands -----------------------------------------------------------------------------------------------

static int operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const entropy_problem *own = read_only(problem);
    check_layout y = own->labels;
    y.dtype = own->x.dtype;
    if (own->p.reduction != TALC_REDUCTION_NONE)
        y = (check_layout){ .dtype = own->x.dtype, .count = 1 };
    list[0] = talc_check_stored(&own->x, "x", CHECK_READ);
    list[1] = talc_check_stored(&own->labels, "labels", CHECK_READ);
    list[2] = talc_check_stored(&y, "y", CHECK_WRITTEN);
    return 3;
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    (void)problem;
    return kind != TALC_CHECK_EXACT && kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const entropy_problem *own = read_only(problem);
    const double scale = 8;
    talc_check_fill(values->of[0], own->x.count, own->x.dtype, kind, 8, scale, seed);
    for (int64_t i = 0; i < own->labels.count; i++) {
        const uint64_t bits = talc_check_bits(seed + 1, (uint64_t)i);
        values->of[1][i] = bits % 7 == 3 ? (double)own->p.ignore_index
                                         : (double)((bits >> 8) % (uint64_t)own->p.C);
    }
}

// ---- Oracle -------------------------------------------------------------------------------------------------

/* exp in the precision that the oracle of a type needs; for f32 the float64 one, which is several times faster. */
static long double exponential(talc_dtype dtype, long double x)
{
    return dtype == TALC_F32 ? (long double)exp((double)x) : expl(x);
}

/* One sample's loss; `extra` is how far it may be off. */
static check_due loss_of(const entropy_problem *own, const double *x, int64_t t)
{
    const talc_cross_entropy_problem *p = &own->p;
    const double u = p->dtype == TALC_F32 ? 0x1p-24 : 0x1p-53, e = p->label_smoothing;
    const int64_t step = own->x.strides[class_dim(own)];
    /* A NaN, which is no maximum, gets into the sum; so does an infinite maximum less itself. */
    long double most = x[0], sum = 0, differences = 0;
    for (int64_t j = 1; j < p->C; j++)
        most = x[j * step] > most ? x[j * step] : most;
    for (int64_t j = 0; j < p->C; j++) {
        sum += exponential(p->dtype, x[j * step] - most);
        differences += x[j * step] - most;
    }
    const long double log_sum = logl(sum), from_most = x[t * step] - most;
    check_due due = { .value = log_sum - from_most };
    if (e > 0)
        due.value = (1 - e) * due.value + e * (log_sum - differences / p->C);
    if (!isfinite(due.value))
        return due;
    const double smoothed = e > 0 ? e * (double)fabsl(differences) / (double)p->C : 0;
    due.extra = (4 + 2 * sqrt((double)p->C) + (1 - e) * (double)fabsl(from_most) + smoothed +
                 (double)fabsl(due.value)) *
                u;
    due.alike = p->dtype == TALC_F64 ? 2 * sqrt((double)p->C) * smoothed * u : 0;
    return due;
}

static check_due sample_due(const entropy_problem *own, const check_values *values, int64_t i)
{
    const check_due nothing = { 0 };
    int64_t dims[TALC_MAX_RANK], strides[TALC_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < own->x.rank; d++)
        if (d != class_dim(own)) {
            dims[rank] = own->x.dims[d];
            strides[rank++] = own->x.strides[d];
        }
    const int64_t label = (int64_t)values->of[1][i];
    if (label != own->p.ignore_index && (label < 0 || label >= own->p.C))
        return (check_due){ .value = NAN };
    return label == own->p.ignore_index
               ? nothing
               : loss_of(own, values->of[0] + talc_check_offset(rank, dims, strides, i), label);
}

static check_due due_of(const check_problem *problem, const check_values *values, int operand,
                        int64_t index)
{
    (void)operand;
    const entropy_problem *own = read_only(problem);
    if (own->p.reduction == TALC_REDUCTION_NONE)
        return sample_due(own, values, index);
    const double u = own->p.dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
    check_due whole = { 0 };
    double sizes = 0, count = 0;
    for (int64_t i = 0; i < own->labels.count; i++) {
        const check_due one = sample_due(own, values, i);
        whole.value += one.value;
        whole.extra += one.extra;
        whole.alike += one.alike;
        sizes += (double)fabsl(one.value);
        count += (int64_t)values->of[1][i] != own->p.ignore_index;
    }
    whole.extra += 2 * (sqrt((double)own->labels.count) + 1) * u * sizes;
    if (own->p.reduction == TALC_REDUCTION_MEAN) {
        whole.value /= count;
        whole.extra /= count;
        whole.alike /= count;
    }
    if (!isfinite(whole.value))
        whole.extra = whole.alike = 0;
    return whole;
}

static double terms(const check_problem *problem)
{
    const entropy_problem *own = read_only(problem);
    const double one = 20 * (double)own->p.C;
    return own->p.reduction == TALC_REDUCTION_NONE ? one : one * (double)own->labels.count;
}

// ---- In a model ---------------------------------------------------------------------------------------------

bool talc_check_cross_entropy_pose(const check_ran *ran, check_problem *problem)
{
    const talc_cross_entropy_problem *observed = ran->problem;
    memset(problem, 0, sizeof *problem);
    entropy_problem *own = (entropy_problem *)(void *)problem;
    own->p.reduction = observed->reduction;
    own->p.label_smoothing = observed->label_smoothing;
    own->p.ignore_index = observed->ignore_index;
    own->x = talc_check_layout_of(&ran->inputs[0]);
    return complete(own);
}

// ---- Rows ---------------------------------------------------------------------------------------------------

static const void *posed(const check_problem *problem)
{
    return &read_only(problem)->p;
}

static bool is_empty(const check_problem *problem)
{
    return read_only(problem)->x.count == 0;
}

static talc_status run(const talc_algorithm *row, talc_device *device, const check_problem *problem,
                       void *const pointers[CHECK_OPERANDS], const talc_plan *plan, void *workspace)
{
    const talc_cross_entropy_arguments arguments = {
        .base = { workspace }, .y = pointers[2], .x = pointers[0], .labels = pointers[1]
    };
    return row->run(device, &read_only(problem)->p, plan, &arguments);
}

const check_family talc_check_cross_entropy = {
    .ops = op_names,
    .parse = parse,
    .print = print,
    .op = op_of,
    .random = random_problem,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .due = due_of,
    .terms = terms,
    .list = offsetof(struct talc_backend, cross_entropy),
    .posed = posed,
    .is_empty = is_empty,
    .run = run,
};
