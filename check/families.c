#include "check/family.h"

#include "check/data.h"
#include "ops/backend.h"
#include "tensor/error.h"
#include "tensor/shown.h"

#include <string.h>

const check_family *const talc_check_families[] = {
    &talc_check_conv2d, &talc_check_pool2d,  &talc_check_matmul,        &talc_check_batch_norm2d,
    &talc_check_reduce, &talc_check_softmax, &talc_check_cross_entropy, NULL,
};

// ---- Problems -----------------------------------------------------------------------------------------------

const check_family *talc_check_parse(const char *text, check_problem *problem)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon == NULL ? strlen("conv2d") : (size_t)(colon - text);
    const char *op = colon == NULL ? "conv2d" : text;
    memset(problem, 0, sizeof *problem);
    for (const check_family *const *family = talc_check_families; *family != NULL; family++)
        for (int i = 0; (*family)->ops[i] != NULL; i++) {
            const char *name = (*family)->ops[i];
            if (strlen(name) != length || memcmp(name, op, length) != 0)
                continue;
            check_reader reader = { name, text, colon == NULL ? text : colon + 1 };
            return (*family)->parse(&reader, i, problem) ? *family : NULL;
        }
    talc_fail(TALC_NOT_FOUND, "check: problem '%s': there is no op '%s' at position 0",
              TALC_SHOWN(text), TALC_SHOWN_PART(op, length));
    return NULL;
}

void talc_check_random(const check_family *family, uint64_t seed, check_problem *problem)
{
    uint64_t state = talc_check_bits(seed, family->stream);
    do
        memset(problem, 0, sizeof *problem);
    while (!family->random(&state, problem));
}

const char *talc_check_op(const check_family *family, const check_problem *problem)
{
    return family->ops[family->op == NULL ? 0 : family->op(problem)];
}

const char *talc_check_write(const check_family *family, const check_problem *problem,
                             char text[TALC_CHECK_TEXT])
{
    text[0] = '\0';
    if (family != &talc_check_conv2d)
        talc_check_append(text, "%s:", talc_check_op(family, problem));
    family->print(problem, text);
    return text;
}

// ---- Operands -----------------------------------------------------------------------------------------------

check_operand talc_check_operand(const char *name, check_role role, talc_dtype dtype,
                                 talc_dims dims)
{
    check_operand operand = { .name = name, .role = role, .dtype = dtype, .rank = dims.rank };
    operand.count = 1;
    for (int i = 0; i < dims.rank; i++) /* beside an extent of 0 a product may be too large */
        operand.count = dims.dim[i] == 0 ? 0 : operand.count;
    for (int i = 0; i < dims.rank; i++) {
        operand.dims[i] = dims.dim[i];
        operand.count *= operand.count == 0 ? 1 : dims.dim[i];
    }
    return operand;
}

void talc_check_operands(const check_family *family, const check_problem *problem,
                         check_operand operands[CHECK_OPERANDS])
{
    memset(operands, 0, CHECK_OPERANDS * sizeof *operands);
    family->operands(problem, operands);
}

bool talc_check_nothing_due(const check_family *family, const check_problem *problem)
{
    check_operand operands[CHECK_OPERANDS];
    talc_check_operands(family, problem, operands);
    for (int i = 0; i < CHECK_OPERANDS; i++)
        if (talc_check_is_output(&operands[i]) && operands[i].count == 0)
            return true;
    return false;
}

bool talc_check_is_empty(const check_family *family, const check_problem *problem)
{
    return talc_check_nothing_due(family, problem) ||
           (family->is_empty != NULL && family->is_empty(problem));
}

// ---- Rows ---------------------------------------------------------------------------------------------------

const talc_algorithm *talc_check_row_at(const check_family *family, const talc_device *device,
                                        int index)
{
    const char *list = (const char *)device->backend + family->list;
    const talc_algorithm *row = *(const talc_algorithm *const *)(const void *)list;
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
    return talc_check_is_empty(family, problem)
               ? "there is nothing to compute"
               : talc_algorithm_refuses(row, device, problem, limit, plan);
}
