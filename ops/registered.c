#include "ops/registered.h"

#include "ops/ops.h"
#include "ops/update.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static const char *const WHO = "algorithm_register";

/* A list of an op with own algorithms before those of the backend. One that a longer one has taken
 * the place of stays: another thread may be choosing from it, and what was chosen points into it.
 * As a decision is remembered with the list that it was made from, none outlives its list. */
typedef struct own_list {
    struct own_list *before; /* shorter; NULL: none */
    int own;                 /* how many of the algorithms were registered */
    talc_algorithm algorithms[];
} own_list;

/* The CPU, CUDA, and what tests bring. */
enum { MAX_BACKENDS = 4 };

static struct {
    const talc_backend *backend;
    _Atomic(own_list *) lists[TALC_OP_COUNT];
} backends[MAX_BACKENDS];
static atomic_int backend_count;

/* Held by whoever registers; who reads takes no lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
    const char *name;
    size_t problem_bytes, arguments_bytes;
} ops[] = {
#define TALC_OP(op, names, operands)                                                               \
    [TALC_OP_##op] = { #op, sizeof(talc_##op##_problem), sizeof(talc_##op##_arguments) },
#include "ops/ops.def"
};

static own_list *list_of(const talc_backend *backend, int op)
{
    const int count = atomic_load_explicit(&backend_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (backends[i].backend == backend)
            return atomic_load_explicit(&backends[i].lists[op], memory_order_acquire);
    return NULL;
}

const talc_algorithm *talc_backend_algorithms(const talc_backend *backend, talc_op op)
{
    const own_list *list = list_of(backend, op);
    return list != NULL ? list->algorithms : backend->algorithms[op];
}

// ---- What is refused ----------------------------------------------------------------------------

bool talc_registered_known(const char *op, const talc_own_algorithm *own)
{
    if (talc_operand_missing(WHO, "op", op) || talc_operand_missing(WHO, "own", own))
        return false;
    if (own->version != TALC_OWN_ALGORITHM_VERSION)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: talc_own_algorithm is of version %d, this talc has version %d", WHO,
                  own->version, TALC_OWN_ALGORITHM_VERSION);
    return own->version == TALC_OWN_ALGORITHM_VERSION;
}

static int op_of(const char *name)
{
    char names[512] = "";
    size_t used = 0;
    for (int op = 0; op < TALC_OP_COUNT; op++) {
        if (strcmp(ops[op].name, name) == 0)
            return op;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", op > 0 ? ", " : "",
                                 ops[op].name);
    }
    talc_fail(TALC_NOT_FOUND, "%s: there is no op '%s'; there are %s", WHO, TALC_SHOWN(name),
              names);
    return -1;
}

static bool size_fits(int op, const char *what, size_t got, size_t expected)
{
    if (got != expected)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: %s of %s has %zu bytes, in this talc %zu; it was compiled for another", WHO,
                  what, ops[op].name, got, expected);
    return got == expected;
}

static bool is_text(const char *text, const char *further)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (; *text != '\0'; text++)
        if (strchr(plain, *text) == NULL && strchr(further, *text) == NULL)
            return false;
    return true;
}

/* What is missing or wrong with an algorithm by itself. */
static const char *fault_of(const talc_algorithm *a)
{
    if (a->name == NULL || *a->name == '\0')
        return "it has no name";
    if (!is_text(a->name, "") || (a->form != NULL && !is_text(a->form, " -")))
        return "a name has letters, digits and _, a form also spaces and -";
    if (a->form != NULL && *a->form == '\0')
        return "its form is empty; NULL is none";
    if (strlen(a->name) + (a->form == NULL ? 0 : strlen(a->form) + 2) >= TALC_ALGORITHM_TEXT)
        return "name(form) has more than 63 characters";
    if (a->plan == NULL || a->run == NULL)
        return "it has no function 'plan' or no 'run'";
    if (a->arithmetic.text == NULL)
        return "its arithmetic has no text";
    if (a->arithmetic.precision != TALC_STRICT && a->arithmetic.precision != TALC_NORMWISE &&
        a->arithmetic.precision != TALC_TF32)
        return "its arithmetic is not of one precision class";
    return NULL;
}

static bool is_whole(int op, const talc_own_algorithm *own)
{
    const talc_algorithm *a = &own->algorithm;
    if (!size_fits(op, "talc_plan", own->plan_bytes, sizeof(talc_plan)) ||
        !size_fits(op, "the problem", own->problem_bytes, ops[op].problem_bytes) ||
        !size_fits(op, "the arguments' struct", own->arguments_bytes, ops[op].arguments_bytes))
        return false;
    const char *fault = fault_of(a);
    if (fault != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: algorithm '%s' of %s: %s", WHO,
                  a->name == NULL ? "" : TALC_SHOWN(a->name), ops[op].name, fault);
    return fault == NULL;
}

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Algorithms of one name that are chosen among as one: a program's may not be among a backend's. */
static bool clashes(const talc_algorithm *a, const talc_algorithm *with, bool is_own)
{
    return strcmp(a->name, with->name) == 0 &&
           (!is_own || (is_same(a->form, with->form) &&
                        a->arithmetic.precision == with->arithmetic.precision));
}

/* How many algorithms a list has; -1, with a failure, where one more may not join them. */
static int count_others(const talc_backend *backend, int op, const own_list *list,
                        const talc_algorithm *a)
{
    const talc_algorithm *others = list != NULL ? list->algorithms : backend->algorithms[op];
    int count = 0;
    for (; others != NULL && others[count].name != NULL; count++) {
        const bool is_own = list != NULL && count < list->own;
        char text[TALC_ALGORITHM_TEXT];
        if (!clashes(a, &others[count], is_own))
            continue;
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s on %s has an algorithm '%s' already%s", WHO,
                  ops[op].name, backend->name, talc_algorithm_text(&others[count], text),
                  is_own ? "" : ", of the library");
        return -1;
    }
    if (count < TALC_MAX_ALGORITHMS)
        return count;
    talc_fail(TALC_UNSUPPORTED, "%s: %s on %s has %d algorithms, the most there may be", WHO,
              ops[op].name, backend->name, count);
    return -1;
}

// ---- Adding -------------------------------------------------------------------------------------

/* Copies a text behind a list, from `*to` on. */
static const char *copied(char **to, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = *to;
    memcpy(copy, text, strlen(text) + 1);
    *to += strlen(text) + 1;
    return copy;
}

static own_list *longer(const talc_algorithm *a, own_list *before, const talc_algorithm *others,
                        int count)
{
    const size_t list_bytes = sizeof(own_list) + ((size_t)count + 2) * sizeof *others;
    const size_t text_bytes =
        strlen(a->name) + strlen(a->arithmetic.text) + (a->form == NULL ? 0 : strlen(a->form)) + 3;
    own_list *list = talc_memory_new(list_bytes + text_bytes, WHO);
    if (list == NULL)
        return NULL;
    char *texts = (char *)list + list_bytes;
    list->before = before;
    list->own = before == NULL ? 1 : before->own + 1;
    list->algorithms[0] = *a;
    list->algorithms[0].name = copied(&texts, a->name);
    list->algorithms[0].form = copied(&texts, a->form);
    list->algorithms[0].arithmetic.text = copied(&texts, a->arithmetic.text);
    if (count > 0)
        memcpy(list->algorithms + 1, others, (size_t)count * sizeof *others);
    return list;
}

static int place_of(const talc_backend *backend)
{
    const int count = atomic_load(&backend_count);
    for (int i = 0; i < count; i++)
        if (backends[i].backend == backend)
            return i;
    if (count == MAX_BACKENDS) {
        talc_fail(TALC_UNSUPPORTED, "%s: there are more than %d backends", WHO, MAX_BACKENDS);
        return -1;
    }
    backends[count].backend = backend;
    atomic_store_explicit(&backend_count, count + 1, memory_order_release);
    return count;
}

static bool add_locked(const talc_backend *backend, int op, const talc_algorithm *a)
{
    own_list *before = list_of(backend, op);
    const int count = count_others(backend, op, before, a);
    const int place = count < 0 ? -1 : place_of(backend);
    own_list *list =
        place < 0 ? NULL
                  : longer(a, before, before != NULL ? before->algorithms : backend->algorithms[op],
                           count);
    if (list != NULL)
        atomic_store_explicit(&backends[place].lists[op], list, memory_order_release);
    return list != NULL;
}

bool talc_registered_add(const talc_backend *backend, const char *op, const talc_own_algorithm *own)
{
    const int index = op_of(op);
    if (index < 0 || !is_whole(index, own))
        return false;
    pthread_mutex_lock(&lock);
    const bool added = add_locked(backend, index, &own->algorithm);
    pthread_mutex_unlock(&lock);
    return added;
}
