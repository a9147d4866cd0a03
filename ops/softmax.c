#include "ops/softmax.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/observed.h"
#include "ops/operand.h"
#include "tensor/observe.h"
#include "tensor/run.h"

static talc_softmax_problem problem_of(bool log, const talc_tensor *x, const talc_tensor *y,
                                       int dim)
{
    talc_softmax_problem p = { .dtype = x->dtype, .log = log, .extent = 1, .outer = 1 };
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

static const talc_softmax_algorithm *choose(const char *op, talc_device *device,
                                            const talc_softmax_problem *problem, size_t *workspace)
{
    talc_choice choice = talc_choice_begin(op, device, NULL, 0);
    const talc_softmax_algorithm *row = device->backend->softmax;
    for (; row != NULL && row->algorithm.name != NULL; row++) {
        const char *refusal = row->refuses(problem);
        *workspace = refusal != NULL || row->workspace == NULL ? 0 : row->workspace(problem);
        if (talc_choice_admits(&choice, &row->algorithm, refusal, *workspace))
            return row;
    }
    talc_choice_fail(&choice);
    return NULL;
}

static talc_status run(const char *op, const talc_softmax_algorithm *row,
                       const talc_softmax_problem *problem, size_t workspace, const talc_tensor *x,
                       talc_tensor *y)
{
    talc_block block;
    talc_status status = talc_block_new(y->device, op, workspace, &block);
    if (status != TALC_OK)
        return status;
    const talc_softmax_arguments arguments = {
        .y = y->data, .x = x->data, .workspace = block.data, .workspace_bytes = workspace
    };
    talc_run timed = talc_run_begin(op, y->device, row->algorithm.name, talc_run_dims, y);
    status = talc_run_end(&timed, row->run(y->device, problem, &arguments));
    talc_block_free(y->device, block);
    return status;
}

static talc_tensor *softmax(const char *op, bool log, const talc_tensor *x, int dim)
{
    if (!talc_operand_float(op, "x", x) ||
        talc_shape_dim(op, dim, x->rank == 0 ? 1 : x->rank, &dim) != TALC_OK)
        return NULL;

    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    talc_softmax_problem problem = problem_of(log, x, y, dim);
    size_t workspace;
    const talc_softmax_algorithm *row = choose(op, x->device, &problem, &workspace);
    if (row == NULL || talc_numel(y) == 0)
        return talc_result(y, talc_error_status());
    y = talc_result(y, run(op, row, &problem, workspace, x, y));
    talc_observed(op, &row->algorithm, &(talc_softmax_observed){ log, dim }, &x, 1, y);
    return y;
}

talc_tensor *talc_softmax(const talc_tensor *x, int dim)
{
    return softmax("softmax", false, x, dim);
}

talc_tensor *talc_log_softmax(const talc_tensor *x, int dim)
{
    return softmax("log_softmax", true, x, dim);
}
