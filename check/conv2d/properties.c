/* Each property derives from the problem one on which it says something (a batch of three, a
 * dilation of 2x3, ...), poses that and those it is equal to, and compares. Where the algorithm
 * refuses any of them the trial is decided and nothing follows. */
#include "check/conv2d/properties.h"

#include "check/conv2d/properties_gradient.h"
#include "check/conv2d/relations.h"

#include <string.h>

typedef talc_conv2d_problem conv2d;
typedef check_property property;

#define numbers  talc_check_trial_numbers
#define convolve talc_check_trial_convolve
#define compare  talc_check_trial_compare
#define settled  talc_check_settled

static double *image(check_trial *trial, const conv2d *p)
{
    return talc_check_trial_integers(trial, talc_check_x_count(p), p->dtype, talc_check_terms(p),
                                     1);
}

static double *kernel(check_trial *trial, const conv2d *p)
{
    return talc_check_trial_integers(trial, talc_check_w_count(p), p->dtype, talc_check_terms(p),
                                     1);
}

static int64_t at4(int64_t a, int64_t b, int64_t c, int64_t d, int64_t B, int64_t C, int64_t D)
{
    return ((a * B + b) * C + c) * D + d;
}

// ---- Parts and the whole ------------------------------------------------------------------------

static void batch(check_trial *trial, conv2d whole)
{
    whole.N = whole.N < 3 ? 3 : whole.N;
    conv2d first = whole, rest = whole;
    first.N = 1;
    rest.N = whole.N - 1;
    const double *x = image(trial, &whole), *w = kernel(trial, &whole);
    const double *y = convolve(trial, &whole, x, w);
    double *expected = numbers(trial, talc_check_y_count(&whole));
    const double *y_first = convolve(trial, &first, x, w);
    const double *y_rest =
        convolve(trial, &rest, trial->decided ? NULL : x + talc_check_x_count(&first), w);
    if (trial->decided)
        return;
    const int64_t split = talc_check_y_count(&first);
    memcpy(expected, y_first, (size_t)split * sizeof *expected);
    memcpy(expected + split, y_rest, (size_t)talc_check_y_count(&rest) * sizeof *expected);
    compare(trial, &whole, y, expected, "the batch in two parts");
}

static void groups(check_trial *trial, conv2d whole)
{
    conv2d part;
    talc_check_relate_groups(&whole, &part);
    const int64_t G = whole.groups;
    double *x = image(trial, &whole), *w = kernel(trial, &whole);
    const double *y = convolve(trial, &whole, x, w);
    double *expected = numbers(trial, talc_check_y_count(&whole));
    double *x_g = numbers(trial, talc_check_x_count(&part));
    for (int64_t g = 0; g < G && !trial->decided; g++) {
        talc_check_copy_group(x_g, x, false, whole.N, G, g, part.C * whole.H * whole.W);
        double *y_g = convolve(trial, &part, x_g, w + g * talc_check_w_count(&part));
        if (y_g != NULL)
            talc_check_copy_group(y_g, expected, true, whole.N, G, g,
                                  part.OC * whole.OH * whole.OW);
    }
    compare(trial, &whole, y, expected, "its group alone");
}

// ---- Dilation, stride and padding as what they stand for ----------------------------------------

static void dilation(check_trial *trial, conv2d whole)
{
    conv2d dense;
    if (!talc_check_relate_dilation(trial, &whole, &dense))
        return;
    const double *x = image(trial, &whole), *w = kernel(trial, &whole);
    double *spread = numbers(trial, talc_check_w_count(&dense));
    if (trial->decided)
        return;
    for (int64_t i = 0; i < talc_check_w_count(&whole); i++)
        spread[talc_check_dense_tap(&whole, &dense, i)] = w[i];
    const double *y = convolve(trial, &whole, x, w);
    compare(trial, &whole, y, convolve(trial, &dense, x, spread),
            "a kernel with zeros between its taps");
}

static void stride(check_trial *trial, conv2d whole)
{
    conv2d dense;
    if (!talc_check_relate_stride(trial, &whole, &dense))
        return;
    const double *x = image(trial, &whole), *w = kernel(trial, &whole);
    const double *y = convolve(trial, &whole, x, w), *all = convolve(trial, &dense, x, w);
    double *expected = numbers(trial, talc_check_y_count(&whole));
    if (trial->decided)
        return;
    for (int64_t i = 0; i < talc_check_y_count(&whole); i++)
        expected[i] = all[talc_check_dense_output(&whole, &dense, i)];
    compare(trial, &whole, y, expected, "stride 1 at that place");
}

static void padding(check_trial *trial, conv2d whole)
{
    conv2d larger;
    if (!talc_check_relate_padding(trial, &whole, &larger))
        return;
    const double *x = image(trial, &whole), *w = kernel(trial, &whole);
    const double *y = convolve(trial, &whole, x, w);
    if (trial->decided)
        return;
    const double *large = talc_check_padded(trial, &whole, &larger, x);
    compare(trial, &whole, y, convolve(trial, &larger, large, w), "the padded image");
}

// ---- What a convolution is ----------------------------------------------------------------------

static void pointwise(check_trial *trial, conv2d whole)
{
    whole.KH = whole.KW = whole.stride_h = whole.stride_w = 1;
    whole.dilation_h = whole.dilation_w = 1;
    whole.pad_top = whole.pad_left = whole.pad_bottom = whole.pad_right = 0;
    if (!settled(trial, &whole))
        return;
    const double *x = image(trial, &whole), *w = kernel(trial, &whole);
    const double *y = convolve(trial, &whole, x, w);
    double *expected = numbers(trial, talc_check_y_count(&whole));
    if (trial->decided)
        return;
    const int64_t plane = whole.H * whole.W, IC = whole.C / whole.groups;
    for (int64_t i = 0; i < talc_check_y_count(&whole); i++) {
        const int64_t at = i % plane, oc = i / plane % whole.OC, n = i / plane / whole.OC;
        const int64_t c = oc / (whole.OC / whole.groups) * IC;
        int64_t sum = 0;
        for (int64_t ic = 0; ic < IC; ic++)
            sum += (int64_t)w[oc * IC + ic] * (int64_t)x[(n * whole.C + c + ic) * plane + at];
        expected[i] = (double)sum;
    }
    compare(trial, &whole, y, expected, "the matrix product");
}

/* w with its taps rotated and its channels exchanged: [C, OC/groups, KH, KW]. */
static double *transposed(check_trial *trial, const conv2d *p, const double *w)
{
    double *rotated = numbers(trial, talc_check_w_count(p));
    if (rotated == NULL)
        return NULL;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, KH = p->KH, KW = p->KW;
    for (int64_t i = 0; i < talc_check_w_count(p); i++) {
        const int64_t kw = i % KW, kh = i / KW % KH, oc = i / KW / KH % OC, c = i / KW / KH / OC;
        const int64_t from = at4(c / IC * OC + oc, c % IC, KH - 1 - kh, KW - 1 - kw, IC, KH, KW);
        rotated[i] = w[from];
    }
    return rotated;
}

/* Padding that is more than the kernel reaches has no counterpart on the other side. */
static void at_most(int64_t *pad, int64_t max)
{
    *pad = *pad > max ? max : *pad;
}

/* The problem whose images are the results of `whole`, and whose results are its images. */
static conv2d back_of(const conv2d *whole)
{
    const int64_t reach_h = whole->dilation_h * (whole->KH - 1),
                  reach_w = whole->dilation_w * (whole->KW - 1);
    conv2d back = *whole;
    back.C = whole->OC;
    back.OC = whole->C;
    back.H = whole->OH;
    back.W = whole->OW;
    back.pad_top = reach_h - whole->pad_top;
    back.pad_bottom = reach_h - whole->pad_bottom;
    back.pad_left = reach_w - whole->pad_left;
    back.pad_right = reach_w - whole->pad_right;
    return back;
}

static void adjoint(check_trial *trial, conv2d whole)
{
    whole.stride_h = whole.stride_w = 1;
    whole.padding_mode = TALC_PADDING_ZEROS;
    at_most(&whole.pad_top, whole.dilation_h * (whole.KH - 1));
    at_most(&whole.pad_bottom, whole.dilation_h * (whole.KH - 1));
    at_most(&whole.pad_left, whole.dilation_w * (whole.KW - 1));
    at_most(&whole.pad_right, whole.dilation_w * (whole.KW - 1));
    if (!settled(trial, &whole))
        return;
    conv2d back = back_of(&whole);
    /* With several outputs for each channel the transpose of a depthwise convolution is not
     * depthwise. */
    if (whole.groups == whole.C && talc_check_settle(&back) &&
        !talc_check_trial_takes(trial, &back)) {
        whole.OC = whole.C;
        back = back_of(&whole);
    }
    if (!settled(trial, &back))
        return;
    const double terms = fmax(talc_check_terms(&whole), talc_check_terms(&back));
    const talc_dtype dtype = whole.dtype;
    const double *x = talc_check_trial_integers(trial, talc_check_x_count(&whole), dtype, terms, 1);
    const double *w = talc_check_trial_integers(trial, talc_check_w_count(&whole), dtype, terms, 1);
    const double *g = talc_check_trial_integers(trial, talc_check_x_count(&back), dtype, terms, 1);
    const double *y = convolve(trial, &whole, x, w);
    if (trial->decided)
        return;
    const double *dx = convolve(trial, &back, g, transposed(trial, &whole, w));
    talc_check_trial_compare_inner(
        trial, &whole, &(check_inner){ y, g, talc_check_y_count(&whole), "<conv(x, w), g>" },
        &(check_inner){ dx, x, talc_check_x_count(&whole),
                        "<x, conv(g, w turned and transposed)>" });
}

static void linearity(check_trial *trial, conv2d whole)
{
    const double a = 2, b = -3, K = talc_check_terms(&whole);
    const int64_t x_count = talc_check_x_count(&whole), y_count = talc_check_y_count(&whole);
    const double *x1 = talc_check_trial_integers(trial, x_count, whole.dtype, K, 5);
    const double *x2 = talc_check_trial_integers(trial, x_count, whole.dtype, K, 5);
    const double *w =
        talc_check_trial_integers(trial, talc_check_w_count(&whole), whole.dtype, K, 5);
    double *mixed = numbers(trial, x_count), *expected = numbers(trial, y_count);
    for (int64_t i = 0; i < x_count && !trial->decided; i++)
        mixed[i] = a * x1[i] + b * x2[i];
    const double *y1 = convolve(trial, &whole, x1, w), *y2 = convolve(trial, &whole, x2, w);
    const double *y = convolve(trial, &whole, mixed, w);
    for (int64_t i = 0; i < y_count && !trial->decided; i++)
        expected[i] =
            a * talc_check_trial_integer(trial, y1[i]) + b * talc_check_trial_integer(trial, y2[i]);
    compare(trial, &whole, y, expected, "2 conv(x1) - 3 conv(x2)");
}

// ---- Shift --------------------------------------------------------------------------------------

/* Whether the window of output o lies inside the image. */
static bool inside(int64_t o, int64_t stride, int64_t pad, int64_t dilation, int64_t K,
                   int64_t extent)
{
    const int64_t first = o * stride - pad;
    return first >= 0 && first + dilation * (K - 1) < extent;
}

/* Enlarges an axis until the windows inside the image outnumber the shift. */
static void grow_extent(int64_t *extent, int64_t *stride, int64_t pad, int64_t dilation, int64_t K,
                        int64_t shift)
{
    *stride = *stride > 8 ? 8 : *stride;
    const int64_t first = (pad + *stride - 1) / *stride;
    const int64_t min = (first + shift) * *stride - pad + dilation * (K - 1) + 1;
    *extent = *extent < min ? min : *extent;
}

static void shift(check_trial *trial, conv2d whole)
{
    const int64_t down = 1, right = 2;
    grow_extent(&whole.H, &whole.stride_h, whole.pad_top, whole.dilation_h, whole.KH, down);
    grow_extent(&whole.W, &whole.stride_w, whole.pad_left, whole.dilation_w, whole.KW, right);
    if (!settled(trial, &whole))
        return;
    const double *x = image(trial, &whole), *w = kernel(trial, &whole);
    double *moved = image(trial, &whole), *expected = numbers(trial, talc_check_y_count(&whole));
    if (trial->decided)
        return;
    for (int64_t i = 0; i < talc_check_x_count(&whole); i++) {
        const int64_t iw = i % whole.W - right * whole.stride_w,
                      ih = i / whole.W % whole.H - down * whole.stride_h;
        if (ih >= 0 && iw >= 0)
            moved[i] = x[(i / whole.W / whole.H * whole.H + ih) * whole.W + iw];
    }
    const double *y = convolve(trial, &whole, x, w), *y_moved = convolve(trial, &whole, moved, w);
    if (trial->decided)
        return;
    for (int64_t i = 0; i < talc_check_y_count(&whole); i++) {
        const int64_t ow = i % whole.OW - right, oh = i / whole.OW % whole.OH - down;
        const bool expected_here =
            inside(oh, whole.stride_h, whole.pad_top, whole.dilation_h, whole.KH, whole.H) &&
            inside(oh + down, whole.stride_h, whole.pad_top, whole.dilation_h, whole.KH, whole.H) &&
            inside(ow, whole.stride_w, whole.pad_left, whole.dilation_w, whole.KW, whole.W) &&
            inside(ow + right, whole.stride_w, whole.pad_left, whole.dilation_w, whole.KW, whole.W);
        expected[i] = expected_here ? y[(i / whole.OW / whole.OH * whole.OH + oh) * whole.OW + ow]
                                    : CHECK_NOT_EXPECTED;
    }
    compare(trial, &whole, y_moved, expected, "the image before its shift");
}

// ---- Entry --------------------------------------------------------------------------------------

check_property_result talc_check_property(talc_check_kind kind, const talc_algorithm *algorithm,
                                          talc_device *device, const check_problem *problem,
                                          uint64_t seed, char reason[256])
{
    static property *const properties[] = {
        batch, groups, dilation, stride, pointwise, padding, adjoint, linearity, shift,
    };
    _Static_assert(sizeof properties / sizeof *properties ==
                       TALC_CHECK_KIND_COUNT - TALC_CHECK_BATCH,
                   "one for every kind from TALC_CHECK_BATCH on, in their order");
    check_trial trial = {
        .kind = kind,
        .algorithm = algorithm,
        .device = device,
        .seed = seed,
        .result = CHECK_HOLDS,
        .reason = reason,
    };
    conv2d whole;
    reason[0] = '\0';
    memcpy(&whole, problem->bytes, sizeof whole);
    if (kind < TALC_CHECK_BATCH || kind >= TALC_CHECK_KIND_COUNT || !talc_check_shrink(&whole))
        return CHECK_LEFT_OUT;
    property *found = whole.direction == TALC_FORWARD ? properties[kind - TALC_CHECK_BATCH]
                                                      : talc_check_gradient_property(kind);
    if (found == NULL)
        return CHECK_LEFT_OUT;
    found(&trial, whole);
    talc_check_trial_free(&trial);
    return trial.result;
}
