#include "nn/fuse.h"

#include "nn/entries.h"
#include "nn/fold.h"
#include "nn/layer.h"
#include "nn/pass.h"
#include "ops/algorithm.h"
#include "ops/gradient.h"
#include "ops/operand.h"
#include "tensor/environment.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/storage.h"
#include "tensor/tape.h"

// ---- Whether ------------------------------------------------------------------------------------

static _Thread_local int said; /* 0: this thread has not said; 1: on; -1: off */

bool talc_fusion_enabled(void)
{
    return said != 0 ? said > 0 : talc_environment()->fuse;
}

void talc_fusion_enable(bool enabled)
{
    said = enabled ? 1 : -1;
}

// ---- What ---------------------------------------------------------------------------------------

/* The activation that a layer has itself; whether a module is such a layer. */
static bool is_layer(const talc_module *module, talc_activation *own)
{
    if (module->kind == &talc_conv2d_class)
        *own = ((const talc_conv2d_module *)module)->options.activation;
    else if (module->kind == &talc_linear_class)
        *own = ((const talc_linear_module *)module)->options.activation;
    else if (module->kind == &talc_batch_norm2d_class)
        *own = ((const talc_batch_norm2d_module *)module)->options.activation;
    else
        return false;
    return true;
}

/* An activation that can be the last step of a layer: its own op has no algorithm forced. */
static bool activation_joins(talc_activation activation)
{
    return activation != TALC_ACTIVATION_NONE &&
           talc_algorithm_forced(talc_activation_name(activation)) == NULL;
}

/* The norm that goes into the convolution before it; NULL when it does not. */
static const talc_batch_norm2d_module *norm_joins(const talc_module *conv, const talc_module *next)
{
    const talc_batch_norm2d_module *norm = (const talc_batch_norm2d_module *)next;
    return conv->kind == &talc_conv2d_class && next->kind == &talc_batch_norm2d_class &&
                   talc_fold_possible((const talc_conv2d_module *)conv, norm)
               ? norm
               : NULL;
}

/* How many of the modules are one op, at least 1, and what it applies last. */
typedef struct group {
    int count;
    const talc_batch_norm2d_module *norm; /* folded into the first; NULL: none */
    talc_chain_end end;                   /* activation of the layers, then the chain's own */
    bool ends;                            /* the chain's own end is in it */
} group;

/* What was folded has no way back to the parameters that it was made from, and a recorded step may
 * write them. */
static bool records(const talc_tensor *x, const talc_conv2d_module *conv,
                    const talc_batch_norm2d_module *norm)
{
    const talc_tensor *const operands[] = { x, conv->weight, conv->bias, norm->weight, norm->bias };
    return talc_tape_wants(operands, 5) || talc_recording_of_step(conv->weight->device);
}

static group group_of(talc_module *const modules[], int count, const talc_tensor *x,
                      const talc_chain_end *end)
{
    group g = { .count = 1 };
    talc_activation own;
    if (!talc_fusion_enabled() || !is_layer(modules[0], &own))
        return g;
    if (own == TALC_ACTIVATION_NONE && count > 1)
        g.norm = norm_joins(modules[0], modules[1]);
    if (g.norm != NULL && records(x, (const talc_conv2d_module *)modules[0], g.norm))
        g.norm = NULL;
    if (g.norm != NULL) {
        g.count = 2;
        own = g.norm->options.activation;
    }
    if (own == TALC_ACTIVATION_NONE && g.count < count) {
        const talc_activation next = talc_activation_of(modules[g.count]);
        if (activation_joins(next)) {
            own = next;
            g.count++;
        }
    }
    g.end.activation = own;
    if (end == NULL || g.count < count || own != TALC_ACTIVATION_NONE)
        return g;
    g.ends = end->activation == TALC_ACTIVATION_NONE || activation_joins(end->activation);
    if (g.ends)
        g.end = *end;
    return g;
}

// ---- Running it ---------------------------------------------------------------------------------

/* A convolution's operands, its norm folded in, retained; another layer has none. */
typedef struct operands {
    talc_tensor *weight, *bias;
} operands;

static bool take_operands(talc_module *module, const group *g, operands *taken)
{
    talc_conv2d_module *conv = (talc_conv2d_module *)module;
    if (module->kind != &talc_conv2d_class)
        return true;
    if (g->norm != NULL)
        return talc_fold_get(conv, g->norm, &taken->weight, &taken->bias);
    taken->weight = talc_retain(conv->weight);
    taken->bias = talc_retain(conv->bias);
    return true;
}

static talc_tensor *run_conv2d(const talc_module *module, const group *g, const operands *w,
                               const talc_tensor *x)
{
    talc_conv2d_options options = ((const talc_conv2d_module *)module)->options;
    options.activation = g->end.activation;
    options.residual = g->end.residual;
    options.cache_weights = !module->training;
    return talc_conv2d(x, w->weight, w->bias, &options);
}

/* Tells the thread's hooks, if there are any. */
static void tell(talc_module *const modules[], int count, talc_group_phase phase)
{
    talc_forward_hooks *hooks = talc_forward_hooked();
    if (hooks != NULL && hooks->group != NULL)
        hooks->group(hooks, modules, count, phase);
}

static talc_tensor *run_group(talc_module *const modules[], const group *g, talc_tensor *x)
{
    talc_module *first = modules[0];
    operands w = { NULL, NULL };
    talc_tensor *y = NULL;
    tell(modules, g->count, TALC_GROUP_FOLDS);
    const bool taken = take_operands(first, g, &w);
    tell(modules, g->count, TALC_GROUP_RUNS);
    if (!taken)
        y = NULL;
    else if (first->kind == &talc_conv2d_class)
        y = run_conv2d(first, g, &w, x);
    else if (first->kind == &talc_linear_class)
        y = talc_linear_apply(first, x, &g->end);
    else
        y = talc_batch_norm2d_apply(first, x, &g->end);
    tell(modules, g->count, TALC_GROUP_ENDS);
    if (y == NULL)
        talc_module_failed(first);
    talc_release(w.weight);
    talc_release(w.bias);
    return y;
}

/* Applies the first group of a list of modules, followed by `end`; returns its result, and the
 * group in *g. */
static talc_tensor *forward_group(talc_module *const modules[], int count, talc_tensor *x,
                                  const talc_chain_end *end, group *g)
{
    const talc_forward_hooks *hooks = talc_forward_hooked();
    const bool apart = hooks != NULL && hooks->apart;
    *g = group_of(modules, count, x, end);
    g->ends = g->ends && !apart;
    if (g->count == 1 && !g->ends)
        return talc_forward(modules[0], x);
    if (!apart)
        return run_group(modules, g, x);
    /* Every module's own output is wanted, and which of them would be one op. */
    tell(modules, g->count, TALC_GROUP_RUNS);
    talc_tensor *y = x;
    for (int i = 0; i < g->count && y != NULL; i++)
        y = talc_forward(modules[i], y);
    tell(modules, g->count, TALC_GROUP_ENDS);
    return y;
}

// ---- Chains -------------------------------------------------------------------------------------

static const char *const WHO = "forward_chain";

static bool check(talc_module *const modules[], int count, const talc_tensor *x,
                  const talc_chain_end *end)
{
    if (talc_operand_missing(WHO, "x", x) ||
        (count > 0 && talc_operand_missing(WHO, "modules", modules)))
        return false;
    for (int i = 0; i < count; i++)
        if (talc_operand_missing(WHO, "a module", modules[i]))
            return false;
    return end == NULL || talc_operand_activation(WHO, end->activation);
}

/* The fused ops take a residual of the result's shape alone, so nothing is stretched here
 * either. */
static talc_tensor *add_residual(talc_tensor *y, talc_tensor *residual)
{
    if (y == NULL || residual == NULL)
        return y;
    char text[TALC_DIMS_TEXT], expected[TALC_DIMS_TEXT];
    if (talc_same_dims(y, residual))
        return talc_add(y, residual);
    talc_fail(TALC_BAD_SHAPE, "%s: residual %s must be %s, as what it is added to", WHO,
              talc_dims_text(talc_dims_of(residual), text),
              talc_dims_text(talc_dims_of(y), expected));
    return NULL;
}

/* The modules that a list comes to when each Sequential is its children, without those that hand
 * their input on; returns how many they are. NULL for flat: only counts. */
static int spread(talc_module *const modules[], int count, talc_module **flat)
{
    int total = 0;
    for (int i = 0; i < count; i++) {
        talc_module **next = flat == NULL ? NULL : flat + total;
        if (modules[i]->kind == &talc_sequential_class) {
            const struct talc_module_entries *entries = modules[i]->entries;
            for (int j = 0; j < entries->count; j++)
                if (entries->list[j].child != NULL) {
                    const int added = spread(&entries->list[j].child, 1, next);
                    next = next == NULL ? NULL : next + added;
                    total += added;
                }
        } else if (!talc_dropout_passes(modules[i])) {
            if (next != NULL)
                *next = modules[i];
            total++;
        }
    }
    return total;
}

/* Whether there is something to spread or to leave out, and nobody who wants every module's own
 * output. */
static bool spreads(talc_module *const modules[], int count)
{
    const talc_forward_hooks *hooks = talc_forward_hooked();
    bool any = false;
    for (int i = 0; i < count; i++)
        any = any || modules[i]->kind == &talc_sequential_class || talc_dropout_passes(modules[i]);
    return any && talc_fusion_enabled() && (hooks == NULL || !hooks->apart);
}

static talc_tensor *forward_all(talc_module *const modules[], int count, talc_tensor *x,
                                const talc_chain_end *end)
{
    group g = { .ends = false };
    talc_tensor *y = x;
    bool outermost = false;
    for (int i = 0; i < count && !outermost; i++)
        outermost = !talc_pass_through(modules[i]);
    for (int i = 0; i < count && y != NULL; i += g.count) {
        talc_tensor *input = y;
        /* Of all modules that the group may have, where this is no part of a pass through them. */
        talc_pass passes[TALC_GROUP_MAX];
        int begun = 0;
        for (int k = i; outermost && k < count && k < i + TALC_GROUP_MAX; k++)
            if (!talc_pass_through(modules[k]))
                talc_pass_begin(&passes[begun++], modules[k]);
        y = forward_group(modules + i, count - i, input, end, &g);
        while (begun > 0)
            talc_pass_end(&passes[--begun]);
        if (input != y)
            talc_scope_drop(input); /* which passes over the caller's */
    }
    if (end != NULL && !g.ends)
        y = talc_activated(end->activation, add_residual(y, end->residual));
    return y;
}

talc_tensor *talc_forward_chain(talc_module *const modules[], int count, talc_tensor *x,
                                const talc_chain_end *end)
{
    if (!check(modules, count, x, end))
        return NULL;
    talc_module **flat = NULL;
    if (spreads(modules, count)) {
        const int total = spread(modules, count, NULL);
        flat = talc_memory_new((size_t)total * sizeof *flat + 1, WHO);
        if (flat == NULL)
            return NULL;
        count = spread(modules, count, flat);
        modules = flat;
    }
    talc_scope *scope = talc_scope_enter();
    talc_tensor *y = scope == NULL ? NULL : forward_all(modules, count, x, end);
    if (talc_failed())
        y = NULL;
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    talc_memory_free(flat);
    return y;
}
