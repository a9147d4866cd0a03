/// Matrix products on Hopper's tensor cores with f32's accuracy.
///
/// Both operands are first written to the workspace as the high and low parts of scaled f16, in the
/// order in which a block needs them. A panel is 128 rows of op(A), or columns of op(B). It is
/// divided into K tiles of 32 steps of k, each [high or low part][k / 8][row][k % 8] (panels.cuh).
/// The 16 KB of a K tile are contiguous. One bulk copy brings them to shared memory, where wgmma
/// reads them. A row has a power of two as its scale for each SEGMENT steps of k, so rows of any
/// size keep their accuracy.
///
/// A block stays on its multiprocessor and computes one tile of 128 x 128 or 128 x 256 outputs
/// after the other. One thread copies, two warpgroups multiply. The tensor cores, which truncate,
/// add up high * high, high * low and low * high of a K tile, 96 products. f32 registers add up the
/// K tiles. While one warpgroup adds, the products of the other go on. Where tiles are few, split-K
/// shares the sums of a tile among blocks, and a last kernel adds the splits in their order. Where
/// the workspace does not hold both operands, the sum over k is computed in rounds, and the sums of
/// a round begin with those in y.
///
/// Arithmetic: as in implicit_gemm. The elements that underflow when scaled are counted row by row.
/// A sum is recomputed by FFMA where it is not well above the error that they can cause, or is not
/// finite.
#include "backends/cuda/matmul/forms.h"

#include "backends/cuda/gemm/costs.h"
#include "backends/cuda/gemm/panel_product.cuh"

using namespace talc;

/* A warp's buffer in shared memory for storing: 32 columns of its 16 rows. Each row begins 8
 * banks after the row before. */
constexpr int WARP_ROWS = 16, PITCH = WARP + EIGHT;
constexpr int STORE_BYTES = MULTIPLIERS / WARP * WARP_ROWS * PITCH * 4;

struct packed_product : panel_product {
    panel_operand a;                     ///< the rows
    talc_product_layout tiles;           ///< its K tiles are those of this round
    bool aligned;                        ///< four neighbours in y are 16 bytes that are aligned
    strided_index<2, uint64_t> matrices; ///< the numbers of a product's matrices among the packed
    /// resumes: sums begin with those of the round before
    bool resumes = false, is_last_round = false;
    int segment = 0; ///< the first of this round

    __device__ void bounds_of(int64_t product, int64_t r, int64_t c, row_bound &row,
                              row_bound &column) const
    {
        int64_t at[2];
        matrices.offsets((uint64_t)product, at);
        row = *a.bound_at(at[0], r), column = *packed.bound_at(at[1], c);
    }
};

// ---- Storing ------------------------------------------------------------------------------------

/* How lanes store 32 columns of a warp's 16 rows: 8 lanes of WIDE columns each cover a row, so a
 * lane stores every fourth row. */
constexpr int LANES_ACROSS = WARP / WIDE, OWN_ROWS = WARP_ROWS * LANES_ACROSS / WARP;

/* Recomputes the outputs of a lane whose bits are set. The first of its outputs is [m, n]. */
static __device__ __noinline__ void recompute_outputs(const packed_product &p, int product,
                                                      int64_t m, int64_t n, unsigned recompute_bits)
{
    for (int bit = 0; bit < OWN_ROWS * WIDE; bit++) {
        const bool asked = recompute_bits >> bit & 1;
        const int64_t row = m + bit / WIDE * (WARP / LANES_ACROSS), column = n + bit % WIDE;
        float sum = recompute(p, asked, 0, product, row, column);
        if (!asked)
            continue;
        const int64_t at = ((int64_t)product * p.R + row) * p.N + column;
        if (p.last.bias != nullptr)
            sum += p.last.bias[column];
        if (p.last.residual != nullptr)
            sum += p.last.residual[at];
        p.y[at] = talc_activate<false>(p.last.activation, sum);
    }
}

/* Takes the sums back to the scale of the data and writes them to y or, with split-K, to
 * split_sums. The last round applies the epilogue. Of each 8 columns a thread has two neighbours in
 * rows lane / 4 and lane / 4 + 8 of its warp's 16 rows. Shared memory rearranges them, 32 columns
 * at a time. */
template <int PANELS>
static __device__ __forceinline__ void store_tile(const packed_product &p,
                                                  const talc_product_tile &w,
                                                  const int64_t (&matrices)[2], float *staged,
                                                  float (&sums)[PANELS][64])
{
    const int lane = (int)threadIdx.x % WARP, segment = p.segment + (w.end - 1) / CHUNKS;
    const int down = lane / LANES_ACROSS, across = lane % LANES_ACROSS * WIDE;
    const int64_t m0 = (int64_t)w.m * PANEL + threadIdx.x / WARP * WARP_ROWS, m = m0 + down;
    const int rows = (int)max((int64_t)0, min((int64_t)WARP_ROWS, p.R - m));
    const bool final = p.is_last_round && p.split_sums == nullptr;
    const float *a_scales = p.a.scale_at(segment, matrices[0], m0 + lane / 4);
    const float of_rows[2] = { __ldg(a_scales), __ldg(a_scales + 8) };
    row_bound own = {}, max_bound = {};
    if (final) {
        own = max_bound = *p.a.bound_at(matrices[0], m0 + lane % WARP_ROWS);
#pragma unroll
        for (int apart = WARP_ROWS / 2; apart > 0; apart /= 2) {
            max_bound.tiny =
                larger_or_nan(max_bound.tiny, __shfl_xor_sync(~0u, max_bound.tiny, apart));
            max_bound.largest =
                fmaxf(max_bound.largest, __shfl_xor_sync(~0u, max_bound.largest, apart));
        }
        max_bound.tiny *= p.coefficient, max_bound.largest *= p.coefficient;
    }
    const bool has_epilogue = final && !p.last.is_empty();
    float *const to = p.split_sums == nullptr ? p.y : p.split_sums + w.split * p.outputs;
    const int64_t n0 = (int64_t)w.n * PANELS * PANEL + across;
    const float *b_scales = p.packed.scale_at(segment, matrices[1], n0);
    const row_bound *b_bounds = p.packed.bound_at(matrices[1], n0);
    /* The scales and bounds of four columns, loaded while the columns before are stored. */
    float4 next[3] = {};
    auto load = [&](int g) {
        next[0] = __ldg((const float4 *)(b_scales + g * WARP));
        if (final) {
            next[1] = __ldg((const float4 *)(b_bounds + g * WARP));
            next[2] = __ldg((const float4 *)(b_bounds + g * WARP) + 1);
        }
    };
    load(0);
    /* Unrolled, the instructions of an epilogue do not fit the instruction cache. */
#pragma unroll 1
    for (int g = 0; g < PANELS * PANEL / WARP; g++) {
        const int64_t n = n0 + g * WARP, at = ((int64_t)w.product * p.R + m) * p.N + n;
        const float4 of_columns = next[0], bounds[2] = { next[1], next[2] };
        if (g + 1 < PANELS * PANEL / WARP)
            load(g + 1);
#pragma unroll
        for (int k = 0; k < PANELS * PANEL / WARP; k++)
            if (k == g)
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const float *v = &sums[k / 4][(k % 4 * 4 + j) * 4 + r * 2];
                        *(float2 *)&staged[(lane / 4 + r * 8) * PITCH + j * 8 + lane % 4 * 2] =
                            make_float2(v[0] * of_rows[r], v[1] * of_rows[r]);
                    }
        __syncwarp();
        float v[OWN_ROWS][WIDE];
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++) {
            const float4 four =
                *(const float4 *)&staged[(down + i * (WARP / LANES_ACROSS)) * PITCH + across];
            v[i][0] = four.x * of_columns.x, v[i][1] = four.y * of_columns.y;
            v[i][2] = four.z * of_columns.z, v[i][3] = four.w * of_columns.w;
        }
        __syncwarp();
        const int columns = (int)max((int64_t)0, min((int64_t)WIDE, p.N - n));
        auto has = [&](int i, int c) { return c < columns && i * (WARP / LANES_ACROSS) < rows; };
        auto offset = [&](int i) { return at + i * (WARP / LANES_ACROSS) * p.N; };
        if (p.resumes)
#pragma unroll
            for (int i = 0; i < OWN_ROWS * WIDE; i++)
                v[i / WIDE][i % WIDE] +=
                    has(i / WIDE, i % WIDE) ? (to + offset(i / WIDE))[i % WIDE] : 0;
        unsigned recompute_bits = 0;
        if (final) {
            const row_bound of[WIDE] = { { bounds[0].x, bounds[0].y },
                                         { bounds[0].z, bounds[0].w },
                                         { bounds[1].x, bounds[1].y },
                                         { bounds[1].z, bounds[1].w } };
            bool fine = true;
#pragma unroll
            for (int c = 0; c < WIDE; c++) {
                const float limit = max_bound.tiny * of[c].largest + max_bound.largest * of[c].tiny;
#pragma unroll
                for (int i = 0; i < OWN_ROWS; i++)
                    fine = fine && fabsf(v[i][c]) >= limit && fabsf(v[i][c]) < INFINITY;
            }
            if (!__all_sync(~0u, fine))
#pragma unroll
                for (int i = 0; i < OWN_ROWS; i++) {
                    const int r = down + i * (WARP / LANES_ACROSS);
                    const row_bound row = { __shfl_sync(~0u, own.tiny, r),
                                            __shfl_sync(~0u, own.largest, r) };
#pragma unroll
                    for (int c = 0; c < WIDE; c++)
                        if (has(i, c) && needs_recompute(v[i][c], row, of[c], p.coefficient))
                            recompute_bits |= 1u << (i * WIDE + c);
                }
        }
        if (has_epilogue) {
#pragma unroll
            for (int i = 0; i < OWN_ROWS * WIDE; i++) {
                float &x = v[i / WIDE][i % WIDE];
                const bool real = has(i / WIDE, i % WIDE);
                if (p.last.bias != nullptr)
                    x += i % WIDE < columns ? __ldg(p.last.bias + n + i % WIDE) : 0;
                if (p.last.residual != nullptr)
                    x += real ? p.last.residual[offset(i / WIDE) + i % WIDE] : 0;
            }
#pragma unroll
            for (int i = 0; i < OWN_ROWS; i++)
                activate_all<false>(p.last.activation, v[i]);
        }
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++) {
            float *y = to + offset(i);
            if (p.aligned) {
                if (has(i, 0))
                    /* Without this the compiler makes four stores of one. */
                    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(y), "f"(v[i][0]),
                                 "f"(v[i][1]), "f"(v[i][2]), "f"(v[i][3])
                                 : "memory");
            } else {
#pragma unroll
                for (int c = 0; c < WIDE; c++)
                    if (has(i, c))
                        y[c] = v[i][c];
            }
        }
        if (__any_sync(~0u, recompute_bits != 0))
            recompute_outputs(p, w.product, m, n, recompute_bits);
    }
}

// ---- The loop -----------------------------------------------------------------------------------

/* Panels of both operands in shared memory. PANELS_, 1 or 2, is the number of B's panels in a tile:
 * a tile has PANELS * 128 columns. A stage holds a K tile of one panel of A and of PANELS panels of
 * B. One thread loads. */
template <int PANELS_> struct packed_form {
    using problem = packed_product;
    static constexpr int PANELS = PANELS_, COUNT = 64, LOADERS = 1;
    static constexpr bool AHEAD = false;
    static constexpr int MULTIPLIER_REGISTERS = 240, LOADER_REGISTERS = 24;
    static constexpr int STAGES = PANELS == 2 ? 4 : 6, STAGE_BYTES = (1 + PANELS) * PANEL_BYTES,
                         SHARED = STAGES * STAGE_BYTES + STORE_BYTES;
    static constexpr int FULL = 1, EMPTY = MULTIPLIERS / WARP;

    static __device__ __forceinline__ talc_product_tile tile_of(const problem &p, int i)
    {
        return talc_product_tile_of(&p.tiles, i);
    }

    struct loader {
        const char *a, *b;
        __device__ __forceinline__ loader(const problem &p, const talc_product_tile &w)
        {
            int64_t matrices[2];
            p.matrices.offsets((uint64_t)w.product, matrices);
            a = p.a.panel_at(matrices[0], (int64_t)w.m * PANEL, p.tiles.k_tiles);
            b = p.packed.panel_at(matrices[1], (int64_t)w.n * PANELS * PANEL, p.tiles.k_tiles);
        }
        __device__ __forceinline__ void load(const problem &p, int k_tile, uint32_t to,
                                             uint32_t full) const
        {
            barrier_arrive_for(full, STAGE_BYTES);
            bulk_copy(to, a + (int64_t)k_tile * PANEL_BYTES, PANEL_BYTES, full);
#pragma unroll
            for (int h = 0; h < PANELS; h++)
                bulk_copy(to + (1 + h) * PANEL_BYTES,
                          b + ((int64_t)h * p.tiles.k_tiles + k_tile) * PANEL_BYTES, PANEL_BYTES,
                          full);
        }
    };

    const problem &p;
    const talc_product_tile &w;
    const stage_barriers ring;
    shared_matrix first; ///< of the first stage
    int warpgroup;
    float *staged; ///< a warp's, to store
    int64_t matrices[2];

    __device__ __forceinline__ packed_form(const problem &p_, const talc_product_tile &w_,
                                           stage_barriers ring_, char *stages)
        : p(p_), w(w_), ring(ring_)
    {
        first = shared_matrix_of(shared_address(stages), EIGHT_BYTES / 16, 8);
        /* The shuffle tells the compiler that it is uniform. */
        warpgroup = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
        staged = (float *)(stages + STAGES * STAGE_BYTES) + threadIdx.x / WARP * WARP_ROWS * PITCH;
        p.matrices.offsets((uint64_t)w.product, matrices);
    }
    __device__ __forceinline__ void prepare(int, pipeline_state at)
    {
        ring.wait_full(at);
    }
    __device__ __forceinline__ void multiply(int, int stage, int panel, float (&partial)[COUNT])
    {
        constexpr uint32_t PART = PART_BYTES / 16, STEP = 2 * EIGHT_BYTES / 16;
        const uint32_t at = first.at + stage * (STAGE_BYTES / 16), a = at + warpgroup * 64,
                       b = at + (1 + panel) * (PANEL_BYTES / 16);
        auto matrix = [&](uint32_t of, int step, int low) {
            return shared_matrix{ of + step * STEP + low * PART, first.stride };
        };
#pragma unroll
        for (int k = 0; k < CHUNK / 16; k++) {
            wgmma(partial, matrix(a, k, 1), matrix(b, k, 0), k);
            wgmma(partial, matrix(a, k, 0), matrix(b, k, 1), 1);
            wgmma(partial, matrix(a, k, 0), matrix(b, k, 0), 1);
        }
    }
    __device__ __forceinline__ void add(int, const float (&partial)[COUNT], float (&sums)[COUNT])
    {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            sums[k] += partial[k];
    }
    __device__ __forceinline__ void rescale(int segment, float (&sums)[PANELS][COUNT])
    {
        const int lane = (int)threadIdx.x % WARP;
        const float *a =
            p.a.scale_at(p.segment + segment, matrices[0],
                         (int64_t)w.m * PANEL + threadIdx.x / WARP * WARP_ROWS + lane / 4);
        const float *b = p.packed.scale_at(p.segment + segment, matrices[1],
                                           (int64_t)w.n * PANELS * PANEL + lane % 4 * 2);
        const float down[2] = { scale_ratio(a[0], a[-p.a.segment_rows]),
                                scale_ratio(a[8], a[8 - p.a.segment_rows]) };
#pragma unroll
        for (int h = 0; h < PANELS; h++)
            rescale_columns(b + h * PANEL, p.packed.segment_rows, down, sums[h]);
    }
    __device__ __forceinline__ void store(float (&sums)[PANELS][COUNT])
    {
        store_tile<PANELS>(p, w, matrices, staged, sums);
    }
};

// ---- The plan -----------------------------------------------------------------------------------

struct product_plan {
    int panels, splits, round; /* panels: of B in a tile; round: segments of a round */
};

/* The layout of the workspace, which follows from a plan. Its sections come in this order, and
 * their sizes are multiples of 1 KB. */
struct product_layout {
    int64_t a_panels, b_panels; /* of a matrix */
    int64_t a_rows, b_rows;     /* of all matrices; those of b follow those of a */
    int64_t segments;
    size_t a, b, rows, split_sums;
};

static product_layout layout_of(const talc_matmul_problem *p, const product_plan &w)
{
    product_layout l = {};
    const int64_t k_tiles = talc_smaller((int64_t)w.round * CHUNKS, talc_ceil_div(p->K, CHUNK));
    l.a_panels = talc_ceil_div(p->M, PANEL);
    l.b_panels = talc_ceil_div(p->N, PANEL * w.panels) * w.panels;
    l.a_rows = matrices(p, p->a_strides).count * l.a_panels * PANEL;
    l.b_rows = matrices(p, p->b_strides).count * l.b_panels * PANEL;
    l.segments = talc_ceil_div(p->K, SEGMENT);
    l.a = (size_t)(l.a_rows / PANEL * k_tiles * PANEL_BYTES);
    l.b = (size_t)(l.b_rows / PANEL * k_tiles * PANEL_BYTES);
    l.rows = row_numbers(l.a_rows + l.b_rows, p->K).bytes();
    l.split_sums = w.splits > 1 ? (size_t)(w.splits * p->batch * p->M * p->N * 4) : 0;
    return l;
}

static size_t bytes_of(const product_layout &l)
{
    return l.a + l.b + l.rows + l.split_sums;
}

static int64_t tiles_of(const talc_matmul_problem *p, const product_layout &l,
                        const product_plan &w)
{
    return p->batch * l.a_panels * (l.b_panels / w.panels);
}

/* Seconds: the rate of packing and the cost of its blocks, and the cycles of a K tile and of a
 * tile. */
static double seconds_of(const talc_device *device, const talc_matmul_problem *p,
                         const product_layout &l, const product_plan &w)
{
    const double tiles = (double)tiles_of(p, l, w), rows = (double)(l.a_rows + l.b_rows);
    const double outputs = (double)(p->batch * p->M * p->N);
    const double waves = (double)talc_ceil_div((int64_t)tiles * w.splits,
                                               talc_cuda_state_of(device)->multiprocessors);
    const double rounds = (double)talc_ceil_div(l.segments, w.round);
    const double k_tiles = (double)talc_ceil_div(p->K, CHUNK);
    const double k_tile = w.panels == 2 ? PACKED_K_TILE_2 : PACKED_K_TILE_1,
                 tile = PACKED_TILE * w.panels;
    const double adding = w.splits > 1
                              ? outputs * w.splits * 8 * rounds / PACKED_MEMORY + PANEL_ADDING
                              : outputs * 8 * (rounds - 1) / PACKED_MEMORY;
    const double activating = is_called(p->activation) ? outputs * 8 / PACKED_MEMORY : 0;
    const double storing = p->N % 4 == 0 ? 0 : outputs * 4 / PACKED_UNALIGNED;
    return PACKED_MARGIN * (PACKED_LAUNCHES * rounds + rows * (double)p->K * 8 / PACKED_MEMORY +
                            rows / 16 * (double)l.segments * PANEL_PACKS +
                            waves * (k_tiles / w.splits * k_tile + rounds * tile) / CLOCK + adding +
                            activating + storing);
}

const char *talc_cuda_matmul_tensor_cores_plan(const talc_device *device,
                                               const talc_matmul_problem *p, size_t limit,
                                               talc_plan *plan)
{
    const talc_cuda_state &gpu = *talc_cuda_state_of(device);
    if (const char *reason = product_refuses(device, p))
        return reason;
    if (p->M > INT_MAX - PANEL || p->N > INT_MAX - 2 * PANEL || p->batch > INT_MAX ||
        p->K > (int64_t)INT_MAX * CHUNK / 2)
        return "an extent is too large";
    /* With this limit the bytes and grids of any problem fit. No GPU has as much memory. */
    limit = limit < MAX_BYTES ? limit : MAX_BYTES;
    product_plan best = {};
    plan->seconds = INFINITY;
    for (int panels = 1; panels <= 2; panels++)
        for (int splits = 1; splits <= gpu.multiprocessors; splits++) {
            product_plan w = { panels, splits, 0 };
            const product_layout none = layout_of(p, w);
            const int64_t tiles = tiles_of(p, none, w);
            if (splits > 1 && (tiles * splits > gpu.multiprocessors || splits * 4 * CHUNK > p->K))
                break;
            /* The index of a block's next tile, which is the size of the grid later, must fit. */
            if (tiles * splits > INT_MAX - gpu.multiprocessors || bytes_of(none) > limit)
                continue;
            const double segment =
                (double)(none.a_rows + none.b_rows) / PANEL * CHUNKS * PANEL_BYTES;
            const int64_t capacity = (int64_t)((double)(limit - bytes_of(none)) / segment);
            if ((none.a_rows + none.b_rows) / PANEL * talc_ceil_div(p->K, CHUNK) * PANEL_BYTES +
                    bytes_of(none) <=
                limit)
                w.round = (int)none.segments;
            else if (capacity > 0)
                /* Rounds of equal size. */
                w.round = (int)talc_ceil_div(none.segments, talc_ceil_div(none.segments, capacity));
            else
                continue;
            const product_layout l = layout_of(p, w);
            const double seconds = seconds_of(device, p, l, w);
            if (seconds < plan->seconds) {
                plan->seconds = seconds;
                plan->workspace = bytes_of(l);
                best = w;
            }
        }
    if (plan->seconds == INFINITY)
        return "the workspace does not hold its operands";
    talc_plan_store(plan, &best, sizeof best);
    return NULL;
}

talc_status talc_cuda_matmul_tensor_cores_run(talc_device *device, const talc_matmul_problem *p,
                                              const talc_plan *plan,
                                              const talc_matmul_arguments *arguments)
{
    const product_plan &w = *(const product_plan *)talc_plan_data(plan);
    const product_layout l = layout_of(p, w);
    const matrices a_matrices(p, p->a_strides), b_matrices(p, p->b_strides);
    packing a =
        packing_of(p, a_matrices, arguments->a, p->transpose_a, p->lda, p->M, PANEL, l.a_panels);
    packing b =
        packing_of(p, b_matrices, arguments->b, !p->transpose_b, p->ldb, p->N, PANEL, l.b_panels);
    char *at = (char *)arguments->base.workspace;
    a.to = at, b.to = at + l.a;
    row_numbers rows(l.a_rows + l.b_rows, p->K);
    rows.place(at + l.a + l.b);
    a.notes = rows.notes, b.notes = rows.notes + l.a_rows * l.segments;
    float *split_sums = w.splits > 1 ? (float *)(at + l.a + l.b + l.rows) : NULL;
    packed_product m{
        { device, p, arguments, false, a.source, b.source, rows.operand(b, l.a_rows), split_sums },
        rows.operand(a, 0),
        talc_product_layout_of(p->batch, (int)l.a_panels, (int)l.b_panels / w.panels, w.panels,
                               w.splits),
        p->N % WIDE == 0 && (uintptr_t)arguments->y % 16 == 0,
        { p->batch_rank, p->batch_dims, { a_matrices.numbers, b_matrices.numbers } }
    };
    const cudaStream_t stream = talc_cuda_stream(device);
    const int64_t k_tiles = talc_ceil_div(p->K, CHUNK);
    cudaError_t error = cudaSuccess;
    for (int segment = 0; segment < l.segments && error == cudaSuccess; segment += w.round) {
        a.segment = b.segment = m.segment = segment;
        a.round = b.round = (int)talc_smaller(w.round, l.segments - segment);
        a.chunks = b.chunks = m.tiles.k_tiles =
            (int)talc_smaller((int64_t)w.round * CHUNKS, k_tiles - (int64_t)segment * CHUNKS);
        m.resumes = segment > 0, m.is_last_round = segment + w.round >= l.segments;
        pack(a, !p->transpose_a, stream);
        pack(b, p->transpose_b, stream);
        rows.bound(segment + a.round, stream);
        error = w.panels == 2 ? launch_product<packed_form<2>>(device, m)
                              : launch_product<packed_form<1>>(device, m);
    }
    return error == cudaSuccess ? end_product(device, m, p->activation)
                                : talc_cuda_not_launched(device, "matmul", error);
}
