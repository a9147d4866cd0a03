/// One call of every op, on any device: for the tests that ask the same of all of them.
#ifndef TALC_TESTS_OP_CASES_H
#define TALC_TESTS_OP_CASES_H

#include "talc.h"

/// Operands that the cases share. Small, with tails, both signs, and no pattern.
typedef struct op_inputs {
    talc_tensor *image;    ///< [2,4,7,6]
    talc_tensor *weight;   ///< [6,2,3,2], for two groups
    talc_tensor *bias;     ///< [6]
    talc_tensor *a;        ///< [3,5]
    talc_tensor *row;      ///< [5]
    talc_tensor *b;        ///< [5,4]
    talc_tensor *mean;     ///< [4]
    talc_tensor *variance; ///< [4], positive
    talc_tensor *labels;   ///< [2,7,6], i64 in 0 .. 3 or -100
} op_inputs;

enum { OP_INPUTS = sizeof(op_inputs) / sizeof(talc_tensor *) };

/// Makes them on a device, always the same numbers.
op_inputs op_inputs_new(talc_device *device);

/// The same numbers in views: of tensors whose dimensions are stored in reverse order, of every
/// second element of each dimension of larger ones, or of their inner part. What is not seen is
/// NaN, and no label.
typedef enum { OP_REVERSED, OP_STEPPED, OP_INNER, OP_VIEWS } op_view;
op_inputs op_inputs_seen(talc_device *device, op_view view);

/// The inputs as an array of OP_INPUTS.
talc_tensor *const *op_inputs_list(const op_inputs *inputs);

/// A tensor of f32 in [-1, 1) that depends on dims and seed alone; at most 65536 elements.
talc_tensor *op_numbers(talc_device *device, talc_dims dims, unsigned seed);

typedef struct op_case {
    const char *name;
    talc_tensor *(*run)(const op_inputs *inputs);
} op_case;

/// Every case, ended by one without a name.
extern const op_case op_cases[];

/// Fails the test unless both tensors have equal types, shapes and bits; they may be on different
/// devices.
void assert_same_bits(const char *what, const talc_tensor *expected, const talc_tensor *got);

#endif
