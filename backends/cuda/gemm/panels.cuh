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

/* Packs an operand that is contiguous along k. A warp packs a segment of one row, a block those of
 * 8 rows. EACH is the maximum number of K tiles in a segment of this problem, and so the number of
 * elements that a lane has. APART is the pitch of shared memory for 8 values of k of 8 rows; its 16
 * bytes of padding avoid bank conflicts. */
template <int EACH>
static __global__ void __launch_bounds__(BLOCK, EACH == CHUNKS ? 3 : 6)
    pack_rows(const __grid_constant__ packing p)
{
    constexpr int ROWS = BLOCK / WARP, APART = ROWS * 16 + 16;
    __shared__ __align__(16) char halves[2][EACH * CHUNK / EIGHT][APART];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int segment = (int)blockIdx.x % p.round, first = (int)blockIdx.x / p.round * ROWS;
    const int64_t row = first + warp, k0 = (int64_t)(p.segment + segment) * SEGMENT + lane * WIDE;
    const int left = row < p.rows ? (int)min(p.K - k0, (int64_t)SEGMENT) : 0;
    for (int matrix = (int)blockIdx.y; matrix < p.count; matrix += (int)gridDim.y) {
        int64_t at[1];
        p.matrices.offsets((uint64_t)matrix, at);
        const float *from = p.source.from + at[0] + row * p.source.row_step + k0;
        float v[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i += WIDE) {
            const int k = i * WARP;
            if (p.aligned && k + WIDE <= left) {
                const float4 four = *(const float4 *)(from + k);
                v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
            } else {
#pragma unroll
                for (int j = 0; j < WIDE; j++)
                    v[i + j] = k + j < left ? from[k + j] : 0;
            }
        }
        const float most = larger_of_warp(largest_of(v));
        const int e = exponent_for(most);
        const int tiny = __reduce_add_sync(~0u, scale_by(power_of_two(e), v));
#pragma unroll
        for (int i = 0; i < EACH; i += WIDE) {
            uint2 high, rest;
            split_four(v + i, high, rest);
            const int eight = (i * WARP + lane * WIDE) / 16 * 2, at = warp * 16 + lane % 4 * 4;
            *(uint32_t *)&halves[0][eight][at] = high.x;
            *(uint32_t *)&halves[0][eight + 1][at] = high.y;
            *(uint32_t *)&halves[1][eight][at] = rest.x;
            *(uint32_t *)&halves[1][eight + 1][at] = rest.y;
        }
        if (lane == 0)
            p.notes[((int64_t)matrix * p.panels * p.panel + row) * p.segments + p.segment +
                    segment] = { most == 0 ? ZEROS : e, tiny };
        __syncthreads();
        const int panel_bytes = p.panel * ROW_BYTES;
        char *to = p.to +
                   (((int64_t)matrix * p.panels + first / p.panel) * p.chunks + segment * CHUNKS) *
                       panel_bytes +
                   first % p.panel * 16;
        const int chunks = min(EACH, p.chunks - segment * CHUNKS);
        /* 8 threads write 128 contiguous bytes: 8 values of k of the block's 8 rows. */
        for (int i = (int)threadIdx.x; i < chunks * 2 * CHUNK; i += BLOCK) {
            const int chunk = i / (2 * CHUNK), part = i / CHUNK % 2, eight = i / EIGHT % 4;
            *(uint4 *)(to + chunk * panel_bytes + part * (panel_bytes / 2) + eight * p.panel * 16 +
                       i % EIGHT * 16) = *(uint4 *)&halves[part][chunk * 4 + eight][i % EIGHT * 16];
        }
        __syncthreads();
    }
}

/* Packs an operand whose rows are contiguous in memory: a step along k is a stride. A block packs a
 * segment of 16 rows, a thread one K tile of one row. So a warp reads 16 contiguous floats for each
 * of two K tiles. */
constexpr int NEIGHBOURS = 16, COLUMN_THREADS = CHUNKS * NEIGHBOURS;

static __global__ void __launch_bounds__(COLUMN_THREADS, 2)
    pack_columns(const __grid_constant__ packing p)
{
    __shared__ float most_of[CHUNKS][NEIGHBOURS];
    __shared__ int tiny_of[CHUNKS][NEIGHBOURS];
    const int lane = (int)threadIdx.x % NEIGHBOURS, own = (int)threadIdx.x / NEIGHBOURS;
    const int chunks = (int)blockDim.x / NEIGHBOURS, groups = p.panels * (p.panel / NEIGHBOURS);
    const int segment = (int)blockIdx.x / groups, first = (int)blockIdx.x % groups * NEIGHBOURS;
    const int chunk = segment * CHUNKS + own;
    const int64_t row = first + lane, k0 = (int64_t)p.segment * SEGMENT + (int64_t)chunk * CHUNK;
    const int left = row < p.rows ? (int)min(p.K - k0, (int64_t)CHUNK) : 0;
    for (int matrix = (int)blockIdx.y; matrix < p.count; matrix += (int)gridDim.y) {
        int64_t at[1];
        p.matrices.offsets((uint64_t)matrix, at);
        const float *from = p.source.from + at[0] + row + k0 * p.source.k_step;
        float v[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; i++, from += p.source.k_step)
            v[i] = i < left ? *from : 0;
        float most = largest_of(v);
        most_of[own][lane] = most;
        __syncthreads();
        for (int i = 0; i < chunks; i++)
            most = fmaxf(most, most_of[i][lane]);
        const int e = exponent_for(most);
        tiny_of[own][lane] = scale_by(power_of_two(e), v);
        const int panel_bytes = p.panel * ROW_BYTES;
        char *to =
            p.to +
            (((int64_t)matrix * p.panels + first / p.panel) * p.chunks + chunk) * panel_bytes +
            (first % p.panel + lane) * 16;
        if (chunk < p.chunks)
#pragma unroll
            for (int i = 0; i < CHUNK; i += EIGHT) {
                const int from = i / 16 * 16 + i % 16 / 4;
                const float eight[] = { v[from],     v[from + 1], v[from + 4],  v[from + 5],
                                        v[from + 8], v[from + 9], v[from + 12], v[from + 13] };
                uint4 high, rest;
                split_eight(eight, high, rest);
                *(uint4 *)(to + i / EIGHT * p.panel * 16) = high;
                *(uint4 *)(to + i / EIGHT * p.panel * 16 + panel_bytes / 2) = rest;
            }
        __syncthreads();
        if (own == 0) {
            int tiny = 0;
            for (int i = 0; i < chunks; i++)
                tiny += tiny_of[i][lane];
            p.notes[((int64_t)matrix * p.panels * p.panel + row) * p.segments + p.segment +
                    segment] = { most == 0 ? ZEROS : e, tiny };
        }
        __syncthreads();
    }
}

/* Writes the unscale factors of each row, [segment][row], and its bound, from the notes of the
 * first `ready` segments. A warp does one row. */
static __global__ void __launch_bounds__(BLOCK)
    bound_rows(const row_note *notes, float *scales, row_bound *bounds, int64_t rows, int segments,
               int ready)
{
    const int lane = (int)threadIdx.x % WARP;
    const int64_t row = (int64_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    int low = INT_MAX, high = INT_MIN;
    row_bound bound = {};
    for (int i = lane; i < ready; i += WARP) {
        const row_note note = notes[row * segments + i];
        const bool real = note.exponent != ZEROS;
        const float scale = real ? power_of_two(-note.exponent) : 1;
        scales[i * rows + row] = scale;
        if (real) {
            low = min(low, note.exponent), high = max(high, note.exponent);
            bound.tiny += (float)note.tiny * scale;
            bound.largest = fmaxf(bound.largest, scale);
        }
    }
    low = __reduce_min_sync(~0u, low), high = __reduce_max_sync(~0u, high);
    bound.largest = larger_of_warp(bound.largest);
    bound.tiny = sum_of_warp(bound.tiny);
    if (low != INT_MAX && high - low > SPREAD)
        bound.tiny = NAN;
    if (lane == 0)
        bounds[row] = bound;
}

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

/* Packs a round of an operand. `along_k` says whether it is contiguous along k. */
static void pack(const packing &p, bool along_k, cudaStream_t stream)
{
    constexpr int FEW = 8;
    const unsigned down = (unsigned)(p.count < 65535 ? p.count : 65535);
    const dim3 rows((unsigned)(p.panels * (p.panel / EIGHT) * p.round), down),
        columns((unsigned)(p.panels * (p.panel / NEIGHBOURS) * p.round), down);
    if (!along_k)
        pack_columns<<<columns, NEIGHBOURS *(p.chunks < CHUNKS ? p.chunks : CHUNKS), 0, stream>>>(
            p);
    else if (p.chunks <= FEW)
        pack_rows<FEW><<<rows, BLOCK, 0, stream>>>(p);
    else
        pack_rows<CHUNKS><<<rows, BLOCK, 0, stream>>>(p);
}

/* `rows` is M or N. Where `transposed`, the rows are contiguous in memory, else k is. */
static packing packing_of(const talc_matmul_problem *p, const matrices &m, const void *from,
                          bool transposed, int64_t ld, int64_t rows, int panel, int64_t panels)
{
    bool aligned = (uintptr_t)from % 16 == 0 && ld % 4 == 0;
    for (int i = 0; i < m.rank; i++)
        aligned = aligned && m.strides[i] % 4 == 0;
    packing o{ .source = { (const float *)from, transposed ? 1 : ld, transposed ? ld : 1 },
               .rows = rows,
               .K = p->K,
               .panel = panel,
               .panels = (int)panels,
               .segments = (int)talc_ceil_div(p->K, SEGMENT),
               .count = (int)m.count,
               .aligned = aligned,
               .matrices = { m.rank, m.dims, { m.strides } } };
    return o;
}

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
    void bound(int ready, cudaStream_t stream) const
    {
        bound_rows<<<(unsigned)(rows / (BLOCK / WARP)), BLOCK, 0, stream>>>(
            notes, scales, bounds, rows, (int)segments, ready);
    }
};

} // namespace talc

#endif
