/// Where results of the ops of `talc bench` come from, and what they must be: in f64, by formulas
/// of their own, with the bound of the operand's arithmetic.
#ifndef TALC_TOOLS_BENCH_BENCH_EXPECTED_H
#define TALC_TOOLS_BENCH_BENCH_EXPECTED_H

#include "tools/bench/bench_ops.h"

#define BENCH_GATHER(name)                                                                         \
    bench_gather bench_##name(const bench_data *data, const bench_op *op, int64_t index);

BENCH_GATHER(itself)       ///< an element of the result for each of x
BENCH_GATHER(transposed)   ///< of [A, K, B] to [A, B, K]
BENCH_GATHER(cut)          ///< of [A, K] without its first and last column
BENCH_GATHER(every_second) ///< every second element of x
BENCH_GATHER(line)         ///< a line of [A, K, B] along K
BENCH_GATHER(its_line)     ///< the line that an element lies in
BENCH_GATHER(channel)      ///< a channel of [N, C, H, W]
BENCH_GATHER(its_channel)  ///< the channel that an element lies in
BENCH_GATHER(window)       ///< a window, without the padding
BENCH_GATHER(adaptive)     ///< a window of adaptive pooling

#undef BENCH_GATHER

#define BENCH_EXPECTED(name)                                                                       \
    double bench_##name(const bench_data *data, const bench_op *op, const bench_gather *gather,    \
                        double *bound);

BENCH_EXPECTED(same)
BENCH_EXPECTED(same_byte)
BENCH_EXPECTED(negated)
BENCH_EXPECTED(rectified)
BENCH_EXPECTED(logistic)
BENCH_EXPECTED(tangent)
BENCH_EXPECTED(sigmoid_linear)
BENCH_EXPECTED(gaussian_linear)
BENCH_EXPECTED(added)
BENCH_EXPECTED(subtracted)
BENCH_EXPECTED(multiplied)
BENCH_EXPECTED(divided)
BENCH_EXPECTED(added_row)        ///< [A, K] + [K]
BENCH_EXPECTED(added_column)     ///< [A, K] + [A, 1]
BENCH_EXPECTED(added_transposed) ///< [R, K] transposed + [K, R]
BENCH_EXPECTED(tripled)
BENCH_EXPECTED(raised) ///< by a half
BENCH_EXPECTED(half)   ///< whatever x is
BENCH_EXPECTED(summed)
BENCH_EXPECTED(averaged)
BENCH_EXPECTED(largest)
BENCH_EXPECTED(place_of_largest)
BENCH_EXPECTED(share) ///< softmax
BENCH_EXPECTED(log_share)
BENCH_EXPECTED(
    normalized) ///< batch norm, weight and bias 0.5, of mean 0.5 and variance 0.25 - 1e-5
BENCH_EXPECTED(normalized_by_itself) ///< of the elements' own

#undef BENCH_EXPECTED

#endif
