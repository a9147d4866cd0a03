/// Softmaxes of any length and with any strides. x is read twice. Private to backends/cuda/softmax.
///
/// A thread keeps the maximum of its elements so far, and the sum of exponentials relative to it.
/// The threads of a block form a grid with `width` columns. A column shares a softmax. The threads
/// of a row work on neighbouring softmaxes, so that their accesses are coalesced. With a width of 1
/// the whole block shares a softmax. A few long softmaxes are split into parts, in two launches.
///
/// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_TWO_PASS_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_TWO_PASS_CUH

#include "backends/cuda/softmax/softmax.cuh"

namespace talc
{

/// The maximum of elements and the sum of exp(x - maximum), where a maximum of -infinity counts as
/// 0.
template <typename T> struct running {
    T m = -(T)INFINITY;
    total_of<T> sum = 0;

    __device__ void rescale(T to)
    {
        if (to > m) {
            if (m != -(T)INFINITY) /* else the sum is 0, or NaN */
                sum *= (total_of<T>)exp(m - to);
            m = to;
        }
    }
    __device__ void join(running other)
    {
        rescale(other.m);
        other.rescale(m);
        sum += other.sum;
    }
    template <int N> __device__ void add(T (&x)[N])
    {
        T max = m;
#pragma unroll
        for (int i = 0; i < N; i++)
            max = larger()(max, x[i]);
        rescale(max);
        max = m == -(T)INFINITY ? 0 : m;
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = exp(x[i] - max);
        sum += (total_of<T>)tree_sum<N>(x);
    }
};

/// How softmaxes are divided among blocks: a block has `width` of them, each split into `parts` of
/// `length` elements.
struct softmax_tiling {
    int width;
    int64_t length, parts;
};

/// Loads that a thread has in flight.
constexpr int LOADS = 8;

/// Joins the states of a column of threads. All of them get the result.
template <typename T>
static __device__ running<T> join_column(running<T> state, int width, running<T> *shared)
{
    running<T> joined[1] = { state };
    join_rows(joined, width, shared);
    __syncthreads();
    return shared[threadIdx.x % width];
}

/// FIRST writes the state of each part to states[parts][outer]. SECOND joins those of a softmax and
/// writes y. BOTH does both in one launch, without states, where there is only one part. The grid
/// has a block for each `width` softmaxes and each part.
enum softmax_pass { BOTH, FIRST, SECOND };

template <typename T>
static __global__ void __launch_bounds__(BLOCK, 4)
    softmax_two_pass(T *y, const T *x, running<T> *states, softmax_pass pass,
                     const softmax_tiling tiling, const softmax_plan plan)
{
    __shared__ running<T> shared[BLOCK];
    const int rows = BLOCK / tiling.width, row = threadIdx.x / tiling.width, batch = rows * LOADS;
    const int64_t begin = blockIdx.y * tiling.length, rest = plan.extent - begin;
    const int64_t end = rest < tiling.length ? rest : tiling.length;
    const int64_t last = (end - 1) / batch * batch;
    for (int64_t first = (int64_t)blockIdx.x * tiling.width; first < plan.outer;
         first += (int64_t)gridDim.x * tiling.width) {
        const int64_t softmax = first + threadIdx.x % tiling.width;
        const bool real = softmax < plan.outer;
        int64_t at[2];
        plan.at.offsets((uint64_t)(real ? softmax : first), at);
        const T *from = x + at[1] + (begin + row) * plan.x_stride;
        T *to = y + at[0] + (begin + row) * plan.y_stride;
        T values[LOADS];
        const auto load = [&](int64_t i) {
#pragma unroll
            for (int k = 0; k < LOADS; k++)
                values[k] =
                    i + row + k * rows < end ? from[(i + k * rows) * plan.x_stride] : -(T)INFINITY;
        };
        running<T> state;
        if (pass == SECOND)
#pragma unroll 4
            for (int k = row; k < (int)tiling.parts; k += rows)
                state.join(states[k * plan.outer + (real ? softmax : first)]);
        else
            for (int64_t i = 0; i <= last; i += batch) {
                load(i);
                state.add(values);
            }
        state = join_column(state, tiling.width, shared);
        if (pass == FIRST) {
            if (real && row == 0)
                states[blockIdx.y * plan.outer + softmax] = state;
            continue;
        }
        const softmax_of<T> by(plan.log, state.m, state.sum);
        for (int64_t i = last; i >= 0;
             i -= batch) { /* backwards, as what was read last is still in a cache */
            load(i);
#pragma unroll
            for (int k = 0; k < LOADS; k++)
                if (real && i + row + k * rows < end)
                    to[(i + k * rows) * plan.y_stride] = by.of_element(values[k]);
        }
    }
}

} // namespace talc

#endif
