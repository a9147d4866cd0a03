#include "ops/cumprod.h"

#include "ops/observed.h"
#include "ops/op.h"
#include "ops/operand.h"

static const char *const OP = "cumprod", *const GRADIENT = "cumprod.grad_input";

static void cumprod_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const talc_tensor *x = talc_node_saved(node, 0);
    talc_tensor *dx = talc_tensor_new(GRADIENT, dy->device, dy->dtype, talc_dims_of(dy));
    if (dx == NULL)
        return;
    talc_cumprod_problem problem = talc_lines_of(dx, dx, *(const int *)talc_node_problem(node));
    problem.direction = TALC_GRAD_INPUT;
    gradients[0] = talc_op_run(
        &(talc_call){ .op = TALC_OP_cumprod,
                      .name = GRADIENT,
                      .problem = &problem,
                      .inputs = { TALC_OPERAND(cumprod, x, x), TALC_OPERAND(cumprod, dy, dy) },
                      .input_count = 2,
                      .outputs = { TALC_OPERAND(cumprod, dx, dx) } });
}

talc_tensor *talc_cumprod(const talc_tensor *x, int dim)
{
    if (!talc_operand_float(OP, "x", x) ||
        talc_shape_dim(OP, dim, x->rank == 0 ? 1 : x->rank, &dim) != TALC_OK)
        return NULL;
    talc_tensor *y = talc_tensor_new(OP, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    const talc_cumprod_problem problem = talc_lines_of(x, y, dim);
    return talc_op_run(&(talc_call){ .op = TALC_OP_cumprod,
                                     .name = OP,
                                     .problem = &problem,
                                     .inputs = { TALC_HANDED(cumprod, x, x, TALC_STRIDED) },
                                     .input_count = 1,
                                     .outputs = { TALC_OPERAND(cumprod, y, y) },
                                     .description = &(talc_cumsum_observed){ dim },
                                     .record = &(talc_record){ .op = OP,
                                                               .rule = cumprod_gradient,
                                                               .inputs = &x,
                                                               .input_count = 1,
                                                               .saved = { { "x", x } },
                                                               .problem = &dim,
                                                               .problem_bytes = sizeof dim } });
}
