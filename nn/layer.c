#include "nn/layer.h"

#include "tensor/random.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <math.h>

talc_tensor *talc_parameter_uniform(talc_module *module, const char *name, talc_dtype dtype,
                                    talc_dims dims, double fan_in)
{
    double bound = 1 / sqrt(fan_in);
    talc_tensor *tensor = talc_uniform(talc_device_host(), dtype, dims, -bound, bound);
    return tensor == NULL ? NULL : talc_module_parameter(module, name, tensor);
}

talc_tensor *talc_parameter_full(talc_module *module, const char *name, talc_dtype dtype,
                                 talc_dims dims, double value)
{
    talc_tensor *tensor = talc_full(talc_device_host(), dtype, dims, value);
    return tensor == NULL ? NULL : talc_module_parameter(module, name, tensor);
}

talc_tensor *talc_buffer_full(talc_module *module, const char *name, talc_dtype dtype,
                              talc_dims dims, double value)
{
    talc_tensor *tensor = talc_full(talc_device_host(), dtype, dims, value);
    return tensor == NULL ? NULL : talc_module_buffer(module, name, tensor);
}

bool talc_layer_positive(const talc_module *module, const char *option, int64_t value)
{
    if (value >= 1)
        return true;
    talc_fail(TALC_BAD_ARGUMENT, "%s: %s %" PRId64 " must be at least 1",
              TALC_SHOWN(module->kind->name), option, value);
    return false;
}

bool talc_layer_float(const talc_module *module, talc_dtype dtype)
{
    if (talc_dtype_is_float(dtype))
        return true;
    talc_fail(TALC_BAD_DTYPE, "%s: parameters of %s are not supported, they must be f32 or f64",
              TALC_SHOWN(module->kind->name), talc_dtype_name(dtype));
    return false;
}
