#include "check/text.h"

#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/shown.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- Reading ------------------------------------------------------------------------------------------------

check_reader talc_check_reader(const char *op, const char *text)
{
    return (check_reader){ .op = op, .start = text - strlen(op) - 1, .at = text };
}

bool talc_check_unexpected_at(const check_reader *reader, const char *place, const char *wanted)
{
    talc_fail(TALC_BAD_ARGUMENT, "%s: problem '%s': expected %s at position %td", reader->op,
              TALC_SHOWN(reader->start), wanted, place - reader->start);
    return false;
}

bool talc_check_unexpected(const check_reader *reader, const char *wanted)
{
    return talc_check_unexpected_at(reader, reader->at, wanted);
}

bool talc_check_read_number(check_reader *reader, int64_t *number)
{
    if (*reader->at < '0' || *reader->at > '9')
        return talc_check_unexpected(reader, "a number");
    int64_t value = 0;
    const char *at = reader->at;
    for (; *at >= '0' && *at <= '9'; at++)
        if (!talc_multiply(value, 10, &value) || !talc_add_checked(value, *at - '0', &value))
            return talc_check_unexpected(reader, "a number below 2^63");
    reader->at = at;
    *number = value;
    return true;
}

bool talc_check_read_field(check_reader *reader, char letter, bool optional, int64_t *number)
{
    if (*reader->at != letter)
        return optional || talc_check_unexpected(reader, (char[]){ '\'', letter, '\'', '\0' });
    reader->at++;
    return talc_check_read_number(reader, number);
}

bool talc_check_read_pair(check_reader *reader, char letter, bool optional, int64_t *first,
                          int64_t *second)
{
    if (optional && *reader->at != letter)
        return true;
    return talc_check_read_field(reader, letter, false, first) &&
           talc_check_read_field(reader, 'x', false, second);
}

/* "ceil, exclude or f64": what may stand here still. */
static const char *choices(const char *const *words, unsigned seen, char text[256])
{
    text[0] = '\0';
    size_t used = 0;
    int left = 0;
    for (int i = 0; words[i] != NULL; i++)
        left += (seen >> i & 1) == 0;
    for (int i = 0; words[i] != NULL && used < 255; i++)
        if ((seen >> i & 1) == 0) {
            left--;
            const int length = snprintf(text + used, 256 - used, "%s%s", words[i],
                                        left > 1    ? ", "
                                        : left == 1 ? " or "
                                                    : "");
            used += length > 0 ? (size_t)length : 0;
        }
    return text[0] == '\0' ? "no more words" : text;
}

bool talc_check_read_word(check_reader *reader, const char *const *words, unsigned *seen, int *word)
{
    *word = -1;
    if (*reader->at == '\0')
        return true;
    if (*reader->at != '_')
        return talc_check_unexpected(reader, "'_' or the end");
    const char *at = reader->at + 1;
    const size_t length = strcspn(at, "_");
    for (int i = 0; words[i] != NULL; i++)
        if (strlen(words[i]) == length && memcmp(words[i], at, length) == 0 &&
            (*seen >> i & 1) == 0) {
            *seen |= 1u << i;
            *word = i;
            reader->at = at + length;
            return true;
        }
    char text[256];
    return talc_check_unexpected_at(reader, at, choices(words, *seen, text));
}

// ---- Writing ------------------------------------------------------------------------------------------------

void talc_check_append(char text[TALC_CHECK_TEXT], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, TALC_CHECK_TEXT - used, format, arguments);
    va_end(arguments);
}

// ---- Sizes --------------------------------------------------------------------------------------------------

bool talc_check_elements(talc_dtype dtype, int count, const int64_t *extents, int64_t *product)
{
    int64_t elements = 1, bytes;
    for (int i = 0; i < count; i++)
        if (!talc_multiply(elements, extents[i], &elements))
            return false;
    *product = elements;
    return talc_multiply(elements, (int64_t)talc_dtype_size(dtype), &bytes);
}
