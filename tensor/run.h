/// The frame around all that runs on a device: a range for profilers, a line for TALC_VERBOSE=exec,
/// a wait for TALC_SYNC. Private to talc.
///
///     talc_run run = talc_run_begin("softmax", device, algorithm->name, talc_run_dims, x);
///     status = talc_run_end(&run, algorithm->run(device, problem, &arguments));
#ifndef TALC_TENSOR_RUN_H
#define TALC_TENSOR_RUN_H

#include "tensor/device.h"
#include "tensor/storage.h"

/// Writes a problem in few characters. Called only when somebody reads them: formatting costs as
/// much as a launch.
#define TALC_RUN_TEXT 320
typedef void talc_run_text(const void *problem, char text[TALC_RUN_TEXT]);

/// A talc_run_text for ops whose problem is best told by the shape of a tensor, the result or x.
talc_run_text talc_run_dims;

/// What a run needs to be timed, named in a fault, and traced.
typedef struct talc_run {
    const char *op;
    const char *algorithm;
    talc_device *device;
    talc_run_text *write;
    const void *problem;
    double started; ///< seconds; only with TALC_VERBOSE=exec
} talc_run;

/// Whether anybody reads what a run on the device is called: a profiler, TALC_VERBOSE=exec, or a
/// failure that waiting shows. Else its texts need not be written.
bool talc_run_is_watched(const talc_device *device);

/// Begins a run by an algorithm, or by what the device does for all ops alike ("copy"): where a
/// profiler listens, a range named "op algorithm problem". `problem` lasts until the end.
talc_run talc_run_begin(const char *op, talc_device *device, const char *algorithm,
                        talc_run_text *write, const void *problem);

/// Ends a run: waits under TALC_SYNC or TALC_VERBOSE=exec and prints the line
/// `talc,exec,device,op,algorithm,problem,ms`. Returns `status`, or what waiting showed. The
/// problem is printed with x for each comma.
talc_status talc_run_end(const talc_run *run, talc_status status);

#endif
