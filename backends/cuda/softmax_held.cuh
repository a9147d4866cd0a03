/// Softmaxes that the registers of a block hold: read once, written once. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_HELD_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_HELD_CUH

#include "backends/cuda/softmax.cuh"

namespace talc
{

/// Bytes that a thread holds: the fewer, the more threads run side by side.
constexpr int HELD_SHORT = 32, HELD_LONG = 128;

/// Along memory: `threads` neighbours share a softmax of at most `rounds` packs for each of them, and are a block when they are
/// more than a warp.
template <typename T, int COUNT, int BYTES>
static __global__ void __launch_bounds__(MOST_THREADS)
    softmax_along(T *y, const T *x, int threads, int rounds, const softmax_plan plan)
{
    using pack = vec<T, COUNT>;
    constexpr int HELD = BYTES / (int)sizeof(pack);
    __shared__ largest<T> shared_most[MOST_THREADS / WARP];
    __shared__ summed<T> shared_sum[MOST_THREADS / WARP];
    const int groups = blockDim.x / threads, group = threadIdx.x / threads;
    const int thread = threadIdx.x % threads;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < plan.outer;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < plan.outer;
        int64_t at[2];
        plan.at.offsets((uint64_t)(real ? first + group : first), at);
        const packed_row<T, COUNT> row(y + at[0], x + at[1], plan);
        pack held[HELD];
        largest<T> most;
        summed<T> sum;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
                held[k] = row.load(thread + k * threads);
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    most.join({ held[k].of[e] });
        const T m = join_all(most, threads, shared_most).value;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
#pragma unroll
                for (int e = 0; e < COUNT; e++) {
                    const T power = exp(held[k].of[e] - m);
                    sum.value += power;
                    if (!plan.log)
                        held[k].of[e] = power;
                }
        const softmax_of<T> by(plan.log, m, join_all(sum, threads, shared_sum).value);
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds && real) {
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    held[k].of[e] = by.of_held(plan.log, held[k].of[e]);
                row.store(thread + k * threads, held[k], row.holds_all(thread + k * threads));
            }
    }
}

/// The joined states of a column of threads, in all of them. `shared` has room for ACCESS bytes of BLOCK threads, and must not
/// have been in use since the barrier before the last.
template <typename State> __device__ State join_column(State state, int width, State *shared)
{
    for (int mask = width; mask < WARP; mask *= 2)
        state.join(from_lane_xor(state, mask));
    const int line = width < WARP ? WARP : width, lines = blockDim.x / line;
    if (lines == 1)
        return state;
    const int column = threadIdx.x % width;
    if ((int)threadIdx.x % line < width)
        shared[threadIdx.x / line * width + column] = state;
    __syncthreads();
    state = State();
    for (int i = 0; i < lines; i++)
        state.join(shared[i * width + column]);
    return state;
}

/// COUNT neighbours, each of another softmax.
template <typename State, int COUNT> struct several {
    State of[COUNT];
    __device__ void join(const several &other)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            of[e].join(other.of[e]);
    }
};

/// Across memory, blocks of rows of `width` threads: a column of threads shares COUNT softmaxes that lie side by side.
template <typename T, int COUNT>
static __global__ void __launch_bounds__(MOST_THREADS)
    softmax_across(T *y, const T *x, int width, int rounds, const softmax_plan plan)
{
    using pack = vec<T, COUNT>;
    constexpr int HELD = HELD_LONG / (int)sizeof(pack);
    constexpr int ROOM = BLOCK * ACCESS / (int)sizeof(pack);
    using mosts = several<largest<T>, COUNT>;
    using sums = several<summed<T>, COUNT>;
    __shared__ mosts shared_most[ROOM];
    __shared__ sums shared_sum[ROOM];
    const int extent = (int)plan.extent, rows = blockDim.x / width, row = threadIdx.x / width;
    const int64_t x_step = rows * plan.x_stride, y_step = rows * plan.y_stride;
    const int64_t column = (int64_t)(threadIdx.x % width) * COUNT;
    const int64_t hop = (int64_t)gridDim.x * width * COUNT;
    for (int64_t first = (int64_t)blockIdx.x * width * COUNT; first < plan.outer; first += hop) {
        const bool real = first + column < plan.outer;
        int64_t at[2];
        plan.at.offsets((uint64_t)(real ? first + column : first), at);
        const T *from = x + at[1] + row * plan.x_stride;
        T *to = y + at[0] + row * plan.y_stride;
        pack held[HELD];
        mosts most;
        sums sum;
#pragma unroll
        for (int k = 0; k < HELD; k++, from += x_step)
            if (k < rounds) {
                if (row + k * rows < extent)
                    held[k] = *(const pack *)from;
                else
#pragma unroll
                    for (int e = 0; e < COUNT; e++)
                        held[k].of[e] = -(T)INFINITY;
            }
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    most.of[e].join({ held[k].of[e] });
        most = join_column(most, width, shared_most);
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
#pragma unroll
                for (int e = 0; e < COUNT; e++) {
                    const T power = exp(held[k].of[e] - most.of[e].value);
                    sum.of[e].value += power;
                    if (!plan.log)
                        held[k].of[e] = power;
                }
        sum = join_column(sum, width, shared_sum);
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            const softmax_of<T> by(plan.log, most.of[e].value, sum.of[e].value);
#pragma unroll
            for (int k = 0; k < HELD; k++)
                if (k < rounds)
                    held[k].of[e] = by.of_held(plan.log, held[k].of[e]);
        }
#pragma unroll
        for (int k = 0; k < HELD; k++, to += y_step)
            if (k < rounds && real && row + k * rows < extent)
                store_pack(to, held[k]);
    }
}

} // namespace talc

#endif
