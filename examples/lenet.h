/* LeNet-5 for 28x28 images of digits, [N,1,28,28] -> [N,10], 61,706 parameters.
 *
 * LeCun, Bottou, Bengio and Haffner 1998, "Gradient-based learning applied to document recognition", in today's usual
 * form: ReLU and max pooling instead of the squashing functions, and a second convolution that sees all channels. */
#ifndef TALC_EXAMPLES_LENET_H
#define TALC_EXAMPLES_LENET_H

#include <talc/talc.h>

typedef struct lenet {
    talc_module base;
    talc_module *conv1, *conv2, *pool, *flatten, *fc1, *fc2, *fc3;
} lenet;

static inline talc_module *lenet_conv(int64_t in, int64_t out, int64_t padding)
{
    return talc_nn_conv2d(&(talc_conv2d_layer){
        .in_channels = in,
        .out_channels = out,
        .kernel = { 5, 5 },
        .padding = { padding, padding },
    });
}

static inline talc_module *lenet_pool(void)
{
    return talc_nn_max_pool2d(&(talc_pool2d_options){ .kernel = { 2, 2 } });
}

static inline talc_module *lenet_linear(int64_t in, int64_t out)
{
    return talc_nn_linear(&(talc_linear_layer){ .in_features = in, .out_features = out });
}

static bool lenet_init(talc_module *module, const void *options)
{
    (void)options;
    lenet *self = (lenet *)module;
    self->conv1 = talc_module_add(module, "conv1", lenet_conv(1, 6, 2));
    self->conv2 = talc_module_add(module, "conv2", lenet_conv(6, 16, 0));
    self->pool = talc_module_add(module, "pool", lenet_pool());
    self->flatten = talc_module_add(module, "flatten", talc_nn_flatten());
    self->fc1 = talc_module_add(module, "fc1", lenet_linear(16 * 5 * 5, 120));
    self->fc2 = talc_module_add(module, "fc2", lenet_linear(120, 84));
    self->fc3 = talc_module_add(module, "fc3", lenet_linear(84, 10));
    return !talc_failed(); /* after the first failure every later call failed too */
}

/* A layer and ReLU, which is its last step. */
static talc_tensor *lenet_relu(talc_module *layer, talc_tensor *x)
{
    return talc_forward_chain(&layer, 1, x,
                              &(talc_chain_end){ .activation = TALC_ACTIVATION_RELU });
}

static talc_tensor *lenet_forward(talc_module *module, talc_tensor *x)
{
    lenet *self = (lenet *)module;
    x = talc_forward(self->pool, lenet_relu(self->conv1, x));  /* [N,6,14,14] */
    x = talc_forward(self->pool, lenet_relu(self->conv2, x));  /* [N,16,5,5] */
    x = lenet_relu(self->fc1, talc_forward(self->flatten, x)); /* [N,120] */
    x = lenet_relu(self->fc2, x);
    return talc_forward(self->fc3, x);
}

static const talc_module_class lenet_class = {
    .name = "LeNet",
    .size = sizeof(lenet),
    .init = lenet_init,
    .forward = lenet_forward,
};

static inline talc_module *lenet_new(void)
{
    return talc_module_new(&lenet_class, NULL);
}

#endif
