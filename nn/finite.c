#include "nn/finite.h"

#include "nn/entries.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/autograd.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <math.h>

typedef struct finite_search {
    talc_forward_hooks hooks; /* first, so that the two pointers are one */
    talc_module *root;
    char *where; /* "" as long as everything is finite */
} finite_search;

/* Zero times a finite number is 0, times any other it is NaN, and a NaN stays in the sum. */
static bool is_finite(const talc_tensor *x)
{
    if (!talc_dtype_is_float(x->dtype))
        return true;
    talc_tensor *zeros = talc_mul(x, talc_zeros(x->device, x->dtype, TALC_SCALAR));
    double sum = talc_item(talc_sum(zeros, TALC_SCALAR, false));
    return talc_failed() || !isnan(sum);
}

/* Writes the path of `wanted`, which is somewhere in the tree; false when it is not. */
static bool write_path(const talc_module *module, const talc_module *wanted, char *path,
                       size_t capacity)
{
    *path = '\0';
    if (module == wanted)
        return true;
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (entry->kind != TALC_ENTRY_CHILD)
            continue;
        int length =
            snprintf(path, capacity, "%s%s", entry->name, entry->child == wanted ? "" : ".");
        size_t used = (size_t)length < capacity ? (size_t)length : capacity - 1;
        if (write_path(entry->child, wanted, path + used, capacity - used))
            return true;
    }
    return false;
}

static void found(finite_search *self, const talc_module *module, const char *what)
{
    char path[TALC_SHOWN_TEXT];
    bool child = module != self->root && write_path(self->root, module, path, sizeof path);
    snprintf(self->where, TALC_NONFINITE_TEXT, "the %s of %s (%s)", what,
             child ? TALC_SHOWN(path) : "the model", TALC_SHOWN(module->kind->name));
}

static void look_at_parameters(talc_forward_hooks *hooks, const talc_module *module)
{
    finite_search *self = (finite_search *)hooks;
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (*self->where != '\0' || talc_failed())
            return;
        if (entry->kind == TALC_ENTRY_PARAMETER && !is_finite(entry->tensor)) {
            char what[TALC_SHOWN_TEXT + 16];
            snprintf(what, sizeof what, "parameter %s", TALC_SHOWN(entry->name));
            found(self, module, what);
        }
    }
}

static void look_at_output(talc_forward_hooks *hooks, const talc_module *module,
                           const talc_tensor *x, const talc_tensor *y)
{
    finite_search *self = (finite_search *)hooks;
    if (*self->where != '\0' || y == NULL)
        return;
    if (!is_finite(x))
        found(self, module, "input");
    else if (!is_finite(y))
        found(self, module, "output");
}

bool talc_module_nonfinite(talc_module *module, talc_tensor *x, char where[TALC_NONFINITE_TEXT])
{
    if (where != NULL)
        *where = '\0';
    if (talc_operand_missing("module_nonfinite", "module", module) ||
        talc_operand_missing("module_nonfinite", "x", x) ||
        talc_operand_missing("module_nonfinite", "where", where))
        return false;
    finite_search self = {
        .hooks = { .apart = true, .enter = look_at_parameters, .leave = look_at_output },
        .root = module,
        .where = where
    };
    talc_scope *scope = talc_scope_enter();
    talc_no_grad_enter();
    if (!is_finite(x)) {
        snprintf(where, TALC_NONFINITE_TEXT, "the input");
    } else {
        talc_forward_hooks *before = talc_forward_hook(&self.hooks);
        talc_forward(module, x);
        talc_forward_hook(before);
    }
    talc_no_grad_leave();
    talc_scope_leave(scope);
    if (talc_failed())
        *where = '\0';
    return *where != '\0';
}
