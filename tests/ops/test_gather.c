/// gather, index_select, one_hot and masked_fill as a caller has them: views, scalars, indices that
/// do not exist. The values of the first two, and their gradients, are held by test_algorithms.c.
#include "tensor/shape.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX = 1 << 16 };

/* Indices 0 .. extent - 1, all of them and the same ones often. */
static talc_tensor *indices(talc_dims dims, int64_t extent)
{
    static int64_t values[MAX];
    for (int64_t i = 0; i < talc_shape_numel(dims); i++)
        values[i] = (i * i + i / 3) % 7 < 2 ? extent - 1 : (i * 5 + i / 4) % extent;
    return talc_from_host(tested_device(), TALC_I64, dims, values);
}

// ---- Values -------------------------------------------------------------------------------------

/* An index that is a view, and strides of 0. */
Test(gather, views_are_read_where_they_stand)
{
    const talc_tensor *x =
        talc_to(random_view(VIEW_PACKED, TALC_F32, TALC_DIMS(6, 50), 1), tested_device(), TALC_F32);
    const talc_tensor *transposed = talc_transpose(x, 0, 1),
                      *expanded = talc_expand(talc_slice(x, 0, 0, 1, 1), TALC_DIMS(6, 50));
    const talc_tensor *index = talc_transpose(indices(TALC_DIMS(6, 11), 6), 0, 1),
                      *stepped = talc_slice(indices(TALC_DIMS(22), 50), 0, 1, TALC_END, 2);
    assert_same_bits("transposed", talc_gather(talc_clone(transposed), 1, talc_clone(index)),
                     talc_gather(transposed, 1, index));
    assert_same_bits("stepped", talc_index_select(talc_clone(transposed), -2, talc_clone(stepped)),
                     talc_index_select(transposed, 0, stepped));
    assert_same_bits("expanded", talc_gather(talc_clone(expanded), 1, indices(TALC_DIMS(6, 3), 50)),
                     talc_gather(expanded, -1, indices(TALC_DIMS(6, 3), 50)));
}

Test(gather, scalars_and_nothing)
{
    talc_device *device = tested_device();
    const talc_tensor *scalar = talc_full(device, TALC_F64, TALC_SCALAR, 3.5);
    const talc_tensor *zero = talc_zeros(device, TALC_I64, TALC_SCALAR);
    cr_assert(talc_item(talc_gather(scalar, 0, zero)) == 3.5);
    cr_assert(talc_item(talc_index_select(scalar, -1, zero)) == 3.5);
    const talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(3, 4));
    const talc_tensor *none = talc_zeros(device, TALC_I64, TALC_DIMS(0));
    const talc_tensor *y = talc_index_select(x, 1, none);
    assert_no_failure();
    cr_assert(y->rank == 2 && y->dims[0] == 3 && y->dims[1] == 0);
    cr_assert(talc_numel(talc_gather(x, 0, talc_zeros(device, TALC_I64, TALC_DIMS(0, 4)))) == 0);
    const talc_tensor *row = talc_index_select(x, 0, zero); /* the dimension stays */
    cr_assert(row->rank == 2 && row->dims[0] == 1 && row->dims[1] == 4);
}

Test(gather, one_hot_rows_have_a_single_one)
{
    for (int64_t classes = 1; classes < 300; classes += 37) {
        const talc_tensor *labels = talc_transpose(indices(TALC_DIMS(3, 11), classes), 0, 1);
        const talc_tensor *y = talc_one_hot(labels, classes);
        assert_no_failure();
        cr_assert(y->dtype == TALC_I64 && y->rank == 3 && y->dims[0] == 11 && y->dims[1] == 3 &&
                  y->dims[2] == classes);
        const talc_tensor *got = on_host(y), *which = on_host(labels);
        for (int64_t i = 0; i < talc_numel(got); i++)
            cr_assert(integer_at(got, i) == (integer_at(which, i / classes) == i % classes),
                      "%d classes: element %d", (int)classes, (int)i);
    }
    cr_assert(talc_numel(talc_one_hot(talc_zeros(tested_device(), TALC_I64, TALC_DIMS(0)), 3)) ==
              0);
}

Test(gather, masked_fill_writes_where_the_mask_says)
{
    talc_device *device = tested_device();
    const uint8_t flags[] = { 0, 1, 2 };
    const talc_tensor *mask = talc_from_host(device, TALC_U8, TALC_DIMS(3), flags);
    const talc_tensor *x = talc_arange(device, TALC_F32, 0, 4, 1);
    const talc_tensor *y = talc_masked_fill(talc_view(x, TALC_DIMS(4, 1)), mask, (double)-INFINITY);
    assert_no_failure();
    const talc_tensor *got = on_host(y);
    cr_assert(y->rank == 2 && y->dims[0] == 4 && y->dims[1] == 3);
    for (int64_t i = 0; i < 12; i++)
        cr_assert(element_at(got, i) == (i % 3 == 0 ? (double)(i / 3) : (double)-INFINITY));
    const talc_tensor *whole = talc_masked_fill(talc_arange(device, TALC_I32, 0, 3, 1), mask, 7);
    cr_assert(integer_at(on_host(whole), 0) == 0 && integer_at(on_host(whole), 2) == 7);
}

// ---- Indices that do not exist ------------------------------------------------------------------

Test(gather, an_index_that_does_not_exist_is_named_and_read_by_nothing)
{
    talc_device *device = tested_device();
    const int64_t wrong[] = { 4, -1, INT64_MAX, INT64_MIN };
    const talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(4, 3));
    for (int i = 0; i < 4; i++)
        for (int op = 0; op < 3; op++) {
            const int64_t values[] = { 0, wrong[i], 3 };
            const talc_tensor *index = talc_from_host(device, TALC_I64, TALC_DIMS(3), values);
            const talc_tensor *y = op == 0   ? talc_gather(x, 0, talc_view(index, TALC_DIMS(1, 3)))
                                   : op == 1 ? talc_index_select(x, 0, index)
                                             : talc_one_hot(index, 4);
            char expected[128];
            snprintf(expected, sizeof expected,
                     op == 2 ? "%s: element 1 of labels is %lld, there are 4 classes"
                             : "%s: element 1 of index is %lld, x has 4 elements in its dimension",
                     op == 0   ? "gather"
                     : op == 1 ? "index_select"
                               : "one_hot",
                     (long long)wrong[i]);
            cr_assert(y == NULL || !talc_device_synchronize(device), "index %d passes", i);
            cr_assert(strcmp(talc_error_message(), expected) == 0, "%s", talc_error_message());
            talc_error_clear();
        }
}
