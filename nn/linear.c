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

talc_tensor *talc_linear_apply(const talc_module *module, const talc_tensor *x,
                               const talc_chain_end *end)
{
    const talc_linear_module *self = (const talc_linear_module *)module;
    const talc_tensor *weight =
        self->transposed ? talc_transpose(self->weight, 0, 1) : self->weight;
    talc_linear_options options = self->options;
    if (end != NULL) {
        options.activation = end->activation;
        options.residual = end->residual;
    }
    return weight == NULL ? NULL : talc_linear(x, weight, self->bias, &options);
}

static talc_tensor *linear_forward(talc_module *module, talc_tensor *x)
{
    return talc_linear_apply(module, x, NULL);
}

static double linear_macs(const talc_module *module, talc_dims x, talc_dims y)
{
    const talc_linear_module *self = (const talc_linear_module *)module;
    double macs = (double)self->weight->dims[self->transposed ? 0 : 1];
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
