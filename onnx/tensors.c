#include "onnx/build.h"
#include "onnx/onnx.pb.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <string.h>

enum { IN_FILE = 0, EXTERNAL = 1 }; /* data_location */

/* dims and count. A zero extent counts as 1 first, so that the others have to multiply within
 * bounds even in an empty tensor. */
static bool make_dims(const talc_onnx_model *model, const talc_proto_Tensor *from, int64_t size,
                      const char *label, talc_onnx_tensor *tensor)
{
    if (from->dims.count > TALC_MAX_RANK) {
        TALC_ONNX_FAIL(TALC_UNSUPPORTED, model, "%s: a rank of %zu, talc reads up to %d", label,
                       from->dims.count, TALC_MAX_RANK);
        return false;
    }
    const int64_t *dims = from->dims.items;
    int64_t bytes = size == 0 ? 1 : size;
    bool empty = false;
    tensor->dims.rank = (int)from->dims.count;
    tensor->count = 1;
    for (int i = 0; i < tensor->dims.rank; i++) {
        tensor->dims.dim[i] = dims[i];
        empty = empty || dims[i] == 0;
        if (dims[i] < 0) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: dimension %d is %" PRId64, label, i,
                           dims[i]);
            return false;
        }
        if (!talc_multiply(bytes, dims[i] == 0 ? 1 : dims[i], &bytes)) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: a shape of 2^63 bytes or more", label);
            return false;
        }
        tensor->count *= dims[i] == 0 ? 1 : dims[i];
    }
    tensor->count = empty ? 0 : tensor->count;
    return true;
}

/* "float [2,3] needs 24 bytes": what a tensor needs, in a message. */
static bool wrong_size(const talc_onnx_model *model, const talc_onnx_tensor *tensor,
                       const char *label, int64_t needed, int64_t given, const char *unit)
{
    char dims[TALC_DIMS_TEXT], type[24];
    TALC_ONNX_FAIL(TALC_BAD_FORMAT, model,
                   "%s: %s %s needs %" PRId64 " %s%s, the file has %" PRId64, label,
                   talc_onnx_type_name(tensor->type, type), talc_dims_text(tensor->dims, dims),
                   needed, unit, TALC_PLURAL(needed), given);
    return false;
}

/* A number from 0 to 2^63-1, in decimal digits and nothing else. */
static bool read_decimal(const char *text, int64_t *number)
{
    *number = 0;
    for (const char *c = text; *c != '\0'; c++)
        if (*c < '0' || *c > '9' || !talc_multiply(*number, 10, number) ||
            !talc_add_checked(*number, *c - '0', number))
            return false;
    return text[0] != '\0';
}

static bool find_external(talc_onnx_model *model, talc_onnx_files *files,
                          const talc_proto_Tensor *from, int64_t needed, const char *label,
                          talc_onnx_tensor *tensor)
{
    enum { LOCATION, OFFSET, LENGTH, KEYS };
    static const char *const keys[KEYS] = { "location", "offset", "length" };
    const char *values[KEYS] = { NULL };
    for (size_t i = 0; i < from->external_data.count; i++) {
        const talc_proto_Entry *entry = from->external_data.messages[i];
        for (int k = 0; k < KEYS; k++) {
            if (entry->key.text == NULL || strcmp(entry->key.text, keys[k]) != 0)
                continue;
            if (values[k] != NULL) {
                TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: external data with two '%s'", label,
                               keys[k]);
                return false;
            }
            values[k] = entry->value.text == NULL ? "" : entry->value.text;
        }
    }
    if (values[LOCATION] == NULL) {
        TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: external data without 'location'", label);
        return false;
    }
    int64_t numbers[KEYS] = { 0, 0, needed };
    for (int k = OFFSET; k < KEYS; k++)
        if (values[k] != NULL && !read_decimal(values[k], &numbers[k])) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: external data with %s '%s'", label, keys[k],
                           TALC_SHOWN(values[k]));
            return false;
        }
    tensor->file = talc_onnx_files_find(files, values[LOCATION], label);
    if (tensor->file < 0)
        return false;
    tensor->offset = numbers[OFFSET];
    tensor->bytes = numbers[LENGTH];
    const int64_t size = files->files[tensor->file].file.size;
    if (tensor->offset > size || tensor->bytes > size - tensor->offset) {
        TALC_ONNX_FAIL(TALC_BAD_FORMAT, model,
                       "%s: %" PRId64 " byte%s at byte %" PRId64 " of '%s', which has %" PRId64,
                       label, tensor->bytes, TALC_PLURAL(tensor->bytes), tensor->offset,
                       TALC_SHOWN(values[LOCATION]), size);
        return false;
    }
    return true;
}

/* The bounds of an integer type; those of halves are of their bits. */
static void bounds_of(int type, int64_t *low, int64_t *high)
{
    const bool is_signed =
        type == TALC_ONNX_INT8 || type == TALC_ONNX_INT16 || type == TALC_ONNX_INT32;
    const int bits = 8 * (int)talc_onnx_type_size(type) - is_signed;
    *low = is_signed ? -((int64_t)1 << bits) : 0;
    *high = ((int64_t)1 << bits) - 1;
}

/* Numbers of a wider type, as which the format has them, to those of the tensor's own. */
static bool narrow(const talc_onnx_model *model, talc_onnx_arena *memory, const int64_t *wide,
                   const char *label, talc_onnx_tensor *tensor)
{
    const size_t size = (size_t)talc_onnx_type_size(tensor->type);
    int64_t low, high;
    bounds_of(tensor->type, &low, &high);
    unsigned char *to = talc_onnx_take(memory, (size_t)tensor->bytes);
    if (to == NULL)
        return false;
    tensor->data = to;
    for (int64_t i = 0; i < tensor->count; i++, to += size) {
        const int64_t value = tensor->type == TALC_ONNX_BOOL ? wide[i] != 0 : wide[i];
        if (value < low || value > high) {
            char type[24];
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: element %" PRId64 " of %s is %" PRId64,
                           label, i, talc_onnx_type_name(tensor->type, type), value);
            return false;
        }
        const uint8_t byte = (uint8_t)value;
        const uint16_t half = (uint16_t)value;
        const uint32_t word = (uint32_t)value;
        memcpy(to, size == 1 ? (const void *)&byte : size == 2 ? (const void *)&half : &word, size);
    }
    return true;
}

/* Elements as repeated numbers: each type has one list that they are in. */
static bool find_numbers(const talc_onnx_model *model, talc_onnx_arena *memory,
                         const talc_proto_Tensor *from, int64_t needed, const char *label,
                         talc_onnx_tensor *tensor)
{
    const int type = tensor->type;
    const talc_onnx_field *list = type == TALC_ONNX_FLOAT    ? &from->float_data
                                  : type == TALC_ONNX_DOUBLE ? &from->double_data
                                  : type == TALC_ONNX_INT64  ? &from->int64_data
                                  : type == TALC_ONNX_UINT32 || type == TALC_ONNX_UINT64
                                      ? &from->uint64_data
                                      : &from->int32_data;
    if (list->count != (size_t)tensor->count)
        return wrong_size(model, tensor, label, tensor->count, (int64_t)list->count, "element");
    tensor->file = -1;
    tensor->bytes = needed;
    tensor->data = list->items;
    const bool as_they_are = list == &from->float_data || list == &from->double_data ||
                             list == &from->int64_data || type == TALC_ONNX_UINT64;
    return as_they_are || narrow(model, memory, list->items, label, tensor);
}

bool talc_onnx_make_tensor(talc_onnx_model *model, talc_onnx_arena *memory, talc_onnx_files *files,
                           const talc_proto_Tensor *from, const char *label,
                           talc_onnx_tensor *tensor)
{
    const int64_t size = talc_onnx_type_size(from->data_type);
    tensor->name = from->name.text == NULL ? "" : from->name.text;
    tensor->type = from->data_type;
    if (!make_dims(model, from, size, label, tensor))
        return false;
    const int64_t needed = tensor->count * size;
    const int stores = (from->raw_data.count > 0) + (from->data_location == EXTERNAL) +
                       (from->float_data.count > 0) + (from->double_data.count > 0) +
                       (from->int32_data.count > 0) + (from->int64_data.count > 0) +
                       (from->uint64_data.count > 0);
    const char *fault = from->data_type == TALC_ONNX_UNDEFINED
                            ? "a tensor without a type of elements"
                        : from->segment.count > 0 ? "a segment of a tensor"
                        : stores > 1              ? "elements that are stored in two ways"
                        : from->data_location != IN_FILE && from->data_location != EXTERNAL
                            ? "a data_location that is neither 0 nor 1"
                            : NULL;
    if (fault != NULL) {
        TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "%s: %s", label, fault);
        return false;
    }
    tensor->file = 0;
    tensor->offset = from->raw_data.offset;
    tensor->bytes = (int64_t)from->raw_data.count;
    if (from->data_location == EXTERNAL &&
        !find_external(model, files, from, needed, label, tensor))
        return false;
    if (size > 0 && stores > 0 && from->data_location == IN_FILE && from->raw_data.count == 0)
        return find_numbers(model, memory, from, needed, label, tensor);
    return size == 0 || tensor->bytes == needed ||
           wrong_size(model, tensor, label, needed, tensor->bytes, "byte");
}
