/// A progress bar on stderr for work of more than a moment. It shows only when stderr is a
/// terminal, is redrawn at most ten times a second, and is wiped at the end.
#ifndef TALC_TOOLS_CLI_PROGRESS_H
#define TALC_TOOLS_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    int64_t total, done;
    double drawn; ///< when, on tool_clock
    bool shown;   ///< stderr is a terminal
} progress;

/// Starts work of `total` steps.
progress progress_begin(int64_t total);

/// One step is about to start: `what` says which.
void progress_step(progress *self, const char *what);

/// Wipes the bar.
void progress_end(progress *self);

#endif
