/// Fusing: several modules in one launch.
///
/// Sequential and talc_forward_chain apply these neighbours as one op, in training too, whose
/// result is written once:
///
///     Conv2d [BatchNorm2d] [ReLU | Sigmoid | Tanh]     one conv2d
///     Linear [ReLU | Sigmoid | Tanh]                   one linear
///     BatchNorm2d [ReLU | Sigmoid | Tanh]              one batch_norm2d
///
/// Outside training, and where no gradient is recorded (talc_no_grad_enter), a batch norm with
/// running statistics is folded into the convolution before it, channel by channel:
///
///     s = gamma / sqrt(var + eps),    w' = w s,    b' = (b - mean) s + beta
///
/// w' and b' are made on the parameters' device when they are first needed and kept by the
/// convolution, next to its own weight, for each norm that follows it somewhere; they are made anew
/// once a parameter or a running statistic has been written, and given back when the module is
/// moved, loaded, set to train mode or freed. They are no parameters: nothing lists, counts or
/// saves them.
///
/// Accuracy: with K products an output, u the unit roundoff and S = sum |w s x| + (|b| + |mean|)
/// |s| + |beta| + |residual|, the six roundings of the fold move each product and each term of b'
/// by at most 6 u of its size, and the convolution adds at most (K + 2) u of the sum of sizes
/// (strict algorithms), so that a fused output is within (K + 8) u S (1 + 6 u) of the exact one on
/// any data. Layer by layer it is the same: (K + 2) u for the convolution, six roundings for the
/// norm. So the two may differ, by at most twice that. Nothing is folded where only an activation
/// or a residual joins.
///
/// A Sequential in a chain counts as its children, and a Dropout or DropPath in evaluation mode as
/// nothing, so that what follows may join the layer before, except where every module's own output
/// is wanted.
///
/// A residual that a chain ends with (talc_chain_end) is an operand of the last op, if that is one
/// of these.
///
/// Modules of the program's own, layers that have an activation of their own already, and a batch
/// norm that normalises by the batch end a chain. The op itself runs an activation whose gradient
/// does not follow from its result (ops/activation.h) apart where one is recorded. One whose op has
/// an algorithm forced (talc_algorithm_force) runs by itself; an algorithm that is forced on
/// batch_norm2d makes the fold. talc_module_explain (module.h) shows what is fused.
#ifndef TALC_NN_FUSE_H
#define TALC_NN_FUSE_H

#include "../ops/activation.h"
#include "module.h"

TALC_BEGIN_DECLARATIONS

/// What follows the last module of a chain; zero is nothing.
typedef struct talc_chain_end {
    /// Of the shape of the modules' result; added to it before the activation. NULL: none.
    talc_tensor *residual;
    talc_activation activation;
} talc_chain_end;

/// activation(residual + module[count-1](... module[0](x))), each module's result seen by the next
/// one alone, so that what can be fused is. This is how a module of the program's own says that its
/// children are a chain:
///
///     y = talc_forward_chain(TALC_CHAIN(self->conv1, self->bn1), x,
///                            &(talc_chain_end){ .activation = TALC_ACTIVATION_RELU });
///
/// `end` may be NULL. Without modules and end it returns x itself. Errors: a NULL module or x, an
/// activation that does not exist, a residual of another shape, and those of the modules.
TALC_API talc_tensor *talc_forward_chain(talc_module *const modules[], int count, talc_tensor *x,
                                         const talc_chain_end *end);

/// The first two arguments of talc_forward_chain for modules written out. For C; C++ passes an
/// array.
#define TALC_CHAIN(...)                                                                            \
    (talc_module *[]){ __VA_ARGS__ },                                                              \
        (int)(sizeof((talc_module *[]){ __VA_ARGS__ }) / sizeof(talc_module *))

/// Whether this thread fuses: yes, unless TALC_FUSE=0 is in the environment or the thread has said
/// otherwise here.
TALC_API bool talc_fusion_enabled(void);
TALC_API void talc_fusion_enable(bool enabled);

TALC_END_DECLARATIONS

#endif
