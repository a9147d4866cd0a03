/// Who computes what, as the maps of the backends' tables tell it, and what that moves.
#include "check/conv2d/trace.h"

#include "backends/backends.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OWNERS = 1 << 26 };

// ---- Algorithms ---------------------------------------------------------------------------------

/* What plans depend on. */
static const struct {
    talc_map_target target;
    const char *backend;
    size_t limit; /* of workspace, as talc_workspace_limit has it at first */
} targets[] = {
    { { "portable", 1 << 20, 0, 0, 0 }, "cpu", (size_t)32 << 20 },
    { { "avx2", 1 << 20, 0, 0, 0 }, "cpu", (size_t)32 << 20 },
    { { "avx512", 1 << 20, 0, 0, 0 }, "cpu", (size_t)32 << 20 },
    { { "h200", 0, 90, 132, 227 << 10 }, "cuda", (size_t)512 << 20 },
    { { "h100", 0, 90, 132, 227 << 10 }, "cuda", (size_t)512 << 20 },
    { { "a100", 0, 80, 108, 163 << 10 }, "cuda", (size_t)512 << 20 },
};

static int target_of(const char *backend, const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].backend, backend) == 0 && strcmp(targets[i].target.name, name) == 0)
            return (int)i;
    talc_fail(TALC_BAD_ARGUMENT, "trace: '%s' is no %s that plans are known for (%s)",
              TALC_SHOWN(name), strcmp(backend, "cpu") == 0 ? "processor" : "GPU",
              strcmp(backend, "cpu") == 0 ? "portable, avx2, avx512" : "h200, h100, a100");
    return -1;
}

static void add_algorithm(trace_record *record, const talc_mapped_algorithm *from, int target,
                          bool here)
{
    trace_algorithm *a = &record->algorithms[record->base.algorithms++];
    talc_map_target planned_for = targets[target].target;
    if (here)
        planned_for.cache_bytes = 0;
    a->shown = (talc_trace_algorithm){ .device = targets[target].backend,
                                       .name = from->name,
                                       .form = from->form,
                                       .target = targets[target].target.name,
                                       .precision = from->precision };
    const talc_algorithm titled = { .name = from->name, .form = from->form };
    talc_algorithm_text(&titled, a->shown.title);
    if (from->map == NULL)
        return;
    a->shown.refusal =
        from->map(&planned_for, &record->base.problem, targets[target].limit, &a->map);
    a->shown.has_map = a->shown.refusal == NULL;
    if (!a->shown.has_map && strcmp(a->shown.refusal, TALC_NO_MAP) == 0)
        a->shown.refusal = NULL;
    a->shown.map = a->shown.has_map ? &a->map : NULL;
}

bool talc_trace_find_algorithms(trace_record *record, const talc_trace_options *options)
{
    const bool here = options->cpu == NULL;
    const char *const names[] = { here ? talc_build_info().vectors : options->cpu,
                                  options->gpu == NULL ? "h200" : options->gpu };
    static const char *const backends[] = { "cpu", "cuda" };
    for (int i = 0; i < 2; i++) {
        const int target = target_of(backends[i], names[i]);
        const talc_mapped_algorithm *list = talc_mapped_algorithms(backends[i]);
        if (target < 0 || list == NULL)
            return false;
        for (; list->name != NULL && record->base.algorithms < TRACE_ALGORITHMS; list++)
            add_algorithm(record, list, target, here && i == 0);
    }
    return true;
}

talc_trace_algorithm talc_trace_algorithm_at(const talc_trace *trace, int index)
{
    const trace_record *record = (const trace_record *)trace;
    return index >= 0 && index < trace->algorithms ? record->algorithms[index].shown
                                                   : (talc_trace_algorithm){ .name = NULL };
}

// ---- Owners -------------------------------------------------------------------------------------

void talc_trace_numbers(const talc_owner_map *map, int64_t index, int64_t numbers[])
{
    for (int level = map->levels - 1; level >= 0; level--) {
        numbers[level] = index % map->level[level].extent;
        index /= map->level[level].extent;
    }
}

static int64_t splits_of(const talc_owner_map *map, int *level)
{
    for (*level = 0; *level < map->levels; ++*level)
        if (map->level[*level].kind == TALC_LEVEL_SPLIT)
            return map->level[*level].extent;
    return 1;
}

static bool is_wrong(const talc_trace *t, const trace_algorithm *a, int64_t element,
                     const char *what)
{
    talc_fail(TALC_BAD_FORMAT, "trace: the map of %s %s gives element %lld of %s, of %lld, %s",
              a->shown.device, a->shown.title, (long long)element, t->result.name,
              (long long)t->result.count, what);
    return false;
}

/* Looks through all owners for what they compute: each element once, or once a split. */
static bool look_through(const talc_trace *t, trace_algorithm *a, int64_t total)
{
    const talc_owner_map *map = &a->map;
    int level;
    a->splits = splits_of(map, &level);
    const int64_t count = t->result.count * a->splits;
    int64_t *owners = talc_memory_new((size_t)count * sizeof *owners + 1, "a trace's owners");
    if (owners == NULL)
        return false;
    memset(owners, -1, (size_t)count * sizeof *owners);
    bool right = true;
    for (int64_t i = 0; i < total && right; i++) {
        int64_t numbers[TALC_MAP_LEVELS];
        talc_trace_numbers(map, i, numbers);
        const int64_t element = map->element(map, numbers);
        if (element == -1)
            continue;
        if (element < 0 || element >= t->result.count) {
            right = is_wrong(t, a, element, "which there is not");
            continue;
        }
        int64_t *owner = &owners[element * a->splits + (a->splits > 1 ? numbers[level] : 0)];
        right = *owner < 0 || is_wrong(t, a, element, "two owners");
        *owner = i;
    }
    for (int64_t i = 0; i < count && right; i++)
        right = owners[i] >= 0 || is_wrong(t, a, i / a->splits, "no owner");
    if (right)
        a->owners = owners;
    else
        talc_memory_free(owners);
    return right;
}

static bool find_owners(talc_trace *trace, trace_algorithm *a)
{
    int64_t total = 1;
    for (int i = 0; i < a->map.levels; i++)
        if (!talc_multiply(total, a->map.level[i].extent, &total) || total > MAX_OWNERS) {
            talc_fail(TALC_TOO_LARGE, "trace: %s has more than %d owners to look through",
                      a->shown.title, MAX_OWNERS);
            return false;
        }
    return a->owners != NULL || look_through(trace, a, total);
}

trace_algorithm *talc_trace_mapped(talc_trace *trace, int algorithm)
{
    trace_record *record = (trace_record *)trace;
    if (talc_operand_missing("trace", "trace", trace))
        return NULL;
    if (algorithm < 0 || algorithm >= trace->algorithms ||
        !record->algorithms[algorithm].shown.has_map) {
        talc_fail(TALC_BAD_ARGUMENT, "trace: algorithm %d has no map", algorithm);
        return NULL;
    }
    trace_algorithm *a = &record->algorithms[algorithm];
    return find_owners(trace, a) ? a : NULL;
}

int64_t talc_trace_owners(talc_trace *trace, int algorithm, int64_t element, int64_t *numbers,
                          int64_t capacity)
{
    const trace_algorithm *a = talc_trace_mapped(trace, algorithm);
    if (a == NULL)
        return -1;
    if (element < 0 || element >= trace->result.count) {
        talc_fail(TALC_BAD_ARGUMENT, "trace: there is no element %lld of %s, which has %lld",
                  (long long)element, trace->result.name, (long long)trace->result.count);
        return -1;
    }
    for (int64_t i = 0; i < a->splits && i < capacity; i++)
        talc_trace_numbers(&a->map, a->owners[element * a->splits + i],
                           numbers + i * a->map.levels);
    return a->splits;
}

int64_t talc_trace_terms_of_split(const talc_trace *trace, const talc_owner_map *map, int64_t split)
{
    for (int i = 0; i < map->loops; i++) {
        int64_t count = 0;
        for (int64_t k = 0; k < trace->inner; k++)
            count += talc_loop_at(&map->loop[i], k, trace->problem.KH * trace->problem.KW) == split;
        if (map->loop[i].kind == TALC_LEVEL_SPLIT)
            return count;
    }
    return -1;
}
