/// Plans of algorithms that tests make.
#ifndef TALC_TESTS_PLANS_H
#define TALC_TESTS_PLANS_H

#include "ops/backend.h"

/// A plan of that name, which does what follows and gives a reason: NULL where it takes the
/// problem.
#define PLAN(name, reason, ...)                                                                    \
    static const char *name(const talc_device *device, const void *problem, size_t limit,          \
                            talc_plan *plan)                                                       \
    {                                                                                              \
        (void)device, (void)problem, (void)limit, (void)plan;                                      \
        __VA_ARGS__;                                                                               \
        return reason;                                                                             \
    }

#endif
