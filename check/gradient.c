#include "check/gradient.h"

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/autograd.h"
#include "tensor/fenv.h"
#include "tensor/generator.h"
#include "tensor/memory.h"
#include "tensor/random.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <math.h>

typedef struct check {
    talc_differentiable *f;
    void *context;
    talc_tensor *const *inputs;
    int count;
    double step;
    talc_gradient_report *report;
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

/* Makes x a handle on at + t v, until it is one on `at` again. */
static void move(talc_tensor *x, const talc_tensor *at, const talc_tensor *v, double t)
{
    const talc_tensor *step = talc_mul_scalar(v, t);
    const talc_tensor *to = step == NULL ? NULL : talc_add(at, step);
    if (to != NULL)
        talc_tensor_replace(x, to);
}

static double item_of_sum(const talc_tensor *a, const talc_tensor *b)
{
    const talc_tensor *product = talc_mul(a, b);
    return product == NULL ? NAN : talc_item(talc_sum(product, TALC_SCALAR, false));
}

/* One direction of one input, at which the gradient is `gradient`. */
static bool compare(const check *c, int input, const talc_tensor *gradient,
                    const talc_tensor *cotangent)
{
    talc_tensor *x = c->inputs[input];
    const talc_tensor *at = talc_detach(x);
    const talc_tensor *v = talc_uniform(x->device, x->dtype, talc_dims_of(x), -1, 1);
    const talc_tensor *size = at == NULL ? NULL : talc_abs(at);
    if (v == NULL || size == NULL)
        return false;
    double h = talc_item(talc_max(size, TALC_SCALAR, false));
    h = c->step * (h > 0 ? h : 1);
    double slope = 0;
    static const struct {
        double t, weight;
    } points[] = { { 1, 8 }, { -1, -8 }, { 2, -1 }, { -2, 1 } };
    for (int i = 0; i < 4 && !talc_failed(); i++) {
        move(x, at, v, points[i].t * h);
        slope += points[i].weight * loss(c, cotangent) / (12 * h);
        talc_tensor_replace(x, at);
    }
    if (talc_failed())
        return false;
    const double got = item_of_sum(gradient, v), norm = sqrt(item_of_sum(gradient, gradient));
    const double error = slope == got ? 0 : fabs(slope - got) / norm;
    talc_gradient_report *r = c->report;
    /* A NaN is the worst, and stays it. */
    if (r->count++ == 0 || (!isnan(r->worst) && !(error <= r->worst))) {
        r->worst = error;
        r->input = input;
        r->due = slope;
        r->got = got;
    }
    return !talc_failed();
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
    *report = (talc_gradient_report){ .tolerance = o->tolerance == 0 ? 1e-6 : o->tolerance };
    const check c = { f, context, inputs, count, o->step == 0 ? 1e-4 : o->step, report };
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
    return ran && report->worst <= report->tolerance;
}

// ---- Modules --------------------------------------------------------------------------------------------------

/* A module's parameters and buffers, as they are and as f64 copies that take their place meanwhile. */
typedef struct held {
    talc_tensor *tensor, *was, *copy;
    bool is_parameter;
} held;

typedef struct all_held {
    int count, room;
    held *list;
} all_held;

static bool collect(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    all_held *all = context;
    if (all->count < all->room)
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
    all_held all = { .room = counted.count };
    all.list = talc_memory_new((size_t)counted.count * sizeof *all.list + 1, "check_gradient");
    const bool ok = all.list != NULL && talc_module_visit(module, collect, &all) &&
                    check_all(module, x, &all, options, report);
    talc_memory_free(all.list);
    return ok;
}

void talc_gradient_report_print(FILE *file, const talc_gradient_report *r)
{
    TALC_DEFAULT_FENV;
    if (file == NULL || r == NULL)
        return;
    fprintf(file, "gradient: %d slopes, worst %.2g of input %d (tolerance %.2g)", r->count,
            r->worst, r->input, r->tolerance);
    if (!(r->worst <= r->tolerance))
        fprintf(file, ": %.12g by differences, %.12g by the gradient", r->due, r->got);
    fprintf(file, "\n");
}
