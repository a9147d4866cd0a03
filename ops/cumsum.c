#include "ops/cumsum.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/observed.h"
#include "ops/operand.h"
#include "tensor/observe.h"
#include "tensor/run.h"
#include "tensor/tape.h"

static const char *const names[] = {
    [TALC_FORWARD] = "cumsum", [TALC_GRAD_INPUT] = "cumsum.grad_input"
};

static talc_tensor *cumsum(talc_direction direction, const talc_tensor *x, int dim)
{
    const char *const op = names[direction];
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    talc_cumsum_problem problem = talc_lines_of(x, y, dim);
    problem.direction = direction;
    talc_choice choice;
    if (!talc_choose(&choice, op, x->device, x->device->backend->cumsum, &problem, NULL, 0) ||
        talc_numel(y) == 0)
        return talc_result(y, talc_error_status());
    talc_cumsum_arguments arguments = { .y = y->data, .x = x->data };
    y = talc_result(y, talc_choice_run(&choice, talc_run_dims, y, &problem, &arguments.base));
    talc_observed(op, talc_chosen(&choice), &(talc_cumsum_observed){ dim }, &x, 1, y);
    return y;
}

// ---- Gradient -----------------------------------------------------------------------------------

static void cumsum_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    gradients[0] = cumsum(TALC_GRAD_INPUT, dy, *(const int *)talc_node_problem(node));
}

static talc_tensor *recorded(const talc_tensor *x, int dim, talc_tensor *y)
{
    if (y == NULL || !talc_tape_wants_one(x))
        return y;
    return talc_tape_record(y, &(talc_note){ .op = names[TALC_FORWARD],
                                             .rule = cumsum_gradient,
                                             .inputs = &x,
                                             .input_count = 1,
                                             .problem = &dim,
                                             .problem_bytes = sizeof dim });
}

// ---- The op -------------------------------------------------------------------------------------

talc_tensor *talc_cumsum(const talc_tensor *x, int dim)
{
    const char *const op = names[TALC_FORWARD];
    if (!talc_operand_float(op, "x", x) ||
        talc_shape_dim(op, dim, x->rank == 0 ? 1 : x->rank, &dim) != TALC_OK)
        return NULL;
    return recorded(x, dim, cumsum(TALC_FORWARD, x, dim));
}
