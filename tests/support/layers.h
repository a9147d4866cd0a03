/// Layers of given options, in an expression.
#ifndef TALC_TESTS_LAYERS_H
#define TALC_TESTS_LAYERS_H

#include "talc.h"

#define CONV2D(...)       talc_nn_conv2d(&(talc_conv2d_layer){ __VA_ARGS__ })
#define BATCH_NORM2D(...) talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ __VA_ARGS__ })
#define MAX_POOL2D(...)   talc_nn_max_pool2d(&(talc_pool2d_options){ __VA_ARGS__ })
#define LINEAR(in, out)                                                                            \
    talc_nn_linear(&(talc_linear_layer){ .in_features = in, .out_features = out })

#endif
