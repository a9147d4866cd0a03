/// A convolution's result against the oracle at some of its outputs, where x as double would not
/// fit beside x.
///
/// Each output is posed as a problem of its own: one image, one group, one output channel. The
/// outputs are chosen in row-major order, so that a group's image is widened once.
#include "check/check.h"

#include "check/engine/bound.h"
#include "check/engine/case.h"
#include "check/conv2d/conv2d.h"
#include "check/engine/data.h"
#include "check/engine/layout.h"
#include "ops/operand.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/scope.h"

#include <math.h>

struct talc_check_sample {
    talc_conv2d_problem problem;
    int64_t count;
    int64_t index[TALC_CHECK_SAMPLES]; /* row-major in y, ascending */
    check_expected expected[TALC_CHECK_SAMPLES];
    double S_norm; /* largest S among them */
};

static const char WHO[] = "check";

/* The tensor, contiguous on the host; itself where it is so already. */
static const talc_tensor *on_host(const talc_tensor *tensor)
{
    return tensor == NULL ? NULL
                          : talc_contiguous(talc_to(tensor, talc_device_host(), tensor->dtype));
}

static double element(const talc_tensor *host, int64_t i)
{
    switch (host->dtype) {
    case TALC_F32:
        return (double)((const float *)host->data)[i];
    case TALC_F64:
        return ((const double *)host->data)[i];
    default:
        return NAN; /* no result of another type is right */
    }
}

static void widen(const talc_tensor *host, int64_t first, int64_t count, double *values)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = element(host, first + i);
}

// ---- The outputs --------------------------------------------------------------------------------

/* One of each of `count` stretches of about the same length. */
static void choose(talc_check_sample *self, uint64_t seed)
{
    const talc_conv2d_problem *p = &self->problem;
    const int64_t total = p->N * p->OC * p->OH * p->OW;
    self->count = total < TALC_CHECK_SAMPLES ? total : TALC_CHECK_SAMPLES;
    for (int64_t i = 0; i < self->count; i++) {
        const int64_t whole = total / self->count, rest = total % self->count;
        const int64_t first = i * whole + i * rest / self->count;
        const int64_t next = (i + 1) * whole + (i + 1) * rest / self->count;
        self->index[i] =
            first + (int64_t)(talc_check_bits(seed, (uint64_t)i) % (uint64_t)(next - first));
    }
}

/* The operands of a problem, on the host, and those of the output at hand. */
typedef struct operands {
    const talc_tensor *x, *w, *bias, *residual;
    check_problem one;
    check_values values;
    int64_t block, row;      /* n * groups + g of what x holds, oc of what w holds */
    int64_t pixels, weights; /* of x and of w */
} operands;

static talc_conv2d_problem *problem_of(operands *o)
{
    return (talc_conv2d_problem *)(void *)&o->one;
}

static bool operands_new(operands *o, const talc_conv2d_problem *p)
{
    talc_conv2d_problem *one = problem_of(o);
    *one = *p;
    one->N = one->OC = one->groups = 1;
    one->C = p->C / p->groups;
    o->pixels = one->C * p->H * p->W;
    o->weights = one->C * p->KH * p->KW;
    o->block = o->row = -1;
    o->values.of[CHECK_X] = talc_memory_new((size_t)o->pixels * sizeof(double), WHO);
    o->values.of[CHECK_W] = talc_memory_new((size_t)o->weights * sizeof(double), WHO);
    if (p->bias)
        o->values.of[CHECK_BIAS] = talc_memory_new(sizeof(double), WHO);
    if (p->residual)
        o->values.of[CHECK_RESIDUAL] =
            talc_memory_new((size_t)(p->OH * p->OW) * sizeof(double), WHO);
    return !talc_failed();
}

static check_expected expected_of(operands *o, const talc_conv2d_problem *p, int64_t index)
{
    const int64_t plane = p->OH * p->OW, row = index / plane, n = row / p->OC, oc = row % p->OC;
    const int64_t block = n * p->groups + oc / (p->OC / p->groups);
    if (block != o->block)
        widen(o->x, block * o->pixels, o->pixels, o->values.of[CHECK_X]);
    if (row != o->row)
        widen(o->w, oc * o->weights, o->weights, o->values.of[CHECK_W]);
    if (p->bias)
        *o->values.of[CHECK_BIAS] = element(o->bias, oc);
    if (p->residual)
        o->values.of[CHECK_RESIDUAL][index % plane] = element(o->residual, index);
    o->block = block;
    o->row = row;
    return talc_check_conv2d.expected(&o->one, &o->values, CHECK_Y, index % plane);
}

static bool work_out(talc_check_sample *self, operands *o)
{
    const bool ready = operands_new(o, &self->problem);
    for (int64_t i = 0; i < self->count && ready; i++) {
        const check_expected expected = expected_of(o, &self->problem, self->index[i]);
        self->expected[i] = expected;
        self->S_norm =
            expected.S > self->S_norm && isfinite(expected.S) ? expected.S : self->S_norm;
    }
    talc_check_values_free(&o->values);
    return ready;
}

// ---- For programs -------------------------------------------------------------------------------

static bool fits(const talc_conv2d_problem *p, const talc_tensor *x, const talc_tensor *w,
                 const talc_tensor *bias, const talc_tensor *residual)
{
    const talc_dims y = TALC_DIMS(p->N, p->OC, p->OH, p->OW);
    if (!talc_operand_float(WHO, "x", x) || !talc_operand_like(WHO, "x", x, "w", w) ||
        (p->bias && !talc_operand_like(WHO, "x", x, "bias", bias)) ||
        (p->residual && !talc_operand_like(WHO, "x", x, "residual", residual)))
        return false;
    if (p->direction != TALC_FORWARD || p->dtype != x->dtype) {
        talc_fail(TALC_BAD_ARGUMENT, "check: the problem is not a forward convolution of %s",
                  talc_dtype_name(x->dtype));
        return false;
    }
    return talc_operand_shape(WHO, "x", x, TALC_DIMS(p->N, p->C, p->H, p->W)) &&
           talc_operand_shape(WHO, "w", w, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW)) &&
           (!p->bias || talc_operand_shape(WHO, "bias", bias, TALC_DIMS(p->OC))) &&
           (!p->residual || talc_operand_shape(WHO, "residual", residual, y));
}

talc_check_sample *talc_check_sample_new(const talc_conv2d_problem *problem, const talc_tensor *x,
                                         const talc_tensor *w, const talc_tensor *bias,
                                         const talc_tensor *residual, uint64_t seed)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing(WHO, "problem", problem))
        return NULL;
    talc_conv2d_problem p = *problem;
    if (!talc_conv2d_problem_check(&p) || !fits(&p, x, w, bias, residual))
        return NULL;
    talc_scope *scope = talc_scope_enter();
    talc_check_sample *self = talc_memory_new(sizeof *self, WHO);
    operands o = { .x = on_host(x),
                   .w = on_host(w),
                   .bias = p.bias ? on_host(bias) : NULL,
                   .residual = p.residual ? on_host(residual) : NULL };
    bool done = !talc_failed() && talc_device_synchronize(x->device);
    if (done) {
        self->problem = p;
        choose(self, seed);
        done = work_out(self, &o);
    }
    talc_scope_leave(scope);
    if (done)
        return self;
    talc_memory_free(self);
    return NULL;
}

void talc_check_sample_free(talc_check_sample *sample)
{
    talc_memory_free(sample);
}

/* 0 for equal numbers, two NaN among them, infinity for one NaN. */
static double error_of(double got, long double expected)
{
    if (isnan(expected) ? isnan(got) : (long double)got == expected)
        return 0;
    const double error = (double)fabsl(got - expected);
    return isnan(error) ? (double)INFINITY : error;
}

/* A result under judgement, on the host, and how exact it has to be. */
typedef struct result {
    const talc_tensor *host;
    talc_arithmetic arithmetic;
} result;

/* Compares y with what is due, or with `other` where there is one. */
static void compare(const talc_check_sample *self, const result *y, const result *other,
                    talc_check_sample_report *report)
{
    const talc_conv2d_problem *p = &self->problem;
    *report = (talc_check_sample_report){ .count = self->count, .share = -1 };
    for (int64_t i = 0; i < self->count; i++) {
        const check_expected *expected = &self->expected[i];
        const double got = element(y->host, self->index[i]);
        long double value = expected->value;
        double bound =
            talc_check_bound(&y->arithmetic, p->dtype, TALC_CHECK_RANDOM, expected, self->S_norm);
        if (other != NULL) {
            value = element(other->host, self->index[i]);
            bound += talc_check_bound(&other->arithmetic, p->dtype, TALC_CHECK_RANDOM, expected,
                                      self->S_norm);
        }
        const double share = expected->any ? 0 : talc_check_share(value, got, bound);
        const double error = expected->any ? 0 : error_of(got, value);
        report->error = error > report->error ? error : report->error;
        if (share <= report->share)
            continue;
        report->share = share;
        talc_check_coordinates(4, (int64_t[]){ p->N, p->OC, p->OH, p->OW }, self->index[i],
                               report->where);
    }
    report->share = report->share < 0 ? 0 : report->share;
}

/* Whether a result named `name` is one of the problem's. */
static bool is_result(const talc_check_sample *sample, const char *name, const talc_tensor *y,
                      talc_precision precision)
{
    const talc_conv2d_problem *p = &sample->problem;
    if (!talc_operand_float(WHO, name, y))
        return false;
    if (precision != TALC_STRICT && precision != TALC_NORMWISE && precision != TALC_TF32) {
        talc_fail(TALC_BAD_ARGUMENT, "check: %d is no precision class", (int)precision);
        return false;
    }
    if (y->dtype != p->dtype) {
        talc_fail(TALC_BAD_DTYPE, "check: %s is %s, the problem is %s", name,
                  talc_dtype_name(y->dtype), talc_dtype_name(p->dtype));
        return false;
    }
    return talc_operand_shape(WHO, name, y, TALC_DIMS(p->N, p->OC, p->OH, p->OW));
}

static bool compare_on_host(const talc_check_sample *sample, const talc_tensor *y,
                            talc_precision precision, const talc_tensor *other,
                            talc_precision other_precision, talc_check_sample_report *report)
{
    talc_scope *scope = talc_scope_enter();
    const result a = { on_host(y), { .precision = precision } };
    const result b = { on_host(other), { .precision = other_precision } };
    const bool done = !talc_failed() && talc_device_synchronize(y->device) &&
                      (other == NULL || talc_device_synchronize(other->device));
    if (done)
        compare(sample, &a, other == NULL ? NULL : &b, report);
    talc_scope_leave(scope);
    return done;
}

bool talc_check_sample_compare(const talc_check_sample *sample, const talc_tensor *y,
                               talc_precision precision, talc_check_sample_report *report)
{
    TALC_DEFAULT_FENV;
    return !talc_operand_missing(WHO, "sample", sample) &&
           !talc_operand_missing(WHO, "report", report) && is_result(sample, "y", y, precision) &&
           compare_on_host(sample, y, precision, NULL, TALC_STRICT, report);
}

bool talc_check_sample_between(const talc_check_sample *sample, const talc_tensor *a,
                               talc_precision a_precision, const talc_tensor *b,
                               talc_precision b_precision, talc_check_sample_report *report)
{
    TALC_DEFAULT_FENV;
    return !talc_operand_missing(WHO, "sample", sample) &&
           !talc_operand_missing(WHO, "report", report) && is_result(sample, "a", a, a_precision) &&
           is_result(sample, "b", b, b_precision) &&
           compare_on_host(sample, a, a_precision, b, b_precision, report);
}
