#include "onnx/build.h"

#include <stdlib.h>
#include <string.h>

enum { INITIALIZER = -2, INPUT = -1 }; /* makers that are no nodes */

/* A value and what makes it. */
typedef struct made_value {
    const char *name;
    int maker; /* a node, or one of the above */
} made_value;

typedef struct checker {
    talc_onnx_model *model;
    talc_onnx_arena *temporary;
    made_value *values; /* sorted by name, then by maker */
    size_t count;
} checker;

// ---- Names --------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const made_value *)a)->name, ((const made_value *)b)->name);
}

static int compare_values(const void *a, const void *b)
{
    const int order = compare_names(a, b), x = ((const made_value *)a)->maker,
              y = ((const made_value *)b)->maker;
    return order != 0 ? order : (x > y) - (x < y);
}

static const made_value *find(const checker *c, const char *name)
{
    const made_value key = { name, 0 };
    return bsearch(&key, c->values, c->count, sizeof key, compare_names);
}

static const char *maker_text(const checker *c, int maker, char text[TALC_ONNX_LABEL])
{
    return maker == INITIALIZER ? "an initialiser"
           : maker == INPUT     ? "an input"
                                : talc_onnx_node_label(c->model, maker, text);
}

/* All values by name, and that no name has two; of an input that is an initialiser the initialiser
 * stays. */
static bool collect_values(checker *c)
{
    const talc_onnx_model *model = c->model;
    size_t count = (size_t)model->initializer_count + (size_t)model->input_count;
    for (int i = 0; i < model->node_count; i++)
        count += (size_t)model->nodes[i].output_count;
    made_value *all = c->values = talc_onnx_take(c->temporary, count * sizeof *all);
    if (all == NULL)
        return false;
    count = 0;
    for (int i = 0; i < model->initializer_count; i++)
        all[count++] = (made_value){ model->initializers[i].name, INITIALIZER };
    for (int i = 0; i < model->input_count; i++)
        all[count++] = (made_value){ model->inputs[i].name, INPUT };
    for (int i = 0; i < model->node_count; i++)
        for (int j = 0; j < model->nodes[i].output_count; j++)
            if (model->nodes[i].outputs[j][0] != '\0')
                all[count++] = (made_value){ model->nodes[i].outputs[j], i };
    qsort(all, count, sizeof *all, compare_values);
    for (size_t i = 0; i < count; i++) {
        const made_value *last = c->count > 0 ? &all[c->count - 1] : NULL;
        if (last == NULL || strcmp(last->name, all[i].name) != 0) {
            all[c->count++] = all[i];
        } else if (last->maker != INITIALIZER || all[i].maker != INPUT ||
                   all[i - 1].maker == INPUT) {
            char first[TALC_ONNX_LABEL], second[TALC_ONNX_LABEL];
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "value '%s' is made twice: by %s and by %s",
                           TALC_SHOWN(all[i].name), maker_text(c, all[i - 1].maker, first),
                           maker_text(c, all[i].maker, second));
            return false;
        }
    }
    return true;
}

static void leave_out_initialized_inputs(const checker *c)
{
    /* They are the model's own memory, which nothing reads yet. */
    talc_onnx_value_info *inputs = (talc_onnx_value_info *)c->model->inputs;
    int kept = 0;
    for (int i = 0; i < c->model->input_count; i++)
        if (find(c, inputs[i].name)->maker == INPUT)
            inputs[kept++] = inputs[i];
    c->model->input_count = kept;
}

static bool check_outputs(const checker *c)
{
    const talc_onnx_model *model = c->model;
    made_value *names = talc_onnx_take(c->temporary, (size_t)model->output_count * sizeof *names);
    if (names == NULL)
        return false;
    for (int i = 0; i < model->output_count; i++) {
        names[i].name = model->outputs[i].name;
        if (find(c, names[i].name) == NULL) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "output '%s' is made by no node",
                           TALC_SHOWN(names[i].name));
            return false;
        }
    }
    qsort(names, (size_t)model->output_count, sizeof *names, compare_names);
    for (int i = 1; i < model->output_count; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, model, "two outputs '%s'", TALC_SHOWN(names[i].name));
            return false;
        }
    return true;
}

// ---- Order --------------------------------------------------------------------------------------

/* A node whose inputs are looked at, the next of them, and the node that asked. */
typedef struct visit {
    enum { NEW, OPEN, DONE } state;
    int next_input, asked_by;
} visit;

/* The node that has to come before `node` next; -1: none is left, -2: a failure. */
static int next_needed(const checker *c, visit *visits, int node)
{
    const talc_onnx_node *at = &c->model->nodes[node];
    char label[TALC_ONNX_LABEL], other[TALC_ONNX_LABEL];
    while (visits[node].next_input < at->input_count) {
        const int i = visits[node].next_input++;
        const char *name = at->inputs[i];
        const made_value *value = name[0] == '\0' ? NULL : find(c, name);
        if (value == NULL && name[0] != '\0') {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, c->model,
                           "%s: input %d, '%s', is no initialiser, no input and made by no node",
                           talc_onnx_node_label(c->model, node, label), i, TALC_SHOWN(name));
            return -2;
        }
        if (value == NULL || value->maker < 0 || visits[value->maker].state == DONE)
            continue;
        if (visits[value->maker].state == OPEN) {
            TALC_ONNX_FAIL(TALC_BAD_FORMAT, c->model,
                           "a cycle: %s needs '%s' of %s, which needs it",
                           talc_onnx_node_label(c->model, node, label), TALC_SHOWN(name),
                           talc_onnx_node_label(c->model, value->maker, other));
            return -2;
        }
        return value->maker;
    }
    return -1;
}

/* Each node behind those that it needs, in the file's order otherwise: depth first, without
 * recursion, as chains may be as long as the file. */
static bool sort_nodes(const checker *c)
{
    const int count = c->model->node_count;
    visit *visits = talc_onnx_take(c->temporary, (size_t)count * sizeof *visits);
    talc_onnx_node *sorted = talc_onnx_take(c->temporary, (size_t)count * sizeof *sorted);
    if (visits == NULL || sorted == NULL)
        return false;
    int done = 0;
    for (int first = 0; first < count; first++) {
        int node = visits[first].state == NEW ? first : -1;
        if (node >= 0)
            visits[node].asked_by = -1;
        while (node >= 0) {
            visits[node].state = OPEN;
            const int needed = next_needed(c, visits, node);
            if (needed == -2)
                return false;
            if (needed >= 0) {
                visits[needed].asked_by = node;
                node = needed;
            } else {
                visits[node].state = DONE;
                sorted[done++] = c->model->nodes[node];
                node = visits[node].asked_by;
            }
        }
    }
    if (count > 0)
        memcpy((talc_onnx_node *)c->model->nodes, sorted, (size_t)count * sizeof *sorted);
    return true;
}

bool talc_onnx_check_graph(talc_onnx_model *model, talc_onnx_arena *temporary)
{
    checker c = { .model = model, .temporary = temporary };
    if (!collect_values(&c))
        return false;
    leave_out_initialized_inputs(&c);
    return check_outputs(&c) && sort_nodes(&c);
}
