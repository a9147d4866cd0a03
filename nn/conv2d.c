#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/operand.h"
#include "ops/padding.h"
#include "tensor/storage.h"

#include <string.h>

static bool options_fit(const talc_module *module, const talc_conv2d_layer *options)
{
    return !talc_operand_missing("Conv2d", "options", options) &&
           talc_layer_convolves(module, options->in_channels, options->out_channels,
                                options->kernel, options->groups, options->dtype) &&
           talc_layer_not_negative(module, "stride", options->stride, false) &&
           talc_layer_not_negative(module, "dilation", options->dilation, false) &&
           talc_layer_not_negative(module, "padding", options->padding, true) &&
           talc_layer_not_negative(module, "padding_end", options->padding_end, true) &&
           talc_operand_activation("Conv2d", options->activation);
}

static bool conv2d_init(talc_module *module, const void *layer_options)
{
    talc_conv2d_module *self = (talc_conv2d_module *)module;
    const talc_conv2d_layer *options = layer_options;
    if (!options_fit(module, options))
        return false;
    self->options = (talc_conv2d_options){
        .padding_same = options->padding_same,
        .padding_mode = options->padding_mode,
        .groups = options->groups,
        .activation = options->activation,
    };
    memcpy(self->options.stride, options->stride, sizeof options->stride);
    memcpy(self->options.padding, options->padding, sizeof options->padding);
    memcpy(self->options.padding_end, options->padding_end, sizeof options->padding_end);
    memcpy(self->options.dilation, options->dilation, sizeof options->dilation);

    int64_t groups = options->groups == 0 ? 1 : options->groups;
    int64_t C_group = options->in_channels / groups, OC = options->out_channels;
    int64_t KH = options->kernel[0], KW = options->kernel[1];
    double fan_in = (double)C_group * (double)KH * (double)KW;
    self->weight = talc_parameter_uniform(module, "weight", options->dtype,
                                          TALC_DIMS(OC, C_group, KH, KW), fan_in);
    if (!options->no_bias)
        self->bias = talc_parameter_uniform(module, "bias", options->dtype, TALC_DIMS(OC), fan_in);
    return !talc_failed();
}

static talc_tensor *conv2d_forward(talc_module *module, talc_tensor *x)
{
    talc_conv2d_module *self = (talc_conv2d_module *)module;
    talc_conv2d_options options = self->options;
    options.cache_weights = !module->training;
    return talc_conv2d(x, self->weight, self->bias, &options);
}

static double conv2d_macs(const talc_module *module, talc_dims x, talc_dims y)
{
    const int64_t *w = ((const talc_conv2d_module *)module)->weight->dims;
    (void)x;
    return (double)y.dim[0] * (double)y.dim[1] * (double)y.dim[2] * (double)y.dim[3] *
           ((double)w[1] * (double)w[2] * (double)w[3]);
}

const talc_module_class talc_conv2d_class = {
    .name = "Conv2d",
    .size = sizeof(talc_conv2d_module),
    .init = conv2d_init,
    .forward = conv2d_forward,
    .macs = conv2d_macs,
};

bool talc_conv2d_window_text(const talc_module *module, char text[TALC_CELL_TEXT])
{
    if (module->kind != &talc_conv2d_class)
        return false;
    const talc_conv2d_module *self = (const talc_conv2d_module *)module;
    const talc_conv2d_options *o = &self->options;
    const talc_pool2d_options window = {
        .kernel = { self->weight->dims[2], self->weight->dims[3] },
        .stride = { talc_first_of(o->stride, 1), talc_second_of(o->stride, 1) },
        .padding = { o->padding[0], o->padding[1] },
        .padding_end = { o->padding_end[0], o->padding_end[1] },
        .padding_same = o->padding_same,
        .dilation = { o->dilation[0], o->dilation[1] },
    };
    talc_layer_window(&window, o->groups, text);
    return true;
}

talc_module *talc_nn_conv2d(const talc_conv2d_layer *options)
{
    return talc_module_new(&talc_conv2d_class, options);
}
