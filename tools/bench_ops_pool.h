/// The pooling ops of `talc bench`: for each, how it runs and which elements of x a result is made of.
#ifndef TALC_TOOLS_BENCH_OPS_POOL_H
#define TALC_TOOLS_BENCH_OPS_POOL_H

#include "tools/bench_ops.h"

/// Where element `index` of the result of a window over planes of `from` by `from` comes from, without the padding.
bench_gather bench_window(int64_t from, int64_t index, int64_t kernel, int64_t stride, int64_t pad);

/// Likewise of adaptive pooling to `to` by `to`.
bench_gather bench_adaptive(int64_t from, int64_t index, int64_t to);

/// x as [N, 1, side, side], as many planes as there are; a few elements are left over.
talc_tensor *bench_planes(const talc_tensor *x, int64_t side);

/// Square windows; the average is over what is not padding.
talc_tensor *bench_max_pool(const talc_tensor *x, int64_t kernel, int64_t stride, int64_t pad);
talc_tensor *bench_max_pool_indices(const talc_tensor *x, int64_t kernel, int64_t stride,
                                    int64_t pad);
talc_tensor *bench_avg_pool(const talc_tensor *x, int64_t kernel, int64_t stride, int64_t pad);

#define BENCH_POOL(name)                                                                           \
    talc_tensor *bench_run_##name(const bench_data *data);                                         \
    bench_gather bench_place_##name(const bench_data *data, int64_t index);

BENCH_POOL(max_pool_2)
BENCH_POOL(max_pool_3)
BENCH_POOL(max_pool_3s1)
BENCH_POOL(max_pool_5s1)
BENCH_POOL(max_pool_14)
BENCH_POOL(max_pool_f64)
BENCH_POOL(max_pool_2i)
BENCH_POOL(max_pool_3i)
BENCH_POOL(avg_pool_2)
BENCH_POOL(avg_pool_3)
BENCH_POOL(avg_pool_4)
BENCH_POOL(adaptive_56)
BENCH_POOL(adaptive_16)
BENCH_POOL(global_avg_7)
BENCH_POOL(global_avg_pool)

#undef BENCH_POOL

#endif
