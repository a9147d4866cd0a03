/// A call of every public function that makes a tensor of tensors.
///
/// operand_calls.py reads them from the headers when the tests are built.
#ifndef TALC_TESTS_OPERAND_CALLS_H
#define TALC_TESTS_OPERAND_CALLS_H

#include "talc.h"

enum { OPERANDS_OF_A_CALL = 8 };

typedef struct operand_call {
    const char *name;                         ///< without talc_; NULL behind the last
    const char *operands[OPERANDS_OF_A_CALL]; ///< the parameters that are tensors
    int count;
    talc_tensor *(*call)(talc_tensor *const operands[]); ///< with 1, 0.5, false and no options
} operand_call;

extern const operand_call operand_calls[];

#endif
