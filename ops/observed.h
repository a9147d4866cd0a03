/// What the `problem` of a talc_observation points to. Private to talc.
///
///     conv2d, conv2d.grad_input                    talc_conv2d_problem
///     matmul, linear                               talc_matmul_problem
///     max_pool2d, avg_pool2d, and adaptive         talc_pool2d_problem
///     batch_norm2d                                 talc_batch_norm2d_problem
///     group_norm                                   talc_group_norm_problem
///     gather, index_select, one_hot               talc_gather_observed
///     cumsum, cumprod                              talc_cumsum_observed
///     sum, mean, max, argmax, min, argmin, var, logsumexp
///                                                  talc_reduce_observed
///     softmax, log_softmax                         talc_softmax_observed
///     cross_entropy                                talc_cross_entropy_problem
///     neg, relu, sigmoid, tanh, exp, log, sqrt,
///     abs, softplus                                talc_unary_problem
///     add, sub, mul, div, pow, maximum, minimum,
///     equal .. greater_equal                       talc_binary_problem
///     nll_loss, before its reduction               talc_nll_loss_problem
///     concat                                       talc_concat_observed
///     pad, upsample2d                              talc_resample_problem
///     clone, contiguous, cast, to, copy, where     nothing
///
/// Strides in a problem are those of the operands as they lay; the structs here speak of dimensions
/// instead.
#ifndef TALC_OPS_OBSERVED_H
#define TALC_OPS_OBSERVED_H

#include "ops/gather.h"
#include "ops/reduce.h"

typedef struct talc_gather_observed {
    talc_gather_function function;
    int dim;
} talc_gather_observed;

typedef struct talc_reduce_observed {
    talc_reduce_function function;
    bool reduced[TALC_MAX_RANK]; ///< which dimensions of x go
    double correction;           ///< of var
} talc_reduce_observed;

typedef struct talc_softmax_observed {
    bool log;
    int dim;
} talc_softmax_observed;

typedef struct talc_cumsum_observed {
    int dim;
} talc_cumsum_observed;

typedef struct talc_concat_observed {
    int dim;
} talc_concat_observed;

#endif
