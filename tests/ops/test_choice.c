#include "tests/support/hooks.h"
#include "tests/support/plans.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/elementwise.h"
#include "ops/conv2d.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "tensor/observe.h"
#include "tensor/run.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

PLAN(plan_large, NULL, plan->workspace = 1 << 20)
PLAN(plan_odd, "it is odd", )

static int planned;
PLAN(plan_counted, NULL, planned++)

/* A list as a backend may have it one day: most specialised first, classes mixed. */
static const talc_algorithm algorithms[] = {
    { .name = "fft", .arithmetic = { "FFT", TALC_NORMWISE, false }, .plan = talc_plan_any },
    { .name = "tensor_cores", .arithmetic = { "tf32", TALC_TF32, false }, .plan = talc_plan_any },
    { .name = "large", .arithmetic = { "f32", TALC_STRICT, false }, .plan = plan_large },
    { .name = "reference", .arithmetic = { "f64", TALC_STRICT, true }, .plan = talc_plan_any },
    { .name = NULL },
};

static const char *chosen_with(const char *forced, unsigned precision)
{
    talc_choice choice;
    return talc_choose(&choice, "op", cpu_device(), algorithms, NULL, 0, forced, precision)
               ? talc_chosen(&choice)->name
               : "none";
}

Test(choice, the_first_algorithm_of_an_admitted_class_that_fits_runs)
{
    cr_assert_str_eq(chosen_with(NULL, 0), "large");
    cr_assert_str_eq(chosen_with(NULL, TALC_TF32), "tensor_cores");
    cr_assert_str_eq(chosen_with(NULL, TALC_TF32 | TALC_NORMWISE), "fft");
    talc_workspace_set_limit(cpu_device(), (1 << 20) - 1);
    cr_assert_str_eq(chosen_with(NULL, 0), "reference");
    talc_workspace_set_limit(cpu_device(), 1 << 20);
    cr_assert_str_eq(chosen_with(NULL, 0), "large");
}

Test(choice, classes_are_admitted_by_call_or_by_thread)
{
    cr_assert(talc_precision_admit(TALC_NORMWISE));
    cr_assert(talc_precision_admitted() == (TALC_STRICT | TALC_NORMWISE));
    cr_assert_str_eq(chosen_with(NULL, 0), "fft");
    cr_assert_str_eq(chosen_with(NULL, TALC_STRICT), "large", "a call's set does not win");
    cr_assert(talc_precision_admit(TALC_STRICT));
    cr_assert_str_eq(chosen_with(NULL, 0), "large");
    cr_assert_str_eq(talc_precision_name(TALC_STRICT), "strict");
    cr_assert_str_eq(talc_precision_name(TALC_NORMWISE), "normwise");
    cr_assert_str_eq(talc_precision_name(TALC_TF32), "tf32");
}

Test(choice, algorithms_of_classes_that_are_not_admitted_are_planned_for_explanations_alone)
{
    talc_algorithm counted[] = { algorithms[1], algorithms[3], algorithms[4] };
    counted[0].plan = plan_counted;
    talc_choice choice;
    cr_assert(talc_choose(&choice, "op", cpu_device(), counted, NULL, 0, NULL, 0));
    cr_assert_str_eq(talc_chosen(&choice)->name, "reference");
    cr_assert(planned == 0);
    cr_assert(talc_choose(&choice, "op", cpu_device(), counted, NULL, 0, NULL, TALC_TF32));
    cr_assert_str_eq(talc_chosen(&choice)->name, "tensor_cores");
    cr_assert(planned == 1);
    talc_explanation e;
    talc_choice_explain("op", cpu_device(), counted, NULL, NULL, 0, &e);
    cr_assert(planned == 2 && e.chosen == 1);
    cr_assert_str_eq(e.candidates[0].reason, "precision class tf32 is not admitted");
}

Test(choice, a_forced_algorithm_runs_or_says_why_not)
{
    cr_assert_str_eq(chosen_with("reference", 0), "reference");
    cr_assert_str_eq(chosen_with("fft", 0), "none");
    assert_failure(TALC_UNSUPPORTED,
                   "op on cpu: fft normwise: precision class normwise is not admitted");
    cr_assert_str_eq(chosen_with("fft", TALC_NORMWISE), "fft");
    cr_assert_str_eq(chosen_with("magic", 0), "none");
    assert_failure(TALC_NOT_FOUND, "op on cpu: there is no algorithm 'magic'");
    talc_workspace_set_limit(cpu_device(), 1000);
    cr_assert_str_eq(chosen_with("large", 0), "none");
    assert_failure(TALC_UNSUPPORTED,
                   "op on cpu: large: needs 1.0 MiB of workspace, the limit is 1000 bytes");

    cr_assert(talc_algorithm_force("op", "reference"));
    cr_assert_str_eq(chosen_with(NULL, TALC_NORMWISE), "reference");
    cr_assert_str_eq(chosen_with("fft", TALC_NORMWISE), "fft", "a call's choice does not win");
    cr_assert(talc_algorithm_force("op", NULL));
    cr_assert_str_eq(chosen_with(NULL, TALC_NORMWISE), "fft");
}

/* Two forms of a name with estimates, one of them in two classes. */
PLAN(plan_half, NULL, plan->seconds = 0.5)
PLAN(plan_one, NULL, plan->seconds = 1)
PLAN(plan_two, NULL, plan->seconds = 2)

static const talc_algorithm forms[] = {
    { "tiles", "rows", { "f32", TALC_STRICT, false }, plan_two, NULL },
    { "tiles", "mma", { "f32", TALC_STRICT, false }, plan_one, NULL },
    { "tiles", "mma", { "tf32", TALC_TF32, false }, plan_half, NULL },
    { "tiles_other", "mma", { "f32", TALC_STRICT, false }, plan_half, NULL },
    { "other", NULL, { "f32", TALC_STRICT, false }, plan_half, NULL },
    { .name = NULL },
};

/* The number of the algorithm that is chosen, -1 for none. */
static int form_chosen_with(const char *forced, unsigned precision)
{
    talc_choice choice;
    return talc_choose(&choice, "op", cpu_device(), forms, NULL, 0, forced, precision)
               ? (int)(talc_chosen(&choice) - forms)
               : -1;
}

/* A list that counts how often it is asked: what it plans follows from the problem, a number. */
static int planned;

PLAN(plan_and_count, NULL, __atomic_add_fetch(&planned, 1, __ATOMIC_RELAXED);
     plan->seconds = 1 + (double)*(const int64_t *)problem;
     plan->data.alignment = *(const int64_t *)problem)

PLAN(plan_fixed, NULL, plan->seconds = 3.5; plan->data.alignment = 1000;
     plan->workspace = limit < 100 ? 1000 : 0)

static const talc_algorithm counted[] = {
    { "grows", NULL, { "f32", TALC_STRICT, false }, plan_and_count, NULL },
    { "fixed", NULL, { "f32", TALC_STRICT, false }, plan_fixed, NULL },
    { "rough", NULL, { "tf32", TALC_TF32, false }, plan_half, NULL },
    { .name = NULL },
};

/* What the chosen plan keeps: the problem's number or 1000, and 0 of `rough`. */
static int64_t decided(const talc_algorithm *list, int64_t number, const char *forced,
                       unsigned precision)
{
    talc_choice choice;
    cr_assert(
        talc_choose(&choice, "op", cpu_device(), list, &number, sizeof number, forced, precision));
    return talc_chosen(&choice) == &list[2] ? 0 : talc_chosen_plan(&choice)->data.alignment;
}

Test(choice, a_repeated_call_is_not_planned_again)
{
    static const talc_algorithm other[] = {
        { "fixed", NULL, { "f32", TALC_STRICT, false }, plan_fixed, NULL },
        { .name = NULL },
    };
    for (int i = 0; i < 3; i++) {
        cr_assert(decided(counted, 1, NULL, 0) == 1);
        cr_assert(decided(counted, 2, NULL, 0) == 2);
        cr_assert(decided(counted, 7, NULL, 0) == 1000);
        cr_assert(decided(counted, 7, "grows", 0) == 7, "the forced name is forgotten");
        cr_assert(decided(counted, 1, "fixed", 0) == 1000, "the forced name is forgotten");
        cr_assert(decided(counted, 1, NULL, TALC_TF32) == 0, "the admitted classes are forgotten");
        cr_assert(decided(other, 1, NULL, 0) == 1000, "the list is forgotten");
        cr_assert(planned == 5, "planned %d times", planned);
    }
    talc_workspace_set_limit(cpu_device(), 99);
    cr_assert(decided(counted, 7, NULL, 0) == 7, "the limit is forgotten");
    cr_assert(planned == 6);
}

Test(choice, decisions_are_right_when_older_ones_are_forgotten)
{
    for (int round = 0; round < 2; round++)
        for (int64_t i = 0; i < 5000; i++) {
            cr_assert(decided(counted, i, "grows", 0) == i);
            cr_assert(decided(counted, i, "grows", 0) == i);
        }
    cr_assert(planned >= 9000 && planned <= 10000, "planned %d times", planned);
}

static const char *plan_odd_ones(const talc_device *device, const void *problem, size_t limit,
                                 talc_plan *plan)
{
    plan->seconds = 1;
    return *(const int64_t *)problem % 2 == 0 ? NULL : plan_odd(device, problem, limit, plan);
}

Test(choice, a_failure_is_not_remembered)
{
    static const talc_algorithm picky[] = {
        { "picky", NULL, { "f32", TALC_STRICT, false }, plan_odd_ones, NULL },
        { .name = NULL },
    };
    const int64_t odd = 1;
    for (int i = 0; i < 2; i++) {
        talc_choice choice;
        cr_assert(!talc_choose(&choice, "op", cpu_device(), picky, &odd, sizeof odd, NULL, 0));
        assert_failure(TALC_UNSUPPORTED, "op on cpu: picky: it is odd");
    }
}

static void *decide_much(void *wrong)
{
    for (int64_t i = 0; i < 20000; i++)
        if (decided(counted, i % 1500, "grows", 0) != i % 1500)
            __atomic_add_fetch((int *)wrong, 1, __ATOMIC_RELAXED);
    return NULL;
}

Test(choice, threads_decide_at_once)
{
    pthread_t threads[4];
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        cr_assert(pthread_create(&threads[i], NULL, decide_much, &wrong) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert(wrong == 0, "%d decisions were of another problem", wrong);
}

/* A copy of the problem that an op poses. */
typedef struct problem_copy {
    talc_observer base;
    size_t bytes;
    unsigned char of[sizeof(talc_matmul_problem)];
} problem_copy;

static void copy_problem(talc_observer *observer, const talc_observation *observation)
{
    problem_copy *copy = (problem_copy *)observer;
    memcpy(copy->of, observation->problem, copy->bytes);
}

static talc_tensor *call_conv2d(const talc_tensor *x)
{
    return talc_conv2d(x, talc_reshape(x, TALC_DIMS(4, 4, 2, 2)), NULL,
                       &(talc_conv2d_options){ .padding = { 1 } });
}

static talc_tensor *call_matmul(const talc_tensor *x)
{
    return talc_matmul(talc_reshape(x, TALC_DIMS(8, 8)), talc_reshape(x, TALC_DIMS(8, 8)));
}

static talc_tensor *call_linear(const talc_tensor *x)
{
    return talc_linear(x, talc_reshape(x, TALC_DIMS(16, 4)), NULL, NULL);
}

static talc_tensor *call_pool(const talc_tensor *x)
{
    return talc_avg_pool2d(x, &(talc_pool2d_options){ .kernel = { 2, 2 } });
}

/* Leaves bytes on the stack that a problem made next may have between its members. */
static __attribute__((noinline)) void dirty_stack(int byte)
{
    volatile unsigned char stack[16384];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = (unsigned char)byte;
}

/* Those bytes are compared as well: they have to be the same each time. */
Test(choice, a_call_poses_the_same_bytes_each_time)
{
    static const struct {
        talc_tensor *(*call)(const talc_tensor *x);
        size_t bytes;
    } ops[] = {
        { call_conv2d, sizeof(talc_conv2d_problem) },
        { call_matmul, sizeof(talc_matmul_problem) },
        { call_linear, sizeof(talc_matmul_problem) },
        { call_pool, sizeof(talc_pool2d_problem) },
    };
    owned_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 4, 4, 4));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        problem_copy copies[2];
        for (int k = 0; k < 2; k++) {
            copies[k] = (problem_copy){ { copy_problem }, ops[i].bytes, { 0 } };
            dirty_stack(k == 0 ? 0xaa : 0x55);
            talc_observe(&copies[k].base);
            cr_assert_not_null(ops[i].call(x), "%s", talc_error_message());
            talc_observe(NULL);
        }
        cr_assert(memcmp(copies[0].of, copies[1].of, ops[i].bytes) == 0, "op %zu", i);
    }
}

Test(choice, a_name_forces_all_its_forms_of_an_admitted_class)
{
    cr_assert(form_chosen_with(NULL, 0) == 3, "of equal estimates the first runs");
    cr_assert(form_chosen_with("tiles", 0) == 1);
    cr_assert(form_chosen_with("tiles", TALC_TF32) == 2);
    cr_assert(form_chosen_with("tiles(rows)", TALC_TF32) == 0);
    cr_assert(form_chosen_with("tiles(mma)", 0) == 1);
    cr_assert(form_chosen_with("tiles(mma)", TALC_TF32) == 2);
    cr_assert(form_chosen_with("other", 0) == 4);
    static const char *const unknown[] = { "tiles(wgmma)", "tiles()",      "tiles(", "tiles(rows",
                                           "tiles(rows)x", "tiles (rows)", "tile",   "other()" };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char message[96];
        snprintf(message, sizeof message, "op on cpu: there is no algorithm '%s'", unknown[i]);
        cr_assert(form_chosen_with(unknown[i], 0) == -1);
        assert_failure(TALC_NOT_FOUND, message);
    }
    talc_algorithm refusing[] = { forms[0], forms[1], forms[2], forms[5] };
    refusing[0].plan = refusing[1].plan = plan_odd;
    talc_choice choice;
    cr_assert(!talc_choose(&choice, "op", cpu_device(), refusing, NULL, 0, "tiles", 0));
    assert_failure(TALC_UNSUPPORTED,
                   "op on cpu: tiles(rows): it is odd; tiles(mma): it is odd; tiles(mma) tf32: "
                   "precision class tf32 is not admitted");
}

Test(choice, names_of_before_are_accepted)
{
    talc_choice choice;
    cr_assert(talc_choose(&choice, "max_pool2d", cpu_device(), algorithms, NULL, 0, "auto", 0));
    cr_assert_str_eq(talc_chosen(&choice)->name, "large");
    cr_assert(talc_algorithm_force("avg_pool2d", "auto"));
    cr_assert(talc_choose(&choice, "avg_pool2d", cpu_device(), algorithms, NULL, 0, NULL, 0));
    cr_assert_str_eq(talc_chosen(&choice)->name, "large");
    cr_assert(talc_algorithm_force("avg_pool2d", NULL));
    cr_assert(!talc_choose(&choice, "conv2d", cpu_device(), algorithms, NULL, 0, "auto", 0));
    assert_failure(TALC_NOT_FOUND, "conv2d on cpu: there is no algorithm 'auto'");

    talc_algorithm gemm[] = { algorithms[3], algorithms[3], { .name = NULL } };
    gemm[0].name = gemm[1].name = "implicit_gemm";
    gemm[0].form = "wgmma", gemm[1].form = "mma";
    static const char *const ops[] = { "conv2d", "conv2d.grad_input", "conv2d.grad_weight" };
    for (int i = 0; i < 3; i++) {
        cr_assert(
            talc_choose(&choice, ops[i], cpu_device(), gemm, NULL, 0, "implicit_gemm_mma", 0));
        cr_assert_str_eq(talc_chosen(&choice)->form, "mma");
    }
    cr_assert(
        !talc_choose(&choice, "conv2d_other", cpu_device(), gemm, NULL, 0, "implicit_gemm_mma", 0));
    assert_failure(TALC_NOT_FOUND,
                   "conv2d_other on cpu: there is no algorithm 'implicit_gemm_mma'");
}

Test(choice, an_explanation_has_the_form)
{
    talc_explanation e;
    talc_choice_explain("op", cpu_device(), forms, NULL, "tiles(mma)", 0, &e);
    cr_assert(e.count == 5 && e.chosen == 1);
    cr_assert_str_eq(e.asked_for, "tiles(mma)");
    cr_assert_str_eq(e.candidates[1].title, "tiles(mma)");
    cr_assert_str_eq(e.candidates[1].form, "mma");
    cr_assert_str_eq(e.candidates[4].title, "other");
    cr_assert_null(e.candidates[4].form);
    for (int i = 0; i < e.count; i++)
        cr_assert(talc_candidate_is_passed_over(&e, i) == (i != 1 && i != 2), "%d", i);
    talc_choice_explain("op", cpu_device(), forms, NULL, "tiles", TALC_TF32, &e);
    cr_assert(e.chosen == 2);
    for (int i = 0; i < e.count; i++)
        cr_assert(talc_candidate_is_passed_over(&e, i) == (i > 2), "%d", i);
}

Test(choice, reasons_of_every_algorithm_are_given)
{
    const talc_algorithm odd = { .name = "reference",
                                 .arithmetic = { "f64", TALC_STRICT, true },
                                 .plan = plan_odd };
    talc_algorithm refusing[] = { algorithms[0], algorithms[1], algorithms[2], odd, algorithms[4] };
    refusing[2].plan = plan_odd;
    talc_choice choice;
    cr_assert(!talc_choose(&choice, "op", cpu_device(), refusing, NULL, 0, NULL, 0));
    assert_failure(
        TALC_UNSUPPORTED,
        "op on cpu: fft normwise: precision class normwise is not admitted; tensor_cores "
        "tf32: precision class tf32 is not admitted; large: it is odd; reference: it is "
        "odd");
    cr_assert(!talc_choose(&choice, "op", cpu_device(), NULL, NULL, 0, NULL, 0));
    assert_failure(TALC_UNSUPPORTED, "op on cpu: this device has no algorithm for it");
}

static int asked;

static const char *not_installed(void)
{
    asked++;
    return "it is not installed";
}

PLAN(plan_faster, NULL, plan->seconds = 0.5; plan->missing = not_installed)
PLAN(plan_slow, NULL, plan->seconds = 2; plan->missing = not_installed)

/* Asking loads the library, so only the algorithm that would run is asked. */
Test(choice, a_missing_library_is_looked_for_where_its_algorithm_would_run)
{
    const talc_arithmetic f32 = { "f32", TALC_STRICT, false };
    const talc_algorithm slow = { "slow", NULL, f32, plan_slow, NULL },
                         fast = { "fast", NULL, f32, plan_one, NULL },
                         faster = { "faster", NULL, f32, plan_faster, NULL };
    const talc_algorithm with_slow[] = { slow, fast, algorithms[3], algorithms[4] },
                         with_faster[] = { faster, slow, fast, algorithms[3], algorithms[4] },
                         without[] = { faster, slow, algorithms[3], algorithms[4] };
    talc_choice choice;
    cr_assert(talc_choose(&choice, "op", cpu_device(), with_slow, NULL, 0, NULL, 0));
    cr_assert_str_eq(talc_chosen(&choice)->name, "fast");
    cr_assert(asked == 0, "asked %d times", asked);
    cr_assert(talc_choose(&choice, "op", cpu_device(), with_faster, NULL, 0, NULL, 0));
    cr_assert_str_eq(talc_chosen(&choice)->name, "fast");
    cr_assert(asked == 1, "asked %d times", asked);
    cr_assert(talc_choose(&choice, "op", cpu_device(), without, NULL, 0, NULL, 0));
    cr_assert_str_eq(talc_chosen(&choice)->name, "reference");
    cr_assert(!talc_choose(&choice, "op", cpu_device(), without, NULL, 0, "slow", 0));
    assert_failure(TALC_UNSUPPORTED, "op on cpu: slow: it is not installed");
    talc_explanation explanation;
    talc_choice_explain("op", cpu_device(), with_faster, NULL, NULL, 0, &explanation);
    cr_assert(explanation.chosen == 2);
    cr_assert_str_eq(explanation.candidates[1].reason, "it is not installed");
}

Test(choice, sixteen_ops_may_be_forced)
{
    char op[8];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 16; i++) {
            snprintf(op, sizeof op, "op%d", i);
            cr_assert(talc_algorithm_force(op, "reference"), "%s", talc_error_message());
        }
        cr_assert(talc_algorithm_force("op3", "rows"),
                  "an op that is forced already has its place");
        cr_assert_str_eq(talc_algorithm_forced("op3"), "rows");
        cr_assert(!talc_algorithm_force("op16", "reference"));
        assert_failure(TALC_BAD_ARGUMENT,
                       "algorithm_force: 16 ops are forced already, the most there may be");
        for (int i = 0; i < 16; i++) {
            snprintf(op, sizeof op, "op%d", i);
            cr_assert(talc_algorithm_force(op, NULL));
            cr_assert_null(talc_algorithm_forced(op));
        }
    }
}

static char ranges[256];

static void record_begin(talc_device *device, const char *name)
{
    snprintf(ranges + strlen(ranges), sizeof ranges - strlen(ranges), "<%s:%s", device->name, name);
}

static void record_end(talc_device *device)
{
    (void)device;
    snprintf(ranges + strlen(ranges), sizeof ranges - strlen(ranges), ">");
}

static int texts_written;

static void write_problem(const void *problem, char text[TALC_RUN_TEXT])
{
    texts_written++;
    snprintf(text, TALC_RUN_TEXT, "%s", (const char *)problem);
}

static talc_status frame(talc_device *device, talc_status status)
{
    talc_run run = talc_run_begin("op", device, algorithms[2].name, write_problem, "[2,3]");
    return talc_run_end(&run, status);
}

Test(choice, a_run_is_a_range_where_a_profiler_listens)
{
    talc_device_interface interface = *cpu_device()->interface;
    interface.range_begin = record_begin;
    interface.range_end = record_end;
    talc_device device = *cpu_device();
    device.interface = &interface;
    cr_assert(frame(&device, TALC_OK) == TALC_OK);
    cr_assert_str_eq(ranges, "");
    cr_assert(texts_written == 0, "a text that nobody reads is written");
    device.ranges = true;
    cr_assert(frame(&device, TALC_OK) == TALC_OK);
    cr_assert_str_eq(ranges, "<cpu:op large [2,3]>");
    cr_assert(frame(&device, TALC_BAD_SHAPE) == TALC_BAD_SHAPE);
    cr_assert_str_eq(ranges, "<cpu:op large [2,3]><cpu:op large [2,3]>", "one stays open");
}

/* What an elementwise algorithm was asked for last. */
static struct last_problem {
    int function, rank;
    talc_dtype dtype;
    int64_t of[4][TALC_MAX_RANK]; /* dimensions, strides of y and of the operands */
} last_problem;

static void remember(int function, talc_dtype dtype, int rank, const int64_t *const of[4])
{
    memset(&last_problem, 0, sizeof last_problem);
    last_problem.function = function;
    last_problem.dtype = dtype;
    last_problem.rank = rank;
    for (int i = 0; i < 4 && of[i] != NULL; i++)
        memcpy(last_problem.of[i], of[i], (size_t)rank * sizeof **of);
}

PLAN(plan_unary, NULL, const talc_unary_problem *p = problem;
     remember((int)p->function, p->dtype, p->rank,
              (const int64_t *const[]){ p->dims, p->y_strides, p->x_strides, NULL }))

PLAN(plan_binary, NULL, const talc_binary_problem *p = problem;
     remember((int)p->function, p->dtype, p->rank,
              (const int64_t *const[]){ p->dims, p->y_strides, p->a_strides, p->b_strides }))

static talc_status run_nothing(talc_device *device, const void *problem, const talc_plan *plan,
                               const void *arguments)
{
    (void)device, (void)problem, (void)plan, (void)arguments;
    return TALC_OK;
}

Test(choice, the_text_of_an_elementwise_problem_is_that_of_the_call)
{
    const talc_algorithm unary[] = {
        { "only", NULL, { "none", TALC_STRICT, false }, plan_unary, run_nothing }, { .name = NULL }
    };
    const talc_algorithm binary[] = {
        { "only", NULL, { "none", TALC_STRICT, false }, plan_binary, run_nothing }, { .name = NULL }
    };
    const struct talc_backend backend = {
        .name = "noting", .algorithms = { [TALC_OP_unary] = unary, [TALC_OP_binary] = binary }
    };
    talc_device device = *cpu_device();
    device.backend = &backend;
    talc_tensor *a = talc_zeros(&device, TALC_F32, TALC_DIMS(2, 3, 4));
    talc_tensor *column = talc_zeros(&device, TALC_F32, TALC_DIMS(3, 1));
    talc_tensor *transposed = talc_transpose(talc_zeros(&device, TALC_I32, TALC_DIMS(4, 3)), 0, 1);
    talc_tensor *doubles = talc_transpose(talc_zeros(&device, TALC_F64, TALC_DIMS(4, 3)), 0, 1);
    talc_tensor *vector = talc_zeros(&device, TALC_F64, TALC_DIMS(4));
    const struct {
        const char *text;
        talc_tensor *(*unary)(const talc_tensor *);
        talc_tensor *(*binary)(const talc_tensor *, const talc_tensor *);
        const talc_tensor *a, *b;
    } cases[] = {
        { "relu:2x3x4", talc_relu, NULL, a, NULL },
        { "neg:3x4_i32_reversed", talc_neg, NULL, transposed, NULL },
        { "add:2x3x4", NULL, talc_add, a, a },
        { "sub:2x3x4,3x1", NULL, talc_sub, a, column },
        { "mul:3x1,2x3x4_f32", NULL, talc_mul, column, a },
        { "div:3x4,4_reversed_f64", NULL, talc_div, doubles, vector },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].unary != NULL)
            cases[i].unary(cases[i].a);
        else
            cases[i].binary(cases[i].a, cases[i].b);
        cr_assert(!talc_failed(), "%s: %s", cases[i].text, talc_error_message());
        const struct last_problem called = last_problem;
        memset(&last_problem, 0, sizeof last_problem);
        talc_explanation e;
        cr_assert(talc_explain(&device, cases[i].text, NULL, &e), "%s", talc_error_message());
        cr_assert(e.count == 1 && e.chosen == 0 && strncmp(e.op, cases[i].text, strlen(e.op)) == 0);
        cr_assert(memcmp(&called, &last_problem, sizeof last_problem) == 0, "%s is another problem",
                  cases[i].text);
    }
}
