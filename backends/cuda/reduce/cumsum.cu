/// Sums of the elements so far, along one dimension of a strided array.
///
///     y_i = sum over j <= i of x_j,    of a gradient over j >= i
///
///   across  Where many neighbouring lines are neighbours in memory, or lines are short: a thread a
///           line.
///   along   Elsewhere a block a line, TILE elements at a time, of which each thread has EACH in
///           order. Threads' sums are scanned by warp shuffles, those of warps through shared
///           memory, and the sum of all tiles so far is carried on.
///
/// Memory-bound where there are lines enough; a single long line is read by one block. The sum
/// before a thread's elements comes from the thread before it and is no difference, so an infinity
/// is in no sum that it does not belong to.
///
/// Arithmetic: f64.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "backends/cuda/primitives/algorithm.cuh"
#include "ops/cumsum.h"

using namespace talc;

namespace /* other kernels have types of the same names */
{

/* A thread a line: lines that fill a GPU, and elements that a block could not share. */
constexpr int EACH = 4, TILE = BLOCK * EACH, ENOUGH_LINES = 1 << 15, SHORT = 32;

/* The lines. Strides of a gradient lead back, from the last elements, where x and y begin. */
struct lines {
    int64_t extent, outer, y_stride, x_stride;
    strided_index<2, uint64_t> at; /* y and x */

    explicit lines(const talc_cumsum_problem *p)
        : extent(p->extent), outer(p->outer), y_stride(p->y_stride), x_stride(p->x_stride),
          at(p->outer_rank, p->outer_dims, { p->y_strides, p->x_strides })
    {
        if (p->direction != TALC_FORWARD) {
            y_stride = -y_stride;
            x_stride = -x_stride;
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(BLOCK) across(T *y, const T *x, const lines of)
{
    TALC_GRID_LOOP(int64_t, line, of.outer)
    {
        int64_t at[2];
        of.at.offsets((uint64_t)line, at);
        double sum = 0;
#pragma unroll 4
        for (int64_t i = 0; i < of.extent; i++) {
            sum += (double)x[at[1] + i * of.x_stride];
            y[at[0] + i * of.y_stride] = (T)sum;
        }
    }
}

/* The sum of the values of this lane and those before it. */
__device__ double scan_warp(double value)
{
    for (int step = 1; step < WARP; step *= 2) {
        const double before = __shfl_up_sync(~0u, value, step);
        if ((int)threadIdx.x % WARP >= step)
            value += before;
    }
    return value;
}

template <typename T>
__global__ void __launch_bounds__(BLOCK) along(T *y, const T *x, const lines of)
{
    __shared__ double warps[BLOCK / WARP];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (int64_t line = blockIdx.x; line < of.outer; line += gridDim.x) {
        int64_t at[2];
        of.at.offsets((uint64_t)line, at);
        double carried = 0; /* the same in every thread */
        for (int64_t tile = 0; tile < of.extent; tile += TILE) {
            const int64_t first = tile + (int64_t)threadIdx.x * EACH;
            double sums[EACH];
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const double value =
                    first + k < of.extent ? (double)x[at[1] + (first + k) * of.x_stride] : 0;
                sums[k] = k == 0 ? value : sums[k > 0 ? k - 1 : 0] + value;
            }
            const double scanned = scan_warp(sums[EACH - 1]);
            if (lane == WARP - 1)
                warps[warp] = scanned;
            __syncthreads();
            double before = carried;
            for (int w = 0; w < BLOCK / WARP; w++) {
                before += w < warp ? warps[w] : 0;
                carried += warps[w];
            }
            const double in_warp = __shfl_up_sync(~0u, scanned, 1);
            before += lane > 0 ? in_warp : 0;
#pragma unroll
            for (int k = 0; k < EACH; k++)
                if (first + k < of.extent)
                    y[at[0] + (first + k) * of.y_stride] = (T)(before + sums[k]);
            __syncthreads(); /* the next tile's sums take their place */
        }
    }
}

template <typename T>
talc_status launch(talc_device *device, const talc_cumsum_problem *p,
                   const talc_cumsum_arguments *a)
{
    const lines of(p);
    const int64_t last = p->direction == TALC_FORWARD ? 0 : p->extent - 1;
    T *const y = (T *)a->y + last * p->y_stride;
    const T *const x = (const T *)a->x + last * p->x_stride;
    const cudaStream_t stream = talc_cuda_stream(device);
    const bool neighbours = p->outer_rank > 0 && p->y_strides[p->outer_rank - 1] < p->y_stride;
    if ((neighbours && p->outer >= ENOUGH_LINES) || p->extent <= SHORT)
        across<T><<<grid_for_threads(device, p->outer), BLOCK, 0, stream>>>(y, x, of);
    else
        along<T><<<grid_for_blocks(device, p->outer), BLOCK, 0, stream>>>(y, x, of);
    return talc_cuda_launched(device, "cumsum");
}

talc_status run_cumsum(talc_device *device, const talc_cumsum_problem *p, const talc_plan *,
                       const talc_cumsum_arguments *a)
{
    return with_float(p->dtype, [&](auto element) {
        return launch<typename decltype(element)::type>(device, p, a);
    });
}

const char *plan_cumsum(const talc_device *, const talc_cumsum_problem *p, size_t, talc_plan *)
{
    return talc_dtype_is_float(p->dtype) ? NULL : "x must be f32 or f64";
}

} // namespace

const talc_algorithm talc_cuda_cumsum[] = {
    talc_cuda_algorithm<plan_cumsum, run_cumsum>("direct",
                                                 { "f64 accumulation", TALC_STRICT, true }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
