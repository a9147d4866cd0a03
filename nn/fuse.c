#include "nn/fuse.h"

#include "nn/entries.h"
#include "nn/fold.h"
#include "nn/layer.h"
#include "ops/algorithm.h"
#include "ops/elementwise.h"
#include "ops/operand.h"
#include "tensor/environment.h"
#include "tensor/storage.h"

// ---- Whether --------------------------------------------------------------------------------------------------

static _Thread_local int said; /* 0: this thread has not said; 1: on; -1: off */

bool talc_fusion_enabled(void)
{
    return said != 0 ? said > 0 : talc_environment()->fuse;
}

void talc_fusion_enable(bool enabled)
{
    said = enabled ? 1 : -1;
}

// ---- What -----------------------------------------------------------------------------------------------------

/* NONE for a module that is no activation. */
static talc_activation activation_of(const talc_module *module)
{
    return module->kind == &talc_relu_class      ? TALC_ACTIVATION_RELU
           : module->kind == &talc_sigmoid_class ? TALC_ACTIVATION_SIGMOID
           : module->kind == &talc_tanh_class    ? TALC_ACTIVATION_TANH
                                                 : TALC_ACTIVATION_NONE;
}

/* An activation that can be the last step of another op: its own has no algorithm forced. */
static bool activation_joins(talc_activation activation)
{
    return activation != TALC_ACTIVATION_NONE &&
           talc_algorithm_forced(talc_activation_name(activation)) == NULL;
}

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

static group group_of(talc_module *const modules[], int count, const talc_chain_end *end)
{
    group g = { .count = 1 };
    talc_activation own;
    if (!talc_fusion_enabled() || modules[0]->training || !is_layer(modules[0], &own))
        return g;
    if (own == TALC_ACTIVATION_NONE && count > 1)
        g.norm = norm_joins(modules[0], modules[1]);
    if (g.norm != NULL) {
        g.count = 2;
        own = g.norm->options.activation;
    }
    if (own == TALC_ACTIVATION_NONE && g.count < count && !modules[g.count]->training) {
        const talc_activation next = activation_of(modules[g.count]);
        if (activation_joins(next)) {
            own = next;
            g.count++;
        }
    }
    g.end.activation = own;
    if (end == NULL || g.count < count || own != TALC_ACTIVATION_NONE)
        return g;
    const bool adds = modules[0]->kind != &talc_batch_norm2d_class; /* which takes no residual */
    g.ends = (end->residual == NULL || adds) &&
             (end->activation == TALC_ACTIVATION_NONE || activation_joins(end->activation));
    if (g.ends)
        g.end = *end;
    return g;
}

// ---- Running it -----------------------------------------------------------------------------------------------

static talc_tensor *run_conv2d(talc_module *module, const group *g, talc_tensor *weight,
                               talc_tensor *bias, const talc_tensor *x)
{
    talc_conv2d_options options = ((talc_conv2d_module *)module)->options;
    options.activation = g->end.activation;
    options.residual = g->end.residual;
    return talc_conv2d(x, weight, bias, &options);
}

static talc_tensor *run_linear(talc_module *module, const group *g, const talc_tensor *x)
{
    const talc_linear_module *self = (talc_linear_module *)module;
    talc_linear_options options = self->options;
    options.activation = g->end.activation;
    options.residual = g->end.residual;
    return talc_linear(x, self->weight, self->bias, &options);
}

static talc_tensor *run_batch_norm2d(talc_module *module, const group *g, const talc_tensor *x)
{
    const talc_batch_norm2d_module *self = (talc_batch_norm2d_module *)module;
    talc_batch_norm2d_options options = self->options;
    options.training = self->num_batches_tracked == NULL;
    options.activation = g->end.activation;
    return talc_batch_norm2d(x, self->weight, self->bias, self->running_mean, self->running_var,
                             &options);
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
    talc_conv2d_module *conv = (talc_conv2d_module *)first;
    talc_tensor *weight = NULL, *bias = NULL, *y = NULL;
    tell(modules, g->count, TALC_GROUP_FOLDS);
    const bool folded = g->norm == NULL || talc_fold_get(conv, g->norm, &weight, &bias);
    tell(modules, g->count, TALC_GROUP_RUNS);
    if (g->norm != NULL)
        y = folded ? run_conv2d(first, g, weight, bias, x) : NULL;
    else if (first->kind == &talc_conv2d_class)
        y = run_conv2d(first, g, conv->weight, conv->bias, x);
    else if (first->kind == &talc_linear_class)
        y = run_linear(first, g, x);
    else
        y = run_batch_norm2d(first, g, x);
    tell(modules, g->count, TALC_GROUP_ENDS);
    talc_release(weight);
    talc_release(bias);
    return y;
}

/* Applies the first group of a list of modules, followed by `end`; returns its result, and the group in *g. */
static talc_tensor *forward_group(talc_module *const modules[], int count, talc_tensor *x,
                                  const talc_chain_end *end, group *g)
{
    const talc_forward_hooks *hooks = talc_forward_hooked();
    const bool apart = hooks != NULL && hooks->apart;
    *g = group_of(modules, count, end);
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

// ---- Chains ---------------------------------------------------------------------------------------------------

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

/* The fused ops take a residual of the result's shape alone, so nothing is stretched here either. */
static talc_tensor *add_residual(talc_tensor *y, talc_tensor *residual)
{
    if (y == NULL || residual == NULL)
        return y;
    char text[TALC_DIMS_TEXT], due[TALC_DIMS_TEXT];
    if (talc_same_dims(y, residual))
        return talc_add(y, residual);
    talc_fail(TALC_BAD_SHAPE, "%s: residual %s must be %s, as what it is added to", WHO,
              talc_dims_text(talc_dims_of(residual), text), talc_dims_text(talc_dims_of(y), due));
    return NULL;
}

static talc_tensor *activate(talc_tensor *y, talc_activation activation)
{
    switch (y == NULL ? TALC_ACTIVATION_NONE : activation) {
    case TALC_ACTIVATION_RELU:
        return talc_relu(y);
    case TALC_ACTIVATION_SIGMOID:
        return talc_sigmoid(y);
    case TALC_ACTIVATION_TANH:
        return talc_tanh(y);
    default:
        return y;
    }
}

talc_tensor *talc_forward_chain(talc_module *const modules[], int count, talc_tensor *x,
                                const talc_chain_end *end)
{
    if (!check(modules, count, x, end))
        return NULL;
    talc_scope *scope = talc_scope_enter();
    group g = { .ends = false };
    talc_tensor *y = scope == NULL ? NULL : x;
    for (int i = 0; i < count && y != NULL; i += g.count) {
        talc_tensor *input = y;
        y = forward_group(modules + i, count - i, input, end, &g);
        if (input != y)
            talc_scope_drop(input); /* which passes over the caller's */
    }
    if (end != NULL && !g.ends)
        y = activate(add_residual(y, end->residual), end->activation);
    if (talc_failed())
        y = NULL;
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    return y;
}
