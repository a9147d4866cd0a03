/// Elements picked by indices, and the sums of what was picked.
///
///     y[i...] = x[i... with index[i...] in place of i_dim],
///     dx[j...] = sum of dy[i...] over the i that picked j
///
/// Forward: memory-bound, a thread an element, neighbouring threads neighbouring elements of y. An
/// index is compared before anything is read by it; the first thread to find a wrong one writes the
/// device's record (fault.h), and its element is 0.
///
/// Gradient: a block has a tile of dx to itself, as sums in shared memory, [lines
/// before][extent][lines behind], and reads all indices that may pick one of it. Where lines behind
/// share their indices, the block packs those that do, in ascending order, BLOCK at a time; else
/// each column reads its own. Threads stand in rows of `width` columns, and element j of the tile
/// belongs to row j % rows, which adds to it in ascending order of the index. So no sum has two
/// writers, and its order follows from the index alone.
///
/// Arithmetic of the gradient: f64.
#include "backends/cuda/device/fault.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "backends/cuda/primitives/algorithm.cuh"
#include "ops/gather.h"

using namespace talc;

namespace /* other kernels have types of the same names */
{

const char *const names[] = { "gather", "index_select", "one_hot" };

// ---- Forward ------------------------------------------------------------------------------------

/* y is contiguous: element i is element i. */
template <typename T, typename Index>
__global__ void __launch_bounds__(BLOCK)
    pick(T *y, const T *x, const int64_t *index, Index count, int64_t extent, int64_t x_stride,
         const strided_index<2, Index> positions, talc_cuda_fault *fault, const char *op,
         bool by_index)
{
    TALC_GRID_LOOP(Index, i, count)
    {
        int64_t at[2]; /* of x, of index */
        positions.offsets(i, at);
        const int64_t picked = index[at[1]];
        const bool exists = picked >= 0 && picked < extent;
        if (!exists)
            tell(fault, op, at[1], picked, extent, by_index);
        y[i] = exists ? x[at[0] + picked * x_stride] : (T)0;
    }
}

template <typename T>
void launch_pick(talc_device *device, const talc_gather_problem *p, const talc_gather_arguments *a,
                 talc_cuda_fault *fault)
{
    const int64_t count = count_of(p->rank, p->dims);
    with_index(count + ((int64_t)1 << 30),
               [&](auto zero) { /* a step of the grid past the end */
                                using Index = decltype(zero);
                                const strided_index<2, Index> positions(
                                    p->rank, p->dims, { p->x_strides, p->index_strides });
                                pick<T, Index><<<grid_for_threads(device, count), BLOCK, 0,
                                                 talc_cuda_stream(device)>>>(
                                    (T *)a->y, (const T *)a->x, a->index, (Index)count, p->extent,
                                    p->x_stride, positions, fault, names[p->function],
                                    p->function != TALC_ONE_HOT);
               });
}

// ---- Gradient -----------------------------------------------------------------------------------

/* Sums of a tile: 32 KiB. Loads in flight of a thread. */
constexpr int SUMS = 4096, AHEAD = 8;

struct add_plan {
    int64_t outer, inner, n, extent, x_stride, y_stride, index_stride; /* lines, and steps along */
    int width, before, along; /* a tile's columns, lines before and elements of the extent */
    int64_t tiles_before, tiles_along, tiles_behind;
    bool shared; /* the lines behind have their indices in common */
    strided_index<3, uint64_t> lines_before, lines_behind; /* in dx, dy, index */

    add_plan(const talc_device *device, const talc_gather_problem *p)
        : outer(count_of(p->along, p->dims)),
          inner(count_of(p->rank - p->along - 1, p->dims + p->along + 1)), n(p->dims[p->along]),
          extent(p->extent), x_stride(p->x_stride), y_stride(p->y_strides[p->along]),
          index_stride(p->index_strides[p->along]), shared(true),
          lines_before(p->along, p->dims, { p->x_strides, p->y_strides, p->index_strides }),
          lines_behind(p->rank - p->along - 1, p->dims + p->along + 1,
                       { p->x_strides + p->along + 1, p->y_strides + p->along + 1,
                         p->index_strides + p->along + 1 })
    {
        for (int i = p->along + 1; i < p->rank; i++)
            shared = shared && p->index_strides[i] == 0;
        width = 1;
        while (width < WARP && width < inner)
            width *= 2;
        /* Small tiles where large ones would leave the GPU empty: each reads the indices, so never
         * more than it takes. */
        const int64_t blocks = (int64_t)talc_cuda_state_of(device)->multiprocessors * 4;
        const int64_t across = talc_ceil_div(inner, width);
        const int64_t wanted = talc_ceil_div(outer * extent * across, blocks);
        const int64_t max = talc_smaller(SUMS / width, talc_larger(1, wanted));
        along = (int)talc_smaller(extent, max);
        before = along == extent ? (int)talc_smaller(outer, talc_larger(1, max / extent)) : 1;
        tiles_before = talc_ceil_div(outer, before);
        tiles_along = talc_ceil_div(extent, along);
        tiles_behind = across;
    }
    int64_t tiles() const
    {
        return tiles_before * tiles_along * tiles_behind;
    }
};

/* Adds entry(k) for k of 0 .. count - 1 to this thread's sums; entry gives where in the tile it
 * belongs, negative for nowhere, and sets its place in dy. */
template <typename T, typename Entry>
__device__ void add_entries(double *sums, const T *dy, int count, int rows, int row, int width,
                            int column, Entry entry)
{
    for (int k = 0; k < count; k += AHEAD) {
        int to[AHEAD];
        double held[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int64_t from = 0;
            to[j] = k + j < count ? entry(k + j, from) : -1;
            to[j] = to[j] >= 0 && to[j] % rows == row ? to[j] : -1;
            held[j] = to[j] >= 0 ? (double)dy[from] : 0;
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (to[j] >= 0)
                sums[to[j] * width + column] += held[j];
    }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    add_up(T *dx, const T *dy, const int64_t *index, const add_plan plan)
{
    __shared__ double sums[SUMS];
    __shared__ int packed_to[BLOCK], packed_in_warp[BLOCK / WARP];
    __shared__ int64_t packed_from[BLOCK];
    const int rows = BLOCK / plan.width, row = threadIdx.x / plan.width;
    const int column = threadIdx.x % plan.width;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int64_t tiles = plan.tiles_before * plan.tiles_along * plan.tiles_behind;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t rest = tile / plan.tiles_behind;
        const int64_t first_column = (tile - rest * plan.tiles_behind) * plan.width;
        const int64_t first_line = rest / plan.tiles_along * plan.before;
        const int64_t first = rest % plan.tiles_along * plan.along;
        const int before =
            (int)(plan.outer - first_line < plan.before ? plan.outer - first_line : plan.before);
        const int along =
            (int)(plan.extent - first < plan.along ? plan.extent - first : plan.along);
        const bool real = first_column + column < plan.inner;
        int64_t behind[3] = { 0, 0, 0 }; /* in dx, dy, index */
        plan.lines_behind.offsets((uint64_t)(real ? first_column + column : 0), behind);
        const int64_t entries = before * plan.n;
        /* Where in the tile entry e belongs, and where its dy stands, without the column's part. */
        const auto find = [&](int64_t e, int64_t index_column, int64_t &from) {
            const int64_t line = e / plan.n, i = e - line * plan.n;
            int64_t at[3];
            plan.lines_before.offsets((uint64_t)(first_line + line), at);
            const int64_t picked = index[at[2] + i * plan.index_stride + index_column] - first;
            from = at[1] + i * plan.y_stride;
            return picked >= 0 && picked < along ? (int)(line * along + picked) : -1;
        };

        for (int j = threadIdx.x; j < before * along * plan.width; j += BLOCK)
            sums[j] = 0;
        __syncthreads();
        for (int64_t e = 0; e < entries; e += BLOCK) {
            const int chunk = (int)(entries - e < BLOCK ? entries - e : BLOCK);
            if (plan.shared) {
                int64_t from = 0;
                const int to = (int)threadIdx.x < chunk ? find(e + threadIdx.x, 0, from) : -1;
                const unsigned found = __ballot_sync(~0u, to >= 0);
                if (lane == 0)
                    packed_in_warp[warp] = __popc(found);
                __syncthreads();
                int slot = __popc(found & ((1u << lane) - 1)), count = 0;
                for (int w = 0; w < BLOCK / WARP; w++) {
                    slot += w < warp ? packed_in_warp[w] : 0;
                    count += packed_in_warp[w];
                }
                if (to >= 0) {
                    packed_to[slot] = to;
                    packed_from[slot] = from;
                }
                __syncthreads();
                if (real)
                    add_entries(sums, dy + behind[1], count, rows, row, plan.width, column,
                                [&](int k, int64_t &at) {
                                    at = packed_from[k];
                                    return packed_to[k];
                                });
                __syncthreads(); /* the next entries take their place */
            } else if (real) {
                add_entries(sums, dy + behind[1], chunk, rows, row, plan.width, column,
                            [&](int k, int64_t &at) { return find(e + k, behind[2], at); });
            }
        }
        __syncthreads();
        for (int j = row; real && j < before * along; j += rows) {
            const int line = j / along;
            int64_t at[3];
            plan.lines_before.offsets((uint64_t)(first_line + line), at);
            dx[at[0] + behind[0] + (first + j - line * along) * plan.x_stride] =
                (T)sums[j * plan.width + column];
        }
        __syncthreads(); /* the next tile takes their place */
    }
}

template <typename T>
talc_status launch_gradient(talc_device *device, const talc_gather_problem *p,
                            const talc_gather_arguments *a)
{
    const add_plan plan(device, p);
    const cudaStream_t stream = talc_cuda_stream(device);
    if (plan.outer * plan.extent * plan.inner != p->x_count) { /* an index smaller than x */
        const cudaError_t error = cudaMemsetAsync(a->dx, 0, (size_t)p->x_count * sizeof(T), stream);
        if (error != cudaSuccess)
            return talc_cuda_status(device, names[p->function], error);
    }
    add_up<T><<<grid_for_blocks(device, plan.tiles()), BLOCK, 0, stream>>>(
        (T *)a->dx, (const T *)a->dy, a->index, plan);
    return talc_cuda_launched(device, names[p->function]);
}

} // namespace

// ---- The algorithm ------------------------------------------------------------------------------

static const char *plan_gather(const talc_device *, const talc_gather_problem *p, size_t,
                               talc_plan *)
{
    const bool sums = p->direction == TALC_GRAD_INPUT && !talc_dtype_is_float(p->dtype);
    return sums ? "gradients are f32 or f64" : NULL;
}

static talc_status run_gather(talc_device *device, const talc_gather_problem *p, const talc_plan *,
                              const talc_gather_arguments *a)
{
    const char *const op = names[p->function];
    if (p->direction == TALC_GRAD_INPUT)
        return with_float(p->dtype, [&](auto element) {
            return launch_gradient<typename decltype(element)::type>(device, p, a);
        });
    talc_cuda_fault *fault = talc_cuda_fault_of(device, op);
    if (fault == NULL)
        return TALC_NO_MEMORY; /* whose failure stands */
    return with_element(p->dtype, [&](auto element) {
        launch_pick<unsigned_of<typename decltype(element)::type>>(device, p, a, fault);
        return talc_cuda_launched(device, op);
    });
}

const talc_algorithm talc_cuda_gather[] = {
    talc_cuda_algorithm<plan_gather, run_gather>("direct",
                                                 { "moved; gradients in f64", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
