#include "nn/pass.h"

#include "nn/entries.h"

#include <pthread.h>

/* A root's `passes`: the generation of its numbers, whether a change waits for the passes and
 * whether it is under way, and how many threads are in a pass. A thread that is in a pass through
 * another tree enters while a change waits: what it holds, another change may wait for, whose
 * passes want this tree. A child of fork has a generation of its own, since it lacks the threads
 * that its parent counted. */
enum { GENERATION_SHIFT = 32 };
static const uint64_t CHANGING = UINT64_C(1) << 31, WAITING = UINT64_C(1) << 30,
                      COUNT = (UINT64_C(1) << 30) - 1;

static uint32_t generation;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* that a pass or a change has ended */

static _Thread_local talc_pass *innermost;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    generation++;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* nobody waits */
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static bool is_of_now(uint64_t passes)
{
    return (uint32_t)(passes >> GENERATION_SHIFT) == generation;
}

/* With the lock held. Who counts itself meanwhile sees the old generation, and does it again. */
static void begin_generation(struct talc_module_entries *root)
{
    if (!is_of_now(atomic_load(&root->passes)))
        atomic_store(&root->passes, (uint64_t)generation << GENERATION_SHIFT);
}

static struct talc_module_entries *root_of(const talc_module *module)
{
    while (module->entries->parent != NULL)
        module = module->entries->parent;
    return module->entries;
}

/* This thread's outermost pass through a tree; NULL: it is in none. */
static talc_pass *pass_through(const struct talc_module_entries *root)
{
    talc_pass *pass = innermost;
    while (pass != NULL && !(pass->root == root && pass->counted))
        pass = pass->outer;
    return pass;
}

static void leave(struct talc_module_entries *root)
{
    if ((atomic_fetch_sub(&root->passes, 1) & (CHANGING | WAITING)) == 0)
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Counts this thread in; `within`: it is in a pass through another tree. */
static void enter(struct talc_module_entries *root, bool within)
{
    const uint64_t shut = within ? CHANGING : CHANGING | WAITING;
    for (;;) {
        const uint64_t was = atomic_fetch_add(&root->passes, 1);
        const bool now = is_of_now(was);
        if (now && (was & shut) == 0)
            return;
        if (now)
            leave(root);
        pthread_mutex_lock(&lock);
        begin_generation(root);
        while ((atomic_load(&root->passes) & shut) != 0)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
}

bool talc_pass_through(const talc_module *module)
{
    return innermost != NULL && pass_through(root_of(module)) != NULL;
}

void talc_pass_begin(talc_pass *pass, const talc_module *module)
{
    struct talc_module_entries *root = root_of(module);
    *pass = (talc_pass){ innermost, root, generation, pass_through(root) == NULL };
    if (pass->counted)
        enter(root, innermost != NULL);
    innermost = pass;
}

void talc_pass_end(const talc_pass *pass)
{
    innermost = pass->outer;
    if (pass->counted && pass->generation == generation)
        leave(pass->root);
}

/* Counts this thread out of the passes that it is in. Were it counted while its change waits, two
 * threads in a pass each, that change each other's trees, would wait for ever. */
static void pause_passes(void)
{
    for (talc_pass *pass = innermost; pass != NULL; pass = pass->outer)
        if (pass->counted && pass->generation == generation)
            leave(pass->root);
}

static void resume_passes(void)
{
    for (talc_pass *pass = innermost; pass != NULL; pass = pass->outer)
        if (pass->counted) {
            enter(pass->root, true);
            pass->generation = generation;
        }
}

void talc_change_begin(const talc_module *module)
{
    struct talc_module_entries *root = root_of(module);
    pause_passes();
    pthread_mutex_lock(&lock);
    begin_generation(root);
    while ((atomic_load(&root->passes) & (CHANGING | WAITING)) != 0)
        pthread_cond_wait(&changed, &lock);
    atomic_fetch_or(&root->passes, WAITING);
    uint64_t was;
    do {
        while (((was = atomic_load(&root->passes)) & COUNT) != 0)
            pthread_cond_wait(&changed, &lock);
    } while (!atomic_compare_exchange_strong(&root->passes, &was, was | CHANGING));
    pthread_mutex_unlock(&lock);
}

void talc_change_end(const talc_module *module)
{
    struct talc_module_entries *root = root_of(module);
    pthread_mutex_lock(&lock);
    atomic_fetch_and(&root->passes, ~(CHANGING | WAITING));
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    resume_passes();
}
