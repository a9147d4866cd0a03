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

static talc_cumsum_problem problem_of(talc_direction direction, const talc_tensor *x,
                                      const talc_tensor *y, int dim)
{
    talc_cumsum_problem p = { .direction = direction, .dtype = x->dtype, .extent = 1, .outer = 1 };
    for (int i = 0; i < x->rank; i++) {
        if (i == dim) {
            p.extent = x->dims[i];
            p.y_stride = y->strides[i];
            p.x_stride = x->strides[i];
            continue;
        }
        p.outer_dims[p.outer_rank] = x->dims[i];
        p.y_strides[p.outer_rank] = y->strides[i];
        p.x_strides[p.outer_rank++] = x->strides[i];
        p.outer *= x->dims[i];
    }
    p.outer_rank = talc_shape_coalesce(p.outer_rank, p.outer_dims,
                                       (int64_t *const[]){ p.y_strides, p.x_strides }, 2);
    return p;
}

static talc_tensor *cumsum(talc_direction direction, const talc_tensor *x, int dim)
{
    const char *const op = names[direction];
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    const talc_cumsum_problem problem = problem_of(direction, x, y, dim);
    talc_choice choice;
    if (!talc_choose(&choice, op, x->device, x->device->backend->cumsum, &problem, NULL, 0) ||
        talc_numel(y) == 0)
        return talc_result(y, talc_error_status());
    talc_cumsum_arguments arguments = { .y = y->data, .x = x->data };
    y = talc_result(y, talc_choice_run(&choice, talc_run_dims, y, &problem, &arguments.base));
    talc_observed(op, talc_chosen(&choice), &(talc_cumsum_observed){ dim }, &x, 1, y);
    return y;
}

// ---- Gradient -----------------------------------------------------------------------------------------------

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

// ---- The op -------------------------------------------------------------------------------------------------

talc_tensor *talc_cumsum(const talc_tensor *x, int dim)
{
    const char *const op = names[TALC_FORWARD];
    if (!talc_operand_float(op, "x", x) ||
        talc_shape_dim(op, dim, x->rank == 0 ? 1 : x->rank, &dim) != TALC_OK)
        return NULL;
    return recorded(x, dim, cumsum(TALC_FORWARD, x, dim));
}
