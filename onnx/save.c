/* A module as an ONNX file: what one forward pass runs, op by op. */
#include "nn/entries.h"
#include "nn/layer.h"
#include "onnx/onnx.h"
#include "onnx/writer.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/observed.h"
#include "ops/operand.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

static const char *const WHO = "onnx_save";

enum { NAME = 256 };

/* A tensor that has a name in the file: the input, a parameter, or an op's result. */
typedef struct named {
    talc_tensor *held; /* an alias, so that no other storage takes its place */
    bool parameter;
    char name[NAME];
} named;

typedef struct trace {
    talc_observer observer; /* first */
    talc_onnx_writer writer;
    named *list;
    size_t count, capacity;
    int64_t batch;
    int made;   /* names that were made up */
    bool folds; /* what runs makes a weight */
} trace;

typedef struct hooks {
    talc_forward_hooks base; /* first */
    trace *trace;
} hooks;

// ---- Values by name -----------------------------------------------------------------------------

static bool name_tensor(trace *t, const talc_tensor *tensor, const char *name)
{
    named *list = talc_memory_grown(t->list, t->count, &t->capacity, sizeof *list, WHO);
    if (list == NULL)
        return false;
    t->list = list;
    talc_tensor *alias = talc_tensor_alias(tensor);
    if (alias == NULL)
        return false;
    list[t->count].held = talc_retain(alias);
    list[t->count].parameter = false;
    snprintf(list[t->count].name, NAME, "%s", name);
    t->count++;
    return true;
}

static bool is_same(const talc_tensor *a, const talc_tensor *b)
{
    return talc_same_dims(a, b) && a->data == b->data &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* The value that a tensor is, else the first of its storage, of which it is a view; NULL: none. */
static const named *storage_of(const trace *t, const talc_tensor *tensor)
{
    const named *first = NULL;
    for (size_t i = t->count; i > 0; i--) {
        const named *one = &t->list[i - 1];
        if (one->held->storage != tensor->storage)
            continue;
        if (is_same(one->held, tensor))
            return one;
        first = one;
    }
    return first;
}

static void new_name(trace *t, const char *op, char name[NAME])
{
    snprintf(name, NAME, "%s_%d", op, ++t->made);
}

static bool fail_view(const talc_tensor *tensor)
{
    char text[TALC_DIMS_TEXT];
    talc_fail(TALC_UNSUPPORTED,
              "%s: a view of shape %s that no Reshape, Transpose and Slice make of a result", WHO,
              talc_dims_text(talc_dims_of(tensor), text));
    return false;
}

/* Integers as an initialiser of a new name. */
static void give_integers(trace *t, const int64_t *numbers, int count, char name[NAME])
{
    new_name(t, "shape", name);
    talc_onnx_write_integers(&t->writer, name, numbers, count);
}

/* A reshaped, then transposed view of all elements of `from`. */
static bool give_rearranged(trace *t, const talc_tensor *tensor, const named *of, char name[NAME])
{
    const char *from = of->name;
    int order[TALC_MAX_RANK];
    int64_t dims[TALC_MAX_RANK], axes[TALC_MAX_RANK], expected = 1;
    char shape[NAME], middle[NAME];
    bool moved = false;
    for (int i = 0; i < tensor->rank; i++) {
        int at = i;
        for (; at > 0 && (tensor->strides[order[at - 1]] < tensor->strides[i] ||
                          (tensor->strides[order[at - 1]] == tensor->strides[i] &&
                           tensor->dims[order[at - 1]] == 1));
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = tensor->rank - 1; i >= 0; i--) {
        if (tensor->dims[order[i]] != 1 && tensor->strides[order[i]] != expected)
            return fail_view(tensor);
        expected *= tensor->dims[order[i]];
        dims[i] = tensor->dims[order[i]];
        axes[order[i]] = i;
        moved = moved || order[i] != i;
    }
    /* As many images as the operand has; or a multiple of them. */
    const bool of_batch = of->held->rank > 0 && of->held->dims[0] == t->batch && !of->parameter;
    if (of_batch && tensor->rank > 0 && dims[0] == t->batch)
        dims[0] = 0;
    else if (of_batch && tensor->rank > 0 && t->batch > 0 && dims[0] % t->batch == 0)
        dims[0] = -1;
    give_integers(t, dims, tensor->rank, shape);
    new_name(t, "view", middle);
    talc_onnx_write_node(&t->writer, "Reshape", middle, 2, (const char *[]){ from, shape }, 0);
    snprintf(name, NAME, "%s", middle);
    if (!moved)
        return true;
    new_name(t, "view", name);
    talc_onnx_write_node(&t->writer, "Transpose", name, 1, (const char *[]){ middle }, 1,
                         TALC_ONNX_INTS_OF("perm", tensor->rank, axes));
    return true;
}

/* Some indices of one dimension of `of`, in its strides. */
static bool give_slice(trace *t, const talc_tensor *tensor, const named *of, char name[NAME])
{
    const talc_tensor *whole = of->held;
    const int64_t offset = ((const char *)tensor->data - (const char *)whole->data) /
                           (int64_t)talc_dtype_size(tensor->dtype);
    int dim = -1;
    char starts[NAME], ends[NAME], axes[NAME];
    for (int i = 0; i < tensor->rank && tensor->rank == whole->rank; i++) {
        if (tensor->dims[i] == whole->dims[i] && tensor->strides[i] == whole->strides[i])
            continue;
        if (dim >= 0 || tensor->strides[i] != whole->strides[i])
            return fail_view(tensor);
        dim = i;
    }
    if (dim < 0 || offset % whole->strides[dim] != 0)
        return fail_view(tensor);
    const int64_t start = offset / whole->strides[dim], end = start + tensor->dims[dim];
    give_integers(t, &start, 1, starts);
    give_integers(t, &end, 1, ends);
    give_integers(t, &(int64_t){ dim }, 1, axes);
    new_name(t, "slice", name);
    talc_onnx_write_node(&t->writer, "Slice", name, 4,
                         (const char *[]){ of->name, starts, ends, axes }, 0);
    return true;
}

/* Whether a tensor is one number everywhere. */
static bool is_uniform(const talc_tensor *tensor, double *number)
{
    const talc_tensor *low = talc_min(tensor, TALC_SCALAR, false);
    const talc_tensor *high = talc_max(tensor, TALC_SCALAR, false);
    if (low == NULL || high == NULL)
        return false;
    *number = talc_item(low);
    return *number == talc_item(high);
}

/* Of elements that nothing of the pass made. What is one number for every image of the batch is
 * made for as many images as there are. */
static bool give_constant(trace *t, const talc_tensor *tensor, char name[NAME])
{
    char shape[NAME], first[NAME], rest[NAME], dims[NAME], start[NAME], end[NAME],
        number_name[NAME];
    double number = 0;
    const bool of_batch = tensor->rank > 2 && tensor->dims[0] == t->batch &&
                          talc_numel(tensor) > 0 && is_uniform(tensor, &number);
    new_name(t, "constant", name);
    if (talc_failed())
        return false;
    if (!of_batch) {
        talc_onnx_write_tensor(&t->writer, name, tensor);
        return true;
    }
    new_name(t, "shape", shape);
    new_name(t, "shape", first);
    new_name(t, "shape", dims);
    new_name(t, "number", number_name);
    give_integers(t, (int64_t[]){ 0 }, 1, start);
    give_integers(t, (int64_t[]){ 1 }, 1, end);
    give_integers(t, tensor->dims + 1, tensor->rank - 1, rest);
    talc_onnx_write_number(&t->writer, number_name, number);
    talc_onnx_write_node(&t->writer, "Shape", shape, 1, (const char *[]){ "x" }, 0);
    talc_onnx_write_node(&t->writer, "Slice", first, 3, (const char *[]){ shape, start, end }, 0);
    talc_onnx_write_node(&t->writer, "Concat", dims, 2, (const char *[]){ first, rest }, 1,
                         TALC_ONNX_INT_OF("axis", 0));
    return talc_onnx_write_node(&t->writer, "Expand", name, 2,
                                (const char *[]){ number_name, dims }, 0);
}

/* The name of an operand: what made it, a view of that, or, of elements that nothing of the pass
 * made, such as a folded weight, a new initialiser. False with a failure. */
static bool name_of(trace *t, const talc_tensor *tensor, char name[NAME])
{
    const named *of = storage_of(t, tensor);
    if (of == NULL) {
        talc_observer *observer = talc_observe_pause();
        const bool given = give_constant(t, tensor, name);
        talc_observe_resume(observer);
        return given && name_tensor(t, tensor, name);
    }
    const talc_tensor *held = of->held;
    snprintf(name, NAME, "%s", of->name);
    if (is_same(held, tensor))
        return true;
    if (held->data == tensor->data && talc_numel(held) == talc_numel(tensor) &&
        talc_is_contiguous(held)) {
        if (!give_rearranged(t, tensor, of, name))
            return false;
    } else if (!give_slice(t, tensor, of, name)) {
        return false;
    }
    return name_tensor(t, tensor, name);
}

// ---- Ops ----------------------------------------------------------------------------------------

/* A node of a function of one operand; false where the format has none. */
static bool give_unary(trace *t, const char *function, const double numbers[2], const char *x,
                       char name[NAME])
{
    static const struct {
        const char *talc, *onnx;
    } plain[] = {
        { "relu", "Relu" },
        { "sigmoid", "Sigmoid" },
        { "tanh", "Tanh" },
        { "hardswish", "HardSwish" },
        { "exp", "Exp" },
        { "log", "Log" },
        { "sqrt", "Sqrt" },
        { "neg", "Neg" },
        { "abs", "Abs" },
        { "erf", "Erf" },
        { "floor", "Floor" },
        { "ceil", "Ceil" },
        { "round", "Round" },
        { "sign", "Sign" },
        { "reciprocal", "Reciprocal" },
        { "softsign", "Softsign" },
    };
    talc_onnx_writer *w = &t->writer;
    const char *of[] = { x, NULL, NULL };
    char other[NAME], third[NAME];
    new_name(t, function, name);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].talc, function) == 0)
            return talc_onnx_write_node(w, plain[i].onnx, name, 1, of, 0);
    if (strcmp(function, "leaky_relu") == 0 || strcmp(function, "elu") == 0)
        return talc_onnx_write_node(w, function[0] == 'e' ? "Elu" : "LeakyRelu", name, 1, of, 1,
                                    TALC_ONNX_FLOAT_OF("alpha", numbers[0]));
    if (strcmp(function, "hardsigmoid") == 0)
        return talc_onnx_write_node(w, "HardSigmoid", name, 1, of, 1,
                                    TALC_ONNX_FLOAT_OF("alpha", 1.0 / 6));
    const bool six = strcmp(function, "relu6") == 0;
    if (six || strcmp(function, "hardtanh") == 0) {
        new_name(t, "low", other);
        new_name(t, "high", third);
        talc_onnx_write_number(w, other, six ? 0 : numbers[0]);
        talc_onnx_write_number(w, third, six ? 6 : numbers[1]);
        return talc_onnx_write_node(w, "Clip", name, 3, (const char *[]){ x, other, third }, 0);
    }
    if (strcmp(function, "silu") == 0) {
        new_name(t, "gate", other);
        talc_onnx_write_node(w, "Sigmoid", other, 1, of, 0);
        return talc_onnx_write_node(w, "Mul", name, 2, (const char *[]){ x, other }, 0);
    }
    if (strcmp(function, "gelu") == 0) {
        char root[NAME], one[NAME], half[NAME], a[NAME], b[NAME], c[NAME], d[NAME];
        new_name(t, "root", root), new_name(t, "one", one), new_name(t, "half", half);
        new_name(t, "gelu", a), new_name(t, "gelu", b), new_name(t, "gelu", c);
        new_name(t, "gelu", d);
        talc_onnx_write_number(w, root, 1.41421356237309504880);
        talc_onnx_write_number(w, one, 1);
        talc_onnx_write_number(w, half, 0.5);
        talc_onnx_write_node(w, "Div", a, 2, (const char *[]){ x, root }, 0);
        talc_onnx_write_node(w, "Erf", b, 1, (const char *[]){ a }, 0);
        talc_onnx_write_node(w, "Add", c, 2, (const char *[]){ b, one }, 0);
        talc_onnx_write_node(w, "Mul", d, 2, (const char *[]){ x, c }, 0);
        return talc_onnx_write_node(w, "Mul", name, 2, (const char *[]){ d, half }, 0);
    }
    return false;
}

/* A residual and an activation behind a node's result, under whose name they come out. */
static bool give_end(trace *t, const talc_tensor *residual, talc_activation activation,
                     char name[NAME])
{
    char other[NAME], sum[NAME];
    if (residual != NULL) {
        if (!name_of(t, residual, other))
            return false;
        new_name(t, "add", sum);
        talc_onnx_write_node(&t->writer, "Add", sum, 2, (const char *[]){ name, other }, 0);
        snprintf(name, NAME, "%s", sum);
    }
    snprintf(other, NAME, "%s", name);
    return activation == TALC_ACTIVATION_NONE ||
           give_unary(t, talc_activation_name(activation), (double[]){ TALC_ACTIVATION_NUMBER, 0 },
                      other, name);
}

static bool give_conv2d(trace *t, const talc_observation *o, const char *const in[],
                        char name[NAME])
{
    const talc_conv2d_problem *p = o->problem;
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return false;
    talc_onnx_write_node(
        &t->writer, "Conv", name, in[2] == NULL ? 2 : 3, in, 4,
        TALC_ONNX_INTS_OF("strides", 2, ((int64_t[]){ p->stride_h, p->stride_w })),
        TALC_ONNX_INTS_OF("pads", 4,
                          ((int64_t[]){ p->pad_top, p->pad_left, p->pad_bottom, p->pad_right })),
        TALC_ONNX_INTS_OF("dilations", 2, ((int64_t[]){ p->dilation_h, p->dilation_w })),
        TALC_ONNX_INT_OF("group", p->groups));
    return give_end(t, o->inputs[3], p->activation, name);
}

static bool give_conv_transpose2d(trace *t, const talc_observation *o, const char *const in[],
                                  char name[NAME])
{
    const talc_conv2d_problem *p = o->problem;
    const int64_t rows =
        (p->OH - 1) * p->stride_h - p->pad_top - p->pad_bottom + p->dilation_h * (p->KH - 1) + 1;
    const int64_t columns =
        (p->OW - 1) * p->stride_w - p->pad_left - p->pad_right + p->dilation_w * (p->KW - 1) + 1;
    return talc_onnx_write_node(
        &t->writer, "ConvTranspose", name, 2, in, 5,
        TALC_ONNX_INTS_OF("strides", 2, ((int64_t[]){ p->stride_h, p->stride_w })),
        TALC_ONNX_INTS_OF("pads", 4,
                          ((int64_t[]){ p->pad_top, p->pad_left, p->pad_bottom, p->pad_right })),
        TALC_ONNX_INTS_OF("dilations", 2, ((int64_t[]){ p->dilation_h, p->dilation_w })),
        TALC_ONNX_INT_OF("group", p->groups),
        TALC_ONNX_INTS_OF("output_padding", 2, ((int64_t[]){ p->H - rows, p->W - columns })));
}

static bool give_linear(trace *t, const talc_observation *o, const char *const in[],
                        char name[NAME])
{
    const talc_matmul_problem *p = o->problem;
    talc_onnx_writer *w = &t->writer;
    if (o->inputs[0]->rank == 2) {
        talc_onnx_write_node(w, "Gemm", name, in[2] == NULL ? 2 : 3, in, 1,
                             TALC_ONNX_INT_OF("transB", 1));
    } else {
        char weight[NAME], product[NAME];
        new_name(t, "weight", weight);
        new_name(t, "linear", product);
        talc_onnx_write_node(w, "Transpose", weight, 1, (const char *[]){ in[1] }, 1,
                             TALC_ONNX_INTS_OF("perm", 2, ((int64_t[]){ 1, 0 })));
        talc_onnx_write_node(w, "MatMul", in[2] == NULL ? name : product, 2,
                             (const char *[]){ in[0], weight }, 0);
        if (in[2] != NULL)
            talc_onnx_write_node(w, "Add", name, 2, (const char *[]){ product, in[2] }, 0);
    }
    return give_end(t, o->inputs[3], p->activation, name);
}

static bool give_pool(trace *t, const talc_observation *o, const char *const in[], char name[NAME])
{
    const talc_pool2d_problem *p = o->problem;
    const bool max = p->kind == TALC_POOL2D_MAX || p->kind == TALC_POOL2D_ADAPTIVE_MAX;
    talc_onnx_writer *w = &t->writer;
    if (p->indices || p->divisor != 0)
        return false;
    if (p->kind == TALC_POOL2D_ADAPTIVE_AVG || p->kind == TALC_POOL2D_ADAPTIVE_MAX) {
        if (p->OH == 1 && p->OW == 1)
            return talc_onnx_write_node(w, max ? "GlobalMaxPool" : "GlobalAveragePool", name, 1, in,
                                        0);
        if (p->OH == 0 || p->OW == 0 || p->H % p->OH != 0 || p->W % p->OW != 0)
            return false; /* windows of several sizes */
        const int64_t kernel[] = { p->H / p->OH, p->W / p->OW };
        return talc_onnx_write_node(w, max ? "MaxPool" : "AveragePool", name, 1, in, 2,
                                    TALC_ONNX_INTS_OF("kernel_shape", 2, kernel),
                                    TALC_ONNX_INTS_OF("strides", 2, kernel));
    }
    const int64_t rows =
        (p->H + p->pad_top + p->pad_bottom - p->dilation_h * (p->KH - 1) - 1) / p->stride_h + 1;
    const int64_t columns =
        (p->W + p->pad_left + p->pad_right - p->dilation_w * (p->KW - 1) - 1) / p->stride_w + 1;
    return talc_onnx_write_node(
        w, max ? "MaxPool" : "AveragePool", name, 1, in, 5,
        TALC_ONNX_INTS_OF("kernel_shape", 2, ((int64_t[]){ p->KH, p->KW })),
        TALC_ONNX_INTS_OF("strides", 2, ((int64_t[]){ p->stride_h, p->stride_w })),
        TALC_ONNX_INTS_OF("pads", 4,
                          ((int64_t[]){ p->pad_top, p->pad_left, p->pad_bottom, p->pad_right })),
        TALC_ONNX_INT_OF("ceil_mode", p->OH > rows || p->OW > columns),
        max ? TALC_ONNX_INTS_OF("dilations", 2, ((int64_t[]){ p->dilation_h, p->dilation_w }))
            : TALC_ONNX_INT_OF("count_include_pad", !p->exclude_padding));
}

static bool give_batch_norm(trace *t, const talc_observation *o, const char *const in[],
                            char name[NAME])
{
    const talc_batch_norm2d_problem *p = o->problem;
    for (int i = 1; i < 5; i++)
        if (in[i] == NULL) /* weight, bias and the statistics have no default in the format */
            return false;
    talc_onnx_write_node(&t->writer, "BatchNormalization", name, 5, in, 1,
                         TALC_ONNX_FLOAT_OF("epsilon", p->eps));
    return give_end(t, o->inputs[5], p->activation, name);
}

/* A layer norm, whose problem has the last dimension as channels. */
static bool give_layer_norm(trace *t, const talc_observation *o, const char *const in[],
                            char name[NAME])
{
    const talc_group_norm_problem *p = o->problem;
    const talc_tensor *x = o->inputs[0];
    if (p->groups != 1 || p->plane != 1 || x->dims[x->rank - 1] != p->C || in[1] == NULL)
        return false;
    talc_onnx_write_node(&t->writer, "LayerNormalization", name, in[2] == NULL ? 2 : 3, in, 1,
                         TALC_ONNX_FLOAT_OF("epsilon", p->eps));
    return give_end(t, NULL, p->activation, name);
}

static bool give_binary(trace *t, const talc_observation *o, const char *const in[],
                        char name[NAME])
{
    static const struct {
        const char *talc, *onnx;
    } plain[] = { { "add", "Add" }, { "sub", "Sub" },     { "mul", "Mul" },    { "div", "Div" },
                  { "pow", "Pow" }, { "maximum", "Max" }, { "minimum", "Min" } };
    const talc_binary_problem *p = o->problem;
    char number[NAME];
    const char *second = in[1];
    if (p->b_is_scalar) {
        new_name(t, "number", number);
        talc_onnx_write_number(&t->writer, number, p->scalar);
        second = number;
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].talc, o->op) == 0)
            return talc_onnx_write_node(&t->writer, plain[i].onnx, name, 2,
                                        (const char *[]){ in[0], second }, 0);
    return false;
}

static bool give_mean(trace *t, const talc_observation *o, const char *const in[], char name[NAME])
{
    const talc_reduce_observed *p = o->problem;
    int64_t axes[TALC_MAX_RANK];
    int count = 0;
    for (int i = 0; i < o->inputs[0]->rank; i++)
        if (p->reduced[i])
            axes[count++] = i;
    return talc_onnx_write_node(
        &t->writer, "ReduceMean", name, 1, in, 2, TALC_ONNX_INTS_OF("axes", count, axes),
        TALC_ONNX_INT_OF("keepdims", o->output->rank == o->inputs[0]->rank));
}

/* The node or nodes of an op, whose result is `name`; false, without a failure: there are none. */
static bool give_op(trace *t, const talc_observation *o, const char *const in[], char name[NAME])
{
    talc_onnx_writer *w = &t->writer;
    const char *op = o->op;
    if (strcmp(op, "conv2d") == 0)
        return give_conv2d(t, o, in, name);
    if (strcmp(op, "conv2d.grad_input") == 0)
        return give_conv_transpose2d(t, o, in, name);
    if (strcmp(op, "linear") == 0)
        return give_linear(t, o, in, name);
    if (strcmp(op, "group_norm") == 0)
        return give_layer_norm(t, o, in, name);
    if (strcmp(op, "matmul") == 0)
        return talc_onnx_write_node(w, "MatMul", name, 2, in, 0);
    if (strstr(op, "pool2d") != NULL)
        return give_pool(t, o, in, name);
    if (strcmp(op, "batch_norm2d") == 0)
        return give_batch_norm(t, o, in, name);
    if (strcmp(op, "concat") == 0)
        return talc_onnx_write_node(
            w, "Concat", name, o->count, in, 1,
            TALC_ONNX_INT_OF("axis", ((const talc_concat_observed *)o->problem)->dim));
    if (strcmp(op, "mean") == 0)
        return give_mean(t, o, in, name);
    if (strcmp(op, "softmax") == 0 || strcmp(op, "log_softmax") == 0)
        return talc_onnx_write_node(
            w, op[0] == 's' ? "Softmax" : "LogSoftmax", name, 1, in, 1,
            TALC_ONNX_INT_OF("axis", ((const talc_softmax_observed *)o->problem)->dim));
    if (o->count == 2 && o->problem != NULL && give_binary(t, o, in, name))
        return true;
    if (o->count != 1 || o->problem == NULL)
        return false;
    return give_unary(t, op, ((const talc_unary_problem *)o->problem)->numbers, in[0], name);
}

static void observe(talc_observer *observer, const talc_observation *o)
{
    trace *t = (trace *)observer;
    static const char *const copies[] = { "clone", "contiguous", "reshape" };
    if (t->folds)
        return;
    char(*names)[NAME] = talc_memory_new((size_t)o->count * sizeof *names + 1, WHO);
    const char **in = talc_memory_new((size_t)o->count * sizeof *in + 1, WHO);
    char name[NAME];
    bool done = names != NULL && in != NULL;
    for (int i = 0; done && i < o->count; i++) {
        if (o->inputs[i] != NULL && o->inputs[i]->dtype == TALC_I64 &&
            strcmp(o->op, "batch_norm2d") == 0) /* how many batches were counted */
            continue;
        in[i] = o->inputs[i] == NULL ? NULL : names[i];
        done = o->inputs[i] == NULL || name_of(t, o->inputs[i], names[i]);
    }
    bool copied = false;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        copied = copied || strcmp(o->op, copies[i]) == 0;
    if (done && copied && o->problem == NULL) {
        snprintf(name, NAME, "%s", in[0]);
    } else if (done) {
        new_name(t, o->op, name);
        done = give_op(t, o, in, name);
        if (!done && !talc_failed())
            talc_fail(TALC_UNSUPPORTED, "%s: ONNX has no operator for this %s, or talc writes none",
                      WHO, o->op);
    }
    if (done)
        name_tensor(t, o->output, name);
    talc_memory_free(names);
    talc_memory_free(in);
}

// ---- The pass -----------------------------------------------------------------------------------

static void on_group(talc_forward_hooks *base, talc_module *const modules[], int count,
                     talc_group_phase phase)
{
    trace *t = ((hooks *)base)->trace;
    (void)modules;
    (void)count;
    t->folds = phase == TALC_GROUP_FOLDS;
}

static void on_leave(talc_forward_hooks *base, const talc_module *module, const talc_tensor *x,
                     const talc_tensor *y)
{
    (void)base;
    (void)module;
    (void)x;
    (void)y;
}

static bool name_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    trace *t = context;
    (void)is_buffer;
    if (tensor->dtype != TALC_F32 && tensor->dtype != TALC_F64)
        return true;
    if (strlen(path) >= NAME || strcmp(path, "x") == 0 || strcmp(path, "y") == 0) {
        talc_fail(TALC_UNSUPPORTED, "%s: a parameter called '%s'", WHO, TALC_SHOWN(path));
        return false;
    }
    const bool done = name_tensor(t, tensor, path);
    if (done)
        t->list[t->count - 1].parameter = true;
    return done;
}

/* Those that a node reads become initialisers; a folded weight takes the place of others. */
static void write_parameters(trace *t, size_t parameters)
{
    for (size_t i = 0; i < parameters && !talc_failed(); i++)
        if (talc_onnx_writer_reads(&t->writer, t->list[i + 1].name))
            talc_onnx_write_tensor(&t->writer, t->list[i + 1].name, t->list[i + 1].held);
}

/* Runs the pass and writes its nodes. */
static bool run(trace *t, talc_module *module, talc_tensor *x)
{
    hooks hooked = { .base = { .group = on_group, .leave = on_leave }, .trace = t };
    if (!name_tensor(t, x, "x") || !talc_module_visit(module, name_parameter, t))
        return false;
    const size_t parameters = t->count - 1;
    talc_forward_hooks *before = talc_forward_hook(&hooked.base);
    talc_observer *observer = talc_observe(&t->observer);
    talc_tensor *y = talc_forward(module, x);
    talc_observe(observer);
    talc_forward_hook(before);
    char name[NAME];
    if (y == NULL || talc_failed() || !name_of(t, y, name))
        return false;
    talc_onnx_write_node(&t->writer, "Identity", "y", 1, (const char *[]){ name }, 0);
    write_parameters(t, parameters);
    talc_dims in = talc_dims_of(x), out = talc_dims_of(y);
    if (in.rank > 0 && out.rank > 0 && out.dim[0] == in.dim[0])
        in.dim[0] = out.dim[0] = -1;
    talc_onnx_write_ends(&t->writer, x->dtype, "x", in, "y", out);
    return !talc_failed();
}

bool talc_onnx_save(talc_module *module, const talc_tensor *example, const char *path)
{
    if (talc_operand_missing(WHO, "module", module) ||
        talc_operand_missing(WHO, "example", example) || talc_operand_missing(WHO, "path", path))
        return false;
    if (!talc_operand_float(WHO, "example", example))
        return false;
    trace t = { .observer = { observe },
                .writer = { .dtype = example->dtype },
                .batch = example->rank > 0 ? example->dims[0] : -1 };
    talc_scope *scope = talc_scope_enter();
    bool *modes = scope == NULL ? NULL : talc_module_evaluate(WHO, module);
    talc_tensor *x = modes == NULL ? NULL : talc_clone(example);
    const bool saved = x != NULL && run(&t, module, x) && talc_onnx_writer_save(&t.writer, path);
    if (modes != NULL)
        talc_module_restore_modes(module, modes);
    for (size_t i = 0; i < t.count; i++)
        talc_release(t.list[i].held);
    talc_memory_free(t.list);
    talc_onnx_writer_free(&t.writer);
    talc_scope_leave(scope);
    return saved;
}
