/// Matrix products, each y[M,N] = act( op(A)[M,K] op(B)[K,N] + bias[N] + residual[M,N] ), for a
/// batch of them.
///
/// `openblas` cuts the products into blocks of rows and columns, and short products into groups;
/// the cuts depend on the problem alone, and every block is one single-threaded call of OpenBLAS,
/// so results do not depend on the number of threads: of gemv where y is one row or one column,
/// which packs nothing, else of gemm. The block's bias, residual and activation follow at once.
/// Arithmetic: the data's type.
///
/// `reference` is the textbook's triple loop with f64 accumulation; one rounding an output.
#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/device/blas.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/openblas.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/matmul.h"
#include "tensor/extent.h"

/* A block costs the packing of its operands, so blocks are large; yet several are needed to keep
 * all threads busy. A block is halved while there are few and it is still worth waking a thread, or
 * while it is so long that packing costs nothing. */
static const int64_t FEW_TASKS = 8;
static const int64_t SHORT_SIDE = 64, LONG_SIDE = 1024;         /* minimum extents after halving */
static const double SMALL_MACS = 1 << 23, LARGE_MACS = 1 << 26; /* minimum of multiply-adds then */
static const double TASK_MACS = 1 << 17; /* products smaller than this share a task */
/* gemv reads each element of its matrix once: there is nothing to pack, and many threads read
 * faster than few. */
static const int64_t VECTOR_TASKS = 64, VECTOR_SIDE = 16;
static const double VECTOR_MACS = 1 << 15;

typedef struct matmul_plan {
    const talc_matmul_problem *problem;
    const talc_matmul_arguments *arguments;
    int64_t m_step, n_step;     /* extents of a block */
    int64_t m_blocks, n_blocks; /* blocks a product */
    int64_t group;              /* products a task; 1 when they are cut into blocks */
    bool by_gemv;
} matmul_plan;

static bool worth_halving(const matmul_plan *plan, double depth)
{
    const double half = (double)plan->m_step * (double)plan->n_step * depth / 2;
    const int64_t side = (plan->m_step >= plan->n_step ? plan->m_step : plan->n_step) / 2;
    const int64_t tasks = plan->m_blocks * plan->n_blocks * plan->problem->batch;
    if (plan->by_gemv)
        return tasks < VECTOR_TASKS && side >= VECTOR_SIDE && half >= VECTOR_MACS;
    const bool few = tasks < FEW_TASKS;
    return (few && side >= SHORT_SIDE && half >= SMALL_MACS) ||
           (side >= LONG_SIDE && half >= LARGE_MACS);
}

static matmul_plan plan_of(const talc_matmul_problem *p, const talc_matmul_arguments *arguments,
                           bool by_gemv)
{
    matmul_plan plan = { p, arguments, p->M, p->N, 1, 1, 1, by_gemv };
    const double depth = p->K > 0 ? (double)p->K : 1;
    while (worth_halving(&plan, depth)) {
        int64_t *step = plan.m_step >= plan.n_step ? &plan.m_step : &plan.n_step;
        *step = (*step + 1) / 2;
        plan.m_blocks = talc_ceil_div(p->M, plan.m_step);
        plan.n_blocks = talc_ceil_div(p->N, plan.n_step);
    }
    const double macs = (double)p->M * (double)p->N * depth;
    if (plan.m_blocks * plan.n_blocks == 1 && macs < TASK_MACS)
        plan.group = (int64_t)(TASK_MACS / macs);
    return plan;
}

/* Where product `index` of the batch finds a matrix. */
static int64_t batch_offset(const talc_matmul_problem *p, const int64_t strides[TALC_MAX_RANK],
                            int64_t index)
{
    return talc_walk_offset(p->batch_rank, p->batch_dims, strides, index);
}

// ---- Epilogue -----------------------------------------------------------------------------------

#define ADD_TO_ROW(constant, suffix, type, A)                                                      \
    static void add_to_row_##suffix(int64_t count, type *y, const type *added)                     \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            y[i] += added[i];                                                                      \
    }

TALC_CPU_FLOATS(ADD_TO_ROW)

/* y += added for `count` neighbours in a row; NULL adds nothing. */
static void add_to_row(talc_dtype dtype, int64_t count, void *y, const void *added)
{
    if (added != NULL)
        TALC_CPU_CALL(dtype, add_to_row, (count, y, added));
}

/* y = act(y + bias + residual) for a block, row by row. */
static void end_block(const talc_matmul_problem *p, int64_t rows, int64_t columns, void *y,
                      const void *bias, const void *residual)
{
    if (!p->bias && !p->residual && p->activation == TALC_ACTIVATION_NONE)
        return;
    for (int64_t m = 0; m < rows; m++) {
        void *y_m = (char *)y + m * p->N * (int64_t)talc_dtype_size(p->dtype);
        const void *residual_m = talc_cpu_at(p->dtype, residual, m * p->N);
        add_to_row(p->dtype, columns, y_m, bias);
        add_to_row(p->dtype, columns, y_m, residual_m);
        talc_cpu_activate(p->dtype, p->activation, columns, y_m);
    }
}

// ---- openblas -----------------------------------------------------------------------------------

/* A row times B is op(B)^T times that row. False where a size passes 32 bits. */
static bool multiply_vector(const talc_matmul_problem *p, int64_t rows, int64_t columns, void *y,
                            const void *a, const void *b)
{
    if (p->M == 1)
        return talc_blas_gemv(p->dtype, !p->transpose_b, p->transpose_b ? columns : p->K,
                              p->transpose_b ? p->K : columns, b, p->ldb, a,
                              p->transpose_a ? p->lda : 1, y);
    return talc_blas_gemv(p->dtype, p->transpose_a, p->transpose_a ? p->K : rows,
                          p->transpose_a ? rows : p->K, a, p->lda, b, p->transpose_b ? 1 : p->ldb,
                          y);
}

/* Rows m .. m+rows-1 and columns n .. n+columns-1 of one product. */
static void multiply_block(const matmul_plan *plan, int64_t product, int64_t m, int64_t n)
{
    const talc_matmul_problem *p = plan->problem;
    const talc_matmul_arguments *arguments = plan->arguments;
    const int64_t rows = talc_smaller(plan->m_step, p->M - m);
    const int64_t columns = talc_smaller(plan->n_step, p->N - n);
    const int64_t offset = (product * p->M + m) * p->N + n;
    void *y = (char *)arguments->y + offset * (int64_t)talc_dtype_size(p->dtype);

    const void *a =
        talc_cpu_at(p->dtype, arguments->a,
                    batch_offset(p, p->a_strides, product) + (p->transpose_a ? m : m * p->lda));
    const void *b =
        talc_cpu_at(p->dtype, arguments->b,
                    batch_offset(p, p->b_strides, product) + (p->transpose_b ? n * p->ldb : n));
    if (!plan->by_gemv || !multiply_vector(p, rows, columns, y, a, b))
        talc_blas_gemm(p->dtype, p->transpose_a, p->transpose_b, rows, columns, p->K, 1, a, p->lda,
                       b, p->ldb, 0, y, p->N);
    end_block(p, rows, columns, y, talc_cpu_at(p->dtype, arguments->bias, n),
              talc_cpu_at(p->dtype, arguments->residual, offset));
}

static void openblas_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const matmul_plan *plan = context;
    const int64_t n = task % plan->n_blocks * plan->n_step;
    const int64_t m = task / plan->n_blocks % plan->m_blocks * plan->m_step;
    const int64_t first = task / plan->n_blocks / plan->m_blocks * plan->group;
    const int64_t end = talc_smaller(plan->problem->batch, first + plan->group);
    talc_openblas_enter();
    for (int64_t product = first; product < end; product++)
        multiply_block(plan, product, m, n);
    talc_openblas_leave();
}

static talc_status openblas_run(matmul_plan plan)
{
    const int64_t groups = talc_ceil_div(plan.problem->batch, plan.group);
    return talc_cpu_parallel(groups * plan.m_blocks * plan.n_blocks, openblas_task, &plan);
}

static const char *gemm_plan(const talc_device *device, const void *problem, size_t limit,
                             talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_matmul_problem *p = problem;
    const char *refusal = talc_cpu_refuses(p->dtype);
    return refusal != NULL ? refusal : talc_openblas_refuses();
}

static talc_status gemm_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    return openblas_run(plan_of(problem, arguments, false));
}

static const char *gemv_plan(const talc_device *device, const void *problem, size_t limit,
                             talc_plan *plan)
{
    const talc_matmul_problem *p = problem;
    if (p->M != 1 && p->N != 1)
        return "the result has several rows and several columns";
    return gemm_plan(device, problem, limit, plan);
}

static talc_status gemv_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    return openblas_run(plan_of(problem, arguments, true));
}

// ---- reference ----------------------------------------------------------------------------------

/* One row of one product. */
static void reference_row(const talc_matmul_problem *p, const talc_matmul_arguments *arguments,
                          int64_t product, int64_t m)
{
    const int64_t a = batch_offset(p, p->a_strides, product);
    const int64_t b = batch_offset(p, p->b_strides, product);
    for (int64_t n = 0; n < p->N; n++) {
        const int64_t out = (product * p->M + m) * p->N + n;
        double sum = 0;
        for (int64_t k = 0; k < p->K; k++)
            sum += talc_cpu_load(p->dtype, arguments->a,
                                 a + (p->transpose_a ? k * p->lda + m : m * p->lda + k)) *
                   talc_cpu_load(p->dtype, arguments->b,
                                 b + (p->transpose_b ? n * p->ldb + k : k * p->ldb + n));
        if (p->bias)
            sum += talc_cpu_load(p->dtype, arguments->bias, n);
        if (p->residual)
            sum += talc_cpu_load(p->dtype, arguments->residual, out);
        talc_cpu_store(p->dtype, arguments->y, out, talc_cpu_activation(p->activation, sum));
    }
}

static void reference_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const matmul_plan *plan = context;
    const int64_t M = plan->problem->M;
    reference_row(plan->problem, plan->arguments, task / M, task % M);
}

static const char *float_plan(const talc_device *device, const void *problem, size_t limit,
                              talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    return talc_cpu_refuses(((const talc_matmul_problem *)problem)->dtype);
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    matmul_plan plan = { .problem = problem, .arguments = arguments };
    return talc_cpu_parallel(plan.problem->batch * plan.problem->M, reference_task, &plan);
}

const talc_algorithm talc_cpu_matmul[] = {
    { "openblas", "gemv", { "the data's own type, FMA", TALC_STRICT, false }, gemv_plan, gemv_run },
    { "openblas", "gemm", { "the data's own type, FMA", TALC_STRICT, false }, gemm_plan, gemm_run },
    { "reference", NULL, { "f64 accumulation", TALC_STRICT, true }, float_plan, reference_run },
    { .name = NULL },
};
