/// How much of its error bound each element of an output uses, for a look at where an error lies.
#ifndef TALC_TOOLS_CLI_CHECK_SHARES_H
#define TALC_TOOLS_CLI_CHECK_SHARES_H

#include <talc/talc.h>

/// One outcome's shares, and what they are of. Starts zeroed.
typedef struct check_shares {
    float *of; ///< row-major; NULL: none are kept
    talc_dims dims;
    bool passed;
    double share;   ///< the largest
    bool no_memory; ///< for some that were to be kept
    char what[TALC_CHECK_TEXT + 128];
} check_shares;

/// For talc_check_options.observe, with check_shares as the context: keeps those of the first
/// failure that has any, else those of the outcome with the largest share.
void check_shares_observe(void *context, const talc_check_outcome *outcome);

/// Writes them as a .npy file of f32, NaN where nothing was compared. False with a failure, also
/// when there are none.
bool check_shares_save(const check_shares *self, const char *path);

void check_shares_free(check_shares *self);

#endif
