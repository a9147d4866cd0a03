#include "tensor/run.h"

#include "tensor/environment.h"
#include "tensor/pool.h"
#include "tensor/recording.h"

#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool traced(void)
{
    return (talc_environment()->verbose & TALC_VERBOSE_EXEC) != 0;
}

bool talc_run_is_watched(const talc_device *device)
{
    return device->ranges || traced() || talc_environment()->sync;
}

void talc_run_dims(const void *tensor, char text[TALC_RUN_TEXT])
{
    talc_dims_text(talc_dims_of(tensor), text);
}

static void begin_range(const talc_run *run)
{
    char text[TALC_RUN_TEXT], name[TALC_RUN_TEXT + 64];
    run->write(run->problem, text);
    snprintf(name, sizeof name, "%s %s %s", run->op, run->algorithm, text);
    run->device->interface->range_begin(run->device, name);
}

talc_run talc_run_begin(const char *op, talc_device *device, const char *algorithm,
                        talc_run_text *write, const void *problem)
{
    talc_run run = { op, algorithm, device, write, problem, traced() ? now() : 0 };
    if (device->ranges)
        begin_range(&run);
    return run;
}

/* Waits for the device; what shows there becomes a failure of this run. */
static talc_status finish(const talc_run *run)
{
    talc_status status =
        talc_device_waited(run->device, run->device->interface->synchronize(run->device));
    if (status == TALC_OK)
        return status;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", talc_error_message());
    talc_error_clear();
    return talc_fail(status, "%s by %s on %s: %s", run->op, run->algorithm, run->device->name,
                     reason);
}

talc_status talc_run_end(const talc_run *run, talc_status status)
{
    if (run->device->ranges)
        run->device->interface->range_end(run->device);
    if (status == TALC_OK && (traced() || talc_environment()->sync) &&
        !talc_recording_active(run->device))
        status = finish(run);
    if (traced()) {
        char field[TALC_RUN_TEXT];
        run->write(run->problem, field);
        for (char *at = field; *at != '\0'; at++) /* a shape's commas would end the field */
            *at = *at == ',' ? 'x' : *at;
        fprintf(stderr, "talc,exec,%s,%s,%s,%s,%.6f\n", run->device->name, run->op, run->algorithm,
                field, 1e3 * (now() - run->started));
    }
    return status;
}
