/// The elementwise ops: one row each, for every backend and for gradients. Compiles as C and as CUDA C++.
///
/// A row of one operand gives the enum constant, the function's name, the value as an expression in the argument x, what is saved for
/// the gradient, and the gradient as an expression in dy and s, the saved x or y. The gradient is a function of two operands, so that
/// the kernels of these compute it: TALC_RELU has TALC_RELU_GRADIENT. A row of two operands gives the value in a and b, and
/// for da and db which of a, b and y they need and what they are, in ops on tensors. A comparison is 0 or 1 in the data's type
/// and has no gradient.
///
/// Values are type-generic: in C through <tgmath.h>, in C++ through overloading, so f32 data is computed in f32. NaN
/// propagates through every row.
#ifndef TALC_OPS_ELEMENTWISE_TABLE_H
#define TALC_OPS_ELEMENTWISE_TABLE_H

#define TALC_SAVES_NOTHING 0
#define TALC_SAVES_A       1 /* of one operand: x */
#define TALC_SAVES_B       2
#define TALC_SAVES_Y       4
#define TALC_NO_GRADIENT   8

/// What a row of two operands does with integers, which it takes but for the last.
enum {
    TALC_WRAPS,    ///< computes without sign, so that they wrap around
    TALC_COMPARES, ///< compares them as they are
    TALC_FLOATS    ///< refuses them
};

// clang-format off
//                constant       name      y                     saved               dx
#define TALC_UNARY_TABLE(X)                                                                        \
    X(TALC_NEG,     neg,      -x,                   TALC_SAVES_NOTHING, -dy)                       \
    X(TALC_RELU,    relu,     x < 0 ? 0 : x,        TALC_SAVES_Y,       s <= 0 ? 0 : dy)           \
    X(TALC_SIGMOID, sigmoid,  1 / (1 + exp(-x)),    TALC_SAVES_Y,       dy * s * (1 - s))          \
    X(TALC_TANH,    tanh,     tanh(x),              TALC_SAVES_Y,       dy * (1 - s * s))          \
    X(TALC_EXP,     exp,      exp(x),               TALC_SAVES_Y,       dy * s)                    \
    X(TALC_LOG,     log,      log(x),               TALC_SAVES_A,       dy / s)                    \
    X(TALC_SQRT,    sqrt,     sqrt(x),              TALC_SAVES_Y,       dy / (s + s))              \
    X(TALC_ABS,     abs,      fabs(x),              TALC_SAVES_A,       s == 0 ? 0 : s < 0 ? -dy : dy) \
    X(TALC_SOFTPLUS, softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))), TALC_SAVES_A, dy / (1 + exp(-s)))

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
    X(TALC_DIV,           div,           TALC_FLOATS,   a / b,                                     \
      TALC_SAVES_B,                                talc_div(dy, b),                                \
      TALC_SAVES_B | TALC_SAVES_Y,                 talc_neg(talc_div(talc_mul(dy, y), b)))         \
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
