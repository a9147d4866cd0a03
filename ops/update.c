#include "ops/update.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/operand.h"
#include "tensor/extent.h"
#include "tensor/storage.h"

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

int64_t talc_update_parts(const talc_update_problem *problem)
{
    int64_t parts = 0;
    for (int i = 0; i < problem->count; i++)
        parts += talc_ceil_div(problem->numel[i], TALC_UPDATE_PART);
    return parts;
}

static void used(talc_tensor *tensor)
{
    talc_tensor_used(tensor);
}

/* At most TALC_UPDATE_TENSORS of them. */
static bool update_some(const char *op, talc_update_problem *p, const talc_updated *tensors,
                        talc_update_arguments arguments)
{
    talc_device *device = tensors[0].parameter->device;
    for (int i = 0; i < p->count; i++) {
        p->numel[i] = talc_numel(tensors[i].parameter);
        arguments.tensors[i].parameter = tensors[i].parameter->data;
        arguments.tensors[i].gradient = talc_operand_data(tensors[i].gradient);
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            arguments.tensors[i].states[k] = talc_operand_data(tensors[i].states[k]);
    }
    talc_choice choice;
    if (!talc_choose(&choice, op, device, talc_backend_algorithms(device->backend, TALC_OP_update),
                     p, 0, NULL, 0) ||
        talc_choice_run(&choice, problem_text, p, p, &arguments.base) != TALC_OK)
        return false;
    for (int i = 0; i < p->count; i++) {
        (p->rule == TALC_UPDATE_NORM ? used : talc_tensor_written)(tensors[i].parameter);
        if (tensors[i].gradient != NULL)
            talc_tensor_used(tensors[i].gradient);
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            if (tensors[i].states[k] != NULL)
                talc_tensor_written(tensors[i].states[k]);
    }
    return true;
}

static bool update_all(const char *op, talc_update_problem p, const talc_updated *tensors,
                       int64_t count, const talc_update_arguments *arguments)
{
    for (int64_t i = 0; i < count; i += p.count) {
        p.count = (int)(count - i < TALC_UPDATE_TENSORS ? count - i : TALC_UPDATE_TENSORS);
        p.dtype = tensors[i].parameter->dtype;
        p.last = i + p.count == count;
        if (!update_some(op, &p, tensors + i, *arguments))
            return false;
        p.parts_before += talc_update_parts(&p);
    }
    return true;
}

bool talc_update(const char *op, const talc_update_problem *problem, const talc_updated *tensors,
                 int64_t count, const talc_tensor *scale, const void *numbers)
{
    const talc_update_arguments arguments = { .scale = talc_operand_data(scale),
                                              .numbers = numbers };
    if (!update_all(op, *problem, tensors, count, &arguments))
        return false;
    if (scale != NULL)
        talc_tensor_used(scale);
    return true;
}

bool talc_update_norm(const char *op, double max_norm, const talc_updated *tensors, int64_t count,
                      talc_tensor *y)
{
    int64_t parts = 0;
    for (int64_t i = 0; i < count; i++)
        parts += talc_ceil_div(talc_numel(tensors[i].parameter), TALC_UPDATE_PART);
    talc_tensor *sums = talc_tensor_new(op, y->device, TALC_F64, TALC_DIMS(parts));
    if (sums == NULL)
        return false;
    const talc_update_problem problem = { .rule = TALC_UPDATE_NORM, .max_norm = max_norm };
    const talc_update_arguments arguments = { .parts = sums->data, .y = y->data };
    if (!update_all(op, problem, tensors, count, &arguments))
        return false;
    talc_tensor_written(sums);
    talc_tensor_written(y);
    return true;
}
