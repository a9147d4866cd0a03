/// What pooling windows come to, for every way of walking through them. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_POOL2D_STATE_CUH
#define TALC_BACKENDS_CUDA_POOL2D_STATE_CUH

#include "backends/cuda/group.cuh"
#include "ops/pool2d_window.h"

/* Other kernels have types of the same names. */
namespace
{

/* Images whose coordinates and offsets fit 32 bits, with room for windows that reach past the edge. */
constexpr int64_t NARROW = 1 << 29;

/* All three take taps in row-major order and join states of which the other one may come from anywhere, or, join_next, is of
 * taps that come later. Where both have taps already, or padding that counts as one, join_more does the same as join_next, and
 * add_more the same as add. */
template <typename T, typename Index> struct maximum {
    static constexpr bool AVERAGES = false, LOCATES = false;
    T value = -(T)INFINITY;

    /* A NaN replaces what is there, and nothing replaces a NaN. */
    __device__ void add(T x, Index)
    {
        value = talc::larger_or_nan(value, x);
    }
    __device__ void join(maximum other)
    {
        add(other.value, 0);
    }
    __device__ void join_next(maximum other)
    {
        add(other.value, 0);
    }
    __device__ void join_more(maximum other)
    {
        add(other.value, 0);
    }
};

/* Of equal elements the first, of several NaN the last. */
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
    __device__ void add_more(T x, Index x_at)
    {
        if (x > value || x != x) {
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
    __device__ void join_next(located_maximum other)
    {
        if (other.at >= 0)
            add(other.value, other.at);
    }
    __device__ void join_more(located_maximum other)
    {
        add_more(other.value, other.at);
    }
};

template <typename T, typename Index> struct total {
    static constexpr bool AVERAGES = true, LOCATES = false;
    T value = 0;

    __device__ void add(T x, Index)
    {
        value += x;
    }
    __device__ void join(total other)
    {
        value += other.value;
    }
    __device__ void join_next(total other)
    {
        value += other.value;
    }
    __device__ void join_more(total other)
    {
        value += other.value;
    }
};

/* What an average is divided by when it is not the window's own size; 0: it is. */
struct divide {
    bool exclude_padding;
    int64_t by;
};

/* Division by a whole number that many sums share, of two parts of its inverse, both above zero: infinite sums stay so. What the
 * parts come to is within 2^-21.4 units in the last place of the quotient, which is 2^-21 or more away from the middle of two
 * numbers where the divisor is below 2^20: there quotients are right to the last bit. So they are above 2^-105 (f64: 2^-1001) at
 * least; below, what the second part adds has fewer bits, and the last one may differ. */
template <typename T> struct shared_divisor {
    T inverse, rest;

    __device__ void set(T size)
    {
        constexpr T BELOW =
            1 - (sizeof(T) == 4 ? (T)0x1p-24 : (T)0x1p-53); /* times that: the number before */
        inverse = 1 / size;
        rest = fma(-inverse, size, (T)1);
        if (rest < 0) {
            inverse *= BELOW;
            rest = fma(-inverse, size, (T)1);
        }
        rest = inverse * (rest > 0 ? rest : (T)0x1p-60);
    }
    __device__ T divide(T sum) const
    {
        return fma(sum, inverse, sum * rest);
    }
};

/* Elements of a window of K along one axis that are inside the image (`pad` 0) or its padding. */
static __device__ int covered(int start, int K, int extent, int pad)
{
    return min(start + K, extent + pad) - max(start, -pad);
}

} // namespace

#endif
