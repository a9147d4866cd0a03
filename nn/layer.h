/// The layers' own structs and classes, and how they make and check their parameters. Private to
/// nn/.
#ifndef TALC_NN_LAYER_H
#define TALC_NN_LAYER_H

#include "nn/fuse.h"
#include "ops/batch_norm2d.h"
#include "ops/conv2d.h"
#include "ops/group_norm.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "tensor/table.h"

typedef struct talc_conv2d_module {
    talc_module base;
    talc_tensor *weight; /* [OC, C/groups, KH, KW] */
    talc_tensor *bias;   /* [OC], or NULL */
    talc_conv2d_options options;
} talc_conv2d_module;

typedef struct talc_linear_module {
    talc_module base;
    talc_tensor *weight; /* [out, in], or [in, out] where it is transposed */
    talc_tensor *bias;   /* [out], or NULL */
    talc_linear_options options;
    bool transposed;
} talc_linear_module;

typedef struct talc_batch_norm2d_module {
    talc_module base;
    talc_tensor *weight, *bias;              /* [C], or NULL without affine */
    talc_tensor *running_mean, *running_var; /* [C], or NULL without tracking */
    talc_tensor *num_batches_tracked;        /* i64 scalar, or NULL without tracking */
    talc_batch_norm2d_options options;
    struct talc_group *group; /* whose batch it normalises in training; NULL: its own */
} talc_batch_norm2d_module;

extern const talc_module_class talc_conv2d_class, talc_linear_class, talc_batch_norm2d_class;
extern const talc_module_class talc_sequential_class;

/// The activation that a layer is; NONE for one that is none, or takes another number than it.
talc_activation talc_activation_of(const talc_module *module);

/// Writes how a layer's windows lie, "3x3 s2x2 p1x0".
void talc_layer_window(const talc_pool2d_options *options, int64_t groups,
                       char text[TALC_CELL_TEXT]);

/// The same of a module of that kind; false for another.
bool talc_conv2d_window_text(const talc_module *module, char text[TALC_CELL_TEXT]);
bool talc_conv_transpose2d_window_text(const talc_module *module, char text[TALC_CELL_TEXT]);
bool talc_pool2d_window_text(const talc_module *module, char text[TALC_CELL_TEXT]);

/// Whether a module is a dropout or a drop path in evaluation, which hands its input on.
bool talc_dropout_passes(const talc_module *module);

/// Applies a linear map, followed by `end`, which takes the place of its own activation; NULL: that
/// one follows.
talc_tensor *talc_linear_apply(const talc_module *module, const talc_tensor *x,
                               const talc_chain_end *end);

/// Applies a batch norm, in training with its running statistics moved and the batch counted, then
/// `end`.
talc_tensor *talc_batch_norm2d_apply(talc_module *module, const talc_tensor *x,
                                     const talc_chain_end *end);

// ---- Parameters ---------------------------------------------------------------------------------

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

/// False, with a failure raised, where one of two is negative; TALC_ZERO, which is as well, may be
/// asked for or not.
bool talc_layer_not_negative(const talc_module *module, const char *option, const int64_t pair[2],
                             bool may_ask_for_zero);

/// False, with a failure raised, unless a convolution can have these channels, kernel, groups (0:
/// 1) and dtype.
bool talc_layer_convolves(const talc_module *module, int64_t in_channels, int64_t out_channels,
                          const int64_t kernel[2], int64_t groups, talc_dtype dtype);

#endif
