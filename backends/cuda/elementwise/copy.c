/// Strided casting copy and fill.
///
///     dst[i0, i1, ...] = (dst_dtype) src[i0, i1, ...]
///
/// Memory-bound; map.cu has the kernels, and large contiguous copies go to the driver. Integer
/// targets truncate and saturate, NaN gives 0.
#include "backends/cuda/elementwise/map.h"

/* One dimension of stride 1, as merged dimensions of contiguous arrays are; a single element
 * too. */
static bool is_contiguous(int rank, const int64_t *strides)
{
    return rank == 0 || (rank == 1 && strides[0] == 1);
}

talc_status talc_cuda_copy(talc_device *device, const talc_copy_problem *p, void *dst,
                           const void *src)
{
    const bool casts = p->dst_dtype != p->src_dtype;
    if (!casts && is_contiguous(p->rank, p->dst_strides) &&
        is_contiguous(p->rank, p->src_strides)) {
        const size_t count = p->rank == 0 ? 1 : (size_t)p->dims[0];
        const size_t bytes = count * talc_dtype_size(p->dst_dtype);
        if (bytes > TALC_CUDA_SMALL_COPY) {
            const talc_status status = talc_cuda_enter(device, "copy");
            if (status != TALC_OK)
                return status;
            return talc_cuda_status(device, "copy",
                                    cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice,
                                                    talc_cuda_stream(device)));
        }
    }
    const talc_cuda_map map = { .function = casts ? TALC_CUDA_CAST : TALC_CUDA_COPY,
                                .dtype = p->src_dtype,
                                .to = p->dst_dtype,
                                .rank = p->rank,
                                .y = dst,
                                .a = src };
    return talc_cuda_map_run(device, "copy", map, p->dims, p->dst_strides, p->src_strides, NULL);
}

talc_status talc_cuda_fill(talc_device *device, const talc_fill_problem *p, void *dst)
{
    const talc_cuda_map map = {
        .function = TALC_CUDA_COPY, .dtype = p->dtype, .rank = p->rank, .y = dst, .scalar = p->value
    };
    return talc_cuda_map_run(device, "fill", map, p->dims, p->strides, NULL, NULL);
}
