#include "check/engine/text.h"

#include "check/engine/layout.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- Reading ------------------------------------------------------------------------------------

bool talc_check_unexpected_at(const check_reader *reader, const char *position, const char *wanted)
{
    talc_fail(TALC_BAD_ARGUMENT, "%s: problem '%s': expected %s at position %td", reader->op,
              TALC_SHOWN(reader->start), wanted, position - reader->start);
    return false;
}

bool talc_check_unexpected(const check_reader *reader, const char *wanted)
{
    return talc_check_unexpected_at(reader, reader->at, wanted);
}

static bool expect(check_reader *reader, char letter)
{
    if (*reader->at != letter)
        return talc_check_unexpected(reader, (char[]){ '\'', letter, '\'', '\0' });
    reader->at++;
    return true;
}

/* A number of 0 .. INT64_MAX. */
static bool read_number(check_reader *reader, int64_t *number)
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

/* An x and a number, which may be left out. */
static bool read_more(check_reader *reader, int64_t *number)
{
    if (*reader->at != 'x')
        return true;
    reader->at++;
    return read_number(reader, number);
}

// ---- Sizes --------------------------------------------------------------------------------------

/* Up to a comma too where there may be one. */
static bool read_dims(check_reader *reader, bool comma, check_layout *layout)
{
    layout->rank = 0;
    if ((comma && *reader->at == ',') || *reader->at == '@' || *reader->at == '_' ||
        *reader->at == '\0')
        return true;
    for (;;) {
        if (layout->rank == TALC_MAX_RANK)
            return talc_check_unexpected(reader, "at most 8 dimensions");
        if (!read_number(reader, &layout->dims[layout->rank++]))
            return false;
        if (*reader->at != 'x')
            return true;
        reader->at++;
    }
}

static void append_dims(char text[TALC_CHECK_TEXT], const check_layout *layout)
{
    for (int i = 0; i < layout->rank; i++)
        talc_check_append(text, "%s%" PRId64, i == 0 ? "" : "x", layout->dims[i]);
}

/* A dimension, negative ones from the end: 0 .. rank - 1 into *axis; a scalar has dimension 0. */
static bool read_axis(check_reader *reader, int rank, int *axis)
{
    const char *position = reader->at;
    const bool negative = *reader->at == '-';
    if (negative)
        reader->at++;
    int64_t number;
    if (!read_number(reader, &number))
        return false;
    const int64_t dims = rank == 0 ? 1 : rank;
    if (negative ? number < 1 || number > dims : number >= dims)
        return talc_check_unexpected_at(reader, position, "one of x's dimensions");
    *axis = (int)(negative ? dims - number : number);
    return true;
}

static bool read_axes(check_reader *reader, int rank, bool *chosen)
{
    if (*reader->at != '@') {
        for (int i = 0; i < (rank == 0 ? 1 : rank); i++)
            chosen[i] = true;
        return *reader->at == '_' || *reader->at == '\0' ||
               talc_check_unexpected(reader, "'x', '@', '_' or the end");
    }
    do {
        reader->at++;
        const char *position = reader->at;
        int axis;
        if (!read_axis(reader, rank, &axis))
            return false;
        if (chosen[axis])
            return talc_check_unexpected_at(reader, position, "no dimension twice");
        chosen[axis] = true;
    } while (*reader->at == ',');
    return true;
}

static void append_axes(char text[TALC_CHECK_TEXT], int rank, const bool *chosen)
{
    int count = 0;
    for (int i = 0; i < rank; i++)
        count += chosen[i];
    char separator = '@';
    for (int i = 0; i < rank && count < rank; i++)
        if (chosen[i]) {
            talc_check_append(text, "%c%d", separator, i);
            separator = ',';
        }
}

/* Behind the letter. */
static bool read_pad(check_reader *reader, int rank, int64_t (*sides)[2])
{
    enum { MAX = 999999999 }; /* texts of 8 dimensions fit */
    for (int i = rank - 1; i >= 0 && (i == rank - 1 || *reader->at == 'x'); i--) {
        const char *position = reader->at - (i == rank - 1);
        reader->at += i < rank - 1;
        if (!read_number(reader, &sides[i][0]))
            return false;
        sides[i][1] = sides[i][0];
        const bool alone = i == rank - 1 && *reader->at != 'x';
        if (!alone && (!expect(reader, 'x') || !read_number(reader, &sides[i][1])))
            return false;
        if (sides[i][0] > MAX || sides[i][1] > MAX)
            return talc_check_unexpected_at(reader, position, "padding below 10^9");
        if (alone && i > 0)
            sides[i - 1][0] = sides[i - 1][1] = sides[i][0];
        if (alone)
            return true;
    }
    return true;
}

static void append_pad(char text[TALC_CHECK_TEXT], char letter, int rank, const int64_t *sides)
{
    int first = 0; /* dimension with any */
    while (first < rank && sides[2 * first] == 0 && sides[2 * first + 1] == 0)
        first++;
    for (int i = rank - 1; i >= first; i--)
        talc_check_append(text, "%c%" PRId64 "x%" PRId64, i == rank - 1 ? letter : 'x',
                          sides[2 * i], sides[2 * i + 1]);
}

/* One size, `rank` being that of the first layout. */
static bool read_size(check_reader *reader, const check_key *key, int rank, void *field)
{
    int64_t *of = field;
    check_layout *layout = field;
    const bool optional = (key->flags & CHECK_OPTIONAL) != 0;
    if (key->kind == CHECK_AXES)
        return read_axes(reader, rank, field);
    if (key->kind == CHECK_AXIS && *reader->at != '@')
        return talc_check_unexpected(reader, "'x' or '@'");
    if (key->key[0] != '\0') {
        if (optional && *reader->at != key->key[0])
            return true;
        if (!expect(reader, key->key[0]))
            return false;
    }
    switch (key->kind) {
    case CHECK_NUMBER:
        return read_number(reader, of);
    case CHECK_PAIR:
    case CHECK_RATIO:
        if (!read_number(reader, of))
            return false;
        of[1] = key->kind == CHECK_PAIR ? of[0] : 1;
        return read_more(reader, of + 1);
    case CHECK_SIDES:
        if (!read_number(reader, of))
            return false;
        of[1] = of[0];
        if (!read_more(reader, of + 1))
            return false;
        of[2] = of[0];
        of[3] = of[1];
        return *reader->at != 'x' ||
               (read_more(reader, of + 2) && expect(reader, 'x') && read_number(reader, of + 3));
    case CHECK_PAD:
        return read_pad(reader, rank, field);
    case CHECK_AXIS:
        return read_axis(reader, rank, field);
    default:
        return read_dims(reader, key[1].key != NULL && key[1].key[0] == ',', layout) &&
               (layout->rank >= (int)key->value ||
                talc_check_unexpected(reader, "at least one dimension")) &&
               (key->kind == CHECK_DIMS ||
                (layout->rank > 0 && layout->dims[talc_check_class_dim(layout->rank)] > 0) ||
                talc_check_unexpected(reader, "dimensions with at least one class"));
    }
}

static void append_size(char text[TALC_CHECK_TEXT], const check_key *key, int rank,
                        const void *field)
{
    const int64_t *of = field;
    switch (key->kind) {
    case CHECK_NUMBER:
        talc_check_append(text, "%s%" PRId64, key->key, of[0]);
        break;
    case CHECK_PAIR:
    case CHECK_RATIO:
        talc_check_append(text, "%s%" PRId64 "x%" PRId64, key->key, of[0], of[1]);
        break;
    case CHECK_SIDES:
        talc_check_append(text, "%s%" PRId64 "x%" PRId64, key->key, of[0], of[1]);
        if (of[2] != of[0] || of[3] != of[1])
            talc_check_append(text, "x%" PRId64 "x%" PRId64, of[2], of[3]);
        break;
    case CHECK_PAD:
        append_pad(text, key->key[0], rank, field);
        break;
    case CHECK_AXIS:
        talc_check_append(text, "@%d", *(const int *)field);
        break;
    case CHECK_AXES:
        append_axes(text, rank, field);
        break;
    default:
        talc_check_append(text, "%s", key->key);
        append_dims(text, field);
    }
}

// ---- Words --------------------------------------------------------------------------------------

static bool is_word(const check_key *key)
{
    return key->kind >= CHECK_FLAG;
}

static bool is_of(const check_key *key, int op)
{
    return key->ops == 0 || (key->ops >> op & 1) != 0;
}

/* "ceil, exclude or f64": what may stand here still. */
static const char *choices(const check_key *keys, const bool *open, char text[256])
{
    text[0] = '\0';
    size_t used = 0;
    int left = 0;
    for (int i = 0; keys[i].key != NULL; i++)
        left += open[i];
    for (int i = 0; keys[i].key != NULL && used < 255; i++)
        if (open[i]) {
            left--;
            const int length = snprintf(text + used, 256 - used, "%s%s%s", keys[i].key + 1,
                                        keys[i].kind == CHECK_COUNT ? "N" : "",
                                        left > 1    ? ", "
                                        : left == 1 ? " or "
                                                    : "");
            used += length > 0 ? (size_t)length : 0;
        }
    return text[0] == '\0' ? "no more words" : text;
}

static bool read_count(check_reader *reader, const check_key *key, void *field)
{
    int64_t number = 0;
    if (*reader->at != '0' && !read_number(reader, &number))
        return false;
    if (number == 0) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a %s of at least 1", key->key + 1);
        return talc_check_unexpected(reader, wanted);
    }
    memcpy(field, &number, sizeof number);
    return true;
}

/* The bytes of what a word sets its field to; returns how many. */
static size_t bytes_of(const check_key *key, unsigned char bytes[sizeof(double)])
{
    const int choice = (int)key->value;
    const int64_t whole = (int64_t)key->value;
    switch (key->kind) {
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
        memcpy(bytes, &key->value, sizeof key->value);
        return sizeof key->value;
    }
}

static bool read_word(check_reader *reader, const check_key *key, void *field)
{
    unsigned char bytes[sizeof(double)];
    if (key->kind == CHECK_COUNT)
        return read_count(reader, key, field);
    const size_t size = bytes_of(key, bytes);
    memcpy(field, bytes, size);
    return true;
}

static void append_word(char text[TALC_CHECK_TEXT], const check_key *key, const void *field)
{
    unsigned char bytes[sizeof(double)];
    const size_t size = bytes_of(key, bytes);
    int64_t number = 0;
    if (key->kind == CHECK_COUNT)
        memcpy(&number, field, sizeof number);
    if (number != 0)
        talc_check_append(text, "%s%" PRId64, key->key, number);
    else if (key->kind != CHECK_COUNT && memcmp(field, bytes, size) == 0 &&
             (key->kind != CHECK_CHOICE || key->value != 0))
        talc_check_append(text, "%s", key->key);
}

/* Whether the text goes on with a word: as a whole, or with its number behind it. */
static bool begins(const check_key *key, const char *at)
{
    const size_t length = strlen(key->key + 1);
    return strncmp(key->key + 1, at, length) == 0 &&
           (key->kind == CHECK_COUNT || at[length] == '_' || at[length] == '\0');
}

static bool read_words(check_reader *reader, const check_key *keys, int op, char *problem)
{
    bool open[CHECK_KEYS] = { false }; /* words that may stand still */
    char text[256];
    for (int i = 0; keys[i].key != NULL; i++)
        open[i] = is_word(&keys[i]) && is_of(&keys[i], op);
    while (*reader->at != '\0') {
        if (*reader->at != '_')
            return talc_check_unexpected(reader, "'_' or the end");
        reader->at++;
        int found = 0;
        while (keys[found].key != NULL && !(open[found] && begins(&keys[found], reader->at)))
            found++;
        if (keys[found].key == NULL)
            return talc_check_unexpected(reader, choices(keys, open, text));
        reader->at += strlen(keys[found].key + 1);
        if (!read_word(reader, &keys[found], problem + keys[found].offset))
            return false;
        for (int i = 0; keys[i].key != NULL; i++)
            open[i] = open[i] && keys[i].offset != keys[found].offset;
    }
    return true;
}

// ---- Keys ---------------------------------------------------------------------------------------

static bool has_dims(const check_key *key)
{
    return key->kind == CHECK_DIMS || key->kind == CHECK_LOGITS;
}

bool talc_check_read_keys(check_reader *reader, const check_key *keys, int op, void *problem,
                          const char *positions[CHECK_KEYS])
{
    int rank = -1;
    bool stands = false; /* the size before */
    int i = 0;
    for (; keys[i].key != NULL && !is_word(&keys[i]); i++) {
        positions[i] = reader->at;
        void *field = (char *)problem + keys[i].offset;
        if (!is_of(&keys[i], op) || (stands && (keys[i].flags & CHECK_OTHERWISE) != 0))
            continue;
        if (!read_size(reader, &keys[i], rank, field))
            return false;
        stands = reader->at > positions[i];
        if (has_dims(&keys[i]) && rank < 0)
            rank = ((const check_layout *)field)->rank;
    }
    for (; keys[i].key != NULL; i++)
        positions[i] = reader->at;
    return read_words(reader, keys, op, problem);
}

void talc_check_append_keys(char text[TALC_CHECK_TEXT], const check_key *keys, int op,
                            const void *problem)
{
    int rank = -1;
    bool stands = false; /* the size before */
    for (const check_key *key = keys; key->key != NULL; key++) {
        const char *field = (const char *)problem + key->offset;
        int64_t first = 0;
        if (!is_of(key, op) || (key->flags & CHECK_SILENT) != 0 ||
            (stands && (key->flags & CHECK_OTHERWISE) != 0))
            continue;
        if (is_word(key)) {
            append_word(text, key, field);
            continue;
        }
        if (has_dims(key) && rank < 0)
            rank = ((const check_layout *)(const void *)field)->rank;
        if (key->kind == CHECK_RATIO)
            memcpy(&first, field, sizeof first);
        stands = key->kind != CHECK_RATIO || first != 0;
        if (stands)
            append_size(text, key, rank, field);
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

// ---- Elements ---------------------------------------------------------------------------------

bool talc_check_elements(talc_dtype dtype, int count, const int64_t *extents, int64_t *product)
{
    int64_t elements = 1, bytes;
    for (int i = 0; i < count; i++)
        if (!talc_multiply(elements, extents[i], &elements))
            return false;
    *product = elements;
    return talc_multiply(elements, (int64_t)talc_dtype_size(dtype), &bytes);
}
