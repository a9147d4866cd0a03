/// Where results of the ops of `talc bench` come from, and what they must be, as far as several tables of ops need it: in f64,
/// with the bound of f32 arithmetic unless the name says f64.
#ifndef TALC_TOOLS_BENCH_DUE_H
#define TALC_TOOLS_BENCH_DUE_H

#include "tools/bench_ops.h"

/// x[at] alone, for the element that stands there in the result.
bench_gather bench_one(int64_t at);

/// An element of the result for each of x.
bench_gather bench_itself(const bench_data *data, int64_t index);

/// The element that a result stands for.
double bench_x_at(const bench_data *data, const bench_gather *gather);

/// The elements that a result is made of.
typedef struct bench_totals {
    double sum, sizes, squares, most, count;
    int64_t most_at; ///< the first of the largest
} bench_totals;

bench_totals bench_add_up(const bench_data *data, const bench_gather *gather);

/// For bench_op.due.
double bench_same(const bench_data *data, const bench_gather *gather, double *bound);
double bench_summed(const bench_data *data, const bench_gather *gather, double *bound);
double bench_averaged(const bench_data *data, const bench_gather *gather, double *bound);
double bench_summed_f64(const bench_data *data, const bench_gather *gather, double *bound);
double bench_averaged_f64(const bench_data *data, const bench_gather *gather, double *bound);
double bench_largest(const bench_data *data, const bench_gather *gather, double *bound);
double bench_place_of_largest(const bench_data *data, const bench_gather *gather, double *bound);

/// Batch norm with weight and bias 0.5: of mean 0.5 and variance 0.25 - 1e-5, and of the elements' own.
double bench_normalized(const bench_data *data, const bench_gather *gather, double *bound);
double bench_normalized_by_itself(const bench_data *data, const bench_gather *gather,
                                  double *bound);

#endif
