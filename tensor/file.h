/// Reading and writing files of tensors. Private to talc.
///
/// Reading accepts regular files only, knows their exact size and never reads past it. Writing is
/// atomic: a temporary file in the same directory takes the target's name once it is complete and
/// on the disk, so the old file stays whole whatever fails. Until then it has no name where the
/// file system can do that, so that a program that is killed leaves nothing behind. No write ends
/// the program at its limit of file size: it fails. `who` names the function in messages.
#ifndef TALC_TENSOR_FILE_H
#define TALC_TENSOR_FILE_H

#include "tensor/shown.h"
#include "tensor/tensor.h"

#include <sys/types.h>

/// A file open for reading.
typedef struct talc_file {
    int descriptor;
    int64_t size;
    char *path;
} talc_file;

/// Opens a regular file. Errors: TALC_IO_ERROR with the system's text, also for directories, pipes
/// and devices.
talc_status talc_file_open(talc_file *file, const char *who, const char *path);

/// The same of a descriptor, which is the file's from then on, and closed on failure; `path` is
/// what messages name.
talc_status talc_file_take(talc_file *file, const char *who, const char *path, int descriptor);

/// Reads exactly `count` bytes from `offset`; fewer, in a file that has shrunk, is an error.
talc_status talc_file_read(const talc_file *file, const char *who, int64_t offset, void *bytes,
                           size_t count);

/// Reads a contiguous tensor's elements from `offset`, on any device. `little_endian` says how they
/// are stored; of `booleans`, which are bytes, each that is not 0 becomes 1.
talc_status talc_file_read_tensor(const talc_file *file, const char *who, int64_t offset,
                                  bool little_endian, bool booleans, talc_tensor *tensor);

void talc_file_close(talc_file *file);

/// A file on its way to replace `path`, or what a link at `path` leads to.
typedef struct talc_file_writer {
    int descriptor;
    const char *path; ///< borrowed; what messages name
    char *target;     ///< what is replaced
    char *temporary;  ///< room for a name beside it
    size_t capacity;  ///< its bytes
    bool named;       ///< there is a file of that name
} talc_file_writer;

/// Creates the temporary file. A target that exists must be a regular file; its permissions are
/// kept.
talc_status talc_file_create(talc_file_writer *writer, const char *who, const char *path);

talc_status talc_file_write(talc_file_writer *writer, const char *who, const void *bytes,
                            size_t count);

/// Writes a tensor's elements in row-major order and little-endian, from any device and with any
/// strides.
talc_status talc_file_write_tensor(talc_file_writer *writer, const char *who,
                                   const talc_tensor *tensor);

/// Puts the file in its place; on failure the old file is still there.
talc_status talc_file_commit(talc_file_writer *writer, const char *who);

/// Removes the temporary file; what a caller does instead of committing after a failure.
void talc_file_abandon(talc_file_writer *writer);

// ---- What both share ----------------------------------------------------------------------------

/// Elements pass through host memory in chunks of this size, which every element size divides.
#define TALC_STAGING_BYTES ((size_t)1 << 20)

/// One call moves at most this much: Linux stops short of 2^31 bytes anyway.
#define TALC_MAX_PER_CALL  ((size_t)1 << 30)

/// Raises TALC_IO_ERROR: "WHO: cannot DOING 'PATH': " and the system's text for `number`; that it
/// is no regular file.
talc_status talc_file_fail(const char *who, const char *doing, const char *path, int number);
talc_status talc_file_fail_kind(const char *who, const char *path, mode_t mode);

/// Turns the bytes of each element of `size` bytes around.
void talc_swap_bytes(unsigned char *bytes, size_t count, size_t size);

/// True on hosts that store the low byte first.
bool talc_host_little_endian(void);

#endif
