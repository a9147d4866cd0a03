#include "nn/layers.h"
#include "nn/layer.h"
#include "ops/padding.h"
#include "tensor/storage.h"

#include <string.h>

typedef struct conv_transpose2d_module {
    talc_module base;
    talc_tensor *weight; /* [C, OC/groups, KH, KW] */
    talc_tensor *bias;   /* [OC], or NULL */
    talc_conv_transpose2d_options options;
} conv_transpose2d_module;

static bool options_fit(const talc_module *module, const talc_conv_transpose2d_layer *options)
{
    return !talc_operand_missing("ConvTranspose2d", "options", options) &&
           talc_layer_convolves(module, options->in_channels, options->out_channels,
                                options->kernel, options->groups, options->dtype) &&
           talc_layer_not_negative(module, "stride", options->stride, false) &&
           talc_layer_not_negative(module, "dilation", options->dilation, false) &&
           talc_layer_not_negative(module, "padding", options->padding, false) &&
           talc_layer_not_negative(module, "output_padding", options->output_padding, false);
}

static bool conv_transpose2d_init(talc_module *module, const void *layer_options)
{
    conv_transpose2d_module *self = (conv_transpose2d_module *)module;
    const talc_conv_transpose2d_layer *options = layer_options;
    if (!options_fit(module, options))
        return false;
    self->options.groups = options->groups;
    memcpy(self->options.stride, options->stride, sizeof options->stride);
    memcpy(self->options.padding, options->padding, sizeof options->padding);
    memcpy(self->options.output_padding, options->output_padding, sizeof options->output_padding);
    memcpy(self->options.dilation, options->dilation, sizeof options->dilation);

    const int64_t OC = options->out_channels,
                  OC_group = OC / (options->groups == 0 ? 1 : options->groups);
    const int64_t KH = options->kernel[0], KW = options->kernel[1];
    const double fan_in = (double)OC_group * (double)KH * (double)KW;
    self->weight =
        talc_parameter_uniform(module, "weight", options->dtype,
                               TALC_DIMS(options->in_channels, OC_group, KH, KW), fan_in);
    if (!options->no_bias)
        self->bias = talc_parameter_uniform(module, "bias", options->dtype, TALC_DIMS(OC), fan_in);
    return !talc_failed();
}

static talc_tensor *conv_transpose2d_forward(talc_module *module, talc_tensor *x)
{
    conv_transpose2d_module *self = (conv_transpose2d_module *)module;
    return talc_conv_transpose2d(x, self->weight, self->bias, &self->options);
}

/* Every input pixel meets every tap, those that land in the padding too. */
static double conv_transpose2d_macs(const talc_module *module, talc_dims x, talc_dims y)
{
    const int64_t *w = ((const conv_transpose2d_module *)module)->weight->dims;
    (void)y;
    return (double)x.dim[0] * (double)x.dim[1] * (double)x.dim[2] * (double)x.dim[3] *
           ((double)w[1] * (double)w[2] * (double)w[3]);
}

static const talc_module_class conv_transpose2d_class = {
    .name = "ConvTranspose2d",
    .size = sizeof(conv_transpose2d_module),
    .init = conv_transpose2d_init,
    .forward = conv_transpose2d_forward,
    .macs = conv_transpose2d_macs,
};

bool talc_conv_transpose2d_window_text(const talc_module *module, char text[TALC_CELL_TEXT])
{
    if (module->kind != &conv_transpose2d_class)
        return false;
    const conv_transpose2d_module *self = (const conv_transpose2d_module *)module;
    const talc_conv_transpose2d_options *o = &self->options;
    const talc_pool2d_options window = {
        .kernel = { self->weight->dims[2], self->weight->dims[3] },
        .stride = { talc_first_of(o->stride, 1), talc_second_of(o->stride, 1) },
        .padding = { o->padding[0], o->padding[1] },
        .dilation = { o->dilation[0], o->dilation[1] },
    };
    talc_layer_window(&window, o->groups, text);
    return true;
}

talc_module *talc_nn_conv_transpose2d(const talc_conv_transpose2d_layer *options)
{
    return talc_module_new(&conv_transpose2d_class, options);
}
