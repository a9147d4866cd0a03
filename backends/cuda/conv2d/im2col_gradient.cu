/// The gradients of a convolution as matrix products. With B the im2col matrix of im2col.cu and K =
/// C/groups * KH * KW,
///
///     D[s, k, j] = sum over oc of w[g, oc, k] * dy[s, oc, j]
///     dx[s, ic, h, w] = sum of D[s, (ic, kh, kw), (oh, ow)]
///     dw[g, oc, k] = sum over n, j of dy[n, g, oc, j] * B[n, g, k, j]
///
/// where dx takes every tap and output that read x[h, w] (gradient_taps.cuh). Like B, D is made in
/// chunks that the workspace holds: cuBLAS or tensor cores (matmul/f32_product.h) write one and a
/// kernel gathers from it. A thread of that has COLUMNS elements of a plane of dx, a warp apart,
/// and goes through their taps: neighbours read neighbours and nobody else writes, so the order of
/// a sum is fixed. Where D is cut into columns, the elements that outputs on both sides read are
/// added to by the later chunk.
///
/// For dw im2col's kernel writes chunks of B, which are multiplied into sums beside each other
/// (split_k.h).
///
/// Arithmetic: the data's type, in cuBLAS's fixed order; the cuts follow from the problem, the GPU
/// and the workspace limit.
#include "backends/cuda/conv2d/gradient_taps.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/im2col.h"
#include "backends/cuda/conv2d/split_k.h"
#include "backends/cuda/device/blas.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "tensor/extent.h"

#include <type_traits>

using namespace talc;

/* Elements of a thread, a warp apart, so that a warp's accesses lie beside each other. */
constexpr int COLUMNS = 4;

struct gradient_plan {
    talc_cuda_im2col_plan matrix;
    talc_cuda_conv2d_sums_plan sums; /* of the weight gradient, after the matrix */
    size_t sums_at;
};

// ---- The input gradient -------------------------------------------------------------------------

/* A chunk of D and what it goes to. `Index` holds every coordinate of the padded image, and offsets
 * in a channel of D. */
template <typename Index> struct col2im_chunk {
    using Count = std::make_unsigned_t<Index>;
    gather_axis<Index> down, across;
    divisor<Count> W;
    Index OW, KW, column, columns; /* of D: first, count */
    Index begin, count,
        written; /* of a plane of dx: the chunk's elements; those before `written` are added to */
    Index ld;
    int64_t slices, channels;
    int64_t plane, x_stride;    /* elements of dx from channel to channel, from slice to slice */
    int64_t row_step, b_stride; /* of D from channel to channel, from slice to slice */
};

template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK, sizeof(Index) == 4 ? 4 : 2)
    col2im(T *__restrict__ dx, const T *__restrict__ d, const col2im_chunk<Index> chunk)
{
    using Count = typename col2im_chunk<Index>::Count;
    const Count thread = (Count)blockIdx.x * blockDim.x + threadIdx.x;
    const Index first = (Index)(thread / WARP * WARP * COLUMNS + thread % WARP);
    gather_taps<Index> down[COLUMNS], across[COLUMNS];
    Index row[COLUMNS],
        column[COLUMNS]; /* of the first tap: its row of D, its column of the chunk */
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const Index at = first + c * WARP;
        const Count i = (Count)(chunk.begin + at), h = chunk.W.quotient(i);
        down[c] = chunk.down.taps((Index)h);
        across[c] = chunk.across.taps((Index)(i - h * chunk.W.by));
        if (at >= chunk.count)
            down[c].count = 0;
        row[c] = (down[c].tap * chunk.KW + across[c].tap) * chunk.ld;
        column[c] = down[c].out * chunk.OW + across[c].out - chunk.column;
    }
    const Index row_down = chunk.down.tap_step * chunk.KW * chunk.ld;
    const Index column_down = chunk.down.out_step * chunk.OW;
    const Index row_across = chunk.across.tap_step * chunk.ld;
    for (int64_t slice = blockIdx.z; slice < chunk.slices; slice += gridDim.z)
        for (int64_t ic = blockIdx.y; ic < chunk.channels; ic += gridDim.y) {
            const T *from = d + slice * chunk.b_stride + ic * chunk.row_step;
            T *to = dx + slice * chunk.x_stride + ic * chunk.plane + chunk.begin;
            accumulator_of<T> sums[COLUMNS] = {};
            for (Index u = 0; u < chunk.down.max_count(); u++)
#pragma unroll(sizeof(Index) == 4 ? 2 : 1)
                for (Index v = 0; v < chunk.across.max_count(); v++)
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        const Index j = column[c] - u * column_down - v * chunk.across.out_step;
                        if (u < down[c].count && v < across[c].count &&
                            (Count)j < (Count)chunk.columns)
                            sums[c] += __ldg(from + (row[c] + u * row_down + v * row_across + j));
                    }
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                const Index at = first + c * WARP;
                if (at < chunk.count)
                    to[at] = chunk.begin + at < chunk.written ? (T)(to[at] + sums[c]) : (T)sums[c];
            }
        }
}

/* How many rows of dx have been written once the columns of D before `column` are done: those that
 * outputs there may read. */
static int64_t rows_before(const talc_conv2d_problem *p, int64_t column)
{
    if (column == 0)
        return 0;
    if (column == p->OH * p->OW)
        return p->H;
    const int64_t last = (column - 1) / p->OW * p->stride_h - p->pad_top;
    return talc_between(last + (p->KH - 1) * p->dilation_h + 1, 0, p->H);
}

/* 32 bits hold a channel of D as well. */
static bool is_narrow(const talc_conv2d_problem *p, const talc_cuda_conv2d_chunk &chunk)
{
    return talc_cuda_im2col_is_narrow(p) &&
           (double)(2 * p->KH * p->KW + 1) * (double)chunk.ldb < INT_MAX;
}

template <typename T, typename Index>
static void gather(talc_device *device, const talc_conv2d_problem *p, T *dx,
                   const talc_cuda_conv2d_chunk &chunk)
{
    const int64_t taps = p->KH * p->KW, channels = chunk.rows / taps, channel = chunk.row / taps;
    const int64_t written = rows_before(p, chunk.column);
    const int64_t top =
        chunk.column / p->OW * p->stride_h - p->pad_top; /* read by the first output */
    const int64_t begin = talc_between(top, 0, written);
    const int64_t end = rows_before(p, chunk.column + chunk.columns);
    if (begin >= end)
        return;
    col2im_chunk<Index> s;
    s.down.set(p->stride_h, p->dilation_h, p->KH, p->OH, p->pad_top);
    s.across.set(p->stride_w, p->dilation_w, p->KW, p->OW, p->pad_left);
    s.W.set(p->W);
    s.OW = (Index)p->OW, s.KW = (Index)p->KW;
    s.column = (Index)chunk.column, s.columns = (Index)chunk.columns;
    s.begin = (Index)(begin * p->W), s.count = (Index)((end - begin) * p->W);
    s.written = (Index)(written * p->W);
    s.ld = (Index)chunk.ldb;
    s.slices = chunk.slices, s.channels = channels;
    s.plane = p->H * p->W, s.x_stride = p->C / p->groups * s.plane;
    s.row_step = taps * chunk.ldb, s.b_stride = chunk.b_stride;
    dx += chunk.slice * s.x_stride + channel * s.plane;

    const int64_t elements = (end - begin) * p->W;
    const int64_t threads =
        talc_between(talc_ceil_div(elements, COLUMNS * WARP) * WARP, WARP, BLOCK);
    const int64_t blocks = talc_ceil_div(elements, threads * COLUMNS);
    const int64_t slices = talc_smaller(chunk.slices, 65535);
    /* Several channels a thread, where there are enough: the first taps are worked out once. */
    const int64_t few = talc_cuda_state_of(device)->multiprocessors * (int64_t)32;
    const int64_t rows =
        talc_between(talc_ceil_div(few, blocks * slices), talc_ceil_div(channels, 4), channels);
    const dim3 grid((unsigned)blocks, (unsigned)talc_smaller(rows, 65535), (unsigned)slices);
    col2im<T, Index>
        <<<grid, (unsigned)threads, 0, talc_cuda_stream(device)>>>(dx, (const T *)chunk.b, s);
}

template <typename T>
static void gather_of(talc_device *device, const talc_conv2d_problem *p, void *dx,
                      const talc_cuda_conv2d_chunk &chunk)
{
    if (is_narrow(p, chunk))
        gather<T, int32_t>(device, p, (T *)dx, chunk);
    else
        gather<T, int64_t>(device, p, (T *)dx, chunk);
}

talc_status talc_cuda_im2col_gather(talc_device *device, const talc_conv2d_problem *p, void *dx,
                                    const talc_cuda_conv2d_chunk *chunk)
{
    return with_float(p->dtype, [&](auto element) {
        gather_of<typename decltype(element)::type>(device, p, dx, *chunk);
        return talc_cuda_launched(device, "conv2d.grad_input");
    });
}

static talc_status grad_input(talc_device *device, const talc_conv2d_problem *p,
                              const talc_conv2d_arguments *arguments,
                              const talc_cuda_im2col_plan &plan)
{
    const int64_t taps = p->KH * p->KW, K = p->C / p->groups * taps, P = p->OH * p->OW;
    const int64_t slices = p->N * p->groups, rows = plan.channels * taps;
    talc_status status = TALC_OK;
    talc_cuda_conv2d_chunk chunk = talc_cuda_im2col_chunk(&plan, taps, arguments->base.workspace);
    for (int64_t slice = 0; slice < slices; slice += plan.slices)
        for (int64_t row = 0; row < K; row += rows)
            for (int64_t column = 0; column < P && status == TALC_OK; column += plan.columns) {
                chunk.slice = slice, chunk.slices = talc_smaller(plan.slices, slices - slice);
                chunk.column = column, chunk.columns = talc_smaller(plan.columns, P - column);
                chunk.row = row, chunk.rows = talc_smaller(rows, K - row);
                status = talc_cuda_conv2d_multiply(device, p, arguments, &chunk);
                if (status != TALC_OK)
                    return status;
                status = talc_cuda_im2col_gather(device, p, arguments->dx, &chunk);
            }
    return status;
}

// ---- The weight gradient ------------------------------------------------------------------------

/* One group as a problem: its images are the slices. */
static talc_conv2d_problem group_of(const talc_conv2d_problem *p)
{
    talc_conv2d_problem group = *p;
    group.C /= p->groups;
    group.OC /= p->groups;
    group.groups = 1;
    return group;
}

/* The sums have what the matrix leaves, and a quarter at least where they need it. */
static gradient_plan plan_sums(const talc_device *device, const talc_conv2d_problem *p,
                               size_t limit)
{
    const talc_conv2d_problem group = group_of(p);
    const int64_t taps = p->KH * p->KW;
    gradient_plan plan = {};
    const size_t part = talc_cuda_aligned(1);
    const talc_cuda_conv2d_sums_plan max = talc_cuda_conv2d_sums_cut(
        device, p, group.C * taps, p->N, p->OH * p->OW, limit / 4 > part ? limit / 4 - part : 0);
    plan.matrix = talc_cuda_im2col_cut(talc_cuda_state_of(device)->multiprocessors, &group,
                                       limit - (max.bytes > 0 ? max.bytes + part : 0));
    plan.sums_at = talc_cuda_aligned(plan.matrix.bytes);
    plan.sums = talc_cuda_conv2d_sums_cut(
        device, p, plan.matrix.channels * taps, talc_smaller(plan.matrix.slices, p->N),
        plan.matrix.columns, limit > plan.sums_at ? limit - plan.sums_at : 0);
    return plan;
}

/* Rows [row, row + rows) of group `group`. */
static talc_status grad_rows(talc_device *device, const talc_conv2d_problem *p,
                             const talc_conv2d_arguments *arguments, const gradient_plan &plan,
                             int64_t group, int64_t row, int64_t rows)
{
    const int64_t P = p->OH * p->OW, K = p->C / p->groups * p->KH * p->KW;
    /* To the kernel that writes B, the group's channels are some of an image's. */
    talc_conv2d_problem whole = *p;
    whole.groups = 1;
    talc_cuda_conv2d_sums sums = {};
    sums.plan = plan.sums;
    sums.workspace = (char *)arguments->base.workspace + plan.sums_at;
    sums.group = group, sums.row = row, sums.rows = rows;
    talc_cuda_conv2d_chunk chunk = {};
    chunk.b = arguments->base.workspace;
    chunk.ldb = plan.matrix.ld;
    chunk.b_stride = rows * plan.matrix.ld;
    chunk.row = group * K + row, chunk.rows = rows;
    talc_status status = TALC_OK;
    for (int64_t n = 0; n < p->N; n += plan.matrix.slices)
        for (int64_t column = 0; column < P && status == TALC_OK; column += plan.matrix.columns) {
            chunk.slice = n, chunk.slices = talc_smaller(plan.matrix.slices, p->N - n);
            chunk.column = column, chunk.columns = talc_smaller(plan.matrix.columns, P - column);
            status = talc_cuda_im2col_build(device, &whole, arguments->x, &chunk);
            if (status == TALC_OK)
                status = talc_cuda_conv2d_sums_add(device, p, arguments, &chunk, &sums);
        }
    return status != TALC_OK ? status : talc_cuda_conv2d_sums_end(device, p, arguments, &sums);
}

static talc_status grad_weight(talc_device *device, const talc_conv2d_problem *p,
                               const talc_conv2d_arguments *arguments, const gradient_plan &plan)
{
    const int64_t taps = p->KH * p->KW, K = p->C / p->groups * taps;
    const int64_t rows = plan.matrix.channels * taps;
    talc_status status = TALC_OK;
    for (int64_t group = 0; group < p->groups; group++)
        for (int64_t row = 0; row < K && status == TALC_OK; row += rows)
            status = grad_rows(device, p, arguments, plan, group, row, talc_smaller(rows, K - row));
    return status;
}

// ---- The algorithm ------------------------------------------------------------------------------

/* The products, which take `products`, B or D written and read, dx by gathering from D, and the
 * launches of the kernels that do so. */
static const char *end_plan(const talc_device *device, const talc_conv2d_problem *p,
                            const gradient_plan &planned, double products, double launches,
                            talc_plan *plan)
{
    constexpr double GATHERING = 0.75e12;
    const bool input = p->direction == TALC_GRAD_INPUT;
    const double size = (double)talc_dtype_size(p->dtype);
    const double matrix = (double)(p->C / p->groups * p->KH * p->KW) * (double)(p->N * p->groups) *
                          (double)(p->OH * p->OW) * size;
    const double dx = (double)p->N * (double)p->C * (double)p->H * (double)p->W * size;
    plan->workspace = planned.sums.bytes == 0 ? talc_cuda_im2col_bytes(&planned.matrix)
                                              : planned.sums_at + planned.sums.bytes;
    plan->seconds = products + launches * TALC_CUDA_LAUNCH +
                    talc_cuda_conv2d_seconds(device, p, INFINITY, 2 * matrix, 0) +
                    (input ? dx / GATHERING : 0);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

static const char *plan_tensor_cores(const talc_device *device, const talc_conv2d_problem *p,
                                     size_t limit, talc_plan *plan)
{
    gradient_plan planned = {};
    double products = 0;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    const char *refusal = talc_cuda_im2col_cut_packed(device, p, limit, &planned.matrix, &products);
    return refusal != NULL ? refusal : end_plan(device, p, planned, products, 3, plan);
}

static const char *plan_cublas(const talc_device *device, const talc_conv2d_problem *p,
                               size_t limit, talc_plan *plan)
{
    gradient_plan planned = {};
    plan->missing = talc_cuda_blas_refuses;
    if (p->direction == TALC_GRAD_INPUT) {
        const int64_t K = p->C / p->groups * p->KH * p->KW;
        /* cuBLAS's tiles have 32 columns and more. */
        const double columns = talc_smaller(p->OH * p->OW, 32) / 32.,
                     share = (p->dtype == TALC_F64 ? 2 : 0.85) * columns * (double)K /
                             (double)(talc_ceil_div(K, 64) * 64);
        planned.matrix =
            talc_cuda_im2col_cut(talc_cuda_state_of(device)->multiprocessors, p, limit);
        return end_plan(device, p, planned,
                        talc_cuda_conv2d_seconds(device, p, share, talc_conv2d_bytes(p), 0) +
                            TALC_CUDA_CUBLAS,
                        3, plan);
    }
    planned = plan_sums(device, p, limit);
    const talc_cuda_im2col_plan &matrix = planned.matrix;
    const double chunks = (double)(p->groups * talc_ceil_div(p->N, matrix.slices)) *
                          (double)(talc_ceil_div(p->OH * p->OW, matrix.columns) *
                                   talc_ceil_div(p->C / p->groups, matrix.channels));
    return end_plan(device, p, planned,
                    chunks * talc_cuda_conv2d_sums_seconds(
                                 device, p, &planned.sums, matrix.channels * p->KH * p->KW,
                                 talc_smaller(matrix.slices, p->N), matrix.columns),
                    chunks, plan);
}

template <typename T>
static talc_status run_gradient(talc_device *device, const talc_conv2d_problem *p,
                                const gradient_plan &planned, const talc_conv2d_arguments *a)
{
    return p->direction == TALC_GRAD_WEIGHT ? grad_weight(device, p, a, planned)
                                            : grad_input(device, p, a, planned.matrix);
}

TALC_CUDA_FORM(im2col_tensor_cores_gradient, plan_tensor_cores(device, p, limit, plan),
               run_gradient<T>(device, p, own_plan<gradient_plan>(plan), a))
TALC_CUDA_FORM(im2col_cublas_gradient, plan_cublas(device, p, limit, plan),
               run_gradient<T>(device, p, own_plan<gradient_plan>(plan), a))
