/// Whether the GPU's kernels compute each output where their maps say (ops/owner_map.h). The
/// kernels that have maps are built with TALC_WITNESS here: their owner is in place of each sum.
///
///     witness [PROBLEMS [SEED]]      random ones, 300
///
/// Needs a GPU whose plans talc trace knows. Exits with 1 where an output has another owner.
#include "backends/cuda/primitives/witness.h"
#include "check/conv2d/trace.h"
#include "tensor/device.h"
#include "tests/support/random_problem.h"

#include <talc/talc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static talc_device *device;
static const char *gpu;
static int problems_of[TRACE_ALGORITHMS], wrong;
static int64_t outputs;

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "witness: %s: %s\n", what, talc_error_message());
    exit(1);
}

// ---- What the kernels store ---------------------------------------------------------------------

/* A weight of each output channel is 1, the others are 0: im2col's columns hold their writers, and
 * the product takes one of each. */
static talc_tensor *operand(const talc_trace_operand *of, talc_dtype dtype)
{
    const int64_t each = *of->name == 'w' ? of->dims[1] * of->dims[2] * of->dims[3] : 1;
    float *values = calloc((size_t)of->count + 1, sizeof *values);
    for (int64_t i = 0; i < of->count; i += each)
        values[i] = 1;
    const talc_dims dims = TALC_DIMS(of->dims[0], of->dims[1], of->dims[2], of->dims[3]);
    talc_tensor *made = talc_cast(talc_from_host(device, TALC_F32, dims, values), dtype);
    free(values);
    return made;
}

/* False where another algorithm runs. */
static bool run(const talc_trace *trace, const talc_trace_algorithm *a, double *result)
{
    const talc_conv2d_problem *p = &trace->problem;
    const talc_conv2d_options options = talc_trace_conv2d_options(p, a->title, a->precision);
    talc_conv2d_explanation e;
    require(talc_conv2d_explain(device, p, &options, &e), trace->text);
    const int chosen = e.decision.chosen;
    if (chosen < 0 || strcmp(e.decision.candidates[chosen].title, a->title) != 0 ||
        e.decision.candidates[chosen].arithmetic.precision != a->precision)
        return false;
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *first = operand(&trace->first, p->dtype),
                      *second = operand(&trace->second, p->dtype);
    const talc_tensor *y = p->direction == TALC_FORWARD
                               ? talc_conv2d(second, first, NULL, &options)
                               : talc_conv2d_gradient(p, first, second, &options);
    require(
        talc_to_host(talc_cast(y, TALC_F64), result, (size_t)trace->result.count * sizeof *result),
        trace->text);
    talc_scope_leave(scope);
    return true;
}

// ---- What the maps say --------------------------------------------------------------------------

static uint32_t witness_of(const talc_owner_map *map, const int64_t numbers[])
{
    int64_t at[TALC_LEVEL_KIND_COUNT] = { 0 };
    for (int i = 0; i < map->levels; i++) {
        const talc_level *level = &map->level[i];
        at[level->kind] = at[level->kind] * level->extent + numbers[i];
    }
    return talc_witness_of(at[TALC_LEVEL_BLOCK],
                           (int)(at[TALC_LEVEL_WARP] * 32 + at[TALC_LEVEL_LANE]),
                           (int)at[TALC_LEVEL_REGISTER], (int)at[TALC_LEVEL_SPLIT]);
}

static void print_numbers(const char *who, const talc_owner_map *map, const int64_t numbers[])
{
    fprintf(stderr, "    %s", who);
    for (int i = 0; i < map->levels; i++)
        fprintf(stderr, " %s %lld", map->level[i].name, (long long)numbers[i]);
    fprintf(stderr, "\n");
}

/* The first owner that would have stored this; none where the sum is split. */
static void print_storer(const talc_owner_map *map, double stored)
{
    int64_t total = 1, numbers[TALC_MAP_LEVELS];
    for (int i = 0; i < map->levels; i++)
        total *= map->level[i].extent;
    for (int64_t i = 0; i < total; i++) {
        talc_trace_numbers(map, i, numbers);
        if (witness_of(map, numbers) == stored) {
            print_numbers("stored by", map, numbers);
            return;
        }
    }
    fprintf(stderr, "    stored by nobody whom the map knows: %.17g\n", stored);
}

/* Outputs of the algorithm that have another owner than its map says; prints the first. -1 where it
 * does not run. */
static int64_t compare(talc_trace *trace, int index, bool silent)
{
    const talc_trace_algorithm a = talc_trace_algorithm_at(trace, index);
    enum { MAX_SPLITS = 64 };
    static int64_t numbers[MAX_SPLITS * TALC_MAP_LEVELS];
    const int64_t splits = talc_trace_owners(trace, index, 0, numbers, MAX_SPLITS);
    if (splits < 0 && talc_error_status() == TALC_TOO_LARGE) {
        talc_error_clear();
        return -1;
    }
    require(splits > 0 && splits <= MAX_SPLITS, trace->text);
    double *result = malloc((size_t)trace->result.count * sizeof *result);
    int64_t differ = 0;
    const bool ran = run(trace, &a, result);
    for (int64_t i = 0; i < trace->result.count && ran; i++) {
        double expected = 0;
        (void)talc_trace_owners(trace, index, i, numbers, splits);
        for (int64_t s = 0; s < splits; s++)
            expected += witness_of(a.map, numbers + s * a.map->levels);
        if (result[i] == expected || differ++ > 0 || silent)
            continue;
        fprintf(stderr, "%s by %s %s: element %lld of %s\n", trace->text,
                talc_precision_name(a.precision), a.title, (long long)i, trace->result.name);
        print_numbers("by the map", a.map, numbers);
        print_storer(a.map, result[i]);
    }
    free(result);
    return ran ? differ : -1;
}

// ---- Problems -----------------------------------------------------------------------------------

/* What tensor cores are for, or whatever comes. */
static talc_conv2d_problem large_random_problem(uint64_t *state, bool regular)
{
    talc_conv2d_problem p;
    do {
        p = random_problem_of(state, 20000);
        if (regular) {
            p.direction = TALC_FORWARD;
            p.stride_h = p.stride_w = 1, p.C = p.groups * 16 * between(state, 1, 3);
        }
        talc_error_clear();
    } while (!talc_conv2d_problem_check(&p) || talc_conv2d_flops(&p) > 1e7);
    return p;
}

static void check(const char *text)
{
    talc_trace *trace = talc_trace_new(text, &(talc_trace_options){ .gpu = gpu });
    require(trace != NULL, text);
    for (int i = 0; i < trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(trace, i);
        if (strcmp(a.device, "cuda") != 0 || !a.has_map)
            continue;
        const int64_t differ = compare(trace, i, false);
        problems_of[i] += differ >= 0, wrong += differ > 0;
        outputs += differ >= 0 ? trace->result.count : 0;
    }
    talc_trace_free(trace);
}

static int64_t (*right_map)(const talc_owner_map *map, const int64_t numbers[]);

/* Each lane has what the map says of the next: still each element once, which the host's tests
 * take. */
static int64_t shifted_map(const talc_owner_map *map, const int64_t numbers[])
{
    int64_t shifted[TALC_MAP_LEVELS];
    memcpy(shifted, numbers, sizeof shifted);
    for (int i = 0; i < map->levels; i++)
        if (map->level[i].kind == TALC_LEVEL_LANE)
            shifted[i] = (shifted[i] + 1) % map->level[i].extent;
    return right_map(map, shifted);
}

/* A map that is off by a lane has to be noticed, whatever the algorithm. Returns how many were. */
static int plant(const char *text)
{
    talc_trace *trace = talc_trace_new(text, &(talc_trace_options){ .gpu = gpu });
    require(trace != NULL, text);
    int noticed = 0;
    for (int i = 0; i < trace->algorithms; i++) {
        trace_algorithm *a = &((trace_record *)trace)->algorithms[i];
        if (strcmp(a->shown.device, "cuda") != 0 || !a->shown.has_map)
            continue;
        right_map = a->map.element;
        a->map.element = shifted_map;
        const int64_t differ = compare(trace, i, true);
        noticed += differ > 0, wrong += differ == 0;
        if (differ == 0)
            fprintf(stderr, "%s by %s: lanes are off by one, and nobody noticed\n", text,
                    a->shown.title);
    }
    talc_trace_free(trace);
    return noticed;
}

/* What talc trace knows this GPU by. */
static const char *name_of_gpu(void)
{
    static const char *const names[] = { "h200", "h100", "a100" };
    static const char *const found[] = { "H200", "H100", "A100" };
    talc_device_properties about;
    device->interface->properties(device, &about);
    for (int i = 0; i < 3; i++)
        if (strstr(about.description, found[i]) != NULL)
            return names[i];
    return NULL;
}

int main(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    const int problems = argc > 1 ? atoi(argv[1]) : 300;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 5;
    const char *name = getenv("TALC_TEST_DEVICE");
    require((device = talc_device_get(name == NULL ? "cuda" : name)) != NULL, "device_get");
    if ((gpu = name_of_gpu()) == NULL) {
        printf("skipped: talc trace knows no plans for this GPU\n");
        return SKIPPED;
    }
    for (int i = 0; i < problems; i++) {
        char text[TALC_CONV2D_TEXT];
        const talc_conv2d_problem p =
            i % 3 == 0 ? small_random_problem(&state) : large_random_problem(&state, i % 3 == 1);
        talc_conv2d_problem_text(&p, text);
        check(text);
    }
    /* Split-K, tiles that carry sectors over, flat tiles, folded phases, several tiles a block. */
    static const char *const more[] = { "n1c512h7w7o8k3p1",      "n1c16h9w200o8k3p1",
                                        "n9c16h7w7o130k3p1",     "n1c16h17w100o72k3p1",
                                        "n1c3h64w64o64k7s2p3",   "n16c16h8w8o24k3p1_dx",
                                        "n4c48h28w28o8k3p1",     "n1c8960h4w4o140k3p1g140",
                                        "n4c32h8w8o64k4s2p1_dx", "n2c48h9w7o144k3s3p1_dx" };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        check(more[i]);
    const int noticed = plant("n2c20h9w10o24k3p1") + plant("n1c16h17w100o72k3p1");
    talc_trace *trace = talc_trace_new(more[0], NULL);
    for (int i = 0; i < trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(trace, i);
        if (strcmp(a.device, "cuda") == 0 && problems_of[i] > 0)
            printf("%6d problems by %s %s\n", problems_of[i], talc_precision_name(a.precision),
                   a.title);
        if (strcmp(a.device, "cuda") == 0 && a.has_map && problems_of[i] == 0)
            wrong++, printf("no problem by %s\n", a.title);
    }
    talc_trace_free(trace);
    printf("%s: %lld outputs, %d times with another owner than the map's; %d planted maps found\n",
           gpu, (long long)outputs, wrong, noticed);
    return wrong > 0 || noticed < 8;
}
