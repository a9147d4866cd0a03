#include "nn/confusion.h"

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <string.h>

enum { CLASSES_MAX = 4096, COLUMNS = 80, NAME_COLUMNS = 24, MISTAKES = 10 };

// ---- Counting -----------------------------------------------------------------------------------------------

talc_confusion *talc_confusion_new(int64_t classes)
{
    static const char *const who = "confusion_new";
    if (classes < 1 || classes > CLASSES_MAX) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: classes %" PRId64 " must be from 1 to %d", who, classes,
                  CLASSES_MAX);
        return NULL;
    }
    const size_t bytes = (size_t)(classes * classes) * sizeof(int64_t);
    talc_confusion *matrix = talc_memory_new(sizeof *matrix + bytes, who);
    if (matrix != NULL)
        *matrix = (talc_confusion){ .classes = classes, .counts = (int64_t *)(matrix + 1) };
    return matrix;
}

void talc_confusion_free(talc_confusion *matrix)
{
    talc_memory_free(matrix);
}

bool talc_confusion_clear(talc_confusion *matrix)
{
    if (talc_operand_missing("confusion_clear", "matrix", matrix))
        return false;
    memset(matrix->counts, 0, (size_t)(matrix->classes * matrix->classes) * sizeof(int64_t));
    matrix->count = matrix->right = 0;
    return true;
}

static bool fit(const char *who, const talc_confusion *matrix, const talc_tensor *logits,
                const talc_tensor *labels)
{
    char text[TALC_DIMS_TEXT], other[TALC_DIMS_TEXT];
    const talc_dims dims = talc_dims_of(logits);
    talc_dims due = { .rank = dims.rank - 1 };
    for (int i = 0; i < due.rank; i++)
        due.dim[i] = dims.dim[i == 0 ? 0 : i + 1];
    if (!talc_dtype_is_float(logits->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: logits are %s, they must be f32 or f64", who,
                  talc_dtype_name(logits->dtype));
    else if (labels->dtype != TALC_I64)
        talc_fail(TALC_BAD_DTYPE, "%s: labels are %s, they must be i64", who,
                  talc_dtype_name(labels->dtype));
    else if (dims.rank < 2 || dims.dim[1] != matrix->classes)
        talc_fail(TALC_BAD_SHAPE, "%s: logits %s must be [N,%" PRId64 ",...], one a class", who,
                  talc_dims_text(dims, text), matrix->classes);
    else if (!talc_shape_equal(talc_dims_of(labels), due))
        talc_fail(TALC_BAD_SHAPE, "%s: labels %s must be %s, one for each of logits", who,
                  talc_dims_text(talc_dims_of(labels), text), talc_dims_text(due, other));
    return !talc_failed();
}

/* In host memory, of the innermost scope; NULL with a failure. */
static const int64_t *numbers(const talc_tensor *tensor)
{
    const talc_tensor *here = tensor == NULL ? NULL : talc_to(tensor, talc_device_host(), TALC_I64);
    here = here == NULL ? NULL : talc_contiguous(here);
    return here == NULL ? NULL : talc_data_read(here, TALC_I64);
}

bool talc_confusion_add(talc_confusion *matrix, const talc_tensor *logits,
                        const talc_tensor *labels)
{
    static const char *const who = "confusion_add";
    if (talc_operand_missing(who, "matrix", matrix) ||
        talc_operand_missing(who, "logits", logits) ||
        talc_operand_missing(who, "labels", labels) || !fit(who, matrix, logits, labels))
        return false;
    talc_scope *scope = talc_scope_enter();
    const int64_t count = talc_numel(labels), classes = matrix->classes;
    const int64_t *due = count == 0 ? NULL : numbers(labels);
    const int64_t *answers = due == NULL ? NULL : numbers(talc_argmax(logits, TALC_DIMS(1), false));
    for (int64_t i = 0; i < count && !talc_failed(); i++)
        if (due[i] < 0 || due[i] >= classes)
            talc_fail(TALC_BAD_ARGUMENT, "%s: label %" PRId64 " is outside 0..%" PRId64, who,
                      due[i], classes - 1);
    for (int64_t i = 0; i < count && !talc_failed(); i++) {
        matrix->counts[due[i] * classes + answers[i]]++;
        matrix->count++;
        matrix->right += due[i] == answers[i];
    }
    talc_scope_leave(scope);
    return !talc_failed();
}

double talc_confusion_accuracy(const talc_confusion *matrix)
{
    return matrix == NULL || matrix->count == 0 ? 0 : (double)matrix->right / (double)matrix->count;
}

// ---- Printing -----------------------------------------------------------------------------------------------

static int digits(int64_t number)
{
    return snprintf(NULL, 0, "%" PRId64, number);
}

/* Columns of a UTF-8 text, of which those that follow a character's first byte take none. */
static int columns(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* "3 cat", or "3" where classes have no names, in so many columns at least; returns how many it
 * takes. NULL for a file: none. */
static int print_class(FILE *file, const talc_confusion *matrix, const char *const *names,
                       int64_t k, int width)
{
    char name[NAME_COLUMNS + 32] = " ";
    if (names != NULL)
        talc_shown(names[k], SIZE_MAX, name + 1, NAME_COLUMNS + 8);
    else
        name[0] = '\0';
    const int number = width > 0 ? digits(matrix->classes - 1) : digits(k);
    const int used = number + columns(name);
    if (file != NULL)
        fprintf(file, "%*" PRId64 "%s%*s", number, k, name, width > used ? width - used : 0, "");
    return used;
}

/* Samples of a class, and the share of them that is right. */
static void print_share(FILE *file, const talc_confusion *matrix, int64_t label)
{
    int64_t all = 0;
    for (int64_t k = 0; k < matrix->classes; k++)
        all += matrix->counts[label * matrix->classes + k];
    if (all == 0)
        fprintf(file, "       -\n");
    else
        fprintf(file, "  %5.1f %%\n",
                100 * (double)matrix->counts[label * matrix->classes + label] / (double)all);
}

static void print_table(FILE *file, const talc_confusion *matrix, const char *const *names,
                        int name, int cell)
{
    fprintf(file, "%-*s", name, "label");
    for (int64_t k = 0; k < matrix->classes; k++)
        fprintf(file, "  %*" PRId64, cell, k);
    fprintf(file, "    right\n");
    for (int64_t label = 0; label < matrix->classes; label++) {
        print_class(file, matrix, names, label, name);
        for (int64_t k = 0; k < matrix->classes; k++)
            fprintf(file, "  %*" PRId64, cell, matrix->counts[label * matrix->classes + k]);
        print_share(file, matrix, label);
    }
}

/* The mistake that comes next: after `before`, which stood at place `at`, -1: the first. */
static int64_t next_mistake(const talc_confusion *matrix, int64_t before, int64_t at)
{
    const int64_t classes = matrix->classes;
    int64_t best = -1;
    for (int64_t i = 0; i < classes * classes; i++) {
        const int64_t n = matrix->counts[i];
        const bool later = at < 0 || n < before || (n == before && i > at);
        if (n > 0 && i / classes != i % classes && later && (best < 0 || n > matrix->counts[best]))
            best = i;
    }
    return best;
}

static void print_mistakes(FILE *file, const talc_confusion *matrix, const char *const *names,
                           int cell)
{
    int64_t at = -1, before = 0;
    for (int i = 0; i < MISTAKES && (at = next_mistake(matrix, before, at)) >= 0; i++) {
        before = matrix->counts[at];
        fprintf(file, "%*" PRId64 " of ", cell, before);
        print_class(file, matrix, names, at / matrix->classes, 0);
        fprintf(file, " taken for ");
        print_class(file, matrix, names, at % matrix->classes, 0);
        fprintf(file, "\n");
    }
}

bool talc_confusion_print(FILE *file, const talc_confusion *matrix, const char *const *names)
{
    static const char *const who = "confusion_print";
    if (talc_operand_missing(who, "file", file) || talc_operand_missing(who, "matrix", matrix))
        return false;
    int name = (int)strlen("label"), cell = digits(matrix->classes - 1);
    for (int64_t k = 0; k < matrix->classes; k++) {
        const int width = print_class(NULL, matrix, names, k, 1);
        name = width > name ? width : name;
    }
    for (int64_t i = 0; i < matrix->classes * matrix->classes; i++)
        cell = digits(matrix->counts[i]) > cell ? digits(matrix->counts[i]) : cell;
    if (name + (cell + 2) * matrix->classes + 9 <= COLUMNS)
        print_table(file, matrix, names, name, cell);
    else
        print_mistakes(file, matrix, names, cell);
    fprintf(file, "%" PRId64 " of %" PRId64 " right, %.2f %%\n", matrix->right, matrix->count,
            100 * talc_confusion_accuracy(matrix));
    if (ferror(file) != 0)
        talc_fail(TALC_IO_ERROR, "%s: the matrix could not be written", who);
    return !talc_failed();
}
