/* gather, index_select, one_hot and masked_fill on any device against loops on the host: dtypes,
 * dimensions, kinds of view; gradients to the bit, as sums of small integers; indices that do not
 * exist. */
#include "tensor/shape.h"
#include "tests/support/hooks.h"
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

static talc_tensor *on_host(const talc_tensor *x)
{
    return talc_to(x, cpu_device(), x->dtype);
}

/* Where element i of a tensor of shape `y` comes from in x, whose dimension `dim` the index
 * counts. */
static int64_t source(talc_dims x, talc_dims y, int dim, int64_t i, int64_t picked)
{
    int64_t at = 0, step = 1, of_x[TALC_MAX_RANK] = { 0 };
    for (int d = y.rank - 1; d >= 0; d--) {
        of_x[d] = d == dim ? picked : i % y.dim[d];
        i /= y.dim[d];
    }
    for (int d = x.rank - 1; d >= 0; d--) {
        at += of_x[d] * step;
        step *= x.dim[d];
    }
    return at;
}

static int64_t index_of(const talc_tensor *index, talc_dims y, int dim, int64_t i)
{
    if (index->rank == y.rank && index->rank != 1)
        return integer_at(index, i);
    int64_t step = 1;
    for (int d = dim + 1; d < y.rank; d++)
        step *= y.dim[d];
    return integer_at(index, i / step % y.dim[dim]);
}

static void check(const talc_tensor *x, int dim, const talc_tensor *index, bool select)
{
    char name[96], text[TALC_DIMS_TEXT];
    snprintf(name, sizeof name, "%s of %s along %d", select ? "index_select" : "gather",
             talc_dims_text(talc_dims_of(x), text), dim);
    const talc_tensor *y =
        select ? talc_index_select(x, dim - x->rank, index) : talc_gather(x, dim, index);
    cr_assert(y != NULL, "%s: %s", name, talc_error_message());
    cr_assert(y->dtype == x->dtype && talc_is_contiguous(y), "%s: %d", name, (int)y->dtype);
    const talc_tensor *got = on_host(y), *from = on_host(x), *which = on_host(index);
    const talc_dims dims = talc_dims_of(y);
    talc_dims expected = talc_dims_of(select ? x : index);
    if (select)
        expected.dim[dim] = talc_numel(index);
    cr_assert(talc_shape_equal(dims, expected), "%s: %s", name, talc_dims_text(dims, text));
    for (int64_t i = 0; i < talc_numel(got); i++) {
        const int64_t at = source(talc_dims_of(x), dims, dim, i, index_of(which, dims, dim, i));
        if (talc_dtype_is_float(x->dtype))
            cr_assert(element_at(got, i) == element_at(from, at), "%s: element %d", name, (int)i);
        else
            cr_assert(integer_at(got, i) == integer_at(from, at), "%s: element %d", name, (int)i);
    }
}

static const talc_dims shapes[] = { { 1, { 5 } },         { 2, { 3, 7 } },
                                    { 2, { 7, 3 } },      { 3, { 2, 33, 5 } },
                                    { 3, { 40, 2, 3 } },  { 4, { 2, 3, 4, 5 } },
                                    { 3, { 3, 1, 300 } }, { 3, { 1, 70, 41 } } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* An index of another extent along `dim`, and in the other dimensions of all of x or less. */
static talc_dims index_dims(talc_dims x, int dim, bool less)
{
    for (int d = 0; d < x.rank; d++)
        x.dim[d] = d == dim ? 9 : less ? (x.dim[d] + 1) / 2 : x.dim[d];
    return x;
}

// ---- Values -------------------------------------------------------------------------------------

Test(gather, picks_what_the_index_names)
{
    const talc_dtype dtypes[] = { TALC_F32, TALC_F64, TALC_I64, TALC_I32, TALC_U8 };
    for (int s = 0; s < SHAPES; s++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            talc_scope *scope = talc_scope_enter();
            const talc_tensor *x =
                talc_to(random_view(view, dtypes[(s + view) % 5], shapes[s], (uint64_t)s),
                        tested_device(), dtypes[(s + view) % 5]);
            for (int dim = 0; dim < x->rank; dim++) {
                check(x, dim, indices(index_dims(shapes[s], dim, view % 2 == 1), x->dims[dim]),
                      false);
                const talc_tensor *twice = indices(TALC_DIMS(22), x->dims[dim]);
                check(x, dim, talc_slice(twice, 0, 1, TALC_END, 2), true);
            }
            talc_scope_leave(scope);
        }
}

Test(gather, transposed_views_are_read_where_they_stand)
{
    const talc_tensor *x =
        talc_to(random_view(VIEW_PACKED, TALC_F32, TALC_DIMS(6, 50), 1), tested_device(), TALC_F32);
    const talc_tensor *index = talc_transpose(indices(TALC_DIMS(6, 11), 6), 0, 1);
    check(talc_transpose(x, 0, 1), 1, index, false);
    check(talc_transpose(x, 0, 1), 0, indices(TALC_DIMS(4), 50), true);
    check(talc_expand(talc_slice(x, 0, 0, 1, 1), TALC_DIMS(6, 50)), 1, indices(TALC_DIMS(6, 3), 50),
          false);
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

// ---- Gradients ----------------------------------------------------------------------------------

/* Of sums of small integers every order gives the same bits. */
static void check_gradient(talc_dtype dtype, talc_dims shape, int dim, const talc_tensor *index,
                           bool select)
{
    static int64_t expected[MAX];
    talc_tensor *x = talc_zeros(tested_device(), dtype, shape);
    talc_require_grad(x, true);
    const talc_tensor *y = select ? talc_index_select(x, dim, index) : talc_gather(x, dim, index);
    const talc_dims dims = talc_dims_of(y);
    const talc_tensor *dy = talc_view(
        talc_cast(talc_arange(tested_device(), TALC_I64, 1, (double)talc_numel(y) + 1, 1), dtype),
        dims);
    cr_assert(talc_backward_from(y, dy), "%s", talc_error_message());
    const talc_tensor *got = on_host(talc_grad(x)), *which = on_host(index);
    memset(expected, 0, sizeof expected);
    for (int64_t i = 0; i < talc_numel(y); i++)
        expected[source(shape, dims, dim, i, index_of(which, dims, dim, i))] += i + 1;
    char text[TALC_DIMS_TEXT];
    for (int64_t i = 0; i < talc_numel(x); i++)
        cr_assert(element_at(got, i) == (double)expected[i],
                  "%s of %s along %d: element %d is %g, not %d", select ? "index_select" : "gather",
                  talc_dims_text(shape, text), dim, (int)i, element_at(got, i), (int)expected[i]);
}

Test(gather, gradients_add_up_what_was_picked)
{
    for (int s = 0; s < SHAPES; s++)
        for (int dim = 0; dim < shapes[s].rank; dim++) {
            talc_scope *scope = talc_scope_enter();
            const talc_dtype dtype = s % 2 == 0 ? TALC_F32 : TALC_F64;
            const int64_t extent = shapes[s].dim[dim];
            for (int less = 0; less < 2; less++)
                check_gradient(dtype, shapes[s], dim,
                               indices(index_dims(shapes[s], dim, less == 1), extent), false);
            check_gradient(dtype, shapes[s], dim, indices(TALC_DIMS(11), extent), true);
            check_gradient(dtype, shapes[s], dim,
                           talc_zeros(tested_device(), TALC_I64, TALC_DIMS(0)), true);
            talc_scope_leave(scope);
        }
    /* Long indices, of few elements and of many; rows of an embedding. */
    check_gradient(TALC_F64, TALC_DIMS(7), 0, indices(TALC_DIMS(5000), 7), true);
    check_gradient(TALC_F64, TALC_DIMS(9000), 0, indices(TALC_DIMS(5000), 9000), false);
    check_gradient(TALC_F64, TALC_DIMS(900, 70), 0, indices(TALC_DIMS(300), 900), true);
    check_gradient(TALC_F64, TALC_DIMS(3000, 10), 1, indices(TALC_DIMS(3000, 1), 10), false);
    check_gradient(TALC_F64, TALC_DIMS(5, 40, 3), 1, indices(TALC_DIMS(5, 700, 3), 40), false);
    check_gradient(TALC_F64, TALC_SCALAR, 0, talc_zeros(tested_device(), TALC_I64, TALC_SCALAR),
                   false);
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
