/// Copying results that leave the caches before anyone reads them. Private to backends/cpu.
///
/// An ordinary store first reads the cache line that it changes from memory; a non-temporal one does not, which saves a
/// third of the traffic of a copy.
#ifndef TALC_BACKENDS_CPU_STREAM_H
#define TALC_BACKENDS_CPU_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/// memcpy past the caches; any alignment, no overlap. The copier calls talc_cpu_stream_end before others may read.
static inline void talc_cpu_stream_copy(char *dst, const char *src, size_t bytes)
{
#if defined(__SSE2__)
    enum { LINE = 64, REGISTER = 16 };
    size_t head = (LINE - (uintptr_t)dst % LINE) % LINE;
    head = head < bytes ? head : bytes;
    memcpy(dst, src, head);
    size_t i = head;
    for (; i + LINE <= bytes; i += LINE)
        for (size_t j = i; j < i + LINE; j += REGISTER)
            _mm_stream_si128((__m128i *)(void *)(dst + j),
                             _mm_loadu_si128((const __m128i *)(const void *)(src + j)));
    memcpy(dst + i, src + i, bytes - i);
#else
    memcpy(dst, src, bytes);
#endif
}

static inline void talc_cpu_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
