/// Text from outside as it may stand in a message, a table or on a terminal.
///
/// A name in a file, a path, an argument or a variable of the environment may hold what moves a
/// cursor, ends a line or turns the direction of the text around it. Every message of talc shows
/// such text through this function, and so do modules that name what they were given.
#ifndef TALC_TENSOR_SHOWN_H
#define TALC_TENSOR_SHOWN_H

#include "api.h"

#include <stddef.h>
#include <stdint.h>

TALC_BEGIN_DECLARATIONS

/// Writes `text` ("(null)" for NULL), of which it reads at most `length` bytes, into the caller's
/// buffer of `capacity` bytes, at least 32, which it returns. Printable UTF-8 stays as it is. A
/// backslash is doubled; a control character and a byte that is no UTF-8 become \xNN; a character
/// that is not seen or that orders others (U+0080 to U+009F, marks of direction, zero-width ones,
/// separators of lines and paragraphs, tags) becomes \u{N}. Of a text that is too long the middle
/// is left out: "abc...xyz", at whole characters.
TALC_API const char *talc_shown(const char *text, size_t length, char *shown, size_t capacity);

/// The maximum that a message shows of one text, in bytes, its NUL included.
#define TALC_SHOWN_TEXT 200

/// The same of a whole text, or its first `length` bytes, in a buffer that lasts as long as the
/// block around it: for an argument of talc_fail or printf.
#define TALC_SHOWN_PART(text, length)                                                              \
    talc_shown(text, length, (char[TALC_SHOWN_TEXT]){ 0 }, TALC_SHOWN_TEXT)
#define TALC_SHOWN(text) TALC_SHOWN_PART(text, SIZE_MAX)

/// Whether a text, not NULL, is UTF-8, as the names in safetensors files are.
TALC_API bool talc_is_utf8(const char *text);

TALC_END_DECLARATIONS

#endif
