/// Convolution as a matrix product whose second matrix is never made. For each image n and group g,
/// with K = C/groups * KH * KW,
///
///     y[n, g, oc, j] = sum over k of w[g, oc, k] * B[k, j],        j = oh * OW + ow
///
/// where B is the im2col matrix of im2col.c. A row of B is a row of the image, shifted by a tap; so
/// a task copies the part of the image that its outputs read into a halo tile (halo_tile.h), in
/// which every tap is an offset, and the microkernel (microkernel.h) reads both matrices where they
/// stand: w as it is, B as vectors of the halo tile. Each input element is copied once for all
/// taps, padding and strides are the copy's business, and a tile of y stays in registers for as
/// many terms as the halo tile has. The halo tiles of small planes are gathered: copied for each
/// tap, so that vectors cross rows and images. Far dilated columns are divided into segments, and
/// tiles of outputs leave out taps that read nothing but zeros around the image, unless a weight is
/// not finite.
///
/// Sums are in the data's type, terms in the order of channels and taps, whatever the blocks: every
/// number of threads, cache size and workspace limit gives the same bits.
///
/// Source: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
/// 34(3), 2008; offsets in place of the matrix: Dukhan, "The indirect convolution algorithm", arXiv
/// 1907.02129.
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/implicit_gemm.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"

/* Elements of the image from the first tap of a window to the last: as many as a core may still
 * keep in a cache. */
enum { LARGEST_SPAN = 1 << 20 };
/* Threads of a processor that is not this one. */
enum { MAP_THREADS = 4 };
/* What a process can address. */
static const double LARGEST_BYTES = 0x1p47;

_Static_assert(sizeof(talc_cpu_gemm_plan) <= sizeof((talc_plan *)NULL)->data, "a plan keeps it");

/* The forward pass has one phase, whose taps are all positions of a window. */
typedef struct forward {
    talc_cpu_phase h, w;
} forward;

static talc_cpu_gemm forward_of(const talc_conv2d_problem *p, forward *phase)
{
    *phase = (forward){ { .taps = p->KH, .step = 1, .weight_step = p->KW },
                        { .taps = p->KW, .step = 1, .weight_step = 1 } };
    const int64_t taps = p->KH * p->KW, IC = p->C / p->groups, OC = p->OC / p->groups;
    return (talc_cpu_gemm){
        .kernels = talc_cpu_kernels_of(p->dtype),
        .cache_bytes = talc_cpu_cache_bytes(),
        .threads = talc_cpu_threads(),
        .dtype = p->dtype,
        .padding_mode = p->padding_mode,
        .N = p->N,
        .groups = p->groups,
        .out_channels = OC,
        .in_channels = IC,
        .H = p->OH,
        .W = p->OW,
        .h = talc_cpu_rows_of(p),
        .w = talc_cpu_columns_of(p),
        .h_phases = 1,
        .w_phases = 1,
        .h_phase = &phase->h,
        .w_phase = &phase->w,
        .weight = { OC * IC * taps, IC * taps, taps },
    };
}

static const char *refuses(const talc_conv2d_problem *p)
{
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    /* Below that, products of the plan do not overflow. */
    if (talc_conv2d_bytes(p) > LARGEST_BYTES)
        return "the operands take more than 2^47 bytes";
    if (p->direction == TALC_GRAD_WEIGHT)
        return NULL;
    if (talc_cpu_conv2d_reaches_far(p) != NULL)
        return talc_cpu_conv2d_reaches_far(p);
    if (((double)(p->KH - 1) * (double)p->dilation_h + 1) *
            ((double)(p->KW - 1) * (double)p->dilation_w + 1) >
        LARGEST_SPAN)
        return "the dilated kernel spans more than 2^20 elements";
    if (p->direction == TALC_GRAD_INPUT &&
        (double)p->stride_h * (double)p->stride_w > TALC_CPU_PHASES)
        return "the strides make more than 64 convolutions of the input gradient";
    return NULL;
}

const char *talc_cpu_conv2d_implicit_gemm_plan(const talc_device *device, const void *problem,
                                               size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    const char *refusal = refuses(p);
    if (refusal != NULL)
        return refusal;
    if (p->direction != TALC_FORWARD)
        return talc_cpu_implicit_gemm_gradient_plan(p, limit, plan);
    forward phase;
    const talc_cpu_gemm gemm = forward_of(p, &phase);
    talc_cpu_gemm_plan planned;
    talc_cpu_gemm_plan_of(&gemm, limit, &planned);
    plan->workspace = talc_cpu_gemm_workspace(&gemm, &planned, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

talc_status talc_cpu_conv2d_implicit_gemm_run(talc_device *device, const void *problem,
                                              const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    if (p->direction != TALC_FORWARD)
        return talc_cpu_implicit_gemm_gradient_run(p, plan, a);
    forward phase;
    const talc_cpu_gemm gemm = forward_of(p, &phase);
    return talc_cpu_gemm_run(&gemm, talc_plan_data(plan), a->x, a->w, a->y, a->base.workspace,
                             plan->workspace, p, a);
}

const char *talc_cpu_conv2d_implicit_gemm_map(const talc_map_target *target, const void *problem,
                                              size_t limit, talc_owner_map *map)
{
    const talc_conv2d_problem *p = problem;
    const talc_cpu_microkernels *units = talc_cpu_microkernels_named(target->name);
    if (units == NULL)
        return "this build has no kernels for that processor";
    if (refuses(p) != NULL)
        return refuses(p);
    if (p->direction == TALC_GRAD_WEIGHT)
        return TALC_NO_MAP;
    union {
        forward forward;
        talc_cpu_input_phases input;
    } phases;
    talc_cpu_gemm gemm = p->direction == TALC_FORWARD
                             ? forward_of(p, &phases.forward)
                             : talc_cpu_implicit_gemm_input_of(p, &phases.input);
    gemm.kernels = p->dtype == TALC_F64 ? &units->f64 : &units->f32;
    if (target->cache_bytes > 0) {
        gemm.cache_bytes = target->cache_bytes;
        gemm.threads = MAP_THREADS;
    }
    talc_cpu_gemm_plan plan;
    talc_cpu_gemm_plan_of(&gemm, limit, &plan);
    talc_cpu_gemm_map(&gemm, &plan, map);
    return NULL;
}
