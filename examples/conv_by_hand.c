/// A convolution by hand: a 5x5 image, a 3x3 kernel, every product and sum shown, twice.
///
/// First straight from the formula: each output is the sum of nine products. Then as a matrix product: the image's
/// windows become the columns of a matrix (im2col), and one row times that matrix gives all outputs at once. At the
/// end talc_conv2d computes the same, and the three results are compared. Small whole numbers keep every step exact.
#include <talc/talc.h>

#include <stdio.h>

enum { H = 5, W = 5, KH = 3, KW = 3, OH = H - KH + 1, OW = W - KW + 1, K = KH * KW, N = OH * OW };

static const float image[H][W] = {
    { 1, 2, 0, 1, 3 }, //
    { 0, 1, 3, 2, 1 }, //
    { 2, 0, 1, 1, 0 }, //
    { 1, 3, 2, 0, 1 }, //
    { 0, 1, 1, 2, 2 },
};
static const float kernel[KH][KW] = {
    { 1, 0, -1 }, //
    { 2, 0, -2 }, //
    { 1, 0, -1 },
};

static void print_matrix(const char *title, int rows, int columns, const float *elements)
{
    printf("%s, %d x %d:\n", title, rows, columns);
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++)
            printf(" %3.0f", (double)elements[row * columns + column]);
        printf("\n");
    }
    printf("\n");
}

/* y[oh, ow] = sum over kh, kw of x[oh + kh, ow + kw] * w[kh, kw] */
static void convolve(float y[OH][OW])
{
    printf("1. From the formula: y[oh,ow] = sum over kh,kw of x[oh+kh,ow+kw] * w[kh,kw]\n\n");
    for (int oh = 0; oh < OH; oh++)
        for (int ow = 0; ow < OW; ow++) {
            printf("  y[%d,%d] =", oh, ow);
            y[oh][ow] = 0;
            for (int kh = 0; kh < KH; kh++)
                for (int kw = 0; kw < KW; kw++) {
                    printf("%s%.0f*%.0f", kh + kw == 0 ? " " : " + ",
                           (double)image[oh + kh][ow + kw], (double)kernel[kh][kw]);
                    y[oh][ow] += image[oh + kh][ow + kw] * kernel[kh][kw];
                }
            printf(" = %.0f\n", (double)y[oh][ow]);
        }
    printf("\n");
}

/* columns[kh * KW + kw, oh * OW + ow] = x[oh + kh, ow + kw]: one column a window, one row a tap. */
static void unfold(float columns[K][N])
{
    for (int kh = 0; kh < KH; kh++)
        for (int kw = 0; kw < KW; kw++)
            for (int oh = 0; oh < OH; oh++)
                for (int ow = 0; ow < OW; ow++)
                    columns[kh * KW + kw][oh * OW + ow] = image[oh + kh][ow + kw];
}

/* y = w as a row of K numbers, times columns. */
static void multiply(const float columns[K][N], float y[N])
{
    const float *w = &kernel[0][0];
    for (int n = 0; n < N; n++) {
        y[n] = 0;
        for (int k = 0; k < K; k++)
            y[n] += w[k] * columns[k][n];
    }
}

static bool equal(const char *what, const float *a, const float *b)
{
    for (int n = 0; n < N; n++)
        if (a[n] != b[n]) {
            printf("%s differs at output %d: %g and %g\n", what, n, (double)a[n], (double)b[n]);
            return false;
        }
    printf("%s: equal\n", what);
    return true;
}

int main(void)
{
    float by_formula[OH][OW], columns[K][N], by_product[N], by_talc[N] = { 0 };

    print_matrix("The image x", H, W, &image[0][0]);
    print_matrix("The kernel w", KH, KW, &kernel[0][0]);
    convolve(by_formula);
    print_matrix("   y", OH, OW, &by_formula[0][0]);

    printf("2. As a matrix product (im2col)\n\n");
    unfold(columns);
    print_matrix("   The windows as columns: row = tap (kh,kw), column = output (oh,ow)", K, N,
                 &columns[0][0]);
    multiply((const float(*)[N])columns, by_product);
    print_matrix("   The kernel as one row", 1, K, &kernel[0][0]);
    print_matrix("   Row times matrix: all outputs at once", 1, N, by_product);

    printf("3. By talc\n\n");
    talc_device *device = talc_device_get("cpu");
    talc_tensor *x = talc_from_host(device, TALC_F32, TALC_DIMS(1, 1, H, W), image);
    talc_tensor *w = talc_from_host(device, TALC_F32, TALC_DIMS(1, 1, KH, KW), kernel);
    talc_to_host(talc_conv2d(x, w, NULL, NULL), by_talc, sizeof by_talc);
    if (talc_failed()) {
        fprintf(stderr, "%s\n", talc_error_message());
        return 1;
    }
    const bool product_agrees =
        equal("   formula and matrix product", &by_formula[0][0], by_product);
    const bool talc_agrees = equal("   formula and talc_conv2d", &by_formula[0][0], by_talc);
    return product_agrees && talc_agrees ? 0 : 1;
}
