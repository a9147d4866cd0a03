/// The gradients of a 1x1 convolution, or of a linear layer (linear.h), as matrix products by
/// cuBLAS without any copy. For each image n and group g,
///
///     dx[n, g, ic, j] = sum over oc of w[g, oc, ic] * dy[n, g, oc, j],        j = oh * OW + ow
///     dw[g, oc, ic] = sum over n, j of dy[n, g, oc, j] * x[n, g, ic, j]
///
/// dx takes one batched product and no workspace; dw is made in sums beside each other (split_k.h).
/// Where the kernel covers the image, each is one product whose rows or terms are the images.
/// Arithmetic: the data's type, or operands rounded to TF32. With TF32 each image has a sum of its
/// own, which are added up; a linear layer has one sum.
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/conv2d/linear.h"
#include "backends/cuda/conv2d/split_k.h"
#include "backends/cuda/device/blas.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/matmul/estimate.h"

#include <math.h>

/* Of more images dw is made in sums beside each other. */
enum { LINEAR_IMAGES = 4096 };

static bool runs_linear(const talc_conv2d_problem *p)
{
    return talc_cuda_conv2d_is_linear(p) &&
           (p->direction == TALC_GRAD_INPUT || p->N <= LINEAR_IMAGES);
}

/* Whether a plan is done: that of a linear layer. */
static bool plan_linear(const talc_device *device, const talc_conv2d_problem *p, bool tf32,
                        talc_plan *plan)
{
    if (!runs_linear(p))
        return false;
    const talc_matmul_problem m = talc_cuda_conv2d_linear(p);
    plan->missing = talc_cuda_blas_refuses;
    plan->seconds =
        tf32 ? talc_cuda_matmul_tf32_seconds(&m) : talc_cuda_matmul_cublas_seconds(device, &m);
    return true;
}

static talc_status run_linear(talc_device *device, const talc_conv2d_problem *p,
                              const talc_conv2d_arguments *a, bool tf32)
{
    const talc_matmul_problem m = talc_cuda_conv2d_linear(p);
    const bool input = p->direction == TALC_GRAD_INPUT;
    return talc_cuda_multiply(device, input ? "conv2d.grad_input" : "conv2d.grad_weight",
                              &(talc_cuda_product){ .dtype = m.dtype,
                                                    .M = m.M,
                                                    .N = m.N,
                                                    .K = m.K,
                                                    .a = a->dy,
                                                    .b = input ? a->w : a->x,
                                                    .c = input ? a->dx : a->dw,
                                                    .lda = m.lda,
                                                    .ldb = m.ldb,
                                                    .ldc = m.N,
                                                    .transpose_a = m.transpose_a,
                                                    .tf32 = tf32,
                                                    .batch = 1 });
}

const char *talc_cuda_conv2d_pointwise_cublas_gradient_plan(const talc_device *device,
                                                            const void *problem, size_t limit,
                                                            talc_plan *plan)
{
    const talc_conv2d_problem *p = problem;
    if (plan_linear(device, p, false, plan))
        return NULL;
    if (talc_cuda_conv2d_pointwise_refuses(p) != NULL)
        return talc_cuda_conv2d_pointwise_refuses(p);
    plan->missing = talc_cuda_blas_refuses;
    if (p->direction == TALC_GRAD_INPUT) {
        plan->seconds =
            talc_cuda_conv2d_blas_seconds(device, p, (double)(p->C / p->groups),
                                          (double)(p->H * p->W), (double)(p->OC / p->groups));
        return NULL;
    }
    const talc_cuda_conv2d_sums_plan sums =
        talc_cuda_conv2d_sums_cut(device, p, p->C / p->groups, p->N, p->H * p->W, limit);
    plan->workspace = sums.bytes;
    plan->seconds = (double)p->groups * talc_cuda_conv2d_sums_seconds(
                                            device, p, &sums, p->C / p->groups, p->N, p->H * p->W);
    talc_plan_store(plan, &sums, sizeof sums);
    return NULL;
}

const char *talc_cuda_conv2d_pointwise_cublas_tf32_gradient_plan(const talc_device *device,
                                                                 const void *problem, size_t limit,
                                                                 talc_plan *plan)
{
    const talc_conv2d_problem *p = problem;
    const char *refusal = talc_cuda_blas_refuses_tf32(device, p->dtype);
    if (refusal == NULL && plan_linear(device, p, true, plan))
        return NULL;
    refusal = talc_cuda_conv2d_pointwise_tf32(device, p, plan);
    if (refusal != NULL)
        return refusal;
    talc_cuda_conv2d_sums_plan sums = { .slots = 0 };
    if (p->direction == TALC_GRAD_WEIGHT) {
        sums = talc_cuda_conv2d_sums_whole(p, p->C / p->groups);
        if (sums.bytes > limit)
            sums = talc_cuda_conv2d_sums_cut(device, p, p->C / p->groups, p->N, p->H * p->W, limit);
        plan->workspace = sums.bytes;
        plan->seconds += talc_cuda_conv2d_seconds(device, p, INFINITY, 2.0 * (double)sums.bytes, 1);
        plan->seconds += (double)(p->groups - 1) * (TALC_CUDA_LAUNCH + TALC_CUDA_CUBLAS);
    }
    talc_plan_store(plan, &sums, sizeof sums);
    return NULL;
}

/* The images' planes of a group are B. */
static talc_status grad_weight(talc_device *device, const talc_conv2d_problem *p,
                               const talc_plan *plan, const talc_conv2d_arguments *arguments,
                               bool tf32)
{
    const int64_t IC = p->C / p->groups, P = p->H * p->W;
    talc_status status = TALC_OK;
    for (int64_t g = 0; g < p->groups && status == TALC_OK; g++) {
        talc_cuda_conv2d_sums sums = {
            .plan = *(const talc_cuda_conv2d_sums_plan *)talc_plan_data(plan),
            .workspace = arguments->base.workspace,
            .group = g,
            .rows = IC,
        };
        const talc_cuda_conv2d_chunk chunk = {
            .slices = p->N,
            .columns = P,
            .rows = IC,
            .b = (char *)arguments->x + g * IC * P * (int64_t)talc_dtype_size(p->dtype),
            .ldb = P,
            .b_stride = p->C * P,
            .tf32 = tf32,
        };
        status = talc_cuda_conv2d_sums_add(device, p, arguments, &chunk, &sums);
        if (status == TALC_OK)
            status = talc_cuda_conv2d_sums_end(device, p, arguments, &sums);
    }
    return status;
}

static talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *arguments, bool tf32)
{
    if (runs_linear(p))
        return run_linear(device, p, arguments, tf32);
    if (p->direction == TALC_GRAD_WEIGHT)
        return grad_weight(device, p, plan, arguments, tf32);
    const int64_t IC = p->C / p->groups, P = p->H * p->W;
    const talc_cuda_conv2d_chunk chunk = {
        .slices = p->N * p->groups,
        .columns = P,
        .rows = IC,
        .b = arguments->dx,
        .ldb = P,
        .b_stride = IC * P,
        .tf32 = tf32,
    };
    return talc_cuda_conv2d_multiply(device, p, arguments, &chunk);
}

talc_status talc_cuda_conv2d_pointwise_cublas_gradient_run(talc_device *device, const void *problem,
                                                           const talc_plan *plan, const void *given)
{
    return run(device, problem, plan, given, false);
}

talc_status talc_cuda_conv2d_pointwise_cublas_tf32_gradient_run(talc_device *device,
                                                                const void *problem,
                                                                const talc_plan *plan,
                                                                const void *given)
{
    return run(device, problem, plan, given, true);
}
