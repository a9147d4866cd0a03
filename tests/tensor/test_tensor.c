#include "tests/support/hooks.h"

#include "tensor/storage.h"

#include <math.h>
#include <string.h>

// ---- Element types ------------------------------------------------------------------------------

Test(tensor, dtypes_have_sizes_and_names)
{
    const struct {
        talc_dtype dtype;
        size_t size;
        const char *name;
    } expected[] = { { TALC_F32, 4, "f32" },
                     { TALC_F64, 8, "f64" },
                     { TALC_I64, 8, "i64" },
                     { TALC_I32, 4, "i32" },
                     { TALC_U8, 1, "u8" } };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        talc_dtype read = TALC_DTYPE_COUNT;
        cr_assert(talc_dtype_size(expected[i].dtype) == expected[i].size);
        cr_assert_str_eq(talc_dtype_name(expected[i].dtype), expected[i].name);
        cr_assert(talc_dtype_from_name(expected[i].name, &read) && read == expected[i].dtype);
        cr_assert(talc_dtype_is_float(expected[i].dtype) == (i < 2));
    }
}

// ---- Queries ------------------------------------------------------------------------------------

Test(tensor, queries_take_every_rank)
{
    talc_dims dims = TALC_SCALAR;
    int64_t numel = 1;
    for (int rank = 0; rank <= TALC_MAX_RANK; rank++) {
        talc_tensor *t = talc_full(cpu_device(), TALC_I32, dims, 3);
        assert_no_failure();
        cr_assert(t->rank == rank && talc_numel(t) == numel && talc_nbytes(t) == (size_t)numel * 4);
        cr_assert(talc_is_contiguous(t) && talc_same_dims(t, t));
        const int32_t *data = talc_data(t, TALC_I32);
        for (int64_t i = 0; i < numel; i++)
            cr_assert(data[i] == 3);
        int64_t stride = 1;
        for (int i = rank - 1; i >= 0; stride *= t->dims[i--])
            cr_assert(t->strides[i] == stride);
        if (rank < TALC_MAX_RANK) {
            dims.dim[rank] = 1 + rank % 3;
            numel *= dims.dim[rank];
            dims.rank++;
        }
    }
    char text[TALC_DIMS_TEXT];
    cr_assert_str_eq(talc_dims_text(TALC_SCALAR, text), "[]");
    cr_assert_str_eq(talc_dims_text(TALC_DIMS(8, -3, 0), text), "[8,-3,0]");
    talc_dims longest = { .rank = 99 };
    for (int i = 0; i < TALC_MAX_RANK; i++)
        longest.dim[i] = INT64_MIN;
    cr_assert(strlen(talc_dims_text(longest, text)) == 8 * 20 + 7 + 2);
}

// ---- Creation -----------------------------------------------------------------------------------

Test(tensor, creators_fill_every_dtype)
{
    for (int d = 0; d < TALC_DTYPE_COUNT; d++) {
        const talc_dtype dtype = (talc_dtype)d;
        talc_tensor *made[] = { talc_zeros(cpu_device(), dtype, TALC_DIMS(3, 5)),
                                talc_ones(cpu_device(), dtype, TALC_DIMS(3, 5)),
                                talc_full(cpu_device(), dtype, TALC_DIMS(3, 5), 7),
                                talc_zeros_like(talc_ones(cpu_device(), dtype, TALC_DIMS(3, 5))) };
        const double expected[] = { 0, 1, 7, 0 };
        assert_no_failure();
        for (int m = 0; m < 4; m++)
            for (int i = 0; i < 15; i++)
                cr_assert(talc_item(talc_select(talc_view(made[m], TALC_DIMS(15)), 0, i)) ==
                              expected[m],
                          "%s, creator %d, element %d", talc_dtype_name(dtype), m, i);
        talc_tensor *like = talc_empty_like(made[0]);
        cr_assert(like->dtype == dtype && talc_same_dims(like, made[0]) &&
                  like->data != made[0]->data);
        cr_assert((uintptr_t)like->data % 64 == 0);
    }
}

Test(tensor, a_zero_dimension_is_legal)
{
    const talc_dims shapes[] = { TALC_DIMS(0), TALC_DIMS(3, 0, 2), TALC_DIMS(0, 0),
                                 TALC_DIMS(0, 1 << 20, 1 << 20) };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        talc_tensor *t = talc_ones(cpu_device(), TALC_F64, shapes[i]);
        assert_no_failure();
        cr_assert(talc_numel(t) == 0 && talc_nbytes(t) == 0 && talc_is_contiguous(t));
        cr_assert(talc_data(t, TALC_F64) == NULL && talc_to_host(t, NULL, 0));
        cr_assert(talc_fill(t, 2) && talc_copy(t, talc_clone(t)));
        cr_assert_not_null(talc_cast(talc_contiguous(t), TALC_U8));
        assert_no_failure();
    }
    cr_assert(talc_device_memory(cpu_device()).live == 0);
    cr_assert_not_null(talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(2, 0), NULL));
}

static void assert_sequence(talc_tensor *t, const double *expected, int64_t count)
{
    assert_no_failure();
    cr_assert(t->rank == 1 && t->dims[0] == count, "%d numbers instead of %d", (int)t->dims[0],
              (int)count);
    for (int64_t i = 0; i < count; i++)
        cr_assert(talc_item(talc_select(t, 0, i)) == expected[i], "number %d", (int)i);
}

Test(tensor, arange_counts_as_numpy_does)
{
    talc_device *cpu = cpu_device();
    assert_sequence(talc_arange(cpu, TALC_I64, 0, 5, 2), (const double[]){ 0, 2, 4 }, 3);
    assert_sequence(talc_arange(cpu, TALC_I64, 0, 4, 2), (const double[]){ 0, 2 }, 2);
    assert_sequence(talc_arange(cpu, TALC_F64, 1, 2, 0.25), (const double[]){ 1, 1.25, 1.5, 1.75 },
                    4);
    assert_sequence(talc_arange(cpu, TALC_I32, 3, -3, -2), (const double[]){ 3, 1, -1 }, 3);
    assert_sequence(talc_arange(cpu, TALC_U8, 254, 256, 1), (const double[]){ 254, 255 }, 2);
    cr_assert_null(talc_arange(cpu, TALC_U8, 254, 258, 1));
    assert_failure(TALC_BAD_ARGUMENT, "arange: element 256 is no number that u8 holds");
    cr_assert_null(talc_arange(cpu, TALC_I64, 0, 2, 0.5));
    assert_failure(TALC_BAD_ARGUMENT, "arange: element 0.5 is no number that i64 holds");
    assert_sequence(talc_arange(cpu, TALC_F32, 5, 5, 1), NULL, 0);
    assert_sequence(talc_arange(cpu, TALC_F32, 5, 4, 1), NULL, 0);
    assert_sequence(talc_arange(cpu, TALC_F32, 0, 1, -1), NULL, 0);
}

Test(tensor, eye_is_the_identity)
{
    for (int n = 0; n < 5; n++) {
        talc_tensor *t = talc_eye(cpu_device(), TALC_F32, n);
        assert_no_failure();
        const float *data = talc_data(t, TALC_F32);
        for (int i = 0; i < n * n; i++)
            cr_assert(data[i] == (i / n == i % n));
    }
}

Test(tensor, a_tensor_without_host_memory_says_how_much)
{
    cr_assert_not_null(cpu_device());
    allow_allocations(0);
    cr_assert_null(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(6)));
    allow_all_allocations();
    assert_failure_with(TALC_NO_MEMORY, "tensor: out of host memory: asked %zu bytes",
                        sizeof(talc_storage));
}

// ---- Host memory --------------------------------------------------------------------------------

Test(tensor, from_host_and_to_host_copy)
{
    int32_t values[] = { 1, -2, 3, -4, 5, -6 };
    talc_tensor *t = talc_from_host(cpu_device(), TALC_I32, TALC_DIMS(2, 3), values);
    values[0] = 99;
    int32_t back[6];
    cr_assert(talc_to_host(t, back, sizeof back));
    cr_assert(back[0] == 1 && back[5] == -6);
    cr_assert(talc_to_host(talc_transpose(t, 0, 1), back, sizeof back));
    cr_assert(back[0] == 1 && back[1] == -4 && back[2] == -2 && back[5] == -6);
    cr_assert(!talc_to_host(t, back, 23));
    assert_failure(TALC_BAD_ARGUMENT, "to_host: [2,3] of i32 has 24 bytes, the array 23");
}

Test(tensor, item_reads_every_dtype)
{
    const int64_t exact = (INT64_C(1) << 53) + 1;
    cr_assert(talc_item_i64(talc_from_host(cpu_device(), TALC_I64, TALC_SCALAR, &exact)) == exact);
    for (int d = 0; d < TALC_DTYPE_COUNT; d++) {
        talc_tensor *t = talc_full(cpu_device(), (talc_dtype)d, TALC_DIMS(1, 1), 200);
        cr_assert(talc_item(t) == 200 && talc_item_i64(t) == 200, "%s",
                  talc_dtype_name((talc_dtype)d));
    }
    cr_assert(talc_item_i64(talc_full(cpu_device(), TALC_F32, TALC_SCALAR, -1.9)) == -1);
}

Test(tensor, data_is_where_the_view_begins)
{
    talc_tensor *t = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(4, 6));
    cr_assert(talc_data(t, TALC_F32) == t->data);
    cr_assert(talc_data(talc_slice(t, 0, 1, 3, 1), TALC_F32) == (float *)t->data + 6);
}

// ---- Wrapped memory -----------------------------------------------------------------------------

typedef struct released {
    int times;
    void *data;
} released;

static void record_release(void *data, void *context)
{
    released *note = context;
    note->times++;
    note->data = data;
}

Test(tensor, wrapped_memory_is_released_once_after_the_last_view)
{
    float memory[6] = { 1, 2, 3, 4, 5, 6 };
    released note = { 0 };
    talc_scope *scope = talc_scope_enter();
    talc_tensor *t =
        talc_wrap(cpu_device(), TALC_F32, TALC_DIMS(2, 3), memory, record_release, &note);
    talc_tensor *view = talc_retain(talc_select(t, 0, 1));
    cr_assert(t->data == memory && talc_device_memory(cpu_device()).live == 0);
    cr_assert(talc_fill(view, 9) && memory[2] == 3 && memory[3] == 9 && memory[5] == 9);
    talc_scope_leave(scope);
    cr_assert(note.times == 0, "the view still needs the memory");
    cr_assert(talc_item(talc_select(view, 0, 0)) == 9);
    talc_scope_leave_all();
    cr_assert(note.times == 0);
    talc_release(view);
    cr_assert(note.times == 1 && note.data == memory);
    cr_assert_not_null(talc_wrap(cpu_device(), TALC_F32, TALC_DIMS(6), memory, NULL, NULL));
    assert_all_freed();
    cr_assert(note.times == 1);
}

Test(tensor, a_failed_wrap_leaves_the_memory_to_the_caller)
{
    double memory[4] = { 0 };
    released note = { 0 };
    void *odd = (char *)memory + 4;
    cr_assert_null(talc_wrap(cpu_device(), TALC_F64, TALC_DIMS(-1), memory, record_release, &note));
    talc_error_clear();
    cr_assert_null(talc_wrap(cpu_device(), TALC_F64, TALC_DIMS(1), odd, record_release, &note));
    assert_failure_with(TALC_BAD_ARGUMENT,
                        "wrap: address %p is not aligned for f64, which needs a multiple of 8",
                        odd);
    cr_assert_not_null(talc_wrap(cpu_device(), TALC_F32, TALC_DIMS(1), odd, NULL, NULL));
    assert_all_freed();
    cr_assert(note.times == 0);
}
