/// pad and upsample2d as a caller has them: PyTorch's numbers, wide rows, types and shapes. The
/// values of their algorithms are held by test_algorithms.c, their gradients by test_gradient.c
/// too.
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdlib.h>

// ---- PyTorch's numbers --------------------------------------------------------------------------

/* [1, 1, 3, 4]: (7 i + 3 j) mod 11 - 4. */
static talc_tensor *sample(void)
{
    double x[12];
    for (int i = 0; i < 12; i++)
        x[i] = (i / 4 * 7 + i % 4 * 3) % 11 - 4;
    return talc_from_host(tested_device(), TALC_F64, TALC_DIMS(1, 1, 3, 4), x);
}

// clang-format off
Test(resample, padding_is_that_of_pytorch)
{
    assert_values(talc_pad(sample(), &(talc_pad_options){ .padding = { 3, 2, 1, 2 }, .mode = TALC_PADDING_REFLECT }),
                  (const double[]){ 1, -2, 6, 3, 6, -2, 1, -2, 6, 5, 2, -1, -4, -1, 2, 5, 2, -1, 1, -2, 6, 3, 6, -2, 1, -2, 6, -3,
                                    5, 2, -1, 2, 5, -3, 5, 2, 1, -2, 6, 3, 6, -2, 1, -2, 6, 5, 2, -1, -4, -1, 2, 5, 2, -1 }, 0, "reflect");
    assert_values(talc_pad(sample(), &(talc_pad_options){ .padding = { 3, -1, 2, 3 }, .mode = TALC_PADDING_CIRCULAR }),
                  (const double[]){ 3, 6, -2, 3, 6, -2, -1, 2, 5, -1, 2, 5, -4, -1, 2, -4, -1, 2, 3, 6, -2, 3, 6, -2,
                                    -1, 2, 5, -1, 2, 5, -4, -1, 2, -4, -1, 2, 3, 6, -2, 3, 6, -2, -1, 2, 5, -1, 2, 5 }, 0, "circular, cropped");
    assert_values(talc_pad(sample(), &(talc_pad_options){ .padding = { -1, 2, 3, -2 }, .mode = TALC_PADDING_REPLICATE }),
                  (const double[]){ -1, 2, 5, 5, 5, -1, 2, 5, 5, 5, -1, 2, 5, 5, 5, -1, 2, 5, 5, 5 }, 0, "replicate");
    assert_values(talc_pad(sample(), &(talc_pad_options){ .padding = { 1, -2, -1, 2 }, .value = 2.5 }),
                  (const double[]){ 2.5, 3, 6, 2.5, -1, 2, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5 }, 0, "constant");
}

#define UP(...) talc_upsample2d(sample(), &(talc_upsample2d_options){ __VA_ARGS__ })
Test(resample, upsampling_is_that_of_pytorch)
{
    assert_values(UP(.size = { 5, 7 }, .mode = TALC_UPSAMPLE_BILINEAR),
                  (const double[]){ -4, -2.928571428571429, -1.214285714285714, 0.5, 2.214285714285714, 3.928571428571428, 5, -1.2,
                                    -0.128571428571429, 1.585714285714285, 1.1, 0.614285714285714, 2.328571428571429, 3.4, 3,
                                    4.071428571428571, 5.785714285714286, 2, -1.785714285714286, -0.071428571428572, 1, 0.6,
                                    1.671428571428572, 3.385714285714286, 2.9, 1.942857142857143, -0.114285714285714, -1.4, -1,
                                    0.071428571428571, 1.785714285714286, 3.5, 4.428571428571431, -0.142857142857143, -3 }, 1e-14, "bilinear");
    assert_values(UP(.size = { 5, 7 }, .mode = TALC_UPSAMPLE_BILINEAR, .align_corners = true),
                  (const double[]){ -4, -2.5, -1, 0.5, 2, 3.5, 5, -0.5, 1, 2.5, 1.25, 0, 1.5, 3, 3, 4.5, 6, 2, -2, -0.5, 1, 1, 2.5, 4,
                                    2.75, 1.5, 0.25, -1, -1, 0.5, 2, 3.5, 5, 1, -3 }, 1e-14, "aligned");
    assert_values(UP(.scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BILINEAR),
                  (const double[]){ -3, 2, -0.323529411764706, 0.470588235294118, 3.794117647058824, -1.882352941176471,
                                    1.764705882352941, 1.911764705882353, 0, 5 }, 1e-14, "bilinear by factors");
    assert_values(UP(.size = { 5, 7 }),
                  (const double[]){ -4, -4, -1, -1, 2, 2, 5, -4, -4, -1, -1, 2, 2, 5, 3, 3, 6, 6, -2, -2, 1, 3, 3, 6, 6, -2, -2, 1,
                                    -1, -1, 2, 2, 5, 5, -3 }, 0, "nearest");
    assert_values(UP(.scale = { 2.3, 1.4 }),
                  (const double[]){ -4, -4, -1, 2, 2, -4, -4, -1, 2, 2, 3, 3, 6, -2, -2, 3, 3, 6, -2, -2, -1, -1, 2, 5, 5,
                                    -1, -1, 2, 5, 5 }, 0, "nearest by factors");
    assert_values(UP(.size = { 5, 7 }, .mode = TALC_UPSAMPLE_BICUBIC),
                  (const double[]){ -4.969649416909617, -3.899204810495626, -2.031000728862975, 0.356, 2.743000728862972, 4.611204810495624,
                                    5.681649416909623, -1.29364941690962, 0.15291581632653, 1.927507653061223, 0.899749999999997,
                                    0.065807215743437, 2.317215379008745, 4.112228862973764, 2.702350583090377, 4.514212827988338,
                                    6.197886297376094, 2, -2.197886297376093, -0.51421282798834, 1.297649416909622, 0.758350583090378,
                                    2.204915816326529, 3.979507653061223, 3.657124999999997, 1.687315962099124, -0.591030976676385,
                                    -2.106275874635565, -1.681649416909621, -0.611204810495629, 1.256999271137025, 4.774250000000002,
                                    5.341207725947526, -0.048792274052478, -4.282504373177844 }, 1e-14, "bicubic");
    assert_values(UP(.size = { 5, 7 }, .mode = TALC_UPSAMPLE_BICUBIC, .align_corners = true),
                  (const double[]){ -4, -2.78125, -1, 0.5, 2, 3.78125, 5, -0.125, 1.7060546875, 2.875, 1.0126953125, -0.65625, 1.0283203125,
                                    3.375, 3, 5.25, 6, 2, -2, -1.25, 1, 1.65625, 3.4873046875, 4.65625, 3.40625, 1.125, -0.4560546875, -1.375, -1,
                                    0.21875, 2, 4.53125, 5, 1.28125, -3 }, 1e-14, "bicubic, aligned");
    assert_values(UP(.scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BICUBIC),
                  (const double[]){ -3.963358620553179, 2.389502340728678, -0.105548700160573, 0.052100295135356, 4.311975950991702,
                                    -2.05468272949318, 2.399537013478978, 1.636220232037452, -0.592217430513151, 5.561679472827193 }, 1e-14, "bicubic by factors");
    assert_values(UP(.scale = { 1.3, 1.1 }, .mode = TALC_UPSAMPLE_BICUBIC),
                  (const double[]){ -4.567227820226138, -2.104564685119659, 1.293912654407247, 4.569377016345264, 1.049564965390616,
                                    4.225435509430955, -0.662171825491383, 1.209011498071847, 1.991346371853978, 5.091427588517482,
                                    1.658558080340239, -0.85314272642709 }, 1e-14, "bicubic to the same extents");
    assert_values(UP(.size = { 2, 6 }, .mode = TALC_UPSAMPLE_NEAREST_EXACT),
                  (const double[]){ -4, -1, -1, 2, 5, 5, -1, 2, 2, 5, -3, -3 }, 0, "nearest-exact");
    assert_values(UP(.scale = { 2.3, 0.6 }, .mode = TALC_UPSAMPLE_NEAREST_EXACT),
                  (const double[]){ -4, 2, -4, 2, 3, -2, 3, -2, 3, -2, -1, 5 }, 0, "nearest-exact by factors");
}

/* onnx.reference's numbers, by its Resize of float64. */
Test(resample, upsampling_is_that_of_onnx)
{
    assert_values(UP(.scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BILINEAR, .coordinates = TALC_COORDINATES_ASYMMETRIC),
                  (const double[]){ -4, 1.0, 0.117647058823529, 0.803921568627451, 2.294117647058823, 1.254901960784314, -0.058823529411764,
                                    3.215686274509804, -1, 4 }, 1e-14, "linear, asymmetric");
    assert_values(UP(.scale = { 1.3, 1.6 }, .mode = TALC_UPSAMPLE_BILINEAR, .coordinates = TALC_COORDINATES_HALF_PIXEL_SYMMETRIC),
                  (const double[]){ -2.384615384615384, -0.697115384615384, 0.701923076923077, 0.990384615384615, 2.389423076923077,
                                    4.076923076923077, 3, 4.6875, 4.5, -0.5, -0.6875, 1, -0.076923076923077, 1.610576923076923, 3.009615384615385,
                                    3.298076923076922, 0.995192307692307, -2.076923076923077 }, 1e-14, "linear, half_pixel_symmetric");
    assert_values(UP(.scale = { 1.3, 1.1 }, .mode = TALC_UPSAMPLE_BILINEAR, .coordinates = TALC_COORDINATES_HALF_PIXEL),
                  (const double[]){ -4, -1.409090909090909, 1.318181818181817, 4.045454545454545, 0.576923076923076, 3.167832167832167,
                                    0.337412587412589, 1.43006993006993, 1.307692307692308, 3.898601398601399, 1.722027972027972,
                                    -0.166083916083916 }, 1e-14, "linear, half_pixel");
    assert_values(UP(.scale = { 1.7, 1.6 }, .mode = TALC_UPSAMPLE_BICUBIC, .coordinates = TALC_COORDINATES_ASYMMETRIC, .coefficient = -0.5),
                  (const double[]){ -4, -2.2568359375, -0.25, 1.625, 3.6875, 5.1435546875, 0.552208426623245, 2.843906234098311,
                                    2.762575055973946, -0.72061844850397, 0.674129859556278, 3.027582474112049, 2.90107877060859,
                                    5.393823624821902, 4.605615840626909, -0.780538796941785, -0.99732851618156, 0.318240311100648,
                                    -0.101160187258294, 1.810253687601771, 3.391657019641767, 3.847181783342662, 0.677755444738449,
                                    -2.618043408431713, -1.295542438428658, 0.388094643674945, 2.896406854264198, 5.639199811087931,
                                    1.349124771015672, -3.717245898954304 }, 1e-14, "cubic, asymmetric");
    assert_values(UP(.size = { 5, 3 }, .mode = TALC_UPSAMPLE_BICUBIC, .coordinates = TALC_COORDINATES_HALF_PIXEL, .exclude_outside = true),
                  (const double[]){ -4.487763268091441, 0.325242718446602, 5.138248704984644, -0.867613983691077, 0.860785198555956,
                                    3.343617720672196, 3.523961661341851, 2, 0.476038338658149, 1.276790348438888, 3.742328519855596,
                                    -1.336466707419752, -1.138248704984644, 4.826152912621359, -2.171944952800438 }, 1e-14, "cubic, half_pixel, inside");
    assert_values(UP(.scale = { 1.7, 1.6 }, .mode = TALC_UPSAMPLE_BICUBIC, .coordinates = TALC_COORDINATES_ASYMMETRIC, .exclude_outside = true),
                  (const double[]){ -4, -2.508932661475034, -0.109375, 1.501953125, 3.885714285714285, 5.240458015267175, 0.298361897547581,
                                    2.533926130258335, 2.51401530394849, -0.746682591018842, 0.935357853017166, 3.496850720387772,
                                    2.940688966550177, 5.473820098985743, 4.60602611707439, -0.477849534292312, -1.159383781470653,
                                    0.063443384541506, -0.031734317343174, 1.709304285209594, 3.621999682887453, 3.936560463993311,
                                    0.394101212440697, -2.820545195909972, -1.667790893760538, -0.366002352997521, 3.090179700674537,
                                    6.400059614776557, 1.243411226210551, -4.456206634656229 }, 1e-14, "cubic, asymmetric, inside");
    assert_values(UP(.scale = { 1.3, 1.6 }, .mode = TALC_UPSAMPLE_BICUBIC, .coordinates = TALC_COORDINATES_HALF_PIXEL_SYMMETRIC),
                  (const double[]){ -2.552590274246488, -0.758542893852055, 0.841257212538587, 0.648576002854575, 2.432249587505692,
                                    4.432922571639766, 2.87640380859375, 5.5411376953125, 4.9046630859375, -0.9046630859375, -1.5411376953125,
                                    1.12359619140625, -0.081038157723962, 1.713009222670471, 3.50695529915172, 3.961427323103061,
                                    1.008713608934063, -2.53124070720993 }, 1e-14, "cubic, half_pixel_symmetric");
    assert_values(UP(.size = { 5, 2 }, .coordinates = TALC_COORDINATES_HALF_PIXEL),
                  (const double[]){ -4, 2, -4, 2, 3, -2, 3, -2, -1, 5 }, 0, "nearest, half_pixel, floor");
    assert_values(UP(.scale = { 2.0, 0.8 }, .coordinates = TALC_COORDINATES_ASYMMETRIC),
                  (const double[]){ -4, -1, 2, -4, -1, 2, 3, 6, -2, 3, 6, -2, -1, 2, 5, -1, 2, 5 }, 0, "nearest, asymmetric, floor");
    assert_values(UP(.size = { 5, 7 }, .coordinates = TALC_COORDINATES_ALIGN_CORNERS),
                  (const double[]){ -4, -4, -1, -1, 2, 2, 5, -4, -4, -1, -1, 2, 2, 5, 3, 3, 6, 6, -2, -2, 1, 3, 3, 6, 6, -2, -2, 1, -1, -1, 2, 2,
                                    5, 5, -3 }, 0, "nearest, align_corners, floor");
    assert_values(UP(.size = { 5, 2 }, .coordinates = TALC_COORDINATES_HALF_PIXEL, .rounding = TALC_ROUNDING_CEIL),
                  (const double[]){ -1, 5, 6, 1, 6, 1, 2, -3, 2, -3 }, 0, "nearest, half_pixel, ceil");
    assert_values(UP(.scale = { 2.0, 0.8 }, .coordinates = TALC_COORDINATES_ASYMMETRIC, .rounding = TALC_ROUNDING_CEIL),
                  (const double[]){ -4, 2, 5, 3, -2, 1, 3, -2, 1, -1, 5, -3, -1, 5, -3, -1, 5, -3 }, 0, "nearest, asymmetric, ceil");
    assert_values(UP(.size = { 5, 7 }, .coordinates = TALC_COORDINATES_ALIGN_CORNERS, .rounding = TALC_ROUNDING_CEIL),
                  (const double[]){ -4, -1, -1, 2, 2, 5, 5, 3, 6, 6, -2, -2, 1, 1, 3, 6, 6, -2, -2, 1, 1, -1, 2, 2, 5, 5, -3, -3, -1, 2, 2, 5, 5,
                                    -3, -3 }, 0, "nearest, align_corners, ceil");
    assert_values(UP(.size = { 5, 2 }, .coordinates = TALC_COORDINATES_HALF_PIXEL, .rounding = TALC_ROUNDING_PREFER_FLOOR),
                  (const double[]){ -4, 2, -4, 2, 3, -2, -1, 5, -1, 5 }, 0, "nearest, half_pixel, round_prefer_floor");
    assert_values(UP(.scale = { 2.0, 0.8 }, .coordinates = TALC_COORDINATES_ASYMMETRIC, .rounding = TALC_ROUNDING_PREFER_FLOOR),
                  (const double[]){ -4, -1, 2, -4, -1, 2, 3, 6, -2, 3, 6, -2, -1, 2, 5, -1, 2, 5 }, 0, "nearest, asymmetric, round_prefer_floor");
    assert_values(UP(.size = { 5, 7 }, .coordinates = TALC_COORDINATES_ALIGN_CORNERS, .rounding = TALC_ROUNDING_PREFER_FLOOR),
                  (const double[]){ -4, -4, -1, -1, 2, 2, 5, -4, -4, -1, -1, 2, 2, 5, 3, 3, 6, 6, -2, -2, 1, 3, 3, 6, 6, -2, -2, 1, -1, -1, 2, 2,
                                    5, 5, -3 }, 0, "nearest, align_corners, round_prefer_floor");
    assert_values(UP(.size = { 5, 2 }, .coordinates = TALC_COORDINATES_HALF_PIXEL, .rounding = TALC_ROUNDING_PREFER_CEIL),
                  (const double[]){ -1, 5, -1, 5, 6, 1, 2, -3, 2, -3 }, 0, "nearest, half_pixel, round_prefer_ceil");
    assert_values(UP(.scale = { 2.0, 0.8 }, .coordinates = TALC_COORDINATES_ASYMMETRIC, .rounding = TALC_ROUNDING_PREFER_CEIL),
                  (const double[]){ -4, -1, 5, 3, 6, 1, 3, 6, 1, -1, 2, -3, -1, 2, -3, -1, 2, -3 }, 0, "nearest, asymmetric, round_prefer_ceil");
    assert_values(UP(.size = { 5, 7 }, .coordinates = TALC_COORDINATES_ALIGN_CORNERS, .rounding = TALC_ROUNDING_PREFER_CEIL),
                  (const double[]){ -4, -1, -1, 2, 2, 5, 5, 3, 6, 6, -2, -2, 1, 1, 3, 6, 6, -2, -2, 1, 1, -1, 2, 2, 5, 5, -3, -3, -1, 2, 2, 5, 5,
                                    -3, -3 }, 0, "nearest, align_corners, round_prefer_ceil");
    assert_values(UP(.scale = { 1.3, 1.6 }, .coordinates = TALC_COORDINATES_HALF_PIXEL_SYMMETRIC, .rounding = TALC_ROUNDING_PREFER_FLOOR),
                  (const double[]){ -4, -1, -1, 2, 2, 5, 3, 6, 6, -2, -2, 1, -1, 2, 2, 5, 5, -3 }, 0, "nearest, half_pixel_symmetric, round_prefer_floor");
    assert_values(UP(.size = { 1, 5 }, .mode = TALC_UPSAMPLE_BILINEAR, .coordinates = TALC_COORDINATES_PYTORCH_HALF_PIXEL),
                  (const double[]){ -4, -1.9, 0.5, 2.9, 5 }, 1e-14, "one line shows the first");
    /* 10.5/3.5 - 1/2 is as near to 2 as to 3; in f32 10.5 (1/3.5) is above 3. */
    const talc_tensor *line = talc_arange(tested_device(), TALC_F64, 0, 4, 1);
    for (int prefer = TALC_ROUNDING_PREFER_FLOOR; prefer <= TALC_ROUNDING_PREFER_CEIL; prefer++) {
        const talc_tensor *y = talc_upsample2d(talc_reshape(line, TALC_DIMS(1, 1, 4)), &(talc_upsample2d_options){
            .scale = { 1, 3.5 }, .coordinates = TALC_COORDINATES_HALF_PIXEL, .rounding = (talc_upsample_rounding)prefer });
        cr_assert_eq(talc_item(talc_select(y, 2, 10)), prefer == TALC_ROUNDING_PREFER_FLOOR ? 2 : 3);
    }
}
// clang-format on

/* Walks to the element that is shown, one step outside after the other, turning at the edges. */
static int source_of(int i, int in, talc_padding_mode mode)
{
    if (mode == TALC_PADDING_REFLECT)
        return abs(i) <= in - 1 ? abs(i) : (in - 1) - (abs(i) - (in - 1));
    if (mode == TALC_PADDING_REPLICATE)
        return i < 0 ? 0 : i >= in ? in - 1 : i;
    return mode == TALC_PADDING_CIRCULAR ? (i + 10 * in) % in : i;
}

/* Of rows that are summed in several pieces. */
Test(resample, gradients_of_wide_rows)
{
    enum { IN = 2500 };
    static const int sides[][2] = {
        { 1500, 1200 }, { 7, 0 }, { -1100, 3 }, { 2, -2400 }, { 0, 0 }
    };
    for (int mode = 0; mode < TALC_PADDING_MODE_COUNT; mode++)
        for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
            const int before = sides[s][0], after = sides[s][1];
            if (mode == TALC_PADDING_CIRCULAR && (before < 0 || after < 0))
                continue; /* repeats what is left */
            owned_scope *scope = talc_scope_enter();
            talc_tensor *x = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(1, 2, IN));
            talc_require_grad(x, true);
            talc_tensor *y =
                talc_pad(x, &(talc_pad_options){ .padding = { before, after }, .mode = mode });
            const int out = IN + before + after;
            talc_tensor *dy = talc_add_scalar(talc_arange(tested_device(), TALC_F32, 0, 2 * out, 1),
                                              1); /* sums are exact */
            talc_backward(
                talc_sum(talc_mul(y, talc_reshape(dy, talc_dims_of(y))), TALC_SCALAR, false));
            assert_no_failure();
            double expected[2 * IN] = { 0 };
            float got[2 * IN];
            for (int k = 0; k < 2 * out; k++) {
                const int i = source_of(k % out - before, IN, mode);
                if (i >= 0 && i < IN)
                    expected[k / out * IN + i] += k + 1;
            }
            cr_assert(talc_to_host(talc_grad(x), got, sizeof got));
            for (int i = 0; i < 2 * IN; i++)
                cr_assert(got[i] == (float)expected[i],
                          "mode %d, %d and %d: dx[%d] is %g, expected %g", mode, before, after, i,
                          (double)got[i], expected[i]);
        }
}

// ---- Accuracy -----------------------------------------------------------------------------------

/* What many outputs show gets their sum, in one rounding of f32: of a border along a row, of rows,
 * of an enlarged element, and of a convolution's border. */
Test(resample, gradients_of_what_many_outputs_show_are_sums_in_f64)
{
    static const char *const names[] = { "columns", "rows", "nearest", "conv2d" };
    enum { MANY = 1000000 };
    const talc_tensor *one = talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 1, 1, 1));
    for (int i = 0; i < 4; i++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *x = talc_full(tested_device(), TALC_F32, TALC_DIMS(1, 1, 1, 1), 1);
        talc_require_grad(x, true);
        const talc_pad_options pad = { .padding = { i == 0 ? MANY : 0, 0, i == 1 ? MANY : 0 },
                                       .mode = TALC_PADDING_REPLICATE };
        talc_tensor *y =
            i < 2 ? talc_pad(x, &pad)
            : i == 2
                ? talc_upsample2d(x, &(talc_upsample2d_options){ .size = { 1, MANY + 1 } })
                : talc_conv2d(x, one, NULL,
                              &(talc_conv2d_options){ .padding = { 0, MANY / 2 },
                                                      .padding_mode = TALC_PADDING_REPLICATE });
        assert_no_failure();
        const talc_tensor *dy = talc_rand(tested_device(), TALC_F32, talc_dims_of(y));
        float *values = malloc(talc_nbytes(dy));
        cr_assert(talc_numel(dy) == MANY + 1 && talc_to_host(dy, values, talc_nbytes(dy)));
        double expected = 0;
        for (int64_t k = 0; k <= MANY; k++)
            expected += (double)values[k];
        free(values);
        talc_backward(talc_sum(talc_mul(y, dy), TALC_SCALAR, false));
        const double got = talc_item(talc_grad(x));
        assert_no_failure();
        cr_assert(fabs(got - expected) <= 0x1.01p-24 * expected, "%s: %.9g instead of %.9g",
                  names[i], got, expected);
    }
}

// ---- Types, shapes ------------------------------------------------------------------------------

Test(resample, every_type_is_moved)
{
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++) {
        talc_tensor *x = talc_arange(tested_device(), dtype, 1, 5, 1);
        assert_values(talc_pad(x, &(talc_pad_options){ .padding = { 2, 1 }, .value = 9 }),
                      (const double[]){ 9, 9, 1, 2, 3, 4, 9 }, 0, talc_dtype_name(dtype));
        assert_values(
            talc_pad(x, &(talc_pad_options){ .padding = { 2, 1 }, .mode = TALC_PADDING_REFLECT }),
            (const double[]){ 3, 2, 1, 2, 3, 4, 3 }, 0, talc_dtype_name(dtype));
        x = talc_reshape(x, TALC_DIMS(1, 2, 2));
        assert_values(talc_upsample2d(x, &(talc_upsample2d_options){ .size = { 1, 4 } }),
                      (const double[]){ 1, 1, 2, 2 }, 0, talc_dtype_name(dtype));
    }
}

/* Each dimension is larger by one, and the last element is that of x. */
Test(resample, padding_takes_rank_0_to_8_and_empty_extents)
{
    talc_dims dims = { 0 };
    talc_pad_options options = { .padding = { 0 } };
    for (int rank = 0; rank <= TALC_MAX_RANK; rank++) {
        talc_tensor *x = talc_full(tested_device(), TALC_I32, dims, 7);
        talc_tensor *y = talc_pad(x, &options);
        assert_no_failure();
        cr_assert(y->rank == rank && talc_numel(y) == 1 << rank);
        cr_assert(talc_item(talc_sum(talc_cast(y, TALC_F64), TALC_SCALAR, false)) == 7);
        y = talc_reshape(y, TALC_DIMS(-1));
        cr_assert(talc_item(talc_select(y, 0, -1)) == 7);
        if (rank < TALC_MAX_RANK) {
            dims.dim[dims.rank++] = 1;
            options.padding[2 * rank] = 1;
        }
    }
    talc_tensor *none = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(2, 0));
    assert_values(talc_pad(none, &(talc_pad_options){ .padding = { 1, 1 }, .value = 3 }),
                  (const double[]){ 3, 3, 3, 3 }, 0, "nothing, padded");
    none = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(0, 2, 3, 4));
    cr_assert(talc_numel(talc_upsample2d(none, &(talc_upsample2d_options){ .size = { 5, 6 } })) ==
              0);
    cr_assert(talc_numel(talc_pad(none, &(talc_pad_options){ .padding = { 1, 1 },
                                                             .mode = TALC_PADDING_CIRCULAR })) ==
              0);
}

/* More than there is cannot be cropped before what is left repeats. */
Test(resample, circular_padding_repeats_what_cropping_leaves)
{
    const double values[] = { 1, 2, 3, 4 };
    const talc_tensor *x = talc_from_host(tested_device(), TALC_F64, TALC_DIMS(1, 1, 2, 2), values);
    const struct {
        int64_t top, bottom;
        const char *expected;
    } refused[] = {
        { 1, -3, "padding 1 and -3 crops 3 of dimension 2, whose extent is 2" },
        { 2, -4, "padding 2 and -4 crops 4 of dimension 2, whose extent is 2" },
        { -3, 1, "padding -3 and 1 crops 3 of dimension 2, whose extent is 2" },
        { 1, -2, "circular by 1 of dimension 2, whose extent 0 allows at most 0" },
        { 2, -1, "circular by 2 of dimension 2, whose extent 1 allows at most 1" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_assert_null(
            talc_pad(x, &(talc_pad_options){ .padding = { 0, 0, refused[i].top, refused[i].bottom },
                                             .mode = TALC_PADDING_CIRCULAR }));
        assert_failure_with(TALC_BAD_ARGUMENT, "pad: %s", refused[i].expected);
    }
    assert_values(talc_pad(x, &(talc_pad_options){ .padding = { 0, 0, 1, -1 },
                                                   .mode = TALC_PADDING_CIRCULAR }),
                  (const double[]){ 1, 2, 1, 2 }, 0, "the first row, repeated");
    cr_assert(talc_numel(talc_pad(x, &(talc_pad_options){ .padding = { 0, 0, 0, -2 },
                                                          .mode = TALC_PADDING_CIRCULAR })) == 0);
}

Test(resample, padding_keeps_the_sign_of_zero)
{
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++)
        for (int negative = 0; negative < 2; negative++) {
            const talc_tensor *x = talc_ones(tested_device(), (talc_dtype)dtype, TALC_DIMS(1));
            const talc_tensor *y = talc_pad(
                x, &(talc_pad_options){ .padding = { 1, 1 }, .value = negative ? -0.0 : 0 });
            for (int i = 0; i < 3; i += 2)
                cr_assert(!signbit(talc_item(talc_select(y, 0, i))) == !negative, "element %d", i);
        }
}

/* The gradient of what crops everything away, and of an image that is shown nowhere. */
Test(resample, what_nothing_shows_has_a_gradient_of_zeros)
{
    talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(4));
    talc_require_grad(x, true);
    talc_backward(
        talc_sum(talc_pad(x, &(talc_pad_options){ .padding = { -4, 0 } }), TALC_SCALAR, false));
    assert_values(talc_grad(x), (const double[]){ 0, 0, 0, 0 }, 0, "cropped");
}

/* A weight of 0 lets nothing in; other elements stay what they are. */
Test(resample, infinities_and_nan_reach_what_shows_them)
{
    const float x[] = { 1, INFINITY, 3, NAN, 5 };
    talc_tensor *t = talc_from_host(tested_device(), TALC_F32, TALC_DIMS(1, 1, 5), x);
    assert_values(talc_upsample2d(t, &(talc_upsample2d_options){ .size = { 1, 9 },
                                                                 .mode = TALC_UPSAMPLE_BILINEAR,
                                                                 .align_corners = true }),
                  (const double[]){ 1, INFINITY, INFINITY, INFINITY, 3, NAN, NAN, NAN, 5 }, 0,
                  "aligned");
}
