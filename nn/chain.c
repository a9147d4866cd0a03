/// Chains that a program writes in its own forward functions.
#include "nn/group.h"
#include "ops/elementwise.h"
#include "ops/operand.h"
#include "tensor/storage.h"

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
    talc_group_result group = { 0 };
    talc_tensor *y = scope == NULL ? NULL : x;
    for (int i = 0; i < count && y != NULL; i += group.count) {
        talc_tensor *input = y;
        y = talc_group_forward(modules + i, count - i, input, end, &group);
        if (input != y)
            talc_scope_drop(input); /* which passes over the caller's */
    }
    if (end != NULL && !group.ended)
        y = activate(add_residual(y, end->residual), end->activation);
    if (talc_failed())
        y = NULL;
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    return y;
}
