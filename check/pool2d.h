/// Problems of the pooling family. Private to check/.
#ifndef TALC_CHECK_POOL2D_H
#define TALC_CHECK_POOL2D_H

#include "ops/pool2d.h"
#include "check/family.h"

typedef struct check_pool2d_problem {
    talc_pool2d_problem p;
    bool ceil_mode;
} check_pool2d_problem;

CHECK_PROBLEM(check_pool2d_problem, talc_pool2d_arguments)

/// What check/family.h says of these members.
bool talc_check_pool2d_parse(check_reader *reader, int op, check_problem *problem);
void talc_check_pool2d_print(const check_problem *problem, char text[TALC_CHECK_TEXT]);
bool talc_check_pool2d_random(uint64_t *state, check_problem *problem);

#endif
