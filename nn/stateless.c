/// Layers without options: the op is all there is to them.
#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/elementwise.h"

static talc_tensor *identity_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return x;
}

static talc_tensor *relu_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_relu(x);
}

static talc_tensor *sigmoid_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_sigmoid(x);
}

static talc_tensor *tanh_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_tanh(x);
}

static talc_tensor *flatten_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_flatten(x, 1, -1);
}

// clang-format off
static const talc_module_class identity_class = { .name = "Identity", .size = sizeof(talc_module), .forward = identity_forward };
static const talc_module_class flatten_class  = { .name = "Flatten",  .size = sizeof(talc_module), .forward = flatten_forward };
const talc_module_class talc_relu_class       = { .name = "ReLU",     .size = sizeof(talc_module), .forward = relu_forward };
const talc_module_class talc_sigmoid_class    = { .name = "Sigmoid",  .size = sizeof(talc_module), .forward = sigmoid_forward };
const talc_module_class talc_tanh_class       = { .name = "Tanh",     .size = sizeof(talc_module), .forward = tanh_forward };
// clang-format on

talc_module *talc_nn_identity(void)
{
    return talc_module_new(&identity_class, NULL);
}

talc_module *talc_nn_relu(void)
{
    return talc_module_new(&talc_relu_class, NULL);
}

talc_module *talc_nn_sigmoid(void)
{
    return talc_module_new(&talc_sigmoid_class, NULL);
}

talc_module *talc_nn_tanh(void)
{
    return talc_module_new(&talc_tanh_class, NULL);
}

talc_module *talc_nn_flatten(void)
{
    return talc_module_new(&flatten_class, NULL);
}
