#include "onnx/writer.h"

#include "tensor/file.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <pb_encode.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

static const char *const WHO = "onnx_save";

/* Numbers of fields, and of the kinds of attributes, as in onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT = 2,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_KIND = 20,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_NAME = 2
};
enum { IR_VERSION = 8, OPSET = 17 };

// ---- Bytes --------------------------------------------------------------------------------------

static bool append(pb_ostream_t *stream, const pb_byte_t *bytes, size_t count)
{
    talc_onnx_bytes *to = stream->state;
    if (to->count + count > to->capacity) {
        const size_t capacity = 2 * (to->count + count) + 256;
        unsigned char *longer = talc_memory_new(capacity, WHO);
        if (longer == NULL)
            return false;
        if (to->count > 0)
            memcpy(longer, to->list, to->count);
        talc_memory_free(to->list);
        to->list = longer;
        to->capacity = capacity;
    }
    if (count > 0)
        memcpy(to->list + to->count, bytes, count);
    to->count += count;
    return true;
}

static pb_ostream_t stream_of(talc_onnx_bytes *to)
{
    return (pb_ostream_t){ .callback = append, .state = to, .max_size = SIZE_MAX };
}

static void put_int(talc_onnx_bytes *to, uint32_t field, int64_t value)
{
    pb_ostream_t stream = stream_of(to);
    (void)(pb_encode_tag(&stream, PB_WT_VARINT, field) &&
           pb_encode_varint(&stream, (uint64_t)value));
}

static void put_float(talc_onnx_bytes *to, uint32_t field, float value)
{
    pb_ostream_t stream = stream_of(to);
    (void)(pb_encode_tag(&stream, PB_WT_32BIT, field) && pb_encode_fixed32(&stream, &value));
}

static void put_block(talc_onnx_bytes *to, uint32_t field, const void *bytes, size_t count)
{
    pb_ostream_t stream = stream_of(to);
    (void)(pb_encode_tag(&stream, PB_WT_STRING, field) && pb_encode_string(&stream, bytes, count));
}

static void put_text(talc_onnx_bytes *to, uint32_t field, const char *text)
{
    put_block(to, field, text, strlen(text));
}

/* The tag and the length of a field of `count` bytes, which follow. */
static void put_length(talc_onnx_bytes *to, uint32_t field, uint64_t count)
{
    pb_ostream_t stream = stream_of(to);
    (void)(pb_encode_tag(&stream, PB_WT_STRING, field) && pb_encode_varint(&stream, count));
}

/* A message, whose bytes are freed. */
static void put_message(talc_onnx_bytes *to, uint32_t field, talc_onnx_bytes *message)
{
    put_block(to, field, message->list, message->count);
    talc_memory_free(message->list);
    *message = (talc_onnx_bytes){ 0 };
}

// ---- Nodes --------------------------------------------------------------------------------------

talc_onnx_attribute_value talc_onnx_ints_value(const char *name, int count, const int64_t *list)
{
    talc_onnx_attribute_value value = {
        .name = name,
        .kind = TALC_ONNX_ATTRIBUTE_INTS,
        .count = count,
    };
    memcpy(value.list, list, (size_t)count * sizeof *list);
    return value;
}

static void put_attribute(talc_onnx_bytes *node, const talc_onnx_attribute_value *value)
{
    talc_onnx_bytes attribute = { 0 };
    put_text(&attribute, ATTRIBUTE_NAME, value->name);
    if (value->kind == TALC_ONNX_ATTRIBUTE_FLOAT)
        put_float(&attribute, ATTRIBUTE_FLOAT, (float)value->real);
    else if (value->kind == TALC_ONNX_ATTRIBUTE_INT)
        put_int(&attribute, ATTRIBUTE_INT, value->number);
    for (int i = 0; i < value->count; i++)
        put_int(&attribute, ATTRIBUTE_INTS, value->list[i]);
    put_int(&attribute, ATTRIBUTE_KIND, value->kind);
    put_message(node, NODE_ATTRIBUTE, &attribute);
}

static void note_read(talc_onnx_writer *writer, const char *name)
{
    if (talc_onnx_writer_reads(writer, name))
        return;
    char **list = talc_memory_grown(writer->read, writer->read_count, &writer->read_capacity,
                                    sizeof *list, WHO);
    if (list == NULL)
        return;
    writer->read = list;
    list[writer->read_count] = talc_memory_string(name);
    writer->read_count += list[writer->read_count] != NULL;
}

bool talc_onnx_writer_reads(const talc_onnx_writer *writer, const char *name)
{
    for (size_t i = writer->read_count; i > 0; i--)
        if (strcmp(writer->read[i - 1], name) == 0)
            return true;
    return false;
}

bool talc_onnx_write_node(talc_onnx_writer *writer, const char *op, const char *output, int inputs,
                          const char *const names[], int attributes, ...)
{
    talc_onnx_bytes node = { 0 };
    for (int i = 0; i < inputs; i++) {
        put_text(&node, NODE_INPUT, names[i]);
        note_read(writer, names[i]);
    }
    put_text(&node, NODE_OUTPUT, output);
    put_text(&node, NODE_NAME, output);
    put_text(&node, NODE_OP, op);
    va_list list;
    va_start(list, attributes);
    for (int i = 0; i < attributes; i++) {
        const talc_onnx_attribute_value value = va_arg(list, talc_onnx_attribute_value);
        put_attribute(&node, &value);
    }
    va_end(list);
    put_message(&writer->graph, GRAPH_NODE, &node);
    return true;
}

// ---- Initialisers -------------------------------------------------------------------------------

void talc_onnx_write_tensor(talc_onnx_writer *writer, const char *name, const talc_tensor *tensor)
{
    talc_onnx_initializer *list =
        talc_memory_grown(writer->initializers, writer->initializer_count,
                          &writer->initializer_capacity, sizeof *list, WHO);
    if (list == NULL)
        return;
    writer->initializers = list;
    list += writer->initializer_count;
    list->name = talc_memory_string(name);
    list->tensor = talc_retain(talc_tensor_alias(tensor));
    if (list->name != NULL && list->tensor != NULL) {
        writer->initializer_count++;
        return;
    }
    talc_memory_free(list->name);
    talc_release(list->tensor);
}

void talc_onnx_write_integers(talc_onnx_writer *writer, const char *name, const int64_t *numbers,
                              int count)
{
    talc_tensor *tensor = talc_from_host(talc_device_host(), TALC_I64, TALC_DIMS(count), numbers);
    if (tensor != NULL)
        talc_onnx_write_tensor(writer, name, tensor);
}

void talc_onnx_write_number(talc_onnx_writer *writer, const char *name, double number)
{
    talc_tensor *tensor = talc_full(talc_device_host(), writer->dtype, TALC_SCALAR, number);
    if (tensor != NULL)
        talc_onnx_write_tensor(writer, name, tensor);
}

static int64_t type_of(talc_dtype dtype)
{
    return dtype == TALC_F32   ? TALC_ONNX_FLOAT
           : dtype == TALC_F64 ? TALC_ONNX_DOUBLE
                               : TALC_ONNX_INT64;
}

/* All of an initialiser but its elements, which come last. */
static talc_onnx_bytes head_of(const talc_onnx_initializer *of)
{
    talc_onnx_bytes head = { 0 };
    for (int i = 0; i < of->tensor->rank; i++)
        put_int(&head, TENSOR_DIMS, of->tensor->dims[i]);
    put_int(&head, TENSOR_TYPE, type_of(of->tensor->dtype));
    put_text(&head, TENSOR_NAME, of->name);
    put_length(&head, TENSOR_RAW, talc_nbytes(of->tensor));
    return head;
}

/* The same as a field of the graph. */
static talc_onnx_bytes field_of(const talc_onnx_initializer *of)
{
    talc_onnx_bytes head = head_of(of), field = { 0 };
    put_length(&field, GRAPH_INITIALIZER, head.count + talc_nbytes(of->tensor));
    pb_ostream_t stream = stream_of(&field);
    (void)append(&stream, head.list, head.count);
    talc_memory_free(head.list);
    return field;
}

// ---- Ends ---------------------------------------------------------------------------------------

static void put_value(talc_onnx_bytes *graph, uint32_t field, talc_dtype dtype, const char *name,
                      talc_dims dims)
{
    talc_onnx_bytes shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
    for (int i = 0; i < dims.rank; i++) {
        talc_onnx_bytes dim = { 0 };
        if (dims.dim[i] < 0)
            put_text(&dim, DIM_NAME, "batch");
        else
            put_int(&dim, DIM_VALUE, dims.dim[i]);
        put_message(&shape, SHAPE_DIM, &dim);
    }
    put_int(&tensor, TENSOR_TYPE_ELEMENT, type_of(dtype));
    put_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
    put_message(&type, TYPE_TENSOR, &tensor);
    put_text(&value, VALUE_NAME, name);
    put_message(&value, VALUE_TYPE, &type);
    put_message(graph, field, &value);
}

void talc_onnx_write_ends(talc_onnx_writer *writer, talc_dtype dtype, const char *input,
                          talc_dims input_dims, const char *output, talc_dims output_dims)
{
    put_text(&writer->graph, GRAPH_NAME, "talc");
    put_value(&writer->graph, GRAPH_INPUT, dtype, input, input_dims);
    put_value(&writer->graph, GRAPH_OUTPUT, dtype, output, output_dims);
}

// ---- The file -----------------------------------------------------------------------------------

static bool write_initializer(talc_file_writer *file, const talc_onnx_initializer *of)
{
    talc_onnx_bytes field = field_of(of);
    const bool written = !talc_failed() &&
                         talc_file_write(file, WHO, field.list, field.count) == TALC_OK &&
                         talc_file_write_tensor(file, WHO, of->tensor) == TALC_OK;
    talc_memory_free(field.list);
    return written;
}

/* What stands before the initialisers; false where the file would pass the 2 GiB that readers
 * take. */
static bool put_head(const talc_onnx_writer *writer, talc_onnx_bytes *head)
{
    uint64_t count = writer->graph.count;
    for (size_t i = 0; i < writer->initializer_count; i++) {
        talc_onnx_bytes field = field_of(&writer->initializers[i]);
        count += field.count + talc_nbytes(writer->initializers[i].tensor);
        talc_memory_free(field.list);
    }
    talc_onnx_bytes opset = { 0 };
    put_int(&opset, OPSET_VERSION, OPSET);
    put_int(head, MODEL_IR_VERSION, IR_VERSION);
    put_text(head, MODEL_PRODUCER, "talc");
    put_message(head, MODEL_OPSET, &opset);
    put_length(head, MODEL_GRAPH, count);
    if (count + head->count > INT32_MAX)
        talc_fail(TALC_TOO_LARGE, "%s: %llu bytes, an ONNX file has less than 2^31", WHO,
                  (unsigned long long)(count + head->count));
    return !talc_failed();
}

bool talc_onnx_writer_save(talc_onnx_writer *writer, const char *path)
{
    talc_onnx_bytes head = { 0 };
    talc_file_writer file;
    bool written = put_head(writer, &head) && talc_file_create(&file, WHO, path) == TALC_OK;
    if (written) {
        written = talc_file_write(&file, WHO, head.list, head.count) == TALC_OK &&
                  talc_file_write(&file, WHO, writer->graph.list, writer->graph.count) == TALC_OK;
        for (size_t i = 0; i < writer->initializer_count && written; i++)
            written = write_initializer(&file, &writer->initializers[i]);
        if (written)
            written = talc_file_commit(&file, WHO) == TALC_OK;
        else
            talc_file_abandon(&file);
    }
    talc_memory_free(head.list);
    return written;
}

void talc_onnx_writer_free(talc_onnx_writer *writer)
{
    for (size_t i = 0; i < writer->initializer_count; i++) {
        talc_memory_free(writer->initializers[i].name);
        talc_release(writer->initializers[i].tensor);
    }
    for (size_t i = 0; i < writer->read_count; i++)
        talc_memory_free(writer->read[i]);
    talc_memory_free(writer->initializers);
    talc_memory_free(writer->read);
    talc_memory_free(writer->graph.list);
}
