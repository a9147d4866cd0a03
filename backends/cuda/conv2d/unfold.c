/// The matrix of the im2col convolution as a result, and images that such matrices are added up to.
///
///     unfold   y[n, (c, kh, kw), (oh, ow)] = x'[n, c, i, j]
///     fold     y[n, c, i, j] = sum of x[n, (c, kh, kw), (oh, ow)] over all that read there
///
/// The kernels are im2col's: that of im2col.cu writes the whole matrix, as one chunk, and that of
/// im2col_gradient.cu gathers from one. Both are bound by memory.
#include "backends/cuda/conv2d/im2col.h"
#include "backends/cuda/cuda.h"
#include "ops/unfold.h"

static talc_status run_unfold(talc_device *device, const void *problem, const talc_plan *plan,
                              const void *given)
{
    const talc_unfold_problem *p = problem;
    const talc_unfold_arguments *arguments = given;
    (void)plan;
    const talc_status status = talc_cuda_enter(device, p->fold ? "fold" : "unfold");
    if (status != TALC_OK)
        return status;
    const talc_conv2d_problem conv2d = talc_unfold_conv2d(p);
    const int64_t columns = p->OH * p->OW, rows = p->C * p->KH * p->KW;
    const talc_cuda_conv2d_chunk whole = { .slices = p->N,
                                           .columns = columns,
                                           .rows = rows,
                                           .b = p->fold ? (void *)arguments->x : arguments->y,
                                           .ldb = columns,
                                           .b_stride = rows * columns };
    return p->fold ? talc_cuda_im2col_gather(device, &conv2d, arguments->y, &whole)
                   : talc_cuda_im2col_build(device, &conv2d, arguments->x, &whole);
}

const talc_algorithm talc_cuda_unfold[] = {
    { "direct", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, run_unfold },
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
