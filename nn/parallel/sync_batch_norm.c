/* Source: variances of parts are put together by Chan, Golub and LeVeque, "Updating formulae and a
 * pairwise algorithm for computing sample variances", 1979; the gradient is that of Ioffe and
 * Szegedy, arXiv 1502.03167, with sums over all members. */
#include "nn/parallel/sync_batch_norm.h"

#include "nn/entries.h"
#include "ops/batch_norm2d.h"
#include "ops/concat.h"
#include "ops/custom.h"
#include "ops/elementwise.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/memory.h"
#include "tensor/scope.h"

static const char *const WHO = "sync_batch_norm2d";

/* Of one call. Numbers are f64 throughout, as talc_batch_norm2d's are, so that a mean far from 0
 * takes no digits from what is left of x. */
typedef struct norm_call {
    talc_batch_norm2d_module *module;
    talc_group *group;
    double count;             /* values of a channel, in all members */
    talc_tensor *mean, *rstd; /* [1,C,1,1], f64, retained */
} norm_call;

static talc_dims image_axes(void)
{
    return TALC_DIMS(0, 2, 3);
}

static talc_dims channels_of(const talc_tensor *x)
{
    return TALC_DIMS(1, x->dims[1], 1, 1);
}

/* [C] of x's type as [1,C,1,1] of f64. */
static talc_tensor *wide(const talc_tensor *per_channel)
{
    return talc_reshape(talc_cast(per_channel, TALC_F64), TALC_DIMS(1, -1, 1, 1));
}

static talc_tensor *normalised(const norm_call *call, const talc_tensor *x)
{
    return talc_mul(talc_sub(talc_cast(x, TALC_F64), call->mean), call->rstd);
}

// ---- Statistics ---------------------------------------------------------------------------------

/* Mean and biased variance over all members. */
static bool statistics(norm_call *call, const talc_tensor *x, talc_tensor **mean, talc_tensor **var)
{
    const int64_t C = x->dims[1], own = C == 0 ? 0 : talc_numel(x) / C;
    talc_tensor *x64 = talc_cast(x, TALC_F64);
    talc_tensor *zeros = talc_zeros(x->device, TALC_F64, TALC_DIMS(C));
    const talc_tensor *parts[] = {
        own > 0 ? talc_mean(x64, image_axes(), false) : zeros,
        own > 0 ? talc_var(x64, image_axes(), 0, false) : zeros,
        talc_full(x->device, TALC_F64, TALC_DIMS(1), (double)own),
    };
    talc_tensor *all = talc_group_all_gather(call->group, talc_concat(parts, 3, 0));
    talc_tensor *counts = talc_slice(all, 1, 2 * C, TALC_END, 1); /* [size,1] */
    call->count = talc_item(talc_sum(counts, TALC_SCALAR, false));
    if (!talc_failed() && call->count < 2)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: training needs more than one value of a channel, there %s %g", WHO,
                  call->count == 1 ? "is" : "are", call->count);
    talc_tensor *share = talc_div_scalar(counts, call->count);
    talc_tensor *means = talc_slice(all, 1, 0, C, 1), *vars = talc_slice(all, 1, C, 2 * C, 1);
    talc_tensor *mu = talc_sum(talc_mul(means, share), TALC_DIMS(0), true);
    talc_tensor *spread = talc_add(vars, talc_squared_difference(means, mu));
    *mean = talc_reshape(mu, TALC_DIMS(C));
    *var = talc_sum(talc_mul(spread, share), TALC_DIMS(0), false);
    return !talc_failed();
}

/* r = (1 - momentum) r + momentum now */
static bool move(talc_tensor *running, const talc_tensor *now, double momentum)
{
    talc_tensor *before = talc_mul_scalar(talc_cast(running, TALC_F64), 1 - momentum);
    talc_tensor *after = talc_add(before, talc_mul_scalar(now, momentum));
    return talc_copy(running, talc_cast(after, running->dtype));
}

static bool track(const norm_call *call, const talc_tensor *mean, const talc_tensor *var)
{
    talc_batch_norm2d_module *m = call->module;
    const double given = m->options.momentum;
    const double momentum = given == 0 ? 0.1 : given == (double)TALC_ZERO ? 0 : given;
    if (m->num_batches_tracked == NULL)
        return true;
    talc_tensor *unbiased = talc_mul_scalar(var, call->count / (call->count - 1));
    return move(m->running_mean, mean, momentum) && move(m->running_var, unbiased, momentum) &&
           talc_copy(m->num_batches_tracked, talc_add_scalar(m->num_batches_tracked, 1));
}

// ---- The op -------------------------------------------------------------------------------------

static talc_tensor *forward(talc_tensor *const inputs[], int count, void *data)
{
    (void)count;
    norm_call *call = data;
    const talc_tensor *x = inputs[0];
    const double given = call->module->options.eps;
    const double eps = given == 0 ? 1e-5 : given == (double)TALC_ZERO ? 0 : given;
    talc_tensor *mean, *var;
    if (!statistics(call, x, &mean, &var))
        return NULL;
    call->mean = talc_retain(talc_reshape(mean, channels_of(x)));
    call->rstd = talc_retain(talc_reshape(talc_rsqrt(talc_add_scalar(var, eps)), channels_of(x)));
    talc_tensor *y = normalised(call, x);
    if (inputs[1] != NULL)
        y = talc_add(talc_mul(y, wide(inputs[1])), wide(inputs[2]));
    y = talc_cast(y, x->dtype);
    return y != NULL && track(call, mean, var) ? y : NULL;
}

static bool backward(const talc_custom_call *custom, talc_tensor *gradients[])
{
    norm_call *call = custom->data;
    const talc_tensor *x = custom->inputs[0], *weight = custom->inputs[1];
    talc_tensor *g = talc_cast(custom->dy, TALC_F64), *x_hat = normalised(call, x);
    talc_tensor *sums[] = { talc_sum(g, image_axes(), false),
                            talc_sum(talc_mul(g, x_hat), image_axes(), false) };
    if (custom->wanted[1])
        gradients[1] = talc_cast(sums[1], x->dtype);
    if (custom->wanted[2])
        gradients[2] = talc_cast(sums[0], x->dtype);
    /* Also where no member wants dx: the calls of the group are the same in all. */
    talc_tensor *both = talc_concat((const talc_tensor *const[]){ sums[0], sums[1] }, 2, 0);
    if (!talc_group_all_reduce(call->group, both, TALC_GROUP_SUM))
        return false;
    if (!custom->wanted[0])
        return true;
    const int64_t C = x->dims[1];
    both = talc_div_scalar(both, call->count);
    talc_tensor *bias_mean = talc_reshape(talc_slice(both, 0, 0, C, 1), channels_of(x));
    talc_tensor *weight_mean = talc_reshape(talc_slice(both, 0, C, TALC_END, 1), channels_of(x));
    talc_tensor *dx = talc_sub(talc_sub(g, bias_mean), talc_mul(x_hat, weight_mean));
    dx = talc_mul(dx, call->rstd);
    if (weight != NULL)
        dx = talc_mul(dx, wide(weight));
    gradients[0] = talc_cast(dx, x->dtype);
    return gradients[0] != NULL;
}

static void drop(void *data)
{
    norm_call *call = data;
    talc_release(call->mean);
    talc_release(call->rstd);
    talc_memory_free(call);
}

static const talc_custom_op op = { "sync_batch_norm2d", forward, backward, drop };

talc_tensor *talc_sync_batch_norm2d(talc_batch_norm2d_module *module, const talc_tensor *x)
{
    char text[TALC_DIMS_TEXT];
    if (talc_operand_missing(WHO, "x", x))
        return NULL;
    if (x->rank != 4) {
        talc_fail(TALC_BAD_SHAPE, "%s: x %s must be [N,C,H,W]", WHO,
                  talc_dims_text(talc_dims_of(x), text));
        return NULL;
    }
    norm_call *call = talc_memory_new(sizeof *call, WHO);
    if (call == NULL)
        return NULL;
    *call = (norm_call){ .module = module, .group = module->group };
    return talc_custom(&op, (const talc_tensor *[]){ x, module->weight, module->bias }, 3, call);
}

void talc_sync_batch_norms(talc_module *module, talc_group *group)
{
    if (module->kind == &talc_batch_norm2d_class)
        ((talc_batch_norm2d_module *)module)->group = group;
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            talc_sync_batch_norms(module->entries->list[i].child, group);
}
