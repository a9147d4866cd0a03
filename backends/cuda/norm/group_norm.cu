/// Group, instance and layer normalisation.
///
///     y[n, c, p] = act( (x[n, c, p] - mu[n, g]) * rstd[n, g] * weight[c] + bias[c] ),
///     rstd = 1 / sqrt(var + eps)
///
/// and its gradient: dbias[c] = sum dy, dweight[c] = sum dy x^, x^ = (x - mu) rstd, and with g = dy
/// weight and M values a row dx = rstd (g - (sum g + x^ sum g x^) / M), the sums over the row.
///
/// x, y, dx [N, C, plane], weight, bias [C], mean, rstd [N * groups], contiguous. A row is a group
/// of a sample, and contiguous too. Memory-bound.
///
///   rows  Rows of up to 64 KB are read once: 1 to 512 threads hold one in registers, reduce and
///         write it. Longer ones are, to moments.cuh, the channels of one image in training: parts
///         of 16384 values, whose moments are joined, and then a block normalises a part, from the
///         end of x, which is still cached. The gradient reads x and dy twice, the second time from
///         a cache: 1 to 256 threads do a row of up to 16384 values, and longer ones are split into
///         parts, in two launches. The sums of dweight and dbias: a block takes some channels of
///         some samples, and a warp a channel adds them up. All sums are in f64 and in a fixed
///         order; the last step is that of ops/norm.h.
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

namespace /* other kernels have types of the same names */
{

/* Threads of a row's block, and bytes of it that a thread holds: more are only for rows that need
 * them. */
constexpr int MAX_THREADS = 512, FEW_BYTES = 32, MAX_BYTES = 128;

template <typename T> constexpr int64_t MAX_HELD = MAX_THREADS *MAX_BYTES / (int64_t)sizeof(T);

/* As moments.cuh sees it the rows are the channels of one image. */
template <typename T> struct rows_plan {
    norm_plan<T> of;
    int64_t groups, channels_of_group;
    uint32_t near_plane;     /* the plane, where it is shorter than 2^30 */
    divisor<uint32_t> plane; /* by near_plane */
    int64_t whole_plane;
    const T *dy;
    T *dx;
    gradient_sums *sums; /* [rows][parts_of_channel] */
};

/* The channels of values that begin with value `first` of a row. */
template <typename T> struct channels_at {
    int64_t c;
    uint32_t left; /* values of the first channel, or more than there are */

    __device__ channels_at(const rows_plan<T> &p, int64_t row, int64_t first)
    {
        const int64_t before = first / p.whole_plane,
                      rest = p.whole_plane - (first - before * p.whole_plane);
        c = row % p.groups * p.channels_of_group + before;
        left = (uint32_t)(rest < p.near_plane ? rest : p.near_plane);
    }
    /* Of value `i` behind the first. */
    __device__ int64_t of(const rows_plan<T> &p, uint32_t i) const
    {
        return i < left ? c : c + 1 + p.plane.quotient(i - left);
    }
};

/* Calls visit(e, c) with each value of a vector and its channel. */
template <int COUNT, typename T, typename Visit>
static __device__ void for_vector(const rows_plan<T> &p, const channels_at<T> &at, uint32_t i,
                                  Visit visit)
{
    int64_t c = at.of(p, i);
    const bool one = p.whole_plane % COUNT == 0; /* and vectors begin at multiples of COUNT */
#pragma unroll
    for (int e = 0; e < COUNT; e++) {
        if (e > 0 && !one)
            c = at.of(p, i + e);
        visit(e, c);
    }
}

// ---- Forward ------------------------------------------------------------------------------------

template <typename T> static __device__ double rstd_of(const rows_plan<T> &p, const moments &m)
{
    return 1 / sqrt(m.squares / m.count + p.of.eps);
}

/* What normalises a row. The rounding error of the mean in the data's type is added. */
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
        if (p.of.weight != NULL)
            y *= p.of.weight[c];
        if (p.of.bias != NULL)
            y += p.of.bias[c];
        return y;
    }
};

/* Whether the step is wide, as ops/norm.h says; f64 data have no wider one. */
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
    const T *x = p.of.x + row * p.of.plane;
    T *to = p.of.y + row * p.of.plane;
#pragma unroll 1
    for (int64_t i = first + thread; i < end; i += threads) {
        const int64_t c = at.of(p, (uint32_t)(i - first));
        const double weight = p.of.weight == NULL ? 1 : (double)p.of.weight[c];
        const double bias = p.of.bias == NULL ? 0 : (double)p.of.bias[c];
        to[i] = talc_activate(p.of.activation, (T)(((double)x[i] - m.mean) * rstd * weight + bias));
    }
}

/* `threads` neighbours a row, each with at most HELD vectors. */
template <typename T, int COUNT, int HELD>
static __global__ void __launch_bounds__(MAX_THREADS) held_rows(const rows_plan<T> p, int threads)
{
    __shared__ sums shared[MAX_THREADS / WARP];
    const int group = threadIdx.x / threads, thread = threadIdx.x % threads;
    const int groups = blockDim.x / threads, vectors = (int)p.of.plane / COUNT;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < p.of.C;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < p.of.C;
        const int64_t row = real ? first + group : first;
        const T *x = p.of.x + row * p.of.plane;
        vec<T, COUNT> values[HELD];
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (thread + k * threads < vectors)
                values[k] = *(const vec<T, COUNT> *)(x + (thread + k * threads) * COUNT);
        const T start = start_of(x[0], x[p.of.plane / 2], x[p.of.plane - 1]);
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
        const moments m = moments_of(sum, (double)start, (double)p.of.plane);
        if (thread == 0)
            keep_moments(p.of, row, m);
        if (is_wide(p, m)) {
            normalise_wide(p, m, row, 0, p.of.plane, thread, threads);
            continue;
        }
        const row_affine<T> by(p, m);
        const channels_at<T> at(p, row, 0);
        T *y = p.of.y + row * p.of.plane;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            const int i = (thread + k * threads) * COUNT;
            if (thread + k * threads >= vectors)
                continue;
            for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                values[k].of[e] = by.normalised(p, values[k].of[e], c);
            });
            activate_all(p.of.activation, values[k].of);
            *(vec<T, COUNT> *)(y + i) = values[k];
        }
    }
}

/* A block a part of a row whose moments are joined. */
template <typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK) normalise_parts(const rows_plan<T> p)
{
    using vector = vec<T, COUNT>;
    const int64_t parts = p.of.C * p.of.parts_of_channel;
    for (int64_t number = blockIdx.x; number < parts; number += gridDim.x) {
        const int64_t part = parts - 1 - number, row = part / p.of.parts_of_channel;
        const int64_t first = (part - row * p.of.parts_of_channel) * p.of.length;
        const int length = (int)min(p.of.length, p.of.plane - first);
        const moments m = p.of.channels[row];
        if (first == 0 && threadIdx.x == 0)
            keep_moments(p.of, row, m);
        if (is_wide(p, m)) {
            normalise_wide(p, m, row, first, first + length, threadIdx.x, BLOCK);
            continue;
        }
        const row_affine<T> by(p, m);
        const channels_at<T> at(p, row, first);
        const T *x = p.of.x + row * p.of.plane + first;
        T *y = p.of.y + row * p.of.plane + first;
        const auto load = [&](int i) { return *(const vector *)(x + i); };
        const auto write = [&](vector &values, int i) {
            for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                values.of[e] = by.normalised(p, values.of[e], c);
            });
            activate_all(p.of.activation, values.of);
            *(vector *)(y + i) = values;
        };
        for_loads<COUNT == 1 ? 8 : 4>((int)threadIdx.x * COUNT, length, BLOCK * COUNT, load, write);
    }
}

// ---- Input gradient -----------------------------------------------------------------------------

/* `threads` neighbours a part, which are the whole block unless a row is one part. */
template <typename T, int COUNT, gradient_pass PASS>
static __global__ void __launch_bounds__(BLOCK) gradient_of_rows(const rows_plan<T> p, int threads)
{
    constexpr int IN_FLIGHT = COUNT > 1 ? 2 : 4;
    __shared__ gradient_sums shared[BLOCK / WARP];
    const int group = threadIdx.x / threads, thread = threadIdx.x % threads;
    const int groups = BLOCK / threads;
    const int64_t parts = p.of.C * p.of.parts_of_channel;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < parts;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < parts;
        const int64_t number = real ? first + group : first;
        const int64_t part = PASS == SECOND ? parts - 1 - number : number;
        const int64_t row = part / p.of.parts_of_channel;
        const int64_t begin = (part - row * p.of.parts_of_channel) * p.of.length;
        const int64_t offset = row * p.of.plane + begin;
        const int64_t length = min(p.of.length, p.of.plane - begin);
        const channels_at<T> at(p, row, begin);
        /* visit(place among those in flight, offset, x, dy) of each vector of the thread. */
        const auto for_part = [&](auto visit) {
            for (int64_t i = thread * COUNT; i < length; i += threads * COUNT * IN_FLIGHT) {
                vec<T, COUNT> x[IN_FLIGHT], dy[IN_FLIGHT];
#pragma unroll
                for (int k = 0; k < IN_FLIGHT; k++)
                    if (i + k * threads * COUNT < length) {
                        const int64_t from = offset + i + k * threads * COUNT;
                        x[k] = *(const vec<T, COUNT> *)(p.of.x + from);
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
            for (int64_t k = threadIdx.x; k < p.of.parts_of_channel; k += BLOCK)
                sum.join(p.sums[row * p.of.parts_of_channel + k]);
        else
            for_part([&, mean = p.of.mean[row]](int64_t i, const vec<T, COUNT> &x,
                                                const vec<T, COUNT> &dy) {
                for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                    const double weight = p.of.weight == NULL ? 1 : (double)p.of.weight[c];
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
        const double rstd = p.of.rstd[row];
        const double mean = p.of.mean[row];
        const talc_norm_gradient of = talc_norm_gradient_of(mean, (double)(T)mean, rstd, rstd,
                                                            sum.g, sum.product, (double)p.of.plane);
        const auto write = [&](auto dx_of) {
            for_part([&](int64_t i, const vec<T, COUNT> &x, const vec<T, COUNT> &dy) {
                vec<T, COUNT> dx;
                for_vector<COUNT>(p, at, (uint32_t)i, [&](int e, int64_t c) {
                    const T weight = p.of.weight == NULL ? 1 : p.of.weight[c];
                    dx.of[e] = dx_of(x.of[e], dy.of[e], weight);
                });
                *(vec<T, COUNT> *)(p.dx + offset + i) = dx;
            });
        };
        if (of.wide || (p.of.weight != NULL && !talc_norm_takes_weights(rstd)))
            write([of](T x, T dy, T weight) {
                return (T)((double)dy * (double)weight * of.by_g +
                           (((double)x - of.mean) * of.rstd * of.slope + of.shift));
            });
        else
            write([by_g = (T)rstd, mean = (T)of.mean, by_x = (T)(of.rstd * of.slope),
                   shift = (T)of.shift](T x, T dy, T weight) {
                return dy * weight * by_g + ((x - mean) * by_x + shift);
            });
    }
}

// ---- Gradients of weight and bias ---------------------------------------------------------------

/* A block's threads: `along` neighbours in a plane, `width` channels, the rest samples. Its tile:
 * width channels of `samples` samples, in `length` positions of each plane. */
struct affine_tiling {
    int along, width;
    int64_t samples, length, tiles, of_samples, of_plane; /* how many in each direction */

    affine_tiling(const talc_group_norm_problem *p)
    {
        constexpr int64_t VALUES = 8192;
        along = 1;
        while (along < BLOCK && along < p->plane)
            along *= 2;
        width = along < WARP ? WARP / along : 1;
        length = talc_smaller(p->plane, VALUES);
        samples = talc_larger(1, VALUES / talc_larger(1, width * length));
        while (parts(p) > MAX_PARTS)
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

/* Writes the sums of each tile to sums[C][parts]. */
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
            const double mean = p.of.mean[row];
            double product = 0;
#pragma unroll 4
            for (int64_t i = begin + position; i < end; i += along) {
                const double dy = (double)p.dy[plane + i];
                sum.g += dy;
                product += dy * ((double)p.of.x[plane + i] - mean);
            }
            sum.product += product * p.of.rstd[row];
        }
        __syncthreads(); /* the tile before is done */
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

/* A warp a channel. */
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
    norm_plan<T> &of = plan.of;
    plan.groups = p->groups;
    plan.channels_of_group = p->groups == 0 ? 0 : p->C / p->groups;
    plan.whole_plane = p->plane;
    plan.near_plane = (uint32_t)talc_smaller(talc_larger(p->plane, 1), (int64_t)1 << 30);
    plan.plane.set(plan.near_plane);
    of.N = 1;
    of.C = p->N * p->groups;
    of.plane = plan.channels_of_group * p->plane;
    of.eps = p->eps;
    of.activation = p->activation;
    of.images = 1;
    of.length = PART_VALUES;
    while (p->direction != TALC_FORWARD && of.plane > of.length * MAX_PARTS)
        of.length *= 2;
    of.parts_of_plane = of.parts_of_channel = talc_ceil_div(of.plane, of.length);
    if (a == NULL)
        return plan;
    of.x = (const T *)a->x;
    of.weight = (const T *)a->weight;
    of.bias = (const T *)a->bias;
    of.y = (T *)a->y;
    of.mean = a->mean;
    of.rstd = a->rstd;
    of.channels = (moments *)a->base.workspace;
    of.parts = of.channels + of.C;
    plan.dy = (const T *)a->dy;
    plan.dx = (T *)a->dx;
    plan.sums = (gradient_sums *)a->base.workspace;
    return plan;
}

template <typename T> static bool is_packed(const rows_plan<T> &plan)
{
    return plan.of.plane % (VECTOR_BYTES / (int64_t)sizeof(T)) == 0 && is_aligned(plan.of.x) &&
           is_aligned(plan.of.y) && is_aligned(plan.dy) && is_aligned(plan.dx);
}

/* A power of two: as many as vectors, up to a warp, or more where they hold no more than `held`
 * each. */
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
    const int threads = threads_for(plan.of.plane / COUNT, HELD, MAX_THREADS);
    const int block = threads < BLOCK ? BLOCK : threads;
    held_rows<T, COUNT, HELD><<<grid_for_blocks(device, talc_ceil_div(plan.of.C, block / threads)),
                                block, 0, talc_cuda_stream(device)>>>(plan, threads);
}

template <typename T, int COUNT>
static void launch_forward(talc_device *device, const rows_plan<T> &plan)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    if (plan.of.plane <= WARP * FEW_BYTES / (int64_t)sizeof(T)) {
        launch_held<T, COUNT, FEW_BYTES>(device, plan);
        return;
    }
    if (plan.of.plane <= MAX_HELD<T>) {
        launch_held<T, COUNT, MAX_BYTES>(device, plan);
        return;
    }
    const unsigned blocks = grid_for_blocks(device, plan.of.C * plan.of.parts_of_channel);
    if (COUNT > 1)
        part_moments<T, COUNT><<<blocks, BLOCK, 0, stream>>>(plan.of);
    else
        part_moments_of_rows<T><<<blocks, BLOCK, 0, stream>>>(plan.of, threads_per_row(plan.of));
    const int threads = plan.of.parts_of_channel > 4 * WARP ? BLOCK : WARP;
    join_channels<T>
        <<<grid_for_blocks(device, talc_ceil_div(plan.of.C, BLOCK / threads)), BLOCK, 0, stream>>>(
            plan.of, threads);
    normalise_parts<T, COUNT><<<blocks, BLOCK, 0, stream>>>(plan);
}

template <typename T, int COUNT>
static void launch_gradient(talc_device *device, const rows_plan<T> &plan)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const bool parts = plan.of.parts_of_channel > 1;
    const int threads = parts ? BLOCK : threads_for(plan.of.plane / COUNT, 8, BLOCK);
    const unsigned blocks = grid_for_blocks(
        device, talc_ceil_div(plan.of.C * plan.of.parts_of_channel, BLOCK / threads));
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
        const size_t rows = (size_t)plan.of.C, parts = (size_t)plan.of.parts_of_channel;
        if (p->direction == TALC_FORWARD) {
            planned->workspace =
                plan.of.plane <= MAX_HELD<T> ? 0 : rows * (parts + 1) * sizeof(moments);
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
    const talc_status status = talc_cuda_enter(device, "group_norm");
    if (status != TALC_OK)
        return status;
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const rows_plan<T> plan = plan_of<T>(p, a);
        if (is_packed(plan))
            launch<T, VECTOR_BYTES / sizeof(T)>(device, p, plan);
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
