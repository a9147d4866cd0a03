/// Padding and upsampling: outputs that show one element of x, or mix neighbours of it.
///
///     y[o...] = sum of weight * x[i...] over the taps of ops/resample_axis.h, along each dimension
///
/// Memory-bound. A thread has one element of y at a time, and in the input gradient one of dx, for
/// which it adds up the elements of dy that show it, in order: no atomics. Elements that are shown
/// alone are moved as unsigned integers of their size: one kernel a size and width of index. A
/// weight of 0 is no product: an infinity beside the element that is shown stays out.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "ops/resample_axis.h"

#include <type_traits>

using namespace talc;

/* The axes, and division by the extents of what a thread has an element of. */
template <typename Index> struct plan_of {
    int rank;
    talc_resample_axis axes[TALC_MAX_RANK];
    divisor<Index> extents[TALC_MAX_RANK];

    explicit plan_of(const talc_resample_problem *p) : rank(p->rank)
    {
        for (int i = 0; i < rank; i++) {
            axes[i] = p->axes[i];
            extents[i].set(p->direction == TALC_FORWARD ? p->axes[i].out : p->axes[i].in);
        }
    }

    /* The coordinate along axis i, and what is left of the index for those before. */
    __device__ int64_t digit(int i, Index &index) const
    {
        const Index rest = i == 0 ? 0 : extents[i].quotient(index);
        const int64_t digit = (int64_t)(index - rest * extents[i].by);
        index = rest;
        return digit;
    }
};

/* Of loops over dimensions: of wide indices the code is kept short. */
template <typename Index> constexpr int UNROLL = sizeof(Index) == 4 ? TALC_MAX_RANK : 1;

template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    move(T *y, const T *x, const T *value, Index count, const plan_of<Index> plan)
{
    TALC_GRID_LOOP(Index, o, count)
    {
        Index rest = o;
        int64_t at = 0, stride = 1;
        bool shown = true;
#pragma unroll(UNROLL <Index>)
        for (int i = TALC_MAX_RANK - 1; i >= 0; i--) {
            if (i >= plan.rank)
                continue;
            const int64_t along = talc_resample_source(&plan.axes[i], plan.digit(i, rest));
            shown = shown && along >= 0;
            at += along * stride;
            stride *= plan.axes[i].in;
        }
        y[o] = shown ? x[at] : value == NULL ? (T)0 : *value;
    }
}

/* What two neighbours give. */
template <typename T> static __device__ T mean(T a, T b, double weight)
{
    return weight == 0 ? a : (T)(1 - weight) * a + (T)weight * b;
}

/* Along the last axis, then along whichever other is linear. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    mix(T *y, const T *x, Index count, const plan_of<Index> plan)
{
    TALC_GRID_LOOP(Index, o, count)
    {
        Index rest = o;
        int64_t first = 0, second = 0, stride = 1;
        double weight = 0;
        talc_resample_taps last = { 0, 0, 0 };
#pragma unroll(UNROLL <Index>)
        for (int i = TALC_MAX_RANK - 1; i >= 0; i--) {
            if (i >= plan.rank)
                continue;
            const talc_resample_taps taps =
                talc_resample_linear_of(&plan.axes[i], plan.digit(i, rest));
            if (i == plan.rank - 1) {
                last = taps;
            } else {
                first += taps.at * stride;
                second += taps.next * stride;
                if (taps.weight != 0)
                    weight = taps.weight;
            }
            stride *= plan.axes[i].in;
        }
        const T *above = x + first, *below = x + second;
        const T mixed = mean(above[last.at], above[last.next], last.weight);
        y[o] = weight == 0
                   ? mixed
                   : mean(mixed, mean(below[last.at], below[last.next], last.weight), weight);
    }
}

/* Sums are in f64, and so one kernel is for all types. */
static __global__ void __launch_bounds__(BLOCK)
    give(void *dx, const void *dy, talc_dtype dtype, uint64_t count, const plan_of<uint64_t> plan)
{
    TALC_GRID_LOOP(uint64_t, element, count)
    {
        uint64_t rest = element;
        int64_t index[TALC_MAX_RANK], combinations = 1;
        talc_resample_readers readers[TALC_MAX_RANK];
#pragma unroll
        for (int i = TALC_MAX_RANK - 1; i >= 0; i--) {
            if (i >= plan.rank)
                continue;
            index[i] = plan.digit(i, rest);
            readers[i] = talc_resample_readers_of(&plan.axes[i], index[i]);
            combinations *= talc_resample_reader_count(&readers[i]);
        }
        double sum = 0;
        for (int64_t k = 0; k < combinations; k++) {
            int64_t which = k, at = 0, stride = 1;
            double weight = 1;
#pragma unroll
            for (int i = TALC_MAX_RANK - 1; i >= 0; i--) {
                if (i >= plan.rank)
                    continue;
                const int64_t readers_here = talc_resample_reader_count(&readers[i]);
                int64_t o = readers[i].lo;
                if (readers_here > 1) {
                    o = talc_resample_reader(&readers[i], which % readers_here);
                    which /= readers_here;
                } else if (readers[i].extras == 1) {
                    o = readers[i].extra[0];
                }
                if (plan.axes[i].kind != TALC_RESAMPLE_PAD)
                    weight *= talc_resample_weight(&plan.axes[i], o, index[i]);
                at += o * stride;
                stride *= plan.axes[i].out;
            }
            if (weight != 0)
                sum += weight * load_as<double>(dy, dtype, at);
        }
        store_as<double>(dx, dtype, element, sum);
    }
}

/* Cubic axes: the last two, of planes that show what they have. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    mix_cubic(T *y, const T *x, Index count, const plan_of<Index> plan)
{
    const talc_resample_axis &h = plan.axes[plan.rank - 2], &w = plan.axes[plan.rank - 1];
    TALC_GRID_LOOP(Index, o, count)
    {
        Index plane = o;
        const talc_resample_cubic across =
            talc_resample_cubic_of(&w, plan.digit(plan.rank - 1, plane));
        const talc_resample_cubic down =
            talc_resample_cubic_of(&h, plan.digit(plan.rank - 2, plane));
        const T *image = x + (int64_t)plane * h.in * w.in;
        T sum = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const T *row = image + (down.first + k) * w.in;
            if ((T)down.weight[k] == 0)
                continue;
            T mixed = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const T weight = (T)across.weight[j];
                if (weight != 0)
                    mixed += weight * row[across.first + j];
            }
            sum += (T)down.weight[k] * mixed;
        }
        y[o] = sum;
    }
}

static __global__ void __launch_bounds__(BLOCK)
    give_cubic(void *dx, const void *dy, talc_dtype dtype, uint64_t count,
               const plan_of<uint64_t> plan)
{
    const talc_resample_axis &h = plan.axes[plan.rank - 2], &w = plan.axes[plan.rank - 1];
    TALC_GRID_LOOP(uint64_t, element, count)
    {
        uint64_t plane = element;
        const int64_t iw = plan.digit(plan.rank - 1, plane), ih = plan.digit(plan.rank - 2, plane);
        const talc_range rows = talc_resample_cubic_readers(&h, ih),
                         columns = talc_resample_cubic_readers(&w, iw);
        double sum = 0;
        for (int64_t ow = columns.lo; ow < columns.hi; ow++) {
            const double across = talc_resample_cubic_weight(&w, ow, iw);
            const int64_t column = (int64_t)plane * h.out * w.out + ow;
            for (int64_t oh = rows.lo; across != 0 && oh < rows.hi; oh++) {
                const double weight = across * talc_resample_cubic_weight(&h, oh, ih);
                if (weight != 0)
                    sum += weight * load_as<double>(dy, dtype, column + oh * w.out);
            }
        }
        store_as<double>(dx, dtype, element, sum);
    }
}

/* Of the axis that mixes the most. */
static talc_resample_kind kind_of(const talc_resample_problem *p)
{
    talc_resample_kind kind = TALC_RESAMPLE_PAD;
    for (int i = 0; i < p->rank; i++)
        kind = p->axes[i].kind > kind ? p->axes[i].kind : kind;
    return kind;
}

/* Elements that a thread has one of at a time. */
static int64_t count_of(const talc_resample_problem *p)
{
    int64_t count = 1;
    for (int i = 0; i < p->rank; i++)
        count *= p->direction == TALC_FORWARD ? p->axes[i].out : p->axes[i].in;
    return count;
}

/* Calls `launch` with a plan, how many elements there are, and the number of blocks. */
template <typename Launch>
static talc_status launched(talc_device *device, const talc_resample_problem *p, Launch launch)
{
    const int64_t count = count_of(p);
    /* Room for a step past the end, of a grid. */
    with_index(count + ((int64_t)1 << 30), [&](auto zero) {
        using Index = decltype(zero);
        launch(plan_of<Index>(p), (Index)count, grid_for_threads(device, count));
    });
    return talc_cuda_launched(device, "resample");
}

template <typename T>
static talc_status move_elements(talc_device *device, const talc_resample_problem *p,
                                 const talc_resample_arguments *arguments)
{
    return launched(device, p, [&](auto plan, auto count, unsigned grid) {
        move<T, decltype(count)><<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(
            (T *)arguments->y, (const T *)arguments->x, (const T *)arguments->value, count, plan);
    });
}

static talc_status run_resample(talc_device *device, const talc_resample_problem *p,
                                const talc_plan *, const talc_resample_arguments *arguments)
{
    const bool forward = p->direction == TALC_FORWARD;
    const talc_resample_kind kind = kind_of(p);
    if (forward && kind < TALC_RESAMPLE_LINEAR) {
        const size_t size = talc_dtype_size(p->dtype);
        return size == 1   ? move_elements<uint8_t>(device, p, arguments)
               : size == 4 ? move_elements<uint32_t>(device, p, arguments)
                           : move_elements<uint64_t>(device, p, arguments);
    }
    const cudaStream_t stream = talc_cuda_stream(device);
    const bool cubic = kind == TALC_RESAMPLE_CUBIC;
    if (!forward) {
        const uint64_t count = (uint64_t)count_of(p);
        const auto kernel = cubic ? give_cubic : give;
        kernel<<<grid_for_threads(device, (int64_t)count), BLOCK, 0, stream>>>(
            arguments->y, arguments->x, p->dtype, count, plan_of<uint64_t>(p));
        return talc_cuda_launched(device, "resample");
    }
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        return launched(device, p, [&](auto plan, auto count, unsigned grid) {
            using Index = decltype(count);
            const auto kernel = cubic ? mix_cubic<T, Index> : mix<T, Index>;
            kernel<<<grid, BLOCK, 0, stream>>>((T *)arguments->y, (const T *)arguments->x, count,
                                               plan);
        });
    });
}

static const char *plan_resample(const talc_device *, const talc_resample_problem *p, size_t,
                                 talc_plan *)
{
    if (p->direction == TALC_FORWARD && kind_of(p) < TALC_RESAMPLE_LINEAR)
        return NULL;
    return with_float(p->dtype, [](auto) { return (const char *)NULL; });
}

const talc_algorithm talc_cuda_resample[] = {
    talc_cuda_algorithm<plan_resample, run_resample>("direct",
                                                     { "the data's own type", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
