#include "nn/layer.h"
#include "nn/layers.h"
#include "tensor/storage.h"

typedef struct pool2d {
    talc_module base;
    talc_pool2d_options options;
} pool2d;

static talc_tensor *max_pool2d_forward(talc_module *module, talc_tensor *x)
{
    return talc_max_pool2d(x, &((pool2d *)module)->options);
}

static talc_tensor *avg_pool2d_forward(talc_module *module, talc_tensor *x)
{
    return talc_avg_pool2d(x, &((pool2d *)module)->options);
}

static bool pool2d_init(talc_module *module, const void *options)
{
    const talc_pool2d_kind kind =
        module->kind->forward == max_pool2d_forward ? TALC_POOL2D_MAX : TALC_POOL2D_AVG;
    if (talc_operand_missing(module->kind->name, "options", options) ||
        !talc_pool2d_check(kind, options))
        return false;
    ((pool2d *)module)->options = *(const talc_pool2d_options *)options;
    return true;
}

static const talc_module_class max_pool2d_class = {
    .name = "MaxPool2d",
    .size = sizeof(pool2d),
    .init = pool2d_init,
    .forward = max_pool2d_forward,
};

static const talc_module_class avg_pool2d_class = {
    .name = "AvgPool2d",
    .size = sizeof(pool2d),
    .init = pool2d_init,
    .forward = avg_pool2d_forward,
};

bool talc_pool2d_window_text(const talc_module *module, char text[TALC_CELL_TEXT])
{
    if (module->kind != &max_pool2d_class && module->kind != &avg_pool2d_class)
        return false;
    talc_layer_window(&((const pool2d *)module)->options, 1, text);
    return true;
}

talc_module *talc_nn_max_pool2d(const talc_pool2d_options *options)
{
    return talc_module_new(&max_pool2d_class, options);
}

talc_module *talc_nn_avg_pool2d(const talc_pool2d_options *options)
{
    return talc_module_new(&avg_pool2d_class, options);
}

// ---- Adaptive -----------------------------------------------------------------------------------

typedef struct adaptive_pool2d {
    talc_module base;
    int64_t OH, OW;
} adaptive_pool2d;

static bool adaptive_init(talc_module *module, const void *options)
{
    adaptive_pool2d *self = (adaptive_pool2d *)module;
    const int64_t *extents = options;
    self->OH = extents[0];
    self->OW = extents[1];
    return talc_layer_positive(module, "OH", self->OH) &&
           talc_layer_positive(module, "OW", self->OW);
}

static talc_tensor *adaptive_avg_pool2d_forward(talc_module *module, talc_tensor *x)
{
    const adaptive_pool2d *self = (adaptive_pool2d *)module;
    return talc_adaptive_avg_pool2d(x, self->OH, self->OW);
}

static talc_tensor *adaptive_max_pool2d_forward(talc_module *module, talc_tensor *x)
{
    const adaptive_pool2d *self = (adaptive_pool2d *)module;
    return talc_adaptive_max_pool2d(x, self->OH, self->OW);
}

static const talc_module_class adaptive_avg_pool2d_class = {
    .name = "AdaptiveAvgPool2d",
    .size = sizeof(adaptive_pool2d),
    .init = adaptive_init,
    .forward = adaptive_avg_pool2d_forward,
};

static const talc_module_class adaptive_max_pool2d_class = {
    .name = "AdaptiveMaxPool2d",
    .size = sizeof(adaptive_pool2d),
    .init = adaptive_init,
    .forward = adaptive_max_pool2d_forward,
};

talc_module *talc_nn_adaptive_avg_pool2d(int64_t OH, int64_t OW)
{
    return talc_module_new(&adaptive_avg_pool2d_class, (const int64_t[]){ OH, OW });
}

talc_module *talc_nn_adaptive_max_pool2d(int64_t OH, int64_t OW)
{
    return talc_module_new(&adaptive_max_pool2d_class, (const int64_t[]){ OH, OW });
}
