/// What a pooling window is reduced to, and where windows lie. Private to backends/cuda/pool2d.
#ifndef TALC_BACKENDS_CUDA_POOL2D_STATE_CUH
#define TALC_BACKENDS_CUDA_POOL2D_STATE_CUH

#include "backends/cuda/primitives/group.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"
#include "ops/pool2d_window.h"
#include "tensor/extent.h"

#include <limits>
#include <type_traits>

namespace /* other kernels have types of the same names */
{

using namespace talc;

// ---- States -------------------------------------------------------------------------------------

/* add() takes the taps of a window in row-major order, join() a state of any other taps. */

template <typename T, typename Index, bool SUM> struct plain_state {
    static constexpr bool AVERAGES = SUM, LOCATES = false;
    T value = SUM ? 0 : -(T)INFINITY;

    __device__ void add(T x, Index)
    {
        value = SUM ? value + x : larger_or_nan(value, x);
    }
    __device__ void join(plain_state other)
    {
        add(other.value, 0);
    }
};

template <typename T, typename Index> using maximum = plain_state<T, Index, false>;
template <typename T, typename Index> using total = plain_state<T, Index, true>;

/* Of equal elements the first, of several NaN the last; at -1: no element yet. */
template <typename T, typename Index> struct located_maximum {
    static constexpr bool AVERAGES = false, LOCATES = true;
    T value = -(T)INFINITY;
    Index at = -1;

    __device__ void add(T x, Index x_at)
    {
        if (at < 0 || x > value || x != x) {
            value = x;
            at = x_at;
        }
    }
    __device__ void join(located_maximum other)
    {
        const bool nan = value != value, other_nan = other.value != other.value;
        const bool replace = nan || other_nan
                                 ? other_nan && (!nan || other.at > at)
                                 : other.value > value || (other.value == value && other.at < at);
        if (other.at >= 0 && (at < 0 || replace))
            *this = other;
    }
};

// ---- Windows ------------------------------------------------------------------------------------

/* The taps of a window along one axis that are inside the image: first, first + dilation, ... below
 * end. */
template <typename Index> struct taps {
    Index first, end;
    Index size; ///< what an average divides by along this axis
};

/* Windows along one axis, as talc_pool2d_window_of gives them. */
template <typename Index> struct axis {
    using Unsigned = std::conditional_t<sizeof(Index) == 4, uint32_t, uint64_t>;
    Index extent, kernel, stride, pad_begin, pad_end; ///< kernel 0: adaptive
    Index reach;                                      ///< from the first tap to the last
    Index step;                                       ///< from one tap that is inside to the next
    Index whole, rest;                                ///< of extent / out
    bool exclude_padding;
    divisor<Unsigned> dilation, out;

    axis(talc_pool2d_axis a, bool exclude)
        : extent((Index)a.extent), kernel((Index)a.kernel), stride((Index)a.stride),
          pad_begin((Index)a.pad_begin), pad_end((Index)a.pad_end),
          reach((Index)((a.kernel - 1) * a.dilation)),
          step(a.kernel == 0 ? 1 : (Index)talc_pool2d_step(a)), whole((Index)(a.extent / a.out)),
          rest((Index)(a.extent % a.out)), exclude_padding(exclude)
    {
        dilation.set(a.kernel == 0 ? 1 : a.dilation);
        out.set(a.out);
    }

    /* No tap of o or of a later output is before it. */
    __device__ Index begin(Index o) const
    {
        return kernel == 0 ? window(o).first : min(max(o * stride - pad_begin, (Index)0), extent);
    }
    __device__ taps<Index> window(Index o) const
    {
        taps<Index> t;
        if (kernel == 0) {
            t.first = o * whole + (Index)out.quotient((Unsigned)(o * rest));
            t.end = (o + 1) * whole + (Index)out.quotient((Unsigned)((o + 1) * rest) + out.by - 1);
            t.size = t.end - t.first;
            return t;
        }
        /* Sums that fit whatever the kernel and its dilation are, as in talc_pool2d_window_of. */
        const Index start = o * stride - pad_begin, left = extent - start;
        const Index before =
            start < 0 ? (Index)dilation.quotient((Unsigned)(-1 - start)) + 1 : (Index)0;
        t.first = start + before * (Index)dilation.by;
        t.end = reach < left ? start + reach + 1 : extent;
        t.first = t.first < t.end ? t.first : t.end;
        const Index padded = reach < left + pad_end ? reach + 1 : left + pad_end;
        t.size = exclude_padding ? t.end - t.first : padded;
        return t;
    }
};

template <typename Index> struct window_plan {
    axis<Index> h, w;
    double divisor; ///< 0: the window's own size

    explicit window_plan(const talc_pool2d_problem *p)
        : h(talc_pool2d_axis_h(p), p->exclude_padding),
          w(talc_pool2d_axis_w(p), p->exclude_padding), divisor((double)p->divisor)
    {
    }
    /* What an average divides by. */
    template <typename T> __device__ T size(taps<Index> in_h, taps<Index> in_w) const
    {
        return divisor > 0 ? (T)divisor : (T)in_h.size * (T)in_w.size;
    }
};

/* The largest number below 1. */
template <typename T> constexpr T BELOW_ONE = 1 - std::numeric_limits<T>::epsilon() / 2;

/* Division of many sums by the same whole number: the inverse, rounded down, and the inverse's
 * remainder. Both are positive, so that infinite sums stay infinite; quotients by divisors below
 * 2^20 are correctly rounded unless subnormal. */
template <typename T> struct shared_divisor {
    T inverse, rest;

    __device__ explicit shared_divisor(T size) : inverse(1 / size)
    {
        T error = fma(-inverse, size, (T)1);
        if (error < 0) {
            inverse *= BELOW_ONE<T>; /* the next smaller number */
            error = fma(-inverse, size, (T)1);
        }
        rest = inverse * (error > 0 ? error : (T)0x1p-60);
    }
    __device__ T divide(T sum) const
    {
        return fma(sum, inverse, sum * rest);
    }
};

template <typename State, typename T, typename IndexType>
static __device__ __forceinline__ void store(State state, T *y, IndexType *indices, int64_t at)
{
    y[at] = state.value;
    if constexpr (State::LOCATES)
        indices[at] = state.at;
}

/* A tile of a block: some whole planes, or some rows of y of one plane. */
struct pool_tiling {
    int planes, rows;           ///< of y; where planes > 1, rows is OH
    divisor<uint32_t> tiles;    ///< of a plane
    uint32_t count, all_planes; ///< tiles, planes

    void set(int64_t OH, int64_t all)
    {
        tiles.set(talc_ceil_div(OH, rows));
        count = (uint32_t)(talc_ceil_div(all, planes) * talc_ceil_div(OH, rows));
        all_planes = (uint32_t)all;
    }
};

struct tile {
    uint32_t plane;       ///< the first
    int planes, oh, rows; ///< oh: the first row of y
    int top, bottom;      ///< rows of x, of each plane

    __device__ tile(const pool_tiling &tiling, uint32_t number, const axis<int> &h)
    {
        const uint32_t above = tiling.tiles.quotient(number);
        plane = above * tiling.planes;
        planes = min(tiling.planes, (int)(tiling.all_planes - plane));
        oh = (int)(number - above * tiling.tiles.by) * tiling.rows;
        rows = min(tiling.rows, (int)h.out.by - oh);
        top = tiling.planes > 1 ? 0 : h.begin(oh);
        bottom = tiling.planes > 1 ? h.extent : max(h.window(oh + rows - 1).end, top);
    }

    /* Begins to copy the rows of x into shared memory, by all threads of the block;
     * wait_for_copies() waits for them. */
    template <typename T> __device__ T *copy(const T *x, int H, int W, unsigned char *to) const
    {
        const T *from = x + ((int64_t)plane * H + top) * W;
        T *shared = (T *)to + offset_in_line(from);
        copy_to_shared(shared, from, planes * (bottom - top) * W);
        return shared;
    }
};

/* Bytes of shared memory of a block: six fit a multiprocessor. */
constexpr int64_t TILE_BYTES = 36 << 10;

// ---- Launches -----------------------------------------------------------------------------------

/* Whether 32 bits hold the coordinates and offsets of an image, with room for windows that reach
 * past its edges. */
static bool is_narrow(const talc_pool2d_problem *p)
{
    constexpr int64_t MAX = 1 << 29;
    const talc_pool2d_axis axes[] = { talc_pool2d_axis_h(p), talc_pool2d_axis_w(p) };
    for (const talc_pool2d_axis &a : axes)
        if (a.extent >= MAX || a.stride >= MAX || a.kernel >= MAX || a.dilation >= MAX ||
            a.kernel * a.dilation >= MAX || a.out >= (a.kernel > 0 ? MAX : 1 << 15))
            return false;
    return p->H <= MAX / p->W && p->OH <= MAX / p->OW;
}

/* Consecutive planes of a problem. */
template <typename T> struct plane_chunk {
    const T *x;
    T *y;
    int64_t *indices; ///< NULL: not wanted
    int64_t planes;
};

/* Calls `launch` with chunks of planes, small enough that 32 bits hold the number of their rows or
 * outputs (`a_plane` a plane). */
template <typename T, typename Launch>
static void for_plane_chunks(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                             int64_t a_plane, Launch launch)
{
    const int64_t planes = p->N * p->C, largest = INT_MAX / a_plane;
    for (int64_t first = 0; first < planes; first += largest) {
        const int64_t at = first * p->OH * p->OW;
        launch(plane_chunk<T>{ (const T *)arguments->x + first * p->H * p->W,
                               (T *)arguments->y + at, p->indices ? arguments->indices + at : NULL,
                               planes - first < largest ? planes - first : largest });
    }
}

} // namespace

#endif
