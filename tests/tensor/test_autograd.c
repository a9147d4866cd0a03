/* What the tape promises: accumulation, errors, memory. The gradients of ops are tested in
 * tests/ops/test_gradient.c. */
#include "tests/support/hooks.h"

#include "tensor/node.h"
#include "tensor/storage.h"

static talc_tensor *leaf(double value)
{
    talc_tensor *x = talc_full(tested_device(), TALC_F64, TALC_DIMS(2), value);
    talc_require_grad(x, true);
    return x;
}

static talc_tensor *total(const talc_tensor *x)
{
    return talc_sum(x, TALC_SCALAR, false);
}

static double first(const talc_tensor *x)
{
    return talc_item(talc_slice(talc_detach(x), 0, 0, 1, 1));
}

Test(autograd, gradients_add_up_until_they_are_cleared)
{
    talc_tensor *x = leaf(3);
    cr_assert(talc_wants_grad(x) && talc_grad(x) == NULL);
    cr_assert(talc_backward(total(talc_mul(x, x))));
    const talc_tensor *gradient = talc_grad(x);
    cr_assert(first(gradient) == 6, "%g", first(gradient));
    cr_assert(talc_backward(total(x)));
    cr_assert(talc_grad(x) == gradient && first(gradient) == 7, "%g", first(gradient));
    talc_grad_clear(x);
    cr_assert(talc_grad(x) == NULL);
    cr_assert(
        talc_backward_from(talc_mul_scalar(x, 2), talc_full(x->device, TALC_F64, TALC_DIMS(2), 5)));
    cr_assert(first(talc_grad(x)) == 10);
}

/* What another thread's pass has is not touched; what this pass had taken before it is let go. */
Test(autograd, passes_that_meet_are_turned_away)
{
    static const int other = 0; /* whose address stands for another thread's pass */
    talc_tensor *a = leaf(1), *b = leaf(2);
    talc_tensor *y = talc_mul(a, b);
    cr_assert(talc_tape_take("test", b, &other));
    cr_assert(!talc_backward(total(y)));
    assert_failure(TALC_BAD_ARGUMENT, "backward: another thread is at the gradient of a leaf [2]; "
                                      "threads that train one module take turns");
    cr_assert(talc_grad(a) == NULL && talc_grad(b) == NULL);
    talc_grad_clear(b);
    assert_failure(TALC_BAD_ARGUMENT, "grad_clear: another thread is at the gradient of a leaf "
                                      "[2]; threads that train one module take turns");
    cr_assert(talc_backward(total(talc_mul(a, a))) && first(talc_grad(a)) == 2);
    talc_tape_give(b, &other);
    cr_assert(talc_backward(total(talc_mul(b, b))) && first(talc_grad(b)) == 4);

    y = talc_mul(a, b);
    talc_tensor *loss = total(y);
    cr_assert(talc_node_hold(y->autograd, &other));
    cr_assert(!talc_backward(loss));
    assert_failure(TALC_BAD_ARGUMENT, "backward: another thread's backward pass is at the result "
                                      "of mul [2]; passes over the same results take turns");
    atomic_store(&y->autograd->holder, NULL);
}

/* An optimizer writes to gradients in place. */
Test(autograd, leaves_do_not_share_a_gradients_memory)
{
    talc_tensor *a = leaf(1), *b = leaf(2);
    talc_tensor *y = talc_add(a, b), *seed = talc_ones(y->device, TALC_F64, TALC_DIMS(2));
    cr_assert(talc_backward_from(y, seed));
    cr_assert(talc_grad(a)->storage != talc_grad(b)->storage);
    cr_assert(talc_grad(a)->storage != seed->storage && talc_grad(b)->storage != seed->storage);
    cr_assert(talc_is_contiguous(talc_grad(a)) && talc_is_contiguous(talc_grad(b)));
}

Test(autograd, no_gradient_goes_through_detach_and_no_grad)
{
    talc_tensor *x = leaf(3);
    talc_no_grad_enter();
    talc_no_grad_enter();
    talc_no_grad_leave();
    cr_assert(!talc_grad_enabled() && !talc_wants_grad(talc_mul(x, x)));
    talc_no_grad_leave();
    talc_no_grad_leave();
    cr_assert(talc_grad_enabled());
    cr_assert(talc_backward(total(talc_mul(x, talc_detach(x)))));
    cr_assert(first(talc_grad(x)) == 3);
    cr_assert(talc_require_grad(x, false) && !talc_wants_grad(x) && talc_grad(x) == NULL);
    cr_assert(!talc_wants_grad(talc_mul(x, x)));
}

Test(autograd, mistakes_are_errors_that_name_them)
{
    talc_tensor *x = leaf(3);
    talc_backward(NULL);
    assert_failure(TALC_NULL_ARGUMENT, "backward: loss is NULL");
    talc_backward(x);
    assert_failure(
        TALC_BAD_SHAPE,
        "backward: loss [2] has 2 elements, needs 1 (talc_backward_from takes a cotangent)");
    talc_backward(total(talc_detach(x)));
    assert_failure(TALC_BAD_ARGUMENT, "backward: loss was made from nothing that asks for a "
                                      "gradient (talc_require_grad), or under "
                                      "talc_no_grad_enter");
    talc_backward_from(x, total(x));
    assert_failure(TALC_BAD_SHAPE, "backward: cotangent [] must be [2], as y");
    talc_require_grad(talc_neg(x), true);
    assert_failure(TALC_BAD_ARGUMENT, "require_grad: the tensor is the result of neg; only a leaf, "
                                      "such as its talc_detach, can be "
                                      "asked or freed of a gradient");
    talc_require_grad(talc_zeros(x->device, TALC_I64, TALC_DIMS(2)), true);
    assert_failure(TALC_BAD_DTYPE,
                   "require_grad: the tensor is i64, only f32 and f64 have gradients");

    talc_tensor *y = total(talc_mul(x, x));
    cr_assert(talc_backward(y));
    talc_backward(y);
    assert_failure(
        TALC_BAD_ARGUMENT,
        "backward: an earlier backward pass went over sum and has freed what it had saved; run the "
        "forward pass again");
    cr_assert(first(talc_grad(x)) == 6);

    y = total(talc_mul(x, x));
    const unsigned long long version = talc_version(x);
    talc_fill(x, 4);
    talc_backward(y);
    assert_failure_with(TALC_BAD_ARGUMENT,
                        "backward: a [2], which mul saved, was written since: version %llu then, "
                        "%llu now (talc_data counts as a "
                        "write, talc_data_read does not)",
                        version, version + 1);
    cr_assert(first(talc_grad(x)) == 6);

    talc_tensor *made = talc_neg(x);
    talc_fill(made, 1);
    assert_failure(TALC_BAD_ARGUMENT, "fill: the tensor is the result of neg, whose gradient is "
                                      "recorded; write to a talc_clone, or "
                                      "between talc_no_grad_enter and talc_no_grad_leave");
    talc_copy(talc_zeros_like(x), x);
    assert_failure(
        TALC_BAD_ARGUMENT,
        "copy: src asks for a gradient, which does not go through a copy into a tensor; copy a "
        "talc_detach of it, or after talc_no_grad_enter");
}

/* A chain longer than any stack, and freed without a backward pass. */
Test(autograd, long_chains_are_freed)
{
    talc_tensor *x = leaf(1), *y = x;
    for (int i = 0; i < 200000; i++) {
        talc_tensor *next = talc_neg(y);
        if (y != x)
            talc_release(y);
        y = next;
    }
    cr_assert(talc_backward(total(y)));
    cr_assert(first(talc_grad(x)) == 1);
    for (int i = 0; i < 200000; i++) {
        talc_tensor *next = talc_neg(y);
        talc_release(y);
        y = next;
    }
    talc_release(y);
}

static size_t live(void)
{
    return talc_device_memory(tested_device()).live;
}

/* tanh saves its result and neg nothing, so that of each pair one tensor is kept, until the pass
 * has been there. */
Test(autograd, what_nothing_needs_is_freed_before_and_during_the_pass)
{
    enum { N = 1 << 16, PAIRS = 8 };
    const size_t bytes = N * sizeof(double);
    talc_tensor *x = talc_zeros(tested_device(), TALC_F64, TALC_DIMS(N)), *y = x;
    talc_require_grad(x, true);
    const size_t before = live();
    for (int i = 0; i < PAIRS; i++) {
        talc_tensor *a = talc_tanh(y), *b = talc_neg(a);
        talc_release(a);
        if (y != x)
            talc_release(y);
        y = b;
    }
    talc_tensor *loss = total(y);
    talc_release(y);
    cr_assert(live() - before < PAIRS * bytes + bytes / 2, "%zu bytes are live", live() - before);
    talc_memory_reset_peak(tested_device());
    cr_assert(talc_backward(loss));
    cr_assert(talc_device_memory(tested_device()).peak - before < (PAIRS + 4) * bytes);
    cr_assert(live() - before < bytes + bytes / 2);
}

Test(autograd, each_allocation_may_fail)
{
    bool refused = true;
    for (int64_t allowed = 0; refused; allowed++) {
        talc_tensor *x = leaf(2), *w = leaf(3);
        cr_assert(talc_backward(total(w)));
        talc_scope *scope = talc_scope_enter();
        allow_allocations(allowed);
        const talc_tensor *y = talc_tanh(talc_mul(x, w));
        const bool ran = talc_backward(total(talc_add(y, w)));
        refused = allow_all_allocations();
        cr_assert(ran == !talc_failed() && (ran || refused), "%s", talc_error_message());
        if (!ran) {
            cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
            talc_error_clear();
            cr_assert(talc_grad(x) == NULL && first(talc_grad(w)) == 1);
        }
        talc_scope_leave(scope);
        talc_scope_leave_all();
        refused = refused && !ran;
    }
}

/* A pass that failed before it spent a note leaves nothing that another one would add to. */
Test(autograd, a_pass_that_failed_may_be_tried_again)
{
    bool refused = true;
    int again = 0;
    for (int64_t allowed = 0; refused; allowed++) {
        talc_tensor *x = leaf(3);
        talc_tensor *loss = total(talc_mul(x, x));
        allow_allocations(allowed);
        const bool ran = talc_backward(loss);
        refused = allow_all_allocations() && !ran;
        talc_error_clear();
        if (!ran && talc_backward(loss)) {
            again++;
            cr_assert(first(talc_grad(x)) == 6, "after allocation %d the gradient is %g",
                      (int)allowed, first(talc_grad(x)));
        }
        talc_error_clear();
        talc_scope_leave_all();
    }
    cr_assert(again > 0);
}
