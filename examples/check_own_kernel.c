/// Checking a convolution of one's own: a plain loop becomes an algorithm of conv2d, and
/// talc_check_algorithm holds it against the oracle on every convolution of the set `quick`.
/// `check_own_kernel mistake` plants a mistake and shows what is said of it; `check_own_kernel
/// mistake n1c1h5w5o1k3x3p1x0` checks that problem alone.
#include <talc/talc.h>
#include <string.h>

static bool mistaken; /* the left padding used at the top too */

static const char *plan(const talc_device *device, const void *problem, size_t limit,
                        talc_plan *planned)
{
    (void)device, (void)limit, (void)planned;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (p->dtype != TALC_F32 || p->padding_mode != TALC_PADDING_ZEROS)
        return "elements are not f32 or the padding is not zeros";
    const bool plain = !p->residual && p->activation == TALC_ACTIVATION_NONE;
    return plain ? NULL : "there is more than a sum and a bias";
}

static talc_status run(talc_device *device, const void *problem, const talc_plan *planned,
                       const void *arguments)
{
    (void)device, (void)planned;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    const float *x = a->x, *w = a->w, *bias = a->bias;
    const int64_t IC = p->C / p->groups, K = IC * p->KH * p->KW,
                  top = mistaken ? p->pad_left : p->pad_top;
    for (int64_t at = 0; at < p->N * p->OC * p->OH * p->OW; at++) {
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
    return TALC_OK;
}

/* The arithmetic is what the algorithm is judged by: f32 sums, every element as accurate as those
 * have to be. */
static const talc_algorithm mine = {
    .name = "mine",
    .arithmetic = { "f32 products and sums", TALC_STRICT, false },
    .plan = plan,
    .run = run,
};

int main(int count, char **arguments)
{
    mistaken = count > 1 && strcmp(arguments[1], "mistake") == 0;
    const char *only = count > 1 + mistaken ? arguments[1 + mistaken] : NULL;
    char command[512], problem[TALC_CHECK_TEXT];
    snprintf(command, sizeof command, "%s%s", arguments[0], mistaken ? " mistake" : "");
    const talc_check_options options = { .device = talc_device_get("cpu"), .command = command };
    talc_check *check = talc_check_new(&options);
    if (only != NULL)
        talc_check_algorithm(check, only, &mine);
    for (int64_t i = 0; !only && talc_check_set_problem("quick", i, 1, problem) != NULL; i++)
        if (strchr(problem, ':') == NULL && strstr(problem, "_d") == NULL) { /* a convolution */
            fprintf(stderr, "\rproblem %lld", (long long)i + 1);
            talc_check_algorithm(check, problem, &mine);
        }
    fprintf(stderr, "\n");
    talc_check_print(stdout, check);
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    const bool as_expected = !talc_failed() && talc_check_passed(check) != mistaken;
    talc_check_free(check);
    return as_expected ? 0 : 1;
}
