/// Elementwise ops: y[i] = f(x[i]) and y[i] = f(a[i], b[i]).
///
/// The operands of the binary ops broadcast by NumPy's rule: shapes are aligned at the last
/// dimension and an extent of 1 stretches. Both must be of one dtype and on one device. neg, add,
/// sub, mul take every dtype (integers wrap around), and so do maximum and minimum; the others f32
/// and f64. Rows of ops/elementwise_table.h give the formulas and derivatives.
///
/// Errors: NULL operand, dtype or device mismatch, shapes that do not broadcast, a weight of prelu
/// that is neither one number nor one for each channel, a number out of
/// range or that the dtype does not hold, no memory. Gradients of maximum and minimum: of equal
/// elements each gets half of dy; of pow: 0 for the base where the exponent is 0, and for the
/// exponent where the base is 0 and the exponent is not negative. Of a NaN maximum and minimum are
/// NaN.
///
/// Accuracy: each result is the f32 or f64 formula evaluated as written; for sigmoid, tanh and erf
/// within 4 ulp (a sigmoid below the smallest normal number may be 0), for silu, mish and hardswish
/// within 8, for gelu within 8 + 2 x^2, and for hardsigmoid and hardswish with numbers of one's own
/// within 2 ulp of |slope x| + |offset|, times |x| for the latter. Where PyTorch's values at
/// infinity are NaN, as silu's at -inf, so are these.
#ifndef TALC_OPS_ELEMENTWISE_H
#define TALC_OPS_ELEMENTWISE_H

#include "algorithm.h"
#include "elementwise_table.h"

TALC_BEGIN_DECLARATIONS

TALC_API talc_tensor *talc_neg(const talc_tensor *x);   ///< -x
TALC_API talc_tensor *talc_exp(const talc_tensor *x);   ///< e^x
TALC_API talc_tensor *talc_log(const talc_tensor *x);   ///< natural logarithm
TALC_API talc_tensor *talc_sqrt(const talc_tensor *x);  ///< square root
TALC_API talc_tensor *talc_rsqrt(const talc_tensor *x); ///< 1 / sqrt(x)
TALC_API talc_tensor *talc_abs(const talc_tensor *x);   ///< absolute value
TALC_API talc_tensor *talc_floor(const talc_tensor *x); ///< the largest integer that is at most x
TALC_API talc_tensor *talc_sign(const talc_tensor *x);  ///< -1, 0 or 1; NaN stays NaN
TALC_API talc_tensor *talc_ceil(const talc_tensor *x);  ///< the smallest integer not below x
/// The nearest integer, of two the even one.
TALC_API talc_tensor *talc_round(const talc_tensor *x);
TALC_API talc_tensor *talc_reciprocal(const talc_tensor *x); ///< 1 / x
/// The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
TALC_API talc_tensor *talc_erf(const talc_tensor *x);
/// log(1 + exp(beta x)) / beta, and x where beta x is above the threshold, as in PyTorch, whose
/// defaults are 1 and 20. beta is finite, the threshold any number; above an infinite one is
/// nothing.
TALC_API talc_tensor *talc_softplus(const talc_tensor *x, double beta, double threshold);

/// Activations.
TALC_API talc_tensor *talc_relu(const talc_tensor *x);        ///< max(x, 0); NaN stays NaN
TALC_API talc_tensor *talc_relu6(const talc_tensor *x);       ///< min(max(x, 0), 6)
TALC_API talc_tensor *talc_sigmoid(const talc_tensor *x);     ///< 1 / (1 + exp(-x))
TALC_API talc_tensor *talc_tanh(const talc_tensor *x);        ///< hyperbolic tangent
TALC_API talc_tensor *talc_hardsigmoid(const talc_tensor *x); ///< relu6(x + 3) / 6
TALC_API talc_tensor *talc_hardswish(const talc_tensor *x);   ///< x relu6(x + 3) / 6
TALC_API talc_tensor *talc_silu(const talc_tensor *x);        ///< x sigmoid(x)
TALC_API talc_tensor *talc_mish(const talc_tensor *x);        ///< x tanh(softplus(x))
/// x Phi(x), with Phi the standard normal distribution, and with the approximation of it by tanh:
/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
TALC_API talc_tensor *talc_gelu(const talc_tensor *x);
TALC_API talc_tensor *talc_gelu_tanh(const talc_tensor *x);
/// Where x is at most 0 negative_slope x and alpha (exp(x) - 1), else x. The number is finite.
TALC_API talc_tensor *talc_leaky_relu(const talc_tensor *x, double negative_slope);
TALC_API talc_tensor *talc_elu(const talc_tensor *x, double alpha);
/// x where it is above 0, else weight x, with a learned weight of one element, or of one for each
/// channel of x [N, C, ...], as in PyTorch: both f32 or both f64.
TALC_API talc_tensor *talc_prelu(const talc_tensor *x, const talc_tensor *weight);
/// scale x where x is above 0, else scale alpha (exp(x) - 1), with the two numbers, 1.0507... and
/// 1.6732..., of Klambauer et al., "Self-normalizing neural networks", 2017.
TALC_API talc_tensor *talc_selu(const talc_tensor *x);
/// x / (1 + |x|). Its slope, 1 / (1 + |x|)^2, is 0 at infinities, where PyTorch's is NaN.
TALC_API talc_tensor *talc_softsign(const talc_tensor *x);
/// g = min(max(slope x + offset, 0), 1), as ONNX's HardSigmoid, and x g; talc_hardsigmoid and
/// talc_hardswish have 1/6 and 1/2. Both numbers are finite. Where g is 0 or 1 it has slope 0.
TALC_API talc_tensor *talc_hardsigmoid_ramp(const talc_tensor *x, double slope, double offset);
TALC_API talc_tensor *talc_hardswish_ramp(const talc_tensor *x, double slope, double offset);
/// min(max(x, low), high), low at most high. Unlike talc_clamp it passes no gradient at the limits,
/// as in PyTorch.
TALC_API talc_tensor *talc_hardtanh(const talc_tensor *x, double low, double high);

/// a + b, a - b, a * b and a / b, broadcast.
TALC_API talc_tensor *talc_add(const talc_tensor *a, const talc_tensor *b);
TALC_API talc_tensor *talc_sub(const talc_tensor *a, const talc_tensor *b);
TALC_API talc_tensor *talc_mul(const talc_tensor *a, const talc_tensor *b);
TALC_API talc_tensor *talc_div(const talc_tensor *a, const talc_tensor *b);
/// (a - b)^2, broadcast.
TALC_API talc_tensor *talc_squared_difference(const talc_tensor *a, const talc_tensor *b);

/// a to the power b, the larger and the smaller of a and b, broadcast.
TALC_API talc_tensor *talc_pow(const talc_tensor *a, const talc_tensor *b);
TALC_API talc_tensor *talc_maximum(const talc_tensor *a, const talc_tensor *b);
TALC_API talc_tensor *talc_minimum(const talc_tensor *a, const talc_tensor *b);

/// The same with a number as the second operand, rounded to a's dtype. One that an integer type
/// does not hold as it is, such as 0.5, -1 for u8 or NaN, is an error.
TALC_API talc_tensor *talc_add_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_sub_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_mul_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_div_scalar(const talc_tensor *a, double b);
TALC_API talc_tensor *talc_pow_scalar(const talc_tensor *a, double b);

// ---- What backends implement --------------------------------------------------------------------

#define TALC_UNARY_ENUMERATOR(constant, ...) constant,
typedef enum talc_unary_function {
    TALC_UNARY_TABLE(TALC_UNARY_ENUMERATOR) TALC_UNARY_COUNT
} talc_unary_function;
#undef TALC_UNARY_ENUMERATOR

#define TALC_BINARY_ENUMERATOR(constant, ...)   constant,
#define TALC_GRADIENT_ENUMERATOR(constant, ...) constant##_GRADIENT,
typedef enum talc_binary_function {
    TALC_BINARY_TABLE(TALC_BINARY_ENUMERATOR) TALC_UNARY_TABLE(TALC_GRADIENT_ENUMERATOR)
        TALC_BINARY_COUNT
} talc_binary_function;
#undef TALC_BINARY_ENUMERATOR
#undef TALC_GRADIENT_ENUMERATOR

/// y[i...] = f(x[i...]); y is contiguous, x strided. Dimensions are merged where one stride of each
/// serves two.
typedef struct talc_unary_problem {
    talc_unary_function function;
    talc_dtype dtype;
    double numbers[2]; ///< p and q of the table's row, rounded to dtype
                       ///<
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
} talc_unary_problem;

typedef struct talc_unary_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_unary_arguments;

/// y[i...] = f(a[i...], b[i...]); broadcast operands have stride 0 where they stretch. With
/// `b_is_scalar`, b is NULL and `scalar`, rounded to dtype, stands for every b.
typedef struct talc_binary_problem {
    talc_binary_function function;
    talc_dtype dtype;
    bool b_is_scalar;
    double scalar;
    double numbers[2]; ///< of the gradient of a row of one operand: p and q
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t a_strides[TALC_MAX_RANK];
    int64_t b_strides[TALC_MAX_RANK];
} talc_binary_problem;

typedef struct talc_binary_arguments {
    talc_arguments base;
    void *y;
    const void *a;
    const void *b;
} talc_binary_arguments;

/// The problems of calls on tensors, whose data is not looked at: y is of the result's shape, to
/// which the operands broadcast; b is NULL for `scalar`. Their numbers are 0.
talc_unary_problem talc_unary_problem_of(talc_unary_function function, const talc_tensor *y,
                                         const talc_tensor *x);
talc_binary_problem talc_binary_problem_of(talc_binary_function function, const talc_tensor *y,
                                           const talc_tensor *a, const talc_tensor *b,
                                           double scalar);

TALC_END_DECLARATIONS

#endif
