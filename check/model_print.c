#include "check/model.h"

#include "check/data.h"
#include "check/text.h"
#include "tensor/fenv.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NUMBER_TEXT = 24, COLUMNS = 8 };

static const char *share_text(double share, char text[NUMBER_TEXT])
{
    if (isnan(share))
        snprintf(text, NUMBER_TEXT, "-");
    else if (isinf(share))
        snprintf(text, NUMBER_TEXT, "inf");
    else
        snprintf(text, NUMBER_TEXT, share < 999.9995 ? "%.3f" : "%.3g", share);
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

static void print_row(FILE *file, const int widths[4], const char *const cells[COLUMNS + 1])
{
    for (int i = 0; i < 4; i++)
        fprintf(file, "%-*s  ", widths[i], cells[i]);
    fprintf(file, "%9s  %9s  %11s  %10s  %s\n", cells[4], cells[5], cells[6], cells[7], cells[8]);
}

static void print_first(FILE *file, const talc_check_model_layer *layer)
{
    const bool own = layer->own > 1 && !(layer->step > layer->own);
    char index[TALC_DIMS_TEXT], share[NUMBER_TEXT], path[TALC_SHOWN_TEXT];
    fprintf(file, "first wrong: %s %s%s%s: element %s is %.9g instead of %.9g, ",
            path_text(layer, path), layer->op, *layer->algorithm == '\0' ? "" : " by ",
            layer->algorithm, talc_dims_text(layer->where, index), talc_check_shown(layer->got),
            talc_check_shown(layer->due));
    if (own || layer->own > 1)
        fprintf(file, "%s of its bound\n", share_text(layer->own, share));
    else
        fprintf(file, "the reference's: unexplained %.3g, allowed %.3g; %s\n", layer->unexplained,
                layer->allowed,
                layer->own <= 1 ? "its own op is right" : "nothing else is known of it");
}

/* The names of the file that the model lacks, the first of them. */
static void print_skipped(FILE *file, const talc_check_model_report *report)
{
    enum { NAMED = 3 };
    const int count = talc_check_model_skipped(report);
    if (count == 0)
        return;
    fprintf(file, "skipped: %d tensor%s of the file that no module gave: ", count,
            count == 1 ? "" : "s");
    for (int i = 0; i < count && i < NAMED; i++)
        fprintf(file, "%s%s", i == 0 ? "" : ", ",
                TALC_SHOWN(talc_check_model_skipped_name(report, i)));
    fprintf(file, "%s\n", count > NAMED ? ", ..." : "");
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
    const int count = talc_check_model_count(report);
    int widths[4] = { 7, 2, 9, 6 }; /* of "(model)", "op", "algorithm", "output" */
    char dims[TALC_DIMS_TEXT], own[NUMBER_TEXT], step[NUMBER_TEXT], accumulated[NUMBER_TEXT],
        difference[NUMBER_TEXT], path[TALC_SHOWN_TEXT];
    for (int i = 0; i < count; i++) {
        const talc_check_model_layer *layer = talc_check_model_at(report, i);
        widths[0] = talc_check_longer(widths[0], path_text(layer, path));
        widths[1] = talc_check_longer(widths[1], layer->op);
        widths[2] = talc_check_longer(widths[2], layer->algorithm);
        widths[3] = talc_check_longer(widths[3], talc_dims_text(layer->dims, dims));
    }
    print_row(file, widths,
              (const char *const[]){ "layer", "op", "algorithm", "output", "own", "step",
                                     "accumulated", "difference", "verdict" });
    for (int i = 0; i < count; i++) {
        const talc_check_model_layer *layer = talc_check_model_at(report, i);
        print_row(file, widths,
                  (const char *const[]){
                      path_text(layer, path), layer->op, layer->algorithm,
                      talc_dims_text(layer->dims, dims), share_text(layer->own, own),
                      share_text(layer->step, step), share_text(layer->accumulated, accumulated),
                      difference_text(layer->difference, difference), verdict_text(layer) });
    }
    print_skipped(file, report);
    const int wrong = talc_check_model_first_wrong(report);
    if (wrong >= 0)
        print_first(file, talc_check_model_at(report, wrong));
    fprintf(file, "%s\n",
            talc_check_model_passed(report) ? "passed"
            : wrong >= 0                    ? "failed"
            : any_compared(report) ? "failed: the last layer's output has no finite element"
                                   : "failed: nothing was compared");
}
