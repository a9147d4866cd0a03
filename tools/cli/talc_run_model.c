/// talc run NETWORK: a forward pass of a network, on images or on random input.
#include "tools/cli/models.h"
#include "tools/cli/ranking.h"
#include "tools/cli/run_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    model_arguments model; ///< the first, as model_parse has it
    const char *output, *labels;
    int64_t top;
    char **paths; ///< of images
    int count;
} arguments;

enum { KEY_MEAN = 7000, KEY_DEVIATION, KEY_RESIZE, KEY_CROP };

static const tool_option options[] = {
    { "weights", 'w', "F.safetensors", "parameters (default: random)", 1,
      TOOL_STRING_AT(arguments, model.weights) },
    { "classes", 'c', "N", "classes of the weights (default: the network's own)", 1,
      TOOL_NUMBER_AT(arguments, model.classes, 1) },
    { "input", MODEL_INPUT, "X.npy|IMAGE|SHAPE",
      "images, or the shape of random ones, N x channels x height x width (default: the network's "
      "own)",
      2, TOOL_OWN, 0, 0 },
    { "batch", MODEL_BATCH, "N", "how many random images (default 1)", 2, TOOL_OWN, 0, 0 },
    { "resize", KEY_RESIZE, "N|HxW",
      "of an image: its shorter side, or its height x width, to that many pixels", 2, TOOL_OWN, 0,
      0 },
    { "crop", KEY_CROP, "N|HxW",
      "the middle of an image, after --resize, with zeros around where it is smaller", 2, TOOL_OWN,
      0, 0 },
    { "mean", KEY_MEAN, "M,...",
      "of an image's pixels in 0 .. 1, for each channel (default: 0.485,0.456,0.406 of colours, 0 "
      "of "
      "grey)",
      2, TOOL_OWN, 0, 0 },
    { "std", KEY_DEVIATION, "S,...", "their deviation (default: 0.229,0.224,0.225, or 1)", 2,
      TOOL_OWN, 0, 0 },
    { "seed", 's', "S", "of random weights and input (default 1)", 2,
      TOOL_NUMBER_AT(arguments, model.seed, 0) },
    { "output", 'o', "Y.npy", "write the output here", 3, TOOL_NPY_AT(arguments, output) },
    { "top", 't', "K",
      "show the K likeliest classes of each image (default: 5 of images from a file)", 3,
      TOOL_NUMBER_AT(arguments, top, 1) },
    { "labels", 'l', "FILE", "the classes' names, one a line", 3,
      TOOL_STRING_AT(arguments, labels) },
    { .name = NULL },
};

/* Reads three numbers with commas between, or one for all, and returns how many. */
static int read_pixels(struct argp_state *state, const char *option, const char *text,
                       double numbers[3])
{
    char *end = (char *)text;
    int count = 0;
    do {
        const char *begin = *end == ',' ? end + 1 : end;
        const double number = strtod(begin, &end);
        if (end == begin || count == 3 || (*end != ',' && *end != '\0'))
            tool_usage(state, "%s: '%s' is not a number, or three with commas between", option,
                       TALC_SHOWN(text));
        numbers[count++] = number;
    } while (*end == ',');
    if (count == 2)
        tool_usage(state, "%s: '%s' has 2 numbers, not 1 or 3", option, TALC_SHOWN(text));
    for (int i = count; i < 3; i++)
        numbers[i] = numbers[0];
    return count;
}

static talc_image_size read_size(struct argp_state *state, const char *option, const char *text)
{
    enum { MAX = 1 << 20 };
    char commas[64];
    int64_t sides[2] = { 0 };
    snprintf(commas, sizeof commas, "%s", text);
    for (char *at = commas; *at != '\0'; at++)
        *at = *at == 'x' ? ',' : *at == ',' ? 'x' : *at;
    const size_t length = strlen(text);
    const int count = length < sizeof commas && length > 0 && text[length - 1] != 'x'
                          ? tool_numbers(commas, 2, sides)
                          : 0;
    bool fit = count > 0;
    for (int i = 0; i < count; i++)
        fit = fit && sides[i] >= 1 && sides[i] <= MAX;
    if (!fit)
        tool_usage(state, "%s: '%s' is neither N nor HxW, of sides of 1 .. %d pixels", option,
                   TALC_SHOWN(text), MAX);
    return (talc_image_size){ sides[0], sides[1] };
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case KEY_MEAN:
        self->model.pixels.mean_count =
            read_pixels(state, "--mean", argument, self->model.pixels.mean);
        return 0;
    case KEY_DEVIATION:
        self->model.pixels.deviation_count =
            read_pixels(state, "--std", argument, self->model.pixels.deviation);
        for (int i = 0; i < 3; i++)
            if (!(self->model.pixels.deviation[i] > 0))
                tool_usage(state, "--std: '%s' is no deviation, which is above 0",
                           TALC_SHOWN(argument));
        return 0;
    case KEY_RESIZE:
        self->model.pixels.resize = read_size(state, "--resize", argument);
        return 0;
    case KEY_CROP:
        self->model.pixels.crop = read_size(state, "--crop", argument);
        return 0;
    case ARGP_KEY_ARG:
        return state->arg_num > 0 ? ARGP_ERR_UNKNOWN : model_parse(key, argument, state);
    case ARGP_KEY_ARGS: /* behind the network; options are parsed by now */
        self->paths = state->argv + state->next;
        self->count = state->argc - state->next;
        if (self->model.input != NULL || self->output != NULL || self->model.batch_given)
            tool_usage(state, "'%s' is an image of a list, which %s is not for",
                       TALC_SHOWN(self->paths[0]),
                       self->model.input != NULL ? "--input"
                       : self->output != NULL    ? "--output"
                                                 : "--batch");
        return 0;
    case ARGP_KEY_NO_ARGS:
        self->model.network = model_find_by_weights(&self->model);
        if (self->model.network != NULL)
            return 0;
        if (self->model.weights != NULL)
            model_fail_by_weights(state, &self->model);
        else
            tool_usage(state, "which network? `talc summary` lists them; and there is model-new");
        return 0;
    default:
        return model_parse(key, argument, state);
    }
}

// ---- The pass -----------------------------------------------------------------------------------

/* y on the CPU; *seconds of a pass after a first one, which loads kernels and folds norms. */
static talc_tensor *pass(talc_module *model, talc_tensor *x, double *seconds)
{
    talc_module_eval(model);
    talc_tensor *y = x;
    for (int i = 0; i < 2 && y != NULL; i++) {
        talc_device_synchronize(x->device);
        const double start = tool_clock();
        y = talc_forward(model, x);
        talc_device_synchronize(x->device);
        *seconds = tool_clock() - start;
    }
    return talc_failed() ? NULL : talc_to(y, talc_device_get("cpu"), y->dtype);
}

static void print_classes(const ranking *r, const ranked *likeliest, int64_t images)
{
    for (int64_t i = 0; i < images * r->top; i++) {
        const char *name = ranking_name(r, &likeliest[i]);
        if (i % r->top == 0)
            printf("  image %" PRId64 "\n", i / r->top);
        printf("    %7.3f %%  %4" PRId64 "%s%s\n", 100 * likeliest[i].probability,
               likeliest[i].class, name == NULL ? "" : "  ", name == NULL ? "" : TALC_SHOWN(name));
    }
}

/* `likeliest` is NULL where no classes are asked for. */
static int report(const arguments *self, const talc_tensor *x, const talc_tensor *y, double seconds,
                  const ranking *r, const ranked *likeliest)
{
    const int64_t images = likeliest == NULL ? 0 : y->dims[0];
    json_t *classes = self->model.tool.json ? json_array() : NULL;
    for (int64_t i = 0; i < images && classes != NULL; i++)
        json_array_append_new(classes, ranking_json(r, likeliest + i * r->top));
    char shape[TALC_DIMS_TEXT], other[TALC_DIMS_TEXT], time[TOOL_TEXT], weights[TALC_SHOWN_TEXT];
    if (self->model.tool.json)
        return tool_json_print(
            json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "network",
                      self->model.network->name, "device", talc_device_name(x->device), "weights",
                      tool_json_text(self->model.weights), "input", tool_json_dims(talc_dims_of(x)),
                      "output", tool_json_dims(talc_dims_of(y)), "seconds", tool_real(seconds),
                      "saved", tool_json_text(self->output), "classes", classes));
    talc_print_wrapped(stdout, 2, "%s%s%s on %s: %s -> %s in %s, %s weights", tool_bold(),
                       self->model.network->name, tool_plain(), talc_device_name(x->device),
                       talc_dims_text(talc_dims_of(x), shape),
                       talc_dims_text(talc_dims_of(y), other), tool_seconds(seconds, time),
                       model_weights(&self->model, weights));
    print_classes(r, likeliest, images);
    return tool_finish();
}

int command_run_model(int argc, char **argv)
{
    static const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "[NETWORK]\nNETWORK FILE|FOLDER...\nmodel-new",
        .doc =
            "Runs a network in evaluation mode; `talc summary` lists the networks, and `talc run "
            "model-new --help` is about one convolution with all that can be said of it.\v"
            "Weights are a safetensors file with the names of torchvision's model or of "
            "tools/torch/networks.py; tools/torch/pt2safetensors.py makes one of a .pt checkpoint. "
            "An image is a PNG or JPEG file; a list of them, and of folders, gives a table of "
            "classes. A network for ImageNet takes images of any size: by default the shorter side "
            "becomes 256, bicubically for EfficientNet and else bilinearly, and the middle of the "
            "network's own size is cut out; for another network, and where --resize or --crop is "
            "given, nothing is done but what is asked for, and the size must fit. Pixels become "
            "(pixel / 255 - mean) / std. Weights that talc saved may say which network they are "
            "of, the size, mean and deviation of images, and the classes; options go before that.",
    };
    arguments self = { .model = { .batch = 1, .seed = 1 } };
    tool_parse(&syntax, argc, argv, &self);
    if (self.count > 0)
        return run_files(&self.model, self.paths, self.count, self.top, self.labels);
    if (self.labels != NULL && self.top == 0 && !model_input_is_file(&self.model))
        self.top = 1;
    talc_module *model;
    talc_tensor *x;
    double seconds = 0;
    ranking r = { 0 };
    ranked *likeliest = NULL;
    talc_tensor *y = model_open(&self.model, &model, &x) ? pass(model, x, &seconds) : NULL;
    if (y != NULL && y->rank == 2 && self.top == 0 && model_input_is_file(&self.model))
        self.top = y->dims[1] < RUN_TOP ? y->dims[1] : RUN_TOP;
    if (y != NULL && self.top > 0 &&
        ranking_begin(&r, self.model.network->name, y, self.top, self.labels,
                      talc_module_info(model)))
        likeliest = ranking_of(&r, y);
    const bool done = y != NULL && (self.top == 0 || likeliest != NULL) &&
                      (self.output == NULL || talc_npy_save(self.output, y));
    const int code =
        done ? report(&self, x, y, seconds, &r, likeliest) : model_usage(&self.model, x);
    free(likeliest);
    ranking_end(&r);
    talc_module_free(model);
    return code;
}
