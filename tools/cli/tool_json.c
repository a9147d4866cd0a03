/// JSON that several subcommands print. Keys are stable: programs read them.
#include "tools/cli/tool.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static json_malloc_t allocate;
static atomic_bool out_of_memory;

static void *watched(size_t bytes)
{
    void *memory = allocate(bytes);
    if (memory == NULL)
        atomic_store(&out_of_memory, true);
    return memory;
}

void tool_json_watch(void)
{
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(watched, release);
}

json_t *tool_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *json = json_string(text);
    const size_t capacity = 4 * strlen(text) + 32; /* the most that showing makes of it */
    char *shown = json != NULL ? NULL : malloc(capacity);
    if (shown != NULL)
        json = json_string(talc_shown(text, SIZE_MAX, shown, capacity));
    free(shown);
    /* A value that is NULL is left out of the array that it was for. */
    if (json == NULL)
        atomic_store(&out_of_memory, true);
    return json;
}

json_t *tool_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *tool_json_dims(talc_dims dims)
{
    json_t *array = json_array();
    for (int i = 0; i < dims.rank; i++)
        json_array_append_new(array, json_integer(dims.dim[i]));
    return array;
}

json_t *tool_json_problem(const talc_conv2d_problem *p)
{
    char text[TALC_CONV2D_TEXT];
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        { "N", p->N },
        { "C", p->C },
        { "H", p->H },
        { "W", p->W },
        { "OC", p->OC },
        { "KH", p->KH },
        { "KW", p->KW },
        { "OH", p->OH },
        { "OW", p->OW },
        { "stride_h", p->stride_h },
        { "stride_w", p->stride_w },
        { "pad_top", p->pad_top },
        { "pad_left", p->pad_left },
        { "pad_bottom", p->pad_bottom },
        { "pad_right", p->pad_right },
        { "dilation_h", p->dilation_h },
        { "dilation_w", p->dilation_w },
        { "groups", p->groups },
    };
    json_t *json = json_object();
    json_object_set_new(json, "text", json_string(talc_conv2d_problem_text(p, text)));
    json_object_set_new(json, "dtype", json_string(talc_dtype_name(p->dtype)));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(json, numbers[i].key, json_integer(numbers[i].value));
    json_object_set_new(json, "padding_mode", json_string(talc_padding_mode_name(p->padding_mode)));
    json_object_set_new(json, "activation", json_string(talc_activation_name(p->activation)));
    json_object_set_new(json, "bias", json_boolean(p->bias));
    json_object_set_new(json, "residual", json_boolean(p->residual));
    json_object_set_new(json, "flops", tool_real(talc_conv2d_flops(p)));
    json_object_set_new(json, "bytes", tool_real(talc_conv2d_bytes(p)));
    return json;
}

json_t *tool_json_explanation(const talc_explanation *e, json_t *problem)
{
    json_t *candidates = json_array();
    for (int i = 0; i < e->count; i++) {
        const talc_candidate *c = &e->candidates[i];
        if (talc_candidate_is_passed_over(e, i))
            continue;
        json_array_append_new(candidates,
                              json_pack("{s:s, s:s?, s:s, s:s, s:b, s:I, s:f, s:b, s:s}", "name",
                                        c->name, "form", c->form, "arithmetic", c->arithmetic.text,
                                        "class", talc_precision_name(c->arithmetic.precision),
                                        "wide_accumulator", c->arithmetic.wide_accumulator,
                                        "workspace", (json_int_t)c->workspace, "seconds",
                                        c->seconds, "refused", c->refused, "reason", c->reason));
    }
    return json_pack("{s:s, s:s, s:o, s:I, s:o, s:s?}", "op", e->op, "device", e->device, "problem",
                     problem, "workspace_limit", (json_int_t)e->workspace_limit, "candidates",
                     candidates, "chosen", e->chosen < 0 ? NULL : e->candidates[e->chosen].title);
}

void tool_json_free(char *text)
{
    json_malloc_t ignored;
    json_free_t release;
    json_get_alloc_funcs(&ignored, &release);
    release(text);
}

char *tool_json_dump(json_t *json, size_t flags)
{
    char *text = json == NULL || atomic_load(&out_of_memory)
                     ? NULL
                     : json_dumps(json, flags | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
    json_decref(json);
    /* jansson goes on after a key that it had no memory for. */
    if (text != NULL && atomic_load(&out_of_memory)) {
        tool_json_free(text);
        text = NULL;
    }
    return text;
}

int tool_json_print(json_t *json)
{
    char *text = tool_json_dump(json, JSON_INDENT(2));
    const bool whole = text != NULL;
    if (whole)
        puts(text);
    tool_json_free(text);
    return whole ? tool_finish() : tool_fail("out of memory for JSON");
}
