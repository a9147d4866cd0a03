#include "nn/schedule.h"

#include "tensor/fenv.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

const char *talc_schedule_name(talc_schedule_kind kind)
{
    static const char *const names[] = { "constant", "step", "cosine", "one_cycle" };
    return (unsigned)kind < TALC_SCHEDULE_COUNT ? names[kind] : "?";
}

static double or_default(double value, double fallback)
{
    return value == 0 ? fallback : value;
}

/* From `from` to `to` as x goes from 0 to 1. */
static double along_cosine(double from, double to, double x)
{
    return to + (from - to) * (1 + cos(PI * x)) / 2;
}

static double one_cycle(const talc_schedule *s, double lr, double t)
{
    const double low = lr / or_default(s->div, 25), last = low / or_default(s->final_div, 1e4);
    const double steps = (double)s->steps, peak = or_default(s->rise, 0.3) * steps - 1;
    if (t <= peak && peak > 0) /* a rise of one step is over as it begins */
        return along_cosine(low, lr, t / peak);
    const double fall = steps - 1 - peak;
    return along_cosine(lr, last, fall > 0 && t < steps - 1 ? (t - peak) / fall : 1);
}

/* Of a kind that was looked at, without its warm-up. */
static double without_warmup(const talc_schedule *s, double lr, int64_t t)
{
    switch (s->kind) {
    case TALC_SCHEDULE_STEP:
        return lr * pow(or_default(s->gamma, 0.1), (double)(t / s->every));
    case TALC_SCHEDULE_COSINE:
        return along_cosine(lr, lr * s->floor, t < s->steps ? (double)t / (double)s->steps : 1);
    case TALC_SCHEDULE_ONE_CYCLE:
        return one_cycle(s, lr, (double)t);
    default:
        return lr;
    }
}

double talc_schedule_rate(const talc_schedule *s, double lr, int64_t t)
{
    TALC_DEFAULT_FENV;
    if (s == NULL || (s->kind == TALC_SCHEDULE_STEP && s->every < 1))
        return NAN;
    if (t >= s->warmup)
        return without_warmup(s, lr, t - s->warmup);
    /* The first rate of one_cycle, also where its rise is over before it begins. */
    const double first = s->kind == TALC_SCHEDULE_ONE_CYCLE ? lr / or_default(s->div, 25) : lr;
    return first * (s->warmup_start + (1 - s->warmup_start) * (double)t / (double)s->warmup);
}
