/// talc check model: one of the networks, op by op, against a second run or saved activations.
#include "tools/cli/models.h"
#include "tools/cli/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    model_arguments model; ///< the first, as model_parse has it
    const char *reference, *algorithm, *reference_algorithm;
    const char *activations, *save;
    bool unfused, training;
} arguments;

static const tool_option options[] = {
    { "reference", 'r', "DEVICE", "device of the reference run (default: the CPU)", 1,
      TOOL_STRING_AT(arguments, reference) },
    { "algorithm", 'a', "OP=NAME,...", "algorithms of the run that is checked", 1,
      TOOL_STRING_AT(arguments, algorithm) },
    { "reference-algorithm", 0, "OP=NAME,...",
      "algorithms of the reference run (default: each op's `reference`)", 1,
      TOOL_STRING_AT(arguments, reference_algorithm) },
    { "activations", 0, "FILE", "safetensors of layer outputs, used in place of a reference run", 1,
      TOOL_STRING_AT(arguments, activations) },
    { "unfused", 0, NULL, "run every module by itself, fuse none", 1,
      TOOL_TRUE_AT(arguments, unfused) },
    { "train", 0, NULL, "in train mode, but without dropout and drop path", 1,
      TOOL_TRUE_AT(arguments, training) },
    { "weights", 'w', "FILE", "safetensors of parameters (default: random)", 2,
      TOOL_STRING_AT(arguments, model.weights) },
    { "input", MODEL_INPUT, "X.npy|IMAGE|SHAPE",
      "the model's input, or the shape of a random one (default: random images of its own size)", 2,
      TOOL_OWN, 0, 0 },
    { "batch", MODEL_BATCH, "N", "batch size of a random input (default 2)", 2, TOOL_OWN, 0, 0 },
    { "seed", 's', "S", "seed of random weights and input (default 1)", 2,
      TOOL_NUMBER_AT(arguments, model.seed, 0) },
    { "save-activations", 0, "FILE", "write the layer outputs, for another machine", 3,
      TOOL_STRING_AT(arguments, save) },
    { .name = NULL },
};

// ---- Arguments ----------------------------------------------------------------------------------

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case ARGP_KEY_END:
        if (self->training && self->save != NULL)
            tool_usage(state, "--save-activations writes those of evaluation mode, not of --train");
        return 0;
    case ARGP_KEY_NO_ARGS:
        tool_usage(state, "which model? `talc summary` lists them");
        return 0;
    default:
        return model_parse(key, argument, state);
    }
}

// ---- The check ----------------------------------------------------------------------------------

/* Whether the model runs on an input that was given. Random numbers are drawn as without it. */
static bool takes(const arguments *self, talc_module *model, talc_tensor **x)
{
    const talc_generator before = talc_generator_get();
    talc_module_explanation explanation = { 0 };
    *x = model_input(&self->model, model);
    const bool taken = *x != NULL && talc_module_explain(model, *x, &explanation);
    talc_module_explanation_free(&explanation);
    return talc_generator_set(before) && taken;
}

/* The model with its weights, and its input. A random model is run on some images in train mode, so
 * that its batch norms' running statistics are not the initial ones. An input that was given is
 * tried before, as these images may take minutes; saved activations are compared with it first. */
static bool make(const arguments *self, talc_module **model, talc_tensor **x)
{
    *model = model_new(&self->model);
    const bool random = model_is_random(&self->model);
    const bool tried = random && self->model.input != NULL && self->activations == NULL;
    if (*model == NULL || (tried && !takes(self, *model, x)))
        return false;
    for (int i = 0; random && i < 3 && !talc_failed(); i++)
        talc_forward(*model, model_images(self->model.network, 4));
    if (!talc_failed() && (*x == NULL || !model_input_is_file(&self->model)))
        *x = model_input(&self->model, *model);
    return *x != NULL && !talc_failed();
}

static bool check(const arguments *self, talc_module *model, talc_tensor *x, talc_device *device,
                  talc_check_model_report **report)
{
    const bool saved = self->activations != NULL;
    talc_device *reference = self->reference == NULL ? NULL : talc_device_get(self->reference);
    /* Only the CPU has reference algorithms. */
    const bool has_references = !saved && (reference == NULL || talc_device_is_host(reference));
    char *references =
        self->reference_algorithm != NULL || !has_references ? NULL : model_references(model, x);
    const talc_check_model_options check_options = {
        .device = device,
        .reference = reference,
        .algorithm = self->algorithm,
        .reference_algorithm = references != NULL ? references : self->reference_algorithm,
        .unfused = self->unfused,
        .activations = self->activations,
        .training = self->training,
    };
    const bool checked =
        !talc_failed() && talc_module_to(model, device) &&
        (self->save == NULL || talc_check_model_save_activations(model, x, self->save)) &&
        talc_check_model(model, x, &check_options, report);
    free(references);
    return checked;
}

/* A report without a wrong layer that did not pass compared nothing. */
static bool something_compared(const talc_check_model_report *report)
{
    if (!talc_check_model_passed(report) && talc_check_model_first_wrong(report) < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "check_model: nothing was compared: no layer, or not the last, has an output "
                  "and a reference with finite elements");
    return !talc_failed();
}

// ---- Results ------------------------------------------------------------------------------------

static json_t *layer_json(const talc_check_model_layer *layer)
{
    talc_dims where = layer->where;
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}",
                     "layer", layer->path, "op", layer->op, "algorithm", layer->algorithm, "output",
                     tool_json_dims(layer->dims), "own", tool_real(layer->own), "step",
                     tool_real(layer->step), "accumulated", tool_real(layer->accumulated),
                     "difference", tool_real(layer->difference), "unexplained",
                     tool_real(layer->unexplained), "allowed", tool_real(layer->allowed), "where",
                     tool_json_dims(where), "got", tool_real(layer->got), "expected",
                     tool_real(layer->expected), "passed", layer->passed);
}

static int print_json(const arguments *self, const talc_device *device,
                      const talc_check_model_report *report)
{
    json_t *layers = json_array();
    for (int i = 0; i < talc_check_model_count(report); i++)
        json_array_append_new(layers, layer_json(talc_check_model_at(report, i)));
    json_t *skipped = json_array();
    for (int i = 0; i < talc_check_model_skipped(report); i++)
        json_array_append_new(skipped, tool_json_text(talc_check_model_skipped_name(report, i)));
    const int wrong = talc_check_model_first_wrong(report);
    return tool_json_print(json_pack(
        "{s:s, s:s, s:o, s:I, s:b, s:b, s:o, s:o, s:o}", "network", self->model.network->name,
        "device", talc_device_name(device), "activations", tool_json_text(self->activations),
        "seed", (json_int_t)self->model.seed, "training", self->training, "passed",
        talc_check_model_passed(report), "first_wrong",
        wrong < 0 ? json_null() : json_integer(wrong), "skipped", skipped, "layers", layers));
}

/* What of a run was random, and so not what the activations were saved with. */
static void print_random(const model_arguments *model)
{
    if (model->weights == NULL)
        talc_print_wrapped(stdout, 2, "the weights of this run are random: --weights names others");
    if (!model_input_is_file(model))
        talc_print_wrapped(stdout, 2, "the input of this run is random: --input names another");
}

int command_check_model(int argc, char **argv)
{
    static const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "NETWORK",
        .doc =
            "Runs a model twice, on two devices or with two algorithms, or once against saved "
            "layer outputs, and compares every op with the exact result for the inputs it had "
            "(own) and with the reference (step, accumulated).\v"
            "These three are errors over their bounds: at most 1 passes. The first layer with own "
            "above 1, or with step above 1 beside saved outputs, is wrong. "
            "Layer outputs are named by their module's path, the second call of a module with :2 "
            "behind it, and the model's own output is named output; names that the model lacks "
            "are counted and skipped. docs/checking.md shows how PyTorch saves them. Exit code 1: "
            "a layer is "
            "wrong; 2: wrong usage, or nothing could be checked.",
    };
    arguments self = { .model = { .batch = 2, .seed = 1 } };
    static char name[] = "talc check model";
    tool_set_name(name);
    argv[0] = name;
    tool_parse(&syntax, argc, argv, &self);
    talc_device *device = tool_open(&self.model.tool);
    talc_manual_seed((uint64_t)self.model.seed);
    talc_module *model = NULL;
    talc_tensor *x = NULL;
    talc_check_model_report *report = NULL;
    int code = TOOL_USAGE;
    if (device == NULL || !make(&self, &model, &x) || !check(&self, model, x, device, &report) ||
        !something_compared(report)) {
        (void)model_usage(&self.model, x);
    } else if (self.model.tool.json) {
        code = print_json(&self, device, report);
    } else {
        talc_check_model_print(stdout, report);
        if (!talc_check_model_passed(report) && self.activations != NULL)
            print_random(&self.model);
        code = tool_finish();
    }
    if (talc_check_model_first_wrong(report) >= 0)
        code = TOOL_FAILED;
    talc_check_model_free(report);
    talc_module_free(model);
    return code;
}
