/* Modules in place of steps. */
#include "nn/layer.h"
#include "nn/layers.h"
#include "onnx/shared.h"
#include "onnx/tree.h"

#include <string.h>

/* A parameter of that rank in an input; NULL: it is none. */
static const talc_onnx_tensor *parameter(const talc_onnx_graph *graph, const talc_onnx_step *step,
                                         int input, int rank)
{
    const int value = input < step->input_count ? step->inputs[input] : -1;
    const talc_onnx_tensor *tensor = value < 0 || graph->values[value].constant != NULL
                                         ? NULL
                                         : graph->values[value].initializer;
    return tensor != NULL && tensor->dims.rank == rank ? tensor : NULL;
}

static bool is_absent(const talc_onnx_step *step, int input)
{
    return input >= step->input_count || step->inputs[input] < 0;
}

/* A module whose tensors are the file's, which have the names of the file: what init would make is
 * not wanted. */
static talc_module *bare(const talc_module_class *kind)
{
    const talc_module_class of_size = { .name = kind->name, .size = kind->size };
    talc_module *module = talc_module_new(&of_size, NULL);
    if (module != NULL)
        module->kind = kind;
    return module;
}

static talc_module *conv_module(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    const talc_onnx_tensor *weight = parameter(graph, step, 1, 4);
    talc_onnx_window window;
    if (weight == NULL || !talc_onnx_window_fits(step->node, 2) ||
        (!is_absent(step, 2) && parameter(graph, step, 2, 1) == NULL) ||
        !talc_onnx_window_of(step->node, weight->dims.dim + 2, 2, NULL, &window))
        return NULL;
    talc_conv2d_module *self = (talc_conv2d_module *)bare(&talc_conv2d_class);
    if (self == NULL)
        return NULL;
    self->options.groups = talc_onnx_int(step->node, "group", 1);
    memcpy(self->options.stride, window.stride, sizeof window.stride);
    memcpy(self->options.dilation, window.dilation, sizeof window.dilation);
    talc_onnx_padding(&window, self->options.padding, self->options.padding_end);
    return &self->base;
}

static talc_module *linear_of(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    const talc_onnx_node *node = step->node;
    const bool gemm = strcmp(step->op->name, "Gemm") == 0;
    if (parameter(graph, step, 1, 2) == NULL ||
        (!is_absent(step, 2) && parameter(graph, step, 2, 1) == NULL) ||
        (gemm && (talc_onnx_float(node, "alpha", 1) != 1 || talc_onnx_float(node, "beta", 1) != 1 ||
                  talc_onnx_int(node, "transA", 0) != 0)))
        return NULL;
    /* A bias of one number, which Gemm would broadcast, is no linear map's. */
    const bool transposed = gemm && talc_onnx_int(node, "transB", 0) != 0;
    const int64_t out = parameter(graph, step, 1, 2)->dims.dim[transposed ? 0 : 1];
    if (!is_absent(step, 2) && parameter(graph, step, 2, 1)->count != out)
        return NULL;
    talc_linear_module *self = (talc_linear_module *)bare(&talc_linear_class);
    if (self == NULL)
        return NULL;
    self->transposed = !transposed; /* the format's own order is [in, out] */
    return &self->base;
}

static talc_module *batch_norm_module(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    for (int i = 1; i < 5; i++)
        if (parameter(graph, step, i, 1) == NULL)
            return NULL;
    talc_batch_norm2d_module *self = (talc_batch_norm2d_module *)bare(&talc_batch_norm2d_class);
    if (self == NULL)
        return NULL;
    const double eps = talc_onnx_float(step->node, "epsilon", 1e-5);
    self->options.eps = eps == 0 ? (double)TALC_ZERO : eps;
    const double keeps = talc_onnx_float(step->node, "momentum", 0.9);
    self->options.momentum = keeps == 1 ? (double)TALC_ZERO : 1 - keeps;
    return &self->base;
}

static talc_module *pool_module(const talc_onnx_step *step)
{
    const talc_onnx_node *node = step->node;
    const bool max = strcmp(node->op, "MaxPool") == 0;
    const talc_onnx_attribute *kernel = talc_onnx_attribute_of(node, "kernel_shape");
    talc_onnx_window window;
    if (kernel == NULL || kernel->count != 2 || !talc_onnx_window_of(node, NULL, 2, NULL, &window))
        return NULL;
    const talc_pool2d_options options = talc_onnx_pool_options(node, &window);
    return max ? talc_nn_max_pool2d(&options) : talc_nn_avg_pool2d(&options);
}

/* A limit of Clip; false where it is not known. */
static bool limit(const talc_onnx_graph *graph, const talc_onnx_step *step, int input,
                  const char *attribute, double *number)
{
    *number = talc_onnx_float(step->node, attribute, input == 1 ? -1e300 : 1e300);
    if (is_absent(step, input))
        return true;
    const talc_tensor *constant = graph->values[step->inputs[input]].constant;
    if (constant == NULL || talc_numel(constant) != 1)
        return false;
    *number = talc_item(constant);
    return true;
}

static talc_module *activation_module(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    static const struct {
        const char *op;
        talc_module *(*make)(void);
    } plain[] = {
        { "Relu", talc_nn_relu }, { "Sigmoid", talc_nn_sigmoid },     { "Tanh", talc_nn_tanh },
        { "SiLU", talc_nn_silu }, { "HardSwish", talc_nn_hardswish }, { "Mish", talc_nn_mish },
    };
    const talc_onnx_node *node = step->node;
    const char *op = step->op->name;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(op, plain[i].op) == 0)
            return plain[i].make();
    if (strcmp(op, "Gelu") == 0)
        return strcmp(talc_onnx_string(node, "approximate", "none"), "tanh") == 0
                   ? talc_nn_gelu_tanh()
                   : talc_nn_gelu();
    if (strcmp(op, "LeakyRelu") == 0) {
        const double slope = talc_onnx_float(node, "alpha", 0.01);
        return talc_nn_leaky_relu(slope == (double)0.01f ? 0.01 : slope);
    }
    if (strcmp(op, "Elu") == 0)
        return talc_nn_elu(talc_onnx_float(node, "alpha", 1));
    const double alpha = talc_onnx_float(node, "alpha", 0.2);
    if (strcmp(op, "HardSigmoid") == 0 && alpha > 0.16666 && alpha < 0.16667 &&
        talc_onnx_float(node, "beta", 0.5) == 0.5)
        return talc_nn_hardsigmoid();
    double low, high;
    if (strcmp(op, "Clip") == 0 && limit(graph, step, 1, "min", &low) &&
        limit(graph, step, 2, "max", &high) && low == 0 && high == 6)
        return talc_nn_relu6();
    return NULL;
}

/* Drops where the module is in training mode. One that the file has in that mode always is refused
 * as it runs. */
static talc_module *dropout_module(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    const talc_tensor *ratio = is_absent(step, 1) ? NULL : graph->values[step->inputs[1]].constant;
    const talc_tensor *trains = is_absent(step, 2) ? NULL : graph->values[step->inputs[2]].constant;
    const bool masks = step->output_count > 1 && step->outputs[1] >= 0;
    if (masks || is_absent(step, 1) != (ratio == NULL) || is_absent(step, 2) != (trains == NULL) ||
        (ratio != NULL && talc_numel(ratio) != 1) ||
        (trains != NULL && (talc_numel(trains) != 1 || talc_item_i64(trains) != 0)))
        return NULL;
    const double p = ratio != NULL ? talc_item(ratio) : talc_onnx_float(step->node, "ratio", 0.5);
    return p >= 0 && p <= 1 ? talc_nn_dropout(p) : NULL;
}

/* NULL, without a failure, for a step that is an op of its own. */
static talc_module *module_of(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    const char *op = step->op->name;
    if (strcmp(op, "Conv") == 0)
        return conv_module(graph, step);
    if (strcmp(op, "Gemm") == 0 || strcmp(op, "MatMul") == 0)
        return linear_of(graph, step);
    if (strcmp(op, "BatchNormalization") == 0)
        return batch_norm_module(graph, step);
    if (strcmp(op, "MaxPool") == 0 || strcmp(op, "AveragePool") == 0)
        return pool_module(step);
    if (strcmp(op, "Dropout") == 0)
        return dropout_module(graph, step);
    if (strcmp(op, "Flatten") == 0 && talc_onnx_int(step->node, "axis", 1) == 1)
        return talc_nn_flatten();
    return activation_module(graph, step);
}

static talc_tensor *handle(const talc_onnx_graph *graph, const talc_onnx_step *step, int input)
{
    return is_absent(step, input) ? NULL : graph->values[step->inputs[input]].parameter;
}

/* Gives modules the handles of their parameters. */
static bool connect(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    talc_module *module = step->layers[0];
    if (module->kind == &talc_conv2d_class) {
        talc_conv2d_module *conv = (talc_conv2d_module *)module;
        conv->weight = handle(graph, step, 1);
        conv->bias = handle(graph, step, 2);
    } else if (module->kind == &talc_linear_class) {
        talc_linear_module *linear = (talc_linear_module *)module;
        linear->weight = handle(graph, step, 1);
        linear->bias = handle(graph, step, 2);
    } else if (module->kind == &talc_batch_norm2d_class) {
        talc_batch_norm2d_module *norm = (talc_batch_norm2d_module *)module;
        norm->weight = handle(graph, step, 1);
        norm->bias = handle(graph, step, 2);
        norm->running_mean = handle(graph, step, 3);
        norm->running_var = handle(graph, step, 4);
        norm->num_batches_tracked =
            talc_buffer_full(module, "num_batches_tracked", TALC_I64, TALC_SCALAR, 0);
        return norm->num_batches_tracked != NULL;
    }
    return true;
}

bool talc_onnx_build(talc_module *root, talc_onnx_graph *graph)
{
    for (int i = 0; i < graph->step_count; i++) {
        talc_onnx_step *step = &graph->steps[i];
        talc_module *module = step->left_out ? NULL : module_of(graph, step);
        if (talc_failed() || (module != NULL && !talc_onnx_place(root, graph, step, module)))
            return false;
    }
    if (!talc_onnx_register(root, graph))
        return false;
    for (int i = 0; i < graph->step_count; i++)
        if (graph->steps[i].layer_count > 0 && !connect(graph, &graph->steps[i]))
            return false;
    return true;
}
