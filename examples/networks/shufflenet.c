/* ShuffleNet V1 with 3 groups: Zhang, Zhou, Lin and Sun 2017, arXiv 1707.01083. */
#include "families.h"
#include "layers.h"

enum { GROUPS = 3 };

/* The first unit of a stage halves the image and concatenates; the others add. The network's first
 * has no groups before the shuffle, as its input has few channels. */
static talc_module *unit(int64_t in, int64_t out, bool halves, bool first)
{
    const int64_t grown = halves ? out - in : out, middle = out / 4, stride = halves ? 2 : 1;
    const talc_pool2d_options pool = { .kernel = { 3, 3 },
                                       .stride = { 2, 2 },
                                       .padding = { 1, 1 } };
    talc_module *block = block_new((block_options){ TALC_ACTIVATION_RELU, halves });
    block_add(block, "conv1", conv(in, middle, 1, 1, first ? 1 : GROUPS));
    block_add(block, "bn1", norm(middle));
    block_add(block, "relu", talc_nn_relu());
    block_add(block, "shuffle", talc_nn_channel_shuffle(GROUPS));
    block_add(block, "conv2", conv(middle, middle, 3, stride, middle));
    block_add(block, "bn2", norm(middle));
    block_add(block, "conv3", conv(middle, grown, 1, 1, GROUPS));
    block_add(block, "bn3", norm(grown));
    if (halves)
        block_shortcut(block, "pool", talc_nn_avg_pool2d(&pool));
    return block;
}

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    static const struct {
        const char *name;
        int64_t width;
        int units;
    } stages[] = { { "stage2", 240, 4 }, { "stage3", 480, 8 }, { "stage4", 960, 4 } };
    (void)config;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "conv1", conv(channels, 24, 3, 2, 1));
    talc_module_add(net, "bn1", norm(24));
    talc_module_add(net, "relu", talc_nn_relu());
    talc_module_add(net, "maxpool", max_pool(3, 2, 1));
    int64_t in = 24;
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        talc_module *stage = talc_module_add(net, stages[s].name, talc_nn_sequential());
        for (int i = 0; i < stages[s].units; i++, in = stages[s].width)
            talc_nn_sequential_append(stage, unit(in, stages[s].width, i == 0, s == 0 && i == 0));
    }
    add_head(net, "fc", in, classes);
    return net;
}

const talc_network shufflenet_networks[] = {
    { "shufflenet_g3",
      "ShuffleNet V1, 3 groups: arXiv 1707.01083",
      { 3, 224, 224 },
      1000,
      make,
      NULL },
    { 0 },
};
