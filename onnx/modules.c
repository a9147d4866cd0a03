/* Modules in place of steps, and the tree that they and the parameters stand in. */
#include "nn/layer.h"
#include "nn/layers.h"
#include "onnx/shared.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

enum { PATH = 512 };

// ---- Linear maps whose weight is stored as [in, out] ------------------------------------------

typedef struct linear_module {
    talc_module base;
    talc_tensor *weight; /* [in, out] */
    talc_tensor *bias;   /* [out], or NULL */
} linear_module;

static talc_tensor *run_linear(const linear_module *self, talc_tensor *x,
                               const talc_linear_options *options)
{
    const talc_tensor *weight = talc_transpose(self->weight, 0, 1);
    return weight == NULL ? NULL : talc_linear(x, weight, self->bias, options);
}

static talc_tensor *linear_forward(talc_module *module, talc_tensor *x)
{
    return run_linear((linear_module *)module, x, NULL);
}

static double linear_macs(const talc_module *module, talc_dims x, talc_dims y)
{
    double macs = (double)((const linear_module *)module)->weight->dims[0];
    (void)x;
    for (int i = 0; i < y.rank; i++)
        macs *= (double)y.dim[i];
    return macs;
}

static const talc_module_class linear_class = {
    .name = "Linear",
    .size = sizeof(linear_module),
    .forward = linear_forward,
    .macs = linear_macs,
};

// ---- The tree -----------------------------------------------------------------------------------

static const talc_module_class container_class = { .name = "Module", .size = sizeof(talc_module) };

/* Whether a path's names are none of them empty. */
static bool path_fits(const char *path)
{
    const size_t length = strlen(path);
    return length > 0 && length < PATH && path[0] != '.' && path[length - 1] != '.' &&
           strstr(path, "..") == NULL;
}

/* The module at a path, made where there is none; *name is then the path's last name, which is not
 * looked for. NULL: a tensor is in the way, or, with a failure, no memory. */
static talc_module *parent_of(talc_module *root, const char *path, char name[PATH])
{
    talc_module *at = root;
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        const talc_module_entry *entry = talc_module_entry_find(at, path, (size_t)(dot - path));
        if (entry != NULL && entry->child == NULL)
            return NULL;
        snprintf(name, PATH, "%.*s", (int)(dot - path), path);
        at = entry != NULL ? entry->child
                           : talc_module_add(at, name, talc_module_new(&container_class, NULL));
        if (at == NULL)
            return NULL;
    }
    snprintf(name, PATH, "%s", path);
    return talc_module_entry_find(at, name, strlen(name)) == NULL ? at : NULL;
}

/* Levels that a path takes below the root. */
static int levels_of(const char *path)
{
    int levels = 1;
    for (; *path != '\0'; path++)
        levels += *path == '.';
    return levels;
}

/* Adds a child, or a tensor where `module` is NULL, at a path; false, without a failure, where
 * something is there. */
static talc_module *free_parent(talc_module *root, const char *path, char name[PATH])
{
    return path_fits(path) && levels_of(path) < TALC_MODULE_LEVELS - 1 ? parent_of(root, path, name)
                                                                       : NULL;
}

/* A name without dots that the root does not have yet. */
static void root_name(const talc_module *root, const char *from, char name[PATH])
{
    char base[PATH - 16];
    snprintf(base, sizeof base, "%s", from[0] == '\0' ? "node" : from);
    for (char *at = base; *at != '\0'; at++)
        *at = *at == '.' ? '_' : *at;
    snprintf(name, PATH, "%s", base);
    for (int i = 2; talc_module_entry_find(root, name, strlen(name)) != NULL; i++)
        snprintf(name, PATH, "%s_%d", base, i);
}

// ---- Paths of modules ---------------------------------------------------------------------------

/* What comes before the last dot of a parameter's name. */
static bool path_of_parameter(const char *name, char path[PATH])
{
    const char *dot = strrchr(name, '.');
    if (dot == NULL || dot - name >= PATH)
        return false;
    snprintf(path, PATH, "%.*s", (int)(dot - name), name);
    return true;
}

/* The path of "/features/features.1/conv/conv.0/Conv" is features.1.conv.0: PyTorch's older
 * exporter repeats the name of a list in those of its modules. */
static bool path_of_scope(const char *name, char path[PATH])
{
    char last[PATH] = "";
    size_t used = 0;
    path[0] = '\0';
    if (name[0] != '/' || strlen(name) >= PATH)
        return false;
    for (const char *at = name + 1, *slash; (slash = strchr(at, '/')) != NULL; at = slash + 1) {
        const size_t length = (size_t)(slash - at), before = strlen(last);
        const bool repeats =
            before > 0 && length > before && strncmp(at, last, before) == 0 && at[before] == '.';
        const size_t from = repeats ? before + 1 : 0;
        used += (size_t)snprintf(path + used, PATH - used, "%s%.*s", used > 0 ? "." : "",
                                 (int)(length - from), at + from);
        snprintf(last, sizeof last, "%.*s", (int)length, at);
    }
    return used > 0;
}

/* Adds a step's module: where its parameters are, where the node's name says, or below the root. */
static bool place(talc_module *root, const talc_onnx_graph *graph, talc_onnx_step *step,
                  talc_module *module)
{
    char path[PATH], name[PATH];
    talc_module *parent = NULL;
    for (int i = 1; i < step->input_count && parent == NULL; i++)
        if (step->inputs[i] >= 0 && graph->values[step->inputs[i]].initializer != NULL &&
            path_of_parameter(graph->values[step->inputs[i]].name, path))
            parent = free_parent(root, path, name);
    if (parent == NULL && !talc_failed() && path_of_scope(step->node->name, path))
        parent = free_parent(root, path, name);
    if (parent == NULL && !talc_failed()) {
        root_name(root, graph->values[step->outputs[0]].name, name);
        parent = root;
    }
    step->layers[0] = talc_failed() ? NULL : talc_module_add(parent, name, module);
    step->layer_count = step->layers[0] != NULL;
    return step->layer_count == 1;
}

// ---- Modules of steps ---------------------------------------------------------------------------

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
    if (weight == NULL || (!is_absent(step, 2) && parameter(graph, step, 2, 1) == NULL) ||
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
    return bare(transposed ? &talc_linear_class : &linear_class);
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
    talc_pool2d_options options = {
        .ceil_mode = talc_onnx_int(node, "ceil_mode", 0) != 0,
        .exclude_padding = !max && talc_onnx_int(node, "count_include_pad", 0) == 0,
    };
    memcpy(options.kernel, window.kernel, sizeof options.kernel);
    memcpy(options.stride, window.stride, sizeof options.stride);
    if (max)
        memcpy(options.dilation, window.dilation, sizeof options.dilation);
    talc_onnx_padding(&window, options.padding, options.padding_end);
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
    if (strcmp(op, "Flatten") == 0 && talc_onnx_int(step->node, "axis", 1) == 1)
        return talc_nn_flatten();
    return activation_module(graph, step);
}

// ---- Parameters ---------------------------------------------------------------------------------

/* The statistics of a batch norm are buffers. */
static bool is_statistic(const talc_onnx_graph *graph, int value)
{
    for (int i = 0; i < graph->step_count; i++) {
        const talc_onnx_step *step = &graph->steps[i];
        if (!step->left_out && strcmp(step->op->name, "BatchNormalization") == 0 &&
            (step->inputs[3] == value || step->inputs[4] == value))
            return true;
    }
    return false;
}

static bool register_value(talc_module *root, talc_onnx_graph *graph, int number)
{
    talc_onnx_value *value = &graph->values[number];
    char name[PATH];
    talc_module *parent = free_parent(root, value->name, name);
    if (parent == NULL && !talc_failed()) {
        root_name(root, value->name, name);
        parent = root;
    }
    talc_tensor *tensor =
        talc_failed() ? NULL : talc_onnx_tensor_new(graph->model, value->initializer);
    if (tensor == NULL)
        return false;
    value->parameter = is_statistic(graph, number) ? talc_module_buffer(parent, name, tensor)
                                                   : talc_module_parameter(parent, name, tensor);
    talc_scope_drop(tensor);
    return value->parameter != NULL;
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
    } else if (module->kind == &linear_class) {
        linear_module *linear = (linear_module *)module;
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
        if (talc_failed() || (module != NULL && !place(root, graph, step, module)))
            return false;
    }
    for (int i = 0; i < graph->value_count; i++) {
        const talc_onnx_value *value = &graph->values[i];
        if (value->initializer != NULL && value->constant == NULL && value->uses > 0 &&
            !register_value(root, graph, i))
            return false;
    }
    for (int i = 0; i < graph->step_count; i++)
        if (graph->steps[i].layer_count > 0 && !connect(graph, &graph->steps[i]))
            return false;
    return true;
}

// ---- Neighbours that are one op -----------------------------------------------------------------

static bool is_linear(const talc_module *module)
{
    return module->kind == &linear_class || module->kind == &talc_linear_class;
}

/* Whether neighbours may join a step: it begins with one of these. */
static bool begins_chain(const talc_onnx_step *step)
{
    return !step->left_out && step->layer_count > 0 &&
           (step->layers[0]->kind == &talc_conv2d_class || is_linear(step->layers[0]) ||
            step->layers[0]->kind == &talc_batch_norm2d_class);
}

/* The only step that reads a step's result; NULL: several do, or the program. */
static talc_onnx_step *reader_of(talc_onnx_graph *graph, const int *readers,
                                 const talc_onnx_step *step)
{
    const talc_onnx_value *out = &graph->values[step->outputs[0]];
    return out->uses == 1 && !out->is_output && readers[step->outputs[0]] >= 0
               ? &graph->steps[readers[step->outputs[0]]]
               : NULL;
}

static bool has_activation(const talc_onnx_step *step)
{
    return talc_activation_of(step->layers[step->layer_count - 1]) != TALC_ACTIVATION_NONE;
}

/* The value that an Add adds to a step's result, where it is one of the pass; -1: none. */
static int addend_of(const talc_onnx_graph *graph, const talc_onnx_step *add,
                     const talc_onnx_step *step)
{
    if (strcmp(add->op->name, "Add") != 0 || add->input_count != 2)
        return -1;
    const int other = add->inputs[add->inputs[0] == step->outputs[0]];
    return other != step->outputs[0] && graph->values[other].parameter == NULL &&
                   graph->values[other].constant == NULL
               ? other
               : -1;
}

/* Lets `next` do the work of `step` before its own; false where it cannot. */
static bool join(const talc_onnx_graph *graph, talc_onnx_step *step, talc_onnx_step *next)
{
    const int addend = addend_of(graph, next, step);
    if (addend >= 0 && step->residual < 0 && !has_activation(step)) {
        next->residual = addend;
        next->input_count = 1;
    } else if (next->layer_count != 1 || next->inputs[0] != step->outputs[0]) {
        return false;
    } else if (step->residual >= 0) {
        next->activation = talc_activation_of(next->layers[0]);
        if (next->activation == TALC_ACTIVATION_NONE || step->activation != TALC_ACTIVATION_NONE)
            return false;
        next->residual = step->residual;
        next->layer_count = 0;
    } else if (has_activation(step) || step->layer_count == TALC_ONNX_CHAIN_MAX ||
               !(talc_activation_of(next->layers[0]) != TALC_ACTIVATION_NONE ||
                 (next->layers[0]->kind == &talc_batch_norm2d_class &&
                  step->layers[0]->kind == &talc_conv2d_class && step->layer_count == 1))) {
        return false;
    }
    memmove(next->layers + step->layer_count, next->layers,
            (size_t)next->layer_count * sizeof *next->layers);
    memcpy(next->layers, step->layers, (size_t)step->layer_count * sizeof *next->layers);
    next->layer_count += step->layer_count;
    next->inputs[0] = step->inputs[0];
    next->input_count = 1;
    step->left_out = true;
    return true;
}

void talc_onnx_fuse(talc_onnx_graph *graph)
{
    int *readers = talc_memory_new((size_t)graph->value_count * sizeof *readers + 1, "onnx_load");
    if (readers == NULL)
        return;
    for (int i = 0; i < graph->value_count; i++)
        readers[i] = -1;
    for (int i = 0; i < graph->step_count; i++)
        for (int k = 0; k < graph->steps[i].input_count && !graph->steps[i].left_out; k++)
            if (graph->steps[i].inputs[k] >= 0)
                readers[graph->steps[i].inputs[k]] = i;
    for (int i = 0; i < graph->step_count; i++) {
        talc_onnx_step *step = &graph->steps[i], *next;
        while (begins_chain(step) && (next = reader_of(graph, readers, step)) != NULL &&
               join(graph, step, next))
            step = next;
    }
    talc_memory_free(readers);
}

/* Whether a residual has the shape of what it is added to, so that it needs no broadcast. */
static bool residual_fits(const talc_module *module, const talc_tensor *x,
                          const talc_tensor *residual)
{
    talc_dims y = talc_dims_of(x);
    if (module->kind == &talc_conv2d_class) {
        const talc_conv2d_module *conv = (const talc_conv2d_module *)module;
        talc_conv2d_problem p;
        if (!talc_conv2d_problem_of(x, conv->weight, conv->bias, &conv->options, &p))
            return false;
        y = TALC_DIMS(p.N, p.OC, p.OH, p.OW);
    } else if (module->kind == &linear_class) {
        y.dim[y.rank - 1] = ((const linear_module *)module)->weight->dims[1];
    } else if (module->kind == &talc_linear_class) {
        y.dim[y.rank - 1] = ((const talc_linear_module *)module)->weight->dims[0];
    }
    return y.rank == residual->rank &&
           memcmp(y.dim, residual->dims, (size_t)y.rank * sizeof *y.dim) == 0;
}

/* As nn/fuse.h does it for a linear map of its own. */
static talc_tensor *apply_linear(const talc_onnx_step *step, talc_tensor *x,
                                 const talc_chain_end *end)
{
    const talc_forward_hooks *hooks = talc_forward_hooked();
    const talc_activation own =
        step->layer_count > 1 ? talc_activation_of(step->layers[1]) : TALC_ACTIVATION_NONE;
    if (hooks != NULL || !talc_fusion_enabled())
        return talc_forward_chain(step->layers, step->layer_count, x, end);
    return run_linear((const linear_module *)step->layers[0], x,
                      &(talc_linear_options){
                          .activation = own != TALC_ACTIVATION_NONE ? own : end->activation,
                          .residual = end->residual,
                      });
}

talc_tensor *talc_onnx_apply(const talc_onnx_step *step, talc_tensor *x, talc_tensor *residual)
{
    const talc_module *first = step->layers[0];
    const bool fits = residual == NULL || residual_fits(first, x, residual);
    const talc_chain_end end = { fits ? residual : NULL,
                                 fits ? step->activation : TALC_ACTIVATION_NONE };
    if (talc_failed())
        return NULL;
    talc_tensor *y = first->kind == &linear_class
                         ? apply_linear(step, x, &end)
                         : talc_forward_chain(step->layers, step->layer_count, x, &end);
    if (y == NULL || fits)
        return y;
    return talc_activated(step->activation, talc_add(y, residual));
}
