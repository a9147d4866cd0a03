#include "check/engine/family.h"

#include "check/engine/data.h"
#include "ops/backend.h"
#include "tensor/error.h"
#include "tensor/shown.h"

#include <string.h>

static const check_direction *const forward[] = {
#define TALC_OP(name, names, operands) &talc_check_##name,
#include "ops/ops.def"
};

const check_direction *talc_check_direction_at(int index)
{
    if (index < TALC_OP_COUNT)
        return forward[index];
    for (int i = 0, gradient = TALC_OP_COUNT; i < TALC_OP_COUNT; i++)
        if (forward[i]->gradient != NULL && gradient++ == index)
            return forward[i]->gradient;
    return NULL;
}

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
    const check_direction *direction;
    for (int d = 0; (direction = talc_check_direction_at(d)) != NULL; d++)
        for (int i = 0; direction->ops[i] != NULL; i++)
            if (strlen(direction->ops[i]) == length &&
                memcmp(direction->ops[i], name, length) == 0) {
                *op = i;
                return direction;
            }
    return NULL;
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
    if (asks_for_gradient(text) && direction->gradient != NULL)
        direction = direction->gradient;
    return read_problem(direction->family, &reader, op, problem) ? direction : NULL;
}

/* Of each direction its own: the FNV-1a hash of its name. */
static uint64_t stream_of(const check_direction *direction)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *c = direction->ops[0]; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
    return hash;
}

void talc_check_random(const check_direction *direction, uint64_t seed, check_problem *problem)
{
    const check_family *family = direction->family;
    uint64_t state = talc_check_bits(seed, stream_of(direction));
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

// ---- The list of texts --------------------------------------------------------------------------

static const char all_texts[] =
    "A problem's text is an op and its problem. Below an example of each op stands what its\n"
    "keys mean, then the words that it takes, in any order. One number stands for both axes:\n"
    "k3s2p1d2 is k3x3s2x2p1x1d2x2, o5 is o5x5, of pad p1 is all sides of the last two\n"
    "dimensions. Elements are f32, or what a word says: _f64, _i64, _i32, _u8. _reversed: x, or\n"
    "of several operands the first, is stored with its dimensions reversed. plain: no weight and\n"
    "bias. eps0, momentum0, momentum1: these numbers. _dx: the input gradient, whose op is\n"
    "called max_pool2d.grad_input and so on.\n";

static void print_words(FILE *file, const check_family *family)
{
    enum { INDENT = 4, WIDTH = 90 };
    int column = 0;
    for (const check_key *key = family->keys; key != NULL && key->key != NULL; key++) {
        const int length = (int)strlen(key->key) + (key->kind == CHECK_COUNT);
        if (key->key[0] != '_')
            continue;
        if (column == 0 || column + 1 + length > WIDTH)
            column = fprintf(file, "%s%*s", column == 0 ? "" : "\n", INDENT - 1, "");
        column += fprintf(file, " %s%s", key->key, key->kind == CHECK_COUNT ? "N" : "");
    }
    if (column > 0)
        fputc('\n', file);
}

void talc_check_print_texts(FILE *file)
{
    fputs(all_texts, file);
    for (int i = 0; i < TALC_OP_COUNT; i++) {
        fprintf(file, "\n%s", forward[i]->family->texts);
        print_words(file, forward[i]->family);
    }
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

// ---- Algorithms ---------------------------------------------------------------------------------

const talc_algorithm *talc_check_algorithm_at(const check_direction *direction,
                                              const talc_device *device, int index)
{
    const talc_algorithm *algorithm = talc_backend_algorithms(device->backend, direction->list);
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
