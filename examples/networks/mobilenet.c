/* MobileNet V1: Howard and others 2017, arXiv 1704.04861: depthwise separable convolutions, a row
 * of the table each. MobileNet V2: Sandler, Howard, Zhu, Zhmoginov and Chen 2018, arXiv 1801.04381:
 * inverted residuals, some to a row. */
#include "families.h"
#include "layers.h"

static talc_module *v1_features(int64_t channels)
{
    static const struct {
        int64_t out, stride;
    } rows[] = { { 64, 1 },  { 128, 2 },  { 128, 1 }, { 256, 2 }, { 256, 1 },
                 { 512, 2 }, { 512, 1 },  { 512, 1 }, { 512, 1 }, { 512, 1 },
                 { 512, 1 }, { 1024, 2 }, { 1024, 1 } };
    talc_module *chain = talc_nn_sequential();
    talc_nn_sequential_append(chain, conv_norm(channels, 32, 3, 2, 1, talc_nn_relu()));
    int64_t in = 32;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; in = rows[i++].out) {
        talc_nn_sequential_append(chain, conv_norm(in, in, 3, rows[i].stride, in, talc_nn_relu()));
        talc_nn_sequential_append(chain, conv_norm(in, rows[i].out, 1, 1, 1, talc_nn_relu()));
    }
    return chain;
}

static talc_module *make_v1(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "features", v1_features(channels));
    add_head(net, "classifier", 1024, classes);
    return net;
}

/* Wide in the middle, and with a shortcut where the shape stays. */
static talc_module *inverted_residual(int64_t in, int64_t out, int64_t stride, int64_t expand)
{
    const int64_t wide = in * expand;
    talc_module *body = talc_nn_sequential();
    if (expand > 1)
        talc_nn_sequential_append(body, conv_norm(in, wide, 1, 1, 1, talc_nn_relu6()));
    talc_nn_sequential_append(body, conv_norm(wide, wide, 3, stride, wide, talc_nn_relu6()));
    talc_nn_sequential_append(body, conv(wide, out, 1, 1, 1));
    talc_nn_sequential_append(body, norm(out));
    if (stride == 1 && in == out) {
        talc_module *block = block_new((block_options){ .concat = false });
        block_add(block, "conv", body);
        return block;
    }
    talc_module *chain = talc_nn_sequential();
    talc_module_add(chain, "conv", body);
    return chain;
}

static talc_module *make_v2(const void *config, int64_t channels, int64_t classes)
{
    static const struct {
        int64_t expand, out, count, stride;
    } rows[] = { { 1, 16, 1, 1 }, { 6, 24, 2, 2 },  { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
                 { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
    (void)config;
    talc_module *net = talc_nn_sequential();
    talc_module *features = talc_module_add(net, "features", talc_nn_sequential());
    talc_nn_sequential_append(features, conv_norm(channels, 32, 3, 2, 1, talc_nn_relu6()));
    int64_t in = 32;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int64_t i = 0; i < rows[r].count; i++, in = rows[r].out)
            talc_nn_sequential_append(
                features,
                inverted_residual(in, rows[r].out, i == 0 ? rows[r].stride : 1, rows[r].expand));
    talc_nn_sequential_append(features, conv_norm(in, 1280, 1, 1, 1, talc_nn_relu6()));
    talc_module_add(net, "avgpool", talc_nn_adaptive_avg_pool2d(1, 1));
    talc_module_add(net, "flatten", talc_nn_flatten());
    talc_module_add(net, "classifier",
                    TALC_SEQUENTIAL(talc_nn_dropout(0.2), linear(1280, classes)));
    return net;
}

const talc_network mobilenet_networks[] = {
    { "mobilenet_v1", "MobileNet V1: arXiv 1704.04861", { 3, 224, 224 }, 1000, make_v1, NULL },
    { "mobilenet_v2", "MobileNet V2: arXiv 1801.04381", { 3, 224, 224 }, 1000, make_v2, NULL },
    { 0 },
};
