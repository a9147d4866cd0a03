#include "ops/pool2d.h"

#include "ops/op.h"
#include "ops/operand.h"
#include "ops/padding.h"
#include "tensor/memory.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const op_names[] = { "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d",
                                        "adaptive_max_pool2d" };

// ---- Checks -------------------------------------------------------------------------------------

/* N, C, H, W from x of rank 4 or 3. */
static bool read_input(const talc_tensor *x, talc_pool2d_problem *p)
{
    const char *op = op_names[p->kind];
    if (!talc_operand_float(op, "x", x))
        return false;
    char text[TALC_DIMS_TEXT];
    if (x->rank != 3 && x->rank != 4) {
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has rank %d, needs 4: [N,C,H,W], or 3: [C,H,W]", op,
                  talc_dims_text(talc_dims_of(x), text), x->rank);
        return false;
    }
    const int64_t *dims = x->dims + (x->rank - 3);
    p->dtype = x->dtype;
    p->N = x->rank == 4 ? x->dims[0] : 1;
    p->C = dims[0];
    p->H = dims[1];
    p->W = dims[2];
    if (p->C == 0 || p->H == 0 || p->W == 0) {
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has an empty dimension other than N", op,
                  talc_dims_text(talc_dims_of(x), text));
        return false;
    }
    return true;
}

/* Every window reaches into the image. */
static bool check_padding(const char *op, const char *name, int64_t h, int64_t w,
                          const talc_pool2d_problem *p)
{
    int64_t max_h, max_w;
    if (!talc_multiply(p->dilation_h, p->KH - 1, &max_h))
        max_h = INT64_MAX;
    if (!talc_multiply(p->dilation_w, p->KW - 1, &max_w))
        max_w = INT64_MAX;
    if (h >= 0 && w >= 0 && h <= max_h && w <= max_w)
        return true;
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: %s [%" PRId64 ",%" PRId64 "] must be from 0 to [%" PRId64 ",%" PRId64
              "], less than the kernel [%" PRId64 ",%" PRId64 "] with dilation [%" PRId64
              ",%" PRId64 "]",
              op, name, h, w, max_h, max_w, p->KH, p->KW, p->dilation_h, p->dilation_w);
    return false;
}

static bool read_padding(const talc_pool2d_options *o, talc_pool2d_problem *p)
{
    const char *op = op_names[p->kind];
    talc_padding sides;
    if (!talc_padding_of(op, o->padding, o->padding_end, o->padding_same, o->kernel,
                         (const int64_t[]){ p->stride_h, p->stride_w },
                         (const int64_t[]){ p->dilation_h, p->dilation_w }, &sides))
        return false;
    p->pad_top = sides.top;
    p->pad_left = sides.left;
    p->pad_bottom = sides.bottom;
    p->pad_right = sides.right;
    return check_padding(op, "padding", p->pad_top, p->pad_left, p) &&
           check_padding(op, "padding_end", p->pad_bottom, p->pad_right, p);
}

/* Options that only one kind of pooling has. */
static bool check_kind(const talc_pool2d_problem *p)
{
    const char *op = op_names[p->kind];
    if (!talc_pool2d_is_max(p) && (p->dilation_h != 1 || p->dilation_w != 1))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: dilation [%" PRId64 ",%" PRId64 "] is an option of max_pool2d", op,
                  p->dilation_h, p->dilation_w);
    else if (talc_pool2d_is_max(p) && (p->exclude_padding || p->divisor != 0))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: exclude_padding and divisor_override are options of avg_pool2d", op);
    else if (p->divisor < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: divisor_override %" PRId64 " must be at least 1, or 0 for none", op,
                  p->divisor);
    return !talc_failed();
}

static bool read_options(const talc_pool2d_options *options, talc_pool2d_problem *p)
{
    const char *op = op_names[p->kind];
    if (talc_operand_missing(op, "options", options))
        return false;
    p->KH = options->kernel[0];
    p->KW = options->kernel[1];
    p->stride_h = talc_first_of(options->stride, p->KH);
    p->stride_w = talc_second_of(options->stride, p->KW);
    p->dilation_h = talc_first_of(options->dilation, 1);
    p->dilation_w = talc_second_of(options->dilation, 1);
    p->exclude_padding = options->exclude_padding;
    p->divisor = options->divisor_override;
    return talc_pair_at_least(op, 1, "kernel", p->KH, p->KW) &&
           talc_pair_at_least(op, 1, "stride", p->stride_h, p->stride_w) && check_kind(p) &&
           talc_pair_at_least(op, 1, "dilation", p->dilation_h, p->dilation_w) &&
           read_padding(options, p);
}

bool talc_pool2d_check(talc_pool2d_kind kind, const talc_pool2d_options *options)
{
    return read_options(options, &(talc_pool2d_problem){ .kind = kind });
}

/* The number of windows along one dimension, or 0 when not one fits. */
static int64_t output_extent(int64_t extent, int64_t kernel, int64_t stride, int64_t pad_begin,
                             int64_t pad_end, int64_t dilation, bool ceil_mode)
{
    int64_t reach, padded;
    if (!talc_multiply(kernel - 1, dilation, &reach) ||
        !talc_add_checked(extent, pad_begin, &padded) ||
        !talc_add_checked(padded, pad_end, &padded))
        return 0;
    int64_t last_start = padded - 1 - reach; /* places where a window may start, less one */
    if (last_start < 0)
        /* Rounding up lets one window start that ends past the padded image, but not by a stride or
         * more. */
        return ceil_mode && last_start > -stride ? 1 : 0;
    int64_t out = last_start / stride + 1;
    if (ceil_mode && last_start % stride != 0 && out <= (extent + pad_begin - 1) / stride)
        out++; /* it starts before the bottom padding, at out * stride, which may not fit */
    return out;
}

static bool find_output(const talc_tensor *x, bool ceil_mode, talc_pool2d_problem *p)
{
    p->OH = output_extent(p->H, p->KH, p->stride_h, p->pad_top, p->pad_bottom, p->dilation_h,
                          ceil_mode);
    p->OW = output_extent(p->W, p->KW, p->stride_w, p->pad_left, p->pad_right, p->dilation_w,
                          ceil_mode);
    if (p->OH > 0 && p->OW > 0)
        return true;
    char text[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE,
              "%s: no window of kernel [%" PRId64 ",%" PRId64 "] with dilation [%" PRId64
              ",%" PRId64 "] fits x %s with padding [%" PRId64 ",%" PRId64 "] and [%" PRId64
              ",%" PRId64 "]",
              op_names[p->kind], p->KH, p->KW, p->dilation_h, p->dilation_w,
              talc_dims_text(talc_dims_of(x), text), p->pad_top, p->pad_left, p->pad_bottom,
              p->pad_right);
    return false;
}

// ---- Run ----------------------------------------------------------------------------------------

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_pool2d_problem *p = problem;
    const int used =
        snprintf(text, TALC_RUN_TEXT,
                 "n%" PRId64 "c%" PRId64 "h%" PRId64 "w%" PRId64 "o%" PRId64 "x%" PRId64 "k%" PRId64
                 "x%" PRId64 "s%" PRId64 "x%" PRId64 "p%" PRId64 "x%" PRId64,
                 p->N, p->C, p->H, p->W, p->OH, p->OW, p->KH, p->KW, p->stride_h, p->stride_w,
                 p->pad_top, p->pad_left);
    if (p->pad_bottom != p->pad_top || p->pad_right != p->pad_left)
        snprintf(text + used, TALC_RUN_TEXT - (size_t)used, "x%" PRId64 "x%" PRId64, p->pad_bottom,
                 p->pad_right);
}

// ---- Gradient -----------------------------------------------------------------------------------

static const char *const gradient_names[] = { "max_pool2d.grad_input", "avg_pool2d.grad_input",
                                              "adaptive_avg_pool2d.grad_input",
                                              "adaptive_max_pool2d.grad_input" };

static void pool2d_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    talc_pool2d_problem p = *(const talc_pool2d_problem *)talc_node_problem(node);
    const talc_tensor *indices = talc_node_saved(node, 0);
    const char *op = gradient_names[p.kind];
    p.direction = TALC_GRAD_INPUT;
    talc_tensor *dx = talc_tensor_new(op, dy->device, dy->dtype, talc_node_input_dims(node, 0));
    gradients[0] = talc_op_run(&(talc_call){
        .op = TALC_OP_pool2d,
        .name = op,
        .problem = &p,
        .write = problem_text,
        .inputs = { TALC_OPERAND(pool2d, dy, dy), TALC_OPERAND(pool2d, indices, indices) },
        .input_count = 2,
        .outputs = { TALC_OPERAND(pool2d, dx, dx) },
        .fills = talc_numel(dy) == 0 });
}

// ---- The op -------------------------------------------------------------------------------------

/* x is checked and the problem complete. The gradient of max needs the indices too. */
static talc_tensor *pool(const talc_tensor *x, const char *forced, talc_pool2d_problem *p,
                         talc_tensor **indices)
{
    const char *op = op_names[p->kind];
    p->indices = indices != NULL || (talc_pool2d_is_max(p) && talc_tape_wants_one(x));
    talc_dims dims = talc_dims_of(x);
    dims.dim[x->rank - 2] = p->OH;
    dims.dim[x->rank - 1] = p->OW;
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, dims);
    talc_tensor *at = p->indices ? talc_tensor_new(op, x->device, TALC_I64, dims) : NULL;
    y = talc_op_run(
        &(talc_call){ .op = TALC_OP_pool2d,
                      .name = op,
                      .problem = p,
                      .write = problem_text,
                      .forced = forced,
                      .inputs = { TALC_OPERAND(pool2d, x, x) },
                      .input_count = 1,
                      .outputs = { TALC_OPERAND(pool2d, y, y), TALC_OPERAND(pool2d, indices, at) },
                      .record = &(talc_record){ .op = op,
                                                .rule = pool2d_gradient,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .saved = { { "indices", at } },
                                                .problem = p,
                                                .problem_bytes = sizeof *p } });
    if (indices != NULL && y != NULL)
        *indices = at;
    else
        talc_release(at);
    return y;
}

static talc_tensor *pool_windows(talc_pool2d_kind kind, const talc_tensor *x,
                                 const talc_pool2d_options *options, talc_tensor **indices)
{
    talc_pool2d_problem problem = { .kind = kind };
    if (!read_input(x, &problem) || !read_options(options, &problem) ||
        !find_output(x, options->ceil_mode, &problem))
        return NULL;
    return pool(x, options->algorithm, &problem, indices);
}

talc_tensor *talc_max_pool2d(const talc_tensor *x, const talc_pool2d_options *options)
{
    return pool_windows(TALC_POOL2D_MAX, x, options, NULL);
}

talc_tensor *talc_avg_pool2d(const talc_tensor *x, const talc_pool2d_options *options)
{
    return pool_windows(TALC_POOL2D_AVG, x, options, NULL);
}

talc_tensor *talc_max_pool2d_indices(const talc_tensor *x, const talc_pool2d_options *options,
                                     talc_tensor **indices)
{
    if (talc_operand_missing("max_pool2d", "indices", indices)) {
        if (indices != NULL)
            *indices = NULL;
        return NULL;
    }
    *indices = NULL;
    return pool_windows(TALC_POOL2D_MAX, x, options, indices);
}

static talc_tensor *pool_shares(talc_pool2d_kind kind, const talc_tensor *x, int64_t OH, int64_t OW)
{
    talc_pool2d_problem problem = { .kind = kind, .OH = OH, .OW = OW };
    if (!read_input(x, &problem))
        return NULL;
    if (OH < 0 || OW < 0 || OH > INT32_MAX || OW > INT32_MAX) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: output size [%" PRId64 ",%" PRId64 "] must be from 0 to 2147483647",
                  op_names[kind], OH, OW);
        return NULL;
    }
    return pool(x, NULL, &problem, NULL);
}

talc_tensor *talc_adaptive_avg_pool2d(const talc_tensor *x, int64_t OH, int64_t OW)
{
    return pool_shares(TALC_POOL2D_ADAPTIVE_AVG, x, OH, OW);
}

talc_tensor *talc_adaptive_max_pool2d(const talc_tensor *x, int64_t OH, int64_t OW)
{
    return pool_shares(TALC_POOL2D_ADAPTIVE_MAX, x, OH, OW);
}
