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
bool talc_check_unexpected_at(const check_reader *reader, const char *position, const char *wanted);

/// What a text may hold, a list of which is a family's: first sizes, in the order of the list, then
/// words, in any. A problem's text has all sizes and the words that hold, in the order of the list,
/// whose last key is NULL.
typedef struct check_key {
    const char *key; ///< what stands before it: "n"; "_relu" of a word
    enum {
        CHECK_NUMBER, ///< an int64_t
        CHECK_PAIR,   ///< two of them, or one for both: "k3" is "k3x3"
        CHECK_RATIO,  ///< two of them, or one over 1: "f2" is "f2x1"; not written when it is 0
        CHECK_SIDES,  ///< four of them, or two for both ends: "p1x2" is "p1x2x1x2"
        CHECK_PAD,    ///< two for each dimension from the last on, or one for all sides of the last
                      ///< two dimensions; as two int64_t a dimension, from the first on
        CHECK_DIMS,   ///< a check_layout: "8x16x32", or nothing for a scalar
        CHECK_LOGITS, ///< likewise, with at least one class
        CHECK_AXIS,   ///< an int: "@1", a dimension of the first layout, negative ones from the end
        CHECK_AXES,   ///< a bool for each dimension: "@1,2"; nothing: all of them
        CHECK_FLAG,   ///< a word: a bool
        CHECK_CHOICE, ///< an enumeration, `value` of it; 0, the default, is not written
        CHECK_WHOLE,  ///< an int64_t that is `value`
        CHECK_REAL,   ///< a double that is `value`
        CHECK_COUNT,  ///< an int64_t that follows the word, at least 1
    } kind;
    size_t offset; ///< of the field that it sets
    double value;  ///< of a word; of dimensions how many there are at least
    unsigned ops;  ///< of the family that have it, a bit each; 0: all
    enum {
        CHECK_OPTIONAL = 1,  ///< may be left out, and leaves its field alone then
        CHECK_SILENT = 2,    ///< is read, but not written
        CHECK_OTHERWISE = 4, ///< stands only where the size before it does not
    } flags;
} check_key;

/// Rows that lists share, with the field that they set: the extents of an image, the activations,
/// and the types of elements.
// clang-format off
#define CHECK_IMAGE_KEYS(n, c, h, w)                                          \
    { "n", CHECK_NUMBER, .offset = n }, { "c", CHECK_NUMBER, .offset = c },   \
    { "h", CHECK_NUMBER, .offset = h }, { "w", CHECK_NUMBER, .offset = w }
#define CHECK_ACTIVATION_KEYS(field)                             \
    { "_relu", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_RELU },      \
    { "_sigmoid", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_SIGMOID }, \
    { "_tanh", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_TANH },      \
    { "_relu6", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_RELU6 },    \
    { "_hardsigmoid", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_HARDSIGMOID }, \
    { "_hardswish", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_HARDSWISH }, \
    { "_silu", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_SILU },      \
    { "_gelu", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_GELU }, \
    { "_leaky_relu", CHECK_CHOICE, .offset = field, TALC_ACTIVATION_LEAKY_RELU }
#define CHECK_FLOAT_KEYS(field)               \
    { "_f32", CHECK_CHOICE, .offset = field, TALC_F32 }, \
    { "_f64", CHECK_CHOICE, .offset = field, TALC_F64 }
#define CHECK_INTEGER_KEYS(field, of)             \
    { "_i64", CHECK_CHOICE, .offset = field, TALC_I64, of }, \
    { "_i32", CHECK_CHOICE, .offset = field, TALC_I32, of }, \
    { "_u8", CHECK_CHOICE, .offset = field, TALC_U8, of }
// clang-format on

/// Reads the rest of a text of ops[op] into `problem`. A word that is not in the list, or sets what
/// another one has set, is an error. places[i] becomes where key i stands or would stand; of all
/// words, where the first one does.
enum { CHECK_KEYS = 40 };
bool talc_check_read_keys(check_reader *reader, const check_key *keys, int op, void *problem,
                          const char *positions[CHECK_KEYS]);

/// Appends what the keys say of a problem.
void talc_check_append_keys(char text[TALC_CHECK_TEXT], const check_key *keys, int op,
                            const void *problem);

/// Appends to a problem's text, which it cuts at TALC_CHECK_TEXT.
void talc_check_append(char text[TALC_CHECK_TEXT], const char *format, ...) TALC_PRINTF(2, 3);

/// *product of `count` extents that are elements of `dtype`; false when that, or its bytes, pass
/// 2^63.
bool talc_check_elements(talc_dtype dtype, int count, const int64_t *extents, int64_t *product);

#endif
