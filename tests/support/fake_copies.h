/// What the fake device does apart from ops: copies, fills and random numbers, queued like
/// everything. Only its own files use this.
#ifndef TALC_TESTS_FAKE_COPIES_H
#define TALC_TESTS_FAKE_COPIES_H

#include "tensor/device.h"

/* Of the device interface; `move` is both ways of page-locked memory. */
talc_status fake_move(talc_device *device, void *dst, const void *src, size_t bytes);
talc_status fake_copy(talc_device *device, const talc_copy_problem *problem, void *dst,
                      const void *src);
talc_status fake_join(talc_device *device, const talc_join_problem *problem, void *dst);
talc_status fake_fill(talc_device *device, const talc_fill_problem *problem, void *dst);
talc_status fake_random(talc_device *device, const talc_random_problem *problem, void *dst);
talc_status fake_upload(talc_device *device, void *dst, const void *host, size_t bytes);

#endif
