/// Pooling windows that overlap, in images of any width, out of shared memory (tiles.cuh). Private to backends/cuda.
///
/// Windows of K by K, S apart. Rows of x lie as in memory. A thread marches down N neighbouring columns of y: it reads what
/// their windows hold of a row once and combines the taps of each; then, for each row of y, the last K rows:
///
///     row of x      . a b c d e f g h .        K = 3, S = 1, N = 7: abc bcd cde def efg fgh gh.
///
/// What two neighbours come to is shared, taps in a row and rows in a column alike: five take (ab)(cd)e, where the next five take
/// (bc)(de)f and the ones after (cd)(ef)g. So a sum of 25 takes 6 to 7 additions.
///
/// More columns share more reads. But threads should not meet in a bank when they read together: of three to seven columns those
/// are taken that cost least. Images of networks are 7, 14, 28 and 56 wide, and threads whose elements stand an odd number of
/// words apart meet in no bank. Where rows are multiples of four elements, threads can have four columns and read and write whole
/// accesses. Where the width of y is no multiple of N, the first threads of a row have a column less.
///
/// Results go through shared memory too, so that whatever the width is stores are 16 bytes wide.
#ifndef TALC_BACKENDS_CUDA_POOL2D_SPANS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_SPANS_CUH

#include "backends/cuda/pool2d_axis.cuh"
#include "backends/cuda/pool2d_row.cuh"
#include "backends/cuda/tiles.cuh"

namespace
{

using namespace talc;

constexpr int SPAN_THREADS = 128;

/* Where the largest element stands, behind the first row of x that a unit needs; there is room for fewer than 2^16 elements. */
using span_place = uint16_t;

/* What averages of so many elements are divided by. */
template <typename T, int K> using span_table = shared_divisor<T>[K * K + 1];

/* What the averages of N neighbouring windows are divided by; all but some at either end hold whole rows of the window. */
template <typename T, int K, int N> struct span_divisors {
    static constexpr int PAD = K / 2;
    shared_divisor<T> inner, outer[2 * PAD];
    int high = 0; ///< rows of the windows

    __device__ void set(T size)
    {
        inner.set(size);
#pragma unroll
        for (int i = 0; i < 2 * PAD; i++)
            outer[i] = inner;
    }
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

/* What a thread reads of a row of x. What is outside the image stays padding. */
template <typename T, int K, int S, int N, bool WHOLE> struct span_window {
    static constexpr int PAD = K / 2, COUNT = (N - 1) * S + K;
    static constexpr int REACH = S == 1 ? PAD : K - 1; /* elements that may be right of the image */
    T of[COUNT];
    bool inside[COUNT];

    __device__ span_window(int iw, int W, T padding)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            inside[i] = (i >= PAD || iw + i >= 0) && (i < COUNT - REACH || iw + i < W);
            of[i] = padding;
        }
    }

    __device__ void read(const T *row)
    {
        if constexpr (WHOLE) {
            read_some<ACCESS / sizeof(T), PAD, PAD + N>(row);
            if (inside[0])
                read_some<PAD, 0, PAD>(row);
            if (inside[COUNT - 1])
                read_some<PAD, PAD + N, COUNT>(row);
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                if (inside[i])
                    of[i] = row[i];
        }
    }

    template <int V, int BEGIN, int END> __device__ void read_some(const T *row)
    {
#pragma unroll
        for (int i = BEGIN; i < END; i += V) {
            const vec<T, V> some = *(const vec<T, V> *)(row + i);
#pragma unroll
            for (int e = 0; e < V; e++)
                of[i + e] = some.of[e];
        }
    }
};

/* N values or one less, V at a time. */
template <int V, int N, typename T, typename Value>
static __device__ __forceinline__ void write_span(T *to, int count, Value value)
{
#pragma unroll
    for (int v = 0; v < N; v += V) {
        vec<T, V> some;
#pragma unroll
        for (int e = 0; e < V; e++)
            some.of[e] = value(v + e);
        if (v + V < N || count == N)
            *(vec<T, V> *)(to + v) = some;
    }
}

/* N: columns of y that a thread has. WHOLE: accesses of 16 bytes read them, and write them. */
template <typename State, typename T, int K, int S, int N, bool WHOLE>
static __global__ void __launch_bounds__(SPAN_THREADS, State::LOCATES || sizeof(T) == 8 ? 4 : 5)
    pool_spans(const T *x, T *y, int64_t *indices, const tile_plan p, const divide average,
               const bool alike)
{
    constexpr int PAD = K / 2, KEPT = K - S; /* rows that the next window holds too */
    constexpr int PERIOD = (K - 1) / S;
    using read_window = span_window<T, K, S, N, WHOLE>;
    constexpr int COUNT = read_window::COUNT; /* columns of x that a thread reads */
    extern __shared__ __align__(LINE) unsigned char span_bytes[];
    const int above = (int)threadIdx.x / p.across, span = (int)threadIdx.x - above * p.across;
    const int plane = above / p.groups, first = (above - plane * p.groups) * p.deep;
    const int few = p.across * N - p.OW; /* threads of a row, the first, that have a column less */
    const int ow = span * N - min(span, few), iw = ow * S - PAD;
    const int pad = average.exclude_padding ? 0 : PAD;
    read_window window(iw, p.W, State{}.value);
    span_divisors<T, K, N> sizes;
    if (State::AVERAGES && alike)
        sizes.set(average.by > 0 ? (T)average.by : (T)(K * K));
    constexpr int V = ACCESS / sizeof(T), BEHIND = (V - PAD % V) % V;
    /* Both are read behind the barrier of the first unit. */
    __shared__ alignas(ACCESS) T padding[BEHIND + COUNT];
    __shared__ span_table<T, K> table;
    const T *beyond = padding + BEHIND; /* a row that is outside the image */
    if (threadIdx.x < BEHIND + COUNT)
        padding[threadIdx.x] = State{}.value;
    if (State::AVERAGES && threadIdx.x <= K * K)
        table[threadIdx.x].set((T)max((int)threadIdx.x, 1));
    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const tile t(p, unit);
        const T *run = x + ((int64_t)t.plane * p.H + t.top) * p.W;
        T *shared = (T *)span_bytes + place_of(run);
        copy_run<SPAN_THREADS>(shared, run, t.planes * (t.bottom - t.top) * p.W);
        await_run();
        const int64_t at = ((int64_t)t.plane * p.OH + t.oh) * p.OW;
        const int count = t.planes * t.rows * p.OW;
        T *const results = (T *)(span_bytes + p.results) + place_of(y + at);
        span_place *const places = (span_place *)(span_bytes + p.bytes) + place_of(indices + at);
        const int mine = plane < t.planes ? min(p.deep, t.rows - first) : 0;
        int h = (t.oh + first) * S - PAD;
        const T *row = shared + (plane * p.H + h - t.top) * p.W + iw;
        T *result = results + (plane * t.rows + first) * p.OW + ow;
        span_place *place = places + (plane * t.rows + first) * p.OW + ow;
        State rows[2][N], pairs[K - 1][N];
        const auto read = [&](State(&states)[N]) {
            const T *from = (unsigned)h < (unsigned)p.H ? row : beyond;
            window.read(from);
            if constexpr (State::LOCATES) {
                const int start = (max(h, 0) - t.top) * p.W;
#pragma unroll
                for (int v = 0; v < N; v++) {
                    /* Padding before the first tap has that one's place, so that it can stand for it. Behind a tap it takes
                     * none, as it is never more. */
                    states[v].value = window.of[v * S];
                    states[v].at = start + (v * S < PAD ? max(iw + v * S, 0) : iw + v * S);
#pragma unroll
                    for (int k = 1; k < K; k++)
                        states[v].add_more(window.of[v * S + k], start + iw + v * S + k);
                }
            } else {
                State two[COUNT - 1]; /* each tap with the next */
#pragma unroll
                for (int i = 0; i < COUNT - 1; i++) {
                    two[i].value = window.of[i];
                    two[i].add(window.of[i + 1], 0);
                }
#pragma unroll
                for (int v = 0; v < N; v++) {
                    states[v] = two[v * S];
#pragma unroll
                    for (int k = 2; k < K - 1; k += 2)
                        states[v].join_more(two[v * S + k]);
                    states[v].add(window.of[v * S + K - 1], 0);
                }
            }
            h++, row += p.W;
        };
        /* Row k of a window, and what the one before comes to with it. */
        const auto read_next = [&](int k) {
            State(&last)[N] = rows[(k - 1) % 2], (&next)[N] = rows[k % 2],
            (&pair)[N] = pairs[(k - 1) % (K - 1)];
            read(next);
#pragma unroll
            for (int v = 0; v < N; v++) {
                pair[v] = last[v];
                pair[v].join_more(next[v]);
            }
        };
        if (mine > 0) {
            read(rows[0]);
#pragma unroll
            for (int k = 1; k < KEPT; k++)
                read_next(k);
        }
#pragma unroll 1
        for (int step = 0; step < mine; step += PERIOD) {
            /* The pairs of output row step + u begin in place u * S. */
#pragma unroll
            for (int u = 0; u < PERIOD; u++, result += p.OW, place += p.OW) {
                if (step + u >= mine)
                    break;
#pragma unroll
                for (int k = KEPT; k < K; k++)
                    read_next(u * S + k);
                if (State::AVERAGES && !alike) {
                    const int high = covered(h - K, K, p.H, pad);
                    if (high != sizes.high)
                        sizes.set(high, table, iw, S, p.W, pad);
                }
                State out[N];
#pragma unroll
                for (int v = 0; v < N; v++) {
                    out[v] = pairs[u * S % (K - 1)][v];
#pragma unroll
                    for (int k = 2; k < K - 1; k += 2)
                        out[v].join_more(pairs[(u * S + k) % (K - 1)][v]);
                    out[v].join_more(rows[u * S % 2][v]);
                    if constexpr (State::AVERAGES)
                        out[v].value = sizes.divide_by(v, out[v].value);
                }
                const int columns = WHOLE || span >= few ? N : N - 1;
                write_span<WHOLE ? ACCESS / sizeof(T) : 1, N>(result, columns,
                                                              [&](int v) { return out[v].value; });
                if constexpr (State::LOCATES)
                    write_span<WHOLE ? 2 : 1, N>(place, columns,
                                                 [&](int v) { return (span_place)out[v].at; });
            }
        }
        __syncthreads(); /* x is read, the results are there */
        store_run<SPAN_THREADS>(y + at, results, count, [](T value, int) { return value; });
        if constexpr (State::LOCATES)
            store_run<SPAN_THREADS>(indices + at, places, count, [&](int from_top, int) -> int64_t {
                return t.top * p.W + from_top;
            });
    }
}

/* What a thread has of a row of y. */
struct span_shape {
    int columns; ///< 0: no number of them fits
    bool whole;  ///< accesses
    double cost; ///< of an output
};

struct spans_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_square(p, 3, 1) && !is_square(p, 5, 1) && !is_square(p, 3, 2))
            return "only 3x3 and 5x5 windows with stride 1, 3x3 with stride 2";
        if (p->pad_h != p->KH / 2 || p->pad_w != p->KW / 2)
            return "only with padding of half a window";
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        if (p->dtype == TALC_F64 && p->KH == 5 && p->indices)
            return "indices of 5x5 windows are too much for a thread with f64";
        /* What an output costs at most where no other row is faster, by measurement. */
        const double most = p->KH == 5             ? 41
                            : p->stride_h == 2     ? (p->indices ? 35 : 27)
                            : p->dtype == TALC_F64 ? 26
                            : p->indices           ? 40
                                                   : 21;
        const span_shape shape = choose(p, true, most);
        if (shape.columns == 0)
            return "the image is wide, or less wide than what a thread has";
        return shape.cost > most ? "threads would meet in a bank" : NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        if (p->KH == 3)
            return p->stride_h == 1 ? launch_of<S, T, 3, 1>(device, p, arguments)
                                    : launch_of<S, T, 3, 2>(device, p, arguments);
        if constexpr (!S::LOCATES || sizeof(T) == 4)
            return launch_of<S, T, 5, 1>(device, p, arguments);
        return false;
    }

    template <typename State, typename T, int K, int S>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
    {
        const bool aligned =
            is_aligned(arguments->x) && is_aligned(arguments->y) && is_aligned(arguments->indices);
        const span_shape shape = choose(p, aligned, 0);
        if constexpr (S == 1)
            if (shape.whole)
                return launch_shape<State, T, K, S, WHOLE_COLUMNS, true>(device, p, arguments);
        return launch_columns<State, T, K, S, MOST>(device, p, arguments, shape.columns);
    }

    template <typename State, typename T, int K, int S, int N>
    static bool launch_columns(talc_device *device, const talc_pool2d_problem *p,
                               const talc_pool2d_arguments *arguments, int columns)
    {
        if constexpr (is_compiled(N, sizeof(T), S, State::LOCATES))
            if (columns == N)
                return launch_shape<State, T, K, S, N, false>(device, p, arguments);
        if constexpr (N > FEWEST)
            return launch_columns<State, T, K, S, N - 1>(device, p, arguments, columns);
        return false;
    }

    template <typename State, typename T, int K, int S, int N, bool WHOLE>
    static bool launch_shape(talc_device *device, const talc_pool2d_problem *p,
                             const talc_pool2d_arguments *arguments)
    {
        tile_plan plan = uncut(p, N);
        return for_slices<T>(p, arguments, p->OH, [&](plane_slice<T> some) {
            /* Some units for each place where a block can be. */
            plan.most_planes =
                pieces(some.planes, talc_cuda_state_of(device)->multiprocessors * 16);
            if (!cut(p, some.planes, &plan))
                return false;
            const size_t beside =
                State::LOCATES ? plan.planes * plan.rows * plan.OW * sizeof(span_place) + LINE : 0;
            pool_spans<State, T, K, S, N, WHOLE>
                <<<blocks_of(device, plan.count), SPAN_THREADS, plan.bytes + beside,
                   talc_cuda_stream(device)>>>(some.x, some.y, some.indices, plan,
                                               { p->exclude_padding, p->divisor }, are_alike(p));
            return true;
        });
    }

    /* Whether all averages are divided by the same number. */
    static bool are_alike(const talc_pool2d_problem *p)
    {
        const auto inside = [&](int64_t windows, int64_t extent) {
            return (windows - 1) * p->stride_h + p->KH <= extent + 2 * (p->KH / 2);
        };
        return p->divisor > 0 ||
               (!p->exclude_padding && inside(p->OH, p->H) && inside(p->OW, p->W));
    }

    // ---- Shape ----------------------------------------------------------------------------------------------

    static constexpr int FEWEST = 3, MOST = 7, WHOLE_COLUMNS = 4;
    static constexpr int HIGH = 12; /* rows of y of a thread, about, at most */

    /* There are kernels of three columns for what is asked for most, and for the smallest images. */
    static constexpr bool is_compiled(int columns, size_t size, int64_t stride, bool indices)
    {
        return columns > FEWEST || stride == 2 || (size == 4 && !indices);
    }

    /* The most columns of which an output costs `enough` or less; where there are none, those of which it costs least. */
    static span_shape choose(const talc_pool2d_problem *p, bool aligned, double enough)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype);
        span_shape best = { 0, false, INFINITY };
        if (aligned && p->stride_h == 1 && p->W % WHOLE_COLUMNS == 0)
            improve(p, WHOLE_COLUMNS, true, &best);
        for (int N = MOST; N >= FEWEST && best.cost > enough; N--)
            if (is_compiled(N, size, p->stride_h, p->indices))
                improve(p, N, false, &best);
        return best;
    }

    static void improve(const talc_pool2d_problem *p, int columns, bool whole, span_shape *best)
    {
        tile_plan plan = uncut(p, columns);
        /* Each thread of a row has so many columns, or one less. */
        if (pieces(p->OW, plan.across) < columns || !cut(p, 1, &plan) ||
            cost_of(plan, whole, 1) >= best->cost)
            return;
        const int size = (int)talc_dtype_size(p->dtype);
        const double cost = cost_of(plan, whole, meeting(plan, whole ? ACCESS / size : 1, size));
        if (cost < best->cost)
            *best = { columns, whole, cost };
    }

    static tile_plan uncut(const talc_pool2d_problem *p, int columns)
    {
        /* Five blocks of a multiprocessor have room, each with a table. */
        const tile_limits limits = { 44 << 10, SPAN_THREADS, SPAN_THREADS / 2, columns, 1 };
        return tile_plan(p->H, p->W, p->OH, p->OW, (int)p->KH, (int)p->stride_h, p->pad_h, p->pad_w,
                         limits);
    }

    static bool cut(const talc_pool2d_problem *p, int64_t planes, tile_plan *plan)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype);
        const int64_t result = p->indices ? size + (int64_t)sizeof(span_place) : size;
        return plan->cut(planes, true, HIGH, size, result, 0);
    }

    /* About, fitted to 1,000 timings. A row of a thread takes one for each read and thread that meets there, 2 K for each column,
     * and 8; the rows of x above its first row of y, and columns beyond the image, count too. Threads that have nothing take up
     * to as much again. */
    static double cost_of(const tile_plan &plan, bool whole, int meeting)
    {
        const int columns = (int)plan.limits.columns, S = plan.stride, K = plan.K;
        /* 9: an access of four words, and one for each side; where more than two meet, they do so when they write, too. */
        const int reads = whole ? (meeting > 2 ? 18 : 9) : (columns - 1) * S + K;
        const double row = meeting * reads + 2 * K * columns + 8;
        const double rows = (double)((plan.deep - 1) * S + K) / (plan.deep * S);
        const double idle = 2 - (double)plan.threads() / SPAN_THREADS;
        return row * rows * idle * plan.across / plan.OW;
    }

    /* How many threads that read V elements of `size` bytes together meet in one bank, at most. */
    static int meeting(const tile_plan &plan, unsigned V, int size)
    {
        /* As wide as what a thread reads, as many as threads that read together. */
        const unsigned banks = 128 / (V * size);
        const int columns = (int)plan.limits.columns, few = plan.across * columns - plan.OW;
        unsigned char threads[WARP] = {};
        int most = 0, span = 0, group = 0;
        unsigned row = 0, plane = 0; /* where they begin */
        for (unsigned i = 0; i < banks; i++) {
            const int ow = span * columns - (span < few ? span : few);
            const int here = ++threads[(row + ow * plan.stride) / V & (banks - 1)];
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
