/// The ops of `talc bench`: how each runs, which elements of x a result is made of, and what it must be, by formulas of its own.
#include "tools/bench_ops_pool.h"

#include <math.h>
#include <stddef.h>

/* Shapes in which ops look at x: rows of some lengths, and images [N, CHANNELS, SIDE, SIDE]. */
enum {
    ROW = 1024,
    LONG_ROW = 65536,
    WIDTH = 4096,
    CHANNELS = BENCH_CHANNELS,
    SIDE = 64,
    PLANE = SIDE * SIDE
};

typedef bench_gather gather;

// ---- Where a result comes from ------------------------------------------------------------------------------

static gather one(int64_t at)
{
    return (gather){ at, at, { 1, 1, 1 }, { 0 } };
}

static gather itself(const bench_data *d, int64_t index)
{
    (void)d;
    return one(index);
}

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

static gather its_row(const bench_data *d, int64_t index)
{
    gather g = row(d, index / ROW);
    g.at = index;
    return g;
}

static gather its_long_row(const bench_data *d, int64_t index)
{
    (void)d;
    return (gather){ index, index / LONG_ROW * LONG_ROW, { LONG_ROW, 1, 1 }, { 1 } };
}

static gather its_pixel(const bench_data *d, int64_t index)
{
    (void)d;
    const int64_t n = index / PLANE / CHANNELS;
    return (gather){ index, n * CHANNELS * PLANE + index % PLANE, { CHANNELS, 1, 1 }, { PLANE } };
}

static gather turned(const bench_data *d, int64_t index)
{
    const int64_t rows = d->count / WIDTH;
    return one(index % rows * WIDTH + index / rows);
}

static gather channels_first(const bench_data *d, int64_t index)
{
    (void)d;
    const int64_t n = index / CHANNELS / PLANE, pixel = index / CHANNELS % PLANE;
    return one((n * CHANNELS + index % CHANNELS) * PLANE + pixel);
}

// ---- What it must be ----------------------------------------------------------------------------------------

#define U 0x1p-24

typedef struct totals {
    double sum, sizes, squares, most, count;
    int64_t most_at;
} totals;

static totals add_up(const bench_data *d, const gather *g)
{
    totals t = { .most = -INFINITY };
    for (int64_t i = 0; i < g->extent[0]; i++)
        for (int64_t j = 0; j < g->extent[1]; j++) {
            const double x = (double)d->on_host[g->first + i * g->step[0] + j * g->step[1]];
            t.sum += x;
            t.sizes += fabs(x);
            t.squares += x * x;
            if (x > t.most) {
                t.most = x;
                t.most_at = (int64_t)t.count;
            }
            t.count++;
        }
    return t;
}

static double x_at(const bench_data *d, const gather *g)
{
    return (double)d->on_host[g->at];
}

static double b_at(const bench_data *d, const gather *g)
{
    return (double)d->other_on_host[g->at];
}

static double same(const bench_data *d, const gather *g, double *bound)
{
    *bound = 0;
    return x_at(d, g);
}

static double negated(const bench_data *d, const gather *g, double *bound)
{
    return -same(d, g, bound);
}

static double rectified(const bench_data *d, const gather *g, double *bound)
{
    return fmax(same(d, g, bound), 0);
}

static double within(double value, double ulps, double *bound)
{
    *bound = 2 * ulps * U * fabs(value);
    return value;
}

static double logistic(const bench_data *d, const gather *g, double *bound)
{
    return within(1 / (1 + exp(-x_at(d, g))), 4, bound);
}

static double tangent(const bench_data *d, const gather *g, double *bound)
{
    return within(tanh(x_at(d, g)), 4, bound);
}

static double added(const bench_data *d, const gather *g, double *bound)
{
    return within(x_at(d, g) + b_at(d, g), 0.5, bound);
}

static double subtracted(const bench_data *d, const gather *g, double *bound)
{
    return within(x_at(d, g) - b_at(d, g), 0.5, bound);
}

static double multiplied(const bench_data *d, const gather *g, double *bound)
{
    return within(x_at(d, g) * b_at(d, g), 0.5, bound);
}

static double divided(const bench_data *d, const gather *g, double *bound)
{
    return within(x_at(d, g) / b_at(d, g), 0.5, bound);
}

static double tripled(const bench_data *d, const gather *g, double *bound)
{
    return within(3 * x_at(d, g), 0.5, bound);
}

static double raised(const bench_data *d, const gather *g, double *bound)
{
    return within(x_at(d, g) + 0.5, 0.5, bound);
}

static double summed(const bench_data *d, const gather *g, double *bound)
{
    const totals t = add_up(d, g);
    *bound = 4 * U * sqrt(t.count + 4) * t.sizes;
    return t.sum;
}

static double averaged(const bench_data *d, const gather *g, double *bound)
{
    const totals t = add_up(d, g);
    *bound = 4 * U * sqrt(t.count + 4) * t.sizes / t.count + U * fabs(t.sum / t.count);
    return t.sum / t.count;
}

static double largest(const bench_data *d, const gather *g, double *bound)
{
    *bound = 0;
    return add_up(d, g).most;
}

static double place_of_largest(const bench_data *d, const gather *g, double *bound)
{
    *bound = 0;
    return (double)add_up(d, g).most_at;
}

static double exponentials(const bench_data *d, const gather *g, double *roundings, double *from)
{
    const double most = add_up(d, g).most;
    double sum = 0;
    for (int64_t i = 0; i < g->extent[0]; i++)
        sum += exp((double)d->on_host[g->first + i * g->step[0]] - most);
    *from = x_at(d, g) - most;
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

static double log_share(const bench_data *d, const gather *g, double *bound)
{
    double roundings, from;
    const double sum = exponentials(d, g, &roundings, &from), y = from - log(sum);
    *bound = (roundings + fabs(y)) * U;
    return y;
}

/* Mean 0.5, variance 0.25 - 1e-5, weight and bias 0.5: (x - 0.5) + 0.5, after six roundings. */
static double normalized(const bench_data *d, const gather *g, double *bound)
{
    const double x = x_at(d, g);
    *bound = 10 * U * (fabs(x - 0.5) + 0.5);
    return x;
}

static double normalized_by_itself(const bench_data *d, const gather *g, double *bound)
{
    const totals t = add_up(d, g);
    const double mean = t.sum / t.count,
                 scale = 0.5 / sqrt(t.squares / t.count - mean * mean + 1e-5);
    const double off = x_at(d, g) - mean;
    *bound = 10 * U * (scale * (fabs(off) + fabs(mean)) + 0.5) + 1e-9;
    return scale * off + 0.5;
}

static double half(const bench_data *d, const gather *g, double *bound)
{
    (void)d, (void)g;
    *bound = 0;
    return 0.5;
}

// ---- Running ------------------------------------------------------------------------------------------------

static talc_tensor *in_rows(const bench_data *d, int64_t length)
{
    return talc_view(d->x, TALC_DIMS(d->count / length, length));
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
RUN(transpose, talc_contiguous(talc_transpose(in_rows(d, WIDTH), 0, 1)))
RUN(nhwc, talc_contiguous(talc_permute(image(d), TALC_DIMS(0, 2, 3, 1))))
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
RUN(softmax_long, talc_softmax(in_rows(d, LONG_ROW), 1))
RUN(softmax_channels, talc_softmax(image(d), 1))
RUN(log_softmax, talc_log_softmax(in_rows(d, ROW), 1))
RUN(batch_norm, talc_batch_norm2d(image(d), d->channels, d->channels, d->mean, d->var, NULL))
RUN(batch_norm_train, talc_batch_norm2d(image(d), d->channels, d->channels, NULL, NULL,
                                        &(talc_batch_norm2d_options){ .training = true }))
RUN(host_relu, talc_relu(d->channels))
RUN(host_add, talc_add(d->channels, d->channels))
RUN(host_sum, talc_sum(d->channels, TALC_DIMS(0), false))
RUN(host_conv2d, talc_conv2d(talc_view(d->channels, TALC_DIMS(1, 1, 8, 8)),
                             talc_view(d->mean, TALC_DIMS(1, 1, 8, 8)), NULL, NULL))

// clang-format off
const bench_op bench_ops[] = {
    { "ops", "neg",              "-x",                                        run_neg, 1, itself, negated },
    { "ops", "relu",             "max(x, 0)",                                 run_relu, 1, itself, rectified },
    { "ops", "sigmoid",          "1 / (1 + exp(-x))",                         run_sigmoid, 1, itself, logistic },
    { "ops", "tanh",             "tanh(x)",                                   run_tanh, 1, itself, tangent },
    { "ops", "add",              "x + b",                                     run_add, 2, itself, added },
    { "ops", "sub",              "x - b",                                     run_sub, 2, itself, subtracted },
    { "ops", "mul",              "x b",                                       run_mul, 2, itself, multiplied },
    { "ops", "div",              "x / b",                                     run_div, 2, itself, divided },
    { "ops", "mul_scalar",       "3 x",                                       run_mul_scalar, 1, itself, tripled },
    { "ops", "add_channels",     "[N,64,64,64] + [64,1,1]",                   run_add_channels, 1, itself, raised },
    { "ops", "clone",            "a copy",                                    run_clone, 1, itself, same },
    { "ops", "transpose",        "[R,4096] to [4096,R]",                      run_transpose, 1, turned, same },
    { "ops", "nhwc",             "[N,64,64,64], channels last",               run_nhwc, 1, channels_first, same },
    { "ops", "cast_f64",         "f32 to f64",                                run_cast_f64, 1, itself, same },
    { "ops", "fill",             "one value everywhere",                      run_fill, 0, itself, half },
    { "ops", "sum",              "of all",                                    run_sum, 1, all, summed },
    { "ops", "sum_rows",         "[R,1024] over the last",                    run_sum_rows, 1, row, summed },
    { "ops", "sum_columns",      "[R,1024] over the first",                   run_sum_columns, 1, column, summed },
    { "ops", "sum_channels",     "[N,64,64,64] over all but the second",      run_sum_channels, 1, channel, summed },
    { "ops", "mean",             "of all",                                    run_mean, 1, all, averaged },
    { "ops", "mean_planes",      "[N,64,64,64] over the last two",            run_mean_planes, 1, plane, averaged },
    { "ops", "max_rows",         "[R,1024] over the last",                    run_max_rows, 1, row, largest },
    { "ops", "max_columns",      "[R,1024] over the first",                   run_max_columns, 1, column, largest },
    { "ops", "argmax_rows",      "[R,1024] over the last",                    run_argmax_rows, 1, row, place_of_largest },
    { "ops", "argmax_columns",   "[R,1024] over the first",                   run_argmax_columns, 1, column, place_of_largest },
    { "ops", "max_pool_2",       "[N,64,64,64], 2x2",                         bench_run_max_pool_2, 1, bench_place_max_pool_2, largest },
    { "ops", "max_pool_3",       "[N,64,64,64], 3x3, stride 2, padding 1",    bench_run_max_pool_3, 1, bench_place_max_pool_3, largest },
    { "ops", "max_pool_3s1",     "[N,64,64,64], 3x3, stride 1, padding 1",    bench_run_max_pool_3s1, 1, bench_place_max_pool_3s1, largest },
    { "ops", "max_pool_5s1",     "[N,64,64,64], 5x5, stride 1, padding 2",    bench_run_max_pool_5s1, 1, bench_place_max_pool_5s1, largest },
    { "ops", "max_pool_14",      "[N,1,14,14], 3x3, stride 1, padding 1",     bench_run_max_pool_14, 1, bench_place_max_pool_14, largest },
    { "ops", "max_pool_f64",     "f64 [N,64,64,64], 3x3, stride 1",           bench_run_max_pool_f64, 1, bench_place_max_pool_f64, largest },
    { "ops", "max_pool_2i",      "2x2, and indices: half of x's bytes",       bench_run_max_pool_2i, 1.5, bench_place_max_pool_2i, largest },
    { "ops", "max_pool_3i",      "3x3, stride 1, and indices: twice x's",     bench_run_max_pool_3i, 3, bench_place_max_pool_3i, largest },
    { "ops", "avg_pool_2",       "[N,64,64,64], 2x2",                         bench_run_avg_pool_2, 1, bench_place_avg_pool_2, averaged },
    { "ops", "avg_pool_3",       "[N,64,64,64], 3x3, stride 2, padding 1",    bench_run_avg_pool_3, 1, bench_place_avg_pool_3, averaged },
    { "ops", "avg_pool_4",       "[N,64,64,64], 4x4",                         bench_run_avg_pool_4, 1, bench_place_avg_pool_4, averaged },
    { "ops", "adaptive_56",      "[N,1,56,56] to 7x7",                        bench_run_adaptive_56, 1, bench_place_adaptive_56, averaged },
    { "ops", "adaptive_16",      "[N,1,16,16] to 7x7",                        bench_run_adaptive_16, 1, bench_place_adaptive_16, averaged },
    { "ops", "global_avg_7",     "[N,1,7,7] to 1x1",                          bench_run_global_avg_7, 1, bench_place_global_avg_7, averaged },
    { "ops", "global_avg_pool",  "[N,64,64,64] to 1x1",                       bench_run_global_avg_pool, 1, bench_place_global_avg_pool, averaged },
    { "ops", "softmax",          "[R,1024] over the last",                    run_softmax, 1, its_row, share },
    { "ops", "softmax_long",     "[R,65536] over the last",                   run_softmax_long, 1, its_long_row, share },
    { "ops", "softmax_channels", "[N,64,64,64] over the second",              run_softmax_channels, 1, its_pixel, share },
    { "ops", "log_softmax",      "[R,1024] over the last",                    run_log_softmax, 1, its_row, log_share },
    { "ops", "batch_norm",       "[N,64,64,64], given statistics",            run_batch_norm, 1, itself, normalized },
    { "ops", "batch_norm_train", "[N,64,64,64], its own: two passes over x",  run_batch_norm_train, 2, its_channel, normalized_by_itself },

    /* Of 64 elements: what a call costs before the work begins. */
    { "host", "host_relu",       "relu of 64 elements, queued",               run_host_relu, 1, NULL, NULL },
    { "host", "host_add",        "add of 64 elements, queued",                run_host_add, 1, NULL, NULL },
    { "host", "host_sum",        "sum of 64 elements, queued",                run_host_sum, 1, NULL, NULL },
    { "host", "host_conv2d",     "conv2d of 64 elements, queued",             run_host_conv2d, 1, NULL, NULL },
    { NULL, NULL, NULL, NULL, 0, NULL, NULL },
};
// clang-format on
