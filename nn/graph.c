#include "nn/graph.h"

#include "nn/entries.h"
#include "nn/pass.h"
#include "nn/source.h"
#include "ops/operand.h"
#include "tensor/autograd.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/run.h"
#include "tensor/shown.h"

#include <stdio.h>
#include <string.h>

static const char *const CAPTURE = "capture", *const REPLAY = "graph_replay";

/* A parameter or buffer as it was recorded. */
typedef struct parameter {
    talc_tensor *tensor; /* the module's handle, retained */
    talc_source source;
    bool written; /* by the pass itself, so by each replay */
} parameter;

struct talc_graph {
    talc_module *module;
    talc_tensor *x, *y;
    talc_recording *recording;
    parameter *parameters;
    int parameter_count;
};

// ---- Parameters ---------------------------------------------------------------------------------

static bool add_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    talc_graph *graph = context;
    parameter *to = &graph->parameters[graph->parameter_count];
    if (!talc_source_hold(&to->source, tensor))
        return false;
    to->tensor = talc_retain(tensor);
    graph->parameter_count++;
    return true;
}

static bool list_parameters(talc_graph *graph)
{
    const size_t count = (size_t)talc_module_tensor_count(graph->module);
    graph->parameters = talc_memory_new(count * sizeof *graph->parameters, CAPTURE);
    return graph->parameters != NULL && talc_module_visit(graph->module, add_parameter, graph);
}

/* Ends the walk at the tensor in question, telling its path. */
static bool tell_replaced(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    if (tensor != context)
        return true;
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: %s was moved or loaded since the capture, so it has other storage now; "
              "capture again",
              REPLAY, TALC_SHOWN(path));
    return false;
}

/* Whether the parameters are where they were; `written` when one has another content. */
static bool check_parameters(const talc_graph *graph, bool *written)
{
    *written = false;
    for (int i = 0; i < graph->parameter_count; i++) {
        const parameter *of = &graph->parameters[i];
        if (!talc_source_in_place(&of->source, of->tensor)) {
            talc_module_visit(graph->module, tell_replaced, of->tensor);
            talc_fail(TALC_BAD_ARGUMENT, "%s: a parameter was replaced since the capture", REPLAY);
            return false;
        }
        *written = *written || !talc_source_stands(&of->source, of->tensor);
    }
    return true;
}

/* As they are now: all of them after a capture, those that the pass writes after a replay. */
static void record_captured(talc_graph *graph)
{
    for (int i = 0; i < graph->parameter_count; i++) {
        parameter *to = &graph->parameters[i];
        to->source.version = talc_version(to->tensor);
        to->written = talc_recording_writes(graph->recording, to->tensor);
    }
}

static void record_replayed(talc_graph *graph)
{
    for (int i = 0; i < graph->parameter_count; i++)
        if (graph->parameters[i].written)
            graph->parameters[i].source.version = talc_version(graph->parameters[i].tensor);
    talc_tensor_written(graph->y);
}

// ---- Modes --------------------------------------------------------------------------------------

/* A module of the tree that is in training mode, with its path; NULL: there is none. */
static const talc_module *training_module(const talc_module *module, char *path, size_t size)
{
    if (module->training)
        return module;
    const size_t used = strlen(path);
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (entry->child == NULL)
            continue;
        snprintf(path + used, size - used, "%s%s", used > 0 ? "." : "", entry->name);
        const talc_module *found = training_module(entry->child, path, size);
        if (found != NULL)
            return found;
        path[used] = '\0';
    }
    return NULL;
}

static bool in_evaluation(const talc_module *module)
{
    char path[256] = "";
    const talc_module *training = training_module(module, path, sizeof path);
    if (training == NULL)
        return true;
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: %s%s%s is in training mode; call talc_module_eval on the model first", CAPTURE,
              TALC_SHOWN(training->kind->name), *path == '\0' ? "" : " ", TALC_SHOWN(path));
    return false;
}

// ---- Passes -------------------------------------------------------------------------------------

static talc_tensor *forward(talc_graph *graph)
{
    talc_no_grad_enter();
    talc_tensor *y = talc_forward(graph->module, graph->x);
    talc_no_grad_leave();
    return y;
}

/* Its result in the recording's memory: x, or what the program holds, may be written before the
 * next replay. */
static talc_tensor *forward_to_own(talc_graph *graph)
{
    talc_tensor *y = forward(graph);
    return y == NULL || talc_recording_owns(graph->recording, y) ? y : talc_clone_for(CAPTURE, y);
}

/* What is made of a pass stays in the scope that is open. */
static talc_tensor *pass(talc_graph *graph, bool pool)
{
    if (!talc_recording_enter(CAPTURE, graph->recording, pool))
        return NULL;
    talc_tensor *y = pool ? forward_to_own(graph) : forward(graph);
    talc_recording_leave();
    return y;
}

/* The recorded pass; its result, whose elements do not exist yet. */
static talc_tensor *recorded_pass(talc_graph *graph)
{
    talc_tensor *y = NULL;
    if (talc_recording_begin(graph->recording)) {
        talc_observer *observer = talc_observe_pause(); /* of elements that do not exist */
        y = forward_to_own(graph);
        talc_observe_resume(observer);
        if (!talc_recording_end(graph->recording))
            y = NULL;
    }
    return y;
}

/* The first pass makes what is made once (folded weights, handles of libraries, kernels' code) in
 * the device's memory; the second allocates the recording's memory, as much as the third pass,
 * which is recorded, needs. */
static talc_tensor *record(talc_graph *graph)
{
    for (int pool = 0; pool < 2; pool++) {
        talc_scope *scope = talc_scope_enter();
        const bool ran = scope != NULL && pass(graph, pool == 1) != NULL;
        talc_scope_leave(scope);
        if (!ran)
            return NULL;
    }
    if (!talc_recording_enter(CAPTURE, graph->recording, true))
        return NULL;
    talc_tensor *y = recorded_pass(graph);
    talc_recording_leave();
    return y;
}

/* A first result, whose shape later ones must have. */
static talc_tensor *rehearse(talc_graph *graph)
{
    talc_tensor *y = pass(graph, false);
    return y == NULL ? NULL : talc_clone_for(CAPTURE, y);
}

/* Makes the recording and the fixed output; a graph that has them gets new ones, in the same output
 * handle, or keeps its own, and nothing shows of the passes that are run for it. */
static bool capture(talc_graph *graph)
{
    talc_recording *before = graph->recording;
    talc_scope *scope = talc_scope_enter();
    graph->recording = scope == NULL ? NULL : talc_recording_new(graph->x->device, false);
    talc_tensor *y = NULL;
    if (graph->recording != NULL && (before == NULL || talc_recording_save(before)))
        y = talc_recording_possible(graph->x->device) ? record(graph) : rehearse(graph);
    if (before != NULL && !talc_recording_restore(before))
        y = NULL;
    y = y == NULL || talc_failed() ? NULL : talc_tensor_alias(y);
    if (y != NULL && graph->y != NULL)
        talc_tensor_replace(graph->y, y);
    else if (y != NULL)
        graph->y = talc_retain(y);
    talc_scope_leave(scope);
    if (y != NULL) {
        record_captured(graph);
        talc_recording_free(before);
        return true;
    }
    talc_recording_free(graph->recording);
    graph->recording = before;
    return false;
}

// ---- Public -------------------------------------------------------------------------------------

/* In a scope that ends with the call. */
static bool prepare(talc_graph *graph, const talc_tensor *example)
{
    talc_scope *scope = talc_scope_enter();
    if (scope == NULL)
        return false;
    graph->x = talc_retain(talc_empty_like(example));
    const bool made = graph->x != NULL && talc_copy_for(CAPTURE, graph->x, example) &&
                      list_parameters(graph) && capture(graph);
    talc_scope_leave(scope);
    return made;
}

talc_graph *talc_capture(talc_module *module, const talc_tensor *example)
{
    if (talc_operand_missing(CAPTURE, "module", module) ||
        talc_operand_missing(CAPTURE, "example", example) ||
        talc_recording_refuses(CAPTURE, example->device, "hold another graph") ||
        talc_recording_refuses_device(CAPTURE, example->device) || !in_evaluation(module))
        return NULL;
    talc_graph *graph = talc_memory_new(sizeof *graph, CAPTURE);
    if (graph == NULL)
        return NULL;
    graph->module = module;
    talc_pass pass;
    talc_pass_begin(&pass, module);
    const bool made = prepare(graph, example);
    talc_pass_end(&pass);
    if (made)
        return graph;
    talc_graph_free(graph);
    return NULL;
}

/* Where the device cannot repeat what was recorded. */
static bool run_again(talc_graph *graph)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *y = scope == NULL ? NULL : pass(graph, false);
    const bool ran = y != NULL && talc_copy_for(REPLAY, graph->y, y);
    talc_scope_leave(scope);
    return ran;
}

static bool run_recording(talc_graph *graph, bool written)
{
    if (written && !(in_evaluation(graph->module) && capture(graph)))
        return false;
    const talc_run run = talc_run_begin(REPLAY, graph->x->device, "graph", talc_run_dims, graph->x);
    const bool ran = talc_recording_replay(graph->recording);
    if (talc_run_end(&run, ran ? TALC_OK : talc_error_status()) != TALC_OK)
        return false;
    record_replayed(graph);
    return true;
}

static talc_tensor *replay(talc_graph *graph, const talc_tensor *x)
{
    bool written;
    if (!talc_operand_like(REPLAY, "the example", graph->x, "x", x) ||
        !talc_operand_shape(REPLAY, "x", x, talc_dims_of(graph->x)) ||
        talc_recording_refuses(REPLAY, x->device, "hold another graph") ||
        talc_recording_refuses_device(REPLAY, x->device) || !check_parameters(graph, &written) ||
        !talc_recording_follow(graph->recording) ||
        (x != graph->x && !talc_copy_for(REPLAY, graph->x, x)))
        return NULL;
    const bool ran =
        talc_recording_possible(x->device) ? run_recording(graph, written) : run_again(graph);
    return ran ? graph->y : NULL;
}

talc_tensor *talc_graph_replay(talc_graph *graph, const talc_tensor *x)
{
    if (talc_operand_missing(REPLAY, "graph", graph))
        return NULL;
    talc_pass pass;
    talc_pass_begin(&pass, graph->module);
    talc_tensor *y = replay(graph, x);
    talc_pass_end(&pass);
    return y;
}

talc_tensor *talc_graph_input(talc_graph *graph)
{
    return graph == NULL ? NULL : graph->x;
}

void talc_graph_free(talc_graph *graph)
{
    if (graph == NULL)
        return;
    /* The recording first: it waits for replays that may still read the rest. */
    talc_recording_free(graph->recording);
    for (int i = 0; i < graph->parameter_count; i++) {
        talc_release(graph->parameters[i].tensor);
        talc_source_release(&graph->parameters[i].source);
    }
    talc_memory_free(graph->parameters);
    talc_release(graph->x);
    talc_release(graph->y);
    talc_memory_free(graph);
}
