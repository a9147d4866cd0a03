/// cumsum as a caller has it: by hand, without elements, of numbers that are not finite. The values
/// of its algorithms, and their gradients, are held by test_algorithms.c.
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>

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
            owned_scope *scope = talc_scope_enter();
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
        }
}
