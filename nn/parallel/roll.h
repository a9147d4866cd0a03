/// Where the members of a group are when a call does not end. Private to nn/parallel.
#ifndef TALC_NN_PARALLEL_ROLL_H
#define TALC_NN_PARALLEL_ROLL_H

#include "nn/parallel/launcher.h"

/// Seconds that a member which has run out of time waits for the others to say where they are.
enum { TALC_ROLL_PATIENCE = 5 };

/// A member's last call of the group.
typedef struct talc_place {
    int64_t number;
    char what[120];
} talc_place;

/// Seconds of a clock that only goes forward.
double talc_roll_now(void);

/// Raises that those who are not `present` do nothing for `seconds`: "all_reduce: rank 1 of 3 does
/// not answer for 600 s", with `one` and `many` for "does not answer" and "do not answer". False:
/// all are present.
bool talc_roll_absent(const talc_member *member, const char *what, const bool present[],
                      const char *one, const char *many, double seconds);

/// Raises why a call has run out of time, by where the others are who answered: nowhere, or in
/// another call; else that nothing came of it.
void talc_roll_fail(const talc_member *member, const talc_place *own, const talc_place others[],
                    const bool answered[], double timeout);

#endif
