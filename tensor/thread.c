#include "tensor/thread.h"

#include "tensor/fenv.h"

#include <signal.h>

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
    const bool started = pthread_create(thread, NULL, body, argument) == 0;
    talc_fenv_leave(environment);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
