/// Which elements an output of padding or upsampling shows, and which outputs show an element,
/// along one dimension; for C and CUDA kernels alike.
#ifndef TALC_OPS_RESAMPLE_AXIS_H
#define TALC_OPS_RESAMPLE_AXIS_H

#include "resample.h"

#include <math.h>

/// (1 - weight) * x[at] + weight * x[next]; at is -1 where there is no element, and weight 0 where
/// next is no other.
typedef struct talc_resample_taps {
    int64_t at, next;
    double weight;
} talc_resample_taps;

/// The sum of weight[k] * x[first + k]; a weight is 0 where there is no element.
typedef struct talc_resample_cubic {
    int64_t first;
    double weight[4];
} talc_resample_cubic;

/// The outputs lo .. hi - 1, then `extras` of extra[].
typedef struct talc_resample_readers {
    int64_t lo, hi, extra[2];
    int extras;
} talc_resample_readers;

/* Two roundings on every machine, so that forward and gradient agree. */
TALC_HOST_DEVICE static inline double talc_resample_scaled(double scale, double o)
{
#ifdef __CUDA_ARCH__
    return __dmul_rn(scale, o);
#else
    return scale * o;
#endif
}

/* Where the place p of an output lies among the elements, from below. */
TALC_HOST_DEVICE static inline int64_t talc_resample_below(const talc_resample_axis *a, double p)
{
    if (p < 0)
        return 0;
    const int64_t at = p < (double)a->in ? (int64_t)p : a->in - 1;
    return at < a->in ? at : a->in - 1; /* an extent that a double rounds up */
}

/// The element that output o of a padded or nearest axis shows; -1 where there is none. The sum
/// with the offset is exact: ties of the product, which is of f32, stay ties.
TALC_HOST_DEVICE static inline int64_t talc_resample_source(const talc_resample_axis *a, int64_t o)
{
    if (a->kind == TALC_RESAMPLE_PAD)
        return talc_window_source(a->mode, o - a->begin, a->in);
    const double p = (double)(((float)o + (float)a->shift) * (float)a->scale) + a->offset;
    return talc_resample_below(a, a->up ? ceil(p) : p);
}

TALC_HOST_DEVICE static inline double talc_resample_place(const talc_resample_axis *a, int64_t o)
{
    return talc_resample_scaled(a->scale, (double)o + a->shift) + a->offset;
}

/// What output o of a linear axis shows, or of one that shows what it has; of a cubic axis `at`
/// alone, where the second of its elements lies.
TALC_HOST_DEVICE static inline talc_resample_taps talc_resample_linear_of(
    const talc_resample_axis *a, int64_t o)
{
    talc_resample_taps taps = { o, o, 0 };
    if (a->kind == TALC_RESAMPLE_PAD)
        return taps;
    const double p = talc_resample_place(a, o);
    taps.at = taps.next = talc_resample_below(a, p);
    if (p >= 0 && taps.at < a->in - 1) {
        taps.next = taps.at + 1;
        taps.weight = p - (double)taps.at;
    }
    return taps;
}

/// What output o of any axis shows.
TALC_HOST_DEVICE static inline talc_resample_taps talc_resample_taps_of(const talc_resample_axis *a,
                                                                        int64_t o)
{
    if (a->kind >= TALC_RESAMPLE_LINEAR)
        return talc_resample_linear_of(a, o);
    talc_resample_taps taps = { talc_resample_source(a, o), 0, 0 };
    taps.next = taps.at;
    return taps;
}

/// What output o of a cubic axis shows, or of one that shows what it has. Each weight is a sum of
/// what has one sign where the coefficient is -1 to 0.
TALC_HOST_DEVICE static inline talc_resample_cubic talc_resample_cubic_of(
    const talc_resample_axis *a, int64_t o)
{
    if (a->kind != TALC_RESAMPLE_CUBIC) {
        const talc_resample_cubic one = { o - 1, { 0, 1, 0, 0 } };
        return one;
    }
    const double p = talc_resample_place(a, o), below = floor(p), c = a->coefficient;
    const double t = p - below, r = (below + 1) - p; /* each in one rounding at most */
    talc_resample_cubic taps = { (int64_t)below - 1,
                                 { c * t * (r * r), r * (r * (1 + 2 * t) - c * (t * t)),
                                   t * (t * (1 + 2 * r) - c * (r * r)), c * r * (t * t) } };
    /* What lies outside weighs for its neighbour, or nothing. */
    const double share = a->inside ? 0 : 1;
    double *const weight = taps.weight;
    if (taps.first < 0) {
        weight[1] += share * weight[0];
        weight[0] = 0;
    }
    if (taps.first < -1) {
        weight[2] += share * weight[1];
        weight[1] = 0;
    }
    if (taps.first > a->in - 4) {
        weight[2] += share * weight[3];
        weight[3] = 0;
    }
    if (taps.first > a->in - 3) {
        weight[1] += share * weight[2];
        weight[2] = 0;
    }
    if (a->inside) {
        const double sum = (weight[0] + weight[1]) + (weight[2] + weight[3]);
        for (int k = 0; k < 4; k++)
            weight[k] /= sum;
    }
    return taps;
}

/* The first output that shows element i or one after it first; the elements never go back. A guess
 * is put right. */
TALC_HOST_DEVICE static inline int64_t talc_resample_first(const talc_resample_axis *a, int64_t i)
{
    if (i <= 0)
        return 0;
    if (i >= a->in)
        return a->out;
    const double guess =
        a->scale > 0 ? ((double)i - a->offset) / a->scale - a->shift : (double)a->out;
    int64_t o = guess < (double)a->out ? (int64_t)guess : a->out;
    while (o > 0 && talc_resample_taps_of(a, o - 1).at >= i)
        o--;
    while (o < a->out && talc_resample_taps_of(a, o).at < i)
        o++;
    return o;
}

/* Adds output o where there is one. */
TALC_HOST_DEVICE static inline void talc_resample_read_by(const talc_resample_axis *a,
                                                          talc_resample_readers *readers, int64_t o)
{
    if (o >= 0 && o < a->out)
        readers->extra[readers->extras++] = o;
}

/// The outputs that show element i of an axis that is not cubic. A linear one among them may do so
/// with weight 0.
TALC_HOST_DEVICE static inline talc_resample_readers talc_resample_readers_of(
    const talc_resample_axis *a, int64_t i)
{
    talc_resample_readers readers = { 0, 0, { 0, 0 }, 0 };
    if (a->kind != TALC_RESAMPLE_PAD) {
        readers.lo = talc_resample_first(a, a->kind == TALC_RESAMPLE_NEAREST ? i : i - 1);
        readers.hi = talc_resample_first(a, i + 1);
        return readers;
    }
    const int64_t o = i + a->begin;
    readers.lo = o;
    readers.hi = o + 1;
    if (a->mode == TALC_PADDING_REPLICATE && i == 0)
        readers.lo = 0;
    if (a->mode == TALC_PADDING_REPLICATE && i == a->in - 1)
        readers.hi = a->out;
    if (readers.lo < 0)
        readers.lo = 0;
    if (readers.hi > a->out)
        readers.hi = a->out;
    if (readers.hi < readers.lo)
        readers.hi = readers.lo;
    if (a->mode == TALC_PADDING_REFLECT && i > 0)
        talc_resample_read_by(a, &readers, a->begin - i);
    if (a->mode == TALC_PADDING_REFLECT && i < a->in - 1)
        talc_resample_read_by(a, &readers, a->begin + 2 * (a->in - 1) - i);
    if (a->mode == TALC_PADDING_CIRCULAR) {
        talc_resample_read_by(a, &readers, o - a->in);
        talc_resample_read_by(a, &readers, o + a->in);
    }
    return readers;
}

TALC_HOST_DEVICE static inline int64_t talc_resample_reader_count(const talc_resample_readers *r)
{
    return r->hi - r->lo + r->extras;
}

/// Reader number n.
TALC_HOST_DEVICE static inline int64_t talc_resample_reader(const talc_resample_readers *r,
                                                            int64_t n)
{
    const int64_t within = r->hi - r->lo;
    return n < within ? r->lo + n : r->extra[n - within];
}

/// How much of element i output o shows, of those that do.
TALC_HOST_DEVICE static inline double talc_resample_weight(const talc_resample_axis *a, int64_t o,
                                                           int64_t i)
{
    const talc_resample_taps taps = talc_resample_taps_of(a, o);
    return taps.at == i ? 1 - taps.weight : taps.next == i ? taps.weight : 0;
}

/// The outputs that show element i, of an axis that is cubic or shows what it has: some with weight
/// 0.
TALC_HOST_DEVICE static inline talc_range talc_resample_cubic_readers(const talc_resample_axis *a,
                                                                      int64_t i)
{
    const bool cubic = a->kind == TALC_RESAMPLE_CUBIC;
    talc_range readers;
    readers.lo = cubic ? talc_resample_first(a, i - 2) : i;
    readers.hi = cubic ? talc_resample_first(a, i + 2) : i + 1;
    return readers;
}

/// How much of element i output o of such an axis shows.
TALC_HOST_DEVICE static inline double talc_resample_cubic_weight(const talc_resample_axis *a,
                                                                 int64_t o, int64_t i)
{
    const talc_resample_cubic taps = talc_resample_cubic_of(a, o);
    double weight = 0;
    for (int k = 0; k < 4; k++)
        weight = taps.first + k == i ? taps.weight[k] : weight;
    return weight;
}

#endif
