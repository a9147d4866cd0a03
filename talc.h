/// talc: Tensors And Layers in C. Everything public.
///
/// Threads use talc at once, each with its own errors, scopes, generator and streams. A tensor that
/// several share is read by all or written by one, and retained by each (tensor/scope.h).
/// nn/module.h says what threads may do with one module, tensor/autograd.h with gradients.
#ifndef TALC_TALC_H
#define TALC_TALC_H

#include "backends/backends.h"
#include "check/check.h"
#include "check/gradient.h"
#include "check/model.h"
#include "check/trace.h"
#include "nn/nn.h"
#include "onnx/onnx.h"
#include "ops/ops.h"
#include "tensor/autograd.h"
#include "tensor/device.h"
#include "tensor/error.h"
#include "tensor/npy.h"
#include "tensor/precision.h"
#include "tensor/print.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"
#include "tensor/scope.h"
#include "tensor/shown.h"
#include "tensor/stream.h"
#include "tensor/table.h"
#include "tensor/tensor.h"

#endif
