/// The ops of `talc bench`: how each runs, which elements of x a result is made of, and what it must be, by formulas of its own.
#include "tools/bench_due.h"
#include "tools/bench_ops_pool.h"

#include <math.h>
#include <stddef.h>

/* Shapes in which ops look at x: rows of some lengths, and images [N, CHANNELS, SIDE, SIDE]. */
enum {
    ROW = 1024,
    SHORT_ROW = 10,
    MIDDLE_ROW = 100,
    ODD_ROW = 1001,
    LONG_ROW = 65536,
    LONGEST_ROW = 262144,
    CHANNELS = BENCH_CHANNELS,
    SIDE = 64,
    PLANE = SIDE * SIDE
};

typedef bench_gather gather;

// ---- Where a result comes from ------------------------------------------------------------------------------

static gather all(const bench_data *d, int64_t index)
{
    (void)index;
    return (gather){ 0, 0, { d->count, 1, 1 }, { 1 } };
}

static gather row(const bench_data *d, int64_t index)
{
    (void)d;
    return (gather){ 0, index * ROW, { ROW, 1, 1 }, { 1 } };
}

static gather column(const bench_data *d, int64_t index)
{
    return (gather){ 0, index, { d->count / ROW, 1, 1 }, { ROW } };
}

static gather channel(const bench_data *d, int64_t index)
{
    const int64_t N = d->count / CHANNELS / PLANE;
    return (gather){ index, index % CHANNELS * PLANE, { N, PLANE, 1 }, { CHANNELS * PLANE, 1 } };
}

/* The channel that an element lies in. */
static gather its_channel(const bench_data *d, int64_t index)
{
    gather g = channel(d, index / PLANE % CHANNELS);
    g.at = index;
    return g;
}

static gather plane(const bench_data *d, int64_t index)
{
    (void)d;
    return (gather){ 0, index * PLANE, { PLANE, 1, 1 }, { 1 } };
}

static gather its_row_of(int64_t index, int64_t length)
{
    return (gather){ index, index / length * length, { length, 1, 1 }, { 1 } };
}

#define ITS_ROW(name, length)                                                                      \
    static gather name(const bench_data *d, int64_t index)                                         \
    {                                                                                              \
        (void)d;                                                                                   \
        return its_row_of(index, length);                                                          \
    }

ITS_ROW(its_row, ROW)
ITS_ROW(its_short_row, SHORT_ROW)
ITS_ROW(its_middle_row, MIDDLE_ROW)
ITS_ROW(its_odd_row, ODD_ROW)
ITS_ROW(its_long_row, LONG_ROW)
ITS_ROW(its_longest_row, LONGEST_ROW)

static gather its_pixel(const bench_data *d, int64_t index)
{
    (void)d;
    const int64_t n = index / PLANE / CHANNELS;
    return (gather){ index, n * CHANNELS * PLANE + index % PLANE, { CHANNELS, 1, 1 }, { PLANE } };
}

// ---- What it must be ----------------------------------------------------------------------------------------

#define U 0x1p-24

static double b_at(const bench_data *d, const gather *g)
{
    return (double)d->other_on_host[g->at];
}

static double negated(const bench_data *d, const gather *g, double *bound)
{
    return -bench_same(d, g, bound);
}

static double rectified(const bench_data *d, const gather *g, double *bound)
{
    return fmax(bench_same(d, g, bound), 0);
}

static double within(double value, double ulps, double *bound)
{
    *bound = 2 * ulps * U * fabs(value);
    return value;
}

static double logistic(const bench_data *d, const gather *g, double *bound)
{
    return within(1 / (1 + exp(-bench_x_at(d, g))), 4, bound);
}

static double tangent(const bench_data *d, const gather *g, double *bound)
{
    return within(tanh(bench_x_at(d, g)), 4, bound);
}

static double added(const bench_data *d, const gather *g, double *bound)
{
    return within(bench_x_at(d, g) + b_at(d, g), 0.5, bound);
}

static double subtracted(const bench_data *d, const gather *g, double *bound)
{
    return within(bench_x_at(d, g) - b_at(d, g), 0.5, bound);
}

static double multiplied(const bench_data *d, const gather *g, double *bound)
{
    return within(bench_x_at(d, g) * b_at(d, g), 0.5, bound);
}

static double divided(const bench_data *d, const gather *g, double *bound)
{
    return within(bench_x_at(d, g) / b_at(d, g), 0.5, bound);
}

static double tripled(const bench_data *d, const gather *g, double *bound)
{
    return within(3 * bench_x_at(d, g), 0.5, bound);
}

static double raised(const bench_data *d, const gather *g, double *bound)
{
    return within(bench_x_at(d, g) + 0.5, 0.5, bound);
}

static double exponentials(const bench_data *d, const gather *g, double *roundings, double *from)
{
    const double most = bench_add_up(d, g).most;
    double sum = 0;
    for (int64_t i = 0; i < g->extent[0]; i++)
        sum += exp((double)d->on_host[g->first + i * g->step[0]] - most);
    *from = bench_x_at(d, g) - most;
    *roundings = 4 + fabs(*from) + 2 * sqrt((double)g->extent[0]);
    return sum;
}

static double share(const bench_data *d, const gather *g, double *bound)
{
    double roundings, from;
    const double sum = exponentials(d, g, &roundings, &from), y = exp(from) / sum;
    *bound = roundings * U * y;
    return y;
}

static double share_f64(const bench_data *d, const gather *g, double *bound)
{
    const double y = share(d, g, bound);
    *bound *= 0x1p-53 / U;
    return y;
}

static double log_share(const bench_data *d, const gather *g, double *bound)
{
    double roundings, from;
    const double sum = exponentials(d, g, &roundings, &from), y = from - log(sum);
    *bound = (roundings + fabs(y)) * U;
    return y;
}

static double half(const bench_data *d, const gather *g, double *bound)
{
    (void)d, (void)g;
    *bound = 0;
    return 0.5;
}

// ---- Running ------------------------------------------------------------------------------------------------

/* As many whole rows as there are in x. */
static talc_tensor *rows_of(const talc_tensor *x, int64_t length)
{
    const int64_t rows = talc_numel(x) / length;
    return talc_view(talc_slice(x, 0, 0, rows * length, 1), TALC_DIMS(rows, length));
}

static talc_tensor *in_rows(const bench_data *d, int64_t length)
{
    return rows_of(d->x, length);
}

static talc_tensor *image(const bench_data *d)
{
    return talc_view(d->x, TALC_DIMS(d->count / CHANNELS / PLANE, CHANNELS, SIDE, SIDE));
}

#define RUN(name, expression)                                                                      \
    static talc_tensor *run_##name(const bench_data *d)                                            \
    {                                                                                              \
        return expression;                                                                         \
    }

RUN(neg, talc_neg(d->x))
RUN(relu, talc_relu(d->x))
RUN(sigmoid, talc_sigmoid(d->x))
RUN(tanh, talc_tanh(d->x))
RUN(add, talc_add(d->x, d->other))
RUN(sub, talc_sub(d->x, d->other))
RUN(mul, talc_mul(d->x, d->other))
RUN(div, talc_div(d->x, d->other))
RUN(mul_scalar, talc_mul_scalar(d->x, 3))
RUN(add_channels, talc_add(image(d), talc_view(d->channels, TALC_DIMS(CHANNELS, 1, 1))))
RUN(clone, talc_clone(d->x))
RUN(cast_f64, talc_cast(d->x, TALC_F64))
RUN(fill, talc_full(d->x->device, TALC_F32, TALC_DIMS(d->count), 0.5))
RUN(sum, talc_sum(d->x, TALC_DIMS(0), false))
RUN(sum_rows, talc_sum(in_rows(d, ROW), TALC_DIMS(1), false))
RUN(sum_columns, talc_sum(in_rows(d, ROW), TALC_DIMS(0), false))
RUN(sum_channels, talc_sum(image(d), TALC_DIMS(0, 2, 3), false))
RUN(mean, talc_mean(d->x, TALC_DIMS(0), false))
RUN(mean_planes, talc_mean(image(d), TALC_DIMS(2, 3), false))
RUN(max_rows, talc_max(in_rows(d, ROW), TALC_DIMS(1), false))
RUN(max_columns, talc_max(in_rows(d, ROW), TALC_DIMS(0), false))
RUN(argmax_rows, talc_argmax(in_rows(d, ROW), TALC_DIMS(1), false))
RUN(argmax_columns, talc_argmax(in_rows(d, ROW), TALC_DIMS(0), false))
RUN(softmax, talc_softmax(in_rows(d, ROW), 1))
RUN(softmax_short, talc_softmax(in_rows(d, SHORT_ROW), 1))
RUN(softmax_middle, talc_softmax(in_rows(d, MIDDLE_ROW), 1))
RUN(softmax_odd, talc_softmax(in_rows(d, ODD_ROW), 1))
RUN(softmax_long, talc_softmax(in_rows(d, LONG_ROW), 1))
RUN(softmax_longest, talc_softmax(in_rows(d, LONGEST_ROW), 1))
RUN(softmax_f64, talc_softmax(rows_of(d->doubles, ROW), 1))
RUN(softmax_channels, talc_softmax(image(d), 1))
RUN(log_softmax, talc_log_softmax(in_rows(d, ROW), 1))
RUN(batch_norm, talc_batch_norm2d(image(d), d->channels, d->channels, d->mean, d->var, NULL))
RUN(batch_norm_train, talc_batch_norm2d(image(d), d->channels, d->channels, NULL, NULL,
                                        &(talc_batch_norm2d_options){ .training = true }))

// clang-format off
const bench_op bench_ops[] = {
    { "ops", "neg",              "-x",                                        run_neg, 1, bench_itself, negated },
    { "ops", "relu",             "max(x, 0)",                                 run_relu, 1, bench_itself, rectified },
    { "ops", "sigmoid",          "1 / (1 + exp(-x))",                         run_sigmoid, 1, bench_itself, logistic },
    { "ops", "tanh",             "tanh(x)",                                   run_tanh, 1, bench_itself, tangent },
    { "ops", "add",              "x + b",                                     run_add, 2, bench_itself, added },
    { "ops", "sub",              "x - b",                                     run_sub, 2, bench_itself, subtracted },
    { "ops", "mul",              "x b",                                       run_mul, 2, bench_itself, multiplied },
    { "ops", "div",              "x / b",                                     run_div, 2, bench_itself, divided },
    { "ops", "mul_scalar",       "3 x",                                       run_mul_scalar, 1, bench_itself, tripled },
    { "ops", "add_channels",     "[N,64,64,64] + [64,1,1]",                   run_add_channels, 1, bench_itself, raised },
    { "ops", "clone",            "a copy",                                    run_clone, 1, bench_itself, bench_same },
    { "ops", "cast_f64",         "f32 to f64",                                run_cast_f64, 1, bench_itself, bench_same },
    { "ops", "fill",             "one value everywhere",                      run_fill, 0, bench_itself, half },
    { "ops", "sum",              "of all",                                    run_sum, 1, all, bench_summed },
    { "ops", "sum_rows",         "[R,1024] over the last",                    run_sum_rows, 1, row, bench_summed },
    { "ops", "sum_columns",      "[R,1024] over the first",                   run_sum_columns, 1, column, bench_summed },
    { "ops", "sum_channels",     "[N,64,64,64] over all but the second",      run_sum_channels, 1, channel, bench_summed },
    { "ops", "mean",             "of all",                                    run_mean, 1, all, bench_averaged },
    { "ops", "mean_planes",      "[N,64,64,64] over the last two",            run_mean_planes, 1, plane, bench_averaged },
    { "ops", "max_rows",         "[R,1024] over the last",                    run_max_rows, 1, row, bench_largest },
    { "ops", "max_columns",      "[R,1024] over the first",                   run_max_columns, 1, column, bench_largest },
    { "ops", "argmax_rows",      "[R,1024] over the last",                    run_argmax_rows, 1, row, bench_place_of_largest },
    { "ops", "argmax_columns",   "[R,1024] over the first",                   run_argmax_columns, 1, column, bench_place_of_largest },
    { "ops", "max_pool_2",       "[N,64,64,64], 2x2",                         bench_run_max_pool_2, 1, bench_place_max_pool_2, bench_largest },
    { "ops", "max_pool_3",       "[N,64,64,64], 3x3, stride 2, padding 1",    bench_run_max_pool_3, 1, bench_place_max_pool_3, bench_largest },
    { "ops", "max_pool_3s1",     "[N,64,64,64], 3x3, stride 1, padding 1",    bench_run_max_pool_3s1, 1, bench_place_max_pool_3s1, bench_largest },
    { "ops", "max_pool_5s1",     "[N,64,64,64], 5x5, stride 1, padding 2",    bench_run_max_pool_5s1, 1, bench_place_max_pool_5s1, bench_largest },
    { "ops", "max_pool_14",      "[N,1,14,14], 3x3, stride 1, padding 1",     bench_run_max_pool_14, 1, bench_place_max_pool_14, bench_largest },
    { "ops", "max_pool_f64",     "f64 [N,32,64,64], 3x3, stride 1",           bench_run_max_pool_f64, 1, bench_place_max_pool_f64, bench_largest },
    { "ops", "max_pool_2i",      "2x2, and indices: half of x's bytes",       bench_run_max_pool_2i, 1.5, bench_place_max_pool_2i, bench_largest },
    { "ops", "max_pool_3i",      "3x3, stride 1, and indices: twice x's",     bench_run_max_pool_3i, 3, bench_place_max_pool_3i, bench_largest },
    { "ops", "avg_pool_2",       "[N,64,64,64], 2x2",                         bench_run_avg_pool_2, 1, bench_place_avg_pool_2, bench_averaged },
    { "ops", "avg_pool_3",       "[N,64,64,64], 3x3, stride 2, padding 1",    bench_run_avg_pool_3, 1, bench_place_avg_pool_3, bench_averaged },
    { "ops", "avg_pool_4",       "[N,64,64,64], 4x4",                         bench_run_avg_pool_4, 1, bench_place_avg_pool_4, bench_averaged },
    { "ops", "adaptive_56",      "[N,1,56,56] to 7x7",                        bench_run_adaptive_56, 1, bench_place_adaptive_56, bench_averaged },
    { "ops", "adaptive_16",      "[N,1,16,16] to 7x7",                        bench_run_adaptive_16, 1, bench_place_adaptive_16, bench_averaged },
    { "ops", "global_avg_7",     "[N,1,7,7] to 1x1",                          bench_run_global_avg_7, 1, bench_place_global_avg_7, bench_averaged },
    { "ops", "global_avg_pool",  "[N,64,64,64] to 1x1",                       bench_run_global_avg_pool, 1, bench_place_global_avg_pool, bench_averaged },
    { "ops", "softmax",          "[R,1024] over the last",                    run_softmax, 1, its_row, share },
    { "ops", "softmax_short",    "[R,10] over the last",                      run_softmax_short, 1, its_short_row, share },
    { "ops", "softmax_middle",   "[R,100] over the last",                     run_softmax_middle, 1, its_middle_row, share },
    { "ops", "softmax_odd",      "[R,1001] over the last",                    run_softmax_odd, 1, its_odd_row, share },
    { "ops", "softmax_long",     "[R,65536] over the last",                   run_softmax_long, 1, its_long_row, share },
    { "ops", "softmax_longest",  "[R,262144] over the last",                  run_softmax_longest, 1, its_longest_row, share },
    { "ops", "softmax_f64",      "f64, [R,1024] over the last",               run_softmax_f64, 1, its_row, share_f64 },
    { "ops", "softmax_channels", "[N,64,64,64] over the second",              run_softmax_channels, 1, its_pixel, share },
    { "ops", "log_softmax",      "[R,1024] over the last",                    run_log_softmax, 1, its_row, log_share },
    { "ops", "batch_norm",       "[N,64,64,64], given statistics",            run_batch_norm, 1, bench_itself, bench_normalized },
    { "ops", "batch_norm_train", "[N,64,64,64], its own: two passes over x",  run_batch_norm_train, 2, its_channel, bench_normalized_by_itself },
    { NULL, NULL, NULL, NULL, 0, NULL, NULL },
};
// clang-format on
