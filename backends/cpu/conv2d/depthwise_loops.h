/// The loops of the depthwise convolution, for one element type: depthwise.c includes this once
/// with `real` as float and once as double, NAME(x) as x_f32 and x_f64.

#define LANES        NAME(LANES)
#define vector       NAME(vector)
#define half         NAME(half)
#define store        NAME(store)
#define vector_start NAME(vector_start)
#define copy_slot    NAME(copy_slot)
#define copy_input   NAME(copy_input)
#define row_sums     NAME(row_sums)
#define band_sums    NAME(band_sums)
#define column_3x3   NAME(column_3x3)
#define copy_columns NAME(copy_columns)
#define band_3x3     NAME(band_3x3)
#define LOAD(at)     (*(const vector *)(at))
#define HALF(at)     (*(const half *)(at))

enum { LANES = CACHE_LINE / sizeof(real) };

/* The widest vector register there is, at any address; compilers make several narrower ones of
 * it. */
typedef real vector __attribute__((vector_size(CACHE_LINE), aligned(sizeof(real)), may_alias));

/* For sums over many taps: gcc keeps a vector wider than the processor's in memory, not in several
 * registers. */
typedef real half __attribute__((vector_size(CACHE_LINE / 2), aligned(sizeof(real)), may_alias));

/* The first `columns` lanes, all of them when there are more columns. */
static ALWAYS_INLINE void store(real *at, const vector *v, int64_t columns)
{
    if (columns >= LANES)
        *(vector *)at = *v;
    else {
        const vector narrow = *v;
        memcpy(at, &narrow, (size_t)columns * sizeof(real));
    }
}

/* Where the vector at column q of a row starts: the last one of a row overlaps the one before. */
static inline int64_t vector_start(int64_t q, int64_t columns)
{
    return q + LANES <= columns || columns < LANES ? q : columns - LANES;
}

/* `width` columns of an image row, `stride` apart, from column iw on: zero where they are not in
 * `inside`. */
static ALWAYS_INLINE void copy_slot(const real *restrict row, int64_t iw, int64_t stride,
                                    talc_range inside, int64_t width, real *restrict dst)
{
    int64_t i = 0;
    for (; i < inside.lo; i++)
        dst[i] = 0;
    if (stride == 1)
        for (; i + LANES <= inside.hi; i += LANES)
            *(vector *)(dst + i) = LOAD(row + (iw + i));
    if (stride == 2)
        for (; i < inside.hi; i++)
            dst[i] = row[iw + i * 2];
    for (; i < inside.hi; i++)
        dst[i] = row[iw + i * stride];
    for (; i < width; i++)
        dst[i] = 0;
}

// ---- Rows: any kernel, stride and dilation ------------------------------------------------------

/* Rows first .. end - 1 of the input of a tile, [input rows, slots, width]. */
static ALWAYS_INLINE void copy_input(const talc_conv2d_problem *p, const depthwise_plan *plan,
                                     const depthwise_tile *tile, int64_t first, int64_t end,
                                     const real *plane, real *in)
{
    const int64_t top = tile->row * p->stride_h - p->pad_top;
    for (int64_t slot = 0; slot < plan->slots; slot++) {
        const int64_t iw = tile->column * p->stride_w - p->pad_left +
                           (slot == 0 ? 0 : slot * p->dilation_w % p->stride_w);
        const talc_range inside = talc_window_inside(iw, p->stride_w, plan->width, p->W),
                         none = { 0, 0 };
        for (int64_t i = first; i < end; i++) {
            const bool in_image = top + i >= 0 && top + i < p->H;
            const real *row = plane + (in_image ? top + i : 0) * p->W;
            if (in_image && slot == 0)
                for (int64_t at = 0; at < p->W; at += LANES)
                    prefetch(row + at, PREFETCH_BYTES);
            copy_slot(row, iw, p->stride_w, in_image ? inside : none, plan->width,
                      in + (i * plan->slots + slot) * plan->width);
        }
    }
}

/* One row of outputs, `taps` a constant where this is inlined. */
static ALWAYS_INLINE void row_sums(int64_t taps, const int64_t *restrict offsets,
                                   const real *restrict w, const real *restrict in, int64_t columns,
                                   real *restrict out)
{
    for (int64_t q = 0; q < columns; q += LANES) {
        const int64_t at = vector_start(q, columns);
        const real *x = in + offsets[0] + at;
        half sums[2] = { w[0] * HALF(x), w[0] * HALF(x + LANES / 2) };
        for (int64_t t = 1; t < taps; t++) {
            x = in + offsets[t] + at;
            sums[0] += w[t] * HALF(x);
            sums[1] += w[t] * HALF(x + LANES / 2);
        }
        store(out + at, (const vector *)sums, columns);
    }
}

/* Rows first .. first + rows - 1 of a tile. Each input row is copied just before it is needed, so
 * that reading from memory and computing overlap. */
TALC_TARGET_CLONES static void band_sums(const depthwise_context *c, const depthwise_tile *tile,
                                         int64_t first, int64_t rows, const real *plane,
                                         const real *w, real *in, real *out, int64_t out_step)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t taps = p->KH * p->KW;
    const int64_t step = p->stride_h * c->plan.slots * c->plan.width;
    for (int64_t r = first; r < first + rows; r++, out += out_step) {
        const real *x = in + r * step;
        copy_input(p, &c->plan, tile, r == 0 ? 0 : input_rows(p, r), input_rows(p, r + 1), plane,
                   in);
        if (taps == 9)
            row_sums(9, c->offsets, w, x, tile->columns, out);
        else if (taps == 25)
            row_sums(25, c->offsets, w, x, tile->columns, out);
        else
            row_sums(taps, c->offsets, w, x, tile->columns, out);
    }
}

// ---- Columns: a 3x3 kernel of stride 1 without dilation -----------------------------------------

/* Computes a column of outputs as wide as a vector register, row by row: each input row is loaded
 * once, three times shifted, and adds to the up to three output rows that it belongs to. The taps
 * of each output are summed in the same order as above. Input row i is at x + start + i * step, or
 * is zero when i is not in `inside`; at the image's `border` nothing is read beyond the middle tap,
 * and a zero is shifted in. The next band starts `ahead` bytes further. */
static ALWAYS_INLINE void column_3x3(int border, const real *restrict w, const real *zeros,
                                     const real *x, int64_t start, int64_t step, talc_range inside,
                                     int64_t rows, int64_t ahead, int64_t columns, bool stream,
                                     real *restrict out, int64_t out_step)
{
    vector bottom = { 0 }, middle = { 0 };
    for (int64_t i = 0; i < rows + 2; i++) {
        const real *row = i >= inside.lo && i < inside.hi ? x + (start + i * step) : zeros;
        const vector v1 = LOAD(row);
        vector v0, v2;
        if (border == LEFT_BORDER)
            v0 = ZERO_BEFORE(v1);
        else
            v0 = LOAD(row - 1);
        if (border == RIGHT_BORDER)
            v2 = ZERO_AFTER(v1);
        else
            v2 = LOAD(row + 1);
        if (ahead != 0)
            prefetch(row + (LANES - 1), ahead);
        bottom = bottom + w[6] * v0 + w[7] * v1 + w[8] * v2;
        if (i >= 2) {
            if (stream)
                talc_cpu_stream_line(out, &bottom);
            else
                store(out, &bottom, columns);
            out += out_step;
        }
        bottom = middle + w[3] * v0 + w[4] * v1 + w[5] * v2;
        middle = w[0] * v0 + w[1] * v1 + w[2] * v2;
    }
}

/* Columns iw - 1 .. iw + LANES of some image rows, zero where they are outside. */
static ALWAYS_INLINE void copy_columns(const real *plane, int64_t W, int64_t ih, int64_t iw,
                                       talc_range inside, int64_t ahead, real *copied)
{
    const talc_range columns = talc_window_inside(iw - 1, 1, LANES + 2, W);
    for (int64_t i = inside.lo; i < inside.hi; i++) {
        const real *row = plane + (ih + i) * W;
        prefetch(row + talc_smaller(iw + LANES, W) - 1, ahead);
        copy_slot(row, iw - 1, 1, columns, LANES + 2, copied + i * COPIED_COLUMNS);
    }
}

/* The same rows as band_sums, from x itself: columns are copied only where an image is narrow or
 * the padding is not 1. `in` holds a row of zeros and space for copied columns. */
TALC_TARGET_CLONES static void band_3x3(const depthwise_context *c, const depthwise_tile *tile,
                                        int64_t first, int64_t rows, const real *plane,
                                        const real *w, real *in, real *out, int64_t out_step)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t ih = tile->row + first - p->pad_top, W = p->W;
    const talc_range inside = talc_window_inside(ih, 1, rows + 2, p->H);
    const int64_t ahead = rows * W * (int64_t)sizeof(real);
    const bool stream = c->stores == STREAM_CACHE_LINES;
    real *zeros = in + 1, *copied = in + COPIED_COLUMNS;
    for (int64_t i = 0; i < COPIED_COLUMNS; i++)
        in[i] = 0;
    for (int64_t q = 0; q < tile->columns; q += LANES) {
        const int64_t at = vector_start(q, tile->columns);
        const int64_t iw = tile->column + at - p->pad_left + 1; /* of the middle tap */
        const int64_t start = ih * W + iw;
        if (iw >= 1 && iw + LANES < W)
            column_3x3(NO_BORDER, w, zeros, plane, start, W, inside, rows, ahead, LANES, stream,
                       out + at, out_step);
        else if (iw == 0 && iw + LANES < W)
            column_3x3(LEFT_BORDER, w, zeros, plane, start, W, inside, rows, ahead, LANES, stream,
                       out + at, out_step);
        else if (iw >= 1 && iw + LANES == W && tile->columns >= LANES)
            column_3x3(RIGHT_BORDER, w, zeros, plane, start, W, inside, rows, ahead, LANES, stream,
                       out + at, out_step);
        else {
            copy_columns(plane, W, ih, iw, inside, ahead, copied);
            column_3x3(NO_BORDER, w, zeros, copied + 1, 0, COPIED_COLUMNS, inside, rows, 0,
                       tile->columns, stream, out + at, out_step);
        }
    }
}

#undef LANES
#undef vector
#undef half
#undef store
#undef vector_start
#undef copy_slot
#undef copy_input
#undef row_sums
#undef band_sums
#undef column_3x3
#undef copy_columns
#undef band_3x3
#undef LOAD
#undef HALF
#undef real
#undef NAME
#undef ZERO_BEFORE
#undef ZERO_AFTER
