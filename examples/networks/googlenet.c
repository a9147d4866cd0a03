/* GoogLeNet: Szegedy and others 2014, "Going deeper with convolutions", arXiv 1409.4842, as
 * torchvision has it: with batch norms, and 3x3 in place of 5x5.
 *
 * In evaluation mode the output is [N,classes]. In train mode it is [3N,classes]: the main logits,
 * then those of the auxiliary heads aux2 and aux1. The weights that torchvision offers were trained
 * on pixels normalised by mean 0.5 and deviation 0.5. */
#include "families.h"
#include "layers.h"

#include <string.h>

static talc_module *basic(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    const talc_batch_norm2d_layer bn = { .channels = out, .eps = 0.001 };
    talc_module *chain = talc_nn_sequential();
    talc_module_add(chain, "conv", conv(in, out, kernel, stride, 1));
    talc_module_add(chain, "bn", talc_nn_batch_norm2d(&bn));
    talc_module_add(chain, "relu", talc_nn_relu());
    return chain;
}

static talc_module *pool(int64_t kernel, int64_t stride)
{
    return talc_nn_max_pool2d(&(talc_pool2d_options){ .kernel = { kernel, kernel },
                                                      .stride = { stride, stride },
                                                      .padding = { stride == 1, stride == 1 },
                                                      .ceil_mode = true });
}

// ---- Inception: four branches, concatenated -----------------------------------------------------

typedef struct inception {
    talc_module base;
    talc_module *branches[4];
} inception;

typedef struct inception_options {
    const char *name;
    int64_t in, one, reduced3, three, reduced5, five, pooled;
} inception_options;

static bool init(talc_module *module, const void *options)
{
    const inception_options *o = options;
    talc_module **branches = ((inception *)module)->branches;
    branches[0] = talc_module_add(module, "branch1", basic(o->in, o->one, 1, 1));
    branches[1] = talc_module_add(
        module, "branch2",
        TALC_SEQUENTIAL(basic(o->in, o->reduced3, 1, 1), basic(o->reduced3, o->three, 3, 1)));
    branches[2] = talc_module_add(
        module, "branch3",
        TALC_SEQUENTIAL(basic(o->in, o->reduced5, 1, 1), basic(o->reduced5, o->five, 3, 1)));
    branches[3] = talc_module_add(module, "branch4",
                                  TALC_SEQUENTIAL(pool(3, 1), basic(o->in, o->pooled, 1, 1)));
    return !talc_failed();
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    const talc_tensor *y[4];
    for (int i = 0; i < 4; i++)
        y[i] = talc_forward(((inception *)module)->branches[i], x);
    return talc_concat(y, 4, 1);
}

static const talc_module_class inception_class = {
    .name = "Inception", .size = sizeof(inception), .init = init, .forward = forward
};

// ---- The network --------------------------------------------------------------------------------

enum { LAYERS = 20 };

typedef struct googlenet {
    talc_module base;
    talc_module *layers[LAYERS], *aux1, *aux2;
    int count, after_4a, after_4d; /* layers before each auxiliary head */
} googlenet;

static void add(googlenet *self, const char *name, talc_module *layer)
{
    self->layers[self->count++] = talc_module_add(&self->base, name, layer);
}

static talc_module *aux(int64_t in, int64_t classes)
{
    talc_module *head = talc_nn_sequential();
    talc_module_add(head, "pool", talc_nn_adaptive_avg_pool2d(4, 4));
    talc_module_add(head, "conv", basic(in, 128, 1, 1));
    talc_module_add(head, "flatten", talc_nn_flatten());
    talc_module_add(head, "fc1", linear(2048, 1024));
    talc_module_add(head, "relu", talc_nn_relu());
    talc_module_add(head, "dropout", talc_nn_dropout(0.7));
    talc_module_add(head, "fc2", linear(1024, classes));
    return head;
}

static void add_inceptions(googlenet *self)
{
    static const inception_options all[] = {
        { "inception3a", 192, 64, 96, 128, 16, 32, 32 },
        { "inception3b", 256, 128, 128, 192, 32, 96, 64 },
        { "maxpool3", .in = 3 }, /* its kernel */
        { "inception4a", 480, 192, 96, 208, 16, 48, 64 },
        { "inception4b", 512, 160, 112, 224, 24, 64, 64 },
        { "inception4c", 512, 128, 128, 256, 24, 64, 64 },
        { "inception4d", 512, 112, 144, 288, 32, 64, 64 },
        { "inception4e", 528, 256, 160, 320, 32, 128, 128 },
        { "maxpool4", .in = 2 },
        { "inception5a", 832, 256, 160, 320, 32, 128, 128 },
        { "inception5b", 832, 384, 192, 384, 48, 128, 128 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        add(self, all[i].name,
            all[i].one == 0 ? pool(all[i].in, 2) : talc_module_new(&inception_class, &all[i]));
        if (strcmp(all[i].name, "inception4a") == 0)
            self->after_4a = self->count;
        if (strcmp(all[i].name, "inception4d") == 0)
            self->after_4d = self->count;
    }
}

static bool net_init(talc_module *module, const void *options)
{
    const talc_network_options *o = options;
    googlenet *self = (googlenet *)module;
    add(self, "conv1", basic(o->channels, 64, 7, 2));
    add(self, "maxpool1", pool(3, 2));
    add(self, "conv2", basic(64, 64, 1, 1));
    add(self, "conv3", basic(64, 192, 3, 1));
    add(self, "maxpool2", pool(3, 2));
    add_inceptions(self);
    add(self, "avgpool", talc_nn_adaptive_avg_pool2d(1, 1));
    add(self, "flatten", talc_nn_flatten());
    add(self, "dropout", talc_nn_dropout(0.2));
    add(self, "fc", linear(1024, o->classes));
    self->aux1 = talc_module_add(module, "aux1", aux(512, o->classes));
    self->aux2 = talc_module_add(module, "aux2", aux(528, o->classes));
    return !talc_failed();
}

static talc_tensor *net_forward(talc_module *module, talc_tensor *x)
{
    const googlenet *self = (const googlenet *)module;
    const int a = self->after_4a, d = self->after_4d;
    if (!module->training)
        return talc_forward_chain(self->layers, self->count, x, NULL);
    talc_tensor *at_4a = talc_forward_chain(self->layers, a, x, NULL);
    talc_tensor *at_4d = talc_forward_chain(self->layers + a, d - a, at_4a, NULL);
    const talc_tensor *logits[] = {
        talc_forward_chain(self->layers + d, self->count - d, at_4d, NULL),
        talc_forward(self->aux2, at_4d),
        talc_forward(self->aux1, at_4a),
    };
    return talc_concat(logits, 3, 0);
}

static const talc_module_class googlenet_class = {
    .name = "GoogLeNet", .size = sizeof(googlenet), .init = net_init, .forward = net_forward
};

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    return talc_module_new(&googlenet_class,
                           &(talc_network_options){ .channels = channels, .classes = classes });
}

const talc_network googlenet_networks[] = {
    { "googlenet",
      "GoogLeNet with batch norms: arXiv 1409.4842",
      { 3, 224, 224 },
      1000,
      make,
      NULL },
    { 0 },
};
