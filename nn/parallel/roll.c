#include "nn/parallel/roll.h"

#include "tensor/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

double talc_roll_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool talc_roll_absent(const talc_member *member, const char *what, const bool present[],
                      const char *one, const char *many, double seconds)
{
    char list[160] = "";
    size_t length = 0;
    int count = 0;
    for (int rank = 0; rank < member->size; rank++)
        if (!present[rank] && ++count > 0 && length < sizeof list - 12)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%d",
                                       count == 1 ? "" : ", ", rank);
    if (count > 0)
        talc_fail(TALC_PEER_LOST, "%s: rank%s %s of %d %s %g s", what, TALC_PLURAL(count), list,
                  member->size, count == 1 ? one : many, seconds);
    return count > 0;
}

void talc_roll_fail(const talc_member *member, const talc_place *own, const talc_place others[],
                    const bool answered[], double timeout)
{
    if (talc_roll_absent(member, own->what, answered, "does not answer for", "do not answer for",
                         timeout))
        return;
    for (int rank = 0; rank < member->size; rank++)
        if (rank != member->rank &&
            (others[rank].number != own->number || strcmp(others[rank].what, own->what) != 0)) {
            talc_fail(TALC_PEER_LOST,
                      "%s: this is call %" PRId64 " of rank %d, and rank %d is in %s, its call "
                      "%" PRId64,
                      own->what, own->number, member->rank, rank, others[rank].what,
                      others[rank].number);
            return;
        }
    talc_fail(TALC_PEER_LOST, "%s: nothing came of it within %g s, with all %d processes in it",
              own->what, timeout, member->size);
}
