/// Problems of batch normalisation, of either direction. Private to check/.
#ifndef TALC_CHECK_BATCH_NORM2D_H
#define TALC_CHECK_BATCH_NORM2D_H

#include "ops/batch_norm2d.h"
#include "check/family.h"

typedef struct check_norm_problem {
    talc_batch_norm2d_problem p;
    bool plain, untracked;
} check_norm_problem;

CHECK_PROBLEM(check_norm_problem, talc_batch_norm2d_arguments)

/// What check/family.h says of these members; `random` draws a forward problem.
bool talc_check_norm_parse(check_reader *reader, int op, check_problem *problem);
void talc_check_norm_print(const check_problem *problem, char text[TALC_CHECK_TEXT]);
bool talc_check_norm_random(uint64_t *state, check_problem *problem);

/// Makes a forward problem one of the gradient, whose text has no more words than train, plain, residual, an activation and the
/// type.
void talc_check_norm_turn(check_problem *problem);

#endif
