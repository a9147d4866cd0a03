/// Reductions of short rows. Private to backends/cuda.
///
/// A block copies a tile of many rows into shared memory, by coalesced accesses, and reduces them
/// there.
#ifndef TALC_BACKENDS_CUDA_REDUCE_SHORT_ROWS_CUH
#define TALC_BACKENDS_CUDA_REDUCE_SHORT_ROWS_CUH

#include "backends/cuda/reduce/states.cuh"

#include <cuda_pipeline.h>

namespace talc
{

/// The maximum of bytes of a short row, and the bytes of a tile: enough to keep memory busy, and
/// few enough for several blocks per multiprocessor.
constexpr int64_t SHORT_ROW = 512, TILE_BYTES = 32768;

/* Any launch has 48 KiB. The rows of a block's threads fit a tile; rows of four vectors, whose
 * pitch is six, grow most. */
static_assert(BLOCK * SHORT_ROW / 4 <= TILE_BYTES && TILE_BYTES / 2 * 3 <= 48 << 10,
              "a block's shared memory");

/// x as a contiguous [slices, K, B], of which K is reduced: rows with B = 1, else columns of short
/// slices.
struct short_rows {
    bool serves = false;
    int64_t slices; /* of x */
    int K, B;
    int threads, tile; /* of an output; slices that are copied at a time */
    int vectors;       /* vectors of a row; 0: it is not whole ones */
    int pitch;         /* and from one row of the copy to the next */
    divisor<uint32_t> by_B, by_vectors;

    short_rows(const talc_reduce_problem *p, const void *x)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype), count = VECTOR_BYTES / size;
        const int64_t bytes = p->K * size, inner = p->reduced_rank == 1 ? p->reduced_strides[0] : 0;
        const int64_t *dims = p->kept_dims, *strides = p->kept_strides;
        const bool rows = inner == 1 && p->kept_rank == 1;
        const bool columns = inner > 1 && inner <= 2 * WARP && p->kept_rank == 2 &&
                             dims[1] == inner && strides[1] == 1;
        if (bytes > SHORT_ROW || !(rows || columns) || strides[0] != p->K * inner || !is_aligned(x))
            return;
        const bool whole = (rows ? p->K : inner) % count == 0;
        if (whole && columns) /* `across` reads them well */
            return;
        slices = dims[0];
        K = (int)p->K, B = (int)inner;
        threads = bytes <= SHORT_ROW / 4 ? 1 : bytes <= SHORT_ROW / 2 ? 2 : 4;
        const int64_t min = BLOCK / threads, more = TILE_BYTES / bytes / min * min;
        tile = (int)((more > min ? more : min) / B);
        if (columns)
            tile = tile / 4 * 4; /* whole vectors of the wider types */
        vectors = rows && whole ? (int)(p->K / count) : 0;
        /* At most two-way bank conflicts, and rows whose pitch differs from memory's begin with a
         * 32-byte sector, where copies are fastest. */
        pitch = vectors % 4 == 0 ? vectors + 2 : vectors;
        by_B.set(B);
        by_vectors.set(vectors > 0 ? vectors : 1);
        serves = tile > 0 && tile * p->K * B * size % VECTOR_BYTES == 0;
    }
    int64_t bytes(int64_t size) const
    {
        return vectors > 0 ? (int64_t)tile * pitch * VECTOR_BYTES : (int64_t)tile * K * B * size;
    }
};

/* COUNT > 1: rows are whole vectors. */
template <typename State, typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    reduce_short(const target<State> to, const T *x, const short_rows s)
{
    constexpr int MOVED = VECTOR_BYTES / sizeof(T), IN_FLIGHT = 4;
    using vector = vec<T, MOVED>;
    extern __shared__ __align__(VECTOR_BYTES) char copied[];
    T *elements = (T *)copied;
    vector *vectors = (vector *)copied;
    const int thread = threadIdx.x % s.threads, slice_size = s.K * s.B;
    for (int64_t first = (int64_t)blockIdx.x * s.tile; first < s.slices;
         first += (int64_t)gridDim.x * s.tile) {
        const int slices = (int)(s.slices - first < s.tile ? s.slices - first : s.tile);
        const int count = slices * slice_size, moved = count / MOVED, outputs = slices * s.B;
        const T *from = x + first * slice_size;
        __syncthreads(); /* the previous tile is read */
        for (int i = threadIdx.x; i < moved; i += BLOCK) {
            const int row = COUNT > 1 ? (int)s.by_vectors.quotient((uint32_t)i) : 0;
            __pipeline_memcpy_async(&vectors[i + row * (s.pitch - s.vectors)], from + i * MOVED,
                                    VECTOR_BYTES);
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
                for (int k = thread; k < s.vectors; k += s.threads)
                    state.add(to.ordered(vectors[i * s.pitch + k]), k * MOVED, 1);
            } else if (i < outputs) {
                const int slice = (int)s.by_B.quotient((uint32_t)i);
                const T *row = elements + slice * slice_size + i - slice * s.B;
                int k = thread;
                for (; k + (IN_FLIGHT - 1) * s.threads < s.K; k += IN_FLIGHT * s.threads) {
                    vec<T, IN_FLIGHT> values;
#pragma unroll
                    for (int e = 0; e < IN_FLIGHT; e++)
                        values.of[e] = row[(k + e * s.threads) * s.B];
                    state.add(to.ordered(values), k, s.threads);
                }
                for (; k < s.K; k += s.threads)
                    state.add(to.ordered(vec<T, 1>{ { row[k * s.B] } }), k, s.threads);
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
    const unsigned blocks = grid_for_blocks(device, talc_ceil_div(s.slices, s.tile));
    const auto kernel = s.vectors > 0 ? reduce_short<State, T, VECTOR_BYTES / sizeof(T)>
                                      : reduce_short<State, T, 1>;
    kernel<<<blocks, BLOCK, s.bytes(sizeof(T)), talc_cuda_stream(device)>>>(to, x, s);
}

} // namespace talc

#endif
