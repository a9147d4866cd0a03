#include "onnx/linear.h"

talc_tensor *talc_onnx_linear_run(const talc_onnx_linear *self, talc_tensor *x,
                                  const talc_linear_options *options)
{
    const talc_tensor *weight = talc_transpose(self->weight, 0, 1);
    return weight == NULL ? NULL : talc_linear(x, weight, self->bias, options);
}

static talc_tensor *linear_forward(talc_module *module, talc_tensor *x)
{
    return talc_onnx_linear_run((talc_onnx_linear *)module, x, NULL);
}

static double linear_macs(const talc_module *module, talc_dims x, talc_dims y)
{
    double macs = (double)((const talc_onnx_linear *)module)->weight->dims[0];
    (void)x;
    for (int i = 0; i < y.rank; i++)
        macs *= (double)y.dim[i];
    return macs;
}

const talc_module_class talc_onnx_linear_class = {
    .name = "Linear",
    .size = sizeof(talc_onnx_linear),
    .forward = linear_forward,
    .macs = linear_macs,
};
