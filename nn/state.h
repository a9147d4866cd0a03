/// Names and tensors of a module in a file. Private to nn/.
#ifndef TALC_NN_STATE_H
#define TALC_NN_STATE_H

#include "nn/entries.h"
#include "nn/info.h"
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

/// Metadata for a file: keys and values of the caller's own, and what the module is described by;
/// freed by talc_memory_free, before the module. NULL with a failure.
const char **talc_info_metadata(const talc_module *module, const char *const *own);

/// What a file says of its model, to be freed; NULL with a failure.
talc_model_info *talc_info_read(const char *who, const char *path, const talc_safetensors *file);

/// Describes the module by this, which it takes over; NULL: by nothing.
void talc_module_take_info(talc_module *module, talc_model_info *info);

/// The same of what a file said, all zero where it said nothing, which changes nothing.
void talc_module_take_read(talc_module *module, talc_model_info *info);

/// How names begin that a checkpoint has beside its model's, and the metadata that makes a file a
/// checkpoint.
#define TALC_OPTIMIZER_NAMES "optimizer."
#define TALC_RUN_KEY         "talc.run"

/// Checks the file's tensors against the module's and reads them, with nothing replaced yet: one
/// for each of talc_module_replacements, in the innermost scope. Options and report, which may be
/// NULL, as for talc_module_load_with. NULL with a failure.
talc_replacement *talc_state_read(const talc_safetensors *file, const char *path,
                                  talc_module *module, const talc_load_options *options,
                                  talc_load_report *report);

#endif
