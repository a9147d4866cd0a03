#include "backends/cpu/primitives/finite.h"

#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/target.h"

#define ALL_FINITE(constant, suffix, T, A)                                                         \
    TALC_TARGET_CLONES                                                                             \
    static bool all_finite_##suffix(const T *x, int64_t count)                                     \
    {                                                                                              \
        int found = 0;                                                                             \
        for (int64_t i = 0; i < count; i++)                                                        \
            found |= x[i] - x[i] != 0;                                                             \
        return found == 0;                                                                         \
    }

TALC_CPU_FLOATS(ALL_FINITE)

bool talc_cpu_all_finite(talc_dtype dtype, const void *x, int64_t count)
{
    return TALC_CPU_VALUE(dtype, all_finite, (x, count));
}
