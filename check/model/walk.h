/// A forward pass that is watched: each op with the module it runs in, and each module's output.
/// Private to check/.
#ifndef TALC_CHECK_MODEL_WALK_H
#define TALC_CHECK_MODEL_WALK_H

#include "nn/entries.h"
#include "ops/algorithm.h"
#include "tensor/observe.h"

enum {
    CHECK_PATH = 256,
    CHECK_DEPTH = 64,
    CHECK_FORCED = 16,
    CHECK_NAME = TALC_ALGORITHM_TEXT,
    CHECK_FUSED = 3
};

/// An algorithm forced for the time of a pass.
typedef struct check_forced {
    char op[CHECK_NAME], name[CHECK_NAME];
    char before[CHECK_NAME]; ///< what was forced until then; "": nothing
    bool ran;                ///< the op was seen
} check_forced;

/// The modules that are being applied on one level of a pass: one, or several that are fused.
typedef struct check_level {
    const talc_module *modules[CHECK_FUSED];
    int count;
    bool folding; ///< one's parameters into another's, for later calls too
} check_level;

typedef struct check_calls {
    const talc_module *module;
    int count;
} check_calls;

typedef struct check_walk {
    /// Nothing is fused: every module gives its own output.
    bool apart;
    /// Train mode, but of dropout and drop path.
    bool training;
    /// Told of each op that ran in the module of `path` ("conv1+bn1" for modules that are fused,
    /// "conv1+bn1:fold" for what is made of their parameters), and of each module's output, which
    /// is the module's `call`-th. Either may be NULL. They may raise a failure, which ends the
    /// pass.
    void (*op)(struct check_walk *walk, const char *path, const talc_observation *observation);
    void (*module)(struct check_walk *walk, const char *path, int call, talc_tensor *y);

    /* The walk's own. */
    struct check_walk_hooks {
        talc_forward_hooks base;
        struct check_walk *walk;
    } hooks;
    struct check_walk_observer {
        talc_observer base;
        struct check_walk *walk;
    } observer;
    const talc_module *root;
    check_level stack[CHECK_DEPTH];
    int depth;
    check_calls *calls;
    int calls_count;
    size_t calls_capacity;
    check_forced forced[CHECK_FORCED];
    int forced_count;
} check_walk;

/// Runs model(x) in evaluation mode, or in train mode with copies of its buffers, on `device`, with
/// the algorithms of `algorithms` ("conv2d=im2col,...", NULL: none) forced, and puts modes and
/// forced algorithms back, also on failure; the model stays on the device. `who` names the caller.
bool talc_check_walk(const char *who, check_walk *walk, talc_module *model, talc_tensor *x,
                     talc_device *device, const char *algorithms);

/// A model's parameters as they are, so that it can be left so. Freed by talc_check_restore, which
/// cannot fail and puts everything back; NULL passes. NULL with a failure without memory. To be
/// used within one scope.
talc_replacement *talc_check_remember(talc_module *model);
void talc_check_restore(talc_module *model, talc_replacement *remembered);

/// The device of the model's first tensor; of one without any, x's.
static inline talc_device *talc_check_home(talc_module *model, const talc_replacement *remembered,
                                           const talc_tensor *x)
{
    return talc_module_tensor_count(model) > 0 ? remembered[0].tensor->device : x->device;
}

#endif
