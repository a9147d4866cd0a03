/// What the fake device does of tensor/recording.h: a list of work that a replay queues again.
#ifndef TALC_TESTS_FAKE_RECORDING_H
#define TALC_TESTS_FAKE_RECORDING_H

#include "tests/support/fake_backend.h"

/// Notes work when this thread records on the device; false when it does not.
bool fake_recording_add(const talc_device *device, fake_work *function, const void *algorithm,
                        const void *problem, size_t problem_bytes, const void *arguments,
                        size_t arguments_bytes);

/// Whether this thread records on the device.
bool fake_recording_active(const talc_device *device);

/// Notes that something was asked for that cannot be repeated, of which record_end tells; false
/// when nothing is recorded.
bool fake_recording_break(const talc_device *device);

/* Of the device interface. */
talc_status fake_record_begin(talc_device *device);
void *fake_record_end(talc_device *device);
talc_status fake_replay(talc_device *device, void *noted);
void fake_record_free(talc_device *device, void *noted);

#endif
