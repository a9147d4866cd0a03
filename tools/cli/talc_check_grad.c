/// talc check grad: the gradients of ops and models against central differences in float64.
#include "tools/cli/gradient_cases.h"
#include "tools/cli/tool.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NAMES = 64, NAMES_TEXT = 1024 };

typedef struct arguments {
    tool_options tool;
    int count;
    const char *names[MAX_NAMES]; ///< none: all
    int64_t seed;
} arguments;

static const tool_option options[] = {
    { "seed", 's', "S", "seed of inputs, weights and directions (default 1)", 1,
      TOOL_NUMBER_AT(arguments, seed, 0) },
    { .name = NULL },
};

static void add_name(arguments *self, struct argp_state *state, const char *name)
{
    char names[NAMES_TEXT];
    if (!gradient_case_known(name))
        tool_usage(state, "there is no op or model '%s'; there are %s", TALC_SHOWN(name),
                   gradient_case_names(names, sizeof names));
    if (self->count == MAX_NAMES)
        tool_usage(state, "more than %d ops and models", MAX_NAMES);
    self->names[self->count++] = name;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    add_name(state->input, state, argument);
    return 0;
}

static bool is_wanted(const arguments *self, const gradient_case *c)
{
    for (int i = 0; i < self->count; i++)
        if (strcmp(self->names[i], c->name) == 0)
            return true;
    return self->count == 0;
}

// ---- Results ------------------------------------------------------------------------------------

static void print_case(const gradient_case *c, const talc_gradient_report *report, bool passed)
{
    char text[TALC_GRADIENT_TEXT];
    talc_print_wrapped(stdout, 8, "%-6s  %-19s  %3d slopes, worst %7.2g%s%s",
                       passed ? "passed" : "FAILED", c->name, report->count, report->worst,
                       c->what[0] == '\0' ? "" : "  ", c->what);
    if (talc_gradient_report_text(report, text)[0] != '\0')
        talc_print_wrapped(stdout, 10, "        %s", text);
    fflush(stdout);
}

static json_t *case_json(const gradient_case *c, const talc_gradient_report *report, bool passed)
{
    return json_pack("{s:s, s:s, s:b, s:i, s:o, s:i, s:s, s:o, s:o, s:o, s:b, s:o}", "name",
                     c->name, "what", c->what, "passed", passed, "slopes", report->count, "worst",
                     tool_real(report->worst), "input", report->input, "of", report->name,
                     "expected", tool_real(report->expected), "got", tool_real(report->got),
                     "tolerance", tool_real(report->tolerance), "kink", report->kink, "step",
                     tool_real(report->step));
}

/* The exit code; a case that could not be checked ends it all. */
static int check_all(const arguments *self, talc_device *device)
{
    json_t *cases = self->tool.json ? json_array() : NULL;
    int count = 0, failed = 0;
    const double start = tool_clock();
    for (const gradient_case *c = gradient_cases; c->name != NULL; c++) {
        if (!is_wanted(self, c))
            continue;
        talc_gradient_report report;
        const bool passed = gradient_case_check(c, device, (uint64_t)self->seed, &report);
        if (talc_failed()) {
            json_decref(cases);
            return tool_usage_talc();
        }
        count++;
        failed += !passed;
        if (self->tool.json)
            json_array_append_new(cases, case_json(c, &report, passed));
        else
            print_case(c, &report, passed);
    }
    char seconds[TOOL_TEXT];
    int code;
    if (self->tool.json) {
        code = tool_json_print(json_pack("{s:s, s:I, s:b, s:i, s:o, s:o}", "device",
                                         talc_device_name(device), "seed", (json_int_t)self->seed,
                                         "passed", failed == 0, "failed", failed, "cases", cases,
                                         "seconds", tool_real(tool_clock() - start)));
    } else {
        printf("\n%s%s: %s%s: cases: %d, failed: %d\n%s%s, seed %" PRId64 "%s\n", tool_bold(),
               talc_device_name(device), failed == 0 ? "passed" : "FAILED", tool_plain(), count,
               failed, tool_dim(), tool_seconds(tool_clock() - start, seconds), self->seed,
               tool_plain());
        code = tool_finish();
    }
    return failed > 0 ? TOOL_FAILED : code;
}

int command_check_grad(int argc, char **argv)
{
    static char name[] = "talc check grad", names[NAMES_TEXT], doc[2 * NAMES_TEXT];
    snprintf(doc, sizeof doc,
             "Checks the gradients of talc's own ops and of example models against central "
             "differences in float64: slopes along random directions, within 1e-6 of the "
             "gradient's norm. All of them, or those that are named.\v"
             "There are %s. Exit code 1: a gradient is wrong; 2: wrong usage, or a case could not "
             "be checked. One's own ops and modules: talc_check_gradient and "
             "talc_check_module_gradient in check/gradient.h.",
             gradient_case_names(names, sizeof names));
    const tool_syntax syntax = {
        .options = options, .parse = parse, .args_doc = "[NAME ...]", .doc = doc
    };
    arguments self = { .seed = 1 };
    tool_set_name(name);
    argv[0] = name;
    tool_parse(&syntax, argc, argv, &self);
    talc_device *device = tool_open(&self.tool);
    if (device == NULL)
        return tool_usage_talc();
    talc_no_grad_leave();
    const int code = check_all(&self, device);
    talc_no_grad_enter();
    return code;
}
