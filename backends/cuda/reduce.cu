/// Reductions over any dimensions of a strided array.
///
///     y[k...] = f over r... of x[k..., r...]
///
/// Where the reduced dimensions are the denser ones in memory, 4, 32 or 256 neighbouring threads share an output and read
/// along it, 16 bytes at a time where they can. Elsewhere neighbouring threads have neighbouring outputs and read across
/// them; rows of threads share the reduced elements. Either way a tree of fixed shape joins what the threads found.
///
///   parts  Long reductions of few outputs are cut into parts, which give partial results; a second kernel joins the parts
///          of each output. The cut depends on the problem alone.
///   whole  One kernel: no part, no workspace.
///
/// Arithmetic: sums of floating point in f64, after sums of the four f32 elements of an access; integers wrap around in 64 bits.
#include "backends/cuda/group.cuh"

#include <limits>
#include <type_traits>

using namespace talc;

namespace /* other kernels have types of the same names */
{

// ---- Functions ----------------------------------------------------------------------------------------------

/* A state for one output; `add` takes elements k, k + 1, ... of the reduction, in any order; `result` is y's element. */
template <typename T> struct total {
    using sum_type = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    using result_type = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    sum_type value = 0;

    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t)
    {
        if constexpr (std::is_same_v<T, float> && COUNT == 4) {
            value += (double)((x.of[0] + x.of[1]) + (x.of[2] + x.of[3]));
        } else {
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                value +=
                    (sum_type)x.of[e]; /* signed integers, too, become what they are modulo 2^64 */
        }
    }
    __device__ void join(const total &other)
    {
        value += other.value;
    }
    __device__ result_type result(double mean_of) const
    {
        if constexpr (std::is_floating_point_v<T>)
            return (T)(mean_of > 0 ? value / mean_of : value);
        else
            return (int64_t)value;
    }
};

/* No floating point number is below it. */
template <typename T>
constexpr T LOWEST = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::lowest();

/* A type of whole words, which lanes can exchange. */
template <typename T> using word_of = std::conditional_t<sizeof(T) < 4, int32_t, T>;

/* A NaN replaces what is there, and nothing replaces a NaN. */
template <typename T> struct maximum {
    using result_type = T;
    word_of<T> value = LOWEST<T>;

    __device__ void add_one(word_of<T> x)
    {
        value = x > value || x != x ? x : value;
    }
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            add_one(x.of[e]);
    }
    __device__ void join(const maximum &other)
    {
        add_one(other.value);
    }
    __device__ result_type result(double) const
    {
        return (T)value;
    }
};

/* Where the maximum stands: the first of several. */
template <typename T> struct place {
    using result_type = int64_t;
    int64_t at = -1;
    word_of<T> value = LOWEST<T>;

    /* Elements come in ascending order within a thread. */
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t k)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            const word_of<T> next = x.of[e];
            if (at < 0 || next > value || (next != next && value == value)) {
                value = next;
                at = k + e;
            }
        }
    }
    __device__ void join(const place &other)
    {
        const bool nan = value != value, other_nan = other.value != other.value;
        const bool earlier = other.at < at;
        const bool replace = nan || other_nan
                                 ? other_nan && (!nan || earlier)
                                 : other.value > value || (other.value == value && earlier);
        if (other.at >= 0 && (at < 0 || replace))
            *this = other;
    }
    __device__ result_type result(double) const
    {
        return at;
    }
};

// ---- Plan ---------------------------------------------------------------------------------------------------

/* Blocks that keep any GPU busy, and elements that are worth a block's while. */
constexpr int64_t ENOUGH_BLOCKS = 4096, PART = 8192;

struct cut {
    bool across;
    int threads; /* along: that share an output */
    int width;   /* across: outputs side by side in a block */
    int64_t blocks;
    int64_t part, parts; /* elements of a reduction that a part covers */
};

static cut cut_of(const talc_reduce_problem *p, bool in_parts)
{
    cut c = { false, BLOCK, 1, 0, p->K, 1 };
    const int kept = p->kept_rank - 1, reduced = p->reduced_rank - 1;
    c.across = kept >= 0 && (reduced < 0 || p->kept_strides[kept] < p->reduced_strides[reduced]);
    if (c.across) {
        c.width = p->K <= 16 ? BLOCK : WARP;
        while (p->K > 16 && c.width > 4 && c.width / 2 >= p->outputs)
            c.width /= 2;
        c.blocks = pieces(p->outputs, c.width);
    } else {
        const int64_t accesses = pieces(p->K, ACCESS / (int64_t)talc_dtype_size(p->dtype));
        c.threads = accesses <= 16 ? 4 : accesses <= 1024 ? WARP : BLOCK;
        c.blocks = pieces(p->outputs, BLOCK / c.threads);
    }
    const int64_t part = PART / c.width; /* a multiple of what one access moves */
    if (in_parts && c.blocks > 0 && c.blocks <= ENOUGH_BLOCKS / 2 && p->K >= 2 * part &&
        (c.across || c.threads == BLOCK)) {
        const int64_t parts = ENOUGH_BLOCKS / c.blocks;
        c.part = pieces(pieces(p->K, parts), part) * part;
        c.parts = pieces(p->K, c.part);
    }
    return c;
}

/* Where the results go: y, or [parts][outputs] states. */
template <typename State> struct target {
    typename State::result_type *y;
    State *partials; /* NULL: y */
    double mean_of;  /* K for means, else 0 */

    __device__ void write(int64_t output, int64_t outputs, const State &state) const
    {
        if (partials != NULL)
            partials[blockIdx.y * outputs + output] = state;
        else
            y[output] = state.result(mean_of);
    }
};

/* Offsets of outputs and, COUNT elements at a time, of what is reduced. */
template <typename Index> struct places {
    int64_t outputs, K, part;
    int64_t step; /* between accesses where the reduced dimensions walk as one; */
    bool single;  /* whether they do */
    walk<1, Index> kept, reduced;

    places(const talc_reduce_problem *p, const cut &c, const int64_t *dims, const int64_t *strides)
        : outputs(p->outputs), K(p->K), part(c.part),
          step(p->reduced_rank == 0 ? 0 : strides[p->reduced_rank - 1]),
          single(p->reduced_rank <= 1), kept(p->kept_rank, p->kept_dims, { p->kept_strides }),
          reduced(p->reduced_rank, dims, { strides })
    {
    }
    __device__ int64_t of_output(int64_t output) const
    {
        int64_t at[1];
        kept.offsets((Index)output, at);
        return at[0];
    }
    __device__ int64_t of_access(int64_t access) const
    {
        if (single)
            return access * step;
        int64_t at[1];
        reduced.offsets((Index)access, at);
        return at[0];
    }
};

// ---- Kernels ------------------------------------------------------------------------------------------------

template <typename State, typename T, int COUNT, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    reduce_along(const target<State> to, const T *x, int threads, const places<Index> at)
{
    constexpr int IN_FLIGHT = COUNT > 1 ? 4 : 8;
    __shared__ State shared[BLOCK / WARP];
    const int groups = BLOCK / threads, group = threadIdx.x / threads;
    const int thread = threadIdx.x % threads;
    const int64_t begin = blockIdx.y * at.part, part_end = begin + at.part;
    const int64_t end = (part_end < at.K ? part_end : at.K) / COUNT; /* COUNT divides all three */
    for (int64_t first = (int64_t)blockIdx.x * groups; first < at.outputs;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < at.outputs;
        const int64_t output = real ? first + group : first;
        const T *x_output = x + at.of_output(output);
        State state;
        for (int64_t i = begin / COUNT + thread; i < end; i += threads * IN_FLIGHT) {
            vec<T, COUNT> values[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (i + k * threads < end)
                    values[k] = *(const vec<T, COUNT> *)(x_output + at.of_access(i + k * threads));
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (i + k * threads < end)
                    state.add(values[k], (i + k * threads) * COUNT);
        }
        state = join_group(state, threads, shared);
        if (real && thread == 0)
            to.write(output, at.outputs, state);
    }
}

template <typename State, typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    reduce_across(const target<State> to, const T *x, int width, const places<Index> at)
{
    constexpr int IN_FLIGHT = 8;
    __shared__ State shared[BLOCK];
    const int rows = BLOCK / width, row = threadIdx.x / width, column = threadIdx.x % width;
    const int64_t begin = blockIdx.y * at.part, part_end = begin + at.part;
    const int64_t end = part_end < at.K ? part_end : at.K;
    for (int64_t first = (int64_t)blockIdx.x * width; first < at.outputs;
         first += (int64_t)gridDim.x * width) {
        const bool real = first + column < at.outputs;
        const int64_t output = real ? first + column : first;
        const T *x_output = x + at.of_output(output);
        State state;
        for (int64_t i = begin + row; real && i < end; i += rows * IN_FLIGHT) {
            vec<T, 1> values[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (i + k * rows < end)
                    values[k].of[0] = x_output[at.of_access(i + k * rows)];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++)
                if (i + k * rows < end)
                    state.add(values[k], i + k * rows);
        }
        if (rows > 1) {
            __syncthreads(); /* the outputs before are joined */
            shared[threadIdx.x] = state;
            __syncthreads();
            for (int r = 1; row == 0 && r < rows; r++)
                state.join(shared[r * width + column]);
        }
        if (real && row == 0)
            to.write(output, at.outputs, state);
    }
}

template <typename State>
static __global__ void __launch_bounds__(BLOCK)
    join_parts(const target<State> to, const State *partials, int threads, int64_t outputs,
               int64_t parts)
{
    __shared__ State shared[BLOCK / WARP];
    const int groups = BLOCK / threads, group = threadIdx.x / threads;
    const int thread = threadIdx.x % threads;
    for (int64_t first = (int64_t)blockIdx.x * groups; first < outputs;
         first += (int64_t)gridDim.x * groups) {
        const bool real = first + group < outputs;
        const int64_t output = real ? first + group : first;
        State state;
        for (int64_t part = thread; part < parts; part += threads)
            state.join(partials[part * outputs + output]);
        state = join_group(state, threads, shared);
        if (real && thread == 0)
            to.write(output, outputs, state);
    }
}

// ---- Launches -----------------------------------------------------------------------------------------------

/* Whether the reduced elements of every output are whole aligned accesses of `count`. */
static bool is_packed(const talc_reduce_problem *p, const void *x, int64_t count)
{
    const int last = p->reduced_rank - 1;
    if (last < 0 || p->reduced_strides[last] != 1 || p->reduced_dims[last] % count != 0 ||
        !is_aligned(x))
        return false;
    bool packed = true;
    for (int i = 0; i < last; i++)
        packed &= p->reduced_strides[i] % count == 0;
    for (int i = 0; i < p->kept_rank; i++)
        packed &= p->kept_strides[i] % count == 0;
    return packed;
}

template <typename State, typename T, int COUNT, typename Index>
static void launch_along(talc_device *device, const talc_reduce_problem *p, const cut &c,
                         const target<State> &to, const T *x)
{
    int64_t dims[TALC_MAX_RANK], strides[TALC_MAX_RANK];
    for (int i = 0; i < p->reduced_rank; i++) {
        const bool last = i == p->reduced_rank - 1;
        dims[i] = last ? p->reduced_dims[i] / COUNT : p->reduced_dims[i];
        strides[i] = last ? p->reduced_strides[i] * COUNT : p->reduced_strides[i];
    }
    const dim3 grid(blocks_of(device, c.blocks), (unsigned)c.parts);
    reduce_along<State, T, COUNT, Index><<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(
        to, x, c.threads, places<Index>(p, c, dims, strides));
}

template <typename State, typename T>
static void launch(talc_device *device, const talc_reduce_problem *p,
                   const talc_reduce_arguments *a, bool in_parts)
{
    constexpr int COUNT = ACCESS / sizeof(T);
    const cut c = cut_of(p, in_parts);
    const T *x = (const T *)a->x;
    const cudaStream_t stream = talc_cuda_stream(device);
    target<State> to = { (typename State::result_type *)a->y,
                         c.parts > 1 ? (State *)a->workspace : NULL,
                         p->function == TALC_MEAN ? (double)p->K : 0 };
    const bool narrow = p->outputs <= INT_MAX && (p->reduced_rank <= 1 || p->K <= INT_MAX);
    if (c.across)
        with_index(narrow ? 0 : INT64_MAX, [&](auto zero) {
            using Index = decltype(zero);
            const dim3 grid(blocks_of(device, c.blocks), (unsigned)c.parts);
            reduce_across<State, T, Index><<<grid, BLOCK, 0, stream>>>(
                to, x, c.width, places<Index>(p, c, p->reduced_dims, p->reduced_strides));
        });
    else if (!narrow)
        launch_along<State, T, 1, uint64_t>(device, p, c, to, x);
    else if (is_packed(p, x, COUNT))
        launch_along<State, T, COUNT, uint32_t>(device, p, c, to, x);
    else
        launch_along<State, T, 1, uint32_t>(device, p, c, to, x);
    if (c.parts == 1)
        return;
    int threads = 1;
    while (threads < BLOCK && threads < c.parts)
        threads *= 2;
    to.partials = NULL;
    join_parts<State><<<blocks_of(device, pieces(p->outputs, BLOCK / threads)), BLOCK, 0, stream>>>(
        to, (const State *)a->workspace, threads, p->outputs, c.parts);
}

template <typename T>
static void reduce(talc_device *device, const talc_reduce_problem *p,
                   const talc_reduce_arguments *a, bool in_parts)
{
    if (p->function == TALC_MAX)
        launch<maximum<T>, T>(device, p, a, in_parts);
    else if (p->function == TALC_ARGMAX)
        launch<place<T>, T>(device, p, a, in_parts);
    else
        launch<total<T>, T>(device, p, a, in_parts);
}

static talc_status run(talc_device *device, const talc_reduce_problem *p,
                       const talc_reduce_arguments *arguments, bool in_parts)
{
    const talc_status status = talc_cuda_enter(device, "reduce");
    if (status != TALC_OK)
        return status;
    switch (p->dtype) {
#define CASE(constant, name, T, safetensors)                                                       \
    case constant:                                                                                 \
        reduce<T>(device, p, arguments, in_parts);                                                 \
        break;
        TALC_DTYPE_TABLE(CASE)
#undef CASE
    default:
        break;
    }
    return talc_cuda_launched(device, "reduce");
}

} // namespace

// ---- Rows ---------------------------------------------------------------------------------------------------

static const char *refuses(const talc_reduce_problem *problem)
{
    (void)problem;
    return NULL;
}

static size_t parts_workspace(const talc_reduce_problem *p)
{
    const cut c = cut_of(p, true);
    return c.parts == 1 ? 0 : (size_t)c.parts * (size_t)p->outputs * sizeof(place<double>);
}

static talc_status parts_run(talc_device *device, const talc_reduce_problem *problem,
                             const talc_reduce_arguments *arguments)
{
    return run(device, problem, arguments, true);
}

static talc_status whole_run(talc_device *device, const talc_reduce_problem *problem,
                             const talc_reduce_arguments *arguments)
{
    return run(device, problem, arguments, false);
}

const talc_reduce_algorithm talc_cuda_reduce[] = {
    { { "parts", { "f64 accumulation of sums of four", TALC_STRICT, false } },
      refuses,
      parts_workspace,
      parts_run },
    { { "whole", { "f64 accumulation of sums of four", TALC_STRICT, false } },
      refuses,
      NULL,
      whole_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL, NULL },
};
