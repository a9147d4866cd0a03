/// The product on Hopper's tensor cores, with f32's accuracy. Private to backends/cuda.
///
///     y[r, c] = act( sum over k of a[r, k] * b[c, k] + bias + residual )
///
/// A block has a tile of outputs at a time (tile_map.h) and two kinds of warpgroups, which hand
/// each other stages of shared memory, a K tile each, by barriers `full` and `empty`:
///
///     loaders        one for each operand: global memory -> shared memory, as it is, each thread
///                    for itself, SLOTS K tiles ahead -> registers -> scaled, split into high and
///                    low halves -> a stage (operand.cuh).
///     multipliers    64 rows of the tile each: high * high + high * low + low * high of a K tile
///                    by wgmma, straight from the stage, then
///                    accumulators += products * 2^-exponent of the row * 2^-exponent of the column
///                    in f32, since tensor cores cut sums off instead of rounding them.
///
/// Where tiles are few, blocks share the reduction of each (split-K): sums go to the workspace, and
/// add_splits adds them in order. A sum that elements lost to f16's range could have reached is
/// computed again by FFMA, by a warp (operand.cuh, needs_recompute). So are NaN and infinity.
///
/// An operand is loaded by a cursor, whose begin() is called at a tile; copy() begins the copies of
/// a thread's elements of the next K tile, and read() brings them to registers.
#ifndef TALC_BACKENDS_CUDA_GEMM_CORE_CUH
#define TALC_BACKENDS_CUDA_GEMM_CORE_CUH

#include "backends/cuda/gemm/operand.cuh"
#include "backends/cuda/primitives/barriers.cuh"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "backends/cuda/primitives/wgmma.cuh"

namespace talc
{

constexpr int MULTIPLIERS = 256, LOADERS = 256, GEMM_THREADS = MULTIPLIERS + LOADERS;
constexpr int MULTIPLIER_REGISTERS = 168, LOADER_REGISTERS = 88;
constexpr int STAGES = 3, SLOTS = 3;

/// A K tile of both operands in shared memory.
template <int COLUMNS> struct gemm_stage {
    stage_of<TALC_TILE_ROWS> rows;
    stage_of<COLUMNS> columns;
};

template <typename Rows, typename Columns> struct gemm_problem {
    Rows a;
    Columns b;
    talc_tile_map map;
    float *y;
    float *splits_of_y;       ///< [split][as y]; NULL: not split
    row_bound *row_bounds;    ///< [split][product][row], of splits
    row_bound *column_bounds; ///< [split][product][column]
    epilogue<float> last;
    int64_t outputs;         ///< of all products
    int64_t y_row, y_column; ///< strides in y; one of them is 1
    int work, products;
    bool vectors; ///< whether four neighbours of y are 16 bytes of memory
    float coefficient;
    unsigned long long *recomputed;
    strided_index<2, uint64_t> matrices; ///< a product's first elements
};

// ---- Loading ------------------------------------------------------------------------------------

/* K tiles of an operand on their way to shared memory. */
template <typename Operand, int ROWS>
using copies_of = float4[SLOTS][matrix_cursor<Operand::ALONG_K, ROWS>::BYTES / 16];

template <typename Operand, int ROWS, typename Problem, typename StageOf>
static __device__ __forceinline__ void load_operand(const Problem &p, const Operand &o, int which,
                                                    copies_of<Operand, ROWS> &copies,
                                                    StageOf stage_of_operand, uint32_t full,
                                                    uint32_t empty)
{
    using cursor = matrix_cursor<Operand::ALONG_K, ROWS>;
    constexpr int GROUPS = cursor::GROUPS;
    const int thread = (int)threadIdx.x % 128;
    const uint32_t first_copy = shared_address(copies);
    cursor at;
    talc_tile w = {};
    int next = (int)blockIdx.x, under_way = 0, ends = 0; /* a bit a slot: its work's last K tile */
    bool begins = true;
    auto copy_next = [&](int slot) {
        if (!begins || next < p.work) {
            if (begins) {
                w = talc_tile_of(&p.map, next);
                next += (int)gridDim.x;
                int64_t first[2];
                p.matrices.offsets((uint64_t)w.product, first);
                at.begin(o, first[which], (int64_t)(which == 0 ? w.row : w.column) * ROWS, w.k_tile,
                         thread);
            }
            at.copy(o, thread, first_copy + slot * cursor::BYTES);
            begins = ++w.k_tile == w.end;
            ends = (ends & ~(1 << slot)) | begins << slot;
            under_way++;
        }
        __pipeline_commit(); /* if nothing: groups are counted */
    };
#pragma unroll 1
    for (int slot = 0; slot < SLOTS; slot++)
        copy_next(slot);
    int stage = 0, slot = 0;
    uint32_t parity = 1;
    row_bound bounds[GROUPS] = {};
    while (under_way > 0) {
        float v[GROUPS * EIGHT] = {};
        __pipeline_wait_prior(SLOTS - 1);
        cursor::read(copies[slot], thread, v);
        barrier_wait(empty + 8 * stage, parity);
        auto &to = stage_of_operand(stage);
        split_to_stage<Operand::INTERLEAVED, ROWS, GROUPS>(v, thread, to, bounds);
        if (ends >> slot & 1)
            bounds_to_stage<Operand::INTERLEAVED, ROWS, GROUPS>(bounds, thread, to);
        fence_async_shared();
        barrier_arrive(full + 8 * stage);
        under_way--;
        copy_next(slot);
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
        slot = slot + 1 == SLOTS ? 0 : slot + 1;
    }
}

// ---- What a narrow range spoils -----------------------------------------------------------------

/* One output by FFMA, by a warp, in the order of its lanes. */
template <typename Problem>
static __device__ float output_by_warp(const Problem &p, int64_t product, int64_t r, int64_t c)
{
    int64_t first[2];
    p.matrices.offsets((uint64_t)product, first);
    const float *a = p.a.from + first[0] + r * p.a.row_step,
                *b = p.b.from + first[1] + c * p.b.row_step;
    float sum = 0;
    for (int64_t k = threadIdx.x % WARP; k < p.a.K; k += WARP)
        sum += a[k * p.a.k_step] * b[k * p.b.k_step];
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(~0u, sum, apart);
    return sum;
}

/// Computes again what the lanes of a warp ask for, each an output or none.
template <typename Problem>
static __device__ __noinline__ float recompute(const Problem &p, bool asked, float sum,
                                               int64_t product, int64_t r, int64_t c)
{
    unsigned lanes = __ballot_sync(~0u, asked);
    if (lanes != 0 && threadIdx.x % WARP == 0)
        atomicAdd(p.recomputed, (unsigned long long)__popc(lanes));
    for (; lanes != 0; lanes &= lanes - 1) {
        const int of = __ffs((int)lanes) - 1;
        const float now = output_by_warp(p, __shfl_sync(~0u, product, of), __shfl_sync(~0u, r, of),
                                         __shfl_sync(~0u, c, of));
        if ((int)threadIdx.x % WARP == of)
            sum = now;
    }
    return sum;
}

// ---- Storing ------------------------------------------------------------------------------------

/// Where a thread's accumulators are in y.
template <typename Problem, int COUNT> struct tile_outputs {
    int64_t r[2], c0; ///< its rows, and the first column of its tile

    __device__ __forceinline__ tile_outputs(const Problem &p, const talc_tile &w)
    {
#pragma unroll
        for (int h = 0; h < 2; h++)
            r[h] = (int64_t)w.row * TALC_TILE_ROWS +
                   talc_tile_row(p.a.INTERLEAVED, talc_accumulator_row((int)threadIdx.x, 2 * h));
        c0 = (int64_t)w.column * COUNT * 2;
    }
    __device__ __forceinline__ int64_t row(int i) const
    {
        return i / 2 % 2 == 0 ? r[0] : r[1];
    }
    __device__ __forceinline__ int64_t column(const Problem &p, int i) const
    {
        return c0 + talc_tile_row(p.b.INTERLEAVED, talc_accumulator_column((int)threadIdx.x, i));
    }
};

/* Writes a thread's accumulators, several at a time where they are neighbours in y. */
template <typename Problem, int COUNT>
static __device__ __forceinline__ void write_tile(const Problem &p, float *to,
                                                  const tile_outputs<Problem, COUNT> &at,
                                                  const float (&v)[COUNT])
{
    auto exists = [&](int i) { return at.row(i) < p.a.rows && at.column(p, i) < p.b.rows; };
    auto place = [&](int i) { return to + at.row(i) * p.y_row + at.column(p, i) * p.y_column; };
    if (p.b.INTERLEAVED && p.vectors && p.y_column == 1) {
        /* Accumulators 4 * j + i of four j are neighbours. */
#pragma unroll
        for (int j = 0; j < COUNT; j += 16)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (exists(j + i))
                    *(float4 *)place(j + i) =
                        make_float4(v[j + i], v[j + 4 + i], v[j + 8 + i], v[j + 12 + i]);
    } else if (!p.b.INTERLEAVED && p.vectors && p.y_column == 1) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            if (exists(i))
                *(float2 *)place(i) = make_float2(v[i], v[i + 1]);
    } else if (p.a.INTERLEAVED && p.vectors && p.y_row == 1) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (i / 2 % 2 == 0 && exists(i))
                *(float2 *)place(i) = make_float2(v[i], v[i + 2]);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (exists(i))
                *place(i) = v[i];
    }
}

template <typename Problem, int COUNT>
static __device__ __forceinline__ void store_tile(const Problem &p, const talc_tile &w,
                                                  const gemm_stage<COUNT * 2> &stage,
                                                  float (&sums)[COUNT])
{
    const tile_outputs<Problem, COUNT> at(p, w);
    const int thread = (int)threadIdx.x;
    const row_bound rows[2] = { stage.rows.bounds[talc_accumulator_row(thread, 0)],
                                stage.rows.bounds[talc_accumulator_row(thread, 2)] };
    const int64_t first = (int64_t)w.product * p.a.rows * p.b.rows;
    if (p.splits_of_y != nullptr) {
        const int64_t split = (int64_t)w.split * p.products + w.product;
        const int64_t own = thread % 2 == 0 ? at.r[0] : at.r[1];
        if (w.column == 0 && thread % 4 < 2 && own < p.a.rows)
            p.row_bounds[split * p.a.rows + own] = thread % 2 == 0 ? rows[0] : rows[1];
        if (w.row == 0 && thread < COUNT * 2) {
            const int64_t c = at.c0 + talc_tile_row(p.b.INTERLEAVED, thread);
            if (c < p.b.rows)
                p.column_bounds[split * p.b.rows + c] = stage.columns.bounds[thread];
        }
        write_tile(p, p.splits_of_y + w.split * p.outputs + first, at, sums);
        return;
    }
    bool fine = true;
#pragma unroll
    for (int j = 0; j < COUNT; j += 4) {
        const float4 two =
            *(const float4 *)&stage.columns.bounds[talc_accumulator_column(thread, j)];
        const row_bound of[2] = { { two.x, two.y }, { two.z, two.w } };
#pragma unroll
        for (int i = 0; i < 4; i++)
            fine = fine && !needs_recompute(sums[j + i], rows[i / 2], of[i % 2], p.coefficient);
    }
    if (!__all_sync(~0u, fine)) {
        /* Sums that are indexed by a loop would leave the registers. */
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                sum = i == n ? sums[i] : sum;
            const int64_t r = at.row(n), c = at.column(p, n);
            const bool bad =
                r < p.a.rows && c < p.b.rows &&
                needs_recompute(sum, n / 2 % 2 == 0 ? rows[0] : rows[1],
                                stage.columns.bounds[talc_accumulator_column(thread, n)],
                                p.coefficient);
            if (!__any_sync(~0u, bad))
                continue;
            sum = recompute(p, bad, sum, w.product, r, c);
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                sums[i] = i == n ? sum : sums[i];
        }
    }
    if (!p.last.is_empty()) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int64_t r = at.row(i), c = at.column(p, i);
            const bool exists = r < p.a.rows && c < p.b.rows;
            if (exists && p.last.bias != nullptr)
                sums[i] += __ldg(p.last.bias + (p.y_column == 1 ? c : r));
            if (exists && p.last.residual != nullptr)
                sums[i] += p.last.residual[first + r * p.y_row + c * p.y_column];
        }
        activate_all<false>(p.last.activation, sums);
    }
    write_tile(p, p.y + first, at, sums);
}

// ---- Multiplying --------------------------------------------------------------------------------

template <typename Problem, int COLUMNS>
static __device__ __forceinline__ void multiply_stages(const Problem &p,
                                                       const gemm_stage<COLUMNS> *stages,
                                                       uint32_t full, uint32_t empty)
{
    constexpr int COUNT = COLUMNS / 2, K8 = TALC_TILE_K / EIGHT;
    constexpr uint32_t STAGE = sizeof(gemm_stage<COLUMNS>) / 16;
    const int thread = (int)threadIdx.x, warpgroup = __shfl_sync(~0u, thread / 128, 0);
    /* In units of 16 bytes, eight steps of k are as many as there are rows. */
    const shared_matrix a0 = shared_matrix_of(
        shared_address(stages->rows.halves) + warpgroup * 64 * 16, TALC_TILE_ROWS, EIGHT);
    const shared_matrix b0 =
        shared_matrix_of(shared_address(stages->columns.halves), COLUMNS, EIGHT);
    int stage = 0;
    uint32_t parity = 0;
    for (int i = (int)blockIdx.x; i < p.work; i += (int)gridDim.x) {
        const talc_tile w = talc_tile_of(&p.map, i);
        float sums[COUNT], part[COUNT];
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            sums[k] = 0;
        for (int k_tile = w.k_tile; k_tile < w.end; k_tile++) {
            auto a = [&](int step, int low) {
                return shared_matrix{
                    a0.at + stage * STAGE + (step * 2 + low * K8) * TALC_TILE_ROWS, a0.stride
                };
            };
            auto b = [&](int step, int low) {
                return shared_matrix{ b0.at + stage * STAGE + (step * 2 + low * K8) * COLUMNS,
                                      b0.stride };
            };
            barrier_wait(full + 8 * stage, parity);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < TALC_TILE_K / 16; k++) {
                wgmma(part, a(k, 1), b(k, 0), k);
                wgmma(part, a(k, 0), b(k, 1), 1);
                wgmma(part, a(k, 0), b(k, 0), 1);
            }
            wgmma_commit();
            const gemm_stage<COLUMNS> &from = stages[stage];
            const float of_rows[2] = { from.rows.back[talc_accumulator_row(thread, 0)],
                                       from.rows.back[talc_accumulator_row(thread, 2)] };
            wgmma_wait<0>();
#pragma unroll
            for (int j = 0; j < COUNT; j += 4) {
                const float2 of_columns =
                    *(const float2 *)&from.columns.back[talc_accumulator_column(thread, j)];
                sums[j] += part[j] * (of_rows[0] * of_columns.x);
                sums[j + 1] += part[j + 1] * (of_rows[0] * of_columns.y);
                sums[j + 2] += part[j + 2] * (of_rows[1] * of_columns.x);
                sums[j + 3] += part[j + 3] * (of_rows[1] * of_columns.y);
            }
            if (k_tile + 1 == w.end)
                store_tile(p, w, from, sums);
            barrier_arrive(empty + 8 * stage);
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
    }
}

template <typename Rows, typename Columns, int COLUMNS> struct gemm_shared {
    gemm_stage<COLUMNS> stages[STAGES];
    copies_of<Rows, TALC_TILE_ROWS> rows;
    copies_of<Columns, COLUMNS> columns;
    uint64_t full[STAGES], empty[STAGES]; ///< barriers of stages
};

template <typename Rows, typename Columns, int COLUMNS>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm(const __grid_constant__ gemm_problem<Rows, Columns> p)
{
    extern __shared__ __align__(128) char shared[];
    gemm_shared<Rows, Columns, COLUMNS> &s = *(gemm_shared<Rows, Columns, COLUMNS> *)shared;
    const uint32_t full = shared_address(s.full), empty = shared_address(s.empty);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(full + 8 * i, LOADERS);
            barrier_init(empty + 8 * i, MULTIPLIERS);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x < MULTIPLIERS) {
        registers_up<MULTIPLIER_REGISTERS>();
        multiply_stages<gemm_problem<Rows, Columns>, COLUMNS>(p, s.stages, full, empty);
        return;
    }
    registers_down<LOADER_REGISTERS>();
    if (threadIdx.x < MULTIPLIERS + 128)
        load_operand<Rows, TALC_TILE_ROWS>(
            p, p.a, 0, s.rows,
            [&](int i) -> stage_of<TALC_TILE_ROWS> & { return s.stages[i].rows; }, full, empty);
    else
        load_operand<Columns, COLUMNS>(
            p, p.b, 1, s.columns, [&](int i) -> stage_of<COLUMNS> & { return s.stages[i].columns; },
            full, empty);
}

/// Adds the sums of splits in order: a thread an output.
template <typename Rows, typename Columns>
static __global__ void __launch_bounds__(BLOCK)
    add_splits(const __grid_constant__ gemm_problem<Rows, Columns> p)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    const int64_t at = i < p.outputs ? i : p.outputs - 1;
    const int64_t of_product = p.a.rows * p.b.rows, product = at / of_product,
                  rest = at - product * of_product, across = p.y_column == 1 ? p.b.rows : p.a.rows,
                  m = rest / across, n = rest - m * across;
    const int64_t r = p.y_column == 1 ? m : n, c = p.y_column == 1 ? n : m;
    float sum = 0;
    row_bound row = {}, column = {};
    for (int s = 0; s < p.map.splits; s++) {
        const int64_t split = (int64_t)s * p.products + product;
        const row_bound a = p.row_bounds[split * p.a.rows + r],
                        b = p.column_bounds[split * p.b.rows + c];
        sum += p.splits_of_y[s * p.outputs + at];
        row.tiny += a.tiny, row.largest = fmaxf(row.largest, a.largest);
        column.tiny += b.tiny, column.largest = fmaxf(column.largest, b.largest);
    }
    const bool bad = i < p.outputs && needs_recompute(sum, row, column, p.coefficient);
    if (__any_sync(~0u, bad))
        sum = recompute(p, bad, sum, product, r, c);
    if (i < p.outputs)
        p.y[at] = talc_epilogue(p.last, sum, n, at);
}

} // namespace talc

#endif
