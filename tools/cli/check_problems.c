#include "tools/cli/check_problems.h"

#include "tools/cli/problems.h"
#include "tools/cli/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "conv2d" for "n1c3...", "conv2d.grad_input" for "n1c3..._dx", "sum" for "sum:...". */
static bool is_of(const char *text, const char *op)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL) {
        const char *end = strlen(text) > 3 ? text + strlen(text) - 3 : "";
        return strcmp(op, strcmp(end, "_dx") == 0   ? "conv2d.grad_input"
                          : strcmp(end, "_dw") == 0 ? "conv2d.grad_weight"
                                                    : "conv2d") == 0;
    }
    return strlen(op) == (size_t)(colon - text) && strncmp(text, op, strlen(op)) == 0;
}

static bool no_memory(void)
{
    talc_fail(TALC_NO_MEMORY, "no memory for the list of problems");
    return false;
}

/* Adds one problem, whose text is full. */
static bool add(check_problems *self, const char *text)
{
    if (self->op != NULL && !is_of(text, self->op)) {
        self->left_out++;
        return true;
    }
    if (self->count == self->capacity) {
        const int64_t capacity = self->capacity == 0 ? 64 : 2 * self->capacity;
        char **longer = realloc(self->text, (size_t)capacity * sizeof *longer);
        if (longer == NULL)
            return no_memory();
        self->text = longer;
        self->capacity = capacity;
    }
    char *copy = strdup(text);
    if (copy == NULL)
        return no_memory();
    self->text[self->count++] = copy;
    return true;
}

void check_problems_free(check_problems *self)
{
    for (int64_t i = 0; i < self->count; i++)
        free(self->text[i]);
    free(self->text);
}

/* Draws until there are enough of the op; so many in a row without one mean that the op is in no
 * random set. */
static bool add_random(check_problems *self)
{
    const int64_t before = self->count, in_vain = 10000;
    char text[TALC_CHECK_TEXT];
    for (int64_t i = 0, last = 0; self->count - before < self->random && i - last < in_vain; i++) {
        const int64_t count = self->count;
        if (talc_check_set_problem("random", i, self->seed, text) == NULL || !add(self, text))
            return false;
        last = self->count > count ? i : last;
    }
    return true;
}

static bool add_set(check_problems *self, const char *set)
{
    char text[TALC_CHECK_TEXT];
    if (strcmp(set, "random") == 0)
        return add_random(self);
    for (int64_t i = 0; talc_check_set_problem(set, i, self->seed, text) != NULL; i++)
        if (!add(self, text))
            return false;
    return !talc_failed();
}

void check_problems_keep(check_problems *self, int64_t part, int64_t parts)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < self->count; i++)
        if (i % parts == part - 1)
            self->text[kept++] = self->text[i];
        else
            free(self->text[i]);
    self->count = kept;
}

// ---- Files --------------------------------------------------------------------------------------

/* A source without an end, such as a program's output, is not read for ever. */
enum { LINE_CAPACITY = 4096, MAX_BYTES = 64 << 20 };

/* A device may have no end, and nobody who ends what it gives. */
static bool is_readable(const char *path, FILE *file)
{
    struct stat about;
    const int descriptor = fileno(file);
    if (fstat(descriptor, &about) == 0 && (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode)) &&
        !isatty(descriptor))
        talc_fail(TALC_IO_ERROR, "%s: a device, not a file or a pipe", TALC_SHOWN(path));
    return !talc_failed();
}

/* Puts the place before the failure that stands. */
static bool failed_at(const char *path, int64_t line)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", talc_error_message());
    talc_error_clear();
    talc_fail(TALC_BAD_FORMAT, "%s:%lld: %s", TALC_SHOWN(path), (long long)line, message);
    return false;
}

/* The line without its comment and the blanks at either end. */
static char *stripped(char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    line += strspn(line, " \t");
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t", line[length - 1]) != NULL)
        line[--length] = '\0';
    return line;
}

static bool add_line(check_problems *self, const char *path, int64_t number, char *line,
                     size_t length)
{
    char text[TALC_CHECK_TEXT];
    if (strlen(line) != length) { /* what follows would not be read */
        talc_fail(TALC_BAD_FORMAT, "%s:%lld: a zero byte at position %zu", TALC_SHOWN(path),
                  (long long)number, strlen(line));
        return false;
    }
    const char *problem = stripped(line);
    if (*problem == '\0')
        return true;
    if (talc_check_problem_text(problem, text) == NULL)
        return failed_at(path, number);
    return add(self, text);
}

/* Reads a line with its end, and a NUL behind it; 0 bytes at the end of the file, LINE_CAPACITY of
 * a line that is too long. */
static size_t read_line(FILE *file, char line[LINE_CAPACITY])
{
    size_t length = 0;
    for (int c = 0; length < LINE_CAPACITY && c != '\n' && (c = getc(file)) != EOF;)
        line[length++] = (char)c;
    if (length < LINE_CAPACITY)
        line[length] = '\0';
    return length;
}

static bool add_lines(check_problems *self, const char *path, FILE *file)
{
    char line[LINE_CAPACITY];
    bool right = true;
    int64_t bytes = 0;
    size_t length;
    for (int64_t number = 1; right && (length = read_line(file, line)) > 0; number++) {
        bytes += (int64_t)length;
        if (length == LINE_CAPACITY)
            talc_fail(TALC_BAD_FORMAT, "%s:%lld: a line of more than %d bytes", TALC_SHOWN(path),
                      (long long)number, LINE_CAPACITY - 1);
        else if (bytes > MAX_BYTES)
            talc_fail(TALC_BAD_FORMAT, "%s:%lld: more than %d bytes", TALC_SHOWN(path),
                      (long long)number, MAX_BYTES);
        right = !talc_failed() && add_line(self, path, number, line, length);
    }
    if (right && ferror(file)) {
        talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(path), strerror(errno));
        return false;
    }
    return right;
}

static bool add_file(check_problems *self, const char *path, FILE *file)
{
    const int64_t before = self->count + self->left_out;
    const bool right = is_readable(path, file) && add_lines(self, path, file);
    fclose(file);
    if (!right)
        return false;
    if (self->count + self->left_out == before)
        talc_fail(TALC_BAD_FORMAT, "%s: there is no problem in it", TALC_SHOWN(path));
    return !talc_failed();
}

// ---- Arguments ----------------------------------------------------------------------------------

/* What an argument that is nothing was meant to be: the failure says so. */
static bool unknown(const char *argument, int file_error)
{
    char text[TALC_CHECK_TEXT];
    talc_error_clear();
    const bool digit_follows = argument[0] == 'n' && argument[1] >= '0' && argument[1] <= '9';
    if (digit_follows || strchr(argument, ':') != NULL)
        (void)talc_check_problem_text(argument, text);
    else if (strpbrk(argument, "./") != NULL)
        talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(argument), strerror(file_error));
    else
        (void)talc_check_set_problem(argument, 0, 0, text);
    return false;
}

bool check_problems_add(check_problems *self, const char *argument)
{
    char text[TALC_CHECK_TEXT];
    if (talc_check_set_problem(argument, 0, self->seed, text) != NULL)
        return add_set(self, argument);
    talc_error_clear();
    char of_name[TALC_CONV2D_TEXT];
    talc_conv2d_problem named;
    const char *problem =
        problem_read_named(argument, &named) ? talc_conv2d_problem_text(&named, of_name) : argument;
    if (talc_check_problem_text(problem, text) != NULL)
        return add(self, text);
    errno = 0;
    FILE *file = tool_open_file(argument);
    if (file == NULL)
        return unknown(argument, errno);
    talc_error_clear();
    return add_file(self, argument, file);
}
