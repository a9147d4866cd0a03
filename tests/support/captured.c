#include "tests/support/captured.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void assert_same(const char *what, const talc_tensor *a, const talc_tensor *b)
{
    cr_assert(a != NULL && b != NULL, "%s: %s", what, talc_error_message());
    cr_assert(talc_same_dims(a, b), "%s: shapes differ", what);
    const size_t bytes = talc_nbytes(a);
    char *left = malloc(bytes), *right = malloc(bytes);
    cr_assert(talc_to_host(a, left, bytes) && talc_to_host(b, right, bytes), "%s: %s", what,
              talc_error_message());
    cr_assert(memcmp(left, right, bytes) == 0, "%s: elements differ", what);
    free(left);
    free(right);
}

talc_graph *captured(talc_module *module, const talc_tensor *example)
{
    talc_graph *graph = talc_capture(module, example);
    cr_assert(graph != NULL, "%s", talc_error_message());
    return graph;
}
