/* flip, tile, tril and triu: values by index for every dtype and kind of view, what a tile of
 * nothing has as its gradient, and every message. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>

/* The coordinates of an element of a shape. */
static void coordinates(talc_dims dims, int64_t element, int64_t at[TALC_MAX_RANK])
{
    for (int i = dims.rank - 1; i >= 0; i--) {
        at[i] = element % dims.dim[i];
        element /= dims.dim[i];
    }
}

static int64_t number_of(talc_dims dims, const int64_t at[TALC_MAX_RANK])
{
    int64_t number = 0;
    for (int i = 0; i < dims.rank; i++)
        number = number * dims.dim[i] + at[i];
    return number;
}

/* Of x [2,3,4]. */
static void check_flips(const talc_tensor *x)
{
    for (int listed = 0; listed < 8; listed++) {
        talc_dims dims = { 0 };
        for (int d = 0; d < 3; d++)
            if ((listed >> d & 1) != 0)
                dims.dim[dims.rank++] = d % 2 == 0 ? d : d - 3;
        const talc_tensor *y = talc_flip(x, dims);
        assert_no_failure();
        cr_assert(talc_same_dims(x, y) && talc_is_contiguous(y) && y->data != x->data);
        for (int64_t i = 0; i < 24; i++) {
            int64_t at[TALC_MAX_RANK];
            coordinates(talc_dims_of(y), i, at);
            for (int d = 0; d < 3; d++)
                at[d] = (listed >> d & 1) != 0 ? x->dims[d] - 1 - at[d] : at[d];
            cr_assert(element_at(y, i) == element_at(x, number_of(talc_dims_of(x), at)),
                      "dimensions %d: element %d", listed, (int)i);
        }
    }
}

static void check_tiles(const talc_tensor *x)
{
    const talc_dims cases[] = { { 0, { 0 } },          { 1, { 1 } },       { 1, { 3 } },
                                { 3, { 2, 1, 3 } },    { 2, { 2, 2 } },    { 5, { 2, 1, 3, 1, 2 } },
                                { 4, { 3, 1, 1, 1 } }, { 3, { 1, 4, 1 } }, { 3, { 1, 0, 2 } } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const talc_tensor *y = talc_tile(x, cases[c]);
        assert_no_failure();
        const int rank = cases[c].rank > 3 ? cases[c].rank : 3;
        cr_assert(y->rank == rank && talc_is_contiguous(y) && y->data != x->data);
        for (int d = 0; d < rank; d++) {
            const int of_x = d - (rank - 3), of_repeats = d - (rank - cases[c].rank);
            cr_assert(y->dims[d] == (of_x < 0 ? 1 : x->dims[of_x]) *
                                        (of_repeats < 0 ? 1 : cases[c].dim[of_repeats]),
                      "case %zu: dimension %d", c, d);
        }
        for (int64_t i = 0; i < talc_numel(y); i++) {
            int64_t at[TALC_MAX_RANK];
            coordinates(talc_dims_of(y), i, at);
            for (int d = 0; d < 3; d++)
                at[d] = at[d + rank - 3] % x->dims[d];
            cr_assert(element_at(y, i) == element_at(x, number_of(talc_dims_of(x), at)),
                      "case %zu: element %d", c, (int)i);
        }
    }
}

static void check_triangles(const talc_tensor *x)
{
    for (int64_t diagonal = -5; diagonal <= 6; diagonal++) {
        const int64_t by = diagonal == 6 ? INT64_MAX : diagonal == -5 ? INT64_MIN : diagonal;
        const talc_tensor *lower = talc_tril(x, by), *upper = talc_triu(x, by);
        assert_no_failure();
        for (int64_t i = 0; i < talc_numel(x); i++) {
            const int64_t off = i % 4 - i / 4 % 3;
            cr_assert(element_at(lower, i) == (off <= diagonal ? element_at(x, i) : 0),
                      "tril by %d: element %d", (int)diagonal, (int)i);
            cr_assert(element_at(upper, i) == (off >= diagonal ? element_at(x, i) : 0),
                      "triu by %d: element %d", (int)diagonal, (int)i);
        }
    }
}

Test(rearrange, views_of_every_dtype)
{
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            owned_scope *scope = talc_scope_enter();
            const talc_tensor *x = random_view(view, (talc_dtype)dtype, TALC_DIMS(2, 3, 4), 7);
            check_flips(x);
            check_tiles(x);
            check_triangles(x);
        }
}

Test(rearrange, what_a_triangle_leaves_out_is_zero_though_it_be_nan)
{
    const talc_tensor *x = talc_full(cpu_device(), TALC_F32, TALC_DIMS(2, 2), (double)NAN);
    const talc_tensor *y = talc_tril(x, 0);
    cr_assert(element_at(y, 1) == 0 && isnan(element_at(y, 0)) && isnan(element_at(y, 2)));
}

Test(rearrange, empty_operands_and_no_copies)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2, 3));
    talc_require_grad(x, true);
    const talc_tensor *y = talc_tile(x, TALC_DIMS(0, 2));
    cr_assert(y->rank == 2 && y->dims[0] == 0 && y->dims[1] == 6);
    cr_assert(talc_backward(talc_sum(y, TALC_SCALAR, false)));
    for (int i = 0; i < 6; i++)
        cr_assert(element_at(talc_grad(x), i) == 0);
    talc_tensor *empty = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(3, 0));
    cr_assert(talc_tile(empty, TALC_DIMS(2, 2))->dims[0] == 6);
    cr_assert(talc_same_dims(talc_flip(empty, TALC_DIMS(0, 1)), empty));
    cr_assert(talc_same_dims(talc_tril(empty, 0), empty) &&
              talc_same_dims(talc_triu(empty, 0), empty));
    assert_no_failure();
}

Test(rearrange, mistakes_are_named)
{
    const talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2, 3));
    const talc_tensor *line = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(3));
    cr_assert_null(talc_flip(x, TALC_DIMS(2)));
    assert_failure(TALC_BAD_ARGUMENT, "flip: dimension 2 is outside a tensor of rank 2");
    cr_assert_null(talc_flip(x, TALC_DIMS(1, -1)));
    assert_failure(TALC_BAD_ARGUMENT, "flip: dimension 1 is listed twice");
    cr_assert_null(talc_flip(x, TALC_DIMS(0, 1, 0)));
    assert_failure(TALC_BAD_ARGUMENT, "flip: 3 dimensions are listed, x has rank 2");
    cr_assert_null(talc_tile(x, TALC_DIMS(2, -1)));
    assert_failure(TALC_BAD_ARGUMENT, "tile: repeat 1 is -1, must not be negative");
    cr_assert_null(talc_tile(x, TALC_DIMS(2, INT64_MAX)));
    assert_failure_with(TALC_TOO_LARGE, "tile: extent 3 times %lld exceeds INT64_MAX",
                        (long long)INT64_MAX);
    cr_assert_null(talc_tril(line, 0));
    assert_failure(TALC_BAD_SHAPE, "tril: x [3] has rank 1, needs at least 2");
    cr_assert_null(talc_triu(line, 0));
    assert_failure(TALC_BAD_SHAPE, "triu: x [3] has rank 1, needs at least 2");
}
