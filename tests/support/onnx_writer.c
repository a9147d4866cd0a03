#include "tests/support/onnx_writer.h"

#include "tests/support/files.h"

#include <criterion/criterion.h>
#include <string.h>

void put_bytes(wire *to, const void *bytes, size_t count)
{
    cr_assert(count <= sizeof to->bytes - to->count, "a message of too many bytes");
    if (count > 0)
        memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
}

void put_varint(wire *to, uint64_t value)
{
    do {
        const unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put_bytes(to, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_tag(wire *to, int field, unsigned wire_type)
{
    put_varint(to, (uint64_t)field << 3 | wire_type);
}

/* The low byte first, whatever the host does. */
static void put_fixed(wire *to, uint64_t bits, int count)
{
    for (int i = 0; i < count; i++) {
        const unsigned char byte = (unsigned char)(bits >> (8 * i) & 0xff);
        put_bytes(to, &byte, 1);
    }
}

void put_int(wire *to, int field, int64_t value)
{
    put_tag(to, field, 0);
    put_varint(to, (uint64_t)value);
}

void put_float(wire *to, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(to, field, 5);
    put_fixed(to, bits, 4);
}

void put_double(wire *to, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(to, field, 1);
    put_fixed(to, bits, 8);
}

void put_block(wire *to, int field, const void *bytes, size_t count)
{
    put_tag(to, field, 2);
    put_varint(to, count);
    put_bytes(to, bytes, count);
}

void put_text(wire *to, int field, const char *text)
{
    put_block(to, field, text, strlen(text));
}

void put_message(wire *to, int field, wire message)
{
    put_block(to, field, message.bytes, message.count);
}

wire tensor_of(int type, int rank, const int64_t *dims, const char *name)
{
    wire tensor = { 0 };
    for (int i = 0; i < rank; i++)
        put_int(&tensor, 1, dims[i]);
    put_int(&tensor, 2, type);
    if (name != NULL)
        put_text(&tensor, 8, name);
    return tensor;
}

void put_external(wire *tensor, const char *key, const char *value)
{
    wire entry = { 0 };
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_message(tensor, 13, entry);
}

wire node_of(const char *op, const char *name, const char *first, const char *second,
             const char *output)
{
    wire node = { 0 };
    if (first != NULL)
        put_text(&node, 1, first);
    if (second != NULL)
        put_text(&node, 1, second);
    put_text(&node, 2, output);
    put_text(&node, 3, name);
    put_text(&node, 4, op);
    return node;
}

wire value_of(const char *name)
{
    wire tensor_type = { 0 }, type = { 0 }, value = { 0 };
    put_int(&tensor_type, 1, 1);
    put_message(&type, 1, tensor_type);
    put_text(&value, 1, name);
    put_message(&value, 2, type);
    return value;
}

wire model_of(wire graph, int64_t opset)
{
    wire model = { 0 }, import = { 0 };
    put_text(&import, 1, "");
    put_int(&import, 2, opset);
    put_int(&model, 1, 8);
    put_message(&model, 7, graph);
    put_message(&model, 8, import);
    return model;
}

const char *write_model(const char *name, wire model)
{
    const char *path = file_path(name);
    file_write(path, model.bytes, model.count);
    return path;
}
