#include "onnx/tree.h"

#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *const WHO = "onnx_load";

enum { PATH = 512 };

// ---- The tree -----------------------------------------------------------------------------------

static const talc_module_class container_class = { .name = "Module", .size = sizeof(talc_module) };

/* Whether a path's names are none of them empty. */
static bool path_fits(const char *path)
{
    const size_t length = strlen(path);
    return length > 0 && length < PATH && path[0] != '.' && path[length - 1] != '.' &&
           strstr(path, "..") == NULL;
}

/* The module at a path, made where there is none; *name is then the path's last name, which is not
 * looked for. NULL: a tensor is in the way, or, with a failure, no memory. */
static talc_module *parent_of(talc_module *root, const char *path, char name[PATH])
{
    talc_module *at = root;
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        const talc_module_entry *entry = talc_module_entry_find(at, path, (size_t)(dot - path));
        if (entry != NULL && entry->child == NULL)
            return NULL;
        snprintf(name, PATH, "%.*s", (int)(dot - path), path);
        at = entry != NULL ? entry->child
                           : talc_module_add(at, name, talc_module_new(&container_class, NULL));
        if (at == NULL)
            return NULL;
    }
    snprintf(name, PATH, "%s", path);
    return talc_module_entry_find(at, name, strlen(name)) == NULL ? at : NULL;
}

/* Levels that a path takes below the root. */
static int levels_of(const char *path)
{
    int levels = 1;
    for (; *path != '\0'; path++)
        levels += *path == '.';
    return levels;
}

/* parent_of for a path that can be one. */
static talc_module *free_parent(talc_module *root, const char *path, char name[PATH])
{
    return path_fits(path) && levels_of(path) < TALC_MODULE_LEVELS - 1 ? parent_of(root, path, name)
                                                                       : NULL;
}

/* A name without dots that the root does not have yet. */
static void root_name(const talc_module *root, const char *from, char name[PATH])
{
    char base[PATH - 16];
    snprintf(base, sizeof base, "%s", from[0] == '\0' ? "node" : from);
    for (char *at = base; *at != '\0'; at++)
        *at = *at == '.' ? '_' : *at;
    snprintf(name, PATH, "%s", base);
    for (int i = 2; talc_module_entry_find(root, name, strlen(name)) != NULL; i++)
        snprintf(name, PATH, "%s_%d", base, i);
}

// ---- Paths of modules ---------------------------------------------------------------------------

/* What comes before the last dot of a parameter's name. */
static bool path_of_parameter(const char *name, char path[PATH])
{
    const char *dot = strrchr(name, '.');
    if (dot == NULL || dot - name >= PATH)
        return false;
    snprintf(path, PATH, "%.*s", (int)(dot - name), name);
    return true;
}

/* The path of "/features/features.1/conv/conv.0/Conv" is features.1.conv.0: PyTorch's older
 * exporter repeats the name of a list in those of its modules. */
static bool path_of_scope(const char *name, char path[PATH])
{
    char last[PATH] = "";
    size_t used = 0;
    path[0] = '\0';
    if (name[0] != '/' || strlen(name) >= PATH)
        return false;
    for (const char *at = name + 1, *slash; (slash = strchr(at, '/')) != NULL; at = slash + 1) {
        const size_t length = (size_t)(slash - at), before = strlen(last);
        const bool repeats =
            before > 0 && length > before && strncmp(at, last, before) == 0 && at[before] == '.';
        const size_t from = repeats ? before + 1 : 0;
        used += (size_t)snprintf(path + used, PATH - used, "%s%.*s", used > 0 ? "." : "",
                                 (int)(length - from), at + from);
        snprintf(last, sizeof last, "%.*s", (int)length, at);
    }
    return used > 0;
}

bool talc_onnx_place(talc_module *root, const talc_onnx_graph *graph, talc_onnx_step *step,
                     talc_module *module)
{
    char path[PATH], name[PATH];
    talc_module *parent = NULL;
    for (int i = 1; i < step->input_count && parent == NULL; i++)
        if (step->inputs[i] >= 0 && graph->values[step->inputs[i]].initializer != NULL &&
            path_of_parameter(graph->values[step->inputs[i]].name, path))
            parent = free_parent(root, path, name);
    if (parent == NULL && !talc_failed() && path_of_scope(step->node->name, path))
        parent = free_parent(root, path, name);
    if (parent == NULL && !talc_failed()) {
        root_name(root, graph->values[step->outputs[0]].name, name);
        parent = root;
    }
    step->layers[0] = talc_failed() ? NULL : talc_module_add(parent, name, module);
    step->layer_count = step->layers[0] != NULL;
    return step->layer_count == 1;
}

// ---- Parameters ---------------------------------------------------------------------------------

/* The statistics of batch norms, which are buffers. */
static void find_statistics(talc_onnx_graph *graph)
{
    for (int i = 0; i < graph->step_count; i++) {
        const talc_onnx_step *step = &graph->steps[i];
        if (step->left_out || strcmp(step->op->name, "BatchNormalization") != 0)
            continue;
        graph->values[step->inputs[3]].is_statistic = true;
        graph->values[step->inputs[4]].is_statistic = true;
    }
}

static bool register_value(talc_module *root, talc_onnx_graph *graph, int number)
{
    talc_onnx_value *value = &graph->values[number];
    char name[PATH];
    talc_module *parent = free_parent(root, value->name, name);
    if (parent == NULL && !talc_failed()) {
        root_name(root, value->name, name);
        parent = root;
    }
    const talc_dtype dtype = talc_onnx_dtype(value->initializer->type);
    talc_tensor *tensor =
        talc_failed() ? NULL : talc_empty(talc_device_host(), dtype, value->initializer->dims);
    if (tensor == NULL)
        return false;
    value->parameter = value->is_statistic ? talc_module_buffer(parent, name, tensor)
                                           : talc_module_parameter(parent, name, tensor);
    talc_scope_drop(tensor);
    return value->parameter != NULL;
}

// ---- Reading ------------------------------------------------------------------------------------

/* What two threads read, of which each takes the next. */
typedef struct reading {
    const talc_onnx_graph *graph;
    void **to; /* by value; NULL: nothing is read */
    atomic_int next;
    talc_status status; /* of the second thread */
    char message[1024];
} reading;

static bool read_on(reading *r)
{
    int i;
    while (!talc_failed() && (i = atomic_fetch_add(&r->next, 1)) < r->graph->value_count)
        if (r->to[i] != NULL)
            (void)talc_onnx_read_elements(r->graph->model, r->graph->values[i].initializer,
                                          r->to[i]);
    return !talc_failed();
}

static void *second_reader(void *argument)
{
    reading *r = argument;
    if (!read_on(r)) {
        r->status = talc_error_status();
        snprintf(r->message, sizeof r->message, "%s", talc_error_message());
    }
    return NULL;
}

/* The pages that elements come to are touched here for the first time, which takes as long as
 * copying them: so two threads read. */
static bool read_all(const talc_onnx_graph *graph)
{
    enum { SMALL = 1 << 20 }; /* bytes for which a thread is not worth it */
    int64_t bytes = 0;
    reading r = { .graph = graph };
    r.to = talc_memory_new((size_t)graph->value_count * sizeof *r.to + 1, WHO);
    for (int i = 0; i < graph->value_count && r.to != NULL; i++) {
        const talc_onnx_value *value = &graph->values[i];
        if (value->parameter == NULL || value->initializer->count == 0)
            continue;
        r.to[i] = talc_data(value->parameter, value->parameter->dtype);
        bytes += value->initializer->bytes;
    }
    pthread_t second;
    if (!talc_failed()) {
        const bool started = bytes > SMALL && talc_thread_start(&second, second_reader, &r);
        (void)read_on(&r);
        if (started)
            pthread_join(second, NULL);
        if (started && r.status != TALC_OK)
            talc_fail(r.status, "%s", r.message);
    }
    talc_memory_free(r.to);
    return !talc_failed();
}

bool talc_onnx_register(talc_module *root, talc_onnx_graph *graph)
{
    find_statistics(graph);
    for (int i = 0; i < graph->value_count; i++) {
        const talc_onnx_value *value = &graph->values[i];
        if (value->initializer != NULL && value->constant == NULL && value->uses > 0 &&
            !register_value(root, graph, i))
            return false;
    }
    return read_all(graph);
}
