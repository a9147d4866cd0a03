#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/elementwise.h"
#include "tensor/storage.h"
#include "tensor/within.h"

static bool options_fit(const talc_module *module, const talc_batch_norm2d_layer *options)
{
    if (talc_operand_missing("BatchNorm2d", "options", options) ||
        !talc_layer_positive(module, "channels", options->channels) ||
        !talc_layer_float(module, options->dtype))
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
                                     talc_activation activation)
{
    talc_batch_norm2d_module *self = (talc_batch_norm2d_module *)module;
    bool tracks = self->num_batches_tracked != NULL;
    talc_batch_norm2d_options options = self->options;
    options.training = module->training || !tracks;
    options.activation = activation;
    /* Counted before the op, because afterwards, with the running statistics written, nothing may fail. */
    const char *around = talc_within("batch_norm2d");
    talc_tensor *count = NULL;
    if (module->training && tracks)
        count = talc_add_scalar(self->num_batches_tracked, 1);
    talc_tensor *y = talc_batch_norm2d(x, self->weight, self->bias, self->running_mean,
                                       self->running_var, &options);
    if (y != NULL && count != NULL)
        talc_copy(self->num_batches_tracked, count);
    talc_release(count);
    talc_within(around);
    return y;
}

static talc_tensor *batch_norm2d_forward(talc_module *module, talc_tensor *x)
{
    return talc_batch_norm2d_apply(module, x,
                                   ((talc_batch_norm2d_module *)module)->options.activation);
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
