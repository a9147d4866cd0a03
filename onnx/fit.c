/* What a node has to have, whatever it is run on. */
#include "onnx/graph.h"
#include "tensor/shown.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool fail(const talc_onnx_model *model, const talc_onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(const talc_onnx_model *model, const talc_onnx_node *node, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    talc_fail(TALC_BAD_FORMAT, "onnx_load: '%s': node %d (%s) '%s': %s", TALC_SHOWN(model->path),
              (int)(node - model->nodes), TALC_SHOWN(node->op),
              TALC_SHOWN(talc_onnx_node_name(node)), what);
    return false;
}

static bool ends_fit(const talc_onnx_model *model, const talc_onnx_node *node)
{
    const talc_onnx_operator *op = talc_onnx_operator_find(node->op);
    if (node->output_count < 1 || node->outputs[0][0] == '\0')
        return fail(model, node, "no output");
    const int least = op->least < 0 && node->input_count > 0 ? node->input_count
                      : op->least < 0                        ? 1
                                                             : op->least;
    for (int i = 0; i < least; i++)
        if (i >= node->input_count || node->inputs[i][0] == '\0')
            return fail(model, node, "no input %d", i);
    return true;
}

/* A list of at most `most` integers from `low`, of which none is beyond 2^31. */
static bool list_fits(const talc_onnx_model *model, const talc_onnx_node *node, const char *name,
                      int64_t low, int64_t most)
{
    const talc_onnx_attribute *list = talc_onnx_attribute_of(node, name);
    if (list == NULL)
        return true;
    if (list->kind != TALC_ONNX_ATTRIBUTE_INTS || list->count > most)
        return fail(model, node, "%s is no list of up to %d integers", name, (int)most);
    for (int64_t i = 0; i < list->count; i++)
        if (list->ints[i] < low || list->ints[i] > INT32_MAX)
            return fail(model, node, "%s has %lld", name, (long long)list->ints[i]);
    return true;
}

static int64_t count_of(const talc_onnx_node *node, const char *name, int64_t each, int64_t none)
{
    const talc_onnx_attribute *list = talc_onnx_attribute_of(node, name);
    return list == NULL ? none : list->count % each == 0 ? list->count / each : -1;
}

/* Kernel, stride, dilation and padding are of the same dimensions. */
static bool window_fits(const talc_onnx_model *model, const talc_onnx_node *node)
{
    const bool pools = strcmp(node->op, "MaxPool") == 0 || strcmp(node->op, "AveragePool") == 0;
    if (!list_fits(model, node, "kernel_shape", 1, TALC_MAX_RANK) ||
        !list_fits(model, node, "strides", 1, TALC_MAX_RANK) ||
        !list_fits(model, node, "dilations", 1, TALC_MAX_RANK) ||
        !list_fits(model, node, "pads", INT32_MIN, 2 * TALC_MAX_RANK) ||
        !list_fits(model, node, "output_padding", 0, TALC_MAX_RANK) ||
        !list_fits(model, node, "output_shape", 0, TALC_MAX_RANK))
        return false;
    const int64_t kernel = count_of(node, "kernel_shape", 1, 0);
    if (pools && kernel == 0)
        return fail(model, node, "no kernel_shape");
    int64_t space = kernel;
    static const struct {
        const char *name;
        int64_t each;
    } lists[] = { { "strides", 1 }, { "dilations", 1 }, { "pads", 2 } };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const int64_t count = count_of(node, lists[i].name, lists[i].each, space);
        if (count < 0 || (space > 0 && count != space))
            return fail(model, node, "%s are of other dimensions", lists[i].name);
        space = count;
    }
    const int64_t group = talc_onnx_int(node, "group", 1);
    if (group < 1 || group > INT32_MAX)
        return fail(model, node, "group is %lld", (long long)group);
    return true;
}

/* A string that is one of several, where it is given. */
static bool one_of(const talc_onnx_model *model, const talc_onnx_node *node, const char *name,
                   const char *const known[])
{
    const char *given = talc_onnx_string(node, name, known[0]);
    for (int i = 0; known[i] != NULL; i++)
        if (strcmp(given, known[i]) == 0)
            return true;
    return fail(model, node, "%s '%s' does not exist", name, TALC_SHOWN(given));
}

static bool attributes_fit(const talc_onnx_model *model, const talc_onnx_node *node)
{
    static const char *const windows[] = { "Conv", "ConvTranspose", "MaxPool", "AveragePool" };
    static const char *const pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL };
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap", NULL };
    static const char *const resizes[] = { "nearest", "linear", "bilinear", "cubic", NULL };
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (strcmp(node->op, windows[i]) == 0)
            return window_fits(model, node) && one_of(model, node, "auto_pad", pads);
    if (strcmp(node->op, "Pad") == 0)
        return one_of(model, node, "mode", modes) &&
               list_fits(model, node, "pads", INT32_MIN, 2 * TALC_MAX_RANK);
    if (strcmp(node->op, "Resize") == 0 || strcmp(node->op, "Upsample") == 0)
        return one_of(model, node, "mode", resizes);
    if (strcmp(node->op, "DepthToSpace") == 0 || strcmp(node->op, "SpaceToDepth") == 0) {
        const int64_t size = talc_onnx_int(node, "blocksize", 0);
        return (size >= 1 && size <= INT16_MAX) ||
               fail(model, node, "blocksize is %lld", (long long)size);
    }
    if (strcmp(node->op, "LRN") == 0)
        return talc_onnx_int(node, "size", 0) >= 1 || fail(model, node, "size is below 1");
    /* The ends of a slice may be the largest integers. */
    const char *const ends[] = { "starts", "ends" };
    for (int i = 0; i < 2; i++) {
        const talc_onnx_attribute *list = talc_onnx_attribute_of(node, ends[i]);
        if (list != NULL && list->count > TALC_MAX_RANK)
            return fail(model, node, "%s is no list of up to 8 integers", ends[i]);
    }
    return list_fits(model, node, "axes", INT32_MIN, TALC_MAX_RANK) &&
           list_fits(model, node, "perm", 0, TALC_MAX_RANK);
}

bool talc_onnx_nodes_fit(const talc_onnx_model *model)
{
    for (int i = 0; i < model->node_count; i++)
        if (!ends_fit(model, &model->nodes[i]) || !attributes_fit(model, &model->nodes[i]))
            return false;
    return true;
}
