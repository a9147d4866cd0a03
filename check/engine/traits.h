/// What problems have in common, so that a report can say where an algorithm fails. Private to
/// check/.
#ifndef TALC_CHECK_ENGINE_TRAITS_H
#define TALC_CHECK_ENGINE_TRAITS_H

#include "check/engine/family.h"

enum { CHECK_TRAITS = 13, CHECK_TRAITS_TEXT = 256 };

/// Problems that an algorithm ran, and those of them that it failed but for relations, which pose
/// variants: all, and with each trait.
typedef struct check_tally {
    int64_t ran, failed;
    int64_t ran_with[CHECK_TRAITS], failed_with[CHECK_TRAITS];
    bool own; ///< the algorithm is in no table
              ///<
} check_tally;

/// Counts a problem.
void talc_check_tally_add(check_tally *tally, const check_direction *direction,
                          const check_problem *problem, bool failed);
void talc_check_tally_join(check_tally *tally, const check_tally *other);

/// "; all have groups > 1, as have 2 that pass": what the problems that failed have in common and
/// others do not, at most two traits, those first that the fewest others have. "" where there is
/// nothing.
const char *talc_check_traits_text(const check_tally *tally, char text[CHECK_TRAITS_TEXT]);

#endif
