/* Optimizers, schedules and checkpoints against the numbers of torch 2.x in float64. */
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"
#include "tests/support/operands.h"

#include "nn/optimizer_state.h"
#include "tensor/tape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, STEPS = 3 };

static const double first[N] = { 0.5, -1.25, 2.0 };
static const double gradients[STEPS][N] = { { 0.1, -0.2, 0.3 },
                                            { -0.4, 0.05, 0.6 },
                                            { 0.7, 0.8, -0.9 } };

static const talc_optimizer_options sgd = { .kind = TALC_SGD }, adam = { .kind = TALC_ADAM };

/* A module with one parameter, "p". */
static bool one_init(talc_module *module, const void *options)
{
    (void)options;
    return talc_module_parameter(
               module, "p", talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(N), first)) != NULL;
}

static const talc_module_class one_class = { .name = "One",
                                             .size = sizeof(talc_module),
                                             .init = one_init };

static talc_module *one(void)
{
    talc_module *module = talc_module_new(&one_class, NULL);
    cr_assert_not_null(module, "%s", talc_error_message());
    talc_module_to(module, tested_device());
    return module;
}

/* The gradient of p becomes these numbers. */
static void give(talc_module *module, const double values[N])
{
    const talc_tensor *p = talc_module_find(module, "p");
    talc_grad_clear((talc_tensor *)p);
    const talc_tensor *exact = talc_from_host(p->device, TALC_F64, TALC_DIMS(N), values);
    cr_assert(talc_backward_from(p, talc_cast(exact, p->dtype)), "%s", talc_error_message());
}

static void expect_within(double share, const char *what, const talc_tensor *got,
                          const double expected[N])
{
    owned_double *values = host_doubles(talc_detach(got));
    for (int i = 0; i < N; i++)
        cr_expect(fabs(values[i] - expected[i]) <= share * fabs(expected[i]),
                  "%s: element %d is %.17g instead of %.17g", what, i, values[i], expected[i]);
}

static void expect_near(const char *what, const talc_tensor *got, const double expected[N])
{
    expect_within(1e-14, what, got, expected);
}

/* A step by these gradients of p. */
static void step_by(talc_optimizer *optimizer, talc_module *module, const double values[N])
{
    give(module, values);
    cr_assert(talc_optimizer_step(optimizer), "%s", talc_error_message());
}

static void save_and_load(const char *path, talc_module *module, talc_optimizer *optimizer)
{
    talc_progress progress = { 3, 14 };
    cr_assert(talc_checkpoint_save(path, module, optimizer, &progress) &&
                  talc_checkpoint_load(path, module, optimizer, &progress),
              "%s", talc_error_message());
}

static void expect_same(talc_module *module, talc_module *again)
{
    assert_same_bits("p", talc_detach(talc_module_find(module, "p")),
                     talc_detach(talc_module_find(again, "p")));
}

/* p after three steps, by torch. */
static const struct {
    const char *name;
    talc_optimizer_options options;
    double expected[N];
} by_torch[] = {
    { "sgd", { .kind = TALC_SGD, .lr = 0.1 }, { 0.46000000000000002, -1.3149999999999999, 2 } },
    { "sgd, decay",
      { .kind = TALC_SGD, .lr = 0.1, .weight_decay = 0.5 },
      { 0.38766250000000002, -1.13841875, 1.720675 } },
    { "sgd, momentum",
      { .kind = TALC_SGD, .lr = 0.1, .momentum = 0.9, .dampening = 0.25 },
      { 0.47739999999999999, -1.2629249999999999, 1.9006999999999998 } },
    { "sgd, nesterov",
      { .kind = TALC_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01 },
      { 0.43695096198049993, -1.3369138992462499, 1.889685136512 } },
    { "adam",
      { .kind = TALC_ADAM },
      { 0.49922841553046976, -1.2490586970798601, 1.9981014170424078 } },
    { "adam, all",
      { .kind = TALC_ADAM,
        .lr = 0.05,
        .beta1 = 0.8,
        .beta2 = 0.95,
        .eps = 1e-3,
        .weight_decay = 0.1 },
      { 0.45086907363046225, -1.180107687417139, 1.8930913635048221 } },
    { "adamw",
      { .kind = TALC_ADAMW, .lr = 0.05 },
      { 0.46070715136911794, -1.2011225155377407, 1.9021464689188714 } },
    { "adamw, no decay",
      { .kind = TALC_ADAMW, .lr = 0.05, .weight_decay = (double)TALC_ZERO },
      { 0.4614207765234879, -1.2029348539930149, 1.9050708521204003 } },
    { "rmsprop",
      { .kind = TALC_RMSPROP },
      { 0.41076116785751349, -1.2712632368842796, 1.8908181927129712 } },
    { "rmsprop, centered",
      { .kind = TALC_RMSPROP,
        .lr = 0.02,
        .alpha = 0.9,
        .centered = true,
        .momentum = 0.5,
        .weight_decay = 0.1 },
      { 0.41484959546990924, -1.1699721195179227, 1.8336208096479174 } },
};

Test(optimizer, three_steps_are_those_of_pytorch)
{
    for (size_t i = 0; i < sizeof by_torch / sizeof *by_torch; i++) {
        owned_module *module = one();
        owned_optimizer *optimizer = talc_optimizer_new(module, &by_torch[i].options);
        for (int step = 0; step < STEPS; step++)
            step_by(optimizer, module, gradients[step]);
        expect_near(by_torch[i].name, talc_module_find(module, "p"), by_torch[i].expected);
        cr_assert(talc_optimizer_steps(optimizer) == STEPS);
    }
}

/* A cast before each step: what an optimizer keeps of a parameter follows it, with its values, in a
 * checkpoint too. */
Test(optimizer, what_is_kept_follows_the_dtype_of_its_parameter)
{
    static const talc_dtype casts[][STEPS] = { { TALC_F32, TALC_F64, TALC_F64 },
                                               { TALC_F64, TALC_F32, TALC_F32 },
                                               { TALC_F64, TALC_F32, TALC_F64 } };
    const char *path = file_path("cast.safetensors");
    for (size_t i = 0; i < sizeof by_torch / sizeof *by_torch; i++)
        for (size_t k = 0; k < sizeof casts / sizeof *casts; k++) {
            owned_module *module = one();
            owned_optimizer *optimizer = talc_optimizer_new(module, &by_torch[i].options);
            for (int step = 0; step < STEPS; step++) {
                cr_assert(talc_module_cast(module, casts[k][step]));
                save_and_load(path, module, optimizer);
                step_by(optimizer, module, gradients[step]);
            }
            expect_within(1e-6, by_torch[i].name, talc_module_find(module, "p"),
                          by_torch[i].expected);
        }
}

/* The same gradient at every step brings v and a a together, until roundings leave less than
 * nothing between them. A step is at most lr g / eps then, and by the formula in long double at
 * least lr g / d with a d that is off by what 20 roundings of v leave. */
Test(optimizer, centered_rmsprop_survives_a_gradient_that_never_changes)
{
    const struct {
        talc_dtype dtype;
        double gradient, alpha;
    } cases[] = {
        { TALC_F32, 0.3, 0.5 }, { TALC_F32, 3, 0.9 },    { TALC_F64, 0.1, 0.9 },
        { TALC_F32, -7, 0.99 }, { TALC_F64, 1e-5, 0.5 },
    };
    const double lr = 1e-6, eps = 1e-3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_dtype dtype = cases[i].dtype;
        const double g = fabs(cases[i].gradient), unit = unit_roundoff(dtype);
        owned_module *module = one();
        cr_assert(talc_module_cast(module, dtype));
        owned_optimizer *optimizer =
            talc_optimizer_new(module, &(talc_optimizer_options){ .kind = TALC_RMSPROP,
                                                                  .lr = lr,
                                                                  .eps = eps,
                                                                  .alpha = cases[i].alpha,
                                                                  .centered = true });
        const talc_tensor *p = talc_module_find(module, "p");
        double before = talc_item(talc_select(p, 0, 0));
        long double left = 1;
        for (int step = 1; step <= 600; step++) {
            talc_optimizer_zero_grad(optimizer);
            talc_scope *scope = talc_scope_enter();
            talc_backward(talc_sum(talc_mul_scalar(p, cases[i].gradient), TALC_SCALAR, false));
            talc_scope_leave(scope);
            cr_assert(talc_optimizer_step(optimizer), "%s", talc_error_message());
            left *= cases[i].alpha;
            const double after = talc_item(talc_select(p, 0, 0)), moved = fabs(after - before);
            const double off = 20 * unit * g * g, slack = 4 * unit * (fabs(after) + moved);
            const double apart = (double)(left * (1 - left)) * g * g;
            cr_assert(isfinite(after) && moved <= lr * g / eps * 1.001 + slack &&
                          moved >= lr * g / (sqrt(apart + off) + eps) * 0.999 - slack &&
                          moved <= lr * g / (sqrt(fmax(apart - off, 0)) + eps) * 1.001 + slack,
                      "case %d, step %d: %.17g, then %.17g", (int)i, step, before, after);
            before = after;
        }
    }
}

Test(optimizer, gradients_are_clipped_by_their_norm)
{
    owned_module *module = one();
    owned_optimizer *optimizer = talc_optimizer_new(module, &sgd);
    give(module, (const double[]){ 3, 0, 4 });
    const talc_tensor *p = talc_module_find(module, "p"), *g = talc_grad(p);
    const uint64_t p_version = talc_version(p), g_version = talc_version(g);
    cr_assert(talc_item(talc_optimizer_clip(optimizer, 2)) == 5);
    cr_assert(talc_version(g) == g_version + 1, "what was scaled was written");
    expect_near("clipped", talc_grad(talc_module_find(module, "p")),
                (const double[]){ 1.199999760000048, 0, 1.599999680000064 });
    give(module, (const double[]){ 3, 0, 4 });
    cr_assert(talc_item(talc_optimizer_clip(optimizer, 10)) == 5);
    expect_near("short enough", talc_grad(talc_module_find(module, "p")),
                (const double[]){ 3, 0, 4 });
    g = talc_grad(p);
    cr_assert(talc_version(p) == p_version && talc_optimizer_step(optimizer));
    cr_assert(talc_version(p) == p_version + 1 && talc_version(g) == g_version + 1);
}

/* More parameters than are clipped at once, of sizes around those of a part, one without
 * elements. */
enum { MANY = TALC_UPDATE_TENSORS + 5 };

static int64_t many_numel(int i)
{
    static const int64_t sizes[] = { 7, TALC_UPDATE_PART, 0, 1, 2 * TALC_UPDATE_PART + 13, 300 };
    return sizes[i % 6];
}

static bool many_init(talc_module *module, const void *options)
{
    const talc_dtype *dtypes = options; /* of the first and of the others */
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        talc_module_parameter(module, name,
                              talc_zeros(cpu_device(), dtypes[i > 0], TALC_DIMS(many_numel(i))));
    }
    return !talc_failed();
}

static const talc_module_class many_class = { .name = "Many",
                                              .size = sizeof(talc_module),
                                              .init = many_init };

static void check_many(talc_device *device, talc_dtype dtype, double max_norm)
{
    owned_module *module = talc_module_new(&many_class, (const talc_dtype[]){ dtype, dtype });
    talc_module_to(module, device);
    owned_optimizer *optimizer = talc_optimizer_new(module, &sgd);
    long double squares = 0;
    double *given[MANY];
    for (int i = 0; i < MANY; i++) {
        talc_tensor *g = talc_cast(
            talc_mul_scalar(op_numbers(device, TALC_DIMS(many_numel(i)), (unsigned)i), 0.01),
            dtype);
        cr_assert(talc_backward_from(optimizer->list[i].parameter, g), "%s", talc_error_message());
        given[i] = host_doubles(g);
        for (int64_t k = 0; k < many_numel(i); k++)
            squares += (long double)given[i][k] * given[i][k];
    }
    const talc_tensor *y = talc_optimizer_clip(optimizer, max_norm);
    cr_assert(y != NULL && y->rank == 0 && y->dtype == dtype, "%s", talc_error_message());
    const double u = dtype == TALC_F32 ? 0x1p-24 : 0x1p-53, norm = (double)sqrtl(squares);
    cr_assert(fabs(talc_item(y) / norm - 1) <= (dtype == TALC_F32 ? 2 : 40) * u,
              "%.17g instead of %.17g", talc_item(y), norm);
    const double scale = fmin(1, max_norm / (norm + 1e-6));
    for (int i = 0; i < MANY; i++) {
        double *got = host_doubles(talc_grad(optimizer->list[i].parameter));
        for (int64_t k = 0; k < many_numel(i); k++) {
            const double is = given[i][k] * scale;
            if (!(fabs(got[k] - is) <= (dtype == TALC_F32 ? 5 : 60) * u * fabs(is)))
                cr_assert_fail("parameter %d, element %d: %.17g instead of %.17g", i, (int)k,
                               got[k], is);
        }
        free(got);
        free(given[i]);
    }
}

Test(optimizer, many_gradients_are_clipped_by_the_norm_of_all)
{
    check_many(tested_device(), TALC_F32, 0.5);
    check_many(tested_device(), TALC_F64, 0.5);
    check_many(tested_device(), TALC_F32, 1e9);
}

/* Two pieces of work for each so many parameters, and one more that updates them. */
Test(optimizer, clipping_asks_little_of_the_device)
{
    owned_module *module = talc_module_new(&many_class, (const talc_dtype[]){ TALC_F32, TALC_F32 });
    talc_module_to(module, fake_device());
    owned_optimizer *optimizer = talc_optimizer_new(module, &sgd);
    for (int i = 0; i < MANY; i++)
        talc_backward_from(optimizer->list[i].parameter,
                           op_numbers(fake_device(), TALC_DIMS(many_numel(i)), 1));
    talc_device_synchronize(fake_device());
    cr_assert(talc_optimizer_clip(optimizer, 1) != NULL && talc_optimizer_step(optimizer));
    cr_assert(fake_device_queued(fake_device()) == 6, "%zu", fake_device_queued(fake_device()));
    talc_optimizer_zero_grad(optimizer);
    cr_assert(fake_device_queued(fake_device()) == 6);
}

Test(optimizer, gradients_of_several_types_have_no_norm)
{
    owned_module *module = talc_module_new(&many_class, (const talc_dtype[]){ TALC_F32, TALC_F64 });
    owned_optimizer *optimizer = talc_optimizer_new(module, &sgd);
    for (int i = 0; i < MANY; i++) {
        const talc_tensor *p = optimizer->list[i].parameter;
        talc_backward_from(p, talc_full(p->device, p->dtype, talc_dims_of(p), 1));
    }
    cr_assert(talc_optimizer_clip(optimizer, 1) == NULL);
    assert_failure(TALC_BAD_DTYPE, "optimizer_clip: a gradient is f32, another is f64");
}

/* As PyTorch has it. */
Test(optimizer, what_is_not_finite_is_clipped_to_nan)
{
    static const double all[][N] = { { 3, NAN, 4 }, { 3, INFINITY, 4 } };
    static const double expected[][N] = { { NAN, NAN, NAN }, { 0, NAN, 0 } };
    owned_module *module = one();
    owned_optimizer *optimizer = talc_optimizer_new(module, &sgd);
    for (int i = 0; i < 2; i++) {
        give(module, all[i]);
        const double norm = talc_item(talc_optimizer_clip(optimizer, 2));
        cr_assert(i == 0 ? isnan(norm) : isinf(norm));
        assert_values(talc_grad(talc_module_find(module, "p")), expected[i], 0, "clipped");
    }
}

Test(optimizer, schedules_are_those_of_pytorch)
{
    static const double by_step[] = {
        0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05, 0.025
    };
    static const double cosine[] = {
        0.1,  0.09804226065180616, 0.0923606797749979,   0.08351141009169893,  0.0723606797749979,
        0.06, 0.0476393202250021,  0.036488589908301075, 0.027639320225002106, 0.02195773934819386,
        0.02
    };
    static const double cycle[] = { 0.004,
                                    0.052,
                                    0.1,
                                    0.09504846320134738,
                                    0.0811745653949763,
                                    0.06112620219362893,
                                    0.03887419780637107,
                                    0.0188258346050237,
                                    0.004951936798652629,
                                    4e-07,
                                    4e-07 };
    /* SequentialLR of LinearLR(start_factor=0.25, total_iters=4) and OneCycleLR, and
     * OneCycleLR(pct_start=1, total_steps=5). */
    static const double warm[] = { 0.001, 0.00175, 0.0025, 0.00325 };
    static const double rising[] = { 0.004, 0.018058874503045733, 0.052, 0.08594112549695429, 0.1 };
    const talc_schedule step = { .kind = TALC_SCHEDULE_STEP, .every = 5, .gamma = 0.5 };
    const talc_schedule slow = {
        .kind = TALC_SCHEDULE_COSINE, .steps = 10, .floor = 0.2, .warmup = 4, .warmup_start = 0.5
    };
    const talc_schedule once = { .kind = TALC_SCHEDULE_ONE_CYCLE, .steps = 10 };
    talc_schedule late = once;
    late.warmup = 4, late.warmup_start = 0.25;
    const talc_schedule up = { .kind = TALC_SCHEDULE_ONE_CYCLE, .steps = 5, .rise = 1 };
    /* And where the rise is over before it begins, LinearLR climbs to OneCycleLR's initial_lr. */
    const talc_schedule short_rise = {
        .kind = TALC_SCHEDULE_ONE_CYCLE, .steps = 3, .warmup = 1, .warmup_start = 0.5
    };
    const struct {
        const char *name;
        const talc_schedule *schedule;
        int first, count;
        const double *expected;
    } cases[] = {
        { "step", &step, 0, 11, by_step },
        { "cosine", &slow, 4, 11, cosine },
        { "cosine, warm-up", &slow, 2, 1, (const double[]){ 0.075 } },
        { "one_cycle", &once, 0, 11, cycle },
        { "warm-up", &late, 0, 4, warm },
        { "rise", &up, 0, 5, rising },
        { "short rise", &short_rise, 0, 1, (const double[]){ 0.002 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < cases[i].count; t++) {
            const double rate = talc_schedule_rate(cases[i].schedule, 0.1, cases[i].first + t);
            cr_expect(fabs(rate - cases[i].expected[t]) < 1e-15, "%s %d: %.17g", cases[i].name, t,
                      rate);
        }
    for (int t = 0; t < 10; t++)
        cr_expect(talc_schedule_rate(&late, 0.1, t + 4) == talc_schedule_rate(&once, 0.1, t));
    owned_module *module = one();
    owned_optimizer *optimizer = talc_optimizer_new(module, &sgd);
    cr_assert(talc_optimizer_schedule(optimizer, &up), "%s", talc_error_message());
}

Test(optimizer, a_schedule_that_was_not_checked_is_no_crash)
{
    const talc_schedule none = { .kind = TALC_SCHEDULE_STEP };
    cr_assert(isnan(talc_schedule_rate(&none, 0.1, 5)));
    cr_assert(isnan(talc_schedule_rate(NULL, 0.1, 5)));
}

/* Where the rise is one step the first rate is the highest; PyTorch divides by zero there. */
Test(optimizer, one_cycle_may_rise_in_one_step)
{
    const talc_schedule schedules[] = {
        { .kind = TALC_SCHEDULE_ONE_CYCLE, .steps = 10, .rise = 0.1 },
        { .kind = TALC_SCHEDULE_ONE_CYCLE, .steps = 2, .rise = 0.5 },
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        const double start = talc_schedule_rate(&schedules[i], 0.1, 0);
        const double last = talc_schedule_rate(&schedules[i], 0.1, schedules[i].steps - 1);
        cr_expect(fabs(start - 0.1) < 1e-15, "%d steps begin at %.17g", (int)schedules[i].steps,
                  start);
        cr_expect(fabs(last - 4e-7) < 1e-15, "%d steps end at %.17g", (int)schedules[i].steps,
                  last);
    }
}

Test(optimizer, groups_have_their_own_options)
{
    owned_module *net = talc_nn_linear(
        &(talc_linear_layer){ .in_features = 2, .out_features = 3, .dtype = TALC_F64 });
    owned_optimizer *optimizer =
        talc_optimizer_new(net, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 1 });
    cr_assert(talc_optimizer_group(optimizer, "b*",
                                   &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 0.5 }));
    cr_assert(talc_optimizer_schedule(
        optimizer, &(talc_schedule){ .kind = TALC_SCHEDULE_STEP, .every = 1, .gamma = 0.5 }));
    const double before = talc_item(talc_select(talc_detach(talc_module_find(net, "bias")), 0, 0));
    owned_scope *scope = talc_scope_enter();
    for (int i = 0; i < 2; i++) {
        talc_optimizer_zero_grad(optimizer);
        cr_assert(talc_backward(
            talc_sum(talc_forward(net, talc_ones(cpu_device(), TALC_F64, TALC_DIMS(1, 2))),
                     TALC_SCALAR, false)));
        cr_assert(talc_optimizer_rate(optimizer, 1) == (i == 0 ? 0.5 : 0.25) &&
                  isnan(talc_optimizer_rate(optimizer, 2)));
        cr_assert(talc_optimizer_step(optimizer));
    }
    const double after = talc_item(talc_select(talc_detach(talc_module_find(net, "bias")), 0, 0));
    cr_assert(fabs(before - 0.75 - after) < 1e-15, "%g", before - after);
}

/* A module with a child of the class above and the child's parameter as its own. */
static bool two_init(talc_module *module, const void *options)
{
    (void)options;
    talc_module *child = talc_module_add(module, "child", talc_module_new(&one_class, NULL));
    return talc_module_parameter(module, "tied", talc_module_find(child, "p")) != NULL;
}

static const talc_module_class two_class = { .name = "Two",
                                             .size = sizeof(talc_module),
                                             .init = two_init };

/* A parameter that two layers share is one: PyTorch's parameters() lists it once, under its first
 * name. */
Test(optimizer, a_shared_parameter_is_updated_once)
{
    owned_module *module = talc_module_new(&two_class, NULL);
    cr_assert_not_null(module, "%s", talc_error_message());
    talc_module_to(module, tested_device());
    owned_optimizer *optimizer =
        talc_optimizer_new(module, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 0.5 });
    const talc_tensor *p = talc_module_find(module, "tied");
    cr_assert(talc_backward_from(
        p, talc_from_host(p->device, TALC_F64, TALC_DIMS(N), (const double[]){ 3, 0, 4 })));
    cr_assert(talc_item(talc_optimizer_clip(optimizer, 10)) == 5);
    cr_assert(talc_optimizer_step(optimizer), "%s", talc_error_message());
    expect_near("shared", p, (const double[]){ -1, -1.25, 0 });
    talc_optimizer_group(optimizer, "child.p", &sgd);
    assert_failure(TALC_NOT_FOUND, "optimizer_group: no parameter's path matches 'child.p'");

    const char *path = file_path("shared.safetensors");
    save_and_load(path, module, optimizer);
}

/* Another thread's pass, of which the path of a parameter tells. */
Test(optimizer, parameters_of_another_threads_pass_are_named)
{
    static const int other = 0; /* whose address stands for that pass */
    static const char *const expected =
        "%s: another thread is at the gradient of '1.inner.p' [3]; threads that train one module "
        "take turns";
    talc_module *net = talc_nn_sequential(), *middle = talc_nn_sequential();
    talc_module_add(net, "0", one());
    talc_module_add(net, "1", middle);
    talc_module *inner = talc_module_add(middle, "inner", one());
    cr_assert(talc_module_require_grad(net, false) && talc_module_require_grad(net, true));
    talc_optimizer *optimizer =
        talc_optimizer_new(net, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 0.1 });
    give(inner, gradients[0]);
    talc_tensor *p = talc_module_find(inner, "p");
    cr_assert(talc_tape_take("test", p, &other));
    cr_assert(!talc_optimizer_step(optimizer));
    assert_failure_with(TALC_BAD_ARGUMENT, expected, "optimizer_step");
    cr_assert(talc_optimizer_clip(optimizer, 1) == NULL);
    assert_failure_with(TALC_BAD_ARGUMENT, expected, "optimizer_clip");
    talc_optimizer_zero_grad(optimizer);
    assert_failure_with(TALC_BAD_ARGUMENT, expected, "grad_clear");
    cr_assert(!talc_backward_from(p, talc_ones(p->device, TALC_F64, TALC_DIMS(N))));
    assert_failure_with(TALC_BAD_ARGUMENT, expected, "backward");
    expect_near("gradient", talc_grad(p), gradients[0]);
    expect_near("p", p, first);
    talc_optimizer_free(optimizer);
    talc_retain(p);
    talc_module_free(net);
    talc_grad_clear(p); /* the module's names are gone */
    assert_failure(TALC_BAD_ARGUMENT,
                   "grad_clear: another thread is at the gradient of a leaf [3]; "
                   "threads that train one module take turns");
    talc_tape_give(p, &other);
    talc_release(p);
}

Test(optimizer, mistakes_are_named)
{
    owned_module *module = one();
    talc_optimizer_new(module, &(talc_optimizer_options){ .kind = TALC_SGD, .beta1 = 0.5 });
    assert_failure(TALC_BAD_ARGUMENT, "optimizer: beta1 0.5 is an option of another kind");
    talc_optimizer_new(module, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = -1 });
    assert_failure(TALC_BAD_ARGUMENT, "optimizer: lr -1 must be from 0 to inf");
    talc_optimizer_new(module, &(talc_optimizer_options){ .kind = TALC_SGD, .nesterov = true });
    assert_failure(TALC_BAD_ARGUMENT,
                   "optimizer: nesterov needs a momentum and no dampening, they are 0 and 0");
    owned_optimizer *optimizer = talc_optimizer_new(module, &adam);
    talc_optimizer_step(optimizer);
    assert_failure(
        TALC_BAD_ARGUMENT,
        "optimizer_step: none of 1 parameters has a gradient; talc_backward gives them theirs");
    talc_optimizer_group(optimizer, "q*", &adam);
    assert_failure(TALC_NOT_FOUND, "optimizer_group: no parameter's path matches 'q*'");
    talc_optimizer_group(optimizer, "p", &sgd);
    assert_failure(TALC_BAD_ARGUMENT, "optimizer_group: the group is sgd, the optimizer adam");
    talc_optimizer_schedule(optimizer, &(talc_schedule){ .kind = TALC_SCHEDULE_COSINE });
    assert_failure(TALC_BAD_ARGUMENT,
                   "optimizer_schedule: steps of cosine is 0, it must be at least 1");
}

/* Two steps, a checkpoint, a third step; the same third step after loading has the same bits. */
Test(optimizer, checkpoints_bring_everything_back)
{
    owned_module *module = one(), *again = one();
    const talc_optimizer_options slow = { .kind = TALC_ADAM, .lr = 0.05 };
    owned_optimizer *optimizer = talc_optimizer_new(module, &slow),
                    *other = talc_optimizer_new(again, &adam);
    for (int step = 0; step < 2; step++)
        step_by(optimizer, module, gradients[step]);
    const char *path = file_path("run.safetensors");
    talc_manual_seed(7);
    cr_assert(talc_checkpoint_save(path, module, optimizer, &(talc_progress){ 3, 14 }), "%s",
              talc_error_message());
    step_by(optimizer, module, gradients[2]);

    talc_manual_seed(8);
    talc_progress progress;
    cr_assert(talc_checkpoint_load(path, again, other, &progress), "%s", talc_error_message());
    cr_assert(progress.epoch == 3 && progress.batch == 14 && talc_generator_get().seed == 7);
    step_by(other, again, gradients[2]);
    expect_same(module, again);

    owned_optimizer *of_sgd = talc_optimizer_new(again, &sgd);
    talc_checkpoint_load(path, again, of_sgd, &progress);
    assert_failure_with(TALC_BAD_ARGUMENT, "checkpoint_load: '%s' is of adam, the optimizer is sgd",
                        path);
    cr_assert(talc_module_save(again, path));
    talc_checkpoint_load(path, again, other, &progress);
    assert_failure_with(TALC_BAD_FORMAT,
                        "checkpoint_load: '%s' is no checkpoint: it lacks 'talc.run'", path);
}

/* The state's names begin with "optimizer.", and so may a module's. */
Test(optimizer, a_module_may_be_called_optimizer)
{
    owned_module *net = talc_nn_sequential();
    talc_module_add(net, "optimizer", one());
    owned_optimizer *optimizer = talc_optimizer_new(net, &adam);
    const talc_tensor *p = talc_module_find(net, "optimizer.p");
    cr_assert(talc_backward_from(p, talc_ones(p->device, TALC_F64, TALC_DIMS(N))), "%s",
              talc_error_message());
    cr_assert(talc_optimizer_step(optimizer), "%s", talc_error_message());
    const char *path = file_path("run.safetensors");
    save_and_load(path, net, optimizer);

    owned_module *less = talc_nn_sequential(); /* whose names the file has more of */
    talc_module_add(less, "other", one());
    owned_optimizer *another = talc_optimizer_new(less, &adam);
    talc_checkpoint_load(path, less, another, &(talc_progress){ 0 });
    assert_failure_with(TALC_NOT_FOUND, "checkpoint_load: module_load: '%s' lacks 'other.p'", path);
}

/* A group that is made between two steps may ask for a state that its parameters have not yet. */
Test(optimizer, a_checkpoint_has_the_states_of_a_new_group)
{
    owned_module *module = one(), *again = one();
    const talc_optimizer_options plain = { .kind = TALC_SGD, .lr = 0.1 };
    const talc_optimizer_options moves = { .kind = TALC_SGD, .lr = 0.1, .momentum = 0.9 };
    owned_optimizer *optimizer = talc_optimizer_new(module, &plain);
    owned_optimizer *other = talc_optimizer_new(again, &plain);
    step_by(optimizer, module, gradients[0]);
    cr_assert(talc_optimizer_group(optimizer, "p", &moves) &&
              talc_optimizer_group(other, "p", &moves));
    const char *path = file_path("group.safetensors");
    talc_progress progress = { 0, 1 };
    cr_assert(talc_checkpoint_save(path, module, optimizer, &progress));
    cr_assert(talc_checkpoint_load(path, again, other, &progress), "%s", talc_error_message());
    for (int i = 1; i < STEPS; i++) {
        step_by(optimizer, module, gradients[i]);
        step_by(other, again, gradients[i]);
    }
    expect_same(module, again);
}

/* A locale may write and read a comma where another has a point, so that a checkpoint has
 * neither. */
Test(optimizer, a_checkpoint_is_the_same_in_every_locale)
{
    owned_module *module = one();
    owned_optimizer *optimizer = talc_optimizer_new(
        module, &(talc_optimizer_options){ .kind = TALC_ADAM, .lr = 0.1, .weight_decay = 3 });
    cr_assert(talc_optimizer_schedule(optimizer, &(talc_schedule){ .kind = TALC_SCHEDULE_COSINE,
                                                                   .steps = 7,
                                                                   .floor = 1e-310,
                                                                   .warmup_start = 0.3 }));
    const char *path = file_path("locale.safetensors");
    cr_assert(talc_checkpoint_save(path, module, optimizer, &(talc_progress){ 3, 14 }), "%s",
              talc_error_message());
    owned_safetensors *file = talc_safetensors_open(path);
    static const char *const keys[] = { "talc.optimizer.0", "talc.schedule" };
    for (int i = 0; i < 2; i++) {
        const char *text = talc_safetensors_metadata(file, keys[i]);
        cr_assert(text != NULL && strpbrk(text, ".,") == NULL, "%s is %s", keys[i], text);
    }
    const char *lr = strstr(talc_safetensors_metadata(file, keys[0]), " lr=");
    const char *floor = strstr(talc_safetensors_metadata(file, keys[1]), " floor=");
    cr_assert(lr != NULL && strtod(lr + 4, NULL) == 0.1, "%s", lr);
    cr_assert(floor != NULL && strtod(floor + 7, NULL) == 1e-310, "%s", floor);
    talc_progress progress;
    cr_assert(talc_checkpoint_load(path, module, optimizer, &progress), "%s", talc_error_message());
    cr_assert(talc_optimizer_rate(optimizer, 0) == 0.1);
}

/* Bytes of a file with `to` in place of the first `from`; a header, whose size comes first, grows
 * with it. */
static void write_changed(const char *path, const char *bytes, size_t count, const char *from,
                          const char *to)
{
    const size_t length = strlen(from), put = strlen(to);
    size_t at = 8;
    while (at + length <= count && memcmp(bytes + at, from, length) != 0)
        at++;
    cr_assert(at + length <= count, "there is no %s", from);
    owned_char *changed = malloc(count + put);
    int64_t header;
    memcpy(&header, bytes, sizeof header);
    header += (int64_t)(put - length);
    memcpy(changed, &header, sizeof header);
    memcpy(changed + 8, bytes + 8, at - 8);
    memcpy(changed + at, to, put);
    memcpy(changed + at + put, bytes + at + length, count - at - length);
    file_write(path, changed, count - length + put);
}

/* What a file says is checked as what a program says. */
Test(optimizer, a_checkpoint_with_numbers_out_of_range_is_refused)
{
#define STEPS_OF_P "steps!\1" /* and a NUL, as an i64 */
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        { "lr=0x1p-1", "lr=   nan", "optimizer: lr nan must be from 0 to inf" },
        { "lr=0x1p-1", "lr=-0x1p9", "optimizer: lr -512 must be from 0 to inf" },
        { "beta1=0x1p-2", "beta1=0x1p+0", "optimizer: beta1 1 and beta2 0.5 must be below 1" },
        { "steps=123456", "steps=-12345",
          "progress of epoch 3, batch 14 and step -12345 must not be negative" },
        { "epoch=3 batch=14 ", "epoch=3 batch=-4 ",
          "progress of epoch 3, batch -4 and step 123456 must not be negative" },
        { "steps=123456", "steps=9223372036854775807",
          "progress of epoch 3, batch 14 and step 9223372036854775807 must be at most "
          "9007199254740992 each" },
        { "epoch=3", "epoch=9007199254740993", "must be at most 9007199254740992 each" },
        { "batch=14", "batch=9223372036854775808", "'talc.run' is not what talc writes" },
        { "groups=1", "groups=4294967297", "'talc.run' is not what talc writes" },
        { "groups=1", "groups=-1", "has -1 groups of parameters, the optimizer 1" },
        { "groups=1", "groups= 1", "'talc.run' is not what talc writes" },
        { "seed=", "seed=-", "'talc.run' is not what talc writes" },
        { "seed=", "seed=99999999999999999999", "'talc.run' is not what talc writes" },
        { "kind=1", "kind=4294967297", "'talc.optimizer.0' is not what talc writes" },
        { "kind=1", "kind=9", "optimizer: kind 9 is outside 0..3" },
        { "kind=1", "kind=-1", "optimizer: kind -1 is outside 0..3" },
        { "kind=1", "kind=0", "is of sgd, the optimizer is adam" },
        { "nesterov=0", "nesterov=2", "'talc.optimizer.0' is not what talc writes" },
        { "kind=0", "kind=4294967296", "'talc.schedule' is not what talc writes" },
        { "kind=0", "kind=4", "optimizer_schedule: kind 4 is outside 0..3" },
        { "kind=0", "kind=-1", "optimizer_schedule: kind -1 is outside 0..3" },
        { "warmup=0", "warmup=-1", "optimizer_schedule: warmup -1 must not be negative" },
        { STEPS_OF_P, "\xff\xff\xff\xff\xff\xff\xff",
          "'p' has had 72057594037927935 steps, must be from 0 to 9007199254740992" },
    };
    owned_module *module = one();
    owned_optimizer *optimizer = talc_optimizer_new(
        module,
        &(talc_optimizer_options){ .kind = TALC_ADAM, .lr = 0.5, .beta1 = 0.25, .beta2 = 0.5 });
    optimizer->steps = 123456;
    memcpy(&optimizer->list[0].steps, STEPS_OF_P, sizeof optimizer->list[0].steps);
    const char *path = file_path("range.safetensors");
    cr_assert(talc_checkpoint_save(path, module, optimizer, &(talc_progress){ 3, 14 }));
    size_t count;
    char *bytes = file_bytes(path, &count);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_changed(path, bytes, count, cases[i].from, cases[i].to);
        talc_progress progress = { 1, 2 };
        cr_assert(!talc_checkpoint_load(path, module, optimizer, &progress), "%s", cases[i].to);
        cr_assert(strstr(talc_error_message(), cases[i].message) != NULL, "%s",
                  talc_error_message());
        talc_error_clear();
        cr_assert(progress.epoch == 1 && talc_optimizer_rate(optimizer, 0) == 0.5);
    }
    free(bytes);
    talc_checkpoint_save(path, module, optimizer, &(talc_progress){ -1, 2 });
    assert_failure(TALC_BAD_ARGUMENT, "checkpoint_save: progress of epoch -1, batch 2 and step "
                                      "123456 must not be negative");
}
