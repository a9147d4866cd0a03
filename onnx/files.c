#include "onnx/files.h"

#include "tensor/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Makes `descriptor`, which it takes, or what lies at `path` where it is negative, the next. */
static int add(talc_onnx_files *files, const char *path, int descriptor, const char *location)
{
    struct talc_onnx_file *grown = talc_memory_grown(files->files, (size_t)files->count,
                                                     &files->capacity, sizeof *grown, "onnx_load");
    if (grown == NULL) {
        if (descriptor >= 0)
            (void)close(descriptor);
        return -1;
    }
    files->files = grown;
    struct talc_onnx_file *file = &grown[files->count];
    const talc_status status = descriptor < 0
                                   ? talc_file_open(&file->file, "onnx_load", path)
                                   : talc_file_take(&file->file, "onnx_load", path, descriptor);
    if (status != TALC_OK)
        return -1;
    file->location = location;
    return files->count++;
}

bool talc_onnx_files_open(talc_onnx_files *files, const char *path)
{
    return add(files, path, -1, NULL) == 0;
}

/* Why a location may not be followed, whatever lies there; NULL: it may. */
static const char *location_fault(const char *location)
{
    if (location[0] == '\0')
        return "no path";
    if (location[0] == '/')
        return "no path within the model's folder";
    for (const char *name = location; name != NULL;) {
        const size_t length = strcspn(name, "/");
        if (length == 2 && memcmp(name, "..", 2) == 0)
            return "no path within the model's folder";
        if (length == 0)
            return "no path of names";
        name = name[length] == '/' ? name + length + 1 : NULL;
    }
    return NULL;
}

/* Opens what a path of names leads to from a folder, whose descriptor it closes. Each step is from
 * the folder before and over no link, so that it cannot leave. -1 with errno. */
static int open_within(int folder, const char *path)
{
    for (const char *name = path; folder >= 0 && name != NULL;) {
        const size_t length = strcspn(name, "/");
        const bool last = name[length] == '\0';
        char text[256] = "";
        if (length < sizeof text)
            memcpy(text, name, length);
        const int next = length >= sizeof text
                             ? (errno = ENAMETOOLONG, -1)
                             : openat(folder, text,
                                      O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
                                          (last ? O_NONBLOCK | O_NOCTTY : O_DIRECTORY));
        const int number = errno;
        (void)close(folder);
        errno = number;
        folder = next;
        name = last ? NULL : name + length + 1;
    }
    return folder;
}

/* Opens the folder that a file is in, and puts the file beside it, at `location`, into `path`. */
static int open_folder_of(const char *model, const char *location, char *path)
{
    const char *slash = strrchr(model, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - model) + 1;
    memcpy(path, model, length);
    const int folder = open(length == 0 ? "." : path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    memcpy(path + length, location, strlen(location) + 1);
    return folder;
}

int talc_onnx_files_find(talc_onnx_files *files, const char *location, const char *user)
{
    /* Tensors in sequence are in one file mostly. */
    for (int i = files->count - 1; i > 0; i--)
        if (strcmp(files->files[i].location, location) == 0)
            return i;
    const char *model = files->files[0].file.path, *fault = location_fault(location);
    if (fault != NULL) {
        talc_fail(TALC_BAD_FORMAT, "onnx_load: '%s': %s: external data at '%s', which is %s",
                  TALC_SHOWN(model), user, TALC_SHOWN(location), fault);
        return -1;
    }
    char *path = talc_memory_new(strlen(model) + strlen(location) + 2, "onnx_load");
    if (path == NULL)
        return -1;
    const int descriptor = open_within(open_folder_of(model, location, path), location);
    int number = -1;
    if (descriptor >= 0)
        number = add(files, path, descriptor, location);
    else if (errno == ELOOP)
        talc_fail(TALC_BAD_FORMAT,
                  "onnx_load: '%s': %s: external data at '%s', which is a link, or behind one",
                  TALC_SHOWN(model), user, TALC_SHOWN(location));
    else if (errno == ENOENT)
        talc_fail(
            TALC_IO_ERROR,
            "onnx_load: '%s': there is no '%s', which has its weights: keep both in one folder",
            TALC_SHOWN(model), TALC_SHOWN(path));
    else
        talc_file_fail("onnx_load", "open", path, errno);
    talc_memory_free(path);
    return number;
}

void talc_onnx_files_close(struct talc_onnx_file *files, int count)
{
    for (int i = 0; i < count; i++)
        talc_file_close(&files[i].file);
    talc_memory_free(files);
}
