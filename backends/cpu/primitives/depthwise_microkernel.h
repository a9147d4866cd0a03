/// The microkernels of `depthwise`, for one element type: microkernel.c includes this once with
/// `real` as float and once as double, TYPED(x) as x_f32 and x_f64. Private to backends/cpu.

#define vector   TYPED(depthwise_vector)
#define stored   TYPED(depthwise_stored)
#define integers TYPED(depthwise_integers)
#define lanes    TYPED(depthwise_lanes)

typedef real vector __attribute__((vector_size(VECTOR_BYTES)));
typedef real stored __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef int integers __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

enum { lanes = VECTOR_BYTES / sizeof(real) };

// ---- Sums ---------------------------------------------------------------------------------------

/* What one row of the input adds to rows lo .. hi - 1 of outputs: each vector is loaded once for
 * all of them. */
ALWAYS_INLINE void TYPED(add_row)(const int vectors, const int lo, const int hi,
                                  const talc_cpu_depthwise_sums *t, const real *x, const real *w,
                                  vector sums[DEPTHWISE_ROWS][2])
{
    for (int64_t k = 0; k < t->KW; k++, w += t->w_column) {
        const real *from = x + t->offsets[k];
        vector b[2];
        EACH(v, vectors)
        {
            b[v] = *(const stored *)(from + v * lanes);
        }
        EACH(i, hi - lo)
        {
            EACH(v, vectors)
            {
                sums[lo + i][v] += w[-i * t->w_shift] * b[v];
            }
        }
    }
}

/* Outputs `at` .. of each row, `count` of the last vector. */
ALWAYS_INLINE void TYPED(sum_columns)(const int vectors, const talc_cpu_depthwise_sums *t,
                                      int64_t at, int64_t count)
{
    vector sums[DEPTHWISE_ROWS][2];
    EACH(i, DEPTHWISE_ROWS)
    {
        EACH(v, vectors)
        {
            sums[i][v] = (vector){ 0 };
            if (t->add && i < t->outputs)
                sums[i][v] = *(const stored *)((const real *)t->y + i * t->y_step + at + v * lanes);
        }
    }
    int64_t lo = 0, hi = 0;
    for (int64_t u = t->rows.lo; u < t->rows.hi; u++) {
        while (lo < t->outputs && u >= lo * t->shift + t->KH)
            lo++;
        while (hi < t->outputs && u >= hi * t->shift)
            hi++;
        const real *x = (const real *)t->x + u * t->x_step + at;
        const real *w = (const real *)t->w + u * t->w_row - lo * t->w_shift;
        switch (lo * 8 + hi) {
#define ROWS_OF(lo, hi)                                                                            \
    case (lo)*8 + (hi):                                                                            \
        if (hi <= DEPTHWISE_ROWS)                                                                  \
            TYPED(add_row)(vectors, lo, hi, t, x, w, sums);                                        \
        break;
            // clang-format off
            ROWS_OF(0, 1) ROWS_OF(0, 2) ROWS_OF(0, 3) ROWS_OF(0, 4) ROWS_OF(0, 5) ROWS_OF(0, 6) ROWS_OF(0, 7)
            ROWS_OF(1, 2) ROWS_OF(1, 3) ROWS_OF(1, 4) ROWS_OF(1, 5) ROWS_OF(1, 6) ROWS_OF(1, 7)
            ROWS_OF(2, 3) ROWS_OF(2, 4) ROWS_OF(2, 5) ROWS_OF(2, 6) ROWS_OF(2, 7)
            ROWS_OF(3, 4) ROWS_OF(3, 5) ROWS_OF(3, 6) ROWS_OF(3, 7)
            ROWS_OF(4, 5) ROWS_OF(4, 6) ROWS_OF(4, 7)
            ROWS_OF(5, 6) ROWS_OF(5, 7)
            ROWS_OF(6, 7)
            // clang-format on
#undef ROWS_OF
        }
    }
    EACH(i, DEPTHWISE_ROWS)
    {
        real *y = (real *)t->y + i * t->y_step + at;
        if (i < t->outputs)
            EACH(v, vectors)
            {
                if (v == vectors - 1 && count < lanes) {
                    char narrow[64];
                    *(stored *)(void *)narrow = sums[i][v];
                    talc_cpu_part_copy((char *)(y + v * lanes), narrow,
                                       (size_t)count * sizeof(real));
                } else {
                    *(stored *)(y + v * lanes) = sums[i][v];
                }
            }
    }
}

/* The last vectors of a row overlap those before, which only stores of whole sums may do. */
static void TYPED(depthwise_sums)(const talc_cpu_depthwise_sums *t)
{
    const int64_t columns = t->columns;
    if (columns < lanes) {
        TYPED(sum_columns)(1, t, 0, columns);
        return;
    }
    for (int64_t q = 0; q < columns;) {
        const int vectors = columns - q > lanes && columns >= 2 * lanes ? 2 : 1;
        const int64_t at = q + vectors * lanes <= columns ? q : columns - vectors * lanes;
        if (vectors == 2)
            TYPED(sum_columns)(2, t, at, lanes);
        else
            TYPED(sum_columns)(1, t, at, lanes);
        q = at + vectors * lanes;
    }
}

// ---- Products -----------------------------------------------------------------------------------

/* One vector of dy with what each tap reads. The lanes that `mask` clears lie behind the row,
 * and may hold anything. */
ALWAYS_INLINE void TYPED(add_products)(const int taps, const int64_t *offsets, const real *x,
                                       const real *dy, const integers *mask, vector *sums)
{
    vector g = *(const stored *)dy;
    if (mask != NULL)
        g = (vector)((integers)g & *mask);
    EACH(i, taps)
    {
        vector b = *(const stored *)(x + offsets[i]);
        if (mask != NULL)
            b = (vector)((integers)b & *mask);
        sums[i] += g * b;
    }
}

ALWAYS_INLINE void TYPED(sum_products)(const int taps, const talc_cpu_depthwise_products *t)
{
    const int64_t rest = t->columns % lanes, whole = t->columns - rest;
    integers mask = { 0 };
    for (size_t i = 0; i < VECTOR_BYTES / sizeof(int); i++)
        mask[i] = i < (size_t)rest * (sizeof(real) / sizeof(int)) ? -1 : 0;
    vector sums[TALC_CPU_DEPTHWISE_TAPS];
    EACH(i, taps)
    {
        sums[i] = (vector){ 0 };
    }
    const real *x = t->x, *dy = t->dy;
    for (int64_t row = 0; row < t->rows; row++, x += t->x_step, dy += t->dy_step) {
        for (int64_t q = 0; q < whole; q += lanes)
            TYPED(add_products)(taps, t->offsets, x + q, dy + q, NULL, sums);
        if (rest != 0)
            TYPED(add_products)(taps, t->offsets, x + whole, dy + whole, &mask, sums);
    }
    EACH(i, taps)
    {
        double each[lanes];
        for (int s = 0; s < lanes; s++)
            each[s] = (double)sums[i][s];
        for (int half = lanes / 2; half > 0; half /= 2)
            for (int s = 0; s < half; s++)
                each[s] += each[s + half];
        t->sums[i] += each[0];
    }
}

static void TYPED(depthwise_products)(int taps, const talc_cpu_depthwise_products *t)
{
    switch (taps) {
#define TAPS(_, count)                                                                             \
    case count:                                                                                    \
        TYPED(sum_products)(count, t);                                                             \
        break;
        UP_TO_12(TAPS, _)
#undef TAPS
    }
}

#undef vector
#undef stored
#undef integers
#undef lanes
#undef real
#undef TYPED
