/// The example models that commands know by name.
#ifndef TALC_TOOLS_MODELS_H
#define TALC_TOOLS_MODELS_H

#include <talc/talc.h>

typedef struct tool_model {
    const char *name;
    talc_module *(*make)(void);
    int64_t image[3]; ///< C, H, W
    const char
        *references; ///< the reference rows of its ops that have others, for talc_check_model
} tool_model;

/// The model of that name; NULL when there is none. There are lenet, resnet20 and resnet20-b.
const tool_model *model_find(const char *name);

/// Random images for a model, on the CPU.
talc_tensor *model_images(const tool_model *model, int64_t batch);

#endif
