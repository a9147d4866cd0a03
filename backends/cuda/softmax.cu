/// Softmax and log-softmax over one dimension of a strided array.
///
///     y_i = exp(x_i - m) / sum_j exp(x_j - m)        y_i = x_i - m - log(sum_j exp(x_j - m))        m = max_j x_j
///
/// Memory-bound: what counts is that each element is read once, and neighbours together.
///
///   registers  A softmax of up to 64 KiB is held in the registers of the threads that share it: read once, written once.
///              Along memory, 8 to 1024 neighbouring threads share a softmax. Across it, where softmaxes lie side by side,
///              each lane of a warp takes one, and up to 32 warps share those; up to 2 KiB.
///   online     Any length: a thread keeps the maximum so far and the sum relative to it; x is read again to write y.
///
/// Exponentials are in the data's type. Sums are too, of at most 16 elements and then of a tree, in `registers`; f64 in `online`.
///
/// Source of `online`: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867.
#include "backends/cuda/group.cuh"
#include "ops/softmax.h"

using namespace talc;

namespace /* other kernels have types of the same names */
{

/* Elements of a softmax that one thread holds: as many as 16 registers. */
template <typename T> constexpr int HELD = 64 / sizeof(T);

constexpr int MOST_THREADS = 1024;

/* Threads of a block of `online`. */
template <typename T> constexpr int ONLINE = 4096 / sizeof(T);

/* Where the softmaxes are, and how their elements follow each other. */
template <typename Index> struct softmax_plan {
    int64_t extent, y_stride, x_stride;
    Index outer;
    bool log;
    walk<2, Index> at; /* y and x */

    softmax_plan(const talc_softmax_problem *p)
        : extent(p->extent), y_stride(p->y_stride), x_stride(p->x_stride), outer((Index)p->outer),
          log(p->log), at(p->outer_rank, p->outer_dims, { p->y_strides, p->x_strides })
    {
    }
};

// ---- Arithmetic ---------------------------------------------------------------------------------------------

/* A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and so into every result,
 * as (+infinity) - (+infinity) and (-infinity) - (-infinity) do. */
template <typename T> struct largest {
    T value = -(T)INFINITY;
    __device__ void join(largest other)
    {
        value = other.value > value ? other.value : value;
    }
};

template <typename T> struct total {
    T value = 0;
    __device__ void join(total other)
    {
        value += other.value;
    }
};

/* One element of the result. */
template <typename T> static __device__ T result_of(bool log, T x, T m, T sum, T log_sum)
{
    return log ? x - m - log_sum : exp(x - m) / sum;
}

// ---- registers, along memory --------------------------------------------------------------------------------

/* `threads` neighbours share a softmax, one a block when they are more than a warp; each access moves COUNT elements, which follow each other when COUNT > 1. */
template <typename T, int COUNT, typename Index, int MOST>
static __global__ void __launch_bounds__(MOST)
    softmax_along(T *y, const T *x, int threads, const softmax_plan<Index> plan)
{
    __shared__ largest<T> shared_most[MOST / WARP];
    __shared__ total<T> shared_sum[MOST / WARP];
    __shared__ T whole[2];
    const int groups = blockDim.x / threads, group = threadIdx.x / threads;
    const int thread = threadIdx.x % threads, extent = (int)plan.extent;
    for (Index first = (Index)blockIdx.x * groups; first < plan.outer;
         first += (Index)gridDim.x * groups) {
        const bool real = first + group < plan.outer;
        int64_t at[2];
        plan.at.offsets(real ? first + group : first, at);
        vec<T, COUNT> held[HELD<T> / COUNT];
#pragma unroll
        for (int k = 0; k < HELD<T> / COUNT; k++) {
            const int i = (k * threads + thread) * COUNT;
            if (i < extent)
                held[k] = *(const vec<T, COUNT> *)(x + at[1] + i * (COUNT > 1 ? 1 : plan.x_stride));
        }
        largest<T> most;
#pragma unroll
        for (int k = 0; k < HELD<T> / COUNT; k++)
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                if ((k * threads + thread) * COUNT < extent)
                    most.join({ held[k].of[e] });
        most = join_group(most, threads, shared_most);
        if (threads > WARP) {
            if (threadIdx.x == 0)
                whole[0] = most.value;
            __syncthreads();
            most.value = whole[0];
        }
        const T m = most.value;
        total<T> sum;
#pragma unroll
        for (int k = 0; k < HELD<T> / COUNT; k++)
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                const T power = exp(held[k].of[e] - m);
                if ((k * threads + thread) * COUNT < extent)
                    sum.value += power;
                if (!plan.log)
                    held[k].of[e] = power;
            }
        sum = join_group(sum, threads, shared_sum);
        if (threads > WARP) {
            if (threadIdx.x == 0)
                whole[1] = sum.value;
            __syncthreads();
            sum.value = whole[1];
        }
        const T log_sum = plan.log ? log(sum.value) : 0;
#pragma unroll
        for (int k = 0; k < HELD<T> / COUNT; k++) {
            const int i = (k * threads + thread) * COUNT;
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                held[k].of[e] = plan.log ? held[k].of[e] - m - log_sum : held[k].of[e] / sum.value;
            if (real && i < extent)
                *(vec<T, COUNT> *)(y + at[0] + i * (COUNT > 1 ? 1 : plan.y_stride)) = held[k];
        }
    }
}

// ---- registers, across --------------------------------------------------------------------------------------

/* Blocks of WARP softmaxes by ROWS threads; with one row each thread has a softmax to itself. */
template <typename T, int ROWS, typename Index>
static __global__ void __launch_bounds__(ROWS == 1 ? BLOCK : WARP * ROWS)
    softmax_across(T *y, const T *x, const softmax_plan<Index> plan)
{
    constexpr int WIDTH = ROWS == 1 ? BLOCK : WARP;
    __shared__ T shared[2][ROWS][WIDTH];
    const int column = threadIdx.x % WIDTH, row = threadIdx.x / WIDTH, extent = (int)plan.extent;
    for (Index first = (Index)blockIdx.x * WIDTH; first < plan.outer;
         first += (Index)gridDim.x * WIDTH) {
        const bool real = first + column < plan.outer;
        int64_t at[2];
        plan.at.offsets(real ? first + column : first, at);
        T held[HELD<T>];
        T m = -(T)INFINITY, sum = 0;
#pragma unroll
        for (int k = 0; k < HELD<T>; k++)
            if (k * ROWS + row < extent)
                held[k] = x[at[1] + (k * ROWS + row) * plan.x_stride];
#pragma unroll
        for (int k = 0; k < HELD<T>; k++)
            if (k * ROWS + row < extent)
                m = held[k] > m ? held[k] : m;
        if (ROWS > 1) {
            shared[0][row][column] = m;
            __syncthreads();
            for (int r = 0; r < ROWS; r++)
                m = shared[0][r][column] > m ? shared[0][r][column] : m;
        }
#pragma unroll
        for (int k = 0; k < HELD<T>; k++) {
            const T power = exp(held[k] - m);
            if (k * ROWS + row < extent)
                sum += power;
            if (!plan.log)
                held[k] = power;
        }
        if (ROWS > 1) {
            shared[1][row][column] = sum;
            __syncthreads();
            sum = 0;
            for (int r = 0; r < ROWS; r++)
                sum += shared[1][r][column];
        }
        const T log_sum = plan.log ? log(sum) : 0;
#pragma unroll
        for (int k = 0; k < HELD<T>; k++)
            if (real && k * ROWS + row < extent)
                y[at[0] + (k * ROWS + row) * plan.y_stride] =
                    plan.log ? held[k] - m - log_sum : held[k] / sum;
    }
}

// ---- online -------------------------------------------------------------------------------------------------

/* The largest element and the sum of exp(x - m); m of no element, or of nothing but -infinity, counts as 0. */
template <typename T> struct running {
    T most = -(T)INFINITY;
    double sum = 0;

    static __device__ T base(T m)
    {
        return m == -(T)INFINITY ? 0 : m;
    }
    __device__ void lift(T m)
    {
        if (m > most) {
            if (most != -(T)INFINITY) /* else the sum is 0, or NaN */
                sum *= (double)exp(most - m);
            most = m;
        }
    }
    __device__ void join(running other)
    {
        lift(other.most);
        other.lift(most);
        sum += other.sum;
    }
    /* Elements that stand together, of which the first `count` exist. */
    template <int COUNT> __device__ void add(const T (&x)[COUNT], int count)
    {
        T m = most, part = 0;
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            m = e < count && x[e] > m ? x[e] : m;
        lift(m);
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            if (e < count)
                part += exp(x[e] - base(most));
        sum += (double)part;
    }
};

/* A block a softmax. Elements are taken from the back when y is written: the last ones read are still cached. */
template <typename T, int COUNT, typename Index>
static __global__ void __launch_bounds__(ONLINE<T>)
    online_along(T *y, const T *x, const softmax_plan<Index> plan)
{
    constexpr int GROUPS = HELD<T> / 2 / COUNT > 0 ? HELD<T> / 2 / COUNT : 1,
                  STEP = ONLINE<T> * GROUPS;
    __shared__ running<T> shared[ONLINE<T> / WARP];
    __shared__ running<T> whole;
    const int64_t packs = plan.extent / COUNT; /* COUNT divides it */
    const int64_t y_stride = COUNT > 1 ? COUNT : plan.y_stride;
    const int64_t x_stride = COUNT > 1 ? COUNT : plan.x_stride;
    for (Index softmax = blockIdx.x; softmax < plan.outer; softmax += gridDim.x) {
        int64_t at[2];
        plan.at.offsets(softmax, at);
        running<T> state;
        for (int64_t i = threadIdx.x; i < packs; i += STEP) {
            vec<T, COUNT> packed[GROUPS];
            T values[GROUPS * COUNT];
            int count = 0;
#pragma unroll
            for (int k = 0; k < GROUPS; k++)
                if (i + k * ONLINE<T> < packs) {
                    packed[k] = *(const vec<T, COUNT> *)(x + at[1] + (i + k * ONLINE<T>)*x_stride);
                    count += COUNT;
                }
#pragma unroll
            for (int k = 0; k < GROUPS * COUNT; k++)
                values[k] = packed[k / COUNT].of[k % COUNT];
            state.add(values, count);
        }
        state = join_group(state, ONLINE<T>, shared);
        if (threadIdx.x == 0)
            whole = state;
        __syncthreads();
        const T m = whole.most, sum = (T)whole.sum, log_sum = plan.log ? (T)log(whole.sum) : 0;
        for (int64_t i = (packs - 1) / STEP * STEP + threadIdx.x; i >= 0; i -= STEP) {
            vec<T, COUNT> packed[GROUPS];
#pragma unroll
            for (int k = 0; k < GROUPS; k++)
                if (i + k * ONLINE<T> < packs)
                    packed[k] = *(const vec<T, COUNT> *)(x + at[1] + (i + k * ONLINE<T>)*x_stride);
#pragma unroll
            for (int k = 0; k < GROUPS; k++) {
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    packed[k].of[e] = result_of(plan.log, packed[k].of[e], m, sum, log_sum);
                if (i + k * ONLINE<T> < packs)
                    *(vec<T, COUNT> *)(y + at[0] + (i + k * ONLINE<T>)*y_stride) = packed[k];
            }
        }
    }
}

/* A warp's lanes have a softmax each, which its block's warps share. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(ONLINE<T>)
    online_across(T *y, const T *x, const softmax_plan<Index> plan)
{
    constexpr int ROWS = ONLINE<T> / WARP, IN_FLIGHT = HELD<T> / 2;
    __shared__ running<T> shared[ROWS][WARP];
    const int column = threadIdx.x % WARP, row = threadIdx.x / WARP;
    for (Index first = (Index)blockIdx.x * WARP; first < plan.outer;
         first += (Index)gridDim.x * WARP) {
        const bool real = first + column < plan.outer;
        int64_t at[2];
        plan.at.offsets(real ? first + column : first, at);
        running<T> state;
        for (int64_t i = row; i < plan.extent; i += ROWS * IN_FLIGHT) {
            T values[IN_FLIGHT];
            int count = 0;
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (i + k * ROWS < plan.extent) {
                    values[k] = x[at[1] + (i + k * ROWS) * plan.x_stride];
                    count++;
                }
            state.add(values, count);
        }
        __syncthreads(); /* the softmaxes before are read */
        shared[row][column] = state;
        __syncthreads();
        state = running<T>();
        for (int r = 0; r < ROWS; r++)
            state.join(shared[r][column]);
        const T m = state.most, sum = (T)state.sum, log_sum = plan.log ? (T)log(state.sum) : 0;
        if (!real)
            continue;
        const int64_t rounds = (plan.extent - 1 - row + ROWS) / ROWS;
#pragma unroll 4
        for (int64_t i = row + (rounds - 1) * ROWS; i >= 0; i -= ROWS)
            y[at[0] + i * plan.y_stride] =
                result_of(plan.log, x[at[1] + i * plan.x_stride], m, sum, log_sum);
    }
}

// ---- Launches -----------------------------------------------------------------------------------------------

/* Whether softmaxes lie side by side, closer than the elements of one. */
static bool is_across(const talc_softmax_problem *p)
{
    return p->outer_rank > 0 && p->x_strides[p->outer_rank - 1] < p->x_stride;
}

/* Whether each softmax consists of whole packs. */
template <typename T>
static bool is_packed(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    constexpr int COUNT = ACCESS / sizeof(T);
    bool packed = p->x_stride == 1 && p->y_stride == 1 && p->extent % COUNT == 0 &&
                  is_aligned(a->x) && is_aligned(a->y);
    for (int i = 0; i < p->outer_rank; i++)
        packed &= p->x_strides[i] % COUNT == 0 && p->y_strides[i] % COUNT == 0;
    return packed;
}

template <typename T, int COUNT, typename Index>
static void launch_along(talc_device *device, const talc_softmax_problem *p, T *y, const T *x)
{
    const softmax_plan<Index> plan(p);
    const cudaStream_t stream = talc_cuda_stream(device);
    int threads = p->extent <= 8 * HELD<T> ? 8 : p->extent <= WARP * HELD<T> ? WARP : WARP * 2;
    while (threads * HELD<T> < p->extent)
        threads *= 2;
    const int block = threads <= WARP ? BLOCK : threads;
    const unsigned blocks = blocks_of(device, pieces(p->outer, block / threads));
    if (block <= BLOCK)
        softmax_along<T, COUNT, Index, BLOCK><<<blocks, block, 0, stream>>>(y, x, threads, plan);
    else
        softmax_along<T, COUNT, Index, MOST_THREADS>
            <<<blocks, block, 0, stream>>>(y, x, threads, plan);
}

template <typename T, typename Index>
static void launch_across(talc_device *device, const talc_softmax_problem *p, T *y, const T *x)
{
    const softmax_plan<Index> plan(p);
    const cudaStream_t stream = talc_cuda_stream(device);
    const unsigned blocks =
        blocks_of(device, pieces(p->outer, p->extent <= HELD<T> ? BLOCK : WARP));
    if (p->extent <= HELD<T>)
        softmax_across<T, 1, Index><<<blocks, BLOCK, 0, stream>>>(y, x, plan);
    else if (p->extent <= 8 * HELD<T>)
        softmax_across<T, 8, Index><<<blocks, 8 * WARP, 0, stream>>>(y, x, plan);
    else
        softmax_across<T, 32, Index><<<blocks, 32 * WARP, 0, stream>>>(y, x, plan);
}

template <typename T>
static void launch_registers(talc_device *device, const talc_softmax_problem *p,
                             const talc_softmax_arguments *a)
{
    T *y = (T *)a->y;
    const T *x = (const T *)a->x;
    with_index(p->outer, [&](auto zero) {
        using Index = decltype(zero);
        if (is_across(p))
            launch_across<T, Index>(device, p, y, x);
        else if (is_packed<T>(p, a))
            launch_along<T, ACCESS / sizeof(T), Index>(device, p, y, x);
        else
            launch_along<T, 1, Index>(device, p, y, x);
    });
}

template <typename T>
static void launch_online(talc_device *device, const talc_softmax_problem *p,
                          const talc_softmax_arguments *a)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    T *y = (T *)a->y;
    const T *x = (const T *)a->x;
    with_index(p->outer, [&](auto zero) {
        using Index = decltype(zero);
        const softmax_plan<Index> plan(p);
        const unsigned blocks = blocks_of(device, is_across(p) ? pieces(p->outer, WARP) : p->outer);
        if (is_across(p))
            online_across<T, Index><<<blocks, ONLINE<T>, 0, stream>>>(y, x, plan);
        else if (is_packed<T>(p, a))
            online_along<T, ACCESS / sizeof(T), Index>
                <<<blocks, ONLINE<T>, 0, stream>>>(y, x, plan);
        else
            online_along<T, 1, Index><<<blocks, ONLINE<T>, 0, stream>>>(y, x, plan);
    });
}

} // namespace

// ---- Rows ---------------------------------------------------------------------------------------------------

static const char *registers_refuses(const talc_softmax_problem *p)
{
    const int64_t held = p->dtype == TALC_F32 ? HELD<float> : HELD<double>;
    if (is_across(p))
        return p->extent > WARP * held ? "softmaxes side by side are over 2048 bytes long" : NULL;
    return p->extent > MOST_THREADS * held ? "a softmax is over 65536 bytes long" : NULL;
}

static talc_status registers_run(talc_device *device, const talc_softmax_problem *p,
                                 const talc_softmax_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "softmax");
    if (status != TALC_OK)
        return status;
    if (p->dtype == TALC_F32)
        launch_registers<float>(device, p, arguments);
    else
        launch_registers<double>(device, p, arguments);
    return talc_cuda_launched(device, "softmax");
}

static const char *online_refuses(const talc_softmax_problem *problem)
{
    (void)problem;
    return NULL;
}

static talc_status online_run(talc_device *device, const talc_softmax_problem *p,
                              const talc_softmax_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "softmax");
    if (status != TALC_OK)
        return status;
    if (p->dtype == TALC_F32)
        launch_online<float>(device, p, arguments);
    else
        launch_online<double>(device, p, arguments);
    return talc_cuda_launched(device, "softmax");
}

const talc_softmax_algorithm talc_cuda_softmax[] = {
    { { "registers", { "the data's own type", TALC_STRICT, false } },
      registers_refuses,
      registers_run },
    { { "online", { "the data's own type, sums in f64", TALC_STRICT, false } },
      online_refuses,
      online_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
