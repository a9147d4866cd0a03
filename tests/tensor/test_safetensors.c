#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/safetensors_reference.h"

#include <math.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Written by the reference implementation, safetensors 0.8 for Python. */
static const char REFERENCE_TYPES[] =
    "\030\001\000\000\000\000\000\000{\"l\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]"
    "},\"d\":{\"dtype\":"
    "\"F64\",\"shape\":[1],\"data_offsets\":[8,16]},\"e\":{\"dtype\":\"F64\",\"shape\":[0,3],"
    "\"data_offsets\":[16,16]},"
    "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[16,20]},\"u\":{\"dtype\":\"U8\","
    "\"shape\":[3],"
    "\"data_offsets\":[20,23]}}      "
    "\376\377\377\377\377\377\377\377\232\231\231\231\231\231\271?\377\377\377\377"
    "\001\002\377";

static const char BIAS[] = "bias \"q\" \303\251\n";

/* A file of a header and `data` zero bytes. */
static const char *file_of(const char *header, size_t data)
{
    const char *path = file_path("made.safetensors");
    const size_t length = strlen(header);
    owned_char *bytes = calloc(1, 8 + length + data + 1);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i) & 0xff);
    memcpy(bytes + 8, header, length);
    file_write(path, bytes, 8 + length + data);
    return path;
}

Test(safetensors, a_file_of_the_reference_implementation_is_read)
{
    const char *path = file_path("reference.safetensors");
    file_write(path, REFERENCE, sizeof REFERENCE - 1);
    owned_safetensors *file = talc_safetensors_open(path);
    assert_no_failure();
    cr_assert(talc_safetensors_count(file) == 2);
    cr_assert(strcmp(talc_safetensors_name(file, 0), BIAS) == 0);
    cr_assert(strcmp(talc_safetensors_name(file, 1), "layer.weight") == 0);
    cr_assert(talc_safetensors_find(file, "layer.weight") == 1 &&
              talc_safetensors_find(file, BIAS) == 0);
    cr_assert(talc_safetensors_find(file, "layer") == -1 &&
              talc_safetensors_find(file, NULL) == -1);
    cr_assert(talc_safetensors_dtype(file, 1) == TALC_F32);
    cr_assert(strcmp(talc_safetensors_dtype_name(file, 1), "F32") == 0);
    cr_assert(talc_safetensors_dims(file, 1).rank == 2 &&
              talc_safetensors_dims(file, 1).dim[1] == 3);
    cr_assert(strcmp(talc_safetensors_metadata(file, "format"), "pt") == 0);
    cr_assert_null(talc_safetensors_metadata(file, "other"));
    cr_assert(talc_item(talc_safetensors_read(file, 0, cpu_device())) == 7);
    talc_tensor *weight = talc_safetensors_read(file, 1, cpu_device());
    const float expected[] = { 1.5f, -2, 3, 4, 5, INFINITY };
    cr_assert(memcmp(talc_data(weight, TALC_F32), expected, sizeof expected) == 0);
    /* Indices that are none. */
    cr_assert_null(talc_safetensors_name(file, 2));
    cr_assert_null(talc_safetensors_dtype_name(file, -1));
    cr_assert(talc_safetensors_dtype(file, 2) == TALC_DTYPE_COUNT &&
              talc_safetensors_dims(file, 2).rank == 0);
    assert_no_failure();
    cr_assert_null(talc_safetensors_read(file, -1, cpu_device()));
    assert_failure(TALC_BAD_ARGUMENT, "safetensors_read: tensor -1 of a file of 2");
    cr_assert_null(talc_safetensors_read(file, 0, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "safetensors_read: device is NULL");
}

Test(safetensors, saving_gives_the_bytes_of_the_reference_implementation)
{
    const float weight[] = { 1.5f, 4, -2, 5, 3, INFINITY };
    talc_tensor *w =
        talc_transpose(talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(3, 2), weight), 0, 1);
    const talc_named_tensor two[] = { { "layer.weight", w },
                                      { BIAS, talc_full(cpu_device(), TALC_F32, TALC_SCALAR, 7) } };
    const char *path = file_path("saved.safetensors");
    cr_assert(talc_safetensors_save(path, two, 2, (const char *const[]){ "format", "pt", NULL }));
    size_t count;
    owned_char *bytes = file_bytes(path, &count);
    cr_assert(count == sizeof REFERENCE - 1 && memcmp(bytes, REFERENCE, count) == 0,
              "differs: %.200s", bytes + 8);
    free(bytes);
    talc_device *cpu = cpu_device();
    const uint8_t u[] = { 1, 2, 255 };
    const talc_named_tensor types[] = { { "u", talc_from_host(cpu, TALC_U8, TALC_DIMS(3), u) },
                                        { "i", talc_full(cpu, TALC_I32, TALC_DIMS(1), -1) },
                                        { "l", talc_full(cpu, TALC_I64, TALC_DIMS(1), -2) },
                                        { "e", talc_zeros(cpu, TALC_F64, TALC_DIMS(0, 3)) },
                                        { "d", talc_full(cpu, TALC_F64, TALC_DIMS(1), 0.1) } };
    cr_assert(talc_safetensors_save(path, types, 5, NULL));
    bytes = file_bytes(path, &count);
    cr_assert(count == sizeof REFERENCE_TYPES - 1 && memcmp(bytes, REFERENCE_TYPES, count) == 0,
              "%.200s", bytes + 8);
    cr_assert(file_count() == 1);
}

Test(safetensors, what_is_saved_is_read_back)
{
    talc_named_tensor saved[TALC_DTYPE_COUNT * 4];
    char names[TALC_DTYPE_COUNT * 4][32];
    const talc_dims shapes[] = { TALC_SCALAR, TALC_DIMS(3, 5), TALC_DIMS(2, 0),
                                 TALC_DIMS(1, 2, 1, 2, 1, 2, 1, 3) };
    int count = 0;
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 4; s++, count++) {
            snprintf(names[count], sizeof names[count], "%s.%d", talc_dtype_name((talc_dtype)dtype),
                     s);
            talc_tensor *x = talc_cast(talc_uniform(cpu_device(), TALC_F64, shapes[s], 0, 200),
                                       (talc_dtype)dtype);
            saved[count] =
                (talc_named_tensor){ names[count], s == 1 ? talc_transpose(x, 0, 1) : x };
        }
    const char *path = file_path("all.safetensors");
    cr_assert(talc_safetensors_save(path, saved, count, NULL));
    owned_safetensors *file = talc_safetensors_open(path);
    cr_assert(talc_safetensors_count(file) == count);
    for (int i = 0; i < count; i++) {
        talc_tensor *x =
            talc_safetensors_read(file, talc_safetensors_find(file, names[i]), cpu_device());
        assert_no_failure();
        cr_assert(x->dtype == saved[i].tensor->dtype && talc_same_dims(x, saved[i].tensor));
        const talc_tensor *expected = talc_contiguous(saved[i].tensor);
        cr_assert(talc_numel(x) == 0 || memcmp(talc_data(x, x->dtype),
                                               talc_data(expected, x->dtype), talc_nbytes(x)) == 0);
        /* Into an existing tensor, and into a view with gaps. */
        if (x->rank < TALC_MAX_RANK) {
            talc_dims doubled = talc_dims_of(x);
            doubled.dim[doubled.rank++] = 2;
            talc_tensor *view =
                talc_select(talc_zeros(cpu_device(), x->dtype, doubled), x->rank, 1);
            cr_assert(
                talc_safetensors_read_into(file, talc_safetensors_find(file, names[i]), view));
            const talc_tensor *got = talc_contiguous(view);
            cr_assert(talc_numel(x) == 0 ||
                      memcmp(talc_data(got, x->dtype), talc_data(expected, x->dtype),
                             talc_nbytes(x)) == 0);
        }
    }
}

Test(safetensors, tensors_larger_than_one_piece_and_empty_files)
{
    talc_tensor *large = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(700001));
    const talc_named_tensor one = { "large", large };
    const char *path = file_path("large.safetensors");
    cr_assert(talc_safetensors_save(path, &one, 1, NULL));
    talc_safetensors *file = talc_safetensors_open(path);
    talc_tensor *read = talc_safetensors_read(file, 0, cpu_device());
    cr_assert(memcmp(talc_data(read, TALC_F32), talc_data(large, TALC_F32), talc_nbytes(large)) ==
              0);
    talc_safetensors_close(file);
    cr_assert(talc_safetensors_save(path, NULL, 0, NULL));
    file = talc_safetensors_open(path);
    cr_assert(file != NULL && talc_safetensors_count(file) == 0 &&
              talc_safetensors_find(file, "x") == -1);
    talc_safetensors_close(file);
    talc_safetensors_close(NULL);
    cr_assert(talc_safetensors_count(NULL) == 0 && talc_safetensors_find(NULL, "x") == -1);
}

/* Headers that are well formed, with the bytes of data they describe. */
Test(safetensors, unusual_files_are_accepted)
{
    static const struct {
        const char *header;
        size_t data;
        int64_t count;
    } cases[] = {
        { "{}", 0, 0 },
        { "{}        ", 0, 0 },
        { "{}\r \t\n", 0, 0 },
        { "{\"__metadata__\":{}}", 0, 0 },
        { "{\"__metadata__\":null}", 0, 0 },
        { "{\"test\":{\"dtype\":\"I32\",\"shape\":[2,0],\"data_offsets\":[0,0]}}", 0, 1 },
        { "{\"test\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 1 },
        { "{\"\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":\"I32\"}}", 4, 1 },
        { "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
          "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
          5, 3 },
        { "{\"four\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[0,3]}}", 3, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_safetensors *file = talc_safetensors_open(file_of(cases[i].header, cases[i].data));
        cr_assert(file != NULL, "%s: %s", cases[i].header, talc_error_message());
        cr_assert(talc_safetensors_count(file) == cases[i].count, "%s", cases[i].header);
    }
}

/* Whatever byte a writer stores for true. */
Test(safetensors, booleans_are_0_or_1)
{
    static const char header[] =
        "{\"mask\":{\"dtype\":\"BOOL\",\"shape\":[5],\"data_offsets\":[0,5]},"
        "\"bytes\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[5,10]}}";
    static const unsigned char data[] = { 0, 1, 2, 255, 128, 0, 1, 2, 255, 128 };
    char bytes[8 + sizeof header - 1 + sizeof data] = { (char)(sizeof header - 1) };
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + 8 + sizeof header - 1, data, sizeof data);
    const char *path = file_path("booleans.safetensors");
    file_write(path, bytes, sizeof bytes);
    owned_safetensors *file = talc_safetensors_open(path);
    const char *const names[] = { "mask", "bytes" };
    for (int k = 0; k < 2; k++) {
        const talc_tensor *x =
            talc_safetensors_read(file, talc_safetensors_find(file, names[k]), cpu_device());
        assert_no_failure();
        for (int i = 0; i < 5; i++)
            cr_assert(talc_item_i64(talc_select(x, 0, i)) == (k == 0 ? data[i] != 0 : data[i]),
                      "%s: element %d", names[k], i);
    }
}

/* Every F16 and BF16, on the tested device, in more than one piece: the value of its fields, which
 * a double holds, or NaN. */
Test(safetensors, halves_are_read_as_f32)
{
    enum { COUNT = 5 << 16 };
    for (int bf16 = 0; bf16 < 2; bf16++) {
        char header[128];
        snprintf(header, sizeof header,
                 "{\"h\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                 bf16 ? "BF16" : "F16", COUNT, 2 * COUNT);
        const char *path = file_of(header, 2 * COUNT);
        FILE *out = fopen(path, "r+b");
        cr_assert(out != NULL && fseek(out, 8 + (long)strlen(header), SEEK_SET) == 0);
        for (int i = 0; i < COUNT; i++) {
            putc(i & 0xff, out);
            putc(i >> 8 & 0xff, out);
        }
        cr_assert(fclose(out) == 0);
        owned_safetensors *file = talc_safetensors_open(path);
        cr_assert(talc_safetensors_dtype(file, 0) == TALC_F32);
        talc_tensor *into = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(COUNT));
        cr_assert(talc_safetensors_read_into(file, 0, into), "%s", talc_error_message());
        const float *got = talc_data_read(talc_to(into, cpu_device(), TALC_F32), TALC_F32);
        const int digits = bf16 ? 7 : 10, bias = bf16 ? 127 : 15, top = bf16 ? 0xff : 0x1f;
        for (int i = 0; i < COUNT; i++) {
            const int fraction = i & ((1 << digits) - 1), exponent = i >> digits & top;
            double expected = exponent == 0
                                  ? ldexp(fraction, 1 - bias - digits)
                                  : ldexp((1 << digits) + fraction, exponent - bias - digits);
            if (exponent == top)
                expected = fraction == 0 ? (double)INFINITY : (double)NAN;
            expected = i & 0x8000 ? -expected : expected;
            cr_assert(isnan(expected)
                          ? isnan(got[i])
                          : (double)got[i] == expected && !signbit(got[i]) == !signbit(expected),
                      "%s %04x: %g, expected %g", bf16 ? "BF16" : "F16", i & 0xffff, (double)got[i],
                      expected);
        }
    }
    talc_tensor *wide = talc_zeros(tested_device(), TALC_F64, TALC_DIMS(1));
    owned_safetensors *file = talc_safetensors_open(
        file_of("{\"h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2));
    cr_assert(!talc_safetensors_read_into(file, 0, wide));
    assert_failure(TALC_BAD_DTYPE, "safetensors_read_into: 'h' is F16 in the file, the tensor f64");
}

Test(safetensors, types_that_talc_has_not_are_refused_when_read)
{
    const char *path = file_of("{\"half\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                               "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[4,6]},"
                               "\"i\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[6,14]}}",
                               14);
    owned_safetensors *file = talc_safetensors_open(path);
    assert_no_failure();
    cr_assert(talc_safetensors_dtype(file, 0) == TALC_DTYPE_COUNT);
    cr_assert(strcmp(talc_safetensors_dtype_name(file, 0), "I16") == 0);
    cr_assert_null(talc_safetensors_read(file, 0, cpu_device()));
    assert_failure(TALC_UNSUPPORTED,
                   "safetensors_read: tensor 'half' is I16, which talc does not read");
    cr_assert(talc_safetensors_read(file, 1, cpu_device())->dtype == TALC_U8);
    /* read_into does not convert, and leaves its tensor alone when it refuses. */
    talc_tensor *x = talc_full(cpu_device(), TALC_I32, TALC_DIMS(3), 5);
    cr_assert(!talc_safetensors_read_into(file, 2, x));
    assert_failure(TALC_BAD_SHAPE, "safetensors_read_into: 'i' is [2] in the file, the tensor [3]");
    talc_tensor *y = talc_full(cpu_device(), TALC_F32, TALC_DIMS(2), 5);
    cr_assert(!talc_safetensors_read_into(file, 2, y));
    assert_failure(TALC_BAD_DTYPE, "safetensors_read_into: 'i' is I32 in the file, the tensor f32");
    cr_assert(!talc_safetensors_read_into(file, 0, y));
    assert_failure(TALC_UNSUPPORTED,
                   "safetensors_read_into: tensor 'half' is I16, which talc does not read");
    cr_assert(!talc_safetensors_read_into(file, 3, y));
    assert_failure(TALC_BAD_ARGUMENT, "safetensors_read_into: tensor 3 of a file of 3");
    cr_assert(!talc_safetensors_read_into(file, 2, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "safetensors_read_into: tensor is NULL");
    cr_assert(!talc_safetensors_read_into(NULL, 2, y));
    assert_failure(TALC_NULL_ARGUMENT, "safetensors_read_into: file is NULL");
    cr_assert_null(talc_safetensors_read(NULL, 2, cpu_device()));
    assert_failure(TALC_NULL_ARGUMENT, "safetensors_read: file is NULL");
    /* A file that shrinks after it was opened. */
    talc_tensor *z = talc_full(cpu_device(), TALC_I32, TALC_DIMS(2), 9);
    struct stat about;
    cr_assert(stat(path, &about) == 0 && truncate(path, about.st_size - 3) == 0);
    cr_assert(!talc_safetensors_read_into(file, 2, z));
    assert_failure_with(TALC_IO_ERROR,
                        "safetensors_read_into: '%s' ends at byte %d, 3 bytes too early", path,
                        (int)about.st_size - 3);
    cr_assert(((int32_t *)talc_data(z, TALC_I32))[0] == 9 &&
              ((float *)talc_data(y, TALC_F32))[1] == 5);
}

Test(safetensors, what_cannot_be_saved_is_refused)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2));
    talc_tensor *i = talc_ones(cpu_device(), TALC_I64, TALC_DIMS(2));
    char name[1100];
    memset(name, 'n', 1025);
    name[1025] = '\0';
    const struct {
        talc_named_tensor tensors[2];
        const char *metadata[5];
        talc_status status;
        const char *expected;
    } cases[] = {
        { { { "a", x }, { NULL, x } },
          { NULL },
          TALC_NULL_ARGUMENT,
          "the name of tensor 1 is NULL" },
        { { { "a", NULL }, { "b", x } },
          { NULL },
          TALC_NULL_ARGUMENT,
          "the tensor of tensor 0 is NULL" },
        { { { "a", x }, { "a", i } }, { NULL }, TALC_BAD_ARGUMENT, "two tensors are named 'a'" },
        { { { "a", x }, { "__metadata__", x } },
          { NULL },
          TALC_BAD_ARGUMENT,
          "no tensor can be named '__metadata__'" },
        { { { "a", x }, { "\xff\n", x } },
          { NULL },
          TALC_BAD_ARGUMENT,
          "the name '\\xff\\x0a' is not UTF-8" },
        { { { "a", x }, { name, x } },
          { NULL },
          TALC_BAD_ARGUMENT,
          "the name "
          "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
          "nnnnnnnnnnn..."
          "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
          "nnnnnnnnnn' has 1025 "
          "bytes, the most is 1024" },
        { { { "a", x }, { "b", x } },
          { "k", "1", "k", "2" },
          TALC_BAD_ARGUMENT,
          "two metadata keys are named 'k'" },
        { { { "a", x }, { "b", x } },
          { "k", "1", "l", NULL },
          TALC_NULL_ARGUMENT,
          "the metadata key 'l' has no value" },
        { { { "a", x }, { "b", x } },
          { "k", "\xc3", NULL },
          TALC_BAD_ARGUMENT,
          "the metadata value '\\xc3' is not UTF-8" },
        { { { "a", x }, { "b", x } },
          { "\xc3", "1", NULL },
          TALC_BAD_ARGUMENT,
          "the metadata key '\\xc3' is not UTF-8" },
    };
    const char *path = file_path("old.safetensors");
    file_write(path, "old", 3);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        cr_assert(!talc_safetensors_save(path, cases[c].tensors, 2, cases[c].metadata), "%s",
                  cases[c].expected);
        assert_failure_with(cases[c].status, "safetensors_save: %s", cases[c].expected);
    }
    cr_assert(!talc_safetensors_save(path, cases[0].tensors, -1, NULL));
    assert_failure(TALC_BAD_ARGUMENT, "safetensors_save: -1 tensors are outside 0..65536");
    cr_assert(!talc_safetensors_save(path, NULL, 1, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "safetensors_save: tensors is NULL");
    cr_assert(!talc_safetensors_save(NULL, NULL, 0, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "safetensors_save: path is NULL");
    owned_char *large = malloc((17 << 20) + 1);
    memset(large, 'v', 17 << 20);
    large[17 << 20] = '\0';
    cr_assert(!talc_safetensors_save(path, NULL, 0, (const char *const[]){ "k", large, NULL }));
    assert_failure(TALC_TOO_LARGE,
                   "safetensors_save: a header of 17825824 bytes, the most is 16777216");
    cr_assert(file_is(path, "old") && file_count() == 1);
}

Test(safetensors, a_file_that_is_replaced_keeps_its_permissions)
{
    talc_named_tensor large = { "large", talc_ones(cpu_device(), TALC_F32, TALC_DIMS(100000)) };
    const char *path = file_path("old.safetensors");
    file_write(path, "old", 3);
    cr_assert(chmod(path, 0640) == 0);
    cr_assert(talc_safetensors_save(path, &large, 1, NULL));
    struct stat about;
    cr_assert(stat(path, &about) == 0 && (about.st_mode & 0777) == 0640 && about.st_size > 400000);
    cr_assert(file_count() == 1);
}

// ---- The JSON library's own memory --------------------------------------------------------------

static int json_allocations, json_failing; /* the k-th fails */
static bool json_persists;                 /* and all after it */

static void *json_allocate(size_t bytes)
{
    json_allocations++;
    const bool fails =
        json_persists ? json_allocations >= json_failing : json_allocations == json_failing;
    return fails ? NULL : malloc(bytes);
}

/* Each allocation of a save and of an open fails; how many runs ended in an error. The file stays
 * as it is. */
static int json_runs(const char *path, bool persists)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 6, 1);
    const talc_named_tensor named[] = { { "a", x }, { "b", x } };
    const char *const metadata[] = { "format", "pt", NULL };
    size_t size, size_now;
    owned_char *expected = file_bytes(path, &size);
    int errors = 0;
    json_persists = persists;
    for (int opens = 0; opens < 2; opens++)
        for (json_failing = 1;; json_failing++) {
            json_allocations = 0;
            talc_safetensors *file = opens ? talc_safetensors_open(path) : NULL;
            if (!opens)
                talc_safetensors_save(path, named, 2, metadata);
            const bool hit = json_allocations >= json_failing;
            talc_safetensors_close(file);
            cr_assert(!talc_failed() || talc_error_status() == TALC_NO_MEMORY, "allocation %d: %s",
                      json_failing, talc_error_message());
            cr_assert(!persists || hit == talc_failed(), "allocation %d passes", json_failing);
            errors += talc_failed();
            talc_error_clear();
            char *now = file_bytes(path, &size_now);
            cr_assert(size_now == size && memcmp(now, expected, size) == 0, "the file has changed");
            free(now);
            if (!hit)
                break;
        }
    return errors;
}

Test(safetensors, the_json_library_may_run_out_of_memory)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 6, 1);
    const talc_named_tensor named[] = { { "a", x }, { "b", x } };
    const char *path = file_path("json.safetensors");
    cr_assert(talc_safetensors_save(path, named, 2, (const char *const[]){ "format", "pt", NULL }));
    json_set_alloc_funcs(json_allocate, free);
    const int once = json_runs(path, false), persistent = json_runs(path, true);
    json_set_alloc_funcs(malloc, free);
    cr_assert(once > 10 && persistent > 20, "only %d and %d runs failed", once, persistent);
}

/* A name of every length around those at which a buffer of jansson's grows, and escapes within it.
 * Each allocation fails, alone and with all after it: the file opens with this name, number and
 * metadata, or not at all. */
Test(safetensors, no_failed_allocation_changes_what_a_file_says)
{
    const char *path = file_path("names.safetensors");
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 6, 1);
    for (int length = 9; length < 69; length++) {
        char name[80], value[96];
        snprintf(
            name, sizeof name, "%.*s", length,
            "num_batches_tracked\n\"num_batches_tracked\\num_batches_tracked\\num_batches_tracked");
        snprintf(value, sizeof value, "%s\n", name);
        const talc_named_tensor named = { name, x };
        cr_assert(
            talc_safetensors_save(path, &named, 1, (const char *const[]){ name, value, NULL }));
        json_set_alloc_funcs(json_allocate, free);
        for (int persists = 0; persists < 2; persists++)
            for (json_failing = 1, json_allocations = 2; json_allocations >= json_failing;
                 json_failing++) {
                json_persists = persists;
                json_allocations = 0;
                owned_safetensors *file = talc_safetensors_open(path);
                const char *metadata = talc_safetensors_metadata(file, name);
                cr_assert(file == NULL || (talc_safetensors_find(file, name) == 0 &&
                                           metadata != NULL && strcmp(metadata, value) == 0),
                          "%d bytes, allocation %d: the name is '%s', the metadata '%s'", length,
                          json_failing, talc_safetensors_name(file, 0), metadata);
                cr_assert(file != NULL || talc_error_status() == TALC_NO_MEMORY,
                          "%d bytes, allocation %d: %s", length, json_failing,
                          talc_error_message());
                talc_error_clear();
            }
        json_set_alloc_funcs(malloc, free);
    }
}
