/// How a reduction is cut into threads, blocks and parts. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_REDUCE_PLAN_CUH
#define TALC_BACKENDS_CUDA_REDUCE_PLAN_CUH

#include "backends/cuda/planes.cuh"
#include "ops/reduce.h"

namespace talc
{

/* Blocks that keep any GPU busy, and elements that are worth a block's while. */
constexpr int64_t ENOUGH_BLOCKS = 4096, PART = 8192;

struct cut {
    bool across;
    int threads;         /* along: that share an output; */
    int width;           /* across: side by side in a block */
    int64_t part, parts; /* elements of a reduction that a part covers */
};

/* Runs that fill no whole accesses: planes of channels, as a rule. Others are dimensions of `along`. */
static bool has_odd_runs(const talc_reduce_problem *p)
{
    return p->reduced_rank == 2 && p->reduced_strides[1] == 1 &&
           p->reduced_dims[1] % (ACCESS / (int64_t)talc_dtype_size(p->dtype)) != 0;
}

static bool has_odd_planes(const talc_reduce_problem *p)
{
    return has_odd_runs(p) && talc_dtype_is_float(p->dtype) && p->kept_rank == 1 &&
           p->kept_strides[0] == p->reduced_dims[1] && p->reduced_dims[1] <= MOST_PLANE;
}

static int threads_for(int64_t accesses)
{
    int threads = 4;
    while (threads < WARP && threads * 8 < accesses)
        threads *= 2;
    return accesses > WARP * 32 ? BLOCK : threads;
}

static cut cut_of(const talc_reduce_problem *p, bool in_parts)
{
    cut c = { false, BLOCK, 1, p->K, 1 };
    const int64_t count = ACCESS / (int64_t)talc_dtype_size(p->dtype);
    const int kept = p->kept_rank - 1, reduced = p->reduced_rank - 1;
    int64_t blocks;
    c.across = kept >= 0 && (reduced < 0 || p->kept_strides[kept] < p->reduced_strides[reduced]);
    if (c.across) {
        const int64_t accesses = pieces(p->outputs, count);
        c.width =
            p->K <= 16 || (p->K <= 64 && accesses >= ENOUGH_BLOCKS * BLOCK / 2) ? BLOCK : WARP;
        while (c.width > 4 && c.width / 2 >= accesses)
            c.width /= 2;
        blocks = pieces(accesses, c.width);
    } else {
        c.threads = threads_for(pieces(p->K, count));
        blocks = pieces(p->outputs, BLOCK / c.threads);
    }
    const int64_t part = PART / c.width; /* a multiple of what one access moves */
    if (in_parts && blocks > 0 && blocks <= ENOUGH_BLOCKS / 2 && p->K >= 2 * part &&
        (c.across || c.threads == BLOCK)) {
        c.part = pieces(pieces(p->K, ENOUGH_BLOCKS / blocks), part) * part;
        c.parts = pieces(p->K, c.part);
    }
    return c;
}

static plane_cut planes_of(const talc_reduce_problem *p, bool in_parts)
{
    return plane_cut(p->reduced_dims[0], p->outputs, p->reduced_dims[1], p->reduced_strides[0],
                     (int64_t)talc_dtype_size(p->dtype), in_parts);
}

static int64_t parts_of(const talc_reduce_problem *p, bool in_parts)
{
    return has_odd_planes(p) ? planes_of(p, in_parts).parts : cut_of(p, in_parts).parts;
}

} // namespace talc

#endif
