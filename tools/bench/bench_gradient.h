/// What the results of convolutions are held against: the library's own check of y, and some
/// elements of a gradient, worked out in f64 by the formula.
#ifndef TALC_TOOLS_BENCH_BENCH_GRADIENT_H
#define TALC_TOOLS_BENCH_BENCH_GRADIENT_H

#include "tools/bench/bench.h"

enum { BENCH_GRADIENT_SAMPLES = 512 };

/// Elements of dx or dw: where they are, their value, the sum of the magnitudes of their products
/// and how many those are.
typedef struct bench_gradient_sample {
    int64_t count;
    int64_t index[BENCH_GRADIENT_SAMPLES];
    double value[BENCH_GRADIENT_SAMPLES], size[BENCH_GRADIENT_SAMPLES];
    double terms[BENCH_GRADIENT_SAMPLES];
} bench_gradient_sample;

/// What is expected at some elements of a result: of y, or without `forward` of a gradient.
typedef struct bench_expected {
    talc_check_sample *forward;
    bench_gradient_sample gradient;
} bench_expected;

/// Works out the elements, of a gradient as many as take a second or so. False with a talc failure;
/// freed in any case.
bool bench_expect(bench_expected *self, const bench_operands *operands);
void bench_expected_free(bench_expected *self);

/// Compares a result under the bound for random data of a precision class. False with a talc
/// failure.
bool bench_compare(const bench_expected *self, const bench_operands *operands,
                   const talc_tensor *result, talc_precision precision,
                   talc_check_sample_report *report);

#endif
