/// Maps (map.h): what all its kernels share: offsets, loads and stores, and the functions. Private
/// to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_ELEMENT_CUH
#define TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_ELEMENT_CUH

#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/elementwise/map.h"
#include "backends/cuda/primitives/group.cuh"

namespace talc
{

/// The arrays of a map, in this order wherever there is something of each.
enum { Y, A, B, ARRAYS };

/// What a kernel is given of every map. A NULL operand is the scalar, `bits` of the operands' type,
/// as the numbers are.
struct map_operands {
    void *y;
    const void *x[ARRAYS]; ///< of A and B
    uint64_t bits;
    uint64_t numbers[2]; ///< of the function
    int function;
    talc_dtype to;
};

// ---- Where elements stand -----------------------------------------------------------------------

struct map_offsets {
    int64_t of[ARRAYS];
};

/// The offsets of an element. The outermost dimension takes no division.
struct map_index {
    int rank; ///< at least 1
    divisor<uint32_t> dims[TALC_MAX_RANK];
    int64_t strides[ARRAYS][TALC_MAX_RANK];

    /// Of K indices at once. `left`: each element and those that follow it in its row.
    template <int K>
    __device__ __forceinline__ void find(uint32_t (&index)[K], map_offsets (&at)[K],
                                         uint32_t (&left)[K]) const
    {
#pragma unroll
        for (int k = 0; k < K; k++)
            at[k] = {}, left[k] = dims[0].by - index[k];
#pragma unroll 1
        for (int i = rank - 1; i > 0; i--) {
            const divisor<uint32_t> by = dims[i];
#pragma unroll
            for (int k = 0; k < K; k++) {
                const uint32_t rest = by.quotient(index[k]), digit = index[k] - rest * by.by;
                left[k] = i == rank - 1 ? by.by - digit : left[k];
#pragma unroll
                for (int o = 0; o < ARRAYS; o++)
                    at[k].of[o] += digit * strides[o][i];
                index[k] = rest;
            }
        }
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int o = 0; o < ARRAYS; o++)
                at[k].of[o] += index[k] * strides[o][0];
    }

    __device__ __forceinline__ map_offsets find(uint32_t index) const
    {
        uint32_t left[1], one[1] = { index };
        map_offsets at[1];
        find(one, at, left);
        return at[0];
    }
};

// ---- Access -------------------------------------------------------------------------------------

/* Bytes of the accesses that move N elements, where they are aligned. */
template <typename T, int N>
constexpr int WIDE = N *(int)sizeof(T) < VECTOR_BYTES ? N *(int)sizeof(T) : VECTOR_BYTES;

template <typename T, int N> __device__ __forceinline__ bool moves_wide(const T *at, int64_t step)
{
    return N > 1 && step == 1 && (uintptr_t)at % WIDE<T, N> == 0;
}

/* An element that is broadcast is loaded N times: copies of it would wait for it here, before the
 * next loads. */
template <int N, typename T>
__device__ __forceinline__ void load(T *values, const T *from, int64_t step)
{
    constexpr int V = WIDE<T, N> / (int)sizeof(T);
    if (moves_wide<T, N>(from, step)) {
#pragma unroll
        for (int v = 0; v < N; v += V) {
            const vec<T, V> some = *(const vec<T, V> *)(from + v);
#pragma unroll
            for (int k = 0; k < V; k++)
                values[v + k] = some.of[k];
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        values[k] = from[k * step];
}

template <int N, typename T>
__device__ __forceinline__ void store(T *to, int64_t step, const T *values)
{
    constexpr int V = WIDE<T, N> / (int)sizeof(T);
    if (moves_wide<T, N>(to, step)) {
#pragma unroll
        for (int v = 0; v < N; v += V) {
            vec<T, V> some;
#pragma unroll
            for (int k = 0; k < V; k++)
                some.of[k] = values[v + k];
            *(vec<T, V> *)(to + v) = some;
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        to[k * step] = values[k];
}

// ---- Functions ----------------------------------------------------------------------------------

/* Integers whose operations wrap around are computed without sign. */
template <typename T, bool FLOAT = std::is_floating_point_v<T>> struct arithmetic {
    using type = T;
};
template <typename T> struct arithmetic<T, false> {
    using type = std::make_unsigned_t<T>;
};

/// Bits that the host set, as a T.
template <typename T> __device__ __forceinline__ T element_of(uint64_t bits)
{
    T element;
    memcpy(&element, &bits, sizeof element);
    return element;
}

/* a[k] = f(a[k], b[k]), where p and q are the function's numbers; a copy leaves a as it is. */
template <int N, typename T>
__device__ __forceinline__ void apply_inline(int function, [[maybe_unused]] T p,
                                             [[maybe_unused]] T q, T (&a_values)[N],
                                             const T (&b_values)[N])
{
    using U = typename arithmetic<T>::type;
    constexpr bool FLOAT = std::is_floating_point_v<T>;
    switch (function) {
#define TALC_CASE(constant, name, numbers_, with, value, ...)                                      \
    case constant:                                                                                 \
        if constexpr (FLOAT || constant == TALC_NEG) {                                             \
            _Pragma("unroll") for (int k = 0; k < N; k++)                                          \
            {                                                                                      \
                const U x = (U)a_values[k];                                                        \
                [[maybe_unused]] const T t = (T)(with);                                            \
                a_values[k] = (T)(value);                                                          \
            }                                                                                      \
        }                                                                                          \
        break;
        TALC_UNARY_TABLE(TALC_CASE)
#undef TALC_CASE
#define TALC_CASE(constant, name, kind, value, ...)                                                \
    case TALC_CUDA_BINARY + (int)constant:                                                         \
        if constexpr (FLOAT || kind != TALC_FLOATS)                                                \
            _Pragma("unroll") for (int k = 0; k < N; k++)                                          \
            {                                                                                      \
                using W = std::conditional_t<kind == TALC_WRAPS, U, T>;                            \
                const W a = (W)a_values[k], b = (W)b_values[k];                                    \
                a_values[k] = (T)(value);                                                          \
            }                                                                                      \
        break;
        TALC_BINARY_TABLE(TALC_CASE)
#undef TALC_CASE
/* A row that has a t saves x. */
#define TALC_CASE(constant, name, numbers_, with, value, saved, gradient)                          \
    case TALC_CUDA_BINARY + (int)constant##_GRADIENT:                                              \
        if constexpr (FLOAT) {                                                                     \
            _Pragma("unroll") for (int k = 0; k < N; k++)                                          \
            {                                                                                      \
                [[maybe_unused]] const T dy = a_values[k], s = b_values[k], x = s;                 \
                [[maybe_unused]] const T t = (T)(with);                                            \
                a_values[k] = (T)(gradient);                                                       \
            }                                                                                      \
        }                                                                                          \
        break;
        TALC_UNARY_TABLE(TALC_CASE)
#undef TALC_CASE
    default:
        break;
    }
}

template <typename T> static __device__ __noinline__ T apply_apart(int function, T p, T q, T a, T b)
{
    T a_values[1] = { a };
    const T b_values[1] = { b };
    apply_inline(function, p, q, a_values, b_values);
    return a_values[0];
}

/// a[k] = f(a[k], b[k]); a copy leaves a as it is. APART: by a call of all functions for each
/// element, instead of N times each function in the kernel.
template <bool APART, int N, typename T>
__device__ __forceinline__ void apply(const map_operands &m, T (&a_values)[N],
                                      const T (&b_values)[N])
{
    const T p = element_of<T>(m.numbers[0]), q = element_of<T>(m.numbers[1]);
    if constexpr (APART) {
#pragma unroll
        for (int k = 0; k < N; k++)
            a_values[k] = apply_apart(m.function, p, q, a_values[k], b_values[k]);
    } else {
        apply_inline(m.function, p, q, a_values, b_values);
    }
}

/* The device's own conversions from float to integer saturate and turn NaN to 0 (for i64 NaN is
 * INT64_MIN, so it is tested); integers saturate here. */
template <typename To, typename From> __device__ __forceinline__ To converted(From x)
{
    if constexpr (std::is_floating_point_v<To>) {
        return (To)x;
    } else {
        constexpr bool SIGNED = std::is_signed_v<To>;
        constexpr int64_t HIGH = (int64_t)(UINT64_MAX >> (64 - 8 * sizeof(To) + SIGNED)),
                          LOW = SIGNED ? -HIGH - 1 : 0;
        const int64_t i = x != x ? 0 : (int64_t)x;
        return (To)(i < LOW ? LOW : i > HIGH ? HIGH : i);
    }
}

template <int N, typename To, typename From>
__device__ __forceinline__ void store_converted(const map_operands &m, int64_t at, int64_t step,
                                                const From *values)
{
    if constexpr (!std::is_same_v<To, From>) {
        To results[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            results[k] = converted<To>(values[k]);
        store<N>((To *)m.y + at, step, results);
    }
}

/// Stores N results from element `at` of y on. CASTS: the map is a cast, else y is of type T.
template <bool CASTS, int N, typename T>
__device__ __forceinline__ void store_results(const map_operands &m, int64_t at, int64_t step,
                                              const T *values)
{
    if constexpr (!CASTS) {
        store<N>((T *)m.y + at, step, values);
        return;
    }
    switch (m.to) {
#define TALC_CASE(constant, name, To, safetensors)                                                 \
    case constant:                                                                                 \
        store_converted<N, To>(m, at, step, values);                                               \
        break;
        TALC_DTYPE_TABLE(TALC_CASE)
#undef TALC_CASE
    default:
        break;
    }
}

} // namespace talc

#endif
