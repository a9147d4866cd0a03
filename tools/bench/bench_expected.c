#include "tools/bench/bench_expected.h"

#include <math.h>

// ---- Where a result comes from ------------------------------------------------------------------

static bench_gather one(int64_t at)
{
    return (bench_gather){ at, at, { 1, 1 }, { 0 } };
}

#define GATHER(name)                                                                               \
    bench_gather bench_##name(const bench_data *data, const bench_op *op, int64_t index)

GATHER(itself)
{
    (void)data, (void)op;
    return one(index);
}

/* Elements of the operand. */
static int64_t numel(const bench_data *data, const bench_op *op)
{
    return op->operand == BENCH_BYTES     ? 4 * data->count
           : op->operand == BENCH_DOUBLES ? data->count / 2
                                          : data->count;
}

/* K of [A, K, B]. */
static int64_t line_length(const bench_data *data, const bench_op *op)
{
    const int64_t B = op->shape[2] * op->shape[3];
    return op->shape[1] != 0 ? op->shape[1] : numel(data, op) / op->shape[0] / B;
}

GATHER(transposed)
{
    const int64_t K = line_length(data, op), B = op->shape[2] * op->shape[3];
    const int64_t a = index / B / K, b = index / K % B, k = index % K;
    return one(((a * K + k) * B + b) % data->count);
}

GATHER(cut)
{
    (void)data;
    const int64_t K = op->shape[1];
    return one(index / (K - 2) * K + index % (K - 2) + 1);
}

GATHER(every_second)
{
    (void)data, (void)op;
    return one(2 * index);
}

GATHER(line)
{
    const int64_t K = line_length(data, op), B = op->shape[2] * op->shape[3];
    return (bench_gather){ 0, index / B * K * B + index % B, { K, 1 }, { B } };
}

GATHER(its_line)
{
    const int64_t K = line_length(data, op), B = op->shape[2] * op->shape[3];
    bench_gather gather = bench_line(data, op, index / (K * B) * B + index % B);
    gather.at = index;
    return gather;
}

GATHER(channel)
{
    const int64_t C = op->shape[1], plane = op->shape[2] * op->shape[3];
    const int64_t N = numel(data, op) / C / plane;
    return (bench_gather){ 0, index * plane, { N, plane }, { C * plane, 1 } };
}

GATHER(its_channel)
{
    const int64_t plane = op->shape[2] * op->shape[3];
    bench_gather gather = bench_channel(data, op, index / plane % op->shape[1]);
    gather.at = index;
    return gather;
}

/* Rows top to bottom and columns left to right of a plane of `side` by `side`. */
static bench_gather square(int64_t plane, int64_t side, int64_t top, int64_t left, int64_t bottom,
                           int64_t right)
{
    return (bench_gather){
        0, (plane * side + top) * side + left, { bottom - top, right - left }, { side, 1 }
    };
}

GATHER(window)
{
    (void)data;
    const int64_t from = op->shape[3], side = (from + 2 * op->pad - op->kernel) / op->stride + 1;
    const int64_t h = index / side % side * op->stride - op->pad;
    const int64_t w = index % side * op->stride - op->pad;
    return square(index / side / side, from, h < 0 ? 0 : h, w < 0 ? 0 : w,
                  h + op->kernel > from ? from : h + op->kernel,
                  w + op->kernel > from ? from : w + op->kernel);
}

GATHER(adaptive)
{
    (void)data;
    const int64_t from = op->shape[3], to = op->kernel, h = index / to % to, w = index % to;
    return square(index / to / to, from, h * from / to, w * from / to,
                  (h * from + from + to - 1) / to, (w * from + from + to - 1) / to);
}

// ---- What it must be ----------------------------------------------------------------------------

static double unit(const bench_op *op)
{
    return op->operand == BENCH_DOUBLES ? 0x1p-53 : 0x1p-24;
}

static double x_at(const bench_data *data, const bench_gather *gather)
{
    return (double)data->on_host[gather->at];
}

static double other_at(const bench_data *data, int64_t at)
{
    return (double)data->other_on_host[at];
}

static double within(double value, double ulps, double *bound)
{
    *bound = 2 * ulps * 0x1p-24 * fabs(value);
    return value;
}

/* One element of x makes one of the result: an expression of both, and how many ulp it may be
 * off. */
#define EXPECTED_OF_ONE(name, expression, ulps)                                                    \
    double bench_##name(const bench_data *d, const bench_op *op, const bench_gather *g,            \
                        double *bound)                                                             \
    {                                                                                              \
        (void)op;                                                                                  \
        const double x = x_at(d, g);                                                               \
        return within(expression, ulps, bound);                                                    \
    }

EXPECTED_OF_ONE(same, x, 0)
EXPECTED_OF_ONE(negated, -x, 0)
EXPECTED_OF_ONE(rectified, fmax(x, 0), 0)
EXPECTED_OF_ONE(logistic, 1 / (1 + exp(-x)), 4)
EXPECTED_OF_ONE(tangent, tanh(x), 4)
EXPECTED_OF_ONE(sigmoid_linear, x / (1 + exp(-x)), 6)
EXPECTED_OF_ONE(gaussian_linear, x / 2 * erfc(-x * sqrt(0.5)), 8)
EXPECTED_OF_ONE(tripled, 3 * x, 0.5)
EXPECTED_OF_ONE(raised, x + 0.5, 0.5)
EXPECTED_OF_ONE(half, x * 0 + 0.5, 0)
EXPECTED_OF_ONE(added, x + other_at(d, g->at), 0.5)
EXPECTED_OF_ONE(subtracted, x - other_at(d, g->at), 0.5)
EXPECTED_OF_ONE(multiplied, x *other_at(d, g->at), 0.5)
EXPECTED_OF_ONE(divided, x / other_at(d, g->at), 0.5)
EXPECTED_OF_ONE(added_row, x + other_at(d, g->at % op->shape[1]), 0.5)
EXPECTED_OF_ONE(added_column, x + other_at(d, g->at / op->shape[1]), 0.5)

/* Where x's element goes to, there stands the one of `other`. */
EXPECTED_OF_ONE(added_transposed,
                x + other_at(d, g->at % op->shape[2] * (d->count / op->shape[2]) +
                                    g->at / op->shape[2]),
                0.5)

/* In f32, as x was made bytes. */
EXPECTED_OF_ONE(same_byte, floor((double)((float)(100 * (float)x) + 100)), 0)

#define EXPECTED(name)                                                                             \
    double bench_##name(const bench_data *data, const bench_op *op, const bench_gather *gather,    \
                        double *bound)

/* The elements that a result is made of. */
typedef struct totals {
    double sum, sizes, squares, max, count;
    int64_t max_at; /* the first of the largest */
} totals;

static totals add_up(const bench_data *data, const bench_gather *gather)
{
    totals t = { .max = -INFINITY };
    for (int64_t i = 0; i < gather->extent[0]; i++)
        for (int64_t j = 0; j < gather->extent[1]; j++) {
            const double x =
                (double)data->on_host[gather->first + i * gather->step[0] + j * gather->step[1]];
            t.sum += x;
            t.sizes += fabs(x);
            t.squares += x * x;
            if (x > t.max) {
                t.max = x;
                t.max_at = (int64_t)t.count;
            }
            t.count++;
        }
    return t;
}

/* A sum of f64 is made in f64 here too. */
EXPECTED(summed)
{
    const totals t = add_up(data, gather);
    const double own = op->operand == BENCH_DOUBLES ? 2 * unit(op) * t.count : 0;
    *bound = (4 * unit(op) * sqrt(t.count + 4) + own) * t.sizes;
    return t.sum;
}

EXPECTED(averaged)
{
    const double sum = bench_summed(data, op, gather, bound);
    const double count = (double)(gather->extent[0] * gather->extent[1]);
    *bound = *bound / count + (op->operand == BENCH_DOUBLES ? 2 : 1) * unit(op) * fabs(sum / count);
    return sum / count;
}

EXPECTED(largest)
{
    (void)op;
    *bound = 0;
    return add_up(data, gather).max;
}

EXPECTED(place_of_largest)
{
    (void)op;
    *bound = 0;
    return (double)add_up(data, gather).max_at;
}

/* The sum of exponentials; *from is the element itself. Both are relative to the largest. */
static double exponentials(const bench_data *data, const bench_gather *gather, double *roundings,
                           double *from)
{
    const double max = add_up(data, gather).max;
    double sum = 0;
    for (int64_t i = 0; i < gather->extent[0]; i++)
        sum += exp((double)data->on_host[gather->first + i * gather->step[0]] - max);
    *from = x_at(data, gather) - max;
    *roundings = 4 + fabs(*from) + 2 * sqrt((double)gather->extent[0]);
    return sum;
}

EXPECTED(share)
{
    double roundings, from;
    const double sum = exponentials(data, gather, &roundings, &from), y = exp(from) / sum;
    *bound = roundings * unit(op) * y;
    return y;
}

EXPECTED(log_share)
{
    double roundings, from;
    const double sum = exponentials(data, gather, &roundings, &from), y = from - log(sum);
    *bound = (roundings + fabs(y)) * unit(op);
    return y;
}

/* (x - 0.5) + 0.5, after six roundings. */
EXPECTED(normalized)
{
    const double x = x_at(data, gather);
    *bound = 10 * unit(op) * (fabs(x - 0.5) + 0.5);
    return x;
}

EXPECTED(normalized_by_itself)
{
    const totals t = add_up(data, gather);
    const double mean = t.sum / t.count, var = t.squares / t.count - mean * mean;
    const double scale = 0.5 / sqrt(var + 1e-5), off = x_at(data, gather) - mean;
    *bound = 10 * unit(op) * (scale * (fabs(off) + fabs(mean)) + 0.5) + 1e-9;
    return scale * off + 0.5;
}
