/* Operators of newer opsets in the longer forms that older ones have for them:
 *
 *     SiLU       x Sigmoid(x)
 *     HardSwish  x HardSigmoid(x), with 1/6 and 1/2
 *     Gelu       x (1 + Erf(x / sqrt(2))) 0.5                         before opset 20
 *     a linear map with a bias  x weight + bias
 *     LayerNormalization  (x - mean) / sqrt(mean of its squares + eps) weight + bias, before 17
 */
#include "onnx/shared.h"
#include "tensor/memory.h"

#include <math.h>
#include <string.h>

/* The step that makes an input of a step, where it is of that operator and nothing else reads the
 * value; NULL: it is not, or there is no step. */
static talc_onnx_step *maker(talc_onnx_graph *graph, const talc_onnx_step *of, int input,
                             const char *op)
{
    const int value = of == NULL || input >= of->input_count ? -1 : of->inputs[input];
    if (value < 0 || graph->values[value].producer < 0 || graph->values[value].uses != 1)
        return NULL;
    talc_onnx_step *step = &graph->steps[graph->values[value].producer];
    return !step->left_out && strcmp(step->op->name, op) == 0 ? step : NULL;
}

/* The number that a value is; NAN where it is none. */
static double number_of(const talc_onnx_graph *graph, int value)
{
    const talc_tensor *constant = value < 0 ? NULL : graph->values[value].constant;
    return constant != NULL && talc_numel(constant) == 1 ? talc_item(constant) : (double)NAN;
}

/* The step of that operator that makes one of the two inputs; *other is the other one. */
static talc_onnx_step *one_of(talc_onnx_graph *graph, const talc_onnx_step *step, const char *op,
                              int *other)
{
    for (int i = 0; i < 2 && step != NULL && step->input_count == 2; i++) {
        talc_onnx_step *found = maker(graph, step, i, op);
        *other = step->inputs[1 - i];
        if (found != NULL)
            return found;
    }
    return NULL;
}

static bool is_gate(const talc_onnx_step *step)
{
    return step != NULL && fabs(talc_onnx_float(step->node, "alpha", 0.2) - 1.0 / 6) < 1e-7 &&
           talc_onnx_float(step->node, "beta", 0.5) == 0.5;
}

/* Mul(x, gate(x)). */
static bool recognise_gate(talc_onnx_graph *graph, talc_onnx_step *step)
{
    int x;
    talc_onnx_step *gate = one_of(graph, step, "Sigmoid", &x);
    const char *becomes = "SiLU";
    if (gate == NULL && is_gate(gate = one_of(graph, step, "HardSigmoid", &x)))
        becomes = "HardSwish";
    if (gate == NULL || gate->inputs[0] != x ||
        (strcmp(gate->op->name, "HardSigmoid") == 0 && strcmp(becomes, "SiLU") == 0))
        return false;
    gate->left_out = true;
    step->op = talc_onnx_operator_find(becomes);
    step->inputs[0] = x;
    step->input_count = 1;
    return true;
}

/* Mul(Mul(x, Add(Erf(Div(x, sqrt 2)), 1)), 0.5). */
static bool recognise_gelu(talc_onnx_graph *graph, talc_onnx_step *step)
{
    int half, x, one;
    talc_onnx_step *product = one_of(graph, step, "Mul", &half);
    talc_onnx_step *sum = one_of(graph, product, "Add", &x);
    talc_onnx_step *erf = one_of(graph, sum, "Erf", &one);
    talc_onnx_step *ratio = maker(graph, erf, 0, "Div");
    if (ratio == NULL || ratio->inputs[0] != x || number_of(graph, half) != 0.5 ||
        number_of(graph, one) != 1 || fabs(number_of(graph, ratio->inputs[1]) - sqrt(2)) > 1e-6)
        return false;
    product->left_out = sum->left_out = erf->left_out = ratio->left_out = true;
    step->op = talc_onnx_operator_find("Gelu");
    step->inputs[0] = x;
    step->input_count = 1;
    return true;
}

/* The axis -1 alone, with its dimension kept. */
static bool is_last_mean(const talc_onnx_graph *graph, const talc_onnx_step *step)
{
    int64_t axes[2] = { 0, 0 };
    int count = talc_onnx_ints(step->node, "axes", axes, 2);
    if (step->input_count > 1 && step->inputs[1] >= 0) {
        const double axis = number_of(graph, step->inputs[1]);
        count = 1;
        axes[0] = axis == -1 ? -1 : 0;
    }
    return count == 1 && axes[0] == -1 && talc_onnx_int(step->node, "keepdims", 1) != 0;
}

/* Add(Mul(Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), eps))), weight), bias), d = Sub(x,
 * ReduceMean(x)). */
static bool recognise_layer_norm(talc_onnx_graph *graph, talc_onnx_step *step)
{
    int bias, weight, eps;
    talc_onnx_step *scaled = one_of(graph, step, "Mul", &bias);
    talc_onnx_step *ratio = one_of(graph, scaled, "Div", &weight);
    talc_onnx_step *root = maker(graph, ratio, 1, "Sqrt");
    talc_onnx_step *sum = maker(graph, root, 0, "Add");
    talc_onnx_step *variance = one_of(graph, sum, "ReduceMean", &eps);
    talc_onnx_step *square = maker(graph, variance, 0, "Pow");
    const int centred = square == NULL ? -1 : square->inputs[0];
    if (centred < 0 || ratio->inputs[0] != centred || graph->values[centred].uses != 2 ||
        graph->values[centred].producer < 0 || number_of(graph, square->inputs[1]) != 2)
        return false;
    talc_onnx_step *difference = &graph->steps[graph->values[centred].producer];
    if (strcmp(difference->op->name, "Sub") != 0)
        return false;
    talc_onnx_step *mean = maker(graph, difference, 1, "ReduceMean");
    const double number = number_of(graph, eps);
    const talc_onnx_tensor *scale = graph->values[weight].initializer;
    if (mean == NULL || mean->inputs[0] != difference->inputs[0] || !(number >= 0) ||
        !is_last_mean(graph, mean) || !is_last_mean(graph, variance) || scale == NULL ||
        scale->dims.rank != 1 || scale->count < 2 || graph->values[bias].initializer == NULL ||
        graph->values[bias].initializer->dims.rank != 1 ||
        graph->values[bias].initializer->count != scale->count)
        return false;
    talc_onnx_step *const parts[] = {
        scaled, ratio, root, sum, variance, square, difference, mean
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        parts[i]->left_out = true;
    step->op = talc_onnx_operator_find("LayerNormalization");
    step->normalises = true;
    step->eps = number;
    step->operands[0] = mean->inputs[0];
    step->operands[1] = weight;
    step->operands[2] = bias;
    step->inputs = step->operands;
    step->input_count = 3;
    return true;
}

/* Add(MatMul(x, weight), bias): a MatMul with a third input, which the linear map of it takes
 * (onnx/modules.c). */
static bool recognise_linear(talc_onnx_graph *graph, talc_onnx_step *step)
{
    int bias;
    talc_onnx_step *product = one_of(graph, step, "MatMul", &bias);
    if (product == NULL || bias < 0)
        return false;
    const talc_onnx_value *w = &graph->values[product->inputs[1]], *b = &graph->values[bias];
    if (w->initializer == NULL || w->constant != NULL || w->initializer->dims.rank != 2 ||
        b->initializer == NULL || b->constant != NULL || b->initializer->dims.rank != 1 ||
        b->initializer->count != w->initializer->dims.dim[1])
        return false;
    product->left_out = true;
    step->op = product->op;
    step->operands[0] = product->inputs[0];
    step->operands[1] = product->inputs[1];
    step->operands[2] = bias;
    step->inputs = step->operands;
    step->input_count = 3;
    return true;
}

bool talc_onnx_recognise(talc_onnx_graph *graph)
{
    for (int i = 0; i < graph->step_count; i++) {
        talc_onnx_step *step = &graph->steps[i];
        if (!step->left_out && strcmp(step->op->name, "Mul") == 0 && step->input_count == 2)
            (void)(recognise_gelu(graph, step) || recognise_gate(graph, step));
        if (!step->left_out && strcmp(step->op->name, "Add") == 0 && step->input_count == 2)
            (void)(recognise_layer_norm(graph, step) || recognise_linear(graph, step));
    }
    talc_onnx_count_uses(graph);
    return true;
}
