/* What an algorithm makes of a convolution's weights is made once, again when they are written, and
 * never where a gradient is recorded or a step. */
#include "tests/support/hooks.h"
#include "tests/support/plans.h"

#include "nn/step.h"
#include "ops/backend.h"
#include "ops/conv2d.h"
#include "ops/elementwise.h"
#include "tensor/autograd.h"

#include <pthread.h>
#include <string.h>

static int packs;
static talc_tensor *x, *w;
static bool interfere; /* another thread writes w once it is packed */

static void *write_w(void *nothing)
{
    talc_copy(w, talc_full(w->device, TALC_F32, TALC_DIMS(1, 1, 1, 1), 7));
    return nothing;
}

PLAN(plan, NULL, plan->cached = sizeof(float); plan->workspace = 2 * sizeof(float))

/* Of kernels of one weight and one channel: y = w x, from its double, by way of the rest of the
 * workspace. */
static talc_status run(talc_device *device, const void *problem, const talc_plan *plan,
                       const void *arguments)
{
    (void)device, (void)plan;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    float *cached = a->base.cached != NULL ? a->base.cached : a->base.workspace;
    float *rest = (float *)a->base.workspace + (a->base.cached == NULL);
    if (!a->base.cached_ready) {
        *cached = 2 * *(const float *)a->w;
        packs++;
        if (interfere) {
            pthread_t thread;
            interfere = false;
            cr_assert(pthread_create(&thread, NULL, write_w, NULL) == 0);
            pthread_join(thread, NULL);
        }
    }
    *rest = *cached / 2;
    for (int64_t i = 0; i < p->N * p->OH * p->OW; i++)
        ((float *)a->y)[i] = *rest * ((const float *)a->x)[i];
    return TALC_OK;
}

static const talc_algorithm algorithms[] = {
    { .name = "doubled", .arithmetic = { "f32", TALC_STRICT, false }, .plan = plan, .run = run },
    { .name = NULL },
};

static struct talc_backend with_algorithms;
static const struct talc_backend *before;

static void begin(void)
{
    talc_device *device = cpu_device();
    before = device->backend;
    with_algorithms = *before;
    with_algorithms.algorithms[TALC_OP_conv2d] = algorithms;
    device->backend = &with_algorithms;
    packs = 0;
    x = talc_full(device, TALC_F32, TALC_DIMS(2, 1, 1, 2), 3);
    w = talc_full(device, TALC_F32, TALC_DIMS(1, 1, 1, 1), 5);
}

static void end(void)
{
    cpu_device()->backend = before;
}

/* The first element of a result; the options' other members may be NULL's. */
static float first(const talc_tensor *weights, const talc_conv2d_options *options)
{
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *y = talc_conv2d(x, weights, NULL, options);
    cr_assert_not_null(y, "%s", talc_error_message());
    const float value = *(const float *)y->data;
    return value;
}

static const talc_conv2d_options keep = { .cache_weights = true };

Test(cached_weights, are_made_once_until_w_is_written, .init = begin, .fini = end)
{
    for (int i = 0; i < 3; i++)
        cr_assert(first(w, &keep) == 15);
    cr_assert(packs == 1, "%d", packs);
    cr_assert(talc_copy(w, talc_full(w->device, TALC_F32, TALC_DIMS(1, 1, 1, 1), 7)));
    for (int i = 0; i < 3; i++)
        cr_assert(first(w, &keep) == 21);
    cr_assert(packs == 2, "%d", packs);
}

Test(cached_weights, are_not_cached_unasked, .init = begin, .fini = end)
{
    for (int i = 0; i < 3; i++)
        cr_assert(first(w, NULL) == 15);
    cr_assert(packs == 3, "%d", packs);
}

Test(cached_weights, are_not_cached_where_a_gradient_is_recorded, .init = begin, .fini = end)
{
    cr_assert(talc_require_grad(w, true));
    cr_assert(first(w, &keep) == 15 && first(w, &keep) == 15);
    cr_assert(packs == 2, "%d", packs);
}

Test(cached_weights, belong_to_a_view_and_a_problem, .init = begin, .fini = end)
{
    const float two[] = { 5, 11 };
    const talc_tensor *both = talc_from_host(w->device, TALC_F32, TALC_DIMS(2, 1, 1, 1), two);
    const talc_tensor *one = talc_slice(both, 0, 0, 1, 1), *other = talc_slice(both, 0, 1, 2, 1);
    for (int i = 0; i < 2; i++) {
        cr_assert(first(one, &keep) == 15);
        cr_assert(first(other, &keep) == 33);
    }
    cr_assert(packs == 2, "%d", packs);
    /* Other strides are another problem, more of which are not kept than of a few. */
    for (int i = 0; i < 2; i++)
        for (int64_t s = 1; s <= 6; s++) {
            talc_conv2d_options options = keep;
            options.stride[0] = s;
            cr_assert(first(w, &options) == 15);
        }
    cr_assert(packs == 2 + 12, "%d", packs);
    talc_conv2d_options latest = keep;
    latest.stride[0] = 6;
    cr_assert(first(w, &latest) == 15 && packs == 14, "%d", packs);
}

static talc_tensor *step(void *context)
{
    (void)context;
    talc_tensor *y = talc_conv2d(x, w, NULL, &keep);
    talc_copy(w, talc_add(w, w));
    return y;
}

Test(cached_weights, are_not_cached_in_a_step, .init = begin, .fini = end)
{
    owned_step *of = talc_step_new(w->device, step, NULL);
    cr_assert(first(w, &keep) == 15);
    float expected = 15;
    for (int i = 0; i < 4; i++, expected *= 2) {
        const talc_tensor *y = talc_step_run(of);
        cr_assert(y != NULL && *(const float *)y->data == expected, "%s", talc_error_message());
    }
    cr_assert(packs == 5, "%d", packs);
}

Test(cached_weights, go_with_w, .init = begin, .fini = end)
{
    owned_scope *scope = talc_scope_enter();
    talc_tensor *own = talc_full(w->device, TALC_F32, TALC_DIMS(1, 1, 1, 1), 5);
    cr_assert(first(own, &keep) == 15);
}

Test(cached_weights, are_of_the_version_that_was_packed, .init = begin, .fini = end)
{
    interfere = true;
    (void)first(w, &keep);
    cr_assert(first(w, &keep) == 21);
}

Test(cached_weights, of_the_cpu_give_what_weights_themselves_give)
{
    owned_scope *scope = talc_scope_enter();
    talc_device *device = cpu_device();
    const talc_tensor *image = talc_rand(device, TALC_F32, TALC_DIMS(1, 400, 7, 7));
    talc_tensor *weights = talc_rand(device, TALC_F32, TALC_DIMS(160, 400, 1, 1));
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            cr_assert(talc_copy(weights, talc_rand(device, TALC_F32, TALC_DIMS(160, 400, 1, 1))));
        const talc_tensor *kept = talc_conv2d(image, weights, NULL, &keep);
        const talc_tensor *fresh = talc_conv2d(image, weights, NULL, NULL);
        cr_assert(kept != NULL && fresh != NULL, "%s", talc_error_message());
        cr_assert(memcmp(kept->data, fresh->data, (size_t)talc_numel(kept) * sizeof(float)) == 0);
    }
}
