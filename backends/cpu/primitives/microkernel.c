#include "backends/cpu/primitives/microkernel.h"

#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"

/* The build says which generation is compiled, as the target of the whole library may have AVX as
 * well.
 *
 * How many rows fit the registers beside one vector for each column of the tile and one for the
 * element that is broadcast: of 16 registers 4 * 3 + 3 + 1 or 6 * 2 + 2 + 1, of 32 8 * 3 + 3 + 1 or
 * 12 * 2 + 2 + 1. Of depthwise's outputs 14 or 28, which divide the extents of most
 * networks' layers. */
#if defined(TALC_UNITS_AVX512)
#define INSTANCE talc_cpu_microkernels_avx512
#define NAME     "avx512"
enum { VECTOR_BYTES = 64, WIDE_ROWS = 8, ROWS = 12, DEPTHWISE_OUTPUTS = 28 };
#elif defined(TALC_UNITS_AVX2)
#define INSTANCE talc_cpu_microkernels_avx2
#define NAME     "avx2"
enum { VECTOR_BYTES = 32, WIDE_ROWS = 4, ROWS = 6, DEPTHWISE_OUTPUTS = 14 };
#else
#define INSTANCE talc_cpu_microkernels_portable
#define NAME     "portable"
enum { VECTOR_BYTES = 16, WIDE_ROWS = 4, ROWS = 6, DEPTHWISE_OUTPUTS = 14 };
#endif

/* Loops over rows and vectors have to be unrolled, or the sums would stand in memory. Clang unrolls
 * them unasked. */
#if defined(__clang__)
#define EACH(i, count) for (int i = 0; i < (count); i++)
#else
#define EACH(i, count) _Pragma("GCC unroll 28") for (int i = 0; i < (count); i++)
#endif

/* The rows' addresses. A few have a register each; compilers would rather step from row to row, by
 * one more instruction for each. AVX-512 has more rows than registers for addresses, and gcc would
 * keep some in vector registers, whose moves take turns of the multipliers: 8 % of the time. So
 * they are read again for each term, from the L1 cache. */
#if defined(TALC_UNITS_AVX512)
#define HOLD(pointer) (void)(pointer)
#define READ_AGAIN()  __asm__ volatile("" ::: "memory")
#define ROW(i)        t->a[i]
#else
#define HOLD(pointer) __asm__("" : "+r"(pointer))
#define READ_AGAIN()
#define ROW(i) a[i]
#endif

/* The lesser and the greater of a and b, and b where either is NaN, which compilers do not make of
 * comparisons of vectors. */
#if defined(TALC_UNITS_AVX512)
#include <immintrin.h>
#define MIN_f32 _mm512_min_ps
#define MAX_f32 _mm512_max_ps
#define MIN_f64 _mm512_min_pd
#define MAX_f64 _mm512_max_pd
#elif defined(TALC_UNITS_AVX2)
#include <immintrin.h>
#define MIN_f32 _mm256_min_ps
#define MAX_f32 _mm256_max_ps
#define MIN_f64 _mm256_min_pd
#define MAX_f64 _mm256_max_pd
#else
#define CHOOSE(a, b, condition)                                                                    \
    ((__typeof__(b))(((__typeof__(a < b))(a) & (condition)) |                                      \
                     ((__typeof__(a < b))(b) & ~(condition))))
#define MIN_f32(a, b) CHOOSE(a, b, (a) < (b))
#define MAX_f32(a, b) CHOOSE(a, b, (a) > (b))
#define MIN_f64       MIN_f32
#define MAX_f64       MAX_f32
#endif

/* The kernels of a type: `vector` in registers, `stored` at any address of an element. */
#define KERNELS(constant, suffix, T, A)                                                            \
    typedef T vector_##suffix __attribute__((vector_size(VECTOR_BYTES)));                          \
    typedef T stored_##suffix                                                                      \
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));                 \
                                                                                                   \
    /* NaN stays NaN. */                                                                           \
    TALC_ALWAYS_INLINE vector_##suffix between_##suffix(vector_##suffix x, T low, T high)          \
    {                                                                                              \
        const vector_##suffix zero = { 0 };                                                        \
        const vector_##suffix held = MAX_##suffix(zero + low, x);                                  \
        return MIN_##suffix(zero + high, held);                                                    \
    }                                                                                              \
                                                                                                   \
    /* Which of two NaN a sum is differs by tile, so all become the same one. */                   \
    TALC_ALWAYS_INLINE vector_##suffix one_nan_##suffix(vector_##suffix x)                         \
    {                                                                                              \
        return (vector_##suffix)((__typeof__(x != x))x | (x != x));                                \
    }                                                                                              \
                                                                                                   \
    TALC_ALWAYS_INLINE void tile_##suffix(const int vectors, const int rows,                       \
                                          const talc_cpu_tile *t)                                  \
    {                                                                                              \
        const T *a[ROWS], *b[TALC_CPU_VECTORS];                                                    \
        const T *next = (const T *)t->b[0] + t->prefetch_distance;                                 \
        T *c = t->c;                                                                               \
        vector_##suffix sums[ROWS][TALC_CPU_VECTORS], loaded[TALC_CPU_VECTORS];                    \
        EACH(v, vectors)                                                                           \
        {                                                                                          \
            b[v] = t->b[v];                                                                        \
        }                                                                                          \
        EACH(i, rows)                                                                              \
        {                                                                                          \
            a[i] = t->a[i];                                                                        \
            HOLD(a[i]);                                                                            \
            EACH(v, vectors)                                                                       \
            {                                                                                      \
                sums[i][v] = (vector_##suffix){ 0 };                                               \
            }                                                                                      \
        }                                                                                          \
        if (t->accumulate)                                                                         \
            EACH(i, rows)                                                                          \
            {                                                                                      \
                EACH(v, vectors)                                                                   \
                {                                                                                  \
                    sums[i][v] = ((const stored_##suffix *)(c + i * t->ldc))[v];                   \
                }                                                                                  \
            }                                                                                      \
        const talc_cpu_term *end = t->terms + t->count;                                            \
        for (const talc_cpu_term *term = t->terms; term < end; term++) {                           \
            const int64_t of_a = term->a, of_b = term->b;                                          \
            READ_AGAIN();                                                                          \
            if (VECTOR_BYTES < 64)                                                                 \
                __builtin_prefetch(next + of_b);                                                   \
            EACH(v, vectors)                                                                       \
            {                                                                                      \
                loaded[v] = *(const stored_##suffix *)(b[v] + of_b);                               \
            }                                                                                      \
            EACH(i, rows)                                                                          \
            {                                                                                      \
                const T *row = ROW(i);                                                             \
                EACH(v, vectors)                                                                   \
                {                                                                                  \
                    sums[i][v] += row[of_a] * loaded[v];                                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        if (t->epilogue)                                                                           \
            EACH(i, rows)                                                                          \
            {                                                                                      \
                const T bias = t->bias == NULL ? -(T)0 : ((const T *)t->bias)[i];                  \
                EACH(v, vectors)                                                                   \
                {                                                                                  \
                    sums[i][v] = between_##suffix(sums[i][v] + bias, (T)t->low, (T)t->high);       \
                }                                                                                  \
            }                                                                                      \
        EACH(i, rows)                                                                              \
        {                                                                                          \
            EACH(v, vectors)                                                                       \
            {                                                                                      \
                ((stored_##suffix *)(c + i * t->ldc))[v] = one_nan_##suffix(sums[i][v]);           \
            }                                                                                      \
        }                                                                                          \
    }

/* Each size is a function, so that a small tile does no more work than it has to. */
#define FUNCTION(suffix, vectors, rows)                                                            \
    static void tile_##suffix##_##vectors##x##rows(const talc_cpu_tile *tile)                      \
    {                                                                                              \
        tile_##suffix(vectors, rows, tile);                                                        \
    }

#define UP_TO_4(X, ...) X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4)
#define UP_TO_6(X, ...) UP_TO_4(X, __VA_ARGS__) X(__VA_ARGS__, 5) X(__VA_ARGS__, 6)
#define UP_TO_8(X, ...) UP_TO_6(X, __VA_ARGS__) X(__VA_ARGS__, 7) X(__VA_ARGS__, 8)
#define UP_TO_12(X, ...)                                                                           \
    UP_TO_8(X, __VA_ARGS__)                                                                        \
    X(__VA_ARGS__, 9) X(__VA_ARGS__, 10) X(__VA_ARGS__, 11) X(__VA_ARGS__, 12)
#define UP_TO_14(X, ...) UP_TO_12(X, __VA_ARGS__) X(__VA_ARGS__, 13) X(__VA_ARGS__, 14)
#define UP_TO_21(X, ...)                                                                           \
    UP_TO_14(X, __VA_ARGS__)                                                                       \
    X(__VA_ARGS__, 15)                                                                             \
    X(__VA_ARGS__, 16)                                                                             \
    X(__VA_ARGS__, 17) X(__VA_ARGS__, 18) X(__VA_ARGS__, 19) X(__VA_ARGS__, 20) X(__VA_ARGS__, 21)
#define UP_TO_28(X, ...)                                                                           \
    UP_TO_21(X, __VA_ARGS__)                                                                       \
    X(__VA_ARGS__, 22)                                                                             \
    X(__VA_ARGS__, 23)                                                                             \
    X(__VA_ARGS__, 24) X(__VA_ARGS__, 25) X(__VA_ARGS__, 26) X(__VA_ARGS__, 27) X(__VA_ARGS__, 28)

#if defined(TALC_UNITS_AVX512)
#define EACH_SIZE(X, suffix) UP_TO_12(X, suffix, 1) UP_TO_12(X, suffix, 2) UP_TO_8(X, suffix, 3)
#define EACH_OUTPUTS         UP_TO_28
#else
#define EACH_SIZE(X, suffix) UP_TO_6(X, suffix, 1) UP_TO_6(X, suffix, 2) UP_TO_4(X, suffix, 3)
#define EACH_OUTPUTS         UP_TO_14
#endif

#define ALL_KERNELS(constant, suffix, T, A)                                                        \
    KERNELS(constant, suffix, T, A)                                                                \
    EACH_SIZE(FUNCTION, suffix)

TALC_CPU_FLOATS(ALL_KERNELS)

/* A vector has PARTS of 16 bytes: exchanges in each, vectors joined of them, part j of one, and
 * the parts j of v[0][k], v[1][k], ... */
#if defined(TALC_UNITS_AVX512)
#define LOW_f32    _mm512_unpacklo_ps
#define HIGH_f32   _mm512_unpackhi_ps
#define LOW_f64    _mm512_unpacklo_pd
#define HIGH_f64   _mm512_unpackhi_pd
#define PAIR(a, b) _mm256_insertf128_ps(_mm256_castps128_ps256((__m128)(a)), (__m128)(b), 1)
#define JOIN(b)                                                                                    \
    _mm512_insertf64x4(_mm512_castpd256_pd512((__m256d)PAIR((b)[0], (b)[1])),                      \
                       (__m256d)PAIR((b)[2], (b)[3]), 1)
#define PART(v, j)   _mm512_extractf32x4_ps((__m512)(v), j)
#define TWO(a, b, j) _mm512_shuffle_f32x4((__m512)(a), (__m512)(b), (j) / 2 == 0 ? 0x44 : 0xee)
#define EXCHANGED(v, k, j)                                                                         \
    _mm512_shuffle_f32x4(TWO((v)[0][k], (v)[1][k], j), TWO((v)[2][k], (v)[3][k], j),               \
                         (j) % 2 == 0 ? 0x88 : 0xdd)
#define EACH_PART(X) X(0) X(1) X(2) X(3)
#elif defined(TALC_UNITS_AVX2)
#define LOW_f32    _mm256_unpacklo_ps
#define HIGH_f32   _mm256_unpackhi_ps
#define LOW_f64    _mm256_unpacklo_pd
#define HIGH_f64   _mm256_unpackhi_pd
#define JOIN(b)    _mm256_insertf128_ps(_mm256_castps128_ps256((__m128)(b)[0]), (__m128)(b)[1], 1)
#define PART(v, j) _mm256_extractf128_ps((__m256)(v), j)
#define EXCHANGED(v, k, j)                                                                         \
    _mm256_permute2f128_ps((__m256)(v)[0][k], (__m256)(v)[1][k], (j) == 0 ? 0x20 : 0x31)
#define EACH_PART(X) X(0) X(1)
#else
#define LOW_f32(a, b)      __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_f32(a, b)     __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_f64(a, b)      __builtin_shufflevector(a, b, 0, 2)
#define HIGH_f64(a, b)     __builtin_shufflevector(a, b, 1, 3)
#define JOIN(b)            (b)[0]
#define PART(v, j)         (v)
#define EXCHANGED(v, k, j) (v)[0][k]
#define EACH_PART(X)       X(0)
#endif

enum { PARTS = VECTOR_BYTES / 16 };

typedef double pairs __attribute__((vector_size(VECTOR_BYTES)));

#define DEPTHWISE_QUADS
#define real     float
#define TYPED(x) x##_f32
#include "backends/cpu/primitives/depthwise_microkernel.h"

#undef DEPTHWISE_QUADS
#define real     double
#define TYPED(x) x##_f64
#include "backends/cpu/primitives/depthwise_microkernel.h"

/* Every stride-th element, with AVX-512 by vectors at the strides that networks have: `stride`
 * loads serve all ways. The last vector ends with its last element, so that no more is read. */
#if defined(TALC_UNITS_AVX512)
#define PICK_f32(a, at, b)                                                                         \
    (vector_f32) _mm512_permutex2var_ps((__m512)(a), (__m512i)(at), (__m512)(b))
#define PICK_f64(a, at, b)                                                                         \
    (vector_f64) _mm512_permutex2var_pd((__m512d)(a), (__m512i)(at), (__m512d)(b))
#define FIRST_f32(count, x) (vector_f32) _mm512_maskz_loadu_ps((__mmask16)((1 << (count)) - 1), x)
#define FIRST_f64(count, x) (vector_f64) _mm512_maskz_loadu_pd((__mmask8)((1 << (count)) - 1), x)

#define INDEX_f32           int32_t
#define INDEX_f64           int64_t

#define BY_VECTORS(constant, suffix, T, A)                                                         \
    typedef INDEX_##suffix index_##suffix __attribute__((vector_size(VECTOR_BYTES)));              \
                                                                                                   \
    TALC_ALWAYS_INLINE void by_vectors_##suffix(int64_t count, int64_t ways, const T *from,        \
                                                const int stride, T *to, int64_t to_way)           \
    {                                                                                              \
        enum { LANES = VECTOR_BYTES / sizeof(T) };                                                 \
        vector_##suffix v[4];                                                                      \
        index_##suffix lane = { 0 }, halves = { 0 }, own = { 0 };                                  \
        EACH(i, LANES)                                                                             \
        {                                                                                          \
            lane[i] = i * stride;                                                                  \
            halves[i] = i < LANES / 2 ? i : i + LANES / 2;                                         \
            own[i] = i;                                                                            \
        }                                                                                          \
        for (int64_t at = 0; at < count; at += LANES) {                                            \
            at = at < count - LANES ? at : count - LANES;                                          \
            const T *x = from + at * stride;                                                       \
            EACH(k, stride - 1)                                                                    \
            {                                                                                      \
                v[k] = *(const stored_##suffix *)(x + k * LANES);                                  \
            }                                                                                      \
            v[stride - 1] = FIRST_##suffix(LANES - stride + ways, x + (stride - 1) * LANES);       \
            for (int64_t way = 0; way < ways; way++) {                                             \
                const index_##suffix of = lane + (INDEX_##suffix)way;                              \
                const index_##suffix in_third = of >= 2 * LANES;                                   \
                vector_##suffix picked = PICK_##suffix(v[0], of, v[1]);                            \
                if (stride == 3)                                                                   \
                    picked = PICK_##suffix(picked, (in_third & (of - LANES)) | (~in_third & own),  \
                                           v[2]);                                                  \
                if (stride == 4)                                                                   \
                    picked = PICK_##suffix(picked, halves, PICK_##suffix(v[2], of, v[3]));         \
                *(stored_##suffix *)(to + way * to_way + at) = picked;                             \
            }                                                                                      \
        }                                                                                          \
    }

TALC_CPU_FLOATS(BY_VECTORS)

#define ADD_RUN_f32(v, lanes, x) (vector_f32) _mm512_mask_loadu_ps((__m512)(v), lanes, x)
#define ADD_RUN_f64(v, lanes, x)                                                                   \
    (vector_f64) _mm512_mask_loadu_pd((__m512d)(v), (__mmask8)(lanes), x)

#define GATHER(constant, suffix, T, A)                                                             \
    static void gather_##suffix(const talc_cpu_runs *runs, int64_t tiles, const void *x, void *y,  \
                                int64_t to_tile)                                                   \
    {                                                                                              \
        enum { LANES = VECTOR_BYTES / sizeof(T) };                                                 \
        const T *from = x;                                                                         \
        T *to = y;                                                                                 \
        for (int64_t tile = 0; tile < tiles; tile++, to += to_tile)                                \
            EACH(v, TALC_CPU_VECTORS)                                                              \
            {                                                                                      \
                vector_##suffix all = { 0 };                                                       \
                for (int i = 0; i < TALC_CPU_RUNS && runs->lanes[i] != 0; i++)                     \
                    all = ADD_RUN_##suffix(all, runs->lanes[i], from + runs->at[i]);               \
                *(stored_##suffix *)(to + v * LANES) = all;                                        \
                runs++;                                                                            \
            }                                                                                      \
    }

TALC_CPU_FLOATS(GATHER)
#else
#define by_vectors_f32 each_f32
#define by_vectors_f64 each_f64
#define gather_f32     NULL
#define gather_f64     NULL
#endif

/* `count` copies of some bytes, from one end of `from` to the other. */
static inline void side_by_side(int64_t count, size_t bytes, const char *from, char *to,
                                size_t to_step)
{
    if (bytes == 16)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (size_t)i * to_step, from + (size_t)i * 16, 16);
    else if (bytes == 32)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (size_t)i * to_step, from + (size_t)i * 32, 32);
    else
        for (int64_t i = 0; i < count; i++)
            talc_cpu_short_copy(to + (size_t)i * to_step, from + (size_t)i * bytes, bytes);
}

#define STRIDED(constant, suffix, T, A)                                                            \
    TALC_ALWAYS_INLINE void each_##suffix(int64_t count, int64_t ways, const T *restrict from,     \
                                          const int64_t stride, T *restrict to, int64_t to_way)    \
    {                                                                                              \
        for (int64_t way = 0; way < ways; way++)                                                   \
            for (int64_t i = 0; i < count; i++)                                                    \
                to[way * to_way + i] = from[i * stride + way];                                     \
    }                                                                                              \
                                                                                                   \
    static void strided_##suffix(int64_t rows, int64_t count, int64_t ways, const void *x,         \
                                 int64_t from_row, int64_t stride, void *y, int64_t to_row,        \
                                 int64_t to_way, int64_t next)                                     \
    {                                                                                              \
        const T *from = x;                                                                         \
        T *to = y;                                                                                 \
        const int64_t known = count < VECTOR_BYTES / (int64_t)sizeof(T) ? 0 : stride;              \
        /* Elements whose lines are all read; of a wider stride most are not. */                   \
        const int64_t near = stride == 1 ? count * ways : stride <= 4 ? count * stride : 0;        \
        for (int64_t row = 0; row < rows; row++, from += from_row, to += to_row) {                 \
            for (int64_t i = 0; i < near; i += 64 / (int64_t)sizeof(T))                            \
                __builtin_prefetch(from + next + i);                                               \
            if (stride == 1)                                                                       \
                side_by_side(ways, (size_t)count * sizeof(T), (const char *)from, (char *)to,      \
                             (size_t)to_way * sizeof(T));                                          \
            else if (known == 2)                                                                   \
                by_vectors_##suffix(count, ways, from, 2, to, to_way);                             \
            else if (known == 3)                                                                   \
                by_vectors_##suffix(count, ways, from, 3, to, to_way);                             \
            else if (known == 4)                                                                   \
                by_vectors_##suffix(count, ways, from, 4, to, to_way);                             \
            else                                                                                   \
                each_##suffix(count, ways, from, stride, to, to_way);                              \
        }                                                                                          \
    }

TALC_CPU_FLOATS(STRIDED)

#define ENTRY(suffix, vectors, rows) [vectors][rows] = tile_##suffix##_##vectors##x##rows,
#define TABLE(constant, suffix, T, A)                                                              \
    .suffix = { .lanes = VECTOR_BYTES / sizeof(T),                                                 \
                .rows = { 0, ROWS, ROWS, WIDE_ROWS },                                              \
                .tile = { EACH_SIZE(ENTRY, suffix) },                                              \
                .strided = strided_##suffix,                                                       \
                .gather = gather_##suffix,                                                         \
                .to_lanes = depthwise_to_lanes_##suffix,                                           \
                .from_lanes = depthwise_from_lanes_##suffix,                                       \
                .depthwise_sums = depthwise_sums_##suffix,                                         \
                .depthwise_products = depthwise_products_##suffix },

const talc_cpu_microkernels INSTANCE = { .name = NAME, TALC_CPU_FLOATS(TABLE) };
