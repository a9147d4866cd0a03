#define _XOPEN_SOURCE 700 /* realpath */

#include "tensor/file.h"

#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Elements pass through host memory in pieces of this size, which every element size divides. */
static const size_t STAGING_BYTES = (size_t)1 << 20;

/* One call moves at most this much: Linux stops short of 2^31 bytes anyway. */
static const size_t MOST_PER_CALL = (size_t)1 << 30;

static talc_status fail_with_errno(const char *who, const char *doing, const char *path, int number)
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

static talc_status fail_not_regular(const char *who, const char *path, mode_t mode)
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

static void swap_bytes(unsigned char *bytes, size_t count, size_t size)
{
    for (size_t i = 0; i + size <= count; i += size)
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            unsigned char kept = bytes[i + low];
            bytes[i + low] = bytes[i + high];
            bytes[i + high] = kept;
        }
}

// ---- Reading ------------------------------------------------------------------------------------------------

talc_status talc_file_open(talc_file *file, const char *who, const char *path)
{
    /* Without O_NONBLOCK, opening a pipe would wait for its other end before it can be refused. */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->descriptor < 0)
        return fail_with_errno(who, "open", path, errno);
    struct stat about;
    talc_status status = TALC_OK;
    if (fstat(file->descriptor, &about) != 0)
        status = fail_with_errno(who, "open", path, errno);
    else if (!S_ISREG(about.st_mode))
        status = fail_not_regular(who, path, about.st_mode);
    file->path = status == TALC_OK ? talc_memory_string(path) : NULL;
    if (file->path == NULL) {
        (void)close(file->descriptor);
        return talc_error_status();
    }
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
        ssize_t got =
            pread(file->descriptor, (char *)bytes + done,
                  left < MOST_PER_CALL ? left : MOST_PER_CALL, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_with_errno(who, "read", file->path, errno);
        if (got == 0)
            return talc_fail(TALC_IO_ERROR,
                             "%s: '%s' ends at byte %" PRId64 ", %zu bytes too early", who,
                             TALC_SHOWN(file->path), offset + (int64_t)done, left);
        done += (size_t)got;
    }
    return TALC_OK;
}

talc_status talc_file_read_tensor(const talc_file *file, const char *who, int64_t offset,
                                  bool little_endian, talc_tensor *tensor)
{
    size_t bytes = talc_nbytes(tensor);
    if (bytes == 0)
        return TALC_OK;
    if (talc_recording_refuses(who, tensor->device, "read a file"))
        return talc_error_status();
    unsigned char *staging = talc_memory_new(bytes < STAGING_BYTES ? bytes : STAGING_BYTES, who);
    if (staging == NULL)
        return talc_error_status();
    talc_status status = TALC_OK;
    for (size_t done = 0; done < bytes && status == TALC_OK; done += STAGING_BYTES) {
        size_t count = bytes - done < STAGING_BYTES ? bytes - done : STAGING_BYTES;
        status = talc_file_read(file, who, offset + (int64_t)done, staging, count);
        if (status != TALC_OK)
            break;
        if (little_endian != talc_host_little_endian())
            swap_bytes(staging, count, talc_dtype_size(tensor->dtype));
        status = tensor->device->interface->upload(tensor->device, (char *)tensor->data + done,
                                                   staging, count);
    }
    talc_memory_free(staging);
    return status;
}

// ---- Writing ------------------------------------------------------------------------------------------------

/* A name in the target's directory that no other writer uses; `attempt` gets past what a crash left behind. */
static int create_temporary(talc_file_writer *writer, size_t length, int attempt)
{
    static atomic_uint counter;
    const char *slash = strrchr(writer->target, '/');
    int directory = slash == NULL ? 0 : (int)(slash - writer->target) + 1;
    (void)snprintf(writer->temporary, length, "%.*s.talc-%ld-%u-%d.tmp", directory, writer->target,
                   (long)getpid(), atomic_fetch_add(&counter, 1), attempt);
    return open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* What a save to `path` replaces: a link stays, and the file that it leads to is written. */
static char *target_of(const char *who, const char *path, bool exists)
{
    size_t length = strlen(path) + 1;
    char *target = talc_memory_new(length < PATH_MAX ? PATH_MAX : length, who);
    if (target == NULL)
        return NULL;
    if (!exists) {
        memcpy(target, path, length);
    } else if (realpath(path, target) == NULL) {
        (void)fail_with_errno(who, "resolve", path, errno);
        talc_memory_free(target);
        target = NULL;
    }
    return target;
}

static void writer_free(talc_file_writer *writer)
{
    talc_memory_free(writer->temporary);
    talc_memory_free(writer->target);
}

talc_status talc_file_create(talc_file_writer *writer, const char *who, const char *path)
{
    enum { ATTEMPTS = 100, SUFFIX = 64 };
    struct stat old;
    bool replaces = stat(path, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode))
        return fail_not_regular(who, path, old.st_mode);
    writer->path = path;
    writer->target = target_of(who, path, replaces);
    if (writer->target == NULL)
        return talc_error_status();
    size_t length = strlen(writer->target) + SUFFIX;
    writer->temporary = talc_memory_new(length, who);
    if (writer->temporary == NULL) {
        talc_memory_free(writer->target);
        return talc_error_status();
    }
    writer->descriptor = -1;
    errno = EEXIST;
    for (int i = 0; i < ATTEMPTS && writer->descriptor < 0 && errno == EEXIST; i++)
        writer->descriptor = create_temporary(writer, length, i);
    if (writer->descriptor < 0) {
        (void)fail_with_errno(who, "create a file beside", path, errno);
        writer_free(writer);
        return talc_error_status();
    }
    if (replaces)
        (void)fchmod(writer->descriptor,
                     old.st_mode & 07777); /* on a file system without modes nothing is lost */
    return TALC_OK;
}

talc_status talc_file_write(talc_file_writer *writer, const char *who, const void *bytes,
                            size_t count)
{
    for (size_t done = 0; done < count;) {
        size_t left = count - done;
        ssize_t put = write(writer->descriptor, (const char *)bytes + done,
                            left < MOST_PER_CALL ? left : MOST_PER_CALL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_with_errno(who, "write", writer->path, errno);
        done += (size_t)put;
    }
    return TALC_OK;
}

static talc_status write_contiguous(talc_file_writer *writer, const char *who,
                                    const talc_tensor *tensor)
{
    if (talc_recording_refuses(who, tensor->device, "write a file"))
        return talc_error_status();
    size_t bytes = talc_nbytes(tensor);
    unsigned char *staging = talc_memory_new(bytes < STAGING_BYTES ? bytes : STAGING_BYTES, who);
    if (staging == NULL)
        return talc_error_status();
    talc_status status = TALC_OK;
    for (size_t done = 0; done < bytes && status == TALC_OK; done += STAGING_BYTES) {
        size_t count = bytes - done < STAGING_BYTES ? bytes - done : STAGING_BYTES;
        status = tensor->device->interface->download(tensor->device, staging,
                                                     (const char *)tensor->data + done, count);
        if (!talc_host_little_endian())
            swap_bytes(staging, count, talc_dtype_size(tensor->dtype));
        if (status == TALC_OK)
            status = talc_file_write(writer, who, staging, count);
    }
    talc_memory_free(staging);
    return status;
}

talc_status talc_file_write_tensor(talc_file_writer *writer, const char *who,
                                   const talc_tensor *tensor)
{
    if (talc_numel(tensor) == 0)
        return TALC_OK;
    talc_tensor *packed = talc_contiguous_for(who, tensor);
    talc_status status =
        packed == NULL ? talc_error_status() : write_contiguous(writer, who, packed);
    talc_release(packed);
    return status;
}

/* A rename is on the disk once its directory is. Some file systems cannot do that; the file is safe all the same.
 * The temporary name, in the same directory and of no more use, becomes the directory's. */
static void synchronize_directory(char *temporary)
{
    char *slash = strrchr(temporary, '/');
    if (slash == NULL)
        memcpy(temporary, ".", 2);
    else
        slash[slash == temporary ? 1 : 0] = '\0';
    int descriptor = open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        (void)fsync(descriptor);
        (void)close(descriptor);
    }
}

talc_status talc_file_commit(talc_file_writer *writer, const char *who)
{
    bool written = fsync(writer->descriptor) == 0;
    int number = errno;
    bool closed = close(writer->descriptor) == 0;
    number = written && !closed ? errno : number;
    writer->descriptor = -1;
    if (written && closed) {
        written = rename(writer->temporary, writer->target) == 0;
        number = errno;
    }
    if (!written || !closed) {
        (void)fail_with_errno(who, "write", writer->path, number);
        talc_file_abandon(writer);
        return talc_error_status();
    }
    synchronize_directory(writer->temporary);
    writer_free(writer);
    return TALC_OK;
}

void talc_file_abandon(talc_file_writer *writer)
{
    if (writer->descriptor >= 0)
        (void)close(writer->descriptor);
    (void)unlink(writer->temporary);
    writer_free(writer);
}
