#include "tests/support/files.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// clang-format off
/* Both written by numpy.save, NumPy 2.4. */
static const char ROW_MAJOR[] =
    "\223NUMPY\001\000v\000{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    "                                                          \n"
    "\000\000\300?\000\000\000\300\000\000@@\000\000\200@\000\000\240@\000\000\200\177";
static const char FORTRAN_BIG_ENDIAN[] =
    "\223NUMPY\001\000v\000{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }"
    "                                                           \n"
    "\000\000\000\000\000\000\000\003\000\000\000\001\000\000\000\004\000\000\000\002\000\000\000\005";
// clang-format on

/* A file of a version, a header and `data` bytes 0, 1, 2, ... */
static const char *file_of(int version, const char *header, size_t data)
{
    const char *path = file_path("made.npy");
    const size_t length = strlen(header), prefix = version == 1 ? 10 : 12;
    owned_char *bytes = calloc(1, prefix + length + data + 1);
    memcpy(bytes, "\223NUMPY", 6);
    bytes[6] = (char)version;
    for (size_t i = 8; i < prefix; i++)
        bytes[i] = (char)(length >> (8 * (i - 8)) & 0xff);
    memcpy(bytes + prefix, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[prefix + length + i] = (char)i;
    file_write(path, bytes, prefix + length + data);
    return path;
}

/* Loading must fail with `status` and "npy_load: 'PATH'DUE". */
static void assert_refused(const char *path, talc_status status, const char *expected)
{
    cr_assert_null(talc_npy_load(cpu_device(), path), "loaded, though %s", expected);
    assert_failure_with(status, "npy_load: '%s'%s", path, expected);
}

Test(npy, files_of_numpy_are_loaded)
{
    const char *path = file_path("numpy.npy");
    file_write(path, ROW_MAJOR, sizeof ROW_MAJOR - 1);
    talc_tensor *x = talc_npy_load(cpu_device(), path);
    assert_no_failure();
    const float expected[] = { 1.5f, -2, 3, 4, 5, INFINITY };
    cr_assert(x->rank == 2 && x->dims[0] == 2 && x->dims[1] == 3);
    cr_assert(memcmp(talc_data(x, TALC_F32), expected, sizeof expected) == 0);
    file_write(path, FORTRAN_BIG_ENDIAN, sizeof FORTRAN_BIG_ENDIAN - 1);
    x = talc_npy_load(cpu_device(), path);
    assert_no_failure();
    cr_assert(x->rank == 2 && x->dims[0] == 2 && x->dims[1] == 3);
    const int32_t *elements = talc_data(x, TALC_I32);
    for (int i = 0; i < 6; i++)
        cr_assert(elements[i] == i);
}

Test(npy, saving_gives_the_bytes_of_numpy)
{
    const float elements[] = { 1.5f, 4, -2, 5, 3, INFINITY };
    talc_tensor *x =
        talc_transpose(talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(3, 2), elements), 0, 1);
    const char *path = file_path("saved.npy");
    cr_assert(talc_npy_save(path, x));
    size_t count;
    owned_char *bytes = file_bytes(path, &count);
    cr_assert(count == sizeof ROW_MAJOR - 1 && memcmp(bytes, ROW_MAJOR, count) == 0);
    cr_assert(file_count() == 1);
}

Test(npy, what_is_saved_is_loaded)
{
    const talc_dims shapes[] = { TALC_SCALAR,
                                 TALC_DIMS(7),
                                 TALC_DIMS(0),
                                 TALC_DIMS(3, 0, 2),
                                 TALC_DIMS(300, 1000),
                                 TALC_DIMS(1, 2, 1, 2, 1, 2, 1, 3),
                                 TALC_DIMS(INT64_C(1) << 62, 0) };
    const char *path = file_path("round.npy");
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            if (shapes[s].dim[0] > 1000 && dtype != TALC_U8)
                continue;
            talc_tensor *x =
                talc_cast(talc_uniform(cpu_device(), TALC_F64,
                                       shapes[s].dim[0] > 1000 ? TALC_DIMS(0) : shapes[s], 0, 200),
                          (talc_dtype)dtype);
            x = shapes[s].dim[0] > 1000 ? talc_empty(cpu_device(), TALC_U8, shapes[s]) : x;
            cr_assert(talc_npy_save(path, x));
            talc_tensor *y = talc_npy_load(cpu_device(), path);
            assert_no_failure();
            cr_assert(y->dtype == x->dtype && talc_same_dims(x, y), "dtype %d, shape %zu", dtype,
                      s);
            cr_assert(talc_numel(x) == 0 ||
                      memcmp(talc_data(y, y->dtype), talc_data(x, x->dtype), talc_nbytes(x)) == 0);
            size_t count;
            owned_char *bytes = file_bytes(path, &count);
            cr_assert((count - talc_nbytes(x)) % 64 == 0 &&
                      bytes[count - talc_nbytes(x) - 1] == '\n');
        }
}

/* Headers that Python reads as the same dictionary; 2 x 3 bytes or elements each. */
Test(npy, unusual_headers_are_understood)
{
    static const struct {
        int version;
        const char *header;
        talc_dtype dtype;
        size_t data;
        double last; /* the last element, in row-major order */
    } cases[] = {
        { 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", TALC_U8, 6, 5 },
        { 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", TALC_U8, 6, 5 },
        { 2, "{\"shape\":(2L,3L,),\"descr\":\"|b1\",\"fortran_order\":False}   \n", TALC_U8, 6, 1 },
        { 3, "{ 'fortran_order' :\tTrue , 'shape' : ( 2 , 3 , ) , 'descr' : '<u1' , } \n", TALC_U8,
          6, 5 },
        { 1, "{'descr': 'u1', 'fortran_order': False, 'shape': (6,)}", TALC_U8, 6, 5 },
        { 1, "{'descr': '<i4', 'fortran_order': False, 'shape': ()}", TALC_I32, 4, 0x03020100 },
        { 1, "{'descr': '>i4', 'fortran_order': False, 'shape': ()}", TALC_I32, 4, 0x00010203 },
        { 1, "{'descr': '=i4', 'fortran_order': True, 'shape': ()}", TALC_I32, 4, 0x03020100 },
        { 1, "{'descr': '>i8', 'fortran_order': True, 'shape': (1,)}", TALC_I64, 8,
          0x0001020304050607 },
        { 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0)}", TALC_F64, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_tensor *x =
            talc_npy_load(cpu_device(), file_of(cases[i].version, cases[i].header, cases[i].data));
        assert_no_failure();
        cr_assert(x->dtype == cases[i].dtype && talc_nbytes(x) == cases[i].data, "%s",
                  cases[i].header);
        if (cases[i].data == 0)
            continue;
        talc_tensor *flat = talc_reshape(x, TALC_DIMS(-1));
        cr_assert(talc_item(talc_select(flat, 0, -1)) == cases[i].last, "%s", cases[i].header);
    }
}

/* Whatever byte a writer stores for true. */
Test(npy, booleans_are_0_or_1)
{
    static const char *const headers[] = {
        "{'descr': '|b1', 'fortran_order': False, 'shape': (256,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (256,), }",
    };
    for (int k = 0; k < 2; k++) {
        const talc_tensor *x = talc_npy_load(cpu_device(), file_of(1, headers[k], 256));
        assert_no_failure();
        for (int i = 0; i < 256; i++)
            cr_assert(talc_item_i64(talc_select(x, 0, i)) == (k == 0 ? i != 0 : i), "byte %d", i);
    }
}

#define HEADER(descr, order, shape)                                                                \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

Test(npy, headers_that_break_the_format_are_refused)
{
    static const struct {
        const char *header;
        size_t data;
        const char *expected;
    } cases[] = {
        { "", 0, ": '{' expected at byte 0 of the header: " },
        { "[]", 0, ": '{' expected at byte 0 of the header: []" },
        { "{}", 0, ": the header lacks 'descr', 'fortran_order' or 'shape'" },
        { "{'descr': '<f4', 'shape': ()}", 4,
          ": the header lacks 'descr', 'fortran_order' or 'shape'" },
        { "{'descr': '<f4', 'descr': '<f4'}", 4, ": the header has twice the key 'descr'" },
        { "{'descr': '<f4', 'more': 3}", 4, ": the header has the unknown key 'more'" },
        { "{,}", 4, ": a string expected at byte 1 of the header: ,}" },
        { "{'descr' '<f4'}", 4, ": ':' expected at byte 9 of the header: '<f4'}" },
        { "{'descr': '<f4' 'shape': ()}", 4,
          ": ',' or '}' expected at byte 16 of the header: 'shape': ()}" },
        { "{'descr': '<f4", 4,
          ": a string of at most 63 plain characters expected at byte 10 of the header: '<f4" },
        { "{'de\\x73cr': '<f4'}", 4,
          ": a string of at most 63 plain characters expected at byte 1 of the header: "
          "'de\\\\x73cr': '<f4'}" },
        { HEADER("'<f4'", "false", "()"), 4,
          ": True or False expected at byte 34 of the header: false, 'shape': (), }" },
        { HEADER("'<f4'", "0", "()"), 4,
          ": True or False expected at byte 34 of the header: 0, 'shape': (), }" },
        { HEADER("'<f4'", "TrueFalse", "()"), 4,
          ": ',' or '}' expected at byte 38 of the header: False, 'shape': (), }" },
        { HEADER("'<f4'", "False", "3"), 4, ": a tuple expected at byte 50 of the header: 3, }" },
        { HEADER("'<f4'", "False", "[3]"), 4,
          ": a tuple expected at byte 50 of the header: [3], }" },
        { HEADER("'<f4'", "False", "(1)"), 4,
          ": ',' after the only extent of the tuple expected at byte 53 of the header: , }" },
        { HEADER("'<f4'", "False", "(,)"), 4,
          ": an extent expected at byte 51 of the header: ,), }" },
        { HEADER("'<f4'", "False", "(1,,)"), 4,
          ": an extent expected at byte 53 of the header: ,), }" },
        { HEADER("'<f4'", "False", "(1 1)"), 4,
          ": ',' or ')' expected at byte 53 of the header: 1), }" },
        { HEADER("'<f4'", "False", "(-1,)"), 4,
          ": an extent expected at byte 51 of the header: -1,), }" },
        { HEADER("'<f4'", "False", "(1.5,)"), 4,
          ": ',' or ')' expected at byte 52 of the header: .5,), }" },
        { HEADER("'<f4'", "False", "(1e3,)"), 4,
          ": ',' or ')' expected at byte 52 of the header: e3,), }" },
        { HEADER("'<f4'", "False", "(9223372036854775808,)"), 4,
          ": an extent below 2^63 expected at byte 69 of the header: 8,), }" },
        { HEADER("'<f4'", "False", "(09,)"), 36,
          ": an extent without leading zeros expected at byte 51 of the header: 09,), }" },
        { HEADER("'<f4'", "False", "(0_9,)"), 36,
          ": ',' or ')' expected at byte 52 of the header: _9,), }" },
        { HEADER("'<f4'", "False", "(+9,)"), 36,
          ": an extent expected at byte 51 of the header: +9,), }" },
        { HEADER("'<f4'", "False", "(0x9,)"), 36,
          ": ',' or ')' expected at byte 52 of the header: x9,), }" },
        { HEADER("'<f4'", "False", "(9LL,)"), 36,
          ": ',' or ')' expected at byte 53 of the header: L,), }" },
        { " \n " HEADER("'<f4'", "False", "()"), 4,
          ": '{' expected at byte 0 of the header:  \\x0a {'descr': '<f4', 'fortran_order': "
          "False, 'shape': (), }" },
        { HEADER("'<f4'", "False", "(\r9L,)"), 36,
          ": an extent expected at byte 51 of the header: \\x0d9L,), }" },
        { HEADER("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, ": a rank above 8" },
        { HEADER("'<f4'", "False", "()") "x", 4, ": the end expected at byte 55 of the header: x" },
        { HEADER("'<f4'", "False", "()"), 3, ": [] of f32 needs 4 bytes, the file has 3" },
        { HEADER("'<f4'", "False", "()"), 5, ": [] of f32 needs 4 bytes, the file has 5" },
        { HEADER("'<f4'", "True", "(3,2)"), 8, ": [3,2] of f32 needs 24 bytes, the file has 8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(file_of(1, cases[i].header, cases[i].data), TALC_BAD_FORMAT,
                       cases[i].expected);
    assert_refused(file_of(3, HEADER("'<f4'", "False", "(1L,)"), 4), TALC_BAD_FORMAT,
                   ": ',' or ')' expected at byte 52 of the header: L,), }");
    cr_assert_null(talc_npy_load(
        cpu_device(), file_of(1, HEADER("'<f4'", "False", "(2,9223372036854775807)"), 8)));
    assert_failure(TALC_TOO_LARGE, "npy_load: shape [2,9223372036854775807] of f32 needs more than "
                                   "9223372036854775807 bytes");
}

Test(npy, types_that_talc_has_not_are_refused_by_name)
{
    static const char *const names[] = { "|O",  "<f2", "<c8",     "<U4", "|S3", "|i1",
                                         "<i2", "<u4", "<M8[ns]", "f16", "" };
    char header[128], expected[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(header, sizeof header, HEADER("'%s'", "False", "()"), names[i]);
        snprintf(expected, sizeof expected,
                 " holds elements of type '%s'; talc reads f4, f8, i8, i4, u1 and b1", names[i]);
        assert_refused(file_of(1, header, 8), TALC_UNSUPPORTED, expected);
    }
    assert_refused(file_of(1, HEADER("[('a', '<f4'), ('b', '<i4')]", "False", "()"), 8),
                   TALC_UNSUPPORTED,
                   " has a structured dtype; talc reads f4, f8, i8, i4, u1 and b1");
}

Test(npy, prefixes_that_do_not_fit_are_refused)
{
    const char *path = file_path("made.npy");
    file_write(path, "", 0);
    assert_refused(path, TALC_BAD_FORMAT, " is not a .npy file");
    file_write(path, "\223NUMPY\001\000\000", 9);
    assert_refused(path, TALC_BAD_FORMAT, " is not a .npy file");
    file_write(path, "PK\003\004 a zip archive", 18);
    assert_refused(path, TALC_BAD_FORMAT, " is not a .npy file");
    file_write(path, "\223NUMPY\004\000\001\000 ", 11);
    assert_refused(path, TALC_BAD_FORMAT, " is of version 4.0, talc reads 1.0 to 3.0");
    file_write(path, "\223NUMPY\001\001\001\000 ", 11);
    assert_refused(path, TALC_BAD_FORMAT, " is of version 1.1, talc reads 1.0 to 3.0");
    file_write(path, "\223NUMPY\001\000\377\377{}", 12);
    assert_refused(path, TALC_BAD_FORMAT, ": a header of 65535 bytes in a file of 12");
    file_write(path, "\223NUMPY\002\000\377\377\377\377", 12);
    assert_refused(path, TALC_BAD_FORMAT, ": a header of 4294967295 bytes in a file of 12");
    file_write(path, "\223NUMPY\002\000\001\000", 10);
    assert_refused(path, TALC_BAD_FORMAT, ": a header of 1 byte in a file of 10");
    file_write(path, "\223NUMPY\002\000\001\000\001\000", 12);
    cr_assert(truncate(path, 1 << 20) == 0);
    assert_refused(path, TALC_BAD_FORMAT, ": a header of 65537 bytes, talc reads up to 65536");
    file_write(path, "\223NUMPY\001\000\002\000{\000", 12);
    assert_refused(path, TALC_BAD_FORMAT, ": the header has a NUL byte");
}

Test(npy, truncated_and_changed_files_never_do_harm)
{
    const char *path = file_path("changed.npy");
    static const unsigned char changes[] = { 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff };
    for (size_t length = 0; length < sizeof ROW_MAJOR - 1; length++) {
        file_write(path, ROW_MAJOR, length);
        cr_assert_null(talc_npy_load(cpu_device(), path), "%zu bytes", length);
        cr_assert(talc_error_status() == TALC_BAD_FORMAT, "%zu bytes: %s", length,
                  talc_error_message());
        talc_error_clear();
    }
    char bytes[sizeof ROW_MAJOR];
    for (size_t at = 0; at < 128; at++)
        for (size_t c = 0; c < sizeof changes; c++) {
            memcpy(bytes, FORTRAN_BIG_ENDIAN, sizeof bytes);
            bytes[at] = (char)(bytes[at] ^ changes[c]);
            file_write(path, bytes, sizeof bytes - 1);
            talc_tensor *x = talc_npy_load(cpu_device(), path);
            cr_assert(x != NULL || talc_error_status() == TALC_BAD_FORMAT ||
                          talc_error_status() == TALC_UNSUPPORTED,
                      "byte %zu: %s", at, talc_error_message());
            talc_error_clear();
            talc_release(x);
        }
}

/* Saving to a name without a directory goes through the current one. */
Test(npy, relative_names_are_fine)
{
    file_write(file_path("here"), "", 0);
    char directory[512];
    snprintf(directory, sizeof directory, "%s", file_path("here"));
    *strrchr(directory, '/') = '\0';
    char before[1024];
    cr_assert(getcwd(before, sizeof before) != NULL && chdir(directory) == 0);
    cr_assert(talc_npy_save("x.npy", talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2))));
    cr_assert_not_null(talc_npy_load(cpu_device(), "x.npy"));
    char name[252];
    memset(name, 'n', 251);
    name[251] = '\0';
    cr_assert(talc_npy_save(name, talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2))), "%s",
              talc_error_message());
    cr_assert(chdir(before) == 0);
    cr_assert(file_count() == 3);
}
