#include "nn/entries.h"
#include "nn/layer.h"
#include "ops/algorithm.h"
#include "ops/matmul.h"
#include "ops/padding.h"
#include "ops/pool2d.h"
#include "tensor/autograd.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/table.h"

#include <string.h>

/* The deepest level of modules that is followed. */
enum { DEPTH = 64, TEXT = sizeof((talc_module_step *)NULL)->does };

/* Several modules on one level of the walk, or one. */
typedef struct level {
    talc_module *modules[TALC_GROUP_MAX];
    int count;
} level;

typedef struct explaining {
    struct hooks {
        talc_forward_hooks base; /* first, so that the two pointers are one */
        struct explaining *self;
    } hooks;
    struct observer {
        talc_observer base; /* first */
        struct explaining *self;
    } observer;
    const talc_module *root;
    level levels[DEPTH];
    int depth;
    bool folding; /* the ops that run now make folded weights, which are kept for later calls */
    talc_module_step *steps;
    int count;
    size_t capacity;
} explaining;

// ---- Where the pass is --------------------------------------------------------------------------

static void enter(talc_forward_hooks *hooks, const talc_module *module)
{
    explaining *self = ((struct hooks *)hooks)->self;
    if (self->depth < DEPTH)
        self->levels[self->depth] = (level){ { (talc_module *)module }, 1 };
    self->depth++;
}

static void leave(talc_forward_hooks *hooks, const talc_module *module, const talc_tensor *x,
                  const talc_tensor *y)
{
    (void)module;
    (void)x;
    (void)y;
    ((struct hooks *)hooks)->self->depth--;
}

static void group(talc_forward_hooks *hooks, talc_module *const modules[], int count,
                  talc_group_phase phase)
{
    explaining *self = ((struct hooks *)hooks)->self;
    self->folding = phase == TALC_GROUP_FOLDS;
    if (phase == TALC_GROUP_ENDS)
        self->depth--;
    if (phase != TALC_GROUP_FOLDS)
        return;
    if (self->depth < DEPTH) {
        level *here = &self->levels[self->depth];
        here->count = count;
        memcpy(here->modules, modules, (size_t)here->count * sizeof(talc_module *));
    }
    self->depth++;
}

// ---- Texts --------------------------------------------------------------------------------------

static void append(char text[TEXT], const char *more)
{
    const size_t length = strlen(text);
    snprintf(text + length, TEXT - length, "%s", more);
}

static const char *name_in_parent(const talc_module *module)
{
    return module->entries->name == NULL ? "?" : module->entries->name;
}

static void append_path(char text[TEXT], const talc_module *root, const talc_module *module)
{
    if (module == root)
        return;
    const talc_module *parent = module->entries->parent;
    if (parent != NULL && parent != root) {
        append_path(text, root, parent);
        append(text, ".");
    }
    append(text, name_in_parent(module));
}

/* What an op does last. */
static void append_end(char text[TEXT], bool residual, talc_activation activation)
{
    append(text, residual ? " + residual" : "");
    if (activation != TALC_ACTIVATION_NONE) {
        append(text, " + ");
        append(text, talc_activation_name(activation));
    }
}

static void describe(talc_module_step *to, const explaining *self,
                     const talc_observation *observation)
{
    const int depth = self->depth < DEPTH ? self->depth : DEPTH;
    const level *here = &self->levels[depth - 1];
    char *does = to->does;
    append_path(to->layers, self->root, here->modules[0]);
    append(does, here->modules[0]->kind->name);
    for (int i = 1; i < here->count; i++) {
        append(to->layers, "+");
        append(to->layers, name_in_parent(here->modules[i]));
        if (here->modules[i]->kind == &talc_batch_norm2d_class)
            append(does, " + BatchNorm2d (folded)");
    }
    if (strcmp(observation->op, "conv2d") == 0) {
        const talc_conv2d_problem *p = observation->problem;
        append_end(does, p->residual, p->activation);
    } else if (strcmp(observation->op, "linear") == 0) {
        const talc_matmul_problem *p = observation->problem;
        append_end(does, p->residual, p->activation);
    } else if (strcmp(observation->op, "batch_norm2d") == 0) {
        const talc_batch_norm2d_problem *p = observation->problem;
        append_end(does, p->residual, p->activation);
    }
}

static void conv2d_window(char text[TALC_WINDOW_TEXT], const talc_conv2d_problem *p)
{
    const talc_window window = {
        p->KH,         p->KW,
        p->stride_h,   p->stride_w,
        p->dilation_h, p->dilation_w,
        p->groups,     { p->pad_top, p->pad_left, p->pad_bottom, p->pad_right }
    };
    talc_window_text(&window, text);
}

static void pool2d_window(char text[TALC_WINDOW_TEXT], const talc_pool2d_problem *p)
{
    const talc_window window = { p->KH,
                                 p->KW,
                                 p->stride_h,
                                 p->stride_w,
                                 p->dilation_h,
                                 p->dilation_w,
                                 1,
                                 { p->pad_top, p->pad_left, p->pad_bottom, p->pad_right } };
    talc_window_text(&window, text);
}

static void describe_window(talc_module_step *to, const talc_observation *observation)
{
    const void *problem = observation->problem;
    _Static_assert(sizeof to->window == TALC_WINDOW_TEXT, "a step has room for its window");
    if (problem == NULL)
        return;
    if (strcmp(observation->op, "conv2d") == 0 || strcmp(observation->op, "conv2d.grad_input") == 0)
        conv2d_window(to->window, problem);
    else if (strcmp(observation->op, "max_pool2d") == 0 ||
             strcmp(observation->op, "avg_pool2d") == 0)
        pool2d_window(to->window, problem);
}

static talc_module_step *new_step(explaining *self)
{
    talc_module_step *steps = talc_memory_grown(self->steps, (size_t)self->count, &self->capacity,
                                                sizeof *steps, "module_explain");
    if (steps == NULL)
        return NULL;
    self->steps = steps;
    return &steps[self->count++];
}

static void observe(talc_observer *observer, const talc_observation *observation)
{
    explaining *self = ((struct observer *)observer)->self;
    talc_module_step *to = self->folding || self->depth == 0 ? NULL : new_step(self);
    if (to == NULL)
        return;
    *to = (talc_module_step){ .output = talc_dims_of(observation->output) };
    describe(to, self, observation);
    describe_window(to, observation);
    snprintf(to->op, sizeof to->op, "%s", observation->op);
    if (observation->algorithm != NULL)
        (void)talc_algorithm_text(observation->algorithm, to->algorithm);
}

// ---- The pass -----------------------------------------------------------------------------------

static bool run_forward(explaining *self, talc_module *module, talc_tensor *x, bool train)
{
    talc_scope *scope = talc_scope_enter();
    bool *modes = scope == NULL ? NULL : talc_module_evaluate("module_explain", module);
    bool ran = false;
    if (modes != NULL) {
        if (train) {
            talc_module_train(module);
            talc_no_grad_leave(); /* which talc_module_evaluate entered */
        }
        talc_forward_hooks *hooks = talc_forward_hook(&self->hooks.base);
        talc_observer *observer = talc_observe(&self->observer.base);
        ran = talc_forward(module, x) != NULL;
        talc_observe(observer);
        talc_forward_hook(hooks);
        if (train)
            talc_no_grad_enter();
        talc_module_restore_modes(module, modes);
    }
    talc_scope_leave(scope);
    return ran && !talc_failed();
}

static bool explain(talc_module *module, talc_tensor *x, bool train,
                    talc_module_explanation *explanation)
{
    if (explanation != NULL)
        *explanation = (talc_module_explanation){ 0 };
    if (talc_operand_missing("module_explain", "module", module) ||
        talc_operand_missing("module_explain", "x", x) ||
        talc_operand_missing("module_explain", "explanation", explanation))
        return false;
    explaining self = { .root = module };
    self.hooks = (struct hooks){ { .group = group, .enter = enter, .leave = leave }, &self };
    self.observer = (struct observer){ { .observe = observe }, &self };
    if (!run_forward(&self, module, x, train)) {
        talc_memory_free(self.steps);
        return false;
    }
    *explanation = (talc_module_explanation){ self.count, self.steps };
    return true;
}

bool talc_module_explain(talc_module *module, talc_tensor *x, talc_module_explanation *explanation)
{
    return explain(module, x, false, explanation);
}

bool talc_module_explain_training(talc_module *module, talc_tensor *x,
                                  talc_module_explanation *explanation)
{
    return explain(module, x, true, explanation);
}

void talc_module_explanation_free(talc_module_explanation *explanation)
{
    if (explanation == NULL)
        return;
    talc_memory_free(explanation->steps);
    *explanation = (talc_module_explanation){ 0 };
}

// ---- The table ----------------------------------------------------------------------------------

enum { LAYERS, DOES, OP, WINDOW, OUTPUT, ALGORITHM, COLUMNS };

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const talc_module_step *step = &((const talc_module_explanation *)context)->steps[row];
    switch (column) {
    case LAYERS:
        return *step->layers == '\0' ? "(model)"
                                     : talc_shown(step->layers, SIZE_MAX, text, TALC_SHOWN_TEXT);
    case DOES:
        return talc_shown(step->does, SIZE_MAX, text, TALC_SHOWN_TEXT);
    case OP:
        return step->op;
    case WINDOW:
        return step->window;
    case OUTPUT:
        return talc_dims_text(step->output, text);
    default:
        return step->algorithm;
    }
}

void talc_module_explanation_print(FILE *file, const talc_module_explanation *explanation)
{
    static const talc_column columns[COLUMNS] = {
        { "layers", TALC_COLUMN_NAME },  { "what they do", TALC_COLUMN_NAME },
        { "op", TALC_COLUMN_NAME },      { "window", TALC_COLUMN_WHOLE },
        { "output", TALC_COLUMN_WHOLE }, { "algorithm", TALC_COLUMN_NAME },
    };
    if (file != NULL && explanation != NULL)
        talc_table_print(file, &(talc_table){ .count = COLUMNS,
                                              .columns = columns,
                                              .rows = explanation->count,
                                              .cell = cell,
                                              .context = explanation });
}
