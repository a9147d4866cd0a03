#include "check/model/walk.h"

#include "nn/fold.h"
#include "nn/layer.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

// ---- Where a pass is ----------------------------------------------------------------------------

/* Writes the path of a module of the tree; false for one that is not in it. */
static bool path_of(const talc_module *root, const talc_module *module, char path[CHECK_PATH])
{
    path[0] = '\0';
    if (module == root)
        return true;
    const talc_module *parent = module->entries->parent;
    if (parent == NULL || !path_of(root, parent, path))
        return false;
    const size_t length = strlen(path);
    snprintf(path + length, CHECK_PATH - length, "%s%s", length > 0 ? "." : "",
             module->entries->name);
    return true;
}

static void append(char path[CHECK_PATH], const char *text)
{
    for (size_t at = strlen(path); *text != '\0' && at + 1 < CHECK_PATH; at++, text++) {
        path[at] = *text;
        path[at + 1] = '\0';
    }
}

/* Adds the names of those that are fused with a level's first module. */
static void add_fused(const check_walk *walk, const check_level *level, char path[CHECK_PATH])
{
    char other[CHECK_PATH];
    for (int i = 1; i < level->count; i++)
        if (path_of(walk->root, level->modules[i], other)) {
            const char *dot = strrchr(other, '.');
            append(path, "+");
            append(path, dot == NULL ? other : dot + 1);
        }
    append(path, level->folding ? ":fold" : "");
}

/* The innermost module that belongs to the tree. */
static void current_path(const check_walk *walk, char path[CHECK_PATH])
{
    int top = walk->depth < CHECK_DEPTH ? walk->depth : CHECK_DEPTH;
    path[0] = '\0';
    while (top > 0 && !path_of(walk->root, walk->stack[top - 1].modules[0], path))
        top--;
    if (top > 0)
        add_fused(walk, &walk->stack[top - 1], path);
}

/* How often a module has been called, this time included; 0 with a failure. */
static int count_call(check_walk *walk, const talc_module *module)
{
    for (int i = 0; i < walk->calls_count; i++)
        if (walk->calls[i].module == module)
            return ++walk->calls[i].count;
    check_calls *calls = talc_memory_grown(walk->calls, (size_t)walk->calls_count,
                                           &walk->calls_capacity, sizeof *calls, "check_model");
    if (calls == NULL)
        return 0;
    walk->calls = calls;
    calls[walk->calls_count++] = (check_calls){ module, 1 };
    return 1;
}

// ---- What a pass tells --------------------------------------------------------------------------

static void enter(talc_forward_hooks *hooks, const talc_module *module)
{
    check_walk *walk = ((struct check_walk_hooks *)hooks)->walk;
    if (walk->depth < CHECK_DEPTH)
        walk->stack[walk->depth] = (check_level){ .modules = { module }, .count = 1 };
    walk->depth++;
}

static void group(talc_forward_hooks *hooks, talc_module *const modules[], int count,
                  talc_group_phase phase)
{
    check_walk *walk = ((struct check_walk_hooks *)hooks)->walk;
    if (walk->apart)
        return;
    if (phase == TALC_GROUP_FOLDS)
        enter(hooks, modules[0]);
    if (walk->depth <= CHECK_DEPTH) {
        check_level *level = &walk->stack[walk->depth - 1];
        level->folding = phase == TALC_GROUP_FOLDS;
        for (level->count = 0; level->count < count && level->count < CHECK_FUSED; level->count++)
            level->modules[level->count] = modules[level->count];
    }
    if (phase == TALC_GROUP_ENDS)
        walk->depth--;
}

static void leave(talc_forward_hooks *hooks, const talc_module *module, const talc_tensor *x,
                  const talc_tensor *y)
{
    (void)x;
    check_walk *walk = ((struct check_walk_hooks *)hooks)->walk;
    char path[CHECK_PATH];
    if (y != NULL && walk->module != NULL && path_of(walk->root, module, path)) {
        const int call = count_call(walk, module);
        talc_observer *paused = talc_observe_pause();
        if (call > 0)
            walk->module(walk, path, call, (talc_tensor *)y);
        talc_observe_resume(paused);
    }
    walk->depth--;
}

static void observe(talc_observer *observer, const talc_observation *observation)
{
    check_walk *walk = ((struct check_walk_observer *)observer)->walk;
    for (int i = 0; i < walk->forced_count; i++)
        if (strcmp(walk->forced[i].op, observation->op) == 0)
            walk->forced[i].ran = true;
    char path[CHECK_PATH];
    current_path(walk, path);
    if (walk->op != NULL)
        walk->op(walk, path, observation);
}

static bool run_forward(check_walk *walk, talc_module *model, talc_tensor *x, talc_device *device)
{
    walk->root = model;
    walk->depth = 0;
    walk->hooks = (struct check_walk_hooks){
        { .apart = walk->apart, .group = group, .enter = enter, .leave = leave }, walk
    };
    walk->observer = (struct check_walk_observer){ { .observe = observe }, walk };
    talc_tensor *there = talc_to(x, device, x->dtype);
    if (there == NULL)
        return false;
    talc_forward_hooks *hooks = talc_forward_hook(&walk->hooks.base);
    talc_observer *observer = talc_observe(&walk->observer.base);
    const bool ran = talc_forward(model, there) != NULL;
    talc_observe(observer);
    talc_forward_hook(hooks);
    talc_memory_free(walk->calls);
    walk->calls = NULL;
    walk->calls_count = walk->calls_capacity = 0;
    return ran;
}

// ---- Forced algorithms --------------------------------------------------------------------------

/* Reads one "op=name" and what follows it; NULL with a failure. */
static const char *read_forced(const char *who, const char *text, check_forced *forced)
{
    const size_t length = strcspn(text, ","), equals = strcspn(text, "=");
    if (equals == 0 || equals + 1 >= length || equals >= CHECK_NAME ||
        length - equals - 1 >= CHECK_NAME) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: '%s' is no algorithm, expected OP=NAME", who,
                  TALC_SHOWN_PART(text, length));
        return NULL;
    }
    snprintf(forced->op, sizeof forced->op, "%.*s", (int)equals, text);
    snprintf(forced->name, sizeof forced->name, "%.*s", (int)(length - equals - 1),
             text + equals + 1);
    return text[length] == ',' ? text + length + 1 : text + length;
}

static bool force_all(const char *who, check_walk *walk, const char *algorithms)
{
    const char *at = algorithms == NULL ? "" : algorithms;
    walk->forced_count = 0;
    while (*at != '\0') {
        if (walk->forced_count == CHECK_FORCED) {
            talc_fail(TALC_BAD_ARGUMENT, "%s: more than %d algorithms are forced", who,
                      CHECK_FORCED);
            return false;
        }
        check_forced *forced = &walk->forced[walk->forced_count];
        *forced = (check_forced){ .ran = false };
        at = read_forced(who, at, forced);
        if (at == NULL)
            return false;
        const char *before = talc_algorithm_forced(forced->op);
        snprintf(forced->before, sizeof forced->before, "%s", before == NULL ? "" : before);
        if (!talc_algorithm_force(forced->op, forced->name))
            return false;
        walk->forced_count++;
    }
    return true;
}

/* In the opposite order, because an op may be named twice. Nothing may be forced while a failure
 * stands, so that is put aside meanwhile. */
static void force_back(check_walk *walk)
{
    const talc_status standing = talc_error_status();
    char message[1024];
    snprintf(message, sizeof message, "%s", talc_error_message());
    talc_error_clear();
    for (int i = walk->forced_count - 1; i >= 0; i--)
        talc_algorithm_force(walk->forced[i].op,
                             walk->forced[i].before[0] == '\0' ? NULL : walk->forced[i].before);
    if (standing != TALC_OK)
        talc_fail(standing, "%s", message);
}

static bool all_forced_ran(const char *who, const check_walk *walk)
{
    for (int i = 0; i < walk->forced_count; i++)
        if (!walk->forced[i].ran) {
            talc_fail(TALC_NOT_FOUND, "%s: %s=%s is forced, and no op %s ran", who,
                      TALC_SHOWN(walk->forced[i].op), TALC_SHOWN(walk->forced[i].name),
                      TALC_SHOWN(walk->forced[i].op));
            return false;
        }
    return true;
}

// ---- Leaving the model as it was ----------------------------------------------------------------

talc_replacement *talc_check_remember(talc_module *model)
{
    talc_replacement *remembered = talc_module_replacements(model);
    const int count = talc_module_tensor_count(model);
    for (int i = 0; remembered != NULL && i < count; i++) {
        const talc_tensor *tensor = remembered[i].tensor;
        remembered[i].fresh = talc_tensor_alias(tensor);
        if (remembered[i].fresh == NULL) {
            talc_memory_free(remembered);
            return NULL;
        }
    }
    return remembered;
}

void talc_check_restore(talc_module *model, talc_replacement *remembered)
{
    if (remembered != NULL)
        talc_module_replace(model, remembered);
    talc_memory_free(remembered);
}

static bool copy_buffer(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path, (void)context;
    talc_tensor *copy = is_buffer ? talc_clone(tensor) : NULL;
    if (copy != NULL)
        talc_tensor_replace(tensor, copy);
    return !talc_failed();
}

/* What draws random numbers stays in evaluation mode. */
static void set_training(talc_module *module)
{
    module->training = !talc_dropout_passes(module);
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            set_training(module->entries->list[i].child);
}

/* The statistics move in copies, which the caller's talc_check_restore takes away. False with a
 * failure. */
static bool train(talc_module *model)
{
    set_training(model);
    return talc_module_visit(model, copy_buffer, NULL);
}

bool talc_check_walk(const char *who, check_walk *walk, talc_module *model, talc_tensor *x,
                     talc_device *device, const char *algorithms)
{
    talc_scope *scope = talc_scope_enter();
    bool *modes = scope == NULL ? NULL : talc_module_evaluate(who, model);
    bool ran = false;
    if (modes != NULL) {
        /* Moving gives back folded parameters, so that they are made in the pass, where they are
         * seen and checked. */
        ran = force_all(who, walk, algorithms) && talc_module_to(model, device) &&
              (!walk->training || train(model)) && run_forward(walk, model, x, device) &&
              all_forced_ran(who, walk);
        force_back(walk);
        talc_module_forget_folds(model);
        talc_module_restore_modes(model, modes);
    }
    talc_scope_leave(scope);
    return ran;
}
