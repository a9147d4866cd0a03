/// OpenBLAS itself: opened when a product is first asked for, and how many threads may be in it.
/// Private to backends/cpu.
///
/// A thread in OpenBLAS holds a buffer of 128 MiB of address space, which OpenBLAS keeps for the
/// next one; where the system has no room for it, OpenBLAS tries again for ever. So talc has
/// OpenBLAS take its buffers beforehand, one for each processor or as many as there is room for,
/// and lets only as many threads in. Other threads wait.
#ifndef TALC_BACKENDS_CPU_DEVICE_OPENBLAS_H
#define TALC_BACKENDS_CPU_DEVICE_OPENBLAS_H

#include <cblas.h>

#define TALC_OPENBLAS_FUNCTIONS(X)                                                                 \
    X(cblas_sgemm)                                                                                 \
    X(cblas_dgemm)                                                                                 \
    X(cblas_sgemv)                                                                                 \
    X(cblas_dgemv)                                                                                 \
    X(openblas_get_config)                                                                         \
    X(openblas_get_corename)                                                                       \
    X(openblas_get_num_threads)                                                                    \
    X(openblas_get_parallel)                                                                       \
    X(openblas_set_num_threads)

typedef struct talc_openblas_functions {
#define TALC_OPENBLAS_FIELD(name) __typeof__(name) *name;
    TALC_OPENBLAS_FUNCTIONS(TALC_OPENBLAS_FIELD)
#undef TALC_OPENBLAS_FIELD
} talc_openblas_functions;

/// Why OpenBLAS cannot be used; NULL when it can, and then for as long as the process lives. Opens
/// it where that has not been done. The text is static.
const char *talc_openblas_refuses(void);

/// Its functions, once talc_openblas_refuses has returned NULL.
const talc_openblas_functions *talc_openblas(void);

/// The processor whose kernels OpenBLAS had better run, as they have the vectors that talc uses;
/// NULL where it runs such. An OpenBLAS that is older than the processor does not know it by its
/// number. talc opens it for another processor then, unless OPENBLAS_CORETYPE says which; what the
/// program itself has opened stays as it is.
const char *talc_openblas_better_core(void);

/// How many threads may be in OpenBLAS at once; 0 while it is not open.
int talc_openblas_buffers(void);

/// Waits until this thread may call OpenBLAS, and ends that. Calls do not nest. talc divides work
/// into tasks itself, so that results do not depend on the number of threads: OpenBLAS's number of
/// threads, one setting for the process, is 1 while any thread is in it, for the program's own
/// calls too, and then what it was.
void talc_openblas_enter(void);
void talc_openblas_leave(void);

#endif
