#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include "tests/support/layers.h"
#include "tests/support/pattern.h"

#include <math.h>
#include <string.h>

/* Expected values are PyTorch's in float64 for layers and inputs filled with the pattern, unless a
 * test says more. */

/* The layer's t-th parameter of `weight`, `bias` gets pattern t; weights of rank 1 are around 1. */
static talc_module *filled(talc_module *layer)
{
    assert_no_failure();
    talc_tensor *weight = talc_module_find(layer, "weight"),
                *bias = talc_module_find(layer, "bias");
    pattern_fill(weight, 0, 64, weight->rank == 1);
    if (bias != NULL)
        pattern_fill(bias, 1, 64, 0);
    return layer;
}

static talc_tensor *input(talc_dtype dtype, talc_dims dims)
{
    return pattern_new(dtype, dims, 1, 32);
}

static void check_values(const char *what, talc_tensor *y, talc_dims dims, const double *expected,
                         double tolerance)
{
    assert_no_failure();
    char is[TALC_DIMS_TEXT], should[TALC_DIMS_TEXT];
    talc_dims_text(talc_dims_of(y), is);
    talc_dims_text(dims, should);
    cr_assert(strcmp(is, should) == 0, "%s: shape %s instead of %s", what, is, should);
    assert_values(y, expected, tolerance, what);
}

/* Applies a layer to the pattern of shape `x`, compares, and frees the layer. */
static void check(const char *what, talc_module *layer, talc_dtype dtype, talc_dims x, talc_dims y,
                  const double *expected)
{
    assert_no_failure();
    check_values(what, talc_forward(layer, input(dtype, x)), y, expected,
                 dtype == TALC_F64 ? 4e-13 : 4e-7);
    talc_module_free(layer);
}

// ---- Conv2d and Linear --------------------------------------------------------------------------

static const double grouped_conv[48] = {
    -0.09716796875, -0.052734375,   -0.3056640625,  -0.26123046875, -0.0537109375,  -0.0810546875,
    -0.20751953125, -0.23486328125, -0.1376953125,  -0.185546875,   -0.13427734375, -0.18212890625,
    -0.17919921875, -0.1552734375,  0.0244140625,   0.04833984375,  -0.2431640625,  -0.17041015625,
    0.04052734375,  0.08154296875,  -0.20361328125, -0.1728515625,  0.03125,        0.06201171875,
    0.06494140625,  0.10791015625,  0.05224609375,  0.17724609375,  -0.01123046875, 0.015625,
    0.08251953125,  -0.0615234375,  -0.02685546875, 0.00634765625,  0.12646484375,  0.060546875,
    0.15966796875,  0.02978515625,  0.18017578125,  0.13232421875,  0.15673828125,  0.244140625,
    0.14501953125,  0.1162109375,   0.12451171875,  0.28173828125,  0.14697265625,  0.205078125,
};

static const double reflected_same_conv[24] = {
    -0.2236328125, -0.07666015625, -0.0654296875, -0.1201171875, -0.2109375,   -0.0810546875,
    -0.0673828125, -0.1220703125,  -0.2060546875, -0.076171875,  -0.0625,      -0.1171875,
    -0.0361328125, -0.14208984375, -0.16015625,   -0.10546875,   -0.013671875, -0.13671875,
    -0.1572265625, -0.1025390625,  -0.0205078125, -0.1435546875, -0.1640625,   -0.109375,
};

Test(layers, conv2d)
{
    static const double relu_conv[6] = { 0.07177734375, 0.02392578125, 0,
                                         0.07861328125, 0.03076171875, 0 };
    for (talc_dtype dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        check("groups, stride, padding, dilation",
              filled(CONV2D(.in_channels = 2, .out_channels = 4, .kernel = { 3, 2 },
                            .stride = { 2, 1 }, .padding = { 1, 0 }, .dilation = { 1, 2 },
                            .groups = 2, .dtype = dtype)),
              dtype, TALC_DIMS(1, 2, 5, 6), TALC_DIMS(1, 4, 3, 4), grouped_conv);
        check("same, reflect",
              filled(CONV2D(.in_channels = 2, .out_channels = 2, .kernel = { 2, 3 },
                            .padding_same = true, .padding_mode = TALC_PADDING_REFLECT,
                            .dtype = dtype)),
              dtype, TALC_DIMS(1, 2, 3, 4), TALC_DIMS(1, 2, 3, 4), reflected_same_conv);
        check("no bias, relu",
              filled(CONV2D(.in_channels = 1, .out_channels = 1, .kernel = { 2, 2 },
                            .no_bias = true, .activation = TALC_ACTIVATION_RELU, .dtype = dtype)),
              dtype, TALC_DIMS(1, 1, 3, 4), TALC_DIMS(1, 1, 2, 3), relu_conv);
    }
    owned_module *padded = CONV2D(.in_channels = 1, .out_channels = 1, .kernel = { 1, 1 },
                                  .padding = { 1, 2 }, .padding_end = { 3, TALC_ZERO });
    talc_tensor *y = talc_forward(padded, input(TALC_F32, TALC_DIMS(1, 1, 5, 5)));
    cr_assert(y != NULL && y->dims[2] == 9 && y->dims[3] == 7, "padding_end reaches the op");
}

Test(layers, linear)
{
    static const double expected[12] = { -0.130859375,   0.107421875,    0.029296875,
                                         -0.22998046875, -0.07373046875, 0.13525390625,
                                         -0.1787109375,  -0.14599609375, -0.0068359375,
                                         -0.130859375,   -0.13623046875, -0.005859375 };
    double relu[12];
    for (int i = 0; i < 12; i++)
        relu[i] = fmax(expected[i], 0);
    for (talc_dtype dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        talc_linear_layer options = { .in_features = 5, .out_features = 3, .dtype = dtype };
        check("linear", filled(talc_nn_linear(&options)), dtype, TALC_DIMS(2, 2, 5),
              TALC_DIMS(2, 2, 3), expected);
        options.activation = TALC_ACTIVATION_RELU;
        check("relu", filled(talc_nn_linear(&options)), dtype, TALC_DIMS(2, 2, 5),
              TALC_DIMS(2, 2, 3), relu);
    }
    owned_module *bare = talc_nn_linear(
        &(talc_linear_layer){ .in_features = 2, .out_features = 3, .no_bias = true });
    cr_assert(talc_module_count(bare) == 6 && talc_module_find(bare, "bias") == NULL);
}

// ---- BatchNorm2d --------------------------------------------------------------------------------

static const double norm_first[18] = {
    -1.34624779184,   -0.4809204715369, 0.3844068487664,  1.280191782059,   -0.992055849118,
    -0.2690679664707, 0.3176020750087,  1.075637885033,   -1.306760375043,  -0.7281568487664,
    0.1371704715369,  1.00249779184,    -1.198623815589,  0.04078398323533, 0.7637718658826,
    1.400510375043,   -0.981887885033,  -0.2238520750087,
};

static const double norm_eval[18] = {
    -0.4815507875623, -0.2640981969229, -0.04664560628358, 0.3490206481599,   -0.401524782681,
    -0.162714872868,  0.13564575139,    0.4007743955415,   -0.432487057506,   -0.3262275085342,
    -0.1087749178948, 0.1086776727445,  -0.4697561854847,  -0.06036776866238, 0.1784421411506,
    0.5144009573207,  -0.3188604957268, -0.05373185157533,
};

static const double norm_plain[18] = {
    -1.522644991839,  -0.400696050484, 0.7212528908712,  1.517966963121,  -1.050900205238,
    -0.2335333789417, 0.2723508046837, 1.034933057798,   -1.361754023419, -0.7212528908712,
    0.400696050484,   1.522644991839,  -1.284433584179,  0.1167666894708, 0.9341335157668,
    1.361754023419,   -1.034933057798, -0.2723508046837,
};

Test(layers, batch_norm2d)
{
    static const double mean[3] = { -0.0322265625, -0.064453125, -0.0107421875 };
    static const double variance[3] = { 0.6166564941406, 0.66455078125, 0.6797424316406 };
    for (talc_dtype dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        talc_batch_norm2d_layer options = {
            .channels = 3, .eps = 1e-3, .momentum = 0.25, .dtype = dtype
        };
        double tolerance = dtype == TALC_F64 ? 4e-13 : 8e-7;
        owned_module *layer = filled(talc_nn_batch_norm2d(&options));
        talc_tensor *x = input(dtype, TALC_DIMS(2, 3, 1, 3));
        check_values("train", talc_forward(layer, x), TALC_DIMS(2, 3, 1, 3), norm_first, tolerance);
        talc_forward(layer, talc_mul_scalar(x, 2));
        check_values("running_mean", talc_module_find(layer, "running_mean"), TALC_DIMS(3), mean,
                     tolerance);
        check_values("running_var", talc_module_find(layer, "running_var"), TALC_DIMS(3), variance,
                     tolerance);
        talc_module_eval(layer);
        check_values("eval", talc_forward(layer, x), TALC_DIMS(2, 3, 1, 3), norm_eval, tolerance);
        cr_assert(talc_item_i64(talc_module_find(layer, "num_batches_tracked")) == 2);
        cr_assert(talc_module_count(layer) == 6, "buffers are not parameters");
    }
    talc_module *plain =
        BATCH_NORM2D(.channels = 3, .no_affine = true, .no_tracking = true, .dtype = TALC_F64);
    cr_assert(talc_module_find(plain, "weight") == NULL &&
              talc_module_find(plain, "running_mean") == NULL);
    talc_module_eval(plain);
    check("without tracking, evaluation uses the batch", plain, TALC_F64, TALC_DIMS(2, 3, 1, 3),
          TALC_DIMS(2, 3, 1, 3), norm_plain);
}

Test(layers, a_batch_norm2d_that_fails_counts_no_batch)
{
    owned_module *layer = BATCH_NORM2D(.channels = 3);
    cr_assert_null(talc_forward(layer, talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 4, 1, 1))));
    cr_assert(talc_error_status() == TALC_BAD_SHAPE);
    talc_error_clear();
    cr_assert(talc_item_i64(talc_module_find(layer, "num_batches_tracked")) == 0);
}

// ---- Pooling and layers without options ---------------------------------------------------------

Test(layers, pooling)
{
    static const double max[24] = { -0.125, 0.09375, 0.3125,  0.09375, -0.0625,  0.15625,
                                    0.375,  0.15625, -0.0625, 0.15625, 0.375,    0.15625,
                                    -0.125, 0.21875, 0.4375,  0.21875, -0.03125, 0.21875,
                                    0.4375, 0.21875, -0.0625, 0.15625, 0.375,    0.15625 };
    static const double avg[12] = { -0.25,   0.1875, -0.2708333333333, 0.1927083333333,  -0.2265625,
                                    0.25,    -0.25,  0.265625,         -0.1927083333333, 0.296875,
                                    -0.1875, 0.0625 };
    static const double adaptive[12] = {
        -0.265625,          -0.046875,       0.171875,         -0.25,
        -0.005208333333333, 0.2135416666667, -0.2135416666667, 0.03125,
        0.2760416666667,    -0.171875,       0.046875,         0.140625
    };
    talc_pool2d_options options = {
        .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 }, .dilation = { 1, 2 }
    };
    talc_module *layer = talc_nn_max_pool2d(&options);
    options.stride[1] = 100; /* the layer has its own copy */
    check("max", layer, TALC_F64, TALC_DIMS(1, 2, 5, 4), TALC_DIMS(1, 2, 3, 4), max);
    layer = talc_nn_avg_pool2d(&(talc_pool2d_options){ .kernel = { 3, 2 },
                                                       .stride = { 2, 2 },
                                                       .padding = { 1, 0 },
                                                       .ceil_mode = true,
                                                       .exclude_padding = true });
    check("avg", layer, TALC_F64, TALC_DIMS(1, 2, 5, 4), TALC_DIMS(1, 2, 3, 2), avg);
    check("adaptive", talc_nn_adaptive_avg_pool2d(2, 3), TALC_F64, TALC_DIMS(1, 2, 5, 4),
          TALC_DIMS(1, 2, 2, 3), adaptive);
}

/* A second stride or dilation that is left out is the first, a second padding 0. The extents are
 * those of the formulas. */
Test(layers, one_number_stands_for_both_axes)
{
    const talc_tensor *w = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2, 2, 3, 3));
    talc_tensor *x = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(1, 2, 11, 11));
#define CONV(...) talc_conv2d(x, w, NULL, &(talc_conv2d_options){ __VA_ARGS__ })
#define TRANSPOSE(...)                                                                             \
    talc_conv_transpose2d(x, w, NULL, &(talc_conv_transpose2d_options){ __VA_ARGS__ })
#define POOL(kind, ...)                                                                            \
    talc_##kind##_pool2d(x, &(talc_pool2d_options){ .kernel = { 3, 3 }, __VA_ARGS__ })
    const struct {
        const talc_tensor *one, *both;
        int64_t OH, OW;
    } cases[] = {
        { CONV(.stride = { 2 }), CONV(.stride = { 2, 2 }), 5, 5 },
        { CONV(.stride = { 2, 0 }), CONV(.stride = { 2, 2 }), 5, 5 },
        { CONV(.stride = { 0, 2 }), CONV(.stride = { 1, 2 }), 9, 5 },
        { CONV(.dilation = { 3 }), CONV(.dilation = { 3, 3 }), 5, 5 },
        { CONV(.padding = { 1 }), CONV(.padding = { 1, 0 }), 11, 9 },
        { TRANSPOSE(.stride = { 2 }), TRANSPOSE(.stride = { 2, 2 }), 23, 23 },
        { TRANSPOSE(.dilation = { 2 }), TRANSPOSE(.dilation = { 2, 2 }), 15, 15 },
        { TRANSPOSE(.padding = { 1 }), TRANSPOSE(.padding = { 1, 0 }), 11, 13 },
        { POOL(max, .stride = { 2 }), POOL(max, .stride = { 2, 2 }), 5, 5 },
        { POOL(max, .stride = { 1 }, .dilation = { 4 }),
          POOL(max, .stride = { 1, 1 }, .dilation = { 4, 4 }), 3, 3 },
        { POOL(avg, .stride = { 2 }), POOL(avg, .stride = { 2, 2 }), 5, 5 },
        { POOL(avg, .stride = { 0, 2 }), POOL(avg, .stride = { 3, 2 }), 3, 5 },
        { POOL(max, .padding = { 1 }), POOL(max, .padding = { 1, 0 }), 4, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(!talc_failed(), "%zu: %s", i, talc_error_message());
        cr_assert(cases[i].one->dims[2] == cases[i].OH && cases[i].one->dims[3] == cases[i].OW,
                  "%zu", i);
        const talc_tensor *equal = talc_equal(cases[i].one, cases[i].both);
        cr_assert(talc_item(talc_min(talc_cast(equal, TALC_F32), TALC_SCALAR, false)) == 1, "%zu",
                  i);
    }
#undef CONV
#undef TRANSPOSE
#undef POOL
    const struct {
        talc_module *layer;
        int64_t OH, OW;
    } layers[] = {
        { CONV2D(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .stride = { 2 }), 5, 5 },
        { talc_nn_conv_transpose2d(&(talc_conv_transpose2d_layer){
              .in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .dilation = { 2 } }),
          15, 15 },
        { MAX_POOL2D(.kernel = { 3, 3 }, .stride = { 2 }), 5, 5 },
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const talc_tensor *y = talc_forward(layers[i].layer, x);
        cr_assert(y->dims[2] == layers[i].OH && y->dims[3] == layers[i].OW, "%zu", i);
        talc_module_free(layers[i].layer);
    }
}

Test(layers, functions_and_chains)
{
    const double values[4] = { -2, -0.5, 0, 3 };
    double relu[4], sigmoid[4], both[4];
    for (int i = 0; i < 4; i++) {
        relu[i] = fmax(values[i], 0);
        sigmoid[i] = 1 / (1 + exp(-values[i]));
        both[i] = tanh(relu[i]);
    }
    talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(1, 2, 2), values);
    talc_module *layers[] = { talc_nn_relu(),
                              talc_nn_sigmoid(),
                              talc_nn_identity(),
                              talc_nn_flatten(),
                              TALC_SEQUENTIAL(talc_nn_relu(), talc_nn_tanh()),
                              talc_nn_sequential() };
    check_values("relu", talc_forward(layers[0], x), TALC_DIMS(1, 2, 2), relu, 0);
    check_values("sigmoid", talc_forward(layers[1], x), TALC_DIMS(1, 2, 2), sigmoid, 1e-15);
    cr_assert(talc_forward(layers[2], x) == x, "Identity returns x itself");
    check_values("flatten", talc_forward(layers[3], x), TALC_DIMS(1, 4), values, 0);
    check_values("sequential", talc_forward(layers[4], x), TALC_DIMS(1, 2, 2), both, 1e-15);
    cr_assert(talc_forward(layers[5], x) == x, "an empty Sequential returns x itself");
    cr_assert(strcmp(talc_module_child(layers[4], "1")->kind->name, "Tanh") == 0);
    for (int i = 0; i < 6; i++)
        talc_module_free(layers[i]);
}

/* The ops' tests hold the values; here, that a layer hands its options on. */
Test(layers, layers_that_rearrange_are_their_ops)
{
    talc_pad_options pad = { .padding = { 1, 2, -1, 3 }, .value = 2.5 };
    talc_upsample2d_options up = { .scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BILINEAR };
    talc_tensor *x = input(TALC_F64, TALC_DIMS(2, 6, 5, 4));
    static const char *const names[] = { "ConstantPad2d", "ReflectionPad2d", "ReplicationPad2d",
                                         "CircularPad2d", "ZeroPad2d" };
    for (int i = 0; i < 5; i++) {
        pad.mode = i % 4;
        pad.value = i == 4 ? 0 : 2.5;
        owned_module *layer = talc_nn_pad2d(&pad);
        assert_no_failure();
        cr_assert(strcmp(layer->kind->name, names[i]) == 0, "%s", layer->kind->name);
        assert_near(talc_forward(layer, x), talc_pad(x, &pad), 0, names[i]);
    }
    talc_module *layers[] = { talc_nn_upsample(&up), talc_nn_channel_shuffle(3),
                              talc_nn_adaptive_max_pool2d(2, 3),
                              talc_nn_unflatten(1, TALC_DIMS(2, -1)),
                              talc_nn_unflatten(-1, TALC_DIMS(1, 4, 1)) };
    const talc_tensor *const expected[] = { talc_upsample2d(x, &up), talc_channel_shuffle(x, 3),
                                            talc_adaptive_max_pool2d(x, 2, 3),
                                            talc_reshape(x, TALC_DIMS(2, 2, 3, 5, 4)),
                                            talc_reshape(x, TALC_DIMS(2, 6, 5, 1, 4, 1)) };
    assert_no_failure();
    for (int i = 0; i < 5; i++) {
        assert_near(talc_forward(layers[i], x), expected[i], 0, layers[i]->kind->name);
        talc_module_free(layers[i]);
    }
}

Test(layers, a_module_list_is_picked_from)
{
    owned_module *list = talc_nn_module_list();
    talc_module *first = talc_nn_sequential_append(list, LINEAR(2, 3));
    talc_module *second = talc_nn_sequential_append(list, talc_nn_relu());
    cr_assert(talc_nn_module_list_count(list) == 2 && talc_nn_module_list_count(NULL) == 0);
    cr_assert(talc_nn_module_list_at(list, 0) == first &&
              talc_nn_module_list_at(list, 1) == second);
    cr_assert(talc_nn_module_list_at(list, -1) == second &&
              talc_nn_module_list_at(list, -2) == first);
    cr_assert(talc_module_find(list, "0.weight") != NULL);
    assert_no_failure();
    cr_assert(talc_nn_module_list_at(list, 2) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "nn_module_list_at: index 2 is outside the 2 modules");
    cr_assert(talc_nn_module_list_at(list, -3) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "nn_module_list_at: index -3 is outside the 2 modules");
    cr_assert(talc_forward(list, talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2))) == NULL);
    assert_failure(TALC_UNSUPPORTED, "forward: ModuleList has no forward");
}

/* Named as in PyTorch, each the op of its name with its numbers. */
Test(layers, elementwise_layers_are_their_ops)
{
    const double values[6] = { -7, -2.5, -0.5, 0, 0.25, 6.5 };
    talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(6), values);
    const struct {
        const char *name;
        talc_module *layer;
        talc_tensor *expected;
    } cases[] = {
        { "ReLU6", talc_nn_relu6(), talc_relu6(x) },
        { "Hardsigmoid", talc_nn_hardsigmoid(), talc_hardsigmoid(x) },
        { "Hardswish", talc_nn_hardswish(), talc_hardswish(x) },
        { "SiLU", talc_nn_silu(), talc_silu(x) },
        { "Mish", talc_nn_mish(), talc_mish(x) },
        { "GELU", talc_nn_gelu(), talc_gelu(x) },
        { "GELU", talc_nn_gelu_tanh(), talc_gelu_tanh(x) },
        { "SELU", talc_nn_selu(), talc_selu(x) },
        { "Softsign", talc_nn_softsign(), talc_softsign(x) },
        { "Softplus", talc_nn_softplus(2, 1.5), talc_softplus(x, 2, 1.5) },
        { "LeakyReLU", talc_nn_leaky_relu(0.3), talc_leaky_relu(x, 0.3) },
        { "ELU", talc_nn_elu(1.5), talc_elu(x, 1.5) },
        { "Hardtanh", talc_nn_hardtanh(-1, 2), talc_hardtanh(x, -1, 2) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(cases[i].layer != NULL && cases[i].expected != NULL, "%s", talc_error_message());
        cr_assert_str_eq(cases[i].layer->kind->name, cases[i].name);
        check_values(cases[i].name, talc_forward(cases[i].layer, x), TALC_DIMS(6),
                     talc_data_read(cases[i].expected, TALC_F64), 0);
        talc_module_free(cases[i].layer);
    }
    cr_assert(talc_nn_leaky_relu((double)NAN) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "leaky_relu: negative_slope nan must be finite");
    cr_assert(talc_nn_hardtanh(2, 1) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "hardtanh: low 2 must be at most high 1");
}

/* PyTorch's numbers: of the default layer, and of weights 0.5 and -1.5 for two channels. */
Test(layers, prelu)
{
    static const double values[8] = { -2.5, -0.75, 0.25, 3, -1, 2, -4, 0 };
    static const double expected[2][8] = { { -0.625, -0.1875, 0.25, 3, -0.25, 2, -1, 0 },
                                           { -1.25, -0.375, 0.25, 3, 1.5, 2, 6, 0 } };
    static const double by_weight[2][2] = { { 11.90625 }, { 6.8125, -51 } };
    static const double by_x[2][8] = { { -0.3125, -0.09375, 0.5, 6, -0.125, 4, -0.5, 0 },
                                       { -1.25, -0.375, 0.5, 6, -4.5, 4, -18, 0 } };
    for (int i = 0; i < 2; i++) {
        owned_module *layer = talc_nn_prelu(
            i == 0 ? &(talc_prelu_layer){ .dtype = TALC_F64 }
                   : &(talc_prelu_layer){ .parameters = 2, .init = 0.5, .dtype = TALC_F64 });
        assert_no_failure();
        cr_assert_str_eq(layer->kind->name, "PReLU");
        talc_tensor *weight = talc_module_find(layer, "weight");
        cr_assert(talc_module_count(layer) == i + 1);
        if (i == 1)
            ((double *)talc_data(weight, TALC_F64))[1] = -1.5;
        talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(1, 2, 4), values);
        talc_require_grad(x, true);
        talc_tensor *y = talc_forward(layer, x);
        check_values("y", y, TALC_DIMS(1, 2, 4), expected[i], 0);
        talc_backward(talc_sum(talc_mul(y, y), TALC_SCALAR, false));
        check_values("dw", talc_grad(weight), TALC_DIMS(i + 1), by_weight[i], 0);
        check_values("dx", talc_grad(x), TALC_DIMS(1, 2, 4), by_x[i], 0);
    }
    owned_module *zero = talc_nn_prelu(&(talc_prelu_layer){ .init = (double)TALC_ZERO }),
                 *plain = talc_nn_prelu(NULL);
    check_values("0", talc_module_find(zero, "weight"), TALC_DIMS(1), (double[]){ 0 }, 0);
    check_values("0.25", talc_module_find(plain, "weight"), TALC_DIMS(1), (double[]){ 0.25 }, 0);
}

// ---- Initialisation -----------------------------------------------------------------------------

/* Every element in [-bound, bound), mean and variance those of the uniform distribution within five
 * standard errors. */
static void check_uniform(const char *what, talc_tensor *tensor, double bound)
{
    static float values[16384];
    int64_t count = talc_numel(tensor);
    talc_to_host(tensor, values, talc_nbytes(tensor));
    double sum = 0, squares = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double u = (double)values[i] / bound;
        cr_assert(u >= -1.0000001 && u < 1.0000001, "%s: %g exceeds %g", what, (double)values[i],
                  bound);
        sum += u;
        squares += u * u;
        largest = fmax(largest, fabs(u));
    }
    double n = (double)count;
    cr_assert(fabs(sum / n) < 5 * sqrt(1 / (3 * n)), "%s: mean %g", what, sum / n);
    cr_assert(fabs(squares / n - 1.0 / 3) < 5 * sqrt(4 / (45 * n)), "%s: variance %g", what,
              squares / n);
    cr_assert(largest > 1 - 20 / n, "%s: the largest is %g of the bound", what, largest);
}

Test(layers, parameters_are_drawn_as_pytorch_does)
{
    talc_manual_seed(7);
    owned_module *conv =
        CONV2D(.in_channels = 16, .out_channels = 64, .kernel = { 3, 5 }, .groups = 2);
    owned_module *linear = LINEAR(100, 130);
    cr_assert(talc_generator_get().call == 4, "one call for each parameter");
    check_uniform("conv weight", talc_module_find(conv, "weight"), 1 / sqrt(8 * 3 * 5));
    check_uniform("conv bias", talc_module_find(conv, "bias"), 1 / sqrt(8 * 3 * 5));
    check_uniform("linear weight", talc_module_find(linear, "weight"), 0.1);
    check_uniform("linear bias", talc_module_find(linear, "bias"), 0.1);

    talc_generator_set((talc_generator){ .seed = 7, .call = 2 });
    owned_module *again = LINEAR(100, 130);
    talc_tensor *a = talc_module_find(linear, "weight"), *b = talc_module_find(again, "weight");
    cr_assert(memcmp(talc_data(a, TALC_F32), talc_data(b, TALC_F32), talc_nbytes(a)) == 0,
              "the generator alone decides");
}
