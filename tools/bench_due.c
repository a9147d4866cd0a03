#include "tools/bench_due.h"

#include <math.h>

#define U   0x1p-24
#define U64 0x1p-53

bench_gather bench_one(int64_t at)
{
    return (bench_gather){ at, at, { 1, 1, 1 }, { 0 } };
}

bench_gather bench_itself(const bench_data *data, int64_t index)
{
    (void)data;
    return bench_one(index);
}

double bench_x_at(const bench_data *data, const bench_gather *gather)
{
    return (double)data->on_host[gather->at];
}

bench_totals bench_add_up(const bench_data *data, const bench_gather *gather)
{
    bench_totals t = { .most = -INFINITY };
    for (int64_t i = 0; i < gather->extent[0]; i++)
        for (int64_t j = 0; j < gather->extent[1]; j++) {
            const double x =
                (double)data->on_host[gather->first + i * gather->step[0] + j * gather->step[1]];
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

double bench_same(const bench_data *data, const bench_gather *gather, double *bound)
{
    *bound = 0;
    return bench_x_at(data, gather);
}

double bench_summed(const bench_data *data, const bench_gather *gather, double *bound)
{
    const bench_totals t = bench_add_up(data, gather);
    *bound = 4 * U * sqrt(t.count + 4) * t.sizes;
    return t.sum;
}

double bench_averaged(const bench_data *data, const bench_gather *gather, double *bound)
{
    const bench_totals t = bench_add_up(data, gather);
    *bound = 4 * U * sqrt(t.count + 4) * t.sizes / t.count + U * fabs(t.sum / t.count);
    return t.sum / t.count;
}

/* The sums here are made in f64 too. */
double bench_summed_f64(const bench_data *data, const bench_gather *gather, double *bound)
{
    const bench_totals t = bench_add_up(data, gather);
    *bound = (4 * U64 * sqrt(t.count + 4) + 2 * U64 * t.count) * t.sizes;
    return t.sum;
}

double bench_averaged_f64(const bench_data *data, const bench_gather *gather, double *bound)
{
    const double sum = bench_summed_f64(data, gather, bound);
    const double count = (double)(gather->extent[0] * gather->extent[1]);
    *bound = *bound / count + 2 * U64 * fabs(sum / count);
    return sum / count;
}

double bench_largest(const bench_data *data, const bench_gather *gather, double *bound)
{
    *bound = 0;
    return bench_add_up(data, gather).most;
}

double bench_place_of_largest(const bench_data *data, const bench_gather *gather, double *bound)
{
    *bound = 0;
    return (double)bench_add_up(data, gather).most_at;
}

/* (x - 0.5) + 0.5, after six roundings. */
double bench_normalized(const bench_data *data, const bench_gather *gather, double *bound)
{
    const double x = bench_x_at(data, gather);
    *bound = 10 * U * (fabs(x - 0.5) + 0.5);
    return x;
}

double bench_normalized_by_itself(const bench_data *data, const bench_gather *gather, double *bound)
{
    const bench_totals t = bench_add_up(data, gather);
    const double mean = t.sum / t.count, var = t.squares / t.count - mean * mean;
    const double scale = 0.5 / sqrt(var + 1e-5), off = bench_x_at(data, gather) - mean;
    *bound = 10 * U * (scale * (fabs(off) + fabs(mean)) + 0.5) + 1e-9;
    return scale * off + 0.5;
}
