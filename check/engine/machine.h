/// How problems that are checked at once share the memory of host and device. Private to check/.
#ifndef TALC_CHECK_ENGINE_MACHINE_H
#define TALC_CHECK_ENGINE_MACHINE_H

#include "tensor/device.h"

/// Waits until `bytes` of memory may be taken. The problems that are checked at once share a
/// quarter of what was free before them, on the host or on the device, whichever is less; one that
/// needs more waits until it is the only one. First come, first served.
void talc_check_machine_enter(talc_device *device, double bytes);

/// Gives them back.
void talc_check_machine_leave(double bytes);

#endif
