/// Recorded steps: the same bits as calls, whatever trains and draws, and what cannot be repeated.
#include "tests/support/networks.h"
#include "tensor/generator.h"
#include "tests/support/fake_device.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"

#include <math.h>

/* A network, its data and how it is trained. */
typedef struct trainer {
    talc_module *net;
    talc_optimizer *optimizer;
    talc_tensor *images, *labels; /* fixed */
    double clip;                  /* 0: none */
    bool accumulates;             /* leaves gradients to the next step */
    int calls;
} trainer;

static talc_tensor *train(void *context)
{
    trainer *t = context;
    t->calls++;
    if (!t->accumulates)
        talc_optimizer_zero_grad(t->optimizer);
    talc_tensor *loss = talc_cross_entropy(talc_forward(t->net, t->images), t->labels);
    if (!talc_backward(loss) || (t->clip > 0 && talc_optimizer_clip(t->optimizer, t->clip) == NULL))
        return NULL;
    return talc_optimizer_step(t->optimizer) ? loss : NULL;
}

/* Convolution, batch norm, pooling and dropout, twice. */
static talc_module *small_net(void)
{
    return TALC_SEQUENTIAL(
        CONV2D(.in_channels = 3, .out_channels = 8, .kernel = { 3, 3 }, .padding_same = true),
        BATCH_NORM2D(.channels = 8), talc_nn_dropout(0.3), MAX_POOL2D(.kernel = { 2, 2 }),
        talc_nn_flatten(), talc_nn_dropout(0.5), LINEAR(8 * 36, 10));
}

static talc_module *norm_net(void)
{
    return TALC_SEQUENTIAL(
        CONV2D(.in_channels = 3, .out_channels = 8, .kernel = { 3, 3 }),
        talc_nn_group_norm(&(talc_group_norm_layer){
            .groups = 2, .channels = 8, .activation = TALC_ACTIVATION_RELU }),
        talc_nn_drop_path(0.3),
        talc_nn_local_response_norm(&(talc_local_response_norm_layer){ .size = 5 }),
        talc_nn_instance_norm2d(&(talc_instance_norm2d_layer){ .channels = 8 }), talc_nn_flatten(),
        talc_nn_layer_norm(&(talc_layer_norm_layer){ .normalised = TALC_DIMS(800) }),
        LINEAR(800, 10));
}

typedef struct training_case {
    const char *name;
    talc_module *(*make)(void);
    talc_dims dims;
    talc_optimizer_options options;
    talc_schedule schedule;
    double clip;
} training_case;

static const training_case cases[] = {
    { "dropout, sgd with momentum and a schedule",
      small_net,
      { 4, { 5, 3, 12, 12 } },
      { .kind = TALC_SGD, .lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 5e-4 },
      { .kind = TALC_SCHEDULE_COSINE, .steps = 9, .warmup = 2 },
      0 },
    { "adam",
      small_net,
      { 4, { 4, 3, 12, 12 } },
      { .kind = TALC_ADAM, .lr = 0.01 },
      { .kind = TALC_SCHEDULE_STEP, .every = 2, .gamma = 0.5 },
      0.5 },
    { "LeNet, adamw", lenet_new, { 4, { 3, 1, 28, 28 } }, { .kind = TALC_ADAMW }, { 0 }, 0 },
    { "LeNet, rmsprop",
      lenet_new,
      { 4, { 3, 1, 28, 28 } },
      { .kind = TALC_RMSPROP, .momentum = 0.5, .centered = true },
      { 0 },
      2 },
    { "ResNet-20",
      resnet20_a,
      { 4, { 2, 3, 16, 16 } },
      { .kind = TALC_SGD, .lr = 0.05, .momentum = 0.9, .nesterov = true },
      { 0 },
      0 },
    { "norms of samples and drop path",
      norm_net,
      { 4, { 5, 3, 12, 12 } },
      { .kind = TALC_SGD, .lr = 0.1, .momentum = 0.9 },
      { 0 },
      0 },
};

enum { STEPS = 8 };

static trainer trainer_new(const training_case *of)
{
    talc_manual_seed(5);
    trainer t = { .net = of->make(), .clip = of->clip };
    talc_module_to(t.net, tested_device());
    talc_module_train(t.net);
    t.optimizer = talc_optimizer_new(t.net, &of->options);
    if (of->schedule.kind != 0 || of->schedule.steps > 0)
        talc_optimizer_schedule(t.optimizer, &of->schedule);
    t.images = talc_zeros(tested_device(), TALC_F32, of->dims);
    t.labels = talc_zeros(tested_device(), TALC_I64, TALC_DIMS(of->dims.dim[0]));
    assert_no_failure();
    return t;
}

static void trainer_free(trainer *t)
{
    talc_optimizer_free(t->optimizer);
    talc_module_free(t->net);
}

/* Another batch each step. */
static void next_batch(const trainer *t, unsigned step)
{
    owned_scope *scope = talc_scope_enter();
    const talc_dims dims = talc_dims_of(t->images);
    int64_t labels[8];
    for (int64_t i = 0; i < dims.dim[0]; i++)
        labels[i] = (i * 3 + step * 7) % 10;
    talc_copy(t->images,
              talc_to(op_numbers(cpu_device(), dims, step + 1), tested_device(), TALC_F32));
    talc_copy(t->labels, talc_from_host(tested_device(), TALC_I64, TALC_DIMS(dims.dim[0]), labels));
    assert_no_failure();
}

static bool compare_tensor(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    assert_same_bits(path, talc_module_find(context, path), tensor);
    return true;
}

Test(step, trains_as_calls_do)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        owned_scope *scope = talc_scope_enter();
        trainer eager = trainer_new(&cases[c]);
        const talc_generator start = talc_generator_get();
        talc_tensor *losses[STEPS];
        for (unsigned i = 0; i < STEPS; i++) {
            next_batch(&eager, i);
            losses[i] = train(&eager);
            assert_no_failure();
        }
        const talc_generator end = talc_generator_get();
        trainer recorded = trainer_new(&cases[c]);
        talc_generator_set(start);
        talc_step *step = talc_step_new(tested_device(), train, &recorded);
        const talc_tensor *fixed = NULL;
        for (unsigned i = 0; i < STEPS; i++) {
            next_batch(&recorded, i);
            talc_tensor *loss = talc_step_run(step);
            assert_no_failure();
            assert_same_bits(cases[c].name, losses[i], loss);
            cr_assert(fixed == NULL || loss == fixed, "%s: another result", cases[c].name);
            fixed = loss;
            cr_assert(talc_optimizer_steps(recorded.optimizer) == i + 1);
        }
        cr_assert(recorded.calls == (queueing_device() == tested_device() ? 3 : STEPS),
                  "%s: %d calls", cases[c].name, recorded.calls);
        cr_assert(talc_generator_get().call == end.call);
        cr_assert(talc_optimizer_rate(recorded.optimizer, 0) ==
                  talc_optimizer_rate(eager.optimizer, 0));
        talc_module_visit(eager.net, compare_tensor, recorded.net);
        /* Gradients are those of the last step; then calls go on where the step has left off. */
        talc_step_free(step);
        next_batch(&eager, STEPS);
        next_batch(&recorded, STEPS);
        talc_generator_set(end);
        talc_tensor *expected = train(&eager);
        talc_generator_set(end);
        assert_same_bits("a call after the step", expected, train(&recorded));
        talc_module_visit(eager.net, compare_tensor, recorded.net);
        assert_no_failure();
        trainer_free(&eager);
        trainer_free(&recorded);
    }
}

Test(step, a_hundred_runs_take_no_memory)
{
    trainer t = trainer_new(&cases[0]);
    talc_step *step = talc_step_new(tested_device(), train, &t);
    for (unsigned i = 0; i < 5; i++) {
        next_batch(&t, i);
        talc_step_run(step);
    }
    const talc_memory before = talc_device_memory(tested_device());
    for (int i = 0; i < 100; i++)
        talc_step_run(step);
    talc_device_synchronize(tested_device());
    const talc_memory after = talc_device_memory(tested_device());
    assert_no_failure();
    cr_assert(after.live == before.live && after.reserved == before.reserved);
    talc_step_free(step);
    trainer_free(&t);
}

/* Two batch sizes, each with a step of its own, in turn. */
Test(step, two_steps_train_one_network)
{
    trainer t = trainer_new(&cases[0]), expected = trainer_new(&cases[0]);
    const talc_generator start = talc_generator_get();
    trainer few = t, few_expected = expected;
    few.images = few_expected.images =
        talc_zeros(tested_device(), TALC_F32, TALC_DIMS(2, 3, 12, 12));
    few.labels = few_expected.labels = talc_zeros(tested_device(), TALC_I64, TALC_DIMS(2));
    for (unsigned i = 0; i < STEPS; i++) {
        next_batch(i % 2 == 0 ? &expected : &few_expected, i);
        train(i % 2 == 0 ? &expected : &few_expected);
    }
    talc_generator_set(start);
    talc_step *step = talc_step_new(tested_device(), train, &t),
              *few_step = talc_step_new(tested_device(), train, &few);
    for (unsigned i = 0; i < STEPS; i++) {
        next_batch(i % 2 == 0 ? &t : &few, i);
        talc_step_run(i % 2 == 0 ? step : few_step);
        assert_no_failure();
    }
    talc_module_visit(expected.net, compare_tensor, t.net);
    talc_step_free(step);
    talc_step_free(few_step);
    trainer_free(&t);
    trainer_free(&expected);
}

/* A gradient that is added to would be that of the recorded step for ever. */
Test(step, gradients_that_are_left_are_refused)
{
    talc_device *device = tested_device();
    const bool records = queueing_device() == device;
    trainer t = trainer_new(&cases[2]);
    t.accumulates = true;
    talc_step *step = talc_step_new(tested_device(), train, &t);
    next_batch(&t, 1);
    cr_assert(talc_step_run(step) != NULL && talc_step_run(step) != NULL);
    const talc_tensor *third = talc_step_run(step);
    if (records) {
        cr_assert(third == NULL);
        assert_failure(TALC_UNSUPPORTED, "backward: step: it uses a tensor that its last run made, "
                                         "such as a gradient that was not "
                                         "cleared; begin with talc_optimizer_zero_grad");
    }
    assert_no_failure();
    /* It can be mended. */
    t.accumulates = false;
    talc_optimizer_zero_grad(t.optimizer);
    for (int i = 0; i < 4; i++)
        cr_assert(talc_step_run(step) != NULL, "%s", talc_error_message());
    talc_step_free(step);
    trainer_free(&t);
}

Test(step, a_parameter_with_other_storage_is_named)
{
    talc_device *device = tested_device();
    const bool records = queueing_device() == device;
    trainer t = trainer_new(&cases[2]);
    talc_step *step = talc_step_new(tested_device(), train, &t);
    next_batch(&t, 1);
    for (int i = 0; i < 4; i++)
        cr_assert(talc_step_run(step) != NULL);
    talc_module_to(t.net, cpu_device());
    cr_assert(!records || talc_step_run(step) == NULL);
    if (records)
        assert_failure(TALC_BAD_ARGUMENT, "optimizer_step: conv1.weight was moved or loaded since "
                                          "the step was recorded, so it has other "
                                          "storage now; make the step anew");
    cr_assert(talc_optimizer_steps(t.optimizer) == 4);
    talc_step_free(step);
    trainer_free(&t);
}

static talc_module *tiny_net(void)
{
    return TALC_SEQUENTIAL(talc_nn_flatten(), talc_nn_dropout(0.5), LINEAR(12, 10));
}

/* After a failure nothing is left behind, and the step can be run again. */
Test(step, every_allocation_may_fail)
{
    static const training_case tiny = {
        "tiny", tiny_net, { 4, { 2, 1, 3, 4 } }, { .kind = TALC_ADAM }, { 0 }, 1
    };
    enum { RUNS = 4 };
    bool refused = true;
    for (int64_t k = 0; refused; k++) {
        owned_scope *scope = talc_scope_enter();
        trainer t = trainer_new(&tiny);
        talc_step *step = talc_step_new(tested_device(), train, &t);
        next_batch(&t, 1);
        allow_allocations(k);
        int runs = 0;
        while (runs < RUNS && talc_step_run(step) != NULL)
            runs++;
        refused = allow_all_allocations();
        cr_assert(refused || runs == RUNS, "%s", talc_error_message());
        if (runs < RUNS)
            cr_assert(talc_error_status() == TALC_NO_MEMORY, "%d: %s", (int)k,
                      talc_error_message());
        talc_error_clear();
        talc_optimizer_zero_grad(t.optimizer);
        for (int i = 0; i < RUNS; i++)
            cr_assert(talc_step_run(step) != NULL, "after %d: %s", (int)k, talc_error_message());
        talc_step_free(step);
        trainer_free(&t);
    }
}

static talc_tensor *reads_loss(void *context)
{
    talc_tensor *x = context;
    return talc_item(talc_sum(x, TALC_SCALAR, false)) == 0 ? x : talc_relu(x);
}

static talc_tensor *returns_nothing(void *context)
{
    (void)context;
    return NULL;
}

static talc_tensor *runs_itself(void *context)
{
    return talc_step_run(*(talc_step **)context);
}

static talc_tensor *passes_on(void *context)
{
    return context;
}

/* Its elements, by a tensor that is new. */
static talc_tensor *wraps(void *context)
{
    const talc_tensor *x = context;
    return talc_wrap(x->device, x->dtype, talc_dims_of(x), x->data, NULL, NULL);
}

Test(step, bad_steps_fail_by_name)
{
    talc_device *device = tested_device();
    talc_tensor *x = talc_full(tested_device(), TALC_F32, TALC_DIMS(3), 1);
    cr_assert(talc_step_new(NULL, passes_on, x) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "step: device is NULL");
    cr_assert(talc_step_new(tested_device(), NULL, x) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "step: function is NULL");
    cr_assert(talc_step_run(NULL) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "step: step is NULL");
    talc_step_free(NULL);

    talc_step *step = talc_step_new(tested_device(), reads_loss, x);
    cr_assert(talc_step_run(step) == NULL);
    assert_failure_with(TALC_UNSUPPORTED,
                        "item: cannot read elements back while a graph of %s is being recorded",
                        device->name);
    talc_step_free(step);
    step = talc_step_new(tested_device(), returns_nothing, NULL);
    cr_assert(talc_step_run(step) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "step: the function returned NULL");
    talc_step_free(step);
    step = talc_step_new(tested_device(), runs_itself, &step);
    cr_assert(talc_step_run(step) == NULL);
    assert_failure_with(TALC_UNSUPPORTED,
                        "step: cannot run a step while a graph of %s is being recorded",
                        device->name);
    talc_step_free(step);
    /* A result that is the program's own is read as it was. */
    for (int own = talc_device_is_host(device) ? 0 : 1; own < 2; own++) { /* only the host wraps */
        step = talc_step_new(tested_device(), own ? passes_on : wraps, x);
        for (int i = 0; i < 5; i++) {
            talc_fill(x, i);
            const talc_tensor *y = talc_step_run(step);
            talc_fill(x, -1);
            cr_assert(y != NULL && y != x, "%s", talc_error_message());
            assert_same_bits("its own", talc_full(tested_device(), TALC_F32, TALC_DIMS(3), i), y);
        }
        talc_step_free(step);
    }
}

typedef struct keeper {
    talc_tensor *x, *kept; /* kept: NULL or what the last call made */
    bool keeps, shares;
} keeper;

static talc_tensor *makes(void *context)
{
    keeper *k = context;
    talc_tensor *y = talc_add_scalar(k->x, 1);
    talc_release(k->kept);
    k->kept = k->keeps ? talc_retain(k->shares ? talc_detach(y) : y) : NULL;
    return y;
}

/* What the function made and nobody else holds is the result as it is; a tensor that the program
 * can write is copied. */
Test(step, a_result_is_copied_only_from_what_somebody_holds)
{
    talc_device *device = fake_device();
    for (int keeps = 0; keeps < 3; keeps++) {
        keeper k = { .x = talc_full(device, TALC_F32, TALC_DIMS(3), 1),
                     .keeps = keeps > 0,
                     .shares = keeps > 1 };
        talc_step *step = talc_step_new(device, makes, &k);
        for (int i = 0; i < 5; i++) {
            talc_fill(k.x, i);
            talc_device_synchronize(device);
            const talc_tensor *y = talc_step_run(step);
            assert_no_failure();
            /* A replay uploads nothing here. */
            cr_assert(i < 3 || fake_device_queued(device) == (keeps ? 2 : 1), "%d: %zu", keeps,
                      fake_device_queued(device));
            if (i < 2 && keeps)
                talc_fill(k.kept, -1);
            assert_same_bits("result", talc_full(device, TALC_F32, TALC_DIMS(3), i + 1), y);
        }
        talc_step_free(step);
        talc_release(k.kept);
    }
}

/* What a network in evaluation keeps of its weights, folded or packed, is not what a step goes on
 * with that writes them. */
static talc_tensor *evaluate_and_write(void *context)
{
    talc_module *net = context;
    talc_no_grad_enter();
    talc_tensor *y =
        talc_forward(net, talc_full(tested_device(), TALC_F32, TALC_DIMS(1, 16, 8, 8), 1));
    talc_tensor *w = talc_module_find(net, "0.weight"), *gamma = talc_module_find(net, "1.weight");
    talc_copy(w, talc_mul_scalar(w, 2));
    talc_copy(gamma, talc_mul_scalar(gamma, 2));
    talc_no_grad_leave();
    return y;
}

Test(step, weights_that_it_writes_are_read_anew)
{
    owned_module *net = TALC_SEQUENTIAL(
        CONV2D(.in_channels = 16, .out_channels = 16, .kernel = { 3, 3 }, .no_bias = true),
        BATCH_NORM2D(.channels = 16));
    cr_assert(talc_module_to(net, tested_device()));
    talc_module_eval(net);
    owned_step *step = talc_step_new(tested_device(), evaluate_and_write, net);
    double first = 0;
    for (int i = 0; i < 6; i++) {
        talc_tensor *y = talc_step_run(step);
        cr_assert_not_null(y, "%s", talc_error_message());
        const double sum = talc_item(talc_sum(talc_abs(y), TALC_DIMS(0, 1, 2, 3), false));
        first = i == 0 ? sum : first;
        cr_assert(sum == ldexp(first, 2 * i), "run %d: %g of %g", i, sum, first);
    }
}
