#include "tensor/scope.h"

#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

#include <pthread.h>

struct talc_scope {
    struct talc_scope *outer; /* NULL for a root scope */
    tensor_record *first;     /* what the scope holds one reference of, newest first */
};

/* A root scope lives in its thread; a key's destructor frees what it holds when the thread ends. The main thread
 * ends through exit, which runs no such destructors, so the library's own does it. */
static _Thread_local talc_scope root;
static _Thread_local talc_scope *innermost;
static pthread_key_t thread_end;
static pthread_once_t thread_end_made = PTHREAD_ONCE_INIT;

void talc_scope_leave_all(void)
{
    while (innermost != NULL && innermost != &root)
        talc_scope_leave(innermost);
    talc_scope_leave(innermost); /* the root, or NULL */
}

static void thread_ends(void *unused)
{
    (void)unused;
    talc_scope_leave_all();
    talc_stream_leave_all();
}

static void make_thread_end(void)
{
    pthread_key_create(&thread_end, thread_ends);
}

__attribute__((destructor)) static void leave_main_thread(void)
{
    talc_scope_leave_all();
    talc_stream_leave_all();
}

static talc_scope *current_scope(void)
{
    if (innermost == NULL) {
        pthread_once(&thread_end_made, make_thread_end);
        pthread_setspecific(thread_end, &root);
        innermost = &root;
    }
    return innermost;
}

void talc_scope_thread_ends(void)
{
    (void)current_scope();
}

static void link_record(talc_scope *scope, tensor_record *record)
{
    record->scope = scope;
    record->previous = NULL;
    record->next = scope->first;
    if (scope->first != NULL)
        scope->first->previous = record;
    scope->first = record;
}

static void unlink_record(tensor_record *record)
{
    if (record->previous != NULL)
        record->previous->next = record->next;
    else
        record->scope->first = record->next;
    if (record->next != NULL)
        record->next->previous = record->previous;
    record->scope = NULL;
}

void talc_scope_add(tensor_record *record)
{
    link_record(current_scope(), record);
}

static void drop_reference(tensor_record *record)
{
    if (atomic_fetch_sub(&record->references, 1) == 1)
        talc_tensor_destroy(record);
}

void talc_scope_drop(talc_tensor *tensor)
{
    tensor_record *record = (tensor_record *)tensor;
    if (record == NULL || record->scope != current_scope())
        return;
    unlink_record(record);
    drop_reference(record);
}

talc_scope *talc_scope_enter(void)
{
    if (talc_failed())
        return NULL;
    talc_scope *scope = talc_memory_new(sizeof *scope, "scope");
    if (scope != NULL) {
        scope->outer = current_scope();
        innermost = scope;
    }
    return scope;
}

/* True when `scope` is open on this thread: `inner` or around it. */
static bool encloses(const talc_scope *scope, const talc_scope *inner)
{
    while (inner != NULL && inner != scope)
        inner = inner->outer;
    return inner != NULL;
}

void talc_scope_leave(talc_scope *scope)
{
    if (scope == NULL || !encloses(scope, innermost))
        return;
    for (bool last = false; !last;) {
        talc_scope *leaving = innermost;
        last = leaving == scope;
        while (leaving->first != NULL) {
            tensor_record *record = leaving->first;
            unlink_record(record);
            drop_reference(record);
        }
        if (leaving == &root)
            return;
        innermost = leaving->outer;
        talc_memory_free(leaving);
    }
}

talc_tensor *talc_scope_return(talc_scope *scope, talc_tensor *tensor)
{
    if (scope == NULL || tensor == NULL || !encloses(scope, innermost) || scope->outer == NULL)
        return tensor;
    tensor_record *record = (tensor_record *)tensor;
    if (record->scope != NULL && encloses(scope, record->scope)) {
        unlink_record(record);
        link_record(scope->outer, record);
    }
    return tensor;
}

talc_tensor *talc_retain(talc_tensor *tensor)
{
    if (tensor != NULL)
        atomic_fetch_add(&((tensor_record *)tensor)->references, 1);
    return tensor;
}

void talc_release(talc_tensor *tensor)
{
    if (tensor == NULL)
        return;
    tensor_record *record = (tensor_record *)tensor;
    /* With one reference left it is the scope's own, so nobody else holds the tensor and it leaves the list here. */
    if (atomic_load(&record->references) == 1 && record->scope != NULL)
        unlink_record(record);
    drop_reference(record);
}
