/// Who a process is among those that were started together. Private to nn/parallel.
#ifndef TALC_NN_PARALLEL_LAUNCHER_H
#define TALC_NN_PARALLEL_LAUNCHER_H

#include "nn/parallel.h"

typedef struct talc_member {
    int rank, size;
    const char *said_by; ///< the variable that says the size; "size" for the options
} talc_member;

/// From the options, or else from the environment. False with a failure.
bool talc_member_find(const talc_group_options *options, talc_member *member);

/// Whether a launcher of MPI started this process.
bool talc_member_of_mpi(void);

#endif
