/// 2-D pooling: maximum, average and adaptive average.
///
///     y[n, c, oh, ow] = max or 1/D * sum over ih, iw in the window of (oh, ow) of x[n, c, ih, iw]
///
/// x [N, C, H, W], y [N, C, OH, OW], contiguous; the windows are those of ops/pool2d_window.h. Sums are in the data's own
/// type. Memory-bound: what counts is that neighbouring threads read neighbours and that every thread has many loads in flight.
///
///   copy     adaptive averages of an element each.
///   lanes    3x3 and 5x5 windows one apart, in the smallest planes: a warp has whole planes, its lanes hand each other what
///            their windows share (pool2d_lanes.cuh).
///   spans    3x3 and 5x5 windows that overlap: a thread marches down three to seven columns, out of shared memory
///            (pool2d_spans.cuh).
///   strips   3x3 and 5x5 windows one apart, in wide images: a warp marches down a strip of columns (pool2d_strips.cuh).
///   tiles    the same and 2x2 and 3x3 two apart, in narrow images: a thread marches down one column, out of shared memory
///            (pool2d_tiles.cuh).
///   columns  2x2 and 3x3 windows: a thread computes some outputs one below the other, neighbouring threads neighbouring
///            columns. It loads all rows that its windows cover at once, combines the taps of each row, then the rows
///            (pool2d_columns.cuh).
///   planes   windows of any size in small planes: a thread has the same windows in one plane after the other
///            (pool2d_planes.cuh).
///   bands    windows of any size: rows are combined first, column by column, then columns (pool2d_bands.cuh).
///   windows  any window, whole planes above all. A thread computes an output; where windows are large and lie apart, 8, 32 or
///            256 threads share one.
///
/// Sums of rows are added in order from the top, by spans in pairs; bands add columns from the left, each summed from the top; threads
/// that share a window join their sums by a tree.
#include "backends/cuda/pool2d_bands.cuh"
#include "backends/cuda/pool2d_columns.cuh"
#include "backends/cuda/pool2d_lanes.cuh"
#include "backends/cuda/pool2d_planes.cuh"
#include "backends/cuda/pool2d_spans.cuh"
#include "backends/cuda/pool2d_strips.cuh"
#include "backends/cuda/pool2d_tiles.cuh"
#include "backends/cuda/pool2d_windows.cuh"

namespace /* other kernels have types of the same names */
{

/* Each average is of one element. */
struct copy_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        return p->kind == TALC_POOL2D_ADAPTIVE_AVG && p->H == p->OH && p->W == p->OW
                   ? NULL
                   : "only adaptive averages of an element each";
    }

    template <template <typename, typename> class, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        const size_t bytes = sizeof(T) * (size_t)(p->N * p->C * p->H * p->W);
        (void)cudaMemcpyAsync(arguments->y, arguments->x, bytes, cudaMemcpyDeviceToDevice,
                              talc_cuda_stream(device)); /* talc_cuda_launched sees its failure */
        return true;
    }
};

/* Averages that halve both dimensions have windows of 2x2, for which there are rows. */
static talc_pool2d_problem plain(talc_pool2d_problem p)
{
    if (p.kind == TALC_POOL2D_ADAPTIVE_AVG && p.H == 2 * p.OH && p.W == 2 * p.OW) {
        p.kind = TALC_POOL2D_AVG;
        p.KH = p.KW = p.stride_h = p.stride_w = 2;
        p.dilation_h = p.dilation_w = 1;
    }
    return p;
}

template <typename Row, typename T>
static bool launch(talc_device *device, const talc_pool2d_problem *p,
                   const talc_pool2d_arguments *arguments)
{
    if (p->kind != TALC_POOL2D_MAX)
        return Row::template launch<total, T>(device, p, arguments);
    if (p->indices)
        return Row::template launch<located_maximum, T>(device, p, arguments);
    return Row::template launch<maximum, T>(device, p, arguments);
}

template <typename Row>
static talc_status run(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "pool2d");
    if (status != TALC_OK)
        return status;
    const talc_pool2d_problem windows = plain(*p);
    if (p->dtype == TALC_F32 ? launch<Row, float>(device, &windows, arguments)
                             : launch<Row, double>(device, &windows, arguments))
        return talc_cuda_launched(device, "pool2d");
    return talc_fail(TALC_UNSUPPORTED, "pool2d: %s: images of %lldx%lld fit no block", device->name,
                     (long long)p->H, (long long)p->W);
}

template <typename Row> static const char *refuses(const talc_pool2d_problem *p)
{
    const talc_pool2d_problem windows = plain(*p);
    return p->direction == TALC_FORWARD ? Row::refuses(&windows) : "only the forward direction";
}

template <typename Row> constexpr talc_pool2d_algorithm row(const char *name)
{
    return { { name, { "the data's own type", TALC_STRICT, false } }, refuses<Row>, run<Row> };
}

} // namespace

// clang-format off
const talc_pool2d_algorithm talc_cuda_pool2d[] = {
    row<copy_row>("copy"),
    row<lanes_row>("lanes"),
    row<spans_row>("spans"),
    row<strips_row>("strips"),
    row<tiles_row>("tiles"),
    row<columns_row>("columns"),
    row<planes_row>("planes"),
    row<bands_row>("bands"),
    row<windows_row>("windows"),
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
// clang-format on
