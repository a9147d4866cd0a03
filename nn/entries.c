#include "nn/entries.h"

#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/tape.h"

#include <string.h>

/* Where the name is in the hash table, or would be: the next place that is free after that of its
 * FNV-1a. */
static int *bucket_of(const struct talc_module_entries *entries, const char *name, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    for (size_t at = hash % entries->bucket_count;; at = (at + 1) % entries->bucket_count) {
        int *bucket = &entries->buckets[at];
        const char *there = *bucket == 0 ? NULL : entries->list[*bucket - 1].name;
        if (there == NULL || (strncmp(there, name, length) == 0 && there[length] == '\0'))
            return bucket;
    }
}

const talc_module_entry *talc_module_entry_find(const talc_module *module, const char *name,
                                                size_t length)
{
    const struct talc_module_entries *entries = module->entries;
    const int bucket = entries->count == 0 ? 0 : *bucket_of(entries, name, length);
    return bucket == 0 ? NULL : &entries->list[bucket - 1];
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

/* Room in the list, and in the table, of which at most half is taken. */
static bool reserve_one(struct talc_module_entries *entries)
{
    const size_t count = (size_t)entries->count;
    talc_module_entry *list =
        talc_memory_grown(entries->list, count, &entries->capacity, sizeof *list, "module");
    if (list == NULL)
        return false;
    entries->list = list;
    if (2 * (count + 1) <= entries->bucket_count)
        return true;
    int *buckets = talc_memory_new(4 * (count + 1) * sizeof *buckets, "module");
    if (buckets == NULL)
        return false;
    talc_memory_free(entries->buckets);
    entries->buckets = buckets;
    entries->bucket_count = 4 * (count + 1);
    for (int i = 0; i < entries->count; i++)
        *bucket_of(entries, entries->list[i].name, strlen(entries->list[i].name)) = i + 1;
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
    *bucket_of(entries, name, strlen(name)) = entries->count;
    if (entry.child != NULL)
        entry.child->entries->name = entry.name;
    return true;
}

void talc_module_entries_free(struct talc_module_entries *entries)
{
    for (int i = 0; i < entries->count; i++) {
        talc_memory_free(entries->list[i].name);
        if (entries->list[i].kind == TALC_ENTRY_PARAMETER)
            talc_tape_unname(entries->list[i].tensor, entries);
        talc_release(entries->list[i].tensor);
    }
    talc_memory_free(entries->list);
    talc_memory_free(entries->buckets);
    talc_memory_free(entries->info);
    talc_memory_free(entries);
}
