#include "tests/support/captured.h"

#include <criterion/criterion.h>

static bool any_init(talc_module *module, const void *options)
{
    (void)module;
    (void)options;
    return true;
}

talc_module *module_of(talc_module_class *kind, forward_function *forward)
{
    *kind = (talc_module_class){
        .name = "Any", .size = sizeof(talc_module), .init = any_init, .forward = forward
    };
    talc_module *module = talc_module_new(kind, NULL);
    talc_module_eval(module);
    return module;
}

talc_graph *captured(talc_module *module, const talc_tensor *example)
{
    talc_graph *graph = talc_capture(module, example);
    cr_assert(graph != NULL, "%s", talc_error_message());
    return graph;
}
