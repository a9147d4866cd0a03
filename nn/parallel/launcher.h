/// Who a process is among those that were started together. Private to nn/parallel.
#ifndef TALC_NN_PARALLEL_LAUNCHER_H
#define TALC_NN_PARALLEL_LAUNCHER_H

#include "nn/parallel.h"

typedef struct talc_member {
    int rank, size;
    const char *said_by; ///< the variable that says the size; "size" for the options
    const char *address; ///< of the options; NULL: none
} talc_member;

/// From the options, or else from the environment. False with a failure.
bool talc_member_find(const talc_group_options *options, talc_member *member);

/// Where rank 0 listens, "host:port", by the options, else MASTER_ADDR and MASTER_PORT, under
/// torchrun the port after it; empty where nothing says so. False, with a failure, where one of the
/// two is missing.
bool talc_member_address(const talc_member *member, char address[256]);

/// Has NCCL add up in rings alone, unless NCCL_ALGO says otherwise: the order of a sum then follows
/// from its size and the number of members, as it does not where switches add up.
void talc_member_prepare_nccl(void);

/// Whether a launcher of MPI started this process.
bool talc_member_of_mpi(void);

/// Of a group of one by the environment: false, with a failure, where Open MPI's launcher started
/// more processes than that.
bool talc_member_agrees_to_be_alone(const talc_member *member);

#endif
