/// talc bench: verifies, then times every algorithm beside its peers.
#include "tools/bench.h"
#include "tools/problems.h"
#include "tools/tool.h"

#include <math.h>
#include <string.h>

enum { MAX_PROBLEMS = 64 };

typedef struct arguments {
    tool_options tool;
    bench_settings settings;
    bool list;
    int count;
    const char *problems[MAX_PROBLEMS]; ///< problem strings and names
} arguments;

enum { KEY_REPEAT = 'r', KEY_ALGORITHM = 'a', KEY_ALL = 4000, KEY_LIST, KEY_NO_PEERS };

static const struct argp_option options[] = {
    { "repeat", KEY_REPEAT, "N", 0, "rounds of timing (default 5)", 1 },
    { "algorithm", KEY_ALGORITHM, "NAME", 0, "this algorithm alone", 1 },
    { "all", KEY_ALL, NULL, 0, "time the reference algorithm on large problems as well", 1 },
    { "no-peers", KEY_NO_PEERS, NULL, 0, "talc's algorithms alone", 1 },
    { "list", KEY_LIST, NULL, 0, "show the named problems", 1 },
    { 0 },
};

static void add_problem(arguments *self, struct argp_state *state, const char *text)
{
    if (self->count == MAX_PROBLEMS)
        argp_error(state, "more than %d problems", MAX_PROBLEMS);
    self->problems[self->count++] = text;
}

/* A set's problems, or the one problem that the text is. */
static void add_argument(arguments *self, struct argp_state *state, const char *text)
{
    const int before = self->count;
    for (const named_problem *row = named_problems; row->name != NULL; row++)
        if (strcmp(row->set, text) == 0 || strcmp(row->name, text) == 0)
            add_problem(self, state, row->name);
    talc_conv2d_problem problem;
    if (self->count > before)
        return;
    if (!problem_read(text, &problem))
        argp_error(state, "%s", talc_error_message());
    add_problem(self, state, text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &self->tool;
        return 0;
    case KEY_REPEAT: {
        const int64_t repeats = tool_count(state, "--repeat", argument, 1);
        if (repeats > BENCH_REPEATS)
            argp_error(state, "--repeat: %s is more than %d", argument, BENCH_REPEATS);
        self->settings.repeats = (int)repeats;
        return 0;
    }
    case KEY_ALGORITHM:
        self->settings.algorithm = argument;
        return 0;
    case KEY_ALL:
        self->settings.all = true;
        return 0;
    case KEY_NO_PEERS:
        self->settings.peers = false;
        return 0;
    case KEY_LIST:
        self->list = true;
        return 0;
    case ARGP_KEY_ARG:
        add_argument(self, state, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        add_argument(self, state, "A1");
        add_argument(self, state, "B1");
        add_argument(self, state, "cpu");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &tool_argp, 0, NULL, 10 }, { 0 } };
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[PROBLEM...]",
    .doc = "Checks every algorithm at 4096 random outputs, then times them in turn, beside a bare "
           "matrix product "
           "(depthwise: a bare copy) and oneDNN.\v"
           "PROBLEM is a text such as n8c64h512w256o128k5x7s1x1p0x0d1x1g1, a name (A1, kb50, ...) "
           "or a set: seeds, "
           "cpu, gpu. Without one: A1, B1 and cpu. Fails when a result is outside its algorithm's "
           "error bound.",
    .children = children,
};

static bool right(const contender *c)
{
    return c->peer || c->reason[0] != '\0' || c->check.share <= 1;
}

// ---- Plain text ---------------------------------------------------------------------------------------------

static void print_contender(const contender *c)
{
    char least[TOOL_TEXT], median[TOOL_TEXT], workspace[TOOL_TEXT], peak[TOOL_TEXT],
        rate[TOOL_TEXT] = "";
    if (c->reason[0] != '\0') {
        printf("  %-16s %s%s%s\n", c->name, tool_dim(), c->reason, tool_plain());
        return;
    }
    if (c->flops > 0)
        snprintf(rate, sizeof rate, "%.1f", c->flops / contender_least(c) / 1e9);
    printf("  %-16s %-9s %10s %10s %9s", c->name, c->peer ? "" : talc_precision_name(c->precision),
           tool_seconds(contender_least(c), least), tool_seconds(contender_median(c), median),
           rate);
    if (c->peer)
        printf("\n");
    else
        printf(" %10s %10s %9.2g %6.1f %%%s\n", tool_bytes((double)c->workspace, workspace),
               tool_bytes((double)c->peak, peak), c->check.error, 100 * c->check.share,
               right(c) ? "" : "  WRONG");
}

/* The ratios that interest people: the reference algorithm is not meant to compete. */
static void print_ratios(const bench *self)
{
    for (int i = 0; i < self->count; i++) {
        const contender *c = &self->contenders[i];
        bool first = true;
        if (c->peer || strcmp(c->name, "reference") == 0)
            continue;
        for (int j = 0; j < self->count; j++) {
            const contender *peer = &self->contenders[j];
            const double ratio = bench_ratio(c, peer);
            if (!peer->peer || !isfinite(ratio))
                continue;
            printf("%s%s / %s %s%.2f%s", first ? "  " : ",  ", c->name, peer->name, tool_bold(),
                   ratio, tool_plain());
            first = false;
        }
        if (!first)
            printf("\n");
    }
}

static void print_bench(const bench *self, const char *name)
{
    const talc_conv2d_problem *p = &self->operands.problem;
    const named_problem *named = problem_named(name);
    char text[TALC_CONV2D_TEXT], resident[TOOL_TEXT];
    printf("%s%s%s%s%s  %.4g GFLOP%s%s\n", tool_bold(), named == NULL ? "" : name,
           named == NULL ? "" : "  ", talc_conv2d_problem_text(p, text), tool_plain(),
           talc_conv2d_flops(p) / 1e9, named == NULL ? "" : ", ", named == NULL ? "" : named->what);
    printf("%s  %-16s %-9s %10s %10s %9s %10s %10s %9s %8s%s\n", tool_dim(), "", "class", "least",
           "median", "GFLOP/s", "workspace", "peak", "error", "of bound", tool_plain());
    for (int i = 0; i < self->count; i++)
        print_contender(&self->contenders[i]);
    print_ratios(self);
    if (self->resident > 0)
        printf("  the process held at most %s while talc's algorithms ran\n",
               tool_bytes((double)self->resident, resident));
    printf("\n");
    fflush(stdout);
}

// ---- JSON ---------------------------------------------------------------------------------------------------

static json_t *contender_json(const contender *c)
{
    const bool is_timed = c->reason[0] == '\0';
    json_t *json = json_pack(
        "{s:s, s:b, s:b, s:s, s:o, s:o, s:o}", "name", c->name, "peer", c->peer, "timed", is_timed,
        "reason", c->reason, "seconds_least", tool_real(contender_least(c)), "seconds_median",
        tool_real(contender_median(c)), "gflops",
        tool_real(is_timed && c->flops > 0 ? c->flops / contender_least(c) / 1e9 : (double)NAN));
    if (!c->peer && is_timed)
        json_object_update_new(
            json, json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:b}", "class",
                            talc_precision_name(c->precision), "workspace",
                            (json_int_t)c->workspace, "peak", (json_int_t)c->peak, "checked",
                            (json_int_t)c->check.count, "error", tool_real(c->check.error),
                            "share_of_bound", tool_real(c->check.share), "right", right(c)));
    return json;
}

static json_t *bench_json(const bench *self, const char *name)
{
    json_t *contenders = json_array(), *ratios = json_array();
    for (int i = 0; i < self->count; i++) {
        const contender *c = &self->contenders[i];
        json_array_append_new(contenders, contender_json(c));
        for (int j = 0; j < self->count && !c->peer; j++)
            if (self->contenders[j].peer && isfinite(bench_ratio(c, &self->contenders[j])))
                json_array_append_new(ratios,
                                      json_pack("{s:s, s:s, s:o}", "algorithm", c->name, "peer",
                                                self->contenders[j].name, "ratio",
                                                tool_real(bench_ratio(c, &self->contenders[j]))));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:I}", "name", name, "problem",
                     tool_json_problem(&self->operands.problem), "contenders", contenders, "ratios",
                     ratios, "resident_peak", (json_int_t)self->resident);
}

// ---- Run ----------------------------------------------------------------------------------------------------

static int list_problems(bool json)
{
    json_t *array = json ? json_array() : NULL;
    for (const named_problem *row = named_problems; row->name != NULL; row++)
        if (json)
            json_array_append_new(array,
                                  json_pack("{s:s, s:s, s:s, s:s}", "set", row->set, "name",
                                            row->name, "problem", row->text, "what", row->what));
        else
            printf("%-6s %-13s %-34s %s\n", row->set, row->name, row->text, row->what);
    return json ? tool_json_print(array) : tool_finish();
}

/* One problem: measures and prints, or appends to `array`. Notes in `wrong` that a result is out of bounds. */
static bool bench_one(const arguments *self, const char *name, json_t *array, bool *wrong)
{
    static bench measured; /* large, and one at a time */
    talc_conv2d_problem problem;
    talc_scope *scope = talc_scope_enter();
    const bool done =
        problem_read(name, &problem) && bench_problem(&measured, &problem, &self->settings);
    for (int i = 0; done && i < measured.count; i++)
        *wrong |= !right(&measured.contenders[i]);
    if (done && array == NULL)
        print_bench(&measured, name);
    else if (done)
        json_array_append_new(array, bench_json(&measured, name));
    bench_free(&measured);
    talc_scope_leave(scope);
    talc_memory_trim(self->settings.device);
    return done;
}

int command_bench(int argc, char **argv)
{
    arguments self = { .settings = { .repeats = 5, .peers = true } };
    tool_parse(&argp, argc, argv, &self);
    if (self.list)
        return list_problems(self.tool.json);
    talc_device *device = self.settings.device = tool_open(&self.tool);
    if (device == NULL)
        return tool_fail_talc();

    json_t *array = self.tool.json ? json_array() : NULL;
    talc_device_properties properties;
    device->interface->properties(device, &properties);
    if (array == NULL)
        printf("%s: %s, %d threads; %d rounds, times and ratios are least over least\n\n",
               talc_device_name(device), properties.description, properties.units,
               self.settings.repeats);
    bool wrong = false;
    for (int i = 0; i < self.count; i++)
        if (!bench_one(&self, self.problems[i], array, &wrong)) {
            json_decref(array);
            return tool_fail_talc();
        }
    const int code = array == NULL
                         ? tool_finish()
                         : tool_json_print(json_pack(
                               "{s:s, s:s, s:i, s:i, s:o}", "device", talc_device_name(device),
                               "description", properties.description, "threads", talc_threads(),
                               "repeat", self.settings.repeats, "problems", array));
    return wrong ? tool_fail("a result is outside its algorithm's error bound") : code;
}
