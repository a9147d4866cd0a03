#include "backends/cpu/primitives/processor.h"

#include "tensor/environment.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    const talc_cpu_microkernels *microkernels;
    int64_t cache_bytes;
} processor = { .once = PTHREAD_ONCE_INIT };

/* The microkernels of a generation; NULL where this machine cannot run them. */
static const talc_cpu_microkernels *microkernels_of(talc_vector_units units)
{
#if defined(__x86_64__)
    if (units == TALC_VECTORS_AVX512)
        return __builtin_cpu_supports("avx512f") ? &talc_cpu_microkernels_avx512 : NULL;
    if (units == TALC_VECTORS_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                   ? &talc_cpu_microkernels_avx2
                   : NULL;
#endif
    return units == TALC_VECTORS_PORTABLE ? &talc_cpu_microkernels_portable : NULL;
}

static void detect(void)
{
    const talc_vector_units wanted = talc_environment()->cpu;
    if (wanted != TALC_VECTORS_BEST)
        processor.microkernels = microkernels_of(wanted);
    if (wanted != TALC_VECTORS_BEST && processor.microkernels == NULL)
        talc_environment_warn("TALC_CPU", wanted == TALC_VECTORS_AVX512 ? "avx512" : "avx2",
                              "this processor does not have it");
    for (talc_vector_units units = TALC_VECTORS_AVX512; processor.microkernels == NULL; units--)
        processor.microkernels = microkernels_of(units);
#if defined(_SC_LEVEL2_CACHE_SIZE)
    if (wanted != TALC_VECTORS_PORTABLE)
        processor.cache_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    if (processor.cache_bytes <= 0)
        processor.cache_bytes = 1 << 20;
}

const talc_cpu_microkernels *talc_cpu_microkernels_used(void)
{
    pthread_once(&processor.once, detect);
    return processor.microkernels;
}

const talc_cpu_microkernels *talc_cpu_microkernels_named(const char *name)
{
    static const talc_cpu_microkernels *const all[] = {
        &talc_cpu_microkernels_portable,
#if defined(__x86_64__)
        &talc_cpu_microkernels_avx2,
        &talc_cpu_microkernels_avx512,
#endif
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const talc_cpu_kernels *talc_cpu_kernels_of(talc_dtype dtype)
{
    const talc_cpu_microkernels *microkernels = talc_cpu_microkernels_used();
    return dtype == TALC_F64 ? &microkernels->f64 : &microkernels->f32;
}

int64_t talc_cpu_cache_bytes(void)
{
    pthread_once(&processor.once, detect);
    return processor.cache_bytes;
}
