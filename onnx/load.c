#include "nn/pass.h"
#include "onnx/shared.h"
#include "ops/operand.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

static const char *const WHO = "onnx_load";

typedef struct onnx_module {
    talc_module base;
    talc_onnx_graph graph;
} onnx_module;

// ---- Operators by name --------------------------------------------------------------------------

const talc_onnx_operator *talc_onnx_operator_find(const char *name)
{
    static const talc_onnx_operator *const tables[] = { talc_onnx_elementwise, talc_onnx_shapes,
                                                        talc_onnx_nets };
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const talc_onnx_operator *op = tables[t]; op->name != NULL; op++)
            if (strcmp(op->name, name) == 0)
                return op;
    return NULL;
}

/* Why a node cannot be run; NULL: it can. */
static const char *refusal(const talc_onnx_model *model, const talc_onnx_node *node)
{
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)
        return "of another domain than ONNX's own";
    const talc_onnx_operator *op = talc_onnx_operator_find(node->op);
    if (op == NULL || strcmp(node->op, "SiLU") == 0)
        return "not run by talc";
    return op->refuses == NULL ? NULL : op->refuses(node, model->opset);
}

/* False, with all nodes that cannot be run in the failure. */
static bool operators_run(const talc_onnx_model *model)
{
    char list[768] = "";
    int refused = 0;
    for (int i = 0; i < model->node_count; i++) {
        const talc_onnx_node *node = &model->nodes[i];
        const char *why = refusal(model, node);
        if (why == NULL)
            continue;
        refused++;
        const size_t used = strlen(list);
        if (used < sizeof list - 160)
            snprintf(list + used, sizeof list - used, "%s%s '%.60s' (%s)", used > 0 ? ", " : "",
                     TALC_SHOWN(node->op), TALC_SHOWN(talc_onnx_node_name(node)), why);
        else if (list[used - 1] != '.')
            snprintf(list + used, sizeof list - used, ", ...");
    }
    if (refused > 0)
        talc_fail(TALC_UNSUPPORTED, "%s: %s: opset %lld, %d of %d nodes cannot be run: %s", WHO,
                  TALC_SHOWN(model->path), (long long)model->opset, refused, model->node_count,
                  list);
    return refused == 0;
}

// ---- Values -------------------------------------------------------------------------------------

/* Numbers of values by name. */
typedef struct name_table {
    const talc_onnx_graph *graph;
    int *buckets; /* from 1; 0: free */
    size_t size;  /* a power of 2 */
} name_table;

static size_t hash_of(const char *name)
{
    size_t hash = 1469598103934665603u; /* FNV-1a */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

static int *bucket_of(const name_table *table, const char *name)
{
    size_t at = hash_of(name) & (table->size - 1);
    while (table->buckets[at] != 0 &&
           strcmp(table->graph->values[table->buckets[at] - 1].name, name) != 0)
        at = (at + 1) & (table->size - 1);
    return &table->buckets[at];
}

/* The value of a name, which is a new one where there was none; -1 for "". */
static int value_of(name_table *table, talc_onnx_graph *graph, const char *name)
{
    if (name[0] == '\0')
        return -1;
    int *bucket = bucket_of(table, name);
    if (*bucket == 0) {
        graph->values[graph->value_count] = (talc_onnx_value){ .name = name, .producer = -1 };
        *bucket = ++graph->value_count;
    }
    return *bucket - 1;
}

static void number_values(talc_onnx_graph *graph, name_table *table)
{
    const talc_onnx_model *model = graph->model;
    int *next = graph->numbers;
    for (int i = 0; i < model->initializer_count; i++)
        graph->values[value_of(table, graph, model->initializers[i].name)].initializer =
            &model->initializers[i];
    graph->inputs = next;
    for (int i = 0; i < model->input_count; i++)
        *next++ = value_of(table, graph, model->inputs[i].name);
    for (int i = 0; i < model->node_count; i++) {
        const talc_onnx_node *node = &model->nodes[i];
        talc_onnx_step *step = &graph->steps[i];
        *step = (talc_onnx_step){
            .op = talc_onnx_operator_find(node->op),
            .node = node,
            .input_count = node->input_count,
            .output_count = node->output_count,
            .residual = -1,
        };
        step->inputs = next;
        for (int k = 0; k < node->input_count; k++)
            *next++ = value_of(table, graph, node->inputs[k]);
        step->outputs = next;
        for (int k = 0; k < node->output_count; k++) {
            *next++ = value_of(table, graph, node->outputs[k]);
            if (next[-1] >= 0)
                graph->values[next[-1]].producer = i;
        }
    }
    graph->outputs = next;
    for (int i = 0; i < model->output_count; i++) {
        *next++ = value_of(table, graph, model->outputs[i].name);
        graph->values[next[-1]].is_output = true;
    }
    graph->step_count = model->node_count;
}

static bool make_values(talc_onnx_graph *graph)
{
    const talc_onnx_model *model = graph->model;
    size_t names =
        (size_t)model->initializer_count + (size_t)model->input_count + (size_t)model->output_count;
    for (int i = 0; i < model->node_count; i++)
        names += (size_t)model->nodes[i].input_count + (size_t)model->nodes[i].output_count;
    name_table table = { .graph = graph, .size = 64 };
    while (table.size < 2 * names)
        table.size *= 2;
    table.buckets = talc_memory_new(table.size * sizeof *table.buckets, WHO);
    graph->values = talc_memory_new(names * sizeof *graph->values + 1, WHO);
    graph->numbers = talc_memory_new(names * sizeof *graph->numbers + 1, WHO);
    graph->steps = talc_memory_new((size_t)model->node_count * sizeof *graph->steps + 1, WHO);
    const bool made = !talc_failed();
    if (made)
        number_values(graph, &table);
    talc_memory_free(table.buckets);
    return made;
}

void talc_onnx_count_uses(talc_onnx_graph *graph)
{
    for (int i = 0; i < graph->value_count; i++) {
        graph->values[i].uses = graph->values[i].is_output;
        graph->values[i].last_use = graph->values[i].is_output ? graph->step_count : -1;
    }
    for (int i = 0; i < graph->step_count; i++) {
        const talc_onnx_step *step = &graph->steps[i];
        for (int k = -1; k < step->input_count && !step->left_out; k++) {
            const int value = k < 0 ? step->residual : step->inputs[k];
            if (value < 0)
                continue;
            graph->values[value].uses++;
            if (graph->values[value].last_use < i)
                graph->values[value].last_use = i;
        }
    }
}

/* What Identity gives is what it takes. */
static bool leave_out_identities(talc_onnx_graph *graph)
{
    int *same = talc_memory_new((size_t)graph->value_count * sizeof *same + 1, WHO);
    if (same == NULL)
        return false;
    for (int i = 0; i < graph->value_count; i++)
        same[i] = i;
    for (int i = 0; i < graph->step_count; i++) {
        talc_onnx_step *step = &graph->steps[i];
        for (int k = 0; k < step->input_count; k++)
            if (step->inputs[k] >= 0)
                step->inputs[k] = same[step->inputs[k]];
        if (strcmp(step->node->op, "Identity") == 0 && !graph->values[step->outputs[0]].is_output) {
            same[step->outputs[0]] = step->inputs[0];
            step->left_out = true;
        }
    }
    talc_memory_free(same);
    return true;
}

// ---- Constants ----------------------------------------------------------------------------------

/* The float type of the file: of its weights, else of its inputs. */
static void find_dtype(talc_onnx_graph *graph)
{
    const talc_onnx_model *model = graph->model;
    bool found = false;
    for (int i = 0; i < graph->value_count && !found; i++) {
        const talc_onnx_value *value = &graph->values[i];
        const talc_dtype dtype =
            value->initializer == NULL ? TALC_I64 : talc_onnx_dtype(value->initializer->type);
        found = value->uses > 0 && talc_dtype_is_float(dtype) && value->initializer->dims.rank > 0;
        if (found)
            graph->dtype = dtype;
    }
    for (int i = 0; i < model->input_count && !found; i++) {
        const talc_dtype dtype = talc_onnx_dtype(model->inputs[i].type);
        found = talc_dtype_is_float(dtype);
        if (found)
            graph->dtype = dtype;
    }
}

/* Notes of each initialiser whether an operator reads it to which it is no setting, such as a
 * factor, nor part of a mask, which ScatterND makes. */
static void find_operands(talc_onnx_graph *graph)
{
    static const char *const operators[] = {
        "Clip", "Dropout", "Pad", "Range", "Resize", "Upsample"
    };
    for (int i = 0; i < graph->step_count; i++) {
        const talc_onnx_step *step = &graph->steps[i];
        bool sets = false, masks = strcmp(step->node->op, "ScatterND") == 0;
        for (size_t o = 0; o < sizeof operators / sizeof *operators; o++)
            sets = sets || strcmp(step->node->op, operators[o]) == 0;
        for (int k = 0; k < step->input_count && !masks; k++) {
            talc_onnx_value *value = step->inputs[k] < 0 ? NULL : &graph->values[step->inputs[k]];
            if (value != NULL && value->initializer != NULL &&
                !(sets && k > 0 && value->initializer->count <= 2 * TALC_MAX_RANK))
                value->is_operand = true;
        }
    }
}

/* Those of the file that are no parameters: integers, single numbers, and what Constant gives. */
static bool read_constants(talc_onnx_graph *graph)
{
    find_operands(graph);
    for (int i = 0; i < graph->value_count; i++) {
        talc_onnx_value *value = &graph->values[i];
        const talc_onnx_tensor *tensor = value->initializer;
        if (tensor == NULL || value->uses == 0)
            continue;
        const talc_dtype dtype = talc_onnx_dtype(tensor->type);
        if (talc_dtype_is_float(dtype) && tensor->dims.rank > 0 && value->is_operand)
            continue;
        value->constant = talc_retain(talc_onnx_tensor_new(graph->model, tensor));
        if (value->constant == NULL)
            return false;
    }
    talc_tensor **known = talc_memory_new((size_t)graph->value_count * sizeof *known + 1, WHO);
    talc_onnx_plan plan = { .known = known };
    bool on_data = false, read = known != NULL;
    for (int i = 0; read && i < graph->step_count; i++) {
        talc_onnx_step *step = &graph->steps[i];
        if (strcmp(step->node->op, "Constant") != 0)
            continue;
        talc_onnx_call call = {
            .graph = graph, .step = step, .plan = &plan, .folds = true, .on_data = &on_data
        };
        read = step->op->run(&call);
        graph->values[step->outputs[0]].constant = known[step->outputs[0]];
        step->left_out = true;
    }
    talc_memory_free(known);
    return read;
}

// ---- The module ---------------------------------------------------------------------------------

/* What onnx_init takes over; NULL then. */
typedef struct model_handed {
    talc_onnx_model **model;
} model_handed;

static bool onnx_init(talc_module *module, const void *options)
{
    talc_onnx_graph *graph = &((onnx_module *)module)->graph;
    const model_handed *handed = options;
    graph->model = *handed->model;
    *handed->model = NULL;
    pthread_mutex_init(&graph->lock, NULL);
    if (!make_values(graph))
        return false;
    if (!leave_out_identities(graph))
        return false;
    talc_onnx_count_uses(graph);
    find_dtype(graph);
    if (!read_constants(graph) || !talc_onnx_recognise(graph) || !talc_onnx_build(module, graph))
        return false;
    talc_onnx_count_uses(graph);
    talc_onnx_fuse(graph);
    talc_onnx_count_uses(graph);
    return true;
}

static void onnx_free(talc_module *module)
{
    talc_onnx_graph *graph = &((onnx_module *)module)->graph;
    talc_onnx_plans_free(graph);
    for (int i = 0; i < graph->value_count; i++)
        talc_release(graph->values[i].constant);
    talc_memory_free(graph->values);
    talc_memory_free(graph->numbers);
    talc_memory_free(graph->steps);
    talc_onnx_model_free(graph->model);
    pthread_mutex_destroy(&graph->lock);
}

static talc_tensor *onnx_forward(talc_module *module, talc_tensor *x)
{
    talc_onnx_graph *graph = &((onnx_module *)module)->graph;
    const int inputs = graph->model->input_count;
    if (inputs != 1) {
        talc_fail(TALC_BAD_ARGUMENT, "forward: %s has %d inputs, for which there is talc_onnx_run",
                  TALC_SHOWN(graph->model->path), inputs);
        return NULL;
    }
    talc_tensor **results =
        talc_memory_new((size_t)graph->model->output_count * sizeof *results + 1, WHO);
    talc_tensor *y = results != NULL && talc_onnx_pass_run(graph, &x, results) ? results[0] : NULL;
    talc_memory_free(results);
    return y;
}

static const talc_module_class onnx_class = {
    .name = "OnnxModel",
    .size = sizeof(onnx_module),
    .init = onnx_init,
    .forward = onnx_forward,
    .free = onnx_free,
};

static const talc_onnx_graph *graph_of(const talc_module *module)
{
    return module == NULL || module->kind != &onnx_class ? NULL
                                                         : &((const onnx_module *)module)->graph;
}

talc_module *talc_onnx_load(talc_device *device, const char *path, const talc_onnx_options *options)
{
    if (talc_operand_missing(WHO, "device", device) || talc_operand_missing(WHO, "path", path))
        return NULL;
    talc_onnx_model *model = talc_onnx_read(path);
    if (model == NULL)
        return NULL;
    if (!operators_run(model) || !talc_onnx_nodes_fit(model)) {
        talc_onnx_model_free(model);
        return NULL;
    }
    talc_module *module = talc_module_new(&onnx_class, &(model_handed){ &model });
    talc_onnx_model_free(model);
    if (module == NULL)
        return NULL;
    const bool frozen = options != NULL && options->frozen;
    if (talc_module_eval(module) && (!frozen || talc_module_require_grad(module, false)) &&
        talc_module_to(module, device))
        return module;
    talc_module_free(module);
    return NULL;
}

// ---- Inputs and outputs -------------------------------------------------------------------------

int talc_onnx_input_count(const talc_module *module)
{
    const talc_onnx_graph *graph = graph_of(module);
    return graph == NULL ? 0 : graph->model->input_count;
}

int talc_onnx_output_count(const talc_module *module)
{
    const talc_onnx_graph *graph = graph_of(module);
    return graph == NULL ? 0 : graph->model->output_count;
}

const char *talc_onnx_input_name(const talc_module *module, int index)
{
    return index < 0 || index >= talc_onnx_input_count(module)
               ? NULL
               : graph_of(module)->model->inputs[index].name;
}

const char *talc_onnx_output_name(const talc_module *module, int index)
{
    return index < 0 || index >= talc_onnx_output_count(module)
               ? NULL
               : graph_of(module)->model->outputs[index].name;
}

static talc_dims dims_of(const talc_onnx_value_info *info)
{
    talc_dims dims = { .rank = info->rank < 0 ? 0 : info->rank };
    memcpy(dims.dim, info->dim, (size_t)dims.rank * sizeof *dims.dim);
    return dims;
}

talc_dims talc_onnx_input_dims(const talc_module *module, int index)
{
    return index < 0 || index >= talc_onnx_input_count(module)
               ? TALC_SCALAR
               : dims_of(&graph_of(module)->model->inputs[index]);
}

talc_dims talc_onnx_output_dims(const talc_module *module, int index)
{
    return index < 0 || index >= talc_onnx_output_count(module)
               ? TALC_SCALAR
               : dims_of(&graph_of(module)->model->outputs[index]);
}

bool talc_onnx_run(talc_module *module, talc_tensor *const inputs[], int input_count,
                   talc_tensor *outputs[], int output_count)
{
    if (talc_operand_missing("onnx_run", "module", module) ||
        talc_operand_missing("onnx_run", "inputs", inputs) ||
        talc_operand_missing("onnx_run", "outputs", outputs))
        return false;
    if (graph_of(module) == NULL) {
        talc_fail(TALC_BAD_ARGUMENT, "onnx_run: %s is not of a file",
                  TALC_SHOWN(module->kind->name));
        return false;
    }
    talc_onnx_graph *graph = &((onnx_module *)module)->graph;
    if (input_count != graph->model->input_count || output_count != graph->model->output_count) {
        talc_fail(TALC_BAD_ARGUMENT, "onnx_run: %d inputs and %d outputs, %s has %d and %d",
                  input_count, output_count, TALC_SHOWN(graph->model->path),
                  graph->model->input_count, graph->model->output_count);
        return false;
    }
    for (int i = 0; i < input_count; i++)
        if (talc_operand_missing("onnx_run", graph->model->inputs[i].name, inputs[i]))
            return false;
    talc_pass pass;
    talc_pass_begin(&pass, module);
    talc_scope *scope = talc_scope_enter();
    const bool ran = scope != NULL && talc_onnx_pass_run(graph, inputs, outputs);
    for (int i = 0; i < output_count && ran; i++)
        talc_scope_return(scope, outputs[i]);
    talc_scope_leave(scope);
    talc_pass_end(&pass);
    return ran;
}
