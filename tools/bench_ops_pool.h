/// The pooling ops of `talc bench`: for each, how it runs and which elements of x a result is made of.
#ifndef TALC_TOOLS_BENCH_OPS_POOL_H
#define TALC_TOOLS_BENCH_OPS_POOL_H

#include "tools/bench_ops.h"

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
