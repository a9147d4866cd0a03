#include "tensor/thread.h"

#include "tensor/fenv.h"

#include <signal.h>

#if defined(__SANITIZE_ADDRESS__)
#include <semaphore.h>

/* As a thread begins, AddressSanitizer allocates memory for it. If its creator forked meanwhile,
 * the child would find the allocator locked for ever. So the creator waits until that is over. */
typedef struct beginning {
    void *(*body)(void *);
    void *argument;
    sem_t begun;
} beginning;

static void *begin(void *argument)
{
    beginning *b = argument;
    void *(*const body)(void *) = b->body;
    void *const of_body = b->argument;
    (void)sem_post(&b->begun);
    return body(of_body);
}

static int create(pthread_t *thread, void *(*body)(void *), void *argument)
{
    beginning b = { .body = body, .argument = argument };
    (void)sem_init(&b.begun, 0, 0);
    const int error = pthread_create(thread, NULL, begin, &b);
    while (error == 0 && sem_wait(&b.begun) != 0)
        continue;
    (void)sem_destroy(&b.begun);
    return error;
}
#else
static int create(pthread_t *thread, void *(*body)(void *), void *argument)
{
    return pthread_create(thread, NULL, body, argument);
}
#endif

/* A thread begins with the signal mask and the floating-point environment of the one that makes it.
 * */
bool talc_thread_start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    sigset_t others, before;
    (void)sigfillset(&others);
    for (int i = 0; i < (int)(sizeof own / sizeof *own); i++)
        (void)sigdelset(&others, own[i]);
    (void)pthread_sigmask(SIG_SETMASK, &others, &before);
    const talc_fenv environment = talc_fenv_enter();
    const bool started = create(thread, body, argument) == 0;
    talc_fenv_leave(environment);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
