/// The gradients of a convolution. Private to ops: conv2d's rule and conv_transpose2d run them.
#ifndef TALC_OPS_CONV2D_GRADIENT_H
#define TALC_OPS_CONV2D_GRADIENT_H

#include "ops/conv2d.h"
#include "tensor/tape.h"

/// "conv2d", "conv2d.grad_input", "conv2d.grad_weight": what a direction is called in messages, by
/// talc_algorithm_force and in explanations.
const char *talc_conv2d_name(talc_direction direction);

/// The problem that the algorithms of a backend get for a gradient: in `direction`, without bias,
/// residual and activation, and with what another padding mode than zeros puts around the image as
/// part of the image.
talc_conv2d_problem talc_conv2d_gradient_problem(const talc_conv2d_problem *forward,
                                                 talc_direction direction);

/// dx [N,C,H,W] from dy [N,OC,OH,OW] and w, and dw [OC,C/groups,KH,KW] from x and dy, all of any
/// strides, for the forward problem. dy is taken before the activation. `forced`: NULL for the
/// thread's choice; precision 0: the thread's.
talc_tensor *talc_conv2d_grad_input(const talc_conv2d_problem *forward, const talc_tensor *dy,
                                    const talc_tensor *w, const char *forced, unsigned precision);
talc_tensor *talc_conv2d_grad_weight(const talc_conv2d_problem *forward, const talc_tensor *x,
                                     const talc_tensor *dy, const char *forced, unsigned precision);

/// Records y, the result of talc_conv2d on these operands. Returns it, NULL with a failure.
talc_tensor *talc_conv2d_record(const talc_conv2d_problem *problem, unsigned precision,
                                const talc_tensor *const operands[4], talc_tensor *y);

#endif
