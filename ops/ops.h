/// All ops. Each header is its op's whole definition.
#ifndef TALC_OPS_OPS_H
#define TALC_OPS_OPS_H

#include "activation.h"
#include "algorithm.h"
#include "elementwise.h"
#include "reduce.h"
#include "softmax.h"

#endif
