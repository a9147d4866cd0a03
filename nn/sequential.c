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

/* The name of the next child. */
static const char *next_name(const talc_module *sequential, char name[16])
{
    snprintf(name, 16, "%d", sequential == NULL ? 0 : sequential->entries->count);
    return name;
}

talc_module *talc_nn_sequential_append(talc_module *sequential, talc_module *child)
{
    char name[16];
    return talc_module_add(sequential, next_name(sequential, name), child);
}

/* Frees those of a list that have no parent, each once. The list may name a module twice, and children of modules that go: no
 * module is looked at once the first is freed, so those to free are chained before, by their parents; the last is its own. */
static void free_roots(talc_module *const modules[], int count)
{
    talc_module *chain = NULL;
    for (int i = 0; modules != NULL && i < count; i++) {
        talc_module *module = modules[i];
        if (module != NULL && module->entries->parent == NULL) {
            module->entries->parent = chain == NULL ? module : chain;
            chain = module;
        }
    }
    while (chain != NULL) {
        talc_module *module = chain, *next = module->entries->parent;
        chain = next == module ? NULL : next;
        module->entries->parent = NULL;
        talc_module_free(module);
    }
}

talc_module *talc_nn_sequential_of(talc_module *const modules[], int count)
{
    talc_module *sequential = talc_nn_sequential();
    bool complete = !talc_operand_missing("nn_sequential_of", "modules", modules);
    char name[16];
    for (int i = 0; complete && i < count; i++)
        complete = talc_module_adopt(sequential, next_name(sequential, name), modules[i]);
    if (complete)
        return sequential;
    free_roots(modules, count);
    talc_module_free(sequential);
    return NULL;
}
