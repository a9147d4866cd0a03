/// The gradients of batch normalisation: "batch_norm2d:n8c16h7w7_train_dx". Words: train;
/// given: see below; plain: without weight; an activation; residual: its gradient is wanted too.
///
///     dbias = sum g,    dweight = sum g x^,    x^ = (x - mean) rstd,    dresidual = g = dy act'
///     dx = weight rstd (g - (dbias + x^ dweight) / M) in training, weight rstd g otherwise
///
/// In training the algorithm runs its forward pass first, without activation, and the gradient
/// reads the mean and rstd of that. What is expected follows from x alone, so that what the two
/// lose between them shows. With the word given, and outside training, mean and rstd are operands,
/// as y always is, which hold what no batch has to have, so that each part of the formula is seen
/// on its own, exactly too.
///
/// Errors, with u of the data's type, A and B the sums of z and of z |x^| of a channel, s =
/// |weight| rstd. z is |g|, and behind tanh, where 1 - y^2 may cancel, |dy| (1 + y^2): behind a
/// sigmoid or tanh g has up to three roundings of z and of the smallest normal number. f32 data
/// keep their sums in f64, or as well: dbias and dweight may be 8 u of themselves off, whatever M
/// is, and (M + 8) 2^-53 of A and B; f64 data may have the (M + 8) u alone, which is K = M + 6. dx
/// has a handful of roundings of each of its three terms, K = 6, and what the sums are off: s (M +
/// 8) 2^-53 (A + |x^| B) / M. What g is off comes on top of each: 4 u of z, of A and of B.
///
/// Not given, mean and rstd follow from sums in f64, of data of any type: with e = (M + 8) 2^-53
/// and X the mean of |x| the mean is e X off, and rstd by the part e + (e X)^2 / (var + eps) of
/// itself. So x^ is off by d = rstd e X + |x^| times that part, dweight by the sum of |g| d, and dx
/// by what each of its factors is off. dx is arithmetic in the data's type on x less the mean in
/// that type: that rounding, u |mu| of the mean, has roundings of its own. No coefficient may
/// underflow; each rounding of what weight rstd multiplies may, up to a factor of 2^10.
#include "check/ops/batch_norm2d.h"

#include "check/engine/activation.h"
#include "check/engine/data.h"
#include "ops/backend.h"

#include <math.h>

static const char *const op_names[] = { "batch_norm2d.grad_input", NULL };

enum { X, WEIGHT, MEAN, RSTD, DY, Y, DX, DWEIGHT, DBIAS, DRESIDUAL };

/* Whether mean and rstd are those of a forward pass. */
static bool has_forward(const check_norm_problem *self)
{
    return self->p.training && !self->given;
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    const talc_dims image = TALC_DIMS(p->N, p->C, p->H, p->W), channels = TALC_DIMS(p->C);
    const check_role statistics = has_forward(self) ? CHECK_WRITTEN : CHECK_READ;
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, image);
    if (!self->plain)
        list[WEIGHT] = talc_check_operand("weight", CHECK_READ, p->dtype, channels);
    list[MEAN] = talc_check_operand("mean", statistics, TALC_F64, channels);
    list[RSTD] = talc_check_operand("rstd", statistics, TALC_F64, channels);
    list[DY] = talc_check_operand("dy", CHECK_READ, p->dtype, image);
    if (p->activation != TALC_ACTIVATION_NONE)
        list[Y] = talc_check_operand("y", CHECK_READ, p->dtype, image);
    list[DX] = talc_check_operand("dx", CHECK_WRITTEN, p->dtype, image);
    list[DWEIGHT] = talc_check_operand("dweight", CHECK_WRITTEN, p->dtype, channels);
    list[DBIAS] = talc_check_operand("dbias", CHECK_WRITTEN, p->dtype, channels);
    if (p->residual)
        list[DRESIDUAL] = talc_check_operand("dresidual", CHECK_WRITTEN, p->dtype, image);
}

static double values_of_channel(const talc_batch_norm2d_problem *p)
{
    return (double)p->N * (double)p->H * (double)p->W;
}

// ---- Data ---------------------------------------------------------------------------------------

/* Exact data: x of -3 .. 3, mean of -1 .. 1, weight of -2 .. 2, rstd 1 or 2, and dy of -largest ..
 * largest, times the odd part of M in training, where sums are divided by M. */
enum { MAX_X = 3, MAX_MEAN = 1, MAX_WEIGHT = 2, MAX_RSTD = 2 };

static double odd_part(double number)
{
    while (number > 1 && fmod(number, 2) == 0)
        number /= 2;
    return number;
}

/* No intermediate result passes 2 M |weight| rstd |x^|^2 |dy|; divided by M it is a multiple of 1
 * over the even part of M. */
static double exact_largest(const talc_batch_norm2d_problem *p)
{
    const double M = values_of_channel(p), x = (MAX_X + MAX_MEAN) * MAX_RSTD;
    const double size = 2 * M * MAX_WEIGHT * MAX_RSTD * x * x;
    const double multiple = p->training ? odd_part(M) : 1;
    return M < 1 ? 4 : fmin(4, floor(talc_check_format(p->dtype).integers / size / multiple));
}

/* Whether g has roundings of its own. */
static bool rounds(const talc_batch_norm2d_problem *p)
{
    return talc_check_activation_rounds(p->activation);
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const check_norm_problem *self = read_only(problem);
    return kind == TALC_CHECK_EXACT
               ? exact_largest(&self->p) >= 1 && !rounds(&self->p) && !has_forward(self)
               : kind <= TALC_CHECK_INFINITY;
}

/* Results of the activation; of a ReLU half are 0, and of one to 6 some are 6. */
static void fill_y(const talc_batch_norm2d_problem *p, int64_t count, uint64_t seed, double *y)
{
    const talc_activation activation = p->activation;
    talc_check_fill(y, count, p->dtype, TALC_CHECK_RANDOM, 1, 1, seed);
    for (int64_t i = 0; i < count; i++)
        y[i] = activation == TALC_ACTIVATION_RELU    ? fmax(y[i], 0)
               : activation == TALC_ACTIVATION_RELU6 ? fmin(fmax(8 * y[i], 0), 6)
               : activation == TALC_ACTIVATION_TANH  ? y[i]
                                                     : talc_check_rounded(p->dtype, 0.5 + y[i] / 2);
}

static void fill_exact(const check_norm_problem *self, uint64_t seed, const check_values *values)
{
    const talc_batch_norm2d_problem *p = &self->p;
    const int64_t count = p->N * p->C * p->H * p->W;
    const double multiple = p->training ? odd_part(values_of_channel(p)) : 1;
    talc_check_fill(values->of[X], count, p->dtype, TALC_CHECK_EXACT, MAX_X, 1, seed);
    talc_check_fill(values->of[DY], count, p->dtype, TALC_CHECK_EXACT, exact_largest(p), 1,
                    talc_check_bits(seed, 1));
    talc_check_fill(values->of[MEAN], p->C, p->dtype, TALC_CHECK_EXACT, MAX_MEAN, 1,
                    talc_check_bits(seed, 2));
    for (int64_t i = 0; i < count; i++)
        values->of[DY][i] *= multiple;
    for (int64_t c = 0; c < p->C; c++) {
        const uint64_t bits = talc_check_bits(seed, (uint64_t)(3 + c));
        values->of[RSTD][c] = 1 + (double)(bits % MAX_RSTD);
        if (!self->plain)
            values->of[WEIGHT][c] =
                (bits / 2 % 2 == 0 ? 1 : -1) * (1 + (double)(bits / 4 % MAX_WEIGHT));
    }
}

/* One of +-0.5 .. 1, and no zero. */
static double away_from_0(talc_dtype dtype, double random)
{
    return talc_check_rounded(dtype, random < 0 ? random / 2 - 0.5 : random / 2 + 0.5);
}

double talc_check_far(talc_dtype dtype, int64_t c, double random)
{
    static const double means[] = { 1e4, 0, -1e6, 0, 0x1p100 },
                        spreads[] = { 1, CHECK_SLIGHT_SPREAD, 1, 0x1p75, 0x1p98 };
    return talc_check_rounded(dtype, means[c % 5] + spreads[c % 5] * random);
}

bool talc_check_is_slight(talc_check_kind kind, int64_t c)
{
    return kind == TALC_CHECK_WIDE && c % 5 == 1;
}

/* WIDE: x and mean about 1e4 apart from 0, so that a sum of dy x less mean times a sum of dy loses
 * all digits; behind a forward pass channels are far from 0, or of a spread whose square is out of
 * range; and slight channels. */
static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    const int64_t count = p->N * p->C * p->H * p->W;
    const bool far = kind == TALC_CHECK_WIDE;
    if (p->activation != TALC_ACTIVATION_NONE)
        fill_y(p, count, talc_check_bits(seed, 8), values->of[Y]);
    if (kind == TALC_CHECK_EXACT) {
        fill_exact(self, seed, values);
        return;
    }
    const bool odd = kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    talc_check_fill(values->of[X], count, p->dtype, far ? TALC_CHECK_RANDOM : kind, 1, 1, seed);
    for (int64_t i = 0; far && i < count; i++)
        values->of[X][i] =
            has_forward(self) ? talc_check_far(p->dtype, i / (p->H * p->W) % p->C, values->of[X][i])
                              : talc_check_rounded(p->dtype, 1e4 + values->of[X][i]);
    talc_check_fill(values->of[DY], count, p->dtype, odd ? TALC_CHECK_RANDOM : kind, 1, 1,
                    talc_check_bits(seed, 1));
    for (int64_t i = 0; i < count; i++)
        if (talc_check_is_slight(kind, i / (p->H * p->W) % p->C))
            values->of[DY][i] *= CHECK_SLIGHT_DY;
    for (int i = WEIGHT; i <= RSTD; i++)
        if (values->of[i] != NULL)
            talc_check_fill(values->of[i], p->C, p->dtype, TALC_CHECK_RANDOM, 1, 1,
                            talc_check_bits(seed, (uint64_t)i + 1));
    for (int64_t c = 0; c < p->C; c++) {
        double *mean = &values->of[MEAN][c], *rstd = &values->of[RSTD][c];
        const bool slight = talc_check_is_slight(kind, c);
        if (!self->plain)
            values->of[WEIGHT][c] =
                away_from_0(p->dtype, values->of[WEIGHT][c]) * (slight ? CHECK_SLIGHT_WEIGHT : 1);
        if (has_forward(self))
            continue;
        *mean = talc_check_rounded(p->dtype, *mean / 8 + (far ? 1e4 : 0));
        *rstd = fabs(away_from_0(p->dtype, *rstd)) / (slight ? CHECK_SLIGHT_SPREAD : 1);
    }
}

/* After x: a NaN in each operand in turn, an infinity in dy and a negative one in x. Others would
 * be infinite in one order of multiplication and not a number in another. */
static bool inject(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                   const check_values *values)
{
    static const int of_nan[] = { DY, MEAN, RSTD, WEIGHT, Y }, of_infinity[] = { DY, X };
    const bool is_nan = kind == TALC_CHECK_NAN;
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_batch_norm2d_gradient, problem, list);
    int which = -1;
    for (int i = 0; round >= 0 && i < (is_nan ? 5 : kind == TALC_CHECK_INFINITY ? 2 : 0); i++) {
        which = is_nan ? of_nan[i] : of_infinity[i];
        round -= list[which].role == CHECK_READ;
    }
    if (round >= 0)
        return false;
    for (int64_t i = 0; i < list[X].count; i++)
        if (!isfinite(values->of[X][i]))
            values->of[X][i] = 0.25;
    values->of[which][talc_check_bits(seed, 9) % (uint64_t)list[which].count] =
        is_nan       ? (double)NAN
        : which == X ? -(double)INFINITY
                     : (double)INFINITY;
    return true;
}

// ---- Oracle -------------------------------------------------------------------------------------

static int64_t groups(const check_problem *problem)
{
    return read_only(problem)->p.C;
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    const talc_batch_norm2d_problem *p = &read_only(problem)->p;
    return operand == DX || operand == DRESIDUAL ? index / p->H / p->W % p->C : index;
}

static long double g_of(const talc_batch_norm2d_problem *p, const check_values *values,
                        int64_t index)
{
    const double dy = values->of[DY][index];
    return p->activation == TALC_ACTIVATION_NONE
               ? dy
               : talc_check_activated_gradient(p->activation, dy, values->of[Y][index]);
}

/* What its roundings are roundings of; what underflows is a rounding of the smallest normal
 * number. */
static long double size_of_g(const talc_batch_norm2d_problem *p, const check_values *values,
                             int64_t index)
{
    if (!rounds(p))
        return fabsl(g_of(p, values, index));
    const long double y = values->of[Y][index];
    const long double slope = p->activation == TALC_ACTIVATION_TANH          ? 1 + y * y
                              : p->activation == TALC_ACTIVATION_HARDSIGMOID ? 1.0L / 6
                                                                             : fabsl(y * (1 - y));
    return fabsl(values->of[DY][index]) * slope + talc_check_format(p->dtype).normal;
}

/* How far off it may be, over its size. */
static double off_of_g(const talc_batch_norm2d_problem *p)
{
    return rounds(p) ? 4 * talc_check_format(p->dtype).unit : 0;
}

check_normaliser talc_check_normaliser_of(talc_dtype dtype, double M, double eps,
                                          const check_common *of)
{
    const double power = (double)of->of[CHECK_NORM_VAR] + eps, e = (M + 8) * 0x1p-53;
    const double off = e * (double)of->of[CHECK_NORM_SIZES];
    return (check_normaliser){
        .M = M,
        .mean = of->of[CHECK_NORM_MEAN],
        .rstd = 1 / sqrtl(of->of[CHECK_NORM_VAR] + eps),
        .mean_off = off,
        .rstd_off = e + off * off / power,
        .any = power < talc_check_format(dtype).normal || off * off > power / 4,
    };
}

double talc_check_normalised_off(const check_normaliser *by, long double x)
{
    return (double)(by->mean_off * by->rstd + by->rstd_off * fabsl(x));
}

/* What channel c is normalised by; `of` holds the statistics of x where there are any. */
static check_normaliser normaliser_of(const check_problem *problem, const check_values *values,
                                      const check_common *of, int64_t c)
{
    const check_norm_problem *self = read_only(problem);
    const double M = values_of_channel(&self->p);
    if (has_forward(self))
        return talc_check_normaliser_of(self->p.dtype, M, self->p.eps, of);
    return (check_normaliser){ .M = M, .mean = values->of[MEAN][c], .rstd = values->of[RSTD][c] };
}

/* Sums of a channel, and of their sizes. */
static check_common learn(const check_problem *problem, const check_values *values, int64_t c)
{
    const talc_batch_norm2d_problem *p = &read_only(problem)->p;
    const int64_t plane = p->H * p->W;
    check_common all = { .of = { 0 } };
    if (has_forward(read_only(problem)))
        all = talc_check_batch_norm2d.learn(problem, values, c);
    const check_normaliser by = normaliser_of(problem, values, &all, c);
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t i = (n * p->C + c) * plane; i < (n * p->C + c + 1) * plane; i++) {
            const long double g = g_of(p, values, i), z = size_of_g(p, values, i),
                              x = (values->of[X][i] - by.mean) * by.rstd;
            all.of[CHECK_NORM_G] += g;
            all.of[CHECK_NORM_PRODUCT] += g * x;
            all.of[CHECK_NORM_A] += z;
            all.of[CHECK_NORM_B] += z * fabsl(x);
        }
    return all;
}

/* What sums in f64 lose of their sizes: nothing on exact data, by whose integers a channel is
 * known. */
static double lost(const check_problem *problem, const check_values *values, int64_t c)
{
    const check_norm_problem *self = read_only(problem);
    const double mean = values->of[MEAN][c], rstd = values->of[RSTD][c];
    const bool exact = !has_forward(self) && mean == floor(mean) && rstd == floor(rstd);
    return exact ? 0 : (values_of_channel(&self->p) + 8) * 0x1p-53;
}

/* Of a sum and its sizes. */
static check_expected sum_expected(const talc_batch_norm2d_problem *p, long double sum,
                                   long double sizes, double of_sizes)
{
    const bool narrow = talc_check_is_narrow(p->dtype);
    const double M = values_of_channel(p);
    check_expected expected = { .value = sum, .K = narrow ? 6 : M + 6 };
    if (!isfinite(sum))
        return expected;
    expected.S = (double)(narrow ? fabsl(sum) : sizes);
    expected.extra = ((narrow ? of_sizes : 0) + off_of_g(p)) * (double)sizes;
    return expected;
}

/* What a sum of g x^ is off on top of that. */
static double product_off(const check_normaliser *by, const check_common *all)
{
    return (double)(by->mean_off * by->rstd * all->of[CHECK_NORM_A] +
                    by->rstd_off * all->of[CHECK_NORM_B]);
}

check_expected talc_check_norm_dx(talc_dtype dtype, const check_normaliser *by,
                                  const check_common *all, long double scale, long double g,
                                  double x)
{
    const check_format format = talc_check_format(dtype);
    const long double z = (x - by->mean) * by->rstd, product = all->of[CHECK_NORM_PRODUCT] / by->M;
    const long double of_g = scale * g, of_mean = scale * all->of[CHECK_NORM_G] / by->M,
                      of_x = scale * z * product;
    check_expected expected = { .value = of_g - (of_mean + of_x),
                                .K = 6,
                                .S = (double)(fabsl(of_g) + fabsl(of_mean) + fabsl(of_x)),
                                .any = by->any };
    if (by->rstd_off == 0) /* given */
        return expected;
    /* Infinity times a deviation that the rounding of the mean may make 0. */
    expected.any |= isinf(product) && fabsl(x - by->mean) <= 2 * format.unit * fabsl(by->mean);
    const double factors = talc_check_normalised_off(by, z) * (double)fabsl(product) +
                           (double)fabsl(z) * product_off(by, all) / by->M;
    expected.extra =
        (double)fabsl(scale) * factors + by->rstd_off * expected.S +
        (expected.K + 2) * format.unit * format.normal * fmin((double)fabsl(scale), 0x1p10);
    expected.S += format.unit * (double)fabsl(by->mean * by->rstd * scale * product);
    return expected;
}

static check_expected dx_expected(const check_problem *problem, const check_values *values,
                                  const check_common *all, int64_t c, int64_t index)
{
    const check_norm_problem *self = read_only(problem);
    const talc_batch_norm2d_problem *p = &self->p;
    const check_normaliser by = normaliser_of(problem, values, all, c);
    const long double scale = (self->plain ? 1 : values->of[WEIGHT][c]) * by.rstd;
    const double size = (double)fabsl(scale * size_of_g(p, values, index));
    const long double g = g_of(p, values, index);
    check_expected expected = { .value = scale * g, .K = 6, .S = (double)fabsl(scale * g) };
    if (p->training) {
        const long double x = (values->of[X][index] - by.mean) * by.rstd;
        const long double sizes = (all->of[CHECK_NORM_A] + fabsl(x) * all->of[CHECK_NORM_B]) / by.M;
        expected = talc_check_norm_dx(p->dtype, &by, all, scale, g, values->of[X][index]);
        expected.extra += (double)(fabsl(scale) * sizes) * (lost(problem, values, c) + off_of_g(p));
    }
    expected.extra += size * off_of_g(p);
    if (!isfinite(expected.value))
        expected.S = expected.extra = 0;
    return expected;
}

static check_expected dresidual_expected(const talc_batch_norm2d_problem *p,
                                         const check_values *values, int64_t index)
{
    check_expected expected = { .value = g_of(p, values, index) };
    if (isfinite(expected.value))
        expected.extra = (double)size_of_g(p, values, index) * off_of_g(p);
    return expected;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    enum { FORWARD_MEAN = 8, FORWARD_RSTD };
    const talc_batch_norm2d_problem *p = &read_only(problem)->p;
    const int64_t c = group_of(problem, operand, index);
    const check_common all = values->common != NULL ? values->common[c] : learn(problem, values, c);
    if (operand == MEAN || operand == RSTD)
        return talc_check_batch_norm2d.expected(problem, values,
                                                operand == MEAN ? FORWARD_MEAN : FORWARD_RSTD, c);
    if (operand == DRESIDUAL)
        return dresidual_expected(p, values, index);
    if (operand == DX)
        return dx_expected(problem, values, &all, c, index);
    if (operand == DBIAS)
        return sum_expected(p, all.of[CHECK_NORM_G], all.of[CHECK_NORM_A],
                            lost(problem, values, c));
    const check_normaliser by = normaliser_of(problem, values, &all, c);
    check_expected expected =
        sum_expected(p, all.of[CHECK_NORM_PRODUCT], all.of[CHECK_NORM_B], lost(problem, values, c));
    if (isfinite(expected.value))
        expected.extra += product_off(&by, &all);
    expected.any = by.any;
    return expected;
}

// ---- The direction ------------------------------------------------------------------------------

/* The forward pass, whose result dx then takes the place of. */
static bool first(const check_problem *problem, check_problem *forward, void *arguments)
{
    if (!has_forward(read_only(problem)))
        return false;
    *forward = *problem;
    talc_batch_norm2d_problem *p = &writable(forward)->p;
    p->direction = TALC_FORWARD;
    p->activation = TALC_ACTIVATION_NONE;
    p->residual = false;
    talc_batch_norm2d_arguments *a = arguments;
    if (a != NULL)
        a->y = a->dx;
    return true;
}

#define POINTER(name) offsetof(talc_batch_norm2d_arguments, name)

const check_direction talc_check_batch_norm2d_gradient = {
    .family = &talc_check_norm_family,
    .of = TALC_GRAD_INPUT,
    .ops = op_names,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .inject = inject,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .cost = 6, /* each element is part of two sums as well */
    .first = first,
    .list = TALC_OP_batch_norm2d,
    .arguments = { POINTER(x), POINTER(weight), POINTER(mean), POINTER(rstd), POINTER(dy),
                   POINTER(y), POINTER(dx), POINTER(dweight), POINTER(dbias), POINTER(dresidual) },
};
