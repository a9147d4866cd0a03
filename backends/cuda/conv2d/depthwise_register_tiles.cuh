/// Depthwise convolution of images whose width is a multiple of 7, as those of most networks are,
/// with a register tile of outputs a thread (depthwise.cu). Private to backends/cuda.
///
/// Kernels of K by K, stride 1, padding on both sides that keeps the width, every output channel
/// with an input channel of its own. A thread has the sums of SIDE by SIDE outputs, its register
/// tile, and the weights of its channel in registers. It loops over the rows of x that these
/// outputs need, reads its columns of each once and adds them to all the sums that they belong to:
/// for K = 5, 121 reads feed 1,225 FMAs.
///
///     x in shared memory                   sums
///     . . . . . . . . . . .  row i         + + + + + + +  row d,  to which row i is tap kh = i - d
///     . . . . . . . . . . .                + + + + + + +
///     SIDE + K - 1 columns                 SIDE columns
///
/// A block is a single warp, so that no warp waits for another. Its tile is some whole planes, or
/// rows of one that has more register tiles than a warp has threads. In each round it does the same
/// tile of the next image, so it loads its weights once; while it computes a round, x of the next
/// one is being copied (double buffering). x is copied into shared memory unchanged, 16 bytes at a
/// time, and y leaves it so, from the same buffer: with tiles 7 columns wide all rows and planes
/// begin in different banks.
///
/// With K = 7 the 2,401 FMAs of a register tile do not fit the instruction cache, whose misses
/// stall warps that are at different places (ncu: no instruction, 27 % of a warp's time); a loop
/// short enough would have to index registers.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_REGISTER_TILES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_REGISTER_TILES_CUH

#include "backends/cuda/conv2d/depthwise_pass.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

namespace talc
{

/// Outputs along an edge of a register tile. Lower ones, of 4 or 5 rows, are slower on most sizes
/// of planes.
constexpr int SIDE = 7;

// ---- Plan ---------------------------------------------------------------------------------------

/// How planes are divided into tiles.
struct register_tile_plan : plane_sizes {
    int channels, all_planes;
    int across, down;        ///< register tiles of each plane of a tile
    int planes, plane_tiles; ///< planes of a tile, tiles of a plane: one of the two is 1
    int round_planes;  ///< planes of a round: an image, or several where a tile has more planes
    int tiles, rounds; ///< tiles of a round, and rounds
    int capacity;      ///< elements of a tile in shared memory, which holds two

    explicit register_tile_plan(const talc_conv2d_problem *p)
        : plane_sizes(p), channels((int)p->C), all_planes((int)(p->N * p->C))
    {
    }

    /// False where a warp has not two rows of register tiles: the halo of a single row would be too
    /// much of x.
    bool cut(int K, int64_t size)
    {
        const int V = (int)(CACHE_LINE / size);
        across = OW / SIDE, down = (int)talc_ceil_div(OH, SIDE), planes = plane_tiles = 1;
        int x_rows = H, y_rows = OH;
        if (2 * across > WARP)
            return false;
        if (across * down > WARP) {
            plane_tiles = (int)talc_ceil_div(down, WARP / across);
            down = (int)talc_ceil_div(down, plane_tiles); /* as high as each other */
            x_rows = down * SIDE + K - 1, y_rows = down * SIDE;
        } else {
            planes = WARP / (across * down);
            planes = planes >= channels
                         ? planes / channels * channels
                         : (int)talc_ceil_div(channels, talc_ceil_div(channels, planes));
        }
        round_planes = planes > channels ? planes : channels;
        tiles = (int)talc_ceil_div(round_planes, planes) * plane_tiles;
        rounds = (int)talc_ceil_div(all_planes, round_planes);
        const int in = x_rows * W, out = y_rows * OW, largest = in > out ? in : out;
        capacity = (int)talc_ceil_div(planes * (largest > K * K ? largest : K * K) + V, V) * V;
        return true;
    }
};

/// A block's tile, the same in each round: `rows` rows of y from `oh` on, of planes from `plane`
/// on, and the `height` rows of x from `top` on that they need.
struct block_tile {
    int plane, oh, rows, top, height;

    __device__ block_tile(const register_tile_plan &p, int index, int K)
    {
        plane = index / p.plane_tiles * p.planes;
        oh = index % p.plane_tiles * p.down * SIDE;
        rows = min(p.down * SIDE, p.OH - oh);
        top = p.plane_tiles == 1 ? 0 : min(max(oh - p.pad_top, 0), p.H);
        height = p.plane_tiles == 1 ? p.H : max(min(oh + rows - 1 - p.pad_top + K, p.H) - top, 0);
    }

    /* The first plane of round t, and how many there are. */
    __device__ int first(const register_tile_plan &p, int t) const
    {
        return t * p.round_planes + plane;
    }
    __device__ int count(const register_tile_plan &p, int t) const
    {
        return min(p.planes, min((t + 1) * p.round_planes, p.all_planes) - first(p, t));
    }
};

// ---- Kernel -------------------------------------------------------------------------------------

template <typename T> struct depthwise_register_tile_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    register_tile_plan plan;
    bool rotated, only_inside; ///< only_inside: sums multiply no padding (ops/conv2d.h)
};

/* Begins to copy the rows of x of round t, if there is one. */
template <typename T>
static __device__ __forceinline__ void copy_planes(const depthwise_register_tile_problem<T> &p,
                                                   const block_tile &tile, int t, T *shared)
{
    const T *from = p.x + ((int64_t)tile.first(p.plan, t) * p.plan.H + tile.top) * p.plan.W;
    if (t < p.plan.rounds)
        copy_to_shared<WARP>(shared + offset_in_line(from), from,
                             tile.count(p.plan, t) * tile.height * p.plan.W);
    else
        __pipeline_commit(); /* an empty group, as each round waits for the last group but one */
}

/* Blocks per multiprocessor: as many as the registers for weights and sums allow. */
template <typename T, int K> constexpr int register_tile_occupancy()
{
    return sizeof(T) == 8 ? 8 : K == 7 ? 12 : 16;
}

template <typename T, int K>
static __global__ void __launch_bounds__(WARP, register_tile_occupancy<T, K>())
    depthwise_register_tiles(const depthwise_register_tile_problem<T> p)
{
    constexpr int PAD = (K - 1) / 2, COLUMNS = SIDE + K - 1;
    extern __shared__ __align__(CACHE_LINE) unsigned char shared_bytes[];
    const register_tile_plan &plan = p.plan;
    const block_tile tile(plan, blockIdx.x % plan.tiles, K);
    const int step = gridDim.x / plan.tiles;
    int t = blockIdx.x / plan.tiles;
    T *shared = (T *)shared_bytes, *next = shared + plan.capacity;
    copy_planes(p, tile, t, shared);

    /* This thread's register tile. */
    const int plane = (int)threadIdx.x / (plan.across * plan.down);
    const int rest = (int)threadIdx.x - plane * plan.across * plan.down, row = rest / plan.across;
    const int ow = (rest - row * plan.across) * SIDE, oh = row * SIDE;
    const int top = tile.oh + oh - plan.pad_top - tile.top;
    const bool left = ow > 0, right = ow + SIDE < plan.W; /* there is something beside it */

    const int channels = min(plan.planes, plan.channels - tile.plane), channel = plane % channels;
    const T *weights = p.w + (int64_t)tile.plane * (K * K);
    copy_to_shared<WARP>(next + offset_in_line(weights), weights, channels * (K * K));
    wait_for_copies();
    T w[K * K], not_finite = 0;
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        w[tap] =
            next[offset_in_line(weights) + channel * (K * K) + (p.rotated ? K * K - 1 - tap : tap)];
        not_finite += w[tap] * 0;
    }
    const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[tile.plane + channel];
    __syncthreads();

    for (; t < plan.rounds; t += step) {
        copy_planes(p, tile, t + step, next);
        __pipeline_wait_prior(1);
        __syncthreads();
        const int64_t first = tile.first(plan, t);
        const bool busy = plane < tile.count(plan, t) && oh < tile.rows;
        accumulator_of<T> sums[SIDE][SIDE] = {};
        if (busy) {
            const T *from = shared + offset_in_line(p.x + (first * plan.H + tile.top) * plan.W) +
                            (plane * plan.H + top) * plan.W + ow - PAD;
#pragma unroll
            for (int i = 0; i < COLUMNS; i++) {
                if ((unsigned)(top + i) < (unsigned)tile.height) {
                    accumulator_of<T> taps[COLUMNS];
#pragma unroll
                    for (int k = 0; k < COLUMNS; k++)
                        taps[k] = (k >= PAD || left) && (k < PAD + SIDE || right) ? from[k] : (T)0;
#pragma unroll
                    for (int d = 0; d < SIDE; d++)
#pragma unroll
                        for (int k = 0; k < K; k++)
#pragma unroll
                            for (int r = 0; r < SIDE; r++)
                                if (i - d >= 0 && i - d < K)
                                    sums[d][r] += taps[r + k] * w[(i - d) * K + k];
                }
                from += plan.W;
            }
        }
        __syncthreads(); /* x is read, its buffer free for y */
        const int64_t at = (first * plan.OH + tile.oh) * plan.OW;
        T *results = shared + offset_in_line(p.y + at);
        if (busy) {
            T *to = results + (plane * tile.rows + oh) * plan.OW + ow;
#pragma unroll
            for (int d = 0; d < SIDE; d++, to += plan.OW)
                if (oh + d < tile.rows)
#pragma unroll
                    for (int r = 0; r < SIDE; r++)
                        to[r] = sums[d][r] + bias;
            if (not_finite != 0) {
                const T *const x = p.x + (first + plane) * plan.H * plan.W;
                const T *const first_tap =
                    weights + channel * (K * K) + (p.rotated ? K * K - 1 : 0);
                const int sign = p.rotated ? -1 : 1;
#pragma unroll 1
                for (int e = 0; e < SIDE * SIDE && oh + e / SIDE < tile.rows; e++)
                    results[(plane * tile.rows + oh + e / SIDE) * plan.OW + ow + e % SIDE] =
                        sum_of_window<T>({ x, first_tap, 1, 0, 0, plan.H, plan.W,
                                           tile.oh + oh + e / SIDE - plan.pad_top,
                                           ow + e % SIDE - PAD, K, K, 1, 1, sign * K, sign,
                                           p.only_inside }) +
                        bias;
            }
        }
        __syncthreads();
        const int count = tile.count(plan, t) * tile.rows * plan.OW;
        store_ended<WARP>(p.last, p.y, at, results, count);
        __syncthreads(); /* and the buffer is free for the round after the next */
        T *const stored = shared;
        shared = next, next = stored;
    }
}

// ---- Launch -------------------------------------------------------------------------------------

/* Rounds of a block. Few tiles are best done in one wave of blocks. Where there are many, more
 * blocks than fit at once, which end at different times, keep memory busier, and with 9 taps there
 * are next to no weights to load again. */
static int64_t rounds_of_block(int K, int64_t tiles, int64_t resident)
{
    if (tiles <= 6 * resident)
        return talc_ceil_div(tiles, resident);
    return K == 3 ? 1 : talc_ceil_div(tiles, 12 * resident);
}

template <typename T, int K>
static void launch_register_tiles(talc_device *device, const depthwise_pass *p,
                                  const register_tile_plan &plan, const talc_conv2d_arguments *a)
{
    depthwise_register_tile_problem<T> d = { (const T *)a->x,
                                             (const T *)a->w,
                                             (T *)a->y,
                                             epilogue<T>(a->bias, a->residual, p->activation),
                                             plan,
                                             p->rotated,
                                             p->only_inside };
    const int64_t resident =
        (int64_t)talc_cuda_state_of(device)->multiprocessors * register_tile_occupancy<T, K>();
    const int64_t each = rounds_of_block(K, (int64_t)plan.tiles * plan.rounds, resident);
    depthwise_register_tiles<T, K>
        <<<(unsigned)(plan.tiles * talc_ceil_div(plan.rounds, each)), WARP,
           2 * plan.capacity * sizeof(T), talc_cuda_stream(device)>>>(d);
}

/// Keeps the tiles of a problem; why there are none.
template <typename T>
static const char *plan_register_tiles(const depthwise_pass *p, talc_plan *plan)
{
    const int64_t largest = INT_MAX / 8, pad = (p->KW - 1) / 2;
    if (p->OC != p->C)
        return "an input channel has several output channels";
    if (p->KH != p->KW || (p->KH != 3 && p->KH != 5 && p->KH != 7))
        return "the kernel is not 3x3, 5x5 or 7x7";
    if (p->stride_h != 1 || p->stride_w != 1 || p->dilation_h != 1 || p->dilation_w != 1)
        return "a stride or dilation is not 1";
    if (p->W % SIDE != 0 || p->pad_left != pad || p->pad_right != pad)
        return "the width is no multiple of 7, or not kept";
    if (!planes_fit(p, largest) || p->N * p->C > largest / p->OH)
        return "a plane, or all rows, pass 2^28";
    register_tile_plan own(p);
    if (!own.cut((int)p->KH, sizeof(T)))
        return "a warp has not two rows of register tiles";
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

template <typename T>
static void run_register_tiles(talc_device *device, const depthwise_pass *p, const talc_plan *plan,
                               const talc_conv2d_arguments *a)
{
    const register_tile_plan &own = own_plan<register_tile_plan>(plan);
    if (p->KH == 3)
        launch_register_tiles<T, 3>(device, p, own, a);
    else if (p->KH == 5)
        launch_register_tiles<T, 5>(device, p, own, a);
    else
        launch_register_tiles<T, 7>(device, p, own, a);
}

} // namespace talc

#endif
