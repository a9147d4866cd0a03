#include "check/model.h"

#include "backends/backends.h"
#include "check/model/report.h"
#include "ops/activation.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const WHO = "check_model";

// ---- The passes ---------------------------------------------------------------------------------

/* Fills the report by a run against the recording or the activations. */
static bool compare(talc_module *model, talc_tensor *x, talc_device *device,
                    const talc_check_model_options *options, const check_recording *recording,
                    check_activations *activations, talc_check_model_report *report)
{
    check_comparison self = { .walk = { .apart = recording == NULL || recording->walk.apart,
                                        .training = options->training,
                                        .op = talc_check_compare_op,
                                        .module = talc_check_compare_module },
                              .recording = recording,
                              .activations = activations,
                              .report = report };
    bool ran = talc_check_walk(WHO, &self.walk, model, x, device, options->algorithm);
    if (ran && recording != NULL && self.next < recording->count) {
        talc_fail(TALC_BAD_SHAPE, "%s: the model ran %d ops, the reference %d", WHO, self.next,
                  recording->count);
        ran = false;
    }
    talc_check_comparison_free(&self);
    return ran;
}

static bool with_activations(talc_module *model, talc_tensor *x, talc_device *device,
                             const talc_check_model_options *options,
                             talc_check_model_report *report)
{
    check_activations activations;
    if (!talc_check_activations_open(options->activations, &activations)) {
        talc_check_activations_close(&activations);
        return false;
    }
    const bool ran = compare(model, x, device, options, NULL, &activations, report) &&
                     talc_check_activations_used(&activations, report);
    talc_check_activations_close(&activations);
    return ran;
}

/* Whether "op=name,..." has such an op, whose algorithm can only be seen where it runs by
 * itself. */
static bool names_activation(const char *algorithms)
{
    bool found = false;
    for (int i = TALC_ACTIVATION_NONE + 1; i < TALC_ACTIVATION_COUNT && !found; i++) {
        const char *name = talc_activation_name((talc_activation)i);
        const char *at = algorithms;
        while (at != NULL && !found) {
            found = strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '=';
            at = strchr(at, ',');
            at = at == NULL ? NULL : at + 1;
        }
    }
    return found;
}

static bool with_reference(talc_module *model, talc_tensor *x, talc_device *device,
                           const talc_check_model_options *options, talc_check_model_report *report)
{
    const bool apart = options->unfused || names_activation(options->algorithm) ||
                       names_activation(options->reference_algorithm);
    check_recording recording = {
        .walk = { .apart = apart, .training = options->training, .op = talc_check_record_op }
    };
    talc_device *reference =
        options->reference != NULL ? options->reference : talc_device_get("cpu");
    const bool ran =
        reference != NULL &&
        talc_check_walk(WHO, &recording.walk, model, x, reference, options->reference_algorithm) &&
        compare(model, x, device, options, &recording, NULL, report);
    talc_check_recording_free(&recording);
    return ran;
}

// ---- The check ----------------------------------------------------------------------------------

static bool check_options(const talc_check_model_options *options)
{
    if (options->activations == NULL)
        return true;
    if (options->reference != NULL || options->reference_algorithm != NULL)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: activations stand in for the reference run, and a reference %s is asked for",
                  WHO, options->reference != NULL ? "device" : "algorithm");
    return !talc_failed();
}

/* NaN in, NaN out, and every layer would be as it must. */
static bool check_input(const talc_tensor *x)
{
    check_array array;
    double accumulated = 0;
    int64_t odd = 0;
    const bool read = talc_check_array_of(NULL, x, &array, &accumulated);
    for (int64_t i = 0; read && i < array.count; i++)
        odd += !isfinite(array.of[i]);
    if (read && odd > array.count / 2)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: x has %" PRId64 " elements that are not finite of %" PRId64, WHO, odd,
                  array.count);
    talc_check_array_free(&array);
    return !talc_failed();
}

/* In a scope of its own, which ends what the passes made. */
static bool run_check(talc_module *model, talc_tensor *x, const talc_check_model_options *options,
                      talc_check_model_report *report)
{
    talc_scope *scope = talc_scope_enter();
    talc_replacement *remembered =
        scope == NULL || !check_input(x) ? NULL : talc_check_remember(model);
    bool checked = false;
    if (remembered != NULL) {
        talc_device *device =
            options->device != NULL ? options->device : talc_check_home(model, remembered, x);
        checked = options->activations != NULL ? with_activations(model, x, device, options, report)
                                               : with_reference(model, x, device, options, report);
    }
    talc_check_restore(model, remembered);
    talc_scope_leave(scope);
    return checked;
}

bool talc_check_model(talc_module *model, talc_tensor *x, const talc_check_model_options *options,
                      talc_check_model_report **report)
{
    TALC_DEFAULT_FENV;
    if (report != NULL)
        *report = NULL;
    const talc_check_model_options defaults = { 0 };
    options = options == NULL ? &defaults : options;
    if (talc_operand_missing(WHO, "model", model) || talc_operand_missing(WHO, "x", x) ||
        talc_operand_missing(WHO, "report", report) || !check_options(options))
        return false;
    talc_check_model_report *made = talc_memory_new(sizeof *made, WHO);
    if (made == NULL)
        return false;
    if (!run_check(model, x, options, made)) {
        talc_check_model_free(made);
        return false;
    }
    *report = made;
    return true;
}

// ---- The report ---------------------------------------------------------------------------------

void talc_check_model_free(talc_check_model_report *report)
{
    if (report != NULL) {
        for (int i = 0; i < report->skipped_count; i++)
            talc_memory_free(report->skipped[i]);
        talc_memory_free(report->skipped);
        talc_memory_free(report->layers);
    }
    talc_memory_free(report);
}

int talc_check_model_skipped(const talc_check_model_report *report)
{
    return report == NULL ? 0 : report->skipped_count;
}

const char *talc_check_model_skipped_name(const talc_check_model_report *report, int index)
{
    return index < 0 || index >= talc_check_model_skipped(report) ? NULL : report->skipped[index];
}

int talc_check_model_count(const talc_check_model_report *report)
{
    return report == NULL ? 0 : report->count;
}

const talc_check_model_layer *talc_check_model_at(const talc_check_model_report *report, int index)
{
    return index < 0 || index >= talc_check_model_count(report) ? NULL : &report->layers[index];
}

int talc_check_model_first_wrong(const talc_check_model_report *report)
{
    for (int i = 0; i < talc_check_model_count(report); i++)
        if (!report->layers[i].passed)
            return i;
    return -1;
}

bool talc_check_model_passed(const talc_check_model_report *report)
{
    const int count = talc_check_model_count(report);
    bool compared = false;
    for (int i = 0; i < count; i++)
        compared = compared || report->layers[i].step >= 0; /* not NAN */
    return compared &&
           (report->layers[count - 1].own >= 0 || report->layers[count - 1].step >= 0) &&
           talc_check_model_first_wrong(report) < 0;
}
