/// Devices by name. The one place where programs meet backends.
///
///     talc_device *device = talc_device_get("cuda:1");
///     if (device == NULL)
///         fprintf(stderr, "%s\n", talc_error_message());      // says what is missing
#ifndef TALC_BACKENDS_BACKENDS_H
#define TALC_BACKENDS_BACKENDS_H

#include "../ops/own_algorithm.h"
#include "../ops/owner_map.h"
#include "../tensor/device.h"

TALC_BEGIN_DECLARATIONS

/// The device of that name: "cpu", "cuda" (the first GPU), "cuda:1". Devices live as long as the
/// process, or until talc_device_close; one that was closed is opened again. NULL, with
/// TALC_BAD_DEVICE and a message that says what is missing, when there is none; with
/// TALC_DEVICE_LOST when a fault has ended it.
TALC_API talc_device *talc_device_get(const char *name);

/// The device named by TALC_DEVICE when that exists; without TALC_DEVICE the first GPU when there
/// is one, and the LOCAL_RANK-th for one of several processes that a launcher has started on this
/// host. Else the CPU. NULL, with TALC_NO_MEMORY, where there is none to open that, and with
/// TALC_BAD_DEVICE where LOCAL_RANK is past the GPUs. Raises nothing else, and gives a GPU that a
/// fault has ended too, which says so when it is used.
TALC_API talc_device *talc_device_default(void);

/// Adds an algorithm for as long as the process lives. What `own` says is copied, its texts too;
/// its functions have to stay, so that a shared object with them is never closed. Any thread may
/// call it while others compute: a call that has chosen already runs what it chose. `op` is the
/// name of a list: "conv2d", "pool2d", "softmax", as `talc ops` prints them. Errors: NULL, another
/// version, an op or a device that does not exist, structs of another size, no name, `plan`, `run`
/// or text of its arithmetic, more than one precision class, a name or a form with a character
/// other than letters, digits and _ (in a form also space and -), name(form) of more than 63
/// characters, a name that the backend has, or that was registered with the same form and class; a
/// list that is full (TALC_MAX_ALGORITHMS), no memory. The list is then as before.
///
/// `plan` and `run` may raise a failure by talc_fail; a `run` that returns a status other than
/// TALC_OK and raises none has one raised for it.
TALC_API bool talc_algorithm_register(const char *op, const talc_own_algorithm *own);

/// The convolutions of a backend, "cpu" or "cuda", also of one that this talc was built without,
/// with what they tell of who computes what (ops/owner_map.h); ended by one without a name. NULL,
/// with a failure, for another backend.
TALC_API const talc_mapped_algorithm *talc_mapped_algorithms(const char *backend);

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
    /// The one whose kernels would have the vectors that those lack; NULL where they have them. Set
    /// in OPENBLAS_CORETYPE, or by talc unless the program itself has opened OpenBLAS.
    const char *blas_better_core;
    /// How many threads it multiplies for at once. It holds 128 MiB of address space for each,
    /// little of it as memory.
    int blas_buffers;
} talc_build;

TALC_API talc_build talc_build_info(void);

TALC_END_DECLARATIONS

#endif
