#include "tensor/file.h"
#include "tensor/memory.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_format.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGNMENT = 8 };

static const char *const who = "safetensors_save";

#define SAFETENSORS_NAME(constant, name, type, safetensors) safetensors,
static const char *const type_names[] = { TALC_DTYPE_TABLE(SAFETENSORS_NAME) };
#undef SAFETENSORS_NAME

/* Takes `value` over. The key is a name of the caller's, so what is wrong with it is said. */
static talc_status add(json_t *object, const char *kind, const char *key, json_t *value)
{
    if (value != NULL && json_object_get(object, key) != NULL) {
        json_decref(value);
        return talc_fail(TALC_BAD_ARGUMENT, "%s: two %ss are named '%s'", who, kind,
                         TALC_SHOWN(key));
    }
    if (json_object_set_new(object, key, value) == 0)
        return TALC_OK;
    return talc_fail(TALC_NO_MEMORY, "%s: out of host memory for the header", who);
}

/* Keys and strings are UTF-8, because the format is. */
static talc_status check_text(const char *kind, const char *text)
{
    /* jansson does not say why it made no string. Twice without, and then one that it does not
     * check: not UTF-8. */
    for (int i = 0; i < 2; i++) {
        json_t *string = json_string(text);
        json_decref(string);
        if (string != NULL)
            return TALC_OK;
    }
    json_t *any = json_stringn_nocheck(text, strlen(text));
    if (any == NULL)
        return talc_fail(TALC_NO_MEMORY, "%s: out of host memory for the header", who);
    json_decref(any);
    return talc_fail(TALC_BAD_ARGUMENT, "%s: the %s '%s' is not UTF-8", who, kind,
                     TALC_SHOWN(text));
}

static talc_status check_tensor(const talc_named_tensor *named, int64_t index)
{
    if (named->name == NULL || named->tensor == NULL)
        return talc_fail(TALC_NULL_ARGUMENT, "%s: the %s of tensor %" PRId64 " is NULL", who,
                         named->name == NULL ? "name" : "tensor", index);
    if (strlen(named->name) > MAX_NAME)
        return talc_fail(TALC_BAD_ARGUMENT, "%s: the name '%s' has %zu bytes, the most is %d", who,
                         TALC_SHOWN(named->name), strlen(named->name), MAX_NAME);
    if (strcmp(named->name, METADATA) == 0)
        return talc_fail(TALC_BAD_ARGUMENT, "%s: no tensor can be named '%s'", who, METADATA);
    return check_text("name", named->name);
}

/* Elements that need more alignment first; then each tensor's data is aligned without gaps. Within
 * one size the order is the reference writer's, so that both make the same file. */
static int compare_order(const void *a, const void *b)
{
    static const int order[] = {
        [TALC_I64] = 0, [TALC_F64] = 1, [TALC_F32] = 2, [TALC_I32] = 3, [TALC_U8] = 4
    };
    const talc_named_tensor *x = a, *y = b;
    int difference = order[x->tensor->dtype] - order[y->tensor->dtype];
    return difference != 0 ? difference : strcmp(x->name, y->name);
}

static talc_status add_metadata(json_t *header, const char *const *metadata)
{
    if (metadata == NULL || metadata[0] == NULL)
        return TALC_OK;
    json_t *strings = json_object();
    if (add(header, "tensor", METADATA, strings) != TALC_OK)
        return talc_error_status();
    for (int64_t i = 0; metadata[i] != NULL; i += 2) {
        if (metadata[i + 1] == NULL)
            return talc_fail(TALC_NULL_ARGUMENT, "%s: the metadata key '%s' has no value", who,
                             TALC_SHOWN(metadata[i]));
        if (check_text("metadata key", metadata[i]) != TALC_OK ||
            check_text("metadata value", metadata[i + 1]) != TALC_OK ||
            add(strings, "metadata key", metadata[i], json_string(metadata[i + 1])) != TALC_OK)
            return talc_error_status();
    }
    return TALC_OK;
}

static json_t *shape_of(const talc_tensor *tensor)
{
    json_t *shape = json_array();
    for (int i = 0; i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer(tensor->dims[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

static talc_status add_tensors(json_t *header, const talc_named_tensor *ordered, int64_t count)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < count; i++) {
        const talc_tensor *tensor = ordered[i].tensor;
        int64_t end;
        if (!talc_add_checked(begin, (int64_t)talc_nbytes(tensor), &end))
            return talc_fail(TALC_TOO_LARGE, "%s: the tensors need more than %" PRId64 " bytes",
                             who, INT64_MAX);
        json_t *entry =
            json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_names[tensor->dtype], "shape",
                      shape_of(tensor), "data_offsets", (json_int_t)begin, (json_int_t)end);
        if (add(header, "tensor", ordered[i].name, entry) != TALC_OK)
            return talc_error_status();
        begin = end;
    }
    return TALC_OK;
}

/* Length, JSON and the spaces that align what follows. */
static talc_status write_header(talc_file_writer *writer, const json_t *header)
{
    const size_t flags = JSON_COMPACT;
    size_t length = json_dumpb(header, NULL, 0, flags);
    size_t padded = (length + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    if (length == 0)
        return talc_fail(TALC_NO_MEMORY, "%s: out of host memory for the header", who);
    if (padded > MAX_HEADER)
        return talc_fail(TALC_TOO_LARGE, "%s: a header of %zu bytes, the most is %d", who, padded,
                         MAX_HEADER);
    char *bytes = talc_memory_new(LENGTH_BYTES + padded, who);
    if (bytes == NULL)
        return talc_error_status();
    for (int i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (char)((uint64_t)padded >> (8 * i) & 0xff);
    memset(bytes + LENGTH_BYTES, ' ', padded);
    talc_status status =
        json_dumpb(header, bytes + LENGTH_BYTES, length, flags) == length
            ? talc_file_write(writer, who, bytes, LENGTH_BYTES + padded)
            : talc_fail(TALC_NO_MEMORY, "%s: out of host memory for the header", who);
    talc_memory_free(bytes);
    return status;
}

static talc_status write_file(const char *path, const json_t *header,
                              const talc_named_tensor *ordered, int64_t count)
{
    talc_file_writer writer;
    if (talc_file_create(&writer, who, path) != TALC_OK)
        return talc_error_status();
    talc_status status = write_header(&writer, header);
    for (int64_t i = 0; i < count && status == TALC_OK; i++)
        status = talc_file_write_tensor(&writer, who, ordered[i].tensor);
    if (status == TALC_OK)
        return talc_file_commit(&writer, who);
    talc_file_abandon(&writer);
    return status;
}

bool talc_safetensors_save(const char *path, const talc_named_tensor *tensors, int64_t count,
                           const char *const *metadata)
{
    if (talc_operand_missing(who, "path", path) ||
        (count > 0 && talc_operand_missing(who, "tensors", tensors)))
        return false;
    if (count < 0 || count > MAX_TENSORS) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %" PRId64 " tensors are outside 0..%d", who, count,
                  MAX_TENSORS);
        return false;
    }
    for (int64_t i = 0; i < count; i++)
        if (check_tensor(&tensors[i], i) != TALC_OK)
            return false;
    talc_named_tensor *ordered = talc_memory_new((size_t)count * sizeof *ordered, who);
    if (ordered == NULL)
        return false;
    if (count > 0) {
        memcpy(ordered, tensors, (size_t)count * sizeof *ordered);
        qsort(ordered, (size_t)count, sizeof *ordered, compare_order);
    }
    json_t *header = json_object();
    if (header == NULL)
        talc_fail(TALC_NO_MEMORY, "%s: out of host memory for the header", who);
    bool ok = header != NULL && add_metadata(header, metadata) == TALC_OK &&
              add_tensors(header, ordered, count) == TALC_OK &&
              write_file(path, header, ordered, count) == TALC_OK;
    json_decref(header);
    talc_memory_free(ordered);
    return ok;
}
