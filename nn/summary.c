#include "nn/entries.h"
#include "nn/layer.h"
#include "nn/module.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/table.h"

#include <string.h>

typedef struct summarising {
    talc_forward_hooks hooks; /* first, so that the two pointers are one */
    talc_module_layers *of;
} summarising;

// ---- Rows ---------------------------------------------------------------------------------------

/* "layer1" and "0" give "layer1.0". */
static char *join(const char *path, const char *name)
{
    size_t length = strlen(path);
    size_t bytes = length + strlen(name) + 2;
    char *joined = talc_memory_new(bytes, "summary");
    if (joined != NULL)
        snprintf(joined, bytes, "%s%s%s", path, length > 0 ? "." : "", name);
    return joined;
}

/* Adds the rows of a tree and takes over `path`. */
static bool add_rows(talc_module_layers *all, talc_module *module, char *path)
{
    if (path == NULL)
        return false;
    module->entries->row = all->count;
    talc_module_layer *row = &all->list[all->count++];
    row->module = module;
    row->path = path;
    for (int i = 0; i < module->entries->count; i++) {
        const talc_module_entry *entry = &module->entries->list[i];
        if (entry->kind == TALC_ENTRY_PARAMETER &&
            talc_module_entry_first(all->list->module, entry->tensor) == entry)
            row->parameters += (double)talc_numel(entry->tensor);
        else if (entry->kind == TALC_ENTRY_CHILD &&
                 !add_rows(all, entry->child, join(path, entry->name)))
            return false;
    }
    all->parameters += row->parameters;
    return true;
}

/* NULL for a module of another tree. */
static talc_module_layer *row_of(const talc_module_layers *all, const talc_module *module)
{
    const int row = module->entries->row;
    return row < all->count && all->list[row].module == module ? &all->list[row] : NULL;
}

static void record_call(talc_forward_hooks *hooks, const talc_module *module, const talc_tensor *x,
                        const talc_tensor *y)
{
    talc_module_layers *all = ((summarising *)hooks)->of;
    talc_module_layer *row = row_of(all, module);
    if (row != NULL)
        row->failed = y == NULL;
    if (row == NULL || y == NULL)
        return;
    row->calls++;
    row->output = talc_dims_of(y);
    row->bytes += (double)talc_nbytes(y);
    if (talc_module_tree_count(module) == 1)
        all->activations += (double)talc_nbytes(y);
    const double macs =
        module->kind->macs == NULL ? 0 : module->kind->macs(module, talc_dims_of(x), row->output);
    row->macs += macs;
    all->macs += macs;
}

static void record_group(talc_forward_hooks *hooks, talc_module *const modules[], int count,
                         talc_group_phase phase)
{
    const talc_module_layers *all = ((summarising *)hooks)->of;
    const talc_module_layer *first = row_of(all, modules[0]);
    (void)phase;
    for (int i = 1; i < count && first != NULL; i++) {
        talc_module_layer *row = row_of(all, modules[i]);
        const char *dot = strrchr(first->path, '.');
        if (row != NULL)
            row->into = dot == NULL ? first->path : dot + 1;
    }
}

/* Fills in the rows by one forward pass, layer by layer, and in evaluation mode so that it changes
 * no running statistics. */
static bool run_forward(talc_module_layers *all, talc_module *module, talc_tensor *x)
{
    summarising self = { { .apart = true, .group = record_group, .leave = record_call }, all };
    talc_scope *scope = talc_scope_enter();
    bool *modes = scope == NULL ? NULL : talc_module_evaluate("module_summary", module);
    bool ran = false;
    if (modes != NULL) {
        talc_forward_hooks *before = talc_forward_hook(&self.hooks);
        ran = talc_forward(module, x) != NULL;
        talc_forward_hook(before);
        talc_module_restore_modes(module, modes);
    }
    talc_scope_leave(scope);
    return ran;
}

/* Leaves the layers that a pass which failed has come to. */
static void keep_reached(talc_module_layers *all)
{
    int kept = 0;
    for (int i = 0; i < all->count; i++) {
        const talc_module_layer row = all->list[i];
        if (row.calls > 0 || row.failed)
            all->list[kept++] = row;
        else
            talc_memory_free(row.path);
    }
    all->count = kept;
}

bool talc_module_layers_of(talc_module *module, talc_tensor *x, talc_module_layers *layers)
{
    if (layers != NULL)
        *layers = (talc_module_layers){ 0 };
    if (talc_operand_missing("module_summary", "module", module) ||
        talc_operand_missing("module_summary", "x", x) ||
        talc_operand_missing("module_summary", "layers", layers))
        return false;
    const size_t count = (size_t)talc_module_tree_count(module);
    layers->list = talc_memory_new(count * sizeof *layers->list, "summary");
    if (layers->list == NULL || !add_rows(layers, module, talc_memory_string(""))) {
        talc_module_layers_free(layers);
        return false;
    }
    if (run_forward(layers, module, x))
        return true;
    keep_reached(layers);
    return false;
}

void talc_module_layers_free(talc_module_layers *layers)
{
    if (layers == NULL)
        return;
    for (int i = 0; i < layers->count; i++)
        talc_memory_free(layers->list[i].path);
    talc_memory_free(layers->list);
    *layers = (talc_module_layers){ 0 };
}

// ---- The table ----------------------------------------------------------------------------------

/* A count with its thousands apart: "272,474". */
static const char *number_text(double number, char text[TALC_CELL_TEXT])
{
    char digits[40];
    int count = snprintf(digits, sizeof digits, "%.0f", number);
    if (count > 27) {
        snprintf(text, TALC_CELL_TEXT, "%.3e", number);
        return text;
    }
    char *end = text;
    for (int i = 0; i < count; i++) {
        *end++ = digits[i];
        if (count - i > 1 && (count - i) % 3 == 1)
            *end++ = ',';
    }
    *end = '\0';
    return text;
}

/* "3x3 s1x1 p1x1", "(in conv1)", or both. */
static const char *options_text(const talc_module_layer *row, char text[TALC_CELL_TEXT])
{
    const talc_module *module = row->module;
    if (!talc_conv2d_window_text(module, text) &&
        !talc_conv_transpose2d_window_text(module, text) && !talc_pool2d_window_text(module, text))
        text[0] = '\0';
    const size_t used = strlen(text);
    if (row->into != NULL)
        snprintf(text + used, TALC_CELL_TEXT - used, "%s(in %s)", used > 0 ? " " : "",
                 TALC_SHOWN(row->into));
    return text;
}

enum { LAYER, TYPE, OPTIONS, OUTPUT, PARAMETERS, MACS, COLUMNS };

static const char *total_cell(const talc_module_layers *all, int column, char text[TALC_CELL_TEXT])
{
    return column == LAYER        ? "total"
           : column == PARAMETERS ? number_text(all->parameters, text)
           : column == MACS       ? talc_count_text(all->macs, "", text)
                                  : "";
}

/* The output, or why there is none; the failure itself is in the last of those that failed, which
 * are within each other. */
static const char *output_text(const talc_module_layers *all, int64_t i, char shape[TALC_CELL_TEXT])
{
    bool within = false;
    for (int64_t k = i + 1; k < all->count; k++)
        within = within || all->list[k].failed;
    if (all->list[i].failed)
        return within ? "-" : "failed";
    return all->list[i].calls == 0 ? "not called" : talc_dims_text(all->list[i].output, shape);
}

static const char *cell(const void *context, int64_t index, int column, char text[TALC_CELL_TEXT])
{
    const talc_module_layers *all = context;
    if (index == all->count)
        return total_cell(all, column, text);
    const talc_module_layer *row = &all->list[index];
    switch (column) {
    case LAYER:
        return *row->path == '\0' ? "(model)"
                                  : talc_shown(row->path, SIZE_MAX, text, TALC_SHOWN_TEXT);
    case TYPE:
        return talc_shown(row->module->kind->name, SIZE_MAX, text, TALC_SHOWN_TEXT);
    case OPTIONS:
        return options_text(row, text);
    case OUTPUT:
        return output_text(all, index, text);
    case PARAMETERS:
        return number_text(row->parameters, text);
    default:
        return talc_count_text(row->macs, "", text);
    }
}

static void print_table(FILE *file, const talc_module_layers *all)
{
    static const talc_column columns[COLUMNS] = {
        { "layer", TALC_COLUMN_NAME },        { "type", TALC_COLUMN_NAME },
        { "options", TALC_COLUMN_WHOLE },     { "output shape", TALC_COLUMN_WHOLE },
        { "parameters", TALC_COLUMN_NUMBER }, { "MACs", TALC_COLUMN_NUMBER },
    };
    /* A pass that failed has no total. */
    talc_table_print(file, &(talc_table){ .count = COLUMNS,
                                          .columns = columns,
                                          .rows = all->count + !talc_failed(),
                                          .cell = cell,
                                          .context = all });
}

bool talc_module_summary(FILE *file, talc_module *module, talc_tensor *x)
{
    talc_module_layers layers;
    if (talc_operand_missing("module_summary", "file", file))
        return false;
    if (talc_module_layers_of(module, x, &layers) || layers.count > 0)
        print_table(file, &layers);
    talc_module_layers_free(&layers);
    if (ferror(file) != 0)
        talc_fail(TALC_IO_ERROR, "module_summary: the table could not be written");
    return !talc_failed();
}
