/// Prints what the reader makes of an ONNX file, for test_exported.py: onnx_dump FILE [elements],
/// the latter with a sum over each tensor's bytes. Texts are shown as messages show them.
#include "onnx/model.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shown(const char *text)
{
    static char buffers[8][4096];
    static int next;
    next = (next + 1) % 8;
    return talc_shown(text, SIZE_MAX, buffers[next], sizeof buffers[next]);
}

static void print_tensor(const talc_onnx_model *model, const talc_onnx_tensor *tensor,
                         bool elements)
{
    printf(" %d [", tensor->type);
    for (int i = 0; i < tensor->dims.rank; i++)
        printf("%s%" PRId64, i == 0 ? "" : ",", tensor->dims.dim[i]);
    printf("] %" PRId64, tensor->count);
    const size_t bytes = (size_t)tensor->bytes;
    unsigned char *all = elements ? calloc(1, bytes + 1) : NULL;
    if (all != NULL && talc_onnx_read_elements(model, tensor, all)) {
        uint32_t sum = 1; /* of each byte times an odd number that grows */
        for (size_t i = 0; i < bytes; i++)
            sum += all[i] * (2 * (uint32_t)i + 1);
        printf(" %" PRIu32, sum);
    }
    free(all);
}

static void print_infos(const char *what, const talc_onnx_value_info *infos, int count)
{
    for (int i = 0; i < count; i++) {
        printf("%s %s %d %d", what, shown(infos[i].name), infos[i].type, infos[i].rank);
        for (int j = 0; j < infos[i].rank; j++)
            printf(" %" PRId64 ":%s", infos[i].dim[j],
                   infos[i].dim_name[j] == NULL ? "" : shown(infos[i].dim_name[j]));
        printf("\n");
    }
}

static void print_attribute(const talc_onnx_model *model, const talc_onnx_attribute *at,
                            bool elements)
{
    printf("  %s %d", shown(at->name), (int)at->kind);
    if (at->kind == TALC_ONNX_ATTRIBUTE_FLOAT)
        printf(" %.9g", (double)at->f);
    if (at->kind == TALC_ONNX_ATTRIBUTE_INT)
        printf(" %" PRId64, at->i);
    if (at->kind == TALC_ONNX_ATTRIBUTE_STRING)
        printf(" %s", shown(at->s));
    for (int64_t i = 0; i < at->count; i++)
        if (at->kind == TALC_ONNX_ATTRIBUTE_FLOATS)
            printf(" %.9g", (double)at->floats[i]);
        else if (at->kind == TALC_ONNX_ATTRIBUTE_INTS)
            printf(" %" PRId64, at->ints[i]);
        else
            printf(" %s", shown(at->strings[i]));
    if (at->kind == TALC_ONNX_ATTRIBUTE_TENSOR)
        print_tensor(model, at->t, elements);
    printf("\n");
}

static void print_node(const talc_onnx_model *model, const talc_onnx_node *node, bool elements)
{
    printf("node %s '%s' '%s' (", shown(node->op), shown(node->name), shown(node->domain));
    for (int i = 0; i < node->input_count; i++)
        printf("%s%s", i == 0 ? "" : ",", shown(node->inputs[i]));
    printf(") (");
    for (int i = 0; i < node->output_count; i++)
        printf("%s%s", i == 0 ? "" : ",", shown(node->outputs[i]));
    printf(")\n");
    for (int i = 0; i < node->attribute_count; i++)
        print_attribute(model, &node->attributes[i], elements);
}

int main(int count, char **arguments)
{
    const bool elements = count == 3 && strcmp(arguments[2], "elements") == 0;
    if (count != 2 && !elements)
        return 2;
    talc_onnx_model *model = talc_onnx_read(arguments[1]);
    if (model != NULL) {
        printf("model %" PRId64 " %" PRId64 " '%s' '%s'\n", model->ir_version, model->opset,
               shown(model->producer), shown(model->producer_version));
        print_infos("input", model->inputs, model->input_count);
        print_infos("output", model->outputs, model->output_count);
        for (int i = 0; i < model->initializer_count; i++) {
            printf("initialiser %s", shown(model->initializers[i].name));
            print_tensor(model, &model->initializers[i], elements);
            printf("\n");
        }
        for (int i = 0; i < model->node_count; i++)
            print_node(model, &model->nodes[i], elements);
    }
    talc_onnx_model_free(model);
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    return talc_failed();
}
