/// Algorithms of typed functions: a plan of (device, problem, limit, plan) and a run of (device,
/// problem, plan, arguments), of the op's own types. A run finds the device entered. Private to
/// backends/cuda.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_ALGORITHM_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_ALGORITHM_CUH

#include "backends/cuda/cuda.h"
#include "ops/algorithm.h"

/// What an op is called where its device fails, by its arguments.
template <typename Arguments> constexpr const char *TALC_CUDA_NAME = nullptr;
#define TALC_OP(name, ...)                                                                         \
    template <> inline constexpr const char *TALC_CUDA_NAME<struct talc_##name##_arguments> = #name;
#include "ops/ops.def"

template <typename Problem>
using talc_cuda_plan = const char *(*)(const talc_device *, const Problem *, size_t, talc_plan *);
template <typename Problem, typename Arguments>
using talc_cuda_run = talc_status (*)(talc_device *, const Problem *, const talc_plan *,
                                      const Arguments *);

template <typename Problem>
const char *talc_cuda_call_plan(talc_cuda_plan<Problem> plan, const talc_device *device,
                                const void *problem, size_t limit, talc_plan *planned)
{
    return plan(device, static_cast<const Problem *>(problem), limit, planned);
}

template <typename Problem, typename Arguments>
talc_status talc_cuda_call_run(talc_cuda_run<Problem, Arguments> run, talc_device *device,
                               const void *problem, const talc_plan *planned, const void *arguments)
{
    const talc_status status = talc_cuda_enter(device, TALC_CUDA_NAME<Arguments>);
    return status != TALC_OK ? status
                             : run(device, static_cast<const Problem *>(problem), planned,
                                   static_cast<const Arguments *>(arguments));
}

template <auto PLAN>
const char *talc_cuda_algorithm_plan(const talc_device *device, const void *problem, size_t limit,
                                     talc_plan *planned)
{
    return talc_cuda_call_plan(PLAN, device, problem, limit, planned);
}

template <auto RUN>
talc_status talc_cuda_algorithm_run(talc_device *device, const void *problem,
                                    const talc_plan *planned, const void *arguments)
{
    return talc_cuda_call_run(RUN, device, problem, planned, arguments);
}

template <auto PLAN, auto RUN>
constexpr talc_algorithm talc_cuda_algorithm(const char *name, talc_arithmetic arithmetic,
                                             const char *form = nullptr)
{
    return { name, form, arithmetic, talc_cuda_algorithm_plan<PLAN>, talc_cuda_algorithm_run<RUN> };
}

#endif
