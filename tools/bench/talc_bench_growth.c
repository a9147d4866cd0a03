/// talc bench growth: whether the time of convolutions grows as their work does.
#include "tools/bench/bench.h"
#include "tools/cli/problems.h"
#include "tools/cli/tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_POINTS = 10, DIRECTIONS = 3, KEY_REPEAT = 'r' };

/* A launch on a GPU, and a call on the CPU, that does nothing. */
#define LAUNCH_SECONDS   3e-6
#define CALL_SECONDS     1e-6

/* A point is marked where its time, over the least that the work can take, is so many times that of
 * a neighbour, or of the best point of the sweep. */
#define MAX_OF_NEIGHBOUR 1.5
#define MAX_OF_BEST      2.

typedef struct arguments {
    tool_options tool;
    bench_settings settings;
    const char *base;  ///< a problem's text or name; NULL: one that follows from the device
    const char *sweep; ///< this one alone; NULL: all
    bool depthwise;
} arguments;

typedef struct point {
    int64_t value;
    double seconds[DIRECTIONS], floors[DIRECTIONS]; ///< NAN where it was not timed
    char algorithms[DIRECTIONS][TALC_ALGORITHM_TEXT];
} point;

// ---- What is swept ------------------------------------------------------------------------------

static void set_batch(talc_conv2d_problem *p, int64_t value)
{
    p->N = value;
}

static void set_image(talc_conv2d_problem *p, int64_t value)
{
    p->H = p->W = value;
}

static void set_channels(talc_conv2d_problem *p, int64_t value)
{
    const bool is_depthwise = p->groups == p->C;
    p->groups = is_depthwise ? value : value % p->groups == 0 ? p->groups : 1;
    p->C = p->OC = value;
}

/* An output is as large as x at stride 1, but for even kernels. */
static void set_padding(talc_conv2d_problem *p)
{
    p->pad_top = p->pad_bottom = (p->KH - 1) / 2 * p->dilation_h;
    p->pad_left = p->pad_right = (p->KW - 1) / 2 * p->dilation_w;
}

static void set_kernel(talc_conv2d_problem *p, int64_t value)
{
    p->KH = p->KW = value;
    set_padding(p);
}

static void set_groups(talc_conv2d_problem *p, int64_t value)
{
    p->groups = value;
}

static void set_dilation(talc_conv2d_problem *p, int64_t value)
{
    p->dilation_h = p->dilation_w = value;
    set_padding(p);
}

static void set_stride(talc_conv2d_problem *p, int64_t value)
{
    p->stride_h = p->stride_w = value;
}

typedef struct sweep {
    const char *name;
    void (*set)(talc_conv2d_problem *p, int64_t value); ///< NULL: threads
    int64_t values[MAX_POINTS];                         ///< up to the first 0
} sweep;

static const sweep sweeps[] = {
    { "batch", set_batch, { 1, 2, 4, 8, 16, 32 } },
    { "image", set_image, { 7, 14, 28, 56, 57, 112 } },
    { "channels", set_channels, { 1, 3, 16, 32, 64, 96, 128, 256, 512 } },
    { "kernel", set_kernel, { 1, 2, 3, 4, 5, 7, 9, 13, 21, 31 } },
    { "groups", set_groups, { 1, 2, 4, 8, 16, 32, 64, 128 } },
    { "dilation", set_dilation, { 1, 2, 3, 4 } },
    { "stride", set_stride, { 1, 2, 3, 4, 5 } },
    { "threads", NULL, { 1, 2, 3, 4, 6, 8, 12, 16, 32 } },
};

static bool is_sweep(const char *name)
{
    bool found = false;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        found = found || strcmp(sweeps[i].name, name) == 0;
    return found;
}

// ---- The least time -----------------------------------------------------------------------------

/* Taps of an axis that lie inside the image, of all outputs. */
static double taps_inside(int64_t extent, int64_t O, int64_t K, int64_t stride, int64_t dilation,
                          int64_t pad)
{
    double inside = 0;
    for (int64_t k = 0; k < K; k++)
        for (int64_t o = 0; o < O; o++) {
            const int64_t at = o * stride - pad + k * dilation;
            inside += at >= 0 && at < extent;
        }
    return inside;
}

static double floor_of(const talc_conv2d_problem *p, const bench_rates *rates, bool host,
                       double share)
{
    const double rows = taps_inside(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top);
    const double columns = taps_inside(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left);
    const double flops =
        2 * (double)p->N * (double)p->OC * (double)(p->C / p->groups) * rows * columns;
    return fmax(flops / (rates->flops * share), talc_conv2d_bytes(p) / rates->bytes) +
           (host ? CALL_SECONDS : LAUNCH_SECONDS);
}

// ---- Measuring ----------------------------------------------------------------------------------

/* False with a talc failure. A point that no algorithm takes has no time. */
static bool measure(const talc_conv2d_problem *p, const bench_settings *settings, double *seconds,
                    char algorithm[TALC_ALGORITHM_TEXT])
{
    static bench measured; /* large, and one at a time */
    talc_scope *scope = talc_scope_enter();
    const bool done = bench_problem(&measured, p, settings);
    for (int i = 0; done && i < measured.count; i++)
        if (measured.contenders[i].count > 0 && !isfinite(*seconds)) {
            *seconds = contender_min(&measured.contenders[i]);
            snprintf(algorithm, TALC_ALGORITHM_TEXT, "%s", measured.contenders[i].title);
        }
    bench_free(&measured);
    talc_scope_leave(scope);
    talc_memory_trim(settings->device);
    return done;
}

static bool measure_point(const arguments *a, const bench_rates *rates, const sweep *s,
                          const talc_conv2d_problem *base, int threads, point *to)
{
    const bool host = talc_device_is_host(a->settings.device);
    talc_conv2d_problem p = *base;
    if (s->set != NULL)
        s->set(&p, to->value);
    const bool exists = talc_conv2d_problem_check(&p);
    if (!exists)
        talc_error_clear();
    for (int i = 0; i < DIRECTIONS; i++) {
        to->seconds[i] = to->floors[i] = (double)NAN;
        to->algorithms[i][0] = '\0';
        if (!exists)
            continue;
        p.direction = (talc_direction)i;
        to->floors[i] = floor_of(&p, rates, host, (double)talc_threads() / threads);
        if (!measure(&p, &a->settings, &to->seconds[i], to->algorithms[i]))
            return false;
    }
    return true;
}

static double ratio_of(const point *at, int direction)
{
    return at->seconds[direction] / at->floors[direction];
}

/* Why a point is marked: "grows" beside a neighbour, "slow" beside the best; "" where it is not. */
static const char *mark_of(const point *points, int count, int at, int direction)
{
    const double own = ratio_of(&points[at], direction);
    double best = own;
    for (int i = 0; i < count; i++)
        best = fmin(best, ratio_of(&points[i], direction)); /* of NAN and a number: the number */
    for (int i = at - 1; i <= at + 1; i += 2)
        if (i >= 0 && i < count && own > MAX_OF_NEIGHBOUR * ratio_of(&points[i], direction))
            return "grows";
    return own > MAX_OF_BEST * best ? "slow" : "";
}

// ---- Printing -----------------------------------------------------------------------------------

typedef struct printed {
    const point *points;
    int count;
} printed;

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const printed *self = context;
    const point *at = &self->points[row];
    const int direction = (column - 1) / 3;
    text[0] = '\0';
    if (column == 0) {
        snprintf(text, TALC_CELL_TEXT, "%" PRId64, at->value);
        return text;
    }
    if (!isfinite(at->seconds[direction]))
        return "";
    if (column % 3 == 1)
        return tool_seconds(at->seconds[direction], text);
    if (column % 3 == 0)
        return mark_of(self->points, self->count, (int)row, direction);
    snprintf(text, TALC_CELL_TEXT, "%.1f", ratio_of(at, direction));
    return text;
}

static void print_sweep(const sweep *s, const point *points, int count)
{
    const talc_column columns[] = {
        { s->name, TALC_COLUMN_NUMBER },    { "forward", TALC_COLUMN_NUMBER },
        { "of floor", TALC_COLUMN_NUMBER }, { "", TALC_COLUMN_NAME },
        { "dx", TALC_COLUMN_NUMBER },       { "of floor", TALC_COLUMN_NUMBER },
        { "", TALC_COLUMN_NAME },           { "dw", TALC_COLUMN_NUMBER },
        { "of floor", TALC_COLUMN_NUMBER }, { "", TALC_COLUMN_NAME },
    };
    talc_table_print(stdout, &(talc_table){ .count = sizeof columns / sizeof *columns,
                                            .columns = columns,
                                            .rows = count,
                                            .indent = 2,
                                            .cell = cell,
                                            .context = &(printed){ points, count } });
    for (int i = 0; i < count; i++)
        for (int d = 0; d < DIRECTIONS; d++)
            if (mark_of(points, count, i, d)[0] != '\0')
                talc_print_wrapped(stdout, 4, "  %s %" PRId64 ", %s: %s, by %s", s->name,
                                   points[i].value,
                                   d == 0   ? "forward"
                                   : d == 1 ? "dx"
                                            : "dw",
                                   mark_of(points, count, i, d), points[i].algorithms[d]);
    printf("\n");
    fflush(stdout);
}

static json_t *sweep_json(const sweep *s, const point *points, int count)
{
    static const char *const names[] = { "forward", "dx", "dw" };
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        for (int d = 0; d < DIRECTIONS; d++)
            json_array_append_new(array,
                                  json_pack("{s:s, s:I, s:s, s:s, s:o, s:o, s:s}", "sweep", s->name,
                                            "value", (json_int_t)points[i].value, "direction",
                                            names[d], "algorithm", points[i].algorithms[d],
                                            "seconds", tool_real(points[i].seconds[d]), "floor",
                                            tool_real(points[i].floors[d]), "mark",
                                            mark_of(points, count, i, d)));
    return array;
}

// ---- Run ----------------------------------------------------------------------------------------

/* Points of a sweep that differ; of threads as many as there are, and on a GPU none. */
static int points_of(const sweep *s, const talc_conv2d_problem *base, bool host, int threads,
                     point points[MAX_POINTS])
{
    int count = 0;
    for (int i = 0; i < MAX_POINTS && s->values[i] > 0; i++) {
        if (s->set == NULL && (!host || s->values[i] > threads))
            continue;
        if (s->set == set_groups && (base->groups == base->C || base->C % s->values[i] != 0 ||
                                     base->OC % s->values[i] != 0))
            continue;
        points[count++].value = s->values[i];
    }
    return count;
}

static bool run(const arguments *a, const talc_conv2d_problem *base, const bench_rates *rates,
                json_t *json)
{
    const int threads = talc_threads();
    bool done = true;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps && done; i++) {
        const sweep *s = &sweeps[i];
        point points[MAX_POINTS];
        if (a->sweep != NULL && strcmp(a->sweep, s->name) != 0)
            continue;
        const int count =
            points_of(s, base, talc_device_is_host(a->settings.device), threads, points);
        for (int k = 0; k < count && done; k++)
            done = (s->set != NULL || talc_set_threads((int)points[k].value)) &&
                   measure_point(a, rates, s, base, threads, &points[k]);
        if (s->set == NULL)
            done = talc_set_threads(threads) && done;
        if (done && count > 0 && json != NULL) {
            json_t *of = sweep_json(s, points, count);
            json_array_extend(json, of);
            json_decref(of);
        } else if (done && count > 0)
            print_sweep(s, points, count);
    }
    return done;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    arguments *self = state->input;
    switch (key) {
    case KEY_REPEAT:
        self->settings.repeats = (int)tool_count_to(state, "--repeat", argument, BENCH_REPEATS);
        return 0;
    case ARGP_KEY_END:
        if (self->sweep != NULL && !is_sweep(self->sweep))
            tool_usage(state, "--sweep: there is no '%s'", TALC_SHOWN(self->sweep));
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            return 0; /* growth */
        self->depthwise = strcmp(argument, "depthwise") == 0;
        if (!self->depthwise && strcmp(argument, "conv2d") != 0)
            tool_usage(state, "'%s' is neither conv2d nor depthwise", TALC_SHOWN(argument));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_bench_growth(int argc, char **argv)
{
    static const tool_option options[] = {
        { "repeat", KEY_REPEAT, "N", "rounds of timing (default 3)", 1, TOOL_OWN, 0, 0 },
        { "base", 'b', "PROBLEM", "that all sweeps change one extent of", 1,
          TOOL_STRING_AT(arguments, base) },
        { "sweep", 's', "NAME", "only this extent: batch, image, ...", 1,
          TOOL_STRING_AT(arguments, sweep) },
        { .name = NULL },
    };
    static const tool_syntax syntax = {
        .options = options,
        .parse = parse,
        .args_doc = "growth [conv2d|depthwise]",
        .doc = "Times a convolution and its gradients, by the algorithms that run by default, as "
               "one extent after the other changes: batch, image, channels, kernel, groups, "
               "dilation, stride and, on the CPU, threads. A time is given and its ratio to a "
               "floor: the products of taps inside the image at the rate of a large matrix "
               "product, or the operands' bytes at the rate of a large copy, and a launch.\v"
               "A point is marked where its ratio is more than 1.5 times that of a neighbour "
               "(grows), or more than 2 times the best of its sweep (slow). --base is a text or "
               "a name, as of talc bench.",
    };
    arguments self = { .settings = {
                           .repeats = 3, .chosen = true, .unchecked = true, .peers = false } };
    tool_parse(&syntax, argc, argv, &self);
    talc_device *device = self.settings.device = tool_open(&self.tool);
    bench_rates rates;
    talc_conv2d_problem base;
    if (device == NULL)
        return tool_fail_talc();
    if (self.base == NULL)
        self.base = self.depthwise ? talc_device_is_host(device) ? "n1c64h56w56o64k3p1g64"
                                                                 : "n16c128h56w56o128k3p1g128"
                    : talc_device_is_host(device) ? "n1c64h56w56o64k3p1"
                                                  : "n8c128h56w56o128k3p1";
    if (!problem_read(self.base, &base))
        return tool_fail_talc();
    /* Depthwise products are no matrix product, so tensor cores do not count. */
    const bool by_fma = base.groups == base.C && !talc_device_is_host(device);
    if ((by_fma && !talc_algorithm_force("matmul", "cublas")) ||
        !bench_rates_measure(device, &rates) || !talc_algorithm_force("matmul", NULL))
        return tool_fail_talc();
    char text[TALC_CONV2D_TEXT];
    if (!self.tool.json)
        printf("%s on %s: a large product makes %.1f GFLOP/s, a large copy moves %.1f GB/s\n\n",
               talc_conv2d_problem_text(&base, text), talc_device_name(device), rates.flops / 1e9,
               rates.bytes / 1e9);
    json_t *points = self.tool.json ? json_array() : NULL;
    if (!run(&self, &base, &rates, points)) {
        json_decref(points);
        return tool_fail_talc();
    }
    return points == NULL ? tool_finish()
                          : tool_json_print(json_pack(
                                "{s:s, s:s, s:o, s:o, s:o}", "device", talc_device_name(device),
                                "base", talc_conv2d_problem_text(&base, text),
                                "product_flops_per_second", tool_real(rates.flops),
                                "copy_bytes_per_second", tool_real(rates.bytes), "points", points));
}
