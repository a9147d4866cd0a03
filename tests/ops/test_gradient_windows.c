/* Gradients of pooling, batch norm and cross entropy, whose rows are their own: every row against
 * central differences in f64 and in f32 against f64. */
#include "tests/support/fake_device.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include "ops/backend.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef struct window_case {
    const char *name;
    const char *op;
    talc_differentiable *f;
    talc_dims dims; /* of x */
    const void *options;
} window_case;

#define D      TALC_DIMS
#define POOL   &(const talc_pool2d_options)
#define NORM   &(const talc_batch_norm2d_options)
#define LOSSES &(const talc_cross_entropy_options)

// ---- The ops ------------------------------------------------------------------------------------

static const void *options_of(void *context)
{
    return ((const window_case *)context)->options;
}

static talc_tensor *f_max(talc_tensor *const x[], void *context)
{
    return talc_max_pool2d(x[0], options_of(context));
}

static talc_tensor *f_avg(talc_tensor *const x[], void *context)
{
    return talc_avg_pool2d(x[0], options_of(context));
}

static talc_tensor *f_adaptive(talc_tensor *const x[], void *context)
{
    const int64_t *out = options_of(context);
    return talc_adaptive_avg_pool2d(x[0], out[0], out[1]);
}

static talc_tensor *f_adaptive_max(talc_tensor *const x[], void *context)
{
    const int64_t *out = options_of(context);
    return talc_adaptive_max_pool2d(x[0], out[0], out[1]);
}

/* Channel statistics: c / 4 and c + 1 / 2. */
static talc_tensor *normalised(const talc_tensor *x, const talc_tensor *weight,
                               const talc_tensor *bias, const talc_batch_norm2d_options *options)
{
    talc_tensor *c = talc_arange(x->device, x->dtype, 0, (double)x->dims[1], 1);
    if (options->training)
        return talc_batch_norm2d(x, weight, bias, NULL, NULL, options);
    return talc_batch_norm2d(x, weight, bias, talc_div_scalar(c, 4), talc_add_scalar(c, 0.5),
                             options);
}

static talc_tensor *f_norm(talc_tensor *const x[], void *context)
{
    return normalised(x[0], x[1], x[2], options_of(context));
}

static talc_tensor *f_norm_plain(talc_tensor *const x[], void *context)
{
    return normalised(x[0], NULL, NULL, options_of(context));
}

static talc_tensor *f_norm_added(talc_tensor *const x[], void *context)
{
    talc_batch_norm2d_options options = *(const talc_batch_norm2d_options *)options_of(context);
    options.residual = x[3];
    return normalised(x[0], x[1], x[2], &options);
}

/* Classes in turn, each fifth sample ignored. */
static talc_tensor *f_entropy(talc_tensor *const x[], void *context)
{
    talc_cross_entropy_options options = *(const talc_cross_entropy_options *)options_of(context);
    talc_dims dims = { 0 };
    int64_t labels[4096];
    for (int i = 0; i < x[0]->rank; i++)
        if (i != (x[0]->rank > 1))
            dims.dim[dims.rank++] = x[0]->dims[i];
    const int64_t C = x[0]->dims[x[0]->rank > 1], ignored = options.ignore_index;
    for (int64_t i = 0; i < talc_numel(x[0]) / C; i++)
        labels[i] = i % 5 == 4 ? (ignored == 0 ? -100 : ignored) : (i * 7919 + 3) % C;
    const talc_tensor *c = talc_arange(x[0]->device, x[0]->dtype, 0, (double)C, 1);
    if (options.class_weights != NULL)
        options.class_weights = talc_sigmoid(talc_div_scalar(c, (double)C));
    return talc_cross_entropy_with(x[0], talc_from_host(x[0]->device, TALC_I64, dims, labels),
                                   &options);
}

/* The classes last. */
static talc_tensor *f_entropy_turned(talc_tensor *const x[], void *context)
{
    talc_tensor *turned = talc_transpose(x[0], 0, 1);
    return f_entropy(&turned, context);
}

// ---- Cases --------------------------------------------------------------------------------------

/* Any tensor: that there are class weights, which f_entropy makes. */
static const talc_tensor some;

// clang-format off
static const window_case cases[] = {
    { "max 2x2", "max_pool2d", f_max, { 4, { 2, 3, 6, 8 } }, POOL{ .kernel = { 2, 2 } } },
    { "max 3x3 in strides of 2", "max_pool2d", f_max, { 4, { 2, 3, 7, 9 } }, POOL{ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .ceil_mode = true } },
    { "max 3x3", "max_pool2d", f_max, { 3, { 2, 9, 8 } }, POOL{ .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding_same = true } },
    { "max with gaps", "max_pool2d", f_max, { 4, { 1, 2, 11, 13 } }, POOL{ .kernel = { 2, 1 }, .stride = { 3, 4 } } },
    { "max dilated", "max_pool2d", f_max, { 4, { 1, 2, 11, 12 } }, POOL{ .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 2, 1 }, .padding_end = { 1, 3 }, .dilation = { 2, 3 } } },
    { "avg 2x2", "avg_pool2d", f_avg, { 4, { 2, 3, 6, 8 } }, POOL{ .kernel = { 2, 2 } } },
    { "avg ceil", "avg_pool2d", f_avg, { 4, { 2, 1, 7, 6 } }, POOL{ .kernel = { 3, 2 }, .stride = { 2, 3 }, .padding = { 1, 1 }, .ceil_mode = true } },
    { "avg without padding", "avg_pool2d", f_avg, { 4, { 2, 1, 7, 6 } }, POOL{ .kernel = { 3, 4 }, .stride = { 1, 2 }, .padding = { 2, 1 }, .padding_end = { 1, 3 }, .exclude_padding = true } },
    { "avg by a divisor", "avg_pool2d", f_avg, { 3, { 5, 4, 9 } }, POOL{ .kernel = { 2, 3 }, .stride = { 1, 4 }, .divisor_override = 5 } },
    { "avg of wide rows", "avg_pool2d", f_avg, { 4, { 1, 1, 2, 5003 } }, POOL{ .kernel = { 1, 2100 }, .stride = { 1, 7 }, .padding = { 0, 1000 } } },
    { "adaptive", "adaptive_avg_pool2d", f_adaptive, { 4, { 2, 3, 5, 8 } }, (const int64_t[]){ 3, 5 } },
    { "adaptive, to one", "adaptive_avg_pool2d", f_adaptive, { 4, { 3, 5, 7, 7 } }, (const int64_t[]){ 1, 1 } },
    { "adaptive, to more", "adaptive_avg_pool2d", f_adaptive, { 4, { 2, 3, 4, 3 } }, (const int64_t[]){ 7, 3 } },
    { "adaptive max", "adaptive_max_pool2d", f_adaptive_max, { 4, { 2, 3, 5, 8 } }, (const int64_t[]){ 3, 5 } },
    { "adaptive max, to more", "adaptive_max_pool2d", f_adaptive_max, { 4, { 2, 3, 4, 3 } }, (const int64_t[]){ 7, 3 } },
    { "norm", "batch_norm2d", f_norm, { 4, { 3, 4, 5, 7 } }, NORM{ .training = true } },
    { "norm, activated", "batch_norm2d", f_norm, { 4, { 2, 3, 4, 8 } }, NORM{ .training = true, .activation = TALC_ACTIVATION_TANH } },
    { "norm without weight", "batch_norm2d", f_norm_plain, { 4, { 9, 3, 1, 1 } }, NORM{ .training = true, .eps = 0.1 } },
    { "norm of many values", "batch_norm2d", f_norm, { 4, { 37, 3, 21, 22 } }, NORM{ .training = true } },
    { "norm of odd planes", "batch_norm2d", f_norm, { 4, { 700, 2, 5, 5 } }, NORM{ .training = true } },
    { "norm of long planes", "batch_norm2d", f_norm, { 4, { 2, 2, 130, 131 } }, NORM{ .training = true } },
    { "norm, evaluated", "batch_norm2d", f_norm, { 4, { 3, 4, 5, 7 } }, NORM{ 0 } },
    { "norm, evaluated and activated", "batch_norm2d", f_norm, { 4, { 2, 5, 4, 4 } }, NORM{ .activation = TALC_ACTIVATION_SIGMOID } },
    { "norm of many values, evaluated", "batch_norm2d", f_norm, { 4, { 37, 3, 21, 22 } }, NORM{ 0 } },
    { "norm and residual", "batch_norm2d", f_norm_added, { 4, { 3, 4, 5, 7 } }, NORM{ .training = true } },
    { "norm and residual, activated", "batch_norm2d", f_norm_added, { 4, { 2, 3, 4, 8 } }, NORM{ .training = true, .activation = TALC_ACTIVATION_TANH } },
    { "norm and residual, rectified", "batch_norm2d", f_norm_added, { 4, { 2, 3, 4, 5 } }, NORM{ .training = true, .activation = TALC_ACTIVATION_RELU } },
    { "norm and residual of many values", "batch_norm2d", f_norm_added, { 4, { 37, 3, 21, 22 } }, NORM{ .training = true, .activation = TALC_ACTIVATION_SIGMOID } },
    { "norm and residual of long planes, evaluated", "batch_norm2d", f_norm_added, { 4, { 2, 2, 130, 131 } }, NORM{ .activation = TALC_ACTIVATION_TANH } },
    { "norm without weight, evaluated", "batch_norm2d", f_norm_plain, { 4, { 4, 3, 2, 6 } }, NORM{ 0 } },
    { "entropy", "cross_entropy", f_entropy, { 2, { 7, 10 } }, LOSSES{ 0 } },
    { "entropy, summed", "cross_entropy", f_entropy, { 2, { 33, 100 } }, LOSSES{ .reduction = TALC_REDUCTION_SUM } },
    { "entropy of each", "cross_entropy", f_entropy, { 2, { 9, 3 } }, LOSSES{ .reduction = TALC_REDUCTION_NONE } },
    { "entropy of one sample", "cross_entropy", f_entropy, { 1, { 5 } }, LOSSES{ .label_smoothing = 0.3 } },
    { "entropy of planes", "cross_entropy", f_entropy, { 4, { 2, 5, 3, 4 } }, LOSSES{ .label_smoothing = 0.1, .ignore_index = 2 } },
    { "entropy of planes, each", "cross_entropy", f_entropy, { 4, { 3, 4, 5, 7 } }, LOSSES{ .reduction = TALC_REDUCTION_NONE, .label_smoothing = 1 } },
    { "entropy of many samples", "cross_entropy", f_entropy, { 2, { 4000, 3 } }, LOSSES{ .class_weights = &some } },
    { "entropy of many classes", "cross_entropy", f_entropy, { 2, { 3, 3001 } }, LOSSES{ .label_smoothing = 0.2 } },
    { "entropy with class weights", "cross_entropy", f_entropy, { 2, { 8, 70 } }, LOSSES{ .class_weights = &some } },
    { "entropy with class weights, smoothed", "cross_entropy", f_entropy, { 2, { 12, 6 } }, LOSSES{ .class_weights = &some, .label_smoothing = 0.25 } },
    { "entropy with class weights, summed", "cross_entropy", f_entropy, { 3, { 2, 6, 5 } }, LOSSES{ .class_weights = &some, .label_smoothing = 0.25, .reduction = TALC_REDUCTION_SUM } },
    { "entropy with class weights of each", "cross_entropy", f_entropy, { 2, { 6, 40 } }, LOSSES{ .class_weights = &some, .ignore_index = 1, .reduction = TALC_REDUCTION_NONE } },
    { "entropy, turned", "cross_entropy", f_entropy_turned, { 2, { 10, 8 } }, LOSSES{ .class_weights = &some, .label_smoothing = 0.5 } },
};
// clang-format on

enum { CASES = sizeof cases / sizeof *cases, INPUTS = 4 };

/* The rows of a case beside the chosen one, for both directions. */
static const char *const *rows_of(const window_case *c)
{
    static const char *const host[] = { NULL, "reference", NULL };
    static const char *const pool[] = { NULL, "window", NULL };
    static const char *const norm[] = { NULL, "channels", NULL };
    static const char *const entropy[] = { NULL, "rows", NULL };
    const talc_device *device = tested_device();
    return talc_device_is_host(device) || device == fake_device() ? host
           : strstr(c->op, "pool2d") != NULL                      ? pool
           : strcmp(c->op, "batch_norm2d") == 0                   ? norm
                                                                  : entropy;
}

static void force(const window_case *c, const char *row)
{
    char gradient[64];
    snprintf(gradient, sizeof gradient, "%s.grad_input", c->op);
    cr_assert(talc_algorithm_force(c->op, row) && talc_algorithm_force(gradient, row));
}

/* x, weight, bias and residual. No two elements of x are nearer than 1 / 64, so that small steps
 * move no maximum; both types hold them. */
static int inputs_of(const window_case *c, talc_dtype dtype, talc_tensor *inputs[INPUTS])
{
    int64_t count = 1;
    for (int i = 0; i < c->dims.rank; i++)
        count *= c->dims.dim[i];
    double *numbers = malloc((size_t)count * sizeof *numbers);
    const int64_t period = 199; /* a window has fewer elements where it matters */
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (double)(i * 83 % period - 99) / 64;
    talc_device *device = tested_device();
    inputs[0] = talc_cast(talc_from_host(device, TALC_F64, c->dims, numbers), dtype);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (double)(i * 59 % period - 99) / 64;
    inputs[3] = talc_cast(talc_from_host(device, TALC_F64, c->dims, numbers), dtype);
    free(numbers);
    const int used = c->f == f_norm_added ? 4 : c->f == f_norm ? 3 : 1;
    for (int i = 1; i < 3; i++)
        inputs[i] = talc_cast(
            talc_arange(device, TALC_F64, i, i + 0.25 * (double)c->dims.dim[1], 0.25), dtype);
    for (int i = 0; i < used; i++)
        cr_assert(talc_require_grad(inputs[i], true), "%s: %s", c->name, talc_error_message());
    return used;
}

Test(gradient_windows, every_row_agrees_with_central_differences)
{
    for (int i = 0; i < CASES; i++) {
        window_case c = cases[i];
        const char *const *rows = rows_of(&c);
        for (int r = 0; r == 0 || rows[r] != NULL; r++) {
            talc_scope *scope = talc_scope_enter();
            talc_tensor *inputs[INPUTS];
            const int count = inputs_of(&c, TALC_F64, inputs);
            force(&c, rows[r]);
            talc_gradient_report report;
            const bool ok = talc_check_gradient(c.f, &c, inputs, count, NULL, &report);
            force(&c, NULL);
            cr_assert(!talc_failed(), "%s: %s", c.name, talc_error_message());
            cr_assert(ok && report.count == 4 * count,
                      "%s by %s: %d slopes, input %d is off by %g: %.12g instead of %.12g", c.name,
                      rows[r] == NULL ? "default" : rows[r], report.count, report.input,
                      report.worst, report.got, report.expected);
            talc_scope_leave(scope);
        }
    }
    assert_all_freed();
}

/* The gradients of one backward pass, in f64. */
static void gradients_of(window_case *c, talc_dtype dtype, const char *row,
                         talc_tensor *gradients[INPUTS])
{
    talc_tensor *inputs[INPUTS];
    const int count = inputs_of(c, dtype, inputs);
    force(c, row);
    const talc_tensor *y = c->f(inputs, c);
    cr_assert(y != NULL, "%s: %s", c->name, talc_error_message());
    cr_assert(talc_manual_seed(5));
    const talc_tensor *cotangent = talc_uniform(y->device, TALC_F32, talc_dims_of(y), -1, 1);
    cr_assert(talc_backward_from(y, talc_cast(cotangent, dtype)), "%s: %s", c->name,
              talc_error_message());
    force(c, NULL);
    for (int i = 0; i < count; i++)
        gradients[i] = talc_cast(talc_grad(inputs[i]), TALC_F64);
}

static double largest(const talc_tensor *x)
{
    return talc_item(talc_max(talc_abs(x), TALC_SCALAR, false));
}

Test(gradient_windows, every_row_agrees_in_both_types)
{
    for (int i = 0; i < CASES; i++) {
        window_case c = cases[i];
        const char *const *rows = rows_of(&c);
        for (int r = 0; r == 0 || rows[r] != NULL; r++) {
            talc_scope *scope = talc_scope_enter();
            talc_tensor *wide[INPUTS] = { NULL }, *narrow[INPUTS] = { NULL };
            gradients_of(&c, TALC_F64, NULL, wide);
            gradients_of(&c, TALC_F32, rows[r], narrow);
            for (int k = 0; k < INPUTS && wide[k] != NULL; k++) {
                const double off = largest(talc_sub(wide[k], narrow[k])), size = largest(wide[k]);
                cr_assert(off <= 1e-5 * size, "%s by %s, input %d: off by %g of %g", c.name,
                          rows[r] == NULL ? "default" : rows[r], k, off, size);
            }
            assert_no_failure();
            talc_scope_leave(scope);
        }
    }
    assert_all_freed();
}

// ---- Huge numbers -------------------------------------------------------------------------------

enum { HUGE_H = 4, HUGE_W = 9, HUGE_MOST = 40 };

/* Wide enough for all sums and products of two numbers of a caller. */
__extension__ typedef __int128 wide;

/* One axis of a problem, by the definition: outputs o >= 0, as many as start inside or before the
 * image, whose taps k read o stride - pad + k dilation where that is inside. */
typedef struct huge_axis {
    int64_t extent, kernel, stride, pad, pad_end, dilation;
    bool ceil_mode;
} huge_axis;

static wide outputs_of(const huge_axis *a)
{
    const wide room =
        (wide)a->extent + a->pad + a->pad_end - 1 - (wide)(a->kernel - 1) * a->dilation;
    if (!a->ceil_mode)
        return room < 0 ? 0 : room / a->stride + 1;
    wide count = room > 0 ? (room - 1) / a->stride + 2 : room > -(wide)a->stride;
    if (count > 1 && (count - 1) * a->stride >= (wide)a->extent + a->pad)
        count--;
    return count;
}

static bool holds(const huge_axis *a, int64_t o, int64_t i)
{
    const wide from = (wide)i - ((wide)o * a->stride - a->pad);
    return from >= 0 && from % a->dilation == 0 && from / a->dilation < a->kernel;
}

/* What an average counts along the axis. */
static double counted(const huge_axis *a, int64_t o, bool inside_only)
{
    const wide start = (wide)o * a->stride - a->pad, all = (wide)a->extent + a->pad_end - start;
    int64_t inside = 0;
    for (int64_t i = 0; i < a->extent; i++)
        inside += holds(a, o, i);
    return inside_only ? (double)inside : (double)(a->kernel < all ? a->kernel : all);
}

typedef struct huge_case {
    huge_axis h, w;
    bool max, inside_only;
} huge_case;

/* Row-major; a value, the index of a maximum, and the gradient for dy = 1, 2, 3 ... */
typedef struct huge_expected {
    double y[HUGE_MOST], dx[HUGE_H * HUGE_W];
    int64_t at[HUGE_MOST];
} huge_expected;

static void work_out(const huge_case *c, const double *x, int64_t OH, int64_t OW,
                     huge_expected *expected)
{
    *expected = (huge_expected){ .y = { 0 } };
    for (int64_t o = 0; o < OH * OW; o++) {
        const int64_t oh = o / OW, ow = o % OW;
        const double size = counted(&c->h, oh, c->inside_only) * counted(&c->w, ow, c->inside_only);
        expected->at[o] = -1;
        for (int64_t i = 0; i < HUGE_H * HUGE_W; i++) {
            if (!holds(&c->h, oh, i / HUGE_W) || !holds(&c->w, ow, i % HUGE_W))
                continue;
            expected->y[o] += x[i] / size;
            expected->dx[i] += c->max ? 0 : (double)(o + 1) / size;
            if (expected->at[o] < 0 || x[i] > x[expected->at[o]])
                expected->at[o] = i;
        }
        if (c->max) {
            expected->y[o] = expected->at[o] < 0 ? -INFINITY : x[expected->at[o]];
            if (expected->at[o] >= 0)
                expected->dx[expected->at[o]] += (double)(o + 1);
        } else if (size == 0) {
            expected->y[o] = NAN; /* 0 / 0 */
        }
    }
}

static void expect_numbers(const huge_case *c, const char *row, const char *what,
                           const talc_tensor *got, const double *expected)
{
    double *values = host_doubles(talc_cast(talc_detach(got), TALC_F64));
    for (int64_t i = 0; i < talc_numel(got); i++)
        cr_assert(values[i] == expected[i] ||
                      fabs(values[i] - expected[i]) <= 1e-6 * (1 + fabs(expected[i])) ||
                      (isnan(expected[i]) && isnan(values[i])),
                  "%s by %s, k %" PRId64 "x%" PRId64 " s %" PRId64 "x%" PRId64 " p %" PRId64
                  "x%" PRId64 "x%" PRId64 "x%" PRId64 " d %" PRId64 "x%" PRId64
                  " ceil %d: %s %" PRId64 " is %g instead of %g",
                  c->max ? "max" : "avg", row, c->h.kernel, c->w.kernel, c->h.stride, c->w.stride,
                  c->h.pad, c->w.pad, c->h.pad_end, c->w.pad_end, c->h.dilation, c->w.dilation,
                  c->h.ceil_mode, what, i, values[i], expected[i]);
    free(values);
}

static int64_t or_zero(int64_t value)
{
    return value == 0 ? TALC_ZERO : value;
}

/* Whether a row takes the problem; its numbers are due where it does. */
static bool hold_row(const huge_case *c, const char *row)
{
    const talc_pool2d_options o = { .kernel = { c->h.kernel, c->w.kernel },
                                    .stride = { c->h.stride, c->w.stride },
                                    .padding = { or_zero(c->h.pad), or_zero(c->w.pad) },
                                    .padding_end = { or_zero(c->h.pad_end), or_zero(c->w.pad_end) },
                                    .dilation = { c->h.dilation, c->w.dilation },
                                    .ceil_mode = c->h.ceil_mode,
                                    .exclude_padding = c->inside_only,
                                    .algorithm = row };
    double numbers[HUGE_H * HUGE_W];
    for (int i = 0; i < HUGE_H * HUGE_W; i++)
        numbers[i] = i * 7 % 37 - 18;
    talc_tensor *x =
        talc_from_host(tested_device(), TALC_F64, TALC_DIMS(1, 1, HUGE_H, HUGE_W), numbers);
    x = talc_cast(x, TALC_F32);
    talc_require_grad(x, true);
    talc_tensor *indices = NULL;
    talc_tensor *y = c->max ? talc_max_pool2d_indices(x, &o, &indices) : talc_avg_pool2d(x, &o);
    if (y == NULL)
        return false;
    huge_expected expected;
    work_out(c, numbers, y->dims[2], y->dims[3], &expected);
    expect_numbers(c, row, "y", y, expected.y);
    double at[HUGE_MOST];
    for (int i = 0; i < HUGE_MOST; i++)
        at[i] = (double)expected.at[i];
    if (c->max)
        expect_numbers(c, row, "index", indices, at);
    talc_tensor *dy = talc_arange(x->device, TALC_F32, 1, (double)talc_numel(y) + 1, 1);
    cr_assert(talc_backward_from(y, talc_view(dy, talc_dims_of(y))), "%s", talc_error_message());
    expect_numbers(c, row, "dx", talc_grad(x), expected.dx);
    return true;
}

/* Whether it ran: where more than a few outputs are due nothing is asked, and a refusal needs a
 * reason. */
static bool hold_huge(const huge_case *c)
{
    const wide OH = outputs_of(&c->h), OW = outputs_of(&c->w);
    if (OH * OW > HUGE_MOST)
        return false;
    bool ran = false;
    for (const talc_algorithm *row = tested_device()->backend->algorithms[TALC_OP_pool2d];
         row->name != NULL; row++) {
        talc_scope *scope = talc_scope_enter();
        if (!hold_row(c, row->name)) {
            const talc_status status = talc_error_status();
            cr_assert(status == TALC_UNSUPPORTED || status == TALC_BAD_ARGUMENT ||
                          status == TALC_BAD_SHAPE,
                      "%s", talc_error_message());
            talc_error_clear();
        } else {
            ran = true;
        }
        talc_scope_leave(scope);
    }
    return ran;
}

/* Steps and sums of a caller's numbers near 2^31 and 2^63: a window that has one tap inside the
 * image ends there. */
Test(gradient_windows, windows_of_huge_numbers_stay_inside_the_image)
{
    static const int64_t kernels[] = { 1, 2, 3, INT64_MAX };
    static const int64_t dilations[] = {
        1, 3, (1 << 29) - 1, (int64_t)1 << 30, INT32_MAX, (int64_t)1 << 62, INT64_MAX - 3, INT64_MAX
    };
    static const int64_t strides[] = { 1, 4, 8, INT32_MAX, (int64_t)1 << 62, INT64_MAX };
    int ran = 0;
    for (int across = 0; across < 2; across++)
        for (int i = 0; i < 4 * 8 * 6 * 5 * 5; i += 3) {
            const int64_t kernel = kernels[i % 4], dilation = dilations[i / 4 % 8];
            int64_t reach; /* the most padding */
            if (__builtin_mul_overflow(kernel - 1, dilation, &reach))
                reach = INT64_MAX;
            const int64_t pads[] = { 0, reach, reach / 2, reach > 9 ? reach - 9 : 0,
                                     reach < 5 ? reach : 5 };
            const huge_axis far = { across ? HUGE_W : HUGE_H,
                                    kernel,
                                    strides[i / 32 % 6],
                                    pads[i / 160 % 4],
                                    pads[i / 640 % 3],
                                    dilation,
                                    i % 7 < 3 };
            const huge_axis near = { across ? HUGE_H : HUGE_W, 2, 2, 0, 1, 1, i % 7 < 3 };
            huge_case c = { across ? near : far, across ? far : near, true, false };
            ran += hold_huge(&c);
            c.max = false;
            c.inside_only = i % 2 == 1;
            ran += dilation == 1 && hold_huge(&c);
        }
    cr_assert(ran > 400, "%d of the problems ran", ran);
}
