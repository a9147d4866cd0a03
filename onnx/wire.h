/// Decoding the protocol buffers of a file to the structs that onnx.proto declares. Private to
/// onnx/, and included by the header that is generated of onnx.proto.
#ifndef TALC_ONNX_WIRE_H
#define TALC_ONNX_WIRE_H

#include "onnx/arena.h"
#include "tensor/file.h"

#include <pb.h>

/// Every field but single numbers. One that the file does not have is all zero.
typedef struct talc_onnx_field {
    union {
        const char *text;         ///< of `string`; NULL: the file does not have it
        int64_t offset;           ///< of `bytes`, in the file
        void *items;              ///< of repeated numbers
        const char *const *texts; ///< of `repeated string`
        void *const *messages;    ///< of repeated messages
    };
    size_t count;    ///< of items, or bytes
    size_t capacity; ///< of the list, in items
} talc_onnx_field;

/// Decodes a whole file to a talc_proto_Model. Texts and numbers are in `kept`, messages in
/// `decoded`, both the caller's, also on failure. NULL with TALC_BAD_FORMAT, TALC_IO_ERROR or
/// TALC_NO_MEMORY raised. Memory stays below 1 MiB and 64 bytes for each byte decoded: `bytes` are
/// passed over, and no text or list is longer than the message that it is in.
void *talc_onnx_decode(const talc_file *file, talc_onnx_arena *kept, talc_onnx_arena *decoded);

#endif
