/// The problem of implicit_gemm as its kernels get it, its tiles, and the pixels of a tile. Private
/// to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PROBLEM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PROBLEM_CUH

#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/halves.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "ops/conv2d.h"

namespace talc
{

/// A warpgroup's tile has CHANNELS output channels and Form::ROWS rows of COLUMNS output positions.
/// A row is computed by BLOCKS products, each 8 positions wide.
constexpr int CHANNELS = 64, COLUMNS = 32, BLOCKS = COLUMNS / 8;
/// Warpgroups that multiply. The other threads of a block load halo tiles.
constexpr int MULTIPLIERS = 2;
/// Input channels of one product (a step), and input channels that are contiguous in shared memory.
constexpr int STEP = 16, PLANE = 8;
/* A Form is a template argument of the kernel. It has the instructions that multiply, and the
 * numbers that suit them. implicit_gemm.cu and implicit_gemm_mma.cu define the two.
 *
 * PRODUCTS: f16 products that make one f32 product.
 * LOADERS: threads that load halo tiles.
 * DEPTH: steps whose weights are in flight to each thread.
 * RUN: steps whose weights are fetched and read together.
 * STAGED: halo tiles are made from rows that were first copied to shared memory.
 * LANES_READ: lanes read halo tiles themselves, so that each arrives when they may be filled. */

/// Numbers that an element has in shared memory: its high part and, for three products, its low
/// part.
template <typename Form> constexpr int PARTS = Form::PRODUCTS == 3 ? 2 : 1;
/// Bytes of the ring of weights in shared memory.
template <typename Form> constexpr int RING = Form::DEPTH *PARTS<Form> *MULTIPLIERS * 2048;
template <typename Form> constexpr int GEMM_THREADS = MULTIPLIERS * 128 + Form::LOADERS;
constexpr int MAX_BUFFERS = 4, MAX_STEPS = 1024, MAX_FOLDED = 128;
/// Floats of a sector, the unit of transfers to memory.
constexpr int SECTOR = 8;
/// Floats from one row of the store buffer to the next, which begins 8 banks later.
constexpr int STORE_PITCH = COLUMNS + SECTOR;
/// Bytes that a warp carries over from one tile to the next.
template <typename Form> constexpr int CARRIED_BYTES = Form::ROWS * 16 * SECTOR * 4;

/// A folded channel is a channel of x at one phase of the stride.
struct folded_channel {
    int plane;  ///< offset of the channel of x from the group's first
    short h, w; ///< the phase
};

struct gemm_problem {
    const float *x, *w;
    float *y;
    const __half *packed;
    /// Of each output channel: the exponent of the scale of its weights.
    const int *exponents;
    /// Of each output channel: the magnitude of a scaled sum below which the underflows of its
    /// weights matter.
    const float *thresholds;
    epilogue<float> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };

    int N, C, H, W, OC, OH, OW, KH, KW, groups;
    int group_in, group_out; ///< channels of a group
    int stride_h, stride_w, dilation_h, dilation_w, top, left;
    talc_padding_mode mode;
    bool only_inside; ///< sums do not include products with padding (ops/conv2d.h)

    /// Where channels are few, each pair of a channel of x and a phase of the stride is a channel
    /// of the product.
    bool folded;
    int fold_h, fold_w;       ///< phases along each axis; 1 where not folded
    int in;                   ///< channels of a group, folded
    int taps_h, taps_w, taps; ///< taps, folded
    int channels;             ///< channels of a K tile
    int k_tiles;
    int steps; ///< products of a K tile, a multiple of Form::RUN

    /// A halo tile has, for each phase of the stride, the positions where the windows of the tile
    /// begin, row by row.
    int phases, phases_w, phase_h_step, phase_w_step;
    int pitch;           ///< positions of a row
    int image_rows;      ///< rows of an image, in a flat tile
    int positions;       ///< positions of a phase
    int row_shift;       ///< positions from one row of the tile to the next
    int warpgroup_shift; ///< positions between the two warpgroups; 0: they differ in channels
    bool flat;           ///< tiles run on over the ends of rows and images
    /// A block takes the tiles of a row one after the other. A sector that crosses the edge between
    /// two tiles is carried over and written with the second tile.
    bool carry;

    int channel_tiles, row_tiles, column_tiles, pixel_tiles, tiles;
    int tile_rows, tile_columns;
    int halo_tile_bytes, buffers;
    int store_bytes;         ///< shared memory of a warp that stores
    int stages, stage_bytes; ///< buffers of rows that halo tiles are made from (staged.cuh)
    int stage_step;          ///< floats from one channel of a stage to the next
    bool stage_rows;         ///< a stage has the rows of a halo tile; else all rows of its images
    bool aligned;            ///< x is aligned to 16 bytes
    /// K tiles that the second warpgroup is behind the first. So one stores its outputs while the
    /// other multiplies.
    int lag;
    unsigned min_tininess;          ///< a scaled element of smaller tininess() underflows
    float coefficient;              ///< error bound of a sum, per underflow
    unsigned long long *recomputed; ///< counts the outputs that are recomputed
    /// Split-K: where tiles are too few for the GPU, each split of a tile has so many K tiles. Then
    /// y is [split][shape of y].
    int splits, split_k_tiles;
    int64_t outputs;
    /// [tile][split][2 * CHANNELS]: a sum of smaller magnitude is recomputed. NULL without split-K.
    float *recompute_limits;
    divisor<uint32_t> by_pitch, by_image_rows, by_positions, by_kernel;
    /// The index of a tile is [group][n][row][outer][inner][split]. Inner and outer are channel and
    /// column, with carry column and channel.
    divisor<uint32_t> by_inner, by_outer, by_row_tiles, by_N, by_splits;
    /// Where each step's operand begins in the halo tile, in units of 16 bytes. It is an argument
    /// of the kernel, so it is in constant memory, and the uniform datapath computes addresses.
    uint16_t shifts[MAX_STEPS];
    folded_channel fold[MAX_FOLDED];
};

// ---- Tiles --------------------------------------------------------------------------------------

/// A tile, or one split of a tile.
struct gemm_tile {
    int g, channel_tile;
    int n, row, column;  ///< its first pixel; column of a flat tile is its first position
    int split;           ///< which split of the tile it is
    int k_tile, k_tiles; ///< its first K tile, and their count
    bool before, after;  ///< with carry: the row has a tile before this one, or after it
};

static __device__ __forceinline__ gemm_tile tile_of(const gemm_problem &p, int t)
{
    gemm_tile a = {};
    const int whole = (int)p.by_splits.quotient((uint32_t)t);
    a.split = t - whole * p.splits;
    a.k_tile = a.split * p.split_k_tiles;
    a.k_tiles = min(p.split_k_tiles, p.k_tiles - a.k_tile);
    t = whole;
    const int rest = (int)p.by_inner.quotient((uint32_t)t),
              rows = (int)p.by_outer.quotient((uint32_t)rest);
    const int inner = t - rest * (int)p.by_inner.by, outer = rest - rows * (int)p.by_outer.by;
    const int column = p.carry ? inner : outer;
    a.channel_tile = p.carry ? outer : inner;
    a.before = p.carry && column > 0, a.after = p.carry && column + 1 < p.column_tiles;
    a.column = column * p.tile_columns;
    if (p.flat) {
        a.g = rows;
        return a;
    }
    const int images = (int)p.by_row_tiles.quotient((uint32_t)rows);
    a.row = (rows - images * p.row_tiles) * p.tile_rows;
    a.g = (int)p.by_N.quotient((uint32_t)images);
    a.n = images - a.g * p.N;
    return a;
}

/// Tiles that a block has to take one after the other. Every block of a launch needs a tile, since
/// its warpgroups wait for each other.
static __host__ __device__ __forceinline__ int tiles_of_run(const gemm_problem &p)
{
    return p.carry ? p.column_tiles : 1;
}

/// A block computes first_tile(), then next_tile() of that, and so on.
static __device__ __forceinline__ int first_tile(const gemm_problem &p)
{
    return (int)blockIdx.x * tiles_of_run(p);
}

static __device__ __forceinline__ int next_tile(const gemm_problem &p, int t)
{
    if (!p.carry)
        return t + (int)gridDim.x;
    t++;
    const bool ends = t == (int)(p.by_inner.quotient((uint32_t)t) * p.by_inner.by);
    return ends ? t + ((int)gridDim.x - 1) * p.column_tiles : t;
}

/// An output pixel. Rows and columns may lie outside of the image.
struct gemm_pixel {
    int n, row, column;
};

/// The pixel at position `at` of a phase of the tile's halo tile.
static __device__ __forceinline__ gemm_pixel pixel_of(const gemm_problem &p, const gemm_tile &a,
                                                      int at)
{
    gemm_pixel pixel;
    if (p.flat)
        at += a.column;
    pixel.row = (int)p.by_pitch.quotient((uint32_t)at);
    pixel.column = at - pixel.row * p.pitch;
    if (p.flat) {
        pixel.n = (int)p.by_image_rows.quotient((uint32_t)pixel.row);
        pixel.row -= pixel.n * p.image_rows;
        return pixel;
    }
    pixel.n = a.n, pixel.row += a.row, pixel.column += a.column;
    return pixel;
}

} // namespace talc

#endif
