/// talc run NETWORK: a forward pass of a network, on images or on random input.
#include "tools/cli/models.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* How many classes of an image are shown where nobody says. */
enum { TOP = 5 };

typedef struct arguments {
    model_arguments model; ///< the first, as model_parse has it
    const char *output, *labels;
    int64_t top;
} arguments;

enum { KEY_MEAN = 7000, KEY_DEVIATION };

static const tool_option options[] = {
    { "weights", 'w', "F.safetensors", "parameters (default: random)", 1,
      TOOL_STRING_AT(arguments, model.weights) },
    { "classes", 'c', "N", "classes of the weights (default: the network's own)", 1,
      TOOL_NUMBER_AT(arguments, model.classes, 1) },
    { "input", MODEL_INPUT, "X.npy|IMAGE.png|SHAPE",
      "images, or the shape of random ones, N x channels x height x width (default: the network's "
      "own)",
      2, TOOL_OWN, 0, 0 },
    { "batch", MODEL_BATCH, "N", "how many random images (default 1)", 2, TOOL_OWN, 0, 0 },
    { "mean", KEY_MEAN, "M,...",
      "of a PNG's pixels in 0 .. 1, for each channel (default: 0.485,0.456,0.406 of colours, 0 of "
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

// ---- Classes ------------------------------------------------------------------------------------

/* The lines of a file but for empty ones at its end, in one block, *text, which is to be freed in
 * any case; *count of them. NULL with a failure. */
static char **read_labels(const char *path, char **text, int64_t *count)
{
    char **lines = NULL;
    size_t capacity = 0;
    struct stat about;
    errno = 0;
    FILE *file = tool_open_file(path);
    *count = 0;
    if (file != NULL && fstat(fileno(file), &about) == 0 && !S_ISREG(about.st_mode) &&
        !S_ISDIR(about.st_mode))
        talc_fail(TALC_IO_ERROR, "'%s' cannot be read: it is not a regular file", TALC_SHOWN(path));
    else if (file == NULL || getdelim(text, &capacity, '\0', file) < 0)
        talc_fail(errno == ENOMEM ? TALC_NO_MEMORY : TALC_IO_ERROR, "'%s' cannot be read: %s",
                  TALC_SHOWN(path), errno != 0 ? strerror(errno) : "it is empty");
    if (file != NULL)
        fclose(file);
    for (char *line = talc_failed() ? NULL : *text, *next;
         line != NULL && line[strspn(line, "\r\n")] != '\0'; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end == '\n' ? end + 1 : end;
        if (end > line && end[-1] == '\r')
            end--;
        *end = '\0';
        char **grown = realloc(lines, (size_t)(*count + 1) * sizeof *lines);
        if (grown == NULL) {
            talc_fail(TALC_NO_MEMORY, "no memory for the labels of '%s'", TALC_SHOWN(path));
            break;
        }
        lines = grown;
        lines[(*count)++] = line;
    }
    return lines;
}

/* What is known of each image's classes. */
typedef struct ranking {
    int64_t images, classes, top;
    float *probabilities;     ///< [images, classes]
    char **labels;            ///< of a file
    char *text;               ///< that they stand in
    const char *const *names; ///< the labels, or those of the weights' file; NULL: numbers
} ranking;

static bool rank_classes(const arguments *self, const talc_model_info *info, const talc_tensor *y,
                         ranking *r)
{
    char shape[TALC_DIMS_TEXT];
    if (y->rank != 2) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: the output %s has no classes to rank, [N,classes] has",
                  self->model.network->name, talc_dims_text(talc_dims_of(y), shape));
        return false;
    }
    *r = (ranking){ .images = y->dims[0], .classes = y->dims[1], .top = self->top };
    if (r->top > r->classes)
        talc_fail(TALC_BAD_ARGUMENT, "--top %" PRId64 " is more than the %" PRId64 " class%s",
                  r->top, r->classes, r->classes == 1 ? "" : "es");
    int64_t count = r->classes;
    if (self->labels != NULL && !talc_failed())
        r->labels = read_labels(self->labels, &r->text, &count);
    if (!talc_failed() && count != r->classes)
        talc_fail(TALC_BAD_ARGUMENT, "'%s' has %" PRId64 " label%s, %s has %" PRId64 " class%s",
                  TALC_SHOWN(self->labels), count, TALC_PLURAL(count), self->model.network->name,
                  r->classes, r->classes == 1 ? "" : "es");
    r->names = (const char *const *)r->labels;
    if (self->labels == NULL && info != NULL && info->classes == r->classes)
        r->names = info->class_names;
    const size_t bytes = (size_t)talc_nbytes(y);
    r->probabilities = talc_failed() ? NULL : malloc(bytes + 1);
    if (r->probabilities == NULL)
        talc_fail(TALC_NO_MEMORY, "no memory for the probabilities of %" PRId64 " classes",
                  r->classes);
    return r->probabilities != NULL && talc_to_host(talc_softmax(y, 1), r->probabilities, bytes);
}

/* The likeliest class, a NaN before all others, which is then not likely any more; *probability as
 * it was. */
static int64_t next_class(const ranking *r, int64_t image, double *probability)
{
    float *of = r->probabilities + image * r->classes;
    int64_t best = 0;
    for (int64_t i = 1; i < r->classes; i++)
        if (of[i] > of[best] || (isnan(of[i]) && !isnan(of[best])))
            best = i;
    *probability = (double)of[best];
    of[best] = -INFINITY;
    return best;
}

static void print_classes(const ranking *r)
{
    for (int64_t image = 0; image < r->images; image++) {
        printf("  image %" PRId64 "\n", image);
        for (int64_t i = 0; i < r->top; i++) {
            double probability;
            const int64_t best = next_class(r, image, &probability);
            printf("    %7.3f %%  %4" PRId64 "%s%s\n", 100 * probability, best,
                   r->names == NULL ? "" : "  ",
                   r->names == NULL ? "" : TALC_SHOWN(r->names[best]));
        }
    }
}

static json_t *classes_json(const ranking *r)
{
    json_t *images = json_array();
    for (int64_t image = 0; image < r->images; image++) {
        json_t *classes = json_array();
        for (int64_t i = 0; i < r->top; i++) {
            double probability;
            const int64_t best = next_class(r, image, &probability);
            json_array_append_new(
                classes, json_pack("{s:I, s:o, s:o}", "class", (json_int_t)best, "probability",
                                   tool_real(probability), "label",
                                   tool_json_text(r->names == NULL ? NULL : r->names[best])));
        }
        json_array_append_new(images, classes);
    }
    return images;
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

static int report(const arguments *self, const talc_tensor *x, const talc_tensor *y, double seconds,
                  const ranking *r)
{
    char shape[TALC_DIMS_TEXT], other[TALC_DIMS_TEXT], time[TOOL_TEXT];
    if (self->model.tool.json)
        return tool_json_print(
            json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "network",
                      self->model.network->name, "device", talc_device_name(x->device), "weights",
                      tool_json_text(self->model.weights), "input", tool_json_dims(talc_dims_of(x)),
                      "output", tool_json_dims(talc_dims_of(y)), "seconds", tool_real(seconds),
                      "saved", tool_json_text(self->output), "classes", classes_json(r)));
    talc_print_wrapped(stdout, 2, "%s%s%s on %s: %s -> %s in %s, %s weights", tool_bold(),
                       self->model.network->name, tool_plain(), talc_device_name(x->device),
                       talc_dims_text(talc_dims_of(x), shape),
                       talc_dims_text(talc_dims_of(y), other), tool_seconds(seconds, time),
                       self->model.weights == NULL ? "random" : TALC_SHOWN(self->model.weights));
    print_classes(r);
    return tool_finish();
}

int command_run_model(int argc, char **argv)
{
    static const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "[NETWORK]\nmodel-new",
        .doc =
            "Runs a network in evaluation mode; `talc summary` lists the networks, and `talc run "
            "model-new --help` is about one convolution with all that can be said of it.\v"
            "Weights are a safetensors file with the names of torchvision's model or of "
            "tools/torch/networks.py; tools/torch/pt2safetensors.py makes one of a .pt checkpoint. "
            "A PNG "
            "must have the network's own height x width, and is normalised by --mean and --std: "
            "(pixel / 255 - mean) / std. Weights that talc saved may say which network they are "
            "of, the size, mean and deviation of images, and the classes; options go before that.",
    };
    arguments self = { .model = { .batch = 1, .seed = 1 } };
    tool_parse(&syntax, argc, argv, &self);
    if (self.labels != NULL && self.top == 0 && !model_input_is_file(&self.model))
        self.top = 1;
    talc_module *model;
    talc_tensor *x;
    double seconds = 0;
    ranking r = { 0 };
    talc_tensor *y = model_open(&self.model, &model, &x) ? pass(model, x, &seconds) : NULL;
    if (y != NULL && y->rank == 2 && self.top == 0 && model_input_is_file(&self.model))
        self.top = y->dims[1] < TOP ? y->dims[1] : TOP;
    const bool done = y != NULL &&
                      (self.top == 0 || rank_classes(&self, talc_module_info(model), y, &r)) &&
                      (self.output == NULL || talc_npy_save(self.output, y));
    const int code = done ? report(&self, x, y, seconds, &r) : model_usage(&self.model, x);
    free(r.probabilities);
    free(r.text);
    free(r.labels);
    talc_module_free(model);
    return code;
}
