#include "tensor/shown.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { UNIT_TEXT = 12 /* "\u{10ffff}" and its NUL */ };

/* Characters that are not seen, or that change how others are. */
static bool unseen(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        { 0x00, 0x1f },     { 0x7f, 0x9f },     { 0xad, 0xad },       { 0x61c, 0x61c },
        { 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },   { 0x2060, 0x206f },
        { 0xfeff, 0xfeff }, { 0xfff9, 0xffff }, { 0xe0000, 0xe0fff },
    };
    bool found = false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && !found; i++)
        found = ranges[i][0] <= c && c <= ranges[i][1];
    return found;
}

/* The character that begins here and its bytes; 0 bytes for what is no UTF-8. */
static size_t decode(const unsigned char *text, size_t left, uint32_t *c)
{
    static const uint32_t min[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned first = text[0];
    const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length > left || (first >= 0x80 && first < 0xc0) || first >= 0xf8)
        return 0;
    *c = length == 1 ? first : first & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (text[i] & 0x3f);
    }
    const bool surrogate = 0xd800 <= *c && *c <= 0xdfff;
    return *c < min[length] || *c > 0x10ffff || surrogate ? 0 : length;
}

/* Writes the first character of a text as it is shown, and returns how many bytes of the text it
 * has. */
static size_t next_unit(const char *text, size_t left, char unit[UNIT_TEXT])
{
    uint32_t c;
    const size_t length = decode((const unsigned char *)text, left, &c);
    if (length == 0 || (length == 1 && unseen(c)))
        snprintf(unit, UNIT_TEXT, "\\x%02x", (unsigned)(unsigned char)*text);
    else if (unseen(c))
        snprintf(unit, UNIT_TEXT, "\\u{%x}", (unsigned)c);
    else
        snprintf(unit, UNIT_TEXT, "%s%.*s", c == '\\' ? "\\" : "", (int)length, text);
    return length == 0 ? 1 : length;
}

const char *talc_shown(const char *text, size_t length, char *shown, size_t capacity)
{
    static const char gap[] = "...";
    char unit[UNIT_TEXT];
    text = text == NULL ? "(null)" : text;
    length = strnlen(text, length);
    size_t all = 0;
    for (size_t at = 0; at < length; all += strlen(unit))
        at += next_unit(text + at, length - at, unit);
    const size_t half = all < capacity ? all : (capacity - sizeof gap) / 2;
    size_t used = 0, before = 0; /* of the text as it is shown */
    for (size_t at = 0; at < length; before += strlen(unit)) {
        at += next_unit(text + at, length - at, unit);
        const size_t after = before + strlen(unit);
        const bool first_left_out = before <= half && after > half;
        if (first_left_out || after <= half || all - before <= half) {
            const char *part = first_left_out ? gap : unit;
            memcpy(shown + used, part, strlen(part));
            used += strlen(part);
        }
    }
    shown[used] = '\0';
    return shown;
}

bool talc_is_utf8(const char *text)
{
    uint32_t c;
    size_t length = 1, left = strlen(text);
    for (; left > 0 && length > 0; text += length, left -= length)
        length = decode((const unsigned char *)text, left, &c);
    return length > 0;
}
