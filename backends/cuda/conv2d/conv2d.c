#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/device/blas.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/matmul/estimate.h"

#include <math.h>

/* Of 496 1x1 layers of networks and their input gradients on an H200: the launch of a pass over y,
 * recorded in a graph; what an input gradient with
 * TF32 takes of the time that such a product takes by itself; bytes a second that come on top where
 * rows are not aligned. */
static const double PASS_LAUNCH = 1e-6, TF32_GRADIENT = 0.8, TF32_UNALIGNED = 2e12;

static bool is_forward(const void *problem)
{
    return ((const talc_conv2d_problem *)problem)->direction == TALC_FORWARD;
}

static const char *op_of(const void *problem)
{
    const talc_direction direction = ((const talc_conv2d_problem *)problem)->direction;
    return direction == TALC_FORWARD      ? "conv2d"
           : direction == TALC_GRAD_INPUT ? "conv2d.grad_input"
                                          : "conv2d.grad_weight";
}

#define DIRECTIONS(name, ...)                                                                      \
    static const char *name##_plan(const talc_device *device, const void *problem, size_t limit,   \
                                   talc_plan *plan)                                                \
    {                                                                                              \
        return is_forward(problem)                                                                 \
                   ? talc_cuda_conv2d_##name##_plan(device, problem, limit, plan)                  \
                   : talc_cuda_conv2d_##name##_gradient_plan(device, problem, limit, plan);        \
    }                                                                                              \
    static talc_status name##_run(talc_device *device, const void *problem, const talc_plan *plan, \
                                  const void *arguments)                                           \
    {                                                                                              \
        const talc_status status = talc_cuda_enter(device, op_of(problem));                        \
        return status != TALC_OK ? status                                                          \
               : is_forward(problem)                                                               \
                   ? talc_cuda_conv2d_##name##_run(device, problem, plan, arguments)               \
                   : talc_cuda_conv2d_##name##_gradient_run(device, problem, plan, arguments);     \
    }
TALC_CUDA_CONV2D_TABLE(DIRECTIONS)

#define ROW(function, name, form, text, precision, map)                                            \
    { name, form, { text, precision, false }, function##_plan, function##_run },

const talc_algorithm talc_cuda_conv2d[] = { TALC_CUDA_CONV2D_TABLE(ROW){ .name = NULL } };

double talc_cuda_conv2d_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                double share, double bytes, int launches)
{
    return talc_cuda_seconds(device, problem->dtype, talc_conv2d_flops(problem), share, bytes,
                             launches);
}

double talc_cuda_conv2d_epilogue_seconds(const talc_device *device, const talc_conv2d_problem *p)
{
    const double y = (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW *
                     (double)talc_dtype_size(p->dtype);
    return p->bias || p->residual || p->activation != TALC_ACTIVATION_NONE
               ? talc_cuda_conv2d_seconds(device, p, INFINITY, y * (p->residual ? 3 : 2), 0) +
                     PASS_LAUNCH
               : 0;
}

const char *talc_cuda_conv2d_pointwise_refuses(const talc_conv2d_problem *p)
{
    if (p->KH != 1 || p->KW != 1)
        return "the kernel is not 1x1";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom != 0 || p->pad_right != 0)
        return "there is padding";
    return NULL;
}

const char *talc_cuda_conv2d_pointwise_tf32(const talc_device *device, const talc_conv2d_problem *p,
                                            talc_plan *plan)
{
    const char *reason = talc_cuda_conv2d_pointwise_refuses(p);
    if (reason == NULL)
        reason = talc_cuda_blas_refuses_tf32(device, p->dtype);
    if (reason != NULL)
        return reason;
    const int64_t OC = p->OC / p->groups, IC = p->C / p->groups, P = p->H * p->W;
    const bool weights = p->direction == TALC_GRAD_WEIGHT;
    const talc_matmul_problem product = {
        .dtype = p->dtype,
        .M = p->direction == TALC_GRAD_INPUT ? IC : OC,
        .N = weights ? IC : P,
        .K = weights                           ? P
             : p->direction == TALC_GRAD_INPUT ? OC
                                               : IC,
        .lda = weights ? P : IC,
        .ldb = P,
        .batch = p->N * p->groups,
        .batch_rank = 1,
        .batch_dims = { p->N * p->groups },
        .a_strides = { weights },
        .b_strides = { 1 },
    };
    /* Of one image cuBLAS shares the sums out, which costs about as much as it saves; what follows
     * a product is a launch of its own. */
    const bool follows = p->bias || p->residual || p->activation != TALC_ACTIVATION_NONE;
    plan->seconds = talc_cuda_matmul_tf32_seconds(&product) +
                    (product.batch == 1 ? (double)product.K * TALC_CUDA_TF32_STEP : 0) +
                    (follows ? TALC_CUDA_LAUNCH : 0);
    if (p->direction == TALC_GRAD_INPUT)
        plan->seconds *= TF32_GRADIENT;
    if (P % 4 != 0 && !weights)
        plan->seconds += talc_conv2d_bytes(p) / TF32_UNALIGNED;
    plan->missing = talc_cuda_blas_refuses;
    return NULL;
}
