/// A libFuzzer target for ONNX files. Nothing may crash, and no failure but the documented ones may
/// come. What is read is read again by a second look at every element.
///
///     CC=clang meson setup build-fuzz -Db_sanitize=address,undefined -Db_lundef=false
///     meson configure build-fuzz -Dc_args=-fsanitize=fuzzer-no-link
///     ninja -C build-fuzz tests/fuzz/fuzz_onnx
///     build-fuzz/tests/fuzz/fuzz_onnx -dict=tests/fuzz/onnx.dict CORPUS
#define _GNU_SOURCE /* memfd_create: a file without a disk */

#include "onnx/model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void read_elements(const talc_onnx_model *model, const talc_onnx_tensor *tensor)
{
    /* No more than the file has, or what its numbers take. */
    if (talc_onnx_type_size(tensor->type) == 0)
        return;
    void *elements = malloc((size_t)tensor->bytes + 1);
    if (elements == NULL || tensor->bytes != tensor->count * talc_onnx_type_size(tensor->type) ||
        !talc_onnx_read_elements(model, tensor, elements))
        abort();
    free(elements);
}

static void read_node(const talc_onnx_model *model, const talc_onnx_node *node)
{
    size_t length = strlen(node->op) + strlen(node->name) + strlen(node->domain);
    for (int i = 0; i < node->input_count; i++)
        length += strlen(node->inputs[i]);
    for (int i = 0; i < node->output_count; i++)
        length += strlen(node->outputs[i]);
    for (int i = 0; i < node->attribute_count; i++) {
        const talc_onnx_attribute *at = &node->attributes[i];
        if (talc_onnx_attribute_of(node, at->name) != at || length > (size_t)1 << 40)
            abort();
        if (at->kind == TALC_ONNX_ATTRIBUTE_TENSOR)
            read_elements(model, at->t);
        for (int64_t j = 0; j < at->count; j++)
            if (at->kind == TALC_ONNX_ATTRIBUTE_STRINGS)
                length += strlen(at->strings[j]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, bytes, count) != (ssize_t)count)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    talc_onnx_model *model = talc_onnx_read(path);
    for (int i = 0; model != NULL && i < model->initializer_count; i++)
        read_elements(model, &model->initializers[i]);
    for (int i = 0; model != NULL && i < model->node_count; i++)
        read_node(model, &model->nodes[i]);
    talc_onnx_model_free(model);
    const talc_status status = talc_error_status();
    if (status != TALC_OK && status != TALC_BAD_FORMAT && status != TALC_UNSUPPORTED &&
        status != TALC_IO_ERROR)
        abort();
    talc_error_clear();
    close(descriptor);
    return 0;
}
