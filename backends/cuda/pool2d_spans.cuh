/// Pooling windows that overlap, in images of any width, out of shared memory (tiles.cuh). Private to backends/cuda.
///
/// Windows of K by K, S apart. Rows of x lie as in memory. A thread marches down N neighbouring columns of y: it reads what
/// their windows hold of a row once and combines the taps of each from left to right; then, for each row of y, the last K rows:
///
///     row of x      . a b c d e f g h .        K = 3, S = 1, N = 7: abc bcd cde def efg fgh gh.
///
/// More columns share more reads. But threads should not go far beyond the end of a row, nor meet in a bank when they read
/// together: of three to seven columns those are taken that cost least. Images of networks are 7, 14, 28 and 56 wide, and threads
/// whose elements stand an odd number of words apart meet in no bank.
///
/// Where the width of y is no multiple of N, the last thread of a row begins further left and leaves to the one before what
/// is that one's. Results go through shared memory too, so that whatever the width is stores are 16 bytes wide.
#ifndef TALC_BACKENDS_CUDA_POOL2D_SPANS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_SPANS_CUH

#include "backends/cuda/pool2d_axis.cuh"
#include "backends/cuda/pool2d_row.cuh"
#include "backends/cuda/tiles.cuh"

namespace
{

using namespace talc;

constexpr int SPAN_THREADS = 128;

/* What averages of so many elements are divided by. */
template <typename T, int K> using span_table = shared_divisor<T>[K * K + 1];

/* What the averages of N neighbouring windows are divided by; all but some at either end hold whole rows of the window. */
template <typename T, int K, int N> struct span_divisors {
    static constexpr int PAD = K / 2;
    shared_divisor<T> inner, outer[2 * PAD];
    int high = 0; ///< rows of the windows

    __device__ void set(int high_, const span_table<T, K> &table, int iw, int S, int W, int pad)
    {
        high = high_;
        inner = table[high * K];
#pragma unroll
        for (int i = 0; i < 2 * PAD; i++) {
            const int v = i < PAD ? i : N - 2 * PAD + i;
            outer[i] = table[high * covered(iw + v * S, K, W, pad)];
        }
    }
    __device__ T divide_by(int v, T sum) const
    {
        return v < PAD       ? outer[v < PAD ? v : 0].divide(sum)
               : v < N - PAD ? inner.divide(sum)
                             : outer[v < N - PAD ? 0 : v - N + 2 * PAD].divide(sum);
    }
};

/* N: columns of y that a thread has. */
template <typename State, typename T, int K, int S, int N>
static __global__ void __launch_bounds__(SPAN_THREADS, State::LOCATES || sizeof(T) == 8 ? 4 : 5)
    pool_spans(const T *x, T *y, int64_t *indices, const tile_plan p, const divide average)
{
    constexpr int PAD = K / 2, KEPT = K - S;    /* rows that the next window holds too */
    constexpr int COUNT = (N - 1) * S + K;      /* columns of x that a thread reads */
    constexpr int REACH = S == 1 ? PAD : K - 1; /* of them, that may be right of the image */
    extern __shared__ __align__(LINE) unsigned char span_bytes[];
    const int above = (int)threadIdx.x / p.across, span = (int)threadIdx.x - above * p.across;
    const int plane = above / p.groups, first = (above - plane * p.groups) * p.deep;
    const int ow = min(span * N, p.OW - N), iw = ow * S - PAD, skip = span * N - ow;
    const int pad = average.exclude_padding ? 0 : PAD;
    bool inside[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        inside[i] = (i >= PAD || iw + i >= 0) && (i < COUNT - REACH || iw + i < p.W);
    span_divisors<T, K, N> sizes;
    span_table<T, K> &table = *(span_table<T, K> *)(span_bytes + p.bytes);
    if (State::AVERAGES && threadIdx.x <= K * K) /* read behind the barrier of the first unit */
        table[threadIdx.x].set(average.by > 0 ? (T)average.by : (T)max((int)threadIdx.x, 1));
    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const tile t(p, unit);
        const T *run = x + ((int64_t)t.plane * p.H + t.top) * p.W;
        T *shared = (T *)span_bytes + place_of(run);
        copy_run<SPAN_THREADS>(shared, run, t.planes * (t.bottom - t.top) * p.W);
        await_run();
        const int64_t at = ((int64_t)t.plane * p.OH + t.oh) * p.OW;
        const int count = t.planes * t.rows * p.OW;
        T *results = (T *)(span_bytes + p.results) + place_of(y + at);
        int *places = (int *)(span_bytes + p.bytes) + place_of(indices + at);
        const int mine = plane < t.planes ? min(p.deep, t.rows - first) : 0;
        int h = (t.oh + first) * S - PAD, result = (plane * t.rows + first) * p.OW + ow;
        const T *row = shared + (plane * p.H + h - t.top) * p.W + iw;
        State rows[K][N];
        const auto read = [&](State(&states)[N]) {
#pragma unroll
            for (int v = 0; v < N; v++)
                states[v] = State{};
            if ((unsigned)h < (unsigned)p.H) {
                T window[COUNT];
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    window[i] = inside[i] ? row[i] : State{}.value;
#pragma unroll
                for (int v = 0; v < N; v++) {
                    if (!State::LOCATES)
                        states[v].value = window[v * S];
#pragma unroll
                    for (int k = !State::LOCATES; k < K; k++)
                        if (!State::LOCATES || inside[v * S + k])
                            states[v].add(window[v * S + k], h * p.W + iw + v * S + k);
                }
            }
            h++, row += p.W;
        };
        if (mine > 0)
#pragma unroll
            for (int k = 0; k < KEPT; k++)
                read(rows[k]);
#pragma unroll 1
        for (int step = 0; step < mine; step += K) {
            /* The rows of output row step + u are in places u * S, u * S + 1 ... */
#pragma unroll
            for (int u = 0; u < K; u++, result += p.OW) {
                if (step + u >= mine)
                    break;
#pragma unroll
                for (int k = KEPT; k < K; k++)
                    read(rows[(u * S + k) % K]);
                if constexpr (State::AVERAGES) {
                    const int high = average.by > 0 ? K : covered(h - K, K, p.H, pad);
                    if (high != sizes.high)
                        sizes.set(high, table, iw, S, p.W, pad);
                }
#pragma unroll
                for (int v = 0; v < N; v++) {
                    State state = rows[u * S % K][v];
#pragma unroll
                    for (int k = 1; k < K; k++)
                        state.join_next(rows[(u * S + k) % K][v]);
                    if constexpr (State::AVERAGES)
                        state.value = sizes.divide_by(v, state.value);
                    if (v >= skip) {
                        results[result + v] = state.value;
                        if constexpr (State::LOCATES)
                            places[result + v] = state.at;
                    }
                }
            }
        }
        __syncthreads(); /* x is read, the results are there */
        store_run<SPAN_THREADS>(y + at, results, count, [](T value, int) { return value; });
        if constexpr (State::LOCATES)
            store_run<SPAN_THREADS>(indices + at, places, count,
                                    [](int place, int) { return (int64_t)place; });
    }
}

struct spans_row {
    static constexpr int FEWEST = 3, MOST = 7; /* columns of a thread */

    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_square(p, 3, 1) && !is_square(p, 5, 1) && !is_square(p, 3, 2))
            return "only 3x3 and 5x5 windows with stride 1, 3x3 with stride 2";
        if (p->pad_h != p->KH / 2 || p->pad_w != p->KW / 2)
            return "only with padding of half a window";
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        /* What a thread keeps leaves too few threads room, or takes too many instructions. */
        if (p->dtype == TALC_F64 &&
            (p->KH == 5 || p->stride_h == 2 || p->indices || p->exclude_padding))
            return "of f64 only values of 3x3 windows with stride 1, with padding";
        if (p->indices && (p->KH == 5 || p->OW >= 384))
            return "indices of 3x3 windows alone, and not in wide images";
        if (p->OW < fewest(p))
            return "the image is less wide than what a thread has";
        /* What an output costs at most where no other row is faster, by measurement. */
        const double most = p->stride_h == 2       ? 35
                            : p->indices           ? 17
                            : p->dtype == TALC_F64 ? 20
                                                   : 25;
        const choice cheap = choose(p, most);
        if (cheap.columns == 0)
            return "the image is wide";
        return cheap.cost > most ? "threads would meet in a bank" : NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        const int columns = choose(p, 0).columns;
        if (p->KH == 5) {
            if constexpr (!S::LOCATES && sizeof(T) == 4)
                return launch_of<S, T, 5, 1>(device, p, arguments, columns);
            return false;
        }
        if (p->stride_h == 2) {
            if constexpr (sizeof(T) == 4)
                return launch_of<S, T, 3, 2>(device, p, arguments, columns);
            return false;
        }
        if constexpr (!S::LOCATES || sizeof(T) == 4)
            return launch_of<S, T, 3, 1>(device, p, arguments, columns);
        return false;
    }

    template <typename State, typename T, int K, int S, int N = MOST>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments, int columns)
    {
        if constexpr (N > fewest(sizeof(T), State::LOCATES))
            if (columns < N)
                return launch_of<State, T, K, S, N - 1>(device, p, arguments, columns);
        tile_plan plan = uncut(p, N);
        return for_slices<T>(p, arguments, p->OH, [&](plane_slice<T> some) {
            /* Some units for each place where a block can be. */
            plan.most_planes =
                pieces(some.planes, talc_cuda_state_of(device)->multiprocessors * 16);
            if (!cut(p, some.planes, &plan))
                return false;
            const size_t beside = State::LOCATES
                                      ? plan.planes * plan.rows * plan.OW * sizeof(int) + LINE
                                  : State::AVERAGES ? sizeof(span_table<T, K>)
                                                    : 0;
            pool_spans<State, T, K, S, N><<<blocks_of(device, plan.count), SPAN_THREADS,
                                            plan.bytes + beside, talc_cuda_stream(device)>>>(
                some.x, some.y, some.indices, plan, { p->exclude_padding, p->divisor });
            return true;
        });
    }

    static tile_plan uncut(const talc_pool2d_problem *p, int columns)
    {
        /* Five blocks of a multiprocessor have room, each with a table. */
        const tile_limits limits = { (44 << 10) - 256, SPAN_THREADS, SPAN_THREADS / 2, columns, 1 };
        return tile_plan(p->H, p->W, p->OH, p->OW, (int)p->KH, (int)p->stride_h, p->pad_h, p->pad_w,
                         limits);
    }

    static bool cut(const talc_pool2d_problem *p, int64_t planes, tile_plan *plan)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype);
        return plan->cut(planes, true, MOST, size, p->indices ? size + 4 : size, 0);
    }

    /* There are kernels of few columns for what is asked for most. */
    static constexpr int fewest(size_t size, bool indices)
    {
        return size == 4 && !indices ? FEWEST : MOST;
    }
    static int fewest(const talc_pool2d_problem *p)
    {
        return fewest(talc_dtype_size(p->dtype), p->indices);
    }

    struct choice {
        int columns; /* of a thread; 0: no number of them fits */
        double cost; /* of an output */
    };

    /* The most columns of which an output costs `enough` or less; where there are none, those of which it costs least. */
    static choice choose(const talc_pool2d_problem *p, double enough)
    {
        const int size = (int)talc_dtype_size(p->dtype), OW = (int)p->OW;
        choice best = { 0, INFINITY };
        for (int N = OW < MOST ? OW : MOST; N >= fewest(p) && best.cost > enough; N--) {
            tile_plan plan = uncut(p, N);
            if (cost(plan, 1) >= best.cost || !cut(p, 1, &plan))
                continue;
            const double some = cost(plan, meeting(plan, size));
            if (some < best.cost)
                best = { N, some };
        }
        return best;
    }

    /* In instructions, about, by measurement. A row of a thread takes one for each read and two more for each thread that meets
     * there, K for each column, and 16; columns beyond the image count too. */
    static double cost(const tile_plan &plan, int meeting)
    {
        const int columns = (int)plan.limits.columns;
        const int reads = (columns - 1) * plan.stride + plan.K;
        const int row = (1 + 2 * meeting) * reads + plan.K * columns + 16;
        return (double)row * plan.across / plan.OW;
    }

    /* How many threads that read together meet in one bank, at most. */
    static int meeting(const tile_plan &plan, int size)
    {
        /* As wide as an element, as many as threads that read together. */
        const unsigned banks = 128 / size;
        const int columns = (int)plan.limits.columns, last = plan.OW - columns;
        unsigned char threads[WARP] = {};
        int most = 0, span = 0, group = 0;
        unsigned row = 0, plane = 0; /* where they begin */
        for (unsigned i = 0; i < banks; i++) {
            const int ow = span * columns < last ? span * columns : last;
            const int here = ++threads[(row + ow * plan.stride) & (banks - 1)];
            most = here > most ? here : most;
            if (++span < plan.across)
                continue;
            span = 0;
            row += plan.deep * plan.stride * plan.W;
            if (++group < plan.groups)
                continue;
            group = 0;
            row = plane += plan.H * plan.W;
        }
        return most;
    }
};

} // namespace

#endif
