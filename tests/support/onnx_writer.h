/// Writes the messages of an ONNX file, byte by byte: knows of protocol buffers what a writer needs
/// and nothing of how talc reads them.
#ifndef TALC_TESTS_ONNX_WRITER_H
#define TALC_TESTS_ONNX_WRITER_H

#include <stddef.h>
#include <stdint.h>

/// A message, or a part of one. Too many bytes fail the test.
typedef struct wire {
    size_t count;
    unsigned char bytes[4096];
} wire;

void put_bytes(wire *to, const void *bytes, size_t count); ///< as they are
void put_varint(wire *to, uint64_t value);

/// Fields by their numbers.
void put_int(wire *to, int field, int64_t value);
void put_float(wire *to, int field, float value);
void put_double(wire *to, int field, double value);
void put_text(wire *to, int field, const char *text);
void put_block(wire *to, int field, const void *bytes, size_t count); ///< bytes, packed numbers
void put_message(wire *to, int field, wire message);

/// The tensor of a type, its dims and a name; NULL: none.
wire tensor_of(int type, int rank, const int64_t *dims, const char *name);
#define TENSOR(type, name, ...)                                                                    \
    tensor_of(type, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                          \
              (int64_t[]){ __VA_ARGS__ }, name)

/// An entry of external_data, added to a tensor.
void put_external(wire *tensor, const char *key, const char *value);

/// A node of one output; an input that is NULL is none.
wire node_of(const char *op, const char *name, const char *first, const char *second,
             const char *output);

/// An input or output of floats without a shape.
wire value_of(const char *name);

/// A model of IR version 8, with the opset of the default domain last.
wire model_of(wire graph, int64_t opset);

/// Writes it as a file of the test's folder; returns the path.
const char *write_model(const char *name, wire model);

#endif
