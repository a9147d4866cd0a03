/* U-Net: Ronneberger, Fischer and Brox 2015, arXiv 1505.04597, [N,C,H,W] -> [N,classes,H,W], with
 * padded convolutions and batch norms as is usual today. H and W are multiples of 16. */
#include "families.h"
#include "layers.h"

#include <stdio.h>

enum { LEVELS = 5, WIDTH = 64 };

typedef struct unet {
    talc_module base;
    talc_module *down[LEVELS], *up[LEVELS - 1], *merge[LEVELS - 1], *pool, *outc;
} unet;

static talc_module *pair(int64_t in, int64_t out)
{
    return TALC_SEQUENTIAL(conv(in, out, 3, 1, 1), norm(out), talc_nn_relu(),
                           conv(out, out, 3, 1, 1), norm(out), talc_nn_relu());
}

static bool init(talc_module *module, const void *options)
{
    const talc_network_options *o = options;
    unet *self = (unet *)module;
    char name[16];
    self->pool = talc_module_add(module, "pool", max_pool(2, 2, 0));
    for (int i = 0; i < LEVELS; i++) {
        const int64_t width = WIDTH << i;
        snprintf(name, sizeof name, "down%d", i);
        self->down[i] =
            talc_module_add(module, name, pair(i == 0 ? o->channels : width / 2, width));
        if (i == LEVELS - 1)
            break;
        const talc_conv_transpose2d_layer up = {
            .in_channels = 2 * width, .out_channels = width, .kernel = { 2, 2 }, .stride = { 2, 2 }
        };
        snprintf(name, sizeof name, "up%d", i);
        self->up[i] = talc_module_add(module, name, talc_nn_conv_transpose2d(&up));
        snprintf(name, sizeof name, "merge%d", i);
        self->merge[i] = talc_module_add(module, name, pair(2 * width, width));
    }
    self->outc = talc_module_add(module, "outc", conv_bias(WIDTH, o->classes, 1, 1));
    return !talc_failed();
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    const unet *self = (const unet *)module;
    talc_tensor *seen[LEVELS];
    for (int i = 0; i < LEVELS; i++)
        seen[i] = x = talc_forward(self->down[i], i == 0 ? x : talc_forward(self->pool, x));
    for (int i = LEVELS - 2; i >= 0; i--) {
        talc_tensor *up = talc_forward(self->up[i], x);
        x = talc_forward(self->merge[i], talc_concat((const talc_tensor *[]){ seen[i], up }, 2, 1));
    }
    return talc_forward(self->outc, x);
}

static const talc_module_class unet_class = {
    .name = "UNet", .size = sizeof(unet), .init = init, .forward = forward
};

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    return talc_module_new(&unet_class,
                           &(talc_network_options){ .channels = channels, .classes = classes });
}

const talc_network unet_networks[] = {
    { "unet", "U-Net with batch norms: arXiv 1505.04597", { 3, 256, 256 }, 2, make, NULL },
    { 0 },
};
