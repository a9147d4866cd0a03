/// Halo tiles of implicit_gemm by way of staged rows: bulk copies bring whole rows of x to shared
/// memory, and warps convert them. Private to backends/cuda.
///
/// The halo tile of a flat tile is a range of positions of all rows and images. So what it needs of
/// a channel is contiguous in each image. Where rows are multiples of 16 bytes, the rows that it
/// needs are copied: [channel][row]. Otherwise all rows of its images are, since the STEP channels
/// of an image are contiguous: [image][channel][row].
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_STAGED_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_STAGED_CUH

#include "backends/cuda/conv2d/implicit_gemm/halo_tile.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

namespace talc
{

/// The rows of x that a halo tile needs: from `row` of image `n` to `last_row` of image `last`. The
/// range may be empty.
struct stage_range {
    int n, row, last, last_row;

    __device__ stage_range(const gemm_problem &p, const talc_gemm_tile &a)
    {
        const int first = (int)talc_quotient(p.by_pitch, (uint32_t)a.column),
                  end = (int)talc_quotient(p.by_pitch, (uint32_t)(a.column + p.positions - 1));
        n = (int)talc_quotient(p.by_image_rows, (uint32_t)first);
        row = min(max(0, first - n * p.image_rows - p.top), p.H);
        last = (int)talc_quotient(p.by_image_rows, (uint32_t)end);
        last_row = max(-1, min(end - last * p.image_rows - p.top, p.H - 1));
        if (last >= p.N)
            last = p.N - 1, last_row = p.H - 1;
    }
};

/// The halo tiles that a block loads, one after the other: each is a tile and one of its K tiles.
struct k_tile_walk {
    int t, k_tile, end;

    __device__ explicit k_tile_walk(const gemm_problem &p) : t(first_tile(p))
    {
        begin(p);
    }
    __device__ void begin(const gemm_problem &p)
    {
        if (t >= p.tiles)
            return;
        const talc_gemm_tile a = talc_gemm_tile_of(&p, t);
        k_tile = a.k_tile, end = a.k_tile + a.k_tiles;
    }
    /// Goes to the next halo tile. Returns whether it is of another tile.
    __device__ bool advance(const gemm_problem &p)
    {
        if (++k_tile < end)
            return false;
        t = next_tile(p, t);
        begin(p);
        return true;
    }
};

/// Copies the contiguous elements of a channel or an image. Where x is not aligned to 16 bytes, it
/// copies one element at a time.
static __device__ __forceinline__ void stage_copy(const gemm_problem &p, float *to,
                                                  const float *from, int count, uint32_t full)
{
    if (p.aligned)
        bulk_copy(shared_address(to), from, count * 4, full);
    else
        for (int i = 0; i < count; i++)
            to[i] = from[i];
}

/// Starts to fill a stage. A warp calls it.
static __device__ __forceinline__ void fill_stage(const gemm_problem &p, const k_tile_walk &walk,
                                                  float *stage, uint32_t full)
{
    const int lane = (int)threadIdx.x % WARP, plane = p.H * p.W;
    const talc_gemm_tile a = talc_gemm_tile_of(&p, walk.t);
    const stage_range range(p, a);
    const float *x = p.x + ((int64_t)a.g * p.group_in + walk.k_tile * STEP) * plane;
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

/// Writes the offset in a stage, in bytes, of each position of a tile, and -1 outside of the image.
/// A thread reads only the offsets that it has written.
template <typename Form>
static __device__ __forceinline__ void find_staged_offsets(const gemm_problem &p, int t,
                                                           int *offsets)
{
    const talc_gemm_tile a = talc_gemm_tile_of(&p, t);
    const stage_range range(p, a);
#pragma unroll 1
    for (int at = (int)threadIdx.x - Form::FIRST_LOADER; at < p.positions; at += Form::LOADERS) {
        const talc_gemm_pixel pixel = talc_gemm_pixel_of(&p, &a, at);
        const int h = pixel.row - p.top, w = pixel.column - p.left, image = pixel.n - range.n;
        const bool inside =
            (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W && pixel.n < p.N;
        const int row =
            p.stage_rows ? (image * p.H + h - range.row) * p.W : image * STEP * p.H * p.W + h * p.W;
        offsets[at] = inside ? (row + w) * 4 : -1;
    }
}

/// Converts a stage to a halo tile of scaled f16. `zero` is the address of what is read outside of
/// the image.
template <typename Form, bool IS_CAREFUL>
static __device__ __forceinline__ halo_stats convert_stage(const gemm_problem &p, uint32_t stage,
                                                           uint32_t zero, const int *offsets,
                                                           char *halo_tile, float scale)
{
    const unsigned plane_bytes = (unsigned)p.positions * 16, least = tininess_before(scale, p.tiny);
    halo_stats stats = {};
#pragma unroll 1
    for (int position = (int)threadIdx.x - Form::FIRST_LOADER; position < p.positions;
         position += Form::LOADERS) {
        const int here = offsets[position];
        uint32_t from = here < 0 ? zero : stage + (uint32_t)here;
        const uint32_t step = here < 0 ? 0 : (uint32_t)p.stage_step * 4;
        float v[STEP];
#pragma unroll
        for (int k = 0; k < STEP; k++, from += step)
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[k]) : "r"(from));
        store_halves<Form, IS_CAREFUL>(v, scale, least, halo_tile + position * 16, plane_bytes,
                                       2 * plane_bytes, stats);
    }
    return stats;
}

/// What the threads that load do in a block of the STAGED kernel.
template <typename Form>
static __device__ __forceinline__ void load_staged(const gemm_problem &p, char *halo_tiles,
                                                   float *stages, int *offsets, float *zero,
                                                   halo_tile_info *infos, unsigned (*measured)[2],
                                                   stage_barriers ring, uint32_t staged)
{
    /* With a single product, the maximum may lie in a wide range. So few halo tiles are written a
     * second time. Then elements below 2^-17 of the largest may underflow. */
    constexpr int RANGE = 11;
    static_assert(Form::PRODUCTS == 1, "");
    const bool copies = threadIdx.x < Form::FIRST_LOADER + WARP;
    k_tile_walk ahead(p), walk(p);
    auto stage_of = [&](int i) { return stages + i * (p.stage_bytes / 4); };
    pipeline_state at = first_to_fill(), stage = first_to_empty();
    int exponent = 0;
    if (copies)
        for (int i = 0; i < p.stages && ahead.t < p.tiles; i++, ahead.advance(p))
            fill_stage(p, ahead, stage_of(i), staged + 8 * i);
    find_staged_offsets<Form>(p, walk.t, offsets);
    while (walk.t < p.tiles) {
        barrier_wait(staged + 8 * stage.stage, stage.parity);
        ring.wait_empty(at);
        const uint32_t from = shared_address(stage_of(stage.stage)), none = shared_address(zero);
        char *halo_tile = halo_tiles + at.stage * p.halo_tile_bytes;
        const halo_tile_info info = write_scaled<Form, RANGE>(
            measured[at.stage], exponent, false, [&](float scale, bool careful) {
                return careful
                           ? convert_stage<Form, true>(p, from, none, offsets, halo_tile, scale)
                           : convert_stage<Form, false>(p, from, none, offsets, halo_tile, scale);
            });
        exponent = info.exponent;
        if (threadIdx.x == Form::FIRST_LOADER)
            infos[at.stage] = info;
        Form::publish();
        barrier_arrive(ring.full(at.stage));
        at.advance(p.buffers);
        if (copies && ahead.t < p.tiles) {
            fill_stage(p, ahead, stage_of(stage.stage), staged + 8 * stage.stage);
            ahead.advance(p);
        }
        stage.advance(p.stages);
        if (walk.advance(p) && walk.t < p.tiles)
            find_staged_offsets<Form>(p, walk.t, offsets);
    }
}

} // namespace talc

#endif
