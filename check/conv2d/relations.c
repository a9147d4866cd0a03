#include "check/conv2d/relations.h"

#include <string.h>

typedef talc_conv2d_problem conv2d;

bool talc_check_settled(check_trial *trial, conv2d *p)
{
    if (!talc_check_settle(p))
        talc_check_trial_leave(trial);
    return !trial->decided;
}

// ---- Groups -------------------------------------------------------------------------------------

void talc_check_relate_groups(conv2d *whole, conv2d *part)
{
    if (whole->groups == 1 && (whole->C % 2 != 0 || whole->OC % 2 != 0)) {
        whole->C *= 2;
        whole->OC *= 2;
    }
    const int64_t G = whole->groups == 1 ? 2 : whole->groups > 4 ? 4 : whole->groups;
    if (whole->groups > G) {
        whole->C = whole->C / whole->groups * G;
        whole->OC = whole->OC / whole->groups * G;
    }
    whole->groups = G;
    *part = *whole;
    part->C /= G;
    part->OC /= G;
    part->groups = 1;
}

void talc_check_copy_group(double *group, double *all, bool back, int64_t N, int64_t groups,
                           int64_t g, int64_t size)
{
    for (int64_t n = 0; n < N; n++) {
        double *part = group + n * size, *target = all + (n * groups + g) * size;
        memcpy(back ? target : part, back ? part : target, (size_t)size * sizeof *part);
    }
}

// ---- Dilation -----------------------------------------------------------------------------------

bool talc_check_relate_dilation(check_trial *trial, conv2d *whole, conv2d *dense)
{
    const int64_t max = 4;
    if (whole->dilation_h == 1 && whole->dilation_w == 1) {
        whole->dilation_h = 2;
        whole->dilation_w = 3;
        whole->H += whole->KH - 1;
        whole->W += 2 * (whole->KW - 1);
    }
    whole->dilation_h = whole->dilation_h > max ? max : whole->dilation_h;
    whole->dilation_w = whole->dilation_w > max ? max : whole->dilation_w;
    *dense = *whole;
    dense->KH = (whole->KH - 1) * whole->dilation_h + 1;
    dense->KW = (whole->KW - 1) * whole->dilation_w + 1;
    dense->dilation_h = dense->dilation_w = 1;
    return talc_check_settled(trial, whole) && talc_check_settled(trial, dense);
}

int64_t talc_check_dense_tap(const conv2d *whole, const conv2d *dense, int64_t index)
{
    const int64_t kw = index % whole->KW, kh = index / whole->KW % whole->KH,
                  kernel = index / whole->KW / whole->KH;
    return (kernel * dense->KH + kh * whole->dilation_h) * dense->KW + kw * whole->dilation_w;
}

// ---- Stride -------------------------------------------------------------------------------------

bool talc_check_relate_stride(check_trial *trial, conv2d *whole, conv2d *dense)
{
    if (whole->stride_h == 1 && whole->stride_w == 1) {
        whole->stride_h = 2;
        whole->stride_w = 3;
    }
    talc_check_settle(whole);
    whole->H += whole->OH < 2 && whole->stride_h <= 8 ? whole->stride_h : 0;
    whole->W += whole->OW < 2 && whole->stride_w <= 8 ? whole->stride_w : 0;
    *dense = *whole;
    dense->stride_h = dense->stride_w = 1;
    return talc_check_settled(trial, whole) && talc_check_settled(trial, dense);
}

int64_t talc_check_dense_output(const conv2d *whole, const conv2d *dense, int64_t index)
{
    const int64_t ow = index % whole->OW, oh = index / whole->OW % whole->OH,
                  plane = index / whole->OW / whole->OH;
    return (plane * dense->OH + oh * whole->stride_h) * dense->OW + ow * whole->stride_w;
}

// ---- Padding ------------------------------------------------------------------------------------

bool talc_check_relate_padding(check_trial *trial, conv2d *whole, conv2d *larger)
{
    if (whole->pad_top + whole->pad_bottom + whole->pad_left + whole->pad_right == 0) {
        whole->pad_top = whole->pad_right = 1;
        whole->pad_left = 2;
    } else if (whole->pad_top == whole->pad_bottom && whole->pad_left == whole->pad_right) {
        whole->pad_bottom++;
    }
    if (!talc_check_settle(whole)) /* the mode does not reach that far */
        whole->padding_mode = TALC_PADDING_ZEROS;
    *larger = *whole;
    larger->H += whole->pad_top + whole->pad_bottom;
    larger->W += whole->pad_left + whole->pad_right;
    larger->pad_top = larger->pad_left = larger->pad_bottom = larger->pad_right = 0;
    larger->padding_mode = TALC_PADDING_ZEROS;
    return talc_check_settled(trial, whole) && talc_check_settled(trial, larger);
}

int64_t talc_check_padded_source(const conv2d *whole, const conv2d *larger, int64_t index)
{
    const int64_t w = index % larger->W, h = index / larger->W % larger->H,
                  plane = index / larger->W / larger->H;
    const int64_t ih = talc_check_source(whole->padding_mode, h - whole->pad_top, whole->H),
                  iw = talc_check_source(whole->padding_mode, w - whole->pad_left, whole->W);
    return ih < 0 || iw < 0 ? -1 : (plane * whole->H + ih) * whole->W + iw;
}

double *talc_check_padded(check_trial *trial, const conv2d *whole, const conv2d *larger,
                          const double *x)
{
    const int64_t count = talc_check_x_count(larger);
    double *image = talc_check_trial_numbers(trial, count);
    for (int64_t i = 0; i < count && image != NULL; i++) {
        const int64_t source = talc_check_padded_source(whole, larger, i);
        image[i] = source < 0 ? 0 : x[source];
    }
    return image;
}
