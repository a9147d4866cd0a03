#include "ops/custom.h"

#include "tensor/fenv.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/tape.h"
#include "tensor/within.h"

#include <stdio.h>

/* What the tape keeps of a call, beside the inputs and the result. */
typedef struct custom {
    const talc_custom_op *op;
    void *data;
    int count;
} custom;

static void give_back(void *problem)
{
    const custom *self = problem;
    if (self->op->free != NULL)
        self->op->free(self->data);
}

// ---- What a function is lent --------------------------------------------------------------------

/* So many references of ours has each handle that a function is lent: one that it releases, as if
 * it were its own, is then still there, and shows. */
enum { GUARD = 1 << 20, LENT = TALC_CUSTOM_INPUTS + 2 };

typedef struct lent {
    talc_tensor *handle[LENT]; /* inputs, y, dy; NULL where there is none */
    uint64_t version[LENT];
} lent;

static const char *const names[LENT] = { "input 0", "input 1", "input 2", "input 3", "input 4",
                                         "input 5", "input 6", "input 7", "y",       "dy" };
enum { Y = TALC_CUSTOM_INPUTS, DY };

/* Another handle, through which no gradient goes. False with a failure; NULL passes. */
static bool lend(lent *to, int at, const talc_tensor *tensor)
{
    if (tensor == NULL)
        return true;
    talc_tensor *handle = talc_tensor_alias(tensor);
    if (handle == NULL)
        return false;
    atomic_fetch_add(&((tensor_record *)handle)->references, GUARD);
    to->handle[at] = handle;
    to->version[at] = talc_version(handle);
    return true;
}

/* Takes every handle back, and says which of them was released or written. */
static void take_back(const lent *from, const talc_custom_op *op, const char *function)
{
    for (int i = 0; i < LENT; i++) {
        tensor_record *record = (tensor_record *)from->handle[i];
        if (record == NULL)
            continue;
        const size_t here = atomic_load(&record->references);
        const size_t expected = GUARD + (atomic_load(&record->scope) != NULL);
        if (here < expected) {
            talc_fail(TALC_BAD_ARGUMENT, "%s: %s released %s, which is not its own", op->name,
                      function, names[i]);
            atomic_fetch_add(&record->references, expected - here);
        }
        if (talc_version(&record->tensor) != from->version[i])
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: %s wrote to %s, which it may only read (talc_data counts as a write, "
                      "talc_data_read does not)",
                      op->name, function, names[i]);
        atomic_fetch_sub(&record->references, GUARD - 1);
        talc_release(&record->tensor);
    }
}

/* A result of a function in the scope around `scope`, as a handle of its own, which no gradient
 * goes through. NULL, with a failure, for one that the scope does not hold: its memory may be
 * anyone's. */
static talc_tensor *result_of(const talc_custom_op *op, const char *function, const char *what,
                              talc_scope *scope, talc_tensor *made)
{
    if (talc_scope_holds(scope, made))
        return talc_scope_return(scope, talc_tensor_alias(made));
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: %s gave as %s a tensor that it did not make, or that it has released; of one "
              "from elsewhere it gives a talc_detach",
              op->name, function, what);
    return NULL;
}

// ---- Backward -----------------------------------------------------------------------------------

static bool fits(const talc_custom_op *op, int i, const talc_tensor *gradient,
                 const talc_tensor *input)
{
    char got[TALC_DIMS_TEXT], expected[TALC_DIMS_TEXT];
    if (gradient->dtype == input->dtype && gradient->device == input->device &&
        talc_same_dims(gradient, input))
        return true;
    talc_fail(TALC_BAD_SHAPE, "%s: backward gave %s a gradient %s %s on %s, it is %s %s on %s",
              op->name, names[i], talc_dtype_name(gradient->dtype),
              talc_dims_text(talc_dims_of(gradient), got), gradient->device->name,
              talc_dtype_name(input->dtype), talc_dims_text(talc_dims_of(input), expected),
              input->device->name);
    return false;
}

/* The gradients that backward made, in the scope around `scope`. */
static void collect(const custom *self, const lent *handles, const bool wanted[], talc_scope *scope,
                    talc_tensor *const made[], talc_tensor *gradients[])
{
    for (int i = 0; i < self->count && !talc_failed(); i++) {
        if (!wanted[i])
            continue;
        char what[48];
        snprintf(what, sizeof what, "gradient of %s", names[i]);
        if (made[i] == NULL)
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: backward gave no gradient of %s, which wants one; where it is zero, "
                      "give a tensor of zeros",
                      self->op->name, names[i]);
        else
            gradients[i] = result_of(self->op, "backward", what, scope, made[i]);
        if (gradients[i] != NULL && !fits(self->op, i, gradients[i], handles->handle[i]))
            gradients[i] = NULL;
    }
}

static void call_backward(const custom *self, const lent *handles, const bool wanted[],
                          talc_tensor *made[])
{
    const talc_custom_call call = { .inputs = handles->handle,
                                    .count = self->count,
                                    .y = handles->handle[Y],
                                    .dy = handles->handle[DY],
                                    .wanted = wanted,
                                    .data = self->data };
    const int depth = talc_no_grad_depth;
    const bool done = self->op->backward(&call, made);
    talc_no_grad_depth = depth;
    if (talc_failed())
        talc_fail_at(self->op->name);
    else if (!done)
        talc_fail(TALC_BAD_ARGUMENT, "%s: backward gave up and raised no failure", self->op->name);
}

static void gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const custom *self = talc_node_problem(node);
    talc_tensor *made[TALC_CUSTOM_INPUTS] = { NULL };
    bool wanted[TALC_CUSTOM_INPUTS] = { false };
    lent handles = { .handle = { NULL } };
    talc_scope *scope = talc_scope_enter();
    bool ok = scope != NULL;
    for (int i = 0; i < self->count && ok; i++) {
        wanted[i] = talc_node_wants(node, i);
        ok = lend(&handles, i, talc_node_saved(node, i));
    }
    ok = ok && lend(&handles, Y, talc_node_saved(node, self->count)) && lend(&handles, DY, dy);
    if (ok) {
        call_backward(self, &handles, wanted, made);
        if (!talc_failed())
            collect(self, &handles, wanted, scope, made, gradients);
    }
    take_back(&handles, self->op, "backward");
    talc_scope_leave(scope);
}

// ---- Forward ------------------------------------------------------------------------------------

static talc_tensor *call_forward(const custom *self, const lent *handles, talc_scope *scope)
{
    const int depth = talc_no_grad_depth++;
    const char *around = talc_within(self->op->name);
    talc_tensor *made = self->op->forward(handles->handle, self->count, self->data);
    talc_within(around);
    talc_no_grad_depth = depth;
    if (talc_failed())
        return NULL;
    if (made == NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: forward gave no tensor and raised no failure",
                  self->op->name);
    return made == NULL ? NULL : result_of(self->op, "forward", "its result", scope, made);
}

static talc_tensor *forward(const custom *self, const talc_tensor *const inputs[])
{
    lent handles = { .handle = { NULL } };
    talc_scope *scope = talc_scope_enter();
    bool ok = scope != NULL;
    for (int i = 0; i < self->count && ok; i++)
        ok = lend(&handles, i, inputs[i]);
    talc_tensor *y = ok ? call_forward(self, &handles, scope) : NULL;
    take_back(&handles, self->op, "forward");
    talc_scope_leave(scope);
    if (talc_failed()) {
        talc_release(y);
        return NULL;
    }
    return y;
}

static talc_tensor *record(const custom *self, const talc_tensor *const inputs[], talc_tensor *y)
{
    talc_record record = { .op = self->op->name,
                           .rule = gradient,
                           .inputs = inputs,
                           .input_count = self->count,
                           .problem = self,
                           .problem_bytes = sizeof *self,
                           .drop = give_back };
    for (int i = 0; i < self->count; i++) {
        record.saved[i].name = names[i];
        record.saved[i].tensor = inputs[i];
    }
    record.saved[self->count].name = names[Y];
    record.saved[self->count].tensor = y;
    return talc_tape_record(y, &record);
}

/* Whether the call can be made. */
static bool is_whole(const talc_custom_op *op, const talc_tensor *const inputs[], int count)
{
    if (talc_operand_missing("custom", "op->name", op->name) ||
        talc_operand_missing(op->name, "forward", op->forward == NULL ? NULL : op) ||
        (count != 0 && talc_operand_missing(op->name, "inputs", inputs)))
        return false;
    if (count < 0 || count > TALC_CUSTOM_INPUTS) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %d inputs, there may be 0 to %d", op->name, count,
                  TALC_CUSTOM_INPUTS);
        return false;
    }
    for (int i = 0; i < count && op->backward == NULL; i++)
        if (talc_tape_wants_one(inputs[i])) {
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: input %d asks for a gradient, which the op does not have (no backward)",
                      op->name, i);
            return false;
        }
    return true;
}

talc_tensor *talc_custom(const talc_custom_op *op, const talc_tensor *const inputs[], int count,
                         void *data)
{
    if (op == NULL) {
        (void)talc_operand_missing("custom", "op", op);
        return NULL;
    }
    TALC_DEFAULT_FENV;
    custom self = { .op = op, .data = data, .count = count };
    talc_tensor *y = is_whole(op, inputs, count) ? forward(&self, inputs) : NULL;
    if (y != NULL && talc_dtype_is_float(y->dtype) && talc_tape_wants(inputs, count)) {
        y = record(&self, inputs, y);
        if (y != NULL)
            return y; /* the tape has the data */
    }
    give_back(&self);
    return talc_failed() ? NULL : y;
}
