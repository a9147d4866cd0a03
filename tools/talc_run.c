/// talc run model-new: the one-convolution module on one of its two problems, with all that can be said about it.
#include "tools/problems.h"
#include "tools/progress.h"
#include "tools/tool.h"

#include <string.h>

// ---- The module ---------------------------------------------------------------------------------------------

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

// ---- Arguments ----------------------------------------------------------------------------------------------

typedef struct arguments {
    tool_options tool;
    const char *model, *problem, *algorithm, *save;
    int64_t batch; ///< -1: the problem's own
    int64_t seed;
} arguments;

enum { KEY_PROBLEM = 'p', KEY_BATCH = 'n', KEY_SEED = 's', KEY_SAVE = 'o', KEY_ALGORITHM = 'a' };

static const struct argp_option options[] = {
    { "problem", KEY_PROBLEM, "PROBLEM", 0, "A, B, another name or a problem string (default A)",
      1 },
    { "batch", KEY_BATCH, "N", 0, "images (default: the problem's own, 8 for A and B)", 1 },
    { "seed", KEY_SEED, "S", 0, "of weights and input (default 1)", 1 },
    { "algorithm", KEY_ALGORITHM, "NAME", 0, "this one or an error", 1 },
    { "save", KEY_SAVE, "OUT.npy", 0, "where the output goes", 1 },
    { 0 },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &self->tool;
        return 0;
    case KEY_PROBLEM:
        self->problem = argument;
        return 0;
    case KEY_BATCH:
        self->batch = tool_count(state, "--batch", argument, 0);
        return 0;
    case KEY_SEED:
        self->seed = tool_count(state, "--seed", argument, 0);
        return 0;
    case KEY_ALGORITHM:
        self->algorithm = argument;
        return 0;
    case KEY_SAVE:
        self->save = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "'%s' is one argument too many", argument);
        if (strcmp(argument, "model-new") != 0)
            argp_error(state, "there is no model '%s'; there is model-new", argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which model? There is model-new");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &tool_argp, 0, NULL, 10 }, { 0 } };
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "model-new",
    .doc = "Builds the ModelNew module, one Conv2d layer, runs its forward pass on random input "
           "and checks 4096 random "
           "outputs against float64 sums.\v"
           "A is 8x64x512x256 with 128 kernels of 5x7, B is 8x32x512x512 with 64 kernels of 5x9.",
    .children = children,
};

// ---- The run ------------------------------------------------------------------------------------------------

/* All that is reported. */
typedef struct outcome {
    talc_device *device;
    talc_device_properties properties;
    talc_conv2d_problem problem;
    talc_conv2d_explanation explanation;
    const talc_tensor *x, *w, *bias, *y;
    double seconds;
    talc_memory memory; ///< after the forward pass; peak is of it alone
    size_t resident;    ///< the process's peak then
    talc_check_sample_report check;
} outcome;

static bool forward(talc_module *model, talc_tensor *x, outcome *result)
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

static bool check(outcome *result, uint64_t seed)
{
    const talc_conv2d_explanation *e = &result->explanation;
    talc_check_sample *expected =
        talc_check_sample_new(&result->problem, result->x, result->w, result->bias, NULL, seed);
    const bool done =
        expected != NULL &&
        talc_check_sample_compare(expected, result->y,
                                  e->candidates[e->chosen].arithmetic.precision, &result->check);
    talc_check_sample_free(expected);
    return done;
}

static bool find_problem(const arguments *self, talc_conv2d_problem *problem)
{
    if (!problem_read(self->problem, problem))
        return false;
    if (self->batch >= 0)
        problem->N = self->batch;
    if (problem->residual)
        talc_fail(TALC_UNSUPPORTED, "model-new: the layer has no residual input");
    return !talc_failed() && talc_conv2d_problem_check(problem);
}

static bool run(talc_module **model, const arguments *self, outcome *result)
{
    const talc_conv2d_problem *p = &result->problem;
    if ((self->algorithm != NULL && !talc_algorithm_force("conv2d", self->algorithm)) ||
        !talc_conv2d_explain(result->device, p, NULL, &result->explanation))
        return false;
    result->device->interface->properties(result->device, &result->properties);

    progress bar = progress_begin(3);
    progress_step(&bar, "weights, input and forward pass");
    talc_manual_seed((uint64_t)self->seed);
    const talc_conv2d_layer layer = layer_of(p);
    *model = talc_module_new(&model_new_class, &layer);
    talc_tensor *x = NULL;
    bool done =
        *model != NULL && talc_module_to(*model, result->device) &&
        (x = talc_rand(result->device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W))) != NULL;
    if (done) {
        result->x = x;
        result->w = talc_module_find(*model, "conv2d.weight");
        result->bias = p->bias ? talc_module_find(*model, "conv2d.bias") : NULL;
    }
    done = done && forward(*model, x, result);
    progress_step(&bar, "checking against float64 sums");
    done = done && check(result, (uint64_t)self->seed);
    progress_step(&bar, "saving");
    done = done && (self->save == NULL || talc_npy_save(self->save, result->y));
    progress_end(&bar);
    return done;
}

// ---- The report ---------------------------------------------------------------------------------------------

static void print_tensor(const char *name, const talc_tensor *tensor, const char *what)
{
    char dims[TALC_DIMS_TEXT], bytes[TOOL_TEXT];
    printf("  %-10s %-20s %10s   %s%s%s\n", name, talc_dims_text(talc_dims_of(tensor), dims),
           tool_bytes((double)talc_nbytes(tensor), bytes), tool_dim(), what, tool_plain());
}

static void print_algorithms(const talc_conv2d_explanation *e)
{
    char workspace[TOOL_TEXT];
    for (int i = 0; i < e->count; i++) {
        const talc_conv2d_candidate *c = &e->candidates[i];
        const bool chosen = i == e->chosen;
        printf("  %-10s %s%s %-12s%s ", i == 0 ? "algorithm" : "", chosen ? tool_bold() : "",
               chosen ? "->" : "  ", c->name, chosen ? tool_plain() : "");
        if (c->refused)
            printf("%srefuses: %s%s\n", tool_dim(), c->reason, tool_plain());
        else if (c->yields)
            printf("%syields: %s%s\n", tool_dim(), c->reason, tool_plain());
        else
            printf("%s, %s, workspace %s%s\n", c->arithmetic.text,
                   talc_precision_name(c->arithmetic.precision),
                   tool_bytes((double)c->workspace, workspace),
                   chosen ? ": the first that can" : "");
    }
    printf("\n");
}

static void print_check(const outcome *r)
{
    const int64_t total = talc_numel(r->y);
    printf("  %-10s %s%s%s: %s%lld %soutputs compared with float64 sums\n", "result", tool_bold(),
           r->check.share <= 1 ? "correct" : "WRONG", tool_plain(),
           r->check.count == total ? "all " : "", (long long)r->check.count,
           r->check.count == total ? "" : "random ");
    printf("  %-10s largest error %.2g, %.2g %% of the bound 4 u sqrt(K+4) S\n", "", r->check.error,
           100 * r->check.share);
}

static void print_operands(const arguments *self, const outcome *r)
{
    const talc_conv2d_problem *p = &r->problem;
    char text[TALC_CONV2D_TEXT], what[64];
    printf("  %-10s %s\n", "problem", talc_conv2d_problem_text(p, text));
    snprintf(what, sizeof what, "uniform in [0, 1), seed %lld", (long long)self->seed);
    print_tensor("x", r->x, what);
    snprintf(what, sizeof what, "uniform in +-1/sqrt(%lld)",
             (long long)(p->C / p->groups * p->KH * p->KW));
    print_tensor("weight", r->w, what);
    if (r->bias != NULL)
        print_tensor("bias", r->bias, what);
    print_tensor("y", r->y, self->save == NULL ? "" : self->save);
    printf("\n");
}

static void print(const arguments *self, const outcome *r)
{
    char time[TOOL_TEXT], peak[TOOL_TEXT], resident[TOOL_TEXT];
    printf("%sModelNew%s on %s (%s, %d %s)\n\n", tool_bold(), tool_plain(),
           talc_device_name(r->device), r->properties.description, r->properties.units,
           talc_device_is_host(r->device) ? "threads" : "multiprocessors");
    print_operands(self, r);
    print_algorithms(&r->explanation);
    printf("  %-10s %s%s%s for %.4g GFLOP: %s%.1f GFLOP/s%s\n", "forward", tool_bold(),
           tool_seconds(r->seconds, time), tool_plain(), r->explanation.flops / 1e9, tool_bold(),
           r->explanation.flops / r->seconds / 1e9, tool_plain());
    printf("  %-10s at most %s on the device (x, weight, y, workspace)", "memory",
           tool_bytes((double)r->memory.peak, peak));
    if (r->resident > 0)
        printf(", %s in the process", tool_bytes((double)r->resident, resident));
    printf("\n");
    print_check(r);
    printf("\n");
}

static json_t *outcome_json(const arguments *self, const outcome *r)
{
    json_t *check_json = json_pack(
        "{s:I, s:o, s:o, s:[I,I,I,I], s:b}", "outputs", (json_int_t)r->check.count, "largest_error",
        tool_real(r->check.error), "share_of_bound", tool_real(r->check.share), "where",
        (json_int_t)r->check.where[0], (json_int_t)r->check.where[1], (json_int_t)r->check.where[2],
        (json_int_t)r->check.where[3], "correct", r->check.share <= 1);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:s?}",
                     "model", "ModelNew", "device", talc_device_name(r->device), "description",
                     r->properties.description, "x", tool_json_dims(talc_dims_of(r->x)), "weight",
                     tool_json_dims(talc_dims_of(r->w)), "y", tool_json_dims(talc_dims_of(r->y)),
                     "seed", (json_int_t)self->seed, "algorithm",
                     r->explanation.candidates[r->explanation.chosen].name, "explanation",
                     tool_json_explanation(&r->explanation), "seconds", tool_real(r->seconds),
                     "gflops", tool_real(r->explanation.flops / r->seconds / 1e9), "peak_memory",
                     (json_int_t)r->memory.peak, "resident_peak", (json_int_t)r->resident, "check",
                     check_json, "output", self->save);
}

int command_run(int argc, char **argv)
{
    arguments self = { .problem = "A", .batch = -1, .seed = 1 };
    tool_parse(&argp, argc, argv, &self);
    outcome result = { .device = tool_open(&self.tool) };
    talc_module *model = NULL;
    if (result.device != NULL && !find_problem(&self, &result.problem))
        return tool_usage_talc();
    if (result.device == NULL || !run(&model, &self, &result)) {
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
    return result.check.share <= 1 ? code
                                   : tool_fail("a result is outside its algorithm's error bound");
}
