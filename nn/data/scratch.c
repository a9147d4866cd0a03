#include "nn/data/scratch.h"

#include "tensor/memory.h"

void *talc_scratch_bytes(talc_scratch *scratch, int which, size_t bytes)
{
    if (scratch->capacity[which] < bytes) {
        talc_memory_free(scratch->bytes[which]);
        scratch->bytes[which] = talc_memory_new(bytes, scratch->who);
        scratch->capacity[which] = scratch->bytes[which] == NULL ? 0 : bytes;
    }
    return scratch->bytes[which];
}

void talc_scratch_free(talc_scratch *scratch)
{
    for (int i = 0; i < (int)(sizeof scratch->bytes / sizeof *scratch->bytes); i++)
        talc_memory_free(scratch->bytes[i]);
    *scratch = (talc_scratch){ .who = scratch->who };
}
