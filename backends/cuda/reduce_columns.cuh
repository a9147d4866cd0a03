/// Reductions across rows that fill no whole accesses. Private to backends/cuda.
///
/// A row of columns begins anywhere in an access of 16 bytes, but `unit` rows further on they stand at the same place again. So a
/// thread has a row of a unit and an access of it, whichever columns that holds, and goes from unit to unit. Rows of 9, f32:
///
///     unit 0   row 0   |0 0 0 0|0 0 0 0|0 . . .|
///              row 1   |. 1 1 1|1 1 1 1|1 1 . .|             a thread an access
///              row 2   |. . 2 2|2 2 2 2|2 2 2 .|
///              row 3   |. . . 3|3 3 3 3|3 3 3 3|
///     unit 1   row 4   |4 4 4 4|4 4 4 4|4 . . .|             the same threads, or others of the block
///
/// What stands in an access beside the columns is read and dropped. A tree of fixed shape joins the states of each column.
#ifndef TALC_BACKENDS_CUDA_REDUCE_COLUMNS_CUH
#define TALC_BACKENDS_CUDA_REDUCE_COLUMNS_CUH

#include "backends/cuda/reduce_plan.cuh"
#include "backends/cuda/reduce_states.cuh"
#include "backends/cuda/runs.cuh"

namespace talc
{

/// x as `slices` of K rows of C columns, of which rows are reduced.
struct odd_columns : column_cut {
    int64_t K, C, stride;      /* stride: from row to row */
    int64_t slices, span;      /* span: elements of x, from its first to its last */
    divisor<uint64_t> windows; /* blocks beside each other */
    walk<1, uint64_t> slice;

    odd_columns(const talc_reduce_problem *p, const column_cut &cut)
        : column_cut(cut), K(p->K), C(p->kept_dims[p->kept_rank - 1]),
          stride(p->reduced_strides[0]), slices(p->outputs / C), span(1 + (K - 1) * stride),
          slice(p->kept_rank - 1, p->kept_dims, { p->kept_strides })
    {
        windows.set(pieces(C, width));
        for (int i = 0; i < p->kept_rank; i++)
            span += (p->kept_dims[i] - 1) * p->kept_strides[i];
    }
};

/* The pack at `at`, of which elements outside x are 0. */
template <typename T, int COUNT>
static __device__ vec<T, COUNT> load_inside(const T *at, const T *x, const T *x_end)
{
    vec<T, COUNT> values;
    if (at >= x && at + COUNT <= x_end)
        return *(const vec<T, COUNT> *)at;
#pragma unroll
    for (int e = 0; e < COUNT; e++)
        values.of[e] = at + e >= x && at + e < x_end ? at[e] : 0;
    return values;
}

template <typename State, typename T>
static __global__ void __launch_bounds__(BLOCK, 4)
    reduce_columns(const target<State> to, const T *x, const odd_columns c)
{
    constexpr int COUNT = ACCESS / sizeof(T), BATCH = 4;
    __shared__ State shared[BLOCK * COUNT];
    const int line = c.unit * c.packs, row = threadIdx.x / line;
    const int sub = threadIdx.x % line / c.packs, pack = threadIdx.x % c.packs;
    const int64_t first = (blockIdx.y * c.part + row) * c.unit + sub; /* row of x */
    const int64_t part_end = (blockIdx.y + 1) * c.part * c.unit;
    const int64_t left = (part_end < c.K ? part_end : c.K) - first, hop = c.rows * c.unit;
    for (int64_t work = blockIdx.x; work < c.slices * (int64_t)c.windows.by; work += gridDim.x) {
        const int64_t slice = (int64_t)c.windows.quotient((uint64_t)work);
        const int64_t column = (work - slice * (int64_t)c.windows.by) * c.width;
        const int width = (int)(c.C - column < c.width ? c.C - column : c.width);
        const T *from = x + offset_of(c.slice, slice) + first * c.stride + column;
        const int own = pack * COUNT - place_in_access(from); /* this thread's first column */
        const bool real = row < c.rows && own < width && left > 0;
        const int count = real ? (int)((left + hop - 1) / hop) : 0;
        const int64_t step = hop * c.stride;
        const T *next = from + own;
        /* The first access may begin before x, and the last one end behind it. */
        const int begin = count > 0 && next < x;
        const int end = count - (count > begin && next + (count - 1) * step + COUNT > x + c.span);
        typename State::counted seen[COUNT];
        const auto add_one = [&](const vec<T, COUNT> &values, int i) {
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                seen[e].add(vec<T, 1>{ { values.of[e] } }, i, 1);
        };
        if (begin > 0) {
            add_one(load_inside<T, COUNT>(next, x, x + c.span), 0);
            next += step;
        }
        for (int i = begin; i < end; i += BATCH) {
            vec<T, COUNT> values[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++, next += step)
                if (i + b < end)
                    values[b] = *(const vec<T, COUNT> *)next;
            if (i + BATCH <= end) {
#pragma unroll
                for (int e = 0; e < COUNT; e++) {
                    vec<T, BATCH> down;
#pragma unroll
                    for (int b = 0; b < BATCH; b++)
                        down.of[b] = values[b].of[e];
                    seen[e].add(down, i, 1);
                }
            } else {
#pragma unroll
                for (int b = 0; b < BATCH - 1; b++)
                    if (i + b < end)
                        add_one(values[b], i + b);
            }
        }
        if (end < count)
            add_one(load_inside<T, COUNT>(from + own + (count - 1) * step, x, x + c.span),
                    count - 1);
        __syncthreads(); /* the columns before are written */
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            if (row < c.rows && own + e >= 0 && own + e < width)
                shared[(row * c.unit + sub) * width + own + e] =
                    State(seen[e], [&](int k) { return first + k * hop; });
        __syncthreads();
        for (int lines = c.rows * c.unit; lines > 1;) {
            const int half = (lines + 1) / 2;
            for (int k = (int)threadIdx.x; k < (lines - half) * width; k += (int)blockDim.x)
                shared[k].join(shared[k + half * width]);
            lines = half;
            __syncthreads();
        }
        for (int k = (int)threadIdx.x; k < width; k += (int)blockDim.x)
            to.write(slice * c.C + column + k, shared[k]);
    }
}

template <typename State, typename T>
static void launch_columns(talc_device *device, const talc_reduce_problem *p, const column_cut &cut,
                           const target<State> &to, const T *x)
{
    const odd_columns columns(p, cut);
    const dim3 grid(blocks_of(device, columns.slices * (int64_t)columns.windows.by),
                    (unsigned)cut.parts);
    const int threads = (int)pieces(cut.rows * cut.unit * cut.packs, WARP) * WARP;
    reduce_columns<State, T><<<grid, threads, 0, talc_cuda_stream(device)>>>(to, x, columns);
}

} // namespace talc

#endif
