/// What operators share. Private to onnx/.
#ifndef TALC_ONNX_SHARED_H
#define TALC_ONNX_SHARED_H

#include "onnx/graph.h"
#include "ops/pool2d.h"
#include "ops/window.h"
#include "tensor/device.h"

/// A dimension from 0 to rank - 1; false, with a failure, for another than -rank .. rank - 1.
bool talc_onnx_axis(const talc_onnx_call *call, int64_t axis, int rank, int *dim);

/// The axes that an input lists, where it is there, else the attribute, from 0 to rank - 1. None:
/// rank 0. False with a failure.
bool talc_onnx_axes(talc_onnx_call *call, int input, int rank, talc_dims *axes);

/// The shape to which two broadcast. False with a failure.
bool talc_onnx_broadcast(const talc_onnx_call *call, talc_dims a, talc_dims b, talc_dims *both);

/// Kernel, stride, dilation and padding of a node whose x is [N, C, ...] with one or two dimensions
/// of space: of one it is the second.
typedef struct talc_onnx_window {
    int64_t kernel[2], stride[2], dilation[2];
    int64_t begin[2], end[2]; ///< padding
} talc_onnx_window;

/// `kernel` is that of the weight, or NULL. auto_pad is worked out for an x of these dims; NULL:
/// false, without a failure, where it asks for them.
bool talc_onnx_window_of(const talc_onnx_node *node, const int64_t *kernel, int space,
                         const talc_dims *x, talc_onnx_window *window);

/// Whether the lists of a node are of that many dimensions of space, where they are given.
bool talc_onnx_window_fits(const talc_onnx_node *node, int space);

/// Padding as options of ops have it: the end is TALC_ZERO where it is 0 and the begin is not.
void talc_onnx_padding(const talc_onnx_window *window, int64_t padding[2], int64_t padding_end[2]);

/// Options of a MaxPool or an AveragePool with that window.
talc_pool2d_options talc_onnx_pool_options(const talc_onnx_node *node,
                                           const talc_onnx_window *window);

/// [N, C, ...] as [N, C, rest, 1], [N] as [N, 1, 1, 1]; NULL and a scalar pass.
talc_tensor *talc_onnx_planes(talc_tensor *x);

/// x with a dimension of 1 before its last, so that what has one dimension of space has two; and
/// back.
talc_tensor *talc_onnx_widen(talc_tensor *x);
talc_tensor *talc_onnx_narrow(talc_tensor *x);

/// Operators that a function of talc of one operand is, X(operator, function).
// clang-format off
#define TALC_ONNX_UNARY(X)                                                                         \
    X("Abs", abs) X("Ceil", ceil) X("Erf", erf) X("Exp", exp) X("Floor", floor)                    \
    X("HardSwish", hardswish) X("Log", log) X("Neg", neg) X("Reciprocal", reciprocal)              \
    X("Relu", relu) X("Round", round) X("Sigmoid", sigmoid) X("Sign", sign)                        \
    X("Softsign", softsign) X("Sqrt", sqrt) X("Tanh", tanh)
// clang-format on

extern const talc_onnx_operator talc_onnx_elementwise[], talc_onnx_shapes[], talc_onnx_nets[];

#endif
