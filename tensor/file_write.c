#define _GNU_SOURCE /* O_TMPFILE, realpath */

#include "tensor/file.h"

#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 100, LINKS = 40, SUFFIX = 64, DESCRIPTOR_TEXT = 32 };

// ---- What is replaced ---------------------------------------------------------------------------

/* The directory of a path, its last slash included; 0 for none. */
static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Follows a link that leads to no file, to where one is to be. Returns 0 or an errno. */
static int follow(char target[PATH_MAX])
{
    char next[PATH_MAX];
    for (int i = 0; i < LINKS; i++) {
        const ssize_t length = readlink(target, next, sizeof next);
        if (length < 0) /* no link, or nothing */
            return 0;
        const size_t kept = next[0] == '/' ? 0 : directory_length(target);
        if (kept + (size_t)length >= PATH_MAX)
            return ENAMETOOLONG;
        memcpy(target + kept, next, (size_t)length);
        target[kept + (size_t)length] = '\0';
    }
    return ELOOP;
}

/* What a save to `path` replaces: a link stays, and the file that it leads to is written. */
static char *target_of(const char *who, const char *path, bool exists)
{
    const size_t length = strlen(path) + 1;
    char *target = talc_memory_new(length < PATH_MAX ? PATH_MAX : length, who);
    if (target == NULL)
        return NULL;
    memcpy(target, path, length);
    const int number = exists ? (realpath(path, target) == NULL ? errno : 0) : follow(target);
    if (number == 0)
        return target;
    (void)talc_file_fail(who, "resolve", path, number);
    talc_memory_free(target);
    return NULL;
}

// ---- The temporary file -------------------------------------------------------------------------

/* A name in the target's directory that no other writer uses; `attempt` gets past what a crash left
 * behind. */
static void name_temporary(talc_file_writer *writer, int attempt)
{
    static atomic_uint counter;
    (void)snprintf(writer->temporary, writer->capacity, "%.*s.talc-%ld-%u-%d.tmp",
                   (int)directory_length(writer->target), writer->target, (long)getpid(),
                   atomic_fetch_add(&counter, 1), attempt);
}

/* Where an open file without a name can be named from. */
static const char *path_of(int descriptor, char text[DESCRIPTOR_TEXT])
{
    (void)snprintf(text, DESCRIPTOR_TEXT, "/proc/self/fd/%d", descriptor);
    return text;
}

/* A file without a name; -1 where the file system has none, or they could not be named later. */
static int open_unnamed(talc_file_writer *writer)
{
    char text[DESCRIPTOR_TEXT];
    const size_t length = directory_length(writer->target);
    (void)snprintf(writer->temporary, writer->capacity, "%.*s", (int)length, writer->target);
    const int descriptor =
        open(length == 0 ? "." : writer->temporary, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor >= 0 && access(path_of(descriptor, text), F_OK) != 0) {
        (void)close(descriptor);
        return -1;
    }
    return descriptor;
}

static int open_named(talc_file_writer *writer)
{
    int descriptor = -1;
    errno = EEXIST;
    for (int i = 0; i < ATTEMPTS && descriptor < 0 && errno == EEXIST; i++) {
        name_temporary(writer, i);
        descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    writer->named = descriptor >= 0;
    return descriptor;
}

static bool give_name(talc_file_writer *writer)
{
    char text[DESCRIPTOR_TEXT];
    errno = EEXIST;
    for (int i = 0; i < ATTEMPTS && !writer->named && errno == EEXIST; i++) {
        name_temporary(writer, i);
        writer->named = linkat(AT_FDCWD, path_of(writer->descriptor, text), AT_FDCWD,
                               writer->temporary, AT_SYMLINK_FOLLOW) == 0;
    }
    return writer->named;
}

static void writer_free(talc_file_writer *writer)
{
    talc_memory_free(writer->temporary);
    talc_memory_free(writer->target);
}

talc_status talc_file_create(talc_file_writer *writer, const char *who, const char *path)
{
    struct stat old;
    const bool replaces = stat(path, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode))
        return talc_file_fail_kind(who, path, old.st_mode);
    *writer = (talc_file_writer){ .path = path, .target = target_of(who, path, replaces) };
    if (writer->target == NULL)
        return talc_error_status();
    writer->capacity = strlen(writer->target) + SUFFIX;
    writer->temporary = talc_memory_new(writer->capacity, who);
    if (writer->temporary == NULL) {
        talc_memory_free(writer->target);
        return talc_error_status();
    }
    writer->descriptor = open_unnamed(writer);
    if (writer->descriptor < 0)
        writer->descriptor = open_named(writer);
    if (writer->descriptor < 0) {
        (void)talc_file_fail(who, "create a file beside", path, errno);
        writer_free(writer);
        return talc_error_status();
    }
    if (replaces)
        (void)fchmod(writer->descriptor,
                     old.st_mode & 07777); /* on a file system without modes nothing is lost */
    return TALC_OK;
}

// ---- Writing ------------------------------------------------------------------------------------

/* write(2), without the signal that a write past the limit of file size sends to its thread and
 * that ends the program. */
static ssize_t write_some(int descriptor, const void *bytes, size_t count)
{
    const struct timespec now = { 0 };
    sigset_t past_limit, pending, before;
    (void)sigemptyset(&past_limit);
    (void)sigaddset(&past_limit, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &past_limit, &before);
    (void)sigpending(&pending);
    const ssize_t put = write(descriptor, bytes, count);
    const int number = errno;
    if (put < 0 && number == EFBIG && !sigismember(&pending, SIGXFSZ))
        while (sigtimedwait(&past_limit, NULL, &now) < 0 && errno == EINTR)
            ;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = number;
    return put;
}

talc_status talc_file_write(talc_file_writer *writer, const char *who, const void *bytes,
                            size_t count)
{
    for (size_t done = 0; done < count;) {
        size_t left = count - done;
        ssize_t put = write_some(writer->descriptor, (const char *)bytes + done,
                                 left < TALC_MAX_PER_CALL ? left : TALC_MAX_PER_CALL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return talc_file_fail(who, "write", writer->path, errno);
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
    unsigned char *staging =
        talc_memory_new(bytes < TALC_STAGING_BYTES ? bytes : TALC_STAGING_BYTES, who);
    if (staging == NULL)
        return talc_error_status();
    talc_status status = TALC_OK;
    for (size_t done = 0; done < bytes && status == TALC_OK; done += TALC_STAGING_BYTES) {
        size_t count = bytes - done < TALC_STAGING_BYTES ? bytes - done : TALC_STAGING_BYTES;
        status = talc_device_waited(
            tensor->device, tensor->device->interface->download(
                                tensor->device, staging, (const char *)tensor->data + done, count));
        if (!talc_host_little_endian())
            talc_swap_bytes(staging, count, talc_dtype_size(tensor->dtype));
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

// ---- Its end ------------------------------------------------------------------------------------

/* A rename is on the disk once its directory is. Some file systems cannot do that; the file is safe
 * all the same. The temporary name, in the same directory and of no more use, becomes the
 * directory's. */
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

/* Names the file, if it has no name yet, and puts it in the target's place, between which no signal
 * to this thread ends the program. Returns 0 or an errno. */
static int put_in_place(talc_file_writer *writer)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int number = give_name(writer) ? 0 : errno;
    if (close(writer->descriptor) != 0 && number == 0)
        number = errno;
    writer->descriptor = -1;
    if (number == 0 && rename(writer->temporary, writer->target) != 0)
        number = errno;
    if (number != 0 && writer->named)
        (void)unlink(writer->temporary);
    writer->named = false;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number;
}

talc_status talc_file_commit(talc_file_writer *writer, const char *who)
{
    const int number = fsync(writer->descriptor) == 0 ? put_in_place(writer) : errno;
    if (number != 0) {
        (void)talc_file_fail(who, "write", writer->path, number);
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
    if (writer->named)
        (void)unlink(writer->temporary);
    writer_free(writer);
}
