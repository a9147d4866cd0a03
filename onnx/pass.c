/* A pass: steps one after the other, and the plan of what follows from shapes alone. */
#include "onnx/graph.h"
#include "tensor/autograd.h"
#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

enum { PLANS_MAX = 8, PLANS_BYTES = 64 << 20 };

// ---- Plans --------------------------------------------------------------------------------------

static void plan_free(talc_onnx_plan *plan, int values)
{
    if (plan == NULL)
        return;
    for (int i = 0; i < values; i++) {
        if (plan->known != NULL)
            talc_release(plan->known[i]);
        if (plan->moved != NULL)
            talc_release(plan->moved[i]);
    }
    talc_memory_free(plan->known);
    talc_memory_free(plan->moved);
    talc_memory_free(plan->shapes);
    talc_memory_free(plan->steps);
    talc_memory_free(plan->last_use);
    talc_memory_free(plan);
}

/* The float type of a pass: of its inputs, else of the parameters, which may have been cast, else
 * of the file. */
static talc_dtype dtype_of(const talc_onnx_graph *graph, talc_tensor *const inputs[])
{
    for (int i = 0; i < graph->model->input_count; i++)
        if (talc_dtype_is_float(inputs[i]->dtype))
            return inputs[i]->dtype;
    for (int i = 0; i < graph->value_count; i++)
        if (graph->values[i].parameter != NULL)
            return graph->values[i].parameter->dtype;
    return graph->dtype;
}

static talc_onnx_plan *plan_new(const talc_onnx_graph *graph, talc_tensor *const inputs[])
{
    talc_onnx_plan *plan = talc_memory_new(sizeof *plan, "onnx");
    if (plan == NULL)
        return NULL;
    const size_t values = (size_t)graph->value_count + 1;
    const int count = graph->model->input_count;
    plan->users = 1;
    plan->known = talc_memory_new(values * sizeof *plan->known, "onnx");
    plan->moved = talc_memory_new(values * sizeof *plan->moved, "onnx");
    plan->last_use = talc_memory_new(values * sizeof *plan->last_use, "onnx");
    plan->steps = talc_memory_new((size_t)graph->step_count * sizeof *plan->steps + 1, "onnx");
    plan->shapes = talc_memory_new((size_t)count * sizeof *plan->shapes + 1, "onnx");
    if (talc_failed()) {
        plan_free(plan, graph->value_count);
        return NULL;
    }
    plan->dtype = dtype_of(graph, inputs);
    plan->device = count > 0 ? inputs[0]->device : talc_device_host();
    for (int i = 0; i < count; i++)
        plan->shapes[i] = talc_dims_of(inputs[i]);
    for (int i = 0; i < graph->value_count; i++)
        plan->last_use[i] = graph->values[i].last_use;
    return plan;
}

static bool plan_fits(const talc_onnx_plan *plan, talc_dtype dtype, talc_tensor *const inputs[],
                      int count)
{
    bool fits = plan->dtype == dtype;
    for (int i = 0; i < count && fits; i++) {
        const talc_dims *shape = &plan->shapes[i];
        fits = inputs[i]->device == plan->device && inputs[i]->rank == shape->rank &&
               memcmp(inputs[i]->dims, shape->dim, (size_t)shape->rank * sizeof *shape->dim) == 0;
    }
    return fits;
}

/* The plan of these inputs, to be left again; NULL: there is none yet. */
static talc_onnx_plan *plan_enter(talc_onnx_graph *graph, talc_tensor *const inputs[])
{
    const talc_dtype dtype = dtype_of(graph, inputs);
    pthread_mutex_lock(&graph->lock);
    talc_onnx_plan **at = &graph->plans;
    while (*at != NULL && !plan_fits(*at, dtype, inputs, graph->model->input_count))
        at = &(*at)->next;
    talc_onnx_plan *plan = *at;
    if (plan != NULL) { /* to the head: the last of the list is the one that is used least */
        plan->users++;
        *at = plan->next;
        plan->next = graph->plans;
        graph->plans = plan;
    }
    pthread_mutex_unlock(&graph->lock);
    return plan;
}

static void plan_leave(talc_onnx_graph *graph, talc_onnx_plan *plan)
{
    pthread_mutex_lock(&graph->lock);
    const bool last = --plan->users == 0;
    pthread_mutex_unlock(&graph->lock);
    if (last)
        plan_free(plan, graph->value_count);
}

static size_t plan_bytes(const talc_onnx_graph *graph, const talc_onnx_plan *plan)
{
    size_t bytes = sizeof *plan + (size_t)graph->value_count * (2 * sizeof(void *) + sizeof(int)) +
                   (size_t)graph->step_count * sizeof(int);
    for (int i = 0; i < graph->value_count; i++)
        bytes += (plan->known[i] == NULL ? 0 : talc_nbytes(plan->known[i])) +
                 (plan->moved[i] == NULL ? 0 : talc_nbytes(plan->moved[i]));
    return bytes;
}

/* Keeps a plan for passes to come, at the head of the list; those at its end go that are too many
 * or hold too much. */
static void plan_keep(talc_onnx_graph *graph, talc_onnx_plan *plan)
{
    plan->bytes = plan_bytes(graph, plan);
    pthread_mutex_lock(&graph->lock);
    plan->users++;
    plan->next = graph->plans;
    graph->plans = plan;
    size_t bytes = plan->bytes;
    int count = 1;
    talc_onnx_plan *last = plan;
    while (last->next != NULL && ++count <= PLANS_MAX &&
           (bytes += last->next->bytes) <= PLANS_BYTES)
        last = last->next;
    talc_onnx_plan *gone = last->next;
    last->next = NULL;
    pthread_mutex_unlock(&graph->lock);
    while (gone != NULL) {
        talc_onnx_plan *next = gone->next;
        plan_leave(graph, gone);
        gone = next;
    }
}

void talc_onnx_plans_free(talc_onnx_graph *graph)
{
    while (graph->plans != NULL) {
        talc_onnx_plan *plan = graph->plans;
        graph->plans = plan->next;
        plan_free(plan, graph->value_count);
    }
}

// ---- Steps --------------------------------------------------------------------------------------

static bool inputs_known(const talc_onnx_call *call)
{
    bool all = call->step->layer_count == 0;
    for (int i = 0; i < call->step->input_count && all; i++)
        all = !talc_onnx_has(call, i) || talc_onnx_known(call, call->step->inputs[i]) != NULL;
    return all;
}

/* On the CPU, without a trace of it. */
static bool fold(talc_onnx_call *call)
{
    talc_observer *observer = talc_observe_pause();
    talc_no_grad_enter();
    call->folds = true;
    const bool done = call->step->op->run(call);
    talc_no_grad_leave();
    talc_observe_resume(observer);
    return done;
}

static bool apply(talc_onnx_call *call)
{
    const talc_onnx_step *step = call->step;
    if (step->layer_count == 0)
        return step->op->run(call);
    talc_tensor *x = talc_onnx_in(call, 0);
    talc_tensor *residual = talc_onnx_value_of(call, step->residual);
    return x != NULL && (step->residual < 0 || residual != NULL) &&
           talc_onnx_out(call, 0, talc_onnx_apply(step, x, residual));
}

/* In a scope of its own, so that what it makes on its way is freed. */
static bool run(talc_onnx_call *call)
{
    const talc_onnx_step *step = call->step;
    talc_scope *scope = talc_scope_enter();
    const bool done = scope != NULL && apply(call);
    for (int i = 0; done && i < step->output_count; i++)
        if (step->outputs[i] >= 0)
            talc_scope_return(scope, call->tensors[step->outputs[i]]);
    talc_scope_leave(scope);
    return done;
}

/* Lets go of what no later step reads. */
static void drop(talc_onnx_call *call, int index)
{
    const talc_onnx_step *step = call->step;
    for (int i = -1; i < step->input_count + step->output_count; i++) {
        const int value = i < 0                   ? step->residual
                          : i < step->input_count ? step->inputs[i]
                                                  : step->outputs[i - step->input_count];
        if (value < 0 || call->plan->last_use[value] > index || call->tensors[value] == NULL)
            continue;
        if (call->graph->values[value].producer >= 0)
            talc_scope_drop(call->tensors[value]);
        call->tensors[value] = NULL;
    }
}

/* Says where it failed, unless the message does. */
static bool failed_in(const talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    const char *path = call->graph->model->path;
    char message[1024];
    const talc_status status = talc_error_status();
    snprintf(message, sizeof message, "%s", talc_error_message());
    if (status == TALC_OK)
        talc_onnx_fail(call, TALC_BAD_FORMAT, "an input or an attribute does not fit");
    if (status == TALC_OK || strncmp(message, path, strlen(path)) == 0)
        return false;
    talc_error_clear();
    talc_fail(status, "%s: %s '%s': %s", TALC_SHOWN(path), TALC_SHOWN(node->op),
              TALC_SHOWN(talc_onnx_node_name(node)), message);
    return false;
}

/* Raises the failure of a pass that had no plan yet where none can be made. False: it was another
 * one. */
static bool unplanned(const talc_onnx_call *call)
{
    if (!call->planning || !talc_recording_active(call->plan->device) || !talc_failed())
        return false;
    talc_error_clear();
    talc_onnx_fail(call, TALC_UNSUPPORTED,
                   "shapes cannot be worked out while the pass is recorded: run one on an input of "
                   "this shape before");
    return true;
}

static bool run_steps(talc_onnx_call *call, int count)
{
    const talc_onnx_graph *graph = call->graph;
    for (int i = 0; i < count; i++) {
        const int index = call->planning ? i : call->plan->steps[i];
        call->step = &graph->steps[index];
        if (call->step->left_out)
            continue;
        call->folds = false;
        const bool folds = call->planning && inputs_known(call);
        if (!(folds ? fold(call) : run(call)))
            return unplanned(call) ? false : failed_in(call);
        const int first = call->step->outputs[0];
        if (call->planning && !folds && !(first >= 0 && call->plan->known[first] != NULL))
            call->plan->steps[call->plan->step_count++] = index;
        drop(call, index);
    }
    return true;
}

/* The last uses among the steps that are left to run. */
static void find_last_uses(const talc_onnx_graph *graph, talc_onnx_plan *plan)
{
    for (int i = 0; i < graph->value_count; i++)
        plan->last_use[i] = graph->values[i].is_output ? graph->step_count : -1;
    for (int i = 0; i < plan->step_count; i++) {
        const talc_onnx_step *step = &graph->steps[plan->steps[i]];
        for (int k = -1; k < step->input_count; k++) {
            const int value = k < 0 ? step->residual : step->inputs[k];
            if (value >= 0 && plan->last_use[value] < plan->steps[i])
                plan->last_use[value] = plan->steps[i];
        }
    }
}

/* Outputs, of which a known one goes to the device. */
static bool take_results(talc_onnx_call *call, talc_tensor *results[])
{
    const talc_onnx_graph *graph = call->graph;
    call->folds = false; /* as the last step may have */
    for (int i = 0; i < graph->model->output_count; i++) {
        const int value = graph->outputs[i];
        results[i] = talc_onnx_value_of(call, value);
        bool own = call->tensors[value] != NULL;
        for (int k = 0; k < graph->model->input_count; k++)
            own = own && results[i] != call->tensors[graph->inputs[k]];
        if (results[i] != NULL && !own)
            results[i] = talc_view(results[i], talc_dims_of(results[i]));
        if (results[i] == NULL)
            return false;
    }
    return true;
}

/* Of the file's type; of its floats as the module has been cast. */
static bool check_dtype(const talc_onnx_graph *graph, const talc_onnx_value_info *input,
                        const talc_tensor *given)
{
    const talc_dtype dtype = talc_onnx_dtype(input->type);
    if (dtype == TALC_DTYPE_COUNT || dtype == given->dtype ||
        (talc_dtype_is_float(dtype) && talc_dtype_is_float(given->dtype)))
        return true;
    talc_fail(TALC_BAD_DTYPE, "%s: input '%s' is %s, the file's is %s",
              TALC_SHOWN(graph->model->path), TALC_SHOWN(input->name),
              talc_dtype_name(given->dtype), talc_dtype_name(dtype));
    return false;
}

static bool check_inputs(const talc_onnx_graph *graph, talc_tensor *const inputs[])
{
    for (int i = 0; i < graph->model->input_count; i++) {
        const talc_onnx_value_info *input = &graph->model->inputs[i];
        bool fits = input->rank < 0 || input->rank == inputs[i]->rank;
        for (int k = 0; k < input->rank && fits; k++)
            fits = input->dim[k] < 0 || input->dim[k] == inputs[i]->dims[k];
        if (!check_dtype(graph, input, inputs[i]))
            return false;
        if (fits)
            continue;
        char given[TALC_DIMS_TEXT], expected[TALC_DIMS_TEXT] = "[";
        for (int k = 0; k < input->rank; k++) {
            const size_t used = strlen(expected);
            const char *comma = k + 1 < input->rank ? "," : "";
            if (input->dim[k] >= 0)
                snprintf(expected + used, sizeof expected - used, "%lld%s",
                         (long long)input->dim[k], comma);
            else
                snprintf(expected + used, sizeof expected - used, "%.16s%s",
                         input->dim_name[k] == NULL ? "?" : TALC_SHOWN(input->dim_name[k]), comma);
        }
        talc_fail(TALC_BAD_SHAPE, "%s: input '%s' is %s, the file's is %s]",
                  TALC_SHOWN(graph->model->path), TALC_SHOWN(input->name),
                  talc_dims_text(talc_dims_of(inputs[i]), given), expected);
        return false;
    }
    return true;
}

bool talc_onnx_pass_run(talc_onnx_graph *graph, talc_tensor *const inputs[], talc_tensor *results[])
{
    if (!check_inputs(graph, inputs))
        return false;
    talc_onnx_plan *plan = plan_enter(graph, inputs);
    bool on_data = false;
    talc_onnx_call call = { .graph = graph, .planning = plan == NULL, .on_data = &on_data };
    call.plan = plan != NULL ? plan : plan_new(graph, inputs);
    call.tensors = talc_memory_new((size_t)graph->value_count * sizeof *call.tensors + 1, "onnx");
    bool ran = call.plan != NULL && call.tensors != NULL;
    if (ran) {
        for (int i = 0; i < graph->model->input_count; i++)
            call.tensors[graph->inputs[i]] = inputs[i];
        ran = run_steps(&call, call.planning ? graph->step_count : call.plan->step_count) &&
              take_results(&call, results);
    }
    if (ran && call.planning && !on_data) {
        find_last_uses(graph, call.plan);
        plan_keep(graph, call.plan);
    }
    if (call.plan != NULL)
        plan_leave(graph, call.plan);
    talc_memory_free(call.tensors);
    return ran;
}
