/// Pooling windows of 2x2 and 3x3 out of global memory, a few outputs of a column a thread. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_POOL2D_COLUMNS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_COLUMNS_CUH

#include "backends/cuda/pool2d_planes.cuh"

namespace
{

using namespace talc;

struct column_plan : image_plan {
    divisor<uint32_t> columns, groups; /* OW, and how many threads a column has */

    using image_plan::image_plan;
};

template <typename State, typename T>
static __device__ void column_store(const column_plan &plan, State state, int K, int ih, int iw,
                                    int64_t at, T *y, int64_t *indices)
{
    if (State::AVERAGES) {
        const int rows = covered(ih, K, plan.H, 0), columns = covered(iw, K, plan.W, 0);
        const int size = plan.average.exclude_padding ? rows * columns
                                                      : covered(ih, K, plan.H, plan.pad_h) *
                                                            covered(iw, K, plan.W, plan.pad_w);
        if (rows > 0 && columns > 0)
            state.value /= plan.average.by > 0 ? (T)plan.average.by : (T)size;
    }
    y[at] = state.value;
    if constexpr (State::LOCATES)
        indices[at] = state.at;
}

/* Outputs oh .. oh + R - 1 of one column; windows of K by K, S apart. */
template <typename State, typename T, int K, int S, int R>
static __global__ void __launch_bounds__(BLOCK)
    pool_columns(const T *x, T *y, int64_t *indices, uint32_t count, const column_plan plan)
{
    constexpr int ROWS = (R - 1) * S + K;
    TALC_GRID_LOOP(uint32_t, i, count)
    {
        const uint32_t rest = plan.columns.quotient(i), plane = plan.groups.quotient(rest);
        const int ow = (int)(i - rest * plan.columns.by);
        const int oh = (int)(rest - plane * plan.groups.by) * R;
        const int ih = oh * S - plan.pad_h, iw = ow * S - plan.pad_w;
        const T *x_plane = x + (int64_t)plane * plan.H * plan.W;
        T taps[ROWS][K];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                const bool inside =
                    (unsigned)(ih + r) < (unsigned)plan.H && (unsigned)(iw + k) < (unsigned)plan.W;
                taps[r][k] = inside ? x_plane[(ih + r) * plan.W + iw + k] : State{}.value;
            }
        State rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int k = 0; k < K; k++)
                if (!State::LOCATES || ((unsigned)(ih + r) < (unsigned)plan.H &&
                                        (unsigned)(iw + k) < (unsigned)plan.W))
                    rows[r].add(taps[r][k], (ih + r) * plan.W + iw + k);
#pragma unroll
        for (int o = 0; o < R; o++) {
            State state = rows[o * S];
#pragma unroll
            for (int k = 1; k < K; k++)
                state.join(rows[o * S + k]);
            if (oh + o < plan.OH)
                column_store(plan, state, K, ih + o * S, iw,
                             ((int64_t)plane * plan.OH + oh + o) * plan.OW + ow, y, indices);
        }
    }
}

struct columns_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_square(p, 2, 2) && !is_square(p, 3, 1) && !is_square(p, 3, 2))
            return "only 2x2 windows with stride 2 and 3x3 with stride 1 or 2";
        if (are_for_planes(p))
            return "planes are faster for windows two apart in small planes";
        return p->H > NARROW / p->W ? "an image has more than 2^29 elements" : NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        if (p->KH == 2)
            return launch_of<State<T, int>, T, 2, 2, 4>(device, p, arguments);
        if (p->stride_h == 2)
            return launch_of<State<T, int>, T, 3, 2, 4>(device, p, arguments);
        return launch_of<State<T, int>, T, 3, 1, 8>(device, p, arguments);
    }

    template <typename State, typename T, int K, int S, int R>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
    {
        column_plan plan(p);
        const int64_t a_plane = pieces(p->OH, R) * p->OW;
        plan.columns.set(p->OW);
        plan.groups.set(pieces(p->OH, R));
        return for_slices<T>(p, arguments, a_plane, [&](plane_slice<T> some) {
            const int64_t count = some.planes * a_plane;
            pool_columns<State, T, K, S, R>
                <<<blocks_for(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
                    some.x, some.y, some.indices, (uint32_t)count, plan);
            return true;
        });
    }
};

} // namespace

#endif
