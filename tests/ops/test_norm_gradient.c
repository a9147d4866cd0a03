/* Batch, group, instance and layer norm and their gradients where the data are far from 0, or their
 * spread, weight and dy are near the ends of the type's range: every algorithm of the device
 * against loops in long double that know x alone. */
#include "ops/backend.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum norm { BATCH, RUNNING, GROUP, INSTANCE, LAYER, NORM_COUNT } norm;

static const char *const names[] = { "batch norm", "batch norm by running statistics", "group norm",
                                     "instance norm", "layer norm" };

/* Of x; there are two groups. */
typedef struct shape {
    int N, C, H, W;
} shape;

static int count_of(const shape *s)
{
    return s->N * s->C * s->H * s->W;
}

/* The values that an element is normalised with, and the weight that it has. */
static int row_of(norm kind, const shape *s, int i)
{
    const int n = i / (s->C * s->H * s->W), c = i / (s->H * s->W) % s->C;
    return kind == BATCH || kind == RUNNING ? c
           : kind == GROUP                  ? n * 2 + c / (s->C / 2)
           : kind == INSTANCE               ? n * s->C + c
                                            : n;
}

static int channel_of(norm kind, const shape *s, int i)
{
    return kind == LAYER ? i % (s->C * s->H * s->W) : i / (s->H * s->W) % s->C;
}

// ---- Data and oracle ----------------------------------------------------------------------------

/* Uniform in mean +- spread, as the type holds it. */
static void fill(talc_dtype dtype, double *values, int count, double mean, double spread,
                 uint64_t seed)
{
    owned_double *random = host_doubles(random_operand(TALC_F32, TALC_DIMS(count), seed));
    for (int i = 0; i < count; i++) {
        values[i] = mean + spread * random[i];
        if (dtype == TALC_F32)
            values[i] = (double)(float)values[i];
    }
}

/* Of the values that are normalised together; `sizes` is the mean of |x|. */
typedef struct row {
    long double count, mean, var, rstd, sizes, g, product, g_sizes, product_sizes;
} row;

typedef struct operands {
    double *x, *dy, *weight, *bias, *mean, *var;
} operands;

typedef struct expected {
    double *y, *dx, *dweight, *dbias, *y_bound, *dx_bound, *dweight_bound, *dbias_bound;
} expected;

/* What the elements of each row and channel add up to. */
static void add_up(norm kind, const shape *s, const operands *o, row *rows, expected *to)
{
    for (int i = 0; i < count_of(s); i++) {
        row *of = &rows[row_of(kind, s, i)];
        const int c = channel_of(kind, s, i);
        const long double z = (o->x[i] - of->mean) * of->rstd,
                          off = fabsl(z) + of->sizes * of->rstd;
        const long double lost = (of->count + 8) * 0x1p-53L, dy = o->dy[i], g = dy * o->weight[c];
        of->g += g;
        of->product += g * z;
        of->g_sizes += fabsl(g);
        of->product_sizes += fabsl(g) * off;
        to->dbias[c] += (double)dy;
        to->dweight[c] += (double)(dy * z);
        to->dbias_bound[c] += (double)(lost * fabsl(dy));
        to->dweight_bound[c] += (double)(lost * fabsl(dy) * off);
        if (lost * of->sizes * of->rstd > 0.25L)
            to->dweight_bound[c] = INFINITY;
    }
}

/* Sums are taken in f64, and lose M + 8 roundings of their sizes, as the mean does; y and dx have 8
 * roundings of each of their terms, and some of the smallest number for what underflows. */
static void oracle(norm kind, const shape *s, talc_dtype dtype, double eps, const operands *o,
                   expected *to)
{
    const int count = count_of(s);
    const long double u = unit_roundoff(dtype), small = dtype == TALC_F32 ? 0x1p-149 : 0x1p-1074;
    row *rows = calloc((size_t)count, sizeof *rows);
    for (int i = 0; i < count; i++) {
        row *of = &rows[row_of(kind, s, i)];
        of->count++;
        of->sizes += fabsl(o->x[i]);
        of->mean += o->x[i];
    }
    for (int r = 0; r < count && rows[r].count > 0; r++) {
        rows[r].mean = kind == RUNNING ? o->mean[r] : rows[r].mean / rows[r].count;
        rows[r].sizes = kind == RUNNING ? 0 : rows[r].sizes / rows[r].count;
    }
    for (int i = 0; i < count; i++) {
        row *of = &rows[row_of(kind, s, i)];
        of->var += (o->x[i] - of->mean) * (o->x[i] - of->mean) / of->count;
    }
    for (int r = 0; r < count && rows[r].count > 0; r++)
        rows[r].rstd = 1 / sqrtl((kind == RUNNING ? o->var[r] : rows[r].var) + eps);
    add_up(kind, s, o, rows, to);
    for (int i = 0; i < count; i++) {
        const int c = channel_of(kind, s, i);
        const row *of = &rows[row_of(kind, s, i)];
        const long double z = (o->x[i] - of->mean) * of->rstd, M = of->count;
        const long double g = (long double)o->dy[i] * o->weight[c], lost = (M + 8) * 0x1p-53L;
        const long double mean = kind == RUNNING ? 0 : of->g / M,
                          slope = kind == RUNNING ? 0 : of->product / M;
        const long double S = fabsl(g) + fabsl(mean) + fabsl(z * slope);
        const long double off = of->g_sizes / M + fabsl(z) * of->product_sizes / M +
                                of->sizes * of->rstd * fabsl(slope);
        /* Where what the mean is off makes the variance, anything finite will do. */
        const bool any = lost * of->sizes * of->rstd > 0.25L;
        const long double w = o->weight[c], scale = fabsl(w) * of->rstd;
        to->y[i] = (double)(z * w + o->bias[c]);
        to->y_bound[i] =
            any ? INFINITY
                : (double)(8 * u * (fabsl(z * w) + fabs(o->bias[c]) + scale * fabsl(of->mean)) +
                           lost * (fabsl(z * w) + scale * of->sizes) + 8 * small);
        to->dx[i] = (double)(of->rstd * (g - mean - z * slope));
        to->dx_bound[i] =
            any ? INFINITY : (double)(of->rstd * (8 * u * S + lost * off) + 8 * small);
    }
    for (int c = 0; c < count; c++) {
        to->dbias_bound[c] += 4 * (double)u * fabs(to->dbias[c]);
        to->dweight_bound[c] += 4 * (double)u * fabs(to->dweight[c]);
    }
    free(rows);
}

// ---- The ops ------------------------------------------------------------------------------------

static talc_tensor *operand(talc_dtype dtype, talc_dims dims, const double *values)
{
    talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, dims, values);
    return talc_to(wide, tested_device(), dtype);
}

static talc_tensor *leaf(talc_dtype dtype, talc_dims dims, const double *values)
{
    talc_tensor *tensor = operand(dtype, dims, values);
    talc_require_grad(tensor, true);
    return tensor;
}

static talc_tensor *run(norm kind, const shape *s, double eps, talc_tensor *x, talc_tensor *weight,
                        talc_tensor *bias, talc_tensor *mean, talc_tensor *var)
{
    const double given = eps == 0 ? TALC_ZERO : eps;
    const talc_norm_options o = { .eps = given };
    const talc_batch_norm2d_options of_batch = { .eps = given, .training = kind == BATCH };
    return kind == GROUP      ? talc_group_norm(x, 2, weight, bias, &o)
           : kind == INSTANCE ? talc_instance_norm2d(x, weight, bias, &o)
           : kind == LAYER    ? talc_layer_norm(x, TALC_DIMS(s->C, s->H, s->W), weight, bias, &o)
                              : talc_batch_norm2d(x, weight, bias, mean, var, &of_batch);
}

static void assert_within(const talc_tensor *got, const double *wanted, const double *bound,
                          const char *what, const char *which)
{
    owned_double *values = host_doubles(got);
    for (int64_t i = 0; i < talc_numel(got); i++)
        cr_assert(isfinite(values[i]) && fabs(values[i] - wanted[i]) <= bound[i],
                  "%s: %s[%d] is %.9g instead of %.9g, which may be %.2g off", what, which, (int)i,
                  values[i], wanted[i], bound[i]);
}

/* Sizes of x, of weight, which bias has too, and of dy. */
typedef struct data {
    double mean, spread, eps, weight, dy;
} data;

static void assert_gradients(norm kind, const shape *s, talc_dtype dtype, const data *of,
                             const char *name)
{
    enum { ARRAYS = 14 };
    char what[200];
    snprintf(what, sizeof what, "%s of %s n%dc%dh%dw%d by %s, %g +- %g, weight %g, dy %g",
             names[kind], talc_dtype_name(dtype), s->N, s->C, s->H, s->W, name, of->mean,
             of->spread, of->weight, of->dy);
    const talc_dims image = TALC_DIMS(s->N, s->C, s->H, s->W), channels = TALC_DIMS(s->C);
    const talc_dims affine = kind == LAYER ? TALC_DIMS(s->C, s->H, s->W) : channels;
    const int count = count_of(s);
    double *arrays[ARRAYS];
    for (int i = 0; i < ARRAYS; i++)
        arrays[i] = calloc((size_t)count, sizeof **arrays);
    const operands o = { arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5] };
    expected wanted = { arrays[6],  arrays[7],  arrays[8],  arrays[9],
                        arrays[10], arrays[11], arrays[12], arrays[13] };
    fill(dtype, o.x, count, of->mean, of->spread, 1);
    fill(dtype, o.dy, count, 0, of->dy, 2);
    fill(dtype, o.weight, count, 1.5 * of->weight, of->weight, 3);
    fill(dtype, o.bias, count, 0, of->weight, 6);
    fill(dtype, o.mean, s->C, of->mean, of->spread, 4);
    fill(dtype, o.var, s->C, of->spread * of->spread, of->spread * of->spread / 2, 5);
    oracle(kind, s, dtype, of->eps, &o, &wanted);
    talc_tensor *x = leaf(dtype, image, o.x), *weight = leaf(dtype, affine, o.weight),
                *bias = leaf(dtype, affine, o.bias);
    const bool running = kind == RUNNING;
    const talc_tensor *y =
        run(kind, s, of->eps, x, weight, bias, running ? operand(dtype, channels, o.mean) : NULL,
            running ? operand(dtype, channels, o.var) : NULL);
    cr_assert(y != NULL && talc_backward_from(y, operand(dtype, image, o.dy)), "%s: %s", what,
              talc_error_message());
    assert_within(y, wanted.y, wanted.y_bound, what, "y");
    assert_within(talc_grad(weight), wanted.dweight, wanted.dweight_bound, what, "dweight");
    assert_within(talc_grad(bias), wanted.dbias, wanted.dbias_bound, what, "dbias");
    assert_within(talc_grad(x), wanted.dx, wanted.dx_bound, what, "dx");
    for (int i = 0; i < ARRAYS; i++)
        free(arrays[i]);
}

/* By every algorithm that takes the shape. Of spreads far from 1 f32 has no variance that could be
 * given. */
static void assert_shape(const shape *s, const data *list, size_t count)
{
    const struct talc_backend *backend = tested_device()->backend;
    for (norm kind = BATCH; kind < NORM_COUNT; kind++) {
        const bool batch = kind == BATCH || kind == RUNNING;
        const talc_algorithm *by = batch ? backend->algorithms[TALC_OP_batch_norm2d]
                                         : backend->algorithms[TALC_OP_group_norm];
        for (; by->name != NULL; by++)
            for (size_t i = 0; i < 2 * count; i++) {
                const data *of = &list[i / 2];
                const talc_dtype dtype = i % 2 == 0 ? TALC_F32 : TALC_F64;
                const bool has_variance = of->spread < 1e18 && of->spread > 1e-18;
                if ((strcmp(by->name, "parts") == 0 && s->N * s->H * s->W <= 16384) ||
                    (kind == RUNNING && dtype == TALC_F32 && !has_variance))
                    continue;
                owned_scope *scope = talc_scope_enter();
                talc_algorithm_force(batch ? "batch_norm2d" : "group_norm", by->name);
                talc_algorithm_force(batch ? "batch_norm2d.grad_input" : "group_norm.grad_input",
                                     by->name);
                assert_gradients(kind, s, dtype, of, by->name);
            }
    }
}

/* The last ones are constants. */
Test(norm_gradient, is_that_of_x_wherever_its_mean_and_spread_are)
{
    static const data of[] = {
        { 0.5, 1, 1e-5, 1, 1 },    { 1e4, 1, 1e-5, 1, 1 },     { 1e6, 1, 1e-5, 1, 1 },
        { -3e6, 0.6, 0, 1, 1 },    { 1e4, 1e-2, 1e-12, 1, 1 }, { 1e10, 1e5, 1e-5, 1, 1 },
        { 0, 1e21, 1e-5, 1, 1 },   { 1e22, 1e22, 1e-5, 1, 1 }, { 0, 1e25, 1e-5, 1, 1 },
        { 1e33, 1e30, 0, 1, 1 },   { 0, 1e37, 1e-5, 1, 1 },    { -1e38, 1e38, 1e-5, 1, 1 },
        { 0, 1e-19, 0, 1, 1 },     { 1e-22, 1e-24, 0, 1, 1 },  { 0, 1e-34, 0, 1, 1 },
        { 1e-33, 1e-35, 0, 1, 1 }, { 1e30, 0, 1e-5, 1, 1 },    { 1e38, 0, 1e-30, 1, 1 },
    };
    assert_shape(&(shape){ 3, 4, 3, 7 }, of, sizeof of / sizeof *of);
}

/* Those of which a task has a part. */
Test(norm_gradient, of_long_rows_is_that_of_x_too)
{
    static const data of[] = { { 1e6, 1, 1e-5, 1, 1 },
                               { 0, 1e23, 1e-5, 1, 1 },
                               { 0, 1e30, 1e-5, 1e-15, 1e20 } };
    assert_shape(&(shape){ 1, 2, 260, 256 }, of, 3);
    assert_shape(&(shape){ 2, 2, 131, 129 }, of, 3);
}

/* weight rstd, or it times a mean, is out of the range of f32, where y and dx are not; in the last
 * ones x - mean is too, and what weight and dy make. */
Test(norm_gradient, is_that_of_x_where_weight_and_rstd_make_a_number_out_of_range)
{
    static const data of[] = {
        { 0, 1e30, 1e-5, 1e-15, 1e20 }, { 0, 1e37, 1e-5, 1e-7, 1e30 },
        { 0, 1e22, 1e-5, 1e-20, 1e20 }, { 1e16, 1e17, 1e-5, 1e-25, 1e30 },
        { 0, 1e17, 1e-5, 1e-30, 1e30 }, { 0, 1e-17, 0, 1e25, 1e-20 },
        { 0, 1e-25, 0, 1e20, 1e-35 },   { 0, 1e-5, 0, 1e-30, 1e-8 },
        { -1e38, 2e38, 1e-5, 1e-5, 1 }, { 1e36, 1e30, 1e-5, 1e-20, 1e25 },
        { 0, 1e-30, 0, 1e-15, 1e-28 },  { 0, 1e30, 1e-5, 1e15, 1e28 },
    };
    assert_shape(&(shape){ 3, 4, 3, 7 }, of, sizeof of / sizeof *of);
}

/* Three of four values are -X and one is X: x - mean is up to 1.5 X, which f32 does not have, and
 * x^ is -1/sqrt 3 and sqrt 3. With dy 1 and then 0, dx is weight rstd times 2/3, -1/3, -1/3, 0. */
Test(norm_gradient, is_that_of_x_where_a_deviation_is_out_of_range)
{
    enum { N = 4, COUNT = 2 * N };
    const double X = (double)3e38F, weight = (double)1e10F, scale = weight / (X / 2 * sqrt(3));
    const double dy_of[] = { 1, 0, 0, 0 }, dx_of[] = { 2, -1, -1, 0 };
    double x[COUNT], dy[COUNT], weights[COUNT], zeros[COUNT] = { 0 }, y[COUNT], dx[COUNT],
                                                y_bound[COUNT], dx_bound[COUNT];
    for (norm kind = BATCH; kind < NORM_COUNT; kind++) {
        if (kind == RUNNING)
            continue;
        const bool batch = kind == BATCH;
        const shape s = batch ? (shape){ N, 2, 1, 1 } : (shape){ 1, 2, 2, 2 };
        for (int i = 0; i < COUNT; i++) {
            const int at = batch ? i / 2 : i % N;
            x[i] = at < 3 ? -X : X;
            dy[i] = dy_of[at];
            weights[i] = weight;
            y[i] = weight * (at < 3 ? -1 / sqrt(3) : sqrt(3));
            dx[i] = scale * dx_of[at] / 3;
            y_bound[i] = 16 * 0x1p-24 * weight;
            dx_bound[i] = 16 * 0x1p-24 * scale;
        }
        talc_tensor *in = leaf(TALC_F32, TALC_DIMS(s.N, s.C, s.H, s.W), x);
        const talc_dims affine = kind == LAYER ? TALC_DIMS(s.C, s.H, s.W) : TALC_DIMS(s.C);
        talc_tensor *w = leaf(TALC_F32, affine, weights), *b = leaf(TALC_F32, affine, zeros);
        const talc_tensor *out = run(kind, &s, 0, in, w, b, NULL, NULL);
        cr_assert(out != NULL && talc_backward_from(out, operand(TALC_F32, talc_dims_of(in), dy)),
                  "%s: %s", names[kind], talc_error_message());
        assert_within(out, y, y_bound, names[kind], "y");
        assert_within(talc_grad(in), dx, dx_bound, names[kind], "dx");
    }
}

/* By running statistics: x - mean is 5e38, and y that over sqrt(3e38). */
Test(norm_gradient, of_running_statistics_neither_needs_a_deviation_in_range)
{
    const double x = (double)3e38F, mean = (double)-2e38F, var = (double)3e38F;
    const double wanted = (x - mean) / sqrt(var), bound = 8 * 0x1p-24 * wanted;
    const shape s = { 1, 1, 1, 1 };
    const talc_dims channel = TALC_DIMS(1);
    const talc_tensor *y =
        run(RUNNING, &s, 0, operand(TALC_F32, TALC_DIMS(1, 1, 1, 1), &x), NULL, NULL,
            operand(TALC_F32, channel, &mean), operand(TALC_F32, channel, &var));
    cr_assert(y != NULL, "%s", talc_error_message());
    assert_within(y, &wanted, &bound, names[RUNNING], "y");
}
