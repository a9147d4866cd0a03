/// A folder of images, directory/CLASS/NAME: read at once, or one by one as they are asked for.
#include "nn/data/dataset.h"

#include "nn/data/image_file.h"
#include "nn/data/image_resize.h"
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

static const char *const WHO = "dataset_folder", *const FILES = "dataset_image_folder";

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
static bool list_add(const char *who, list *strings, char *text)
{
    char **grown = text == NULL ? NULL
                                : talc_memory_grown(strings->text, strings->count,
                                                    &strings->capacity, sizeof *strings->text, who);
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

typedef bool is_wanted(const char *who, const char *directory, const char *name);

static bool is_folder(const char *who, const char *directory, const char *name)
{
    struct stat about = { 0 };
    char *path = talc_path_in(who, directory, name);
    /* What cannot be looked at may be a class. */
    if (path != NULL && stat(path, &about) != 0)
        talc_file_fail(who, "look at", path, errno);
    const bool is = path != NULL && S_ISDIR(about.st_mode);
    talc_memory_free(path);
    return is;
}

static bool ends_in(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);
    return length > end && strcasecmp(name + length - end, ending) == 0;
}

static bool is_png(const char *who, const char *directory, const char *name)
{
    (void)who, (void)directory;
    return ends_in(name, ".png");
}

static bool is_image(const char *who, const char *directory, const char *name)
{
    return is_png(who, directory, name) || ends_in(name, ".jpg") || ends_in(name, ".jpeg");
}

/* The names in a directory that are `wanted`, in the order of their bytes; hidden ones are not. */
static bool list_directory(const char *who, const char *directory, is_wanted *wanted, list *names)
{
    DIR *open = opendir(directory);
    if (open == NULL) {
        talc_file_fail(who, "open", directory, errno);
        return false;
    }
    const struct dirent *entry;
    for (errno = 0; !talc_failed() && (entry = readdir(open)) != NULL; errno = 0)
        if (entry->d_name[0] != '.' && wanted(who, directory, entry->d_name) && !talc_failed())
            (void)list_add(who, names, talc_memory_string(entry->d_name));
    if (!talc_failed() && errno != 0)
        talc_file_fail(who, "read", directory, errno);
    (void)closedir(open);
    if (!talc_failed() && names->count > 0)
        qsort(names->text, names->count, sizeof *names->text, by_bytes);
    return !talc_failed();
}

/* The images of all classes, and how many each class has. */
typedef struct listing {
    const char *who;
    is_wanted *wanted;
    list classes, paths;
    int64_t *counts;
} listing;

static bool list_class(listing *l, const char *directory, size_t label)
{
    char *folder = talc_path_in(l->who, directory, l->classes.text[label]);
    list names = { 0 };
    bool ok = folder != NULL && list_directory(l->who, folder, l->wanted, &names);
    if (ok && names.count == 0) {
        talc_fail(TALC_NOT_FOUND, "%s: '%s' holds no %s", l->who, TALC_SHOWN(folder),
                  l->wanted == is_png ? "*.png" : "*.jpg, *.jpeg or *.png");
        ok = false;
    }
    for (size_t i = 0; ok && i < names.count; i++)
        ok = list_add(l->who, &l->paths, talc_path_in(l->who, folder, names.text[i]));
    l->counts[label] = (int64_t)names.count;
    list_free(&names);
    talc_memory_free(folder);
    return ok;
}

static bool list_all(listing *l, const char *directory)
{
    if (!list_directory(l->who, directory, is_folder, &l->classes))
        return false;
    if (l->classes.count == 0)
        talc_fail(TALC_NOT_FOUND, "%s: '%s' holds no folder; each is a class", l->who,
                  TALC_SHOWN(directory));
    else if (l->classes.count > TALC_CLASSES_MAX)
        talc_fail(TALC_TOO_LARGE, "%s: '%s' holds %zu folders, a dataset has at most %d classes",
                  l->who, TALC_SHOWN(directory), l->classes.count, TALC_CLASSES_MAX);
    else
        l->counts = talc_memory_new(l->classes.count * sizeof *l->counts, l->who);
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
    char *text = talc_samples_names(l->who, samples, (int64_t)l->classes.count, bytes);
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
    listing l = { .who = WHO, .wanted = is_png };
    talc_image_file *files =
        list_all(&l, directory) ? talc_memory_new(l.paths.count * sizeof *files, WHO) : NULL;
    talc_samples *samples = files == NULL ? NULL : read_all(&l, files);
    talc_memory_free(files);
    listing_free(&l);
    return samples == NULL ? NULL : talc_samples_dataset(WHO, samples);
}

// ---- One by one ---------------------------------------------------------------------------------

typedef struct files {
    talc_image_folder_options options;
    list paths;
} files;

static void files_free(void *source)
{
    files *f = source;
    list_free(&f->paths);
    talc_memory_free(f);
}

static bool read_file(const talc_samples *samples, int64_t i, talc_scratch *scratch,
                      talc_sample *sample)
{
    const files *f = samples->source;
    const char *path = f->paths.text[i];
    const int channels = (int)samples->dims.dim[0];
    talc_image_file file;
    if (talc_image_file_look(scratch->who, path, TALC_IMAGE_PIXELS, &file) != TALC_OK)
        return false;
    if (channels == 1 && file.color) {
        talc_fail(TALC_BAD_SHAPE, "%s: '%s' has 3 channels, colours, 1 is asked for", scratch->who,
                  TALC_SHOWN(path));
        return false;
    }
    uint8_t *planes = talc_scratch_bytes(scratch, TALC_SCRATCH_IMAGE,
                                         (size_t)channels * (size_t)(file.height * file.width));
    if (planes == NULL ||
        talc_image_file_planes(scratch->who, path, &file, channels, planes) != TALC_OK)
        return false;
    *sample = (talc_sample){ .image = planes,
                             .target = samples->labels + i,
                             .size = { file.height, file.width },
                             .resize = f->options.resize };
    return true;
}

static bool options_fit(const talc_image_folder_options *o)
{
    talc_image_size size;
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        talc_fail(TALC_BAD_ARGUMENT, "%s: channels %" PRId64 " must be 1 or 3", FILES, o->channels);
    else if (o->resize.height < 0 || o->resize.width < 0 ||
             (o->resize.height == 0 && o->resize.width != 0))
        talc_fail(TALC_BAD_ARGUMENT, "%s: resize %" PRId64 "x%" PRId64 " must be at least 1x1",
                  FILES, o->resize.height, o->resize.width);
    return !talc_failed() && talc_image_cropped_size(FILES, o->size, TALC_IMAGE_PIXELS, &size);
}

static talc_samples *files_of(listing *l, const talc_image_folder_options *o)
{
    const int64_t width = o->size.width == 0 ? o->size.height : o->size.width;
    talc_samples *samples = talc_samples_described(
        FILES, (int64_t)l->paths.count,
        TALC_DIMS(o->channels == 0 ? 3 : o->channels, o->size.height, width));
    files *f = samples == NULL ? NULL : talc_memory_new(sizeof *f, FILES);
    if (f != NULL) {
        f->options = *o;
        if (o->resize.height == 0)
            f->options.resize = (talc_image_size){ o->size.height, width };
        f->paths = l->paths;
        l->paths = (list){ 0 };
        samples->source = f;
        samples->source_free = files_free;
        samples->read = read_file;
        samples->labels = talc_numbers_new(FILES, samples->count);
        if (samples->labels != NULL && name_classes(l, samples))
            return samples;
    }
    talc_samples_release(samples);
    return NULL;
}

talc_dataset *talc_dataset_image_folder(const char *directory,
                                        const talc_image_folder_options *options)
{
    if (talc_operand_missing(FILES, "directory", directory) ||
        talc_operand_missing(FILES, "options", options) || !options_fit(options))
        return NULL;
    listing l = { .who = FILES, .wanted = is_image };
    talc_samples *samples = list_all(&l, directory) ? files_of(&l, options) : NULL;
    listing_free(&l);
    return samples == NULL ? NULL : talc_samples_dataset(FILES, samples);
}
