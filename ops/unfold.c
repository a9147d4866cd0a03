#include "ops/unfold.h"

#include "ops/op.h"
#include "ops/operand.h"
#include "ops/padding.h"
#include "ops/window.h"
#include "tensor/memory.h"

#include <inttypes.h>
#include <string.h>

static const char *const names[] = { "unfold", "fold" };

// ---- Checks -------------------------------------------------------------------------------------

static bool read_options(const talc_unfold_options *o, talc_unfold_problem *p)
{
    const char *op = names[p->fold];
    if (talc_operand_missing(op, "options", o))
        return false;
    p->KH = o->kernel[0];
    p->KW = o->kernel[1];
    p->stride_h = talc_first_of(o->stride, 1);
    p->stride_w = talc_second_of(o->stride, 1);
    p->dilation_h = talc_first_of(o->dilation, 1);
    p->dilation_w = talc_second_of(o->dilation, 1);
    p->pad_top = talc_or_default(o->padding[0], 0);
    p->pad_left = talc_or_default(o->padding[1], 0);
    return talc_pair_at_least(op, 1, "kernel", p->KH, p->KW) &&
           talc_pair_at_least(op, 1, "stride", p->stride_h, p->stride_w) &&
           talc_pair_at_least(op, 1, "dilation", p->dilation_h, p->dilation_w) &&
           talc_pair_at_least(op, 0, "padding", p->pad_top, p->pad_left);
}

/* Patches along one axis; 0 where none fits, or a number passes int64. */
static int64_t windows(int64_t extent, int64_t pad, int64_t dilation, int64_t K, int64_t stride)
{
    int64_t reach, padded;
    if (!talc_multiply(dilation, K - 1, &reach) || !talc_add_checked(extent, pad, &padded) ||
        !talc_add_checked(padded, pad, &padded))
        return 0;
    return talc_window_extent(extent, pad, pad, dilation, K, stride);
}

/* OH, OW and the rows of the matrix. */
static bool find_matrix(talc_unfold_problem *p, int64_t *rows, int64_t *columns)
{
    const char *op = names[p->fold];
    p->OH = windows(p->H, p->pad_top, p->dilation_h, p->KH, p->stride_h);
    p->OW = windows(p->W, p->pad_left, p->dilation_w, p->KW, p->stride_w);
    if (p->OH < 1 || p->OW < 1)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: the kernel [%" PRId64 ",%" PRId64 "] with dilation [%" PRId64 ",%" PRId64
                  "] does not fit the image [%" PRId64 ",%" PRId64 "] with padding [%" PRId64
                  ",%" PRId64 "]",
                  op, p->KH, p->KW, p->dilation_h, p->dilation_w, p->H, p->W, p->pad_top,
                  p->pad_left);
    else if (!talc_multiply(p->KH, p->KW, rows) || !talc_multiply(*rows, p->C, rows) ||
             !talc_multiply(p->OH, p->OW, columns))
        talc_fail(TALC_TOO_LARGE, "%s: the matrix exceeds INT64_MAX rows or columns", op);
    return !talc_failed();
}

/* x of `rank`, or of one less without N. */
static bool check_rank(const char *op, const talc_tensor *x, int rank, const char *with,
                       const char *without)
{
    char text[TALC_DIMS_TEXT];
    if (!talc_operand_float(op, "x", x))
        return false;
    if (x->rank != rank && x->rank != rank - 1)
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has rank %d, needs %d: %s, or %d: %s", op,
                  talc_dims_text(talc_dims_of(x), text), x->rank, rank, with, rank - 1, without);
    return !talc_failed();
}

// ---- The ops ------------------------------------------------------------------------------------

static talc_tensor *run(const talc_tensor *x, talc_dims dims, const talc_unfold_problem *problem,
                        const talc_record *record)
{
    const char *op = names[problem->fold];
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, dims);
    return talc_op_run(&(talc_call){ .op = TALC_OP_unfold,
                                     .name = op,
                                     .problem = problem,
                                     .inputs = { TALC_OPERAND(unfold, x, x) },
                                     .input_count = 1,
                                     .outputs = { TALC_OPERAND(unfold, y, y) },
                                     .record = record });
}

/* The other op, of the same image. */
static void unfold_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    talc_unfold_problem p = *(const talc_unfold_problem *)talc_node_problem(node);
    p.fold = !p.fold;
    gradients[0] = run(dy, talc_node_input_dims(node, 0), &p, NULL);
}

static talc_tensor *recorded(const talc_tensor *x, talc_dims dims, const talc_unfold_problem *p)
{
    return run(x, dims, p,
               &(talc_record){ .op = names[p->fold],
                               .rule = unfold_gradient,
                               .inputs = &x,
                               .input_count = 1,
                               .problem = p,
                               .problem_bytes = sizeof *p });
}

talc_tensor *talc_unfold(const talc_tensor *x, const talc_unfold_options *options)
{
    talc_unfold_problem p = { .fold = false };
    if (!check_rank(names[0], x, 4, "[N,C,H,W]", "[C,H,W]") || !read_options(options, &p))
        return NULL;
    const int64_t *dims = x->dims + (x->rank - 3);
    p.dtype = x->dtype;
    p.N = x->rank == 4 ? x->dims[0] : 1;
    p.C = dims[0], p.H = dims[1], p.W = dims[2];
    int64_t rows, columns;
    if (!find_matrix(&p, &rows, &columns))
        return NULL;
    return recorded(x, x->rank == 4 ? TALC_DIMS(p.N, rows, columns) : TALC_DIMS(rows, columns), &p);
}

talc_tensor *talc_fold(const talc_tensor *x, int64_t height, int64_t width,
                       const talc_unfold_options *options)
{
    talc_unfold_problem p = { .fold = true };
    const char *op = names[1];
    if (!check_rank(op, x, 3, "[N,C*KH*KW,OH*OW]", "[C*KH*KW,OH*OW]") ||
        !read_options(options, &p) || !talc_pair_at_least(op, 1, "the image", height, width))
        return NULL;
    const int64_t *dims = x->dims + (x->rank - 2);
    p.dtype = x->dtype;
    p.N = x->rank == 3 ? x->dims[0] : 1;
    p.H = height, p.W = width;
    int64_t taps, columns;
    p.C = 1;
    if (!find_matrix(&p, &taps, &columns))
        return NULL;
    p.C = dims[0] / taps;
    char text[TALC_DIMS_TEXT];
    if (dims[0] % taps != 0)
        talc_fail(TALC_BAD_SHAPE,
                  "fold: x %s has %" PRId64 " rows, no multiple of the kernel's %" PRId64
                  "x%" PRId64 " = %" PRId64,
                  talc_dims_text(talc_dims_of(x), text), dims[0], p.KH, p.KW, taps);
    else if (dims[1] != columns)
        talc_fail(TALC_BAD_SHAPE,
                  "fold: x %s has %" PRId64 " columns, an image [%" PRId64 ",%" PRId64
                  "] has %" PRId64 "x%" PRId64 " = %" PRId64 " windows",
                  talc_dims_text(talc_dims_of(x), text), dims[1], p.H, p.W, p.OH, p.OW, columns);
    if (talc_failed())
        return NULL;
    return recorded(x, x->rank == 3 ? TALC_DIMS(p.N, p.C, p.H, p.W) : TALC_DIMS(p.C, p.H, p.W), &p);
}

// ---- For backends -------------------------------------------------------------------------------

talc_conv2d_problem talc_unfold_conv2d(const talc_unfold_problem *p)
{
    return (talc_conv2d_problem){
        .dtype = p->dtype,
        .N = p->N,
        .C = p->C,
        .H = p->H,
        .W = p->W,
        .OC = 1,
        .KH = p->KH,
        .KW = p->KW,
        .OH = p->OH,
        .OW = p->OW,
        .stride_h = p->stride_h,
        .stride_w = p->stride_w,
        .pad_top = p->pad_top,
        .pad_left = p->pad_left,
        .pad_bottom = p->pad_top,
        .pad_right = p->pad_left,
        .dilation_h = p->dilation_h,
        .dilation_w = p->dilation_w,
        .groups = 1,
        .padding_mode = TALC_PADDING_ZEROS,
    };
}
