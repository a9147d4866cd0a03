/// The family of matrix products: act( op(A) op(B) + bias + residual ) for a batch.
///
/// Words: ta, tb: a stored [K, M], b stored [N, K]. onea, oneb: one matrix for the whole batch. gaps: 3 elements behind each
/// stored row of a and b, which hold a huge number that spoils whatever it gets into.
#include "ops/matmul.h"

#include "check/activation.h"
#include "check/data.h"
#include "check/family.h"
#include "check/model_due.h"
#include "check/text.h"
#include "ops/backend.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct product_problem {
    talc_matmul_problem p;
    bool one_a, one_b, gaps;
} product_problem;

_Static_assert(sizeof(product_problem) <= CHECK_PROBLEM_BYTES, "a problem has to fit");

enum { GAP = 3 };

static const char *const op_names[] = { "matmul", NULL };

static const product_problem *read_only(const check_problem *problem)
{
    return (const product_problem *)(const void *)problem;
}

// ---- Problem ------------------------------------------------------------------------------------------------

static int64_t rows_a(const talc_matmul_problem *p)
{
    return p->transpose_a ? p->K : p->M;
}

static int64_t rows_b(const talc_matmul_problem *p)
{
    return p->transpose_b ? p->N : p->K;
}

/* Sets what follows from the sizes and words; false when an operand is too large. */
static bool complete(product_problem *own)
{
    talc_matmul_problem *p = &own->p;
    const int64_t gap = own->gaps ? GAP : 0;
    const int64_t columns_a = p->transpose_a ? p->M : p->K;
    const int64_t columns_b = p->transpose_b ? p->K : p->N;
    int64_t count;
    if (columns_a > INT64_MAX - GAP || columns_b > INT64_MAX - GAP)
        return false;
    p->lda = columns_a + gap < 1 ? 1 : columns_a + gap;
    p->ldb = columns_b + gap < 1 ? 1 : columns_b + gap;
    if (!talc_check_elements(p->dtype, 3, (int64_t[]){ rows_a(p), p->lda, p->batch }, &count) ||
        !talc_check_elements(p->dtype, 3, (int64_t[]){ rows_b(p), p->ldb, p->batch }, &count) ||
        !talc_check_elements(p->dtype, 3, (int64_t[]){ p->M, p->N, p->batch }, &count))
        return false;
    p->batch_rank = p->batch == 1 ? 0 : 1;
    p->batch_dims[0] = p->batch == 1 ? 0 : p->batch;
    p->a_strides[0] = p->batch == 1 || own->one_a ? 0 : rows_a(p) * p->lda;
    p->b_strides[0] = p->batch == 1 || own->one_b ? 0 : rows_b(p) * p->ldb;
    return true;
}

// ---- Text ---------------------------------------------------------------------------------------------------

enum { F32, F64, TA, TB, ONEA, ONEB, GAPS, BIAS, RESIDUAL, RELU, SIGMOID, TANH };

static void apply_word(product_problem *own, int word, unsigned *seen)
{
    talc_matmul_problem *p = &own->p;
    if (word == F32 || word == F64) {
        *seen |= 1u << F32 | 1u << F64;
        p->dtype = word == F64 ? TALC_F64 : TALC_F32;
    } else if (word >= RELU) {
        *seen |= 1u << RELU | 1u << SIGMOID | 1u << TANH;
        p->activation = word == RELU      ? TALC_ACTIVATION_RELU
                        : word == SIGMOID ? TALC_ACTIVATION_SIGMOID
                                          : TALC_ACTIVATION_TANH;
    }
    p->transpose_a |= word == TA;
    p->transpose_b |= word == TB;
    own->one_a |= word == ONEA;
    own->one_b |= word == ONEB;
    own->gaps |= word == GAPS;
    p->bias |= word == BIAS;
    p->residual |= word == RESIDUAL;
}

static bool parse(const char *op, const char *text, check_problem *problem)
{
    static const char *const words[] = { "f32",     "f64",  "ta",   "tb",       "onea",
                                         "oneb",    "gaps", "bias", "residual", "relu",
                                         "sigmoid", "tanh", NULL };
    memset(problem, 0, sizeof *problem);
    product_problem *own = (product_problem *)(void *)problem;
    talc_matmul_problem *p = &own->p;
    p->batch = 1;
    check_reader r = talc_check_reader(op, text);
    if (!talc_check_read_field(&r, 'b', true, &p->batch) ||
        !talc_check_read_field(&r, 'm', false, &p->M) ||
        !talc_check_read_field(&r, 'n', false, &p->N) ||
        !talc_check_read_field(&r, 'k', false, &p->K))
        return false;
    unsigned seen = 0;
    for (int word = 0; word >= 0;) {
        if (!talc_check_read_word(&r, words, &seen, &word))
            return false;
        apply_word(own, word, &seen);
    }
    return complete(own) || talc_check_unexpected_at(&r, text, "matrices below 2^63 bytes");
}

static const char *op_of(const check_problem *problem)
{
    (void)problem;
    return op_names[0];
}

static const char *print(const check_problem *problem, char text[TALC_CHECK_TEXT])
{
    const product_problem *own = read_only(problem);
    const talc_matmul_problem *p = &own->p;
    text[0] = '\0';
    talc_check_append(text, "matmul:b%" PRId64 "m%" PRId64 "n%" PRId64 "k%" PRId64, p->batch, p->M,
                      p->N, p->K);
    talc_check_append(text, "%s%s%s%s%s%s%s", p->transpose_a ? "_ta" : "",
                      p->transpose_b ? "_tb" : "", own->one_a ? "_onea" : "",
                      own->one_b ? "_oneb" : "", own->gaps ? "_gaps" : "", p->bias ? "_bias" : "",
                      p->residual ? "_residual" : "");
    if (p->activation != TALC_ACTIVATION_NONE)
        talc_check_append(text, "_%s", talc_activation_name(p->activation));
    talc_check_append(text, "%s", p->dtype == TALC_F64 ? "_f64" : "");
    return text;
}

static void random_problem(uint64_t seed, check_problem *problem)
{
    static const int extents[] = { 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65 };
    enum { LAST = sizeof extents / sizeof *extents - 1 };
    uint64_t state = talc_check_bits(seed, 3);
    memset(problem, 0, sizeof *problem);
    product_problem *own = (product_problem *)(void *)problem;
    talc_matmul_problem *p = &own->p;
    p->dtype = talc_check_draw(&state, 0, 3) == 0 ? TALC_F64 : TALC_F32;
    p->batch = talc_check_draw(&state, 0, 1) == 0 ? 1 : talc_check_draw(&state, 2, 5);
    p->M = extents[talc_check_draw(&state, 0, LAST)];
    p->N = extents[talc_check_draw(&state, 0, LAST)];
    p->K = talc_check_draw(&state, 0, 19) == 0 ? 0 : extents[talc_check_draw(&state, 0, LAST)];
    p->transpose_a = talc_check_draw(&state, 0, 1) != 0;
    p->transpose_b = talc_check_draw(&state, 0, 1) != 0;
    own->one_a = talc_check_draw(&state, 0, 4) == 0;
    own->one_b = talc_check_draw(&state, 0, 2) == 0;
    own->gaps = talc_check_draw(&state, 0, 3) == 0;
    p->bias = talc_check_draw(&state, 0, 2) == 0;
    p->residual = talc_check_draw(&state, 0, 2) == 0;
    if (talc_check_draw(&state, 0, 2) == 0)
        p->activation = (talc_activation)talc_check_draw(&state, TALC_ACTIVATION_RELU,
                                                         TALC_ACTIVATION_COUNT - 1);
    complete(own);
}

// ---- Operands -----------------------------------------------------------------------------------------------

/* Where each operand stands among those that the problem has; -1: it has not. */
typedef struct places {
    int a, b, bias, residual, y, count;
} places;

static places places_of(const talc_matmul_problem *p)
{
    places at = { .a = 0, .b = 1, .bias = -1, .residual = -1, .count = 2 };
    if (p->bias)
        at.bias = at.count++;
    if (p->residual)
        at.residual = at.count++;
    at.y = at.count++;
    return at;
}

static check_operand operand(const char *name, check_role role, talc_dtype dtype, int64_t batch,
                             int64_t rows, int64_t columns)
{
    const bool empty = batch == 0 || rows == 0 || columns == 0;
    return (check_operand){ .name = name,
                            .role = role,
                            .dtype = dtype,
                            .rank = 3,
                            .dims = { batch, rows, columns },
                            .count = empty ? 0 : batch * rows * columns };
}

static int operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const product_problem *own = read_only(problem);
    const talc_matmul_problem *p = &own->p;
    const places at = places_of(p);
    list[at.a] = operand("a", CHECK_READ, p->dtype, own->one_a ? 1 : p->batch, rows_a(p), p->lda);
    list[at.b] = operand("b", CHECK_READ, p->dtype, own->one_b ? 1 : p->batch, rows_b(p), p->ldb);
    if (p->bias)
        list[at.bias] = (check_operand){ "bias", CHECK_READ, p->dtype, 1, { p->N }, p->N };
    if (p->residual)
        list[at.residual] = operand("residual", CHECK_READ, p->dtype, p->batch, p->M, p->N);
    list[at.y] = operand("y", CHECK_WRITTEN, p->dtype, p->batch, p->M, p->N);
    return at.count;
}

// ---- Data ---------------------------------------------------------------------------------------------------

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_matmul_problem *p = &read_only(problem)->p;
    if (kind ==
        TALC_CHECK_EXACT) /* a longer sum would leave integers of 1 only, and then not fit */
        return (double)p->K < (p->dtype == TALC_F32 ? 0x1p22 : 0x1p51);
    return kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const product_problem *own = read_only(problem);
    const talc_matmul_problem *p = &own->p;
    const places at = places_of(p);
    check_operand list[CHECK_OPERANDS];
    operands(problem, list);
    /* The bias and the residual count as a product each. */
    const double largest = talc_check_exact_largest(p->dtype, (double)p->K + 2, 8);
    /* One odd value is enough: in a or in b. */
    const bool one =
        kind == TALC_CHECK_HUGE || kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    const int odd = (talc_check_bits(seed, 4) & 1) != 0 && list[at.a].count > 0 ? at.a : at.b;
    for (int i = 0; i < at.y; i++)
        talc_check_fill(values->of[i], list[i].count, p->dtype,
                        one && i != odd ? TALC_CHECK_RANDOM : kind, largest, 1,
                        talc_check_bits(seed, (uint64_t)i + 5));
    /* A negative bias of all outputs of a column would leave a ReLU nothing but zeros. */
    for (int64_t n = 0; p->bias && p->activation == TALC_ACTIVATION_RELU && n < p->N; n++)
        if (kind == TALC_CHECK_RANDOM)
            values->of[at.bias][n] = fabs(values->of[at.bias][n]);
    for (int i = at.a; own->gaps && i <= at.b; i++)
        for (int64_t j = 0; j < list[i].count; j++)
            if (j % list[i].dims[2] >= list[i].dims[2] - GAP)
                values->of[i][j] = talc_check_rounded(p->dtype, 1e30);
}

// ---- Oracle -------------------------------------------------------------------------------------------------

static check_due due_of(const check_problem *problem, const check_values *values, int operand_index,
                        int64_t index)
{
    (void)operand_index;
    const product_problem *own = read_only(problem);
    const talc_matmul_problem *p = &own->p;
    const places at = places_of(p);
    const int64_t n = index % p->N, m = index / p->N % p->M, product = index / p->N / p->M;
    const double *a = values->of[at.a] + (own->one_a ? 0 : product * rows_a(p) * p->lda);
    const double *b = values->of[at.b] + (own->one_b ? 0 : product * rows_b(p) * p->ldb);
    long double sum = 0, sizes = 0;
    for (int64_t k = 0; k < p->K; k++) {
        const long double term =
            (long double)(p->transpose_a ? a[k * p->lda + m] : a[m * p->lda + k]) *
            (p->transpose_b ? b[n * p->ldb + k] : b[k * p->ldb + n]);
        sum += term;
        sizes += fabsl(term);
    }
    if (p->bias) {
        sum += values->of[at.bias][n];
        sizes += fabs(values->of[at.bias][n]);
    }
    if (p->residual) {
        sum += values->of[at.residual][index];
        sizes += fabs(values->of[at.residual][index]);
    }
    check_due due = { .value = sum, .K = (double)p->K, .S = (double)sizes };
    talc_check_activate(&due, p->activation, p->dtype);
    return due;
}

static double terms(const check_problem *problem)
{
    return (double)read_only(problem)->p.K + 1;
}

// ---- In a model ---------------------------------------------------------------------------------------------

/* [M, K] by [K, N], or by [N, K]. */
static bool pose(const check_ran *ran, bool transposed, check_problem *problem)
{
    const talc_dims a = ran->inputs[0].dims, b = ran->inputs[1].dims;
    memset(problem, 0, sizeof *problem);
    product_problem *own = (product_problem *)(void *)problem;
    talc_matmul_problem *p = &own->p;
    p->dtype = ran->inputs[0].dtype;
    p->transpose_b = transposed;
    p->K = a.dim[a.rank - 1];
    p->N = transposed ? b.dim[0] : b.dim[b.rank - 1];
    p->batch = 1;
    p->M = p->N > 0 ? ran->output.count / p->N : 0;
    p->bias = ran->count > 2 && ran->inputs[2].of != NULL;
    p->residual = ran->count > 3 && ran->inputs[3].of != NULL;
    return complete(own);
}

bool talc_check_linear_pose(const check_ran *ran, check_problem *problem)
{
    return pose(ran, true, problem);
}

bool talc_check_matmul_pose(const check_ran *ran, check_problem *problem)
{
    return pose(ran, false, problem);
}

// ---- Rows ---------------------------------------------------------------------------------------------------

static const void *posed(const check_problem *problem)
{
    return &read_only(problem)->p;
}

static bool is_empty(const check_problem *problem)
{
    const talc_matmul_problem *p = &read_only(problem)->p;
    return p->batch == 0 || p->M == 0 || p->N == 0;
}

static talc_status run(const talc_algorithm *row, talc_device *device, const check_problem *problem,
                       void *const pointers[CHECK_OPERANDS], const talc_plan *plan, void *workspace)
{
    const talc_matmul_problem *p = &read_only(problem)->p;
    const places at = places_of(p);
    const talc_matmul_arguments arguments = {
        .base = { workspace },
        .y = pointers[at.y],
        .a = pointers[at.a],
        .b = pointers[at.b],
        .bias = p->bias ? pointers[at.bias] : NULL,
        .residual = p->residual ? pointers[at.residual] : NULL,
    };
    return row->run(device, p, plan, &arguments);
}

const check_family talc_check_matmul = {
    .ops = op_names,
    .parse = parse,
    .print = print,
    .op = op_of,
    .random = random_problem,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .due = due_of,
    .terms = terms,
    .list = offsetof(struct talc_backend, matmul),
    .posed = posed,
    .is_empty = is_empty,
    .run = run,
};
