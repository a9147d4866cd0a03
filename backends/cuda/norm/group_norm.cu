/// Group, instance and layer normalisation.
///
///     y[n, c, p] = act( (x[n, c, p] - mu[n, g]) * rstd[n, g] * weight[c] + bias[c] ),
///     rstd = 1 / sqrt(var + eps)
///
/// and its gradient, with x^ = (x - mu) rstd and g = dy weight:
///
///     dbias[c] = sum dy,  dweight[c] = sum dy x^,  dx = rstd (g - (sum g + x^ sum g x^) / M)
///
/// The sums of dx are over a row and M is its number of values. A row is a group of a sample.
///
/// x, y and dx are [N, C, plane], weight and bias [C], mean and rstd [N * groups]. All are
/// contiguous, and so is each row. The kernels are bound by memory bandwidth.
///
///   rows  The forward pass reads a row of up to 64 KB once: 1 to 512 threads hold it in registers,
///         reduce it and write the result. A longer row is cut into parts of 16384 values. The
///         kernels of moments.cuh join the moments of these parts; to them the rows are the
///         channels of one image. Then a block normalises each part, from the last one, which is
///         still in the L2 cache.
///
///         The input gradient reads x and dy twice, the second time from a cache. 1 to 256 threads
///         do a row of up to 16384 values; longer rows are cut into parts, in two launches.
///
///         For dweight and dbias, a block adds up some channels of some samples. Then a warp adds
///         up what the blocks found for a channel.
///
/// All sums are in f64 and in a fixed order. ops/norm.h defines the last step.
///
/// Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979.
#include "backends/cuda/primitives/activation.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/norm/moments.cuh"
#include "backends/cuda/primitives/algorithm.cuh"
#include "ops/group_norm.h"
#include "ops/norm.h"

using namespace talc;

namespace /* other files have types of the same names */
{

/* The maximum of threads that share a row, and the bytes of it that a thread holds in registers:
 * MAX_BYTES only where the row needs as many. */
constexpr int MAX_THREADS = 512, FEW_BYTES = 32, MAX_BYTES = 128;

template <typename T> constexpr int64_t MAX_HELD = MAX_THREADS *MAX_BYTES / (int64_t)sizeof(T);

/* `norm` describes the rows to moments.cuh as the channels of one image. */
template <typename T> struct rows_plan {
    norm_plan<T> norm;
    int64_t groups, channels_of_group;
    uint32_t near_plane;     /* the plane, or 2^30 where it is longer */
    divisor<uint32_t> plane; /* divides by near_plane */
    int64_t whole_plane;
    const T *dy;
    T *dx;
    gradient_sums *sums; /* [rows][parts_of_channel] */
};

/* Tells the channels of the values of a row from value `first` on. */
template <typename T> struct channels_at {
    int64_t c;
    uint32_t left; /* values of the first channel that are left; at most near_plane */

    __device__ channels_at(const rows_plan<T> &p, int64_t row, int64_t first)
    {
        const int64_t before = first / p.whole_plane,
                      rest = p.whole_plane - (first - before * p.whole_plane);
        c = row % p.groups * p.channels_of_group + before;
        left = (uint32_t)(rest < p.near_plane ? rest : p.near_plane);
    }
    /* The channel of value first + i. */
    __device__ int64_t channel_of(const rows_plan<T> &p, uint32_t i) const
    {
        return i < left ? c : c + 1 + p.plane.quotient(i - left);
    }
};

/* Calls visit(e, c) for each element e of the vector at first + i, with its channel c. */
template <int COUNT, typename T, typename Visit>
static __device__ void for_vector(const rows_plan<T> &p, const channels_at<T> &at, uint32_t i,
                                  Visit visit)
{
    int64_t c = at.channel_of(p, i);
    /* Vectors begin at multiples of COUNT, so then each is of a single channel. */
    const bool one_channel = p.whole_plane % COUNT == 0;
#pragma unroll
    for (int e = 0; e < COUNT; e++) {
        if (e > 0 && !one_channel)
            c = at.channel_of(p, i + e);
        visit(e, c);
    }
}

// ---- Forward ------------------------------------------------------------------------------------

template <typename T> static __device__ double rstd_of(const rows_plan<T> &p, const moments &m)
{
    return 1 / sqrt(m.squares / m.count + p.norm.eps);
}

/* Normalises values of a row. `lost` makes up for the rounding of the mean to the data's type. */
template <typename T> struct row_affine {
    T mean, rstd, lost;

    __device__ row_affine(const rows_plan<T> &p, const moments &m)
    {
        const double exact = rstd_of(p, m);
        mean = (T)m.mean;
        rstd = (T)exact;
        lost = (double)mean == m.mean ? 0 : (T)(((double)mean - m.mean) * exact);
    }
    __device__ T normalised(const rows_plan<T> &p, T x, int64_t c) const
    {
        T y = (x - mean) * rstd + lost;
        if (p.norm.weight != NULL)
            y *= p.norm.weight[c];
        if (p.norm.bias != NULL)
            y += p.norm.bias[c];
        return y;
    }
};

/* Whether a row has to be normalised in f64 (ops/norm.h). f64 data are as they are. */
template <typename T> static __device__ bool is_wide(const rows_plan<T> &p, const moments &m)
{
    return IS_NARROW<T> &&
           !(talc_norm_has_digits(rstd_of(p, m)) && talc_norm_has_deviations(m.mean));
}

/* Normalises values first .. end - 1 of a row in f64. */
template <typename T>
static __device__ void normalise_wide(const rows_plan<T> &p, const moments &m, int64_t row,
                                      int64_t first, int64_t end, int thread, int threads)
{
    const double rstd = rstd_of(p, m);
    const channels_at<T> at(p, row, first);
    const T *x = p.norm.x + row * p.norm.plane;
    T *to = p.norm.y + row * p.norm.plane;
#pragma unroll 1
    for (int64_t i = first + thread; i < end; i += threads) {
        const int64_t c = at.channel_of(p, (uint32_t)(i - first));
        const double weight = p.norm.weight == NULL ? 1 : (double)p.norm.weight[c];
        const double bias = p.norm.bias == NULL ? 0 : (double)p.norm.bias[c];
        to[i] =
            talc_activate(p.norm.activation, (T)(((double)x[i] - m.mean) * rstd * weight + bias));
    }
}

/* Normalises rows that fit in registers. `threads` neighbouring threads share a row, and each holds
 * at most HELD vectors of it. */
template <typename T, int COUNT, int HELD>
static __global__ void __launch_bounds__(MAX_THREADS) held_rows(const rows_plan<T> p, int threads)
{
    __shared__ sums shared[MAX_THREADS / WARP];
    const int group = threadIdx.x / threads, thread = threadIdx.x % threads;
    const int groups = blockDim.x / threads, vectors = (int)p.norm.plane / COUNT;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < p.norm.C;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < p.norm.C;
        const int64_t row = real ? first + group : first;
        const T *x = p.norm.x + row * p.norm.plane;
        vec<T, COUNT> values[HELD];
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (thread + k * threads < vectors)
                values[k] = *(const vec<T, COUNT> *)(x + (thread + k * threads) * COUNT);
        const T start = start_of(x[0], x[p.norm.plane / 2], x[p.norm.plane - 1]);
        sums sum;
#pragma unroll
        for (int k = 0; k < HELD; k++)
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                if (thread + k * threads < vectors)
                    sum.add((double)values[k].of[e] - (double)start);
        sum = share_group(sum, threads, shared);
        if (!real)
            continue;
        const moments m = moments_of(sum, (double)start, (double)p.norm.plane);
        if (thread == 0)
            keep_moments(p.norm, row, m);
        if (is_wide(p, m)) {
            normalise_wide(p, m, row, 0, p.norm.plane, thread, threads);
            continue;
        }
        const row_affine<T> by(p, m);
        const channels_at<T> at(p, row, 0);
        T *y = p.norm.y + row * p.norm.plane;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            const int i = (thread + k * threads) * COUNT;
            if (thread + k * threads >= vectors)
                continue;
            for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                values[k].of[e] = by.normalised(p, values[k].of[e], c);
            });
            activate_all(p.norm.activation, values[k].of);
            *(vec<T, COUNT> *)(y + i) = values[k];
        }
    }
}

/* Normalises rows whose moments are known. A block takes a part at a time, from the last one to the
 * first. */
template <typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK) normalise_parts(const rows_plan<T> p)
{
    using vector = vec<T, COUNT>;
    const int64_t parts = p.norm.C * p.norm.parts_of_channel;
    for (int64_t number = blockIdx.x; number < parts; number += gridDim.x) {
        const int64_t part = parts - 1 - number, row = part / p.norm.parts_of_channel;
        const int64_t first = (part - row * p.norm.parts_of_channel) * p.norm.length;
        const int length = (int)min(p.norm.length, p.norm.plane - first);
        const moments m = p.norm.channels[row];
        if (first == 0 && threadIdx.x == 0)
            keep_moments(p.norm, row, m);
        if (is_wide(p, m)) {
            normalise_wide(p, m, row, first, first + length, threadIdx.x, BLOCK);
            continue;
        }
        const row_affine<T> by(p, m);
        const channels_at<T> at(p, row, first);
        const T *x = p.norm.x + row * p.norm.plane + first;
        T *y = p.norm.y + row * p.norm.plane + first;
        const auto load = [&](int i) { return *(const vector *)(x + i); };
        const auto write = [&](vector &values, int i) {
            for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                values.of[e] = by.normalised(p, values.of[e], c);
            });
            activate_all(p.norm.activation, values.of);
            *(vector *)(y + i) = values;
        };
        for_loads<COUNT == 1 ? 8 : 4>((int)threadIdx.x * COUNT, length, BLOCK * COUNT, load, write);
    }
}

// ---- Input gradient -----------------------------------------------------------------------------

/* `threads` neighbouring threads share a part. They are the whole block, unless a row is a single
 * part. */
template <typename T, int COUNT, gradient_pass PASS>
static __global__ void __launch_bounds__(BLOCK) gradient_of_rows(const rows_plan<T> p, int threads)
{
    constexpr int IN_FLIGHT = COUNT > 1 ? 2 : 4;
    __shared__ gradient_sums shared[BLOCK / WARP];
    const int group = threadIdx.x / threads, thread = threadIdx.x % threads;
    const int groups = BLOCK / threads;
    const int64_t parts = p.norm.C * p.norm.parts_of_channel;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < parts;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < parts;
        const int64_t number = real ? first + group : first;
        const int64_t part = PASS == SECOND ? parts - 1 - number : number;
        const int64_t row = part / p.norm.parts_of_channel;
        const int64_t begin = (part - row * p.norm.parts_of_channel) * p.norm.length;
        const int64_t offset = row * p.norm.plane + begin;
        const int64_t length = min(p.norm.length, p.norm.plane - begin);
        const channels_at<T> at(p, row, begin);
        /* Calls visit(i, x, dy) for each of the thread's vectors, the one at value i of the
         * part. */
        const auto for_part = [&](auto visit) {
            for (int64_t i = thread * COUNT; i < length; i += threads * COUNT * IN_FLIGHT) {
                vec<T, COUNT> x[IN_FLIGHT], dy[IN_FLIGHT];
#pragma unroll
                for (int k = 0; k < IN_FLIGHT; k++)
                    if (i + k * threads * COUNT < length) {
                        const int64_t from = offset + i + k * threads * COUNT;
                        x[k] = *(const vec<T, COUNT> *)(p.norm.x + from);
                        dy[k] = *(const vec<T, COUNT> *)(p.dy + from);
                    }
#pragma unroll
                for (int k = 0; k < IN_FLIGHT; k++)
                    if (i + k * threads * COUNT < length)
                        visit(i + k * threads * COUNT, x[k], dy[k]);
            }
        };
        gradient_sums sum;
        if (PASS == SECOND)
            for (int64_t k = threadIdx.x; k < p.norm.parts_of_channel; k += BLOCK)
                sum.join(p.sums[row * p.norm.parts_of_channel + k]);
        else
            for_part([&, mean = p.norm.mean[row]](int64_t i, const vec<T, COUNT> &x,
                                                  const vec<T, COUNT> &dy) {
                for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                    const double weight = p.norm.weight == NULL ? 1 : (double)p.norm.weight[c];
                    const double g = (double)dy.of[e] * weight;
                    sum.g += g;
                    sum.product += g * ((double)x.of[e] - mean);
                });
            });
        sum = share_group(sum, threads, shared);
        if (!real)
            continue;
        if (PASS == FIRST) {
            if (thread == 0)
                p.sums[part] = sum;
            continue;
        }
        const double rstd = p.norm.rstd[row];
        const double mean = p.norm.mean[row];
        const talc_norm_gradient factors = talc_norm_gradient_of(
            mean, (double)(T)mean, rstd, rstd, sum.g, sum.product, (double)p.norm.plane);
        const auto write = [&](auto dx_of) {
            for_part([&](int64_t i, const vec<T, COUNT> &x, const vec<T, COUNT> &dy) {
                vec<T, COUNT> dx;
                for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                    const T weight = p.norm.weight == NULL ? 1 : p.norm.weight[c];
                    dx.of[e] = dx_of(x.of[e], dy.of[e], weight);
                });
                *(vec<T, COUNT> *)(p.dx + offset + i) = dx;
            });
        };
        if (factors.wide || (p.norm.weight != NULL && !talc_norm_takes_weights(rstd)))
            write([f = factors](T x, T dy, T weight) {
                return (T)((double)dy * (double)weight * f.by_g +
                           (((double)x - f.mean) * f.rstd * f.slope + f.shift));
            });
        else
            write([by_g = (T)rstd, mean = (T)factors.mean, by_x = (T)(factors.rstd * factors.slope),
                   shift = (T)factors.shift](T x, T dy, T weight) {
                return dy * weight * by_g + ((x - mean) * by_x + shift);
            });
    }
}

// ---- Gradients of weight and bias ---------------------------------------------------------------

/* How dweight and dbias are divided among blocks. A tile is `width` channels of `samples` samples,
 * and `length` positions of each of these planes. Of a block's threads, `along` neighbours share a
 * plane, and width such groups have a channel each; what is left divides the samples. */
struct affine_tiling {
    int along, width;
    int64_t samples, length;
    int64_t tiles, of_samples, of_plane; /* tiles along the channels, the samples and a plane */

    affine_tiling(const talc_group_norm_problem *p)
    {
        constexpr int64_t VALUES = 8192;
        along = 1;
        while (along < BLOCK && along < p->plane)
            along *= 2;
        width = along < WARP ? WARP / along : 1;
        length = talc_smaller(p->plane, VALUES);
        samples = talc_larger(1, VALUES / talc_larger(1, width * length));
        while (parts(p) > GRADIENT_PARTS)
            (samples < p->N ? samples : length) *= 2;
        tiles = talc_ceil_div(p->C, width);
    }
    int64_t parts(const talc_group_norm_problem *p)
    {
        of_samples = talc_ceil_div(p->N, samples);
        of_plane = length == 0 ? 0 : talc_ceil_div(p->plane, length);
        return of_samples * of_plane;
    }
};

/* Writes the sums of each channel of each tile to sums[C][parts]. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    affine_sums(const rows_plan<T> p, const affine_tiling tiling, int64_t N, int64_t C)
{
    __shared__ gradient_sums shared[BLOCK];
    const int along = tiling.along, width = tiling.width, by_sample = BLOCK / (along * width);
    const int position = threadIdx.x % along, channel = threadIdx.x / along % width;
    const int sample = threadIdx.x / (along * width);
    const int of_channel = BLOCK / width, partial_index = sample * along + position;
    gradient_sums *own = shared + channel * of_channel + partial_index;
    const int64_t parts = tiling.of_samples * tiling.of_plane;
    for (int64_t number = blockIdx.x; number < tiling.tiles * parts; number += gridDim.x) {
        const int64_t part = number / tiling.tiles;
        const int64_t c = (number - part * tiling.tiles) * width + channel;
        const int64_t begin = part % tiling.of_plane * tiling.length;
        const int64_t end = min(p.whole_plane, begin + tiling.length);
        const int64_t first = part / tiling.of_plane * tiling.samples;
        const int64_t last = min(N, first + tiling.samples);
        gradient_sums sum;
        for (int64_t n = first + sample; n < last && c < C; n += by_sample) {
            const int64_t row = n * p.groups + c / p.channels_of_group;
            const int64_t plane = (n * C + c) * p.whole_plane;
            const double mean = p.norm.mean[row];
            double product = 0;
#pragma unroll 4
            for (int64_t i = begin + position; i < end; i += along) {
                const double dy = (double)p.dy[plane + i];
                sum.g += dy;
                product += dy * ((double)p.norm.x[plane + i] - mean);
            }
            sum.product += product * p.norm.rstd[row];
        }
        __syncthreads(); /* the sums of the previous tile are read */
        *own = sum;
        for (int half = of_channel / 2; half > 0; half /= 2) {
            __syncthreads();
            if (partial_index < half)
                own->join(own[half]);
        }
        if (partial_index == 0 && c < C)
            p.sums[c * parts + part] = *own;
    }
}

/* Adds up the parts of each channel, a warp for each. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    join_affine(const gradient_sums *sums, int64_t parts, int64_t C, T *dweight, T *dbias)
{
    constexpr int GROUPS = BLOCK / WARP;
    const int group = threadIdx.x / WARP, thread = threadIdx.x % WARP;
    for (int64_t c = (int64_t)blockIdx.x * GROUPS + group; c < C;
         c += (int64_t)gridDim.x * GROUPS) {
        gradient_sums sum;
        for (int64_t part = thread; part < parts; part += WARP)
            sum.join(sums[c * parts + part]);
        sum = join_group(sum, WARP, (gradient_sums *)NULL);
        if (thread != 0)
            continue;
        dweight[c] = (T)sum.product;
        dbias[c] = (T)sum.g;
    }
}

// ---- Launches -----------------------------------------------------------------------------------

template <typename T>
static rows_plan<T> plan_of(const talc_group_norm_problem *p, const talc_group_norm_arguments *a)
{
    rows_plan<T> plan = {};
    norm_plan<T> &norm = plan.norm;
    plan.groups = p->groups;
    plan.channels_of_group = p->groups == 0 ? 0 : p->C / p->groups;
    plan.whole_plane = p->plane;
    plan.near_plane = (uint32_t)talc_smaller(talc_larger(p->plane, 1), (int64_t)1 << 30);
    plan.plane.set(plan.near_plane);
    norm.N = 1;
    norm.C = p->N * p->groups;
    norm.plane = plan.channels_of_group * p->plane;
    norm.eps = p->eps;
    norm.activation = p->activation;
    norm.images = 1;
    norm.length =
        values_of_part(norm.plane, p->direction == TALC_FORWARD ? FORWARD_PARTS : GRADIENT_PARTS);
    norm.parts_of_plane = norm.parts_of_channel = talc_ceil_div(norm.plane, norm.length);
    if (a == NULL)
        return plan;
    norm.x = (const T *)a->x;
    norm.weight = (const T *)a->weight;
    norm.bias = (const T *)a->bias;
    norm.y = (T *)a->y;
    norm.mean = a->mean;
    norm.rstd = a->rstd;
    norm.channels = (moments *)a->base.workspace;
    norm.parts = norm.channels + norm.C;
    plan.dy = (const T *)a->dy;
    plan.dx = (T *)a->dx;
    plan.sums = (gradient_sums *)a->base.workspace;
    return plan;
}

template <typename T> static bool is_packed(const rows_plan<T> &plan)
{
    return plan.norm.plane % VECTOR_WIDTH<T> == 0 && is_aligned(plan.norm.x) &&
           is_aligned(plan.norm.y) && is_aligned(plan.dy) && is_aligned(plan.dx);
}

/* Threads for a row, a power of two: one for each vector up to a warp, then so many that each holds
 * at most `held` vectors. */
static int threads_for(int64_t vectors, int64_t held, int max)
{
    int threads = 1;
    while (threads < max && (threads < WARP ? threads : threads * held) < vectors)
        threads *= 2;
    return threads;
}

template <typename T, int COUNT, int BYTES>
static void launch_held(talc_device *device, const rows_plan<T> &plan)
{
    constexpr int HELD = BYTES / (int)sizeof(T) / COUNT;
    const int threads = threads_for(plan.norm.plane / COUNT, HELD, MAX_THREADS);
    const int block = threads < BLOCK ? BLOCK : threads;
    held_rows<T, COUNT, HELD>
        <<<grid_for_blocks(device, talc_ceil_div(plan.norm.C, block / threads)), block, 0,
           talc_cuda_stream(device)>>>(plan, threads);
}

template <typename T, int COUNT>
static void launch_forward(talc_device *device, const rows_plan<T> &plan)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    if (plan.norm.plane <= WARP * FEW_BYTES / (int64_t)sizeof(T)) {
        launch_held<T, COUNT, FEW_BYTES>(device, plan);
        return;
    }
    if (plan.norm.plane <= MAX_HELD<T>) {
        launch_held<T, COUNT, MAX_BYTES>(device, plan);
        return;
    }
    const unsigned blocks = grid_for_blocks(device, plan.norm.C * plan.norm.parts_of_channel);
    if (COUNT > 1)
        part_moments<T, COUNT><<<blocks, BLOCK, 0, stream>>>(plan.norm);
    else
        part_moments_of_rows<T>
            <<<blocks, BLOCK, 0, stream>>>(plan.norm, threads_per_row(plan.norm));
    const int threads = plan.norm.parts_of_channel > 4 * WARP ? BLOCK : WARP;
    join_channels<T><<<grid_for_blocks(device, talc_ceil_div(plan.norm.C, BLOCK / threads)), BLOCK,
                       0, stream>>>(plan.norm, threads);
    normalise_parts<T, COUNT><<<blocks, BLOCK, 0, stream>>>(plan);
}

template <typename T, int COUNT>
static void launch_gradient(talc_device *device, const rows_plan<T> &plan)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const bool parts = plan.norm.parts_of_channel > 1;
    const int threads = parts ? BLOCK : threads_for(plan.norm.plane / COUNT, 8, BLOCK);
    const unsigned blocks = grid_for_blocks(
        device, talc_ceil_div(plan.norm.C * plan.norm.parts_of_channel, BLOCK / threads));
    if (parts) {
        gradient_of_rows<T, COUNT, FIRST><<<blocks, BLOCK, 0, stream>>>(plan, threads);
        gradient_of_rows<T, COUNT, SECOND><<<blocks, BLOCK, 0, stream>>>(plan, threads);
    } else {
        gradient_of_rows<T, COUNT, BOTH><<<blocks, BLOCK, 0, stream>>>(plan, threads);
    }
}

template <typename T>
static void launch_affine(talc_device *device, const talc_group_norm_problem *p,
                          const rows_plan<T> &plan, const talc_group_norm_arguments *a)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const affine_tiling tiling(p);
    const int64_t parts = tiling.of_samples * tiling.of_plane;
    affine_sums<T><<<grid_for_blocks(device, tiling.tiles * parts), BLOCK, 0, stream>>>(
        plan, tiling, p->N, p->C);
    join_affine<T>
        <<<grid_for_blocks(device, talc_ceil_div(p->C, BLOCK / WARP)), BLOCK, 0, stream>>>(
            plan.sums, parts, p->C, (T *)a->dweight, (T *)a->dbias);
}

template <typename T, int COUNT>
static void launch(talc_device *device, const talc_group_norm_problem *p, const rows_plan<T> &plan)
{
    if (p->direction == TALC_FORWARD)
        launch_forward<T, COUNT>(device, plan);
    else
        launch_gradient<T, COUNT>(device, plan);
}

} // namespace

// ---- The algorithms -----------------------------------------------------------------------------

static const char *plan_rows(const talc_device *, const talc_group_norm_problem *p, size_t,
                             talc_plan *planned)
{
    if (p->direction == TALC_GRAD_WEIGHT)
        return "the input gradient has that of the weight too";
    return with_float(p->dtype, [&](auto element) -> const char * {
        using T = typename decltype(element)::type;
        const rows_plan<T> plan = plan_of<T>(p, NULL);
        const size_t rows = (size_t)plan.norm.C, parts = (size_t)plan.norm.parts_of_channel;
        if (p->direction == TALC_FORWARD) {
            planned->workspace =
                plan.norm.plane <= MAX_HELD<T> ? 0 : rows * (parts + 1) * sizeof(moments);
            return NULL;
        }
        affine_tiling tiling(p);
        const size_t of_rows = parts > 1 ? rows * parts : 0;
        const size_t of_channels = (size_t)p->C * (size_t)tiling.parts(p);
        planned->workspace =
            (of_rows > of_channels ? of_rows : of_channels) * sizeof(gradient_sums);
        return NULL;
    });
}

static talc_status run_rows(talc_device *device, const talc_group_norm_problem *p,
                            const talc_plan *, const talc_group_norm_arguments *a)
{
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const rows_plan<T> plan = plan_of<T>(p, a);
        if (is_packed(plan))
            launch<T, VECTOR_WIDTH<T>>(device, p, plan);
        else
            launch<T, 1>(device, p, plan);
        if (a->dweight != NULL)
            launch_affine<T>(device, p, plan, a);
        return talc_cuda_launched(device, "group_norm");
    });
}

const talc_algorithm talc_cuda_group_norm[] = {
    talc_cuda_algorithm<plan_rows, run_rows>(
        "rows", { "f64 statistics, then the data's own type", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
