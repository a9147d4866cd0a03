/// talc run NETWORK FILE|FOLDER ...: the likeliest classes of many images, of any sizes, one after
/// the other.
#ifndef TALC_TOOLS_CLI_RUN_FILES_H
#define TALC_TOOLS_CLI_RUN_FILES_H

#include "tools/cli/models.h"

/// How many classes of an image are shown where nobody says.
enum { RUN_TOP = 5 };

/// Runs the network on each path, of a folder on its *.png, *.jpg and *.jpeg in the order of their
/// names, and prints a table or JSON. What cannot be read is named on stderr, and in JSON, and the
/// others go on. `top` 0: RUN_TOP. Returns the exit code, TOOL_FAILED where one could not be read.
int run_files(const model_arguments *model, char **paths, int count, int64_t top,
              const char *labels);

#endif
