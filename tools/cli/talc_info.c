/// talc info: devices, memory, build and algorithms.
#include "tools/cli/core_distance.h"
#include "tools/cli/tool.h"

#include <stdlib.h>
#include <strings.h>

static const tool_syntax syntax = {
    .doc = "Devices with their memory and conv2d algorithms, and what talc was built with.\v"
           "--device shows that one alone.",
};

/* All that is known of a device. The explanation is of a small problem and all precision classes,
 * so that it lists every algorithm. */
typedef struct device_report {
    talc_device_properties properties;
    talc_memory memory;
    talc_conv2d_explanation explanation;
} device_report;

static bool report_device(talc_device *device, device_report *report)
{
    talc_conv2d_problem problem;
    const talc_conv2d_options every_class = { .precision =
                                                  TALC_STRICT | TALC_NORMWISE | TALC_TF32 };
    device->interface->properties(device, &report->properties);
    report->memory = talc_device_memory(device);
    return talc_conv2d_problem_parse("n1c8h16w16o8k3x3", &problem) &&
           talc_conv2d_explain(device, &problem, &every_class, &report->explanation);
}

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const talc_candidate *c = &((const talc_explanation *)context)->candidates[row];
    (void)text;
    return column == 0   ? c->title
           : column == 1 ? talc_precision_name(c->arithmetic.precision)
                         : c->arithmetic.text;
}

static void print_device(const talc_device *device, const device_report *r)
{
    static const talc_column columns[] = { { "", TALC_COLUMN_NAME },
                                           { "", TALC_COLUMN_WHOLE },
                                           { "", TALC_COLUMN_TEXT } };
    char live[TOOL_TEXT], peak[TOOL_TEXT], reserved[TOOL_TEXT], libraries[TOOL_TEXT],
        free_text[TOOL_TEXT], total[TOOL_TEXT], limit[TOOL_TEXT];
    talc_print_wrapped(stdout, 2, "%s%s%s: %s, %d %s%s", tool_bold(), talc_device_name(device),
                       tool_plain(), r->properties.description, r->properties.units,
                       talc_device_is_host(device) ? "thread" : "multiprocessor",
                       TALC_PLURAL(r->properties.units));
    talc_print_wrapped(
        stdout, 13,
        "  memory     %s free of %s; talc holds %s, at most %s, %s with its cache, %s for "
        "libraries",
        talc_bytes_text((double)r->memory.free, free_text),
        talc_bytes_text((double)r->memory.total, total),
        talc_bytes_text((double)r->memory.live, live),
        talc_bytes_text((double)r->memory.peak, peak),
        talc_bytes_text((double)r->memory.reserved, reserved),
        talc_bytes_text((double)r->memory.libraries, libraries));
    printf("  workspace  at most %s\n",
           talc_bytes_text((double)talc_workspace_limit(device), limit));
    printf("  conv2d     its algorithms\n");
    talc_table_print(stdout, &(talc_table){ .count = 3,
                                            .columns = columns,
                                            .rows = r->explanation.decision.count,
                                            .indent = 4,
                                            .untitled = true,
                                            .cell = cell,
                                            .context = &r->explanation.decision });
}

static json_t *device_json(const talc_device *device, const device_report *r)
{
    json_t *algorithms = json_array();
    for (int i = 0; i < r->explanation.decision.count; i++) {
        const talc_candidate *c = &r->explanation.decision.candidates[i];
        json_array_append_new(algorithms,
                              json_pack("{s:s, s:s?, s:s, s:s}", "name", c->name, "form", c->form,
                                        "arithmetic", c->arithmetic.text, "class",
                                        talc_precision_name(c->arithmetic.precision)));
    }
    json_t *memory =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "live", (json_int_t)r->memory.live, "peak",
                  (json_int_t)r->memory.peak, "reserved", (json_int_t)r->memory.reserved,
                  "libraries", (json_int_t)r->memory.libraries, "free", (json_int_t)r->memory.free,
                  "total", (json_int_t)r->memory.total);
    return json_pack("{s:s, s:s, s:i, s:o, s:I, s:o}", "name", talc_device_name(device),
                     "description", r->properties.description, "units", r->properties.units,
                     "memory", memory, "workspace_limit", (json_int_t)talc_workspace_limit(device),
                     "conv2d", algorithms);
}

/* Prints a device, or appends it to `array`. */
static bool show_device(talc_device *device, bool json, json_t *array)
{
    device_report report;
    if (device == NULL || !report_device(device, &report))
        return false;
    if (!json)
        print_device(device, &report);
    else
        json_array_append_new(array, device_json(device, &report));
    return true;
}

/* Every device that talc finds. That there is no further GPU is no failure; `reason` keeps why. */
static bool show_all(bool json, json_t *array, char reason[256])
{
    if (!show_device(talc_device_get("cpu"), json, array))
        return false;
    for (int i = 0;; i++) {
        char name[24];
        snprintf(name, sizeof name, "cuda:%d", i);
        talc_device *device = talc_device_get(name);
        if (device == NULL) {
            snprintf(reason, 256, "%s", i == 0 ? talc_error_message() : "");
            talc_error_clear();
            return true;
        }
        if (!show_device(device, json, array))
            return false;
    }
}

const char *tool_blas_forced(void)
{
    return getenv("OPENBLAS_CORETYPE") != NULL ? ", forced by OPENBLAS_CORETYPE" : "";
}

static void print_build(const talc_build *build)
{
    printf("%stalc %s%s\n", tool_bold(), build->version, tool_plain());
    talc_print_wrapped(stdout, 13, "  compiler   %s", build->compiler);
    talc_print_wrapped(stdout, 13, "  vectors    %s", build->vectors);
    talc_print_wrapped(stdout, 13, "  BLAS       %s (kernels: %s%s)", build->blas, build->blas_core,
                       tool_blas_forced());
    talc_print_wrapped(stdout, 13,
                       "             multiplies for %d threads at once, 128 MiB of address space "
                       "each",
                       build->blas_buffers);
    if (build->blas_better_core != NULL)
        talc_print_wrapped(stdout, 13,
                           "             runs narrow kernels: with OPENBLAS_CORETYPE=%s in the "
                           "environment they use %s",
                           build->blas_better_core, build->vectors);
    const core_distance cores = core_distance_measure();
    printf("  threads    %d", talc_threads());
    if (cores.most > 0)
        printf("; a cache line to another core and back: %.0f to %.0f ns", cores.least * 1e9,
               cores.most * 1e9);
    printf("\n");
}

int command_info(int argc, char **argv)
{
    tool_options options = { .device = NULL };
    tool_parse(&syntax, argc, argv, &options);
    talc_device *device = tool_open(&options);
    if (device == NULL)
        return tool_fail_talc();
    const talc_build build = talc_build_info();
    const bool json = options.json;
    json_t *array = json ? json_array() : NULL;
    char no_cuda[256] = "";
    if (!json)
        print_build(&build);
    const bool shown =
        options.device != NULL ? show_device(device, json, array) : show_all(json, array, no_cuda);
    if (!shown) {
        json_decref(array);
        return tool_fail_talc();
    }
    const core_distance cores = json ? core_distance_measure() : (core_distance){ 0, 0 };
    if (json)
        return tool_json_print(json_pack(
            "{s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:[ff], s:s, s:o, s:s}", "version",
            build.version, "compiler", build.compiler, "vectors", build.vectors, "blas", build.blas,
            "blas_core", build.blas_core, "blas_forced", tool_blas_forced()[0] != '\0',
            "blas_buffers", build.blas_buffers, "threads", talc_threads(), "core_distance_seconds",
            cores.least, cores.most, "default_device", talc_device_name(talc_device_default()),
            "devices", array, "no_cuda", no_cuda));
    if (no_cuda[0] != '\0')
        talc_print_wrapped(stdout, 2, "no CUDA: %s", no_cuda);
    return tool_finish();
}
