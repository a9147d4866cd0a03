/// Writing an ONNX file of opset 17. Private to onnx/.
///
/// A failure, of memory or of the file, is raised and ends what follows; talc_onnx_writer_save
/// tells.
#ifndef TALC_ONNX_WRITER_H
#define TALC_ONNX_WRITER_H

#include "onnx/model.h"

#include <stddef.h>

/// Bytes that grow.
typedef struct talc_onnx_bytes {
    unsigned char *list;
    size_t count, capacity;
} talc_onnx_bytes;

/// An initialiser, whose elements are read when the file is saved.
typedef struct talc_onnx_initializer {
    char *name;
    talc_tensor *tensor; ///< an alias
} talc_onnx_initializer;

typedef struct talc_onnx_writer {
    talc_dtype dtype;      ///< of single numbers: f32 or f64
    talc_onnx_bytes graph; ///< its fields but for the initialisers
    talc_onnx_initializer *initializers;
    size_t initializer_count, initializer_capacity;
    char **read; ///< names that nodes read
    size_t read_count, read_capacity;
} talc_onnx_writer;

typedef struct talc_onnx_attribute_value {
    const char *name;
    talc_onnx_attribute_kind kind;
    int64_t number;
    double real;
    int count;
    int64_t list[8];
} talc_onnx_attribute_value;

talc_onnx_attribute_value talc_onnx_ints_value(const char *name, int count, const int64_t *list);
#define TALC_ONNX_INTS_OF(name, count, list) talc_onnx_ints_value(name, count, list)
#define TALC_ONNX_INT_OF(name_, value)                                                             \
    ((talc_onnx_attribute_value){ .name = name_, .kind = TALC_ONNX_ATTRIBUTE_INT, .number = value })
#define TALC_ONNX_FLOAT_OF(name_, value)                                                           \
    ((talc_onnx_attribute_value){ .name = name_, .kind = TALC_ONNX_ATTRIBUTE_FLOAT, .real = value })

/// A node of one output, which is its name too; `attributes` of them follow, each a
/// talc_onnx_attribute_value. True.
bool talc_onnx_write_node(talc_onnx_writer *writer, const char *op, const char *output, int inputs,
                          const char *const names[], int attributes, ...);

/// Initialisers. The tensor's elements are read when the file is saved.
void talc_onnx_write_tensor(talc_onnx_writer *writer, const char *name, const talc_tensor *tensor);
void talc_onnx_write_integers(talc_onnx_writer *writer, const char *name, const int64_t *numbers,
                              int count);
void talc_onnx_write_number(talc_onnx_writer *writer, const char *name, double number);

/// Whether a node reads a value of that name.
bool talc_onnx_writer_reads(const talc_onnx_writer *writer, const char *name);

/// The graph's input and output; an extent of -1 is "batch".
void talc_onnx_write_ends(talc_onnx_writer *writer, talc_dtype dtype, const char *input,
                          talc_dims input_dims, const char *output, talc_dims output_dims);

/// Writes the file, as talc_file_create does. False with a failure.
bool talc_onnx_writer_save(talc_onnx_writer *writer, const char *path);

void talc_onnx_writer_free(talc_onnx_writer *writer);

#endif
