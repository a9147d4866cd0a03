#include "check/family.h"

#include "ops/backend.h"
#include "tensor/error.h"
#include "tensor/shown.h"

#include <string.h>

const check_family *const talc_check_families[] = {
    &talc_check_conv2d, &talc_check_pool2d,  &talc_check_matmul,        &talc_check_batch_norm2d,
    &talc_check_reduce, &talc_check_softmax, &talc_check_cross_entropy, NULL,
};

const check_family *talc_check_parse(const char *text, check_problem *problem)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon == NULL ? strlen("conv2d") : (size_t)(colon - text);
    const char *op = colon == NULL ? "conv2d" : text;
    for (const check_family *const *family = talc_check_families; *family != NULL; family++)
        for (const char *const *name = (*family)->ops; *name != NULL; name++)
            if (strlen(*name) == length && memcmp(*name, op, length) == 0)
                return (*family)->parse(*name, colon == NULL ? text : colon + 1, problem) ? *family
                                                                                          : NULL;
    talc_fail(TALC_NOT_FOUND, "check: problem '%s': there is no op '%s' at position 0",
              TALC_SHOWN(text), TALC_SHOWN_PART(op, length));
    return NULL;
}

const talc_algorithm *talc_check_row_at(const check_family *family, const talc_device *device,
                                        int index)
{
    const talc_algorithm *row;
    memcpy(&row, (const char *)device->backend + family->list, sizeof row);
    while (row != NULL && row->name != NULL && index > 0) {
        row++;
        index--;
    }
    return row == NULL || row->name == NULL ? NULL : row;
}

const char *talc_check_plan(const check_family *family, const talc_algorithm *row,
                            const talc_device *device, const check_problem *problem, size_t limit,
                            talc_plan *plan)
{
    *plan = (talc_plan){ .workspace = 0 };
    return family->is_empty(problem) ? "there is nothing to compute"
                                     : row->plan(device, family->posed(problem), limit, plan);
}
