/// Reading a file that may be compressed by gzip. Private to nn/data.
///
/// A file that begins with gzip's two bytes is inflated as it is read, member after member, with
/// zlib's checks, and without zeros behind a member; any other is read as it is. `who` names the
/// function in messages.
#ifndef TALC_NN_DATA_INFLATED_H
#define TALC_NN_DATA_INFLATED_H

#include "tensor/file.h"

#include <zlib.h>

typedef struct talc_inflated {
    talc_file file;
    const char *who;
    int64_t at; ///< bytes of the file that were read
    bool gzip;
    bool member_ended; ///< the stream stands between two members
    z_stream stream;
    uint8_t *buffer; ///< the compressed bytes that wait
} talc_inflated;

/// Opens a file. Errors: those of talc_file_open, no memory.
talc_status talc_inflated_open(talc_inflated *in, const char *who, const char *path);

/// Reads exactly `count` bytes; content that ends before that, or is damaged, is TALC_BAD_FORMAT.
talc_status talc_inflated_read(talc_inflated *in, void *bytes, size_t count);

/// Raises TALC_BAD_FORMAT where the content goes on.
talc_status talc_inflated_end(talc_inflated *in);

/// The most bytes that the whole content can have: deflate spends at least one bit on 129 bytes.
int64_t talc_inflated_max(const talc_inflated *in);

void talc_inflated_close(talc_inflated *in);

#endif
