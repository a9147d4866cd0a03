/* Copies, casts, elementwise ops and batch norms of arrays of every layout, on the device under
 * test: dimensions in any order, gaps, starts that no pack of elements begins at, extents around
 * those that kernels work in. Numbers are small integers, which every type holds; what is due comes
 * from loops over the strides of the operands. */
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "ops/backend.h"

#include <math.h>
#include <stdlib.h>

enum { GAP = 77 };

/* Rows, columns: of tiles and slabs, and a little off. */
static const int64_t extents[][2] = {
    { 64, 64 },  { 128, 260 }, { 130, 67 },  { 65, 192 }, { 49, 512 }, { 512, 49 },
    { 3, 992 },  { 992, 3 },   { 16, 272 },  { 272, 16 }, { 100, 40 }, { 31, 33 },
    { 8, 129 },  { 129, 8 },   { 34, 1000 }, { 5, 700 },  { 700, 6 },  { 1, 90 },
    { 3, 2048 }, { 2048, 3 },  { 24, 256 },  { 256, 24 },
};
enum { EXTENTS = sizeof extents / sizeof *extents };

/* How an array of some shape lies in a larger one. */
enum { WHOLE, LATER, WIDER, STEPPED, LAYOUTS };

/* The array that a view of this shape and layout is taken of, and the view. */
static talc_dims base_dims(talc_dims dims, int layout)
{
    const int last = dims.rank - 1;
    if (layout == LATER)
        dims.dim[0] += 1, dims.dim[last] += 1;
    if (layout == WIDER)
        dims.dim[last] += 16;
    if (layout == STEPPED)
        dims.dim[last] *= 2;
    return dims;
}

static talc_tensor *view_in(talc_tensor *base, int layout)
{
    const int last = base->rank - 1;
    if (layout == LATER)
        return talc_slice(talc_slice(base, 0, 1, TALC_END, 1), last, 1, TALC_END, 1);
    if (layout == WIDER)
        return talc_slice(base, last, 0, base->dims[last] - 16, 1);
    return layout == STEPPED ? talc_slice(base, last, 0, TALC_END, 2) : base;
}

/* 0 .. 199 without a pattern, different for each seed, on the CPU. */
static talc_tensor *numbers(talc_dims dims, unsigned seed)
{
    talc_tensor *x = talc_empty(cpu_device(), TALC_F64, dims);
    double *to = talc_data(x, TALC_F64);
    uint32_t state = 2 * seed + 1;
    for (int64_t i = 0; i < talc_numel(x); i++) {
        state = state * 1664525 + 1013904223;
        to[i] = (double)(state >> 8) * 200 / (1 << 24);
        to[i] = (double)(int)to[i];
    }
    return x;
}

/* Number `index` in the order of the view's dimensions; f64 on the CPU. */
static double at(const talc_tensor *view, int64_t index)
{
    int64_t offset = 0;
    for (int i = view->rank - 1; i >= 0; i--) {
        offset += index % view->dims[i] * view->strides[i];
        index /= view->dims[i];
    }
    return ((const double *)view->data)[offset];
}

static talc_tensor *ordered(const talc_tensor *x, int order)
{
    switch (order) {
    case 0:
        return talc_permute(x, TALC_DIMS(0, 2, 1));
    case 1:
        return talc_permute(x, TALC_DIMS(2, 1, 0));
    default:
        return talc_permute(x, TALC_DIMS(1, 2, 0));
    }
}

/* Copies x, in another order and with a cast, into a part of an array whose rest has to stay. */
static void assert_copied(talc_dims dims, int order, int from, int to, talc_dtype src,
                          talc_dtype dst)
{
    char what[160];
    snprintf(what, sizeof what, "[%d,%d,%d] order %d, layout %d to %d, %s to %s", (int)dims.dim[0],
             (int)dims.dim[1], (int)dims.dim[2], order, from, to, talc_dtype_name(src),
             talc_dtype_name(dst));
    owned_scope *scope = talc_scope_enter();
    talc_tensor *x = numbers(base_dims(dims, from), 1);
    const talc_tensor *here = ordered(view_in(x, from), order);
    const talc_dims base = base_dims(talc_dims_of(here), to);
    talc_tensor *expected = talc_full(cpu_device(), TALC_F64, base, GAP);
    talc_tensor *part = view_in(expected, to);
    double *data = part->data;
    int64_t i = 0;
    for (int64_t a = 0; a < part->dims[0]; a++)
        for (int64_t b = 0; b < part->dims[1]; b++)
            for (int64_t c = 0; c < part->dims[2]; c++)
                data[a * part->strides[0] + b * part->strides[1] + c * part->strides[2]] =
                    at(here, i++);
    talc_tensor *got = talc_full(tested_device(), dst, base, GAP);
    const talc_tensor *there =
        ordered(view_in(talc_to(talc_cast(x, src), tested_device(), src), from), order);
    cr_assert(talc_copy(view_in(got, to), there), "%s: %s", what, talc_error_message());
    assert_near(got, expected, 0, what);
}

Test(layouts, copies_of_every_type)
{
    for (int e = 0; e < EXTENTS; e++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++)
                assert_copied(TALC_DIMS(2, extents[e][0], extents[e][1]), 0, layout,
                              (layout + e) % LAYOUTS, (talc_dtype)dtype, (talc_dtype)dtype);
}

Test(layouts, casts_between_all_types)
{
    for (int e = 0; e < EXTENTS; e += 2)
        for (int src = 0; src < TALC_DTYPE_COUNT; src++)
            for (int dst = 0; dst < TALC_DTYPE_COUNT; dst++)
                assert_copied(TALC_DIMS(2, extents[e][0], extents[e][1]), 0, e / 2 % LAYOUTS, 0,
                              (talc_dtype)src, (talc_dtype)dst);
}

Test(layouts, dimensions_in_any_order)
{
    for (int e = 0; e < EXTENTS; e++)
        for (int order = 1; order < 3; order++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                assert_copied(TALC_DIMS(extents[e][0], 3, extents[e][1]), order, layout, 0,
                              TALC_F32, TALC_F32);
                assert_copied(TALC_DIMS(extents[e][0], 5, extents[e][1]), order, 0, layout, TALC_U8,
                              TALC_U8);
            }
}

/* a - b of which either lies in another order than the result, or both, or b stretches over a
 * dimension. */
Test(layouts, elementwise_ops_of_two_operands)
{
    enum { A_TRANSPOSED = 1, B_TRANSPOSED = 2, B_ROW = 4, B_COLUMN = 8 };
    static const int cases[] = { A_TRANSPOSED, B_TRANSPOSED, A_TRANSPOSED | B_TRANSPOSED,
                                 A_TRANSPOSED | B_ROW, A_TRANSPOSED | B_COLUMN };
    static const talc_dtype dtypes[] = { TALC_F32, TALC_F64, TALC_I64, TALC_I32 };
    for (int e = 0; e < EXTENTS; e++)
        for (int i = 0; i < 5; i++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                owned_scope *scope = talc_scope_enter();
                const int64_t R = extents[e][0], C = extents[e][1];
                const talc_dims plain = TALC_DIMS(2, C, R), transposed = TALC_DIMS(2, R, C);
                const talc_dtype dtype = dtypes[(e + i + layout) % 4];
                talc_tensor *x[2], *there[2];
                for (int o = 0; o < 2; o++) {
                    const bool is_transposed =
                        (cases[i] & (o == 0 ? A_TRANSPOSED : B_TRANSPOSED)) != 0;
                    const bool row = o == 1 && (cases[i] & B_ROW) != 0;
                    const bool column = o == 1 && (cases[i] & B_COLUMN) != 0;
                    const talc_dims dims = row             ? TALC_DIMS(2, 1, R)
                                           : column        ? TALC_DIMS(2, C, 1)
                                           : is_transposed ? transposed
                                                           : plain;
                    talc_tensor *base = numbers(base_dims(dims, layout), (unsigned)o + 2);
                    x[o] = view_in(base, layout);
                    there[o] =
                        view_in(talc_to(talc_cast(base, dtype), tested_device(), dtype), layout);
                    if (is_transposed)
                        x[o] = ordered(x[o], 0), there[o] = ordered(there[o], 0);
                }
                const talc_tensor *b = talc_expand(x[1], plain);
                talc_tensor *expected = talc_empty(cpu_device(), TALC_F64, plain);
                for (int64_t k = 0; k < talc_numel(expected); k++)
                    ((double *)expected->data)[k] = at(x[0], k) - at(b, k);
                talc_release(talc_full(tested_device(), dtype, plain, GAP));
                const talc_tensor *got = talc_sub(there[0], there[1]);
                char what[96];
                snprintf(what, sizeof what, "[%d,%d] case %d layout %d %s", (int)R, (int)C, i,
                         layout, talc_dtype_name(dtype));
                cr_assert(got != NULL, "%s: %s", what, talc_error_message());
                assert_near(got, expected, 0, what);
            }
}

Test(layouts, elementwise_ops_of_one_operand)
{
    for (int e = 0; e < EXTENTS; e++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            owned_scope *scope = talc_scope_enter();
            const talc_dtype dtype = (e + layout) % 2 == 0 ? TALC_F32 : TALC_F64;
            talc_tensor *base =
                numbers(base_dims(TALC_DIMS(2, extents[e][0], extents[e][1]), layout), 4);
            const talc_tensor *x = ordered(view_in(base, layout), 0);
            const talc_tensor *there = ordered(
                view_in(talc_to(talc_cast(base, dtype), tested_device(), dtype), layout), 0);
            talc_tensor *expected = talc_empty(cpu_device(), TALC_F64, talc_dims_of(x));
            for (int64_t k = 0; k < talc_numel(expected); k++)
                ((double *)expected->data)[k] = -at(x, k);
            talc_release(talc_full(tested_device(), dtype, talc_dims_of(x), GAP));
            assert_near(talc_neg(there), expected, 0, "neg");
        }
}

/* Images of a view, which lie in larger ones. */
typedef struct images {
    talc_dims base;
    int dim;
    int64_t start, end, step;
} images;

static talc_tensor *view_of(const images *of, const talc_tensor *base)
{
    return talc_slice(base, of->dim, of->start, of->end, of->step);
}

/* The scales are halves and eps is 0, so that every number is exact. */
static void assert_normalised(const images *of, const char *algorithm, talc_dtype dtype,
                              bool residual)
{
    enum { MAX = 700 };
    char what[160], text[TALC_DIMS_TEXT];
    snprintf(what, sizeof what, "%s %s, %d to %d of dimension %d of %s, residual %d", algorithm,
             talc_dtype_name(dtype), (int)of->start, (int)of->end, of->dim,
             talc_dims_text(of->base, text), residual);
    owned_scope *scope = talc_scope_enter();
    talc_tensor *base = numbers(of->base, 5), *x = view_of(of, base);
    talc_tensor *added = numbers(talc_dims_of(x), 6), *expected = talc_empty_like(added);
    const int64_t C = x->dims[1], plane = x->dims[2] * x->dims[3];
    double mean[MAX], var[MAX], weight[MAX], bias[MAX];
    for (int64_t c = 0; c < C; c++) {
        mean[c] = (double)(c * 7 % 200);
        var[c] = c % 3 == 0 ? 1 : 4;
        weight[c] = (double)(c % 5 - 2);
        bias[c] = (double)(c % 11);
    }
    for (int64_t i = 0; i < talc_numel(x); i++) {
        const int64_t c = i / plane % C;
        const double y = (at(x, i) - mean[c]) * weight[c] / sqrt(var[c]) + bias[c] +
                         (residual ? at(added, i) : 0);
        ((double *)expected->data)[i] = y > 0 ? y : 0;
    }
    talc_tensor *there[6];
    const double *const channels[] = { weight, bias, mean, var };
    for (int i = 0; i < 6; i++)
        there[i] = talc_to(
            i == 0   ? base
            : i == 1 ? added
                     : talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(C), channels[i - 2]),
            tested_device(), dtype);
    const talc_batch_norm2d_options options = { .eps = (double)TALC_ZERO,
                                                .activation = TALC_ACTIVATION_RELU,
                                                .residual = residual ? there[1] : NULL,
                                                .algorithm = algorithm };
    const talc_tensor *y =
        talc_batch_norm2d(view_of(of, there[0]), there[2], there[3], there[4], there[5], &options);
    cr_assert(y != NULL, "%s: %s", what, talc_error_message());
    assert_near(y, expected, 0, what);
}

/* Channels, images and rows of larger tensors: whole vectors or not, of one tile and several, and
 * many small planes. */
Test(layouts, batch_norms_in_evaluation)
{
    static const images all[] = {
        { { 4, { 3, 8, 4, 4 } }, 1, 0, 5, 1 },     { { 4, { 3, 8, 4, 4 } }, 1, 2, 8, 1 },
        { { 4, { 2, 7, 3, 3 } }, 1, 1, 4, 1 },     { { 4, { 3, 4, 1, 2 } }, 1, 1, 3, 1 },
        { { 4, { 3, 5, 1, 2 } }, 1, 0, 2, 1 },     { { 4, { 3, 9, 2, 3 } }, 1, 0, 1, 1 },
        { { 4, { 3, 44, 13, 13 } }, 1, 0, 40, 1 }, { { 4, { 3, 44, 12, 12 } }, 1, 4, 44, 1 },
        { { 4, { 3, 800, 1, 1 } }, 1, 3, 703, 1 }, { { 4, { 2, 3, 130, 130 } }, 1, 1, 3, 1 },
        { { 4, { 1, 8, 4, 4 } }, 1, 1, 5, 1 },     { { 4, { 70, 3, 2, 2 } }, 1, 0, 2, 1 },
        { { 4, { 7, 3, 4, 4 } }, 0, 1, 7, 2 },     { { 4, { 3, 8, 4, 4 } }, 1, 0, 8, 2 },
        { { 4, { 3, 4, 6, 4 } }, 2, 1, 5, 1 },     { { 4, { 3, 4, 4, 8 } }, 3, 0, 4, 1 },
    };
    const talc_algorithm *algorithms = tested_device()->backend->algorithms[TALC_OP_batch_norm2d];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int r = 0; algorithms[r].name != NULL; r++)
            for (int k = 0; k < 4; k++)
                assert_normalised(&all[i], algorithms[r].name, k / 2 == 0 ? TALC_F32 : TALC_F64,
                                  k % 2 == 1);
}
