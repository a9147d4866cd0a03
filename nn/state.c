#include "nn/state.h"

#include "nn/pass.h"
#include "tensor/memory.h"
#include "tensor/safetensors.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

// ---- Saving -------------------------------------------------------------------------------------

bool talc_names_add(talc_names *names, const char *name, const talc_tensor *tensor)
{
    char *copy = talc_memory_string(name);
    if (copy != NULL)
        names->list[names->count++] = (talc_named_tensor){ copy, (talc_tensor *)tensor };
    return copy != NULL;
}

static bool record_name(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    return talc_names_add(context, path, tensor);
}

bool talc_names_add_module(talc_names *names, talc_module *module)
{
    return talc_module_visit(module, record_name, names);
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
    static const char *const format[] = { "format", "pt", NULL };
    const char **metadata = talc_info_metadata(module, format);
    talc_names named = { NULL, 0 };
    named.list =
        talc_memory_new((size_t)talc_module_tensor_count(module) * sizeof *named.list, "save");
    talc_pass pass; /* loads wait for what is read here */
    talc_pass_begin(&pass, module);
    const bool saved = named.list != NULL && metadata != NULL &&
                       talc_names_add_module(&named, module) &&
                       talc_safetensors_save(path, named.list, named.count, metadata);
    talc_pass_end(&pass);
    talc_names_free(&named);
    talc_memory_free(metadata);
    return saved;
}

// ---- Loading ------------------------------------------------------------------------------------

typedef struct loading {
    const talc_safetensors *file;
    const char *path;
    const talc_load_options *options;
    talc_replacement *next; /* of the module's next tensor */
    int64_t missing, extra, matched, excepted;
    char first_missing[TALC_SHOWN_TEXT], first_extra[TALC_SHOWN_TEXT]; /* as they are shown */
    talc_load_report *report;                                          /* NULL: none */
} loading;

/* Adds to a list with room for it; NULL: there is no report. */
static bool report_name(talc_names_list *names, const char *name)
{
    if (names == NULL)
        return true;
    names->list[names->count] = talc_memory_string(name);
    return names->list[names->count] != NULL && ++names->count > 0;
}

/* Notes a name that the pattern fits. */
static bool is_excepted(loading *load, const char *name)
{
    const char *pattern = load->options->except;
    const bool is = pattern != NULL && fnmatch(pattern, name, 0) == 0;
    load->excepted += is;
    return is;
}

/* First walk: every tensor of the module that the file has must be of its type and shape. */
static bool check(const char *name, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    loading *load = context;
    talc_load_report *report = load->report;
    int64_t index = talc_safetensors_find(load->file, name);
    if (is_excepted(load, name))
        return true;
    if (index < 0) {
        if (load->missing++ == 0)
            talc_shown(name, SIZE_MAX, load->first_missing, sizeof load->first_missing);
        return report_name(report == NULL ? NULL : &report->missing, name);
    }
    load->matched++;
    if (!report_name(report == NULL ? NULL : &report->loaded, name))
        return false;
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
    int64_t index = is_excepted(load, name) ? -1 : talc_safetensors_find(load->file, name);
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

/* Whether a file's name is a checkpoint's own, and no model's. */
static bool is_besides(const talc_safetensors *file, const char *name)
{
    return talc_safetensors_metadata(file, TALC_RUN_KEY) != NULL &&
           strncmp(name, TALC_OPTIMIZER_NAMES, strlen(TALC_OPTIMIZER_NAMES)) == 0;
}

/* Looks for the file's names in the module. */
static bool find_extra(loading *load, talc_module *module)
{
    const int64_t count = talc_safetensors_count(load->file);
    for (int64_t i = 0; i < count; i++) {
        const char *name = talc_safetensors_name(load->file, i);
        if (talc_module_find(module, name) != NULL || is_excepted(load, name) ||
            is_besides(load->file, name))
            continue;
        if (load->extra++ == 0)
            talc_shown(name, SIZE_MAX, load->first_extra, sizeof load->first_extra);
        if (!report_name(load->report == NULL ? NULL : &load->report->extra, name))
            return false;
    }
    return true;
}

/* The names have to be the same, or to have one in common at least. */
static bool check_names(const loading *load, const talc_module *module)
{
    char more[48], max[48];
    const char *path = load->path, *name = module->kind->name, *pattern = load->options->except;
    and_more(load->missing, more);
    and_more(load->extra, max);
    if (pattern != NULL && load->excepted == 0)
        talc_fail(TALC_NOT_FOUND, "module_load: no name of '%s' or %s fits '%s'", TALC_SHOWN(path),
                  TALC_SHOWN(name), TALC_SHOWN(pattern));
    else if (load->matched == 0 && load->missing == 0 && load->excepted > 0)
        talc_fail(TALC_NOT_FOUND,
                  "module_load: every name of %s fits '%s', so that nothing is left of '%s'",
                  TALC_SHOWN(name), TALC_SHOWN(pattern), TALC_SHOWN(path));
    else if (load->matched == 0 && load->missing > 0 && load->extra > 0)
        talc_fail(
            TALC_NOT_FOUND, "module_load: '%s' has nothing of %s: it lacks '%s'%s, and has '%s'%s",
            TALC_SHOWN(path), TALC_SHOWN(name), load->first_missing, more, load->first_extra, max);
    else if (load->missing > 0 && (load->matched == 0 || !load->options->partial))
        talc_fail(TALC_NOT_FOUND, "module_load: '%s' lacks '%s'%s", TALC_SHOWN(path),
                  load->first_missing, more);
    else if (load->extra > 0 && !load->options->partial)
        talc_fail(TALC_NOT_FOUND, "module_load: '%s' has '%s'%s, %s has not", TALC_SHOWN(path),
                  load->first_extra, max, TALC_SHOWN(name));
    return !talc_failed();
}

/* Lists with room for all names. */
static bool report_begin(const loading *load, talc_module *module)
{
    talc_load_report *report = load->report;
    const size_t own = (size_t)talc_module_tensor_count(module),
                 there = (size_t)talc_safetensors_count(load->file);
    return report == NULL ||
           ((report->loaded.list = talc_memory_new((own + 1) * sizeof(char *), "module_load")) !=
                NULL &&
            (report->missing.list = talc_memory_new((own + 1) * sizeof(char *), "module_load")) !=
                NULL &&
            (report->extra.list = talc_memory_new((there + 1) * sizeof(char *), "module_load")) !=
                NULL);
}

static void names_free(talc_names_list *names)
{
    for (int64_t i = 0; i < names->count; i++)
        talc_memory_free(names->list[i]);
    talc_memory_free(names->list);
    *names = (talc_names_list){ 0 };
}

void talc_load_report_free(talc_load_report *report)
{
    if (report == NULL)
        return;
    names_free(&report->loaded);
    names_free(&report->missing);
    names_free(&report->extra);
}

// ---- All that differs ---------------------------------------------------------------------------

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
        if (talc_module_find(module, name) != NULL || is_besides(file, name))
            continue;
        fprintf(out, "unexpected  %s %s\n", TALC_SHOWN(name),
                talc_dims_text(talc_safetensors_dims(file, i), dims));
        self.count++;
    }
    talc_safetensors_close(file);
    return compared ? self.count : -1;
}

talc_replacement *talc_state_read(const talc_safetensors *file, const char *path,
                                  talc_module *module, const talc_load_options *options,
                                  talc_load_report *report)
{
    static const talc_load_options strict;
    loading load = {
        .path = path, .file = file, .options = options == NULL ? &strict : options, .report = report
    };
    if (!report_begin(&load, module) || !talc_module_visit(module, check, &load) ||
        !find_extra(&load, module) || !check_names(&load, module))
        return NULL;
    talc_replacement *replacements = talc_module_replacements(module);
    load.next = replacements;
    if (replacements != NULL && talc_module_visit(module, read_fresh, &load))
        return replacements;
    talc_memory_free(replacements);
    return NULL;
}

bool talc_module_load_with(talc_module *module, const char *path, const talc_load_options *options,
                           talc_load_report *report)
{
    if (report != NULL)
        *report = (talc_load_report){ 0 };
    if (talc_operand_missing("module_load", "module", module) ||
        talc_operand_missing("module_load", "path", path))
        return false;
    talc_safetensors *file = talc_safetensors_open(path);
    if (file == NULL)
        return false;
    talc_scope *scope = talc_scope_enter();
    talc_replacement *replacements =
        scope == NULL ? NULL : talc_state_read(file, path, module, options, report);
    const bool whole = replacements != NULL && (options == NULL || !options->partial);
    talc_model_info *info = whole ? talc_info_read("module_load", path, file) : NULL;
    if (talc_failed()) {
        talc_memory_free(replacements);
        replacements = NULL;
    }
    if (info != NULL)
        talc_module_take_read(module, info);
    if (replacements != NULL)
        talc_module_replace(module, replacements);
    else if (report != NULL)
        names_free(&report->loaded);
    talc_memory_free(replacements);
    talc_scope_leave(scope);
    talc_safetensors_close(file);
    return replacements != NULL;
}

bool talc_module_load(talc_module *module, const char *path, bool strict)
{
    return talc_module_load_with(module, path, &(talc_load_options){ .partial = !strict }, NULL);
}
