/// The safetensors format: named tensors in one file, as PyTorch programs exchange them.
///
/// A file is 8 bytes of header length N (little-endian), N bytes of JSON, then the elements of all
/// tensors without gaps. The JSON looks like this:
///
///     {"__metadata__": {"key": "value"},
///      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
///
/// Reading is strict, because files come from strangers: the header begins with `{`, is UTF-8 and
/// at most 16 MiB, holds at most 65,536 tensors of rank 8 and names of 1,024 bytes; no key appears
/// twice; the data of the tensors covers the rest of the file exactly, without holes or overlaps.
/// Everything is checked when the file is opened. Files are read, not mapped, so that one that
/// shrinks meanwhile is an error and not a signal.
///
///     talc_safetensors *file = talc_safetensors_open("model.safetensors");
///     int64_t index = talc_safetensors_find(file, "conv.weight");
///     talc_tensor *weight = talc_safetensors_read(file, index, device);
///     talc_safetensors_close(file);
///
/// Format: https://github.com/huggingface/safetensors, the README's section "Format".
#ifndef TALC_TENSOR_SAFETENSORS_H
#define TALC_TENSOR_SAFETENSORS_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_named_tensor {
    const char *name;
    talc_tensor *tensor;
} talc_named_tensor;

/// Writes `count` tensors, from any device and with any strides, and strings: key, value, ...,
/// NULL; or NULL. The new file takes its name when it is complete; until then, and on failure, an
/// old file stays as it was. Data lies in the order of the reference writer, i64, f64, f32, i32, u8
/// and by name within each, so that all is aligned. Errors: a name or key that is NULL, not UTF-8,
/// too long or used twice, or "__metadata__"; what the system reports.
TALC_API bool talc_safetensors_save(const char *path, const talc_named_tensor *tensors,
                                    int64_t count, const char *const *metadata);

/// An open file with a checked header. It belongs to the program; several threads may read from it.
typedef struct talc_safetensors talc_safetensors;

/// Opens a file and checks its header. Errors: TALC_IO_ERROR for what the system reports and for
/// what is no regular file, TALC_BAD_FORMAT for a file that breaks the format or exceeds the limits
/// above; where it is a Git LFS pointer, an HTML page, a zip or a pickle, that is said, with what
/// to do.
TALC_API talc_safetensors *talc_safetensors_open(const char *path);
TALC_API void talc_safetensors_close(talc_safetensors *file); ///< NULL passes

// ---- Queries: tensors are numbered in the order of their data -----------------------------------
// An index out of range gives NULL, TALC_DTYPE_COUNT or rank 0; no query raises a failure.

TALC_API int64_t talc_safetensors_count(const talc_safetensors *file); ///< 0 for NULL

/// A tensor's name, valid until the file is closed.
TALC_API const char *talc_safetensors_name(const talc_safetensors *file, int64_t index);

/// The number of the tensor of that name; -1 when there is none.
TALC_API int64_t talc_safetensors_find(const talc_safetensors *file, const char *name);

/// The element type that talc_safetensors_read gives; TALC_DTYPE_COUNT for one that talc has not
/// (I16, F8_E4M3, ...).
TALC_API talc_dtype talc_safetensors_dtype(const talc_safetensors *file, int64_t index);

/// The element type as the file names it: "F32".
TALC_API const char *talc_safetensors_dtype_name(const talc_safetensors *file, int64_t index);

/// A tensor's shape.
TALC_API talc_dims talc_safetensors_dims(const talc_safetensors *file, int64_t index);

/// A string of the file's metadata; NULL when there is none of that key. Valid until the file is
/// closed.
TALC_API const char *talc_safetensors_metadata(const talc_safetensors *file, const char *key);

// ---- Elements -----------------------------------------------------------------------------------

/// A new tensor with the elements of one in the file. BOOL comes as u8, F16 and BF16 as f32,
/// exactly. TALC_UNSUPPORTED for a type talc has not.
TALC_API talc_tensor *talc_safetensors_read(const talc_safetensors *file, int64_t index,
                                            talc_device *device);

/// The same into an existing tensor of equal dtype and shape, which a failure leaves untouched.
TALC_API bool talc_safetensors_read_into(const talc_safetensors *file, int64_t index,
                                         talc_tensor *tensor);

TALC_END_DECLARATIONS

#endif
