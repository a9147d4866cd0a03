#include "nn/module.h"

#include "nn/entries.h"
#include "nn/fold.h"
#include "nn/pass.h"
#include "tensor/autograd.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/tape.h"
#include "tensor/within.h"

#include <string.h>

static _Thread_local talc_forward_hooks *current_hooks;

talc_forward_hooks *talc_forward_hook(talc_forward_hooks *hooks)
{
    talc_forward_hooks *before = current_hooks;
    current_hooks = hooks;
    return before;
}

talc_forward_hooks *talc_forward_hooked(void)
{
    return current_hooks;
}

// ---- Making and freeing -------------------------------------------------------------------------

static bool class_fits(const talc_module_class *kind)
{
    if (talc_operand_missing("module_new", "kind", kind) ||
        talc_operand_missing("module_new", "the class's name", kind->name))
        return false;
    if (kind->size < sizeof(talc_module))
        talc_fail(TALC_BAD_ARGUMENT,
                  "module_new: %s has size %zu, a struct that begins with talc_module at least %zu",
                  TALC_SHOWN(kind->name), kind->size, sizeof(talc_module));
    return !talc_failed();
}

static talc_module *module_allocate(const talc_module_class *kind)
{
    talc_module *module = talc_memory_new(kind->size, TALC_SHOWN(kind->name));
    if (module == NULL)
        return NULL;
    module->entries = talc_memory_new(sizeof *module->entries, TALC_SHOWN(kind->name));
    if (module->entries == NULL) {
        talc_memory_free(module);
        return NULL;
    }
    module->entries->height = 1;
    module->kind = kind;
    module->training = true;
    return module;
}

talc_module *talc_module_new(const talc_module_class *kind, const void *options)
{
    TALC_DEFAULT_FENV; /* init looks at numbers of the options */
    if (!class_fits(kind))
        return NULL;
    talc_module *module = module_allocate(kind);
    if (module == NULL)
        return NULL;
    /* Parameters belong to the module alone: the scope that is open around this call must not hold
     * them too. */
    talc_scope *scope = talc_scope_enter();
    bool made = scope != NULL && (kind->init == NULL || kind->init(module, options));
    talc_scope_leave(scope);
    if (made && !talc_failed())
        return module;
    talc_fail(TALC_BAD_ARGUMENT, "module_new: init of %s failed without a reason",
              TALC_SHOWN(kind->name));
    talc_module_free(module);
    return NULL;
}

static void free_tree(talc_module *module)
{
    if (module->kind->free != NULL)
        module->kind->free(module);
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            free_tree(module->entries->list[i].child);
    talc_module_entries_free(module->entries);
    talc_memory_free(module);
}

void talc_module_free(talc_module *module)
{
    if (module == NULL || module->entries->parent != NULL)
        return;
    talc_module_forget_folds(module);
    free_tree(module);
}

// ---- Registering --------------------------------------------------------------------------------

static bool contains(const talc_module *module, const talc_module *below)
{
    while (below != NULL && below != module)
        below = below->entries->parent;
    return below != NULL;
}

/* Levels from the root down to the module; 0 for NULL. */
static int level_of(const talc_module *module)
{
    int levels = 0;
    for (; module != NULL; module = module->entries->parent)
        levels++;
    return levels;
}

/* Trees only: a module has one parent and does not contain itself. */
static bool child_fits(const talc_module *module, const char *name, const talc_module *child)
{
    const char *as = name == NULL ? "" : name;
    const int levels = level_of(module) + child->entries->height;
    if (contains(child, module))
        talc_fail(TALC_BAD_ARGUMENT, "module_add: %s would contain itself as '%s'",
                  TALC_SHOWN(child->kind->name), TALC_SHOWN(as));
    else if (child->entries->parent != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "module_add: %s '%s' has a parent already, %s",
                  TALC_SHOWN(child->kind->name), TALC_SHOWN(as),
                  TALC_SHOWN(child->entries->parent->kind->name));
    else if (levels > TALC_MODULE_LEVELS)
        talc_fail(TALC_BAD_ARGUMENT,
                  "module_add: %s '%s' would make a tree of %d levels, at most %d",
                  TALC_SHOWN(child->kind->name), TALC_SHOWN(as), levels, TALC_MODULE_LEVELS);
    return !talc_failed();
}

/* Like talc_operand_missing, for what is registered under a name. */
static bool named_missing(const char *who, const char *operand, const char *name,
                          const void *pointer)
{
    if (pointer != NULL || name == NULL)
        return talc_operand_missing(who, operand, pointer);
    talc_fail(TALC_NULL_ARGUMENT, "%s: %s '%s' is NULL", who, operand, TALC_SHOWN(name));
    return true;
}

bool talc_module_adopt(talc_module *module, const char *name, talc_module *child)
{
    if (named_missing("module_add", "child", name, child) || !child_fits(module, name, child) ||
        talc_operand_missing("module_add", "module", module) ||
        !talc_module_entry_add("module_add", module, name,
                               (talc_module_entry){ .kind = TALC_ENTRY_CHILD, .child = child }))
        return false;
    child->entries->parent = module;
    int height = child->entries->height;
    for (; module != NULL && module->entries->height <= height; module = module->entries->parent)
        module->entries->height = ++height;
    return true;
}

talc_module *talc_module_add(talc_module *module, const char *name, talc_module *child)
{
    if (talc_module_adopt(module, name, child))
        return child;
    if (child != NULL && !contains(child, module))
        talc_module_free(child);
    return NULL;
}

/* The path of a parameter, of which `named` are its module's entries. */
static void write_path(const void *named, const talc_node *leaf, char *text, size_t size)
{
    const struct talc_module_entries *entries = named;
    const char *name = entries->name; /* of a module */
    for (int i = 0; leaf != NULL && i < entries->count; i++)
        if (entries->list[i].tensor != NULL && entries->list[i].tensor->autograd == leaf)
            name = entries->list[i].name;
    if (leaf != NULL)
        write_path(entries, NULL, text, size);
    else if (entries->parent != NULL)
        write_path(entries->parent->entries, NULL, text, size);
    const size_t used = strlen(text);
    if (name != NULL)
        snprintf(text + used, size - used, "%s%s", used > 0 ? "." : "", name);
}

/* Tells the leaves of a tree how failures call them. */
static void name_parameters(talc_module *module)
{
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (entry->child != NULL)
            name_parameters(entry->child);
        else if (entry->kind == TALC_ENTRY_PARAMETER)
            talc_tape_name(entry->tensor, write_path, module->entries);
    }
}

static talc_tensor *register_tensor(const char *who, talc_module *module, const char *name,
                                    talc_tensor *tensor, talc_entry_kind kind)
{
    if (talc_operand_missing(who, "module", module) ||
        named_missing(who, name == NULL ? "name" : "tensor", name, tensor))
        return NULL;
    /* Parameters are learned; one that is not registered stays as it was. */
    const bool learned = kind == TALC_ENTRY_PARAMETER && talc_dtype_is_float(tensor->dtype);
    const bool learns = learned && tensor->autograd == NULL;
    const char *around = talc_within(who);
    const bool asks = !learned || talc_require_grad(tensor, true);
    talc_within(around);
    if (!asks)
        return NULL;
    talc_module_entry entry = { .kind = kind, .tensor = tensor };
    if (talc_module_entry_add(who, module, name, entry)) {
        if (kind == TALC_ENTRY_PARAMETER)
            talc_tape_name(tensor, write_path, module->entries);
        return tensor;
    }
    if (learns)
        talc_tape_forget(tensor);
    return NULL;
}

talc_tensor *talc_module_parameter(talc_module *module, const char *name, talc_tensor *tensor)
{
    return register_tensor("module_parameter", module, name, tensor, TALC_ENTRY_PARAMETER);
}

talc_tensor *talc_module_buffer(talc_module *module, const char *name, talc_tensor *tensor)
{
    return register_tensor("module_buffer", module, name, tensor, TALC_ENTRY_BUFFER);
}

static bool ask(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    return is_buffer || !talc_dtype_is_float(tensor->dtype) ||
           talc_require_grad(tensor, *(const bool *)context);
}

bool talc_module_require_grad(talc_module *module, bool required)
{
    if (talc_operand_missing("module_require_grad", "module", module) ||
        !talc_module_visit(module, ask, &required))
        return false;
    name_parameters(module);
    return true;
}

// ---- Applying -----------------------------------------------------------------------------------

void talc_module_failed(const talc_module *module)
{
    enum { CAPACITY = 240 };
    char path[CAPACITY + 1] = "", shown[TALC_SHOWN_TEXT];
    size_t begin = CAPACITY; /* it is written from its end */
    for (; module->entries->parent != NULL; module = module->entries->parent) {
        const char *name = module->entries->name;
        const size_t length = strlen(name), dot = begin < CAPACITY;
        if (length + dot + strlen("...") > begin) {
            begin -= strlen("...");
            memcpy(path + begin, "...", strlen("..."));
            break;
        }
        begin -= length + dot;
        memcpy(path + begin, name, length);
        if (dot)
            path[begin + length] = '.';
    }
    talc_fail_at(talc_shown(path + begin, SIZE_MAX, shown, sizeof shown));
}

talc_tensor *talc_forward(talc_module *module, talc_tensor *x)
{
    if (talc_operand_missing("forward", "module", module) ||
        talc_operand_missing("forward", "x", x))
        return NULL;
    talc_scope *scope = talc_scope_enter();
    if (scope == NULL)
        return NULL;
    talc_pass pass;
    talc_pass_begin(&pass, module);
    talc_forward_hooks *hooks = current_hooks;
    if (hooks != NULL && hooks->enter != NULL)
        hooks->enter(hooks, module);
    talc_tensor *y = NULL;
    if (module->kind->forward == NULL)
        talc_fail(TALC_UNSUPPORTED, "forward: %s has no forward", TALC_SHOWN(module->kind->name));
    else if ((y = module->kind->forward(module, x)) == NULL)
        talc_fail(TALC_BAD_ARGUMENT, "forward: %s returned NULL without a reason",
                  TALC_SHOWN(module->kind->name));
    if (talc_failed()) {
        talc_module_failed(module);
        y = NULL;
    }
    if (hooks != NULL)
        hooks->leave(hooks, module, x, y);
    if (talc_failed()) /* by the hooks */
        y = NULL;
    talc_pass_end(&pass);
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    return y;
}

static void set_training(talc_module *module, bool training)
{
    module->training = training;
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            set_training(module->entries->list[i].child, training);
}

bool talc_module_train(talc_module *module)
{
    if (talc_operand_missing("module_train", "module", module))
        return false;
    set_training(module, true);
    talc_module_forget_folds(module);
    return true;
}

bool talc_module_eval(talc_module *module)
{
    if (talc_operand_missing("module_eval", "module", module))
        return false;
    set_training(module, false);
    return true;
}

/* Exchanges the modes of a tree, in its order, with those of a list; returns the list's end. */
static bool *swap_modes(talc_module *module, bool *modes)
{
    const bool before = module->training;
    module->training = *modes;
    *modes++ = before;
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            modes = swap_modes(module->entries->list[i].child, modes);
    return modes;
}

bool *talc_module_evaluate(const char *who, talc_module *module)
{
    bool *modes = talc_memory_new((size_t)talc_module_tree_count(module) * sizeof *modes, who);
    if (modes != NULL) {
        swap_modes(module, modes); /* all false */
        talc_no_grad_enter();
    }
    return modes;
}

void talc_module_restore_modes(talc_module *module, bool *modes)
{
    talc_no_grad_leave();
    swap_modes(module, modes);
    talc_memory_free(modes);
}

// ---- Moving -------------------------------------------------------------------------------------

/* All tensors that are elsewhere go to the device, NULL: stay where they are; those of floats
 * become `dtype`. */
static bool convert(talc_module *module, talc_device *device, const talc_dtype *dtype)
{
    talc_scope *scope = talc_scope_enter();
    talc_no_grad_enter();
    int count = talc_module_tensor_count(module);
    talc_pass pass; /* other changes wait for what is read here */
    talc_pass_begin(&pass, module);
    talc_replacement *all = scope == NULL ? NULL : talc_module_replacements(module);
    for (int i = 0; all != NULL && i < count && !talc_failed(); i++) {
        const talc_tensor *was = all[i].tensor;
        talc_device *to = device == NULL ? was->device : device;
        const talc_dtype as =
            dtype == NULL || !talc_dtype_is_float(was->dtype) ? was->dtype : *dtype;
        if (was->device != to || was->dtype != as)
            all[i].fresh = talc_to(was, to, as);
    }
    talc_pass_end(&pass);
    if (!talc_failed())
        talc_module_replace(module, all);
    talc_memory_free(all);
    talc_no_grad_leave();
    talc_scope_leave(scope);
    return !talc_failed();
}

bool talc_module_to(talc_module *module, talc_device *device)
{
    return !talc_operand_missing("module_to", "module", module) &&
           !talc_operand_missing("module_to", "device", device) && convert(module, device, NULL);
}

bool talc_module_cast(talc_module *module, talc_dtype dtype)
{
    if (talc_operand_missing("module_cast", "module", module))
        return false;
    if (!talc_dtype_is_float(dtype)) {
        talc_fail(TALC_BAD_DTYPE, "module_cast: %s is not f32 or f64", talc_dtype_name(dtype));
        return false;
    }
    return convert(module, NULL, &dtype);
}
