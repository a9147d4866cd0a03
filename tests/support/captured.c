#include "tests/support/captured.h"

#include <criterion/criterion.h>

talc_graph *captured(talc_module *module, const talc_tensor *example)
{
    talc_graph *graph = talc_capture(module, example);
    cr_assert(graph != NULL, "%s", talc_error_message());
    return graph;
}
