/// Reading problem texts: n2c3h9w9k3x3_f64. Private to check/.
#ifndef TALC_CHECK_TEXT_H
#define TALC_CHECK_TEXT_H

#include "check/check.h"

/// A text being read. `start` is where positions are counted from: the beginning of the whole text, op included.
typedef struct check_reader {
    const char *op;
    const char *start;
    const char *at;
} check_reader;

/// Begins to read `text`, which follows "op:" in the text that it is part of.
check_reader talc_check_reader(const char *op, const char *text);

/// Raises "OP: problem 'TEXT': expected WANTED at position N"; returns false.
bool talc_check_unexpected(const check_reader *reader, const char *wanted);

/// The same for a place that was read before.
bool talc_check_unexpected_at(const check_reader *reader, const char *place, const char *wanted);

/// A number of 0 .. INT64_MAX.
bool talc_check_read_number(check_reader *reader, int64_t *number);

/// A letter and one number, or a letter and two with x between. An optional one may be absent and leaves its numbers alone.
bool talc_check_read_field(check_reader *reader, char letter, bool optional, int64_t *number);
bool talc_check_read_pair(check_reader *reader, char letter, bool optional, int64_t *first,
                          int64_t *second);

/// An underscore and one of `words`, a list that NULL ends: its index in *word, -1 at the end of the text. A word that is not
/// in the list, or was read before (*seen has a bit each), is an error.
bool talc_check_read_word(check_reader *reader, const char *const *words, unsigned *seen,
                          int *word);

/// Appends to a problem's text, which it cuts at TALC_CHECK_TEXT.
void talc_check_append(char text[TALC_CHECK_TEXT], const char *format, ...) TALC_PRINTF(2, 3);

/// *product of `count` extents that are elements of `dtype`; false when that, or its bytes, pass 2^63.
bool talc_check_elements(talc_dtype dtype, int count, const int64_t *extents, int64_t *product);

#endif
