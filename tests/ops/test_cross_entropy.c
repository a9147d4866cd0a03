/// Cross entropy as a caller has it: PyTorch's numbers, what its labels may be, the gradient that
/// comes with the loss. The values of its algorithms are held by test_algorithms.c.
#include "tests/support/captured.h"
#include "tests/support/fake_device.h"
#include "tests/support/gpu.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "ops/cross_entropy.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct entropy_case {
    talc_dims x;
    talc_dtype dtype;
    bool transposed; /* logits are a view whose classes lie innermost or outermost */
    talc_cross_entropy_options options;
    double scale; /* of the logits; 0: 4 */
} entropy_case;

// clang-format off
#define DIMS1(a)          { 1, { a } }
#define DIMS2(a, b)       { 2, { a, b } }
#define DIMS4(a, b, c, d) { 4, { a, b, c, d } }

static const entropy_case entropy_cases[] = {
    { DIMS2(1, 1), TALC_F32, false, { 0 }, 0 },
    { DIMS2(7, 10), TALC_F32, false, { 0 }, 0 },
    { DIMS2(7, 10), TALC_F64, true, { .reduction = TALC_REDUCTION_SUM }, 0 },
    { DIMS2(300, 37), TALC_F32, true, { .label_smoothing = 0.3 }, 0 },
    { DIMS2(65, 1000), TALC_F32, false, { .reduction = TALC_REDUCTION_NONE, .label_smoothing = 1 }, 30 },
    { DIMS2(3, 20011), TALC_F64, false, { .reduction = TALC_REDUCTION_NONE }, 100 },
    { DIMS2(3001, 6), TALC_F32, false, { .ignore_index = 3 }, 0 },
    { DIMS1(9), TALC_F32, false, { .ignore_index = 4 }, 0 },
    { DIMS1(9), TALC_F64, false, { .reduction = TALC_REDUCTION_NONE }, 0 },
    { DIMS4(2, 5, 13, 17), TALC_F32, false, { .ignore_index = TALC_ZERO }, 0 },
    { DIMS4(2, 5, 13, 17), TALC_F32, true, { .reduction = TALC_REDUCTION_NONE, .ignore_index = 2 }, 0 },
    { DIMS4(3, 21, 4, 5), TALC_F64, true,
      { .reduction = TALC_REDUCTION_SUM, .label_smoothing = 0.1, .ignore_index = 255 }, 0 },
};
// clang-format on

enum { CASES = sizeof entropy_cases / sizeof *entropy_cases };

/* Classes, ignored ones and -100 or whatever stands for them. */
static talc_tensor *labels_of(talc_device *device, const entropy_case *of)
{
    talc_dims dims = { 0 };
    for (int i = 0; i < of->x.rank; i++)
        if (i != (of->x.rank == 1 ? 0 : 1))
            dims.dim[dims.rank++] = of->x.dim[i];
    int64_t count = 1, labels[2 * 4096];
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    const int64_t C = of->x.dim[of->x.rank == 1 ? 0 : 1], ignore = of->options.ignore_index;
    for (int64_t i = 0; i < count; i++)
        labels[i] = i % 5 == 4 ? (ignore == 0           ? -100
                                  : ignore == TALC_ZERO ? 0
                                                        : ignore)
                               : (i * 7919 + 3) % C;
    if (!of->transposed)
        return talc_from_host(device, TALC_I64, dims, labels);
    /* A view with gaps, in which no label stands. */
    for (int64_t i = count - 1; i >= 0; i--) {
        labels[2 * i + 1] = 1 << 20;
        labels[2 * i] = labels[i];
    }
    dims.dim[dims.rank - 1] *= 2;
    return talc_slice(talc_from_host(device, TALC_I64, dims, labels), dims.rank - 1, 0, TALC_END,
                      2);
}

static talc_tensor *logits_of(talc_device *device, const entropy_case *of)
{
    talc_dims dims = of->x;
    if (of->transposed) {
        dims.dim[1] = of->x.dim[of->x.rank - 1];
        dims.dim[of->x.rank - 1] = of->x.dim[1];
    }
    talc_tensor *x = talc_cast(op_numbers(device, dims, 17), of->dtype);
    x = talc_mul_scalar(x, of->scale == 0 ? 4 : of->scale);
    return of->transposed ? talc_transpose(x, 1, of->x.rank - 1) : x;
}

// clang-format off
/* Of each of four samples, their sum and their mean, by PyTorch. */
static const struct {
    talc_cross_entropy_options options;
    bool weighted;
    double expected[6];
} values[] = {
    { { 0 }, false, { 0.24131129665715703, 1.7162766673708258, 4.095674329414383, 4.216276667370826, 10.269538960813192, 2.567384740203298 } },
    { { .ignore_index = 2 }, false, { 0, 1.7162766673708258, 4.095674329414383, 0, 5.8119509967852085, 2.9059754983926043 } },
    { { .ignore_index = TALC_ZERO }, false, { 0.24131129665715703, 0, 4.095674329414383, 4.216276667370826, 8.553262293442366, 2.851087431147455 } },
    { { .label_smoothing = 0.3 }, false, { 0.691311296657157, 1.8162766673708257, 3.545674329414383, 3.5662766673708255, 9.619538960813191, 2.404884740203298 } },
    { { .label_smoothing = 1 }, false, { 1.7413112966571571, 2.049610000704159, 2.262340996081049, 2.049610000704159, 8.102872294146524, 2.025718073536631 } },
    { { .label_smoothing = 0.3, .ignore_index = 1 }, false, { 0.691311296657157, 1.8162766673708257, 0, 3.5662766673708255, 6.073864631398809, 2.024621543799603 } },
    { { .label_smoothing = 0.3, .ignore_index = 2 }, true, { 0, 1.5513936671595778, 3.800458045885102, 0, 5.351851713044679, 3.567901142029786 } },
    { { 0 }, true, { 0.48262259331431406, 0.8581383336854129, 4.095674329414383, 8.432553334741652, 13.868988591155762, 2.5216342893010477 } },
};
// clang-format on

Test(cross_entropy, values_are_those_of_pytorch)
{
    static const int64_t classes[] = { 2, 0, 1, 2 };
    static const double weights[] = { 0.5, 1, 2 };
    talc_device *devices[] = { tested_device(), fake_device() };
    double logits[12];
    for (int i = 0; i < 12; i++)
        logits[i] = (i * 7 % 11 - 4) / 2.0;
    for (int i = 0; i < 2 * 3 * (int)(sizeof values / sizeof *values); i++) {
        talc_device *device = devices[i % 2];
        talc_cross_entropy_options options = values[i / 6].options;
        options.reduction = (talc_reduction)(i / 2 % 3);
        if (values[i / 6].weighted)
            options.class_weights = talc_from_host(device, TALC_F64, TALC_DIMS(3), weights);
        const talc_tensor *x = talc_from_host(device, TALC_F64, TALC_DIMS(2, 3, 2), logits),
                          *labels = talc_from_host(device, TALC_I64, TALC_DIMS(2, 2), classes);
        const double *expected =
            values[i / 6].expected + (options.reduction == TALC_REDUCTION_NONE  ? 0
                                      : options.reduction == TALC_REDUCTION_SUM ? 4
                                                                                : 5);
        const talc_tensor *y = talc_cross_entropy_with(x, labels, &options);
        cr_assert(y != NULL && y->rank == (options.reduction == TALC_REDUCTION_NONE ? 2 : 0), "%s",
                  talc_error_message());
        assert_values(y, expected, 1e-15, "values");
        /* Views of the same, in f32, and the first sample alone. */
        x = talc_transpose(talc_contiguous(talc_transpose(talc_cast(x, TALC_F32), 0, 2)), 0, 2);
        labels = talc_transpose(talc_contiguous(talc_transpose(labels, 0, 1)), 0, 1);
        options.class_weights =
            options.class_weights == NULL ? NULL : talc_cast(options.class_weights, TALC_F32);
        assert_values(talc_cross_entropy_with(x, labels, &options), expected, 4e-7, "views");
        options.reduction = TALC_REDUCTION_NONE;
        assert_values(talc_cross_entropy_with(talc_select(talc_select(x, 2, 0), 0, 0),
                                              talc_select(talc_select(labels, 1, 0), 0, 0),
                                              &options),
                      values[i / 6].expected, 4e-7, "one sample");
    }
}

/* More than a GPU's blocks have at a time. All classes are alike, so each loss that counts is
 * log(3). */
Test(cross_entropy, every_one_of_many_samples_counts_once)
{
    enum { SAMPLES = 300001 };
    talc_device *device = tested_device();
    int64_t *classes = malloc(SAMPLES * sizeof *classes), counted = 0;
    for (int i = 0; i < SAMPLES; i++) {
        classes[i] = i % 7 == 6 ? -100 : i % 3;
        counted += classes[i] >= 0;
    }
    talc_tensor *labels = talc_from_host(device, TALC_I64, TALC_DIMS(SAMPLES), classes);
    free(classes);
    for (int across = 0; across < 2; across++) {
        talc_tensor *x =
            across ? talc_transpose(talc_zeros(device, TALC_F64, TALC_DIMS(3, SAMPLES)), 0, 1)
                   : talc_zeros(device, TALC_F64, TALC_DIMS(SAMPLES, 3));
        const double mean = talc_item(talc_cross_entropy(x, labels));
        const double sum = talc_item(talc_cross_entropy_with(
            x, labels, &(talc_cross_entropy_options){ .reduction = TALC_REDUCTION_SUM }));
        cr_assert(fabs(mean - log(3)) < 1e-12, "%.17g", mean);
        cr_assert(fabs(sum / ((double)counted * log(3)) - 1) < 1e-12, "%.17g", sum);
    }
}

/* What is not finite, as PyTorch has it. */
Test(cross_entropy, what_is_not_finite)
{
    const float n = NAN, i = INFINITY;
    static const struct {
        int64_t label;
        double smoothing, expected;
        int row;
    } cases[] = { { 0, 0, INFINITY, 0 },   { 1, 0, 0.6931471805599453, 0 },
                  { 1, 0.5, INFINITY, 0 }, { 0, 1, NAN, 0 },
                  { 1, 0, NAN, 1 },        { 0, 0, NAN, 2 },
                  { 1, 0, NAN, 3 },        { 2, 0, 0, 4 },
                  { 0, 0, 2e30, 4 },       { -100, 0, 0, 1 },
                  { -100, 0.5, 0, 3 } };
    const float rows[5][3] = {
        { -i, 2, 2 }, { 1, n, 2 }, { -i, -i, -i }, { 1, i, 2 }, { -1e30F, -1e30F, 1e30F }
    };
    talc_device *device = tested_device();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int reduction = 0; reduction < 3; reduction++) {
            talc_tensor *x = talc_from_host(device, TALC_F32, TALC_DIMS(1, 3), rows[cases[c].row]);
            talc_tensor *t = talc_from_host(device, TALC_I64, TALC_DIMS(1), &cases[c].label);
            const talc_cross_entropy_options options = { .reduction = (talc_reduction)reduction,
                                                         .label_smoothing = cases[c].smoothing };
            const double got = talc_item(talc_cross_entropy_with(x, t, &options));
            /* The mean of no sample. */
            const double expected =
                reduction == TALC_REDUCTION_MEAN && cases[c].label < 0 ? NAN : cases[c].expected;
            assert_no_failure();
            cr_assert(isnan(expected)
                          ? isnan(got)
                          : got == expected || fabs(got - expected) <= 1e-6 * fabs(expected),
                      "case %zu, reduction %d: %g instead of %g", c, reduction, got, expected);
        }
}

Test(cross_entropy, without_samples)
{
    talc_device *device = tested_device();
    talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(0, 3, 5));
    talc_tensor *t = talc_zeros(device, TALC_I64, TALC_DIMS(0, 5));
    cr_assert(isnan(talc_item(talc_cross_entropy(x, t))));
    cr_assert(talc_item(talc_cross_entropy_with(
                  x, t, &(talc_cross_entropy_options){ .reduction = TALC_REDUCTION_SUM })) == 0);
    talc_tensor *y = talc_cross_entropy_with(
        x, t, &(talc_cross_entropy_options){ .reduction = TALC_REDUCTION_NONE });
    cr_assert(y->rank == 2 && y->dims[0] == 0 && y->dims[1] == 5);
}

/* The first of them is named, at once or by the next call that waits; the loss is NaN until then,
 * and the device goes on. */
Test(cross_entropy, a_label_that_is_no_class)
{
    static const int64_t wrongs[] = { 10, -1, INT64_MAX, INT64_MIN + 1, -99 };
    talc_device *device = tested_device();
    int64_t labels[4096];
    for (int reduction = 0; reduction < 3; reduction++)
        for (size_t w = 0; w < sizeof wrongs / sizeof *wrongs; w++)
            for (int shape = 0; shape < 2; shape++) {
                const int64_t at = w == 0 ? 0 : 700;
                const talc_dims dims = shape == 0 ? TALC_DIMS(1500, 10) : TALC_DIMS(3, 10, 500);
                for (int64_t i = 0; i < 1500; i++)
                    labels[i] = i == at || i == 1300 ? wrongs[w] : i % 10;
                talc_tensor *x = op_numbers(device, dims, 3);
                talc_require_grad(x, w % 2 == 1);
                talc_tensor *t = talc_from_host(
                    device, TALC_I64, shape == 0 ? TALC_DIMS(1500) : TALC_DIMS(3, 500), labels);
                const talc_cross_entropy_options options = { .reduction =
                                                                 (talc_reduction)reduction };
                talc_tensor *y = talc_cross_entropy_with(x, t, &options);
                cr_assert((y == NULL) == talc_device_is_host(device), "%s", talc_error_message());
                if (y != NULL)
                    cr_assert(!talc_device_synchronize(device));
                assert_failure_with(
                    TALC_BAD_ARGUMENT,
                    "cross_entropy: element %lld of labels is %lld, there are 10 classes",
                    (long long)at, (long long)wrongs[w]);
                if (y != NULL &&
                    device != fake_device()) { /* which runs the CPU's algorithms later */
                    double lost =
                        talc_item(reduction == TALC_REDUCTION_NONE
                                      ? talc_select(talc_reshape(y, TALC_DIMS(1500)), 0, at)
                                      : y);
                    cr_assert(isnan(lost), "the loss is %g", lost);
                    if (talc_wants_grad(x) && reduction != TALC_REDUCTION_NONE) {
                        const int64_t sample = shape == 0 ? at : at / 500;
                        cr_assert(talc_backward(y), "%s", talc_error_message());
                        talc_tensor *of = talc_select(talc_grad(x), 0, sample);
                        of = shape == 0 ? of : talc_select(of, 1, at % 500);
                        cr_assert(isnan(talc_item(talc_max(of, TALC_SCALAR, false))));
                        talc_grad_clear(x);
                    }
                }
                /* What comes after is right. */
                labels[at] = labels[1300] = 5;
                t = talc_from_host(device, TALC_I64,
                                   shape == 0 ? TALC_DIMS(1500) : TALC_DIMS(3, 500), labels);
                cr_assert(isfinite(talc_item(talc_cross_entropy(x, t))), "%s",
                          talc_error_message());
                assert_no_failure();
            }
}

// ---- The gradient -------------------------------------------------------------------------------

static talc_tensor *leaf_of(talc_device *device, const entropy_case *of)
{
    talc_tensor *x = logits_of(device, of);
    talc_require_grad(x, true);
    return x;
}

/* By the rule, which tests/ops/test_gradient.c and `talc check` hold against what is due. */
static const talc_tensor *gradient_by_rule(talc_device *device, const entropy_case *of, double dy)
{
    talc_tensor *x = leaf_of(device, of);
    const talc_tensor *y = talc_cross_entropy_with(x, labels_of(device, of), &of->options);
    cr_assert(talc_backward_from(y, talc_full(device, of->dtype, talc_dims_of(y), dy)));
    return talc_grad(x);
}

static void check_gradient(talc_device *device, int index)
{
    const entropy_case *of = &entropy_cases[index];
    talc_tensor *x = leaf_of(device, of), *doubled = leaf_of(device, of);
    if (of->options.reduction == TALC_REDUCTION_NONE)
        return;
    const talc_tensor *labels = labels_of(device, of);
    const talc_tensor *loss = talc_cross_entropy_with(x, labels, &of->options);
    const double alone = talc_item(talc_cross_entropy_with(talc_detach(x), labels, &of->options));
    cr_assert(fabs(talc_item(loss) - alone) <=
                  (of->dtype == TALC_F32 ? 0x1p-22 : 0x1p-50) * fabs(alone),
              "case %d: %.17g, alone %.17g", index, talc_item(loss), alone);
    cr_assert(talc_backward(loss), "case %d: %s", index, talc_error_message());
    assert_same_bits("dy = 1", talc_grad(x), gradient_by_rule(device, of, 1));
    cr_assert(
        talc_backward(talc_mul_scalar(talc_cross_entropy_with(doubled, labels, &of->options), 2)));
    assert_same_bits("dy = 2", talc_grad(doubled), gradient_by_rule(device, of, 2));
    assert_same_bits("twice", talc_mul_scalar(talc_grad(x), 2), talc_grad(doubled));
}

Test(cross_entropy, the_gradient_that_comes_with_the_loss_is_the_rules)
{
    for (int i = 0; i < CASES; i++) {
        check_gradient(tested_device(), i);
        check_gradient(fake_device(), i);
    }
}

/* It is the leaf's as it is, and no other work is asked of the device. */
Test(cross_entropy, a_pass_that_begins_at_the_loss_costs_nothing)
{
    talc_device *device = fake_device();
    const entropy_case *of = &entropy_cases[1];
    talc_tensor *x = leaf_of(device, of);
    const talc_tensor *labels = labels_of(device, of), *loss = talc_cross_entropy(x, labels);
    const size_t queued = fake_device_queued(device);
    cr_assert(queued > 0 && talc_backward(loss));
    cr_assert(fake_device_queued(device) == queued, "%zu more",
              fake_device_queued(device) - queued);
    cr_assert(!talc_backward(loss));
    assert_failure(TALC_BAD_ARGUMENT,
                   "backward: an earlier backward pass went over cross_entropy and has freed what "
                   "it had saved; run the forward pass again");

    /* A second loss of the same logits: both gradients are added, and neither is written. */
    talc_grad_clear(x);
    const talc_tensor *expected = talc_mul_scalar(gradient_by_rule(device, of, 1), 2);
    const talc_tensor *held = NULL;
    for (int i = 0; i < 2; i++) {
        cr_assert(talc_backward(talc_cross_entropy(x, labels)));
        held = i == 0 ? talc_clone(talc_grad(x)) : held;
    }
    assert_same_bits("one", held, gradient_by_rule(device, of, 1));
    assert_same_bits("two", talc_grad(x), expected);

    /* Leaves that it comes to alike do not share it. */
    talc_tensor *z = leaf_of(device, of);
    talc_grad_clear(x);
    cr_assert(talc_backward(talc_cross_entropy(talc_add(x, z), labels)));
    cr_assert(talc_grad(x)->storage != talc_grad(z)->storage);
    assert_same_bits("of a sum", talc_grad(x), talc_grad(z));

    /* What a pass would write over is noticed as ever. */
    talc_tensor *y = talc_mul_scalar(x, 1);
    loss = talc_cross_entropy(y, labels);
    talc_no_grad_enter();
    talc_fill(y, 0);
    talc_no_grad_leave();
    cr_assert(!talc_backward(loss));
    assert_failure(
        TALC_BAD_ARGUMENT,
        "backward: logits [7,10], which cross_entropy saved, was written since: version 0 "
        "then, 1 now (talc_data counts as a write, talc_data_read does not)");
}

/* The rule of the gradient is asked where an algorithm is forced: on the loss, whose gradient is
 * then another's, or on itself. */
Test(cross_entropy, an_algorithm_that_is_forced_is_that_of_one_direction)
{
    talc_device *device = cpu_device();
    const entropy_case *of = &entropy_cases[1];
    const talc_tensor *labels = labels_of(device, of), *expected = gradient_by_rule(device, of, 1);
    talc_tensor *x = leaf_of(device, of);
    cr_assert(talc_algorithm_force("cross_entropy", "reference"));
    cr_assert(talc_backward(talc_cross_entropy(x, labels)), "%s", talc_error_message());
    assert_same_bits("the loss", expected, talc_grad(x));
    cr_assert(talc_algorithm_force("cross_entropy", NULL));
    cr_assert(talc_algorithm_force("cross_entropy.grad_input", "none"));
    cr_assert(!talc_backward(talc_cross_entropy(x, labels)));
    assert_failure(TALC_NOT_FOUND,
                   "backward: cross_entropy.grad_input on cpu: there is no algorithm 'none'");
    cr_assert(talc_algorithm_force("cross_entropy.grad_input", NULL));
}

/* Only logits that want a gradient get one. */
Test(cross_entropy, a_loss_without_gradient_takes_no_memory_for_one)
{
    talc_device *device = tested_device();
    talc_tensor *x = op_numbers(device, TALC_DIMS(600, 100), 3);
    const talc_tensor *labels = talc_zeros(device, TALC_I64, TALC_DIMS(600));
    const size_t bytes = talc_nbytes(x);
    for (int wants = 0; wants < 3; wants++) {
        talc_require_grad(x, wants > 0);
        talc_device_synchronize(device);
        talc_memory_reset_peak(device);
        const size_t before = talc_device_memory(device).live;
        for (int i = 0; i < wants % 2; i++)
            talc_no_grad_enter();
        talc_release(talc_cross_entropy(x, labels));
        const size_t took = talc_device_memory(device).peak - before;
        cr_assert(wants == 2 ? took >= bytes : took < bytes / 2, "%d: %zu bytes", wants, took);
        talc_no_grad_leave();
    }
}

// ---- At once ------------------------------------------------------------------------------------

/* The sum of many losses, each of which takes many blocks of a GPU and differs from the one before,
 * in whose memory it is. */
static talc_tensor *add_losses(talc_tensor *x)
{
    const talc_tensor *labels = talc_argmax(x, TALC_DIMS(1), false);
    talc_tensor *sum = talc_cross_entropy(x, labels);
    for (int i = 1; i < 50; i++)
        sum = talc_add(sum, talc_cross_entropy(talc_mul_scalar(x, 1 + 0.1 * i), labels));
    return sum;
}

enum { AT_ONCE = 6, ROUNDS = 20 };

typedef struct losing {
    talc_device *device;
    talc_module *module;
    talc_graph *graph; /* NULL: the module runs */
    talc_tensor *x;
    void *stream;
    pthread_barrier_t *all;
    double sums[ROUNDS];
} losing;

static void *lose_on_a_stream(void *pointer)
{
    losing *own = pointer;
    talc_stream *entered = talc_stream_enter(own->device, own->stream);
    for (int round = 0; round < ROUNDS; round++) {
        owned_scope *scope = talc_scope_enter();
        pthread_barrier_wait(own->all);
        own->sums[round] = talc_item(own->graph == NULL ? talc_forward(own->module, own->x)
                                                        : talc_graph_replay(own->graph, own->x));
    }
    talc_stream_leave(entered);
    return talc_failed() ? NULL : own;
}

/* In f64, so that another order of adding shows. */
Test(cross_entropy, losses_at_once_on_several_streams_and_in_graphs_have_the_same_bits)
{
    talc_device *device = queueing_device();
    pthread_barrier_t all;
    pthread_barrier_init(&all, NULL, AT_ONCE);
    owned_module *module = module_of(add_losses);
    talc_tensor *x = talc_cast(op_numbers(device, TALC_DIMS(1000, 10), 5), TALC_F64);
    const double expected = talc_item(talc_forward(module, x));
    losing threads[AT_ONCE];
    pthread_t handles[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        threads[i] = (losing){
            device, module, i % 2 == 0 ? captured(module, x) : NULL, x, gpu_stream_new(device),
            &all,   { 0 }
        };
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    for (int i = 0; i < AT_ONCE; i++)
        cr_assert(pthread_create(&handles[i], NULL, lose_on_a_stream, &threads[i]) == 0);
    for (int i = 0; i < AT_ONCE; i++) {
        void *ran;
        pthread_join(handles[i], &ran);
        cr_assert_not_null(ran, "thread %d", i);
        for (int round = 0; round < ROUNDS; round++)
            cr_assert(threads[i].sums[round] == expected,
                      "thread %d, round %d: %.17g instead of %.17g", i, round,
                      threads[i].sums[round], expected);
        talc_graph_free(threads[i].graph);
        gpu_stream_free(device, threads[i].stream);
    }
    pthread_barrier_destroy(&all);
}
