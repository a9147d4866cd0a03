#include "check/activation.h"

#include <math.h>

void talc_check_activate(check_due *due, talc_activation activation, talc_dtype dtype)
{
    const bool single = dtype == TALC_F32;
    const double ulp = single ? 0x1p-23 : 0x1p-52, normal = single ? 0x1p-126 : 0x1p-1022;
    const long double x = due->value;
    if (!isfinite(x))
        due->S = due->extra = 0;
    if (activation == TALC_ACTIVATION_RELU) {
        due->value = x < 0 ? 0 : x;
    } else if (activation == TALC_ACTIVATION_SIGMOID) {
        due->value = 1 / (1 + expl(-x));
        due->extra += 4 * ulp * (double)due->value + normal;
    } else if (activation == TALC_ACTIVATION_TANH) {
        due->value = tanhl(x);
        due->extra += 4 * ulp * (double)fabsl(due->value);
    }
}
