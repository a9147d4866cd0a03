/// talc ops: the ops and their algorithms; in JSON all that a binding needs to know of the library.
#include "tools/cli/declarations.h"
#include "tools/cli/tool.h"

#include <string.h>

// ---- The ops ------------------------------------------------------------------------------------

enum { NAMES_OF_AN_OP = 9, OPERANDS_OF_AN_OP = 17 };

typedef struct op_operand {
    const char *name;
    bool read, written;
} op_operand;

typedef struct op_row {
    const char *name;
    const char *names[NAMES_OF_AN_OP];
    op_operand operands[OPERANDS_OF_AN_OP];
} op_row;

#define NAMES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define IN(field)                        { #field, true, false },
#define OUT(field)                       { #field, false, true },
#define IN_OUT(field)                    { #field, true, true },
#define TALC_OP(op, names, operands)     { #op, names, { operands{ .name = NULL } } },
// clang-format off
static const op_row ops[] = {
#include <talc/ops/ops.def>
};
// clang-format on

#define UNARY_NAME(constant, name, ...)  #name,
#define BINARY_NAME(constant, name, ...) #name,
static const char *const unary_names[] = { TALC_UNARY_TABLE(UNARY_NAME) NULL };
static const char *const binary_names[] = { TALC_BINARY_TABLE(BINARY_NAME) NULL };

/* The names of an op's calls, NULL behind the last. */
static const char *const *names_of(const op_row *op)
{
    return strcmp(op->name, "unary") == 0    ? unary_names
           : strcmp(op->name, "binary") == 0 ? binary_names
                                             : op->names;
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *ops_json(void)
{
    json_t *array = json_array();
    for (int op = 0; op < TALC_OP_COUNT; op++) {
        json_t *names = json_array(), *operands = json_array();
        for (const char *const *name = names_of(&ops[op]); *name != NULL; name++)
            json_array_append_new(names, json_string(*name));
        for (const op_operand *o = ops[op].operands; o->name != NULL; o++)
            json_array_append_new(operands, json_pack("{s:s, s:b, s:b}", "name", o->name, "read",
                                                      o->read, "written", o->written));
        json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "name", ops[op].name, "names",
                                               names, "operands", operands));
    }
    return array;
}

static json_t *enums_json(void)
{
    json_t *object = json_object();
    for (const declaration *d = declared_enums; d->name != NULL; d++) {
        json_t *values = json_object();
        for (const declared *m = d->members; m->name != NULL; m++)
            json_object_set_new(values, m->name, json_integer(m->value));
        json_object_set_new(object, d->name, values);
    }
    return object;
}

static json_t *structs_json(void)
{
    json_t *object = json_object();
    for (const declaration *d = declared_structs; d->name != NULL; d++) {
        json_t *fields = json_array();
        for (const declared *m = d->members; m->name != NULL; m++)
            json_array_append_new(fields, json_pack("{s:s, s:s, s:I, s:I}", "name", m->name, "type",
                                                    m->type, "offset", (json_int_t)m->offset,
                                                    "bytes", (json_int_t)m->size));
        json_object_set_new(
            object, d->name,
            json_pack("{s:I, s:o}", "bytes", (json_int_t)d->size, "fields", fields));
    }
    return object;
}

static json_t *functions_json(void)
{
    json_t *object = json_object();
    for (const declaration *d = declared_functions; d->name != NULL; d++) {
        json_t *parameters = json_array();
        for (const declared *m = d->members + 1; m->name != NULL; m++)
            json_array_append_new(parameters,
                                  json_pack("{s:s, s:s}", "name", m->name, "type", m->type));
        json_object_set_new(
            object, d->name,
            json_pack("{s:s, s:o}", "result", d->members->type, "parameters", parameters));
    }
    return object;
}

// ---- Text ---------------------------------------------------------------------------------------

/* "im2col, reference" of an op's list; forms of a name, which stand beside each other, once. */
static void algorithms_text(const talc_device *device, int op, char text[256])
{
    const talc_algorithm *list = talc_backend_algorithms(device->backend, (talc_op)op);
    const char *last = "";
    size_t used = 0;
    text[0] = '\0';
    for (; list != NULL && list->name != NULL && used < 256; last = list++->name)
        if (strcmp(list->name, last) != 0)
            used += (size_t)snprintf(text + used, 256 - used, "%s%s", used == 0 ? "" : ", ",
                                     list->name);
}

static void print_ops(const talc_device *device)
{
    for (int op = 0; op < TALC_OP_COUNT; op++) {
        char names[1024] = "", algorithms[256];
        size_t used = 0;
        for (const char *const *name = names_of(&ops[op]); *name != NULL; name++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used == 0 ? "" : ", ", *name);
        algorithms_text(device, op, algorithms);
        talc_print_wrapped(stdout, 4, "%s%s%s: %s", tool_bold(), ops[op].name, tool_plain(), names);
        talc_print_wrapped(stdout, 4, "  by %s", algorithms);
    }
}

// ---- The command --------------------------------------------------------------------------------

static const tool_syntax syntax = {
    .doc = "The ops that have algorithms, the names of their calls, and a device's algorithms of "
           "each.\vWith --json also the library's functions, structures with the offsets of their "
           "fields, and enums, from which another language calls it.",
};

int command_ops(int argc, char **argv)
{
    tool_options options = { .device = NULL };
    tool_parse(&syntax, argc, argv, &options);
    const talc_device *device = tool_open(&options);
    if (device == NULL)
        return tool_fail_talc();
    if (!options.json) {
        print_ops(device);
        return tool_finish();
    }
    return tool_json_print(json_pack(
        "{s:s, s:o, s:o, s:o, s:o}", "version", talc_build_info().version, "ops", ops_json(),
        "enums", enums_json(), "structs", structs_json(), "functions", functions_json()));
}
