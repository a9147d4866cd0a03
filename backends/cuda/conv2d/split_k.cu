/// The sums of split_k.h: how they are shared out, their products, and the kernel that adds the
/// slots. It reads them once; a block has OUTPUTS neighbouring results, and SLICES threads of each
/// add every SLICES-th slot, the results of which are added in order.
#include "backends/cuda/conv2d/split_k.h"
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/device/blas.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "tensor/extent.h"

#include <cmath>

using namespace talc;

/* cuBLAS's tiles of results, of which there should be so many rounds for the GPU, and columns that
 * are worth a product. */
constexpr int64_t TILE = 128, ROUNDS = 4, MIN_COLUMNS = 256;

/* Seconds of a product of a sum of cuBLAS's, however few results it has, on an H200. */
constexpr double TERM = 31e-9;

/* Of the kernel's block. */
constexpr int OUTPUTS = 32, SLICES = BLOCK / OUTPUTS;

talc_cuda_conv2d_sums_plan talc_cuda_conv2d_sums_cut(const talc_device *device,
                                                     const talc_conv2d_problem *p, int64_t rows,
                                                     int64_t images, int64_t columns, size_t limit)
{
    const int64_t OC = p->OC / p->groups, size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t tiles = talc_ceil_div(OC, TILE) * talc_ceil_div(rows, TILE);
    const int64_t slot = OC * rows * size;
    const int64_t fit = (int64_t)(limit / (size_t)slot);
    const int64_t wanted =
        talc_smaller(talc_ceil_div(ROUNDS * talc_cuda_state_of(device)->multiprocessors, tiles),
                     talc_larger(fit, 1));
    const int64_t across =
        talc_between(columns / MIN_COLUMNS, 1, wanted);    /* the columns of an image */
    const int64_t along = talc_between(images, 1, wanted); /* image beside image */
    talc_cuda_conv2d_sums_plan plan = { along, columns, 0 };
    if (across > along) {
        /* Slots begin where a 16-byte access may. */
        plan.cut = talc_ceil_div(talc_ceil_div(columns, across), 4) * 4;
        plan.slots = talc_ceil_div(columns, plan.cut);
    }
    plan.bytes = plan.slots > 1 ? (size_t)(plan.slots * slot) : 0;
    return plan;
}

talc_cuda_conv2d_sums_plan talc_cuda_conv2d_sums_whole(const talc_conv2d_problem *p, int64_t rows)
{
    const double bytes =
        (double)p->N * (double)(p->OC / p->groups * rows) * (double)talc_dtype_size(p->dtype);
    return { p->N, p->OH * p->OW, p->N > 1 ? (size_t)fmin(bytes, 1e18) : 0 };
}

double talc_cuda_conv2d_sums_seconds(const talc_device *device, const talc_conv2d_problem *p,
                                     const talc_cuda_conv2d_sums_plan *plan, int64_t rows,
                                     int64_t images, int64_t columns)
{
    const int64_t OC = p->OC / p->groups, size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t calls = plan->cut < columns ? images : talc_ceil_div(images, plan->slots);
    const double terms = (double)talc_smaller(plan->cut, columns),
                 waiting = TALC_CUDA_LAUNCH + terms * TERM,
                 call = talc_cuda_conv2d_call_seconds(device, p->dtype, (double)OC, (double)rows,
                                                      terms, (double)plan->slots),
                 one = fmax(call, waiting);
    const double slots = (double)plan->slots * (double)(OC * rows * size);
    return (double)calls * one +
           (plan->slots > 1 ? talc_cuda_conv2d_seconds(device, p, INFINITY, 2 * slots, 1) : 0);
}

// ---- Products -----------------------------------------------------------------------------------

/* Products beside each other: where they begin in dy and in B, how far apart they are there, how
 * many columns they have. */
struct batch {
    int64_t dy, b, dy_step, b_step, columns;
};

/* Where the slots are: slot after slot in the workspace, or dw. */
struct slot_layout {
    char *at;
    int64_t ld, step;
};

static slot_layout slots_of(const talc_conv2d_problem *p, const talc_conv2d_arguments *arguments,
                            const talc_cuda_conv2d_sums *sums)
{
    const int64_t OC = p->OC / p->groups, K = p->C / p->groups * p->KH * p->KW;
    const int64_t at = (sums->group * OC * K + sums->row) * (int64_t)talc_dtype_size(p->dtype);
    if (sums->plan.slots == 1)
        return { (char *)arguments->dw + at, K, 0 };
    return { (char *)sums->workspace, sums->rows, OC * sums->rows };
}

/* `count` products of chunks of `chunk`, whose sums are `ld` elements a row and `step` apart; the
 * operands' addresses are missing. */
static talc_cuda_product product_of(const talc_conv2d_problem *p,
                                    const talc_cuda_conv2d_chunk *chunk, const batch &b,
                                    int64_t rows, int64_t ld, int64_t step, int64_t count)
{
    talc_cuda_product product = {};
    product.dtype = p->dtype;
    product.tf32 = chunk->tf32;
    product.M = p->OC / p->groups;
    product.N = rows;
    product.K = b.columns;
    product.lda = p->OH * p->OW;
    product.ldb = chunk->ldb;
    product.ldc = ld;
    product.transpose_b = true;
    product.batch = count;
    product.a_stride = b.dy_step;
    product.b_stride = b.b_step;
    product.c_stride = step;
    return product;
}

static talc_status multiply(talc_device *device, const talc_conv2d_problem *p,
                            const talc_conv2d_arguments *arguments,
                            const talc_cuda_conv2d_chunk *chunk, const talc_cuda_conv2d_sums *sums,
                            const batch &b, int64_t slot, int64_t first, int64_t count, bool add)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const slot_layout to = slots_of(p, arguments, sums);
    talc_cuda_product product = product_of(p, chunk, b, sums->rows, to.ld, to.step, count);
    product.a = (const char *)arguments->dy + (b.dy + first * b.dy_step) * size;
    product.b = (const char *)chunk->b + (b.b + first * b.b_step) * size;
    product.c = to.at + (slot + first) * to.step * size;
    product.add = add;
    return talc_cuda_multiply(device, "conv2d.grad_weight", &product);
}

/* Into `count` slots from `slot` on, of which those that hold something are added to. */
static talc_status fill(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *arguments, const talc_cuda_conv2d_chunk *chunk,
                        talc_cuda_conv2d_sums *sums, const batch &b, int64_t slot, int64_t count)
{
    const int64_t old = talc_between(sums->filled - slot, 0, count);
    talc_status status = TALC_OK;
    if (old > 0)
        status = multiply(device, p, arguments, chunk, sums, b, slot, 0, old, true);
    if (status == TALC_OK && old < count) {
        status = multiply(device, p, arguments, chunk, sums, b, slot, old, count - old, false);
        sums->filled = slot + count;
    }
    return status;
}

talc_status talc_cuda_conv2d_sums_add(talc_device *device, const talc_conv2d_problem *p,
                                      const talc_conv2d_arguments *arguments,
                                      const talc_cuda_conv2d_chunk *chunk,
                                      talc_cuda_conv2d_sums *sums)
{
    const int64_t P = p->OH * p->OW, cut = sums->plan.cut, slots = sums->plan.slots;
    const int64_t image = p->OC * P, whole = chunk->columns / cut;
    const int64_t first =
        chunk->slice * image + sums->group * (p->OC / p->groups) * P + chunk->column;
    talc_status status = TALC_OK;
    if (chunk->columns <= cut) {
        for (int64_t i = 0; i < chunk->slices && status == TALC_OK; i += slots) {
            const batch b = { first + i * image, i * chunk->b_stride, image, chunk->b_stride,
                              chunk->columns };
            status = fill(device, p, arguments, chunk, sums, b, 0,
                          talc_smaller(slots, chunk->slices - i));
        }
        return status;
    }
    for (int64_t i = 0; i < chunk->slices && status == TALC_OK; i++) {
        batch b = { first + i * image, i * chunk->b_stride, cut, cut, cut };
        status = fill(device, p, arguments, chunk, sums, b, 0, whole);
        b.dy += whole * cut, b.b += whole * cut, b.columns = chunk->columns - whole * cut;
        if (status == TALC_OK && b.columns > 0)
            status = fill(device, p, arguments, chunk, sums, b, whole, 1);
    }
    return status;
}

// ---- The last sums ------------------------------------------------------------------------------

/* dw, of OC rows `ld` elements apart, from `slots` matrices of `count` elements, `rows` a row. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    add_slots(T *dw, const T *__restrict__ sums, int64_t slots, int64_t count, int64_t rows,
              int64_t ld)
{
    __shared__ accumulator_of<T> slice_sums[SLICES][OUTPUTS];
    const int output = (int)threadIdx.x % OUTPUTS, slice = (int)threadIdx.x / OUTPUTS;
    for (int64_t block = blockIdx.x; block * OUTPUTS < count; block += gridDim.x) {
        const int64_t i = block * OUTPUTS + output;
        accumulator_of<T> sum = 0;
        if (i < count)
#pragma unroll 4
            for (int64_t s = slice; s < slots; s += SLICES)
                sum += sums[s * count + i];
        slice_sums[slice][output] = sum;
        __syncthreads();
        if (slice == 0 && i < count) {
            for (int s = 1; s < SLICES; s++)
                sum += slice_sums[s][output];
            dw[i / rows * ld + i % rows] = (T)sum;
        }
        __syncthreads(); /* the sums are read */
    }
}

template <typename T>
static talc_status add(talc_device *device, void *dw, const void *sums, int64_t slots,
                       int64_t count, int64_t rows, int64_t ld)
{
    add_slots<T><<<grid_for_blocks(device, talc_ceil_div(count, OUTPUTS)), BLOCK, 0,
                   talc_cuda_stream(device)>>>((T *)dw, (const T *)sums, slots, count, rows, ld);
    return talc_cuda_launched(device, "conv2d.grad_weight");
}

talc_status talc_cuda_conv2d_sums_end(talc_device *device, const talc_conv2d_problem *p,
                                      const talc_conv2d_arguments *arguments,
                                      const talc_cuda_conv2d_sums *sums)
{
    if (sums->plan.slots == 1)
        return TALC_OK;
    const int64_t OC = p->OC / p->groups, K = p->C / p->groups * p->KH * p->KW;
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        return add<T>(device, (T *)arguments->dw + sums->group * OC * K + sums->row,
                      sums->workspace, sums->filled, OC * sums->rows, sums->rows, K);
    });
}

talc_status talc_cuda_conv2d_add_shares(talc_device *device, const talc_conv2d_problem *p,
                                        const talc_conv2d_arguments *arguments, int64_t shares)
{
    const int64_t count = p->OC * (p->C / p->groups) * p->KH * p->KW;
    return with_float(p->dtype, [&](auto element) {
        return add<typename decltype(element)::type>(
            device, arguments->dw, arguments->base.workspace, shares, count, count, count);
    });
}
