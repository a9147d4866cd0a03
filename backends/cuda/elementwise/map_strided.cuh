/// Maps (map.h): the strided kernel, and with V elements at once the vectorized one. Private to
/// backends/cuda.
///
/// A thread takes V neighbouring elements of y: one division a dimension for all of them, and
/// 16-byte accesses wherever an array is contiguous and aligned. V is 1 where rows are too short
/// for that or not contiguous. A block's vectors are next to each other, and it takes no others:
/// blocks that go on in steps of the grid have more pages of memory open at a time.
#ifndef TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_STRIDED_CUH
#define TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_STRIDED_CUH

#include "backends/cuda/elementwise/map_element.cuh"

namespace talc
{

struct strided_plan {
    map_operands m;
    map_index index;
    uint32_t count;   ///< elements
    uint32_t vectors; ///< of V elements, of which the first begins
    uint32_t shift;   ///< elements before y, where its address is a multiple of 16
};

/* Vectors that a thread has in flight: 32 bytes, and fewer where their elements would not stay in
 * registers. */
template <typename T, int V> constexpr int AHEAD = V == 1 || V * sizeof(T) <= 8 ? 4 : V > 4 ? 1 : 2;

/* The elements of a vector one after the other: one that begins before y, ends behind it, or goes
 * on in another row. */
template <bool CASTS, typename T>
__device__ __forceinline__ void map_one_by_one(const strided_plan &p, int first, int end)
{
#pragma unroll 1
    for (int i = first; i < end; i++) {
        if (i < 0 || i >= (int)p.count)
            continue;
        const map_offsets at = p.index.find((uint32_t)i);
        T a[1] = { element_of<T>(p.m.bits) }, b[1] = { a[0] };
        if (p.m.x[A] != NULL)
            a[0] = ((const T *)p.m.x[A])[at.of[A]];
        if (p.m.x[B] != NULL)
            b[0] = ((const T *)p.m.x[B])[at.of[B]];
        if (!CASTS)
            apply<std::is_same_v<T, double>>(p.m, a, b);
        store_results<CASTS, 1>(p.m, at.of[Y], 1, a);
    }
}

template <typename T, int V, bool CASTS>
static __global__ void __launch_bounds__(BLOCK) map_strided(const strided_plan p)
{
    constexpr int K = AHEAD<T, V>;
    const int last = p.index.rank - 1;
    const uint32_t i = blockIdx.x * (BLOCK * K) + threadIdx.x;
    if (i >= p.vectors)
        return;
    T a[K * V], b[K * V];
    uint32_t index[K], left[K];
    map_offsets at[K];
    bool whole[K];
#pragma unroll
    for (int k = 0; k < K * V; k++)
        a[k] = b[k] = element_of<T>(p.m.bits);
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int first = (int)((i + k * BLOCK) * V) - (int)p.shift;
        whole[k] = first >= 0 && first + V <= (int)p.count;
        index[k] = whole[k] ? (uint32_t)first : 0;
    }
    p.index.find(index, at, left);
#pragma unroll
    for (int k = 0; k < K; k++) {
        whole[k] = whole[k] && left[k] >= V;
        if (whole[k] && p.m.x[A] != NULL)
            load<V>(a + k * V, (const T *)p.m.x[A] + at[k].of[A], p.index.strides[A][last]);
        if (whole[k] && p.m.x[B] != NULL)
            load<V>(b + k * V, (const T *)p.m.x[B] + at[k].of[B], p.index.strides[B][last]);
    }
    if (!CASTS)
        apply<std::is_same_v<T, double>>(p.m, a, b);
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int first = (int)((i + k * BLOCK) * V) - (int)p.shift;
        if (whole[k])
            store_results<CASTS, V>(p.m, at[k].of[Y], p.index.strides[Y][last], a + k * V);
        else if (V > 1)
            map_one_by_one<CASTS, T>(p, first, first + V);
    }
}

} // namespace talc

#endif
