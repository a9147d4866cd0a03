/* talc_trace: the terms of sums, what is measured of algorithms, and who computes what. */
#include "check/conv2d/trace.h"
#include "check/trace.h"
#include "ops/own_algorithm.h"
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/mutants.h"
#include "tests/support/random_problem.h"

#include "backends/backends.h"

#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 160 };

/* TALC_TRACE_PROBLEMS=2000 is the long form. */
static int problem_count(void)
{
    const char *text = getenv("TALC_TRACE_PROBLEMS");
    return text == NULL ? PROBLEMS : atoi(text);
}

static const char *const ends[] = { "", "_dx", "_dw" };

/* The text of a problem that is small enough to measure each pair of elements. */
static void small_problem(uint64_t *state, char text[TALC_CONV2D_TEXT])
{
    const talc_conv2d_problem p = small_random_problem(state);
    talc_conv2d_problem_text(&p, text);
}

// ---- Terms --------------------------------------------------------------------------------------

/* docs/convolution.md: y[0,0,2,3] of the worked example is 1. */
Test(trace, terms_of_the_worked_example)
{
    talc_trace *trace = talc_trace_new("n1c2h5w6o4k3p1", NULL);
    cr_assert(trace != NULL, "%s", talc_error_message());
    talc_trace_term terms[18];
    cr_assert_eq(talc_trace_terms(trace, 15, terms, 18), 18);
    static const double products[] = { 3, 0, -1, 2, 1, 0, 2, 0, -1, 0, 1, 0, 0, -8, 1, 0, 1, 0 };
    for (int k = 0; k < 18; k++)
        cr_assert_eq(terms[k].first_value * terms[k].second_value, products[k]);
    cr_assert(terms[0].second_element == 8 && terms[13].second_element == 45);
    cr_assert_eq(trace->result.values[15], 1);
    const talc_trace_place place = talc_trace_place_of(trace, 15);
    cr_assert(place.product == 0 && place.row == 0 && place.column == 15);
    cr_assert(talc_trace_terms(trace, 0, terms, 18) == 18 && terms[0].second_element == -1 &&
              terms[0].second[2] == -1 && terms[0].second[3] == -1);
    talc_trace_free(trace);
}

/* Every reader is counted, and the values are those of the op. */
Test(trace, readers_and_values_are_those_of_the_terms)
{
    uint64_t state = 11;
    for (int i = 0; i < 60; i++) {
        char text[TALC_CONV2D_TEXT];
        small_problem(&state, text);
        talc_trace *trace = talc_trace_new(text, NULL);
        cr_assert(trace != NULL, "%s: %s", text, talc_error_message());
        int64_t *readers[2];
        for (int s = 0; s < 2; s++)
            readers[s] =
                calloc((size_t)(s == 1 ? trace->second : trace->first).count, sizeof *readers[s]);
        for (int64_t element = 0; element < trace->result.count; element++) {
            talc_trace_term *terms = calloc((size_t)trace->inner, sizeof *terms);
            const int64_t count = talc_trace_terms(trace, element, terms, trace->inner);
            double sum = 0;
            for (int64_t k = 0; k < count; k++) {
                sum += terms[k].first_value * terms[k].second_value;
                readers[0][terms[k].first_element]++;
                bool again = terms[k].second_element < 0;
                for (int64_t before = 0; before < k; before++)
                    again = again || terms[before].second_element == terms[k].second_element;
                readers[1][again ? 0 : terms[k].second_element] += !again;
            }
            cr_assert_eq(sum, trace->result.values[element]);
            free(terms);
        }
        for (int s = 0; s < 2; s++) {
            for (int64_t j = 0; j < (s == 1 ? trace->second : trace->first).count; j++)
                cr_assert_eq(talc_trace_readers(trace, s == 1, j), readers[s][j],
                             "%s, operand %d, element %lld: %lld, not %lld", text, s, (long long)j,
                             (long long)talc_trace_readers(trace, s == 1, j),
                             (long long)readers[s][j]);
            free(readers[s]);
        }
        talc_trace_free(trace);
    }
}

Test(trace, refuses_what_it_cannot_do)
{
    cr_assert(talc_trace_new("n1c2h5w6o4k3q1", NULL) == NULL);
    talc_error_clear();
    cr_assert(talc_trace_new("n99c99h999w999o4k3", NULL) == NULL);
    cr_assert(talc_error_status() == TALC_TOO_LARGE);
    talc_error_clear();
    cr_assert(talc_trace_new("n1c2h5w6o4k3", &(talc_trace_options){ .gpu = "h2000" }) == NULL);
    cr_assert(strstr(talc_error_message(), "'h2000'") != NULL);
    talc_error_clear();
    talc_trace *trace = talc_trace_new("n1c2h5w6o4k3", NULL);
    int64_t numbers[TALC_MAP_LEVELS];
    cr_assert(talc_trace_owners(trace, 99, 0, numbers, 1) == -1);
    talc_error_clear();
    talc_trace_free(trace);
}

// ---- Measuring ----------------------------------------------------------------------------------

/* Every algorithm of the device that does the problem. Returns how many. */
static int measure_all(talc_trace *trace, talc_device *device)
{
    int measured = 0;
    talc_conv2d_explanation e;
    cr_assert(talc_conv2d_explain(device, &trace->problem, NULL, &e));
    for (int i = 0; i < e.decision.count; i++) {
        talc_trace_measurement m;
        const talc_candidate *c = &e.decision.candidates[i];
        if (c->refused)
            continue;
        cr_assert(talc_trace_measure(trace, device, c->title, 0, &m), "%s: %s", trace->text,
                  talc_error_message());
        cr_assert_eq(m.wrong, 0, "%s by %s: %lld of %lld pairs differ", trace->text, c->title,
                     (long long)m.wrong, (long long)m.pairs);
        cr_assert(strcmp(m.algorithm, c->title) == 0, "%s by %s: %s, %lld pairs", trace->text,
                  c->title, m.algorithm, (long long)m.pairs);
        measured++;
    }
    return measured;
}

Test(trace, every_algorithm_multiplies_what_the_formula_says)
{
    talc_device *const devices[] = { talc_device_get("cpu"), fake_device() };
    uint64_t state = 3;
    int measured = 0;
    for (int i = 0; i < problem_count(); i++) {
        char text[TALC_CONV2D_TEXT];
        small_problem(&state, text);
        talc_trace *trace = talc_trace_new(text, NULL);
        cr_assert(trace != NULL, "%s: %s", text, talc_error_message());
        measured += measure_all(trace, devices[i % 8 == 0]);
        talc_trace_free(trace);
    }
    cr_assert(measured > 2 * problem_count(), "%d", measured);
}

/* Numbers of more than one digit. */
Test(trace, measures_large_operands)
{
    talc_trace *trace = talc_trace_new("n1c1h60w61o1k2x1", NULL);
    cr_assert(trace != NULL && measure_all(trace, talc_device_get("cpu")) > 1);
    talc_trace_free(trace);
}

/* Algorithms with a mistake in what they read or sum. */
Test(trace, measuring_finds_mistakes)
{
    static const mutant kinds[] = { MUTANT_NONE,           MUTANT_IMAGE_AXES, MUTANT_STRIDES,
                                    MUTANT_PAD_TOP,        MUTANT_PAD_LEFT,   MUTANT_DILATION_H,
                                    MUTANT_GROUP_OFFSET,   MUTANT_TAP,        MUTANT_TAP_TWICE,
                                    MUTANT_KERNEL_MIRRORED };
    talc_own_algorithm own = { TALC_OWN_ALGORITHM_OF(conv2d), .device = "cpu" };
    own.algorithm = *mutant_algorithm(MUTANT_NONE);
    own.algorithm.name = "mistaken";
    cr_assert(talc_algorithm_register("conv2d", &own), "%s", talc_error_message());
    talc_trace *trace = talc_trace_new("n2c4h7w8o4k3x2s2x1p1x1d2x1g2", NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        talc_trace_measurement m;
        (void)mutant_algorithm(kinds[i]);
        cr_assert(talc_trace_measure(trace, talc_device_get("cpu"), "mistaken", 0, &m), "%s",
                  talc_error_message());
        cr_assert((m.wrong > 0) == (kinds[i] != MUTANT_NONE), "%s: %lld wrong",
                  mutant_name(kinds[i]), (long long)m.wrong);
    }
    talc_trace_free(trace);
}

// ---- Owners -------------------------------------------------------------------------------------

/* Each element once, or once a split, in every map. Returns the maps. */
static int check_owners(const char *text, const talc_trace_options *options, int used[])
{
    talc_trace *trace = talc_trace_new(text, options);
    cr_assert(trace != NULL, "%s: %s", text, talc_error_message());
    int maps = 0;
    for (int i = 0; i < trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(trace, i);
        int64_t numbers[TALC_MAP_LEVELS];
        if (!a.has_map || trace->result.count == 0)
            continue;
        const int64_t owners = talc_trace_owners(trace, i, 0, numbers, 1);
        cr_assert(owners > 0 || talc_error_status() == TALC_TOO_LARGE, "%s for %s: %s", text,
                  a.target, talc_error_message());
        talc_error_clear();
        maps++;
        used[i] += owners > 0;
    }
    talc_trace_free(trace);
    return maps;
}

Test(trace, every_map_gives_each_element_once)
{
    static const char *const gpus[] = { "h200", "h100", "a100" };
    static const char *const cpus[] = { "portable", "avx2", "avx512" };
    int used[TRACE_ALGORITHMS] = { 0 };
    uint64_t state = 7;
    int maps = 0;
    for (int i = 0; i < problem_count(); i++) {
        char text[TALC_CONV2D_TEXT];
        small_problem(&state, text);
        if (i % 8 == 0) {
            const talc_conv2d_problem p = random_problem_of(&state, 20000);
            talc_conv2d_problem_text(&p, text);
        }
        const talc_trace_options options = { gpus[i % 3], cpus[i / 3 % 3] };
        maps += check_owners(text, &options, used);
    }
    cr_assert(maps > 2 * problem_count());
    talc_trace *trace = talc_trace_new("n1c2h5w6o4k3", NULL);
    for (int i = 0; i < trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(trace, i);
        cr_assert(!a.has_map || used[i] > 4, "%s %s: %d", a.device, a.title, used[i]);
    }
    talc_trace_free(trace);
}

/* One problem that is enough for several blocks, tasks and images, by each form. */
Test(trace, maps_of_larger_problems)
{
    int used[TRACE_ALGORITHMS] = { 0 };
    static const char *const texts[] = { "n3c20h40w37o70k3p1", "n2c64h9w9o130k3s2p1",
                                         "n9c16h7w7o40k3p1", "n1c40h33w65o24k5x3p2x1g2" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int d = 0; d < 3; d++) {
            char text[TALC_CONV2D_TEXT];
            snprintf(text, sizeof text, "%s%s", texts[i], ends[d]);
            (void)check_owners(text, NULL, used);
        }
}

/* A map that is off by one owner, of each kind of mistake. */
static int64_t (*right_map)(const talc_owner_map *map, const int64_t numbers[]);
static int mistake;

static int64_t wrong_map(const talc_owner_map *map, const int64_t numbers[])
{
    const int64_t element = right_map(map, numbers);
    if (mistake == 0)
        return element < 0 ? -1 : element + 1;
    if (mistake == 1)
        return element == 7 ? 6 : element;
    return element == 7 ? -1 : element;
}

Test(trace, a_map_that_is_off_by_one_is_refused)
{
    for (mistake = 0; mistake < 3; mistake++) {
        talc_trace *trace = talc_trace_new("n1c2h5w6o4k3p1", NULL);
        int maps = 0;
        for (int i = 0; i < trace->algorithms; i++) {
            trace_algorithm *a = &((trace_record *)trace)->algorithms[i];
            if (!a->shown.has_map)
                continue;
            right_map = a->map.element;
            a->map.element = wrong_map;
            int64_t numbers[TALC_MAP_LEVELS];
            cr_assert_eq(talc_trace_owners(trace, i, 0, numbers, 1), -1, "%s", a->shown.title);
            cr_assert(strstr(talc_error_message(), mistake == 0   ? "there is not"
                                                   : mistake == 1 ? "two owners"
                                                                  : "no owner") != NULL,
                      "%s", talc_error_message());
            talc_error_clear();
            maps++;
        }
        cr_assert(maps > 5);
        talc_trace_free(trace);
    }
}

// ---- Traffic ------------------------------------------------------------------------------------

static talc_trace_count count_of(talc_trace *trace, const char *title, const char *name)
{
    talc_trace_count counts[16];
    for (int i = 0; i < trace->algorithms; i++)
        if (strcmp(talc_trace_algorithm_at(trace, i).title, title) == 0) {
            const int count = talc_trace_traffic(trace, i, counts, 16);
            for (int j = 0; j < count && j < 16; j++)
                if (strcmp(counts[j].name, name) == 0)
                    return counts[j];
        }
    cr_assert_fail("%s has no count of %s", title, name);
    return counts[0];
}

static int64_t every_eighth_word(const talc_owner_map *map, const int64_t numbers[], int64_t k)
{
    (void)map, (void)k;
    return numbers[2] * 8; /* the lane */
}

/* 64 outputs of one product each: two warps of different blocks, with a pixel a lane. At stride 2
 * their elements of x are 8 bytes apart. */
Test(trace, traffic_by_hand)
{
    static const char textbook[] = "direct(textbook)";
    for (int stride = 1; stride <= 2; stride++) {
        talc_trace *trace =
            talc_trace_new(stride == 1 ? "n1c1h1w64o1k1" : "n1c1h1w128o1k1s1x2", NULL);
        cr_assert(count_of(trace, textbook, "products").count == 64);
        cr_assert(count_of(trace, textbook, "loads of x by warps").count == 2);
        cr_assert(count_of(trace, textbook, "sectors of these loads").count == 8 * stride);
        cr_assert(count_of(trace, textbook, "sectors of these loads").least == 8);
        cr_assert(count_of(trace, textbook, "stores by warps").count == 2);
        cr_assert(count_of(trace, textbook, "sectors of these stores").count == 8);
        const talc_trace_count block =
            count_of(trace, textbook, "different operands of each block");
        cr_assert(block.count == 4 * 2 * (32 + 1) && block.least == 4 * (64 + 1));
        const talc_trace_count shared =
            count_of(trace, textbook, "reads of shared memory by warps");
        cr_assert(shared.count == 2 && shared.least == 2);
        for (int i = 0; i < trace->algorithms; i++)
            ((trace_record *)trace)->algorithms[i].map.shared = every_eighth_word;
        cr_assert(count_of(trace, textbook, "reads of shared memory by warps").count == 2 * 8);
        talc_trace_free(trace);
    }
}

/* 16 channels, 3 taps and 16 positions: a warp reads 3 * 2 * 2 matrices of 8 positions of 8
 * channels by ldmatrix, each once and without bank conflicts. */
Test(trace, traffic_of_shared_memory_by_hand)
{
    talc_trace *trace = talc_trace_new("n1c16h1w16o16k1x3p0x1", NULL);
    const talc_trace_count reads =
        count_of(trace, "implicit_gemm(mma)", "reads of shared memory by warps");
    cr_assert(reads.count == 12 && reads.least == 12, "%g, %g", reads.count, reads.least);
    talc_trace_free(trace);
}

/* Of four buffers the second warpgroup is three behind the first. */
Test(trace, a_map_tells_how_a_block_loads_ahead)
{
    talc_trace *trace = talc_trace_new("n1c8960h4w4o140k3p1g140", NULL);
    for (int i = 0; i < trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(trace, i);
        if (!a.has_map)
            continue;
        const talc_pipeline *p = &a.map->pipeline;
        if (strcmp(a.title, "implicit_gemm(wgmma)") == 0)
            cr_assert(p->loaders == 8 && p->multipliers == 2 && p->buffers == 4 && p->lag == 3);
        else if (strcmp(a.name, "implicit_gemm") != 0 || strcmp(a.device, "cpu") == 0)
            cr_assert(p->buffers == 0);
    }
    talc_trace_free(trace);
}
