/// talc explain: which algorithm an op would use, and why: nothing runs and no operand is made. And
/// what becomes of each layer of a model, by one forward pass.
#include "tools/cli/conv2d_arguments.h"
#include "tools/cli/models.h"
#include "tools/cli/problems.h"

#include <string.h>

typedef struct arguments {
    tool_options tool;
    conv2d_arguments conv2d;
    const char *texts[2]; ///< the problem, or the shapes of x and w
    bool bias;
    talc_dtype dtype;
    bool train;
    const char *input;
} arguments;

enum { KEY_BIAS = 3000, KEY_DTYPE };

static const tool_option options[] = {
    { "bias", KEY_BIAS, NULL, "with a bias (for shapes)", 3, TOOL_OWN, 0, 0 },
    { "dtype", KEY_DTYPE, "NAME", "f32 or f64 (for shapes)", 3, TOOL_OWN, 0, 0 },
    { "input", MODEL_INPUT, "SHAPE|X.npy", "of a model: what it is given (default: one image)", 3,
      TOOL_STRING_AT(arguments, input) },
    { "train", 0, NULL, "of a model in training, with its gradient recorded", 3,
      TOOL_TRUE_AT(arguments, train) },
    { .name = NULL },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[1] = &self->conv2d;
        return 0;
    case KEY_BIAS:
        self->bias = self->conv2d.shaped = true;
        return 0;
    case KEY_DTYPE:
        if (!talc_dtype_from_name(argument, &self->dtype) || !talc_dtype_is_float(self->dtype))
            tool_usage(state, "--dtype: '%s' is not f32 or f64", TALC_SHOWN(argument));
        self->conv2d.shaped = true;
        return 0;
    case ARGP_KEY_END:
        if ((self->train || self->input != NULL) &&
            (state->arg_num > 1 || model_find(self->texts[0]) == NULL)) {
            if (talc_failed())
                tool_usage(state, "%s", talc_error_message());
            tool_usage(state, "--%s is for models, which '%s' is not",
                       self->train ? "train" : "input", TALC_SHOWN(self->texts[0]));
        }
        if (state->arg_num == 1 && self->conv2d.shaped)
            tool_usage(state,
                       "the problem '%s' has all options but --algorithm in its text; give the "
                       "others with the shapes of x and w",
                       TALC_SHOWN(self->texts[0]));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &tool_argp, 0, NULL, 10 },
                                              { &conv2d_argp, 0, NULL, 2 },
                                              { 0 } };
static const tool_syntax syntax = {
    .options = options,
    .text = offsetof(arguments, texts),
    .texts = 2,
    .needed = 1,
    .missing = "give a problem, or the shapes of x and w",
    .parse = parse,
    .args_doc = "PROBLEM\nN,C,H,W OC,C/GROUPS,KH,KW\nNETWORK",
    .doc =
        "Which algorithm an op would use, and why, before anything runs. Of a model, by one "
        "forward pass: what became of each layer, which ones are fused, and by which "
        "algorithm.\v"
        "PROBLEM is a convolution, n8c64h512w256o128k5x7s1x1p0x0d1x1g1 or a name: A1, B1, A, "
        "B, conv64, ... (talc bench --list shows them). For other ops it is a text as talc "
        "check takes it: max_pool2d:n1c8h9w9k3x3s2x2, matmul:m5n6k7_tb_bias (a linear layer), "
        "sum:8x16@1, softmax:64x1000@1, cross_entropy:8x10, batch_norm2d:n8c16h7w7_relu; or "
        "an elementwise op of that shape: relu:8x16, add:8x16,8x1. A convolution is explained "
        "with its gradients, conv2d.grad_input and conv2d.grad_weight; of a text that ends in "
        "_dx or _dw only that one. --algorithm is the forward one's, or that one's. Exit code 1: "
        "the call would fail.",
    .children = children,
};

/* A tensor of that shape which holds one element: shapes are all that counts here. */
static talc_tensor *shape_only(talc_device *device, talc_dtype dtype, const char *text)
{
    talc_dims dims = { .rank = 0 };
    dims.rank = tool_numbers(text, TALC_MAX_RANK, dims.dim);
    if (dims.rank == 0) {
        talc_fail(TALC_BAD_ARGUMENT, "'%s' is not a shape such as 8,3,32,32", TALC_SHOWN(text));
        return NULL;
    }
    talc_dims ones = dims;
    for (int i = 0; i < ones.rank; i++)
        ones.dim[i] = 1;
    return talc_expand(talc_zeros(device, dtype, ones), dims);
}

/* The problem, "conv2d:" left out. */
static const char *conv2d_text(const arguments *self)
{
    const char *text = self->texts[0];
    return strncmp(text, "conv2d:", 7) == 0 ? text + 7 : text;
}

static bool find_problem(talc_device *device, const arguments *self, talc_conv2d_problem *problem)
{
    if (self->texts[1] == NULL)
        return problem_read(conv2d_text(self), problem);
    const talc_tensor *x = shape_only(device, self->dtype, self->texts[0]);
    const talc_tensor *w = shape_only(device, self->dtype, self->texts[1]);
    const talc_tensor *bias =
        self->bias && w != NULL ? talc_zeros(device, self->dtype, TALC_DIMS(w->dims[0])) : NULL;
    return !talc_failed() && talc_conv2d_problem_of(x, w, bias, &self->conv2d.options, problem);
}

static int print_decision(const talc_explanation *e, const char *text, bool json)
{
    char limit[TOOL_TEXT];
    if (json)
        return tool_json_print(tool_json_explanation(e, json_pack("{s:s}", "text", text)));
    printf("%s\n  the workspace limit is %s\n", text,
           talc_bytes_text((double)e->workspace_limit, limit));
    talc_explanation_print(stdout, e);
    return tool_finish();
}

/* The exit code of what was printed with `code`: a call that would fail is a failure. */
static int verdict(int code, const talc_explanation *e)
{
    return code == TOOL_OK && e->chosen < 0 ? TOOL_FAILED : code;
}

/* The exit code of a problem that is none: 1 where it reads well and cannot run. */
static int refuse(void)
{
    const talc_status status = talc_error_status();
    return status == TALC_BAD_SHAPE || status == TALC_TOO_LARGE ? tool_fail_talc()
                                                                : tool_usage_talc();
}

static int explain_op(const char *text, const char *algorithm, talc_device *device, bool json)
{
    talc_explanation explanation;
    return talc_explain(device, text, algorithm, &explanation)
               ? verdict(print_decision(&explanation, text, json), &explanation)
               : refuse();
}

/* A convolution and its gradients, or the one direction that the problem's text asks for. */
enum { DIRECTIONS = 3 };

static int explain_directions(const arguments *self, talc_device *device,
                              talc_conv2d_explanation explanations[DIRECTIONS])
{
    talc_conv2d_problem problem;
    if (!find_problem(device, self, &problem))
        return -refuse();
    const int count = problem.direction == TALC_FORWARD ? DIRECTIONS : 1;
    talc_conv2d_options taken = self->conv2d.options;
    for (int i = 0; i < count; i++) {
        problem.direction = i == 0 ? problem.direction : (talc_direction)i;
        if (!talc_conv2d_explain(device, &problem, &taken, &explanations[i]))
            return -tool_fail_talc();
        taken.algorithm = NULL; /* which is the forward direction's */
    }
    return count;
}

static int explain_conv2d(const arguments *self, talc_device *device)
{
    static talc_conv2d_explanation explanations[DIRECTIONS];
    const int count = explain_directions(self, device, explanations);
    if (count < 0)
        return -count;
    if (!self->tool.json) {
        for (int i = 0; i < count; i++) {
            printf("%s", i > 0 ? "\n" : "");
            talc_conv2d_explanation_print(stdout, &explanations[i]);
        }
        return verdict(tool_finish(), &explanations[0].decision);
    }
    json_t *all[DIRECTIONS], *gradients = json_array();
    for (int i = 0; i < count; i++)
        all[i] = tool_json_explanation(&explanations[i].decision,
                                       tool_json_problem(&explanations[i].problem));
    for (int i = 1; i < count; i++)
        json_array_append_new(gradients, all[i]);
    json_object_set_new(all[0], "gradients", gradients);
    return verdict(tool_json_print(all[0]), &explanations[0].decision);
}

static int print_steps(const talc_network *of, const talc_device *device,
                       const talc_module_explanation *explanation, bool json)
{
    if (!json) {
        talc_module_explanation_print(stdout, explanation);
        return tool_finish();
    }
    json_t *steps = json_array();
    for (int i = 0; i < explanation->count; i++) {
        const talc_module_step *step = &explanation->steps[i];
        json_array_append_new(
            steps, json_pack("{s:s, s:s, s:s, s:s, s:o, s:s}", "layers", step->layers, "does",
                             step->does, "op", step->op, "window", step->window, "output",
                             tool_json_dims(step->output), "algorithm", step->algorithm));
    }
    return tool_json_print(json_pack("{s:s, s:s, s:o}", "network", of->name, "device",
                                     talc_device_name(device), "steps", steps));
}

static int explain_model(const talc_network *known, const arguments *self, talc_device *device)
{
    const char *algorithm = self->conv2d.options.algorithm;
    const bool train = self->train;
    const model_arguments model_of = { .network = known, .input = self->input, .batch = 1 };
    if (algorithm != NULL)
        talc_algorithm_force("conv2d", algorithm);
    talc_module *model = model_make(known, NULL);
    talc_tensor *x = model == NULL ? NULL : model_input(&model_of, model);
    x = x == NULL ? NULL : talc_to(x, device, x->dtype);
    talc_module_explanation explanation = { 0 };
    if (train)
        talc_no_grad_leave();
    const bool explained =
        model != NULL && x != NULL && talc_module_to(model, device) &&
        (train ? talc_module_explain_training : talc_module_explain)(model, x, &explanation);
    if (train)
        talc_no_grad_enter();
    const int code =
        explained ? print_steps(known, device, &explanation, self->tool.json) : tool_fail_talc();
    talc_module_explanation_free(&explanation);
    talc_module_free(model);
    return code;
}

int command_explain(int argc, char **argv)
{
    arguments self = { .dtype = TALC_F32 };
    tool_parse(&syntax, argc, argv, &self);
    talc_device *device = tool_open(&self.tool);
    if (device == NULL)
        return tool_fail_talc();
    const char *algorithm = self.conv2d.options.algorithm;
    const talc_network *known = self.texts[1] == NULL ? model_find(self.texts[0]) : NULL;
    if (known != NULL)
        return explain_model(known, &self, device);
    if (talc_failed())
        return tool_fail_talc();
    if (self.texts[1] == NULL && strchr(conv2d_text(&self), ':') != NULL)
        return explain_op(self.texts[0], algorithm, device, self.tool.json);
    return explain_conv2d(&self, device);
}
