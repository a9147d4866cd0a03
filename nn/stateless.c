/// Layers without parameters: the op is all there is to them.
#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/gradient.h"

#include <string.h>

static talc_tensor *identity_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return x;
}

static talc_tensor *flatten_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_flatten(x, 1, -1);
}

// clang-format off
static const talc_module_class identity_class = { .name = "Identity", .size = sizeof(talc_module), .forward = identity_forward };
static const talc_module_class flatten_class  = { .name = "Flatten",  .size = sizeof(talc_module), .forward = flatten_forward };
// clang-format on

talc_module *talc_nn_identity(void)
{
    return talc_module_new(&identity_class, NULL);
}

talc_module *talc_nn_flatten(void)
{
    return talc_module_new(&flatten_class, NULL);
}

// ---- Elementwise ops ----------------------------------------------------------------------------

typedef struct elementwise {
    talc_module base;
    talc_unary_function function;
    double numbers[2];
} elementwise;

static bool elementwise_init(talc_module *module, const void *options)
{
    elementwise *self = (elementwise *)module;
    const elementwise *of = options;
    self->function = of->function;
    memcpy(self->numbers, of->numbers, sizeof self->numbers);
    return talc_unary_numbers_fit(self->function, self->numbers);
}

static talc_tensor *elementwise_forward(talc_module *module, talc_tensor *x)
{
    const elementwise *self = (const elementwise *)module;
    return talc_unary(self->function, x, self->numbers[0], self->numbers[1]);
}

#define ELEMENTWISE(name_, constant, title, parameters, ...)                                       \
    static const talc_module_class name_##_class = { .name = title,                                \
                                                     .size = sizeof(elementwise),                  \
                                                     .init = elementwise_init,                     \
                                                     .forward = elementwise_forward };             \
    talc_module *talc_nn_##name_ parameters                                                        \
    {                                                                                              \
        return talc_module_new(                                                                    \
            &name_##_class, &(elementwise){ .function = constant, .numbers = { __VA_ARGS__ } });   \
    }

// clang-format off
ELEMENTWISE(relu,        TALC_RELU,        "ReLU",        (void), 0)
ELEMENTWISE(relu6,       TALC_RELU6,       "ReLU6",       (void), 0)
ELEMENTWISE(sigmoid,     TALC_SIGMOID,     "Sigmoid",     (void), 0)
ELEMENTWISE(tanh,        TALC_TANH,        "Tanh",        (void), 0)
ELEMENTWISE(hardsigmoid, TALC_HARDSIGMOID, "Hardsigmoid", (void), 0)
ELEMENTWISE(hardswish,   TALC_HARDSWISH,   "Hardswish",   (void), 0)
ELEMENTWISE(silu,        TALC_SILU,        "SiLU",        (void), 0)
ELEMENTWISE(mish,        TALC_MISH,        "Mish",        (void), 0)
ELEMENTWISE(gelu,        TALC_GELU,        "GELU",        (void), 0)
ELEMENTWISE(gelu_tanh,   TALC_GELU_TANH,   "GELU",        (void), 0)
ELEMENTWISE(leaky_relu,  TALC_LEAKY_RELU,  "LeakyReLU",   (double negative_slope), negative_slope)
ELEMENTWISE(elu,         TALC_ELU,         "ELU",         (double alpha), alpha)
ELEMENTWISE(softplus,    TALC_SOFTPLUS,    "Softplus",    (double beta, double threshold), beta, threshold)
ELEMENTWISE(selu,        TALC_SELU,        "SELU",        (void), 0)
ELEMENTWISE(softsign,    TALC_SOFTSIGN,    "Softsign",    (void), 0)
ELEMENTWISE(hardtanh,    TALC_HARDTANH,    "Hardtanh",    (double low, double high), low, high)
// clang-format on

talc_activation talc_activation_of(const talc_module *module)
{
    const elementwise *self = (const elementwise *)module;
    if (module->kind->forward != elementwise_forward ||
        self->function + 1 >= (int)TALC_ACTIVATION_COUNT ||
        (self->function == TALC_LEAKY_RELU && self->numbers[0] != TALC_ACTIVATION_NUMBER))
        return TALC_ACTIVATION_NONE;
    return (talc_activation)(self->function + 1);
}
