/// Networks of ONNX files: what runs, and what comes out.
#include "onnx/onnx.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/guard.h"
#include "tests/support/networks.h"
#include "tests/support/observed_ops.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/op_cases.h"
#include "tests/support/threads_agree.h"

#include <math.h>
#include <string.h>

enum { FLOAT = 1, UINT8 = 2, INT32 = 6, INT64 = 7, BOOL = 9 };

// ---- Writing graphs -----------------------------------------------------------------------------

static void add_ints(wire *node, const char *name, int count, const int64_t *list)
{
    wire attribute = { 0 };
    put_text(&attribute, 1, name);
    for (int i = 0; i < count; i++)
        put_int(&attribute, 8, list[i]);
    put_int(&attribute, 20, 7);
    put_message(node, 5, attribute);
}
#define INTS(node, name, ...)                                                                      \
    add_ints(node, name, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                     \
             (int64_t[]){ __VA_ARGS__ })

static void add_int(wire *node, const char *name, int64_t value)
{
    wire attribute = { 0 };
    put_text(&attribute, 1, name);
    put_int(&attribute, 3, value);
    put_int(&attribute, 20, 2);
    put_message(node, 5, attribute);
}

static void add_float(wire *node, const char *name, float value)
{
    wire attribute = { 0 };
    put_text(&attribute, 1, name);
    put_float(&attribute, 2, value);
    put_int(&attribute, 20, 1);
    put_message(node, 5, attribute);
}

static void add_text(wire *node, const char *name, const char *value)
{
    wire attribute = { 0 };
    put_text(&attribute, 1, name);
    put_text(&attribute, 4, value);
    put_int(&attribute, 20, 3);
    put_message(node, 5, attribute);
}

/* A node of `count` inputs, and the graph's next. */
static wire node_with(const char *op, const char *output, int count, const char *const *inputs)
{
    wire node =
        node_of(op, output, count > 0 ? inputs[0] : NULL, count > 1 ? inputs[1] : NULL, output);
    for (int i = 2; i < count; i++)
        put_text(&node, 1, inputs[i]);
    return node;
}
#define NODE(op, output, ...)                                                                      \
    node_with(op, output, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *),                \
              (const char *[]){ __VA_ARGS__ })
#define ADD(graph, op, output, ...) put_message(graph, 1, NODE(op, output, __VA_ARGS__))

static void add_tensor(wire *graph, int type, const char *name, int rank, const int64_t *dims,
                       const void *elements, size_t bytes)
{
    wire tensor = tensor_of(type, rank, dims, name);
    put_block(&tensor, 9, elements, bytes);
    put_message(graph, 5, tensor);
}
#define FLOATS(graph, name, shape, ...)                                                            \
    add_tensor(graph, FLOAT, name, (shape).rank, (shape).dim, (float[]){ __VA_ARGS__ },            \
               sizeof((float[]){ __VA_ARGS__ }))
#define NUMBERS(graph, name, ...)                                                                  \
    add_tensor(graph, INT64, name, 1,                                                              \
               (int64_t[]){ sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t) },                \
               (int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }))
#define NUMBER(graph, name, value)                                                                 \
    add_tensor(graph, INT64, name, 0, NULL, &(int64_t){ value }, sizeof(int64_t))

static void add_ends(wire *graph, const char *input, const char *output)
{
    put_message(graph, 11, value_of(input));
    put_message(graph, 12, value_of(output));
}

/* An input of a type. */
static wire input_of(const char *name, int of)
{
    wire type = { 0 }, element = { 0 }, value = { 0 };
    put_int(&element, 1, of);
    put_message(&type, 1, element);
    put_text(&value, 1, name);
    put_message(&value, 2, type);
    return value;
}

static talc_module *load_on(talc_device *device, wire graph, int64_t opset)
{
    return talc_onnx_load(device, write_model("model.onnx", model_of(graph, opset)), NULL);
}

static talc_module *load(wire graph)
{
    talc_module *module = load_on(tested_device(), graph, 17);
    assert_no_failure();
    return module;
}

static talc_tensor *on_device(talc_dims dims, const float *elements)
{
    return talc_from_host(tested_device(), TALC_F32, dims, elements);
}
#define TENSOR_OF(dims, ...) on_device(dims, (float[]){ __VA_ARGS__ })

/* [1,1,2,2] by a kernel of 2x2 to [1,2,1,1]: y0 = 1 + x00 + 2 x01 + 3 x10 + 4 x11,
 * y1 = -x00. */
static wire convolution(const char *weight, const char *bias)
{
    wire graph = { 0 };
    FLOATS(&graph, weight, TALC_DIMS(2, 1, 2, 2), 1, 2, 3, 4, -1, 0, 0, 0);
    FLOATS(&graph, bias, TALC_DIMS(2), 1, 0);
    ADD(&graph, "Conv", "c", "x", weight, bias);
    return graph;
}

/* A failure whose message, which begins with the file's path, has that in it. */
static void assert_failed(talc_status status, const char *part)
{
    cr_assert_eq(talc_error_status(), status, "%s", talc_error_message());
    cr_assert(strstr(talc_error_message(), part) != NULL, "'%s' lacks '%s'", talc_error_message(),
              part);
    talc_error_clear();
}

// ---- Modules ------------------------------------------------------------------------------------

Test(onnx, a_layer_stands_where_its_parameters_say)
{
    wire graph = convolution("block.0.conv.weight", "block.0.conv.bias");
    ADD(&graph, "Relu", "y", "c");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    const talc_module *layer = talc_module_child(net, "block.0.conv");
    cr_assert(layer != NULL && strcmp(layer->kind->name, "Conv2d") == 0);
    cr_assert_eq(talc_numel(talc_module_find(net, "block.0.conv.weight")), 8);
    cr_assert_eq(talc_module_count(net), 10);
    cr_assert(!net->training);
    talc_no_grad_enter();
    talc_tensor *x = TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 2, 3, 4);
    for (int pass = 0; pass < 2; pass++)
        assert_values(observed(net, x), (double[]){ 31, 0 }, 0, "y");
    cr_assert_str_eq(counted.ops, "conv2d ");
    assert_values(unfused(net, x), (double[]){ 31, 0 }, 0, "y");
    cr_assert_str_eq(counted.ops, "conv2d relu ");
    assert_threads_agree(net, x);
    talc_no_grad_leave();
}

Test(onnx, names_that_are_no_paths_are_parameters_of_the_root)
{
    wire graph = convolution("onnx::Conv_1", "a..b");
    ADD(&graph, "Neg", "y", "c");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    cr_assert_not_null(talc_module_find(net, "onnx::Conv_1"));
    cr_assert_not_null(talc_module_find(net, "a__b"));
    assert_values(talc_forward(net, TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 0, 0, 0)),
                  (double[]){ -2, 1 }, 0, "y");
}

Test(onnx, a_parameter_in_the_way_of_a_path_keeps_both)
{
    wire graph = convolution("a", "a.bias");
    ADD(&graph, "Relu", "y", "c");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    cr_assert_eq(talc_module_count(net), 10);
    assert_values(talc_forward(net, TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 0, 0, 0)),
                  (double[]){ 2, 0 }, 0, "y");
}

Test(onnx, a_norm_is_folded_and_a_residual_joins)
{
    wire graph = convolution("c.w", "c.b");
    FLOATS(&graph, "n.weight", TALC_DIMS(2), 2, 3);
    FLOATS(&graph, "n.bias", TALC_DIMS(2), 0, 1);
    FLOATS(&graph, "n.mean", TALC_DIMS(2), 1, 0);
    FLOATS(&graph, "n.var", TALC_DIMS(2), 1, 1);
    wire norm = NODE("BatchNormalization", "n", "c", "n.weight", "n.bias", "n.mean", "n.var");
    add_float(&norm, "epsilon", 0);
    put_message(&graph, 1, norm);
    ADD(&graph, "Neg", "r", "c");
    ADD(&graph, "Add", "s", "r", "n");
    ADD(&graph, "Relu", "y", "s");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    talc_no_grad_enter();
    /* c = 3, -1; n = 4, -2; s = 1, -1. */
    talc_tensor *x = TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 0, 1, 0, 0);
    x = talc_add(x, TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, -0.5, 0, 0));
    assert_values(observed(net, x), (double[]){ 1, 0 }, 1e-5, "y");
    cr_assert_str_eq(counted.ops, "conv2d neg batch_norm2d ");
    talc_no_grad_leave();
}

Test(onnx, what_only_broadcasts_to_a_result_is_no_residual)
{
    wire graph = convolution("c.weight", "c.bias");
    ADD(&graph, "GlobalAveragePool", "mean", "x");
    ADD(&graph, "Add", "s", "c", "mean");
    ADD(&graph, "Relu", "y", "s");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    /* c = 11, -1; mean = 1. */
    assert_values(talc_forward(net, TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 1, 1, 1)),
                  (double[]){ 12, 0 }, 0, "y");
}

Test(onnx, only_the_first_activation_joins)
{
    wire graph = convolution("c.weight", "c.bias");
    ADD(&graph, "Neg", "n", "c");
    ADD(&graph, "Add", "s", "n", "c");
    ADD(&graph, "Relu", "r", "s");
    ADD(&graph, "Sigmoid", "y", "r");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    talc_tensor *x = TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 2, 3, 4);
    assert_values(talc_forward(net, x), (double[]){ 0.5, 0.5 }, 1e-7, "y");
    wire other = convolution("c.weight", "c.bias");
    ADD(&other, "Add", "s", "c", "x");
    ADD(&other, "Relu", "r", "s");
    ADD(&other, "Sigmoid", "y", "r");
    add_ends(&other, "x", "y");
    owned_module *second = load(other);
    x = TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 0, 0, 0, 0);
    const double one = 1 / (1 + exp(-1.0));
    assert_values(talc_forward(second, x), (double[]){ one, one, one, one, 0.5, 0.5, 0.5, 0.5 },
                  1e-6, "y");
}

Test(onnx, a_norm_of_any_rank)
{
    wire graph = { 0 };
    FLOATS(&graph, "n.weight", TALC_DIMS(2), 2, 3);
    FLOATS(&graph, "n.bias", TALC_DIMS(2), 0, 1);
    FLOATS(&graph, "n.mean", TALC_DIMS(2), 1, 0);
    FLOATS(&graph, "n.var", TALC_DIMS(2), 1, 1);
    ADD(&graph, "BatchNormalization", "n", "x", "n.weight", "n.bias", "n.mean", "n.var");
    ADD(&graph, "Relu", "y", "n");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    talc_tensor *y = talc_forward(net, TENSOR_OF(TALC_DIMS(1, 2), 3, -1));
    assert_values(y, (double[]){ 4, 0 }, 1e-4, "y");
    y = talc_forward(net, TENSOR_OF(TALC_DIMS(1, 2, 2), 3, 2, -1, 1));
    assert_values(y, (double[]){ 4, 2, 0, 4 }, 1e-4, "y");
    cr_assert_eq(y->rank, 3);
}

Test(onnx, linear_maps_of_both_layouts)
{
    wire graph = { 0 };
    FLOATS(&graph, "one.weight", TALC_DIMS(3, 2), 1, 2, 3, 4, 5, 6);
    FLOATS(&graph, "one.bias", TALC_DIMS(2), 1, -100);
    FLOATS(&graph, "two.weight", TALC_DIMS(1, 2), 1, -1);
    wire first = NODE("Gemm", "a", "x", "one.weight", "one.bias");
    put_message(&graph, 1, first);
    ADD(&graph, "Relu", "b", "a");
    wire second = NODE("Gemm", "y", "b", "two.weight");
    add_int(&second, "transB", 1);
    put_message(&graph, 1, second);
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    talc_no_grad_enter();
    talc_tensor *x = TENSOR_OF(TALC_DIMS(1, 3), 1, 1, 1);
    assert_values(observed(net, x), (double[]){ 10 }, 0, "y");
    cr_assert_str_eq(counted.ops, "linear linear ");
    talc_no_grad_leave();
    talc_module_explanation explanation;
    cr_assert(talc_module_explain(net, x, &explanation));
    cr_assert_eq(explanation.count, 2);
    cr_assert_str_eq(explanation.steps[0].layers, "one+b");
    cr_assert_str_eq(explanation.steps[0].does, "Linear + relu");
    talc_module_explanation_free(&explanation);
    cr_assert_str_eq(talc_module_child(net, "one")->kind->name, "Linear");
}

Test(onnx, a_vector_is_flattened_and_normalised)
{
    wire graph = { 0 };
    const char *const names[] = { "w", "b", "m", "v" };
    for (int i = 0; i < 4; i++)
        FLOATS(&graph, names[i], TALC_DIMS(1), (float)(i < 2 ? 3 - i : i == 2 ? 1 : 4));
    ADD(&graph, "BatchNormalization", "n", "x", "w", "b", "m", "v");
    ADD(&graph, "Flatten", "y", "n");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    const talc_tensor *y = talc_forward(net, TENSOR_OF(TALC_DIMS(3), 1, 3, -3));
    assert_values(y, (double[]){ 2, 5, -4 }, 1e-4, "y");
    cr_assert(y->rank == 2 && y->dims[0] == 3 && y->dims[1] == 1);
}

Test(onnx, dropout_drops_in_training_mode)
{
    for (int opset = 11; opset < 13; opset++) { /* the ratio is an attribute, an input */
        wire graph = { 0 }, node = opset == 11 ? NODE("Dropout", "y", "x")
                                               : NODE("Dropout", "y", "x", "ratio", "trains");
        if (opset == 11) {
            add_float(&node, "ratio", 0.75);
        }
        put_message(&graph, 1, node);
        FLOATS(&graph, "ratio", TALC_SCALAR, 0.75);
        add_tensor(&graph, BOOL, "trains", 0, NULL, "", 1);
        add_ends(&graph, "x", "y");
        owned_module *net = load_on(tested_device(), graph, opset);
        assert_no_failure();
        talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(4096));
        cr_assert_eq(talc_item(talc_mean(talc_forward(net, x), TALC_SCALAR, false)), 1);
        talc_module_train(net);
        talc_tensor *y = talc_forward(net, x);
        const double kept = talc_item(talc_mean(talc_div_scalar(y, 4), TALC_SCALAR, false));
        const talc_tensor *zero = talc_cast(talc_equal_scalar(y, 0), TALC_F32);
        const double dropped = talc_item(talc_mean(zero, TALC_SCALAR, false));
        cr_assert(kept + dropped == 1 && fabs(kept - 0.25) < 0.05, "%g, %g", kept, dropped);
    }
    wire always = { 0 };
    FLOATS(&always, "ratio", TALC_SCALAR, 0.5);
    add_tensor(&always, BOOL, "trains", 0, NULL, "\1", 1);
    ADD(&always, "Dropout", "y", "x", "ratio", "trains");
    add_ends(&always, "x", "y");
    owned_module *net = load(always);
    cr_assert_null(talc_forward(net, talc_ones(tested_device(), TALC_F32, TALC_DIMS(2))));
    assert_failed(TALC_UNSUPPORTED, "Dropout 'y': training_mode is not 0");
}

Test(onnx, integers_are_cast_as_numpy_does)
{
    wire graph = { 0 };
    for (int i = 0; i < 2; i++) {
        wire node = NODE("Cast", i == 0 ? "narrow" : "byte", "x");
        add_int(&node, "to", i == 0 ? INT32 : UINT8);
        put_message(&graph, 1, node);
    }
    add_tensor(&graph, BOOL, "flag", 0, NULL, "", 1);
    ADD(&graph, "Not", "other", "flag");
    ADD(&graph, "Where", "chosen", "flag", "flag", "other");
    ADD(&graph, "CastLike", "bool", "x", "flag");
    ADD(&graph, "CastLike", "again", "x", "chosen");
    ADD(&graph, "CastLike", "like", "x", "byte");
    put_message(&graph, 11, input_of("x", INT64));
    const char *const outputs[] = { "narrow", "byte", "bool", "again", "like" };
    for (int i = 0; i < 5; i++)
        put_message(&graph, 12, value_of(outputs[i]));
    owned_module *net = load(graph);
    const int64_t numbers[] = { 300, -1, 0x100000005, -2147483649 };
    talc_tensor *x = talc_from_host(tested_device(), TALC_I64, TALC_DIMS(4), numbers), *y[5];
    cr_assert(talc_onnx_run(net, &x, 1, y, 5), "%s", talc_error_message());
    /* numpy.int64([300, -1, 2**32 + 5, -2**31 - 1]).astype(...) */
    assert_values(y[0], (double[]){ 300, -1, 5, 2147483647 }, 0, outputs[0]);
    assert_values(y[1], (double[]){ 44, 255, 5, 255 }, 0, outputs[1]);
    assert_values(y[2], (double[]){ 1, 1, 1, 1 }, 0, outputs[2]);
    assert_values(y[3], (double[]){ 1, 1, 1, 1 }, 0, outputs[3]);
    assert_values(y[4], (double[]){ 44, 255, 5, 255 }, 0, outputs[4]);
    cr_assert(y[0]->dtype == TALC_I32 && y[1]->dtype == TALC_U8);
}

Test(onnx, a_bias_joins_its_product)
{
    for (int count = 1; count < 3; count++) { /* of one number it is no linear map's */
        wire graph = { 0 };
        FLOATS(&graph, "m.weight", TALC_DIMS(3, 2), 1, 2, 3, 4, 5, 6);
        if (count == 2)
            FLOATS(&graph, "m.bias", TALC_DIMS(2), 1, -100);
        else
            FLOATS(&graph, "m.bias", TALC_DIMS(1), 1);
        ADD(&graph, "MatMul", "p", "x", "m.weight");
        ADD(&graph, "Add", "s", "m.bias", "p");
        ADD(&graph, "Relu", "y", "s");
        add_ends(&graph, "x", "y");
        owned_module *net = load(graph);
        talc_no_grad_enter();
        talc_tensor *x = TENSOR_OF(TALC_DIMS(1, 1, 3), 1, 1, 1);
        const talc_tensor *y = observed(net, x);
        assert_values(y, (double[]){ 10, count == 2 ? 0 : 13 }, 0, "y");
        cr_assert(y->rank == 3);
        cr_assert_str_eq(counted.ops, count == 2 ? "linear " : "linear add relu ");
        talc_no_grad_leave();
        cr_assert_not_null(talc_module_find(net, "m.bias"));
    }
}

/* x (Erf(x / root) + one) half, in the steps of gelu. */
static wire gelu_with(float root, float one, float half)
{
    wire graph = { 0 };
    FLOATS(&graph, "root", TALC_SCALAR, root);
    FLOATS(&graph, "one", TALC_SCALAR, one);
    FLOATS(&graph, "half", TALC_SCALAR, half);
    ADD(&graph, "Div", "d", "x", "root");
    ADD(&graph, "Erf", "e", "d");
    ADD(&graph, "Add", "a", "e", "one");
    ADD(&graph, "Mul", "m", "x", "a");
    ADD(&graph, "Mul", "y", "m", "half");
    add_ends(&graph, "x", "y");
    return graph;
}

Test(onnx, longer_forms_of_older_opsets_are_recognised)
{
    wire graph = gelu_with(1.41421356f, 1, 0.5f);
    ADD(&graph, "Sigmoid", "s", "y");
    ADD(&graph, "Mul", "z", "y", "s");
    put_message(&graph, 12, value_of("z"));
    owned_module *net = load(graph);
    talc_tensor *x = TENSOR_OF(TALC_DIMS(3), -1, 0.5, 2), *y[2];
    const double numbers[] = { -1, 0.5, 2 };
    double gelu[3], silu[3];
    for (int i = 0; i < 3; i++) {
        gelu[i] = numbers[i] * 0.5 * (1 + erf(numbers[i] / sqrt(2)));
        silu[i] = gelu[i] / (1 + exp(-gelu[i]));
    }
    counted.ops[0] = '\0';
    talc_observe(&counted.base);
    cr_assert(talc_onnx_run(net, &x, 1, y, 2), "%s", talc_error_message());
    talc_observe(NULL);
    assert_values(y[0], gelu, 1e-6, "gelu");
    assert_values(y[1], silu, 1e-6, "silu");
    cr_assert_str_eq(counted.ops, "gelu silu ");
}

Test(onnx, other_numbers_are_no_gelu)
{
    static const float numbers[][3] = { { 1.41421356f, 2, 0.5f },
                                        { 1.41421356f, 1, 0.25f },
                                        { 1.5f, 1, 0.5f } };
    for (int i = 0; i < 3; i++) {
        const float *n = numbers[i];
        owned_module *net = load(gelu_with(n[0], n[1], n[2]));
        assert_values(talc_forward(net, TENSOR_OF(TALC_DIMS(1), 2)),
                      (double[]){ 2 * (erf(2 / (double)n[0]) + n[1]) * n[2] }, 1e-6, "y");
    }
}

static wire layer_norm_with(float exponent, float eps)
{
    wire graph = { 0 };
    FLOATS(&graph, "two", TALC_SCALAR, exponent);
    FLOATS(&graph, "eps", TALC_SCALAR, eps);
    FLOATS(&graph, "n.weight", TALC_DIMS(2), 2, 3);
    FLOATS(&graph, "n.bias", TALC_DIMS(2), 1, 0);
    wire mean = NODE("ReduceMean", "m", "x"), variance = NODE("ReduceMean", "v", "p");
    INTS(&mean, "axes", -1);
    INTS(&variance, "axes", -1);
    put_message(&graph, 1, mean);
    ADD(&graph, "Sub", "d", "x", "m");
    ADD(&graph, "Pow", "p", "d", "two");
    put_message(&graph, 1, variance);
    ADD(&graph, "Add", "a", "v", "eps");
    ADD(&graph, "Sqrt", "r", "a");
    ADD(&graph, "Div", "q", "d", "r");
    ADD(&graph, "Mul", "w", "q", "n.weight");
    ADD(&graph, "Add", "y", "w", "n.bias");
    add_ends(&graph, "x", "y");
    return graph;
}

Test(onnx, layer_norm_of_older_opsets_is_recognised)
{
    owned_module *net = load(layer_norm_with(2, 0.5f));
    /* mean 2, variance 1: +-1 / sqrt(1.5). */
    const double z = 1 / sqrt(1.5);
    assert_values(observed(net, TENSOR_OF(TALC_DIMS(1, 2), 1, 3)), (double[]){ 1 - 2 * z, 3 * z },
                  1e-6, "y");
    cr_assert_str_eq(counted.ops, "group_norm ");
    owned_module *other = load(layer_norm_with(3, 0.5f)); /* of cubes, whose mean is 0 */
    assert_values(observed(other, TENSOR_OF(TALC_DIMS(1, 2), 1, 3)),
                  (double[]){ 1 - 2 / sqrt(0.5), 3 / sqrt(0.5) }, 1e-5, "y");
}

Test(onnx, a_layer_norm_may_have_no_eps)
{
    owned_module *net = load(layer_norm_with(2, 0));
    assert_values(observed(net, TENSOR_OF(TALC_DIMS(1, 2), 1e-3f, 3e-3f)), (double[]){ -1, 3 },
                  1e-5, "y");
    cr_assert_str_eq(counted.ops, "group_norm ");
    wire graph = { 0 }, norm = NODE("LayerNormalization", "y", "x", "w");
    FLOATS(&graph, "w", TALC_DIMS(1), 2); /* which is broadcast */
    add_float(&norm, "epsilon", 0);
    put_message(&graph, 1, norm);
    add_ends(&graph, "x", "y");
    owned_module *other = load(graph);
    assert_values(talc_forward(other, TENSOR_OF(TALC_DIMS(1, 2), 1e-3f, 3e-3f)),
                  (double[]){ -2, 2 }, 1e-5, "y");
}

// ---- Shapes -------------------------------------------------------------------------------------

/* y = x as [first extent, -1], by operators on its shape. */
static wire flattened(void)
{
    wire graph = { 0 };
    NUMBER(&graph, "zero", 0);
    NUMBERS(&graph, "axes", 0);
    NUMBERS(&graph, "rest", -1);
    ADD(&graph, "Shape", "s", "x");
    ADD(&graph, "Gather", "n", "s", "zero");
    ADD(&graph, "Unsqueeze", "u", "n", "axes");
    ADD(&graph, "Concat", "t", "u", "rest");
    ADD(&graph, "Reshape", "f", "x", "t");
    ADD(&graph, "Relu", "y", "f");
    add_ends(&graph, "x", "y");
    return graph;
}

Test(onnx, shapes_are_worked_out_for_each_shape_of_the_input)
{
    wire graph = flattened();
    owned_module *net = load(graph);
    for (int pass = 0; pass < 24; pass++) { /* more shapes than plans are kept */
        const int64_t n = 1 + pass % 12;
        talc_tensor *y = observed(net, talc_ones(tested_device(), TALC_F32, TALC_DIMS(n, 2, 3)));
        assert_no_failure();
        cr_assert(y->rank == 2 && y->dims[0] == n && y->dims[1] == 6);
        cr_assert_str_eq(counted.ops, "relu ");
    }
}

Test(onnx, plans_hold_no_more_than_64_mib)
{
    wire graph = { 0 };
    wire concat = NODE("Concat", "t", "s", "more");
    NUMBERS(&graph, "more", 1 << 20);
    ADD(&graph, "Shape", "s", "x");
    add_int(&concat, "axis", 0);
    put_message(&graph, 1, concat);
    ADD(&graph, "ConstantOfShape", "z", "t"); /* 4 MiB for each of x */
    ADD(&graph, "Size", "y", "z");
    put_message(&graph, 11, input_of("x", INT64));
    put_message(&graph, 12, value_of("y"));
    owned_module *net = load(graph);
    for (int64_t n = 1; n < 8; n++) {
        talc_scope *scope = talc_scope_enter();
        cr_assert_not_null(talc_forward(net, talc_zeros(tested_device(), TALC_I64, TALC_DIMS(n))),
                           "%s", talc_error_message());
        talc_scope_leave(scope);
    }
    /* Of 7, 6, 5 ... times 4 MiB the first two fit, not three. */
    const size_t live = talc_device_memory(cpu_device()).live;
    cr_assert(live > 50 << 20 && live <= 64 << 20, "%zu bytes", live);
}

Test(onnx, a_shape_that_an_input_holds_is_read_each_time)
{
    wire graph = { 0 };
    ADD(&graph, "Reshape", "y", "x", "shape");
    ADD(&graph, "Shape", "s", "y"); /* follows from what the input holds, not from its shape */
    put_message(&graph, 11, value_of("x"));
    put_message(&graph, 11, input_of("shape", INT64));
    put_message(&graph, 12, value_of("y"));
    put_message(&graph, 12, value_of("s"));
    owned_module *net = load(graph);
    talc_tensor *x = TENSOR_OF(TALC_DIMS(6), 1, 2, 3, 4, 5, 6), *y[2];
    const int64_t shapes[][2] = { { 2, 3 }, { 3, 2 }, { -1, 1 } };
    for (int i = 0; i < 3; i++) {
        talc_tensor *shape = talc_from_host(tested_device(), TALC_I64, TALC_DIMS(2), shapes[i]);
        cr_assert(talc_onnx_run(net, (talc_tensor *[]){ x, shape }, 2, y, 2), "%s",
                  talc_error_message());
        cr_assert_eq(y[0]->dims[0], i == 2 ? 6 : 2 + i);
        cr_assert_eq(talc_item_i64(talc_select(y[1], 0, 0)), y[0]->dims[0]);
    }
}

Test(onnx, factors_that_an_input_holds_are_read_each_time)
{
    wire old = { 0 };
    ADD(&old, "Resize", "r", "x", "scales"); /* opset 10, which has no roi */
    ADD(&old, "Shape", "y", "r");
    put_message(&old, 11, value_of("x"));
    put_message(&old, 11, value_of("scales"));
    put_message(&old, 12, value_of("y"));
    owned_module *net = load_on(tested_device(), old, 10);
    assert_no_failure();
    talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 1, 4, 4)), *y = NULL;
    for (int factor = 2; factor < 5; factor++) {
        talc_tensor *scales = on_device(TALC_DIMS(4), (float[]){ 1, 1, (float)factor, 2 });
        cr_assert(talc_onnx_run(net, (talc_tensor *[]){ x, scales }, 2, &y, 1), "%s",
                  talc_error_message());
        cr_assert_eq(talc_item_i64(talc_select(y, 0, 2)), 4 * factor);
    }
}

/* A matrix, as onnx.reference has it: along its rows, then both ways, with an axis from the end. */
Test(onnx, a_matrix_is_resized_along_axes)
{
    const talc_tensor *x = TENSOR_OF(TALC_DIMS(2, 4), 1, 2, 4, 8, 3, -1, 0, 5);
    wire rows = { 0 }, cubic = NODE("Resize", "y", "x", "", "scales");
    add_float(&cubic, "cubic_coeff_a", -0.5F);
    add_text(&cubic, "mode", "cubic");
    INTS(&cubic, "axes", -1);
    put_message(&rows, 1, cubic);
    FLOATS(&rows, "scales", TALC_DIMS(1), 1.5F);
    add_ends(&rows, "x", "y");
    owned_module *net = load_on(tested_device(), rows, 18);
    assert_no_failure();
    assert_values(talc_forward(net, (talc_tensor *)x),
                  (double[]){ 0.9421296296296297, 1.375, 2.252314814814815, 3.5393518518518516,
                              6.125, 8.231481481481481, 3.2314814814814814, 0.9375,
                              -1.1689814814814816, -0.45601851851851855, 2.5625,
                              5.289351851851852 },
                  2e-6, "rows");
    wire both = { 0 }, nearest = NODE("Resize", "y", "x", "", "", "sizes");
    add_text(&nearest, "nearest_mode", "ceil");
    INTS(&nearest, "axes", 1, 0);
    put_message(&both, 1, nearest);
    NUMBERS(&both, "sizes", 3, 3);
    add_ends(&both, "x", "y");
    owned_module *other = load_on(tested_device(), both, 18);
    assert_no_failure();
    assert_values(talc_forward(other, (talc_tensor *)x), (double[]){ 2, 4, 8, -1, 0, 5, -1, 0, 5 },
                  0, "both ways");
}

Test(onnx, a_graph_with_shapes_is_captured_after_a_pass)
{
    wire graph = flattened();
    owned_module *net = load(graph);
    talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(2, 2, 3));
    cr_assert_not_null(talc_forward(net, x));
    talc_graph *captured = talc_capture(net, x);
    cr_assert_not_null(captured, "%s", talc_error_message());
    const talc_tensor *y = talc_graph_replay(captured, x);
    cr_assert(y != NULL && y->rank == 2 && y->dims[1] == 6, "%s", talc_error_message());
    talc_graph_free(captured);
    cr_assert_null(talc_capture(net, talc_ones(tested_device(), TALC_F32, TALC_DIMS(3, 2, 3))));
    assert_failed(TALC_UNSUPPORTED, "run one on an input of this shape before");
}

Test(onnx, an_input_of_another_shape_than_the_file_says_is_named)
{
    wire graph = { 0 }, batch = { 0 }, three = { 0 }, shape = { 0 }, floats = { 0 }, type = { 0 },
         x = { 0 };
    put_text(&batch, 2, "batch");
    put_int(&three, 1, 3);
    put_message(&shape, 1, batch);
    put_message(&shape, 1, three);
    put_int(&floats, 1, FLOAT);
    put_message(&floats, 2, shape);
    put_message(&type, 1, floats);
    put_text(&x, 1, "x");
    put_message(&x, 2, type);
    put_message(&graph, 11, x);
    put_message(&graph, 12, value_of("y"));
    ADD(&graph, "Relu", "y", "x");
    owned_module *net = load(graph);
    const talc_dims dims = talc_onnx_input_dims(net, 0);
    cr_assert(dims.rank == 2 && dims.dim[0] == -1 && dims.dim[1] == 3);
    cr_assert_not_null(talc_forward(net, talc_ones(tested_device(), TALC_F32, TALC_DIMS(5, 3))));
    cr_assert_null(talc_forward(net, talc_ones(tested_device(), TALC_F32, TALC_DIMS(5, 4))));
    assert_failed(TALC_BAD_SHAPE, "input 'x' is [5,4], the file's is [batch,3]");
}

// ---- Whole passes -------------------------------------------------------------------------------

Test(onnx, several_inputs_and_outputs)
{
    wire graph = { 0 };
    ADD(&graph, "Add", "s", "a", "b");
    ADD(&graph, "Sub", "d", "a", "b");
    put_message(&graph, 11, value_of("a"));
    put_message(&graph, 11, value_of("b"));
    put_message(&graph, 12, value_of("s"));
    put_message(&graph, 12, value_of("d"));
    owned_module *net = load(graph);
    cr_assert_eq(talc_onnx_input_count(net), 2);
    cr_assert_str_eq(talc_onnx_input_name(net, 1), "b");
    cr_assert_str_eq(talc_onnx_output_name(net, 1), "d");
    cr_assert_null(talc_onnx_output_name(net, 2));
    talc_tensor *in[] = { TENSOR_OF(TALC_DIMS(2), 5, 6), TENSOR_OF(TALC_DIMS(2), 1, 2) };
    talc_tensor *out[2];
    cr_assert(talc_onnx_run(net, in, 2, out, 2));
    assert_values(out[0], (double[]){ 6, 8 }, 0, "s");
    assert_values(out[1], (double[]){ 4, 4 }, 0, "d");
    cr_assert(!talc_onnx_run(net, in, 1, out, 2));
    assert_failed(TALC_BAD_ARGUMENT, "onnx_run: 1 inputs and 2 outputs");
    cr_assert_null(talc_forward(net, in[0]));
    assert_failed(TALC_BAD_ARGUMENT, "has 2 inputs");
    owned_module *other = talc_nn_relu();
    cr_assert(!talc_onnx_run(other, in, 2, out, 2));
    assert_failed(TALC_BAD_ARGUMENT, "onnx_run: ReLU is not of a file");
    cr_assert_eq(talc_onnx_input_count(other), 0);
}

Test(onnx, an_input_may_be_an_output_and_a_constant_too)
{
    wire graph = { 0 };
    NUMBERS(&graph, "k", 4, 5);
    ADD(&graph, "Identity", "y", "x");
    ADD(&graph, "Identity", "c", "k");
    add_ends(&graph, "x", "y");
    put_message(&graph, 12, value_of("c"));
    owned_module *net = load(graph);
    talc_tensor *x = TENSOR_OF(TALC_DIMS(2), 5, 6), *out[2];
    cr_assert(talc_onnx_run(net, &x, 1, out, 2));
    assert_values(out[0], (double[]){ 5, 6 }, 0, "y");
    cr_assert_eq(talc_item_i64(talc_select(out[1], 0, 1)), 5);
}

Test(onnx, it_trains_is_cast_and_is_captured)
{
    wire graph = convolution("c.weight", "c.bias");
    ADD(&graph, "Relu", "y", "c");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    talc_tensor *x = TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 2, 3, 4);
    cr_assert(talc_backward(talc_sum(talc_forward(net, x), TALC_SCALAR, false)), "%s",
              talc_error_message());
    assert_values(talc_grad(talc_module_find(net, "c.weight")),
                  (double[]){ 1, 2, 3, 4, 0, 0, 0, 0 }, 0, "dweight");
    talc_graph *captured = talc_capture(net, x);
    cr_assert_not_null(captured, "%s", talc_error_message());
    assert_values(talc_graph_replay(captured, TENSOR_OF(TALC_DIMS(1, 1, 2, 2), 1, 0, 0, 0)),
                  (double[]){ 2, 0 }, 0, "y");
    talc_graph_free(captured);
    cr_assert(talc_module_cast(net, TALC_F64));
    talc_tensor *y = talc_forward(net, talc_cast(x, TALC_F64));
    assert_no_failure();
    cr_assert_eq(y->dtype, TALC_F64);
    assert_values(y, (double[]){ 31, 0 }, 0, "y");
}

// ---- What cannot be run -------------------------------------------------------------------------

Test(onnx, all_that_cannot_be_run_is_in_one_message)
{
    wire graph = { 0 }, own = NODE("Fancy", "f", "x"), resize = NODE("Resize", "y", "n");
    put_text(&own, 7, "com.example");
    put_message(&graph, 1, own);
    ADD(&graph, "NonZero", "n", "f");
    add_int(&resize, "antialias", 1);
    put_message(&graph, 1, resize);
    add_ends(&graph, "x", "y");
    cr_assert_null(load_on(tested_device(), graph, 17));
    assert_failed(TALC_UNSUPPORTED,
                  "opset 17, 3 of 3 nodes cannot be run: Fancy 'f' (of another domain than ONNX's "
                  "own), NonZero 'n' (not run by talc), Resize 'y' (antialias is not 0)");
}

Test(onnx, a_failing_node_is_named)
{
    wire graph = flattened();
    FLOATS(&graph, "w", TALC_DIMS(5, 2), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    ADD(&graph, "MatMul", "z", "y", "w");
    put_message(&graph, 12, value_of("z"));
    owned_module *net = load(graph);
    cr_assert_null(talc_forward(net, talc_ones(tested_device(), TALC_F32, TALC_DIMS(2, 3))));
    assert_failed(TALC_BAD_SHAPE, "MatMul 'z': ");
    cr_assert_null(talc_onnx_load(tested_device(), NULL, NULL));
    assert_failed(TALC_NULL_ARGUMENT, "onnx_load: path is NULL");
    cr_assert_null(talc_onnx_load(NULL, "a.onnx", NULL));
    assert_failed(TALC_NULL_ARGUMENT, "onnx_load: device is NULL");
}

Test(onnx, a_node_without_what_it_needs_is_named)
{
    static const struct {
        const char *op, *message;
    } nodes[] = { { "Add", "node 0 (Add) 'y': no input 1" },
                  { "Conv", "node 0 (Conv) 'y': no input 1" },
                  { "Where", "node 0 (Where) 'y': no input 1" },
                  { "MaxPool", "node 0 (MaxPool) 'y': no kernel_shape" },
                  { "DepthToSpace", "node 0 (DepthToSpace) 'y': blocksize is 0" } };
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        wire graph = { 0 };
        ADD(&graph, nodes[i].op, "y", "x");
        add_ends(&graph, "x", "y");
        cr_assert_null(load_on(tested_device(), graph, 17));
        assert_failed(TALC_BAD_FORMAT, nodes[i].message);
    }
    wire graph = { 0 }, pool = NODE("MaxPool", "y", "x");
    INTS(&pool, "kernel_shape", 2, 2);
    INTS(&pool, "strides", 0, 0);
    put_message(&graph, 1, pool);
    add_ends(&graph, "x", "y");
    cr_assert_null(load_on(tested_device(), graph, 17));
    assert_failed(TALC_BAD_FORMAT, "strides has 0");
}

Test(onnx, a_gradient_that_would_be_lost_is_refused)
{
    wire graph = { 0 };
    NUMBERS(&graph, "at", 1);
    FLOATS(&graph, "with", TALC_DIMS(1), 5);
    FLOATS(&graph, "w", TALC_DIMS(2), 2, 3);
    NUMBERS(&graph, "dims", 1, 1);
    ADD(&graph, "Reshape", "index", "at", "dims");
    ADD(&graph, "Mul", "m", "x", "w");
    ADD(&graph, "ScatterND", "y", "m", "index", "with");
    add_ends(&graph, "x", "y");
    owned_module *net = load(graph);
    talc_tensor *x = TENSOR_OF(TALC_DIMS(2), 1, 1);
    cr_assert_null(talc_forward(net, x));
    assert_failed(TALC_UNSUPPORTED, "ScatterND 'y': a gradient through it");
    talc_no_grad_enter();
    assert_values(talc_forward(net, x), (double[]){ 2, 5 }, 0, "y");
    talc_no_grad_leave();
}

// ---- Without memory -----------------------------------------------------------------------------

static void run_load(fault_run *run)
{
    wire graph = flattened();
    FLOATS(&graph, "m.weight", TALC_DIMS(6, 2), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    ADD(&graph, "MatMul", "z", "y", "m.weight");
    put_message(&graph, 12, value_of("z"));
    owned_module *net = load_on(run->device, graph, 17);
    for (int pass = 0; pass < 2; pass++) {
        talc_tensor *x = talc_ones(run->device, TALC_F32, TALC_DIMS(2, 2, 3)), *y[2];
        if (net != NULL && x != NULL && talc_onnx_run(net, &x, 1, y, 2))
            fault_keep(run, y[1]);
    }
}

TEST_SURVIVES(onnx, loading_and_running, 40, NULL, NULL, run_load, NULL, NULL)

// ---- Writing ------------------------------------------------------------------------------------

/* Convolution, norm, residual, pooling, a view and a linear map: [N,2,6,6] to [N,3]. */
static talc_module *small_net(void)
{
    talc_manual_seed(5);
    talc_module *net = TALC_SEQUENTIAL(
        talc_nn_conv2d(&(talc_conv2d_layer){
            .in_channels = 2, .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
        talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 4 }), talc_nn_silu(),
        talc_nn_max_pool2d(&(talc_pool2d_options){ .kernel = { 2, 2 } }), talc_nn_flatten(),
        talc_nn_linear(&(talc_linear_layer){ .in_features = 36, .out_features = 3 }));
    talc_module_eval(net);
    return net;
}

Test(onnx, what_is_written_is_read_again)
{
    owned_module *net = small_net();
    cr_assert(talc_module_to(net, tested_device()));
    talc_tensor *x = op_numbers(tested_device(), TALC_DIMS(3, 2, 6, 6), 7);
    const char *path = write_model("small.onnx", (wire){ 0 });
    cr_assert(talc_onnx_save(net, talc_slice(x, 0, 0, 1, 1), path), "%s", talc_error_message());
    owned_module *again = talc_onnx_load(tested_device(), path, NULL);
    assert_no_failure();
    cr_assert_not_null(talc_module_find(again, "5.weight"));
    const talc_dims dims = talc_onnx_input_dims(again, 0);
    cr_assert(dims.rank == 4 && dims.dim[0] == -1 && dims.dim[1] == 2);
    talc_no_grad_enter();
    assert_near(talc_forward(again, x), talc_forward(net, x), 1e-6, "y");
    talc_no_grad_leave();
}

static talc_tensor *swapped_halves(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *y = talc_relu(x);
    const talc_tensor *parts[] = { talc_slice(y, 1, 2, 4, 1), talc_slice(y, 1, 0, 2, 1) };
    return talc_concat(parts, 2, 1);
}

/* Views of what relu makes. */
static talc_tensor *selected_and_moved(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *y = talc_reshape(talc_relu(x), TALC_DIMS(x->dims[0], 2, 2, 12));
    return talc_neg(talc_transpose(talc_select(talc_slice(y, 3, 3, 9, 1), 2, 1), 1, 2));
}

static talc_tensor *every_second(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_neg(talc_select(talc_slice(talc_relu(x), 3, 1, TALC_END, 2), 1, 3));
}

static talc_tensor *every_second_of_three(talc_module *module, talc_tensor *x)
{
    (void)module;
    x = talc_neg(talc_transpose(talc_slice(talc_relu(x), 2, 0, TALC_END, 2), 0, 3));
    return talc_neg(talc_transpose(x, 3, 0));
}

static talc_tensor *every_second_image(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_neg(talc_slice(talc_relu(x), 0, 0, TALC_END, 2));
}

static talc_tensor *with_token(talc_module *module, talc_tensor *x)
{
    const talc_tensor *token = talc_module_find(module, "token");
    const talc_tensor *parts[] = { talc_expand(token, TALC_DIMS(x->dims[0], token->dims[1], 3, 4)),
                                   x };
    return talc_concat(parts, 2, 1);
}

/* Two thirds of a frame are written side by side, then some of both anew. */
static talc_tensor *framed(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *frame = talc_zeros(x->device, x->dtype, TALC_DIMS(x->dims[0], 12, 3, 4));
    talc_copy(talc_slice(frame, 1, 0, 4, 1), x);
    talc_copy(talc_slice(frame, 1, 4, 8, 1), talc_relu(talc_slice(frame, 1, 0, 4, 1)));
    talc_tensor *y = talc_neg(talc_slice(frame, 1, 3, 7, 1));
    talc_copy(talc_slice(frame, 1, 2, 6, 1), y);
    return talc_neg(frame);
}

/* Those that take several nodes, and those with numbers. */
static talc_tensor *functions(talc_module *module, talc_tensor *x)
{
    (void)module;
    x = talc_elu(talc_selu(talc_mish(talc_softplus(x, 1, 20))), 0.5);
    x = talc_gelu(talc_leaky_relu(talc_silu(talc_sub_scalar(x, 1)), 0.1));
    x = talc_rsqrt(talc_add_scalar(talc_relu6(talc_hardtanh(x, -0.5, 2)), 1));
    return talc_hardsigmoid(talc_hardswish(talc_sub_scalar(x, 0.75)));
}

static talc_tensor *reduced(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *sum = talc_sum(x, TALC_DIMS(2, 3), true), *low = talc_min(x, TALC_DIMS(1), true),
                *high = talc_max(x, TALC_DIMS(3), true);
    x = talc_add(talc_add(talc_mul_scalar(sum, 0.1), low), high);
    return talc_sub(talc_logsumexp(x, TALC_DIMS(1, 2), false),
                    talc_mean(x, TALC_DIMS(1, 2), false));
}

static talc_tensor *normalised(talc_module *module, talc_tensor *x)
{
    const talc_tensor *weight = talc_reshape(talc_module_find(module, "token"), TALC_DIMS(12)),
                      *bias = talc_slice(weight, 0, 3, 7, 1);
    x = talc_group_norm(x, 2, talc_slice(weight, 0, 0, 4, 1), bias, NULL);
    return talc_relu(talc_instance_norm2d(x, NULL, NULL, NULL));
}

static talc_tensor *of_one_image(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_reshape(talc_relu(x), TALC_DIMS(4, 12));
}

/* Holds what is read of a written file to the module, on one image and on three. */
static void assert_written(talc_module *module, bool any_batch, const char *what)
{
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(3, 4, 3, 4), 7);
    talc_tensor *one = talc_slice(x, 0, 1, 2, 1), *example = any_batch ? one : x;
    const char *path = write_model("net.onnx", (wire){ 0 });
    if (talc_forward(module, x) == NULL)
        example = one;
    talc_error_clear();
    cr_assert(talc_onnx_save(module, example, path), "%s: %s", what, talc_error_message());
    owned_module *again = talc_onnx_load(cpu_device(), path, NULL);
    assert_no_failure();
    cr_assert_eq(talc_onnx_input_dims(again, 0).dim[0] == -1, any_batch, "%s", what);
    talc_no_grad_enter();
    for (int i = 0; i < 1 + any_batch; i++, example = x)
        assert_near(talc_forward(again, example), talc_forward(module, example), 1e-6, what);
    talc_no_grad_leave();
}

Test(onnx, norms_are_written_as_they_are)
{
    owned_module *norm = TALC_SEQUENTIAL(
        talc_nn_relu(), talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 4 }));
    for (int pass = 0; pass < 2; pass++)
        cr_assert_not_null(talc_forward(norm, op_numbers(cpu_device(), TALC_DIMS(2, 4, 3, 4), 7)));
    talc_module_eval(norm);
    assert_written(norm, true, "norm");
}

Test(onnx, views_copies_and_functions_are_written)
{
    const struct {
        talc_module_class kind;
        bool any_batch;
    } all[] = {
#define WRITTEN(function, any_batch)                                                               \
    { { #function, sizeof(talc_module), NULL, function, NULL, NULL }, any_batch }
        WRITTEN(swapped_halves, true),
        WRITTEN(selected_and_moved, true),
        WRITTEN(every_second, true),
        WRITTEN(every_second_of_three, true),
        WRITTEN(every_second_image, false),
        WRITTEN(with_token, true),
        WRITTEN(framed, true),
        WRITTEN(functions, true),
        WRITTEN(reduced, true),
        WRITTEN(normalised, true),
        WRITTEN(of_one_image, false),
#undef WRITTEN
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        owned_module *own = talc_module_new(&all[i].kind, NULL);
        talc_module_parameter(own, "token", op_numbers(cpu_device(), TALC_DIMS(1, 1, 3, 4), 3));
        talc_module_eval(own);
        assert_written(own, all[i].any_batch, all[i].kind.name);
    }
}

Test(onnx, a_trained_network_is_written)
{
    owned_module *net = talc_network_new("lenet", &(talc_network_options){ .seed = 3 });
    owned_optimizer *sgd =
        talc_optimizer_new(net, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 0.05 });
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(4, 1, 28, 28), 7);
    talc_tensor *labels =
        talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(4), (int64_t[]){ 3, 1, 4, 1 });
    talc_tensor *before = talc_clone(talc_module_find(net, "conv1.weight"));
    for (int step = 0; step < 3; step++) {
        talc_optimizer_zero_grad(sgd);
        cr_assert(talc_backward(talc_cross_entropy(talc_forward(net, x), labels)));
        cr_assert(talc_optimizer_step(sgd), "%s", talc_error_message());
    }
    const char *path = write_model("lenet.onnx", (wire){ 0 });
    cr_assert(talc_onnx_save(net, talc_slice(x, 0, 0, 1, 1), path), "%s", talc_error_message());
    owned_module *again = talc_onnx_load(cpu_device(), path, NULL);
    assert_no_failure();
    talc_no_grad_enter();
    const talc_tensor *weight = talc_module_find(again, "conv1.weight");
    cr_assert_not_null(weight);
    cr_assert_eq(talc_item(talc_max(talc_equal(weight, before), TALC_SCALAR, false)), 0);
    assert_near(talc_forward(again, x), talc_forward(net, x), 1e-6, "y");
    talc_no_grad_leave();
}

/* A window of a frame in two dimensions. */
static talc_tensor *inlaid(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *frame = talc_zeros(x->device, x->dtype, TALC_DIMS(6, 5));
    talc_copy(talc_slice(talc_slice(frame, 0, 1, 5, 1), 1, 1, 4, 1), x);
    return talc_neg(frame);
}

Test(onnx, what_cannot_be_written_is_named)
{
    static const talc_module_class kind = {
        "Inlaid", sizeof(talc_module), NULL, inlaid, NULL, NULL
    };
    owned_module *own = talc_module_new(&kind, NULL),
                 *crop = talc_nn_pad2d(&(talc_pad_options){ .padding = { 1, 1 } });
    const char *path = write_model("old.onnx", (wire){ 0 });
    talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(4, 3));
    cr_assert(!talc_onnx_save(own, x, path));
    assert_failed(TALC_UNSUPPORTED, "onnx_save: a view of shape [6,5] of what several ops wrote");
    cr_assert(!talc_onnx_save(crop, x, path));
    assert_failed(TALC_UNSUPPORTED, "onnx_save: ONNX has no operator for this pad, or talc writes");
    cr_assert(!talc_onnx_save(own, talc_ones(tested_device(), TALC_I64, TALC_DIMS(4)), path));
    assert_failed(TALC_BAD_DTYPE, "onnx_save: example is i64");
    cr_assert(!talc_onnx_save(NULL, x, path));
    assert_failed(TALC_NULL_ARGUMENT, "onnx_save: module is NULL");
    cr_assert(!talc_onnx_save(own, x, NULL));
    assert_failed(TALC_NULL_ARGUMENT, "onnx_save: path is NULL");
}

static void run_save(fault_run *run)
{
    owned_module *net = small_net();
    talc_tensor *x = talc_ones(run->device, TALC_F32, TALC_DIMS(1, 2, 6, 6));
    const char *path = write_model("saved.onnx", (wire){ 0 });
    if (net != NULL && x != NULL && talc_module_to(net, run->device) &&
        talc_onnx_save(net, x, path)) {
        owned_module *again = talc_onnx_load(run->device, path, NULL);
        talc_no_grad_enter();
        talc_tensor *y = again == NULL ? NULL : talc_forward(again, x);
        talc_no_grad_leave();
        if (y != NULL)
            fault_keep(run, y);
    }
}

TEST_SURVIVES(onnx, saving, 100, NULL, NULL, run_save, NULL, NULL)
