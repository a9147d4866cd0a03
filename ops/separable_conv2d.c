#include "ops/separable_conv2d.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/operand.h"
#include "ops/separable_conv2d_choice.h"
#include "tensor/fenv.h"
#include "tensor/observe.h"
#include "tensor/tape.h"
#include "tensor/within.h"

#include <string.h>

static const char OP[] = "separable_conv2d";

enum { INPUTS = 6 };

// ---- Checks -------------------------------------------------------------------------------------------------

static bool refuse(const char *why)
{
    talc_fail(TALC_BAD_ARGUMENT, "%s: %s", OP, why);
    return false;
}

static bool is_left_out(const int64_t pair[2], int64_t otherwise)
{
    return (pair[0] == 0 || pair[0] == otherwise) && (pair[1] == 0 || pair[1] == otherwise);
}

static bool options_fit(const talc_conv2d_options *first, const talc_conv2d_options *second)
{
    if (first->residual != NULL || first->algorithm != NULL || first->precision != 0)
        return refuse("the depthwise options take no residual, algorithm or precision; those of "
                      "the whole are among the pointwise ones");
    if (!is_left_out(second->stride, 1) || !is_left_out(second->dilation, 1) ||
        !is_left_out(second->padding, TALC_ZERO) || !is_left_out(second->padding_end, TALC_ZERO) ||
        second->padding_same || second->padding_mode != TALC_PADDING_ZEROS ||
        (second->groups != 0 && second->groups != 1))
        return refuse("the pointwise options take an activation, a residual, an algorithm and a "
                      "precision alone");
    return true;
}

/* A weight or bias of the type and place of x, and of this shape. */
static bool fits(const talc_tensor *x, const char *name, const talc_tensor *operand, talc_dims due)
{
    return talc_operand_like(OP, "x", x, name, operand) &&
           talc_operand_shape(OP, name, operand, due);
}

static bool operands_fit(const talc_tensor *x, const talc_tensor *w1, const talc_tensor *b1,
                         const talc_tensor *w2, const talc_tensor *b2)
{
    if (!talc_operand_float(OP, "x", x) || !talc_operand_like(OP, "x", x, "w1", w1) ||
        !talc_operand_like(OP, "x", x, "w2", w2) ||
        !talc_operand_rank(OP, "x", x, 4, "[N,C,H,W]") ||
        !talc_operand_rank(OP, "w1", w1, 4, "[C,1,KH,KW]") ||
        !talc_operand_rank(OP, "w2", w2, 4, "[OC,C,1,1]"))
        return false;
    const int64_t C = x->dims[1];
    return fits(x, "w1", w1, TALC_DIMS(C, 1, w1->dims[2], w1->dims[3])) &&
           fits(x, "w2", w2, TALC_DIMS(w2->dims[0], C, 1, 1)) &&
           (b1 == NULL || fits(x, "b1", b1, TALC_DIMS(C))) &&
           (b2 == NULL || fits(x, "b2", b2, TALC_DIMS(w2->dims[0])));
}

// ---- The call -----------------------------------------------------------------------------------------------

/* All of a call: its operands in the order of the arguments and the options of its two halves. */
typedef struct call {
    const talc_tensor *inputs[INPUTS]; /* x, w1, b1, w2, b2, residual */
    talc_conv2d_options depthwise, pointwise;
    talc_separable_conv2d_problem problem;
} call;

static bool call_of(const talc_tensor *x, const talc_tensor *w1, const talc_tensor *b1,
                    const talc_conv2d_options *depthwise, const talc_tensor *w2,
                    const talc_tensor *b2, const talc_conv2d_options *pointwise, call *made)
{
    static const talc_conv2d_options defaults = { .groups = 0 };
    talc_conv2d_options *first = &made->depthwise, *second = &made->pointwise;
    *first = depthwise != NULL ? *depthwise : defaults;
    *second = pointwise != NULL ? *pointwise : defaults;
    if (!operands_fit(x, w1, b1, w2, b2) || !options_fit(first, second) ||
        !talc_operand_precision(OP, second->precision))
        return false;
    first->groups = first->groups == 0 ? x->dims[1] : first->groups;
    first->precision = second->precision;
    const talc_tensor *const inputs[] = { x, w1, b1, w2, b2, second->residual };
    memcpy(made->inputs, inputs, sizeof inputs);

    const char *around = talc_within(OP);
    talc_conv2d_problem *p = &made->problem.depthwise;
    bool fit = talc_conv2d_problem_of(x, w1, b1, first, p);
    if (fit) { /* of a tensor that need not exist */
        const talc_tensor between = {
            .dtype = x->dtype, .device = x->device, .rank = 4, .dims = { p->N, p->OC, p->OH, p->OW }
        };
        fit = talc_conv2d_problem_of(&between, w2, b2, second, &made->problem.pointwise);
    }
    talc_within(around);
    return fit;
}

// ---- Choice -------------------------------------------------------------------------------------------------

/* The estimate of what would run; 0 without one. */
static double seconds(const char *op, talc_device *device, const talc_algorithm *rows,
                      const void *problem, unsigned precision)
{
    talc_choice choice;
    return talc_choose_quietly(&choice, op, device, rows, problem, NULL, precision)
               ? choice.rows[choice.chosen].plan.seconds
               : 0;
}

bool talc_separable_conv2d_is_one(talc_device *device, const talc_separable_conv2d_problem *problem,
                                  const char *forced, unsigned precision)
{
    TALC_DEFAULT_FENV;
    const struct talc_backend *backend = device->backend;
    const talc_algorithm *rows = backend->separable_conv2d;
    if (forced != NULL || talc_algorithm_forced(OP) != NULL)
        return true;
    if (rows == NULL || talc_algorithm_forced("conv2d") != NULL || problem->depthwise.N == 0)
        return false;
    const double one = seconds(OP, device, rows, problem, precision);
    if (one <= 0)
        return false;
    const double first = seconds("conv2d", device, backend->conv2d, &problem->depthwise, precision),
                 second =
                     seconds("conv2d", device, backend->conv2d, &problem->pointwise, precision);
    return first > 0 && second > 0 && one < first + second;
}

static bool is_one(const call *c)
{
    return talc_separable_conv2d_is_one(c->inputs[0]->device, &c->problem, c->pointwise.algorithm,
                                        c->pointwise.precision);
}

bool talc_separable_conv2d_fuses(const talc_tensor *x, const talc_tensor *w1, const talc_tensor *b1,
                                 const talc_conv2d_options *depthwise, const talc_tensor *w2,
                                 const talc_tensor *b2, const talc_conv2d_options *pointwise)
{
    call made;
    if (talc_failed())
        return false;
    if (call_of(x, w1, b1, depthwise, w2, b2, pointwise, &made))
        return !talc_tape_wants(made.inputs, INPUTS) && is_one(&made);
    talc_error_clear();
    return false;
}

// ---- Run ----------------------------------------------------------------------------------------------------

static talc_tensor *run_two(const call *c)
{
    const talc_tensor *const *in = c->inputs;
    talc_scope *scope = talc_scope_enter();
    const char *around = talc_within(OP);
    const talc_tensor *m = scope == NULL ? NULL : talc_conv2d(in[0], in[1], in[2], &c->depthwise);
    talc_tensor *y = m == NULL ? NULL : talc_conv2d(m, in[3], in[4], &c->pointwise);
    talc_scope_return(scope, y);
    talc_within(around);
    talc_scope_leave(scope);
    return y;
}

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    _Static_assert(TALC_SEPARABLE_CONV2D_TEXT <= TALC_RUN_TEXT, "a problem's text has room");
    talc_separable_conv2d_problem_text(problem, text);
}

static talc_tensor *run_row(const call *c, const talc_choice *choice)
{
    const talc_conv2d_problem *p = &c->problem.pointwise;
    talc_observer *observer = talc_observe_pause();
    talc_tensor *packed[INPUTS], *y = NULL;
    for (int i = 0; i < INPUTS; i++)
        packed[i] = talc_operand_contiguous(OP, c->inputs[i]);
    if (!talc_failed())
        y = talc_tensor_new(OP, choice->device, p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW));
    if (y != NULL && p->N > 0) {
        talc_separable_conv2d_arguments arguments = {
            .x = packed[0]->data,
            .w1 = packed[1]->data,
            .b1 = talc_operand_data(packed[2]),
            .w2 = packed[3]->data,
            .b2 = talc_operand_data(packed[4]),
            .residual = talc_operand_data(packed[5]),
            .y = y->data,
        };
        y = talc_result(
            y, talc_choice_run(choice, problem_text, &c->problem, &c->problem, &arguments.base));
    }
    talc_observe_resume(observer);
    talc_observed(OP, talc_chosen(choice), &c->problem, c->inputs, INPUTS, y);
    for (int i = 0; i < INPUTS; i++)
        talc_release(packed[i]);
    return y;
}

talc_tensor *talc_separable_conv2d(const talc_tensor *x, const talc_tensor *w1,
                                   const talc_tensor *b1, const talc_conv2d_options *depthwise,
                                   const talc_tensor *w2, const talc_tensor *b2,
                                   const talc_conv2d_options *pointwise)
{
    call made;
    if (!call_of(x, w1, b1, depthwise, w2, b2, pointwise, &made))
        return NULL;
    const char *forced = made.pointwise.algorithm;
    const bool recorded = talc_tape_wants(made.inputs, INPUTS);
    if (recorded && (forced != NULL || talc_algorithm_forced(OP) != NULL)) {
        talc_fail(TALC_UNSUPPORTED,
                  "%s: its rows have no gradient: where one is recorded, none can be asked for by "
                  "name",
                  OP);
        return NULL;
    }
    if (recorded || !is_one(&made))
        return run_two(&made);

    talc_choice choice;
    if (!talc_choose(&choice, OP, x->device, x->device->backend->separable_conv2d, &made.problem,
                     forced, made.pointwise.precision))
        return NULL;
    return run_row(&made, &choice);
}
