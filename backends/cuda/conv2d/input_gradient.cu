/// Input gradients by forward kernels (input_gradient.h), and the gradients of the algorithm split,
/// which has no others.
#include "backends/cuda/conv2d/input_gradient.h"
#include "backends/cuda/conv2d/phases.h"
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/conv2d/forward_plan.h"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"

#include <cmath>
#include <cstring>

using namespace talc;

constexpr int MAX_PHASES = 64;
/* Of 22 layers on an H200: what the kernels of phases take of the time that each is estimated
 * at. */
constexpr double PHASES_TAKE = 1.3;
/* Bytes of the phases of a round of images. */
constexpr size_t ROUND_BYTES = (size_t)192 << 20;

// ---- The phases ---------------------------------------------------------------------------------

using rotated_axis = talc_phase_axis;

struct phases {
    rotated_axis h[MAX_PHASES], w[MAX_PHASES];
};

static phases phases_of(const talc_conv2d_problem *p)
{
    phases of;
    for (int64_t i = 0; i < p->stride_h; i++)
        of.h[i] = talc_phase_axis_of(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, i);
    for (int64_t i = 0; i < p->stride_w; i++)
        of.w[i] = talc_phase_axis_of(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, i);
    return of;
}

static bool is_empty(const rotated_axis &h, const rotated_axis &w)
{
    return h.taps * w.taps == 0;
}

/* The forward problem that computes a phase of dx for `images` images. */
static talc_conv2d_problem rotated_problem(const talc_conv2d_problem *p, const rotated_axis &h,
                                           const rotated_axis &w, int64_t images)
{
    talc_conv2d_problem t = *p;
    t.direction = TALC_FORWARD;
    t.only_inside = true;
    t.N = images;
    t.C = p->OC, t.H = p->OH, t.W = p->OW;
    t.OC = p->C, t.OH = h.count, t.OW = w.count;
    t.KH = h.taps, t.KW = w.taps;
    t.stride_h = t.stride_w = 1;
    t.dilation_h = h.dilation, t.dilation_w = w.dilation;
    t.pad_top = h.before, t.pad_left = w.before;
    t.pad_bottom = h.count - p->OH - h.before + (h.taps - 1) * h.dilation;
    t.pad_right = w.count - p->OW - w.before + (w.taps - 1) * w.dilation;
    return t;
}

static bool has_phases(const talc_conv2d_problem *p)
{
    return p->stride_h != 1 || p->stride_w != 1;
}

/* Why dx is not a convolution at stride 1; NULL where it is. */
static const char *rotated_refuses(const talc_conv2d_problem *p)
{
    const int64_t down = p->dilation_h * (p->KH - 1), across = p->dilation_w * (p->KW - 1);
    if (has_phases(p))
        return "the stride is not 1";
    if (p->pad_top > down || p->pad_bottom > down || p->pad_left > across || p->pad_right > across)
        return "the padding is wider than the kernel reaches";
    return NULL;
}

/* The layout of the workspace: the weights, then the outputs of each phase for a round of images,
 * then the workspace of the forward kernels. */
struct phases_layout {
    int64_t round;             /* images */
    size_t weights, of_phases; /* bytes */
    /* Offsets in elements, of phase [h][w]. `at` is -1 where a phase has no taps. */
    int64_t weights_at[MAX_PHASES], at[MAX_PHASES];
};

static phases_layout layout_of(const talc_conv2d_problem *p, const phases &of, int64_t round)
{
    const int64_t pairs = p->OC * (p->C / p->groups);
    const size_t size = talc_dtype_size(p->dtype);
    phases_layout l = {};
    l.round = round;
    for (int64_t k = 0; k < p->stride_h * p->stride_w; k++) {
        const rotated_axis &h = of.h[k / p->stride_w], &w = of.w[k % p->stride_w];
        l.weights_at[k] = (int64_t)(l.weights / size);
        l.at[k] = is_empty(h, w) ? -1 : (int64_t)(l.of_phases / size);
        l.weights += talc_cuda_aligned((size_t)(pairs * h.taps * w.taps * (int64_t)size));
        if (!is_empty(h, w) && round > 0)
            l.of_phases +=
                talc_cuda_aligned((size_t)(round * p->C * h.count * w.count * (int64_t)size));
    }
    return l;
}

/* Seconds of a round's kernels and of all that goes with them. */
static double seconds_of(const talc_device *device, const talc_conv2d_problem *p,
                         const phases_layout &l, double round_seconds)
{
    const double dx = (double)(p->N * p->C * p->H * p->W) * (double)talc_dtype_size(p->dtype);
    return (double)talc_ceil_div(p->N, l.round) * PHASES_TAKE * round_seconds +
           talc_cuda_conv2d_seconds(device, p, INFINITY, dx + 2 * (double)l.weights, 2);
}

/* A plan that computes the phases of `round` images at a time, one after the other. */
static const char *plan_round(talc_cuda_forward_plan forward, const talc_device *device,
                              const talc_conv2d_problem *p, const phases &of, int64_t round,
                              talc_plan *plan)
{
    const phases_layout l = layout_of(p, of, round);
    size_t max_workspace = 0;
    double seconds = 0;
    for (int64_t k = 0; k < p->stride_h * p->stride_w; k++) {
        if (l.at[k] < 0)
            continue;
        const talc_conv2d_problem t =
            rotated_problem(p, of.h[k / p->stride_w], of.w[k % p->stride_w], round);
        talc_plan own = {};
        const char *refuses = forward(device, &t, 0, &own);
        if (refuses != NULL)
            return refuses;
        max_workspace = own.workspace > max_workspace ? own.workspace : max_workspace;
        seconds += own.seconds;
    }
    plan->workspace = l.weights + l.of_phases + max_workspace;
    plan->seconds = seconds_of(device, p, l, seconds);
    talc_plan_store(plan, &round, sizeof round);
    return NULL;
}

const char *talc_cuda_conv2d_phases_plan(talc_cuda_forward_plan forward, const talc_device *device,
                                         const talc_conv2d_problem *p, size_t limit,
                                         talc_plan *plan)
{
    const char *refuses = NULL;
    if (!has_phases(p))
        refuses = rotated_refuses(p);
    else if (p->dtype != TALC_F32)
        refuses = "the data is not f32";
    else if (p->stride_h > MAX_PHASES || p->stride_w > MAX_PHASES ||
             p->stride_h * p->stride_w > MAX_PHASES)
        refuses = "the stride has more than 64 phases";
    if (refuses != NULL)
        return refuses;
    const phases of = phases_of(p);
    const size_t weights = layout_of(p, of, 0).weights;
    if (!has_phases(p)) {
        const talc_conv2d_problem t = rotated_problem(p, of.h[0], of.w[0], p->N);
        refuses = forward(device, &t, limit > weights ? limit - weights : 0, plan);
        if (refuses != NULL)
            return refuses;
        plan->workspace += weights;
        plan->seconds += talc_cuda_conv2d_seconds(device, p, INFINITY, 2 * (double)weights, 2);
        return NULL;
    }
    const int64_t elements = p->C * p->H * p->W; /* elements of an image of dx */
    if (elements > INT_MAX)
        return "an image of the input has more than 2^31 - 1 elements";
    const size_t image = layout_of(p, of, 1).of_phases;
    const size_t capacity = limit < 2 * ROUND_BYTES ? limit / 2 : ROUND_BYTES;
    const int64_t fit =
        talc_smaller(image == 0 ? p->N : (int64_t)(capacity / image), INT_MAX / elements);
    const int64_t round = talc_even(p->N, fit > 1 ? fit : 1);
    refuses = plan_round(forward, device, p, of, round, plan);
    if (refuses == NULL && plan->workspace > limit && round > 1)
        refuses = plan_round(forward, device, p, of, 1, plan);
    return refuses;
}

const char *talc_cuda_conv2d_rotated_plan(talc_cuda_forward_plan forward, const talc_device *device,
                                          const talc_conv2d_problem *p, size_t limit,
                                          talc_plan *plan)
{
    const char *refuses = rotated_refuses(p);
    return refuses != NULL ? refuses
                           : talc_cuda_conv2d_phases_plan(forward, device, p, limit, plan);
}

// ---- The weights --------------------------------------------------------------------------------

/* For an axis: the phase of each tap and the number of that phase's taps, both by the tap's index
 * modulo `apart`. */
struct phase_taps {
    int apart, phase[MAX_PHASES], taps[MAX_PHASES];
};

static phase_taps taps_of(const rotated_axis *axes, int64_t stride)
{
    phase_taps t = { (int)axes[0].apart, {}, {} };
    for (int i = 0; i < stride; i++)
        if (axes[i].taps > 0) {
            t.phase[axes[i].tap] = i;
            t.taps[axes[i].tap] = (int)axes[i].taps;
        }
    return t;
}

struct rotated_weights {
    phase_taps h, w;
    int64_t at[MAX_PHASES]; /* offset of the weights of phase [h][w] */
    int phases_w;
};

/* Writes the rotated weights t. Element (g, oc, ic, tap) of w goes to (g, ic, oc, tap') of t. tap'
 * is the tap's index in its phase, counted from the end. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    rotate_weights(T *t, const T *w, const __grid_constant__ rotated_weights of, int KW,
                   const divisor<Index> taps, const divisor<Index> OC, const divisor<Index> IC,
                   Index count)
{
    TALC_GRID_LOOP(Index, i, count)
    {
        const Index pair = taps.quotient(i), row = IC.quotient(pair), g = OC.quotient(row);
        const Index ic = pair - row * IC.by, oc = row - g * OC.by;
        const int tap = (int)(i - pair * taps.by), kh = tap / KW, kw = tap - kh * KW;
        const int h = kh % of.h.apart, across = kw % of.w.apart;
        const int rows = of.h.taps[h], columns = of.w.taps[across];
        if (rows == 0 || columns == 0)
            continue; /* no element of dx is so far from one of dy */
        const int offset = (rows - 1 - kh / of.h.apart) * columns + columns - 1 - kw / of.w.apart;
        t[of.at[of.h.phase[h] * of.phases_w + of.w.phase[across]] +
          (int64_t)((g * IC.by + ic) * OC.by + oc) * (rows * columns) + offset] = w[i];
    }
}

template <typename T>
static void rotate(talc_device *device, const talc_conv2d_problem *p, const rotated_weights &of,
                   void *t, const void *w)
{
    const int64_t count = p->OC * (p->C / p->groups) * p->KH * p->KW;
    with_index(count, [&](auto zero) {
        using Index = decltype(zero);
        divisor<Index> taps, OC, IC;
        taps.set(p->KH * p->KW);
        OC.set(p->OC / p->groups);
        IC.set(p->C / p->groups);
        rotate_weights<T, Index>
            <<<grid_for_threads(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
                (T *)t, (const T *)w, of, (int)p->KW, taps, OC, IC, (Index)count);
    });
}

// ---- From phases to dx --------------------------------------------------------------------------

struct join_problem {
    int64_t at[MAX_PHASES];
    int rows[MAX_PHASES], columns[MAX_PHASES];  /* of the phases along each axis */
    divisor<uint32_t> W, H, stride_h, stride_w; /* W in units of COUNT */
};

/* Where the elements of dx from number i on lie, in units of `each`: their first column, and what
 * row of which phase. */
struct joined {
    uint32_t first, plane, down, phase_h;
};

static __device__ joined joined_at(const join_problem &p, uint32_t i, int each)
{
    const uint32_t row = p.W.quotient(i), own = p.H.quotient(row), h = row - own * p.H.by,
                   down = p.stride_h.quotient(h);
    return { (i - row * p.W.by) * each, own, down, h - down * p.stride_h.by };
}

/* One thread COUNT neighbours of a row. */
template <int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    join_phases(float *dx, const float *of, const __grid_constant__ join_problem p, uint32_t count)
{
    TALC_GRID_LOOP(uint32_t, i, count)
    {
        const joined j = joined_at(p, i, COUNT);
        vec<float, COUNT> v;
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const uint32_t across = p.stride_w.quotient(j.first + k),
                           phase_w = j.first + k - across * p.stride_w.by;
            const int64_t at = p.at[j.phase_h * p.stride_w.by + phase_w];
            const int64_t offset =
                ((int64_t)j.plane * p.rows[j.phase_h] + j.down) * p.columns[phase_w] + across;
            v.of[k] = at < 0 ? 0 : of[at + offset];
        }
        ((vec<float, COUNT> *)dx)[i] = v;
    }
}

/* At a horizontal stride of 2: one thread COUNT neighbours of each of the two phases of a row. */
template <int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    join_pairs(float *dx, const float *of, const __grid_constant__ join_problem p, uint32_t count)
{
    constexpr int WIDE = COUNT > 1 ? 4 : 2;
    TALC_GRID_LOOP(uint32_t, i, count)
    {
        const joined j = joined_at(p, i, COUNT);
        vec<float, COUNT> v[2] = {};
#pragma unroll
        for (int w = 0; w < 2; w++) {
            const int64_t at = p.at[j.phase_h * 2 + w],
                          from = (int64_t)j.plane * p.rows[j.phase_h] + j.down;
            if (at >= 0)
                v[w] = *(const vec<float, COUNT> *)(of + at + from * p.columns[w] + j.first);
        }
#pragma unroll
        for (int k = 0; k < 2 * COUNT; k += WIDE) {
            vec<float, WIDE> to;
#pragma unroll
            for (int e = 0; e < WIDE; e++)
                to.of[e] = v[e % 2].of[(k + e) / 2];
            *(vec<float, WIDE> *)(dx + (int64_t)i * 2 * COUNT + k) = to;
        }
    }
}

static void join(talc_device *device, const talc_conv2d_problem *p, const phases &of,
                 const phases_layout &l, int64_t images, float *dx, const float *from)
{
    join_problem problem = {};
    memcpy(problem.at, l.at, sizeof problem.at);
    for (int i = 0; i < p->stride_h; i++)
        problem.rows[i] = (int)of.h[i].count;
    for (int i = 0; i < p->stride_w; i++)
        problem.columns[i] = (int)of.w[i].count;
    const int64_t rows = images * p->C * p->H;
    const bool pairs = p->stride_w == 2 && p->W % 2 == 0 && (uintptr_t)dx % 16 == 0;
    const bool wide = p->W % 4 == 0 && (uintptr_t)dx % 16 == 0;
    const int each = pairs ? p->W % 8 == 0 ? 8 : p->W % 4 == 0 ? 4 : 2 : wide ? 4 : 1;
    const auto kernel = !pairs      ? wide ? &join_phases<4> : &join_phases<1>
                             : each == 8 ? &join_pairs<4>
                        : each == 4 ? &join_pairs<2>
                                    : &join_pairs<1>;
    problem.W.set(p->W / each), problem.H.set(p->H);
    problem.stride_h.set(p->stride_h), problem.stride_w.set(p->stride_w);
    const int64_t count = rows * (p->W / each);
    kernel<<<grid_for_threads(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
        dx, from, problem, (uint32_t)count);
}

/* One forward problem of a round, by the workspace behind the outputs of the phases. */
static talc_status run_forward(talc_cuda_forward_plan plan, talc_cuda_forward_run forward,
                               talc_device *device, const talc_conv2d_problem &t, const float *x,
                               const float *w, float *y, void *workspace)
{
    talc_plan own;
    talc_cuda_conv2d_forward_plan(plan, device, &t, &own);
    talc_conv2d_arguments arguments = {};
    arguments.base.workspace = workspace;
    arguments.x = x, arguments.w = w, arguments.y = y;
    return forward(device, &t, &own, &arguments);
}

static talc_status run_phases(talc_cuda_forward_plan plan, talc_cuda_forward_run forward,
                              talc_device *device, const talc_conv2d_problem *p, const phases &of,
                              const phases_layout &l, const talc_conv2d_arguments *given)
{
    char *weights = (char *)given->base.workspace, *outputs = weights + l.weights;
    void *const rest = outputs + l.of_phases;
    talc_status status = TALC_OK;
    for (int64_t n = 0; n < p->N && status == TALC_OK; n += l.round) {
        const int64_t images = talc_smaller(l.round, p->N - n);
        const float *dy = (const float *)given->dy + n * p->OC * p->OH * p->OW;
        for (int64_t k = 0; k < p->stride_h * p->stride_w && status == TALC_OK; k++)
            if (l.at[k] >= 0)
                status = run_forward(
                    plan, forward, device,
                    rotated_problem(p, of.h[k / p->stride_w], of.w[k % p->stride_w], images), dy,
                    (const float *)weights + l.weights_at[k], (float *)outputs + l.at[k], rest);
        if (status == TALC_OK) {
            join(device, p, of, l, images, (float *)given->dx + n * p->C * p->H * p->W,
                 (const float *)outputs);
            status = talc_cuda_launched(device, "conv2d.grad_input");
        }
    }
    return status;
}

talc_status talc_cuda_conv2d_phases_run(talc_cuda_forward_plan plan, talc_cuda_forward_run forward,
                                        talc_device *device, const talc_conv2d_problem *p,
                                        const talc_plan *planned,
                                        const talc_conv2d_arguments *given)
{
    const phases of = phases_of(p);
    const int64_t round = has_phases(p) ? *(const int64_t *)talc_plan_data(planned) : 0;
    const phases_layout l = layout_of(p, of, round);
    rotated_weights to = {
        taps_of(of.h, p->stride_h), taps_of(of.w, p->stride_w), {}, (int)p->stride_w
    };
    memcpy(to.at, l.weights_at, sizeof to.at);
    const talc_status status = with_float(p->dtype, [&](auto element) {
        rotate<typename decltype(element)::type>(device, p, to, given->base.workspace, given->w);
        return talc_cuda_launched(device, "conv2d.grad_input");
    });
    if (status != TALC_OK)
        return status;
    if (has_phases(p))
        return run_phases(plan, forward, device, p, of, l, given);
    const talc_conv2d_problem t = rotated_problem(p, of.h[0], of.w[0], p->N);
    talc_plan rest = *planned;
    rest.workspace -= l.weights;
    talc_conv2d_arguments arguments = {};
    arguments.base.workspace = (char *)given->base.workspace + l.weights;
    arguments.x = given->dy;
    arguments.w = given->base.workspace;
    arguments.y = given->dx;
    return forward(device, &t, &rest, &arguments);
}

talc_status talc_cuda_conv2d_rotated_run(talc_cuda_forward_run forward, talc_device *device,
                                         const talc_conv2d_problem *p, const talc_plan *plan,
                                         const talc_conv2d_arguments *given)
{
    return talc_cuda_conv2d_phases_run(NULL, forward, device, p, plan, given);
}

// ---- The algorithm split ------------------------------------------------------------------------

const char *talc_cuda_conv2d_split_gradient_plan(const talc_device *device, const void *problem,
                                                 size_t limit, talc_plan *plan)
{
    const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    return talc_cuda_conv2d_rotated_plan(talc_cuda_conv2d_split_plan, device, p, limit, plan);
}

talc_status talc_cuda_conv2d_split_gradient_run(talc_device *device, const void *problem,
                                                const talc_plan *plan, const void *arguments)
{
    return talc_cuda_conv2d_rotated_run(talc_cuda_conv2d_split_run, device,
                                        (const talc_conv2d_problem *)problem, plan,
                                        (const talc_conv2d_arguments *)arguments);
}
