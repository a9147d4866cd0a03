/* Group, instance and layer norm as a caller has them: PyTorch's values, views, edges. The values
 * of their algorithms are held by test_algorithms.c, their gradients by test_norm_gradient.c
 * too. */
#include "ops/backend.h"
#include "tests/support/operands.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>

#define D TALC_DIMS

/* From 8 MiB on, results go past the caches, a cache line at a time; those of a part of the samples
 * do not. */
Test(group_norm, large_results_have_the_bits_of_their_samples)
{
    static const struct {
        int64_t N, C, plane, groups, samples;
    } cases[] = { { 3, 8, 100003, 4, 1 }, { 2100, 1001, 1, 1, 525 }, { 12, 6, 30011, 6, 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_dims dims = D(cases[i].N, cases[i].C, cases[i].plane);
        talc_tensor *x = random_operand(TALC_F32, dims, 1), *dy = random_operand(TALC_F32, dims, 2);
        const talc_tensor *weight = random_operand(TALC_F32, D(cases[i].C), 3),
                          *bias = random_operand(TALC_F32, D(cases[i].C), 4);
        talc_require_grad(x, true);
        talc_tensor *y = talc_group_norm(x, cases[i].groups, weight, bias, NULL);
        cr_assert(talc_backward_from(y, dy), "%s", talc_error_message());
        for (int64_t n = 0; n < cases[i].N; n += cases[i].samples) {
            const int64_t end = n + cases[i].samples;
            talc_tensor *part = talc_clone(talc_slice(talc_detach(x), 0, n, end, 1));
            talc_require_grad(part, true);
            talc_tensor *y_part = talc_group_norm(part, cases[i].groups, weight, bias, NULL);
            cr_assert(talc_backward_from(y_part, talc_clone(talc_slice(dy, 0, n, end, 1))));
            cr_assert(same_bits(talc_slice(y, 0, n, end, 1), y_part), "case %d", (int)i);
            cr_assert(same_bits(talc_slice(talc_grad(x), 0, n, end, 1), talc_grad(part)),
                      "gradient of case %d", (int)i);
        }
    }
}

// ---- The three names ----------------------------------------------------------------------------

static talc_tensor *numbers(talc_dims dims)
{
    double values[24];
    for (int i = 0; i < 24; i++)
        values[i] = i * 5 % 13;
    return talc_to(talc_from_host(cpu_device(), TALC_F64, dims, values), tested_device(), TALC_F64);
}

Test(group_norm, values_are_those_of_pytorch)
{
    static const double grouped[] = {
        -1.427452455266545,  -0.23790874254442418, 0.9516349701776967,   2.9032699403553934,
        0.5241825149111516,  -1.8549049105330901,  -1.2416739586170602,  -0.5166520827658796,
        -1.6766870841277686, 0.5400087503404727,   4.890140005447556,    -2.0700700027237775,
        0.7733566675745926,  -1.5467133351491857,  -0.09666958344682425, -1.7067483365110745,
        2.9333916689364825,  0.0333041655317593,   -0.37890875429335247, -1.40692185063539,
        -0.7644136654216165, -4.504560570581924,   -0.6495114592992828,  3.205537651983358
    };
    static const double by_instance[] = {
        -1.1283292320709537, 0.19911692330663894, 1.5265630786842315,   -0.5973507699199166,
        1.6859939370443087,  -1.743975748177235,  3.743975748177235,    0.3140060629556912,
        -1.564164616035477,  -0.9004415383466806, -0.23671846065788424, -1.2986753849599584,
        0.5973507699199168,  -1.5265630786842315, -0.19911692330663883, 1.128329232070954,
        3.256658464141907,   0.6017661533867219,  -2.0531261573684634,  2.194701539839833,
        -0.7013246150400417, -1.763281539342116,  -1.0995584616533196,  -0.43583538396452326
    };
    static const double by_layer[] = {
        -1.108957724190852,  0.6086031561679346,  -0.24982271598854144, -1.5112857972442941,
        -0.3333333333333333, -1.6666666666666665, -1.6666666666666665,  1.25,
        -1.108957724190852,  0.6086031561679346,  -0.24982271598854144, -1.5112857972442941,
        0.587095265748098,   4.000709136045835,   -1.0978492109580162,  3.5768731725725558,
        -1.108957724190852,  0.6086031561679346,  -0.24982271598854144, -1.5112857972442941,
        0.587095265748098,   4.000709136045835,   -1.0978492109580162,  3.5768731725725558
    };
    const double affine[] = { 1, -2, 0.5, 3, 0, 1, -1, 0.25 };
    const talc_tensor *both =
        talc_to(talc_from_host(cpu_device(), TALC_F64, D(8), affine), tested_device(), TALC_F64);
    const talc_tensor *weight = talc_slice(both, 0, 0, 4, 1), *bias = talc_slice(both, 0, 4, 8, 1);
    const talc_norm_options small = { .eps = 1e-3 }, large = { .eps = 0.5 };
    assert_values(talc_group_norm(numbers(D(2, 4, 3)), 2, weight, bias, &small), grouped, 1e-14,
                  "group_norm");
    assert_values(talc_instance_norm2d(numbers(D(2, 3, 2, 2)), talc_slice(weight, 0, 0, 3, 1),
                                       talc_slice(bias, 0, 0, 3, 1), NULL),
                  by_instance, 1e-14, "instance_norm2d");
    assert_values(talc_layer_norm(numbers(D(3, 2, 2, 2)), D(2, 2), talc_reshape(weight, D(2, 2)),
                                  talc_reshape(bias, D(2, 2)), &large),
                  by_layer, 1e-14, "layer_norm");
    /* The modules, once their parameters have these values; before that weight is 1 and bias 0. */
    talc_module *const modules[] = {
        talc_nn_group_norm(
            &(talc_group_norm_layer){ .groups = 2, .channels = 4, .eps = 1e-3, .dtype = TALC_F64 }),
        talc_nn_instance_norm2d(
            &(talc_instance_norm2d_layer){ .channels = 3, .affine = true, .dtype = TALC_F64 }),
        talc_nn_layer_norm(
            &(talc_layer_norm_layer){ .normalised = D(2, 2), .eps = 0.5, .dtype = TALC_F64 }),
    };
    const talc_dims inputs[] = { D(2, 4, 3), D(2, 3, 2, 2), D(3, 2, 2, 2) };
    const double *const expected[] = { grouped, by_instance, by_layer };
    for (int i = 0; i < 3; i++) {
        cr_assert(modules[i] != NULL && talc_module_to(modules[i], tested_device()), "%s",
                  talc_error_message());
        talc_tensor *w = talc_module_find(modules[i], "weight"),
                    *b = talc_module_find(modules[i], "bias");
        assert_near(w, talc_ones(tested_device(), TALC_F64, talc_dims_of(w)), 0, "weight");
        assert_near(b, talc_zeros(tested_device(), TALC_F64, talc_dims_of(b)), 0, "bias");
        const int64_t count = talc_numel(w);
        cr_assert(talc_copy(w, talc_reshape(talc_slice(weight, 0, 0, count, 1), talc_dims_of(w))));
        cr_assert(talc_copy(b, talc_reshape(talc_slice(bias, 0, 0, count, 1), talc_dims_of(b))));
        assert_values(talc_forward(modules[i], numbers(inputs[i])), expected[i], 1e-14, "module");
        talc_module_free(modules[i]);
    }
    owned_module *plain = talc_nn_instance_norm2d(&(talc_instance_norm2d_layer){ .channels = 3 });
    cr_assert(plain != NULL && talc_module_count(plain) == 0,
              "an instance norm has parameters unasked");
    owned_module *unbiased =
        talc_nn_layer_norm(&(talc_layer_norm_layer){ .normalised = D(7), .no_bias = true });
    cr_assert(unbiased != NULL && talc_module_count(unbiased) == 7);
}

// ---- Edges --------------------------------------------------------------------------------------

/* The bound is that of ops/group_norm.h with |x - mu| up to 1 and s = sqrt(3): 8 u (s + s |mu|) and
 * what the last step rounds. */
Test(group_norm, a_mean_far_from_zero_does_not_spoil_the_variance)
{
    static const int64_t lengths[] = { 192, 5000, 40000, 90001 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t C = lengths[i];
        const talc_tensor *x = talc_add_scalar(random_operand(TALC_F32, D(1, C), i), 1e4);
        owned_double *values = host_doubles(x);
        long double mean = 0, var = 0;
        for (int64_t c = 0; c < C; c++)
            mean += values[c] / (long double)C;
        for (int64_t c = 0; c < C; c++)
            var += (values[c] - mean) * (values[c] - mean) / (long double)C;
        for (int64_t c = 0; c < C; c++)
            values[c] = (double)((values[c] - mean) / sqrtl(var + 1e-5L));
        x = talc_to(x, tested_device(), TALC_F32);
        const talc_algorithm *algorithm = tested_device()->backend->algorithms[TALC_OP_group_norm];
        for (; algorithm->name != NULL; algorithm++) {
            talc_algorithm_force("group_norm", algorithm->name);
            assert_values(talc_layer_norm(x, D(C), NULL, NULL, NULL), values, 16 * 0x1p-24,
                          algorithm->name);
        }
    }
}

/* A view, whose gradient is of the view's shape; options' zeros; groups of one value; nothing at
 * all. */
Test(group_norm, takes_views_groups_of_one_value_and_nothing)
{
    const talc_tensor *x = numbers(D(2, 3, 4)), *transposed = talc_transpose(x, 0, 2);
    assert_near(talc_group_norm(transposed, 3, NULL, NULL, NULL),
                talc_group_norm(talc_contiguous(transposed), 3, NULL, NULL, NULL), 0, "a view");
    const talc_tensor *ones = talc_ones(tested_device(), TALC_F64, D(2, 3));
    const talc_tensor *bias = talc_arange(tested_device(), TALC_F64, 1, 4, 1);
    assert_values(
        talc_group_norm(ones, 3, ones == NULL ? NULL : talc_select(ones, 0, 0), bias, NULL),
        (const double[]){ 1, 2, 3, 1, 2, 3 }, 0, "one value a group");
    const talc_dims empty[] = { D(0, 4, 3), D(2, 4, 0), D(2, 0, 3) };
    for (int i = 0; i < 3; i++) {
        talc_tensor *none = talc_zeros(tested_device(), TALC_F32, empty[i]);
        talc_tensor *weight = talc_ones(tested_device(), TALC_F32, D(empty[i].dim[1]));
        talc_require_grad(none, true);
        talc_require_grad(weight, true);
        const talc_tensor *y = talc_group_norm(none, 2, weight, weight, NULL);
        cr_assert(talc_same_dims(y, none), "%s", talc_error_message());
        cr_assert(talc_backward_from(y, none), "%s", talc_error_message());
        cr_assert(talc_same_dims(talc_grad(none), none));
        assert_near(talc_grad(weight), talc_zeros(tested_device(), TALC_F32, D(empty[i].dim[1])), 0,
                    "dweight of nothing");
    }
    cr_assert(talc_numel(talc_instance_norm2d(talc_zeros(tested_device(), TALC_F32, D(2, 0, 3, 3)),
                                              NULL, NULL, NULL)) == 0);
    cr_assert(talc_numel(talc_layer_norm(talc_zeros(tested_device(), TALC_F32, D(2, 0)), D(0), NULL,
                                         NULL, NULL)) == 0);
}

/* The gradient of the bias alone, and none where nothing asks. */
Test(group_norm, gives_the_gradients_that_are_asked_for)
{
    const talc_tensor *x = numbers(D(2, 4, 3));
    talc_tensor *bias = talc_zeros(tested_device(), TALC_F64, D(4));
    talc_require_grad(bias, true);
    const talc_tensor *y = talc_group_norm(x, 2, NULL, bias, NULL);
    cr_assert(talc_backward(talc_sum(y, TALC_SCALAR, false)), "%s", talc_error_message());
    assert_values(talc_grad(bias), (const double[]){ 6, 6, 6, 6 }, 1e-15, "dbias");
}

// ---- Local response norm ------------------------------------------------------------------------

Test(group_norm, local_response_is_that_of_pytorch)
{
    static const double response[] = { 0.0,
                                       0.6540466915903532,
                                       1.6171292868319451,
                                       0.3837461520872424,
                                       1.7761415877930273,
                                       1.4054769653751504,
                                       0.4309130803652309,
                                       1.6346731333708853,
                                       0.16328552365890175,
                                       0.7571203477916865,
                                       1.4739602418425737,
                                       0.3670288129422816,
                                       1.7168168836240527,
                                       0.0,
                                       0.47913516005776796,
                                       1.551057404139825,
                                       0.2810130532952191,
                                       1.7761415877930273,
                                       1.4054769653751504,
                                       0.4309130803652309,
                                       1.7268576843925907,
                                       0.2537345125418611,
                                       0.7571203477916865,
                                       1.6205846534212802 };
    static const double response_even[] = { 0.0,
                                            4.98421459641233,
                                            9.978305044307708,
                                            1.9968184152359354,
                                            6.993444669519515,
                                            11.954080874717565,
                                            3.9823166545282045,
                                            8.984170047157052,
                                            0.9978678165020866,
                                            5.977040437358783,
                                            10.946270354264831,
                                            2.989133604967526,
                                            7.982345564917429,
                                            0.0,
                                            4.971503189952008,
                                            9.961548236174625,
                                            1.994393393807466,
                                            6.988733692843681,
                                            11.92716919899383,
                                            3.9816487275569536,
                                            8.974937924048907,
                                            0.9990635242170736,
                                            5.977040437358783,
                                            10.951370799952562 };
    const talc_local_response_norm_options o = { .alpha = 0.5, .beta = 0.6, .k = 1.5 };
    assert_values(talc_local_response_norm(numbers(D(1, 6, 2, 2)), 3, &o), response, 1e-14,
                  "of 3 channels");
    assert_values(talc_local_response_norm(numbers(D(1, 6, 4)), 4, NULL), response_even, 1e-14,
                  "of 4 channels");
    talc_module *module =
        talc_nn_local_response_norm(&(talc_local_response_norm_layer){ .size = 3, .options = o });
    assert_values(talc_forward(module, numbers(D(1, 6, 2, 2))), response, 1e-14, "module");
    talc_module_free(module);
    const talc_local_response_norm_options none = { .alpha = TALC_ZERO };
    assert_near(talc_local_response_norm(numbers(D(2, 3, 4)), 9, &none), numbers(D(2, 3, 4)), 0,
                "alpha 0");
    const talc_tensor *empty = talc_zeros(tested_device(), TALC_F32, D(2, 0, 3));
    cr_assert(talc_same_dims(talc_local_response_norm(empty, 5, NULL), empty), "%s",
              talc_error_message());
}
