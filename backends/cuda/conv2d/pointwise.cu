/// 1x1 convolution as a matrix product without any copy. For each image n and group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///
/// since an image's planes [C/groups, H*W] are the matrix already. cuBLAS takes all images in one
/// call; bias, residual and activation follow in place. Small products are one launch
/// (matmul/small.cuh). Images of one pixel, as those that squeeze-excitation works on, are the rows
/// of one product: a linear layer's. Arithmetic: the data's type. No workspace.
#include "backends/cuda/device/blas.h"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/conv2d/slice_products.h"
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/matmul/small.cuh"

using namespace talc;

enum pointwise_way { BY_CUBLAS, BY_SMALL_TILES, AS_LINEAR };

/* [N, C] times [OC, C] transposed. */
static talc_matmul_problem linear_of(const talc_conv2d_problem *p)
{
    talc_matmul_problem m = {};
    m.dtype = p->dtype;
    m.M = p->N, m.N = p->OC, m.K = m.lda = m.ldb = p->C;
    m.transpose_b = true;
    m.batch = 1;
    m.bias = p->bias, m.residual = p->residual, m.activation = p->activation;
    return m;
}

/* The fastest of matmul's rows that need neither workspace nor cuBLAS; the last one takes every
 * problem. */
static const talc_algorithm *linear_row(const talc_device *device, const talc_matmul_problem &m,
                                        talc_plan *plan)
{
    const talc_algorithm *best = NULL;
    for (const talc_algorithm *row = talc_cuda_matmul; row->name != NULL; row++) {
        talc_plan its = {};
        if (row->plan(device, &m, 0, &its) != NULL || its.missing != NULL || its.workspace > 0 ||
            (best != NULL && plan->seconds <= its.seconds))
            continue;
        best = row;
        *plan = its;
    }
    return best;
}

template <typename T>
static void small_tiles(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *a)
{
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
}

template <typename T>
static void end_outputs(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *arguments)
{
    const epilogue<T> last(arguments->bias, arguments->residual, p->activation);
    epilogue_in_place<T>(device, last, (T *)arguments->y, p->OH * p->OW, p->OC,
                         p->N * p->OC * p->OH * p->OW);
}

static talc_status by_cublas(talc_device *device, const talc_conv2d_problem *p,
                             const talc_conv2d_arguments *arguments)
{
    const int64_t IC = p->C / p->groups, P = p->H * p->W;
    talc_cuda_conv2d_chunk chunk = {};
    chunk.slices = p->N * p->groups;
    chunk.columns = P;
    chunk.rows = IC;
    chunk.b = (void *)arguments->x; /* which is only read */
    chunk.ldb = P;
    chunk.b_stride = IC * P;
    return talc_cuda_conv2d_multiply(device, p, arguments, &chunk);
}

const char *talc_cuda_conv2d_pointwise_plan(const talc_device *device, const void *problem, size_t,
                                            talc_plan *plan)
{
    const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;
    if (p->KH != 1 || p->KW != 1)
        return "the kernel is not 1x1";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom != 0 || p->pad_right != 0)
        return "there is padding";
    /* cuBLAS moves the bytes of a product of few channels at 0.6 of the rate of a copy. */
    plan->seconds = talc_cuda_conv2d_seconds(device, p, 0.85, 1.6 * talc_conv2d_bytes(p), 3);
    pointwise_way way = BY_CUBLAS;
    if (p->groups == 1 && p->H * p->W == 1) {
        talc_plan own = {};
        (void)linear_row(device, linear_of(p), &own);
        plan->seconds = own.seconds;
        way = AS_LINEAR;
    } else if (p->groups == 1) {
        const double seconds = small::seconds(device, p->dtype, p->OC, p->H * p->W, p->C, p->N);
        if (seconds < plan->seconds) {
            plan->seconds = seconds;
            way = BY_SMALL_TILES;
        }
    }
    if (way == BY_CUBLAS)
        plan->missing = talc_cuda_blas_refuses;
    talc_plan_keep(plan, &way, sizeof way);
    return NULL;
}

talc_status talc_cuda_conv2d_pointwise_run(talc_device *device, const void *problem,
                                           const talc_plan *plan, const void *given)
{
    const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;
    const talc_conv2d_arguments *arguments = (const talc_conv2d_arguments *)given;
    const pointwise_way way = *(const pointwise_way *)talc_plan_own(plan);
    if (way == AS_LINEAR) {
        const talc_matmul_problem m = linear_of(p);
        talc_plan own = {};
        const talc_algorithm *row = linear_row(device, m, &own);
        const talc_matmul_arguments its = { {},           arguments->y,    arguments->x,
                                            arguments->w, arguments->bias, arguments->residual };
        return row->run(device, &m, &own, &its);
    }
    talc_status status = talc_cuda_enter(device, "conv2d");
    if (status == TALC_OK && way == BY_CUBLAS)
        status = by_cublas(device, p, arguments);
    if (status != TALC_OK)
        return status;
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        if (way == BY_CUBLAS)
            end_outputs<T>(device, p, arguments);
        else
            small_tiles<T>(device, p, arguments);
        return talc_cuda_launched(device, "conv2d");
    });
}
