/// Threads of the library's own. Private to talc.
#ifndef TALC_TENSOR_THREAD_H
#define TALC_TENSOR_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/// Starts a thread that no signal of the program comes to, only what its own instructions raise
/// (SIGSEGV, SIGBUS, SIGFPE, SIGILL), and that computes in the default floating-point environment,
/// whatever the calling thread has set. False when there is none to be had.
bool talc_thread_start(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
