#define _GNU_SOURCE /* affinities */

#include "tests/support/files.h"
#include "tests/support/hooks.h"

#include "backends/cpu/device/threads.h"
#include "tensor/environment.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = { "TALC_VERBOSE", "TALC_SYNC",         "TALC_PRECISION",
                                         "TALC_THREADS", "TALC_WORKSPACE_MB", "TALC_DEVICE",
                                         "TALC_FUSE",    "TALC_CPU",          "TALC_AFFINITY" };

static const char *child_name, *child_value;
static void (*child_probe)(void);

static void probe_with_variable(void)
{
    alarm(20);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    if (child_name != NULL)
        setenv(child_name, child_value, 1);
    child_probe();
}

/* The variables are read once a process, so each case is a child: NAME=VALUE is set, `probe` runs,
 * and what the child wrote to stderr comes back. The parent asks talc nothing before its
 * children. */
static const char *stderr_of(const char *name, const char *value, void (*probe)(void))
{
    child_name = name;
    child_value = value;
    child_probe = probe;
    return file_stderr_of(probe_with_variable);
}

// ---- What is read, and what is refused ----------------------------------------------------------

static void print_cpu(void)
{
    fprintf(stderr, "cpu=%d\n", (int)talc_environment()->cpu);
}

static void print_values(void)
{
    for (int i = 0; i < 2; i++)
        talc_device_default(); /* asks twice: a warning comes once */
    const talc_environment_values *values = talc_environment();
    fprintf(stderr, "verbose=%u sync=%d precision=%u threads=%d workspace=%zu device=%s\n",
            values->verbose, values->sync, talc_precision_admitted(), values->threads,
            talc_workspace_limit(talc_device_get("cpu")), talc_device_name(talc_device_default()));
    if (values->threads > 0 && talc_threads() != values->threads)
        fprintf(stderr, "but %d threads\n", talc_threads());
}

#define DEFAULTS "verbose=0 sync=0 precision=1 threads=0 workspace=33554432 device=cpu\n"
#define NUMBERS  "it takes a number from 1 to 1024\n" DEFAULTS

Test(environment, values_are_read_and_unknown_ones_warn_once)
{
    unsetenv("TALC_DEVICE");
    const struct {
        const char *name, *value, *expected;
    } cases[] = {
        { "TALC_SYNC", "", DEFAULTS },
        { "TALC_SYNC", "0", DEFAULTS },
        { "TALC_SYNC", "1",
          "verbose=0 sync=1 precision=1 threads=0 workspace=33554432 device=cpu\n" },
        { "TALC_SYNC", "yes", "talc: TALC_SYNC=yes is ignored: it takes 0, 1\n" DEFAULTS },
        { "TALC_VERBOSE", "error",
          "verbose=1 sync=0 precision=1 threads=0 workspace=33554432 device=cpu\n" },
        { "TALC_VERBOSE", "exec,error,dispatch",
          "verbose=7 sync=0 precision=1 threads=0 workspace=33554432 device=cpu\n" },
        { "TALC_VERBOSE", "loud",
          "talc: TALC_VERBOSE=loud is ignored: it takes error, dispatch, exec\n" DEFAULTS },
        { "TALC_VERBOSE", "exec,loud",
          "talc: TALC_VERBOSE=exec,loud is ignored: it takes error, dispatch, exec\n" DEFAULTS },
        { "TALC_VERBOSE", "exe",
          "talc: TALC_VERBOSE=exe is ignored: it takes error, dispatch, exec\n" DEFAULTS },
        { "TALC_VERBOSE", "error,loud",
          "talc: TALC_VERBOSE=error,loud is ignored: it takes error, dispatch, exec\n" DEFAULTS },
        { "TALC_PRECISION", "tf32",
          "verbose=0 sync=0 precision=5 threads=0 workspace=33554432 device=cpu\n" },
        { "TALC_PRECISION", "strict,normwise,tf32",
          "verbose=0 sync=0 precision=7 threads=0 workspace=33554432 device=cpu\n" },
        { "TALC_PRECISION", "TF32",
          "talc: TALC_PRECISION=TF32 is ignored: it takes strict, normwise, tf32\n" DEFAULTS },
        { "TALC_PRECISION", "bf16",
          "talc: TALC_PRECISION=bf16 is ignored: it takes strict, normwise, tf32\n" DEFAULTS },
        { "TALC_THREADS", "", DEFAULTS },
        { "TALC_THREADS", "2x", "talc: TALC_THREADS=2x is ignored: " NUMBERS },
        { "TALC_THREADS", "3",
          "verbose=0 sync=0 precision=1 threads=3 workspace=33554432 device=cpu\n" },
        { "TALC_THREADS", "1024",
          "verbose=0 sync=0 precision=1 threads=1024 workspace=33554432 device=cpu\n" },
        { "TALC_THREADS", "0", "talc: TALC_THREADS=0 is ignored: " NUMBERS },
        { "TALC_THREADS", "-1", "talc: TALC_THREADS=-1 is ignored: " NUMBERS },
        { "TALC_THREADS", "1025", "talc: TALC_THREADS=1025 is ignored: " NUMBERS },
        { "TALC_THREADS", "1e9", "talc: TALC_THREADS=1e9 is ignored: " NUMBERS },
        { "TALC_THREADS", "99999999999999999999",
          "talc: TALC_THREADS=99999999999999999999 is ignored: " NUMBERS },
        { "TALC_WORKSPACE_MB", "5",
          "verbose=0 sync=0 precision=1 threads=0 workspace=5242880 device=cpu\n" },
        { "TALC_WORKSPACE_MB", "1048577",
          "talc: TALC_WORKSPACE_MB=1048577 is ignored: it takes a number from 1 to "
          "1048576\n" DEFAULTS },
        { "TALC_WORKSPACE_MB", "1.5",
          "talc: TALC_WORKSPACE_MB=1.5 is ignored: it takes a number from 1 to "
          "1048576\n" DEFAULTS },
        { "TALC_DEVICE", "cpu:0", DEFAULTS },
        { "TALC_DEVICE", "tpu",
          "talc: TALC_DEVICE=tpu is ignored: device_get: there is no device 'tpu'; names are cpu, "
          "cuda, "
          "cuda:N\n" DEFAULTS },
        { "TALC_DEVICE", "a-name-that-is-far-too-long",
          "talc: TALC_DEVICE=a-name-that-is-far-too-long is ignored: longer than any device "
          "name\n" DEFAULTS },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = stderr_of(cases[i].name, cases[i].value, print_values);
        /* Without TALC_DEVICE the default may be a GPU. */
        char *device = strstr(text, "device=cuda");
        if (device != NULL)
            strcpy(device, "device=cpu\n");
        cr_assert(strcmp(text, cases[i].expected) == 0, "%s=%s\n  gives: %s\n  expected: %s",
                  cases[i].name, cases[i].value, text, cases[i].expected);
    }
}

static void print_fuse(void)
{
    fprintf(stderr, "%d", talc_fusion_enabled());
    talc_fusion_enable(!talc_fusion_enabled());
    fprintf(stderr, "%d", talc_fusion_enabled());
}

Test(environment, vector_units_have_one_name)
{
    static const struct {
        const char *value, *printed;
    } cases[] = {
        { "", "cpu=0\n" },
        { "portable", "cpu=1\n" },
        { "avx2", "cpu=2\n" },
        { "avx512", "cpu=3\n" },
        { "AVX2", "talc: TALC_CPU=AVX2 is ignored: it takes portable, avx2, avx512\ncpu=0\n" },
        { "portable,avx2",
          "talc: TALC_CPU=portable,avx2 is ignored: it takes portable, avx2, avx512\ncpu=0\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(stderr_of("TALC_CPU", cases[i].value, print_cpu), cases[i].printed);
}

Test(environment, fusing_is_on_unless_it_is_switched_off)
{
    cr_assert_str_eq(stderr_of(NULL, NULL, print_fuse), "10");
    cr_assert_str_eq(stderr_of("TALC_FUSE", "1", print_fuse), "10");
    cr_assert_str_eq(stderr_of("TALC_FUSE", "0", print_fuse), "01");
    cr_assert_str_eq(stderr_of("TALC_FUSE", "no", print_fuse),
                     "talc: TALC_FUSE=no is ignored: it takes 0, 1\n10");
}

static atomic_int begun;

/* Waits for the other thread, so that each runs one, and says how many processors it may use. */
static void count_processors(void *counts, int64_t task, int worker)
{
    (void)task;
    cpu_set_t set;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&begun) < 2)
        sched_yield();
    ((int *)counts)[worker] = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

static void print_processors(void)
{
    int counts[2] = { 0, 0 };
    talc_set_threads(2);
    talc_cpu_parallel(2, count_processors, counts);
    fprintf(stderr, "%d %d", counts[0], counts[1]);
}

/* Of the process's processors, from 0. */
static void find_processor(void *context, int64_t task, int worker)
{
    cpu_set_t set;
    (void)task;
    if (worker != 1 || sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            *(int *)context = i;
}

/* The first thread but the caller of the process that is the second of its host. */
static void print_second_process(void)
{
    cpu_set_t all;
    int found = -1, before = 0;
    setenv("LOCAL_RANK", "1", 1);
    talc_set_threads(3);
    sched_getaffinity(0, sizeof all, &all);
    while (found < 0)
        talc_cpu_parallel(3, find_processor, &found);
    for (int i = 0; i < found; i++)
        before += CPU_ISSET(i, &all) != 0;
    fprintf(stderr, "%d", before);
}

Test(environment, threads_keep_to_a_processor_where_that_is_asked_for)
{
    char all[32], own[32];
    snprintf(all, sizeof all, "%d %d", talc_cpu_processors(), talc_cpu_processors());
    snprintf(own, sizeof own, "%d 1", talc_cpu_processors());
    cr_assert_str_eq(stderr_of(NULL, NULL, print_processors), all);
    cr_assert_str_eq(stderr_of("TALC_AFFINITY", "1", print_processors), own);
    snprintf(own, sizeof own, "%d", (3 + 1) % talc_cpu_processors());
    cr_assert_str_eq(stderr_of("TALC_AFFINITY", "1", print_second_process), own);
}

// ---- Calls win ----------------------------------------------------------------------------------

static void override_values(void)
{
    talc_set_threads(2);
    talc_workspace_set_limit(talc_device_get("cpu"), 99);
    fprintf(stderr, "%d %zu", talc_threads(), talc_workspace_limit(talc_device_get("cpu")));
}

Test(environment, calls_win_over_variables)
{
    cr_assert_str_eq(stderr_of("TALC_THREADS", "5", override_values), "2 99");
    cr_assert_str_eq(stderr_of("TALC_WORKSPACE_MB", "5", override_values), "2 99");
}

// ---- TALC_VERBOSE -------------------------------------------------------------------------------

static void pool_once(void)
{
    talc_tensor *x = talc_ones(talc_device_get("cpu"), TALC_F32, TALC_DIMS(1, 1, 4, 4));
    talc_tensor *indices;
    talc_max_pool2d_indices(x, &(talc_pool2d_options){ .kernel = { 2, 2 } }, &indices);
}

static void pool_wide_once(void)
{
    talc_tensor *x = talc_ones(talc_device_get("cpu"), TALC_F32, TALC_DIMS(1, 1, 1, 4000));
    talc_adaptive_avg_pool2d(x, 1, 1);
}

Test(environment, dispatch_lines_give_each_algorithm_and_why)
{
    cr_assert_str_eq(
        stderr_of("TALC_VERBOSE", "dispatch", pool_wide_once),
        "talc,dispatch,cpu,adaptive_avg_pool2d,rows,a window spans more than 2048 columns\n"
        "talc,dispatch,cpu,adaptive_avg_pool2d,reference,chosen\n");
    cr_assert_str_eq(stderr_of("TALC_VERBOSE", "error", pool_once), "");
    cr_assert_str_eq(stderr_of(NULL, NULL, pool_once), "");
}

static void fail_twice(void)
{
    talc_relu(NULL);
    talc_relu(NULL); /* the first failure stands, so this one raises none */
    talc_error_clear();
    talc_tensor *x = talc_ones(talc_device_get("cpu"), TALC_F32, TALC_DIMS(2));
    talc_view(x, TALC_DIMS(3));
    talc_error_clear();
}

Test(environment, error_lines_give_each_failure_once)
{
    cr_assert_str_eq(stderr_of("TALC_VERBOSE", "error", fail_twice),
                     "talc,error,relu: x is NULL\n"
                     "talc,error,view: [2] has 2 elements, shape [3] needs 3\n");
    cr_assert_str_eq(stderr_of(NULL, NULL, fail_twice), "");
}

static void relu_once(void)
{
    talc_relu(talc_ones(talc_device_get("cpu"), TALC_F32, TALC_DIMS(2, 3)));
}

Test(environment, exec_lines_have_seven_fields)
{
    const char *text = stderr_of("TALC_VERBOSE", "exec", pool_once);
    const char *expected = "talc,exec,cpu,max_pool2d,rows,n1c1h4w4o2x2k2x2s2x2p0x0,";
    const char *made = "talc,exec,cpu,fill,fill,[1x1x4x4],"; /* x */
    cr_assert(strncmp(text, made, strlen(made)) == 0, "%s", text);
    text = strchr(text, '\n') + 1;
    cr_assert(strncmp(text, expected, strlen(expected)) == 0, "%s", text);
    char *end;
    const double ms = strtod(text + strlen(expected), &end);
    cr_assert(ms >= 0 && ms < 10000 && strcmp(end, "\n") == 0, "%s", text);

    text = strchr(stderr_of("TALC_VERBOSE", "exec", relu_once), '\n') + 1; /* after x */
    int commas = 0;
    for (const char *at = text; *at != '\0'; at++)
        commas += *at == ',';
    cr_assert(commas == 6 && strncmp(text, "talc,exec,cpu,relu,", 19) == 0 &&
                  strstr(text, ",[2x3],") != NULL,
              "%s", text);
}
