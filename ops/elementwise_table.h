/// The elementwise ops: one row each, for every backend and for gradients. Compiles as C and as CUDA C++.
///
/// A row gives the enum constant, the function's name, the value and the derivatives as expressions in the argument
/// x (a, b for two), and the value y. The expressions are type-generic: in C through <tgmath.h>, in C++ through
/// overloading, so f32 data is computed in f32. NaN propagates through every row.
#ifndef TALC_OPS_ELEMENTWISE_TABLE_H
#define TALC_OPS_ELEMENTWISE_TABLE_H

// clang-format off
//                constant       name      y                                   dy/dx
#define TALC_UNARY_TABLE(X)                                                                        \
    X(TALC_NEG,     neg,      -x,                                 -1)                              \
    X(TALC_RELU,    relu,     x < 0 ? 0 : x,                      x > 0 ? 1 : 0)                   \
    X(TALC_SIGMOID, sigmoid,  1 / (1 + exp(-x)),                  y * (1 - y))                     \
    X(TALC_TANH,    tanh,     tanh(x),                            1 - y * y)

//                constant       name      y          dy/da         dy/db
#define TALC_BINARY_TABLE(X)                                                                       \
    X(TALC_ADD,     add,      a + b,     1,            1)                                          \
    X(TALC_SUB,     sub,      a - b,     1,           -1)                                          \
    X(TALC_MUL,     mul,      a * b,     b,            a)                                          \
    X(TALC_DIV,     div,      a / b,     1 / b,       -y / b)
// clang-format on

#endif
