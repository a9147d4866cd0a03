/// Reading problem texts: n2c3h9w9k3x3_f64. Private to check/.
#ifndef TALC_CHECK_ENGINE_TEXT_H
#define TALC_CHECK_ENGINE_TEXT_H

#include "check/check.h"

#include <string.h>

/// A text being read. `start` is where positions are counted from: the beginning of the whole text,
/// op included.
typedef struct check_reader {
    const char *op;
    const char *start;
    const char *at;
} check_reader;

/// Raises "OP: problem 'TEXT': expected WANTED at position N"; returns false.
bool talc_check_unexpected(const check_reader *reader, const char *wanted);

/// The same for a place that was read before.
bool talc_check_unexpected_at(const check_reader *reader, const char *place, const char *wanted);

/// A number of 0 .. INT64_MAX.
bool talc_check_read_number(check_reader *reader, int64_t *number);

/// A letter and one number, or a letter and two with x between, of which the second may be left
/// out: "k3" is "k3x3". An optional one may be absent and leaves its numbers alone.
bool talc_check_read_field(check_reader *reader, char letter, bool optional, int64_t *number);
bool talc_check_read_pair(check_reader *reader, char letter, bool optional, int64_t *first,
                          int64_t *second);

/// "n2c3h9w9": the extents of an image.
bool talc_check_read_image(check_reader *reader, int64_t *N, int64_t *C, int64_t *H, int64_t *W);
void talc_check_append_image(char text[TALC_CHECK_TEXT], int64_t N, int64_t C, int64_t H,
                             int64_t W);

/// A word behind an underscore, and the field of a problem that it sets. A list of them has NULL as
/// its last word; a problem's text has those that hold, in the order of the list.
typedef struct check_word {
    const char *word;
    enum {
        CHECK_FLAG,   ///< a bool
        CHECK_CHOICE, ///< an enumeration, `value` of it; 0, the default, is not written
        CHECK_WHOLE,  ///< an int64_t that is `value`
        CHECK_REAL,   ///< a double that is `value`
        CHECK_COUNT,  ///< an int64_t that follows the word, at least 1
    } kind;
    size_t offset; ///< of the field
    double value;
} check_word;

/// Rows that lists of words share, with the field that they set: the activations, and the types of
/// elements.
// clang-format off
#define CHECK_ACTIVATION_WORDS(field)                           \
    { "relu", CHECK_CHOICE, field, TALC_ACTIVATION_RELU },      \
    { "sigmoid", CHECK_CHOICE, field, TALC_ACTIVATION_SIGMOID }, \
    { "tanh", CHECK_CHOICE, field, TALC_ACTIVATION_TANH },      \
    { "relu6", CHECK_CHOICE, field, TALC_ACTIVATION_RELU6 },    \
    { "hardsigmoid", CHECK_CHOICE, field, TALC_ACTIVATION_HARDSIGMOID }, \
    { "hardswish", CHECK_CHOICE, field, TALC_ACTIVATION_HARDSWISH }, \
    { "silu", CHECK_CHOICE, field, TALC_ACTIVATION_SILU },      \
    { "gelu", CHECK_CHOICE, field, TALC_ACTIVATION_GELU }, \
    { "leaky_relu", CHECK_CHOICE, field, TALC_ACTIVATION_LEAKY_RELU }
#define CHECK_FLOAT_WORDS(field)               \
    { "f32", CHECK_CHOICE, field, TALC_F32 }, \
    { "f64", CHECK_CHOICE, field, TALC_F64 }
#define CHECK_INTEGER_WORDS(field)             \
    { "i64", CHECK_CHOICE, field, TALC_I64 }, \
    { "i32", CHECK_CHOICE, field, TALC_I32 }, \
    { "u8", CHECK_CHOICE, field, TALC_U8 }
// clang-format on

/// Reads words to the end of the text into `problem`. A word that is not in the list, is in the set
/// `refused` (a bit each), or sets what another one has set, is an error.
bool talc_check_read_words(check_reader *reader, const check_word *words, unsigned refused,
                           void *problem);

/// Appends the words that hold of a problem.
void talc_check_append_words(char text[TALC_CHECK_TEXT], const check_word *words,
                             const void *problem);

/// Appends to a problem's text, which it cuts at TALC_CHECK_TEXT.
void talc_check_append(char text[TALC_CHECK_TEXT], const char *format, ...) TALC_PRINTF(2, 3);

/// *product of `count` extents that are elements of `dtype`; false when that, or its bytes, pass
/// 2^63.
bool talc_check_elements(talc_dtype dtype, int count, const int64_t *extents, int64_t *product);

#endif
