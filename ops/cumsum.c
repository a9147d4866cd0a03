#include "ops/cumsum.h"

#include "ops/observed.h"
#include "ops/op.h"
#include "ops/operand.h"

static const char *const names[] = {
    [TALC_FORWARD] = "cumsum", [TALC_GRAD_INPUT] = "cumsum.grad_input"
};

static talc_tensor *cumsum(talc_direction direction, const talc_tensor *x, int dim,
                           const talc_record *record)
{
    const char *const op = names[direction];
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    talc_cumsum_problem problem = talc_lines_of(x, y, dim);
    problem.direction = direction;
    return talc_op_run(&(talc_call){ .op = TALC_OP_cumsum,
                                     .name = op,
                                     .problem = &problem,
                                     .inputs = { TALC_HANDED(cumsum, x, x, TALC_STRIDED) },
                                     .input_count = 1,
                                     .outputs = { TALC_OPERAND(cumsum, y, y) },
                                     .description = &(talc_cumsum_observed){ dim },
                                     .record = record });
}

static void cumsum_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    gradients[0] = cumsum(TALC_GRAD_INPUT, dy, *(const int *)talc_node_problem(node), NULL);
}

talc_tensor *talc_cumsum(const talc_tensor *x, int dim)
{
    const char *const op = names[TALC_FORWARD];
    if (!talc_operand_float(op, "x", x) ||
        talc_shape_dim(op, dim, x->rank == 0 ? 1 : x->rank, &dim) != TALC_OK)
        return NULL;
    return cumsum(TALC_FORWARD, x, dim,
                  &(talc_record){ .op = op,
                                  .rule = cumsum_gradient,
                                  .inputs = &x,
                                  .input_count = 1,
                                  .problem = &dim,
                                  .problem_bytes = sizeof dim });
}
