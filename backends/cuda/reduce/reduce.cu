/// Reductions over any dimensions of a strided array.
///
///     y[k...] = f over r... of x[k..., r...]
///
/// Where the reduced dimensions are the denser ones in memory, 4 to 256 neighbouring threads share
/// an output and read along it, 16 bytes at a time where they can. Elsewhere neighbouring threads
/// have neighbouring outputs, 16 bytes of them where they can, and read across them; rows of
/// threads share the reduced elements. Short rows (short_rows.cuh) and planes that are not whole
/// vectors (planes.cuh) go through shared memory. In each case a tree of fixed shape combines the
/// threads' partial results.
///
///   parts  Long reductions of few outputs are split into parts, one a block; a second kernel
///          combines the partial results of each output. The split depends on the problem alone.
///   whole  One kernel: no part, no workspace.
///
/// Memory-bound, as long as finding the next element takes few instructions: a thread moves on by
/// additions alone.
///
/// Arithmetic: sums of floating point in f64, after sums of four f32 elements; integers wrap around
/// in 64 bits. Variances in f64, exponentials in the data's type.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/reduce/plan.cuh"
#include "backends/cuda/reduce/short_rows.cuh"

using namespace talc;

namespace /* other kernels have types of the same names */
{

// ---- Places -------------------------------------------------------------------------------------

/* A thread's place in a reduction: a step in a row, which is the innermost reduced dimension. */
struct cursor {
    int64_t offset, row, step;
};

/* The offsets in x of outputs and of the steps of their reductions. In one of the two an entry is a
 * vector of COUNT elements. */
struct reduce_offsets {
    int64_t outputs, steps, part; /* part: in steps */
    int64_t length, stride;       /* of a row: steps, and elements from one to the next */
    /* What a thread moves on by: rows and steps, elements in x; and elements from the end of a row
     * to the next one. */
    int64_t stride_rows, stride_steps, stride_offset, wrap;
    bool deep; /* more than one dimension of rows */
    strided_index<1, uint64_t> kept, rows;

    /* `dims` and `strides` of steps; a thread takes every thread_stride of them. */
    reduce_offsets(const reduce_tiling &c, int64_t thread_stride, int kept_rank,
                   const int64_t *kept_dims, const int64_t *kept_strides, int rank,
                   const int64_t *dims, const int64_t *strides)
        : outputs(count_of(kept_rank, kept_dims)), steps(count_of(rank, dims)), part(c.part),
          length(rank > 1 ? dims[rank - 1] : INT64_MAX), stride(rank > 0 ? strides[rank - 1] : 0),
          stride_rows(thread_stride / length), stride_steps(thread_stride % length), deep(rank > 2),
          kept(kept_rank, kept_dims, { kept_strides }),
          rows(rank > 1 ? rank - 1 : 0, dims, { strides })
    {
        const int64_t row_stride = rank > 1 ? strides[rank - 2] : 0;
        stride_offset = stride_rows * row_stride + stride_steps * stride;
        wrap = rank > 1 ? row_stride - length * stride : 0;
    }
    __device__ int64_t of_output(int64_t output) const
    {
        return talc::offset_of(kept, output);
    }
    /* A loop, as kernels have this once for each access in flight and seldom come here. */
    __device__ int64_t offset_of(int64_t row, int64_t step) const
    {
        int64_t at = step * stride;
        uint64_t index = (uint64_t)row;
#pragma unroll 1
        for (int i = rows.rank - 1; i >= 0; i--) {
            const uint64_t rest = i == 0 ? 0 : rows.dims[i].quotient(index);
            at += (int64_t)(index - rest * rows.dims[i].by) * rows.strides[0][i];
            index = rest;
        }
        return at;
    }
    __device__ cursor begin(int64_t step) const
    {
        const int64_t row = step < length ? 0 : step / length;
        return { offset_of(row, step - row * length), row, step - row * length };
    }
    __device__ void advance(cursor &here) const
    {
        here.offset += stride_offset;
        if (length == INT64_MAX) /* a single row */
            return;
        here.step += stride_steps;
        here.row += stride_rows;
        if (here.step >= length) {
            here.step -= length;
            here.offset += wrap;
            here.row++;
        }
        if (deep)
            here.offset = offset_of(here.row, here.step);
    }
    /* How many steps from `begin` on, every `thread_stride`, are of this block's part: few enough
     * to count in 32 bits. */
    __device__ int count(int64_t begin, int thread_stride) const
    {
        const int64_t part_end = (blockIdx.y + 1) * part, end = part_end < steps ? part_end : steps;
        return begin < end ? (int)((end - begin - 1) / thread_stride) + 1 : 0;
    }
};

// ---- Kernels ------------------------------------------------------------------------------------

/* Elements of the widest vector. Integers of all types have one kernel along and one across. */
template <typename T>
constexpr int VECTOR_ELEMENTS = std::is_floating_point_v<T> ? VECTOR_WIDTH<T> : 1;

/* Accesses that a thread has in flight, along and across; those of 16 bytes make 64. But for single
 * f32 the code is kept short. */
template <typename T, int COUNT>
constexpr int IN_FLIGHT = COUNT == 1 && std::is_same_v<T, float> ? 8 : 4;
template <typename T, int COUNT> constexpr int IN_FLIGHT_ACROSS = IN_FLIGHT<T, COUNT> == 8 ? 16 : 4;

/* Adds a batch of vectors, those from `i` on of `count`, element by element to as many states: four
 * at a time, as far as they go. */
template <typename State, typename Counted, typename T, int COUNT, int BATCH>
static __device__ __forceinline__ void add_fours(const target<State> &to, Counted *seen,
                                                 const vec<T, COUNT> (&values)[BATCH], int i,
                                                 int count)
{
    constexpr int FOUR = 4;
#pragma unroll
    for (int k = 0; k < BATCH; k += FOUR) {
        if (i + k + FOUR <= count) {
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                vec<T, FOUR> down;
#pragma unroll
                for (int f = 0; f < FOUR; f++)
                    down.of[f] = values[k + f].of[e];
                seen[e].add(to.ordered(down), i + k, 1);
            }
        } else {
#pragma unroll
            for (int f = 0; f < FOUR - 1; f++)
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    if (i + k + f < count)
                        seen[e].add(to.ordered(vec<T, 1>{ { values[k + f].of[e] } }), i + k + f, 1);
        }
    }
}

/* Single elements take many loads in flight across; places, which take many registers too, need
 * four blocks side by side besides. With 0 the compiler weighs registers against blocks, with 1 it
 * takes all it can use. */
template <typename State, int COUNT, bool ACROSS>
constexpr int BLOCKS = sizeof(State) > 8 && COUNT == 1 && ACROSS ? 4 : 0;

/* Threads that share an output, or COUNT of them, are `side` neighbours along, and the rows of a
 * block `side` wide across. */
template <typename State, typename T, int COUNT, bool ACROSS>
static __global__ void __launch_bounds__(BLOCK, BLOCKS<State, COUNT, ACROSS>)
    reduce_vectors(const target<State> to, const source<T> x, int side, const reduce_offsets at)
{
    constexpr int BATCH = ACROSS ? IN_FLIGHT_ACROSS<T, COUNT> : IN_FLIGHT<T, COUNT>;
    constexpr int STATES = ACROSS ? COUNT : 1;
    __shared__ State shared[ACROSS ? BLOCK * COUNT : BLOCK / WARP];
    const int group = threadIdx.x / side, neighbour = threadIdx.x % side, groups = BLOCK / side;
    const int threads = ACROSS ? groups : side, thread = ACROSS ? group : neighbour;
    const int outputs = ACROSS ? side : groups, own = ACROSS ? neighbour : group;
    const int64_t begin = blockIdx.y * at.part + thread;
    const int count = at.count(begin, threads);
    const cursor from = at.begin(begin);
    for (int64_t first = (int64_t)blockIdx.x * outputs; first < at.outputs;
         first += (int64_t)gridDim.x * outputs) {
        const bool real = first + own < at.outputs;
        const int64_t output = real ? first + own : first;
        const source<T> x_output = x + at.of_output(output);
        cursor here = from;
        typename State::counted seen[STATES];
        for (int i = 0; i < count; i += BATCH) {
            vec<T, COUNT> values[BATCH];
            x_output.load(values, count - i, [&] {
                const int64_t offset = here.offset;
                at.advance(here);
                return offset;
            });
            if constexpr (STATES == COUNT)
                add_fours(to, seen, values, i, count);
            else
#pragma unroll
                for (int k = 0; k < BATCH; k++)
                    if (i + k < count)
                        seen[0].add(to.ordered(values[k]), (i + k) * COUNT, 1);
        }
        State state[STATES];
#pragma unroll
        for (int e = 0; e < STATES; e++)
            state[e] = State(seen[e], [&](int k) {
                constexpr int EACH = COUNT / STATES; /* elements of a vector that a state has */
                return (begin + (int64_t)(k / EACH) * threads) * EACH + k % EACH;
            });
        if constexpr (ACROSS)
            join_rows(state, side, shared);
        else
            state[0] = join_group(state[0], threads, shared);
#pragma unroll
        for (int e = 0; e < STATES; e++)
            if (real && thread == 0)
                to.write(output * STATES + e, state[e]);
    }
}

/* Parts that a thread loads at a time: of long states, which take long to join, few. */
template <typename State> constexpr int JOINED = sizeof(State) < 16 ? 8 : 2;

template <typename State>
static __global__ void __launch_bounds__(BLOCK)
    join_parts(const target<State> to, const State *partials, int width, int64_t parts)
{
    __shared__ State shared[BLOCK];
    const int rows = BLOCK / width, row = threadIdx.x / width, column = threadIdx.x % width;
    for (int64_t first = (int64_t)blockIdx.x * width; first < to.outputs;
         first += (int64_t)gridDim.x * width) {
        const bool real = first + column < to.outputs;
        const int64_t output = real ? first + column : first;
        State state[1];
#pragma unroll(JOINED <State>)
        for (int64_t part = row; part < parts; part += rows)
            state[0].join(partials[part * to.outputs + output]);
        join_rows(state, width, shared);
        if (real && row == 0)
            to.write(output, state[0]);
    }
}

// ---- Launches -----------------------------------------------------------------------------------

/* Dimensions of which the innermost is counted in vectors of `count` elements. */
struct packing {
    int64_t count, dims[TALC_MAX_RANK], strides[TALC_MAX_RANK];

    /* One element an access where the innermost does not consist of whole aligned ones, wherever
     * the others stand. */
    packing(int64_t max, const void *x, int rank, const int64_t *dims_, const int64_t *strides_,
            int others, const int64_t *other_strides)
        : count(max), dims(), strides()
    {
        const int last = rank - 1;
        if (last < 0 || strides_[last] != 1 || dims_[last] % max != 0 || !is_aligned(x))
            count = 1;
        for (int i = 0; i < last; i++)
            count = strides_[i] % max == 0 ? count : 1;
        for (int i = 0; i < others; i++)
            count = other_strides[i] % max == 0 ? count : 1;
        for (int i = 0; i < rank; i++) {
            dims[i] = i == last ? dims_[i] / count : dims_[i];
            strides[i] = i == last ? strides_[i] * count : strides_[i];
        }
    }
};

template <typename State, typename T, bool ACROSS>
static void launch_vectors(talc_device *device, const talc_reduce_problem *p, reduce_tiling c,
                           const target<State> &to, const source<T> &x)
{
    constexpr int COUNT = VECTOR_ELEMENTS<T>;
    const int side = ACROSS ? c.width : c.threads, others = BLOCK / side;
    const packing kept(ACROSS ? COUNT : 1, x.at, p->kept_rank, p->kept_dims, p->kept_strides,
                       p->reduced_rank, p->reduced_strides);
    const packing reduced(ACROSS ? 1 : COUNT, x.at, p->reduced_rank, p->reduced_dims,
                          p->reduced_strides, p->kept_rank, p->kept_strides);
    c.part /= reduced.count;
    const reduce_offsets at(c, ACROSS ? others : side, p->kept_rank, kept.dims, kept.strides,
                            p->reduced_rank, reduced.dims, reduced.strides);
    const auto kernel = kept.count * reduced.count > 1 ? reduce_vectors<State, T, COUNT, ACROSS>
                                                       : reduce_vectors<State, T, 1, ACROSS>;
    const dim3 grid(grid_for_blocks(device, talc_ceil_div(at.outputs, ACROSS ? side : others)),
                    (unsigned)c.parts);
    kernel<<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(to, x, side, at);
}

/* Of reduce_planes. */
template <typename State> struct plane_reduction {
    using state = State;
    struct start {
    };
    target<State> to;

    template <typename T> __device__ start begin(const T *, int64_t, int64_t, int64_t) const
    {
        return {};
    }
    template <typename Values>
    __device__ void add(State &of, start, const Values &values, int64_t k, int step) const
    {
        of.add(to.ordered(values), k, step);
    }
    __device__ void write(int64_t c, start, const State &of) const
    {
        to.write(c, of);
    }
};

template <typename State, typename T>
static void launch_parts(talc_device *device, const talc_reduce_problem *p, const target<State> &to,
                         const source<T> &x, bool in_parts)
{
    const reduce_tiling c = tiling_of(p, in_parts);
    if constexpr (std::is_same_v<T, float>) {
        if (has_odd_planes(p)) {
            launch_planes(device, plane_reduction<State>{ to }, x.at, planes_of(p, in_parts));
            return;
        }
        const short_rows s(p, x.at);
        if (c.parts == 1 && s.serves) {
            launch_short(device, to, x.at, s);
            return;
        }
    }
    if (c.across)
        launch_vectors<State, T, true>(device, p, c, to, x);
    else
        launch_vectors<State, T, false>(device, p, c, to, x);
}

static source<int64_t> source_of(const talc_reduce_problem *p, const int64_t *x)
{
    return { x, p->dtype, 0 };
}
template <typename T> static source<T> source_of(const talc_reduce_problem *, const T *x)
{
    return { x };
}

template <typename State, typename T>
static void launch(talc_device *device, const talc_reduce_problem *p,
                   const talc_reduce_arguments *a, bool in_parts)
{
    const bool smallest = p->function == TALC_MIN || p->function == TALC_ARGMIN;
    const int64_t parts = parts_of(p, in_parts);
    target<State> to = { (typename State::result_type *)a->y,
                         parts > 1 ? (State *)a->base.workspace : NULL,
                         p->outputs,
                         talc_reduce_divisor(p),
                         order<T>(smallest),
                         p->dtype };
    launch_parts(device, p, to, source_of(p, (const T *)a->x), in_parts);
    if (parts == 1)
        return;
    int width = 1; /* of outputs that are side by side; more rows join more parts at a time */
    while (width < 8 && width < p->outputs)
        width *= 2;
    to.partials = NULL;
    join_parts<State>
        <<<grid_for_blocks(device, talc_ceil_div(p->outputs, width)), BLOCK, 0,
           talc_cuda_stream(device)>>>(to, (const State *)a->base.workspace, width, parts);
}

template <typename T>
static void reduce(talc_device *device, const talc_reduce_problem *p,
                   const talc_reduce_arguments *a, bool in_parts)
{
    if constexpr (std::is_floating_point_v<T>) {
        if (p->function == TALC_VAR)
            return launch<moments<T>, T>(device, p, a, in_parts);
        if (p->function == TALC_LOGSUMEXP)
            return launch<exponentials<T>, T>(device, p, a, in_parts);
    }
    if (p->function == TALC_MAX || p->function == TALC_MIN)
        launch<maximum<T>, T>(device, p, a, in_parts);
    else if (p->function == TALC_ARGMAX || p->function == TALC_ARGMIN)
        launch<argument_of_max<T>, T>(device, p, a, in_parts);
    else
        launch<total<T>, T>(device, p, a, in_parts);
}

} // namespace

// ---- The algorithms -----------------------------------------------------------------------------

static const char *plan_parts(const talc_device *, const talc_reduce_problem *p, size_t,
                              talc_plan *plan)
{
    const int64_t parts = parts_of(p, true);
    if (parts > 1)
        plan->workspace = (size_t)parts * (size_t)p->outputs * sizeof(moments<double>);
    return NULL;
}

template <bool PARTS>
static talc_status run(talc_device *device, const talc_reduce_problem *p, const talc_plan *,
                       const talc_reduce_arguments *arguments)
{
    return with_element(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        reduce<std::conditional_t<std::is_floating_point_v<T>, T, int64_t>>(device, p, arguments,
                                                                            PARTS);
        return talc_cuda_launched(device, "reduce");
    });
}

const talc_algorithm talc_cuda_reduce[] = {
    talc_cuda_algorithm<plan_parts, run<true>>(
        "parts", { "f64 accumulation, f32 in sums of four", TALC_STRICT, false }),
    talc_cuda_algorithm<talc_plan_any, run<false>>(
        "whole", { "f64 accumulation, f32 in sums of four", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
