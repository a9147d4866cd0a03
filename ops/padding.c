#include "ops/padding.h"

#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>

int64_t talc_or_default(int64_t value, int64_t fallback)
{
    return value == 0 ? fallback : value == TALC_ZERO ? 0 : value;
}

int64_t talc_first_of(const int64_t pair[2], int64_t fallback)
{
    return talc_or_default(pair[0], fallback);
}

int64_t talc_second_of(const int64_t pair[2], int64_t fallback)
{
    return talc_or_default(pair[1], talc_or_default(pair[0], fallback));
}

const char *talc_window_text(const talc_window *w, char text[TALC_WINDOW_TEXT])
{
    const talc_padding *pad = &w->pad;
    size_t used =
        (size_t)snprintf(text, TALC_WINDOW_TEXT,
                         "%" PRId64 "x%" PRId64 " s%" PRId64 "x%" PRId64 " p%" PRId64 "x%" PRId64,
                         w->KH, w->KW, w->stride_h, w->stride_w, pad->top, pad->left);
    if ((pad->bottom != pad->top || pad->right != pad->left) && used < TALC_WINDOW_TEXT)
        used += (size_t)snprintf(text + used, TALC_WINDOW_TEXT - used, "x%" PRId64 "x%" PRId64,
                                 pad->bottom, pad->right);
    if ((w->dilation_h != 1 || w->dilation_w != 1) && used < TALC_WINDOW_TEXT)
        used += (size_t)snprintf(text + used, TALC_WINDOW_TEXT - used, " d%" PRId64 "x%" PRId64,
                                 w->dilation_h, w->dilation_w);
    if (w->groups != 1 && used < TALC_WINDOW_TEXT)
        snprintf(text + used, TALC_WINDOW_TEXT - used, " g%" PRId64, w->groups);
    return text;
}

bool talc_pair_at_least(const char *op, int64_t low, const char *what, int64_t h, int64_t w)
{
    if (h >= low && w >= low)
        return true;
    talc_fail(TALC_BAD_ARGUMENT, "%s: %s [%" PRId64 ",%" PRId64 "] must be at least %" PRId64, op,
              what, h, w, low);
    return false;
}

bool talc_padding_of(const char *op, const int64_t padding[2], const int64_t padding_end[2],
                     bool same, const int64_t kernel[2], const int64_t stride[2],
                     const int64_t dilation[2], talc_padding *sides)
{
    if (!same) {
        sides->top = talc_or_default(padding[0], 0);
        sides->left = talc_or_default(padding[1], 0);
        sides->bottom = talc_or_default(padding_end[0], sides->top);
        sides->right = talc_or_default(padding_end[1], sides->left);
        return true;
    }
    if (padding[0] != 0 || padding[1] != 0 || padding_end[0] != 0 || padding_end[1] != 0) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: padding_same excludes padding [%" PRId64 ",%" PRId64 "]",
                  op, padding[0], padding[1]);
        return false;
    }
    if (stride[0] != 1 || stride[1] != 1) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: padding_same needs stride 1, stride is [%" PRId64 ",%" PRId64 "]", op,
                  stride[0], stride[1]);
        return false;
    }
    int64_t total_h, total_w;
    if (!talc_pair_at_least(op, 1, "kernel", kernel[0], kernel[1]) ||
        !talc_pair_at_least(op, 1, "dilation", dilation[0], dilation[1]))
        return false;
    if (!talc_multiply(dilation[0], kernel[0] - 1, &total_h) ||
        !talc_multiply(dilation[1], kernel[1] - 1, &total_w)) {
        talc_fail(TALC_TOO_LARGE,
                  "%s: kernel [%" PRId64 ",%" PRId64 "] with dilation [%" PRId64 ",%" PRId64
                  "] exceeds 2^63 - 1",
                  op, kernel[0], kernel[1], dilation[0], dilation[1]);
        return false;
    }
    sides->top = total_h / 2;
    sides->left = total_w / 2;
    sides->bottom = total_h - sides->top;
    sides->right = total_w - sides->left;
    return true;
}
