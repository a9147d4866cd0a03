#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/safetensors_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of a header and `data` zero bytes; `length` is what the first 8 bytes say. */
static const char *file_with(uint64_t length, const char *header, size_t header_bytes, size_t data)
{
    const char *path = file_path("made.safetensors");
    owned_char *bytes = calloc(1, 8 + header_bytes + data + 1);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i) & 0xff);
    memcpy(bytes + 8, header, header_bytes);
    file_write(path, bytes, 8 + header_bytes + data);
    return path;
}

static const char *file_of(const char *header, size_t data)
{
    return file_with(strlen(header), header, strlen(header), data);
}

/* Opening must fail with BAD_FORMAT and "safetensors_open: 'PATH': DUE". */
static void assert_refused(const char *path, const char *expected)
{
    cr_assert_null(talc_safetensors_open(path), "opened, though: %s", expected);
    assert_failure_with(TALC_BAD_FORMAT, "safetensors_open: '%s': %s", path, expected);
}

#define ENTRY(shape, begin, end)                                                                   \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}}"

Test(safetensors_hostile, headers_that_break_the_format_are_refused)
{
    static const char *const NO_SIZE =
        "tensor 'a': a shape whose size is no number of bytes below 2^60";
    static const char *const NO_SHAPE =
        "tensor 'a': \"shape\" holds something else than numbers from 0 to 2^63-1";
    static const char *const NO_OFFSETS =
        "tensor 'a': \"data_offsets\" are not two numbers from 0 to 2^63-1";
    static const char *const NO_OBJECT =
        "tensor 'a': no object of \"dtype\", \"shape\" and \"data_offsets\"";
    const struct {
        const char *header;
        size_t data;
        const char *expected; /* NULL: any text */
    } cases[] = {
        { " {}", 0, "the header does not begin with '{'" },
        { "[]", 0, "the header does not begin with '{'" },
        { "{\"a\"", 0, "the header ends within its object" },
        { "{\"a}", 0, "the header ends within its object" },
        { "{\"a\"}", 0, NULL },
        { "{}{}", 0, "the header goes on after its object" },
        { "{},{}", 0, "the header goes on after its object" },
        { "{}],[{}", 0, "the header goes on after its object" },
        { "{]", 0, NULL },
        { "{\"a\":\"\xff\xfe\"}", 0, NULL },
        { "{\"\xff\":1}", 0, NULL },
        { "{\"a\\u0000b\":1}", 0, NULL },
        { ENTRY("[1]", "0", "4") "x", 4, "the header goes on after its object" },
        /* Two of a name, and twice one key within an entry. */
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
          2, NULL },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          NULL },
        { "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, NULL },
        { "{\"__metadata__\":[]}", 0, "__metadata__ is no object" },
        { "{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ holds something else than strings" },
        { "{\"a\":3}", 0, NO_OBJECT },
        { "{\"a\":{}}", 0, NO_OBJECT },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":0}}", 1,
          NO_OBJECT },
        { "{\"a\":{\"type\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "tensor 'a': no string \"dtype\"" },
        { "{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "tensor 'a': no string \"dtype\"" },
        { "{\"a\\u001b\":{\"dtype\":\"f32\\n\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "tensor 'a\\x1b': unknown dtype 'f32\\x0a'" },
        { ENTRY("3", "0", "4"), 4, "tensor 'a': no array \"shape\"" },
        { ENTRY("[1,1,1,1,1,1,1,1,1]", "0", "4"), 4, "tensor 'a': a rank above 8" },
        { ENTRY("[-1]", "0", "4"), 4, NO_SHAPE },
        { ENTRY("[1.0]", "0", "4"), 4, NO_SHAPE },
        { ENTRY("[1e0]", "0", "4"), 4, NO_SHAPE },
        { ENTRY("[\"1\"]", "0", "4"), 4, NO_SHAPE },
        { ENTRY("[true]", "0", "4"), 4, NO_SHAPE },
        { ENTRY("[1.5]", "0", "4"), 4, NO_SHAPE },
        { ENTRY("[1]", "-4", "0"), 0, NO_OFFSETS },
        { ENTRY("[1]", "0", "4,8"), 4, NO_OFFSETS },
        { ENTRY("[1]", "0", "4.0"), 4, NO_OFFSETS },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}}", 4, NO_OFFSETS },
        /* Sizes past every integer: numbers, products, products that are zero after all. */
        { ENTRY("[2,18446744073709551614]", "0", "16"), 16, NULL },
        { ENTRY("[2,9223372036854775807]", "0", "16"), 16, NO_SIZE },
        { ENTRY("[4294967296,4294967296]", "0", "0"), 0, NO_SIZE },
        { ENTRY("[9223372036854775807,9223372036854775807,0]", "0", "0"), 0, NO_SIZE },
        { ENTRY("[0,9223372036854775807,9223372036854775807]", "0", "0"), 0, NO_SIZE },
        { "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, NO_SIZE },
        { ENTRY("[2]", "0", "4"), 4,
          "tensor 'a': [2] of F32 needs 8 bytes, data_offsets are [0,4]" },
        { ENTRY("[1]", "8", "4"), 8,
          "tensor 'a': [1] of F32 needs 4 bytes, data_offsets are [8,4]" },
        { ENTRY("[0]", "4", "0"), 4,
          "tensor 'a': [0] of F32 needs 0 bytes, data_offsets are [4,0]" },
        { ENTRY("[1]", "9223372036854775804", "9223372036854775807"), 4,
          "tensor 'a': [1] of F32 needs 4 bytes, data_offsets are "
          "[9223372036854775804,9223372036854775807]" },
        /* Holes, overlaps and data that no tensor has or that is not there. */
        { ENTRY("[1]", "4", "8"), 8,
          "tensor 'a' begins at byte 4 of the data, the one before it ends at 0" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
          9, "tensor 'b' begins at byte 5 of the data, the one before it ends at 4" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
          7, "tensor 'b' begins at byte 3 of the data, the one before it ends at 4" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
          4, "tensor 'b' begins at byte 0 of the data, the one before it ends at 4" },
        { ENTRY("[1]", "0", "4"), 5, "tensors of 4 bytes, but 5 bytes of data" },
        { ENTRY("[1]", "0", "4"), 2, "tensors of 4 bytes, but 2 bytes of data" },
        { "{}", 1, "tensors of 0 bytes, but 1 byte of data" },
        { "{\"a\":{\"dtype\":{\"x\":{}},\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "the header nests deeper than 3 levels" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = file_of(cases[i].header, cases[i].data);
        if (cases[i].expected != NULL) {
            assert_refused(path, cases[i].expected);
            continue;
        }
        cr_assert_null(talc_safetensors_open(path), "%s", cases[i].header);
        cr_assert(talc_error_status() == TALC_BAD_FORMAT &&
                      strstr(talc_error_message(), "the header is not JSON: byte "),
                  "%s: %s", cases[i].header, talc_error_message());
        talc_error_clear();
    }
}

Test(safetensors_hostile, lengths_that_do_not_fit_are_refused)
{
    const char *path = file_path("made.safetensors");
    file_write(path, "", 0);
    assert_refused(path, "0 bytes are too few for a safetensors file");
    file_write(path, "1234567", 7);
    assert_refused(path, "7 bytes are too few for a safetensors file");
    file_write(path, "\002\0\0\0\0\0\0\0{", 9);
    assert_refused(path, "9 bytes are too few for a safetensors file");
    assert_refused(file_with(0, "{}", 2, 0), "a header of 0 bytes in a file of 10");
    assert_refused(file_with(1, "{}", 2, 0), "a header of 1 byte in a file of 10");
    assert_refused(file_with(3, "{}", 2, 0), "a header of 3 bytes in a file of 10");
    assert_refused(file_with(UINT64_MAX, "{}", 2, 0),
                   "a header of 18446744073709551615 bytes in a file of 10");
    assert_refused(file_with(UINT64_MAX - 7, "{}", 2, 0),
                   "a header of 18446744073709551608 bytes in a file of 10");
    /* A sparse file of more than the header's limit. */
    cr_assert(truncate(file_with((16 << 20) + 1, "{}", 2, 0), (17 << 20)) == 0);
    assert_refused(path, "a header of 16777217 bytes, talc reads up to 16777216");
}

Test(safetensors_hostile, files_of_other_kinds_are_named)
{
#define BYTES(text) text, sizeof text - 1
    static const char page[] =
        "is an HTML page: download the file itself, not the page that shows it";
    static const char old[] =
        "is a pickle: torch.save a state_dict of it, which tools/torch/pt2safetensors.py converts";
    static const char gzip[] = "is compressed by gzip: gunzip it first";
    static const char sparse[600000] = "\x1f\x8b\x08";
    const struct {
        const char *bytes;
        size_t count;
        const char *is;
    } cases[] = {
        { BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"),
          "is a Git LFS pointer, which stands for the file: git lfs pull gets it" },
        { BYTES("<!DOCTYPE html>\n<html></html>"), page },
        { BYTES("\xef\xbb\xbf\r\n  <HTML><body>Not Found</body></HTML>"), page },
        { BYTES("PK\3\4\0\0\x08\x08\0\0archive/data.pkl"),
          "is a zip, as torch.save writes it: tools/torch/pt2safetensors.py converts a "
          "checkpoint" },
        { BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8P\x19."),
          "is a pickle, as torch.save wrote it: tools/torch/pt2safetensors.py converts a "
          "checkpoint" },
        { BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "is a PNG image" },
        { BYTES("\xff\xd8\xff\xe0\0\x10JFIF"), "is a JPEG image" },
        { BYTES("\x93NUMPY\1\0v\0{'descr'"), "is an array of NumPy's" },
        { BYTES("\x1f\x8b\x08\0\xf9\x20\x6a\x68\0\3abc"), gzip },
        /* `gzip -n` writes no time: a length of 559,903, which fits a longer file. */
        { sparse, sizeof sparse, gzip },
        { BYTES("\x80\4\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\1a\x94K\1s."), old },
        /* What was cut is none of these. */
        { BYTES("\x80\2\0\0\0\0\0\0{\"a\""), NULL },
    };
#undef BYTES
    const char *path = file_path("made.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_write(path, cases[i].bytes, cases[i].count);
        cr_assert_null(talc_safetensors_open(path));
        if (cases[i].is != NULL)
            assert_failure_with(TALC_BAD_FORMAT, "safetensors_open: '%s' %s", path, cases[i].is);
        else
            assert_failure_with(TALC_BAD_FORMAT,
                                "safetensors_open: '%s': a header of 640 bytes in a file of 12",
                                path);
    }
}

/* `count` copies of `part` between a beginning and an end. */
static const char *repeated(const char *begin, const char *part, size_t count, const char *end)
{
    const size_t length = strlen(begin) + count * strlen(part) + strlen(end);
    char *header = malloc(length + 1), *at = header;
    cr_assert_not_null(header);
    at += sprintf(at, "%s", begin);
    for (size_t i = 0; i < count; i++) {
        memcpy(at, part, strlen(part));
        at += strlen(part);
    }
    sprintf(at, "%s", end);
    const char *path = file_with(length, header, length, 0);
    free(header);
    return path;
}

Test(safetensors_hostile, headers_that_would_cost_much_are_refused_early)
{
    assert_refused(repeated("{\"a\":", "[", 1000000, ""), "the header nests deeper than 3 levels");
    assert_refused(repeated("{\"a\":{\"shape\":[", "1,", 1000000, "1]}}"),
                   "the header has an array of more than 64 elements");
    assert_refused(repeated("{\"a\":[", "{},", 1000000, "{}]}"),
                   "the header has more than 65536 tensors");
    assert_refused(repeated("{\"__metadata__\":{", "\"\":\"\",", 1000001, "\"\":\"\"}}"),
                   "the header has more than 1000000 commas");
    /* A bracket in a string, behind an escaped quote too, is no bracket. */
    const char *path = file_of("{\"__metadata__\":{\"a\":\"[[[[[[\\\"[[[\"}}", 0);
    owned_safetensors *file = talc_safetensors_open(path);
    cr_assert(file != NULL && strcmp(talc_safetensors_metadata(file, "a"), "[[[[[[\"[[[") == 0);
    char name[2048], header[2200], message[300];
    memset(name, 'n', 1025);
    name[1025] = '\0';
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", name);
    snprintf(message, sizeof message, "tensor '%.98s...%.98s': a name of more than 1024 bytes",
             name, name);
    assert_refused(file_of(header, 0), message);
}

Test(safetensors_hostile, there_are_at_most_65536_tensors)
{
    for (int count = 65536; count <= 65537; count++) {
        char *header = malloc((size_t)count * 64 + 3), *at = header;
        for (int i = 0; i < count; i++)
            at += sprintf(at, "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                          i == 0 ? '{' : ',', i);
        strcpy(at, "}");
        const char *path = file_of(header, 0);
        free(header);
        if (count > 65536) {
            assert_refused(path, "the header has more than 65536 tensors");
            continue;
        }
        owned_safetensors *file = talc_safetensors_open(path);
        cr_assert(talc_safetensors_count(file) == count);
        const int64_t found = talc_safetensors_find(file, "4711");
        cr_assert(strcmp(talc_safetensors_name(file, found), "4711") == 0);
    }
}

Test(safetensors_hostile, a_truncated_file_never_opens)
{
    for (size_t length = 0; length < sizeof REFERENCE - 1; length++) {
        const char *path = file_path("cut.safetensors");
        file_write(path, REFERENCE, length);
        cr_assert_null(talc_safetensors_open(path), "%zu bytes", length);
        cr_assert(talc_error_status() == TALC_BAD_FORMAT, "%zu bytes: %s", length,
                  talc_error_message());
        talc_error_clear();
    }
}

Test(safetensors_hostile, changed_bytes_never_do_harm)
{
    static const unsigned char changes[] = { 0x01, 0x02, 0x04, 0x10, 0x20, 0x40, 0x80, 0xff };
    const size_t header = 8 + 0xa8;
    const char *path = file_path("flipped.safetensors");
    char bytes[sizeof REFERENCE];
    for (size_t at = 0; at < header; at++)
        for (size_t c = 0; c < sizeof changes; c++) {
            memcpy(bytes, REFERENCE, sizeof bytes);
            bytes[at] = (char)(bytes[at] ^ changes[c]);
            file_write(path, bytes, sizeof REFERENCE - 1);
            owned_safetensors *file = talc_safetensors_open(path);
            for (int64_t i = 0; i < talc_safetensors_count(file); i++) {
                talc_release(talc_safetensors_read(file, i, cpu_device()));
                cr_assert(!talc_failed() || talc_error_status() == TALC_UNSUPPORTED, "byte %zu: %s",
                          at, talc_error_message());
                talc_error_clear();
            }
            cr_assert(!talc_failed() || talc_error_status() == TALC_BAD_FORMAT, "byte %zu: %s", at,
                      talc_error_message());
            talc_error_clear();
        }
}
