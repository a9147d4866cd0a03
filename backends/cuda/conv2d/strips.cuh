/// Rows of an image on their way through shared memory, and rows of results on their way out. Private to backends/cuda.
///
/// A warp marches down a strip of an image, 32 * V columns of output wide (V elements are 16 bytes). Every lane has V
/// neighbouring columns. The warp asks for each row long before it uses it, straight into a ring of rows in shared memory
/// that is its own, so that many bytes are under way without a register waiting for them:
///
///     slot      0          1          2          3                    SLOTS - 1
///               [row 8 . .][row 9 . .][row 2 . .][row 3 . .]   ...    [row 7 . .]
///                     asked for        read now   on their way ...
///
/// A lane reads its window of a row, V columns and those beside them, in pieces of 16 bytes.
#ifndef TALC_BACKENDS_CUDA_CONV2D_STRIPS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_STRIPS_CUH

#include "backends/cuda/group.cuh"

#include <cuda_pipeline_primitives.h>

#include <climits>

namespace talc
{

constexpr int STRIP_WARPS = 4; ///< of a block, each with strips of its own

// ---- Strips -------------------------------------------------------------------------------------------------

/// How planes of OH by OW outputs are cut.
struct strip_cut {
    divisor<uint32_t> columns, rows; ///< strips beside each other, and one below the other
    uint32_t strips;                 ///< of all planes
    int height;                      ///< outputs

    /// False when there are too many. `width` is what a warp takes of a row, `high` how
    /// many rows a strip has at most.
    bool cut(const talc_device *device, int64_t planes, int64_t OH, int64_t OW, int64_t width,
             int64_t high)
    {
        /* Low strips: warps that run at the same time are near each other in memory, which is worth more than that rows
         * between strips are read twice. */
        const int64_t across = pieces(OW, width);
        const int64_t enough = (int64_t)talc_cuda_state_of(device)->multiprocessors * 64;
        while (high > 4 && planes * across * pieces(OH, high) < enough)
            high /= 2;
        high = pieces(OH, pieces(OH, high));
        const int64_t count = planes * across * pieces(OH, high);
        if (count > INT_MAX)
            return false;
        columns.set(across);
        rows.set(pieces(OH, high));
        strips = (uint32_t)count;
        height = (int)high;
        return true;
    }

    unsigned blocks() const
    {
        return (strips + STRIP_WARPS - 1) / STRIP_WARPS;
    }
};

/// One of them: `rows` rows from `oh` on, of the columns from `ow` on.
struct strip {
    uint32_t plane;
    int oh, ow, rows;

    __device__ strip(const strip_cut &cut, uint32_t index, int OH, int width)
    {
        const uint32_t across = cut.columns.quotient(index);
        plane = cut.rows.quotient(across);
        ow = (int)(index - across * cut.columns.by) * width;
        oh = (int)(across - plane * cut.rows.by) * cut.height;
        rows = min(OH - oh, cut.height);
    }
};

// ---- Loads --------------------------------------------------------------------------------------------------

/// Begins to copy BYTES from global to shared memory, of which the first `real` exist and the others are zero.
template <int BYTES>
__device__ __forceinline__ void begin_copy(void *to, const void *from, int real)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (BYTES == ACCESS)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(real));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from),
                     "n"(BYTES), "r"(real));
}

/// STRIDE: columns of x from output to output. COUNT: columns of a lane's window. SKEW: columns of x that stand before
/// lane 0's window in a slot. ALIGNED: rows of x begin at 16 bytes, and so does column first_column - SKEW of each.
template <typename T, int STRIDE, int COUNT, int SKEW, bool ALIGNED> struct row_ring {
    static constexpr int V = ACCESS / sizeof(T);
    static constexpr int PACKS = (SKEW + COUNT + V - 1) / V; ///< that a lane reads
    static constexpr int PITCH = (WARP - 1) * V * STRIDE + PACKS * V;
    static constexpr int SLOTS = PITCH * (int)sizeof(T) > 768 ? 4 : 8;
    static constexpr int EACH = ALIGNED ? V : 1;        ///< elements of a copy
    static constexpr int LEAD = SKEW > 0 ? 1 : 0;       ///< packs before the strip's own
    static constexpr int WHOLE = PITCH / (WARP * EACH); ///< copies that all lanes take part in
    static_assert(LEAD == 0 || PITCH > WHOLE * WARP * EACH, "the lead is of the rest");
    using storage = T[SLOTS * PITCH];

    T *slots;
    const T *ahead; ///< this lane's first element of the next row to ask for
    int column, W;  ///< where that element stands in its row
    int place,
        rest; ///< where it stands in a slot, and how far from it what this lane copies of the rest is
    int row, H, left;
    int asked, taken; ///< offsets of slots

    /// Asks for the first of `rows` rows of the W by H image at `x`. A lane's window begins at column first_column +
    /// lane * V * STRIDE. What is outside the image reads as zero.
    __device__ void begin(T *slots_, const T *x, int H_, int W_, int first_row, int rows,
                          int first_column)
    {
        const int lane = (int)threadIdx.x % WARP;
        slots = slots_;
        /* All lanes together copy what begins at a multiple of their width; a few of them the rest. */
        place = (LEAD + lane) * EACH;
        rest = (lane < LEAD ? lane : WHOLE * WARP + lane) * EACH - place;
        column = first_column - SKEW + place;
        W = W_, row = first_row, H = H_, left = rows;
        ahead = x + ((int64_t)row * W + column);
        asked = taken = 0;
        __syncwarp(); /* an earlier strip's rows are read */
#pragma unroll
        for (int i = 0; i < SLOTS - 1; i++)
            ask();
    }

    __device__ __forceinline__ void copy(T *to, int i, unsigned width)
    {
        const bool inside = (unsigned)(column + i) < width;
        begin_copy<EACH * sizeof(T)>(to + i, ahead + i, inside ? EACH * (int)sizeof(T) : 0);
    }

    __device__ __forceinline__ void ask()
    {
        const int lane = (int)threadIdx.x % WARP;
        if (left > 0) {
            const unsigned width = (unsigned)row < (unsigned)H ? (unsigned)W : 0;
            T *to = slots + asked + place;
#pragma unroll
            for (int i = 0; i < WHOLE * WARP * EACH; i += WARP * EACH)
                copy(to, i, width);
            if (WHOLE * WARP * EACH < PITCH && lane * EACH < PITCH - WHOLE * WARP * EACH)
                copy(to, rest, width);
            row++, left--, ahead += W;
            asked = asked + PITCH == SLOTS * PITCH ? 0 : asked + PITCH;
        }
        __pipeline_commit();
    }

    /// This lane's window of the next row.
    __device__ __forceinline__ void next(T (&window)[COUNT])
    {
        const int lane = (int)threadIdx.x % WARP;
        __pipeline_wait_prior(SLOTS - 2);
        __syncwarp(); /* other lanes' parts have arrived; the row before is read, its slot free */
        const vec<T, V> *from = (const vec<T, V> *)(slots + taken + lane * V * STRIDE);
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
            const vec<T, V> some = from[i];
#pragma unroll
            for (int k = 0; k < V; k++)
                if (i * V + k >= SKEW && i * V + k < SKEW + COUNT)
                    window[i * V + k - SKEW] = some.of[k];
        }
        taken = taken + PITCH == SLOTS * PITCH ? 0 : taken + PITCH;
        ask();
    }
};

// ---- Stores -------------------------------------------------------------------------------------------------

/* Stores the V columns of every lane, of which lane's first is `ow`, when the first aligned column of the row is column
 * SHIFT: a lane keeps its columns from SHIFT on and takes SHIFT of the next lane. */
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
        /* Ends of the strip or of the row: what is in nobody's pack. */
#pragma unroll
        for (int k = 0; k < V; k++)
            if (!(k < SHIFT ? before : whole) && ow + k < OW)
                row[ow + k] = values[k];
    }
}

/// Stores a warp's columns of a row of OW elements: those of a lane begin at `ow`. Rows begin at any multiple of an
/// element, so a lane hands its first columns to the lane before it where that makes the stores aligned.
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
