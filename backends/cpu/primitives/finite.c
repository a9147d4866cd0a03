#include "backends/cpu/primitives/finite.h"

#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/target.h"

/* Whether there is an x[i] of which `condition` holds. All are looked at, in vectors. */
#define FIND(name, suffix, T, condition)                                                           \
    TALC_TARGET_CLONES                                                                             \
    static bool name##_##suffix(const T *x, int64_t count)                                         \
    {                                                                                              \
        int found = 0;                                                                             \
        for (int64_t i = 0; i < count; i++)                                                        \
            found |= condition;                                                                    \
        return found != 0;                                                                         \
    }

#define HAS_NOT_FINITE(constant, suffix, T, A) FIND(has_not_finite, suffix, T, x[i] - x[i] != 0)
#define HAS_NAN(constant, suffix, T, A)        FIND(has_nan, suffix, T, x[i] != x[i])

TALC_CPU_FLOATS(HAS_NOT_FINITE)
TALC_CPU_FLOATS(HAS_NAN)

bool talc_cpu_all_finite(talc_dtype dtype, const void *x, int64_t count)
{
    return !TALC_CPU_VALUE(dtype, has_not_finite, (x, count));
}

bool talc_cpu_has_nan(talc_dtype dtype, const void *x, int64_t count)
{
    return TALC_CPU_VALUE(dtype, has_nan, (x, count));
}
