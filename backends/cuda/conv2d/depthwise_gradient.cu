/// The gradients of a depthwise convolution, M = OC / C outputs to an input:
///
///     dx[n, c, h, w] = sum over m, kh, kw of dy[n, c*M + m, oh, ow] * w[c*M + m, 0, kh, kw],
///                      oh * stride_h + kh * dilation_h = h + top, and across likewise
///     dw[oc, 0, kh, kw] = sum over n, oh, ow of dy[n, oc, oh, ow]
///                         * x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                              ow*stride_w - left + kw*dilation_w]
///
/// At stride 1 and with M = 1, dx is a depthwise convolution of dy with the rotated kernel
/// (input_gradient.h); at stride 2 square kernels have a form of their own (depthwise_phases.cuh).
/// Any other dx is made of dense convolutions (depthwise_polyphase.cuh), and so is dw
/// (depthwise_weight_tiles.cuh).
///
/// Sums are in the data's type, in a fixed order.
#include "backends/cuda/conv2d/depthwise_phases.cuh"
#include "backends/cuda/conv2d/depthwise_weight_tiles.cuh"

using namespace talc;

static const char *refuses(const talc_conv2d_problem *p)
{
    return p->groups != p->C ? "groups are not the input channels" : NULL;
}

/* Of dx by a form of the forward direction. */
static const char *refuses_rotated(const talc_conv2d_problem *p)
{
    if (refuses(p) != NULL)
        return refuses(p);
    return p->direction == TALC_GRAD_INPUT && p->OC != p->C
               ? "an input channel has several output channels"
               : NULL;
}

TALC_CUDA_FORM_ROTATED(depthwise_register_tiles, refuses_rotated(p), plan_no_weights,
                       run_no_weights)
TALC_CUDA_FORM_ROTATED(depthwise_warp_tiles, refuses_rotated(p), plan_no_weights, run_no_weights)
TALC_CUDA_FORM_ROTATED(depthwise_plane_tiles, refuses_rotated(p), plan_no_weights, run_no_weights)
TALC_CUDA_FORM_ROTATED(depthwise_outputs, refuses_rotated(p), plan_no_weights, run_no_weights)
TALC_CUDA_FORM(depthwise_polyphase_gradient,
               p->direction == TALC_GRAD_INPUT
                   ? talc_cuda_conv2d_depthwise_polyphase_plan(device, p, limit, plan)
               : refuses(p) != NULL ? refuses(p)
                                    : plan_weight_tiles<T>(device, p, limit, plan),
               p->direction == TALC_GRAD_INPUT
                   ? talc_cuda_conv2d_depthwise_polyphase_run(device, p, plan, a)
                   : (run_weight_tiles<T>(device, p, own_plan<weight_tiling>(plan), a),
                      talc_cuda_launched(device, "conv2d")))
TALC_CUDA_FORM(depthwise_phases_gradient,
               refuses(p) != NULL ? refuses(p) : plan_phases<T>(device, p, plan),
               (run_phases<T>(device, p, plan, a), talc_cuda_launched(device, "conv2d")))
