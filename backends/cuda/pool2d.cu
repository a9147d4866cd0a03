/// 2-D pooling: maximum, average and adaptive average.
///
///     y[n, c, oh, ow] = max or 1/D * sum over ih, iw in the window of (oh, ow) of x[n, c, ih, iw]
///
/// x [N, C, H, W], y [N, C, OH, OW], contiguous; the windows are those of ops/pool2d_window.h. Sums are in the data's own
/// type. Memory-bound: what counts is that neighbouring threads read neighbours and that every thread has many loads in flight.
///
///   strips   3x3 windows that overlap, in wide images: a warp marches down a strip of columns (pool2d_strips.cuh).
///   columns  windows of 2x2 and 3x3: a thread computes some outputs one below the other, neighbouring threads neighbouring
///            columns. It loads all rows that its windows cover at once, combines the taps of each row, then the rows.
///   bands    windows of any size: a block copies rows, or small planes, into shared memory first (pool2d_bands.cuh).
///   windows  any window. A thread computes an output; where windows are large and lie apart, 8, 32 or 256 threads share one.
#include "backends/cuda/pool2d_bands.cuh"
#include "backends/cuda/pool2d_strips.cuh"

using namespace talc;

namespace /* other kernels have types of the same names */
{

// ---- columns ------------------------------------------------------------------------------------------------

struct column_plan {
    int H, W, OH, OW, pad_h, pad_w;
    divisor<uint32_t> columns, groups; /* OW, and how many threads a column has */
    divide average;
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

/* Calls `launch` with the first plane and the number of planes of slices in which what a plane has counts to 2^31 at most. */
template <typename Launch>
static void for_slices(const talc_pool2d_problem *p, int64_t a_plane, Launch launch)
{
    const int64_t planes = p->N * p->C, most = INT_MAX / a_plane;
    for (int64_t plane = 0; plane < planes; plane += most)
        launch(plane, planes - plane < most ? planes - plane : most);
}

template <typename State, typename T, int K, int S, int R>
static void launch_columns(talc_device *device, const talc_pool2d_problem *p,
                           const talc_pool2d_arguments *arguments)
{
    column_plan plan = { (int)p->H,
                         (int)p->W,
                         (int)p->OH,
                         (int)p->OW,
                         (int)p->pad_h,
                         (int)p->pad_w,
                         {},
                         {},
                         { p->exclude_padding, p->divisor } };
    const int64_t groups = pieces(p->OH, R);
    plan.columns.set(p->OW);
    plan.groups.set(groups);
    for_slices(p, groups * p->OW, [&](int64_t plane, int64_t planes) {
        const int64_t count = planes * groups * p->OW, at = plane * p->OH * p->OW;
        pool_columns<State, T, K, S, R>
            <<<blocks_for(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
                (const T *)arguments->x + plane * p->H * p->W, (T *)arguments->y + at,
                State::LOCATES ? arguments->indices + at : NULL, (uint32_t)count, plan);
    });
}

static const char *columns_refuses(const talc_pool2d_problem *p)
{
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    const bool two = p->KH == 2 && p->KW == 2 && p->stride_h == 2 && p->stride_w == 2;
    const bool three = p->KH == 3 && p->KW == 3 && p->stride_h == p->stride_w && p->stride_w <= 2;
    if ((!two && !three) || p->dilation_h != 1 || p->dilation_w != 1)
        return "only 2x2 windows with stride 2 and 3x3 with stride 1 or 2";
    return p->H > NARROW / p->W ? "an image has more than 2^29 elements" : NULL;
}

template <template <typename, typename> class State, typename T>
static void columns_of(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
{
    if (p->KH == 2)
        launch_columns<State<T, int>, T, 2, 2, 4>(device, p, arguments);
    else if (p->stride_h == 2)
        launch_columns<State<T, int>, T, 3, 2, 4>(device, p, arguments);
    else
        launch_columns<State<T, int>, T, 3, 1, 8>(device, p, arguments);
}

// ---- strips -------------------------------------------------------------------------------------------------

static const char *strips_refuses(const talc_pool2d_problem *p)
{
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (p->KH != 3 || p->KW != 3 || p->stride_h != 1 || p->stride_w != 1 || p->dilation_h != 1 ||
        p->dilation_w != 1)
        return "only 3x3 windows with stride 1";
    /* Lanes past the end of a row have nothing to do. */
    if (p->OW < WARP * ACCESS / (int64_t)talc_dtype_size(p->dtype) * 2 / 3)
        return "the image is narrow";
    if (p->kind == TALC_POOL2D_MAX && !p->indices && p->dtype == TALC_F64)
        return "f64 maxima alone are faster by columns";
    return p->H > NARROW / p->W ? "an image has more than 2^29 elements" : NULL;
}

template <template <typename, typename> class State, typename T>
static void strips_of(talc_device *device, const talc_pool2d_problem *p,
                      const talc_pool2d_arguments *arguments)
{
    constexpr int K = 3, V = ACCESS / sizeof(T), SAME = K / 2;
    using S = State<T, int>;
    const cudaStream_t stream = talc_cuda_stream(device);
    strip_plan plan = { (int)p->H,
                        (int)p->W,
                        (int)p->OH,
                        (int)p->OW,
                        (int)p->pad_h,
                        (int)p->pad_w,
                        { p->exclude_padding, p->divisor },
                        {} };
    for_slices(p, p->OH * pieces(p->OW, WARP * V), [&](int64_t plane, int64_t planes) {
        const T *x = (const T *)arguments->x + plane * p->H * p->W;
        T *y = (T *)arguments->y + plane * p->OH * p->OW;
        int64_t *indices = S::LOCATES ? arguments->indices + plane * p->OH * p->OW : NULL;
        (void)plan.cut.cut(device, planes, p->OH, p->OW, WARP * V, 12); /* they are at most 2^31 */
        const unsigned blocks = plan.cut.blocks(), threads = STRIP_WARPS * WARP;
        const bool aligned = p->W % V == 0 && is_aligned(x);
        if (aligned && p->pad_w == 0)
            pool_strips<S, T, K, 0, true><<<blocks, threads, 0, stream>>>(x, y, indices, plan);
        else if (aligned && p->pad_w == SAME)
            pool_strips<S, T, K, (V - SAME % V) % V, true>
                <<<blocks, threads, 0, stream>>>(x, y, indices, plan);
        else
            pool_strips<S, T, K, 0, false><<<blocks, threads, 0, stream>>>(x, y, indices, plan);
    });
}

// ---- bands --------------------------------------------------------------------------------------------------

/* Rows of x of which a run has room, and rows that a window has at most. */
static int64_t rows_of_run(const talc_pool2d_problem *p)
{
    return RUN_BYTES / (p->W * (int64_t)talc_dtype_size(p->dtype));
}

static int64_t rows_of_window(const talc_pool2d_problem *p)
{
    return p->kind == TALC_POOL2D_ADAPTIVE_AVG ? p->H / p->OH + 2 : p->KH;
}

/* The units of planes or parts of them, and how threads share one. */
static void plan_bands(const talc_pool2d_problem *p, int64_t planes, int64_t multiprocessors,
                       band_plan *plan)
{
    const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
    const int64_t fit = rows_of_run(p), high = rows_of_window(p);
    const int64_t stride = adaptive ? pieces(p->H, p->OH) : p->stride_h;
    const int64_t wide = adaptive ? p->W / p->OW + 1 : p->KW;
    const int64_t apart = p->OW == 1 ? p->W : adaptive ? p->W / p->OW : p->stride_w;
    int64_t units = 1;
    plan->planes = 1, plan->rows = (int)p->OH, plan->part = (int)p->H;
    if (p->H <= fit) {
        /* Some units for each place where a block can be. */
        const int64_t share = pieces(planes, multiprocessors * 24), room = fit / p->H;
        plan->planes = (int)(share < room ? share : room);
    } else {
        const int64_t rows = fit < high ? 1 : (fit - high) / stride + 1;
        units = pieces(p->OH, rows);
        plan->rows = (int)pieces(p->OH, units);
        plan->part = (int)fit;
    }
    const int64_t outputs = (int64_t)plan->planes * plan->rows * p->OW;
    int across = 1, threads;
    while (across < WARP && across * 2 <= apart && across * 2 <= wide)
        across *= 2;
    for (threads = across; threads < BLOCK && outputs * threads * 2 <= BLOCK;)
        threads *= 2;
    if (fit < high && p->H > fit) /* a unit has parts: all its outputs at once */
        for (; p->OW * threads > BLOCK && threads > 1; threads /= 2)
            across = across < threads ? across : threads / 2;
    plan->across = across, plan->threads = threads;
    plan->units.set(units), plan->OH.set(p->OH), plan->OW.set(p->OW);
    plan->count = (uint32_t)(pieces(planes, plan->planes) * units);
    plan->all_planes = (uint32_t)planes;
}

static const char *bands_refuses(const talc_pool2d_problem *p)
{
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (p->dilation_h > 1 || p->dilation_w > 1)
        return "only without dilation";
    if (!is_narrow(p))
        return "an image has more than 2^29 elements";
    const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
    const bool same = adaptive && p->H == p->OH && p->W == p->OW;
    const int64_t wide = adaptive ? p->W / p->OW : p->KW;
    if (wide == p->W && !same)
        return "whole rows are one run of memory already";
    if (wide < 8 && !same)
        return "windows are small";
    const int64_t fit = rows_of_run(p);
    if (fit < 1 || (fit < p->H && fit < rows_of_window(p) && p->OW > BLOCK))
        return "the rows of a window are too long for shared memory";
    return NULL;
}

template <template <typename, typename> class State, typename T>
static void bands_of(talc_device *device, const talc_pool2d_problem *p,
                     const talc_pool2d_arguments *arguments)
{
    using S = State<T, int>;
    const cudaStream_t stream = talc_cuda_stream(device);
    if (p->H == p->OH && p->W == p->OW && p->kind == TALC_POOL2D_ADAPTIVE_AVG) {
        const size_t bytes = sizeof(T) * (size_t)(p->N * p->C * p->H * p->W);
        (void)cudaMemcpyAsync(arguments->y, arguments->x, bytes, cudaMemcpyDeviceToDevice, stream);
        return; /* each average is of one element */
    }
    band_plan plan(p);
    for_slices(p, p->OH, [&](int64_t plane, int64_t planes) {
        const int64_t at = plane * p->OH * p->OW;
        plan_bands(p, planes, talc_cuda_state_of(device)->multiprocessors, &plan);
        pool_bands<S, T><<<blocks_of(device, plan.count), BLOCK, RUN_BYTES + ACCESS, stream>>>(
            (const T *)arguments->x + plane * p->H * p->W, (T *)arguments->y + at,
            S::LOCATES ? arguments->indices + at : NULL, plan);
    });
}

// ---- windows ------------------------------------------------------------------------------------------------

/* Elements from .. end - 1 of a plane, in the order of a thread's own: what is before the first pack, packs, what is left. */
template <typename State, typename T, typename Index>
static __device__ void add_run(State &state, const T *plane, Index from, Index end, int thread,
                               int threads)
{
    constexpr int V = ACCESS / sizeof(T), IN_FLIGHT = 4;
    const Index first = from + (Index)(-((uintptr_t)(plane + from) / sizeof(T)) % V);
    const Index packs = end > first ? (end - first) / V : 0, rest = first + packs * V;
    for (Index i = from + thread; i < first && i < end; i += threads)
        state.add(plane[i], i);
    for (Index pack = thread; pack < packs; pack += threads * IN_FLIGHT) {
        vec<T, V> some[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (pack + k * threads < packs)
                some[k] = *(const vec<T, V> *)(plane + first + (pack + k * threads) * V);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (pack + k * threads < packs)
#pragma unroll
                for (int v = 0; v < V; v++)
                    state.add(some[k].of[v], first + (pack + k * threads) * V + v);
    }
    for (Index i = rest + thread; i < end; i += threads)
        state.add(plane[i], i);
}

/* Rows h0, h0 + h_step, ... below h1 of a plane W wide, columns likewise. */
template <typename State, typename T, typename Index>
static __device__ void add_rows(State &state, const T *plane, Index W, Index h0, Index h1,
                                Index h_step, Index w0, Index w1, Index w_step, int thread,
                                int threads)
{
    using Unsigned = typename axis<Index>::Unsigned;
    constexpr int IN_FLIGHT = 8;
    const Unsigned columns = (Unsigned)((w1 - w0 + w_step - 1) / w_step);
    const Unsigned taps = columns * (Unsigned)((h1 - h0 + h_step - 1) / h_step);
    for (Unsigned tap = thread; tap < taps; tap += threads * IN_FLIGHT) {
        T value[IN_FLIGHT];
        Index place[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            const Unsigned t = tap + k * threads, row = t / columns;
            place[k] = (h0 + (Index)row * h_step) * W + w0 + (Index)(t - row * columns) * w_step;
            if (t < taps)
                value[k] = plane[place[k]];
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (tap + k * threads < taps)
                state.add(value[k], place[k]);
    }
}

/* Each output is the work of `threads` neighbouring threads. */
template <typename State, typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    pool_windows(const T *x, T *y, int64_t *indices, typename axis<Index>::Unsigned count,
                 int threads, const window_plan<Index> plan)
{
    using Unsigned = typename axis<Index>::Unsigned;
    __shared__ alignas(ACCESS) char shared[BLOCK / WARP * sizeof(State)];
    const Unsigned groups = BLOCK / threads, group = threadIdx.x / threads;
    const Unsigned thread = threadIdx.x % threads;
    for (Unsigned first = blockIdx.x * groups; first < count; first += gridDim.x * groups) {
        const bool real = first + group < count;
        const Unsigned at = real ? first + group : first;
        const Unsigned rest = plan.w.out.quotient(at), plane = plan.h.out.quotient(rest);
        Index h0, h1, h_padded, w0, w1, w_padded;
        plan.h.window((Index)(rest - plane * plan.h.out.by), h0, h1, h_padded);
        plan.w.window((Index)(at - rest * plan.w.out.by), w0, w1, w_padded);
        const Index h_step = (Index)plan.h.dilation.by, w_step = (Index)plan.w.dilation.by;
        const T *x_plane = x + (int64_t)plane * plan.h.extent * plan.w.extent;
        const bool some = h0 < h1 && w0 < w1;
        State state;
        if (some && threads == 1) {
            for (Index ih = h0; ih < h1; ih += h_step)
                for (Index iw = w0; iw < w1; iw += w_step)
                    state.add(x_plane[ih * plan.w.extent + iw], ih * plan.w.extent + iw);
        } else if (some) {
            /* Whole rows are one run. */
            if (w0 == 0 && w1 == plan.w.extent && w_step == 1 && h_step == 1)
                add_run(state, x_plane, h0 * plan.w.extent, h1 * plan.w.extent, (int)thread,
                        threads);
            else
                add_rows(state, x_plane, plan.w.extent, h0, h1, h_step, w0, w1, w_step, (int)thread,
                         threads);
        }
        if (threads > 1)
            state = join_group(state, threads, (State *)shared);
        if (!real || thread != 0)
            continue;
        store_window(state, plan.average, some ? h1 - h0 : 0, w1 - w0, h_padded, w_padded, y,
                     indices, (int64_t)at);
    }
}

/* Threads an output: one, where those of neighbouring outputs read neighbours or have little to read. */
static int threads_an_output(const talc_pool2d_problem *p)
{
    const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
    const double rows = (double)(adaptive ? p->H / p->OH + 1 : p->KH);
    const double columns = (double)(adaptive ? p->W / p->OW + 1 : p->KW);
    const int64_t apart = p->OW == 1 ? p->W : adaptive ? p->W / p->OW : p->stride_w;
    const double taps = rows * columns;
    if (taps < 16 || (p->OW > 1 && apart < 8))
        return 1;
    return taps < 256 ? 8 : taps < 4096 ? WARP : BLOCK;
}

template <typename State, typename T, typename Index>
static void launch_windows(talc_device *device, const talc_pool2d_problem *p,
                           const talc_pool2d_arguments *arguments, int64_t plane, int64_t planes)
{
    using Unsigned = typename axis<Index>::Unsigned;
    const window_plan<Index> plan = { talc_pool2d_axis_h(p),
                                      talc_pool2d_axis_w(p),
                                      { p->exclude_padding, p->divisor } };
    const int threads = threads_an_output(p);
    const int64_t count = planes * p->OH * p->OW, at = plane * p->OH * p->OW;
    pool_windows<State, T, Index>
        <<<blocks_of(device, pieces(count, BLOCK / threads)), BLOCK, 0, talc_cuda_stream(device)>>>(
            (const T *)arguments->x + plane * p->H * p->W, (T *)arguments->y + at,
            State::LOCATES ? arguments->indices + at : NULL, (Unsigned)count, threads, plan);
}

template <template <typename, typename> class State, typename T>
static void windows_of(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
{
    if (!is_narrow(p))
        launch_windows<State<T, int64_t>, T, int64_t>(device, p, arguments, 0, p->N * p->C);
    else
        for_slices(p, p->OH * p->OW, [&](int64_t plane, int64_t planes) {
            launch_windows<State<T, int>, T, int>(device, p, arguments, plane, planes);
        });
}

static const char *windows_refuses(const talc_pool2d_problem *p)
{
    return p->direction == TALC_FORWARD ? NULL : "only the forward direction";
}

} // namespace

// ---- Rows ---------------------------------------------------------------------------------------------------

/* `of` is columns_of or windows_of. */
#define RUN_STATE(of, State)                                                                       \
    do {                                                                                           \
        if (p->dtype == TALC_F32)                                                                  \
            of<State, float>(device, p, arguments);                                                \
        else                                                                                       \
            of<State, double>(device, p, arguments);                                               \
    } while (0)

#define RUN(of)                                                                                    \
    const talc_status status = talc_cuda_enter(device, "pool2d");                                  \
    if (status != TALC_OK)                                                                         \
        return status;                                                                             \
    if (p->kind != TALC_POOL2D_MAX)                                                                \
        RUN_STATE(of, total);                                                                      \
    else if (p->indices)                                                                           \
        RUN_STATE(of, located_maximum);                                                            \
    else                                                                                           \
        RUN_STATE(of, maximum);                                                                    \
    return talc_cuda_launched(device, "pool2d");

static talc_status strips_run(talc_device *device, const talc_pool2d_problem *p,
                              const talc_pool2d_arguments *arguments)
{
    RUN(strips_of)
}

static talc_status columns_run(talc_device *device, const talc_pool2d_problem *p,
                               const talc_pool2d_arguments *arguments)
{
    RUN(columns_of)
}

static talc_status bands_run(talc_device *device, const talc_pool2d_problem *p,
                             const talc_pool2d_arguments *arguments)
{
    RUN(bands_of)
}

static talc_status windows_run(talc_device *device, const talc_pool2d_problem *p,
                               const talc_pool2d_arguments *arguments)
{
    RUN(windows_of)
}

const talc_pool2d_algorithm talc_cuda_pool2d[] = {
    { { "strips", { "the data's own type", TALC_STRICT, false } }, strips_refuses, strips_run },
    { { "columns", { "the data's own type", TALC_STRICT, false } }, columns_refuses, columns_run },
    { { "bands", { "the data's own type", TALC_STRICT, false } }, bands_refuses, bands_run },
    { { "windows", { "the data's own type", TALC_STRICT, false } }, windows_refuses, windows_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
