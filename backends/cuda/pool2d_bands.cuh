/// Pooling windows of any size, by bands of rows in shared memory. Private to backends/cuda.
///
/// A unit of work is a run of memory: the rows of x that some rows of y need, or some whole planes where they are small. A
/// block copies it into shared memory as it lies, in pieces of 16 bytes whatever the windows are, and its threads take the
/// windows out of it there:
///
///     x, plane after plane     . . . . . . [ . . . . . . . . . . . . . ] . . . .
///     shared memory                          the run: rows h0 .. h1 of a plane, or planes
///     a group of threads       one output: `across` of them side by side, the rows of the window dealt out among them
///
/// A row of y whose rows of x do not fit, as those of global averages, is done part after part.
#ifndef TALC_BACKENDS_CUDA_POOL2D_BANDS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_BANDS_CUH

#include "backends/cuda/pool2d_axis.cuh"

#include <cuda_pipeline_primitives.h>

namespace
{

/* Bytes of a run: six blocks of a multiprocessor have room. */
constexpr int64_t RUN_BYTES = 32 << 10;

struct band_plan {
    window_plan<int> window;
    int H, W;
    int planes, rows; ///< of y in a unit; rows == OH, or planes == 1
    int part;         ///< rows of x at a time; all that a unit needs, but for the largest windows
    int across, threads;             ///< of an output's group
    divisor<uint32_t> units, OH, OW; ///< units of a plane
    uint32_t count, all_planes;

    explicit band_plan(const talc_pool2d_problem *p)
        : window{ talc_pool2d_axis_h(p),
                  talc_pool2d_axis_w(p),
                  { p->exclude_padding, p->divisor } },
          H((int)p->H), W((int)p->W)
    {
    }
};

/* Copies `count` elements at `from` to `shared`, whose first is at its place within 16 bytes. */
template <typename T> static __device__ void copy_run(T *shared, const T *from, int count)
{
    constexpr int V = ACCESS / sizeof(T);
    const int before = (int)((uintptr_t)from / sizeof(T) % V); /* of the first pack */
    for (int i = ((int)threadIdx.x) * V - before; i < count; i += BLOCK * V)
        if (i >= 0 && i + V <= count) {
            __pipeline_memcpy_async(shared + i, from + i, ACCESS);
        } else {
            for (int k = 0; k < V; k++)
                if (i + k >= 0 && i + k < count)
                    __pipeline_memcpy_async(shared + i + k, from + i + k, sizeof(T));
        }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
}

template <typename State, typename T>
static __global__ void __launch_bounds__(BLOCK, 5)
    pool_bands(const T *x, T *y, int64_t *indices, const band_plan p)
{
    extern __shared__ __align__(16) unsigned char band_bytes[];
    __shared__ alignas(ACCESS) char joins[BLOCK / WARP * sizeof(State)];
    const int groups = BLOCK / p.threads, group = (int)threadIdx.x / p.threads;
    const int member = (int)threadIdx.x % p.threads;
    const int right = member % p.across, below = member / p.across, down = p.threads / p.across;
    const int OH = (int)p.OH.by, OW = (int)p.OW.by;
    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const uint32_t first_plane = p.units.quotient(unit) * p.planes;
        const int planes = min(p.planes, (int)(p.all_planes - first_plane));
        const int first_oh = (int)(unit - p.units.quotient(unit) * p.units.by) * p.rows;
        const int rows = min(p.rows, OH - first_oh), outputs = planes * rows * OW;
        /* The rows of x, of one plane after the other. */
        int top, bottom, other, padded;
        p.window.h.window(first_oh, top, other, padded);
        p.window.h.window(first_oh + rows - 1, other, bottom, padded);
        if (planes > 1)
            top = 0, bottom = p.H;
        const int64_t from = ((int64_t)first_plane * p.H + top) * p.W;
        for (int first = 0; first < outputs; first += groups) {
            const int output = first + group;
            const bool real = output < outputs;
            const uint32_t row = p.OW.quotient(real ? output : 0);
            const uint32_t plane = p.planes > 1 ? p.OH.quotient(row) : 0;
            const int oh = first_oh + (int)row - (int)plane * OH;
            const int ow = (real ? output : 0) - (int)row * OW;
            int h0, h1, h_padded, w0, w1, w_padded;
            p.window.h.window(oh, h0, h1, h_padded);
            p.window.w.window(ow, w0, w1, w_padded);
            State state;
            for (int part = top; part < bottom; part += p.part) {
                const int end = p.planes > 1 ? p.H * planes : min(bottom, part + p.part);
                const T *run = x + from + (int64_t)(part - top) * p.W;
                T *shared = (T *)band_bytes + (uintptr_t)run / sizeof(T) % (ACCESS / sizeof(T));
                if (first == 0) {
                    __syncthreads(); /* the part before is read */
                    copy_run(shared, run, (end - part) * p.W);
                }
                const T *rows_of_plane = shared + ((int)plane * p.H - part) * p.W;
                const int last = p.planes > 1 ? h1 : min(h1, end);
                if (real)
                    for (int ih = max(h0, part) + below; ih < last; ih += down)
                        for (int iw = w0 + right; iw < w1; iw += p.across)
                            state.add(rows_of_plane[ih * p.W + iw], ih * p.W + iw);
                if (p.planes > 1)
                    break;
            }
            if (p.threads > 1)
                state = join_group(state, p.threads, (State *)joins);
            if (!real || member != 0)
                continue;
            const int64_t at = ((int64_t)first_plane * OH + first_oh) * OW + output;
            store_window(state, p.window.average, h1 - h0, w1 - w0, h_padded, w_padded, y, indices,
                         at);
        }
    }
}

} // namespace

#endif
