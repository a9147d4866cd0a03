/// The gradients of a depthwise convolution, M = OC / C outputs to an input:
///
///     dx[n, c, h, w] = sum over m, kh, kw of dy[n, c*M + m, oh, ow] * w[c*M + m, 0, kh, kw],
///                      oh * stride_h + kh * dilation_h = h + top, and across likewise
///     dw[oc, 0, kh, kw] = sum over n, oh, ow of dy[n, oc, oh, ow]
///                         * x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                              ow*stride_w - left + kw*dilation_w]
///
/// dx is a form's forward direction: at stride 1 the kernel is rotated, at stride 2 columns
/// (depthwise_columns.cuh) and else dense convolutions (depthwise_polyphase.cuh) gather its terms.
/// dw of 3x3, 5x5 and 7x7 is summed by columns (depthwise_weight_columns.cuh), any other in tiles
/// (depthwise_weight_tiles.cuh). Sums are in the data's type, in a fixed order.
#include "backends/cuda/conv2d/depthwise_weight_tiles.cuh"

using namespace talc;

static const char *refuses(const talc_conv2d_problem *p)
{
    return p->groups != p->C ? "groups are not the input channels" : NULL;
}

/* The functions of a form whose forward functions compute dx too. */
#define GRADIENT(with, form, weight_plan, weight_run)                                              \
    TALC_CUDA_FORM_OF(with, depthwise_##form##_gradient,                                           \
                      p->direction == TALC_GRAD_INPUT                                              \
                          ? talc_cuda_conv2d_depthwise_##form##_plan(device, p, limit, plan)       \
                      : refuses(p) != NULL ? refuses(p)                                            \
                                           : weight_plan,                                          \
                      p->direction == TALC_GRAD_INPUT                                              \
                          ? talc_cuda_conv2d_depthwise_##form##_run(device, p, plan, a)            \
                          : (weight_run, talc_cuda_launched(device, "conv2d")))
GRADIENT(with_f32, register_tiles, "it has no weight gradient", (void)0)
GRADIENT(with_f32, warp_tiles, "it has no weight gradient", (void)0)
GRADIENT(with_f32, columns, plan_weight_columns<T>(device, p, limit, plan),
         run_weight_columns<T>(device, p, plan, a))
GRADIENT(with_float, polyphase, plan_weight_tiles<T>(device, p, limit, plan),
         run_weight_tiles<T>(device, p, own_plan<weight_tiling>(plan), a))
