/// How layers make and check their parameters. Private to talc.
#ifndef TALC_NN_PARAMETER_H
#define TALC_NN_PARAMETER_H

#include "nn/module.h"

/// Registers a parameter with elements uniform in +-1/sqrt(fan_in), drawn on the CPU.
talc_tensor *talc_parameter_uniform(talc_module *module, const char *name, talc_dtype dtype,
                                    talc_dims dims, double fan_in);

/// Registers a parameter or a buffer that is `value` everywhere.
talc_tensor *talc_parameter_full(talc_module *module, const char *name, talc_dtype dtype,
                                 talc_dims dims, double value);
talc_tensor *talc_buffer_full(talc_module *module, const char *name, talc_dtype dtype,
                              talc_dims dims, double value);

/// False, with a failure raised, unless value is at least 1. `option` is its name: "in_channels".
bool talc_layer_positive(const talc_module *module, const char *option, int64_t value);

/// False, with a failure raised, unless dtype is f32 or f64.
bool talc_layer_float(const talc_module *module, talc_dtype dtype);

#endif
