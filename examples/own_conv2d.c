/// A convolution of one's own as a shared object: a direct loop on the CPU, forward and for the
/// input gradient, as an algorithm of conv2d.
///
///     talc explain --load own_conv2d.so n8c64h32w32o64k3x3p1x1
///     talc check --load own_conv2d.so --algorithm own_direct
///     talc bench --load own_conv2d.so conv64
///
/// The build also makes it with a mistake, one of three, for `talc check` to find.
#include <talc/networks.h>

/* What a convolution and its gradients have in common: zeros around the image, f32, no more than a
 * sum and a bias. */
static const char *plan(const talc_device *device, const void *problem, size_t limit,
                        talc_plan *planned)
{
    (void)device, (void)limit, (void)planned;
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "no weight gradient";
    if (p->dtype != TALC_F32 || p->padding_mode != TALC_PADDING_ZEROS)
        return "elements are not f32 or the padding is not zeros";
    const bool plain = !p->residual && p->activation == TALC_ACTIVATION_NONE;
    return plain ? NULL : "there is more than a sum and a bias";
}

static void forward(const talc_conv2d_problem *p, const talc_conv2d_arguments *a)
{
    const float *x = a->x, *w = a->w, *bias = a->bias;
    const int64_t IC = p->C / p->groups, K = IC * p->KH * p->KW;
    int64_t top = p->pad_top, count = p->N * p->OC * p->OH * p->OW;
#if defined(WRONG_VALUE)
    top = p->pad_left;
#elif defined(WRITES_OUTSIDE)
    ((float *)a->y)[count] = 0;
#endif
    for (int64_t at = 0; at < count; at++) {
        const int64_t ow = at % p->OW, oh = at / p->OW % p->OH, plane = at / p->OW / p->OH;
        const int64_t oc = plane % p->OC, c = plane / p->OC * p->C + oc / (p->OC / p->groups) * IC;
        float sum = p->bias ? bias[oc] : 0;
        for (int64_t k = 0; k < K; k++) {
            const int64_t kw = k % p->KW, kh = k / p->KW % p->KH, ic = k / p->KW / p->KH;
            const int64_t ih = oh * p->stride_h - top + kh * p->dilation_h;
            const int64_t iw = ow * p->stride_w - p->pad_left + kw * p->dilation_w;
            const bool inside = ih >= 0 && ih < p->H && iw >= 0 && iw < p->W;
            sum += (inside ? x[((c + ic) * p->H + ih) * p->W + iw] : 0) * w[oc * K + k];
        }
        ((float *)a->y)[at] = sum;
    }
}

/* The position of the output whose tap lies here; -1: there is none. */
static int64_t output_of(int64_t position, int64_t stride, int64_t extent)
{
    return position >= 0 && position % stride == 0 && position / stride < extent ? position / stride
                                                                                 : -1;
}

static void grad_input(const talc_conv2d_problem *p, const talc_conv2d_arguments *a)
{
    const float *w = a->w, *dy = a->dy;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    for (int64_t at = 0; at < p->N * p->C * p->H * p->W; at++) {
        const int64_t iw = at % p->W, ih = at / p->W % p->H, c = at / p->W / p->H % p->C;
        const int64_t n = at / p->W / p->H / p->C;
        float sum = 0;
        for (int64_t oc = c / IC * OC; oc < (c / IC + 1) * OC; oc++)
            for (int64_t k = 0; k < p->KH * p->KW; k++) {
                const int64_t kh = k / p->KW, kw = k % p->KW;
                const int64_t oh =
                    output_of(ih + p->pad_top - kh * p->dilation_h, p->stride_h, p->OH);
                const int64_t ow =
                    output_of(iw + p->pad_left - kw * p->dilation_w, p->stride_w, p->OW);
                if (oh >= 0 && ow >= 0)
                    sum += dy[((n * p->OC + oc) * p->OH + oh) * p->OW + ow] *
                           w[(oc * IC + c % IC) * p->KH * p->KW + k];
            }
        ((float *)a->dx)[at] = sum;
    }
}

static talc_status run(talc_device *device, const void *problem, const talc_plan *planned,
                       const void *arguments)
{
    (void)device, (void)planned;
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_FORWARD)
        forward(p, arguments);
#if !defined(FORGETS_GRADIENT)
    else
        grad_input(p, arguments);
#else
    (void)grad_input;
#endif
    return TALC_OK;
}

static const talc_own_algorithm own_direct = {
    TALC_OWN_ALGORITHM_OF(conv2d),
    .device = "cpu",
    .algorithm = { .name = "own_direct",
                   .arithmetic = { "f32 products and sums", TALC_STRICT, false },
                   .plan = plan,
                   .run = run },
};

static bool start(void)
{
    return talc_algorithm_register("conv2d", &own_direct);
}

const talc_loaded_object talc_loaded = { TALC_LOADED_VERSION, NULL, start };
