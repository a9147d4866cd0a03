/// Products of the elements so far, along one dimension of a strided array, and their gradient.
///
///     y_i  = product over j <= i of x_j
///     dx_j = y_(j-1) s_j,    s_j = dy_j + x_(j+1) s_(j+1)
///
///   across  Where neighbouring lines are neighbours in memory: a thread a line.
///   along   Elsewhere a warp has as many lines as lanes, a square tile at a time: it reads the
///           tile by lines into shared memory, each lane goes along its own line there, and the
///           tile is written by lines. So global memory is read and written in order.
///
/// The gradient goes along the lines twice: back for s, which stands in the workspace, and forth
/// for the products. Lines run a part at a time where the workspace does not hold all.
///
/// Arithmetic: f64, in the order of the elements.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "ops/cumprod.h"

using namespace talc;

namespace /* other kernels have types of the same names */
{

/* A column more than a tile has: its columns then fall into different banks of shared memory. */
constexpr int TILE = WARP, PITCH = TILE + 1;

struct lines {
    int64_t extent, first, end, y_stride, x_stride; /* lines first .. end - 1 */
    strided_index<2, uint64_t> at;                  /* y and x */

    explicit lines(const talc_cumprod_problem *p)
        : extent(p->extent), first(0), end(p->outer), y_stride(p->y_stride), x_stride(p->x_stride),
          at(p->outer_rank, p->outer_dims, { p->y_strides, p->x_strides })
    {
    }
};

/* Passes along a line. `step` gives what is written for an element, of two numbers loaded for it,
 * and moves `kept`, which goes on to the next one. */
template <typename T> struct forward {
    const T *x;
    T *y;
    static constexpr bool BACK = false;
    __device__ double load(const int64_t at[2], int64_t i, const lines &of, int64_t) const
    {
        return (double)x[at[1] + i * of.x_stride];
    }
    __device__ double step(double &kept, double value, double) const
    {
        return kept *= value;
    }
    __device__ double load_more(const int64_t *, int64_t, const lines &, int64_t) const
    {
        return 0;
    }
    __device__ void store(const int64_t at[2], int64_t i, const lines &of, int64_t, double r) const
    {
        y[at[0] + i * of.y_stride] = (T)r;
    }
    static constexpr double START = 1;
};

/* s, into the workspace: kept is x_(j+1) s_(j+1). */
template <typename T> struct sums {
    const T *x, *dy;
    double *s;
    static constexpr bool BACK = true;
    static constexpr double START = 0;
    __device__ double load(const int64_t at[2], int64_t i, const lines &of, int64_t) const
    {
        return (double)dy[at[1] + i * of.x_stride];
    }
    __device__ double load_more(const int64_t at[2], int64_t i, const lines &of, int64_t) const
    {
        return (double)x[at[1] + i * of.x_stride];
    }
    __device__ double step(double &kept, double value, double more) const
    {
        const double sum = value + kept;
        kept = more * sum;
        return sum;
    }
    __device__ void store(const int64_t *, int64_t i, const lines &of, int64_t line, double r) const
    {
        s[(line - of.first) * of.extent + i] = r;
    }
};

/* dx: kept is y_(j-1). */
template <typename T> struct gradient {
    const T *x;
    const double *s;
    T *dx;
    static constexpr bool BACK = false;
    static constexpr double START = 1;
    __device__ double load(const int64_t *, int64_t i, const lines &of, int64_t line) const
    {
        return s[(line - of.first) * of.extent + i];
    }
    __device__ double load_more(const int64_t at[2], int64_t i, const lines &of, int64_t) const
    {
        return (double)x[at[1] + i * of.x_stride];
    }
    __device__ double step(double &kept, double value, double more) const
    {
        const double product = kept * value;
        kept *= more;
        return product;
    }
    __device__ void store(const int64_t at[2], int64_t i, const lines &of, int64_t, double r) const
    {
        dx[at[0] + i * of.y_stride] = (T)r;
    }
};

template <typename Pass>
__global__ void __launch_bounds__(BLOCK) across(const Pass pass, const lines of)
{
    TALC_GRID_LOOP(int64_t, n, of.end - of.first)
    {
        const int64_t line = of.first + n;
        int64_t at[2];
        of.at.offsets((uint64_t)line, at);
        double kept = Pass::START;
        for (int64_t k = 0; k < of.extent; k++) {
            const int64_t i = Pass::BACK ? of.extent - 1 - k : k;
            const double value = pass.load(at, i, of, line), more = pass.load_more(at, i, of, line);
            pass.store(at, i, of, line, pass.step(kept, value, more));
        }
    }
}

template <typename Pass>
__global__ void __launch_bounds__(WARP) along(const Pass pass, const lines of)
{
    __shared__ double values[TILE][PITCH], more[TILE][PITCH];
    const int lane = (int)threadIdx.x;
    for (int64_t first = of.first + (int64_t)blockIdx.x * TILE; first < of.end;
         first += (int64_t)gridDim.x * TILE) {
        const int rows = (int)min((int64_t)TILE, of.end - first);
        double kept = Pass::START;
        for (int64_t tile = 0; tile < of.extent; tile += TILE) {
            const int columns = (int)min((int64_t)TILE, of.extent - tile);
            const int64_t begin = Pass::BACK ? of.extent - tile - columns : tile;
            for (int row = 0; row < rows; row++) {
                int64_t at[2];
                of.at.offsets((uint64_t)(first + row), at);
                if (lane < columns) {
                    values[row][lane] = pass.load(at, begin + lane, of, first + row);
                    more[row][lane] = pass.load_more(at, begin + lane, of, first + row);
                }
            }
            __syncwarp();
            for (int k = 0; lane < rows && k < columns; k++) {
                const int column = Pass::BACK ? columns - 1 - k : k;
                values[lane][column] = pass.step(kept, values[lane][column], more[lane][column]);
            }
            __syncwarp();
            for (int row = 0; row < rows; row++) {
                int64_t at[2];
                of.at.offsets((uint64_t)(first + row), at);
                if (lane < columns)
                    pass.store(at, begin + lane, of, first + row, values[row][lane]);
            }
            __syncwarp();
        }
    }
}

template <typename Pass>
void launch(talc_device *device, const talc_cumprod_problem *p, const Pass &pass, const lines &of)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const int64_t count = of.end - of.first;
    if (p->outer_rank > 0 && p->y_strides[p->outer_rank - 1] < p->y_stride)
        across<<<grid_for_threads(device, count), BLOCK, 0, stream>>>(pass, of);
    else
        along<<<grid_for_blocks(device, (count + TILE - 1) / TILE), WARP, 0, stream>>>(pass, of);
}

template <typename T>
talc_status run(talc_device *device, const talc_cumprod_problem *p, const talc_plan *plan,
                const talc_cumprod_arguments *a)
{
    lines of(p);
    if (p->direction == TALC_FORWARD) {
        launch(device, p, forward<T>{ (const T *)a->x, (T *)a->y }, of);
        return talc_cuda_launched(device, "cumprod");
    }
    double *const s = (double *)a->base.workspace;
    const int64_t at_once = (int64_t)(plan->workspace / sizeof(double)) / p->extent;
    for (of.first = 0; of.first < p->outer; of.first = of.end) {
        of.end = min(p->outer, of.first + at_once);
        launch(device, p, sums<T>{ (const T *)a->x, (const T *)a->dy, s }, of);
        launch(device, p, gradient<T>{ (const T *)a->x, s, (T *)a->dx }, of);
        const talc_status status = talc_cuda_launched(device, "cumprod.grad_input");
        if (status != TALC_OK)
            return status;
    }
    return TALC_OK;
}

talc_status run_cumprod(talc_device *device, const talc_cumprod_problem *p, const talc_plan *plan,
                        const talc_cumprod_arguments *a)
{
    return with_float(p->dtype, [&](auto element) {
        return run<typename decltype(element)::type>(device, p, plan, a);
    });
}

const char *plan_cumprod(const talc_device *, const talc_cumprod_problem *p, size_t limit,
                         talc_plan *plan)
{
    if (p->direction != TALC_FORWARD && p->extent > 0) {
        const size_t line = (size_t)p->extent * sizeof(double);
        const int64_t fit = (int64_t)(limit / line);
        plan->workspace = line * (size_t)(fit < 1 ? 1 : fit < p->outer ? fit : p->outer);
    }
    return talc_dtype_is_float(p->dtype) ? NULL : "x must be f32 or f64";
}

} // namespace

const talc_algorithm talc_cuda_cumprod[] = {
    talc_cuda_algorithm<plan_cumprod, run_cumprod>("direct",
                                                   { "f64 accumulation", TALC_STRICT, true }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
