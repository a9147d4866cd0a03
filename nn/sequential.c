#include "nn/entries.h"
#include "nn/layer.h"
#include "nn/layers.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <stdio.h>

/* Fills in the children of a module; returns how many there are. */
static int list_children(const struct talc_module_entries *entries, talc_module **children)
{
    int count = 0;
    for (int i = 0; i < entries->count; i++)
        if (entries->list[i].child != NULL)
            children[count++] = entries->list[i].child;
    return count;
}

static talc_tensor *sequential_forward(talc_module *module, talc_tensor *x)
{
    const struct talc_module_entries *entries = module->entries;
    talc_module **children =
        talc_memory_new((size_t)entries->count * sizeof *children + 1, "forward: Sequential");
    if (children == NULL)
        return NULL;
    const int count = list_children(entries, children);
    talc_tensor *y = talc_forward_chain(children, count, x, NULL);
    talc_memory_free(children);
    return y;
}

const talc_module_class talc_sequential_class = {
    .name = "Sequential",
    .size = sizeof(talc_module),
    .forward = sequential_forward,
};

talc_module *talc_nn_sequential(void)
{
    return talc_module_new(&talc_sequential_class, NULL);
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

/* Frees those of a list that have no parent, each once. The list may name a module twice, and
 * children of modules that are freed: so before the first is freed, those to free are linked
 * through their parent pointers; the last points to itself. */
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

// ---- ModuleList ---------------------------------------------------------------------------------

static const talc_module_class module_list_class = {
    .name = "ModuleList",
    .size = sizeof(talc_module),
};

talc_module *talc_nn_module_list(void)
{
    return talc_module_new(&module_list_class, NULL);
}

int talc_nn_module_list_count(const talc_module *list)
{
    int count = 0;
    for (int i = 0; list != NULL && i < list->entries->count; i++)
        count += list->entries->list[i].child != NULL;
    return count;
}

talc_module *talc_nn_module_list_at(const talc_module *list, int index)
{
    if (talc_operand_missing("nn_module_list_at", "list", list))
        return NULL;
    const int count = talc_nn_module_list_count(list);
    int left = index < 0 ? index + count : index;
    for (int i = 0; left >= 0 && i < list->entries->count; i++)
        if (list->entries->list[i].child != NULL && left-- == 0)
            return list->entries->list[i].child;
    talc_fail(TALC_BAD_ARGUMENT, "nn_module_list_at: index %d is outside the %d modules", index,
              count);
    return NULL;
}
