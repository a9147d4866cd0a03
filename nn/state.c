#include "nn/state.h"

#include "nn/fold.h"
#include "tensor/memory.h"
#include "tensor/safetensors.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <string.h>

// ---- Saving -------------------------------------------------------------------------------------------------

bool talc_names_add(talc_names *names, const char *name, const talc_tensor *tensor)
{
    char *copy = talc_memory_string(name);
    if (copy != NULL)
        names->list[names->count++] = (talc_named_tensor){ copy, (talc_tensor *)tensor };
    return copy != NULL;
}

static bool note_name(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    return talc_names_add(context, path, tensor);
}

bool talc_names_add_module(talc_names *names, talc_module *module)
{
    return talc_module_visit(module, note_name, names);
}

void talc_names_free(talc_names *names)
{
    for (int i = 0; i < names->count; i++)
        talc_memory_free((char *)names->list[i].name);
    talc_memory_free(names->list);
}

bool talc_module_save(talc_module *module, const char *path)
{
    if (talc_operand_missing("module_save", "module", module) ||
        talc_operand_missing("module_save", "path", path))
        return false;
    /* PyTorch's readers look for this entry. */
    static const char *const metadata[] = { "format", "pt", NULL };
    talc_names named = { NULL, 0 };
    named.list =
        talc_memory_new((size_t)talc_module_tensor_count(module) * sizeof *named.list, "save");
    const bool saved = named.list != NULL && talc_names_add_module(&named, module) &&
                       talc_safetensors_save(path, named.list, named.count, metadata);
    talc_names_free(&named);
    return saved;
}

// ---- Loading ------------------------------------------------------------------------------------------------

typedef struct loading {
    const talc_safetensors *file;
    const char *path;
    talc_replacement *next; /* of the module's next tensor */
    const char *besides;    /* how names begin that are not the module's; NULL: none do */
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

static bool is_besides(const loading *load, talc_module *module, const char *name)
{
    return load->besides != NULL && strncmp(name, load->besides, strlen(load->besides)) == 0 &&
           talc_module_find(module, name) == NULL;
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
    int64_t total = talc_safetensors_count(load->file), count = total;
    for (int64_t i = 0; i < total; i++)
        count -= is_besides(load, module, talc_safetensors_name(load->file, i));
    for (int64_t i = 0; i < total; i++) {
        const char *name = talc_safetensors_name(load->file, i);
        if (!is_besides(load, module, name) && talc_module_find(module, name) == NULL) {
            talc_fail(TALC_NOT_FOUND, "module_load: '%s' has '%s'%s, %s has not",
                      TALC_SHOWN(load->path), TALC_SHOWN(name),
                      and_more(count - load->matched, more), TALC_SHOWN(module->kind->name));
            return false;
        }
    }
    return true;
}

// ---- All that differs ---------------------------------------------------------------------------------------

typedef struct comparing {
    FILE *out;
    const talc_safetensors *file;
    int64_t count;
} comparing;

static bool compare(const char *name, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    comparing *self = context;
    char in_file[TALC_DIMS_TEXT], in_module[TALC_DIMS_TEXT];
    const int64_t index = talc_safetensors_find(self->file, name);
    talc_dims_text(talc_dims_of(tensor), in_module);
    if (index < 0)
        fprintf(self->out, "missing     %s %s\n", TALC_SHOWN(name), in_module);
    else if (talc_safetensors_dtype(self->file, index) != tensor->dtype ||
             !talc_shape_equal(talc_safetensors_dims(self->file, index), talc_dims_of(tensor)))
        fprintf(self->out, "differs     %s is %s %s in the file, %s %s in the module\n",
                TALC_SHOWN(name), talc_safetensors_dtype_name(self->file, index),
                talc_dims_text(talc_safetensors_dims(self->file, index), in_file),
                talc_dtype_name(tensor->dtype), in_module);
    else
        return true;
    self->count++;
    return true;
}

int64_t talc_module_differences(FILE *out, talc_module *module, const char *path)
{
    if (talc_operand_missing("module_differences", "file", out) ||
        talc_operand_missing("module_differences", "module", module) ||
        talc_operand_missing("module_differences", "path", path))
        return -1;
    talc_safetensors *file = talc_safetensors_open(path);
    comparing self = { .out = out, .file = file };
    const bool compared = file != NULL && talc_module_visit(module, compare, &self);
    for (int64_t i = 0; compared && i < talc_safetensors_count(file); i++) {
        char dims[TALC_DIMS_TEXT];
        const char *name = talc_safetensors_name(file, i);
        if (talc_module_find(module, name) != NULL)
            continue;
        fprintf(out, "unexpected  %s %s\n", TALC_SHOWN(name),
                talc_dims_text(talc_safetensors_dims(file, i), dims));
        self.count++;
    }
    talc_safetensors_close(file);
    return compared ? self.count : -1;
}

talc_replacement *talc_state_read(const talc_safetensors *file, const char *path,
                                  talc_module *module, bool strict, const char *besides)
{
    loading load = { .path = path, .file = file, .besides = besides };
    if (!talc_module_visit(module, check, &load) || (strict && !check_names(&load, module)))
        return NULL;
    talc_replacement *replacements = talc_module_replacements(module);
    load.next = replacements;
    if (replacements != NULL && talc_module_visit(module, read_fresh, &load))
        return replacements;
    talc_memory_free(replacements);
    return NULL;
}

bool talc_module_load(talc_module *module, const char *path, bool strict)
{
    if (talc_operand_missing("module_load", "module", module) ||
        talc_operand_missing("module_load", "path", path))
        return false;
    talc_safetensors *file = talc_safetensors_open(path);
    if (file == NULL)
        return false;
    talc_scope *scope = talc_scope_enter();
    talc_replacement *replacements =
        scope == NULL ? NULL : talc_state_read(file, path, module, strict, NULL);
    if (replacements != NULL) {
        talc_module_replace(replacements, talc_module_tensor_count(module));
        talc_module_forget_folds(module);
    }
    talc_memory_free(replacements);
    talc_scope_leave(scope);
    talc_safetensors_close(file);
    return replacements != NULL;
}
