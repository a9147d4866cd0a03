/// Activations and their gradients, by the formulas of ops/elementwise_table.h. Private to
/// backends/cpu.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_ACTIVATION_H
#define TALC_BACKENDS_CPU_PRIMITIVES_ACTIVATION_H

#include "ops/activation.h"
#include "tensor/tensor.h"

/// y[i] = act(y[i]) for `count` adjacent elements, f32 or f64, in the data's own type.
void talc_cpu_activate(talc_dtype dtype, talc_activation activation, int64_t count, void *y);

/// act(x) for one number, for `reference` kernels.
double talc_cpu_activation(talc_activation activation, double x);

/// g[i] = dy[i] act'(x[i]) of `count` adjacent elements, from y = act(x); there is an activation. g
/// may be dy.
void talc_cpu_activation_gradient(talc_dtype dtype, talc_activation activation, int64_t count,
                                  void *g, const void *dy, const void *y);

#endif
