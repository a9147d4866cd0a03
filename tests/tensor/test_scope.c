#include "tests/support/hooks.h"

#include "tensor/storage.h"

#include <pthread.h>

static size_t live(void)
{
    return talc_device_memory(cpu_device()).live;
}

static talc_tensor *ones(void)
{
    return talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1000));
}

// ---- Nesting ------------------------------------------------------------------------------------

Test(scope, leaving_frees_what_was_made_inside)
{
    talc_scope *scope = talc_scope_enter();
    talc_tensor *x = ones();
    talc_tensor *kept = talc_scope_return(scope, talc_add(x, x));
    const size_t both = live();
    talc_scope_leave(scope);
    cr_assert(live() == both / 2);
    cr_assert(talc_item(talc_slice(kept, 0, 5, 6, 1)) == 2.0);
}

Test(scope, a_tensor_belongs_to_the_innermost_scope)
{
    ones();
    const size_t one = live();
    talc_scope *outer = talc_scope_enter();
    ones();
    talc_scope *inner = talc_scope_enter();
    ones();
    cr_assert(live() == 3 * one);
    talc_scope_leave(inner);
    cr_assert(live() == 2 * one);
    ones();
    cr_assert(live() == 3 * one);
    talc_scope_leave(outer);
    cr_assert(live() == one);
    talc_scope *next = talc_scope_enter();
    talc_scope_leave(next);
    cr_assert(live() == one);
    assert_all_freed();
    cr_assert(live() == 0);
}

Test(scope, leaving_the_outer_scope_leaves_the_inner_ones)
{
    talc_scope *outer = talc_scope_enter();
    for (int i = 0; i < 50; i++) {
        cr_assert_not_null(talc_scope_enter());
        ones();
    }
    talc_scope_leave(outer);
    cr_assert(live() == 0);
    /* The thread is back in its root scope. */
    talc_tensor *x = ones();
    talc_scope *scope = talc_scope_enter();
    talc_scope_leave(scope);
    cr_assert(talc_numel(x) == 1000 && live() > 0);
}

Test(scope, a_tensor_is_returned_outwards_step_by_step)
{
    talc_scope *outer = talc_scope_enter(), *inner = talc_scope_enter();
    talc_tensor *x = ones(), *y = ones();
    const size_t one = live() / 2;
    cr_assert(talc_scope_return(inner, x) == x);
    cr_assert(talc_scope_return(outer, y) == y); /* out of both at once */
    talc_scope_leave(inner);
    cr_assert(live() == 2 * one);
    /* x belongs to outer now: returning it from a scope inside does nothing. */
    inner = talc_scope_enter();
    cr_assert(talc_scope_return(inner, x) == x);
    talc_scope_leave(inner);
    talc_scope_leave(outer);
    cr_assert(live() == one);
    cr_assert(talc_item(talc_select(y, 0, 7)) == 1);
}

Test(scope, null_and_closed_scopes_are_ignored)
{
    talc_scope_leave(NULL);
    talc_release(NULL);
    cr_assert(talc_retain(NULL) == NULL);
    talc_tensor *x = ones();
    talc_scope *scope = talc_scope_enter();
    cr_assert(talc_scope_return(NULL, x) == x && talc_scope_return(scope, NULL) == NULL);
    talc_scope *inner = talc_scope_enter();
    talc_scope_leave(scope);
    talc_scope_leave(inner);
    talc_scope_leave(scope);
    cr_assert(talc_scope_return(inner, x) == x);
    cr_assert(live() > 0 && !talc_failed());
}

static void *enter_and_end(void *unused)
{
    (void)unused;
    return talc_scope_enter();
}

enum { CLOSED = 32 }; /* enough that malloc gives the same memory again */

static void leave_many(talc_scope *left[CLOSED])
{
    for (int i = 0; i < CLOSED; i++)
        left[i] = talc_scope_enter();
    talc_scope_leave(left[0]);
}

/* A scope that was left, or another thread's, is none of those that are open, whatever memory they
 * have. */
Test(scope, a_scope_that_was_left_is_never_another)
{
    talc_scope *closed[CLOSED + 1];
    pthread_t thread;
    void *of_thread;
    pthread_create(&thread, NULL, enter_and_end, NULL);
    pthread_join(thread, &of_thread);
    leave_many(closed);
    closed[CLOSED] = of_thread;
    talc_scope *outer = talc_scope_enter(), *inner = outer;
    for (int i = 0; i < CLOSED; i++)
        inner = talc_scope_enter();
    talc_tensor *x = ones();
    const size_t one = live();
    for (int i = 0; i <= CLOSED; i++) {
        talc_scope_leave(closed[i]);
        cr_assert(live() == one && talc_scope_return(closed[i], x) == x, "scope %d", i);
    }
    talc_scope_leave(inner);
    cr_assert(live() == 0, "a closed scope returned a tensor");
    talc_scope_leave(outer);
}

static talc_scope *both[2];

static void use_scopes(void *data, void *context)
{
    (void)data;
    talc_scope_leave(both[1]);
    talc_scope_leave(both[0]);
    *(talc_scope **)context = talc_scope_enter();
    ones();
}

/* What is freed with a scope may be the program's, which may use scopes for that. */
Test(scope, a_release_function_may_use_scopes)
{
    static float data;
    talc_scope *entered = NULL;
    for (int i = 0; i < 2; i++) {
        both[i] = talc_scope_enter();
        ones();
        talc_wrap(cpu_device(), TALC_F32, TALC_DIMS(1), &data, i == 0 ? NULL : use_scopes,
                  &entered);
        ones();
    }
    const size_t four = live();
    talc_scope_leave(both[0]);
    cr_assert(entered != NULL && live() == four / 4, "its own scope is open");
    talc_scope_leave(entered);
    cr_assert(live() == 0);
}

Test(scope, leaving_and_releasing_work_while_a_failure_stands)
{
    talc_scope *scope = talc_scope_enter();
    talc_tensor *x = ones(), *y = ones();
    talc_retain(y);
    talc_fail(TALC_IO_ERROR, "stands");
    cr_assert_null(talc_scope_enter());
    talc_release(x);
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    talc_release(y);
    talc_release(y);
    cr_assert(live() == 0);
    assert_failure(TALC_IO_ERROR, "stands");
}

// ---- Counting -----------------------------------------------------------------------------------

Test(scope, retained_tensors_outlive_their_scope)
{
    talc_scope *scope = talc_scope_enter();
    talc_tensor *x = talc_retain(talc_retain(ones()));
    talc_tensor *view = talc_retain(talc_select(x, 0, 3));
    talc_scope_leave(scope);
    cr_assert(talc_item(talc_select(x, 0, 3)) == 1);
    talc_release(x);
    cr_assert(talc_numel(x) == 1000);
    talc_release(x);
    cr_assert(live() > 0 && talc_item(view) == 1, "a view keeps the storage");
    talc_release(view);
    talc_scope_leave_all();
    cr_assert(live() == 0);
}

Test(scope, releasing_what_nobody_retained_frees_it_at_once)
{
    talc_tensor *x[5];
    for (int i = 0; i < 5; i++)
        x[i] = ones();
    const size_t one = live() / 5;
    const int order[] = { 2, 0, 4, 3,
                          1 }; /* the middle, the ends and what is left of the scope's list */
    for (int i = 0; i < 5; i++) {
        talc_release(x[order[i]]);
        cr_assert(live() == (size_t)(4 - i) * one);
    }
    ones();
}

// ---- Threads ------------------------------------------------------------------------------------

static void *make_and_forget(void *unused)
{
    (void)unused;
    talc_scope_enter();
    ones();
    talc_scope_enter();
    ones();
    return NULL;
}

Test(scope, the_end_of_a_thread_frees_its_scopes)
{
    pthread_t thread;
    pthread_create(&thread, NULL, make_and_forget, NULL);
    pthread_join(thread, NULL);
    cr_assert(live() == 0);
}

static void *use_and_release(void *argument)
{
    talc_tensor *x = argument;
    const bool right = talc_item(talc_select(talc_add(x, x), 0, 9)) == 2;
    talc_release(x);
    return right ? argument : NULL;
}

Test(scope, a_retained_tensor_goes_to_another_thread)
{
    talc_scope *scope = talc_scope_enter();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_and_release, talc_retain(ones()));
    talc_scope_leave(scope);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cr_assert_not_null(result);
    }
    cr_assert(live() == 0);
}

static void *make_for_another(void *unused)
{
    (void)unused;
    return talc_retain(ones());
}

Test(scope, a_thread_hands_out_what_it_made)
{
    pthread_t thread;
    void *x;
    pthread_create(&thread, NULL, make_for_another, NULL);
    pthread_join(thread, &x);
    cr_assert(talc_item(talc_select(x, 0, 999)) == 1);
    talc_release(x);
}

Test(scope, a_scope_without_memory_is_an_error)
{
    allow_allocations(0);
    cr_assert_null(talc_scope_enter());
    allow_all_allocations();
    cr_assert(talc_error_status() == TALC_NO_MEMORY);
    talc_error_clear();
}
