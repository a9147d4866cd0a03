/// Random convolutions for tests that need no data.
#ifndef TALC_TESTS_SUPPORT_RANDOM_PROBLEM_H
#define TALC_TESTS_SUPPORT_RANDOM_PROBLEM_H

#include "ops/conv2d.h"

/* PCG, by O'Neill, 2014: XSH RR 64/32. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t mixed = (uint32_t)(((*state >> 18) ^ *state) >> 27),
                   by = (uint32_t)(*state >> 59);
    return mixed >> by | mixed << (-by & 31);
}

static inline int64_t between(uint64_t *state, int64_t low, int64_t high)
{
    return low + next_random(state) % (high - low + 1);
}

static inline void random_window(uint64_t *state, int64_t max_extent, talc_conv2d_problem *p)
{
    p->KH = between(state, 1, max_extent), p->KW = between(state, 1, max_extent);
    p->stride_h = between(state, 1, 3), p->stride_w = between(state, 1, 3);
    p->dilation_h = between(state, 1, 2), p->dilation_w = between(state, 1, 2);
    p->pad_top = between(state, 0, 2), p->pad_bottom = between(state, 0, 2);
    p->pad_left = between(state, 0, 2), p->pad_right = between(state, 0, 2);
}

static inline talc_conv2d_problem random_problem(uint64_t *state)
{
    talc_conv2d_problem p = { .N = between(state, 1, 4), .groups = between(state, 1, 2) };
    p.C = p.groups * between(state, 1, between(state, 0, 1) == 0 ? 8 : 150);
    p.OC = p.groups * between(state, 1, 150);
    p.H = between(state, 1, 40), p.W = between(state, 1, 70);
    random_window(state, 5, &p);
    p.OH = talc_window_extent(p.H, p.pad_top, p.pad_bottom, p.dilation_h, p.KH, p.stride_h);
    p.OW = talc_window_extent(p.W, p.pad_left, p.pad_right, p.dilation_w, p.KW, p.stride_w);
    return p;
}

/* One of any direction with at most so many elements of x and of y. */
static inline talc_conv2d_problem random_problem_of(uint64_t *state, int64_t elements)
{
    talc_conv2d_problem p;
    do {
        p = random_problem(state);
        p.direction = (talc_direction)between(state, 0, 2);
        talc_error_clear();
    } while (!talc_conv2d_problem_check(&p) || p.N * p.OC * p.OH * p.OW > elements ||
             p.N * p.C * p.H * p.W > elements);
    return p;
}

/* One of any direction, type and padding, of some hundred elements. */
static inline talc_conv2d_problem small_random_problem(uint64_t *state)
{
    static const talc_padding_mode modes[] = { TALC_PADDING_ZEROS, TALC_PADDING_ZEROS,
                                               TALC_PADDING_REFLECT, TALC_PADDING_REPLICATE,
                                               TALC_PADDING_CIRCULAR };
    talc_conv2d_problem p;
    do {
        p = (talc_conv2d_problem){ .N = between(state, 1, 2), .groups = between(state, 1, 3) };
        const bool depthwise = between(state, 0, 3) == 0, deep = between(state, 0, 5) == 0;
        p.C = p.groups * (depthwise ? 1 : deep ? 16 : between(state, 1, 3));
        p.OC = p.groups * (depthwise ? 1 : between(state, 1, 4));
        p.H = between(state, 1, 8), p.W = between(state, 1, 9);
        random_window(state, 3, &p);
        p.padding_mode = modes[between(state, 0, 4)];
        p.dtype = between(state, 0, 3) == 0 ? TALC_F64 : TALC_F32;
        p.direction = (talc_direction)between(state, 0, 2);
        if (p.direction != TALC_FORWARD)
            p.padding_mode = TALC_PADDING_ZEROS;
        talc_error_clear();
    } while (!talc_conv2d_problem_check(&p) || p.OH * p.OW == 0);
    return p;
}

#endif
