/// How batch normalisation cuts channels into blocks, for both directions. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_NORM_BATCH_NORM2D_BLOCKS_H
#define TALC_BACKENDS_CPU_NORM_BATCH_NORM2D_BLOCKS_H

#include "backends/cpu/norm/norm.h"
#include "backends/cpu/device/threads.h"
#include "ops/batch_norm2d.h"
#include "tensor/extent.h"

/// The input gradient: by blocks, its workspace, and by the formula in f64
/// (batch_norm2d_gradient.c).
talc_status talc_cpu_batch_norm2d_gradient(const talc_batch_norm2d_problem *p,
                                           const talc_batch_norm2d_arguments *a);
size_t talc_cpu_batch_norm2d_gradient_workspace(const talc_batch_norm2d_problem *p);
talc_status talc_cpu_batch_norm2d_gradient_reference(const talc_batch_norm2d_problem *p,
                                                     const talc_batch_norm2d_arguments *a);

/* Values of a block, which stay cached, and of one of its channels. */
enum { BLOCK_VALUES = 16384, PART_VALUES = 512 };

/* How [N, C, plane] is cut: into blocks of `images` images and `channels` channels, or of `length`
 * values of one plane. A block's part of a channel has sums of its own. */
typedef struct talc_cpu_blocks {
    int64_t images, channels, length;
    int64_t segments;       /* blocks a plane; 1 where a block has whole planes */
    int64_t channel_blocks; /* blocks side by side in C */
    int64_t parts;          /* of a channel */
    int64_t blocks;
} talc_cpu_blocks;

/* With at least `part` values of a channel, where there are as many images. Without values there
 * are no blocks, whose extents are then 1. */
static inline talc_cpu_blocks talc_cpu_blocks_of(const talc_batch_norm2d_problem *p, int64_t part)
{
    const int64_t plane = p->H * p->W, length = talc_between(plane, 1, BLOCK_VALUES);
    const int64_t images = talc_between(part / length, 1, talc_larger(p->N, 1));
    const int64_t channels =
        talc_between(BLOCK_VALUES / (images * length), 1, talc_larger(p->C, 1));
    const int64_t segments = talc_ceil_div(plane, length);
    const int64_t channel_blocks = talc_ceil_div(p->C, channels);
    const int64_t parts = talc_ceil_div(p->N, images) * segments;
    return (talc_cpu_blocks){
        images, channels, length, segments, channel_blocks, parts, parts * channel_blocks
    };
}

/* Blocks follow each other as their first values do in memory. */
typedef struct talc_cpu_block {
    int64_t c, end;        /* channels */
    int64_t part;          /* of each channel */
    int64_t offset;        /* of the first value */
    talc_cpu_stretches at; /* in each image, of a channel */
    int64_t c_step;        /* to the next channel */
} talc_cpu_block;

static inline talc_cpu_block talc_cpu_block_of(const talc_batch_norm2d_problem *p,
                                               const talc_cpu_blocks *cut, int64_t task)
{
    const int64_t plane = p->H * p->W, segment = task % cut->segments;
    const int64_t c = task / cut->segments % cut->channel_blocks * cut->channels;
    const int64_t i = task / cut->segments / cut->channel_blocks, n = i * cut->images;
    const int64_t first = segment * cut->length;
    return (talc_cpu_block){ .c = c,
                             .end = talc_smaller(p->C, c + cut->channels),
                             .part = i * cut->segments + segment,
                             .offset = (n * p->C + c) * plane + first,
                             .at = { .rows = talc_smaller(cut->images, p->N - n),
                                     .length = talc_smaller(cut->length, plane - first),
                                     .step = p->C * plane },
                             .c_step = plane };
}

#endif
