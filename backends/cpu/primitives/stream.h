/// Copying results that leave the caches before anyone reads them. Private to backends/cpu.
///
/// An ordinary store first reads the cache line that it changes from memory; a non-temporal one
/// does not, which saves a third of the traffic of a copy.
///
/// A row of results goes to memory in pieces, each of which is made in a buffer that stays in the
/// L1 cache:
///
///     for (size_t at = 0, piece; at < bytes; at += piece) {
///         piece = talc_cpu_piece(streams, y + at, bytes - at);
///         char *to = streams ? buffer : y + at;
///         ...
///         if (streams)
///             talc_cpu_stream_copy(y + at, to, piece, x + at + piece);
///     }
///
/// and talc_cpu_stream_end.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_STREAM_H
#define TALC_BACKENDS_CPU_PRIMITIVES_STREAM_H

#include "backends/cpu/primitives/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    TALC_CPU_STREAM_BYTES = 8 << 20, ///< larger results leave the caches before anyone reads them
    TALC_CPU_STREAM_ROW = 1 << 10,
    TALC_CPU_CACHE_LINE = 64,
    TALC_CPU_PIECE = 2048 ///< bytes
};

/// Whether results in rows of so many bytes are worth the trouble.
static inline bool talc_cpu_streams(int64_t bytes, int64_t row)
{
    return bytes >= TALC_CPU_STREAM_BYTES && row >= TALC_CPU_STREAM_ROW;
}

/// How many of the bytes that begin at y come next: all, or what ends on a cache line.
static inline size_t talc_cpu_piece(bool streams, const void *y, size_t bytes)
{
    const size_t piece = TALC_CPU_PIECE - (uintptr_t)y % TALC_CPU_CACHE_LINE;
    return streams && piece < bytes ? piece : bytes;
}

/// Stores one cache line past the caches, to an aligned address.
TALC_ALWAYS_INLINE void talc_cpu_stream_line(void *dst, const void *line)
{
#if defined(__SSE2__)
    typedef float whole __attribute__((vector_size(64), aligned(4), may_alias));
    const whole v = *(const whole *)line;
    float *to = dst;
    _mm_stream_ps(to, (__m128)__builtin_shufflevector(v, v, 0, 1, 2, 3));
    _mm_stream_ps(to + 4, (__m128)__builtin_shufflevector(v, v, 4, 5, 6, 7));
    _mm_stream_ps(to + 8, (__m128)__builtin_shufflevector(v, v, 8, 9, 10, 11));
    _mm_stream_ps(to + 12, (__m128)__builtin_shufflevector(v, v, 12, 13, 14, 15));
#else
    memcpy(dst, line, 64);
#endif
}

/// memcpy past the caches; any alignment, no overlap. The copier calls talc_cpu_stream_end before
/// others may read. As many bytes from `next` on are fetched meanwhile, for memory would rest while
/// the next piece is computed; that need not be valid, and may be src.
static inline void talc_cpu_stream_copy(char *dst, const char *src, size_t bytes, const void *next)
{
#if defined(__SSE2__)
    enum { REGISTER = 16 };
    size_t head =
        (TALC_CPU_CACHE_LINE - (uintptr_t)dst % TALC_CPU_CACHE_LINE) % TALC_CPU_CACHE_LINE;
    head = head < bytes ? head : bytes;
    memcpy(dst, src, head);
    size_t i = head;
    for (; i + TALC_CPU_CACHE_LINE <= bytes; i += TALC_CPU_CACHE_LINE) {
        __builtin_prefetch((const char *)next + i);
#pragma GCC unroll 4
        for (size_t j = i; j < i + TALC_CPU_CACHE_LINE; j += REGISTER)
            _mm_stream_si128((__m128i *)(void *)(dst + j),
                             _mm_loadu_si128((const __m128i *)(const void *)(src + j)));
    }
    memcpy(dst + i, src + i, bytes - i);
#else
    (void)next;
    memcpy(dst, src, bytes);
#endif
}

/* An argument in a formula of TALC_CPU_WRITE: its element, or its cache line from there on. */
#define TALC_CPU_ELEMENT(address) (address)[at]
#define TALC_CPU_LINE(address)    (*(const line *)((address) + at))

/// y[i] = formula(AT), of type T, for all i below n; AT(x) in the formula is x[i]. If `streams`,
/// past the caches.
#define TALC_CPU_WRITE(streams, n, y, T, formula)                                                  \
    {                                                                                              \
        typedef T line __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));            \
        int64_t at = 0;                                                                            \
        if (streams) {                                                                             \
            for (; at < (n) && (uintptr_t)((y) + at) % sizeof(line) != 0; at++)                    \
                (y)[at] = formula(TALC_CPU_ELEMENT);                                               \
            for (; at + (int64_t)(sizeof(line) / sizeof(T)) <= (n);                                \
                 at += sizeof(line) / sizeof(T)) {                                                 \
                const line values = formula(TALC_CPU_LINE);                                        \
                talc_cpu_stream_line((y) + at, &values);                                           \
            }                                                                                      \
        }                                                                                          \
        for (; at < (n); at++)                                                                     \
            (y)[at] = formula(TALC_CPU_ELEMENT);                                                   \
    }

static inline void talc_cpu_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
