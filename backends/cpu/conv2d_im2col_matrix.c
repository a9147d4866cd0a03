#include "backends/cpu/conv2d_im2col.h"
#include "tensor/extent.h"

#include <string.h>

// ---- Building -------------------------------------------------------------------------------------------------

#define STRIDED_COPY(suffix, type)                                                                 \
    static void strided_copy_##suffix(int64_t count, type *dst, const type *src, int64_t stride)   \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            dst[i] = src[i * stride];                                                              \
    }

STRIDED_COPY(f32, float)
STRIDED_COPY(f64, double)

static void copy_interior(const talc_conv2d_problem *p, int64_t count, char *dst, const char *src)
{
    if (p->stride_w == 1)
        memcpy(dst, src, (size_t)count * talc_dtype_size(p->dtype));
    else if (p->dtype == TALC_F32)
        strided_copy_f32(count, (float *)(void *)dst, (const float *)(const void *)src,
                         p->stride_w);
    else
        strided_copy_f64(count, (double *)(void *)dst, (const double *)(const void *)src,
                         p->stride_w);
}

/* Outputs lo .. hi - 1 of a row, whose tap `kw` lands outside: what the padding mode says, from image row `row`. */
static void copy_edge(const talc_conv2d_problem *p, int64_t kw, int64_t lo, int64_t hi, char *dst,
                      const char *row)
{
    const size_t size = talc_dtype_size(p->dtype);
    if (p->padding_mode == TALC_PADDING_ZEROS) {
        memset(dst, 0, (size_t)(hi - lo) * size);
        return;
    }
    for (int64_t ow = lo; ow < hi; ow++) {
        const int64_t iw = talc_window_source(
            p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);
        memcpy(dst + (size_t)(ow - lo) * size, row + (size_t)iw * size, size);
    }
}

/* One row of B: what tap (kh, kw) of one input plane reads for the block's outputs. */
static void fill_row(const talc_cpu_im2col_block *b, const char *plane, int64_t kh, int64_t kw,
                     char *dst)
{
    const talc_conv2d_problem *p = b->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const talc_range inside =
        talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W);
    int64_t oh = b->first / p->OW, lo = b->first % p->OW, hi;
    for (int64_t left = b->count; left > 0;
         left -= hi - lo, dst += (hi - lo) * size, lo = 0, oh++) {
        hi = talc_smaller(p->OW, lo + left);
        const int64_t ih = talc_window_source(
            p->padding_mode, oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);
        if (ih < 0) {
            memset(dst, 0, (size_t)((hi - lo) * size));
            continue;
        }
        const char *row = plane + ih * p->W * size;
        const int64_t from = inside.lo < lo ? lo : talc_smaller(inside.lo, hi);
        const int64_t to = inside.hi < from ? from : talc_smaller(inside.hi, hi);
        if (from > lo)
            copy_edge(p, kw, lo, from, dst, row);
        if (to > from)
            copy_interior(p, to - from, dst + (from - lo) * size,
                          row + (from * p->stride_w - p->pad_left + kw * p->dilation_w) * size);
        if (hi > to)
            copy_edge(p, kw, to, hi, dst + (to - lo) * size, row);
    }
}

void talc_cpu_im2col_fill(const talc_cpu_im2col_block *block, const void *x, int64_t k,
                          int64_t rows, void *dst)
{
    const talc_conv2d_problem *p = block->problem;
    const int64_t taps = p->KH * p->KW, size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t i = k; i < k + rows; i++)
        fill_row(block, (const char *)x + i / taps * p->H * p->W * size, i % taps / p->KW,
                 i % p->KW, (char *)dst + (i - k) * block->ld * size);
}

// ---- Adding to an image ---------------------------------------------------------------------------------------

#define ADD_STRIDED(suffix, type)                                                                  \
    static void add_strided_##suffix(int64_t count, type *restrict dst, int64_t stride,            \
                                     const type *restrict src)                                     \
    {                                                                                              \
        if (stride == 1)                                                                           \
            for (int64_t i = 0; i < count; i++)                                                    \
                dst[i] += src[i];                                                                  \
        else                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                    \
                dst[i * stride] += src[i];                                                         \
    }

ADD_STRIDED(f32, float)
ADD_STRIDED(f64, double)

/* One row of the block, to one input plane. */
static void add_row(const talc_cpu_im2col_block *b, const char *src, int64_t kh, int64_t kw,
                    char *plane)
{
    const talc_conv2d_problem *p = b->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
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
        if (p->dtype == TALC_F32)
            add_strided_f32(hi - lo, (float *)(void *)dst, p->stride_w,
                            (const float *)(const void *)from);
        else
            add_strided_f64(hi - lo, (double *)(void *)dst, p->stride_w,
                            (const double *)(const void *)from);
    }
}

void talc_cpu_im2col_add(const talc_cpu_im2col_block *block, const void *src, int64_t k,
                         int64_t rows, void *dx)
{
    const talc_conv2d_problem *p = block->problem;
    const int64_t taps = p->KH * p->KW, size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t i = k; i < k + rows; i++)
        add_row(block, (const char *)src + (i - k) * block->ld * size, i % taps / p->KW, i % p->KW,
                (char *)dx + i / taps * p->H * p->W * size);
}
