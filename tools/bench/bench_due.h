/// Where results of the ops of `talc bench` come from, and what they must be: in f64, by formulas
/// of their own, with the bound of the operand's arithmetic.
#ifndef TALC_TOOLS_BENCH_BENCH_DUE_H
#define TALC_TOOLS_BENCH_BENCH_DUE_H

#include "tools/bench/bench_ops.h"

#define BENCH_PLACE(name)                                                                          \
    bench_gather bench_##name(const bench_data *data, const bench_op *op, int64_t index);

BENCH_PLACE(itself)       ///< an element of the result for each of x
BENCH_PLACE(transposed)   ///< of [A, K, B] to [A, B, K]
BENCH_PLACE(cut)          ///< of [A, K] without its first and last column
BENCH_PLACE(every_second) ///< every second element of x
BENCH_PLACE(line)         ///< a line of [A, K, B] along K
BENCH_PLACE(its_line)     ///< the line that an element lies in
BENCH_PLACE(channel)      ///< a channel of [N, C, H, W]
BENCH_PLACE(its_channel)  ///< the channel that an element lies in
BENCH_PLACE(window)       ///< a window, without the padding
BENCH_PLACE(adaptive)     ///< a window of adaptive pooling

#undef BENCH_PLACE

#define BENCH_DUE(name)                                                                            \
    double bench_##name(const bench_data *data, const bench_op *op, const bench_gather *gather,    \
                        double *bound);

BENCH_DUE(same)
BENCH_DUE(same_byte)
BENCH_DUE(negated)
BENCH_DUE(rectified)
BENCH_DUE(logistic)
BENCH_DUE(tangent)
BENCH_DUE(sigmoid_linear)
BENCH_DUE(gaussian_linear)
BENCH_DUE(added)
BENCH_DUE(subtracted)
BENCH_DUE(multiplied)
BENCH_DUE(divided)
BENCH_DUE(added_row)        ///< [A, K] + [K]
BENCH_DUE(added_column)     ///< [A, K] + [A, 1]
BENCH_DUE(added_transposed) ///< [R, K] transposed + [K, R]
BENCH_DUE(tripled)
BENCH_DUE(raised) ///< by a half
BENCH_DUE(half)   ///< whatever x is
BENCH_DUE(summed)
BENCH_DUE(averaged)
BENCH_DUE(largest)
BENCH_DUE(place_of_largest)
BENCH_DUE(share) ///< softmax
BENCH_DUE(log_share)
BENCH_DUE(normalized) ///< batch norm, weight and bias 0.5, of mean 0.5 and variance 0.25 - 1e-5
BENCH_DUE(normalized_by_itself) ///< of the elements' own

#undef BENCH_DUE

#endif
