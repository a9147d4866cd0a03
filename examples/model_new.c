/* One convolution as a module, on the two problems that talc grew out of.
 *
 *     model_new [A|B] [batch [height [width]]]
 *
 * A: x 8x64x512x256 with w 128x64x5x7. B: x 8x32x512x512 with w 64x32x5x9. Smaller images and
 * batches take less memory and time. */
#include <talc/talc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    talc_module base; /* first member: what every module has */
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

typedef struct {
    const char *name;
    talc_conv2d_layer layer;
    int64_t batch, height, width;
} seed_problem;

static const seed_problem problems[] = {
    { "A",
      { .in_channels = 64, .out_channels = 128, .kernel = { 5, 7 }, .no_bias = true },
      8,
      512,
      256 },
    { "B",
      { .in_channels = 32, .out_channels = 64, .kernel = { 5, 9 }, .no_bias = true },
      8,
      512,
      512 },
};

static int64_t number(int argc, char **argv, int index, int64_t otherwise)
{
    return index < argc ? strtoll(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const seed_problem *problem = &problems[argc > 1 && strcmp(argv[1], "B") == 0];
    if (argc > 5 || (argc > 1 && strcmp(argv[1], problem->name) != 0)) {
        fprintf(stderr, "usage: model_new [A|B] [batch [height [width]]]\n");
        return 2;
    }
    talc_dims dims =
        TALC_DIMS(number(argc, argv, 2, problem->batch), problem->layer.in_channels,
                  number(argc, argv, 3, problem->height), number(argc, argv, 4, problem->width));

    talc_device *device = talc_device_default();
    talc_module *model = talc_module_new(&model_new_class, &problem->layer);
    talc_module_to(model, device);

    talc_tensor *x = talc_rand(device, TALC_F32, dims);
    talc_tensor *y = talc_forward(model, x);
    talc_print(stdout, y);

    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    talc_module_free(model);
    return talc_failed();
}
