/* A module as an ONNX file: what one forward pass runs, op by op. */
#include "nn/entries.h"
#include "nn/layer.h"
#include "onnx/onnx.h"
#include "onnx/shared.h"
#include "onnx/writer.h"
#include "ops/concat.h"
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

typedef enum name_kind {
    MADE, /* by an op, or the input */
    PARAMETER,
    VIEW /* what was read of others */
} name_kind;

/* A tensor that has a name in the file. */
typedef struct named {
    talc_tensor *held; /* an alias, so that no other storage takes its place */
    name_kind kind;
    char name[NAME];
} named;

typedef struct trace {
    talc_observer observer; /* first */
    talc_onnx_writer writer;
    named *list;
    size_t count, capacity;
    int64_t batch; /* images of the pass; 0: the file is for as many as the example has */
    int made;      /* names that were made up */
    bool folds;    /* what runs makes a weight */
} trace;

typedef struct hooks {
    talc_forward_hooks base; /* first */
    trace *trace;
} hooks;

// ---- Values by name -----------------------------------------------------------------------------

static bool name_tensor(trace *t, const talc_tensor *tensor, const char *name, name_kind kind)
{
    named *list = talc_memory_grown(t->list, t->count, &t->capacity, sizeof *list, WHO);
    if (list == NULL)
        return false;
    t->list = list;
    talc_tensor *alias = talc_tensor_alias(tensor);
    if (alias == NULL)
        return false;
    list[t->count].held = talc_retain(alias);
    list[t->count].kind = kind;
    snprintf(list[t->count].name, NAME, "%s", name);
    t->count++;
    return true;
}

static int64_t offset_of(const talc_tensor *tensor, const talc_tensor *whole)
{
    return ((const char *)tensor->data - (const char *)whole->data) /
           (int64_t)talc_dtype_size(tensor->dtype);
}

static bool is_same(const talc_tensor *a, const talc_tensor *b)
{
    return talc_same_dims(a, b) && a->data == b->data &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* Whether all elements of a tensor are among those of a packed one. */
static bool holds(const talc_tensor *whole, const talc_tensor *tensor)
{
    int64_t last = offset_of(tensor, whole);
    for (int i = 0; i < tensor->rank; i++)
        last += (tensor->dims[i] - 1) * tensor->strides[i];
    return talc_is_contiguous(whole) && tensor->data >= whole->data && last < talc_numel(whole);
}

static void new_name(trace *t, const char *op, char name[NAME])
{
    snprintf(name, NAME, "%s_%d", op, ++t->made);
}

/* Integers as an initialiser of a new name. */
static void give_integers(trace *t, const int64_t *numbers, int count, char name[NAME])
{
    new_name(t, "shape", name);
    talc_onnx_write_integers(&t->writer, name, numbers, count);
}

static const talc_onnx_attribute_value no_attribute;

/* A node of the value `name`, and of a second one unless it is NULL, whose result is `name` then.
 * True. */
static bool then(trace *t, const char *op, char name[NAME], const char *second,
                 talc_onnx_attribute_value attribute)
{
    char from[NAME];
    snprintf(from, NAME, "%s", name);
    new_name(t, op, name);
    return talc_onnx_write_node(&t->writer, op, name, second == NULL ? 1 : 2,
                                (const char *[]){ from, second }, attribute.name != NULL,
                                attribute);
}

/* The same of a list of integers, and of a number. */
static bool then_integers(trace *t, const char *op, char name[NAME], const int64_t *list, int count)
{
    char second[NAME];
    give_integers(t, list, count, second);
    return then(t, op, name, second, no_attribute);
}

static bool then_number(trace *t, const char *op, char name[NAME], double number)
{
    char second[NAME];
    new_name(t, "number", second);
    talc_onnx_write_number(&t->writer, second, number);
    return then(t, op, name, second, no_attribute);
}

static void give_slice(trace *t, char name[NAME], int count, const int64_t *start,
                       const int64_t *end, const int64_t *axis)
{
    char from[NAME], starts[NAME], ends[NAME], axes[NAME];
    snprintf(from, NAME, "%s", name);
    give_integers(t, start, count, starts);
    give_integers(t, end, count, ends);
    give_integers(t, axis, count, axes);
    new_name(t, "Slice", name);
    talc_onnx_write_node(&t->writer, "Slice", name, 4, (const char *[]){ from, starts, ends, axes },
                         0);
}

/* A shape of as many images as the network's input has. */
static void give_shape_of_batch(trace *t, const int64_t *rest, int count, char name[NAME])
{
    char others[NAME];
    snprintf(name, NAME, "x");
    then(t, "Shape", name, NULL, no_attribute);
    give_slice(t, name, 1, (int64_t[]){ 0 }, (int64_t[]){ 1 }, (int64_t[]){ 0 });
    give_integers(t, rest, count, others);
    then(t, "Concat", name, others, TALC_ONNX_INT_OF("axis", 0));
}

// ---- Views --------------------------------------------------------------------------------------

/* A view of a packed tensor as runs of indices: the tensor reshaped to `extent`, of each dimension
 * `count` indices from `start`; dimension k is number order[k] of the view. A last dimension that
 * the view has not holds what lies between its elements. */
typedef struct layout {
    int rank;
    int order[TALC_MAX_RANK + 1];
    int64_t extent[TALC_MAX_RANK + 1], start[TALC_MAX_RANK + 1], count[TALC_MAX_RANK + 1];
} layout;

static bool moves(const talc_tensor *tensor, int dim)
{
    return tensor->dims[dim] > 1 && tensor->strides[dim] != 0;
}

/* False where its indices are not runs. */
static bool find_layout(const talc_tensor *tensor, const talc_tensor *whole, layout *l)
{
    const int64_t offset = offset_of(tensor, whole);
    int64_t keys[TALC_MAX_RANK], key = INT64_MAX, above = talc_numel(whole);
    l->rank = tensor->rank;
    for (int i = 0; i < tensor->rank; i++) { /* by falling stride; one index stays where it is */
        int at = i;
        keys[i] = key = moves(tensor, i) ? tensor->strides[i] : key;
        for (; at > 0 && keys[l->order[at - 1]] < key; at--)
            l->order[at] = l->order[at - 1];
        l->order[at] = i;
    }
    for (int k = 0; k < tensor->rank; k++) {
        const int i = l->order[k];
        l->extent[k] = l->count[k] = 1;
        l->start[k] = 0;
        if (!moves(tensor, i))
            continue;
        if (above % tensor->strides[i] != 0)
            return false;
        l->extent[k] = above / tensor->strides[i];
        l->start[k] = offset / tensor->strides[i] % l->extent[k];
        l->count[k] = tensor->dims[i];
        if (l->start[k] + l->count[k] > l->extent[k])
            return false;
        above = tensor->strides[i];
    }
    if (above > 1) {
        l->extent[l->rank] = above;
        l->start[l->rank] = offset % above;
        l->count[l->rank++] = 1;
    }
    return true;
}

/* The shape `dims` in a Reshape: the first dimension with more than one index has the images. */
static void open_batch(const trace *t, int64_t *dims, int rank)
{
    int i = 0;
    while (i < rank && dims[i] == 1)
        i++;
    if (i < rank && t->batch > 0 && dims[i] % t->batch == 0)
        dims[i] = -1;
}

static bool give_runs(trace *t, const talc_tensor *tensor, const named *of, const layout *l,
                      char name[NAME])
{
    const bool of_batch =
        of->kind != PARAMETER && of->held->rank > 0 && of->held->dims[0] == t->batch;
    int64_t dims[TALC_MAX_RANK + 1], start[TALC_MAX_RANK + 1], end[TALC_MAX_RANK + 1],
        axes[TALC_MAX_RANK + 1];
    int sliced = 0;
    bool moved = false, expanded = false, plain = l->rank == of->held->rank;
    for (int k = 0; k < l->rank; k++) {
        plain = plain && l->extent[k] == of->held->dims[k];
        dims[k] = l->extent[k];
        if (l->count[k] == l->extent[k])
            continue;
        start[sliced] = l->start[k];
        end[sliced] = l->start[k] + l->count[k];
        axes[sliced++] = k;
    }
    snprintf(name, NAME, "%s", of->name);
    if (of_batch)
        open_batch(t, dims, l->rank);
    if (!plain)
        then_integers(t, "Reshape", name, dims, l->rank);
    if (sliced > 0)
        give_slice(t, name, sliced, start, end, axes);
    for (int k = 0; k < tensor->rank; k++) {
        dims[k] = l->count[k];
        axes[l->order[k]] = k;
        moved = moved || l->order[k] != k;
    }
    if (of_batch)
        open_batch(t, dims, tensor->rank);
    if (l->rank > tensor->rank)
        then_integers(t, "Reshape", name, dims, tensor->rank);
    if (moved)
        then(t, "Transpose", name, NULL, TALC_ONNX_INTS_OF("perm", tensor->rank, axes));
    for (int i = 0; i < tensor->rank; i++) {
        dims[i] = moves(tensor, i) ? 1 : tensor->dims[i];
        expanded = expanded || dims[i] > 1;
    }
    if (expanded && dims[0] == t->batch) {
        char shape[NAME];
        give_shape_of_batch(t, dims + 1, tensor->rank - 1, shape);
        then(t, "Expand", name, shape, no_attribute);
    } else if (expanded) {
        then_integers(t, "Expand", name, dims, tensor->rank);
    }
    return true;
}

/* Any other view: its elements by their numbers, in each image where it has all images. */
static bool give_gathered(trace *t, const talc_tensor *tensor, const named *of, char name[NAME])
{
    const talc_tensor *whole = of->held;
    const int64_t image = t->batch > 0 && whole->dims[0] == t->batch && of->kind != PARAMETER
                              ? talc_numel(whole) / t->batch
                              : 0;
    int batch = -1;
    int64_t last = offset_of(tensor, whole), axes[TALC_MAX_RANK];
    talc_dims rest = { 0 };
    int64_t strides[TALC_MAX_RANK];
    for (int i = 0; i < tensor->rank; i++)
        if (image > 0 && tensor->dims[i] == t->batch && tensor->strides[i] == image)
            batch = i;
        else
            last += (tensor->dims[i] - 1) * tensor->strides[i];
    batch = last < image ? batch : -1;
    for (int i = 0; i < tensor->rank; i++) {
        axes[i] = i < batch ? i + 1 : i == batch ? 0 : i;
        if (i == batch)
            continue;
        strides[rest.rank] = tensor->strides[i];
        rest.dim[rest.rank++] = tensor->dims[i];
    }
    talc_tensor *numbers = talc_empty(talc_device_host(), TALC_I64, rest);
    if (numbers == NULL)
        return false;
    int64_t *list = talc_data(numbers, TALC_I64);
    for (int64_t i = 0; i < talc_numel(numbers); i++) {
        list[i] = offset_of(tensor, whole);
        for (int64_t k = rest.rank - 1, left = i; k >= 0; left /= rest.dim[k--])
            list[i] += left % rest.dim[k] * strides[k];
    }
    char which[NAME];
    snprintf(name, NAME, "%s", of->name);
    then_integers(t, "Reshape", name, batch < 0 ? (int64_t[]){ -1 } : (int64_t[]){ -1, image },
                  batch < 0 ? 1 : 2);
    new_name(t, "indices", which);
    talc_onnx_write_tensor(&t->writer, which, numbers);
    then(t, "Gather", name, which, TALC_ONNX_INT_OF("axis", batch >= 0));
    return batch <= 0 ||
           then(t, "Transpose", name, NULL, TALC_ONNX_INTS_OF("perm", tensor->rank, axes));
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
    char dims[NAME];
    double number = 0;
    talc_observer *observer = talc_observe_pause();
    const bool of_batch = tensor->rank > 2 && tensor->dims[0] == t->batch &&
                          talc_numel(tensor) > 0 && is_uniform(tensor, &number);
    new_name(t, "constant", name);
    if (!talc_failed() && of_batch) {
        give_shape_of_batch(t, tensor->dims + 1, tensor->rank - 1, dims);
        talc_onnx_write_number(&t->writer, name, number);
        then(t, "Expand", name, dims, no_attribute);
    } else if (!talc_failed()) {
        talc_onnx_write_tensor(&t->writer, name, tensor);
    }
    talc_observe_resume(observer);
    return !talc_failed();
}

/* The part of a tensor from index `at` of a dimension that the last op to write there made: its
 * value, or one that nothing of the pass made. Returns where the part ends, -1 with a failure. */
static int64_t give_part(trace *t, const talc_tensor *tensor, int dim, int64_t at, char name[NAME])
{
    int64_t end = tensor->dims[dim];
    for (size_t i = t->count; i > 0; i--) {
        const named *one = &t->list[i - 1];
        const talc_tensor *held = one->held;
        if (one->kind == VIEW || held->storage != tensor->storage || held->rank != tensor->rank ||
            memcmp(held->strides, tensor->strides, sizeof held->strides) != 0)
            continue;
        const int64_t offset = offset_of(held, tensor), first = offset / tensor->strides[dim],
                      past = first + held->dims[dim];
        bool beside = offset % tensor->strides[dim] == 0;
        for (int k = 0; k < tensor->rank; k++)
            beside = beside && (k == dim || held->dims[k] == tensor->dims[k]);
        if (!beside || past <= at || first >= end)
            continue;
        if (first > at) { /* of later ops than those that follow */
            end = first;
            continue;
        }
        end = past < end ? past : end;
        snprintf(name, NAME, "%s", one->name);
        if (at > first || end < past)
            give_slice(t, name, 1, &(int64_t){ at - first }, &(int64_t){ end - first },
                       &(int64_t){ dim });
        return end;
    }
    talc_tensor *part = talc_slice(tensor, dim, at, end, 1);
    return part != NULL && give_constant(t, part, name) ? end : -1;
}

/* What several ops wrote side by side: the dimension in which they lie is the first in which a
 * part is not of the tensor's extent. False with a failure. */
static bool give_parts(trace *t, const talc_tensor *tensor, int dim, char name[NAME])
{
    size_t count = 0, capacity = 0;
    char(*names)[NAME] = NULL;
    int64_t at = 0;
    while (at >= 0 && at < tensor->dims[dim]) {
        char(*longer)[NAME] = talc_memory_grown(names, count, &capacity, sizeof *names, WHO);
        names = longer == NULL ? names : longer;
        at = longer == NULL ? -1 : give_part(t, tensor, dim, at, names[count++]);
    }
    const char **in = at < 0 ? NULL : talc_memory_new(count * sizeof *in, WHO);
    for (size_t i = 0; in != NULL && i < count; i++)
        in[i] = names[i];
    if (in != NULL && count > 1) {
        new_name(t, "concat", name);
        talc_onnx_write_node(&t->writer, "Concat", name, (int)count, in, 1,
                             TALC_ONNX_INT_OF("axis", dim));
    } else if (in != NULL) {
        snprintf(name, NAME, "%s", in[0]);
    }
    talc_memory_free(in);
    talc_memory_free(names);
    return in != NULL && !talc_failed();
}

/* The dimension along which what was written where a tensor lies stands side by side; -1: there is
 * none. */
static int side_of(const trace *t, const talc_tensor *tensor)
{
    int dim = -1;
    for (size_t i = t->count; i > 0; i--) {
        const talc_tensor *held = t->list[i - 1].held;
        if (t->list[i - 1].kind == VIEW || !talc_may_overlap(held, tensor))
            continue;
        if (held->rank != tensor->rank ||
            memcmp(held->strides, tensor->strides, sizeof held->strides) != 0)
            return -1;
        int64_t offset = offset_of(held, tensor);
        for (int k = 0; k < tensor->rank; k++) {
            const bool differs = held->dims[k] != tensor->dims[k] ||
                                 (tensor->strides[k] > 0 && offset / tensor->strides[k] != 0);
            if (differs && dim >= 0 && dim != k)
                return -1;
            dim = differs ? k : dim;
            offset = tensor->strides[k] > 0 ? offset % tensor->strides[k] : offset;
        }
    }
    return dim;
}

/* The name of an operand: what made it, a view of that, or, of elements that nothing of the pass
 * made, such as a folded weight, a new initialiser. False with a failure. */
static bool name_of(trace *t, const talc_tensor *tensor, char name[NAME])
{
    const named *of = NULL;
    bool written = false;
    for (size_t i = t->count; i > 0 && of == NULL && !written; i--) {
        const named *one = &t->list[i - 1];
        if (one->held->storage != tensor->storage)
            continue;
        if (is_same(one->held, tensor)) {
            snprintf(name, NAME, "%s", one->name);
            return true;
        }
        if (one->kind == VIEW || !talc_may_overlap(one->held, tensor))
            continue;
        written = true;
        of = holds(one->held, tensor) ? one : NULL;
    }
    layout runs;
    int side;
    bool given;
    if (!written) {
        given = give_constant(t, tensor, name);
    } else if (of != NULL) {
        given = find_layout(tensor, of->held, &runs) ? give_runs(t, tensor, of, &runs, name)
                                                     : give_gathered(t, tensor, of, name);
    } else if ((side = side_of(t, tensor)) >= 0) {
        given = give_parts(t, tensor, side, name);
    } else {
        char text[TALC_DIMS_TEXT];
        given = false;
        talc_fail(
            TALC_UNSUPPORTED,
            "%s: a view of shape %s of what several ops wrote, but not side by side along one "
            "dimension",
            WHO, talc_dims_text(talc_dims_of(tensor), text));
    }
    return given && name_tensor(t, tensor, name, VIEW);
}

// ---- Ops ----------------------------------------------------------------------------------------

/* Attributes of a problem's windows. */
#define PAIR(name, h, w) TALC_ONNX_INTS_OF(name, 2, ((int64_t[]){ h, w }))
#define STRIDES(p)       PAIR("strides", (p)->stride_h, (p)->stride_w)
#define DILATIONS(p)     PAIR("dilations", (p)->dilation_h, (p)->dilation_w)
#define PADS(p)                                                                                    \
    TALC_ONNX_INTS_OF(                                                                             \
        "pads", 4, ((int64_t[]){ (p)->pad_top, (p)->pad_left, (p)->pad_bottom, (p)->pad_right }))

/* A node of a function of one operand; false where the format has none. */
static bool give_unary(trace *t, const char *function, const double numbers[2], const char *x,
                       char name[NAME])
{
    static const struct {
        const char *talc, *onnx;
    } plain[] = {
#define PLAIN(format, name) { #name, format },
        TALC_ONNX_UNARY(PLAIN)
#undef PLAIN
            { "selu", "Selu" },
    };
    const bool six = strcmp(function, "relu6") == 0;
    snprintf(name, NAME, "%s", x);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].talc, function) == 0)
            return then(t, plain[i].onnx, name, NULL, no_attribute);
    if (strcmp(function, "leaky_relu") == 0 || strcmp(function, "elu") == 0)
        return then(t, function[0] == 'e' ? "Elu" : "LeakyRelu", name, NULL,
                    TALC_ONNX_FLOAT_OF("alpha", numbers[0]));
    if (strcmp(function, "hardsigmoid") == 0)
        return then(t, "HardSigmoid", name, NULL, TALC_ONNX_FLOAT_OF("alpha", 1.0 / 6));
    if (six || strcmp(function, "hardtanh") == 0) {
        char low[NAME], high[NAME];
        new_name(t, "low", low);
        new_name(t, "high", high);
        new_name(t, "Clip", name);
        talc_onnx_write_number(&t->writer, low, six ? 0 : numbers[0]);
        talc_onnx_write_number(&t->writer, high, six ? 6 : numbers[1]);
        return talc_onnx_write_node(&t->writer, "Clip", name, 3, (const char *[]){ x, low, high },
                                    0);
    }
    if (strcmp(function, "softplus") == 0 && numbers[0] == 1) /* the threshold is for speed */
        return then(t, "Softplus", name, NULL, no_attribute);
    if (strcmp(function, "rsqrt") == 0)
        return then(t, "Sqrt", name, NULL, no_attribute) &&
               then(t, "Reciprocal", name, NULL, no_attribute);
    if (strcmp(function, "silu") == 0)
        return then(t, "Sigmoid", name, NULL, no_attribute) &&
               then(t, "Mul", name, x, no_attribute);
    if (strcmp(function, "mish") == 0)
        return then(t, "Softplus", name, NULL, no_attribute) &&
               then(t, "Tanh", name, NULL, no_attribute) && then(t, "Mul", name, x, no_attribute);
    if (strcmp(function, "gelu") == 0)
        return then_number(t, "Div", name, 1.41421356237309504880) &&
               then(t, "Erf", name, NULL, no_attribute) && then_number(t, "Add", name, 1) &&
               then(t, "Mul", name, x, no_attribute) && then_number(t, "Mul", name, 0.5);
    return false;
}

/* A residual and an activation behind a node's result, under whose name they come out. */
static bool give_end(trace *t, const talc_tensor *residual, talc_activation activation,
                     char name[NAME])
{
    char other[NAME];
    if (residual != NULL &&
        !(name_of(t, residual, other) && then(t, "Add", name, other, no_attribute)))
        return false;
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
    talc_onnx_write_node(&t->writer, "Conv", name, in[2] == NULL ? 2 : 3, in, 4, STRIDES(p),
                         PADS(p), DILATIONS(p), TALC_ONNX_INT_OF("group", p->groups));
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
        &t->writer, "ConvTranspose", name, 2, in, 5, STRIDES(p), PADS(p), DILATIONS(p),
        TALC_ONNX_INT_OF("group", p->groups),
        TALC_ONNX_INTS_OF("output_padding", 2, ((int64_t[]){ p->H - rows, p->W - columns })));
}

static bool give_linear(trace *t, const talc_observation *o, const char *const in[],
                        char name[NAME])
{
    const talc_matmul_problem *p = o->problem;
    if (o->inputs[0]->rank == 2) {
        talc_onnx_write_node(&t->writer, "Gemm", name, in[2] == NULL ? 2 : 3, in, 1,
                             TALC_ONNX_INT_OF("transB", 1));
    } else {
        char weight[NAME];
        snprintf(weight, NAME, "%s", in[1]);
        snprintf(name, NAME, "%s", in[0]);
        then(t, "Transpose", weight, NULL, TALC_ONNX_INTS_OF("perm", 2, ((int64_t[]){ 1, 0 })));
        then(t, "MatMul", name, weight, no_attribute);
        if (in[2] != NULL)
            then(t, "Add", name, in[2], no_attribute);
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
        TALC_ONNX_INTS_OF("kernel_shape", 2, ((int64_t[]){ p->KH, p->KW })), STRIDES(p), PADS(p),
        TALC_ONNX_INT_OF("ceil_mode", p->OH > rows || p->OW > columns),
        max ? DILATIONS(p) : TALC_ONNX_INT_OF("count_include_pad", !p->exclude_padding));
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

/* A layer norm, whose problem has the last dimension as channels; else an instance norm of groups,
 * which opset 17 has no operator for, and the channels' weight and bias behind it. */
static bool give_group_norm(trace *t, const talc_observation *o, const char *const in[],
                            char name[NAME])
{
    const talc_group_norm_problem *p = o->problem;
    const talc_tensor *x = o->inputs[0];
    if (p->groups == 1 && p->plane == 1 && x->dims[x->rank - 1] == p->C && in[1] != NULL) {
        talc_onnx_write_node(&t->writer, "LayerNormalization", name, in[2] == NULL ? 2 : 3, in, 1,
                             TALC_ONNX_FLOAT_OF("epsilon", p->eps));
        return give_end(t, NULL, p->activation, name);
    }
    if (x->rank < 2 || x->dims[1] != p->C)
        return false;
    char groups[NAME], one[NAME], zero[NAME], other[NAME];
    int64_t dims[TALC_MAX_RANK] = { -1 }, channels[TALC_MAX_RANK] = { p->C };
    for (int i = 1; i < x->rank; i++) {
        dims[i] = x->dims[i];
        channels[i] = 1;
    }
    snprintf(groups, NAME, "%s", in[0]);
    then_integers(t, "Reshape", groups, (int64_t[]){ 0, p->groups, -1 }, 3);
    new_name(t, "one", one);
    new_name(t, "zero", zero);
    talc_tensor *ones = talc_ones(talc_device_host(), x->dtype, TALC_DIMS(p->groups)),
                *zeros = talc_zeros(talc_device_host(), x->dtype, TALC_DIMS(p->groups));
    if (ones == NULL || zeros == NULL)
        return false;
    talc_onnx_write_tensor(&t->writer, one, ones);
    talc_onnx_write_tensor(&t->writer, zero, zeros);
    talc_onnx_write_node(&t->writer, "InstanceNormalization", name, 3,
                         (const char *[]){ groups, one, zero }, 1,
                         TALC_ONNX_FLOAT_OF("epsilon", p->eps));
    then_integers(t, "Reshape", name, dims, x->rank);
    for (int i = 1; i < 3; i++) {
        if (in[i] == NULL)
            continue;
        snprintf(other, NAME, "%s", in[i]);
        then_integers(t, "Reshape", other, channels, x->rank - 1);
        then(t, i == 1 ? "Mul" : "Add", name, other, no_attribute);
    }
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

static bool give_reduced(trace *t, const talc_observation *o, const char *x, char name[NAME])
{
    static const struct {
        const char *talc, *onnx;
    } plain[] = { { "mean", "ReduceMean" },
                  { "max", "ReduceMax" },
                  { "min", "ReduceMin" },
                  { "logsumexp", "ReduceLogSumExp" } };
    const talc_reduce_observed *p = o->problem;
    const talc_onnx_attribute_value keeps =
        TALC_ONNX_INT_OF("keepdims", o->output->rank == o->inputs[0]->rank);
    int64_t axes[TALC_MAX_RANK];
    int count = 0;
    for (int i = 0; i < o->inputs[0]->rank; i++)
        if (p->reduced[i])
            axes[count++] = i;
    if (count > 0 && strcmp(o->op, "sum") == 0) {
        char list[NAME];
        give_integers(t, axes, count, list);
        snprintf(name, NAME, "%s", x);
        return then(t, "ReduceSum", name, list, keeps);
    }
    for (size_t i = 0; count > 0 && i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].talc, o->op) == 0)
            return talc_onnx_write_node(&t->writer, plain[i].onnx, name, 1, &x, 2,
                                        TALC_ONNX_INTS_OF("axes", count, axes), keeps);
    return false;
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
        return give_group_norm(t, o, in, name);
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
    if (strcmp(op, "sum") == 0 || strcmp(op, "mean") == 0 || strcmp(op, "max") == 0 ||
        strcmp(op, "min") == 0 || strcmp(op, "logsumexp") == 0)
        return give_reduced(t, o, in[0], name);
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
    static const char *const copies[] = { "clone", "contiguous", "reshape", "copy" };
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
    if (done && copied && o->problem == NULL && o->inputs[0]->dtype == o->output->dtype) {
        snprintf(name, NAME, "%s", in[0]);
    } else if (done) {
        new_name(t, o->op, name);
        done = o->problem != NULL && give_op(t, o, in, name);
        if (!done && !talc_failed())
            talc_fail(TALC_UNSUPPORTED, "%s: ONNX has no operator for this %s, or talc writes none",
                      WHO, o->op);
    }
    if (done)
        name_tensor(t, o->output, name, MADE);
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
    return name_tensor(t, tensor, path, PARAMETER);
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
    if (!name_tensor(t, x, "x", MADE) || !talc_module_visit(module, name_parameter, t))
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
    if (t->batch > 0 && (out.rank == 0 || out.dim[0] != t->batch))
        return false;
    if (t->batch > 0)
        in.dim[0] = out.dim[0] = -1;
    talc_onnx_write_ends(&t->writer, x->dtype, "x", in, "y", out);
    return !talc_failed();
}

/* Writes what runs on x; with `opens` for any number of images. `*closed` is set where the network
 * takes as many as the example has, and no others. */
static bool save(talc_module *module, talc_tensor *x, bool opens, bool *closed, const char *path)
{
    trace t = { .observer = { observe },
                .writer = { .dtype = x->dtype },
                .batch = opens ? x->dims[0] : 0 };
    const bool ran = run(&t, module, x);
    *closed = opens && !ran && (!talc_failed() || talc_error_status() == TALC_BAD_SHAPE);
    const bool saved = ran && talc_onnx_writer_save(&t.writer, path);
    for (size_t i = 0; i < t.count; i++)
        talc_release(t.list[i].held);
    talc_memory_free(t.list);
    talc_onnx_writer_free(&t.writer);
    return saved;
}

bool talc_onnx_save(talc_module *module, const talc_tensor *example, const char *path)
{
    if (talc_operand_missing(WHO, "module", module) ||
        talc_operand_missing(WHO, "example", example) || talc_operand_missing(WHO, "path", path))
        return false;
    if (!talc_operand_float(WHO, "example", example))
        return false;
    talc_scope *scope = talc_scope_enter();
    bool *modes = scope == NULL ? NULL : talc_module_evaluate(WHO, module);
    talc_tensor *x = modes == NULL ? NULL : talc_clone(example);
    bool saved = false, closed = x != NULL;
    if (x != NULL && x->rank > 0 && x->dims[0] > 0) {
        /* Of one image a dimension of the images would look like any other of extent 1. */
        talc_tensor *images =
            x->dims[0] > 1 ? x : talc_concat((const talc_tensor *[]){ x, x }, 2, 0);
        saved = images != NULL && save(module, images, true, &closed, path);
    }
    if (closed) {
        talc_error_clear();
        saved = save(module, x, false, &closed, path);
    }
    if (modes != NULL)
        talc_module_restore_modes(module, modes);
    talc_scope_leave(scope);
    return saved;
}
