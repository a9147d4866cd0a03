/// A folder of images: directory/CLASS/NAME.png.
#include "nn/data/dataset.h"

#include "nn/data/image_file.h"
#include "tensor/file.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const char *const WHO = "dataset_folder";

/* Strings, each freed with the list. */
typedef struct list {
    char **text;
    size_t count, capacity;
} list;

static void list_free(list *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        talc_memory_free(strings->text[i]);
    talc_memory_free(strings->text);
}

/* Takes the string over, also on failure. */
static bool list_add(list *strings, char *text)
{
    char **grown = text == NULL ? NULL
                                : talc_memory_grown(strings->text, strings->count,
                                                    &strings->capacity, sizeof *strings->text, WHO);
    if (grown == NULL) {
        talc_memory_free(text);
        return false;
    }
    strings->text = grown;
    strings->text[strings->count++] = text;
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// ---- What there is ------------------------------------------------------------------------------

static bool is_folder(const char *directory, const char *name)
{
    struct stat about = { 0 };
    char *path = talc_path_in(WHO, directory, name);
    /* What cannot be looked at may be a class. */
    if (path != NULL && stat(path, &about) != 0)
        talc_file_fail(WHO, "look at", path, errno);
    const bool is = path != NULL && S_ISDIR(about.st_mode);
    talc_memory_free(path);
    return is;
}

static bool is_png(const char *directory, const char *name)
{
    (void)directory;
    const size_t length = strlen(name);
    return length > 4 && strcasecmp(name + length - 4, ".png") == 0;
}

/* The names in a directory that are `wanted`, in the order of their bytes; hidden ones are not. */
static bool list_directory(const char *directory, bool (*wanted)(const char *, const char *),
                           list *names)
{
    DIR *open = opendir(directory);
    if (open == NULL) {
        talc_file_fail(WHO, "open", directory, errno);
        return false;
    }
    const struct dirent *entry;
    for (errno = 0; !talc_failed() && (entry = readdir(open)) != NULL; errno = 0)
        if (entry->d_name[0] != '.' && wanted(directory, entry->d_name) && !talc_failed())
            (void)list_add(names, talc_memory_string(entry->d_name));
    if (!talc_failed() && errno != 0)
        talc_file_fail(WHO, "read", directory, errno);
    (void)closedir(open);
    if (!talc_failed() && names->count > 0)
        qsort(names->text, names->count, sizeof *names->text, by_bytes);
    return !talc_failed();
}

/* The images of all classes, and how many each class has. */
typedef struct listing {
    list classes, paths;
    int64_t *counts;
} listing;

static bool list_class(listing *l, const char *directory, size_t label)
{
    char *folder = talc_path_in(WHO, directory, l->classes.text[label]);
    list names = { 0 };
    bool ok = folder != NULL && list_directory(folder, is_png, &names);
    if (ok && names.count == 0) {
        talc_fail(TALC_NOT_FOUND, "%s: '%s' holds no *.png", WHO, TALC_SHOWN(folder));
        ok = false;
    }
    for (size_t i = 0; ok && i < names.count; i++)
        ok = list_add(&l->paths, talc_path_in(WHO, folder, names.text[i]));
    l->counts[label] = (int64_t)names.count;
    list_free(&names);
    talc_memory_free(folder);
    return ok;
}

static bool list_all(listing *l, const char *directory)
{
    if (!list_directory(directory, is_folder, &l->classes))
        return false;
    if (l->classes.count == 0)
        talc_fail(TALC_NOT_FOUND, "%s: '%s' holds no folder; each is a class", WHO,
                  TALC_SHOWN(directory));
    else if (l->classes.count > TALC_CLASSES_MAX)
        talc_fail(TALC_TOO_LARGE, "%s: '%s' holds %zu folders, a dataset has at most %d classes",
                  WHO, TALC_SHOWN(directory), l->classes.count, TALC_CLASSES_MAX);
    else
        l->counts = talc_memory_new(l->classes.count * sizeof *l->counts, WHO);
    for (size_t i = 0; !talc_failed() && i < l->classes.count; i++)
        (void)list_class(l, directory, i);
    return !talc_failed();
}

static void listing_free(listing *l)
{
    list_free(&l->classes);
    list_free(&l->paths);
    talc_memory_free(l->counts);
}

// ---- Reading ------------------------------------------------------------------------------------

/* The size that all have, and whether one has colours. */
static bool look_at_all(const list *paths, talc_image_file *files, talc_image_file *all)
{
    for (size_t i = 0; i < paths->count; i++) {
        talc_image_file *file = &files[i];
        if (talc_image_file_look(WHO, paths->text[i], TALC_IMAGE_PIXELS, file) != TALC_OK)
            return false;
        if (i == 0)
            *all = *file;
        if (file->height != all->height || file->width != all->width) {
            talc_fail(TALC_BAD_SHAPE,
                      "%s: '%s' is %" PRId64 "x%" PRId64 ", '%s' %" PRId64 "x%" PRId64
                      " (height x width)",
                      WHO, TALC_SHOWN(paths->text[i]), file->height, file->width,
                      TALC_SHOWN(paths->text[0]), all->height, all->width);
            return false;
        }
        all->color = all->color || file->color;
    }
    return true;
}

static bool read_images(const list *paths, const talc_image_file *files, talc_samples *samples)
{
    uint8_t *planes = samples->pixels;
    const int channels = (int)samples->dims.dim[0];
    for (int64_t i = 0; i < samples->count; i++, planes += samples->image_bytes)
        if (talc_image_file_planes(WHO, paths->text[i], &files[i], channels, planes) != TALC_OK)
            return false;
    return true;
}

static bool name_classes(const listing *l, talc_samples *samples)
{
    size_t bytes = 0;
    for (size_t i = 0; i < l->classes.count; i++)
        bytes += strlen(l->classes.text[i]) + 1;
    char *text = talc_samples_names(WHO, samples, (int64_t)l->classes.count, bytes);
    int64_t sample = 0;
    for (size_t i = 0; text != NULL && i < l->classes.count; i++) {
        const size_t length = strlen(l->classes.text[i]) + 1;
        memcpy(text, l->classes.text[i], length);
        samples->names[i] = text;
        text += length;
        for (int64_t n = 0; n < l->counts[i]; n++)
            samples->labels[sample++] = (int64_t)i;
    }
    return text != NULL;
}

static talc_samples *read_all(const listing *l, talc_image_file *files)
{
    talc_image_file all = { 0 };
    if (!look_at_all(&l->paths, files, &all))
        return NULL;
    talc_samples *samples = talc_samples_new(WHO, (int64_t)l->paths.count,
                                             TALC_DIMS(all.color ? 3 : 1, all.height, all.width));
    if (samples == NULL)
        return NULL;
    if (name_classes(l, samples) && read_images(&l->paths, files, samples))
        return samples;
    talc_samples_release(samples);
    return NULL;
}

talc_dataset *talc_dataset_folder(const char *directory)
{
    if (talc_operand_missing(WHO, "directory", directory))
        return NULL;
    listing l = { 0 };
    talc_image_file *files =
        list_all(&l, directory) ? talc_memory_new(l.paths.count * sizeof *files, WHO) : NULL;
    talc_samples *samples = files == NULL ? NULL : read_all(&l, files);
    talc_memory_free(files);
    listing_free(&l);
    return samples == NULL ? NULL : talc_samples_dataset(WHO, samples);
}
