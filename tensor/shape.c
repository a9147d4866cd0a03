#include "tensor/shape.h"

#include "tensor/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *talc_dims_text(talc_dims dims, char text[TALC_DIMS_TEXT])
{
    int rank = dims.rank < 0 ? 0 : dims.rank > TALC_MAX_RANK ? TALC_MAX_RANK : dims.rank;
    size_t used = 0;
    text[used++] = '[';
    for (int i = 0; i < rank; i++)
        used += (size_t)snprintf(text + used, TALC_DIMS_TEXT - used,
                                 i == 0 ? "%" PRId64 : ",%" PRId64, dims.dim[i]);
    snprintf(text + used, TALC_DIMS_TEXT - used, "]");
    return text;
}

talc_status talc_shape_check(const char *who, talc_dtype dtype, talc_dims dims, int64_t *numel)
{
    char text[TALC_DIMS_TEXT];
    size_t size = talc_dtype_size(dtype);
    if (size == 0)
        return talc_fail(TALC_BAD_DTYPE, "%s: unknown dtype %d", who, (int)dtype);
    if (dims.rank < 0 || dims.rank > TALC_MAX_RANK)
        return talc_fail(TALC_BAD_SHAPE, "%s: rank %d is outside 0..%d", who, dims.rank,
                         TALC_MAX_RANK);
    for (int i = 0; i < dims.rank; i++)
        if (dims.dim[i] < 0)
            return talc_fail(TALC_BAD_SHAPE, "%s: shape %s has the negative dimension %" PRId64,
                             who, talc_dims_text(dims, text), dims.dim[i]);
    /* A zero anywhere makes the tensor empty, but the other extents still have to multiply within
     * bounds, so that strides fit. */
    int64_t bytes = (int64_t)size;
    int64_t product = 1;
    for (int i = 0; i < dims.rank; i++) {
        int64_t extent = dims.dim[i] == 0 ? 1 : dims.dim[i];
        if (!talc_multiply(bytes, extent, &bytes))
            return talc_fail(TALC_TOO_LARGE, "%s: shape %s of %s needs more than %" PRId64 " bytes",
                             who, talc_dims_text(dims, text), talc_dtype_name(dtype), INT64_MAX);
        product *= dims.dim[i];
    }
    *numel = product;
    return TALC_OK;
}

void talc_shape_strides(talc_dims dims, int64_t strides[TALC_MAX_RANK])
{
    memset(strides, 0, sizeof(int64_t) * TALC_MAX_RANK);
    int64_t stride = 1;
    for (int i = dims.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims.dim[i] == 0 ? 1 : dims.dim[i];
    }
}

int64_t talc_shape_numel(talc_dims dims)
{
    int64_t numel = 1;
    for (int i = 0; i < dims.rank; i++)
        numel *= dims.dim[i];
    return numel;
}

bool talc_shape_equal(talc_dims a, talc_dims b)
{
    return a.rank == b.rank && memcmp(a.dim, b.dim, sizeof(int64_t) * (size_t)a.rank) == 0;
}

bool talc_shape_broadcast(talc_dims a, talc_dims b, talc_dims *result)
{
    talc_dims out = { .rank = a.rank > b.rank ? a.rank : b.rank };
    for (int i = 0; i < out.rank; i++) {
        int ia = i - (out.rank - a.rank);
        int ib = i - (out.rank - b.rank);
        int64_t extent_a = ia < 0 ? 1 : a.dim[ia];
        int64_t extent_b = ib < 0 ? 1 : b.dim[ib];
        if (extent_a != extent_b && extent_a != 1 && extent_b != 1)
            return false;
        out.dim[i] = extent_a == 1 ? extent_b : extent_a;
    }
    *result = out;
    return true;
}

void talc_shape_broadcast_strides(const talc_tensor *tensor, talc_dims dims,
                                  int64_t strides[TALC_MAX_RANK])
{
    memset(strides, 0, sizeof(int64_t) * TALC_MAX_RANK);
    int shift = dims.rank - tensor->rank;
    for (int i = 0; i < tensor->rank; i++)
        strides[i + shift] = tensor->dims[i] == dims.dim[i + shift] ? tensor->strides[i] : 0;
}

talc_status talc_shape_dim(const char *who, int dim, int rank, int *result)
{
    int counted = dim < 0 ? dim + rank : dim;
    if (counted < 0 || counted >= rank)
        return talc_fail(TALC_BAD_ARGUMENT, "%s: dimension %d is outside a tensor of rank %d", who,
                         dim, rank);
    *result = counted;
    return TALC_OK;
}

int talc_shape_coalesce(int rank, int64_t dims[TALC_MAX_RANK], int64_t *const strides[], int count)
{
    int merged = 0; /* dimensions 0 .. merged-1 are the result so far */
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 1)
            continue;
        bool joins = merged > 0;
        for (int s = 0; s < count && joins; s++)
            joins = strides[s][merged - 1] == strides[s][i] * dims[i];
        int target = joins ? merged - 1 : merged++;
        dims[target] = joins ? dims[target] * dims[i] : dims[i];
        for (int s = 0; s < count; s++)
            strides[s][target] = strides[s][i];
    }
    return merged;
}
