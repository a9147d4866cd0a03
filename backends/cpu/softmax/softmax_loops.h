/// The loops of softmax for one element type: softmax.c includes this once with T as float and once
/// as double, NAME(x) as x_f32 and x_f64.
///
/// A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and
/// so into every result, as (+infinity) - (+infinity) and (-infinity) - (-infinity) do. log_softmax
/// needs no exponentials kept.

/* Formulas of TALC_CPU_WRITE. */
#define LOGARITHM(AT) (AT(x) - m - log_sum)
#define QUOTIENT(AT)  (AT(e) * inverse)

/* Softmaxes side by side. */
TALC_ALWAYS_INLINE void NAME(side_by_side)(const talc_softmax_problem *p, int64_t width,
                                           const T *restrict x, int64_t x_stride, int64_t x_step,
                                           T *restrict y, int64_t y_stride, int64_t y_step)
{
    const bool logarithm = p->log;
    T m[WIDTH], e[WIDTH], part[WIDTH];
    double sum[WIDTH];
    for (int64_t j = 0; j < width; j++) {
        m[j] = x[j * x_step];
        sum[j] = 0;
    }
    for (int64_t i = 1; i < p->extent; i++)
        for (int64_t j = 0; j < width; j++) {
            const T x_ij = x[i * x_stride + j * x_step];
            m[j] = x_ij > m[j] ? x_ij : m[j];
        }
    const int64_t terms = terms_per_sum(p);
    for (int64_t begin = 0; begin < p->extent; begin += terms) {
        const int64_t end = talc_smaller(begin + terms, p->extent);
        for (int64_t j = 0; j < width; j++)
            part[j] = 0;
        for (int64_t i = begin; i < end; i++) {
            for (int64_t j = 0; j < width; j++)
                e[j] = exp(x[i * x_stride + j * x_step] - m[j]);
            for (int64_t j = 0; j < width; j++)
                part[j] += e[j];
            if (!logarithm)
                for (int64_t j = 0; j < width; j++)
                    y[i * y_stride + j * y_step] = e[j];
        }
        for (int64_t j = 0; j < width; j++)
            sum[j] += (double)part[j];
    }
    for (int64_t j = 0; j < width; j++)
        e[j] = (T)(logarithm ? sum[j] : 1 / sum[j]);
    for (int64_t j = 0; j < width && logarithm; j++)
        e[j] = log(e[j]);
    for (int64_t i = 0; i < p->extent; i++)
        for (int64_t j = 0; j < width; j++) {
            T *y_ij = y + i * y_stride + j * y_step;
            *y_ij = p->log ? x[i * x_stride + j * x_step] - m[j] - e[j] : *y_ij * e[j];
        }
}

/* Short ones whose elements lie closer than they do: transposed on the way in and out. */
TALC_ALWAYS_INLINE void NAME(transposed)(const softmax_plan *plan, int64_t width,
                                         const T *restrict x, T *restrict y)
{
    const talc_softmax_problem *p = plan->problem;
    T x_transposed[TRANSPOSED], y_transposed[TRANSPOSED];
    for (int64_t j = 0; j < width; j++)
        for (int64_t i = 0; i < p->extent; i++)
            x_transposed[i * plan->width + j] = x[i * p->x_stride + j * plan->x_step];
    NAME(side_by_side)(p, width, x_transposed, plan->width, 1, y_transposed, plan->width, 1);
    for (int64_t j = 0; j < width; j++)
        for (int64_t i = 0; i < p->extent; i++)
            y[i * p->y_stride + j * plan->y_step] = y_transposed[i * plan->width + j];
}

TALC_TARGET_CLONES static T NAME(largest)(int64_t n, const T *x)
{
    T largest[4 * LANES];
    int64_t i = 0;
    for (int j = 0; j < 4 * LANES; j++)
        largest[j] = x[0];
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4 * LANES; j++)
            largest[j] = x[i + j] > largest[j] ? x[i + j] : largest[j];
    for (; i < n; i += LANES) {
        T last[LANES];
        for (int j = 0; j < LANES; j++)
            last[j] = x[i + j < n ? i + j : 0];
        for (int j = 0; j < LANES; j++)
            largest[j] = last[j] > largest[j] ? last[j] : largest[j];
    }
#pragma GCC unroll 8
    for (int half = 2 * LANES; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            largest[j] = largest[j + half] > largest[j] ? largest[j + half] : largest[j];
    return largest[0];
}

/* Exponentials of at most CHUNK elements; e has room for whole vectors. Returns their sum. */
TALC_TARGET_CLONES static double NAME(exponentials)(int64_t n, const T *restrict x, T m,
                                                    T *restrict e)
{
    const int64_t whole = n / LANES * LANES, end = whole < n ? whole + LANES : whole;
    if (whole < n) { /* first, so that the others hide how long it takes */
        T last[LANES];
        for (int j = 0; j < LANES; j++)
            last[j] = whole + j < n ? x[whole + j] - m : -INFINITY;
        for (int j = 0; j < LANES; j++)
            e[whole + j] = exp(last[j]);
    }
    for (int64_t i = 0; i < whole; i++)
        e[i] = exp(x[i] - m);
    T lanes[LANES] = { 0 };
    for (int64_t i = 0; i < end; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += e[i + j];
    double sums[LANES];
    for (int j = 0; j < LANES; j++)
        sums[j] = (double)lanes[j];
#pragma GCC unroll 8
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            sums[j] += sums[j + half];
    return sums[0];
}

/* y from x or, if they are kept, exponentials e. */
TALC_TARGET_CLONES static void NAME(finish)(bool logarithm, bool streams, int64_t n, const T *x,
                                            const T *e, T m, double sum, T *y)
{
    const T log_sum = log((T)sum), inverse = (T)(1 / sum);
    if (logarithm)
        TALC_CPU_WRITE(streams, n, y, T, LOGARITHM)
    else
        TALC_CPU_WRITE(e != y && streams, n, y, T, QUOTIENT)
}

/* One whose n elements are adjacent. Exponentials are taken a chunk at a time and kept in a row's
 * buffer, or in y. */
static void NAME(adjacent)(bool logarithm, bool streams, int64_t n, const T *x, T *y)
{
    T kept[ROW];
    const T m = NAME(largest)(n, x);
    double sum = 0, part = 0; /* of CHUNK chunks */
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        const int64_t count = talc_smaller(CHUNK, n - begin);
        T *e = n <= ROW ? kept + begin : kept;
        /* The next row is fetched while this one is computed. */
        for (int64_t i = 0; i < count && streams && n <= ROW;
             i += TALC_CPU_CACHE_LINE / (int64_t)sizeof(T))
            __builtin_prefetch(x + n + begin + i);
        part += NAME(exponentials)(count, x + begin, m, e);
        if ((begin / CHUNK + 1) % CHUNK == 0) {
            sum += part;
            part = 0;
        }
        if (!logarithm && n > ROW)
            memcpy(y + begin, e, (size_t)count * sizeof *y);
    }
    NAME(finish)(logarithm, streams, n, x, n <= ROW ? kept : y, m, sum + part, y);
}

TALC_TARGET_CLONES static void NAME(side_block)(const softmax_plan *plan, softmax_block block)
{
    const talc_softmax_problem *p = plan->problem;
    const int64_t width = block.width;
    const T *x = (const T *)plan->x + block.x;
    T *y = (T *)plan->y + block.y;
    if (plan->x_step == 1 && plan->y_step == 1)
        NAME(side_by_side)(p, width, x, p->x_stride, 1, y, p->y_stride, 1);
    else if (p->extent <= SHORT)
        NAME(transposed)(plan, width, x, y);
    else
        NAME(side_by_side)(p, width, x, p->x_stride, plan->x_step, y, p->y_stride, plan->y_step);
}

static void NAME(block)(const softmax_plan *plan, softmax_block block)
{
    const talc_softmax_problem *p = plan->problem;
    const T *x = (const T *)plan->x + block.x;
    T *y = (T *)plan->y + block.y;
    if (block.width == 1 && p->x_stride == 1 && p->y_stride == 1)
        NAME(adjacent)(p->log, plan->streams, p->extent, x, y);
    else
        NAME(side_block)(plan, block);
}

#undef LOGARITHM
#undef QUOTIENT
