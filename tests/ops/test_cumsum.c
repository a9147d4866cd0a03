/* cumsum on any device against sums in long double: shapes, dimensions, kinds of view; gradients to
 * the bit, as sums of small integers; numbers that are not finite. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static talc_tensor *on_host(const talc_tensor *x)
{
    return talc_to(x, cpu_device(), x->dtype);
}

/* Elements from one to the next of a line along `dim`, in row-major order. */
static int64_t step_along(const talc_tensor *x, int dim)
{
    int64_t step = 1;
    for (int d = dim + 1; d < x->rank; d++)
        step *= x->dims[d];
    return step;
}

static void check(const talc_tensor *x, int dim)
{
    char name[96], text[TALC_DIMS_TEXT];
    snprintf(name, sizeof name, "%s %s along %d", talc_dtype_name(x->dtype),
             talc_dims_text(talc_dims_of(x), text), dim);
    const talc_tensor *y = talc_cumsum(x, dim), *negative = talc_cumsum(x, dim - x->rank);
    cr_assert(y != NULL && negative != NULL, "%s: %s", name, talc_error_message());
    cr_assert(y->dtype == x->dtype && talc_is_contiguous(y) && talc_same_dims(y, x), "%s", name);
    cr_assert(same_bits(on_host(y), on_host(negative)), "%s: from the end it is another", name);
    const talc_tensor *got = on_host(y), *from = on_host(x);
    const int64_t count = talc_numel(got), step = step_along(got, dim);
    long double *sums = malloc(2 * (size_t)count * sizeof *sums + 1), *sizes = sums + count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = i / step % got->dims[dim];
        const long double value = element_at(from, i);
        sums[i] = value + (index > 0 ? sums[i - step] : 0);
        sizes[i] = fabsl(value) + (index > 0 ? sizes[i - step] : 0);
        const long double bound = x->dtype == TALC_F32
                                      ? 0x1p-24L * fabsl(sums[i]) + 0x1p-53L * index * sizes[i]
                                      : 0x1p-53L * index * sizes[i];
        cr_assert(fabsl(element_at(got, i) - sums[i]) <= bound,
                  "%s: element %d is %g, expected %Lg", name, (int)i, element_at(got, i), sums[i]);
    }
    free(sums);
}

static const talc_dims shapes[] = {
    { 1, { 1 } },         { 1, { 5 } },         { 1, { 33 } },        { 1, { 1024 } },
    { 1, { 5000 } },      { 2, { 3, 7 } },      { 2, { 7, 3 } },      { 2, { 1500, 3 } },
    { 2, { 3, 1025 } },   { 3, { 2, 33, 5 } },  { 3, { 40, 2, 3 } },  { 4, { 2, 3, 4, 5 } },
    { 3, { 3, 1, 300 } }, { 3, { 1, 70, 41 } }, { 3, { 2, 35, 150 } }
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

Test(cumsum, sums_of_the_elements_so_far)
{
    for (int s = 0; s < SHAPES; s++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            talc_scope *scope = talc_scope_enter();
            const talc_dtype dtype = (s + view) % 2 == 0 ? TALC_F32 : TALC_F64;
            const talc_tensor *x =
                talc_to(random_view(view, dtype, shapes[s], (uint64_t)s), tested_device(), dtype);
            for (int dim = 0; dim < x->rank; dim++)
                check(x, dim);
            if (x->rank > 1) /* a view on a device to which a copy is packed */
                check(talc_slice(talc_transpose(x, 0, x->rank - 1), 0, 0, TALC_END, 2), 1);
            check(talc_expand(x,
                              (talc_dims){ x->rank + 1,
                                           { 3, x->dims[0], x->dims[1], x->dims[2], x->dims[3] } }),
                  0);
            talc_scope_leave(scope);
        }
}

Test(cumsum, many_lines)
{
    check(talc_to(random_view(VIEW_PACKED, TALC_F32, TALC_DIMS(37, 33000), 1), tested_device(),
                  TALC_F32),
          0);
    check(talc_to(random_view(VIEW_PACKED, TALC_F64, TALC_DIMS(9000, 70), 2), tested_device(),
                  TALC_F64),
          1);
}

Test(cumsum, by_hand)
{
    const float values[] = { 1, 2, -4, 0.5F, 3, 10 };
    talc_tensor *x = talc_from_host(tested_device(), TALC_F32, TALC_DIMS(2, 3), values);
    const double rows[] = { 1, 3, -1, 0.5, 3.5, 13.5 }, columns[] = { 1, 2, -4, 1.5, 5, 6 };
    const talc_tensor *along = on_host(talc_cumsum(x, 1)), *down = on_host(talc_cumsum(x, -2));
    for (int i = 0; i < 6; i++)
        cr_assert(element_at(along, i) == rows[i] && element_at(down, i) == columns[i],
                  "element %d: %g, %g", i, element_at(along, i), element_at(down, i));
    /* f64 keeps what f32 would lose: 2^24 ones more are no ones less. */
    const float steep[] = { 0x1p25F, 1, 1, 1, 1, -0x1p25F };
    const talc_tensor *y =
        on_host(talc_cumsum(talc_from_host(tested_device(), TALC_F32, TALC_DIMS(6), steep), 0));
    cr_assert(element_at(y, 4) == 0x1p25 + 4 && element_at(y, 5) == 4);
}

Test(cumsum, scalars_and_nothing)
{
    talc_device *device = tested_device();
    cr_assert(talc_item(talc_cumsum(talc_full(device, TALC_F64, TALC_SCALAR, 3.5), -1)) == 3.5);
    for (int dim = 0; dim < 2; dim++) {
        talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(3, 0));
        talc_require_grad(x, true);
        const talc_tensor *y = talc_cumsum(x, dim);
        cr_assert(y != NULL && y->rank == 2 && y->dims[0] == 3 && y->dims[1] == 0);
        cr_assert(talc_backward(talc_sum(y, TALC_SCALAR, false)) && talc_numel(talc_grad(x)) == 0);
    }
}

/* On either side of the first one that is not finite, at the seams of blocks too. */
Test(cumsum, numbers_that_are_not_finite_are_in_their_sums_alone)
{
    static double values[3000];
    const double odd[] = { NAN, INFINITY, -(double)INFINITY };
    const int indices[] = { 0, 3, 4, 31, 32, 127, 128, 1023, 1024, 2999 };
    for (int o = 0; o < 3; o++)
        for (int p = 0; p < 10; p++) {
            talc_scope *scope = talc_scope_enter();
            for (int i = 0; i < 3000; i++)
                values[i] = i == indices[p] ? odd[o] : 1;
            const talc_tensor *x =
                talc_from_host(tested_device(), TALC_F64, TALC_DIMS(3000), values);
            const talc_tensor *y = on_host(talc_cumsum(x, 0));
            for (int i = 0; i < 3000; i++)
                if (i < indices[p] || !isnan(odd[o]))
                    cr_assert(element_at(y, i) == (i < indices[p] ? i + 1 : odd[o]),
                              "%g at %d: element %d is %g", odd[o], indices[p], i,
                              element_at(y, i));
                else
                    cr_assert(isnan(element_at(y, i)), "element %d of NaN at %d", i, indices[p]);
            talc_scope_leave(scope);
        }
}

// ---- Gradients ----------------------------------------------------------------------------------

/* dx is the sum of dy from its place on: of small integers, which have no rounding. */
static void check_gradient(talc_dtype dtype, talc_dims shape, int dim, bool transposed)
{
    char text[TALC_DIMS_TEXT];
    talc_tensor *x = talc_zeros(tested_device(), dtype, shape);
    talc_require_grad(x, true);
    const talc_tensor *y = talc_cumsum(x, dim - shape.rank);
    const int64_t count = talc_numel(y), step = step_along(y, dim);
    int64_t *numbers = malloc((size_t)count * sizeof *numbers),
            *expected = malloc((size_t)count * sizeof *expected);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = i * 7 % 11 - 3;
    for (int64_t i = count - 1; i >= 0; i--)
        expected[i] =
            numbers[i] + (i / step % shape.dim[dim] + 1 < shape.dim[dim] ? expected[i + step] : 0);
    talc_tensor *dy = talc_cast(talc_from_host(tested_device(), TALC_I64, shape, numbers), dtype);
    if (transposed) { /* the same numbers, last dimension first in memory */
        const int last = shape.rank - 1;
        dy = talc_transpose(talc_contiguous(talc_transpose(dy, 0, last)), 0, last);
    }
    cr_assert(talc_backward_from(y, dy), "%s", talc_error_message());
    const talc_tensor *got = on_host(talc_grad(x));
    for (int64_t i = 0; i < count; i++)
        cr_assert(element_at(got, i) == (double)expected[i],
                  "%s along %d: element %d is %g, not %d", talc_dims_text(shape, text), dim, (int)i,
                  element_at(got, i), (int)expected[i]);
    free(numbers);
    free(expected);
}

Test(cumsum, gradients_are_sums_from_the_end)
{
    for (int s = 0; s < SHAPES; s++)
        for (int dim = 0; dim < shapes[s].rank; dim++)
            for (int transposed = 0; transposed < 2; transposed++) {
                talc_scope *scope = talc_scope_enter();
                check_gradient((s + dim) % 2 == 0 ? TALC_F32 : TALC_F64, shapes[s], dim,
                               transposed == 1);
                talc_scope_leave(scope);
            }
    check_gradient(TALC_F32, TALC_DIMS(37, 33000), 0, false);
}
