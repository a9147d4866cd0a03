#include "nn/data/exif.h"

#include <stdbool.h>
#include <string.h>

/* A TIFF structure, whose numbers begin with the low byte or with the high one. */
typedef struct tiff {
    const uint8_t *bytes;
    size_t count;
    bool low_first;
} tiff;

/* `size` bytes at `at` as a number; where the structure ends before, 0. */
static uint32_t number(const tiff *t, size_t at, size_t size)
{
    uint32_t value = 0;
    if (at > t->count || size > t->count - at)
        return 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | t->bytes[at + (t->low_first ? size - 1 - i : i)];
    return value;
}

int talc_exif_orientation(const uint8_t *bytes, size_t count)
{
    enum { ENTRY = 12, ORIENTATION = 0x0112, SHORT = 3, LONG = 4 };
    if (count < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
        return 1;
    const tiff t = { bytes, count, bytes[0] == 'I' };
    const size_t directory = number(&t, 4, 4);
    const uint32_t entries = number(&t, directory, 2);
    for (uint32_t i = 0; i < entries; i++) {
        const size_t entry = directory + 2 + ENTRY * (size_t)i;
        if (entry > count || count - entry < ENTRY)
            break;
        if (number(&t, entry, 2) != ORIENTATION)
            continue;
        const uint32_t type = number(&t, entry + 2, 2);
        const uint32_t value = type == SHORT  ? number(&t, entry + 8, 2)
                               : type == LONG ? number(&t, entry + 8, 4)
                                              : 0;
        const bool known = number(&t, entry + 4, 4) == 1 && value >= 1 && value <= 8;
        return known ? (int)value : 1;
    }
    return 1;
}
