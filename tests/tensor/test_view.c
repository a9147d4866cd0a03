#include "tests/support/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 3;

static int64_t draw(int64_t below)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

// ---- The model: a plain list of values in row-major order, copied by every step -----------------

enum { MAX = 4096 };

typedef struct model {
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t count;
    int64_t values[MAX];
} model;

static void model_index(const model *m, int64_t at, int64_t index[TALC_MAX_RANK])
{
    for (int i = m->rank - 1; i >= 0; i--) {
        index[i] = at % m->dims[i];
        at /= m->dims[i];
    }
}

static int64_t model_at(const model *m, const int64_t index[TALC_MAX_RANK])
{
    int64_t at = 0;
    for (int i = 0; i < m->rank; i++)
        at = at * m->dims[i] + index[i];
    return m->values[at];
}

static int64_t model_count(int rank, const int64_t *dims)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    return count;
}

/* How a step maps an index of its result to one of its argument. */
typedef struct step {
    enum { SLICE, SELECT, PERMUTE, EXPAND, SQUEEZE, UNSQUEEZE } kind;
    int dim;
    int64_t start, step;
    int64_t axes[TALC_MAX_RANK];
} step;

static void model_apply(model *m, const step *s, int rank, const int64_t *dims)
{
    static model next;
    next.rank = rank;
    memcpy(next.dims, dims, sizeof(int64_t) * (size_t)rank);
    next.count = model_count(rank, dims);
    for (int64_t at = 0; at < next.count; at++) {
        int64_t index[TALC_MAX_RANK] = { 0 }, from[TALC_MAX_RANK] = { 0 };
        model_index(&next, at, index);
        for (int i = 0; i < m->rank; i++) {
            int shift = rank - m->rank;
            switch (s->kind) {
            case SLICE:
                from[i] = i == s->dim ? s->start + index[i] * s->step : index[i];
                break;
            case SELECT:
                from[i] = i == s->dim ? s->start : index[i < s->dim ? i : i - 1];
                break;
            case PERMUTE:
                for (int j = 0; j < rank; j++)
                    if (s->axes[j] == i)
                        from[i] = index[j];
                break;
            case EXPAND:
                from[i] = m->dims[i] == 1 ? 0 : index[i + shift];
                break;
            case SQUEEZE:
                from[i] = i == s->dim ? 0 : index[i < s->dim ? i : i - 1];
                break;
            case UNSQUEEZE:
                from[i] = index[i < s->dim ? i : i + 1];
                break;
            }
        }
        next.values[at] = model_at(m, from);
    }
    *m = next;
}

static void assert_model(const talc_tensor *t, const model *m, const char *what)
{
    assert_no_failure();
    cr_assert(t->rank == m->rank, "%s: rank %d instead of %d", what, t->rank, m->rank);
    for (int i = 0; i < m->rank; i++)
        cr_assert(t->dims[i] == m->dims[i], "%s: dimension %d is %d instead of %d", what, i,
                  (int)t->dims[i], (int)m->dims[i]);
    static int64_t values[MAX];
    cr_assert(talc_to_host(t, values, (size_t)m->count * sizeof *values));
    cr_assert(memcmp(values, m->values, (size_t)m->count * sizeof *values) == 0,
              "%s: values differ", what);
    /* The strides themselves, not only what copying through them gives. */
    for (int64_t at = 0; at < m->count; at++) {
        int64_t index[TALC_MAX_RANK], offset = 0;
        model_index(m, at, index);
        for (int i = 0; i < m->rank; i++)
            offset += index[i] * t->strides[i];
        cr_assert(((const int64_t *)t->data)[offset] == m->values[at], "%s: element %d", what,
                  (int)at);
    }
}

// ---- Drawn steps --------------------------------------------------------------------------------

static int any_sign(int dim, int rank)
{
    return draw(2) == 0 ? dim : dim - rank;
}

static talc_tensor *draw_slice(const talc_tensor *t, model *m)
{
    step s = { .kind = SLICE, .dim = (int)draw(m->rank), .step = 1 + draw(3) };
    const int64_t extent = m->dims[s.dim];
    int64_t start = draw(2 * extent + 3) - extent - 1, end = draw(2 * extent + 3) - extent - 1;
    if (draw(3) == 0)
        end = TALC_END;
    talc_tensor *result = talc_slice(t, any_sign(s.dim, m->rank), start, end, s.step);
    /* Python's rule, counted out. */
    int64_t first = start < 0 ? start + extent : start, last = end < 0 ? end + extent : end;
    first = first < 0 ? 0 : first;
    int64_t dims[TALC_MAX_RANK];
    memcpy(dims, m->dims, sizeof dims);
    dims[s.dim] = 0;
    for (int64_t i = first; i < extent && i < last; i += s.step)
        dims[s.dim]++;
    s.start = first;
    model_apply(m, &s, m->rank, dims);
    return result;
}

static talc_tensor *draw_permute(const talc_tensor *t, model *m)
{
    step s = { .kind = PERMUTE };
    talc_dims axes = { .rank = m->rank };
    int64_t dims[TALC_MAX_RANK];
    for (int i = 0; i < m->rank; i++)
        s.axes[i] = i;
    for (int i = m->rank - 1; i > 0; i--) {
        int j = (int)draw(i + 1);
        int64_t swap = s.axes[i];
        s.axes[i] = s.axes[j];
        s.axes[j] = swap;
    }
    for (int i = 0; i < m->rank; i++) {
        dims[i] = m->dims[s.axes[i]];
        axes.dim[i] = any_sign((int)s.axes[i], m->rank);
    }
    model_apply(m, &s, m->rank, dims);
    return talc_permute(t, axes);
}

static talc_tensor *draw_expand(const talc_tensor *t, model *m)
{
    step s = { .kind = EXPAND };
    const int front = m->rank < 6 && m->count < MAX / 8 ? (int)draw(2) : 0;
    talc_dims to = { .rank = m->rank + front };
    int64_t dims[TALC_MAX_RANK];
    int64_t count = m->count;
    for (int i = 0; i < to.rank; i++) {
        int64_t extent = i < front ? 1 : m->dims[i - front];
        dims[i] = extent == 1 && count < MAX / 8 ? draw(4) : extent;
        count = count * dims[i] / (extent == 0 ? 1 : extent);
        to.dim[i] = dims[i] == extent && i >= front && draw(2) == 0 ? -1 : dims[i];
    }
    model_apply(m, &s, to.rank, dims);
    return talc_expand(t, to);
}

/* Cuts or joins dimensions at random; the values' order stays. */
static talc_tensor *draw_reshape(const talc_tensor *t, model *m)
{
    talc_dims to = { 0 };
    int64_t left = m->count;
    if (left == 0)
        return talc_reshape(t, talc_dims_of(t));
    while (left > 1 && to.rank < 5) {
        int64_t factor = 1 + draw(left < 12 ? left : 12);
        while (left % factor != 0)
            factor--;
        to.dim[to.rank++] = factor;
        left /= factor;
    }
    to.dim[to.rank++] = left;
    m->rank = to.rank;
    memcpy(m->dims, to.dim, sizeof m->dims);
    const int open = (int)draw(to.rank + 1);
    if (open < to.rank)
        to.dim[open] = -1;
    /* Where a view is possible, reshape must not copy; where it is not, view must say so. */
    talc_tensor *reshaped = talc_reshape(t, to), *viewed = talc_view(t, to);
    cr_assert((viewed != NULL) == (reshaped->storage == t->storage));
    if (viewed == NULL) {
        cr_assert(talc_error_status() == TALC_BAD_SHAPE);
        talc_error_clear();
        cr_assert(talc_is_contiguous(reshaped) && !talc_is_contiguous(t));
    }
    return reshaped;
}

static talc_tensor *draw_step(const talc_tensor *t, model *m, int kind)
{
    int64_t dims[TALC_MAX_RANK] = { 0 };
    if (kind == 0 && m->rank > 0)
        return draw_slice(t, m);
    if (kind == 1)
        return draw_permute(t, m);
    if (kind == 2)
        return draw_expand(t, m);
    if (kind == 3)
        return draw_reshape(t, m);
    if (kind == 4 && m->rank < 6) {
        step s = { .kind = UNSQUEEZE, .dim = (int)draw(m->rank + 1) };
        for (int i = 0; i <= m->rank; i++)
            dims[i] = i == s.dim ? 1 : m->dims[i < s.dim ? i : i - 1];
        talc_tensor *result = talc_unsqueeze(t, any_sign(s.dim, m->rank + 1));
        model_apply(m, &s, m->rank + 1, dims);
        return result;
    }
    if (kind >= 5 && m->rank > 0) {
        step s = { .kind = kind == 5 ? SELECT : SQUEEZE, .dim = (int)draw(m->rank) };
        const int64_t extent = m->dims[s.dim];
        if (extent == 0 || (kind == 6 && extent != 1) || m->rank == 1)
            return talc_contiguous(t);
        s.start = kind == 5 ? draw(extent) : 0;
        for (int i = 0; i < m->rank - 1; i++)
            dims[i] = m->dims[i < s.dim ? i : i + 1];
        talc_tensor *result = kind == 5 ? talc_select(t, any_sign(s.dim, m->rank),
                                                      draw(2) == 0 ? s.start : s.start - extent)
                                        : talc_squeeze(t, any_sign(s.dim, m->rank));
        model_apply(m, &s, m->rank - 1, dims);
        return result;
    }
    return talc_contiguous(t);
}

Test(view, chains_of_views_agree_with_a_model_that_copies)
{
    static model m;
    for (int chain = 0; chain < 3000; chain++) {
        owned_scope *scope = talc_scope_enter();
        m.rank = (int)draw(5);
        talc_dims dims = { .rank = m.rank };
        for (int i = 0; i < m.rank; i++)
            dims.dim[i] = m.dims[i] = draw(10) == 0 ? draw(2) : 1 + draw(5);
        m.count = model_count(m.rank, m.dims);
        for (int64_t i = 0; i < m.count; i++)
            m.values[i] = i;
        talc_tensor *t =
            talc_reshape(talc_arange(cpu_device(), TALC_I64, 0, (double)m.count, 1), dims);
        char what[80] = "";
        for (int i = 0; i < 8; i++) {
            const int kind = (int)draw(7);
            t = draw_step(t, &m, kind);
            snprintf(what, sizeof what, "chain %d, step %d of kind %d", chain, i, kind);
            assert_model(t, &m, what);
        }
    }
}

// ---- Single functions ---------------------------------------------------------------------------

Test(view, views_share_storage_and_keep_it_alive)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 24, 1);
    talc_tensor *views[] = {
        talc_view(x, TALC_DIMS(4, 6)),          talc_slice(x, 0, 2, 8, 3), talc_select(x, 0, 5),
        talc_expand(x, TALC_DIMS(2, 24)),       talc_unsqueeze(x, 0),      talc_flatten(x, 0, -1),
        talc_squeeze(talc_unsqueeze(x, 1), -1), talc_contiguous(x),        talc_cast(x, TALC_F32),
        talc_permute(x, TALC_DIMS(0))
    };
    const uint64_t version = talc_version(x);
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        cr_assert(views[i] != x && views[i]->storage == x->storage, "view %d", (int)i);
    cr_assert(talc_fill(views[1], 50));
    cr_assert(talc_version(x) == version + 1 && talc_version(views[0]) == version + 1);
    talc_release(x);
    cr_assert(talc_item(talc_select(talc_select(views[0], 0, 0), 0, 5)) == 50);
    cr_assert(talc_item(views[2]) == 50);
}

Test(view, flatten_joins_the_dimensions_named)
{
    talc_tensor *x =
        talc_view(talc_arange(cpu_device(), TALC_I32, 0, 120, 1), TALC_DIMS(2, 3, 4, 5));
    talc_tensor *middle = talc_flatten(x, 1, 2);
    cr_assert(middle->rank == 3 && middle->dims[1] == 12 && middle->storage == x->storage);
    cr_assert(talc_flatten(x, 2, 2)->rank == 4);
    talc_tensor *scalar = talc_flatten(talc_zeros(cpu_device(), TALC_F32, TALC_SCALAR), 0, -1);
    cr_assert(scalar->rank == 1 && scalar->dims[0] == 1);
    talc_tensor *copied = talc_flatten(talc_transpose(x, 1, 3), 1, 3);
    cr_assert(copied->storage != x->storage);
    const int32_t *data = talc_data(copied, TALC_I32);
    for (int i = 0; i < 120; i++) {
        const int a = i / 60, b = i / 12 % 5, c = i / 3 % 4, d = i % 3;
        cr_assert(data[i] == a * 60 + d * 20 + c * 5 + b);
    }
}

Test(view, a_permuted_view_is_not_viewable_flat_but_reshapes)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 6, 1);
    talc_tensor *t = talc_transpose(talc_view(x, TALC_DIMS(2, -1)), 0, 1);
    cr_assert_null(talc_view(t, TALC_DIMS(6)));
    assert_failure(TALC_BAD_SHAPE, "view: [3,2] with strides [1,3] cannot be seen as [6] without a "
                                   "copy (talc_reshape copies)");
    const float *data = talc_data(talc_reshape(t, TALC_DIMS(6)), TALC_F32);
    const float expected[] = { 0, 3, 1, 4, 2, 5 };
    for (int i = 0; i < 6; i++)
        cr_assert(data[i] == expected[i]);
}

Test(view, huge_steps_and_bounds_do_not_overflow)
{
    talc_tensor *x = talc_view(talc_arange(cpu_device(), TALC_F32, 0, 12, 1), TALC_DIMS(3, 4));
    talc_tensor *s = talc_slice(x, 0, 1, TALC_END, INT64_MAX);
    cr_assert(s->dims[0] == 1 && talc_item(talc_select(talc_select(s, 0, 0), 0, 2)) == 6);
    cr_assert(talc_slice(x, 0, INT64_MIN, INT64_MAX, 1)->dims[0] == 3);
    cr_assert(talc_slice(x, 0, INT64_MAX, INT64_MIN, 1)->dims[0] == 0);
}
