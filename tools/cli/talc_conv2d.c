/// talc conv2d: a convolution of .npy files.
#include "tools/cli/conv2d_arguments.h"

typedef struct arguments {
    tool_options tool;
    conv2d_arguments conv2d;
    const char *x, *w, *bias, *output;
} arguments;

static const tool_option options[] = {
    { NULL, 0, NULL, "Files:", 1, TOOL_OWN, 0, 0 },
    { "bias", 'b', "B.npy", "[OC], added to every output channel", 1,
      TOOL_STRING_AT(arguments, bias) },
    { "output", 'o', "Y.npy", "write the result here", 1, TOOL_NPY_AT(arguments, output) },
    { .name = NULL },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    (void)argument;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[1] = &self->conv2d;
    return 0;
}

static const struct argp_child children[] = { { &tool_argp, 0, NULL, 10 },
                                              { &conv2d_argp, 0, NULL, 2 },
                                              { 0 } };
static const tool_syntax syntax = {
    .options = options,
    .text = offsetof(arguments, x),
    .texts = 2,
    .needed = 2,
    .missing = "x.npy and w.npy are needed",
    .parse = parse,
    .args_doc = "X.npy W.npy",
    .doc = "Convolves x [N,C,H,W] with w [OC,C/groups,KH,KW] and says how.\v"
           "All files are f32, or all f64, which NumPy makes unless it is told otherwise: "
           "np.save('x.npy', x.astype(np.float32)).",
    .children = children,
};

static int report(const arguments *self, const talc_tensor *y,
                  const talc_conv2d_explanation *explanation, double seconds)
{
    const talc_candidate *chosen = &explanation->decision.candidates[explanation->decision.chosen];
    if (self->tool.json) {
        json_t *json = json_pack(
            "{s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:o}", "device", explanation->decision.device,
            "shape", tool_json_dims(talc_dims_of(y)), "dtype", talc_dtype_name(y->dtype),
            "algorithm", chosen->title, "arithmetic", chosen->arithmetic.text, "seconds",
            tool_real(seconds), "problem", tool_json_problem(&explanation->problem), "output",
            tool_json_text(self->output));
        return tool_json_print(json);
    }
    char dims[TALC_DIMS_TEXT], time[TOOL_TEXT], rate[TALC_COUNT_TEXT];
    talc_print_wrapped(stdout, 2, "y %s %s on %s: %s (%s), %s, %s",
                       talc_dims_text(talc_dims_of(y), dims), talc_dtype_name(y->dtype),
                       explanation->decision.device, chosen->title, chosen->arithmetic.text,
                       tool_seconds(seconds, time),
                       talc_count_text(explanation->flops / seconds, "FLOP/s", rate));
    if (self->output != NULL)
        printf("written to %s\n", TALC_SHOWN(self->output));
    return tool_finish();
}

int command_conv2d(int argc, char **argv)
{
    arguments self = { .x = NULL };
    tool_parse(&syntax, argc, argv, &self);
    talc_device *device = tool_open(&self.tool);
    if (device == NULL)
        return tool_fail_talc();

    const talc_conv2d_options *o = &self.conv2d.options;
    const talc_tensor *x = talc_npy_load(device, self.x);
    const talc_tensor *w = talc_npy_load(device, self.w);
    const talc_tensor *bias = self.bias == NULL ? NULL : talc_npy_load(device, self.bias);
    talc_conv2d_problem problem;
    talc_conv2d_explanation explanation;
    if (talc_failed() || !talc_conv2d_problem_of(x, w, bias, o, &problem) ||
        !talc_conv2d_explain(device, &problem, o, &explanation)) {
        tool_convert_hint(self.x, x);
        tool_convert_hint(self.w, w);
        return tool_fail_talc();
    }

    const double start = tool_clock();
    const talc_tensor *y = talc_conv2d(x, w, bias, o);
    talc_device_synchronize(device);
    const double seconds = tool_clock() - start;
    if (y == NULL || (self.output != NULL && !talc_npy_save(self.output, y)))
        return tool_fail_talc();
    return report(&self, y, &explanation, seconds);
}
