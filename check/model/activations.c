/// Saved activations: outputs of modules in a safetensors file.
#include "backends/backends.h"
#include "check/model.h"
#include "check/model/report.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_CAPACITY = CHECK_PATH + 32 };

static const char *const MODEL = "output"; /* the name of the model's own output */

/* "conv1", "pool:2" for the second call. A model's own output is "output", unless a child has that
 * name. */
static void name_of(const talc_module *root, const char *path, int call, char name[NAME_CAPACITY])
{
    const bool child = talc_module_entry_find(root, MODEL, strlen(MODEL)) != NULL;
    const char *base = *path == '\0' && !child ? MODEL : path;
    if (call == 1)
        snprintf(name, NAME_CAPACITY, "%s", base);
    else
        snprintf(name, NAME_CAPACITY, "%s:%d", base, call);
}

// ---- Reading ------------------------------------------------------------------------------------

bool talc_check_activations_open(const char *path, check_activations *activations)
{
    *activations = (check_activations){ .path = path, .file = talc_safetensors_open(path) };
    if (activations->file == NULL)
        return false;
    const int64_t count = talc_safetensors_count(activations->file);
    activations->used =
        talc_memory_new((size_t)count * sizeof *activations->used + 1, "check_model");
    if (activations->used == NULL)
        talc_check_activations_close(activations);
    else if (count == 0)
        talc_fail(TALC_NOT_FOUND, "check_model: '%s' holds no tensor", TALC_SHOWN(path));
    return !talc_failed();
}

void talc_check_activations_close(check_activations *activations)
{
    talc_safetensors_close(activations->file);
    talc_memory_free(activations->used);
    *activations = (check_activations){ 0 };
}

static double *read_elements(const check_activations *activations, int64_t index)
{
    check_array array = { .of = NULL };
    double accumulated = 0;
    talc_tensor *saved = talc_safetensors_read(activations->file, index, talc_device_get("cpu"));
    if (saved == NULL || !talc_check_array_of(NULL, saved, &array, &accumulated))
        talc_check_array_free(&array);
    talc_release(saved);
    return array.of;
}

static talc_dims without_ones(talc_dims dims)
{
    talc_dims others = { .rank = 0 };
    for (int i = 0; i < dims.rank; i++)
        if (dims.dim[i] != 1)
            others.dim[others.rank++] = dims.dim[i];
    return others;
}

bool talc_check_activations_find(check_activations *activations, const talc_module *root,
                                 const char *path, int call, talc_dims dims, double **elements)
{
    char name[NAME_CAPACITY], longer[NAME_CAPACITY + 8];
    name_of(root, path, call, name);
    snprintf(longer, sizeof longer, "%s.output", call == 1 ? path : name);
    *elements = NULL;
    int64_t index = talc_safetensors_find(activations->file, name);
    if (index < 0)
        index = talc_safetensors_find(activations->file, longer);
    if (index < 0)
        return true;
    const talc_dims saved = talc_safetensors_dims(activations->file, index);
    /* A module of the reference may flatten what this one does not: extents of 1 do not count. */
    if (!talc_shape_equal(without_ones(saved), without_ones(dims))) {
        char in_file[TALC_DIMS_TEXT], here[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "check_model: '%s': '%s' is %s in the file, %s in the model",
                  TALC_SHOWN(activations->path),
                  TALC_SHOWN(talc_safetensors_name(activations->file, index)),
                  talc_dims_text(saved, in_file), talc_dims_text(dims, here));
        return false;
    }
    activations->used[index] = true;
    *elements = read_elements(activations, index);
    return *elements != NULL;
}

bool talc_check_activations_used(const check_activations *activations,
                                 talc_check_model_report *report)
{
    const int64_t count = talc_safetensors_count(activations->file);
    report->skipped = talc_memory_new((size_t)count * sizeof *report->skipped, "check_model");
    for (int64_t i = 0; i < count && !talc_failed(); i++) {
        if (activations->used[i])
            continue;
        char *name = talc_memory_string(talc_safetensors_name(activations->file, i));
        if (name != NULL)
            report->skipped[report->skipped_count++] = name;
    }
    if (!talc_failed() && report->skipped_count == count)
        talc_fail(TALC_NOT_FOUND,
                  "check_model: '%s' has '%s'%s, and no module of the model has %s name",
                  TALC_SHOWN(activations->path), TALC_SHOWN(report->skipped[0]),
                  count > 1 ? " and other tensors" : "", count > 1 ? "any such" : "that");
    return !talc_failed();
}

// ---- Saving -------------------------------------------------------------------------------------

typedef struct saving {
    check_walk walk; /* first */
    talc_named_tensor *list;
    int count;
    size_t capacity;
} saving;

static void save_module(check_walk *walk, const char *path, int call, talc_tensor *y)
{
    saving *self = (saving *)walk;
    char name[NAME_CAPACITY];
    talc_named_tensor *list = talc_memory_grown(self->list, (size_t)self->count, &self->capacity,
                                                sizeof *list, "check_model");
    if (list == NULL)
        return;
    self->list = list;
    name_of(walk->root, path, call, name);
    if (*name == '\0')
        snprintf(name, sizeof name, ".output");
    char *kept = talc_memory_string(name);
    /* A copy, because the model may write to y later. */
    talc_tensor *copy = kept == NULL ? NULL : talc_clone(y);
    if (copy == NULL) {
        talc_memory_free(kept);
        return;
    }
    self->list[self->count++] = (talc_named_tensor){ kept, talc_retain(copy) };
}

static void saving_free(saving *self)
{
    for (int i = 0; i < self->count; i++) {
        talc_memory_free((char *)self->list[i].name);
        talc_release(self->list[i].tensor);
    }
    talc_memory_free(self->list);
}

bool talc_check_model_save_activations(talc_module *model, talc_tensor *x, const char *path)
{
    TALC_DEFAULT_FENV;
    const char *who = "check_model_save_activations";
    if (talc_operand_missing(who, "model", model) || talc_operand_missing(who, "x", x) ||
        talc_operand_missing(who, "path", path))
        return false;
    talc_scope *scope = talc_scope_enter();
    talc_replacement *remembered = scope == NULL ? NULL : talc_check_remember(model);
    saving self = { .walk = { .apart = true, .module = save_module } };
    const bool saved =
        remembered != NULL &&
        talc_check_walk(who, &self.walk, model, x, talc_check_home(model, remembered, x), NULL) &&
        talc_safetensors_save(path, self.list, self.count, NULL);
    saving_free(&self);
    talc_check_restore(model, remembered);
    talc_scope_leave(scope);
    return saved;
}
