#include "check/engine/activation.h"

#include "check/engine/data.h"

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
    case TALC_ACTIVATION_RELU6:
        return v < 0 ? 0 : v > 6 ? 6 : v;
    case TALC_ACTIVATION_HARDSIGMOID:
        return (v < -3 ? 0 : v > 3 ? 6 : v + 3) / 6;
    case TALC_ACTIVATION_HARDSWISH:
        return v * (v < -3 ? 0 : v > 3 ? 6 : v + 3) / 6;
    case TALC_ACTIVATION_SILU:
        return v / (1 + expl(-v));
    case TALC_ACTIVATION_GELU:
        return v / 2 * erfcl(-v / sqrtl(2));
    case TALC_ACTIVATION_LEAKY_RELU:
        return v > 0 ? v : v * 0.01L;
    default:
        return v;
    }
}

double talc_check_activation_slope(talc_activation activation)
{
    switch (activation) {
    case TALC_ACTIVATION_SIGMOID:
        return 0.25;
    case TALC_ACTIVATION_HARDSIGMOID:
        return 1.0 / 6;
    case TALC_ACTIVATION_HARDSWISH:
        return 1.5;
    case TALC_ACTIVATION_SILU:
        return 1.1;
    case TALC_ACTIVATION_GELU:
        return 1.13;
    default:
        return 1;
    }
}

bool talc_check_activation_rounds(talc_activation activation)
{
    return activation > TALC_ACTIVATION_RELU && activation != TALC_ACTIVATION_RELU6;
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
    case TALC_ACTIVATION_RELU6:
        return y <= 0 || y >= 6 ? 0 : dy;
    case TALC_ACTIVATION_HARDSIGMOID:
        return y > 0 && y < 1 ? dy / 6 : 0;
    default:
        return dy;
    }
}

void talc_check_activate(check_expected *expected, talc_activation activation, talc_dtype dtype)
{
    const check_format format = talc_check_format(dtype);
    const double sum = (double)expected->value,
                 slope = fmax(1, talc_check_activation_slope(activation));
    if (!isfinite(expected->value))
        expected->S = expected->extra = expected->foreign = 0;
    expected->S *= slope;
    expected->foreign *= slope;
    expected->extra *= slope;
    expected->value = talc_check_activated(activation, expected->value);
    if (!talc_check_activation_rounds(activation) || !isfinite(sum))
        return;
    /* gelu's argument x / sqrt(2) has two roundings, which erfc multiplies by x^2. */
    const double roundings = activation == TALC_ACTIVATION_GELU   ? 8 + 2 * fmin(sum * sum, 1e4)
                             : activation == TALC_ACTIVATION_SILU ? 16
                                                                  : 8;
    expected->extra += roundings * format.unit * (double)fabsl(expected->value);
    /* x / 2 (1 + erf(x / sqrt(2))) cancels below 0, and PyTorch's vector code of erf is formula
     * 7.1.26 of Abramowitz and Stegun, which is off by 1.5e-7, 2.5 u, by itself. */
    if (activation == TALC_ACTIVATION_GELU)
        expected->foreign += 4 * fabs(sum);
    if (activation == TALC_ACTIVATION_SIGMOID)
        expected->extra += format.normal;
    else if (activation == TALC_ACTIVATION_SILU)
        expected->extra += roundings * format.smallest;
    else if (activation == TALC_ACTIVATION_GELU)
        expected->extra += format.normal * fabs(sum);
}
