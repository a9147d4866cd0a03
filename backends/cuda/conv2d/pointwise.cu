/// 1x1 convolution as a matrix product without any copy. For each image n and group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///
/// since the planes of a group in memory are the matrix x [C/groups, H*W] already. The forms differ
/// in the kernel that multiplies:
///
///   cublas       Batched calls of cuBLAS, a single one where groups is 1. A second kernel adds
///                bias and residual and applies the activation, in place.
///   small tiles  One launch, for small products (matmul/small.cuh).
///   dot, tiles   Kernels that cover the image, as those of images of one pixel in
///                squeeze-and-excitation blocks do: the convolution is a linear layer, one product
///                whose rows are the images. These two, and `small tiles` there, call the algorithm
///                of matmul of that name (matmul/matmul.cu).
///
/// Arithmetic: the data's type; with TF32 admitted, `cublas` may round its operands to TF32. No
/// workspace.
#include "backends/cuda/device/blas.h"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/linear.h"
#include "backends/cuda/conv2d/slice_products.h"
#include "backends/cuda/matmul/forms.h"
#include "backends/cuda/matmul/small.cuh"

using namespace talc;

// ---- Linear layers ------------------------------------------------------------------------------

using linear_plan = decltype(&talc_cuda_matmul_dot_plan);
using linear_run = decltype(&talc_cuda_matmul_dot_run);

static const char *plan_linear(linear_plan planned, const talc_device *device,
                               const talc_conv2d_problem *p, talc_plan *plan)
{
    if (!talc_cuda_conv2d_is_linear(p))
        return "the kernel does not cover the image, or groups is not 1";
    const talc_matmul_problem m = talc_cuda_conv2d_linear(p);
    return planned(device, &m, 0, plan);
}

static talc_status run_linear(linear_run run, talc_device *device, const talc_conv2d_problem *p,
                              const talc_plan *plan, const talc_conv2d_arguments *a)
{
    const talc_matmul_problem m = talc_cuda_conv2d_linear(p);
    const talc_matmul_arguments its = { {}, a->y, a->x, a->w, a->bias, a->residual };
    return run(device, &m, plan, &its);
}

// ---- Small tiles --------------------------------------------------------------------------------

static const char *plan_small_tiles(const talc_device *device, const talc_conv2d_problem *p,
                                    talc_plan *plan)
{
    if (talc_cuda_conv2d_is_linear(p))
        return plan_linear(talc_cuda_matmul_small_tiles_plan, device, p, plan);
    if (talc_cuda_conv2d_pointwise_refuses(p) != NULL)
        return talc_cuda_conv2d_pointwise_refuses(p);
    if (p->groups != 1)
        return "groups is not 1";
    plan->seconds = small::seconds(device, p->dtype, p->OC, p->H * p->W, p->C, p->N);
    return plan->seconds < INFINITY ? NULL : small::TOO_MANY;
}

/* For each image, a = w [OC, C], contiguous along k, times b = x [C, P], contiguous along its
 * columns, with a bias for each row. All images share a, so its stride in the batch is 0. */
template <typename T>
static talc_status run_small_tiles(talc_device *device, const talc_conv2d_problem *p,
                                   const talc_plan *plan, const talc_conv2d_arguments *a)
{
    if (talc_cuda_conv2d_is_linear(p))
        return run_linear(talc_cuda_matmul_small_tiles_run, device, p, plan, a);
    constexpr int V = small::VECTOR<T>;
    const int64_t P = p->H * p->W, image[] = { p->C * P }, none[] = { 0 };
    const small::problem<T> s = { { (const T *)a->w, p->OC, p->C,
                                    is_aligned(a->w) && p->C % V == 0 },
                                  { (const T *)a->x, P, P, is_aligned(a->x) && P % V == 0 },
                                  (T *)a->y,
                                  epilogue<T>(a->bias, a->residual, p->activation),
                                  true,
                                  p->C,
                                  p->N };
    small::run<T, true, false>(device, s, strided_index<2, uint64_t>(1, &p->N, { none, image }));
    return talc_cuda_launched(device, "conv2d");
}

// ---- cuBLAS -------------------------------------------------------------------------------------

static const char *plan_cublas(const talc_device *device, const talc_conv2d_problem *p,
                               talc_plan *plan)
{
    if (talc_cuda_conv2d_pointwise_refuses(p) != NULL)
        return talc_cuda_conv2d_pointwise_refuses(p);
    if (talc_cuda_conv2d_is_linear(p))
        return "the kernel covers the image";
    plan->seconds =
        talc_cuda_conv2d_blas_seconds(device, p, (double)(p->OC / p->groups), (double)(p->H * p->W),
                                      (double)(p->C / p->groups)) +
        talc_cuda_conv2d_epilogue_seconds(device, p);
    plan->missing = talc_cuda_blas_refuses;
    return NULL;
}

/* With operands rounded to TF32. */
static const char *plan_cublas_tf32(const talc_device *device, const talc_conv2d_problem *p,
                                    talc_plan *plan)
{
    if (talc_cuda_conv2d_is_linear(p))
        return "the kernel covers the image";
    return talc_cuda_conv2d_pointwise_tf32(device, p, plan);
}

template <typename T>
static talc_status run_cublas(talc_device *device, const talc_conv2d_problem *p,
                              const talc_conv2d_arguments *a, bool tf32)
{
    const int64_t IC = p->C / p->groups, P = p->H * p->W;
    talc_cuda_conv2d_chunk chunk = {};
    chunk.slices = p->N * p->groups;
    chunk.columns = P;
    chunk.rows = IC;
    chunk.b = (void *)a->x; /* not written in the forward direction */
    chunk.ldb = P;
    chunk.b_stride = IC * P;
    chunk.tf32 = tf32;
    const talc_status status = talc_cuda_conv2d_multiply(device, p, a, &chunk);
    if (status != TALC_OK)
        return status;
    const epilogue<T> last(a->bias, a->residual, p->activation);
    epilogue_in_place<T>(device, last, (T *)a->y, p->OH * p->OW, p->OC,
                         p->N * p->OC * p->OH * p->OW);
    return talc_cuda_launched(device, "conv2d");
}

TALC_CUDA_FORM(pointwise_cublas, plan_cublas(device, p, plan), run_cublas<T>(device, p, a, false))
TALC_CUDA_FORM(pointwise_cublas_tf32, plan_cublas_tf32(device, p, plan),
               run_cublas<T>(device, p, a, true))
TALC_CUDA_FORM(pointwise_dot, plan_linear(talc_cuda_matmul_dot_plan, device, p, plan),
               run_linear(talc_cuda_matmul_dot_run, device, p, plan, a))
TALC_CUDA_FORM(pointwise_tiles, plan_linear(talc_cuda_matmul_tiles_plan, device, p, plan),
               run_linear(talc_cuda_matmul_tiles_run, device, p, plan, a))
TALC_CUDA_FORM_F32(pointwise_small_tiles, plan_small_tiles(device, p, plan),
                   run_small_tiles<T>(device, p, plan, a))
TALC_CUDA_FORM_NONE(pointwise_dot_gradient, "it has no gradients")
TALC_CUDA_FORM_NONE(pointwise_tiles_gradient, "it has no gradients")
TALC_CUDA_FORM_NONE(pointwise_small_tiles_gradient, "it has no gradients")
