/* Gradients of pooling, batch norm and cross entropy: a few values of PyTorch's, and edges. */
#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <string.h>

#define D      TALC_DIMS
#define POOL   &(const talc_pool2d_options)
#define NORM   &(const talc_batch_norm2d_options)
#define LOSSES &(const talc_cross_entropy_options)

// ---- Values -------------------------------------------------------------------------------------

/* k i mod m - o, of a type. */
static talc_tensor *sequence(talc_dims dims, int64_t k, int64_t m, int64_t o)
{
    double numbers[64];
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (double)(i * k % m - o);
    return talc_from_host(tested_device(), TALC_F64, dims, numbers);
}

/* The gradients under the cotangent 5 i mod 7 - 3. */
static void assert_gradients(const char *what, const talc_tensor *y, int count,
                             const talc_tensor *const inputs[], const double *const expected[])
{
    cr_assert(y != NULL, "%s: %s", what, talc_error_message());
    cr_assert(talc_backward_from(y, sequence(talc_dims_of(y), 5, 7, 3)), "%s: %s", what,
              talc_error_message());
    for (int k = 0; k < count; k++)
        assert_values(talc_grad(inputs[k]), expected[k], 1e-13, what);
}

static void assert_gradient(const char *what, const talc_tensor *y, const talc_tensor *x,
                            const double *expected)
{
    assert_gradients(what, y, 1, &x, &expected);
}

/* x of a type that wants its gradient. */
static talc_tensor *leaf(talc_dims dims, int64_t k, int64_t m, int64_t o)
{
    talc_tensor *x = sequence(dims, k, m, o);
    talc_require_grad(x, true);
    return x;
}

Test(gradient_values, of_pooling_are_those_of_pytorch)
{
    static const struct {
        const char *name;
        talc_tensor *(*pool)(const talc_tensor *x, const talc_pool2d_options *options);
        talc_pool2d_options options;
        double expected[20];
    } of[] = {
        { "max",
          talc_max_pool2d,
          { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .ceil_mode = true },
          { 0, 0, 0, 2, 0, 0, -2, 0, 0, 0, 0, 0, 0, 0, 1, -1, 0, -3, 2, 0 } },
        { "max, dilated",
          talc_max_pool2d,
          { .kernel = { 2, 2 }, .stride = { 1, 1 }, .dilation = { 2, 3 } },
          { 0, 0, 0, -3, 0, 0, -2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0 } },
        { "avg",
          talc_avg_pool2d,
          { .kernel = { 3, 2 }, .stride = { 2, 3 }, .padding = { 1, 1 }, .ceil_mode = true },
          { -0.5, 0, 1. / 3,  1. / 3,  0, -0.5, 0, 0,        0,        0,
            0,    0, -1. / 3, -1. / 3, 0, 0.75, 0, -1. / 12, -1. / 12, 0 } },
        { "avg without padding",
          talc_avg_pool2d,
          { .kernel = { 3, 2 },
            .stride = { 2, 3 },
            .padding = { 1, 1 },
            .ceil_mode = true,
            .exclude_padding = true },
          { -1.5, 0, 0.5,     0.5,     0, -1.5, 0, 1. / 6, 1. / 6, 0,
            0,    0, -1. / 3, -1. / 3, 0, 3,    0, 1. / 6, 1. / 6, 0 } },
        { "avg by 4",
          talc_avg_pool2d,
          { .kernel = { 3, 2 }, .stride = { 2, 3 }, .padding = { 1, 1 }, .divisor_override = 4 },
          { -0.75, 0, 0.5, 0.5, 0, -0.75, 0, 0, 0, 0, 0, 0, -0.5, -0.5, 0, 0, 0, -0.5, -0.5, 0 } },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        talc_tensor *x = leaf(D(1, 1, 4, 5), 7, 11, 4);
        assert_gradient(of[i].name, of[i].pool(x, &of[i].options), x, of[i].expected);
    }
    static const double adaptive[] = { -0.5,    -0.5, -1. / 6, 1. / 3, 1. / 3, -0.5,   -0.5,
                                       -0.5,    0,    0,       0.5,    0.5,    1. / 3, -1. / 6,
                                       -1. / 6, 0.5,  0.5,     2. / 3, 1. / 6, 1. / 6 };
    talc_tensor *x = leaf(D(1, 1, 4, 5), 7, 11, 4);
    assert_gradient("adaptive", talc_adaptive_avg_pool2d(x, 3, 2), x, adaptive);
}

/* In training and by running statistics, alone and with a residual and a ReLU; the residual may
 * want none. */
Test(gradient_values, of_batch_norm2d_are_those_of_pytorch)
{
    static const double expected[4][4][12] = {
        { { -1.0325070977653721, 1.078969864894201, 0.27619557024631758, 0.12547301888163309,
            -0.41406024084133464, 0.071101136876907209, -0.40396817985059663, -1.2067424744984803,
            1.2880523169739302, -0.071101136876907209, 0.41406024084133464, -0.12547301888163309 },
          { 1.413243894051555, -6.733707617470805 },
          { -3, 3 } },
        { { -3.1819725604180067, 2.1213150402786711, 0, 1.1546928404526415, -1.7320392606789623,
            -0.57734642022632077, -1.0606575201393356, -3.1819725604180067, 2.1213150402786711, 0,
            1.1546928404526415, -1.7320392606789623 },
          { 3.8890775738442303, -19.629778287694904 },
          { -3, 3 } },
        { { -0.051625374247754902, 0.84536508707803115, -0.070984860551433548,
            -0.006970622195967148, -0.36247699668038152, 0.1603263180705265, -0.58078513117597574,
            -0.083891184753885975, -0.058078536348981108, 0.034853612870656261, 0.41127197941567717,
            -0.23700429148051133 },
          { 0.26171183223176953, -2.9276989641177416 },
          { 1, 4 },
          { 0, 2, 0, 0, 3, 0, -1, 0, 0, 0, -2, 3 } },
        { { 0, 2.1213150402786711, 0, 0, -1.7320392606789623, 0, -1.0606575201393356, 0, 0, 0, 0,
            -1.7320392606789623 },
          { 0.35355250671311184, 0 },
          { 1, 6 },
          { 0, 2, 0, 0, 3, 0, -1, 0, 0, 0, 0, 3 } },
    };
    talc_device *device = tested_device();
    for (int i = 0; i < 6; i++) {
        const bool evaluated = i % 2 == 1, fused = i >= 2, all = i == 2 || i == 3;
        talc_tensor *x = leaf(D(2, 2, 1, 3), 7, 11, 4), *r = sequence(D(2, 2, 1, 3), 3, 7, 3);
        talc_tensor *w = talc_from_host(device, TALC_F64, D(2), (const double[]){ 1.5, -0.5 });
        talc_tensor *b = talc_from_host(device, TALC_F64, D(2), (const double[]){ 0.25, 1 });
        talc_tensor *mean = talc_from_host(device, TALC_F64, D(2), (const double[]){ 0.5, -1 });
        talc_tensor *var = talc_from_host(device, TALC_F64, D(2), (const double[]){ 2, 0.75 });
        const talc_tensor *const inputs[] = { x, w, b, r };
        talc_require_grad(w, true);
        talc_require_grad(b, true);
        talc_require_grad(r, all);
        talc_batch_norm2d_options options = { .training = !evaluated };
        if (fused)
            options.residual = r, options.activation = TALC_ACTIVATION_RELU;
        const double(*of)[12] = expected[2 * fused + evaluated];
        assert_gradients(evaluated ? "norm, evaluated" : "norm",
                         talc_batch_norm2d(x, w, b, mean, var, &options), all ? 4 : 3, inputs,
                         (const double *const[]){ of[0], of[1], of[2], of[3] });
        cr_assert(all || talc_grad(r) == NULL);
    }
}

/* By x nothing is wanted, so that it is not kept and may be written; dr = dy where y > 0. */
Test(gradient_values, of_a_residual_alone_need_no_x)
{
    talc_device *device = tested_device();
    for (int i = 0; i < 4; i++) {
        const bool training = i % 2 == 1, activates = i > 1;
        talc_tensor *x = sequence(D(2, 2, 1, 3), 7, 11, 4), *r = sequence(D(2, 2, 1, 3), 3, 7, 3);
        talc_tensor *w = talc_full(device, TALC_F64, D(2), 0.5), *of = talc_zeros_like(w);
        talc_require_grad(r, true);
        talc_tensor *y = talc_batch_norm2d(
            x, w, w, of, talc_full(device, TALC_F64, D(2), 2),
            NORM{ .training = training,
                  .residual = r,
                  .activation = activates ? TALC_ACTIVATION_RELU : TALC_ACTIVATION_NONE });
        double values[12], expected[12];
        cr_assert(talc_to_host(y, values, sizeof values), "%s", talc_error_message());
        cr_assert(talc_fill(x, 0) && talc_fill(w, 0) && talc_fill(of, 0));
        for (int k = 0; k < 12; k++)
            expected[k] = activates && values[k] <= 0 ? 0 : k * 5 % 7 - 3;
        assert_gradient("a residual", y, r, expected);
    }
}

Test(gradient_values, of_cross_entropy_with_class_weights_are_those_of_pytorch)
{
    static const struct {
        talc_reduction reduction;
        double smoothing, loss[3], expected[12];
    } of[] = {
        { TALC_REDUCTION_MEAN,
          0,
          { 3.7133370424507612 },
          { -0.01145849796160492, -0.37945333876630155, 2.0915037177801272, -1.7005918810522205, 0,
            0, 0, 0, 0.83527901581829622, -0.72403098701596758, -0.097986938699890211,
            -0.013261090102438247 } },
        { TALC_REDUCTION_SUM,
          0.2,
          { 6.6398996195967452 },
          { 0.053543962566894795, -0.41052637683989968, 3.0913407115432885, -2.7343582972702829, 0,
            0, 0, 0, 1.2185639595809774, -1.5689049852349668, -0.06542878551909162,
            0.41576981117308132 } },
        { TALC_REDUCTION_NONE,
          0.2,
          { 4.3029314437415609, 0, 2.3369681758551852 },
          { 0.053543962566894795, -0.41052637683989968, 3.0913407115432885, -2.7343582972702829 } },
        { TALC_REDUCTION_MEAN,
          0.2,
          { 3.7942283540552832 },
          { 0.030596550038225596, -0.23458650105137127, 1.766480406596165, -1.562490455583019, 0, 0,
            0, 0, 0.69632226261770136, -0.89651713441998093, -0.037387877439480917,
            0.23758274924176076 } },
    };
    talc_device *device = tested_device();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        talc_tensor *x = talc_div_scalar(sequence(D(3, 4), 7, 11, 4), 2);
        talc_tensor *labels =
            talc_from_host(device, TALC_I64, D(3), (const int64_t[]){ 2, -100, 0 });
        talc_require_grad(x, true);
        /* Every second element of a tensor: the weights are a view. */
        const double weights[] = { 0.5, -9, 2, -9, 1.25, -9, 3, -9 };
        talc_tensor *w =
            talc_slice(talc_from_host(device, TALC_F64, D(8), weights), 0, 0, TALC_END, 2);
        talc_tensor *y = talc_cross_entropy_with(x, labels,
                                                 LOSSES{ .reduction = of[i].reduction,
                                                         .label_smoothing = of[i].smoothing,
                                                         .class_weights = w });
        assert_values(y, of[i].loss, 1e-14, "loss");
        assert_gradient("cross_entropy", y, x, of[i].expected);
    }
}

/* As in PyTorch 2.15: 0 / 0, to which smoothing adds an infinity. */
Test(gradient_values, of_cross_entropy_whose_labels_have_no_weight_are_nan)
{
    static const struct {
        double weights[4], smoothing;
        int64_t labels[3];
    } of[] = {
        { { 0.5, 2, 0, 3 }, 0, { 2, -100, 2 } },
        { { 0.5, 2, 0, 3 }, 0.2, { 2, -100, 2 } },
        { { 0.5, 2, 0, 3 }, 1, { 2, -100, 2 } },
        { { 0, 0, 0, 0 }, 0.2, { 0, -100, 3 } },
    };
    talc_device *device = tested_device();
    const int rows = talc_device_is_host(device) ? 2 : 1;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int row = 0; row < rows; row++) {
            talc_tensor *x = talc_div_scalar(sequence(D(3, 4), 7, 11, 4), 2);
            talc_tensor *labels = talc_from_host(device, TALC_I64, D(3), of[i].labels);
            talc_tensor *w = talc_from_host(device, TALC_F64, D(4), of[i].weights);
            talc_require_grad(x, true);
            talc_tensor *y =
                talc_cross_entropy_with(x, labels,
                                        LOSSES{ .label_smoothing = of[i].smoothing,
                                                .class_weights = w,
                                                .algorithm = row == 1 ? "reference" : NULL });
            cr_assert(isnan(talc_item(y)), "case %zu: %g", i, talc_item(y));
            double got[12];
            cr_assert(talc_backward(y) && talc_to_host(talc_grad(x), got, sizeof got), "%s",
                      talc_error_message());
            for (int k = 0; k < 12; k++)
                cr_assert(k / 4 == 1 ? got[k] == 0 : isnan(got[k]), "case %zu: element %d is %g", i,
                          k, got[k]);
        }
}

// ---- Edges --------------------------------------------------------------------------------------

/* No tap is inside, so the maximum is -infinity, and nothing has a part in it. */
Test(gradient_values, of_windows_around_the_image_is_zero)
{
    talc_tensor *x = talc_ones(tested_device(), TALC_F64, D(1, 2, 1, 1));
    talc_require_grad(x, true);
    const talc_tensor *y = talc_max_pool2d(
        x,
        POOL{ .kernel = { 2, 2 }, .stride = { 1, 1 }, .padding = { 2, 2 }, .dilation = { 4, 4 } });
    assert_gradient("max", y, x, (const double[]){ 0, 0 });
}

/* Where the forward pass goes on, the gradient of other samples is what it is without the wrong
 * label: that which comes with the loss, but for the fake device, on which work that fails writes
 * nothing, and that of the rule. */
Test(gradient_values, of_a_label_that_is_no_class_is_nan)
{
    talc_device *device = tested_device();
    for (int by_rule = strcmp(device->name, "fake") == 0; by_rule < 2; by_rule++) {
        talc_tensor *x = talc_zeros(device, TALC_F64, D(3, 2));
        talc_tensor *labels = talc_from_host(device, TALC_I64, D(3), (const int64_t[]){ 0, 99, 1 });
        const talc_tensor *one = talc_ones(device, TALC_F64, TALC_SCALAR);
        talc_require_grad(x, true);
        const talc_tensor *y =
            talc_cross_entropy_with(x, labels, LOSSES{ .reduction = TALC_REDUCTION_SUM });
        if (y != NULL)
            cr_assert((by_rule ? talc_backward_from(y, one) : talc_backward(y)) &&
                      !talc_device_synchronize(device));
        assert_failure(TALC_BAD_ARGUMENT,
                       "cross_entropy: element 1 of labels is 99, there are 2 classes");
        if (y == NULL)
            continue;
        double got[6];
        cr_assert(talc_to_host(talc_grad(x), got, sizeof got));
        cr_assert(got[0] == -0.5 && got[1] == 0.5 && isnan(got[2]) && isnan(got[3]) &&
                  got[4] == 0.5 && got[5] == -0.5);
    }
}
