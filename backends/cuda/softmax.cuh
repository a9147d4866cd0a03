/// What the softmax kernels have in common. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_CUH

#include "backends/cuda/group.cuh"
#include "ops/softmax.h"

#include <cuda_pipeline.h>

namespace talc
{

/// Threads of the largest block. Kernels with this bound have 64 registers a thread, and so many threads run side by side.
constexpr int MOST_THREADS = 1024;

/// Bytes of neighbours that a row of threads reads across softmaxes which lie side by side: a line of the caches.
constexpr int LINE = 128;

/// Where the softmaxes are, and how their elements follow each other.
struct softmax_plan {
    int64_t extent, outer, y_stride, x_stride;
    bool log;
    walk<2, uint64_t> at; /* y and x */

    softmax_plan(const talc_softmax_problem *p)
        : extent(p->extent), outer(p->outer), y_stride(p->y_stride), x_stride(p->x_stride),
          log(p->log), at(p->outer_rank, p->outer_dims, { p->y_strides, p->x_strides })
    {
    }
};

/// A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and so into every result,
/// as (+infinity) - (+infinity) and (-infinity) - (-infinity) do.
template <typename T> struct largest {
    T value = -(T)INFINITY;
    __device__ void join(largest other)
    {
        value = other.value > value ? other.value : value;
    }
};

template <typename T> struct summed {
    T value = 0;
    __device__ void join(summed other)
    {
        value += other.value;
    }
};

/// What turns the elements of a softmax into results. A multiplication by 1 / sum is one rounding more than a division, and
/// a tenth of its instructions.
template <typename T> struct softmax_of {
    T m, scale, log_sum;

    __device__ softmax_of(bool log_, T m_, T sum)
        : m(m_), scale(1 / sum), log_sum(log_ ? log(sum) : 0)
    {
    }
    __device__ T of_element(bool log, T x) const
    {
        return log ? x - m - log_sum : exp(x - m) * scale;
    }
    /// Where exp(x - m) has taken the place of x, but for the logarithm.
    __device__ T of_held(bool log, T held) const
    {
        return log ? held - m - log_sum : held * scale;
    }
};

/// Stores a pack by one access: the compiler takes an assignment apart, element by element.
template <typename T, int COUNT>
static __device__ void store_pack(T *to, const vec<T, COUNT> &values)
{
    if constexpr (sizeof values == ACCESS) {
        int4 bits;
        memcpy(&bits, &values, sizeof bits);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                     "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
                     : "memory");
    } else
        *(vec<T, COUNT> *)to = values;
}

/// One softmax along memory, as packs of COUNT elements. It may begin and end inside a pack: what stands outside counts as
/// -infinity, which changes neither maximum nor sum, and is neither read nor written.
template <typename T, int COUNT> struct packed_row {
    using pack = vec<T, COUNT>;

    const T *x; ///< the first pack's
    T *y;
    int64_t x_step, y_step; ///< from pack to pack, in elements
    int begin, end;         ///< elements of the softmax, counted from the first pack's first
    unsigned starts;        ///< how many of them a whole pack could begin with

    /// From its first elements on.
    __device__ packed_row(T *y_, const T *x_, const softmax_plan &plan)
    {
        begin = COUNT > 1 ? (int)((uintptr_t)x_ / sizeof(T) % COUNT) : 0;
        end = begin + (int)plan.extent;
        starts = plan.extent < COUNT ? 0 : (unsigned)(plan.extent - COUNT + 1);
        x = x_ - begin;
        y = y_ - begin;
        x_step = COUNT > 1 ? COUNT : plan.x_stride;
        y_step = COUNT > 1 ? COUNT : plan.y_stride;
    }
    __device__ bool holds(int element) const
    {
        return element >= begin && element < end;
    }
    __device__ bool holds_all(int i) const
    {
        return holds(i * COUNT) && holds(i * COUNT + COUNT - 1);
    }
    /// The same by one comparison, for kernels that are short of those.
    __device__ bool is_whole(int i) const
    {
        return (unsigned)(i * COUNT - begin) < starts;
    }
    __device__ pack load(int i) const
    {
        const T *from = x + i * x_step;
        pack values;
        if (holds_all(i))
            values = *(const pack *)from;
        else
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                values.of[e] = holds(i * COUNT + e) ? from[e] : -(T)INFINITY;
        return values;
    }
    /// Begins to copy pack i to shared memory.
    __device__ void copy(pack *to, int i) const
    {
        const T *from = x + i * x_step;
        if (is_whole(i))
            __pipeline_memcpy_async(to, from, sizeof *to);
        else
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                if (holds(i * COUNT + e))
                    __pipeline_memcpy_async(&to->of[e], from + e, sizeof(T));
                else
                    to->of[e] = -(T)INFINITY;
    }
    __device__ void store(int i, pack values, bool whole) const
    {
        T *to = y + i * y_step;
        if (whole)
            store_pack(to, values);
        else
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                if (holds(i * COUNT + e))
                    to[e] = values.of[e];
    }
};

/// The joined state of `threads` neighbours, in all of them: a power of two up to a warp, or a whole block of warps, which has
/// one barrier; `shared` holds a state a warp, and must not have been in use since the barrier before that.
template <typename State> static __device__ State join_all(State state, int threads, State *shared)
{
    for (int mask = (threads < WARP ? threads : WARP) / 2; mask > 0; mask /= 2)
        state.join(from_lane_xor(state, mask));
    if (threads <= WARP)
        return state;
    const int warps = threads / WARP, lane = threadIdx.x % WARP;
    if (lane == 0)
        shared[threadIdx.x / WARP] = state;
    __syncthreads();
    state = lane < warps ? shared[lane] : State();
    for (int mask = WARP / 2; mask > 0; mask /= 2)
        state.join(from_lane_xor(state, mask));
    return state;
}

} // namespace talc

#endif
