/* JSON of the talc command when jansson runs out of memory, and of text that is no UTF-8. */
#include "tests/support/files.h"
#include "tests/support/hooks.h"

#include "tools/cli/tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int made, failing; /* the k-th allocation fails; 0: none */

static void *allocate(size_t bytes)
{
    return ++made == failing ? NULL : malloc(bytes);
}

/* What printing a problem of long names gives on stdout, to be freed; *code becomes the exit
 * code. */
static char *printed(int *code)
{
    const char *path = file_path("out.json");
    const int before = dup(STDOUT_FILENO);
    cr_assert(before >= 0 && freopen(path, "w", stdout) != NULL);
    const talc_conv2d_problem problem = { .dtype = TALC_F32, .N = 12345678901234567 };
    json_t *json = json_object();
    json_object_set_new(json, "a_path_longer_than_15", tool_json_text("x\xff\xc2\x9b/y"));
    json_object_set_new(json, "problem", tool_json_problem(&problem));
    *code = tool_json_print(json);
    fflush(stdout);
    cr_assert(dup2(before, STDOUT_FILENO) >= 0 && close(before) == 0);
    size_t bytes;
    return file_bytes(path, &bytes);
}

Test(tool_json, nothing_is_left_out_when_memory_is_short)
{
    json_set_alloc_funcs(allocate, free);
    tool_json_watch();
    int code;
    owned_char *expected = printed(&code);
    cr_assert(code == TOOL_OK && strstr(expected, "\"x\\\\xff\\\\u{9b}/y\"") != NULL, "%s",
              expected);
    const int all = made;
    cr_assert(all > 40, "%d allocations", all);
    failing = all / 2;
    made = 0;
    owned_char *got = printed(&code);
    cr_assert(code == TOOL_FAILED && *got == '\0', "%s", got);
}
