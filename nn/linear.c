#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/operand.h"
#include "tensor/storage.h"

static bool linear_init(talc_module *module, const void *layer_options)
{
    talc_linear_module *self = (talc_linear_module *)module;
    const talc_linear_layer *options = layer_options;
    if (talc_operand_missing("Linear", "options", options) ||
        !talc_layer_positive(module, "in_features", options->in_features) ||
        !talc_layer_positive(module, "out_features", options->out_features) ||
        !talc_layer_float(module, options->dtype) ||
        !talc_operand_activation("Linear", options->activation))
        return false;
    self->options.activation = options->activation;
    int64_t in = options->in_features, out = options->out_features;
    self->weight =
        talc_parameter_uniform(module, "weight", options->dtype, TALC_DIMS(out, in), (double)in);
    if (!options->no_bias)
        self->bias =
            talc_parameter_uniform(module, "bias", options->dtype, TALC_DIMS(out), (double)in);
    return !talc_failed();
}

static talc_tensor *linear_forward(talc_module *module, talc_tensor *x)
{
    talc_linear_module *self = (talc_linear_module *)module;
    return talc_linear(x, self->weight, self->bias, &self->options);
}

static double linear_macs(const talc_module *module, talc_dims x, talc_dims y)
{
    double macs = (double)((const talc_linear_module *)module)->weight->dims[1];
    (void)x;
    for (int i = 0; i < y.rank; i++)
        macs *= (double)y.dim[i];
    return macs;
}

const talc_module_class talc_linear_class = {
    .name = "Linear",
    .size = sizeof(talc_linear_module),
    .init = linear_init,
    .forward = linear_forward,
    .macs = linear_macs,
};

talc_module *talc_nn_linear(const talc_linear_layer *options)
{
    return talc_module_new(&talc_linear_class, options);
}
