#include "ops/lines.h"

#include "tensor/shape.h"

talc_lines_problem talc_lines_of(const talc_tensor *x, const talc_tensor *y, int dim)
{
    talc_lines_problem p = { .dtype = x->dtype, .extent = 1, .outer = 1 };
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
