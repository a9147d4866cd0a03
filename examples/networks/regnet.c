/* RegNet X: Radosavovic, Kosaraju, Girshick, He and Dollar 2020, "Designing network design spaces",
 * arXiv 2003.13678. */
#include "families.h"
#include "layers.h"

#include <stdio.h>

typedef struct regnet_config {
    int64_t widths[4], group_width;
    int depths[4];
} regnet_config;

static talc_module *residual(int64_t in, int64_t out, bool first, int64_t group_width)
{
    talc_module *body = talc_nn_sequential(),
                *block = block_new((block_options){ TALC_ACTIVATION_RELU, false });
    talc_module_add(body, "a", conv_norm(in, out, 1, 1, 1, talc_nn_relu()));
    talc_module_add(body, "b",
                    conv_norm(out, out, 3, first ? 2 : 1, out / group_width, talc_nn_relu()));
    talc_module_add(body, "c", TALC_SEQUENTIAL(conv(out, out, 1, 1, 1), norm(out)));
    block_add(block, "f", body);
    if (first)
        block_shortcut(block, "proj", TALC_SEQUENTIAL(conv(in, out, 1, 2, 1), norm(out)));
    return block;
}

static talc_module *make(const void *regnet, int64_t channels, int64_t classes)
{
    const regnet_config *config = regnet;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "stem", conv_norm(channels, 32, 3, 2, 1, talc_nn_relu()));
    talc_module *trunk = talc_module_add(net, "trunk_output", talc_nn_sequential());
    int64_t in = 32;
    char name[32];
    for (int stage = 0; stage < 4; stage++) {
        snprintf(name, sizeof name, "block%d", stage + 1);
        talc_module *blocks = talc_module_add(trunk, name, talc_nn_sequential());
        for (int i = 0; i < config->depths[stage]; i++, in = config->widths[stage]) {
            snprintf(name, sizeof name, "block%d-%d", stage + 1, i);
            talc_module_add(blocks, name,
                            residual(in, config->widths[stage], i == 0, config->group_width));
        }
    }
    add_head(net, "fc", in, classes);
    return net;
}

const talc_network regnet_networks[] = {
    { "regnet_x_400mf",
      "RegNet X of 400 MFLOP: arXiv 2003.13678",
      { 3, 224, 224 },
      1000,
      make,
      &(const regnet_config){ { 32, 64, 160, 400 }, 16, { 1, 2, 7, 12 } } },
    { 0 },
};
