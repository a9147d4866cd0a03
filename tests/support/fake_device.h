/// A device for the tests: memory the host cannot touch, work that runs late, and faults on demand.
///
/// Memory is pages that no host code may read or write: touching a tensor's data from the host is a
/// SIGSEGV, and so is an access past the end of a block or to a block that was given back. A fresh
/// block holds 0xFF bytes, which are NaN. Work (ops, copies, fills, random numbers, uploads) is
/// queued with its problem and arguments by value, and runs in order by the CPU's algorithms only
/// when something synchronizes, downloads or gives memory back to the system. Of several streams
/// all but talc_device_synchronize wait for the thread's own alone, and what that waits for: the
/// others' work stays where it is, as late as a device may be. Work that a thread records
/// (tensor/recording.h) is listed with it instead, and queued at each replay. So whatever touches
/// device memory from the host, or forgets to wait for the device, fails on every machine.
#ifndef TALC_TESTS_FAKE_DEVICE_H
#define TALC_TESTS_FAKE_DEVICE_H

#include "tensor/device.h"

/// The device named "fake", and another one named "fake:1". Opened when first asked for, and again
/// after a close.
talc_device *fake_device(void);
talc_device *other_fake_device(void);

/// How many pieces of work wait in the queue, and how many have run since the device was opened.
size_t fake_device_queued(const talc_device *device);
size_t fake_device_executed(const talc_device *device);

/// Makes the k-th piece of work from now on (1 is the next to be queued) fail when it runs: it
/// writes nothing, and the next call that synchronizes raises TALC_DEVICE_LOST. 0 takes that back.
void fake_device_fail_work(talc_device *device, size_t k);

/// Lets the device have at most `bytes` of memory; 0: any amount.
void fake_device_limit_memory(talc_device *device, size_t bytes);

/// Reads device memory as it is now, without waiting for the queue: what a forgotten
/// synchronization would see.
void fake_device_peek(talc_device *device, void *host, const void *src, size_t bytes);

/// Runs the queue, fails the test when the device has live bytes or an unread fault, and closes it.
void assert_fake_devices_freed(void);

#endif
