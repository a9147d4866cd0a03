/// Reductions over any dimensions of a strided array.
///
///     y[k...] = f over r... of x[k..., r...]
///
/// The outputs are cut into blocks of neighbours, and long reductions of few outputs into parts
/// besides; both cuts depend on the problem alone. A task reduces one part of one block to a
/// partial result an output: along the reduced dimension where that is the denser one in memory,
/// else across it with the outputs side by side. The partial results of an output are then combined
/// in order.
///
/// Arithmetic of `blocked`: sums of up to CHUNK elements in the data's type (LANES side by side and
/// a tree, or groups of four rows in ROWS rows), and f64 from there on; of var the squared
/// distances from the chunk's first element, and of logsumexp the exponentials below the chunk's
/// largest element, both added in f64. `reference` accumulates in f64, integers in i64.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/reduce.h"
#include "tensor/extent.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 32,   /* eight SSE registers of f32: enough additions in flight to hide their latency */
    CHUNK = 4096, /* elements: fits the L1 cache, so that argmax may look twice */
    WIDTH = 512,  /* outputs side by side: their sums fit the L1 cache */
    ROWS = 256,   /* rows added up before the sums go to f64 */
    TASK_ELEMENTS = 32768, /* elements a task: some ten microseconds */
    PARTIALS = 2048,       /* partial results on the stack: 48 KB */
    ENOUGH_BLOCKS = 64     /* that many blocks keep the threads busy without parts */
};

/* What is known of an output's elements so far. index is -1 before the first element. */
typedef struct partial {
    double value;  /* their sum, mean (var) or largest (max, logsumexp) or smallest */
    int64_t index; /* of that one; var: how many they are */
    double second; /* var: sum of (x - mean)^2; logsumexp: sum of exp(x - value) */
} partial;

/* What an element has to be multiplied with so that the largest is sought. */
static double sign_of(talc_reduce_function function)
{
    return function == TALC_MIN || function == TALC_ARGMIN ? -1 : 1;
}

static bool is_sum(talc_reduce_function function)
{
    return function == TALC_SUM || function == TALC_MEAN;
}

/* exp(x - max), and 1 where both are the same infinity. */
static double exp_below(double x, double max)
{
    return x == max ? 1 : exp(x - max);
}

/* From count elements' distances from `shift`, their sum and their squares'. */
static partial moments(double shift, double sum, double squares, int64_t count)
{
    return (partial){ shift + sum / (double)count, count, squares - sum * (sum / (double)count) };
}

static void combine(talc_reduce_function function, partial *into, partial next)
{
    if (into->index < 0) {
        *into = next;
    } else if (is_sum(function)) {
        into->value += next.value;
    } else if (function == TALC_VAR) {
        const double all = (double)(into->index + next.index);
        const double share = (double)next.index / all, apart = next.value - into->value;
        into->second += next.second + apart * ((double)into->index * share) * apart;
        into->value += apart * share;
        into->index += next.index;
    } else if (function == TALC_LOGSUMEXP) {
        const bool larger = next.value > into->value || (isnan(next.value) && !isnan(into->value));
        const double max = larger ? next.value : into->value;
        into->second =
            into->second * exp_below(into->value, max) + next.second * exp_below(next.value, max);
        into->value = max;
    } else if (sign_of(function) * next.value > sign_of(function) * into->value ||
               (isnan(next.value) && !isnan(into->value))) {
        *into = next;
    }
}

/* The two element types of `blocked`. */
#define T       float
#define NAME(x) x##_f32
#define EXP     expf
#include "backends/cpu/reduce/reduce_loops.h"
#undef EXP
#undef T
#undef NAME
#define T       double
#define NAME(x) x##_f64
#define EXP     exp
#include "backends/cpu/reduce/reduce_loops.h"
#undef EXP
#undef T
#undef NAME

// ---- Cutting ------------------------------------------------------------------------------------

typedef struct reduce_plan {
    const talc_reduce_problem *problem;
    const char *x;
    void *y;
    bool across;
    int64_t row;    /* extent of the last kept dimension */
    int64_t column; /* its stride */
    int64_t width;  /* outputs a block, all of one row */
    int64_t blocks_per_row;
    int64_t blocks;
    int64_t part; /* elements of a reduction that a part covers */
    int64_t parts;
    int64_t per_task;  /* blocks a task; 1 when there are several parts */
    partial *partials; /* [parts][outputs] when there are several parts */
} reduce_plan;

static reduce_plan plan_of(const talc_reduce_problem *p, const talc_reduce_arguments *arguments)
{
    reduce_plan plan = { .problem = p, .x = arguments->x, .y = arguments->y, .row = 1 };
    if (p->kept_rank > 0) {
        plan.row = p->kept_dims[p->kept_rank - 1];
        plan.column = p->kept_strides[p->kept_rank - 1];
        plan.across = p->reduced_rank == 0 || plan.column < p->reduced_strides[p->reduced_rank - 1];
    }
    plan.width = talc_smaller(
        plan.row, plan.across ? WIDTH : talc_smaller(WIDTH, talc_larger(1, TASK_ELEMENTS / p->K)));
    plan.blocks_per_row = talc_ceil_div(plan.row, plan.width);
    plan.blocks = p->outputs / plan.row * plan.blocks_per_row;

    bool split = plan.blocks < ENOUGH_BLOCKS && p->outputs <= PARTIALS;
    plan.parts =
        split ? talc_smaller(talc_ceil_div(p->K * plan.width, TASK_ELEMENTS), PARTIALS / p->outputs)
              : 1;
    plan.part = talc_ceil_div(p->K, plan.parts);
    plan.parts = talc_ceil_div(p->K, plan.part);
    plan.per_task = plan.parts > 1 ? 1 : talc_larger(1, TASK_ELEMENTS / (p->K * plan.width));
    return plan;
}

// ---- One part of one block ----------------------------------------------------------------------

/* Folds n elements of each of `width` outputs into their partial results. `first` is the place of
 * the first element in the reduction. */
#define FOLD(constant, suffix, T, A)                                                               \
    static void fold_##suffix(const reduce_plan *plan, int64_t offset, int64_t n, int64_t stride,  \
                              int64_t width, int64_t first, partial *into)                         \
    {                                                                                              \
        const talc_reduce_function function = plan->problem->function;                             \
        const T *x = (const T *)plan->x + offset;                                                  \
        const T sign = (T)sign_of(function);                                                       \
        if (plan->across && is_sum(function))                                                      \
            across_sum_##suffix(x, n, stride, width, plan->column, into);                          \
        else if (plan->across && function == TALC_VAR)                                             \
            across_var_##suffix(x, n, stride, width, plan->column, into);                          \
        else if (plan->across && function == TALC_LOGSUMEXP)                                       \
            across_logsumexp_##suffix(x, n, stride, width, plan->column, into);                    \
        else if (plan->across && (function == TALC_MAX || function == TALC_MIN))                   \
            across_max_##suffix(sign, x, n, stride, width, plan->column, into);                    \
        else if (plan->across)                                                                     \
            across_argmax_##suffix(sign, x, n, stride, width, plan->column, first, into);          \
        else                                                                                       \
            for (int64_t j = 0; j < width; j++)                                                    \
                fold_run_##suffix(function, x + j * plan->column, n, stride, first, into + j);     \
    }

TALC_CPU_FLOATS(FOLD)

/* Elements begin .. end-1 of the reductions of a block whose first output is at `base`, row by row
 * of the last reduced dimension. */
static void fold_part(const reduce_plan *plan, int64_t base, int64_t width, int64_t begin,
                      int64_t end, partial *into)
{
    const talc_reduce_problem *p = plan->problem;
    const int last = p->reduced_rank - 1;
    const int64_t length = last < 0 ? 1 : p->reduced_dims[last];
    const int64_t stride = last < 0 ? 0 : p->reduced_strides[last];
    int64_t n;
    for (int64_t k = begin; k < end; k += n) {
        const int64_t along = k % length;
        const int64_t offset =
            base + along * stride +
            talc_walk_offset(last, p->reduced_dims, p->reduced_strides, k / length);
        n = talc_smaller(length - along, end - k);
        TALC_CPU_CALL(p->dtype, fold, (plan, offset, n, stride, width, k, into));
    }
}

// ---- Results ------------------------------------------------------------------------------------

/* Where squares have no sum in f64: of the elements times a power of two, which the variance gets
 * back. What underflows is nothing beside such squares. */
static double large_variance(const reduce_plan *plan, int64_t output)
{
    const talc_reduce_problem *p = plan->problem;
    const int64_t base = talc_walk_offset(p->kept_rank, p->kept_dims, p->kept_strides, output);
    partial result = { .index = -1 };
    for (int64_t k = 0; k < p->K && !isnan(result.second); k++) {
        const int64_t at =
            base + talc_walk_offset(p->reduced_rank, p->reduced_dims, p->reduced_strides, k);
        const double value = 0x1p-600 * talc_cpu_load(p->dtype, plan->x, at);
        combine(TALC_VAR, &result, (partial){ value, 1, value - value });
    }
    return result.second / talc_reduce_divisor(p) * 0x1p600 * 0x1p600;
}

static void write_result(const reduce_plan *plan, int64_t output, partial result)
{
    const talc_reduce_problem *p = plan->problem;
    void *y = plan->y;
    double value = result.value;
    if (p->function == TALC_MEAN)
        value = result.value / talc_reduce_divisor(p);
    else if (p->function == TALC_VAR)
        value = isfinite(result.second) ? result.second / talc_reduce_divisor(p)
                                        : large_variance(plan, output);
    else if (p->function == TALC_LOGSUMEXP)
        value = log(result.second) + result.value;
    if (p->function == TALC_ARGMAX || p->function == TALC_ARGMIN)
        ((int64_t *)y)[output] = result.index;
    else
        talc_cpu_store(p->y_dtype, y, output, value);
}

// ---- blocked ------------------------------------------------------------------------------------

static void block_part(const reduce_plan *plan, int64_t block, int64_t part)
{
    const talc_reduce_problem *p = plan->problem;
    const int64_t column = block % plan->blocks_per_row * plan->width;
    const int64_t width = talc_smaller(plan->width, plan->row - column);
    const int64_t output = block / plan->blocks_per_row * plan->row + column;
    const int64_t base =
        column * plan->column + talc_walk_offset(p->kept_rank - 1, p->kept_dims, p->kept_strides,
                                                 block / plan->blocks_per_row);

    partial results[WIDTH];
    for (int64_t j = 0; j < width; j++)
        results[j] = (partial){ .index = is_sum(p->function) ? 0 : -1 };
    fold_part(plan, base, width, part * plan->part, talc_smaller(p->K, (part + 1) * plan->part),
              results);
    for (int64_t j = 0; j < width; j++)
        if (plan->parts > 1)
            plan->partials[part * p->outputs + output + j] = results[j];
        else
            write_result(plan, output + j, results[j]);
}

static void blocked_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const reduce_plan *plan = context;
    if (plan->parts > 1) {
        block_part(plan, task / plan->parts, task % plan->parts);
        return;
    }
    const int64_t end = talc_smaller(plan->blocks, (task + 1) * plan->per_task);
    for (int64_t block = task * plan->per_task; block < end; block++)
        block_part(plan, block, 0);
}

static const char *blocked_plan(const talc_device *device, const void *problem, size_t limit,
                                talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_reduce_problem *p = problem;
    return talc_cpu_refuses(p->dtype) == NULL ? NULL : "x must be f32 or f64";
}

static talc_status blocked_run(talc_device *device, const void *problem, const talc_plan *planned,
                               const void *arguments)
{
    (void)device, (void)planned;
    const talc_reduce_problem *p = problem;
    reduce_plan plan = plan_of(p, arguments);
    partial partials[PARTIALS];
    plan.partials = partials;
    if (plan.parts == 1)
        return talc_cpu_parallel(talc_ceil_div(plan.blocks, plan.per_task), blocked_task, &plan);

    talc_status status = talc_cpu_parallel(plan.blocks * plan.parts, blocked_task, &plan);
    for (int64_t output = 0; status == TALC_OK && output < p->outputs; output++) {
        partial result = partials[output];
        for (int64_t part = 1; part < plan.parts; part++)
            combine(p->function, &result, partials[part * p->outputs + output]);
        write_result(&plan, output, result);
    }
    return status;
}

// ---- reference ----------------------------------------------------------------------------------

static int64_t integer_at(talc_dtype dtype, const void *x, int64_t at)
{
    switch (dtype) {
#define INTEGER_AT(constant, name, T, U)                                                           \
    case constant:                                                                                 \
        return ((const T *)x)[at];
        TALC_CPU_INTEGERS(INTEGER_AT)
#undef INTEGER_AT
    default: /* refused by the plan */
        return 0;
    }
}

static void write_integer(talc_dtype dtype, void *y, int64_t at, int64_t value)
{
    switch (dtype) {
#define WRITE_INTEGER(constant, name, T, U)                                                        \
    case constant:                                                                                 \
        ((T *)y)[at] = (T)value;                                                                   \
        break;
        TALC_CPU_INTEGERS(WRITE_INTEGER)
#undef WRITE_INTEGER
    default:
        break;
    }
}

static void reference_floats(const reduce_plan *plan, int64_t output, int64_t base)
{
    const talc_reduce_problem *p = plan->problem;
    partial result = { .index = -1 };
    for (int64_t k = 0; k < p->K; k++) {
        const int64_t at =
            base + talc_walk_offset(p->reduced_rank, p->reduced_dims, p->reduced_strides, k);
        const double value = talc_cpu_load(p->dtype, plan->x, at);
        /* A variance that has seen an infinity is NaN, however few elements there are. */
        const partial one = { value, p->function == TALC_VAR ? 1 : k,
                              p->function == TALC_LOGSUMEXP ? 1 : value - value };
        combine(p->function, &result, one);
    }
    write_result(plan, output, result);
}

static void reference_integers(const reduce_plan *plan, int64_t output, int64_t base)
{
    const talc_reduce_problem *p = plan->problem;
    const bool min = sign_of(p->function) < 0;
    uint64_t sum = 0; /* wraps around, where a signed sum would be undefined */
    int64_t best = 0, best_k = 0;
    for (int64_t k = 0; k < p->K; k++) {
        const int64_t at =
            base + talc_walk_offset(p->reduced_rank, p->reduced_dims, p->reduced_strides, k);
        const int64_t value = integer_at(p->dtype, plan->x, at);
        sum += (uint64_t)value;
        if (k == 0 || (min ? value < best : value > best)) {
            best = value;
            best_k = k;
        }
    }
    write_integer(p->y_dtype, plan->y, output,
                  p->function == TALC_SUM                              ? (int64_t)sum
                  : p->function == TALC_MAX || p->function == TALC_MIN ? best
                                                                       : best_k);
}

static void reference_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const reduce_plan *plan = context;
    const talc_reduce_problem *p = plan->problem;
    const int64_t end = talc_smaller(p->outputs, (task + 1) * plan->per_task);
    for (int64_t output = task * plan->per_task; output < end; output++) {
        const int64_t base = talc_walk_offset(p->kept_rank, p->kept_dims, p->kept_strides, output);
        if (talc_dtype_is_float(p->dtype))
            reference_floats(plan, output, base);
        else
            reference_integers(plan, output, base);
    }
}

static const char *reference_plan(const talc_device *device, const void *problem, size_t limit,
                                  talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_reduce_problem *p = problem;
    switch (p->dtype) {
#define TAKEN(constant, ...) case constant:
        TALC_CPU_INTEGERS(TAKEN)
#undef TAKEN
        return NULL;
    default:
        return talc_cpu_refuses(p->dtype);
    }
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    const talc_reduce_problem *p = problem;
    const talc_reduce_arguments *a = arguments;
    reduce_plan plan = { .problem = p, .x = a->x, .y = a->y };
    plan.per_task = talc_larger(1, TASK_ELEMENTS / p->K);
    return talc_cpu_parallel(talc_ceil_div(p->outputs, plan.per_task), reference_task, &plan);
}

const talc_algorithm talc_cpu_reduce[] = {
    { "blocked",
      NULL,
      { "f32 or f64 in blocks, f64 across them", TALC_STRICT, false },
      blocked_plan,
      blocked_run },
    { "reference", NULL, { "f64 accumulation", TALC_STRICT, true }, reference_plan, reference_run },
    { .name = NULL },
};
