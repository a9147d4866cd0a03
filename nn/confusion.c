#include "nn/confusion.h"

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/device.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/table.h"

#include <inttypes.h>
#include <string.h>

enum {
    CLASSES_MAX = 4096,
    MISTAKES = 10,
    LABEL = 12, /* columns of a name that is shortened, and of the share that is right */
    SHARE = 8,
};

// ---- Counting -----------------------------------------------------------------------------------

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
    talc_dims expected = { .rank = dims.rank - 1 };
    for (int i = 0; i < expected.rank; i++)
        expected.dim[i] = dims.dim[i == 0 ? 0 : i + 1];
    if (!talc_dtype_is_float(logits->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: logits are %s, they must be f32 or f64", who,
                  talc_dtype_name(logits->dtype));
    else if (labels->dtype != TALC_I64)
        talc_fail(TALC_BAD_DTYPE, "%s: labels are %s, they must be i64", who,
                  talc_dtype_name(labels->dtype));
    else if (dims.rank < 2 || dims.dim[1] != matrix->classes)
        talc_fail(TALC_BAD_SHAPE, "%s: logits %s must be [N,%" PRId64 ",...], one a class", who,
                  talc_dims_text(dims, text), matrix->classes);
    else if (!talc_shape_equal(talc_dims_of(labels), expected))
        talc_fail(TALC_BAD_SHAPE, "%s: labels %s must be %s, one for each of logits", who,
                  talc_dims_text(talc_dims_of(labels), text), talc_dims_text(expected, other));
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
    const int64_t *expected = count == 0 ? NULL : numbers(labels);
    const int64_t *answers =
        expected == NULL ? NULL : numbers(talc_argmax(logits, TALC_DIMS(1), false));
    for (int64_t i = 0; i < count && !talc_failed(); i++)
        if (expected[i] < 0 || expected[i] >= classes)
            talc_fail(TALC_BAD_ARGUMENT, "%s: label %" PRId64 " is outside 0..%" PRId64, who,
                      expected[i], classes - 1);
    for (int64_t i = 0; i < count && !talc_failed(); i++) {
        matrix->counts[expected[i] * classes + answers[i]]++;
        matrix->count++;
        matrix->right += expected[i] == answers[i];
    }
    talc_scope_leave(scope);
    return !talc_failed();
}

double talc_confusion_accuracy(const talc_confusion *matrix)
{
    TALC_DEFAULT_FENV;
    return matrix == NULL || matrix->count == 0 ? 0 : (double)matrix->right / (double)matrix->count;
}

// ---- Printing -----------------------------------------------------------------------------------

static int digits(int64_t number)
{
    return snprintf(NULL, 0, "%" PRId64, number);
}

/* What the cells of a table are made of. */
typedef struct printing {
    const talc_confusion *matrix;
    const char *const *names; /* NULL: classes have none */
} printing;

/* "3 cat", or "3" where classes have no names, or their numbers for names. */
static const char *class_text(const printing *self, int64_t k, int width, char text[TALC_CELL_TEXT])
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, k);
    const int used = snprintf(text, TALC_CELL_TEXT, "%*s ", width, number);
    if (self->names == NULL || strcmp(self->names[k], number) == 0)
        text[used - 1] = '\0';
    else
        talc_shown(self->names[k], SIZE_MAX, text + used, TALC_CELL_TEXT - (size_t)used);
    return text;
}

/* A label, how often it was taken for each class, and the share of it that is right. The first row
 * is that of the titles. */
static const char *matrix_cell(const void *context, int64_t row, int column,
                               char text[TALC_CELL_TEXT])
{
    const printing *self = context;
    const int64_t classes = self->matrix->classes, label = row - 1, answer = column - 1;
    const int64_t *counts = self->matrix->counts + label * classes;
    if (column == 0)
        return row == 0 ? "label" : class_text(self, label, digits(classes - 1), text);
    if (answer < classes) {
        snprintf(text, TALC_CELL_TEXT, "%" PRId64, row == 0 ? answer : counts[answer]);
        return text;
    }
    if (row == 0)
        return "right";
    int64_t all = 0;
    for (int64_t k = 0; k < classes; k++)
        all += counts[k];
    if (all == 0)
        return "-";
    snprintf(text, TALC_CELL_TEXT, "%.1f %%", 100 * (double)counts[label] / (double)all);
    return text;
}

static void print_matrix(FILE *file, const printing *self)
{
    talc_column columns[TALC_MAX_COLUMNS] = { { NULL, TALC_COLUMN_NAME } };
    const int count = (int)self->matrix->classes + 2;
    for (int i = 1; i < count; i++)
        columns[i].kind = TALC_COLUMN_NUMBER;
    talc_table_print(file, &(talc_table){ .count = count,
                                          .columns = columns,
                                          .rows = count - 1,
                                          .untitled = true,
                                          .cell = matrix_cell,
                                          .context = self });
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

static void print_mistakes(FILE *file, const printing *self, int cell)
{
    const int64_t classes = self->matrix->classes;
    char label[TALC_CELL_TEXT], answer[TALC_CELL_TEXT];
    int64_t at = -1, before = 0;
    for (int i = 0; i < MISTAKES && (at = next_mistake(self->matrix, before, at)) >= 0; i++) {
        before = self->matrix->counts[at];
        talc_print_wrapped(file, cell + 1, "%*" PRId64 " of %s taken for %s", cell, before,
                           class_text(self, at / classes, 1, label),
                           class_text(self, at % classes, 1, answer));
    }
}

bool talc_confusion_print(FILE *file, const talc_confusion *matrix, const char *const *names)
{
    static const char *const who = "confusion_print";
    if (talc_operand_missing(who, "file", file) || talc_operand_missing(who, "matrix", matrix))
        return false;
    printing self = { .matrix = matrix, .names = names };
    int cell = digits(matrix->classes - 1);
    for (int64_t i = 0; i < matrix->classes * matrix->classes; i++)
        cell = digits(matrix->counts[i]) > cell ? digits(matrix->counts[i]) : cell;
    if (matrix->classes + 2 <= TALC_MAX_COLUMNS &&
        LABEL + (cell + 1) * matrix->classes + SHARE <= talc_line_width(file))
        print_matrix(file, &self);
    else
        print_mistakes(file, &self, cell);
    fprintf(file, "%" PRId64 " of %" PRId64 " right, %.2f %%\n", matrix->right, matrix->count,
            100 * talc_confusion_accuracy(matrix));
    if (ferror(file) != 0)
        talc_fail(TALC_IO_ERROR, "%s: the matrix could not be written", who);
    return !talc_failed();
}
