#include "tools/show/show.h"

#include <stdlib.h>
#include <string.h>

enum { OWNERS = 64, COUNTS = 16, MAX_THREADS = 1 << 22 };

static const char *const keys[] = { "forward", "dx", "dw" };
double show_fmas(const talc_conv2d_problem *p)
{
    return talc_conv2d_flops(p) / 2;
}

double show_cells(const talc_conv2d_problem *p)
{
    const double N = (double)p->N, C = (double)p->C, OC = (double)p->OC, G = (double)p->groups;
    const double taps = (double)p->KH * (double)p->KW, P = (double)p->OH * (double)p->OW;
    const double x = N * C * ((double)p->H + (double)p->pad_top + (double)p->pad_bottom) *
                     ((double)p->W + (double)p->pad_left + (double)p->pad_right);
    const double w = OC * C / G * taps, y = N * OC * P;
    const double columns = N * C * taps * P;
    const double readers = N * OC * taps * (double)p->H * (double)p->W;
    return 2 * x + 2 * w + 3 * y + (columns > readers ? columns : readers);
}

/* An array of `count` numbers, each the same. */
static json_t *numbers(int64_t count, int64_t value)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(value));
    return array;
}

static void put(json_t *array, int64_t at, int64_t value)
{
    json_array_set_new(array, (size_t)at, json_integer(value));
}

static json_t *kept(json_t *tables, json_t *array)
{
    const size_t count = json_array_size(tables);
    for (size_t i = 0; i < count; i++)
        if (json_equal(json_array_get(tables, i), array)) {
            json_decref(array);
            return json_integer((json_int_t)i);
        }
    json_array_append_new(tables, array);
    return json_integer((json_int_t)count);
}

static json_t *values(const talc_trace_operand *operand)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < operand->count; i++) {
        const double value = operand->values[i];
        const bool whole = value == (double)(int64_t)value;
        json_array_append_new(array, whole ? json_integer((int64_t)value) : tool_real(value));
    }
    return array;
}

static json_t *dims(const talc_trace_operand *operand)
{
    return json_pack("[I,I,I,I]", (json_int_t)operand->dims[0], (json_int_t)operand->dims[1],
                     (json_int_t)operand->dims[2], (json_int_t)operand->dims[3]);
}

/* x with its padding around it. */
static talc_trace_operand padded_of(const talc_conv2d_problem *p)
{
    return (talc_trace_operand){ .dims = { p->N, p->C, p->H + p->pad_top + p->pad_bottom,
                                           p->W + p->pad_left + p->pad_right } };
}

/* The cell of padded x at indices of x, which may lie outside. */
static int64_t cell_of(const talc_conv2d_problem *p, const int64_t at[4])
{
    const talc_trace_operand padded = padded_of(p);
    const int64_t moved[4] = { at[0], at[1], at[2] + p->pad_top, at[3] + p->pad_left };
    return talc_trace_element(&padded, moved);
}

/* The owners of all elements of the result: a table for each level of more than one number. Owners
 * of splits without terms are left out. *copies: how many an element has. */
static json_t *levels_of(talc_trace *trace, int index, const talc_owner_map *map, int64_t count,
                         int64_t *copies, json_t *tables)
{
    json_t *of[TALC_MAP_LEVELS], *levels = json_array();
    int64_t owners[OWNERS * TALC_MAP_LEVELS], split = -1;
    bool used[OWNERS];
    talc_trace_owners(trace, index, 0, owners, OWNERS);
    for (int l = 0; l < map->levels; l++) {
        of[l] = json_array();
        split = map->level[l].kind == TALC_LEVEL_SPLIT ? l : split;
    }
    *copies = 0;
    for (int64_t i = 0; i < count; i++) {
        used[i] = split < 0 ||
                  talc_trace_terms_of_split(trace, map, owners[i * map->levels + split]) != 0;
        *copies += used[i];
    }
    for (int64_t e = 0; e < trace->result.count; e++) {
        const bool found = talc_trace_owners(trace, index, e, owners, OWNERS) == count;
        for (int64_t i = 0; i < count * map->levels; i++)
            if (used[i / map->levels])
                json_array_append_new(of[i % map->levels], json_integer(found ? owners[i] : -1));
    }
    for (int l = 0; l < map->levels; l++) {
        const bool one = map->level[l].extent == 1 || (l == split && *copies == 1);
        if (l > 0 && one)
            json_decref(of[l]);
        else
            json_array_append_new(
                levels, json_pack("{s:s, s:s, s:I, s:o}", "name", map->level[l].name, "kind",
                                  talc_level_kind_name(map->level[l].kind), "extent",
                                  (json_int_t)map->level[l].extent, "of", kept(tables, of[l])));
    }
    return levels;
}

/* Where each loop stands at term k. */
static json_t *loops_of(const talc_trace *trace, const talc_owner_map *map, json_t *tables)
{
    const int64_t taps = trace->problem.KH * trace->problem.KW;
    json_t *loops = json_array();
    for (int l = 0; l < map->loops; l++) {
        const talc_loop *loop = &map->loop[l];
        json_t *of = json_array();
        for (int64_t k = 0; k < trace->inner; k++) {
            json_array_append_new(of, json_integer(talc_loop_at(loop, k, taps)));
        }
        json_array_append_new(loops, json_pack("{s:s, s:s, s:I, s:o}", "name", loop->name, "kind",
                                               talc_level_kind_name(loop->kind), "extent",
                                               (json_int_t)loop->extent, "of", kept(tables, of)));
    }
    return loops;
}

/* Whether a map has so many threads and registers that looking through them takes long. */
static bool is_long(const talc_owner_map *map)
{
    double threads = 1;
    for (int l = 0; l < map->levels; l++)
        threads *= (double)map->level[l].extent;
    return threads > MAX_THREADS;
}

/* Those that tell who computes what, each in a table, and why the others do not. */
static void add_algorithms(talc_trace *trace, json_t *tables, json_t *direction)
{
    json_t *all = json_array(), *others = json_array();
    for (int i = 0; i < trace->algorithms; i++) {
        const talc_trace_algorithm a = talc_trace_algorithm_at(trace, i);
        const char *tf32 = a.precision == TALC_TF32 ? ", TF32" : "";
        const bool too_long = a.has_map && is_long(a.map);
        const int64_t owners = a.has_map && !too_long ? talc_trace_owners(trace, i, 0, NULL, 0) : 0;
        if (owners <= 0 || owners > OWNERS) {
            const char *why = a.refusal != NULL ? a.refusal
                              : too_long        ? "too many threads to look through"
                                                : "no map yet";
            json_array_append_new(others, json_sprintf("%s %s%s: %s%s", a.device, a.title, tf32,
                                                       a.refusal != NULL ? "refuses: " : "", why));
            continue;
        }
        talc_trace_count counts[COUNTS];
        const int count = talc_trace_traffic(trace, i, counts, COUNTS);
        json_t *counted = json_array(), *traffic = json_array();
        for (int c = 0; c < count && c < COUNTS; c++) {
            json_array_append_new(counted, json_pack("[s,s]", counts[c].name, counts[c].unit));
            json_array_append_new(traffic, json_pack("[I,I]", (json_int_t)counts[c].count,
                                                     (json_int_t)counts[c].least));
        }
        int64_t copies = 0;
        json_t *levels = levels_of(trace, i, a.map, owners, &copies, tables);
        json_t *algorithm = json_pack(
            "{s:s, s:o, s:s, s:s, s:I, s:o, s:o, s:o, s:o}", "device", a.device, "name",
            json_sprintf("%s%s", a.title, tf32), "target", a.target, "plan", a.map->text, "copies",
            (json_int_t)copies, "levels", levels, "loops", loops_of(trace, a.map, tables),
            "counted", kept(tables, counted), "traffic", traffic);
        json_array_append_new(all, kept(tables, algorithm));
    }
    json_object_set_new(direction, "algorithms", all);
    json_object_set_new(direction, "others", kept(tables, others));
}

/* Both matrices as elements of the operands (of x, cells of padded x), where each result stands in
 * the product, and the indices that the terms count. */
static bool product_of(talc_trace *trace, json_t *tables, json_t *direction)
{
    enum { INDICES = 4 };
    static const char *const names[][INDICES] = { { NULL, "ic", "kh", "kw" },
                                                  { "oc", NULL, "kh", "kw" },
                                                  { "n", NULL, "oh", "ow" } };
    const talc_conv2d_problem *p = &trace->problem;
    const int64_t inner = trace->inner, rows = trace->rows, columns = trace->columns;
    talc_trace_term *terms = calloc((size_t)inner + 1, sizeof *terms);
    if (terms == NULL)
        return talc_fail(TALC_NO_MEMORY, "out of memory for %lld terms", (long long)inner);
    json_t *a = numbers(trace->products * rows * inner, -1), *row = json_array();
    json_t *b = numbers(trace->products * columns * inner, -1), *column = json_array();
    json_t *index[INDICES], *loops = json_array();
    int64_t extents[INDICES] = { 0 };
    for (int i = 0; i < INDICES; i++)
        index[i] = numbers(inner, -1);
    for (int64_t e = 0; e < trace->result.count; e++) {
        const talc_trace_place place = talc_trace_place_of(trace, e);
        const int64_t in_a = place.product * rows + place.row;
        const int64_t in_b = place.product * columns + place.column;
        json_array_append_new(row, json_integer(in_a));
        json_array_append_new(column, json_integer(in_b));
        const int64_t count = talc_trace_terms(trace, e, terms, inner);
        for (int64_t t = 0; t < count && t < inner; t++) {
            const talc_trace_term *term = &terms[t];
            put(a, in_a * inner + term->k, term->first_element);
            put(b, in_b * inner + term->k,
                p->direction == TALC_GRAD_INPUT ? term->second_element : cell_of(p, term->second));
            for (int i = 0; i < INDICES; i++)
                if (json_integer_value(json_array_get(index[i], (size_t)term->k)) < 0) {
                    put(index[i], term->k, term->first[i]);
                    extents[i] = term->first[i] >= extents[i] ? term->first[i] + 1 : extents[i];
                }
        }
    }
    free(terms);
    for (int i = 0; i < INDICES; i++)
        if (names[p->direction][i] == NULL)
            json_decref(index[i]);
        else
            json_array_append_new(
                loops, json_pack("{s:s, s:I, s:o}", "name", names[p->direction][i], "extent",
                                 (json_int_t)extents[i], "of", kept(tables, index[i])));
    json_object_set_new(direction, "a", kept(tables, a));
    json_object_set_new(direction, "b", kept(tables, b));
    json_object_set_new(direction, "row", kept(tables, row));
    json_object_set_new(direction, "column", kept(tables, column));
    json_object_set_new(direction, "loops", loops);
    return true;
}

static bool add_direction(talc_trace *trace, json_t *tables, json_t *variant)
{
    json_t *direction =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:I}", "text", trace->text, "products",
                  (json_int_t)trace->products, "rows", (json_int_t)trace->rows, "columns",
                  (json_int_t)trace->columns, "inner", (json_int_t)trace->inner, "fmas",
                  show_fmas(&trace->problem), "first", (json_int_t)(trace->columns / 2));
    add_algorithms(trace, tables, direction);
    json_object_set_new(json_object_get(variant, "directions"), keys[trace->problem.direction],
                        direction);
    const talc_trace_operand *operands[] = { &trace->first, &trace->second, &trace->result };
    for (int i = 0; i < 3; i++) {
        const talc_trace_operand *operand = operands[i];
        const size_t d = strlen(operand->name) - 1; /* dx is as large as x */
        json_object_set_new(json_object_get(variant, "values"), operand->name,
                            kept(tables, values(operand)));
        json_object_set_new(json_object_get(variant, "shapes"), operand->name + d, dims(operand));
    }
    return product_of(trace, tables, direction);
}

json_t *show_variant(const talc_conv2d_problem *problem, const talc_trace_options *options,
                     json_t *tables)
{
    talc_conv2d_problem p = *problem;
    const talc_trace_operand padded = padded_of(&p);
    json_t *inside = numbers(p.N * p.C * padded.dims[2] * padded.dims[3], -1);
    json_t *variant = json_pack("{s:o, s:{}, s:{}, s:{s:o}}", "problem", tool_json_problem(&p),
                                "directions", "values", "shapes", "p", dims(&padded));
    bool done = true;
    for (int d = 0; d < 3 && done; d++) {
        char text[TALC_CONV2D_TEXT];
        p.direction = (talc_direction)d;
        talc_trace *trace = talc_trace_new(talc_conv2d_problem_text(&p, text), options);
        done = trace != NULL && add_direction(trace, tables, variant);
        for (int64_t e = 0; done && d == 0 && e < trace->second.count; e++) {
            int64_t at[4];
            talc_trace_indices(&trace->second, e, at);
            put(inside, cell_of(&p, at), e);
        }
        talc_trace_free(trace);
    }
    json_object_set_new(variant, "inside", kept(tables, inside));
    if (done && !talc_failed())
        return variant;
    json_decref(variant);
    return NULL;
}
