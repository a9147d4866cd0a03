/* Convolution by discrete Fourier transforms, in f32 but for the transform's factors.
 *
 * A plane of P x Q, the padded image, and the kernel, spread by its dilation, are transformed as
 * they are; the product of one with the other's conjugate is the transform of their correlation,
 * which wraps around only where no window starts. An axis is transformed by the plain sum. */
#include "tests/support/mutants.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

enum { LARGEST = 64 };

typedef struct plane {
    int64_t P, Q;
    float complex of[LARGEST * LARGEST];
} plane;

static void transform_axis(float complex *values, int64_t count, int64_t step, int sign)
{
    static const double TWO_PI = 6.283185307179586477;
    float complex result[LARGEST];
    for (int64_t f = 0; f < count; f++) {
        float complex sum = 0;
        for (int64_t i = 0; i < count; i++) {
            const double angle = sign * TWO_PI * (double)(f * i % count) / (double)count;
            sum += values[i * step] * (float complex)(cos(angle) + I * sin(angle));
        }
        result[f] = sum;
    }
    for (int64_t i = 0; i < count; i++)
        values[i * step] = result[i];
}

static void transform(plane *a, int sign)
{
    for (int64_t p = 0; p < a->P; p++)
        transform_axis(a->of + p * a->Q, a->Q, 1, sign);
    for (int64_t q = 0; q < a->Q; q++)
        transform_axis(a->of + q, a->P, a->Q, sign);
}

static plane *plane_new(const talc_conv2d_problem *p)
{
    plane *a = calloc(1, sizeof *a);
    a->P = p->H + p->pad_top + p->pad_bottom;
    a->Q = p->W + p->pad_left + p->pad_right;
    return a;
}

/* The transform of channel c of image n. */
static plane *image(const talc_conv2d_problem *p, const float *x, int64_t n, int64_t c)
{
    plane *a = plane_new(p);
    for (int64_t h = 0; h < p->H; h++)
        for (int64_t w = 0; w < p->W; w++)
            a->of[(h + p->pad_top) * a->Q + w + p->pad_left] =
                x[((n * p->C + c) * p->H + h) * p->W + w];
    transform(a, -1);
    return a;
}

static plane *kernel(const talc_conv2d_problem *p, const float *w, int64_t oc, int64_t ic)
{
    plane *a = plane_new(p);
    for (int64_t kh = 0; kh < p->KH; kh++)
        for (int64_t kw = 0; kw < p->KW; kw++)
            a->of[kh * p->dilation_h * a->Q + kw * p->dilation_w] =
                w[((oc * (p->C / p->groups) + ic) * p->KH + kh) * p->KW + kw];
    transform(a, -1);
    return a;
}

static void write_channel(const talc_conv2d_problem *p, const talc_conv2d_arguments *a,
                          const plane *sum, int64_t n, int64_t oc)
{
    const float *bias = a->bias;
    const float size = (float)(sum->P * sum->Q);
    for (int64_t oh = 0; oh < p->OH; oh++)
        for (int64_t ow = 0; ow < p->OW; ow++)
            ((float *)a->y)[((n * p->OC + oc) * p->OH + oh) * p->OW + ow] =
                crealf(sum->of[oh * p->stride_h * sum->Q + ow * p->stride_w]) / size +
                (p->bias ? bias[oc] : 0);
}

static talc_status run(talc_device *device, const void *problem, const talc_plan *planned,
                       const void *arguments)
{
    (void)device, (void)planned;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    const int64_t IC = p->C / p->groups, OCg = p->OC / p->groups;
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t oc = 0; oc < p->OC; oc++) {
            plane *sum = plane_new(p);
            for (int64_t ic = 0; ic < IC; ic++) {
                plane *x = image(p, a->x, n, oc / OCg * IC + ic), *w = kernel(p, a->w, oc, ic);
                for (int64_t i = 0; i < x->P * x->Q; i++)
                    sum->of[i] += x->of[i] * conjf(w->of[i]);
                free(x);
                free(w);
            }
            transform(sum, 1);
            write_channel(p, a, sum, n, oc);
            free(sum);
        }
    return TALC_OK;
}

static const char *plan(const talc_device *device, const void *problem, size_t limit,
                        talc_plan *planned)
{
    (void)device, (void)limit, (void)planned;
    const talc_conv2d_problem *p = problem;
    return p->direction != TALC_FORWARD                  ? "only the forward direction"
           : p->dtype != TALC_F32                        ? "only f32"
           : p->padding_mode != TALC_PADDING_ZEROS       ? "the padding is not zeros"
           : p->activation != TALC_ACTIVATION_NONE       ? "there is an activation"
           : p->residual                                 ? "there is a residual"
           : p->H + p->pad_top + p->pad_bottom > LARGEST ? "the padded image is too high"
           : p->W + p->pad_left + p->pad_right > LARGEST ? "the padded image is too wide"
                                                         : NULL;
}

const talc_algorithm *fourier_algorithm(talc_precision precision)
{
    static talc_algorithm algorithm = { .plan = plan, .run = run };
    algorithm.name = precision == TALC_STRICT ? "fourier, strict" : "fourier";
    algorithm.arithmetic = (talc_arithmetic){ "f32 transforms", precision, false };
    return &algorithm;
}
