/// A picture of one check: how much of its error bound each element of an output uses.
#ifndef TALC_TOOLS_CHECK_SVG_H
#define TALC_TOOLS_CHECK_SVG_H

#include <talc/talc.h>

/// The outcome that is drawn, with copies of all that it points to. Starts zeroed.
typedef struct check_picture {
    bool kept; ///< there is one
    talc_check_outcome outcome;
    char op[32], algorithm[32], device[24], problem[TALC_CHECK_TEXT], output[32], place[32];
    float *shares;
    int64_t count;
} check_picture;

/// For talc_check_options.observe, with a check_picture as the context: keeps the first failure that has shares, else the
/// outcome with the largest share.
void check_picture_observe(void *picture, const talc_check_outcome *outcome);

/// Writes it as an SVG document.
void check_picture_write(const check_picture *self, FILE *file);

void check_picture_free(check_picture *self);

#endif
