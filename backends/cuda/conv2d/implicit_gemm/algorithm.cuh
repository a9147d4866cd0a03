/// The plan and run functions of the implicit_gemm algorithms. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_ALGORITHM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_ALGORITHM_CUH

#include "backends/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "backends/cuda/conv2d/implicit_gemm/split_k.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/gemm/costs.h"
#include "backends/cuda/gemm/epilogue.cuh"

namespace talc
{

template <typename Form>
static const char *plan_of(const talc_device *device, const talc_conv2d_problem *p, size_t limit,
                           talc_plan *plan)
{
    const talc_cuda_state &gpu = *talc_cuda_state_of(device);
    talc_gemm_layout g;
    talc_gemm_choice choice;
    const char *reason =
        talc_gemm_plan(&g, &Form::VALUES, p, gemm_gpu_of(gpu), limit, &choice, &plan->seconds);
    if (reason != NULL)
        return reason;
    /* Outputs wait for the residual, which is read at a third of the rate of memory. */
    if (p->residual)
        plan->seconds += (double)g.outputs * sizeof(float) / IMPLICIT_RESIDUAL_MEMORY;
    plan->workspace = talc_gemm_workspace(&g, &Form::VALUES);
    if (!g.gradient) {
        plan->cached = talc_gemm_cached_bytes(&g, &Form::VALUES);
        plan->cached_form = (int64_t)talc_gemm_channel_rows(&g) << 16 | g.bands << 8 |
                            choice.channels * 2 | Form::STAGED << 1 | choice.folded;
    }
    talc_plan_store(plan, &choice, sizeof choice);
    return NULL;
}

template <typename Form>
static talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    const talc_gemm_choice *choice = (const talc_gemm_choice *)talc_plan_data(plan);
    const talc_cuda_state &gpu = *talc_cuda_state_of(device);
    gemm_problem g = {};
    (void)gemm_problem_of<Form>(p, g);
    (void)talc_gemm_set_tiles(&g, &Form::VALUES, p, gemm_gpu_of(gpu), *choice);
    gemm_fill_shifts(g);
    const size_t cached_bytes = talc_gemm_cached_bytes(&g, &Form::VALUES);
    __half *packed = (__half *)(a->base.cached != NULL ? a->base.cached : a->base.workspace);
    char *rest = (char *)a->base.workspace + (a->base.cached != NULL ? 0 : cached_bytes);
    int *exponents = (int *)((char *)packed + talc_gemm_packed_bytes(&g, &Form::VALUES));
    const int64_t rows = talc_gemm_channel_rows(&g);
    float *thresholds = (float *)(exponents + rows);
    g.x = (const float *)(g.gradient ? a->dy : a->x), g.w = (const float *)a->w;
    g.y = (float *)(g.gradient ? a->dx : a->y);
    g.aligned = (uintptr_t)g.x % 16 == 0;
    g.pairs = g.dx.stride_w == 2 && g.dx.W % 2 == 0 && (uintptr_t)g.y % 8 == 0;
    g.packed = packed, g.exponents = exponents, g.thresholds = thresholds;
    g.recomputed = talc_cuda_recomputed(device);
    g.last = epilogue<float>(a->bias, a->residual, p->activation);
    const size_t shared = talc_gemm_shared_bytes(&g, &Form::VALUES);
    const cudaStream_t stream = talc_cuda_stream(device);
    const auto kernel = &implicit_gemm<Form>;
    const cudaError_t error =
        allow_shared(kernel, talc_gemm_shared_capacity(&Form::VALUES, gemm_gpu_of(gpu)));
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    const int64_t k_tiles = talc_gemm_packed_halo_tiles(&g);
    halo_tile_info *infos = (halo_tile_info *)(rest + k_tiles * g.halo_tile_bytes);
    const packed_operands to = { rest, infos, packed, exponents, thresholds };
    g.halo_tiles = rest, g.halo_infos = infos;
    rest += talc_gemm_packed_halo_bytes(&g);
    const float *w = g.w;
    if constexpr (Form::PHASES) {
        float *transposed = (float *)rest;
        const int64_t blocks = (int64_t)g.groups *
                               talc_ceil_div(g.dx.group_channels, TRANSPOSED_ROWS) *
                               talc_ceil_div(g.group_in, TRANSPOSED_COLUMNS);
        transpose_weights<<<(unsigned)blocks, BLOCK, 0, stream>>>(g, transposed);
        w = transposed;
    }
    const int64_t blocks = k_tiles + (a->base.cached_ready ? 0 : rows);
    if (blocks > 0)
        pack<Form><<<(unsigned)blocks, BLOCK, 0, stream>>>(g, w, (int)k_tiles, to);
    const int grid = talc_gemm_blocks_of(&g, gpu.multiprocessors);
    if (g.splits == 1) {
        g.last.activation = without_calls(p->activation);
        kernel<<<grid, GEMM_THREADS<Form>, shared, stream>>>(g);
        end_called(device, p->activation, g.y, g.outputs);
    } else {
        g.recompute_limits = (float *)rest;
        gemm_problem split = g;
        split.y = g.recompute_limits + talc_gemm_limits_bytes(&g) / sizeof(float);
        split.last = epilogue<float>(NULL, NULL, TALC_ACTIVATION_NONE);
        kernel<<<grid, GEMM_THREADS<Form>, shared, stream>>>(split);
        split_sums sums;
        sums.of = split.y;
        const int64_t OH = g.interleaves ? g.dx.H : g.OH, OW = g.interleaves ? g.dx.W : g.OW;
        sums.by_plane = talc_divisor_of(OH * OW), sums.by_width = talc_divisor_of(OW);
        sums.by_channels = talc_divisor_of(g.OC);
        sums.by_group = talc_divisor_of(g.OC / g.groups);
        sums.by_columns = talc_divisor_of(g.tile_columns),
        sums.by_rows = talc_divisor_of(g.tile_rows);
        add_splits<Form::PHASES>
            <<<grid_for_threads(device, g.outputs), BLOCK, 0, stream>>>(g, sums);
    }
    return talc_cuda_launched(device, "conv2d");
}

} // namespace talc

/// The functions of a form and of its gradients. Form<true> is for dx at a stride. At stride 1, dx
/// is a forward pass with the rotated kernel. `products` is as for the weight gradient.
#define TALC_CUDA_IMPLICIT_GEMM(name, Form, products)                                              \
    TALC_CUDA_FORM(name, plan_of<Form<false>>(device, p, limit, plan),                             \
                   run<Form<false>>(device, p, plan, a))                                           \
    TALC_CUDA_FORM(                                                                                \
        name##_gradient,                                                                           \
        p->direction == TALC_GRAD_WEIGHT                                                           \
            ? talc_cuda_conv2d_weight_plan(products, device, p, limit, plan)                       \
        : p->stride_h * p->stride_w > 1                                                            \
            ? plan_of<Form<true>>(device, p, limit, plan)                                          \
            : talc_cuda_conv2d_rotated_plan(talc_cuda_conv2d_##name##_plan, device, p, limit,      \
                                            plan),                                                 \
        p->direction == TALC_GRAD_WEIGHT                                                           \
            ? talc_cuda_conv2d_weight_run(products, device, p, plan, a)                            \
        : p->stride_h * p->stride_w > 1                                                            \
            ? run<Form<true>>(device, p, plan, a)                                                  \
            : talc_cuda_conv2d_rotated_run(talc_cuda_conv2d_##name##_run, device, p, plan, a))

#endif
