/// Softmax and log-softmax over one dimension of a strided array.
///
///     y_i = exp(x_i - m) / sum_j exp(x_j - m)        y_i = x_i - m - log(sum_j exp(x_j - m))        m = max_j x_j
///
/// Memory-bound: what counts is that each element is read once, and neighbours together.
///
///   registers  A softmax is held in the registers of the threads that share it: read once, written once. Along memory, up to
///              128 KiB: 1 to 1024 neighbouring threads share a softmax; up to 128 bytes that no accesses of 16 bytes make up, a
///              thread has one by way of shared memory. Across it, where softmaxes lie side by side, up to 1024 elements:
///              neighbouring threads have neighbouring softmaxes, and up to 128 rows of them share those.
///   cluster    Along memory, up to 1.8 MB: held in the shared memory of a cluster of 2 to 16 blocks, and read once too.
///   parts      Any length. Softmaxes are cut into parts; a first kernel gives the largest element and the sum of each part, a
///              second joins these, and a third reads x again, from the back, and writes y. What no cluster holds has to be
///              read twice, as no result is known before the last element.
///   whole      Any length, without workspace: a block reads its softmaxes twice.
///
/// Along memory, accesses are of 16 bytes wherever softmaxes begin, as long as they begin at the same place of a pack in x and
/// in y. Exponentials are in the data's type. Sums are too, of some tens of elements and then of a tree, where x is read once;
/// f64 in the others.
#include "backends/cuda/row.cuh"
#include "backends/cuda/softmax_cluster.cuh"
#include "backends/cuda/softmax_held.cuh"
#include "backends/cuda/softmax_parts.cuh"
#include "backends/cuda/softmax_short.cuh"

using namespace talc;

namespace /* other kernels have types of the same names */
{

// ---- Layout -------------------------------------------------------------------------------------------------

/* Whether softmaxes lie side by side, closer than the elements of one: in x, or in y where x repeats an element. */
static bool is_across(const talc_softmax_problem *p)
{
    if (p->outer_rank == 0)
        return false;
    const int last = p->outer_rank - 1;
    return p->x_stride == 0 || p->x_strides[last] == 0 ? p->y_strides[last] < p->y_stride
                                                       : p->x_strides[last] < p->x_stride;
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

/* Whether each begins at the same place of a pack in x and in y. */
template <typename T>
static bool is_alike(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    bool alike =
        p->x_stride == 1 && p->y_stride == 1 && ((uintptr_t)a->x - (uintptr_t)a->y) % ACCESS == 0;
    for (int i = 0; i < p->outer_rank; i++)
        alike &= (p->x_strides[i] - p->y_strides[i]) % (ACCESS / (int64_t)sizeof(T)) == 0;
    return alike;
}

/* Packs of COUNT elements that a softmax along memory reaches into, at the most. */
template <typename T, int COUNT>
static int64_t packs_of(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    return pieces(COUNT == 1 || is_packed<T>(p, a) ? p->extent : p->extent + COUNT - 1, COUNT);
}

/* Whether COUNT neighbouring softmaxes stand in a pack, wherever one looks across them. */
template <typename T>
static bool is_packed_across(const talc_softmax_problem *p, const talc_softmax_arguments *a)
{
    constexpr int COUNT = ACCESS / sizeof(T);
    const int last = p->outer_rank - 1;
    bool packed = p->x_strides[last] == 1 && p->y_strides[last] == 1 &&
                  p->outer_dims[last] % COUNT == 0 && p->x_stride % COUNT == 0 &&
                  p->y_stride % COUNT == 0 && is_aligned(a->x) && is_aligned(a->y);
    for (int i = 0; i < last; i++)
        packed &= p->x_strides[i] % COUNT == 0 && p->y_strides[i] % COUNT == 0;
    return packed;
}

/* Whether softmaxes lie one behind the other, without gaps. */
static bool is_dense_in_rows(const talc_softmax_problem *p)
{
    return p->x_stride == 1 && p->y_stride == 1 &&
           (p->outer_rank == 0 ||
            (p->outer_rank == 1 && p->x_strides[0] == p->extent && p->y_strides[0] == p->extent));
}

// ---- registers ----------------------------------------------------------------------------------------------

/* A block for each piece of work, as far as a grid goes: blocks that begin and end at any time read and write at any time. */
static unsigned blocks_for_each(int64_t work)
{
    return (unsigned)(work < INT_MAX ? work : INT_MAX);
}

template <typename T, int COUNT>
static void launch_along(talc_device *device, const talc_softmax_problem *p,
                         const talc_softmax_arguments *a)
{
    constexpr int EACH = COUNT * (int)sizeof(T);
    const int64_t packs = packs_of<T, COUNT>(p, a);
    /* Up to what four threads hold of a short one; longer ones have four at least, which read neighbours. */
    const bool is_short = packs * EACH <= 4 * HELD_SHORT;
    const int held = (is_short ? HELD_SHORT : HELD_LONG) / EACH;
    int threads = is_short ? 1 : 4;
    while (threads < WARP && threads * held < packs)
        threads *= 2;
    if (threads * held < packs)
        threads = (int)pieces(packs, WARP * held) * WARP;
    const int block = threads <= WARP ? BLOCK : threads;
    const int64_t work = pieces(p->outer, block / threads);
    const auto kernel =
        is_short ? softmax_along<T, COUNT, HELD_SHORT> : softmax_along<T, COUNT, HELD_LONG>;
    kernel<<<is_short ? blocks_of(device, work) : blocks_for_each(work), block, 0,
             talc_cuda_stream(device)>>>((T *)a->y, (const T *)a->x, threads,
                                         (int)pieces(packs, threads), softmax_plan(p));
}

/* The most elements of softmaxes that lie side by side: rows of a line by MOST_THREADS threads. */
constexpr int64_t MOST_ACROSS = MOST_THREADS * HELD_LONG / LINE;

template <typename T, int COUNT>
static void launch_across(talc_device *device, const talc_softmax_problem *p,
                          const talc_softmax_arguments *a)
{
    constexpr int EACH = COUNT * (int)sizeof(T);
    int rows = (int)pieces(p->extent, HELD_LONG / EACH), width = BLOCK / 2;
    while (width * rows > BLOCK && width > LINE / EACH)
        width /= 2;
    if (width < WARP) /* whole warps */
        rows = (int)pieces(rows, WARP / width) * (WARP / width);
    softmax_across<T, COUNT><<<blocks_of(device, pieces(p->outer, width * COUNT)), width * rows, 0,
                               talc_cuda_stream(device)>>>(
        (T *)a->y, (const T *)a->x, width, (int)pieces(p->extent, rows), softmax_plan(p));
}

template <typename T>
static void launch_short(talc_device *device, const talc_softmax_problem *p,
                         const talc_softmax_arguments *a)
{
    constexpr int MOST = SHORT / (int)sizeof(T);
    const auto kernel = p->extent <= MOST / 4       ? softmax_short<T, MOST / 4>
                        : p->extent <= MOST * 3 / 8 ? softmax_short<T, MOST * 3 / 8>
                        : p->extent <= MOST / 2     ? softmax_short<T, MOST / 2>
                        : p->extent <= MOST * 3 / 4 ? softmax_short<T, MOST * 3 / 4>
                                                    : softmax_short<T, MOST>;
    kernel<<<blocks_of(device, pieces(p->outer, BLOCK)), BLOCK, BLOCK * p->extent * sizeof(T),
             talc_cuda_stream(device)>>>((T *)a->y, (const T *)a->x, softmax_plan(p));
}

template <typename T>
static void launch_registers(talc_device *device, const talc_softmax_problem *p,
                             const talc_softmax_arguments *a)
{
    constexpr int COUNT = ACCESS / (int)sizeof(T);
    constexpr int64_t MOST_PACKS = MOST_THREADS * HELD_LONG / ACCESS;
    if (is_across(p)) {
        if (is_packed_across<T>(p, a))
            launch_across<T, COUNT>(device, p, a);
        else
            launch_across<T, 1>(device, p, a);
    } else if (p->extent <= SHORT / (int64_t)sizeof(T) && !is_packed<T>(p, a) &&
               is_dense_in_rows(p) && is_aligned(a->x) && is_aligned(a->y))
        launch_short<T>(device, p, a);
    else if (is_alike<T>(p, a) && packs_of<T, COUNT>(p, a) <= MOST_PACKS)
        launch_along<T, COUNT>(device, p, a);
    else
        launch_along<T, 1>(device, p, a);
}

// ---- cluster ------------------------------------------------------------------------------------------------

/* Bytes of a softmax that a block holds where enough blocks can share it, so that three run side by side, and the most that it
 * can hold. */
constexpr int64_t STORED = 64 << 10, MOST_STORED = 224 << 10;

/* Threads of the blocks that run side by side: more wait for each other longer than they load faster. */
constexpr int64_t RUNNING = 960;

/* Bytes of the longest softmax: what the largest cluster holds that every GPU with clusters can run. */
constexpr int64_t MOST_BYTES = PORTABLE_BLOCKS * MOST_STORED;

/* Whether every GPU runs the machine code made for compute capability 9.0: a row refuses by the problem alone. PTX for newer
 * GPUs knows no clusters. Kept once all of them have said so. */
static bool has_clusters()
{
    enum { UNKNOWN, NO, YES };
    static int known;
    int count = 0, all = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (all != UNKNOWN)
        return all == YES;
    all = YES;
    cudaError_t error = cudaGetDeviceCount(&count);
    for (int i = 0; i < count && error == cudaSuccess; i++) {
        int major = 0, minor = 0;
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
        if (error == cudaSuccess)
            error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i);
        all = major == 9 && minor == 0 ? all : NO;
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* this one, as it is the last */
        return false;
    }
    __atomic_store_n(&known, all, __ATOMIC_RELAXED);
    return all == YES;
}

/* Blocks of the largest cluster that runs the kernel on this GPU, and leave for the kernel to have all the shared memory of a
 * block. Asked once a GPU, as it costs as much as a launch. A failure shows at the launch. */
template <auto KERNEL> static int most_blocks(const talc_device *device)
{
    static int known[TALC_CUDA_GPUS];
    int *own = &known[talc_cuda_state_of(device)->index];
    int most = __atomic_load_n(own, __ATOMIC_ACQUIRE);
    if (most != 0)
        return most;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster = {};
    int clusters = 0;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { MOST_BLOCKS, 1, 1 };
    config.gridDim = dim3(MOST_BLOCKS);
    config.blockDim = dim3(MOST_THREADS);
    config.dynamicSmemBytes = MOST_STORED;
    config.attrs = &cluster;
    config.numAttrs = 1;
    if (cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_STORED) !=
        cudaSuccess)
        return PORTABLE_BLOCKS;
    cudaError_t error =
        cudaFuncSetAttribute(KERNEL, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveClusters(&clusters, KERNEL, &config);
    if (error != cudaSuccess)
        (void)cudaGetLastError(); /* this one, as it is the last */
    most = error == cudaSuccess && clusters > 0 ? MOST_BLOCKS : PORTABLE_BLOCKS;
    __atomic_store_n(own, most, __ATOMIC_RELEASE);
    return most;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

template <typename T, int COUNT, bool LOG>
static void launch_blocks(talc_device *device, const talc_softmax_problem *p,
                          const talc_softmax_arguments *a)
{
    constexpr int EACH = COUNT * (int)sizeof(T);
    constexpr auto kernel = softmax_cluster<T, COUNT, LOG>;
    const int64_t packs = packs_of<T, COUNT>(p, a);
    const int most = most_blocks<kernel>(device);
    int blocks = 2;
    while (blocks < most && packs * EACH > blocks * STORED)
        blocks *= 2;
    /* Blocks that run side by side by their shared memory. */
    const int64_t own = pieces(packs, blocks);
    const int64_t side_by_side = (MOST_STORED + 1024) / (own * EACH + 1024);
    const int64_t most_threads = smaller(MOST_THREADS / 2, RUNNING / side_by_side);
    /* So many that the packs come out nearly even: what they have room for is held. */
    int64_t threads = BLOCK;
    for (int64_t other = BLOCK; other <= most_threads; other += WARP)
        if (pieces(own, other) * other <= pieces(own, threads) * threads)
            threads = other;
    const int rounds = (int)pieces(own, threads);
    /* Several times as many clusters as run side by side: they drift apart, and some read while others write. */
    const int64_t clusters =
        talc_cuda_state_of(device)->multiprocessors * side_by_side * 8 / blocks;

    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { (unsigned)blocks, 1, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(smaller(p->outer, clusters) * blocks));
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)(rounds * threads * EACH);
    config.stream = talc_cuda_stream(device);
    config.attrs = &cluster;
    config.numAttrs = 1;
    (void)cudaLaunchKernelEx(&config, kernel, (T *)a->y, (const T *)a->x, rounds, softmax_plan(p));
}

template <typename T>
static void launch_cluster(talc_device *device, const talc_softmax_problem *p,
                           const talc_softmax_arguments *a)
{
    constexpr int COUNT = ACCESS / (int)sizeof(T);
    const bool packed = is_alike<T>(p, a) && packs_of<T, COUNT>(p, a) <= MOST_BYTES / ACCESS;
    if (packed && p->log)
        launch_blocks<T, COUNT, true>(device, p, a);
    else if (packed)
        launch_blocks<T, COUNT, false>(device, p, a);
    else if (p->log)
        launch_blocks<T, 1, true>(device, p, a);
    else
        launch_blocks<T, 1, false>(device, p, a);
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
    if (in_parts && cut.columns > 0 && cut.columns <= ENOUGH_BLOCKS / 2 && p->extent >= 2 * part) {
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
    running<T> *states = (running<T> *)a->base.workspace;
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

static const char *plan_registers(const talc_device *, const talc_softmax_problem *p, size_t,
                                  talc_plan *)
{
    if (is_across(p))
        return p->extent > MOST_ACROSS ? "softmaxes side by side have over 1024 elements" : NULL;
    const int64_t bytes = p->extent * (int64_t)talc_dtype_size(p->dtype);
    return bytes > MOST_THREADS * HELD_LONG ? "a softmax is over 131072 bytes long"
           : bytes > STORED && has_clusters()
               ? "a softmax is over 65536 bytes long, which a cluster reads faster"
               : NULL;
}

static const char *plan_cluster(const talc_device *, const talc_softmax_problem *p, size_t,
                                talc_plan *)
{
    return is_across(p) ? "softmaxes lie side by side"
           : p->extent > MOST_BYTES / (int64_t)talc_dtype_size(p->dtype)
               ? "a softmax is over 1835008 bytes long"
           : has_clusters() ? NULL
                            : "not every GPU is of compute capability 9.0";
}

static const char *plan_parts(const talc_device *, const talc_softmax_problem *p, size_t,
                              talc_plan *plan)
{
    const parts_plan cut = cut_of(p, true);
    if (cut.parts > 1)
        plan->workspace = (size_t)cut.parts * (size_t)p->outer * sizeof(running<double>);
    return NULL;
}

static const char *plan_whole(const talc_device *, const talc_softmax_problem *, size_t,
                              talc_plan *)
{
    return NULL;
}

/* One of the launches above, of both types. */
template <auto F32, auto F64>
static talc_status run(talc_device *device, const talc_softmax_problem *p, const talc_plan *,
                       const talc_softmax_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "softmax");
    if (status != TALC_OK)
        return status;
    (p->dtype == TALC_F32 ? F32 : F64)(device, p, arguments);
    return talc_cuda_launched(device, "softmax");
}

const talc_algorithm talc_cuda_softmax[] = {
    talc_cuda_row<plan_registers, run<launch_registers<float>, launch_registers<double>>>(
        "registers", { "the data's own type", TALC_STRICT, false }),
    talc_cuda_row<plan_cluster, run<launch_cluster<float>, launch_cluster<double>>>(
        "cluster", { "the data's own type", TALC_STRICT, false }),
    talc_cuda_row<plan_parts, run<launch_any<float, true>, launch_any<double, true>>>(
        "parts", { "the data's own type, sums in f64", TALC_STRICT, false }),
    talc_cuda_row<plan_whole, run<launch_any<float, false>, launch_any<double, false>>>(
        "whole", { "the data's own type, sums in f64", TALC_STRICT, false }),
    { NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
