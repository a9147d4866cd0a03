/* Losses against PyTorch's numbers and float64 oracles: reductions, weights, ignored samples,
 * views, large logits. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static talc_tensor *from(talc_dims dims, const double *values, talc_dtype dtype)
{
    return talc_cast(talc_from_host(tested_device(), TALC_F64, dims, values), dtype);
}

/* (0 .. 11) / 8 - 0.6 and (0, 5, 10, 3, ...) / 11, the operands for which PyTorch was asked. */
static talc_tensor *predictions(talc_dtype dtype)
{
    double values[12];
    for (int i = 0; i < 12; i++)
        values[i] = i / 8.0 - 0.6;
    return from(TALC_DIMS(3, 4), values, dtype);
}

static talc_tensor *targets(talc_dtype dtype)
{
    double values[12];
    for (int i = 0; i < 12; i++)
        values[i] = i * 5 % 12 / 11.0;
    return from(TALC_DIMS(3, 4), values, dtype);
}

static talc_tensor *weights(talc_dtype dtype)
{
    return from(TALC_DIMS(4), (const double[]){ 1, 2, 3, 0.5 }, dtype);
}

static talc_tensor *sample_weights(talc_dtype dtype)
{
    return from(TALC_DIMS(3, 1), (const double[]){ 1, 2, 0.5 }, dtype);
}

static talc_tensor *labels(int64_t a, int64_t b, int64_t c)
{
    return talc_from_host(tested_device(), TALC_I64, TALC_DIMS(3), (const int64_t[]){ a, b, c });
}

static void assert_near(const char *name, talc_tensor *y, double expected)
{
    cr_assert(y != NULL, "%s: %s", name, talc_error_message());
    const double got = talc_item(y), bound = y->dtype == TALC_F32 ? 1e-6 : 1e-14;
    cr_assert(fabs(got - expected) <= bound * (1 + fabs(expected)), "%s is %.17g instead of %.17g",
              name, got, expected);
}

Test(losses, agree_with_pytorch)
{
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        const talc_tensor *x = predictions((talc_dtype)dtype), *t = targets((talc_dtype)dtype);
        const talc_tensor *p = weights((talc_dtype)dtype);
        const talc_binary_cross_entropy_options weighted = {
            TALC_REDUCTION_SUM, .weight = sample_weights((talc_dtype)dtype), .pos_weight = p
        };
        const talc_nll_loss_options by_class = { .weight = p };
        const talc_nll_loss_options sum = { TALC_REDUCTION_SUM, .weight = p };
        const talc_nll_loss_options ignores = { .ignore_index = TALC_ZERO, .weight = p };
        assert_near("mse", talc_mse_loss(x, t, TALC_REDUCTION_MEAN), 0.39612689393939388);
        assert_near("mse, sum", talc_mse_loss(x, t, TALC_REDUCTION_SUM), 4.7535227272727267);
        assert_near("l1", talc_l1_loss(x, t, TALC_REDUCTION_MEAN), 0.51969696969696966);
        assert_near("huber", talc_huber_loss(x, t, 0.6, TALC_REDUCTION_MEAN), 0.17263515840220381);
        assert_near("smooth", talc_smooth_l1_loss(x, t, 0.6, TALC_REDUCTION_MEAN),
                    0.2877252640036731);
        assert_near("smooth, beta 0", talc_smooth_l1_loss(x, t, 0, TALC_REDUCTION_MEAN),
                    0.51969696969696966);
        assert_near("logits", talc_binary_cross_entropy_with_logits(x, t, NULL),
                    0.68766657098015793);
        assert_near("logits, weighted", talc_binary_cross_entropy_with_logits(x, t, &weighted),
                    12.507479486877344);
        assert_near("nll", talc_nll_loss(x, labels(3, -100, 0), NULL), -0.0875);
        assert_near("nll, weighted", talc_nll_loss(x, labels(3, 1, 0), &by_class),
                    -0.096428571428571447);
        assert_near("nll, sum", talc_nll_loss(x, labels(3, 1, 0), &sum), -0.3375);
        assert_near("nll, class 0 ignored", talc_nll_loss(x, labels(3, 1, 0), &ignores), 0.025);
    }
}

Test(losses, none_keeps_the_shape)
{
    const talc_tensor *x = predictions(TALC_F64), *t = targets(TALC_F64);
    const talc_tensor *y = talc_mse_loss(x, t, TALC_REDUCTION_NONE);
    assert_no_failure();
    cr_assert(talc_same_dims(y, x), "mse_loss has another shape");
    double got[12];
    cr_assert(talc_to_host(y, got, sizeof got), "%s", talc_error_message());
    for (int i = 0; i < 12; i++) {
        const double d = i / 8.0 - 0.6 - i * 5 % 12 / 11.0;
        cr_assert(fabs(got[i] - d * d) < 1e-15, "element %d is %g", i, got[i]);
    }
}

/* log(1 + exp(x)) where the prediction is wrong, and what is far below 1 where it is right. */
Test(losses, logits_of_any_size_are_accurate)
{
    const double x[] = { -700, -50, -20, 0, 20, 50, 700 };
    for (int label = 0; label <= 1; label++)
        for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
            const talc_tensor *logits = from(TALC_DIMS(7), x, (talc_dtype)dtype);
            const talc_tensor *target =
                talc_full(tested_device(), (talc_dtype)dtype, TALC_DIMS(7), label);
            const talc_binary_cross_entropy_options each = { TALC_REDUCTION_NONE, NULL, NULL };
            const talc_tensor *y =
                talc_cast(talc_binary_cross_entropy_with_logits(logits, target, &each), TALC_F64);
            double got[7];
            cr_assert(talc_to_host(y, got, sizeof got), "%s", talc_error_message());
            for (int i = 0; i < 7; i++) {
                const double from_label = label == 1 ? -x[i] : x[i];
                const double expected =
                    from_label > 0 ? from_label + log1p(exp(-from_label)) : log1p(exp(from_label));
                const double bound = dtype == TALC_F32 ? 0x1p-22 : 0x1p-50;
                cr_assert(fabs(got[i] - expected) <=
                              bound * expected + (dtype == TALC_F32 ? 1e-37 : 1e-300),
                          "%g of label %d is %.17g instead of %.17g", x[i], label, got[i],
                          expected);
            }
        }
}

// ---- Labels -------------------------------------------------------------------------------------

Test(losses, nothing_that_counts_gives_nan_as_a_mean_and_no_gradient)
{
    talc_tensor *x = predictions(TALC_F64);
    talc_require_grad(x, true);
    talc_tensor *mean = talc_nll_loss(x, labels(-100, -100, -100), NULL);
    cr_assert(isnan(talc_item(mean)) && talc_backward(mean), "%s", talc_error_message());
    double gradient[12];
    cr_assert(talc_to_host(talc_grad(x), gradient, sizeof gradient), "%s", talc_error_message());
    for (int i = 0; i < 12; i++)
        cr_assert(gradient[i] == 0, "element %d is %g", i, gradient[i]);
    const talc_tensor *none = talc_zeros(tested_device(), TALC_F64, TALC_DIMS(0, 4));
    const talc_tensor *unlabelled = talc_zeros(tested_device(), TALC_I64, TALC_DIMS(0));
    cr_assert(isnan(talc_item(talc_nll_loss(none, unlabelled, NULL))), "a mean of nothing");
    cr_assert(isnan(talc_item(talc_mse_loss(none, none, TALC_REDUCTION_MEAN))), "mse of nothing");
    cr_assert(talc_item(talc_mse_loss(none, none, TALC_REDUCTION_SUM)) == 0, "a sum of nothing");
}

Test(losses, a_wrong_label_is_named_and_read_by_nothing)
{
    const int64_t wrong[] = { 4, -1, INT64_MAX, INT64_MIN };
    for (int i = 0; i < 4; i++) {
        const talc_tensor *y = talc_nll_loss(predictions(TALC_F32), labels(0, wrong[i], 1), NULL);
        char expected[96];
        snprintf(expected, sizeof expected,
                 "nll_loss: element 1 of labels is %lld, there are 4 classes", (long long)wrong[i]);
        cr_assert(y == NULL || !talc_device_synchronize(y->device), "label %d passes", i);
        cr_assert(strcmp(talc_error_message(), expected) == 0, "%s", talc_error_message());
        talc_error_clear();
    }
}
