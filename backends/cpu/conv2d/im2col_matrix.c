#include "backends/cpu/conv2d/im2col.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/short_copy.h"
#include "tensor/extent.h"

// ---- Building -----------------------------------------------------------------------------------

#define STRIDED_COPY(constant, suffix, T, A)                                                       \
    static void strided_copy_##suffix(int64_t count, T *dst, const T *src, int64_t stride)         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            dst[i] = src[i * stride];                                                              \
    }

TALC_CPU_FLOATS(STRIDED_COPY)

static inline void copy_interior(const talc_conv2d_problem *p, int64_t size, int64_t count,
                                 char *dst, const char *src)
{
    if (p->stride_w == 1)
        talc_cpu_short_copy(dst, src, (size_t)(count * size));
    else
        TALC_CPU_CALL(p->dtype, strided_copy, (count, (void *)dst, (const void *)src, p->stride_w));
}

/* Outputs lo .. hi - 1 of a row, whose tap `kw` lands outside: what the padding mode says, from
 * image row `row`. */
static inline void copy_edge(const talc_conv2d_problem *p, int64_t size, int64_t kw, int64_t lo,
                             int64_t hi, char *dst, const char *row)
{
    if (p->padding_mode == TALC_PADDING_ZEROS) {
        talc_cpu_short_zero(dst, (size_t)((hi - lo) * size));
        return;
    }
    for (int64_t ow = lo; ow < hi; ow++) {
        const int64_t iw = talc_window_source(
            p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);
        memcpy(dst + (ow - lo) * size, row + iw * size, (size_t)size);
    }
}

/* One row of B for whole rows of outputs, oh to end - 1, and zeros around the image: the common
 * problems. */
static void fill_whole_rows(const talc_conv2d_problem *p, int64_t size, const char *plane,
                            int64_t kh, int64_t kw, int64_t oh, int64_t end, char *dst)
{
    const talc_range rows =
        talc_window_outputs(kh, p->stride_h, p->pad_top, p->dilation_h, p->OH, p->H);
    const talc_range columns =
        talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W);
    const int64_t first = talc_smaller(talc_larger(rows.lo, oh), end);
    const int64_t last = talc_smaller(talc_larger(rows.hi, first), end);
    const int64_t count = columns.hi - columns.lo;
    const size_t left = (size_t)(columns.lo * size), right = (size_t)((p->OW - columns.hi) * size);
    const size_t row_bytes = (size_t)(p->OW * size);
    memset(dst, 0, (size_t)(first - oh) * row_bytes);
    memset(dst + (size_t)(last - oh) * row_bytes, 0, (size_t)(end - last) * row_bytes);
    if (count == 0) {
        memset(dst, 0, (size_t)(end - oh) * row_bytes);
        return;
    }
    const int64_t iw = columns.lo * p->stride_w - p->pad_left + kw * p->dilation_w;
    dst += (size_t)(first - oh) * row_bytes;
    for (int64_t row = first; row < last; row++, dst += row_bytes) {
        const int64_t ih = row * p->stride_h - p->pad_top + kh * p->dilation_h;
        talc_cpu_short_zero(dst, left);
        copy_interior(p, size, count, dst + left, plane + (ih * p->W + iw) * size);
        talc_cpu_short_zero(dst + row_bytes - right, right);
    }
}

/* One row of B: what tap (kh, kw) of one input plane reads for any outputs of a block. */
static void fill_row(const talc_cpu_im2col_block *b, int64_t size, const char *plane, int64_t kh,
                     int64_t kw, char *dst)
{
    const talc_conv2d_problem *p = b->problem;
    if (p->padding_mode == TALC_PADDING_ZEROS && b->first % p->OW == 0 && b->count % p->OW == 0) {
        fill_whole_rows(p, size, plane, kh, kw, b->first / p->OW, (b->first + b->count) / p->OW,
                        dst);
        return;
    }
    const talc_range inside =
        talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W);
    int64_t oh = b->first / p->OW, lo = b->first % p->OW, hi;
    for (int64_t left = b->count; left > 0;
         left -= hi - lo, dst += (hi - lo) * size, lo = 0, oh++) {
        hi = talc_smaller(p->OW, lo + left);
        const int64_t ih = talc_window_source(
            p->padding_mode, oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);
        if (ih < 0) {
            talc_cpu_short_zero(dst, (size_t)((hi - lo) * size));
            continue;
        }
        const char *row = plane + ih * p->W * size;
        const int64_t from = inside.lo < lo ? lo : talc_smaller(inside.lo, hi);
        const int64_t to = inside.hi < from ? from : talc_smaller(inside.hi, hi);
        if (from > lo)
            copy_edge(p, size, kw, lo, from, dst, row);
        if (to > from)
            copy_interior(p, size, to - from, dst + (from - lo) * size,
                          row + (from * p->stride_w - p->pad_left + kw * p->dilation_w) * size);
        if (hi > to)
            copy_edge(p, size, kw, to, hi, dst + (to - lo) * size, row);
    }
}

void talc_cpu_im2col_fill(const talc_cpu_im2col_block *block, const void *x, int64_t k,
                          int64_t rows, void *dst)
{
    const talc_conv2d_problem *p = block->problem;
    const int64_t taps = p->KH * p->KW, size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t i = k; i < k + rows; i++)
        fill_row(block, size, (const char *)x + i / taps * p->H * p->W * size, i % taps / p->KW,
                 i % p->KW, (char *)dst + (i - k) * block->ld * size);
}

// ---- Adding to an image -------------------------------------------------------------------------

#define ADD_STRIDED(constant, suffix, T, A)                                                        \
    static void add_strided_##suffix(int64_t count, T *restrict dst, int64_t stride,               \
                                     const T *restrict src)                                        \
    {                                                                                              \
        if (stride == 1)                                                                           \
            for (int64_t i = 0; i < count; i++)                                                    \
                dst[i] += src[i];                                                                  \
        else                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                    \
                dst[i * stride] += src[i];                                                         \
    }

TALC_CPU_FLOATS(ADD_STRIDED)

/* One row of the block, to one input plane. */
static void add_row(const talc_cpu_im2col_block *b, int64_t size, const char *src, int64_t kh,
                    int64_t kw, char *plane)
{
    const talc_conv2d_problem *p = b->problem;
    const talc_range columns =
        talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W);
    const talc_range rows =
        talc_window_outputs(kh, p->stride_h, p->pad_top, p->dilation_h, p->OH, p->H);
    const int64_t first_row = talc_larger(rows.lo, b->first / p->OW);
    const int64_t end_row = talc_smaller(rows.hi, (b->first + b->count - 1) / p->OW + 1);
    for (int64_t oh = first_row; oh < end_row; oh++) {
        const int64_t start = oh * p->OW; /* column of the first output of this row */
        const int64_t lo = talc_larger(columns.lo, b->first - start);
        const int64_t hi = talc_smaller(columns.hi, b->first + b->count - start);
        if (lo >= hi)
            continue;
        const int64_t ih = oh * p->stride_h - p->pad_top + kh * p->dilation_h;
        const int64_t iw = lo * p->stride_w - p->pad_left + kw * p->dilation_w;
        char *dst = plane + (ih * p->W + iw) * size;
        const char *from = src + (start + lo - b->first) * size;
        TALC_CPU_CALL(p->dtype, add_strided,
                      (hi - lo, (void *)dst, p->stride_w, (const void *)from));
    }
}

void talc_cpu_im2col_add(const talc_cpu_im2col_block *block, const void *src, int64_t k,
                         int64_t rows, void *dx)
{
    const talc_conv2d_problem *p = block->problem;
    const int64_t taps = p->KH * p->KW, size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t i = k; i < k + rows; i++)
        add_row(block, size, (const char *)src + (i - k) * block->ld * size, i % taps / p->KW,
                i % p->KW, (char *)dx + i / taps * p->H * p->W * size);
}
