/// Shared objects of one's own: --load FILE.so.
#ifndef TALC_TOOLS_CLI_LOAD_H
#define TALC_TOOLS_CLI_LOAD_H

#include <stdbool.h>

/// Opens a shared object, calls its `start` and adds its network (talc/networks.h); one that was
/// loaded by the same path before is left alone. False with a failure of talc.
bool load_object(const char *path);

/// The same for every --load among a command's arguments, as they are wanted before these are
/// parsed: what a command does may follow from the name of a network.
bool load_objects(int argc, char **argv);

/// What loads them again: "--load 'a.so' --load 'b.so'"; NULL where there are none.
const char *load_arguments(void);

#endif
