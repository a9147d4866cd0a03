/// Pooling windows of any size in two passes, down and then across. Private to
/// backends/cuda/pool2d.
///
/// A block has some rows of y, or some whole planes where they are small. Neighbouring threads take
/// neighbouring columns of x and combine the rows of each row of windows in them; then they take
/// outputs, and combine the columns:
///
///     rows of x        . . . . . . . . . .       copied into shared memory where they fit
///                      | | | | | | | | | |
///     states           s s s s s s s s s s       a row for each row of y, in shared memory
///                       \ | /   \ | /   ...
///     row of y            y       y
#ifndef TALC_BACKENDS_CUDA_POOL2D_SEPARABLE_CUH
#define TALC_BACKENDS_CUDA_POOL2D_SEPARABLE_CUH

#include "backends/cuda/pool2d/state.cuh"

namespace
{

/* The windows of a row of y. */
struct window_rows {
    int from;  ///< the first row of x, of those that the block has
    int count; ///< of taps
    int h;     ///< the first row's number in its plane
    int size;  ///< what an average divides by
};

struct separable_plan {
    window_plan<int> window;
    pool_tiling tiling;
    int x_bytes; ///< of the rows of x in shared memory; 0: they are read where they are
    int rows_bytes, bytes;

    explicit separable_plan(const talc_pool2d_problem *p) : window(p)
    {
    }

    /// A tile is some whole planes where they fit in shared memory, else as many rows of y as fit
    /// with their rows of x. Where not even one does, or windows leave rows of x unused between
    /// them, x is read from global memory. False where the states of a row do not fit.
    bool cut(const talc_pool2d_problem *p, int64_t all, int64_t smallest)
    {
        const bool adaptive = talc_pool2d_is_adaptive(p);
        const int64_t size = (int64_t)talc_dtype_size(p->dtype), row = p->W * size;
        const int64_t state_row = p->W * size * (p->indices ? 2 : 1) + (int64_t)sizeof(window_rows);
        const int64_t high = adaptive ? p->H / p->OH + 2 : (p->KH - 1) * p->dilation_h + 1;
        const int64_t stride = adaptive ? talc_ceil_div(p->H, p->OH) : p->stride_h;
        const bool gaps = !adaptive && p->stride_h > high;
        const int64_t plane = p->H * row + p->OH * state_row;
        int64_t together = 1, y_rows = p->OH, x_rows = p->H;
        if (state_row > TILE_BYTES / 2)
            return false;
        if (plane <= TILE_BYTES) {
            together = talc_smaller(TILE_BYTES / plane, talc_ceil_div(all, smallest));
        } else if (!gaps && high * row + state_row <= TILE_BYTES) {
            y_rows = (TILE_BYTES - high * row - state_row) / (stride * row + state_row) + 1;
            y_rows = talc_ceil_div(p->OH,
                                   talc_ceil_div(p->OH, y_rows)); /* tiles as high as each other */
            x_rows = talc_smaller((y_rows - 1) * stride + high, p->H);
        } else {
            y_rows = talc_smaller(talc_ceil_div(BLOCK * 4, p->W), TILE_BYTES / state_row);
            y_rows = talc_ceil_div(p->OH, talc_ceil_div(p->OH, y_rows));
            x_rows = 0;
        }
        tiling.planes = (int)together, tiling.rows = (int)y_rows;
        x_bytes = x_rows == 0
                      ? 0
                      : (int)(talc_ceil_div(together * x_rows * row, VECTOR_BYTES) * VECTOR_BYTES +
                              CACHE_LINE);
        rows_bytes = (int)(together * y_rows * (int64_t)sizeof(window_rows));
        bytes = (int)(x_bytes + together * y_rows * state_row);
        tiling.set(p->OH, all);
        return true;
    }
};

template <typename State, typename T, bool IN_SHARED>
static __global__ void __launch_bounds__(BLOCK, sizeof(T) == 8 ? 4
                                                : IN_SHARED    ? 6
                                                               : 5)
    pool_separable(const T *x, T *y, int64_t *indices, const separable_plan p)
{
    constexpr int IN_FLIGHT = IN_SHARED ? 4 : 8; /* loads that a thread has under way */
    extern __shared__ __align__(CACHE_LINE) unsigned char tile_bytes[];
    window_rows *all_rows = (window_rows *)(tile_bytes + p.x_bytes);
    State *states = (State *)(tile_bytes + p.x_bytes + p.rows_bytes);
    const int H = p.window.h.extent, W = p.window.w.extent;
    const int OH = (int)p.window.h.out.by, OW = (int)p.window.w.out.by;
    const int h_pitch = p.window.h.step * W, w_step = p.window.w.step;
    const int across = min(W, BLOCK), down = BLOCK / across;
    const int y_across = min(OW, BLOCK), y_down = BLOCK / y_across;
    const int first_row = (int)threadIdx.x / across, first_iw = (int)threadIdx.x % across;
    const int first_y = (int)threadIdx.x / y_across, first_ow = (int)threadIdx.x % y_across;
    for (uint32_t number = blockIdx.x; number < p.tiling.count; number += gridDim.x) {
        const tile t(p.tiling, number, p.window.h);
        const int count = t.planes * t.rows;
        const T *rows =
            IN_SHARED ? t.copy(x, H, W, tile_bytes) : x + ((int64_t)t.plane * H + t.top) * W;
        for (int i = (int)threadIdx.x; i < count; i += BLOCK) {
            const int plane = (int)p.window.h.out.quotient(i); /* 0 where there is but one */
            const taps<int> h = p.window.h.window(t.oh + i - plane * OH);
            const int step = (int)p.window.h.dilation.by;
            all_rows[i] = { plane * H + h.first - t.top,
                            (int)p.window.h.dilation.quotient(h.end - h.first + step - 1), h.first,
                            h.size };
        }
        wait_for_copies();
        for (int iw = first_iw; iw < W && first_row < down; iw += BLOCK)
            for (int i = first_row; i < count; i += down) {
                const window_rows window = all_rows[i];
                const T *value = rows + window.from * W + iw;
                int at = window.h * W + iw;
                State state;
                for (int r = 0; r < window.count; r += IN_FLIGHT) {
                    T some[IN_FLIGHT];
#pragma unroll
                    for (int k = 0; k < IN_FLIGHT; k++, value += h_pitch)
                        if (r + k < window.count)
                            some[k] = *value;
#pragma unroll
                    for (int k = 0; k < IN_FLIGHT; k++, at += h_pitch)
                        if (r + k < window.count)
                            state.add(some[k], at);
                }
                states[i * W + iw] = state;
            }
        __syncthreads();
        const int64_t first = ((int64_t)t.plane * OH + t.oh) * OW;
        for (int ow = first_ow; ow < OW && first_y < y_down; ow += BLOCK) {
            const taps<int> w = p.window.w.window(ow);
            for (int i = first_y; i < count; i += y_down) {
                State state;
                for (int iw = w.first; iw < w.end; iw += 4 * w_step) {
                    State some[4];
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        if (iw + k * w_step < w.end)
                            some[k] = states[i * W + iw + k * w_step];
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        state.join(some[k]);
                }
                const taps<int> h = { 0, 0, all_rows[i].size };
                if constexpr (State::AVERAGES)
                    state.value /= p.window.size<T>(h, w);
                store(state, y, indices, first + i * OW + ow);
            }
        }
        __syncthreads(); /* states and rows are read */
    }
}

struct separable_algorithm {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        separable_plan plan(p);
        return plan.cut(p, 1, 1) ? NULL : "a row does not fit shared memory";
    }

    template <template <typename, typename> class State, typename T>
    static void launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        separable_plan plan(p);
        for_plane_chunks<T>(p, arguments, p->OH, [&](plane_chunk<T> some) {
            plan.cut(p, some.planes, talc_cuda_state_of(device)->multiprocessors * 24);
            const auto kernel =
                plan.x_bytes > 0 ? pool_separable<S, T, true> : pool_separable<S, T, false>;
            kernel<<<grid_for_blocks(device, plan.tiling.count), BLOCK, plan.bytes,
                     talc_cuda_stream(device)>>>(some.x, some.y, some.indices, plan);
        });
    }
};

} // namespace

#endif
