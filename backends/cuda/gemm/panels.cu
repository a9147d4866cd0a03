/// Packs operands into panels (panels.cuh).
#include "backends/cuda/gemm/panels.cuh"

using namespace talc;

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

void talc::pack(const packing &p, bool along_k, cudaStream_t stream)
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

packing talc::packing_of(const talc_matmul_problem *p, const matrices &m, const void *from,
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

void row_numbers::bound(int ready, cudaStream_t stream) const
{
    bound_rows<<<(unsigned)(rows / (BLOCK / WARP)), BLOCK, 0, stream>>>(notes, scales, bounds, rows,
                                                                        (int)segments, ready);
}
