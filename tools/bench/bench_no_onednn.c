/// Stands in for bench_onednn.c in a build without oneDNN.
#include "tools/bench/bench.h"

void bench_onednn(contender *whole, contender *kernel, const bench_operands *operands)
{
    (void)operands;
    *whole = (contender){ .name = "oneDNN", .peer = true, .reason = "built without oneDNN" };
    *kernel = *whole;
    kernel->name = "oneDNN kernel";
}
