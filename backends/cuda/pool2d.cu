/// 2-D pooling: maximum, average and adaptive average.
///
///     y[n, c, oh, ow] = max or 1/D * sum over ih, iw in the window of (oh, ow) of x[n, c, ih, iw]
///
/// x [N, C, H, W], y [N, C, OH, OW], contiguous; the windows are those of ops/pool2d_window.h. Sums are in the data's own
/// type. Memory-bound: what counts is that neighbouring threads read neighbours and that every thread has many loads in flight.
///
///   columns  windows of 2x2 and 3x3: a thread computes some outputs one below the other, neighbouring threads neighbouring
///            columns. It loads all rows that its windows cover at once, combines the taps of each row, then the rows.
///   windows  any window. A thread computes an output; where windows are large and lie apart, 8, 32 or 256 threads share one.
#include "backends/cuda/group.cuh"
#include "ops/pool2d_window.h"

#include <type_traits>

using namespace talc;

namespace /* other kernels have types of the same names */
{

/* Images whose coordinates and offsets fit 32 bits, with room for windows that reach past the edge. */
constexpr int64_t NARROW = 1 << 29;

// ---- What a window comes to ---------------------------------------------------------------------------------

/* All three take taps in row-major order and join states of which the other one may come from anywhere. */
template <typename T, typename Index> struct maximum {
    static constexpr bool AVERAGES = false, LOCATES = false;
    T value = -(T)INFINITY;

    /* A NaN replaces what is there, and nothing replaces a NaN. */
    __device__ void add(T x, Index)
    {
        value = x > value || x != x ? x : value;
    }
    __device__ void join(maximum other)
    {
        add(other.value, 0);
    }
};

/* Of equal elements the first, of several NaN the last. */
template <typename T, typename Index> struct located_maximum {
    static constexpr bool AVERAGES = false, LOCATES = true;
    T value = -(T)INFINITY;
    Index at = -1;

    __device__ void add(T x, Index x_at)
    {
        if (at < 0 || x > value || x != x) {
            value = x;
            at = x_at;
        }
    }
    __device__ void join(located_maximum other)
    {
        const bool nan = value != value, other_nan = other.value != other.value;
        const bool replace = nan || other_nan
                                 ? other_nan && (!nan || other.at > at)
                                 : other.value > value || (other.value == value && other.at < at);
        if (other.at >= 0 && (at < 0 || replace))
            *this = other;
    }
};

template <typename T, typename Index> struct total {
    static constexpr bool AVERAGES = true, LOCATES = false;
    T value = 0;

    __device__ void add(T x, Index)
    {
        value += x;
    }
    __device__ void join(total other)
    {
        value += other.value;
    }
};

/* What an average is divided by when it is not the window's own size; 0: it is. */
struct divide {
    bool exclude_padding;
    int64_t by;
};

// ---- columns ------------------------------------------------------------------------------------------------

struct column_plan {
    int H, W, OH, OW, pad_h, pad_w;
    divisor<uint32_t> columns, groups; /* OW, and how many threads a column has */
    divide average;
};

/* Elements of a window of K along one axis that are inside the image (`pad` 0) or its padding. */
static __device__ int covered(int start, int K, int extent, int pad)
{
    return min(start + K, extent + pad) - max(start, -pad);
}

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

// ---- windows ------------------------------------------------------------------------------------------------

/* Windows along one dimension, as talc_pool2d_window_of gives them. */
template <typename Index> struct axis {
    using Unsigned = std::conditional_t<sizeof(Index) == 4, uint32_t, uint64_t>;
    Index extent, kernel, stride, pad,
        reach;         /* kernel 0: adaptive; reach: from the first to the last tap */
    Index whole, rest; /* of extent / out */
    divisor<Unsigned> dilation, out;

    axis(talc_pool2d_axis a)
        : extent((Index)a.extent), kernel((Index)a.kernel), stride((Index)a.stride),
          pad((Index)a.pad), reach((Index)((a.kernel - 1) * a.dilation)),
          whole((Index)(a.extent / a.out)), rest((Index)(a.extent % a.out))
    {
        dilation.set(a.kernel == 0 ? 1 : a.dilation);
        out.set(a.out);
    }

    /* Taps first, first + dilation, ... below end; `padded` elements stand inside the padded image. */
    __device__ void window(Index o, Index &first, Index &end, Index &padded) const
    {
        if (kernel == 0) {
            first = o * whole + (Index)out.quotient((Unsigned)(o * rest));
            end = (o + 1) * whole + (Index)out.quotient((Unsigned)((o + 1) * rest) + out.by - 1);
            padded = end - first;
            return;
        }
        const Index start = o * stride - pad, past = start + reach + 1;
        const Index step = (Index)dilation.by;
        first = start < 0 ? start + (Index)dilation.quotient((Unsigned)(step - 1 - start)) * step
                          : start;
        end = past < extent ? past : extent;
        first = first < end ? first : end;
        padded = (past < extent + pad ? past : extent + pad) - start;
    }
};

template <typename Index> struct window_plan {
    axis<Index> h, w;
    divide average;
};

/* Each output is the work of `threads` neighbouring threads. */
template <typename State, typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    pool_windows(const T *x, T *y, int64_t *indices, typename axis<Index>::Unsigned count,
                 int threads, const window_plan<Index> plan)
{
    using Unsigned = typename axis<Index>::Unsigned;
    constexpr int IN_FLIGHT = 8;
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
            const bool runs = w0 == 0 && w1 == plan.w.extent && w_step == 1 && h_step == 1;
            const Unsigned columns =
                (Unsigned)(runs ? (h1 - h0) * (w1 - w0) : (w1 - w0 + w_step - 1) / w_step);
            const Unsigned taps =
                runs ? columns : columns * (Unsigned)((h1 - h0 + h_step - 1) / h_step);
            for (Unsigned tap = thread; tap < taps; tap += threads * IN_FLIGHT) {
                T value[IN_FLIGHT];
                Index place[IN_FLIGHT];
#pragma unroll
                for (int k = 0; k < IN_FLIGHT; k++) {
                    const Unsigned t = tap + k * threads;
                    const Unsigned row = runs ? 0 : t / columns;
                    place[k] = (h0 + (Index)row * h_step) * plan.w.extent + w0 +
                               (Index)(t - row * columns) * w_step;
                    if (t < taps)
                        value[k] = x_plane[place[k]];
                }
#pragma unroll
                for (int k = 0; k < IN_FLIGHT; k++)
                    if (tap + k * threads < taps)
                        state.add(value[k], place[k]);
            }
        }
        if (threads > 1)
            state = join_group(state, threads, (State *)shared);
        if (!real || thread != 0)
            continue;
        if (State::AVERAGES && some) {
            const double size = plan.average.exclude_padding ? (double)(h1 - h0) * (double)(w1 - w0)
                                                             : (double)h_padded * (double)w_padded;
            state.value /= (T)(plan.average.by > 0 ? (double)plan.average.by : size);
        }
        y[at] = state.value;
        if constexpr (State::LOCATES)
            indices[at] = state.at;
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

static bool is_narrow(int64_t extent, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                      int64_t dilation)
{
    return extent < NARROW && stride < NARROW && pad < NARROW / 2 && kernel < NARROW &&
           dilation < NARROW && kernel * dilation < NARROW &&
           (kernel > 0 ? out < NARROW : out < 1 << 15);
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
    const bool narrow = is_narrow(p->H, p->OH, p->KH, p->stride_h, p->pad_h, p->dilation_h) &&
                        is_narrow(p->W, p->OW, p->KW, p->stride_w, p->pad_w, p->dilation_w) &&
                        p->H <= NARROW / p->W && p->OH <= NARROW / p->OW;
    if (!narrow)
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

static talc_status columns_run(talc_device *device, const talc_pool2d_problem *p,
                               const talc_pool2d_arguments *arguments)
{
    RUN(columns_of)
}

static talc_status windows_run(talc_device *device, const talc_pool2d_problem *p,
                               const talc_pool2d_arguments *arguments)
{
    RUN(windows_of)
}

const talc_pool2d_algorithm talc_cuda_pool2d[] = {
    { { "columns", { "the data's own type", TALC_STRICT, false } }, columns_refuses, columns_run },
    { { "windows", { "the data's own type", TALC_STRICT, false } }, windows_refuses, windows_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
