/// What an optimizer keeps. Private to nn/.
#ifndef TALC_NN_OPTIMIZER_STATE_H
#define TALC_NN_OPTIMIZER_STATE_H

#include "nn/optimizer.h"
#include "ops/update.h"

typedef struct talc_optimized {
    char *path;
    talc_tensor *parameter; ///< retained
    int group;
    int64_t steps;                           ///< of this parameter
    talc_tensor *states[TALC_UPDATE_STATES]; ///< retained, in no scope; NULL before the first step,
                                             ///< and those not used
} talc_optimized;

struct talc_optimizer {
    talc_optimizer_options *groups; ///< with numbers in place of zeros
    int group_count;
    int64_t steps;
    talc_schedule schedule;
    int count;
    talc_optimized *list; ///< in the order of talc_module_visit
};

/// Whether options, with numbers in place of zeros, are what a step can go by; else a failure says
/// why.
bool talc_optimizer_in_range(const talc_optimizer_options *group);

/// The name of a state as PyTorch has it ("momentum_buffer", "exp_avg"); NULL for one that these
/// options do not use.
const char *talc_optimizer_state_name(const talc_optimizer_options *group, int state);

#endif
