#include "onnx/build.h"

#include "onnx/onnx.pb.h"
#include "onnx/wire.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET_MIN = 9, OPSET_MAX = 23, MAX_ATTRIBUTES = 1024 };

/* What the steps share. */
typedef struct builder {
    talc_onnx_model *model;
    talc_onnx_arena memory, temporary;
    talc_onnx_files files;
} builder;

static const char *text_of(talc_onnx_field field)
{
    return field.text == NULL ? "" : field.text;
}

static bool refuse(const builder *b, talc_status status, const char *label, const char *what)
{
    TALC_ONNX_FAIL(status, b->model, "%s%s%s", label, label[0] == '\0' ? "" : ": ", what);
    return false;
}

// ---- Versions and what is not read --------------------------------------------------------------

static bool is_default_domain(const char *domain)
{
    return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static bool read_opset(builder *b, const talc_proto_Model *from)
{
    talc_onnx_model *model = b->model;
    model->opset = -1;
    for (size_t i = 0; i < from->opset_import.count; i++) {
        const talc_proto_Opset *opset = from->opset_import.messages[i];
        if (!is_default_domain(text_of(opset->domain)))
            continue;
        if (model->opset >= 0 && model->opset != opset->version)
            return refuse(b, TALC_BAD_FORMAT, "", "two opsets of the default domain");
        model->opset = opset->version;
    }
    if (model->opset == -1)
        return refuse(b, TALC_BAD_FORMAT, "", "no opset of the default domain");
    if (model->opset >= OPSET_MIN && model->opset <= OPSET_MAX)
        return true;
    TALC_ONNX_FAIL(TALC_UNSUPPORTED, model, "opset %" PRId64 ": %d to %d are read", model->opset,
                   OPSET_MIN, OPSET_MAX);
    return false;
}

static int compare_calls(const char *name, const char *domain, const talc_proto_Function *b)
{
    const int order = strcmp(name, text_of(b->name));
    const char *other = text_of(b->domain);
    if (order != 0 || (is_default_domain(domain) && is_default_domain(other)))
        return order;
    return strcmp(domain, other);
}

static int compare_functions(const void *a, const void *b)
{
    const talc_proto_Function *first = *(talc_proto_Function *const *)a;
    return compare_calls(text_of(first->name), text_of(first->domain),
                         *(talc_proto_Function *const *)b);
}

static int compare_node(const void *node, const void *function)
{
    const talc_onnx_node *key = node;
    return compare_calls(key->op, key->domain, *(talc_proto_Function *const *)function);
}

// ---- Tensors, inputs and outputs ----------------------------------------------------------------

static bool make_initializers(builder *b, const talc_proto_Graph *graph)
{
    const talc_onnx_field *list = &graph->initializer;
    if (graph->sparse_initializer.count > 0) {
        const talc_proto_SparseTensor *sparse = graph->sparse_initializer.messages[0];
        const talc_proto_Named *values =
            sparse->values.count > 0 ? sparse->values.messages[0] : NULL;
        TALC_ONNX_FAIL(TALC_UNSUPPORTED, b->model, "initialiser '%s' is sparse, which is not read",
                       values == NULL ? "" : TALC_SHOWN(text_of(values->name)));
        return false;
    }
    talc_onnx_tensor *tensors = talc_onnx_take(&b->memory, list->count * sizeof *tensors);
    if (tensors == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        const talc_proto_Tensor *from = list->messages[i];
        char label[TALC_ONNX_LABEL];
        snprintf(label, sizeof label, "initialiser '%s'", TALC_SHOWN(text_of(from->name)));
        if (text_of(from->name)[0] == '\0')
            return refuse(b, TALC_BAD_FORMAT, "", "an initialiser without a name");
        if (!talc_onnx_make_tensor(b->model, &b->memory, &b->files, from, label, &tensors[i]))
            return false;
    }
    b->model->initializers = tensors;
    b->model->initializer_count = (int)list->count;
    return true;
}

static bool make_shape(const builder *b, const talc_proto_Shape *shape, const char *label,
                       talc_onnx_value_info *info)
{
    if (shape->dim.count > TALC_MAX_RANK)
        return refuse(b, TALC_UNSUPPORTED, label, "a rank above 8");
    info->rank = (int)shape->dim.count;
    for (int i = 0; i < info->rank; i++) {
        const talc_proto_Dim *dim = shape->dim.messages[i];
        const bool open = !dim->has_dim_value || dim->dim_value < 0;
        info->dim[i] = open ? -1 : dim->dim_value;
        info->dim_name[i] = open && text_of(dim->dim_param)[0] != '\0' ? dim->dim_param.text : NULL;
    }
    return true;
}

static bool make_info(const builder *b, const talc_proto_ValueInfo *from, const char *what,
                      talc_onnx_value_info *info)
{
    char label[TALC_ONNX_LABEL];
    snprintf(label, sizeof label, "%s '%s'", what, TALC_SHOWN(text_of(from->name)));
    info->name = text_of(from->name);
    info->rank = -1;
    if (info->name[0] == '\0')
        return refuse(b, TALC_BAD_FORMAT, label, "no name");
    const talc_proto_Type *type = from->type.count > 0 ? from->type.messages[0] : NULL;
    if (type == NULL || type->tensor_type.count == 0)
        return true;
    const talc_proto_TensorType *tensor = type->tensor_type.messages[0];
    if (from->type.count > 1 || type->tensor_type.count > 1 || tensor->shape.count > 1)
        return refuse(b, TALC_BAD_FORMAT, label, "two types");
    info->type = tensor->elem_type;
    return tensor->shape.count == 0 || make_shape(b, tensor->shape.messages[0], label, info);
}

static const talc_onnx_value_info *make_infos(builder *b, const talc_onnx_field *list,
                                              const char *what)
{
    talc_onnx_value_info *infos = talc_onnx_take(&b->memory, list->count * sizeof *infos);
    for (size_t i = 0; infos != NULL && i < list->count; i++)
        if (!make_info(b, list->messages[i], what, &infos[i]))
            return NULL;
    return infos;
}

// ---- Nodes --------------------------------------------------------------------------------------

const char *talc_onnx_node_label(const talc_onnx_model *model, int index,
                                 char text[TALC_ONNX_LABEL])
{
    const talc_onnx_node *node = &model->nodes[index];
    if (node->name[0] == '\0')
        snprintf(text, TALC_ONNX_LABEL, "node %d (%s)", index, TALC_SHOWN(node->op));
    else
        snprintf(text, TALC_ONNX_LABEL, "node '%s' (%s)", TALC_SHOWN(node->name),
                 TALC_SHOWN(node->op));
    return text;
}

static bool make_attribute(builder *b, const talc_proto_Attribute *from, const char *node,
                           talc_onnx_attribute *to)
{
    char label[2 * TALC_ONNX_LABEL];
    snprintf(label, sizeof label, "%s: attribute '%s'", node, TALC_SHOWN(text_of(from->name)));
    to->name = text_of(from->name);
    to->kind = (talc_onnx_attribute_kind)from->type;
    to->f = from->f;
    to->i = from->i;
    to->s = text_of(from->s);
    const talc_onnx_field *list = to->kind == TALC_ONNX_ATTRIBUTE_FLOATS    ? &from->floats
                                  : to->kind == TALC_ONNX_ATTRIBUTE_INTS    ? &from->ints
                                  : to->kind == TALC_ONNX_ATTRIBUTE_STRINGS ? &from->strings
                                                                            : NULL;
    to->count = list == NULL ? 0 : (int64_t)list->count;
    to->floats = from->floats.items;
    to->ints = from->ints.items;
    to->strings = from->strings.texts;
    if (to->name[0] == '\0')
        return refuse(b, TALC_BAD_FORMAT, node, "an attribute without a name");
    if (from->ref_attr_name.text != NULL)
        return refuse(b, TALC_BAD_FORMAT, label, "it refers to a function's, and is in none");
    if (to->kind != TALC_ONNX_ATTRIBUTE_TENSOR)
        return true;
    talc_onnx_tensor *tensor = talc_onnx_take(&b->memory, sizeof *tensor);
    if (tensor == NULL)
        return false;
    if (from->t.count != 1)
        return refuse(b, TALC_BAD_FORMAT, label, from->t.count == 0 ? "no tensor" : "two tensors");
    to->t = tensor;
    return talc_onnx_make_tensor(b->model, &b->memory, &b->files, from->t.messages[0], label,
                                 tensor);
}

static bool make_attributes(builder *b, const talc_onnx_field *list, int index,
                            talc_onnx_node *node)
{
    char label[TALC_ONNX_LABEL];
    talc_onnx_node_label(b->model, index, label);
    talc_onnx_attribute *all = talc_onnx_take(&b->memory, list->count * sizeof *all);
    if (all == NULL)
        return false;
    node->attributes = all;
    if (list->count > MAX_ATTRIBUTES)
        return refuse(b, TALC_BAD_FORMAT, label, "more than 1024 attributes");
    for (size_t i = 0; i < list->count; i++) {
        if (!make_attribute(b, list->messages[i], label, &all[i]))
            return false;
        if (talc_onnx_attribute_of(node, all[i].name) != NULL) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, b->model, "%s: two attributes '%s'", label,
                           TALC_SHOWN(all[i].name));
            return false;
        }
        node->attribute_count++;
    }
    return true;
}

static bool make_nodes(builder *b, const talc_proto_Model *from, const talc_onnx_field *list)
{
    talc_onnx_node *nodes = talc_onnx_take(&b->memory, list->count * sizeof *nodes);
    if (nodes == NULL)
        return false;
    b->model->nodes = nodes;
    b->model->node_count = (int)list->count;
    if (from->functions.count > 0)
        qsort(from->functions.items, from->functions.count, sizeof(void *), compare_functions);
    for (size_t i = 0; i < list->count; i++) {
        const talc_proto_Node *node = list->messages[i];
        char label[TALC_ONNX_LABEL];
        nodes[i].op = text_of(node->op_type);
        nodes[i].name = text_of(node->name);
        nodes[i].domain = text_of(node->domain);
        nodes[i].input_count = (int)node->input.count;
        nodes[i].inputs = node->input.texts;
        nodes[i].output_count = (int)node->output.count;
        nodes[i].outputs = node->output.texts;
        if (nodes[i].op[0] == '\0')
            return refuse(b, TALC_BAD_FORMAT, talc_onnx_node_label(b->model, (int)i, label),
                          "no op_type");
        /* Functions that no node calls do no harm: exporters leave some behind. */
        if (from->functions.count > 0 &&
            bsearch(&nodes[i], from->functions.items, from->functions.count, sizeof(void *),
                    compare_node) != NULL)
            return refuse(b, TALC_UNSUPPORTED, talc_onnx_node_label(b->model, (int)i, label),
                          "it calls a function of the model's own, which is not read");
        if (!make_attributes(b, &node->attribute, (int)i, &nodes[i]))
            return false;
    }
    return true;
}

// ---- The whole ----------------------------------------------------------------------------------

static bool make_graph(builder *b, const talc_proto_Model *from)
{
    if (from->graph.count != 1)
        return refuse(b, TALC_BAD_FORMAT, "", from->graph.count == 0 ? "no graph" : "two graphs");
    const talc_proto_Graph *graph = from->graph.messages[0];
    if (graph->node.count > INT_MAX || graph->initializer.count > INT_MAX ||
        graph->input.count > INT_MAX || graph->output.count > INT_MAX)
        return refuse(b, TALC_BAD_FORMAT, "", "more than 2^31 nodes, initialisers or values");
    if (graph->output.count == 0)
        return refuse(b, TALC_BAD_FORMAT, "", "no output");
    b->model->input_count = (int)graph->input.count;
    b->model->output_count = (int)graph->output.count;
    return (b->model->inputs = make_infos(b, &graph->input, "input")) != NULL &&
           (b->model->outputs = make_infos(b, &graph->output, "output")) != NULL &&
           make_nodes(b, from, &graph->node) && make_initializers(b, graph) &&
           talc_onnx_check_graph(b->model, &b->temporary);
}

static bool make_model(builder *b, const char *path)
{
    talc_onnx_model *model = b->model = talc_onnx_take(&b->memory, sizeof *b->model);
    if (model == NULL || !talc_onnx_files_open(&b->files, path))
        return false;
    model->path = b->files.files[0].file.path;
    const talc_proto_Model *from =
        talc_onnx_decode(&b->files.files[0].file, &b->memory, &b->temporary);
    if (from == NULL)
        return false;
    model->ir_version = from->ir_version;
    model->producer = text_of(from->producer_name);
    model->producer_version = text_of(from->producer_version);
    if (from->ir_version < 1)
        return refuse(b, TALC_BAD_FORMAT, "", "no ir_version, which every ONNX file has");
    return read_opset(b, from) && make_graph(b, from);
}

talc_onnx_model *talc_onnx_read(const char *path)
{
    if (talc_operand_missing("onnx_load", "path", path))
        return NULL;
    builder b = { .model = NULL };
    const bool made = make_model(&b, path);
    talc_onnx_arena_free(&b.temporary);
    if (!made) {
        talc_onnx_files_close(b.files.files, b.files.count);
        talc_onnx_arena_free(&b.memory);
        return NULL;
    }
    b.model->files = b.files.files;
    b.model->file_count = b.files.count;
    b.model->memory = b.memory.chunks;
    return b.model;
}
