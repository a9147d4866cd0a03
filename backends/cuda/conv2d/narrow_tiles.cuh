/// Tiles of narrow images, for kernels in which a thread computes several outputs of a column
/// (thread coarsening): a block copies one tile after the other into shared memory. Private to
/// backends/cuda.
///
/// A tile is some whole planes, or some rows of one where a plane has more outputs than a block can
/// hold:
///
///     thread          plane   rows of y             column
///     0 .. OW-1       0       0 .. depth-1          0 .. OW-1
///     OW .. 2 OW-1    0       depth .. 2 depth-1    0 .. OW-1
///     ...             1       0 .. depth-1          0 .. OW-1
///
/// In shared memory each row has `lead` elements of padding in front, which end the row above too:
/// windows that reach past the sides of the image need no test.
///
///     p [row 0 . . . . .] p [row 1 . . . . .] p [row 2 . . . . .] p
#ifndef TALC_BACKENDS_CUDA_CONV2D_NARROW_TILES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_NARROW_TILES_CUH

#include "backends/cuda/primitives/shared_copy.cuh"

namespace talc
{

/// Shared memory of a block, so that four fit a multiprocessor, and how many of its threads should
/// have outputs.
constexpr int64_t TILE_BYTES = 44 << 10, ENOUGH = BLOCK * 3 / 4;

struct tile_plan {
    int H, W, OH, OW, K, stride, pad_h, pad_w;
    int lead, pitch;           ///< elements: of padding, and from row to row
    int plane_pitch;           ///< and from plane to plane
    bool packed;               ///< padded rows begin at 16 bytes in both memories
    int planes, rows;          ///< of y in a tile: rows == OH, or planes == 1
    int groups, depth;         ///< threads down a plane of the tile, and outputs of each
    int results, bytes;        ///< where the results stand, and what they and the rows of x take
    divisor<uint32_t> tiles;   ///< of a plane
    divisor<uint32_t> vectors; ///< of a row
    divisor<uint32_t> height;  ///< rows of a plane
    uint32_t count, all_planes;

    explicit tile_plan(const talc_conv2d_problem *p)
        : H((int)p->H), W((int)p->W), OH((int)p->OH), OW((int)p->OW), K((int)p->KH),
          stride((int)p->stride_h), pad_h((int)p->pad_top), pad_w((int)p->pad_left)
    {
    }

    /// Plans for `all` planes, of at most BLOCK columns; false where not even a row of threads
    /// fits. `size` is that of an element; shared memory also holds `beside` bytes for each plane,
    /// behind the others. A thread has about `high` outputs of a column, or half, a fourth ... of
    /// that while fewer than ENOUGH threads have outputs and halving gains at least a fourth.
    bool cut(int64_t all, bool aligned, int64_t high, int64_t size, int64_t beside)
    {
        pad_rows(aligned, size);
        int64_t busy = 0, best = 0;
        for (; high >= 2 && busy < ENOUGH; high /= 2)
            if (cut_at(high, size, beside) && threads() > busy * 5 / 4) {
                busy = threads();
                best = high;
            }
        if (best == 0 || !cut_at(best, size, beside))
            return false;
        set_places(size);
        tiles.set(talc_ceil_div(OH, rows));
        count = (uint32_t)(talc_ceil_div(all, planes) * talc_ceil_div(OH, rows));
        all_planes = (uint32_t)all;
        return true;
    }

    int64_t threads() const
    {
        return (int64_t)planes * groups * OW;
    }

    /* As much padding as windows reach past either side. */
    void pad_rows(bool aligned, int64_t size)
    {
        const int64_t V = VECTOR_BYTES / size;
        const int64_t right = (int64_t)(OW - 1) * stride - pad_w + K - W;
        const int64_t over = right > pad_w ? right : pad_w;
        packed = aligned && W % V == 0 && over > 0;
        lead = (int)(packed ? talc_ceil_div(over, V) * V : over);
        pitch = W + lead;
        vectors.set(packed ? W / V : W);
        height.set(H);
    }

    /* Divides so that a thread has `high` outputs or a little fewer, the same for all. */
    bool cut_at(int64_t high, int64_t size, int64_t beside)
    {
        depth = (int)talc_ceil_div(OH, talc_ceil_div(OH, high));
        const int64_t all_groups = talc_ceil_div(OH, depth);
        plane_pitch = (int)spread_planes(all_groups * OW, size);
        const int64_t capacity = TILE_BYTES - 4 * CACHE_LINE - lead * size;
        if (!cut_planes(all_groups, capacity, size, beside) &&
            !cut_rows(all_groups, capacity - beside, size))
            return false;
        rows = groups * depth < OH ? groups * depth : OH;
        return true;
    }

    /* The pitch of planes: such that the threads of a plane continue in the banks where those of
     * the previous plane end, without bank conflicts. Planes that are copied as one contiguous
     * range have no padding. */
    int64_t spread_planes(int64_t plane_threads, int64_t size) const
    {
        const int64_t V = VECTOR_BYTES / size, banks = 128 / size, bare = (int64_t)H * pitch;
        const int64_t gap = ((plane_threads - bare) % banks + banks) % banks;
        return bare + (packed ? gap / V * V : lead > 0 ? gap : 0);
    }

    /* Whole planes, as many as there are threads and shared memory for. */
    bool cut_planes(int64_t all_groups, int64_t capacity, int64_t size, int64_t beside)
    {
        const int64_t fit = capacity / ((plane_pitch + (int64_t)OH * OW) * size + beside);
        const int64_t occupied = BLOCK / (all_groups * OW);
        groups = (int)all_groups;
        planes = (int)(occupied < fit ? occupied : fit);
        return planes > 0;
    }

    /* Rows of one plane, the same number in each tile. */
    bool cut_rows(int64_t all_groups, int64_t capacity, int64_t size)
    {
        planes = 1;
        groups = (int)(BLOCK / OW < all_groups ? BLOCK / OW : all_groups);
        while (groups > 1 && rows_elements(groups) * size > capacity)
            groups--;
        groups = (int)talc_ceil_div(all_groups, talc_ceil_div(all_groups, groups));
        return rows_elements(groups) * size <= capacity;
    }

    int64_t rows_elements(int64_t some_groups) const
    {
        const int64_t x_rows = (some_groups * depth - 1) * stride + K;
        return x_rows * pitch + some_groups * depth * OW;
    }

    /* Results begin in the cache line after x, at the offset that they have in their line in global
     * memory. */
    void set_places(int64_t size)
    {
        const int64_t x_rows = ((int64_t)rows - 1) * stride + K;
        const int64_t in = planes > 1 ? planes * plane_pitch : (x_rows < H ? x_rows : H) * pitch;
        results = (int)(talc_ceil_div((in + lead) * size, CACHE_LINE) * CACHE_LINE + CACHE_LINE);
        bytes = results + (int)(talc_ceil_div(planes * rows * OW * size, CACHE_LINE) * CACHE_LINE +
                                CACHE_LINE);
    }
};

/// What a tile covers.
struct tile {
    uint32_t plane; ///< the first
    int planes, oh, rows;
    int top, bottom; ///< rows of x of each plane

    __device__ tile(const tile_plan &p, uint32_t number)
    {
        const uint32_t above = p.tiles.quotient(number);
        plane = above * p.planes;
        planes = min(p.planes, (int)(p.all_planes - plane));
        oh = (int)(number - above * p.tiles.by) * p.rows;
        rows = min(p.rows, p.OH - oh);
        top = planes > 1 ? 0 : min(max(oh * p.stride - p.pad_h, 0), p.H);
        bottom = planes > 1 ? p.H : max(min((oh + rows - 1) * p.stride - p.pad_h + p.K, p.H), top);
    }
};

/// Fills shared memory with padding, before the first tile is copied.
template <typename T>
__device__ __forceinline__ void fill_tile(const tile_plan &p, T *shared, T padding)
{
    if (p.lead > 0)
        for (int i = (int)threadIdx.x; i < p.results / (int)sizeof(T); i += BLOCK)
            shared[i] = padding;
    __syncthreads();
}

/// Begins to copy a tile's rows of x. Returns where their first element will be.
template <typename T>
__device__ __forceinline__ T *copy_tile(const tile_plan &p, const tile &t, T *shared, const T *x)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    const T *run = x + ((int64_t)t.plane * p.H + t.top) * p.W;
    const int rows = t.planes * (t.bottom - t.top);
    if (p.lead == 0) {
        shared += offset_in_line(run);
        copy_to_shared(shared, run, rows * p.W);
        return shared;
    }
    const int gap = p.plane_pitch - p.H * p.pitch;
    if (p.packed)
        for (int i = (int)threadIdx.x; i < rows * (int)p.vectors.by; i += BLOCK) {
            const int row = (int)p.vectors.quotient(i);
            const int above = t.planes > 1 ? (int)p.height.quotient(row) * gap : 0;
            __pipeline_memcpy_async(shared + i * V + (row + 1) * p.lead + above, run + i * V,
                                    VECTOR_BYTES);
        }
    else
        for (int i = (int)threadIdx.x; i < rows * p.W; i += BLOCK) {
            const int row = (int)p.vectors.quotient(i);
            const int above = t.planes > 1 ? (int)p.height.quotient(row) * gap : 0;
            __pipeline_memcpy_async(shared + i + (row + 1) * p.lead + above, run + i, sizeof(T));
        }
    __pipeline_commit();
    return shared + p.lead;
}

} // namespace talc

#endif
