/// Softmax and log-softmax over one dimension of a strided array.
///
///     softmax:      y_i = exp(x_i - m) / sum_j exp(x_j - m)
///     log_softmax:  y_i = x_i - m - log(sum_j exp(x_j - m)),      m = max_j x_j
///
/// The kernels are bound by memory bandwidth. Their accesses are coalesced, and of 16 bytes where
/// each softmax consists of whole vectors. "Along memory" means that the elements of a softmax are
/// contiguous, "across memory" that they are strided.
///
///   warp       Reads x once. 1 to 32 lanes hold a softmax in registers: up to 4 KiB along memory,
///              up to 512 bytes across it.
///   cluster    Reads x once, along memory. A block holds up to 64 KiB in shared memory. Where GPUs
///              have thread block clusters, 2 to 16 blocks hold up to 1.8 MB.
///   two_pass   Reads x twice, at any length and with any strides. A few long softmaxes are split
///              among blocks, in two launches.
///   one_block  The same without a workspace: a softmax is not split.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/softmax/cluster.cuh"
#include "backends/cuda/softmax/thread.cuh"
#include "backends/cuda/softmax/two_pass.cuh"
#include "backends/cuda/softmax/warp.cuh"

using namespace talc;

namespace /* other files have types of the same names */
{

/* Whether the softmaxes lie across memory: another dimension has a smaller stride in x, or in y
 * where x is expanded. */
static bool is_strided(const talc_softmax_problem *p)
{
    if (p->outer_rank == 0)
        return false;
    const int last = p->outer_rank - 1;
    return p->x_stride == 0 || p->x_strides[last] == 0 ? p->y_strides[last] < p->y_stride
                                                       : p->x_strides[last] < p->x_stride;
}

/* Whether both arrays are aligned and each softmax consists of whole vectors. */
template <typename T>
static bool is_whole(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    constexpr int COUNT = VECTOR_WIDTH<T>;
    bool whole = p->x_stride == 1 && p->y_stride == 1 && p->extent % COUNT == 0 &&
                 is_aligned(a->x) && is_aligned(a->y);
    for (int i = 0; i < p->outer_rank; i++)
        whole &= p->x_strides[i] % COUNT == 0 && p->y_strides[i] % COUNT == 0;
    return whole;
}

/* Whether both arrays are aligned and contiguous, with softmaxes along the last dimension. */
static bool is_dense(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    return p->x_stride == 1 && p->y_stride == 1 && is_aligned(a->x) && is_aligned(a->y) &&
           (p->outer_rank == 0 ||
            (p->outer_rank == 1 && p->x_strides[0] == p->extent && p->y_strides[0] == p->extent));
}

// ---- warp ---------------------------------------------------------------------------------------

/* Bytes of a softmax that a lane holds in registers: the fewer, the higher the occupancy. */
constexpr int HELD = 128;

/* The maximum of lanes that share a strided softmax. With more, a warp would read fewer than 32
 * contiguous bytes at a time. */
constexpr int STRIDED_LANES = 4;

template <typename T, int COUNT, softmax_layout LAYOUT>
static void launch_lanes(talc_device *device, const talc_softmax_problem *p,
                         const talc_softmax_arguments *a)
{
    constexpr int EACH = COUNT * (int)sizeof(T), HELD_SHORT = LAYOUT == ALONG ? 32 : 64;
    constexpr int SHORT_LANES = LAYOUT != ALONG ? 1 : COUNT > 1 ? 4 : WARP;
    const int count = (int)p->extent / COUNT;
    const bool is_short = count * EACH <= SHORT_LANES * HELD_SHORT;
    /* Longer contiguous softmaxes have at least four lanes, for coalesced accesses. */
    int shift = !is_short && LAYOUT == ALONG ? 2 : 0;
    while ((is_short ? HELD_SHORT : HELD) << shift < count * EACH)
        shift++;
    /* Longer ones have a block for each tile. Such blocks begin and end at different times, so that
     * reads of some overlap writes of others. */
    const int64_t work = talc_ceil_div(p->outer, BLOCK >> shift);
    const int64_t blocks = shift == 0       ? grid_for_blocks(device, work)
                           : work < INT_MAX ? work
                                            : INT_MAX;
    const auto kernel = is_short ? softmax_warp<T, COUNT, HELD_SHORT / EACH, LAYOUT>
                                 : softmax_warp<T, COUNT, HELD / EACH, LAYOUT>;
    kernel<<<(unsigned)blocks, BLOCK, 0, talc_cuda_stream(device)>>>((T *)a->y, (const T *)a->x,
                                                                     shift, count, softmax_plan(p));
}

/* Blocks per multiprocessor. They are few, and each loops over many softmaxes in a pipeline. */
constexpr int64_t PIPELINED = 16;

template <typename T>
static void launch_thread(talc_device *device, const talc_softmax_problem *p,
                          const talc_softmax_arguments *a)
{
    const int64_t work = talc_ceil_div(p->outer, BLOCK);
    const int64_t max = talc_cuda_state_of(device)->multiprocessors * PIPELINED;
    const int bytes = 2 * BLOCK * (int)(p->extent * (int64_t)sizeof(T));
    if (bytes > 48 << 10)
        (void)allow_shared(softmax_thread<T>, 2 * BLOCK * HELD);
    softmax_thread<T>
        <<<(unsigned)(work < max ? work : max), BLOCK, bytes, talc_cuda_stream(device)>>>(
            (T *)a->y, (const T *)a->x, (int)p->extent, p->outer, p->log);
}

template <typename T>
static void launch_warp(talc_device *device, const talc_softmax_problem *p,
                        const talc_softmax_arguments *a)
{
    if (is_strided(p))
        launch_lanes<T, 1, STRIDED>(device, p, a);
    else if (is_whole<T>(p, a))
        launch_lanes<T, VECTOR_WIDTH<T>, ALONG>(device, p, a);
    else if (is_dense(p, a) && p->extent * (int64_t)sizeof(T) <= HELD)
        launch_thread<T>(device, p, a);
    else
        launch_lanes<T, 1, ALONG>(device, p, a);
}

// ---- cluster ------------------------------------------------------------------------------------

/* Bytes of a softmax that a block holds in shared memory: STORED where enough blocks can share it,
 * so that three of them fit a multiprocessor, else up to MAX_STORED. */
constexpr int64_t STORED = 64 << 10, MAX_STORED = 224 << 10;

/* The maximum of threads per multiprocessor: with more, waiting at barriers costs more than loading
 * faster gains. SPARE is how many bytes of a block's slots may stay empty. */
constexpr int64_t RUNNING = 960, MIN_THREADS = 128, SPARE = MIN_THREADS * VECTOR_BYTES;

/* Whether every GPU has compute capability 9.0, for which the machine code with clusters is made.
 * The PTX for newer GPUs has none. */
static bool has_clusters()
{
    int count = 0, major = 9;
    cudaError_t error = cudaGetDeviceCount(&count);
    for (int i = 0; i < count && error == cudaSuccess && major == 9; i++)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
    if (error != cudaSuccess)
        (void)cudaGetLastError(); /* clears the error of these calls */
    return error == cudaSuccess && major == 9;
}

/* Launches clusters of at most `max` blocks. Returns false where the GPU cannot run them. */
template <typename T, int COUNT>
static bool launch_blocks(talc_device *device, const talc_softmax_problem *p,
                          const talc_softmax_arguments *a, int max)
{
    constexpr int EACH = COUNT * (int)sizeof(T);
    constexpr auto kernel = softmax_cluster<T, COUNT>;
    const int64_t count = p->extent / COUNT;
    int blocks = 1, clusters = 1;
    while (blocks < max && count * EACH > blocks * STORED)
        blocks *= 2;
    const int64_t vectors_of_block = talc_ceil_div(count, blocks);
    const int64_t blocks_per_sm = (MAX_STORED + 1024) / (vectors_of_block * EACH + 1024);
    /* The number of threads that shares the vectors most evenly, so that the fewest slots stay
     * empty. */
    int64_t threads = MIN_THREADS;
    for (int64_t i = threads; i <= MAX_THREADS && i <= RUNNING / blocks_per_sm; i += WARP)
        if (talc_ceil_div(vectors_of_block, i) * i <=
            talc_ceil_div(vectors_of_block, threads) * threads)
            threads = i;
    /* Several times as many clusters as run at once. They drift apart in time, so that reads of
     * some overlap writes of others. */
    const int64_t clusters_in_grid =
        talc_cuda_state_of(device)->multiprocessors * blocks_per_sm * 8 / blocks;
    const int64_t bytes = talc_ceil_div(vectors_of_block, threads) * threads * EACH;

    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { (unsigned)blocks, 1, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3((unsigned)((p->outer < clusters_in_grid ? p->outer : clusters_in_grid) * blocks));
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = talc_cuda_stream(device);
    config.attrs = &cluster;
    config.numAttrs = blocks > 1;
    if (bytes > STORED / 2) /* else the shared memory that every kernel may have is enough */
        (void)allow_shared(kernel, (has_clusters() ? MAX_STORED : STORED) + SPARE);
    if (blocks > PORTABLE_BLOCKS &&
        (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) !=
             cudaSuccess ||
         cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess ||
         clusters == 0)) {
        (void)cudaGetLastError(); /* clears the error: such clusters do not run here */
        return false;
    }
    (void)cudaLaunchKernelEx(&config, kernel, (T *)a->y, (const T *)a->x, blocks, (int)count,
                             softmax_plan(p));
    return true;
}

template <typename T>
static void launch_cluster(talc_device *device, const talc_softmax_problem *p,
                           const talc_softmax_arguments *a)
{
    const auto launch = is_whole<T>(p, a) ? launch_blocks<T, VECTOR_WIDTH<T>> : launch_blocks<T, 1>;
    if (!launch(device, p, a, MAX_BLOCKS))
        (void)launch(device, p, a, PORTABLE_BLOCKS);
}

// ---- two_pass and one_block ---------------------------------------------------------------------

/* Blocks that keep any GPU busy, and the elements that are worth a block of their own. */
constexpr int64_t ENOUGH_BLOCKS = 1024, BLOCK_ELEMENTS = 8192;

/* How softmaxes are divided among blocks. It follows from the problem alone, so results do too. */
static softmax_tiling tiling_of(const talc_softmax_problem *p, bool is_split)
{
    softmax_tiling tiling = { is_strided(p) ? (int)(CACHE_LINE / talc_dtype_size(p->dtype)) : 1,
                              p->extent, 1 };
    const int64_t part = BLOCK_ELEMENTS / tiling.width,
                  columns = talc_ceil_div(p->outer, tiling.width);
    if (is_split && columns > 0 && columns <= ENOUGH_BLOCKS / 2 && p->extent >= 2 * part) {
        tiling.length =
            talc_ceil_div(talc_ceil_div(p->extent, ENOUGH_BLOCKS / columns), part) * part;
        tiling.parts = talc_ceil_div(p->extent, tiling.length);
    }
    return tiling;
}

template <typename T, bool IS_SPLIT>
static void launch_two_pass(talc_device *device, const talc_softmax_problem *p,
                            const talc_softmax_arguments *a)
{
    const softmax_tiling tiling = tiling_of(p, IS_SPLIT);
    const dim3 grid(grid_for_blocks(device, talc_ceil_div(p->outer, tiling.width)),
                    (unsigned)tiling.parts);
    for (int pass = tiling.parts == 1 ? BOTH : FIRST; pass <= (tiling.parts == 1 ? BOTH : SECOND);
         pass++)
        softmax_two_pass<<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(
            (T *)a->y, (const T *)a->x, (running<T> *)a->base.workspace, (softmax_pass)pass, tiling,
            softmax_plan(p));
}

} // namespace

// ---- The algorithms -----------------------------------------------------------------------------

static const char *plan_warp(const talc_device *, const talc_softmax_problem *p, size_t,
                             talc_plan *)
{
    const int64_t max = HELD / (int64_t)talc_dtype_size(p->dtype);
    return is_strided(p) && p->extent > STRIDED_LANES * max
               ? "the axis is strided and longer than 512 bytes"
           : p->extent > WARP * max ? "the axis is longer than 4096 bytes"
                                    : NULL;
}

static const char *plan_cluster(const talc_device *, const talc_softmax_problem *p, size_t,
                                talc_plan *)
{
    const int64_t max = PORTABLE_BLOCKS * MAX_STORED, size = (int64_t)talc_dtype_size(p->dtype);
    return is_strided(p)            ? "the axis is strided"
           : p->extent > max / size ? "the axis is longer than 1835008 bytes"
           : p->extent > STORED / size && !has_clusters()
               ? "the axis is longer than 65536 bytes, and some GPU here has no thread block "
                 "clusters (compute capability 9.0)"
               : NULL;
}

static const char *plan_two_pass(const talc_device *, const talc_softmax_problem *p, size_t,
                                 talc_plan *plan)
{
    const softmax_tiling tiling = tiling_of(p, true);
    if (tiling.parts > 1)
        plan->workspace = (size_t)tiling.parts * (size_t)p->outer * sizeof(running<double>);
    return NULL;
}

enum softmax_algorithm { IN_WARP, IN_CLUSTER, IN_TWO_PASSES, IN_ONE_BLOCK };

template <softmax_algorithm ALGORITHM>
static talc_status run(talc_device *device, const talc_softmax_problem *p, const talc_plan *,
                       const talc_softmax_arguments *a)
{
    return with_float(p->dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        if constexpr (ALGORITHM == IN_WARP)
            launch_warp<T>(device, p, a);
        else if constexpr (ALGORITHM == IN_CLUSTER)
            launch_cluster<T>(device, p, a);
        else
            launch_two_pass<T, ALGORITHM == IN_TWO_PASSES>(device, p, a);
        return talc_cuda_launched(device, "softmax");
    });
}

constexpr talc_arithmetic OWN_TYPE = { "the data's own type", TALC_STRICT, false };
constexpr talc_arithmetic SUMS_IN_F64 = { "the data's own type, sums in f64", TALC_STRICT, false };

const talc_algorithm talc_cuda_softmax[] = {
    talc_cuda_algorithm<plan_warp, run<IN_WARP>>("warp", OWN_TYPE),
    talc_cuda_algorithm<plan_cluster, run<IN_CLUSTER>>("cluster", OWN_TYPE),
    talc_cuda_algorithm<plan_two_pass, run<IN_TWO_PASSES>>("two_pass", SUMS_IN_F64),
    talc_cuda_algorithm<talc_plan_any, run<IN_ONE_BLOCK>>("one_block", SUMS_IN_F64),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
