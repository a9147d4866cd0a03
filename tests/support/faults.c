#include "tests/support/faults.h"

#include "tensor/memory.h"
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"

#include <stdlib.h>
#include <string.h>

// ---- The hook -----------------------------------------------------------------------------------

static struct {
    long asked, fail_at;
    bool persistent;
    bool fired;
} faults;

static bool allow(size_t bytes)
{
    (void)bytes;
    faults.asked++;
    bool fails = faults.fail_at != 0 && (faults.asked == faults.fail_at ||
                                         (faults.persistent && faults.asked > faults.fail_at));
    faults.fired = faults.fired || fails;
    return !fails;
}

// ---- Results ------------------------------------------------------------------------------------

static char *reserve(fault_run *run, size_t bytes)
{
    if (run->size + bytes > run->capacity) {
        run->capacity = 2 * run->capacity + bytes;
        run->results = realloc(run->results, run->capacity);
        cr_assert_not_null(run->results);
    }
    return run->results + run->size;
}

void fault_keep(fault_run *run, const talc_tensor *tensor)
{
    size_t bytes = talc_nbytes(tensor);
    if (tensor != NULL && talc_to_host(tensor, reserve(run, bytes), bytes))
        run->size += bytes;
}

void fault_keep_bytes(fault_run *run, const void *bytes, size_t count)
{
    if (count > 0)
        memcpy(reserve(run, count), bytes, count);
    run->size += count;
}

typedef struct watched {
    const fault_scenario *scenario;
    talc_device *device;
    void *fixture;
    fault_run expected, inputs; /* undisturbed results, and the inputs before anything ran */
    size_t live_cpu, live_fake, live_other;
} watched;

static void assert_same_results(const watched *w, const fault_run *expected, const fault_run *got,
                                const char *what)
{
    cr_assert(
        expected->size == got->size &&
            (expected->size == 0 || memcmp(expected->results, got->results, expected->size) == 0),
        "%s on %s, allocation %ld%s: %s", w->scenario->name, w->device->name, faults.fail_at,
        faults.persistent ? " and all later" : "", what);
}

/* Runs once in a scope of its own; true when it failed, and the failure is cleared. */
static bool run_once(const watched *w, fault_run *run)
{
    *run = (fault_run){ .device = w->device, .fixture = w->fixture };
    owned_scope *scope = talc_scope_enter();
    cr_assert_not_null(scope);
    faults.asked = 0;
    faults.fired = false;
    talc_allocation_hook = allow;
    w->scenario->run(run);
    talc_allocation_hook = NULL;
    bool failed = talc_failed();
    if (failed) {
        cr_assert(talc_error_status() == TALC_NO_MEMORY &&
                      strstr(talc_error_message(), "out of") != NULL,
                  "%s on %s, allocation %ld: %s: %s", w->scenario->name, w->device->name,
                  faults.fail_at, talc_status_text(talc_error_status()), talc_error_message());
        talc_error_clear();
    }
    return failed;
}

static void keep_inputs(const watched *w, fault_run *inputs)
{
    *inputs = (fault_run){ .device = w->device, .fixture = w->fixture };
    owned_scope *scope = talc_scope_enter();
    if (w->scenario->inputs != NULL)
        w->scenario->inputs(inputs);
}

static void assert_as_before(const watched *w)
{
    size_t live[] = { talc_device_memory(cpu_device()).live, talc_device_memory(fake_device()).live,
                      talc_device_memory(other_fake_device()).live };
    cr_assert(
        live[0] == w->live_cpu && live[1] == w->live_fake && live[2] == w->live_other,
        "%s on %s, allocation %ld%s: live bytes cpu %zu -> %zu, fake %zu -> %zu, fake:1 %zu -> %zu",
        w->scenario->name, w->device->name, faults.fail_at,
        faults.persistent ? " and all later" : "", w->live_cpu, live[0], w->live_fake, live[1],
        w->live_other, live[2]);
    fault_run inputs;
    keep_inputs(w, &inputs);
    assert_no_failure();
    assert_same_results(w, &w->inputs, &inputs, "an input changed");
    free(inputs.results);
}

/* One k; false when the scenario asks for fewer allocations than k. */
static bool survives(const watched *w, int *failures)
{
    fault_run run;
    bool failed = run_once(w, &run);
    bool fired = faults.fired;
    *failures += failed;
    cr_assert(fired || !failed);
    if (!failed)
        assert_same_results(w, &w->expected, &run, "it claims success with other results");
    free(run.results);
    assert_as_before(w);

    if (failed) {
        long fail_at = faults.fail_at;
        faults.fail_at = 0;
        bool failed_again = run_once(w, &run);
        faults.fail_at = fail_at;
        cr_assert(!failed_again, "%s on %s: the retry after allocation %ld fails",
                  w->scenario->name, w->device->name, fail_at);
        assert_same_results(w, &w->expected, &run, "the retry gives other results");
        free(run.results);
        assert_as_before(w);
    }
    return fired;
}

int assert_survives_allocation_failures(const fault_scenario *scenario, talc_device *device)
{
    talc_scope *scope = talc_scope_enter();
    watched w = { .scenario = scenario, .device = device };
    w.fixture = scenario->begin == NULL ? NULL : scenario->begin(device);
    assert_no_failure();
    w.live_cpu = talc_device_memory(cpu_device()).live;
    w.live_fake = talc_device_memory(fake_device()).live;
    w.live_other = talc_device_memory(other_fake_device()).live;
    keep_inputs(&w, &w.inputs);
    assert_no_failure();

    faults.fail_at = 0;
    faults.persistent = false;
    bool failed = run_once(&w, &w.expected);
    cr_assert(!failed, "%s on %s fails undisturbed", scenario->name, device->name);
    cr_assert(w.expected.size > 0 || scenario->inputs == NULL, "%s keeps no result",
              scenario->name);
    assert_as_before(&w);

    int failures = 0;
    for (int persistent = 0; persistent < 2; persistent++) {
        faults.persistent = persistent != 0;
        for (faults.fail_at = 1; survives(&w, &failures); faults.fail_at++)
            cr_assert(faults.fail_at < 100000);
    }
    if (scenario->end != NULL)
        scenario->end(w.fixture);
    free(w.expected.results);
    free(w.inputs.results);
    talc_scope_leave(scope);
    assert_no_failure();
    return failures;
}

void assert_survives_everywhere(const fault_scenario *scenario, int at_least)
{
    talc_device *devices[] = { cpu_device(), fake_device() };
    for (int i = 0; i < 2; i++) {
        int failures = assert_survives_allocation_failures(scenario, devices[i]);
        cr_assert(failures >= at_least, "%s on %s: only %d failures, at least %d are expected",
                  scenario->name, devices[i]->name, failures, at_least);
    }
}
