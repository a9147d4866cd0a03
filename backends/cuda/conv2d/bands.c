/// The weight gradient of large kernels in bands of taps, each by implicit_gemm(wgmma) as the
/// gradient of a smaller kernel whose window begins further into the image. The patch under a tile
/// of positions grows with the kernel; in bands it fits shared memory.
///
///     dw [oc, ic, h0 + i, w0 + j] = dw of the kernel of some rows and columns, [oc, ic, i, j]
///
/// where padding is less by h0 * dilation_h above, and by w0 * dilation_w at the left. A band is
/// made in the workspace, and copied to its place among the others.
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda/device/estimate.h"
#include "tensor/extent.h"

#include <math.h>

enum { MIN_TAPS = 170, MAX_BANDS = 4 }; /* of an axis */

typedef struct bands_plan {
    int64_t down, across; /* bands */
    size_t limit;         /* of the workspace, so that a run makes the same plans of bands */
} bands_plan;

/* A band's problem: the rows and columns of the kernel from h and w on. */
typedef struct band {
    talc_conv2d_problem problem;
    int64_t h, w;
    size_t bytes; /* of its weights */
} band;

static band band_at(const talc_conv2d_problem *p, const bands_plan *bands, int64_t k)
{
    const int64_t high = talc_ceil_div(p->KH, bands->down),
                  wide = talc_ceil_div(p->KW, bands->across);
    band b = { .problem = *p, .h = k / bands->across * high, .w = k % bands->across * wide };
    talc_conv2d_problem *t = &b.problem;
    t->KH = talc_smaller(high, p->KH - b.h), t->KW = talc_smaller(wide, p->KW - b.w);
    t->pad_top = p->pad_top - b.h * p->dilation_h;
    t->pad_left = p->pad_left - b.w * p->dilation_w;
    t->pad_bottom = (p->OH - 1) * p->stride_h + (t->KH - 1) * p->dilation_h + 1 - p->H - t->pad_top;
    t->pad_right = (p->OW - 1) * p->stride_w + (t->KW - 1) * p->dilation_w + 1 - p->W - t->pad_left;
    b.bytes =
        talc_cuda_aligned((size_t)(t->OC * (t->C / t->groups) * t->KH * t->KW) * sizeof(float));
    return b;
}

static const char *plan_band(const talc_device *device, const bands_plan *bands, const band *b,
                             talc_plan *own)
{
    const size_t limit = bands->limit > b->bytes ? bands->limit - b->bytes : 0;
    *own = (talc_plan){ .workspace = 0 };
    return talc_cuda_conv2d_implicit_gemm_wgmma_gradient_plan(device, &b->problem, limit, own);
}

/* Fills workspace and seconds of bands, or returns why there are none. */
static const char *plan_bands(const talc_device *device, const talc_conv2d_problem *p,
                              const bands_plan *bands, talc_plan *plan)
{
    for (int64_t k = 0; k < bands->down * bands->across; k++) {
        const band b = band_at(p, bands, k);
        talc_plan own;
        const char *refusal = b.problem.KH <= 0 || b.problem.KW <= 0
                                  ? "the kernel has fewer taps than bands"
                                  : plan_band(device, bands, &b, &own);
        if (refusal != NULL)
            return refusal;
        if (plan->workspace < b.bytes + own.workspace)
            plan->workspace = b.bytes + own.workspace;
        plan->seconds +=
            own.seconds + TALC_CUDA_LAUNCH + 2 * (double)b.bytes / talc_cuda_bytes_a_second();
    }
    return NULL;
}

const char *talc_cuda_conv2d_implicit_gemm_bands_gradient_plan(const talc_device *device,
                                                               const void *problem, size_t limit,
                                                               talc_plan *plan)
{
    const talc_conv2d_problem *p = problem;
    const char *refusal = "the kernel has few taps";
    talc_plan best = { .seconds = (double)INFINITY };
    if (p->direction != TALC_GRAD_WEIGHT)
        return "it has only a weight gradient";
    if (p->N * p->C * p->OC == 0 || p->H * p->W * p->OH * p->OW == 0)
        return "there is nothing to sum";
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    for (int i = 2; i <= MAX_BANDS && p->KH * p->KW >= MIN_TAPS; i++) {
        const bands_plan bands = { talc_smaller(i, p->KH), talc_smaller(i, p->KW), limit };
        talc_plan some = { .workspace = 0 };
        const char *reason = plan_bands(device, p, &bands, &some);
        if (reason != NULL && best.seconds == (double)INFINITY)
            refusal = reason;
        if (reason == NULL && some.workspace <= limit && some.seconds < best.seconds) {
            best = some;
            talc_plan_store(&best, &bands, sizeof bands);
            refusal = NULL;
        }
    }
    if (refusal == NULL)
        *plan = best;
    return refusal;
}

/* Copies a band's gradient to its place in dw. */
static talc_status copy_band(talc_device *device, const talc_conv2d_problem *p, const band *b,
                             float *dw, float *part)
{
    const size_t row = (size_t)b->problem.KW * sizeof(float), rows = (size_t)b->problem.KH,
                 whole = (size_t)p->KW * sizeof(float);
    const struct cudaMemcpy3DParms copy = {
        .srcPtr = { part, row, row, rows },
        .dstPtr = { dw + b->h * p->KW + b->w, whole, whole, (size_t)p->KH },
        .extent = { row, rows, (size_t)(p->OC * (p->C / p->groups)) },
        .kind = cudaMemcpyDeviceToDevice,
    };
    return talc_cuda_status(device, "conv2d.grad_weight",
                            cudaMemcpy3DAsync(&copy, talc_cuda_stream(device)));
}

talc_status talc_cuda_conv2d_implicit_gemm_bands_gradient_run(talc_device *device,
                                                              const void *problem,
                                                              const talc_plan *plan,
                                                              const void *arguments)
{
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *given = arguments;
    const bands_plan *bands = talc_plan_data(plan);
    talc_status status = TALC_OK;
    for (int64_t k = 0; k < bands->down * bands->across && status == TALC_OK; k++) {
        const band b = band_at(p, bands, k);
        talc_conv2d_arguments own = *given;
        talc_plan its;
        own.dw = given->base.workspace;
        own.base.workspace = (char *)given->base.workspace + b.bytes;
        (void)plan_band(device, bands, &b, &its);
        status = talc_cuda_conv2d_implicit_gemm_wgmma_gradient_run(device, &b.problem, &its, &own);
        if (status == TALC_OK)
            status = copy_band(device, p, &b, given->dw, own.dw);
    }
    return status;
}

TALC_CUDA_FORM_NONE(implicit_gemm_bands, "it has only a weight gradient")
