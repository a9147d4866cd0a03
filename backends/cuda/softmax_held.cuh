/// Softmaxes that the registers of a block hold: read once, written once. Private to backends/cuda.
///
/// A block takes one softmax after the other, or as many as it has room for; across memory staged as staged.cuh says. What stands
/// beyond the end of a softmax counts as -infinity, which changes neither maximum nor sum.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_HELD_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_HELD_CUH

#include "backends/cuda/softmax.cuh"
#include "backends/cuda/staged.cuh"

namespace talc
{

/// Bytes that a thread holds, of short softmaxes and of long ones.
constexpr int HELD_SHORT = 64, HELD_LONG = 128;

/// Starts copying `count` packs, `step` elements apart, into a thread's slots.
template <typename T, int COUNT>
static __device__ void stage_next(vec<T, COUNT> *slots, const T *from, int count, int64_t step)
{
#pragma unroll 4
    for (int k = 0; k < count; k++, from += step)
        __pipeline_memcpy_async(slots + k * WARP, from, sizeof *slots);
}

/// `threads` neighbours share a softmax, and are a block when they are more than a warp; each access moves COUNT elements,
/// which follow each other when COUNT > 1.
template <typename T, int COUNT, int BYTES>
static __global__ void __launch_bounds__(MOST_THREADS)
    softmax_along(T *y, const T *x, int threads, const softmax_plan plan)
{
    using pack = vec<T, COUNT>;
    constexpr int HELD = BYTES / (int)sizeof(pack);
    __shared__ largest<T> shared_most[MOST_THREADS / WARP];
    __shared__ summed<T> shared_sum[MOST_THREADS / WARP];
    const int groups = blockDim.x / threads, group = threadIdx.x / threads;
    const int thread = threadIdx.x % threads;
    const int accesses = (int)plan.extent / COUNT; /* COUNT divides it */
    const int rounds = (accesses - 1) / threads + 1;
    const int mine = thread < accesses ? (accesses - 1 - thread) / threads + 1 : 0;
    const int64_t x_step = COUNT > 1 ? COUNT : plan.x_stride;
    const int64_t y_step = COUNT > 1 ? COUNT : plan.y_stride;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < plan.outer;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < plan.outer;
        int64_t at[2];
        plan.at.offsets((uint64_t)(real ? first + group : first), at);
        const T *from = x + at[1] + thread * x_step;
        T *to = y + at[0] + thread * y_step;
        pack held[HELD];
        largest<T> most;
#pragma unroll
        for (int k = 0; k < HELD; k++, from += threads * x_step) {
            if (k < mine)
                held[k] = *(const pack *)from;
            else
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    held[k].of[e] = -(T)INFINITY;
        }
#pragma unroll
        for (int k = 0; k < HELD; k++)
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                most.join({ held[k].of[e] });
        const T m = join_all(most, threads, shared_most).value;
        summed<T> sum;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds) /* the same for all: beyond the end is nothing to compute */
#pragma unroll
                for (int e = 0; e < COUNT; e++) {
                    const T power = exp(held[k].of[e] - m);
                    sum.value += power;
                    if (!plan.log)
                        held[k].of[e] = power;
                }
        const softmax_of<T> by(plan.log, m, join_all(sum, threads, shared_sum).value);
#pragma unroll
        for (int k = 0; k < HELD; k++, to += threads * y_step) {
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                held[k].of[e] =
                    plan.log ? held[k].of[e] - m - by.log_sum : held[k].of[e] * by.scale;
            if (real && k < mine)
                *(pack *)to = held[k];
        }
    }
}

/// Blocks of rows of `width` threads: a column of threads shares a softmax.
template <typename T, int BYTES>
static __global__ void __launch_bounds__(MOST_THREADS)
    softmax_across(T *y, const T *x, int width, const softmax_plan plan)
{
    constexpr int HELD = BYTES / (int)sizeof(T);
    extern __shared__ __align__(ACCESS) char staged[];
    __shared__ T shared_most[MOST_THREADS], shared_sum[MOST_THREADS];
    const int rows = blockDim.x / width, row = threadIdx.x / width, column = threadIdx.x % width;
    const int extent = (int)plan.extent, rounds = (extent - 1) / rows + 1;
    const int mine = row < extent ? (extent - 1 - row) / rows + 1 : 0;
    const int64_t x_step = rows * plan.x_stride, y_step = rows * plan.y_stride;
    const int64_t hop = (int64_t)gridDim.x * width;
    vec<T, 1> *slots = slots_of<T, 1, HELD>(staged, -(T)INFINITY);
    int64_t next[2] = {};
    const auto stage = [&](int64_t softmax) {
        if (softmax < plan.outer) {
            plan.at.offsets((uint64_t)softmax, next);
            stage_next(slots, x + next[1] + row * plan.x_stride, mine, x_step);
        }
        __pipeline_commit();
    };
    stage((int64_t)blockIdx.x * width + column);
    for (int64_t first = (int64_t)blockIdx.x * width; first < plan.outer; first += hop) {
        const bool real = first + column < plan.outer;
        T *to = y + next[0] + row * plan.y_stride;
        T held[HELD], m = -(T)INFINITY, sum = 0;
        __pipeline_wait_prior(0);
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            held[k] = slots[k * WARP].of[0];
            m = held[k] > m ? held[k] : m;
        }
        stage(first + hop + column);
        if (rows > 1) {
            shared_most[threadIdx.x] = m;
            __syncthreads();
            for (int r = column; r < (int)blockDim.x; r += width)
                m = shared_most[r] > m ? shared_most[r] : m;
        }
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds) {
                const T power = exp(held[k] - m);
                sum += power;
                if (!plan.log)
                    held[k] = power;
            }
        if (rows > 1) {
            shared_sum[threadIdx.x] = sum;
            __syncthreads();
            sum = 0;
            for (int r = column; r < (int)blockDim.x; r += width)
                sum += shared_sum[r];
        }
        const softmax_of<T> by(plan.log, m, sum);
#pragma unroll
        for (int k = 0; k < HELD; k++, to += y_step)
            if (real && k < mine)
                *to = plan.log ? held[k] - m - by.log_sum : held[k] * by.scale;
    }
}

} // namespace talc

#endif
