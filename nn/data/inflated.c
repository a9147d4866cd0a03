#include "nn/data/inflated.h"

#include "tensor/memory.h"

#include <inttypes.h>
#include <string.h>

enum {
    BUFFER_BYTES = 64 << 10,
    GZIP_WINDOW = 16 + 15, /* zlib's way to ask for gzip, with windows of any size */
    MAX_RATIO = 1032       /* deflate's: 258 bytes take at least two bits */
};

static void *allocate(void *opaque, unsigned items, unsigned size)
{
    return talc_memory_new((size_t)items * size, opaque);
}

static void release(void *opaque, void *memory)
{
    (void)opaque;
    talc_memory_free(memory);
}

static talc_status begin_inflating(talc_inflated *in)
{
    in->buffer = talc_memory_new(BUFFER_BYTES, in->who);
    if (in->buffer == NULL)
        return talc_error_status();
    /* zlib hands it back, and only reads it: the name of the function that reads. */
    in->stream.opaque = (void *)(uintptr_t)in->who;
    in->stream.zalloc = allocate;
    in->stream.zfree = release;
    if (inflateInit2(&in->stream, GZIP_WINDOW) == Z_OK)
        return TALC_OK;
    talc_memory_free(in->buffer);
    return talc_fail(TALC_UNSUPPORTED, "%s: zlib does not start", in->who);
}

talc_status talc_inflated_open(talc_inflated *in, const char *who, const char *path)
{
    *in = (talc_inflated){ .who = who };
    if (talc_file_open(&in->file, who, path) != TALC_OK)
        return talc_error_status();
    uint8_t magic[2] = { 0 };
    talc_status status = TALC_OK;
    if (in->file.size >= (int64_t)sizeof magic)
        status = talc_file_read(&in->file, who, 0, magic, sizeof magic);
    in->gzip = magic[0] == 0x1f && magic[1] == 0x8b;
    if (status == TALC_OK && in->gzip)
        status = begin_inflating(in);
    if (status != TALC_OK)
        talc_file_close(&in->file);
    return status;
}

void talc_inflated_close(talc_inflated *in)
{
    if (in->gzip)
        (void)inflateEnd(&in->stream);
    talc_memory_free(in->buffer);
    talc_file_close(&in->file);
}

int64_t talc_inflated_max(const talc_inflated *in)
{
    int64_t max = in->file.size;
    if (in->gzip && !talc_multiply(in->file.size, MAX_RATIO, &max))
        max = INT64_MAX;
    return max;
}

/* The next bytes of the file, at most `capacity`. */
static talc_status more_of_file(talc_inflated *in, void *bytes, size_t capacity, size_t *got)
{
    const int64_t left = in->file.size - in->at;
    *got = (int64_t)capacity < left ? capacity : (size_t)left;
    const talc_status status = talc_file_read(&in->file, in->who, in->at, bytes, *got);
    in->at += (int64_t)*got;
    return status;
}

static talc_status inflate_step(talc_inflated *in)
{
    z_stream *stream = &in->stream;
    if (in->member_ended && inflateReset(stream) != Z_OK)
        return talc_fail(TALC_UNSUPPORTED, "%s: zlib does not start again", in->who);
    in->member_ended = false;
    const bool all_read = stream->avail_in == 0;
    const int result = inflate(stream, Z_NO_FLUSH);
    in->member_ended = result == Z_STREAM_END;
    if (result == Z_OK || result == Z_STREAM_END || (result == Z_BUF_ERROR && !all_read))
        return TALC_OK;
    if (result == Z_MEM_ERROR)
        return talc_fail(TALC_NO_MEMORY, "%s: out of host memory for zlib", in->who);
    return talc_fail(TALC_BAD_FORMAT, "%s: the gzip data of '%s' is damaged: %s", in->who,
                     TALC_SHOWN(in->file.path),
                     all_read              ? "it ends early"
                     : stream->msg != NULL ? stream->msg
                                           : "no deflate stream");
}

/* The next bytes of the content, at most `capacity`; none at its end. */
static talc_status more(talc_inflated *in, uint8_t *bytes, size_t capacity, size_t *got)
{
    if (!in->gzip)
        return more_of_file(in, bytes, capacity, got);
    z_stream *stream = &in->stream;
    *got = 0;
    capacity = capacity < TALC_MAX_PER_CALL ? capacity : TALC_MAX_PER_CALL;
    stream->next_out = bytes;
    stream->avail_out = (unsigned)capacity;
    while (stream->avail_out == capacity) {
        if (stream->avail_in == 0) {
            size_t read;
            if (more_of_file(in, in->buffer, BUFFER_BYTES, &read) != TALC_OK)
                return talc_error_status();
            stream->next_in = in->buffer;
            stream->avail_in = (unsigned)read;
        }
        /* Zeros that fill up a block are no member. */
        for (; in->member_ended && stream->avail_in > 0 && *stream->next_in == 0;
             stream->avail_in--)
            stream->next_in++;
        if (stream->avail_in == 0 && in->member_ended) {
            if (in->at < in->file.size)
                continue;
            break;
        }
        if (inflate_step(in) != TALC_OK)
            return talc_error_status();
    }
    *got = capacity - stream->avail_out;
    return TALC_OK;
}

talc_status talc_inflated_read(talc_inflated *in, void *bytes, size_t count)
{
    for (size_t done = 0, got; done < count; done += got) {
        if (more(in, (uint8_t *)bytes + done, count - done, &got) != TALC_OK)
            return talc_error_status();
        if (got == 0)
            return talc_fail(TALC_BAD_FORMAT, "%s: '%s' ends %zu byte%s too early", in->who,
                             TALC_SHOWN(in->file.path), count - done, TALC_PLURAL(count - done));
    }
    return TALC_OK;
}

talc_status talc_inflated_end(talc_inflated *in)
{
    uint8_t byte;
    size_t got;
    if (more(in, &byte, 1, &got) != TALC_OK)
        return talc_error_status();
    if (got != 0)
        return talc_fail(TALC_BAD_FORMAT, "%s: '%s' goes on after the last element", in->who,
                         TALC_SHOWN(in->file.path));
    return TALC_OK;
}
