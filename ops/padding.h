/// The padding of a window op, from its options. Private to ops/.
#ifndef TALC_OPS_PADDING_H
#define TALC_OPS_PADDING_H

#include "tensor/api.h"

typedef struct talc_padding {
    int64_t top, left, bottom, right;
} talc_padding;

/// How the windows of an op lie.
typedef struct talc_window {
    int64_t KH, KW, stride_h, stride_w, dilation_h, dilation_w, groups;
    talc_padding pad;
} talc_window;

/// "3x3 s2x2 p1x0", and "d2x2" and "g4" where they are not 1; four sides where opposite ones
/// differ. Into the caller's buffer, which it returns.
#define TALC_WINDOW_TEXT 64
const char *talc_window_text(const talc_window *window, char text[TALC_WINDOW_TEXT]);

/// An option that is left out, 0, is `fallback`; TALC_ZERO is 0.
int64_t talc_or_default(int64_t value, int64_t fallback);

/// Of a pair of strides or dilations: a first that is left out is `fallback`, a second that is left
/// out is the first.
int64_t talc_first_of(const int64_t pair[2], int64_t fallback);
int64_t talc_second_of(const int64_t pair[2], int64_t fallback);

/// The sides that `padding`, `padding_end` and `same` ask for, all pairs being height, width.
/// False, with an error of `op`, when `same` comes with padding, a stride or a kernel whose extent
/// exceeds 2^63 - 1. That a side is not negative is left to the caller.
bool talc_padding_of(const char *op, const int64_t padding[2], const int64_t padding_end[2],
                     bool same, const int64_t kernel[2], const int64_t stride[2],
                     const int64_t dilation[2], talc_padding *sides);

/// False, with an error of `op`, unless h and w are at least `low`.
bool talc_pair_at_least(const char *op, int64_t low, const char *what, int64_t h, int64_t w);

#endif
