#include "check/engine/bound.h"

#include "check/engine/data.h"

#include <math.h>

double talc_check_bound(const talc_arithmetic *arithmetic, talc_dtype dtype, talc_check_kind kind,
                        const check_expected *expected, double S_norm)
{
    const check_format format = talc_check_format(dtype);
    const double u = format.unit;
    const bool normwise = arithmetic->precision == TALC_NORMWISE;
    const bool wide = arithmetic->wide_accumulator && talc_check_is_narrow(dtype);
    if (u == 0)
        return 0;
    /* Where all terms are 0 an algorithm that is accurate in norm still has the error of its
     * neighbours. */
    const bool sums = expected->S > 0 || (normwise && expected->K > 0);
    if (kind == TALC_CHECK_EXACT && expected->extra == 0)
        return normwise && sums ? fmax(0.5, (expected->K + 2) * u * S_norm) : 0;
    const double extra =
        expected->extra + (kind == TALC_CHECK_RANDOM || wide ? 0 : expected->correlated);
    if (!sums)
        return extra;

    const double K = expected->K, S = normwise ? S_norm : expected->S,
                 y = (double)fabsl(expected->value);
    double bound = (K + 2) * u * S;
    if (kind == TALC_CHECK_RANDOM && 4 * sqrt(K + 4) < K + 2) /* from 16 terms on */
        bound = 4 * u * sqrt(K + 4) * S;
    if (wide)
        bound = u * y + (K + 4) * 0x1p-53 * S;
    if (arithmetic->precision == TALC_TF32)
        bound += 0x1p-9 * S +           /* both operands cut, not rounded, to 11 bits */
                 4 * K * format.normal; /* a denormal one lost; the other is at most 4 */
    return bound + extra + (K + 2) * format.smallest;
}

double talc_check_share(long double expected, double got, double bound)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got) ? 0 : INFINITY;
    if (isinf(expected) || isinf(got))
        return expected == got ? 0 : INFINITY;
    const double off = (double)fabsl(expected - got);
    return off == 0 ? 0 : bound > 0 ? off / bound : INFINITY;
}
