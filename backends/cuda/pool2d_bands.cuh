/// Pooling windows of any size, down and then across. Private to backends/cuda.
///
/// A unit of work is some rows of y, or some whole planes where they are small. Neighbouring threads take neighbouring columns
/// of x and combine the rows of each row of windows in them; then they take outputs, and combine the columns:
///
///     rows of x        . . . . . . . . . .       out of shared memory, where a unit fits into it (runs.cuh)
///                      | | | | | | | | | |
///     states           s s s s s s s s s s       a row of them for each row of y, in shared memory
///                       \ | /   \ | /   ...
///     row of y            y       y
///
/// Every element is read about once, whatever the windows are, and no thread reads far from its neighbours.
#ifndef TALC_BACKENDS_CUDA_POOL2D_BANDS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_BANDS_CUH

#include "backends/cuda/pool2d_axis.cuh"
#include "backends/cuda/pool2d_row.cuh"
#include "backends/cuda/runs.cuh"

namespace
{

using namespace talc;

/* Bytes of a unit: six blocks of a multiprocessor have room. */
constexpr int64_t BAND_BYTES = 36 << 10;

/* A row of windows in a unit. */
struct band_line {
    int from;  ///< its first row of x, of those of the unit
    int count; ///< of rows
    int h;     ///< the first one's number in the plane
    int size;  ///< by which averages are divided
};

struct band_plan {
    window_plan<int> window;
    int H, W, OW;
    int planes, rows; ///< of y in a unit; rows == OH, or planes == 1
    int run_bytes;    ///< room for the rows of x; 0: they are read where they are
    int lines_bytes, bytes;
    divisor<uint32_t> units, OH; ///< units of a plane
    uint32_t count, all_planes;

    explicit band_plan(const talc_pool2d_problem *p)
        : window(p), H((int)p->H), W((int)p->W), OW((int)p->OW)
    {
    }
};

template <typename State, typename T, bool STAGED>
static __global__ void __launch_bounds__(BLOCK, sizeof(T) == 8 ? 4
                                                : STAGED       ? 6
                                                               : 5)
    pool_bands(const T *x, T *y, int64_t *indices, const band_plan p)
{
    constexpr int AT_ONCE = 8; /* rows that a thread asks for where they are far */
    extern __shared__ __align__(LINE) unsigned char band_bytes[];
    band_line *lines = (band_line *)(band_bytes + p.run_bytes);
    State *states = (State *)(band_bytes + p.run_bytes + p.lines_bytes);
    const int OH = (int)p.OH.by;
    const int across = min(p.W, BLOCK), down = BLOCK / across;
    const int out_across = min(p.OW, BLOCK), out_down = BLOCK / out_across;
    const int first_line = (int)threadIdx.x / across, first_iw = (int)threadIdx.x % across;
    const int first_row = (int)threadIdx.x / out_across, first_ow = (int)threadIdx.x % out_across;
    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const uint32_t above = p.units.quotient(unit), first_plane = above * p.planes;
        const int planes = min(p.planes, (int)(p.all_planes - first_plane));
        const int first_oh = (int)(unit - above * p.units.by) * p.rows;
        const int rows = min(p.rows, OH - first_oh), count = planes * rows;
        int top = 0, bottom = p.H, other, padded;
        if (planes == 1) {
            p.window.h.window(first_oh, top, other, padded);
            p.window.h.window(first_oh + rows - 1, other, bottom, padded);
        }
        const T *run = x + ((int64_t)first_plane * p.H + top) * p.W;
        T *shared = (T *)band_bytes + place_of(run);
        if (STAGED)
            copy_run(shared, run, planes * (bottom - top) * p.W);
        for (int i = (int)threadIdx.x; i < count; i += BLOCK) {
            const int plane = (int)p.OH.quotient(i); /* 0 where a unit is a band */
            int h0, h1;
            p.window.h.window(first_oh + i - plane * OH, h0, h1, padded);
            lines[i] = { plane * p.H + h0 - top, h1 - h0, h0,
                         p.window.average.exclude_padding ? h1 - h0 : padded };
        }
        await_run();
        for (int iw = first_iw; iw < p.W && first_line < down; iw += BLOCK)
            for (int i = first_line; i < count; i += down) {
                const band_line line = lines[i];
                const T *from = (STAGED ? shared : run) + line.from * p.W + iw;
                int at = line.h * p.W + iw;
                State state;
                if constexpr (STAGED) {
#pragma unroll 4
                    for (int r = 0; r < line.count; r++, at += p.W, from += p.W)
                        state.add(*from, at);
                } else {
                    for (int r = 0; r < line.count; r += AT_ONCE) {
                        T some[AT_ONCE];
#pragma unroll
                        for (int k = 0; k < AT_ONCE; k++, from += p.W)
                            if (r + k < line.count)
                                some[k] = *from;
#pragma unroll
                        for (int k = 0; k < AT_ONCE; k++, at += p.W)
                            if (r + k < line.count)
                                state.add(some[k], at);
                    }
                }
                states[i * p.W + iw] = state;
            }
        __syncthreads();
        const int64_t first = ((int64_t)first_plane * OH + first_oh) * p.OW;
        for (int ow = first_ow; ow < p.OW && first_row < out_down; ow += BLOCK) {
            int w0, w1, w_padded;
            p.window.w.window(ow, w0, w1, w_padded);
            const T wide = (T)(p.window.average.exclude_padding ? w1 - w0 : w_padded);
            for (int i = first_row; i < count; i += out_down) {
                State state;
#pragma unroll 4
                for (int iw = w0; iw < w1; iw++)
                    state.join(states[i * p.W + iw]);
                if (State::AVERAGES)
                    state.value /=
                        p.window.average.by > 0 ? (T)p.window.average.by : (T)lines[i].size * wide;
                const int64_t at = first + i * p.OW + ow;
                y[at] = state.value;
                if constexpr (State::LOCATES)
                    indices[at] = state.at;
            }
        }
        __syncthreads(); /* states and lines are read */
    }
}

struct bands_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (p->dilation_h > 1 || p->dilation_w > 1)
            return "only without dilation";
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        if (p->OW == 1 && p->OH == 1 && p->H * p->W >= 1024)
            return "a plane is one run of memory already";
        if (p->stride_w > 4 * p->KW && p->kind != TALC_POOL2D_ADAPTIVE_AVG)
            return "windows lie far apart";
        band_plan plan(p);
        return cut(p, 1, 1, &plan) ? NULL : "a row is too long for shared memory";
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        band_plan plan(p);
        return for_slices<T>(p, arguments, p->OH, [&](plane_slice<T> some) {
            if (!cut(p, some.planes, talc_cuda_state_of(device)->multiprocessors, &plan))
                return false;
            const auto kernel =
                plan.run_bytes > 0 ? pool_bands<S, T, true> : pool_bands<S, T, false>;
            kernel<<<blocks_of(device, plan.count), BLOCK, plan.bytes, talc_cuda_stream(device)>>>(
                some.x, some.y, some.indices, plan);
            return true;
        });
    }

    /* A unit is some whole planes where they are small, else as many rows of y as there is room for, bands as high as each
     * other; where not even one with its rows of x has room, or rows lie between windows, x stays where it is. */
    static bool cut(const talc_pool2d_problem *p, int64_t planes, int64_t multiprocessors,
                    band_plan *plan)
    {
        const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
        const int64_t size = (int64_t)talc_dtype_size(p->dtype);
        const int64_t state = p->indices ? 2 * size : size, line = (int64_t)sizeof(band_line);
        const int64_t row = p->W * size, beside = p->W * state + line; /* of x; for one of y */
        const int64_t high = adaptive ? p->H / p->OH + 2 : p->KH;      /* rows of a window */
        const int64_t stride = adaptive ? pieces(p->H, p->OH) : p->stride_h;
        const bool gaps = !adaptive && p->stride_h > p->KH;
        const int64_t plane = p->H * row + p->OH * beside + LINE;
        const int64_t least = high * row + beside + 2 * LINE;
        int64_t together = 1, rows = p->OH, x_rows = p->H;
        if (p->W * state > BAND_BYTES / 2)
            return false;
        if (plane <= BAND_BYTES) {
            /* Some units for each place where a block can be. */
            const int64_t share = pieces(planes, multiprocessors * 24), room = BAND_BYTES / plane;
            together = share < room ? share : room;
        } else if (!gaps && least <= BAND_BYTES) {
            rows = level(p->OH, (BAND_BYTES - least) / (stride * row + beside) + 1);
            x_rows = (rows - 1) * stride + high < p->H ? (rows - 1) * stride + high : p->H;
        } else {
            rows = level(p->OH, pieces(BLOCK * 4, p->W));
            x_rows = 0;
        }
        const int64_t run = gaps ? 0 : together * x_rows * row;
        plan->planes = (int)together, plan->rows = (int)rows;
        plan->run_bytes = run > 0 ? (int)(pieces(run, ACCESS) * ACCESS + LINE) : 0;
        plan->lines_bytes = (int)(together * rows * line);
        plan->bytes = (int)(plan->run_bytes + together * rows * beside);
        plan->units.set(pieces(p->OH, rows)), plan->OH.set(p->OH);
        plan->count = (uint32_t)(pieces(planes, together) * pieces(p->OH, rows));
        plan->all_planes = (uint32_t)planes;
        return plan->bytes <= BAND_BYTES + 2 * LINE;
    }

    /* The height of bands as high as each other. */
    static int64_t level(int64_t rows, int64_t most)
    {
        return pieces(rows, pieces(rows, most));
    }
};

} // namespace

#endif
