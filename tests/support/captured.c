#include "tests/support/captured.h"

#include <criterion/criterion.h>

typedef struct any {
    talc_module base;
    forward_function *forward;
} any;

static bool any_init(talc_module *module, const void *options)
{
    ((any *)module)->forward = *(forward_function *const *)options;
    return true;
}

static talc_tensor *any_forward(talc_module *module, talc_tensor *x)
{
    return ((any *)module)->forward(x);
}

talc_module *module_of(forward_function *forward)
{
    static const talc_module_class kind = {
        .name = "Any", .size = sizeof(any), .init = any_init, .forward = any_forward
    };
    talc_module *module = talc_module_new(&kind, &forward);
    talc_module_eval(module);
    return module;
}

talc_graph *captured(talc_module *module, const talc_tensor *example)
{
    talc_graph *graph = talc_capture(module, example);
    cr_assert(graph != NULL, "%s", talc_error_message());
    return graph;
}
