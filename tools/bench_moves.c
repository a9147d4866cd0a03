/// The ops of `talc bench` that turn, repeat or cut dimensions: copies, and elementwise ops with such operands.
#include "tools/bench_due.h"

#include <math.h>
#include <stddef.h>

/* Shapes: [R, WIDTH]; [R, ODD]; images [N, CHANNELS, SIDE, SIDE]; deep ones, [N, DEPTH, 7, 7]. */
enum {
    WIDTH = 4096,
    ODD = 1001,
    CHANNELS = BENCH_CHANNELS,
    SIDE = 64,
    PLANE = SIDE * SIDE,
    DEPTH = 512,
    SMALL = 49
};

typedef bench_gather gather;

// ---- Where a result comes from ------------------------------------------------------------------------------

/* Element `index` of [WIDTH, rows] stands there in [rows, WIDTH]. */
static int64_t turned_at(int64_t index, int64_t rows)
{
    return index % rows * WIDTH + index / rows;
}

static gather turned(const bench_data *d, int64_t index)
{
    return bench_one(turned_at(index, d->count / WIDTH));
}

static gather turned_doubles(const bench_data *d, int64_t index)
{
    return bench_one(turned_at(index, d->count / 2 / WIDTH));
}

static gather turned_bytes(const bench_data *d, int64_t index)
{
    return bench_one(turned_at(index, d->count * 4 / WIDTH) % d->count);
}

/* Element `index` of [N, A, B] stands there in [N, B, A]. */
static gather exchanged(int64_t index, int64_t A, int64_t B)
{
    const int64_t n = index / A / B, a = index / B % A, b = index % B;
    return bench_one((n * B + b) * A + a);
}

static gather nhwc(const bench_data *d, int64_t index)
{
    (void)d;
    return exchanged(index, PLANE, CHANNELS);
}

static gather nchw(const bench_data *d, int64_t index)
{
    (void)d;
    return exchanged(index, CHANNELS, PLANE);
}

static gather deep_nhwc(const bench_data *d, int64_t index)
{
    (void)d;
    return exchanged(index, SMALL, DEPTH);
}

static gather deep_nchw(const bench_data *d, int64_t index)
{
    (void)d;
    return exchanged(index, DEPTH, SMALL);
}

/* x without its first and last column. */
static gather cut(const bench_data *d, int64_t index)
{
    (void)d;
    return bench_one(index / (ODD - 2) * ODD + index % (ODD - 2) + 1);
}

static gather every_second(const bench_data *d, int64_t index)
{
    (void)d;
    return bench_one(2 * index);
}

// ---- What it must be ----------------------------------------------------------------------------------------

/* In f32, as x was made bytes. */
static double same_byte(const bench_data *d, const gather *g, double *bound)
{
    *bound = 0;
    const float x = 100 * d->on_host[g->at];
    return floor((double)(x + 100));
}

/* Where x's element goes to, there stands the one of `other`. */
static double added(const bench_data *d, const gather *g, double *bound)
{
    const int64_t rows = d->count / WIDTH;
    const double sum =
        (double)d->on_host[g->at] + (double)d->other_on_host[g->at % WIDTH * rows + g->at / WIDTH];
    *bound = 0x1p-24 * fabs(sum);
    return sum;
}

static double summed_with(const bench_data *d, const gather *g, int64_t other, double *bound)
{
    const double sum = bench_x_at(d, g) + (double)d->other_on_host[other];
    *bound = 0x1p-24 * fabs(sum);
    return sum;
}

static double added_row(const bench_data *d, const gather *g, double *bound)
{
    return summed_with(d, g, g->at % ODD, bound);
}

static double added_column(const bench_data *d, const gather *g, double *bound)
{
    return summed_with(d, g, g->at / ODD, bound);
}

static double rectified(const bench_data *d, const gather *g, double *bound)
{
    *bound = 0;
    return fmax(bench_x_at(d, g), 0);
}

// ---- Running ------------------------------------------------------------------------------------------------

static talc_tensor *turn(const talc_tensor *x)
{
    return talc_transpose(talc_view(x, TALC_DIMS(talc_numel(x) / WIDTH, WIDTH)), 0, 1);
}

/* As many [rows, columns] as there are in x, with both exchanged. */
static talc_tensor *exchange(const bench_data *d, int64_t rows, int64_t columns)
{
    const int64_t N = d->count / rows / columns;
    const talc_tensor *x = talc_slice(d->x, 0, 0, N * rows * columns, 1);
    return talc_contiguous(talc_transpose(talc_view(x, TALC_DIMS(N, rows, columns)), 1, 2));
}

static talc_tensor *odd(const bench_data *d)
{
    const int64_t rows = d->count / ODD;
    return talc_view(talc_slice(d->x, 0, 0, rows * ODD, 1), TALC_DIMS(rows, ODD));
}

/* The first `count` elements of the other operand. */
static talc_tensor *some(const bench_data *d, int64_t count)
{
    return talc_slice(d->other, 0, 0, count, 1);
}

#define RUN(name, expression)                                                                      \
    static talc_tensor *run_##name(const bench_data *d)                                            \
    {                                                                                              \
        return expression;                                                                         \
    }

RUN(transpose, talc_contiguous(turn(d->x)))
RUN(transpose_f64, talc_contiguous(turn(d->doubles)))
RUN(transpose_u8, talc_contiguous(turn(d->bytes)))
RUN(add_turned, talc_add(turn(d->x), talc_view(d->other, TALC_DIMS(WIDTH, d->count / WIDTH))))
RUN(nhwc, exchange(d, CHANNELS, PLANE))
RUN(nchw, exchange(d, PLANE, CHANNELS))
RUN(deep_nhwc, exchange(d, DEPTH, SMALL))
RUN(deep_nchw, exchange(d, SMALL, DEPTH))
RUN(add_row, talc_add(odd(d), some(d, ODD)))
RUN(add_column, talc_add(odd(d), talc_view(some(d, d->count / ODD), TALC_DIMS(d->count / ODD, 1))))
RUN(relu_cut, talc_relu(talc_slice(odd(d), 1, 1, ODD - 1, 1)))
RUN(relu_second, talc_relu(talc_slice(d->x, 0, 0, TALC_END, 2)))

// clang-format off
const bench_op bench_moves[] = {
    { "ops", "transpose",     "[R,4096] to [4096,R]",              run_transpose, 1, turned, bench_same },
    { "ops", "transpose_f64", "the same of f64",                   run_transpose_f64, 1, turned_doubles, bench_same },
    { "ops", "transpose_u8",  "the same of u8",                    run_transpose_u8, 1, turned_bytes, same_byte },
    { "ops", "add_turned",    "[R,4096] turned + [4096,R]",        run_add_turned, 2, turned, added },
    { "ops", "nhwc",          "[N,64,64,64], channels last",       run_nhwc, 1, nhwc, bench_same },
    { "ops", "nchw",          "[N,64,64,64], from channels last",  run_nchw, 1, nchw, bench_same },
    { "ops", "deep_nhwc",     "[N,512,7,7], channels last",        run_deep_nhwc, 1, deep_nhwc, bench_same },
    { "ops", "deep_nchw",     "[N,512,7,7], from channels last",   run_deep_nchw, 1, deep_nchw, bench_same },
    { "ops", "add_row",       "[R,1001] + [1001]",                 run_add_row, 1, bench_itself, added_row },
    { "ops", "add_column",    "[R,1001] + [R,1]",                  run_add_column, 1, bench_itself, added_column },
    { "ops", "relu_cut",      "[R,1001] but for two columns",      run_relu_cut, 1, cut, rectified },
    { "ops", "relu_second",   "every second element",              run_relu_second, 1, every_second, rectified },
    { NULL, NULL, NULL, NULL, 0, NULL, NULL },
};
// clang-format on
