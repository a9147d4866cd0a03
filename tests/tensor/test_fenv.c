/* Callers that flush denormals or round another way: every result has the bits that it has without,
 * on any number of threads, and the caller finds its environment again. */
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"

#include "tensor/fenv.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a caller may have set. The first of them is the worst of all together, and another
 * architecture's own. */
enum { FOREIGN, FLUSHES, UP, DOWN, TO_ZERO, CALLERS };
static const char *const caller_names[] = { "flushes and rounds up", "flushes", "up", "down",
                                            "to zero" };

static void become(int caller)
{
    static const int rounding[] = {
        [UP] = FE_UPWARD, [DOWN] = FE_DOWNWARD, [TO_ZERO] = FE_TOWARDZERO
    };
    if (caller >= UP)
        (void)fesetround(rounding[caller]);
    else
        talc_fenv_set(talc_fenv_now(), talc_fenv_foreign());
    if (caller == FLUSHES)
        (void)fesetround(FE_TONEAREST);
}

static void assert_and_leave(const char *what, int caller, talc_fenv own)
{
    const talc_fenv now = talc_fenv_now();
    talc_fenv_set(now, own);
    become(caller);
    const talc_fenv expected = talc_fenv_now();
    talc_fenv_set(expected, own);
    cr_assert(talc_fenv_same(now, expected), "%s, '%s': the caller's environment was changed", what,
              caller_names[caller]);
}

/* Products near 1e-42, of which flushing leaves nothing, by the library's threads, which begin
 * under the caller's environment. */
static talc_tensor *convolved(const op_inputs *in)
{
    return talc_conv2d(in->image, in->weight, NULL, &(talc_conv2d_options){ .padding = { 1, 1 } });
}

static talc_tensor *multiplied(const op_inputs *in)
{
    return talc_matmul(in->a, in->b);
}

Test(fenv, products_near_1e_42_on_any_number_of_threads)
{
    const op_case cases[] = { { "conv2d", convolved }, { "matmul", multiplied } };
    talc_device *device = tested_device();
    const op_inputs in = {
        .image = talc_mul_scalar(op_numbers(device, TALC_DIMS(2, 8, 24, 24), 1), 1e-21),
        .weight = talc_mul_scalar(op_numbers(device, TALC_DIMS(16, 8, 3, 3), 2), 1e-21),
        .a = talc_mul_scalar(op_numbers(device, TALC_DIMS(150, 90), 3), 1e-21),
        .b = talc_mul_scalar(op_numbers(device, TALC_DIMS(90, 140), 4), 1e-21),
    };
    const talc_fenv own = talc_fenv_now();
    for (int i = 0; i < 2; i++) {
        const talc_tensor *expected = cases[i].run(&in);
        cr_assert(talc_item(talc_max(talc_abs(expected), TALC_SCALAR, false)) > 1e-43);
        for (int caller = 0; caller < CALLERS; caller++)
            for (int threads = 1; threads <= 3; threads++) {
                cr_assert(talc_set_threads(threads));
                become(caller);
                const talc_tensor *y = cases[i].run(&in);
                assert_and_leave(cases[i].name, caller, own);
                assert_same_bits(cases[i].name, expected, y);
            }
    }
}

/* Numbers that the host works out for the device. */
static talc_tensor *counted(const op_inputs *in)
{
    return talc_arange(in->a->device, TALC_F64, 0.1, 40, 0.3);
}

static talc_tensor *widened(const op_inputs *in)
{
    return talc_upsample2d(
        talc_cast(in->image, TALC_F64),
        &(talc_upsample2d_options){ .scale = { 2.3, 1.7 }, .mode = TALC_UPSAMPLE_BILINEAR });
}

/* Inputs of both sizes: with denormal numbers, and with those that every sum rounds. */
Test(fenv, every_op)
{
    talc_device *device = tested_device();
    static const op_case more[] = { { "arange of f64", counted }, { "upsampled f64", widened } };
    const talc_fenv own = talc_fenv_now();
    for (int tiny = 0; tiny < 2; tiny++)
        for (int i = -2; i < 0 || op_cases[i].name != NULL; i++) {
            const op_case *c = i < 0 ? &more[-1 - i] : &op_cases[i];
            owned_scope *scope = talc_scope_enter();
            talc_tensor *expected = NULL;
            for (int caller = -1; caller < CALLERS; caller++) {
                op_inputs in = op_inputs_new(device);
                if (tiny) {
                    in.image = talc_mul_scalar(in.image, 0x1p-128);
                    in.a = talc_mul_scalar(in.a, 0x1p-128);
                }
                if (caller >= 0)
                    become(caller);
                talc_tensor *y = c->run(&in);
                if (caller < 0)
                    expected = y;
                else
                    assert_and_leave(c->name, caller, own);
                assert_same_bits(c->name, expected, y);
            }
        }
}

/* A number that counts as 0 where denormal operands do. */
static const double TINY = 1e-310;

static talc_tensor *made(talc_dtype dtype, talc_dims dims, const double *values)
{
    const talc_tensor *doubles = talc_from_host(talc_device_host(), TALC_F64, dims, values);
    return talc_to(doubles, tested_device(), dtype);
}

static talc_tensor *counts(talc_dtype dtype)
{
    return made(dtype, TALC_DIMS(3), (const double[]){ 0, 1, 2 });
}

/* Of variance 1e-310: with as large an eps they are divided by the root of 2e-310. */
static talc_tensor *spread(talc_dims dims)
{
    return made(TALC_F64, dims, (const double[]){ -1e-155, 1e-155 });
}

static talc_tensor *channel_of(double value)
{
    return made(TALC_F64, TALC_DIMS(1, 1, 1), &value);
}

static talc_tensor *huber_of_one(double delta)
{
    return talc_huber_loss(talc_ones(tested_device(), TALC_F64, TALC_SCALAR),
                           talc_zeros(tested_device(), TALC_F64, TALC_SCALAR), delta,
                           TALC_REDUCTION_SUM);
}

/* A weight of 0 after a step along a gradient of 1: minus the rate. */
static talc_tensor *stepped(talc_device *device, const talc_optimizer_options *options)
{
    owned_module *line = talc_nn_linear(&(talc_linear_layer){
        .in_features = 1, .out_features = 1, .no_bias = true, .dtype = TALC_F64 });
    talc_module_to(line, device);
    talc_fill(talc_module_find(line, "weight"), 0);
    owned_optimizer *optimizer = talc_optimizer_new(line, options);
    talc_backward(talc_forward(line, talc_ones(device, TALC_F64, TALC_DIMS(1, 1))));
    if (optimizer != NULL)
        talc_optimizer_step(optimizer);
    talc_tensor *weight = talc_clone(talc_detach(talc_module_find(line, "weight")));
    return weight;
}

/* The elements, by hand; none where it is refused. In the environment that stood here before. */
static void assert_elements(const char *what, const talc_tensor *y, size_t count,
                            const double *expected)
{
    const talc_fenv caller = talc_fenv_enter();
    cr_assert((y != NULL) == (count > 0) && talc_failed() == (count == 0), "%s: %s", what,
              talc_failed() ? talc_error_message() : "not refused");
    talc_error_clear();
    double got[4] = { 0 };
    if (y != NULL)
        cr_assert(talc_to_host(talc_cast(y, TALC_F64), got, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
        cr_assert(fabs(got[i] - expected[i]) <= 1e-9 * fabs(expected[i]),
                  "%s: element %zu is %g, expected %g", what, i, got[i], expected[i]);
    talc_fenv_leave(caller);
}

#define assert_is(y, ...)                                                                          \
    assert_elements(#y, y, sizeof(double[]){ __VA_ARGS__ } / sizeof(double),                       \
                    (const double[]){ __VA_ARGS__ })
#define assert_refused(y) assert_elements(#y, y, 0, NULL)

static void use_tiny_numbers(void)
{
    talc_device *device = tested_device();
    const double root = sqrt(0.5);
    assert_is(talc_equal_scalar(counts(TALC_U8), 1e-320), 0, 0, 0);
    assert_is(talc_not_equal_scalar(counts(TALC_I64), TINY), 1, 1, 1);
    assert_is(talc_less_scalar(counts(TALC_U8), TINY), 1, 0, 0);
    assert_is(talc_less_equal_scalar(counts(TALC_I32), -TINY), 0, 0, 0);
    assert_is(talc_greater_scalar(counts(TALC_U8), -TINY), 1, 1, 1);
    assert_is(talc_greater_equal_scalar(counts(TALC_I64), TINY), 0, 1, 1);
    assert_is(talc_clamp(counts(TALC_I32), TINY, 2), 1, 1, 2);
    assert_refused(talc_clamp(counts(TALC_F64), TINY, 0));
    assert_refused(talc_hardtanh(counts(TALC_F64), TINY, 0));
    assert_refused(talc_add_scalar(counts(TALC_U8), TINY));
    assert_refused(talc_full(device, TALC_U8, TALC_DIMS(2), TINY));
    assert_refused(talc_masked_fill(counts(TALC_I32), counts(TALC_U8), TINY));
    const talc_pad_options border = { .padding = { 1, 0 }, .value = TINY };
    assert_refused(talc_pad(counts(TALC_U8), &border));
    assert_is(talc_pad(counts(TALC_F64), &border), TINY, 0, 1, 2);
    const talc_batch_norm2d_options batch = { .training = true, .eps = TINY };
    assert_is(talc_batch_norm2d(spread(TALC_DIMS(2, 1, 1, 1)), NULL, NULL, NULL, NULL, &batch),
              -root, root);
    const talc_norm_options layer = { .eps = TINY };
    assert_is(talc_layer_norm(spread(TALC_DIMS(2)), TALC_DIMS(2), NULL, NULL, &layer), -root, root);
    const talc_local_response_norm_options alpha = { .alpha = TINY }, beta = { .beta = TINY };
    assert_is(talc_local_response_norm(channel_of(1e154), 1, &alpha), 1e154 * pow(1.01, -0.75));
    assert_is(talc_local_response_norm(channel_of(7), 1, &beta), 7);
    assert_is(huber_of_one(TINY), TINY);
    assert_refused(
        talc_smooth_l1_loss(counts(TALC_F64), counts(TALC_F64), -TINY, TALC_REDUCTION_SUM));
    assert_refused(talc_dropout(counts(TALC_F64), -TINY, true));
    assert_refused(talc_var(counts(TALC_F64), TALC_SCALAR, -TINY, false));
    assert_is(talc_uniform(device, TALC_F64, TALC_DIMS(1), 5e-324, 1e-323), 5e-324);
    assert_refused(talc_normal(device, TALC_F64, TALC_DIMS(1), 0, -TINY));
    assert_is(stepped(device, &(talc_optimizer_options){ .lr = TINY }), -TINY);
    assert_refused(
        stepped(device, &(talc_optimizer_options){ .kind = TALC_ADAM, .momentum = TINY }));
    cr_assert(talc_nn_dropout(-TINY) == NULL);
    talc_error_clear();
    talc_dataset *digits = talc_dataset_digits(2, 3); /* of one channel */
    const talc_loader_options of_two = { .device = device, .deviation = { 1, TINY } };
    cr_assert(talc_loader_new(digits, &of_two) == NULL);
    talc_error_clear();
    talc_dataset_free(digits);
}

Test(fenv, numbers_that_flushing_takes_for_0)
{
    const talc_fenv own = talc_fenv_now();
    use_tiny_numbers();
    for (int caller = 0; caller < CALLERS; caller++) {
        become(caller);
        use_tiny_numbers();
        assert_and_leave("tiny numbers", caller, own);
    }
}

enum { NUMBERS = 4000 };

/* What a program computes from its seed on: data, initial weights, losses, gradients, rates,
 * updates. Returns how many numbers. */
static int train(talc_device *device, double numbers[NUMBERS])
{
    int count = 0;
    owned_scope *scope = talc_scope_enter();
    talc_manual_seed(5);
    owned_dataset *digits = talc_dataset_digits(12, 3);
    double mean[4], deviation[4];
    cr_assert(talc_dataset_statistics(digits, mean, deviation));
    owned_loader *loader =
        talc_loader_new(digits, &(talc_loader_options){ .device = device,
                                                        .batch = 4,
                                                        .dtype = TALC_F64,
                                                        .shuffle = true,
                                                        .mean = { mean[0] },
                                                        .deviation = { deviation[0] } });
    owned_module *net =
        TALC_SEQUENTIAL(CONV2D(.in_channels = 1, .out_channels = 3, .kernel = { 5, 5 },
                               .stride = { 3, 3 }, .dtype = TALC_F64),
                        BATCH_NORM2D(.channels = 3, .dtype = TALC_F64), talc_nn_gelu(),
                        talc_nn_dropout(0.45), talc_nn_flatten(),
                        talc_nn_linear(&(talc_linear_layer){
                            .in_features = 192, .out_features = 10, .dtype = TALC_F64 }));
    cr_assert(talc_module_to(net, device));
    owned_optimizer *adam =
        talc_optimizer_new(net, &(talc_optimizer_options){ .kind = TALC_ADAMW });
    cr_assert(talc_optimizer_schedule(
        adam, &(talc_schedule){ .kind = TALC_SCHEDULE_COSINE, .steps = 7 }));
    talc_batch batch;
    cr_assert(talc_loader_start(loader, 0));
    while (talc_loader_next(loader, &batch)) {
        talc_tensor *y = talc_forward(net, batch.images);
        const talc_tensor *loss =
            talc_add(talc_cross_entropy(y, batch.labels), talc_var(y, TALC_SCALAR, 1, false));
        talc_optimizer_zero_grad(adam);
        talc_backward(loss);
        numbers[count++] = talc_item(loss);
        numbers[count++] = talc_item(talc_optimizer_clip(adam, 0.7));
        numbers[count++] = talc_optimizer_rate(adam, 0);
        talc_optimizer_step(adam);
    }
    static const char *const names[] = { "0.weight", "0.bias", "1.running_var", "5.weight",
                                         "5.bias" };
    for (int i = 0; i < 5; i++) {
        const talc_tensor *values = talc_module_find(net, names[i]);
        cr_assert(values != NULL && count + talc_numel(values) <= NUMBERS, "%s: %s", names[i],
                  talc_error_message());
        cr_assert(talc_to_host(values, numbers + count, talc_nbytes(values)));
        count += (int)talc_numel(values);
    }
    assert_no_failure();
    return count;
}

Test(fenv, a_training_program)
{
    talc_device *device = tested_device();
    const talc_fenv own = talc_fenv_now();
    owned_double *expected = malloc(NUMBERS * sizeof *expected),
                 *got = malloc(NUMBERS * sizeof *got);
    const int count = train(device, expected);
    for (int caller = 0; caller < CALLERS; caller++) {
        become(caller);
        const int made = train(device, got);
        assert_and_leave("training", caller, own);
        for (int i = 0; i < count; i++)
            cr_assert(made == count && memcmp(&got[i], &expected[i], sizeof *expected) == 0,
                      "'%s': number %d is %.17g, expected %.17g", caller_names[caller], i, got[i],
                      expected[i]);
    }
}

/* Numbers and judgements. */
Test(fenv, what_is_printed_and_checked)
{
    static const char *const problems[] = { "n2c3h9w7o4k3x3p1x1", "n2c3h9w7o4k3x3p1x1_dw_f64",
                                            "softmax:6x10@1", "upsample2d:n1c2h3w5f7x3_bilinear" };
    const talc_fenv own = talc_fenv_now();
    char *text[2];
    size_t bytes;
    for (int foreign = 0; foreign < 2; foreign++) {
        FILE *file = open_memstream(&text[foreign], &bytes);
        owned_check *check = talc_check_new(&(talc_check_options){ .device = tested_device() });
        if (foreign)
            become(FOREIGN);
        const talc_tensor *x =
            talc_div_scalar(talc_arange(tested_device(), TALC_F64, 0, 40, 0.1), 3);
        cr_assert(talc_print(file, x));
        for (int i = 0; i < 4; i++)
            cr_assert(talc_check_problem(check, problems[i]), "%s", talc_error_message());
        talc_check_print(file, check);
        if (foreign)
            assert_and_leave("printing", FOREIGN, own);
        cr_assert(talc_check_passed(check));
        fclose(file);
    }
    cr_assert(strcmp(text[0], text[1]) == 0, "%s\ninstead of\n%s", text[1], text[0]);
    free(text[0]);
    free(text[1]);
}
