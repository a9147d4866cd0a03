/// ONNX files that are wrong, cut or made to do harm: each is a failure that says why, and none
/// crashes, takes more memory than it may, or reads outside the model's folder.
#include "onnx/model.h"
#include "tensor/memory.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/onnx_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

OWNED_OBJECT(talc_onnx_model, talc_onnx_model_free)
#define owned_model OWNED(talc_onnx_model_end) talc_onnx_model

/* Reading must fail with "onnx_load: 'PATH': EXPECTED". */
static void assert_refused(const char *path, talc_status status, const char *expected)
{
    cr_assert_null(talc_onnx_read(path), "read, though: %s", expected);
    assert_failure_with(status, "onnx_load: '%s': %s", path, expected);
}

/* A graph of x and y, with room for what a case adds. */
static wire graph_of(void)
{
    wire graph = { 0 };
    put_message(&graph, 1, node_of("Relu", "/relu", "x", NULL, "y"));
    put_message(&graph, 11, value_of("x"));
    put_message(&graph, 12, value_of("y"));
    return graph;
}

static void assert_graph_refused(wire graph, talc_status status, const char *expected)
{
    assert_refused(write_model("a.onnx", model_of(graph, 17)), status, expected);
}

/* A graph with one more field is refused for what the field is. */
static void assert_field_refused(int field, wire message, const char *expected)
{
    wire graph = graph_of();
    put_message(&graph, field, message);
    assert_graph_refused(graph, TALC_BAD_FORMAT, expected);
}

// ---- The model ----------------------------------------------------------------------------------

Test(onnx_hostile, models_that_lack_something)
{
    wire model = { 0 }, domain = { 0 };
    const char *path = write_model("a.onnx", model);
    assert_refused(path, TALC_BAD_FORMAT, "no ir_version, which every ONNX file has");
    put_int(&model, 1, 8);
    (void)write_model("a.onnx", model);
    assert_refused(path, TALC_BAD_FORMAT, "no opset of the default domain");
    put_text(&domain, 1, "com.example");
    put_int(&domain, 2, 17);
    put_message(&model, 8, domain);
    (void)write_model("a.onnx", model);
    assert_refused(path, TALC_BAD_FORMAT, "no opset of the default domain");
    wire twice = model_of(graph_of(), 17), named = { 0 };
    put_text(&named, 1, "ai.onnx");
    put_int(&named, 2, 18);
    put_message(&twice, 8, named);
    (void)write_model("a.onnx", twice);
    assert_refused(path, TALC_BAD_FORMAT, "two opsets of the default domain");
    (void)write_model("a.onnx", model_of((wire){ 0 }, 17));
    assert_refused(path, TALC_BAD_FORMAT, "no output");
    wire graphs = model_of(graph_of(), 17);
    put_message(&graphs, 7, graph_of());
    (void)write_model("a.onnx", graphs);
    assert_refused(path, TALC_BAD_FORMAT, "two graphs");
    put_int(&named, 1, 8); /* a number where a text has to be */
    wire mixed = model_of(graph_of(), 17);
    put_message(&mixed, 8, named);
    (void)write_model("a.onnx", mixed);
    cr_assert_null(talc_onnx_read(path));
    cr_assert(strstr(talc_error_message(), "wrong wire type") != NULL, "%s", talc_error_message());
    talc_error_clear();
}

Test(onnx_hostile, opsets_that_are_not_read)
{
    const char *path = write_model("a.onnx", model_of(graph_of(), 8));
    assert_refused(path, TALC_UNSUPPORTED, "opset 8: 9 to 23 are read");
    (void)write_model("a.onnx", model_of(graph_of(), 24));
    assert_refused(path, TALC_UNSUPPORTED, "opset 24: 9 to 23 are read");
    for (int opset = 9; opset <= 23; opset++) {
        (void)write_model("a.onnx", model_of(graph_of(), opset));
        owned_model *model = talc_onnx_read(path);
        assert_no_failure();
        cr_assert(model->opset == opset);
    }
}

Test(onnx_hostile, what_is_not_read_is_named)
{
    wire values = TENSOR(TALC_ONNX_FLOAT, "w", 1), sparse = { 0 }, graph = graph_of();
    put_message(&sparse, 1, values);
    put_message(&graph, 15, sparse);
    assert_graph_refused(graph, TALC_UNSUPPORTED, "initialiser 'w' is sparse, which is not read");
    /* A function that a node calls, and one that none does. */
    wire model = model_of(graph_of(), 17), function = { 0 };
    put_text(&function, 1, "Gelu");
    put_message(&model, 25, function);
    owned_model *unused = talc_onnx_read(write_model("a.onnx", model));
    assert_no_failure();
    static const char *const domains[] = { "aa", "b", "c", "ai.onnx" };
    for (int i = 0; i < 4; i++) {
        wire own = { 0 };
        put_text(&own, 1, "Relu");
        put_text(&own, 10, domains[i]);
        put_message(&model, 25, own);
    }
    assert_refused(
        write_model("b.onnx", model), TALC_UNSUPPORTED,
        "node '/relu' (Relu): it calls a function of the model's own, which is not read");
}

Test(onnx_hostile, files_that_are_no_models)
{
    static const char *const texts[] = { "<!DOCTYPE html>", "version https://git-lfs", "PK\3\4zip",
                                         "{\"a\":1}", "\x93NUMPY" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *path = file_path("a.onnx");
        file_write(path, texts[i], strlen(texts[i]));
        cr_assert_null(talc_onnx_read(path));
        cr_assert(talc_error_status() == TALC_BAD_FORMAT &&
                      strstr(talc_error_message(), "is no ONNX file, or damaged: byte "),
                  "%s", talc_error_message());
        talc_error_clear();
    }
    cr_assert_null(talc_onnx_read(file_path("nothing")));
    assert_failure_with(TALC_IO_ERROR, "onnx_load: cannot open '%s': No such file or directory",
                        file_path("nothing"));
    cr_assert_null(talc_onnx_read(file_path("")));
    cr_assert(talc_error_status() == TALC_IO_ERROR);
    talc_error_clear();
}

// ---- Graphs -------------------------------------------------------------------------------------

Test(onnx_hostile, names_that_do_not_fit_together)
{
    wire plain = TENSOR(TALC_ONNX_FLOAT, "w", 0);
    assert_field_refused(1, node_of("Add", "", "x", "v", "z"),
                         "node 1 (Add): input 1, 'v', is no initialiser, no input and made by no "
                         "node");
    assert_field_refused(1, node_of("", "n", "x", NULL, "z"), "node 'n' (): no op_type");
    assert_field_refused(1, node_of("Abs", "n", "x", NULL, "y"),
                         "value 'y' is made twice: by node '/relu' (Relu) and by node 'n' (Abs)");
    assert_field_refused(1, node_of("Abs", "n", "y", NULL, "x"),
                         "value 'x' is made twice: by an input and by node 'n' (Abs)");
    assert_field_refused(11, value_of("x"), "value 'x' is made twice: by an input and by an input");
    assert_field_refused(11, value_of(""), "input '': no name");
    assert_field_refused(12, value_of("z"), "output 'z' is made by no node");
    assert_field_refused(12, value_of("y"), "two outputs 'y'");
    assert_field_refused(5, TENSOR(TALC_ONNX_FLOAT, NULL, 0), "an initialiser without a name");
    assert_field_refused(5, TENSOR(TALC_ONNX_FLOAT, "y", 0),
                         "value 'y' is made twice: by an initialiser and by node '/relu' (Relu)");
    wire graph = graph_of();
    put_message(&graph, 5, plain);
    put_message(&graph, 5, plain);
    assert_graph_refused(graph, TALC_BAD_FORMAT,
                         "value 'w' is made twice: by an initialiser and by an initialiser");
    wire input = graph_of();
    put_message(&input, 5, plain);
    put_message(&input, 11, value_of("w"));
    put_message(&input, 11, value_of("w"));
    assert_graph_refused(input, TALC_BAD_FORMAT,
                         "value 'w' is made twice: by an input and by an input");
    assert_field_refused(
        1, node_of("Abs\x1b[2J", "\xe2\x80\xae", "v", NULL, "z"),
        "node '\\u{202e}' (Abs\\x1b[2J): input 0, 'v', is no initialiser, no input "
        "and made by no node");
}

Test(onnx_hostile, cycles)
{
    assert_field_refused(1, node_of("Add", "n", "x", "z", "z"),
                         "a cycle: node 'n' (Add) needs 'z' of node 'n' (Add), which needs it");
    wire graph = graph_of();
    put_message(&graph, 1, node_of("Add", "a", "x", "vc", "va"));
    put_message(&graph, 1, node_of("Abs", "b", "va", NULL, "vb"));
    put_message(&graph, 1, node_of("Abs", "c", "vb", NULL, "vc"));
    assert_graph_refused(graph, TALC_BAD_FORMAT,
                         "a cycle: node 'b' (Abs) needs 'va' of node 'a' (Add), which needs it");
}

/* A node with one attribute, of a kind, to which `content` adds. */
static void assert_attribute_refused(int kind, wire content, const char *expected)
{
    wire node = node_of("Pad", "n", "x", NULL, "z");
    put_int(&content, 20, kind);
    put_message(&node, 5, content);
    assert_field_refused(1, node, expected);
}

Test(onnx_hostile, attributes)
{
    wire nameless = { 0 }, named = { 0 }, reference = { 0 }, two = { 0 }, bad = { 0 };
    assert_attribute_refused(2, nameless, "node 'n' (Pad): an attribute without a name");
    put_text(&named, 1, "a");
    assert_attribute_refused(4, named, "node 'n' (Pad): attribute 'a': no tensor");
    two = bad = reference = named;
    put_text(&reference, 21, "alpha");
    assert_attribute_refused(
        2, reference, "node 'n' (Pad): attribute 'a': it refers to a function's, and is in none");
    put_message(&two, 5, TENSOR(1, NULL, 0));
    put_message(&two, 5, TENSOR(1, NULL, 0));
    assert_attribute_refused(4, two, "node 'n' (Pad): attribute 'a': two tensors");
    put_message(&bad, 5, TENSOR(1, NULL, 2));
    assert_attribute_refused(4, bad,
                             "node 'n' (Pad): attribute 'a': float [2] needs 8 bytes, the file has "
                             "0");
    wire node = node_of("Pad", "n", "x", NULL, "z"), pair = { 0 };
    put_int(&named, 20, 2);
    put_message(&pair, 5, named);
    put_bytes(&node, pair.bytes, pair.count);
    put_bytes(&node, pair.bytes, pair.count);
    assert_field_refused(1, node, "node 'n' (Pad): two attributes 'a'");
}

Test(onnx_hostile, structures_that_are_too_large)
{
    enum { MANY = 1025 };
    wire node = node_of("Pad", "n", "x", NULL, "z"), attribute = { 0 };
    put_text(&attribute, 1, "a");
    for (int i = 0; i < MANY; i++)
        put_message(&node, 5, attribute);
    assert_field_refused(1, node, "node 'n' (Pad): more than 1024 attributes");
    wire shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 }, graph = graph_of();
    for (int i = 0; i < 9; i++)
        put_block(&shape, 1, "", 0);
    put_message(&tensor, 2, shape);
    put_message(&type, 1, tensor);
    put_text(&value, 1, "v");
    put_message(&value, 2, type);
    wire twice = value;
    put_message(&graph, 11, value);
    assert_graph_refused(graph, TALC_UNSUPPORTED, "input 'v': a rank above 8");
    put_message(&twice, 2, type);
    assert_field_refused(11, twice, "input 'v': two types");
}

// ---- Tensors ------------------------------------------------------------------------------------

static void assert_tensor_refused(wire tensor, const char *expected)
{
    char text[256];
    snprintf(text, sizeof text, "initialiser 'w': %s", expected);
    assert_field_refused(5, tensor, text);
}

Test(onnx_hostile, tensors_whose_elements_do_not_fit)
{
    wire w = TENSOR(TALC_ONNX_FLOAT, "w", 2, 3);
    assert_tensor_refused(w, "float [2,3] needs 24 bytes, the file has 0");
    put_block(&w, 9, "0123456789012345678901234", 25);
    assert_tensor_refused(w, "float [2,3] needs 24 bytes, the file has 25");
    put_float(&w, 4, 0);
    assert_tensor_refused(w, "elements that are stored in two ways");
    wire few = TENSOR(TALC_ONNX_FLOAT, "w", 2);
    put_float(&few, 4, 0);
    assert_tensor_refused(few, "float [2] needs 2 elements, the file has 1");
    wire other = TENSOR(TALC_ONNX_FLOAT, "w", 1);
    put_int(&other, 7, 1);
    assert_tensor_refused(other, "float [1] needs 1 element, the file has 0");
    assert_tensor_refused(TENSOR(TALC_ONNX_FLOAT, "w", 2, -1), "dimension 1 is -1");
    assert_tensor_refused(TENSOR(TALC_ONNX_FLOAT, "w", INT64_MAX, 2),
                          "a shape of 2^63 bytes or more");
    assert_tensor_refused(TENSOR(TALC_ONNX_UINT8, "w", 0, INT64_MAX, 2),
                          "a shape of 2^63 bytes or more");
    assert_tensor_refused(TENSOR(TALC_ONNX_STRING, "w", INT64_MAX, INT64_MAX),
                          "a shape of 2^63 bytes or more");
    assert_tensor_refused(TENSOR(0, "w", 0), "a tensor without a type of elements");
    wire place = TENSOR(TALC_ONNX_FLOAT, "w", 0);
    put_int(&place, 14, 2);
    assert_tensor_refused(place, "a data_location that is neither 0 nor 1");
    wire segment = TENSOR(TALC_ONNX_FLOAT, "w", 0);
    put_block(&segment, 3, "\x08\x01", 2);
    assert_tensor_refused(segment, "a segment of a tensor");
    static const struct {
        int type;
        int64_t value;
        const char *expected;
    } values[] = {
        { TALC_ONNX_UINT8, 256, "element 0 of uint8 is 256" },
        { TALC_ONNX_UINT8, -1, "element 0 of uint8 is -1" },
        { TALC_ONNX_INT8, 128, "element 0 of int8 is 128" },
        { TALC_ONNX_INT8, -129, "element 0 of int8 is -129" },
        { TALC_ONNX_INT16, 32768, "element 0 of int16 is 32768" },
        { TALC_ONNX_FLOAT16, 65536, "element 0 of float16 is 65536" },
        { TALC_ONNX_INT32, 2147483648, "element 0 of int32 is 2147483648" },
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        wire tensor = TENSOR(values[i].type, "w", 1);
        put_int(&tensor, 5, values[i].value);
        assert_tensor_refused(tensor, values[i].expected);
    }
    wire word = TENSOR(TALC_ONNX_UINT32, "w", 1);
    put_int(&word, 11, 4294967296);
    assert_tensor_refused(word, "element 0 of uint32 is 4294967296");
    wire graph = graph_of();
    put_message(&graph, 5, TENSOR(TALC_ONNX_FLOAT, "w", 1, 1, 1, 1, 1, 1, 1, 1, 1));
    assert_graph_refused(graph, TALC_UNSUPPORTED,
                         "initialiser 'w': a rank of 9, talc reads up to 8");
}

/* Fields whose bytes are not what their number says: nanopb's own words, behind where it was. */
Test(onnx_hostile, wire_types_that_are_wrong)
{
    wire fields[6] = { { 0 } };
    put_int(&fields[0], 9, 4);               /* raw_data as a number */
    put_block(&fields[1], 4, "12345", 5);    /* packed floats, of a length that is none */
    put_int(&fields[2], 4, 1);               /* a float as a varint */
    put_block(&fields[3], 2, "", 0);         /* data_type as bytes */
    put_block(&fields[4], 1, "\x80\x80", 2); /* dims that end within one */
    put_block(&fields[5], 8, "a\0b", 3);     /* a name with a NUL byte */
    for (int i = 0; i < 6; i++) {
        wire graph = graph_of();
        put_message(&graph, 5, fields[i]);
        cr_assert_null(talc_onnx_read(write_model("a.onnx", model_of(graph, 17))));
        cr_assert(talc_error_status() == TALC_BAD_FORMAT &&
                      strstr(talc_error_message(), i == 5   ? "a text with a NUL byte"
                                                   : i == 4 ? "end-of-stream"
                                                            : "wrong wire type") != NULL,
                  "%d: %s", i, talc_error_message());
        talc_error_clear();
    }
}

// ---- External data ------------------------------------------------------------------------------

static wire external(const char *location, const char *offset, const char *length)
{
    wire tensor = TENSOR(TALC_ONNX_FLOAT, "w", 1);
    if (location != NULL)
        put_external(&tensor, "location", location);
    if (offset != NULL)
        put_external(&tensor, "offset", offset);
    if (length != NULL)
        put_external(&tensor, "length", length);
    put_int(&tensor, 14, 1);
    return tensor;
}

Test(onnx_hostile, places_that_are_not_in_their_file)
{
    file_write(file_path("a.data"), "01234567", 8);
    static const struct {
        const char *offset, *length, *expected;
    } cases[] = {
        { "5", "4", "4 bytes at byte 5 of 'a.data', which has 8" },
        { "9", "0", "0 bytes at byte 9 of 'a.data', which has 8" },
        { "8", NULL, "4 bytes at byte 8 of 'a.data', which has 8" },
        { "9223372036854775807", "4",
          "4 bytes at byte 9223372036854775807 of 'a.data', which has 8" },
        { "0", "9223372036854775807",
          "9223372036854775807 bytes at byte 0 of 'a.data', which has 8" },
        { "0", "8", "float [1] needs 4 bytes, the file has 8" },
        { "0", "0", "float [1] needs 4 bytes, the file has 0" },
        { "9223372036854775808", "4", "external data with offset '9223372036854775808'" },
        { "-1", "4", "external data with offset '-1'" },
        { "+1", "4", "external data with offset '+1'" },
        { " 1", "4", "external data with offset ' 1'" },
        { "", "4", "external data with offset ''" },
        { "0", "4 ", "external data with length '4 '" },
        { "0", "0x4", "external data with length '0x4'" },
        { "0", "4.0", "external data with length '4.0'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_tensor_refused(external("a.data", cases[i].offset, cases[i].length),
                              cases[i].expected);
    assert_tensor_refused(external(NULL, "0", "4"), "external data without 'location'");
    wire twice = external("a.data", "0", "4"), both = external("a.data", "0", "4");
    put_external(&twice, "offset", "4");
    assert_tensor_refused(twice, "external data with two 'offset'");
    put_block(&both, 9, "0123", 4);
    assert_tensor_refused(both, "elements that are stored in two ways");
}

/* What lies outside must not be read, whatever path leads there. */
Test(onnx_hostile, ways_out_of_the_folder)
{
    char folder[600];
    (void)file_path("");
    snprintf(folder, sizeof folder, "%s", file_path("model"));
    cr_assert(mkdir(folder, 0700) == 0);
    file_write(file_path("secret"), "01234567", 8);
    file_write(file_path("model/a.data"), "01234567", 8);
    cr_assert(symlink("../secret", file_path("model/link")) == 0);
    cr_assert(symlink("a.data", file_path("model/near")) == 0);
    cr_assert(symlink("..", file_path("model/up")) == 0);
    cr_assert(mkfifo(file_path("model/pipe"), 0600) == 0);
    static const char *const OUTSIDE = "no path within the model's folder";
    static const struct {
        const char *location, *fault; /* NULL: the system says it */
    } cases[] = {
        { "../secret", OUTSIDE },
        { "..", OUTSIDE },
        { "a/../../secret", OUTSIDE },
        { "./../secret", OUTSIDE },
        { "/etc/passwd", OUTSIDE },
        { "", "no path" },
        { "a//b", "no path of names" },
        { "a.data/", "no path of names" },
        { "link", "a link, or behind one" },
        { "near", "a link, or behind one" },
        { "up/secret", NULL },
        { "a.data/x", NULL },
        { "pipe", NULL },
        { ".", NULL },
        { "nothing", NULL },
    };
    const char *path = file_path("model/a.onnx");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wire graph = graph_of();
        put_message(&graph, 5, external(cases[i].location, "0", "4"));
        const wire model = model_of(graph, 17);
        file_write(path, model.bytes, model.count);
        if (cases[i].fault != NULL) {
            char text[300];
            snprintf(text, sizeof text, "initialiser 'w': external data at '%s', which is %s",
                     cases[i].location, cases[i].fault);
            assert_refused(path, TALC_BAD_FORMAT, text);
            continue;
        }
        cr_assert_null(talc_onnx_read(path), "%s", cases[i].location);
        cr_assert(talc_error_status() == TALC_IO_ERROR &&
                      strstr(talc_error_message(), cases[i].location) != NULL,
                  "%s: %s", cases[i].location, talc_error_message());
        cr_assert_eq(strcmp(cases[i].location, "nothing") == 0,
                     strstr(talc_error_message(), "keep both in one folder") != NULL);
        talc_error_clear();
    }
    static const char *const made[] = { "link", "near", "up", "pipe", "a.data", "a.onnx" };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char name[64];
        snprintf(name, sizeof name, "model/%s", made[i]);
        cr_assert(unlink(file_path(name)) == 0);
    }
    cr_assert(rmdir(folder) == 0);
}

// ---- Damage -------------------------------------------------------------------------------------

/* A file with something of everything. */
static wire rich_model(void)
{
    wire graph = graph_of(), node = node_of("Pad", "p", "x", "w", "z"), attribute = { 0 },
         ints = { 0 };
    wire halves = TENSOR(TALC_ONNX_FLOAT16, "h", 2), raw = TENSOR(TALC_ONNX_FLOAT, "r", 1),
         floats = TENSOR(TALC_ONNX_FLOAT, "f", 2);
    put_block(&halves, 5, "\x64\x65", 2);
    put_block(&raw, 9, "\0\0\x80\x3f", 4);
    put_block(&floats, 4, "\0\0\x80\x3f\0\0\x80\x3f", 8);
    put_text(&attribute, 1, "value");
    put_message(&attribute, 5, halves);
    put_int(&attribute, 20, 4);
    put_text(&ints, 1, "pads");
    put_int(&ints, 8, 300);
    put_block(&ints, 8, "\x01\x02", 2);
    put_int(&ints, 20, 7);
    put_message(&node, 5, attribute);
    put_message(&node, 5, ints);
    put_message(&graph, 1, node);
    put_message(&graph, 5, raw);
    put_message(&graph, 5, floats);
    put_message(&graph, 5, halves);
    put_message(&graph, 5, external("a.data", "4", "4"));
    return model_of(graph, 17);
}

/* Whatever comes of it, it is one of the documented failures, or a model that can be read. */
static bool survives(const char *path)
{
    owned_model *model = talc_onnx_read(path);
    for (int i = 0; model != NULL && i < model->initializer_count; i++) {
        owned_char *elements = calloc(1, (size_t)model->initializers[i].bytes + 1);
        if (talc_onnx_type_size(model->initializers[i].type) > 0)
            (void)talc_onnx_read_elements(model, &model->initializers[i], elements);
    }
    const talc_status status = talc_error_status();
    cr_assert(status == TALC_OK || status == TALC_BAD_FORMAT || status == TALC_UNSUPPORTED ||
                  status == TALC_IO_ERROR,
              "%s", talc_error_message());
    talc_error_clear();
    return model != NULL;
}

static size_t most_asked;

static bool note_most(size_t bytes)
{
    most_asked += bytes;
    return true;
}

/* The bytes of memory that reading a file asks for in all, freed or not. */
static size_t asked_for(const char *path)
{
    most_asked = 0;
    talc_allocation_hook = note_most;
    (void)survives(path);
    talc_allocation_hook = NULL;
    return most_asked;
}

Test(onnx_hostile, a_file_that_ends_anywhere)
{
    wire model = rich_model();
    file_write(file_path("a.data"), "01234567", 8);
    cr_assert(survives(write_model("a.onnx", model)), "the whole file");
    while (model.count-- > 0)
        cr_assert_not(survives(write_model("a.onnx", model)), "%zu bytes", model.count);
}

Test(onnx_hostile, a_file_with_any_byte_changed)
{
    const wire model = rich_model();
    file_write(file_path("a.data"), "01234567", 8);
    const char *path = write_model("a.onnx", model);
    const int file = open(path, O_WRONLY);
    for (size_t i = 0; i < model.count; i++) {
        static const unsigned char values[] = { 0, 1, 0x7f, 0xff };
        for (int change = 0; change < 12; change++) {
            const unsigned char byte =
                change < 8 ? model.bytes[i] ^ (unsigned char)(1 << change) : values[change - 8];
            cr_assert(pwrite(file, &byte, 1, (off_t)i) == 1);
            cr_assert(asked_for(path) < 1 << 20, "byte %zu as %d", i, byte);
        }
        cr_assert(pwrite(file, &model.bytes[i], 1, (off_t)i) == 1);
    }
    cr_assert(close(file) == 0 && survives(path), "the bytes as they were");
}

static const char *cut_path;
static int cut_after; /* allocations */

static bool cut_file(size_t bytes)
{
    (void)bytes;
    cut_after--;
    return cut_after != 0 || truncate(cut_path, 40) == 0;
}

/* By another program, while it is read: that is a failure, or comes too late to matter. */
Test(onnx_hostile, a_file_that_is_cut_meanwhile)
{
    int failures = 0; /* of reading the file */
    file_write(file_path("a.data"), "01234567", 8);
    for (int after = 1; after < 12; after++) {
        cut_path = write_model("a.onnx", rich_model());
        cut_after = after;
        talc_allocation_hook = cut_file;
        owned_model *model = talc_onnx_read(cut_path);
        talc_allocation_hook = NULL;
        float element = 0;
        const bool read =
            model != NULL && talc_onnx_read_elements(model, &model->initializers[0], &element);
        cr_assert(read == !talc_failed(), "%s", talc_error_message());
        failures += talc_error_status() == TALC_IO_ERROR;
        talc_error_clear();
    }
    cr_assert(failures > 0);
}

/* A field that says more bytes than there are is refused before memory is asked for. */
Test(onnx_hostile, lengths_beyond_the_file)
{
    static const uint64_t lengths[] = { 100,        1u << 20,          INT32_MAX,
                                        UINT32_MAX, UINT32_MAX + 1ull, INT64_MAX,
                                        UINT64_MAX };
    static const int fields[] = { 1, 4, 5, 7, 8, 9, 10, 13, 99 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof fields / sizeof *fields; j++) {
            wire tensor = { 0 }, graph = graph_of();
            put_varint(&tensor, (uint64_t)fields[j] << 3 | 2);
            put_varint(&tensor, lengths[i]);
            put_message(&graph, 5, tensor);
            const char *path = write_model("a.onnx", model_of(graph, 17));
            cr_assert(asked_for(path) < 1 << 18, "field %d of %llu bytes", fields[j],
                      (unsigned long long)lengths[i]);
            cr_assert_not(survives(path));
        }
}

/* What is small in the file and large in memory: messages and texts of no bytes. */
Test(onnx_hostile, empty_parts)
{
    enum { PARTS = 1 << 21 };
    static const unsigned char fields[] = { 1 << 3 | 2, 5 << 3 | 2, 11 << 3 | 2, 15 << 3 | 2 };
    for (size_t i = 0; i < sizeof fields; i++) {
        wire model = { 0 };
        put_varint(&model, 7 << 3 | 2);
        put_varint(&model, 2 * PARTS);
        const size_t count = model.count + 2 * PARTS;
        owned_char *bytes = calloc(1, count);
        memcpy(bytes, model.bytes, model.count);
        for (size_t j = model.count; j < count; j += 2)
            bytes[j] = (char)fields[i];
        const char *path = file_path("a.onnx");
        file_write(path, bytes, count);
        cr_assert(asked_for(path) < ((size_t)1 << 20) + 65 * count);
        cr_assert_null(talc_onnx_read(path));
        cr_assert(i >= 2 || strstr(talc_error_message(), "more empty parts than a model has"), "%s",
                  talc_error_message());
        talc_error_clear();
    }
}

/* Two lists that grow in turn, by a number each time, and so have to move each time. */
Test(onnx_hostile, lists_that_move)
{
    enum { TURNS = 100000 };
    static const unsigned char turn[] = { 7 << 3 | 2, 2, 0x81, 0, 5 << 3 | 2, 2, 0x81, 0 };
    const size_t count = TURNS * sizeof turn;
    wire tensor = { 0 }, graph = { 0 };
    put_varint(&tensor, 5 << 3 | 2);
    put_varint(&tensor, count);
    put_varint(&graph, 7 << 3 | 2);
    put_varint(&graph, tensor.count + count);
    const char *path = file_path("a.onnx");
    FILE *file = fopen(path, "wb");
    bool written = fwrite(graph.bytes, graph.count, 1, file) == 1 &&
                   fwrite(tensor.bytes, tensor.count, 1, file) == 1;
    for (int i = 0; i < TURNS; i++)
        written = written && fwrite(turn, sizeof turn, 1, file) == 1;
    cr_assert(fclose(file) == 0 && written);
    cr_assert(asked_for(path) < ((size_t)2 << 20) + 65 * count);
}

/* Graphs in attributes are not looked into, however deep they are. */
Test(onnx_hostile, graphs_in_graphs)
{
    enum { DEEP = 300 };
    wire inner = { 0 };
    for (int i = 0; i < DEEP; i++) {
        wire outer = { 0 };
        put_message(&outer, i % 3 == 0 ? 6 : i % 3 == 1 ? 5 : 1, inner);
        inner = outer;
    }
    wire graph = graph_of(), node = node_of("If", "if", "x", NULL, "z"), branch = { 0 };
    put_text(&branch, 1, "then_branch");
    put_message(&branch, 6, inner);
    put_int(&branch, 20, 5);
    put_message(&node, 5, branch);
    put_message(&graph, 1, node);
    owned_model *model = talc_onnx_read(write_model("a.onnx", model_of(graph, 17)));
    assert_no_failure();
    cr_assert(model->nodes[1].attributes[0].kind == TALC_ONNX_ATTRIBUTE_GRAPH);
}
