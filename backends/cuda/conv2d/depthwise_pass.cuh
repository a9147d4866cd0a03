/// What kernels of depthwise convolutions compute. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_PASS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_PASS_CUH

#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/plane_sizes.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/primitives/epilogue.cuh"

namespace talc
{

/// The forward pass. An input gradient at stride 1 is one too, over dy, with the rotated kernel
/// (input_gradient.h); at another stride it stays what it is.
struct depthwise_pass : talc_conv2d_problem {
    bool rotated; ///< the kernel's taps are read backwards

    explicit depthwise_pass(const talc_conv2d_problem *p)
        : talc_conv2d_problem(*p),
          rotated(p->direction == TALC_GRAD_INPUT && p->stride_h == 1 && p->stride_w == 1)
    {
        only_inside = only_inside || p->direction == TALC_GRAD_INPUT;
        if (!rotated)
            return;
        direction = TALC_FORWARD;
        C = p->OC, H = p->OH, W = p->OW;
        OC = p->C, OH = p->H, OW = p->W;
        pad_top = p->dilation_h * (p->KH - 1) - p->pad_top;
        pad_bottom = p->dilation_h * (p->KH - 1) - p->pad_bottom;
        pad_left = p->dilation_w * (p->KW - 1) - p->pad_left;
        pad_right = p->dilation_w * (p->KW - 1) - p->pad_right;
    }

    const char *refuses() const
    {
        if (groups != (rotated ? OC : C))
            return "groups is not the number of input channels";
        if (padding_mode != TALC_PADDING_ZEROS)
            return "the padding is not zeros";
        if (direction != TALC_FORWARD || rotated) {
            if (OC != C)
                return "an input channel has several output channels";
            if (pad_top < 0 || pad_bottom < 0 || pad_left < 0 || pad_right < 0)
                return "the padding is wider than the kernel reaches";
        }
        return NULL;
    }
};

/// In a condition about a problem p: or its kernel is KH by KW, the stride S in both directions.
#define TALC_OR_IS_KERNEL(KH_, KW_, S)                                                             \
    || (p->KH == KH_ && p->KW == KW_ && p->stride_h == S && p->stride_w == S)

/// Its operands: dy and dx are x and y of an input gradient.
static inline talc_conv2d_arguments depthwise_operands(const talc_conv2d_problem *p,
                                                       const talc_conv2d_arguments *a)
{
    talc_conv2d_arguments of = *a;
    if (p->direction == TALC_GRAD_INPUT)
        of.x = a->dy, of.y = a->dx, of.bias = of.residual = NULL;
    return of;
}

} // namespace talc

#endif
