/// talc bench: verifies, then times every algorithm beside its peers.
#include "tools/bench_ops.h"
#include "tools/models.h"
#include "tools/problems.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_PROBLEMS = 256 };

typedef struct arguments {
    tool_options tool;
    bench_settings settings;
    bool list;
    int64_t megabytes; ///< of an op's operand
    int count;
    const char *problems[MAX_PROBLEMS]; ///< problem strings, names of problems and ops
} arguments;

enum { KEY_REPEAT = 'r', KEY_ALGORITHM = 'a', KEY_ALL = 4000, KEY_LIST, KEY_NO_PEERS, KEY_MB };

static const struct argp_option options[] = {
    { "repeat", KEY_REPEAT, "N", 0, "rounds of timing (default 5)", 1 },
    { "algorithm", KEY_ALGORITHM, "NAME", 0,
      "only this algorithm; of ops, separable_conv2d's heeds it", 1 },
    { "all", KEY_ALL, NULL, 0, "time the reference algorithm on large problems as well", 1 },
    { "no-peers", KEY_NO_PEERS, NULL, 0, "only talc's algorithms", 1 },
    { "mb", KEY_MB, "N", 0, "size of an op's operand in MiB (default 1024)", 1 },
    { "list", KEY_LIST, NULL, 0, "show the named problems and ops", 1 },
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
    const bench_op *op;
    for (int i = 0; (op = bench_op_at(i)) != NULL; i++)
        if (strcmp(op->set, text) == 0 || strcmp(op->name, text) == 0)
            add_problem(self, state, op->name);
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
            argp_error(state, "--repeat: %s is more than %d", TALC_SHOWN(argument), BENCH_REPEATS);
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
    case KEY_MB:
        self->megabytes = tool_count(state, "--mb", argument, 1);
        if (self->megabytes > 1 << 20)
            argp_error(state, "--mb: %s is more than %d", TALC_SHOWN(argument), 1 << 20);
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

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[PROBLEM|OP...]",
    .doc =
        "Checks every algorithm at 4096 random outputs, then times them in turn, beside a bare "
        "matrix product (depthwise: a bare copy) and, on the CPU, oneDNN. Shares are of the "
        "rates of a large matrix product and a large copy, measured in the same run.\v"
        "PROBLEM is a text such as n8c64h512w256o128k5x7s1x1p0x0d1x1g1, a name (A1, kb50, ...) "
        "or a set: seeds, cpu, resnet18-convs, gpu, dw. A text or a name that ends in _dx or _dw "
        "is the "
        "gradient "
        "by the input or the weights, checked at up to 512 elements. OP is the name of another "
        "op (relu, sum_rows, ...) or a set: ops, windows for pooling, separable for kb86 and its "
        "like as one op and as two, or host for what a call "
        "costs. Without any: A1, B1 and cpu. The library chooses the "
        "algorithm with the least estimate. Fails when a result is outside its algorithm's error "
        "bound. `talc bench NETWORK` times a whole network (`talc bench NETWORK --help`).",
    .children = tool_children,
};

static bool right(const contender *c)
{
    return c->peer || c->reason[0] != '\0' || c->check.share <= 1;
}

// ---- Plain text ---------------------------------------------------------------------------------------------

/* "12.3 ms", or nothing. */
static const char *seconds_or_nothing(double seconds, char text[TOOL_TEXT])
{
    text[0] = '\0';
    return seconds > 0 ? tool_seconds(seconds, text) : text;
}

/* "12.3 %", or nothing. */
static const char *percent(double part, double whole, char text[TOOL_TEXT])
{
    text[0] = '\0';
    if (part > 0 && whole > 0)
        snprintf(text, TOOL_TEXT, "%.1f %%", 100 * part / whole);
    return text;
}

static const char *billions(double amount, char text[TOOL_TEXT])
{
    text[0] = '\0';
    if (amount > 0)
        snprintf(text, TOOL_TEXT, "%.1f", amount / 1e9);
    return text;
}

static void print_contender(const contender *c, const bench_rates *rates)
{
    char least[TOOL_TEXT], median[TOOL_TEXT], estimate[TOOL_TEXT], workspace[TOOL_TEXT],
        peak[TOOL_TEXT], rate[TOOL_TEXT], of_product[TOOL_TEXT], speed[TOOL_TEXT],
        of_copy[TOOL_TEXT];
    if (c->reason[0] != '\0') {
        printf("  %-20s %s%s%s\n", c->name, tool_dim(), c->reason, tool_plain());
        return;
    }
    const double seconds = contender_least(c);
    printf("  %-20s %-9s %10s %10s %10s %9s %8s %9s %8s", c->name,
           c->peer ? "" : talc_precision_name(c->precision), tool_seconds(seconds, least),
           tool_seconds(contender_median(c), median), seconds_or_nothing(c->estimate, estimate),
           billions(c->flops / seconds, rate),
           percent(c->flops / seconds, rates->flops, of_product),
           billions(c->bytes / seconds, speed), percent(c->bytes / seconds, rates->bytes, of_copy));
    if (!c->peer && c->check.count > 0)
        printf(" %10s %10s %9.2g %6.1f %%%s", tool_bytes((double)c->workspace, workspace),
               tool_bytes((double)c->peak, peak), c->check.error, 100 * c->check.share,
               right(c) ? "" : "  WRONG");
    if (c->recomputed > 0)
        printf("  %s%" PRIu64 " results again by FFMA%s", tool_dim(), c->recomputed, tool_plain());
    printf("\n");
}

static void print_columns(void)
{
    printf("%s  %-20s %-9s %10s %10s %10s %9s %8s %9s %8s %10s %10s %9s %8s%s\n", tool_dim(), "",
           "class", "least", "median", "estimate", "GFLOP/s", "product", "GB/s", "copy",
           "workspace", "peak", "error", "of bound", tool_plain());
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

static void print_choice(const bench *self)
{
    const bench_choice choice = bench_choice_of(self);
    if (choice.chosen == NULL)
        return;
    printf("  %s is chosen", choice.chosen->name);
    if (choice.chosen == choice.fastest)
        printf(": the fastest of its class that was timed\n");
    else
        printf(": %s%.2f%s times the time of %s\n", tool_bold(),
               bench_ratio(choice.chosen, choice.fastest), tool_plain(), choice.fastest->name);
}

static void print_bench(const bench *self, const char *name, const bench_rates *rates)
{
    const talc_conv2d_problem *p = &self->operands.problem;
    const named_problem *named = problem_named(name);
    char text[TALC_CONV2D_TEXT], resident[TOOL_TEXT];
    printf("%s%s%s%s%s  %.4g GFLOP%s%s\n", tool_bold(), named == NULL ? "" : name,
           named == NULL ? "" : "  ", talc_conv2d_problem_text(p, text), tool_plain(),
           talc_conv2d_flops(p) / 1e9, named == NULL ? "" : ", ", named == NULL ? "" : named->what);
    print_columns();
    for (int i = 0; i < self->count; i++)
        print_contender(&self->contenders[i], rates);
    print_choice(self);
    print_ratios(self);
    if (self->resident > 0)
        printf("  the process held at most %s while talc's algorithms ran\n",
               tool_bytes((double)self->resident, resident));
    if (self->operands.sets > 1)
        printf("  runs go through %d sets of operands and results\n", self->operands.sets);
    printf("\n");
    fflush(stdout);
}

// ---- JSON ---------------------------------------------------------------------------------------------------

static json_t *contender_json(const contender *c, const bench_rates *rates)
{
    const bool is_timed = c->reason[0] == '\0';
    const double flops = c->flops / contender_least(c), bytes = c->bytes / contender_least(c);
    json_t *json =
        json_pack("{s:s, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", c->name,
                  "peer", c->peer, "timed", is_timed, "reason", c->reason, "seconds_least",
                  tool_real(contender_least(c)), "seconds_median", tool_real(contender_median(c)),
                  "seconds_estimated", tool_real(c->estimate > 0 ? c->estimate : (double)NAN),
                  "gflops", tool_real(c->flops > 0 ? flops / 1e9 : (double)NAN), "share_of_product",
                  tool_real(c->flops > 0 ? flops / rates->flops : (double)NAN),
                  "gigabytes_per_second", tool_real(c->bytes > 0 ? bytes / 1e9 : (double)NAN),
                  "share_of_copy", tool_real(c->bytes > 0 ? bytes / rates->bytes : (double)NAN));
    if (!c->peer && is_timed)
        json_object_update_new(
            json,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:b}", "class",
                      talc_precision_name(c->precision), "workspace", (json_int_t)c->workspace,
                      "peak", (json_int_t)c->peak, "recomputed", (json_int_t)c->recomputed,
                      "checked", (json_int_t)c->check.count, "error", tool_real(c->check.error),
                      "share_of_bound", tool_real(c->check.share), "right", right(c)));
    return json;
}

static json_t *bench_json(const bench *self, const char *name, const bench_rates *rates)
{
    json_t *contenders = json_array(), *ratios = json_array();
    for (int i = 0; i < self->count; i++) {
        const contender *c = &self->contenders[i];
        json_array_append_new(contenders, contender_json(c, rates));
        for (int j = 0; j < self->count && !c->peer; j++)
            if (self->contenders[j].peer && isfinite(bench_ratio(c, &self->contenders[j])))
                json_array_append_new(ratios,
                                      json_pack("{s:s, s:s, s:o}", "algorithm", c->name, "peer",
                                                self->contenders[j].name, "ratio",
                                                tool_real(bench_ratio(c, &self->contenders[j]))));
    }
    const bench_choice choice = bench_choice_of(self);
    const bool compared = choice.chosen != NULL;
    return json_pack("{s:s, s:o, s:o, s:o, s:s?, s:s?, s:o, s:I, s:i}", "name", name, "problem",
                     tool_json_problem(&self->operands.problem), "contenders", contenders, "ratios",
                     ratios, "chosen", self->chosen, "fastest",
                     compared ? choice.fastest->name : NULL, "chosen_to_fastest",
                     tool_real(compared ? bench_ratio(choice.chosen, choice.fastest) : (double)NAN),
                     "resident_peak", (json_int_t)self->resident, "sets", self->operands.sets);
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
            printf("%-6s %-16s %-34s %s\n", row->set, row->name, row->text, row->what);
    const bench_op *op;
    for (int i = 0; (op = bench_op_at(i)) != NULL; i++)
        if (json)
            json_array_append_new(array, json_pack("{s:s, s:s, s:s}", "set", op->set, "name",
                                                   op->name, "what", op->what));
        else
            printf("%-6s %-16s %s\n", op->set, op->name, op->what);
    return json ? tool_json_print(array) : tool_finish();
}

/* What is measured once, and what is found on the way. */
typedef struct measuring {
    const arguments *arguments;
    bench_rates rates;
    json_t *problems, *ops; ///< NULL: plain text
    bool wrong;             ///< a result was out of bounds
    int choices, good; ///< problems whose chosen algorithm was timed, and was among the fastest
} measuring;

static void count_choice(measuring *self, const bench *measured)
{
    const bench_choice choice = bench_choice_of(measured);
    if (choice.chosen == NULL)
        return;
    self->choices++;
    self->good += bench_ratio(choice.chosen, choice.fastest) <= BENCH_GOOD_CHOICE;
}

/* One problem: measures and prints, or appends to the array. */
static bool bench_one(measuring *self, const char *name)
{
    static bench measured; /* large, and one at a time */
    const bench_settings *settings = &self->arguments->settings;
    talc_conv2d_problem problem;
    talc_scope *scope = talc_scope_enter();
    const bool done = problem_read(name, &problem) && bench_problem(&measured, &problem, settings);
    for (int i = 0; done && i < measured.count; i++)
        self->wrong |= !right(&measured.contenders[i]);
    if (done)
        count_choice(self, &measured);
    if (done && self->problems == NULL)
        print_bench(&measured, name, &self->rates);
    else if (done)
        json_array_append_new(self->problems, bench_json(&measured, name, &self->rates));
    bench_free(&measured);
    talc_scope_leave(scope);
    talc_memory_trim(settings->device);
    return done;
}

static bool bench_an_op(measuring *self, const bench_op *op, const bench_data *data)
{
    static contender measured;
    if (!bench_op_run(&measured, op, data, &self->arguments->settings))
        return false;
    self->wrong |= !right(&measured);
    if (self->ops == NULL)
        print_contender(&measured, &self->rates);
    else
        json_array_append_new(self->ops, contender_json(&measured, &self->rates));
    fflush(stdout);
    return true;
}

static bool bench_the_ops(measuring *self)
{
    const arguments *a = self->arguments;
    bench_data data;
    bool large = false;
    for (int i = 0; i < a->count; i++) {
        const bench_op *op = bench_op_named(a->problems[i]);
        large = large || (op != NULL && op->place != NULL);
    }
    talc_scope *scope = talc_scope_enter();
    bool done = bench_data_make(&data, a->settings.device, large ? a->megabytes : 0);
    if (done && self->ops == NULL) {
        printf("%s", tool_bold());
        if (large)
            printf("ops on %" PRId64 " MiB", a->megabytes);
        else
            printf("calls, the host's time");
        printf("%s\n", tool_plain());
        print_columns();
    }
    for (int i = 0; i < a->count && done; i++) {
        const bench_op *op = bench_op_named(a->problems[i]);
        done = op == NULL || bench_an_op(self, op, &data);
    }
    bench_data_free(&data);
    talc_scope_leave(scope);
    return done;
}

static void print_choices(const measuring *self)
{
    printf("the chosen algorithm takes at most %.0f %% longer than the fastest of its class on "
           "%s%d of "
           "%d%s "
           "problems\n\n",
           100 * (BENCH_GOOD_CHOICE - 1), tool_bold(), self->good, self->choices, tool_plain());
}

static bool bench_all(measuring *self)
{
    const arguments *a = self->arguments;
    bool ops = false;
    for (int i = 0; i < a->count; i++)
        if (bench_op_named(a->problems[i]) != NULL)
            ops = true;
        else if (!bench_one(self, a->problems[i]))
            return false;
    if (self->choices > 1 && self->problems == NULL)
        print_choices(self);
    return !ops || bench_the_ops(self);
}

static void print_device(const measuring *self, const talc_device_properties *properties)
{
    printf("%s: %s, %d %s; %d rounds, times and ratios are least over least\n"
           "in this run a large product makes %.1f GFLOP/s, a large copy moves %.1f GB/s\n\n",
           talc_device_name(self->arguments->settings.device), properties->description,
           properties->units,
           talc_device_is_host(self->arguments->settings.device) ? "threads" : "multiprocessors",
           self->arguments->settings.repeats, self->rates.flops / 1e9, self->rates.bytes / 1e9);
}

int command_bench(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (model_find(argv[i]) != NULL)
            return command_bench_model(argc, argv);
    arguments self = { .settings = { .repeats = 5, .peers = true }, .megabytes = 1024 };
    tool_parse(&argp, argc, argv, &self);
    if (self.list)
        return list_problems(self.tool.json);
    talc_device *device = self.settings.device = tool_open(&self.tool);
    measuring run = { .arguments = &self };
    if (device == NULL || !bench_rates_measure(device, &run.rates))
        return tool_fail_talc();
    if (self.tool.json) {
        run.problems = json_array();
        run.ops = json_array();
    }
    talc_device_properties properties;
    device->interface->properties(device, &properties);
    if (!self.tool.json)
        print_device(&run, &properties);
    if (!bench_all(&run)) {
        json_decref(run.problems);
        json_decref(run.ops);
        return tool_fail_talc();
    }
    const int code =
        !self.tool.json
            ? tool_finish()
            : tool_json_print(json_pack(
                  "{s:s, s:s, s:i, s:i, s:o, s:o, s:i, s:i, s:o, s:o}", "device",
                  talc_device_name(device), "description", properties.description, "threads",
                  talc_threads(), "repeat", self.settings.repeats, "product_flops_per_second",
                  tool_real(run.rates.flops), "copy_bytes_per_second", tool_real(run.rates.bytes),
                  "choices", run.choices, "good_choices", run.good, "problems", run.problems, "ops",
                  run.ops));
    return run.wrong ? tool_fail("a result is outside its algorithm's error bound") : code;
}
