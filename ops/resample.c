#include "ops/resample.h"

#include "ops/op.h"
#include "ops/operand.h"
#include "ops/padding.h"
#include "tensor/extent.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <math.h>

static const char *const mode_names[] = { "a constant", "reflect", "replicate", "circular" };

// ---- Problem ------------------------------------------------------------------------------------

/* Whether outputs show what they have. */
static bool is_plain(const talc_resample_axis *a)
{
    return a->kind == TALC_RESAMPLE_PAD && a->begin == 0 && a->in == a->out;
}

/* Takes the next dimension in: into the one before where both are plain. */
static void add_axis(talc_resample_problem *p, talc_resample_axis axis)
{
    talc_resample_axis *last = p->rank == 0 ? NULL : &p->axes[p->rank - 1];
    if (last != NULL && is_plain(last) && is_plain(&axis)) {
        last->in *= axis.in;
        last->out = last->in;
        return;
    }
    p->axes[p->rank++] = axis;
}

static void add_plain(talc_resample_problem *p, int64_t extent)
{
    add_axis(p, (talc_resample_axis){ .in = extent, .out = extent });
}

// ---- Checks of pad ------------------------------------------------------------------------------

/* That the mode has an element for every output. */
static bool check_mode(const talc_tensor *x, int dim, talc_padding_mode mode, int64_t before,
                       int64_t after)
{
    const int64_t extent = x->dims[dim], more = talc_larger(before, after);
    const int64_t cropped = talc_larger(-before, 0) + talc_larger(-after, 0);
    const int64_t max = mode == TALC_PADDING_REFLECT    ? extent - 1
                        : mode == TALC_PADDING_CIRCULAR ? extent - cropped
                        : extent > 0                    ? INT64_MAX
                                                        : 0;
    if (mode == TALC_PADDING_ZEROS || (before == 0 && after == 0))
        return true;
    if (x->rank - dim > 3)
        talc_fail(TALC_BAD_ARGUMENT, "pad: %s pads the last 3 dimensions, not dimension %d of %d",
                  mode_names[mode], dim, x->rank);
    else if (mode == TALC_PADDING_CIRCULAR && cropped > extent)
        talc_fail(TALC_BAD_ARGUMENT,
                  "pad: padding %" PRId64 " and %" PRId64 " crops %" PRId64
                  " of dimension %d, whose extent is %" PRId64,
                  before, after, cropped, dim, extent);
    else if (more > 0 && more > max)
        talc_fail(TALC_BAD_ARGUMENT,
                  "pad: %s by %" PRId64 " of dimension %d, whose extent %" PRId64
                  " allows at most %" PRId64,
                  mode_names[mode], more, dim,
                  extent - (mode == TALC_PADDING_CIRCULAR ? cropped : 0), talc_larger(max, 0));
    return !talc_failed();
}

/* The padding of a dimension of x; true where it pads, and false, with a failure, where it
 * cannot. */
static bool read_axis(const talc_tensor *x, int dim, const talc_pad_options *options,
                      talc_resample_axis *axis)
{
    const int64_t *sides = options->padding + 2 * (x->rank - 1 - dim);
    const int64_t before = talc_or_default(sides[0], 0), after = talc_or_default(sides[1], 0);
    const int64_t extent = x->dims[dim];
    *axis = (talc_resample_axis){
        .kind = TALC_RESAMPLE_PAD, .mode = options->mode, .in = extent, .begin = before
    };
    if (before > INT64_MAX / 4 || after > INT64_MAX / 4 || before < -INT64_MAX / 4 ||
        after < -INT64_MAX / 4 || extent > INT64_MAX / 4) {
        talc_fail(TALC_TOO_LARGE,
                  "pad: padding %" PRId64 " and %" PRId64
                  " of dimension %d, whose extent is %" PRId64 ", exceeds 2^61",
                  before, after, dim, extent);
        return false;
    }
    axis->out = extent + before + after;
    if (axis->out < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "pad: padding %" PRId64 " and %" PRId64
                  " leaves a negative extent of dimension %d, whose extent is %" PRId64,
                  before, after, dim, extent);
    return !talc_failed() && check_mode(x, dim, options->mode, before, after);
}

static bool check_pad(const talc_tensor *x, const talc_pad_options *options)
{
    if (talc_operand_missing("pad", "x", x) || talc_operand_missing("pad", "options", options))
        return false;
    if (options->mode == TALC_PADDING_ZEROS &&
        !talc_number_held("pad", "value", options->value, x->dtype))
        return false;
    if ((unsigned)options->mode >= TALC_PADDING_MODE_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "pad: mode %d is outside 0..%d", (int)options->mode,
                  TALC_PADDING_MODE_COUNT - 1);
    for (int i = 2 * x->rank; i < 2 * TALC_MAX_RANK && !talc_failed(); i++)
        if (options->padding[i] != 0 && options->padding[i] != TALC_ZERO)
            talc_fail(TALC_BAD_ARGUMENT,
                      "pad: padding[%d] is %" PRId64 ", x of rank %d has padding[0] to padding[%d]",
                      i, options->padding[i], x->rank, 2 * x->rank - 1);
    return !talc_failed();
}

// ---- Checks of upsample2d -----------------------------------------------------------------------

static bool is_nearest(const talc_upsample2d_options *o)
{
    return o->mode == TALC_UPSAMPLE_NEAREST || o->mode == TALC_UPSAMPLE_NEAREST_EXACT;
}

bool talc_upsample2d_check(const talc_upsample2d_options *o)
{
    if (talc_operand_missing("upsample2d", "options", o))
        return false;
    const bool sized = o->size[0] != 0 || o->size[1] != 0;
    const bool scaled = o->scale[0] != 0 || o->scale[1] != 0;
    if ((unsigned)o->mode >= TALC_UPSAMPLE_MODE_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: mode %d is outside 0..%d", (int)o->mode,
                  TALC_UPSAMPLE_MODE_COUNT - 1);
    else if (o->align_corners && is_nearest(o))
        talc_fail(TALC_BAD_ARGUMENT,
                  "upsample2d: align_corners is an option of bilinear and bicubic");
    else if ((unsigned)o->coordinates >= TALC_COORDINATES_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: coordinates %d is outside 0..%d",
                  (int)o->coordinates, TALC_COORDINATES_COUNT - 1);
    else if (o->coordinates != TALC_COORDINATES_DEFAULT && o->mode == TALC_UPSAMPLE_NEAREST_EXACT)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: coordinates is no option of nearest_exact");
    else if (o->align_corners && o->coordinates != TALC_COORDINATES_DEFAULT)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: both align_corners and coordinates are given");
    else if ((unsigned)o->rounding >= TALC_ROUNDING_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: rounding %d is outside 0..%d", (int)o->rounding,
                  TALC_ROUNDING_COUNT - 1);
    else if (o->rounding != TALC_ROUNDING_FLOOR && o->mode != TALC_UPSAMPLE_NEAREST)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: rounding is an option of nearest");
    else if ((o->coefficient != 0 || o->exclude_outside) && o->mode != TALC_UPSAMPLE_BICUBIC)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: %s is an option of bicubic",
                  o->exclude_outside ? "exclude_outside" : "coefficient");
    else if (!isfinite(o->coefficient))
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: coefficient %g must be finite", o->coefficient);
    else if (sized && scaled)
        talc_fail(TALC_BAD_ARGUMENT,
                  "upsample2d: both size [%" PRId64 ",%" PRId64 "] and scale [%g,%g] are given",
                  o->size[0], o->size[1], o->scale[0], o->scale[1]);
    else if (!sized && !scaled)
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: neither size nor scale is given");
    else if (sized)
        return talc_pair_at_least("upsample2d", 1, "size", o->size[0], o->size[1]);
    else if (!(o->scale[0] > 0 && o->scale[1] > 0) || isinf(o->scale[0]) || isinf(o->scale[1]))
        talc_fail(TALC_BAD_ARGUMENT, "upsample2d: scale [%g,%g] must be finite and above 0",
                  o->scale[0], o->scale[1]);
    return !talc_failed();
}

static bool check_upsample(const talc_tensor *x, const talc_upsample2d_options *o)
{
    char text[TALC_DIMS_TEXT];
    if (talc_operand_missing("upsample2d", "x", x) || !talc_upsample2d_check(o))
        return false;
    if (x->rank != 3 && x->rank != 4)
        talc_fail(TALC_BAD_SHAPE, "upsample2d: x %s has rank %d, needs 4: [N,C,H,W], or 3: [C,H,W]",
                  talc_dims_text(talc_dims_of(x), text), x->rank);
    else if (x->dims[x->rank - 2] == 0 || x->dims[x->rank - 1] == 0)
        talc_fail(TALC_BAD_SHAPE, "upsample2d: x %s has an empty image",
                  talc_dims_text(talc_dims_of(x), text));
    else if (!is_nearest(o))
        return talc_operand_float("upsample2d", "x", x);
    return !talc_failed();
}

/* The output extents that the options ask for. */
static bool output_extents(const talc_upsample2d_options *o, const int64_t in[2], int64_t out[2])
{
    for (int i = 0; i < 2; i++) {
        const double extent = floor((double)in[i] * o->scale[i]);
        if (extent >= 0x1p62) {
            talc_fail(TALC_TOO_LARGE, "upsample2d: extent %" PRId64 " times scale %g exceeds 2^62",
                      in[i], o->scale[i]);
            return false;
        }
        out[i] = o->size[i] > 0 ? o->size[i] : (int64_t)extent;
    }
    if (out[0] < 1 || out[1] < 1)
        talc_fail(TALC_BAD_ARGUMENT,
                  "upsample2d: scale [%g,%g] of an image [%" PRId64 ",%" PRId64
                  "] leaves an output of [%" PRId64 ",%" PRId64 "]",
                  o->scale[0], o->scale[1], in[0], in[1], out[0], out[1]);
    return !talc_failed();
}

/* Where outputs lie, before any rounding. */
static void place_outputs(talc_resample_axis *axis, talc_upsample_coordinates coordinates)
{
    const double in = (double)axis->in, out = (double)axis->out;
    if (coordinates == TALC_COORDINATES_ALIGN_CORNERS)
        axis->scale = axis->out > 1 ? (in - 1) / (out - 1) : 0;
    else if (coordinates == TALC_COORDINATES_PYTORCH_HALF_PIXEL && axis->out == 1)
        axis->scale = 0;
    else if (coordinates != TALC_COORDINATES_ASYMMETRIC) {
        axis->shift = 0.5;
        axis->offset = -0.5;
        if (coordinates == TALC_COORDINATES_HALF_PIXEL_SYMMETRIC)
            axis->shift += (in / axis->scale - out) / 2;
    }
}

static talc_resample_axis upsample_axis(const talc_upsample2d_options *o, int64_t in, int64_t out,
                                        double factor)
{
    const bool cubic = o->mode == TALC_UPSAMPLE_BICUBIC;
    const bool asymmetric = o->mode == TALC_UPSAMPLE_NEAREST;
    const bool pytorch = o->coordinates == TALC_COORDINATES_DEFAULT;
    const talc_upsample_rounding rounding =
        o->mode == TALC_UPSAMPLE_NEAREST_EXACT ? TALC_ROUNDING_PREFER_CEIL : o->rounding;
    const talc_resample_axis plain = { .in = in, .out = out };
    talc_resample_axis axis = plain;
    axis.kind = is_nearest(o) ? TALC_RESAMPLE_NEAREST
                : cubic       ? TALC_RESAMPLE_CUBIC
                              : TALC_RESAMPLE_LINEAR;
    axis.scale = asymmetric && pytorch && in <= INT64_MAX / 2 && out == 2 * in ? 0.5
                 : factor > 0                                                  ? 1 / factor
                              : (double)in / (double)out;
    place_outputs(&axis, o->align_corners ? TALC_COORDINATES_ALIGN_CORNERS
                         : !pytorch       ? o->coordinates
                         : asymmetric     ? TALC_COORDINATES_ASYMMETRIC
                                          : TALC_COORDINATES_HALF_PIXEL);
    const bool copies = pytorch && (asymmetric || o->mode == TALC_UPSAMPLE_BILINEAR);
    if (in == out && (copies || (axis.scale == 1 && axis.shift + axis.offset == 0)))
        return plain;
    axis.up = rounding == TALC_ROUNDING_CEIL || rounding == TALC_ROUNDING_PREFER_FLOOR;
    axis.offset += rounding == TALC_ROUNDING_PREFER_CEIL    ? 0.5
                   : rounding == TALC_ROUNDING_PREFER_FLOOR ? -0.5
                                                            : 0;
    if (is_nearest(o) && !pytorch) /* what is next to where the choice changes is there */
        axis.offset += (axis.up ? -0x1p-23 : 0x1p-23) * (double)in;
    axis.inside = o->exclude_outside;
    axis.coefficient = !cubic                                ? 0
                       : o->coefficient == 0                 ? -0.75
                       : o->coefficient == (double)TALC_ZERO ? 0
                                                             : o->coefficient;
    return axis;
}

// ---- Gradient -----------------------------------------------------------------------------------

static const char *gradient_name(const talc_resample_problem *p)
{
    for (int i = 0; i < p->rank; i++)
        if (p->axes[i].kind != TALC_RESAMPLE_PAD)
            return "upsample2d.grad_input";
    return "pad.grad_input";
}

talc_tensor *talc_resample_grad_input(const talc_resample_problem *problem, const talc_tensor *dy,
                                      talc_dims x)
{
    talc_resample_problem p = *problem;
    const char *op = gradient_name(&p);
    p.direction = TALC_GRAD_INPUT;
    talc_tensor *dx = talc_tensor_new(op, dy->device, dy->dtype, x);
    return talc_op_run(&(talc_call){ .op = TALC_OP_resample,
                                     .name = op,
                                     .problem = &p,
                                     .inputs = { TALC_OPERAND(resample, x, dy) },
                                     .input_count = 1,
                                     .outputs = { TALC_OPERAND(resample, y, dx) },
                                     .fills = talc_numel(dy) == 0 });
}

static void resample_gradient(const talc_node *node, const talc_tensor *dy,
                              talc_tensor *gradients[])
{
    gradients[0] =
        talc_resample_grad_input(talc_node_problem(node), dy, talc_node_input_dims(node, 0));
}

// ---- The ops ------------------------------------------------------------------------------------

/* y of these extents. The value is a tensor of one element, so that it is converted as every
 * other. */
static talc_tensor *resample(const char *op, const talc_tensor *x, talc_dims dims,
                             const talc_resample_problem *p)
{
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, dims);
    talc_observer *observer = talc_observe_pause();
    talc_tensor *value = y == NULL || (p->value == 0 && !signbit(p->value))
                             ? NULL
                             : talc_full(x->device, x->dtype, TALC_SCALAR, p->value);
    talc_observe_resume(observer);
    y = talc_op_run(&(talc_call){
        .op = TALC_OP_resample,
        .name = op,
        .problem = p,
        .further = &(talc_resample_arguments){ .value = talc_operand_data(value) }.base,
        .inputs = { TALC_OPERAND(resample, x, x) },
        .input_count = 1,
        .outputs = { TALC_OPERAND(resample, y, y) },
        .record = &(talc_record){ .op = op,
                                  .rule = resample_gradient,
                                  .inputs = &x,
                                  .input_count = 1,
                                  .problem = p,
                                  .problem_bytes = sizeof *p } });
    talc_release(value);
    return y;
}

/* Repetition is of what cropping leaves. */
static talc_tensor *crop_and_pad(const talc_tensor *x, talc_pad_options options)
{
    talc_tensor *part = talc_retain((talc_tensor *)x);
    for (int i = 0; i < x->rank && part != NULL; i++) {
        int64_t *sides = options.padding + 2 * (x->rank - 1 - i);
        talc_tensor *whole = part;
        part = talc_slice(whole, i, talc_larger(-talc_or_default(sides[0], 0), 0),
                          x->dims[i] + talc_smaller(talc_or_default(sides[1], 0), 0), 1);
        talc_release(whole);
        sides[0] = talc_larger(sides[0], 0);
        sides[1] = talc_larger(sides[1], 0);
    }
    talc_tensor *y = part == NULL ? NULL : talc_pad(part, &options);
    talc_release(part);
    return y;
}

talc_tensor *talc_pad(const talc_tensor *x, const talc_pad_options *options)
{
    TALC_DEFAULT_FENV;
    if (!check_pad(x, options))
        return NULL;
    talc_resample_problem problem = { .dtype = x->dtype,
                                      .value = options->mode == TALC_PADDING_ZEROS ? options->value
                                                                                   : 0 };
    talc_dims dims = talc_dims_of(x);
    bool crops = false;
    add_plain(&problem, 1);
    for (int i = 0; i < x->rank; i++) {
        talc_resample_axis axis;
        if (!read_axis(x, i, options, &axis))
            return NULL;
        dims.dim[i] = axis.out;
        crops = crops || axis.begin < 0 || axis.out < axis.in + axis.begin;
        /* A rank of 8 leaves no room for the 1 in front. */
        if (i == 0)
            problem.rank = 0;
        add_axis(&problem, axis);
    }
    if (crops && options->mode == TALC_PADDING_CIRCULAR)
        return crop_and_pad(x, *options);
    return resample("pad", x, dims, &problem);
}

talc_tensor *talc_upsample2d(const talc_tensor *x, const talc_upsample2d_options *options)
{
    TALC_DEFAULT_FENV;
    int64_t out[2];
    if (!check_upsample(x, options) || !output_extents(options, x->dims + (x->rank - 2), out))
        return NULL;
    talc_resample_problem problem = { .dtype = x->dtype };
    talc_dims dims = talc_dims_of(x);
    for (int i = 0; i < x->rank; i++) {
        const int image = i - (x->rank - 2); /* 0 and 1: height and width */
        if (image < 0) {
            add_plain(&problem, x->dims[i]);
            continue;
        }
        dims.dim[i] = out[image];
        add_axis(&problem, upsample_axis(options, x->dims[i], out[image], options->scale[image]));
    }
    return resample("upsample2d", x, dims, &problem);
}
