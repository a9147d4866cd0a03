#include "tensor/table.h"

#include "tensor/environment.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    LINE = 80,
    MIN_FIRST = 12, /* what is left of a name in the first column, at least */
    MIN_NAME = 6,
    MIN_TEXT = 24, /* columns for sentences */
    GAP = 2,
};

// ---- The width of a line ------------------------------------------------------------------------

int talc_line_width(FILE *file)
{
    const int asked = talc_environment()->columns;
    if (asked > 0)
        return asked;
    const int kept = errno; /* a stream that is no terminal is no failure */
    struct winsize size = { .ws_col = 0 };
    const int descriptor = file == NULL ? -1 : fileno(file);
    const bool known = descriptor >= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0;
    errno = kept;
    return known && size.ws_col >= TALC_MIN_COLUMNS ? size.ws_col : LINE;
}

// ---- Characters ---------------------------------------------------------------------------------

/* The byte behind a character of UTF-8, or behind a code that sets a terminal's colours and takes
 * no room. */
static const char *next(const char *at)
{
    if (at[0] == '\033' && at[1] == '[') {
        at += 2 + strcspn(at + 2, "m");
        return *at == '\0' ? at : at + 1;
    }
    for (at++; ((unsigned char)*at & 0xc0) == 0x80;)
        at++;
    return at;
}

/* The columns that `length` bytes take. */
static int width_of(const char *text, size_t length)
{
    int width = 0;
    for (const char *at = text; at < text + length; at = next(at))
        width += *at != '\033';
    return width;
}

static void print_spaces(FILE *file, int count)
{
    if (count > 0)
        (void)fprintf(file, "%*s", count, "");
}

/* `length` bytes in at most `width` columns: "la..1.0.conv1". Names of layers and algorithms differ
 * at their ends, which keep three quarters. Returns the columns. */
static int print_shortened(FILE *file, const char *text, size_t length, int width)
{
    const int all = width_of(text, length), kept = width - 2, first = kept < 12 ? 2 : kept / 4;
    if (all <= width || kept < 3) {
        (void)fwrite(text, 1, length, file);
        return all;
    }
    const char *head = text, *tail = text;
    for (int i = 0; i < first; i++)
        head = next(head);
    for (int i = 0; i < all - (kept - first); i++)
        tail = next(tail);
    (void)fprintf(file, "%.*s..%.*s", (int)(head - text), text, (int)(text + length - tail), tail);
    return width;
}

// ---- Sentences ----------------------------------------------------------------------------------

/* From `column` on; lines after the first begin at `indent`. */
static void print_filled(FILE *file, int column, int indent, int width, const char *text)
{
    bool begun = false; /* there is a word in this line */
    for (size_t length; *text != '\0'; text += length) {
        const size_t blanks = strspn(text, " ");
        text += blanks;
        length = strcspn(text, " \n");
        const int word = width_of(text, length);
        if (begun && column + (int)blanks + word > width) {
            (void)fputc('\n', file);
            print_spaces(file, indent);
            column = indent;
        } else if (length > 0) {
            print_spaces(file, (int)blanks);
            column += (int)blanks;
        }
        column += print_shortened(file, text, length, width - column);
        begun = begun || length > 0;
        if (text[length] == '\n') {
            (void)fputc('\n', file);
            length++;
            print_spaces(file, text[length] == '\0' ? 0 : indent);
            column = indent;
            begun = false;
        }
    }
}

void talc_print_wrapped(FILE *file, int indent, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    if (file == NULL || format == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_filled(file, 0, indent, talc_line_width(file), text);
    (void)fputc('\n', file);
}

// ---- Tables -------------------------------------------------------------------------------------

/* A part of a table: the first column, and those from `from` to `to`, with the widths that they
 * get. */
typedef struct layout {
    const talc_table *table;
    int from, to;
    int line, gap;
    bool above; /* the first column's cells have lines of their own */
    int natural[TALC_MAX_COLUMNS], width[TALC_MAX_COLUMNS];
} layout;

static bool has(const layout *self, int column)
{
    return column == 0 || (column >= self->from && column < self->to);
}

/* The minimum width that a column can do with. */
static int min(const layout *self, int column)
{
    const talc_column_kind kind = self->table->columns[column].kind;
    const int all = self->natural[column], some = kind == TALC_COLUMN_TEXT   ? MIN_TEXT
                                                  : kind != TALC_COLUMN_NAME ? all
                                                  : column == 0              ? MIN_FIRST
                                                                             : MIN_NAME;
    return all < some ? all : some;
}

static const char *cell(const talc_table *table, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    if (row < 0)
        return table->columns[column].title;
    const char *said = table->cell(table->context, row, column, text);
    return said == NULL ? "" : said;
}

static void measure(layout *self)
{
    char text[TALC_CELL_TEXT];
    for (int64_t row = self->table->untitled ? 0 : -1; row < self->table->rows; row++)
        for (int i = 0; i < self->table->count; i++) {
            const char *said = cell(self->table, row, i, text);
            const int width = width_of(said, strlen(said));
            self->natural[i] = width > self->natural[i] ? width : self->natural[i];
        }
}

/* The columns of a line whose cells have the least or the natural width, or their own. */
static int total(const layout *self, int gap, int (*of)(const layout *, int))
{
    int sum = self->table->indent - gap;
    for (int i = 0; i < self->table->count; i++)
        sum += has(self, i) ? of(self, i) + gap : 0;
    return sum;
}

static int natural(const layout *self, int column)
{
    const bool sentences = self->table->columns[column].kind == TALC_COLUMN_TEXT;
    return sentences ? min(self, column) : self->natural[column];
}

static int own(const layout *self, int column)
{
    return self->width[column];
}

/* Takes a column from the widest name, in which the first counts half, until the line fits. */
static void shorten(layout *self)
{
    while (total(self, self->gap, own) > self->line) {
        int widest = -1, max = 0;
        for (int i = 0; i < self->table->count; i++) {
            const int counts = i == 0 ? (self->width[i] + 1) / 2 : self->width[i];
            if (has(self, i) && self->width[i] > min(self, i) && counts > max) {
                widest = i;
                max = counts;
            }
        }
        if (widest < 0)
            return;
        self->width[widest]--;
    }
}

/* Finds the columns of the part that begins at `from`, and their widths. */
static void lay_out(layout *self)
{
    const int count = self->table->count;
    for (self->to = count; self->to > self->from + 1 && total(self, 1, min) > self->line;)
        self->to--;
    self->gap = total(self, GAP, natural) <= self->line ? GAP : 1;
    for (int i = 0; i < count; i++)
        self->width[i] = natural(self, i);
    shorten(self);
    const int last = self->to - 1;
    if (last >= 0 && self->table->columns[last].kind == TALC_COLUMN_TEXT)
        self->width[last] += self->line - total(self, self->gap, own);
}

/* The first column's cell in a line of its own, unless it is that of the row before. */
static void print_above(FILE *file, const layout *self, int64_t row)
{
    char text[TALC_CELL_TEXT], before[TALC_CELL_TEXT];
    const char *said = cell(self->table, row, 0, text);
    if (*said == '\0' || (row > 0 && strcmp(said, cell(self->table, row - 1, 0, before)) == 0))
        return;
    print_spaces(file, self->table->indent);
    print_shortened(file, said, strlen(said), self->line - self->table->indent);
    (void)fputc('\n', file);
}

static void print_row(FILE *file, const layout *self, int64_t row)
{
    char text[TALC_CELL_TEXT];
    int column = 0, expected = self->table->indent; /* where the line is, and where it is to be */
    if (self->above) {
        print_above(file, self, row);
        expected += self->width[0] + self->gap;
    }
    for (int i = self->above ? 1 : 0; i < self->table->count; i++) {
        if (!has(self, i))
            continue;
        const talc_column_kind kind = self->table->columns[i].kind;
        const char *said = cell(self->table, row, i, text);
        const size_t length = strlen(said);
        const int width = width_of(said, length);
        const int start = expected + (kind == TALC_COLUMN_NUMBER ? self->width[i] - width : 0);
        if (length > 0) {
            print_spaces(file, start - column);
            column = start;
        }
        if (kind == TALC_COLUMN_TEXT)
            print_filled(file, expected, expected, expected + self->width[i], said);
        else
            column += print_shortened(file, said, length,
                                      kind == TALC_COLUMN_NAME ? self->width[i] : width);
        expected += self->width[i] + self->gap;
    }
    (void)fputc('\n', file);
}

void talc_table_print(FILE *file, const talc_table *table)
{
    if (file == NULL || table == NULL || table->count < 1 || table->count > TALC_MAX_COLUMNS)
        return;
    layout part = { .table = table,
                    .from = 1,
                    .line = table->width > 0 ? table->width : talc_line_width(file) };
    measure(&part);
    part.to = table->count;
    part.above = table->names_above && table->count > 1 && total(&part, 1, natural) > part.line;
    if (part.above)
        part.natural[0] = 1;
    do {
        lay_out(&part);
        if (part.from > 1)
            (void)fputc('\n', file);
        for (int64_t row = table->untitled ? 0 : -1; row < table->rows; row++)
            print_row(file, &part, row);
        part.from = part.to;
    } while (part.from < table->count);
}

// ---- Numbers ------------------------------------------------------------------------------------

const char *talc_bytes_text(double bytes, char text[TALC_BYTES_TEXT])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    while (bytes >= (unit == 0 ? 1024 : 1023.95) && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, TALC_BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", bytes,
             bytes == 1 && unit == 0 ? "byte" : units[unit]);
    return text;
}

const char *talc_count_text(double count, const char *unit, char text[TALC_COUNT_TEXT])
{
    static const char *const powers[] = { "", "k", "M", "G", "T", "P", "E" };
    size_t power = 0;
    while (count >= (power == 0 ? 1000 : 999.95) && power + 1 < sizeof powers / sizeof *powers) {
        count /= 1000;
        power++;
    }
    const bool bare = power == 0 && *unit == '\0';
    snprintf(text, TALC_COUNT_TEXT, "%.4g%s%s%.12s", count, bare ? "" : " ", powers[power], unit);
    return text;
}
