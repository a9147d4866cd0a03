#include "nn/layer.h"

#include "ops/padding.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/random.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <math.h>

talc_tensor *talc_parameter_uniform(talc_module *module, const char *name, talc_dtype dtype,
                                    talc_dims dims, double fan_in)
{
    TALC_DEFAULT_FENV;
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

bool talc_layer_not_negative(const talc_module *module, const char *option, const int64_t pair[2],
                             bool may_ask_for_zero)
{
    for (int i = 0; i < 2 && !talc_failed(); i++)
        if (pair[i] < 0 && !(may_ask_for_zero && pair[i] == TALC_ZERO))
            talc_fail(TALC_BAD_ARGUMENT, "%s: %s [%" PRId64 ",%" PRId64 "] must not be negative",
                      module->kind->name, option, pair[0], pair[1]);
    return !talc_failed();
}

/* `option` channels are shared out between groups. */
static bool divisible(const talc_module *module, const char *option, int64_t channels,
                      int64_t groups)
{
    if (channels % groups != 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %" PRId64 " is not a multiple of groups %" PRId64,
                  module->kind->name, option, channels, groups);
    return !talc_failed();
}

bool talc_layer_convolves(const talc_module *module, int64_t in_channels, int64_t out_channels,
                          const int64_t kernel[2], int64_t groups, talc_dtype dtype)
{
    groups = groups == 0 ? 1 : groups;
    if (!talc_layer_positive(module, "in_channels", in_channels) ||
        !talc_layer_positive(module, "out_channels", out_channels) ||
        !talc_layer_positive(module, "groups", groups) || !talc_layer_float(module, dtype))
        return false;
    if (kernel[0] < 1 || kernel[1] < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: kernel [%" PRId64 ",%" PRId64 "] must be at least 1",
                  module->kind->name, kernel[0], kernel[1]);
    return !talc_failed() && divisible(module, "in_channels", in_channels, groups) &&
           divisible(module, "out_channels", out_channels, groups);
}

/* The two sides of padding `same`: the larger half of what the taps reach over is at the end. */
static void same_sides(int64_t kernel, int64_t dilation, int64_t *begin, int64_t *end)
{
    int64_t reach = 0;
    (void)talc_multiply(dilation, kernel - 1, &reach);
    *begin = reach / 2;
    *end = reach - reach / 2;
}

void talc_layer_window(const talc_pool2d_options *o, int64_t groups, char text[TALC_CELL_TEXT])
{
    talc_window window = { .KH = o->kernel[0],
                           .KW = o->kernel[1],
                           .stride_h = talc_first_of(o->stride, o->kernel[0]),
                           .stride_w = talc_second_of(o->stride, o->kernel[1]),
                           .dilation_h = talc_first_of(o->dilation, 1),
                           .dilation_w = talc_second_of(o->dilation, 1),
                           .groups = groups == 0 ? 1 : groups };
    talc_padding *pad = &window.pad;
    if (o->padding_same) {
        same_sides(window.KH, window.dilation_h, &pad->top, &pad->bottom);
        same_sides(window.KW, window.dilation_w, &pad->left, &pad->right);
    } else {
        *pad = (talc_padding){ .top = talc_or_default(o->padding[0], 0),
                               .left = talc_or_default(o->padding[1], 0) };
        pad->bottom = talc_or_default(o->padding_end[0], pad->top);
        pad->right = talc_or_default(o->padding_end[1], pad->left);
    }
    talc_window_text(&window, text);
}
