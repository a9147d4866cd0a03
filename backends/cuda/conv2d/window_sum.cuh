/// The sum of one output by its formula, for what fast kernels leave to be computed again. Private
/// to backends/cuda.
///
/// The forward pass multiplies padding as zeros, an input gradient sums only over outputs that
/// exist (talc_conv2d_problem.only_inside). The two differ where a weight is not finite, as 0 * inf
/// is NaN.
#ifndef TALC_BACKENDS_CUDA_CONV2D_WINDOW_SUM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_WINDOW_SUM_CUH

#include "backends/cuda/primitives/dtype.cuh"
#include "ops/conv2d.h"

namespace talc
{

/// An output's window, whose padding is zeros.
template <typename T> struct window_of_output {
    const T *x, *w;         ///< of the first channel: its plane, and the weight of the first tap
    int channels;           ///< of the sum
    int64_t x_step, w_step; ///< elements from one channel to the next
    int H, W, h, v;         ///< extents of a plane, and where in it the first tap is
    int KH, KW, dilation_h, dilation_w;
    int w_row, w_column; ///< elements from one tap to the next, down and across
    bool only_inside;
};

/// A call, so that kernels keep their registers: it is rare.
template <typename T>
static __device__ __noinline__ accumulator_of<T> sum_of_window(const window_of_output<T> &of)
{
    accumulator_of<T> sum = 0;
#pragma unroll 1
    for (int c = 0; c < of.channels; c++)
#pragma unroll 1
        for (int kh = 0; kh < of.KH; kh++)
#pragma unroll 1
            for (int kw = 0; kw < of.KW; kw++) {
                const int h = of.h + kh * of.dilation_h, v = of.v + kw * of.dilation_w;
                const bool inside = h >= 0 && h < of.H && v >= 0 && v < of.W;
                if (!inside && of.only_inside)
                    continue;
                const T x = inside ? of.x[c * of.x_step + h * of.W + v] : (T)0;
                sum +=
                    (accumulator_of<T>)x * of.w[c * of.w_step + kh * of.w_row + kw * of.w_column];
            }
    return sum;
}

} // namespace talc

#endif
