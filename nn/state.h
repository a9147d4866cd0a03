/// Names and tensors of a module in a file. Private to nn/.
#ifndef TALC_NN_STATE_H
#define TALC_NN_STATE_H

#include "nn/entries.h"
#include "tensor/safetensors.h"

/// Tensors to be saved. The names are owned.
typedef struct talc_names {
    talc_named_tensor *list;
    int count;
} talc_names;

/// Adds a tensor under a copy of `name` to a list with room for it.
bool talc_names_add(talc_names *names, const char *name, const talc_tensor *tensor);

/// Adds all of a module.
bool talc_names_add_module(talc_names *names, talc_module *module);

void talc_names_free(talc_names *names);

/// Checks the file's tensors against the module's and reads them, with nothing replaced yet: one for each of
/// talc_module_replacements, in the innermost scope. `strict` as for talc_module_load; names that begin with `besides`, not NULL,
/// and that the module has not are another one's. NULL with a failure.
talc_replacement *talc_state_read(const talc_safetensors *file, const char *path,
                                  talc_module *module, bool strict, const char *besides);

#endif
