/// Softmax and log-softmax over one dimension of a strided array.
///
///     softmax:      y_i = exp(x_i - m) / sum_j exp(x_j - m)
///     log_softmax:  y_i = x_i - m - log(sum_j exp(x_j - m)),      m = max_j x_j
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
    WIDTH = 128,       /* softmaxes side by side */
    SHORT = 64,        /* elements of one that is not vector code by itself */
    TRANSPOSED = 4096, /* elements of such ones that go together */
    LANES = 16,        /* values side by side of one, and sums */
    TERMS = 32,        /* exponentials that are added in f32, one after the other */
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
        width = talc_smaller(width, TRANSPOSED / p->extent / LANES * LANES);
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

#define T       float
#define NAME(x) x##_f32
#include "backends/cpu/softmax/softmax_loops.h"
#undef T
#undef NAME
#define T       double
#define NAME(x) x##_f64
#include "backends/cpu/softmax/softmax_loops.h"
#undef T
#undef NAME

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
      NULL,
      { "the data's own type, long sums in f64", TALC_STRICT, false },
      float_plan,
      rows_run },
    { "reference", NULL, { "f64", TALC_STRICT, true }, float_plan, reference_run },
    { .name = NULL },
};
