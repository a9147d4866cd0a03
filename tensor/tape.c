#include "tensor/tape.h"

#include "tensor/autograd.h"
#include "tensor/memory.h"
#include "tensor/node.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <string.h>

_Thread_local int talc_no_grad_depth;

void talc_no_grad_enter(void)
{
    talc_no_grad_depth++;
}

void talc_no_grad_leave(void)
{
    talc_no_grad_depth -= talc_no_grad_depth > 0;
}

bool talc_grad_enabled(void)
{
    return talc_no_grad_depth == 0;
}

// ---- Nodes --------------------------------------------------------------------------------------

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* One block: the node, its inputs, what it saves, the problem. */
static talc_node *node_new(const talc_tensor *tensor, const talc_record *record, int saved_count)
{
    static atomic_uint_fast64_t made;
    const size_t inputs_at = aligned(sizeof(talc_node));
    const size_t saved_at =
        inputs_at + aligned((size_t)record->input_count * sizeof(talc_node_input));
    const size_t problem_at = saved_at + aligned((size_t)saved_count * sizeof(talc_saved_tensor));
    char *block = talc_memory_new(problem_at + record->problem_bytes, "gradient record");
    if (block == NULL)
        return NULL;
    talc_node *node = (void *)block;
    atomic_init(&node->references, 1);
    atomic_init(&node->uses, 0);
    node->order = atomic_fetch_add(&made, 1);
    node->op = record->op;
    node->rule = record->rule;
    node->dims = talc_dims_of(tensor);
    node->dtype = tensor->dtype;
    node->device = tensor->device;
    node->input_count = record->input_count;
    node->saved_count = saved_count;
    node->ready = record->ready;
    node->inputs = (void *)(block + inputs_at);
    node->saved = (void *)(block + saved_at);
    node->problem = block + problem_at;
    if (record->problem_bytes > 0)
        memcpy(node->problem, record->problem, record->problem_bytes);
    return node;
}

void talc_node_retain(talc_node *node)
{
    if (node != NULL)
        atomic_fetch_add(&node->references, 1);
}

/* Puts a node that nobody holds any more on a list. */
static void drop(talc_node *node, talc_node **list)
{
    if (node == NULL || atomic_fetch_sub(&node->references, 1) != 1)
        return;
    node->next = *list;
    *list = node;
}

static void empty(talc_node *node, talc_node **list)
{
    for (int i = 0; i < node->saved_count; i++) {
        talc_release(node->saved[i].tensor);
        node->saved[i].tensor = NULL;
    }
    for (int i = 0; i < node->input_count; i++) {
        if (node->inputs[i].node != NULL)
            atomic_fetch_sub(&node->inputs[i].node->uses, 1);
        drop(node->inputs[i].node, list);
        node->inputs[i].node = NULL;
    }
    if (node->drop != NULL) {
        void (*drop_problem)(void *) = node->drop;
        node->drop = NULL;
        drop_problem(node->problem);
    }
}

/* A list, since a chain of nodes is as long as the program likes and a thread's stack is not. */
static void free_list(talc_node *list)
{
    while (list != NULL) {
        talc_node *node = list;
        list = node->next;
        empty(node, &list);
        talc_release(node->gradient);
        talc_release(node->pending);
        talc_memory_free(node);
    }
}

void talc_node_release(talc_node *node)
{
    talc_node *list = NULL;
    drop(node, &list);
    free_list(list);
}

void talc_node_spend(talc_node *node)
{
    talc_node *list = NULL;
    node->spent = true;
    empty(node, &list);
    free_list(list);
}

bool talc_node_wants(const talc_node *node, int input)
{
    return node->inputs[input].node != NULL;
}

const talc_tensor *talc_node_saved(const talc_node *node, int index)
{
    return node->saved[index].tensor;
}

const void *talc_node_problem(const talc_node *node)
{
    return node->problem;
}

talc_dims talc_node_input_dims(const talc_node *node, int input)
{
    return node->inputs[input].dims;
}

// ---- Leaves -------------------------------------------------------------------------------------

bool talc_require_grad(talc_tensor *tensor, bool required)
{
    if (talc_operand_missing("require_grad", "tensor", tensor))
        return false;
    talc_node *node = tensor->autograd;
    if (node != NULL && node->rule != NULL) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "require_grad: the tensor is the result of %s; only a leaf, such as its "
                  "talc_detach, can be asked or freed of a gradient",
                  node->op);
        return false;
    }
    if (required && !talc_dtype_is_float(tensor->dtype)) {
        talc_fail(TALC_BAD_DTYPE, "require_grad: the tensor is %s, only f32 and f64 have gradients",
                  talc_dtype_name(tensor->dtype));
        return false;
    }
    if (required == (node != NULL))
        return true;
    if (!required) {
        talc_tape_forget(tensor);
        return true;
    }
    tensor->autograd = node_new(tensor, &(talc_record){ 0 }, 0);
    return tensor->autograd != NULL;
}

void talc_tape_name(talc_tensor *leaf, talc_leaf_name *name, const void *named)
{
    if (leaf->autograd == NULL || (leaf->autograd->named != NULL && named != NULL))
        return;
    leaf->autograd->name = name;
    leaf->autograd->named = named;
}

void talc_tape_unname(talc_tensor *leaf, const void *named)
{
    if (leaf->autograd != NULL && leaf->autograd->named == named)
        talc_tape_name(leaf, NULL, NULL);
}

bool talc_node_hold(talc_node *node, const void *holder)
{
    const void *nobody = NULL;
    return atomic_compare_exchange_strong(&node->holder, &nobody, holder);
}

void talc_node_fail_held(const char *who, const talc_node *node)
{
    char dims[TALC_DIMS_TEXT], name[TALC_SHOWN_TEXT] = "";
    talc_dims_text(node->dims, dims);
    if (node->op != NULL) {
        talc_fail(
            TALC_BAD_ARGUMENT,
            "%s: another thread's backward pass is at the result of %s %s; passes over the same "
            "results take turns",
            who, node->op, dims);
        return;
    }
    if (node->name != NULL)
        node->name(node->named, node, name, sizeof name);
    talc_fail(
        TALC_BAD_ARGUMENT,
        "%s: another thread is at the gradient of %s%s%s%s; threads that train one module take "
        "turns",
        who, *name == '\0' ? "a leaf " : "'", *name == '\0' ? dims : name,
        *name == '\0' ? "" : "' ", *name == '\0' ? "" : dims);
}

bool talc_tape_take(const char *who, const talc_tensor *leaf, const void *holder)
{
    talc_node *node = leaf->autograd;
    if (node == NULL || node->rule != NULL || talc_node_hold(node, holder))
        return true;
    talc_node_fail_held(who, node);
    return false;
}

void talc_tape_give(const talc_tensor *leaf, const void *holder)
{
    if (leaf->autograd != NULL && atomic_load(&leaf->autograd->holder) == holder)
        atomic_store(&leaf->autograd->holder, NULL);
}

bool talc_tape_hook_on(const char *who, talc_tensor *leaf, talc_tape_hook *hook, int number)
{
    talc_node *node = leaf->autograd;
    if (node == NULL || node->rule != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: the tensor is no leaf that asks for a gradient", who);
    else if (node->hook != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: the gradient is averaged over a group already", who);
    if (talc_failed())
        return false;
    node->hook = hook;
    node->hooked = number;
    return true;
}

void talc_tape_hook_off(talc_tensor *leaf, const talc_tape_hook *hook)
{
    if (leaf->autograd != NULL && leaf->autograd->hook == hook)
        leaf->autograd->hook = NULL;
}

void talc_tape_forget(talc_tensor *tensor)
{
    talc_node_release(tensor->autograd);
    tensor->autograd = NULL;
}

bool talc_wants_grad(const talc_tensor *tensor)
{
    return tensor != NULL && tensor->autograd != NULL;
}

talc_tensor *talc_grad(const talc_tensor *tensor)
{
    return tensor == NULL || tensor->autograd == NULL ? NULL : tensor->autograd->gradient;
}

static void drop_gradient(talc_node *leaf)
{
    talc_release(leaf->gradient);
    leaf->gradient = NULL;
}

void talc_grad_clear(talc_tensor *tensor)
{
    if (tensor == NULL || tensor->autograd == NULL || tensor->autograd->rule != NULL ||
        !talc_tape_take("grad_clear", tensor, &tensor))
        return;
    drop_gradient(tensor->autograd);
    talc_tape_give(tensor, &tensor);
}

talc_tensor *talc_detach(const talc_tensor *tensor)
{
    return talc_operand_missing("detach", "tensor", tensor) ? NULL : talc_tensor_alias(tensor);
}

void talc_tape_moved(talc_tensor *tensor)
{
    talc_node *node = tensor->autograd;
    if (node == NULL)
        return;
    /* A load changes none of these, and may happen while others read them. */
    if (node->device == tensor->device && node->dtype == tensor->dtype &&
        talc_shape_equal(node->dims, talc_dims_of(tensor)))
        return;
    drop_gradient(node);
    node->device = tensor->device;
    node->dtype = tensor->dtype;
    node->dims = talc_dims_of(tensor);
}

// ---- Recording ----------------------------------------------------------------------------------

/* A handle that no scope holds, and that leads back to no node: one that did would keep its own
 * node alive. */
static talc_tensor *kept(const talc_tensor *tensor)
{
    talc_tensor *alias = talc_tensor_alias(tensor);
    talc_retain(alias);
    talc_scope_drop(alias);
    return alias;
}

static bool fill_in(talc_node *node, const talc_record *record)
{
    for (int i = 0; i < record->input_count; i++) {
        const talc_tensor *input = record->inputs[i];
        if (input == NULL)
            continue;
        node->inputs[i].dims = talc_dims_of(input);
        node->inputs[i].node = input->autograd;
        talc_node_retain(input->autograd);
        if (input->autograd != NULL)
            atomic_fetch_add(&input->autograd->uses, 1);
    }
    for (int i = 0; i < node->saved_count; i++) {
        const talc_tensor *tensor = record->saved[i].tensor;
        if (tensor == NULL)
            continue;
        node->saved[i] = (talc_saved_tensor){ .name = record->saved[i].name,
                                              .tensor = kept(tensor),
                                              .version = talc_version(tensor) };
        if (node->saved[i].tensor == NULL)
            return false;
    }
    return true;
}

talc_tensor *talc_tape_record(talc_tensor *y, const talc_record *record)
{
    if (y == NULL)
        return NULL;
    int saved_count = 0;
    for (int i = 0; i < TALC_TAPE_SAVED; i++)
        if (record->saved[i].name != NULL)
            saved_count = i + 1;
    talc_node *node = node_new(y, record, saved_count);
    if (node != NULL && fill_in(node, record)) {
        node->drop = record->drop;
        y->autograd = node;
        return y;
    }
    talc_node_release(node);
    talc_release(y);
    return NULL;
}

talc_tensor *talc_tape_share(talc_tensor *alias, const talc_tensor *base)
{
    if (alias != NULL && talc_tape_wants_one(base)) {
        alias->autograd = base->autograd;
        talc_node_retain(alias->autograd);
    }
    return alias;
}

bool talc_tape_writable(const char *who, const talc_tensor *tensor)
{
    if (!talc_tape_wants_one(tensor) || tensor->autograd->rule == NULL)
        return true;
    talc_fail(
        TALC_BAD_ARGUMENT,
        "%s: the tensor is the result of %s, whose gradient is recorded; write to a talc_clone, "
        "or between talc_no_grad_enter and talc_no_grad_leave",
        who, tensor->autograd->op);
    return false;
}

talc_tensor *talc_tape_sum_to(talc_tensor *gradient, talc_dims dims)
{
    if (gradient == NULL || talc_shape_equal(talc_dims_of(gradient), dims))
        return gradient;
    const int added = gradient->rank - dims.rank;
    talc_dims axes = TALC_SCALAR;
    for (int i = 0; i < gradient->rank; i++)
        if (i < added || gradient->dims[i] != dims.dim[i - added])
            axes.dim[axes.rank++] = i;
    talc_tensor *sum =
        axes.rank == 0 ? gradient : gradient->device->interface->sum(gradient, axes, true);
    return sum == NULL ? NULL : talc_reshape(sum, dims);
}
