/// Products on Hopper's tensor cores with f32's accuracy, of which one operand is not packed:
/// few rows against many weights, or long sums of few outputs.
///
/// The smaller operand is packed (panels.cuh). Of the other, `streamed`, a block has 128 rows,
/// which a warpgroup copies to shared memory as they are, K tile after K tile, with panels of the
/// packed one. Two warpgroups have 64 of the rows each: a thread reads, in each 16 steps of k, four
/// neighbours of two rows, scales and splits them, and has a fragment of wgmma's first operand, in
/// the order in which the panels are packed. It does so while the tensor cores multiply the K tile
/// before, whose sums then go back from their scale as they are added in f32. Where tiles are few,
/// blocks share the reduction of each, and a last kernel adds their sums in order.
///
/// Arithmetic: as tensor_cores.cu's, with a scale for each row and K tile of the streamed operand.
#include "backends/cuda/matmul/forms.h"

#include "backends/cuda/gemm/costs.h"
#include "backends/cuda/gemm/panel_product.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

using namespace talc;

constexpr int ROWS = TILE_ROWS;                /* streamed, of a block */
constexpr int STREAM_BYTES = ROWS * CHUNK * 4; /* of a stage, behind its panel */
constexpr int OWN = 2 * CHUNK / 4;             /* elements of a K tile that a thread has */

struct split_product : panel_product {
    talc_stream_layout tiles;
    row_bound *split_bounds; ///< [split][product][row] of the streamed rows
    bool aligned;            ///< the streamed operand is copied 16 bytes at a time
    bool pairs;              ///< two neighbours of y are 8 bytes of memory
    int64_t products;
    strided_index<1, uint64_t> matrix; ///< the number of a product's packed matrix

    __device__ __forceinline__ int64_t matrix_of(int64_t product) const
    {
        int64_t at[1];
        matrix.offsets((uint64_t)product, at);
        return at[0];
    }
    __device__ void bounds_of(int64_t product, int64_t r, int64_t c, row_bound &row,
                              row_bound &column) const
    {
        column = *packed.bound_at(matrix_of(product), c);
        row = {};
        for (int s = 0; s < tiles.splits; s++) {
            const row_bound of = split_bounds[((int64_t)s * products + product) * R + r];
            row.tiny += of.tiny, row.largest = fmaxf(row.largest, of.largest);
        }
    }
};

// ---- The streamed operand -----------------------------------------------------------------------

/* A K tile in shared memory: ALONG_K [row][32 steps of k], else [32 steps of k][row]. Its units of
 * 16 bytes are permuted, so that the threads that read or write at a time find them in all
 * banks. */
template <bool ALONG_K> static __device__ __forceinline__ uint32_t unit_at(int row, int k)
{
    return ALONG_K ? row * (CHUNK * 4) + ((k / 4 ^ row % 2 * 4) * 16)
                   : k * (ROWS * 4) + ((row / 4 ^ k / 4 % 4 * 2) * 16);
}

constexpr int COPIERS = 128, COPIES = STREAM_BYTES / 16 / COPIERS;

/* What one of COPIERS threads copies of a K tile, 16 bytes each: its row and step of k. */
template <bool ALONG_K> static __device__ __forceinline__ int copied_row(int i)
{
    const int t = (int)threadIdx.x % COPIERS;
    return ALONG_K ? t / 8 + i * 16 : t % 32 * 4;
}

template <bool ALONG_K> static __device__ __forceinline__ int copied_k(int i)
{
    const int t = (int)threadIdx.x % COPIERS;
    return ALONG_K ? t % 8 * 4 : t / 32 + i * 4;
}

/* What a thread copies of the next K tile: from where, how far apart, and what exists of it: of
 * its rows or, unless ALONG_K, of four elements. The others become 0. */
struct copied_rows {
    const float *from;
    int64_t step;
    int left;
};

template <bool ALONG_K>
static __device__ __forceinline__ copied_rows rows_from(const split_product &p, const float *from,
                                                        int64_t first_row, int k_tile)
{
    const int64_t row = first_row + copied_row<ALONG_K>(0),
                  k = (int64_t)k_tile * CHUNK + copied_k<ALONG_K>(0);
    return { from + row * p.rows.row_step + k * p.rows.k_step,
             ALONG_K ? 16 * p.rows.row_step : 4 * p.rows.k_step,
             (int)max((int64_t)0, min((int64_t)ROWS, p.R - row)) };
}

/* Begins the copies of a K tile that is whole, of aligned rows. */
template <bool ALONG_K>
static __device__ __forceinline__ void copy_k_tile(const copied_rows &rows, uint32_t to)
{
    const uint32_t unit = to + unit_at<ALONG_K>(copied_row<ALONG_K>(0), copied_k<ALONG_K>(0));
    const float *from = rows.from;
#pragma unroll
    for (int i = 0; i < COPIES; i++, from += rows.step)
        begin_copy<16>(ALONG_K ? unit + i * 16 * (CHUNK * 4)
                               : to + unit_at<false>(copied_row<false>(i), copied_k<false>(i)),
                       from, ALONG_K ? (16 * i < rows.left ? 16 : 0) : min(rows.left, 4) * 4);
}

/* Begins the copies of any K tile; what lies outside the operand becomes 0. */
template <bool ALONG_K>
static __device__ __forceinline__ void copy_any_k_tile(const split_product &p, const float *from,
                                                       int64_t first_row, int k_tile, uint32_t to)
{
    const int64_t k0 = (int64_t)k_tile * CHUNK;
#pragma unroll 1
    for (int i = 0; i < COPIES; i++) {
        const int row = copied_row<ALONG_K>(i), k = copied_k<ALONG_K>(i);
        const int64_t along = ALONG_K ? p.K - k0 - k : p.R - first_row - row,
                      across = ALONG_K ? p.R - first_row - row : p.K - k0 - k;
        const int count = across <= 0 ? 0 : (int)max((int64_t)0, min((int64_t)4, along));
        const float *at = from + (first_row + row) * p.rows.row_step + (k0 + k) * p.rows.k_step;
        const uint32_t unit = to + unit_at<ALONG_K>(row, k);
        if (p.aligned)
            begin_copy<16>(unit, count > 0 ? at : from, count * 4);
        else
#pragma unroll
            for (int j = 0; j < 4; j++)
                begin_copy<4>(unit + j * 4, j < count ? at + j : from, j < count ? 4 : 0);
    }
}

template <bool ALONG_K> static __device__ __forceinline__ int row_of(int h)
{
    return talc_stream_row_of(ALONG_K, (int)threadIdx.x, h);
}

/* A thread's elements of a K tile: [16 steps of k][row][four neighbours along k]. */
template <bool ALONG_K>
static __device__ __forceinline__ void read_k_tile(const char *k_tile, float (&v)[OWN])
{
    const int quad = (int)threadIdx.x % 4, row = row_of<ALONG_K>(0);
#pragma unroll
    for (int step = 0; step < CHUNK / 16; step++)
        if (ALONG_K)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float4 *)&v[step * 8 + h * 4] = *(
                    const float4 *)(k_tile + unit_at<true>(row_of<true>(h), step * 16 + quad * 4));
        else
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 two =
                    *(const float2 *)(k_tile + unit_at<false>(row, step * 16 + quad * 4 + j) +
                                      row % 4 * 4);
                v[step * 8 + j] = two.x, v[step * 8 + 4 + j] = two.y;
            }
}

/* A K tile of two rows, as fragments. */
struct fragments {
    uint4 high[2], low[2];
    float back[2]; ///< takes its sums back
};

/* Scales a K tile's elements and makes them fragments. */
static __device__ __forceinline__ void split_k_tile(const float (&v)[OWN], fragments &to,
                                                    row_bound (&bounds)[2])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float of[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            of[i] = v[i / 4 * 8 + h * 4 + i % 4];
        float max = largest_of(of);
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
        const int e = exponent_for(max);
        to.back[h] = power_of_two(-e);
        const int tiny = scale_by(power_of_two(e), of);
        if (tiny != 0)
            bounds[h].tiny += (float)tiny * to.back[h];
        bounds[h].largest = fmaxf(bounds[h].largest, to.back[h]);
#pragma unroll
        for (int step = 0; step < 2; step++) {
            uint2 a, b;
            split_four(of + step * 4, a, b);
            (&to.high[step].x)[h] = a.x, (&to.high[step].z)[h] = a.y;
            (&to.low[step].x)[h] = b.x, (&to.low[step].z)[h] = b.y;
        }
    }
}

// ---- Storing ------------------------------------------------------------------------------------

/* Kept apart, so that it takes no registers from the sums. */
static __device__ __noinline__ float again(const split_product &p, bool asked, float sum,
                                           int64_t product, int64_t r, int64_t c)
{
    return recompute(p, asked, sum, product, r, c);
}

/* Computes again those of four sums of each lane that need it. */
template <int COUNT>
static __device__ __forceinline__ void recompute(const split_product &p, const talc_product_tile &w,
                                                 const row_bound *bounds, const int64_t (&r)[2],
                                                 int64_t c, const row_bound (&rows)[2],
                                                 float (&sums)[COUNT], int group)
{
    float v[4] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        v[k % 4] = k / 4 == group ? sums[k] : v[k % 4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t row = r[i / 2], column = c + i % 2;
        const bool bad = row < p.R && column < p.C &&
                         needs_recompute(v[i], rows[i / 2], bounds[i % 2], p.coefficient);
        if (__any_sync(~0u, bad))
            v[i] = again(p, bad, v[i], w.product, row, column);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        sums[k] = k / 4 == group ? v[k % 4] : sums[k];
}

template <bool ALONG_K, int COUNT>
static __device__ __forceinline__ void store_tile(const split_product &p,
                                                  const talc_product_tile &w, int64_t matrix,
                                                  row_bound (&rows)[2], float (&sums)[COUNT])
{
    const int quad = (int)threadIdx.x % 4, segment = (w.end - 1) / CHUNKS;
    const int64_t r[2] = { (int64_t)w.m * ROWS + row_of<ALONG_K>(0),
                           (int64_t)w.m * ROWS + row_of<ALONG_K>(1) };
    const int64_t c0 = talc_stream_sum_of(&w, ALONG_K, COUNT * 2, (int)threadIdx.x, 0).column;
    const float *scales = p.packed.scale_at(segment, matrix, c0);
    const row_bound *bounds = p.packed.bound_at(matrix, c0);
    const bool final = p.split_sums == nullptr;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2) {
            rows[h].tiny += __shfl_xor_sync(~0u, rows[h].tiny, apart);
            rows[h].largest = fmaxf(rows[h].largest, __shfl_xor_sync(~0u, rows[h].largest, apart));
        }
    const int64_t first = (int64_t)w.product * p.R * p.C;
    float *const to = (final ? p.y : p.split_sums + w.split * p.outputs) + first;
    if (!final && w.n == 0 && quad < 2 && r[quad] < p.R)
        p.split_bounds[((int64_t)w.split * p.products + w.product) * p.R + r[quad]] =
            quad == 0 ? rows[0] : rows[1];
    bool fine = true;
#pragma unroll
    for (int j = 0; j < COUNT / 4; j++) {
        const float2 of_columns = __ldg((const float2 *)(scales + j * 8));
        const float4 two = __ldg((const float4 *)(bounds + j * 8));
        const row_bound of[2] = { { two.x, two.y }, { two.z, two.w } };
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[j * 4 + i] *= i % 2 == 0 ? of_columns.x : of_columns.y;
            fine = fine && !needs_recompute(sums[j * 4 + i], rows[i / 2], of[i % 2], p.coefficient);
        }
    }
    if (final && !__all_sync(~0u, fine))
#pragma unroll 1
        for (int j = 0; j < COUNT / 4; j++)
            recompute(p, w, bounds + j * 8, r, c0 + j * 8, rows, sums, j);
    if (final && !p.last.is_empty()) {
#pragma unroll
        for (int j = 0; j < COUNT / 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int64_t row = r[i / 2], column = c0 + j * 8 + i % 2;
                if (row >= p.R || column >= p.C)
                    continue;
                if (p.last.bias != nullptr)
                    sums[j * 4 + i] += __ldg(p.last.bias + (p.swapped ? row : column));
                if (p.last.residual != nullptr)
                    sums[j * 4 + i] += p.last.residual[first + row * p.y_row + column * p.y_column];
            }
        activate_all<false>(p.last.activation, sums);
    }
#pragma unroll
    for (int j = 0; j < COUNT / 4; j++) {
        const int64_t c = c0 + j * 8;
        const float *v = &sums[j * 4];
        float *at = to + r[0] * p.y_row + c * p.y_column;
        if (p.pairs && p.y_column == 1) {
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (r[h] < p.R && c < p.C)
                    *(float2 *)(at + (r[h] - r[0]) * p.y_row) = make_float2(v[h * 2], v[h * 2 + 1]);
        } else if (p.pairs && !ALONG_K) {
#pragma unroll
            for (int x = 0; x < 2; x++)
                if (r[0] < p.R && c + x < p.C)
                    *(float2 *)(at + x * p.y_column) = make_float2(v[x], v[2 + x]);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (r[i / 2] < p.R && c + i % 2 < p.C)
                    at[(r[i / 2] - r[0]) * p.y_row + i % 2 * p.y_column] = v[i];
        }
    }
}

// ---- The loop -----------------------------------------------------------------------------------

/* Panels of the packed operand, COLUMNS rows of it, and K tiles of the streamed one as they are. A
 * warpgroup copies. Of the streamed operand a thread that multiplies has fragments in registers, of
 * one K tile that the tensor cores multiply and of the next, which it splits meanwhile. */
template <bool ALONG_K, int COLUMNS> struct split_form {
    using problem = split_product;
    static constexpr int PANELS = 1, COUNT = COLUMNS / 2, LOADERS = COPIERS;
    static constexpr bool AHEAD = true;
    static constexpr int MULTIPLIER_REGISTERS = 232, LOADER_REGISTERS = 40;
    static constexpr int PANEL_PART = COLUMNS * CHUNK * 4; /* bytes of a stage */
    static constexpr int STAGES = 6, STAGE_BYTES = PANEL_PART + STREAM_BYTES,
                         SHARED = STAGES * STAGE_BYTES;
    static constexpr int FULL = 1 + COPIERS, EMPTY = MULTIPLIERS;

    static __device__ __forceinline__ talc_product_tile tile_of(const problem &p, int i)
    {
        return talc_stream_tile_of(&p.tiles, i);
    }

    struct loader {
        const char *panel;
        const float *from;
        int64_t row;
        copied_rows rows;
        __device__ __forceinline__ loader(const problem &p, const talc_product_tile &w)
        {
            int64_t at[2];
            p.sources.offsets((uint64_t)w.product, at);
            row = (int64_t)w.m * ROWS;
            panel =
                p.packed.panel_at(p.matrix_of(w.product), (int64_t)w.n * COLUMNS, p.tiles.k_tiles) +
                (int64_t)w.k_tile * PANEL_PART;
            from = p.rows.from + at[0];
            rows = rows_from<ALONG_K>(p, from, row, w.k_tile);
        }
        __device__ __forceinline__ void load(const problem &p, int k_tile, uint32_t to,
                                             uint32_t full)
        {
            if (threadIdx.x == MULTIPLIERS) {
                barrier_arrive_for(full, PANEL_PART);
                bulk_copy(to, panel, PANEL_PART, full);
            }
            if (p.aligned && (k_tile + 1) * (int64_t)CHUNK <= p.K)
                copy_k_tile<ALONG_K>(rows, to + PANEL_PART);
            else
                copy_any_k_tile<ALONG_K>(p, from, row, k_tile, to + PANEL_PART);
            panel += PANEL_PART;
            rows.from += CHUNK * p.rows.k_step;
            barrier_arrive_after_copies(full);
        }
    };

    const problem &p;
    const talc_product_tile &w;
    const stage_barriers ring;
    char *const stages;
    const int64_t matrix;
    shared_matrix first; ///< of the first stage
    row_bound rows[2];
    fragments of[2];

    __device__ __forceinline__ split_form(const problem &p_, const talc_product_tile &w_,
                                          stage_barriers ring_, char *stages_)
        : p(p_), w(w_), ring(ring_), stages(stages_), matrix(p_.matrix_of(w_.product)), rows()
    {
        first = shared_matrix_of(shared_address(stages), COLUMNS, 8);
    }
    __device__ __forceinline__ void multiply(int u, int stage, int, float (&partial)[COUNT])
    {
        constexpr uint32_t EIGHTS = COLUMNS, PART = CHUNK / EIGHT * EIGHTS; /* of 16 bytes */
        const uint32_t at = first.at + stage * (STAGE_BYTES / 16);
        auto matrix = [&](int step, int low_part) {
            return shared_matrix{ at + step * 2 * EIGHTS + low_part * PART, first.stride };
        };
#pragma unroll
        for (int k = 0; k < 2; k++) {
            wgmma(partial, of[u].low[k], matrix(k, 0), k);
            wgmma(partial, of[u].high[k], matrix(k, 1), 1);
            wgmma(partial, of[u].high[k], matrix(k, 0), 1);
        }
    }
    __device__ __forceinline__ void prepare(int u, pipeline_state at)
    {
        float v[OWN];
        ring.wait_full(at);
        read_k_tile<ALONG_K>(stages + at.stage * STAGE_BYTES + PANEL_PART, v);
        split_k_tile(v, of[u], rows);
    }
    __device__ __forceinline__ void add(int u, const float (&partial)[COUNT], float (&sums)[COUNT])
    {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            sums[k] += partial[k] * of[u].back[k / 2 % 2];
    }
    __device__ __forceinline__ void rescale(int segment, float (&sums)[1][COUNT])
    {
        const float same[2] = { 1, 1 };
        rescale_columns(
            p.packed.scale_at(segment, matrix, (int64_t)w.n * COLUMNS + threadIdx.x % 4 * 2),
            p.packed.segment_rows, same, sums[0]);
    }
    __device__ __forceinline__ void store(float (&sums)[1][COUNT])
    {
        store_tile<ALONG_K>(p, w, matrix, rows, sums[0]);
    }
};

// ---- The plan -----------------------------------------------------------------------------------

struct split_plan {
    bool streams_b;
    int columns, splits;
};

/* An operand as a product sees it, rows of op(A) or columns of op(B). */
struct side {
    const void *from;
    int64_t rows, ld;
    bool along_k; ///< k is the dimension that is contiguous
    const int64_t (&strides)[TALC_MAX_RANK];
};

static side side_of(const talc_matmul_problem *p, bool b, const talc_matmul_arguments *arguments)
{
    return b ? side{ arguments == NULL ? NULL : arguments->b, p->N, p->ldb, p->transpose_b,
                     p->b_strides }
             : side{ arguments == NULL ? NULL : arguments->a, p->M, p->lda, !p->transpose_a,
                     p->a_strides };
}

/* The workspace: panels, what packing writes of rows, the sums of splits and their bounds. */
struct split_layout {
    int64_t panels, rows, segments, k_tiles; /* panels of a matrix; packed rows of all */
    size_t packed, numbers, sums, split_bounds;
};

static split_layout layout_of(const talc_matmul_problem *p, const split_plan &w)
{
    split_layout l = {};
    const side packed = side_of(p, !w.streams_b, NULL), streamed = side_of(p, w.streams_b, NULL);
    l.panels = talc_ceil_div(packed.rows, w.columns);
    l.rows = matrices(p, packed.strides).count * l.panels * w.columns;
    l.segments = talc_ceil_div(p->K, SEGMENT);
    l.k_tiles = talc_ceil_div(p->K, CHUNK);
    l.packed = (size_t)(l.rows * l.k_tiles * ROW_BYTES);
    l.numbers = row_numbers(l.rows, p->K).bytes();
    l.sums = w.splits > 1 ? (size_t)(w.splits * p->batch * p->M * p->N * 4 + 255) / 256 * 256 : 0;
    l.split_bounds =
        w.splits > 1 ? (size_t)(w.splits * p->batch * streamed.rows) * sizeof(row_bound) : 0;
    return l;
}

static size_t bytes_of(const split_layout &l)
{
    return l.packed + l.numbers + l.sums + l.split_bounds;
}

static int64_t tiles_of(const talc_matmul_problem *p, const split_plan &w)
{
    const side packed = side_of(p, !w.streams_b, NULL), streamed = side_of(p, w.streams_b, NULL);
    return p->batch * talc_ceil_div(streamed.rows, ROWS) * talc_ceil_div(packed.rows, w.columns);
}

/* Whether the streamed operand is loaded as vectors, if its address allows it. */
static bool is_aligned(const talc_matmul_problem *p, const side &s)
{
    bool aligned = s.ld % 4 == 0;
    for (int i = 0; i < p->batch_rank; i++)
        aligned = aligned && s.strides[i] % 4 == 0;
    return aligned;
}

/* Seconds: the rate of streaming, and the cycles of a K tile, by columns, and of a tile. */
static double seconds_of(const talc_device *device, const talc_matmul_problem *p,
                         const split_layout &l, const split_plan &w)
{
    const side streamed = side_of(p, w.streams_b, NULL);
    const bool aligned = is_aligned(p, streamed);
    const double waves = (double)talc_ceil_div(tiles_of(p, w) * w.splits,
                                               talc_cuda_state_of(device)->multiprocessors);
    const double outputs = (double)(p->batch * p->M * p->N);
    const double k_tile = !aligned           ? SPLIT_K_TILE_UNALIGNED
                          : w.columns == 128 ? SPLIT_K_TILE_128
                          : w.columns == 64  ? SPLIT_K_TILE_64
                                             : SPLIT_K_TILE_32;
    const double tile = SPLIT_COLUMN * w.columns;
    const double streaming = (double)p->batch * (double)streamed.rows * (double)p->K * 4 /
                             SPLIT_STREAM * (aligned ? 1 : SPLIT_UNALIGNED);
    const double multiplying = waves * ((double)l.k_tiles / w.splits * k_tile + tile) / CLOCK;
    const double packing = (double)l.rows * (double)p->K * 8 / SPLIT_MEMORY +
                           (double)l.rows / 16 * (double)l.segments * PANEL_PACKS;
    const double adding = w.splits > 1 ? outputs * w.splits * 8 / SPLIT_MEMORY + PANEL_ADDING : 0;
    const double storing = p->N % 2 == 0 ? 0 : outputs * 4 / SPLIT_UNPAIRED;
    return SPLIT_LAUNCHES + packing + (streaming > multiplying ? streaming : multiplying) + adding +
           storing;
}

const char *talc_cuda_matmul_split_on_load_plan(const talc_device *device,
                                                const talc_matmul_problem *p, size_t limit,
                                                talc_plan *plan)
{
    const talc_cuda_state &gpu = *talc_cuda_state_of(device);
    if (const char *reason = product_refuses(device, p))
        return reason;
    if (p->M > INT_MAX / 2 || p->N > INT_MAX / 2 || p->batch > INT_MAX ||
        p->K > (int64_t)INT_MAX * CHUNK / 2 ||
        (double)p->batch * (double)(p->M / ROWS + 1) * (double)(p->N / 32 + 1) > INT_MAX / 256)
        return "an extent is too large";
    limit = limit < MAX_BYTES ? limit : MAX_BYTES;
    split_plan best = {};
    plan->seconds = INFINITY;
    for (int streams_b = 0; streams_b < 2; streams_b++) {
        const int64_t rows = streams_b != 0 ? p->M : p->N;
        for (int columns = 32; columns <= 128; columns *= 2) {
            if (columns / 2 >= rows && columns > 32)
                break;
            for (int splits = 1; splits <= gpu.multiprocessors; splits++) {
                const split_plan w = { streams_b != 0, columns, splits };
                const int64_t tiles = tiles_of(p, w);
                if (splits > 1 && (tiles * splits > 16 * (int64_t)gpu.multiprocessors ||
                                   splits * 4 * CHUNK > p->K))
                    break;
                const split_layout l = layout_of(p, w);
                if (bytes_of(l) > limit)
                    continue;
                const double seconds = seconds_of(device, p, l, w);
                if (seconds < plan->seconds) {
                    plan->seconds = seconds;
                    plan->workspace = bytes_of(l);
                    best = w;
                }
            }
        }
    }
    if (plan->seconds == INFINITY)
        return "the workspace does not hold its operands";
    talc_plan_store(plan, &best, sizeof best);
    return NULL;
}

template <bool ALONG_K>
static cudaError_t launch(talc_device *device, const split_product &p, int columns)
{
    return columns == 128  ? launch_product<split_form<ALONG_K, 128>>(device, p)
           : columns == 64 ? launch_product<split_form<ALONG_K, 64>>(device, p)
                           : launch_product<split_form<ALONG_K, 32>>(device, p);
}

talc_status talc_cuda_matmul_split_on_load_run(talc_device *device, const talc_matmul_problem *p,
                                               const talc_plan *plan,
                                               const talc_matmul_arguments *arguments)
{
    const split_plan &w = *(const split_plan *)talc_plan_data(plan);
    const split_layout l = layout_of(p, w);
    const side s = side_of(p, w.streams_b, arguments), o = side_of(p, !w.streams_b, arguments);
    const matrices packed_matrices(p, o.strides);
    packing packed =
        packing_of(p, packed_matrices, o.from, !o.along_k, o.ld, o.rows, w.columns, l.panels);
    char *at = (char *)arguments->base.workspace;
    packed.to = at;
    row_numbers numbers(l.rows, p->K);
    numbers.place(at += l.packed);
    packed.notes = numbers.notes;
    float *sums = (float *)(at += l.numbers);
    const panel_source streamed = { (const float *)s.from, s.along_k ? s.ld : 1,
                                    s.along_k ? 1 : s.ld };
    const split_product m{
        { device, p, arguments, w.streams_b, streamed, packed.source, numbers.operand(packed, 0),
          w.splits > 1 ? sums : NULL },
        talc_stream_layout_of(p->batch, s.rows, o.rows, w.columns, (int)l.k_tiles, w.splits),
        (row_bound *)((char *)sums + l.sums),
        is_aligned(p, s) && (uintptr_t)s.from % 16 == 0,
        p->N % 2 == 0 && (uintptr_t)arguments->y % 8 == 0,
        p->batch,
        { p->batch_rank, p->batch_dims, { packed_matrices.numbers } },
    };
    packed.round = (int)l.segments;
    packed.chunks = m.tiles.k_tiles;
    const cudaStream_t stream = talc_cuda_stream(device);
    pack(packed, o.along_k, stream);
    numbers.bound((int)l.segments, stream);
    const cudaError_t error =
        s.along_k ? launch<true>(device, m, w.columns) : launch<false>(device, m, w.columns);
    return error == cudaSuccess ? end_product(device, m, p->activation)
                                : talc_cuda_not_launched(device, "matmul", error);
}
