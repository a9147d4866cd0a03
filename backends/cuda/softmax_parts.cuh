/// Softmaxes of any length: each element is read twice. Private to backends/cuda.
///
/// A thread keeps the largest element so far and the sum relative to it. Threads stand in rows of `width`: neighbours in a row
/// have softmaxes that lie side by side, and a column shares one; with a width of 1 the whole block reads along it.
///
/// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_PARTS_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_PARTS_CUH

#include "backends/cuda/softmax.cuh"

namespace talc
{

/// The largest element and the sum of exp(x - m); m of no element, or of nothing but -infinity, counts as 0.
template <typename T> struct running {
    T most = -(T)INFINITY;
    double sum = 0;

    static __device__ T base(T m)
    {
        return m == -(T)INFINITY ? 0 : m;
    }
    __device__ void lift(T m)
    {
        if (m > most) {
            if (most != -(T)INFINITY) /* else the sum is 0, or NaN */
                sum *= (double)exp(most - m);
            most = m;
        }
    }
    __device__ void join(running other)
    {
        lift(other.most);
        other.lift(most);
        sum += other.sum;
    }
    /// Elements that stand together; -infinity where there are none.
    template <int COUNT> __device__ void add(const T (&x)[COUNT])
    {
        T m = most, part = 0;
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            m = x[e] > m ? x[e] : m;
        lift(m);
        m = base(most);
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            part += exp(x[e] - m);
        sum += (double)part;
    }
    __device__ softmax_of<T> result(bool log_) const
    {
        softmax_of<T> by(log_, most, (T)sum);
        if (log_)
            by.log_sum = (T)log(sum);
        return by;
    }
};

/// How softmaxes are cut: `parts` of `length` accesses each; `parts` times `columns` pieces of work for a block.
struct parts_plan {
    int width;
    int64_t accesses, length, parts, columns;
};

/// What one thread does of a piece of work: accesses begin, begin + rows ... below end of a softmax.
template <typename T, int COUNT> struct strip {
    /// Accesses in flight, 64 bytes of them where they are wide.
    static constexpr int BATCH = COUNT > 1 ? 64 / (int)sizeof(T) / COUNT : 8;

    bool real;
    int64_t softmax, begin, end;
    int rows;
    int64_t x_step, y_step;
    const T *x;
    T *y;

    __device__ strip(T *y_, const T *x_, int64_t work, const parts_plan &cut,
                     const softmax_plan &plan)
    {
        const int64_t block = work % cut.columns, part = work / cut.columns;
        const int64_t first = block * cut.width, column = threadIdx.x % cut.width;
        real = first + column < plan.outer;
        softmax = real ? first + column : first;
        rows = blockDim.x / cut.width;
        begin = part * cut.length + threadIdx.x / cut.width;
        end = (part + 1) * cut.length < cut.accesses ? (part + 1) * cut.length : cut.accesses;
        x_step = COUNT > 1 ? COUNT : plan.x_stride;
        y_step = COUNT > 1 ? COUNT : plan.y_stride;
        int64_t at[2];
        plan.at.offsets((uint64_t)softmax, at);
        x = x_ + at[1];
        y = y_ + at[0];
    }
    __device__ void load(int64_t i, vec<T, COUNT> (&values)[BATCH]) const
    {
        const T *from = x + i * x_step;
#pragma unroll
        for (int k = 0; k < BATCH; k++, from += rows * x_step) {
            if (i + k * rows < end)
                values[k] = *(const vec<T, COUNT> *)from;
            else
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    values[k].of[e] = -(T)INFINITY;
        }
    }
    __device__ running<T> state() const
    {
        running<T> sum;
        for (int64_t i = begin; i < end; i += rows * BATCH) {
            vec<T, COUNT> values[BATCH];
            T elements[BATCH * COUNT];
            load(i, values);
#pragma unroll
            for (int k = 0; k < BATCH * COUNT; k++)
                elements[k] = values[k / COUNT].of[k % COUNT];
            sum.add(elements);
        }
        return sum;
    }
    /// From the back: the elements that were read last are still in a cache.
    __device__ void write(bool log, const softmax_of<T> &by) const
    {
        const int64_t stride = rows * BATCH;
        for (int64_t i = begin + (end - begin - 1) / stride * stride; i >= begin && begin < end;
             i -= stride) {
            vec<T, COUNT> values[BATCH];
            load(i, values);
            T *to = y + i * y_step;
#pragma unroll
            for (int k = 0; k < BATCH; k++, to += rows * y_step) {
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    values[k].of[e] = by.of_element(log, values[k].of[e]);
                if (real && i + k * rows < end)
                    store_pack(to, values[k]);
            }
        }
    }
};

/// The state of a column of threads, for all of them.
template <typename T>
static __device__ running<T> join_columns(running<T> state, int width, running<T> *shared)
{
    __syncthreads(); /* what an earlier call left is read */
    shared[threadIdx.x] = state;
    for (int half = BLOCK / 2; half >= width; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) {
            state.join(shared[threadIdx.x + half]);
            shared[threadIdx.x] = state;
        }
    }
    __syncthreads();
    return shared[threadIdx.x % width];
}

/// states: [parts][outer].
template <typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    softmax_states(running<T> *states, const T *x, const parts_plan cut, const softmax_plan plan)
{
    __shared__ running<T> shared[BLOCK];
    for (int64_t work = blockIdx.x; work < cut.columns * cut.parts; work += gridDim.x) {
        const strip<T, COUNT> own(NULL, x, work, cut, plan);
        const running<T> state = join_columns(own.state(), cut.width, shared);
        if (own.real && (int)threadIdx.x < cut.width)
            states[work / cut.columns * plan.outer + own.softmax] = state;
    }
}

/// A warp joins the parts of a softmax, into the first.
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    softmax_join(running<T> *states, int64_t parts, int64_t outer)
{
    const int lane = threadIdx.x % WARP;
    const int64_t stride = (int64_t)gridDim.x * (BLOCK / WARP);
    for (int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / WARP; i < outer; i += stride) {
        running<T> state;
        for (int64_t part = lane; part < parts; part += WARP)
            state.join(states[part * outer + i]);
        state = join_group(state, WARP, (running<T> *)NULL);
        if (lane == 0)
            states[i] = state;
    }
}

/// With the joined states.
template <typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    softmax_write(T *y, const T *x, const running<T> *states, const parts_plan cut,
                  const softmax_plan plan)
{
    const int64_t all = cut.columns * cut.parts;
    for (int64_t work = blockIdx.x; work < all; work += gridDim.x) {
        const strip<T, COUNT> own(y, x, all - 1 - work, cut, plan);
        own.write(plan.log, states[own.softmax].result(plan.log));
    }
}

/// Without parts: a block reads its softmaxes twice.
template <typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    softmax_whole(T *y, const T *x, const parts_plan cut, const softmax_plan plan)
{
    __shared__ running<T> shared[BLOCK];
    for (int64_t work = blockIdx.x; work < cut.columns; work += gridDim.x) {
        const strip<T, COUNT> own(y, x, work, cut, plan);
        const running<T> state = join_columns(own.state(), cut.width, shared);
        own.write(plan.log, state.result(plan.log));
    }
}

} // namespace talc

#endif
