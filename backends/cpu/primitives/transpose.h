/// Transposing matrices of f32 and f64. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_TRANSPOSE_H
#define TALC_BACKENDS_CPU_PRIMITIVES_TRANSPOSE_H

#include "backends/cpu/primitives/element.h"
#include "tensor/extent.h"

enum { TALC_CPU_TRANSPOSED = 16 };

/* Elements i, j, k, l of a and b, those of b from 4 on. */
#if defined(__clang__)
#define MIX(index, a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define MIX(index, a, b, i, j, k, l) __builtin_shuffle(a, b, (index){ i, j, k, l })
#endif

typedef int32_t index_f32 __attribute__((vector_size(16)));
typedef int64_t index_f64 __attribute__((vector_size(32)));

/* Four rows that lie `ld` apart to four columns that lie `to_ld` apart. */
#define TRANSPOSE_BLOCK(constant, suffix, T, A)                                                    \
    typedef T quad_##suffix                                                                        \
        __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));                \
                                                                                                   \
    static inline void transpose_block_##suffix(const T *from, int64_t ld, T *to, int64_t to_ld)   \
    {                                                                                              \
        const quad_##suffix r0 = *(const quad_##suffix *)from;                                     \
        const quad_##suffix r1 = *(const quad_##suffix *)(from + ld);                              \
        const quad_##suffix r2 = *(const quad_##suffix *)(from + 2 * ld);                          \
        const quad_##suffix r3 = *(const quad_##suffix *)(from + 3 * ld);                          \
        const quad_##suffix a = MIX(index_##suffix, r0, r1, 0, 4, 1, 5);                           \
        const quad_##suffix b = MIX(index_##suffix, r2, r3, 0, 4, 1, 5);                           \
        const quad_##suffix c = MIX(index_##suffix, r0, r1, 2, 6, 3, 7);                           \
        const quad_##suffix d = MIX(index_##suffix, r2, r3, 2, 6, 3, 7);                           \
        *(quad_##suffix *)to = MIX(index_##suffix, a, b, 0, 1, 4, 5);                              \
        *(quad_##suffix *)(to + to_ld) = MIX(index_##suffix, a, b, 2, 3, 6, 7);                    \
        *(quad_##suffix *)(to + 2 * to_ld) = MIX(index_##suffix, c, d, 0, 1, 4, 5);                \
        *(quad_##suffix *)(to + 3 * to_ld) = MIX(index_##suffix, c, d, 2, 3, 6, 7);                \
    }

TALC_CPU_FLOATS(TRANSPOSE_BLOCK)

/* to[column][row] = from[row][column]. Columns go a few lines at a time, as either side may have
 * its rows in the same sets of the cache. */
#define TRANSPOSE(constant, suffix, T, A)                                                          \
    static void talc_cpu_transpose_##suffix(int64_t rows, int64_t columns, const T *restrict from, \
                                            int64_t ld, T *restrict to, int64_t to_ld)             \
    {                                                                                              \
        for (int64_t first = 0; first < columns; first += TALC_CPU_TRANSPOSED) {                   \
            const int64_t last = talc_smaller(first + TALC_CPU_TRANSPOSED, columns);               \
            for (int64_t row = 0; row < rows; row += 4) {                                          \
                int64_t column = first;                                                            \
                if (row + 4 <= rows)                                                               \
                    for (; column + 4 <= last; column += 4)                                        \
                        transpose_block_##suffix(from + row * ld + column, ld,                     \
                                                 to + column * to_ld + row, to_ld);                \
                for (int64_t i = row; i < talc_smaller(row + 4, rows); i++)                        \
                    for (int64_t j = column; j < last; j++)                                        \
                        to[j * to_ld + i] = from[i * ld + j];                                      \
            }                                                                                      \
        }                                                                                          \
    }

TALC_CPU_FLOATS(TRANSPOSE)

#undef TRANSPOSE
#undef TRANSPOSE_BLOCK
#undef MIX

#endif
