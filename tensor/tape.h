/// The tape: what autograd notes of each op. Private to talc; ops record here, tensor/autograd.c
/// plays it backwards.
///
/// The last paragraph of an op records its result:
///
///     if (talc_tape_wants((const talc_tensor *const[]){ a, b }, 2))
///         y = talc_tape_record(y, &(talc_record){ .op = "mul", .rule = mul_gradient,
///                                               .inputs = ..., .input_count = 2,
///                                               .saved = { { "a", a }, { "b", b } } });
///
/// and its rule, beside it, gives the gradients of the inputs that want one:
///
///     static void mul_gradient(const talc_node *node, const talc_tensor *dy,
///                              talc_tensor *gradients[])
///     {
///         if (talc_node_wants(node, 0))
///             gradients[0] = talc_tape_sum_to(talc_mul(dy, talc_node_saved(node, 1)),
///                                             talc_node_input_dims(node, 0));
///         ...
///     }
#ifndef TALC_TENSOR_TAPE_H
#define TALC_TENSOR_TAPE_H

#include "tensor/tensor.h"

typedef struct talc_autograd talc_node;

/// Gradients of a node's inputs, new tensors or dy itself, from that of its output. Nothing is
/// recorded meanwhile, and what is made is freed when the rule returns. It computes no gradient
/// that is not wanted; NULL is a gradient of zeros. It fails by raising a failure.
typedef void talc_gradient_rule(const talc_node *node, const talc_tensor *dy,
                                talc_tensor *gradients[]);

/// The maximum number of tensors that a node keeps for its rule.
enum { TALC_TAPE_SAVED = 9 };

typedef struct talc_record {
    const char *op; ///< the name that begins the op's messages; lasts as long as the program
    talc_gradient_rule *rule;
    const talc_tensor *const *inputs; ///< NULL where an operand was left out
    int input_count;
    /// What the rule needs, by the names that messages use. NULL tensors are kept as NULL.
    struct {
        const char *name;
        const talc_tensor *tensor;
    } saved[TALC_TAPE_SAVED];
    const void *problem; ///< plain data, copied
    size_t problem_bytes;
    /// Ends what the copy of the problem owns: once, when the node is spent or nobody can reach it.
    /// NULL: it owns nothing. Not called by a talc_tape_record that fails.
    void (*drop)(void *problem);
    /// The place among `saved`, counted from 1, of the gradient of inputs[0] for dy = 1, where the
    /// op has worked it out already: a pass that begins here takes it, and calls no rule. 0: none.
    int ready;
} talc_record;

extern _Thread_local int talc_no_grad_depth;

/// Whether an op on these inputs is recorded: the one test that it costs where nothing asks for a
/// gradient.
static inline bool talc_tape_wants(const talc_tensor *const inputs[], int count)
{
    for (int i = 0; i < count; i++)
        if (inputs[i] != NULL && inputs[i]->autograd != NULL)
            return talc_no_grad_depth == 0;
    return false;
}

/// Whether this one's gradient is wanted: what a rule does not need for it need not be saved.
static inline bool talc_tape_wants_one(const talc_tensor *input)
{
    return talc_tape_wants(&input, 1);
}

/// Notes how y was made. Returns y; NULL, y released and a failure standing, without memory. NULL y
/// passes.
talc_tensor *talc_tape_record(talc_tensor *y, const talc_record *record);

/// Makes `alias`, which has the elements of `base`, what base is for gradients. Returns it; NULL
/// passes.
talc_tensor *talc_tape_share(talc_tensor *alias, const talc_tensor *base);

/// Raises why a tensor may not be written while this thread records: it is the result of a recorded
/// op. False then.
bool talc_tape_writable(const char *who, const talc_tensor *tensor);

/// Writes how a leaf is called, the path of a parameter, from what talc_tape_name was given.
typedef void talc_leaf_name(const void *named, const talc_node *leaf, char *text, size_t size);

/// How failures call a leaf from here on, unless it has a name already; `named` lasts until
/// talc_tape_unname.
void talc_tape_name(talc_tensor *leaf, talc_leaf_name *name, const void *named);
void talc_tape_unname(talc_tensor *leaf, const void *named);

/// From take to give `holder` alone may use the gradient of a leaf. False, with a failure that
/// names it, while another thread does, or a backward pass has reached the leaf. A tensor that is
/// no leaf passes.
bool talc_tape_take(const char *who, const talc_tensor *leaf, const void *holder);
void talc_tape_give(const talc_tensor *leaf, const void *holder);

/// What a tensor is told when it moves to another device or shape: a gradient that no longer fits
/// is dropped.
void talc_tape_moved(talc_tensor *tensor);

/// Makes a leaf what it was before it asked for a gradient. Works while a failure stands.
void talc_tape_forget(talc_tensor *tensor);

// ---- Between a pass and what it gives -----------------------------------------------------------

/// What sees the gradients of some leaves before a backward pass hands them over, and may change
/// them: the average over processes.
typedef struct talc_tape_hook talc_tape_hook;
struct talc_tape_hook {
    /// `gradient` is what leaf number `leaf` is going to have, complete, and stays until finish:
    /// called as soon as no recorded op uses the leaf any more, else at the end of the pass. False
    /// with a failure.
    bool (*ready)(talc_tape_hook *hook, int leaf, talc_tensor *gradient);
    /// The pass is over, and hands over the gradients when all hooks have returned. False with a
    /// failure.
    bool (*finish)(talc_tape_hook *hook, void *pass);
    /// The pass has failed; instead of finish, or after it. The failure stands.
    void (*fail)(talc_tape_hook *hook);
};

/// Puts a hook on a leaf. False, with a failure, where another is there, and for a tensor that is
/// no leaf. off takes it off where it is there, also while a failure stands.
bool talc_tape_hook_on(const char *who, talc_tensor *leaf, talc_tape_hook *hook, int number);
void talc_tape_hook_off(talc_tensor *leaf, const talc_tape_hook *hook);

/// In finish: makes `gradient` what a leaf is going to have that the pass did not reach.
bool talc_tape_hook_give(void *pass, talc_tensor *leaf, talc_tensor *gradient);

void talc_node_retain(talc_node *node);  ///< NULL passes
void talc_node_release(talc_node *node); ///< NULL passes

// ---- For rules ----------------------------------------------------------------------------------

bool talc_node_wants(const talc_node *node, int input);
const talc_tensor *talc_node_saved(const talc_node *node, int index);
const void *talc_node_problem(const talc_node *node);

/// The shape of an input. Also of one that wants no gradient.
talc_dims talc_node_input_dims(const talc_node *node, int input);

/// A gradient summed over the dimensions in which an operand of shape `dims` was stretched; itself
/// where it was not. NULL passes.
talc_tensor *talc_tape_sum_to(talc_tensor *gradient, talc_dims dims);

#endif
