/// Decisions among algorithms that estimate, so that a repeated call costs a look-up. Private to
/// talc.
///
/// A decision is remembered with all that it was made from: the device, its list, the problem, the
/// workspace limit, the admitted classes and the name that was forced. The last few hundred are
/// there for all threads; where two threads ask at the same moment, one of them decides anew.
#ifndef TALC_OPS_DECISIONS_H
#define TALC_OPS_DECISIONS_H

#include "ops/choice.h"

/// What was decided for a choice that has begun, from `list` for a problem of so many bytes of
/// plain data; false when that is not known. Bytes between the problem's members count as well:
/// where they differ a decision is not found.
bool talc_decision_find(const talc_choice *choice, const talc_algorithm *list, const void *problem,
                        size_t bytes, talc_considered *found);

/// Remembers what was chosen; a large problem, or a long forced name, is not remembered.
void talc_decision_add(const talc_choice *choice, const talc_algorithm *list, const void *problem,
                       size_t bytes);

#endif
