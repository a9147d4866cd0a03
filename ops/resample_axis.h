/// Which elements an output of padding or upsampling shows, and which outputs show an element,
/// along one dimension; for C and CUDA kernels alike.
#ifndef TALC_OPS_RESAMPLE_AXIS_H
#define TALC_OPS_RESAMPLE_AXIS_H

#include "resample.h"

/// (1 - weight) * x[at] + weight * x[next]; at is -1 where there is no element, and weight 0 where
/// next is no other.
typedef struct talc_resample_taps {
    int64_t at, next;
    double weight;
} talc_resample_taps;

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

/// What output o shows.
TALC_HOST_DEVICE static inline talc_resample_taps talc_resample_taps_of(const talc_resample_axis *a,
                                                                        int64_t o)
{
    talc_resample_taps taps = { 0, 0, 0 };
    double coordinate;
    switch (a->kind) {
    case TALC_RESAMPLE_PAD:
        taps.at = talc_window_source(a->mode, o - a->begin, a->in);
        taps.next = taps.at;
        return taps;
    case TALC_RESAMPLE_NEAREST:
        coordinate = (double)((float)o * (float)a->scale);
        break;
    case TALC_RESAMPLE_LINEAR:
        coordinate = talc_resample_scaled(a->scale, (double)o + 0.5) - 0.5;
        break;
    default:
        coordinate = talc_resample_scaled(a->scale, (double)o);
        break;
    }
    if (coordinate < 0)
        return taps;
    taps.at = coordinate < (double)a->in ? (int64_t)coordinate : a->in - 1;
    if (taps.at > a->in - 1) /* an extent that a double rounds up */
        taps.at = a->in - 1;
    taps.next = taps.at;
    if (a->kind != TALC_RESAMPLE_NEAREST && taps.at < a->in - 1) {
        taps.next = taps.at + 1;
        taps.weight = coordinate - (double)taps.at;
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
    const double guess = a->scale > 0 ? (double)i / a->scale : (double)a->out;
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

/// The outputs that show element i. A linear one among them may do so with weight 0.
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

#endif
