/// The microkernels of `depthwise`, for one element type: microkernel.c includes this once with
/// `real` as float and once as double, TYPED(x) as x_f32 and x_f64. Private to backends/cpu.

#define vector TYPED(depthwise_vector)
#define whole  TYPED(depthwise_whole)
#define block  TYPED(depthwise_block)
#define lanes  TYPED(depthwise_lanes)
#define BLOCK  TYPED(DEPTHWISE_BLOCK)

typedef real vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef real whole __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef real block __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));

enum { lanes = VECTOR_BYTES / sizeof(real), BLOCK = 16 / sizeof(real) };

// ---- Lanes --------------------------------------------------------------------------------------

/* A vector has a block of each lane whose number has the same remainder modulo BLOCK. Exchanges
 * elements and vectors within blocks, so that vector i has element i of each lane; and back. */
TALC_ALWAYS_INLINE void TYPED(transpose_block)(vector v[BLOCK])
{
#if defined(DEPTHWISE_QUADS)
    const vector a = LOW_f32(v[0], v[1]), b = LOW_f32(v[2], v[3]);
    const vector c = HIGH_f32(v[0], v[1]), d = HIGH_f32(v[2], v[3]);
    v[0] = (vector)LOW_f64((pairs)a, (pairs)b);
    v[1] = (vector)HIGH_f64((pairs)a, (pairs)b);
    v[2] = (vector)LOW_f64((pairs)c, (pairs)d);
    v[3] = (vector)HIGH_f64((pairs)c, (pairs)d);
#else
    const vector a = LOW_f64(v[0], v[1]);
    v[1] = HIGH_f64(v[0], v[1]);
    v[0] = a;
#endif
}

/* `blocks` of each lane, from element `at` on. */
TALC_ALWAYS_INLINE void TYPED(to_lanes)(const int blocks, const void *const *from, int64_t at,
                                        real *to)
{
    vector v[4][BLOCK];
    EACH(k, BLOCK)
    {
        EACH(i, blocks)
        {
            block parts[PARTS];
            EACH(j, PARTS)
            {
                parts[j] = *(const block *)((const real *)from[k + j * BLOCK] + at + i * BLOCK);
            }
            v[i][k] = (vector)JOIN(parts);
        }
    }
    EACH(i, blocks)
    {
        TYPED(transpose_block)(v[i]);
        EACH(k, BLOCK)
        {
            *(vector *)(to + (at + i * BLOCK + k) * lanes) = v[i][k];
        }
    }
}

TALC_ALWAYS_INLINE void TYPED(from_lanes)(const int blocks, const real *from, int64_t at,
                                          void *const *to)
{
    vector v[4][BLOCK];
    EACH(i, blocks)
    {
        EACH(k, BLOCK)
        {
            v[i][k] = *(const vector *)(from + (at + i * BLOCK + k) * lanes);
        }
        TYPED(transpose_block)(v[i]);
    }
    EACH(k, BLOCK)
    {
#define STORE(j)                                                                                   \
    if (blocks == 1)                                                                               \
        *(block *)((real *)to[k + (j)*BLOCK] + at) = (block)PART(v[0][k], j);                      \
    else                                                                                           \
        *(whole *)((real *)to[k + (j)*BLOCK] + at) = (vector)EXCHANGED(v, k, j);
        EACH_PART(STORE)
#undef STORE
    }
}

/* As many blocks of a lane at a time as make a vector; the last one overlaps the one before. */
static void TYPED(depthwise_to_lanes)(const void *const *from, int64_t count, void *to)
{
    int64_t at = 0;
    for (; at + PARTS * BLOCK <= count; at += PARTS * BLOCK)
        TYPED(to_lanes)(PARTS, from, at, to);
    for (; at < count && count >= BLOCK; at += BLOCK)
        TYPED(to_lanes)(1, from, at < count - BLOCK ? at : count - BLOCK, to);
    for (; at < count; at++)
        for (int i = 0; i < lanes; i++)
            ((real *)to)[at * lanes + i] = ((const real *)from[i])[at];
}

static void TYPED(depthwise_from_lanes)(const void *from, int64_t count, void *const *to)
{
    int64_t at = 0;
    for (; at + PARTS * BLOCK <= count; at += PARTS * BLOCK)
        TYPED(from_lanes)(PARTS, from, at, to);
    for (; at < count && count >= BLOCK; at += BLOCK)
        TYPED(from_lanes)(1, from, at < count - BLOCK ? at : count - BLOCK, to);
    for (; at < count; at++)
        for (int i = 0; i < lanes; i++)
            ((real *)to[i])[at] = ((const real *)from)[at * lanes + i];
}

// ---- Sums ---------------------------------------------------------------------------------------

/* `outputs` from number `at` on. `step`: x_step where it is known. */
TALC_ALWAYS_INLINE void TYPED(sum_outputs)(const int outputs, const int step,
                                           const talc_cpu_depthwise_sums *t, int64_t at)
{
    const int64_t x_step = (step > 0 ? step : t->x_step) * lanes;
    vector sums[DEPTHWISE_OUTPUTS];
    EACH(i, outputs)
    {
        sums[i] = (vector){ 0 };
    }
    for (int64_t row = 0; row < t->rows; row++) {
        const real *x = (const real *)t->x[row] + t->x_first + at * x_step;
        const real *w = (const real *)t->w[row] + t->w_first;
        for (int64_t k = 0; k < t->taps; k++, x += t->x_tap, w += t->w_tap) {
            const vector tap = *(const vector *)w;
            EACH(i, outputs)
            {
                sums[i] += tap * *(const vector *)(x + i * x_step);
            }
        }
    }
    if (t->epilogue) {
        const vector bias = *(const vector *)t->bias;
        EACH(i, outputs)
        {
            sums[i] = (vector)TYPED(between)(sums[i] + bias, (real)t->low, (real)t->high);
        }
    }
    EACH(i, outputs)
    {
        *(vector *)((real *)t->y + (at + i) * t->y_step * lanes) = sums[i];
    }
}

/* Rows of outputs are divided into equal lengths, of which the last overlaps the one before. */
static void TYPED(depthwise_sums)(const talc_cpu_depthwise_sums *t)
{
    const int64_t count = (t->outputs + DEPTHWISE_OUTPUTS - 1) / DEPTHWISE_OUTPUTS;
    const int64_t length = count > 0 ? (t->outputs + count - 1) / count : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i + 1 < count ? i * length : t->outputs - length;
        switch (length * 4 + (t->x_step <= 2 ? t->x_step : 0)) {
#define LENGTH(_, outputs)                                                                         \
    case outputs * 4:                                                                              \
        TYPED(sum_outputs)(outputs, 0, t, at);                                                     \
        break;                                                                                     \
    case outputs * 4 + 1:                                                                          \
        TYPED(sum_outputs)(outputs, 1, t, at);                                                     \
        break;                                                                                     \
    case outputs * 4 + 2:                                                                          \
        TYPED(sum_outputs)(outputs, 2, t, at);                                                     \
        break;
            EACH_OUTPUTS(LENGTH, _)
#undef LENGTH
        }
    }
}

// ---- Products -----------------------------------------------------------------------------------

TALC_ALWAYS_INLINE void TYPED(sum_products)(const int taps, const talc_cpu_depthwise_products *t)
{
    const real *x[TALC_CPU_DEPTHWISE_TAPS], *dy = t->dy;
    vector sums[TALC_CPU_DEPTHWISE_TAPS];
    EACH(i, taps)
    {
        x[i] = t->x[i];
        sums[i] = ((const vector *)t->sums)[i];
    }
    const int64_t step = t->x_step * lanes;
    for (int64_t q = 0, at = 0; q < t->outputs; q++, at += step) {
        const vector g = *(const vector *)(dy + q * lanes);
        EACH(i, taps)
        {
            sums[i] += g * *(const vector *)(x[i] + at);
        }
    }
    EACH(i, taps)
    {
        ((vector *)t->sums)[i] = sums[i];
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
#undef whole
#undef block
#undef lanes
#undef BLOCK
#undef real
#undef TYPED
