#include "nn/parallel/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const WHO = "group";

/* By whom, in the order in which they are asked: torchrun, Open MPI, MPICH and its like, Slurm. In
 * an allocation of Slurm, but outside of its steps, there is a size alone, which starts nothing. */
static const struct {
    const char *rank, *size;
    bool started_by_size;
} LAUNCHERS[] = {
    { "RANK", "WORLD_SIZE", true },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true },
    { "PMI_RANK", "PMI_SIZE", true },
    { "SLURM_PROCID", "SLURM_NTASKS", false },
};

static bool number_of(const char *name, int *number)
{
    const char *text = getenv(name);
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0 || value > INT_MAX) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s=%s is no number of processes", WHO, name, text);
        return false;
    }
    *number = (int)value;
    return true;
}

static bool ask(const char *rank, const char *size, talc_member *member)
{
    const char *missing = getenv(rank) == NULL ? rank : getenv(size) == NULL ? size : NULL;
    if (missing != NULL) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s is set, %s is not", WHO, missing == rank ? size : rank,
                  missing);
        return false;
    }
    member->said_by = size;
    return number_of(rank, &member->rank) && number_of(size, &member->size);
}

bool talc_member_find(const talc_group_options *options, talc_member *member)
{
    *member = (talc_member){ .rank = 0, .size = 1, .said_by = "size", .address = options->address };
    if (options->size != 0 || options->rank != 0) {
        member->rank = options->rank;
        member->size = options->size;
    } else {
        for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++)
            if (getenv(LAUNCHERS[i].rank) != NULL ||
                (LAUNCHERS[i].started_by_size && getenv(LAUNCHERS[i].size) != NULL)) {
                if (!ask(LAUNCHERS[i].rank, LAUNCHERS[i].size, member))
                    return false;
                break;
            }
    }
    if (member->size >= 1 && member->rank >= 0 && member->rank < member->size)
        return true;
    talc_fail(TALC_BAD_ARGUMENT, "%s: rank %d of %d: ranks are 0 .. size - 1", WHO, member->rank,
              member->size);
    return false;
}

bool talc_member_address(const talc_member *member, char address[256])
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    /* At the port itself torchrun's own process listens. */
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    const int taken = store != NULL && strcmp(store, "True") == 0;
    if (member->address != NULL)
        snprintf(address, 256, "%s", member->address);
    else if (host != NULL && port != NULL)
        snprintf(address, 256, "%s:%ld", host, strtol(port, NULL, 10) + taken);
    else if (host != NULL || port != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s is set, %s is not", WHO,
                  host != NULL ? "MASTER_ADDR" : "MASTER_PORT",
                  host != NULL ? "MASTER_PORT" : "MASTER_ADDR");
    return !talc_failed();
}

void talc_member_prepare_nccl(void)
{
    setenv("NCCL_ALGO", "Ring", 0);
}

bool talc_member_of_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL ||
           getenv("PMI_RANK") != NULL;
}

bool talc_member_agrees_to_be_alone(const talc_member *member)
{
    int started = 1;
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL)
        return true;
    if (number_of("OMPI_COMM_WORLD_SIZE", &started) && started != 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: 1 process by %s, but %d by OMPI_COMM_WORLD_SIZE", WHO,
                  member->said_by, started);
    return !talc_failed();
}
