#include "nn/entries.h"
#include "nn/layers.h"
#include "tensor/storage.h"

#include <stdio.h>

static talc_tensor *sequential_forward(talc_module *module, talc_tensor *x)
{
    const struct talc_module_entries *entries = module->entries;
    talc_tensor *y = x;
    for (int i = 0; i < entries->count && y != NULL; i++) {
        if (entries->list[i].child == NULL)
            continue;
        talc_tensor *input = y;
        y = talc_forward(entries->list[i].child, input);
        /* Nothing but this layer needed its input, unless that is the caller's. */
        if (input != y && input != x)
            talc_scope_drop(input);
    }
    return y;
}

static const talc_module_class sequential_class = {
    .name = "Sequential",
    .size = sizeof(talc_module),
    .forward = sequential_forward,
};

talc_module *talc_nn_sequential(void)
{
    return talc_module_new(&sequential_class, NULL);
}

talc_module *talc_nn_sequential_append(talc_module *sequential, talc_module *child)
{
    char name[16] = "0";
    if (sequential != NULL)
        snprintf(name, sizeof name, "%d", sequential->entries->count);
    return talc_module_add(sequential, name, child);
}

talc_module *talc_nn_sequential_of(talc_module *const modules[], int count)
{
    talc_module *sequential = talc_nn_sequential();
    talc_operand_missing("nn_sequential_of", "modules", modules);
    /* After a failure too, because appending then frees. */
    for (int i = 0; modules != NULL && i < count; i++)
        talc_nn_sequential_append(sequential, modules[i]);
    if (!talc_failed())
        return sequential;
    talc_module_free(sequential);
    return NULL;
}
