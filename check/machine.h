/// How problems that are checked at once share the memory of host and device. Private to check/.
#ifndef TALC_CHECK_MACHINE_H
#define TALC_CHECK_MACHINE_H

#include "tensor/device.h"

/// Waits for `bytes` of the memory that was free, on the host and the device, when nothing was checked: those who share have a
/// quarter of the less, and who needs more has the machine alone. First come, first served.
void talc_check_machine_enter(talc_device *device, double bytes);

/// Gives them back.
void talc_check_machine_leave(double bytes);

#endif
