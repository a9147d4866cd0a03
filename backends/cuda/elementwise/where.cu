/// One of two elements, as a third says.
///
///     y[i...] = condition[i...] != 0 ? a[i...] : b[i...]
///
/// Memory-bound. A thread has AHEAD elements in flight, a grid apart, so that accesses of a warp
/// are neighbours where the operands' elements are. Elements are moved as unsigned integers of
/// their size: one kernel a size and width of index.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "ops/compare.h"

using namespace talc;

/* Elements that a thread has in flight. */
constexpr int AHEAD = 4;

/* The operands in this order in `at`: y, condition, a, b. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    where_strided(T *y, const uint8_t *condition, const T *a, const T *b, Index count,
                  const strided_index<4, Index> positions)
{
    struct picked {
        T value;
        int64_t to;
    };
    const auto load = [&](Index i) {
        int64_t at[4];
        positions.offsets(i, at);
        return picked{ condition[at[1]] != 0 ? a[at[2]] : b[at[3]], at[0] };
    };
    for_loads<AHEAD>((Index)blockIdx.x * BLOCK + (Index)threadIdx.x, count,
                     (Index)gridDim.x * BLOCK, load,
                     [&](const picked &of, Index) { y[of.to] = of.value; });
}

template <typename T>
static void launch(talc_device *device, const talc_where_problem *p,
                   const talc_where_arguments *arguments)
{
    const int64_t count = count_of(p->rank, p->dims);
    /* Room for a step past the end, of AHEAD grids. */
    with_index(count + ((int64_t)1 << 30), [&](auto zero) {
        using Index = decltype(zero);
        const strided_index<4, Index> positions(
            p->rank, p->dims, { p->y_strides, p->condition_strides, p->a_strides, p->b_strides });
        where_strided<T, Index><<<grid_for_threads(device, talc_ceil_div(count, AHEAD)), BLOCK, 0,
                                  talc_cuda_stream(device)>>>(
            (T *)arguments->y, arguments->condition, (const T *)arguments->a,
            (const T *)arguments->b, (Index)count, positions);
    });
}

static talc_status run_where(talc_device *device, const talc_where_problem *p, const talc_plan *,
                             const talc_where_arguments *arguments)
{
    return with_element(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        static_assert(sizeof(unsigned_of<T>) == sizeof(T), "an integer of the size");
        launch<unsigned_of<T>>(device, p, arguments);
        return talc_cuda_launched(device, "where");
    });
}

const talc_algorithm talc_cuda_where[] = {
    talc_cuda_algorithm<talc_plan_any, run_where>("direct",
                                                  { "the data's own type", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
