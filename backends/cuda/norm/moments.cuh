/// Means and variances of channels, for batch normalisation in training. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_NORM_MOMENTS_CUH
#define TALC_BACKENDS_CUDA_NORM_MOMENTS_CUH

#include "backends/cuda/norm/gradient.h"
#include "backends/cuda/primitives/planes.cuh"

namespace talc
{

/* Whether f64 has digits to spare. */
template <typename T> constexpr bool IS_NARROW = sizeof(T) < sizeof(double);

/* Count, mean and sum of squared deviations of some values. Two are joined by Chan's formula. */
struct moments {
    double count = 0, mean = 0, squares = 0;

    __device__ void join(const moments &other)
    {
        if (other.count == 0)
            return;
        const double joined = count + other.count, delta = other.mean - mean;
        const double share = other.count / joined;
        mean += delta * share;
        squares += other.squares + delta * delta * (count * share);
        count = joined;
    }
};

struct sums {
    double deviations = 0, squares = 0;

    __device__ void add(double deviation)
    {
        deviations += deviation;
        squares += deviation * deviation;
    }
    template <typename T, int COUNT> __device__ void add(const vec<T, COUNT> &values, double start)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            add((double)values.of[e] - start);
    }
    __device__ void join(const sums &other)
    {
        deviations += other.deviations;
        squares += other.squares;
    }
};

/* The value from which deviations are taken: the median of three, as an outlier would make all
 * deviations large; 0 where that is infinite or NaN. */
template <typename T> static __device__ T start_of(T a, T b, T c)
{
    const T low = a < b ? a : b, high = a < b ? b : a, middle = c < low ? low : c > high ? high : c;
    return middle - middle == 0 ? middle : 0;
}

/* Of `count` values whose deviations from `start` were summed up. */
static __device__ moments moments_of(const sums &sum, double start, double count)
{
    moments m;
    m.count = count;
    m.mean = start + sum.deviations / count;
    const double squares = sum.squares - sum.deviations * (sum.deviations / count);
    m.squares = squares < 0 ? 0 : squares; /* NaN stays */
    return m;
}

template <typename T> struct norm_plan {
    const T *x, *weight, *bias, *residual;
    T *running_mean, *running_var, *y;
    double *mean, *rstd;
    int64_t *num_batches_tracked;
    moments *parts;    /* [C][parts] */
    moments *channels; /* [C]; NULL where each block joins the parts that it needs */
    int64_t N, C, plane, count, parts_of_channel;
    int64_t images, length; /* of a part: images, and values of each of their planes */
    int64_t parts_of_plane; /* how many a plane is cut into */
    double momentum, eps;
    bool moves; /* the running statistics */
    talc_activation activation;
};

// ---- Parts --------------------------------------------------------------------------------------

/* A part of channel c: `rows` rows of `length` values each, one row an image. */
template <typename T> struct norm_part {
    int64_t c, of_channel, rows;
    uint32_t length;
    const T *x;
    T start;

    __device__ norm_part(const norm_plan<T> &p, int64_t part)
        : c(part % p.C), of_channel(part / p.C) /* neighbouring blocks take the same images */
    {
        const int64_t n = of_channel / p.parts_of_plane * p.images;
        const int64_t first = of_channel % p.parts_of_plane * p.length, left = p.plane - first;
        rows = p.N - n < p.images ? p.N - n : p.images;
        length = (uint32_t)(left < p.length ? left : p.length);
        x = p.x + (n * p.C + c) * p.plane + first;
        start = start_of(x[0], x[length / 2], x[(rows - 1) * p.C * p.plane + length - 1]);
    }
    __device__ void end(const norm_plan<T> &p, const sums &sum) const
    {
        if (threadIdx.x == 0)
            p.parts[c * p.parts_of_channel + of_channel] =
                moments_of(sum, (double)start, (double)rows * length);
    }
};

/* Each block computes the moments of a part whose rows are whole vectors. */
template <typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK) part_moments(const norm_plan<T> p)
{
    using vector = vec<T, COUNT>;
    __shared__ sums shared[BLOCK / WARP];
    for (int64_t number = blockIdx.x; number < p.C * p.parts_of_channel; number += gridDim.x) {
        const norm_part<T> part(p, number);
        const uint32_t length = part.length / COUNT;
        sums sum;
        const auto load = [&](uint32_t i) {
            const uint32_t row = part.rows == 1 ? 0 : i / length;
            return *(const vector *)(part.x + row * p.C * p.plane + (i - row * length) * COUNT);
        };
        for_loads<4>(threadIdx.x, (uint32_t)part.rows * length, (unsigned)BLOCK, load,
                     [&](const vector &values, uint32_t) { sum.add(values, (double)part.start); });
        part.end(p, join_group(sum, BLOCK, shared));
    }
}

/* The same for rows that are not whole vectors. `threads` neighbouring threads share a row. The
 * values before its first whole vector are fewer than these threads, and so are those after the
 * last. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    part_moments_of_rows(const norm_plan<T> p, int threads)
{
    constexpr int COUNT = VECTOR_BYTES / sizeof(T);
    using vector = vec<T, COUNT>;
    __shared__ sums shared[BLOCK / WARP];
    const int thread = threadIdx.x % threads;
    for (int64_t number = blockIdx.x; number < p.C * p.parts_of_channel; number += gridDim.x) {
        const norm_part<T> part(p, number);
        const double start = (double)part.start;
        const int length = (int)part.length;
        sums sum;
        for (int row = threadIdx.x / threads; row < part.rows; row += BLOCK / threads) {
            const T *x = part.x + row * p.C * p.plane;
            const int before =
                (int)((VECTOR_BYTES - (uintptr_t)x % VECTOR_BYTES) % VECTOR_BYTES / sizeof(T));
            const int head = before < length ? before : length, vectors = (length - head) / COUNT;
            const int tail = head + vectors * COUNT;
            const vector *from = (const vector *)(x + head);
            const T front = thread < head ? x[thread] : part.start;
            const T back = tail + thread < length ? x[tail + thread] : part.start;
            for_loads<4>(
                thread, vectors, threads, [&](int i) { return from[i]; },
                [&](const vector &values, int) { sum.add(values, start); });
            sum.add((double)front - start);
            sum.add((double)back - start);
        }
        part.end(p, join_group(sum, BLOCK, shared));
    }
}

/* So many that no thread of a block is without a row. */
template <typename T> static int threads_per_row(const norm_plan<T> &p)
{
    int threads = WARP;
    while (threads < BLOCK && BLOCK / threads > p.images)
        threads *= 2;
    return threads;
}

/* The same for small planes that are not whole vectors, as a functor for reduce_planes. A part is
 * some images. */
template <typename T> struct plane_moments {
    using state = sums;
    using start = T;
    norm_plan<T> p;

    __device__ T begin(const T *x, int64_t c, int64_t first, int64_t end) const
    {
        const int64_t image = p.C * p.plane, middle = first + (end - first) / 2;
        x += c * p.plane;
        return start_of(x[first * image], x[middle * image + p.plane / 2],
                        x[(end - 1) * image + p.plane - 1]);
    }
    template <int COUNT>
    __device__ void add(sums &sum, T from, const vec<T, COUNT> &values, int64_t, int) const
    {
        sum.add(values, (double)from);
    }
    __device__ void write(int64_t c, T from, const sums &sum) const
    {
        const int64_t left = p.N - blockIdx.y * p.images;
        const int64_t count = (left < p.images ? left : p.images) * p.plane;
        p.parts[c * p.parts_of_channel + blockIdx.y] = moments_of(sum, (double)from, (double)count);
    }
};

/* Writes the mean and 1 / sqrt(var + eps), which the gradient needs, and moves the running
 * statistics. */
template <typename T>
static __device__ void keep_moments(const norm_plan<T> &p, int64_t c, const moments &m)
{
    if (p.mean != NULL)
        p.mean[c] = m.mean;
    if (p.rstd != NULL)
        p.rstd[c] = 1 / sqrt(m.squares / m.count + p.eps);
    if (!p.moves)
        return;
    const double kept = 1 - p.momentum;
    p.running_mean[c] = (T)(kept * (double)p.running_mean[c] + p.momentum * m.mean);
    p.running_var[c] =
        (T)(kept * (double)p.running_var[c] + p.momentum * (m.squares / (m.count - 1)));
}

/* Counts the batch, by one thread of the grid. */
template <typename T> static __device__ void count_batch(const norm_plan<T> &p)
{
    if (p.num_batches_tracked != NULL && blockIdx.x == 0 && threadIdx.x == 0)
        ++*p.num_batches_tracked;
}

/* Joins the parts of each channel. `threads` neighbouring threads share one. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK) join_channels(const norm_plan<T> p, int threads)
{
    __shared__ moments shared[BLOCK / WARP];
    const int groups = BLOCK / threads, group = threadIdx.x / threads;
    const int thread = threadIdx.x % threads;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < p.C;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < p.C;
        const int64_t c = real ? first + group : first;
        moments m;
        for (int64_t part = thread; part < p.parts_of_channel; part += threads)
            m.join(p.parts[c * p.parts_of_channel + part]);
        m = join_group(m, threads, shared);
        if (!real || thread != 0)
            continue;
        p.channels[c] = m;
    }
}

/* Where the parts are not joined yet, and few, this takes their common mean first, and then the
 * deviations of their means from it: one division instead of one for each part. */
template <typename T> static __device__ moments moments_of_channel(const norm_plan<T> &p, int64_t c)
{
    if (p.channels != NULL)
        return p.channels[c];
    const moments *parts = p.parts + c * p.parts_of_channel;
    moments m;
    m.count = (double)p.N * (double)p.plane;
#pragma unroll 2
    for (int i = 0; i < p.parts_of_channel; i++)
        m.mean += parts[i].count * parts[i].mean;
    m.mean /= m.count;
#pragma unroll 2
    for (int i = 0; i < p.parts_of_channel; i++) {
        const double delta = parts[i].mean - m.mean;
        m.squares += parts[i].squares + delta * delta * parts[i].count;
    }
    return m;
}

template <typename T> static bool has_odd_planes(const norm_plan<T> &p)
{
    return p.plane > 0 && p.plane <= MAX_PLANE &&
           p.plane % (VECTOR_BYTES / (int64_t)sizeof(T)) != 0;
}

template <typename T> static plane_tiling planes_of(const norm_plan<T> &p)
{
    return plane_tiling(p.N, p.C, p.plane, p.C * p.plane, sizeof(T), true);
}

} // namespace talc

#endif
