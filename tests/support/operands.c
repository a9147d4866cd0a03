#include "tests/support/operands.h"

#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double unit_roundoff(talc_dtype dtype)
{
    return dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
}

double ulps(talc_dtype dtype, double got, long double expected)
{
    if (expected == 0)
        return got == 0 ? 0 : INFINITY;
    const int digits = dtype == TALC_F32 ? 24 : 53, min = dtype == TALC_F32 ? -149 : -1074;
    int exponent;
    (void)frexpl(expected, &exponent);
    const int last = exponent - digits;
    return (double)(fabsl((long double)got - expected) / ldexpl(1, last < min ? min : last));
}

/* Marsaglia's xorshift64*, started away from 0. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static void random_element(talc_dtype dtype, void *elements, int64_t i, uint64_t random)
{
    if (dtype == TALC_F32)
        ((float *)elements)[i] = (float)(random >> 40) * 0x1p-23f - 1;
    else if (dtype == TALC_F64)
        ((double *)elements)[i] = (double)(random >> 11) * 0x1p-52 - 1;
    else
        memcpy((char *)elements + (size_t)i * talc_dtype_size(dtype), &random,
               talc_dtype_size(dtype));
}

talc_tensor *random_operand(talc_dtype dtype, talc_dims dims, uint64_t seed)
{
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    void *elements = malloc((size_t)count * talc_dtype_size(dtype) + 1);
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int64_t i = 0; i < count; i++)
        random_element(dtype, elements, i, next_random(&state));
    talc_tensor *tensor = talc_from_host(cpu_device(), dtype, dims, elements);
    free(elements);
    return tensor;
}

talc_tensor *random_view(int kind, talc_dtype dtype, talc_dims dims, uint64_t seed)
{
    talc_dims stored = dims, axes = dims;
    for (int i = 0; i < dims.rank; i++) {
        axes.dim[i] = dims.rank - 1 - i;
        stored.dim[i] = kind == VIEW_TRANSPOSED ? dims.dim[dims.rank - 1 - i]
                        : kind == VIEW_STEPPED  ? 2 * dims.dim[i]
                        : kind == VIEW_OFFSET   ? dims.dim[i] + 2
                                                : dims.dim[i];
    }
    talc_tensor *tensor = random_operand(dtype, stored, seed);
    if (kind == VIEW_TRANSPOSED)
        return talc_permute(tensor, axes);
    for (int i = 0; i < dims.rank && kind != VIEW_PACKED; i++)
        tensor = kind == VIEW_STEPPED ? talc_slice(tensor, i, 1, TALC_END, 2)
                                      : talc_slice(tensor, i, 1, 1 + dims.dim[i], 1);
    return tensor;
}

static const char *address(const talc_tensor *tensor, int64_t element)
{
    int64_t offset = 0;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        offset += element % tensor->dims[i] * tensor->strides[i];
        element /= tensor->dims[i];
    }
    return (const char *)tensor->data + offset * (int64_t)talc_dtype_size(tensor->dtype);
}

double element_at(const talc_tensor *tensor, int64_t element)
{
    const void *at = address(tensor, element);
    if (tensor->dtype == TALC_F32)
        return (double)*(const float *)at;
    if (tensor->dtype == TALC_F64)
        return *(const double *)at;
    return (double)integer_at(tensor, element);
}

int64_t integer_at(const talc_tensor *tensor, int64_t element)
{
    const void *at = address(tensor, element);
    return tensor->dtype == TALC_I64   ? *(const int64_t *)at
           : tensor->dtype == TALC_I32 ? *(const int32_t *)at
                                       : *(const uint8_t *)at;
}

bool same_bits(const talc_tensor *a, const talc_tensor *b)
{
    if (a == NULL || b == NULL || a->dtype != b->dtype || !talc_same_dims(a, b))
        return false;
    for (int64_t i = 0; i < talc_numel(a); i++)
        if (memcmp(address(a, i), address(b, i), talc_dtype_size(a->dtype)) != 0)
            return false;
    return true;
}

talc_tensor *on_host(const talc_tensor *x)
{
    return talc_to(x, cpu_device(), x->dtype);
}

uint64_t fingerprint(const talc_tensor *tensor)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (int64_t i = 0; i < talc_numel(tensor); i++)
        for (size_t byte = 0; byte < talc_dtype_size(tensor->dtype); byte++)
            hash = (hash ^ (unsigned char)address(tensor, i)[byte]) * UINT64_C(1099511628211);
    return hash;
}
