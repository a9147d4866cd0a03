#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 5;

static int64_t draw(int64_t below)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

// ---- Casts: each target's rule, written for one value of the widest source types ----------------

typedef struct value {
    bool is_float;
    double f;
    int64_t i;
} value;

static value load(talc_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case TALC_F32:
        return (value){ true, (double)((const float *)data)[at], 0 };
    case TALC_F64:
        return (value){ true, ((const double *)data)[at], 0 };
    case TALC_I64:
        return (value){ false, 0, ((const int64_t *)data)[at] };
    case TALC_I32:
        return (value){ false, 0, ((const int32_t *)data)[at] };
    default:
        return (value){ false, 0, ((const uint8_t *)data)[at] };
    }
}

static int64_t whole(value v, int64_t low, int64_t high)
{
    if (!v.is_float)
        return v.i < low ? low : v.i > high ? high : v.i;
    if (isnan(v.f))
        return 0;
    if (v.f <= (double)low)
        return low;
    return v.f >= (double)high ? high : (int64_t)trunc(v.f);
}

static void store(talc_dtype dtype, void *data, int64_t at, value v)
{
    switch (dtype) {
    case TALC_F32:
        ((float *)data)[at] = v.is_float ? (float)v.f : (float)v.i;
        break;
    case TALC_F64:
        ((double *)data)[at] = v.is_float ? v.f : (double)v.i;
        break;
    case TALC_I64:
        ((int64_t *)data)[at] = whole(v, INT64_MIN, INT64_MAX);
        break;
    case TALC_I32:
        ((int32_t *)data)[at] = (int32_t)whole(v, INT32_MIN, INT32_MAX);
        break;
    default:
        ((uint8_t *)data)[at] = (uint8_t)whole(v, 0, UINT8_MAX);
    }
}

static bool same(talc_dtype dtype, const void *a, const void *b, int64_t at)
{
    const value x = load(dtype, a, at), y = load(dtype, b, at);
    return x.is_float ? x.f == y.f || (isnan(x.f) && isnan(y.f)) : x.i == y.i;
}

enum { EDGES = 26 };

static int64_t edges(talc_dtype dtype, void *data)
{
    static const double floats[] = { 0,         -0.0,        0.5,     -0.5,    1.9,    -1.9,
                                     127.5,     255,         255.9,   256,     -1,     NAN,
                                     INFINITY,  -INFINITY,   0x1p31,  -0x1p31, 0x1p32, 0x1p63,
                                     -0x1p63,   0x1p64,      -0x1p64, 1e300,   -1e300, 1e-320,
                                     16777217., 2147483647.5 };
    // clang-format off
    static const int64_t integers[] = {
        0,                       1,
        -1,                      127,
        255,                     256,
        -256,                    INT32_MAX,
        INT32_MIN,               INT64_C(1) + INT32_MAX,
        INT64_C(-1) + INT32_MIN, INT64_MAX,
        INT64_MIN,               (1 << 24) + 1,
        (INT64_C(1) << 53) + 1,  (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1,
    };
    // clang-format on
    const bool is_float = talc_dtype_is_float(dtype);
    const int64_t count = is_float ? (int64_t)(sizeof floats / sizeof *floats)
                                   : (int64_t)(sizeof integers / sizeof *integers);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == TALC_F32)
            ((float *)data)[i] = (float)floats[i];
        else if (is_float)
            ((double *)data)[i] = floats[i];
        else if (dtype == TALC_I64)
            ((int64_t *)data)[i] = integers[i];
        else if (dtype == TALC_I32)
            ((int32_t *)data)[i] = (int32_t)integers[i];
        else
            ((uint8_t *)data)[i] = (uint8_t)integers[i];
    }
    return count;
}

Test(copy, all_casts_of_edge_values)
{
    for (int s = 0; s < TALC_DTYPE_COUNT; s++)
        for (int d = 0; d < TALC_DTYPE_COUNT; d++) {
            const talc_dtype from = (talc_dtype)s, to = (talc_dtype)d;
            double source[EDGES], expected[EDGES];
            const int64_t count = edges(from, source);
            for (int64_t i = 0; i < count; i++)
                store(to, expected, i, load(from, source, i));
            talc_tensor *x = talc_from_host(cpu_device(), from, TALC_DIMS(count), source);
            talc_tensor *y = talc_cast(x, to);
            talc_tensor *z = talc_zeros(cpu_device(), to, TALC_DIMS(count));
            cr_assert(talc_copy(z, x));
            assert_no_failure();
            cr_assert((y->storage == x->storage) == (s == d));
            for (int64_t i = 0; i < count; i++)
                cr_assert(same(to, y->data, expected, i) && same(to, z->data, expected, i),
                          "%s to %s, value %d: %.17g, %lld", talc_dtype_name(from),
                          talc_dtype_name(to), (int)i, load(to, y->data, i).f,
                          (long long)load(to, y->data, i).i);
        }
    const float zero = -0.0F;
    cr_assert(signbit(talc_item(talc_from_host(cpu_device(), TALC_F32, TALC_SCALAR, &zero))));
}

// ---- Strided copies -----------------------------------------------------------------------------

/* A random view of `base`; `writable` leaves out expansion. */
static talc_tensor *draw_view(talc_tensor *base, bool writable)
{
    talc_tensor *t = base;
    for (int i = 0; i < 4; i++) {
        const int kind = (int)draw(4);
        if (kind == 0 && t->rank > 1)
            t = talc_transpose(t, (int)draw(t->rank), (int)draw(t->rank));
        else if (kind == 1) {
            const int dim = (int)draw(t->rank);
            t = talc_slice(t, dim, draw(1 + t->dims[dim] / 2), TALC_END, 1 + draw(3));
        } else if (kind == 2 && t->rank > 1)
            t = talc_select(t, (int)draw(t->rank), 0);
        else if (kind == 3 && !writable) {
            talc_dims to = talc_dims_of(talc_unsqueeze(t, 0));
            to.dim[0] = 1 + draw(3);
            t = talc_expand(t, to);
        }
    }
    return t;
}

static int64_t offset_of(const talc_tensor *t, int64_t at)
{
    int64_t offset = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        offset += at % t->dims[i] * t->strides[i];
        at /= t->dims[i];
    }
    return offset;
}

Test(copy, strided_copies_write_their_view_and_nothing_else)
{
    for (int round = 0; round < 2000; round++) {
        owned_scope *scope = talc_scope_enter();
        const talc_dtype to = (talc_dtype)draw(TALC_DTYPE_COUNT),
                         from = (talc_dtype)draw(TALC_DTYPE_COUNT);
        talc_tensor *base = talc_cast(
            talc_view(talc_arange(cpu_device(), TALC_I32, 0, 240, 1), TALC_DIMS(5, 4, 3, 4)), to);
        base = talc_clone(base);
        talc_tensor *dst = draw_view(base, true);
        /* A source of the same shape: a view of something larger, or the target's shape
         * expanded. */
        talc_dims dims = talc_dims_of(dst);
        talc_tensor *src;
        if (draw(2) == 0) {
            talc_dims small = dims;
            for (int i = 0; i < small.rank; i++)
                small.dim[i] = draw(2) == 0 ? 1 : small.dim[i];
            int64_t count = 1;
            for (int i = 0; i < small.rank; i++)
                count *= small.dim[i];
            src = talc_expand(talc_reshape(talc_cast(talc_arange(cpu_device(), TALC_F64, 0.5,
                                                                 (double)count + 0.5, 1),
                                                     from),
                                           small),
                              dims);
        } else {
            talc_dims wide = dims;
            int64_t count = 1;
            for (int i = 0; i < wide.rank; i++)
                count *= wide.dim[i] *= 2;
            src = talc_reshape(
                talc_cast(talc_arange(cpu_device(), TALC_I64, 0, (double)count, 1), from), wide);
            for (int i = 0; i < wide.rank; i++)
                src = draw(2) == 0 ? talc_slice(src, i, draw(2), TALC_END, 2)
                                   : talc_slice(src, i, 0, dims.dim[i], 1);
        }
        assert_no_failure();
        static double expected[240];
        memcpy(expected, base->data, talc_nbytes(base));
        const int64_t first =
            (int64_t)(((char *)dst->data - (char *)base->data) / (int64_t)talc_dtype_size(to));
        for (int64_t i = 0; i < talc_numel(dst); i++)
            store(to, expected, first + offset_of(dst, i),
                  load(from, src->data, offset_of(src, i)));
        const uint64_t version = talc_version(base);
        cr_assert(talc_copy(dst, src));
        cr_assert(talc_version(base) == version + 1);
        cr_assert(memcmp(expected, base->data, talc_nbytes(base)) == 0, "round %d", round);

        /* The same for fill. */
        dst = draw_view(base, true);
        const int64_t second =
            (int64_t)(((char *)dst->data - (char *)base->data) / (int64_t)talc_dtype_size(to));
        for (int64_t i = 0; i < talc_numel(dst); i++)
            store(to, expected, second + offset_of(dst, i), (value){ true, 77, 0 });
        cr_assert(talc_fill(dst, 77));
        cr_assert(memcmp(expected, base->data, talc_nbytes(base)) == 0, "fill of round %d", round);
        talc_tensor *view = draw_view(base, false), *packed = talc_clone(view);
        cr_assert(talc_is_contiguous(packed) && talc_same_dims(packed, view));
        const size_t size = talc_dtype_size(to);
        for (int64_t i = 0; i < talc_numel(view); i++)
            cr_assert(memcmp((char *)packed->data + (size_t)i * size,
                             (char *)view->data + (size_t)offset_of(view, i) * size, size) == 0,
                      "clone of round %d", round);
    }
}

/* More than one piece of work, cut within rows, at rows, and over many small rows; on one, two and
 * three threads. */
Test(copy, large_copies_are_complete_on_any_number_of_threads)
{
    const talc_dims shapes[] = { TALC_DIMS(100003), TALC_DIMS(3, 40009), TALC_DIMS(70001, 3),
                                 TALC_DIMS(301, 7, 59) };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int threads = 1; threads <= 3; threads++) {
            owned_scope *scope = talc_scope_enter();
            talc_set_threads(threads);
            int64_t count = 1;
            for (int i = 0; i < shapes[s].rank; i++)
                count *= shapes[s].dim[i];
            talc_tensor *x =
                talc_view(talc_arange(cpu_device(), TALC_I32, 0, (double)count, 1), shapes[s]);
            for (int way = 0; way < 3; way++) {
                talc_tensor *view = way == 0   ? x
                                    : way == 1 ? talc_transpose(x, 0, -1)
                                               : talc_slice(x, 0, 1, TALC_END, 2);
                talc_tensor *y = talc_cast(view, TALC_I64);
                assert_no_failure();
                const int64_t *data = talc_data(y, TALC_I64);
                for (int64_t i = 0; i < talc_numel(y); i++)
                    cr_assert(data[i] == ((const int32_t *)view->data)[offset_of(view, i)],
                              "shape %d, way %d, %d threads: element %d", (int)s, way, threads,
                              (int)i);
            }
            cr_assert(talc_fill(x, -3));
            const int32_t *filled = talc_data(x, TALC_I32);
            for (int64_t i = 0; i < count; i++)
                cr_assert(filled[i] == -3);
        }
}

Test(copy, overlapping_copies_read_before_they_write)
{
    enum { N = 70000 };
    const int64_t shifts[] = { 1, 7, 40000 };
    for (int i = 0; i < 3; i++)
        for (int up = 0; up < 2; up++) {
            const int64_t k = shifts[i];
            talc_tensor *x = talc_arange(cpu_device(), TALC_I32, 0, N, 1);
            talc_tensor *low = talc_slice(x, 0, 0, N - k, 1), *high = talc_slice(x, 0, k, N, 1);
            cr_assert(up ? talc_copy(high, low) : talc_copy(low, high));
            const int32_t *data = talc_data(x, TALC_I32);
            for (int64_t at = 0; at < N; at++) {
                const int64_t expected = up ? (at < k ? at : at - k) : (at < N - k ? at + k : at);
                cr_assert(data[at] == expected, "shift %d, up %d, element %d", (int)k, up, (int)at);
            }
        }
    talc_tensor *square =
        talc_view(talc_arange(cpu_device(), TALC_F32, 0, 300 * 300, 1), TALC_DIMS(300, 300));
    cr_assert(talc_copy(square, talc_transpose(square, 0, 1)));
    cr_assert(talc_copy(square, square));
    const float *data = talc_data(square, TALC_F32);
    for (int i = 0; i < 300 * 300; i++)
        cr_assert((int)data[i] == i % 300 * 300 + i / 300);
    /* Every second element onto the others: ranges overlap, elements do not. */
    talc_tensor *x = talc_arange(cpu_device(), TALC_I32, 0, 10, 1);
    cr_assert(talc_copy(talc_slice(x, 0, 0, TALC_END, 2), talc_slice(x, 0, 1, TALC_END, 2)));
    for (int i = 0; i < 10; i++)
        cr_assert(((const int32_t *)talc_data(x, TALC_I32))[i] == (i | 1));
}

/* One address each is enough: extents of 1 may have any stride. */
Test(copy, an_expanded_view_of_its_own_extent_is_written)
{
    talc_tensor *row = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(1, 3));
    const uint64_t version = talc_version(row);
    cr_assert(talc_fill(talc_expand(row, TALC_DIMS(1, 3)), 4) && talc_version(row) == version + 1);
    cr_assert(talc_to(row, cpu_device(), TALC_F32)->storage == row->storage);
    cr_assert(talc_to(row, cpu_device(), TALC_U8)->dtype == TALC_U8);
}

/* 3 * 2^31 elements that all are one of three. */
Test(copy, logical_sizes_past_2_to_the_31)
{
    const int64_t big = INT64_C(1) << 31;
    talc_tensor *x = talc_expand(talc_arange(cpu_device(), TALC_F32, 0, 3, 1), TALC_DIMS(big, 3));
    assert_no_failure();
    cr_assert(talc_numel(x) == 3 * big && talc_nbytes(x) == (size_t)(12 * big));
    cr_assert(talc_item(talc_select(talc_select(x, 0, big - 1), 0, 2)) == 2);
    talc_tensor *tail = talc_clone(talc_slice(x, 0, big - 2, TALC_END, 1));
    cr_assert(tail->dims[0] == 2 && ((const float *)talc_data(tail, TALC_F32))[5] == 2);
    cr_assert(talc_slice(x, 0, 0, TALC_END, big / 2)->dims[0] == 2);
    cr_assert_null(talc_expand(x, TALC_DIMS(big, big, 3)));
    assert_failure(
        TALC_TOO_LARGE,
        "expand: shape [2147483648,2147483648,3] of f32 needs more than 9223372036854775807 bytes");
}
