/// The set "uneven" of `talc bench`: reductions and norms whose rows and planes fill no whole accesses, and f64.
///
/// x is seen as [A, K, B], of which K is reduced, or as [N, C, H*W], as much of it as makes whole ones.
#include "tools/bench_due.h"

#include <math.h>
#include <stddef.h>

typedef bench_gather gather;

// ---- Where a result comes from ------------------------------------------------------------------------------

static gather over_middle(int64_t index, int64_t K, int64_t B)
{
    return (gather){ 0, index / B * K * B + index % B, { K, 1, 1 }, { B } };
}

static gather over_images(const bench_data *d, int64_t c, int64_t C, int64_t plane)
{
    return (gather){ 0, c * plane, { d->count / C / plane, plane, 1 }, { C * plane, 1 } };
}

static gather within_channel(const bench_data *d, int64_t index, int64_t C, int64_t plane)
{
    gather g = over_images(d, index / plane % C, C, plane);
    g.at = index;
    return g;
}

#define PLACE(name, expression)                                                                    \
    static gather name(const bench_data *d, int64_t index)                                         \
    {                                                                                              \
        (void)d, (void)index;                                                                      \
        return expression;                                                                         \
    }

PLACE(rows_4, over_middle(index, 4, 1))
PLACE(rows_10, over_middle(index, 10, 1))
PLACE(rows_16, over_middle(index, 16, 1))
PLACE(rows_36, over_middle(index, 36, 1))
PLACE(rows_49, over_middle(index, 49, 1))
PLACE(rows_64, over_middle(index, 64, 1))
PLACE(rows_100, over_middle(index, 100, 1))
PLACE(rows_196, over_middle(index, 196, 1))
PLACE(rows_1001, over_middle(index, 1001, 1))
PLACE(rows_1024, over_middle(index, 1024, 1))
PLACE(rows_65537, over_middle(index, 65537, 1))
PLACE(all_but_one, over_middle(index, d->count - 1, 1))
PLACE(first_half, over_middle(index, d->count / 2, 1))
PLACE(columns_1001, over_middle(index, d->count / 1001, 1001))
PLACE(columns_1024, over_middle(index, d->count / 2 / 1024, 1024))
PLACE(middle_64x4096, over_middle(index, 64, 4096))
PLACE(middle_512x49, over_middle(index, 512, 49))
PLACE(middle_100x3, over_middle(index, 100, 3))
PLACE(channels_7, over_images(d, index, 512, 49))
PLACE(channels_14, over_images(d, index, 256, 196))
PLACE(channels_35, over_images(d, index, 64, 1225))
PLACE(its_channel_7, within_channel(d, index, 512, 49))
PLACE(its_channel_14, within_channel(d, index, 256, 196))
PLACE(its_channel_35, within_channel(d, index, 64, 1225))

// ---- Running ------------------------------------------------------------------------------------------------

/* [A, K, B]; K 0: as large as it can be. */
static talc_tensor *seen_as(const talc_tensor *x, int64_t A, int64_t K, int64_t B)
{
    const int64_t count = talc_numel(x);
    A = A == 0 ? count / K / B : A;
    K = K == 0 ? count / A / B : K;
    return talc_view(talc_slice(x, 0, 0, A * K * B, 1), TALC_DIMS(A, K, B));
}

static talc_tensor *image(const bench_data *d, int64_t C, int64_t side)
{
    const int64_t N = d->count / C / side / side;
    return talc_view(talc_slice(d->x, 0, 0, N * C * side * side, 1), TALC_DIMS(N, C, side, side));
}

static talc_tensor *normal(const bench_data *d, int64_t C, int64_t side, bool training)
{
    talc_tensor *half = talc_slice(d->halves, 0, 0, C, 1);
    talc_tensor *var = training ? NULL : talc_slice(d->quarters, 0, 0, C, 1);
    return talc_batch_norm2d(image(d, C, side), half, half, training ? NULL : half, var,
                             &(talc_batch_norm2d_options){ .training = training });
}

#define RUN(name, expression)                                                                      \
    static talc_tensor *run_##name(const bench_data *d)                                            \
    {                                                                                              \
        return expression;                                                                         \
    }

#define MIDDLE TALC_DIMS(1), false

RUN(sum_rows_4, talc_sum(seen_as(d->x, 0, 4, 1), MIDDLE))
RUN(sum_rows_10, talc_sum(seen_as(d->x, 0, 10, 1), MIDDLE))
RUN(max_rows_10, talc_max(seen_as(d->x, 0, 10, 1), MIDDLE))
RUN(argmax_rows_10, talc_argmax(seen_as(d->x, 0, 10, 1), MIDDLE))
RUN(sum_rows_16, talc_sum(seen_as(d->x, 0, 16, 1), MIDDLE))
RUN(sum_rows_36, talc_sum(seen_as(d->x, 0, 36, 1), MIDDLE))
RUN(sum_rows_64, talc_sum(seen_as(d->x, 0, 64, 1), MIDDLE))
RUN(sum_rows_100, talc_sum(seen_as(d->x, 0, 100, 1), MIDDLE))
RUN(argmax_rows_100, talc_argmax(seen_as(d->x, 0, 100, 1), MIDDLE))
RUN(sum_rows_1001, talc_sum(seen_as(d->x, 0, 1001, 1), MIDDLE))
RUN(max_rows_1001, talc_max(seen_as(d->x, 0, 1001, 1), MIDDLE))
RUN(argmax_rows_1001, talc_argmax(seen_as(d->x, 0, 1001, 1), MIDDLE))
RUN(sum_rows_65537, talc_sum(seen_as(d->x, 0, 65537, 1), MIDDLE))
RUN(sum_odd, talc_sum(seen_as(d->x, 1, d->count - 1, 1), TALC_SCALAR, false))
RUN(sum_columns_1001, talc_sum(seen_as(d->x, 1, 0, 1001), MIDDLE))
RUN(argmax_columns_1001, talc_argmax(seen_as(d->x, 1, 0, 1001), MIDDLE))
RUN(sum_middle, talc_sum(seen_as(d->x, 0, 64, 4096), MIDDLE))
RUN(sum_middle_7, talc_sum(seen_as(d->x, 0, 512, 49), MIDDLE))
RUN(argmax_middle_7, talc_argmax(seen_as(d->x, 0, 512, 49), MIDDLE))
RUN(sum_middle_3, talc_sum(seen_as(d->x, 0, 100, 3), MIDDLE))
RUN(mean_planes_7, talc_mean(image(d, 512, 7), TALC_DIMS(2, 3), false))
RUN(max_planes_7, talc_max(image(d, 512, 7), TALC_DIMS(2, 3), false))
RUN(mean_planes_14, talc_mean(image(d, 256, 14), TALC_DIMS(2, 3), false))
RUN(sum_channels_7, talc_sum(image(d, 512, 7), TALC_DIMS(0, 2, 3), false))
RUN(sum_channels_14, talc_sum(image(d, 256, 14), TALC_DIMS(0, 2, 3), false))
RUN(sum_channels_35, talc_sum(image(d, 64, 35), TALC_DIMS(0, 2, 3), false))
RUN(max_channels_7, talc_max(image(d, 512, 7), TALC_DIMS(0, 2, 3), false))
RUN(batch_norm_7, normal(d, 512, 7, false))
RUN(batch_norm_14, normal(d, 256, 14, false))
RUN(batch_norm_train_7, normal(d, 512, 7, true))
RUN(batch_norm_train_14, normal(d, 256, 14, true))
RUN(batch_norm_train_35, normal(d, 64, 35, true))
RUN(sum_f64, talc_sum(d->doubles, TALC_DIMS(0), false))
RUN(sum_rows_f64, talc_sum(seen_as(d->doubles, 0, 1024, 1), MIDDLE))
RUN(sum_rows_1001_f64, talc_sum(seen_as(d->doubles, 0, 1001, 1), MIDDLE))
RUN(sum_columns_f64, talc_sum(seen_as(d->doubles, 1, 0, 1024), MIDDLE))
RUN(max_rows_f64, talc_max(seen_as(d->doubles, 0, 1024, 1), MIDDLE))
RUN(argmax_rows_f64, talc_argmax(seen_as(d->doubles, 0, 1024, 1), MIDDLE))

#define ROW(name, what, reads, place, due)                                                         \
    {                                                                                              \
        "uneven", #name, what, run_##name, reads, place, due                                       \
    }

// clang-format off
const bench_op bench_ops_uneven[] = {
    ROW(sum_rows_4,          "[R,4] over the last",                      1, rows_4, bench_summed),
    ROW(sum_rows_10,         "[R,10] over the last",                     1, rows_10, bench_summed),
    ROW(max_rows_10,         "[R,10] over the last",                     1, rows_10, bench_largest),
    ROW(argmax_rows_10,      "[R,10] over the last",                     1, rows_10, bench_place_of_largest),
    ROW(sum_rows_16,         "[R,16] over the last",                     1, rows_16, bench_summed),
    ROW(sum_rows_36,         "[R,36] over the last",                     1, rows_36, bench_summed),
    ROW(sum_rows_64,         "[R,64] over the last",                     1, rows_64, bench_summed),
    ROW(sum_rows_100,        "[R,100] over the last",                    1, rows_100, bench_summed),
    ROW(argmax_rows_100,     "[R,100] over the last",                    1, rows_100, bench_place_of_largest),
    ROW(sum_rows_1001,       "[R,1001] over the last",                   1, rows_1001, bench_summed),
    ROW(max_rows_1001,       "[R,1001] over the last",                   1, rows_1001, bench_largest),
    ROW(argmax_rows_1001,    "[R,1001] over the last",                   1, rows_1001, bench_place_of_largest),
    ROW(sum_rows_65537,      "[R,65537] over the last",                  1, rows_65537, bench_summed),
    ROW(sum_odd,             "of all but one",                           1, all_but_one, bench_summed),
    ROW(sum_columns_1001,    "[R,1001] over the first",                  1, columns_1001, bench_summed),
    ROW(argmax_columns_1001, "[R,1001] over the first",                  1, columns_1001, bench_place_of_largest),
    ROW(sum_middle,          "[N,64,4096] over the second",              1, middle_64x4096, bench_summed),
    ROW(sum_middle_7,        "[N,512,49] over the second",               1, middle_512x49, bench_summed),
    ROW(argmax_middle_7,     "[N,512,49] over the second",               1, middle_512x49, bench_place_of_largest),
    ROW(sum_middle_3,        "[N,100,3] over the second",                1, middle_100x3, bench_summed),
    ROW(mean_planes_7,       "[N,512,7,7] over the last two",            1, rows_49, bench_averaged),
    ROW(max_planes_7,        "[N,512,7,7] over the last two",            1, rows_49, bench_largest),
    ROW(mean_planes_14,      "[N,256,14,14] over the last two",          1, rows_196, bench_averaged),
    ROW(sum_channels_7,      "[N,512,7,7] over all but the second",      1, channels_7, bench_summed),
    ROW(sum_channels_14,     "[N,256,14,14] over all but the second",    1, channels_14, bench_summed),
    ROW(sum_channels_35,     "[N,64,35,35] over all but the second",    1, channels_35, bench_summed),
    ROW(max_channels_7,      "[N,512,7,7] over all but the second",      1, channels_7, bench_largest),
    ROW(batch_norm_7,        "[N,512,7,7], given statistics",            1, bench_itself, bench_normalized),
    ROW(batch_norm_14,       "[N,256,14,14], given statistics",          1, bench_itself, bench_normalized),
    ROW(batch_norm_train_7,  "[N,512,7,7], its own: two passes over x",  2, its_channel_7, bench_normalized_by_itself),
    ROW(batch_norm_train_14, "[N,256,14,14], its own: two passes over x", 2, its_channel_14, bench_normalized_by_itself),
    ROW(batch_norm_train_35, "[N,64,35,35], its own: two passes over x", 2, its_channel_35, bench_normalized_by_itself),
    ROW(sum_f64,             "f64: of all",                              1, first_half, bench_summed_f64),
    ROW(sum_rows_f64,        "f64: [R,1024] over the last",              1, rows_1024, bench_summed_f64),
    ROW(sum_rows_1001_f64,   "f64: [R,1001] over the last",              1, rows_1001, bench_summed_f64),
    ROW(sum_columns_f64,     "f64: [R,1024] over the first",             1, columns_1024, bench_summed_f64),
    ROW(max_rows_f64,        "f64: [R,1024] over the last",              1, rows_1024, bench_largest),
    ROW(argmax_rows_f64,     "f64: [R,1024] over the last",              1, rows_1024, bench_place_of_largest),
    { NULL, NULL, NULL, NULL, 0, NULL, NULL },
};
// clang-format on
