#include "ops/dropout.h"

#include "ops/gradient.h"
#include "ops/operand.h"
#include "tensor/generator.h"
#include "tensor/recording.h"
#include "tensor/scope.h"
#include "tensor/within.h"

static talc_tensor *mask_of(const talc_tensor *x, double p)
{
    const talc_tensor *drawn = talc_rand(x->device, x->dtype, talc_dims_of(x));
    if (drawn == NULL)
        return NULL;
    const talc_tensor *kept = talc_binary(TALC_GREATER_EQUAL, drawn, NULL, p);
    return kept == NULL ? NULL : talc_mul_scalar(kept, p == 1 ? 0 : 1 / (1 - p));
}

talc_tensor *talc_dropout(const talc_tensor *x, double p, bool training)
{
    if (!talc_operand_float("dropout", "x", x))
        return NULL;
    if (!(p >= 0 && p <= 1)) {
        talc_fail(TALC_BAD_ARGUMENT, "dropout: p %g must be from 0 to 1", p);
        return NULL;
    }
    if (!training || p == 0)
        return talc_tape_share(talc_tensor_alias(x), x);
    if (talc_recording_refuses_random("dropout", x->device))
        return NULL;
    const char *around = talc_within("dropout");
    talc_scope *scope = talc_scope_enter();
    const talc_generator before = talc_generator_get();
    const talc_tensor *mask = scope == NULL ? NULL : mask_of(x, p);
    talc_tensor *y = mask == NULL ? NULL : talc_mul(x, mask);
    if (y == NULL)
        talc_generator_restore(before);
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    talc_within(around);
    return y;
}
