/// Memory that samples are read into and changed in. Private to nn/data.
#ifndef TALC_NN_DATA_SCRATCH_H
#define TALC_NN_DATA_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

/// Memory that one thread works in from sample to sample; it grows, and whoever holds it frees it.
typedef struct talc_scratch {
    const char *who; ///< names the function in messages
    uint8_t *bytes[4];
    size_t capacity[4];
} talc_scratch;

/// What each of them is for: what a sample is read into, and what becomes of its image or its mask.
enum { TALC_SCRATCH_IMAGE, TALC_SCRATCH_TARGET, TALC_SCRATCH_FIRST, TALC_SCRATCH_SECOND };

/// At least so many bytes, of any content; NULL with a failure.
void *talc_scratch_bytes(talc_scratch *scratch, int which, size_t bytes);
void talc_scratch_free(talc_scratch *scratch);

#endif
