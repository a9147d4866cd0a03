/* cumprod on any device: by hand, against products in long double over views, and gradients of
 * lines with zeros against PyTorch's. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdio.h>

static void expect(const char *what, const talc_tensor *got, const double *expected)
{
    got = on_host(got);
    for (int64_t i = 0; i < talc_numel(got); i++)
        cr_assert(element_at(got, i) == expected[i], "%s: element %d is %g, expected %g", what,
                  (int)i, element_at(got, i), expected[i]);
}

/* Zeros once and twice in a line, and none. PyTorch 2.15, torch.cumprod in float64; every product
 * is exact. */
Test(cumprod, values_and_gradients_by_pytorch)
{
    static const double x_values[] = {
        0.5, -2, 3, 0, 1.5, 2, 0, 0, -1, 4, -1.25, 0.75, 2, -3, 0.125
    };
    static const double dy_values[] = { 1, -2, 0.5, 3, 2, 0.25, 1, 2, -1, 1, 1, 2, -1, 0.5, 4 };
    static const double y[2][15] = {
        { 0.5, -2, 3, 0, 1.5, 1, 0, 0, 0, 6, -1.25, 0, 0, 0, 0.75 },
        { 0.5, -1, -3, 0, 0, 2, 0, 0, 0, 0, -1.25, -0.9375, -1.875, 5.625, 0.703125 },
    };
    static const double dx[2][15] = {
        { -1, -2, 0.5, 5.5, 8, -0.5, -5, 0, 0, 2.25, 1, 0, 0, 0, 24 },
        { 2, -0.25, -0.5, -18, 0, 0.25, 2, 0, 0, 0, -3.5, 7.5, 3.75, -1.875, 22.5 },
    };
    talc_device *device = tested_device();
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++)
        for (int dim = 0; dim < 2; dim++) {
            owned_scope *scope = talc_scope_enter();
            const talc_dims dims = TALC_DIMS(3, 5);
            talc_tensor *x = talc_cast(talc_from_host(device, TALC_F64, dims, x_values), dtype);
            talc_tensor *dy = talc_cast(talc_from_host(device, TALC_F64, dims, dy_values), dtype);
            talc_require_grad(x, true);
            talc_tensor *got = talc_cumprod(x, dim - 2);
            cr_assert(talc_backward_from(got, dy), "%s", talc_error_message());
            expect("y", got, y[dim]);
            expect("dx", talc_grad(x), dx[dim]);
        }
    assert_all_freed();
}

static void check(const talc_tensor *x, int dim)
{
    char text[TALC_DIMS_TEXT];
    const talc_tensor *from = on_host(x), *got = on_host(talc_cumprod(x, dim));
    const double unit = x->dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
    int64_t step = 1;
    for (int d = dim + 1; d < x->rank; d++)
        step *= x->dims[d];
    for (int64_t i = 0; i < talc_numel(got); i++) {
        const int64_t at = i / step % x->dims[dim];
        long double product = 1;
        for (int64_t j = at; j >= 0; j--)
            product *= element_at(from, i - j * step);
        const long double bound =
            fabsl(product) * (x->dtype == TALC_F32 ? unit + at * 0x1p-53 : (double)at * unit);
        cr_assert(fabsl(element_at(got, i) - product) <= bound,
                  "%s %s along %d: element %d is %g, expected %Lg", talc_dtype_name(x->dtype),
                  talc_dims_text(talc_dims_of(x), text), dim, (int)i, element_at(got, i), product);
    }
}

/* Elements from 0.75 to 1.25 in size, so that products keep away from the ends of f32. */
Test(cumprod, products_of_the_elements_so_far)
{
    static const talc_dims shapes[] = { { 1, { 1 } },         { 1, { 70 } },
                                        { 2, { 3, 65 } },     { 2, { 65, 3 } },
                                        { 2, { 33, 33 } },    { 3, { 2, 31, 5 } },
                                        { 4, { 2, 3, 4, 5 } } };
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            owned_scope *scope = talc_scope_enter();
            const talc_dtype dtype = (s + view) % 2 == 0 ? TALC_F32 : TALC_F64;
            const talc_tensor *x = random_view(view, dtype, shapes[s], (uint64_t)s);
            x = talc_add_scalar(talc_mul_scalar(x, 0.25), 1);
            x = talc_to(x, tested_device(), dtype);
            for (int dim = 0; dim < x->rank; dim++) {
                check(x, dim);
                if (x->rank > 1)
                    check(talc_slice(talc_transpose(x, 0, x->rank - 1), 0, 0, TALC_END, 2), dim);
            }
        }
}

/* In f64, product by product: 1e-30 twice is no f32 any more, and 1e30 brings it back. */
Test(cumprod, f32_is_multiplied_in_f64)
{
    static const float values[] = { 1e-30F, 1e-30F, 1e30F, 1e30F };
    const talc_tensor *y =
        on_host(talc_cumprod(talc_from_host(tested_device(), TALC_F32, TALC_DIMS(4), values), 0));
    cr_assert(element_at(y, 1) == 0 && fabs(element_at(y, 3) - 1) < 1e-6, "%g, %g",
              element_at(y, 1), element_at(y, 3));
}

Test(cumprod, scalars_and_nothing)
{
    talc_device *device = tested_device();
    cr_assert(talc_item(talc_cumprod(talc_full(device, TALC_F64, TALC_SCALAR, 3.5), -1)) == 3.5);
    talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(3, 0));
    talc_require_grad(x, true);
    cr_assert(talc_backward(talc_sum(talc_cumprod(x, 1), TALC_SCALAR, false)));
    assert_no_failure();
}
