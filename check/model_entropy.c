/// Cross entropy.
#include "check/model_due.h"
#include "ops/cross_entropy.h"

#include <math.h>

/* A loss, how far it may be off by itself, and how far it may move. */
typedef struct sample {
    long double loss;
    double extra, spread;
} sample;

/* The one of C classes, `step` apart from `first` on. */
static sample sample_of(const talc_cross_entropy_problem *p, const check_array *x, int64_t first,
                        int64_t step, int64_t label)
{
    const double u = talc_check_unit(x->dtype), e = p->label_smoothing;
    const double additions = 2 * sqrt((double)p->C);
    double largest = -INFINITY, off = 0, all_off = 0;
    for (int64_t j = 0; j < p->C; j++) {
        const int64_t at = first + j * step;
        largest = x->of[at] > largest || j == 0 ? x->of[at] : largest;
        off = fmax(off, check_off(x, at));
        all_off += check_off(x, at);
    }
    long double sum = 0, differences = 0;
    for (int64_t j = 0; j < p->C; j++) {
        sum += expl((long double)x->of[first + j * step] - largest);
        differences += (long double)x->of[first + j * step] - largest;
    }
    const long double log_sum = logl(sum);
    const long double from_most = (long double)x->of[first + label * step] - largest;
    sample of = { .loss = log_sum - from_most };
    if (e > 0)
        of.loss = (1 - e) * of.loss + e * (log_sum - differences / p->C);
    const double smoothed = e > 0 ? e * (double)fabsl(differences) / (double)p->C : 0;
    of.extra = u * (4 + additions + (1 - e) * (double)fabsl(from_most) +
                    (x->dtype == TALC_F64 ? 1 + additions : 1) * smoothed + (double)fabsl(of.loss));
    of.spread = off == 0 ? 0
                         : off + (1 - e) * check_off(x, first + label * step) +
                               (e > 0 ? e * all_off / (double)p->C : 0);
    return of;
}

bool talc_check_due_cross_entropy(const check_ran *ran, check_model_due *due)
{
    const talc_cross_entropy_problem *p = ran->problem;
    const check_array *x = &ran->inputs[0], *labels = &ran->inputs[1];
    const double u = talc_check_unit(x->dtype);
    int64_t plane = 1;
    for (int d = 2; d < x->dims.rank; d++)
        plane *= x->dims.dim[d];
    const bool whole = p->reduction == TALC_REDUCTION_NONE;
    double count = 0, sizes = 0;
    for (int64_t i = 0; i < labels->count; i++) {
        const int64_t to = whole ? i : 0, label = (int64_t)labels->of[i];
        if (check_off(labels, i) > 0) /* another label may have any other loss */
            due->spread[to] = INFINITY;
        if (label == p->ignore_index)
            continue;
        if (label < 0 || label >= p->C) {
            due->value[to] = NAN;
            continue;
        }
        const sample of = sample_of(p, x, i / plane * p->C * plane + i % plane, plane, label);
        due->value[to] += of.loss;
        due->extra[to] += of.extra;
        due->spread[to] += of.spread;
        sizes += (double)fabsl(of.loss);
        count++;
    }
    if (!whole)
        due->extra[0] += 2 * (sqrt((double)labels->count) + 1) * u * sizes;
    if (p->reduction == TALC_REDUCTION_MEAN) {
        due->value[0] /= count;
        due->extra[0] /= count;
        due->spread[0] = count == 0 ? 0 : due->spread[0] / count;
    }
    return true;
}
