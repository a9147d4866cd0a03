/// Modules, files and printing on a device whose memory the host cannot touch.
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tests/support/layers.h"
#include "tests/support/networks.h"
#include "ops/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const talc_conv2d_layer small_conv = {
    .in_channels = 4, .out_channels = 6, .kernel = { 3, 2 }, .padding = { 1 }
};

/* Every layer, for an image [2,4,7,6]. */
static talc_module *every_layer(void)
{
    talc_module *chain = TALC_SEQUENTIAL(
        talc_nn_identity(), talc_nn_conv2d(&small_conv), BATCH_NORM2D(.channels = 6),
        talc_nn_relu(), MAX_POOL2D(.kernel = { 2, 2 }, .stride = { 1, 1 }), talc_nn_sigmoid(),
        talc_nn_channel_shuffle(3),
        talc_nn_upsample(
            &(talc_upsample2d_options){ .scale = { 1.5, 2 }, .mode = TALC_UPSAMPLE_BILINEAR }),
        talc_nn_pad2d(&(talc_pad_options){ .padding = { 1, 1, 2 }, .value = 3 }),
        talc_nn_adaptive_max_pool2d(5, 4),
        talc_nn_avg_pool2d(&(talc_pool2d_options){ .kernel = { 2, 1 } }), talc_nn_tanh(),
        talc_nn_prelu(&(talc_prelu_layer){ .parameters = 6 }), talc_nn_selu(), talc_nn_softsign(),
        talc_nn_adaptive_avg_pool2d(2, 2), talc_nn_flatten(), LINEAR(24, 5));
    return chain;
}

static bool compare_tensor(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    assert_same_bits(path, talc_module_find(context, path), tensor);
    return true;
}

typedef struct model_case {
    const char *name;
    talc_module *(*make)(void);
    talc_dims dims;
} model_case;

static const model_case models[] = {
    { "every layer", every_layer, { 4, { 2, 4, 7, 6 } } },
    { "LeNet", lenet_new, { 4, { 2, 1, 28, 28 } } },
    { "ResNet-20", resnet20_a, { 4, { 1, 3, 16, 16 } } },
};

Test(fake_modules, forward_passes_give_the_bits_of_the_cpu)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const model_case *model = &models[i];
        owned_scope *scope = talc_scope_enter();
        talc_manual_seed(5);
        owned_module *here = model->make();
        talc_manual_seed(5);
        owned_module *there = model->make();
        cr_assert(talc_module_to(there, fake_device()), "%s: %s", model->name,
                  talc_error_message());
        for (int training = 0; training < 2; training++) {
            cr_assert(training ? talc_module_train(here) && talc_module_train(there)
                               : talc_module_eval(here) && talc_module_eval(there));
            talc_tensor *x = op_numbers(cpu_device(), model->dims, 9);
            talc_tensor *y = talc_forward(there, op_numbers(fake_device(), model->dims, 9));
            cr_assert(y != NULL && fake_device_queued(fake_device()) > 0, "%s: %s", model->name,
                      talc_error_message());
            assert_same_bits(model->name, talc_forward(here, x), y);
        }
        cr_assert(talc_module_visit(there, compare_tensor, here));
    }
}

Test(fake_modules, a_module_moves_there_and_back_and_keeps_its_handles)
{
    talc_manual_seed(6);
    owned_module *model = every_layer();
    talc_manual_seed(6);
    owned_module *untouched = every_layer();
    talc_tensor *weight = talc_module_find(model, "1.weight");
    talc_device *const stops[] = { fake_device(), other_fake_device(), cpu_device() };
    for (int i = 0; i < 3; i++) {
        cr_assert(talc_module_to(model, stops[i]), "%s", talc_error_message());
        cr_assert(talc_module_find(model, "1.weight") == weight && weight->device == stops[i]);
        cr_assert(talc_module_visit(model, compare_tensor, untouched));
    }
    cr_assert(talc_module_to(model, fake_device()));
    cr_assert_null(talc_forward(model, op_numbers(cpu_device(), TALC_DIMS(2, 4, 7, 6), 1)));
    assert_failure(TALC_BAD_DEVICE, "1: conv2d: x is on cpu, w on fake");
}

Test(fake_modules, a_move_that_finds_no_memory_moves_nothing)
{
    owned_module *model = every_layer();
    fake_device_limit_memory(fake_device(), 512);
    cr_assert(!talc_module_to(model, fake_device()));
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
    talc_error_clear();
    cr_assert(talc_module_find(model, "1.weight")->device == cpu_device());
    cr_assert(talc_module_find(model, "17.bias")->device == cpu_device());
    cr_assert(talc_device_memory(fake_device()).live == 0);
}

// ---- Files and text -----------------------------------------------------------------------------

Test(fake_modules, npy_files_are_written_from_and_read_to_the_device)
{
    const char *path = file_path("x.npy");
    talc_tensor *x = talc_transpose(op_numbers(fake_device(), TALC_DIMS(3, 5), 1), 0, 1);
    cr_assert(talc_npy_save(path, x), "%s", talc_error_message());
    talc_tensor *read = talc_npy_load(other_fake_device(), path);
    assert_same_bits("npy", talc_contiguous(x), read);
    cr_assert(read->device == other_fake_device());
    cr_assert(file_count() == 1, "something was left beside %s", path);
}

Test(fake_modules, safetensors_are_written_from_and_read_to_the_device)
{
    const char *path = file_path("model.safetensors");
    owned_module *model = every_layer(), *other = every_layer();
    cr_assert(talc_module_to(model, fake_device()) && talc_module_save(model, path), "%s",
              talc_error_message());
    cr_assert(talc_module_to(other, other_fake_device()) && talc_module_load(other, path, true),
              "%s", talc_error_message());
    cr_assert(talc_module_find(other, "1.weight")->device == other_fake_device());
    cr_assert(talc_module_visit(other, compare_tensor, model));
    cr_assert(file_count() == 1, "something was left beside %s", path);
}

/* What `print` writes, without the device's name. */
static char *printed(bool (*print)(FILE *file, talc_device *device), talc_device *device)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    cr_assert(print(file, device), "%s", talc_error_message());
    fclose(file);
    char *name = strstr(text, device->name);
    if (name != NULL)
        memmove(name, name + strlen(device->name), strlen(name + strlen(device->name)) + 1);
    return text;
}

static bool print_tensor(FILE *file, talc_device *device)
{
    return talc_print(file, talc_transpose(op_numbers(device, TALC_DIMS(40, 30), 3), 0, 1));
}

static bool print_summary(FILE *file, talc_device *device)
{
    owned_module *model = lenet_new();
    bool ok = talc_module_to(model, device) &&
              talc_module_summary(file, model, op_numbers(device, TALC_DIMS(1, 1, 28, 28), 1));
    return ok;
}

Test(fake_modules, tensors_and_summaries_print_as_on_the_cpu)
{
    bool (*const prints[])(FILE *, talc_device *) = { print_tensor, print_summary };
    for (int i = 0; i < 2; i++) {
        owned_char *here = printed(prints[i], cpu_device()),
                   *there = printed(prints[i], fake_device());
        cr_assert(strlen(here) > 100 && strcmp(here, there) == 0, "%s\n---\n%s", here, there);
    }
}

// ---- Algorithms and workspace -------------------------------------------------------------------

/* A convolution of the input image; its weight is made on the image's device. */
typedef struct conv_case {
    talc_dims weight;
    talc_conv2d_options options;
} conv_case;

static const conv_case convs[] = {
    { { 4, { 6, 4, 3, 2 } }, { .padding = { 1, 1 }, .activation = TALC_ACTIVATION_RELU } },
    { { 4, { 5, 4, 1, 1 } }, { .activation = TALC_ACTIVATION_TANH } },
    { { 4, { 4, 1, 3, 3 } }, { .groups = 4, .stride = { 2, 1 } } },
    { { 4, { 6, 2, 2, 3 } },
      { .groups = 2, .padding = { 1 }, .padding_mode = TALC_PADDING_REFLECT } },
};

/* One algorithm under one limit on both devices: true when it ran, false when it refused on
 * both. */
static bool same_convolution(const conv_case *conv, const char *algorithm, size_t limit,
                             const talc_tensor *here, const talc_tensor *there)
{
    talc_conv2d_options options = conv->options;
    options.algorithm = algorithm;
    const talc_tensor *images[] = { here, there };
    talc_tensor *results[2];
    for (int i = 0; i < 2; i++) {
        talc_device *device = images[i]->device;
        talc_tensor *weight = op_numbers(device, conv->weight, 4);
        cr_assert(talc_workspace_set_limit(device, limit));
        talc_memory_reset_peak(device);
        size_t before = talc_device_memory(device).live;
        results[i] = talc_conv2d(images[i], weight, NULL, &options);
        cr_assert(!talc_failed() || talc_error_status() == TALC_UNSUPPORTED, "%s",
                  talc_error_message());
        talc_error_clear();
        size_t used = talc_device_memory(device).peak - before;
        cr_assert(used <= talc_nbytes(results[i]) + limit + (size_t)2 * 256,
                  "%s used %zu bytes under the limit %zu", algorithm, used, limit);
    }
    cr_assert((results[0] == NULL) == (results[1] == NULL), "%s refuses on one device only",
              algorithm);
    if (results[0] != NULL)
        assert_same_bits(algorithm, results[0], results[1]);
    return results[0] != NULL;
}

Test(fake_modules, every_conv2d_algorithm_gives_the_bits_of_the_cpu_under_every_workspace_limit)
{
    static const size_t limits[] = { (size_t)32 << 20, 4096, 64, 0 };
    const op_inputs cpu = op_inputs_new(cpu_device()), fake = op_inputs_new(fake_device());
    for (const talc_algorithm *algorithm = cpu_device()->backend->algorithms[TALC_OP_conv2d];
         algorithm->name != NULL; algorithm++) {
        int runs = 0;
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
            for (size_t c = 0; c < sizeof convs / sizeof *convs; c++)
                runs +=
                    same_convolution(&convs[c], algorithm->name, limits[i], cpu.image, fake.image);
        cr_assert(runs > 0, "%s never ran", algorithm->name);
    }
    talc_workspace_set_limit(cpu_device(), (size_t)32 << 20);
}
