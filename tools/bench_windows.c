/// The set "windows" of `talc bench`: pooling of planes of many sizes, in f32 and f64.
#include "tools/bench_due.h"
#include "tools/bench_ops_pool.h"

#include <stddef.h>

// ---- The ops, and what an element of their results is made of -------------------------------------------------

#define OP(name, running, place)                                                                   \
    static talc_tensor *run_##name(const talc_tensor *x)                                           \
    {                                                                                              \
        return running;                                                                            \
    }                                                                                              \
    static bench_gather place_##name(int64_t side, int64_t index)                                  \
    {                                                                                              \
        return place;                                                                              \
    }

// clang-format off
OP(max_3,  bench_max_pool(x, 3, 1, 1),         bench_window(side, index, 3, 1, 1))
OP(max_5,  bench_max_pool(x, 5, 1, 2),         bench_window(side, index, 5, 1, 2))
OP(max_3s, bench_max_pool(x, 3, 2, 1),         bench_window(side, index, 3, 2, 1))
OP(max_4,  bench_max_pool(x, 4, 1, 0),         bench_window(side, index, 4, 1, 0))
OP(max_11, bench_max_pool(x, 11, 11, 0),       bench_window(side, index, 11, 11, 0))
OP(max_2,  bench_max_pool(x, 2, 2, 0),         bench_window(side, index, 2, 2, 0))
OP(max_3i, bench_max_pool_indices(x, 3, 1, 1), bench_window(side, index, 3, 1, 1))
OP(max_2i, bench_max_pool_indices(x, 2, 2, 0), bench_window(side, index, 2, 2, 0))
OP(avg_3,  bench_avg_pool(x, 3, 1, 1),         bench_window(side, index, 3, 1, 1))
OP(avg_5,  bench_avg_pool(x, 5, 1, 2),         bench_window(side, index, 5, 1, 2))
OP(avg_4,  bench_avg_pool(x, 4, 4, 0),         bench_window(side, index, 4, 4, 0))
OP(to_7,   talc_adaptive_avg_pool2d(x, 7, 7),  bench_adaptive(side, index, 7))
OP(to_1,   talc_adaptive_avg_pool2d(x, 1, 1),  bench_adaptive(side, index, 1))

/* For people, reads with f32 and with f64, as indices have 8 bytes in both, and what it must be in both. */
#define IS_max_3  "maximum 3x3, stride 1",               1,   1,    bench_largest,  bench_largest
#define IS_max_5  "maximum 5x5, stride 1",               1,   1,    bench_largest,  bench_largest
#define IS_max_3s "maximum 3x3, stride 2",               1,   1,    bench_largest,  bench_largest
#define IS_max_4  "maximum 4x4, stride 1",               1,   1,    bench_largest,  bench_largest
#define IS_max_11 "maximum 11x11",                       1,   1,    bench_largest,  bench_largest
#define IS_max_2  "maximum 2x2",                         1,   1,    bench_largest,  bench_largest
#define IS_max_3i "maximum 3x3, stride 1, with indices", 3,   2,    bench_largest,  bench_largest
#define IS_max_2i "maximum 2x2, with indices",           1.5, 1.25, bench_largest,  bench_largest
#define IS_avg_3  "average 3x3, stride 1",               1,   1,    bench_averaged, bench_averaged_f64
#define IS_avg_5  "average 5x5, stride 1",               1,   1,    bench_averaged, bench_averaged_f64
#define IS_avg_4  "average 4x4",                         1,   1,    bench_averaged, bench_averaged_f64
#define IS_to_7   "adaptive average to 7x7",             1,   1,    bench_averaged, bench_averaged_f64
#define IS_to_1   "global average",                      1,   1,    bench_averaged, bench_averaged_f64

/* ROW(op, planes' side) */
#define ROWS(ROW)                                                                                           \
    ROW(max_3, 512) ROW(max_3, 64) ROW(max_3, 56) ROW(max_3, 28) ROW(max_3, 14) ROW(max_3, 8) ROW(max_3, 7) \
    ROW(max_3s, 147) ROW(max_3s, 112) ROW(max_3s, 56) ROW(max_3s, 28) ROW(max_3s, 14) ROW(max_3s, 8) ROW(max_3s, 7)         \
    ROW(max_2, 112) ROW(max_2, 56) ROW(max_2, 8) ROW(max_2, 7) ROW(max_2, 4)                                \
    ROW(max_4, 512) ROW(max_11, 2048)                                                                       \
    ROW(max_5, 512) ROW(max_5, 56) ROW(max_5, 28) ROW(max_5, 20) ROW(max_5, 13) ROW(max_5, 8)               \
    ROW(max_3i, 512) ROW(max_3i, 64) ROW(max_3i, 14)                                                        \
    ROW(max_2i, 512) ROW(max_2i, 64) ROW(max_2i, 14)                                                        \
    ROW(avg_3, 512) ROW(avg_3, 56) ROW(avg_3, 35) ROW(avg_3, 17) ROW(avg_3, 14) ROW(avg_3, 8) ROW(avg_3, 7) \
    ROW(avg_5, 512) ROW(avg_5, 56) ROW(avg_5, 28) ROW(avg_5, 17) ROW(avg_5, 8)                              \
    ROW(avg_4, 512) ROW(avg_4, 64)                                                                          \
    ROW(to_7, 512) ROW(to_7, 56) ROW(to_7, 16) ROW(to_7, 14)                                                \
    ROW(to_1, 512) ROW(to_1, 56) ROW(to_1, 14) ROW(to_1, 7)
// clang-format on

// ---- On planes of one size ------------------------------------------------------------------------------------

#define DEFINE(op, side)                                                                           \
    static talc_tensor *run_##op##_##side(const bench_data *d)                                     \
    {                                                                                              \
        return run_##op(bench_planes(d->x, side));                                                 \
    }                                                                                              \
    static talc_tensor *run_##op##_##side##_f64(const bench_data *d)                               \
    {                                                                                              \
        return run_##op(bench_planes(d->doubles, side));                                           \
    }                                                                                              \
    static bench_gather place_##op##_##side(const bench_data *d, int64_t index)                    \
    {                                                                                              \
        (void)d;                                                                                   \
        return place_##op(side, index);                                                            \
    }

ROWS(DEFINE)

// clang-format off
#define ENTRIES(op, side) ENTRIES_OF(op, side, IS_##op)
#define ENTRIES_OF(...) ENTRIES_AS(__VA_ARGS__)
#define ENTRIES_AS(op, side, what, reads, reads_f64, due, due_f64)                                                                 \
    { "windows", #op "_" #side, "[N,1," #side "," #side "], " what, run_##op##_##side, reads, place_##op##_##side, due },              \
    { "windows", #op "_" #side "_f64", "the same of f64", run_##op##_##side##_f64, reads_f64, place_##op##_##side, due_f64 },

const bench_op bench_windows[] = {
    ROWS(ENTRIES)
    { NULL, NULL, NULL, NULL, 0, NULL, NULL },
};
// clang-format on
