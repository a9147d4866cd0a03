/// Narrow images for kernels in which a thread has some outputs of a column, one below the other: how they are cut into units
/// of work, of which a block takes one after the other through shared memory. Private to backends/cuda.
///
/// A unit is some whole planes, or a band of rows of one where a plane has more outputs than a block has room for:
///
///     thread          plane   rows of y             column
///     0 .. OW-1       0       0 .. deep-1           0 .. OW-1
///     OW .. 2 OW-1    0       deep .. 2 deep-1      0 .. OW-1
///     ...             1       0 .. deep-1           0 .. OW-1
///
/// In shared memory `lead` elements of filler stand before each row, and so behind the one above: windows that reach past
/// the sides of the image need no test.
///
///     f [row 0 . . . . .] f [row 1 . . . . .] f [row 2 . . . . .] f
#ifndef TALC_BACKENDS_CUDA_CONV2D_TILES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_TILES_CUH

#include "backends/cuda/runs.cuh"

namespace talc
{

/// What a block has for a unit, and what a thread takes of it.
struct tile_limits {
    int64_t bytes, threads;
    int64_t enough;  ///< threads that have outputs
    int64_t columns; ///< outputs beside each other; where several, x lies without filler
    int64_t times;   ///< that threads take planes of a unit, at most
};

/* Four blocks of a multiprocessor have room. */
constexpr tile_limits COLUMN_TILES = { 44 << 10, BLOCK, BLOCK * 3 / 4, 1, 1 };

struct tile_plan {
    int H, W, OH, OW, K, stride, pad_h, pad_w;
    tile_limits limits;
    int64_t most_planes = INT_MAX; ///< of a unit
    int across;                    ///< threads of a row
    int lead, pitch;               ///< elements: of filler, and from row to row
    int plane_pitch;               ///< and from plane to plane
    bool packed;                   ///< padded rows begin at 16 bytes in both memories
    int planes, rows;              ///< of y in a unit: rows == OH, or planes == 1
    int abreast;                   ///< planes that threads have at a time
    int groups, deep;              ///< of `deep` rows, of a unit's plane
    int results, bytes;         ///< where the results stand, and what they and the rows of x take
    divisor<uint32_t> units;    ///< of a plane
    divisor<uint32_t> accesses; ///< of a row
    divisor<uint32_t> height;   ///< rows of a plane
    uint32_t count, all_planes;

    tile_plan(int64_t H_, int64_t W_, int64_t OH_, int64_t OW_, int K_, int stride_, int64_t pad_h_,
              int64_t pad_w_, tile_limits limits_ = COLUMN_TILES)
        : H((int)H_), W((int)W_), OH((int)OH_), OW((int)OW_), K(K_), stride(stride_),
          pad_h((int)pad_h_), pad_w((int)pad_w_), limits(limits_),
          across((int)pieces(OW_, limits_.columns))
    {
    }

    /// Plans for `all` planes; false where not even a row of threads has room. `size` bytes are an element's, `result` an
    /// output's; `beside` bytes of each plane are in shared memory too, behind the others. A thread has about `high` outputs
    /// one below the other, or half, a fourth ... of that where so many leave not `enough` threads with any and fewer occupy
    /// at least a fourth more.
    bool cut(int64_t all, bool aligned, int64_t high, int64_t size, int64_t result, int64_t beside)
    {
        if (across > limits.threads)
            return false;
        pad_rows(aligned, size);
        int64_t busy = 0, best = 0;
        for (; high >= 2 && busy < limits.enough; high /= 2)
            if (cut_at(high, size, result, beside) && threads() > busy * 5 / 4) {
                busy = threads();
                best = high;
            }
        if (best == 0 || !cut_at(best, size, result, beside))
            return false;
        set_places(size);
        units.set(pieces(OH, rows));
        count = (uint32_t)(pieces(all, planes) * pieces(OH, rows));
        all_planes = (uint32_t)all;
        return true;
    }

    int64_t threads() const
    {
        return (int64_t)abreast * groups * across;
    }

    /* As much filler as windows reach past either side. */
    void pad_rows(bool aligned, int64_t size)
    {
        const int64_t V = ACCESS / size;
        const int64_t right = (int64_t)(OW - 1) * stride - pad_w + K - W;
        const int64_t over = limits.columns > 1 ? 0 : right > pad_w ? right : pad_w;
        packed = aligned && W % V == 0 && over > 0;
        lead = (int)(packed ? pieces(over, V) * V : over);
        pitch = W + lead;
        accesses.set(packed ? W / V : W);
        height.set(H);
    }

    /* Cuts so that a thread has `high` outputs, or a little fewer: groups of a plane are as deep as each other. */
    bool cut_at(int64_t high, int64_t size, int64_t result, int64_t beside)
    {
        deep = (int)pieces(OH, pieces(OH, high));
        const int64_t all_groups = pieces(OH, deep);
        plane_pitch = (int)spread_planes(all_groups * across, size);
        const int64_t room = limits.bytes - 4 * LINE - lead * size;
        if (!cut_planes(all_groups, room, size, result, beside) &&
            !cut_bands(all_groups, room - beside, size, result))
            return false;
        rows = groups * deep < OH ? groups * deep : OH;
        return true;
    }

    /* From plane to plane: so far that the threads of the next one go on in the banks where those of the one before end. Runs
     * that lie as they do in memory have no gaps. */
    int64_t spread_planes(int64_t plane_threads, int64_t size) const
    {
        const int64_t V = ACCESS / size, banks = 128 / size, bare = (int64_t)H * pitch;
        const int64_t gap = ((plane_threads - bare) % banks + banks) % banks;
        return bare + (packed ? gap / V * V : lead > 0 ? gap : 0);
    }

    /* Whole planes, as many as there are threads and room for. */
    bool cut_planes(int64_t all_groups, int64_t room, int64_t size, int64_t result, int64_t beside)
    {
        const int64_t fit = room / (plane_pitch * size + (int64_t)OH * OW * result + beside);
        const int64_t occupied = limits.threads / (all_groups * across);
        const int64_t most = fit < most_planes ? fit : most_planes;
        groups = (int)all_groups;
        abreast = (int)(occupied < most ? occupied : most);
        planes = (int)(abreast * limits.times <= most ? abreast * limits.times : abreast);
        return planes > 0;
    }

    /* Bands of one plane, as high as each other. */
    bool cut_bands(int64_t all_groups, int64_t room, int64_t size, int64_t result)
    {
        planes = abreast = 1;
        groups = (int)(limits.threads / across < all_groups ? limits.threads / across : all_groups);
        while (groups > 1 && band_bytes(groups, size, result) > room)
            groups--;
        groups = (int)pieces(all_groups, pieces(all_groups, groups));
        return band_bytes(groups, size, result) <= room;
    }

    int64_t band_bytes(int64_t some_groups, int64_t size, int64_t result) const
    {
        const int64_t x_rows = (some_groups * deep - 1) * stride + K;
        return x_rows * pitch * size + some_groups * deep * OW * result;
    }

    /* Results begin behind the line in which x ends, at the place that their run has in memory. */
    void set_places(int64_t size)
    {
        const int64_t x_rows = ((int64_t)rows - 1) * stride + K;
        const int64_t in = planes > 1 ? planes * plane_pitch : (x_rows < H ? x_rows : H) * pitch;
        results = (int)(pieces((in + lead) * size, LINE) * LINE + LINE);
        bytes = results + (int)(pieces(planes * rows * OW * size, LINE) * LINE + LINE);
    }
};

/// What a unit covers.
struct tile {
    uint32_t plane; ///< the first
    int planes, oh, rows;
    int top, bottom; ///< rows of x of each plane

    __device__ tile(const tile_plan &p, uint32_t unit)
    {
        const uint32_t above = p.units.quotient(unit);
        plane = above * p.planes;
        planes = min(p.planes, (int)(p.all_planes - plane));
        oh = (int)(unit - above * p.units.by) * p.rows;
        rows = min(p.rows, p.OH - oh);
        top = planes > 1 ? 0 : min(max(oh * p.stride - p.pad_h, 0), p.H);
        bottom = planes > 1 ? p.H : max(min((oh + rows - 1) * p.stride - p.pad_h + p.K, p.H), top);
    }
};

/// Writes the filler, and all else; the first unit is copied behind a barrier.
template <typename T>
__device__ __forceinline__ void fill_tile(const tile_plan &p, T *shared, T filler)
{
    if (p.lead > 0)
        for (int i = (int)threadIdx.x; i < p.results / (int)sizeof(T); i += BLOCK)
            shared[i] = filler;
    __syncthreads();
}

/// Begins to copy a unit's rows of x. Gives the place of the first one's first element.
template <typename T>
__device__ __forceinline__ T *copy_tile(const tile_plan &p, const tile &t, T *shared, const T *x)
{
    constexpr int V = ACCESS / sizeof(T);
    const T *run = x + ((int64_t)t.plane * p.H + t.top) * p.W;
    const int rows = t.planes * (t.bottom - t.top);
    if (p.lead == 0) {
        shared += place_of(run);
        copy_run(shared, run, rows * p.W);
        return shared;
    }
    const int gap = p.plane_pitch - p.H * p.pitch;
    if (p.packed)
        for (int i = (int)threadIdx.x; i < rows * (int)p.accesses.by; i += BLOCK) {
            const int row = (int)p.accesses.quotient(i);
            const int above = t.planes > 1 ? (int)p.height.quotient(row) * gap : 0;
            __pipeline_memcpy_async(shared + i * V + (row + 1) * p.lead + above, run + i * V,
                                    ACCESS);
        }
    else
        for (int i = (int)threadIdx.x; i < rows * p.W; i += BLOCK) {
            const int row = (int)p.accesses.quotient(i);
            const int above = t.planes > 1 ? (int)p.height.quotient(row) * gap : 0;
            __pipeline_memcpy_async(shared + i + (row + 1) * p.lead + above, run + i, sizeof(T));
        }
    __pipeline_commit();
    return shared + p.lead;
}

} // namespace talc

#endif
