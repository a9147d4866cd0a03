/// Optimizers: how parameters follow their gradients.
///
///     talc_optimizer *optimizer = talc_optimizer_new(net, &(talc_optimizer_options){
///         .kind = TALC_SGD, .lr = 0.05, .momentum = 0.9, .nesterov = true,
///         .weight_decay = 5e-4 });
///     ...
///         talc_optimizer_zero_grad(optimizer);
///         talc_backward(loss);
///         talc_optimizer_step(optimizer);
///     ...
///     talc_optimizer_free(optimizer);
///
/// Formulas and defaults are PyTorch's (ops/update.h has them). An optimizer belongs to the
/// program; it holds the module's parameters, which may be moved, cast and loaded meanwhile, and
/// its own state of each, which follows to the parameter's device and dtype, its values kept. A
/// parameter without a gradient, as a frozen one, stays as it is. A step is one launch for every 68
/// parameters, and clipping two.
#ifndef TALC_NN_OPTIMIZER_H
#define TALC_NN_OPTIMIZER_H

#include "module.h"
#include "schedule.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_optimizer_kind {
    TALC_SGD,
    TALC_ADAM,
    TALC_ADAMW,
    TALC_RMSPROP,
    TALC_OPTIMIZER_COUNT
} talc_optimizer_kind;

/// Zero is the default, TALC_ZERO asks for zero. Members of other kinds must be zero.
typedef struct talc_optimizer_options {
    talc_optimizer_kind kind;
    double lr;           ///< 0: 1e-3; rmsprop 1e-2
    double weight_decay; ///< 0: none; adamw 1e-2
    double momentum;     ///< sgd, rmsprop
    double dampening;    ///< sgd
    bool nesterov;       ///< sgd, with momentum and without dampening
    double beta1, beta2; ///< adam, adamw; 0: 0.9 and 0.999
    double alpha;        ///< rmsprop; 0: 0.99
    bool centered;       ///< rmsprop
    double eps;          ///< all but sgd; 0: 1e-8
} talc_optimizer_options;

typedef struct talc_optimizer talc_optimizer;

/// "sgd", "adam", "adamw", "rmsprop"; "?" for another number.
TALC_API const char *talc_optimizer_kind_name(talc_optimizer_kind kind);

/// An optimizer of all parameters of a module, as one group; one that layers share counts once,
/// under its first path. The module may end first. Errors: NULL, numbers out of range, a module
/// without parameters or with one that is a view with gaps, no memory.
TALC_API talc_optimizer *talc_optimizer_new(talc_module *module,
                                            const talc_optimizer_options *options);
TALC_API void talc_optimizer_free(talc_optimizer *optimizer); ///< NULL passes

/// Makes the parameters whose paths match a shell pattern ("*.bias", "layer1.*"; fnmatch) a group
/// with options of its own, of the same kind. Errors: those of talc_optimizer_new, a pattern that
/// nothing matches.
TALC_API bool talc_optimizer_group(talc_optimizer *optimizer, const char *pattern,
                                   const talc_optimizer_options *options);

/// Gives every group this schedule (schedule.h), counted from the optimizer's first step. Errors:
/// NULL, an unknown kind, numbers out of range.
TALC_API bool talc_optimizer_schedule(talc_optimizer *optimizer, const talc_schedule *schedule);

/// Drops the gradients of all parameters, so that the next backward pass does not add to them.
TALC_API void talc_optimizer_zero_grad(talc_optimizer *optimizer);

/// Scales all gradients alike so that the norm of all of them together is at most `max_norm`, and
/// returns what it was, a scalar, without waiting for the device. Errors: NULL, max_norm below 0,
/// no gradient, parameters of several types or devices, no memory.
TALC_API talc_tensor *talc_optimizer_clip(talc_optimizer *optimizer, double max_norm);

/// Updates every parameter that has a gradient. Errors: NULL, no gradient at all, no memory;
/// nothing has changed then.
TALC_API bool talc_optimizer_step(talc_optimizer *optimizer);

TALC_API int64_t talc_optimizer_steps(const talc_optimizer *optimizer); ///< taken; 0 for NULL

/// The rate of the next step, of the group that talc_optimizer_new made (0) or of the groups after
/// it. NAN for no such group.
TALC_API double talc_optimizer_rate(const talc_optimizer *optimizer, int group);

TALC_END_DECLARATIONS

#endif
