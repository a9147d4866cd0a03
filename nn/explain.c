#include "nn/entries.h"
#include "nn/module.h"
#include "ops/algorithm.h"
#include "ops/batch_norm2d.h"
#include "ops/conv2d.h"
#include "ops/matmul.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/storage.h"

#include <string.h>

/* Columns of the table, and how far down modules are followed. */
enum { LAYERS, DOES, OP, OUTPUT, COLUMNS, DEPTH = 64, TEXT = 256 };

typedef struct line {
    char cells[COLUMNS][TEXT];
    char algorithm[32];
} line;

/* Several modules on one level of the walk, or one. */
typedef struct level {
    talc_module *modules[4];
    int count;
} level;

typedef struct explanation {
    struct recorder {
        talc_forward_recorder base; /* first, so that the two pointers are one */
        struct explanation *self;
    } recorder;
    struct observer {
        talc_observer base; /* first */
        struct explanation *self;
    } observer;
    const talc_module *root;
    level levels[DEPTH];
    int depth;
    bool folding; /* ops of now are kept for later calls */
    line *lines;
    int count, room;
} explanation;

// ---- Where the pass is --------------------------------------------------------------------------------------

static void enter(talc_forward_recorder *recorder, const talc_module *module)
{
    explanation *self = ((struct recorder *)recorder)->self;
    if (self->depth < DEPTH)
        self->levels[self->depth] = (level){ { (talc_module *)module }, 1 };
    self->depth++;
}

static void leave(talc_forward_recorder *recorder, const talc_module *module, const talc_tensor *x,
                  const talc_tensor *y)
{
    (void)module;
    (void)x;
    (void)y;
    ((struct recorder *)recorder)->self->depth--;
}

static void group(talc_forward_recorder *recorder, talc_module *const modules[], int count,
                  talc_group_phase phase)
{
    explanation *self = ((struct recorder *)recorder)->self;
    self->folding = phase == TALC_GROUP_FOLDS;
    if (phase == TALC_GROUP_ENDS)
        self->depth--;
    if (phase != TALC_GROUP_FOLDS)
        return;
    if (self->depth < DEPTH) {
        level *here = &self->levels[self->depth];
        here->count = count < 4 ? count : 4;
        memcpy(here->modules, modules, (size_t)here->count * sizeof(talc_module *));
    }
    self->depth++;
}

// ---- Texts --------------------------------------------------------------------------------------------------

static void append(char text[TEXT], const char *more)
{
    const size_t length = strlen(text);
    snprintf(text + length, TEXT - length, "%s", more);
}

static const char *name_in_parent(const talc_module *module)
{
    const talc_module *parent = module->entries->parent;
    for (int i = 0; parent != NULL && i < parent->entries->count; i++)
        if (parent->entries->list[i].child == module)
            return parent->entries->list[i].name;
    return "?";
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

static void describe(line *to, const explanation *self, const talc_observation *observation)
{
    const int depth = self->depth < DEPTH ? self->depth : DEPTH;
    const level *here = &self->levels[depth - 1];
    char *does = to->cells[DOES];
    append_path(to->cells[LAYERS], self->root, here->modules[0]);
    if (*to->cells[LAYERS] == '\0')
        append(to->cells[LAYERS], "(model)");
    append(does, here->modules[0]->kind->name);
    for (int i = 1; i < here->count; i++) {
        append(to->cells[LAYERS], "+");
        append(to->cells[LAYERS], name_in_parent(here->modules[i]));
        if (strcmp(here->modules[i]->kind->name, "BatchNorm2d") == 0)
            append(does, " + BatchNorm2d (folded)");
    }
    if (strcmp(observation->op, "conv2d") == 0) {
        const talc_conv2d_problem *p = observation->problem;
        append_end(does, p->residual, p->activation);
    } else if (strcmp(observation->op, "linear") == 0) {
        const talc_matmul_problem *p = observation->problem;
        append_end(does, p->residual, p->activation);
    } else if (strcmp(observation->op, "batch_norm2d") == 0) {
        append_end(does, false,
                   ((const talc_batch_norm2d_problem *)observation->problem)->activation);
    }
}

static line *new_line(explanation *self)
{
    if (self->count == self->room) {
        const int room = self->room == 0 ? 32 : 2 * self->room;
        line *lines = talc_memory_new((size_t)room * sizeof *lines, "module_explain");
        if (lines == NULL)
            return NULL;
        if (self->count > 0)
            memcpy(lines, self->lines, (size_t)self->count * sizeof *lines);
        talc_memory_free(self->lines);
        self->lines = lines;
        self->room = room;
    }
    return &self->lines[self->count++];
}

static void observe(talc_observer *observer, const talc_observation *observation)
{
    explanation *self = ((struct observer *)observer)->self;
    line *to = self->folding || self->depth == 0 ? NULL : new_line(self);
    if (to == NULL)
        return;
    char shape[TALC_DIMS_TEXT];
    *to = (line){ 0 };
    describe(to, self, observation);
    append(to->cells[OP], observation->op);
    append(to->cells[OUTPUT], talc_dims_text(talc_dims_of(observation->output), shape));
    snprintf(to->algorithm, sizeof to->algorithm, "%s",
             observation->row == NULL ? "" : observation->row->name);
}

// ---- The pass and the table ---------------------------------------------------------------------------------

static bool run_forward(explanation *self, talc_module *module, talc_tensor *x)
{
    talc_scope *scope = talc_scope_enter();
    bool *modes = scope == NULL
                      ? NULL
                      : talc_memory_new((size_t)talc_module_tree_count(module) * sizeof *modes,
                                        "module_explain");
    bool ran = false;
    if (modes != NULL) {
        talc_module_swap_modes(module, modes); /* all false: evaluation mode */
        talc_forward_recorder *recorder = talc_forward_record(&self->recorder.base);
        talc_observer *observer = talc_observe(&self->observer.base);
        ran = talc_forward(module, x) != NULL;
        talc_observe(observer);
        talc_forward_record(recorder);
        talc_module_swap_modes(module, modes);
    }
    talc_memory_free(modes);
    talc_scope_leave(scope);
    return ran && !talc_failed();
}

static void print_line(FILE *file, const int widths[COLUMNS], const char *const cells[COLUMNS],
                       const char *algorithm)
{
    for (int i = 0; i < COLUMNS; i++)
        fprintf(file, "%-*s  ", widths[i], cells[i]);
    fprintf(file, "%s\n", algorithm);
}

static void print_table(FILE *file, const explanation *self)
{
    static const char *const titles[COLUMNS] = { "layers", "what they do", "op", "output" };
    int widths[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        widths[i] = (int)strlen(titles[i]);
        for (int j = 0; j < self->count; j++)
            if ((int)strlen(self->lines[j].cells[i]) > widths[i])
                widths[i] = (int)strlen(self->lines[j].cells[i]);
    }
    print_line(file, widths, titles, "algorithm");
    for (int j = 0; j < self->count; j++) {
        const line *of = &self->lines[j];
        print_line(file, widths,
                   (const char *const[]){ of->cells[LAYERS], of->cells[DOES], of->cells[OP],
                                          of->cells[OUTPUT] },
                   of->algorithm);
    }
}

bool talc_module_explain(FILE *file, talc_module *module, talc_tensor *x)
{
    if (talc_operand_missing("module_explain", "file", file) ||
        talc_operand_missing("module_explain", "module", module) ||
        talc_operand_missing("module_explain", "x", x))
        return false;
    explanation self = { .root = module };
    self.recorder = (struct recorder){ { .group = group, .enter = enter, .record = leave }, &self };
    self.observer = (struct observer){ { .observe = observe }, &self };
    const bool ran = run_forward(&self, module, x);
    if (ran)
        print_table(file, &self);
    talc_memory_free(self.lines);
    if (ran && ferror(file) != 0)
        talc_fail(TALC_IO_ERROR, "module_explain: the table could not be written");
    return ran && !talc_failed();
}
