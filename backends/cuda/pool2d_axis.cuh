/// Pooling windows of every kind, output by output. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_POOL2D_AXIS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_AXIS_CUH

#include "backends/cuda/pool2d_state.cuh"

#include <type_traits>

namespace
{

using namespace talc;

/* Windows along one dimension, as talc_pool2d_window_of gives them. */
template <typename Index> struct axis {
    using Unsigned = std::conditional_t<sizeof(Index) == 4, uint32_t, uint64_t>;
    Index extent, kernel, stride, pad,
        reach;         /* kernel 0: adaptive; reach: from the first to the last tap */
    Index whole, rest; /* of extent / out */
    divisor<Unsigned> dilation, out;

    axis(talc_pool2d_axis a)
        : extent((Index)a.extent), kernel((Index)a.kernel), stride((Index)a.stride),
          pad((Index)a.pad), reach((Index)((a.kernel - 1) * a.dilation)),
          whole((Index)(a.extent / a.out)), rest((Index)(a.extent % a.out))
    {
        dilation.set(a.kernel == 0 ? 1 : a.dilation);
        out.set(a.out);
    }

    /* Taps first, first + dilation, ... below end; `padded` elements stand inside the padded image. */
    __device__ void window(Index o, Index &first, Index &end, Index &padded) const
    {
        if (kernel == 0) {
            first = o * whole + (Index)out.quotient((Unsigned)(o * rest));
            end = (o + 1) * whole + (Index)out.quotient((Unsigned)((o + 1) * rest) + out.by - 1);
            padded = end - first;
            return;
        }
        const Index start = o * stride - pad, past = start + reach + 1;
        const Index step = (Index)dilation.by;
        first = start < 0 ? start + (Index)dilation.quotient((Unsigned)(step - 1 - start)) * step
                          : start;
        end = past < extent ? past : extent;
        first = first < end ? first : end;
        padded = (past < extent + pad ? past : extent + pad) - start;
    }
};

template <typename Index> struct window_plan {
    axis<Index> h, w;
    divide average;

    explicit window_plan(const talc_pool2d_problem *p)
        : h(talc_pool2d_axis_h(p)),
          w(talc_pool2d_axis_w(p)), average{ p->exclude_padding, p->divisor }
    {
    }
};

/* Ends an output: rows by columns of its window are inside the image, h_padded by w_padded inside the padded one. */
template <typename State, typename T, typename Index>
static __device__ __forceinline__ void store_window(State state, divide average, Index rows,
                                                    Index columns, Index h_padded, Index w_padded,
                                                    T *y, int64_t *indices, int64_t at)
{
    if (State::AVERAGES && rows > 0 && columns > 0) {
        const double size = average.exclude_padding ? (double)rows * (double)columns
                                                    : (double)h_padded * (double)w_padded;
        state.value /= (T)(average.by > 0 ? (double)average.by : size);
    }
    y[at] = state.value;
    if constexpr (State::LOCATES)
        indices[at] = state.at;
}

static bool is_narrow(int64_t extent, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                      int64_t dilation)
{
    return extent < NARROW && stride < NARROW && pad < NARROW / 2 && kernel < NARROW &&
           dilation < NARROW && kernel * dilation < NARROW &&
           (kernel > 0 ? out < NARROW : out < 1 << 15);
}

/* Whether 32 bits hold the coordinates and offsets of an image, with room for windows that reach past the edge. */
static bool is_narrow(const talc_pool2d_problem *p)
{
    return is_narrow(p->H, p->OH, p->KH, p->stride_h, p->pad_h, p->dilation_h) &&
           is_narrow(p->W, p->OW, p->KW, p->stride_w, p->pad_w, p->dilation_w) &&
           p->H <= NARROW / p->W && p->OH <= NARROW / p->OW;
}

} // namespace

#endif
