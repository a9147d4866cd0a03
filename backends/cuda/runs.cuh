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

/// How far behind a multiple of `bytes` bytes `at` stands, in elements. A run keeps its place in a line in shared memory: copies
/// from one place to another are slower (3x3 maxima on 56x56: 84 % of the rate of a copy, else 94).
template <typename T> __device__ __forceinline__ int place_of(const T *at, int bytes = LINE)
{
    return (int)((uintptr_t)at % bytes / sizeof(T));
}

/* Calls pack(i) for each i at which a whole piece of the run begins, and one(i) for each other element. */
template <int THREADS, int V, typename Pack, typename One>
__device__ __forceinline__ void for_run(int place, int count, Pack pack, One one)
{
    const int head = min((V - place % V) % V, count), packs = (count - head) / V;
    /* Warps begin with a line, so that the first threads come in later. */
    int first = (int)threadIdx.x - (place + head) / V;
    first += first < 0 ? THREADS : 0;
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
template <int THREADS = BLOCK, typename T>
__device__ __forceinline__ void copy_run(T *shared, const T *from, int count)
{
    constexpr int V = ACCESS / sizeof(T);
    for_run<THREADS, V>(
        place_of(from), count,
        [&](int i) { __pipeline_memcpy_async(shared + i, from + i, ACCESS); },
        [&](int i) { __pipeline_memcpy_async(shared + i, from + i, sizeof(T)); });
    __pipeline_commit();
}

/// The same where `shared` may stand at another place; then element by element.
template <int THREADS = BLOCK, typename T>
__device__ __forceinline__ void copy_run_anywhere(T *shared, const T *from, int count)
{
    if (place_of(shared) == place_of(from))
        return copy_run<THREADS>(shared, from, count);
    for (int i = (int)threadIdx.x; i < count; i += THREADS)
        __pipeline_memcpy_async(shared + i, from + i, sizeof(T));
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
    for_run<THREADS, V>(
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
