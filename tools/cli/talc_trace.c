/// talc trace: one output of a convolution, term by term, and who computes it in each algorithm.
#include "tools/cli/problems.h"
#include "tools/cli/tool.h"

#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    tool_options tool;
    const char *algorithm, *gpu, *cpu;
    bool all, traffic;
    const char *texts[2]; ///< the problem, and the element's indices
} arguments;

static const tool_option options[] = {
    { "algorithm", 'a', "NAME", "only this one, by name or name(form)", 3,
      TOOL_STRING_AT(arguments, algorithm) },
    { "gpu", 'g', "NAME", "h200, h100 or a100: what CUDA's algorithms are planned for", 3,
      TOOL_STRING_AT(arguments, gpu) },
    { "cpu", 'c', "NAME", "portable, avx2 or avx512, with 1 MiB of L2 cache (default: this one)", 3,
      TOOL_STRING_AT(arguments, cpu) },
    { "all", 0, NULL, "the whole matrix product, and in JSON every element", 3,
      TOOL_TRUE_AT(arguments, all) },
    { "traffic", 0, NULL, "what each algorithm moves, counted", 3,
      TOOL_TRUE_AT(arguments, traffic) },
    { .name = NULL },
};

static const tool_syntax syntax = {
    .options = options,
    .text = offsetof(arguments, texts),
    .texts = 2,
    .needed = 1,
    .missing = "give a problem, and the indices of an output: n,oc,oh,ow",
    .args_doc = "PROBLEM [N,OC,OH,OW]",
    .doc = "One output of a convolution: every term of its sum, where each operand is read again, "
           "its place in the product of im2col, and who computes it in each algorithm: task, "
           "vector and lane; block, warp, lane and register.\v"
           "PROBLEM is a text such as n1c2h5w6o4k3p1; with _dx or _dw at its end the indices are "
           "those of dx [N,C,H,W] or dw [OC,C/groups,KH,KW]. Without indices it is element 0. The "
           "data flow is measured too: the device's algorithms run, and each product is seen from "
           "the outside. Who computes what is told by the functions that the kernels themselves "
           "use; CUDA's algorithms are planned for the GPU that --gpu names, which need not be "
           "there. Exit code 1: what was measured differs.",
};

enum { MAX_MEASURED = 2 * TALC_MAX_ALGORITHMS, MAX_COUNTS = 16 };

typedef struct traced {
    const arguments *arguments;
    talc_trace *trace;
    talc_device *device;
    int64_t element;
    int measured;
    talc_trace_measurement measurements[MAX_MEASURED];
} traced;

static bool is_wanted(const traced *t, const char *name, const char *form)
{
    const char *asked = t->arguments->algorithm;
    return asked == NULL || talc_algorithm_is_asked_for(name, form, asked);
}

// ---- Text ---------------------------------------------------------------------------------------

static const char *const *names_of(const char *operand)
{
    static const char *const x[] = { "n", "c", "ih", "iw" },
                             *const w[] = { "oc", "ic", "kh", "kw" },
                             *const y[] = { "n", "oc", "oh", "ow" };
    const char last = operand[strlen(operand) - 1];
    return last == 'x' ? x : last == 'w' ? w : y;
}

static const char *at_text(const char *name, const int64_t at[4], char text[96])
{
    snprintf(text, 96, "%s[%lld,%lld,%lld,%lld]", name, (long long)at[0], (long long)at[1],
             (long long)at[2], (long long)at[3]);
    return text;
}

static void print_element(const traced *t)
{
    const talc_trace_operand *r = &t->trace->result;
    const char *const *names = names_of(r->name);
    int64_t at[4];
    talc_trace_indices(r, t->element, at);
    printf("%s[", r->name);
    for (int i = 0; i < 4; i++)
        printf("%s%s=%lld", i > 0 ? ", " : "", names[i], (long long)at[i]);
    printf("] = %g, element %lld of %s\n", r->values[t->element], (long long)t->element, r->name);
}

static void print_terms(const traced *t)
{
    const talc_trace *trace = t->trace;
    char first_text[96], second_text[96];
    const char *first = trace->first.name, *second = trace->second.name;
    printf("%6s  %-18s%7s %8s %7s  %-18s%7s %8s %7s %8s %6s\n", "k", second, "value", "element",
           "read by", first, "value", "element", "read by", "product", "sum");
    double sum = 0;
    int64_t count = 0, padding = 0;
    for (int64_t k = 0; k < trace->inner; k++) {
        talc_trace_term term;
        if (!talc_trace_term_at(trace, t->element, k, &term))
            continue;
        const double product = term.first_value * term.second_value + 0.; /* no -0 */
        const bool outside = term.second_element < 0;
        sum += product;
        count++, padding += outside;
        printf("%6lld  %-18s", (long long)k, at_text(second, term.second, second_text));
        if (outside)
            printf("%7s %8s %7s", ".", "padding", "");
        else
            printf("%7g %8lld %7lld", term.second_value, (long long)term.second_element,
                   (long long)talc_trace_readers(trace, true, term.second_element));
        printf("  %-18s%7g %8lld %7lld %8g %6g\n", at_text(first, term.first, first_text),
               term.first_value, (long long)term.first_element,
               (long long)talc_trace_readers(trace, false, term.first_element), product, sum);
    }
    printf("%lld terms of at most %lld, %lld of them padding; read by: so many elements of %s\n",
           (long long)count, (long long)trace->inner, (long long)padding, trace->result.name);
}

static void print_place(const traced *t)
{
    const talc_trace *trace = t->trace;
    const talc_trace_place place = talc_trace_place_of(trace, t->element);
    static const char *const k_of[] = { "(ic * KH + kh) * KW + kw", "(oc * KH + kh) * KW + kw",
                                        "(n * OH + oh) * OW + ow" };
    static const char *const column_of[] = { "oh * OW + ow", "ih * W + iw",
                                             "(ic * KH + kh) * KW + kw" };
    const talc_direction d = trace->problem.direction;
    printf("product %lld of %lld: %s [%lld,%lld] = A [%lld,%lld] of %s times B [%lld,%lld] of %s\n",
           (long long)place.product, (long long)trace->products, trace->result.name,
           (long long)trace->rows, (long long)trace->columns, (long long)trace->rows,
           (long long)trace->inner, trace->first.name, (long long)trace->inner,
           (long long)trace->columns, trace->second.name);
    printf("  row %lld of A times column %lld of B; k = %s, column = %s\n", (long long)place.row,
           (long long)place.column, k_of[d], column_of[d]);
}

/* B of the element's product, and its row of A, with their numbers. */
static void print_matrix(const traced *t)
{
    const talc_trace *trace = t->trace;
    const talc_trace_place place = talc_trace_place_of(trace, t->element);
    enum { WIDE = 20 };
    for (int64_t from = 0; from < trace->columns; from += WIDE) {
        const int64_t end = from + WIDE < trace->columns ? from + WIDE : trace->columns;
        printf("\n%8s", from == 0 ? "B" : "");
        for (int64_t j = from; j < end; j++)
            printf("%4lld%s", (long long)j, j == place.column ? "*" : " ");
        printf("\n");
        for (int64_t k = 0; k < trace->inner; k++) {
            printf("%6lld |", (long long)k);
            for (int64_t j = from; j < end; j++) {
                const int64_t element = place.product * trace->rows * trace->columns + j;
                talc_trace_term term;
                if (!talc_trace_term_at(trace, element, k, &term))
                    printf("%4s ", "");
                else if (term.second_element < 0)
                    printf("%4s ", ".");
                else
                    printf("%4g ", term.second_value);
            }
            printf("\n");
        }
    }
    printf("%s\n", trace->problem.direction == TALC_GRAD_INPUT
                       ? "(blank: no output reads that pixel with that tap)"
                       : "(.: padding)");
}

static void print_title(const talc_trace_algorithm *a)
{
    printf("%s %s%s, as planned for %s: ", a->device, a->title,
           a->precision == TALC_TF32 ? ", TF32" : "", a->target);
}

/* The numbers of an owner: those that are not the only ones, and the first. */
static void print_numbers(const traced *t, const talc_owner_map *map, const int64_t *numbers)
{
    for (int i = 0; i < map->levels; i++) {
        const talc_level *level = &map->level[i];
        if (i > 0 && level->extent == 1)
            continue;
        printf("%s %s %lld of %lld", i > 0 ? "," : "   ", level->name, (long long)numbers[i],
               (long long)level->extent);
        const int64_t terms = level->kind == TALC_LEVEL_SPLIT && level->extent > 1
                                  ? talc_trace_terms_of_split(t->trace, map, numbers[i])
                                  : -1;
        if (terms >= 0)
            printf(" (%lld terms)", (long long)terms);
    }
    printf("\n");
}

static void print_owner(const traced *t, int index, const talc_trace_algorithm *a)
{
    enum { SHOWN_OWNERS = 16 };
    int64_t numbers[SHOWN_OWNERS * TALC_MAP_LEVELS];
    const int64_t count = talc_trace_owners(t->trace, index, t->element, numbers, SHOWN_OWNERS);
    print_title(a);
    printf("%s\n", a->map->text);
    if (count < 0) {
        printf("    %s\n", talc_error_message());
        talc_error_clear();
        return;
    }
    for (int64_t i = 0; i < count && i < SHOWN_OWNERS; i++)
        print_numbers(t, a->map, numbers + i * a->map->levels);
    bool any = false;
    for (int i = 0; i < a->map->loops; i++) {
        if (a->map->loop[i].extent == 1)
            continue;
        printf("%s%s %lld", any ? " > " : "    terms by ", a->map->loop[i].name,
               (long long)a->map->loop[i].extent);
        any = true;
    }
    printf("%s", any ? "\n" : "");
    const talc_pipeline *p = &a->map->pipeline;
    if (p->buffers > 0)
        printf("    %d warps load into %d buffers ahead of %d warpgroups that multiply, the second "
               "%d K tile%s behind the first\n",
               p->loaders, p->buffers, p->multipliers, p->lag, p->lag == 1 ? "" : "s");
}

/* False with a message where an algorithm is asked for that there is not. */
static bool is_known(const traced *t)
{
    bool any = t->measured > 0;
    for (int i = 0; i < t->trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(t->trace, i);
        any = any || is_wanted(t, a.name, a.form);
    }
    if (!any)
        tool_fail("%s: no algorithm of this convolution has that name",
                  TALC_SHOWN(t->arguments->algorithm));
    return any;
}

static void print_traffic(const traced *t, int index)
{
    talc_trace_count counts[MAX_COUNTS];
    const int count = talc_trace_traffic(t->trace, index, counts, MAX_COUNTS);
    for (int i = 0; i < count; i++) {
        printf("    %-44s %9.0f %s", counts[i].name, counts[i].count, counts[i].unit);
        if (counts[i].least > 0 && counts[i].least < counts[i].count)
            printf(", %.2f times the least", counts[i].count / counts[i].least);
        printf("\n");
    }
    talc_error_clear();
}

static void print_algorithms(const traced *t)
{
    for (int i = 0; i < t->trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(t->trace, i);
        if (!is_wanted(t, a.name, a.form))
            continue;
        if (a.has_map) {
            print_owner(t, i, &a);
            if (t->arguments->traffic)
                print_traffic(t, i);
        } else if (a.refusal != NULL) {
            print_title(&a);
            printf("refuses: %s\n", a.refusal);
        }
    }
    bool any = false;
    for (int i = 0; i < t->trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(t->trace, i);
        if (a.has_map || a.refusal != NULL || !is_wanted(t, a.name, a.form))
            continue;
        printf("%s%s %s%s", any ? ", " : "no map yet: ", a.device, a.title,
               a.precision == TALC_TF32 ? ", TF32" : "");
        any = true;
    }
    printf("%s", any ? "\n" : "");
}

static void print_measurements(const traced *t)
{
    char text[96], first[96], second[96];
    const talc_trace *trace = t->trace;
    for (int i = 0; i < t->measured; i++) {
        const talc_trace_measurement *m = &t->measurements[i];
        printf("measured: %s %s, %lld pairs of elements in %lld runs: ",
               talc_device_name(t->device), m->algorithm, (long long)m->pairs, (long long)m->runs);
        if (m->wrong == 0) {
            printf("all as the formula says\n");
            continue;
        }
        int64_t at[3][4];
        talc_trace_indices(&trace->result, m->element, at[0]);
        talc_trace_indices(&trace->first, m->first, at[1]);
        const bool is_element = m->second >= 0 && m->second < trace->second.count;
        talc_trace_indices(&trace->second, is_element ? m->second : 0, at[2]);
        printf("%lld differ; in %s, %s is multiplied with %s\n", (long long)m->wrong,
               at_text(trace->result.name, at[0], text), at_text(trace->first.name, at[1], first),
               is_element        ? at_text(trace->second.name, at[2], second)
               : m->second == -1 ? "nothing, or a zero"
                                 : "no single element");
    }
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *numbers_json(const int64_t *numbers, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

static json_t *operand_json(const talc_trace_operand *operand)
{
    json_t *values = json_array();
    for (int64_t i = 0; i < operand->count; i++)
        json_array_append_new(values, tool_real(operand->values[i]));
    return json_pack("{s:s, s:o, s:o}", "name", operand->name, "dims",
                     numbers_json(operand->dims, 4), "values", values);
}

static json_t *factor_json(const talc_trace *trace, bool second, int64_t element,
                           const int64_t at[4], double value)
{
    json_t *readers =
        element < 0 ? json_integer(0) : json_integer(talc_trace_readers(trace, second, element));
    return json_pack("{s:o, s:o, s:o, s:o}", "element",
                     element < 0 ? json_null() : json_integer(element), "at", numbers_json(at, 4),
                     "value", tool_real(value), "readers", readers);
}

static json_t *element_json(const talc_trace *trace, int64_t element)
{
    const talc_trace_place place = talc_trace_place_of(trace, element);
    int64_t at[4];
    talc_trace_indices(&trace->result, element, at);
    json_t *terms = json_array();
    double sum = 0;
    for (int64_t k = 0; k < trace->inner; k++) {
        talc_trace_term term;
        if (!talc_trace_term_at(trace, element, k, &term))
            continue;
        const double product = term.first_value * term.second_value + 0.; /* no -0 */
        sum += product;
        json_array_append_new(
            terms,
            json_pack("{s:I, s:o, s:o, s:o, s:o}", "k", (json_int_t)k, "first",
                      factor_json(trace, false, term.first_element, term.first, term.first_value),
                      "second",
                      factor_json(trace, true, term.second_element, term.second, term.second_value),
                      "product", tool_real(product), "sum", tool_real(sum)));
    }
    return json_pack("{s:I, s:o, s:o, s:I, s:I, s:I, s:o}", "element", (json_int_t)element, "at",
                     numbers_json(at, 4), "value", tool_real(trace->result.values[element]),
                     "product", (json_int_t)place.product, "row", (json_int_t)place.row, "column",
                     (json_int_t)place.column, "terms", terms);
}

static json_t *owners_json(talc_trace *trace, int index, const talc_owner_map *map, int64_t element)
{
    const int64_t count = talc_trace_owners(trace, index, element, NULL, 0);
    if (count < 0) {
        talc_error_clear();
        return json_null();
    }
    int64_t *numbers = malloc((size_t)(count * map->levels) * sizeof *numbers);
    json_t *list = numbers == NULL ? NULL : json_array();
    if (numbers != NULL)
        (void)talc_trace_owners(trace, index, element, numbers, count);
    for (int64_t i = 0; i < count && numbers != NULL; i++)
        json_array_append_new(list, numbers_json(numbers + i * map->levels, map->levels));
    free(numbers);
    return list;
}

static void add_map(const traced *t, int index, const talc_owner_map *map, json_t *json)
{
    json_t *levels = json_array(), *loops = json_array();
    for (int i = 0; i < map->levels; i++)
        json_array_append_new(levels, json_pack("{s:s, s:s, s:I}", "name", map->level[i].name,
                                                "kind", talc_level_kind_name(map->level[i].kind),
                                                "extent", (json_int_t)map->level[i].extent));
    for (int i = 0; i < map->loops; i++)
        json_array_append_new(loops,
                              json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", map->loop[i].name,
                                        "kind", talc_level_kind_name(map->loop[i].kind), "index",
                                        talc_loop_index_name(map->loop[i].index), "step",
                                        (json_int_t)map->loop[i].step, "extent",
                                        (json_int_t)map->loop[i].extent));
    json_object_set_new(json, "text", json_string(map->text));
    json_object_set_new(json, "levels", levels);
    json_object_set_new(json, "loops", loops);
    const talc_pipeline *p = &map->pipeline;
    json_object_set_new(json, "pipeline",
                        p->buffers == 0 ? json_null()
                                        : json_pack("{s:i, s:i, s:i, s:i}", "loaders", p->loaders,
                                                    "multipliers", p->multipliers, "buffers",
                                                    p->buffers, "lag", p->lag));
    json_object_set_new(json, "owners", owners_json(t->trace, index, map, t->element));
    if (t->arguments->all) {
        json_t *table = json_array();
        for (int64_t i = 0; i < t->trace->result.count; i++)
            json_array_append_new(table, owners_json(t->trace, index, map, i));
        json_object_set_new(json, "owner_table", table);
    }
    if (t->arguments->traffic) {
        talc_trace_count counts[MAX_COUNTS];
        const int count = talc_trace_traffic(t->trace, index, counts, MAX_COUNTS);
        json_t *traffic = json_array();
        for (int i = 0; i < count; i++)
            json_array_append_new(traffic, json_pack("{s:s, s:s, s:f, s:f}", "name", counts[i].name,
                                                     "unit", counts[i].unit, "count",
                                                     counts[i].count, "least", counts[i].least));
        json_object_set_new(json, "traffic", traffic);
        talc_error_clear();
    }
}

static json_t *algorithms_json(const traced *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(t->trace, i);
        if (!is_wanted(t, a.name, a.form))
            continue;
        json_t *json = json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:b}", "device", a.device,
                                 "name", a.name, "form", tool_json_text(a.form), "title", a.title,
                                 "precision", talc_precision_name(a.precision), "target", a.target,
                                 "refusal", tool_json_text(a.refusal), "map", (int)a.has_map);
        if (a.has_map)
            add_map(t, i, a.map, json);
        json_array_append_new(list, json);
    }
    return list;
}

static int print_json(const traced *t)
{
    static const char *const directions[] = { "forward", "grad_input", "grad_weight" };
    const talc_trace *trace = t->trace;
    json_t *measured = json_array();
    for (int i = 0; i < t->measured; i++) {
        const talc_trace_measurement *m = &t->measurements[i];
        json_array_append_new(
            measured, json_pack("{s:s, s:s, s:I, s:I, s:I}", "device", talc_device_name(t->device),
                                "algorithm", m->algorithm, "runs", (json_int_t)m->runs, "pairs",
                                (json_int_t)m->pairs, "wrong", (json_int_t)m->wrong));
    }
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I}, s:o, s:o, s:o}", "schema",
        "talc.trace/1", "problem", trace->text, "direction", directions[trace->problem.direction],
        "first", operand_json(&trace->first), "second", operand_json(&trace->second), "result",
        operand_json(&trace->result), "product", "products", (json_int_t)trace->products, "rows",
        (json_int_t)trace->rows, "inner", (json_int_t)trace->inner, "columns",
        (json_int_t)trace->columns, "element", element_json(trace, t->element), "measured",
        measured, "algorithms", algorithms_json(t));
    if (t->arguments->all) {
        json_t *elements = json_array();
        for (int64_t i = 0; i < trace->result.count; i++)
            json_array_append_new(elements, element_json(trace, i));
        json_object_set_new(json, "elements", elements);
    }
    return tool_json_print(json);
}

// ---- The command --------------------------------------------------------------------------------

/* Of every algorithm of the device that can do the problem, or of the one that is asked for. */
static bool measure(traced *t)
{
    const unsigned every = TALC_STRICT | TALC_NORMWISE | TALC_TF32;
    talc_conv2d_explanation e;
    const talc_conv2d_options admitted = { .precision = every };
    if (!talc_conv2d_explain(t->device, &t->trace->problem, &admitted, &e))
        return false;
    for (int i = 0; i < e.decision.count && t->measured < MAX_MEASURED; i++) {
        const talc_candidate *c = &e.decision.candidates[i];
        if (c->refused || !is_wanted(t, c->name, c->form))
            continue;
        if (!talc_trace_measure(t->trace, t->device, c->title,
                                c->arithmetic.precision | TALC_STRICT,
                                &t->measurements[t->measured]))
            return false;
        t->measured++;
    }
    return true;
}

static bool find_element(traced *t)
{
    const talc_trace_operand *r = &t->trace->result;
    const char *text = t->arguments->texts[1];
    int64_t at[4] = { 0 };
    if (text != NULL && tool_numbers(text, 4, at) != 4) {
        talc_fail(TALC_BAD_ARGUMENT, "'%s' is no element of %s: four numbers with commas between",
                  TALC_SHOWN(text), r->name);
        return false;
    }
    for (int i = 0; i < 4; i++)
        if (at[i] < 0 || at[i] >= r->dims[i]) {
            talc_fail(TALC_BAD_ARGUMENT, "%s of %s is %lld, and has to be below %lld",
                      names_of(r->name)[i], r->name, (long long)at[i], (long long)r->dims[i]);
            return false;
        }
    t->element = talc_trace_element(r, at);
    return true;
}

static int verdict(const traced *t, int code)
{
    for (int i = 0; i < t->measured; i++)
        if (t->measurements[i].wrong > 0)
            return TOOL_FAILED;
    return code;
}

static int show(traced *t)
{
    if (!find_element(t))
        return tool_usage_talc();
    if (!measure(t) && talc_error_status() != TALC_TOO_LARGE)
        return tool_fail_talc();
    char unmeasured[512];
    snprintf(unmeasured, sizeof unmeasured, "%s", talc_failed() ? talc_error_message() : "");
    talc_error_clear();
    if (!is_known(t))
        return TOOL_FAILED;
    if (t->arguments->tool.json)
        return verdict(t, print_json(t));
    printf("%s\n", t->trace->text);
    print_element(t);
    print_terms(t);
    print_place(t);
    if (t->arguments->all)
        print_matrix(t);
    print_measurements(t);
    if (*unmeasured != '\0')
        printf("not measured: %s\n", unmeasured);
    print_algorithms(t);
    return verdict(t, tool_finish());
}

int command_trace(int argc, char **argv)
{
    arguments self = { .all = false };
    tool_parse(&syntax, argc, argv, &self);
    talc_device *device = tool_open(&self.tool);
    if (device == NULL)
        return tool_fail_talc();
    traced t = { .arguments = &self, .device = device };
    talc_conv2d_problem problem;
    char text[TALC_CONV2D_TEXT];
    if (!problem_read(self.texts[0], &problem))
        return tool_usage_talc();
    t.trace = talc_trace_new(talc_conv2d_problem_text(&problem, text),
                             &(talc_trace_options){ self.gpu, self.cpu });
    if (t.trace == NULL)
        return talc_error_status() == TALC_BAD_ARGUMENT ? tool_usage_talc() : tool_fail_talc();
    const int code = show(&t);
    talc_trace_free(t.trace);
    return code;
}
