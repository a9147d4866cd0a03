/// talc summary: the layers of a network, its parameters, multiply-accumulates and memory.
#include "tools/cli/models.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const tool_option options[] = {
    { "input", MODEL_INPUT, "SHAPE", "of the input, 1x3x224x224 (default: one of its own images)",
      1, TOOL_OWN, 0, 0 },
    { .name = NULL },
};

// ---- All networks -------------------------------------------------------------------------------

enum { MAX_NETWORKS = 128 };

/* Networks, and how many parameters each has. */
typedef struct listing {
    int count;
    const talc_network *list[MAX_NETWORKS];
    int64_t parameters[MAX_NETWORKS];
} listing;

static bool count_parameters(listing *all)
{
    const talc_network *n;
    while (all->count < MAX_NETWORKS && (n = talc_network_at(all->count)) != NULL) {
        talc_module *model = talc_network_new(n->name, NULL);
        all->list[all->count] = n;
        all->parameters[all->count++] = talc_module_count(model);
        talc_module_free(model);
        if (talc_failed())
            return false;
    }
    return true;
}

enum { NETWORK, IMAGE, CLASSES, PARAMETERS, WHAT, COLUMNS };

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const listing *all = context;
    const talc_network *n = all->list[row];
    if (column == NETWORK || column == WHAT)
        return column == NETWORK ? n->name : n->what;
    if (column == IMAGE)
        snprintf(text, TALC_CELL_TEXT, "%" PRId64 "x%" PRId64 "x%" PRId64, n->image.channels,
                 n->image.height, n->image.width);
    else
        snprintf(text, TALC_CELL_TEXT, "%" PRId64,
                 column == CLASSES ? n->classes : all->parameters[row]);
    return text;
}

static void print_networks(const listing *all)
{
    static const talc_column columns[COLUMNS] = { { "network", TALC_COLUMN_WHOLE },
                                                  { "image", TALC_COLUMN_WHOLE },
                                                  { "classes", TALC_COLUMN_NUMBER },
                                                  { "parameters", TALC_COLUMN_NUMBER },
                                                  { "what it is", TALC_COLUMN_TEXT } };
    talc_table_print(stdout, &(talc_table){ .count = COLUMNS,
                                            .columns = columns,
                                            .rows = all->count,
                                            .cell = cell,
                                            .context = all });
    printf("images are channels x height x width\n");
}

static int list_networks(bool json)
{
    static listing all;
    if (!count_parameters(&all))
        return tool_fail_talc();
    if (!json) {
        print_networks(&all);
        return tool_finish();
    }
    json_t *array = json_array();
    for (int i = 0; i < all.count; i++) {
        const talc_network *n = all.list[i];
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:[I,I,I], s:I, s:I}", "network", n->name, "what", n->what,
                             "image", (json_int_t)n->image.channels, (json_int_t)n->image.height,
                             (json_int_t)n->image.width, "classes", (json_int_t)n->classes,
                             "parameters", (json_int_t)all.parameters[i]));
    }
    return tool_json_print(array);
}

// ---- One ----------------------------------------------------------------------------------------

static bool pass(talc_module *model, talc_tensor *x, bool training)
{
    talc_scope *scope = talc_scope_enter();
    talc_tensor *y = talc_forward(model, x);
    const bool passed = y != NULL &&
                        (!training || talc_backward(talc_sum(y, TALC_SCALAR, false))) &&
                        talc_device_synchronize(x->device);
    talc_scope_leave(scope);
    return passed;
}

/* The most bytes that are held at once by a pass, beside weights, folded norms and x; in training
 * by one with its gradients. NaN, with the failure, where the pass fails. */
static double held(talc_module *model, talc_tensor *x, bool training)
{
    talc_device *device = x->device;
    (void)(training ? talc_module_train(model) : talc_module_eval(model));
    if (training)
        talc_no_grad_leave();
    else
        pass(model, x, false); /* folds the norms */
    const size_t before = talc_device_memory(device).live;
    talc_memory_reset_peak(device);
    const bool passed = pass(model, x, training);
    if (training)
        talc_no_grad_enter();
    return passed ? (double)(talc_device_memory(device).peak - before) : (double)NAN;
}

static json_t *layers_json(const talc_module_layers *layers)
{
    json_t *list = json_array();
    for (int i = 0; i < layers->count; i++) {
        const talc_module_layer *layer = &layers->list[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "layer", layer->path, "type",
                      layer->module->kind->name, "calls", layer->calls, "output",
                      tool_json_dims(layer->output), "bytes", tool_real(layer->bytes), "parameters",
                      tool_real(layer->parameters), "macs", tool_real(layer->macs)));
    }
    return list;
}

/* The exit code; a failure stands where there is one of talc's. */
static int summarise(const model_arguments *self, talc_module *model, talc_tensor *x)
{
    char weights[TOOL_TEXT], outputs[TOOL_TEXT], text[2][TOOL_TEXT], shape[TALC_DIMS_TEXT];
    talc_module_layers layers = { 0 };
    if ((!self->tool.json && !talc_module_summary(stdout, model, x)) ||
        !talc_module_layers_of(model, x, &layers)) {
        talc_module_layers_free(&layers);
        return TOOL_FAILED;
    }
    const double inference = held(model, x, false);
    if (talc_failed()) {
        talc_module_layers_free(&layers);
        return TOOL_FAILED;
    }
    const double training = held(model, x, true);
    char refused[1024]; /* a batch of one value a channel cannot be normalised, say */
    snprintf(refused, sizeof refused, "%s", talc_error_message());
    talc_error_clear();
    int code = TOOL_FAILED;
    if (self->tool.json)
        code = tool_json_print(json_pack(
            "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "network", self->network->name,
            "input", tool_json_dims(talc_dims_of(x)), "parameters", tool_real(layers.parameters),
            "macs", tool_real(layers.macs), "activations", tool_real(layers.activations),
            "inference_peak", tool_real(inference), "training_peak", tool_real(training),
            "training_refused", tool_json_text(*refused == '\0' ? NULL : refused), "layers",
            layers_json(&layers)));
    else {
        printf("\n");
        talc_print_wrapped(stdout, 2, "%s: %s", self->network->name, self->network->what);
        talc_print_wrapped(stdout, 2, "input %s, parameters %s, outputs of all layers %s",
                           talc_dims_text(talc_dims_of(x), shape),
                           talc_bytes_text(4 * layers.parameters, weights),
                           talc_bytes_text(layers.activations, outputs));
        talc_print_wrapped(stdout, 2, "at most %s at once in a forward pass, %s%s",
                           talc_bytes_text(inference, text[0]),
                           *refused == '\0' ? talc_bytes_text(training, text[1])
                                            : "none with gradients: ",
                           *refused == '\0' ? " in one with gradients, these counted" : refused);
        code = tool_finish();
    }
    talc_module_layers_free(&layers);
    return code;
}

int command_summary(int argc, char **argv)
{
    static const tool_syntax syntax = {
        .options = options,
        .parse = model_parse,
        .args_doc = "[NETWORK]",
        .doc = "Every layer of a network with its output, parameters and multiply-accumulates, "
               "and the memory that passes take. Without a network it lists those that there are.",
    };
    model_arguments self = { .batch = 1 };
    tool_parse(&syntax, argc, argv, &self);
    if (self.network == NULL)
        return list_networks(self.tool.json);
    talc_module *model;
    talc_tensor *x;
    const int code = model_open(&self, &model, &x) ? summarise(&self, model, x) : TOOL_FAILED;
    talc_module_free(model);
    return talc_failed() ? model_usage(&self, x) : code;
}
