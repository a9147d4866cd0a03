#include "ops/gradient.h"

#include "ops/compare.h"

// ---- Rows of two operands -----------------------------------------------------------------------

/* y' = b a^(b - 1), which is 0 for b = 0, whatever a is. */
talc_tensor *talc_pow_base_gradient(const talc_tensor *dy, const talc_tensor *a,
                                    const talc_tensor *b)
{
    const talc_tensor *slope = talc_mul(b, talc_pow(a, talc_sub_scalar(b, 1)));
    return talc_keep_where(talc_equal_scalar(b, 0), talc_mul(dy, slope), false);
}

/* y' = y log(a), whose limit at a = 0 is 0 for b >= 0. */
talc_tensor *talc_pow_exponent_gradient(const talc_tensor *dy, const talc_tensor *a,
                                        const talc_tensor *b, const talc_tensor *y)
{
    const talc_tensor *limit = talc_mul(talc_equal_scalar(a, 0), talc_greater_equal_scalar(b, 0));
    return talc_keep_where(limit, talc_mul(dy, talc_mul(y, talc_log(a))), false);
}

/* The product is not taken where x is above 0, so that an infinite weight stays out. */
talc_tensor *talc_prelu_input_gradient(const talc_tensor *dy, const talc_tensor *a,
                                       const talc_tensor *b)
{
    return talc_where(talc_greater_scalar(a, 0), dy, talc_mul(dy, b));
}

talc_tensor *talc_prelu_weight_gradient(const talc_tensor *dy, const talc_tensor *a)
{
    return talc_keep_where(talc_greater_scalar(a, 0), talc_mul(dy, a), false);
}

talc_tensor *talc_squared_difference_gradient(const talc_tensor *dy, const talc_tensor *a,
                                              const talc_tensor *b)
{
    return talc_mul(dy, talc_mul_scalar(talc_sub(a, b), 2));
}

/* dy without the elements where the other operand won, and half where neither did. */
static talc_tensor *winners(const talc_tensor *dy, const talc_tensor *lost, const talc_tensor *tied)
{
    return talc_keep_where(lost, talc_where(tied, talc_mul_scalar(dy, 0.5), dy), false);
}

talc_tensor *talc_larger_gradient(const talc_tensor *dy, const talc_tensor *a, const talc_tensor *b)
{
    return winners(dy, talc_less(a, b), talc_equal(a, b));
}

talc_tensor *talc_smaller_gradient(const talc_tensor *dy, const talc_tensor *a,
                                   const talc_tensor *b)
{
    return winners(dy, talc_greater(a, b), talc_equal(a, b));
}
