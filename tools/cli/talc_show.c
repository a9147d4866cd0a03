/// talc show: a page for a browser that shows one convolution: point at an element, and all that
/// belongs to it lights up.
#include "tools/cli/problems.h"
#include "tools/show/show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 20000, FMAS = 65536, BYTES = 1 << 20, CONTROLS = 4, FIRST = 8 << 10 };

typedef struct arguments {
    tool_options tool;
    talc_trace_options planned;
    const char *text, *output;
} arguments;

static const tool_option options[] = {
    { "output", 'o', "PAGE.html", "the file to write", 1, TOOL_STRING_AT(arguments, output) },
    { "gpu", 0, "NAME", "h200, h100 or a100: what CUDA's algorithms are planned for", 2,
      TOOL_STRING_AT(arguments, planned.gpu) },
    { "cpu", 0, "NAME", "portable, avx2 or avx512: what the CPU's are (default: this one's)", 2,
      TOOL_STRING_AT(arguments, planned.cpu) },
    { .name = NULL },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    const arguments *self = state->input;
    (void)argument;
    if (key != ARGP_KEY_END)
        return ARGP_ERR_UNKNOWN;
    if (self->output == NULL)
        tool_usage(state, "which file? --output PAGE.html says it");
    return 0;
}

static const tool_syntax syntax = {
    .options = options,
    .text = offsetof(arguments, text),
    .texts = 1,
    .needed = 1,
    .missing = "which problem? n1c2h5w6o4k3p1 is one",
    .parse = parse,
    .args_doc = "PROBLEM",
    .doc = "Writes a page for a browser, one file that needs no network: the arrays of a small "
           "convolution with their numbers, the sum behind each element, the matrix product, who "
           "computes what in each algorithm, and sliders for stride, padding, dilation and groups. "
           "All that belongs to what one points at lights up, for y, dx and dw.\v"
           "PROBLEM is a text as talc explain takes it, n1c2h5w6o4k3p1; one that ends in _dx or "
           "_dw opens with that gradient. At most 20,000 cells are drawn, of at most 65,536 FMAs, "
           "into a file of at most 1 MiB.",
};

static bool fits(const talc_conv2d_problem *p)
{
    return show_cells(p) <= CELLS && show_fmas(p) <= FMAS;
}

/* The problem with its largest extents halved until it fits; as it is where none helps. */
static talc_conv2d_problem smaller(talc_conv2d_problem p)
{
    for (;;) {
        talc_conv2d_problem best = p;
        int64_t *const extents[] = { &p.H, &p.W, &p.N, &p.OC, &p.C };
        for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
            const int64_t before = *extents[i];
            *extents[i] = (before + 1) / 2;
            if (before > 1 && talc_conv2d_problem_check(&p) && show_cells(&p) < show_cells(&best))
                best = p;
            talc_error_clear();
            *extents[i] = before;
            talc_conv2d_problem_check(&p);
        }
        if (fits(&best) || show_cells(&best) >= show_cells(&p))
            return best;
        p = best;
    }
}

/* The values that a slider offers: from low to high, and the problem's own. */
typedef struct control {
    const char *key, *name;
    int64_t low, high;
    int64_t *fields[4];  ///< of the problem
    int count;           ///< of fields
    char own[TOOL_TEXT]; ///< of fields that differ, which stay as they are
} control;

enum { STEPS = 4 }; /* how many values: fewer until the file is small enough */

static void controls_of(talc_conv2d_problem *p, int step, control controls[CONTROLS])
{
    static const int64_t high[STEPS][CONTROLS] = {
        { 3, 2, 2, 2 }, { 2, 1, 2, 2 }, { 2, 1, 0, 0 }, { 0, -1, 0, 0 }
    };
    const control all[CONTROLS] = {
        { "s", "stride", 1, 0, { &p->stride_h, &p->stride_w }, 2, "" },
        { "p",
          "padding",
          0,
          0,
          { &p->pad_top, &p->pad_left, &p->pad_bottom, &p->pad_right },
          4,
          "" },
        { "l", "dilation", 1, 0, { &p->dilation_h, &p->dilation_w }, 2, "" },
        { "g", "groups", 1, 0, { &p->groups }, 1, "" },
    };
    for (int c = 0; c < CONTROLS; c++) {
        controls[c] = all[c];
        controls[c].high = high[step][c];
        for (int i = 1; i < all[c].count; i++)
            if (*all[c].fields[i] != *all[c].fields[0])
                snprintf(controls[c].own, TOOL_TEXT, "%lldx%lld", (long long)*all[c].fields[0],
                         (long long)*all[c].fields[1]);
    }
}

/* The next value of a control after `value`; -1 behind the last. `own` is the problem's. */
static int64_t next_of(const control *self, int64_t value, int64_t own)
{
    if (self->own[0] != '\0')
        return -1;
    const int64_t next = value < self->low ? self->low : value + 1;
    return next <= self->high ? next : own > self->high && own > value ? own : -1;
}

static void set(const control *self, int64_t value)
{
    for (int i = 0; i < self->count; i++)
        *self->fields[i] = value;
}

/* A variant, or why there is none. */
static json_t *variant_of(talc_conv2d_problem p, const arguments *self, json_t *tables)
{
    if (talc_conv2d_problem_check(&p) && fits(&p))
        return show_variant(&p, &self->planned, tables);
    json_t *absent =
        json_pack("{s:s}", "absent", talc_failed() ? talc_error_message() : "too large for a page");
    talc_error_clear();
    return absent;
}

static json_t *value_text(const control *self, int64_t value)
{
    return self->own[0] != '\0' ? json_string(self->own) : json_sprintf("%lld", (long long)value);
}

/* All variants of controls[at] and those behind it, of `p` with the values that are set. */
static bool add_variants(const arguments *self, const talc_conv2d_problem *own,
                         talc_conv2d_problem *p, control controls[CONTROLS], int at, json_t *choice,
                         json_t *data)
{
    json_t *variants = json_object_get(data, "variants");
    if (at == CONTROLS) {
        if (memcmp(own, p, sizeof *own) == 0)
            json_object_set_new(data, "start", json_integer((json_int_t)json_array_size(variants)));
        json_t *variant = variant_of(*p, self, json_object_get(data, "tables"));
        json_object_set_new(variant, "choice", json_copy(choice));
        return variant != NULL && json_array_append_new(variants, variant) == 0;
    }
    const control *c = &controls[at];
    const talc_conv2d_problem before = *p;
    const int64_t mine = *c->fields[0];
    bool done = true, first = true;
    for (int64_t v = next_of(c, -1, mine); done && (first || v >= 0); v = next_of(c, v, mine)) {
        if (v >= 0)
            set(c, v);
        first = false;
        json_array_append_new(choice, value_text(c, v));
        done = add_variants(self, own, p, controls, at + 1, choice, data);
        json_array_remove(choice, json_array_size(choice) - 1);
    }
    *p = before;
    return done;
}

static json_t *controls_json(talc_conv2d_problem *p, control controls[CONTROLS])
{
    json_t *all = json_array();
    for (int i = 0; i < CONTROLS; i++) {
        const control *c = &controls[i];
        json_t *values = json_array();
        const int64_t own = *c->fields[0];
        for (int64_t v = next_of(c, -1, own); v >= 0; v = next_of(c, v, own))
            json_array_append_new(values, value_text(c, v));
        if (json_array_size(values) == 0)
            json_array_append_new(values, value_text(c, own));
        char text[TALC_CONV2D_TEXT];
        const talc_conv2d_problem before = *p;
        set(c, own + 1);
        talc_conv2d_problem_text(p, text);
        *p = before;
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:o, s:o}", "key", c->key, "name", c->name, "values", values,
                           "missing",
                           json_sprintf("not in this page: talc show %s -o page.html", text)));
    }
    return all;
}

/* The data of the page, with as many variants as `step` says; NULL with a failure. */
static json_t *data_of(const arguments *self, const talc_conv2d_problem *own, int step)
{
    static const char *const directions[] = { "forward", "dx", "dw" };
    talc_conv2d_problem p = *own;
    p.direction = TALC_FORWARD;
    const talc_conv2d_problem forward = p;
    control controls[CONTROLS];
    controls_of(&p, step, controls);
    json_t *choice = json_array();
    json_t *data =
        json_pack("{s:s, s:[], s:[], s:s, s:o, s:[[s,s],[s,s],[s,s],[s,s]]}", "schema",
                  "talc.show/1", "tables", "variants", "direction", directions[own->direction],
                  "controls", controls_json(&p, controls), "tour", "a corner", "#o=0,0,0,0&pin",
                  "step by step", "#o=0,0,0,0&t=1&pin", "who reads this pixel",
                  "#x=0,0,0,0&d=dx&pin", "one weight's gradient", "#w=0,0,0,0&d=dw&pin");
    if (!add_variants(self, &forward, &p, controls, 0, choice, data)) {
        json_decref(data);
        data = NULL;
    }
    json_decref(choice);
    return data;
}

/* The sum of the first output as a table, for browsers without JavaScript. */
static void write_first(FILE *file, const talc_trace *trace)
{
    enum { ROWS = 100 };
    static talc_trace_term terms[ROWS];
    const int64_t count = talc_trace_terms(trace, 0, terms, ROWS);
    fprintf(file, "<table><tr><th>k</th><th>%s</th><th>%s</th></tr>\n", trace->first.name,
            trace->second.name);
    for (int64_t i = 0; i < count && i < ROWS; i++)
        fprintf(file, "<tr><td>%lld</td><td>%g</td><td>%s%g</td></tr>\n", (long long)terms[i].k,
                terms[i].first_value, terms[i].second_element < 0 ? "padding " : "",
                terms[i].second_value);
    fprintf(file, "</table><p>Their products add up to %g.</p>\n", trace->result.values[0]);
}

static bool write_page(const char *path, const talc_trace *trace, const char *data, long *bytes)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    fputs((const char *)show_page[0], file);
    write_first(file, trace);
    fputs((const char *)show_page[1], file);
    /* "<" could end the element that the data is in. */
    for (const char *at = data; *at != '\0'; at++)
        if (*at == '<')
            fputs("\\u003c", file);
        else
            fputc(*at, file);
    fputs((const char *)show_page[2], file);
    *bytes = ftell(file);
    const bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

static int refuse(const talc_conv2d_problem *p, double bytes)
{
    char text[TALC_CONV2D_TEXT], less[TALC_CONV2D_TEXT], file[TALC_SHOWN_TEXT] = "";
    const talc_conv2d_problem small = smaller(*p);
    const char *example = "n1c2h5w6o4k3p1";
    if (bytes > BYTES)
        snprintf(file, sizeof file, ", and a file of %.0f bytes, of at most %d", bytes, BYTES);
    return tool_fail("%s draws %.0f cells, of at most %d, with %.0f FMAs, of at most %d%s; "
                     "smaller: talc show %s",
                     talc_conv2d_problem_text(p, text), show_cells(p), CELLS, show_fmas(p), FMAS,
                     file, fits(&small) ? talc_conv2d_problem_text(&small, less) : example);
}

int command_show(int argc, char **argv)
{
    arguments self = { .text = NULL };
    talc_conv2d_problem problem;
    tool_parse(&syntax, argc, argv, &self);
    if (!problem_read(self.text, &problem))
        return tool_usage_talc();
    if (problem.padding_mode != TALC_PADDING_ZEROS || problem.bias || problem.residual ||
        problem.activation != TALC_ACTIVATION_NONE)
        return tool_fail("%s: the page draws sums of products with padding of zeros alone",
                         TALC_SHOWN(self.text));
    if (!fits(&problem))
        return refuse(&problem, 0);
    long written = 0;
    size_t bytes = BYTES + 1, parts = FIRST;
    for (int i = 0; i < 3; i++)
        parts += strlen((const char *)show_page[i]);
    char *data = NULL;
    for (int step = 0; step < STEPS && bytes > BYTES; step++) {
        tool_json_free(data);
        json_t *json = data_of(&self, &problem, step);
        if (json == NULL && !talc_failed())
            return tool_fail("out of memory for JSON");
        if (json == NULL)
            return talc_error_status() == TALC_BAD_ARGUMENT ? tool_usage_talc() : tool_fail_talc();
        data = tool_json_dump(json, JSON_COMPACT);
        if (data == NULL)
            return tool_fail("out of memory for JSON");
        bytes = parts + strlen(data);
    }
    int code = bytes > BYTES ? refuse(&problem, (double)bytes) : TOOL_OK;
    char text[TALC_CONV2D_TEXT];
    talc_trace *trace =
        code != TOOL_OK ? NULL
                        : talc_trace_new(talc_conv2d_problem_text(&problem, text), &self.planned);
    if (code == TOOL_OK && trace == NULL)
        code = tool_fail_talc();
    else if (code == TOOL_OK && !write_page(self.output, trace, data, &written))
        code = tool_fail("%s: %s", TALC_SHOWN(self.output), strerror(errno));
    talc_trace_free(trace);
    tool_json_free(data);
    if (code != TOOL_OK)
        return code;
    if (self.tool.json)
        return tool_json_print(json_pack("{s:s, s:s, s:I}", "problem", text, "output", self.output,
                                         "bytes", (json_int_t)written));
    printf("%s, in %s: %ld bytes, to be opened in a browser\n", text, TALC_SHOWN(self.output),
           written);
    return tool_finish();
}
