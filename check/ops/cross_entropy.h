/// Problems of cross entropy, of either direction. Private to check/.
#ifndef TALC_CHECK_OPS_CROSS_ENTROPY_H
#define TALC_CHECK_OPS_CROSS_ENTROPY_H

#include "ops/cross_entropy.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"

typedef struct check_entropy_problem {
    talc_cross_entropy_problem p;
    check_layout x, labels;
    check_part outer; ///< x's dimensions but that of the classes
} check_entropy_problem;

CHECK_PROBLEM(check_entropy_problem, talc_cross_entropy_arguments)

/// Of both directions.
extern const check_family talc_check_entropy_family;
extern const check_direction talc_check_cross_entropy_gradient;
bool talc_check_entropy_is_empty(const check_problem *problem);

/// Operands 0 to 2 of both directions, x, labels and class weights, and what they are filled with.
void talc_check_entropy_operands(const check_problem *problem, check_operand list[CHECK_OPERANDS]);
void talc_check_entropy_fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                             const check_values *values);

/// y's dimensions, which are dy's: those of labels, or none.
check_layout talc_check_entropy_y(const check_entropy_problem *self);

#endif
