/// Input gradients by the kernels of the forward direction. Private to backends/cuda.
///
/// At stride 1, dx is the convolution of dy with the kernel turned by half a turn and its channels exchanged,
///
///     dx[n, g*IC + ic, h, w] = sum over oc, kh, kw of dy'[n, g*OC + oc, h - top' + kh*dilation_h, w - left' + kw*dilation_w]
///                              * t[g*IC + ic, oc, kh, kw],          top' = dilation_h * (KH-1) - top,  left' likewise,
///     t[g*IC + ic, oc, kh, kw] = w[g*OC + oc, ic, KH-1 - kh, KW-1 - kw]
///
/// with IC and OC the channels of a group. t stands at the beginning of the workspace, the forward kernels' own after it.
///
/// At a stride the elements of dx that are congruent modulo it, a phase, are such a convolution with some of the taps: those for which
/// h + top - kh*dilation_h is a multiple of the stride. Phases are computed one after the other, for as many images as the workspace
/// holds, then put together. So no zeros are inserted into dy, and nothing is multiplied in vain.
#ifndef TALC_BACKENDS_CUDA_CONV2D_TURNED_H
#define TALC_BACKENDS_CUDA_CONV2D_TURNED_H

#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

/// A row's functions for the forward direction.
typedef const char *(*talc_cuda_forward_plan)(const talc_device *, const void *, size_t,
                                              talc_plan *);
typedef talc_status (*talc_cuda_forward_run)(talc_device *, const void *, const talc_plan *,
                                             const void *);

/// Why there is no such convolution at stride 1; NULL when there is.
const char *talc_cuda_conv2d_turned_refuses(const talc_conv2d_problem *problem);

/// A row's plan for stride 1, by its forward plan.
const char *talc_cuda_conv2d_turned_plan(talc_cuda_forward_plan forward, const talc_device *device,
                                         const talc_conv2d_problem *problem, size_t limit,
                                         talc_plan *plan);

/// Turns the weights, then runs it by the row's forward run.
talc_status talc_cuda_conv2d_turned_run(talc_cuda_forward_run forward, talc_device *device,
                                        const talc_conv2d_problem *problem, const talc_plan *plan,
                                        const talc_conv2d_arguments *arguments);

/// The same for any stride, of f32 where that is not 1.
const char *talc_cuda_conv2d_phases_plan(talc_cuda_forward_plan forward, const talc_device *device,
                                         const talc_conv2d_problem *problem, size_t limit,
                                         talc_plan *plan);
talc_status talc_cuda_conv2d_phases_run(talc_cuda_forward_plan forward_plan,
                                        talc_cuda_forward_run forward, talc_device *device,
                                        const talc_conv2d_problem *problem, const talc_plan *plan,
                                        const talc_conv2d_arguments *arguments);

/// The weight gradient on tensor cores, by `products` of f16 for one of f32; 0: the row has none (weight_gradient.cu). By mma.sync or, with
/// TALC_BY_WGMMA added, by wgmma.
enum { TALC_BY_WGMMA = 16 };
const char *talc_cuda_conv2d_weight_plan(int products, const talc_device *device,
                                         const talc_conv2d_problem *problem, size_t limit,
                                         talc_plan *plan);
talc_status talc_cuda_conv2d_weight_run(int products, talc_device *device,
                                        const talc_conv2d_problem *problem, const talc_plan *plan,
                                        const talc_conv2d_arguments *arguments);

/// The functions of a row of plan_of<Form> and run<Form>, whose input gradients are convolutions too.
#define TALC_TURNED_ROW(name, Form, products)                                                      \
    const char *talc_cuda_conv2d_##name##_plan(const talc_device *device, const void *problem,     \
                                               size_t limit, talc_plan *plan)                      \
    {                                                                                              \
        return plan_of<Form>(device, (const talc_conv2d_problem *)problem, limit, plan);           \
    }                                                                                              \
    talc_status talc_cuda_conv2d_##name##_run(talc_device *device, const void *problem,            \
                                              const talc_plan *plan, const void *arguments)        \
    {                                                                                              \
        return run<Form>(device, (const talc_conv2d_problem *)problem, plan,                       \
                         (const talc_conv2d_arguments *)arguments);                                \
    }                                                                                              \
    const char *talc_cuda_conv2d_##name##_gradient_plan(                                           \
        const talc_device *device, const void *problem, size_t limit, talc_plan *plan)             \
    {                                                                                              \
        const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;                       \
        if (p->direction == TALC_GRAD_WEIGHT)                                                      \
            return talc_cuda_conv2d_weight_plan(products, device, p, limit, plan);                 \
        return talc_cuda_conv2d_phases_plan(talc_cuda_conv2d_##name##_plan, device, p, limit,      \
                                            plan);                                                 \
    }                                                                                              \
    talc_status talc_cuda_conv2d_##name##_gradient_run(                                            \
        talc_device *device, const void *problem, const talc_plan *plan, const void *arguments)    \
    {                                                                                              \
        const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;                       \
        const talc_conv2d_arguments *a = (const talc_conv2d_arguments *)arguments;                 \
        if (p->direction == TALC_GRAD_WEIGHT)                                                      \
            return talc_cuda_conv2d_weight_run(products, device, p, plan, a);                      \
        return talc_cuda_conv2d_phases_run(talc_cuda_conv2d_##name##_plan,                         \
                                           talc_cuda_conv2d_##name##_run, device, p, plan, a);     \
    }

TALC_END_DECLARATIONS

#endif
