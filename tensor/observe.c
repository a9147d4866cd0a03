#include "tensor/observe.h"

#include "tensor/storage.h"

static _Thread_local talc_observer *current;

talc_observer *talc_observe(talc_observer *observer)
{
    talc_observer *before = current;
    current = observer;
    return before;
}

talc_observer *talc_observe_pause(void)
{
    return talc_observe(NULL);
}

void talc_observe_resume(talc_observer *observer)
{
    current = observer;
}

void talc_observed(const char *op, const struct talc_algorithm *algorithm, const void *problem,
                   const talc_tensor *const *inputs, int count, const talc_tensor *output)
{
    for (int i = 0; i < count; i++)
        if (inputs[i] != NULL)
            talc_tensor_used(inputs[i]);
    talc_observer *observer = current;
    if (observer == NULL || output == NULL)
        return;
    const talc_observation observation = { op, algorithm, problem, inputs, count, output };
    current = NULL;
    observer->observe(observer, &observation);
    current = observer;
}
