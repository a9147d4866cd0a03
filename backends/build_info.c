#include "backends/backends.h"

#include <cblas.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

talc_build talc_build_info(void)
{
    return (talc_build){ .version = TALC_VERSION,
                         .compiler = COMPILER,
                         .blas = openblas_get_config(),
                         .blas_core = openblas_get_corename() };
}
