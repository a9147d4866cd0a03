/// The elementwise ops: one row each, for every backend and for gradients. Compiles as C and as
/// CUDA C++.
///
/// A row of one operand gives the enum constant, the function's name, the numbers that it takes
/// beside x, NONE, ONE(name) or TWO(name, name), and expressions: t in the argument x, the value in
/// x and t, what is saved for the gradient, and the gradient in dy and s, the saved x or y, and,
/// where x is saved, t. In all of them p and q are the numbers, and T is the data's type, of which
/// they are. The gradient is a function of two operands, so that the kernels of these compute it:
/// TALC_RELU has TALC_RELU_GRADIENT. A row of two operands gives the value in a and b, and for da
/// and db which of a, b and y they need and what they are, in ops on tensors. A comparison is 0 or
/// 1 in the data's type and has no gradient.
///
/// Values are type-generic: in C through <tgmath.h>, in C++ through overloading, so f32 data is
/// computed in f32, and a number with a point is cast to T. NaN propagates to every value, but not
/// to every gradient. log1p takes numbers from 0 to 1.
#ifndef TALC_OPS_ELEMENTWISE_TABLE_H
#define TALC_OPS_ELEMENTWISE_TABLE_H

#define TALC_SAVES_NOTHING 0
#define TALC_SAVES_A       1 /* of one operand: x */
#define TALC_SAVES_B       2
#define TALC_SAVES_Y       4
#define TALC_NO_GRADIENT   8

/// Whether a row of one operand is only defined for positive numbers: tests ask no others of it.
#define TALC_UNARY_IS_POSITIVE(constant)                                                           \
    ((constant) == TALC_LOG || (constant) == TALC_SQRT || (constant) == TALC_RSQRT)

/// What a row of two operands does with integers, which it takes but for the last.
enum {
    TALC_WRAPS,    ///< computes without sign, so that they wrap around
    TALC_COMPARES, ///< compares them as they are
    TALC_FLOATS    ///< refuses them
};

/* The roots of 1/2 and of pi, the height of the standard normal density, twice the slope of gelu,
 * and, of the approximation of its distribution by tanh, the argument and that argument's slope,
 * bounded where t, which it is a factor of, is 0. */
#define TALC_SQRT_HALF      0.70710678118654752440
#define TALC_SQRT_PI        1.77245385090551602730
#define TALC_NORMAL_DENSITY 0.39894228040143267794
#define TALC_GELU_TWICE_SLOPE(x)                                                                   \
    (erfc((x) * (T)-TALC_SQRT_HALF) + (x)*exp((x) * (x) * (T)-0.5) * (T)(2 * TALC_NORMAL_DENSITY))
#define TALC_GELU_ARGUMENT(x) ((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x))
#define TALC_GELU_SLOPE(x)                                                                         \
    ((T)0.79788456080286535588 * (1 + (T)0.134145 * (x * x < (T)1e4 ? x * x : (T)1e4)))

/* Of silu and mish t, e^(-|x| / 2), and its square: that may be subnormal and so have few digits
 * where x times it has all of them, so that t is what a tail is multiplied by, twice. */
#define TALC_ROOT_EXPONENTIAL(x) exp((T)-0.5 * (x))
#define TALC_EXPONENTIAL         (t * t)

/* Of selu, of which the mean 0 and the variance 1 of standard normal numbers are a fixed point: the
 * scale, and the scale times alpha. */
#define TALC_SELU_SCALE          1.0507009873554804934
#define TALC_SELU_DEPTH          1.7580993408473768599

/* Of mish, with E = e^-|x|, what (1 + e^x)^2 + 1 is times E^2 where x is not negative, and 4 (1 +
 * E) by it, which x follows as a factor only after t: 4 x may overflow. */
#define TALC_MISH_DIVISOR(x)                                                                       \
    ((x) < 0 ? TALC_EXPONENTIAL * (TALC_EXPONENTIAL + 2) + 2                                       \
             : 1 + 2 * TALC_EXPONENTIAL * (1 + TALC_EXPONENTIAL))
#define TALC_MISH_SLOPE(x)     (4 * (1 + TALC_EXPONENTIAL) / TALC_MISH_DIVISOR(x))

/* Those that an op can apply as its last step; the constant in ops/activation.h is one more than
 * the row's, so they stand in that order. Where the row takes a number, it is this one then. */
#define TALC_ACTIVATION_NUMBER 0.01
// clang-format off
//    constant            name         numbers                t
//    y
//    saved               dx
#define TALC_ACTIVATION_TABLE(X)                                                                   \
    X(TALC_RELU,          relu,        NONE,                  0,                                   \
      x < 0 ? 0 : x,                                                                               \
      TALC_SAVES_Y,       s <= 0 ? 0 : dy)                                                         \
    X(TALC_SIGMOID,       sigmoid,     NONE,                  0,                                   \
      1 / (1 + exp(-x)),                                                                           \
      TALC_SAVES_Y,       dy * s * (1 - s))                                                        \
    X(TALC_TANH,          tanh,        NONE,                  0,                                   \
      tanh(x),                                                                                     \
      TALC_SAVES_Y,       dy * (1 - s * s))                                                        \
    X(TALC_RELU6,         relu6,       NONE,                  0,                                   \
      x < 0 ? 0 : x > 6 ? 6 : x,                                                                   \
      TALC_SAVES_Y,       s <= 0 || s >= 6 ? 0 : dy)                                               \
    X(TALC_HARDSIGMOID,   hardsigmoid, NONE,                  0,                                   \
      (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6,                                                        \
      TALC_SAVES_Y,       s > 0 && s < 1 ? dy / 6 : 0)                                             \
    X(TALC_HARDSWISH,     hardswish,   NONE,                  0,                                   \
      x * ((x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6),                                                  \
      TALC_SAVES_A,       s <= -3 ? 0 : s < 3 ? dy * (s / 3 + (T)0.5) : dy)                        \
    X(TALC_SILU,          silu,        NONE,                  TALC_ROOT_EXPONENTIAL(fabs(x)),      \
      (x < 0 ? x * t * t : x) / (1 + TALC_EXPONENTIAL),                                            \
      TALC_SAVES_A,       dy * (s < 0 ? (1 + s / (1 + TALC_EXPONENTIAL)) * t * t : 1 + s / (1 + TALC_EXPONENTIAL) * TALC_EXPONENTIAL) / (1 + TALC_EXPONENTIAL)) \
    X(TALC_GELU,          gelu,        NONE,                  0,                                   \
      x * (T)0.5 * erfc(x * (T)-TALC_SQRT_HALF),                                                   \
      TALC_SAVES_A,       dy * (T)0.5 * TALC_GELU_TWICE_SLOPE(s))                                  \
    X(TALC_LEAKY_RELU,    leaky_relu,  ONE(negative_slope),   0,                                   \
      x > 0 ? x : x * p,                                                                           \
      TALC_SAVES_A,       s > 0 ? dy : dy * p)

#define TALC_UNARY_TABLE(X)                                                                        \
    TALC_ACTIVATION_TABLE(X)                                                                       \
    X(TALC_GELU_TANH,     gelu_tanh,   NONE,                  exp(-2 * fabs(TALC_GELU_ARGUMENT(x))), \
      (x < 0 ? x * t : x) / (1 + t),                                                               \
      TALC_SAVES_A,       dy * ((s < 0 ? t : 1) + 2 * (s * t) * TALC_GELU_SLOPE(s) / (1 + t)) / (1 + t)) \
    X(TALC_MISH,          mish,        NONE,                  TALC_ROOT_EXPONENTIAL(fabs(x)),      \
      x * (x < 0 ? t * (TALC_EXPONENTIAL + 2) : 1 + 2 * TALC_EXPONENTIAL) / TALC_MISH_DIVISOR(x) * (x < 0 ? t : 1), \
      TALC_SAVES_A,       dy * (s < 0 ? (t * (TALC_EXPONENTIAL + 2) + t * s * TALC_MISH_SLOPE(s)) * t : 1 + 2 * TALC_EXPONENTIAL + TALC_EXPONENTIAL * TALC_EXPONENTIAL * s * TALC_MISH_SLOPE(s)) / TALC_MISH_DIVISOR(s)) \
    X(TALC_ELU,           elu,         ONE(alpha),            0,                                   \
      x < 0 ? p * expm1(x) : x,                                                                    \
      TALC_SAVES_A,       s <= 0 ? dy * p * exp(s) : dy)                                           \
    X(TALC_HARDTANH,      hardtanh,    TWO(low, high),        0,                                   \
      x < p ? p : x > q ? q : x,                                                                   \
      TALC_SAVES_Y,       s <= p || s >= q ? 0 : dy)                                                 \
    X(TALC_SOFTPLUS,      softplus,    TWO(beta, threshold),  x * p,                               \
      t > q ? x : ((t > 0 ? t : 0) + log1p(exp(-fabs(t)))) / p,                                    \
      TALC_SAVES_A,       t > q ? dy : dy / (1 + exp(-t)))                                         \
    X(TALC_SELU,          selu,        NONE,                  0,                                   \
      x < 0 ? (T)TALC_SELU_DEPTH * expm1(x) : x * (T)TALC_SELU_SCALE,                              \
      TALC_SAVES_A,       s <= 0 ? dy * (T)TALC_SELU_DEPTH * exp(s) : dy * (T)TALC_SELU_SCALE)     \
    X(TALC_SOFTSIGN,      softsign,    NONE,                  1 + fabs(x),                         \
      x / t,                                                                                       \
      TALC_SAVES_A,       dy / t / t)                                                              \
    X(TALC_HARDSIGMOID_RAMP, hardsigmoid_ramp, TWO(slope, offset),    x * p + q,                   \
      t < 0 ? 0 : t > 1 ? 1 : t,                                                                   \
      TALC_SAVES_Y,       s > 0 && s < 1 ? dy * p : 0)                                             \
    X(TALC_HARDSWISH_RAMP, hardswish_ramp, TWO(slope, offset),    x * p + q,                       \
      x * (t < 0 ? 0 : t > 1 ? 1 : t),                                                             \
      TALC_SAVES_A,       t <= 0 ? 0 : t < 1 ? dy * (t + s * p) : dy)                              \
    X(TALC_NEG,           neg,         NONE,                  0,                                   \
      -x,                                                                                          \
      TALC_SAVES_NOTHING, -dy)                                                                     \
    X(TALC_EXP,           exp,         NONE,                  0,                                   \
      exp(x),                                                                                      \
      TALC_SAVES_Y,       dy * s)                                                                  \
    X(TALC_LOG,           log,         NONE,                  0,                                   \
      log(x),                                                                                      \
      TALC_SAVES_A,       dy / s)                                                                  \
    X(TALC_SQRT,          sqrt,        NONE,                  0,                                   \
      sqrt(x),                                                                                     \
      TALC_SAVES_Y,       dy / (s + s))                                                            \
    X(TALC_RSQRT,         rsqrt,       NONE,                  0,                                   \
      1 / sqrt(x),                                                                                 \
      TALC_SAVES_Y,       dy * (T)-0.5 * s * s * s)                                              \
    X(TALC_ABS,           abs,         NONE,                  0,                                   \
      fabs(x),                                                                                     \
      TALC_SAVES_A,       s == 0 ? 0 : s < 0 ? -dy : dy)                                           \
    X(TALC_FLOOR,         floor,       NONE,                  0,                                   \
      floor(x),                                                                                    \
      TALC_SAVES_NOTHING, 0)                                                                       \
    X(TALC_SIGN,          sign,        NONE,                  0,                                   \
      x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x,                                                     \
      TALC_SAVES_NOTHING, 0)                                                                       \
    X(TALC_CEIL,          ceil,        NONE,                  0,                                   \
      ceil(x),                                                                                     \
      TALC_SAVES_NOTHING, 0)                                                                       \
    X(TALC_ROUND,         round,       NONE,                  0,                                   \
      rint(x),                                                                                     \
      TALC_SAVES_NOTHING, 0)                                                                       \
    X(TALC_RECIPROCAL,    reciprocal,  NONE,                  0,                                   \
      1 / x,                                                                                       \
      TALC_SAVES_Y,       -dy * s * s)                                                             \
    X(TALC_ERF,           erf,         NONE,                  0,                                   \
      erf(x),                                                                                      \
      TALC_SAVES_A,       dy * (T)(2 / TALC_SQRT_PI) * exp(-s * s))

//                constant             name           kind          y
//                saved                                        da
//                saved                                        db
#define TALC_BINARY_TABLE(X)                                                                       \
    X(TALC_ADD,           add,           TALC_WRAPS,    a + b,                                     \
      TALC_SAVES_NOTHING,                          dy,                                             \
      TALC_SAVES_NOTHING,                          dy)                                             \
    X(TALC_SUB,           sub,           TALC_WRAPS,    a - b,                                     \
      TALC_SAVES_NOTHING,                          dy,                                             \
      TALC_SAVES_NOTHING,                          talc_neg(dy))                                   \
    X(TALC_MUL,           mul,           TALC_WRAPS,    a * b,                                     \
      TALC_SAVES_B,                                talc_mul(dy, b),                                \
      TALC_SAVES_A,                                talc_mul(dy, a))                                \
    X(TALC_SQUARED_DIFFERENCE, squared_difference, TALC_WRAPS, (a - b) * (a - b),                  \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_squared_difference_gradient(dy, a, b),     \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_squared_difference_gradient(dy, b, a))     \
    X(TALC_DIV,           div,           TALC_FLOATS,   a / b,                                     \
      TALC_SAVES_B,                                talc_div(dy, b),                                \
      TALC_SAVES_B | TALC_SAVES_Y,                 talc_neg(talc_div(talc_mul(dy, y), b)))         \
    X(TALC_PRELU,         prelu,         TALC_FLOATS,   a > 0 ? a : a * b,                         \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_prelu_input_gradient(dy, a, b),            \
      TALC_SAVES_A,                                talc_prelu_weight_gradient(dy, a))              \
    X(TALC_POW,           pow,           TALC_FLOATS,   pow(a, b),                                 \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_pow_base_gradient(dy, a, b),               \
      TALC_SAVES_A | TALC_SAVES_B | TALC_SAVES_Y,  talc_pow_exponent_gradient(dy, a, b, y))        \
    X(TALC_MAXIMUM,       maximum,       TALC_COMPARES, a > b ? a : b >= a ? b : a + b,            \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_larger_gradient(dy, a, b),                 \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_larger_gradient(dy, b, a))                 \
    X(TALC_MINIMUM,       minimum,       TALC_COMPARES, a < b ? a : b <= a ? b : a + b,            \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_smaller_gradient(dy, a, b),                \
      TALC_SAVES_A | TALC_SAVES_B,                 talc_smaller_gradient(dy, b, a))                \
    X(TALC_EQUAL,         equal,         TALC_COMPARES, a == b, TALC_NO_GRADIENT, NULL, TALC_NO_GRADIENT, NULL) \
    X(TALC_NOT_EQUAL,     not_equal,     TALC_COMPARES, a != b, TALC_NO_GRADIENT, NULL, TALC_NO_GRADIENT, NULL) \
    X(TALC_LESS,          less,          TALC_COMPARES, a < b,  TALC_NO_GRADIENT, NULL, TALC_NO_GRADIENT, NULL) \
    X(TALC_LESS_EQUAL,    less_equal,    TALC_COMPARES, a <= b, TALC_NO_GRADIENT, NULL, TALC_NO_GRADIENT, NULL) \
    X(TALC_GREATER,       greater,       TALC_COMPARES, a > b,  TALC_NO_GRADIENT, NULL, TALC_NO_GRADIENT, NULL) \
    X(TALC_GREATER_EQUAL, greater_equal, TALC_COMPARES, a >= b, TALC_NO_GRADIENT, NULL, TALC_NO_GRADIENT, NULL)
// clang-format on

#endif
