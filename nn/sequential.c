#include "nn/entries.h"
#include "nn/group.h"
#include "nn/layers.h"
#include "tensor/storage.h"

#include <stdio.h>

/* The children from entry i on, as many as one op may take; returns how many. */
static int next_children(const struct talc_module_entries *entries, int i,
                         talc_module *next[TALC_GROUP_MAX])
{
    int count = 0;
    for (; i < entries->count && count < TALC_GROUP_MAX; i++)
        if (entries->list[i].child != NULL)
            next[count++] = entries->list[i].child;
    return count;
}

/* The entry behind the next `count` children. */
static int skip_children(const struct talc_module_entries *entries, int i, int count)
{
    for (; count > 0; i++)
        count -= entries->list[i].child != NULL;
    return i;
}

static talc_tensor *sequential_forward(talc_module *module, talc_tensor *x)
{
    const struct talc_module_entries *entries = module->entries;
    talc_module *next[TALC_GROUP_MAX];
    talc_group_result group;
    talc_tensor *y = x;
    int i = 0, count;
    while (y != NULL && (count = next_children(entries, i, next)) > 0) {
        talc_tensor *input = y;
        y = talc_group_forward(next, count, input, NULL, &group);
        /* Nothing but these layers needed their input, unless that is the caller's. */
        if (input != y && input != x)
            talc_scope_drop(input);
        i = skip_children(entries, i, group.count);
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
