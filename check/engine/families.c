#include "check/engine/family.h"

#include "check/engine/data.h"
#include "ops/backend.h"
#include "tensor/error.h"
#include "tensor/shown.h"

#include <string.h>

const check_direction *const talc_check_directions[] = {
    &talc_check_conv2d,
    &talc_check_pool2d,
    &talc_check_matmul,
    &talc_check_batch_norm2d,
    &talc_check_reduce,
    &talc_check_softmax,
    &talc_check_cross_entropy,
    &talc_check_nll_loss,
    &talc_check_group_norm,
    &talc_check_resample,
    &talc_check_gather,
    &talc_check_unary,
    &talc_check_binary,
    &talc_check_where,
    &talc_check_cumsum,
    &talc_check_cumprod,
    &talc_check_update,
    &talc_check_pool2d_gradient,
    &talc_check_batch_norm2d_gradient,
    &talc_check_cross_entropy_gradient,
    &talc_check_nll_loss_gradient,
    &talc_check_resample_gradient,
    &talc_check_gather_gradient,
    &talc_check_group_norm_gradient,
    &talc_check_unary_gradient,
    &talc_check_cumsum_gradient,
    &talc_check_cumprod_gradient,
    NULL,
};

// ---- Problems -----------------------------------------------------------------------------------

/* Whether a text is of an input gradient, if its op is of two directions. */
static bool asks_for_gradient(const char *text)
{
    const char *word = strstr(text, "_dx");
    return word != NULL && (word[3] == '_' || word[3] == '\0');
}

/* The direction with an op of that very name, "conv2d" or "conv2d.grad_input"; which op it is. */
static const check_direction *direction_of(const char *name, size_t length, int *op)
{
    for (const check_direction *const *direction = talc_check_directions; *direction != NULL;
         direction++)
        for (int i = 0; (*direction)->ops[i] != NULL; i++)
            if (strlen((*direction)->ops[i]) == length &&
                memcmp((*direction)->ops[i], name, length) == 0) {
                *op = i;
                return *direction;
            }
    return NULL;
}

/* The input gradient of the same family, or `direction` where it has none of its own. */
static const check_direction *gradient_of(const check_direction *direction)
{
    for (const check_direction *const *other = talc_check_directions; *other != NULL; other++)
        if ((*other)->family == direction->family && (*other)->of == TALC_GRAD_INPUT)
            return *other;
    return direction;
}

/* What follows the op of a text, by the keys of its family. */
static bool read_problem(const check_family *family, check_reader *reader, int op,
                         check_problem *problem)
{
    const char *positions[CHECK_KEYS] = { NULL }, *start = reader->at, *key = "";
    if (family->parse != NULL)
        return family->parse(reader, op, problem);
    if (family->begin != NULL)
        family->begin(problem, op);
    if (!talc_check_read_keys(reader, family->keys, op, problem, positions))
        return false;
    const char *wanted = family->complete(problem, &key);
    for (int i = 0; wanted != NULL && family->keys[i].key != NULL; i++)
        if (*key != '\0' && strncmp(family->keys[i].key, key, strlen(key)) == 0)
            return talc_check_unexpected_at(reader, positions[i] + (*key == ','), wanted);
    return wanted == NULL || talc_check_unexpected_at(reader, start, wanted);
}

const check_direction *talc_check_parse(const char *text, check_problem *problem)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon == NULL ? strlen("conv2d") : (size_t)(colon - text);
    const char *name = colon == NULL ? "conv2d" : text;
    int op = 0;
    memset(problem, 0, sizeof *problem);
    const check_direction *direction = direction_of(name, length, &op);
    if (direction == NULL) {
        talc_fail(TALC_NOT_FOUND, "check: problem '%s': there is no op '%s' at position 0",
                  TALC_SHOWN(text), TALC_SHOWN_PART(name, length));
        return NULL;
    }
    check_reader reader = { direction->ops[op], text, colon == NULL ? text : colon + 1 };
    direction = asks_for_gradient(text) ? gradient_of(direction) : direction;
    return read_problem(direction->family, &reader, op, problem) ? direction : NULL;
}

void talc_check_random(const check_direction *direction, uint64_t seed, check_problem *problem)
{
    const check_family *family = direction->family;
    uint64_t state = talc_check_bits(seed, direction->stream);
    const char *key = "";
    do
        memset(problem, 0, sizeof *problem);
    while (!family->random(&state, direction->of, problem) ||
           (family->complete != NULL && family->complete(problem, &key) != NULL));
}

static int op_of(const check_direction *direction, const check_problem *problem)
{
    const check_family *family = direction->family;
    return family->op == NULL ? 0 : family->op(problem);
}

const char *talc_check_op(const check_direction *direction, const check_problem *problem)
{
    return direction->ops[op_of(direction, problem)];
}

const char *talc_check_write(const check_direction *direction, const check_problem *problem,
                             char text[TALC_CHECK_TEXT])
{
    const check_family *family = direction->family;
    text[0] = '\0';
    if (direction != &talc_check_conv2d)
        talc_check_append(text, "%.*s:", (int)strcspn(talc_check_op(direction, problem), "."),
                          talc_check_op(direction, problem));
    if (family->print != NULL)
        family->print(problem, text);
    else
        talc_check_append_keys(text, family->keys, op_of(direction, problem), problem);
    return text;
}

// ---- Operands -----------------------------------------------------------------------------------

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

void talc_check_operands(const check_direction *direction, const check_problem *problem,
                         check_operand operands[CHECK_OPERANDS])
{
    memset(operands, 0, CHECK_OPERANDS * sizeof *operands);
    direction->operands(problem, operands);
}

bool talc_check_takes_inexact(const check_problem *problem, talc_check_kind kind)
{
    (void)problem;
    return kind != TALC_CHECK_EXACT && kind <= TALC_CHECK_INFINITY;
}

bool talc_check_nothing_expected(const check_direction *direction, const check_problem *problem)
{
    check_operand operands[CHECK_OPERANDS];
    talc_check_operands(direction, problem, operands);
    for (int i = 0; i < CHECK_OPERANDS; i++)
        if (talc_check_is_output(&operands[i]) && operands[i].count == 0)
            return true;
    return false;
}

bool talc_check_is_empty(const check_direction *direction, const check_problem *problem)
{
    return talc_check_nothing_expected(direction, problem) ||
           (direction->is_empty != NULL && direction->is_empty(problem));
}

// ---- Rows ---------------------------------------------------------------------------------------

const talc_algorithm *talc_check_algorithm_at(const check_direction *direction,
                                              const talc_device *device, int index)
{
    const talc_algorithm *algorithm = device->backend->algorithms[direction->list];
    while (algorithm != NULL && algorithm->name != NULL && index > 0) {
        algorithm++;
        index--;
    }
    return algorithm == NULL || algorithm->name == NULL ? NULL : algorithm;
}

const char *talc_check_plan(const check_direction *direction, const talc_algorithm *algorithm,
                            const talc_device *device, const check_problem *problem, size_t limit,
                            talc_plan *plan)
{
    *plan = (talc_plan){ .workspace = 0 };
    if (talc_check_is_empty(direction, problem))
        return "there is nothing to compute";
    check_problem first;
    const char *refusal = NULL;
    if (direction->first != NULL && direction->first(problem, &first, NULL)) {
        talc_plan of_first = { .workspace = 0 };
        refusal = talc_algorithm_refuses(algorithm, device, &first, limit, &of_first);
    }
    return refusal != NULL ? refusal
                           : talc_algorithm_refuses(algorithm, device, problem, limit, plan);
}
