/// Batch normalisation of images.
///
///     y[n, c, h, w] = act( (x[n, c, h, w] - mu[c]) * rstd[c] * weight[c] + bias[c]
///                          + residual[n, c, h, w] ),      rstd = 1 / sqrt(var + eps)
///
/// x, residual and y are [N, C, H, W], the rest [C]. All are contiguous, but outside training x may
/// have gaps between its images. The kernels are bound by memory bandwidth. The input gradient is
/// in batch_norm2d_gradient.cu.
///
///   parts     Outside training there is one kernel. A block loads a tile of some thousand
///             consecutive values. Meanwhile it computes, in f64, scale and shift of the planes
///             that the tile meets. Then it does the last step (ops/norm.h). Where x has gaps, no
///             tile crosses the end of an image.
///
///             In training a channel is first cut into parts of about 16384 values, or into some
///             thousand parts: several planes, or a piece of one. A block computes the mean of a
///             part and its sum of squared deviations, in f64 and relative to one of its values.
///             Chan's formula joins the parts of a channel. If there are few, every block of the
///             normalising kernel joins those that it needs. Else a kernel in between does, a warp
///             or a block for each channel, in a tree of fixed shape. The normalising kernel starts
///             at the end of x, which is still in the L2 cache, and updates the running statistics
///             last.
///   channels  A block has a channel, which it reads twice in training. It is for channels of few
///             values, and works without a workspace.
///
/// Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979.
#include "backends/cuda/primitives/activation.cuh"
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/norm/moments.cuh"
#include "ops/norm.h"

using namespace talc;

namespace /* other files have types of the same names */
{

/* Of the normalising kernel: bytes of values that a thread has in flight, and the maximum of planes
 * that a tile meets. Joining up to FEW_PARTS parts of a channel in each block takes less time than
 * a launch for it. */
constexpr int BYTES_IN_FLIGHT = 64, MAX_PLANES = 256, FEW_PARTS = 8;

/* y = (x - mean) * scale + shift. `wide` asks for this step in f64 (ops/norm.h), which f64 data
 * have anyway. */
template <typename T> struct affine {
    T mean, scale, shift;
    bool wide;
    double wide_scale;
};

// ---- Normalisation ------------------------------------------------------------------------------

/* The shift makes up for the rounding of the mean to the data's type. */
template <typename T>
static __device__ affine<T> affine_of(const norm_plan<T> &p, int64_t c, double mean, double var)
{
    const double scale = (p.weight == NULL ? 1 : (double)p.weight[c]) / sqrt(var + p.eps);
    const T rounded = (T)mean;
    const double lost = (double)rounded == mean ? 0 : ((double)rounded - mean) * scale;
    return { rounded, (T)scale, (T)((p.bias == NULL ? 0 : (double)p.bias[c]) + lost),
             !(talc_norm_has_digits(scale) && talc_norm_has_deviations((double)rounded)), scale };
}

template <typename T, bool TRAINING>
static __device__ affine<T> affine_of(const norm_plan<T> &p, int64_t c)
{
    if (TRAINING) {
        const moments m = moments_of_channel(p, c);
        return affine_of(p, c, m.mean, m.squares / m.count);
    }
    return affine_of(p, c, (double)p.running_mean[c], (double)p.running_var[c]);
}

template <typename T> static __device__ T normalised(T x, const affine<T> &by)
{
    return (x - by.mean) * by.scale + by.shift;
}

/* Writes y[at] by a step in f64. */
template <typename T>
static __device__ void write_wide(const norm_plan<T> &p, const affine<T> &by, T x, int64_t at)
{
    const T y = (T)(((double)x - (double)by.mean) * by.wide_scale + (double)by.shift);
    p.y[at] = talc_activate(p.activation, p.residual == NULL ? y : y + p.residual[at]);
}

template <typename T, bool RESIDUAL>
constexpr int MAX_VALUES = BYTES_IN_FLIGHT / (int)sizeof(T) / (RESIDUAL ? 2 : 1);

/* How y is cut into tiles. All of y is one row of values or, where x has gaps, each image is a row.
 * A row is cut into tiles of `length` values; its last tile may be shorter. */
struct tiling {
    int64_t row, gap;      /* values of a row, and of the gap behind each in x */
    int64_t of_row, count; /* tiles of a row, and of all rows */
    int length;
};

/* A thread has at most MAX_VALUES values of its block's tile, in loads of COUNT values. */
template <typename T, int COUNT, bool TRAINING, bool RESIDUAL>
static __global__ void __launch_bounds__(BLOCK)
    normalise(const norm_plan<T> p, const tiling tiles, divisor<uint32_t> plane)
{
    constexpr int ACCESSES = MAX_VALUES<T, RESIDUAL> / COUNT;
    __shared__ affine<T> of_plane[MAX_PLANES];
    const int length = tiles.length;
    for (int64_t i = blockIdx.x; i < tiles.count; i += gridDim.x) {
        const int64_t tile = TRAINING ? tiles.count - 1 - i : i;
        const int64_t row = TRAINING || tiles.of_row == tiles.count ? 0 : tile / tiles.of_row;
        const int64_t before = (tile - row * tiles.of_row) * length, after = tiles.row - before;
        const int64_t begin = row * tiles.row + before;
        const int count = (int)(after < length ? after : length);
        const T *x = p.x + begin + row * tiles.gap;
        vec<T, COUNT> values[ACCESSES], added[ACCESSES];
#pragma unroll
        for (int k = 0; k < ACCESSES; k++) {
            const int at = (k * BLOCK + (int)threadIdx.x) * COUNT;
            if (at < count)
                values[k] = *(const vec<T, COUNT> *)(x + at);
            if (RESIDUAL && at < count)
                added[k] = *(const vec<T, COUNT> *)(p.residual + begin + at);
        }
        const int64_t first = begin / p.plane, rest = p.plane - (begin - first * p.plane);
        const int left = (int)(rest < length ? rest : length);
        const int planes =
            count <= left ? 1 : 2 + (int)plane.quotient((uint32_t)(count - left - 1));
        __syncthreads(); /* the previous tile's of_plane is read */
        bool wide = false;
        if ((int)threadIdx.x < planes) {
            const affine<T> by = affine_of<T, TRAINING>(p, (first + (int64_t)threadIdx.x) % p.C);
            of_plane[threadIdx.x] = by;
            wide = by.wide;
        }
        if (__syncthreads_or(wide) && IS_NARROW<T>) { /* then the whole tile is normalised in f64 */
#pragma unroll 1
            for (int at = threadIdx.x; at < count; at += BLOCK) {
                const int index = at < left ? 0 : 1 + (int)plane.quotient((uint32_t)(at - left));
                write_wide(p, of_plane[index], x[at], begin + at);
            }
            continue;
        }
#pragma unroll
        for (int k = 0; k < ACCESSES; k++) {
            const int at = (k * BLOCK + (int)threadIdx.x) * COUNT;
            if (at >= count)
                continue;
            int index = at < left ? 0 : 1 + (int)plane.quotient((uint32_t)(at - left));
            int next = left + index * (int)plane.by;
            affine<T> by = of_plane[index];
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                if (COUNT > 1 && at + e >= next) {
                    by = of_plane[++index];
                    next += (int)plane.by;
                }
                values[k].of[e] = normalised(values[k].of[e], by);
                if (RESIDUAL)
                    values[k].of[e] += added[k].of[e];
            }
            activate_all(p.activation, values[k].of);
            *(vec<T, COUNT> *)(p.y + begin + at) = values[k];
        }
    }
    if constexpr (TRAINING) {
        TALC_GRID_LOOP(int64_t, c, p.C)
        keep_moments(p, c, moments_of_channel(p, c));
        count_batch(p);
    }
}

// ---- channels -----------------------------------------------------------------------------------

/* A block has a channel, in loads of COUNT values. In training registers are limited so that three
 * blocks fit a multiprocessor. */
template <typename T, int COUNT, bool TRAINING>
static __global__ void __launch_bounds__(BLOCK, TRAINING &&COUNT > 1 ? 3 : 0)
    channels(const norm_plan<T> p, int64_t x_gap, divisor<uint32_t> length)
{
    constexpr int IN_FLIGHT = COUNT > 1 ? 4 : 8;
    using vector = vec<T, COUNT>;
    __shared__ sums shared[BLOCK / WARP];
    __shared__ affine<T> of_channel;
    const uint32_t vectors = (uint32_t)p.N * length.by;
    for (int64_t c = blockIdx.x; c < p.C; c += gridDim.x) {
        const T *x = p.x + c * p.plane;
        const auto offset = [&](uint32_t i, int64_t gap = 0) {
            const uint32_t row = length.quotient(i);
            return (int64_t)row * (p.C * p.plane + gap) + (int64_t)(i - row * length.by) * COUNT;
        };
        moments m;
        if (TRAINING) {
            const T start =
                start_of(x[0], x[p.plane / 2], x[(p.N - 1) * p.C * p.plane + p.plane - 1]);
            sums sum;
            const auto load = [&](uint32_t i) { return *(const vector *)(x + offset(i)); };
            const auto add = [&](const vector &of, uint32_t) { sum.add(of, (double)start); };
            for_loads<IN_FLIGHT>((uint32_t)threadIdx.x, vectors, (uint32_t)BLOCK, load, add);
            sum = join_group(sum, BLOCK, shared);
            m = moments_of(sum, (double)start, (double)p.N * (double)p.plane);
        }
        __syncthreads(); /* the previous channel's of_channel is read */
        if (threadIdx.x == 0)
            of_channel = TRAINING
                             ? affine_of(p, c, m.mean, m.squares / m.count)
                             : affine_of(p, c, (double)p.running_mean[c], (double)p.running_var[c]);
        __syncthreads();
        const affine<T> by = of_channel;
        struct pair {
            vector x, added;
        };
        const auto load = [&](uint32_t i) {
            pair of = { *(const vector *)(x + offset(i, x_gap)), {} };
            if (p.residual != NULL)
                of.added = *(const vector *)(p.residual + c * p.plane + offset(i));
            return of;
        };
        const auto write = [&](pair &of, uint32_t i) {
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                of.x.of[e] = normalised(of.x.of[e], by);
                if (p.residual != NULL)
                    of.x.of[e] += of.added.of[e];
            }
            activate_all(p.activation, of.x.of);
            *(vector *)(p.y + c * p.plane + offset(i)) = of.x;
        };
        if (by.wide && IS_NARROW<T>)
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < vectors; i += BLOCK)
                for (int e = 0; e < COUNT; e++)
                    write_wide(p, by, x[offset(i, x_gap) + e], c * p.plane + offset(i) + e);
        else
            for_loads<IN_FLIGHT>((uint32_t)threadIdx.x, vectors, (uint32_t)BLOCK, load, write);
        if (TRAINING && threadIdx.x == 0)
            keep_moments(p, c, m);
    }
    if (TRAINING)
        count_batch(p);
}

// ---- Launches -----------------------------------------------------------------------------------

template <typename T>
static norm_plan<T> plan_of(const talc_batch_norm2d_problem *p,
                            const talc_batch_norm2d_arguments *a)
{
    norm_plan<T> plan = {};
    plan.N = p->N;
    plan.C = p->C;
    plan.plane = p->H * p->W;
    plan.count = p->N * p->C * plan.plane;
    plan.momentum = p->momentum;
    plan.eps = p->eps;
    plan.activation = p->activation;
    plan.moves = a != NULL && a->running_mean != NULL && p->momentum != 0;
    if (plan.plane > 0) {
        const int64_t values = values_of_part(p->N * plan.plane, FORWARD_PARTS);
        plan.images = talc_larger(values / plan.plane, 1);
        plan.length = talc_smaller(plan.plane, values);
        plan.parts_of_plane = talc_ceil_div(plan.plane, plan.length);
        plan.parts_of_channel = talc_ceil_div(p->N, plan.images) * plan.parts_of_plane;
    }
    if (has_odd_planes(plan)) {
        const plane_tiling planes = planes_of(plan);
        plan.images = planes.images;
        plan.parts_of_channel = planes.parts;
    }
    if (a == NULL)
        return plan;
    plan.x = (const T *)a->x;
    plan.weight = (const T *)a->weight;
    plan.bias = (const T *)a->bias;
    plan.residual = (const T *)a->residual;
    plan.running_mean = (T *)a->running_mean;
    plan.running_var = (T *)a->running_var;
    plan.y = (T *)a->y;
    plan.mean = a->mean;
    plan.rstd = a->rstd;
    plan.num_batches_tracked = a->num_batches_tracked;
    plan.channels = (moments *)a->base.workspace;
    plan.parts = plan.channels + p->C;
    return plan;
}

/* Whether `count` consecutive values, and a gap of x, are whole vectors, and all arrays are
 * aligned. */
template <typename T>
static bool is_packed(const norm_plan<T> &plan, int64_t count, int64_t gap = 0)
{
    constexpr int64_t COUNT = VECTOR_WIDTH<T>;
    return count % COUNT == 0 && gap % COUNT == 0 && is_aligned(plan.x) &&
           is_aligned(plan.residual) && is_aligned(plan.y);
}

template <typename T, bool TRAINING>
static void launch_normalise(talc_device *device, const norm_plan<T> &plan, int64_t gap)
{
    constexpr int COUNT = VECTOR_WIDTH<T>;
    const bool adds = plan.residual != NULL;
    const int max = BLOCK * (adds ? MAX_VALUES<T, true> : MAX_VALUES<T, false>);
    divisor<uint32_t> plane;
    plane.set(plan.plane < 1 << 30 ? plan.plane : 1 << 30);
    int length =
        max; /* a tile may begin with one plane's last value and end with another's first */
    if (plan.plane < max / (MAX_PLANES - 2))
        length = (int)plan.plane * (MAX_PLANES - 2) / COUNT * COUNT;
    const int64_t row = gap == 0 ? plan.count : plan.C * plan.plane;
    const int64_t of_row = talc_ceil_div(row, length);
    const tiling tiles = { row, gap, of_row, plan.count / row * of_row, length };
    const auto packed =
        adds ? normalise<T, COUNT, TRAINING, true> : normalise<T, COUNT, TRAINING, false>;
    const auto single = adds ? normalise<T, 1, TRAINING, true> : normalise<T, 1, TRAINING, false>;
    const auto kernel = is_packed(plan, row, gap) ? packed : single;
    kernel<<<grid_for_blocks(device, tiles.count), BLOCK, 0, talc_cuda_stream(device)>>>(
        plan, tiles, plane);
}

template <typename T>
static void launch_parts(talc_device *device, const talc_batch_norm2d_problem *p,
                         const talc_batch_norm2d_arguments *a)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    norm_plan<T> plan = plan_of<T>(p, a);
    if (p->training) {
        const unsigned blocks = grid_for_blocks(device, plan.C * plan.parts_of_channel);
        if (has_odd_planes(plan))
            launch_planes(device, plane_moments<T>{ plan }, plan.x, planes_of(plan));
        else if (is_packed(plan, plan.plane))
            part_moments<T, VECTOR_WIDTH<T>><<<blocks, BLOCK, 0, stream>>>(plan);
        else
            part_moments_of_rows<T><<<blocks, BLOCK, 0, stream>>>(plan, threads_per_row(plan));
        const int threads = plan.parts_of_channel > 4 * WARP ? BLOCK : WARP;
        if (plan.parts_of_channel <= FEW_PARTS)
            plan.channels = NULL;
        else
            join_channels<T><<<grid_for_blocks(device, talc_ceil_div(plan.C, BLOCK / threads)),
                               BLOCK, 0, stream>>>(plan, threads);
    }
    if (p->training)
        launch_normalise<T, true>(device, plan, 0);
    else
        launch_normalise<T, false>(device, plan, a->x_gap);
}

template <typename T, int COUNT>
static void launch_channels(talc_device *device, const talc_batch_norm2d_problem *p,
                            const norm_plan<T> &plan, int64_t gap)
{
    divisor<uint32_t> length;
    length.set(plan.plane / COUNT);
    const auto kernel = p->training ? channels<T, COUNT, true> : channels<T, COUNT, false>;
    kernel<<<grid_for_blocks(device, plan.C), BLOCK, 0, talc_cuda_stream(device)>>>(
        plan, p->training ? 0 : gap, length);
}

template <typename T>
static void launch_channels(talc_device *device, const talc_batch_norm2d_problem *p,
                            const talc_batch_norm2d_arguments *a)
{
    constexpr int COUNT = VECTOR_WIDTH<T>;
    const norm_plan<T> plan = plan_of<T>(p, a);
    if (is_packed(plan, plan.plane, a->x_gap))
        launch_channels<T, COUNT>(device, p, plan, a->x_gap);
    else
        launch_channels<T, 1>(device, p, plan, a->x_gap);
}

} // namespace

// ---- The algorithms -----------------------------------------------------------------------------

static const char *refuses(const talc_batch_norm2d_problem *p)
{
    return p->direction == TALC_GRAD_WEIGHT ? "the input gradient has that of the weight too"
                                            : NULL;
}

static const char *plan_channels(const talc_device *, const talc_batch_norm2d_problem *p, size_t,
                                 talc_plan *)
{
    if (refuses(p) != NULL)
        return refuses(p);
    return (double)p->N * (double)(p->H * p->W) > INT_MAX ? "more than 2^31 - 1 values per channel"
                                                          : NULL;
}

static const char *plan_parts(const talc_device *, const talc_batch_norm2d_problem *p, size_t,
                              talc_plan *plan)
{
    const bool backwards = p->direction == TALC_GRAD_INPUT;
    if ((p->training || backwards) && p->N * p->H * p->W <= PART_VALUES)
        return backwards ? "the gradient of at most 16384 values per channel"
                         : "training on at most 16384 values per channel";
    const char *refusal = with_float(p->dtype, [&](auto element) -> const char * {
        const int64_t parts = plan_of<typename decltype(element)::type>(p, NULL).parts_of_channel;
        if (backwards)
            plan->workspace = talc_cuda_norm_gradient_workspace(p);
        else if (p->training)
            plan->workspace = (size_t)p->C * (size_t)(parts + 1) * sizeof(moments);
        return NULL;
    });
    return refusal != NULL ? refusal : refuses(p);
}

template <bool PARTS>
static talc_status run(talc_device *device, const talc_batch_norm2d_problem *p, const talc_plan *,
                       const talc_batch_norm2d_arguments *arguments)
{
    if (p->direction != TALC_FORWARD)
        return talc_cuda_norm_gradient(device, p, arguments, PARTS);
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        if constexpr (PARTS)
            launch_parts<T>(device, p, arguments);
        else
            launch_channels<T>(device, p, arguments);
        return talc_cuda_launched(device, "batch_norm2d");
    });
}

const talc_algorithm talc_cuda_batch_norm2d[] = {
    talc_cuda_algorithm<plan_parts, run<true>>(
        "parts", { "f64 statistics, then the data's own type", TALC_STRICT, false }),
    talc_cuda_algorithm<plan_channels, run<false>>(
        "channels", { "f64 statistics, then the data's own type", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
