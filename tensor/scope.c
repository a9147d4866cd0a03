#include "tensor/scope.h"

#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

#include <pthread.h>

/* Its handle is no address, which a later scope might have again. */
typedef struct scope_record {
    struct scope_record *outer; /* NULL for a root scope */
    void *handle;
    tensor_record *first; /* what the scope holds one reference of, newest first */
} scope_record;

/* A root scope lives in its thread; a key's destructor frees what it holds when the thread ends.
 * The main thread ends through exit, which runs no such destructors, so the library's own does
 * it. */
static _Thread_local scope_record root;
static _Thread_local scope_record *innermost;
static pthread_key_t thread_end;
static pthread_once_t thread_end_made = PTHREAD_ONCE_INIT;

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

static scope_record *current_scope(void)
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

/* Read by threads, too, that share the tensor, to see that it is not in their scopes. */
static scope_record *scope_of(const tensor_record *record)
{
    return atomic_load_explicit(&record->scope, memory_order_relaxed);
}

static void set_scope(tensor_record *record, scope_record *scope)
{
    atomic_store_explicit(&record->scope, scope, memory_order_relaxed);
}

static void link_record(scope_record *scope, tensor_record *record)
{
    set_scope(record, scope);
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
        scope_of(record)->first = record->next;
    if (record->next != NULL)
        record->next->previous = record->previous;
    set_scope(record, NULL);
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
    if (record == NULL || scope_of(record) != current_scope())
        return;
    unlink_record(record);
    drop_reference(record);
}

bool talc_scope_holds_alone(const talc_tensor *tensor)
{
    const tensor_record *record = (const tensor_record *)tensor;
    return scope_of(record) == current_scope() && atomic_load(&record->references) == 1 &&
           atomic_load(&tensor->storage->references) == 1;
}

talc_scope *talc_scope_enter(void)
{
    if (talc_failed())
        return NULL;
    scope_record *scope = talc_memory_new(sizeof *scope, "scope");
    if (scope == NULL)
        return NULL;
    scope->outer = current_scope();
    scope->handle = talc_handle_new();
    innermost = scope;
    return scope->handle;
}

/* The scope of that handle, when it is open on this thread. */
static scope_record *open_scope(const talc_scope *handle)
{
    scope_record *scope = handle == NULL ? NULL : innermost;
    while (scope != NULL && scope->handle != handle)
        scope = scope->outer;
    return scope;
}

bool talc_scope_holds(const talc_scope *handle, const talc_tensor *tensor)
{
    const scope_record *outermost = tensor == NULL ? NULL : open_scope(handle);
    const scope_record *scope = outermost == NULL ? NULL : innermost;
    while (scope != NULL) {
        for (const tensor_record *record = scope->first; record != NULL; record = record->next)
            if (&record->tensor == tensor)
                return true;
        scope = scope == outermost ? NULL : scope->outer;
    }
    return false;
}

static void drop_all(scope_record *scope)
{
    while (scope->first != NULL) {
        tensor_record *record = scope->first;
        unlink_record(record);
        drop_reference(record);
    }
}

/* Leaves the scopes inside `outer`, all before the first tensor is freed: a caller's release
 * function may use scopes too. */
static void leave_inside(scope_record *outer)
{
    scope_record *leaving = innermost;
    innermost = outer;
    while (leaving != outer) {
        scope_record *next = leaving->outer;
        drop_all(leaving);
        talc_memory_free(leaving);
        leaving = next;
    }
}

void talc_scope_leave(talc_scope *handle)
{
    const scope_record *scope = open_scope(handle);
    if (scope != NULL)
        leave_inside(scope->outer);
}

void talc_scope_leave_all(void)
{
    if (innermost == NULL)
        return;
    leave_inside(&root);
    drop_all(&root);
}

talc_tensor *talc_scope_return(talc_scope *handle, talc_tensor *tensor)
{
    const scope_record *scope = tensor == NULL ? NULL : open_scope(handle);
    if (scope == NULL)
        return tensor;
    /* From this thread's side, as another's scopes may end meanwhile. */
    tensor_record *record = (tensor_record *)tensor;
    const scope_record *holds = scope_of(record), *inner = innermost;
    while (inner != holds && inner != scope)
        inner = inner->outer;
    if (inner == holds) {
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
    /* With one reference left it is the scope's own, so nobody else holds the tensor and it leaves
     * the list here. */
    if (atomic_load(&record->references) == 1 && scope_of(record) != NULL)
        unlink_record(record);
    drop_reference(record);
}
