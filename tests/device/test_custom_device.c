/// Ops of one's own on every device, in captured passes and in recorded steps. What they are
/// otherwise stands in tests/ops/test_custom.c.
#include "tests/support/captured.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include <math.h>
#include <string.h>

static int freed;

static talc_tensor *forward(talc_tensor *const inputs[], int count, void *data)
{
    (void)count, (void)data;
    return talc_mul(inputs[0], talc_sigmoid(inputs[0]));
}

static bool backward(const talc_custom_call *call, talc_tensor *gradients[])
{
    talc_tensor *s = talc_sigmoid(call->inputs[0]);
    talc_tensor *slope = talc_add(s, talc_sub(call->y, talc_mul(call->y, s)));
    gradients[0] = talc_mul(call->dy, slope);
    return gradients[0] != NULL;
}

static void count_freed(void *data)
{
    (void)data;
    freed++;
}

static const talc_custom_op op = { "swish", forward, backward, count_freed };

static talc_tensor *swish(talc_tensor *x)
{
    return talc_custom(&op, (const talc_tensor *[]){ x }, 1, NULL);
}

static talc_tensor *on_host(const talc_tensor *tensor)
{
    return talc_to(tensor, cpu_device(), TALC_F32);
}

Test(custom_device, gradients)
{
    enum { COUNT = 64 };
    talc_tensor *numbers = op_numbers(cpu_device(), TALC_DIMS(COUNT), 3);
    talc_tensor *x = talc_to(numbers, tested_device(), TALC_F32);
    talc_require_grad(x, true);
    talc_tensor *y = swish(x);
    cr_assert(talc_backward(talc_sum(y, TALC_SCALAR, false)));
    const float *at = talc_data_read(numbers, TALC_F32),
                *got = talc_data_read(on_host(y), TALC_F32),
                *slope = talc_data_read(on_host(talc_grad(x)), TALC_F32);
    for (int i = 0; i < COUNT; i++) {
        const double s = 1 / (1 + exp(-(double)at[i])), v = at[i];
        cr_assert(fabs(got[i] - v * s) < 1e-5 * (1 + fabs(v)));
        cr_assert(fabs(slope[i] - (s + v * s * (1 - s))) < 1e-5 * (1 + fabs(v)));
    }
    cr_assert(freed == 1);
}

Test(custom_device, captured_passes)
{
    talc_no_grad_enter();
    owned_module *module = module_of(swish);
    talc_tensor *x =
        talc_to(op_numbers(cpu_device(), TALC_DIMS(3, 7), 1), tested_device(), TALC_F32);
    owned_graph *graph = captured(module, x);
    for (unsigned seed = 2; seed < 5; seed++) {
        x = talc_to(op_numbers(cpu_device(), TALC_DIMS(3, 7), seed), tested_device(), TALC_F32);
        assert_same_bits("swish", talc_graph_replay(graph, x), swish(x));
    }
}

/* A number, which goes down the slope of the sum of swish(w x). */
typedef struct trainer {
    talc_tensor *w, *x;
} trainer;

static talc_tensor *train(void *context)
{
    const trainer *t = context;
    talc_grad_clear(t->w);
    talc_tensor *loss = talc_sum(swish(talc_mul(t->w, t->x)), TALC_SCALAR, false);
    if (!talc_backward(loss))
        return NULL;
    talc_no_grad_enter();
    talc_tensor *next = talc_sub(t->w, talc_mul(talc_grad(t->w), t->x));
    const bool written = next != NULL && talc_copy(t->w, next);
    talc_no_grad_leave();
    return written ? loss : NULL;
}

static trainer trainer_new(void)
{
    const trainer t = {
        talc_to(op_numbers(cpu_device(), TALC_DIMS(9), 1), tested_device(), TALC_F32),
        talc_to(op_numbers(cpu_device(), TALC_DIMS(9), 2), tested_device(), TALC_F32),
    };
    talc_require_grad(t.w, true);
    return t;
}

Test(custom_device, recorded_steps)
{
    trainer eager = trainer_new(), recorded = trainer_new();
    owned_step *step = talc_step_new(tested_device(), train, &recorded);
    for (int i = 0; i < 6; i++) {
        cr_assert(train(&eager) != NULL && talc_step_run(step) != NULL, "%s", talc_error_message());
        assert_same_bits("w", recorded.w, eager.w);
    }
}
