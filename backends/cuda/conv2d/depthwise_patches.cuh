/// Depthwise convolution of images whose width is a multiple of 7, as those of most networks are, by patches of outputs
/// (depthwise.cu). Private to backends/cuda.
///
/// Kernels of K by K, stride 1, padding on both sides that keeps the width, every output channel with an input channel of its own. A
/// thread has the sums of a patch of SIDE by SIDE outputs in registers, and the weights of its channel. It goes down the rows of x
/// that the patch needs, reads its columns of each once and adds them to all the sums that they belong to: for K = 5, 121 reads
/// feed 1,225 FMAs.
///
///     x in shared memory                   sums
///     . . . . . . . . . . .  row i         + + + + + + +  row d,  to which row i is tap kh = i - d
///     . . . . . . . . . . .                + + + + + + +
///     SIDE + K - 1 columns                 SIDE columns
///
/// A block is a warp, so that warps wait for nobody but memory. Its unit of work is some whole planes, or a band of one that has more
/// patches than a warp lanes. It does the same part of one image after the other and loads its weights once; while it computes one
/// unit the next one is on its way. x goes into shared memory as it lies, in pieces of 16 bytes, and y leaves it so, from the same
/// place: it takes 7 columns for patches in all rows and planes to begin in different banks.
///
/// With K = 7 the 2,401 FMAs of a patch are more instructions than their cache feeds in time to warps that are in different places
/// (ncu: no instruction, 27 % of a warp's time); loops short enough would need the sums to change registers.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_PATCHES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_PATCHES_CUH

#include "backends/cuda/conv2d/epilogue.cuh"
#include "backends/cuda/conv2d/sizes.cuh"
#include "backends/cuda/runs.cuh"

namespace talc
{

/// Outputs along an edge of a patch. Lower ones, of 4 or 5 rows, are slower on most sizes of planes.
constexpr int SIDE = 7;

// ---- Plan ---------------------------------------------------------------------------------------------------

/// How planes are cut into units.
struct patch_plan : plane_sizes {
    int channels, all_planes;
    int across, down;  ///< patches of each plane of a unit
    int planes, bands; ///< planes of a unit, units of a plane: one of the two is 1
    int turn;          ///< planes of a turn: an image, or some where a unit has more planes
    int parts, turns;  ///< units of a turn, and turns
    int room;          ///< elements of a unit in shared memory; two units have room

    explicit patch_plan(const talc_conv2d_problem *p)
        : plane_sizes(p), channels((int)p->C), all_planes((int)(p->N * p->C))
    {
    }

    /// False where a warp has not two rows of patches: bands of one would read too much of x twice.
    bool cut(int K, int64_t size)
    {
        const int V = (int)(LINE / size);
        across = OW / SIDE, down = (int)pieces(OH, SIDE), planes = bands = 1;
        int x_rows = H, y_rows = OH;
        if (2 * across > WARP)
            return false;
        if (across * down > WARP) {
            bands = (int)pieces(down, WARP / across);
            down = (int)pieces(down, bands); /* as high as each other */
            x_rows = down * SIDE + K - 1, y_rows = down * SIDE;
        } else {
            planes = WARP / (across * down);
            planes = planes >= channels ? planes / channels * channels
                                        : (int)pieces(channels, pieces(channels, planes));
        }
        turn = planes > channels ? planes : channels;
        parts = (int)pieces(turn, planes) * bands;
        turns = (int)pieces(all_planes, turn);
        const int in = x_rows * W, out = y_rows * OW, most = in > out ? in : out;
        room = (int)pieces(planes * (most > K * K ? most : K * K) + V, V) * V;
        return true;
    }
};

/// What a block does in each turn: `rows` rows of y from `oh` on, of planes from `plane` on, and the `height` rows of x from `top`
/// on that they need.
struct patch_part {
    int plane, oh, rows, top, height;

    __device__ patch_part(const patch_plan &p, int part, int K)
    {
        plane = part / p.bands * p.planes;
        oh = part % p.bands * p.down * SIDE;
        rows = min(p.down * SIDE, p.OH - oh);
        top = p.bands == 1 ? 0 : min(max(oh - p.pad_top, 0), p.H);
        height = p.bands == 1 ? p.H : max(min(oh + rows - 1 - p.pad_top + K, p.H) - top, 0);
    }

    /* The first plane in turn t, and how many there are. */
    __device__ int first(const patch_plan &p, int t) const
    {
        return t * p.turn + plane;
    }
    __device__ int count(const patch_plan &p, int t) const
    {
        return min(p.planes, min((t + 1) * p.turn, p.all_planes) - first(p, t));
    }
};

// ---- Kernel -------------------------------------------------------------------------------------------------

template <typename T> struct depthwise_patch_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    patch_plan plan;
};

/* Begins to copy the rows of x of turn t, if there is one. */
template <typename T>
static __device__ __forceinline__ void copy_patches(const depthwise_patch_problem<T> &p,
                                                    const patch_part &part, int t, T *shared)
{
    const T *from = p.x + ((int64_t)part.first(p.plan, t) * p.plan.H + part.top) * p.plan.W;
    if (t < p.plan.turns)
        copy_run<WARP>(shared + place_of(from), from,
                       part.count(p.plan, t) * part.height * p.plan.W);
    else
        __pipeline_commit(); /* an empty one, as each turn awaits the last but one */
}

/* Blocks of a multiprocessor: as many as the registers that weights and sums take leave room for. */
template <typename T, int K> constexpr int patch_residents()
{
    return sizeof(T) == 8 ? 8 : K == 7 ? 12 : 16;
}

template <typename T, int K>
static __global__ void __launch_bounds__(WARP, patch_residents<T, K>())
    depthwise_patches(const depthwise_patch_problem<T> p)
{
    constexpr int PAD = (K - 1) / 2, COLUMNS = SIDE + K - 1;
    extern __shared__ __align__(LINE) unsigned char patch_bytes[];
    const patch_plan &plan = p.plan;
    const patch_part part(plan, blockIdx.x % plan.parts, K);
    const int step = gridDim.x / plan.parts;
    int t = blockIdx.x / plan.parts;
    T *shared = (T *)patch_bytes, *next = shared + plan.room;
    copy_patches(p, part, t, shared);

    /* This lane's patch. */
    const int plane = (int)threadIdx.x / (plan.across * plan.down);
    const int rest = (int)threadIdx.x - plane * plan.across * plan.down, row = rest / plan.across;
    const int ow = (rest - row * plan.across) * SIDE, oh = row * SIDE;
    const int top = part.oh + oh - plan.pad_top - part.top;
    const bool left = ow > 0, right = ow + SIDE < plan.W; /* there is something beside it */

    const int channels = min(plan.planes, plan.channels - part.plane), channel = plane % channels;
    const T *weights = p.w + (int64_t)part.plane * (K * K);
    copy_run<WARP>(next + place_of(weights), weights, channels * (K * K));
    await_run();
    T w[K * K];
#pragma unroll
    for (int tap = 0; tap < K * K; tap++)
        w[tap] = next[place_of(weights) + channel * (K * K) + tap];
    const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[part.plane + channel];
    __syncthreads();

    for (; t < plan.turns; t += step) {
        copy_patches(p, part, t + step, next);
        __pipeline_wait_prior(1);
        __syncthreads();
        const int64_t first = part.first(plan, t);
        const bool busy = plane < part.count(plan, t) && oh < part.rows;
        accumulator_of<T> sums[SIDE][SIDE] = {};
        if (busy) {
            const T *from = shared + place_of(p.x + (first * plan.H + part.top) * plan.W) +
                            (plane * plan.H + top) * plan.W + ow - PAD;
#pragma unroll
            for (int i = 0; i < COLUMNS; i++) {
                if ((unsigned)(top + i) < (unsigned)part.height) {
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
        __syncthreads(); /* x is read, its place free for y */
        const int64_t at = (first * plan.OH + part.oh) * plan.OW;
        T *results = shared + place_of(p.y + at);
        if (busy) {
            T *to = results + (plane * part.rows + oh) * plan.OW + ow;
#pragma unroll
            for (int d = 0; d < SIDE; d++, to += plan.OW)
                if (oh + d < part.rows)
#pragma unroll
                    for (int r = 0; r < SIDE; r++)
                        to[r] = sums[d][r] + bias;
        }
        __syncthreads();
        const int count = part.count(plan, t) * part.rows * plan.OW;
        if (p.last.residual != nullptr || p.last.activation != TALC_ACTIVATION_NONE) {
#pragma unroll 1
            for (int i = (int)threadIdx.x; i < count; i += WARP) {
                const T sum =
                    results[i] + (p.last.residual == nullptr ? (T)0 : p.last.residual[at + i]);
                results[i] = talc_activate(p.last.activation, sum);
            }
            __syncthreads();
        }
        store_run<WARP>(p.y + at, results, count, [](T sum, int) { return sum; });
        __syncthreads(); /* and free for the turn after the next */
        T *const stored = shared;
        shared = next, next = stored;
    }
}

// ---- Launch -------------------------------------------------------------------------------------------------

/* Turns of a block. Few units are best done in one round: all blocks begin once. Where there are many, blocks that end at different
 * times keep memory busier, and with 9 taps there are next to no weights to load again. */
static int64_t turns_of_block(int K, int64_t units, int64_t slots)
{
    if (units <= 6 * slots)
        return pieces(units, slots);
    return K == 3 ? 1 : pieces(units, 12 * slots);
}

template <typename T, int K>
static bool launch_patches(talc_device *device, const talc_conv2d_problem *p,
                           const talc_conv2d_arguments *a)
{
    depthwise_patch_problem<T> d = { (const T *)a->x, (const T *)a->w, (T *)a->y,
                                     epilogue<T>(a->bias, a->residual, p->activation),
                                     patch_plan(p) };
    if (!d.plan.cut(K, sizeof(T)))
        return false;
    const int64_t slots =
        (int64_t)talc_cuda_state_of(device)->multiprocessors * patch_residents<T, K>();
    const int64_t each = turns_of_block(K, (int64_t)d.plan.parts * d.plan.turns, slots);
    depthwise_patches<T, K><<<(unsigned)(d.plan.parts * pieces(d.plan.turns, each)), WARP,
                              2 * d.plan.room * sizeof(T), talc_cuda_stream(device)>>>(d);
    return true;
}

/// False when the problem is not of this kind.
template <typename T>
static bool run_patches(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *a)
{
    const int64_t most = INT_MAX / 8, pad = (p->KW - 1) / 2;
    if (p->OC != p->C || p->KH != p->KW || p->stride_h != 1 || p->stride_w != 1 ||
        p->dilation_h != 1 || p->dilation_w != 1 || p->W % SIDE != 0 || p->pad_left != pad ||
        p->pad_right != pad || !planes_fit(p, most) || p->N * p->C > most / p->OH)
        return false;
    switch (p->KH) {
    case 3:
        return launch_patches<T, 3>(device, p, a);
    case 5:
        return launch_patches<T, 5>(device, p, a);
    case 7:
        return launch_patches<T, 7>(device, p, a);
    default:
        return false;
    }
}

} // namespace talc

#endif
