/* EfficientNet: Tan and Le 2019, arXiv 1905.11946: MobileNet V2's inverted residuals with
 * squeeze-excitation and SiLU, all sizes from one table that is scaled in width and depth. */
#include "families.h"
#include "layers.h"

#include <math.h>

typedef struct efficientnet_config {
    double width, depth, dropout;
} efficientnet_config;

static const struct {
    int64_t expand, kernel, stride, in, out, count;
} rows[] = { { 1, 3, 1, 32, 16, 1 },  { 6, 3, 2, 16, 24, 2 },  { 6, 5, 2, 24, 40, 2 },
             { 6, 3, 2, 40, 80, 3 },  { 6, 5, 1, 80, 112, 3 }, { 6, 5, 2, 112, 192, 4 },
             { 6, 3, 1, 192, 320, 1 } };

enum { ROWS = sizeof rows / sizeof *rows };

/* The nearest multiple of 8, at least 8 and at least nine tenths of the value. */
static int64_t divisible(double value)
{
    int64_t near = (int64_t)(value + 4) / 8 * 8;
    near = near < 8 ? 8 : near;
    return (double)near < 0.9 * value ? near + 8 : near;
}

// ---- Squeeze-excitation: y = x * sigmoid(fc2(silu(fc1(mean of each channel of x)))) -------------

typedef struct squeeze_excitation {
    talc_module base;
    talc_module *avgpool, *fc1, *fc2;
} squeeze_excitation;

typedef struct squeeze_options {
    int64_t channels, squeezed;
} squeeze_options;

static bool init(talc_module *module, const void *options)
{
    const squeeze_options *o = options;
    squeeze_excitation *self = (squeeze_excitation *)module;
    self->avgpool = talc_module_add(module, "avgpool", talc_nn_adaptive_avg_pool2d(1, 1));
    self->fc1 = talc_module_add(module, "fc1", conv_bias(o->channels, o->squeezed, 1, 1));
    self->fc2 = talc_module_add(module, "fc2", conv_bias(o->squeezed, o->channels, 1, 1));
    return !talc_failed();
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    const squeeze_excitation *self = (const squeeze_excitation *)module;
    talc_chain_end end = { .activation = TALC_ACTIVATION_SILU };
    talc_tensor *s = talc_forward_chain(TALC_CHAIN(self->avgpool, self->fc1), x, &end);
    end.activation = TALC_ACTIVATION_SIGMOID;
    return talc_mul(x, talc_forward_chain(TALC_CHAIN(self->fc2), s, &end));
}

static const talc_module_class squeeze_excitation_class = { .name = "SqueezeExcitation",
                                                            .size = sizeof(squeeze_excitation),
                                                            .init = init,
                                                            .forward = forward };

// ---- The network --------------------------------------------------------------------------------

static talc_module *inverted_residual(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                      int64_t expand, double drop)
{
    const int64_t wide = divisible((double)(in * expand)), quarter = in / 4;
    talc_module *body = talc_nn_sequential();
    if (wide != in)
        talc_nn_sequential_append(body, conv_norm(in, wide, 1, 1, 1, talc_nn_silu()));
    talc_nn_sequential_append(body, conv_norm(wide, wide, kernel, stride, wide, talc_nn_silu()));
    talc_nn_sequential_append(
        body, talc_module_new(&squeeze_excitation_class,
                              &(squeeze_options){ wide, quarter < 1 ? 1 : quarter }));
    talc_nn_sequential_append(body, TALC_SEQUENTIAL(conv(wide, out, 1, 1, 1), norm(out)));
    if (stride == 1 && in == out) {
        talc_module *block = block_new((block_options){ .concat = false });
        block_add(block, "block", body);
        block_add(block, "stochastic_depth", talc_nn_drop_path(drop));
        return block;
    }
    talc_module *chain = talc_nn_sequential();
    talc_module_add(chain, "block", body);
    return chain;
}

static talc_module *features(const efficientnet_config *config, int64_t channels)
{
    int64_t counts[ROWS], total = 0, made = 0;
    for (int r = 0; r < ROWS; r++)
        total += counts[r] = (int64_t)ceil((double)rows[r].count * config->depth);
    talc_module *chain = talc_nn_sequential();
    int64_t in = divisible((double)rows[0].in * config->width);
    talc_nn_sequential_append(chain, conv_norm(channels, in, 3, 2, 1, talc_nn_silu()));
    for (int r = 0; r < ROWS; r++) {
        const int64_t out = divisible((double)rows[r].out * config->width);
        talc_module *stage = talc_nn_sequential_append(chain, talc_nn_sequential());
        for (int64_t i = 0; i < counts[r]; i++, in = out)
            talc_nn_sequential_append(
                stage, inverted_residual(in, out, rows[r].kernel, i == 0 ? rows[r].stride : 1,
                                         rows[r].expand, 0.2 * (double)made++ / (double)total));
    }
    talc_nn_sequential_append(chain, conv_norm(in, 4 * in, 1, 1, 1, talc_nn_silu()));
    return chain;
}

static talc_module *make(const void *efficientnet, int64_t channels, int64_t classes)
{
    const efficientnet_config *config = efficientnet;
    const int64_t last = 4 * divisible((double)rows[ROWS - 1].out * config->width);
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "features", features(config, channels));
    talc_module_add(net, "avgpool", talc_nn_adaptive_avg_pool2d(1, 1));
    talc_module_add(net, "flatten", talc_nn_flatten());
    talc_module_add(net, "classifier",
                    TALC_SEQUENTIAL(talc_nn_dropout(config->dropout), linear(last, classes)));
    return net;
}

#define EFFICIENTNET(name, what, size, ...)                                                        \
    {                                                                                              \
        name, what ": arXiv 1905.11946", { 3, size, size }, 1000, make,                            \
            &(const efficientnet_config)                                                           \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

const talc_network efficientnet_networks[] = {
    EFFICIENTNET("efficientnet_b0", "EfficientNet-B0", 224, 1.0, 1.0, 0.2),
    EFFICIENTNET("efficientnet_b1", "EfficientNet-B1", 240, 1.0, 1.1, 0.2),
    EFFICIENTNET("efficientnet_b2", "EfficientNet-B2", 288, 1.1, 1.2, 0.3),
    { 0 },
};
