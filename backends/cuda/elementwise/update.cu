/// Optimizer steps by the formulas of ops/update.h, in the data's own type.
///
/// Memory-bound, and one launch for up to TALC_UPDATE_TENSORS tensors, which pass as kernel
/// arguments: networks have many small ones, and a launch each would cost more than the work. A
/// block takes CHUNK elements of one tensor, of a norm TALC_UPDATE_PART; the block that is done
/// last adds the sums of all in a tree of fixed shape.
#include "backends/cuda/device/counter.h"
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "backends/cuda/primitives/launch.cuh"
#include "ops/update.h"

#include <cmath>

TALC_UPDATE_IN(float, sqrtf)
TALC_UPDATE_IN(double, sqrt)

using namespace talc;

/* Elements of a block: few, since each of a thread's waits for the one before. */
constexpr int CHUNK = 4 * BLOCK;

/* The largest power of two that is a tensor's place. */
constexpr int MAX_BELOW = 64;
static_assert(TALC_UPDATE_TENSORS > MAX_BELOW && TALC_UPDATE_TENSORS <= 2 * MAX_BELOW);

/* Overloads, so that one kernel template serves both types. */
static talc_update_float numbers_of(const talc_update_problem *p, float)
{
    return talc_update_in_float(p);
}

static talc_update_double numbers_of(const talc_update_problem *p, double)
{
    return talc_update_in_double(p);
}

static __device__ void update_element(const talc_update_float &u, float scale, float *p, float g,
                                      float *s0, float *s1, float *s2)
{
    talc_update_element_float(&u, scale, p, g, s0, s1, s2);
}

static __device__ void update_element(const talc_update_double &u, double scale, double *p,
                                      double g, double *s0, double *s1, double *s2)
{
    talc_update_element_double(&u, scale, p, g, s0, s1, s2);
}

template <typename T> struct updated {
    T *parameter;
    const T *gradient;
    T *states[TALC_UPDATE_STATES];
    int64_t numel;
    int64_t first; ///< block
};

template <typename T, typename Numbers> struct update_plan {
    Numbers numbers;
    const Numbers *given; ///< in their place; NULL: none
    const T *scale;
    int count;
    int64_t blocks;
    updated<T> tensors[TALC_UPDATE_TENSORS];
};

/* The tensor that a block is of: the last that begins there or before. */
template <typename T, typename Numbers>
static __device__ int tensor_of(const update_plan<T, Numbers> &plan, int64_t block)
{
    int t = 0;
    for (int step = MAX_BELOW; step > 0; step /= 2)
        if (t + step < plan.count && block >= plan.tensors[t + step].first)
            t += step;
    return t;
}

template <typename T> static __device__ T *at(T *array, int64_t i)
{
    return array == nullptr ? nullptr : array + i;
}

/* As many elements as a vector has. */
template <typename T> using several = vec<T, VECTOR_BYTES / (int)sizeof(T)>;

template <typename T> static __device__ bool has_vectors(const updated<T> &u)
{
    return (((uintptr_t)u.parameter | (uintptr_t)u.gradient | (uintptr_t)u.states[0] |
             (uintptr_t)u.states[1] | (uintptr_t)u.states[2]) %
            VECTOR_BYTES) == 0;
}

template <typename T, typename Numbers>
static __device__ void update_several(const updated<T> &u, const Numbers &numbers, T scale,
                                      int64_t i)
{
    using vector = several<T>;
    constexpr int COUNT = sizeof(vector) / sizeof(T);
    /* What the first step of SGD finds in its state is not read. */
    const bool reads = numbers.rule != TALC_UPDATE_SGD || !numbers.first;
    vector p = *(const vector *)(u.parameter + i), g = {}, states[TALC_UPDATE_STATES] = {};
    if (u.gradient != nullptr)
        g = *(const vector *)(u.gradient + i);
#pragma unroll
    for (int k = 0; k < TALC_UPDATE_STATES; k++)
        if (u.states[k] != nullptr && reads)
            states[k] = *(const vector *)(u.states[k] + i);
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        update_element(numbers, scale, &p.of[k], g.of[k], &states[0].of[k], &states[1].of[k],
                       &states[2].of[k]);
    *(vector *)(u.parameter + i) = p;
#pragma unroll
    for (int k = 0; k < TALC_UPDATE_STATES; k++)
        if (u.states[k] != nullptr)
            *(vector *)(u.states[k] + i) = states[k];
}

template <typename T, typename Numbers>
static __global__ void __launch_bounds__(BLOCK)
    update_tensors(const __grid_constant__ update_plan<T, Numbers> plan)
{
    constexpr int COUNT = sizeof(several<T>) / sizeof(T);
    const T scale = plan.scale == nullptr ? (T)1 : *plan.scale;
    const Numbers numbers = plan.given == nullptr ? plan.numbers : *plan.given;
    for (int64_t block = blockIdx.x; block < plan.blocks; block += gridDim.x) {
        const updated<T> &u = plan.tensors[tensor_of(plan, block)];
        int64_t lo = (block - u.first) * CHUNK;
        const int64_t hi = min(lo + CHUNK, u.numel);
        if (has_vectors(u)) {
            const int64_t end = hi - hi % COUNT;
            for (int64_t i = lo + threadIdx.x * COUNT; i < end; i += BLOCK * COUNT)
                update_several(u, numbers, scale, i);
            lo = end;
        }
        for (int64_t i = lo + threadIdx.x; i < hi; i += BLOCK)
            update_element(numbers, scale, u.parameter + i,
                           u.gradient == nullptr ? (T)0 : u.gradient[i], at(u.states[0], i),
                           at(u.states[1], i), at(u.states[2], i));
    }
}

// ---- Norms --------------------------------------------------------------------------------------

static __device__ void write_norm(double squares, float max_norm, float *y)
{
    talc_update_norm_float(squares, max_norm, y);
}

static __device__ void write_norm(double squares, double max_norm, double *y)
{
    talc_update_norm_double(squares, max_norm, y);
}

template <typename T> struct norm_target {
    double *parts; /* sums of squares; those of this launch begin at `before` */
    int64_t before;
    T max_norm;
    T *y;           /* NULL: launches follow that add to the norm */
    unsigned *done; /* blocks; 0 before the launch and after it */
};

struct square_sum {
    double value = 0;
    __device__ void join(square_sum other)
    {
        value += other.value;
    }
};

template <typename T, typename Numbers>
static __global__ void __launch_bounds__(BLOCK)
    add_squares(const __grid_constant__ update_plan<T, Numbers> plan, const norm_target<T> to)
{
    __shared__ square_sum shared[BLOCK / WARP];
    __shared__ bool last;
    for (int64_t block = blockIdx.x; block < plan.blocks; block += gridDim.x) {
        const updated<T> &u = plan.tensors[tensor_of(plan, block)];
        const int64_t lo = (block - u.first) * TALC_UPDATE_PART + threadIdx.x;
        const int64_t hi = min(lo - threadIdx.x + TALC_UPDATE_PART, u.numel);
        square_sum sum;
#pragma unroll 8
        for (int64_t i = lo; i < hi; i += BLOCK)
            sum.value += (double)u.parameter[i] * (double)u.parameter[i];
        sum = join_group(sum, BLOCK, shared);
        if (threadIdx.x == 0)
            to.parts[to.before + block] = sum.value;
    }
    if (to.y == nullptr)
        return;
    if (threadIdx.x == 0)
        last = is_last_block(to.done);
    __syncthreads();
    if (!last)
        return;
    square_sum all;
    for (int64_t i = threadIdx.x; i < to.before + plan.blocks; i += BLOCK)
        all.value += to.parts[i];
    all = join_group(all, BLOCK, shared);
    if (threadIdx.x == 0)
        write_norm(all.value, to.max_norm, to.y);
}

// ---- Launches -----------------------------------------------------------------------------------

template <typename T>
static talc_status launch(talc_device *device, const talc_update_problem *p,
                          const talc_update_arguments *a)
{
    const bool norm = p->rule == TALC_UPDATE_NORM;
    update_plan<T, decltype(numbers_of(p, T()))> plan = {};
    plan.numbers = numbers_of(p, T());
    plan.given = (const decltype(plan.numbers) *)a->numbers;
    plan.scale = (const T *)a->scale;
    plan.count = p->count;
    for (int i = 0; i < p->count; i++) {
        const auto &from = a->tensors[i];
        updated<T> &to = plan.tensors[i];
        to.parameter = (T *)from.parameter;
        to.gradient = (const T *)from.gradient;
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            to.states[k] = (T *)from.states[k];
        to.numel = p->numel[i];
        to.first = plan.blocks;
        plan.blocks += talc_ceil_div(p->numel[i], norm ? TALC_UPDATE_PART : CHUNK);
    }
    const cudaStream_t stream = talc_cuda_stream(device);
    const unsigned grid = (unsigned)(plan.blocks < (1 << 20) ? plan.blocks : 1 << 20);
    if (norm) {
        const norm_target<T> to = { a->parts, p->parts_before, (T)p->max_norm,
                                    p->last ? (T *)a->y : nullptr, talc_cuda_counter(device) };
        static_assert(sizeof plan + sizeof to <= 4096, "kernel arguments");
        add_squares<<<max(grid, 1u), BLOCK, 0, stream>>>(plan, to);
    } else if (grid > 0) {
        update_tensors<<<grid, BLOCK, 0, stream>>>(plan);
    }
    return talc_cuda_launched(device, "update");
}

static talc_status run_update(talc_device *device, const talc_update_problem *p, const talc_plan *,
                              const talc_update_arguments *a)
{
    return with_float(p->dtype, [&](auto element) {
        return launch<typename decltype(element)::type>(device, p, a);
    });
}

const talc_algorithm talc_cuda_update[] = {
    talc_cuda_algorithm<talc_plan_any, run_update>("direct",
                                                   { "the data's own type", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
