#include "check/activation.h"

#include "check/data.h"

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

long double talc_check_activated_gradient(talc_activation activation, long double dy, long double y)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return y <= 0 ? 0 : dy;
    case TALC_ACTIVATION_SIGMOID:
        return dy * y * (1 - y);
    case TALC_ACTIVATION_TANH:
        return dy * (1 - y * y);
    default:
        return dy;
    }
}

void talc_check_activate(check_due *due, talc_activation activation, talc_dtype dtype)
{
    const check_format format = talc_check_format(dtype);
    if (!isfinite(due->value))
        due->S = due->extra = 0;
    due->value = talc_check_activated(activation, due->value);
    if (activation == TALC_ACTIVATION_SIGMOID || activation == TALC_ACTIVATION_TANH)
        due->extra += 8 * format.unit * (double)fabsl(due->value);
    if (activation == TALC_ACTIVATION_SIGMOID)
        due->extra += format.normal;
}
