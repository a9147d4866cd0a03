/// Depthwise convolution of any stride and dilation, and its input gradient, as dense convolutions
/// at stride 1 (polyphase decomposition). Private to backends/cuda.
///
/// Along an axis, with L = lcm(stride, dilation) and g = gcd(stride, dilation), outputs of one
/// class, those dilation / g apart, read through taps of one pass, those stride / g apart, every
/// L-th element of x, each output one element further than the one before: a dense convolution. An
/// output is the sum of its passes. Of the input gradient, elements of dx that are L apart are a
/// class, which reads every (dilation / g)-th element of dy through one pass of taps at most.
///
/// A block computes a tile of a class, of some images and channels. For each pass it copies the
/// elements of x that the tile reads into shared memory, dense, and the taps of its channels. A
/// thread has the sums of RH by RW outputs in registers. It loops over the rows of x that they read
/// and adds each to all the sums that it belongs to:
///
///     x in shared memory                   sums
///     . . . . . . . . . . .  row i         + + + + + + +  row d,  to which row i is tap kh = i - d
///     . . . . . . . . . . .                + + + + + + +
///     RW + KW - 1 columns                  RW columns
///
/// With RW odd, lanes read different banks of shared memory. Taps are read 16 bytes at a time, the
/// same in all lanes of a channel. Rows outside x are skipped, columns outside it are zeros; where
/// a weight is not finite, outputs are computed again by the formula (window_sum.cuh).
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_POLYPHASE_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_POLYPHASE_CUH

#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/shared_copy.cuh"
#include "tensor/extent.h"

#include <cmath>

namespace talc
{

// ---- Axes ---------------------------------------------------------------------------------------

/// A dense convolution along an axis: element q + b of x, from x[in] on and in_step apart, times
/// tap b, from w[tap] on and tap_step apart, goes to output q, from y[out] on and out_step apart.
struct dense_axis {
    int in, in_step, tap, tap_step, taps, out, out_step, outputs;
};

/// n / by, which is 1 in most problems.
static inline __host__ __device__ int over(int n, int by)
{
    return by == 1 ? n : n / by;
}

struct polyphase_axis {
    int stride, dilation, K, pad, in, out; ///< extents of what is read and of the result
    int lcm, tap_step, y_step;             ///< lcm(stride, dilation); over dilation; over stride
    int classes, passes;
    bool is_gradient;

    /// False where a coordinate does not fit.
    bool set(int64_t stride_, int64_t dilation_, int64_t K_, int64_t pad_, int64_t in_,
             int64_t out_, bool is_gradient_)
    {
        constexpr int64_t MAX = INT_MAX / 8;
        if (K_ == 1)
            dilation_ = 1; /* which may be anything then */
        if (stride_ > 1 << 14 || dilation_ > 1 << 14 || K_ > 1 << 10 || pad_ > MAX || in_ > MAX ||
            out_ > MAX || (double)out_ * (double)stride_ > MAX)
            return false;
        const int64_t common = talc_gcd(stride_, dilation_);
        stride = (int)stride_, dilation = (int)dilation_, K = (int)K_, pad = (int)pad_;
        in = (int)in_, out = (int)out_, is_gradient = is_gradient_;
        tap_step = (int)(stride_ / common), y_step = (int)(dilation_ / common);
        lcm = stride * y_step;
        classes = (int)talc_smaller(is_gradient ? lcm : y_step, talc_larger(out_, 1));
        passes = is_gradient ? 1 : (int)talc_smaller(tap_step, K_);
        return true;
    }

    __host__ __device__ int max_taps() const
    {
        return over(K - 1, tap_step) + 1;
    }
    int max_outputs() const
    {
        return (out - 1) / (is_gradient ? lcm : y_step) + 1;
    }

    __host__ __device__ dense_axis at(int of_class, int pass) const
    {
        dense_axis a;
        a.out = of_class, a.out_step = is_gradient ? lcm : y_step;
        a.outputs = of_class < out ? over(out - 1 - of_class, a.out_step) + 1 : 0;
        a.tap = pass, a.tap_step = tap_step;
        a.in = stride * of_class + dilation * pass - pad, a.in_step = lcm;
        if (is_gradient) {
            const int end = K < tap_step ? K : tap_step;
            for (a.in = of_class + pad; stride > 1 && a.tap < end && a.in % stride != 0;
                 a.in -= dilation)
                a.tap++;
            a.in = over(a.in, stride), a.in_step = y_step;
            a.taps = a.tap < end ? over(K - 1 - a.tap, tap_step) + 1 : 0;
            a.in -= y_step * (a.taps - 1); /* backwards over the taps */
            a.tap += tap_step * (a.taps - 1);
            a.tap_step = -tap_step;
        } else {
            a.taps = over(K - 1 - a.tap, tap_step) + 1;
        }
        return a;
    }
};

// ---- Tiles --------------------------------------------------------------------------------------

constexpr int POLYPHASE_THREADS = 128, POLYPHASE_SHARED = 18 << 10; ///< elements of a block

/// A block's threads: `across` by `down` register tiles of each of `images` times `channels`
/// planes, lanes across first, then over planes.
struct polyphase_tiling {
    int64_t N, C, M; ///< planes of the result, and OC / C
    divisor<uint32_t> by_images, by_M;
    int across, down, images, channels;
    int tiles_across, tiles_down, tiles_of_images;
    int pitch, plane_pitch, w_pitch, w_plane; ///< elements from row to row, plane to plane
    int64_t blocks, bytes;

    /// False where no tile fits `limit` bytes of shared memory. Each of `multiprocessors` gets a
    /// block before any block gets planes that it could do without.
    bool cut(const polyphase_axis &h, const polyphase_axis &w, int RH, int RW, int64_t size,
             int64_t limit, int64_t multiprocessors)
    {
        const int V = (int)(VECTOR_BYTES / size), banks = (int)(128 / size);
        const int64_t tiles_w = talc_ceil_div(w.max_outputs(), RW);
        const int64_t tiles_h = talc_ceil_div(h.max_outputs(), RH);
        across = (int)talc_ceil_div(tiles_w, talc_ceil_div(tiles_w, 16));
        down = (int)talc_smaller(tiles_h, POLYPHASE_THREADS / across);
        down = (int)talc_ceil_div(tiles_h, talc_ceil_div(tiles_h, down));
        const double all = (double)N * (double)C * w.classes * h.classes *
                           (double)talc_ceil_div(tiles_w, across) *
                           (double)talc_ceil_div(tiles_h, down);
        const int64_t planes =
            (int64_t)fmin(POLYPHASE_THREADS / (across * down), ceil(all / (double)multiprocessors));
        images = (int)talc_ceil_div(N, talc_ceil_div(N, planes));
        channels = (int)talc_smaller(planes / images, C);
        w_pitch = (int)talc_ceil_div(w.max_taps(), V) * V;
        /* Vectors of taps of neighbouring channels are in different banks. */
        w_plane = (h.max_taps() * w_pitch / banks) * banks + V;
        w_plane += w_plane < h.max_taps() * w_pitch ? banks : 0;
        for (;; channels > 1 ? channels-- : images > 1 ? images-- : down > 1 ? down-- : across--) {
            if (across == 0)
                return false;
            const int64_t read = (int64_t)down * RH + h.max_taps() - 1;
            const int64_t rows = talc_smaller(read, (h.in - 1) / h.at(0, 0).in_step + 1);
            /* A lane's tile of the next plane, or row of tiles, is in the next banks. */
            const int step = w.in % V == 0 ? V : 1, planes_of_block = images * channels;
            pitch = (int)talc_smaller(across * RW + w.max_taps() - 1,
                                      (w.in - 1) / w.at(0, 0).in_step + 2 * RW + V) +
                    V - 1;
            pitch = (int)talc_ceil_div(pitch, V) * V;
            if (across * planes_of_block % WARP != 0) {
                int best = banks;
                const int first = pitch;
                for (int p = first; p < first + banks; p += step) {
                    const int off =
                        ((RH * p - RW * across * planes_of_block) % banks + banks) % banks;
                    if ((off < banks - off ? off : banks - off) < best)
                        best = off < banks - off ? off : banks - off, pitch = p;
                }
            }
            const int64_t bare =
                talc_ceil_div(talc_larger(rows * pitch, (int64_t)down * RH * across * RW), V) * V;
            int64_t gap = ((RW * across - bare) % banks + banks) % banks;
            const int64_t vectors = talc_ceil_div(gap, step) * step;
            gap = vectors > gap && (bare + vectors) % (2 * V) == 0 ? vectors + V : vectors;
            bytes = (channels * w_plane + planes_of_block * (bare + gap) + V) * size;
            plane_pitch = (int)(bare + gap);
            if (bytes <= limit)
                break;
        }
        images = (int)talc_ceil_div(N, talc_ceil_div(N, images));
        by_images.set(images), by_M.set(M);
        tiles_across = (int)talc_ceil_div(tiles_w, across);
        tiles_down = (int)talc_ceil_div(tiles_h, down);
        tiles_of_images = (int)talc_ceil_div(N, images);
        blocks = tiles_of_images * talc_ceil_div(C, channels) * tiles_across * tiles_down *
                 w.classes * h.classes;
        return true;
    }
};

// ---- Kernel -------------------------------------------------------------------------------------

template <typename T> struct polyphase_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    polyphase_axis down, across;
    polyphase_tiling tiling;
    bool aligned;     ///< rows of x begin at 16 bytes
    bool only_inside; ///< sums multiply no padding (ops/conv2d.h)
};

/* Elements of a dense axis from `first` on that are in the image: where they begin, of `count`, and
 * behind the last. */
static __device__ __forceinline__ int2 inside_of(int first, int step, int count, int extent)
{
    const int begin = first >= 0 ? 0 : over(-first + step - 1, step);
    const int end = first >= extent ? 0 : min(over(extent - 1 - first, step) + 1, count);
    return make_int2(begin, max(begin, end));
}

/// Divides the `rows` rows of `planes` planes among the block's threads: calls visit(plane, first,
/// step, column, columns a step) for the rows first, first + step ... and the columns from `column`
/// on that are a thread's. A power of two of lanes, up to a warp, has the columns, EACH a lane.
template <int THREADS, int EACH, typename Visit>
static __device__ __forceinline__ void for_planes(int planes, int columns, Visit visit)
{
    int shift = 0, parts = THREADS / WARP; /* warps of a plane */
    while (shift < 5 && EACH << shift < columns)
        shift++;
    while (parts > 1 && planes * parts > THREADS / WARP)
        parts /= 2;
    const int lane = (int)threadIdx.x % WARP, lanes = 1 << shift, warp = (int)threadIdx.x / WARP;
    const int first = (warp & (parts - 1)) * (WARP >> shift) + (lane >> shift);
#pragma unroll 1
    for (int plane = warp / parts; plane < planes; plane += THREADS / WARP / parts)
        visit(plane, first, parts * (WARP >> shift), (lane & (lanes - 1)) * EACH, lanes * EACH);
}

/// Begins to copy rows of planes into shared memory: the `rows` rows from `row` on that are
/// row_step apart, all in the image, of W elements, and the `columns` columns from `column` on that
/// are column_step apart, EACH at a time; those outside 0 to `end` are zeros. plane_at(i) is where
/// plane i begins.
template <int THREADS, int EACH, typename T, typename PlaneAt>
static __device__ __forceinline__ void copy_rows(T *to, int to_step, int pitch, PlaneAt plane_at,
                                                 int planes, int row, int row_step, int rows,
                                                 int column, int column_step, int columns, int end,
                                                 int W)
{
    for_planes<THREADS, EACH>(
        planes, columns, [&](int plane, int first, int step, int i, int next) {
            const T *const x = plane_at(plane) + (int64_t)(row + first * row_step) * W;
            const int64_t down = (int64_t)step * row_step * W;
#pragma unroll 1
            for (; i < columns; i += next) {
                const int at = column + i * column_step;
                const int real = at >= 0 && at < end ? EACH * (int)sizeof(T) : 0;
                const T *from = real == 0 ? x : x + at;
                unsigned shared =
                    (unsigned)__cvta_generic_to_shared(to + plane * to_step + first * pitch + i);
#pragma unroll 4
                for (int r = first; r < rows; r += step) {
                    begin_copy<EACH * sizeof(T)>(shared, from, real);
                    from += down, shared += (unsigned)(step * pitch) * (unsigned)sizeof(T);
                }
            }
        });
}

template <typename T, int RH, int RW>
static __global__ void __launch_bounds__(POLYPHASE_THREADS, RH *RW * sizeof(T) <= 112    ? 5
                                                            : RH * RW * sizeof(T) <= 224 ? 4
                                                                                         : 2)
    depthwise_polyphase(const __grid_constant__ polyphase_problem<T> p)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    extern __shared__ __align__(CACHE_LINE) unsigned char polyphase_bytes[];
    const polyphase_tiling &t = p.tiling;
    T *const weights = (T *)polyphase_bytes, *const rows = weights + t.channels * t.w_plane;

    /* The block's tile. */
    unsigned rest = blockIdx.x;
    const auto digit = [&rest](int base) {
        const unsigned of = rest;
        rest = base == 1 ? rest : rest / base;
        return (int)(of - rest * base);
    };
    const int class_w = digit(p.across.classes), class_h = digit(p.down.classes);
    const int ow = digit(t.tiles_across) * t.across * RW, oh = digit(t.tiles_down) * t.down * RH;
    const int64_t image = (int64_t)digit(t.tiles_of_images) * t.images,
                  channel = (int64_t)rest * t.channels;
    const int images = (int)min((int64_t)t.images, t.N - image);
    const int channels = (int)min((int64_t)t.channels, t.C - channel);
    const dense_axis y_down = p.down.at(class_h, 0), y_across = p.across.at(class_w, 0);
    const int height = min(t.down * RH, y_down.outputs - oh);
    const int width = min(t.across * RW, y_across.outputs - ow);
    if (height <= 0 || width <= 0)
        return;

    /* This thread's register tile. */
    const int above = (int)threadIdx.x / t.across, column = (int)threadIdx.x - above * t.across;
    const int row_of_tiles = above / (t.images * t.channels);
    const int plane = above - row_of_tiles * (t.images * t.channels);
    const int its_channel = plane / t.images, its_image = plane - its_channel * t.images;
    const bool busy = row_of_tiles * RH < height && column * RW < width && row_of_tiles < t.down &&
                      its_image < images && its_channel < channels;
    accumulator_of<T> sums[RH][RW] = {};
    bool not_finite = false;

    const int terms = p.down.is_gradient ? t.M : 1;
    const int64_t x_channels = p.down.is_gradient ? t.C * t.M : t.C / t.M;
    const int64_t x_plane = (int64_t)p.down.in * p.across.in;
    /* The first of the planes of x, and of the channels of w, that a channel of y reads. */
    const auto x_channel = [&](int64_t c) {
        return p.down.is_gradient ? c * t.M : (int64_t)t.by_M.quotient((uint32_t)c);
    };
    const auto w_channel = [&](int64_t c) { return c * terms; };

#pragma unroll 1
    for (int pass = 0; pass < terms * p.down.passes * p.across.passes; pass++) {
        const int passes = over(pass, p.across.passes), pass_w = pass - passes * p.across.passes;
        const int term = over(passes, p.down.passes), pass_h = passes - term * p.down.passes;
        const dense_axis h = p.down.at(class_h, pass_h), w = p.across.at(class_w, pass_w);
        if (h.taps == 0 || w.taps == 0)
            break; /* then no term has any */
        const int first_row = h.in + h.in_step * oh, first_column = w.in + w.in_step * ow;
        const int2 in = inside_of(first_row, h.in_step, height + h.taps - 1, p.down.in);
        const int2 in_w = inside_of(first_column, w.in_step, width + w.taps - 1, p.across.in);
        /* Columns that only products with zeros would read are not there. */
        const int gone = max(in_w.x - (RW - 1) - (V - 1), 0);
        const bool vectors = p.aligned && w.in_step == 1;
        const int skew = vectors ? (first_column + gone) & (V - 1) : 0;
        const int columns = min(width + w.taps - 1, in_w.y + RW - 1) - gone + skew;
        __syncthreads(); /* what the last pass left is read */
        const auto copy = [&](auto each) {
            copy_rows<POLYPHASE_THREADS, decltype(each)::value>(
                rows, t.plane_pitch, t.pitch,
                [&](int of) {
                    const int c = (int)t.by_images.quotient(of), n = of - c * t.images;
                    return p.x + ((image + min(n, images - 1)) * x_channels +
                                  x_channel(channel + c) + term) *
                                     x_plane;
                },
                t.images * channels, first_row + in.x * h.in_step, h.in_step, in.y - in.x,
                first_column + (gone - skew) * w.in_step, w.in_step, columns, p.across.in,
                p.across.in);
        };
        if (vectors)
            copy(std::integral_constant<int, V>());
        else
            copy(std::integral_constant<int, 1>());
        __pipeline_commit();
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < channels * h.taps * w.taps; i += POLYPHASE_THREADS) {
            const int of = i / w.taps, kw = i - of * w.taps, c = of / h.taps, kh = of - c * h.taps;
            const T weight =
                p.w[((w_channel(channel + c) + term) * p.down.K + h.tap + kh * h.tap_step) *
                        p.across.K +
                    w.tap + kw * w.tap_step];
            weights[c * t.w_plane + kh * t.w_pitch + kw] = weight;
            not_finite = not_finite || weight * 0 != 0;
        }
        wait_for_copies();
        if (!busy)
            continue;
        const T *const x_row = rows + plane * t.plane_pitch + (row_of_tiles * RH - in.x) * t.pitch +
                               column * RW + skew - gone;
        /* The taps with which this thread reads anything but zeros. */
        const int begin = max(in_w.x - (RW - 1) - column * RW, 0) & ~(V - 1);
        const int end = min(in_w.y - column * RW, w.taps);
        const T *const w_row = weights + its_channel * t.w_plane;
#pragma unroll 1
        for (int i = 0; i < RH + h.taps - 1; i++) {
            const int row = row_of_tiles * RH + i;
            if (row < in.x || row >= in.y)
                continue;
            /* ENDS: some sums have no tap in this row. */
            const auto add = [&](auto ends) {
                const T *from = x_row + i * t.pitch + begin, *tap = w_row + i * t.w_pitch + begin;
                const auto add_taps = [&](auto count) {
                    constexpr int COUNT = decltype(count)::value;
                    accumulator_of<T> window[RW + COUNT - 1];
#pragma unroll
                    for (int k = 0; k < RW + COUNT - 1; k++)
                        window[k] = from[k];
#pragma unroll
                    for (int d = 0; d < RH; d++)
                        if (!decltype(ends)::value || (unsigned)(i - d) < (unsigned)h.taps) {
                            const vec<T, COUNT> its = *(const vec<T, COUNT> *)(tap - d * t.w_pitch);
#pragma unroll
                            for (int k = 0; k < COUNT; k++)
#pragma unroll
                                for (int r = 0; r < RW; r++)
                                    sums[d][r] += window[r + k] * its.of[k];
                        }
                    from += COUNT, tap += COUNT;
                };
                int k = begin;
#pragma unroll 1
                for (; k + V <= end; k += V)
                    add_taps(std::integral_constant<int, V>());
#pragma unroll 1
                for (; k < end; k++)
                    add_taps(std::integral_constant<int, 1>());
            };
            if (i >= RH - 1 && i < h.taps)
                add(std::false_type());
            else
                add(std::true_type());
        }
    }

    /* Through shared memory, so that lanes store what is adjacent. */
    const bool again = __syncthreads_or(not_finite);
    const int result_pitch = t.across * RW;
    if (busy) {
        T *to = rows + plane * t.plane_pitch + row_of_tiles * RH * result_pitch + column * RW;
#pragma unroll
        for (int d = 0; d < RH; d++)
#pragma unroll
            for (int r = 0; r < RW; r++)
                to[d * result_pitch + r] = (T)sums[d][r];
        if (again) {
            const int64_t c = channel + its_channel;
            const bool is_gradient = p.down.is_gradient;
            window_of_output<T> of;
            of.x = p.x + ((image + its_image) * x_channels + x_channel(c)) * x_plane;
            of.channels = terms, of.x_step = x_plane, of.w_step = (int64_t)p.down.K * p.across.K;
            of.H = p.down.in, of.W = p.across.in, of.only_inside = p.only_inside;
            of.KH = is_gradient ? y_down.taps : p.down.K;
            of.KW = is_gradient ? y_across.taps : p.across.K;
            of.dilation_h = is_gradient ? y_down.in_step : p.down.dilation;
            of.dilation_w = is_gradient ? y_across.in_step : p.across.dilation;
            of.w_row = (is_gradient ? y_down.tap_step : 1) * p.across.K;
            of.w_column = is_gradient ? y_across.tap_step : 1;
            of.w = p.w + w_channel(c) * of.w_step +
                   (is_gradient && of.KH * of.KW > 0 ? y_down.tap * p.across.K + y_across.tap : 0);
#pragma unroll 1
            for (int e = 0; e < RH * RW; e++) {
                of.h = y_down.in + (oh + row_of_tiles * RH + e / RW) * y_down.in_step;
                of.v = y_across.in + (ow + column * RW + e % RW) * y_across.in_step;
                to[e / RW * result_pitch + e % RW] = (T)sum_of_window(of);
            }
        }
    }
    __syncthreads();
    const int64_t y_plane = (int64_t)p.down.out * p.across.out;
    with_activation<T>(p.last.activation, [&](auto activate) {
        for_planes<POLYPHASE_THREADS, 1>(
            t.images * channels, width, [&](int of, int first, int step, int i, int next) {
                const int c = (int)t.by_images.quotient(of), n = of - c * t.images;
                if (n >= images)
                    return;
                const int64_t at =
                    ((image + n) * t.C + channel + c) * y_plane +
                    (int64_t)(y_down.out + (oh + first) * y_down.out_step) * p.across.out +
                    y_across.out + ow * y_across.out_step;
                const int64_t down = (int64_t)step * y_down.out_step * p.across.out;
                const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[channel + c];
#pragma unroll 1
                for (; i < width; i += next) {
                    int64_t to = at + i * y_across.out_step;
                    const T *from = rows + of * t.plane_pitch + first * result_pitch + i;
#pragma unroll 4
                    for (int r = first; r < height; r += step) {
                        T result = *from + bias;
                        if (p.last.residual != nullptr)
                            result += p.last.residual[to];
                        p.y[to] = activate(result);
                        to += down, from += step * result_pitch;
                    }
                }
            });
    });
}

// ---- Plan and launch ----------------------------------------------------------------------------

/// Of f64, which networks do not have, there is one size of tiles.
template <typename T> constexpr bool ONE_SIZE = sizeof(T) == 8;

struct polyphase_plan {
    polyphase_axis down, across;
    polyphase_tiling tiling;
    int height, width; ///< of a register tile
};

/* The share of the products of an axis that are with elements of x. */
static inline double inside_share(const polyphase_axis &a)
{
    const dense_axis d = a.at(0, 0);
    const double taps = a.max_taps(), outputs = a.max_outputs();
    const double before = fmin(fmax(-(double)d.in / d.in_step, 0), outputs);
    const double after =
        fmin(fmax(((double)d.in - a.in) / d.in_step + outputs + taps - 1, 0), outputs);
    return fmax(1 - (before * before + after * after) / 2 / (outputs * taps), 0.1);
}

/* Seconds of `blocks` blocks of `work` instructions of `threads` threads and of `bytes` that move.
 * The more warps a multiprocessor has, of at most `fit` blocks by their registers, the busier it
 * is. Copies wait for products, and products for copies, of the same block, which takes `alone`
 * even where there is no other. */
static inline double tiles_seconds(const talc_device *device, const talc_conv2d_problem *p,
                                   double blocks, double threads, double work, int fit,
                                   double shared, double bytes, double alone, int launches)
{
    constexpr double SHARE = 0.9, ALONE = 4, WAITS = 0.4;
    const talc_cuda_state *state = talc_cuda_state_of(device);
    const double resident = fmin(fmin(fit, floor((double)state->block_shared / (shared + 1024))),
                                 ceil(blocks / state->multiprocessors));
    const double warps = resident * ceil(threads / WARP);
    const double full =
        ceil(blocks / (state->multiprocessors * resident)) * resident * state->multiprocessors;
    const double computing = talc_cuda_seconds(device, p->dtype, (full + blocks) * work,
                                               SHARE * warps / (warps + ALONE), 0, 0);
    const double moving = talc_cuda_seconds(device, p->dtype, 0, 1, bytes, 0);
    return fmax(fmax(computing, moving), alone) + WAITS * fmin(computing, moving) +
           launches * TALC_CUDA_LAUNCH;
}

/* A block's instructions: of its products, by threads, of planes that it copies and stores, and of
 * their elements. */
static inline double polyphase_seconds(const talc_device *device, const talc_conv2d_problem *p,
                                       const polyphase_plan &own, int64_t V)
{
    constexpr double START = 1000, PASS = 400, ROW = 3, TAP = 1.5, RESULT = 14, PLANE = 4000,
                     COPY = 8;
    const polyphase_tiling &t = own.tiling;
    const double tile = own.height * own.width, rows = own.down.max_taps();
    const double whole = (double)(own.across.max_taps() / V * V),
                 rest = own.across.max_taps() - whole, columns = whole + rest * TAP + ROW;
    const double passes =
        (double)(own.down.is_gradient ? t.M : 1) * own.down.passes * own.across.passes;
    const double planes = (double)t.images * t.channels, threads = planes * t.across * t.down;
    const double inside = inside_share(own.down);
    const double block =
        ceil(threads / WARP) * WARP *
            (tile * (passes * rows * columns * inside + RESULT) + START + passes * PASS) +
        passes * planes * (PLANE + t.plane_pitch * (own.across.in % V == 0 ? COPY / V : COPY));
    /* A warp without others waits for each pass, each plane and what products read. */
    const double pass = 2.2e-6 + planes * 0.11e-6 +
                        (tile + 4 * own.height) * rows * (whole + rest * 3 + ROW) * inside * 1e-9;
    return tiles_seconds(device, p, (double)t.blocks, threads, block, own.height == 7 ? 4 : 5,
                         (double)t.bytes, talc_conv2d_bytes(p) / (own.across.lcm > 1 ? 0.5 : 0.8),
                         1e-6 + passes * pass, 1);
}

/// Keeps the tiles of a problem, forward or of its input gradient, and estimates; why there are
/// none.
template <typename T>
static const char *plan_polyphase(const talc_device *device, const talc_conv2d_problem *p,
                                  talc_plan *plan)
{
    const bool is_gradient = p->direction == TALC_GRAD_INPUT;
    const int64_t limit = shared_up_to(device, POLYPHASE_SHARED * (int64_t)sizeof(T));
    polyphase_plan own;
    if (p->H < 1 || p->W < 1 || p->N < 1)
        return "there is nothing to compute";
    if (!own.down.set(p->stride_h, p->dilation_h, p->KH, p->pad_top, is_gradient ? p->OH : p->H,
                      is_gradient ? p->H : p->OH, is_gradient) ||
        !own.across.set(p->stride_w, p->dilation_w, p->KW, p->pad_left, is_gradient ? p->OW : p->W,
                        is_gradient ? p->W : p->OW, is_gradient) ||
        p->OC > INT_MAX ||
        (double)p->OC / (double)p->C * own.down.passes * own.across.passes > INT_MAX)
        return "an extent, a stride or a dilation is too large";
    plan->seconds = INFINITY;
    static const int tiles[][2] = { { 7, 7 }, { 4, 7 }, { 5, 5 } };
    for (int i = ONE_SIZE<T> ? 4 : 0; i < 6; i++) {
        polyphase_tiling &t = own.tiling;
        t.N = p->N, t.C = is_gradient ? p->C : p->OC, t.M = p->OC / p->C;
        own.height = tiles[i / 2][0], own.width = tiles[i / 2][1];
        if (!t.cut(own.down, own.across, own.height, own.width, sizeof(T),
                   i % 2 == 0 ? limit / 2 : limit, talc_cuda_state_of(device)->multiprocessors) ||
            t.blocks > INT_MAX)
            continue;
        const double seconds = polyphase_seconds(device, p, own, VECTOR_BYTES / sizeof(T));
        if (seconds >= plan->seconds)
            continue;
        plan->seconds = seconds;
        talc_plan_store(plan, &own, sizeof own);
    }
    return plan->seconds < INFINITY ? NULL : "a tile does not fit shared memory";
}

template <typename T>
static void run_polyphase(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                          const talc_conv2d_arguments *a)
{
    const polyphase_plan &own = own_plan<polyphase_plan>(plan);
    const bool is_gradient = own.down.is_gradient;
    const polyphase_problem<T> d = { (const T *)(is_gradient ? a->dy : a->x),
                                     (const T *)a->w,
                                     (T *)(is_gradient ? a->dx : a->y),
                                     is_gradient ? epilogue<T>(NULL, NULL, TALC_ACTIVATION_NONE)
                                                 : epilogue<T>(a->bias, a->residual, p->activation),
                                     own.down,
                                     own.across,
                                     own.tiling,
                                     own.across.in % (VECTOR_BYTES / sizeof(T)) == 0 &&
                                         is_aligned(is_gradient ? a->dy : a->x),
                                     is_gradient || p->only_inside };
    auto kernel = &depthwise_polyphase<T, 5, 5>;
    if constexpr (!ONE_SIZE<T>)
        kernel = own.height == 7   ? &depthwise_polyphase<T, 7, 7>
                 : own.height == 4 ? &depthwise_polyphase<T, 4, 7>
                                   : kernel;
    (void)allow_shared(kernel, shared_up_to(device, POLYPHASE_SHARED * (int64_t)sizeof(T)));
    kernel<<<(unsigned)own.tiling.blocks, POLYPHASE_THREADS, (size_t)own.tiling.bytes,
             talc_cuda_stream(device)>>>(d);
}

} // namespace talc

#endif
