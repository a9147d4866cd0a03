/// Convolution as a matrix product. For each slice s, one group of one image, with K = C/groups *
/// KH * KW,
///
///     y[s, oc, j] = sum over k of w[g, oc, k] * B[s, k, j],        j = oh * OW + ow
///     B[s, (ic * KH + kh) * KW + kw, j] = x'[s, ic, oh*stride_h - top + kh*dilation_h,
///                                            ow*stride_w - left + kw*dilation_w]
///
/// B, the im2col matrix, repeats every input KH * KW times, so only as much of it is made as the
/// workspace holds: several slices, else a chunk of the columns of one, else a chunk of the rows of
/// these too. A kernel writes it. Of the form `cublas`, cuBLAS multiplies it into y; of `tensor
/// cores` these do, as strict, where whole planes and their operands' halves fit the workspace
/// (matmul/f32_product.h).
///
/// Who writes what: a block of threads takes up to 1,024 columns and one or more input channels; a
/// thread works out where its COLUMNS columns begin in the image once and then goes through the
/// taps. Accesses are coalesced, and x is read from memory once, from cache KH * KW times: the
/// kernel is bound by writing B.
///
/// Arithmetic: the data's type, in cuBLAS's fixed order; the cuts follow from the problem, the GPU
/// and the workspace limit. Source: Chellapilla, Puri and Simard, "High performance convolutional
/// neural networks for document processing", 2006.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/device/blas.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/witness.h"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/im2col.h"
#include "backends/cuda/conv2d/im2col_tile_map.h"
#include "ops/window.h"
#include "tensor/extent.h"

#include <type_traits>

using namespace talc;

constexpr int COLUMNS = TALC_IM2COL_COLUMNS;
static_assert(BLOCK == TALC_IM2COL_THREADS, "im2col_tile_map.h");

// ---- Plan ---------------------------------------------------------------------------------------

using im2col_plan = talc_cuda_im2col_plan;

talc_cuda_conv2d_chunk talc_cuda_im2col_chunk(const im2col_plan *plan, int64_t taps,
                                              void *workspace)
{
    talc_cuda_conv2d_chunk chunk = {};
    chunk.slices = plan->slices, chunk.columns = plan->columns, chunk.rows = plan->channels * taps;
    chunk.b = workspace;
    chunk.ldb = plan->ld;
    chunk.b_stride = chunk.rows * plan->ld;
    if (plan->packing > 0 && workspace != NULL)
        chunk.packing = (char *)workspace + plan->packing_at;
    chunk.packing_bytes = plan->packing;
    return chunk;
}

const char *talc_cuda_im2col_cut_packed(const talc_device *device, const talc_conv2d_problem *p,
                                        size_t limit, im2col_plan *plan, double *seconds)
{
    *plan = talc_cuda_im2col_cut(talc_cuda_state_of(device)->multiprocessors, p, limit / 2);
    const talc_cuda_conv2d_chunk chunk = talc_cuda_im2col_chunk(plan, p->KH * p->KW, NULL);
    talc_plan one = {};
    plan->packing_at = talc_cuda_aligned(plan->bytes);
    const char *refusal = talc_cuda_conv2d_packing(
        device, p, &chunk, limit > plan->packing_at ? limit - plan->packing_at : 0, &one);
    plan->packing = one.workspace;
    *seconds = one.seconds * (double)(talc_ceil_div(p->N * p->groups, plan->slices) *
                                      talc_ceil_div(p->C / p->groups, plan->channels));
    return refusal;
}

// ---- Building B ---------------------------------------------------------------------------------

/* A chunk of B and where it comes from. `Index` holds every coordinate of the padded image, and
 * offsets in a plane. */
template <typename Index> struct im2col_chunk {
    using Count = std::make_unsigned_t<Index>;
    Index H, W, KH, KW, stride_h, stride_w, dilation_h, dilation_w, top, left;
    divisor<Count> OW;
    talc_padding_mode mode;
    Index column, columns; /* first, count */
    int64_t slices, channels;
    int64_t plane, x_stride;        /* elements of x from channel to channel, from slice to slice */
    int64_t ld, row_step, b_stride; /* of B from row to row, channel to channel, slice to slice */
};

/* `top` and `left` are where a column's window begins in the image. With ZEROS all padding is zero.
 * Registers for four blocks a multiprocessor are enough to keep the taps of a whole step in
 * flight. */
template <typename T, typename Index, bool ZEROS>
static __global__ void __launch_bounds__(BLOCK, sizeof(Index) == 4 ? 4 : 2)
    im2col_kernel(T *__restrict__ b, const T *__restrict__ x, const im2col_chunk<Index> chunk)
{
    using Count = typename im2col_chunk<Index>::Count;
    const Index first = (Index)((Count)blockIdx.x * blockDim.x * COLUMNS) +
                        talc_im2col_first_column((int)threadIdx.x);
    Index top[COLUMNS], left[COLUMNS];
    bool live[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const Index at = first + talc_im2col_behind(c);
        const Count j = (Count)(chunk.column + at), oh = chunk.OW.quotient(j);
        live[c] = at < chunk.columns;
        top[c] = (Index)oh * chunk.stride_h - chunk.top;
        left[c] = (Index)(j - oh * chunk.OW.by) * chunk.stride_w - chunk.left;
    }
    for (int64_t slice = blockIdx.z; slice < chunk.slices; slice += gridDim.z)
        for (int64_t ic = blockIdx.y; ic < chunk.channels; ic += gridDim.y) {
            const T *plane = x + slice * chunk.x_stride + ic * chunk.plane;
            asm("" : "+l"(plane)); /* a finished address, or it is worked out anew for every load */
            T *out = b + slice * chunk.b_stride + ic * chunk.row_step + first;
            for (Index kh = 0; kh < chunk.KH; kh++) {
                Index row[COLUMNS];
                Index column[COLUMNS];
                Count width[COLUMNS]; /* 0 where the row is outside */
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    Index h = top[c] + kh * chunk.dilation_h;
                    bool inside = live[c];
                    if (ZEROS)
                        inside = inside && (Count)h < (Count)chunk.H;
                    else if (inside)
                        h = (Index)talc_window_source(chunk.mode, h, chunk.H);
                    width[c] = inside ? (Count)chunk.W : 0;
                    row[c] = inside ? h * chunk.W : 0;
                    column[c] = left[c];
                }
#pragma unroll(sizeof(Index) == 4 ? 4 : 1)
                for (Index kw = 0; kw < chunk.KW; kw++, out += chunk.ld) {
                    T value[COLUMNS];
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        Index w = column[c];
                        column[c] += chunk.dilation_w;
                        if (!ZEROS && live[c])
                            w = (Index)talc_window_source(chunk.mode, w, chunk.W);
                        value[c] = (Count)w < width[c] ? __ldg(plane + (row[c] + w)) : (T)0;
                    }
                    witness(value, blockIdx.x, 0);
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++)
                        if (live[c])
                            out[talc_im2col_behind(c)] = value[c];
                }
            }
        }
}

/* B for `chunk`, whose rows start with a channel. */
template <typename T, typename Index>
static void build(talc_device *device, const talc_conv2d_problem *p, const T *x, T *b,
                  const talc_cuda_conv2d_chunk &chunk)
{
    const int64_t taps = p->KH * p->KW, channels = chunk.rows / taps, channel = chunk.row / taps;
    im2col_chunk<Index> s;
    s.H = (Index)p->H, s.W = (Index)p->W, s.KH = (Index)p->KH, s.KW = (Index)p->KW;
    s.stride_h = (Index)p->stride_h, s.stride_w = (Index)p->stride_w;
    s.dilation_h = (Index)p->dilation_h, s.dilation_w = (Index)p->dilation_w;
    s.top = (Index)p->pad_top, s.left = (Index)p->pad_left;
    s.OW.set(p->OW);
    s.mode = p->padding_mode;
    s.column = (Index)chunk.column, s.columns = (Index)chunk.columns;
    s.slices = chunk.slices, s.channels = channels;
    s.plane = p->H * p->W, s.x_stride = p->C / p->groups * s.plane;
    s.ld = chunk.ldb, s.row_step = taps * chunk.ldb, s.b_stride = chunk.b_stride;
    x += chunk.slice * s.x_stride + channel * s.plane;

    const talc_im2col_grid of = talc_im2col_grid_of(chunk.slices, channels, taps, chunk.columns,
                                                    talc_cuda_state_of(device)->multiprocessors);
    const dim3 grid((unsigned)of.blocks, (unsigned)of.rows, (unsigned)of.slices);
    const cudaStream_t stream = talc_cuda_stream(device);
    if (p->padding_mode == TALC_PADDING_ZEROS)
        im2col_kernel<T, Index, true><<<grid, (unsigned)of.threads, 0, stream>>>(b, x, s);
    else
        im2col_kernel<T, Index, false><<<grid, (unsigned)of.threads, 0, stream>>>(b, x, s);
}

/* Whether 32 bits hold all coordinates and columns of the padded plane, with a margin for the last
 * block. */
bool talc_cuda_im2col_is_narrow(const talc_conv2d_problem *p)
{
    const double h = (double)p->H + (double)p->pad_top + (double)p->pad_bottom;
    const double w = (double)p->W + (double)p->pad_left + (double)p->pad_right;
    const double stride = (double)talc_larger(p->stride_h, p->stride_w);
    return (h + stride * COLUMNS * BLOCK) * w < INT_MAX && w + stride < INT_MAX;
}

// ---- Running ------------------------------------------------------------------------------------

template <typename T>
static void build_of(talc_device *device, const talc_conv2d_problem *p, const void *x,
                     const talc_cuda_conv2d_chunk &chunk)
{
    if (talc_cuda_im2col_is_narrow(p))
        build<T, int32_t>(device, p, (const T *)x, (T *)chunk.b, chunk);
    else
        build<T, int64_t>(device, p, (const T *)x, (T *)chunk.b, chunk);
}

talc_status talc_cuda_im2col_build(talc_device *device, const talc_conv2d_problem *p, const void *x,
                                   const talc_cuda_conv2d_chunk *chunk)
{
    return with_float(p->dtype, [&](auto element) {
        build_of<typename decltype(element)::type>(device, p, x, *chunk);
        return talc_cuda_launched(device, "conv2d");
    });
}

template <typename T>
static talc_status convolve(talc_device *device, const talc_conv2d_problem *p,
                            const talc_conv2d_arguments *arguments, const im2col_plan &plan)
{
    const int64_t taps = p->KH * p->KW, K = p->C / p->groups * taps, P = p->OH * p->OW;
    const int64_t slices = p->N * p->groups, rows = plan.channels * taps;
    talc_status status = TALC_OK;
    talc_cuda_conv2d_chunk chunk = talc_cuda_im2col_chunk(&plan, taps, arguments->base.workspace);
    for (int64_t slice = 0; slice < slices; slice += plan.slices)
        for (int64_t column = 0; column < P; column += plan.columns)
            for (int64_t row = 0; row < K && status == TALC_OK; row += rows) {
                chunk.slice = slice, chunk.slices = talc_smaller(plan.slices, slices - slice);
                chunk.column = column, chunk.columns = talc_smaller(plan.columns, P - column);
                chunk.row = row, chunk.rows = talc_smaller(rows, K - row);
                status = talc_cuda_im2col_build(device, p, arguments->x, &chunk);
                if (status == TALC_OK)
                    status = talc_cuda_conv2d_multiply(device, p, arguments, &chunk);
            }
    if (status != TALC_OK)
        return status;
    const epilogue<T> last(arguments->bias, arguments->residual, p->activation);
    epilogue_in_place<T>(device, last, (T *)arguments->y, P, p->OC, p->N * p->OC * P);
    return talc_cuda_launched(device, "conv2d");
}

/* B is written, then read by the products, which take `products` seconds and wait for it, about as
 * long as a launch. */
static const char *end_plan(const talc_device *device, const talc_conv2d_problem *p,
                            const im2col_plan &planned, double products, talc_plan *plan)
{
    const double outputs = (double)p->N * (double)p->groups * (double)p->OH * (double)p->OW;
    const double matrix =
        (double)(p->C / p->groups * p->KH * p->KW) * outputs * (double)talc_dtype_size(p->dtype);
    plan->workspace = talc_cuda_im2col_bytes(&planned);
    plan->seconds = products + talc_cuda_conv2d_seconds(device, p, INFINITY, 2 * matrix, 2) +
                    talc_cuda_conv2d_epilogue_seconds(device, p);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

static const char *plan_tensor_cores(const talc_device *device, const talc_conv2d_problem *p,
                                     size_t limit, talc_plan *plan)
{
    im2col_plan planned;
    double products = 0;
    const char *refusal = talc_cuda_im2col_cut_packed(device, p, limit, &planned, &products);
    if (refusal != NULL)
        return refusal;
    return end_plan(device, p, planned, products, plan);
}

static const char *plan_cublas(const talc_device *device, const talc_conv2d_problem *p,
                               size_t limit, talc_plan *plan)
{
    plan->missing = talc_cuda_blas_refuses;
    return end_plan(device, p,
                    talc_cuda_im2col_cut(talc_cuda_state_of(device)->multiprocessors, p, limit),
                    talc_cuda_conv2d_blas_seconds(device, p, (double)(p->OC / p->groups),
                                                  (double)(p->OH * p->OW),
                                                  (double)(p->C / p->groups * p->KH * p->KW)),
                    plan);
}

TALC_CUDA_FORM(im2col_tensor_cores, plan_tensor_cores(device, p, limit, plan),
               convolve<T>(device, p, a, own_plan<im2col_plan>(plan)))
TALC_CUDA_FORM(im2col_cublas, plan_cublas(device, p, limit, plan),
               convolve<T>(device, p, a, own_plan<im2col_plan>(plan)))
