/// implicit_gemm's patches by way of staged rows: bulk copies bring whole rows of x to shared memory, where warps split them. Private to
/// backends/cuda.
///
/// A flat tile's patch is a range of positions of all rows and images, one behind the other, so what it needs of a channel is contiguous in
/// each image. Where rows are multiples of 16 bytes these are copied, [channel][row]; else all rows of each image, whose STEP channels are
/// contiguous: [image][channel][row].
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_STAGED_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_STAGED_CUH

#include "backends/cuda/conv2d/implicit_gemm/patch.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

namespace talc
{

/// Of one rows are being split while the other is filled.
constexpr int STAGES = 2;
/// Chunks of a reduction at most.
constexpr int STAGED_CHUNKS = 8;
/// Positions of a patch at most.
constexpr int STAGED_POSITIONS = 768;

/// What a patch needs of x: rows from `row` of image `n` on to row `last_row` of image `last`, where there are any.
struct stage_range {
    int n, row, last, last_row;

    __device__ stage_range(const gemm_problem &p, const gemm_tile &a)
    {
        const int first = (int)p.by_pitch.quotient((uint32_t)a.column),
                  end = (int)p.by_pitch.quotient((uint32_t)(a.column + p.positions - 1));
        n = (int)p.by_image_rows.quotient((uint32_t)first);
        row = min(max(0, first - n * p.image_rows - p.top), p.H);
        last = (int)p.by_image_rows.quotient((uint32_t)end);
        last_row = max(-1, min(end - last * p.image_rows - p.top, p.H - 1));
        if (last >= p.N)
            last = p.N - 1, last_row = p.H - 1;
    }
};

/// The patches of a block, one after the other: a tile and one of its chunks.
struct patch_walk {
    int t, chunk, end;

    __device__ explicit patch_walk(const gemm_problem &p) : t(first_tile(p))
    {
        begin(p);
    }
    __device__ void begin(const gemm_problem &p)
    {
        if (t >= p.tiles)
            return;
        const gemm_tile a = tile_of(p, t);
        chunk = a.chunk, end = a.chunk + a.chunks;
    }
    /// Whether the next is of another tile.
    __device__ bool go_on(const gemm_problem &p)
    {
        if (++chunk < end)
            return false;
        t = next_tile(p, t);
        begin(p);
        return true;
    }
};

/// Copies a channel's, or an image's, contiguous elements. Those of an x that is not aligned to 16 bytes come one by one.
static __device__ __forceinline__ void stage_copy(const gemm_problem &p, float *to,
                                                  const float *from, int count, uint32_t full)
{
    if (p.aligned)
        bulk_copy(shared_address(to), from, count * 4, full);
    else
        for (int i = 0; i < count; i++)
            to[i] = from[i];
}

/// Begins to fill a stage: called by a warp.
static __device__ __forceinline__ void fill_stage(const gemm_problem &p, const patch_walk &walk,
                                                  float *stage, uint32_t full)
{
    const int lane = (int)threadIdx.x % WARP, plane = p.H * p.W;
    const gemm_tile a = tile_of(p, walk.t);
    const stage_range range(p, a);
    const float *x = p.x + ((int64_t)a.g * p.group_in + walk.chunk * STEP) * plane;
    const int images = range.last - range.n + 1;
    const int rows = (images - 1) * p.H + range.last_row + 1 - range.row;
    if (lane == 0 && p.aligned)
        barrier_arrive_for(full, (p.stage_rows ? rows * p.W : images * plane) * STEP * 4);
    __syncwarp();
    if (p.stage_rows) {
        for (int i = lane / STEP; i < images; i += WARP / STEP) {
            const int from = i == 0 ? range.row : 0,
                      end = i == images - 1 ? range.last_row + 1 : p.H;
            if (from < end)
                stage_copy(p,
                           stage + lane % STEP * p.stage_step + (i * p.H + from - range.row) * p.W,
                           x + ((int64_t)(range.n + i) * p.C + lane % STEP) * plane + from * p.W,
                           (end - from) * p.W, full);
        }
    } else {
        for (int i = lane; i < images; i += WARP)
            stage_copy(p, stage + i * STEP * plane, x + (int64_t)(range.n + i) * p.C * plane,
                       STEP * plane, full);
    }
    __syncwarp();
    if (lane == 0 && !p.aligned)
        barrier_arrive(full);
}

/// Where in a stage the elements of a tile's positions begin, bytes, -1 outside of the image: each thread's own.
template <typename Form>
static __device__ __forceinline__ void find_staged(const gemm_problem &p, int t, int *places)
{
    const gemm_tile a = tile_of(p, t);
    const stage_range range(p, a);
#pragma unroll 1
    for (int at = (int)threadIdx.x - Form::FIRST_LOADER; at < p.positions; at += Form::LOADERS) {
        const gemm_place place = place_of(p, a, at);
        const int h = place.row - p.top, w = place.column - p.left, image = place.n - range.n;
        const bool inside =
            (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W && place.n < p.N;
        const int row =
            p.stage_rows ? (image * p.H + h - range.row) * p.W : image * STEP * p.H * p.W + h * p.W;
        places[at] = inside ? (row + w) * 4 : -1;
    }
}

/// Makes a patch of a stage, in halves, scaled; `zero` is what stands outside of the image.
template <typename Form, bool IS_CAREFUL>
static __device__ __forceinline__ patch_measure split_stage(const gemm_problem &p, uint32_t stage,
                                                            uint32_t zero, const int *places,
                                                            char *patch, float scale)
{
    const unsigned plane_bytes = (unsigned)p.positions * 16;
    patch_measure measure = {};
#pragma unroll 1
    for (int position = (int)threadIdx.x - Form::FIRST_LOADER; position < p.positions;
         position += Form::LOADERS) {
        const int here = places[position];
        uint32_t from = here < 0 ? zero : stage + (uint32_t)here;
        const uint32_t step = here < 0 ? 0 : (uint32_t)p.stage_step * 4;
        float v[STEP];
#pragma unroll
        for (int k = 0; k < STEP; k++, from += step)
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[k]) : "r"(from));
        put_item<Form, IS_CAREFUL>(p, v, scale, patch + position * 16, plane_bytes, 2 * plane_bytes,
                                   measure);
    }
    return measure;
}

/// Of the block's loading threads.
template <typename Form>
static __device__ __forceinline__ void load_staged(const gemm_problem &p, char *patches,
                                                   float *stages, int *places, float *zero,
                                                   patch_note *notes, unsigned (*measured)[2],
                                                   uint32_t full, uint32_t empty, uint32_t staged)
{
    /* Single products spare a second writing: elements of 2^-17 of the largest may be tiny. */
    constexpr int RANGE = 11;
    static_assert(Form::PRODUCTS == 1, "");
    const bool copies = threadIdx.x < Form::FIRST_LOADER + WARP;
    patch_walk ahead(p), walk(p);
    auto stage_of = [&](int i) { return stages + i * (p.stage_bytes / 4); };
    int buffer = 0, stage = 0, exponent = 0;
    uint32_t parity = 1, stage_parity = 0;
    if (copies)
        for (int i = 0; i < p.stages && ahead.t < p.tiles; i++, ahead.go_on(p))
            fill_stage(p, ahead, stage_of(i), staged + 8 * i);
    find_staged<Form>(p, walk.t, places);
    while (walk.t < p.tiles) {
        barrier_wait(staged + 8 * stage, stage_parity);
        barrier_wait(empty + 8 * buffer, parity);
        const uint32_t from = shared_address(stage_of(stage)), none = shared_address(zero);
        char *patch = patches + buffer * p.patch_bytes;
        const patch_note note = write_scaled<Form, RANGE>(
            measured[buffer], exponent, false, [&](float scale, bool careful) {
                return careful ? split_stage<Form, true>(p, from, none, places, patch, scale)
                               : split_stage<Form, false>(p, from, none, places, patch, scale);
            });
        exponent = note.exponent;
        if (threadIdx.x == Form::FIRST_LOADER)
            notes[buffer] = note;
        Form::publish();
        barrier_arrive(full + 8 * buffer);
        if (++buffer == p.buffers)
            buffer = 0, parity ^= 1;
        if (copies && ahead.t < p.tiles) {
            fill_stage(p, ahead, stage_of(stage), staged + 8 * stage);
            ahead.go_on(p);
        }
        if (++stage == p.stages)
            stage = 0, stage_parity ^= 1;
        if (walk.go_on(p) && walk.t < p.tiles)
            find_staged<Form>(p, walk.t, places);
    }
}

} // namespace talc

#endif
