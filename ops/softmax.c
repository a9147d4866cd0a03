#include "ops/softmax.h"

#include "ops/elementwise.h"
#include "ops/observed.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "ops/reduce.h"

// ---- Gradient -----------------------------------------------------------------------------------

/* What the rules are made for: the problem is the dimension, what is saved is y. */
static talc_tensor *sum_of(const talc_node *node, const talc_tensor *tensor)
{
    const int dim = *(const int *)talc_node_problem(node);
    return tensor == NULL ? NULL : talc_sum(tensor, TALC_DIMS(dim), true);
}

static void softmax_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const talc_tensor *y = talc_node_saved(node, 0);
    const talc_tensor *sum = sum_of(node, talc_mul(dy, y));
    const talc_tensor *rest = sum == NULL ? NULL : talc_sub(dy, sum);
    gradients[0] = rest == NULL ? NULL : talc_mul(y, rest);
}

static void log_softmax_gradient(const talc_node *node, const talc_tensor *dy,
                                 talc_tensor *gradients[])
{
    const talc_tensor *y = talc_exp(talc_node_saved(node, 0)), *sum = sum_of(node, dy);
    const talc_tensor *share = y == NULL || sum == NULL ? NULL : talc_mul(y, sum);
    gradients[0] = share == NULL ? NULL : talc_sub(dy, share);
}

// ---- The op -------------------------------------------------------------------------------------

static talc_tensor *softmax(const char *op, bool log, const talc_tensor *x, int dim)
{
    if (!talc_operand_float(op, "x", x) ||
        talc_shape_dim(op, dim, x->rank == 0 ? 1 : x->rank, &dim) != TALC_OK)
        return NULL;

    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    talc_softmax_problem problem = talc_lines_of(x, y, dim);
    problem.log = log;
    return talc_op_run(&(talc_call){
        .op = TALC_OP_softmax,
        .name = op,
        .problem = &problem,
        .inputs = { TALC_HANDED(softmax, x, x, TALC_STRIDED) },
        .input_count = 1,
        .outputs = { TALC_OPERAND(softmax, y, y) },
        .description = &(talc_softmax_observed){ log, dim },
        .record = &(talc_record){ .op = op,
                                  .rule = log ? log_softmax_gradient : softmax_gradient,
                                  .inputs = &x,
                                  .input_count = 1,
                                  .saved = { { "y", y } },
                                  .problem = &dim,
                                  .problem_bytes = sizeof dim } });
}

talc_tensor *talc_softmax(const talc_tensor *x, int dim)
{
    return softmax("softmax", false, x, dim);
}

talc_tensor *talc_log_softmax(const talc_tensor *x, int dim)
{
    return softmax("log_softmax", true, x, dim);
}
