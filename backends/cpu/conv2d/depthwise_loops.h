/// The loops of the depthwise convolution, for one element type: depthwise.c includes this once
/// with `real` as float and once as double, NAME(x) as x_f32 and x_f64.

#define LANES        NAME(LANES)
#define vector       NAME(vector)
#define store        NAME(store)
#define vector_start NAME(vector_start)
#define copy_pairs   NAME(copy_pairs)
#define copy_slot    NAME(copy_slot)
#define zero_around  NAME(zero_around)
#define copy_input   NAME(copy_input)
#define column_3x3   NAME(column_3x3)
#define copy_columns NAME(copy_columns)
#define band_3x3     NAME(band_3x3)
#define LOAD(at)     (*(const vector *)(at))
#define NO_CALL()    __asm__ volatile("" ::: "memory")

enum { LANES = CACHE_LINE / sizeof(real) };

/* The widest vector register there is, at any address; compilers make several narrower ones of
 * it. */
typedef real vector __attribute__((vector_size(CACHE_LINE), aligned(sizeof(real)), may_alias));

/* The first `columns` lanes, all of them when there are more columns. */
static ALWAYS_INLINE void store(real *at, const vector *v, int64_t columns)
{
    if (columns >= LANES)
        *(vector *)at = *v;
    else {
        char narrow[CACHE_LINE];
        *(vector *)(void *)narrow = *v;
        talc_cpu_part_copy((char *)at, narrow, (size_t)columns * sizeof(real));
    }
}

/* Where the vector at column q of a row starts: the last one of a row overlaps the one before. */
static inline int64_t vector_start(int64_t q, int64_t columns)
{
    return q + LANES <= columns || columns < LANES ? q : columns - LANES;
}

/* Zeros of a row of copied columns around those in `inside`, in whole vectors. */
static ALWAYS_INLINE void zero_around(talc_range inside, int64_t width, real *dst)
{
    for (int64_t i = 0; i < inside.lo; i += LANES) {
        *(vector *)(dst + i) = (vector){ 0 };
        NO_CALL();
    }
    for (int64_t i = inside.hi / LANES * LANES; i < width; i += LANES) {
        *(vector *)(dst + i) = (vector){ 0 };
        NO_CALL();
    }
}

/* Columns lo .. hi - 1 of those that stand `stride` apart in an image row, from column iw on. */
static ALWAYS_INLINE void copy_slot(const real *restrict row, int64_t iw, int64_t stride,
                                    int64_t lo, int64_t hi, real *restrict dst)
{
    if (stride > 1)
        for (int64_t i = lo; i < hi; i++)
            dst[i] = row[iw + i * stride];
    else if (hi - lo < LANES)
        talc_cpu_short_copy((char *)(dst + lo), (const char *)(row + (iw + lo)),
                            (size_t)(hi - lo) * sizeof(real));
    else
        for (int64_t i = lo; i < hi; i += LANES) {
            const int64_t at = talc_smaller(i, hi - LANES);
            *(vector *)(dst + at) = LOAD(row + (iw + at));
        }
}

/* Pairs of columns, at least LANES of them, of which each slot of stride 2 takes one. */
static ALWAYS_INLINE void copy_pairs(const real *restrict row, int64_t iw, talc_range pairs,
                                     real *restrict even, real *restrict odd)
{
    for (int64_t i = pairs.lo; i < pairs.hi; i += LANES) {
        const int64_t at = talc_smaller(i, pairs.hi - LANES);
        const vector a = LOAD(row + (iw + 2 * at)), b = LOAD(row + (iw + 2 * at + LANES));
        *(vector *)(even + at) = EVEN(a, b);
        *(vector *)(odd + at) = ODD(a, b);
    }
}

// ---- Rows: any kernel, stride and dilation ------------------------------------------------------

/* Rows first .. end - 1 of the input of a tile, [input rows, slots, width], with zeros around it
 * unless these are there. */
TALC_TARGET_CLONES static void copy_input(const depthwise_pass *pass, const depthwise_plan *plan,
                                          const depthwise_tile *tile, int64_t first, int64_t end,
                                          const real *plane, bool zeroed, real *in)
{
    const depthwise_axis *h = &pass->h, *w = &pass->w;
    const int64_t top = tile->row * h->stride - h->pad, pad = slot_pad(w), stride = w->stride;
    const int64_t iw = (tile->column - pad - lead_of(w, tile->column)) * stride;
    const int64_t before = pad * stride - w->pad, row_step = plan->slots * plan->width;
    const talc_range image = talc_window_inside(top + first, 1, end - first, h->in);
    talc_range pairs = talc_window_inside(iw, 2, plan->width, w->in - 1);
    const bool paired = stride == 2 && plan->slots == 2 && pairs.hi - pairs.lo >= LANES;
    for (int64_t slot = 0; slot < plan->slots; slot++) {
        const int64_t from = iw + (before + slot * w->dilation) % stride;
        const talc_range inside = talc_window_inside(from, stride, plan->width, w->in);
        real *to = in + first * row_step + slot * plan->width;
        for (int64_t i = 0; i < end - first; i++, to += row_step) {
            const bool in_image = i >= image.lo && i < image.hi;
            if (!zeroed)
                zero_around(in_image ? inside : (talc_range){ 0, 0 }, plan->width, to);
            if (in_image)
                copy_slot(plane + (top + first + i) * w->in, from, stride,
                          paired ? pairs.hi : inside.lo, inside.hi, to);
        }
    }
    real *even = in + (first + image.lo) * row_step + before % 2 * plan->width;
    const real *row = plane + (top + first + image.lo) * w->in;
    for (int64_t i = image.lo; i < image.hi; i++, row += w->in, even += row_step) {
        if (plan->ahead)
            for (int64_t at = 0; at < w->in; at += LANES)
                prefetch(row + at, PREFETCH_BYTES);
        if (paired)
            copy_pairs(row, iw, pairs, even, before % 2 ? even - plan->width : even + plan->width);
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
        zero_around(columns, LANES + 2, copied + i * COPIED_COLUMNS);
        copy_slot(row, iw - 1, 1, columns.lo, columns.hi, copied + i * COPIED_COLUMNS);
    }
}

/* Rows first .. first + rows - 1 of a tile of a pass, from its input itself: columns are copied
 * only where an image is narrow or the padding is not 1. `in` holds a row of zeros and space for
 * copied columns. */
TALC_TARGET_CLONES static void band_3x3(const depthwise_context *c, const depthwise_pass *pass,
                                        const depthwise_tile *tile, int64_t first, int64_t rows,
                                        const real *plane, const real *filter, real *in, real *out,
                                        int64_t out_step)
{
    const int64_t ih = tile->row + first - pass->h.pad, W = pass->w.in;
    const talc_range inside = talc_window_inside(ih, 1, rows + 2, pass->h.in);
    const int64_t ahead = rows * W * (int64_t)sizeof(real);
    const bool stream = c->stores == STREAM_CACHE_LINES;
    real *zeros = in + 1, *copied = in + COPIED_COLUMNS, w[9];
    for (int64_t tap = 0; tap < 9; tap++)
        w[tap] = filter[(pass->h.w + tap / 3 * pass->h.w_step) * 3 + pass->w.w +
                        tap % 3 * pass->w.w_step];
    for (int64_t i = 0; i < COPIED_COLUMNS; i++)
        in[i] = 0;
    for (int64_t q = 0; q < tile->columns; q += LANES) {
        const int64_t at = vector_start(q, tile->columns);
        const int64_t iw = tile->column + at - pass->w.pad + 1; /* of the middle tap */
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
#undef store
#undef vector_start
#undef copy_pairs
#undef copy_slot
#undef zero_around
#undef copy_input
#undef column_3x3
#undef copy_columns
#undef band_3x3
#undef LOAD
#undef NO_CALL
#undef real
#undef NAME
#undef ZERO_BEFORE
#undef ZERO_AFTER
#undef EVEN
#undef ODD
