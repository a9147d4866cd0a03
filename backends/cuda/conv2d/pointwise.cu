/// 1x1 convolution as a matrix product without any copy. For each image n and group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///
/// since an image's planes [C/groups, H*W] are the matrix already. cuBLAS takes all images in one call; bias, residual and
/// activation follow in place. Arithmetic: the data's type. No workspace.
#include "backends/cuda/device/blas.h"
#include "backends/cuda/dtype.cuh"
#include "backends/cuda/conv2d/epilogue.cuh"
#include "backends/cuda/conv2d/product.h"
#include "backends/cuda/conv2d/rows.h"

using namespace talc;

template <typename T>
static void end_outputs(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *arguments)
{
    const epilogue<T> last(arguments->bias, arguments->residual, p->activation);
    epilogue_in_place<T>(device, last, (T *)arguments->y, p->OH * p->OW, p->OC,
                         p->N * p->OC * p->OH * p->OW);
}

const char *talc_cuda_conv2d_pointwise_plan(const talc_device *device, const void *problem, size_t,
                                            talc_plan *plan)
{
    const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;
    /* cuBLAS moves the bytes of a product of few channels at 0.6 of the rate of a copy. */
    plan->seconds = talc_cuda_conv2d_seconds(device, p, 0.85, 1.6 * talc_conv2d_bytes(p), 3);
    if (p->KH != 1 || p->KW != 1)
        return "the kernel is not 1x1";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom != 0 || p->pad_right != 0)
        return "there is padding";
    plan->missing = talc_cuda_blas_refuses;
    return NULL;
}

talc_status talc_cuda_conv2d_pointwise_run(talc_device *device, const void *problem,
                                           const talc_plan *, const void *given)
{
    const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;
    const talc_conv2d_arguments *arguments = (const talc_conv2d_arguments *)given;
    talc_status status = talc_cuda_enter(device, "conv2d");
    if (status != TALC_OK)
        return status;
    const int64_t IC = p->C / p->groups, P = p->H * p->W;
    talc_cuda_conv2d_chunk chunk = {};
    chunk.slices = p->N * p->groups;
    chunk.columns = P;
    chunk.rows = IC;
    chunk.b = (void *)arguments->x; /* which is only read */
    chunk.ldb = P;
    chunk.b_stride = IC * P;
    status = talc_cuda_conv2d_multiply(device, p, arguments, &chunk);
    if (status != TALC_OK)
        return status;
    return with_float(p->dtype, [&](auto element) {
        end_outputs<typename decltype(element)::type>(device, p, arguments);
        return talc_cuda_launched(device, "conv2d");
    });
}
