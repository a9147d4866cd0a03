#include "check/activation.h"

#include <math.h>

long double talc_check_activated(talc_activation activation, long double v)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return v < 0 ? 0 : v;
    case TALC_ACTIVATION_SIGMOID:
        return 1 / (1 + expl(-v));
    case TALC_ACTIVATION_TANH:
        return tanhl(v);
    default:
        return v;
    }
}

void talc_check_activate(check_due *due, talc_activation activation, talc_dtype dtype)
{
    const bool single = dtype == TALC_F32;
    const double ulp = single ? 0x1p-23 : 0x1p-52, normal = single ? 0x1p-126 : 0x1p-1022;
    if (!isfinite(due->value))
        due->S = due->extra = 0;
    due->value = talc_check_activated(activation, due->value);
    if (activation == TALC_ACTIVATION_SIGMOID || activation == TALC_ACTIVATION_TANH)
        due->extra += 4 * ulp * (double)fabsl(due->value);
    if (activation == TALC_ACTIVATION_SIGMOID)
        due->extra += normal;
}
