#include "check/engine/text.h"

#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- Reading ------------------------------------------------------------------------------------

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
    if (!talc_check_read_field(reader, letter, false, first))
        return false;
    *second = *first;
    return talc_check_read_field(reader, 'x', true, second);
}

bool talc_check_read_image(check_reader *reader, int64_t *N, int64_t *C, int64_t *H, int64_t *W)
{
    return talc_check_read_field(reader, 'n', false, N) &&
           talc_check_read_field(reader, 'c', false, C) &&
           talc_check_read_field(reader, 'h', false, H) &&
           talc_check_read_field(reader, 'w', false, W);
}

// ---- Words --------------------------------------------------------------------------------------

/* "ceil, exclude or f64": what may stand here still. */
static const char *choices(const check_word *words, unsigned refused, char text[256])
{
    text[0] = '\0';
    size_t used = 0;
    int left = 0;
    for (int i = 0; words[i].word != NULL; i++)
        left += (refused >> i & 1) == 0;
    for (int i = 0; words[i].word != NULL && used < 255; i++)
        if ((refused >> i & 1) == 0) {
            left--;
            const int length = snprintf(text + used, 256 - used, "%s%s%s", words[i].word,
                                        words[i].kind == CHECK_COUNT ? "N" : "",
                                        left > 1    ? ", "
                                        : left == 1 ? " or "
                                                    : "");
            used += length > 0 ? (size_t)length : 0;
        }
    return text[0] == '\0' ? "no more words" : text;
}

static bool read_count(check_reader *reader, const check_word *word, void *field)
{
    int64_t number = 0;
    if (*reader->at != '0' && !talc_check_read_number(reader, &number))
        return false;
    if (number == 0) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a %s of at least 1", word->word);
        return talc_check_unexpected(reader, wanted);
    }
    memcpy(field, &number, sizeof number);
    return true;
}

/* The bytes of what a word sets its field to; returns how many. */
static size_t bytes_of(const check_word *word, unsigned char bytes[sizeof(double)])
{
    const int choice = (int)word->value;
    const int64_t whole = (int64_t)word->value;
    switch (word->kind) {
    case CHECK_FLAG:
        memcpy(bytes, &(bool){ true }, sizeof(bool));
        return sizeof(bool);
    case CHECK_CHOICE:
        memcpy(bytes, &choice, sizeof choice);
        return sizeof choice;
    case CHECK_WHOLE:
        memcpy(bytes, &whole, sizeof whole);
        return sizeof whole;
    default:
        memcpy(bytes, &word->value, sizeof word->value);
        return sizeof word->value;
    }
}

static bool read_word(check_reader *reader, const check_word *word, char *problem)
{
    unsigned char bytes[sizeof(double)];
    if (word->kind == CHECK_COUNT)
        return read_count(reader, word, problem + word->offset);
    const size_t size = bytes_of(word, bytes);
    memcpy(problem + word->offset, bytes, size);
    return true;
}

/* Whether the text goes on with a word: as a whole, or with its number behind it. */
static bool is_word(const check_word *word, const char *at)
{
    const size_t length = strlen(word->word);
    return strncmp(word->word, at, length) == 0 &&
           (word->kind == CHECK_COUNT || at[length] == '_' || at[length] == '\0');
}

bool talc_check_read_words(check_reader *reader, const check_word *words, unsigned refused,
                           void *problem)
{
    char text[256];
    while (*reader->at != '\0') {
        if (*reader->at != '_')
            return talc_check_unexpected(reader, "'_' or the end");
        reader->at++;
        int found = 0;
        while (words[found].word != NULL &&
               ((refused >> found & 1) != 0 || !is_word(&words[found], reader->at)))
            found++;
        if (words[found].word == NULL)
            return talc_check_unexpected(reader, choices(words, refused, text));
        reader->at += strlen(words[found].word);
        if (!read_word(reader, &words[found], problem))
            return false;
        for (int i = 0; words[i].word != NULL; i++)
            refused |= words[i].offset == words[found].offset ? 1u << i : 0;
    }
    return true;
}

void talc_check_append_words(char text[TALC_CHECK_TEXT], const check_word *words,
                             const void *problem)
{
    for (const check_word *word = words; word->word != NULL; word++) {
        const char *field = (const char *)problem + word->offset;
        unsigned char bytes[sizeof(double)];
        const size_t size = bytes_of(word, bytes);
        const bool holds = memcmp(field, bytes, size) == 0;
        int64_t number = 0;
        if (word->kind == CHECK_COUNT)
            memcpy(&number, field, sizeof number);
        if (number != 0)
            talc_check_append(text, "_%s%" PRId64, word->word, number);
        else if (word->kind != CHECK_COUNT && holds &&
                 (word->kind != CHECK_CHOICE || word->value != 0))
            talc_check_append(text, "_%s", word->word);
    }
}

// ---- Writing ------------------------------------------------------------------------------------

void talc_check_append(char text[TALC_CHECK_TEXT], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, TALC_CHECK_TEXT - used, format, arguments);
    va_end(arguments);
}

void talc_check_append_image(char text[TALC_CHECK_TEXT], int64_t N, int64_t C, int64_t H, int64_t W)
{
    talc_check_append(text, "n%" PRId64 "c%" PRId64 "h%" PRId64 "w%" PRId64, N, C, H, W);
}

// ---- Sizes --------------------------------------------------------------------------------------

bool talc_check_elements(talc_dtype dtype, int count, const int64_t *extents, int64_t *product)
{
    int64_t elements = 1, bytes;
    for (int i = 0; i < count; i++)
        if (!talc_multiply(elements, extents[i], &elements))
            return false;
    *product = elements;
    return talc_multiply(elements, (int64_t)talc_dtype_size(dtype), &bytes);
}
