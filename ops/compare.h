/// Comparisons, bounds and choice, element by element.
///
///     equal .. greater_equal   y = 1 where the comparison of a and b holds, else 0
///     clamp                    y = min(max(x, low), high)
///     where                    y = a where the condition is not 0, else b
///     masked_fill              y = value where the mask is not 0, else x
///
/// Operands broadcast by NumPy's rule, as in ops/elementwise.h; results are contiguous. Every
/// dtype. Comparisons, conditions and masks are u8. With NaN no comparison holds but not_equal; of
/// a NaN clamp is NaN. A number beside floating point data is rounded to its dtype first. Beside
/// integers it is the real number that it is: 127 is less than 127.5, no integer equals NaN, and
/// clamp gives the integers of x's dtype from low to high, of which there has to be one. The value
/// of masked_fill is one that x's dtype holds.
///
/// Gradients: clamp: dx = dy where low <= x <= high, the bounds included, else 0. where: da = dy
/// where the condition is not 0, else 0; db the other way round; masked_fill: dx as where's.
/// Comparisons have none.
///
/// Errors: NULL operand, dtype or device mismatch, a condition that is not u8, shapes that do not
/// broadcast, clamp: low above high, a bound that is NaN, no integer of x's dtype between them,
/// masked_fill: a value that x's dtype does not hold, no memory. Source: textbook; semantics as
/// torch.eq .. torch.ge, torch.where, torch.masked_fill, and torch.clamp, some versions of which
/// have gradient 0 on the bounds.
#ifndef TALC_OPS_COMPARE_H
#define TALC_OPS_COMPARE_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

TALC_API talc_tensor *talc_equal(const talc_tensor *a, const talc_tensor *b);         ///< a == b
TALC_API talc_tensor *talc_not_equal(const talc_tensor *a, const talc_tensor *b);     ///< a != b
TALC_API talc_tensor *talc_less(const talc_tensor *a, const talc_tensor *b);          ///< a < b
TALC_API talc_tensor *talc_less_equal(const talc_tensor *a, const talc_tensor *b);    ///< a <= b
TALC_API talc_tensor *talc_greater(const talc_tensor *a, const talc_tensor *b);       ///< a > b
TALC_API talc_tensor *talc_greater_equal(const talc_tensor *a, const talc_tensor *b); ///< a >= b

TALC_API talc_tensor *talc_equal_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_not_equal_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_less_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_less_equal_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_greater_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_greater_equal_scalar(const talc_tensor *a, double b);

/// x within bounds, of which an infinite one is none. Its gradient is dy from bound to bound, these
/// included, as PyTorch 2.11 has it.
TALC_API talc_tensor *talc_clamp(const talc_tensor *x, double low, double high);

/// a or b, as the condition says.
TALC_API talc_tensor *talc_where(const talc_tensor *condition, const talc_tensor *a,
                                 const talc_tensor *b);

/// x, with `value` where the mask says so.
TALC_API talc_tensor *talc_masked_fill(const talc_tensor *x, const talc_tensor *mask, double value);

// ---- What backends implement --------------------------------------------------------------------

/// y[i...] = condition[i...] != 0 ? a[i...] : b[i...]; y is contiguous, operands have stride 0
/// where they stretch. Dimensions are merged where one stride of each serves two. Elements are
/// moved, never looked at.
typedef struct talc_where_problem {
    talc_dtype dtype; ///< of y, a and b
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t condition_strides[TALC_MAX_RANK];
    int64_t a_strides[TALC_MAX_RANK];
    int64_t b_strides[TALC_MAX_RANK];
} talc_where_problem;

typedef struct talc_where_arguments {
    talc_arguments base;
    void *y;
    const uint8_t *condition;
    const void *a;
    const void *b;
} talc_where_arguments;

TALC_END_DECLARATIONS

#endif
