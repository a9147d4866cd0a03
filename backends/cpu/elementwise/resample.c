/// Padding and upsampling: outputs that show one element of x, or mix neighbours of it.
///
///     y[o...] = sum of weight * x[i...] over the taps of ops/resample_axis.h, along each dimension
///
/// Tasks are rows of y, about 32768 elements, and in the input gradient rows of x: a row of dx
/// takes up every row of dy that shows it, in order, so that sums have one order; they are summed
/// in f64. Elements that are shown alone are moved as unsigned integers of their size, so NaN keeps
/// its bits. A weight of 0 is no product: an infinity beside the element that is shown stays out.
/// Means are made of a block of columns at a time, whose weights are worked out once for all rows
/// of a task. Cubic axes, which are the last two, mix rows first and then what they give.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "ops/resample_axis.h"
#include "tensor/extent.h"

#include <string.h>

enum {
    TASK_ELEMENTS = 32768,
    COLUMNS = 1024,    /* sums on the stack: 8 KB */
    TAP_COLUMNS = 256, /* of y, whose taps all rows of a task share; at most 12 KB on the stack */
    CUBIC_SHARE = 16   /* elements of a mixed row for each of them; more are not worth mixing */
};

typedef struct resample_context {
    const talc_resample_problem *problem;
    const talc_resample_arguments *arguments;
    int64_t rows, per_task;
} resample_context;

/* A mean of two rows; the second stands alone for nothing where weight is 0. Offsets in elements,
 * -1 where there is no row. */
typedef struct row_taps {
    int64_t first, second;
    double weight;
} row_taps;

// ---- Forward ------------------------------------------------------------------------------------

/* What output row `row` shows. */
static row_taps rows_of(const talc_resample_problem *p, int64_t row)
{
    const talc_resample_axis *last = &p->axes[p->rank - 1];
    row_taps rows = { 0, 0, 0 };
    int64_t stride = last->in;
    for (int i = p->rank - 2; i >= 0; stride *= p->axes[i--].in) {
        const talc_resample_taps taps = talc_resample_taps_of(&p->axes[i], row % p->axes[i].out);
        row /= p->axes[i].out;
        if (taps.at < 0)
            return (row_taps){ -1, -1, 0 };
        rows.first += taps.at * stride;
        rows.second += taps.next * stride;
        if (taps.weight != 0)
            rows.weight = taps.weight;
    }
    return rows;
}

/* The outputs [lo, hi) of a padded row that lie in the image. */
static talc_range image_of(const talc_resample_axis *a)
{
    talc_range image = { .lo = talc_between(a->begin, 0, a->out) };
    image.hi = talc_between(a->begin + a->in, image.lo, a->out);
    return image;
}

#define MOVE(suffix, T)                                                                            \
    static void move_row_##suffix(const talc_resample_axis *a, const T *x, T *y, T value)          \
    {                                                                                              \
        const talc_resample_axis axis = *a; /* no element of y: it stays in registers */           \
        const talc_range image =                                                                   \
            a->kind == TALC_RESAMPLE_PAD ? image_of(a) : (talc_range){ 0, 0 };                     \
        for (int64_t o = 0; o < a->out; o++) {                                                     \
            if (x != NULL && o == image.lo && image.lo < image.hi) {                               \
                memcpy(y + o, x + (o - a->begin), (size_t)(image.hi - o) * sizeof(T));             \
                o = image.hi;                                                                      \
                if (o == a->out)                                                                   \
                    return;                                                                        \
            }                                                                                      \
            const int64_t at = x == NULL ? -1 : talc_resample_source(&axis, o);                    \
            y[o] = at < 0 ? value : x[at];                                                         \
        }                                                                                          \
    }                                                                                              \
    static void move_##suffix(const resample_context *c, int64_t row)                              \
    {                                                                                              \
        const talc_resample_axis *a = &c->problem->axes[c->problem->rank - 1];                     \
        const T *x = c->arguments->x, *value = c->arguments->value;                                \
        const row_taps rows = rows_of(c->problem, row);                                            \
        move_row_##suffix(a, rows.first < 0 ? NULL : x + rows.first,                               \
                          (T *)c->arguments->y + row * a->out, value == NULL ? 0 : *value);        \
    }

MOVE(bytes, uint8_t)
MOVE(words, uint32_t)
MOVE(doubles, uint64_t)

/* Means of elements, then of rows; and what each element gets back. */
#define MIX(constant, name, T, A)                                                                  \
    static T mean_##name(T a, T b, double weight)                                                  \
    {                                                                                              \
        return weight == 0 ? a : (T)(1 - weight) * a + (T)weight * b;                              \
    }                                                                                              \
    /* Rows first .. end - 1. */                                                                   \
    static void mix_##name(const resample_context *c, int64_t first, int64_t end)                  \
    {                                                                                              \
        const talc_resample_axis *w = &c->problem->axes[c->problem->rank - 1];                     \
        talc_resample_taps taps[TAP_COLUMNS];                                                      \
        for (int64_t begin = 0; begin < w->out; begin += TAP_COLUMNS) {                            \
            const int64_t count = talc_smaller(TAP_COLUMNS, w->out - begin);                       \
            for (int64_t o = 0; o < count; o++)                                                    \
                taps[o] = talc_resample_linear_of(w, begin + o);                                   \
            for (int64_t row = first; row < end; row++) {                                          \
                const row_taps rows = rows_of(c->problem, row);                                    \
                const T *x = c->arguments->x, *above = x + rows.first, *below = x + rows.second;   \
                T *y = (T *)c->arguments->y + row * w->out + begin;                                \
                for (int64_t o = 0; o < count; o++) {                                              \
                    const talc_resample_taps at = taps[o];                                         \
                    y[o] = mean_##name(mean_##name(above[at.at], above[at.next], at.weight),       \
                                       mean_##name(below[at.at], below[at.next], at.weight),       \
                                       rows.weight);                                               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* Adds what a row of dy, padded, gives to elements begin .. end - 1 of a row of dx. */        \
    static void give_row_##name(const talc_resample_axis *a, const T *dy, int64_t begin,           \
                                int64_t end, double *sums)                                         \
    {                                                                                              \
        const bool whole = end - begin == a->in;                                                   \
        const int64_t first = whole ? 0 : talc_resample_readers_of(a, begin).lo;                   \
        const int64_t last = whole ? a->out : talc_resample_readers_of(a, end - 1).hi;             \
        for (int64_t o = first; o < last && o < a->out; o++) {                                     \
            const int64_t i = talc_resample_source(a, o);                                          \
            if (i >= begin && i < end)                                                             \
                sums[i - begin] += (double)dy[o];                                                  \
        }                                                                                          \
        if (whole || (a->mode != TALC_PADDING_REFLECT && a->mode != TALC_PADDING_CIRCULAR))        \
            return;                                                                                \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const talc_resample_readers readers = talc_resample_readers_of(a, i);                  \
            for (int k = 0; k < readers.extras; k++)                                               \
                sums[i - begin] += (double)dy[readers.extra[k]];                                   \
        }                                                                                          \
    }                                                                                              \
    static void add_row_##name(const T *dy, double weight, int64_t count, double *sums)            \
    {                                                                                              \
        for (int64_t o = 0; o < count; o++)                                                        \
            sums[o] += weight * (double)dy[o];                                                     \
    }

TALC_CPU_FLOATS(MIX)

/* Rows first .. end - 1, and what row `row` of dy gives to sums, by a weight. */
#define MIX_CUBIC(constant, name, T, A)                                                            \
    static void mix_cubic_##name(const resample_context *c, int64_t first, int64_t end)            \
    {                                                                                              \
        const talc_resample_axis *w = &c->problem->axes[c->problem->rank - 1], *h = w - 1;         \
        int at[TAP_COLUMNS][4];                                                                    \
        T weights[TAP_COLUMNS][4], mixed[COLUMNS];                                                 \
        for (int64_t begin = 0, count; begin < w->out; begin += count) {                           \
            /* Columns begin .. begin + count - 1 show elements lo .. hi - 1. */                   \
            int64_t lo = 0, hi = 0;                                                                \
            for (count = 0; count < TAP_COLUMNS && begin + count < w->out; count++) {              \
                const talc_resample_cubic taps = talc_resample_cubic_of(w, begin + count);         \
                const int64_t last = talc_smaller(taps.first + 3, w->in - 1);                      \
                if (count == 0)                                                                    \
                    lo = talc_larger(taps.first, 0);                                               \
                else if (last - lo >= talc_smaller(COLUMNS, CUBIC_SHARE * count))                  \
                    break;                                                                         \
                hi = last + 1;                                                                     \
                for (int k = 0; k < 4; k++) {                                                      \
                    weights[count][k] = (T)taps.weight[k];                                         \
                    at[count][k] = weights[count][k] == 0 ? 0 : (int)(taps.first + k - lo);        \
                }                                                                                  \
            }                                                                                      \
            for (int64_t row = first; row < end; row++) {                                          \
                const talc_resample_cubic rows = talc_resample_cubic_of(h, row % h->out);          \
                T *y = (T *)c->arguments->y + row * w->out + begin;                                \
                memset(mixed, 0, (size_t)(hi - lo) * sizeof *mixed);                               \
                for (int k = 0; k < 4; k++) {                                                      \
                    const int64_t line = row / h->out * h->in + rows.first + k;                    \
                    const T weight = (T)rows.weight[k];                                            \
                    if (weight == 0)                                                               \
                        continue;                                                                  \
                    const T *x = (const T *)c->arguments->x + line * w->in + lo;                   \
                    for (int64_t i = 0; i < hi - lo; i++)                                          \
                        mixed[i] += weight * x[i];                                                 \
                }                                                                                  \
                for (int64_t o = 0; o < count; o++) {                                              \
                    T sum = 0;                                                                     \
                    for (int k = 0; k < 4; k++)                                                    \
                        sum += weights[o][k] == 0 ? 0 : weights[o][k] * mixed[at[o][k]];           \
                    y[o] = sum;                                                                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

TALC_CPU_FLOATS(MIX_CUBIC)

// ---- Gradient -----------------------------------------------------------------------------------

/* A row of dx of padding: the rows of dy that show it, those of the last dimension but one
 * innermost, summed in f64, COLUMNS at a time. */
static void give(const resample_context *c, int64_t row)
{
    const talc_resample_problem *p = c->problem;
    const talc_resample_axis *last = &p->axes[p->rank - 1];
    talc_resample_readers readers[TALC_MAX_RANK];
    int64_t combinations = 1, rest = row;
    for (int i = p->rank - 2; i >= 0; i--) {
        readers[i] = talc_resample_readers_of(&p->axes[i], rest % p->axes[i].in);
        rest /= p->axes[i].in;
        combinations *= talc_resample_reader_count(&readers[i]);
    }
    for (int64_t begin = 0; begin < last->in; begin += COLUMNS) {
        const int64_t end = talc_smaller(begin + COLUMNS, last->in);
        double sums[COLUMNS];
        memset(sums, 0, (size_t)(end - begin) * sizeof *sums);
        for (int64_t k = 0; k < combinations; k++) {
            int64_t which = k, at = 0, stride = last->out;
            for (int i = p->rank - 2; i >= 0; stride *= p->axes[i--].out) {
                const int64_t count = talc_resample_reader_count(&readers[i]);
                at += talc_resample_reader(&readers[i], which % count) * stride;
                which /= count;
            }
            TALC_CPU_CALL(p->dtype, give_row,
                          (last, talc_cpu_at(p->dtype, c->arguments->x, at), begin, end, sums));
        }
        for (int64_t i = begin; i < end; i++)
            talc_cpu_store(p->dtype, c->arguments->y, row * last->in + i, sums[i - begin]);
    }
}

static talc_resample_cubic taps_of(const talc_resample_axis *a, int64_t o)
{
    if (a->kind == TALC_RESAMPLE_CUBIC)
        return talc_resample_cubic_of(a, o);
    const talc_resample_taps taps = talc_resample_taps_of(a, o);
    return (talc_resample_cubic){ taps.at, { 1 - taps.weight, taps.weight, 0, 0 } };
}

static talc_range readers_of(const talc_resample_axis *a, int64_t i)
{
    if (a->kind == TALC_RESAMPLE_CUBIC)
        return talc_resample_cubic_readers(a, i);
    const talc_resample_readers readers = talc_resample_readers_of(a, i);
    return (talc_range){ readers.lo, readers.hi };
}

static double weight_of(const talc_resample_axis *a, int64_t o, int64_t i)
{
    const talc_resample_cubic taps = taps_of(a, o);
    const int64_t k = i - taps.first;
    return k < 0 || k > 3 ? 0 : taps.weight[k];
}

/* Rows begin .. end - 1 of dx of upsampling: the rows of dy that show one are summed by their
 * weights, TAP_COLUMNS at a time, and then what they sum to. Taps are kept from row to row where
 * all are there at a time. */
static void give_image(const resample_context *c, int64_t begin, int64_t end)
{
    const talc_resample_problem *p = c->problem;
    const talc_resample_axis *w = &p->axes[p->rank - 1], *h = w - 1;
    talc_resample_cubic taps[TAP_COLUMNS];
    int64_t kept = -1;
    for (int64_t row = begin; row < end; row++) {
        const int64_t ih = row % h->in, plane = row / h->in * h->out;
        const talc_range rows = readers_of(h, ih);
        for (int64_t lo = 0; lo < w->in; lo += COLUMNS) {
            const int64_t hi = talc_smaller(lo + COLUMNS, w->in);
            const int64_t last = rows.lo < rows.hi ? readers_of(w, hi - 1).hi : 0;
            double sums[COLUMNS];
            memset(sums, 0, (size_t)(hi - lo) * sizeof *sums);
            for (int64_t first = readers_of(w, lo).lo; first < last; first += TAP_COLUMNS) {
                const int64_t count = talc_smaller(TAP_COLUMNS, w->out - first);
                double given[TAP_COLUMNS] = { 0 };
                for (int64_t o = 0; o < count && kept != first; o++)
                    taps[o] = taps_of(w, first + o);
                kept = first;
                for (int64_t oh = rows.lo; oh < rows.hi; oh++) {
                    const double weight = weight_of(h, oh, ih);
                    const int64_t at = (plane + oh) * w->out + first;
                    if (weight != 0)
                        TALC_CPU_CALL(
                            p->dtype, add_row,
                            (talc_cpu_at(p->dtype, c->arguments->x, at), weight, count, given));
                }
                for (int64_t o = 0; o < count; o++)
                    for (int k = 0; k < 4; k++) {
                        const int64_t i = taps[o].first + k;
                        if (taps[o].weight[k] != 0 && i >= lo && i < hi)
                            sums[i - lo] += taps[o].weight[k] * given[o];
                    }
            }
            for (int64_t i = lo; i < hi; i++)
                talc_cpu_store(p->dtype, c->arguments->y, row * w->in + i, sums[i - lo]);
        }
    }
}

// ---- Run ----------------------------------------------------------------------------------------

/* Of the axis that mixes the most. */
static talc_resample_kind kind_of(const talc_resample_problem *p)
{
    talc_resample_kind kind = TALC_RESAMPLE_PAD;
    for (int i = 0; i < p->rank; i++)
        kind = p->axes[i].kind > kind ? p->axes[i].kind : kind;
    return kind;
}

static void resample_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const resample_context *c = context;
    const talc_resample_problem *p = c->problem;
    const size_t size = talc_dtype_size(p->dtype);
    const talc_resample_kind kind = kind_of(p);
    const int64_t first = task * c->per_task, end = talc_smaller(first + c->per_task, c->rows);
    if (p->direction == TALC_GRAD_INPUT && kind != TALC_RESAMPLE_PAD)
        give_image(c, first, end);
    else if (p->direction == TALC_FORWARD && kind == TALC_RESAMPLE_CUBIC)
        TALC_CPU_CALL(p->dtype, mix_cubic, (c, first, end));
    else if (p->direction == TALC_FORWARD && kind == TALC_RESAMPLE_LINEAR)
        TALC_CPU_CALL(p->dtype, mix, (c, first, end));
    else
        for (int64_t row = first; row < end; row++) {
            if (p->direction == TALC_GRAD_INPUT)
                give(c, row);
            else if (size == 1)
                move_bytes(c, row);
            else if (size == 4)
                move_words(c, row);
            else
                move_doubles(c, row);
        }
}

static const char *resample_plan(const talc_device *device, const void *problem, size_t limit,
                                 talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_resample_problem *p = problem;
    return p->direction == TALC_FORWARD && kind_of(p) < TALC_RESAMPLE_LINEAR
               ? NULL
               : talc_cpu_refuses(p->dtype);
}

static talc_status resample_run(talc_device *device, const void *problem, const talc_plan *planned,
                                const void *arguments)
{
    (void)device, (void)planned;
    const talc_resample_problem *p = problem;
    const talc_resample_axis *last = &p->axes[p->rank - 1];
    resample_context context = { .problem = p, .arguments = arguments, .rows = 1 };
    for (int i = 0; i < p->rank - 1; i++)
        context.rows *= p->direction == TALC_FORWARD ? p->axes[i].out : p->axes[i].in;
    context.per_task = 1 + TASK_ELEMENTS / talc_larger(last->in, last->out);
    return talc_cpu_parallel(talc_ceil_div(context.rows, context.per_task), resample_task,
                             &context);
}

const talc_algorithm talc_cpu_resample[] = {
    { "reference",
      NULL,
      { "the data's own type", TALC_STRICT, false },
      resample_plan,
      resample_run },
    { .name = NULL },
};
