/// talc export NETWORK: a network as an ONNX file, for programs other than talc.
#include "tools/cli/models.h"

#include <string.h>

typedef struct arguments {
    model_arguments model; ///< the first, as model_parse has it
    const char *output;
} arguments;

static const tool_option options[] = {
    { "output", 'o', "FILE.onnx", "the file to write", 1, TOOL_STRING_AT(arguments, output) },
    { "weights", 'w', "F.safetensors", "parameters (default: random)", 2,
      TOOL_STRING_AT(arguments, model.weights) },
    { "classes", 'c', "N", "classes of the weights (default: the network's own)", 2,
      TOOL_NUMBER_AT(arguments, model.classes, 1) },
    { "input", MODEL_INPUT, "SHAPE|X.npy",
      "whose height and width the file is for, N x channels x height x width (default: the "
      "network's own)",
      2, TOOL_OWN, 0, 0 },
    { "seed", 's', "S", "of random weights (default 1)", 2,
      TOOL_NUMBER_AT(arguments, model.seed, 0) },
    { .name = NULL },
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case ARGP_KEY_END:
        if (self->output == NULL)
            tool_usage(state, "which file? --output FILE.onnx says it");
        return 0;
    case ARGP_KEY_NO_ARGS:
        self->model.network = model_find_by_weights(&self->model);
        if (self->model.network != NULL)
            return 0;
        if (self->model.weights != NULL)
            model_fail_by_weights(state, &self->model);
        else
            tool_usage(state, "which network? `talc summary` lists them");
        return 0;
    default:
        return model_parse(key, argument, state);
    }
}

static int report(const arguments *self, const talc_tensor *x, const talc_tensor *y)
{
    char in[TALC_DIMS_TEXT], out[TALC_DIMS_TEXT], weights[TALC_SHOWN_TEXT];
    if (self->model.tool.json)
        return tool_json_print(json_pack(
            "{s:s, s:o, s:o, s:o, s:o}", "network", self->model.network->name, "weights",
            tool_json_text(self->model.weights), "input", tool_json_dims(talc_dims_of(x)), "output",
            tool_json_dims(talc_dims_of(y)), "saved", tool_json_text(self->output)));
    talc_print_wrapped(stdout, 2, "%s%s%s: %s -> %s, %s weights, in %s; the batch is open",
                       tool_bold(), self->model.network->name, tool_plain(),
                       talc_dims_text(talc_dims_of(x), in), talc_dims_text(talc_dims_of(y), out),
                       model_weights(&self->model, weights), TALC_SHOWN(self->output));
    return tool_finish();
}

int command_export(int argc, char **argv)
{
    static const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "[NETWORK]",
        .doc = "Writes a network as an ONNX file of opset 17, its weights inside, for one image or "
               "more. Weights that say which network they are of need no name.",
    };
    arguments self = { .model = { .batch = 1, .seed = 1 } };
    tool_parse(&syntax, argc, argv, &self);
    talc_module *model;
    talc_tensor *x;
    const bool made = model_open(&self.model, &model, &x);
    const talc_tensor *y = made && talc_module_eval(model) ? talc_forward(model, x) : NULL;
    const bool done = y != NULL && talc_onnx_save(model, x, self.output);
    const int code = done ? report(&self, x, y) : model_usage(&self.model, x);
    talc_module_free(model);
    return code;
}
