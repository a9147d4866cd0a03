/// Contiguous elements copied into shared memory and out of it, 16 bytes at a time wherever they
/// are aligned. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_SHARED_COPY_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_SHARED_COPY_CUH

#include "backends/cuda/primitives/group.cuh"

#include <cuda_pipeline_primitives.h>

namespace talc
{

/// The offset of `at` in its cache line, in elements. A copy has the same offset in shared memory,
/// as copies between different offsets are slower (3x3 maxima on 56x56: 84 % of the rate of a copy,
/// else 94).
template <typename T> __device__ __forceinline__ int offset_in_line(const T *at)
{
    return (int)((uintptr_t)at % CACHE_LINE / sizeof(T));
}

/// Its offset from the last multiple of 16 bytes.
template <typename T> __device__ __forceinline__ int offset_in_vector(const T *at)
{
    return (int)((uintptr_t)at / sizeof(T) % (VECTOR_BYTES / sizeof(T)));
}

/* Calls vector(i) for each i at which an aligned vector of V elements begins, and one(i) for each
 * element in front of the first and behind the last. `offset` is the first element's in its cache
 * line or, without BY_LINE, in its vector. */
template <int THREADS, int V, bool BY_LINE, typename Vector, typename One>
__device__ __forceinline__ void for_vectors(int offset, int count, Vector vector, One one)
{
    const int head = min((V - offset % V) % V, count), vectors = (count - head) / V;
    int first = (int)threadIdx.x;
    if constexpr (BY_LINE) {
        /* Each warp begins with a cache line, so the vectors begin with a later thread. */
        first -= (offset + head) / V;
        first += first < 0 ? THREADS : 0;
    }
#pragma unroll 4
    for (int i = first; i < vectors; i += THREADS)
        vector(head + i * V);
    const int tail = count - vectors * V - head;
    if ((int)threadIdx.x < head)
        one((int)threadIdx.x);
    if ((int)threadIdx.x < tail)
        one(head + vectors * V + (int)threadIdx.x);
}

/// Begins to copy `count` elements at `from` to `shared`, which has the same offset in its cache
/// line; wait_for_copies waits for them. Called by all THREADS threads of the block.
template <int THREADS = BLOCK, bool BY_LINE = true, typename T>
__device__ __forceinline__ void copy_to_shared(T *shared, const T *from, int count)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    for_vectors<THREADS, V, BY_LINE>(
        BY_LINE ? offset_in_line(from) : offset_in_vector(from), count,
        [&](int i) { __pipeline_memcpy_async(shared + i, from + i, VECTOR_BYTES); },
        [&](int i) { __pipeline_memcpy_async(shared + i, from + i, sizeof(T)); });
    __pipeline_commit();
}

/// Begins an asynchronous copy of BYTES, 4, 8 or 16 and aligned to that: the first `real` are read,
/// the others are zero. (For each number of zeros, __pipeline_memcpy_async would branch.)
template <int BYTES>
__device__ __forceinline__ void begin_copy(unsigned at, const void *from, int real)
{
    if constexpr (BYTES == VECTOR_BYTES)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(real));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from),
                     "n"(BYTES), "r"(real));
}

template <int BYTES>
__device__ __forceinline__ void begin_copy(void *to, const void *from, int real)
{
    begin_copy<BYTES>((unsigned)__cvta_generic_to_shared(to), from, real);
}

static __device__ __forceinline__ void wait_for_copies()
{
    __pipeline_wait_prior(0);
    __syncthreads();
}

/// Stores `count` elements of `shared`, which has the offset of `to`, as last(element, its number).
/// Called by all THREADS threads of the block.
template <int THREADS = BLOCK, typename To, typename From, typename Last>
__device__ __forceinline__ void store_from_shared(To *to, const From *shared, int count, Last last)
{
    constexpr int V = VECTOR_BYTES / sizeof(To);
    for_vectors<THREADS, V, true>(
        offset_in_line(to), count,
        [&](int i) {
            const vec<From, V> some = *(const vec<From, V> *)(shared + i);
            vec<To, V> out;
#pragma unroll
            for (int k = 0; k < V; k++)
                out.of[k] = last(some.of[k], i + k);
            *(vec<To, V> *)(to + i) = out;
        },
        [&](int i) { to[i] = last(shared[i], i); });
}

} // namespace talc

#endif
