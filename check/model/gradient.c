#include "check/gradient.h"

#include "check/engine/layout.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/autograd.h"
#include "tensor/fenv.h"
#include "tensor/generator.h"
#include "tensor/memory.h"
#include "tensor/random.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <math.h>
#include <stdarg.h>

/* Steps after the one that is asked for, each a tenth; one more confirms what the last gives. */
enum { RETRIES = 3 };

/* A direction v of one input, and what is known there. */
typedef struct line {
    int input;
    const talc_tensor *at, *v, *gradient, *cotangent;
    double size; /* the largest |element| of the input; 1 where all are 0 */
    double norm; /* of the gradient */
    double got;  /* its slope along v */
} line;

/* A slope by differences. */
typedef struct trial {
    double expected, error; /* |due - got| / |gradient| */
    double step;
    bool passed;
} trial;

typedef struct check {
    talc_differentiable *f;
    void *context;
    talc_tensor *const *inputs;
    int count;
    double step;
    talc_gradient_report *report;
    line *worst;  /* that the report is of, */
    trial *tried; /* and its slope */
} check;

/* sum c f(x), recorded as any other pass, so that the same ops run. */
static double loss(const check *c, const talc_tensor *cotangent)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *y = c->f(c->inputs, c->context);
    const talc_tensor *product = y == NULL ? NULL : talc_mul(y, cotangent);
    const double value = product == NULL ? NAN : talc_item(talc_sum(product, TALC_SCALAR, false));
    talc_scope_leave(scope);
    return value;
}

/* The loss while the input is a handle on at + t v. */
static double loss_at(const check *c, const line *l, const talc_tensor *v, double t)
{
    talc_tensor *x = c->inputs[l->input];
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *step = talc_mul_scalar(v, t);
    const talc_tensor *to = step == NULL ? NULL : talc_add(l->at, step);
    double value = NAN;
    if (to != NULL) {
        talc_tensor_replace(x, to);
        value = loss(c, l->cotangent);
        talc_tensor_replace(x, l->at);
    }
    talc_scope_leave(scope);
    return value;
}

static double slope_along(const check *c, const line *l, const talc_tensor *v, double step)
{
    static const struct {
        double t, weight;
    } points[] = { { 1, 8 }, { -1, -8 }, { 2, -1 }, { -2, 1 } };
    const double h = step * l->size;
    double slope = 0;
    for (int i = 0; i < 4 && !talc_failed(); i++)
        slope += points[i].weight * loss_at(c, l, v, points[i].t * h) / (12 * h);
    return slope;
}

static double item_of_sum(const talc_tensor *a, const talc_tensor *b)
{
    const talc_tensor *product = talc_mul(a, b);
    return product == NULL ? NAN : talc_item(talc_sum(product, TALC_SCALAR, false));
}

// ---- Kinks and rounding -------------------------------------------------------------------------

static trial tried(const check *c, const line *l, double step)
{
    trial t = { .expected = slope_along(c, l, l->v, step), .step = step };
    t.error = t.expected == l->got ? 0 : fabs(t.expected - l->got) / l->norm;
    t.passed = t.error <= c->report->tolerance;
    return t;
}

/* What rounding adds to a slope of step 1: of points so close that the loss moves along a line, how
 * far it is from that, times 1.5 for the formula's weights and 4 for errors larger than those
 * seen. */
static double rounding_along(const check *c, const line *l)
{
    const double start = loss_at(c, l, l->v, 0);
    double max = 0;
    for (int i = -2; i <= 2 && !talc_failed(); i++) {
        const double t = i * 1e-14 * l->size;
        const double off = fabs(loss_at(c, l, l->v, t) - start - t * l->got);
        max = off <= max ? max : off; /* a NaN stays */
    }
    return 4 * 1.5 * max / l->size;
}

/* What it adds at least, as the sum of the loss is rounded: u times the sizes of its terms. */
static double rounding_of_sum(const check *c, const line *l)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *y = c->f(c->inputs, c->context);
    const talc_tensor *terms = y == NULL ? NULL : talc_abs(talc_mul(y, l->cotangent));
    const double sizes = terms == NULL ? NAN : talc_item(talc_sum(terms, TALC_SCALAR, false));
    talc_scope_leave(scope);
    return 4 * 1.5 * 0x1p-53 * sizes / l->size;
}

/* A slope that is off with the first step. A step over the kink of a ReLU or a maximum gives
 * something between the slopes on either side, a smaller one does not; a gradient that is wrong
 * stays so. Lest one pass by luck, the direction is the same, steps end where rounding is more than
 * the tolerance, and the next smaller one has to agree. What rounding explains passes with the
 * first step alone, where there is least of it: so do gradients of 0, of which the norm is no
 * measure. */
static trial retried(const check *c, const line *l, trial first)
{
    const double rounding = rounding_along(c, l);
    if (fabs(first.expected - l->got) <= fmax(rounding, rounding_of_sum(c, l)) / first.step) {
        first.error = 0;
        first.passed = true;
        return first;
    }
    trial best = first, passing = { .passed = false };
    double step = first.step / 10;
    for (int i = 0; i <= RETRIES && !talc_failed(); i++, step /= 10) {
        if (rounding / step > c->report->tolerance * l->norm)
            break;
        const trial t = tried(c, l, step);
        if (t.passed && passing.passed)
            return passing;
        passing = t;
        passing.passed = t.passed && i < RETRIES;
        if (!t.passed && (t.error < best.error || isnan(best.error)))
            best = t;
    }
    return passing.passed ? passing : best;
}

/* One direction of one input, at which the gradient is `gradient`. */
static bool compare(const check *c, int input, const talc_tensor *gradient,
                    const talc_tensor *cotangent)
{
    const talc_tensor *x = c->inputs[input];
    line l = { .input = input, .gradient = gradient, .cotangent = cotangent };
    l.at = talc_detach(x);
    l.v = talc_uniform(x->device, x->dtype, talc_dims_of(x), -1, 1);
    const talc_tensor *size = l.at == NULL ? NULL : talc_abs(l.at);
    if (l.v == NULL || size == NULL)
        return false;
    l.size = talc_item(talc_max(size, TALC_SCALAR, false));
    l.size = l.size > 0 ? l.size : 1;
    l.got = item_of_sum(gradient, l.v);
    l.norm = sqrt(item_of_sum(gradient, gradient));
    trial t = tried(c, &l, c->step);
    if (!t.passed && !talc_failed())
        t = retried(c, &l, t);
    if (talc_failed())
        return false;
    talc_gradient_report *r = c->report;
    r->count++;
    if (t.passed && t.step < r->step)
        r->step = t.step;
    /* A slope that is wrong is worse than any that is not, and a NaN is the worst. */
    const bool worse =
        r->count == 1 ||
        (c->tried->passed != t.passed ? !t.passed : !isnan(r->worst) && !(t.error <= r->worst));
    if (worse) {
        r->worst = t.error;
        r->input = input;
        r->expected = t.expected;
        r->got = l.got;
        *c->worst = l;
        *c->tried = t;
    }
    return true;
}

// ---- Where a gradient is wrong ------------------------------------------------------------------

/* Whether the worst slope's point lies on a kink itself: with two steps in a row, the slopes on
 * either side differ, and by the same. */
static void see_kink(const check *c)
{
    const line *l = c->worst;
    talc_gradient_report *r = c->report;
    double apart[2] = { 0, 0 };
    const double start = loss_at(c, l, l->v, 0);
    for (int i = 0; i < 2 && !talc_failed(); i++) {
        double side[2];
        for (int s = 0; s < 2; s++) {
            const double h = (s == 0 ? -1 : 1) * (i == 0 ? 1e-5 : 1e-6) * l->size;
            side[s] =
                (4 * loss_at(c, l, l->v, h) - loss_at(c, l, l->v, 2 * h) - 3 * start) / (2 * h);
        }
        apart[i] = side[1] - side[0];
        r->before = side[0];
        r->after = side[1];
    }
    r->at_kink =
        fabs(apart[1]) > 1e-3 * l->norm && fabs(apart[0] - apart[1]) < 0.01 * fabs(apart[1]);
}

/* Host arrays of an input's elements: of a direction, of the gradient, and of a part of that
 * direction. */
typedef struct parts {
    int64_t count;
    double *v, *gradient, *part;
} parts;

/* How far the slope along elements [from, end) of the direction is off. */
static double off_along(const check *c, const line *l, const parts *p, int64_t from, int64_t end,
                        double *expected, double *got)
{
    talc_scope *scope = talc_scope_enter();
    *got = 0;
    for (int64_t i = 0; i < p->count; i++) {
        p->part[i] = i >= from && i < end ? p->v[i] : 0;
        *got += p->part[i] == 0 ? 0 : p->part[i] * p->gradient[i];
    }
    const talc_tensor *v = talc_from_host(l->v->device, TALC_F64, talc_dims_of(l->v), p->part);
    *expected = v == NULL ? NAN : slope_along(c, l, v, c->tried->step);
    talc_scope_leave(scope);
    return fabs(*expected - *got);
}

/* Goes on with the half that is farther off until one element is left. */
static void locate_with(const check *c, const parts *p)
{
    const line *l = c->worst;
    double expected, got;
    int64_t from = 0, end = p->count;
    while (end - from > 1 && !talc_failed()) {
        const int64_t middle = from + (end - from) / 2;
        const double left = off_along(c, l, p, from, middle, &expected, &got),
                     right = off_along(c, l, p, middle, end, &expected, &got);
        if (!(left <= right) || isnan(left))
            end = middle;
        else
            from = middle;
    }
    p->v[from] = 1;
    const double off = off_along(c, l, p, from, end, &expected, &got);
    talc_gradient_report *r = c->report;
    r->located = !(off <= r->tolerance * l->norm / sqrt((double)p->count));
    if (!r->located)
        return;
    r->where = talc_dims_of(l->at);
    talc_check_coordinates(r->where.rank, talc_dims_of(l->at).dim, from, r->where.dim);
    r->element_expected = expected;
    r->element_got = got;
}

/* Finds an element of the worst slope's input where the gradient is wrong. */
static void locate(const check *c)
{
    const line *l = c->worst;
    const size_t bytes = (size_t)talc_numel(l->at) * sizeof(double);
    parts p = { .count = talc_numel(l->at) };
    p.v = talc_memory_new(bytes, "check_gradient");
    p.gradient = talc_memory_new(bytes, "check_gradient");
    p.part = talc_memory_new(bytes, "check_gradient");
    if (!talc_failed() && talc_to_host(l->v, p.v, bytes) &&
        talc_to_host(l->gradient, p.gradient, bytes))
        locate_with(c, &p);
    talc_memory_free(p.v);
    talc_memory_free(p.gradient);
    talc_memory_free(p.part);
}

static bool check_input(const check *c, int input, const talc_tensor *cotangent, int directions)
{
    const talc_tensor *gradient = talc_grad(c->inputs[input]);
    if (gradient == NULL) /* nothing of the result depends on it */
        gradient = talc_zeros_like(c->inputs[input]);
    bool ok = gradient != NULL;
    for (int i = 0; i < directions && ok; i++)
        ok = compare(c, input, gradient, cotangent);
    return ok;
}

static bool wanted(const talc_tensor *input)
{
    return talc_wants_grad(input) && talc_numel(input) > 0;
}

static bool operands_fit(const check *c)
{
    bool any = false;
    for (int i = 0; i < c->count; i++) {
        if (talc_operand_missing("check_gradient", "an input", c->inputs[i]))
            return false;
        if (talc_wants_grad(c->inputs[i]) && c->inputs[i]->dtype != TALC_F64) {
            talc_fail(TALC_BAD_DTYPE, "check_gradient: input %d is %s, differences need f64", i,
                      talc_dtype_name(c->inputs[i]->dtype));
            return false;
        }
        any = any || talc_wants_grad(c->inputs[i]);
    }
    if (!any)
        talc_fail(TALC_BAD_ARGUMENT,
                  "check_gradient: none of %d inputs asks for a gradient (talc_require_grad)",
                  c->count);
    return any;
}

static bool run(const check *c, int directions)
{
    for (int i = 0; i < c->count; i++)
        talc_grad_clear(c->inputs[i]);
    const talc_tensor *y = c->f(c->inputs, c->context);
    if (talc_operand_missing("check_gradient", "the function's result", y))
        return false;
    const talc_tensor *cotangent = talc_uniform(y->device, y->dtype, talc_dims_of(y), -1, 1);
    bool ok = cotangent != NULL && talc_backward_from(y, cotangent);
    for (int i = 0; i < c->count && ok; i++)
        if (wanted(c->inputs[i]))
            ok = check_input(c, i, cotangent, directions);
    if (ok && c->report->count > 0 && !c->tried->passed) {
        see_kink(c);
        locate(c);
        ok = !talc_failed();
    }
    for (int i = 0; i < c->count; i++)
        talc_grad_clear(c->inputs[i]);
    return ok;
}

bool talc_check_gradient(talc_differentiable *f, void *context, talc_tensor *const inputs[],
                         int count, const talc_gradient_options *options,
                         talc_gradient_report *report)
{
    TALC_DEFAULT_FENV;
    static const talc_gradient_options defaults = { 0 };
    const talc_gradient_options *o = options == NULL ? &defaults : options;
    if (talc_operand_missing("check_gradient", "report", report))
        return false;
    const double step = o->step == 0 ? 1e-4 : o->step;
    *report = (talc_gradient_report){ .tolerance = o->tolerance == 0 ? 1e-6 : o->tolerance,
                                      .step = step };
    line worst = { 0 };
    trial tried = { 0 };
    const check c = { f, context, inputs, count, step, report, &worst, &tried };
    if (f == NULL || inputs == NULL) {
        talc_operand_missing("check_gradient", f == NULL ? "f" : "inputs", NULL);
        return false;
    }
    /* Written so that NaN is refused too. */
    if (!(o->directions >= 0 && o->step >= 0 && o->tolerance >= 0)) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "check_gradient: directions %d, step %g and tolerance %g must not be negative",
                  o->directions, o->step, o->tolerance);
        return false;
    }
    talc_scope *scope = talc_scope_enter();
    const talc_generator before = talc_generator_get();
    const bool ran = scope != NULL && operands_fit(&c) && talc_manual_seed(o->seed) &&
                     run(&c, o->directions == 0 ? 4 : o->directions);
    talc_generator_restore(before); /* also after a failure */
    talc_scope_leave(scope);
    report->kink = report->step < step;
    snprintf(report->name, sizeof report->name, "input %d", report->input);
    return ran && report->worst <= report->tolerance;
}

// ---- Modules ------------------------------------------------------------------------------------

/* A module's parameters and buffers, as they are and as f64 copies that take their place
 * meanwhile. */
typedef struct held {
    talc_tensor *tensor, *was, *copy;
    bool is_parameter;
} held;

typedef struct all_held {
    int count, allowed;
    held *list;
} all_held;

static bool collect(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    all_held *all = context;
    if (all->count < all->allowed)
        all->list[all->count] = (held){ .tensor = tensor, .is_parameter = !is_buffer };
    all->count++;
    return true;
}

/* In the innermost scope. */
static bool copy_all(const all_held *all)
{
    for (int i = 0; i < all->count && !talc_failed(); i++) {
        held *one = &all->list[i];
        const bool is_float = talc_dtype_is_float(one->tensor->dtype);
        one->was = talc_detach(one->tensor);
        one->copy = one->was == NULL ? NULL
                    : is_float       ? talc_clone(talc_cast(one->was, TALC_F64))
                                     : talc_clone(one->was);
    }
    return !talc_failed();
}

static void swap_all(const all_held *all, bool to_copies)
{
    for (int i = 0; i < all->count; i++)
        talc_tensor_replace(all->list[i].tensor, to_copies ? all->list[i].copy : all->list[i].was);
}

static talc_tensor *forward(talc_tensor *const inputs[], void *context)
{
    return talc_forward(context, inputs[0]);
}

typedef struct named {
    const talc_tensor *tensor;
    talc_gradient_report *report;
} named;

static bool name(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    const named *self = context;
    if (tensor != self->tensor)
        return true;
    snprintf(self->report->name, sizeof self->report->name, "%s", path);
    return false;
}

/* x, then the parameters that ask for a gradient. */
static bool check_all(talc_module *module, talc_tensor *x, const all_held *all,
                      const talc_gradient_options *options, talc_gradient_report *report)
{
    talc_tensor **inputs =
        talc_memory_new(((size_t)all->count + 1) * sizeof *inputs, "check_gradient");
    talc_scope *scope = inputs == NULL ? NULL : talc_scope_enter();
    bool ok = scope != NULL && copy_all(all);
    if (ok) {
        int count = 1;
        inputs[0] = x;
        for (int i = 0; i < all->count; i++)
            if (all->list[i].is_parameter && talc_wants_grad(all->list[i].tensor)) {
                talc_grad_clear(all->list[i].tensor); /* it may be f32 */
                inputs[count++] = all->list[i].tensor;
            }
        swap_all(all, true);
        ok = talc_check_gradient(forward, module, inputs, count, options, report);
        swap_all(all, false);
        snprintf(report->name, sizeof report->name, "x");
        if (report->input > 0 && !talc_failed())
            talc_module_visit(module, name, &(named){ inputs[report->input], report });
        ok = ok && !talc_failed();
    }
    talc_scope_leave(scope);
    talc_memory_free(inputs);
    return ok;
}

bool talc_check_module_gradient(talc_module *module, talc_tensor *x,
                                const talc_gradient_options *options, talc_gradient_report *report)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("check_gradient", "module", module) ||
        talc_operand_missing("check_gradient", "x", x))
        return false;
    all_held counted = { 0 };
    if (!talc_module_visit(module, collect, &counted))
        return false;
    all_held all = { .allowed = counted.count };
    all.list = talc_memory_new((size_t)counted.count * sizeof *all.list + 1, "check_gradient");
    const bool ok = all.list != NULL && talc_module_visit(module, collect, &all) &&
                    check_all(module, x, &all, options, report);
    talc_memory_free(all.list);
    return ok;
}

__attribute__((format(printf, 3, 4))) static void add_text(char text[TALC_GRADIENT_TEXT],
                                                           size_t *used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text + *used, TALC_GRADIENT_TEXT - *used, format, arguments);
    va_end(arguments);
    *used += length < 0 ? 0 : (size_t)length;
    *used = *used < TALC_GRADIENT_TEXT ? *used : TALC_GRADIENT_TEXT - 1;
}

const char *talc_gradient_report_text(const talc_gradient_report *r, char text[TALC_GRADIENT_TEXT])
{
    char index[TALC_DIMS_TEXT];
    text[0] = '\0';
    if (r == NULL)
        return text;
    if (!(r->worst <= r->tolerance)) {
        size_t used = 0;
        add_text(text, &used, "%s: %.12g by differences, %.12g by the gradient (tolerance %.2g)",
                 TALC_SHOWN(r->name), r->expected, r->got, r->tolerance);
        if (r->located)
            add_text(text, &used, "; %s%s: %.9g, %.9g", TALC_SHOWN(r->name),
                     r->where.rank == 0 ? "" : talc_dims_text(r->where, index), r->element_expected,
                     r->element_got);
        if (r->at_kink)
            add_text(text, &used,
                     "; at a kink: %.9g on one side, %.9g on the other, so another point is needed",
                     r->before, r->after);
    } else if (r->kink) {
        const int exponent = (int)floor(log10(r->step) + 1e-9);
        snprintf(text, TALC_GRADIENT_TEXT, "a kink: passes with step %.3ge%d",
                 r->step / pow(10, exponent), exponent);
    }
    return text;
}

void talc_gradient_report_print(FILE *file, const talc_gradient_report *r)
{
    TALC_DEFAULT_FENV;
    if (file == NULL || r == NULL)
        return;
    char text[TALC_GRADIENT_TEXT];
    fprintf(file, "gradient: %d slopes, worst %.2g of %s (tolerance %.2g)", r->count, r->worst,
            TALC_SHOWN(r->name), r->tolerance);
    talc_gradient_report_text(r, text);
    fprintf(file, "%s%s\n", text[0] == '\0' ? "" : r->worst <= r->tolerance ? "; " : "\n  ", text);
}
