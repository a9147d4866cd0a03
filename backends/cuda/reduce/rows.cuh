/// Reductions of short rows. Private to backends/cuda.
///
/// A block copies many rows at once into shared memory, as they lie, and reduces them there.
#ifndef TALC_BACKENDS_CUDA_REDUCE_ROWS_CUH
#define TALC_BACKENDS_CUDA_REDUCE_ROWS_CUH

#include "backends/cuda/reduce/states.cuh"

#include <cuda_pipeline.h>

namespace talc
{

/// Bytes of a short row, and of what a block copies at a time: as much as keeps memory busy and leaves room for other blocks.
constexpr int64_t SHORT_ROW = 512, SPAN = 32768;

/* Any launch has 48 KiB. A round of a block fits a span; rows of four accesses, which are kept six apart, grow most. */
static_assert(BLOCK * SHORT_ROW / 4 <= SPAN && SPAN / 2 * 3 <= 48 << 10, "a block's shared memory");

/// x as [slices, K, B] without gaps, of which K is reduced: rows with B = 1, else columns of short slices.
struct short_rows {
    bool serves = false;
    int64_t slices; /* of x */
    int K, B;
    int threads, span; /* of an output; slices that are copied at a time */
    int packs;         /* accesses of a row; 0: it is not whole ones */
    int pitch;         /* and from one row of the copy to the next */
    divisor<uint32_t> by_B, by_packs;

    short_rows(const talc_reduce_problem *p, const void *x)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype), count = ACCESS / size;
        const int64_t bytes = p->K * size, inner = p->reduced_rank == 1 ? p->reduced_strides[0] : 0;
        const int64_t *dims = p->kept_dims, *strides = p->kept_strides;
        const bool rows = inner == 1 && p->kept_rank == 1;
        const bool columns = inner > 1 && inner <= 2 * WARP && p->kept_rank == 2 &&
                             dims[1] == inner && strides[1] == 1;
        if (bytes > SHORT_ROW || !(rows || columns) || strides[0] != p->K * inner || !is_aligned(x))
            return;
        const bool whole = (rows ? p->K : inner) % count == 0;
        if (whole && columns) /* good as they are */
            return;
        slices = dims[0];
        K = (int)p->K, B = (int)inner;
        threads = bytes <= SHORT_ROW / 4 ? 1 : bytes <= SHORT_ROW / 2 ? 2 : 4;
        const int64_t least = BLOCK / threads, more = SPAN / bytes / least * least;
        span = (int)((more > least ? more : least) / B);
        if (columns)
            span = span / 4 * 4; /* whole accesses of the wider types */
        packs = rows && whole ? (int)(p->K / count) : 0;
        /* Of eight threads at most two meet in a bank, and rows that do not lie as in memory begin with a sector, where copies
         * are fastest. */
        pitch = packs % 4 == 0 ? packs + 2 : packs;
        by_B.set(B);
        by_packs.set(packs > 0 ? packs : 1);
        serves = span > 0 && span * p->K * B * size % ACCESS == 0;
    }
    int64_t bytes(int64_t size) const
    {
        return packs > 0 ? (int64_t)span * pitch * ACCESS : (int64_t)span * K * B * size;
    }
};

/* COUNT > 1: rows are whole accesses. */
template <typename State, typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    reduce_short(const target<State> to, const T *x, const short_rows s)
{
    constexpr int MOVED = ACCESS / sizeof(T), AT_ONCE = 4;
    using pack = vec<T, MOVED>;
    extern __shared__ __align__(ACCESS) char copied[];
    T *elements = (T *)copied;
    pack *packs = (pack *)copied;
    const int thread = threadIdx.x % s.threads, slice_size = s.K * s.B;
    for (int64_t first = (int64_t)blockIdx.x * s.span; first < s.slices;
         first += (int64_t)gridDim.x * s.span) {
        const int slices = (int)(s.slices - first < s.span ? s.slices - first : s.span);
        const int count = slices * slice_size, moved = count / MOVED, outputs = slices * s.B;
        const T *from = x + first * slice_size;
        __syncthreads(); /* the span before is read */
        for (int i = threadIdx.x; i < moved; i += BLOCK) {
            const int row = COUNT > 1 ? (int)s.by_packs.quotient((uint32_t)i) : 0;
            __pipeline_memcpy_async(&packs[i + row * (s.pitch - s.packs)], from + i * MOVED,
                                    ACCESS);
        }
        if (COUNT == 1 && (int)threadIdx.x < count - moved * MOVED)
            elements[moved * MOVED + threadIdx.x] = from[moved * MOVED + threadIdx.x];
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int done = 0; done < outputs; done += BLOCK / s.threads) {
            const int i = done + threadIdx.x / s.threads;
            State state;
            if (i < outputs && COUNT > 1) {
                for (int k = thread; k < s.packs; k += s.threads)
                    state.add(packs[i * s.pitch + k], k * MOVED, 1);
            } else if (i < outputs) {
                const int slice = (int)s.by_B.quotient((uint32_t)i);
                const T *row = elements + slice * slice_size + i - slice * s.B;
                int k = thread;
                for (; k + (AT_ONCE - 1) * s.threads < s.K; k += AT_ONCE * s.threads) {
                    vec<T, AT_ONCE> values;
#pragma unroll
                    for (int e = 0; e < AT_ONCE; e++)
                        values.of[e] = row[(k + e * s.threads) * s.B];
                    state.add(values, k, s.threads);
                }
                for (; k < s.K; k += s.threads)
                    state.add(vec<T, 1>{ { row[k * s.B] } }, k, s.threads);
            }
            state = join_group(state, s.threads, (State *)NULL);
            if (i < outputs && thread == 0)
                to.write(first * s.B + i, state);
        }
    }
}

template <typename State, typename T>
static void launch_short(talc_device *device, const target<State> &to, const T *x,
                         const short_rows &s)
{
    const unsigned blocks = blocks_of(device, pieces(s.slices, s.span));
    const auto kernel =
        s.packs > 0 ? reduce_short<State, T, ACCESS / sizeof(T)> : reduce_short<State, T, 1>;
    kernel<<<blocks, BLOCK, s.bytes(sizeof(T)), talc_cuda_stream(device)>>>(to, x, s);
}

} // namespace talc

#endif
