#include "tensor/autograd.h"

#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/node.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/within.h"

#include <inttypes.h>

static const char *const WHO = "backward";

/* A pass: nodes to come, as a heap with the newest on top, and the leaves that it has reached. All
 * are retained. */
typedef struct node_list {
    talc_node **list;
    size_t count, capacity;
} node_list;

typedef struct pass {
    node_list heap, leaves;
    talc_tape_hook **hooks; /* of the leaves, each once */
    size_t hook_count, hook_capacity;
} pass;

/* The pass holds the node from here to `forget`. */
static bool append(node_list *list, talc_node *node, const pass *p)
{
    talc_node **grown =
        talc_memory_grown(list->list, list->count, &list->capacity, sizeof(talc_node *), WHO);
    if (grown == NULL)
        return false;
    list->list = grown;
    if (!talc_node_hold(node, p)) {
        talc_node_fail_held(WHO, node);
        return false;
    }
    list->list[list->count++] = node;
    talc_node_retain(node);
    return true;
}

// ---- The heap -----------------------------------------------------------------------------------

static void exchange(talc_node **list, size_t i, size_t j)
{
    talc_node *node = list[i];
    list[i] = list[j];
    list[j] = node;
}

static bool push(pass *p, talc_node *node)
{
    node_list *heap = &p->heap;
    if (!append(heap, node, p))
        return false;
    for (size_t i = heap->count - 1; i > 0; i = (i - 1) / 2) {
        if (heap->list[(i - 1) / 2]->order > heap->list[i]->order)
            break;
        exchange(heap->list, i, (i - 1) / 2);
    }
    return true;
}

static talc_node *pop(node_list *heap)
{
    talc_node *top = heap->list[0];
    heap->list[0] = heap->list[--heap->count];
    for (size_t i = 0;;) {
        size_t newest = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap->count; child++)
            if (heap->list[child]->order > heap->list[newest]->order)
                newest = child;
        if (newest == i)
            return top;
        exchange(heap->list, i, newest);
        i = newest;
    }
}

// ---- One node -----------------------------------------------------------------------------------

static bool fits(const talc_node *consumer, const talc_node *node, const talc_tensor *gradient)
{
    if (gradient->dtype == node->dtype && gradient->device == node->device &&
        talc_shape_equal(talc_dims_of(gradient), node->dims))
        return true;
    char got[TALC_DIMS_TEXT], expected[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: %s gives a gradient %s %s on %s to an operand %s %s on %s", WHO,
              consumer->op, talc_dtype_name(gradient->dtype),
              talc_dims_text(talc_dims_of(gradient), got), gradient->device->name,
              talc_dtype_name(node->dtype), talc_dims_text(node->dims, expected),
              node->device->name);
    return false;
}

static talc_tensor *add(const talc_tensor *a, const talc_tensor *b)
{
    return a->device->interface->add(a, b);
}

static bool note_hook(pass *p, talc_tape_hook *hook)
{
    for (size_t i = 0; i < p->hook_count; i++)
        if (p->hooks[i] == hook)
            return true;
    talc_tape_hook **grown =
        talc_memory_grown(p->hooks, p->hook_count, &p->hook_capacity, sizeof *grown, WHO);
    if (grown == NULL)
        return false;
    p->hooks = grown;
    p->hooks[p->hook_count++] = hook;
    return true;
}

static bool reach_leaf(pass *p, talc_node *leaf)
{
    return append(&p->leaves, leaf, p) && (leaf->hook == NULL || note_hook(p, leaf->hook));
}

/* Adds to what has come for a node, and sees to it that the pass comes there. */
static bool contribute(pass *p, talc_node *node, talc_tensor *gradient)
{
    if (atomic_load(&node->holder) != p &&
        !(node->rule == NULL ? reach_leaf(p, node) : push(p, node)))
        return false;
    talc_tensor *sum = node->pending == NULL ? gradient : add(node->pending, gradient);
    if (sum == NULL)
        return false;
    talc_retain(sum);
    talc_release(node->pending);
    node->pending = sum;
    return true;
}

/* That a node's rule has all that it needs, as it was. */
static bool intact(const talc_node *node)
{
    if (node->spent) {
        talc_fail(
            TALC_BAD_ARGUMENT,
            "%s: an earlier backward pass went over %s and has freed what it had saved; run the "
            "forward pass again",
            WHO, node->op);
        return false;
    }
    for (int i = 0; i < node->saved_count; i++) {
        const talc_saved_tensor *saved = &node->saved[i];
        if (saved->tensor == NULL || talc_version(saved->tensor) == saved->version)
            continue;
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: %s %s, which %s saved, was written since: version %" PRIu64 " then, %" PRIu64
                  " now (talc_data counts as a write, talc_data_read does not)",
                  WHO, saved->name, talc_dims_text(talc_dims_of(saved->tensor), text), node->op,
                  saved->version, talc_version(saved->tensor));
        return false;
    }
    return true;
}

static bool distribute(pass *p, const talc_node *node, talc_tensor *const gradients[])
{
    for (int i = 0; i < node->input_count; i++) {
        talc_node *input = node->inputs[i].node;
        if (input != NULL && gradients[i] != NULL &&
            (!fits(node, input, gradients[i]) || !contribute(p, input, gradients[i])))
            return false;
    }
    return true;
}

/* Makes what came for a leaf the leaf's alone: an optimizer may write to it. */
static bool settle(talc_node *leaf)
{
    talc_tensor *pending = leaf->pending;
    const tensor_record *record = (const tensor_record *)pending;
    const bool alone =
        atomic_load(&record->references) == 1 && atomic_load(&pending->storage->references) == 1;
    talc_tensor *own = leaf->gradient != NULL                 ? add(leaf->gradient, pending)
                       : alone && talc_is_contiguous(pending) ? pending
                                                              : talc_clone_for(WHO, pending);
    if (own == NULL)
        return false;
    if (own != pending) {
        talc_retain(own);
        talc_scope_drop(own);
        talc_release(pending);
        leaf->pending = own;
    }
    leaf->settled = true;
    return true;
}

static bool show(talc_node *leaf)
{
    return leaf->hook == NULL || leaf->settled ||
           (settle(leaf) && leaf->hook->ready(leaf->hook, leaf->hooked, leaf->pending));
}

/* Shows hooks the leaves that no other node is going to add to than this one, which has. */
static bool show_complete(const talc_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        talc_node *leaf = node->inputs[i].node;
        if (leaf == NULL || leaf->hook == NULL || leaf->pending == NULL)
            continue;
        int here = 0;
        for (int k = 0; k < node->input_count; k++)
            here += node->inputs[k].node == leaf;
        if (atomic_load(&leaf->uses) == here && !show(leaf))
            return false;
    }
    return true;
}

static bool play(pass *p, talc_node *node)
{
    if (!intact(node))
        return false;
    /* What the rule makes on the way is freed with this scope. */
    talc_scope *scope = talc_scope_enter();
    if (scope == NULL)
        return false;
    enum { FEW = 8 };
    talc_tensor *few[FEW] = { 0 }, **gradients = few;
    if (node->input_count > FEW)
        gradients = talc_memory_new((size_t)node->input_count * sizeof *gradients, WHO);
    bool ok = gradients != NULL;
    if (ok) {
        if (node->pending == NULL)
            gradients[0] = node->saved[node->ready - 1].tensor;
        else
            node->rule(node, node->pending, gradients);
        ok = !talc_failed() && distribute(p, node, gradients);
    }
    if (gradients != few)
        talc_memory_free(gradients);
    talc_scope_leave(scope);
    ok = ok && show_complete(node);
    talc_node_spend(node);
    return ok;
}

// ---- The pass -----------------------------------------------------------------------------------

/* Hands the leaves their gradients: all of them or none. */
static bool commit(const node_list *leaves)
{
    for (size_t i = 0; i < leaves->count; i++)
        if (!leaves->list[i]->settled && !settle(leaves->list[i]))
            return false;
    for (size_t i = 0; i < leaves->count; i++) {
        talc_node *leaf = leaves->list[i];
        if (leaf->gradient == NULL) {
            leaf->gradient = leaf->pending;
        } else {
            talc_tensor_replace(leaf->gradient, leaf->pending);
            talc_release(leaf->pending);
        }
        leaf->pending = NULL;
    }
    return true;
}

/* A node that the pass is done with, also where it failed: another pass begins from nothing. */
static void forget(talc_node *node)
{
    talc_release(node->pending);
    node->pending = NULL;
    node->settled = false;
    atomic_store(&node->holder, NULL);
    talc_node_release(node);
}

static void end(node_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        forget(list->list[i]);
    talc_memory_free(list->list);
}

bool talc_tape_hook_give(void *pass_of, talc_tensor *leaf, talc_tensor *gradient)
{
    if (!contribute(pass_of, leaf->autograd, gradient))
        return false;
    leaf->autograd->settled = true;
    return true;
}

/* Shows hooks the leaves that they have not seen, and lets them end what they began. */
static bool finish_hooks(pass *p)
{
    for (size_t i = 0; i < p->leaves.count; i++)
        if (!show(p->leaves.list[i]))
            return false;
    for (size_t i = 0; i < p->hook_count; i++)
        if (!p->hooks[i]->finish(p->hooks[i], p))
            return false;
    return true;
}

/* A cotangent that is NULL is 1, of a node whose gradient for it is ready. */
static bool run(const talc_tensor *y, const talc_tensor *cotangent)
{
    pass p = { 0 };
    bool ok = cotangent == NULL ? push(&p, y->autograd)
                                : contribute(&p, y->autograd, (talc_tensor *)cotangent);
    while (ok && p.heap.count > 0) {
        talc_node *node = pop(&p.heap);
        ok = play(&p, node);
        forget(node);
    }
    ok = ok && finish_hooks(&p) && commit(&p.leaves);
    for (size_t i = 0; i < p.hook_count && !ok; i++)
        p.hooks[i]->fail(p.hooks[i]);
    end(&p.heap);
    end(&p.leaves);
    talc_memory_free(p.hooks);
    return ok;
}

static bool run_unrecorded(const talc_tensor *y, const talc_tensor *cotangent)
{
    const char *around = talc_within(WHO);
    talc_scope *scope = talc_scope_enter();
    talc_no_grad_enter();
    const bool ok = scope != NULL && run(y, cotangent);
    talc_no_grad_leave();
    talc_scope_leave(scope);
    talc_within(around);
    return ok;
}

static bool has_node(const talc_tensor *y, const char *name)
{
    if (talc_operand_missing(WHO, name, y))
        return false;
    if (y->autograd == NULL)
        talc_fail(
            TALC_BAD_ARGUMENT,
            "%s: %s was made from nothing that asks for a gradient (talc_require_grad), or under "
            "talc_no_grad_enter",
            WHO, name);
    return y->autograd != NULL;
}

bool talc_backward_from(const talc_tensor *y, const talc_tensor *cotangent)
{
    TALC_DEFAULT_FENV;
    if (!has_node(y, "y") || talc_operand_missing(WHO, "cotangent", cotangent))
        return false;
    char text[TALC_DIMS_TEXT], expected[TALC_DIMS_TEXT];
    if (cotangent->device != y->device)
        talc_fail(TALC_BAD_DEVICE, "%s: y is on %s, cotangent on %s", WHO, y->device->name,
                  cotangent->device->name);
    else if (cotangent->dtype != y->dtype)
        talc_fail(TALC_BAD_DTYPE, "%s: y is %s, cotangent is %s", WHO, talc_dtype_name(y->dtype),
                  talc_dtype_name(cotangent->dtype));
    else if (!talc_same_dims(y, cotangent))
        talc_fail(TALC_BAD_SHAPE, "%s: cotangent %s must be %s, as y", WHO,
                  talc_dims_text(talc_dims_of(cotangent), text),
                  talc_dims_text(talc_dims_of(y), expected));
    return !talc_failed() && run_unrecorded(y, cotangent);
}

bool talc_backward(const talc_tensor *loss)
{
    TALC_DEFAULT_FENV;
    if (!has_node(loss, "loss"))
        return false;
    if (talc_numel(loss) != 1) {
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE,
                  "%s: loss %s has %" PRId64
                  " elements, needs 1 (talc_backward_from takes a cotangent)",
                  WHO, talc_dims_text(talc_dims_of(loss), text), talc_numel(loss));
        return false;
    }
    if (loss->autograd->ready > 0)
        return run_unrecorded(loss, NULL);
    const char *around = talc_within(WHO);
    talc_scope *scope = talc_scope_enter();
    talc_tensor *one =
        scope == NULL ? NULL : talc_full(loss->device, loss->dtype, talc_dims_of(loss), 1);
    const bool ok = one != NULL && talc_backward_from(loss, one);
    talc_scope_leave(scope);
    talc_within(around);
    return ok;
}
