#include "ops/dropout.h"

#include "ops/gradient.h"
#include "ops/operand.h"
#include "tensor/fenv.h"
#include "tensor/generator.h"
#include "tensor/recording.h"
#include "tensor/scope.h"
#include "tensor/within.h"

static talc_tensor *mask_of(const talc_tensor *x, double p, talc_dims dims)
{
    const talc_tensor *drawn = talc_rand(x->device, x->dtype, dims);
    if (drawn == NULL)
        return NULL;
    const talc_tensor *kept = talc_binary(TALC_GREATER_EQUAL, drawn, NULL, p);
    return kept == NULL ? NULL : talc_mul_scalar(kept, p == 1 ? 0 : 1 / (1 - p));
}

/* With a mask of `dims`, which stretches to x. */
static talc_tensor *dropped(const char *op, const talc_tensor *x, double p, bool training,
                            talc_dims dims)
{
    TALC_DEFAULT_FENV;
    if (!(p >= 0 && p <= 1)) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: p %g must be from 0 to 1", op, p);
        return NULL;
    }
    if (!training || p == 0)
        return talc_tape_share(talc_tensor_alias(x), x);
    if (talc_recording_refuses_random(op, x->device))
        return NULL;
    const char *around = talc_within(op);
    talc_scope *scope = talc_scope_enter();
    const talc_generator before = talc_generator_get();
    const talc_tensor *mask = scope == NULL ? NULL : mask_of(x, p, dims);
    talc_tensor *y = mask == NULL ? NULL : talc_mul(x, mask);
    if (y == NULL)
        talc_generator_restore(before);
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    talc_within(around);
    return y;
}

talc_tensor *talc_dropout(const talc_tensor *x, double p, bool training)
{
    static const char *const op = "dropout";
    return talc_operand_float(op, "x", x) ? dropped(op, x, p, training, talc_dims_of(x)) : NULL;
}

talc_tensor *talc_drop_path(const talc_tensor *x, double p, bool training)
{
    static const char *const op = "drop_path";
    if (!talc_operand_float(op, "x", x))
        return NULL;
    if (x->rank == 0) {
        talc_fail(TALC_BAD_SHAPE, "%s: x [] has rank 0, it must be [N,...], of rank 1 at least",
                  op);
        return NULL;
    }
    talc_dims samples = talc_dims_of(x);
    for (int i = 1; i < samples.rank; i++)
        samples.dim[i] = 1;
    return dropped(op, x, p, training, samples);
}
