/// The choice among an op's rows. Private to talc.
///
/// Every op chooses the same way, so that forcing, precision, workspace limits, messages and TALC_VERBOSE mean the
/// same everywhere:
///
///     talc_choice choice = talc_choice_begin("softmax", device, NULL, 0);
///     const talc_softmax_algorithm *row = device->backend->softmax;
///     for (; row != NULL && row->algorithm.name != NULL; row++)
///         if (talc_choice_admits(&choice, &row->algorithm, row->refuses(problem), 0))
///             return row;
///     talc_choice_fail(&choice);
///     return NULL;
#ifndef TALC_OPS_CHOICE_H
#define TALC_OPS_CHOICE_H

#include "ops/algorithm.h"
#include "tensor/storage.h"

/// More rows than that are refused without being told of.
#define TALC_MAX_REFUSED 16

typedef struct talc_choice {
    const char *op;
    talc_device *device;
    const char *forced; ///< NULL: the list's order decides
    unsigned precision; ///< admitted classes
    size_t limit;       ///< workspace bytes
    bool forced_seen;
    /// The rows refused so far, of which talc_choice_fail tells. Few calls fail, so the text is written there.
    int refused_count;
    struct {
        const talc_algorithm *row;
        const char *refusal;
        size_t workspace;
    } refused[TALC_MAX_REFUSED];
} talc_choice;

/// `forced` is the caller's own choice, NULL for the thread's; classes 0 for the thread's.
talc_choice talc_choice_begin(const char *op, talc_device *device, const char *forced,
                              unsigned precision);

/// Why this row may not run; NULL when it may: another is forced, its own `refusal` (NULL for none), its precision
/// class, or the `workspace` it would use under the limit. Notes nothing.
const char *talc_choice_refusal(const talc_choice *choice, const talc_algorithm *row,
                                const char *refusal, size_t workspace, char text[96]);

/// Whether the row runs. Notes the reason when it does not; `refusal` lasts as long as the choice.
bool talc_choice_admits(talc_choice *choice, const talc_algorithm *row, const char *refusal,
                        size_t workspace);

/// Raises TALC_UNSUPPORTED with every row's reason.
talc_status talc_choice_fail(const talc_choice *choice);

#endif
