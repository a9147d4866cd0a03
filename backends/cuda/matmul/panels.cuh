/// Operands of matrix products as panels of halves, as tensor cores read them: packed once, high
/// and low parts, with the scales of their rows and with what these lose. Private to backends/cuda.
///
/// A panel has 128, 64 or 32 rows of op(A), or columns of op(B), by chunks of 32 steps of k, each
/// [part][k / 8][row][k % 8], up to 16 KB of contiguous memory that one bulk copy brings to shared
/// memory, where wgmma reads it as it is. Within 16 steps of k the order is that of a fragment of
/// wgmma's other operand in registers whose threads have four neighbours each: 0 1 4 5 8 9 12 13,
/// 2 3 6 7 10 11 14 15.
#ifndef TALC_BACKENDS_CUDA_MATMUL_PANELS_CUH
#define TALC_BACKENDS_CUDA_MATMUL_PANELS_CUH

#include "backends/cuda/cuda.h"
#include "backends/cuda/primitives/halves.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "ops/matmul.h"

#include <limits.h>

namespace talc
{

constexpr int PANEL = 128;                    /* rows of a panel, the most */
constexpr int CHUNK = 32, CHUNKS = 32;        /* steps of k; chunks of a segment */
constexpr int SEGMENT = CHUNK * CHUNKS;       /* steps of k of one scale */
constexpr int PART_BYTES = PANEL * CHUNK * 2; /* of a panel's chunk: of its high parts */
constexpr int PANEL_BYTES = 2 * PART_BYTES;
constexpr int EIGHT = 8, EIGHT_BYTES = PANEL * 16; /* eight steps of k of a panel */
constexpr int ROW_BYTES = CHUNK * 4;               /* of a panel's chunk: of one row, both parts */
/* Exponents of a row that differ by more could take sums out of range. */
constexpr int SPREAD = 50;

/// Of a row in a segment: its power of two, and how many elements are too small.
struct row_note {
    int exponent, tiny;
};

/// Of a row: what its tiny elements can do to a product with 1, and what 1 is after scaling.
struct row_bound {
    float tiny, largest;
};

constexpr int ZEROS = INT_MAX; /* the exponent of zeros alone */

constexpr int WIDE = 4; /* neighbours that a thread loads or stores at once */

constexpr size_t MAX_BYTES = (size_t)1 << 40; /* of the workspace */

// ---- Packing ------------------------------------------------------------------------------------

struct packing {
    const float *from;
    char *to = nullptr;        ///< [matrix][panel][chunk of this round]
    row_note *notes = nullptr; ///< [matrix][row][segment]
    int64_t rows, K, row_step, k_step;
    int panel;    ///< rows of a panel
    int panels;   ///< of a matrix
    int segments; ///< of the whole reduction
    int segment = 0, round = 0,
        chunks = 0; ///< of this round: its first segment, their count, its chunks
    int count;      ///< matrices
    bool aligned;   ///< whether four neighbours along k are 16 bytes of memory
    strided_index<1, uint64_t> matrices;
};

/* The largest magnitude of a row that is finite. */
template <int COUNT> static __device__ __forceinline__ float largest_of(const float (&v)[COUNT])
{
    float most = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        most = fmaxf(most, fabsf(v[i]));
    if (isinf(most)) {
        most = 0;
        for (int i = 0; i < COUNT; i++)
            most = fmaxf(most, isinf(v[i]) ? 0 : fabsf(v[i]));
    }
    return most;
}

/* Scales a thread's elements, and counts those that are too small then. */
template <int COUNT> static __device__ __forceinline__ int scale_by(float scale, float (&v)[COUNT])
{
    unsigned smallest = ~0u;
    int tiny = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        v[i] *= scale;
        smallest = min(smallest, tininess(v[i]));
    }
    if (smallest < TINY<3>)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            tiny += tininess(v[i]) < TINY<3>;
    return tiny;
}

static __device__ __forceinline__ float larger_of_warp(float v)
{
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(v)));
}

/* Rows are contiguous along k: a warp a row of a segment, or of its first EACH chunks, a block
 * eight rows. */
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
        const float *from = p.from + at[0] + row * p.row_step + k0;
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
        /* Eight threads write 128 bytes: eight steps of k of all rows. */
        for (int i = (int)threadIdx.x; i < chunks * 2 * CHUNK; i += BLOCK) {
            const int chunk = i / (2 * CHUNK), part = i / CHUNK % 2, eight = i / EIGHT % 4;
            *(uint4 *)(to + chunk * panel_bytes + part * (panel_bytes / 2) + eight * p.panel * 16 +
                       i % EIGHT * 16) = *(uint4 *)&halves[part][chunk * 4 + eight][i % EIGHT * 16];
        }
        __syncthreads();
    }
}

/* Rows are next to each other in memory: a block 16 of them, a warp two chunks, a thread a chunk of
 * one. */
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
        const float *from = p.from + at[0] + row + k0 * p.k_step;
        float v[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; i++, from += p.k_step)
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

/* A warp a row: its scales in segments up to `ready`, [segment][row], and its bound. */
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
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        bound.tiny += __shfl_xor_sync(~0u, bound.tiny, apart);
    if (low != INT_MAX && high - low > SPREAD)
        bound.tiny = NAN;
    if (lane == 0)
        bounds[row] = bound;
}

/* Whether a sum is not well above what tiny elements can do. */
static __device__ __forceinline__ bool needs_recompute(float sum, row_bound a, row_bound b,
                                                       float coefficient)
{
    const float least = (a.tiny * b.largest + a.largest * b.tiny) * coefficient;
    return !(fabsf(sum) >= least && fabsf(sum) < INFINITY);
}

/* An operand's matrices: those dimensions of the batch along which it changes. */
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

static packing packing_of(const talc_matmul_problem *p, const matrices &m, const void *from,
                          bool transposed, int64_t ld, int64_t rows, int panel, int64_t panels)
{
    bool aligned = (uintptr_t)from % 16 == 0 && ld % 4 == 0;
    for (int i = 0; i < m.rank; i++)
        aligned = aligned && m.strides[i] % 4 == 0;
    packing o{ .from = (const float *)from,
               .rows = rows,
               .K = p->K,
               .row_step = transposed ? 1 : ld,
               .k_step = transposed ? ld : 1,
               .panel = panel,
               .panels = (int)panels,
               .segments = (int)talc_ceil_div(p->K, SEGMENT),
               .count = (int)m.count,
               .aligned = aligned,
               .matrices = { m.rank, m.dims, { m.strides } } };
    return o;
}

} // namespace talc

#endif
