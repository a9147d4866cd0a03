/// All ops. Each header is its op's whole definition.
#ifndef TALC_OPS_OPS_H
#define TALC_OPS_OPS_H

#include "activation.h"
#include "algorithm.h"
#include "backend.h"
#include "batch_norm2d.h"
#include "compare.h"
#include "concat.h"
#include "conv2d.h"
#include "conv_transpose2d.h"
#include "cross_entropy.h"
#include "cumprod.h"
#include "cumsum.h"
#include "custom.h"
#include "dropout.h"
#include "elementwise.h"
#include "gather.h"
#include "group_norm.h"
#include "linear.h"
#include "local_response_norm.h"
#include "losses.h"
#include "matmul.h"
#include "nll_loss.h"
#include "own_algorithm.h"
#include "pool2d.h"
#include "rearrange.h"
#include "reduce.h"
#include "resample.h"
#include "softmax.h"
#include "unfold.h"

#endif
