/// What implicit_gemm's kernels know of a problem, and which tiles and positions there are. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PROBLEM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PROBLEM_CUH

#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/halves.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "ops/conv2d.h"

namespace talc
{

/// A tile of one warpgroup: 64 output channels of Form::ROWS rows of COLUMNS output positions, as BLOCKS products 8 positions wide.
constexpr int CHANNELS = 64, COLUMNS = 32, BLOCKS = COLUMNS / 8;
/// Warpgroups that multiply; the other threads of a block load patches.
constexpr int MULTIPLIERS = 2;
/// Channels of a product's step, and of a plane of the patch in shared memory.
constexpr int STEP = 16, PLANE = 8;
/* A Form of the kernel, in implicit_gemm.cu and implicit_gemm_mma.cu, has the instructions that multiply and what suits them: PRODUCTS
 * of f16 for one of f32, LOADERS, threads that load, DEPTH, steps of weights that are on their way to each thread, and RUN, steps that
 * these come in. STAGED: its patches are made from staged rows. */
/// Of an element in shared memory: its high part and, for three products, its low part.
template <typename Form> constexpr int PARTS = Form::PRODUCTS == 3 ? 2 : 1;
/// Bytes of the weights in shared memory.
template <typename Form> constexpr int RING = Form::DEPTH *PARTS<Form> *MULTIPLIERS * 2048;
template <typename Form> constexpr int GEMM_THREADS = MULTIPLIERS * 128 + Form::LOADERS;
constexpr int MAX_BUFFERS = 4, MAX_STEPS = 1024, MAX_FOLDED = 128;
/// Floats of a sector of memory; of a row of results in shared memory, 8 banks from the next; and the bytes of a warp that it carries
/// over to the next tile.
constexpr int SECTOR = 8, RESULT_PITCH = COLUMNS + SECTOR;
template <typename Form> constexpr int CARRIED_BYTES = Form::ROWS * 16 * SECTOR * 4;

/// A channel of the patch that is one of x for a phase of the stride: its plane, from the group's first, and the phase.
struct folded_channel {
    int plane;
    short h, w;
};

struct gemm_problem {
    const float *x, *w;
    float *y;
    const __half *packed;
    const int *exponents; ///< of each output channel's weights
    const float
        *thresholds; ///< magnitude of a scaled sum below which the products of tiny weights matter
    epilogue<float> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };

    int N, C, H, W, OC, OH, OW, KH, KW, groups;
    int group_in, group_out; ///< channels of a group
    int stride_h, stride_w, dilation_h, dilation_w, top, left;
    talc_padding_mode mode;
    bool only_inside; ///< sums multiply no padding (ops/conv2d.h)
    /* Where channels are few, the phases of the stride are taken as channels: of x, for each phase. */
    bool folded;
    int fold_h, fold_w;       ///< how many phases; 1: none
    int in;                   ///< channels then, of a group
    int taps_h, taps_w, taps; ///< taps then
    int channels, chunks,
        steps; ///< of a chunk: channels, and products of STEP channels, a multiple of RUN

    /* The patch: for each phase of the stride, the positions that the tile's windows begin at, row by row. */
    int phases, phases_w, phase_h_step, phase_w_step;
    int pitch,
        image_rows; ///< positions of a row; rows of an image, where images follow one another
    int positions;  ///< of a phase
    int row_shift;  ///< positions from one row of the tile to the next
    int part_shift; ///< positions from one warpgroup's part of the tile to the other's; 0: they have channels of their own
    bool flat;      ///< tiles run on over the ends of rows and images
    bool
        carry; ///< a block takes the tiles of a row one after the other, and carries parts of sectors over

    int channel_tiles, row_tiles, column_tiles, pixel_tiles, tiles;
    int tile_rows, tile_columns;
    int patch_bytes, buffers;
    int result_bytes;        ///< of a warp in shared memory
    int stages, stage_bytes; ///< of rows of x that patches are made from (staged.cuh)
    int stage_step;          ///< floats from one channel to the next
    bool stage_rows;         ///< of the rows that a patch needs; else of all rows of its images
    bool aligned;            ///< x, to 16 bytes
    int lag; ///< chunks that the second warpgroup stays behind the first: one stores its results while the other multiplies
    unsigned least;                 ///< tininess of elements, scaled, that are tiny
    float coefficient;              ///< of the count of tiny elements
    unsigned long long *recomputed; ///< counts results that are computed again
    /* Where tiles are too few for the GPU, blocks take parts of their chunks, and y is [part][its shape]. */
    int splits, part_chunks;
    int64_t outputs;
    float *
        doubts; ///< [tile][part][2 * CHANNELS]: magnitude below which a sum is doubtful; NULL: not split
    divisor<uint32_t> by_pitch, by_image_rows, by_positions, by_kernel;
    divisor<uint32_t> by_inner, by_outer, by_row_tiles, by_N,
        by_splits; ///< a tile's number is [group][n][row][outer][inner][part]: columns and channels, with carry
    /// Where in the patch each step begins, in units of 16 bytes: in constant memory, so that addresses are formed by the uniform datapath.
    uint16_t shifts[MAX_STEPS];
    folded_channel fold[MAX_FOLDED];
};

// ---- Tiles --------------------------------------------------------------------------------------------------

struct gemm_tile {
    int g, channel_tile;
    int n, row, column;      ///< at which it begins; of a flat tile column is its first position
    int part, chunk, chunks; ///< its part of the chunks: the first, and how many
    bool before, after;      ///< with carry: whether the row has a tile before it, and one behind
};

/// Tile `t`, or part of one.
static __device__ __forceinline__ gemm_tile tile_of(const gemm_problem &p, int t)
{
    gemm_tile a = {};
    const int whole = (int)p.by_splits.quotient((uint32_t)t);
    a.part = t - whole * p.splits;
    a.chunk = a.part * p.part_chunks;
    a.chunks = min(p.part_chunks, p.chunks - a.chunk);
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

/// Tiles that a block takes one after the other. Every block of a launch has to have some: its warpgroups wait for each other.
static __host__ __device__ __forceinline__ int tiles_of_run(const gemm_problem &p)
{
    return p.carry ? p.column_tiles : 1;
}

/// The tiles that a block computes.
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

/// Where position `at` of a phase of the tile's patch lies.
struct gemm_place {
    int n, row, column;
};

static __device__ __forceinline__ gemm_place place_of(const gemm_problem &p, const gemm_tile &a,
                                                      int at)
{
    gemm_place place;
    if (p.flat)
        at += a.column;
    place.row = (int)p.by_pitch.quotient((uint32_t)at);
    place.column = at - place.row * p.pitch;
    if (p.flat) {
        place.n = (int)p.by_image_rows.quotient((uint32_t)place.row);
        place.row -= place.n * p.image_rows;
        return place;
    }
    place.n = a.n, place.row += a.row, place.column += a.column;
    return place;
}

} // namespace talc

#endif
