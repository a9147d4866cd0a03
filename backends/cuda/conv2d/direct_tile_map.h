/// Who computes which output of direct(textbook). Compiles as C and as CUDA C++: the kernel finds
/// its outputs with these functions, and so does whoever shows or tests what it does.
///
/// A thread has one pixel of TALC_TEXTBOOK_CHANNELS output channels of a group. Where there are few
/// outputs, the splits of a block share each K tile of the same pixels.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_TILE_MAP_H
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_TILE_MAP_H

#include "backends/cuda/primitives/fragment.h"
#include "ops/conv2d.h"
#include "tensor/extent.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_TEXTBOOK_THREADS = 256, ///< of a block
    TALC_TEXTBOOK_CHANNELS = 8,  ///< output channels of a thread
    TALC_TEXTBOOK_K = 256,       ///< terms of a K tile
    TALC_TEXTBOOK_SPLITS = 8     ///< of a K tile, where there are few outputs
};

typedef struct talc_textbook_layout {
    int64_t pixels, pixel_blocks, channel_blocks, blocks;
    int splits; ///< 1 or TALC_TEXTBOOK_SPLITS
} talc_textbook_layout;

/// For a GPU of so many multiprocessors.
static inline talc_textbook_layout talc_textbook_layout_of(const talc_conv2d_problem *p,
                                                           int multiprocessors)
{
    talc_textbook_layout l = { p->OH * p->OW, 0,
                               talc_ceil_div(p->OC / p->groups, TALC_TEXTBOOK_CHANNELS), 0, 1 };
    /* Threads with a pixel each, against those that the GPU runs at once. */
    const int64_t slices = p->N * p->groups, threads = slices * l.channel_blocks * l.pixels;
    if (threads < (int64_t)multiprocessors * 2 * TALC_TEXTBOOK_THREADS)
        l.splits = TALC_TEXTBOOK_SPLITS;
    l.pixel_blocks = talc_ceil_div(l.pixels, TALC_TEXTBOOK_THREADS / l.splits);
    l.blocks = slices * l.channel_blocks * l.pixel_blocks;
    return l;
}

/// Threads beyond the last pixel have none. Channels are those of the group, from `first` on.
typedef struct talc_textbook_thread {
    int64_t n, g, first, pixel;
    int split;
} talc_textbook_thread;

/// `splits` is the layout's.
TALC_TILE_MAP talc_textbook_thread talc_textbook_thread_of(const talc_conv2d_problem *p,
                                                           const talc_textbook_layout *l,
                                                           int splits, int64_t block, int thread)
{
    const int pixels = TALC_TEXTBOOK_THREADS / splits;
    int64_t rest = block / l->pixel_blocks;
    talc_textbook_thread t;
    t.split = thread / pixels;
    t.pixel = (block - rest * l->pixel_blocks) * pixels + thread % pixels;
    t.first = rest % l->channel_blocks * TALC_TEXTBOOK_CHANNELS;
    rest /= l->channel_blocks;
    t.g = rest % p->groups, t.n = rest / p->groups;
    return t;
}

/// The first term of a split of the K tile that begins with term `from`.
TALC_TILE_MAP int64_t talc_textbook_first_term(int64_t from, int splits, int split)
{
    return from + split * (TALC_TEXTBOOK_K / splits);
}

/// Of `K` terms, those of a split that begins with term `first`.
TALC_TILE_MAP int talc_textbook_terms(int64_t first, int64_t K, int splits)
{
    const int terms = TALC_TEXTBOOK_K / splits;
    return first >= K ? 0 : K - first < terms ? (int)(K - first) : terms;
}

TALC_END_DECLARATIONS

#endif
