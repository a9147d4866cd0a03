#include "tests/support/conv2d_gradient_mutants.h"

#include "backends/backends.h"

#include <math.h>

static gradient_mistake current;

const conv2d_gradient_mutant conv2d_gradient_mutants[] = {
    /* dx. */
    { GRADIENT_BORDER_TAP, "border tap", "pixels of the first row lose their first tap",
      "n2c4h7w6o6k3x3p1x1_dx", TALC_CHECK_EXACT },
    { GRADIENT_PHASE, "phase", "with a stride a row too far down", "n1c3h9w8o4k3x3s2x1p1x1_dx",
      TALC_CHECK_EXACT },
    { GRADIENT_PHASE, "phase by stride", "the same, against stride 1", "n1c3h9w8o4k3x3s2x1p1x1_dx",
      TALC_CHECK_STRIDE },
    { GRADIENT_GROUP, "group", "every group uses the weights of the first",
      "n2c6h7w6o4k3x3p1x1g2_dx", TALC_CHECK_EXACT },
    { GRADIENT_GROUP, "group by groups", "the same, against a group alone",
      "n2c6h7w6o4k3x3p1x1g2_dx", TALC_CHECK_GROUPS },
    { GRADIENT_DILATION, "dilation", "dilation_h taken as 1", "n1c3h9w8o4k3x2p2x1d2x1_dx",
      TALC_CHECK_EXACT },
    { GRADIENT_DILATION, "dilation by taps", "the same, against a dense kernel",
      "n1c3h9w8o4k3x2p2x1d2x1_dx", TALC_CHECK_DILATION },
    { GRADIENT_LAST_ROWS, "last rows", "rows behind the last window are not written",
      "n1c2h8w9o3k3x3s2x2_dx", TALC_CHECK_EXACT },
    { GRADIENT_ROTATED, "turned", "the kernel is turned", "n1c3h7w6o4k3x2p1x0_dx",
      TALC_CHECK_EXACT },
    { GRADIENT_EXCHANGED, "exchanged", "w read as [C, OC/groups, KH, KW]", "n1c4h7w6o6k3x3p1x1_dx",
      TALC_CHECK_ADJOINT },
    { GRADIENT_ZERO_WEIGHTS, "zero weights", "weights of 0 are skipped, over an infinity too",
      "n1c3h7w6o4k3x3p1x1_dx", TALC_CHECK_INFINITY },
    { GRADIENT_SPREADS, "spreads", "weights are multiplied by zeros around dy",
      "n1c3h7w6o4k3x3p1x1_dx", TALC_CHECK_INFINITY },
    { GRADIENT_SPREADS, "spreads by stride", "the same, behind the last window",
      "n1c3h8w6o4k3x3s2x2_dx", TALC_CHECK_NAN },
    { GRADIENT_HALF_SUM, "half sum", "sums rounded to 11 bits", "n1c4h7w6o9k3x3p1x1_dx",
      TALC_CHECK_RANDOM },
    { GRADIENT_F64_NARROW, "f64 narrow", "f64 summed in f32", "n1c4h7w6o6k3x3p1x1_f64_dx",
      TALC_CHECK_RANDOM },
    { GRADIENT_ACCUMULATES, "accumulates", "adds to what is there, unless that is NaN",
      "n1c4h7w6o6k3x3p1x1_dx", TALC_CHECK_RERUN },
    { GRADIENT_WRITES_DY, "writes dy", "clears an element of dy when it is done",
      "n1c4h7w6o6k3x3p1x1_dx", TALC_CHECK_INPUTS },
    /* dw. */
    { GRADIENT_LAST_IMAGE, "last image", "the last of several images is left out",
      "n3c3h7w6o4k3x3p1x1_dw", TALC_CHECK_EXACT },
    { GRADIENT_LAST_IMAGE, "last image alone", "the same, against parts of the batch",
      "n1c3h7w6o4k3x3p1x1_dw", TALC_CHECK_BATCH },
    { GRADIENT_BORDER_TAP, "border tap of w", "the first row of the image is left out of a tap",
      "n2c4h7w6o6k3x3p1x1_dw", TALC_CHECK_ADJOINT },
    { GRADIENT_PAD_AXES, "padding swapped", "top and left padding exchanged",
      "n1c3h7w6o4k3x3p1x0_dw", TALC_CHECK_EXACT },
    { GRADIENT_PAD_AXES, "padding by image", "the same, against a padded image",
      "n1c3h7w6o4k3x3p1x0_dw", TALC_CHECK_PADDING },
    { GRADIENT_GROUP, "group of x", "every group reads the channels of the first",
      "n2c6h7w6o4k3x3p1x1g2_dw", TALC_CHECK_GROUPS },
    { GRADIENT_TAIL, "tail columns", "outputs behind the last 8 columns are left out",
      "n2c3h5w13o4k3x3p1x1_dw", TALC_CHECK_EXACT },
    { GRADIENT_HALF_SUM, "half sum of w", "sums rounded to 11 bits", "n2c3h9w9o4k3x3p1x1_dw",
      TALC_CHECK_CONSTANT },
    { GRADIENT_NAN_ZERO, "NaN as 0", "NaN in dy counts as 0", "n1c3h7w6o4k3x3p1x1_dw",
      TALC_CHECK_NAN },
    { GRADIENT_SKIPS_PADDING, "skips padding", "dy over the padding is skipped, if infinite too",
      "n1c3h7w6o4k3x3p1x1_dw", TALC_CHECK_INFINITY },
    { GRADIENT_CLAMPED, "clamped", "operands limited to +-65504", "n1c3h7w6o4k3x3p1x1_dw",
      TALC_CHECK_HUGE },
    { GRADIENT_THREADS, "threads", "with more than 2 threads sums run backwards",
      "n3c3h7w6o4k3x3p1x1_dw", TALC_CHECK_THREADS },
    { GRADIENT_WRITES_PAST, "writes past", "writes the element after dw", "n1c3h7w6o4k3x3p1x1_dw",
      TALC_CHECK_GUARDS },
};

const int conv2d_gradient_mutant_count =
    sizeof conv2d_gradient_mutants / sizeof *conv2d_gradient_mutants;

static bool is(gradient_mistake mistake)
{
    return current == mistake;
}

// ---- Elements -----------------------------------------------------------------------------------

static double load(talc_dtype dtype, const void *array, int64_t i)
{
    const double value =
        dtype == TALC_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
    if (is(GRADIENT_CLAMPED) && fabs(value) > 65504)
        return copysign(65504, value);
    return is(GRADIENT_NAN_ZERO) && isnan(value) ? 0 : value;
}

static void store(talc_dtype dtype, void *array, int64_t i, double value)
{
    if (is(GRADIENT_HALF_SUM) && isfinite(value)) {
        int exponent;
        const double fraction = frexp(value, &exponent);
        value = ldexp(rint(ldexp(fraction, 11)), exponent - 11);
    }
    if (is(GRADIENT_F64_NARROW))
        value = (double)(float)value;
    if (dtype == TALC_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

// ---- Products -----------------------------------------------------------------------------------

typedef struct work {
    talc_conv2d_problem p;
    talc_conv2d_arguments a;
    int64_t IC, OC; /* of a group */
} work;

/* An output, and the tap and channel that one of its products has. */
typedef struct position {
    int64_t n, g, oc, oh, ow, ic, kh, kw;
} position;

static int64_t weight_of(const work *k, const position *at)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t g = is(GRADIENT_GROUP) && p->direction == TALC_GRAD_INPUT ? 0 : at->g;
    const int64_t kh = is(GRADIENT_ROTATED) ? p->KH - 1 - at->kh : at->kh,
                  kw = is(GRADIENT_ROTATED) ? p->KW - 1 - at->kw : at->kw;
    const int64_t kernel = is(GRADIENT_EXCHANGED) && p->direction == TALC_GRAD_INPUT
                               ? at->ic * k->OC + at->oc
                               : at->oc * k->IC + at->ic;
    return ((g * k->OC * k->IC + kernel) * p->KH + kh) * p->KW + kw;
}

/* The pixel of the product; -1 in the padding. */
static int64_t pixel_of(const work *k, const position *at)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t top = is(GRADIENT_PAD_AXES) ? p->pad_left : p->pad_top,
                  left = is(GRADIENT_PAD_AXES) ? p->pad_top : p->pad_left;
    const int64_t down = is(GRADIENT_DILATION) ? 1 : p->dilation_h;
    const int64_t h =
        at->oh * p->stride_h - top + at->kh * down + (is(GRADIENT_PHASE) && p->stride_h > 1);
    const int64_t w = at->ow * p->stride_w - left + at->kw * p->dilation_w;
    if (h < 0 || h >= p->H || w < 0 || w >= p->W)
        return -1;
    if (is(GRADIENT_BORDER_TAP) && p->direction != TALC_FORWARD && h == 0 && at->kh == 0)
        return -1;
    const int64_t g = is(GRADIENT_GROUP) && p->direction == TALC_GRAD_WEIGHT ? 0 : at->g;
    return ((at->n * p->groups + g) * k->IC + at->ic) * p->H * p->W + h * p->W + w;
}

/* Adds the product where it belongs. */
static void add(const work *k, const position *at)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t x = pixel_of(k, at), w = weight_of(k, at);
    const int64_t y =
        (((at->n * p->groups + at->g) * k->OC + at->oc) * p->OH + at->oh) * p->OW + at->ow;
    const bool input = p->direction == TALC_GRAD_INPUT, forward = p->direction == TALC_FORWARD;
    if (x < 0 && (input || is(GRADIENT_SKIPS_PADDING)))
        return;
    void *result = forward ? k->a.y : input ? k->a.dx : k->a.dw;
    const int64_t i = forward ? y : input ? x : w;
    const double one = x < 0 ? 0 : load(p->dtype, input ? k->a.w : k->a.x, input ? w : x);
    const double other = forward ? load(p->dtype, k->a.w, w) : load(p->dtype, k->a.dy, y);
    if (is(GRADIENT_ZERO_WEIGHTS) && input && one == 0)
        return;
    store(p->dtype, result, i, load(p->dtype, result, i) + one * other);
}

static void each_product(const work *k, position *at)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t columns = is(GRADIENT_TAIL) && p->OW > 8 ? p->OW / 8 * 8 : p->OW;
    for (at->g = 0; at->g < p->groups; at->g++)
        for (at->oc = 0; at->oc < k->OC; at->oc++)
            for (at->oh = 0; at->oh < p->OH; at->oh++)
                for (at->ow = 0; at->ow < columns; at->ow++)
                    for (int64_t t = 0; t < k->IC * p->KH * p->KW; t++) {
                        at->kw = t % p->KW, at->kh = t / p->KW % p->KH;
                        at->ic = t / p->KW / p->KH;
                        add(k, at);
                    }
}

/* Every weight, times a zero in place of the output that its tap would reach a pixel from. */
static void spread(const work *k)
{
    const talc_conv2d_problem *p = &k->p;
    for (int64_t i = 0; i < p->N * p->C * p->H * p->W; i++)
        for (int64_t t = 0; t < k->OC * p->KH * p->KW; t++) {
            const int64_t c = i / p->W / p->H % p->C;
            const int64_t down = i / p->W % p->H + p->pad_top - t / p->KW % p->KH * p->dilation_h;
            const int64_t across = i % p->W + p->pad_left - t % p->KW * p->dilation_w;
            const bool inside = down >= 0 && down / p->stride_h < p->OH && across >= 0 &&
                                across / p->stride_w < p->OW;
            const position at = { .g = c / k->IC,
                                  .oc = t / p->KW / p->KH,
                                  .ic = c % k->IC,
                                  .kh = t / p->KW % p->KH,
                                  .kw = t % p->KW };
            if (!inside && down % p->stride_h == 0 && across % p->stride_w == 0)
                store(p->dtype, k->a.dx, i,
                      load(p->dtype, k->a.dx, i) + 0 * load(p->dtype, k->a.w, weight_of(k, &at)));
        }
}

// ---- The algorithm ------------------------------------------------------------------------------

/* The sums begin with zero. */
static void clear(const work *k)
{
    const talc_conv2d_problem *p = &k->p;
    const bool input = p->direction == TALC_GRAD_INPUT, forward = p->direction == TALC_FORWARD;
    void *result = forward ? k->a.y : input ? k->a.dx : k->a.dw;
    const int64_t count = forward ? p->N * p->OC * p->OH * p->OW
                          : input ? p->N * p->C * p->H * p->W
                                  : p->OC * k->IC * p->KH * p->KW;
    const int64_t end = (p->OH - 1) * p->stride_h - p->pad_top + p->dilation_h * (p->KH - 1) + 1;
    for (int64_t i = 0; i < count; i++) {
        const bool kept = is(GRADIENT_ACCUMULATES) && !isnan(load(p->dtype, result, i));
        const bool behind = is(GRADIENT_LAST_ROWS) && input && i / p->W % p->H >= end;
        if (!kept && !behind)
            store(p->dtype, result, i, 0);
    }
    if (is(GRADIENT_WRITES_PAST))
        store(p->dtype, result, count, 0);
}

static const char *plan(const talc_device *device, const void *problem, size_t limit,
                        talc_plan *planned)
{
    (void)device, (void)limit, (void)planned;
    const talc_conv2d_problem *p = problem;
    const bool plain = !p->bias && !p->residual && p->activation == TALC_ACTIVATION_NONE &&
                       p->padding_mode == TALC_PADDING_ZEROS;
    return plain ? NULL : "there is more than a sum, or the padding is not zeros";
}

static talc_status run(talc_device *device, const void *problem, const talc_plan *planned,
                       const void *arguments)
{
    (void)device, (void)planned;
    work k = { .p = *(const talc_conv2d_problem *)problem,
               .a = *(const talc_conv2d_arguments *)arguments };
    const talc_conv2d_problem *p = &k.p;
    k.IC = p->C / p->groups;
    k.OC = p->OC / p->groups;
    clear(&k);
    const bool backwards = is(GRADIENT_THREADS) && talc_threads() > 2;
    const int64_t images = is(GRADIENT_LAST_IMAGE) && p->N > 1 ? p->N - 1 : p->N;
    for (int64_t i = 0; i < images; i++) {
        position at = { .n = backwards ? p->N - 1 - i : i };
        each_product(&k, &at);
    }
    if (is(GRADIENT_SPREADS) && p->direction == TALC_GRAD_INPUT)
        spread(&k);
    if (is(GRADIENT_WRITES_DY) && p->direction != TALC_FORWARD)
        store(p->dtype, (void *)(uintptr_t)k.a.dy, 0, 0.125);
    return TALC_OK;
}

const talc_algorithm *conv2d_gradient_mutant_algorithm(gradient_mistake mistake)
{
    static talc_algorithm algorithm = { .plan = plan, .run = run };
    algorithm.name = "mutant";
    algorithm.arithmetic = (talc_arithmetic){ "the data's own type", TALC_STRICT, false };
    current = mistake;
    return &algorithm;
}
