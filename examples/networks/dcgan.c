/* DCGAN: Radford, Metz and Chintala 2015, arXiv 1511.06434: a generator, which draws an image of
 * 64x64 pixels from 100 numbers, and behind it the discriminator, which says whether an image was
 * drawn: what a training step of the generator runs. */
#include "families.h"
#include "layers.h"

enum { WIDTH = 64, LEVELS = 4, IMAGE = 3 };

static talc_module *up(int64_t in, int64_t out, int64_t stride, int64_t padding)
{
    return talc_nn_conv_transpose2d(&(talc_conv_transpose2d_layer){ .in_channels = in,
                                                                    .out_channels = out,
                                                                    .kernel = { 4, 4 },
                                                                    .stride = { stride, stride },
                                                                    .padding = { padding, padding },
                                                                    .no_bias = true });
}

static talc_module *down(int64_t in, int64_t out, int64_t stride, int64_t padding)
{
    return talc_nn_conv2d(&(talc_conv2d_layer){ .in_channels = in,
                                                .out_channels = out,
                                                .kernel = { 4, 4 },
                                                .stride = { stride, stride },
                                                .padding = { padding, padding },
                                                .no_bias = true });
}

/* Appends norm and activation, the norm where there are channels to normalise. */
static void append(talc_module *chain, talc_module *layer, int64_t normalised,
                   talc_module *activation)
{
    talc_nn_sequential_append(chain, layer);
    if (normalised > 0)
        talc_nn_sequential_append(chain, norm(normalised));
    talc_nn_sequential_append(chain, activation);
}

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    talc_module *generator = talc_nn_sequential(), *discriminator = talc_nn_sequential();
    for (int i = LEVELS - 1; i >= 0; i--) {
        const bool first = i == LEVELS - 1;
        append(generator,
               up(first ? channels : WIDTH << (i + 1), WIDTH << i, first ? 1 : 2, first ? 0 : 1),
               WIDTH << i, talc_nn_relu());
    }
    append(generator, up(WIDTH, IMAGE, 2, 1), 0, talc_nn_tanh());
    for (int i = 0; i < LEVELS; i++)
        append(discriminator, down(i == 0 ? IMAGE : WIDTH << (i - 1), WIDTH << i, 2, 1),
               i == 0 ? 0 : WIDTH << i, talc_nn_leaky_relu(0.2));
    talc_nn_sequential_append(discriminator, down(WIDTH << (LEVELS - 1), classes, 1, 0));
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "generator", generator);
    talc_module_add(net, "discriminator", discriminator);
    talc_module_add(net, "flatten", talc_nn_flatten());
    return net;
}

const talc_network dcgan_networks[] = {
    { "dcgan",
      "DCGAN, the generator and the discriminator behind it: arXiv 1511.06434",
      { 100, 1, 1 },
      2,
      make,
      NULL },
    { 0 },
};
