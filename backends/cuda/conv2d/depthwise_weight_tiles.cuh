/// The weight gradient of a depthwise convolution from tiles in shared memory, of any stride and
/// dilation (depthwise_gradient.cu). Private to backends/cuda.
///
/// A class of outputs and a pass of taps are a dense convolution (depthwise_polyphase.cuh). A block
/// has a channel, TH by TW taps of a pass, and a split of the units: tiles of the outputs of some
/// images. It copies the elements of dy and of x of a unit into shared memory, dense. A thread has
/// a sum for each tap, and of each plane V columns and some rows of dy:
///
///     row i of x          . . . . . . .     V + TW - 1 columns, in registers
///     row i - kh of dy    + + + +           V columns, of each kh
///
/// Rows of x outside the image are skipped, columns outside it are zeros, and so are columns of dy
/// that there are not: products that differ from the formula's where elements are not finite. A sum
/// of such a dy is made NaN, and sums that are NaN are computed again by the formula (end_weights).
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_WEIGHT_TILES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_WEIGHT_TILES_CUH

#include "backends/cuda/conv2d/depthwise_polyphase.cuh"
#include "backends/cuda/conv2d/depthwise_weight_columns.cuh"

namespace talc
{

constexpr int WEIGHT_THREADS = 128;

struct weight_tiling {
    polyphase_axis down, across;
    int taps;                       ///< along each side of a tile of taps: TH and TW
    int groups, bands, rows;        ///< threads across a plane and down it, and rows of dy of each
    int images;                     ///< of a unit
    int tiles_across, tiles_down;   ///< of a class
    int taps_across, taps_down;     ///< tiles of the taps of a pass
    int x_pitch, x_plane, dy_plane; ///< elements from row to row, and plane to plane
    int64_t units, splits, bytes;   ///< of a channel; bytes of shared memory

    int64_t blocks_of_split(int64_t OC) const
    {
        return OC * down.passes * across.passes * taps_across * taps_down;
    }

    /// False where no tile fits `limit` bytes.
    bool cut(const talc_conv2d_problem *p, int taps_, int64_t size, int64_t limit)
    {
        const int V = (int)(VECTOR_BYTES / size), banks = (int)(128 / size);
        const int64_t width = talc_ceil_div(across.max_outputs(), V), height = down.max_outputs();
        taps = taps_;
        taps_across = (int)talc_ceil_div(across.max_taps(), taps);
        taps_down = (int)talc_ceil_div(down.max_taps(), taps);
        groups = (int)talc_ceil_div(width, talc_ceil_div(width, WARP));
        bands = (int)talc_smaller(talc_ceil_div(height, 14), WEIGHT_THREADS / groups);
        images = (int)talc_smaller(WEIGHT_THREADS / (groups * bands), p->N);
        for (;; images > 1 ? images-- : bands > 1 ? bands-- : groups--) {
            if (groups == 0)
                return false;
            tiles_down = (int)talc_ceil_div(height, bands * 14);
            rows = (int)talc_ceil_div(height, (int64_t)tiles_down * bands);
            const int64_t read = talc_smaller((int64_t)bands * rows - 1 + taps,
                                              (down.in - 1) / down.at(0, 0).in_step + 1);
            x_pitch = (int)talc_ceil_div(groups * V - 1 + taps, V) * V;
            /* Vectors of the next plane are in the next banks. */
            const auto spread = [&](int64_t bare) {
                return (int)(bare + ((groups * V - bare) % banks + banks) % banks);
            };
            x_plane = spread(read * x_pitch), dy_plane = spread((int64_t)bands * rows * groups * V);
            bytes = talc_larger((int64_t)images * (x_plane + dy_plane),
                                (int64_t)taps * taps * WEIGHT_THREADS) *
                    size;
            if (bytes <= limit)
                break;
        }
        images = (int)talc_ceil_div(p->N, talc_ceil_div(p->N, images));
        tiles_across = (int)talc_ceil_div(width, groups);
        units =
            talc_ceil_div(p->N, images) * tiles_across * tiles_down * across.classes * down.classes;
        return true;
    }
};

// ---- Kernels ------------------------------------------------------------------------------------

template <typename T> struct weight_tile_problem {
    const T *x, *dy;
    T *sums;
    weight_tiling tiling;
    int64_t N, OC, C;
    bool aligned; ///< rows of dy begin at 16 bytes
};

template <typename T, int TAPS>
static __global__ void __launch_bounds__(WEIGHT_THREADS, TAPS *TAPS * sizeof(T) <= 200 ? 4 : 2)
    sum_weight_tiles(const __grid_constant__ weight_tile_problem<T> p)
{
    constexpr int V = VECTOR_BYTES / sizeof(T), WARPS = WEIGHT_THREADS / WARP;
    constexpr int COUNT = (2 * V + TAPS - 2) / V * V; /* columns of x that a thread reads */
    extern __shared__ __align__(CACHE_LINE) unsigned char weight_tile_bytes[];
    const weight_tiling &t = p.tiling;
    T *const x_rows = (T *)weight_tile_bytes, *const dy_rows = x_rows + t.images * t.x_plane;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    unsigned rest = blockIdx.x;
    const auto digit = [](auto &of, auto base) {
        const auto whole = of;
        of = base == 1 ? of : of / base;
        return (int)(whole - of * base);
    };
    const int64_t split = digit(rest, (unsigned)t.splits);
    const int kw0 = digit(rest, (unsigned)t.taps_across) * TAPS;
    const int kh0 = digit(rest, (unsigned)t.taps_down) * TAPS;
    const int pass_w = digit(rest, (unsigned)t.across.passes);
    const int pass_h = digit(rest, (unsigned)t.down.passes);
    const int64_t channel = rest, C = p.C, x_channel = channel / (p.OC / C);

    const int above = (int)threadIdx.x / t.groups, group = (int)threadIdx.x - above * t.groups;
    const int band = above / t.images, image = above - band * t.images;
    accumulator_of<T> sums[TAPS][TAPS] = {}, not_finite = 0;
#pragma unroll 1
    for (int64_t unit = split; unit < t.units; unit += t.splits) {
        int64_t of = unit;
        const int class_w = digit(of, (int64_t)t.across.classes);
        const int class_h = digit(of, (int64_t)t.down.classes);
        const int ow = digit(of, (int64_t)t.tiles_across) * t.groups * V;
        const int oh = digit(of, (int64_t)t.tiles_down) * t.bands * t.rows;
        const int64_t first = of * t.images;
        const int images = (int)min((int64_t)t.images, p.N - first);
        const dense_axis h = t.down.at(class_h, pass_h), w = t.across.at(class_w, pass_w);
        const int height = min(t.bands * t.rows, h.outputs - oh);
        const int width = min(t.groups * V, w.outputs - ow);
        if (height <= 0 || width <= 0)
            continue;
        const int padded = (width + V - 1) / V * V, first_row = h.in + h.in_step * (oh + kh0);
        const int2 in = inside_of(first_row, h.in_step, height - 1 + TAPS, t.down.in);
        __syncthreads(); /* the last unit is read */
        copy_rows<WEIGHT_THREADS, 1>(
            x_rows, t.x_plane, t.x_pitch,
            [&](int n) { return p.x + ((first + n) * C + x_channel) * t.down.in * t.across.in; },
            images, first_row + in.x * h.in_step, h.in_step, in.y - in.x,
            w.in + w.in_step * (ow + kw0), w.in_step, padded - 1 + TAPS, t.across.in, t.across.in);
        const auto copy_dy = [&](auto each) {
            copy_rows<WEIGHT_THREADS, decltype(each)::value>(
                dy_rows, t.dy_plane, t.groups * V,
                [&](int n) {
                    return p.dy + ((first + n) * p.OC + channel) * t.down.out * t.across.out;
                },
                images, h.out + h.out_step * oh, h.out_step, height, w.out + w.out_step * ow,
                w.out_step, padded, w.out + w.out_step * (ow + width - 1) + 1, t.across.out);
        };
        if (p.aligned && w.out_step == 1)
            copy_dy(std::integral_constant<int, V>());
        else
            copy_dy(std::integral_constant<int, 1>());
        __pipeline_commit();
        wait_for_copies();
        const int rows = min(t.rows, height - band * t.rows);
        if (image >= images || band >= t.bands || group * V >= width || rows <= 0)
            continue;
        const T *const dy = dy_rows + image * t.dy_plane + (band * t.rows * t.groups + group) * V;
        const T *const x =
            x_rows + image * t.x_plane + (band * t.rows - in.x) * t.x_pitch + group * V;
#pragma unroll 1
        for (int r = 0; r < rows; r++) {
            const vec<T, V> some = *(const vec<T, V> *)(dy + r * t.groups * V);
#pragma unroll
            for (int v = 0; v < V; v++)
                not_finite += some.of[v] * 0;
        }
#pragma unroll 1
        for (int i = 0; i < rows - 1 + TAPS; i++) {
            const int row = band * t.rows + i;
            if (row < in.x || row >= in.y)
                continue;
            T window[COUNT];
#pragma unroll
            for (int k = 0; k < COUNT; k += V) {
                const vec<T, V> some = *(const vec<T, V> *)(x + i * t.x_pitch + k);
#pragma unroll
                for (int v = 0; v < V; v++)
                    window[k + v] = some.of[v];
            }
            /* ENDS: some taps have no output in this row. */
            const auto add = [&](auto ends) {
#pragma unroll
                for (int kh = 0; kh < TAPS; kh++)
                    if (!decltype(ends)::value || (unsigned)(i - kh) < (unsigned)rows) {
                        const vec<T, V> some = *(const vec<T, V> *)(dy + (i - kh) * t.groups * V);
#pragma unroll
                        for (int v = 0; v < V; v++)
#pragma unroll
                            for (int kw = 0; kw < TAPS; kw++)
                                sums[kh][kw] += window[v + kw] * some.of[v];
                    }
            };
            if (i >= TAPS - 1 && i < rows)
                add(std::false_type());
            else
                add(std::true_type());
        }
    }

    /* The sum of all threads, of each tap by a warp. */
    accumulator_of<T> *const all = (accumulator_of<T> *)weight_tile_bytes;
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap < TAPS * TAPS; tap++)
        all[tap * WEIGHT_THREADS + (int)threadIdx.x] = sums[tap / TAPS][tap % TAPS] + not_finite;
    __syncthreads();
    const dense_axis h = t.down.at(0, pass_h), w = t.across.at(0, pass_w);
#pragma unroll 1
    for (int tap = warp; tap < TAPS * TAPS; tap += WARPS) {
        const int kh = kh0 + tap / TAPS, kw = kw0 + tap % TAPS;
        if (kh >= h.taps || kw >= w.taps)
            continue;
        accumulator_of<T> sum = 0;
#pragma unroll
        for (int i = 0; i < WEIGHT_THREADS; i += WARP)
            sum += all[tap * WEIGHT_THREADS + i + lane];
        sum = sum_of_warp(sum);
        if (lane == 0)
            p.sums[((channel * t.down.K + h.tap + kh * h.tap_step) * t.across.K + w.tap +
                    kw * w.tap_step) *
                       t.splits +
                   split] = (T)sum;
    }
}

// ---- Plan and launch ----------------------------------------------------------------------------

/// Of a block: its units' products, rows of x, copies and last sums.
static inline double weight_tile_seconds(const talc_device *device, const talc_conv2d_problem *p,
                                         const weight_tiling &t, int V)
{
    constexpr double START = 500, UNIT = 500, ROW = 20, PLANE = 4000, COPY = 8, SUM = 6;
    const double taps = t.taps, each = (double)talc_ceil_div(t.units, t.splits);
    const double products = t.rows * taps * (taps * V + 6) * inside_share(t.down);
    const double block =
        WEIGHT_THREADS *
            (START + taps * taps * SUM + each * (UNIT + products + (t.rows + taps - 1) * ROW)) +
        each * t.images * (2 * PLANE + (t.x_plane + (double)t.dy_plane / V) * COPY);
    return tiles_seconds(
        device, p, (double)(t.blocks_of_split(p->OC) * t.splits), WEIGHT_THREADS, block,
        t.taps == 3   ? 6
        : t.taps == 5 ? 5
                      : 4,
        (double)t.bytes, talc_conv2d_bytes(p) / (t.across.lcm > 1 ? 0.5 : 0.8), 8e-6, 2);
}

/// Keeps the tiles of a problem and estimates; why there are none.
template <typename T>
static const char *plan_weight_tiles(const talc_device *device, const talc_conv2d_problem *p,
                                     size_t limit, talc_plan *plan)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    weight_tiling t;
    if (p->H < 1 || p->W < 1 || p->N < 1)
        return "there is nothing to compute";
    if (!t.down.set(p->stride_h, p->dilation_h, p->KH, p->pad_top, p->H, p->OH, false) ||
        !t.across.set(p->stride_w, p->dilation_w, p->KW, p->pad_left, p->W, p->OW, false))
        return "an extent, a stride or a dilation is too large";
    plan->seconds = INFINITY;
    constexpr int SIZES = ONE_SIZE<T> ? 1 : 3;
    for (int i = 0; i < 2 * SIZES; i++) {
        const int64_t shared = shared_up_to(device, POLYPHASE_SHARED * (int64_t)sizeof(T));
        if (!t.cut(p, 3 + i % SIZES * 2, sizeof(T), i < SIZES ? shared / 2 : shared))
            continue;
        /* As many splits as keep the GPU busy and the workspace holds, of as many units each. */
        const size_t each = (size_t)(p->OC * p->KH * p->KW) * sizeof(T);
        const int64_t busy = (int64_t)talc_cuda_state_of(device)->multiprocessors * 8;
        int64_t splits = talc_ceil_div(busy, t.blocks_of_split(p->OC));
        splits = talc_smaller(talc_smaller(splits, t.units), (int64_t)(limit / each));
        t.splits = talc_ceil_div(t.units, talc_ceil_div(t.units, talc_larger(splits, 1)));
        const double seconds = weight_tile_seconds(device, p, t, V);
        if ((double)t.blocks_of_split(p->OC) * (double)t.splits > INT_MAX ||
            seconds >= plan->seconds)
            continue;
        plan->seconds = seconds;
        plan->workspace = t.splits > 1 ? (size_t)t.splits * each : 0;
        talc_plan_store(plan, &t, sizeof t);
    }
    return plan->seconds < INFINITY ? NULL : "a tile does not fit shared memory";
}

template <typename T>
static void run_weight_tiles(talc_device *device, const talc_conv2d_problem *p,
                             const weight_tiling &t, const talc_conv2d_arguments *a)
{
    const weight_tile_problem<T> s = { (const T *)a->x,
                                       (const T *)a->dy,
                                       (T *)(t.splits > 1 ? a->base.workspace : a->dw),
                                       t,
                                       p->N,
                                       p->OC,
                                       p->C,
                                       p->OW % (VECTOR_BYTES / (int64_t)sizeof(T)) == 0 &&
                                           is_aligned(a->dy) };
    auto kernel = &sum_weight_tiles<T, 3>;
    if constexpr (!ONE_SIZE<T>)
        kernel = t.taps == 7   ? &sum_weight_tiles<T, 7>
                 : t.taps == 5 ? &sum_weight_tiles<T, 5>
                               : kernel;
    const cudaStream_t stream = talc_cuda_stream(device);
    (void)allow_shared(kernel, shared_up_to(device, POLYPHASE_SHARED * (int64_t)sizeof(T)));
    kernel<<<(unsigned)(t.blocks_of_split(p->OC) * t.splits), WEIGHT_THREADS, (size_t)t.bytes,
             stream>>>(s);
    end_sums<T>(device, p, a, s.sums, t.splits);
}

} // namespace talc

#endif
