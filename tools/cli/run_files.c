#include "tools/cli/run_files.h"

#include "tools/cli/progress.h"
#include "tools/cli/ranking.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* An image, and what became of it: its classes, or why there are none. */
typedef struct image {
    char *path, *error;
    ranked *likeliest;
} image;

typedef struct run {
    const model_arguments *model;
    talc_device *device;
    talc_module *module;
    image *images;
    int64_t count, seen; ///< seen: those that have classes
    int64_t top;
    const char *labels;
    bool ranking_begun; ///< at the first output
    ranking ranking;
    double seconds;
} run;

// ---- What there is ------------------------------------------------------------------------------

/* Takes both texts over, also on failure. */
static bool add(run *self, char *path, char *error)
{
    image *grown = realloc(self->images, (size_t)(self->count + 1) * sizeof *grown);
    if (grown != NULL)
        self->images = grown;
    if (grown == NULL || path == NULL) {
        free(path);
        free(error);
        talc_fail(TALC_NO_MEMORY, "no memory for the names of images");
        return false;
    }
    self->images[self->count++] = (image){ path, error, NULL };
    return true;
}

/* A text of its own as printf makes it; NULL where there is no memory. */
TALC_PRINTF(1, 2) static char *text_of(const char *format, ...)
{
    char *text = NULL;
    size_t size = 0;
    va_list arguments;
    va_start(arguments, format);
    FILE *file = open_memstream(&text, &size);
    if (file != NULL)
        (void)vfprintf(file, format, arguments);
    va_end(arguments);
    if (file == NULL || fclose(file) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static int is_image(const struct dirent *entry)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg" };
    const size_t length = strlen(entry->d_name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && entry->d_name[0] != '.' &&
            strcasecmp(entry->d_name + length - end, ends[i]) == 0)
            return 1;
    }
    return 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool add_folder(run *self, const char *path)
{
    struct dirent **names = NULL;
    const int count = scandir(path, &names, is_image, by_bytes);
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    bool done = true;
    if (count < 0 && errno == ENOMEM)
        done = add(self, NULL, NULL);
    else if (count < 0)
        done = add(self, text_of("%s", path),
                   text_of("cannot read '%s': %s", TALC_SHOWN(path), strerror(errno)));
    else if (count == 0)
        done = add(self, text_of("%s", path),
                   text_of("'%s' holds no *.png, *.jpg or *.jpeg", TALC_SHOWN(path)));
    for (int i = 0; i < count; i++) {
        done = done && add(self, text_of("%s%s%s", path, slash, names[i]->d_name), NULL);
        free(names[i]);
    }
    free(names);
    return done;
}

static bool add_path(run *self, const char *path)
{
    struct stat about;
    if (*path != '\0' && stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return add_folder(self, path);
    return add(self, text_of("%s", path), NULL);
}

// ---- The passes ---------------------------------------------------------------------------------

/* Of the first output follows how many classes there are. */
static bool begin_ranking(run *self, const talc_tensor *y)
{
    if (self->top == 0)
        self->top = y->rank == 2 && y->dims[1] < RUN_TOP ? y->dims[1] : RUN_TOP;
    self->ranking_begun = true;
    return ranking_begin(&self->ranking, self->model->network->name, y, self->top, self->labels,
                         talc_module_info(self->module));
}

/* A network's output for a file's image, on any device; NULL with a failure. */
static talc_tensor *pass(const run *self, const char *path)
{
    talc_tensor *x = model_image(self->model, self->module, path);
    x = x == NULL ? NULL : talc_to(x, self->device, TALC_F32);
    return x == NULL ? NULL : talc_forward(self->module, x);
}

/* What is wrong with one image is told at the end; false where it is wrong with all: an option, the
 * device, no memory. */
static bool note_error(image *one)
{
    static const talc_status own[] = { TALC_IO_ERROR, TALC_BAD_FORMAT, TALC_BAD_SHAPE,
                                       TALC_TOO_LARGE };
    const talc_status status = talc_error_status();
    const char *message = talc_error_message(), *path = TALC_SHOWN(one->path);
    bool is_own = false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        is_own = is_own || status == own[i];
    if (!is_own)
        return false;
    one->error =
        strstr(message, path) != NULL ? text_of("%s", message) : text_of("'%s': %s", path, message);
    talc_error_clear();
    if (one->error == NULL)
        talc_fail(TALC_NO_MEMORY, "no memory for what is wrong with an image");
    return one->error != NULL;
}

static bool run_one(run *self, image *one)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *y = scope == NULL ? NULL : pass(self, one->path);
    bool done = y != NULL ? self->ranking_begun || begin_ranking(self, y) : note_error(one);
    if (done && y != NULL) {
        one->likeliest = ranking_of(&self->ranking, y);
        done = one->likeliest != NULL;
        self->seen += done;
    }
    talc_scope_leave(scope);
    return done;
}

static bool run_all(run *self)
{
    progress bar = progress_begin(self->count);
    const double start = tool_clock();
    bool done = true;
    for (int64_t i = 0; i < self->count && done; i++) {
        progress_step(&bar, TALC_SHOWN(self->images[i].path));
        done = self->images[i].error != NULL || run_one(self, &self->images[i]);
    }
    self->seconds = tool_clock() - start;
    progress_end(&bar);
    return done;
}

// ---- The report ---------------------------------------------------------------------------------

enum { IMAGE, CLASS, PROBABILITY, LABEL };

/* Images that have classes come one after the other in the table. */
typedef struct shown {
    const run *of;
    const image **images;
} shown;

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const run *of = ((const shown *)context)->of;
    const image *one = ((const shown *)context)->images[row / of->top];
    const ranked *is = &one->likeliest[row % of->top];
    const char *name = ranking_name(&of->ranking, is);
    if (column == CLASS)
        snprintf(text, TALC_CELL_TEXT, "%" PRId64, is->class);
    else if (column == PROBABILITY)
        snprintf(text, TALC_CELL_TEXT, "%.3f %%", 100 * is->probability);
    else if (column == LABEL)
        return name == NULL ? "" : talc_shown(name, SIZE_MAX, text, TALC_CELL_TEXT);
    else
        return row % of->top == 0 ? talc_shown(one->path, SIZE_MAX, text, TALC_CELL_TEXT) : "";
    return text;
}

static bool print_table(const run *self)
{
    static const talc_column columns[] = { { "image", TALC_COLUMN_NAME },
                                           { "class", TALC_COLUMN_NUMBER },
                                           { "probability", TALC_COLUMN_NUMBER },
                                           { "label", TALC_COLUMN_TEXT } };
    if (self->seen == 0)
        return true;
    shown all = { self, malloc((size_t)self->seen * sizeof *all.images) };
    if (all.images == NULL) {
        talc_fail(TALC_NO_MEMORY, "no memory for a table of %" PRId64 " images", self->seen);
        return false;
    }
    int64_t count = 0;
    for (int64_t i = 0; i < self->count; i++)
        if (self->images[i].likeliest != NULL)
            all.images[count++] = &self->images[i];
    char time[TOOL_TEXT], weights[TALC_SHOWN_TEXT];
    talc_print_wrapped(stdout, 2, "%s%s%s on %s: %" PRId64 " image%s in %s, %s weights",
                       tool_bold(), self->model->network->name, tool_plain(),
                       talc_device_name(self->device), count, TALC_PLURAL(count),
                       tool_seconds(self->seconds, time), model_weights(self->model, weights));
    talc_table_print(stdout,
                     &(talc_table){ .count = self->ranking.names == NULL ? LABEL : LABEL + 1,
                                    .columns = columns,
                                    .rows = count * self->top,
                                    .names_above = true,
                                    .cell = cell,
                                    .context = &all });
    free(all.images);
    return true;
}

static json_t *json_of(const run *self)
{
    json_t *images = json_array();
    for (int64_t i = 0; i < self->count; i++) {
        const image *one = &self->images[i];
        json_array_append_new(
            images, json_pack("{s:o, s:o, s:o}", "file", tool_json_text(one->path), "classes",
                              one->likeliest == NULL ? json_array()
                                                     : ranking_json(&self->ranking, one->likeliest),
                              "error", tool_json_text(one->error)));
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "network", self->model->network->name, "device",
                     talc_device_name(self->device), "weights",
                     tool_json_text(self->model->weights), "seconds", tool_real(self->seconds),
                     "images", images);
}

static int report(const run *self)
{
    int code = TOOL_OK;
    if (self->model->tool.json)
        code = tool_json_print(json_of(self));
    else
        code = print_table(self) ? tool_finish() : tool_fail_talc();
    for (int64_t i = 0; i < self->count; i++)
        if (self->images[i].error != NULL)
            code = tool_fail("%s", self->images[i].error);
    return code;
}

int run_files(const model_arguments *model, char **paths, int count, int64_t top,
              const char *labels)
{
    run self = { .model = model, .top = top, .labels = labels };
    self.device = tool_open(&model->tool);
    talc_manual_seed((uint64_t)model->seed);
    self.module = self.device == NULL ? NULL : model_new(model);
    bool done = self.module != NULL && talc_module_to(self.module, self.device);
    for (int i = 0; i < count && done; i++)
        done = add_path(&self, paths[i]);
    if (done)
        talc_module_eval(self.module);
    const int code = done && run_all(&self) ? report(&self) : tool_usage_talc();
    for (int64_t i = 0; i < self.count; i++) {
        free(self.images[i].path);
        free(self.images[i].error);
        free(self.images[i].likeliest);
    }
    free(self.images);
    ranking_end(&self.ranking);
    talc_module_free(self.module);
    return code;
}
