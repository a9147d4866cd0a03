/// The functions that algorithms.h declares for an algorithm, from what tells it apart. Private to
/// backends/cuda.
///
/// A plan is an expression that gives a refusal or NULL, a run one that gives a talc_status. Both
/// may use `device`, `p`, the problem, `plan` and T, the element type; a plan also `limit`, a run
/// also `a`, the arguments. `name` ends in _gradient for the functions of its gradients.
#ifndef TALC_BACKENDS_CUDA_CONV2D_FORM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_FORM_CUH

#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/conv2d/input_gradient.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda/primitives/dtype.cuh"

#define TALC_CUDA_FORM_PLAN(name)                                                                  \
    const char *talc_cuda_conv2d_##name##_plan(                                                    \
        [[maybe_unused]] const talc_device *device, [[maybe_unused]] const void *problem,          \
        [[maybe_unused]] size_t limit, [[maybe_unused]] talc_plan *plan)

#define TALC_CUDA_FORM_RUN(name)                                                                   \
    talc_status talc_cuda_conv2d_##name##_run(                                                     \
        [[maybe_unused]] talc_device *device, [[maybe_unused]] const void *problem,                \
        [[maybe_unused]] const talc_plan *plan, [[maybe_unused]] const void *arguments)

#define TALC_CUDA_FORM_OF(with, name, plan_it, run_it)                                             \
    TALC_CUDA_FORM_PLAN(name)                                                                      \
    {                                                                                              \
        const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;                       \
        return talc::with(p->dtype, [&](auto element) -> const char * {                            \
            using T [[maybe_unused]] = typename decltype(element)::type;                           \
            return plan_it;                                                                        \
        });                                                                                        \
    }                                                                                              \
    TALC_CUDA_FORM_RUN(name)                                                                       \
    {                                                                                              \
        const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;                       \
        const talc_conv2d_arguments *a = (const talc_conv2d_arguments *)arguments;                 \
        return talc::with(p->dtype, [&](auto element) -> talc_status {                             \
            using T [[maybe_unused]] = typename decltype(element)::type;                           \
            return run_it;                                                                         \
        });                                                                                        \
    }

#define TALC_CUDA_FORM(name, ...)     TALC_CUDA_FORM_OF(with_float, name, __VA_ARGS__)

/// Of a form for f32 alone.
#define TALC_CUDA_FORM_F32(name, ...) TALC_CUDA_FORM_OF(with_f32, name, __VA_ARGS__)

/// The functions of an algorithm without a weight gradient. plan_of<Form> and run<Form> are the
/// forward direction, which also computes the input gradient (input_gradient.h).
#define TALC_CUDA_FORM_WITH_PHASES(name, Form)                                                     \
    TALC_CUDA_FORM_F32(name, plan_of<Form>(device, p, limit, plan), run<Form>(device, p, plan, a)) \
    TALC_CUDA_FORM_F32(name##_gradient,                                                            \
                       p->direction == TALC_GRAD_WEIGHT                                            \
                           ? "it has no weight gradient"                                           \
                           : talc_cuda_conv2d_phases_plan(talc_cuda_conv2d_##name##_plan, device,  \
                                                          p, limit, plan),                         \
                       talc_cuda_conv2d_phases_run(talc_cuda_conv2d_##name##_plan,                 \
                                                   talc_cuda_conv2d_##name##_run, device, p, plan, \
                                                   a))

namespace talc
{

/// What an algorithm keeps of its plan, for its run.
template <typename Own> const Own &own_plan(const talc_plan *plan)
{
    static_assert(sizeof(Own) <= sizeof plan->data, "a plan keeps it");
    return *(const Own *)talc_plan_data(plan);
}

} // namespace talc

#endif
