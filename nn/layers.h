/// Layers: modules with PyTorch's names, parameters, defaults and initialisation.
///
///     talc_module *net = TALC_SEQUENTIAL(
///         talc_nn_conv2d(&(talc_conv2d_layer){
///             .in_channels = 1, .out_channels = 6, .kernel = {5, 5} }),
///         talc_nn_relu(),
///         talc_nn_max_pool2d(&(talc_pool2d_options){ .kernel = {2, 2} }),
///         talc_nn_flatten(),
///         talc_nn_linear(&(talc_linear_layer){ .in_features = 864, .out_features = 10 }));
///
/// Each function returns a new module that the caller frees or hands to talc_module_add; NULL on
/// failure. Parameters are made on the CPU and drawn from the thread's generator as each layer is
/// made; talc_module_to moves them. In option structs zero means the documented default, as in ops.
/// Shapes of inputs are checked by the ops.
#ifndef TALC_NN_LAYERS_H
#define TALC_NN_LAYERS_H

#include "../ops/conv2d.h"
#include "../ops/conv_transpose2d.h"
#include "../ops/local_response_norm.h"
#include "../ops/pool2d.h"
#include "../ops/resample.h"
#include "module.h"

TALC_BEGIN_DECLARATIONS

// ---- With parameters ----------------------------------------------------------------------------

/// Pairs are height, width; stride to activation as in talc_conv2d_options.
typedef struct talc_conv2d_layer {
    int64_t in_channels, out_channels; ///< multiples of groups
    int64_t kernel[2];
    int64_t stride[2];  ///< 0: 1, of a second one the first
    int64_t padding[2]; ///< top and left, and bottom and right unless padding_end says otherwise
    int64_t padding_end[2]; ///< bottom and right; 0: as top and left; TALC_ZERO: none
    bool padding_same;      ///< output as large as the input, at stride 1
    talc_padding_mode padding_mode;
    int64_t dilation[2];        ///< 0: 1, of a second one the first
    int64_t groups;             ///< 0: 1
    talc_activation activation; ///< applied last; none in PyTorch's layer
    bool no_bias;
    talc_dtype dtype; ///< of the parameters: TALC_F32 (which is zero) or TALC_F64
} talc_conv2d_layer;

/// [N, in, H, W] -> [N, out, OH, OW]. Parameters weight [out, in/groups, KH, KW] and bias [out],
/// both uniform in +-1/sqrt(fan_in), fan_in = in/groups * KH * KW (He et al. 2015 with a = sqrt(5),
/// PyTorch's choice).
TALC_API talc_module *talc_nn_conv2d(const talc_conv2d_layer *options);

/// Pairs are height, width; stride to groups as in talc_conv_transpose2d_options.
typedef struct talc_conv_transpose2d_layer {
    int64_t in_channels, out_channels; ///< multiples of groups
    int64_t kernel[2];
    int64_t stride[2]; ///< 0: 1, of a second one the first
    int64_t padding[2];
    int64_t output_padding[2];
    int64_t dilation[2]; ///< 0: 1, of a second one the first
    int64_t groups;      ///< 0: 1
    bool no_bias;
    talc_dtype dtype;
} talc_conv_transpose2d_layer;

/// [N, in, H, W] -> [N, out, OH, OW]. Parameters weight [in, out/groups, KH, KW] and bias [out],
/// both uniform in
/// +-1/sqrt(fan_in) with fan_in = out/groups * KH * KW, as PyTorch counts it.
TALC_API talc_module *talc_nn_conv_transpose2d(const talc_conv_transpose2d_layer *options);

typedef struct talc_linear_layer {
    int64_t in_features, out_features;
    talc_activation activation; ///< applied last; none in PyTorch's layer
    bool no_bias;
    talc_dtype dtype;
} talc_linear_layer;

/// [..., in] -> [..., out]. Parameters weight [out, in] and bias [out], both uniform in
/// +-1/sqrt(in).
TALC_API talc_module *talc_nn_linear(const talc_linear_layer *options);

typedef struct talc_batch_norm2d_layer {
    int64_t channels;
    double eps;      ///< 0: 1e-5; TALC_ZERO: 0
    double momentum; ///< weight of the newest batch in the running statistics; 0: 0.1; TALC_ZERO: 0
    talc_activation activation; ///< applied last; none in PyTorch's layer
    bool no_affine;             ///< without weight and bias
    bool no_tracking; ///< without running statistics: every batch is normalised by its own
    talc_dtype dtype;
} talc_batch_norm2d_layer;

/// [N, C, H, W] -> the same. Parameters weight [C], ones, and bias [C], zeros; buffers running_mean
/// [C], zeros, running_var [C], ones, and num_batches_tracked, an i64 scalar. In train mode it
/// normalises by the batch and updates the buffers, in evaluation mode by the buffers. Source:
/// Ioffe and Szegedy 2015, arXiv 1502.03167.
TALC_API talc_module *talc_nn_batch_norm2d(const talc_batch_norm2d_layer *options);

typedef struct talc_group_norm_layer {
    int64_t groups, channels;
    double eps;                 ///< 0: 1e-5; TALC_ZERO: 0
    talc_activation activation; ///< applied last; none in PyTorch's layer
    bool no_affine;             ///< without weight and bias
    talc_dtype dtype;
} talc_group_norm_layer;

typedef struct talc_instance_norm2d_layer {
    int64_t channels;
    double eps;
    talc_activation activation;
    bool affine; ///< with weight and bias
    talc_dtype dtype;
} talc_instance_norm2d_layer;

typedef struct talc_layer_norm_layer {
    talc_dims normalised; ///< the last dimensions of what it is applied to
    double eps;
    talc_activation activation;
    bool no_affine, no_bias; ///< without weight and bias; without bias alone
    talc_dtype dtype;
} talc_layer_norm_layer;

/// Any shape that the op of the same name takes (ops/group_norm.h) -> the same; in train and
/// evaluation mode alike. Parameters weight, ones, and bias, zeros: [channels], of LayerNorm the
/// normalised dimensions.
TALC_API talc_module *talc_nn_group_norm(const talc_group_norm_layer *options);
TALC_API talc_module *talc_nn_instance_norm2d(const talc_instance_norm2d_layer *options);
TALC_API talc_module *talc_nn_layer_norm(const talc_layer_norm_layer *options);

typedef struct talc_prelu_layer {
    int64_t parameters; ///< one for all elements, or one for each channel; 0: 1
    double init;        ///< that they begin with; 0: 0.25; TALC_ZERO: 0
    talc_dtype dtype;
} talc_prelu_layer;

/// Any shape -> the same, as talc_prelu says; [N, C, ...] where each of C channels has a parameter.
/// Parameter weight [parameters]. NULL for options: all defaults. Source: He et al. 2015, arXiv
/// 1502.01852.
TALC_API talc_module *talc_nn_prelu(const talc_prelu_layer *options);

// ---- Without parameters -------------------------------------------------------------------------

TALC_API talc_module *talc_nn_identity(void); ///< returns x itself

/// The elementwise ops of the same names, and talc_flatten.
TALC_API talc_module *talc_nn_relu(void);
TALC_API talc_module *talc_nn_sigmoid(void);
TALC_API talc_module *talc_nn_tanh(void);
TALC_API talc_module *talc_nn_relu6(void);
TALC_API talc_module *talc_nn_hardsigmoid(void);
TALC_API talc_module *talc_nn_hardswish(void);
TALC_API talc_module *talc_nn_silu(void);
TALC_API talc_module *talc_nn_mish(void);
TALC_API talc_module *talc_nn_gelu(void);
TALC_API talc_module *talc_nn_gelu_tanh(void);
TALC_API talc_module *talc_nn_selu(void);
TALC_API talc_module *talc_nn_softsign(void);
TALC_API talc_module *talc_nn_elu(double alpha);                 ///< PyTorch's default is 1
TALC_API talc_module *talc_nn_hardtanh(double low, double high); ///< PyTorch's defaults are -1, 1
TALC_API talc_module *talc_nn_flatten(void); ///< [N, ...] -> [N, product of the rest]

/// PyTorch's default slope, 0.01, is the one with which it can be the last step of the layer
/// before.
TALC_API talc_module *talc_nn_leaky_relu(double negative_slope);

/// PyTorch's defaults are 1 and 20.
TALC_API talc_module *talc_nn_softplus(double beta, double threshold);

/// Dimension `dim` of x becomes dimensions of these extents, of which one may be -1. Errors:
/// extents that no dimension has; in forward, extents whose product is another than that
/// dimension's extent.
TALC_API talc_module *talc_nn_unflatten(int dim, talc_dims dims);

/// In train mode each element is 0 with probability p, drawn anew each time, as talc_dropout says;
/// in evaluation mode it returns x itself. Error: p outside 0 .. 1.
TALC_API talc_module *talc_nn_dropout(double p);

/// The same of whole samples, as talc_drop_path says.
TALC_API talc_module *talc_nn_drop_path(double p);

typedef struct talc_local_response_norm_layer {
    int64_t size; ///< channels that take part
    talc_local_response_norm_options options;
} talc_local_response_norm_layer;

/// [N, C, ...] -> the same, as talc_local_response_norm says.
TALC_API talc_module *talc_nn_local_response_norm(const talc_local_response_norm_layer *options);

/// [N, C, H, W] -> [N, C, OH, OW], as the ops of ops/pool2d.h say; `options` are copied. Errors:
/// options that the op refuses whatever x is.
TALC_API talc_module *talc_nn_max_pool2d(const talc_pool2d_options *options);
TALC_API talc_module *talc_nn_avg_pool2d(const talc_pool2d_options *options);

/// [N, C, H, W] -> [N, C, OH, OW], each output the mean or the maximum of its share of the input;
/// 1, 1 pools whole planes.
TALC_API talc_module *talc_nn_adaptive_avg_pool2d(int64_t OH, int64_t OW);
TALC_API talc_module *talc_nn_adaptive_max_pool2d(int64_t OH, int64_t OW);

/// talc_pad and talc_upsample2d, whose options are copied. Errors: options that talc_upsample2d
/// refuses whatever x is. By its mode a padding is called ZeroPad2d, ConstantPad2d,
/// ReflectionPad2d, ReplicationPad2d or CircularPad2d.
TALC_API talc_module *talc_nn_pad2d(const talc_pad_options *options);
TALC_API talc_module *talc_nn_upsample(const talc_upsample2d_options *options);

/// talc_channel_shuffle.
TALC_API talc_module *talc_nn_channel_shuffle(int64_t groups);

// ---- Chains -------------------------------------------------------------------------------------

/// Applies its children in order; without children it returns x itself. Children are added with
/// talc_nn_sequential_append, or with talc_module_add under names of the caller's.
TALC_API talc_module *talc_nn_sequential(void);

/// Adds a child under the number of children before it: "0", "1", ... Ownership as with
/// talc_module_add.
TALC_API talc_module *talc_nn_sequential_append(talc_module *sequential, talc_module *child);

/// A sequential of `count` modules, whose ownership passes, also on failure: a module that the list
/// names twice is refused, and freed once; one that has a parent already is refused and stays where
/// it is.
TALC_API talc_module *talc_nn_sequential_of(talc_module *const modules[], int count);

/// Modules "0", "1", ... for a forward function of the caller's own, which picks from them; to
/// apply the list itself is an error. Children are added with talc_nn_sequential_append.
TALC_API talc_module *talc_nn_module_list(void);

/// Child number `index`, a negative one counted from the end; an index outside is an error. And how
/// many there are; 0 for NULL.
TALC_API talc_module *talc_nn_module_list_at(const talc_module *list, int index);
TALC_API int talc_nn_module_list_count(const talc_module *list);

/// talc_nn_sequential_of for modules written out. C leaves open in which order list elements are
/// made; where draws from the generator must come in order on every compiler, append one by one.
#ifdef __cplusplus
#define TALC_SEQUENTIAL(...) talc_nn_sequential_list(__VA_ARGS__)
extern "C++" {
template <typename... Modules> talc_module *talc_nn_sequential_list(Modules... modules)
{
    talc_module *const list[] = { modules... };
    return talc_nn_sequential_of(list, static_cast<int>(sizeof...(modules)));
}
}
#else
#define TALC_SEQUENTIAL(...)                                                                       \
    talc_nn_sequential_of((talc_module *[]){ __VA_ARGS__ },                                        \
                          (int)(sizeof((talc_module *[]){ __VA_ARGS__ }) / sizeof(talc_module *)))
#endif

TALC_END_DECLARATIONS

#endif
