/// The family of matrix products: act( op(A) op(B) + bias + residual ) for a batch.
///
/// Words: ta, tb: a stored [K, M], b stored [N, K]. onea, oneb: one matrix for the whole batch.
/// gaps: 3 elements behind each stored row of a and b, which hold a huge number that shows in
/// whatever it gets into.
#include "ops/matmul.h"

#include "check/engine/activation.h"
#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"

#include <math.h>
#include <string.h>

typedef struct product_problem {
    talc_matmul_problem p;
    bool one_a, one_b, gaps;
} product_problem;

CHECK_PROBLEM(product_problem, talc_matmul_arguments)

enum { GAP = 3 };

static const char *const op_names[] = { "matmul", NULL };

// ---- Problem ------------------------------------------------------------------------------------

static int64_t rows_a(const talc_matmul_problem *p)
{
    return p->transpose_a ? p->K : p->M;
}

static int64_t rows_b(const talc_matmul_problem *p)
{
    return p->transpose_b ? p->N : p->K;
}

static const char *complete(check_problem *problem, const char **key)
{
    product_problem *self = writable(problem);
    talc_matmul_problem *p = &self->p;
    (void)key;
    const int64_t gap = self->gaps ? GAP : 0;
    const int64_t columns_a = p->transpose_a ? p->M : p->K;
    const int64_t columns_b = p->transpose_b ? p->K : p->N;
    int64_t count;
    if (columns_a > INT64_MAX - GAP || columns_b > INT64_MAX - GAP)
        return "matrices below 2^63 bytes";
    p->lda = columns_a + gap < 1 ? 1 : columns_a + gap;
    p->ldb = columns_b + gap < 1 ? 1 : columns_b + gap;
    if (!talc_check_elements(p->dtype, 3, (int64_t[]){ rows_a(p), p->lda, p->batch }, &count) ||
        !talc_check_elements(p->dtype, 3, (int64_t[]){ rows_b(p), p->ldb, p->batch }, &count) ||
        !talc_check_elements(p->dtype, 3, (int64_t[]){ p->M, p->N, p->batch }, &count))
        return "matrices below 2^63 bytes";
    p->batch_rank = p->batch == 1 ? 0 : 1;
    p->batch_dims[0] = p->batch == 1 ? 0 : p->batch;
    p->a_strides[0] = p->batch == 1 || self->one_a ? 0 : rows_a(p) * p->lda;
    p->b_strides[0] = p->batch == 1 || self->one_b ? 0 : rows_b(p) * p->ldb;
    return NULL;
}

// ---- Text ---------------------------------------------------------------------------------------

#define FIELD(name) offsetof(product_problem, name)

static const check_key keys[] = {
    { "b", CHECK_NUMBER, .offset = FIELD(p.batch), .flags = CHECK_OPTIONAL },
    { "m", CHECK_NUMBER, .offset = FIELD(p.M) },
    { "n", CHECK_NUMBER, .offset = FIELD(p.N) },
    { "k", CHECK_NUMBER, .offset = FIELD(p.K) },
    { "_ta", CHECK_FLAG, .offset = FIELD(p.transpose_a) },
    { "_tb", CHECK_FLAG, .offset = FIELD(p.transpose_b) },
    { "_onea", CHECK_FLAG, .offset = FIELD(one_a) },
    { "_oneb", CHECK_FLAG, .offset = FIELD(one_b) },
    { "_gaps", CHECK_FLAG, .offset = FIELD(gaps) },
    { "_bias", CHECK_FLAG, .offset = FIELD(p.bias) },
    { "_residual", CHECK_FLAG, .offset = FIELD(p.residual) },
    CHECK_ACTIVATION_KEYS(FIELD(p.activation)),
    CHECK_FLOAT_KEYS(FIELD(p.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    (void)op;
    writable(problem)->p.batch = 1;
}

static int64_t draw_extent(uint64_t *state)
{
    return CHECK_PICK(state, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65);
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    product_problem *self = writable(problem);
    talc_matmul_problem *p = &self->p;
    p->dtype = talc_check_draw_float(state);
    p->batch = talc_check_draw(state, 0, 1) == 0 ? 1 : talc_check_draw(state, 2, 5);
    p->M = draw_extent(state);
    p->N = draw_extent(state);
    p->K = talc_check_draw(state, 0, 19) == 0 ? 0 : draw_extent(state);
    p->transpose_a = talc_check_draw(state, 0, 1) != 0;
    p->transpose_b = talc_check_draw(state, 0, 1) != 0;
    self->one_a = talc_check_draw(state, 0, 4) == 0;
    self->one_b = talc_check_draw(state, 0, 2) == 0;
    self->gaps = talc_check_draw(state, 0, 3) == 0;
    p->bias = talc_check_draw(state, 0, 2) == 0;
    p->residual = talc_check_draw(state, 0, 2) == 0;
    p->activation = talc_check_draw_activation(state);
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { A, B, BIAS, RESIDUAL, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const product_problem *self = read_only(problem);
    const talc_matmul_problem *p = &self->p;
    const int64_t a_count = self->one_a ? 1 : p->batch, b_count = self->one_b ? 1 : p->batch;
    const talc_dims y = TALC_DIMS(p->batch, p->M, p->N);
    list[A] = talc_check_operand("a", CHECK_READ, p->dtype, TALC_DIMS(a_count, rows_a(p), p->lda));
    list[B] = talc_check_operand("b", CHECK_READ, p->dtype, TALC_DIMS(b_count, rows_b(p), p->ldb));
    if (p->bias)
        list[BIAS] = talc_check_operand("bias", CHECK_READ, p->dtype, TALC_DIMS(p->N));
    if (p->residual)
        list[RESIDUAL] = talc_check_operand("residual", CHECK_READ, p->dtype, y);
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, p->dtype, y);
}

// ---- Data ---------------------------------------------------------------------------------------

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_matmul_problem *p = &read_only(problem)->p;
    if (kind ==
        TALC_CHECK_EXACT) /* a longer sum would leave integers of 1 only, and then not fit */
        return (double)p->K < (talc_check_format(p->dtype).integers / 4);
    return kind <= TALC_CHECK_INFINITY;
}

/* Makes a's or b's elements large and small by turns along k. Every other column or row of the
 * other one has zeros for the large ones. */
static void set_apart(const product_problem *self, uint64_t seed, double *const of[CHECK_OPERANDS],
                      const check_operand *list)
{
    const talc_matmul_problem *p = &self->p;
    const int first = talc_check_bits(seed, 0) % 2 == 0 ? A : B, second = A + B - first;
    talc_check_fill(of[first], list[first].count, p->dtype, TALC_CHECK_RANDOM, 0, 1, seed);
    talc_check_fill(of[second], list[second].count, p->dtype, TALC_CHECK_RANDOM, 0, 1, seed + 1);
    talc_check_leave_zero(of[first], list[first].count, p->dtype);
    for (int i = A; i <= B; i++) {
        const bool along_k = i == A ? !p->transpose_a : p->transpose_b;
        const int64_t rows = list[i].dims[1], columns = list[i].dims[2];
        for (int64_t j = 0; j < list[i].count; j++) {
            const int64_t row = j / columns % rows, column = j % columns;
            const bool large = (along_k ? column : row) % 2 == 0,
                       alone = (along_k ? row : column) % 2 != 0;
            talc_check_scale(of[i] + j, 1, p->dtype,
                             i == first ? (large ? talc_check_apart_large : talc_check_apart_small)
                             : large && alone ? 0
                                              : talc_check_apart_second);
        }
    }
    for (int i = BIAS; i < Y; i++)
        talc_check_scale(of[i], list[i].count, p->dtype, talc_check_apart_added);
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const product_problem *self = read_only(problem);
    const talc_matmul_problem *p = &self->p;
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_matmul, problem, list);
    /* The bias and the residual count as a product each. */
    const double largest = talc_check_exact_largest(p->dtype, (double)p->K + 2, 8);
    /* One odd value is enough: in a or in b. */
    const bool one =
        kind == TALC_CHECK_HUGE || kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    const int odd = (talc_check_bits(seed, 4) & 1) != 0 && list[A].count > 0 ? A : B;
    for (int i = A; i < Y; i++)
        talc_check_fill(values->of[i], list[i].count, p->dtype,
                        one && i != odd ? TALC_CHECK_RANDOM : kind, largest, 1,
                        talc_check_bits(seed, (uint64_t)i + 5));
    /* Beside a huge value others may lose digits, which counts where it meets a zero. */
    if (kind == TALC_CHECK_HUGE)
        talc_check_put_zeros(values->of[odd == A ? B : A], list[odd == A ? B : A].count,
                             talc_check_bits(seed, 9));
    const check_tiny tiny = kind == TALC_CHECK_TINY
                                ? talc_check_draw_tiny(p->dtype, seed + (uint64_t)list[A].count)
                                : CHECK_TINY_FILLED;
    if (tiny == CHECK_TINY_APART)
        set_apart(self, talc_check_bits(seed, 10), values->of, list);
    for (int i = A; i < Y && tiny == CHECK_TINY_SMALL; i++)
        talc_check_make_small(values->of[i], list[i].count, p->dtype, i <= B ? 1 : 2);
    /* A negative bias of all outputs of a column would leave a ReLU nothing but zeros. */
    for (int64_t n = 0; p->bias && p->activation == TALC_ACTIVATION_RELU && n < p->N; n++)
        if (kind == TALC_CHECK_RANDOM)
            values->of[BIAS][n] = fabs(values->of[BIAS][n]);
    for (int i = A; self->gaps && i <= B; i++)
        for (int64_t j = 0; j < list[i].count; j++)
            if (j % list[i].dims[2] >= list[i].dims[2] - GAP)
                values->of[i][j] = talc_check_rounded(p->dtype, 1e30);
}

// ---- Oracle -------------------------------------------------------------------------------------

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const product_problem *self = read_only(problem);
    const talc_matmul_problem *p = &self->p;
    const int64_t n = index % p->N, m = index / p->N % p->M, product = index / p->N / p->M;
    const double *a = values->of[A] + (self->one_a ? 0 : product * rows_a(p) * p->lda);
    const double *b = values->of[B] + (self->one_b ? 0 : product * rows_b(p) * p->ldb);
    long double sum = 0, sizes = 0;
    for (int64_t k = 0; k < p->K; k++) {
        const long double term =
            (long double)(p->transpose_a ? a[k * p->lda + m] : a[m * p->lda + k]) *
            (p->transpose_b ? b[n * p->ldb + k] : b[k * p->ldb + n]);
        sum += term;
        sizes += fabsl(term);
    }
    if (p->bias) {
        sum += values->of[BIAS][n];
        sizes += fabs(values->of[BIAS][n]);
    }
    if (p->residual) {
        sum += values->of[RESIDUAL][index];
        sizes += fabs(values->of[RESIDUAL][index]);
    }
    check_expected expected = { .value = sum, .K = (double)p->K, .S = (double)sizes };
    talc_check_activate(&expected, p->activation, p->dtype);
    return expected;
}

static double terms(const check_problem *problem)
{
    return (double)read_only(problem)->p.K + 1;
}

// ---- In a model ---------------------------------------------------------------------------------

/* [M, K] by [K, N], or for linear by [N, K]. */
static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    const talc_dims a = ran->inputs[A].dims, b = ran->inputs[B].dims;
    product_problem *self = writable(problem);
    talc_matmul_problem *p = &self->p;
    p->dtype = ran->inputs[A].dtype;
    p->transpose_b = strcmp(ran->op, "linear") == 0;
    p->K = a.dim[a.rank - 1];
    p->N = p->transpose_b ? b.dim[0] : b.dim[b.rank - 1];
    p->batch = 1;
    p->M = p->N > 0 ? ran->output.count / p->N : 0;
    p->bias = ran->count > BIAS && ran->inputs[BIAS].of != NULL;
    p->residual = ran->count > RESIDUAL && ran->inputs[RESIDUAL].of != NULL;
    return complete(problem, &(const char *){ "" }) == NULL;
}

#define POINTER(name) offsetof(talc_matmul_arguments, name)

// ---- In models ----------------------------------------------------------------------------------

/* Matrix `batch` of the result, whose leading dimensions are `dims`, is made with this one of the
 * operand. */
static check_array matrix_of(const check_array *operand, talc_dims dims, int64_t batch,
                             int64_t rows, int64_t columns)
{
    const int leading = operand->dims.rank < 2 ? 0 : operand->dims.rank - 2;
    const int64_t count = rows * columns,
                  at = talc_check_stretched(leading, operand->dims.dim, dims, batch) * count;
    return (check_array){ operand->dtype, TALC_DIMS(rows, columns), count, operand->of + at,
                          operand->off == NULL ? NULL : operand->off + at };
}

/* One product at a time, as the family knows no batch of which an operand repeats a part. */
static bool matmul_expected(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    const check_array *a = &ran->inputs[0], *b = &ran->inputs[1];
    const int ra = a->dims.rank, rb = b->dims.rank;
    const int64_t M = ra < 2 ? 1 : a->dims.dim[ra - 2], K = a->dims.dim[ra - 1];
    const int64_t N = rb < 2 ? 1 : b->dims.dim[rb - 1];
    talc_dims batch =
        ran->output.dims; /* less the dimensions of the matrices, of which a vector has one fewer */
    batch.rank -= (ra > 1) + (rb > 1);
    bool done = true;
    for (int64_t i = 0; done && i < ran->output.count; i += M * N) {
        check_array inputs[] = { matrix_of(a, batch, i / (M * N), M, K),
                                 matrix_of(b, batch, i / (M * N), K, N) };
        const check_ran one = { .op = ran->op,
                                .problem = ran->problem,
                                .count = 2,
                                .inputs = inputs,
                                .output = { .dtype = ran->output.dtype, .count = M * N } };
        check_model_expected expected_of_one = { expected->element + i, expected->spread + i,
                                                 expected->activation };
        done = talc_check_linear(direction, &one, &expected_of_one);
    }
    return done;
}

static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (strcmp(ran->op, "matmul") == 0)
        return matmul_expected(direction, ran, expected);
    expected->activation = ((const talc_matmul_problem *)ran->problem)->activation;
    return talc_check_linear(direction, ran, expected);
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "matmul:m5n6k7", "matmul:b3m9n17k33_ta", "matmul:m33n31k65_tb_bias_relu",
    "matmul:b2m17n9k8_ta_tb_residual", "matmul:m1n130k257_bias", "matmul:m131n1k129_f64",
    "matmul:m3n5k1", "matmul:m1n1k5000", "matmul:m130n260k70_ta_bias_relu",
    "matmul:b2m33n70k1100_tb_onea_gaps_residual",
    NULL,
};

static const char *const edges[] = {
    /* Each extent around the widths of vectors and tiles. */
    "matmul:m1n1k{1|300}", "matmul:m1n17k9", "matmul:m17n1k9", "matmul:m2n3k4", "matmul:m3n3k1",
    "matmul:m5n7k{8|5000}", "matmul:m7n8k15", "matmul:m8n9k16", "matmul:m15n16k17",
    "matmul:m16n17k31", "matmul:m17n15k32", "matmul:m31n33k33", "matmul:m32n32k32",
    "matmul:m33n31k64", "matmul:m63n65k7", "matmul:m64n64k64", "matmul:m65n63k65",
    "matmul:m127n129k5", "matmul:m129n127k3", "matmul:m300n5k7", "matmul:m5n300k7",
    "matmul:m2n2k100001",

    /* Transposed operands, batches, epilogues, f64. */
    "matmul:{|b3}m9n11k13_{ta|tb}",
    "matmul:m9n11k13_{ta_tb|bias|residual|relu|sigmoid|bias_tanh|bias_residual_relu|hardswish|bias_silu|gelu_f64|leaky_relu|f64}",
    "matmul:m63n1k{16|700}_ta_tb_bias", "matmul:m1n11k13_ta", "matmul:m9n1k13_tb",
    "matmul:m33n35k31_ta_tb", "matmul:b0m3n4k5",
    "matmul:b2m9n11k13{|_tb_bias_relu_f64}", "matmul:b5m1n1k7_ta_tb", "matmul:b300m2n3k4",
    "matmul:b2m33n17k9_tb_bias_residual_relu", "matmul:m33n31k65_ta_f64", "matmul:m5n7k5000_f64",

    /* Few rows and a transposed B: one to 256 threads a column, columns that do not fill a block,
     * rows that are no multiple of four. */
    "matmul:m1n67k{10|100}_tb_bias", "matmul:m6n67k{1|4|8|24|48|240|1152|4100}_tb_bias",
    "matmul:b3m7n9k{20|600}_tb_residual_f64", "matmul:m128n3k12_tb",

    /* Strides: one matrix for the whole batch, gaps between rows, dimensions stored in reverse. */
    "matmul:b3m9n11k13_{onea|oneb|ta_onea_oneb|tb_oneb_gaps_bias}", "matmul:b2m9n11k13_gaps",
    "matmul:m33n17k9_ta_tb_gaps_f64", "matmul:m9n11k0_bias_relu",

    /* Transposed products whose sums are longer than a block. */
    "matmul:m9n11k513_{ta|tb|ta_tb|ta_f64|ta_tb_f64}", "matmul:b2m5n7k2049_ta_tb_bias",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "matmul:b2m5n6k7_ta_tb_bias_residual_relu\n"
             "    b may be left out; ta: a is stored [K, M]; onea, oneb: one matrix for all\n"
             "    products; gaps: rows of a and b do not follow each other\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

const check_direction talc_check_matmul = {
    .family = &family,
    .ops = op_names,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .factors = 1U << A | 1U << B,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_matmul,
    .arguments = { POINTER(a), POINTER(b), POINTER(bias), POINTER(residual), POINTER(y) },
};
