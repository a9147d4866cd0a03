/// An ONNX file as it lies in the host's memory: nodes, attributes, and where elements are. Private
/// to onnx/.
#ifndef TALC_ONNX_MODEL_H
#define TALC_ONNX_MODEL_H

#include "tensor/tensor.h"

/// Element types of the format, by their numbers there (TensorProto.DataType).
typedef enum talc_onnx_type {
    TALC_ONNX_UNDEFINED = 0,
    TALC_ONNX_FLOAT = 1,
    TALC_ONNX_UINT8 = 2,
    TALC_ONNX_INT8 = 3,
    TALC_ONNX_UINT16 = 4,
    TALC_ONNX_INT16 = 5,
    TALC_ONNX_INT32 = 6,
    TALC_ONNX_INT64 = 7,
    TALC_ONNX_STRING = 8,
    TALC_ONNX_BOOL = 9,
    TALC_ONNX_FLOAT16 = 10,
    TALC_ONNX_DOUBLE = 11,
    TALC_ONNX_UINT32 = 12,
    TALC_ONNX_UINT64 = 13,
    TALC_ONNX_BFLOAT16 = 16
} talc_onnx_type;

/// "float", "int64"; "type 23" for one without a name here.
const char *talc_onnx_type_name(int type, char text[24]);

/// The bytes of one element; 0 for strings, and for a type that is not listed above.
int64_t talc_onnx_type_size(int type);

/// A tensor that the file holds: an initialiser, or an attribute.
typedef struct talc_onnx_tensor {
    const char *name; ///< "" for an attribute's
    int type;
    talc_dims dims;
    int64_t count; ///< elements
    /// Where the elements are: `bytes` bytes of little endian from `offset` of a file, or, where
    /// `file` is negative, in `data`, in the host's byte order. Of a type without a size (see
    /// talc_onnx_type_size) they are not looked at.
    int file; ///< number of the file in talc_onnx_model.files: 0 is the model itself
    int64_t offset, bytes;
    const void *data;
} talc_onnx_tensor;

typedef enum talc_onnx_attribute_kind {
    TALC_ONNX_ATTRIBUTE_FLOAT = 1,
    TALC_ONNX_ATTRIBUTE_INT = 2,
    TALC_ONNX_ATTRIBUTE_STRING = 3,
    TALC_ONNX_ATTRIBUTE_TENSOR = 4,
    TALC_ONNX_ATTRIBUTE_GRAPH = 5,
    TALC_ONNX_ATTRIBUTE_FLOATS = 6,
    TALC_ONNX_ATTRIBUTE_INTS = 7,
    TALC_ONNX_ATTRIBUTE_STRINGS = 8
} talc_onnx_attribute_kind;

typedef struct talc_onnx_attribute {
    const char *name;
    talc_onnx_attribute_kind kind; ///< another number for a kind that is not read
    float f;
    int64_t i;
    const char *s; ///< NUL-terminated
    const talc_onnx_tensor *t;
    int64_t count; ///< of floats, ints or strings
    const float *floats;
    const int64_t *ints;
    const char *const *strings;
} talc_onnx_attribute;

typedef struct talc_onnx_node {
    const char *op, *name, *domain; ///< "Conv", "/layer1/Conv" or "", "" or "ai.onnx"
    int input_count, output_count, attribute_count;
    const char *const *inputs; ///< names of values; "" for an input that is left out
    const char *const *outputs;
    const talc_onnx_attribute *attributes;
} talc_onnx_node;

/// An input or output of the graph.
typedef struct talc_onnx_value_info {
    const char *name;
    int type;       ///< of its elements; TALC_ONNX_UNDEFINED when the file does not say, or it is
                    ///< no tensor
    int rank;       ///< -1 when the file does not say
    int64_t dim[8]; ///< -1 for one that the file leaves open
    const char *dim_name[8]; ///< of one that is left open by name, "batch"; NULL: none
} talc_onnx_value_info;

typedef struct talc_onnx_model {
    const char *path;
    int64_t ir_version;
    int64_t opset; ///< of the default domain
    const char *producer, *producer_version;
    int node_count, initializer_count, input_count, output_count, file_count;
    const talc_onnx_node *nodes; ///< in an order in which every value is made before it is used
    const talc_onnx_tensor *initializers;
    const talc_onnx_value_info *inputs; ///< without those that are initialisers
    const talc_onnx_value_info *outputs;
    struct talc_onnx_file *files; ///< open: of the model and of its external data
    void *memory;                 ///< that all of this lies in
} talc_onnx_model;

/// Reads a file's structure and checks it: every value is made once and before it is used (nodes in
/// another order are sorted; a cycle is an error), names are unique, every output of the graph is
/// made, every tensor's bytes are what its type and shape ask for and lie in their file, which lies
/// in the model's folder. Attributes that hold graphs are listed without them. No weight is read.
/// What it takes in memory is bounded by the file's structure, weights left out. NULL with a
/// message that names path, node or tensor: TALC_BAD_FORMAT, TALC_IO_ERROR, TALC_NO_MEMORY, or
/// TALC_UNSUPPORTED for an opset other than 9 to 23, sparse initialisers, a function of the model's
/// own, a rank above 8, and in a build without a reader of ONNX.
talc_onnx_model *talc_onnx_read(const char *path);

/// Reads all elements of a tensor, tensor->count of its type's size, into `to`, in the host's byte
/// order; booleans become 0 or 1. False, with a failure, where the file can no longer be read or is
/// shorter than it was.
bool talc_onnx_read_elements(const talc_onnx_model *model, const talc_onnx_tensor *tensor,
                             void *to);

/// Frees the model and closes its files. NULL passes.
void talc_onnx_model_free(talc_onnx_model *model);

/// A node's attribute; NULL when it has none of that name.
const talc_onnx_attribute *talc_onnx_attribute_of(const talc_onnx_node *node, const char *name);

#endif
