#include "tensor/file.h"

#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

talc_status talc_file_fail(const char *who, const char *doing, const char *path, int number)
{
    char reason[128] = "unknown error";
    (void)strerror_r(number, reason, sizeof reason);
    return talc_fail(TALC_IO_ERROR, "%s: cannot %s '%s': %s", who, doing, TALC_SHOWN(path), reason);
}

static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

talc_status talc_file_fail_kind(const char *who, const char *path, mode_t mode)
{
    return talc_fail(TALC_IO_ERROR, "%s: '%s' is %s, not a regular file", who, TALC_SHOWN(path),
                     kind_of_file(mode));
}

bool talc_host_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

void talc_swap_bytes(unsigned char *bytes, size_t count, size_t size)
{
    for (size_t i = 0; i + size <= count; i += size)
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            unsigned char kept = bytes[i + low];
            bytes[i + low] = bytes[i + high];
            bytes[i + high] = kept;
        }
}

// ---- Reading ------------------------------------------------------------------------------------

talc_status talc_file_open(talc_file *file, const char *who, const char *path)
{
    /* Without O_NONBLOCK, opening a pipe would wait for its other end before it can be refused. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return descriptor < 0 ? talc_file_fail(who, "open", path, errno)
                          : talc_file_take(file, who, path, descriptor);
}

talc_status talc_file_take(talc_file *file, const char *who, const char *path, int descriptor)
{
    struct stat about;
    talc_status status = TALC_OK;
    if (fstat(descriptor, &about) != 0)
        status = talc_file_fail(who, "open", path, errno);
    else if (!S_ISREG(about.st_mode))
        status = talc_file_fail_kind(who, path, about.st_mode);
    file->path = status == TALC_OK ? talc_memory_string(path) : NULL;
    if (file->path == NULL) {
        (void)close(descriptor);
        return talc_error_status();
    }
    file->descriptor = descriptor;
    file->size = about.st_size;
    return TALC_OK;
}

void talc_file_close(talc_file *file)
{
    (void)close(file->descriptor); /* nothing was written that could be lost */
    talc_memory_free(file->path);
}

talc_status talc_file_read(const talc_file *file, const char *who, int64_t offset, void *bytes,
                           size_t count)
{
    for (size_t done = 0; done < count;) {
        size_t left = count - done;
        ssize_t got = pread(file->descriptor, (char *)bytes + done,
                            left < TALC_MAX_PER_CALL ? left : TALC_MAX_PER_CALL,
                            (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return talc_file_fail(who, "read", file->path, errno);
        if (got == 0)
            return talc_fail(
                TALC_IO_ERROR, "%s: '%s' ends at byte %" PRId64 ", %zu byte%s too early", who,
                TALC_SHOWN(file->path), offset + (int64_t)done, left, TALC_PLURAL(left));
        done += (size_t)got;
    }
    return TALC_OK;
}

talc_status talc_file_read_tensor(const talc_file *file, const char *who, int64_t offset,
                                  bool little_endian, bool booleans, talc_tensor *tensor)
{
    size_t bytes = talc_nbytes(tensor);
    if (bytes == 0)
        return TALC_OK;
    if (talc_recording_refuses(who, tensor->device, "read a file"))
        return talc_error_status();
    unsigned char *staging =
        talc_memory_new(bytes < TALC_STAGING_BYTES ? bytes : TALC_STAGING_BYTES, who);
    if (staging == NULL)
        return talc_error_status();
    talc_status status = TALC_OK;
    for (size_t done = 0; done < bytes && status == TALC_OK; done += TALC_STAGING_BYTES) {
        size_t count = bytes - done < TALC_STAGING_BYTES ? bytes - done : TALC_STAGING_BYTES;
        status = talc_file_read(file, who, offset + (int64_t)done, staging, count);
        if (status != TALC_OK)
            break;
        if (little_endian != talc_host_little_endian())
            talc_swap_bytes(staging, count, talc_dtype_size(tensor->dtype));
        for (size_t i = 0; booleans && i < count; i++)
            staging[i] = staging[i] != 0;
        status = tensor->device->interface->upload(tensor->device, (char *)tensor->data + done,
                                                   staging, count);
    }
    talc_memory_free(staging);
    return status;
}
