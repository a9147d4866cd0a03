/// What a program has to know of a model beside its weights: what it is called, what images it
/// takes and what its classes are. It is saved with a module, as strings of the file's metadata,
/// and comes back with it:
///
///     talc_model_info info = talc_dataset_info(photos, &loader_options);
///     info.network = "photos";
///     talc_module_describe(net, &info);
///     talc_module_save(net, "photos.safetensors");
///
///     talc_model_info *info = talc_model_info_read("photos.safetensors");
///
/// or talc_module_info after talc_module_load.
///
/// The keys are talc.network, talc.image ("3x224x224"), talc.mean and talc.deviation
/// ("0.485 0.456 0.406"), talc.classes (how many) and talc.class_names, one a line, a line's end in
/// a name written \n and a backslash \\.
#ifndef TALC_NN_INFO_H
#define TALC_NN_INFO_H

#include "module.h"

TALC_BEGIN_DECLARATIONS

/// Zero is what is not known.
typedef struct talc_model_info {
    const char *network; ///< its name: "lenet", one of the program's own
    int64_t channels, height,
        width; ///< of an image; without channels, mean and deviation are not known either
    double mean[4], deviation[4]; ///< of each channel, as talc_loader_options has them
    int64_t classes;
    const char *const *class_names; ///< [classes]; NULL: numbers
} talc_model_info;

/// Describes a module by a copy of this; NULL: by nothing. talc_module_save and
/// talc_checkpoint_save write it, where `module` is what they are given. Errors: NULL for module,
/// text that is not UTF-8, numbers out of range, names without a number of classes, no memory.
TALC_API bool talc_module_describe(talc_module *module, const talc_model_info *info);

/// What a module was described by, or read from a file. Borrowed, until it is described or loaded
/// anew; NULL: nothing.
TALC_API const talc_model_info *talc_module_info(const talc_module *module);

/// What a safetensors file says of its model, all zero where it says nothing. To be freed. NULL
/// with a failure: those of talc_safetensors_open, and metadata of these keys that are not what
/// talc writes.
TALC_API talc_model_info *talc_model_info_read(const char *path);
TALC_API void talc_model_info_free(talc_model_info *info); ///< NULL passes

TALC_END_DECLARATIONS

#endif
