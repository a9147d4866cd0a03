/// talc check: every algorithm of every op against an oracle, with a verdict that follows from
/// error bounds.
#include "tools/cli/check_problems.h"
#include "tools/cli/check_shares.h"
#include "tools/cli/load.h"
#include "tools/cli/progress.h"
#include "tools/cli/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_ARGUMENTS = 64, MAX_DEVICES = 2 };

typedef struct arguments {
    tool_options tool;
    int count;
    const char *texts[MAX_ARGUMENTS]; ///< sets, files and problems
    const char *algorithm, *op, *shares;
    int64_t random, seed;
    int64_t part, parts; ///< 1 of 1: all problems
    uint64_t kinds;
    bool list, texts_only;
} arguments;

enum { KEY_KINDS = 'k', KEY_PART = 5000 };

static const tool_option options[] = {
    { "algorithm", 'a', "NAME", "only algorithms of this name", 1,
      TOOL_STRING_AT(arguments, algorithm) },
    { "op", 0, "NAME", "only problems of this op", 1, TOOL_STRING_AT(arguments, op) },
    { "count", 'n', "N",
      "how many random problems (default 1000), all of the op that --op names; random N is the "
      "same",
      1, TOOL_NUMBER_AT(arguments, random, 1) },
    { "seed", 's', "S", "seed of the data and of the random problems (default 1)", 1,
      TOOL_NUMBER_AT(arguments, seed, 0) },
    { "kinds", KEY_KINDS, "LIST", "only these kinds of checks: exact,random,...", 1, TOOL_OWN, 0,
      0 },
    { "part", KEY_PART, "I/N",
      "every N-th problem from the I-th on, so that N processes share the work", 1, TOOL_OWN, 0,
      0 },
    { "shares", 0, "FILE.npy",
      "write each element's error over its bound, of the output that fails first or, if none does, "
      "of the one nearest to its bound",
      1, TOOL_STRING_AT(arguments, shares) },
    { "list", 0, NULL, "print the problems, check nothing", 1, TOOL_TRUE_AT(arguments, list) },
    { "texts", 0, NULL, "print what problems' texts may be, check nothing", 1,
      TOOL_TRUE_AT(arguments, texts_only) },
    { .name = NULL },
};

// ---- Arguments ----------------------------------------------------------------------------------

/* The bit of a kind's name, which ends at `length`. */
static uint64_t kind_bit(struct argp_state *state, const char *name, size_t length)
{
    for (int kind = 0; kind < TALC_CHECK_KIND_COUNT; kind++) {
        const char *known = talc_check_kind_name((talc_check_kind)kind);
        if (strlen(known) == length && strncmp(known, name, length) == 0)
            return UINT64_C(1) << kind;
    }
    tool_usage(state, "--kinds: there is no '%s'; talc check --help lists them",
               TALC_SHOWN_PART(name, length));
    return 0;
}

static uint64_t read_kinds(struct argp_state *state, const char *text)
{
    uint64_t kinds = 0;
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        kinds |= kind_bit(state, text, length);
        text += length;
        if (*text == '\0')
            return kinds;
    }
}

static void read_part(arguments *self, struct argp_state *state, const char *text)
{
    char first[24];
    const char *slash = strchr(text, '/');
    const size_t length = slash == NULL ? sizeof first : (size_t)(slash - text);
    if (length < sizeof first) {
        memcpy(first, text, length);
        first[length] = '\0';
    }
    if (length >= sizeof first || tool_numbers(first, 1, &self->part) != 1 ||
        tool_numbers(slash + 1, 1, &self->parts) != 1 || self->part < 1 || self->part > self->parts)
        tool_usage(state, "--part: '%s' is no part such as 1/4 to 4/4", TALC_SHOWN(text));
}

/* A number after `random` says how many; all else is a set, a file or a problem. */
static void add_argument(arguments *self, struct argp_state *state, const char *text)
{
    int64_t number;
    const bool after_random =
        self->count > 0 && strcmp(self->texts[self->count - 1], "random") == 0;
    if (after_random && tool_numbers(text, 1, &number) == 1) {
        self->random = tool_count(state, "random", text, 1);
        return;
    }
    if (self->count == MAX_ARGUMENTS)
        tool_usage(state, "more than %d sets, files and problems", MAX_ARGUMENTS);
    self->texts[self->count++] = text;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case KEY_KINDS:
        self->kinds = read_kinds(state, argument);
        return 0;
    case KEY_PART:
        read_part(self, state, argument);
        return 0;
    case ARGP_KEY_ARG:
        add_argument(self, state, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        add_argument(self, state, "quick");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --help of the options that all subcommands have: --device differs here; argp frees the text. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    return key == 'd' ? strdup("cpu, cuda, cuda:N or all (default: all that are present)")
                      : (char *)text;
}

// ---- What is checked, and where -----------------------------------------------------------------

/* One run of the command. */
typedef struct run {
    const arguments *arguments;
    check_problems problems;
    int devices;
    talc_device *device[MAX_DEVICES];
    talc_check *check[MAX_DEVICES];
    check_shares shares;
    double seconds;
} run;

static void run_free(run *self)
{
    for (int i = 0; i < self->devices; i++)
        talc_check_free(self->check[i]);
    check_problems_free(&self->problems);
    check_shares_free(&self->shares);
}

static bool add_device(run *self, const char *name)
{
    tool_options named = self->arguments->tool;
    named.device = name;
    talc_device *device = tool_open(&named);
    const talc_check_options check_options = {
        .device = device,
        .algorithm = self->arguments->algorithm,
        .kinds = self->arguments->kinds,
        .seed = (uint64_t)self->arguments->seed,
        .arguments = load_arguments(),
        .observe = self->arguments->shares == NULL ? NULL : check_shares_observe,
        .context = &self->shares,
    };
    talc_check *check = device == NULL ? NULL : talc_check_new(&check_options);
    if (check == NULL)
        return false;
    self->device[self->devices] = device;
    self->check[self->devices++] = check;
    return true;
}

/* The one that is named, or all that there are. */
static bool find_devices(run *self)
{
    const char *name = self->arguments->tool.device;
    if (name != NULL && strcmp(name, "all") != 0)
        return add_device(self, name);
    if (!add_device(self, "cpu"))
        return false;
    const bool present = talc_device_get("cuda") != NULL;
    talc_error_clear();
    return !present || add_device(self, "cuda");
}

static bool find_problems(run *self)
{
    const arguments *a = self->arguments;
    self->problems =
        (check_problems){ .op = a->op, .random = a->random, .seed = (uint64_t)a->seed };
    for (int i = 0; i < a->count; i++)
        if (!check_problems_add(&self->problems, a->texts[i]))
            return false;
    if (self->problems.count == 0)
        talc_fail(TALC_NOT_FOUND,
                  "nothing to check: none of the %" PRId64 " problems is of op '%s'",
                  self->problems.left_out, TALC_SHOWN(a->op));
    const int64_t all = self->problems.count;
    check_problems_keep(&self->problems, a->part, a->parts);
    if (all > 0 && self->problems.count == 0)
        talc_fail(TALC_NOT_FOUND,
                  "nothing to check: part %" PRId64 " of %" PRId64 " of %" PRId64 " problems",
                  a->part, a->parts, all);
    return !talc_failed();
}

/* Whether the file can be written, before the run, which may be long; one that is there stays until
 * then. */
static bool try_file(const run *self)
{
    const char *path = self->arguments->shares;
    struct stat about;
    /* Opening a pipe would wait for a program that reads it. */
    if (path != NULL && stat(path, &about) == 0 && S_ISFIFO(about.st_mode)) {
        talc_fail(TALC_IO_ERROR, "%s: a pipe, not a regular file", TALC_SHOWN(path));
        return false;
    }
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (path != NULL && file == NULL)
        talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(path), strerror(errno));
    if (file != NULL)
        fclose(file);
    return !talc_failed();
}

static void step(void *context, const char *problem)
{
    progress_step(context, problem);
}

static bool check_all(run *self)
{
    const double start = tool_clock();
    progress bar = progress_begin(self->problems.count * self->devices);
    bool done = true;
    for (int i = 0; i < self->devices && done; i++)
        done = talc_check_problems(self->check[i], (const char *const *)self->problems.text,
                                   self->problems.count, step, &bar);
    progress_end(&bar);
    self->seconds = tool_clock() - start;
    return done;
}

// ---- Results ------------------------------------------------------------------------------------

typedef struct totals {
    int algorithms;
    int64_t checks, failed;
} totals;

static totals totals_of(const talc_check *check)
{
    totals sum = { .algorithms = talc_check_summary_count(check) };
    for (int i = 0; i < sum.algorithms; i++) {
        const talc_check_summary *row = talc_check_summary_at(check, i);
        sum.checks += row->checks;
        sum.failed += row->failed;
    }
    return sum;
}

/* A device on which nothing was checked must not count as passed. */
static bool something_ran(const run *self)
{
    for (int i = 0; i < self->devices; i++) {
        const totals sum = totals_of(self->check[i]);
        const char *name = talc_device_name(self->device[i]), *wanted = self->arguments->algorithm;
        if (sum.algorithms == 0 && wanted != NULL)
            talc_fail(TALC_NOT_FOUND,
                      "nothing ran on %s: there is no algorithm '%s' for these problems", name,
                      TALC_SHOWN(wanted));
        else if (sum.algorithms == 0)
            talc_fail(TALC_NOT_FOUND, "nothing ran on %s: the problems have nothing to compute",
                      name);
        else if (sum.checks == 0)
            talc_fail(TALC_UNSUPPORTED,
                      "nothing ran on %s: every algorithm refuses the problems, or none of "
                      "the kinds applies to them",
                      name);
    }
    return !talc_failed();
}

static void print_results(const run *self)
{
    char seconds[TOOL_TEXT];
    for (int i = 0; i < self->devices; i++) {
        const totals sum = totals_of(self->check[i]);
        if (i > 0)
            printf("\n");
        talc_check_print(stdout, self->check[i]);
        printf("\n%s%s: %s%s: problems: %" PRId64 ", algorithms: %d, checks: %" PRId64
               ", failed: %" PRId64 "\n",
               tool_bold(), talc_device_name(self->device[i]),
               talc_check_passed(self->check[i]) ? "passed" : "FAILED", tool_plain(),
               self->problems.count, sum.algorithms, sum.checks, sum.failed);
        const int64_t untaken = talc_check_untaken(self->check[i]);
        if (untaken > 0)
            printf("%s: %" PRId64 " %s that no algorithm ran: not checked\n",
                   talc_device_name(self->device[i]), untaken,
                   untaken == 1 ? "problem" : "problems");
    }
    printf("%s%s, seed %" PRId64 "%s\n", tool_dim(), tool_seconds(self->seconds, seconds),
           self->arguments->seed, tool_plain());
}

static json_t *row_json(const talc_check_summary *row)
{
    const bool bounded = row->worst[0] != '\0';
    return json_pack(
        "{s:s, s:s, s:s, s:s?, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:s?, s:s?}", "op", row->op,
        "algorithm", row->algorithm, "name", row->name, "form", row->form, "device", row->device,
        "class", talc_precision_name(row->arithmetic.precision), "arithmetic", row->arithmetic.text,
        "problems", (json_int_t)row->problems, "refused", (json_int_t)row->refused, "checks",
        (json_int_t)row->checks, "failed", (json_int_t)row->failed, "share",
        bounded ? tool_real(row->share) : json_null(), "worst", bounded ? row->worst : NULL,
        "worst_kind", bounded ? talc_check_kind_name(row->worst_kind) : NULL);
}

static json_t *failure_json(const talc_check_failure *failure)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "op", failure->op, "algorithm",
                     failure->algorithm, "device", failure->device, "problem", failure->problem,
                     "kind", talc_check_kind_name(failure->kind), "reason", failure->reason);
}

static int print_json(const run *self, bool passed)
{
    char devices[64] = "";
    int64_t untaken = 0;
    json_t *rows = json_array(), *failures = json_array();
    for (int i = 0; i < self->devices; i++) {
        const talc_check *check = self->check[i];
        const size_t used = strlen(devices);
        untaken += talc_check_untaken(check);
        snprintf(devices + used, sizeof devices - used, "%s%s", i > 0 ? "," : "",
                 talc_device_name(self->device[i]));
        for (int j = 0; j < talc_check_summary_count(check); j++)
            json_array_append_new(rows, row_json(talc_check_summary_at(check, j)));
        for (int j = 0; j < talc_check_failure_count(check); j++)
            json_array_append_new(failures, failure_json(talc_check_failure_at(check, j)));
    }
    return tool_json_print(json_pack("{s:s, s:I, s:b, s:I, s:I, s:o, s:o, s:o}", "device", devices,
                                     "seed", (json_int_t)self->arguments->seed, "passed", passed,
                                     "problems", (json_int_t)self->problems.count, "untaken",
                                     (json_int_t)untaken, "rows", rows, "failures", failures,
                                     "seconds", tool_real(self->seconds)));
}

/* Where the file of shares cannot be written, a run that passed ends with that error; one that
 * failed reports its failures. */
static int report(run *self)
{
    bool passed = true;
    for (int i = 0; i < self->devices; i++)
        passed = passed && talc_check_passed(self->check[i]);
    const char *path = self->arguments->shares;
    const bool saved = path != NULL && check_shares_save(&self->shares, path);
    if (path != NULL && !saved) {
        const int code = tool_usage_talc();
        if (passed)
            return code;
    }
    int code = TOOL_OK;
    if (self->arguments->tool.json) {
        code = print_json(self, passed);
    } else {
        print_results(self);
        if (saved)
            printf("%s: %s\n", TALC_SHOWN(path), self->shares.what);
        code = tool_finish();
    }
    return passed ? code : TOOL_FAILED;
}

static int list(const run *self)
{
    const bool json = self->arguments->tool.json;
    json_t *array = json ? json_array() : NULL;
    for (int64_t i = 0; i < self->problems.count; i++)
        if (json)
            json_array_append_new(array, json_string(self->problems.text[i]));
        else
            printf("%s\n", self->problems.text[i]);
    return json ? tool_json_print(array) : tool_finish();
}

int command_check(int argc, char **argv)
{
    static arguments self = { .random = 1000, .seed = 1, .part = 1, .parts = 1 };
    static run job;
    struct argp common = tool_argp;
    common.help_filter = help_filter;
    const struct argp_child children[] = { { &common, 0, NULL, 10 }, { 0 } };
    const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "[quick|edges|models|random [N]|PROBLEM|FILE ...]",
        .doc =
            "Checks every algorithm of every op on sets of problems: exactly on small integers, "
            "against derived error bounds on other data, for writes outside its outputs, and for "
            "equal results when repeated.\v"
            "PROBLEM is a text such as n2c4h9w9o8k3x3p1x1_bias, max_pool2d:n1c8h9w9k3x3s2x2, "
            "matmul:m5n6k7_tb or pad:5x7p1x2_reflect, of every op, as --texts lists them; one that "
            "ends in _dx is an input gradient, and in _dw a convolution's by the weights, op "
            "conv2d.grad_weight. A FILE has one a line. The set "
            "is quick unless something is given. talc check model and talc check grad check whole "
            "models, and gradients by differences. Kinds of checks: exact, random, constant, "
            "wide, huge, tiny, nan, "
            "infinity (data); guards, inputs, trust, misaligned, workspace, rerun, threads, "
            "fenv, status; batch, groups, dilation, stride, pointwise, padding, adjoint, "
            "linearity, "
            "shift "
            "(relations between convolutions, and all but pointwise and shift between their "
            "gradients). Exit code 1: something failed; 2: wrong usage, "
            "nothing ran, or the shares could not be written. "
            "Problems that every algorithm refuses, or that have nothing to compute, are counted "
            "as "
            "not checked.",
        .children = children,
    };
    if (argc > 1 && strcmp(argv[1], "model") == 0)
        return command_check_model(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "grad") == 0)
        return command_check_grad(argc - 1, argv + 1);
    tool_parse(&syntax, argc, argv, &self);
    job.arguments = &self;
    int code;
    if (!find_problems(&job))
        code = tool_usage_talc();
    else if (self.list)
        code = list(&job);
    else if (!find_devices(&job) || !try_file(&job) || !check_all(&job) || !something_ran(&job))
        code = tool_usage_talc();
    else
        code = report(&job);
    run_free(&job);
    return code;
}
