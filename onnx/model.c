#include "onnx/model.h"

#include "onnx/arena.h"
#include "onnx/files.h"

#include <stdio.h>
#include <string.h>

static const struct {
    int type, size;
    const char *name;
} types[] = {
    { TALC_ONNX_UNDEFINED, 0, "undefined" }, { TALC_ONNX_FLOAT, 4, "float" },
    { TALC_ONNX_UINT8, 1, "uint8" },         { TALC_ONNX_INT8, 1, "int8" },
    { TALC_ONNX_UINT16, 2, "uint16" },       { TALC_ONNX_INT16, 2, "int16" },
    { TALC_ONNX_INT32, 4, "int32" },         { TALC_ONNX_INT64, 8, "int64" },
    { TALC_ONNX_STRING, 0, "string" },       { TALC_ONNX_BOOL, 1, "bool" },
    { TALC_ONNX_FLOAT16, 2, "float16" },     { TALC_ONNX_DOUBLE, 8, "double" },
    { TALC_ONNX_UINT32, 4, "uint32" },       { TALC_ONNX_UINT64, 8, "uint64" },
    { TALC_ONNX_BFLOAT16, 2, "bfloat16" },
};
enum { TYPES = sizeof types / sizeof *types };

const char *talc_onnx_type_name(int type, char text[24])
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].type == type)
            return types[i].name;
    snprintf(text, 24, "type %d", type);
    return text;
}

int64_t talc_onnx_type_size(int type)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].type == type)
            return types[i].size;
    return 0;
}

bool talc_onnx_read_elements(const talc_onnx_model *model, const talc_onnx_tensor *tensor, void *to)
{
    const int64_t size = talc_onnx_type_size(tensor->type);
    if (talc_failed())
        return false;
    if (size == 0) {
        char text[24];
        talc_fail(TALC_UNSUPPORTED,
                  "onnx_load: '%s': tensor '%s' is of %s, which talc does not read",
                  TALC_SHOWN(model->path), TALC_SHOWN(tensor->name),
                  talc_onnx_type_name(tensor->type, text));
        return false;
    }
    const size_t bytes = (size_t)tensor->bytes;
    if (tensor->file < 0) {
        if (bytes > 0)
            memcpy(to, tensor->data, bytes);
    } else {
        const talc_file *file = &model->files[tensor->file].file;
        if (talc_file_read(file, "onnx_load", tensor->offset, to, bytes) != TALC_OK)
            return false;
        if (!talc_host_little_endian())
            talc_swap_bytes(to, bytes, (size_t)size);
    }
    unsigned char *all = to;
    for (size_t i = 0; tensor->type == TALC_ONNX_BOOL && i < bytes; i++)
        all[i] = all[i] != 0;
    return true;
}

void talc_onnx_model_free(talc_onnx_model *model)
{
    if (model == NULL)
        return;
    talc_onnx_files_close(model->files, model->file_count);
    /* The model itself lies in its memory. */
    talc_onnx_arena memory = { model->memory };
    talc_onnx_arena_free(&memory);
}

const talc_onnx_attribute *talc_onnx_attribute_of(const talc_onnx_node *node, const char *name)
{
    for (int i = 0; i < node->attribute_count; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}
