/* concat: values by index for every dtype, dimension and kind of view, and every message. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

/* Element of the result by the definition. */
static double expected_at(talc_tensor *const *tensors, int dim, const talc_tensor *y,
                          int64_t element)
{
    int64_t index[TALC_MAX_RANK] = { 0 };
    for (int i = y->rank - 1; i >= 0; i--) {
        index[i] = element % y->dims[i];
        element /= y->dims[i];
    }
    int t = 0;
    for (; index[dim] >= tensors[t]->dims[dim]; t++)
        index[dim] -= tensors[t]->dims[dim];
    int64_t number = 0;
    for (int i = 0; i < y->rank; i++)
        number = number * tensors[t]->dims[i] + index[i];
    return element_at(tensors[t], number);
}

Test(concat, joins_views_of_every_dtype_along_every_dimension)
{
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++)
        for (int dim = 0; dim < 3; dim++)
            for (int view = 0; view < VIEW_COUNT; view++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *tensors[4];
                const int64_t extents[] = { 2, 0, 5, 1 };
                uint64_t before = 0, after = 0;
                for (int t = 0; t < 4; t++) {
                    talc_dims dims = TALC_DIMS(2, 3, 4);
                    dims.dim[dim] = extents[t];
                    tensors[t] = random_view((view + t) % VIEW_COUNT, (talc_dtype)dtype, dims,
                                             (uint64_t)t + 1);
                    before += fingerprint(tensors[t]);
                }
                talc_tensor *y = talc_concat((const talc_tensor *const *)tensors, 4,
                                             view % 2 == 0 ? dim : dim - 3);
                assert_no_failure();
                cr_assert(y->rank == 3 && y->dims[dim] == 8 && (int)y->dtype == dtype &&
                          talc_is_contiguous(y));
                for (int64_t i = 0; i < talc_numel(y); i++)
                    cr_assert(element_at(y, i) == expected_at(tensors, dim, y, i),
                              "dtype %d dim %d view %d element %d", dtype, dim, view, (int)i);
                for (int t = 0; t < 4; t++)
                    after += fingerprint(tensors[t]);
                cr_assert(before == after, "an operand changed");
            }
}

/* More than a device joins at once, with views between, from rows of a few bytes to such as threads
 * share. */
Test(concat, joins_any_number_of_tensors)
{
    enum { MAX = 21 };
    static const int64_t others[] = { 1, 3, 40000 };
    for (int i = 0; i < 3; i++)
        for (int dim = 0; dim < 2; dim++)
            for (int count = 1; count <= MAX; count += 4)
                for (int dtype = TALC_F32; dtype < TALC_DTYPE_COUNT;
                     dtype += TALC_DTYPE_COUNT - 1 - TALC_F32) {
                    owned_scope *scope = talc_scope_enter();
                    talc_tensor *tensors[MAX];
                    for (int t = 0; t < count; t++) {
                        talc_dims dims = TALC_DIMS(others[i], others[i]);
                        dims.dim[1 - dim] = 5;
                        dims.dim[dim] = i == 2 ? (t == 3 ? 40000 : t % 3) : 1 + t % 5;
                        tensors[t] = random_view(t % 7 == 5 ? VIEW_STEPPED : VIEW_PACKED,
                                                 (talc_dtype)dtype, dims, (uint64_t)t);
                    }
                    talc_tensor *y = talc_concat((const talc_tensor *const *)tensors, count, dim);
                    assert_no_failure();
                    const int64_t all = talc_numel(y), step = 1 + all / 5000;
                    for (int64_t e = 0; e < all; e += step)
                        cr_assert(element_at(y, e) == expected_at(tensors, dim, y, e),
                                  "others %d dim %d count %d dtype %d element %d", (int)others[i],
                                  dim, count, dtype, (int)e);
                }
}

Test(concat, one_tensor_is_copied_and_the_same_one_may_come_twice)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_I64, 0, 3, 1);
    talc_tensor *copy = talc_concat((const talc_tensor *[]){ x }, 1, 0);
    cr_assert(same_bits(copy, x) && copy->storage != x->storage);
    talc_tensor *twice = talc_concat((const talc_tensor *[]){ x, x }, 2, -1);
    for (int i = 0; i < 6; i++)
        cr_assert(integer_at(twice, i) == i % 3);
    talc_tensor *none = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(0, 2));
    talc_tensor *empty = talc_concat((const talc_tensor *[]){ none, none }, 2, 1);
    assert_no_failure();
    cr_assert(empty->rank == 2 && empty->dims[0] == 0 && empty->dims[1] == 4);
}

// ---- Stack, split, chunk, channel shuffle -------------------------------------------------------

Test(concat, stacking_is_a_new_dimension)
{
    talc_tensor *a = talc_arange(cpu_device(), TALC_I32, 0, 6, 1);
    talc_tensor *b = talc_transpose(talc_reshape(talc_add_scalar(a, 10), TALC_DIMS(3, 2)), 0, 1);
    const talc_tensor *const both[] = { talc_reshape(a, TALC_DIMS(2, 3)), b };
    static const double expected[][12] = { { 0, 1, 2, 3, 4, 5, 10, 12, 14, 11, 13, 15 },
                                           { 0, 1, 2, 10, 12, 14, 3, 4, 5, 11, 13, 15 },
                                           { 0, 10, 1, 12, 2, 14, 3, 11, 4, 13, 5, 15 } };
    for (int dim = -3; dim < 3; dim++) {
        const int at = dim < 0 ? dim + 3 : dim;
        talc_tensor *y = talc_stack(both, 2, dim);
        assert_no_failure();
        cr_assert(y->rank == 3 && y->dims[at] == 2);
        for (int i = 0; i < 12; i++)
            cr_assert(element_at(y, i) == expected[at][i], "dim %d element %d", dim, i);
    }
    const talc_tensor *const scalars[] = { talc_full(cpu_device(), TALC_F32, TALC_SCALAR, 3) };
    talc_tensor *y = talc_stack(scalars, 1, 0);
    cr_assert(y->rank == 1 && y->dims[0] == 1 && element_at(y, 0) == 3);
}

Test(concat, parts_are_views_in_a_row)
{
    talc_tensor *x = talc_reshape(talc_arange(cpu_device(), TALC_F32, 0, 14, 1), TALC_DIMS(2, 7));
    talc_tensor *parts[9];
    cr_assert(talc_split(x, (const int64_t[]){ 2, 0, 5 }, 3, -1, parts));
    cr_assert(parts[0]->dims[1] == 2 && parts[1]->dims[1] == 0 && parts[2]->dims[1] == 5);
    cr_assert(element_at(parts[0], 3) == 8 && element_at(parts[2], 9) == 13);
    talc_fill(parts[2], -1);
    cr_assert(element_at(x, 1) == 1 && element_at(x, 2) == -1 && element_at(x, 13) == -1);

    /* As in PyTorch: how many parts there are, and what the last has. */
    static const int expected[][4] = {
        { 7, 1, 1, 7 }, { 7, 2, 2, 3 }, { 7, 3, 3, 1 }, { 7, 5, 4, 1 },
        { 7, 7, 7, 1 }, { 7, 9, 7, 1 }, { 0, 3, 3, 0 }, { 6, 4, 3, 2 },
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        x = talc_arange(cpu_device(), TALC_I64, 0, 7, 1);
        x = talc_slice(x, 0, 0, expected[i][0], 1);
        const int count = talc_chunk(x, expected[i][1], 0, parts);
        int64_t total = 0;
        cr_assert(count == expected[i][2], "row %zu has %d", i, count);
        for (int k = 0; k < expected[i][1]; k++) {
            cr_assert((parts[k] != NULL) == (k < count));
            cr_assert(parts[k] == NULL || parts[k]->dims[0] == 0 ||
                      element_at(parts[k], 0) == (double)total);
            total += parts[k] == NULL ? 0 : parts[k]->dims[0];
        }
        cr_assert(total == expected[i][0] && parts[count - 1]->dims[0] == expected[i][3]);
    }
    cr_assert(!talc_split(x, (const int64_t[]){ 2, 0, 6 }, 3, -1, parts));
    assert_failure(TALC_BAD_ARGUMENT, "split: the 3 sizes add up to 8, dimension 0 has extent 6");
    cr_assert(talc_split(talc_slice(x, 0, 3, 3, 1), (const int64_t[]){ 0 }, 0, 0, parts));
}

Test(concat, channels_take_turns)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_U8, 0, 24, 1);
    const talc_tensor *y = talc_channel_shuffle(talc_reshape(x, TALC_DIMS(2, 6, 2, 1)), 3);
    cr_assert(y->rank == 4 && y->dims[1] == 6);
    static const int from[] = { 0, 2, 4, 1, 3, 5 };
    for (int i = 0; i < 24; i++)
        cr_assert(element_at(y, i) == i / 12 * 12 + from[i / 2 % 6] * 2 + i % 2, "element %d", i);
}
