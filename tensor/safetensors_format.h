/// What the reader and the writer of safetensors agree on: whatever is saved can be opened. Private
/// to the two.
#ifndef TALC_TENSOR_SAFETENSORS_FORMAT_H
#define TALC_TENSOR_SAFETENSORS_FORMAT_H

enum {
    LENGTH_BYTES = 8, /* the header's length, in front of it */
    MAX_HEADER = 16 << 20,
    MAX_TENSORS = 65536,
    MAX_NAME = 1024,
};

/* The header's key that names no tensor. */
#define METADATA "__metadata__"

#endif
