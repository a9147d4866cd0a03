#include "ops/matmul.h"

#include "ops/gradient.h"
#include "ops/matmul_run.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- Shared with linear -------------------------------------------------------------------------

bool talc_matmul_layout(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                        bool *transposed, int64_t *ld)
{
    /* A stride of a dimension of one element is never followed. */
    if ((column_stride == 1 || columns <= 1) && (row_stride >= columns || rows <= 1)) {
        *transposed = false;
        *ld = rows <= 1 ? columns : row_stride;
    } else if ((row_stride == 1 || rows <= 1) && (column_stride >= rows || columns <= 1)) {
        *transposed = true;
        *ld = columns <= 1 ? rows : column_stride;
    } else {
        return false;
    }
    *ld = *ld < 1 ? 1 : *ld;
    return true;
}

void talc_matmul_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_matmul_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "b%" PRId64 "m%" PRId64 "n%" PRId64 "k%" PRId64 "_%s%s%s",
             p->batch, p->M, p->N, p->K, talc_dtype_name(p->dtype), p->transpose_a ? "_ta" : "",
             p->transpose_b ? "_tb" : "");
}

// ---- Checks and shapes --------------------------------------------------------------------------

static bool check_rank(const char *name, const talc_tensor *tensor)
{
    if (tensor->rank == 0)
        talc_fail(TALC_BAD_SHAPE, "matmul: %s [] has rank 0, needs at least 1", name);
    return tensor->rank > 0;
}

/* The dimensions before the last two. */
static talc_dims batch_dims(const talc_tensor *tensor)
{
    talc_dims dims = TALC_SCALAR;
    for (int i = 0; i < tensor->rank - 2; i++)
        dims.dim[dims.rank++] = tensor->dims[i];
    return dims;
}

/* Extents and strides of an operand as a matrix; a vector is a row of a, a column of b. */
typedef struct matrix {
    int64_t rows, columns, row_stride, column_stride;
} matrix;

static matrix matrix_of(const talc_tensor *tensor, bool vector_is_row)
{
    int last = tensor->rank - 1;
    if (last > 0)
        return (matrix){ tensor->dims[last - 1], tensor->dims[last], tensor->strides[last - 1],
                         tensor->strides[last] };
    return vector_is_row ? (matrix){ 1, tensor->dims[0], 1, tensor->strides[0] }
                         : (matrix){ tensor->dims[0], 1, tensor->strides[0], 1 };
}

/* The result's shape, after checking that the operands fit. */
static bool result_dims(const talc_tensor *a, const talc_tensor *b, talc_dims *batch,
                        talc_dims *result)
{
    char text_a[TALC_DIMS_TEXT], text_b[TALC_DIMS_TEXT];
    int64_t columns = a->dims[a->rank - 1];
    int64_t rows = b->dims[b->rank == 1 ? 0 : b->rank - 2];
    if (columns != rows) {
        talc_fail(TALC_BAD_SHAPE,
                  "matmul: a %s has %" PRId64 " column%s, b %s has %" PRId64 " row%s",
                  talc_dims_text(talc_dims_of(a), text_a), columns, TALC_PLURAL(columns),
                  talc_dims_text(talc_dims_of(b), text_b), rows, TALC_PLURAL(rows));
        return false;
    }
    if (!talc_shape_broadcast(batch_dims(a), batch_dims(b), batch)) {
        talc_fail(TALC_BAD_SHAPE, "matmul: the batch dimensions of a %s and b %s do not broadcast",
                  talc_dims_text(talc_dims_of(a), text_a), talc_dims_text(talc_dims_of(b), text_b));
        return false;
    }
    *result = *batch;
    if (a->rank > 1)
        result->dim[result->rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        result->dim[result->rank++] = b->dims[b->rank - 1];
    return true;
}

// ---- Problem ------------------------------------------------------------------------------------

/* The operand itself, or a contiguous copy where neither its rows nor its columns are
 * contiguous. */
static talc_tensor *multipliable(const talc_tensor *tensor, bool vector_is_row)
{
    matrix m = matrix_of(tensor, vector_is_row);
    bool transposed;
    int64_t ld;
    if (talc_matmul_layout(m.rows, m.columns, m.row_stride, m.column_stride, &transposed, &ld))
        return talc_retain((talc_tensor *)tensor);
    return talc_contiguous_for("matmul", tensor);
}

/* Strides of an operand's batch dimensions, aligned at the last and 0 where it is stretched. */
static void batch_strides(const talc_tensor *tensor, talc_dims batch,
                          int64_t strides[TALC_MAX_RANK])
{
    int own = tensor->rank < 2 ? 0 : tensor->rank - 2;
    for (int i = 0; i < batch.rank; i++) {
        int at = i - (batch.rank - own);
        strides[i] = at < 0 || tensor->dims[at] == 1 ? 0 : tensor->strides[at];
    }
}

/* With one B for the whole batch, the matrices of a are one tall matrix where their rows are evenly
 * spaced. */
static void join_rows(const talc_tensor *a, talc_matmul_problem *p)
{
    if (p->transpose_a || a->rank < 3)
        return;
    for (int i = 0; i < p->batch_rank; i++)
        if (p->b_strides[i] != 0)
            return;
    int64_t dims[TALC_MAX_RANK], strides[TALC_MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    memcpy(strides, a->strides, sizeof strides);
    int rank = talc_shape_coalesce(a->rank - 1, dims, (int64_t *const[]){ strides }, 1);
    int64_t rows = p->batch * p->M;
    if (rank != 1 || dims[0] != rows || strides[0] < p->K)
        return;
    p->M = rows;
    p->lda = strides[0] > 0 ? strides[0] : 1;
    p->batch = 1;
    p->batch_rank = 0;
}

/* Of checked operands that a product can use as they lie. */
static talc_matmul_problem problem_of(const talc_tensor *a, const talc_tensor *b, talc_dims batch)
{
    matrix ma = matrix_of(a, true), mb = matrix_of(b, false);
    talc_matmul_problem p = { .dtype = a->dtype, .M = ma.rows, .N = mb.columns, .K = ma.columns };
    talc_matmul_layout(ma.rows, ma.columns, ma.row_stride, ma.column_stride, &p.transpose_a,
                       &p.lda);
    talc_matmul_layout(mb.rows, mb.columns, mb.row_stride, mb.column_stride, &p.transpose_b,
                       &p.ldb);
    p.batch = talc_shape_numel(batch);
    memcpy(p.batch_dims, batch.dim, sizeof p.batch_dims);
    batch_strides(a, batch, p.a_strides);
    batch_strides(b, batch, p.b_strides);
    p.batch_rank = talc_shape_coalesce(batch.rank, p.batch_dims,
                                       (int64_t *const[]){ p.a_strides, p.b_strides }, 2);
    if (p.batch > 1 && p.M > 0)
        join_rows(a, &p);
    return p;
}

// ---- The op -------------------------------------------------------------------------------------

static talc_tensor *multiply(const char *op, const talc_tensor *a, const talc_tensor *b,
                             unsigned precision, const talc_record *record)
{
    talc_dims batch, dims;
    if (!talc_operand_float("matmul", "a", a) || !talc_operand_like("matmul", "a", a, "b", b) ||
        !check_rank("a", a) || !check_rank("b", b) || !result_dims(a, b, &batch, &dims))
        return NULL;

    talc_tensor *y = talc_tensor_new(op, a->device, a->dtype, dims);
    talc_observer *observer = talc_observe_pause();
    talc_tensor *a_used = y == NULL ? NULL : multipliable(a, true);
    talc_tensor *b_used = a_used == NULL ? NULL : multipliable(b, false);
    talc_observe_resume(observer);
    talc_matmul_problem problem = { 0 };
    if (b_used != NULL)
        problem = problem_of(a_used, b_used, batch);
    talc_matmul_arguments arguments = { .a = talc_operand_data(a_used),
                                        .b = talc_operand_data(b_used) };
    y = talc_op_run(&(talc_call){ .op = TALC_OP_matmul,
                                  .name = op,
                                  .observed = "matmul",
                                  .problem = &problem,
                                  .write = talc_matmul_text,
                                  .precision = precision,
                                  .further = &arguments.base,
                                  .inputs = { TALC_SET(a), TALC_SET(b) },
                                  .input_count = 2,
                                  .outputs = { TALC_OPERAND(matmul, y, y) },
                                  .record = record });
    talc_release(a_used);
    talc_release(b_used);
    return y;
}

talc_tensor *talc_matmul_for(const char *op, const talc_tensor *a, const talc_tensor *b,
                             unsigned precision)
{
    return multiply(op, a, b, precision, NULL);
}

// ---- Gradient -----------------------------------------------------------------------------------

static talc_tensor *product(const talc_node *node, const talc_tensor *a, const talc_tensor *b)
{
    return a == NULL || b == NULL
               ? NULL
               : talc_matmul_for("matmul", a, b, *(const unsigned *)talc_node_problem(node));
}

static talc_tensor *matrices_transposed(const talc_tensor *matrices)
{
    return matrices == NULL ? NULL : talc_transpose(matrices, -2, -1);
}

/* All rows of a tensor as one matrix, for a b that serves them all: the sum over the batch is then
 * part of the product. */
static const talc_tensor *rows_of(const talc_tensor *tensor)
{
    return tensor->rank > 2 ? talc_flatten(tensor, 0, tensor->rank - 2) : tensor;
}

static void matmul_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const talc_dims a_dims = talc_node_input_dims(node, 0), b_dims = talc_node_input_dims(node, 1);
    const talc_tensor *a = talc_node_saved(node, 0), *b = talc_node_saved(node, 1);
    /* Vectors as matrices, and dy as what their product would have given. */
    if (b_dims.rank == 1) {
        b = b == NULL ? NULL : talc_unsqueeze(b, 1);
        dy = talc_unsqueeze(dy, -1);
    }
    if (a_dims.rank == 1 && dy != NULL) {
        a = a == NULL ? NULL : talc_unsqueeze(a, 0);
        dy = talc_unsqueeze(dy, dy->rank - 1);
    }
    if (dy == NULL)
        return;
    if (talc_node_wants(node, 0)) {
        const talc_dims row = TALC_DIMS(1, a_dims.dim[0]);
        talc_tensor *da = talc_tape_sum_to(product(node, dy, matrices_transposed(b)),
                                           a_dims.rank == 1 ? row : a_dims);
        gradients[0] = da == NULL ? NULL : talc_reshape(da, a_dims);
    }
    if (talc_node_wants(node, 1)) {
        if (b_dims.rank <= 2 && a != NULL && a->rank == dy->rank) {
            a = rows_of(a);
            dy = rows_of(dy);
        }
        const talc_dims column = TALC_DIMS(b_dims.dim[0], 1);
        talc_tensor *db = talc_tape_sum_to(product(node, matrices_transposed(a), dy),
                                           b_dims.rank == 1 ? column : b_dims);
        gradients[1] = db == NULL ? NULL : talc_reshape(db, b_dims);
    }
}

talc_tensor *talc_matmul(const talc_tensor *a, const talc_tensor *b)
{
    const talc_tensor *const inputs[] = { a, b };
    const unsigned precision = talc_precision_admitted();
    const talc_record record = { .op = "matmul",
                                 .rule = matmul_gradient,
                                 .inputs = inputs,
                                 .input_count = 2,
                                 .saved = { { "a", talc_tape_wants_one(b) ? a : NULL },
                                            { "b", talc_tape_wants_one(a) ? b : NULL } },
                                 .problem = &precision,
                                 .problem_bytes = sizeof precision };
    return multiply("matmul", a, b, 0, &record);
}
