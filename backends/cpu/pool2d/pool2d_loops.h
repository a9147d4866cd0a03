/// The row-wise pooling kernel for one element type; pool2d.c includes it once a type, with T,
/// NAMED(name) and OFFSET, an integer as long as T, defined.
///
/// A window's rows are first combined into one row of columns, which is vector code whatever the
/// kernel; then each output combines its columns. `columns` holds input columns c0 .. c0 + count -
/// 1. The gradient goes the other way round.

/* A NaN replaces what is there, and nothing replaces a NaN. */
static inline T NAMED(larger)(T largest, T value)
{
    return value > largest || value != value ? value : largest;
}

static void NAMED(combine_rows)(const talc_pool2d_problem *p, talc_pool2d_window h, const T *plane,
                                int64_t c0, int64_t count, T *restrict columns)
{
    const bool max = talc_pool2d_is_max(p);
    for (int64_t i = 0; i < count; i++)
        columns[i] = max ? -(T)INFINITY : 0;
    for (int64_t ih = h.first; ih < h.end; ih += h.step) {
        const T *restrict x_ih = plane + ih * p->W + c0;
        if (max)
            for (int64_t i = 0; i < count; i++)
                columns[i] = NAMED(larger)(columns[i], x_ih[i]);
        else
            for (int64_t i = 0; i < count; i++)
                columns[i] += x_ih[i];
    }
}

/* Outputs [begin, end), whose windows lie inside the image: one tap of all of them at a time. */
static void NAMED(combine_columns_inside)(const talc_pool2d_problem *p, int64_t begin, int64_t end,
                                          int64_t c0, const T *restrict columns, T *restrict y)
{
    const int64_t stride = p->stride_w;
    const T *first = columns + (begin * stride - p->pad_left - c0);
    y += begin;
    for (int64_t i = 0; i < end - begin; i++)
        y[i] = first[i * stride];
    for (int64_t kw = 1; kw < p->KW; kw++) {
        const T *restrict tap = first + kw * p->dilation_w;
        if (talc_pool2d_is_max(p) && stride == 1)
            for (int64_t i = 0; i < end - begin; i++)
                y[i] = NAMED(larger)(y[i], tap[i]);
        else if (talc_pool2d_is_max(p) && stride == 2)
            for (int64_t i = 0; i < end - begin; i++)
                y[i] = NAMED(larger)(y[i], tap[2 * i]);
        else if (talc_pool2d_is_max(p))
            for (int64_t i = 0; i < end - begin; i++)
                y[i] = NAMED(larger)(y[i], tap[i * stride]);
        else if (stride == 2)
            for (int64_t i = 0; i < end - begin; i++)
                y[i] += tap[2 * i];
        else
            for (int64_t i = 0; i < end - begin; i++)
                y[i] += tap[i * stride];
    }
}

/* One output whose window may reach past the image, or is an adaptive one. */
static T NAMED(combine_columns)(const talc_pool2d_problem *p, talc_pool2d_window w, int64_t c0,
                                const T *columns)
{
    T result = talc_pool2d_is_max(p) ? -(T)INFINITY : 0;
    for (int64_t iw = w.first; iw < w.end; iw += w.step)
        result = talc_pool2d_is_max(p) ? NAMED(larger)(result, columns[iw - c0])
                                       : result + columns[iw - c0];
    return result;
}

/* Outputs [ow0, ow1) of one row, whose windows together span at most TILE columns. */
static void NAMED(pool_tile)(const talc_pool2d_problem *p, talc_pool2d_window h, const T *plane,
                             int64_t ow0, int64_t ow1, T *y)
{
    T columns[TILE];
    const talc_pool2d_axis axis = talc_pool2d_axis_w(p);
    const int64_t c0 = first_column(axis, ow0);
    const int64_t c1 = talc_between(end_column(axis, ow1 - 1), c0, p->W);
    NAMED(combine_rows)(p, h, plane, c0, c1 - c0, columns);

    const talc_range inner = inner_outputs(axis);
    const int64_t inside = talc_between(inner.lo, ow0, ow1);
    const int64_t outside = talc_between(inner.hi, inside, ow1);
    if (inside < outside)
        NAMED(combine_columns_inside)(p, inside, outside, c0, columns, y);
    for (int64_t ow = ow0; ow < inside; ow++)
        y[ow] = NAMED(combine_columns)(p, talc_pool2d_window_of(axis, ow), c0, columns);
    for (int64_t ow = outside; ow < ow1; ow++)
        y[ow] = NAMED(combine_columns)(p, talc_pool2d_window_of(axis, ow), c0, columns);
    if (talc_pool2d_is_max(p))
        return;
    for (int64_t ow = ow0; ow < inside; ow++)
        y[ow] /= (T)window_divisor(p, h, talc_pool2d_window_of(axis, ow));
    if (inside < outside) {
        const T divisor = (T)window_divisor(p, h, talc_pool2d_window_of(axis, inside));
        for (int64_t ow = inside; ow < outside; ow++)
            y[ow] /= divisor;
    }
    for (int64_t ow = outside; ow < ow1; ow++)
        y[ow] /= (T)window_divisor(p, h, talc_pool2d_window_of(axis, ow));
}

static void NAMED(pool_row)(const talc_pool2d_problem *p, int64_t row, const void *x, void *y)
{
    const talc_pool2d_axis axis = talc_pool2d_axis_w(p);
    const talc_pool2d_window h = talc_pool2d_window_of(talc_pool2d_axis_h(p), row % p->OH);
    const T *plane = (const T *)x + row / p->OH * p->H * p->W;
    for (int64_t ow0 = 0, ow1; ow0 < p->OW; ow0 = ow1) {
        const int64_t last = first_column(axis, ow0) + TILE;
        ow1 = p->W <= last ? p->OW : ow0 + 1;
        while (ow1 < p->OW && end_column(axis, ow1) <= last)
            ow1++;
        NAMED(pool_tile)(p, h, plane, ow0, ow1, (T *)y + row * p->OW);
    }
}

// ---- Indices ------------------------------------------------------------------------------------

/* A tap of `count` outputs, `offset` elements behind the first one of each. No branch, which
 * nothing could predict and vectors do not have. */
TALC_ALWAYS_INLINE void NAMED(locate_tap)(int64_t count, int64_t stride, const T *restrict tap,
                                          OFFSET offset, T *restrict largest, OFFSET *restrict at)
{
    for (int64_t i = 0; i < count; i++) {
        const T value = tap[i * stride];
        const bool replaces = (value > largest[i]) | (value != value);
        largest[i] = replaces ? value : largest[i];
        at[i] = replaces ? offset : at[i];
    }
}

/* Outputs [begin, end), at most LOCATED, whose columns lie inside the image: one tap of all of them
 * at a time, as a row of columns would not tell whose tap won. */
TALC_ALWAYS_INLINE void NAMED(locate_inside)(const talc_pool2d_problem *p, talc_pool2d_window h,
                                             const T *plane, int64_t begin, int64_t end, T *y,
                                             int64_t *indices)
{
    T largest[LOCATED];
    OFFSET at[LOCATED];
    const int64_t stride = p->stride_w, count = end - begin;
    const int64_t first = h.first * p->W + begin * stride - p->pad_left;
    for (int64_t i = 0; i < count; i++) {
        largest[i] = -(T)INFINITY;
        at[i] = 0;
    }
    for (int64_t ih = h.first; ih < h.end; ih += h.step)
        for (int64_t kw = 0; kw < p->KW; kw++) {
            const int64_t offset = (ih - h.first) * p->W + kw * p->dilation_w;
            const T *tap = plane + first + offset;
            if (stride == 2)
                NAMED(locate_tap)(count, 2, tap, (OFFSET)offset, largest, at);
            else
                NAMED(locate_tap)(count, stride, tap, (OFFSET)offset, largest, at);
        }
    for (int64_t i = 0; i < count; i++) {
        y[begin + i] = largest[i];
        indices[begin + i] = first + i * stride + at[i];
    }
}

/* One output whose window may reach past the image, or is an adaptive one. */
static void NAMED(locate)(const talc_pool2d_problem *p, talc_pool2d_window h, const T *plane,
                          int64_t ow, T *y, int64_t *indices)
{
    const talc_pool2d_window w = talc_pool2d_window_of(talc_pool2d_axis_w(p), ow);
    T largest = -(T)INFINITY;
    int64_t at = h.first < h.end && w.first < w.end ? h.first * p->W + w.first : -1;
    for (int64_t ih = h.first; ih < h.end; ih += h.step)
        for (int64_t iw = w.first; iw < w.end; iw += w.step) {
            const T value = plane[ih * p->W + iw];
            const bool replaces = (value > largest) | (value != value);
            largest = replaces ? value : largest;
            at = replaces ? ih * p->W + iw : at;
        }
    y[ow] = largest;
    indices[ow] = at;
}

/* Maxima with their places. */
TALC_TARGET_CLONES
static void NAMED(located_row)(const talc_pool2d_problem *p, int64_t row,
                               const talc_pool2d_arguments *a)
{
    const talc_pool2d_window h = talc_pool2d_window_of(talc_pool2d_axis_h(p), row % p->OH);
    const T *plane = (const T *)a->x + row / p->OH * p->H * p->W;
    T *y = (T *)a->y + row * p->OW;
    int64_t *indices = a->indices + row * p->OW;
    talc_range inner = inner_outputs(talc_pool2d_axis_w(p));
    /* An offset is below the elements of a plane. */
    if (h.first >= h.end || p->H * p->W > INT32_MAX)
        inner.hi = inner.lo;
    for (int64_t ow = 0; ow < p->OW;)
        if (inner.lo <= ow && ow < inner.hi) {
            const int64_t end = talc_smaller(ow + LOCATED, inner.hi);
            NAMED(locate_inside)(p, h, plane, ow, end, y, indices);
            ow = end;
        } else {
            NAMED(locate)(p, h, plane, ow++, y, indices);
        }
}

// ---- Gradient -----------------------------------------------------------------------------------

/* What one row of outputs gives each of columns [c0, c1), in any of the windows' rows h. */
static void NAMED(spread_row)(const talc_pool2d_problem *p, talc_pool2d_window h, const T *dy,
                              int64_t c0, int64_t c1, T *restrict columns)
{
    const talc_pool2d_axis axis = talc_pool2d_axis_w(p);
    for (int64_t i = 0; i < c1 - c0; i++)
        columns[i] = 0;
    for (int64_t ow = talc_pool2d_outputs_at(axis, c0).lo; ow < p->OW; ow++) {
        const talc_pool2d_window w = dense_window(axis, ow);
        if (w.first >= c1)
            break;
        const T share = (T)((double)dy[ow] / window_divisor(p, h, w));
        const int64_t end = talc_smaller(w.end, c1);
        for (int64_t iw = w.first < c0 ? c0 : w.first; iw < end; iw++)
            columns[iw - c0] += share;
    }
}

static void NAMED(average_gradient)(const talc_pool2d_problem *p, const T *dy, T *dx)
{
    T columns[TILE];
    for (int64_t c0 = 0; c0 < p->W; c0 += TILE) {
        const int64_t c1 = talc_smaller(c0 + TILE, p->W);
        for (int64_t oh = 0; oh < p->OH; oh++) {
            const talc_pool2d_window h = dense_window(talc_pool2d_axis_h(p), oh);
            NAMED(spread_row)(p, h, dy + oh * p->OW, c0, c1, columns);
            for (int64_t ih = h.first; ih < h.end; ih++) {
                T *restrict dx_ih = dx + ih * p->W + c0;
                for (int64_t i = 0; i < c1 - c0; i++)
                    dx_ih[i] += columns[i];
            }
        }
    }
}

static void NAMED(pool_gradient)(const talc_pool2d_problem *p, const talc_pool2d_arguments *a,
                                 int64_t plane)
{
    const int64_t outputs = p->OH * p->OW;
    const T *dy = (const T *)a->dy + plane * outputs;
    T *dx = (T *)a->dx + plane * p->H * p->W;
    memset(dx, 0, (size_t)(p->H * p->W) * sizeof *dx);
    if (!talc_pool2d_is_max(p)) {
        NAMED(average_gradient)(p, dy, dx);
        return;
    }
    const int64_t *indices = a->indices + plane * outputs;
    for (int64_t o = 0; o < outputs; o++)
        if (indices[o] >= 0)
            dx[indices[o]] += dy[o];
}
