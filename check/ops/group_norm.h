/// Problems of group norm, of either direction. Private to check/.
#ifndef TALC_CHECK_OPS_GROUP_NORM_H
#define TALC_CHECK_OPS_GROUP_NORM_H

#include "ops/group_norm.h"
#include "check/engine/family.h"

typedef struct group_problem {
    talc_group_norm_problem p;
    bool plain;
} group_problem;

static inline const group_problem *read_group(const check_problem *problem)
{
    return (const group_problem *)(const void *)problem;
}

static inline group_problem *write_group(check_problem *problem)
{
    return (group_problem *)(void *)problem;
}

/// The values of a row, a group of a sample.
static inline int64_t row_values(const talc_group_norm_problem *p)
{
    return p->C / p->groups * p->plane;
}

/// The rows as a batch norm in training has them: the channels of one image.
check_problem talc_check_group_rows(const check_problem *problem);

/// Of both directions.
extern const check_family talc_check_group_family;
extern const check_direction talc_check_group_norm_gradient;

#endif
