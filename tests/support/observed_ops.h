/// Which ops a forward pass runs.
#ifndef TALC_TESTS_OBSERVED_OPS_H
#define TALC_TESTS_OBSERVED_OPS_H

#include "tensor/observe.h"
#include "tests/support/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct counting {
    talc_observer base; /* first */
    char ops[512];      /* "conv2d relu " */
} counting;

static inline void count_op(talc_observer *observer, const talc_observation *observation)
{
    char *ops = ((counting *)observer)->ops;
    const size_t length = strlen(ops);
    snprintf(ops + length, sizeof((counting *)observer)->ops - length, "%s ", observation->op);
}

static counting counted = { .base = { .observe = count_op } };

/* The result, and in counted.ops what ran. */
static inline talc_tensor *observed(talc_module *module, talc_tensor *x)
{
    counted.ops[0] = '\0';
    talc_observe(&counted.base);
    talc_tensor *y = talc_forward(module, x);
    talc_observe(NULL);
    return y;
}

static inline talc_tensor *unfused(talc_module *module, talc_tensor *x)
{
    talc_fusion_enable(false);
    talc_tensor *y = observed(module, x);
    talc_fusion_enable(true);
    return y;
}

#endif
