#include "ops/update.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/operand.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <stdio.h>

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_update_problem *p = problem;
    int64_t total = 0;
    for (int i = 0; i < p->count; i++)
        total += p->numel[i];
    snprintf(text, TALC_RUN_TEXT, "t%dn%" PRId64 "_%s", p->count, total, talc_dtype_name(p->dtype));
}

/* At most TALC_UPDATE_TENSORS of them. */
static bool update_some(const char *op, talc_update_problem *p, const talc_updated *tensors,
                        const talc_tensor *scale, const void *numbers)
{
    talc_device *device = tensors[0].parameter->device;
    talc_update_arguments arguments = { .scale = talc_operand_data(scale), .numbers = numbers };
    for (int i = 0; i < p->count; i++) {
        p->numel[i] = talc_numel(tensors[i].parameter);
        arguments.tensors[i].parameter = tensors[i].parameter->data;
        arguments.tensors[i].gradient = talc_operand_data(tensors[i].gradient);
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            arguments.tensors[i].states[k] = talc_operand_data(tensors[i].states[k]);
    }
    talc_choice choice;
    if (!talc_choose(&choice, op, device, device->backend->update, p, NULL, 0) ||
        talc_choice_run(&choice, problem_text, p, p, &arguments.base) != TALC_OK)
        return false;
    for (int i = 0; i < p->count; i++) {
        talc_tensor_written(tensors[i].parameter);
        if (tensors[i].gradient != NULL)
            talc_tensor_used(tensors[i].gradient);
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            if (tensors[i].states[k] != NULL)
                talc_tensor_written(tensors[i].states[k]);
    }
    if (scale != NULL)
        talc_tensor_used(scale);
    return true;
}

bool talc_update(const char *op, const talc_update_problem *problem, const talc_updated *tensors,
                 int64_t count, const talc_tensor *scale, const void *numbers)
{
    talc_update_problem p = *problem;
    for (int64_t i = 0; i < count; i += p.count) {
        p.count = (int)(count - i < TALC_UPDATE_TENSORS ? count - i : TALC_UPDATE_TENSORS);
        p.dtype = tensors[i].parameter->dtype;
        if (!update_some(op, &p, tensors + i, scale, numbers))
            return false;
    }
    return true;
}
