/// NumPy's .npy format: one tensor in one file.
///
///     talc_tensor *x = talc_npy_load(device, "x.npy");     // x = numpy.load("x.npy")
///     talc_npy_save("y.npy", y);                           // numpy.save("y.npy", y)
///
/// Loading takes versions 1.0 to 3.0, either byte order and either memory order (fortran_order
/// gives a contiguous row-major tensor of the same shape), and the types f4, f8, i8, i4, u1 and b1,
/// the last as u8, 0 or 1. It is strict: a header of at most 64 KiB, rank at most 8, and exactly as
/// many bytes as the shape needs. Pickled objects, structured and other types are refused by name.
///
/// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#ifndef TALC_TENSOR_NPY_H
#define TALC_TENSOR_NPY_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

/// Errors: TALC_IO_ERROR for what the system reports and for what is no regular file,
/// TALC_BAD_FORMAT for a file that breaks the format, TALC_UNSUPPORTED for a type that talc has
/// not, and those of talc_empty.
TALC_API talc_tensor *talc_npy_load(talc_device *device, const char *path);

/// Writes version 1.0, little-endian and row-major. The new file takes its name when it is
/// complete; until then, and on failure, an old file stays as it was.
TALC_API bool talc_npy_save(const char *path, const talc_tensor *tensor);

TALC_END_DECLARATIONS

#endif
