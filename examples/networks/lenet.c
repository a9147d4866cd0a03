/* LeNet-5 for 28x28 images of digits, [N,1,28,28] -> [N,10], 61,706 parameters, in today's usual
 * form: ReLU and max pooling instead of the squashing functions, and a second convolution that sees
 * all channels.
 *
 * This is the long way to write a network: a struct with its layers, init, which makes them, and
 * forward. */
#include "families.h"
#include "layers.h"

typedef struct lenet {
    talc_module base;
    talc_module *conv1, *conv2, *pool, *flatten, *fc1, *fc2, *fc3;
} lenet;

static bool init(talc_module *module, const void *options)
{
    const talc_network_options *o = options;
    lenet *self = (lenet *)module;
    const talc_conv2d_layer conv2 = { .in_channels = 6, .out_channels = 16, .kernel = { 5, 5 } };
    self->conv1 = talc_module_add(module, "conv1", conv_bias(o->channels, 6, 5, 1));
    self->conv2 = talc_module_add(module, "conv2", talc_nn_conv2d(&conv2));
    self->pool = talc_module_add(module, "pool", max_pool(2, 2, 0));
    self->flatten = talc_module_add(module, "flatten", talc_nn_flatten());
    self->fc1 = talc_module_add(module, "fc1", linear(16 * 5 * 5, 120));
    self->fc2 = talc_module_add(module, "fc2", linear(120, 84));
    self->fc3 = talc_module_add(module, "fc3", linear(84, o->classes));
    return !talc_failed(); /* after the first failure every later call failed too */
}

/* A layer and ReLU, which is its last step. */
static talc_tensor *relu(talc_module *layer, talc_tensor *x)
{
    return talc_forward_chain(&layer, 1, x,
                              &(talc_chain_end){ .activation = TALC_ACTIVATION_RELU });
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    lenet *self = (lenet *)module;
    x = talc_forward(self->pool, relu(self->conv1, x));  /* [N,6,14,14] */
    x = talc_forward(self->pool, relu(self->conv2, x));  /* [N,16,5,5] */
    x = relu(self->fc1, talc_forward(self->flatten, x)); /* [N,120] */
    x = relu(self->fc2, x);
    return talc_forward(self->fc3, x);
}

static const talc_module_class lenet_class = {
    .name = "LeNet", .size = sizeof(lenet), .init = init, .forward = forward
};

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    return talc_module_new(&lenet_class,
                           &(talc_network_options){ .channels = channels, .classes = classes });
}

const talc_network lenet_networks[] = {
    { "lenet",
      "LeNet-5: LeCun, Bottou, Bengio and Haffner 1998, in today's form",
      { 1, 28, 28 },
      10,
      make,
      NULL },
    { 0 },
};
