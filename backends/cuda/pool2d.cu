/// 2-D pooling: maximum, average and adaptive average.
///
///     y[n, c, oh, ow] = max or 1/D * sum over ih, iw in the window of (oh, ow) of x[n, c, ih, iw]
///
/// x [N, C, H, W], y [N, C, OH, OW], contiguous; the windows are those of ops/pool2d_window.h. Sums are in the data's own
/// type. Memory-bound: what counts is that neighbouring threads read neighbours and that every thread has many loads in flight.
///
///   strips   3x3 and 5x5 windows that overlap, in wide images: a warp marches down a strip of columns (pool2d_strips.cuh).
///   tiles    the same and 2x2 and 3x3 two apart, in narrow images: a thread marches down a column, out of shared memory
///            (pool2d_tiles.cuh).
///   columns  2x2 and 3x3 windows: a thread computes some outputs one below the other, neighbouring threads neighbouring
///            columns. It loads all rows that its windows cover at once, combines the taps of each row, then the rows.
///   bands    windows of any size: rows are combined first, column by column, then columns (pool2d_bands.cuh).
///   windows  any window, whole planes above all. A thread computes an output; where windows are large and lie apart, 8, 32 or
///            256 threads share one.
///
/// Sums of rows are added in order from the top; bands add columns from the left, each summed from the top; threads that share a
/// window join their sums by a tree.
#include "backends/cuda/pool2d_bands.cuh"
#include "backends/cuda/pool2d_columns.cuh"
#include "backends/cuda/pool2d_strips.cuh"
#include "backends/cuda/pool2d_tiles.cuh"
#include "backends/cuda/pool2d_windows.cuh"

using namespace talc;

namespace /* other kernels have types of the same names */
{

// ---- columns ------------------------------------------------------------------------------------------------

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
    if (p->KH != p->KW || (p->KH != 3 && p->KH != 5) || p->stride_h != 1 || p->stride_w != 1 ||
        p->dilation_h != 1 || p->dilation_w != 1)
        return "only 3x3 and 5x5 windows with stride 1";
    /* Lanes past the end of a row have nothing to do. */
    if (p->OW < (p->dtype == TALC_F32 ? 86 : 60))
        return "the image is narrow";
    if (p->kind == TALC_POOL2D_MAX && !p->indices && p->dtype == TALC_F64 && p->KH == 3)
        return "f64 maxima alone are faster by columns";
    return p->H > NARROW / p->W ? "an image has more than 2^29 elements" : NULL;
}

template <template <typename, typename> class State, typename T, int K>
static void launch_strips(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
{
    constexpr int V = ACCESS / sizeof(T), SAME = K / 2;
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
        (void)plan.cut.cut(device, planes, p->OH, p->OW, WARP * V,
                           K == 3 ? 12 : 24); /* they are at most 2^31 */
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

template <template <typename, typename> class State, typename T>
static void strips_of(talc_device *device, const talc_pool2d_problem *p,
                      const talc_pool2d_arguments *arguments)
{
    if (p->KH == 3)
        launch_strips<State, T, 3>(device, p, arguments);
    else
        launch_strips<State, T, 5>(device, p, arguments);
}

// ---- tiles --------------------------------------------------------------------------------------------------

/* A thread has 64 bytes of outputs; an index beside each takes four more. */
static bool cut_tiles(const talc_pool2d_problem *p, int64_t planes, bool aligned, tile_plan *plan)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    return plan->cut(planes, aligned, 64 / size, size, p->indices ? size + 4 : size, 0);
}

static const char *tiles_refuses(const talc_pool2d_problem *p)
{
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (p->KH != p->KW || p->stride_h != p->stride_w || p->dilation_h != 1 || p->dilation_w != 1 ||
        !((p->stride_h == 1 && (p->KH == 3 || p->KH == 5)) ||
          (p->stride_h == 2 && (p->KH == 2 || p->KH == 3))))
        return "only 3x3 and 5x5 windows with stride 1, 2x2 and 3x3 with stride 2";
    if (!is_narrow(p))
        return "an image has more than 2^29 elements";
    if (p->stride_h == 2 && p->KH == 3 && (p->OW >= 32 || p->dtype == TALC_F64))
        return "columns are faster for 3x3 windows with stride 2, unless f32 images are narrow";
    tile_plan plan(p->H, p->W, p->OH, p->OW, (int)p->KH, (int)p->stride_h, p->pad_h, p->pad_w);
    return cut_tiles(p, 1, true, &plan) ? NULL : "the image is wide";
}

template <template <typename, typename> class State, typename T, int K, int S>
static void launch_tiles(talc_device *device, const talc_pool2d_problem *p,
                         const talc_pool2d_arguments *arguments)
{
    using kept = State<T, int>;
    tile_plan plan(p->H, p->W, p->OH, p->OW, K, S, p->pad_h, p->pad_w);
    for_slices(p, p->OH, [&](int64_t plane, int64_t planes) {
        const T *x = (const T *)arguments->x + plane * p->H * p->W;
        T *y = (T *)arguments->y + plane * p->OH * p->OW;
        int64_t *indices = kept::LOCATES ? arguments->indices + plane * p->OH * p->OW : NULL;
        (void)cut_tiles(p, planes, is_aligned(x), &plan);
        const int places = kept::LOCATES ? plan.planes * plan.rows * plan.OW * (int)sizeof(int) : 0;
        pool_tiles<kept, T, K, S>
            <<<blocks_of(device, plan.count), BLOCK, plan.bytes + places,
               talc_cuda_stream(device)>>>(x, y, indices, plan, { p->exclude_padding, p->divisor });
    });
}

template <template <typename, typename> class State, typename T>
static void tiles_of(talc_device *device, const talc_pool2d_problem *p,
                     const talc_pool2d_arguments *arguments)
{
    if (p->KH == 2)
        launch_tiles<State, T, 2, 2>(device, p, arguments);
    else if (p->stride_h == 2)
        launch_tiles<State, T, 3, 2>(device, p, arguments);
    else if (p->KH == 3)
        launch_tiles<State, T, 3, 1>(device, p, arguments);
    else
        launch_tiles<State, T, 5, 1>(device, p, arguments);
}

// ---- bands --------------------------------------------------------------------------------------------------

/* The rows of y of a unit, or how many planes it has. False where not even a row has room. `state` is a state's size. */
static bool plan_bands(const talc_pool2d_problem *p, int64_t planes, int64_t multiprocessors,
                       int64_t state, band_plan *plan)
{
    const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), line = (int64_t)sizeof(band_line);
    const int64_t high = adaptive ? p->H / p->OH + 2 : p->KH;
    const int64_t stride = adaptive ? pieces(p->H, p->OH) : p->stride_h;
    const int64_t row = p->W * size,
                  above = p->W * state + line; /* of x, and beside it for a row of y */
    const int64_t plane = p->H * row + p->OH * above + ACCESS;
    const bool gaps = !adaptive && p->stride_h > p->KH; /* rows that nobody needs */
    int64_t rows = p->OH, together = 1, x_rows = p->H;
    if (plane <= BAND_BYTES) {
        /* Some units for each place where a block can be. */
        const int64_t share = pieces(planes, multiprocessors * 24), room = BAND_BYTES / plane;
        together = share < room ? share : room;
    } else if (!gaps && high * row + above + 2 * ACCESS <= BAND_BYTES) {
        rows = (BAND_BYTES - 2 * ACCESS - high * row - above) / (stride * row + above) + 1;
        rows = pieces(p->OH, pieces(p->OH, rows));
        x_rows = (rows - 1) * stride + high;
    } else {
        rows = pieces(BLOCK * 4, p->W);
        rows = pieces(p->OH, pieces(p->OH, rows < p->OH ? rows : p->OH));
        x_rows = 0;
    }
    x_rows = gaps ? 0 : x_rows < p->H ? x_rows : p->H;
    plan->planes = (int)together, plan->rows = (int)rows;
    plan->run_bytes =
        x_rows > 0 ? (int)(pieces(together * x_rows * row, ACCESS) * ACCESS + ACCESS) : 0;
    plan->lines_bytes = (int)(together * rows * line);
    plan->bytes = (int)(plan->run_bytes + plan->lines_bytes + together * rows * p->W * state);
    plan->units.set(pieces(p->OH, rows)), plan->OH.set(p->OH);
    plan->count = (uint32_t)(pieces(planes, together) * pieces(p->OH, rows));
    plan->all_planes = (uint32_t)planes;
    return plan->bytes <= BAND_BYTES + 2 * ACCESS;
}

/* Bytes of what the windows of a column come to: the state of the kind. */
static int64_t state_of(const talc_pool2d_problem *p)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    return p->indices ? 2 * size : size;
}

static const char *bands_refuses(const talc_pool2d_problem *p)
{
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (p->dilation_h > 1 || p->dilation_w > 1)
        return "only without dilation";
    if (!is_narrow(p))
        return "an image has more than 2^29 elements";
    if (p->OW == 1 && p->OH == 1 && p->H * p->W >= 1024)
        return "a plane is one run of memory already";
    if (p->W * state_of(p) > BAND_BYTES / 2)
        return "a row is too long for shared memory";
    if (p->stride_w > 4 * p->KW && p->kind != TALC_POOL2D_ADAPTIVE_AVG)
        return "windows lie far apart";
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
        const T *x = (const T *)arguments->x + plane * p->H * p->W;
        T *y = (T *)arguments->y + plane * p->OH * p->OW;
        int64_t *indices = S::LOCATES ? arguments->indices + plane * p->OH * p->OW : NULL;
        (void)plan_bands(p, planes, talc_cuda_state_of(device)->multiprocessors, sizeof(S), &plan);
        const unsigned blocks = blocks_of(device, plan.count);
        if (plan.run_bytes > 0)
            pool_bands<S, T, true><<<blocks, BLOCK, plan.bytes, stream>>>(x, y, indices, plan);
        else
            pool_bands<S, T, false><<<blocks, BLOCK, plan.bytes, stream>>>(x, y, indices, plan);
    });
}

// ---- windows ------------------------------------------------------------------------------------------------

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
    return taps < 256 ? 8 : taps < 16384 ? WARP : BLOCK;
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

static talc_status tiles_run(talc_device *device, const talc_pool2d_problem *p,
                             const talc_pool2d_arguments *arguments)
{
    RUN(tiles_of)
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
    { { "tiles", { "the data's own type", TALC_STRICT, false } }, tiles_refuses, tiles_run },
    { { "columns", { "the data's own type", TALC_STRICT, false } }, columns_refuses, columns_run },
    { { "bands", { "the data's own type", TALC_STRICT, false } }, bands_refuses, bands_run },
    { { "windows", { "the data's own type", TALC_STRICT, false } }, windows_refuses, windows_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
