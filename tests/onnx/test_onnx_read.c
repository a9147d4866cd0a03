/// What the reader makes of ONNX files that are right. See test_onnx_hostile.c for others.
#include "onnx/model.h"
#include "tensor/memory.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/onnx_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

OWNED_OBJECT(talc_onnx_model, talc_onnx_model_free)
#define owned_model OWNED(talc_onnx_model_end) talc_onnx_model

/* Relu of the input x to the output y. */
static wire relu_graph(void)
{
    wire graph = { 0 };
    put_message(&graph, 1, node_of("Relu", "/relu", "x", NULL, "y"));
    put_message(&graph, 11, value_of("x"));
    put_message(&graph, 12, value_of("y"));
    return graph;
}

static talc_onnx_model *read_graph(wire graph)
{
    talc_onnx_model *model = talc_onnx_read(write_model("a.onnx", model_of(graph, 17)));
    assert_no_failure();
    return model;
}

/* The bytes of an initialiser, which have to be `bytes` many. */
static void assert_elements(const talc_onnx_model *model, int index, const void *expected,
                            int64_t bytes)
{
    unsigned char elements[256];
    const talc_onnx_tensor *tensor = &model->initializers[index];
    cr_assert(tensor->bytes == bytes && bytes <= (int64_t)sizeof elements, "'%s'", tensor->name);
    cr_assert(talc_onnx_read_elements(model, tensor, elements));
    cr_assert(bytes == 0 || memcmp(elements, expected, (size_t)bytes) == 0, "'%s'", tensor->name);
}

Test(onnx_read, a_model_is_listed_whole)
{
    wire graph = { 0 }, node = node_of("Conv", "/conv", "x", "w", "y"), attribute = { 0 };
    put_text(&attribute, 1, "pads");
    put_int(&attribute, 8, 1);
    put_int(&attribute, 8, -2);
    put_int(&attribute, 20, 7);
    put_message(&node, 5, attribute);
    put_text(&node, 7, "ai.onnx");
    put_block(&node, 9, "a stack trace, which nothing reads", 34);
    put_message(&graph, 1, node);
    wire tensor = TENSOR(1, "w", 1, 2);
    put_block(&tensor, 9, "\0\0\x80\x3f\0\0\0\x40", 8);
    put_message(&graph, 5, tensor);
    /* x is float ["batch",3,?], and w is listed as an input too. */
    wire batch = { 0 }, three = { 0 }, open = { 0 }, shape = { 0 }, type = { 0 }, x = { 0 };
    put_text(&batch, 2, "batch");
    put_int(&three, 1, 3);
    put_int(&open, 1, -1);
    put_message(&shape, 1, batch);
    put_message(&shape, 1, three);
    put_message(&shape, 1, open);
    wire floats = { 0 };
    put_int(&floats, 1, TALC_ONNX_FLOAT);
    put_message(&floats, 2, shape);
    put_message(&type, 1, floats);
    put_text(&x, 1, "x");
    put_message(&x, 2, type);
    put_message(&graph, 11, x);
    put_message(&graph, 11, value_of("w"));
    wire sequence = { 0 }, untyped = { 0 };
    put_block(&sequence, 4, "", 0);
    put_text(&untyped, 1, "y");
    put_message(&untyped, 2, sequence);
    put_message(&graph, 12, untyped);
    wire file = model_of(graph, 20), other = { 0 };
    put_text(&other, 1, "com.example");
    put_int(&other, 2, 1);
    put_message(&file, 8, other);
    put_text(&file, 2, "maker");
    put_text(&file, 3, "1.2");
    put_block(&file, 2000, "a field that is not known", 25);
    put_double(&file, 2001, 1);
    put_float(&file, 2002, 1);
    put_int(&file, 2003, -1);

    const char *path = write_model("whole.onnx", file);
    owned_model *model = talc_onnx_read(path);
    assert_no_failure();
    cr_assert_str_eq(model->path, path);
    cr_assert(model->ir_version == 8 && model->opset == 20 && model->file_count == 1);
    cr_assert_str_eq(model->producer, "maker");
    cr_assert_str_eq(model->producer_version, "1.2");
    cr_assert(model->node_count == 1 && model->initializer_count == 1);
    const talc_onnx_node *conv = &model->nodes[0];
    cr_assert_str_eq(conv->op, "Conv");
    cr_assert_str_eq(conv->name, "/conv");
    cr_assert_str_eq(conv->domain, "ai.onnx");
    cr_assert(conv->input_count == 2 && conv->output_count == 1);
    cr_assert_str_eq(conv->inputs[1], "w");
    cr_assert_str_eq(conv->outputs[0], "y");
    const talc_onnx_attribute *pads = talc_onnx_attribute_of(conv, "pads");
    cr_assert(pads != NULL && pads->kind == TALC_ONNX_ATTRIBUTE_INTS && pads->count == 2);
    cr_assert(pads->ints[0] == 1 && pads->ints[1] == -2);
    cr_assert_null(talc_onnx_attribute_of(conv, "strides"));
    const talc_onnx_tensor *w = &model->initializers[0];
    cr_assert(w->dims.rank == 2 && w->dims.dim[1] == 2 && w->count == 2 && w->file == 0);
    assert_elements(model, 0, (float[]){ 1, 2 }, 8);
    cr_assert(model->input_count == 1 && model->output_count == 1);
    const talc_onnx_value_info *in = &model->inputs[0], *out = &model->outputs[0];
    cr_assert(in->type == TALC_ONNX_FLOAT && in->rank == 3);
    cr_assert(in->dim[0] == -1 && in->dim[1] == 3 && in->dim[2] == -1);
    cr_assert_str_eq(in->dim_name[0], "batch");
    cr_assert(in->dim_name[1] == NULL && in->dim_name[2] == NULL);
    cr_assert(out->type == TALC_ONNX_UNDEFINED && out->rank == -1);
}

Test(onnx_read, attributes_of_every_kind)
{
    wire graph = relu_graph(), node = node_of("Other", "", "x", "", "z");
    wire all[11] = { { 0 } };
    static const int kinds[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0 };
    put_float(&all[0], 2, 0.5f);
    put_int(&all[1], 3, -7);
    put_text(&all[2], 4, "SAME_UPPER");
    wire tensor = TENSOR(TALC_ONNX_INT64, NULL, 2);
    put_block(&tensor, 7, "\x05\x80\x01", 3);
    put_message(&all[3], 5, tensor);
    put_block(&all[4], 6, "\xff\xff no graph at all", 18);
    put_float(&all[5], 7, 1);
    put_block(&all[5], 7, "\0\0\0\x40\0\0\x40\x40", 8);
    put_int(&all[6], 8, INT64_MIN);
    put_block(&all[6], 8, "\x01\x02", 2);
    put_int(&all[6], 8, 3);
    put_text(&all[7], 9, "a");
    put_text(&all[7], 9, "");
    put_message(&all[8], 10, tensor);
    put_block(&all[9], 11, "", 0);
    for (int i = 0; i < 11; i++) {
        put_text(&all[i], 1, (char[2]){ (char)('a' + i), '\0' });
        put_int(&all[i], 20, kinds[i]);
        put_message(&node, 5, all[i]);
    }
    put_message(&graph, 1, node);
    owned_model *model = read_graph(graph);
    const talc_onnx_node *other = &model->nodes[1];
    const talc_onnx_attribute *at = other->attributes;
    cr_assert(other->attribute_count == 11 && other->input_count == 2);
    cr_assert_str_empty(other->name);
    cr_assert_str_empty(other->domain);
    cr_assert_str_empty(other->inputs[1]);
    for (int i = 0; i < 11; i++)
        cr_assert((int)at[i].kind == kinds[i]);
    cr_assert(at[0].f == 0.5f && at[1].i == -7);
    cr_assert_str_eq(at[2].s, "SAME_UPPER");
    int64_t pair[2];
    cr_assert(at[3].t->count == 2 && talc_onnx_read_elements(model, at[3].t, pair));
    cr_assert(pair[0] == 5 && pair[1] == 128);
    cr_assert_str_empty(at[3].t->name);
    cr_assert(at[5].count == 3 && at[5].floats[0] == 1 && at[5].floats[2] == 3);
    cr_assert(at[6].count == 4 && at[6].ints[0] == INT64_MIN && at[6].ints[3] == 3);
    cr_assert(at[7].count == 2);
    cr_assert_str_eq(at[7].strings[0], "a");
    cr_assert_str_empty(at[7].strings[1]);
}

/* The same two elements in each way that the format has: packed, or one by one. */
Test(onnx_read, elements_are_stored_in_many_ways)
{
    static const int in_int32[] = { TALC_ONNX_INT32,   TALC_ONNX_INT16,   TALC_ONNX_INT8,
                                    TALC_ONNX_UINT16,  TALC_ONNX_UINT8,   TALC_ONNX_BOOL,
                                    TALC_ONNX_FLOAT16, TALC_ONNX_BFLOAT16 };
    enum { INT32S = sizeof in_int32 / sizeof *in_int32 };
    wire graph = relu_graph();
    char names[INT32S][8];
    for (int i = 0; i < INT32S; i++) {
        snprintf(names[i], sizeof names[i], "i%d", i);
        wire tensor = TENSOR(in_int32[i], names[i], 2);
        put_int(&tensor, 5, i < 3 ? -3 : 3);
        put_block(&tensor, 5, "\x64", 1);
        put_message(&graph, 5, tensor);
    }
    wire floats = TENSOR(TALC_ONNX_FLOAT, "f", 2), doubles = TENSOR(TALC_ONNX_DOUBLE, "d", 2),
         longs = TENSOR(TALC_ONNX_INT64, "l", 2), words = TENSOR(TALC_ONNX_UINT32, "w", 2),
         large = TENSOR(TALC_ONNX_UINT64, "u", 2), raw = TENSOR(TALC_ONNX_INT16, "r", 2),
         bools = TENSOR(TALC_ONNX_BOOL, "b", 3), empty = TENSOR(TALC_ONNX_FLOAT, "e", 2, 0),
         scalar = tensor_of(TALC_ONNX_DOUBLE, 0, NULL, "s"),
         texts = TENSOR(TALC_ONNX_STRING, "t", 2), unknown = TENSOR(23, "q", 3);
    put_float(&floats, 4, 1.5f);
    put_float(&floats, 4, -2);
    put_double(&doubles, 10, 1.5);
    put_double(&doubles, 10, -2);
    put_int(&longs, 7, -1);
    put_int(&longs, 7, INT64_MAX);
    put_int(&words, 11, UINT32_MAX);
    put_int(&words, 11, 1);
    put_int(&large, 11, -1);
    put_int(&large, 11, 1);
    put_block(&raw, 9, "\x02\x01\xff\xff", 4);
    put_block(&bools, 9, "\0\x01\x80", 3);
    put_block(&scalar, 9, "\0\0\0\0\0\0\xf0\x3f", 8);
    put_text(&texts, 6, "a");
    put_text(&texts, 6, "b");
    put_block(&unknown, 9, "abc", 3);
    const wire all[] = { floats, doubles, longs,  words, large,  raw,
                         bools,  empty,   scalar, texts, unknown };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        put_message(&graph, 5, all[i]);
    owned_model *model = read_graph(graph);
    assert_elements(model, 0, (int32_t[]){ -3, 100 }, 8);
    assert_elements(model, 1, (int16_t[]){ -3, 100 }, 4);
    assert_elements(model, 2, (int8_t[]){ -3, 100 }, 2);
    assert_elements(model, 3, (uint16_t[]){ 3, 100 }, 4);
    assert_elements(model, 4, (uint8_t[]){ 3, 100 }, 2);
    assert_elements(model, 5, (uint8_t[]){ 1, 1 }, 2);
    assert_elements(model, 6, (uint16_t[]){ 3, 100 }, 4);
    assert_elements(model, 7, (uint16_t[]){ 3, 100 }, 4);
    assert_elements(model, 8, (float[]){ 1.5f, -2 }, 8);
    assert_elements(model, 9, (double[]){ 1.5, -2 }, 16);
    assert_elements(model, 10, (int64_t[]){ -1, INT64_MAX }, 16);
    assert_elements(model, 11, (uint32_t[]){ UINT32_MAX, 1 }, 8);
    assert_elements(model, 12, (uint64_t[]){ UINT64_MAX, 1 }, 16);
    assert_elements(model, 13, (int16_t[]){ 0x102, -1 }, 4);
    assert_elements(model, 14, (uint8_t[]){ 0, 1, 1 }, 3);
    assert_elements(model, 15, NULL, 0);
    assert_elements(model, 16, (double[]){ 1 }, 8);
    cr_assert(model->initializers[16].dims.rank == 0 && model->initializers[16].count == 1);
    /* Texts, and a type that is not known, are listed, and not read. */
    char nothing[8];
    cr_assert(model->initializers[17].count == 2 && model->initializers[18].count == 3);
    cr_assert_not(talc_onnx_read_elements(model, &model->initializers[17], nothing));
    assert_failure_with(TALC_UNSUPPORTED,
                        "onnx_load: '%s': tensor 't' is of string, which talc does not read",
                        model->path);
    cr_assert_not(talc_onnx_read_elements(model, &model->initializers[18], nothing));
    assert_failure_with(TALC_UNSUPPORTED,
                        "onnx_load: '%s': tensor 'q' is of type 23, which talc does not read",
                        model->path);
}

/* An initialiser of one float at a place of a file. */
static wire external(const char *name, const char *location, const char *offset, const char *length)
{
    wire tensor = TENSOR(TALC_ONNX_FLOAT, name, 1);
    put_external(&tensor, "checksum", "of no matter");
    if (offset != NULL)
        put_external(&tensor, "offset", offset);
    put_external(&tensor, "location", location);
    if (length != NULL)
        put_external(&tensor, "length", length);
    put_int(&tensor, 14, 1);
    return tensor;
}

Test(onnx_read, elements_of_other_files)
{
    wire graph = relu_graph();
    put_message(&graph, 5, external("a", "a.data", "4", "4"));
    put_message(&graph, 5, external("b", "a.data", NULL, "4"));
    put_message(&graph, 5, external("c", "./b.data", "8", NULL));
    put_message(&graph, 5, external("d", "a.data", "8", "4"));
    file_write(file_path("a.data"), "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 12);
    file_write(file_path("b.data"), "\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40", 12);
    owned_model *model = read_graph(graph);
    cr_assert(model->file_count == 3, "each file is opened once");
    assert_elements(model, 0, (float[]){ 2 }, 4);
    assert_elements(model, 1, (float[]){ 1 }, 4);
    assert_elements(model, 2, (float[]){ 6 }, 4);
    assert_elements(model, 3, (float[]){ 3 }, 4);
    /* A file that is cut later is a failure, or as it was. */
    float kept;
    cr_assert(truncate(file_path("a.data"), 6) == 0);
    assert_elements(model, 1, (float[]){ 1 }, 4);
    cr_assert_not(talc_onnx_read_elements(model, &model->initializers[0], &kept));
    assert_failure_with(TALC_IO_ERROR, "onnx_load: '%s' ends at byte 6, 2 bytes too early",
                        file_path("a.data"));
}

/* A path without a folder is one of the folder that the program is in. */
Test(onnx_read, a_model_beside_the_program)
{
    wire graph = relu_graph();
    put_message(&graph, 5, external("a", "a.data", NULL, NULL));
    file_write(file_path("a.data"), "\0\0\x80\x3f", 4);
    (void)write_model("a.onnx", model_of(graph, 9));
    cr_assert(chdir(file_path("")) == 0);
    owned_model *model = talc_onnx_read("a.onnx");
    assert_no_failure();
    assert_elements(model, 0, (float[]){ 1 }, 4);
}

static void assert_order(wire graph, const char *expected)
{
    owned_model *model = read_graph(graph);
    char names[256] = "";
    for (int i = 0; i < model->node_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", model->nodes[i].name);
    cr_assert_str_eq(names, expected);
}

Test(onnx_read, nodes_stand_behind_what_they_need)
{
    wire sorted = { 0 }, mixed = { 0 };
    const wire a = node_of("Relu", "a", "x", NULL, "va"), b = node_of("Relu", "b", "x", NULL, "vb"),
               c = node_of("Add", "c", "va", "vb", "vc"), d = node_of("Add", "d", "vc", "", "y");
    const wire orders[2][4] = { { b, a, c, d }, { d, b, c, a } };
    for (int i = 0; i < 4; i++) {
        put_message(&sorted, 1, orders[0][i]);
        put_message(&mixed, 1, orders[1][i]);
    }
    wire ends = { 0 };
    put_message(&ends, 11, value_of("x"));
    put_message(&ends, 12, value_of("y"));
    put_bytes(&sorted, ends.bytes, ends.count);
    put_bytes(&mixed, ends.bytes, ends.count);
    assert_order(sorted, "b a c d ");
    assert_order(mixed, "a b c d ");
}

/* The last node first: a chain that is deeper than any stack of calls. */
Test(onnx_read, a_chain_in_the_wrong_order)
{
    enum { NODES = 200000 };
    owned_char *bytes = malloc(40 * NODES);
    size_t count = 0;
    for (int i = NODES; i > 0; i--) {
        char first[16], output[16];
        snprintf(first, sizeof first, "v%d", i - 1);
        snprintf(output, sizeof output, "v%d", i);
        wire node = { 0 }, field = { 0 };
        put_text(&node, 1, first);
        put_text(&node, 2, output);
        put_text(&node, 4, "Relu");
        put_message(&field, 1, node);
        memcpy(bytes + count, field.bytes, field.count);
        count += field.count;
    }
    wire ends = { 0 }, head = { 0 };
    put_message(&ends, 11, value_of("v0"));
    put_message(&ends, 12, value_of("v200000"));
    put_varint(&head, 7 << 3 | 2);
    put_varint(&head, count + ends.count);
    const char *path = file_path("chain.onnx");
    FILE *file = fopen(path, "wb");
    const wire rest = model_of((wire){ 0 }, 17); /* with a graph of no bytes behind ir_version */
    fwrite(rest.bytes, 1, 2, file);
    fwrite(head.bytes, 1, head.count, file);
    fwrite(bytes, 1, count, file);
    fwrite(ends.bytes, 1, ends.count, file);
    fwrite(rest.bytes + 4, 1, rest.count - 4, file);
    fclose(file);
    owned_model *model = talc_onnx_read(path);
    assert_no_failure();
    cr_assert(model->node_count == NODES);
    cr_assert_str_eq(model->nodes[0].outputs[0], "v1");
    cr_assert_str_eq(model->nodes[NODES - 1].outputs[0], "v200000");
}

Test(onnx_read, names_and_sizes_of_types)
{
    char text[24];
    cr_assert_str_eq(talc_onnx_type_name(TALC_ONNX_BFLOAT16, text), "bfloat16");
    cr_assert_str_eq(talc_onnx_type_name(TALC_ONNX_INT64, text), "int64");
    cr_assert_str_eq(talc_onnx_type_name(-2147483647, text), "type -2147483647");
    cr_assert(talc_onnx_type_size(TALC_ONNX_BFLOAT16) == 2 && talc_onnx_type_size(23) == 0);
    cr_assert(talc_onnx_type_size(TALC_ONNX_DOUBLE) == 8 && talc_onnx_type_size(-1) == 0);
    cr_assert(talc_onnx_type_size(TALC_ONNX_STRING) == 0);
    talc_onnx_model_free(NULL);
    cr_assert_null(talc_onnx_read(NULL));
    assert_failure(TALC_NULL_ARGUMENT, "onnx_load: path is NULL");
}

// ---- Allocations that fail ----------------------------------------------------------------------

static void run_read(fault_run *run)
{
    wire graph = relu_graph(), node = node_of("Pad", "p", "x", "f16", "z"), attribute = { 0 };
    wire halves = TENSOR(TALC_ONNX_FLOAT16, "f16", 2);
    put_block(&halves, 5, "\x64\x65", 2);
    put_text(&attribute, 1, "value");
    put_message(&attribute, 5, halves);
    put_int(&attribute, 20, 4);
    put_message(&node, 5, attribute);
    put_message(&graph, 1, node);
    put_message(&graph, 5, halves);
    put_message(&graph, 5, external("a", "a.data", NULL, NULL));
    file_write(file_path("a.data"), "\0\0\x80\x3f", 4);
    owned_model *model = talc_onnx_read(write_model("a.onnx", model_of(graph, 17)));
    uint16_t values[2];
    if (model != NULL && talc_onnx_read_elements(model, &model->initializers[0], values))
        fault_keep_bytes(run, values, sizeof values);
}

TEST_SURVIVES(onnx_read, out_of_memory, 6, "read an ONNX file", NULL, run_read, NULL, NULL)
