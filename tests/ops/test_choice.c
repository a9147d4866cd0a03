#include "tests/support/hooks.h"

#include "ops/choice.h"
#include "tensor/run.h"

#include <stdio.h>
#include <string.h>

static const char *plan_large(const talc_device *device, const void *problem, size_t limit,
                              talc_plan *plan)
{
    (void)device, (void)problem, (void)limit;
    plan->workspace = 1 << 20;
    return NULL;
}

static const char *plan_odd(const talc_device *device, const void *problem, size_t limit,
                            talc_plan *plan)
{
    (void)device, (void)problem, (void)limit, (void)plan;
    return "it is odd";
}

/* A list as a backend may have it one day: most specialised first, classes mixed. */
static const talc_algorithm rows[] = {
    { .name = "fft", .arithmetic = { "FFT", TALC_NORMWISE, false }, .plan = talc_plan_any },
    { .name = "tensor_cores", .arithmetic = { "tf32", TALC_TF32, false }, .plan = talc_plan_any },
    { .name = "large", .arithmetic = { "f32", TALC_STRICT, false }, .plan = plan_large },
    { .name = "reference", .arithmetic = { "f64", TALC_STRICT, true }, .plan = talc_plan_any },
    { .name = NULL },
};

static const char *chosen_with(const char *forced, unsigned precision)
{
    talc_choice choice;
    return talc_choose(&choice, "op", cpu_device(), rows, NULL, forced, precision)
               ? talc_chosen(&choice)->name
               : "none";
}

Test(choice, the_first_row_of_an_admitted_class_that_fits_runs)
{
    cr_assert_str_eq(chosen_with(NULL, 0), "large");
    cr_assert_str_eq(chosen_with(NULL, TALC_TF32), "tensor_cores");
    cr_assert_str_eq(chosen_with(NULL, TALC_TF32 | TALC_NORMWISE), "fft");
    talc_workspace_set_limit(cpu_device(), (1 << 20) - 1);
    cr_assert_str_eq(chosen_with(NULL, 0), "reference");
    talc_workspace_set_limit(cpu_device(), 1 << 20);
    cr_assert_str_eq(chosen_with(NULL, 0), "large");
    assert_all_freed();
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
    assert_all_freed();
}

Test(choice, a_forced_row_runs_or_says_why_not)
{
    cr_assert_str_eq(chosen_with("reference", 0), "reference");
    cr_assert_str_eq(chosen_with("fft", 0), "none");
    assert_failure(TALC_UNSUPPORTED, "op on cpu: fft: precision class normwise is not admitted");
    cr_assert_str_eq(chosen_with("fft", TALC_NORMWISE), "fft");
    cr_assert_str_eq(chosen_with("magic", 0), "none");
    assert_failure(TALC_NOT_FOUND, "op on cpu: there is no algorithm 'magic'");
    talc_workspace_set_limit(cpu_device(), 1000);
    cr_assert_str_eq(chosen_with("large", 0), "none");
    assert_failure(TALC_UNSUPPORTED,
                   "op on cpu: large: needs 1.0 MB of workspace, the limit is 1.0 kB");

    cr_assert(talc_algorithm_force("op", "reference"));
    cr_assert_str_eq(chosen_with(NULL, TALC_NORMWISE), "reference");
    cr_assert_str_eq(chosen_with("fft", TALC_NORMWISE), "fft", "a call's choice does not win");
    cr_assert(talc_algorithm_force("op", NULL));
    cr_assert_str_eq(chosen_with(NULL, TALC_NORMWISE), "fft");
    assert_all_freed();
}

Test(choice, reasons_of_every_row_are_given)
{
    const talc_algorithm odd = { .name = "reference",
                                 .arithmetic = { "f64", TALC_STRICT, true },
                                 .plan = plan_odd };
    talc_algorithm refusing[] = { rows[0], rows[1], rows[2], odd, rows[4] };
    refusing[2].plan = plan_odd;
    talc_choice choice;
    cr_assert(!talc_choose(&choice, "op", cpu_device(), refusing, NULL, NULL, 0));
    assert_failure(TALC_UNSUPPORTED,
                   "op on cpu: fft: precision class normwise is not admitted; tensor_cores: "
                   "precision class tf32 is not admitted; large: it is odd; reference: it is odd");
    cr_assert(!talc_choose(&choice, "op", cpu_device(), NULL, NULL, NULL, 0));
    assert_failure(TALC_UNSUPPORTED, "op on cpu: this device has no algorithm for it");
    assert_all_freed();
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
    assert_all_freed();
}

static char ranges[256];

static void note_begin(talc_device *device, const char *name)
{
    snprintf(ranges + strlen(ranges), sizeof ranges - strlen(ranges), "<%s:%s", device->name, name);
}

static void note_end(talc_device *device)
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
    talc_run run = talc_run_begin("op", device, rows[2].name, write_problem, "[2,3]");
    return talc_run_end(&run, status);
}

Test(choice, a_run_is_a_range_where_a_profiler_listens)
{
    talc_device_interface interface = *cpu_device()->interface;
    interface.range_begin = note_begin;
    interface.range_end = note_end;
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
    assert_all_freed();
}
