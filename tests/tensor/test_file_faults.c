/* What tensor/file.c does when a system call fails. The linker puts __wrap_NAME in place of each
 * (-Wl,--wrap), and a fault makes some of the calls of one name fail, end early or move few bytes.
 * The names are those of 64-bit offsets, as meson builds on Linux. */
#define _GNU_SOURCE /* O_TMPFILE */

#include "tests/support/files.h"
#include "tests/support/hooks.h"

#include "tensor/file.h"
#include "tensor/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALWAYS = 1 << 30, LARGE = 300000 /* f32 elements: two pieces of 1 MiB or less */ };

/* ---- Faults ---- */

typedef enum system_call {
    OPEN,
    FSTAT,
    REALPATH,
    FCHMOD,
    PREAD,
    WRITE,
    FSYNC,
    CLOSE,
    RENAME,
    UNLINK,
    TMPFILE, /* an open for a file without a name */
    LINK,
    ACCESS
} system_call;
static const char letters[] =
    "osmhpwfcrutla"; /* of the calls, as the journal has them, in their order */

static struct fault {
    system_call call;
    int after, times; /* the calls that go through first, and those that fail then */
    int number;       /* errno; 0: a read finds the end of the file */
} fault;
static int calls;                    /* of fault.call */
static size_t max_a_call = SIZE_MAX; /* bytes that a read or a write moves at most */
static char journal[4096];           /* a letter for each call */
static bool names_only;              /* the file system has no files without a name */

static bool fails(system_call call)
{
    const size_t made = strlen(journal);
    if (made + 1 < sizeof journal)
        journal[made] = letters[call];
    errno = ENOTTY; /* a call that succeeds may leave anything in errno */
    calls += call == fault.call;
    if (call != fault.call || calls <= fault.after || calls - fault.after > fault.times)
        return false;
    errno = fault.number;
    return true;
}

static void begin(struct fault next)
{
    fault = next;
    calls = 0;
    max_a_call = SIZE_MAX;
    memset(journal, 0, sizeof journal);
}

static void undisturbed(void)
{
    begin((struct fault){ .times = 0 });
}

static size_t at_most(size_t bytes)
{
    return bytes < max_a_call ? bytes : max_a_call;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if ((flags & O_TMPFILE) != O_TMPFILE)
        return fails(OPEN) ? -1 : __real_open64(path, flags, mode);
    const bool failing = fails(TMPFILE);
    errno = failing ? errno : EOPNOTSUPP;
    return failing || names_only ? -1 : __real_open64(path, flags, mode);
}

int __real_linkat(int from_directory, const char *from, int to_directory, const char *to,
                  int flags);
int __wrap_linkat(int from_directory, const char *from, int to_directory, const char *to,
                  int flags);
int __wrap_linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
    return fails(LINK) ? -1 : __real_linkat(from_directory, from, to_directory, to, flags);
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    return fails(ACCESS) ? -1 : __real_access(path, mode);
}

int __real_fstat64(int descriptor, struct stat *about);
int __wrap_fstat64(int descriptor, struct stat *about);
int __wrap_fstat64(int descriptor, struct stat *about)
{
    return fails(FSTAT) ? -1 : __real_fstat64(descriptor, about);
}

char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved)
{
    return fails(REALPATH) ? NULL : __real_realpath(path, resolved);
}

int __real_fchmod(int descriptor, mode_t mode);
int __wrap_fchmod(int descriptor, mode_t mode);
int __wrap_fchmod(int descriptor, mode_t mode)
{
    return fails(FCHMOD) ? -1 : __real_fchmod(descriptor, mode);
}

ssize_t __real_pread64(int descriptor, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread64(int descriptor, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread64(int descriptor, void *bytes, size_t count, off_t offset)
{
    if (fails(PREAD))
        return fault.number == 0 ? 0 : -1;
    return __real_pread64(descriptor, bytes, at_most(count), offset);
}

ssize_t __real_write(int descriptor, const void *bytes, size_t count);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t count);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t count)
{
    return fails(WRITE) ? -1 : __real_write(descriptor, bytes, at_most(count));
}

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);
int __wrap_fsync(int descriptor)
{
    return fails(FSYNC) ? -1 : __real_fsync(descriptor);
}

/* Linux frees the descriptor also when close fails. */
int __real_close(int descriptor);
int __wrap_close(int descriptor);
int __wrap_close(int descriptor)
{
    const bool failing = fails(CLOSE);
    const int number = errno, result = __real_close(descriptor);
    if (failing)
        errno = number;
    return failing ? -1 : result;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : __real_rename(from, to);
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    return fails(UNLINK) ? -1 : __real_unlink(path);
}

/* ---- What is saved and loaded ---- */

static int open_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) != -1;
    return count;
}

/* LARGE elements 0, 1, 2, ... */
static talc_tensor *counting(void)
{
    float *values = calloc(LARGE, sizeof *values);
    for (int i = 0; i < LARGE; i++)
        values[i] = (float)i;
    talc_tensor *x = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(LARGE), values);
    free(values);
    assert_no_failure();
    return x;
}

/* Whether it is what counting() made. */
static bool counts(const talc_tensor *x)
{
    if (x == NULL || x->rank != 1 || x->dims[0] != LARGE)
        return false;
    const float *values = talc_data(x, TALC_F32);
    for (int i = 0; i < LARGE; i++)
        if (values[i] != (float)i)
            return false;
    return true;
}

static bool save_npy(const char *path, const talc_tensor *x)
{
    return talc_npy_save(path, x);
}

static bool save_safetensors(const char *path, const talc_tensor *x)
{
    talc_named_tensor named = { "x", (talc_tensor *)x };
    return talc_safetensors_save(path, &named, 1, NULL);
}

static talc_tensor *load_npy(const char *path)
{
    return talc_npy_load(cpu_device(), path);
}

static talc_tensor *load_safetensors(const char *path)
{
    owned_safetensors *file = talc_safetensors_open(path);
    talc_tensor *x = file == NULL ? NULL : talc_safetensors_read(file, 0, cpu_device());
    return x;
}

enum { FORMATS = 2 };

static const struct format {
    const char *saver, *opener, *reader; /* as messages name them */
    bool (*save)(const char *path, const talc_tensor *x);
    talc_tensor *(*load)(const char *path);
} formats[FORMATS] = {
    { "npy_save", "npy_load", "npy_load", save_npy, load_npy },
    { "safetensors_save", "safetensors_open", "safetensors_read", save_safetensors,
      load_safetensors },
};

/* The file at `path` must hold exactly the text; NULL: there must be none. */
static void assert_holds(const char *path, const char *text, const char *when)
{
    size_t count = 0;
    owned_char *bytes = file_bytes(path, &count);
    if (text == NULL)
        cr_assert_null(bytes, "%s: a file of %zu bytes is there", when, count);
    else
        cr_assert(bytes != NULL && count == strlen(text) && memcmp(bytes, text, count) == 0,
                  "%s: the old file has changed", when);
}

/* A save under the fault must fail with "WHO: cannot DOING 'PATH': REASON" and leave what was
 * there. */
static void assert_not_saved(const struct format *format, struct fault next, const char *doing,
                             const char *reason, bool over_old)
{
    const char *path = file_path("kept");
    char message[1024], when[64];
    snprintf(message, sizeof message, "%s: cannot %s '%s': %s", format->saver, doing, path, reason);
    snprintf(when, sizeof when, "%s, call %c, %d first, %s", format->saver, letters[next.call],
             next.after, over_old ? "over an old file" : "no old file");
    (void)remove(path);
    if (over_old)
        file_write(path, "old", 3);
    talc_tensor *x = counting();
    const int descriptors = open_descriptors();
    begin(next);
    const bool saved = format->save(path, x);
    undisturbed();
    cr_assert(!saved, "%s: saved", when);
    assert_failure(TALC_IO_ERROR, message);
    cr_assert(open_descriptors() == descriptors, "%s: a descriptor is left open", when);
    assert_holds(path, over_old ? "old" : NULL, when);
    cr_assert(file_count() == over_old, "%s: %d files are left", when, file_count());
    cr_assert(format->save(path, x) && counts(format->load(path)),
              "%s: the next save does not work: %s", when, talc_error_message());
    talc_scope_leave_all();
}

/* ---- Saving ---- */

Test(file_faults, a_save_that_fails_says_why_and_leaves_the_old_file)
{
    static const struct {
        struct fault fault;
        const char *doing, *reason;
    } cases[] = {
        { { OPEN, 0, ALWAYS, ENOSPC }, "create a file beside", "No space left on device" },
        { { OPEN, 0, ALWAYS, EEXIST }, "create a file beside", "File exists" },
        { { WRITE, 0, 1, ENOSPC }, "write", "No space left on device" },
        { { WRITE, 1, 1, EIO }, "write", "Input/output error" },
        { { WRITE, 2, ALWAYS, EDQUOT }, "write", "Disk quota exceeded" },
        { { FSYNC, 0, 1, EIO }, "write", "Input/output error" },
        { { FSYNC, 0, 1, ENOSPC }, "write", "No space left on device" },
        { { CLOSE, 0, 1, EIO }, "write", "Input/output error" },
        { { RENAME, 0, 1, EACCES }, "write", "Permission denied" },
        { { RENAME, 0, 1, EXDEV }, "write", "Invalid cross-device link" },
        { { LINK, 0, 1, ENOSPC }, "write", "No space left on device" },
        { { LINK, 0, ALWAYS, EEXIST }, "write", "File exists" },
    };
    for (int f = 0; f < 2 * FORMATS; f++)
        for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
            names_only = f >= FORMATS || cases[i / 2].fault.call == OPEN || !file_unnamed();
            if (!(names_only && cases[i / 2].fault.call == LINK))
                assert_not_saved(&formats[f % FORMATS], cases[i / 2].fault, cases[i / 2].doing,
                                 cases[i / 2].reason, i % 2 == 1);
        }
    names_only = false;
    for (int f = 0; f < FORMATS; f++)
        assert_not_saved(&formats[f], (struct fault){ REALPATH, 0, 1, EIO }, "resolve",
                         "Input/output error", true);
}

/* Saves over an old file under the fault, with so few bytes a call: it must work all the same. */
static void assert_saved(const struct format *format, struct fault next, size_t max)
{
    const char *path = file_path("replaced");
    file_write(path, "old", 3);
    talc_tensor *x = counting();
    const int descriptors = open_descriptors();
    begin(next);
    max_a_call = max;
    const bool saved = format->save(path, x);
    const int made = calls;
    undisturbed();
    cr_assert(saved, "%s, call %c, %d first: %s", format->saver, letters[next.call], next.after,
              talc_error_message());
    cr_assert(next.times == 0 || made > next.after, "%s: no call %c failed", format->saver,
              letters[next.call]);
    cr_assert(open_descriptors() == descriptors && file_count() == 1, "something is left");
    cr_assert(counts(format->load(path)), "%s: saved something else", format->saver);
    talc_scope_leave_all();
}

Test(file_faults, a_save_gets_past_what_does_no_harm)
{
    static const struct {
        struct fault fault;
        size_t max;
    } cases[] = {
        { { WRITE, 0, 3, EINTR }, SIZE_MAX },
        { { WRITE, 1, 3, EINTR }, SIZE_MAX },
        { { WRITE, 0, 0, 0 }, 997 },
        { { WRITE, 40, 2, EINTR }, 997 },
        { { OPEN, 0, 3, EEXIST }, SIZE_MAX }, /* names that a crash left behind */
        { { LINK, 0, 3, EEXIST }, SIZE_MAX },
        { { TMPFILE, 0, 1, EISDIR }, SIZE_MAX }, /* before Linux 3.11 */
        { { TMPFILE, 0, 1, EINVAL }, SIZE_MAX },
        { { ACCESS, 0, 1, ENOENT }, SIZE_MAX }, /* there is no /proc */
        { { FCHMOD, 0, 1, EPERM }, SIZE_MAX },  /* a file system without modes */
        { { OPEN, 1, 1, EACCES }, SIZE_MAX },   /* the directory, after the rename */
        { { FSYNC, 1, 1, EINVAL }, SIZE_MAX },  /* the directory's */
        { { CLOSE, 1, 1, EIO }, SIZE_MAX },     /* the directory's */
    };
    for (int f = 0; f < 2 * FORMATS; f++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const system_call call = cases[i].fault.call;
            names_only = f >= FORMATS || call == OPEN || !file_unnamed();
            if (!(names_only && (call == LINK || call == ACCESS)))
                assert_saved(&formats[f % FORMATS], cases[i].fault, cases[i].max);
        }
    names_only = false;
}

/* The elements are on the disk before the name is theirs; then the directory. */
Test(file_faults, the_calls_of_a_save_are_in_order)
{
    const char *path = file_path("ordered");
    const bool unnamed = file_unnamed();
    talc_tensor *x = counting();
    for (int f = 0; f < FORMATS; f++)
        for (int i = unnamed ? 0 : 2; i < 4; i++) {
            static const char *const orders[] = { "tawwwflcrofc", "mtahwwwflcrofc", "towwwfcrofc",
                                                  "mtohwwwfcrofc" };
            const char *expected = orders[i];
            const bool over_old = i % 2 == 1;
            names_only = i >= 2;
            (void)remove(path);
            if (over_old)
                file_write(path, "old", 3);
            undisturbed();
            cr_assert(formats[f].save(path, x));
            cr_assert(strcmp(journal, expected) == 0, "%s: calls %s instead of %s",
                      formats[f].saver, journal, expected);
        }
    names_only = false;
}

Test(file_faults, the_first_failure_is_the_one_told)
{
    const char *path = file_path("twice");
    file_write(path, "old", 3);
    talc_file_writer writer;
    undisturbed();
    cr_assert(talc_file_create(&writer, "save", path) == TALC_OK);
    cr_assert(talc_file_write(&writer, "save", "new", 3) == TALC_OK);
    cr_assert(__real_close(writer.descriptor) == 0); /* so fsync fails and then close, with EBADF */
    begin((struct fault){ FSYNC, 0, 1, ENOSPC });
    cr_assert(talc_file_commit(&writer, "save") == TALC_IO_ERROR);
    assert_failure_with(TALC_IO_ERROR, "save: cannot write '%s': No space left on device", path);
    assert_holds(path, "old", "fsync and close fail");
    cr_assert(file_count() == 1);
    /* A temporary file that cannot be removed stays; the message is still about the rename. */
    undisturbed();
    names_only = true;
    cr_assert(talc_file_create(&writer, "save", path) == TALC_OK);
    cr_assert(fcntl(writer.descriptor, F_GETFD) == FD_CLOEXEC);
    begin((struct fault){ UNLINK, 0, 1, EBUSY });
    talc_file_abandon(&writer);
    cr_assert(!talc_failed() && strcmp(journal, "cu") == 0, "calls %s", journal);
    assert_holds(path, "old", "unlink fails");
    cr_assert(file_count() == 2);
    names_only = false;
}

/* ---- Loading ---- */

/* A load under the fault must fail with the message that follows. */
static void assert_not_loaded(const struct format *format, struct fault next, const char *message)
{
    const char *path = file_path("loaded");
    const int descriptors = open_descriptors();
    begin(next);
    talc_tensor *x = format->load(path);
    undisturbed();
    cr_assert_null(x, "loaded, though %s", message);
    assert_failure(TALC_IO_ERROR, message);
    cr_assert(open_descriptors() == descriptors, "a descriptor is left open: %s", message);
    cr_assert(counts(format->load(path)), "the next load does not work: %s", talc_error_message());
    talc_scope_leave_all();
}

Test(file_faults, a_load_that_fails_says_why)
{
    const char *path = file_path("loaded");
    char message[1024];
    /* Where each read begins and how long it is: what precedes the header, the header, two pieces
     * of elements. */
    const int64_t reads[FORMATS][4][2] = {
        { { 0, 12 }, { 10, 118 }, { 128, 1048576 }, { 1048704, 151424 } },
        { { 0, 8 }, { 8, 72 }, { 80, 1048576 }, { 1048656, 151424 } },
    };
    for (int f = 0; f < FORMATS; f++) {
        const struct format *format = &formats[f];
        cr_assert(format->save(path, counting()));
        snprintf(message, sizeof message, "%s: cannot open '%s': Too many open files",
                 format->opener, path);
        assert_not_loaded(format, (struct fault){ OPEN, 0, 1, EMFILE }, message);
        snprintf(message, sizeof message, "%s: cannot open '%s': Input/output error",
                 format->opener, path);
        assert_not_loaded(format, (struct fault){ FSTAT, 0, 1, EIO }, message);
        for (int k = 0; k < 4; k++) {
            const char *who = k < 2 ? format->opener : format->reader;
            snprintf(message, sizeof message, "%s: cannot read '%s': Input/output error", who,
                     path);
            assert_not_loaded(format, (struct fault){ PREAD, k, 1, EIO }, message);
            snprintf(message, sizeof message, "%s: '%s' ends at byte %lld, %lld bytes too early",
                     who, path, (long long)reads[f][k][0], (long long)reads[f][k][1]);
            assert_not_loaded(format, (struct fault){ PREAD, k, ALWAYS, 0 }, message);
        }
    }
}

Test(file_faults, a_load_bears_short_and_interrupted_reads)
{
    const char *path = file_path("loaded");
    static const struct {
        struct fault fault;
        size_t max;
    } cases[] = {
        { { PREAD, 0, 3, EINTR }, SIZE_MAX },
        { { PREAD, 2, 3, EINTR }, SIZE_MAX },
        { { PREAD, 0, 0, 0 }, 997 },
        { { PREAD, 40, 2, EINTR }, 997 },
    };
    for (int f = 0; f < FORMATS; f++) {
        cr_assert(formats[f].save(path, counting()));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            begin(cases[i].fault);
            max_a_call = cases[i].max;
            cr_assert(counts(formats[f].load(path)), "%s, case %zu: %s", formats[f].opener, i,
                      talc_error_message());
            cr_assert(calls > cases[i].fault.after, "no read was interrupted");
        }
        talc_scope_leave_all();
    }
}

Test(file_faults, a_file_that_ends_within_a_piece_or_shrinks_is_told)
{
    const char *path = file_path("shrunk");
    char bytes[12];
    talc_file file;
    file_write(path, "0123456789", 10);
    undisturbed();
    cr_assert(talc_file_open(&file, "load", path) == TALC_OK && file.size == 10);
    begin((struct fault){ PREAD, 1, ALWAYS, 0 });
    max_a_call = 3;
    cr_assert(talc_file_read(&file, "load", 2, bytes, 8) == TALC_IO_ERROR);
    assert_failure_with(TALC_IO_ERROR, "load: '%s' ends at byte 5, 5 bytes too early", path);
    undisturbed();
    cr_assert(truncate(path, 7) == 0);
    cr_assert(talc_file_read(&file, "load", 1, bytes, 8) == TALC_IO_ERROR);
    assert_failure_with(TALC_IO_ERROR, "load: '%s' ends at byte 7, 2 bytes too early", path);
    cr_assert(talc_file_read(&file, "load", 1, bytes, 6) == TALC_OK &&
              memcmp(bytes, "123456", 6) == 0);
    talc_file_close(&file);
}
