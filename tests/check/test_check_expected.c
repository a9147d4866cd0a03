/// What the check of models takes for exact, and how far it lets a difference of the inputs go.
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "check/engine/expected.h"
#include "check/model/trace.h"
#include "tensor/memory.h"
#include "tensor/observe.h"

#include <math.h>
#include <string.h>

// ---- By hand ------------------------------------------------------------------------------------

/* The most tensors that an op of these tests takes. */
enum { INPUTS = 16 };

typedef struct captured {
    talc_observer base;
    const double *off; /* of the first input; NULL: none */
    const double *off_second;
    int count;
    double value[16], S[16], spread[16], extra[16], K;
    talc_activation activation;
} captured;

static double *copy_of(const double *values, int64_t count)
{
    if (values == NULL)
        return NULL;
    double *copy = talc_memory_new((size_t)count * sizeof *copy, "test");
    memcpy(copy, values, (size_t)count * sizeof *copy);
    return copy;
}

static bool ran_of(const talc_observation *observation, check_ran *ran)
{
    static _Thread_local check_array inputs[INPUTS];
    double accumulated = 0;
    *ran = (check_ran){ observation->op,
                        observation->algorithm,
                        observation->problem,
                        observation->count,
                        inputs,
                        { 0 } };
    cr_assert(observation->count <= INPUTS);
    for (int i = 0; i < observation->count; i++)
        cr_assert(talc_check_array_of(NULL, observation->inputs[i], &inputs[i], &accumulated));
    return talc_check_array_of(NULL, observation->output, &ran->output, &accumulated);
}

static void ran_free(check_ran *ran)
{
    for (int i = 0; i < ran->count; i++)
        talc_check_array_free(&ran->inputs[i]);
    talc_check_array_free(&ran->output);
}

static void capture(talc_observer *observer, const talc_observation *observation)
{
    captured *self = (captured *)observer;
    check_ran ran;
    check_model_expected expected;
    cr_assert(ran_of(observation, &ran));
    ran.inputs[0].off = copy_of(self->off, ran.inputs[0].count);
    if (ran.count > 1)
        ran.inputs[1].off = copy_of(self->off_second, ran.inputs[1].count);
    cr_assert(talc_check_model_expected(&ran, &expected), "%s", talc_error_message());
    self->count = (int)ran.output.count;
    for (int i = 0; i < self->count && i < 16; i++) {
        self->value[i] = (double)expected.element[i].value;
        self->S[i] = expected.element[i].S;
        self->spread[i] = expected.spread[i];
        self->extra[i] = expected.element[i].extra;
    }
    self->K = expected.element[0].K;
    self->activation = expected.activation;
    talc_check_model_expected_free(&expected);
    ran_free(&ran);
}

static talc_tensor *numbers(talc_dims dims, const float *values)
{
    return talc_from_host(cpu_device(), TALC_F32, dims, values);
}

#define NUMBERS(dims, ...) numbers(dims, (const float[]){ __VA_ARGS__ })

static void assert_captured(const captured *got, const char *what, int count, const double *value,
                            const double *S, const double *spread)
{
    cr_assert(got->count == count, "%s: %d elements", what, got->count);
    for (int i = 0; i < count; i++) {
        cr_assert(fabs(got->value[i] - value[i]) < 1e-12, "%s: value %d is %.15g", what, i,
                  got->value[i]);
        cr_assert(S == NULL || fabs(got->S[i] - S[i]) < 1e-12, "%s: S %d is %.15g", what, i,
                  got->S[i]);
        cr_assert(got->spread[i] == spread[i] || fabs(got->spread[i] - spread[i]) < 1e-12,
                  "%s: spread %d is %.15g", what, i, got->spread[i]);
    }
}

#define ASSERT_CAPTURED(got, what, count, value, S, ...)                                           \
    assert_captured(got, what, count, value, S, (const double[]){ __VA_ARGS__ })
#define LIST(...) ((const double[]){ __VA_ARGS__ })

Test(check_expected, sums_by_hand)
{
    captured c = { .base = { capture }, .off = LIST(0.5, 0, 0.25), .off_second = LIST(0, 1) };
    talc_tensor *x = NUMBERS(TALC_DIMS(1, 1, 1, 3), 1, -2, 3), *bias = NUMBERS(TALC_DIMS(1), -10);
    talc_observe(&c.base);
    talc_conv2d(x, NUMBERS(TALC_DIMS(1, 1, 1, 2), 2, -3), bias, NULL);
    /* 2 1 + 3 2 - 10, -2 2 - 3 3 - 10; off: 2 0.5 + |-2| 1, 2 0 + 3 0.25 + 1 (3 + 0.25) */
    ASSERT_CAPTURED(&c, "conv2d", 2, LIST(-2, -23), LIST(18, 23), 3, 4);
    cr_assert(c.K == 2 && c.activation == TALC_ACTIVATION_NONE);

    c.off = LIST(1, 0.5);
    c.off_second = LIST(0, 0, 2, 0);
    talc_linear(NUMBERS(TALC_DIMS(2), 3, -1), NUMBERS(TALC_DIMS(2, 2), 1, -2, 4, 0), NULL,
                &(talc_linear_options){ .activation = TALC_ACTIVATION_RELU });
    ASSERT_CAPTURED(&c, "linear", 2, LIST(5, 12), LIST(5, 12), 2, 12);
    cr_assert(c.K == 2 && c.activation == TALC_ACTIVATION_RELU);

    talc_matmul(NUMBERS(TALC_DIMS(1, 2), 3, -1), NUMBERS(TALC_DIMS(2, 2), 1, -2, 4, 0));
    ASSERT_CAPTURED(&c, "matmul", 2, LIST(-1, -6), LIST(7, 6), 6, 2);

    c.off = LIST(0.5, 0, 0.25, 1);
    c.off_second = NULL;
    x = NUMBERS(TALC_DIMS(1, 1, 2, 2), 1, -7, 3, 2);
    talc_max_pool2d(x, &(talc_pool2d_options){ .kernel = { 2, 1 } });
    ASSERT_CAPTURED(&c, "max_pool2d", 2, LIST(3, 2), NULL, 0.5, 1);
    talc_avg_pool2d(x, &(talc_pool2d_options){ .kernel = { 1, 2 } });
    ASSERT_CAPTURED(&c, "avg_pool2d", 2, LIST(-3, 2.5), LIST(4, 2.5), 0.25, 0.625);
    talc_mean(x, TALC_DIMS(2), false);
    ASSERT_CAPTURED(&c, "mean", 2, LIST(2, -2.5), LIST(2, 4.5), 0.375, 0.5);
    talc_max(x, TALC_SCALAR, false);
    ASSERT_CAPTURED(&c, "max", 1, LIST(3), NULL, 1);
    talc_argmax(x, TALC_SCALAR, false); /* 2 + 1 passes 3 - 0.25 */
    ASSERT_CAPTURED(&c, "argmax", 1, LIST(2), NULL, INFINITY);
    c.off = LIST(0.5, 0, 0.25, 0.25);
    talc_argmax(x, TALC_SCALAR, false);
    ASSERT_CAPTURED(&c, "argmax without a rival", 1, LIST(2), NULL, 0);
    talc_observe(NULL);
}

Test(check_expected, elementwise_by_hand)
{
    captured c = { .base = { capture }, .off = LIST(0.5, 0), .off_second = LIST(0.25, 1) };
    talc_tensor *a = NUMBERS(TALC_DIMS(2), 3, -6), *b = NUMBERS(TALC_DIMS(2), 1.25, -2);
    talc_observe(&c.base);
    talc_add(a, b);
    ASSERT_CAPTURED(&c, "add", 2, LIST(4.25, -8), NULL, 0.75, 1);
    cr_assert(c.extra[0] == 4.25 * 0x1p-24);
    talc_sub(a, b);
    ASSERT_CAPTURED(&c, "sub", 2, LIST(1.75, -4), NULL, 0.75, 1);
    talc_mul(a, b);
    ASSERT_CAPTURED(&c, "mul", 2, LIST(3.75, 12), NULL, 3 * 0.25 + 1.25 * 0.5 + 0.125, 6);
    talc_div(a, b);
    ASSERT_CAPTURED(&c, "div", 2, LIST(2.4, 3), NULL, (0.5 + 2.4 * 0.25) / 1, 3);
    talc_mul_scalar(a, -2);
    ASSERT_CAPTURED(&c, "mul_scalar", 2, LIST(-6, 12), NULL, 1, 0);
    talc_neg(a);
    ASSERT_CAPTURED(&c, "neg", 2, LIST(-3, 6), NULL, 0.5, 0);
    talc_cast(a, TALC_I32);
    ASSERT_CAPTURED(&c, "cast", 2, LIST(3, -6), NULL, 1.5, 0);
    talc_concat((const talc_tensor *[]){ a, b }, 2, 0);
    ASSERT_CAPTURED(&c, "concat", 4, LIST(3, -6, 1.25, -2), NULL, 0.5, 0, 0.25, 1);
    c.off = LIST(0.5, 0.125);
    talc_softmax(a, 0);
    const double p = 1 / (1 + exp(-9));
    ASSERT_CAPTURED(&c, "softmax", 2, LIST(p, 1 - p), NULL, p * expm1(1), (1 - p) * expm1(1));
    talc_log_softmax(a, 0);
    ASSERT_CAPTURED(&c, "log_softmax", 2, LIST(log(p), log(1 - p)), NULL, 1, 0.625);
    talc_cumsum(a, 0);
    ASSERT_CAPTURED(&c, "cumsum", 2, LIST(3, -3), LIST(3, 9), 0.5, 0.625);
    talc_cumprod(a, 0);
    ASSERT_CAPTURED(&c, "cumprod", 2, LIST(3, -18), LIST(3, 18), 0.5, 3.5 * 6.125 - 18);
    talc_pad(a, &(talc_pad_options){ .padding = { 1, 2 }, .value = 7 });
    ASSERT_CAPTURED(&c, "pad", 5, LIST(7, 3, -6, 7, 7), NULL, 0, 0.5, 0.125, 0, 0);
    talc_upsample2d(talc_reshape(a, TALC_DIMS(1, 1, 2)),
                    &(talc_upsample2d_options){ .size = { 1, 3 }, .mode = TALC_UPSAMPLE_BILINEAR });
    ASSERT_CAPTURED(&c, "upsample2d", 3, LIST(3, -1.5, -6), LIST(3, 4.5, 6), 0.5, 0.3125, 0.125);
    talc_observe(NULL);
}

static talc_tensor *indices(talc_dims dims, const int64_t *values)
{
    return talc_from_host(cpu_device(), TALC_I64, dims, values);
}

#define INDICES(dims, ...) indices(dims, (const int64_t[]){ __VA_ARGS__ })

/* What is picked moves as it does itself, and by anything where another may be picked. */
Test(check_expected, picked_by_hand)
{
    captured c = { .base = { capture }, .off = LIST(0.5, 0, 0.25, 1, 2, 4) };
    talc_tensor *x = NUMBERS(TALC_DIMS(2, 3), 1, -2, 3, -4, 5, 6);
    talc_observe(&c.base);
    talc_gather(x, 1, INDICES(TALC_DIMS(2, 2), 2, 0, 1, 1));
    ASSERT_CAPTURED(&c, "gather", 4, LIST(3, 1, 5, 5), LIST(0, 0, 0, 0), 0.25, 0.5, 2, 2);
    talc_gather(x, 0, INDICES(TALC_DIMS(1, 2), 1, 0));
    ASSERT_CAPTURED(&c, "gather of rows", 2, LIST(-4, -2), NULL, 1, 0);
    c.off_second = LIST(0, 1);
    talc_index_select(x, 1, INDICES(TALC_DIMS(2), 2, 0));
    ASSERT_CAPTURED(&c, "index_select", 4, LIST(3, 1, 6, -4), NULL, 0.25, INFINITY, 4, INFINITY);
    talc_index_select(x, 0, INDICES(TALC_SCALAR, 1));
    ASSERT_CAPTURED(&c, "index_select of one", 3, LIST(-4, 5, 6), NULL, 1, 2, 4);
    c.off_second = NULL;
    talc_gather(talc_full(cpu_device(), TALC_F32, TALC_SCALAR, 7), 0, INDICES(TALC_SCALAR, 0));
    ASSERT_CAPTURED(&c, "gather of a scalar", 1, LIST(7), NULL, 0.5);

    c.off = LIST(0, 0, 0, 0, 1, 0);
    c.off_second = LIST(0.5, 0.25, 2);
    talc_tensor *condition = talc_cast(NUMBERS(TALC_DIMS(2, 3), 1, 0, 255, 0, 1, 0), TALC_U8);
    talc_where(condition, NUMBERS(TALC_DIMS(3), 1, 2, -3), NUMBERS(TALC_DIMS(2, 1), 8, 9));
    ASSERT_CAPTURED(&c, "where", 6, LIST(1, 8, -3, 9, 2, 9), LIST(0, 0, 0, 0, 0, 0), 0.5, 0, 2, 0,
                    INFINITY, 0);

    c.off = LIST(0.5, 0, 0.25, 1, 2, 4);
    c.off_second = LIST(0, 0);
    const talc_nll_loss_options none = { .reduction = TALC_REDUCTION_NONE };
    talc_nll_loss(x, INDICES(TALC_DIMS(2), 2, -100), &none);
    ASSERT_CAPTURED(&c, "nll_loss", 2, LIST(-3, 0), NULL, 0.25, 0);
    c.off_second = LIST(0, 1);
    talc_nll_loss(x, INDICES(TALC_DIMS(2), 0, 1),
                  &(talc_nll_loss_options){ .reduction = TALC_REDUCTION_NONE,
                                            .weight = NUMBERS(TALC_DIMS(3), 4, 2, 1) });
    ASSERT_CAPTURED(&c, "nll_loss with weights", 2, LIST(-4, -10), NULL, 2, INFINITY);
    talc_observe(NULL);
}

Test(check_expected, batch_norm_by_hand)
{
    captured c = { .base = { capture }, .off = LIST(0.5, 0, 0.25, 1) };
    talc_tensor *x = NUMBERS(TALC_DIMS(1, 2, 1, 2), 1, 3, -2, 6);
    talc_tensor *weight = NUMBERS(TALC_DIMS(2), -3, 1), *bias = NUMBERS(TALC_DIMS(2), 0, 5);
    talc_tensor *mean = NUMBERS(TALC_DIMS(2), 2, 0), *var = NUMBERS(TALC_DIMS(2), 3, 15);
    talc_observe(&c.base);
    talc_batch_norm2d(x, weight, bias, mean, var, &(talc_batch_norm2d_options){ .eps = 1 });
    ASSERT_CAPTURED(&c, "batch_norm2d", 4, LIST(1.5, -1.5, 4.5, 6.5), LIST(1.5, 1.5, 5.5, 6.5),
                    0.75, 0, 0.0625, 0.25);
    c.off = NULL;
    talc_batch_norm2d(x, NULL, NULL, NULL, NULL,
                      &(talc_batch_norm2d_options){ .training = true, .eps = TALC_ZERO });
    ASSERT_CAPTURED(&c, "training", 4, LIST(-1, 1, -1, 1), LIST(3, 3, 1.5, 1.5), 0, 0, 0, 0);
    /* The means are off by 0.25 and 0.625, the deviations by 0.75, 0.25 and 0.875, 1.625. */
    c.off = LIST(0.5, 0, 0.25, 1);
    const double s0 = sqrt((0.75 * 0.75 + 0.25 * 0.25) / 2),
                 s1 = sqrt((0.875 * 0.875 + 1.625 * 1.625) / 2) / 4;
    talc_batch_norm2d(x, NULL, NULL, NULL, NULL,
                      &(talc_batch_norm2d_options){ .training = true, .eps = TALC_ZERO });
    ASSERT_CAPTURED(&c, "training that is off", 4, LIST(-1, 1, -1, 1), NULL, (0.75 + s0) / (1 - s0),
                    (0.25 + s0) / (1 - s0), (0.875 / 4 + s1) / (1 - s1),
                    (1.625 / 4 + s1) / (1 - s1));
    talc_observe(NULL);
}

// ---- Every op -----------------------------------------------------------------------------------

/* Moves the inputs of each op at random by as much as they may be off: the exact result must move
 * no further than the spread says; and the furthest that it moved of all tries tells that the
 * spread is not far too large. */
typedef struct shaken {
    talc_observer base;
    int ops;
    uint32_t state;
} shaken;

static double draw(shaken *self)
{
    self->state = self->state * 1664525U + 1013904223U;
    return (double)(self->state >> 8) / 8388608.0 - 1;
}

/* Where two inputs are one tensor, they may not move apart more than each is off, which is all that
 * counts here. */
static void shake(shaken *self, check_ran *ran, double *const original[], bool to_ends)
{
    for (int i = 0; i < ran->count; i++)
        for (int64_t j = 0; j < ran->inputs[i].count; j++) {
            double by = draw(self);
            by = to_ends ? (by < 0 ? -1 : 1) : by;
            const double at = original[i][j], off = ran->inputs[i].off[j];
            float moved = (float)(at + by * off); /* a number that the tensor could hold */
            if (fabs((double)moved - at) > off)
                moved = nextafterf(moved, (float)at);
            ran->inputs[i].of[j] = ran->inputs[i].dtype == TALC_F32 ? (double)moved : at + by * off;
        }
}

static double tightness(shaken *self, check_ran *ran, const check_model_expected *expected)
{
    double *original[INPUTS];
    for (int i = 0; i < ran->count; i++)
        original[i] = copy_of(ran->inputs[i].of, ran->inputs[i].count);
    double furthest = 0;
    for (int round = 0; round < 40; round++) {
        shake(self, ran, original, round % 2 == 0);
        check_model_expected moved;
        cr_assert(talc_check_model_expected(ran, &moved));
        for (int64_t i = 0; i < ran->output.count; i++) {
            const double by = (double)fabsl(moved.element[i].value - expected->element[i].value);
            cr_assert(by <= expected->spread[i] * (1 + 1e-9) + 1e-12,
                      "%s: element %d moves by %g, spread %g", ran->op, (int)i, by,
                      expected->spread[i]);
            if (expected->spread[i] > 0)
                furthest = fmax(furthest, by / expected->spread[i]);
        }
        talc_check_model_expected_free(&moved);
    }
    for (int i = 0; i < ran->count; i++)
        talc_memory_free(original[i]);
    return furthest;
}

static void observe_shaken(talc_observer *observer, const talc_observation *observation)
{
    shaken *self = (shaken *)observer;
    check_ran ran;
    check_model_expected expected;
    if (!talc_dtype_is_float(observation->output->dtype) && strncmp(observation->op, "arg", 3) != 0)
        return;
    cr_assert(ran_of(observation, &ran));
    for (int i = 0; i < ran.count; i++) {
        ran.inputs[i].off =
            talc_memory_new((size_t)ran.inputs[i].count * sizeof(double) + 1, "off");
        for (int64_t j = 0; j < ran.inputs[i].count; j++) {
            const double size = fmax(1, fabs(ran.inputs[i].of[j]));
            ran.inputs[i].off[j] =
                talc_dtype_is_float(ran.inputs[i].dtype) ? 1e-3 * size * fabs(draw(self)) : 0;
        }
    }
    cr_assert(talc_check_model_expected(&ran, &expected), "%s", talc_error_message());
    const double tight = tightness(self, &ran, &expected);
    /* In a mean over many losses or squares, moves of random signs meet each other. */
    const bool of_many =
        (strcmp(ran.op, "cross_entropy") == 0 &&
         ((const talc_cross_entropy_problem *)ran.problem)->reduction != TALC_REDUCTION_NONE) ||
        (strcmp(ran.op, "var") == 0 && ran.inputs[0].count > 100);
    /* Whether a comparison holds, and where a step is, depends on the few elements that are
     * close. */
    const bool compares = strcmp(ran.op, "floor") == 0 || strcmp(ran.op, "ceil") == 0 ||
                          strcmp(ran.op, "round") == 0 || strcmp(ran.op, "sign") == 0 ||
                          strstr(ran.op, "less") != NULL || strstr(ran.op, "greater") != NULL ||
                          strstr(ran.op, "equal") != NULL;
    const bool loose = of_many || compares || strstr(ran.op, "max") != NULL ||
                       strstr(ran.op, "min") != NULL || strcmp(ran.op, "batch_norm2d") == 0;
    cr_assert(loose || tight > 0.3, "%s: no more than %g of the spread was seen", ran.op, tight);
    self->ops++;
    talc_check_model_expected_free(&expected);
    ran_free(&ran);
}

Test(check_expected, no_result_moves_further_than_its_spread)
{
    const op_inputs inputs = op_inputs_new(cpu_device());
    shaken s = { .base = { observe_shaken } };
    talc_observe(&s.base);
    for (const op_case *op = op_cases; op->name != NULL; op++) {
        s.state = 5; /* the same draws, whatever cases stand before it */
        op->run(&inputs);
    }
    talc_observe(NULL);
    assert_no_failure();
    cr_assert(s.ops > 30, "only %d ops", s.ops);
}

// ---- Options ------------------------------------------------------------------------------------

/* Options that the list of cases leaves out; every result goes through relu, so that a wrong note
 * of it shows. */
static talc_tensor *options_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_device *device = x->device;
    talc_tensor *weight = op_numbers(device, TALC_DIMS(4, 4, 3, 3), 2);
    talc_tensor *tall = op_numbers(device, TALC_DIMS(2, 1, 3, 5), 3);
    talc_tensor *y = talc_conv2d(x, weight, op_numbers(device, TALC_DIMS(4), 9),
                                 &(talc_conv2d_options){ .padding_same = true,
                                                         .dilation = { 2, 1 },
                                                         .padding_mode = TALC_PADDING_CIRCULAR,
                                                         .residual = x });
    talc_relu(y);
    talc_relu(talc_conv2d(y, weight, NULL,
                          &(talc_conv2d_options){ .padding = { 2, 1 },
                                                  .stride = { 2, 3 },
                                                  .padding_mode = TALC_PADDING_REPLICATE }));
    talc_relu(talc_avg_pool2d(y, &(talc_pool2d_options){ .kernel = { 3, 2 },
                                                         .padding = { 1, 1 },
                                                         .exclude_padding = true }));
    talc_relu(talc_avg_pool2d(
        y, &(talc_pool2d_options){
               .kernel = { 3, 2 }, .padding = { 1, 1 }, .ceil_mode = true, .stride = { 2, 3 } }));
    talc_relu(
        talc_avg_pool2d(y, &(talc_pool2d_options){ .kernel = { 2, 2 }, .divisor_override = 3 }));
    talc_relu(talc_max_pool2d(y, &(talc_pool2d_options){ .kernel = { 3, 3 },
                                                         .padding = { 1, 1 },
                                                         .dilation = { 2, 1 },
                                                         .stride = { 1, 2 } }));
    talc_relu(talc_matmul(tall, op_numbers(device, TALC_DIMS(4, 5, 2), 4)));
    talc_relu(talc_matmul(talc_select(talc_select(talc_select(tall, 0, 1), 0, 0), 0, 2),
                          op_numbers(device, TALC_DIMS(4, 5, 2), 5)));
    talc_relu(talc_matmul(tall, op_numbers(device, TALC_DIMS(5), 6)));
    talc_tensor *rows = talc_linear(tall, op_numbers(device, TALC_DIMS(5, 5), 7), NULL,
                                    &(talc_linear_options){ .residual = tall });
    talc_relu(talc_concat((const talc_tensor *[]){ rows, tall, rows }, 3, 2));
    talc_relu(talc_cast(talc_sum(talc_cast(talc_mul_scalar(rows, 9), TALC_I32), TALC_SCALAR, false),
                        TALC_F32));
    talc_copy(talc_slice(rows, 3, 0, 4, 1), talc_slice(rows, 3, 1, 5, 1)); /* they overlap */
    talc_copy(talc_select(rows, 3, 4), talc_to(talc_select(tall, 3, 1), device, TALC_F64));
    talc_tensor *padded = talc_zeros(device, TALC_F32, TALC_DIMS(2, 4, 9, 9));
    talc_copy(talc_slice(talc_slice(padded, 2, 1, 8, 1), 3, 2, 8, 1), y);
    return talc_concat(
        (const talc_tensor *[]){ talc_reshape(talc_relu(rows), TALC_DIMS(-1)),
                                 talc_reshape(talc_softmax(padded, 1), TALC_DIMS(-1)) },
        2, 0);
}

Test(check_expected, ops_with_their_options)
{
    static const talc_module_class options = { "Options", sizeof(talc_module),
                                               NULL,      options_forward,
                                               NULL,      NULL };
    owned_module *model = talc_module_new(&options, NULL);
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 4, 7, 6), 1);
    for (int i = 0; i < 2; i++) {
        owned_report *report = NULL;
        talc_check_model(model, x,
                         &(talc_check_model_options){
                             .device = i == 0 ? cpu_device() : fake_device(),
                             .reference_algorithm = "conv2d=reference,linear=reference" },
                         &report);
        assert_no_failure();
        if (!talc_check_model_passed(report))
            talc_check_model_print(stderr, report);
        cr_assert(talc_check_model_passed(report));
        int copies = 0, clones = 0;
        for (int j = 0; j < talc_check_model_count(report); j++) {
            copies += strcmp(talc_check_model_at(report, j)->op, "copy") == 0;
            clones += strcmp(talc_check_model_at(report, j)->op, "clone") == 0;
        }
        cr_assert(copies == 3 && clones == 1, "%d copies, %d clones", copies, clones);
    }
}

// ---- The observer -------------------------------------------------------------------------------

typedef struct counted {
    talc_observer base;
    int count;
    char last[32];
} counted;

static void count(talc_observer *observer, const talc_observation *observation)
{
    counted *self = (counted *)observer;
    self->count++;
    snprintf(self->last, sizeof self->last, "%s", observation->op);
    cr_assert(talc_observe(NULL) == NULL, "what an observer does is not observed");
    talc_release(talc_clone(observation->output));
}

/* Each op tells once, whatever it is made of, and not of what failed. */
Test(check_expected, an_op_is_observed_once)
{
    const op_inputs in = op_inputs_new(cpu_device());
    counted c = { .base = { count } };
    talc_tensor *transposed = talc_transpose(in.image, 2, 3);
    talc_observe(&c.base);
    talc_conv2d(transposed, in.weight, NULL, &(talc_conv2d_options){ .groups = 2 });
    cr_assert(c.count == 1 && strcmp(c.last, "conv2d") == 0, "%d, %s", c.count, c.last);
    talc_max_pool2d(transposed, &(talc_pool2d_options){ .kernel = { 2, 2 } });
    talc_concat((const talc_tensor *[]){ transposed, transposed }, 2, 0);
    talc_matmul(talc_expand(in.a, TALC_DIMS(2, 3, 5)), in.b);
    talc_linear(talc_slice(in.a, 1, 0, TALC_END, 2), talc_slice(in.a, 1, 0, TALC_END, 2), NULL,
                NULL);
    talc_batch_norm2d(transposed, NULL, NULL, in.mean, in.variance, NULL);
    cr_assert(c.count == 6, "%d", c.count);
    talc_contiguous(transposed);
    talc_copy(talc_slice(in.a, 0, 0, 1, 1), talc_slice(in.a, 0, 1, 2, 1));
    cr_assert(c.count == 8 && strcmp(c.last, "copy") == 0);
    talc_contiguous(in.a);
    talc_view(in.a, TALC_DIMS(15));
    talc_cast(in.a, TALC_F32);
    talc_item(talc_select(in.row, 0, 1));
    cr_assert(c.count == 8, "views tell nothing: %s", c.last);
    cr_assert(talc_conv2d(in.a, in.weight, NULL, NULL) == NULL && c.count == 8);
    talc_error_clear();
    cr_assert(talc_observe(NULL) == &c.base, "the observer stays");
}
