#include "check/model.h"

#include "check/engine/data.h"
#include "check/engine/text.h"
#include "tensor/fenv.h"
#include "tensor/shown.h"
#include "tensor/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NUMBER_TEXT = 24 };

static const char *share_text(double share, char text[NUMBER_TEXT])
{
    if (isnan(share))
        snprintf(text, NUMBER_TEXT, "-");
    else if (isinf(share))
        snprintf(text, NUMBER_TEXT, "inf");
    else
        snprintf(text, NUMBER_TEXT, share < 999.9995 ? "%.3f" : "%.0e", share);
    return text;
}

static const char *difference_text(double difference, char text[NUMBER_TEXT])
{
    if (isnan(difference))
        snprintf(text, NUMBER_TEXT, "-");
    else
        snprintf(text, NUMBER_TEXT, difference == 0 ? "0" : "%.2e", difference);
    return text;
}

static const char *path_text(const talc_check_model_layer *layer, char text[TALC_SHOWN_TEXT])
{
    return *layer->path == '\0' ? "(model)"
                                : talc_shown(layer->path, SIZE_MAX, text, TALC_SHOWN_TEXT);
}

/* Wrong itself, or only reached by the error of a layer before it. */
static const char *verdict_text(const talc_check_model_layer *layer)
{
    if (layer->passed)
        return layer->step >= 0 ? "ok" : layer->own >= 0 ? "own ok" : "-";
    return layer->own > 1 || layer->step > 1 ? "WRONG" : "after it";
}

enum { LAYER, OP, ALGORITHM, OUTPUT, OWN, STEP, ACCUMULATED, DIFFERENCE, VERDICT, COLUMNS };

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const talc_check_model_layer *layer = talc_check_model_at(context, (int)row);
    switch (column) {
    case LAYER:
        return path_text(layer, text);
    case OP:
        return layer->op;
    case ALGORITHM:
        return layer->algorithm;
    case OUTPUT:
        return talc_dims_text(layer->dims, text);
    case OWN:
        return share_text(layer->own, text);
    case STEP:
        return share_text(layer->step, text);
    case ACCUMULATED:
        return share_text(layer->accumulated, text);
    case DIFFERENCE:
        return difference_text(layer->difference, text);
    default:
        return verdict_text(layer);
    }
}

static void print_table(FILE *file, const talc_check_model_report *report)
{
    static const talc_column columns[COLUMNS] = {
        { "layer", TALC_COLUMN_NAME },     { "op", TALC_COLUMN_NAME },
        { "algorithm", TALC_COLUMN_NAME }, { "output", TALC_COLUMN_WHOLE },
        { "own", TALC_COLUMN_NUMBER },     { "step", TALC_COLUMN_NUMBER },
        { "accum.", TALC_COLUMN_NUMBER },  { "differs", TALC_COLUMN_NUMBER },
        { "verdict", TALC_COLUMN_WHOLE },
    };
    talc_table_print(file, &(talc_table){ .count = COLUMNS,
                                          .columns = columns,
                                          .rows = talc_check_model_count(report),
                                          .names_above = true,
                                          .cell = cell,
                                          .context = report });
}

static void print_first(FILE *file, const talc_check_model_layer *layer)
{
    const bool own = layer->own > 1 && !(layer->step > layer->own);
    char index[TALC_DIMS_TEXT], share[NUMBER_TEXT], path[TALC_SHOWN_TEXT], verdict[128];
    if (own || layer->own > 1)
        snprintf(verdict, sizeof verdict, "%s of its bound", share_text(layer->own, share));
    else
        snprintf(verdict, sizeof verdict, "the reference's: unexplained %.3g, allowed %.3g; %s",
                 layer->unexplained, layer->allowed,
                 layer->own <= 1 ? "its own op is right" : "nothing else is known of it");
    talc_print_wrapped(file, 2, "first wrong: %s %s%s%s: element %s is %.9g instead of %.9g, %s",
                       path_text(layer, path), layer->op, *layer->algorithm == '\0' ? "" : " by ",
                       layer->algorithm, talc_dims_text(layer->where, index),
                       talc_check_shown(layer->got), talc_check_shown(layer->expected), verdict);
}

/* Names in a line: the first of them, and whether there are more. */
typedef struct naming {
    int count;
    char text[3 * (TALC_SHOWN_TEXT + 40)];
} naming;

static void add_name(naming *self, const char *name, const char *op)
{
    enum { NAMED = 3 };
    const size_t used = strlen(self->text);
    if (self->count++ < NAMED)
        snprintf(self->text + used, sizeof self->text - used, "%s%s%s%s", used == 0 ? "" : ", ",
                 name, *op == '\0' ? "" : " ", op);
    else if (self->count == NAMED + 1)
        snprintf(self->text + used, sizeof self->text - used, ", ...");
}

/* Whether the module of a saved tensor stands beside that of a layer, or in it. */
static bool is_beside(const char *saved, const char *path)
{
    const char *last = strrchr(saved, '.');
    const char *dot = strrchr(path, '.');
    const size_t parent = last == NULL ? 0 : (size_t)(last - saved);
    return strncmp(saved, path, parent) == 0 &&
           (path[parent] == '\0' || (dot == NULL ? parent == 0 : dot == path + parent));
}

/* An error of the reference may be one of an earlier layer for which nothing was saved under a name
 * that the model has. */
static void print_not_compared(FILE *file, const talc_check_model_report *report, int wrong)
{
    naming layers = { 0 }, saved = { 0 };
    char path[TALC_SHOWN_TEXT];
    int from = wrong;
    while (from > 0 && !(talc_check_model_at(report, from - 1)->step >= 0))
        from--;
    for (int i = from; i < wrong; i++) {
        const talc_check_model_layer *layer = talc_check_model_at(report, i);
        add_name(&layers, path_text(layer, path), layer->op);
    }
    for (int k = 0; k < talc_check_model_skipped(report); k++) {
        const char *name = talc_check_model_skipped_name(report, k);
        bool beside = false;
        for (int i = from; i < wrong && !beside; i++)
            beside = is_beside(name, talc_check_model_at(report, i)->path);
        if (beside)
            add_name(&saved, TALC_SHOWN(name), "");
    }
    if (layers.count > 0)
        talc_print_wrapped(file, 2, "not compared before it: %s%s%s", layers.text,
                           saved.count == 0 ? "" : "; skipped beside: ", saved.text);
}

/* The names of the file that the model lacks, the first of them. */
static void print_skipped(FILE *file, const talc_check_model_report *report)
{
    const int count = talc_check_model_skipped(report);
    naming names = { 0 };
    for (int i = 0; i < count; i++)
        add_name(&names, TALC_SHOWN(talc_check_model_skipped_name(report, i)), "");
    if (count > 0)
        talc_print_wrapped(file, 2, "skipped: %d tensor%s of the file that no module gave: %s",
                           count, TALC_PLURAL(count), names.text);
}

static bool any_compared(const talc_check_model_report *report)
{
    for (int i = 0; i < talc_check_model_count(report); i++)
        if (talc_check_model_at(report, i)->step >= 0)
            return true;
    return false;
}

void talc_check_model_print(FILE *file, const talc_check_model_report *report)
{
    TALC_DEFAULT_FENV;
    if (file == NULL)
        return;
    print_table(file, report);
    print_skipped(file, report);
    const int wrong = talc_check_model_first_wrong(report);
    if (wrong >= 0) {
        const talc_check_model_layer *first = talc_check_model_at(report, wrong);
        print_first(file, first);
        if (!(first->own > 1))
            print_not_compared(file, report, wrong);
    }
    fprintf(file, "%s\n",
            talc_check_model_passed(report) ? "passed"
            : wrong >= 0                    ? "failed"
            : any_compared(report) ? "failed: the last layer's output has no finite element"
                                   : "failed: nothing was compared");
}
