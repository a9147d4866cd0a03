/// Threads that use GPUs, and the end of the process. Private to backends/cuda.
///
/// CUDA's libraries end with the process whoever is in them, so the thread that ends it first sees
/// to it that no other is, as far as that can be waited for, and that none comes in any more.
#ifndef TALC_BACKENDS_CUDA_USERS_H
#define TALC_BACKENDS_CUDA_USERS_H

#include "tensor/api.h"

TALC_BEGIN_DECLARATIONS

/// Counts the calling thread, until its end. Called before it looks whether it is late.
void talc_cuda_user_count(void);

/// Whether another thread ends the process: then the calling one makes no call of CUDA any more.
bool talc_cuda_user_late(void);

/// The calling thread ends the process. How many others have used a GPU and live.
int talc_cuda_users_end(void);

/// Waits until each of these has found itself late, for a while: one that idles does not look.
void talc_cuda_users_await(void);

TALC_END_DECLARATIONS

#endif
