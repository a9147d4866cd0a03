/// Exact numbers for tests whose expected values were computed elsewhere: element i of tensor t is
/// a small multiple of a power of two, the same in every language.
#ifndef TALC_TESTS_PATTERN_H
#define TALC_TESTS_PATTERN_H

#include "talc.h"

/// ((7 i + 3 t + 5 floor(i / 13)) mod 29 - 14) / scale + offset
static inline double pattern_element(int64_t i, int64_t t, double scale, double offset)
{
    return (double)((i * 7 + t * 3 + i / 13 * 5) % 29 - 14) / scale + offset;
}

/// Overwrites a tensor of up to 65,536 elements with the pattern.
static inline bool pattern_fill(talc_tensor *tensor, int64_t t, double scale, double offset)
{
    static _Thread_local double values[65536];
    for (int64_t i = 0; i < talc_numel(tensor); i++)
        values[i] = pattern_element(i, t, scale, offset);
    return talc_copy(tensor,
                     talc_from_host(tensor->device, TALC_F64, talc_dims_of(tensor), values));
}

static inline talc_tensor *pattern_new(talc_dtype dtype, talc_dims dims, int64_t t, double scale)
{
    talc_tensor *tensor = talc_empty(talc_device_host(), dtype, dims);
    return tensor != NULL && pattern_fill(tensor, t, scale, 0) ? tensor : NULL;
}

#endif
