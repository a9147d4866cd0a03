#include "backends/backends.h"

#include "backends/cpu/device/openblas.h"
#include "backends/cpu/primitives/processor.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

talc_build talc_build_info(void)
{
    const char *missing = talc_openblas_refuses();
    return (talc_build){ .version = TALC_VERSION,
                         .compiler = COMPILER,
                         .vectors = talc_cpu_microkernels_used()->name,
                         .blas = missing != NULL ? missing : talc_openblas()->openblas_get_config(),
                         .blas_core =
                             missing != NULL ? "none" : talc_openblas()->openblas_get_corename(),
                         .blas_better_core = missing != NULL ? NULL : talc_openblas_better_core(),
                         .blas_buffers = talc_openblas_buffers() };
}
