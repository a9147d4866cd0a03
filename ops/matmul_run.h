/// What matmul and linear share. Private to ops.
#ifndef TALC_OPS_MATMUL_RUN_H
#define TALC_OPS_MATMUL_RUN_H

#include "ops/matmul.h"

/// How a strided matrix [rows, columns] is handed to a product. False when its elements lie neither along rows nor
/// along columns without gaps; it has to be copied then.
bool talc_matmul_layout(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                        bool *transposed, int64_t *ld);

/// The row that `op` runs; NULL with a failure. `forced` and `precision` as in talc_choice_begin.
const talc_matmul_algorithm *talc_matmul_choose(const char *op, talc_device *device,
                                                const char *forced, unsigned precision,
                                                const talc_matmul_problem *problem);

/// Runs the problem on a row, unless y is empty; NULL, for which the failure stands, passes.
talc_status talc_matmul_run(const char *op, talc_device *device, const talc_matmul_algorithm *row,
                            const talc_matmul_problem *problem,
                            const talc_matmul_arguments *arguments);

#endif
