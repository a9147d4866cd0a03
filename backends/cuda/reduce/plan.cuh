/// How a reduction is divided among threads, blocks and parts. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_REDUCE_PLAN_CUH
#define TALC_BACKENDS_CUDA_REDUCE_PLAN_CUH

#include "backends/cuda/primitives/planes.cuh"
#include "ops/reduce.h"

namespace talc
{

/* Blocks that keep any GPU busy, and elements worth a block. */
constexpr int64_t ENOUGH_BLOCKS = 4096, PART = 8192;

struct reduce_tiling {
    bool across;
    int threads;         /* along: that share an output; */
    int width;           /* across: side by side in a block */
    int64_t part, parts; /* elements of a reduction that a part covers */
};

/* Runs that fill no whole vectors: planes of channels, as a rule. Others are dimensions of
 * `along`. */
static bool has_odd_rows(const talc_reduce_problem *p)
{
    return p->reduced_rank == 2 && p->reduced_strides[1] == 1 &&
           p->reduced_dims[1] % (VECTOR_BYTES / (int64_t)talc_dtype_size(p->dtype)) != 0;
}

/* Of f32, as short rows are (short_rows.cuh): what networks have. */
static bool has_odd_planes(const talc_reduce_problem *p)
{
    return has_odd_rows(p) && p->dtype == TALC_F32 && p->kept_rank == 1 &&
           p->kept_strides[0] == p->reduced_dims[1] && p->reduced_dims[1] <= MAX_PLANE;
}

static int threads_for(int64_t vectors)
{
    int threads = 4;
    while (threads < WARP && threads * 8 < vectors)
        threads *= 2;
    return vectors > WARP * 32 ? BLOCK : threads;
}

static reduce_tiling tiling_of(const talc_reduce_problem *p, bool in_parts)
{
    reduce_tiling c = { false, BLOCK, 1, p->K, 1 };
    const int64_t count = VECTOR_BYTES / (int64_t)talc_dtype_size(p->dtype);
    const int kept = p->kept_rank - 1, reduced = p->reduced_rank - 1;
    int64_t blocks;
    c.across = kept >= 0 && (reduced < 0 || p->kept_strides[kept] < p->reduced_strides[reduced]);
    if (c.across) {
        const int64_t vectors = talc_ceil_div(p->outputs, count);
        c.width = p->K <= 16 || (p->K <= 64 && vectors >= ENOUGH_BLOCKS * BLOCK / 2) ? BLOCK : WARP;
        while (c.width > 4 && c.width / 2 >= vectors)
            c.width /= 2;
        blocks = talc_ceil_div(vectors, c.width);
    } else {
        c.threads = threads_for(talc_ceil_div(p->K, count));
        blocks = talc_ceil_div(p->outputs, BLOCK / c.threads);
    }
    const int64_t part = PART / c.width; /* a multiple of a vector's elements */
    if (in_parts && blocks > 0 && blocks <= ENOUGH_BLOCKS / 2 && p->K >= 2 * part &&
        (c.across || c.threads == BLOCK)) {
        c.part = talc_ceil_div(talc_ceil_div(p->K, ENOUGH_BLOCKS / blocks), part) * part;
        c.parts = talc_ceil_div(p->K, c.part);
    }
    return c;
}

static plane_tiling planes_of(const talc_reduce_problem *p, bool in_parts)
{
    return plane_tiling(p->reduced_dims[0], p->outputs, p->reduced_dims[1], p->reduced_strides[0],
                        (int64_t)talc_dtype_size(p->dtype), in_parts);
}

static int64_t parts_of(const talc_reduce_problem *p, bool in_parts)
{
    return has_odd_planes(p) ? planes_of(p, in_parts).parts : tiling_of(p, in_parts).parts;
}

} // namespace talc

#endif
