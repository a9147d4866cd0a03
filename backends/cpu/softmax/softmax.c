/// Softmax and log-softmax over one dimension of a strided array.
///
///     y_i = exp(x_i - m) / sum_j exp(x_j - m)        y_i = x_i - m - log(sum_j exp(x_j - m))        m = max_j x_j
///
/// `rows` computes exponentials in the data's type, adds TERMS of f32 in order and goes on in f64.
/// Softmaxes that lie side by side in memory go together, WIDTH at a time, so that memory is read
/// in order whichever the dimension is, and so do short ones. `reference` computes all in f64. Both
/// add the n exponentials of f64 data by blocked summation: sums of sqrt(n) terms, or of chunks,
/// and then the sums, so that on any data no term goes through more than 32 + 2 sqrt(n) roundings.
/// Tasks depend on the problem alone.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/functions.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/softmax.h"
#include "tensor/extent.h"

enum {
    WIDTH = 128,   /* softmaxes side by side */
    SHORT = 64,    /* elements of one that is not vector code by itself */
    TURNED = 4096, /* elements of such ones that go together */
    LANES = 16,    /* values side by side of one, and sums */
    TERMS = 32,    /* exponentials that are added in f32, one after the other */
    CHUNK = LANES * TERMS,
    ROW = 4096,           /* of one whose exponentials are kept beside y */
    TASK_ELEMENTS = 16384 /* elements a task: some 100 microseconds of exponentials */
};

typedef struct softmax_plan {
    const talc_softmax_problem *problem;
    void *y;
    const void *x;
    int64_t row;            /* extent of the last outer dimension, */
    int64_t y_step, x_step; /* and its strides */
    int64_t width;          /* softmaxes a block, all of one row */
    int64_t blocks_per_row;
    int64_t blocks;
    int64_t per_task; /* blocks a task */
    bool streams;     /* y, past the caches */
} softmax_plan;

static softmax_plan plan_of(const talc_softmax_problem *p, const talc_softmax_arguments *arguments,
                            int64_t width)
{
    softmax_plan plan = { .problem = p, .y = arguments->y, .x = arguments->x, .row = 1 };
    if (p->outer_rank > 0) {
        plan.row = p->outer_dims[p->outer_rank - 1];
        plan.y_step = p->y_strides[p->outer_rank - 1];
        plan.x_step = p->x_strides[p->outer_rank - 1];
    }
    if (p->extent > SHORT)
        width = plan.x_step < p->x_stride ? width : 1;
    else if (plan.x_step != 1 || plan.y_step != 1)
        width = talc_smaller(width, TURNED / p->extent / LANES * LANES);
    plan.width = talc_smaller(width, plan.row);
    plan.blocks_per_row = talc_ceil_div(plan.row, plan.width);
    plan.blocks = p->outer / plan.row * plan.blocks_per_row;
    const int64_t row_bytes = p->extent * (int64_t)talc_dtype_size(p->dtype);
    plan.streams = talc_cpu_streams(p->outer * row_bytes, row_bytes);
    plan.per_task = talc_larger(1, TASK_ELEMENTS / (plan.width * p->extent));
    return plan;
}

/* A block's place: how many softmaxes, and where the first starts. */
typedef struct softmax_block {
    int64_t width, y, x;
} softmax_block;

static softmax_block locate(const softmax_plan *plan, int64_t index)
{
    const talc_softmax_problem *p = plan->problem;
    const int64_t column = index % plan->blocks_per_row * plan->width;
    const int64_t row = index / plan->blocks_per_row;
    const int rank = p->outer_rank - 1;
    return (softmax_block){
        .width = talc_smaller(plan->width, plan->row - column),
        .y = column * plan->y_step + talc_walk_offset(rank, p->outer_dims, p->y_strides, row),
        .x = column * plan->x_step + talc_walk_offset(rank, p->outer_dims, p->x_strides, row),
    };
}

/* How many exponentials are added one after the other, in the data's type; f64 has the digits for
 * all such sums of f32. */
static int64_t terms_per_sum(const talc_softmax_problem *p)
{
    return talc_cpu_is_narrow(p->dtype) ? TERMS : (int64_t)ceil(sqrt((double)p->extent));
}

static const char *float_plan(const talc_device *device, const void *problem, size_t limit,
                              talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    return talc_cpu_refuses(((const talc_softmax_problem *)problem)->dtype);
}

// ---- rows ---------------------------------------------------------------------------------------

#define LOGARITHM(AT) (AT(x) - m - log_sum)
#define QUOTIENT(AT)  (AT(e) * inverse)

/* A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and so
 * into every result, as (+infinity) - (+infinity) and (-infinity) - (-infinity) do. log_softmax
 * needs no exponentials kept. */
#define ROWS_BLOCK(constant, suffix, T, A)                                                           \
    /* Softmaxes side by side. */                                                                    \
    static inline __attribute__((always_inline)) void side_by_side_##suffix(                         \
        const talc_softmax_problem *p, int64_t width, const T *restrict x, int64_t x_stride,         \
        int64_t x_step, T *restrict y, int64_t y_stride, int64_t y_step)                             \
    {                                                                                                \
        const bool logarithm = p->log;                                                               \
        A m[WIDTH], e[WIDTH], part[WIDTH];                                                           \
        double sum[WIDTH];                                                                           \
        for (int64_t j = 0; j < width; j++) {                                                        \
            m[j] = x[j * x_step];                                                                    \
            sum[j] = 0;                                                                              \
        }                                                                                            \
        for (int64_t i = 1; i < p->extent; i++)                                                      \
            for (int64_t j = 0; j < width; j++) {                                                    \
                const A x_ij = x[i * x_stride + j * x_step];                                         \
                m[j] = x_ij > m[j] ? x_ij : m[j];                                                    \
            }                                                                                        \
        const int64_t terms = terms_per_sum(p);                                                      \
        for (int64_t begin = 0; begin < p->extent; begin += terms) {                                 \
            const int64_t end = talc_smaller(begin + terms, p->extent);                              \
            for (int64_t j = 0; j < width; j++)                                                      \
                part[j] = 0;                                                                         \
            for (int64_t i = begin; i < end; i++) {                                                  \
                for (int64_t j = 0; j < width; j++)                                                  \
                    e[j] = exp(x[i * x_stride + j * x_step] - m[j]);                                 \
                for (int64_t j = 0; j < width; j++)                                                  \
                    part[j] += e[j];                                                                 \
                if (!logarithm)                                                                      \
                    for (int64_t j = 0; j < width; j++)                                              \
                        y[i * y_stride + j * y_step] = (T)e[j];                                      \
            }                                                                                        \
            for (int64_t j = 0; j < width; j++)                                                      \
                sum[j] += (double)part[j];                                                           \
        }                                                                                            \
        for (int64_t j = 0; j < width; j++)                                                          \
            e[j] = (A)(logarithm ? sum[j] : 1 / sum[j]);                                             \
        for (int64_t j = 0; j < width && logarithm; j++)                                             \
            e[j] = log(e[j]);                                                                        \
        for (int64_t i = 0; i < p->extent; i++)                                                      \
            for (int64_t j = 0; j < width; j++) {                                                    \
                T *y_ij = y + i * y_stride + j * y_step;                                             \
                *y_ij = (T)(p->log ? x[i * x_stride + j * x_step] - m[j] - e[j] : *y_ij * e[j]);     \
            }                                                                                        \
    }                                                                                                \
                                                                                                     \
    /* Short ones whose elements lie closer than they do: turned on the way in and out. */           \
    static inline __attribute__((always_inline)) void turned_##suffix(                               \
        const softmax_plan *plan, int64_t width, const T *restrict x, T *restrict y)                 \
    {                                                                                                \
        const talc_softmax_problem *p = plan->problem;                                               \
        T x_turned[TURNED], y_turned[TURNED];                                                        \
        for (int64_t j = 0; j < width; j++)                                                          \
            for (int64_t i = 0; i < p->extent; i++)                                                  \
                x_turned[i * plan->width + j] = x[i * p->x_stride + j * plan->x_step];               \
        side_by_side_##suffix(p, width, x_turned, plan->width, 1, y_turned, plan->width, 1);         \
        for (int64_t j = 0; j < width; j++)                                                          \
            for (int64_t i = 0; i < p->extent; i++)                                                  \
                y[i * p->y_stride + j * plan->y_step] = y_turned[i * plan->width + j];               \
    }                                                                                                \
                                                                                                     \
    TALC_TARGET_CLONES static A largest_##suffix(int64_t n, const T *x)                              \
    {                                                                                                \
        A largest[4 * LANES];                                                                        \
        int64_t i = 0;                                                                               \
        for (int j = 0; j < 4 * LANES; j++)                                                          \
            largest[j] = x[0];                                                                       \
        for (; i + 4 * LANES <= n; i += 4 * LANES)                                                   \
            for (int j = 0; j < 4 * LANES; j++)                                                      \
                largest[j] = x[i + j] > largest[j] ? x[i + j] : largest[j];                          \
        for (; i < n; i += LANES) {                                                                  \
            A last[LANES];                                                                           \
            for (int j = 0; j < LANES; j++)                                                          \
                last[j] = x[i + j < n ? i + j : 0];                                                  \
            for (int j = 0; j < LANES; j++)                                                          \
                largest[j] = last[j] > largest[j] ? last[j] : largest[j];                            \
        }                                                                                            \
        _Pragma("GCC unroll 8") for (int half = 2 * LANES; half > 0;                                 \
                                     half /= 2) for (int j = 0; j < half; j++) largest[j] =          \
            largest[j + half] > largest[j] ? largest[j + half] : largest[j];                         \
        return largest[0];                                                                           \
    }                                                                                                \
                                                                                                     \
    /* Exponentials of at most CHUNK elements; e has room for whole vectors. Returns their sum. */   \
    TALC_TARGET_CLONES static double exponentials_##suffix(int64_t n, const T *restrict x, A m,      \
                                                           A *restrict e)                            \
    {                                                                                                \
        const int64_t whole = n / LANES * LANES, end = whole < n ? whole + LANES : whole;            \
        if (whole < n) { /* first, so that the others hide how long it takes */                      \
            A last[LANES];                                                                           \
            for (int j = 0; j < LANES; j++)                                                          \
                last[j] = whole + j < n ? x[whole + j] - m : -INFINITY;                              \
            for (int j = 0; j < LANES; j++)                                                          \
                e[whole + j] = exp(last[j]);                                                         \
        }                                                                                            \
        for (int64_t i = 0; i < whole; i++)                                                          \
            e[i] = exp(x[i] - m);                                                                    \
        A lanes[LANES] = { 0 };                                                                      \
        for (int64_t i = 0; i < end; i += LANES)                                                     \
            for (int j = 0; j < LANES; j++)                                                          \
                lanes[j] += e[i + j];                                                                \
        double sums[LANES];                                                                          \
        for (int j = 0; j < LANES; j++)                                                              \
            sums[j] = (double)lanes[j];                                                              \
        _Pragma("GCC unroll 8") for (int half = LANES / 2; half > 0;                                 \
                                     half /= 2) for (int j = 0; j < half; j++) sums[j] +=            \
            sums[j + half];                                                                          \
        return sums[0];                                                                              \
    }                                                                                                \
                                                                                                     \
    /* y from x or, if they are kept, exponentials e. */                                             \
    TALC_TARGET_CLONES static void finish_##suffix(bool logarithm, bool streams, int64_t n,          \
                                                   const T *x, const A *e, A m, double sum, T *y)    \
    {                                                                                                \
        const A log_sum = log((A)sum), inverse = (A)(1 / sum);                                       \
        if (logarithm)                                                                               \
            TALC_CPU_WRITE(streams, n, y, T, LOGARITHM)                                              \
        else                                                                                         \
            TALC_CPU_WRITE(e != y && streams, n, y, T, QUOTIENT)                                     \
    }                                                                                                \
                                                                                                     \
    /* One whose n elements are adjacent. Exponentials are taken a chunk at a time and kept in a   \
     * row's buffer, or in y. */ \
    static void adjacent_##suffix(bool logarithm, bool streams, int64_t n, const T *x, T *y)         \
    {                                                                                                \
        A kept[ROW];                                                                                 \
        const A m = largest_##suffix(n, x);                                                          \
        double sum = 0, part = 0; /* of CHUNK chunks */                                              \
        for (int64_t begin = 0; begin < n; begin += CHUNK) {                                         \
            const int64_t count = talc_smaller(CHUNK, n - begin);                                    \
            A *e = n <= ROW ? kept + begin : kept;                                                   \
            /* The next row is fetched while this one is computed. */                                \
            for (int64_t i = 0; i < count && streams && n <= ROW;                                    \
                 i += TALC_CPU_CACHE_LINE / (int64_t)sizeof(T))                                      \
                __builtin_prefetch(x + n + begin + i);                                               \
            part += exponentials_##suffix(count, x + begin, m, e);                                   \
            if ((begin / CHUNK + 1) % CHUNK == 0) {                                                  \
                sum += part;                                                                         \
                part = 0;                                                                            \
            }                                                                                        \
            if (!logarithm && n > ROW)                                                               \
                memcpy(y + begin, e, (size_t)count * sizeof *y);                                     \
        }                                                                                            \
        finish_##suffix(logarithm, streams, n, x, n <= ROW ? kept : y, m, sum + part, y);            \
    }                                                                                                \
                                                                                                     \
    TALC_TARGET_CLONES static void side_block_##suffix(const softmax_plan *plan,                     \
                                                       softmax_block block)                          \
    {                                                                                                \
        const talc_softmax_problem *p = plan->problem;                                               \
        const T *x = (const T *)plan->x + block.x;                                                   \
        T *y = (T *)plan->y + block.y;                                                               \
        if (plan->x_step == 1 && plan->y_step == 1)                                                  \
            side_by_side_##suffix(p, block.width, x, p->x_stride, 1, y, p->y_stride, 1);             \
        else if (p->extent <= SHORT)                                                                 \
            turned_##suffix(plan, block.width, x, y);                                                \
        else                                                                                         \
            side_by_side_##suffix(p, block.width, x, p->x_stride, plan->x_step, y, p->y_stride,      \
                                  plan->y_step);                                                     \
    }                                                                                                \
                                                                                                     \
    static void block_##suffix(const softmax_plan *plan, softmax_block block)                        \
    {                                                                                                \
        const talc_softmax_problem *p = plan->problem;                                               \
        if (block.width == 1 && p->x_stride == 1 && p->y_stride == 1)                                \
            adjacent_##suffix(p->log, plan->streams, p->extent, (const T *)plan->x + block.x,        \
                              (T *)plan->y + block.y);                                               \
        else                                                                                         \
            side_block_##suffix(plan, block);                                                        \
    }

TALC_CPU_FLOATS(ROWS_BLOCK)

static void rows_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const softmax_plan *plan = context;
    const int64_t end = talc_smaller(plan->blocks, (task + 1) * plan->per_task);
    for (int64_t i = task * plan->per_task; i < end; i++)
        TALC_CPU_CALL(plan->problem->dtype, block, (plan, locate(plan, i)));
    if (plan->streams)
        talc_cpu_stream_end();
}

static talc_status rows_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    softmax_plan plan = plan_of(problem, arguments, WIDTH);
    return talc_cpu_parallel(talc_ceil_div(plan.blocks, plan.per_task), rows_task, &plan);
}

// ---- reference ----------------------------------------------------------------------------------

static void reference_softmax(const softmax_plan *plan, softmax_block block)
{
    const talc_softmax_problem *p = plan->problem;
    double m = talc_cpu_load(p->dtype, plan->x, block.x);
    for (int64_t i = 1; i < p->extent; i++)
        m = fmax(m, talc_cpu_load(p->dtype, plan->x, block.x + i * p->x_stride));
    double sum = 0;
    const int64_t terms = terms_per_sum(p);
    for (int64_t begin = 0; begin < p->extent; begin += terms) {
        double part = 0;
        for (int64_t i = begin; i < talc_smaller(begin + terms, p->extent); i++)
            part += exp(talc_cpu_load(p->dtype, plan->x, block.x + i * p->x_stride) - m);
        sum += part;
    }
    for (int64_t i = 0; i < p->extent; i++) {
        const double x = talc_cpu_load(p->dtype, plan->x, block.x + i * p->x_stride) - m;
        const double y = p->log ? x - log(sum) : exp(x) / sum;
        talc_cpu_store(p->dtype, plan->y, block.y + i * p->y_stride, y);
    }
}

static void reference_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const softmax_plan *plan = context;
    const int64_t end = talc_smaller(plan->blocks, (task + 1) * plan->per_task);
    for (int64_t block = task * plan->per_task; block < end; block++)
        reference_softmax(plan, locate(plan, block));
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    softmax_plan plan = plan_of(problem, arguments, 1);
    return talc_cpu_parallel(talc_ceil_div(plan.blocks, plan.per_task), reference_task, &plan);
}

const talc_algorithm talc_cpu_softmax[] = {
    { "rows",
      { "the data's own type, long sums in f64", TALC_STRICT, false },
      float_plan,
      rows_run },
    { "reference", { "f64", TALC_STRICT, true }, float_plan, reference_run },
    { .name = NULL },
};
