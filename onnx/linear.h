/// A linear map whose weight is [in, out], as the format's MatMul has it. Private to onnx/.
#ifndef TALC_ONNX_LINEAR_H
#define TALC_ONNX_LINEAR_H

#include "nn/module.h"
#include "ops/linear.h"

typedef struct talc_onnx_linear {
    talc_module base;
    talc_tensor *weight; ///< [in, out]
    talc_tensor *bias;   ///< [out], or NULL
} talc_onnx_linear;

extern const talc_module_class talc_onnx_linear_class;

/// y, as talc_linear with these options, which may be NULL.
talc_tensor *talc_onnx_linear_run(const talc_onnx_linear *self, talc_tensor *x,
                                  const talc_linear_options *options);

#endif
