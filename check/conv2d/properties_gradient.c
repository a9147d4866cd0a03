/* Gradients of convolutions among themselves, and beside the convolution that they are of. The
 * operands of one are a and b: dy and w for dx, x and dy for dw. */
#include "check/conv2d/properties_gradient.h"

#include "check/conv2d/relations.h"

#include <string.h>

typedef talc_conv2d_problem conv2d;

#define numbers  talc_check_trial_numbers
#define convolve talc_check_trial_convolve
#define compare  talc_check_trial_compare

static bool by_input(const conv2d *p)
{
    return p->direction == TALC_GRAD_INPUT;
}

static int64_t a_count(const conv2d *p)
{
    return by_input(p) ? talc_check_y_count(p) : talc_check_x_count(p);
}

static int64_t b_count(const conv2d *p)
{
    return by_input(p) ? talc_check_w_count(p) : talc_check_y_count(p);
}

static double *integers(check_trial *trial, const conv2d *p, int64_t count)
{
    return talc_check_trial_integers(trial, count, p->dtype, talc_check_terms(p), 1);
}

/* A result's room; NULL once the trial is decided. */
static double *expected_new(check_trial *trial, const conv2d *p)
{
    return numbers(trial, talc_check_result_count(p));
}

// ---- Parts and the whole ------------------------------------------------------------------------

/* dx of each image alone side by side, dw of each added. */
static void batch(check_trial *trial, conv2d whole)
{
    const bool input = by_input(&whole);
    whole.N = whole.N < 3 ? 3 : whole.N;
    conv2d one = whole;
    one.N = 1;
    const double *a = integers(trial, &whole, a_count(&whole));
    const double *b = integers(trial, &whole, b_count(&whole));
    const double *result = convolve(trial, &whole, a, b);
    double *expected = expected_new(trial, &whole);
    const int64_t count = talc_check_result_count(&one);
    for (int64_t n = 0; n < whole.N && !trial->decided; n++) {
        const double *part =
            convolve(trial, &one, a + n * a_count(&one), input ? b : b + n * b_count(&one));
        for (int64_t i = 0; i < count && part != NULL; i++)
            expected[input ? n * count + i : i] += talc_check_trial_integer(trial, part[i]);
    }
    compare(trial, &whole, result, expected, "image by image it");
}

static void groups(check_trial *trial, conv2d whole)
{
    conv2d part;
    talc_check_relate_groups(&whole, &part);
    const int64_t G = whole.groups, N = whole.N, x_size = part.C * whole.H * whole.W,
                  y_size = part.OC * whole.OH * whole.OW;
    const bool input = by_input(&whole);
    double *a = integers(trial, &whole, a_count(&whole));
    double *b = integers(trial, &whole, b_count(&whole));
    const double *result = convolve(trial, &whole, a, b);
    double *expected = expected_new(trial, &whole);
    double *a_g = numbers(trial, a_count(&part)), *b_g = numbers(trial, b_count(&part));
    for (int64_t g = 0; g < G && !trial->decided; g++) {
        talc_check_copy_group(a_g, a, false, N, G, g, input ? y_size : x_size);
        if (input) /* a group's weights lie side by side */
            memcpy(b_g, b + g * b_count(&part), (size_t)b_count(&part) * sizeof *b);
        else
            talc_check_copy_group(b_g, b, false, N, G, g, y_size);
        double *result_g = convolve(trial, &part, a_g, b_g);
        if (result_g != NULL && input)
            talc_check_copy_group(result_g, expected, true, N, G, g, x_size);
        else if (result_g != NULL)
            memcpy(expected + g * talc_check_result_count(&part), result_g,
                   (size_t)talc_check_result_count(&part) * sizeof *expected);
    }
    compare(trial, &whole, result, expected, "its group alone");
}

// ---- Dilation, stride and padding as what they stand for ----------------------------------------

static void dilation(check_trial *trial, conv2d whole)
{
    conv2d dense;
    if (!talc_check_relate_dilation(trial, &whole, &dense))
        return;
    const int64_t taps = talc_check_w_count(&whole);
    const double *a = integers(trial, &whole, a_count(&whole));
    const double *b = integers(trial, &whole, b_count(&whole));
    const double *result = convolve(trial, &whole, a, b);
    double *changed = numbers(trial, by_input(&whole) ? talc_check_w_count(&dense) : taps);
    if (trial->decided)
        return;
    if (by_input(&whole)) {
        for (int64_t i = 0; i < taps; i++)
            changed[talc_check_dense_tap(&whole, &dense, i)] = b[i];
        compare(trial, &whole, result, convolve(trial, &dense, a, changed),
                "a kernel with zeros between its taps");
        return;
    }
    const double *all = convolve(trial, &dense, a, b);
    for (int64_t i = 0; i < taps && all != NULL; i++)
        changed[i] = all[talc_check_dense_tap(&whole, &dense, i)];
    compare(trial, &whole, result, changed, "the dense kernel at that tap");
}

/* dy with zeros in the outputs that a stride steps over. */
static void stride(check_trial *trial, conv2d whole)
{
    conv2d dense;
    if (!talc_check_relate_stride(trial, &whole, &dense))
        return;
    const double *a = integers(trial, &whole, a_count(&whole));
    const double *b = integers(trial, &whole, b_count(&whole));
    const double *dy = by_input(&whole) ? a : b, *result = convolve(trial, &whole, a, b);
    double *spread = numbers(trial, talc_check_y_count(&dense));
    if (trial->decided)
        return;
    for (int64_t i = 0; i < talc_check_y_count(&whole); i++)
        spread[talc_check_dense_output(&whole, &dense, i)] = dy[i];
    const double *expected =
        by_input(&whole) ? convolve(trial, &dense, spread, b) : convolve(trial, &dense, a, spread);
    compare(trial, &whole, result, expected, "stride 1 and zeros between the cotangents");
}

static void padding(check_trial *trial, conv2d whole)
{
    conv2d larger;
    if (!talc_check_relate_padding(trial, &whole, &larger))
        return;
    const double *a = integers(trial, &whole, a_count(&whole));
    const double *b = integers(trial, &whole, b_count(&whole));
    const double *result = convolve(trial, &whole, a, b);
    double *expected = expected_new(trial, &whole);
    if (trial->decided)
        return;
    if (!by_input(&whole)) {
        const double *large = talc_check_padded(trial, &whole, &larger, a);
        compare(trial, &whole, result, convolve(trial, &larger, large, b), "the padded image");
        return;
    }
    const double *all = convolve(trial, &larger, a, b);
    for (int64_t i = 0; i < talc_check_x_count(&larger) && all != NULL; i++) {
        const int64_t inside = talc_check_padded_source(&whole, &larger, i);
        if (inside >= 0)
            expected[inside] = all[i];
    }
    compare(trial, &whole, result, expected, "the padded image");
}

// ---- What a gradient is -------------------------------------------------------------------------

/* Against the algorithm's own convolution. */
static void adjoint(check_trial *trial, conv2d whole)
{
    conv2d forward = whole;
    forward.direction = TALC_FORWARD;
    if (!talc_check_trial_takes(trial, &forward)) {
        talc_check_trial_leave(trial);
        return;
    }
    const bool input = by_input(&whole);
    const double terms = fmax(talc_check_terms(&whole), talc_check_terms(&forward));
    const int64_t x_count = talc_check_x_count(&whole), w_count = talc_check_w_count(&whole),
                  y_count = talc_check_y_count(&whole);
    const double *x = talc_check_trial_integers(trial, x_count, whole.dtype, terms, 1);
    const double *w = talc_check_trial_integers(trial, w_count, whole.dtype, terms, 1);
    const double *dy = talc_check_trial_integers(trial, y_count, whole.dtype, terms, 1);
    const double *y = convolve(trial, &forward, x, w);
    const double *result = convolve(trial, &whole, input ? dy : x, input ? w : dy);
    talc_check_trial_compare_inner(trial, &whole,
                                   &(check_inner){ y, dy, y_count, "<conv(x, w), dy>" },
                                   input ? &(check_inner){ result, x, x_count, "<x, dx>" }
                                         : &(check_inner){ result, w, w_count, "<w, dw>" });
}

static void linearity(check_trial *trial, conv2d whole)
{
    const double K = talc_check_terms(&whole);
    const int64_t count = a_count(&whole), results = talc_check_result_count(&whole);
    const double *a1 = talc_check_trial_integers(trial, count, whole.dtype, K, 5);
    const double *a2 = talc_check_trial_integers(trial, count, whole.dtype, K, 5);
    const double *b = talc_check_trial_integers(trial, b_count(&whole), whole.dtype, K, 5);
    double *mixed = numbers(trial, count), *expected = expected_new(trial, &whole);
    for (int64_t i = 0; i < count && !trial->decided; i++)
        mixed[i] = 2 * a1[i] - 3 * a2[i];
    const double *of_1 = convolve(trial, &whole, a1, b), *of_2 = convolve(trial, &whole, a2, b);
    const double *result = convolve(trial, &whole, mixed, b);
    for (int64_t i = 0; i < results && !trial->decided; i++)
        expected[i] = 2 * talc_check_trial_integer(trial, of_1[i]) -
                      3 * talc_check_trial_integer(trial, of_2[i]);
    compare(trial, &whole, result, expected, "the same of each part");
}

check_property *talc_check_gradient_property(talc_check_kind kind)
{
    switch (kind) {
    case TALC_CHECK_BATCH:
        return batch;
    case TALC_CHECK_GROUPS:
        return groups;
    case TALC_CHECK_DILATION:
        return dilation;
    case TALC_CHECK_STRIDE:
        return stride;
    case TALC_CHECK_PADDING:
        return padding;
    case TALC_CHECK_ADJOINT:
        return adjoint;
    case TALC_CHECK_LINEARITY:
        return linearity;
    default:
        return NULL;
    }
}
