#include "tests/support/hooks.h"

#include "tensor/tape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* y = a b + a, element by element: da = dy (b + 1), db = dy a. What a function does wrong is in
 * `fault`, which is the call's data. */
typedef enum fault {
    NONE,
    FORWARD_FAILS,
    FORWARD_GIVES_NOTHING,
    FORWARD_GIVES_RELEASED,
    FORWARD_GIVES_FOREIGN,
    FORWARD_RELEASES_INPUT,
    FORWARD_RELEASES_INPUT_OFTEN,
    FORWARD_WRITES_INPUT,
    FORWARD_GIVES_INPUT,
    FORWARD_LEAVES_SCOPES,
    FORWARD_OP_FAILS,
    BACKWARD_FAILS,
    BACKWARD_OP_FAILS,
    BACKWARD_GIVES_UP,
    BACKWARD_FORGETS,
    BACKWARD_GIVES_RELEASED,
    BACKWARD_GIVES_FOREIGN,
    BACKWARD_GIVES_SHAPE,
    BACKWARD_GIVES_DTYPE,
    BACKWARD_RELEASES_DY,
    BACKWARD_RELEASES_INPUT,
    BACKWARD_RELEASES_Y,
    BACKWARD_WRITES_DY,
    BACKWARD_SAYS_YES_AND_FAILS,
} fault;

typedef struct call_data {
    fault fault;
    talc_tensor *foreign;
    int forwards, backwards, freed;
    bool wanted[2];
} call_data;

static talc_tensor *forward(talc_tensor *const inputs[], int count, void *data)
{
    call_data *d = data;
    d->forwards++;
    cr_assert(count == 2 && !talc_grad_enabled() && !talc_wants_grad(inputs[0]));
    talc_tensor *y = talc_add(talc_mul(inputs[0], inputs[1]), inputs[0]);
    switch (d->fault) {
    case FORWARD_FAILS:
        talc_fail(TALC_UNSUPPORTED, "not today");
        return y;
    case FORWARD_OP_FAILS:
        return talc_add(y, talc_ones(y->device, TALC_F64, TALC_DIMS(7)));
    case FORWARD_GIVES_NOTHING:
        return NULL;
    case FORWARD_GIVES_RELEASED:
        talc_release(y);
        return y;
    case FORWARD_GIVES_FOREIGN:
        return d->foreign;
    case FORWARD_RELEASES_INPUT:
        talc_release(inputs[1]);
        return y;
    case FORWARD_RELEASES_INPUT_OFTEN:
        for (int i = 0; i < 100; i++)
            talc_release(inputs[0]);
        return y;
    case FORWARD_WRITES_INPUT:
        talc_fill(inputs[1], 1);
        return y;
    case FORWARD_GIVES_INPUT:
        return inputs[0];
    case FORWARD_LEAVES_SCOPES:
        (void)talc_scope_enter();
        talc_no_grad_leave();
        talc_no_grad_leave();
        return talc_add(talc_mul(inputs[0], inputs[1]), inputs[0]);
    default:
        return y;
    }
}

static bool backward(const talc_custom_call *call, talc_tensor *gradients[])
{
    call_data *d = call->data;
    d->backwards++;
    d->wanted[0] = call->wanted[0];
    d->wanted[1] = call->wanted[1];
    talc_tensor *a = call->inputs[0], *b = call->inputs[1], *dy = call->dy;
    cr_assert(call->count == 2 && !talc_grad_enabled());
    cr_assert(talc_same_dims(call->y, dy));
    if (call->wanted[0])
        gradients[0] = talc_add(talc_mul(dy, b), dy);
    if (call->wanted[1])
        gradients[1] = talc_mul(dy, a);
    switch (d->fault) {
    case BACKWARD_FAILS:
        talc_fail(TALC_UNSUPPORTED, "no way back");
        return false;
    case BACKWARD_SAYS_YES_AND_FAILS:
        talc_fail(TALC_UNSUPPORTED, "no way back");
        return true;
    case BACKWARD_OP_FAILS:
        gradients[0] = talc_mul(dy, talc_ones(dy->device, dy->dtype, TALC_DIMS(7)));
        return gradients[0] != NULL;
    case BACKWARD_GIVES_UP:
        return false;
    case BACKWARD_FORGETS:
        gradients[1] = NULL;
        return true;
    case BACKWARD_GIVES_RELEASED:
        talc_release(gradients[0]);
        return true;
    case BACKWARD_GIVES_FOREIGN:
        gradients[0] = d->foreign;
        return true;
    case BACKWARD_GIVES_SHAPE:
        gradients[1] = talc_sum(gradients[1], TALC_SCALAR, false);
        return true;
    case BACKWARD_GIVES_DTYPE:
        gradients[1] = talc_cast(gradients[1], dy->dtype == TALC_F32 ? TALC_F64 : TALC_F32);
        return true;
    case BACKWARD_RELEASES_DY:
        talc_release(dy);
        return true;
    case BACKWARD_RELEASES_INPUT:
        talc_release(a);
        talc_release(a);
        return true;
    case BACKWARD_RELEASES_Y:
        talc_release(call->y);
        return true;
    case BACKWARD_WRITES_DY:
        return talc_fill(dy, 0);
    default:
        return true;
    }
}

static void drop(void *data)
{
    ((call_data *)data)->freed++;
}

static const talc_custom_op op = { "muladd", forward, backward, drop };

static talc_tensor *vector(talc_dtype dtype, double first, double second)
{
    const double elements[] = { first, second };
    return talc_cast(talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(2), elements), dtype);
}

/* Leaves, in the innermost scope. */
typedef struct operands {
    talc_tensor *a, *b;
} operands;

static operands leaves(void)
{
    const operands o = { vector(TALC_F32, 2, -3), vector(TALC_F32, 5, 7) };
    talc_require_grad(o.a, true);
    talc_require_grad(o.b, true);
    return o;
}

static talc_tensor *call(const operands *o, call_data *d)
{
    return talc_custom(&op, (const talc_tensor *[]){ o->a, o->b }, 2, d);
}

static void holds(const talc_tensor *tensor, float first, float second)
{
    cr_assert(tensor != NULL);
    const float *elements = talc_data_read(tensor, TALC_F32);
    cr_assert(elements[0] == first && elements[1] == second, "%g, %g instead of %g, %g",
              elements[0], elements[1], first, second);
}

static bool back(const talc_tensor *y)
{
    return talc_backward(talc_sum(talc_mul(y, vector(TALC_F32, 10, 100)), TALC_SCALAR, false));
}

// ---- Right ones ---------------------------------------------------------------------------------

Test(custom, gives_its_result_and_its_gradients)
{
    call_data d = { 0 };
    const operands o = leaves();
    talc_tensor *y = call(&o, &d);
    holds(y, 12, -24);
    cr_assert(talc_grad_enabled() && talc_wants_grad(y) && d.freed == 0);
    cr_assert(back(y));
    holds(talc_grad(o.a), 60, 800);
    holds(talc_grad(o.b), 20, -300);
    cr_assert(d.forwards == 1 && d.backwards == 1 && d.freed == 1);
    cr_assert(!back(y));
    assert_failure(TALC_BAD_ARGUMENT, "backward: an earlier backward pass went over muladd and has "
                                      "freed what it had saved; run the forward pass again");
    cr_assert(d.freed == 1);
}

Test(custom, asks_for_the_gradients_that_are_wanted)
{
    call_data d = { .fault = BACKWARD_FORGETS };
    operands o = leaves();
    cr_assert(talc_require_grad(o.b, false));
    cr_assert(back(call(&o, &d)), "the gradient that it forgets is not wanted");
    holds(talc_grad(o.a), 60, 800);
    cr_assert(d.wanted[0] && !d.wanted[1] && d.freed == 1);
}

Test(custom, data_go_at_once_where_nothing_is_recorded)
{
    call_data d = { 0 };
    const operands plain = { vector(TALC_F32, 2, -3), vector(TALC_F32, 5, 7) };
    talc_tensor *y = call(&plain, &d);
    holds(y, 12, -24);
    cr_assert(!talc_wants_grad(y) && d.freed == 1);
    const operands o = leaves();
    talc_no_grad_enter();
    y = call(&o, &d);
    talc_no_grad_leave();
    cr_assert(!talc_wants_grad(y) && d.freed == 2);
}

Test(custom, data_go_with_the_last_that_leads_to_them)
{
    call_data d = { 0 };
    const operands o = leaves();
    talc_scope *scope = talc_scope_enter();
    talc_tensor *y = talc_relu(call(&o, &d));
    cr_assert(y != NULL && d.freed == 0);
    talc_scope_leave(scope);
    cr_assert(d.freed == 1 && d.backwards == 0);
}

Test(custom, first_derivatives_alone)
{
    call_data d = { 0 };
    const operands o = leaves();
    cr_assert(back(call(&o, &d)));
    cr_assert(!talc_wants_grad(talc_grad(o.a)));
    cr_assert(!talc_backward(talc_sum(talc_grad(o.a), TALC_SCALAR, false)));
    assert_failure(TALC_BAD_ARGUMENT, "backward: loss was made from nothing that asks for a "
                                      "gradient (talc_require_grad), or under talc_no_grad_enter");
}

Test(custom, saved_inputs_are_as_they_were)
{
    call_data d = { 0 };
    const operands o = leaves();
    talc_tensor *y = call(&o, &d);
    cr_assert(talc_fill(o.b, 1));
    cr_assert(!back(y));
    assert_failure(TALC_BAD_ARGUMENT,
                   "backward: input 1 [2], which muladd saved, was written since: version 0 then, "
                   "1 now (talc_data counts as a write, talc_data_read does not)");
    cr_assert(d.backwards == 0);
    talc_release(y);
    cr_assert(d.freed == 1);
}

/* What forward may do: give what it was handed, open scopes and turn recording on and forget
 * both. */
Test(custom, what_forward_leaves_open_is_closed)
{
    call_data d = { .fault = FORWARD_LEAVES_SCOPES };
    const operands o = leaves();
    talc_scope *scope = talc_scope_enter();
    talc_tensor *y = call(&o, &d);
    holds(y, 12, -24);
    cr_assert(talc_grad_enabled());
    cr_assert(back(y));
    holds(talc_grad(o.a), 60, 800);
    talc_scope_leave(scope);
    d = (call_data){ .fault = FORWARD_GIVES_INPUT };
    y = call(&o, &d);
    holds(y, 2, -3);
    cr_assert(y != o.a && back(y));
    holds(o.a, 2, -3);
}

static talc_tensor *in_f64(talc_tensor *const inputs[], void *context)
{
    return talc_custom(&op, (const talc_tensor *[]){ inputs[0], inputs[1] }, 2, context);
}

static bool checked(fault wrong, talc_gradient_report *report)
{
    call_data d = { .fault = wrong };
    talc_tensor *inputs[] = { vector(TALC_F64, 2, -3), vector(TALC_F64, 5, 7) };
    talc_require_grad(inputs[0], true);
    talc_require_grad(inputs[1], true);
    const bool passed = talc_check_gradient(in_f64, &d, inputs, 2, NULL, report);
    cr_assert(d.freed == d.forwards, "%d freed of %d", d.freed, d.forwards);
    return passed;
}

Test(custom, is_held_against_differences)
{
    talc_gradient_report report;
    cr_assert(checked(NONE, &report));
    assert_no_failure();
    cr_assert(!checked(BACKWARD_FORGETS, &report));
    assert_failure(
        TALC_BAD_ARGUMENT,
        "backward: muladd: backward gave no gradient of input 1, which wants one; where it is "
        "zero, give a tensor of zeros");
}

// ---- Wrong ones ---------------------------------------------------------------------------------

static const struct {
    fault fault;
    talc_status status;
    const char *message;
} forwards[] = {
    { FORWARD_FAILS, TALC_UNSUPPORTED, "muladd: not today" },
    { FORWARD_OP_FAILS, TALC_BAD_DTYPE, "muladd: add: a is f32, b is f64" },
    { FORWARD_GIVES_NOTHING, TALC_BAD_ARGUMENT,
      "muladd: forward gave no tensor and raised no failure" },
    { FORWARD_GIVES_RELEASED, TALC_BAD_ARGUMENT,
      "muladd: forward gave as its result a tensor that it did not make, or that it has released; "
      "of one from elsewhere it gives a talc_detach" },
    { FORWARD_GIVES_FOREIGN, TALC_BAD_ARGUMENT,
      "muladd: forward gave as its result a tensor that it did not make, or that it has released; "
      "of one from elsewhere it gives a talc_detach" },
    { FORWARD_RELEASES_INPUT, TALC_BAD_ARGUMENT,
      "muladd: forward released input 1, which is not its own" },
    { FORWARD_RELEASES_INPUT_OFTEN, TALC_BAD_ARGUMENT,
      "muladd: forward released input 0, which is not its own" },
    { FORWARD_WRITES_INPUT, TALC_BAD_ARGUMENT,
      "muladd: forward wrote to input 1, which it may only read (talc_data counts as a write, "
      "talc_data_read does not)" },
}, backwards[] = {
    { BACKWARD_FAILS, TALC_UNSUPPORTED, "muladd: backward: no way back" },
    { BACKWARD_SAYS_YES_AND_FAILS, TALC_UNSUPPORTED, "muladd: backward: no way back" },
    { BACKWARD_OP_FAILS, TALC_BAD_SHAPE,
      "muladd: backward: mul: a [2] and b [7] do not broadcast" },
    { BACKWARD_GIVES_UP, TALC_BAD_ARGUMENT,
      "backward: muladd: backward gave up and raised no failure" },
    { BACKWARD_FORGETS, TALC_BAD_ARGUMENT,
      "backward: muladd: backward gave no gradient of input 1, which wants one; where it is zero, "
      "give a tensor of zeros" },
    { BACKWARD_GIVES_RELEASED, TALC_BAD_ARGUMENT,
      "backward: muladd: backward gave as gradient of input 0 a tensor that it did not make, or "
      "that it has released; of one from elsewhere it gives a talc_detach" },
    { BACKWARD_GIVES_FOREIGN, TALC_BAD_ARGUMENT,
      "backward: muladd: backward gave as gradient of input 0 a tensor that it did not make, or "
      "that it has released; of one from elsewhere it gives a talc_detach" },
    { BACKWARD_GIVES_SHAPE, TALC_BAD_SHAPE,
      "backward: muladd: backward gave input 1 a gradient f32 [] on cpu, it is f32 [2] on cpu" },
    { BACKWARD_GIVES_DTYPE, TALC_BAD_SHAPE,
      "backward: muladd: backward gave input 1 a gradient f64 [2] on cpu, it is f32 [2] on cpu" },
    { BACKWARD_RELEASES_DY, TALC_BAD_ARGUMENT,
      "backward: muladd: backward released dy, which is not its own" },
    { BACKWARD_RELEASES_INPUT, TALC_BAD_ARGUMENT,
      "backward: muladd: backward released input 0, which is not its own" },
    { BACKWARD_RELEASES_Y, TALC_BAD_ARGUMENT,
      "backward: muladd: backward released y, which is not its own" },
    { BACKWARD_WRITES_DY, TALC_BAD_ARGUMENT,
      "backward: muladd: backward wrote to dy, which it may only read (talc_data counts as a "
      "write, talc_data_read does not)" },
};

Test(custom, a_forward_that_goes_wrong_is_named)
{
    for (size_t i = 0; i < sizeof forwards / sizeof *forwards; i++) {
        const operands o = leaves();
        call_data d = { .fault = forwards[i].fault, .foreign = vector(TALC_F32, 1, 1) };
        cr_assert(call(&o, &d) == NULL, "fault %d", forwards[i].fault);
        assert_failure(forwards[i].status, forwards[i].message);
        cr_assert(d.freed == 1 && d.backwards == 0, "fault %d", forwards[i].fault);
        holds(o.a, 2, -3);
        holds(d.foreign, 1, 1);
        cr_assert(talc_grad_enabled());
    }
}

Test(custom, a_backward_that_goes_wrong_is_named)
{
    for (size_t i = 0; i < sizeof backwards / sizeof *backwards; i++) {
        const operands o = leaves();
        call_data d = { .fault = backwards[i].fault, .foreign = vector(TALC_F32, 1, 1) };
        talc_tensor *y = call(&o, &d);
        cr_assert(!back(y), "fault %d", backwards[i].fault);
        assert_failure(backwards[i].status, backwards[i].message);
        cr_assert(d.freed == 1 && d.backwards == 1, "fault %d", backwards[i].fault);
        cr_assert(talc_grad(o.a) == NULL && talc_grad(o.b) == NULL);
        holds(y, 12, -24);
        holds(o.a, 2, -3);
        holds(d.foreign, 1, 1);
    }
}

Test(custom, calls_that_cannot_be_made)
{
    const operands o = leaves();
    const talc_tensor *inputs[9] = { o.a, o.b };
    call_data d = { 0 };
    talc_custom_op wrong = op;
    cr_assert(talc_custom(NULL, inputs, 2, &d) == NULL && d.freed == 0);
    assert_failure(TALC_NULL_ARGUMENT, "custom: op is NULL");
    wrong.name = NULL;
    cr_assert(talc_custom(&wrong, inputs, 2, &d) == NULL && d.freed == 1);
    assert_failure(TALC_NULL_ARGUMENT, "custom: op->name is NULL");
    wrong = op;
    wrong.forward = NULL;
    cr_assert(talc_custom(&wrong, inputs, 2, &d) == NULL && d.freed == 2);
    assert_failure(TALC_NULL_ARGUMENT, "muladd: forward is NULL");
    cr_assert(talc_custom(&op, NULL, 2, &d) == NULL && d.freed == 3);
    assert_failure(TALC_NULL_ARGUMENT, "muladd: inputs is NULL");
    cr_assert(talc_custom(&op, inputs, -1, &d) == NULL && d.freed == 4);
    assert_failure(TALC_BAD_ARGUMENT, "muladd: -1 inputs, there may be 0 to 8");
    cr_assert(talc_custom(&op, inputs, 9, &d) == NULL && d.freed == 5);
    assert_failure(TALC_BAD_ARGUMENT, "muladd: 9 inputs, there may be 0 to 8");
    wrong = op;
    wrong.backward = NULL;
    cr_assert(talc_custom(&wrong, inputs, 2, &d) == NULL && d.freed == 6);
    assert_failure(TALC_BAD_ARGUMENT, "muladd: input 0 asks for a gradient, which the op does not "
                                      "have (no backward)");
    talc_no_grad_enter();
    holds(talc_custom(&wrong, inputs, 2, &d), 12, -24);
    talc_no_grad_leave();
    talc_fail(TALC_UNSUPPORTED, "earlier");
    const int forwards_before = d.forwards;
    cr_assert(talc_custom(&op, inputs, 2, &d) == NULL && d.freed == 8);
    cr_assert(d.forwards == forwards_before);
    assert_failure(TALC_UNSUPPORTED, "earlier");
}

/* Inputs left out, integers, more inputs than most have, and a result without a gradient. */
static talc_tensor *forward_picks(talc_tensor *const inputs[], int count, void *data)
{
    cr_assert(count == 8 && inputs[0] == NULL && data == NULL);
    talc_tensor *sum = talc_cast(inputs[1], inputs[2]->dtype);
    for (int i = 2; i < count; i++)
        sum = talc_add(sum, inputs[i]);
    return sum;
}

static bool backward_picks(const talc_custom_call *call, talc_tensor *gradients[])
{
    cr_assert(call->inputs[0] == NULL && !call->wanted[0] && !call->wanted[1]);
    for (int i = 2; i < call->count; i++)
        gradients[i] = call->dy;
    return true;
}

Test(custom, eight_inputs_of_which_one_is_missing_and_one_an_integer)
{
    static const talc_custom_op picks = { "picks", forward_picks, backward_picks, NULL };
    const talc_tensor *inputs[8] = { NULL, vector(TALC_I64, 1, 2) };
    for (int i = 2; i < 8; i++) {
        talc_tensor *leaf = vector(TALC_F32, i, 10 * i);
        talc_require_grad(leaf, true);
        inputs[i] = leaf;
    }
    talc_tensor *y = talc_custom(&picks, inputs, 8, NULL);
    holds(y, 28, 272);
    cr_assert(back(y));
    for (int i = 2; i < 8; i++)
        holds(talc_grad(inputs[i]), 10, 100);
}

static talc_tensor *forward_counts(talc_tensor *const inputs[], int count, void *data)
{
    (void)count, (void)data;
    return talc_cast(inputs[0], TALC_I64);
}

Test(custom, a_result_of_integers_is_not_recorded)
{
    static const talc_custom_op counts = { "counts", forward_counts, backward_picks, NULL };
    const operands o = leaves();
    talc_tensor *y = talc_custom(&counts, (const talc_tensor *[]){ o.a }, 1, NULL);
    cr_assert(y != NULL && y->dtype == TALC_I64 && !talc_wants_grad(y));
}

// ---- Memory -------------------------------------------------------------------------------------

Test(custom, any_allocation_may_fail)
{
    bool refused = true;
    int64_t count = 0;
    for (; refused; count++) {
        cr_assert(count < 200);
        const operands o = leaves();
        call_data d = { 0 };
        allow_allocations(count);
        talc_scope *scope = talc_scope_enter();
        talc_tensor *y = scope == NULL ? NULL : call(&o, &d);
        const bool called = d.forwards > 0 || d.freed > 0;
        const bool passed = y != NULL && talc_backward_from(y, talc_detach(y));
        talc_scope_leave(scope);
        refused = allow_all_allocations();
        cr_assert(passed == !refused, "%d allocations", (int)count);
        cr_assert(!refused || talc_error_status() == TALC_NO_MEMORY);
        cr_assert(d.freed == (called ? 1 : 0), "%d allocations: freed %d times", (int)count,
                  d.freed);
        cr_assert((talc_grad(o.a) != NULL) == passed);
        talc_error_clear();
    }
    cr_assert(count > 15, "%d", (int)count);
}
