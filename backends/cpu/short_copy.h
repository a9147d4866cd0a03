/// Copies and zeros of a few bytes. Private to backends/cpu.
///
/// Rows of small images are short, where a call of memcpy or memset costs more than its work: up to TALC_CPU_SHORT bytes, a multiple of
/// 4, these are loops and moves of fixed size.
#ifndef TALC_BACKENDS_CPU_SHORT_COPY_H
#define TALC_BACKENDS_CPU_SHORT_COPY_H

#include <string.h>

enum { TALC_CPU_SHORT = 256, TALC_CPU_SHORT_BLOCK = 32 };

static inline void talc_cpu_short_copy(char *dst, const char *src, size_t bytes)
{
    if (bytes > TALC_CPU_SHORT) {
        memcpy(dst, src, bytes);
        return;
    }
    for (; bytes >= TALC_CPU_SHORT_BLOCK;
         bytes -= TALC_CPU_SHORT_BLOCK, dst += TALC_CPU_SHORT_BLOCK, src += TALC_CPU_SHORT_BLOCK)
        memcpy(dst, src, TALC_CPU_SHORT_BLOCK);
    if (bytes & 16) {
        memcpy(dst, src, 16);
        dst += 16, src += 16;
    }
    if (bytes & 8) {
        memcpy(dst, src, 8);
        dst += 8, src += 8;
    }
    if (bytes & 4)
        memcpy(dst, src, 4);
}

static inline void talc_cpu_short_zero(char *dst, size_t bytes)
{
    if (bytes > TALC_CPU_SHORT) {
        memset(dst, 0, bytes);
        return;
    }
    for (; bytes >= TALC_CPU_SHORT_BLOCK;
         bytes -= TALC_CPU_SHORT_BLOCK, dst += TALC_CPU_SHORT_BLOCK)
        memset(dst, 0, TALC_CPU_SHORT_BLOCK);
    if (bytes & 16) {
        memset(dst, 0, 16);
        dst += 16;
    }
    if (bytes & 8) {
        memset(dst, 0, 8);
        dst += 8;
    }
    if (bytes & 4)
        memset(dst, 0, 4);
}

#endif
