/* SqueezeNet 1.1: Iandola, Han, Moskewicz, Ashraf, Dally and Keutzer 2016, arXiv 1602.07360, in its
 * later, cheaper form. */
#include "families.h"
#include "layers.h"

// ---- Fire: y = concat(relu(expand1x1(s)), relu(expand3x3(s))), s = relu(squeeze(x)) -------------

typedef struct fire {
    talc_module base;
    talc_module *squeeze, *expand1x1, *expand3x3;
} fire;

typedef struct fire_options {
    int64_t in, squeezed, out; /* out channels of each expansion */
} fire_options;

static bool init(talc_module *module, const void *options)
{
    const fire_options *o = options;
    fire *self = (fire *)module;
    self->squeeze = talc_module_add(module, "squeeze", conv_bias(o->in, o->squeezed, 1, 1));
    self->expand1x1 = talc_module_add(module, "expand1x1", conv_bias(o->squeezed, o->out, 1, 1));
    self->expand3x3 = talc_module_add(module, "expand3x3", conv_bias(o->squeezed, o->out, 3, 1));
    return !talc_failed();
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    const fire *self = (const fire *)module;
    const talc_chain_end relu = { .activation = TALC_ACTIVATION_RELU };
    talc_tensor *s = talc_forward_chain(&self->squeeze, 1, x, &relu);
    talc_tensor *a = talc_forward_chain(&self->expand1x1, 1, s, &relu);
    talc_tensor *b = talc_forward_chain(&self->expand3x3, 1, s, &relu);
    return talc_concat((const talc_tensor *[]){ a, b }, 2, 1);
}

static const talc_module_class fire_class = {
    .name = "Fire", .size = sizeof(fire), .init = init, .forward = forward
};

// ---- The network --------------------------------------------------------------------------------

static talc_module *features(int64_t channels)
{
    static const fire_options fires[] = { /* a squeeze of 0 channels: pooling */
                                          { 0 },
                                          { 64, 16, 64 },
                                          { 128, 16, 64 },
                                          { 0 },
                                          { 128, 32, 128 },
                                          { 256, 32, 128 },
                                          { 0 },
                                          { 256, 48, 192 },
                                          { 384, 48, 192 },
                                          { 384, 64, 256 },
                                          { 512, 64, 256 }
    };
    const talc_pool2d_options pool = { .kernel = { 3, 3 }, .stride = { 2, 2 }, .ceil_mode = true };
    talc_module *chain = talc_nn_sequential();
    talc_nn_sequential_append(
        chain,
        talc_nn_conv2d(&(talc_conv2d_layer){
            .in_channels = channels, .out_channels = 64, .kernel = { 3, 3 }, .stride = { 2, 2 } }));
    talc_nn_sequential_append(chain, talc_nn_relu());
    for (size_t i = 0; i < sizeof fires / sizeof *fires; i++)
        talc_nn_sequential_append(chain, fires[i].squeezed == 0
                                             ? talc_nn_max_pool2d(&pool)
                                             : talc_module_new(&fire_class, &fires[i]));
    return chain;
}

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "features", features(channels));
    talc_module_add(net, "classifier",
                    TALC_SEQUENTIAL(talc_nn_dropout(0.5), conv_bias(512, classes, 1, 1),
                                    talc_nn_relu(), talc_nn_adaptive_avg_pool2d(1, 1),
                                    talc_nn_flatten()));
    return net;
}

const talc_network squeezenet_networks[] = {
    { "squeezenet1_1", "SqueezeNet 1.1: arXiv 1602.07360", { 3, 224, 224 }, 1000, make, NULL },
    { 0 },
};
