#include "nn/entries.h"
#include "nn/fold.h"
#include "nn/module.h"
#include "nn/pass.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

// ---- Walking ------------------------------------------------------------------------------------

/* Characters of the longest path below a module. */
static size_t longest_path(const talc_module *module)
{
    size_t longest = 0;
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        size_t length = strlen(entry->name);
        if (entry->child != NULL)
            length += 1 + longest_path(entry->child);
        if (length > longest)
            longest = length;
    }
    return longest;
}

typedef struct path_walk {
    talc_parameter_visitor *visit;
    void *context;
    char *path; /* as long as the longest */
} path_walk;

/* Visits a module whose own path, with a dot at its end, is the first `length` characters of
 * walk->path. */
static bool walk_module(const path_walk *walk, const talc_module *module, size_t length)
{
    for (talc_entry_kind kind = TALC_ENTRY_PARAMETER; kind <= TALC_ENTRY_CHILD; kind++)
        for (int i = 0; i < module->entries->count; i++) {
            const talc_module_entry *entry = &module->entries->list[i];
            if (entry->kind != kind)
                continue;
            size_t end = length + strlen(entry->name);
            memcpy(walk->path + length, entry->name, end - length + 1);
            if (kind != TALC_ENTRY_CHILD) {
                if (!walk->visit(walk->path, entry->tensor, kind == TALC_ENTRY_BUFFER,
                                 walk->context))
                    return false;
            } else {
                walk->path[end] = '.';
                if (!walk_module(walk, entry->child, end + 1))
                    return false;
            }
        }
    return true;
}

bool talc_module_visit(talc_module *module, talc_parameter_visitor *visit, void *context)
{
    if (module == NULL || visit == NULL) {
        talc_operand_missing("module_visit", module == NULL ? "module" : "visit", NULL);
        return false;
    }
    /* A child without entries leaves its dot at the end, which needs room too. */
    char *path = talc_memory_new(longest_path(module) + 1, "module_visit");
    if (path == NULL)
        return false;
    bool ended = walk_module(&(path_walk){ visit, context, path }, module, 0);
    talc_memory_free(path);
    return ended;
}

const talc_module_entry *talc_module_entry_first(const talc_module *module,
                                                 const talc_tensor *parameter)
{
    const talc_module_entry *found = NULL;
    for (int i = 0; i < module->entries->count && found == NULL; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (entry->kind == TALC_ENTRY_PARAMETER && entry->tensor == parameter)
            found = entry;
    }
    for (int i = 0; i < module->entries->count && found == NULL; i++)
        if (module->entries->list[i].child != NULL)
            found = talc_module_entry_first(module->entries->list[i].child, parameter);
    return found;
}

/* Of a module of the tree of `root`. */
static int64_t count_in(const talc_module *root, const talc_module *module)
{
    int64_t sum = 0;
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (entry->kind == TALC_ENTRY_PARAMETER &&
            talc_module_entry_first(root, entry->tensor) == entry)
            sum += talc_numel(entry->tensor);
        else if (entry->kind == TALC_ENTRY_CHILD)
            sum += count_in(root, entry->child);
    }
    return sum;
}

int64_t talc_module_count(const talc_module *module)
{
    return module == NULL ? 0 : count_in(module, module);
}

// ---- Finding ------------------------------------------------------------------------------------

/* The entry at a path of at least one name; NULL when there is none. */
static const talc_module_entry *entry_at(const talc_module *module, const char *path)
{
    while (module != NULL) {
        size_t length = strcspn(path, ".");
        const talc_module_entry *entry = talc_module_entry_find(module, path, length);
        if (entry == NULL || path[length] == '\0')
            return entry;
        module = entry->child;
        path += length + 1;
    }
    return NULL;
}

talc_tensor *talc_module_find(talc_module *module, const char *path)
{
    const talc_module_entry *entry = path == NULL ? NULL : entry_at(module, path);
    return entry == NULL ? NULL : entry->tensor;
}

talc_module *talc_module_child(talc_module *module, const char *path)
{
    if (path != NULL && *path == '\0')
        return module;
    const talc_module_entry *entry = path == NULL ? NULL : entry_at(module, path);
    return entry == NULL ? NULL : entry->child;
}

int talc_module_tree_count(const talc_module *module)
{
    int count = 1;
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            count += talc_module_tree_count(module->entries->list[i].child);
    return count;
}

// ---- Replacing all tensors ----------------------------------------------------------------------

int talc_module_tensor_count(const talc_module *module)
{
    int count = 0;
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        count += entry->child == NULL ? 1 : talc_module_tensor_count(entry->child);
    }
    return count;
}

static bool collect(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    talc_replacement **next = context;
    (*next)++->tensor = tensor;
    return true;
}

talc_replacement *talc_module_replacements(talc_module *module)
{
    size_t count = (size_t)talc_module_tensor_count(module);
    talc_replacement *replacements = talc_memory_new(count * sizeof *replacements, "module");
    talc_replacement *next = replacements;
    if (replacements != NULL && !talc_module_visit(module, collect, &next)) {
        talc_memory_free(replacements);
        return NULL;
    }
    return replacements;
}

void talc_module_replace(talc_module *module, const talc_replacement *replacements)
{
    const int count = talc_module_tensor_count(module);
    talc_change_begin(module);
    for (int i = 0; i < count; i++)
        if (replacements[i].fresh != NULL)
            talc_tensor_replace(replacements[i].tensor, replacements[i].fresh);
    talc_module_forget_folds(module);
    talc_change_end(module);
}
