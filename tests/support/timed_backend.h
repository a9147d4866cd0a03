/// The CPU with rows that estimate: conv2d and separable_conv2d by their textbook's loops, as long as a test says.
#ifndef TALC_TESTS_TIMED_BACKEND_H
#define TALC_TESTS_TIMED_BACKEND_H

#include "backends/cpu/cpu.h"
#include "tests/support/hooks.h"

/// The estimates of one convolution and of both as one; 0: none.
static double each_seconds, one_seconds;

/// The pointwise convolution has no estimate.
static bool pointwise_unknown;

static const char *each_plan(const talc_device *device, const void *problem, size_t limit,
                             talc_plan *plan)
{
    (void)device, (void)limit;
    const bool unknown = pointwise_unknown && ((const talc_conv2d_problem *)problem)->groups == 1;
    plan->seconds = unknown ? 0 : each_seconds;
    return NULL;
}

static const char *one_plan(const talc_device *device, const void *problem, size_t limit,
                            talc_plan *plan)
{
    (void)device, (void)problem, (void)limit;
    plan->seconds = one_seconds;
    return NULL;
}

static talc_algorithm each_rows[2], one_rows[2];
static struct talc_backend timed_backend;

/// Gives the CPU those rows until its process ends; both classes are strict.
static inline void use_timed_backend(void)
{
    talc_device *device = cpu_device();
    const talc_algorithm *conv2d = device->backend->conv2d;
    while (conv2d[1].name != NULL) /* `reference` is the last */
        conv2d++;
    timed_backend = *device->backend;
    each_rows[0] = *conv2d;
    each_rows[0].name = "each";
    each_rows[0].plan = each_plan;
    one_rows[0] = *device->backend->separable_conv2d;
    one_rows[0].name = "one";
    one_rows[0].plan = one_plan;
    timed_backend.conv2d = each_rows;
    timed_backend.separable_conv2d = one_rows;
    device->backend = &timed_backend;
}

#endif
