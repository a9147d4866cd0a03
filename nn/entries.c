#include "nn/entries.h"

#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <string.h>

const talc_module_entry *talc_module_entry_find(const talc_module *module, const char *name,
                                                size_t length)
{
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (strncmp(entry->name, name, length) == 0 && entry->name[length] == '\0')
            return entry;
    }
    return NULL;
}

/* A dot would make two paths of one. */
static bool name_fits(const char *who, const talc_module *module, const char *name)
{
    if (talc_operand_missing(who, "name", name))
        return false;
    if (*name == '\0')
        talc_fail(TALC_BAD_ARGUMENT, "%s: a name in %s is empty", who,
                  TALC_SHOWN(module->kind->name));
    else if (strchr(name, '.') != NULL)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: name '%s' in %s has a dot, which separates the parts of a path", who,
                  TALC_SHOWN(name), TALC_SHOWN(module->kind->name));
    else if (talc_module_entry_find(module, name, strlen(name)) != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s has '%s' already", who, TALC_SHOWN(module->kind->name),
                  TALC_SHOWN(name));
    return !talc_failed();
}

static bool reserve_one(struct talc_module_entries *entries)
{
    talc_module_entry *list = talc_memory_grown(entries->list, (size_t)entries->count,
                                                &entries->room, sizeof *list, "module");
    if (list == NULL)
        return false;
    entries->list = list;
    return true;
}

bool talc_module_entry_add(const char *who, talc_module *module, const char *name,
                           talc_module_entry entry)
{
    struct talc_module_entries *entries = module->entries;
    if (!name_fits(who, module, name) || !reserve_one(entries))
        return false;
    entry.name = talc_memory_string(name);
    if (entry.name == NULL)
        return false;
    talc_retain(entry.tensor);
    entries->list[entries->count++] = entry;
    return true;
}

void talc_module_entries_free(struct talc_module_entries *entries)
{
    for (int i = 0; i < entries->count; i++) {
        talc_memory_free(entries->list[i].name);
        talc_release(entries->list[i].tensor);
    }
    talc_memory_free(entries->list);
    talc_memory_free(entries);
}
