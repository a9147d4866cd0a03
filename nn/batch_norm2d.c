#include "nn/layer.h"
#include "nn/layers.h"
#include "nn/parallel/sync_batch_norm.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/operand.h"
#include "tensor/storage.h"

static bool options_fit(const talc_module *module, const talc_batch_norm2d_layer *options)
{
    if (talc_operand_missing("BatchNorm2d", "options", options) ||
        !talc_layer_positive(module, "channels", options->channels) ||
        !talc_layer_float(module, options->dtype) ||
        !talc_operand_activation("BatchNorm2d", options->activation))
        return false;
    /* Written so that NaN is refused too. */
    double eps = options->eps, momentum = options->momentum;
    if (!(eps >= 0 || eps == (double)TALC_ZERO))
        talc_fail(TALC_BAD_ARGUMENT, "BatchNorm2d: eps %g must be at least 0", options->eps);
    else if (!((momentum >= 0 && momentum <= 1) || momentum == (double)TALC_ZERO))
        talc_fail(TALC_BAD_ARGUMENT, "BatchNorm2d: momentum %g must be from 0 to 1",
                  options->momentum);
    return !talc_failed();
}

static bool batch_norm2d_init(talc_module *module, const void *layer_options)
{
    talc_batch_norm2d_module *self = (talc_batch_norm2d_module *)module;
    const talc_batch_norm2d_layer *options = layer_options;
    if (!options_fit(module, options))
        return false;
    self->options = (talc_batch_norm2d_options){
        .eps = options->eps,
        .momentum = options->momentum,
        .activation = options->activation,
    };
    talc_dtype dtype = options->dtype;
    talc_dims channels = TALC_DIMS(options->channels);
    if (!options->no_affine) {
        self->weight = talc_parameter_full(module, "weight", dtype, channels, 1);
        self->bias = talc_parameter_full(module, "bias", dtype, channels, 0);
    }
    if (!options->no_tracking) {
        self->running_mean = talc_buffer_full(module, "running_mean", dtype, channels, 0);
        self->running_var = talc_buffer_full(module, "running_var", dtype, channels, 1);
        self->num_batches_tracked =
            talc_buffer_full(module, "num_batches_tracked", TALC_I64, TALC_SCALAR, 0);
    }
    return !talc_failed();
}

talc_tensor *talc_batch_norm2d_apply(talc_module *module, const talc_tensor *x,
                                     const talc_chain_end *end)
{
    talc_batch_norm2d_module *self = (talc_batch_norm2d_module *)module;
    bool tracks = self->num_batches_tracked != NULL;
    talc_batch_norm2d_options options = self->options;
    options.training = module->training || !tracks;
    options.activation = end->activation;
    options.residual = end->residual;
    options.num_batches_tracked = self->num_batches_tracked;
    if (self->group != NULL && options.training) {
        talc_tensor *y = talc_sync_batch_norm2d(self, x);
        y = end->residual == NULL ? y : talc_add(y, end->residual);
        return talc_activated(end->activation, y);
    }
    return talc_batch_norm2d(x, self->weight, self->bias, self->running_mean, self->running_var,
                             &options);
}

static talc_tensor *batch_norm2d_forward(talc_module *module, talc_tensor *x)
{
    const talc_chain_end end = { .activation =
                                     ((talc_batch_norm2d_module *)module)->options.activation };
    return talc_batch_norm2d_apply(module, x, &end);
}

const talc_module_class talc_batch_norm2d_class = {
    .name = "BatchNorm2d",
    .size = sizeof(talc_batch_norm2d_module),
    .init = batch_norm2d_init,
    .forward = batch_norm2d_forward,
};

talc_module *talc_nn_batch_norm2d(const talc_batch_norm2d_layer *options)
{
    return talc_module_new(&talc_batch_norm2d_class, options);
}
