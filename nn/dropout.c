#include "ops/dropout.h"

#include "nn/layer.h"
#include "nn/layers.h"
#include "tensor/storage.h"

typedef struct dropout {
    talc_module base;
    double p;
} dropout;

static bool dropout_init(talc_module *module, const void *options)
{
    const double p = *(const double *)options;
    if (!(p >= 0 && p <= 1))
        talc_fail(TALC_BAD_ARGUMENT, "%s: p %g must be from 0 to 1", module->kind->name, p);
    ((dropout *)module)->p = p;
    return !talc_failed();
}

static talc_tensor *dropout_forward(talc_module *module, talc_tensor *x)
{
    return module->training ? talc_dropout(x, ((dropout *)module)->p, true) : x;
}

static talc_tensor *drop_path_forward(talc_module *module, talc_tensor *x)
{
    return module->training ? talc_drop_path(x, ((dropout *)module)->p, true) : x;
}

static const talc_module_class drop_path_class = {
    .name = "DropPath",
    .size = sizeof(dropout),
    .init = dropout_init,
    .forward = drop_path_forward,
};

static const talc_module_class dropout_class = {
    .name = "Dropout",
    .size = sizeof(dropout),
    .init = dropout_init,
    .forward = dropout_forward,
};

bool talc_dropout_passes(const talc_module *module)
{
    return !module->training &&
           (module->kind == &dropout_class || module->kind == &drop_path_class);
}

talc_module *talc_nn_dropout(double p)
{
    return talc_module_new(&dropout_class, &p);
}

talc_module *talc_nn_drop_path(double p)
{
    return talc_module_new(&drop_path_class, &p);
}
