/// Strided casting copy and fill.
///
///     dst[i0, i1, ...] = (dst_dtype) src[i0, i1, ...]
///
/// Memory-bound; map.cuh has the ways through strided arrays, and equal dense ones go by the driver's copy. Integer targets
/// truncate and saturate, NaN gives 0.
#include "backends/cuda/map.cuh"

using namespace talc;

// ---- Casts --------------------------------------------------------------------------------------------------

/* Device conversions from float to integer saturate and turn NaN to 0 by themselves (for i64 NaN is INT64_MIN, so it is
 * tested); integers saturate here. */
template <typename S> static __device__ int64_t to_i64(S x)
{
    return x != x ? 0 : (int64_t)x;
}

template <typename T, typename S> struct cast {
    static __device__ T of(S x)
    {
        return (T)x;
    }
};

template <typename S> struct cast<int64_t, S> {
    static __device__ int64_t of(S x)
    {
        return to_i64(x);
    }
};

template <typename S> struct cast<int32_t, S> {
    static __device__ int32_t of(S x)
    {
        const int64_t i = to_i64(x);
        return (int32_t)(i < INT_MIN ? INT_MIN : i > INT_MAX ? INT_MAX : i);
    }
};

template <typename S> struct cast<uint8_t, S> {
    static __device__ uint8_t of(S x)
    {
        const int64_t i = to_i64(x);
        return (uint8_t)(i < 0 ? 0 : i > UCHAR_MAX ? UCHAR_MAX : i);
    }
};

// ---- Copy ---------------------------------------------------------------------------------------------------

template <typename T, typename S> struct cast_of {
    static __device__ T value_at(S x, S)
    {
        return cast<T, S>::of(x);
    }
};

template <typename T> constexpr bool talc::moves_only<cast_of<T, T>> = true;

template <typename T, typename S>
static void launch_copy(talc_device *device, const talc_copy_problem *p, void *dst, const void *src)
{
    map_problem m = {};
    m.rank = p->rank;
    memcpy(m.dims, p->dims, sizeof m.dims);
    memcpy(m.strides[0], p->dst_strides, sizeof m.dims);
    memcpy(m.strides[1], p->src_strides, sizeof m.dims);
    m.y = dst, m.a = src;
    map<cast_of<T, S>, 1, T, S>(device, m, (S)0);
}

template <typename S>
static void copy_from(talc_device *device, const talc_copy_problem *p, void *dst, const void *src)
{
    switch (p->dst_dtype) {
#define CASE(constant, name, T, safetensors)                                                       \
    case constant:                                                                                 \
        launch_copy<T, S>(device, p, dst, src);                                                    \
        break;
        TALC_DTYPE_TABLE(CASE)
#undef CASE
    default:
        break;
    }
}

talc_status talc_cuda_copy(talc_device *device, const talc_copy_problem *p, void *dst,
                           const void *src)
{
    const talc_status status = talc_cuda_enter(device, "copy");
    if (status != TALC_OK)
        return status;
    if (p->dst_dtype == p->src_dtype && is_dense(p->rank, p->dst_strides) &&
        is_dense(p->rank, p->src_strides)) {
        const size_t bytes = (size_t)count_of(p->rank, p->dims) * talc_dtype_size(p->dst_dtype);
        if (bytes > SMALL_COPY)
            return talc_cuda_status(device, "copy",
                                    cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice,
                                                    talc_cuda_stream(device)));
    }
    switch (p->src_dtype) {
#define CASE(constant, name, S, safetensors)                                                       \
    case constant:                                                                                 \
        copy_from<S>(device, p, dst, src);                                                         \
        break;
        TALC_DTYPE_TABLE(CASE)
#undef CASE
    default:
        break;
    }
    return talc_cuda_launched(device, "copy");
}

// ---- Fill ---------------------------------------------------------------------------------------------------

template <typename T> struct filling {
    static __device__ T value_at(double value, double)
    {
        return cast<T, double>::of(value);
    }
};

template <typename T>
static void launch_fill(talc_device *device, const talc_fill_problem *p, void *dst)
{
    map_problem m = {};
    m.rank = p->rank;
    memcpy(m.dims, p->dims, sizeof m.dims);
    memcpy(m.strides[0], p->strides, sizeof m.dims);
    m.y = dst;
    map<filling<T>, 0, T>(device, m, p->value);
}

talc_status talc_cuda_fill(talc_device *device, const talc_fill_problem *p, void *dst)
{
    const talc_status status = talc_cuda_enter(device, "fill");
    if (status != TALC_OK)
        return status;
    switch (p->dtype) {
#define CASE(constant, name, T, safetensors)                                                       \
    case constant:                                                                                 \
        launch_fill<T>(device, p, dst);                                                            \
        break;
        TALC_DTYPE_TABLE(CASE)
#undef CASE
    default:
        break;
    }
    return talc_cuda_launched(device, "fill");
}
