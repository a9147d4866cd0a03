/// What matmul and linear share. Private to ops.
#ifndef TALC_OPS_MATMUL_RUN_H
#define TALC_OPS_MATMUL_RUN_H

#include "ops/matmul.h"
#include "tensor/run.h"

/// How a strided matrix [rows, columns] is handed to a product. False when neither its rows nor its
/// columns are contiguous; it has to be copied then.
bool talc_matmul_layout(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                        bool *transposed, int64_t *ld);

/// The text of a problem.
talc_run_text talc_matmul_text;

/// talc_matmul as a step of `op`, which names what is chosen, with these classes; 0: the thread's.
talc_tensor *talc_matmul_for(const char *op, const talc_tensor *a, const talc_tensor *b,
                             unsigned precision);

#endif
