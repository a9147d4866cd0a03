/// Tiles of a warp: rows of an image copied asynchronously into shared memory, and aligned stores
/// of rows of results. Private to backends/cuda.
///
/// A warp's tile is 32 * V columns of output wide (V elements are 16 bytes) and some rows high,
/// which the warp computes from top to bottom. Every lane has V neighbouring columns. The warp
/// prefetches rows of x by asynchronous copies into a ring buffer of its own in shared memory, so
/// that many bytes are in flight without taking registers:
///
///     slot      0          1          2          3                    SLOTS - 1
///               [row 8 . .][row 9 . .][row 2 . .][row 3 . .]   ...    [row 7 . .]
///                  in flight           read now   in flight ...
///
/// A lane reads its window of a row, V columns and their halo, 16 bytes at a time.
#ifndef TALC_BACKENDS_CUDA_CONV2D_WARP_TILES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_WARP_TILES_CUH

#include "backends/cuda/primitives/shared_copy.cuh"

#include <climits>

namespace talc
{

constexpr int WARPS_PER_BLOCK = 4; ///< each with tiles of its own

// ---- Tiles --------------------------------------------------------------------------------------

/// How planes of OH by OW outputs are divided into tiles.
struct warp_tiling {
    divisor<uint32_t> columns, rows; ///< tiles across a plane, and down it
    uint32_t tiles;                  ///< of all planes
    int height;                      ///< outputs

    /// False when there are too many. A tile has `width` columns and at most `high` rows.
    bool cut(const talc_device *device, int64_t planes, int64_t OH, int64_t OW, int64_t width,
             int64_t high)
    {
        /* Low tiles: warps that run at the same time are near each other in memory, which gains
         * more than reading the halo of each tile twice costs. */
        const int64_t across = talc_ceil_div(OW, width);
        const int64_t enough = (int64_t)talc_cuda_state_of(device)->multiprocessors * 64;
        while (high > 4 && planes * across * talc_ceil_div(OH, high) < enough)
            high /= 2;
        high = talc_ceil_div(OH, talc_ceil_div(OH, high));
        const int64_t count = planes * across * talc_ceil_div(OH, high);
        if (count > INT_MAX)
            return false;
        columns.set(across);
        rows.set(talc_ceil_div(OH, high));
        tiles = (uint32_t)count;
        height = (int)high;
        return true;
    }

    unsigned blocks() const
    {
        return (unsigned)talc_ceil_div(tiles, WARPS_PER_BLOCK);
    }
};

/// A tile: `rows` rows from `oh` on, of the columns from `ow` on.
struct warp_tile {
    uint32_t plane;
    int oh, ow, rows;

    __device__ warp_tile(const warp_tiling &tiling, uint32_t index, int OH, int width)
    {
        const uint32_t across = tiling.columns.quotient(index);
        plane = tiling.rows.quotient(across);
        ow = (int)(index - across * tiling.columns.by) * width;
        oh = (int)(across - plane * tiling.rows.by) * tiling.height;
        rows = min(OH - oh, tiling.height);
    }
};

// ---- Loads --------------------------------------------------------------------------------------

/// COUNT: columns of a lane's window. SKEW: columns of x that stand before lane 0's window in a
/// slot. ALIGNED: rows of x begin at 16 bytes, and so does column first_column - SKEW of each.
template <typename T, int COUNT, int SKEW, bool ALIGNED> struct row_ring {
    static constexpr int V = VECTOR_BYTES / sizeof(T);
    static constexpr int VECTORS = (SKEW + COUNT + V - 1) / V; ///< that a lane reads
    static constexpr int PITCH = (WARP - 1) * V + VECTORS * V;
    static constexpr int SLOTS = 8;
    static constexpr int EACH = ALIGNED ? V : 1;        ///< elements of a copy
    static constexpr int LEAD = SKEW > 0 ? 1 : 0;       ///< vectors before the tile's own
    static constexpr int WHOLE = PITCH / (WARP * EACH); ///< copies that all lanes take part in
    static_assert(LEAD == 0 || PITCH > WHOLE * WARP * EACH, "the lead is of the rest");
    using storage = T[SLOTS * PITCH];

    T *slots;
    const T *ahead; ///< this lane's first element of the next row to prefetch
    int column, W;  ///< where that element stands in its row
    int offset,
        rest; ///< where it stands in a slot, and how far from it what this lane copies of the rest
              ///< is
    int row, H, left;
    int write_at, read_at; ///< offsets of slots

    /// Prefetches the first of `rows` rows of the W by H image at `x`. A lane's window begins at
    /// column first_column + lane * V. What is outside the image reads as zero.
    __device__ void begin(T *slots_, const T *x, int H_, int W_, int first_row, int rows,
                          int first_column)
    {
        const int lane = (int)threadIdx.x % WARP;
        slots = slots_;
        /* All lanes together copy what begins at a multiple of their width; a few of them the
         * rest. */
        offset = (LEAD + lane) * EACH;
        rest = (lane < LEAD ? lane : WHOLE * WARP + lane) * EACH - offset;
        column = first_column - SKEW + offset;
        W = W_, row = first_row, H = H_, left = rows;
        ahead = x + ((int64_t)row * W + column);
        write_at = read_at = 0;
        __syncwarp(); /* an earlier tile's rows are read */
#pragma unroll
        for (int i = 0; i < SLOTS - 1; i++)
            prefetch();
    }

    __device__ __forceinline__ void copy(T *to, int i, unsigned width)
    {
        const bool inside = (unsigned)(column + i) < width;
        begin_copy<EACH * sizeof(T)>(to + i, ahead + i, inside ? EACH * (int)sizeof(T) : 0);
    }

    __device__ __forceinline__ void prefetch()
    {
        const int lane = (int)threadIdx.x % WARP;
        if (left > 0) {
            const unsigned width = (unsigned)row < (unsigned)H ? (unsigned)W : 0;
            T *to = slots + write_at + offset;
#pragma unroll
            for (int i = 0; i < WHOLE * WARP * EACH; i += WARP * EACH)
                copy(to, i, width);
            if (WHOLE * WARP * EACH < PITCH && lane * EACH < PITCH - WHOLE * WARP * EACH)
                copy(to, rest, width);
            row++, left--, ahead += W;
            write_at = write_at + PITCH == SLOTS * PITCH ? 0 : write_at + PITCH;
        }
        __pipeline_commit();
    }

    /// This lane's window of the next row.
    __device__ __forceinline__ void next(T (&window)[COUNT])
    {
        const int lane = (int)threadIdx.x % WARP;
        __pipeline_wait_prior(SLOTS - 2);
        __syncwarp(); /* other lanes' copies are complete; the previous row is read, its slot free
                       */
        const vec<T, V> *from = (const vec<T, V> *)(slots + read_at + lane * V);
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            const vec<T, V> some = from[i];
#pragma unroll
            for (int k = 0; k < V; k++)
                if (i * V + k >= SKEW && i * V + k < SKEW + COUNT)
                    window[i * V + k - SKEW] = some.of[k];
        }
        read_at = read_at + PITCH == SLOTS * PITCH ? 0 : read_at + PITCH;
        prefetch();
    }
};

// ---- Stores -------------------------------------------------------------------------------------

/* Stores the V columns of every lane, of which lane's first is `ow`, when the first aligned column
 * of the row is column SHIFT: a lane keeps its columns from SHIFT on and takes SHIFT of the next
 * lane. */
template <int SHIFT, typename T, int V>
__device__ __forceinline__ void store_shifted(T *row, const T (&values)[V], int lane, int ow,
                                              int OW)
{
    vec<T, V> out;
#pragma unroll
    for (int k = 0; k < V; k++)
        out.of[k] = k + SHIFT < V ? values[(k + SHIFT) % V]
                                  : __shfl_down_sync(~0u, values[(k + SHIFT) % V], 1);
    const bool whole = (SHIFT == 0 || lane < WARP - 1) && ow + SHIFT + V <= OW;
    const bool before = SHIFT > 0 && lane > 0 && ow + SHIFT <= OW; /* the lane before is whole */
    if (whole)
        *(int4 *)(row + ow + SHIFT) = *(const int4 *)&out;
    if (!whole || (SHIFT > 0 && !before)) {
        /* Ends of the tile or of the row: elements of no aligned vector. */
#pragma unroll
        for (int k = 0; k < V; k++)
            if (!(k < SHIFT ? before : whole) && ow + k < OW)
                row[ow + k] = values[k];
    }
}

/// Stores a warp's columns of a row of OW elements: those of a lane begin at `ow`. Rows begin at
/// any multiple of an element, so a lane hands its first columns to the lane before it where that
/// makes the stores aligned.
template <typename T, int V>
__device__ __forceinline__ void store_row(T *row, const T (&values)[V], int lane, int ow, int OW)
{
    const int shift = (int)(-((uintptr_t)row / sizeof(T)) % V); /* the same in all lanes */
    if (shift == 0)
        store_shifted<0>(row, values, lane, ow, OW);
    else if (V == 2 || shift == 1)
        store_shifted<1>(row, values, lane, ow, OW);
    else if (shift == 2)
        store_shifted<2 % V>(row, values, lane, ow, OW);
    else
        store_shifted<3 % V>(row, values, lane, ow, OW);
}

} // namespace talc

#endif
