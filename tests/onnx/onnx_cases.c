/// Runs models on inputs whose outputs are known, a folder each:
///
///     onnx_cases DEVICE [norm=E] FOLDER ...
///
/// FOLDER has model.onnx, input_0.npy ..., output_0.npy ...; a line is printed of each: passes, is
/// refused, with the reason, or fails. Each element has to be within 1e-5 + 1e-3 of its size; with
/// norm=E instead an output as a whole within E of its Euclidean norm, of whatever float type it
/// is. Exit status 1 where one fails.
#include "talc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 32 };

static const double relative = 1e-3, absolute = 1e-5;
static double norm; /* 0: element by element */

static talc_tensor *read(const char *folder, const char *kind, int index)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s_%d.npy", folder, kind, index);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fclose(file);
    return talc_npy_load(talc_device_get("cpu"), path);
}

/* What differs; NULL: nothing. */
static const char *difference(const talc_tensor *got, const talc_tensor *expected, char text[256])
{
    char a[TALC_DIMS_TEXT], b[TALC_DIMS_TEXT];
    if (!talc_same_dims(got, expected)) {
        snprintf(text, 256, "shape %s, not %s", talc_dims_text(talc_dims_of(got), a),
                 talc_dims_text(talc_dims_of(expected), b));
        return text;
    }
    if (got->dtype != expected->dtype && norm == 0) {
        snprintf(text, 256, "dtype %s, not %s", talc_dtype_name(got->dtype),
                 talc_dtype_name(expected->dtype));
        return text;
    }
    const int64_t count = talc_numel(expected);
    talc_device *cpu = talc_device_get("cpu");
    const talc_tensor *x = talc_contiguous(talc_to(got, cpu, TALC_F64));
    const talc_tensor *y = talc_contiguous(talc_cast(expected, TALC_F64));
    const double *p = count == 0 ? NULL : talc_data_read(x, TALC_F64);
    const double *q = count == 0 ? NULL : talc_data_read(y, TALC_F64);
    double error = 0, size = 0;
    for (int64_t i = 0; i < count && norm > 0; i++) {
        error += (p[i] - q[i]) * (p[i] - q[i]);
        size += q[i] * q[i];
    }
    if (!(sqrt(error) <= norm * sqrt(size))) {
        snprintf(text, 256, "%.2e of the norm", sqrt(error / size));
        return text;
    }
    for (int64_t i = 0; i < count && norm == 0; i++)
        if (!(fabs(p[i] - q[i]) <= absolute + relative * fabs(q[i])) && p[i] != q[i] &&
            !(isnan(p[i]) && isnan(q[i]))) {
            snprintf(text, 256, "element %lld is %.9g, not %.9g", (long long)i, p[i], q[i]);
            return text;
        }
    return NULL;
}

/* Runs it twice: the second pass goes by the plan of the first. */
static bool run(const char *folder, talc_device *device, talc_module *module, char text[256])
{
    talc_tensor *inputs[VALUES] = { NULL }, *outputs[VALUES] = { NULL };
    const int in = talc_onnx_input_count(module), out = talc_onnx_output_count(module);
    if (in > VALUES || out > VALUES) {
        snprintf(text, 256, "%d inputs, %d outputs", in, out);
        return false;
    }
    for (int i = 0; i < in; i++) {
        talc_tensor *x = read(folder, "input", i);
        inputs[i] = x == NULL ? NULL : talc_to(x, device, x->dtype);
    }
    const char *differs = NULL;
    for (int pass = 0; pass < 2 && differs == NULL && !talc_failed(); pass++) {
        if (!talc_onnx_run(module, inputs, in, outputs, out)) {
            differs = "no failure was raised";
            break;
        }
        for (int i = 0; i < out && differs == NULL; i++) {
            const talc_tensor *expected = read(folder, "output", i);
            differs = expected == NULL ? "no output" : difference(outputs[i], expected, text);
        }
    }
    if (talc_failed() || (differs != NULL && differs != text))
        snprintf(text, 256, "%s", talc_failed() ? talc_error_message() : differs);
    return differs == NULL && !talc_failed();
}

static bool check(const char *folder, talc_device *device)
{
    char path[4096], text[256] = "";
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    const char *slash = strrchr(folder, '/'), *name = slash == NULL ? folder : slash + 1;
    talc_scope *scope = talc_scope_enter();
    talc_module *module = talc_onnx_load(device, path, NULL);
    bool passed = true;
    if (module == NULL) {
        const char *why = strstr(talc_error_message(), "cannot be run: ");
        const bool refused = talc_error_status() == TALC_UNSUPPORTED;
        printf("%s %s: %s\n", refused ? "refused" : "FAILED", name,
               why == NULL ? talc_error_message() : why + strlen("cannot be run: "));
        passed = refused;
    } else {
        passed = run(folder, device, module, text);
        const bool refused = !passed && (talc_error_status() == TALC_UNSUPPORTED ||
                                         talc_error_status() == TALC_BAD_DTYPE);
        printf("%s %s%s%s\n",
               passed    ? "passed"
               : refused ? "refused"
                         : "FAILED",
               name, passed ? "" : ": ", text);
        passed = passed || refused;
    }
    talc_error_clear();
    talc_module_free(module);
    talc_scope_leave(scope);
    return passed;
}

int main(int argc, char **argv)
{
    talc_device *device = argc < 2 ? NULL : talc_device_get(argv[1]);
    bool passed = device != NULL;
    if (!passed)
        fprintf(stderr, "usage: onnx_cases DEVICE [norm=E] FOLDER ...\n");
    for (int i = 2; i < argc && device != NULL; i++)
        if (strncmp(argv[i], "norm=", 5) == 0)
            norm = atof(argv[i] + 5);
        else
            passed = check(argv[i], device) && passed;
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}
