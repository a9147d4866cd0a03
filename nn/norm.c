#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/operand.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

/* GroupNorm, InstanceNorm2d and LayerNorm: what they share, and the op of each. */
typedef struct norm {
    talc_module base;
    talc_tensor *weight, *bias; /* NULL: left out */
    talc_norm_options options;
    int64_t groups;  /* GroupNorm's */
    talc_dims shape; /* LayerNorm's */
} norm;

static bool norm_init(talc_module *module, double eps, talc_activation activation, talc_dtype dtype,
                      talc_dims affine, bool weight, bool bias)
{
    norm *self = (norm *)module;
    if (!talc_layer_float(module, dtype) ||
        !talc_operand_activation(module->kind->name, activation))
        return false;
    if (!(eps >= 0 || eps == (double)TALC_ZERO)) /* NaN too */
        talc_fail(TALC_BAD_ARGUMENT, "%s: eps %g must be at least 0", module->kind->name, eps);
    self->options = (talc_norm_options){ .eps = eps, .activation = activation };
    if (!talc_failed() && weight)
        self->weight = talc_parameter_full(module, "weight", dtype, affine, 1);
    if (!talc_failed() && bias)
        self->bias = talc_parameter_full(module, "bias", dtype, affine, 0);
    return !talc_failed();
}

// ---- GroupNorm ----------------------------------------------------------------------------------

static bool group_norm_init(talc_module *module, const void *options)
{
    const talc_group_norm_layer *o = options;
    if (talc_operand_missing(module->kind->name, "options", o) ||
        !talc_layer_positive(module, "groups", o->groups) ||
        !talc_layer_positive(module, "channels", o->channels))
        return false;
    if (o->channels % o->groups != 0) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: %" PRId64 " channels do not divide into %" PRId64 " groups",
                  module->kind->name, o->channels, o->groups);
        return false;
    }
    ((norm *)module)->groups = o->groups;
    return norm_init(module, o->eps, o->activation, o->dtype, TALC_DIMS(o->channels), !o->no_affine,
                     !o->no_affine);
}

static talc_tensor *group_norm_forward(talc_module *module, talc_tensor *x)
{
    const norm *self = (const norm *)module;
    return talc_group_norm(x, self->groups, self->weight, self->bias, &self->options);
}

// ---- InstanceNorm2d -----------------------------------------------------------------------------

static bool instance_norm2d_init(talc_module *module, const void *options)
{
    const talc_instance_norm2d_layer *o = options;
    return !talc_operand_missing(module->kind->name, "options", o) &&
           talc_layer_positive(module, "channels", o->channels) &&
           norm_init(module, o->eps, o->activation, o->dtype, TALC_DIMS(o->channels), o->affine,
                     o->affine);
}

static talc_tensor *instance_norm2d_forward(talc_module *module, talc_tensor *x)
{
    const norm *self = (const norm *)module;
    return talc_instance_norm2d(x, self->weight, self->bias, &self->options);
}

// ---- LayerNorm ----------------------------------------------------------------------------------

static bool layer_norm_init(talc_module *module, const void *options)
{
    const talc_layer_norm_layer *o = options;
    if (talc_operand_missing(module->kind->name, "options", o))
        return false;
    if (o->normalised.rank < 1 || o->normalised.rank > TALC_MAX_RANK) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: normalised has %d dimensions, it must have 1 to %d",
                  module->kind->name, o->normalised.rank, TALC_MAX_RANK);
        return false;
    }
    ((norm *)module)->shape = o->normalised;
    return norm_init(module, o->eps, o->activation, o->dtype, o->normalised, !o->no_affine,
                     !o->no_affine && !o->no_bias);
}

static talc_tensor *layer_norm_forward(talc_module *module, talc_tensor *x)
{
    const norm *self = (const norm *)module;
    return talc_layer_norm(x, self->shape, self->weight, self->bias, &self->options);
}

// ---- LocalResponseNorm --------------------------------------------------------------------------

typedef struct local_response_norm {
    talc_module base;
    talc_local_response_norm_layer options;
} local_response_norm;

static bool local_response_norm_init(talc_module *module, const void *options)
{
    const talc_local_response_norm_layer *o = options;
    if (talc_operand_missing(module->kind->name, "options", o) ||
        !talc_layer_positive(module, "size", o->size))
        return false;
    ((local_response_norm *)module)->options = *o;
    const double values[] = { o->options.alpha, o->options.beta, o->options.k };
    static const char *const names[] = { "alpha", "beta", "k" };
    for (int i = 0; i < 3 && !talc_failed(); i++)
        if (values[i] != (double)TALC_ZERO && !(values[i] >= 0 && isfinite(values[i])))
            talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g must be at least 0 and finite",
                      module->kind->name, names[i], values[i]);
    return !talc_failed();
}

static talc_tensor *local_response_norm_forward(talc_module *module, talc_tensor *x)
{
    const talc_local_response_norm_layer *o = &((const local_response_norm *)module)->options;
    return talc_local_response_norm(x, o->size, &o->options);
}

// ---- Makers -------------------------------------------------------------------------------------

#define NORM(op, text, self)                                                                       \
    static const talc_module_class op##_class = {                                                  \
        .name = text, .size = sizeof(self), .init = op##_init, .forward = op##_forward             \
    };                                                                                             \
                                                                                                   \
    talc_module *talc_nn_##op(const talc_##op##_layer *options)                                    \
    {                                                                                              \
        return talc_module_new(&op##_class, options);                                              \
    }

NORM(group_norm, "GroupNorm", norm)
NORM(instance_norm2d, "InstanceNorm2d", norm)
NORM(layer_norm, "LayerNorm", norm)
NORM(local_response_norm, "LocalResponseNorm", local_response_norm)
