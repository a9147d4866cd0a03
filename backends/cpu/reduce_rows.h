/* Loops of backends/cpu/reduce.c for one element type: included there with T the type and NAME(x) its functions' names. */

/* NaN counts as larger than everything, and the first of equals stays. */
#define LARGER(x, best) ((x) > (best) || ((x) != (x) && (best) == (best)))

/* ---- Along a row: one output, n elements `stride` apart -------------------------------------------------------- */

/* Of at most CHUNK elements: LANES sums side by side, then a tree over them. */
static double NAME(chunk_sum)(const T *x, int64_t n, int64_t stride)
{
    int64_t i = 0;
    if (n < LANES) {
        T sum = x[0];
        for (i = 1; i < n; i++)
            sum += x[i * stride];
        return (double)sum;
    }
    T lanes[LANES] = { 0 };
    if (stride == 1) {
        for (; i + LANES <= n; i += LANES)
            for (int lane = 0; lane < LANES; lane++)
                lanes[lane] += x[i + lane];
    } else {
        for (; i + LANES <= n; i += LANES)
            for (int lane = 0; lane < LANES; lane++)
                lanes[lane] += x[(i + lane) * stride];
    }
    for (int lane = 0; i < n; i++, lane++)
        lanes[lane] += x[i * stride];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return (double)lanes[0];
}

static T NAME(chunk_max)(const T *x, int64_t n, int64_t stride)
{
    int64_t i = 0;
    T best = x[0];
    /* A lane that holds NaN keeps it: nothing is larger, and another NaN is as good. */
    if (stride == 1 && n >= LANES) {
        T lanes[LANES];
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = best;
        for (; i + LANES <= n; i += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                T value = x[i + lane];
                lanes[lane] = ((value > lanes[lane]) | (value != value)) ? value : lanes[lane];
            }
        for (int lane = 0; lane < LANES; lane++)
            best = LARGER(lanes[lane], best) ? lanes[lane] : best;
    }
    for (; i < n; i++)
        best = LARGER(x[i * stride], best) ? x[i * stride] : best;
    return best;
}

/* The first element that is `value`, or NaN when that is NaN. */
static int64_t NAME(chunk_find)(const T *x, int64_t stride, T value)
{
    int64_t i = 0;
    while (x[i * stride] != value && (value == value || x[i * stride] == x[i * stride]))
        i++;
    return i;
}

static void NAME(fold_run)(talc_reduce_function function, const T *x, int64_t n, int64_t stride,
                           int64_t first, partial *into)
{
    for (int64_t i = 0; i < n; i += CHUNK) {
        const T *chunk = x + i * stride;
        int64_t length = n - i < CHUNK ? n - i : CHUNK;
        if (function == TALC_SUM || function == TALC_MEAN) {
            into->value += NAME(chunk_sum)(chunk, length, stride);
            continue;
        }
        T best = NAME(chunk_max)(chunk, length, stride);
        if (into->index >= 0 && !LARGER((double)best, into->value))
            continue;
        into->value = (double)best;
        into->index =
            first + i + (function == TALC_ARGMAX ? NAME(chunk_find)(chunk, stride, best) : 0);
    }
}

/* ---- Across: `width` outputs side by side, n elements each ------------------------------------------------------ */

static void NAME(add_rows)(T *sums, const T *x, int64_t rows, int64_t stride, int64_t width,
                           int64_t column)
{
    int64_t k = 0;
    if (column == 1)
        for (; k + 4 <= rows; k += 4) {
            const T *a = x + k * stride, *b = a + stride, *c = b + stride, *d = c + stride;
            for (int64_t j = 0; j < width; j++)
                sums[j] += (a[j] + b[j]) + (c[j] + d[j]);
        }
    for (; k < rows; k++)
        for (int64_t j = 0; j < width; j++)
            sums[j] += x[k * stride + j * column];
}

static void NAME(across_sum)(const T *x, int64_t n, int64_t stride, int64_t width, int64_t column,
                             partial *into)
{
    T sums[WIDTH];
    for (int64_t k = 0; k < n; k += ROWS) {
        memset(sums, 0, sizeof sums);
        NAME(add_rows)(sums, x + k * stride, n - k < ROWS ? n - k : ROWS, stride, width, column);
        for (int64_t j = 0; j < width; j++)
            into[j].value += (double)sums[j];
    }
}

static void NAME(across_max)(const T *x, int64_t n, int64_t stride, int64_t width, int64_t column,
                             partial *into)
{
    T best[WIDTH];
    for (int64_t j = 0; j < width; j++)
        best[j] = into[j].index < 0 ? x[j * column] : (T)into[j].value;
    for (int64_t k = 0; k < n; k++) {
        const T *row = x + k * stride;
        if (column == 1)
            for (int64_t j = 0; j < width; j++)
                best[j] = ((row[j] > best[j]) | (row[j] != row[j])) ? row[j] : best[j];
        else
            for (int64_t j = 0; j < width; j++)
                best[j] = LARGER(row[j * column], best[j]) ? row[j * column] : best[j];
    }
    for (int64_t j = 0; j < width; j++)
        into[j] = (partial){ (double)best[j], 0 };
}

static void NAME(across_argmax)(const T *x, int64_t n, int64_t stride, int64_t width,
                                int64_t column, int64_t first, partial *into)
{
    for (int64_t j = 0; j < width; j++)
        if (into[j].index < 0)
            into[j] = (partial){ (double)x[j * column], first };
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < width; j++) {
            const double value = (double)x[k * stride + j * column];
            if (LARGER(value, into[j].value))
                into[j] = (partial){ value, first + k };
        }
}

#undef LARGER
