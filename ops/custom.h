/// Ops of one's own, with a gradient: a function forward and a function backward, as PyTorch's
/// torch.autograd.Function has them.
///
///     static talc_tensor *forward(talc_tensor *const inputs[], int count, void *data)
///     {
///         return talc_mul(inputs[0], talc_sigmoid(inputs[0]));
///     }
///
///     static bool backward(const talc_custom_call *call, talc_tensor *gradients[])
///     {
///         talc_tensor *s = talc_sigmoid(call->inputs[0]);           // s + y - y s
///         talc_tensor *slope = talc_add(s, talc_sub(call->y, talc_mul(call->y, s)));
///         gradients[0] = talc_mul(call->dy, slope);
///         return gradients[0] != NULL;
///     }
///
///     static const talc_custom_op swish = { "swish", forward, backward, NULL };
///
///     talc_tensor *y = talc_custom(&swish, (const talc_tensor *[]){ x }, 1, NULL);
///
/// Nothing of what the functions do is recorded. Each runs in a scope of its own, which frees what
/// it made but its results. What they are handed, `inputs`, `y` and `dy`, are handles of the call,
/// which they read, and neither release nor write (talc_data counts as a write, talc_data_read does
/// not). Their results are tensors that they made there, or handles that they were handed. They run
/// on any device, and within a recorded graph or step as far as they call ops alone.
/// talc_check_gradient holds an op of one's own against differences.
#ifndef TALC_OPS_CUSTOM_H
#define TALC_OPS_CUSTOM_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

enum { TALC_CUSTOM_INPUTS = 8 };

/// What `backward` gets: the inputs and the result of the call, and the gradient of the result,
/// which has its shape, dtype and device.
typedef struct talc_custom_call {
    talc_tensor *const *inputs; ///< NULL where one was left out
    int count;
    talc_tensor *y, *dy;
    const bool *wanted; ///< of each input: whether its gradient is asked for
    void *data;
} talc_custom_call;

/// Lasts as long as the program, as its name does.
typedef struct talc_custom_op {
    const char *name; ///< begins failures: "swish"
    /// The result. NULL with a failure raised by talc_fail or by an op.
    talc_tensor *(*forward)(talc_tensor *const inputs[], int count, void *data);
    /// Puts the gradient of each input whose gradient is wanted into `gradients`, of the input's
    /// shape, dtype and device; zeros are a tensor of zeros, and not NULL. Others are not looked
    /// at. False with a failure raised. NULL: the op has no gradient.
    bool (*backward)(const talc_custom_call *call, talc_tensor *gradients[]);
    /// Frees `data`: once, when no backward pass can ask for it any more, or when the call has
    /// failed. It may run while a failure stands. NULL: there is nothing to free.
    void (*free)(void *data);
} talc_custom_op;

/// What op->forward gives of the inputs, recorded where one of them asks for a gradient and the
/// result is f32 or f64. `data`, which may be NULL, belongs to the call from here on, also where it
/// fails; only where `op` is NULL it stays the caller's. Errors: NULL, no name or forward, fewer
/// than 0 or more than TALC_CUSTOM_INPUTS inputs, an input that asks for a gradient that the op has
/// not, what forward fails with, and a forward that gives NULL without a failure, a tensor that is
/// not its own, or that released or wrote an input. A backward pass fails likewise where backward
/// does, or gives no gradient where one is wanted, or one of another shape, dtype or device; the
/// failure names op and input.
TALC_API talc_tensor *talc_custom(const talc_custom_op *op, const talc_tensor *const inputs[],
                                  int count, void *data);

TALC_END_DECLARATIONS

#endif
