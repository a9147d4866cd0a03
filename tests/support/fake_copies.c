#include "tests/support/fake_copies.h"

#include "backends/cpu/cpu.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_recording.h"

#include <string.h>

typedef struct operands {
    void *dst;
    const void *src;
    size_t bytes;
} operands;

static talc_status execute_copy(talc_device *device, const void *algorithm, const void *problem,
                                const void *arguments)
{
    (void)algorithm;
    const operands *o = arguments;
    return talc_cpu_copy(device, problem, o->dst, o->src);
}

static talc_status execute_join(talc_device *device, const void *algorithm, const void *problem,
                                const void *arguments)
{
    (void)algorithm;
    return talc_cpu_join(device, problem, ((const operands *)arguments)->dst);
}

static talc_status execute_fill(talc_device *device, const void *algorithm, const void *problem,
                                const void *arguments)
{
    (void)algorithm;
    return talc_cpu_fill(device, problem, ((const operands *)arguments)->dst);
}

static talc_status execute_random(talc_device *device, const void *algorithm, const void *problem,
                                  const void *arguments)
{
    (void)algorithm;
    return talc_cpu_random(device, problem, ((const operands *)arguments)->dst);
}

/* The host's bytes stand where other work has its problem. */
static talc_status execute_upload(talc_device *device, const void *algorithm, const void *bytes,
                                  const void *arguments)
{
    (void)device;
    (void)algorithm;
    const operands *o = arguments;
    memcpy(o->dst, bytes, o->bytes);
    return TALC_OK;
}

static talc_status execute_move(talc_device *device, const void *algorithm, const void *nothing,
                                const void *arguments)
{
    (void)device;
    (void)algorithm;
    (void)nothing;
    const operands *o = arguments;
    memcpy(o->dst, o->src, o->bytes);
    return TALC_OK;
}

/* Reads and writes the host's memory when the work runs, as a device does. */
talc_status fake_move(talc_device *device, void *dst, const void *src, size_t bytes)
{
    return fake_device_enqueue(device, execute_move, NULL, "", 0, &(operands){ dst, src, bytes },
                               sizeof(operands));
}

talc_status fake_copy(talc_device *device, const talc_copy_problem *problem, void *dst,
                      const void *src)
{
    return fake_device_enqueue(device, execute_copy, NULL, problem, sizeof *problem,
                               &(operands){ dst, src, 0 }, sizeof(operands));
}

talc_status fake_join(talc_device *device, const talc_join_problem *problem, void *dst)
{
    return fake_device_enqueue(device, execute_join, NULL, problem, sizeof *problem,
                               &(operands){ dst, NULL, 0 }, sizeof(operands));
}

talc_status fake_fill(talc_device *device, const talc_fill_problem *problem, void *dst)
{
    return fake_device_enqueue(device, execute_fill, NULL, problem, sizeof *problem,
                               &(operands){ dst, NULL, 0 }, sizeof(operands));
}

talc_status fake_random(talc_device *device, const talc_random_problem *problem, void *dst)
{
    if (problem->counter == NULL)
        fake_recording_break(device); /* it would draw the same numbers again */
    return fake_device_enqueue(device, execute_random, NULL, problem, sizeof *problem,
                               &(operands){ dst, NULL, 0 }, sizeof(operands));
}

talc_status fake_upload(talc_device *device, void *dst, const void *host, size_t bytes)
{
    fake_recording_break(device);
    return fake_device_enqueue(device, execute_upload, NULL, host, bytes,
                               &(operands){ dst, NULL, bytes }, sizeof(operands));
}
