#include "tools/cli/ranking.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The lines of a file but for empty ones at its end, in one block, *text, which is to be freed in
 * any case; *count of them. NULL with a failure. */
static char **read_labels(const char *path, char **text, int64_t *count)
{
    char **lines = NULL;
    size_t capacity = 0;
    struct stat about;
    errno = 0;
    FILE *file = tool_open_file(path);
    *count = 0;
    if (file != NULL && fstat(fileno(file), &about) == 0 && !S_ISREG(about.st_mode) &&
        !S_ISDIR(about.st_mode))
        talc_fail(TALC_IO_ERROR, "'%s' cannot be read: it is not a regular file", TALC_SHOWN(path));
    else if (file == NULL || getdelim(text, &capacity, '\0', file) < 0)
        talc_fail(errno == ENOMEM ? TALC_NO_MEMORY : TALC_IO_ERROR, "'%s' cannot be read: %s",
                  TALC_SHOWN(path), errno != 0 ? strerror(errno) : "it is empty");
    if (file != NULL)
        fclose(file);
    for (char *line = talc_failed() ? NULL : *text, *next;
         line != NULL && line[strspn(line, "\r\n")] != '\0'; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end == '\n' ? end + 1 : end;
        if (end > line && end[-1] == '\r')
            end--;
        *end = '\0';
        char **grown = realloc(lines, (size_t)(*count + 1) * sizeof *lines);
        if (grown == NULL) {
            talc_fail(TALC_NO_MEMORY, "no memory for the labels of '%s'", TALC_SHOWN(path));
            break;
        }
        lines = grown;
        lines[(*count)++] = line;
    }
    return lines;
}

bool ranking_begin(ranking *self, const char *network, const talc_tensor *output, int64_t top,
                   const char *labels, const talc_model_info *info)
{
    char shape[TALC_DIMS_TEXT];
    if (output->rank != 2) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: the output %s has no classes to rank, [N,classes] has",
                  network, talc_dims_text(talc_dims_of(output), shape));
        return false;
    }
    *self = (ranking){ .classes = output->dims[1], .top = top };
    if (self->top > self->classes)
        talc_fail(TALC_BAD_ARGUMENT, "--top %" PRId64 " is more than the %" PRId64 " class%s",
                  self->top, self->classes, self->classes == 1 ? "" : "es");
    int64_t count = self->classes;
    if (labels != NULL && !talc_failed())
        self->labels = read_labels(labels, &self->text, &count);
    if (!talc_failed() && count != self->classes)
        talc_fail(TALC_BAD_ARGUMENT, "'%s' has %" PRId64 " label%s, %s has %" PRId64 " class%s",
                  TALC_SHOWN(labels), count, TALC_PLURAL(count), network, self->classes,
                  self->classes == 1 ? "" : "es");
    self->names = (const char *const *)self->labels;
    if (labels == NULL && info != NULL && info->classes == self->classes)
        self->names = info->class_names;
    return !talc_failed();
}

void ranking_end(ranking *self)
{
    free(self->text);
    free(self->labels);
}

/* The likeliest class, a NaN before all others, which is then not likely any more. */
static ranked next_class(const ranking *self, float *of)
{
    int64_t best = 0;
    for (int64_t i = 1; i < self->classes; i++)
        if (of[i] > of[best] || (isnan(of[i]) && !isnan(of[best])))
            best = i;
    const ranked next = { best, (double)of[best] };
    of[best] = -INFINITY;
    return next;
}

ranked *ranking_of(const ranking *self, const talc_tensor *output)
{
    const int64_t images = output->dims[0];
    const size_t bytes = (size_t)talc_nbytes(output);
    float *probabilities = malloc(bytes + 1);
    ranked *likeliest = malloc((size_t)(images * self->top) * sizeof *likeliest + 1);
    if (probabilities == NULL || likeliest == NULL)
        talc_fail(TALC_NO_MEMORY, "no memory for the probabilities of %" PRId64 " classes",
                  self->classes);
    const bool done = !talc_failed() && talc_to_host(talc_softmax(output, 1), probabilities, bytes);
    for (int64_t i = 0; done && i < images * self->top; i++)
        likeliest[i] = next_class(self, probabilities + i / self->top * self->classes);
    free(probabilities);
    if (done)
        return likeliest;
    free(likeliest);
    return NULL;
}

const char *ranking_name(const ranking *self, const ranked *of)
{
    return self->names == NULL ? NULL : self->names[of->class];
}

json_t *ranking_json(const ranking *self, const ranked *of)
{
    json_t *classes = json_array();
    for (int64_t i = 0; i < self->top; i++)
        json_array_append_new(classes,
                              json_pack("{s:I, s:o, s:o}", "class", (json_int_t)of[i].class,
                                        "probability", tool_real(of[i].probability), "label",
                                        tool_json_text(ranking_name(self, &of[i]))));
    return classes;
}
