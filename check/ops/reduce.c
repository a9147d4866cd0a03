/// The family of reductions: sum, mean, max, argmax, min, argmin, var, logsumexp. `reversed` in a
/// text: x is stored with its dimensions in the reverse order; `population`: the variance is that
/// of the elements, with correction 0 instead of 1; `large`: its elements, of f64, are so large
/// that the sum of their squares is finite, and the square of their sum is not.
///
/// Sums are held to the bound of their class, which grows with K. ops/reduce.h promises less error
/// for long sums, min(K, 136 + K / 2^28) u S; tests/ops/test_reduce.c holds the algorithms of the
/// CPU to that. A mean has K - 1 additions and one division, so no more roundings than K. Largest
/// values and places have no rounding; nor have sums of integers, which wrap around. Variances and
/// logarithms of sums are held to K roundings of what ops/reduce.h names.
#include "ops/reduce.h"

#include "check/engine/data.h"
#include "check/ops/reduce.h"
#include "check/engine/exponentials.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "ops/observed.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct reduce_problem {
    talc_reduce_problem p;
    check_layout x;
    bool reduced[TALC_MAX_RANK];
    bool population, large;
    check_part kept, along; /* x's dimensions of both kinds, not merged */
} reduce_problem;

CHECK_PROBLEM(reduce_problem, talc_reduce_arguments)

static const char *const op_names[] = { "sum",    "mean", "max",       "argmax", "min",
                                        "argmin", "var",  "logsumexp", NULL };

static bool is_sum(const talc_reduce_problem *p)
{
    return p->function == TALC_SUM || p->function == TALC_MEAN;
}

static bool is_index(const talc_reduce_problem *p)
{
    return p->function == TALC_ARGMAX || p->function == TALC_ARGMIN;
}

/* Results are elements, or say where they stand. */
static bool is_extreme(const talc_reduce_problem *p)
{
    return is_index(p) || p->function == TALC_MAX || p->function == TALC_MIN;
}

// ---- Problem ------------------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    reduce_problem *self = writable(problem);
    talc_reduce_problem *p = &self->p;
    if (!talc_check_lay_out(&self->x) ||
        !talc_check_part_of(&self->x, self->reduced, false, &self->kept) ||
        !talc_check_part_of(&self->x, self->reduced, true, &self->along))
        return "an input below 2^63 bytes";
    if (self->large && talc_check_is_narrow(self->x.dtype))
        return "large elements of f64";
    p->outputs = self->kept.count;
    p->K = self->along.count;
    if (p->K == 0 && is_extreme(p))
        return "at least one element to reduce";
    p->dtype = self->x.dtype;
    p->correction = p->function == TALC_VAR && !self->population ? 1 : 0;
    p->y_dtype = is_index(p) || (p->function == TALC_SUM && !talc_dtype_is_float(p->dtype))
                     ? TALC_I64
                     : p->dtype;
    p->kept_rank = self->kept.rank;
    p->reduced_rank = self->along.rank;
    memcpy(p->kept_dims, self->kept.dims, sizeof p->kept_dims);
    memcpy(p->kept_strides, self->kept.strides, sizeof p->kept_strides);
    memcpy(p->reduced_dims, self->along.dims, sizeof p->reduced_dims);
    memcpy(p->reduced_strides, self->along.strides, sizeof p->reduced_strides);
    if (self->x.count > 0) {
        p->kept_rank = talc_shape_coalesce(p->kept_rank, p->kept_dims,
                                           (int64_t *const[]){ p->kept_strides }, 1);
        p->reduced_rank = talc_shape_coalesce(p->reduced_rank, p->reduced_dims,
                                              (int64_t *const[]){ p->reduced_strides }, 1);
    }
    return NULL;
}

// ---- Text ---------------------------------------------------------------------------------------

#define FIELD(name) offsetof(reduce_problem, name)

enum {
    OF_VAR = 1u << TALC_VAR,
    OF_INTEGERS =
        (1u << TALC_REDUCE_COUNT) - 1 - OF_VAR - (1u << TALC_MEAN) - (1u << TALC_LOGSUMEXP)
};

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = FIELD(x) },
    { "@", CHECK_AXES, .offset = FIELD(reduced) },
    { "_reversed", CHECK_FLAG, .offset = FIELD(x.reversed) },
    CHECK_FLOAT_KEYS(FIELD(x.dtype)),
    CHECK_INTEGER_KEYS(FIELD(x.dtype), .ops = OF_INTEGERS),
    { "_population", CHECK_FLAG, .offset = FIELD(population), .ops = OF_VAR },
    { "_large", CHECK_FLAG, .offset = FIELD(large), .ops = OF_VAR },
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    writable(problem)->p.function = (talc_reduce_function)op;
}

static int op_of(const check_problem *problem)
{
    return (int)read_only(problem)->p.function;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    static const talc_dtype dtypes[] = { TALC_F32, TALC_F64, TALC_I64, TALC_I32, TALC_U8 };
    reduce_problem *self = writable(problem);
    self->p.function = (talc_reduce_function)talc_check_draw(state, 0, TALC_REDUCE_COUNT - 1);
    talc_check_random_dims(state, &self->x);
    self->x.reversed = talc_check_draw(state, 0, 2) == 0;
    self->x.dtype =
        talc_check_draw(state, 0, 2) != 0 ? TALC_F32 : dtypes[talc_check_draw(state, 0, 4)];
    self->population = self->p.function == TALC_VAR && talc_check_draw(state, 0, 1) != 0;
    if ((OF_INTEGERS >> self->p.function & 1) == 0 && !talc_dtype_is_float(self->x.dtype))
        self->x.dtype = TALC_F64;
    self->large = self->p.function == TALC_VAR && !talc_check_is_narrow(self->x.dtype) &&
                  talc_check_draw(state, 0, 1) != 0;
    const int dims = self->x.rank == 0 ? 1 : self->x.rank;
    bool any = false;
    for (int i = 0; i < dims; i++)
        any |= self->reduced[i] = talc_check_draw(state, 0, 1) != 0;
    for (int i = 0; i < dims && !any; i++)
        self->reduced[i] = true;
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { X, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const reduce_problem *self = read_only(problem);
    talc_dims kept = { .rank = self->kept.rank };
    memcpy(kept.dim, self->kept.dims, sizeof kept.dim);
    list[X] = talc_check_stored(&self->x, "x", CHECK_READ);
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, self->p.y_dtype, kept);
}

// ---- Data ---------------------------------------------------------------------------------------

/* The odd part of a mean's divisor: multiples of it have exact means. */
static double exact_multiple(const talc_reduce_problem *p)
{
    int64_t K = p->function == TALC_MEAN ? p->K : 1;
    while (K > 0 && K % 2 == 0)
        K /= 2;
    return (double)K;
}

/* Integers -largest .. largest, times exact_multiple, have exact results; below 1 there are none.
 * Few of them, so that there are equal ones among the largest. */
static double exact_largest(const talc_reduce_problem *p)
{
    if (!is_sum(p))
        return 4;
    const double tolerance = talc_check_format(p->dtype).integers;
    return fmin(64, floor(tolerance / (double)p->K / exact_multiple(p)));
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_reduce_problem *p = &read_only(problem)->p;
    if (p->function == TALC_VAR || p->function == TALC_LOGSUMEXP)
        return kind != TALC_CHECK_EXACT && kind <= TALC_CHECK_INFINITY;
    if (talc_dtype_is_float(p->dtype))
        return kind == TALC_CHECK_EXACT ? exact_largest(p) >= 1 : kind <= TALC_CHECK_INFINITY;
    return kind == TALC_CHECK_EXACT || kind == TALC_CHECK_HUGE;
}

/* By a power of two, so that K squares of the largest, and of a distance that is twice as large,
 * have a sum of about 2^1020. */
static void enlarge(const reduce_problem *self, double *x)
{
    double largest = 0;
    for (int64_t i = 0; i < self->x.count; i++)
        largest = isfinite(x[i]) ? fmax(largest, fabs(x[i])) : largest;
    int exponent, terms;
    (void)frexp(largest, &exponent);
    (void)frexp((double)self->p.K, &terms);
    for (int64_t i = 0; i < self->x.count; i++)
        x[i] = ldexp(x[i], 509 - exponent - (terms + 1) / 2);
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const reduce_problem *self = read_only(problem);
    const check_layout *layout = &self->x;
    double *x = values->of[X];
    if (!talc_dtype_is_float(layout->dtype)) {
        talc_check_fill_integers(x, layout->count, layout->dtype, kind, seed);
        return;
    }
    const bool exact = kind == TALC_CHECK_EXACT;
    /* Exponentials of one size would hide that they are taken below the largest. */
    const double scale = self->p.function == TALC_LOGSUMEXP ? 8 : 1;
    talc_check_fill(x, layout->count, layout->dtype, kind, exact ? exact_largest(&self->p) : 1,
                    scale, seed);
    for (int64_t i = 0; exact && i < layout->count; i++)
        x[i] *= exact_multiple(&self->p);
    if (self->large)
        enlarge(self, x);
    /* Several NaN in a reduction, as it matters which of them argmax names. */
    if (kind == TALC_CHECK_NAN && is_extreme(&self->p))
        talc_check_add_nans(x, layout->count, seed);
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Element k, in row-major order of the reduced dimensions. */
static double element(const reduce_problem *self, const double *x, int64_t k)
{
    return x[talc_check_part_offset(&self->along, k)];
}

static long double integer_sum(const reduce_problem *self, const double *x)
{
    uint64_t sum = 0; /* wraps around, where a signed sum would be undefined */
    for (int64_t k = 0; k < self->p.K; k++)
        sum += (uint64_t)(int64_t)element(self, x, k);
    return sum <= INT64_MAX ? (long double)sum : (long double)sum - 0x1p64L;
}

static check_expected sum_expected(const reduce_problem *self, const double *x)
{
    long double sum = 0, sizes = 0;
    for (int64_t k = 0; k < self->p.K; k++) {
        const double value = element(self, x, k);
        sum += value;
        sizes += fabs(value);
    }
    const long double divisor = self->p.function == TALC_MEAN ? (long double)self->p.K : 1;
    return (check_expected){ .value = sum / divisor,
                             .K = (double)self->p.K,
                             .S = isfinite(sum) ? (double)(sizes / divisor) : 0 };
}

static check_expected var_expected(const reduce_problem *self, const double *x)
{
    const long double K = (long double)self->p.K;
    long double sum = 0, squares = 0, rest = 0;
    for (int64_t k = 0; k < self->p.K; k++)
        sum += element(self, x, k);
    const long double mean = sum / K;
    for (int64_t k = 0; k < self->p.K; k++) {
        const long double apart = element(self, x, k) - mean;
        squares += apart * apart;
        rest += apart; /* what the mean's rounding left */
    }
    const long double divisor = K > self->p.correction ? K - self->p.correction : 0;
    const long double value = (squares - rest * rest / K) / divisor;
    const long double size = 4 * (value + fabsl(mean) * sqrtl(value));
    return (
        check_expected){ .value = value, .K = (double)K, .S = isfinite(size) ? (double)size : 0 };
}

static check_expected logsumexp_expected(const reduce_problem *self, const double *x)
{
    long double max = -(long double)INFINITY, sum = 0;
    for (int64_t k = 0; k < self->p.K; k++)
        max = element(self, x, k) > max ? element(self, x, k) : max;
    const long double base = isinf(max) ? 0 : max; /* what is infinite stays so */
    for (int64_t k = 0; k < self->p.K; k++)
        sum += talc_check_exponential(self->p.dtype, element(self, x, k) - base);
    const long double value = base + logl(sum);
    return (check_expected){ .value = value,
                             .K = (double)self->p.K + 2,
                             .S = isfinite(value) ? (double)(1 + fabsl(value)) : 0 };
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const reduce_problem *self = read_only(problem);
    const talc_reduce_problem *p = &self->p;
    const double *x = values->of[X] + talc_check_part_offset(&self->kept, index);
    if (is_sum(p) && talc_dtype_is_float(p->dtype))
        return sum_expected(self, x);
    if (is_sum(p))
        return (check_expected){ .value = integer_sum(self, x) };
    if (p->function == TALC_VAR)
        return var_expected(self, x);
    if (p->function == TALC_LOGSUMEXP)
        return logsumexp_expected(self, x);
    const bool min = p->function == TALC_MIN || p->function == TALC_ARGMIN;
    double max = element(self, x, 0);
    int64_t max_at = 0;
    for (int64_t k = 1; k < p->K && !isnan(max); k++) {
        const double value = element(self, x, k);
        if (isnan(value) || (min ? value < max : value > max)) {
            max = value;
            max_at = k;
        }
    }
    return (check_expected){ .value = is_index(p) ? (long double)max_at : (long double)max };
}

static double terms(const check_problem *problem)
{
    return (double)read_only(problem)->p.K;
}

// ---- In a model ---------------------------------------------------------------------------------

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    const talc_reduce_observed *observed = ran->problem;
    reduce_problem *self = writable(problem);
    self->p.function = observed->function;
    self->population = observed->correction == 0;
    memcpy(self->reduced, observed->reduced, sizeof self->reduced);
    self->x = talc_check_layout_of(&ran->inputs[X]);
    return complete(problem, &(const char *){ "" }) == NULL;
}

static bool is_empty(const check_problem *problem)
{
    return read_only(problem)->p.K == 0;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "sum:7x9x33@1", "sum:70001", "sum:5x6x7@0,2_i32", "mean:33x129@0_f64", "mean:4x5x6x7@1,3",
    "max:9x130@1", "argmax:6x5x17@0,2", "argmax:300x9@0_i64", "min:9x130@1_f64",
    "argmin:6x5x17@0,2", "var:7x9x33@1", "var:4x5x6x7@1,3_population", "var:129x33@0_f64",
    "var:1000x3@0_f64_large", "logsumexp:33x129@1", "logsumexp:33x129@0_f64",
    NULL,
};

static const char *const edges[] = {
    /* Of all dimensions, the first, the last, one between, several, neighbours and not. */
    "sum:{1|7}", "sum:8x16x32{|@0|@2|@0,1|@1,2}",
    "{sum|mean|max|argmax|min|argmin|var|logsumexp}:8x16x32@{1|0,2}", "sum:3x4x5x6x7@{1,3|0,2,4}",
    "sum:2x3x2x3x2x3x2x3@{0,2,4,6|1,3,5,7}", "sum:5x1x7@1", "sum:1x9@0", "{mean|argmax}:17x33",

    /* Neighbouring outputs in vector loads, lengths below and above the threads of a block. */
    "{sum|max|argmax}:5x33x64@1{|_f64}", "mean:40x8x8@0", "sum:20001x64@0",
    "argmax:20001x64@0{|_f64}", "{sum|argmax}:19x5x7x7@0,2,3", "max:3x5x40x41@0,2,3",
    "argmax:3x5x40x40@0,2,3", "sum:3x5x4x5x8@0,2,4",

    /* Rows that are no multiple of a vector load, many short ones, few long ones. */
    "{sum|argmax}:{3001x10|41x1001|203x100x3}@1", "max:{9001x4|700x49|301x127|211x31x9}@1",
    "mean:{2003x8|301x49|57x30x49}@1_f64", "argmax:{1027x32|2x40005|9001x8}@1",
    "sum:{531x64|3x20003|3001x8}@1", "argmax:531x64@1_i64", "argmax:301x63@1_f64",
    "sum:2001x50@1_u8", "max:41x1001@1_f64", "sum:3x40005@1_f64",
    "{min|argmin}:{3x40005@1|20001x64@0}{|_f64}", "{min|argmin}:531x64@1{|_i64|_i32|_u8}",
    "{var|logsumexp}:{3x40005@1|20001x64@0|531x64@1|9001x4@1|301x49@1|19x5x7x7@0,2,3|203x100x3@1}{|_f64}",
    "var:{1x9|7x5}@0{|_population}",
    "var:{1000x5@0|5x129@1|70001}{|_reversed}_f64{|_population}_large", "argmax:1x40007@1_u8",
    "argmax:57x12x63@1_i32",

    /* Reductions across rows that are no multiple of 16 bytes: few rows, many rows, several blocks.
     * */
    "argmax:{66x1001|20003x17}@0", "sum:3x701x49@1", "max:5x301x254@1", "argmax:9x501x17@1_f64",
    "argmax:701x5x9@2_reversed",

    /* Reductions of each channel, with images that are no multiple of 16 bytes: many small ones,
     * few large ones. */
    "{sum|argmax}:{60x22x7x7|33x5x17x17}@0,2,3", "max:{200x3x7x7|300x3x19x17}@0,2,3",
    "{mean|argmax}:33x5x15x15@0,2,3", "sum:3000x2x3@0,2", "argmax:500x7x255@0,2",
    "sum:{60x12x7x7|200x2x19x17}@0,2,3_f64", "argmax:61x21x3x3@0,2,3_f64", "max:61x21x1x2@0,3_f64",
    "sum:61x21x7x7@0,2,3_i32", "argmax:5x7x3x19x17@1,3,4", "mean:4x3x135x131@0,2,3",
    "argmax:40x5x19x17@0,2,3_u8",

    /* Lengths around those of vectors, blocks and pairwise halves. */
    "sum:{3x2|3x15|3x16|3x17|3x31|3x33|3x127|3x128|3x129|3x136|3x137|3x255|3x257|3x1023|3x1025|3x4097}@1",
    "mean:5x129@1", "mean:129x5@0", "max:5x17@1", "max:17x5@0", "argmax:5x33@1", "argmax:33x5@0",

    /* Rows of more than a million, many short rows, empty results. */
    "{sum|max|argmax}:1200001", "mean:1048577", "sum:2x600001@1", "sum:{600001x2|3x70001|0x5}@0",
    "{sum|max}:{70001x3|0x5}@1", "{mean|argmax}:70001x2@1",

    /* Every type. */
    "{sum|max}:9x33@1_f64", "{mean|argmax}:9x33@0_f64", "{sum|max|argmax}:9x33@1_i32",
    "{sum|max|argmax}:9x33@0_i64", "sum:300x9@0_u8", "{max|argmax}:9x33@1_u8", "sum:1000003_f64",

    /* Dimensions stored in reverse. */
    "sum:8x16x33@{1|0,2}_reversed", "mean:17x129@1_reversed", "max:9x65@0_reversed",
    "argmax:9x65@1_reversed", "argmax:5x6x7@0,2_reversed_u8", "sum:3x70001@1_reversed_f64",

    /* Scalars and empty results. */
    "{sum|argmax}:",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "sum:8x16x32@1,2\n"
             "    mean: max: argmax: min: argmin: var: logsumexp: likewise; no @: all\n"
             "    dimensions; _i32 _i64 _u8 as the op takes them; population, large: of var\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

const check_direction talc_check_reduce = {
    .family = &family,
    .ops = op_names,
    .problem_of_run = problem_of_run,
    .expected_of_run = talc_check_reduce_of_run,
    .factors = 1U << X,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_reduce,
    .arguments = { offsetof(talc_reduce_arguments, x), offsetof(talc_reduce_arguments, y) },
    .is_empty = is_empty,
};
