#include "tests/support/hooks.h"
#include "tests/support/plans.h"

#include "ops/choice.h"
#include "ops/registered.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* An algorithm that shows that it ran: every output is 42. */
static const char *plan_forward(const talc_device *device, const void *problem, size_t limit,
                                talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    return p->dtype == TALC_F32 ? NULL : "elements are not f32";
}

static talc_status run_42(talc_device *device, const void *problem, const talc_plan *plan,
                          const void *arguments)
{
    (void)device, (void)plan;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    for (int64_t i = 0; i < p->N * p->OC * p->OH * p->OW; i++)
        ((float *)a->y)[i] = 42;
    return TALC_OK;
}

static talc_own_algorithm own_named(const char *name)
{
    return (talc_own_algorithm){
        TALC_OWN_ALGORITHM_OF(conv2d),
        .device = "cpu",
        .algorithm = { name, NULL, { "nothing", TALC_STRICT, false }, plan_forward, run_42 },
    };
}

static talc_tensor *conv_by(const char *algorithm, talc_dtype dtype)
{
    talc_tensor *x = talc_ones(cpu_device(), dtype, TALC_DIMS(1, 2, 3, 3));
    talc_tensor *w = talc_ones(cpu_device(), dtype, TALC_DIMS(1, 2, 3, 3));
    return talc_conv2d(x, w, NULL, &(talc_conv2d_options){ .algorithm = algorithm });
}

/* Of ones, 2 channels and 3x3 taps: 18, or 42. */
static double one_output(const char *algorithm)
{
    talc_tensor *y = conv_by(algorithm, TALC_F32);
    return y == NULL ? -1 : *(const float *)talc_data_read(y, TALC_F32);
}

Test(own_algorithm, runs_where_it_does_not_refuse)
{
    const talc_own_algorithm mine = own_named("mine");
    cr_assert(one_output(NULL) == 18);
    cr_assert(talc_algorithm_register("conv2d", &mine));
    cr_assert(one_output(NULL) == 42);
    cr_assert(one_output("mine") == 42);
    cr_assert(one_output("im2col") == 18);
    cr_assert(one_output("reference") == 18);
    talc_tensor *y = conv_by(NULL, TALC_F64);
    cr_assert(*(const double *)talc_data_read(y, TALC_F64) == 18);
    cr_assert(conv_by("mine", TALC_F64) == NULL);
    assert_failure(TALC_UNSUPPORTED, "conv2d on cpu: mine: elements are not f32");
    cr_assert(talc_algorithm_force("conv2d", "mine"));
    cr_assert(one_output(NULL) == 42);
}

Test(own_algorithm, gradients_that_it_refuses_are_the_library_s)
{
    const talc_own_algorithm mine = own_named("mine");
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 2, 2));
    talc_tensor *w = talc_full(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 2, 2), 3);
    cr_assert(talc_algorithm_register("conv2d", &mine));
    talc_require_grad(x, true);
    talc_tensor *y = talc_conv2d(x, w, NULL, NULL);
    cr_assert(*(const float *)talc_data_read(y, TALC_F32) == 42);
    cr_assert(talc_backward(y));
    cr_assert(((const float *)talc_data_read(talc_grad(x), TALC_F32))[3] == 3);
}

Test(own_algorithm, is_explained_first_and_by_its_copied_texts)
{
    char name[8] = "mine", form[8] = "a form", text[8] = "f32";
    talc_own_algorithm mine = own_named(name);
    mine.algorithm.form = form;
    mine.algorithm.arithmetic.text = text;
    cr_assert(talc_algorithm_register("conv2d", &mine));
    memset(name, 'x', 4);
    memset(form, 'x', 6);
    memset(text, 'x', 3);
    memset(&mine, 0, sizeof mine);
    talc_explanation e;
    cr_assert(talc_explain(cpu_device(), "n1c2h3w3o1k3", NULL, &e));
    cr_assert(e.chosen == 0 && e.count == 7);
    cr_assert_str_eq(e.candidates[0].title, "mine(a form)");
    cr_assert_str_eq(e.candidates[0].arithmetic.text, "f32");
    cr_assert_str_eq(e.candidates[6].title, "reference");
    cr_assert(talc_explain(cpu_device(), "n1c2h3w3o1k3_dx", NULL, &e));
    cr_assert_str_eq(e.candidates[0].reason, "only the forward direction");
    cr_assert(one_output("mine(a form)") == 42);
}

Test(own_algorithm, the_last_that_was_registered_comes_first)
{
    const talc_own_algorithm first = own_named("first"), last = own_named("last");
    cr_assert(talc_algorithm_register("conv2d", &first));
    cr_assert(talc_algorithm_register("conv2d", &last));
    const talc_algorithm *list = talc_backend_algorithms(cpu_device()->backend, TALC_OP_conv2d);
    cr_assert_str_eq(list[0].name, "last");
    cr_assert_str_eq(list[1].name, "first");
    cr_assert_str_eq(list[2].name, cpu_device()->backend->algorithms[TALC_OP_conv2d][0].name);
}

/* A list of a backend of the test's own, which estimates, so that decisions are remembered. */
PLAN(plan_one, NULL, plan->seconds = 1)
PLAN(plan_two, NULL, plan->seconds = 2)
PLAN(plan_half, NULL, plan->seconds = 0.5)

static const talc_algorithm estimating[] = {
    { "one", NULL, { "f32", TALC_STRICT, false }, plan_one, run_42 },
    { "two", NULL, { "f32", TALC_STRICT, false }, plan_two, run_42 },
    { "reference", NULL, { "f64", TALC_STRICT, true }, talc_plan_any, run_42 },
    { .name = NULL },
};
static const talc_backend estimating_backend = {
    .name = "estimating",
    .algorithms = { [TALC_OP_conv2d] = estimating },
};

static const char *chosen(void)
{
    static const int64_t problem = 1;
    talc_choice choice;
    cr_assert(talc_choose(&choice, "conv2d", cpu_device(),
                          talc_backend_algorithms(&estimating_backend, TALC_OP_conv2d), &problem,
                          sizeof problem, NULL, 0));
    return talc_chosen(&choice)->name;
}

static bool add(const char *name,
                const char *(*plan)(const talc_device *, const void *, size_t, talc_plan *))
{
    talc_own_algorithm own = own_named(name);
    own.algorithm.plan = plan;
    return talc_registered_add(&estimating_backend, "conv2d", &own);
}

Test(own_algorithm, competes_by_its_estimate_and_no_earlier_decision_stands)
{
    cr_assert_str_eq(chosen(), "one");
    cr_assert_str_eq(chosen(), "one");
    cr_assert(add("slow", plan_two));
    cr_assert_str_eq(chosen(), "one");
    cr_assert(add("fast", plan_half));
    cr_assert_str_eq(chosen(), "fast");
    cr_assert_str_eq(chosen(), "fast");
    cr_assert(add("unknown", talc_plan_any), "one that does not estimate goes first");
    cr_assert_str_eq(chosen(), "unknown");
    cr_assert(one_output(NULL) == 18, "another backend's list");
}

static const char *plan_workspace(const talc_device *device, const void *problem, size_t limit,
                                  talc_plan *plan)
{
    (void)device, (void)problem, (void)limit;
    plan->workspace = 1000;
    talc_plan_store(plan, &(int){ 77 }, sizeof(int));
    return NULL;
}

/* Fails the call where it has not what it planned. */
static talc_status run_in_workspace(talc_device *device, const void *problem, const talc_plan *plan,
                                    const void *arguments)
{
    const talc_conv2d_arguments *a = arguments;
    if (a->base.workspace == NULL || (uintptr_t)a->base.workspace % 64 != 0 ||
        plan->workspace != 1000 || *(const int *)talc_plan_data(plan) != 77)
        return talc_fail(TALC_UNSUPPORTED, "mine: no workspace");
    memset(a->base.workspace, 0xFF, 1000);
    return run_42(device, problem, plan, arguments);
}

Test(own_algorithm, has_the_workspace_that_it_planned)
{
    talc_own_algorithm mine = own_named("mine");
    mine.algorithm.plan = plan_workspace;
    mine.algorithm.run = run_in_workspace;
    cr_assert(talc_algorithm_register("conv2d", &mine));
    cr_assert(one_output(NULL) == 42, "%s", talc_error_message());
    cr_assert(talc_workspace_set_limit(cpu_device(), 999));
    cr_assert(one_output(NULL) == 18);
    cr_assert(conv_by("mine", TALC_F32) == NULL);
    assert_failure(TALC_UNSUPPORTED,
                   "conv2d on cpu: mine: needs 1000 bytes of workspace, the limit is 999 bytes");
}

Test(own_algorithm, runs_where_its_class_is_admitted)
{
    talc_own_algorithm mine = own_named("mine");
    mine.algorithm.arithmetic.precision = TALC_TF32;
    cr_assert(talc_algorithm_register("conv2d", &mine));
    cr_assert(one_output(NULL) == 18);
    cr_assert(conv_by("mine", TALC_F32) == NULL);
    assert_failure(TALC_UNSUPPORTED,
                   "conv2d on cpu: mine tf32: precision class tf32 is not admitted");
    cr_assert(talc_precision_admit(TALC_TF32));
    cr_assert(one_output(NULL) == 42);
}

// ---- What is refused ----------------------------------------------------------------------------

static void refused(const char *op, const talc_own_algorithm *own, talc_status status,
                    const char *message)
{
    cr_assert(!talc_algorithm_register(op, own));
    assert_failure(status, message);
}

Test(own_algorithm, what_cannot_be_registered)
{
    talc_own_algorithm own = own_named("mine");
    refused(NULL, &own, TALC_NULL_ARGUMENT, "algorithm_register: op is NULL");
    refused("conv2d", NULL, TALC_NULL_ARGUMENT, "algorithm_register: own is NULL");
    own.version = 7;
    refused("conv2d", &own, TALC_BAD_ARGUMENT,
            "algorithm_register: talc_own_algorithm is of version 7, this talc has version 1");
    own = own_named("mine");
    own.device = NULL;
    refused("conv2d", &own, TALC_NULL_ARGUMENT, "algorithm_register: device is NULL");
    own.device = "gpu";
    refused("conv2d", &own, TALC_BAD_DEVICE,
            "algorithm_register: this talc has no backend 'gpu'; names are cpu, cuda");
    own.device = "cpu";
    refused("conv3d", &own, TALC_NOT_FOUND,
            "algorithm_register: there is no op 'conv3d'; there are batch_norm2d, binary, conv2d, "
            "cross_entropy, cumprod, cumsum, gather, group_norm, matmul, nll_loss, pool2d, reduce, "
            "resample, softmax, unary, unfold, update, where");
    char message[256];
    snprintf(message, sizeof message,
             "algorithm_register: the problem of softmax has %zu bytes, in this talc %zu; it was "
             "compiled for another",
             sizeof(talc_conv2d_problem), sizeof(talc_softmax_problem));
    refused("softmax", &own, TALC_BAD_ARGUMENT, message);
    own.arguments_bytes++;
    snprintf(message, sizeof message,
             "algorithm_register: the arguments' struct of conv2d has %zu bytes, in this talc %zu; "
             "it was compiled for another",
             sizeof(talc_conv2d_arguments) + 1, sizeof(talc_conv2d_arguments));
    refused("conv2d", &own, TALC_BAD_ARGUMENT, message);
    own = own_named("mine");
    own.plan_bytes = 8;
    snprintf(message, sizeof message,
             "algorithm_register: talc_plan of conv2d has 8 bytes, in this talc %zu; it was "
             "compiled for another",
             sizeof(talc_plan));
    refused("conv2d", &own, TALC_BAD_ARGUMENT, message);
    cr_assert(one_output(NULL) == 18);
}

Test(own_algorithm, what_an_algorithm_may_not_be)
{
#define WRONG(name, change, fault)                                                                 \
    do {                                                                                           \
        talc_own_algorithm own = own_named(name);                                                  \
        talc_algorithm *a = &own.algorithm;                                                        \
        (void)a;                                                                                   \
        change;                                                                                    \
        refused("conv2d", &own, TALC_BAD_ARGUMENT,                                                 \
                "algorithm_register: algorithm '" name "' of conv2d: " fault);                     \
    } while (0)
    WRONG("", a->name = NULL, "it has no name");
    WRONG("", , "it has no name");
    WRONG("a(b)", , "a name has letters, digits and _, a form also spaces and -");
    WRONG("a,b", , "a name has letters, digits and _, a form also spaces and -");
    WRONG("a b", , "a name has letters, digits and _, a form also spaces and -");
    WRONG("a", a->form = "b)", "a name has letters, digits and _, a form also spaces and -");
    WRONG("a", a->form = "", "its form is empty; NULL is none");
    WRONG("n123456789n123456789n123456789n123456789n123456789n123456789n123", ,
          "name(form) has more than 63 characters");
    WRONG("n123456789n123456789n123456789n123456789n123456789n123456789", a->form = "ab",
          "name(form) has more than 63 characters");
    WRONG("a", a->plan = NULL, "it has no function 'plan' or no 'run'");
    WRONG("a", a->run = NULL, "it has no function 'plan' or no 'run'");
    WRONG("a", a->arithmetic.text = NULL, "its arithmetic has no text");
    WRONG("a", a->arithmetic.precision = 0, "its arithmetic is not of one precision class");
    WRONG("a", a->arithmetic.precision = TALC_STRICT | TALC_TF32,
          "its arithmetic is not of one precision class");
    const talc_own_algorithm longest =
        own_named("n123456789n123456789n123456789n123456789n123456789n123456789n12");
    cr_assert(talc_algorithm_register("conv2d", &longest), "63 characters");
    cr_assert(one_output(longest.algorithm.name) == 42);
}

Test(own_algorithm, names_do_not_clash)
{
    talc_own_algorithm own = own_named("im2col");
    refused("conv2d", &own, TALC_BAD_ARGUMENT,
            "algorithm_register: conv2d on cpu has an algorithm 'im2col' already, of the library");
    own.algorithm.form = "mine";
    refused("conv2d", &own, TALC_BAD_ARGUMENT,
            "algorithm_register: conv2d on cpu has an algorithm 'im2col' already, of the library");
    own = own_named("mine");
    cr_assert(talc_algorithm_register("conv2d", &own));
    refused("conv2d", &own, TALC_BAD_ARGUMENT,
            "algorithm_register: conv2d on cpu has an algorithm 'mine' already");
    own.algorithm.form = "rows";
    cr_assert(talc_algorithm_register("conv2d", &own));
    refused("conv2d", &own, TALC_BAD_ARGUMENT,
            "algorithm_register: conv2d on cpu has an algorithm 'mine(rows)' already");
    own.algorithm.arithmetic.precision = TALC_TF32;
    cr_assert(talc_algorithm_register("conv2d", &own), "another class");
    own = (talc_own_algorithm){
        TALC_OWN_ALGORITHM_OF(softmax),
        .device = "cpu",
        .algorithm = { "im2col", NULL, { "f32", TALC_STRICT, false }, talc_plan_any, run_42 },
    };
    cr_assert(talc_algorithm_register("softmax", &own), "another op");
}

Test(own_algorithm, a_list_holds_no_more_than_can_be_explained)
{
    int count = 0;
    char name[16];
    for (; count < 100; count++) {
        snprintf(name, sizeof name, "own%d", count);
        const talc_own_algorithm own = own_named(name);
        if (!talc_algorithm_register("conv2d", &own))
            break;
    }
    assert_failure(TALC_UNSUPPORTED, "algorithm_register: conv2d on cpu has 32 algorithms, the "
                                     "most there may be");
    cr_assert(count == TALC_MAX_ALGORITHMS - 6, "%d", count);
    cr_assert(one_output("reference") == 18);
    cr_assert(one_output("own0") == 42);
}

Test(own_algorithm, without_memory_the_list_is_as_before)
{
    const talc_own_algorithm mine = own_named("mine");
    allow_allocations(0);
    const bool added = talc_algorithm_register("conv2d", &mine);
    cr_assert(allow_all_allocations() && !added);
    cr_assert(talc_error_status() == TALC_NO_MEMORY);
    talc_error_clear();
    cr_assert(one_output(NULL) == 18);
    cr_assert(talc_algorithm_register("conv2d", &mine));
    cr_assert(one_output(NULL) == 42);
}

// ---- Runs that fail -----------------------------------------------------------------------------

static talc_status run_without_a_failure(talc_device *device, const void *problem,
                                         const talc_plan *plan, const void *arguments)
{
    (void)device, (void)problem, (void)plan, (void)arguments;
    return TALC_NO_MEMORY;
}

static talc_status run_without_a_status(talc_device *device, const void *problem,
                                        const talc_plan *plan, const void *arguments)
{
    (void)device, (void)problem, (void)plan, (void)arguments;
    talc_fail(TALC_UNSUPPORTED, "mine: no");
    return TALC_OK;
}

static talc_status run_with_no_status(talc_device *device, const void *problem,
                                      const talc_plan *plan, const void *arguments)
{
    (void)device, (void)problem, (void)plan, (void)arguments;
    return (talc_status)-1;
}

Test(own_algorithm, a_run_that_fails_fails_the_call)
{
    static const struct {
        const char *name;
        talc_status (*run)(talc_device *, const void *, const talc_plan *, const void *);
        talc_status status;
        const char *message;
    } cases[] = {
        { "mute", run_without_a_failure, TALC_NO_MEMORY,
          "conv2d on cpu: 'mute' failed: out of host or device memory" },
        { "lax", run_without_a_status, TALC_UNSUPPORTED, "mine: no" },
        { "odd", run_with_no_status, TALC_BAD_ARGUMENT,
          "conv2d on cpu: 'odd' failed: unknown status" },
    };
    for (int i = 0; i < 3; i++) {
        talc_own_algorithm own = own_named(cases[i].name);
        own.algorithm.run = cases[i].run;
        cr_assert(talc_algorithm_register("conv2d", &own));
        cr_assert(conv_by(cases[i].name, TALC_F32) == NULL);
        assert_failure(cases[i].status, cases[i].message);
    }
}

// ---- Threads ------------------------------------------------------------------------------------

static atomic_bool over;

static void *convolve(void *wrong)
{
    while (!atomic_load(&over)) {
        talc_scope *scope = talc_scope_enter();
        const double got = one_output(NULL);
        if (got != 18 && got != 42)
            atomic_fetch_add((atomic_int *)wrong, 1);
        talc_scope_leave(scope);
    }
    return NULL;
}

Test(own_algorithm, others_compute_while_one_registers)
{
    pthread_t threads[3];
    atomic_int wrong = 0;
    for (int i = 0; i < 3; i++)
        cr_assert(pthread_create(&threads[i], NULL, convolve, &wrong) == 0);
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "own%d", i);
        const talc_own_algorithm own = own_named(name);
        cr_assert(talc_algorithm_register("conv2d", &own));
        cr_assert(one_output(name) == 42);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    cr_assert(atomic_load(&wrong) == 0);
}

// ---- The checks ---------------------------------------------------------------------------------

Test(own_algorithm, is_checked_by_its_name)
{
    const talc_own_algorithm mine = own_named("mine");
    cr_assert(talc_algorithm_register("conv2d", &mine));
    talc_check *check = talc_check_new(&(talc_check_options){ .device = cpu_device() });
    cr_assert(talc_check_problem(check, "n1c2h5w5o3k3"));
    cr_assert(!talc_check_passed(check));
    int found = 0;
    for (int i = 0; i < talc_check_summary_count(check); i++) {
        const talc_check_summary *s = talc_check_summary_at(check, i);
        found += strcmp(s->algorithm, "mine") == 0;
        cr_assert((s->failed > 0) == (strcmp(s->algorithm, "mine") == 0), "%s", s->algorithm);
    }
    cr_assert(found == 1);
    talc_check_free(check);
}
