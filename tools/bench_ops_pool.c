#include "tools/bench_ops_pool.h"

enum { SIDE = 64, PLANE = SIDE * SIDE };

bench_gather bench_window(int64_t from, int64_t index, int64_t kernel, int64_t stride, int64_t pad)
{
    const int64_t side = (from + 2 * pad - kernel) / stride + 1;
    const int64_t h = index / side % side * stride - pad, w = index % side * stride - pad;
    const int64_t top = h < 0 ? 0 : h, left = w < 0 ? 0 : w;
    const int64_t bottom = h + kernel > from ? from : h + kernel;
    const int64_t right = w + kernel > from ? from : w + kernel;
    return (bench_gather){ 0,
                           index / side / side * from * from + top * from + left,
                           { bottom - top, right - left, 1 },
                           { from, 1 } };
}

bench_gather bench_adaptive(int64_t from, int64_t index, int64_t to)
{
    const int64_t h = index / to % to, w = index % to, top = h * from / to, left = w * from / to;
    const int64_t bottom = (h * from + from + to - 1) / to, right = (w * from + from + to - 1) / to;
    return (bench_gather){ 0,
                           index / to / to * from * from + top * from + left,
                           { bottom - top, right - left, 1 },
                           { from, 1 } };
}

static talc_tensor *images(const bench_data *d)
{
    const int64_t N = d->count / BENCH_CHANNELS / PLANE;
    return talc_view(d->x, TALC_DIMS(N, BENCH_CHANNELS, SIDE, SIDE));
}

static talc_tensor *wide_images(const bench_data *d)
{
    const int64_t N = d->count / BENCH_CHANNELS / PLANE;
    return talc_view(d->doubles, TALC_DIMS(N, BENCH_CHANNELS / 2, SIDE, SIDE));
}

talc_tensor *bench_planes(const talc_tensor *x, int64_t side)
{
    const int64_t count = talc_numel(x) / (side * side);
    return talc_view(talc_slice(x, 0, 0, count * side * side, 1), TALC_DIMS(count, 1, side, side));
}

talc_tensor *bench_max_pool(const talc_tensor *x, int64_t kernel, int64_t stride, int64_t pad)
{
    const talc_pool2d_options options = { .kernel = { kernel, kernel },
                                          .stride = { stride, stride },
                                          .padding = { pad, pad } };
    return talc_max_pool2d(x, &options);
}

talc_tensor *bench_max_pool_indices(const talc_tensor *x, int64_t kernel, int64_t stride,
                                    int64_t pad)
{
    const talc_pool2d_options options = { .kernel = { kernel, kernel },
                                          .stride = { stride, stride },
                                          .padding = { pad, pad } };
    talc_tensor *indices;
    return talc_max_pool2d_indices(x, &options, &indices);
}

talc_tensor *bench_avg_pool(const talc_tensor *x, int64_t kernel, int64_t stride, int64_t pad)
{
    const talc_pool2d_options options = { .kernel = { kernel, kernel },
                                          .stride = { stride, stride },
                                          .padding = { pad, pad },
                                          .exclude_padding = true };
    return talc_avg_pool2d(x, &options);
}

#define POOL(name, running, place)                                                                 \
    talc_tensor *bench_run_##name(const bench_data *d)                                             \
    {                                                                                              \
        return running;                                                                            \
    }                                                                                              \
    bench_gather bench_place_##name(const bench_data *d, int64_t index)                            \
    {                                                                                              \
        (void)d;                                                                                   \
        return place;                                                                              \
    }

// clang-format off
POOL(max_pool_2,      bench_max_pool(images(d), 2, 2, 0),                      bench_window(SIDE, index, 2, 2, 0))
POOL(max_pool_3,      bench_max_pool(images(d), 3, 2, 1),                      bench_window(SIDE, index, 3, 2, 1))
POOL(max_pool_3s1,    bench_max_pool(images(d), 3, 1, 1),                      bench_window(SIDE, index, 3, 1, 1))
POOL(max_pool_5s1,    bench_max_pool(images(d), 5, 1, 2),                      bench_window(SIDE, index, 5, 1, 2))
POOL(max_pool_14,     bench_max_pool(bench_planes(d->x, 14), 3, 1, 1),                  bench_window(14, index, 3, 1, 1))
POOL(max_pool_f64,    bench_max_pool(wide_images(d), 3, 1, 1),                 bench_window(SIDE, index, 3, 1, 1))
POOL(max_pool_2i,     bench_max_pool_indices(images(d), 2, 2, 0),                      bench_window(SIDE, index, 2, 2, 0))
POOL(max_pool_3i,     bench_max_pool_indices(images(d), 3, 1, 1),                      bench_window(SIDE, index, 3, 1, 1))
POOL(avg_pool_2,      bench_avg_pool(images(d), 2, 2, 0),                      bench_window(SIDE, index, 2, 2, 0))
POOL(avg_pool_3,      bench_avg_pool(images(d), 3, 2, 1),                      bench_window(SIDE, index, 3, 2, 1))
POOL(avg_pool_4,      bench_avg_pool(images(d), 4, 4, 0),                      bench_window(SIDE, index, 4, 4, 0))
POOL(adaptive_56,     talc_adaptive_avg_pool2d(bench_planes(d->x, 56), 7, 7),    bench_adaptive(56, index, 7))
POOL(adaptive_16,     talc_adaptive_avg_pool2d(bench_planes(d->x, 16), 7, 7),    bench_adaptive(16, index, 7))
POOL(global_avg_7,    talc_adaptive_avg_pool2d(bench_planes(d->x, 7), 1, 1),     bench_adaptive(7, index, 1))
POOL(global_avg_pool, talc_adaptive_avg_pool2d(images(d), 1, 1),        bench_adaptive(SIDE, index, 1))
