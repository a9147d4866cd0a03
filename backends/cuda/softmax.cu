/// Softmax and log-softmax over one dimension of a strided array.
///
///     y_i = exp(x_i - m) / sum_j exp(x_j - m)        y_i = x_i - m - log(sum_j exp(x_j - m))        m = max_j x_j
///
/// Memory-bound: what counts is that each element is read once, and neighbours together.
///
///   registers  A softmax is held in the registers of the threads that share it: read once, written once. Along memory, up to
///              128 KiB: 4 to 1024 neighbouring threads share a softmax. Across it, where softmaxes lie side by side, up to
///              1024 elements: neighbouring threads have neighbouring softmaxes, and up to 64 rows of them share those.
///   parts      Any length. Softmaxes are cut into parts; a first kernel gives the largest element and the sum of each part, a
///              second joins these, and a third reads x again, from the back, and writes y.
///   whole      Any length, without workspace: a block reads its softmaxes twice.
///
/// Exponentials are in the data's type. Sums are too, of at most 32 elements and then of a tree, in `registers`; f64 in the
/// others.
#include "backends/cuda/softmax_held.cuh"
#include "backends/cuda/softmax_parts.cuh"

using namespace talc;

namespace /* other kernels have types of the same names */
{

// ---- Layout -------------------------------------------------------------------------------------------------

/* Whether softmaxes lie side by side, closer than the elements of one. */
static bool is_across(const talc_softmax_problem *p)
{
    return p->outer_rank > 0 && p->x_strides[p->outer_rank - 1] < p->x_stride;
}

/* Whether each softmax consists of whole packs. */
template <typename T>
static bool is_packed(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    constexpr int COUNT = ACCESS / sizeof(T);
    bool packed = p->x_stride == 1 && p->y_stride == 1 && p->extent % COUNT == 0 &&
                  is_aligned(a->x) && is_aligned(a->y);
    for (int i = 0; i < p->outer_rank; i++)
        packed &= p->x_strides[i] % COUNT == 0 && p->y_strides[i] % COUNT == 0;
    return packed;
}

// ---- registers ----------------------------------------------------------------------------------------------

template <typename T>
static void launch_along(talc_device *device, const talc_softmax_problem *p,
                         const talc_softmax_arguments *a)
{
    constexpr int COUNT = ACCESS / sizeof(T);
    /* More threads that hold less, as long as there are as many: their blocks work while others wait for memory. */
    const bool is_short = p->extent <= MOST_THREADS * HELD_SHORT / (int64_t)sizeof(T);
    const int held = (is_short ? HELD_SHORT : HELD_LONG) / (int)sizeof(T);
    int threads = 4;
    while (threads * held < p->extent)
        threads *= 2;
    const int block = threads <= WARP ? BLOCK : threads;
    const auto packed =
        is_short ? softmax_along<T, COUNT, HELD_SHORT> : softmax_along<T, COUNT, HELD_LONG>;
    const auto single = is_short ? softmax_along<T, 1, HELD_SHORT> : softmax_along<T, 1, HELD_LONG>;
    const auto kernel = is_packed<T>(p, a) ? packed : single;
    kernel<<<blocks_of(device, pieces(p->outer, block / threads)), block, 0,
             talc_cuda_stream(device)>>>((T *)a->y, (const T *)a->x, threads, softmax_plan(p));
}

/* The most elements of softmaxes that lie side by side: rows of a line by MOST_THREADS threads. */
constexpr int64_t MOST_ACROSS = MOST_THREADS * HELD_LONG / LINE;

template <typename T>
static void launch_across(talc_device *device, const talc_softmax_problem *p,
                          const talc_softmax_arguments *a)
{
    constexpr int LEAST = LINE / sizeof(T);
    const bool is_short = p->extent <= BLOCK / LEAST * HELD_SHORT / (int64_t)sizeof(T);
    const int bytes = is_short ? HELD_SHORT : HELD_LONG, held = bytes / (int)sizeof(T);
    int rows = 1;
    while (rows * held < p->extent)
        rows *= 2;
    const int width = BLOCK / rows > LEAST ? BLOCK / rows : LEAST;
    launch_staged(device, is_short ? softmax_across<T, HELD_SHORT> : softmax_across<T, HELD_LONG>,
                  width * rows, bytes, pieces(p->outer, width), (T *)a->y, (const T *)a->x, width,
                  softmax_plan(p));
}

template <typename T>
static void launch_registers(talc_device *device, const talc_softmax_problem *p,
                             const talc_softmax_arguments *a)
{
    if (is_across(p))
        launch_across<T>(device, p, a);
    else
        launch_along<T>(device, p, a);
}

// ---- parts and whole ----------------------------------------------------------------------------------------

/* Blocks that keep any GPU busy, and elements that are worth a block's while. */
constexpr int64_t ENOUGH_BLOCKS = 4096, PART = 8192;

/* The cut depends on the problem alone; parts are whole packs. */
static parts_plan cut_of(const talc_softmax_problem *p, bool in_parts)
{
    parts_plan cut = { 1, p->extent, p->extent, 1, p->outer };
    if (is_across(p)) {
        cut.width = LINE / (int)talc_dtype_size(p->dtype);
        cut.columns = pieces(p->outer, cut.width);
    }
    const int64_t part = PART / cut.width;
    if (in_parts && cut.columns <= ENOUGH_BLOCKS / 2 && p->extent >= 2 * part) {
        cut.length = pieces(pieces(p->extent, ENOUGH_BLOCKS / cut.columns), part) * part;
        cut.parts = pieces(p->extent, cut.length);
    }
    return cut;
}

template <typename T, int COUNT>
static void launch_cut(talc_device *device, const talc_softmax_problem *p, parts_plan cut,
                       const talc_softmax_arguments *a)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const softmax_plan plan(p);
    const unsigned blocks = blocks_of(device, cut.columns * cut.parts);
    T *y = (T *)a->y;
    const T *x = (const T *)a->x;
    cut.accesses /= COUNT;
    cut.length /= COUNT;
    if (cut.parts == 1) {
        softmax_whole<T, COUNT><<<blocks, BLOCK, 0, stream>>>(y, x, cut, plan);
        return;
    }
    running<T> *states = (running<T> *)a->workspace;
    const unsigned joining = blocks_of(device, pieces(p->outer, BLOCK / WARP));
    softmax_states<T, COUNT><<<blocks, BLOCK, 0, stream>>>(states, x, cut, plan);
    softmax_join<<<joining, BLOCK, 0, stream>>>(states, cut.parts, p->outer);
    softmax_write<T, COUNT><<<blocks, BLOCK, 0, stream>>>(y, x, states, cut, plan);
}

template <typename T, bool IN_PARTS>
static void launch_any(talc_device *device, const talc_softmax_problem *p,
                       const talc_softmax_arguments *a)
{
    const parts_plan cut = cut_of(p, IN_PARTS);
    if (is_packed<T>(p, a))
        launch_cut<T, ACCESS / sizeof(T)>(device, p, cut, a);
    else
        launch_cut<T, 1>(device, p, cut, a);
}

} // namespace

// ---- Rows ---------------------------------------------------------------------------------------------------

static const char *registers_refuses(const talc_softmax_problem *p)
{
    if (is_across(p))
        return p->extent > MOST_ACROSS ? "softmaxes side by side have over 1024 elements" : NULL;
    return p->extent > MOST_THREADS * HELD_LONG / (int64_t)talc_dtype_size(p->dtype)
               ? "a softmax is over 131072 bytes long"
               : NULL;
}

static const char *any(const talc_softmax_problem *problem)
{
    (void)problem;
    return NULL;
}

static size_t parts_workspace(const talc_softmax_problem *p)
{
    const parts_plan cut = cut_of(p, true);
    return cut.parts == 1 ? 0 : (size_t)cut.parts * (size_t)p->outer * sizeof(running<double>);
}

/* One of the launches above, of both types. */
template <auto F32, auto F64>
static talc_status run(talc_device *device, const talc_softmax_problem *p,
                       const talc_softmax_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "softmax");
    if (status != TALC_OK)
        return status;
    (p->dtype == TALC_F32 ? F32 : F64)(device, p, arguments);
    return talc_cuda_launched(device, "softmax");
}

const talc_softmax_algorithm talc_cuda_softmax[] = {
    { { "registers", { "the data's own type", TALC_STRICT, false } },
      registers_refuses,
      NULL,
      run<launch_registers<float>, launch_registers<double>> },
    { { "parts", { "the data's own type, sums in f64", TALC_STRICT, false } },
      any,
      parts_workspace,
      run<launch_any<float, true>, launch_any<double, true>> },
    { { "whole", { "the data's own type, sums in f64", TALC_STRICT, false } },
      any,
      NULL,
      run<launch_any<float, false>, launch_any<double, false>> },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL, NULL },
};
