/// The loops of depthwise(columns), for one element type: depthwise_columns.c includes this once
/// with `real` as float and once as double, NAME(x) as x_f32 and x_f64.

#define LANES        NAME(LANES)
#define vector       NAME(vector)
#define integers     NAME(integers)
#define load_taps    NAME(load_taps)
#define column_3x3   NAME(column_3x3)
#define products_3x3 NAME(products_3x3)
#define band_3x3     NAME(band_3x3)
#define tile_3x3     NAME(tile_3x3)
#define phases_3x3   NAME(phases_3x3)
#define rows_3x3     NAME(rows_3x3)
#define LOAD(at)     (*(const vector *)(at))

enum { LANES = CACHE_LINE / sizeof(real) };

/* The widest vector register there is, at any address; compilers make several narrower ones of
 * it. */
typedef real vector __attribute__((vector_size(CACHE_LINE), aligned(sizeof(real)), may_alias));
typedef int integers __attribute__((vector_size(CACHE_LINE), aligned(4), may_alias));

/* What the taps of a row of the kernel read, for as many outputs as a vector has: v[k] is what
 * stands k - 1 beside the middle taps, the first of which is at `row`. At the image's `border`
 * nothing is read beyond the middle tap, and a zero is shifted in. */
TALC_ALWAYS_INLINE void load_taps(int border, const int stride, const real *row, vector v[3])
{
    const vector zero = { 0 };
    if (stride == 1) {
        v[1] = LOAD(row);
        v[0] = border == LEFT_BORDER ? (vector)BEFORE(v[1], zero) : LOAD(row - 1);
        v[2] = border == RIGHT_BORDER ? (vector)AFTER(v[1], zero) : LOAD(row + 1);
    } else if (border == RIGHT_BORDER) {
        const vector a = LOAD(row - 1), b = LOAD(row - 1 + LANES);
        v[0] = EVEN(a, b);
        v[1] = ODD(a, b);
        v[2] = AFTER(v[0], zero);
    } else {
        const vector a = LOAD(row), b = LOAD(row + LANES);
        v[1] = EVEN(a, b);
        v[2] = ODD(a, b);
        v[0] = border == LEFT_BORDER ? BEFORE(v[2], zero) : BEFORE(v[2], zero + row[-1]);
    }
}

/* A column of outputs as wide as a vector register, row by row: each input row is loaded once and
 * adds to the up to three output rows that it belongs to. The taps of each output are summed in
 * order. The middle taps of input row i begin at x + start + i * step; they are zero when i is not
 * in `inside`. The next band starts `ahead` bytes further. */
TALC_ALWAYS_INLINE void column_3x3(int border, const int stride, const real *restrict w,
                                   const real *zeros, const real *x, int64_t start, int64_t step,
                                   talc_range inside, int64_t rows, int64_t ahead, bool stream,
                                   real *restrict out, int64_t out_step)
{
    vector bottom = { 0 }, middle = { 0 }, v[3];
    for (int64_t i = 0; i < (rows - 1) * stride + 3; i++) {
        const real *row = i >= inside.lo && i < inside.hi ? x + (start + i * step) : zeros;
        load_taps(border, stride, row, v);
        if (ahead != 0)
            for (int64_t at = LANES - 1; at < stride * LANES; at += LANES)
                prefetch(row + at, ahead);
        if (stride == 1 || i % 2 == 0) {
            bottom = bottom + w[6] * v[0] + w[7] * v[1] + w[8] * v[2];
            if (i >= 2) {
                if (stream)
                    talc_cpu_stream_line(out, &bottom);
                else
                    *(vector *)out = bottom;
                out += out_step;
            }
        }
        if (stride == 1) {
            bottom = middle + w[3] * v[0] + w[4] * v[1] + w[5] * v[2];
            middle = w[0] * v[0] + w[1] * v[1] + w[2] * v[2];
        } else if (i % 2 == 0) {
            bottom = w[0] * v[0] + w[1] * v[1] + w[2] * v[2];
        } else {
            bottom = bottom + w[3] * v[0] + w[4] * v[1] + w[5] * v[2];
        }
    }
}

/* The products of such a column of dy with x under it, added to nine vectors. The lanes that a
 * `mask` clears count as zeros of both. */
TALC_ALWAYS_INLINE void products_3x3(int border, const int stride, const real *zeros, const real *x,
                                     int64_t start, int64_t step, talc_range inside, int64_t rows,
                                     const integers *mask, const real *dy, int64_t dy_step,
                                     vector sums[9])
{
    vector all[9], v[3] = { { 0 } };
    for (int tap = 0; tap < 9; tap++)
        all[tap] = sums[tap];
    for (int64_t r = 0; r < rows; r++) {
        vector g = LOAD(dy + r * dy_step);
        if (mask != NULL)
            g = (vector)((integers)g & *mask);
        for (int kh = 0; kh < 3; kh++) {
            /* At stride 2 the last row is the next one's first. */
            const int64_t i = r * stride + kh;
            if (stride == 1 || kh > 0 || r == 0) {
                load_taps(border, stride,
                          i >= inside.lo && i < inside.hi ? x + (start + i * step) : zeros, v);
                for (int k = 0; k < 3 && mask != NULL; k++)
                    v[k] = (vector)((integers)v[k] & *mask);
            }
            for (int k = 0; k < 3; k++)
                all[kh * 3 + k] += g * v[k];
        }
    }
    for (int tap = 0; tap < 9; tap++)
        sums[tap] = all[tap];
}

/* COLUMN(border, stride) for a column whose first middle tap is in column iw of x. */
#define AT_BORDER(COLUMN)                                                                          \
    if (iw == 0 && stride == 1) {                                                                  \
        COLUMN(LEFT_BORDER, 1);                                                                    \
    } else if (iw == 0) {                                                                          \
        COLUMN(LEFT_BORDER, 2);                                                                    \
    } else if (stride == 1 && iw + LANES < W) {                                                    \
        COLUMN(NO_BORDER, 1);                                                                      \
    } else if (stride == 1) {                                                                      \
        COLUMN(RIGHT_BORDER, 1);                                                                   \
    } else if (iw + 2 * LANES <= W) {                                                              \
        COLUMN(NO_BORDER, 2);                                                                      \
    } else {                                                                                       \
        COLUMN(RIGHT_BORDER, 2);                                                                   \
    }

/* A band of a plane of outputs, from its input itself: columns, of which the last one overlaps the
 * one before. */
TALC_TARGET_CLONES static void band_3x3(const columns_context *c, const columns_tile *band,
                                        const real *x, const real *filter, real *out,
                                        int64_t out_step)
{
    const depthwise_pass *pass = &c->pass;
    const int64_t stride = pass->w.stride, rows = band->rows, W = pass->w.in;
    const int64_t ih = band->row * stride - pass->h.pad;
    const talc_range inside = talc_window_inside(ih, 1, (rows - 1) * stride + 3, pass->h.in);
    const int64_t ahead = rows * stride * W * (int64_t)sizeof(real);
    const bool stream = c->stores == STREAM_CACHE_LINES;
    const real *zeros = c->zeros;
    real w[9];
    for (int64_t tap = 0; tap < 9; tap++)
        w[tap] = filter[(pass->h.w + tap / 3 * pass->h.w_step) * 3 + pass->w.w +
                        tap % 3 * pass->w.w_step];
    for (int64_t q = 0; q < band->columns; q += LANES) {
        const int64_t at = talc_smaller(q, band->columns - LANES);
        const int64_t iw = (band->column + at) * stride - pass->w.pad + 1, start = ih * W + iw;
#define COLUMN(border, step)                                                                       \
    column_3x3(border, step, w, zeros, x, start, W, inside, rows, ahead, stream, out + at, out_step)
        AT_BORDER(COLUMN)
#undef COLUMN
    }
}

/* Adds what a tile of dy and x under it make of dw to the taps. A lane sums TERMS terms at most
 * before f64 adds them up. */
TALC_TARGET_CLONES static void tile_3x3(const columns_context *c, const columns_tile *band,
                                        const real *x, const real *dy, double taps[9])
{
    const depthwise_pass *pass = &c->pass;
    const int64_t stride = pass->w.stride, rows = band->rows, W = pass->w.in;
    const int64_t ih = band->row * stride - pass->h.pad;
    const talc_range inside = talc_window_inside(ih, 1, (rows - 1) * stride + 3, pass->h.in);
    const real *zeros = c->zeros;
    vector sums[9] = { { 0 } };
    int64_t terms = 0;
    for (int64_t q = 0; q < band->columns; q += LANES) {
        const int64_t at = talc_smaller(q, band->columns - LANES);
        const int64_t iw = (band->column + at) * stride - pass->w.pad + 1, start = ih * W + iw;
        integers mask;
        for (size_t i = 0; i < sizeof mask / sizeof mask[0]; i++)
            mask[i] = i * sizeof mask[0] < (size_t)(q - at) * sizeof(real) ? 0 : -1;
#define COLUMN(border, step)                                                                       \
    if (q == at)                                                                                   \
        products_3x3(border, step, zeros, x, start, W, inside, rows, NULL, dy + at, pass->w.out,   \
                     sums);                                                                        \
    else                                                                                           \
        products_3x3(border, step, zeros, x, start, W, inside, rows, &mask, dy + at, pass->w.out,  \
                     sums)
        AT_BORDER(COLUMN)
#undef COLUMN
        terms += rows;
        if (terms + rows <= TERMS && q + LANES < band->columns)
            continue;
        terms = 0;
        for (int tap = 0; tap < 9; tap++) {
            for (int i = 0; i < LANES; i++)
                taps[tap] += (double)sums[tap][i];
            sums[tap] = (vector){ 0 };
        }
    }
}

/* A row of dx at stride 2 and twice as wide as dy, from one or two rows of dy and their taps. Of
 * pixels and the padding before them, even ones have taps 0 and 2, odd ones tap 1; `odd`: those
 * come first. */
TALC_ALWAYS_INLINE void phases_3x3(const int rows, const bool odd, const real *const *dy,
                                   const real *const *w, int64_t OW, int64_t lo, int64_t hi,
                                   real *restrict dx)
{
    const vector zero = { 0 };
    for (int64_t q = lo; q < hi; q += LANES) {
        const int64_t at = talc_smaller(q, hi - LANES);
        vector of_two = zero, of_one = zero;
        for (int i = 0; i < rows; i++) {
            const vector v = LOAD(dy[i] + at);
            const real beside = odd      ? at + LANES < OW ? dy[i][at + LANES] : 0
                                : at > 0 ? dy[i][at - 1]
                                         : 0;
            of_one += w[i][1] * v;
            of_two += w[i][2] * (odd ? v : (vector)BEFORE(v, zero + beside));
            of_two += w[i][0] * (odd ? (vector)AFTER(v, zero + beside) : v);
        }
        const vector first = odd ? of_one : of_two, second = odd ? of_two : of_one;
        *(vector *)(dx + 2 * at) = LOW(first, second);
        *(vector *)(dx + 2 * at + LANES) = HIGH(first, second);
    }
}

TALC_TARGET_CLONES static void rows_3x3(const columns_context *c, const columns_tile *tile,
                                        const real *dy, const real *filter, real *dx)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t lo = tile->column, hi = lo + tile->columns;
    for (int64_t ih = tile->row; ih < tile->row + tile->rows; ih++) {
        const int64_t padded = ih + p->pad_top;
        const real *from[2], *w[2];
        int rows = 0;
        for (int64_t kh = padded % 2 == 0 ? 2 : 1; kh >= 0; kh -= 2) {
            const int64_t oh = padded / 2 - kh / 2;
            if (oh >= 0 && oh < p->OH) {
                from[rows] = dy + oh * p->OW;
                w[rows++] = filter + kh * 3;
            }
        }
        real *to = dx + ih * p->W;
        if (rows == 0)
            memset(to + 2 * lo, 0, (size_t)(2 * (hi - lo)) * sizeof(real));
        else if (rows == 1 && p->pad_left == 1)
            phases_3x3(1, true, from, w, p->OW, lo, hi, to);
        else if (rows == 1)
            phases_3x3(1, false, from, w, p->OW, lo, hi, to);
        else if (p->pad_left == 1)
            phases_3x3(2, true, from, w, p->OW, lo, hi, to);
        else
            phases_3x3(2, false, from, w, p->OW, lo, hi, to);
    }
}

#undef LANES
#undef vector
#undef integers
#undef load_taps
#undef column_3x3
#undef products_3x3
#undef AT_BORDER
#undef band_3x3
#undef tile_3x3
#undef phases_3x3
#undef rows_3x3
#undef LOAD
#undef real
#undef NAME
#undef BEFORE
#undef AFTER
#undef EVEN
#undef ODD
#undef LOW
#undef HIGH
