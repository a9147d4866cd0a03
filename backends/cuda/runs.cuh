/// Runs of memory on their way into shared memory and out of it, as they lie: in pieces of 16 bytes, whatever the images in
/// them are. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_RUNS_CUH
#define TALC_BACKENDS_CUDA_RUNS_CUH

#include "backends/cuda/group.cuh"

#include <cuda_pipeline_primitives.h>

namespace talc
{

/// Bytes of a line of cache. Warps whose accesses begin and end with one move no more than they need.
constexpr int LINE = 128;

/// How far behind the beginning of a line `at` stands, in elements. A run keeps that place in shared memory: copies from one place
/// to another are slower (3x3 maxima on 56x56: 84 % of the rate of a copy, else 94).
template <typename T> __device__ __forceinline__ int place_of(const T *at)
{
    return (int)((uintptr_t)at % LINE / sizeof(T));
}

/// And behind the beginning of 16 bytes.
template <typename T> __device__ __forceinline__ int place_in_access(const T *at)
{
    return (int)((uintptr_t)at / sizeof(T) % (ACCESS / sizeof(T)));
}

/* Calls pack(i) for each i at which a whole piece of the run begins, and one(i) for each other element. `place` is that in a line,
 * or, not LINED, in a piece. */
template <int THREADS, int V, bool LINED, typename Pack, typename One>
__device__ __forceinline__ void for_run(int place, int count, Pack pack, One one)
{
    const int head = min((V - place % V) % V, count), packs = (count - head) / V;
    int first = (int)threadIdx.x;
    if constexpr (LINED) {
        /* Warps begin with a line, so that the first threads come in later. */
        first -= (place + head) / V;
        first += first < 0 ? THREADS : 0;
    }
#pragma unroll 4
    for (int i = first; i < packs; i += THREADS)
        pack(head + i * V);
    const int tail = count - packs * V - head;
    if ((int)threadIdx.x < head)
        one((int)threadIdx.x);
    if ((int)threadIdx.x < tail)
        one(head + packs * V + (int)threadIdx.x);
}

/// All THREADS threads of the block begin to copy `count` elements at `from` to `shared`, which stands at the same place. They have
/// arrived after await_run.
template <int THREADS = BLOCK, bool LINED = true, typename T>
__device__ __forceinline__ void copy_run(T *shared, const T *from, int count)
{
    constexpr int V = ACCESS / sizeof(T);
    for_run<THREADS, V, LINED>(
        LINED ? place_of(from) : place_in_access(from), count,
        [&](int i) { __pipeline_memcpy_async(shared + i, from + i, ACCESS); },
        [&](int i) { __pipeline_memcpy_async(shared + i, from + i, sizeof(T)); });
    __pipeline_commit();
}

static __device__ __forceinline__ void await_run()
{
    __pipeline_wait_prior(0);
    __syncthreads();
}

/// All THREADS threads of the block store `count` elements of `shared`, at the place of `to`; `last` maps an element and its
/// number.
template <int THREADS = BLOCK, typename To, typename From, typename Last>
__device__ __forceinline__ void store_run(To *to, const From *shared, int count, Last last)
{
    constexpr int V = ACCESS / sizeof(To);
    for_run<THREADS, V, true>(
        place_of(to), count,
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
