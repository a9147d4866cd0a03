/// Maps (map.h): the transposing kernel, for operands that are contiguous along another dimension,
/// S, than y, which is along D. Private to backends/cuda.
///
///     a [D, S]: read along S         shared [D, S + padding]         y [S, D]: written along D
///          d0    | - - - - >              | . . . . |                     s0    | - - - - >
///          d0+1  | - - - - >   ------>    | . . . . |     ------>         s0+1  | - - - - >
///
/// A block has a tile: 2^height by 2^width elements of the plane that S and D span, at one place of
/// the other dimensions. Where one of the two is short, as the 3 channels of a picture are, the
/// tile is longer in the other. Elements are read R at a time along S and written W at a time along
/// D. One of the two is 4 for aligned elements of 4 bytes, both are for bytes: a thread then
/// transposes 4 by 4 elements in registers.
#ifndef TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_TRANSPOSED_CUH
#define TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_TRANSPOSED_CUH

#include "backends/cuda/elementwise/map_element.cuh"

#include <cuda_pipeline.h>

namespace talc
{

struct transposed_plan {
    map_operands m;
    map_index others;                     ///< the dimensions but S and D
    int64_t across[ARRAYS], down[ARRAYS]; ///< strides along D and along S
    bool shared_operand[ARRAYS];          ///< the operand goes through shared memory
    uint32_t S, D;
    int height, width;        ///< of a tile, the logarithms
    uint32_t pitch, capacity; ///< in shared memory: of a row and of an operand, in elements
    divisor<uint32_t> tiles_down, tiles_across; ///< of S and of D
    uint32_t tiles;
};

/* A thread's loop over a tile of 2^slow rows of 2^fast units (vectors). It steps over rows; where a
 * row is longer than a block it steps along the row instead, one round for each row. */
struct tile_loop {
    uint32_t fast, slow; ///< the thread's first unit
    bool is_long;
    int log_step; ///< units of a step
    uint32_t rounds;

    __device__ __forceinline__ tile_loop(int log_fast, int log_slow)
    {
        fast = threadIdx.x & ((1u << log_fast) - 1), slow = threadIdx.x >> log_fast;
        is_long = log_fast > LOG_BLOCK;
        log_step = is_long ? LOG_BLOCK : LOG_BLOCK - log_fast;
        rounds = is_long ? 1u << log_slow : 1;
    }

    /// The steps of a round that fall on units inside the tile.
    __device__ __forceinline__ uint32_t steps(uint32_t round, uint32_t fast_units,
                                              uint32_t slow_units) const
    {
        const uint32_t at = is_long ? fast : slow, end = is_long ? fast_units : slow_units;
        const bool inside = is_long ? slow + round < slow_units : fast < fast_units;
        return inside && at < end ? (end - at + (1u << log_step) - 1) >> log_step : 0;
    }

    /// The distance of a step, given the strides of units.
    template <typename Stride>
    __device__ __forceinline__ Stride step(Stride fast_stride, Stride slow_stride) const
    {
        return (is_long ? fast_stride : slow_stride) << log_step;
    }

  private:
    static constexpr int LOG_BLOCK = 8;
    static_assert(1 << LOG_BLOCK == BLOCK, "a unit a thread");
};

/* A tile's row in shared memory. The W rows that a thread reads are spread out, so that
 * neighbouring threads read neighbouring rows. */
template <int W> __device__ __forceinline__ uint32_t tile_row(uint32_t d, int width)
{
    return W == 1 ? d : ((d % W) << width) / W + d / W;
}

template <int N> constexpr int LOG2 = N == 1 ? 0 : 2;

/* Fetches a tile of an operand, of which `high` by `wide` elements are there, R at a time. */
template <int R, int W, typename T>
__device__ __forceinline__ void fetch_tile(const transposed_plan &p, int o, T *tile, const T *from,
                                           uint32_t high, uint32_t wide)
{
    constexpr int BYTES = R * (int)sizeof(T);
    const tile_loop loop(p.height - LOG2<R>, p.width);
    const int64_t step = loop.step(R * p.down[o], p.across[o]);
    const uint32_t step_s = loop.step<uint32_t>(R, 0), step_d = loop.step<uint32_t>(0, 1);
#pragma unroll 1
    for (uint32_t round = 0; round < loop.rounds; round++) {
        const uint32_t steps = loop.steps(round, high / R, wide);
        uint32_t s = loop.fast * R, d = loop.slow + round;
        const T *next = from + s * p.down[o] + d * p.across[o];
        if constexpr (BYTES >= 4) {
#pragma unroll 4
            for (uint32_t done = 0; done < steps; done++, next += step, s += step_s, d += step_d)
                __pipeline_memcpy_async(tile + tile_row<W>(d, p.width) * p.pitch + s, next, BYTES);
        } else {
            /* Bytes one at a time: asynchronous copies are of four at least. */
            constexpr int K = 8;
#pragma unroll 1
            for (uint32_t done = 0; done < steps; done += K) {
                T held[K];
#pragma unroll
                for (int k = 0; k < K; k++, next += step)
                    if (done + k < steps)
                        held[k] = *next;
#pragma unroll
                for (int k = 0; k < K; k++, s += step_s, d += step_d)
                    if (done + k < steps)
                        tile[tile_row<W>(d, p.width) * p.pitch + s] = held[k];
            }
        }
    }
}

/* Four words of four bytes, by eight instructions. */
__device__ __forceinline__ void transpose_bytes(const uint32_t (&in)[4], void *values)
{
    uint32_t out[4];
    const uint32_t low_first = __byte_perm(in[0], in[1], 0x5140);
    const uint32_t low_last = __byte_perm(in[2], in[3], 0x5140);
    const uint32_t high_first = __byte_perm(in[0], in[1], 0x7362);
    const uint32_t high_last = __byte_perm(in[2], in[3], 0x7362);
    out[0] = __byte_perm(low_first, low_last, 0x5410);
    out[1] = __byte_perm(low_first, low_last, 0x7632);
    out[2] = __byte_perm(high_first, high_last, 0x5410);
    out[3] = __byte_perm(high_first, high_last, 0x7632);
    memcpy(values, out, sizeof out);
}

/* R rows of W elements along D: columns of an operand's tile, transposed, or from memory. */
template <int R, int W, typename T>
__device__ __forceinline__ void load_register_tile(const transposed_plan &p, int o, T *values,
                                                   const T *from)
{
    if (p.m.x[o] == NULL)
        return;
    if (!p.shared_operand[o]) {
#pragma unroll
        for (int i = 0; i < R; i++)
            load<W>(values + i * W, from + i * p.down[o], p.across[o]);
        return;
    }
    if constexpr (sizeof(T) == 1) {
        uint32_t rows[W];
#pragma unroll
        for (int e = 0; e < W; e++)
            rows[e] = *(const uint32_t *)(from + ((e << p.width) / W) * p.pitch);
        transpose_bytes(rows, values);
    } else {
#pragma unroll
        for (int e = 0; e < W; e++) {
            const vec<T, R> row = *(const vec<T, R> *)(from + ((e << p.width) / W) * p.pitch);
#pragma unroll
            for (int i = 0; i < R; i++)
                values[i * W + e] = row.of[i];
        }
    }
}

/* Whether elements in register tiles are only copied: integer arithmetic is not worth kernels of
 * its own. */
template <typename T, int REGISTER_TILE>
constexpr bool COPIES = REGISTER_TILE > 1 && std::is_integral_v<T>;

/* Blocks per multiprocessor that the registers are limited for; the functions of f64 need more
 * registers. */
template <typename T> constexpr int OCCUPANCY = std::is_same_v<T, double> ? 3 : 5;

template <typename T, int R, int W>
static __global__ void __launch_bounds__(BLOCK, OCCUPANCY<T>)
    map_transposed(const transposed_plan p)
{
    extern __shared__ __align__(16) unsigned char tile_bytes[];
    T *const tile = (T *)tile_bytes;
    const uint32_t rest = p.tiles_across.quotient(blockIdx.x);
    const uint32_t d0 = (blockIdx.x - rest * p.tiles_across.by) << p.width;
    const uint32_t other = p.tiles_down.quotient(rest);
    const uint32_t s0 = (rest - other * p.tiles_down.by) << p.height;
    const uint32_t high = min(p.S - s0, 1u << p.height), wide = min(p.D - d0, 1u << p.width);
    const map_offsets at = p.others.find(other);
    const T *from[ARRAYS];
#pragma unroll
    for (int o = A; o < ARRAYS; o++) {
        from[o] = (const T *)p.m.x[o] + at.of[o] + s0 * p.down[o] + d0 * p.across[o];
        if (p.shared_operand[o])
            fetch_tile<R, W>(p, o, tile + (o - A) * p.capacity, from[o], high, wide);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    /* Units are R rows of W elements. An operand's are in its tile or in global memory; bytes in
     * register tiles are only copied. */
    constexpr int REGISTER_TILE = R * W, K = REGISTER_TILE == 1 ? 4 : 1;
    const tile_loop loop(p.width - LOG2<W>, p.height - LOG2<R>);
    int64_t step[ARRAYS];
#pragma unroll
    for (int o = 0; o < ARRAYS; o++)
        step[o] = p.shared_operand[o] ? loop.step<int64_t>(p.pitch, R)
                                      : loop.step(W * p.across[o], R * p.down[o]);
#pragma unroll 1
    for (uint32_t round = 0; round < loop.rounds; round++) {
        const uint32_t steps = loop.steps(round, wide / W, high / R);
        const uint32_t s = (loop.slow + round) * R, d = loop.fast * W;
        int64_t to = at.of[Y] + (s0 + s) * p.down[Y] + (d0 + d) * p.across[Y];
        const T *next[ARRAYS];
#pragma unroll
        for (int o = A; o < ARRAYS; o++)
            next[o] = p.shared_operand[o] ? tile + (o - A) * p.capacity + loop.fast * p.pitch + s
                                          : from[o] + s * p.down[o] + d * p.across[o];
#pragma unroll 1
        for (uint32_t done = 0; done < steps; done += K) {
            T a[K * REGISTER_TILE], b[K * REGISTER_TILE];
#pragma unroll
            for (int k = 0; k < K * REGISTER_TILE; k++)
                a[k] = b[k] = element_of<T>(p.m.bits);
#pragma unroll
            for (int k = 0; k < K; k++, next[A] += step[A], next[B] += step[B]) {
                if (done + k >= steps)
                    continue;
                if constexpr (REGISTER_TILE == 1) {
                    if (p.m.x[A] != NULL)
                        a[k] = *next[A];
                    if (p.m.x[B] != NULL)
                        b[k] = *next[B];
                } else {
                    load_register_tile<R, W>(p, A, a, next[A]);
                    if (!COPIES<T, REGISTER_TILE>)
                        load_register_tile<R, W>(p, B, b, next[B]);
                }
            }
            if (!COPIES<T, REGISTER_TILE>)
                apply<std::is_same_v<T, double>>(p.m, a, b);
#pragma unroll
            for (int k = 0; k < K; k++, to += step[Y])
                if (done + k < steps)
#pragma unroll
                    for (int i = 0; i < R; i++)
                        store<W>((T *)p.m.y + to + i * p.down[Y], p.across[Y],
                                 a + k * REGISTER_TILE + i * W);
        }
    }
}

} // namespace talc

#endif
