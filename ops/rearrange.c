#include "ops/rearrange.h"

#include "ops/compare.h"
#include "ops/gather.h"
#include "ops/operand.h"
#include "tensor/autograd.h"
#include "tensor/extent.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tape.h"

#include <inttypes.h>

// ---- flip ---------------------------------------------------------------------------------------

/* The problem is the dimensions. */
static void flip_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    gradients[0] = talc_flip(dy, *(const talc_dims *)talc_node_problem(node));
}

static bool check_flip(const talc_tensor *x, talc_dims *dims)
{
    if (talc_operand_missing("flip", "x", x))
        return false;
    bool flipped[TALC_MAX_RANK] = { false };
    if (dims->rank < 0 || dims->rank > x->rank)
        talc_fail(TALC_BAD_ARGUMENT, "flip: %d dimensions are listed, x has rank %d", dims->rank,
                  x->rank);
    for (int i = 0; i < dims->rank && !talc_failed(); i++) {
        int axis;
        if (talc_shape_dim("flip", (int)dims->dim[i], x->rank, &axis) != TALC_OK)
            return false;
        if (flipped[axis])
            talc_fail(TALC_BAD_ARGUMENT, "flip: dimension %d is listed twice", axis);
        flipped[axis] = true;
        dims->dim[i] = axis;
    }
    return !talc_failed();
}

/* y, or x itself where nothing has to move. */
static talc_tensor *reversed(const talc_tensor *x, int axis)
{
    const double last = (double)x->dims[axis] - 1;
    talc_tensor *index = talc_arange(x->device, TALC_I64, last, -1, -1);
    talc_tensor *y = index == NULL ? NULL : talc_index_select(x, axis, index);
    talc_release(index);
    return y;
}

talc_tensor *talc_flip(const talc_tensor *x, talc_dims dims)
{
    if (!check_flip(x, &dims))
        return NULL;
    talc_no_grad_enter();
    talc_tensor *y = NULL;
    for (int i = 0; i < dims.rank && !talc_failed(); i++) {
        talc_tensor *before = y;
        if (x->dims[dims.dim[i]] > 1)
            y = reversed(before == NULL ? x : before, (int)dims.dim[i]);
        if (y != before)
            talc_release(before);
    }
    if (y == NULL && !talc_failed())
        y = talc_clone_for("flip", x);
    talc_no_grad_leave();
    if (y == NULL || !talc_tape_wants_one(x))
        return y;
    return talc_tape_record(y, &(talc_record){ .op = "flip",
                                               .rule = flip_gradient,
                                               .inputs = &x,
                                               .input_count = 1,
                                               .problem = &dims,
                                               .problem_bytes = sizeof dims });
}

// ---- tile ---------------------------------------------------------------------------------------

/* x [outer, inner] to [outer, repeats, inner], which is repetition along whatever dimension begins
 * `inner`: one copy. */
static talc_tensor *repeated(const talc_tensor *x, int64_t outer, int64_t inner, int64_t repeats)
{
    talc_tensor *rows = talc_reshape(x, TALC_DIMS(outer, 1, inner));
    talc_tensor *wide = rows == NULL ? NULL : talc_expand(rows, TALC_DIMS(outer, repeats, inner));
    talc_tensor *y = wide == NULL ? NULL : talc_clone(wide);
    talc_release(rows);
    talc_release(wide);
    return y;
}

/* The first `count` elements: all, or none. */
static talc_tensor *copied(const talc_tensor *x, int64_t count)
{
    talc_tensor *line = talc_reshape(x, TALC_DIMS(talc_numel(x)));
    talc_tensor *some = line == NULL ? NULL : talc_slice(line, 0, 0, count, 1);
    talc_tensor *y = some == NULL ? NULL : talc_clone(some);
    talc_release(line);
    talc_release(some);
    return y;
}

static bool check_tile(const talc_tensor *x, const talc_dims *repeats)
{
    if (talc_operand_missing("tile", "x", x))
        return false;
    if (repeats->rank < 0 || repeats->rank > TALC_MAX_RANK)
        talc_fail(TALC_BAD_ARGUMENT, "tile: %d repeats are outside 0..%d", repeats->rank,
                  TALC_MAX_RANK);
    for (int i = 0; i < repeats->rank && !talc_failed(); i++)
        if (repeats->dim[i] < 0)
            talc_fail(TALC_BAD_ARGUMENT, "tile: repeat %d is %" PRId64 ", must not be negative", i,
                      repeats->dim[i]);
    return !talc_failed();
}

talc_tensor *talc_tile(const talc_tensor *x, talc_dims repeats)
{
    if (!check_tile(x, &repeats))
        return NULL;
    talc_dims dims = { .rank = x->rank > repeats.rank ? x->rank : repeats.rank };
    int64_t times[TALC_MAX_RANK], count, inner = 1;
    const int64_t given = talc_numel(x);
    for (int i = 0; i < dims.rank; i++) {
        const int of_x = i - (dims.rank - x->rank), of_repeats = i - (dims.rank - repeats.rank);
        const int64_t extent = of_x < 0 ? 1 : x->dims[of_x];
        times[i] = of_repeats < 0 ? 1 : repeats.dim[of_repeats];
        if (!talc_multiply(extent, times[i], &dims.dim[i])) {
            talc_fail(TALC_TOO_LARGE,
                      "tile: extent %" PRId64 " times %" PRId64 " exceeds INT64_MAX", extent,
                      times[i]);
            return NULL;
        }
    }
    if (talc_shape_check("tile", x->dtype, dims, &count) != TALC_OK)
        return NULL;
    int64_t outer = given;
    /* From the last dimension on, so that what stands behind it is as it will be. */
    talc_tensor *y = given < count ? talc_retain((talc_tensor *)x) : copied(x, count);
    for (int i = dims.rank - 1; i >= 0 && y != NULL && given < count; i--) {
        const int of_x = i - (dims.rank - x->rank);
        const int64_t extent = of_x < 0 ? 1 : x->dims[of_x];
        outer /= extent;
        inner *= extent;
        if (times[i] != 1) {
            talc_tensor *before = y;
            y = repeated(before, outer, inner, times[i]);
            talc_release(before);
            inner *= times[i];
        }
    }
    talc_tensor *shaped = y == NULL ? NULL : talc_reshape(y, dims);
    talc_release(y);
    return shaped;
}

// ---- tril and triu ------------------------------------------------------------------------------

static talc_tensor *triangle(const char *op, const talc_tensor *x, int64_t diagonal, bool lower)
{
    char text[TALC_DIMS_TEXT];
    if (talc_operand_missing(op, "x", x))
        return NULL;
    if (x->rank < 2) {
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has rank %d, needs at least 2", op,
                  talc_dims_text(talc_dims_of(x), text), x->rank);
        return NULL;
    }
    const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    const double start = (double)talc_between(diagonal, -rows - 1, columns + 1);
    talc_tensor *column = talc_arange(x->device, TALC_I64, 0, (double)columns, 1);
    talc_tensor *ends = talc_arange(x->device, TALC_I64, start, start + (double)rows, 1);
    talc_tensor *end = ends == NULL ? NULL : talc_unsqueeze(ends, 1);
    talc_tensor *kept = talc_failed() ? NULL
                        : lower       ? talc_less_equal(column, end)
                                      : talc_greater_equal(column, end);
    talc_tensor *zero = kept == NULL ? NULL : talc_zeros(x->device, x->dtype, TALC_SCALAR);
    talc_tensor *y = zero == NULL ? NULL : talc_where(kept, x, zero);
    talc_tensor *const made[] = { column, ends, end, kept, zero };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        talc_release(made[i]);
    return y;
}

talc_tensor *talc_tril(const talc_tensor *x, int64_t diagonal)
{
    return triangle("tril", x, diagonal, true);
}

talc_tensor *talc_triu(const talc_tensor *x, int64_t diagonal)
{
    return triangle("triu", x, diagonal, false);
}
