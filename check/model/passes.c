#include "check/model/report.h"
#include "ops/batch_norm2d.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/shown.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- The reference run --------------------------------------------------------------------------

void talc_check_record_op(check_walk *walk, const char *path, const talc_observation *observation)
{
    check_recording *self = (check_recording *)walk;
    check_reference *list = talc_memory_grown(self->list, (size_t)self->count, &self->tolerance,
                                              sizeof *list, "check_model");
    if (list == NULL)
        return;
    self->list = list;
    check_array y;
    double accumulated = 0;
    if (!talc_check_array_of(NULL, observation->output, &y, &accumulated)) {
        talc_check_array_free(&y);
        return;
    }
    check_reference *reference = &list[self->count++];
    *reference = (check_reference){ .dims = y.dims, .elements = y.of };
    snprintf(reference->path, sizeof reference->path, "%s", path);
    snprintf(reference->op, sizeof reference->op, "%s", observation->op);
    reference->arithmetic = observation->algorithm == NULL
                                ? (talc_arithmetic){ "copy", TALC_STRICT, false }
                                : observation->algorithm->arithmetic;
}

void talc_check_recording_free(check_recording *recording)
{
    for (int i = 0; i < recording->count; i++)
        talc_memory_free(recording->list[i].elements);
    talc_memory_free(recording->list);
}

/* The recorded op that this one repeats; NULL with a failure when it is another. */
static const check_reference *recorded(check_comparison *self, const char *path,
                                       const talc_observation *observation)
{
    char here[TALC_DIMS_TEXT], there[TALC_DIMS_TEXT];
    const talc_dims dims = talc_dims_of(observation->output);
    talc_dims_text(dims, here);
    if (self->next == self->recording->count) {
        talc_fail(TALC_BAD_SHAPE,
                  "check_model: op %d is %s %s in '%s', the reference ran %d ops only", self->next,
                  observation->op, here, TALC_SHOWN(path), self->next);
        return NULL;
    }
    const check_reference *reference = &self->recording->list[self->next];
    if (strcmp(reference->op, observation->op) != 0 || strcmp(reference->path, path) != 0 ||
        !talc_shape_equal(reference->dims, dims)) {
        talc_fail(TALC_BAD_SHAPE,
                  "check_model: op %d is %s %s in '%s', the reference ran %s %s in '%s'",
                  self->next, observation->op, here, TALC_SHOWN(path), reference->op,
                  talc_dims_text(reference->dims, there), TALC_SHOWN(reference->path));
        return NULL;
    }
    self->next++;
    return reference;
}

// ---- The run that is checked --------------------------------------------------------------------

void talc_check_comparison_free(check_comparison *comparison)
{
    talc_check_open_free(&comparison->open);
    talc_check_trace_free(&comparison->trace);
}

/* A new line of the report, nothing compared; NULL with a failure. */
static talc_check_model_layer *add_layer(talc_check_model_report *report, const char *path,
                                         const char *op, const char *algorithm, talc_dims dims)
{
    talc_check_model_layer *layers = talc_memory_grown(
        report->layers, (size_t)report->count, &report->tolerance, sizeof *layers, "check_model");
    if (layers == NULL)
        return NULL;
    report->layers = layers;
    talc_check_model_layer *layer = &layers[report->count++];
    *layer = (talc_check_model_layer){ .dims = dims,
                                       .own = NAN,
                                       .step = NAN,
                                       .accumulated = NAN,
                                       .difference = NAN,
                                       .unexplained = NAN,
                                       .allowed = NAN,
                                       .where = { .rank = dims.rank } };
    snprintf(layer->path, sizeof layer->path, "%s", path);
    snprintf(layer->op, sizeof layer->op, "%s", op);
    snprintf(layer->algorithm, sizeof layer->algorithm, "%s", algorithm);
    return layer;
}

/* The op's operands on the host; *before becomes the worst step on the way to its inputs. */
static bool ran_of(const check_trace *trace, const talc_observation *observation, check_ran *ran,
                   double *before)
{
    *ran = (check_ran){ .op = observation->op,
                        .algorithm = observation->algorithm,
                        .problem = observation->problem,
                        .count = observation->count };
    ran->inputs = talc_memory_new((size_t)ran->count * sizeof *ran->inputs + 1, "check_model");
    if (ran->inputs == NULL)
        return false;
    *before = 0;
    for (int i = 0; i < ran->count; i++)
        if (!talc_check_array_of(trace, observation->inputs[i], &ran->inputs[i], before))
            return false;
    double output = 0;
    return talc_check_array_of(NULL, observation->output, &ran->output, &output);
}

static void ran_free(check_ran *ran)
{
    for (int i = 0; ran->inputs != NULL && i < ran->count; i++)
        talc_check_array_free(&ran->inputs[i]);
    talc_memory_free(ran->inputs);
    talc_check_array_free(&ran->output);
}

/* Notes how far the last op's output may be off: what was measured, or else the bound. */
static bool note(check_comparison *self, talc_tensor *y, double accumulated)
{
    const check_open *open = &self->open;
    double *off = talc_memory_new((size_t)open->count * sizeof *off + 1, "check_model");
    if (off == NULL)
        return false;
    for (int64_t i = 0; i < open->count; i++) {
        off[i] = open->spread[i] + open->tolerance[i];
        off[i] = isnan(off[i]) ? INFINITY : off[i];
    }
    const bool noted = talc_check_trace_write(&self->trace, y, off, accumulated);
    talc_memory_free(off);
    return noted;
}

static bool verdict_of(check_comparison *self, const check_ran *ran,
                       const check_reference *reference, const char *path, talc_tensor *y)
{
    char title[TALC_ALGORITHM_TEXT];
    talc_check_model_layer *layer = add_layer(
        self->report, path, ran->op,
        ran->algorithm == NULL ? "" : talc_algorithm_text(ran->algorithm, title), ran->output.dims);
    talc_check_open_free(&self->open);
    self->opened = (talc_tensor){ 0 };
    if (layer == NULL ||
        !talc_check_verdict_of_layer(ran, reference == NULL ? NULL : &reference->arithmetic, layer,
                                     &self->open))
        return false;
    /* With saved activations the comparison follows when the module ends, if this is its output. */
    if (reference != NULL)
        talc_check_verdict_of_step(&self->open, reference->elements, self->before, layer);
    else
        self->opened = *y;
    talc_check_verdict_at_end(layer);
    return note(self, y, reference != NULL ? layer->accumulated : self->before);
}

/* Training moves the running statistics, by how much is not worked out: from here on they may be
 * anything. */
static bool record_statistics(check_comparison *self, const talc_observation *observation)
{
    const talc_batch_norm2d_problem *problem = observation->problem;
    if (strcmp(observation->op, "batch_norm2d") != 0 || !problem->training)
        return true;
    bool noted = true;
    for (int i = 3; i < 5 && noted; i++) {
        if (observation->inputs[i] == NULL)
            continue;
        double *off = talc_memory_new((size_t)problem->C * sizeof *off + 1, "check_model");
        for (int64_t c = 0; off != NULL && c < problem->C; c++)
            off[c] = INFINITY;
        noted = off != NULL &&
                talc_check_trace_write(&self->trace, (talc_tensor *)observation->inputs[i], off, 0);
        talc_memory_free(off);
    }
    return noted;
}

void talc_check_compare_op(check_walk *walk, const char *path, const talc_observation *observation)
{
    check_comparison *self = (check_comparison *)walk;
    const check_reference *reference = NULL;
    if (self->recording != NULL) {
        reference = recorded(self, path, observation);
        if (reference == NULL)
            return;
    }
    check_ran ran;
    if (ran_of(&self->trace, observation, &ran, &self->before) &&
        verdict_of(self, &ran, reference, path, (talc_tensor *)observation->output))
        record_statistics(self, observation);
    ran_free(&ran);
}

// ---- Saved activations --------------------------------------------------------------------------

/* A module's output that no op of its own made: a view, or what a child gave. */
static bool open_view(check_comparison *self, talc_tensor *y)
{
    check_array array;
    self->before = 0;
    bool read = talc_check_array_of(&self->trace, y, &array, &self->before);
    talc_check_open_free(&self->open);
    const size_t bytes = ((size_t)array.count + 1) * sizeof(double);
    if (read && array.off == NULL)
        array.off = talc_memory_new(bytes, "check_model");
    double *tolerance = talc_memory_new(bytes, "check_model");
    if (read && array.off != NULL && tolerance != NULL) {
        self->open = (check_open){ array.count, array.dims, array.of, array.off, tolerance };
        return true;
    }
    talc_memory_free(tolerance);
    talc_check_array_free(&array);
    return false;
}

/* Whether a module's output is that of the last op. */
static bool is_open(const check_comparison *self, const talc_tensor *y)
{
    const talc_tensor *opened = &self->opened;
    return opened->storage == y->storage && opened->data == y->data &&
           talc_shape_equal(talc_dims_of(opened), talc_dims_of(y)) && talc_is_contiguous(y);
}

void talc_check_compare_module(check_walk *walk, const char *path, int call, talc_tensor *y)
{
    check_comparison *self = (check_comparison *)walk;
    if (self->activations == NULL)
        return;
    double *saved;
    if (!talc_check_activations_find(self->activations, walk->root, path, call, talc_dims_of(y),
                                     &saved) ||
        saved == NULL)
        return;
    talc_check_model_layer *layer = NULL;
    if (is_open(self, y))
        layer = &self->report->layers[self->report->count - 1];
    else if (open_view(self, y))
        layer = add_layer(self->report, path, "output", "", talc_dims_of(y));
    if (layer != NULL) {
        talc_check_verdict_of_step(&self->open, saved, self->before, layer);
        talc_check_verdict_at_end(layer);
        note(self, y, layer->accumulated);
    }
    self->opened = (talc_tensor){ 0 };
    talc_memory_free(saved);
}
