#include "backends/cuda/conv2d/forward_plan.h"

#include "backends/cuda/cuda.h"
#include "ops/decisions.h"

void talc_cuda_conv2d_forward_plan(talc_cuda_forward_plan make, talc_device *device,
                                   const talc_conv2d_problem *problem, talc_plan *plan)
{
    /* Not the bytes of a problem alone, as decisions of the same list are found by. */
    struct {
        talc_conv2d_problem problem;
        talc_cuda_forward_plan make;
    } key;
    memset(&key, 0, sizeof key);
    memcpy(&key.problem, problem, sizeof *problem);
    key.make = make;
    talc_choice choice;
    choice.device = device, choice.forced = NULL, choice.precision = 0, choice.limit = 0;
    choice.count = 1, choice.chosen = 0;
    talc_considered *own = &choice.algorithms[0];
    if (!talc_decision_find(&choice, talc_cuda_conv2d, &key, sizeof key, own)) {
        memset(own, 0, sizeof *own);
        (void)make(device, problem, 0, &own->plan);
        talc_decision_add(&choice, talc_cuda_conv2d, &key, sizeof key);
    }
    *plan = own->plan;
}
