/* Group, instance and layer norm: every row of the device against loops in long double, edges, and
 * PyTorch's values. */
#include "ops/backend.h"
#include "tests/support/operands.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>

#define D TALC_DIMS

// ---- Oracle -------------------------------------------------------------------------------------

typedef struct shape {
    int64_t N, C, plane, groups;
} shape;

/* y, dx [N, C, plane], dweight, dbias [C]; weight and bias may be NULL. */
static void oracle(const shape *s, double eps, bool relu, const double *x, const double *weight,
                   const double *bias, const double *dy, double *y, double *dx, double *dweight,
                   double *dbias)
{
    const int64_t of_group = s->C / s->groups, M = of_group * s->plane;
    for (int64_t c = 0; c < s->C; c++)
        dweight[c] = dbias[c] = 0;
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t g = 0; g < s->groups; g++) {
            const int64_t first = (n * s->C + g * of_group) * s->plane;
            long double mean = 0, var = 0, sum = 0, product = 0;
            for (int64_t i = first; i < first + M; i++)
                mean += x[i] / (long double)M;
            for (int64_t i = first; i < first + M; i++)
                var += (x[i] - mean) * (x[i] - mean) / (long double)M;
            const long double rstd = 1 / sqrtl(var + eps);
            for (int pass = 0; pass < 2; pass++)
                for (int64_t i = first; i < first + M; i++) {
                    const int64_t c = i / s->plane % s->C;
                    const long double w = weight == NULL ? 1 : weight[c], z = (x[i] - mean) * rstd,
                                      v = z * w + (bias == NULL ? 0 : bias[c]),
                                      up = relu && !(v > 0) ? 0 : dy[i];
                    if (pass == 0) {
                        y[i] = relu && !(v > 0) ? 0 : (double)v;
                        sum += up * w;
                        product += up * w * z;
                        dweight[c] += (double)(up * z);
                        dbias[c] += (double)up;
                    } else {
                        dx[i] = (double)(rstd * (up * w - (sum + z * product) / (long double)M));
                    }
                }
        }
}

static uint64_t state = 5;

/* Uniform in +-1 about `mean`; f32 holds them exactly. */
static double *draw(int64_t count, double mean)
{
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        values[i] = (double)(float)(mean + (double)(state >> 33) / 1073741824.0 - 1);
    }
    return values;
}

static talc_tensor *leaf(talc_dtype dtype, talc_dims dims, const double *values)
{
    talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, dims, values);
    talc_tensor *tensor = talc_to(wide, tested_device(), dtype);
    talc_require_grad(tensor, true);
    return tensor;
}

/* By the row that is forced. With an offset of an element, in memory that no vector load may
 * take. */
static void assert_case(const shape *s, talc_dtype dtype, bool affine, bool relu, bool shifted,
                        const char *what)
{
    const int64_t count = s->N * s->C * s->plane;
    double *x = draw(count + 1, 0.5), *dy = draw(count, 0), *weight = draw(s->C, 1.5),
           *bias = draw(s->C, 0);
    double *expected[] = { draw(count, 0), draw(count, 0), draw(s->C, 0), draw(s->C, 0) };
    oracle(s, 0.1, relu, x, affine ? weight : NULL, affine ? bias : NULL, dy, expected[0],
           expected[1], expected[2], expected[3]);
    talc_tensor *w = leaf(dtype, D(s->C), weight), *b = leaf(dtype, D(s->C), bias);
    talc_tensor *in = leaf(dtype, D(s->N, s->C, s->plane), x);
    if (shifted) {
        double *behind = malloc((size_t)(count + 1) * sizeof *behind);
        for (int64_t i = 0; i < count; i++)
            behind[i + 1] = x[i];
        behind[0] = NAN;
        const talc_tensor *buffer = talc_detach(leaf(dtype, D(count + 1), behind));
        in = talc_reshape(talc_slice(buffer, 0, 1, TALC_END, 1), D(s->N, s->C, s->plane));
        talc_require_grad(in, true);
        free(behind);
    }
    /* An eps that keeps rstd, and with it roundings of the gradient, small where a group is one
     * value. */
    const talc_norm_options o = { .eps = 0.1,
                                  .activation =
                                      relu ? TALC_ACTIVATION_RELU : TALC_ACTIVATION_NONE };
    talc_tensor *y = talc_group_norm(in, s->groups, affine ? w : NULL, affine ? b : NULL, &o);
    const bool narrow = dtype == TALC_F32;
    assert_values(y, expected[0], narrow ? 2e-6 : 1e-12, what);
    talc_tensor *up = talc_to(talc_from_host(cpu_device(), TALC_F64, talc_dims_of(in), dy),
                              tested_device(), dtype);
    cr_assert(talc_backward_from(y, up), "%s: %s", what, talc_error_message());
    assert_values(talc_grad(in), expected[1], narrow ? 2e-5 : 1e-13, what);
    if (affine) {
        assert_values(talc_grad(w), expected[2], narrow ? 2e-5 : 1e-12, what);
        assert_values(talc_grad(b), expected[3], narrow ? 2e-5 : 1e-12, what);
    }
    for (int i = 0; i < 4; i++)
        free(expected[i]);
    free(x), free(dy), free(weight), free(bias);
}

static void assert_shapes(const shape *shapes, size_t count)
{
    char what[120];
    for (const talc_algorithm *row = tested_device()->backend->algorithms[TALC_OP_group_norm];
         row->name != NULL; row++)
        for (size_t i = 0; i < count; i++)
            for (int variant = 0; variant < 8; variant++) {
                const shape *s = &shapes[i];
                const bool wide = variant & 1, affine = variant & 2, odd = variant & 4;
                snprintf(what, sizeof what, "%s: n%dc%dl%dg%d %s%s%s", row->name, (int)s->N,
                         (int)s->C, (int)s->plane, (int)s->groups, wide ? "f64" : "f32",
                         affine ? " affine" : "", odd ? " relu, shifted" : "");
                talc_scope *scope = talc_scope_enter();
                talc_algorithm_force("group_norm", row->name);
                talc_algorithm_force("group_norm.grad_input", row->name);
                assert_case(s, wide ? TALC_F64 : TALC_F32, affine, odd, odd, what);
                talc_scope_leave(scope);
            }
}

Test(group_norm, short_rows_are_those_of_the_oracle)
{
    static const shape shapes[] = {
        { 2, 6, 5, 3 },    { 3, 4, 1, 1 },   { 5, 1, 1, 1 },    { 2, 3, 49, 3 },  { 4, 8, 4, 2 },
        { 3, 192, 1, 1 },  { 2, 768, 1, 1 }, { 70, 33, 1, 1 },  { 2, 64, 16, 8 }, { 300, 5, 3, 5 },
        { 2, 1027, 1, 1 }, { 33, 40, 2, 4 }, { 1000, 3, 1, 1 }, { 3, 12, 7, 12 },
    };
    assert_shapes(shapes, sizeof shapes / sizeof *shapes);
}

Test(group_norm, long_rows_are_those_of_the_oracle)
{
    static const shape shapes[] = {
        { 2, 4, 1500, 2 },  { 1, 8, 3136, 2 },  { 2, 2, 20011, 2 },
        { 1, 70001, 1, 1 }, { 1, 6, 30001, 3 }, { 2, 9000, 1, 1 },
        { 1, 2, 65540, 1 }, { 3, 131, 127, 1 }, { 130, 8200, 1, 2 },
    };
    assert_shapes(shapes, sizeof shapes / sizeof *shapes);
}

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
    talc_module *plain = talc_nn_instance_norm2d(&(talc_instance_norm2d_layer){ .channels = 3 });
    cr_assert(plain != NULL && talc_module_count(plain) == 0,
              "an instance norm has parameters unasked");
    talc_module_free(plain);
    talc_module *unbiased =
        talc_nn_layer_norm(&(talc_layer_norm_layer){ .normalised = D(7), .no_bias = true });
    cr_assert(unbiased != NULL && talc_module_count(unbiased) == 7);
    talc_module_free(unbiased);
}

// ---- Edges --------------------------------------------------------------------------------------

/* The bound is that of ops/group_norm.h with |x - mu| up to 1 and s = sqrt(3): 8 u (s + s |mu|) and
 * what the last step rounds. */
Test(group_norm, a_mean_far_from_zero_does_not_spoil_the_variance)
{
    static const int64_t lengths[] = { 192, 5000, 40000, 90001 };
    for (const talc_algorithm *row = tested_device()->backend->algorithms[TALC_OP_group_norm];
         row->name != NULL; row++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const shape s = { 1, lengths[i], 1, 1 };
            double *x = draw(s.C, 1e4), *expected = draw(4 * s.C, 0);
            oracle(&s, 1e-5, false, x, NULL, NULL, expected, expected, expected + s.C,
                   expected + 2 * s.C, expected + 3 * s.C);
            talc_algorithm_force("group_norm", row->name);
            const talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, D(1, s.C), x);
            const talc_tensor *narrow = talc_to(wide, tested_device(), TALC_F32);
            assert_values(talc_layer_norm(narrow, D(s.C), NULL, NULL, NULL), expected, 16 * 0x1p-24,
                          row->name);
            free(x), free(expected);
        }
}

/* A view, whose gradient is of the view's shape; options' zeros; groups of one value; nothing at
 * all. */
Test(group_norm, takes_views_groups_of_one_value_and_nothing)
{
    const talc_tensor *x = numbers(D(2, 3, 4)), *turned = talc_transpose(x, 0, 2);
    assert_near(talc_group_norm(turned, 3, NULL, NULL, NULL),
                talc_group_norm(talc_contiguous(turned), 3, NULL, NULL, NULL), 0, "a view");
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
    assert_no_failure();
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
