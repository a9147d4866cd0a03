/// A convolution by hand: the worked example of docs/convolution.md, every product and sum shown.
/// `conv_by_hand cuda` ends on a GPU.
///
/// First straight from the formula: each output is a sum of 18 products. Then as a matrix product:
/// the image's windows become the columns of a matrix (im2col), and the weights times that matrix
/// give all outputs at once. Two relatives follow, with a 1x1 kernel and with one input channel a
/// group. At the end each algorithm of the device computes all three, and every output is compared.
/// Small whole numbers keep every step exact.
#include <talc/talc.h>

#include <stdio.h>
#include <string.h>

enum { C = 2, H = 5, W = 6, OC = 4, KH = 3, KW = 3, K = C * KH * KW, P = H * W };

static const float image[C][H][W] = {
    { { 1, 2, 0, 1, 3, 1 },
      { 0, 1, 3, 2, 1, 0 },
      { 2, 0, 1, 1, 0, 2 },
      { 1, 3, 2, 0, 1, 1 },
      { 0, 1, 1, 2, 2, 0 } },
    { { 0, 1, 1, 0, 2, 1 },
      { 1, 0, 2, 1, 0, 3 },
      { 3, 1, 0, 2, 1, 0 },
      { 0, 2, 1, 1, 3, 1 },
      { 1, 0, 0, 2, 0, 1 } },
};
static const float weights[OC][C][KH * KW] = {
    { { 1, 0, -1, 2, 1, -2, 1, 0, -1 }, { 0, 1, 0, 1, -4, 1, 0, 1, 0 } },
    { { 1, 2, 1, 0, -1, 0, -1, -2, -1 }, { 1, 0, 0, 0, 2, 0, 0, 0, 1 } },
    { { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { -1, 0, 1, -2, 1, 2, -1, 0, 1 } },
    { { 0, -1, 0, -1, 5, -1, 0, -1, 0 }, { 1, 1, 0, 1, -3, -1, 0, -1, -1 } },
};

/* All have as many outputs as the image has pixels: stride 1, and padding that makes up for the
 * kernel. */
typedef struct convolution {
    const char *title;
    const float *w; /* [OC, C / groups, side, side] */
    int side, groups;
} convolution;

static void print_matrix(const char *title, int rows, int columns, const float *elements)
{
    int width = 2;
    for (int i = 0; i < rows * columns; i++)
        width = elements[i] < 0 || elements[i] > 9 ? 4 : width;
    const int line = columns * width < 80 ? columns : columns / 2; /* a row is a line, or two */
    printf("%s, %d x %d:\n", title, rows, columns);
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++)
            printf("%s%*.0f", column > 0 && column % line == 0 ? "\n  " : "", width,
                   (double)elements[row * columns + column]);
        printf("\n");
    }
    printf("\n");
}

static bool inside(int ih, int iw)
{
    return ih >= 0 && ih < H && iw >= 0 && iw < W;
}

/* y[oc, oh, ow] = sum over ic, kh, kw of x[first + ic, oh - pad + kh, ow - pad + kw] * w[oc, ic,
 * kh, kw], x being 0 outside the image. */
static void convolve(const convolution *c, bool show, float y[OC][H][W])
{
    const int IC = C / c->groups, side = c->side, pad = side / 2;
    for (int oc = 0; oc < OC; oc++)
        for (int oh = 0; oh < H; oh++)
            for (int ow = 0; ow < W; ow++) {
                const int first = oc / (OC / c->groups) * IC;
                float sum = 0;
                if (show)
                    printf("  y[%d,%d,%d] =", oc, oh, ow);
                for (int k = 0; k < IC * side * side; k++) {
                    const int ic = k / side / side, kh = k / side % side, kw = k % side;
                    const int ih = oh - pad + kh, iw = ow - pad + kw;
                    const float v = inside(ih, iw) ? image[first + ic][ih][iw] : 0;
                    const float w = c->w[oc * IC * side * side + k];
                    sum += v * w;
                    if (show) /* a line a channel */
                        printf("%s", k == 0                   ? " "
                                     : k % (side * side) == 0 ? "\n           + "
                                                              : " + ");
                    if (show && inside(ih, iw))
                        printf("%.0f*%.0f", (double)v, (double)w);
                    else if (show)
                        printf(".*%.0f", (double)w);
                }
                if (show)
                    printf(" = %.0f\n", (double)sum);
                y[oc][oh][ow] = sum;
            }
}

/* columns[(ic * KH + kh) * KW + kw, oh * W + ow] = x[ic, oh - 1 + kh, ow - 1 + kw]: one column a
 * window, one row a tap. */
static void unfold(float columns[K][P])
{
    for (int k = 0; k < K; k++)
        for (int j = 0; j < P; j++) {
            const int ih = j / W - 1 + k / KW % KH, iw = j % W - 1 + k % KW;
            columns[k][j] = inside(ih, iw) ? image[k / KW / KH][ih][iw] : 0;
        }
}

/* y = weights, a matrix of OC rows, times columns. */
static void multiply(const float columns[K][P], float y[OC][P])
{
    for (int oc = 0; oc < OC; oc++)
        for (int j = 0; j < P; j++) {
            y[oc][j] = 0;
            for (int k = 0; k < K; k++)
                y[oc][j] += weights[oc][k / (KH * KW)][k % (KH * KW)] * columns[k][j];
        }
}

static bool same(const float *a, const float *b)
{
    for (int i = 0; i < OC * P; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* Each algorithm of the device, or why it refuses. */
static bool compute_by_talc(talc_device *device, const convolution *c, const float *y)
{
    const int64_t IC = C / c->groups, side = c->side;
    talc_tensor *x = talc_from_host(device, TALC_F32, TALC_DIMS(1, C, H, W), image);
    talc_tensor *w = talc_from_host(device, TALC_F32, TALC_DIMS(OC, IC, side, side), c->w);
    talc_conv2d_options options = { .padding = { side / 2, side / 2 }, .groups = c->groups };
    talc_conv2d_problem problem;
    talc_conv2d_explanation explanation;
    if (!talc_conv2d_problem_of(x, w, NULL, &options, &problem) ||
        !talc_conv2d_explain(device, &problem, &options, &explanation))
        return false;
    bool equal = true;
    printf("   %s on %s:\n", c->title, explanation.decision.device);
    for (int i = 0; i < explanation.decision.count; i++) {
        const talc_candidate *candidate = &explanation.decision.candidates[i];
        float result[OC * P] = { 0 };
        options.algorithm = candidate->title;
        if (!candidate->refused)
            talc_to_host(talc_conv2d(x, w, NULL, &options), result, sizeof result);
        const bool right = same(result, y);
        printf("      %-10s %s%s\n", candidate->title, candidate->refused ? "refuses: " : "",
               candidate->refused ? candidate->reason
               : right            ? "equal"
                                  : "differs");
        equal = equal && (candidate->refused || right);
    }
    return equal && !talc_failed();
}

int main(int count, char **arguments)
{
    float columns[K][P], by_product[OC][P], y[OC][H][W], centres[OC][C], firsts[OC][KH * KW];
    for (int oc = 0; oc < OC; oc++) {
        for (int ic = 0; ic < C; ic++)
            centres[oc][ic] = weights[oc][ic][KH * KW / 2];
        memcpy(firsts[oc], weights[oc][0], sizeof firsts[oc]);
    }
    const convolution all[] = {
        { "all weights", &weights[0][0][0], 3, 1 },
        { "the middle taps as a 1x1 kernel", &centres[0][0], 1, 1 },
        { "the first channel's weights, 2 groups", &firsts[0][0], 3, 2 },
    };

    print_matrix("The image x, channel 0", H, W, &image[0][0][0]);
    print_matrix("Channel 1", H, W, &image[1][0][0]);
    print_matrix("The weights w, a row an output channel", OC, K, &weights[0][0][0]);

    printf("1. From the formula, . being padding:\n"
           "   y[oc,oh,ow] = sum over ic,kh,kw of x[ic,oh-1+kh,ow-1+kw] * w[oc,ic,kh,kw]\n\n");
    convolve(&all[0], true, y);
    printf("\n");

    printf("2. As a matrix product (im2col)\n\n");
    unfold(columns);
    print_matrix("   The windows as columns: row = tap (ic,kh,kw), column = output (oh,ow)", K, P,
                 &columns[0][0]);
    multiply((const float(*)[P])columns, by_product);
    print_matrix("   Weights times windows: all outputs at once", OC, P, &by_product[0][0]);
    bool equal = same(&by_product[0][0], &y[0][0][0]);

    printf("3. Two relatives\n\n");
    for (int i = 1; i <= 2; i++) {
        convolve(&all[i], false, y);
        printf("   %s:\n", all[i].title);
        print_matrix("   y", OC, P, &y[0][0][0]);
    }

    printf("4. By talc\n\n");
    talc_device *device = talc_device_get(count > 1 ? arguments[1] : "cpu");
    for (int i = 0; i <= 2 && device != NULL; i++) {
        convolve(&all[i], false, y);
        equal = compute_by_talc(device, &all[i], &y[0][0][0]) && equal;
    }
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    return equal && !talc_failed() ? 0 : 1;
}
