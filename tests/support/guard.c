#include "tests/support/guard.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAND = 1024 };

static void store(unsigned char *at, talc_dtype dtype, double value)
{
    if (dtype == TALC_F32)
        memcpy(at, &(float){ (float)value }, sizeof(float));
    else
        memcpy(at, &value, sizeof value);
}

guarded guard_new(talc_device *device, talc_dtype dtype, talc_dims dims, const double *values,
                  int shift)
{
    const size_t size = talc_dtype_size(dtype);
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    const int64_t total = BAND + shift + count + BAND;
    guarded guard = { .begin = (size_t)(BAND + shift) * size,
                      .end = (size_t)(BAND + shift + count) * size };
    guard.image = malloc((size_t)total * size);
    cr_assert_not_null(guard.image);
    for (int64_t i = 0; i < total; i++)
        store(guard.image + (size_t)i * size, dtype, NAN);
    for (int64_t i = 0; i < count && values != NULL; i++)
        store(guard.image + guard.begin + (size_t)i * size, dtype, values[i]);
    guard.buffer = talc_from_host(device, dtype, TALC_DIMS(total), guard.image);
    guard.tensor =
        talc_view(talc_slice(guard.buffer, 0, BAND + shift, BAND + shift + count, 1), dims);
    cr_assert(guard.tensor != NULL, "guard: %s", talc_error_message());
    return guard;
}

bool guard_intact(const guarded *guard, bool constant)
{
    const size_t bytes = talc_nbytes(guard->buffer);
    unsigned char *now = malloc(bytes);
    cr_assert_not_null(now);
    cr_assert(talc_to_host(guard->buffer, now, bytes), "guard: %s", talc_error_message());
    const bool bands = memcmp(now, guard->image, guard->begin) == 0 &&
                       memcmp(now + guard->end, guard->image + guard->end, bytes - guard->end) == 0;
    const bool elements =
        memcmp(now + guard->begin, guard->image + guard->begin, guard->end - guard->begin) == 0;
    free(now);
    return bands && (elements || !constant);
}

void guard_free(guarded *guard)
{
    free(guard->image);
    guard->image = NULL;
}

double *host_doubles(const talc_tensor *tensor)
{
    const size_t count = (size_t)talc_numel(tensor);
    double *values = malloc(count * sizeof *values + 1);
    unsigned char *bytes = malloc(talc_nbytes(tensor) + 1);
    cr_assert(values != NULL && bytes != NULL);
    cr_assert(talc_to_host(tensor, bytes, talc_nbytes(tensor)), "to host: %s",
              talc_error_message());
    for (size_t i = 0; i < count; i++) {
        float single;
        if (tensor->dtype == TALC_F32) {
            memcpy(&single, bytes + i * sizeof single, sizeof single);
            values[i] = single;
        } else {
            memcpy(&values[i], bytes + i * sizeof *values, sizeof *values);
        }
    }
    free(bytes);
    return values;
}

void assert_values(const talc_tensor *y, const double *expected, double tolerance, const char *what)
{
    cr_assert(y != NULL && !talc_failed(), "%s: %s", what, talc_error_message());
    double *got = host_doubles(talc_cast(y, TALC_F64));
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert(got[i] == expected[i] || (isnan(got[i]) && isnan(expected[i])) ||
                      fabs(got[i] - expected[i]) <= tolerance * (1 + fabs(expected[i])),
                  "%s: element %d is %.17g instead of %.17g on %s", what, (int)i, got[i],
                  expected[i], talc_device_name(y->device));
    free(got);
}

void assert_near(const talc_tensor *y, const talc_tensor *expected, double tolerance,
                 const char *what)
{
    cr_assert(y != NULL && expected != NULL, "%s: %s", what, talc_error_message());
    cr_assert(talc_same_dims(y, expected), "%s: another shape", what);
    double *values = host_doubles(talc_cast(expected, TALC_F64));
    assert_values(y, values, tolerance, what);
    free(values);
}
