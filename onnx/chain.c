/* Neighbours that are one op. */
#include "nn/layer.h"
#include "onnx/graph.h"
#include "onnx/shared.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "tensor/memory.h"

#include <string.h>

/* Whether neighbours may join a step: it begins with one of these. */
static bool begins_chain(const talc_onnx_step *step)
{
    return !step->left_out && step->layer_count > 0 &&
           (step->layers[0]->kind == &talc_conv2d_class ||
            step->layers[0]->kind == &talc_linear_class ||
            step->layers[0]->kind == &talc_batch_norm2d_class);
}

/* The only step that reads a step's result; NULL: several do, or the program. */
static talc_onnx_step *reader_of(talc_onnx_graph *graph, const int *readers,
                                 const talc_onnx_step *step)
{
    const talc_onnx_value *out = &graph->values[step->outputs[0]];
    return out->uses == 1 && !out->is_output && readers[step->outputs[0]] >= 0
               ? &graph->steps[readers[step->outputs[0]]]
               : NULL;
}

static bool has_activation(const talc_onnx_step *step)
{
    return talc_activation_of(step->layers[step->layer_count - 1]) != TALC_ACTIVATION_NONE;
}

/* The value that an Add adds to a step's result, where it is one of the pass; -1: none. */
static int addend_of(const talc_onnx_graph *graph, const talc_onnx_step *add,
                     const talc_onnx_step *step)
{
    if (strcmp(add->op->name, "Add") != 0 || add->input_count != 2)
        return -1;
    const int other = add->inputs[add->inputs[0] == step->outputs[0]];
    return other >= 0 && other != step->outputs[0] && graph->values[other].parameter == NULL &&
                   graph->values[other].constant == NULL
               ? other
               : -1;
}

/* Lets `next` do the work of `step` before its own; false where it cannot. */
static bool join(const talc_onnx_graph *graph, talc_onnx_step *step, talc_onnx_step *next)
{
    const int addend = addend_of(graph, next, step);
    if (addend >= 0 && step->residual < 0 && !has_activation(step)) {
        next->residual = addend;
        next->input_count = 1;
    } else if (next->layer_count != 1 || next->inputs[0] != step->outputs[0]) {
        return false;
    } else if (step->residual >= 0) {
        const talc_activation activation = talc_activation_of(next->layers[0]);
        if (activation == TALC_ACTIVATION_NONE || step->activation != TALC_ACTIVATION_NONE)
            return false;
        next->activation = activation;
        next->residual = step->residual;
        next->layer_count = 0;
    } else if (has_activation(step) || step->layer_count == TALC_ONNX_CHAIN_MAX ||
               !(talc_activation_of(next->layers[0]) != TALC_ACTIVATION_NONE ||
                 (next->layers[0]->kind == &talc_batch_norm2d_class &&
                  step->layers[0]->kind == &talc_conv2d_class && step->layer_count == 1))) {
        return false;
    }
    memmove(next->layers + step->layer_count, next->layers,
            (size_t)next->layer_count * sizeof *next->layers);
    memcpy(next->layers, step->layers, (size_t)step->layer_count * sizeof *next->layers);
    next->layer_count += step->layer_count;
    next->inputs[0] = step->inputs[0];
    next->input_count = 1;
    step->left_out = true;
    return true;
}

void talc_onnx_fuse(talc_onnx_graph *graph)
{
    int *readers = talc_memory_new((size_t)graph->value_count * sizeof *readers + 1, "onnx_load");
    if (readers == NULL)
        return;
    for (int i = 0; i < graph->value_count; i++)
        readers[i] = -1;
    for (int i = 0; i < graph->step_count; i++)
        for (int k = 0; k < graph->steps[i].input_count && !graph->steps[i].left_out; k++)
            if (graph->steps[i].inputs[k] >= 0)
                readers[graph->steps[i].inputs[k]] = i;
    for (int i = 0; i < graph->step_count; i++) {
        talc_onnx_step *step = &graph->steps[i], *next;
        while (begins_chain(step) && (next = reader_of(graph, readers, step)) != NULL &&
               join(graph, step, next))
            step = next;
    }
    talc_memory_free(readers);
}

/* Whether a residual has the shape of what it is added to, so that it needs no broadcast. */
static bool residual_fits(const talc_module *module, const talc_tensor *x,
                          const talc_tensor *residual)
{
    talc_dims y = talc_dims_of(x);
    if (y.rank == 0)
        return true; /* the op refuses it */
    if (module->kind == &talc_conv2d_class) {
        const talc_conv2d_module *conv = (const talc_conv2d_module *)module;
        talc_conv2d_problem p;
        if (!talc_conv2d_problem_of(x, conv->weight, conv->bias, &conv->options, &p))
            return false;
        y = TALC_DIMS(p.N, p.OC, p.OH, p.OW);
    } else if (module->kind == &talc_linear_class) {
        const talc_linear_module *linear = (const talc_linear_module *)module;
        y.dim[y.rank - 1] = linear->weight->dims[linear->transposed ? 1 : 0];
    }
    return y.rank == residual->rank &&
           memcmp(y.dim, residual->dims, (size_t)y.rank * sizeof *y.dim) == 0;
}

static talc_tensor *apply(const talc_onnx_step *step, talc_tensor *x, talc_tensor *residual)
{
    const talc_module *first = step->layers[0];
    const bool fits = residual == NULL || residual_fits(first, x, residual);
    const talc_chain_end end = { fits ? residual : NULL,
                                 fits ? step->activation : TALC_ACTIVATION_NONE };
    if (talc_failed())
        return NULL;
    talc_tensor *y = talc_forward_chain(step->layers, step->layer_count, x, &end);
    if (y == NULL || fits)
        return y;
    return talc_activated(step->activation, talc_add(y, residual));
}

talc_tensor *talc_onnx_apply(const talc_onnx_step *step, talc_tensor *x, talc_tensor *residual)
{
    if (x->rank == 1 && strcmp(step->op->name, "Flatten") == 0)
        return talc_reshape(x, TALC_DIMS(x->dims[0], 1));
    /* The format's batch norm takes any rank. */
    if (step->layers[0]->kind != &talc_batch_norm2d_class || x->rank == 4 || x->rank < 1 ||
        (residual != NULL && !talc_same_dims(x, residual)))
        return apply(step, x, residual);
    const talc_dims dims = talc_dims_of(x);
    talc_tensor *planes = talc_onnx_planes(x);
    talc_tensor *y = planes == NULL ? NULL : apply(step, planes, talc_onnx_planes(residual));
    return talc_reshape(y, dims);
}
