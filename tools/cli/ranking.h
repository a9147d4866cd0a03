/// The likeliest classes of images, with the names that they have.
#ifndef TALC_TOOLS_CLI_RANKING_H
#define TALC_TOOLS_CLI_RANKING_H

#include "tools/cli/tool.h"

typedef struct ranking {
    int64_t classes, top;     ///< how many there are, and how many are shown
    char **labels;            ///< of a file
    char *text;               ///< that they stand in
    const char *const *names; ///< the labels, or those of the weights' file; NULL: numbers
} ranking;

/// A class of an image.
typedef struct ranked {
    int64_t class;
    double probability;
} ranked;

/// Begins a ranking of a network's output, whose first `top` classes are shown, named by the lines
/// of the file `labels`, NULL: by what the weights' file says. False with a failure; ranking_end is
/// to be called in any case, of a zeroed one too.
bool ranking_begin(ranking *self, const char *network, const talc_tensor *output, int64_t top,
                   const char *labels, const talc_model_info *info);
void ranking_end(ranking *self);

/// The likeliest classes of each image of an output, [N, top], to be freed; NULL with a failure.
ranked *ranking_of(const ranking *self, const talc_tensor *output);

/// A class's name; NULL: it has none.
const char *ranking_name(const ranking *self, const ranked *of);

/// The likeliest classes of one image, as JSON: "class", "probability", "label".
json_t *ranking_json(const ranking *self, const ranked *of);

#endif
