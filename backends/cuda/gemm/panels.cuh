/// Packing: an operand of a matrix product, f32, is written once as scaled f16, in the order in
/// which tensor cores read it. Each element becomes a high and a low part. Each row gets a scale,
/// and a bound of the error that elements which underflow at this scale can cause. Private to
/// backends/cuda.
///
/// A row is a row of op(A) or a column of op(B), and k runs along it. A panel is 128, 64 or 32
/// rows. It is stored K tile by K tile. A K tile is 32 values of k (CHUNK), stored as [high or low
/// part][k / 8][row][k % 8]: up to 16 KB of contiguous memory, which one bulk copy brings to shared
/// memory, and which is wgmma's layout without swizzle. A segment is the 32 K tiles (CHUNKS) that
/// share the scale of a row. A round is the segments that the workspace holds at a time.
///
/// Within 16 values of k, the first 8 places are k = 0 1 4 5 8 9 12 13, the other 8 are k = 2 3 6 7
/// 10 11 14 15. If wgmma takes the other operand from registers, then a thread with t = lane % 4
/// holds places 2t, 2t + 1, 2t + 8 and 2t + 9 of a row, so k = 4t .. 4t + 3: one load of 16 bytes
/// (split_on_load.cu). The order does not matter where both operands are packed.
#ifndef TALC_BACKENDS_CUDA_GEMM_PANELS_CUH
#define TALC_BACKENDS_CUDA_GEMM_PANELS_CUH

#include "backends/cuda/cuda.h"
#include "backends/cuda/gemm/high_low.cuh"
#include "backends/cuda/gemm/recompute.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "ops/matmul.h"

#include <limits.h>

namespace talc
{

constexpr int PANEL = 128;                    /* maximum rows of a panel */
constexpr int CHUNK = 32, CHUNKS = 32;        /* values of k in a K tile; K tiles of a segment */
constexpr int SEGMENT = CHUNK * CHUNKS;       /* values of k in a segment */
constexpr int PART_BYTES = PANEL * CHUNK * 2; /* high parts of a K tile of a panel of 128 rows */
constexpr int PANEL_BYTES = 2 * PART_BYTES;
constexpr int EIGHT = 8, EIGHT_BYTES = PANEL * 16; /* 8 values of k of 128 rows, one part */
constexpr int ROW_BYTES = CHUNK * 4;               /* one row of a K tile, both parts */
/* A sum is rescaled where a new segment begins. If the exponents of a row differ by more than this,
 * then a sum could overflow or underflow there, and all outputs of the row are recomputed. */
constexpr int SPREAD = 50;

/// A segment of a row: the exponent of its scale, a power of two, and the number of its elements
/// that underflow when scaled.
struct row_note {
    int exponent, tiny;
};

constexpr int ZEROS = INT_MAX; /* the exponent of a segment of zeros, which needs no scale */

constexpr int WIDE = 4; /* contiguous floats that a thread loads or stores at a time */

constexpr size_t MAX_BYTES = (size_t)1 << 40; /* cap of the workspace: more than GPUs have */

// ---- Packing ------------------------------------------------------------------------------------

/// An operand in memory: element (row, k) is from[row * row_step + k * k_step].
struct panel_source {
    const float *from;
    int64_t row_step, k_step;
};

struct packing {
    panel_source source;
    char *to = nullptr;        ///< [matrix][panel][K tile of this round]
    row_note *notes = nullptr; ///< [matrix][row][segment]
    int64_t rows, K;
    int panel;    ///< rows of a panel
    int panels;   ///< of a matrix
    int segments; ///< of the whole reduction
    int segment = 0, round = 0,
        chunks = 0; ///< of this round: its first segment, how many it has, its K tiles
    int count;      ///< matrices
    bool aligned;   ///< whether WIDE elements along k can be one load of 16 bytes
    strided_index<1, uint64_t> matrices;
};

/* The matrices of a batched operand, each packed once. Along a dimension of the batch with stride 0
 * the matrix is the same. `numbers` has the strides of the batch in an index of these matrices. */
struct matrices {
    int rank = 0;
    int64_t count = 1, dims[TALC_MAX_RANK], strides[TALC_MAX_RANK], numbers[TALC_MAX_RANK];
    matrices(const talc_matmul_problem *p, const int64_t (&of)[TALC_MAX_RANK])
    {
        for (int i = p->batch_rank - 1; i >= 0; i--) {
            numbers[i] = of[i] == 0 ? 0 : count;
            count *= of[i] == 0 ? 1 : p->batch_dims[i];
        }
        for (int i = 0; i < p->batch_rank; i++)
            if (of[i] != 0)
                dims[rank] = p->batch_dims[i], strides[rank++] = of[i];
    }
};

/// Packs a round of an operand. `along_k` says whether it is contiguous along k.
void pack(const packing &p, bool along_k, cudaStream_t stream);

/// `rows` is M or N. Where `transposed`, the rows are contiguous in memory, else k is.
packing packing_of(const talc_matmul_problem *p, const matrices &m, const void *from,
                   bool transposed, int64_t ld, int64_t rows, int panel, int64_t panels);

// ---- The packed operand -------------------------------------------------------------------------

/// What kernels get of it.
struct panel_operand {
    const char *panels;
    const float *scales; ///< [segment][row]: the unscale factors
    const row_bound *bounds;
    int64_t matrix_rows;  ///< of a matrix, with those that fill its last panel
    int64_t segment_rows; ///< from a row's scale in a segment to that in the next

    __device__ __forceinline__ const char *panel_at(int64_t matrix, int64_t row, int k_tiles) const
    {
        return panels + (matrix * matrix_rows + row) * k_tiles * ROW_BYTES;
    }
    __device__ __forceinline__ const float *scale_at(int segment, int64_t matrix, int64_t row) const
    {
        return scales + segment * segment_rows + matrix * matrix_rows + row;
    }
    __device__ __forceinline__ const row_bound *bound_at(int64_t matrix, int64_t row) const
    {
        return bounds + matrix * matrix_rows + row;
    }
};

/// What packing writes of rows beside the panels: a part of the workspace.
struct row_numbers {
    int64_t rows, segments;
    row_note *notes = nullptr;
    float *scales = nullptr;
    row_bound *bounds = nullptr;

    row_numbers(int64_t rows_, int64_t K) : rows(rows_), segments(talc_ceil_div(K, SEGMENT))
    {
    }
    size_t bytes() const
    {
        return (size_t)rows *
               ((size_t)segments * (sizeof *notes + sizeof *scales) + sizeof *bounds);
    }
    void place(char *at)
    {
        notes = (row_note *)at;
        scales = (float *)(notes + rows * segments);
        bounds = (row_bound *)(scales + rows * segments);
    }
    /// The operand whose rows begin at `first`.
    panel_operand operand(const packing &p, int64_t first) const
    {
        return { p.to, scales + first, bounds + first, (int64_t)p.panels * p.panel, rows };
    }
    /// Bounds the rows from the notes of the first `ready` segments.
    void bound(int ready, cudaStream_t stream) const;
};

} // namespace talc

#endif
