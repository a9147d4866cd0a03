/// Tables and sentences no wider than the terminal.
///
/// A stream is as wide as COLUMNS in the environment says, read once, where that is a number of at
/// least TALC_MIN_COLUMNS, else as the terminal that it is, else 80 columns. In a table that
/// would be wider the columns move together, then names lose their middle ("layer1...conv2"), the
/// first column last, since it tells rows apart. Numbers and shapes are always whole: columns that
/// still find no room follow in a table below, with the first column again.
#ifndef TALC_TENSOR_TABLE_H
#define TALC_TENSOR_TABLE_H

#include "api.h"

#include <stdint.h>
#include <stdio.h>

TALC_BEGIN_DECLARATIONS

typedef enum talc_column_kind {
    TALC_COLUMN_NAME,   ///< on the left; its middle is left out where there is no room
    TALC_COLUMN_WHOLE,  ///< on the left, and never shortened: a shape
    TALC_COLUMN_NUMBER, ///< on the right, and never shortened
    TALC_COLUMN_TEXT,   ///< the last column: sentences, on as many lines as they need
} talc_column_kind;

typedef struct talc_column {
    const char *title;
    talc_column_kind kind;
} talc_column;

#define TALC_MIN_COLUMNS 40

/// Room for the text of one cell, in bytes.
#define TALC_CELL_TEXT   512
#define TALC_MAX_COLUMNS 128

/// A table's cells are asked for while it is printed, so that nothing is allocated.
typedef struct talc_table {
    int count; ///< columns, 1 .. TALC_MAX_COLUMNS
    const talc_column *columns;
    int64_t rows;
    int width;     ///< of a line, in columns; 0: the stream's
    int indent;    ///< spaces before each line
    bool untitled; ///< without a line of titles
    /// Where names would lose their middle, those of the first column stand whole above their rows,
    /// once for rows in sequence that share one.
    bool names_above;

    /// The text of a cell, which may be written into `text`. It is asked for more than once, and
    /// always says the same. What comes from outside goes through talc_shown.
    const char *(*cell)(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT]);
    const void *context;
} talc_table;

/// Prints a table. What the stream makes of it ferror tells.
TALC_API void talc_table_print(FILE *file, const talc_table *table);

/// Prints a text of at most 2047 bytes from column 0 on with a line break behind it, in lines that
/// end at words; all but the first are indented. A word that is longer than a line loses its
/// middle.
TALC_API void talc_print_wrapped(FILE *file, int indent, const char *format, ...) TALC_PRINTF(3, 4);

/// How wide lines of this stream may be, in columns.
TALC_API int talc_line_width(FILE *file);

/// A number of bytes for people, in powers of 1024: "32.0 MiB". Into the caller's buffer, which it
/// returns.
#define TALC_BYTES_TEXT 32
TALC_API const char *talc_bytes_text(double bytes, char text[TALC_BYTES_TEXT]);

/// A number of something for people, four digits of it, in powers of 1000: "582.6 GFLOP", "720
/// FLOP", "1.814 G" of "". Into the caller's buffer, which it returns.
#define TALC_COUNT_TEXT 32
TALC_API const char *talc_count_text(double count, const char *unit, char text[TALC_COUNT_TEXT]);

TALC_END_DECLARATIONS

#endif
