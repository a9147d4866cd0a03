/* Loops of backends/cpu/reduce/reduce.c for one element type: included there with T the type,
 * NAME(x) its functions' names and EXP its exponential. */

/* NaN counts as larger than everything, and the first of equals stays. Where the smallest is
 * sought, `sign` is -1, and elements are compared after they were multiplied with it. */
#define LARGER(x, best) ((x) > (best) || ((x) != (x) && (best) == (best)))

/* ---- Along a row: one output, n elements `stride` apart -------------------------------------- */

/* exp(x - max) in the data's type, and 1 where both are the same infinity. */
static T NAME(exp_below)(T x, T max)
{
    return x == max ? 1 : EXP(x - max);
}

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

static T NAME(chunk_max)(T sign, const T *x, int64_t n, int64_t stride)
{
    int64_t i = 0;
    T best = sign * x[0];
    /* A lane that holds NaN keeps it: nothing is larger, and another NaN is as good. */
    if (stride == 1 && n >= LANES) {
        T lanes[LANES];
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = best;
        for (; i + LANES <= n; i += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                T value = sign * x[i + lane];
                lanes[lane] = ((value > lanes[lane]) | (value != value)) ? value : lanes[lane];
            }
        for (int lane = 0; lane < LANES; lane++)
            best = LARGER(lanes[lane], best) ? lanes[lane] : best;
    }
    for (; i < n; i++)
        best = LARGER(sign * x[i * stride], best) ? sign * x[i * stride] : best;
    return best;
}

/* Of at most CHUNK elements, around the first. */
static partial NAME(chunk_var)(const T *x, int64_t n, int64_t stride)
{
    const double shift = (double)x[0];
    double sums[LANES / 2] = { 0 }, squares[LANES / 2] = { 0 };
    int64_t i = 0;
    for (; i + LANES / 2 <= n; i += LANES / 2)
        for (int lane = 0; lane < LANES / 2; lane++) {
            const double apart = (double)x[(i + lane) * stride] - shift;
            sums[lane] += apart;
            squares[lane] += apart * apart;
        }
    for (int lane = 0; i < n; i++, lane++) {
        const double apart = (double)x[i * stride] - shift;
        sums[lane] += apart;
        squares[lane] += apart * apart;
    }
    for (int half = LANES / 4; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++) {
            sums[lane] += sums[lane + half];
            squares[lane] += squares[lane + half];
        }
    return moments(shift, sums[0], squares[0], n);
}

static partial NAME(chunk_logsumexp)(const T *x, int64_t n, int64_t stride)
{
    const T max = NAME(chunk_max)(1, x, n, stride);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)NAME(exp_below)(x[i * stride], max);
    return (partial){ (double)max, 0, sum };
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
        if (is_sum(function)) {
            into->value += NAME(chunk_sum)(chunk, length, stride);
            continue;
        }
        if (function == TALC_VAR || function == TALC_LOGSUMEXP) {
            combine(function, into,
                    function == TALC_VAR ? NAME(chunk_var)(chunk, length, stride)
                                         : NAME(chunk_logsumexp)(chunk, length, stride));
            continue;
        }
        const T sign = (T)sign_of(function);
        const T best = NAME(chunk_max)(sign, chunk, length, stride);
        if (into->index >= 0 && !LARGER((double)best, (double)sign * into->value))
            continue;
        const bool named = function == TALC_ARGMAX || function == TALC_ARGMIN;
        into->value = (double)(sign * best);
        into->index = first + i + (named ? NAME(chunk_find)(chunk, stride, sign * best) : 0);
    }
}

/* ---- Across: `width` outputs side by side, n elements each ----------------------------------- */

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

/* Around the first of every ROWS rows. */
static void NAME(across_var)(const T *x, int64_t n, int64_t stride, int64_t width, int64_t column,
                             partial *into)
{
    double shifts[WIDTH], sums[WIDTH], squares[WIDTH];
    for (int64_t k = 0; k < n; k += ROWS) {
        const int64_t rows = n - k < ROWS ? n - k : ROWS;
        for (int64_t j = 0; j < width; j++) {
            shifts[j] = (double)x[k * stride + j * column];
            sums[j] = squares[j] = 0;
        }
        for (int64_t r = 0; r < rows; r++) {
            const T *row = x + (k + r) * stride;
            for (int64_t j = 0; j < width; j++) {
                const double apart = (double)row[j * column] - shifts[j];
                sums[j] += apart;
                squares[j] += apart * apart;
            }
        }
        for (int64_t j = 0; j < width; j++)
            combine(TALC_VAR, into + j, moments(shifts[j], sums[j], squares[j], rows));
    }
}

static void NAME(across_max)(T sign, const T *x, int64_t n, int64_t stride, int64_t width,
                             int64_t column, partial *into)
{
    T best[WIDTH];
    for (int64_t j = 0; j < width; j++)
        best[j] = sign * (into[j].index < 0 ? x[j * column] : (T)into[j].value);
    for (int64_t k = 0; k < n; k++) {
        const T *row = x + k * stride;
        if (column == 1)
            for (int64_t j = 0; j < width; j++) {
                const T value = sign * row[j];
                best[j] = ((value > best[j]) | (value != value)) ? value : best[j];
            }
        else
            for (int64_t j = 0; j < width; j++) {
                const T value = sign * row[j * column];
                best[j] = LARGER(value, best[j]) ? value : best[j];
            }
    }
    for (int64_t j = 0; j < width; j++)
        into[j] = (partial){ (double)(sign * best[j]), 0, 0 };
}

/* Below the largest of every ROWS rows. */
static void NAME(across_logsumexp)(const T *x, int64_t n, int64_t stride, int64_t width,
                                   int64_t column, partial *into)
{
    partial max[WIDTH];
    for (int64_t k = 0; k < n; k += ROWS) {
        const int64_t rows = n - k < ROWS ? n - k : ROWS;
        for (int64_t j = 0; j < width; j++)
            max[j] = (partial){ .index = -1 };
        NAME(across_max)(1, x + k * stride, rows, stride, width, column, max);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < width; j++)
                max[j].second +=
                    (double)NAME(exp_below)(x[(k + r) * stride + j * column], (T)max[j].value);
        for (int64_t j = 0; j < width; j++)
            combine(TALC_LOGSUMEXP, into + j, max[j]);
    }
}

static void NAME(across_argmax)(T sign, const T *x, int64_t n, int64_t stride, int64_t width,
                                int64_t column, int64_t first, partial *into)
{
    for (int64_t j = 0; j < width; j++)
        if (into[j].index < 0)
            into[j] = (partial){ (double)x[j * column], first, 0 };
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < width; j++) {
            const double value = (double)x[k * stride + j * column];
            if (LARGER((double)sign * value, (double)sign * into[j].value))
                into[j] = (partial){ value, first + k, 0 };
        }
}

#undef LARGER
