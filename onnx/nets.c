/* Operators of networks: convolutions, products, pooling, norms, reductions, resizing. */
#include "onnx/shared.h"
#include "ops/batch_norm2d.h"
#include "ops/conv2d.h"
#include "ops/conv_transpose2d.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/linear.h"
#include "ops/local_response_norm.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/softmax.h"

#include <math.h>
#include <string.h>

// ---- Convolution --------------------------------------------------------------------------------

/* x and weight with two dimensions of space; `space` is how many they have. */
static bool spread(talc_onnx_call *call, talc_tensor **x, talc_tensor **weight, int *space)
{
    *x = talc_onnx_in(call, 0);
    *weight = talc_onnx_in(call, 1);
    if (*x == NULL || *weight == NULL)
        return false;
    *space = (*x)->rank - 2;
    if (*space < 1 || *space > 2 || (*weight)->rank != (*x)->rank)
        return talc_onnx_fail(call, TALC_UNSUPPORTED,
                              "x of rank %d, weight of rank %d: both of rank 3 or 4 are run",
                              (*x)->rank, (*weight)->rank);
    if (!talc_onnx_window_fits(call->step->node, *space))
        return talc_onnx_fail(call, TALC_BAD_FORMAT, "attributes of other than %d dimensions",
                              *space);
    if (*space == 1) {
        *x = talc_onnx_widen(*x);
        *weight = talc_onnx_widen(*weight);
    }
    return *x != NULL && *weight != NULL;
}

static bool give(talc_onnx_call *call, talc_tensor *y, int space)
{
    return talc_onnx_out(call, 0, space == 1 ? talc_onnx_narrow(y) : y);
}

static bool run_conv(talc_onnx_call *call)
{
    talc_tensor *x, *weight;
    int space;
    talc_onnx_window window;
    if (!spread(call, &x, &weight, &space))
        return false;
    const talc_dims dims = talc_dims_of(x);
    talc_onnx_window_of(call->step->node, weight->dims + 4 - space, space, &dims, &window);
    talc_conv2d_options options = { .groups = talc_onnx_int(call->step->node, "group", 1) };
    memcpy(options.stride, window.stride, sizeof options.stride);
    memcpy(options.dilation, window.dilation, sizeof options.dilation);
    talc_onnx_padding(&window, options.padding, options.padding_end);
    return give(call, talc_conv2d(x, weight, talc_onnx_in(call, 2), &options), space);
}

/* Padding of a transposed convolution is what is cut off: what its options cannot say, which is
 * more at the end, a slice does. */
static talc_tensor *cut(talc_tensor *y, const int64_t begin[2], const int64_t out[2])
{
    for (int i = 0; i < 2 && y != NULL; i++)
        y = talc_slice(y, 2 + i, begin[i], begin[i] + out[i], 1);
    return y;
}

static bool run_conv_transpose(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    talc_tensor *x, *weight;
    int space;
    talc_onnx_window w;
    if (!spread(call, &x, &weight, &space))
        return false;
    talc_onnx_window_of(node, weight->dims + 4 - space, space, NULL, &w);
    int64_t extra[2] = { 0, 0 }, shape[2] = { 0, 0 }, full[2], out[2];
    talc_onnx_ints(node, "output_padding", extra + 2 - space, space);
    const bool sized = talc_onnx_ints(node, "output_shape", shape + 2 - space, space) == space;
    const char *mode = talc_onnx_string(node, "auto_pad", "NOTSET");
    const bool same = strncmp(mode, "SAME_", 5) == 0;
    bool symmetric = true;
    for (int i = 0; i < 2; i++) {
        const int64_t in = x->dims[2 + i];
        full[i] = w.stride[i] * (in - 1) + (w.kernel[i] - 1) * w.dilation[i] + 1 + extra[i];
        if (i >= 2 - space && (sized || same)) {
            out[i] = sized ? shape[i] : in * w.stride[i];
            const int64_t total = full[i] - out[i] < 0 ? 0 : full[i] - out[i];
            w.begin[i] = strcmp(mode, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
            w.end[i] = total - w.begin[i];
            if (full[i] < out[i]) /* lines that no tap reaches */
                extra[i] += out[i] - full[i];
        } else {
            out[i] = full[i] - w.begin[i] - w.end[i];
        }
        symmetric = symmetric && w.begin[i] == w.end[i];
    }
    talc_conv_transpose2d_options options = { .groups = talc_onnx_int(node, "group", 1) };
    memcpy(options.stride, w.stride, sizeof options.stride);
    memcpy(options.dilation, w.dilation, sizeof options.dilation);
    memcpy(options.output_padding, extra, sizeof extra);
    if (symmetric)
        memcpy(options.padding, w.begin, sizeof options.padding);
    talc_tensor *y = talc_conv_transpose2d(x, weight, talc_onnx_in(call, 2), &options);
    return give(call, y == NULL || symmetric ? y : cut(y, w.begin, out), space);
}

// ---- Products -----------------------------------------------------------------------------------

static bool run_matmul(talc_onnx_call *call)
{
    const talc_tensor *a = talc_onnx_in(call, 0), *b = talc_onnx_in(call, 1);
    return a != NULL && b != NULL && talc_onnx_out(call, 0, talc_matmul(a, b));
}

/* alpha a b + beta c. */
static bool run_gemm(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    talc_tensor *a = talc_onnx_in(call, 0), *b = talc_onnx_in(call, 1), *c = talc_onnx_in(call, 2);
    const double alpha = talc_onnx_float(node, "alpha", 1), beta = talc_onnx_float(node, "beta", 1);
    if (a != NULL && talc_onnx_int(node, "transA", 0) != 0)
        a = talc_transpose(a, 0, 1);
    if (b != NULL && talc_onnx_int(node, "transB", 0) != 0)
        b = talc_transpose(b, 0, 1);
    talc_tensor *y = talc_matmul(a, b);
    if (y != NULL && alpha != 1)
        y = talc_mul_scalar(y, alpha);
    if (y != NULL && c != NULL && beta != 1)
        c = talc_mul_scalar(c, beta);
    if (y != NULL && c != NULL)
        y = talc_add(y, c);
    return talc_onnx_out(call, 0, y);
}

// ---- Pooling ------------------------------------------------------------------------------------

/* Extents are those of talc's ceil_mode but for windows that begin past the image, which newer
 * opsets leave out too. */
static bool pool(talc_onnx_call *call, bool max)
{
    const talc_onnx_node *node = call->step->node;
    talc_tensor *x = talc_onnx_in(call, 0);
    const int space = x == NULL ? 0 : x->rank - 2;
    talc_onnx_window window;
    if (x == NULL)
        return false;
    if (space < 1 || space > 2)
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "x of rank %d: ranks 3 and 4 are run",
                              x->rank);
    if (!talc_dtype_is_float(x->dtype))
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "x of integers");
    if (!talc_onnx_window_fits(node, space))
        return talc_onnx_fail(call, TALC_BAD_FORMAT, "attributes of other than %d dimensions",
                              space);
    x = space == 1 ? talc_onnx_widen(x) : x;
    if (x == NULL)
        return false;
    const talc_dims dims = talc_dims_of(x);
    talc_onnx_window_of(node, NULL, space, &dims, &window);
    const talc_pool2d_options options = talc_onnx_pool_options(node, &window);
    return give(call, max ? talc_max_pool2d(x, &options) : talc_avg_pool2d(x, &options), space);
}

static bool run_max_pool(talc_onnx_call *call)
{
    return pool(call, true);
}

static bool run_average_pool(talc_onnx_call *call)
{
    return pool(call, false);
}

static const char *refuses_max_pool(const talc_onnx_node *node, int64_t opset)
{
    (void)opset;
    return node->output_count > 1 && node->outputs[1][0] != '\0' ? "its indices are asked for"
                                                                 : NULL;
}

static const char *refuses_average_pool(const talc_onnx_node *node, int64_t opset)
{
    int64_t dilations[2];
    (void)opset;
    for (int i = talc_onnx_ints(node, "dilations", dilations, 2); i > 0; i--)
        if (dilations[i - 1] != 1)
            return "its windows are dilated";
    return NULL;
}

static talc_dims space_of(const talc_tensor *x)
{
    talc_dims axes = TALC_SCALAR;
    for (int i = 2; i < x->rank; i++)
        axes.dim[axes.rank++] = i;
    return axes;
}

static bool has_space(const talc_onnx_call *call, const talc_tensor *x)
{
    return x != NULL &&
           (x->rank > 2 ||
            talc_onnx_fail(call, TALC_BAD_SHAPE, "x of rank %d, [N, C, ...] is pooled", x->rank));
}

static bool run_global_average_pool(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    return has_space(call, x) && talc_onnx_out(call, 0,
                                               x->rank == 4 ? talc_adaptive_avg_pool2d(x, 1, 1)
                                                            : talc_mean(x, space_of(x), true));
}

static bool run_global_max_pool(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    return has_space(call, x) && talc_onnx_out(call, 0, talc_max(x, space_of(x), true));
}

// ---- Norms --------------------------------------------------------------------------------------

/* A number of an options struct, where 0 would be the default. */
static double or_zero(double number)
{
    return number == 0 ? (double)TALC_ZERO : number;
}

static double eps_of(const talc_onnx_node *node)
{
    return or_zero(talc_onnx_float(node, "epsilon", 1e-5));
}

static bool run_batch_norm(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0), *in[4];
    for (int i = 0; i < 4; i++)
        in[i] = talc_onnx_in(call, i + 1);
    if (x == NULL || in[3] == NULL)
        return false;
    if (x->rank < 1)
        return talc_onnx_fail(call, TALC_BAD_SHAPE, "x is a scalar");
    const talc_dims dims = talc_dims_of(x);
    x = x->rank == 4 ? x : talc_onnx_planes(x);
    const talc_batch_norm2d_options options = { .eps = eps_of(call->step->node) };
    talc_tensor *y = talc_batch_norm2d(x, in[0], in[1], in[2], in[3], &options);
    return talc_onnx_out(call, 0, y == NULL || dims.rank == 4 ? y : talc_reshape(y, dims));
}

static const char *refuses_batch_norm(const talc_onnx_node *node, int64_t opset)
{
    (void)opset;
    return talc_onnx_int(node, "training_mode", 0) != 0 ? "training_mode is not 0" : NULL;
}

static bool run_instance_norm(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0);
    const talc_norm_options options = { .eps = eps_of(call->step->node) };
    return x != NULL && talc_onnx_out(call, 0,
                                      talc_group_norm(x, x->dims[1], talc_onnx_in(call, 1),
                                                      talc_onnx_in(call, 2), &options));
}

/* Opset 18 has one weight a group, 21 one a channel. */
static talc_tensor *of_channels(talc_tensor *weight, int64_t channels)
{
    if (weight == NULL || weight->dims[0] == 0 || weight->dims[0] == channels)
        return weight;
    const int64_t groups = weight->dims[0];
    talc_tensor *column = talc_reshape(weight, TALC_DIMS(groups, 1));
    return talc_reshape(talc_expand(column, TALC_DIMS(groups, channels / groups)),
                        TALC_DIMS(channels / groups * groups));
}

static bool run_group_norm(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0);
    const talc_norm_options options = { .eps = eps_of(call->step->node) };
    if (x == NULL || x->rank < 2)
        return false;
    talc_tensor *weight = of_channels(talc_onnx_in(call, 1), x->dims[1]);
    talc_tensor *bias = of_channels(talc_onnx_in(call, 2), x->dims[1]);
    return weight != NULL && bias != NULL &&
           talc_onnx_out(call, 0,
                         talc_group_norm(x, talc_onnx_int(call->step->node, "num_groups", 1),
                                         weight, bias, &options));
}

/* The mean and the reciprocal deviation, where they are asked for. */
static bool statistics(talc_onnx_call *call, talc_tensor *x, int axis, double eps)
{
    talc_dims axes = TALC_SCALAR;
    for (int i = axis; i < x->rank; i++)
        axes.dim[axes.rank++] = i;
    const talc_onnx_step *step = call->step;
    bool done = true;
    if (step->output_count > 1 && step->outputs[1] >= 0)
        done = talc_onnx_out(call, 1, talc_mean(x, axes, true));
    if (done && step->output_count > 2 && step->outputs[2] >= 0) {
        talc_tensor *variance = talc_var(x, axes, 0, true);
        variance = variance == NULL || eps == (double)TALC_ZERO ? variance
                                                                : talc_add_scalar(variance, eps);
        done = talc_onnx_out(call, 2, talc_rsqrt(variance));
    }
    return done;
}

static bool fits_last(const talc_tensor *weight, talc_dims last)
{
    return weight->rank == last.rank &&
           memcmp(weight->dims, last.dim, (size_t)last.rank * sizeof *last.dim) == 0;
}

/* The format broadcasts a weight to the dimensions that are normalised. */
static talc_tensor *stretched(talc_tensor *weight, talc_dims last)
{
    return talc_contiguous(talc_expand(weight, last));
}

static bool run_layer_norm(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0);
    const bool recognised = call->step->normalises;
    const talc_norm_options options = { .eps = recognised ? or_zero(call->step->eps)
                                                          : eps_of(call->step->node) };
    int axis = 0;
    if (x == NULL ||
        !talc_onnx_axis(call, recognised ? -1 : talc_onnx_int(call->step->node, "axis", -1),
                        x->rank, &axis))
        return false;
    talc_dims last = TALC_SCALAR;
    for (int i = axis; i < x->rank; i++)
        last.dim[last.rank++] = x->dims[i];
    if (!statistics(call, x, axis, options.eps))
        return false;
    talc_tensor *weight = talc_onnx_in(call, 1), *bias = talc_onnx_in(call, 2);
    if (weight != NULL && !fits_last(weight, last))
        weight = stretched(weight, last);
    if (bias != NULL && !fits_last(bias, last))
        bias = stretched(bias, last);
    if (talc_failed())
        return false;
    return talc_onnx_out(call, 0, talc_layer_norm(x, last, weight, bias, &options));
}

static bool run_lrn(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    if (talc_onnx_int(node, "size", 1) % 2 == 0)
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "an even size");
    const talc_local_response_norm_options options = {
        .alpha = or_zero(talc_onnx_float(node, "alpha", 1e-4)),
        .beta = or_zero(talc_onnx_float(node, "beta", 0.75)),
        .k = or_zero(talc_onnx_float(node, "bias", 1)),
    };
    return talc_onnx_out(
        call, 0,
        talc_local_response_norm(talc_onnx_in(call, 0), talc_onnx_int(node, "size", 1), &options));
}

// ---- Softmax ------------------------------------------------------------------------------------

/* Before opset 13 over all dimensions from the axis on, then over that one. */
static bool softmax(talc_onnx_call *call, talc_tensor *(*of)(const talc_tensor *, int))
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    const bool old = call->graph->model->opset < 13;
    int axis = 0;
    if (x == NULL || !talc_onnx_axis(call, talc_onnx_int(call->step->node, "axis", old ? 1 : -1),
                                     x->rank, &axis))
        return false;
    if (!old || axis == x->rank - 1)
        return talc_onnx_out(call, 0, of(x, axis));
    return talc_onnx_out(call, 0, talc_reshape(of(talc_flatten(x, axis, -1), -1), talc_dims_of(x)));
}

static bool run_softmax(talc_onnx_call *call)
{
    return softmax(call, talc_softmax);
}

static bool run_log_softmax(talc_onnx_call *call)
{
    return softmax(call, talc_log_softmax);
}

// ---- Reductions ---------------------------------------------------------------------------------

typedef talc_tensor *reduction(const talc_tensor *x, talc_dims axes, bool keep_dims);

/* No axes are all, or none where the node says so; false in *reduces then. */
static bool reduced_axes(talc_onnx_call *call, const talc_tensor *x, talc_dims *axes, bool *reduces)
{
    if (x == NULL || !talc_onnx_axes(call, 1, x->rank, axes))
        return false;
    *reduces = axes->rank > 0 || talc_onnx_int(call->step->node, "noop_with_empty_axes", 0) == 0;
    return true;
}

static talc_tensor *reduced(talc_onnx_call *call, talc_tensor *x, reduction *reduce)
{
    talc_dims axes;
    bool reduces;
    if (!reduced_axes(call, x, &axes, &reduces))
        return NULL;
    if (!reduces)
        return x;
    if ((reduce == talc_max || reduce == talc_min) && talc_numel(x) == 0) {
        talc_onnx_fail(call, TALC_UNSUPPORTED, "x has no elements");
        return NULL;
    }
    talc_tensor *y = reduce(x, axes, talc_onnx_int(call->step->node, "keepdims", 1) != 0);
    return y == NULL || y->dtype == x->dtype ? y : talc_cast(y, x->dtype);
}

#define REDUCTION(name, before, reduce, after)                                                     \
    static bool run_reduce_##name(talc_onnx_call *call)                                            \
    {                                                                                              \
        talc_tensor *x = talc_onnx_in(call, 0);                                                    \
        talc_tensor *y = x == NULL ? NULL : reduced(call, before, reduce);                         \
        return talc_onnx_out(call, 0, y == NULL ? NULL : after);                                   \
    }

REDUCTION(sum, x, talc_sum, y)
REDUCTION(mean, x, talc_mean, y)
REDUCTION(max, x, talc_max, y)
REDUCTION(min, x, talc_min, y)
REDUCTION(l1, talc_abs(x), talc_sum, y)
REDUCTION(l2, talc_mul(x, x), talc_sum, talc_sqrt(y))
REDUCTION(sum_square, talc_mul(x, x), talc_sum, y)
REDUCTION(log_sum, x, talc_sum, talc_log(y))
REDUCTION(log_sum_exp, x, talc_logsumexp, y)

/* On the CPU, dimension by dimension: products are of shapes. */
static bool run_reduce_prod(talc_onnx_call *call)
{
    talc_tensor *y = talc_onnx_in_host(call, 0);
    talc_dims axes;
    bool reduces;
    if (!reduced_axes(call, y, &axes, &reduces))
        return false;
    talc_dims kept = talc_dims_of(y), dims = TALC_SCALAR;
    for (int dim = 0; dim < kept.rank && reduces; dim++) {
        bool goes = axes.rank == 0;
        for (int k = 0; k < axes.rank; k++)
            goes = goes || axes.dim[k] == dim;
        if (!goes) {
            dims.dim[dims.rank++] = kept.dim[dim];
            continue;
        }
        talc_dims one = talc_dims_of(y);
        one.dim[dim] = 1;
        talc_tensor *product = talc_full(y->device, y->dtype, one, 1);
        for (int64_t i = 0; i < kept.dim[dim] && product != NULL; i++)
            product = talc_mul(product, talc_slice(y, dim, i, i + 1, 1));
        if (product == NULL)
            return false;
        y = product;
    }
    if (reduces && talc_onnx_int(call->step->node, "keepdims", 1) == 0)
        y = talc_reshape(y, dims);
    return talc_onnx_out(call, 0, y);
}

static bool arg(talc_onnx_call *call, reduction *find)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    int axis = 0;
    return x != NULL &&
           talc_onnx_axis(call, talc_onnx_int(call->step->node, "axis", 0), x->rank, &axis) &&
           talc_onnx_out(
               call, 0,
               find(x, TALC_DIMS(axis), talc_onnx_int(call->step->node, "keepdims", 1) != 0));
}

static bool run_argmax(talc_onnx_call *call)
{
    return arg(call, talc_argmax);
}

static bool run_argmin(talc_onnx_call *call)
{
    return arg(call, talc_argmin);
}

static const char *refuses_arg(const talc_onnx_node *node, int64_t opset)
{
    (void)opset;
    return talc_onnx_int(node, "select_last_index", 0) != 0 ? "select_last_index is not 0" : NULL;
}

// ---- Resizing -----------------------------------------------------------------------------------

/* Factors of a node of the opset's form; false, without a failure: there are sizes instead. */
static bool scales_of(talc_onnx_call *call, double scales[TALC_MAX_RANK], int *count)
{
    const int input =
        strcmp(call->step->node->op, "Upsample") == 0 || call->graph->model->opset < 11 ? 1 : 2;
    *count = talc_onnx_in_reals(call, input, scales, TALC_MAX_RANK);
    return *count > 0;
}

/* By talc's numbers; where PyTorch's rules hold there is no name. */
static const char *const coordinates[] = {
    "",  "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners",
    NULL
};
static const char *const roundings[] = { "floor", "ceil", "round_prefer_floor", "round_prefer_ceil",
                                         NULL };

/* The place of a name; past the last one for another. */
static int place_of(const char *const *names, const char *name)
{
    int i = 0;
    while (names[i] != NULL && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static int coordinates_of(const talc_onnx_node *node, int64_t opset)
{
    return place_of(coordinates, talc_onnx_string(node, "coordinate_transformation_mode",
                                                  opset < 11 ? "asymmetric" : "half_pixel"));
}

static int rounding_of(const talc_onnx_node *node, int64_t opset)
{
    return place_of(roundings, talc_onnx_string(node, "nearest_mode",
                                                opset < 11 ? "floor" : "round_prefer_floor"));
}

/* All but where to: of nearest unless the mode says otherwise. */
static talc_upsample2d_options resizing(const talc_onnx_node *node, int64_t opset)
{
    const char *mode = talc_onnx_string(node, "mode", "nearest");
    talc_upsample2d_options options = { .coordinates = (talc_upsample_coordinates)coordinates_of(
                                            node, opset) };
    if (strcmp(mode, "nearest") == 0) {
        options.rounding = (talc_upsample_rounding)rounding_of(node, opset);
    } else if (strcmp(mode, "cubic") == 0) {
        const double a = talc_onnx_float(node, "cubic_coeff_a", -0.75);
        options.mode = TALC_UPSAMPLE_BICUBIC;
        options.coefficient = a == 0 ? (double)TALC_ZERO : a;
        options.exclude_outside = talc_onnx_int(node, "exclude_outside", 0) != 0;
    } else {
        options.mode = TALC_UPSAMPLE_BILINEAR;
    }
    return options;
}

/* What becomes of each dimension of x: factors of it, or sizes. */
typedef struct resized {
    bool scaled;
    double scales[TALC_MAX_RANK];
    int64_t sizes[TALC_MAX_RANK];
} resized;

static bool read_resized(talc_onnx_call *call, const talc_tensor *x, resized *to)
{
    const talc_onnx_attribute *axes = talc_onnx_attribute_of(call->step->node, "axes");
    double scales[TALC_MAX_RANK];
    int64_t sizes[TALC_MAX_RANK];
    int count;
    to->scaled = scales_of(call, scales, &count);
    if (!to->scaled && !talc_failed())
        count = talc_onnx_in_numbers(call, 3, sizes, TALC_MAX_RANK);
    if (talc_failed())
        return false;
    if (count != (axes == NULL ? x->rank : axes->count))
        return talc_onnx_fail(call, TALC_BAD_SHAPE, "%d factors or sizes for x of rank %d", count,
                              x->rank);
    for (int i = 0; i < x->rank; i++) {
        to->scales[i] = 1;
        to->sizes[i] = x->dims[i];
    }
    for (int i = 0; i < count; i++) {
        int dim = i;
        if (axes != NULL && !talc_onnx_axis(call, axes->ints[i], x->rank, &dim))
            return false;
        if (to->scaled)
            to->scales[dim] = scales[i];
        else
            to->sizes[dim] = sizes[i];
        if (dim < x->rank - 2 && (to->scaled ? scales[i] != 1 : sizes[i] != x->dims[dim]))
            return talc_onnx_fail(call, TALC_UNSUPPORTED,
                                  "other than the last two dimensions are resized");
    }
    return true;
}

static bool run_resize(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0);
    resized to;
    if (x == NULL || !read_resized(call, x, &to))
        return false;
    talc_upsample2d_options options = resizing(call->step->node, call->graph->model->opset);
    talc_dims dims = talc_dims_of(x), image = TALC_DIMS(1, 1, 1);
    for (int i = 0; i < x->rank; i++) {
        const int at = i < x->rank - 2 ? 0 : i - x->rank + 3;
        image.dim[at] *= x->dims[i];
    }
    for (int i = 0; i < 2; i++) {
        const int dim = x->rank - 2 + i;
        options.size[i] = to.scaled ? 0 : dim < 0 ? 1 : to.sizes[dim];
        options.scale[i] = !to.scaled ? 0 : dim < 0 ? 1 : to.scales[dim];
        const double extent = (double)image.dim[1 + i] * options.scale[i];
        if (options.coordinates == TALC_COORDINATES_ALIGN_CORNERS && extent != floor(extent))
            return talc_onnx_fail(call, TALC_UNSUPPORTED,
                                  "align_corners with a factor that gives %g lines", extent);
    }
    if (x->rank == 3 || x->rank == 4)
        return talc_onnx_out(call, 0, talc_upsample2d(x, &options));
    talc_tensor *y = talc_upsample2d(talc_reshape(x, image), &options);
    for (int i = 0; i < 2 && i < x->rank && y != NULL; i++)
        dims.dim[x->rank - 1 - i] = y->dims[2 - i];
    return talc_onnx_out(call, 0, talc_reshape(y, dims));
}

static const char *refuses_resize(const talc_onnx_node *node, int64_t opset)
{
    const bool nearest = strcmp(talc_onnx_string(node, "mode", "nearest"), "nearest") == 0;
    if (coordinates[coordinates_of(node, opset)] == NULL || coordinates_of(node, opset) == 0)
        return "coordinates that talc does not have";
    if (nearest && roundings[rounding_of(node, opset)] == NULL)
        return "a nearest_mode that does not exist";
    if (talc_onnx_int(node, "antialias", 0) != 0)
        return "antialias is not 0";
    if (strcmp(talc_onnx_string(node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return "keep_aspect_ratio_policy";
    return NULL;
}

const talc_onnx_operator talc_onnx_nets[] = {
    { "ArgMax", run_argmax, 1, refuses_arg },
    { "ArgMin", run_argmin, 1, refuses_arg },
    { "AveragePool", run_average_pool, 1, refuses_average_pool },
    { "BatchNormalization", run_batch_norm, 5, refuses_batch_norm },
    { "Conv", run_conv, 2, NULL },
    { "ConvTranspose", run_conv_transpose, 2, NULL },
    { "Gemm", run_gemm, 2, NULL },
    { "GlobalAveragePool", run_global_average_pool, 1, NULL },
    { "GlobalMaxPool", run_global_max_pool, 1, NULL },
    { "GroupNormalization", run_group_norm, 3, NULL },
    { "InstanceNormalization", run_instance_norm, 3, NULL },
    { "LRN", run_lrn, 1, NULL },
    { "LayerNormalization", run_layer_norm, 2, NULL },
    { "LogSoftmax", run_log_softmax, 1, NULL },
    { "MatMul", run_matmul, 2, NULL },
    { "MaxPool", run_max_pool, 1, refuses_max_pool },
    { "ReduceL1", run_reduce_l1, 1, NULL },
    { "ReduceL2", run_reduce_l2, 1, NULL },
    { "ReduceLogSum", run_reduce_log_sum, 1, NULL },
    { "ReduceLogSumExp", run_reduce_log_sum_exp, 1, NULL },
    { "ReduceMax", run_reduce_max, 1, NULL },
    { "ReduceMean", run_reduce_mean, 1, NULL },
    { "ReduceMin", run_reduce_min, 1, NULL },
    { "ReduceProd", run_reduce_prod, 1, NULL },
    { "ReduceSum", run_reduce_sum, 1, NULL },
    { "ReduceSumSquare", run_reduce_sum_square, 1, NULL },
    { "Resize", run_resize, 1, refuses_resize },
    { "Softmax", run_softmax, 1, NULL },
    { "Upsample", run_resize, 1, refuses_resize },
    { NULL, NULL, 0, NULL },
};
