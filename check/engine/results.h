/// What a check has found so far. Private to check/.
#ifndef TALC_CHECK_ENGINE_RESULTS_H
#define TALC_CHECK_ENGINE_RESULTS_H

#include "check/engine/traits.h"

enum { CHECK_MAX_FAILURES = 1000 };

struct talc_check {
    talc_check_options options;
    talc_device *device;
    talc_check_summary *summaries;
    int summary_count;
    size_t summary_capacity;
    check_tally *tallies; ///< of each summary
    size_t tally_capacity;
    talc_check_failure *failures;
    int failure_count;
    size_t failure_capacity;
    int64_t unmade;  ///< checks that could not be made
    int64_t untaken; ///< problems that no algorithm took
};

/// The summary of an algorithm on the check's device, new ones at the end; NULL with a failure. It
/// lasts until the next call.
talc_check_summary *talc_check_summary_of(talc_check *check, const char *op,
                                          const talc_algorithm *algorithm);

/// Adds what another check of the same device found, as if it had come after. False with a failure
/// without memory.
bool talc_check_join(talc_check *check, const talc_check *part);

/// The tally that belongs to an algorithm's summary, which there is.
check_tally *talc_check_tally_of(talc_check *check, const char *op,
                                 const talc_algorithm *algorithm);

/// Counts an outcome, keeps its failure, and hands it to the observer. False with a failure when
/// there is no memory.
bool talc_check_record(talc_check *check, const talc_algorithm *algorithm,
                       const talc_check_outcome *outcome);

#endif
