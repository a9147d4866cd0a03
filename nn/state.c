#include "nn/entries.h"
#include "nn/fold.h"
#include "tensor/memory.h"
#include "tensor/safetensors.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <string.h>

// ---- Saving -------------------------------------------------------------------------------------------------

typedef struct names {
    talc_named_tensor *list;
    int count;
} names;

static bool note_name(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    names *named = context;
    char *name = talc_memory_string(path);
    if (name != NULL)
        named->list[named->count++] = (talc_named_tensor){ name, tensor };
    return name != NULL;
}

bool talc_module_save(talc_module *module, const char *path)
{
    if (talc_operand_missing("module_save", "module", module) ||
        talc_operand_missing("module_save", "path", path))
        return false;
    /* PyTorch's readers look for this entry. */
    static const char *const metadata[] = { "format", "pt", NULL };
    names named = { NULL, 0 };
    named.list =
        talc_memory_new((size_t)talc_module_tensor_count(module) * sizeof *named.list, "save");
    bool saved = named.list != NULL && talc_module_visit(module, note_name, &named) &&
                 talc_safetensors_save(path, named.list, named.count, metadata);
    for (int i = 0; i < named.count; i++)
        talc_memory_free((char *)named.list[i].name);
    talc_memory_free(named.list);
    return saved;
}

// ---- Loading ------------------------------------------------------------------------------------------------

typedef struct loading {
    const talc_safetensors *file;
    const char *path;
    talc_replacement *next; /* of the module's next tensor */
    int64_t missing, matched;
    char first_missing[TALC_SHOWN_TEXT]; /* as it is shown */
} loading;

/* First walk: every tensor of the module that the file has must be of its type and shape. */
static bool check(const char *name, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    loading *load = context;
    int64_t index = talc_safetensors_find(load->file, name);
    if (index < 0) {
        if (load->missing++ == 0)
            talc_shown(name, SIZE_MAX, load->first_missing, sizeof load->first_missing);
        return true;
    }
    load->matched++;
    char in_file[TALC_DIMS_TEXT], in_module[TALC_DIMS_TEXT];
    talc_dims dims = talc_safetensors_dims(load->file, index);
    if (talc_safetensors_dtype(load->file, index) != tensor->dtype)
        talc_fail(TALC_BAD_DTYPE, "module_load: '%s': '%s' is %s in the file, %s in the module",
                  TALC_SHOWN(load->path), TALC_SHOWN(name),
                  talc_safetensors_dtype_name(load->file, index), talc_dtype_name(tensor->dtype));
    else if (!talc_shape_equal(dims, talc_dims_of(tensor)))
        talc_fail(TALC_BAD_SHAPE, "module_load: '%s': '%s' is %s in the file, %s in the module",
                  TALC_SHOWN(load->path), TALC_SHOWN(name), talc_dims_text(dims, in_file),
                  talc_dims_text(talc_dims_of(tensor), in_module));
    return !talc_failed();
}

/* Second walk: everything is read, and nothing replaced yet. */
static bool read_fresh(const char *name, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    loading *load = context;
    talc_replacement *replacement = load->next++;
    int64_t index = talc_safetensors_find(load->file, name);
    if (index >= 0)
        replacement->fresh = talc_safetensors_read(load->file, index, tensor->device);
    return index < 0 || replacement->fresh != NULL;
}

/* " (and 3 more)", or nothing for the first alone. */
static const char *and_more(int64_t count, char text[48])
{
    text[0] = '\0';
    if (count > 1)
        snprintf(text, 48, " (and %" PRId64 " more)", count - 1);
    return text;
}

/* The file and the module must have the same names. A file holds each name once, so that what the module did not find
 * in it are the extra ones. */
static bool check_names(const loading *load, talc_module *module)
{
    char more[48];
    if (load->missing > 0) {
        talc_fail(TALC_NOT_FOUND, "module_load: '%s' lacks '%s'%s", TALC_SHOWN(load->path),
                  load->first_missing, and_more(load->missing, more));
        return false;
    }
    int64_t count = talc_safetensors_count(load->file);
    for (int64_t i = 0; i < count; i++) {
        const char *name = talc_safetensors_name(load->file, i);
        if (talc_module_find(module, name) == NULL) {
            talc_fail(TALC_NOT_FOUND, "module_load: '%s' has '%s'%s, %s has not",
                      TALC_SHOWN(load->path), TALC_SHOWN(name),
                      and_more(count - load->matched, more), TALC_SHOWN(module->kind->name));
            return false;
        }
    }
    return true;
}

static bool load_from(talc_module *module, loading *load, bool strict)
{
    if (!talc_module_visit(module, check, load) || (strict && !check_names(load, module)))
        return false;
    talc_replacement *replacements = talc_module_replacements(module);
    load->next = replacements;
    bool complete = replacements != NULL && talc_module_visit(module, read_fresh, load);
    if (complete) {
        talc_module_replace(replacements, talc_module_tensor_count(module));
        talc_module_forget_folds(module);
    }
    talc_memory_free(replacements);
    return complete;
}

bool talc_module_load(talc_module *module, const char *path, bool strict)
{
    if (talc_operand_missing("module_load", "module", module) ||
        talc_operand_missing("module_load", "path", path))
        return false;
    loading load = { .path = path, .file = talc_safetensors_open(path) };
    if (load.file == NULL)
        return false;
    talc_scope *scope = talc_scope_enter();
    bool loaded = scope != NULL && load_from(module, &load, strict);
    talc_scope_leave(scope);
    talc_safetensors_close((talc_safetensors *)load.file);
    return loaded;
}
