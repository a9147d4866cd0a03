#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/elementwise.h"

#include <math.h>

typedef struct prelu {
    talc_module base;
    talc_tensor *weight; /* [parameters] */
} prelu;

static bool prelu_init(talc_module *module, const void *layer_options)
{
    const talc_prelu_layer *options = layer_options;
    const int64_t parameters =
        options == NULL || options->parameters == 0 ? 1 : options->parameters;
    const double asked = options == NULL ? 0 : options->init;
    const double init = asked == 0 ? 0.25 : asked == (double)TALC_ZERO ? 0 : asked;
    const talc_dtype dtype = options == NULL ? TALC_F32 : options->dtype;
    if (!talc_layer_positive(module, "parameters", parameters) || !talc_layer_float(module, dtype))
        return false;
    if (!isfinite(init)) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: init %g must be finite", module->kind->name, init);
        return false;
    }
    prelu *self = (prelu *)module;
    self->weight = talc_parameter_full(module, "weight", dtype, TALC_DIMS(parameters), init);
    return self->weight != NULL;
}

static talc_tensor *prelu_forward(talc_module *module, talc_tensor *x)
{
    return talc_prelu(x, ((const prelu *)module)->weight);
}

static const talc_module_class prelu_class = {
    .name = "PReLU", .size = sizeof(prelu), .init = prelu_init, .forward = prelu_forward
};

talc_module *talc_nn_prelu(const talc_prelu_layer *options)
{
    return talc_module_new(&prelu_class, options);
}
