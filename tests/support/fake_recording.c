#include "tests/support/fake_recording.h"

#include "tests/support/hooks.h"

#include <stdlib.h>
#include <string.h>

typedef struct note {
    struct note *next;
    fake_work *function;
    const void *algorithm;
    void *problem, *arguments;
    size_t problem_bytes, arguments_bytes;
} note;

typedef struct notes {
    const talc_device *device;
    note *first, **last;
    bool broken;
} notes;

static _Thread_local notes *recording;

bool fake_recording_active(const talc_device *device)
{
    return recording != NULL && recording->device == device;
}

static void *copy_of(const void *bytes, size_t count)
{
    void *copy = malloc(count == 0 ? 1 : count);
    cr_assert(copy != NULL);
    memcpy(copy, bytes, count);
    return copy;
}

bool fake_recording_add(const talc_device *device, fake_work *function, const void *algorithm,
                        const void *problem, size_t problem_bytes, const void *arguments,
                        size_t arguments_bytes)
{
    if (!fake_recording_active(device))
        return false;
    const note made = { NULL,
                        function,
                        algorithm,
                        copy_of(problem, problem_bytes),
                        copy_of(arguments, arguments_bytes),
                        problem_bytes,
                        arguments_bytes };
    *recording->last = copy_of(&made, sizeof made);
    recording->last = &(*recording->last)->next;
    return true;
}

bool fake_recording_break(const talc_device *device)
{
    if (!fake_recording_active(device))
        return false;
    recording->broken = true;
    return true;
}

talc_status fake_record_begin(talc_device *device)
{
    cr_assert(recording == NULL, "fake device: a thread records twice at once");
    recording = copy_of(&(notes){ .device = device }, sizeof(notes));
    recording->last = &recording->first;
    return TALC_OK;
}

void fake_record_free(talc_device *device, void *noted)
{
    notes *of = noted;
    fake_device_finish(device); /* replays that still run */
    for (note *at = of->first, *next; at != NULL; at = next) {
        next = at->next;
        free(at->problem);
        free(at->arguments);
        free(at);
    }
    free(of);
}

void *fake_record_end(talc_device *device)
{
    notes *ended = recording;
    recording = NULL;
    if (!ended->broken)
        return ended;
    fake_record_free(device, ended);
    talc_fail(TALC_UNSUPPORTED, "fake: something was recorded that cannot be repeated");
    return NULL;
}

talc_status fake_replay(talc_device *device, void *noted)
{
    cr_assert(!fake_recording_active(device), "fake device: a replay is recorded");
    for (const note *at = ((const notes *)noted)->first; at != NULL; at = at->next)
        fake_device_enqueue(device, at->function, at->algorithm, at->problem, at->problem_bytes,
                            at->arguments, at->arguments_bytes);
    return TALC_OK;
}
