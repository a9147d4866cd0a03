/// Copies and zeros of a few bytes. Private to backends/cpu.
///
/// Rows of small images are short, where a call of memcpy or memset costs more than its work: up to
/// TALC_CPU_SHORT bytes, a multiple of 4, these are moves of fixed size, of which the last two may
/// overlap.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_SHORT_COPY_H
#define TALC_BACKENDS_CPU_PRIMITIVES_SHORT_COPY_H

#include "backends/cpu/primitives/target.h"

#include <string.h>

enum { TALC_CPU_SHORT = 256, TALC_CPU_SHORT_BLOCK = 32 };

/// Of at most 64 bytes.
TALC_ALWAYS_INLINE void talc_cpu_part_copy(char *dst, const char *src, size_t bytes)
{
    if (bytes >= 32) {
        memcpy(dst, src, 32);
        memcpy(dst + bytes - 32, src + bytes - 32, 32);
    } else if (bytes >= 16) {
        memcpy(dst, src, 16);
        memcpy(dst + bytes - 16, src + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + bytes - 8, src + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(dst, src, 4);
    }
}

TALC_ALWAYS_INLINE void talc_cpu_short_copy(char *dst, const char *src, size_t bytes)
{
    const size_t block = TALC_CPU_SHORT_BLOCK;
    if (bytes > TALC_CPU_SHORT) {
        memcpy(dst, src, bytes);
    } else if (bytes > 2 * block) {
        for (size_t i = 0; i + block < bytes; i += block)
            memcpy(dst + i, src + i, block);
        memcpy(dst + bytes - block, src + bytes - block, block);
    } else {
        talc_cpu_part_copy(dst, src, bytes);
    }
}

TALC_ALWAYS_INLINE void talc_cpu_short_zero(char *dst, size_t bytes)
{
    static const char zeros[TALC_CPU_SHORT];
    if (bytes > TALC_CPU_SHORT)
        memset(dst, 0, bytes);
    else
        talc_cpu_short_copy(dst, zeros, bytes);
}

#endif
