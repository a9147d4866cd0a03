/// talc bench: verifies, then times every algorithm beside its peers.
#include "tools/bench/bench_ops.h"
#include "tools/cli/core_distance.h"
#include "tools/cli/models.h"
#include "tools/cli/problems.h"
#include "tools/cli/progress.h"
#include "tools/cli/tool.h"

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

enum { KEY_REPEAT = 'r', KEY_SIZE = 3000 };

static const tool_option options[] = {
    { "repeat", KEY_REPEAT, "N", "rounds of timing (default 5)", 1, TOOL_OWN, 0, 0 },
    { "algorithm", 'a', "NAME", "only this algorithm", 1,
      TOOL_STRING_AT(arguments, settings.algorithm) },
    { "all", 0, NULL, "time the reference algorithm on large problems as well", 1,
      TOOL_TRUE_AT(arguments, settings.all) },
    { "chosen", 0, NULL, "only the algorithm that a convolution runs by default", 1,
      TOOL_TRUE_AT(arguments, settings.chosen) },
    { "no-peers", 0, NULL, "only talc's algorithms", 1, TOOL_FALSE_AT(arguments, settings.peers) },
    { "size", KEY_SIZE, "SIZE", "of an op's operand: 64MiB, or bytes (default 1GiB)", 1, TOOL_OWN,
      0, 0 },
    { "unchecked", 0, NULL, "do not compare the results of convolutions", 1,
      TOOL_TRUE_AT(arguments, settings.unchecked) },
    { "list", 0, NULL, "show the named problems and ops", 1, TOOL_TRUE_AT(arguments, list) },
    { .name = NULL },
};

static void add_problem(arguments *self, struct argp_state *state, const char *text)
{
    if (self->count == MAX_PROBLEMS)
        tool_usage(state, "more than %d problems", MAX_PROBLEMS);
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
        tool_usage(state, "%s", talc_error_message());
    add_problem(self, state, text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case KEY_REPEAT:
        self->settings.repeats = (int)tool_count_to(state, "--repeat", argument, BENCH_REPEATS);
        return 0;
    case KEY_SIZE:
        self->megabytes = tool_size(state, "--size", argument, 1 << 20) >> 20;
        if (self->megabytes > 1 << 20)
            tool_usage(state, "--size: %s is more than 1TiB", TALC_SHOWN(argument));
        return 0;
    case ARGP_KEY_ARG:
        add_argument(self, state, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        add_argument(self, state, "A1");
        add_argument(self, state, "B1");
        add_argument(self, state, "cpu");
        return 0;
    case ARGP_KEY_END:
        if (self->settings.chosen && self->settings.algorithm != NULL)
            tool_usage(state, "--chosen and --algorithm=%s: one of the two",
                       TALC_SHOWN(self->settings.algorithm));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const tool_syntax syntax = {
    .options = options,
    .parse = parse,
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
        "op (relu, sum_rows, ...) or a set: ops, windows for pooling, or host for what a call "
        "costs. Without any: A1, B1 and cpu. The library chooses the "
        "algorithm with the least estimate. Fails when a result is outside its algorithm's error "
        "bound. `talc bench NETWORK` times a whole network (`talc bench NETWORK --help`), `talc "
        "bench growth` whether time grows as work does (`talc bench growth --help`).",
};

static bool right(const contender *c)
{
    return c->peer || c->reason[0] != '\0' || c->check.share <= 1;
}

// ---- Plain text ---------------------------------------------------------------------------------

/* "12.3 %", or nothing. */
static const char *percent(double part, double whole, char text[TALC_CELL_TEXT])
{
    if (part > 0 && whole > 0)
        snprintf(text, TALC_CELL_TEXT, "%.1f %%", 100 * part / whole);
    return text;
}

static const char *billions(double amount, char text[TALC_CELL_TEXT])
{
    if (amount > 0)
        snprintf(text, TALC_CELL_TEXT, amount < 100e9 ? "%.3g" : "%.0f", amount / 1e9);
    return text;
}

typedef enum measure {
    NAME,
    CLASS,
    LEAST,
    MEDIAN,
    ESTIMATE,
    FLOPS,
    OF_PRODUCT,
    SPEED,
    OF_COPY,
    WORKSPACE,
    PEAK,
    ERROR,
    OF_BOUND
} measure;

/* Contenders that were timed, and the columns that say something of them. */
typedef struct timed {
    const contender *const *list;
    const bench_rates *rates;
    const measure *measures;
} timed;

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const timed *self = context;
    const contender *c = self->list[row];
    const double seconds = contender_min(c);
    const bool checked = !c->peer && c->check.count > 0;
    text[0] = '\0';
    switch (self->measures[column]) {
    case NAME:
        return c->name;
    case CLASS:
        return c->peer ? "" : talc_precision_name(c->precision);
    case LEAST:
        return tool_seconds(seconds, text);
    case MEDIAN:
        return tool_seconds(contender_median(c), text);
    case ESTIMATE:
        return c->estimate > 0 ? tool_seconds(c->estimate, text) : "";
    case FLOPS:
        return billions(c->flops / seconds, text);
    case OF_PRODUCT:
        return percent(c->flops / seconds, self->rates->flops, text);
    case SPEED:
        return billions(c->bytes / seconds, text);
    case OF_COPY:
        return percent(c->bytes / seconds, self->rates->bytes, text);
    case WORKSPACE:
        return checked ? talc_bytes_text((double)c->workspace, text) : "";
    case PEAK:
        return checked ? talc_bytes_text((double)c->peak, text) : "";
    case ERROR:
        if (checked)
            snprintf(text, TALC_CELL_TEXT, "%.2g", c->check.error);
        return text;
    default:
        if (checked)
            snprintf(text, TALC_CELL_TEXT, "%.1f %%%s", 100 * c->check.share,
                     right(c) ? "" : " WRONG");
        return text;
    }
}

/* A table of those that were timed, then why the others were not. */
static void print_contenders(const contender *all, int count, const bench_rates *rates,
                             const measure *measures, int columns)
{
    static const talc_column known[] = {
        [NAME] = { "", TALC_COLUMN_NAME },
        [CLASS] = { "class", TALC_COLUMN_WHOLE },
        [LEAST] = { "least", TALC_COLUMN_NUMBER },
        [MEDIAN] = { "median", TALC_COLUMN_NUMBER },
        [ESTIMATE] = { "estimate", TALC_COLUMN_NUMBER },
        [FLOPS] = { "GFLOP/s", TALC_COLUMN_NUMBER },
        [OF_PRODUCT] = { "product", TALC_COLUMN_NUMBER },
        [SPEED] = { "GB/s", TALC_COLUMN_NUMBER },
        [OF_COPY] = { "copy", TALC_COLUMN_NUMBER },
        [WORKSPACE] = { "workspace", TALC_COLUMN_NUMBER },
        [PEAK] = { "peak", TALC_COLUMN_NUMBER },
        [ERROR] = { "error", TALC_COLUMN_NUMBER },
        [OF_BOUND] = { "of bound", TALC_COLUMN_NUMBER },
    };
    const contender *list[MAX_PROBLEMS];
    talc_column chosen[TALC_MAX_COLUMNS];
    int rows = 0;
    for (int i = 0; i < count && i < MAX_PROBLEMS; i++)
        if (all[i].reason[0] == '\0')
            list[rows++] = &all[i];
    for (int i = 0; i < columns; i++)
        chosen[i] = known[measures[i]];
    if (rows > 0)
        talc_table_print(stdout, &(talc_table){ .count = columns,
                                                .columns = chosen,
                                                .rows = rows,
                                                .indent = 2,
                                                .cell = cell,
                                                .context = &(timed){ list, rates, measures } });
    for (int i = 0; i < count; i++)
        if (all[i].reason[0] != '\0')
            talc_print_wrapped(stdout, 4, "  %s%s: %s%s", tool_dim(), all[i].name, all[i].reason,
                               tool_plain());
    for (int i = 0; i < rows; i++)
        if (list[i]->recomputed > 0)
            talc_print_wrapped(stdout, 4, "  %s%s: %" PRIu64 " results again by FFMA%s", tool_dim(),
                               list[i]->name, list[i]->recomputed, tool_plain());
}

static void print_algorithms(const bench *self, const bench_rates *rates)
{
    static const measure measures[] = { NAME,  CLASS,      LEAST,   MEDIAN,  ESTIMATE,
                                        FLOPS, OF_PRODUCT, SPEED,   OF_COPY, WORKSPACE,
                                        PEAK,  ERROR,      OF_BOUND };
    print_contenders(self->contenders, self->count, rates, measures,
                     sizeof measures / sizeof *measures);
}

/* Of calls the time alone is known. */
static void print_ops(const contender *all, int count, const bench_rates *rates, bool large)
{
    static const measure measures[] = { NAME, LEAST, MEDIAN, SPEED, OF_COPY, ERROR, OF_BOUND };
    print_contenders(all, count, rates, measures,
                     large ? (int)(sizeof measures / sizeof *measures) : 3);
}

/* The ratios that interest people: the reference algorithm is not meant to compete. */
static void print_ratios(const bench *self)
{
    for (int i = 0; i < self->count; i++) {
        const contender *c = &self->contenders[i];
        char text[1024];
        size_t used = 0;
        if (c->peer || strcmp(c->name, "reference") == 0)
            continue;
        for (int j = 0; j < self->count; j++) {
            const contender *peer = &self->contenders[j];
            const double ratio = bench_ratio(c, peer);
            if (!peer->peer || !isfinite(ratio))
                continue;
            if (used < sizeof text)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s / %s %s%.2f%s",
                                         used == 0 ? "  " : ",  ", c->name, peer->name, tool_bold(),
                                         ratio, tool_plain());
        }
        if (used > 0)
            talc_print_wrapped(stdout, 4, "%s", text);
    }
}

static void print_choice(const bench *self)
{
    const bench_choice choice = bench_choice_of(self);
    if (choice.chosen == NULL)
        return;
    if (choice.chosen == choice.fastest)
        talc_print_wrapped(stdout, 4, "  %s is chosen: the fastest of its class that was timed",
                           choice.chosen->name);
    else
        talc_print_wrapped(stdout, 4, "  %s is chosen: %s%.2f%s times the time of %s",
                           choice.chosen->name, tool_bold(),
                           bench_ratio(choice.chosen, choice.fastest), tool_plain(),
                           choice.fastest->name);
}

static void print_bench(const bench *self, const char *name, const bench_rates *rates)
{
    const talc_conv2d_problem *p = &self->operands.problem;
    const named_problem *named = problem_named(name);
    char text[TALC_CONV2D_TEXT], resident[TOOL_TEXT], flops[TALC_COUNT_TEXT];
    talc_print_wrapped(stdout, 4, "%s%s%s%s%s  %s%s%s", tool_bold(), named == NULL ? "" : name,
                       named == NULL ? "" : "  ", talc_conv2d_problem_text(p, text), tool_plain(),
                       talc_count_text(talc_conv2d_flops(p), "FLOP", flops),
                       named == NULL ? "" : ", ", named == NULL ? "" : named->what);
    print_algorithms(self, rates);
    print_choice(self);
    print_ratios(self);
    if (self->resident > 0)
        printf("  the process held at most %s while talc's algorithms ran\n",
               talc_bytes_text((double)self->resident, resident));
    if (self->operands.sets > 1)
        printf("  runs go through %d sets of operands and results\n", self->operands.sets);
    printf("\n");
    fflush(stdout);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *contender_json(const contender *c, const bench_rates *rates)
{
    const bool is_timed = c->reason[0] == '\0';
    const double flops = c->flops / contender_min(c), bytes = c->bytes / contender_min(c);
    json_t *json =
        json_pack("{s:s, s:s?, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                  c->algorithm != NULL ? c->algorithm : c->name, "form", c->form, "peer", c->peer,
                  "timed", is_timed, "reason", c->reason, "seconds_least",
                  tool_real(contender_min(c)), "seconds_median", tool_real(contender_median(c)),
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

// ---- Run ----------------------------------------------------------------------------------------

enum { PROBLEM_NAME, PROBLEM, WHAT, LIST_COLUMNS };

static int named_count(void)
{
    int count = 0;
    while (named_problems[count].name != NULL)
        count++;
    return count;
}

/* Problems, then ops. */
static const char *list_cell(const void *context, int64_t row, int column,
                             char text[TALC_CELL_TEXT])
{
    const int problems = named_count();
    const named_problem *problem = row < problems ? &named_problems[row] : NULL;
    const bench_op *op = problem != NULL ? NULL : bench_op_at((int)row - problems);
    (void)context;
    switch (column) {
    case PROBLEM_NAME:
        return op != NULL ? op->name : problem->name;
    case PROBLEM:
        return op != NULL ? "" : problem->text;
    default:
        snprintf(text, TALC_CELL_TEXT, "%s: %s", op != NULL ? op->set : problem->set,
                 op != NULL ? op->what : problem->what);
        return text;
    }
}

static int list_problems(bool json)
{
    static const talc_column columns[] = { { "name", TALC_COLUMN_WHOLE },
                                           { "problem", TALC_COLUMN_WHOLE },
                                           { "set: what", TALC_COLUMN_TEXT } };
    const int problems = named_count();
    int rows = problems;
    while (bench_op_at(rows - problems) != NULL)
        rows++;
    if (!json) {
        talc_table_print(stdout, &(talc_table){ .count = LIST_COLUMNS,
                                                .columns = columns,
                                                .rows = rows,
                                                .cell = list_cell });
        return tool_finish();
    }
    json_t *array = json_array();
    for (const named_problem *row = named_problems; row->name != NULL; row++)
        json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s}", "set", row->set, "name",
                                               row->name, "problem", row->text, "what", row->what));
    const bench_op *op;
    for (int i = 0; (op = bench_op_at(i)) != NULL; i++)
        json_array_append_new(array, json_pack("{s:s, s:s, s:s}", "set", op->set, "name", op->name,
                                               "what", op->what));
    return tool_json_print(array);
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

/* All ops of the arguments, on one device; `measured` has room for them. */
static bool measure_ops(measuring *self, const bench_data *data, contender *measured, int *count)
{
    const arguments *a = self->arguments;
    progress bar = progress_begin(a->count);
    bool done = true;
    for (int i = 0; i < a->count && done; i++) {
        const bench_op *op = bench_op_named(a->problems[i]);
        progress_step(&bar, a->problems[i]);
        if (op == NULL)
            continue;
        done = bench_op_run(&measured[*count], op, data, &a->settings);
        self->wrong |= done && !right(&measured[*count]);
        *count += done;
    }
    progress_end(&bar);
    return done;
}

static bool bench_the_ops(measuring *self)
{
    static contender measured[MAX_PROBLEMS];
    const arguments *a = self->arguments;
    bench_data data;
    bool large = false;
    int count = 0;
    for (int i = 0; i < a->count; i++) {
        const bench_op *op = bench_op_named(a->problems[i]);
        large = large || (op != NULL && op->element_gather != NULL);
    }
    talc_scope *scope = talc_scope_enter();
    const bool done = bench_data_make(&data, a->settings.device, large ? a->megabytes : 0) &&
                      measure_ops(self, &data, measured, &count);
    for (int i = 0; i < count && self->ops != NULL; i++)
        json_array_append_new(self->ops, contender_json(&measured[i], &self->rates));
    if (count > 0 && self->ops == NULL) {
        if (large)
            printf("%sops on %" PRId64 " MiB%s\n", tool_bold(), a->megabytes, tool_plain());
        else
            printf("%scalls, the host's time%s\n", tool_bold(), tool_plain());
        print_ops(measured, count, &self->rates, large);
    }
    bench_data_free(&data);
    talc_scope_leave(scope);
    return done;
}

static void print_choices(const measuring *self)
{
    talc_print_wrapped(stdout, 0,
                       "the chosen algorithm takes at most %.0f %% longer than the fastest of its "
                       "class on %s%d of %d%s problems\n",
                       100 * (BENCH_GOOD_CHOICE - 1), tool_bold(), self->good, self->choices,
                       tool_plain());
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
    talc_device *device = self->arguments->settings.device;
    talc_print_wrapped(stdout, 0, "%s: %s, %d %s; %d rounds, times and ratios are least over least",
                       talc_device_name(device), properties->description, properties->units,
                       talc_device_is_host(device) ? "threads" : "multiprocessors",
                       self->arguments->settings.repeats);
    if (talc_device_is_host(device)) {
        const core_distance cores = core_distance_measure();
        talc_print_wrapped(stdout, 0,
                           "OpenBLAS runs its kernels for %s%s; a cache line goes to another core "
                           "and back in %.0f to %.0f ns",
                           talc_build_info().blas_core, tool_blas_forced(), cores.least * 1e9,
                           cores.most * 1e9);
    }
    talc_print_wrapped(stdout, 0,
                       "in this run a large product makes %.1f GFLOP/s, a large copy moves %.1f "
                       "GB/s\n",
                       self->rates.flops / 1e9, self->rates.bytes / 1e9);
}

int command_bench(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (model_find(argv[i]) != NULL)
            return command_bench_model(argc, argv);
        if (strcmp(argv[i], "growth") == 0)
            return command_bench_growth(argc, argv);
    }
    arguments self = { .settings = { .repeats = 5, .peers = true }, .megabytes = 1024 };
    tool_parse(&syntax, argc, argv, &self);
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
