/// talc run model-new: the one-convolution module on one of its two problems, with all that can be
/// said about it.
#include "tools/cli/problems.h"
#include "tools/cli/progress.h"
#include "tools/cli/tool.h"

#include <stdlib.h>
#include <string.h>

// ---- The module ---------------------------------------------------------------------------------

typedef struct model_new {
    talc_module base;
    talc_module *conv2d;
} model_new;

static bool model_new_init(talc_module *module, const void *options)
{
    model_new *self = (model_new *)module;
    self->conv2d = talc_module_add(module, "conv2d", talc_nn_conv2d(options));
    return self->conv2d != NULL;
}

static talc_tensor *model_new_forward(talc_module *module, talc_tensor *x)
{
    return talc_forward(((model_new *)module)->conv2d, x);
}

static const talc_module_class model_new_class = {
    .name = "ModelNew",
    .size = sizeof(model_new),
    .init = model_new_init,
    .forward = model_new_forward,
};

static talc_conv2d_layer layer_of(const talc_conv2d_problem *p)
{
    return (talc_conv2d_layer){
        .in_channels = p->C,
        .out_channels = p->OC,
        .kernel = { p->KH, p->KW },
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { p->pad_bottom == 0 ? TALC_ZERO : p->pad_bottom,
                         p->pad_right == 0 ? TALC_ZERO : p->pad_right },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .activation = p->activation,
        .no_bias = !p->bias,
        .dtype = p->dtype,
    };
}

// ---- Arguments ----------------------------------------------------------------------------------

typedef struct arguments {
    tool_options tool;
    const char *model, *problem, *algorithm, *save, *beside;
    int64_t batch; ///< -1: the problem's own
    int64_t seed;
} arguments;

static const tool_option options[] = {
    { "problem", 'p', "PROBLEM", "A, B, another name or a problem string (default A)", 1,
      TOOL_STRING_AT(arguments, problem) },
    { "batch", 'n', "N", "images (default: the problem's own, 8 for A and B)", 1,
      TOOL_NUMBER_AT(arguments, batch, 0) },
    { "seed", 's', "S", "seed of weights and input (default 1)", 1,
      TOOL_NUMBER_AT(arguments, seed, 0) },
    { "algorithm", 'a', "NAME", "use this algorithm, or fail", 1,
      TOOL_STRING_AT(arguments, algorithm) },
    { "save", 'o', "OUT.npy", "write the output here", 1, TOOL_NPY_AT(arguments, save) },
    { "beside", 'b', "DEVICE", "run there too, and compare the results", 1,
      TOOL_STRING_AT(arguments, beside) },
    { .name = NULL },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (state->arg_num > 0)
        tool_usage(state, "'%s' is one argument too many", TALC_SHOWN(argument));
    if (strcmp(argument, "model-new") != 0)
        tool_usage(state, "there is no model '%s'; there is model-new", TALC_SHOWN(argument));
    return 0;
}

static const tool_syntax syntax = {
    .options = options,
    .parse = parse,
    .args_doc = "model-new",
    .doc =
        "Builds the ModelNew module, one Conv2d layer, runs its forward pass on random input "
        "and checks 4096 random "
        "outputs against float64 sums.\v"
        "A is 8x64x512x256 with 128 kernels of 5x7, B is 8x32x512x512 with 64 kernels of 5x9. "
        "Where there is a GPU, and neither a device nor an algorithm is asked for, it runs there "
        "and on the CPU beside it. `talc run --help` is about networks.",
};

// ---- The run ------------------------------------------------------------------------------------

/* A forward pass on one device. */
typedef struct pass {
    talc_device *device;
    talc_device_properties properties;
    talc_conv2d_explanation explanation;
    const talc_tensor *y;
    double first_seconds; ///< on a GPU, of a pass before, which loads the kernels; else 0
    double seconds;
    talc_memory memory; ///< after it; peak is of it alone
    size_t resident;    ///< the process's peak then
    talc_check_sample_report check;
} pass;

/* All that is reported. */
typedef struct outcome {
    talc_conv2d_problem problem;
    const talc_tensor *x, *w, *bias;
    int passes; ///< 2: the same on another device
    pass of[2];
    talc_check_sample_report between;
} outcome;

static talc_precision precision_of(const pass *self)
{
    return self->explanation.decision.candidates[self->explanation.decision.chosen]
        .arithmetic.precision;
}

static bool forward_once(talc_module *model, talc_tensor *x, pass *result)
{
    talc_memory_reset_peak(result->device);
    const double start = tool_clock();
    result->y = talc_forward(model, x);
    if (result->y == NULL || !talc_device_synchronize(result->device))
        return false;
    result->seconds = tool_clock() - start;
    result->memory = talc_device_memory(result->device);
    result->resident = tool_resident_peak();
    return true;
}

static bool forward(talc_module *model, const talc_tensor *x, pass *result)
{
    talc_tensor *there = talc_to(x, result->device, x->dtype);
    if (there == NULL || !talc_module_to(model, result->device) ||
        !talc_device_synchronize(result->device))
        return false;
    if (!talc_device_is_host(result->device)) {
        talc_scope *scope = talc_scope_enter();
        const bool ran = forward_once(model, there, result);
        talc_scope_leave(scope);
        if (!ran)
            return false;
        result->first_seconds = result->seconds;
    }
    return forward_once(model, there, result);
}

static bool check(outcome *result, uint64_t seed)
{
    pass *first = &result->of[0], *second = &result->of[1];
    talc_check_sample *expected =
        talc_check_sample_new(&result->problem, result->x, result->w, result->bias, NULL, seed);
    bool done = expected != NULL;
    for (int i = 0; i < result->passes && done; i++)
        done = talc_check_sample_compare(expected, result->of[i].y, precision_of(&result->of[i]),
                                         &result->of[i].check);
    if (done && result->passes == 2)
        done = talc_check_sample_between(expected, first->y, precision_of(first), second->y,
                                         precision_of(second), &result->between);
    talc_check_sample_free(expected);
    return done;
}

/* The devices that are named; without a name the GPU and the CPU, where there is one, else the
 * default. */
static bool find_devices(const arguments *self, outcome *result)
{
    talc_device *device = tool_open(&self->tool), *beside = NULL;
    const bool free_choice =
        self->tool.device == NULL && self->algorithm == NULL && getenv("TALC_DEVICE") == NULL;
    tool_options other = self->tool;
    other.device = self->beside;
    if (device != NULL && self->beside != NULL) {
        beside = tool_open(&other);
    } else if (device != NULL && free_choice) {
        other.device = "cuda";
        talc_device *gpu = tool_open(&other);
        talc_error_clear();
        beside = gpu == NULL ? NULL : talc_device_host();
        device = gpu == NULL ? device : gpu;
    }
    result->of[0].device = device;
    result->of[1].device = beside;
    result->passes = beside == NULL ? 1 : 2;
    return !talc_failed();
}

static bool find_problem(const arguments *self, talc_conv2d_problem *problem)
{
    if (!problem_read(self->problem, problem))
        return false;
    if (self->batch >= 0)
        problem->N = self->batch;
    if (problem->residual)
        talc_fail(TALC_UNSUPPORTED, "model-new: the layer has no residual input");
    else if (problem->direction != TALC_FORWARD)
        talc_fail(TALC_UNSUPPORTED, "model-new: the problem is a gradient");
    return !talc_failed() && talc_conv2d_problem_check(problem);
}

static bool explain(const arguments *self, const talc_conv2d_problem *p, pass *result)
{
    result->device->interface->properties(result->device, &result->properties);
    return (self->algorithm == NULL || talc_algorithm_force("conv2d", self->algorithm)) &&
           talc_conv2d_explain(result->device, p, NULL, &result->explanation);
}

static bool run(talc_module **model, const arguments *self, outcome *result)
{
    const talc_conv2d_problem *p = &result->problem;
    for (int i = 0; i < result->passes; i++)
        if (!explain(self, p, &result->of[i]))
            return false;

    progress bar = progress_begin(3 + result->passes);
    progress_step(&bar, "weights and input");
    talc_manual_seed((uint64_t)self->seed);
    const talc_conv2d_layer layer = layer_of(p);
    talc_device *device = result->of[0].device;
    *model = talc_module_new(&model_new_class, &layer);
    bool done =
        *model != NULL && talc_module_to(*model, device) &&
        (result->x = talc_rand(device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W))) != NULL;
    for (int i = 0; i < result->passes && done; i++) {
        progress_step(&bar, talc_device_name(result->of[i].device));
        done = forward(*model, result->x, &result->of[i]);
    }
    if (done) {
        result->w = talc_module_find(*model, "conv2d.weight");
        result->bias = p->bias ? talc_module_find(*model, "conv2d.bias") : NULL;
        result->x = talc_to(result->x, result->w->device, p->dtype);
    }
    progress_step(&bar, "checking against float64 sums");
    done = done && check(result, (uint64_t)self->seed);
    progress_step(&bar, "saving");
    done = done && (self->save == NULL || talc_npy_save(self->save, result->of[0].y));
    progress_end(&bar);
    return done;
}

static bool right(const outcome *result)
{
    bool all = true;
    for (int i = 0; i < result->passes; i++)
        all = all && result->of[i].check.share <= 1;
    return all && (result->passes == 1 || result->between.share <= 1);
}

// ---- The report ---------------------------------------------------------------------------------

/* "  name       text", wrapped under the text. */
#define FIELD "  %-10s "
enum { FIELD_WIDTH = 13 };

static void print_tensor(const char *name, const talc_tensor *tensor, const char *what)
{
    char dims[TALC_DIMS_TEXT], bytes[TOOL_TEXT];
    talc_print_wrapped(stdout, FIELD_WIDTH, FIELD "%-20s %10s   %s%s%s", name,
                       talc_dims_text(talc_dims_of(tensor), dims),
                       talc_bytes_text((double)talc_nbytes(tensor), bytes), tool_dim(), what,
                       tool_plain());
}

/* The candidates that may run, or that refuse for a reason of their own. */
typedef struct listed {
    const talc_explanation *of;
    int count, index[TALC_MAX_ALGORITHMS];
} listed;

static const char *algorithm_cell(const void *context, int64_t row, int column,
                                  char text[TALC_CELL_TEXT])
{
    const talc_explanation *e = ((const listed *)context)->of;
    const int index = ((const listed *)context)->index[row];
    const talc_candidate *c = &e->candidates[index];
    const bool chosen = index == e->chosen;
    char workspace[TOOL_TEXT];
    if (column == 0)
        return row == 0 ? "algorithm" : "";
    if (column == 1)
        snprintf(text, TALC_CELL_TEXT, "%s%s %s%s", chosen ? tool_bold() : "", chosen ? "->" : "  ",
                 c->title, chosen ? tool_plain() : "");
    else if (c->refused)
        snprintf(text, TALC_CELL_TEXT, "%srefuses: %s%s", tool_dim(), c->reason, tool_plain());
    else
        snprintf(text, TALC_CELL_TEXT, "%s, %s, workspace %s%s", c->arithmetic.text,
                 talc_precision_name(c->arithmetic.precision),
                 talc_bytes_text((double)c->workspace, workspace), chosen ? ": chosen" : "");
    return text;
}

static void print_algorithms(const talc_conv2d_explanation *e)
{
    static const talc_column columns[] = { { "", TALC_COLUMN_WHOLE },
                                           { "", TALC_COLUMN_WHOLE },
                                           { "", TALC_COLUMN_TEXT } };
    listed all = { .of = &e->decision };
    for (int i = 0; i < e->decision.count; i++)
        if (!talc_candidate_is_passed_over(&e->decision, i))
            all.index[all.count++] = i;
    talc_table_print(stdout, &(talc_table){ .count = 3,
                                            .columns = columns,
                                            .rows = all.count,
                                            .indent = 2,
                                            .untitled = true,
                                            .cell = algorithm_cell,
                                            .context = &all });
    printf("\n");
}

static void print_check(const pass *r)
{
    const int64_t total = talc_numel(r->y);
    talc_print_wrapped(stdout, FIELD_WIDTH,
                       FIELD "%s%s%s: %s%lld %soutputs compared with float64 sums", "result",
                       tool_bold(), r->check.share <= 1 ? "correct" : "WRONG", tool_plain(),
                       r->check.count == total ? "all " : "", (long long)r->check.count,
                       r->check.count == total ? "" : "random ");
    talc_print_wrapped(stdout, FIELD_WIDTH,
                       FIELD "largest error %.2g, %.2g %% of the bound 4 u sqrt(K+4) S", "",
                       r->check.error, 100 * r->check.share);
}

static void print_pass(const pass *r)
{
    char time[TOOL_TEXT], first[96] = "", peak[TOOL_TEXT], resident[64] = "", text[TOOL_TEXT],
                          flops[TALC_COUNT_TEXT], rate[TALC_COUNT_TEXT];
    print_algorithms(&r->explanation);
    if (r->first_seconds > 0)
        snprintf(first, sizeof first, " (the first time, with loading: %s)",
                 tool_seconds(r->first_seconds, text));
    talc_print_wrapped(stdout, FIELD_WIDTH, FIELD "%s%s%s for %s: %s%s%s%s", "forward", tool_bold(),
                       tool_seconds(r->seconds, time), tool_plain(),
                       talc_count_text(r->explanation.flops, "FLOP", flops), tool_bold(),
                       talc_count_text(r->explanation.flops / r->seconds, "FLOP/s", rate),
                       tool_plain(), first);
    if (r->resident > 0)
        snprintf(resident, sizeof resident, ", %s in the process",
                 talc_bytes_text((double)r->resident, text));
    talc_print_wrapped(stdout, FIELD_WIDTH,
                       FIELD "at most %s on the device (x, weight, y, workspace)%s", "memory",
                       talc_bytes_text((double)r->memory.peak, peak), resident);
    print_check(r);
    printf("\n");
}

static void print_between(const outcome *r)
{
    const pass *a = &r->of[0], *b = &r->of[1];
    talc_print_wrapped(stdout, FIELD_WIDTH, FIELD "%s%s is %.3g times as fast as %s%s", "both",
                       tool_bold(), talc_device_name(a->device), b->seconds / a->seconds,
                       talc_device_name(b->device), tool_plain());
    talc_print_wrapped(stdout, FIELD_WIDTH,
                       FIELD "%s%s%s: their results differ by at most %.2g, %.2g %% of the sum of "
                             "their bounds\n",
                       "", tool_bold(), r->between.share <= 1 ? "agree" : "DISAGREE", tool_plain(),
                       r->between.error, 100 * r->between.share);
}

static void print_operands(const arguments *self, const outcome *r)
{
    const talc_conv2d_problem *p = &r->problem;
    char text[TALC_CONV2D_TEXT], what[64];
    talc_print_wrapped(stdout, FIELD_WIDTH, FIELD "%s", "problem",
                       talc_conv2d_problem_text(p, text));
    snprintf(what, sizeof what, "uniform in [0, 1), seed %lld", (long long)self->seed);
    print_tensor("x", r->x, what);
    snprintf(what, sizeof what, "uniform in +-1/sqrt(%lld)",
             (long long)(p->C / p->groups * p->KH * p->KW));
    print_tensor("weight", r->w, what);
    if (r->bias != NULL)
        print_tensor("bias", r->bias, what);
    print_tensor("y", r->of[0].y, self->save == NULL ? "" : TALC_SHOWN(self->save));
    printf("\n");
}

static void print_device(const char *before, const pass *r)
{
    talc_print_wrapped(stdout, 2, "%s on %s (%s, %d %s)\n", before, talc_device_name(r->device),
                       r->properties.description, r->properties.units,
                       talc_device_is_host(r->device) ? "threads" : "multiprocessors");
}

static void print(const arguments *self, const outcome *r)
{
    char name[64];
    snprintf(name, sizeof name, "%sModelNew%s", tool_bold(), tool_plain());
    print_device(name, &r->of[0]);
    print_operands(self, r);
    print_pass(&r->of[0]);
    if (r->passes == 1)
        return;
    print_device("the same", &r->of[1]);
    print_pass(&r->of[1]);
    print_between(r);
}

static json_t *check_json(const talc_check_sample_report *report)
{
    return json_pack("{s:I, s:o, s:o, s:[I,I,I,I], s:b}", "outputs", (json_int_t)report->count,
                     "largest_error", tool_real(report->error), "share_of_bound",
                     tool_real(report->share), "where", (json_int_t)report->where[0],
                     (json_int_t)report->where[1], (json_int_t)report->where[2],
                     (json_int_t)report->where[3], "correct", report->share <= 1);
}

static json_t *pass_json(const pass *r)
{
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "device", talc_device_name(r->device),
        "description", r->properties.description, "algorithm",
        r->explanation.decision.candidates[r->explanation.decision.chosen].title, "explanation",
        tool_json_explanation(&r->explanation.decision, tool_json_problem(&r->explanation.problem)),
        "seconds", tool_real(r->seconds), "first_seconds",
        r->first_seconds > 0 ? tool_real(r->first_seconds) : json_null(), "gflops",
        tool_real(r->explanation.flops / r->seconds / 1e9), "peak_memory",
        (json_int_t)r->memory.peak, "resident_peak", (json_int_t)r->resident, "check",
        check_json(&r->check));
}

/* What is said of the first device stands beside what is said of all. */
static json_t *outcome_json(const arguments *self, const outcome *r)
{
    json_t *json = pass_json(&r->of[0]);
    json_object_update_new(
        json,
        json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "network", "model-new", "x",
                  tool_json_dims(talc_dims_of(r->x)), "weight", tool_json_dims(talc_dims_of(r->w)),
                  "y", tool_json_dims(talc_dims_of(r->of[0].y)), "seed", (json_int_t)self->seed,
                  "output", tool_json_text(self->save), "beside",
                  r->passes == 2 ? pass_json(&r->of[1]) : json_null(), "between",
                  r->passes == 2 ? check_json(&r->between) : json_null()));
    return json;
}

static bool names_model_new(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "model-new") == 0)
            return true;
    return false;
}

int command_run(int argc, char **argv)
{
    if (!names_model_new(argc, argv))
        return command_run_model(argc, argv);
    arguments self = { .problem = "A", .batch = -1, .seed = 1 };
    tool_parse(&syntax, argc, argv, &self);
    static outcome result;
    talc_module *model = NULL;
    const bool found = find_devices(&self, &result);
    if (found && !find_problem(&self, &result.problem))
        return tool_usage_talc();
    if (!found || !run(&model, &self, &result)) {
        talc_module_free(model);
        return tool_fail_talc();
    }
    int code = TOOL_OK;
    if (self.tool.json) {
        code = tool_json_print(outcome_json(&self, &result));
    } else {
        print(&self, &result);
        code = tool_finish();
    }
    talc_module_free(model);
    return right(&result) ? code : tool_fail("a result is outside its algorithm's error bound");
}
