/* Transposed convolutions against what torch.nn.functional.conv_transpose2d 2.x gives in float64 on
 * integers. */
#include "tests/support/guard.h"
#include "ops/backend.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>

static const double strided[] = { 28, -5, -5,  5,  -5,  -7, -3, -1, 1,  -3, 5, 17, -5, 14, -5,
                                  2,  -5, -10, -2, -18, 2,  2,  6,  22, 1,  1, 1,  1,  1,  1 };

static const double grouped[] = { 0,  10, -9,  -9,  0,  4,  24, 0,  0,  -2, 4,  0,  -9, -9,
                                  10, 0,  -7,  -9,  -6, 0,  0,  8,  3,  -4, -9, -8, -5, 9,
                                  15, -2, 0,   -12, 9,  -4, -3, 12, -9, -1, 5,  3,  0,  -4,
                                  -9, 12, 0,   -10, -9, -1, 0,  6,  -4, 0,  3,  -9, 2,  0,
                                  -6, 24, 8,   0,   12, 0,  -1, -3, 3,  6,  2,  -1, -6, -10,
                                  4,  0,  -11, 3,   1,  -9, 4,  -5, -2, 15 };

static const double dilated[] = { 28, 1,  -5, 1,   -5, 1, -5, 1,   -5, 1, -5, 1, -5, 1, 5,
                                  1,  -7, 1,  14,  1,  2, 1,  -10, 1,  1, 1,  1, 1,  1, 1,
                                  -2, 2,  2,  2,   6,  2, -1, 2,   3,  2, 7,  2, 0,  2, -2,
                                  2,  18, 2,  -17, 2,  3, 2,  23,  2,  2, 2,  2, 2,  2, 2 };

static const double added[] = { 12, -15, -14, 10,  12, 1, 8, 16, -19, -5, 11, 1,
                                7,  -11, -2,  11,  1,  1, 9, -9, -23, 16, 6,  1,
                                11, 7,   -16, -14, 11, 1, 1, 1,  1,   1,  1,  1 };

typedef struct transpose_case {
    const char *name;
    talc_dims x, w, y;
    talc_conv_transpose2d_options options;
    bool bias;
    const double *expected;
} transpose_case;

#define D TALC_DIMS
static const transpose_case *case_at(int i)
{
    static transpose_case cases[4];
    const transpose_case all[] = {
        { "stride and output_padding",
          D(1, 2, 2, 3),
          D(2, 1, 2, 2),
          D(1, 1, 5, 6),
          { .stride = { 2, 2 }, .output_padding = { 1 } },
          true,
          strided },
        { "groups, padding, dilation",
          D(2, 2, 3, 2),
          D(2, 2, 3, 2),
          D(2, 4, 5, 2),
          { .stride = { 2, 1 }, .padding = { 1, 1 }, .dilation = { 1, 2 }, .groups = 2 },
          false,
          grouped },
        { "output_padding of the stride",
          D(1, 2, 2, 3),
          D(2, 2, 2, 1),
          D(1, 2, 5, 6),
          { .stride = { 1, 2 }, .dilation = { 2, 1 }, .output_padding = { 1, 1 } },
          true,
          dilated },
        { "output_padding beyond the padding",
          D(1, 2, 2, 2),
          D(2, 1, 3, 3),
          D(1, 1, 6, 6),
          { .stride = { 3, 2 }, .padding = { 1 }, .output_padding = { 2, 1 } },
          true,
          added },
    };
    cases[i] = all[i];
    return &cases[i];
}
#undef D

static int64_t count_of(talc_dims dims)
{
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    return count;
}

/* Element i is i * step modulo `modulus`, less `offset`. */
static talc_tensor *pattern(talc_dtype dtype, talc_dims dims, int64_t step, int64_t modulus,
                            int64_t offset)
{
    double values[64];
    const int64_t count = count_of(dims);
    cr_assert(count <= 64);
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)(i * step % modulus - offset);
    return talc_to(talc_from_host(cpu_device(), TALC_F64, dims, values), tested_device(), dtype);
}

static void expect_case(const transpose_case *c, talc_dtype dtype, const char *algorithm)
{
    talc_conv_transpose2d_options options = c->options;
    options.algorithm = algorithm;
    const talc_tensor *x = pattern(dtype, c->x, 7, 11, 5), *w = pattern(dtype, c->w, 5, 7, 3);
    const talc_tensor *bias = c->bias ? pattern(dtype, TALC_DIMS(c->y.dim[1]), 1, 9, -1) : NULL;
    const talc_tensor *y = talc_conv_transpose2d(x, w, bias, &options);
    if (talc_error_status() == TALC_UNSUPPORTED && algorithm != NULL) {
        talc_error_clear();
        return;
    }
    cr_assert(y != NULL, "%s: %s", c->name, talc_error_message());
    cr_assert(y->rank == 4, "%s", c->name);
    for (int i = 0; i < 4; i++)
        cr_assert(y->dims[i] == c->y.dim[i], "%s: dimension %d is %d", c->name, i, (int)y->dims[i]);
    owned_double *values = host_doubles(y);
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert(values[i] == c->expected[i], "%s by %s: element %d is %g instead of %g", c->name,
                  algorithm == NULL ? "choice" : algorithm, (int)i, values[i], c->expected[i]);
}

Test(conv_transpose2d, agrees_with_torch)
{
    const talc_algorithm *algorithms = tested_device()->backend->algorithms[TALC_OP_conv2d];
    for (int i = 0; i < 4; i++)
        for (talc_dtype dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
            expect_case(case_at(i), dtype, NULL);
            for (const talc_algorithm *algorithm = algorithms; algorithm->name != NULL; algorithm++)
                expect_case(case_at(i), dtype, algorithm->name);
        }
}

/* Infinite weights, at the ends of the kernel and in the middle, by loops over the elements of x:
 * what no element reaches, also in the lines that output_padding adds, is the bias alone. */
static void expect_reached(const transpose_case *c, int64_t infinite, const char *algorithm)
{
    talc_conv_transpose2d_options o = c->options;
    const int64_t groups = o.groups == 0 ? 1 : o.groups, OC = c->y.dim[1] / groups;
    const int64_t KH = c->w.dim[2], KW = c->w.dim[3], H = c->y.dim[2], W = c->y.dim[3];
    double weights[64], pixels[64], expected[256] = { 0 };
    for (int64_t i = 0; i < count_of(c->w); i++)
        weights[i] = i == infinite ? INFINITY : (double)(i % 5) - 2;
    for (int64_t i = 0; i < count_of(c->x); i++)
        pixels[i] = (double)(i % 3) + 1;
    for (int64_t i = 0; i < count_of(c->x) * OC * KH * KW; i++) {
        const int64_t kw = i % KW, kh = i / KW % KH, oc = i / KW / KH % OC, x = i / KW / KH / OC;
        const int64_t at_w = x % c->x.dim[3], at_h = x / c->x.dim[3] % c->x.dim[2],
                      channel = x / c->x.dim[3] / c->x.dim[2] % c->x.dim[1],
                      n = x / c->x.dim[3] / c->x.dim[2] / c->x.dim[1];
        const int64_t oh = at_h * (o.stride[0] == 0 ? 1 : o.stride[0]) - o.padding[0] +
                           kh * (o.dilation[0] == 0 ? 1 : o.dilation[0]);
        const int64_t ow = at_w * (o.stride[1] == 0 ? 1 : o.stride[1]) - o.padding[1] +
                           kw * (o.dilation[1] == 0 ? 1 : o.dilation[1]);
        const int64_t plane = n * groups * OC + channel / (c->x.dim[1] / groups) * OC + oc;
        if (oh >= 0 && oh < H && ow >= 0 && ow < W)
            expected[(plane * H + oh) * W + ow] +=
                pixels[x] * weights[((channel * OC + oc) * KH + kh) * KW + kw];
    }
    o.algorithm = algorithm;
    const talc_tensor *x =
        talc_to(talc_from_host(cpu_device(), TALC_F64, c->x, pixels), tested_device(), TALC_F32);
    const talc_tensor *w =
        talc_to(talc_from_host(cpu_device(), TALC_F64, c->w, weights), tested_device(), TALC_F32);
    const talc_tensor *y = talc_conv_transpose2d(x, w, NULL, &o);
    if (talc_error_status() == TALC_UNSUPPORTED) {
        talc_error_clear();
        return;
    }
    cr_assert(y != NULL && talc_shape_equal(talc_dims_of(y), c->y), "%s: %s", c->name,
              talc_error_message());
    owned_double *got = host_doubles(y);
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert(isnan(expected[i]) ? isnan(got[i]) : got[i] == expected[i],
                  "%s by %s, weight %d: element %d is %g instead of %g", c->name, algorithm,
                  (int)infinite, (int)i, got[i], expected[i]);
}

Test(conv_transpose2d, infinite_weights_reach_what_they_are_multiplied_for)
{
    const transpose_case more[] = {
        { "output_padding of the stride within the padding",
          { 4, { 1, 2, 3, 3 } },
          { 4, { 2, 2, 3, 3 } },
          { 4, { 1, 2, 4, 4 } },
          { .dilation = { 2, 2 }, .padding = { 2, 2 }, .output_padding = { 1, 1 } },
          false,
          NULL },
        { "output_padding of the stride beyond the padding",
          { 4, { 1, 2, 3, 2 } },
          { 4, { 2, 1, 2, 3 } },
          { 4, { 1, 1, 6, 6 } },
          { .dilation = { 3, 3 }, .padding = { 1, 2 }, .output_padding = { 2, 2 } },
          false,
          NULL },
        { "nothing but what is added",
          { 4, { 1, 1, 1, 1 } },
          { 4, { 1, 1, 1, 1 } },
          { 4, { 1, 1, 1, 1 } },
          { .dilation = { 7, 7 }, .padding = { 3, 3 }, .output_padding = { 6, 6 } },
          false,
          NULL },
    };
    const talc_algorithm *algorithms = tested_device()->backend->algorithms[TALC_OP_conv2d];
    for (int i = 0; i < 7; i++) {
        const transpose_case *c = i < 4 ? case_at(i) : &more[i - 4];
        const int64_t count = count_of(c->w);
        for (const talc_algorithm *algorithm = algorithms; algorithm->name != NULL; algorithm++)
            for (int index = 0; index < 3; index++)
                expect_reached(c,
                               index == 0   ? 0
                               : index == 1 ? count - 1
                                            : count / 2,
                               algorithm->name);
    }
}

Test(conv_transpose2d, views_and_no_images)
{
    const talc_tensor *x = pattern(TALC_F64, TALC_DIMS(1, 2, 3, 2), 7, 11, 5);
    const talc_tensor *w = pattern(TALC_F64, TALC_DIMS(2, 1, 2, 3), 5, 7, 3);
    const talc_tensor *transposed = talc_transpose(talc_contiguous(talc_transpose(x, 1, 3)), 1, 3);
    owned_double *expected = host_doubles(talc_conv_transpose2d(x, w, NULL, NULL));
    const talc_tensor *y = talc_conv_transpose2d(transposed, w, NULL, NULL);
    owned_double *got = host_doubles(y);
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert(got[i] == expected[i]);
    const talc_tensor *none = talc_conv_transpose2d(talc_slice(x, 0, 1, 1, 1), w, NULL, NULL);
    cr_assert(none != NULL && none->dims[0] == 0 && none->dims[2] == 4 && none->dims[3] == 4);
}

Test(conv_transpose2d, module)
{
    talc_manual_seed(3);
    owned_module *layer =
        talc_nn_conv_transpose2d(&(talc_conv_transpose2d_layer){ .in_channels = 4,
                                                                 .out_channels = 6,
                                                                 .kernel = { 3, 2 },
                                                                 .stride = { 2, 1 },
                                                                 .padding = { 1, 0 },
                                                                 .output_padding = { 1, 0 },
                                                                 .dilation = { 1, 2 },
                                                                 .groups = 2,
                                                                 .dtype = TALC_F64 });
    const talc_tensor *w = talc_module_find(layer, "weight"), *b = talc_module_find(layer, "bias");
    cr_assert(w != NULL && w->dims[0] == 4 && w->dims[1] == 3 && w->dims[2] == 3 &&
              w->dims[3] == 2 && b != NULL && b->dims[0] == 6);
    const double bound = 1 / sqrt(3 * 3 * 2);
    const double largest = talc_item(talc_max(talc_abs(w), TALC_SCALAR, false));
    cr_assert(largest <= bound && largest > 0.8 * bound, "weights reach %g of %g", largest, bound);
    talc_tensor *x = pattern(TALC_F64, TALC_DIMS(1, 4, 2, 3), 7, 11, 5);
    if (!talc_device_is_host(tested_device()))
        x = talc_to(x, cpu_device(), TALC_F64);
    const talc_tensor *y = talc_forward(layer, x);
    const talc_tensor *expected =
        talc_conv_transpose2d(x, w, b,
                              &(talc_conv_transpose2d_options){ .stride = { 2, 1 },
                                                                .padding = { 1 },
                                                                .output_padding = { 1 },
                                                                .dilation = { 1, 2 },
                                                                .groups = 2 });
    cr_assert(y != NULL && expected != NULL && talc_same_dims(y, expected), "%s",
              talc_error_message());
    cr_assert(talc_item(talc_max(talc_abs(talc_sub(y, expected)), TALC_SCALAR, false)) == 0);
}
