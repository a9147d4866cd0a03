/// Devices by name. The one place where programs meet backends.
///
///     talc_device *device = talc_device_get("cuda:1");
///     if (device == NULL)
///         fprintf(stderr, "%s\n", talc_error_message());      // says what is missing
#ifndef TALC_BACKENDS_BACKENDS_H
#define TALC_BACKENDS_BACKENDS_H

#include "../tensor/device.h"

TALC_BEGIN_DECLARATIONS

/// The device of that name: "cpu", "cuda" (the first GPU), "cuda:1". Devices live as long as the
/// process, or until talc_device_close; one that was closed is opened again. NULL, with
/// TALC_BAD_DEVICE and a message that says what is missing, when there is none; with
/// TALC_DEVICE_LOST when a fault has ended it.
TALC_API talc_device *talc_device_get(const char *name);

/// The device named by TALC_DEVICE when that exists; without TALC_DEVICE the first GPU when there
/// is one. Else the CPU. NULL, with TALC_NO_MEMORY, where there is none to open that. Raises
/// nothing else, and gives a GPU that a fault has ended too, which says so when it is used.
TALC_API talc_device *talc_device_default(void);

/// How many threads the CPU computes with: TALC_THREADS, else one for each processor the process
/// may use. Threads that talc starts take none of the program's signals. Every thread, the caller's
/// too, computes in the default floating-point environment, so that a caller who flushes denormals
/// or rounds another way gets the same bits; the caller's own stands again behind each call.
TALC_API int talc_threads(void);

/// Sets it, 1 .. 1024. Results do not depend on it. Waits for running work; not to be called within
/// a piece of work.
TALC_API bool talc_set_threads(int threads);

/// What this talc was built with, and what OpenBLAS, which this opens, is on this machine. The
/// texts are static.
typedef struct talc_build {
    const char *version;   ///< of talc: "0.1.0"
    const char *compiler;  ///< "gcc 12.2.0"
    const char *vectors;   ///< instructions of the CPU's convolution: "portable", "avx2", "avx512"
    const char *blas;      ///< OpenBLAS's version and options, or why it cannot be used
    const char *blas_core; ///< the processor that its kernels are for: "SkylakeX"; "none"
    /// How many threads it multiplies for at once. It holds 128 MiB of address space for each,
    /// little of it as memory.
    int blas_buffers;
} talc_build;

TALC_API talc_build talc_build_info(void);

TALC_END_DECLARATIONS

#endif
