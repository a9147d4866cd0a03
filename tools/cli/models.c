#include "tools/cli/models.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

// ---- Networks of ONNX files ---------------------------------------------------------------------

/* The network of a file, as if it were one by name: one a command. */
static struct {
    talc_network network;
    const char *path;
    char input[64];
    talc_dims dims;      /* of its input; -1: the file leaves it open */
    talc_module *module; /* that was read to learn the rest; the first that is made */
} onnx_file;

static talc_module *make_of_file(const void *path, int64_t channels, int64_t classes)
{
    (void)channels;
    (void)classes;
    talc_module *module = onnx_file.module;
    onnx_file.module = NULL;
    return module != NULL ? module : talc_onnx_load(talc_device_get("cpu"), path, NULL);
}

/* Height and width of images that the file leaves open are those of ImageNet. NULL with a
 * failure. */
static const talc_network *read_file(const char *path)
{
    if (onnx_file.path != NULL && strcmp(onnx_file.path, path) == 0)
        return &onnx_file.network;
    talc_module *module = make_of_file(path, 0, 0);
    if (module == NULL)
        return NULL;
    const talc_dims x = talc_onnx_input_dims(module, 0), y = talc_onnx_output_dims(module, 0);
    const int inputs = talc_onnx_input_count(module);
    if (inputs != 1) {
        talc_fail(TALC_UNSUPPORTED,
                  "%s has %d inputs; commands run networks of one, a program others by "
                  "talc_onnx_run",
                  TALC_SHOWN(path), inputs);
        talc_module_free(module);
        return NULL;
    }
    onnx_file.module = module;
    const char *slash = strrchr(path, '/');
    onnx_file.path = path;
    snprintf(onnx_file.input, sizeof onnx_file.input, "%s",
             TALC_SHOWN(talc_onnx_input_name(module, 0)));
    onnx_file.dims = x;
    onnx_file.network = (talc_network){
        .name = slash == NULL ? path : slash + 1,
        .what = "an ONNX file",
        .image = { x.rank == 4 && x.dim[1] > 0 ? x.dim[1] : 3,
                   x.rank == 4 && x.dim[2] > 0 ? x.dim[2] : 224,
                   x.rank == 4 && x.dim[3] > 0 ? x.dim[3] : 224 },
        .classes = y.rank == 2 && y.dim[1] > 0 ? y.dim[1] : 1,
        .make = make_of_file,
        .config = path,
    };
    return &onnx_file.network;
}

talc_module *model_make(const talc_network *self, const talc_network_options *options)
{
    return self->make == make_of_file ? self->make(self->config, 0, 0)
                                      : talc_network_new(self->name, options);
}

const talc_network *model_find(const char *name)
{
    const talc_network *row;
    if (ends_with(name, ".onnx"))
        return read_file(name);
    for (int i = 0; (row = talc_network_at(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

/* Whether a name is one of an image, or of an array. */
static bool is_input(const char *name)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg", ".npy" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Whether a name is one of PyTorch's files. */
static bool is_checkpoint(const char *name)
{
    return ends_with(name, ".pt") || ends_with(name, ".pth");
}

error_t model_parse(int key, char *argument, struct argp_state *state)
{
    model_arguments *self = state->input;
    switch (key) {
    case MODEL_INPUT:
        if (self->input != NULL)
            tool_usage(state,
                       "--input: '%s' after '%s': one is taken; several images are one .npy "
                       "[N,C,H,W]",
                       TALC_SHOWN(argument), TALC_SHOWN(self->input));
        self->input = argument;
        return 0;
    case MODEL_BATCH:
        self->batch = tool_count(state, "--batch", argument, 1);
        self->batch_given = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            tool_usage(state, "'%s' is one argument too many", TALC_SHOWN(argument));
        self->network =
            ends_with(argument, ".onnx") ? read_file(argument) : talc_network_find(argument);
        if (self->network == NULL && is_input(argument))
            tool_usage(state, "there is no network '%s'; an image is --input's",
                       TALC_SHOWN(argument));
        if (self->network == NULL && is_checkpoint(argument))
            tool_usage(state,
                       "'%s' is a PyTorch file: torch.onnx.export writes a network as one that "
                       "talc runs, tools/torch/pt2safetensors.py its weights for --weights",
                       TALC_SHOWN(argument));
        if (self->network == NULL)
            tool_usage(state, "%s", talc_error_message());
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Numbers with an x between; false for another text. */
static bool read_shape(const char *text, talc_dims *dims)
{
    char commas[128];
    snprintf(commas, sizeof commas, "%s", text);
    for (char *at = commas; *at != '\0'; at++)
        *at = *at == 'x' ? ',' : *at == ',' ? 'x' : *at;
    dims->rank = tool_numbers(commas, TALC_MAX_RANK, dims->dim);
    return dims->rank > 1;
}

bool model_input_is_file(const model_arguments *self)
{
    talc_dims dims;
    return self->input != NULL && !read_shape(self->input, &dims);
}

/* The first lines of talc_module_differences, and how many more there are. */
static void print_differences(talc_module *model, const char *weights)
{
    enum { LINES = 10 };
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    const int64_t count = file == NULL ? -1 : talc_module_differences(file, model, weights);
    if (file == NULL || fclose(file) != 0)
        return;
    const char *end = text;
    for (int i = 0; i < LINES && *end != '\0'; i++) {
        const char *line = strchr(end, '\n');
        end = line == NULL ? end + strlen(end) : line + 1;
    }
    fprintf(stderr, "%.*s", (int)(end - text), text);
    if (count > LINES)
        fprintf(stderr, "... and %" PRId64 " more\n", count - LINES);
    free(text);
}

/* What the file of weights says of its model; NULL, without a failure, where it cannot be read,
 * which loading it will tell. */
static talc_model_info *info_of(const model_arguments *self)
{
    talc_model_info *info = self->weights == NULL ? NULL : talc_model_info_read(self->weights);
    if (talc_error_status() != TALC_NO_MEMORY) /* nothing would be known then */
        talc_error_clear();
    return info;
}

const talc_network *model_find_by_weights(const model_arguments *self)
{
    talc_model_info *info = info_of(self);
    const talc_network *found =
        info == NULL || info->network == NULL ? NULL : model_find(info->network);
    talc_model_info_free(info);
    return found;
}

void model_fail_by_weights(const struct argp_state *state, const model_arguments *self)
{
    talc_model_info *info = talc_model_info_read(self->weights);
    if (info == NULL)
        tool_usage(state, "%s", talc_error_message());
    char named[TALC_SHOWN_TEXT] = "";
    if (info->network != NULL)
        talc_shown(info->network, SIZE_MAX, named, sizeof named);
    talc_model_info_free(info); /* tool_usage does not return */
    if (named[0] == '\0')
        tool_usage(state, "'%s' does not say which network it is of; `talc summary` lists them",
                   TALC_SHOWN(self->weights));
    tool_usage(state, "'%s' says that it is of '%s', which is no network of `talc summary`",
               TALC_SHOWN(self->weights), named);
}

/* What a strict load refused, name by name; a file that cannot be read has no names. */
static void list_differences(talc_module *model, const model_arguments *self,
                             const talc_model_info *info)
{
    const char *weights = self->weights;
    const bool other =
        info != NULL && info->network != NULL && strcmp(info->network, self->network->name) != 0;
    const talc_status status = talc_error_status();
    char message[1024];
    snprintf(message, sizeof message, "%s", talc_error_message());
    talc_error_clear();
    print_differences(model, weights);
    talc_error_clear();
    talc_fail(status, "%s%s%s%s", message, other ? "; it says that it is of " : "",
              other ? TALC_SHOWN(info->network) : "",
              is_checkpoint(weights) && strstr(message, "pt2safetensors") == NULL
                  ? "; tools/torch/pt2safetensors.py makes such a file of a checkpoint"
                  : "");
}

talc_module *model_new(const model_arguments *self)
{
    talc_model_info *info = info_of(self);
    const int64_t classes = self->classes == 0 && info != NULL ? info->classes : self->classes;
    const int64_t channels = info != NULL && info->channels <= 4 ? info->channels : 0;
    talc_module *model =
        self->network == &onnx_file.network
            ? talc_onnx_load(talc_device_get("cpu"), onnx_file.path, NULL)
            : talc_network_new(self->network->name,
                               &(talc_network_options){ .channels = channels, .classes = classes });
    if (model != NULL && self->weights != NULL && !talc_module_load(model, self->weights, true)) {
        list_differences(model, self, info);
        talc_module_free(model);
        model = NULL;
    }
    talc_model_info_free(info);
    return model;
}

bool model_is_random(const model_arguments *self)
{
    return self->weights == NULL && self->network->make != make_of_file;
}

const char *model_weights(const model_arguments *self, char text[TALC_SHOWN_TEXT])
{
    if (self->weights != NULL)
        return talc_shown(self->weights, SIZE_MAX, text, TALC_SHOWN_TEXT);
    return model_is_random(self) ? "random" : "its own";
}

// ---- Input --------------------------------------------------------------------------------------

/* Whether the network takes no images, but what an ONNX file says. */
static bool is_other(const talc_network *self)
{
    return self->make == make_of_file && onnx_file.dims.rank != 4;
}

talc_tensor *model_images(const talc_network *self, int64_t batch)
{
    talc_dims dims = { 4, { batch, self->image.channels, self->image.height, self->image.width } };
    if (self->make == make_of_file && onnx_file.dims.rank == 4 && onnx_file.dims.dim[0] > 0)
        dims.dim[0] = onnx_file.dims.dim[0];
    char shape[TALC_DIMS_TEXT] = "", given[TALC_DIMS_TEXT] = "";
    bool open = false;
    for (int i = 0; is_other(self) && i < onnx_file.dims.rank; i++) {
        const int64_t extent = onnx_file.dims.dim[i];
        const size_t used = strlen(shape), said = strlen(given);
        dims.rank = onnx_file.dims.rank;
        dims.dim[i] = extent < 0 && i == 0 ? batch : extent;
        open = open || dims.dim[i] < 0;
        snprintf(shape + used, sizeof shape - used, extent < 0 ? "%s?" : "%s%" PRId64,
                 i == 0 ? "" : ",", extent);
        snprintf(given + said, sizeof given - said, dims.dim[i] < 0 ? "%sN" : "%s%" PRId64,
                 i == 0 ? "" : "x", dims.dim[i]);
    }
    if (is_other(self) && (open || onnx_file.dims.rank == 0))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: the file leaves the shape of input '%s' open, [%s]: --input says it%s%s",
                  self->name, onnx_file.input, open ? shape : "...", open ? ", as --input " : "",
                  given);
    return talc_failed() ? NULL : talc_randn(talc_device_get("cpu"), TALC_F32, dims);
}

/* Numbers for the channels: those that were given, else those of the weights' file, NULL: it has
 * none, else ImageNet's where there are 3. False with a failure. */
static bool pixel_numbers(const talc_network *self, const char *option, int given,
                          const double own[3], const double *of_file, const double imagenet[3],
                          double numbers[3])
{
    const int64_t channels = self->image.channels;
    if (given > 1 && given != channels) {
        talc_fail(TALC_BAD_ARGUMENT, "%s has %d numbers, %s has %" PRId64 " channel%s", option,
                  given, self->name, channels, TALC_PLURAL(channels));
        return false;
    }
    if (given > 0 || of_file != NULL || channels == 3)
        memcpy(numbers,
               given > 0         ? own
               : of_file != NULL ? of_file
                                 : imagenet,
               3 * sizeof *numbers);
    return true;
}

/* The sizes that an image goes through, or that it has to have. */
static void size_image(const talc_network *self, const model_pixels *pixels,
                       const talc_model_info *info, talc_image_options *options)
{
    enum { SHORTER_SIDE = 256, IMAGENET = 1000 };
    const bool sized = info != NULL && info->channels > 0 && (info->height > 0 || info->width > 0);
    const int64_t height = sized ? info->height : self->image.height,
                  width = sized ? info->width : self->image.width;
    options->resize = pixels->resize;
    options->crop = pixels->crop;
    if (pixels->resize.height > 0 || pixels->crop.height > 0)
        return;
    if (!sized && self->classes == IMAGENET && self->image.channels == 3) {
        options->resize.height = height > SHORTER_SIDE ? height : SHORTER_SIDE;
        options->crop = (talc_image_size){ height, width };
    } else {
        options->height = height;
        options->width = width;
    }
}

/* The filter of the recipe with which torchvision's weights of a network were trained. */
static talc_image_filter filter_of(const talc_network *self)
{
    static const char *const bicubic[] = { "efficientnet_b0", "efficientnet_b1",
                                           "efficientnet_b2" };
    for (size_t i = 0; i < sizeof bicubic / sizeof *bicubic; i++)
        if (strcmp(self->name, bicubic[i]) == 0)
            return TALC_IMAGE_BICUBIC;
    return TALC_IMAGE_BILINEAR;
}

static talc_tensor *read_image(const talc_network *self, const char *path,
                               const model_pixels *pixels, const talc_model_info *info)
{
    static const double means[] = { 0.485, 0.456, 0.406 }, deviations[] = { 0.229, 0.224, 0.225 };
    talc_image_options options = { .channels = self->image.channels, .filter = filter_of(self) };
    const bool known = info != NULL && info->channels > 0;
    size_image(self, pixels, info, &options);
    return pixel_numbers(self, "--mean", pixels->mean_count, pixels->mean,
                         known ? info->mean : NULL, means, options.mean) &&
                   pixel_numbers(self, "--std", pixels->deviation_count, pixels->deviation,
                                 known ? info->deviation : NULL, deviations, options.deviation)
               ? talc_image_load(path, &options)
               : NULL;
}

/* The network as its weights say, which may be of grey images or of another size. */
static talc_network network_of(const model_arguments *self, const talc_module *model)
{
    talc_network own = *self->network;
    const talc_model_info *info = talc_module_info(model);
    if (info != NULL && info->channels > 0)
        own.image.channels = info->channels;
    if (info != NULL && info->height > 0 && info->width > 0) {
        own.image.height = info->height;
        own.image.width = info->width;
    }
    return own;
}

talc_tensor *model_image(const model_arguments *self, const talc_module *model, const char *path)
{
    const talc_network own = network_of(self, model);
    char shape[TALC_DIMS_TEXT];
    if (is_other(&own)) {
        talc_fail(TALC_BAD_SHAPE, "%s takes no images: its input '%s' is %s", own.name,
                  onnx_file.input, talc_dims_text(onnx_file.dims, shape));
        return NULL;
    }
    return read_image(&own, path, &self->pixels, talc_module_info(model));
}

talc_tensor *model_input(const model_arguments *self, const talc_module *model)
{
    const talc_network own = network_of(self, model), *of = &own;
    const model_pixels *pixels = &self->pixels;
    const char *text = self->input;
    talc_dims dims;
    const bool is_shape = text != NULL && read_shape(text, &dims),
               is_image = text != NULL && !is_shape && !ends_with(text, ".npy");
    if (!is_image && pixels->mean_count + pixels->deviation_count > 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "--mean and --std are of an image's pixels, and there is none");
    else if (!is_image && pixels->resize.height + pixels->crop.height > 0)
        talc_fail(TALC_BAD_ARGUMENT, "--resize and --crop are of an image, and there is none");
    if (talc_failed())
        return NULL;
    if (text == NULL)
        return model_images(of, self->batch);
    talc_device *cpu = talc_device_get("cpu");
    talc_tensor *x = is_shape   ? talc_randn(cpu, TALC_F32, dims)
                     : is_image ? model_image(self, model, text)
                                : talc_npy_load(cpu, text);
    char shape[TALC_DIMS_TEXT];
    if (x == NULL)
        return NULL;
    if (x->dtype != TALC_F32 && !(is_other(of) && !talc_dtype_is_float(x->dtype)))
        talc_fail(TALC_BAD_DTYPE,
                  "%s: '%s' is %s, the network takes f32, which np.save('%s', "
                  "np.load('%s').astype(np.float32)) writes",
                  of->name, TALC_SHOWN(text), talc_dtype_name(x->dtype), TALC_SHOWN(text),
                  TALC_SHOWN(text));
    else if (!is_other(of) && (x->rank != 4 || x->dims[1] != of->image.channels))
        talc_fail(TALC_BAD_SHAPE, "%s: '%s' is %s, the network takes [N,%" PRId64 ",H,W]", of->name,
                  TALC_SHOWN(text), talc_dims_text(talc_dims_of(x), shape), of->image.channels);
    else if (self->batch_given && x->dims[0] != self->batch)
        talc_fail(TALC_BAD_ARGUMENT, "--batch is %" PRId64 ", '%s' has %" PRId64 " image%s",
                  self->batch, TALC_SHOWN(text), x->dims[0], TALC_PLURAL(x->dims[0]));
    return talc_failed() ? NULL : x;
}

bool model_open(const model_arguments *self, talc_module **model, talc_tensor **x)
{
    talc_device *device = tool_open(&self->tool);
    talc_manual_seed((uint64_t)self->seed);
    *model = device == NULL ? NULL : model_new(self);
    *x = *model == NULL ? NULL : model_input(self, *model);
    return *x != NULL && talc_module_to(*model, device) &&
           (*x = talc_to(*x, device, (*x)->dtype)) != NULL;
}

int model_usage(const model_arguments *self, const talc_tensor *x)
{
    const talc_network *of = self->network;
    const bool other_size = x != NULL && x->rank == 4 &&
                            (x->dims[2] != of->image.height || x->dims[3] != of->image.width);
    char message[1024], shape[TALC_DIMS_TEXT];
    snprintf(message, sizeof message, "%s", talc_error_message());
    if (talc_error_status() == TALC_BAD_SHAPE && other_size) {
        talc_error_clear();
        talc_fail(TALC_BAD_SHAPE,
                  "%s: '%s' is %s, the network is made for [N,%" PRId64 ",%" PRId64 ",%" PRId64
                  "]: %s",
                  of->name, TALC_SHOWN(self->input), talc_dims_text(talc_dims_of(x), shape),
                  of->image.channels, of->image.height, of->image.width, message);
    }
    return tool_usage_talc();
}

// ---- Reference algorithms -----------------------------------------------------------------------

/* An op that a pass runs; a folded norm is one too, though it makes no step. */
static bool occurs(const talc_module_explanation *explanation, const char *op, const char *folded)
{
    for (int i = 0; i < explanation->count; i++)
        if (strcmp(explanation->steps[i].op, op) == 0 ||
            (folded != NULL && strstr(explanation->steps[i].does, folded) != NULL))
            return true;
    return false;
}

char *model_references(talc_module *model, talc_tensor *x)
{
    static const struct {
        const char *op, *folded;
    } ops[] = { { "conv2d", NULL },     { "linear", NULL },     { "matmul", NULL },
                { "max_pool2d", NULL }, { "avg_pool2d", NULL }, { "adaptive_avg_pool2d", NULL },
                { "softmax", NULL },    { "group_norm", NULL }, { "batch_norm2d", "BatchNorm2d" } };
    enum { CAPACITY = 400 };
    talc_module_explanation explanation = { 0 };
    char *text = talc_module_explain(model, x, &explanation) ? calloc(1, CAPACITY) : NULL;
    if (text == NULL)
        talc_fail(TALC_NO_MEMORY, "no memory for the names of the reference's algorithms");
    for (size_t i = 0; text != NULL && i < sizeof ops / sizeof *ops; i++)
        if (occurs(&explanation, ops[i].op, ops[i].folded)) {
            const size_t length = strlen(text);
            snprintf(text + length, CAPACITY - length, "%s%s=reference", length > 0 ? "," : "",
                     ops[i].op);
        }
    talc_module_explanation_free(&explanation);
    return text;
}
