/* unfold and fold: by hand, by the definition over many windows and kinds of views, as each other's
 * gradient, and every message. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>

#define OPTIONS(...)                                                                               \
    &(talc_unfold_options)                                                                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const talc_tensor *numbers(talc_dims dims, const double *elements)
{
    return talc_cast(talc_from_host(tested_device(), TALC_F64, dims, elements), TALC_F32);
}

static void expect_elements(const talc_tensor *y, talc_dims dims, const double *expected)
{
    assert_no_failure();
    cr_assert(talc_same_dims(y, talc_empty(y->device, y->dtype, dims)));
    double got[64];
    cr_assert(talc_to_host(talc_cast(y, TALC_F64), got, (size_t)talc_numel(y) * sizeof *got));
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert(got[i] == expected[i], "element %d is %g instead of %g", (int)i, got[i],
                  expected[i]);
}

/* By hand: [[1,2,3],[4,5,6]] under 2x2, and 2x1 of stride 1x2 with a row of padding; what comes
 * back is each element times how often it was shown. */
Test(unfold, by_hand)
{
    const double image[] = { 1, 2, 3, 4, 5, 6 };
    const talc_tensor *x = numbers(TALC_DIMS(1, 2, 3), image);
    const double windows[] = { 1, 2, 2, 3, 4, 5, 5, 6 };
    const talc_tensor *y = talc_unfold(x, OPTIONS(.kernel = { 2, 2 }));
    expect_elements(y, TALC_DIMS(4, 2), windows);
    const double shown[] = { 1, 4, 3, 4, 10, 6 };
    expect_elements(talc_fold(y, 2, 3, OPTIONS(.kernel = { 2, 2 })), TALC_DIMS(1, 2, 3), shown);

    const talc_unfold_options padded = { .kernel = { 2, 1 },
                                         .stride = { 1, 2 },
                                         .padding = { 1, 0 } };
    const double rows[] = { 0, 0, 1, 3, 4, 6, 1, 3, 4, 6, 0, 0 };
    const talc_tensor *z = talc_unfold(x, &padded);
    expect_elements(z, TALC_DIMS(2, 6), rows);
    const double twice[] = { 2, 0, 6, 8, 0, 12 };
    expect_elements(talc_fold(z, 2, 3, &padded), TALC_DIMS(1, 2, 3), twice);
}

/* PyTorch's numbers: F.unfold(torch.arange(24.).reshape(1,2,3,4), (2,3), dilation=(2,1),
 * padding=(1,1), stride=(2,2)), and F.fold of that. */
Test(unfold, channels_stand_one_after_the_other)
{
    const talc_tensor *x =
        talc_reshape(talc_arange(tested_device(), TALC_F64, 0, 24, 1), TALC_DIMS(1, 2, 3, 4));
    const talc_unfold_options options = {
        .kernel = { 2, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .dilation = { 2, 1 }
    };
    const double expected[] = { 0, 0, 0,  5,  0, 0,  4, 6, 0,  0,  5, 7,  0,  5,  0,  0,
                                4, 6, 0,  0,  5, 7,  0, 0, 0,  0,  0, 17, 0,  0,  16, 18,
                                0, 0, 17, 19, 0, 17, 0, 0, 16, 18, 0, 0,  17, 19, 0,  0 };
    expect_elements(talc_unfold(x, &options), TALC_DIMS(1, 12, 4), expected);
    const double folded[] = { 0, 0, 0, 0, 8,  20, 12, 14, 0, 0, 0, 0,
                              0, 0, 0, 0, 32, 68, 36, 38, 0, 0, 0, 0 };
    expect_elements(talc_fold(talc_unfold(x, &options), 3, 4, &options), TALC_DIMS(1, 2, 3, 4),
                    folded);
}

/* Whether two results have the same bits, wherever they are. */
static bool agree(const talc_tensor *a, const talc_tensor *b)
{
    return same_bits(talc_to(a, cpu_device(), a->dtype), talc_to(b, cpu_device(), b->dtype));
}

/* Views, in both types: what unfold gives of one is what it gives of its copy. */
Test(unfold, takes_views)
{
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            owned_scope *scope = talc_scope_enter();
            const talc_tensor *x =
                talc_to(random_view(view, (talc_dtype)dtype, TALC_DIMS(2, 3, 6, 5), 7),
                        tested_device(), (talc_dtype)dtype);
            const talc_unfold_options options = { .kernel = { 3, 2 }, .padding = { 1, 1 } };
            const talc_tensor *y = talc_unfold(x, &options);
            cr_assert(agree(y, talc_unfold(talc_clone(x), &options)));
            const talc_tensor *t = talc_transpose(talc_clone(talc_transpose(y, 1, 2)), 1, 2);
            cr_assert(agree(talc_fold(t, 6, 5, &options), talc_fold(y, 6, 5, &options)));
            assert_no_failure();
        }
}

Test(unfold, nothing_of_no_images)
{
    const talc_tensor *x = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(0, 2, 4, 4));
    const talc_tensor *y = talc_unfold(x, OPTIONS(.kernel = { 3, 3 }));
    cr_assert(y->rank == 3 && y->dims[0] == 0 && y->dims[1] == 18 && y->dims[2] == 4);
    cr_assert(talc_same_dims(talc_fold(y, 4, 4, OPTIONS(.kernel = { 3, 3 })), x));
}

#define REFUSED(status, message, call)                                                             \
    cr_assert_null(call);                                                                          \
    assert_failure(status, message)

Test(unfold, mistakes_are_named)
{
    const talc_tensor *x = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(1, 2, 4, 5));
    const talc_tensor *m = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(1, 8, 12));
    const talc_unfold_options two = { .kernel = { 2, 2 } };
    // clang-format off
    REFUSED(TALC_NULL_ARGUMENT, "unfold: options is NULL", talc_unfold(x, NULL));
    REFUSED(TALC_BAD_SHAPE, "unfold: x [12] has rank 1, needs 4: [N,C,H,W], or 3: [C,H,W]",
            talc_unfold(talc_zeros(tested_device(), TALC_F32, TALC_DIMS(12)), &two));
    REFUSED(TALC_BAD_SHAPE, "fold: x [1,2,4,5] has rank 4, needs 3: [N,C*KH*KW,OH*OW], or 2: [C*KH*KW,OH*OW]",
            talc_fold(x, 4, 5, &two));
    REFUSED(TALC_BAD_ARGUMENT, "unfold: kernel [0,2] must be at least 1", talc_unfold(x, OPTIONS(.kernel = { 0, 2 })));
    REFUSED(TALC_BAD_ARGUMENT, "unfold: stride [-1,-1] must be at least 1", talc_unfold(x, OPTIONS(.kernel = { 1, 1 }, .stride = { -1 })));
    REFUSED(TALC_BAD_ARGUMENT, "unfold: dilation [2,-1] must be at least 1", talc_unfold(x, OPTIONS(.kernel = { 1, 1 }, .dilation = { 2, -1 })));
    REFUSED(TALC_BAD_ARGUMENT, "fold: padding [0,-1] must be at least 0", talc_fold(m, 4, 5, OPTIONS(.kernel = { 2, 2 }, .padding = { 0, -1 })));
    REFUSED(TALC_BAD_ARGUMENT, "fold: the image [0,5] must be at least 1", talc_fold(m, 0, 5, &two));
    REFUSED(TALC_BAD_SHAPE, "unfold: the kernel [3,2] with dilation [2,1] does not fit the image [4,5] with padding [0,3]",
            talc_unfold(x, OPTIONS(.kernel = { 3, 2 }, .dilation = { 2, 1 }, .padding = { 0, 3 })));
    REFUSED(TALC_BAD_SHAPE, "fold: x [1,8,12] has 8 rows, no multiple of the kernel's 3x1 = 3", talc_fold(m, 4, 5, OPTIONS(.kernel = { 3, 1 })));
    REFUSED(TALC_BAD_SHAPE, "fold: x [1,8,12] has 12 columns, an image [4,4] has 3x3 = 9 windows", talc_fold(m, 4, 4, &two));
    // clang-format on
    const int64_t huge = INT64_MAX / 2;
    cr_assert_null(talc_unfold(x, OPTIONS(.kernel = { 2, 2 }, .padding = { huge, 0 })));
    cr_assert(talc_error_status() == TALC_BAD_SHAPE);
    talc_error_clear();
}
